//! Rows that one thread owns, and rows that threads share with one lock per row.

use spin::mutex::{SpinMutex, SpinMutexGuard};
use spin::relax::Yield;

/// A table in training: rows of `dim` values, with an optional bias per row.
pub(crate) struct TableRows<'a> {
    pub values: &'a mut [f32],
    pub dim: usize,
    /// One value per row, or empty.
    pub bias: &'a mut [f32],
}

/// Values of a cache line.
const LINE: usize = 16;

/// Access to rows with their biases; `bias` is one value, or empty.
pub(crate) trait Rows {
    /// Prefetches a row where possible; the returned value has no meaning.
    fn touch(&self, row: u32) -> f32;

    fn with<T>(&mut self, row: u32, act: impl FnOnce(&mut [f32], &mut [f32]) -> T) -> T;

    /// Two different rows at once.
    fn with_two<T>(
        &mut self,
        rows: [u32; 2],
        act: impl FnOnce([&mut [f32]; 2], [&mut [f32]; 2]) -> T,
    ) -> T;
}

impl TableRows<'_> {
    #[inline(always)]
    fn place(&self, row: u32) -> (std::ops::Range<usize>, std::ops::Range<usize>) {
        let row = row as usize;
        let bias = if self.bias.is_empty() { 0..0 } else { row..row + 1 };
        (row * self.dim..(row + 1) * self.dim, bias)
    }
}

impl Rows for TableRows<'_> {
    #[inline(always)]
    fn touch(&self, row: u32) -> f32 {
        self.values[self.place(row).0].iter().step_by(LINE).sum()
    }

    #[inline(always)]
    fn with<T>(&mut self, row: u32, act: impl FnOnce(&mut [f32], &mut [f32]) -> T) -> T {
        let (values, bias) = self.place(row);
        act(&mut self.values[values], &mut self.bias[bias])
    }

    #[inline(always)]
    fn with_two<T>(
        &mut self,
        rows: [u32; 2],
        act: impl FnOnce([&mut [f32]; 2], [&mut [f32]; 2]) -> T,
    ) -> T {
        let [low, high] = [rows[0].min(rows[1]), rows[0].max(rows[1])];
        let ((low, low_bias), (high, high_bias)) = (self.place(low), self.place(high));
        let (head, tail) = self.values.split_at_mut(high.start);
        let (bias_head, bias_tail) = self.bias.split_at_mut(high_bias.start);
        let (a, b) = (&mut head[low], &mut tail[..self.dim]);
        let (c, d) = (&mut bias_head[low_bias], &mut bias_tail[..high_bias.len()]);
        if rows[0] < rows[1] { act([a, b], [c, d]) } else { act([b, a], [d, c]) }
    }
}

/// Values and bias of a row.
type Row<'a> = (&'a mut [f32], &'a mut [f32]);

/// A table with one lock per row: no update is lost or torn, but their order depends on thread timing. A row is held for
/// some ten nanoseconds, and a position takes two dozen locks: they are released by a plain store, and a thread that has
/// to wait lets others run.
pub(crate) struct Locked<'a>(Vec<SpinMutex<Row<'a>, Yield>>);

impl<'a> Locked<'a> {
    pub fn new(table: TableRows<'a>) -> Self {
        let rows = table.values.chunks_exact_mut(table.dim);
        let locks = if table.bias.is_empty() {
            rows.map(|row| SpinMutex::new((row, &mut [][..]))).collect()
        } else {
            rows.zip(table.bias.chunks_exact_mut(1)).map(SpinMutex::new).collect()
        };
        Self(locks)
    }

    #[inline(always)]
    fn lock(&self, row: u32) -> SpinMutexGuard<'_, Row<'a>> {
        self.0[row as usize].lock()
    }
}

impl Rows for &Locked<'_> {
    /// No prefetch: another thread may hold the lock.
    #[inline(always)]
    fn touch(&self, _row: u32) -> f32 {
        0.0
    }

    #[inline(always)]
    fn with<T>(&mut self, row: u32, act: impl FnOnce(&mut [f32], &mut [f32]) -> T) -> T {
        let mut guard = self.lock(row);
        let (values, bias) = &mut *guard;
        act(values, bias)
    }

    /// Locks in ascending order, which prevents deadlocks.
    #[inline(always)]
    fn with_two<T>(
        &mut self,
        rows: [u32; 2],
        act: impl FnOnce([&mut [f32]; 2], [&mut [f32]; 2]) -> T,
    ) -> T {
        let (mut low, mut high) =
            (self.lock(rows[0].min(rows[1])), self.lock(rows[0].max(rows[1])));
        let ((a, c), (b, d)) = (&mut *low, &mut *high);
        if rows[0] < rows[1] { act([a, b], [c, d]) } else { act([b, a], [d, c]) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn apply(rows: &mut impl Rows, steps: &[(u32, u32, f32)]) {
        for &(a, b, x) in steps {
            rows.with(a, |row, bias| {
                row.iter_mut().for_each(|v| *v += x);
                bias.iter_mut().for_each(|v| *v -= x);
            });
            if a != b {
                rows.with_two([a, b], |[p, q], [c, d]| {
                    p.iter_mut().zip(q).for_each(|(p, q)| *q -= 0.5 * *p);
                    c.iter_mut().zip(d).for_each(|(c, d)| *d += 0.25 * *c);
                });
            }
        }
    }

    proptest! {
        #[test]
        fn locked_rows_are_the_rows(
            steps in prop::collection::vec((0u32..5, 0u32..5, -1.0f32..1.0), 0..30), biased: bool
        ) {
            let mut values: Vec<f32> = (0..15).map(|i| i as f32).collect();
            let mut bias: Vec<f32> = if biased { vec![1.0; 5] } else { Vec::new() };
            let (mut other, mut other_bias) = (values.clone(), bias.clone());
            apply(&mut TableRows { values: &mut values, dim: 3, bias: &mut bias }, &steps);
            let locked = Locked::new(TableRows { values: &mut other, dim: 3, bias: &mut other_bias });
            apply(&mut &locked, &steps);
            drop(locked);
            prop_assert_eq!((values, bias), (other, other_bias));
        }
    }

    #[test]
    fn no_update_of_a_shared_row_is_lost() {
        let mut values = vec![0.0f32; 4];
        let locked = Locked::new(TableRows { values: &mut values, dim: 2, bias: &mut [] });
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut rows = &locked;
                    for _ in 0..1000 {
                        rows.with_two([1, 0], |[a, b], _| {
                            a.iter_mut().chain(b).for_each(|x| *x += 1.0);
                        });
                    }
                });
            }
        });
        drop(locked);
        assert_eq!(values, [4000.0; 4]);
    }
}
