//! Moments and order statistics whose value depends on the data and its order alone, not on how
//! the data was cut into chunks.

/// Mean and variance of a growing sample, one value at a time (Welford 1962).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moments {
    count: u64,
    mean: f64,
    sum_of_squares: f64,
}

impl Moments {
    /// Takes one more value.
    #[inline]
    pub fn push(&mut self, x: f64) {
        self.count += 1;
        let delta = x - self.mean;
        self.mean += delta / self.count as f64;
        self.sum_of_squares += delta * (x - self.mean);
    }

    /// Joins another sample to this one (Chan, Golub & LeVeque 1979).
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        let total = self.count + other.count;
        let delta = other.mean - self.mean;
        let share = other.count as f64 / total as f64;
        self.mean += delta * share;
        self.sum_of_squares += other.sum_of_squares + delta * delta * self.count as f64 * share;
        self.count = total;
    }

    /// How many values were taken.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The mean; 0 for no values.
    pub const fn mean(&self) -> f64 {
        self.mean
    }

    /// The population variance (divided by n); 0 for no values.
    pub fn variance(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum_of_squares / self.count as f64 }
    }
}

/// The quantile `q` in [0, 1] of `values` by linear interpolation (NumPy's default), which it
/// reorders. `None` for no values.
pub fn quantile(values: &mut [f64], q: f64) -> Option<f64> {
    let last = values.len().checked_sub(1)?;
    let position = q.clamp(0.0, 1.0) * last as f64;
    let below = position.floor() as usize;
    let (_, &mut low, above) = values.select_nth_unstable_by(below, f64::total_cmp);
    let high = above.iter().copied().min_by(f64::total_cmp).unwrap_or(low);
    Some(low + (high - low) * (position - below as f64))
}

/// The median of `values`, which it reorders. `None` for no values.
pub fn median(values: &mut [f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// An upper bound on the mean of a variable in [0, range] that holds with probability `confidence`,
/// from n independent values: mean + sqrt(2 V ln(2/delta) / n) + 7 range ln(2/delta) / (3 (n - 1)) with
/// the unbiased variance V and delta = 1 - confidence (empirical Bernstein, Maurer & Pontil 2009,
/// theorem 4). Infinite for fewer than two values.
pub fn mean_upper_bound(values: &Moments, range: f64, confidence: f64) -> f64 {
    let n = values.count() as f64;
    if n < 2.0 {
        return f64::INFINITY;
    }
    let log = (2.0 / (1.0 - confidence)).ln();
    let variance = values.variance() * n / (n - 1.0);
    values.mean() + (2.0 * variance * log / n).sqrt() + 7.0 * range * log / (3.0 * (n - 1.0))
}

/// The rank r (from 1) such that the r-th smallest of n independent values is at least the quantile `q`
/// of their law with probability `confidence`, whatever the law: the smallest r with
/// P(Bin(n, q) <= r - 1) >= confidence. `None` if n values are too few to say.
pub fn quantile_bound_rank(n: usize, q: f64, confidence: f64) -> Option<usize> {
    let odds = q.ln() - (-q).ln_1p();
    let mut log_probability = n as f64 * (-q).ln_1p();
    let mut below = 0.0;
    for k in 0..n {
        below += log_probability.exp();
        if below >= confidence {
            return Some(k + 1);
        }
        log_probability += ((n - k) as f64 / (k + 1) as f64).ln() + odds;
    }
    None
}

/// The 97.5 % quantile of Student's t with `freedom` >= 1 degrees, which need not be whole: how many standard
/// errors a 95 % interval reaches to each side. Infinite below 1.
///
/// With x = sqrt(n) tan a the density is proportional to cos(a)^(n-1) on (-pi/2, pi/2); its integral is taken by
/// the trapezoidal rule. From 100 on, the expansion about the normal quantile z (Fisher & Cornish 1960) is right to
/// 1e-6.
pub fn student_975(freedom: f64) -> f64 {
    const Z: f64 = 1.959_963_984_540_054;
    const STEPS: u32 = 20_000;
    if freedom.is_nan() || freedom < 1.0 {
        return f64::INFINITY;
    }
    if freedom >= 100.0 {
        let first = (Z.powi(3) + Z) / 4.0;
        let second = (5.0 * Z.powi(5) + 16.0 * Z.powi(3) + 3.0 * Z) / 96.0;
        return Z + first / freedom + second / (freedom * freedom);
    }
    let step = std::f64::consts::FRAC_PI_2 / f64::from(STEPS);
    let density = |at: u32| (step * f64::from(at)).cos().max(0.0).powf(freedom - 1.0);
    let piece = |at: u32| 0.5 * (density(at) + density(at + 1));
    let mut left = 0.95 * (0..STEPS).map(piece).sum::<f64>();
    let mut at = 0;
    while left > piece(at) {
        left -= piece(at);
        at += 1;
    }
    let angle = step * (f64::from(at) + left / piece(at));
    freedom.sqrt() * angle.tan()
}

/// The quantile `p` in (0, 1) of the chi-square law with `freedom` > 0 degrees, by bisection of its distribution
/// function P(freedom / 2, x / 2).
pub fn chi_square_quantile(p: f64, freedom: f64) -> f64 {
    let below = |x: f64| gamma_p(freedom / 2.0, x / 2.0) < p;
    let mut high = freedom.max(1.0);
    while below(high) {
        high *= 2.0;
    }
    let mut low = 0.0;
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if below(middle) { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

/// The 95 % interval of a standard deviation that `freedom` degrees of normal values estimate as `sd`:
/// sd sqrt(f / chi2_0.975) to sd sqrt(f / chi2_0.025).
pub fn sd_interval(sd: f64, freedom: f64) -> [f64; 2] {
    [0.975, 0.025].map(|p| sd * (freedom / chi_square_quantile(p, freedom)).sqrt())
}

/// The regularised lower incomplete gamma function P(a, x): its series below a + 1, Lentz' continued fraction
/// above (Press et al., Numerical Recipes, 6.2).
fn gamma_p(a: f64, x: f64) -> f64 {
    const TERMS: u32 = 100_000;
    if x <= 0.0 {
        return 0.0;
    }
    let front = (a * x.ln() - x - ln_gamma(a)).exp();
    if x < a + 1.0 {
        let (mut term, mut sum) = (1.0 / a, 1.0 / a);
        for n in 1..TERMS {
            term *= x / (a + f64::from(n));
            sum += term;
            if term < sum * 1e-17 {
                break;
            }
        }
        return front * sum;
    }
    let mut b = x + 1.0 - a;
    let (mut c, mut d) = (f64::MAX, 1.0 / b);
    let mut fraction = d;
    for n in 1..TERMS {
        let n = f64::from(n);
        let factor = n * (a - n);
        b += 2.0;
        d = 1.0 / (factor * d + b);
        c = b + factor / c;
        fraction *= c * d;
        if (c * d - 1.0).abs() < 1e-16 {
            break;
        }
    }
    1.0 - front * fraction
}

/// ln Gamma(x) for x > 0 (Lanczos 1964, g = 7, nine terms: relative error below 1e-14).
fn ln_gamma(x: f64) -> f64 {
    const LANCZOS: [f64; 9] = [
        0.999_999_999_999_809_9,
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    if x < 0.5 {
        // Gamma(x) Gamma(1 - x) = pi / sin(pi x).
        return (std::f64::consts::PI / (std::f64::consts::PI * x).sin()).ln() - ln_gamma(1.0 - x);
    }
    let x = x - 1.0;
    let sum: f64 = (1..).zip(&LANCZOS[1..]).map(|(i, c)| c / (x + f64::from(i))).sum();
    let t = x + 7.5;
    0.5 * (2.0 * std::f64::consts::PI).ln() + (x + 0.5) * t.ln() - t + (LANCZOS[0] + sum).ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against the two-pass formula; both lose at most a few n eps.
        #[test]
        fn merged_moments_match_the_two_pass_formula(
            a in prop::collection::vec(-1e3..1e3f64, 0..50), b in prop::collection::vec(-1e3..1e3f64, 1..50)
        ) {
            let fill = |x: &[f64]| { let mut m = Moments::default(); x.iter().for_each(|&x| m.push(x)); m };
            let mut merged = fill(&a);
            merged.merge(&fill(&b));
            let all = [a, b].concat();
            let n = all.len() as f64;
            let mean = all.iter().sum::<f64>() / n;
            let variance = all.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
            let allowed = 10.0 * n * f64::EPSILON * 1e3;
            prop_assert_eq!(merged.count(), all.len() as u64);
            prop_assert!((merged.mean() - mean).abs() <= allowed);
            prop_assert!((merged.variance() - variance).abs() <= allowed * 1e3);
        }
    }

    /// Values of `numpy.quantile([3, 1, 2, 10], [0, .25, .5, .9, 1])`.
    #[test]
    fn quantiles_match_numpy() {
        let quantile_of = |q| quantile(&mut [3.0, 1.0, 2.0, 10.0], q).unwrap();
        let got = [0.0, 0.25, 0.5, 0.9, 1.0].map(quantile_of);
        let want = [1.0, 1.75, 2.5, 7.9, 10.0];
        assert!(got.iter().zip(want).all(|(g, w)| (g - w).abs() < 1e-12), "{got:?}");
        assert_eq!(median(&mut []), None);
    }

    /// `scipy.stats.binom.ppf(0.99, n, 0.95) + 1`; below n = 90, 0.95^n > 0.01 and nothing can be said.
    #[test]
    fn ranks_are_those_of_scipy() {
        for (n, want) in [
            (89, None),
            (90, Some(90)),
            (100, Some(100)),
            (1000, Some(966)),
            (16_384, Some(15_630)),
        ] {
            assert_eq!(quantile_bound_rank(n, 0.95, 0.99), want, "n = {n}");
        }
    }

    /// By hand: values 0, 1: mean 1/2, V = 1/2, n = 2, ln 200.
    #[test]
    fn the_bound_on_a_mean_is_the_formula() {
        let mut values = Moments::default();
        [0.0, 1.0].into_iter().for_each(|x| values.push(x));
        let log = 200f64.ln();
        let want = 0.5 + (0.5 * log).sqrt() + 7.0 * log / 3.0;
        assert!((mean_upper_bound(&values, 1.0, 0.99) - want).abs() < 1e-12);
        assert_eq!(mean_upper_bound(&Moments::default(), 1.0, 0.99), f64::INFINITY);
    }

    /// `scipy.stats.t.ppf(0.975, df)` (tests/oracles/ranking). The trapezoidal rule is off by 1e-6 of the integral at most (cos^(1/2) is not
    /// smooth at its end), which the slope of the quantile raises tenfold.
    #[test]
    fn student_quantiles_are_those_of_scipy() {
        for (freedom, want) in [
            (1.0, 12.706_204_736_174_694),
            (1.5, 6.016_663_104_427_929),
            (2.0, 4.302_652_729_749_462),
            (4.5, 2.658_912_347_204_403),
            (9.0, 2.262_157_162_798_205),
            (30.0, 2.042_272_456_301_238),
            (250.25, 1.969_488_823_139_81),
            (1e6, 1.959_966_356_814_107),
        ] {
            let got = student_975(freedom);
            assert!((got / want - 1.0).abs() < 1e-5, "{freedom}: {got} is not {want}");
        }
        assert_eq!(student_975(0.0), f64::INFINITY);
    }

    /// `scipy.stats.chi2.ppf`.
    #[test]
    fn chi_square_quantiles_are_those_of_scipy() {
        for (p, freedom, want) in CHI_SQUARE {
            let got = chi_square_quantile(p, freedom);
            assert!((got / want - 1.0).abs() < 1e-9, "{p} of {freedom}: {got} is not {want}");
        }
    }

    const CHI_SQUARE: [(f64, f64, f64); 9] = [
        (0.025, 1.0, 0.0009820691171752555),
        (0.975, 1.0, 5.023886187314888),
        (0.025, 4.0, 0.4844185570879299),
        (0.975, 4.0, 11.143286781877796),
        (0.025, 9.0, 2.7003894999803584),
        (0.975, 9.0, 19.02276779864163),
        (0.975, 30.5, 47.606091027853594),
        (0.025, 500.0, 439.9359912618746),
        (0.975, 500.0, 563.8515293442852),
    ];

    /// By simulation: sample deviations of n = 6 normal values; 2,000 of them hit the level within four binomial
    /// errors (4 sqrt(0.95 * 0.05 / 2000) = 0.0195).
    #[test]
    fn intervals_of_deviations_cover_at_their_level() {
        let stream = crate::Stream::new(crate::Seed::new(0).unwrap(), "coverage");
        let covered = (0..2000).filter(|&draw| {
            let mut values = [0.0; 6];
            stream.at(0, draw).fill_normals(&mut values);
            let mut moments = Moments::default();
            values.iter().for_each(|&x| moments.push(x));
            let sd = (moments.variance() * 6.0 / 5.0).sqrt();
            let [low, high] = sd_interval(sd, 5.0);
            low <= 1.0 && 1.0 <= high
        });
        let share = covered.count() as f64 / 2000.0;
        assert!((share - 0.95).abs() < 0.0195, "{share}");
    }
}
