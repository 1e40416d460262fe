//! Small symmetric positive definite systems, in f64.
//!
//! A = L L', then L z = b and L' x = z (Golub & Van Loan, 4.2). A pivot that rounding left at or below
//! n eps max(a_ii) is lifted there, so a singular matrix gives a finite answer instead of none.

/// Solves A x = b; `a` is row-major and is overwritten by L.
///
/// # Panics
/// If `a` is not square of the size of `b`.
pub fn solve_spd(a: &mut [f64], b: &[f64]) -> Vec<f64> {
    let n = b.len();
    assert_eq!(a.len(), n * n, "a square matrix");
    let largest = (0..n).map(|i| a[i * n + i]).fold(0.0, f64::max);
    let floor = (n as f64 * f64::EPSILON * largest).max(f64::MIN_POSITIVE);
    for j in 0..n {
        let (above, below) = a.split_at_mut(j * n);
        let row_j = &mut below[..n];
        for i in 0..j {
            let row_i = &above[i * n..];
            let sum: f64 = (0..i).map(|k| row_j[k] * row_i[k]).sum();
            row_j[i] = (row_j[i] - sum) / row_i[i];
        }
        let sum: f64 = row_j[..j].iter().map(|x| x * x).sum();
        row_j[j] = (row_j[j] - sum).max(floor).sqrt();
    }
    let mut x = b.to_vec();
    for i in 0..n {
        let sum: f64 = (0..i).map(|k| a[i * n + k] * x[k]).sum();
        x[i] = (x[i] - sum) / a[i * n + i];
    }
    for i in (0..n).rev() {
        x[i] /= a[i * n + i];
        let xi = x[i];
        (0..i).for_each(|k| x[k] -= a[i * n + k] * xi);
    }
    x
}

/// Y'Y in f64 of rows of `dim` values: blocks of rows in a fixed order.
pub fn gram(rows: &[f32], dim: usize) -> Vec<f64> {
    use rayon::prelude::*;
    const BLOCK: usize = 4096;
    let partial = |block: &[f32]| {
        let mut sum = vec![0.0f64; dim * dim];
        for row in block.chunks_exact(dim) {
            for (i, out) in sum.chunks_exact_mut(dim).enumerate() {
                let x = f64::from(row[i]);
                out[..=i].iter_mut().zip(row).for_each(|(s, &y)| *s += x * f64::from(y));
            }
        }
        sum
    };
    let blocks: Vec<Vec<f64>> = rows.par_chunks(BLOCK * dim).map(partial).collect();
    let mut total = vec![0.0; dim * dim];
    for block in blocks {
        total.iter_mut().zip(block).for_each(|(t, b)| *t += b);
    }
    for i in 0..dim {
        (0..i).for_each(|j| total[j * dim + i] = total[i * dim + j]);
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A = M'M + I has condition below 1 + 9 * 9 * 1, so x is right to a few hundred eps.
    #[test]
    fn the_solution_solves() {
        for n in [1, 2, 5, 9] {
            let m: Vec<f32> = (0..n * n).map(|i| ((i * 37 + 11) % 19) as f32 / 9.5 - 1.0).collect();
            let mut a = gram(&m, n);
            (0..n).for_each(|i| a[i * n + i] += 1.0);
            let x: Vec<f64> = (0..n).map(|i| i as f64 - 2.5).collect();
            let b: Vec<f64> =
                a.chunks(n).map(|row| row.iter().zip(&x).map(|(a, x)| a * x).sum()).collect();
            let got = solve_spd(&mut a, &b);
            assert!(got.iter().zip(&x).all(|(g, x)| (g - x).abs() < 1e-12), "{got:?}");
        }
    }

    #[test]
    fn a_singular_matrix_gives_a_finite_answer() {
        assert!(solve_spd(&mut [1.0, 1.0, 1.0, 1.0], &[1.0, 1.0]).iter().all(|x| x.is_finite()));
        assert!(solve_spd(&mut [0.0], &[0.0]).iter().all(|x| x.is_finite()));
    }
}
