//! How a surrogate agrees with the network on queries, from the logits of both.
//!
//! Confidence in class y is the log-odds m_y = s_y - ln sum_(c != y) exp s_c: ordered as the probability of y, and not saturated
//! where that is 1 in floating point.
//!
//! tau           Kendall's tau-b of m_y for the correct class y over all queries (paper 004, section 1.4, without its ties)
//! tau paper     the same with ties as discordant pairs, to its letter
//! tau within    the mean over classes of the tau among the queries of a class: with all classes in one, a surrogate that only
//!               separates them has a high tau already
//! tau class 1   for two classes: of m_1 over all queries, as the code of paper 004 computes it
//! TAD           accuracy of the surrogate less that of the network, in points
//! agreement     the share of queries that both put into the same class
//! KL            the mean of KL(network | surrogate) of the probabilities, in nats
//! isotonic R^2  the share of the variance of the network's m_y that the best increasing function of the surrogate's explains
//! linear R^2    the same for the best line
//! Pearson       of the probabilities of the correct class: two separate clouds of points are enough for a high one
//! overlap       errors of both on the same queries: P(Bin(n, e_1 e_2 / n^2) >= observed) if e_1, e_2 errors fell independently

use serde::Serialize;
use veridical_core::distributions::beta_cdf;
use veridical_core::ranks::{isotonic, kendall, pearson};
use veridical_core::{Error, Estimate, Result, Rows};
use veridical_kernels::machine::{log_sum_exp, softmax};

/// Rank correlations of the confidences, each with a jackknife interval over queries; null where not defined.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Tau {
    /// tau-b of the correct class.
    pub correct_class: Option<Estimate>,
    /// The same with ties as discordant pairs.
    pub paper: Option<Estimate>,
    /// The mean of the taus within each class.
    pub within_class: Option<Estimate>,
    /// tau-b of class 1 over all queries, for two classes.
    pub class_one: Option<Estimate>,
}

/// The errors that network and surrogate share.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ErrorOverlap {
    /// Errors of the network.
    pub network: u64,
    /// Errors of the surrogate.
    pub surrogate: u64,
    /// Queries that both get wrong.
    pub both: u64,
    /// The number expected if their errors fell independently.
    pub expected: f64,
    /// The probability of at least `both` under independence.
    pub p_value: f64,
}

/// How a surrogate agrees with the network.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Faithfulness {
    /// Rank correlations.
    pub tau: Tau,
    /// Accuracy of the surrogate less accuracy of the network, in points.
    pub accuracy_difference: Estimate,
    /// The share of queries both put into the same class.
    pub agreement: Estimate,
    /// Mean KL(network | surrogate), in nats.
    pub divergence: Estimate,
    /// R^2 of the best increasing function of the surrogate's log-odds.
    pub isotonic_r2: Estimate,
    /// R^2 of the best line.
    pub linear_r2: Estimate,
    /// Pearson's correlation of the probabilities.
    pub pearson: Estimate,
    /// The errors they share.
    pub error_overlap: ErrorOverlap,
}

/// Returns s_y - ln sum_(c != y) exp s_c.
///
/// ```
/// // Probability 1 in floating point, but still in order.
/// let m = |s: f64| veridical_inspect::surrogate::log_odds(&[s, 0.0], 0);
/// assert_eq!([m(50.0), m(60.0)], [50.0, 60.0]);
/// ```
pub fn log_odds(scores: &[f64], class: u32) -> f64 {
    let class = class as usize;
    // Two log-sum-exps of the others, without a list of them.
    let (before, after) = (log_sum_exp(&scores[..class]), log_sum_exp(&scores[class + 1..]));
    scores[class] - log_sum_exp(&[before, after])
}

/// Groups of the jackknife of measures without a cheaper one.
const GROUPS: usize = 20;

/// Compares the logits of network and surrogate on queries with known labels.
///
/// # Errors
/// [`Error::Shape`] if sizes differ, [`Error::Unfit`] for fewer than two classes or queries, labels out of range, or logits that are
/// not finite.
pub fn faithfulness(
    network: Rows<'_, f64>,
    surrogate: Rows<'_, f64>,
    labels: &[u32],
) -> Result<Faithfulness> {
    let (n, classes) = (network.n(), network.dim());
    check(network, surrogate, labels)?;
    let odds = |scores: Rows<'_, f64>, class: &dyn Fn(usize) -> u32| -> Vec<f64> {
        scores.iter().enumerate().map(|(i, row)| log_odds(row, class(i))).collect()
    };
    let own = |i: usize| labels[i];
    let (a, b) = (odds(network, &own), odds(surrogate, &own));
    let all = kendall(&a, &b);
    let class_one =
        if classes == 2 { kendall(&odds(network, &|_| 1), &odds(surrogate, &|_| 1)) } else { None };
    let defined = |tau: Estimate| tau.value.is_finite().then_some(tau);
    let tau = Tau {
        correct_class: all.and_then(|tau| defined(tau.tau_b)),
        paper: all.and_then(|tau| defined(tau.tau_paper)),
        within_class: within_class(&a, &b, labels, classes),
        class_one: class_one.and_then(|tau| defined(tau.tau_b)),
    };
    let predicted = |scores: Rows<'_, f64>| -> Vec<u32> { scores.iter().map(largest).collect() };
    let (by_network, by_surrogate) = (predicted(network), predicted(surrogate));
    let right = |predicted: &[u32]| -> Vec<bool> {
        predicted.iter().zip(labels).map(|(p, y)| p == y).collect()
    };
    let (right_n, right_s) = (right(&by_network), right(&by_surrogate));
    let gain = right_n.iter().zip(&right_s);
    let gain = gain.map(|(n, s)| 100.0 * (f64::from(u8::from(*s)) - f64::from(u8::from(*n))));
    let same = by_network.iter().zip(&by_surrogate).filter(|(a, b)| a == b).count();
    let (p, q) = (softmax(network.values(), classes), softmax(surrogate.values(), classes));
    let of_label = |p: &[f64]| -> Vec<f64> {
        p.chunks_exact(classes).zip(labels).map(|(p, &y)| p[y as usize]).collect()
    };
    let mean = |values: Vec<f64>| {
        let value = values.iter().sum::<f64>() / n as f64;
        Estimate::mean(values).unwrap_or_else(|| Estimate::point(value, n as u64))
    };
    Ok(Faithfulness {
        tau,
        accuracy_difference: mean(gain.collect()),
        agreement: Estimate::share(same as u64, n as u64),
        divergence: mean(divergences(network, surrogate)),
        isotonic_r2: by_groups(&a, &b, |a, b| r2(a, &isotonic(b, a))),
        linear_r2: by_groups(&a, &b, |a, b| pearson(a, b).powi(2)),
        pearson: by_groups(&of_label(&p), &of_label(&q), pearson),
        error_overlap: overlap(&right_n, &right_s),
    })
}

fn check(network: Rows<'_, f64>, surrogate: Rows<'_, f64>, labels: &[u32]) -> Result<()> {
    let (n, classes) = (network.n(), network.dim());
    if surrogate.n() != n || surrogate.dim() != classes || labels.len() != n {
        let (m, d, l) = (surrogate.n(), surrogate.dim(), labels.len());
        let what =
            format!("the network has logits {n} x {classes}, the surrogate {m} x {d}, labels {l}");
        return Err(Error::shape(what, ""));
    }
    if n < 2 || classes < 2 {
        let what = format!("{n} queries of {classes} classes have no order to compare");
        return Err(Error::unfit(what, "at least two queries and two classes are needed"));
    }
    if let Some(i) = labels.iter().position(|&y| y as usize >= classes) {
        let what = format!("the label of query {i} is {}, there are {classes} classes", labels[i]);
        return Err(Error::unfit(what, "labels are counted from 0"));
    }
    for (name, scores) in [("network", network), ("surrogate", surrogate)] {
        if let Some(at) = scores.values().iter().position(|s| !s.is_finite()) {
            let what = format!("a logit of the {name} for query {} is not finite", at / classes);
            return Err(Error::unfit(what, ""));
        }
    }
    Ok(())
}

/// Returns the class with the largest score, the smaller class on ties.
pub fn largest(scores: &[f64]) -> u32 {
    let better = |best: usize, c: usize| if scores[c] > scores[best] { c } else { best };
    (0..scores.len()).reduce(better).unwrap_or(0) as u32
}

/// The mean of independent taus: errors add by squares, degrees of freedom by Satterthwaite.
fn within_class(a: &[f64], b: &[f64], labels: &[u32], classes: usize) -> Option<Estimate> {
    let tau_of = |class: u32| {
        let of = |values: &[f64]| -> Vec<f64> {
            let pairs = values.iter().zip(labels);
            pairs.filter(|(_, y)| **y == class).map(|(v, _)| *v).collect()
        };
        kendall(&of(a), &of(b)).map(|tau| tau.tau_b).filter(|tau| tau.value.is_finite())
    };
    let taus: Vec<Estimate> = (0..classes as u32).filter_map(tau_of).collect();
    let count = taus.len() as f64;
    let n = taus.iter().map(|tau| tau.n).sum();
    if taus.is_empty() {
        return None;
    }
    let value = taus.iter().map(|tau| tau.value).sum::<f64>() / count;
    if taus.iter().any(|tau| !tau.has_interval()) {
        return Some(Estimate::point(value, n));
    }
    let square = |tau: &Estimate| (tau.error / count).powi(2);
    let variance: f64 = taus.iter().map(square).sum();
    let spread: f64 = taus.iter().map(|tau| square(tau).powi(2) / tau.freedom).sum();
    let freedom = if spread > 0.0 { variance * variance / spread } else { f64::INFINITY };
    Some(Estimate::new(value, variance.sqrt(), freedom, n).within(-1.0, 1.0))
}

fn divergences(network: Rows<'_, f64>, surrogate: Rows<'_, f64>) -> Vec<f64> {
    let one = |(a, b): (&[f64], &[f64])| {
        let (log_a, log_b) = (log_sum_exp(a), log_sum_exp(b));
        let terms = a.iter().zip(b);
        terms.map(|(a, b)| (a - log_a).exp() * ((a - log_a) - (b - log_b))).sum()
    };
    network.iter().zip(surrogate).map(one).collect()
}

/// 1 - sum (y - f)^2 / sum (y - mean)^2; NaN if y does not vary.
fn r2(y: &[f64], fitted: &[f64]) -> f64 {
    let mean = y.iter().sum::<f64>() / y.len() as f64;
    let total: f64 = y.iter().map(|y| (y - mean).powi(2)).sum();
    let left: f64 = y.iter().zip(fitted).map(|(y, f)| (y - f).powi(2)).sum();
    1.0 - left / total
}

/// A statistic of pairs with a delete-a-group jackknife; pair i is in group i mod 20.
fn by_groups(a: &[f64], b: &[f64], of: impl Fn(&[f64], &[f64]) -> f64) -> Estimate {
    let n = a.len();
    let value = of(a, b);
    let groups = GROUPS.min(n);
    let without = |group: usize| {
        let kept = |values: &[f64]| -> Vec<f64> {
            let all = values.iter().enumerate();
            all.filter(|(i, _)| i % groups != group).map(|(_, v)| *v).collect()
        };
        of(&kept(a), &kept(b))
    };
    let without: Vec<f64> = (0..groups).map(without).collect();
    Estimate::jackknife(value, &without, n as u64)
        .map_or(Estimate::point(value, n as u64), |e| e.within(-1.0, 1.0))
}

fn overlap(network: &[bool], surrogate: &[bool]) -> ErrorOverlap {
    let n = network.len() as u64;
    let wrong = |right: &[bool]| right.iter().filter(|right| !**right).count() as u64;
    let both = network.iter().zip(surrogate).filter(|(a, b)| !**a && !**b).count() as u64;
    let (e_1, e_2) = (wrong(network), wrong(surrogate));
    let chance = (e_1 as f64 / n as f64) * (e_2 as f64 / n as f64);
    let p_value = at_least(both, n, chance);
    let expected = chance * n as f64;
    ErrorOverlap { network: e_1, surrogate: e_2, both, expected, p_value }
}

/// P(Bin(n, p) >= k), accurate also where it is far below 1; never 0 for p above 0.
pub(crate) fn at_least(k: u64, n: u64, p: f64) -> f64 {
    match k {
        0 => 1.0,
        _ if k > n => 0.0,
        _ => beta_cdf(p, k as f64, (n - k + 1) as f64).max(f64::MIN_POSITIVE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use veridical_core::{Seed, Stream};

    fn normals(n: usize, at: u64) -> Vec<f64> {
        let mut values = vec![0.0; n];
        let stream = Stream::new(Seed::new(5).unwrap(), "test/faithfulness");
        stream.at(0, at).fill_normals(&mut values);
        values
    }

    fn rows(values: &[f64], dim: usize) -> Rows<'_, f64> {
        Rows::new(values, dim).unwrap()
    }

    #[test]
    fn a_network_is_faithful_to_itself() {
        let (n, classes) = (200, 3);
        let s = normals(n * classes, 0);
        let labels: Vec<u32> = (0..n as u32).map(|i| i % 3).collect();
        let got = faithfulness(rows(&s, classes), rows(&s, classes), &labels).unwrap();
        let value = |tau: Option<Estimate>| tau.unwrap().value;
        assert_eq!(value(got.tau.correct_class), 1.0);
        assert_eq!((value(got.tau.paper), value(got.tau.within_class)), (1.0, 1.0));
        assert_eq!(got.tau.class_one, None);
        assert_eq!((got.accuracy_difference.value, got.agreement.value), (0.0, 1.0));
        assert!(got.divergence.value == 0.0 && (got.pearson.value - 1.0).abs() < 1e-12);
        assert!((got.isotonic_r2.value - 1.0).abs() < 1e-12);
        let overlap = got.error_overlap;
        assert!(overlap.both == overlap.network && overlap.p_value < 1e-10);
    }

    /// A temperature orders two classes as before: taus and the isotonic R^2 stay 1, KL and the probabilities do not.
    #[test]
    fn a_temperature_keeps_the_order_of_two_classes() {
        let s = normals(400, 1);
        let warm: Vec<f64> = s.iter().map(|s| 0.3 * s).collect();
        let labels: Vec<u32> = (0..200).map(|i| u32::from(s[2 * i] < s[2 * i + 1])).collect();
        let got = faithfulness(rows(&s, 2), rows(&warm, 2), &labels).unwrap();
        assert_eq!(got.tau.correct_class.unwrap().value, 1.0);
        assert_eq!(got.tau.class_one.unwrap().value, 1.0);
        assert!((got.linear_r2.value - 1.0).abs() < 1e-12 && got.divergence.low > 0.01);
        assert_eq!(got.error_overlap.p_value, 1.0);
    }

    proptest! {
        /// The order of log-odds is that of probabilities.
        #[test]
        fn log_odds_are_the_logit_of_the_probability(s in prop::collection::vec(-5.0..5.0f64, 2..6)) {
            let p = softmax(&s, s.len());
            for (c, p) in p.iter().enumerate() {
                let got = log_odds(&s, c as u32);
                // 1 - p loses up to a few eps / (1 - p) <= eps e^10 n.
                prop_assert!((got - (p / (1.0 - p)).ln()).abs() < 1e-10, "{} {}", got, p);
            }
        }
    }

    /// Probabilities that are 1 in floating point: their order in exact arithmetic is that of s_1 - s_0.
    #[test]
    fn saturated_probabilities_keep_their_order() {
        let n = 200;
        let (a, b) = (normals(n, 4), normals(n, 5));
        let b: Vec<f64> = a.iter().zip(b).map(|(a, b)| a + b).collect();
        let labels = vec![1; n];
        let scores =
            |z: &[f64]| z.iter().flat_map(|z| [-30.0, 40.0 + 5.0 * z]).collect::<Vec<f64>>();
        let (network, surrogate) = (scores(&a), scores(&b));
        assert!(softmax(&network, 2).iter().skip(1).step_by(2).all(|p| *p == 1.0));
        let got = faithfulness(rows(&network, 2), rows(&surrogate, 2), &labels).unwrap();
        let want = kendall(&a, &b).unwrap().tau_b.value;
        assert!(want > 0.3 && want < 0.7, "{want}");
        assert_eq!(got.tau.correct_class.unwrap().value, want);
        assert_eq!(got.tau.class_one.unwrap().value, want);
    }

    /// Two balanced separated classes with independent confidences inside: of all pairs the n^2 / 4 between the classes agree in the
    /// order of class 1, those within do by half: tau = 1/2. Within classes: 0.
    #[test]
    fn separation_alone_gives_half_a_tau() {
        let n = 600;
        let (a, b) = (normals(n, 2), normals(n, 3));
        let labels: Vec<u32> = (0..n as u32).map(|i| i % 2).collect();
        let scores = |z: &[f64]| -> Vec<f64> {
            let one = |(z, &y): (&f64, &u32)| [0.0, z + 100.0 * (2.0 * f64::from(y) - 1.0)];
            z.iter().zip(&labels).flat_map(one).collect()
        };
        let got = faithfulness(rows(&scores(&a), 2), rows(&scores(&b), 2), &labels).unwrap();
        let [low, high] = got.tau.class_one.unwrap().interval();
        assert!(low < 0.5 && 0.5 < high && high - low < 0.1, "{:?}", got.tau);
        let [low, high] = got.tau.within_class.unwrap().interval();
        assert!(low < 0.0 && 0.0 < high && high - low < 0.25, "{:?}", got.tau);
    }

    /// `scipy.stats.binom.sf(7, 100, 0.04)`: 20 errors each, 8 shared.
    #[test]
    fn shared_errors_are_compared_with_chance() {
        let network: Vec<bool> = (0..100).map(|i| i >= 20).collect();
        let surrogate: Vec<bool> = (0..100).map(|i| !(12..32).contains(&i)).collect();
        let got = overlap(&network, &surrogate);
        assert_eq!((got.network, got.surrogate, got.both), (20, 20, 8));
        assert!((got.expected - 4.0).abs() < 1e-12);
        assert!((got.p_value - SHARED).abs() < 1e-12, "{}", got.p_value);
    }

    const SHARED: f64 = 0.047_512_050_725_943_07;

    #[test]
    fn what_cannot_be_compared_is_refused() {
        let s = [0.0, 1.0, 2.0, 3.0];
        let message = |a: &[f64], labels: &[u32]| {
            faithfulness(rows(&s, 2), rows(a, 2), labels).unwrap_err().to_string()
        };
        assert_eq!(
            message(&s[..2], &[0, 0]),
            "the network has logits 2 x 2, the surrogate 1 x 2, labels 2"
        );
        assert!(message(&s, &[0, 2]).starts_with("the label of query 1 is 2"));
        assert_eq!(
            message(&[0.0, f64::NAN, 1.0, 1.0], &[0, 1]),
            "a logit of the surrogate for query 0 is not finite"
        );
    }
}
