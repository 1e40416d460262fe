//! What a Gram matrix looks like: eigenvalues, and how it agrees with labels.
//!
//! Kernel-target alignment (Cristianini et al. 2001; centered: Cortes, Mohri & Rostamizadeh 2012) is the cosine of the matrices
//! H K H and H T H, with T_ij = 1 if i and j have one label, and H = I - 11'/n.

use veridical_core::Rows;
use veridical_learn::eigen;

/// Returns the eigenvalues of (K + K') / 2, largest first.
///
/// # Panics
/// If the matrix is not square.
pub fn eigenvalues(k: Rows<'_, f32>) -> Vec<f64> {
    let n = k.n();
    assert_eq!(k.dim(), n, "a square matrix");
    let value =
        |p: usize| f64::midpoint(f64::from(k.row(p / n)[p % n]), f64::from(k.row(p % n)[p / n]));
    let symmetric: Vec<f64> = (0..n * n).map(value).collect();
    eigen(&symmetric, n).0
}

/// Returns how far below 0 the smallest eigenvalue of a positive semidefinite matrix may lie by rounding.
///
/// A value is off by some 3e-7 of the largest diagonal value, at random, and the norm of a symmetric matrix of n x n such errors is about
/// 2 sqrt(n) of them.
pub fn rounding(k: Rows<'_, f32>) -> f64 {
    let n = k.n();
    let most = (0..n).fold(0.0f64, |most, i| most.max(f64::from(k.row(i)[i].abs())));
    2.0 * (n as f64).sqrt() * 3e-7 * most
}

/// Returns the centered kernel-target alignment; `None` if all labels are the same, or all kernel values.
///
/// # Panics
/// If there is not a label for every row.
pub fn alignment(k: Rows<'_, f32>, labels: &[u32]) -> Option<f64> {
    let n = k.n();
    assert_eq!(labels.len(), n, "a label for every row");
    let same = |i: usize, j: usize| f64::from(u8::from(labels[i] == labels[j]));
    let center = |value: &dyn Fn(usize, usize) -> f64| -> (Vec<f64>, f64) {
        let means: Vec<f64> =
            (0..n).map(|i| (0..n).map(|j| value(i, j)).sum::<f64>() / n as f64).collect();
        let mean = means.iter().sum::<f64>() / n as f64;
        (means, mean)
    };
    let kernel = |i: usize, j: usize| f64::from(k.row(i)[j]);
    let ((k_means, k_mean), (t_means, t_mean)) = (center(&kernel), center(&same));
    let [mut both, mut own, mut of_labels] = [0.0; 3];
    for i in 0..n {
        for j in 0..n {
            let a = kernel(i, j) - k_means[i] - k_means[j] + k_mean;
            let b = same(i, j) - t_means[i] - t_means[j] + t_mean;
            both += a * b;
            own += a * a;
            of_labels += b * b;
        }
    }
    let scale = (own * of_labels).sqrt();
    // Centered values that are all rounding.
    let is_flat = own <= 1e-20 * (0..n).map(|i| kernel(i, i).powi(2)).sum::<f64>();
    (scale > 0.0 && !is_flat).then(|| both / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eigenvalues_are_those_of_a_matrix_by_hand() {
        // Eigenvalues of [[2, 1], [1, 2]] are 3 and 1.
        let found = eigenvalues(Rows::new(&[2.0, 1.0, 1.0, 2.0], 2).unwrap());
        assert!((found[0] - 3.0).abs() < 1e-12 && (found[1] - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_kernel_of_the_labels_has_alignment_one_and_a_constant_one_none() {
        let labels = [0, 1, 0, 2, 1, 1];
        let of: Vec<f32> = labels
            .iter()
            .flat_map(|a| labels.iter().map(move |b| if a == b { 5.0 } else { 2.0 }))
            .collect();
        let found = alignment(Rows::new(&of, 6).unwrap(), &labels).unwrap();
        assert!((found - 1.0).abs() < 1e-12, "{found}");
        assert_eq!(alignment(Rows::new(&[0.3; 36], 6).unwrap(), &labels), None);
        assert_eq!(alignment(Rows::new(&of, 6).unwrap(), &[1; 6]), None);
        // Against the textbook H K H.
        let k: Vec<f32> = (0..36).map(|p| ((p / 6 * (p % 6)) as f32).sin()).collect();
        let h = |values: &[f64]| -> Vec<f64> {
            let at = |i: usize, j: usize| f64::from(u8::from(i == j)) - 1.0 / 6.0;
            let product = |i: usize, j: usize| -> f64 {
                (0..6)
                    .flat_map(|a| (0..6).map(move |b| (a, b)))
                    .map(|(a, b)| at(i, a) * values[a * 6 + b] * at(b, j))
                    .sum()
            };
            (0..36).map(|p| product(p / 6, p % 6)).collect()
        };
        let wide: Vec<f64> = k.iter().map(|&x| f64::from(x)).collect();
        let target: Vec<f64> =
            (0..36).map(|p| f64::from(u8::from(labels[p / 6] == labels[p % 6]))).collect();
        let (a, b) = (h(&wide), h(&target));
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let want = dot(&a, &b) / (dot(&a, &a) * dot(&b, &b)).sqrt();
        let found = alignment(Rows::new(&k, 6).unwrap(), &labels).unwrap();
        assert!((found - want).abs() < 1e-12, "{found} {want}");
    }
}
