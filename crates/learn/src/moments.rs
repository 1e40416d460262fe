//! First and second moments of paired rows (a_i, b_i), in one pass and in f64.
//!
//! sums    S_a = sum a_i, S_b = sum b_i
//! second  A'A, A'B, B'B, not centered; centered they are A'B - S_a S_b' / n
//!
//! They determine Procrustes' rotation, linear maps, canonical correlations and CKA, and they are additive: the moments of
//! two sets of rows are the sum of theirs, so a set can be subtracted again (jackknife). Products of f32 values are exact in
//! f64; a sum of n of them is accurate to n eps of the sum of absolute values, 2e-10 for a million rows.
//!
//! Limit: the f64 GEMM rate at (d_a^2 + d_b^2) / 2 + d_a d_b fused multiply-adds per row: of the symmetric matrices only
//! the upper half is computed, in panels of rows. Threads process panels, and every panel adds the rows in order, 1,024 at
//! a time, so the bytes do not depend on the threads and no memory is needed beyond the moments.

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use rayon::prelude::*;

/// Rows converted to f64 at a time.
const STEP: usize = 1024;
/// Multiply-adds below which threads cost more than they save.
const SMALL: usize = 1 << 19;

/// First and second moments of paired rows (a_i, b_i).
///
/// ```
/// let moments = veridical_learn::PairMoments::of(&[1.0, 2.0, 3.0], 1, &[2.0, 4.0, 6.0], 1);
/// assert_eq!((moments.count(), moments.ab()), (3, &[28.0][..]));
/// assert_eq!(moments.means(), [vec![2.0], vec![4.0]]);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct PairMoments {
    dims: [usize; 2],
    count: u64,
    sum_a: Vec<f64>,
    sum_b: Vec<f64>,
    aa: Vec<f64>,
    ab: Vec<f64>,
    bb: Vec<f64>,
}

impl PairMoments {
    /// Returns the moments of no rows, with `dim_a` and `dim_b` columns.
    ///
    /// # Panics
    /// If a width is 0.
    pub fn new(dim_a: usize, dim_b: usize) -> Self {
        assert!(dim_a > 0 && dim_b > 0, "rows have values");
        Self {
            dims: [dim_a, dim_b],
            count: 0,
            sum_a: vec![0.0; dim_a],
            sum_b: vec![0.0; dim_b],
            aa: vec![0.0; dim_a * dim_a],
            ab: vec![0.0; dim_a * dim_b],
            bb: vec![0.0; dim_b * dim_b],
        }
    }

    /// Returns the moments of the given rows.
    ///
    /// # Panics
    /// If a width is 0, or the slices do not hold the same number of whole rows.
    pub fn of(a: &[f32], dim_a: usize, b: &[f32], dim_b: usize) -> Self {
        let mut moments = Self::new(dim_a, dim_b);
        moments.add(a, b);
        moments
    }

    /// Adds n rows of each table.
    ///
    /// # Panics
    /// If the slices do not hold the same number of whole rows.
    pub fn add(&mut self, a: &[f32], b: &[f32]) {
        let [dim_a, dim_b] = self.dims;
        let n = a.len() / dim_a;
        assert!(a.len() == n * dim_a && b.len() == n * dim_b, "the same number of whole rows");
        let (mut wide_a, mut wide_b) = (Vec::new(), Vec::new());
        for (a, b) in a.chunks(STEP * dim_a).zip(b.chunks(STEP * dim_b)) {
            widen(a, &mut wide_a, &mut self.sum_a);
            widen(b, &mut wide_b, &mut self.sum_b);
            let (a, b) = (Side(&wide_a, dim_a), Side(&wide_b, dim_b));
            let mut panels: Vec<Panel<'_>> = Vec::new();
            panels.extend(a.panels(&mut self.ab, b, false));
            panels.extend(a.panels(&mut self.aa, a, true));
            panels.extend(b.panels(&mut self.bb, b, true));
            if a.0.len() * (dim_a + dim_b) < SMALL {
                panels.into_iter().for_each(Panel::add);
            } else {
                panels.into_par_iter().for_each(Panel::add);
            }
        }
        mirror(&mut self.aa, dim_a);
        mirror(&mut self.bb, dim_b);
        self.count += n as u64;
    }

    /// Adds the rows of other moments.
    ///
    /// # Panics
    /// If the widths differ.
    pub fn merge(&mut self, other: &Self) {
        self.combine(other, 1.0);
        self.count += other.count;
    }

    /// Removes rows that were added earlier, as in a jackknife.
    ///
    /// # Panics
    /// If the widths differ, or more rows are removed than were added.
    pub fn remove(&mut self, other: &Self) {
        assert!(other.count <= self.count, "at most the rows that were added");
        self.combine(other, -1.0);
        self.count -= other.count;
    }

    fn combine(&mut self, other: &Self, sign: f64) {
        assert_eq!(self.dims, other.dims, "equal widths");
        let add = |to: &mut [f64], from: &[f64]| {
            to.iter_mut().zip(from).for_each(|(t, f)| *t += sign * f);
        };
        add(&mut self.sum_a, &other.sum_a);
        add(&mut self.sum_b, &other.sum_b);
        add(&mut self.aa, &other.aa);
        add(&mut self.ab, &other.ab);
        add(&mut self.bb, &other.bb);
    }

    /// Returns the number of rows added.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the number of columns of the first table.
    pub fn dim_a(&self) -> usize {
        self.dims[0]
    }

    /// Returns the number of columns of the second table.
    pub fn dim_b(&self) -> usize {
        self.dims[1]
    }

    /// Returns the sum of the rows a_i.
    pub fn sum_a(&self) -> &[f64] {
        &self.sum_a
    }

    /// Returns the sum of the rows b_i.
    pub fn sum_b(&self) -> &[f64] {
        &self.sum_b
    }

    /// Returns A'A, row-major.
    pub fn aa(&self) -> &[f64] {
        &self.aa
    }

    /// Returns A'B, row-major: dim_a rows of dim_b values.
    pub fn ab(&self) -> &[f64] {
        &self.ab
    }

    /// Returns B'B, row-major.
    pub fn bb(&self) -> &[f64] {
        &self.bb
    }

    /// Returns the moments of the shifted rows (a_i - p, b_i - q).
    ///
    /// # Panics
    /// If p or q has the wrong width.
    pub fn shifted(&self, p: &[f64], q: &[f64]) -> Self {
        assert!(p.len() == self.dims[0] && q.len() == self.dims[1], "equal widths");
        let n = self.count as f64;
        // sum (x - p)(y - q)' = X'Y - S_x q' - p S_y' + n p q'
        let shift = |xy: &[f64], [sx, sy]: [&[f64]; 2], [p, q]: [&[f64]; 2]| -> Vec<f64> {
            let d = q.len();
            let cell = |at: usize| {
                let (i, j) = (at / d, at % d);
                xy[at] - sx[i] * q[j] - p[i] * sy[j] + n * (p[i] * q[j])
            };
            (0..xy.len()).map(cell).collect()
        };
        let less = |sum: &[f64], p: &[f64]| sum.iter().zip(p).map(|(s, p)| s - n * p).collect();
        Self {
            dims: self.dims,
            count: self.count,
            sum_a: less(&self.sum_a, p),
            sum_b: less(&self.sum_b, q),
            aa: shift(&self.aa, [&self.sum_a; 2], [p; 2]),
            ab: shift(&self.ab, [&self.sum_a, &self.sum_b], [p, q]),
            bb: shift(&self.bb, [&self.sum_b; 2], [q; 2]),
        }
    }

    /// Returns the mean rows of the two tables.
    pub fn means(&self) -> [Vec<f64>; 2] {
        let n = self.count.max(1) as f64;
        [&self.sum_a, &self.sum_b].map(|sum| sum.iter().map(|s| s / n).collect())
    }

    /// Returns the moments of the rows minus their means.
    pub fn centered(&self) -> Self {
        let [a, b] = self.means();
        self.shifted(&a, &b)
    }
}

/// Converts rows to f64 and adds them to their sum.
fn widen(rows: &[f32], wide: &mut Vec<f64>, sum: &mut [f64]) {
    wide.clear();
    wide.extend(rows.iter().map(|&x| f64::from(x)));
    for row in wide.chunks_exact(sum.len()) {
        sum.iter_mut().zip(row).for_each(|(s, x)| *s += x);
    }
}

/// Rows in f64 with their width.
#[derive(Clone, Copy)]
struct Side<'a>(&'a [f64], usize);

impl<'a> Side<'a> {
    /// Splits the rows of X'Y into panels; of a symmetric matrix only the columns from the diagonal on.
    fn panels<'m>(
        self,
        matrix: &'m mut [f64],
        other: Side<'a>,
        symmetric: bool,
    ) -> impl Iterator<Item = Panel<'m>>
    where
        'a: 'm,
    {
        let height = self.1.div_ceil(4).next_multiple_of(16).min(128);
        let panels = matrix.chunks_mut(height * other.1).enumerate();
        panels.map(move |(p, out)| {
            let first = p * height;
            Panel { x: self, y: other, out, first, from: if symmetric { first } else { 0 } }
        })
    }
}

/// Rows of X'Y from `first` on, columns from `from` on.
struct Panel<'m> {
    x: Side<'m>,
    y: Side<'m>,
    out: &'m mut [f64],
    first: usize,
    from: usize,
}

impl Panel<'_> {
    fn add(self) {
        let Self { x: Side(x, dx), y: Side(y, dy), out, first, from } = self;
        let (n, height) = (x.len() / dx, out.len() / dy);
        let x = MatRef::from_row_major_slice(x, n, dx).subcols(first, height);
        let y = MatRef::from_row_major_slice(y, n, dy).subcols(from, dy - from);
        let out = MatMut::from_row_major_slice_mut(out, height, dy).subcols_mut(from, dy - from);
        matmul(out, Accum::Add, x.transpose(), y, 1.0, Par::Seq);
    }
}

/// Copies the upper triangle to the lower one.
fn mirror(matrix: &mut [f64], n: usize) {
    for i in 1..n {
        for j in 0..i {
            matrix[i * n + j] = matrix[j * n + i];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(n: usize, dim: usize, salt: usize) -> Vec<f32> {
        (0..n * dim).map(|i| ((i * 7919 + salt) % 1009) as f32 / 504.5 - 1.0).collect()
    }

    /// X'Y by its definition.
    fn slow(x: &[f32], dx: usize, y: &[f32], dy: usize) -> Vec<f64> {
        let mut out = vec![0.0; dx * dy];
        for (x, y) in x.chunks(dx).zip(y.chunks(dy)) {
            for (i, x) in x.iter().enumerate() {
                (0..dy).for_each(|j| out[i * dy + j] += f64::from(*x) * f64::from(y[j]));
            }
        }
        out
    }

    /// Sums of n products of values up to 1 in another order: n eps times their absolute values.
    fn close(got: &[f64], want: &[f64], n: usize) {
        assert_eq!(got.len(), want.len());
        let tolerance = (n * n) as f64 * f64::EPSILON;
        for (g, w) in got.iter().zip(want) {
            assert!((g - w).abs() <= tolerance, "{g} instead of {w}");
        }
    }

    #[test]
    fn moments_are_those_of_the_definition_on_any_threads() {
        for (n, da, db) in [(1, 1, 3), (5, 7, 2), (2500, 33, 70), (1024, 130, 17)] {
            let (a, b) = (rows(n, da, 1), rows(n, db, 500));
            let run = |threads| {
                let job = || PairMoments::of(&a, da, &b, db);
                veridical_core::threads::with_threads(Some(threads), job).unwrap()
            };
            let moments = run(1);
            close(moments.aa(), &slow(&a, da, &a, da), n);
            close(moments.ab(), &slow(&a, da, &b, db), n);
            close(moments.bb(), &slow(&b, db, &b, db), n);
            let ones = vec![1.0; n];
            close(moments.sum_a(), &slow(&ones, 1, &a, da), n);
            close(moments.sum_b(), &slow(&ones, 1, &b, db), n);
            assert_eq!(moments.count(), n as u64);
            assert!(run(2) == moments && run(7) == moments);
        }
    }

    #[test]
    fn lots_of_rows_can_be_added_and_taken_out() {
        let (n, da, db) = (300, 4, 6);
        let (a, b) = (rows(n, da, 3), rows(n, db, 77));
        let first = PairMoments::of(&a[..100 * da], da, &b[..100 * db], db);
        let rest = PairMoments::of(&a[100 * da..], da, &b[100 * db..], db);
        let mut all = first.clone();
        all.merge(&rest);
        close(all.ab(), &slow(&a, da, &b, db), n);
        assert_eq!(all.count(), 300);
        all.remove(&first);
        close(all.ab(), rest.ab(), n);
        close(all.sum_b(), rest.sum_b(), n);
        assert_eq!(all.count(), 200);
    }

    #[test]
    fn centered_moments_are_those_of_the_centered_rows() {
        let (n, da, db) = (64, 3, 5);
        let (a, b) = (rows(n, da, 11), rows(n, db, 12));
        let centered = PairMoments::of(&a, da, &b, db).centered();
        let less_mean = |rows: &[f32], dim: usize| -> Vec<Vec<f64>> {
            let mean = |j: usize| {
                rows.iter().skip(j).step_by(dim).map(|&x| f64::from(x)).sum::<f64>() / n as f64
            };
            let means: Vec<f64> = (0..dim).map(mean).collect();
            rows.chunks(dim)
                .map(|r| r.iter().zip(&means).map(|(&x, m)| f64::from(x) - m).collect())
                .collect()
        };
        let (x, y) = (less_mean(&a, da), less_mean(&b, db));
        let product = |x: &[Vec<f64>], y: &[Vec<f64>], i: usize, j: usize| -> f64 {
            x.iter().zip(y).map(|(x, y)| x[i] * y[j]).sum()
        };
        let want = |x, y, dx: usize, dy: usize| -> Vec<f64> {
            (0..dx * dy).map(|at| product(x, y, at / dy, at % dy)).collect()
        };
        close(centered.ab(), &want(&x, &y, da, db), n);
        close(centered.aa(), &want(&x, &x, da, da), n);
        close(centered.bb(), &want(&y, &y, db, db), n);
        close(centered.sum_a(), &vec![0.0; da], n);
    }
}
