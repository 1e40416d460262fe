//! Sums over rows, channel by channel.
//!
//! Sums run in T over blocks of a few thousand values and in f64 beyond. The squares of a part are centered at the mean of
//! its first block, which is about 1/8 of its rows: if that mean is off by d, then var >= d^2/8, so cancellation makes
//! rounding at most about 9 times larger, however large the mean is. Parts have a fixed size and are combined in
//! order (Chan, Golub & LeVeque 1979).

use crate::Float;
use crate::float::wide;

/// Approximate number of values that are summed in T.
const BLOCK: usize = 1 << 13;

/// The sums of two terms over all rows of u and v, channel by channel. A term receives the values at one index and the
/// tiles there; a tile is one or more rows long.
#[inline(always)]
pub(super) fn sums<T: Float>(
    channels: usize,
    u: &[T],
    v: &[T],
    tiles: [&[T]; 3],
    term: impl Fn(T, T, [T; 3]) -> [T; 2] + Copy,
) -> [Vec<f64>; 2] {
    let width = tiles[0].len();
    let block = (BLOCK / width).max(16) * width;
    let mut totals = [vec![0.0; channels], vec![0.0; channels]];
    let mut narrow = vec![T::ZERO; 2 * width];
    for (u, v) in u.chunks(block).zip(v.chunks(block)) {
        narrow.fill(T::ZERO);
        let (first, second) = narrow.split_at_mut(width);
        let (a, b) = (&mut *first, &mut *second);
        wide(
            #[inline(always)]
            move || {
                for (u, v) in u.chunks(width).zip(v.chunks(width)) {
                    add_row(a, b, u, v, tiles, term);
                }
            },
        );
        for (total, narrow) in totals.iter_mut().zip([first, second]) {
            for row in narrow.chunks_exact(channels) {
                total.iter_mut().zip(row).for_each(|(t, s)| *t += s.wide());
            }
        }
    }
    totals
}

#[inline(always)]
fn add_row<T: Float>(
    first: &mut [T],
    second: &mut [T],
    u: &[T],
    v: &[T],
    [p, q, s]: [&[T]; 3],
    term: impl Fn(T, T, [T; 3]) -> [T; 2],
) {
    let n = u.len();
    let (first, second, v) = (&mut first[..n], &mut second[..n], &v[..n]);
    let (p, q, s) = (&p[..n], &q[..n], &s[..n]);
    for i in 0..n {
        let [a, b] = term(u[i], v[i], [p[i], q[i], s[i]]);
        first[i] += a;
        second[i] += b;
    }
}

/// Moments of a part of x, per channel.
pub(super) struct Moments {
    /// Number of rows.
    pub rows: f64,
    /// Means of the channels.
    pub mean: Vec<f64>,
    /// Sums of squares around the means.
    pub squares: Vec<f64>,
}

impl Moments {
    /// Computes the moments of a part of x with c channels, `fold` rows of which are grouped into one.
    pub fn of<T: Float>(x: &[T], c: usize, fold: usize) -> Self {
        let zeros = vec![T::ZERO; c * fold];
        let sums_around = |x: &[T], center: &[T]| {
            sums(
                c,
                x,
                x,
                [center; 3],
                #[inline(always)]
                |x, _, [center, ..]| {
                    let d = x - center;
                    [d, d * d]
                },
            )
        };
        let rows = |x: &[T]| (x.len() / c) as f64;
        let start = &x[..x.len().min(BLOCK.next_multiple_of(c))];
        let [sum, _] = sums_around(start, &zeros);
        let center: Vec<T> = sum.iter().map(|s| T::of(s / rows(start))).collect();
        let [sum, squares] = sums_around(x, &center.repeat(fold));
        let rows = rows(x);
        let mean = center.iter().zip(&sum).map(|(k, s)| k.wide() + s / rows).collect();
        let squares = squares.iter().zip(&sum).map(|(q, s)| (q - s * s / rows).max(0.0)).collect();
        Self { rows, mean, squares }
    }

    /// Combines the moments of two parts.
    pub fn and(mut self, other: Self) -> Self {
        let rows = self.rows + other.rows;
        for (c, (mean, squares)) in other.mean.iter().zip(&other.squares).enumerate() {
            let d = mean - self.mean[c];
            self.mean[c] += d * other.rows / rows;
            self.squares[c] += squares + d * d * self.rows * other.rows / rows;
        }
        Self { rows, ..self }
    }
}
