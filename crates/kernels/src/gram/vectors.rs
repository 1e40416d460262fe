//! Kernels of vectors.
//!
//! | kernel | k(x, y) |
//! |---|---|
//! | linear | x . y |
//! | a [`Kernel`] of a length scale l | a function of \|x - y\|, or of the differences |
//! | arc-cosine 0 | 1 - theta / pi |
//! | arc-cosine 1 | \|x\| \|y\| (sin theta + (pi - theta) cos theta) / pi |
//!
//! theta is the angle between x and y (Cho & Saul 2009). Inner products are f32 products; norms and |x - y|^2 =
//! |x|^2 + |y|^2 - 2 x . y are f64, so that |x - y|^2 is off by some 1e-7 |x| |y|, and by nothing for a row and itself; the Gaussian
//! kernel is f32 throughout, of vectors less their mean. A row of zeros has arc-cosine kernel 0 with all.

use std::f64::consts::PI;
use std::ops::Range;

use rayon::prelude::*;
use veridical_core::Rows;
use veridical_features::Kernel;

use super::gaussian::{Scaled, mean};
use super::{Pairs, TILE, products};

/// A kernel of two vectors.
#[derive(Clone, Debug, PartialEq)]
pub enum VectorKernel {
    /// The inner product.
    Linear,
    /// A shift-invariant kernel with a length scale.
    Shift(Kernel, f64),
    /// The arc-cosine kernel of degree 0: steps.
    ArcCosine0,
    /// The arc-cosine kernel of degree 1: relu.
    ArcCosine1,
}

impl VectorKernel {
    /// Computes k(x, y) in f64.
    pub fn value(&self, x: &[f32], y: &[f32]) -> f64 {
        let dot = |x: &[f32], y: &[f32]| -> f64 {
            x.iter().zip(y).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum()
        };
        match self {
            Self::Shift(kernel, length_scale) => kernel.value(x, y, *length_scale),
            _ => {
                let product = dot(x, y);
                self.of_product(product, [dot(x, x), dot(y, y)]).unwrap_or(product)
            }
        }
    }

    /// Computes k from the inner product and both squared norms; `None` if they do not determine it.
    fn of_product(&self, product: f64, [x, y]: [f64; 2]) -> Option<f64> {
        let angle = || {
            let cosine = (product / (x * y).sqrt()).clamp(-1.0, 1.0);
            cosine.acos()
        };
        Some(match self {
            Self::Linear => product,
            Self::Shift(kernel, length_scale) => {
                let squared = (x + y - 2.0 * product).max(0.0);
                return kernel.at_distance(squared.sqrt(), *length_scale);
            }
            Self::ArcCosine0 | Self::ArcCosine1 if x == 0.0 || y == 0.0 => 0.0,
            Self::ArcCosine0 => 1.0 - angle() / PI,
            Self::ArcCosine1 => {
                let theta = angle();
                (x * y).sqrt() * (theta.sin() + (PI - theta) * theta.cos()) / PI
            }
        })
    }
}

/// Rows of one side with what their kernels need.
#[derive(Debug)]
struct Side<'a> {
    rows: Rows<'a, f32>,
    /// |x|^2; empty for the Gaussian kernel.
    norms: Vec<f64>,
    /// For the Gaussian kernel.
    scaled: Option<Scaled>,
}

/// All pairs of the rows of two tables, or of one.
///
/// ```
/// use veridical_core::Rows;
/// use veridical_features::Kernel;
/// use veridical_kernels::gram::{Pairs, VectorKernel, VectorPairs};
///
/// let kernel = VectorKernel::Shift(Kernel::Gaussian, 1.0);
/// let rows = [0.0, 1.0];
/// let pairs = VectorPairs::new(&kernel, Rows::new(&rows, 1)?, None);
/// let product = pairs.multiply(&[1.0, 1.0], 1); // K is never stored
/// assert!((product[0] - 1.0 - (-0.5f64).exp()).abs() < 1e-6);
/// # Ok::<(), veridical_core::Error>(())
/// ```
#[derive(Debug)]
pub struct VectorPairs<'a> {
    kernel: &'a VectorKernel,
    rows: Side<'a>,
    columns: Option<Side<'a>>,
}

impl<'a> VectorPairs<'a> {
    /// Pairs the rows of a table with those of another, or with each other.
    ///
    /// # Panics
    /// If the tables have different widths.
    pub fn new(
        kernel: &'a VectorKernel,
        rows: Rows<'a, f32>,
        columns: Option<Rows<'a, f32>>,
    ) -> Self {
        assert_eq!(rows.dim(), columns.unwrap_or(rows).dim(), "one width");
        let side = |of: Rows<'a, f32>| match kernel {
            VectorKernel::Shift(Kernel::Gaussian, l) => {
                let scaled = Some(Scaled::new(of, &mean(rows), *l));
                Side { rows: of, norms: Vec::new(), scaled }
            }
            _ => {
                let norm = |x: &[f32]| x.iter().map(|&x| f64::from(x).powi(2)).sum();
                Side { rows: of, norms: of.iter().map(norm).collect(), scaled: None }
            }
        };
        Self { kernel, rows: side(rows), columns: columns.map(side) }
    }

    fn others(&self) -> &Side<'a> {
        self.columns.as_ref().unwrap_or(&self.rows)
    }

    /// Writes the kernel of some rows with some rows of `others`; `row_of` tells which row a column is, if it is one.
    fn block(
        &self,
        others: &Side<'_>,
        [rows, columns]: [Range<usize>; 2],
        row_of: impl Fn(usize) -> Option<usize>,
        values: &mut [f64],
    ) {
        let width = columns.len();
        let mut out = vec![0.0f32; values.len()];
        if let (Some(own), Some(others)) = (&self.rows.scaled, &others.scaled) {
            own.tile(others, &rows, &columns, &mut out);
            values.iter_mut().zip(out).for_each(|(value, k)| *value = f64::from(k));
            for (j, row) in columns.map(row_of).enumerate() {
                if let Some(i) = row.filter(|row| rows.contains(row)) {
                    values[(i - rows.start) * width + j] = 1.0;
                }
            }
            return;
        }
        let (own, dim) = (&self.rows, others.rows.dim());
        products(part(own.rows, &rows), part(others.rows, &columns), dim, &mut out);
        let pairs = rows.flat_map(|i| columns.clone().map(move |j| (i, j)));
        for ((value, dot), (i, j)) in values.iter_mut().zip(out).zip(pairs) {
            let norms = [own.norms[i], others.norms[j]];
            let product = if row_of(j) == Some(i) { norms[0] } else { f64::from(dot) };
            *value = self.kernel.of_product(product, norms).unwrap_or_else(|| match self.kernel {
                VectorKernel::Shift(kernel, l) => {
                    kernel.value(own.rows.row(i), others.rows.row(j), *l)
                }
                _ => product,
            });
        }
    }
}

impl Pairs for VectorPairs<'_> {
    fn size(&self) -> (usize, usize) {
        (self.rows.rows.n(), self.others().rows.n())
    }

    fn is_symmetric(&self) -> bool {
        self.columns.is_none()
    }

    fn tile(&self, rows: Range<usize>, columns: Range<usize>, values: &mut [f64]) {
        let is_symmetric = self.is_symmetric();
        self.block(self.others(), [rows, columns], |j| is_symmetric.then_some(j), values);
    }

    fn columns(&self, chosen: &[u32]) -> Vec<f32> {
        let (others, dim, m) = (self.others(), self.rows.rows.dim(), chosen.len());
        let values: Vec<f32> =
            chosen.iter().flat_map(|&j| others.rows.row(j as usize)).copied().collect();
        let mut out = vec![0.0; self.rows.rows.n() * m];
        let Ok(rows) = Rows::new(&values, dim) else { return out };
        let norms = match others.norms.as_slice() {
            [] => Vec::new(),
            norms => chosen.iter().map(|&j| norms[j as usize]).collect(),
        };
        let scaled = others.scaled.as_ref().map(|scaled| scaled.select(chosen));
        let (is_symmetric, chosen_side) = (self.is_symmetric(), Side { rows, norms, scaled });
        let row_of = |j: usize| is_symmetric.then_some(chosen[j] as usize);
        out.par_chunks_mut(TILE * m).enumerate().for_each_init(Vec::new, |values, (at, out)| {
            let rows = at * TILE..at * TILE + out.len() / m;
            for first in (0..m).step_by(TILE) {
                let columns = first..(first + TILE).min(m);
                values.resize(rows.len() * columns.len(), 0.0);
                self.block(&chosen_side, [rows.clone(), columns.clone()], row_of, values);
                for (out, values) in out.chunks_exact_mut(m).zip(values.chunks_exact(columns.len()))
                {
                    let to = out[columns.clone()].iter_mut();
                    to.zip(values).for_each(|(to, &value)| *to = value as f32);
                }
            }
        });
        out
    }
}

/// Some rows of a table.
fn part<'a>(of: Rows<'a, f32>, range: &Range<usize>) -> &'a [f32] {
    &of.values()[range.start * of.dim()..range.end * of.dim()]
}

#[cfg(test)]
mod tests {
    use veridical_core::threads::with_threads;
    use veridical_core::{Job, Seed, Stream};

    use super::*;
    use crate::gram::{gram, gram_f64};

    fn table(n: usize, dim: usize, name: &str) -> Vec<f32> {
        let mut values = vec![0.0; n * dim];
        Stream::new(Seed::new(5).unwrap(), name).at(0, 0).fill_normals(&mut values);
        values.into_iter().map(|x| x as f32).collect()
    }

    /// |x - y|^2 of numbers near 1 in 20 dimensions is off by some 1e-6, and no kernel here is steeper than 1 in it.
    #[test]
    fn kernels_are_their_formulas() {
        let (a, b) = (table(300, 20, "a"), table(17, 20, "b"));
        let (a, b) = (Rows::new(&a, 20).unwrap(), Rows::new(&b, 20).unwrap());
        let dot = |x: &[f32], y: &[f32]| -> f64 {
            x.iter().zip(y).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum()
        };
        let angle = |x: &[f32], y: &[f32]| (dot(x, y) / (dot(x, x) * dot(y, y)).sqrt()).acos();
        let shift = |kernel: Kernel| VectorKernel::Shift(kernel, 4.0);
        for kernel in [
            VectorKernel::Linear,
            shift(Kernel::Gaussian),
            shift(Kernel::Laplace),
            shift(Kernel::Matern32),
            VectorKernel::ArcCosine0,
            VectorKernel::ArcCosine1,
        ] {
            let found = gram(&VectorPairs::new(&kernel, a, Some(b)), &Job::silent()).unwrap();
            let own = gram(&VectorPairs::new(&kernel, b, None), &Job::silent()).unwrap();
            assert_eq!((found.rows, found.columns, own.rows), (300, 17, 17));
            for (i, x) in a.iter().enumerate() {
                for (j, y) in b.iter().enumerate() {
                    let norms = (dot(x, x) * dot(y, y)).sqrt();
                    let want = match &kernel {
                        VectorKernel::Linear => dot(x, y),
                        VectorKernel::Shift(kernel, l) => kernel.value(x, y, *l),
                        VectorKernel::ArcCosine0 => 1.0 - angle(x, y) / PI,
                        VectorKernel::ArcCosine1 => {
                            let theta = angle(x, y);
                            norms / PI * (theta.sin() + (PI - theta) * theta.cos())
                        }
                    };
                    let got = f64::from(found.row(i)[j]);
                    assert!((got - want).abs() < 2e-5, "{kernel:?} {i} {j}: {got} {want}");
                }
            }
            if let VectorKernel::Shift(..) = kernel {
                assert!((0..17).all(|i| own.row(i)[i] == 1.0));
            }
        }
    }

    /// Products and columns without the matrix are those of the matrix, on any threads.
    #[test]
    fn the_matrix_need_not_be_stored() {
        let (n, c) = (2 * TILE + 37, 3);
        let x: Vec<f32> = table(n, 7, "x").iter().map(|x| x + 5.0).collect();
        let x = Rows::new(&x, 7).unwrap();
        let y: Vec<f64> = table(n, c, "y").into_iter().map(f64::from).collect();
        let chosen = [5, 0, 300, 548];
        for kernel in [
            VectorKernel::Shift(Kernel::Gaussian, 2.0),
            VectorKernel::Shift(Kernel::Laplace, 2.0),
            VectorKernel::ArcCosine1,
        ] {
            let pairs = VectorPairs::new(&kernel, x, None);
            let all = gram_f64(&pairs, &Job::silent()).unwrap();
            let run = |threads| {
                let both = || (pairs.multiply(&y, c), pairs.columns(&chosen));
                with_threads(Some(threads), both).unwrap()
            };
            let (product, columns) = run(1);
            assert!(run(2) == run(5) && run(2).0 == product, "{kernel:?}");
            for i in 0..n {
                let row = &all[i * n..][..n];
                for (j, &k) in chosen.iter().enumerate() {
                    assert_eq!(columns[i * chosen.len() + j], row[k as usize] as f32, "{kernel:?}");
                }
                let scale: f64 = row.iter().map(|k| k.abs()).sum();
                for j in 0..c {
                    let want: f64 = row.iter().zip(y.chunks(c)).map(|(k, y)| k * y[j]).sum();
                    // Tiles below the diagonal are their mirror in the matrix, and have other f32 roundings in the product.
                    assert!((product[i * c + j] - want).abs() < 1e-6 * scale, "{kernel:?}");
                }
            }
        }
    }
}
