//! The score of a label: with f_-i the kernel ridge fit of one-hot labels to all rows but i,
//! max_(c != y_i) f_-i,c(x_i) - f_-i,y_i(x_i), above 0 where the other rows would have given row i another label.
//!
//! One training and one solve: no row takes part in its own prediction, which is what cross-validation retrains networks for. The
//! outputs of a row sum to 1, as the targets do.

use serde::Serialize;
use veridical_core::{Error, Result, Rows};
use veridical_kernels::machine::Ridge;

use crate::surrogate::largest;

/// A training row with the evidence against its label.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Suspect {
    /// The training row.
    pub row: u32,
    /// The label it has.
    pub label: u32,
    /// The class that the other rows suggest among the other classes.
    pub suggested: u32,
    /// How much more the other rows support the suggested class than the label.
    pub score: f64,
}

/// Returns rows with a 1 in the column of their label.
///
/// # Errors
/// [`Error::Unfit`] for fewer than two classes, a label that is not below `classes`, or a class without two rows: leaving out its only
/// row would leave nothing to suggest it.
pub fn one_hot(labels: &[u32], classes: usize) -> Result<Vec<f64>> {
    if classes < 2 {
        let what = format!("labels of {classes} classes cannot be wrong");
        return Err(Error::unfit(what, "at least two classes are needed"));
    }
    let mut counts = vec![0usize; classes];
    let mut y = vec![0.0; labels.len() * classes];
    for (i, &label) in labels.iter().enumerate() {
        let Some(count) = counts.get_mut(label as usize) else {
            let what = format!("the label of row {i} is {label}, there are {classes} classes");
            return Err(Error::unfit(what, "labels are counted from 0"));
        };
        *count += 1;
        y[i * classes + label as usize] = 1.0;
    }
    match counts.iter().position(|&count| count < 2) {
        None => Ok(y),
        Some(class) => {
            let what = format!("class {class} has fewer than two training rows");
            Err(Error::unfit(what, "leave this class out: without its row nothing speaks for it"))
        }
    }
}

/// Returns f_-i(x_i) for every training row of a ridge that was fitted to the one-hot labels `y`.
///
/// # Panics
/// If y is not what the ridge was fitted to: one row per training row, one column per target.
pub fn left_out_scores(ridge: &Ridge, y: &[f64]) -> Vec<f64> {
    let residuals = ridge.left_out_residuals();
    assert_eq!(y.len(), residuals.len(), "the targets of the fit");
    y.iter().zip(residuals).map(|(y, r)| y - r).collect()
}

/// Ranks all training rows by the evidence against their labels, strongest first; the earlier row on ties.
///
/// # Panics
/// If there is not one row of scores per label, or a label has no column.
///
/// ```
/// use veridical_core::Rows;
/// use veridical_inspect::labels::suspects;
///
/// let ranked = suspects(Rows::new(&[0.9, 0.1, 0.2, 0.8], 2)?, &[0, 0]);
/// assert_eq!((ranked[0].row, ranked[0].suggested), (1, 1));
/// assert!(ranked[0].score > 0.0 && ranked[1].score < 0.0);
/// # Ok::<(), veridical_core::Error>(())
/// ```
pub fn suspects(scores: Rows<'_, f64>, labels: &[u32]) -> Vec<Suspect> {
    assert_eq!(scores.n(), labels.len(), "one row of scores per label");
    let one = |(row, (scores, &label)): (u32, (&[f64], &u32))| {
        let mut others = scores.to_vec();
        others[label as usize] = f64::NEG_INFINITY;
        let suggested = largest(&others);
        let score = scores[suggested as usize] - scores[label as usize];
        Suspect { row, label, suggested, score }
    };
    let mut ranked: Vec<Suspect> = (0..).zip(scores.iter().zip(labels)).map(one).collect();
    ranked.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.row.cmp(&b.row)));
    ranked
}
