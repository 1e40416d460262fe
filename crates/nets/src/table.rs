//! Embedding tables with row-sparse gradients.
//!
//! In each step the loss depends on a few rows of a table: those with ids in the batch. Its gradient is stored as these rows only,
//!
//! G_i = sum over the occurrences p of id i of w_p g_p,
//!
//! summed in the order of occurrence, where g_p is an existing row of values (the gradient at the input of the network, or its
//! output) and w_p a weight. The optimizer then updates these rows ([`Optimizer::step_rows`]): the cost of a step does not
//! depend on the number of rows of the table.

use rayon::prelude::*;

use crate::float::wide;
use crate::{Float, Optimizer, OptimizerSettings, Result};

/// One addend of the gradient of a table: `weight` times row `from` of list `source`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Addend<T> {
    /// Row of the table.
    pub row: u32,
    /// Index of the list of rows.
    pub source: u32,
    /// Row in that list.
    pub from: u32,
    /// Factor of that row.
    pub weight: T,
}

/// A row-sparse gradient.
#[derive(Clone, Debug, Default)]
pub struct RowGradient<T> {
    /// Rows with a gradient, ascending and unique.
    pub rows: Vec<u32>,
    /// Gradients of these rows.
    pub values: Vec<T>,
    /// (row, index) of the addends, sorted.
    order: Vec<u64>,
    /// Offsets of the addends of each row in the order.
    firsts: Vec<usize>,
}

/// Rows of a gradient that one thread sums at once.
const ROWS: usize = 64;

impl<T: Float> RowGradient<T> {
    /// Sums the addends of each row, in order. Rows of the sources have `dim` values.
    ///
    /// # Panics
    /// If an addend refers to a row that its source does not have.
    pub fn sum(&mut self, dim: usize, addends: &[Addend<T>], sources: &[&[T]]) {
        let Self { rows, values, order, firsts } = self;
        order.clear();
        order.extend(addends.iter().enumerate().map(|(p, a)| u64::from(a.row) << 32 | p as u64));
        order.par_sort_unstable();
        rows.clear();
        firsts.clear();
        for (place, &key) in order.iter().enumerate() {
            let row = (key >> 32) as u32;
            if rows.last() != Some(&row) {
                rows.push(row);
                firsts.push(place);
            }
        }
        firsts.push(order.len());
        values.resize(rows.len() * dim, T::ZERO);
        let (order, firsts) = (&*order, &*firsts);
        values.par_chunks_mut(ROWS * dim).enumerate().for_each(|(block, sums)| {
            for (i, sum) in sums.chunks_exact_mut(dim).enumerate() {
                let i = block * ROWS + i;
                let places = &order[firsts[i]..firsts[i + 1]];
                let parts = places.iter().map(|&key| {
                    let Addend { source, from, weight, .. } = addends[key as u32 as usize];
                    (weight, &sources[source as usize][from as usize * dim..][..dim])
                });
                weighted_sum(parts, sum);
            }
        });
    }
}

fn weighted_sum<'a, T: Float>(parts: impl Iterator<Item = (T, &'a [T])>, sum: &mut [T]) {
    wide(
        #[inline(always)]
        move || {
            sum.fill(T::ZERO);
            for (weight, part) in parts {
                sum.iter_mut().zip(part).for_each(|(s, &x)| *s += weight * x);
            }
        },
    );
}

/// An embedding table with the state of its optimizer.
///
/// ```
/// use veridical_nets::{Addend, OptimizerKind, OptimizerSettings, EmbeddingTable};
///
/// let mut table = EmbeddingTable::new(2, vec![0.0f32; 6], &OptimizerSettings::of(OptimizerKind::Sgd))?;
/// let addend = Addend { row: 1, source: 0, from: 0, weight: 1.0 };
/// table.step(0.5, &[addend], &[&[1.0, -1.0]]);
/// assert_eq!(table.values(), [0.0, 0.0, -0.5, 0.5, 0.0, 0.0]); // only row 1 was updated
/// # Ok::<(), veridical_nets::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct EmbeddingTable<T> {
    dim: usize,
    values: Vec<T>,
    optimizer: Optimizer<T>,
    gradient: RowGradient<T>,
}

/// Rows that one thread gathers at once.
const GATHER: usize = 256;

impl<T: Float> EmbeddingTable<T> {
    /// Creates a table from rows of `dim` values, with an optimizer.
    ///
    /// # Errors
    /// A request error if a hyperparameter of the optimizer is out of range.
    ///
    /// # Panics
    /// If the values are not whole rows.
    pub fn new(dim: usize, values: Vec<T>, settings: &OptimizerSettings) -> Result<Self> {
        settings.check()?;
        assert!(dim > 0 && values.len().is_multiple_of(dim), "whole rows");
        let optimizer = Optimizer::new(settings, values.len());
        Ok(Self { dim, values, optimizer, gradient: RowGradient::default() })
    }

    /// Returns the embedding dimension.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.values.len() / self.dim
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns all rows.
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// Returns one row.
    pub fn row(&self, row: u32) -> &[T] {
        &self.values[row as usize * self.dim..][..self.dim]
    }

    /// Copies the rows of some ids to `out`, one after the other.
    ///
    /// # Panics
    /// If an id is out of range, or `out` does not have the size of one row per id.
    pub fn gather(&self, ids: &[u32], out: &mut [T]) {
        assert_eq!(out.len(), ids.len() * self.dim, "a row for each id");
        let blocks = out.par_chunks_mut(GATHER * self.dim).zip(ids.par_chunks(GATHER));
        blocks.for_each(|(out, ids)| {
            for (out, &id) in out.chunks_exact_mut(self.dim).zip(ids) {
                out.copy_from_slice(self.row(id));
            }
        });
    }

    /// Takes one step on the rows that the addends refer to; the others are unchanged.
    pub fn step(&mut self, lr: f64, addends: &[Addend<T>], sources: &[&[T]]) {
        self.gradient.sum(self.dim, addends, sources);
        let RowGradient { rows, values, .. } = &self.gradient;
        self.optimizer.step_rows(lr, &mut self.values, self.dim, rows, values);
    }

    /// Takes one step on all rows, with a gradient for each.
    pub fn step_all(&mut self, lr: f64, gradient: &[T]) {
        let all = 0..self.values.len();
        self.optimizer.step(lr, &mut self.values, gradient, std::slice::from_ref(&all));
    }

    /// Returns the optimizer with its state.
    pub fn optimizer(&self) -> &Optimizer<T> {
        &self.optimizer
    }

    /// Resumes from an earlier state.
    ///
    /// # Errors
    /// A damaged state if it belongs to another table.
    pub fn resume(&mut self, values: &[T], steps: u64, kept: &[(&str, &[T])]) -> Result<()> {
        if values.len() != self.values.len() {
            let what = format!(
                "the checkpoint belongs to another table: it has {} values, this one {}",
                values.len(),
                self.values.len()
            );
            return Err(crate::Error::damaged(what));
        }
        self.optimizer.set_state(steps, kept)?;
        self.values.copy_from_slice(values);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::OptimizerKind;
    use crate::testing::normals;

    const KINDS: [OptimizerKind; 4] =
        [OptimizerKind::Sgd, OptimizerKind::Adam, OptimizerKind::Adamw, OptimizerKind::Adagrad];

    /// The textbook: a dense gradient, addend by addend.
    fn dense(rows: usize, dim: usize, addends: &[Addend<f64>], sources: &[&[f64]]) -> Vec<f64> {
        let mut sum = vec![0.0; rows * dim];
        for a in addends {
            for k in 0..dim {
                sum[a.row as usize * dim + k] +=
                    a.weight * sources[a.source as usize][a.from as usize * dim + k];
            }
        }
        sum
    }

    fn addend(row: u32, source: u32, from: u32, weight: f64) -> Addend<f64> {
        Addend { row, source, from, weight }
    }

    proptest! {
        #[test]
        fn sums_are_those_of_the_dense_gradient(
            given in prop::collection::vec((0u32..200, 0u32..2, 0u32..9, -2.0..2.0), 0..400),
            dim in 1usize..20,
        ) {
            let addends: Vec<_> =
                given.into_iter().map(|(row, s, f, w)| addend(row, s, f, w)).collect();
            let lists = [normals(9 * dim, "a"), normals(9 * dim, "b")];
            let sources = [&lists[0][..], &lists[1][..]];
            let want = dense(200, dim, &addends, &sources);
            let mut gradient = RowGradient::default();
            gradient.sum(dim, &addends, &sources);
            prop_assert!(gradient.rows.is_sorted_by(|a, b| a < b));
            let mut got = vec![0.0; 200 * dim];
            for (&row, values) in gradient.rows.iter().zip(gradient.values.chunks_exact(dim)) {
                got[row as usize * dim..][..dim].copy_from_slice(values);
            }
            prop_assert_eq!(got, want);
        }
    }

    /// They agree where every row is touched in every step, and always for rules that keep no memory of untouched rows (sgd, adagrad).
    #[test]
    fn sparse_and_dense_updates_agree() {
        let (rows, dim) = (300, 5);
        for kind in KINDS {
            for every_row in [true, false] {
                if !every_row && matches!(kind, OptimizerKind::Adam | OptimizerKind::Adamw) {
                    continue;
                }
                let settings = OptimizerSettings::of(kind);
                let first = normals(rows * dim, "table");
                let mut sparse = EmbeddingTable::new(dim, first.clone(), &settings).unwrap();
                let mut full = EmbeddingTable::new(dim, first, &settings).unwrap();
                let source = normals(40 * dim, "source");
                for step in 0..4 {
                    let n = if every_row { 3 * rows } else { 100 } as u32;
                    let addends: Vec<_> = (0..n)
                        .map(|p| addend((p * 7 + step) % rows as u32, 0, p % 40, 0.1))
                        .collect();
                    sparse.step(0.05, &addends, &[&source]);
                    full.step_all(0.05, &dense(rows, dim, &addends, &[&source]));
                }
                assert_eq!(sparse.values(), full.values(), "{kind:?}");
                assert_eq!(sparse.optimizer().state(), full.optimizer().state());
            }
        }
    }

    #[test]
    fn untouched_rows_and_their_state_stay() {
        let settings = OptimizerSettings::of(OptimizerKind::Adam);
        let first = normals(1000 * 3, "table");
        let mut table = EmbeddingTable::new(3, first.clone(), &settings).unwrap();
        let source = normals(3, "source");
        table.step(0.1, &[addend(7, 0, 0, 1.0), addend(999, 0, 0, 2.0)], &[&source]);
        for row in 0..1000 {
            let same = table.row(row) == &first[row as usize * 3..][..3];
            assert_eq!(same, ![7, 999].contains(&row));
        }
        let (_, m) = table.optimizer().state()[0];
        assert_eq!(m.iter().filter(|m| **m != 0.0).count(), 6);
    }

    #[test]
    fn threads_change_no_byte() {
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let settings = OptimizerSettings::of(OptimizerKind::Adam);
                let mut table =
                    EmbeddingTable::new(8, normals(500 * 8, "table"), &settings).unwrap();
                let source = normals(3000 * 8, "source");
                let addends: Vec<_> =
                    (0..3000).map(|p| addend(p * p % 500, 0, p, 1.0 / (1.0 + p as f64))).collect();
                table.step(0.1, &addends, &[&source]);
                table.values().to_vec()
            })
        };
        assert_eq!(run(1), run(2));
        assert_eq!(run(1), run(3));
    }
}
