//! Cumulative distribution functions and quantiles of the distributions behind confidence intervals and tests.
//!
//! With the regularized incomplete beta function I_x(a, b) (DLMF 8.17.2) and the regularized incomplete gamma
//! functions P(a, x) and Q(a, x) = 1 - P(a, x) (DLMF 8.2.4):
//!
//! | distribution | function |
//! |---|---|
//! | Student's t, f degrees of freedom | P(T <= t) = I_x(f/2, 1/2) / 2 with x = f / (f + t^2), for t <= 0; symmetric |
//! | chi-square, f degrees of freedom | P(X <= x) = P(f/2, x/2) |
//! | beta(a, b) | P(X <= x) = I_x(a, b) |
//! | binomial(n, p) | P(X <= k) = I_(1-p)(n - k, k + 1) (DLMF 8.17.5) |
//! | Kolmogorov | P(K > x) = 2 sum_(j >= 1) (-1)^(j-1) exp(-2 j^2 x^2) (Kolmogorov 1933) |
//!
//! I, P and Q are those of CDFLIB (Brown, Lovato & Russell 1994) in the crate `cdflib`: TOMS algorithm 708 (Didonato &
//! Morris 1992) for beta, 654 (DiDonato & Morris 1987) for gamma. They return both tails, each to full relative precision.
//! The crate's own quantiles stop at a relative error of 1e-8, so quantiles are found here by bisection of whichever tail
//! is smaller. The variable is u = ln x for gamma and u = ln(x / (1 - x)) for beta: an absolute error of u is a relative
//! error of the quantile, however close to an end of the support the quantile is.
//!
//! Tails are accurate to a relative error of 5e-12 down to 1e-250, quantiles to 1e-12, for parameters from 0.05 to 1e6
//! (1e9 for Student's t); further down, the terms of some beta tails underflow, in SciPy as well as here.
//!
//! A function returns NaN for a parameter or probability outside its documented range; nothing panics.

use cdflib::special::{beta_log, gamma_log, try_beta_inc, try_gamma_inc};

/// Beyond this, e^u is so small that the first term of the series of I and P in e^u equals their value to all digits,
/// while e^u itself soon underflows (at -745).
const FAR: f64 = 690.0;

/// From here on Student's t is the normal distribution: its quantiles differ by (z^2 + 1) / (4 f) of their value, less than
/// half an epsilon for every |z| < 38, that is for every probability above 1e-315.
const NORMAL: f64 = 1e19;

/// Returns the quantile `p` in [0, 1] of Student's t with `freedom` > 0 degrees, which need not be an integer and may be
/// infinite (the normal distribution). Minus infinity at 0, infinity at 1; NaN outside these ranges.
///
/// # Example
///
/// ```
/// use veridical_core::distributions::student_quantile;
///
/// // One degree of freedom is the Cauchy distribution: tan(pi (p - 1/2)).
/// assert!((student_quantile(0.75, 1.0) - 1.0).abs() < 1e-14);
/// assert_eq!(student_quantile(0.5, 3.5), 0.0);
/// ```
pub fn student_quantile(p: f64, freedom: f64) -> f64 {
    if !(0.0..=1.0).contains(&p) || !positive(freedom) {
        return f64::NAN;
    }
    let tail = p.min(1.0 - p);
    // The tails of |T|: outside and inside of the quantile. Next to the median 1 - 2 tail is exact.
    let (outside, inside) = (2.0 * tail, 1.0 - 2.0 * tail);
    let size = if inside == 0.0 {
        0.0
    } else if tail == 0.0 {
        f64::INFINITY
    } else if freedom >= NORMAL {
        (2.0 * gamma_log_quantile(inside, outside, 0.5).exp()).sqrt()
    } else {
        // x = f / (f + t^2) is beta(f/2, 1/2), so u = ln(x / (1 - x)) = ln(f / t^2).
        freedom.sqrt() * (-0.5 * beta_logit_quantile(outside, inside, 0.5 * freedom, 0.5)).exp()
    };
    if p < 0.5 { -size } else { size }
}

/// Returns P(T <= `t`) of Student's t with `freedom` > 0 degrees, which need not be an integer and may be infinite (the normal
/// distribution). NaN for any other `freedom`.
///
/// # Example
///
/// ```
/// use veridical_core::distributions::student_cdf;
///
/// assert!((student_cdf(-1.0, 1.0) - 0.25).abs() < 1e-15);
/// ```
pub fn student_cdf(t: f64, freedom: f64) -> f64 {
    if t.is_nan() || !positive(freedom) {
        return f64::NAN;
    }
    let outside = if freedom >= NORMAL {
        gamma_tails(0.5, 0.5 * t * t).1
    } else {
        let ratio = t.abs() / freedom.sqrt();
        let u = -2.0 * ratio.ln();
        if u < -FAR {
            beta_first_term(u, 0.5 * freedom, 0.5).exp()
        } else {
            let square = ratio * ratio;
            let (x, y) = (1.0 / (1.0 + square), square / (1.0 + square));
            beta_tails(0.5 * freedom, 0.5, x, y).0
        }
    };
    if t < 0.0 { 0.5 * outside } else { 1.0 - 0.5 * outside }
}

/// Returns the quantile `p` in [0, 1] of the chi-square distribution with finite `freedom` > 0 degrees, which need not be an
/// integer: 0 at 0, infinity at 1; NaN outside these ranges.
///
/// # Example
///
/// ```
/// use veridical_core::distributions::chi_square_quantile;
///
/// // Two degrees of freedom are an exponential distribution of mean 2.
/// assert!((chi_square_quantile(0.5, 2.0) / (2.0 * 2f64.ln()) - 1.0).abs() < 1e-14);
/// ```
pub fn chi_square_quantile(p: f64, freedom: f64) -> f64 {
    if !(0.0..=1.0).contains(&p) || !positive(freedom) || freedom.is_infinite() {
        f64::NAN
    } else if p == 0.0 {
        0.0
    } else if p == 1.0 {
        f64::INFINITY
    } else {
        2.0 * gamma_log_quantile(p, 1.0 - p, 0.5 * freedom).exp()
    }
}

/// Returns P(X > `x`) of the chi-square distribution with finite `freedom` > 0 degrees, which need not be an integer; 1 for
/// negative `x`. NaN for any other `freedom`, and where `freedom` is above 1e28 and `x` too close to it for doubles to distinguish.
///
/// # Example
///
/// ```
/// use veridical_core::distributions::chi_square_sf;
///
/// assert!((chi_square_sf(3.0, 2.0) / (-1.5f64).exp() - 1.0).abs() < 1e-14);
/// ```
pub fn chi_square_sf(x: f64, freedom: f64) -> f64 {
    if !positive(freedom) || freedom.is_infinite() {
        f64::NAN
    } else {
        gamma_tails(0.5 * freedom, 0.5 * x).1
    }
}

/// Returns the quantile `p` in [0, 1] of the beta distribution with finite `a`, `b` > 0: 0 at 0, 1 at 1; NaN outside these ranges.
///
/// # Example
///
/// ```
/// use veridical_core::distributions::beta_quantile;
///
/// // beta(1/2, 1/2) is the arcsine distribution: sin^2(pi p / 2).
/// assert!((beta_quantile(1.0 / 3.0, 0.5, 0.5) - 0.25).abs() < 1e-14);
/// ```
pub fn beta_quantile(p: f64, a: f64, b: f64) -> f64 {
    if !(0.0..=1.0).contains(&p) || !positive(a) || !positive(b) || (a + b).is_infinite() {
        f64::NAN
    } else if p == 0.0 || p == 1.0 {
        p
    } else {
        1.0 / (1.0 + (-beta_logit_quantile(p, 1.0 - p, a, b)).exp())
    }
}

/// Returns P(X <= `x`) of the beta distribution with finite `a`, `b` > 0: 0 below 0, 1 above 1; NaN for other parameters.
///
/// # Example
///
/// ```
/// use veridical_core::distributions::beta_cdf;
///
/// assert!((beta_cdf(0.25, 0.5, 0.5) - 1.0 / 3.0).abs() < 1e-15);
/// ```
pub fn beta_cdf(x: f64, a: f64, b: f64) -> f64 {
    if x.is_nan() || !positive(a) || !positive(b) || (a + b).is_infinite() {
        return f64::NAN;
    }
    let x = x.clamp(0.0, 1.0);
    beta_tails(a, b, x, 1.0 - x).0
}

/// Returns P(X <= `k`) of the number of successes in `n` independent trials of probability `p` in [0, 1]; NaN for any other `p`.
///
/// # Example
///
/// ```
/// use veridical_core::distributions::binomial_cdf;
///
/// assert!((binomial_cdf(1, 3, 0.5) - 0.5).abs() < 1e-15);
/// ```
pub fn binomial_cdf(k: u64, n: u64, p: f64) -> f64 {
    if !(0.0..=1.0).contains(&p) {
        f64::NAN
    } else if k >= n {
        1.0
    } else {
        beta_tails((n - k) as f64, k as f64 + 1.0, 1.0 - p, p).0
    }
}

/// Returns P(K > `x`) of the Kolmogorov distribution: the limit, as n grows, of sqrt(n) times the largest distance between the
/// cdf of a continuous distribution and the empirical cdf of n independent samples from it. 1 up to `x` = 0; NaN for NaN.
///
/// From 1 on, computed by the alternating series of the header; below 1, by Jacobi's transformation of it (Feller 1948),
/// P(K <= x) = sqrt(2 pi) / x sum_(j >= 1) exp(-(2j - 1)^2 pi^2 / (8 x^2)). At the switch the terms left out are 2 e^-72
/// of the first and, next to it, e^-99 of the second.
///
/// # Example
///
/// ```
/// use veridical_core::distributions::kolmogorov_sf;
///
/// // The 5 % point of the test.
/// assert!((kolmogorov_sf(1.358_098_639_322_550_7) - 0.05).abs() < 1e-15);
/// ```
pub fn kolmogorov_sf(x: f64) -> f64 {
    use std::f64::consts::{PI, TAU};
    if x >= 1.0 {
        let term = |j: f64| (-2.0 * j * j * x * x).exp();
        2.0 * (term(1.0) - term(2.0) + term(3.0) - term(4.0) + term(5.0))
    } else if x > 0.04 {
        let term = |odd: f64| (-(odd * PI / x).powi(2) / 8.0).exp();
        1.0 - TAU.sqrt() / x * (term(1.0) + term(3.0) + term(5.0) + term(7.0))
    } else if x.is_nan() {
        f64::NAN
    } else {
        // The first term is below e^-771: zero, and for the smallest x it would be 0 times infinity.
        1.0
    }
}

/// Whether a parameter is above 0, which NaN is not.
fn positive(parameter: f64) -> bool {
    parameter > 0.0
}

/// Both tails of beta(a, b) at x = 1 - y.
fn beta_tails(a: f64, b: f64, x: f64, y: f64) -> (f64, f64) {
    try_beta_inc(a, b, x, y).unwrap_or((f64::NAN, f64::NAN))
}

/// Both tails of gamma(a) at x.
fn gamma_tails(a: f64, x: f64) -> (f64, f64) {
    if x <= 0.0 {
        (0.0, 1.0)
    } else if x.is_infinite() {
        (1.0, 0.0)
    } else {
        try_gamma_inc(a, x).unwrap_or((f64::NAN, f64::NAN))
    }
}

/// ln(e^(au) / (a B(a, b))), where e^(au) / (a B(a, b)) is the first term of I_x(a, b) for x = 1 / (1 + e^-u).
fn beta_first_term(u: f64, a: f64, b: f64) -> f64 {
    a * u - a.ln() - beta_log(a, b)
}

/// u = ln(x / (1 - x)) at the quantile x of beta(a, b) that has `lower` below and `upper` = 1 - `lower` above, both
/// above 0.
///
/// u has the density e^(au) (1 + e^u)^(-a-b) / B(a, b), which is below e^(au) / B(a, b) and below e^(-bu) / B(a, b).
/// Integrals of these two from either side bound the quantile, and where a bound is beyond -690 or 690 it is the
/// quantile.
fn beta_logit_quantile(lower: f64, upper: f64, a: f64, b: f64) -> f64 {
    let low = (lower.ln() - beta_first_term(0.0, a, b)) / a;
    let high = -(upper.ln() - beta_first_term(0.0, b, a)) / b;
    if low < -FAR {
        low
    } else if high > FAR {
        high
    } else {
        bisect(low, high, |u| {
            let (below, above) = beta_tails(a, b, 1.0 / (1.0 + (-u).exp()), 1.0 / (1.0 + u.exp()));
            if lower < upper { below - lower } else { upper - above }
        })
    }
}

/// u = ln x at the quantile x of gamma(a) that has `lower` below and `upper` = 1 - `lower` above, both above 0.
///
/// u has the density exp(au - e^u) / Gamma(a), which is below e^(au) / Gamma(a): this bounds the quantile from below, and
/// beyond -690 it is the quantile. From above, x <= a + sqrt(2 a t) + t with t = -ln `upper` (Laurent & Massart 2000,
/// lemma 1).
fn gamma_log_quantile(lower: f64, upper: f64, a: f64) -> f64 {
    let low = (lower.ln() + gamma_log(a + 1.0)) / a;
    let t = -upper.ln();
    let high = (a + (2.0 * a * t).sqrt() + t).ln();
    if low < -FAR {
        low
    } else {
        bisect(low, high, |u| {
            let (below, above) = gamma_tails(a, u.exp());
            if lower < upper { below - lower } else { upper - above }
        })
    }
}

/// Where the increasing function `excess` turns from negative to positive between `low` and `high`: to half an epsilon,
/// which is all that e^u can resolve, or to the last digit if that is coarser. NaN where `excess` is NaN.
fn bisect(mut low: f64, mut high: f64, excess: impl Fn(f64) -> f64) -> f64 {
    loop {
        let middle = 0.5 * (low + high);
        if high - low < 0.5 * f64::EPSILON || middle <= low || high <= middle {
            return middle;
        }
        let at = excess(middle);
        if at.is_nan() {
            return f64::NAN;
        }
        if at < 0.0 { low = middle } else { high = middle }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;
    use std::f64::consts::PI;

    /// The oracle is accurate to 1e-12, tails to 5e-12 (header). A tail of 1e-300 has a logarithm of 690, accurate to 690 eps =
    /// 1.5e-13; a quantile is off by as much over d ln(tail) / d ln(x), which is at least half the smallest freedom,
    /// 0.025: 6e-12.
    #[test]
    fn laws_and_quantiles_are_those_of_scipy() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../tests/oracles/distributions/distributions.json"
        );
        let oracle: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        type Law = fn(&[f64]) -> f64;
        let laws: [(&str, Law); 8] = [
            ("student_quantile", |at| student_quantile(at[0], at[1])),
            ("student_cdf", |at| student_cdf(at[0], at[1])),
            ("chi_square_quantile", |at| chi_square_quantile(at[0], at[1])),
            ("chi_square_sf", |at| chi_square_sf(at[0], at[1])),
            ("beta_quantile", |at| beta_quantile(at[0], at[1], at[2])),
            ("beta_cdf", |at| beta_cdf(at[0], at[1], at[2])),
            ("binomial_cdf", |at| binomial_cdf(at[0] as u64, at[1] as u64, at[2])),
            ("kolmogorov_sf", |at| kolmogorov_sf(at[0])),
        ];
        for (name, law) in laws {
            for case in oracle[name].as_array().unwrap() {
                let case: Vec<f64> =
                    case.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect();
                let (want, at) = case.split_last().unwrap();
                let got = law(at);
                assert!(
                    (got - want).abs() <= 1e-11 * want.abs(),
                    "{name}{at:?}: {got} is not {want}"
                );
            }
        }
    }

    /// Where SciPy itself fails: t = -1 / tan(pi p) for one degree of freedom, (2p - 1) / sqrt(2p (1 - p)) for two.
    /// Logarithms up to 690 are accurate to 690 eps = 1.5e-13.
    #[test]
    fn student_quantiles_are_exact_in_the_far_tail_and_next_to_the_median() {
        for p in [1e-300, 1e-200, 1e-17, 1e-9, 0.1] {
            for (freedom, want) in [
                (1.0, -1.0 / (PI * p).tan()),
                (2.0, (2.0 * p - 1.0) / (2.0 * p * (1.0 - p)).sqrt()),
            ] {
                let got = student_quantile(p, freedom);
                assert!((got / want - 1.0).abs() < 1e-12, "{p} of {freedom}: {got} is not {want}");
            }
        }
        for step in [f64::EPSILON, 1e-12, 1e-6] {
            let (above, below) = (0.5 + step, 0.5 - step);
            let got = [student_quantile(above, 1.0), -student_quantile(below, 1.0)];
            let want = [PI * (above - 0.5), PI * (0.5 - below)].map(f64::tan);
            for (got, want) in got.iter().zip(want) {
                assert!((got / want - 1.0).abs() < 1e-12, "{step}: {got} is not {want}");
            }
        }
    }

    /// The two distributions differ by (z^2 + 1) / (4 f) < 1e-18 of z; logarithms of 45 are accurate to 45 eps = 1e-14.
    #[test]
    fn student_joins_the_normal_law() {
        for p in [1e-300, 0.025, 0.3, 0.975] {
            let [student, normal] = [0.99 * NORMAL, f64::INFINITY].map(|f| student_quantile(p, f));
            assert!((student / normal - 1.0).abs() < 1e-12, "{p}: {student} is not {normal}");
            let [student, normal] = [0.99 * NORMAL, f64::INFINITY].map(|f| student_cdf(normal, f));
            assert!((student / normal - 1.0).abs() < 1e-12, "{p}: {student} is not {normal}");
        }
    }

    /// Both series hold on either side of their switch.
    #[test]
    fn the_two_series_of_kolmogorov_meet() {
        let [below, above] = [1.0 - f64::EPSILON, 1.0].map(kolmogorov_sf);
        assert!((below - above).abs() < 8.0 * f64::EPSILON, "{below} {above}");
        assert_eq!(
            [-1.0, 0.0, f64::MIN_POSITIVE, f64::INFINITY].map(kolmogorov_sf),
            [1.0, 1.0, 1.0, 0.0]
        );
    }

    #[test]
    fn ends_of_the_support_are_exact() {
        let infinity = f64::INFINITY;
        assert_eq!([0.0, 0.5, 1.0].map(|p| student_quantile(p, 3.5)), [-infinity, 0.0, infinity]);
        assert_eq!([-infinity, 0.0, infinity].map(|t| student_cdf(t, 3.5)), [0.0, 0.5, 1.0]);
        assert_eq!([0.0, 1.0].map(|p| chi_square_quantile(p, 3.5)), [0.0, infinity]);
        assert_eq!([-1.0, 0.0, infinity].map(|x| chi_square_sf(x, 3.5)), [1.0, 1.0, 0.0]);
        assert_eq!([0.0, 1.0].map(|p| beta_quantile(p, 0.5, 3.5)), [0.0, 1.0]);
        assert_eq!([-1.0, 0.0, 1.0, 2.0].map(|x| beta_cdf(x, 0.5, 3.5)), [0.0, 0.0, 1.0, 1.0]);
        assert_eq!([0.0, 1.0].map(|p| binomial_cdf(2, 5, p)), [1.0, 0.0]);
        assert_eq!([5, 6].map(|k| binomial_cdf(k, 5, 0.5)), [1.0, 1.0]);
    }

    #[test]
    fn what_is_out_of_range_is_nan() {
        for bad in [f64::NAN, -1.0, 0.0, -0.0] {
            assert!(student_quantile(0.3, bad).is_nan() && student_cdf(0.3, bad).is_nan());
            assert!(chi_square_quantile(0.3, bad).is_nan() && chi_square_sf(0.3, bad).is_nan());
            for (a, b) in [(bad, 1.0), (1.0, bad)] {
                assert!(beta_quantile(0.3, a, b).is_nan() && beta_cdf(0.3, a, b).is_nan());
            }
        }
        for bad in [f64::NAN, -1e-300, 1.0 + f64::EPSILON] {
            assert!(student_quantile(bad, 3.0).is_nan() && chi_square_quantile(bad, 3.0).is_nan());
            assert!(beta_quantile(bad, 2.0, 3.0).is_nan() && binomial_cdf(1, 3, bad).is_nan());
        }
        let nan = f64::NAN;
        assert!(student_cdf(nan, 3.0).is_nan() && chi_square_sf(nan, 3.0).is_nan());
        assert!(beta_cdf(nan, 2.0, 3.0).is_nan() && kolmogorov_sf(nan).is_nan());
    }

    proptest! {
        /// Whatever the parameters, the call terminates without a panic and returns a number wherever one exists.
        #[test]
        fn every_parameter_has_an_answer(
            p in 0.0..1.0f64, tail in 0.0..320.0f64, [a, b] in [-300.0..28.0f64, -300.0..28.0]
        ) {
            let [a, b] = [10f64.powf(a), 10f64.powf(b)];
            for p in [p, 10f64.powf(-tail)] {
                let quantiles = [student_quantile(p, a), chi_square_quantile(p, a), beta_quantile(p, a, b)];
                prop_assert!(quantiles.iter().all(|x| !x.is_nan()), "{:?}", quantiles);
                let tails = [student_cdf(quantiles[0], a), chi_square_sf(quantiles[1], a), beta_cdf(quantiles[2], a, b)];
                prop_assert!(tails.iter().all(|x| (0.0..=1.0).contains(x)), "{:?}", tails);
            }
        }

        /// The beta distribution seen from its other end. A quantile is accurate to 1e-12 of itself, its complement to 1e-12.
        #[test]
        fn beta_quantiles_are_symmetric(p in 0.01..0.99f64, [a, b] in [0.05..100.0f64, 0.05..100.0]) {
            let (x, y) = (beta_quantile(p, a, b), beta_quantile(1.0 - p, b, a));
            prop_assert!((x + y - 1.0).abs() < 2e-12, "{} {}", x, y);
        }
    }
}
