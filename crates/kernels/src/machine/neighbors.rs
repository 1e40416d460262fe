//! Votes of the training rows on a Gram matrix, as probabilities per class.
//!
//! k-NN             each of the k rows with the largest kernel values casts one vote, the earlier row on ties
//! Nadaraya-Watson  row i casts max(k(x, x_i), 0) votes; where all are 0 the classes keep their shares among the training rows
//!
//! [`veridical_learn::knn_predict`] and its like do the same from vectors.

use veridical_core::{Error, Result, Rows};
use veridical_learn::top_k;

use super::glm::check_labels;
use super::product::check_queries;

/// Returns the shares of the classes among the `nearest` training rows of every query.
///
/// # Errors
/// [`Error::Setting`] for no neighbors or more than there are rows; [`Error::Shape`] if sizes differ; [`Error::Unfit`] for fewer than two
/// classes, a class without a row, or values that are not finite.
///
/// ```
/// use veridical_core::Rows;
/// use veridical_kernels::machine::nearest_votes;
///
/// let shares = nearest_votes(Rows::new(&[0.9, 0.8, 0.1], 3)?, &[0, 1, 1], 2, 2)?;
/// assert_eq!(shares, [0.5, 0.5]);
/// # Ok::<(), veridical_core::Error>(())
/// ```
pub fn nearest_votes(
    k: Rows<'_, f32>,
    labels: &[u32],
    classes: usize,
    nearest: usize,
) -> Result<Vec<f64>> {
    check_queries(k, labels.len())?;
    check_labels(labels, classes)?;
    if nearest == 0 || nearest > labels.len() {
        let must_be = format!("from 1 to the {} training rows", labels.len());
        return Err(Error::setting("neighbors", must_be, nearest));
    }
    let mut shares = vec![0.0; k.n() * classes];
    for (k, shares) in k.iter().zip(shares.chunks_exact_mut(classes)) {
        for near in top_k((0..).zip(k.iter().copied()), nearest) {
            shares[labels[near.number as usize] as usize] += 1.0 / nearest as f64;
        }
    }
    Ok(shares)
}

/// Returns the shares of the classes in the kernel votes on every query.
///
/// # Errors
/// [`Error::Shape`] if sizes differ; [`Error::Unfit`] for fewer than two classes, a class without a row, or values that are not finite.
///
/// ```
/// use veridical_core::Rows;
/// use veridical_kernels::machine::kernel_votes;
///
/// let shares = kernel_votes(Rows::new(&[0.75, 0.25, -1.0], 3)?, &[0, 1, 1], 2)?;
/// assert_eq!(shares, [0.75, 0.25]);
/// # Ok::<(), veridical_core::Error>(())
/// ```
pub fn kernel_votes(k: Rows<'_, f32>, labels: &[u32], classes: usize) -> Result<Vec<f64>> {
    check_queries(k, labels.len())?;
    check_labels(labels, classes)?;
    let count = |weight: &dyn Fn(usize) -> f64| {
        let mut votes = vec![0.0; classes];
        labels.iter().enumerate().for_each(|(i, &y)| votes[y as usize] += weight(i));
        let total: f64 = votes.iter().sum();
        (total > 0.0).then(|| votes.into_iter().map(|v| v / total).collect::<Vec<f64>>())
    };
    let one = |k: &[f32]| {
        let votes = count(&|i| f64::from(k[i]).max(0.0));
        votes.or_else(|| count(&|_| 1.0)).unwrap_or_default()
    };
    Ok(k.iter().flat_map(one).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn votes_are_shares() {
        let k = [0.0, -1.0, 0.0, -2.0, 1.0, 5.0, 3.0, 0.0];
        let (k, labels) = (Rows::new(&k, 4).unwrap(), [0, 1, 1, 2]);
        assert_eq!(nearest_votes(k, &labels, 3, 1).unwrap(), [1.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
        let got = kernel_votes(k, &labels, 3).unwrap();
        assert_eq!(got, [0.25, 0.5, 0.25, 1.0 / 9.0, 8.0 / 9.0, 0.0]);
        let message = nearest_votes(k, &labels, 3, 5).unwrap_err().to_string();
        assert_eq!(message, "⟨neighbors⟩ must be from 1 to the 4 training rows, got 5");
        assert!(kernel_votes(k, &labels, 4).is_err());
    }
}
