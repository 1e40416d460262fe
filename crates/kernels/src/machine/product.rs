//! Products of a Gram matrix in f32 with a narrow matrix in f64, summed in f64.

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use rayon::prelude::*;
use veridical_core::{Error, Result, Rows};

use super::hessian::add;

/// Rows of a block: the unit of work of a thread, and of the order of the sums.
const BLOCK: usize = 64;
/// Columns that are widened to f64 at once: 256 KB of a block.
const WIDTH: usize = 512;

/// Returns K X for the rows of K and a row-major X of `columns` values per column of K.
///
/// # Panics
/// If X does not have one row per column of K.
///
/// ```
/// use veridical_core::Rows;
/// use veridical_kernels::machine::product;
///
/// let k = Rows::new(&[1.0, 2.0, 3.0, 4.0], 2)?;
/// assert_eq!(product(k, &[1.0, 10.0], 1), [21.0, 43.0]);
/// # Ok::<(), veridical_core::Error>(())
/// ```
pub fn product(k: Rows<'_, f32>, x: &[f64], columns: usize) -> Vec<f64> {
    let m = k.dim();
    assert_eq!(x.len(), m * columns, "one row of X per column of K");
    let mut out = vec![0.0; k.n() * columns];
    if columns == 0 {
        return out;
    }
    let x = MatRef::from_row_major_slice(x, m, columns);
    let blocks = out.par_chunks_mut(BLOCK * columns).zip(k.values().par_chunks(BLOCK * m));
    blocks.for_each_init(Vec::new, |wide, (out, rows)| {
        let n = rows.len() / m;
        let mut out = MatMut::from_row_major_slice_mut(out, n, columns);
        for first in (0..m).step_by(WIDTH) {
            let width = WIDTH.min(m - first);
            wide.clear();
            for row in rows.chunks_exact(m) {
                wide.extend(row[first..first + width].iter().map(|&k| f64::from(k)));
            }
            let part = MatRef::from_row_major_slice(wide, n, width);
            let x = x.subrows(first, width);
            matmul(out.as_mut(), Accum::Add, part, x, 1.0, Par::Seq);
        }
    });
    out
}

/// A X for an f64 matrix of rows of `m` values.
pub(super) fn product_f64(a: &[f64], m: usize, x: &[f64], columns: usize) -> Vec<f64> {
    let mut out = vec![0.0; a.len() / m * columns];
    let x = MatRef::from_row_major_slice(x, m, columns);
    let blocks = out.par_chunks_mut(BLOCK * columns).zip(a.par_chunks(BLOCK * m));
    blocks.for_each(|(out, rows)| {
        let n = rows.len() / m;
        let rows = MatRef::from_row_major_slice(rows, n, m);
        let out = MatMut::from_row_major_slice_mut(out, n, columns);
        matmul(out, Accum::Replace, rows, x, 1.0, Par::Seq);
    });
    out
}

/// A' x for a matrix of rows of `m` f32 values: blocks of rows, summed in order.
pub(super) fn transposed_product(a: &[f32], m: usize, x: &[f64], c: usize) -> Vec<f64> {
    const STEP: usize = 256;
    let n = a.len() / m;
    let block = n.div_ceil(32).next_multiple_of(STEP);
    let partial = |(a, x): (&[f32], &[f64])| {
        let mut sum = vec![0.0; m * c];
        let mut wide = Vec::new();
        for (a, x) in a.chunks(STEP * m).zip(x.chunks(STEP * c)) {
            wide.clear();
            wide.extend(a.iter().map(|&a| f64::from(a)));
            let rows = a.len() / m;
            let a = MatRef::from_row_major_slice(&wide, rows, m);
            let x = MatRef::from_row_major_slice(x, rows, c);
            let out = MatMut::from_row_major_slice_mut(&mut sum, m, c);
            matmul(out, Accum::Add, a.transpose(), x, 1.0, Par::Seq);
        }
        sum
    };
    let parts: Vec<Vec<f64>> =
        a.par_chunks(block * m).zip(x.par_chunks(block * c)).map(partial).collect();
    let mut total = vec![0.0; m * c];
    parts.iter().for_each(|part| add(&mut total, 1.0, part));
    total
}

/// Checks that a Gram matrix of training rows is square, finite and as large as what comes with it, and returns its size.
pub(super) fn check_gram(k: Rows<'_, f32>, rows: usize, what: &str) -> Result<usize> {
    let n = k.n();
    if n != k.dim() {
        let what = format!("a Gram matrix of training rows is square, got {n} x {}", k.dim());
        return Err(Error::shape(what, ""));
    }
    if n != rows {
        let what = format!("the Gram matrix has {n} training rows but there are {rows} {what}");
        return Err(Error::shape(what, ""));
    }
    check_finite(k)?;
    Ok(n)
}

/// Checks that the Gram matrix of queries has a column per training row.
pub(super) fn check_queries(k: Rows<'_, f32>, n: usize) -> Result<()> {
    if k.dim() != n {
        let what = format!("queries come with {} kernel values, training rows are {n}", k.dim());
        return Err(Error::shape(what, ""));
    }
    check_finite(k)
}

fn check_finite(k: Rows<'_, f32>) -> Result<()> {
    match k.values().par_iter().position_first(|x| !x.is_finite()) {
        None => Ok(()),
        Some(at) => {
            let (row, column) = (at / k.dim(), at % k.dim());
            let what = format!("the Gram matrix is not finite in row {row}, column {column}");
            Err(Error::unfit(what, "leave this row out, or check the network for overflow"))
        }
    }
}

pub(super) fn check_lambda(lambda: f64) -> Result<()> {
    if lambda.is_finite() && lambda > 0.0 {
        return Ok(());
    }
    Err(Error::setting("lambda", "a finite number above 0", lambda))
}

/// Rows and columns `of` a square matrix.
pub(super) fn submatrix(k: Rows<'_, f32>, rows: &[usize], columns: &[usize]) -> Vec<f32> {
    rows.iter().flat_map(|&i| columns.iter().map(move |&j| k.row(i)[j])).collect()
}

#[cfg(test)]
pub(super) mod testing {
    use serde_json::Value;

    /// A case of `tests/oracles/machine/machine.json`: labels of training rows that [`features`] gives.
    pub struct Case {
        value: Value,
        pub n: usize,
        pub dim: usize,
        pub classes: usize,
        pub labels: Vec<u32>,
    }

    impl Case {
        pub fn all(machine: &str) -> Vec<Self> {
            let text = include_str!("../../../../tests/oracles/machine/machine.json");
            let oracle: Value = serde_json::from_str(text).unwrap();
            oracle[machine].as_array().unwrap().iter().map(Self::of).collect()
        }

        fn of(value: &Value) -> Self {
            let size = |key: &str| value[key].as_u64().unwrap() as usize;
            let (n, dim, classes) = (size("n"), size("dim"), size("classes"));
            let mut case = Self { value: value.clone(), n, dim, classes, labels: Vec::new() };
            case.labels = case.numbers("labels").iter().map(|&y| y as u32).collect();
            case
        }

        pub fn number(&self, key: &str) -> f64 {
            self.value[key].as_f64().unwrap()
        }

        pub fn is(&self, key: &str) -> bool {
            self.value[key].as_bool().unwrap()
        }

        pub fn numbers(&self, key: &str) -> Vec<f64> {
            let values = self.value[key].as_array().unwrap();
            values.iter().map(|x| x.as_f64().unwrap()).collect()
        }

        /// The Gram matrix of the training rows.
        pub fn gram(&self) -> Vec<f32> {
            let x = features(self.n, self.dim, 0);
            gram(&x, &x, self.dim)
        }

        /// The kernel of `n` other rows with the training rows.
        pub fn queries(&self, n: usize) -> Vec<f32> {
            gram(&features(n, self.dim, 5000), &features(self.n, self.dim, 0), self.dim)
        }
    }

    /// Features that are small multiples of 1/4, so that their products are exact in f32: K and its factor are one kernel.
    pub fn features(n: usize, dim: usize, salt: usize) -> Vec<f32> {
        let value = |i: usize, j: usize| {
            ((i * 7919 + j * 104_729 + i * j * 31 + i * i * 17) % 9) as f32 / 4.0 - 1.0
        };
        (0..n).flat_map(|i| (0..dim).map(move |j| value(i + salt, j))).collect()
    }

    pub fn gram(a: &[f32], b: &[f32], dim: usize) -> Vec<f32> {
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
        a.chunks(dim).flat_map(|a| b.chunks(dim).map(move |b| dot(a, b))).collect()
    }

    pub fn normals(n: usize, at: u64) -> Vec<f64> {
        let mut values = vec![0.0; n];
        let seed = veridical_core::Seed::new(3).unwrap();
        veridical_core::Stream::new(seed, "test/machine").at(0, at).fill_normals(&mut values);
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use veridical_core::threads::with_threads;

    #[test]
    fn a_product_has_the_same_bytes_on_any_threads() {
        let (n, m, c) = (150, 90, 3);
        let k: Vec<f32> = testing::normals(n * m, 0).iter().map(|&x| x as f32).collect();
        let x = testing::normals(m * c, 1);
        let run = |threads| {
            with_threads(Some(threads), || product(Rows::new(&k, m).unwrap(), &x, c)).unwrap()
        };
        let got = run(1);
        assert!(run(2) == got && run(7) == got);
        for i in 0..n {
            for j in 0..c {
                let want: f64 = (0..m).map(|l| f64::from(k[i * m + l]) * x[l * c + j]).sum();
                assert!((got[i * c + j] - want).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn a_gram_matrix_that_cannot_be_one_is_refused() {
        let message = |values: &[f32], dim, rows| {
            check_gram(Rows::new(values, dim).unwrap(), rows, "labels").unwrap_err().to_string()
        };
        assert_eq!(message(&[0.0; 6], 3, 2), "a Gram matrix of training rows is square, got 2 x 3");
        assert_eq!(
            message(&[0.0; 4], 2, 3),
            "the Gram matrix has 2 training rows but there are 3 labels"
        );
        assert!(
            message(&[0.0, 1.0, f32::NAN, 1.0], 2, 2)
                .starts_with("the Gram matrix is not finite in row 1, column 0")
        );
    }
}
