//! Which rows of an attribution stay from one training seed to the next?
//!
//! overlap    of two runs: |A ∩ B| / k of their top-k rows for a query; the mean over queries, then over pairs of runs
//! stable     a row in the top k of at least 80 % of the runs: what an explanation may name, the other rows are noise of the seed

use serde::Serialize;
use veridical_core::{Error, Estimate, Result, Rows};

/// The share of runs that make a row stable.
const STABLE: f64 = 0.8;

/// A row that some run has among its top rows of a query.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Stable {
    /// The training row.
    pub row: u32,
    /// The number of runs that have it among their top rows.
    pub runs: u32,
    /// Whether at least 80 % of the runs have it.
    pub stable: bool,
}

/// How attributions agree over an ensemble.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Agreement {
    /// The mean overlap of the top rows of two runs, with an interval over queries.
    pub overlap: Option<Estimate>,
    /// The share of a run's top rows that are stable, with an interval over queries.
    pub stable_share: Option<Estimate>,
    /// For every query its top rows in any run, most runs first.
    pub rows: Vec<Vec<Stable>>,
}

/// Returns the numbers of the `k` largest effects, largest first, the earlier row on ties.
///
/// ```
/// assert_eq!(veridical_inspect::attribute::top(&[0.1, 3.0, -4.0, 3.0], 2), [1, 3]);
/// ```
pub fn top(effects: &[f64], k: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0..effects.len() as u32).collect();
    let by_effect =
        |a: &u32, b: &u32| effects[*b as usize].total_cmp(&effects[*a as usize]).then(a.cmp(b));
    let k = k.min(order.len());
    if k < order.len() {
        order.select_nth_unstable_by(k, by_effect);
        order.truncate(k);
    }
    order.sort_by(by_effect);
    order
}

/// Compares the top `k` rows of every query over runs; each run has a row of effects per query.
///
/// # Errors
/// [`Error::Shape`] if runs differ in queries or training rows, [`Error::Unfit`] for fewer than two runs, [`Error::Setting`] for k = 0.
pub fn agreement(runs: &[Rows<'_, f64>], k: usize) -> Result<Agreement> {
    let [first, rest @ ..] = runs else {
        return Err(Error::unfit("agreement over seeds needs at least two runs, got none", ""));
    };
    if rest.is_empty() {
        return Err(Error::unfit("agreement over seeds needs at least two runs, got one", ""));
    }
    if k == 0 {
        return Err(Error::setting("top", "at least 1", k));
    }
    if let Some(other) = rest.iter().find(|run| run.n() != first.n() || run.dim() != first.dim()) {
        let (q, n, p, m) = (first.n(), first.dim(), other.n(), other.dim());
        let what = format!("runs have attributions {q} x {n} and {p} x {m}");
        return Err(Error::shape(what, "explain the same queries of the same training rows"));
    }
    let k = k.min(first.dim());
    let needed = (STABLE * runs.len() as f64).ceil() as u32;
    let (mut overlaps, mut shares, mut rows) = (Vec::new(), Vec::new(), Vec::new());
    for q in 0..first.n() {
        let mut all: Vec<u32> = runs.iter().flat_map(|run| top(run.row(q), k)).collect();
        all.sort_unstable();
        let mut found: Vec<Stable> = all
            .chunk_by(|a, b| a == b)
            .map(|same| {
                let runs = same.len() as u32;
                Stable { row: same[0], runs, stable: runs >= needed }
            })
            .collect();
        // A row in r runs is shared by r (r - 1) / 2 of their pairs.
        let shared: f64 =
            found.iter().map(|s| f64::from(s.runs) * (f64::from(s.runs) - 1.0) / 2.0).sum();
        let pairs = runs.len() as f64 * (runs.len() as f64 - 1.0) / 2.0;
        overlaps.push(shared / (pairs * k as f64));
        let stable: u32 = found.iter().filter(|s| s.stable).map(|s| s.runs).sum();
        shares.push(f64::from(stable) / (runs.len() * k) as f64);
        found.sort_by(|a, b| b.runs.cmp(&a.runs).then(a.row.cmp(&b.row)));
        rows.push(found);
    }
    let of = |values: Vec<f64>| {
        Estimate::mean(values).map(|e| e.within(0.0, 1.0).with_seeds(runs.len() as u64))
    };
    Ok(Agreement { overlap: of(overlaps), stable_share: of(shares), rows })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_most_runs_are_stable() {
        // Two queries of five rows. Rows 0 and 1 lead in all five runs for the first; the leader changes for the second.
        let run = |r: usize| {
            let mut effects = vec![9.0, 8.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
            effects[5 + r] = 2.0;
            effects[5 + (r + 1) % 5] = 1.0;
            effects
        };
        let runs: Vec<Vec<f64>> = (0..5).map(run).collect();
        let views: Vec<Rows<'_, f64>> = runs.iter().map(|r| Rows::new(r, 5).unwrap()).collect();
        let got = agreement(&views, 2).unwrap();
        let of = |row, runs, stable| Stable { row, runs, stable };
        assert_eq!(got.rows[0], [of(0, 5, true), of(1, 5, true)]);
        assert!(got.rows[1].iter().all(|s| s.runs == 2 && !s.stable) && got.rows[1].len() == 5);
        // Second query: five rows in two runs each share one pair: 5 of 10 pairs have one of two rows.
        let overlap = got.overlap.unwrap();
        assert_eq!((overlap.value, overlap.n, overlap.seeds), ((1.0 + 0.25) / 2.0, 2, 5));
        assert_eq!(got.stable_share.unwrap().value, 0.5);
    }

    #[test]
    fn runs_of_other_rows_are_refused() {
        let (a, b) = ([1.0, 2.0], [1.0, 2.0, 3.0]);
        let views = [Rows::new(&a, 2).unwrap(), Rows::new(&b, 3).unwrap()];
        let message = |views: &[Rows<'_, f64>]| agreement(views, 1).unwrap_err().to_string();
        assert!(message(&views).starts_with("runs have attributions 1 x 2 and 1 x 3"));
        assert!(message(&views[..1]).ends_with("got one"));
        assert_eq!(top(&[f64::NEG_INFINITY, 1.0], 9), [1, 0]);
    }
}
