//! What leaving a group of training rows out does to kernel ridge on the labels, in closed form: do the incidents still land in their
//! class, and does the reference still land in its own? A surrogate's answer; retraining confirms it.

use serde::Serialize;
use veridical_core::{Error, Estimate, Result, Rows};
use veridical_kernels::machine::Ridge;

use crate::surrogate::largest;

/// Decisions before and after leaving a group out.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RemovalCheck {
    /// The number of rows left out.
    pub removed: u64,
    /// The share of incidents put into the incidents' class with all rows.
    pub success_before: Estimate,
    /// The same without the group.
    pub success_after: Estimate,
    /// The accuracy on the reference with all rows.
    pub accuracy_before: Estimate,
    /// The same without the group.
    pub accuracy_after: Estimate,
}

/// Compares the decisions of a ridge fitted to one-hot labels with those of the fit without a group.
///
/// # Errors
/// [`Error::Shape`] if there is not one label per reference query; those of [`Ridge::predict_without`].
pub fn removal_check(
    ridge: &Ridge,
    incidents: Rows<'_, f32>,
    class: u32,
    reference: Rows<'_, f32>,
    labels: &[u32],
    group: &[u32],
) -> Result<RemovalCheck> {
    if labels.len() != reference.n() {
        let what = format!("{} reference queries have {} labels", reference.n(), labels.len());
        return Err(Error::shape(what, ""));
    }
    let rows: Vec<usize> = group.iter().map(|&row| row as usize).collect();
    let wanted = vec![class; incidents.n()];
    let share = |scores: Vec<f64>, wanted: &[u32]| {
        let rows = scores.chunks_exact(ridge.targets());
        let right = rows.zip(wanted).filter(|(scores, y)| largest(scores) == **y).count();
        Estimate::share(right as u64, wanted.len() as u64)
    };
    Ok(RemovalCheck {
        removed: group.len() as u64,
        success_before: share(ridge.predict(incidents)?, &wanted),
        success_after: share(ridge.predict_without(incidents, &rows)?, &wanted),
        accuracy_before: share(ridge.predict(reference)?, labels),
        accuracy_after: share(ridge.predict_without(reference, &rows)?, labels),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Class 1 at (1, 0); poison labeled 1 at (0, 1), where incidents of class 0 are too; class 0 at (-1, 0).
    #[test]
    fn without_the_poison_its_incidents_go_home() {
        let at = |i: usize| match i {
            0..10 => [1.0f32, 0.0, 1.0],
            10..20 => [-1.0, 0.0, 1.0],
            _ => [-1.0, 1.0, 1.0],
        };
        let points: Vec<[f32; 3]> = (0..25).map(at).collect();
        let y: Vec<f64> = (0..25)
            .flat_map(|i| if (10..20).contains(&i) { [1.0, 0.0] } else { [0.0, 1.0] })
            .collect();
        let kernel = |queries: &[[f32; 3]]| -> Vec<f32> {
            let dot = |a: &[f32; 3], b: &[f32; 3]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
            queries.iter().flat_map(|q| points.iter().map(move |x| dot(q, x))).collect()
        };
        let k = kernel(&points);
        let ridge =
            Ridge::fit(Rows::new(&k, 25).unwrap(), Rows::new(&y, 2).unwrap(), 0.1, None).unwrap();
        let incidents = kernel(&[[-1.0, 1.0, 1.0], [-0.9, 0.9, 1.0]]);
        let reference = kernel(&[[1.0, 0.0, 1.0], [-1.0, 0.0, 1.0]]);
        let rows = |k| Rows::new(k, 25).unwrap();
        let poison: Vec<u32> = (20..25).collect();
        let got =
            removal_check(&ridge, rows(&incidents), 1, rows(&reference), &[1, 0], &poison).unwrap();
        assert_eq!((got.success_before.value, got.success_after.value), (1.0, 0.0));
        assert_eq!((got.accuracy_before.value, got.accuracy_after.value), (1.0, 1.0));
    }
}
