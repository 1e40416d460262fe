//! Sums, concatenations and their gradients, from slot to slot.

use crate::Float;
use crate::float::wide;

pub(super) fn accumulate<T: Float>(to: &mut [T], from: &[T]) {
    wide(
        #[inline(always)]
        move || to.iter_mut().zip(from).for_each(|(t, &f)| *t += f),
    );
}

/// y = a + b, followed by relu if `relu`.
pub(super) fn add<T: Float>(a: &[T], b: &[T], relu: bool, y: &mut [T]) {
    wide(
        #[inline(always)]
        move || {
            let pairs = a.iter().zip(b);
            if relu {
                for (y, (&a, &b)) in y.iter_mut().zip(pairs) {
                    let sum = a + b;
                    *y = if sum < T::ZERO { T::ZERO } else { sum };
                }
            } else {
                y.iter_mut().zip(pairs).for_each(|(y, (&a, &b))| *y = a + b);
            }
        },
    );
}

/// y = [a b], row by row; rows of a have `width` values.
pub(super) fn join<T: Float>(a: &[T], b: &[T], width: usize, y: &mut [T]) {
    let rows = a.len() / width;
    let more = b.len() / rows;
    let pairs = a.chunks_exact(width).zip(b.chunks_exact(more));
    for (y, (a, b)) in y.chunks_exact_mut(width + more).zip(pairs) {
        y[..width].copy_from_slice(a);
        y[width..].copy_from_slice(b);
    }
}

/// dx = `width` columns of dy from `first` on, or adds them.
pub(super) fn part<T: Float>(
    dy: &[T],
    row: usize,
    first: usize,
    adds: bool,
    dx: &mut [T],
    width: usize,
) {
    for (dx, dy) in dx.chunks_exact_mut(width).zip(dy.chunks_exact(row)) {
        let dy = &dy[first..first + width];
        match adds {
            true => dx.iter_mut().zip(dy).for_each(|(dx, &dy)| *dx += dy),
            false => dx.copy_from_slice(dy),
        }
    }
}

/// dx = dy, or adds dy, where the sum was positive.
pub(super) fn pass_on<T: Float>(dy: &[T], mask: Option<&[T]>, adds: bool, dx: &mut [T]) {
    wide(
        #[inline(always)]
        move || match (mask, adds) {
            (None, false) => dx.copy_from_slice(dy),
            (None, true) => dx.iter_mut().zip(dy).for_each(|(dx, &dy)| *dx += dy),
            (Some(y), false) => {
                for ((dx, &dy), &y) in dx.iter_mut().zip(dy).zip(y) {
                    *dx = if y > T::ZERO { dy } else { T::ZERO };
                }
            }
            (Some(y), true) => {
                for ((dx, &dy), &y) in dx.iter_mut().zip(dy).zip(y) {
                    *dx += if y > T::ZERO { dy } else { T::ZERO };
                }
            }
        },
    );
}
