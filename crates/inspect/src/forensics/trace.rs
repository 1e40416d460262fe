//! From incidents to the training rows behind them.
//!
//! Incidents are queries that the network put into class t and should not have; the reference are queries it rightly put there.
//! Candidates are the training rows labeled t. Similarity to incidents alone finds typical rows of t; the contrast does not:
//!
//!   score_i = mean over incidents of k(q, x_i) - mean over the reference of k(q, x_i)
//!
//! with percentiles of 1,000 bootstrap samples of incidents as its interval. The best cut of the scores ([`split`]) gives an upper group
//! in any data. It counts as found only if its gap (difference of means) is above 99 % of the gaps found when incidents and reference
//! are shuffled, p = (1 + exceeding) / (1 + permutations) at most 0.01. With q incidents and r reference queries there are
//! (q + r)! / (q! r!) divisions, so very few of them cannot reach p = 0.01, and nothing is found. The group is what is above that cut and above the cut of the
//! smallest error ([`smallest_error`]), which does not take the upper end of the clean rows along where few are poisoned.

use rayon::prelude::*;
use serde::Serialize;
use veridical_core::stats::quantile;
use veridical_core::{Error, Estimate, Result, Rows, Seed, Stream};

use super::split::{smallest_error, split};

/// How incidents are traced.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TraceSettings {
    /// Bootstrap samples of incidents.
    pub bootstrap: u32,
    /// Shuffles of incidents and reference.
    pub permutations: u32,
    /// The seed of both.
    pub seed: Seed,
}

impl TraceSettings {
    /// 1,000 bootstrap samples and 1,999 shuffles.
    pub const fn new(seed: Seed) -> Self {
        Self { bootstrap: 1000, permutations: 1999, seed }
    }
}

/// A candidate with its contrast.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Traced {
    /// The training row.
    pub row: u32,
    /// Its contrast, with an interval over incidents.
    pub score: Estimate,
}

/// What incidents lead to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Trace {
    /// The number of incidents.
    pub incidents: u64,
    /// The number of reference queries.
    pub reference: u64,
    /// Candidates, highest contrast first.
    pub candidates: Vec<Traced>,
    /// The score above which a candidate is in the upper group.
    pub threshold: Option<f64>,
    /// The difference of the means of both groups.
    pub gap: f64,
    /// The gap that 1 % of the shuffles exceed.
    pub chance_gap: f64,
    /// The share of shuffles with a gap at least as large, the observed one counted.
    pub p_value: f64,
    /// The upper group, highest contrast first; empty if the gap may be chance.
    pub group: Vec<u32>,
}

/// The level at which a group counts as found.
const LEVEL: f64 = 0.01;

/// Traces incidents to candidates among the training rows; both sets of queries come with one kernel value per training row.
///
/// # Errors
/// [`Error::Unfit`] without incidents, without at least two reference queries or two candidates, or for candidates out of range;
/// [`Error::Shape`] if the queries do not have the same training rows.
pub fn trace(
    incidents: Rows<'_, f32>,
    reference: Rows<'_, f32>,
    candidates: &[u32],
    settings: &TraceSettings,
) -> Result<Trace> {
    let (q, r) = (incidents.n(), reference.n());
    check(incidents, reference, candidates)?;
    // Kernel values of the candidates alone, incidents first, a row per candidate.
    let of_row = |&row: &u32| -> Vec<f64> {
        let all = incidents.iter().chain(reference.iter());
        all.map(|k| f64::from(k[row as usize])).collect()
    };
    let values: Vec<Vec<f64>> = candidates.par_iter().map(of_row).collect();
    let contrast = |values: &[f64], is_incident: &[bool]| {
        let (mut inside, mut outside) = (0.0, 0.0);
        for (value, &is_incident) in values.iter().zip(is_incident) {
            if is_incident { inside += value } else { outside += value }
        }
        inside / q as f64 - outside / r as f64
    };
    let actual: Vec<bool> = (0..q + r).map(|i| i < q).collect();
    let scores: Vec<f64> = values.iter().map(|values| contrast(values, &actual)).collect();
    let found = split(&scores);
    let gap = found.map_or(0.0, |split| split.gap);

    let stream = Stream::new(settings.seed, "forensics/permutations");
    let shuffled = |permutation: u32| {
        let draws = stream.at(permutation, 0);
        let mut order: Vec<(u64, usize)> =
            (0..q + r).map(|i| (draws.integer(i as u32), i)).collect();
        order.sort_unstable();
        let mut is_incident = vec![false; q + r];
        order.iter().take(q).for_each(|&(_, i)| is_incident[i] = true);
        let scores: Vec<f64> = values.iter().map(|v| contrast(v, &is_incident)).collect();
        split(&scores).map_or(0.0, |split| split.gap)
    };
    let mut gaps: Vec<f64> = (0..settings.permutations).into_par_iter().map(shuffled).collect();
    // A division may be drawn again, equal up to the order of its sums.
    let exceeding = gaps.iter().filter(|g| **g >= gap * (1.0 - 1e-12)).count();
    let p_value = (1.0 + exceeding as f64) / (1.0 + gaps.len() as f64);
    let chance_gap = quantile(&mut gaps, 1.0 - LEVEL).unwrap_or(f64::INFINITY);

    let intervals = bootstrap(&values, q, settings);
    let mut traced: Vec<Traced> = candidates
        .iter()
        .zip(&scores)
        .zip(intervals)
        .map(|((&row, &score), interval)| {
            let estimate = match interval {
                Some(interval) => Estimate::with_interval(score, interval, q as u64),
                None => Estimate::point(score, q as u64),
            };
            Traced { row, score: estimate }
        })
        .collect();
    traced.sort_by(|a, b| b.score.value.total_cmp(&a.score.value).then(a.row.cmp(&b.row)));
    let is_found = gap > chance_gap && p_value <= LEVEL;
    let higher = smallest_error(&scores).map_or(f64::NEG_INFINITY, |split| split.threshold);
    let threshold = found.map(|split| split.threshold.max(higher));
    let group = match threshold.filter(|_| is_found) {
        Some(least) => traced.iter().filter(|t| t.score.value > least).map(|t| t.row).collect(),
        None => Vec::new(),
    };
    Ok(Trace {
        incidents: q as u64,
        reference: r as u64,
        candidates: traced,
        threshold,
        gap,
        chance_gap,
        p_value,
        group,
    })
}

fn check(incidents: Rows<'_, f32>, reference: Rows<'_, f32>, candidates: &[u32]) -> Result<()> {
    let n = incidents.dim();
    if incidents.n() == 0 {
        return Err(Error::unfit("there are no incidents to trace", "give at least two"));
    }
    if reference.dim() != n {
        let what = format!(
            "incidents come with {n} kernel values, the reference with {}",
            reference.dim()
        );
        return Err(Error::shape(what, "both need one value per training row"));
    }
    if reference.n() < 2 {
        let what = format!("{} reference queries give no contrast", reference.n());
        return Err(Error::unfit(what, "give queries that were rightly put into the same class"));
    }
    if candidates.len() < 2 {
        let what = format!("{} training rows have the incidents' class", candidates.len());
        return Err(Error::unfit(what, "a trace needs at least two to compare"));
    }
    match candidates.iter().find(|&&row| row as usize >= n) {
        None => Ok(()),
        Some(row) => {
            let what = format!("candidate {row} does not exist: there are {n} training rows");
            Err(Error::unfit(what, "rows are counted from 0"))
        }
    }
}

/// Percentile intervals of the scores over resampled incidents; none for a single incident.
fn bootstrap(values: &[Vec<f64>], q: usize, settings: &TraceSettings) -> Vec<Option<[f64; 2]>> {
    if q < 2 || settings.bootstrap < 2 {
        return vec![None; values.len()];
    }
    let stream = Stream::new(settings.seed, "forensics/bootstrap");
    let samples: Vec<Vec<u32>> = (0..settings.bootstrap)
        .map(|sample| {
            let mut draws = stream.at(sample, 0).draws();
            (0..q).map(|_| draws.below(q as u32)).collect()
        })
        .collect();
    let interval = |values: &Vec<f64>| {
        let reference = values[q..].iter().sum::<f64>() / (values.len() - q) as f64;
        let mean = |sample: &Vec<u32>| {
            sample.iter().map(|&i| values[i as usize]).sum::<f64>() / q as f64 - reference
        };
        let mut means: Vec<f64> = samples.iter().map(mean).collect();
        Some([quantile(&mut means, 0.025)?, quantile(&mut means, 0.975)?])
    };
    values.par_iter().map(interval).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gram rows of queries on training rows with features: the first 300 of class 0, of which every tenth carries a trigger.
    fn planted(n: usize, incidents: usize, reference: usize, with_trigger: bool) -> Vec<Vec<f32>> {
        let dim = 20;
        let mut x = vec![0.0; (n + incidents + reference) * dim];
        let stream = Stream::new(Seed::new(6).unwrap(), "test/trace");
        stream.at(0, u64::from(with_trigger)).fill_normals(&mut x);
        for (i, x) in x.chunks_mut(dim).enumerate() {
            x[0] += 2.0;
            let carries = if i < n { i % 10 == 0 } else { i < n + incidents };
            if carries && with_trigger {
                x[1] += 6.0;
            }
        }
        let (train, queries) = x.split_at(n * dim);
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let row = |q: &[f64]| -> Vec<f32> {
            let norm = |x: &[f64]| dot(x, x).sqrt();
            train.chunks(dim).map(|x| (dot(q, x) / (norm(q) * norm(x))) as f32).collect()
        };
        queries.chunks(dim).map(row).collect()
    }

    fn run(n: usize, k: &[Vec<f32>], incidents: usize, seed: u64) -> Trace {
        let (a, b) = (k[..incidents].concat(), k[incidents..].concat());
        let candidates: Vec<u32> = (0..n as u32).collect();
        let settings =
            TraceSettings { permutations: 499, bootstrap: 200, seed: Seed::new(seed).unwrap() };
        trace(Rows::new(&a, n).unwrap(), Rows::new(&b, n).unwrap(), &candidates, &settings).unwrap()
    }

    #[test]
    fn poison_is_traced_from_five_incidents() {
        let n = 300;
        let got = run(n, &planted(n, 5, 40, true), 5, 1);
        assert!(got.p_value <= 0.01 && got.gap > got.chance_gap, "{}", got.p_value);
        let poisoned = got.group.iter().filter(|row| *row % 10 == 0).count();
        assert!(poisoned >= 28, "{poisoned} of 30 in {}", got.group.len());
        assert!(poisoned as f64 >= 0.8 * got.group.len() as f64, "{poisoned}/{}", got.group.len());
        let first = got.candidates[0];
        assert!(first.row.is_multiple_of(10) && first.score.low > 0.0);
        assert!(got.candidates.iter().all(|t| {
            t.score.low <= t.score.value + 1e-12 && t.score.value <= t.score.high + 1e-12
        }));
    }

    /// Incidents drawn as the reference: at level 1 %, at most 200 * 0.01 + 4 sqrt(200 * 0.01 * 0.99)
    /// = 7.6 of 200 traces find a group.
    #[test]
    fn random_incidents_lead_to_no_group() {
        let n = 150;
        let k = planted(n, 0, 500, false);
        let stream = Stream::new(Seed::new(3).unwrap(), "test/incidents");
        let found = (0..200).filter(|&draw| {
            let mut draws = stream.at(0, draw).draws();
            let mut order: Vec<(u32, usize)> = (0..500).map(|i| (draws.word(), i)).collect();
            order.sort_unstable();
            let queries: Vec<Vec<f32>> =
                order.iter().take(35).map(|&(_, i)| k[i].clone()).collect();
            !run(n, &queries, 5, draw).group.is_empty()
        });
        let found = found.count();
        assert!(found <= 7, "{found} of 200");
    }

    #[test]
    fn too_few_queries_find_nothing() {
        let n = 100;
        let got = run(n, &planted(n, 1, 4, true), 1, 0);
        // Five divisions: one in five shuffles is the observed one.
        assert!(got.p_value > 0.1 && got.group.is_empty());
        assert!(!got.candidates[0].score.has_interval());
    }

    #[test]
    fn what_cannot_be_traced_is_refused() {
        let (k, none) = ([1.0f32, 2.0, 3.0, 4.0], [0.0f32; 0]);
        let k = Rows::new(&k, 2).unwrap();
        let settings = TraceSettings::new(Seed::new(0).unwrap());
        let message = |i, r, c: &[u32]| trace(i, r, c, &settings).unwrap_err().to_string();
        let none = Rows::new(&none, 2).unwrap();
        assert!(message(none, k, &[0, 1]).starts_with("there are no incidents"));
        assert!(message(k, none, &[0, 1]).starts_with("0 reference queries give no contrast"));
        assert!(message(k, k, &[0]).starts_with("1 training rows have the incidents' class"));
        assert!(message(k, k, &[0, 2]).starts_with("candidate 2 does not exist"));
    }
}
