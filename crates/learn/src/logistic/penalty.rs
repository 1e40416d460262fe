//! The penalty of a logistic regression by cross-validation.
//!
//! C by C from the strongest penalty on, the mean log-loss of held-out rows in stratified folds, until it has risen twice in a
//! row; the C with the smallest one is chosen.

use veridical_core::{Error, Order, Result, Seed};

/// The penalty that cross-validation chose.
#[derive(Clone, Debug, PartialEq)]
pub struct Penalty {
    /// Inverse regularization strength C.
    pub c: f64,
    /// The tried C with their mean log-loss on held-out rows.
    pub path: Vec<(f64, f64)>,
}

impl Penalty {
    /// Tries rising values of C; `losses` returns the summed log-loss of the held-out rows of every fold.
    pub(super) fn choose(
        cs: &[f64],
        n: usize,
        mut losses: impl FnMut(f64) -> Result<Vec<f64>>,
    ) -> Result<Self> {
        let mut path: Vec<(f64, f64)> = Vec::new();
        for &c in cs {
            path.push((c, losses(c)?.iter().sum::<f64>() / n as f64));
            let rising = path.windows(2).rev().take_while(|two| two[1].1 > two[0].1).count();
            if rising >= 2 {
                break;
            }
        }
        let best = path.iter().min_by(|a, b| a.1.total_cmp(&b.1));
        let c = best.ok_or_else(|| Error::unfit("there is no penalty to choose from", ""))?.0;
        Ok(Self { c, path })
    }
}

/// The folds of a cross-validation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Folds {
    /// Number of folds.
    pub n: usize,
    /// Random seed that assigns rows to folds.
    pub seed: Seed,
}

impl Folds {
    /// Returns the training rows and the held-out rows of every fold: the rows of a class are dealt to the folds in random
    /// order.
    ///
    /// # Errors
    /// [`Error::Unfit`] for fewer than two folds, and for fewer rows than folds.
    pub fn parts(self, labels: &[u32], classes: usize) -> Result<Vec<(Vec<usize>, Vec<usize>)>> {
        let Self { n: folds, seed } = self;
        if folds < 2 || labels.len() < folds {
            let what = format!("{} rows cannot be dealt to {folds} folds", labels.len());
            return Err(Error::unfit(what, ""));
        }
        let mut members = vec![Vec::new(); classes];
        labels.iter().enumerate().for_each(|(i, &label)| members[label as usize].push(i));
        let mut fold_of = vec![0; labels.len()];
        let mut dealt = 0;
        for (class, members) in members.iter().enumerate() {
            let order = Order::new(members.len() as u64, seed, "folds", class as u32);
            for t in 0..members.len() {
                fold_of[members[order.at(t as u64) as usize]] = dealt % folds;
                dealt += 1;
            }
        }
        let rows = 0..labels.len();
        Ok((0..folds).map(|fold| rows.clone().partition(|&i| fold_of[i] != fold)).collect())
    }
}

/// The sum of the log-losses of rows with `k` outputs each; one output is the log-odds of the second class.
pub(super) fn log_loss(outputs: impl Iterator<Item = f64>, labels: &[u32], k: usize) -> f64 {
    let outputs: Vec<f64> = outputs.collect();
    let rows = outputs.chunks_exact(k).zip(labels);
    rows.map(|(out, &label)| match out {
        [s] => softplus(if label == 1 { -*s } else { *s }),
        _ => {
            let most = out.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = out.iter().map(|&s| (s - most).exp()).sum();
            sum.ln() + (most - out[label as usize]).min(MOST)
        }
    })
    .sum()
}

/// The most that a row loses: a class that a fold has not seen has no finite score, whatever the penalty.
const MOST: f64 = 100.0;

/// log(1 + exp(x)).
pub(super) fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}
