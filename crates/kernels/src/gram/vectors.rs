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
//! |x|^2 + |y|^2 - 2 x . y are f64, so that |x - y|^2 is off by some 1e-7 |x| |y|, and by nothing for a row and itself. A row of zeros
//! has arc-cosine kernel 0 with all.

use std::f64::consts::PI;
use std::ops::Range;

use veridical_core::Rows;
use veridical_features::Kernel;

use super::{Pairs, products};

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

/// All pairs of the rows of two tables, or of one.
#[derive(Debug)]
pub struct VectorPairs<'a> {
    kernel: &'a VectorKernel,
    rows: Rows<'a, f32>,
    columns: Option<Rows<'a, f32>>,
    norms: [Vec<f64>; 2],
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
        let norms = |rows: Rows<'_, f32>| {
            rows.iter().map(|x| x.iter().map(|&x| f64::from(x).powi(2)).sum()).collect()
        };
        let others = columns.unwrap_or(rows);
        assert_eq!(rows.dim(), others.dim(), "one width");
        Self { kernel, rows, columns, norms: [norms(rows), norms(others)] }
    }
}

impl Pairs for VectorPairs<'_> {
    fn size(&self) -> (usize, usize) {
        (self.rows.n(), self.columns.unwrap_or(self.rows).n())
    }

    fn is_symmetric(&self) -> bool {
        self.columns.is_none()
    }

    fn tile(&self, rows: Range<usize>, columns: Range<usize>, values: &mut [f64]) {
        let others = self.columns.unwrap_or(self.rows);
        let dim = others.dim();
        let mut dots = vec![0.0f32; values.len()];
        products(part(self.rows, &rows), part(others, &columns), dim, &mut dots);
        let pairs = rows.flat_map(|i| columns.clone().map(move |j| (i, j)));
        for ((value, dot), (i, j)) in values.iter_mut().zip(dots).zip(pairs) {
            let norms = [self.norms[0][i], self.norms[1][j]];
            let is_same = self.columns.is_none() && i == j;
            let product = if is_same { norms[0] } else { f64::from(dot) };
            *value = self.kernel.of_product(product, norms).unwrap_or_else(|| match self.kernel {
                VectorKernel::Shift(kernel, l) => kernel.value(self.rows.row(i), others.row(j), *l),
                _ => product,
            });
        }
    }
}

/// Some rows of a table.
fn part<'a>(of: Rows<'a, f32>, range: &Range<usize>) -> &'a [f32] {
    &of.values()[range.start * of.dim()..range.end * of.dim()]
}

#[cfg(test)]
mod tests {
    use veridical_core::{Job, Seed, Stream};

    use super::*;
    use crate::gram::gram;

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
}
