//! Cholesky factor of a symmetric positive definite matrix in f64, and solves with it and with either half.

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt;
use faer::linalg::matmul::matmul;
use faer::linalg::triangular_solve::{
    solve_lower_triangular_in_place, solve_upper_triangular_in_place,
};
use faer::{Accum, MatMut, MatRef, Par};
use rayon::prelude::*;

/// A = L L'.
pub(super) struct Cholesky {
    n: usize,
    /// L by columns, zeros above the diagonal.
    l: Vec<f64>,
}

impl Cholesky {
    /// Factors a matrix in its own memory; `None` if it is not positive definite.
    pub fn new(mut a: Vec<f64>, n: usize) -> Option<Self> {
        let scratch =
            llt::factor::cholesky_in_place_scratch::<f64>(n, Par::Seq, Default::default());
        let mut memory = MemBuffer::new(scratch);
        let view = MatMut::from_column_major_slice_mut(&mut a, n, n);
        let stack = MemStack::new(&mut memory);
        let none = Default::default();
        llt::factor::cholesky_in_place(view, none, Par::Seq, stack, Default::default()).ok()?;
        (0..n).for_each(|j| a[j * n..][..j].fill(0.0));
        Some(Self { n, l: a })
    }

    /// Factors A + t I with the smallest t of 0 and 1e-7, 1e-6, .. times the mean diagonal for which that is possible; with t.
    ///
    /// An attempt that fails leaves nothing of the matrix, so `make` makes it again: no second one is held.
    pub fn with_jitter(make: impl Fn() -> Vec<f64>, n: usize) -> Option<(Self, f64)> {
        [None].into_iter().chain((0..7).map(Some)).find_map(|power| {
            let mut a = make();
            let mean = (0..n).map(|i| a[i * n + i]).sum::<f64>() / n as f64;
            let jitter = power.map_or(0.0, |power| mean * 1e-7 * 10f64.powi(power));
            (0..n).for_each(|i| a[i * n + i] += jitter);
            Self::new(a, n).map(|factor| (factor, jitter))
        })
    }

    fn view(&self) -> MatRef<'_, f64> {
        MatRef::from_column_major_slice(&self.l, self.n, self.n)
    }

    /// x <- L^-1 x for columns of a row-major n x k matrix.
    pub fn lower(&self, x: &mut [f64], k: usize) {
        let x = MatMut::from_row_major_slice_mut(x, self.n, k);
        solve_lower_triangular_in_place(self.view(), x, Par::Seq);
    }

    /// x <- L'^-1 x.
    pub fn upper(&self, x: &mut [f64], k: usize) {
        let x = MatMut::from_row_major_slice_mut(x, self.n, k);
        solve_upper_triangular_in_place(self.view().transpose(), x, Par::Seq);
    }

    /// x <- A^-1 x.
    pub fn solve(&self, x: &mut [f64], k: usize) {
        self.lower(x, k);
        self.upper(x, k);
    }

    /// Rows r L'^-1 of a matrix of rows of n values, in f32: row i solves L x = r_i'.
    pub fn whiten(&self, rows: &[f32]) -> Vec<f32> {
        const BLOCK: usize = 256;
        let n = self.n;
        let mut out = vec![0.0f32; rows.len()];
        out.par_chunks_mut(BLOCK * n).zip(rows.par_chunks(BLOCK * n)).for_each(|(out, rows)| {
            let mut x: Vec<f64> = rows.iter().map(|&x| f64::from(x)).collect();
            // Columns of n values: the rows as they are.
            let view = MatMut::from_column_major_slice_mut(&mut x, n, rows.len() / n);
            solve_lower_triangular_in_place(self.view(), view, Par::Seq);
            out.iter_mut().zip(&x).for_each(|(o, x)| *o = *x as f32);
        });
        out
    }

    /// c L'L + t I, as rows.
    pub fn gram_of_factor(&self, c: f64, t: f64) -> Vec<f64> {
        const BLOCK: usize = 64;
        let n = self.n;
        // Columns of L are rows of the slice, and L'L is the product of these.
        let l = MatRef::from_row_major_slice(&self.l, n, n);
        let mut out = vec![0.0; n * n];
        let blocks = out.par_chunks_mut(BLOCK * n).zip(self.l.par_chunks(BLOCK * n));
        blocks.for_each(|(out, rows)| {
            let count = rows.len() / n;
            let out = MatMut::from_row_major_slice_mut(out, count, n);
            let rows = MatRef::from_row_major_slice(rows, count, n);
            matmul(out, Accum::Replace, rows, l.transpose(), c, Par::Seq);
        });
        (0..n).for_each(|i| out[i * n + i] += t);
        out
    }
}
