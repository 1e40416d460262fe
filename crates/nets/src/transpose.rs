//! Transposes in registers: blocks of 8 x 8 by three rounds of interleaving.

use rayon::prelude::*;

use crate::Float;
use crate::float::wide;

/// Side length of a block.
pub(crate) const SIDE: usize = 8;
/// Rows of the transpose that one thread writes at once: at least a cache line of each row that it reads.
const STRIP: usize = 4 * SIDE;

/// Transposes a block. Must be called inside [`wide`].
#[inline(always)]
pub(crate) fn block<T: Float>(rows: [[T; SIDE]; SIDE]) -> [[T; SIDE]; SIDE] {
    let mut from = rows;
    for _ in 0..3 {
        let mut to = [[T::ZERO; SIDE]; SIDE];
        for i in 0..4 {
            for k in 0..4 {
                to[2 * i][2 * k] = from[i][k];
                to[2 * i][2 * k + 1] = from[i + 4][k];
                to[2 * i + 1][2 * k] = from[i][k + 4];
                to[2 * i + 1][2 * k + 1] = from[i + 4][k + 4];
            }
        }
        from = to;
    }
    from
}

/// Writes the transpose of a row-major matrix to `to`, on any number of threads.
pub(crate) fn transpose<T: Float>(from: &[T], columns: usize, to: &mut [T]) {
    let rows = from.len() / columns;
    let strips = to.par_chunks_mut(STRIP * rows).enumerate();
    strips.for_each(|(s, to)| {
        wide(
            #[inline(always)]
            move || strip(from, columns, s * STRIP, to),
        );
    });
}

/// Transposes the columns from `first` on, as many as `to` has rows.
#[inline(always)]
fn strip<T: Float>(from: &[T], columns: usize, first: usize, to: &mut [T]) {
    let rows = from.len() / columns;
    let width = to.len() / rows;
    let (whole_rows, whole_width) = (rows / SIDE * SIDE, width / SIDE * SIDE);
    for i in (0..whole_rows).step_by(SIDE) {
        for k in (0..whole_width).step_by(SIDE) {
            let mut square = [[T::ZERO; SIDE]; SIDE];
            for (r, row) in square.iter_mut().enumerate() {
                row.copy_from_slice(&from[(i + r) * columns + first + k..][..SIDE]);
            }
            for (c, column) in block(square).iter().enumerate() {
                to[(k + c) * rows + i..][..SIDE].copy_from_slice(column);
            }
        }
    }
    for i in 0..rows {
        let least = if i < whole_rows { whole_width } else { 0 };
        for k in least..width {
            to[k * rows + i] = from[i * columns + first + k];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_columns() {
        for (rows, columns) in [(1, 1), (8, 8), (7, 9), (40, 33), (33, 40), (16, 100), (3, 64)] {
            let from: Vec<f32> = (0..rows * columns).map(|i| i as f32).collect();
            let mut to = vec![f32::NAN; from.len()];
            transpose(&from, columns, &mut to);
            for i in 0..rows {
                for k in 0..columns {
                    assert_eq!(to[k * rows + i], from[i * columns + k], "{rows} x {columns}");
                }
            }
        }
    }
}
