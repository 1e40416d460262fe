//! Winograd convolution: minimal filtering for 3 x 3 windows with stride 1 (Winograd 1980; Lavin & Gray 2016, section 4.1).
//!
//! F(2 x 2, 3 x 3): a tile d of 4 x 4 inputs and a filter g give 2 x 2 outputs
//!
//! y = A' [(G g G') . (B' d B)] A, . elementwise,
//!
//! with 16 multiplications instead of 36. Summed over channels these are 16 products, one per frequency: with V the
//! transformed tiles (tiles x inputs) and U the transformed filters (outputs x inputs), M = V U'. Tiles are 2 apart; the last
//! may extend past the edge, where it reads zeros and writes nothing. Every step is linear, so the backward pass is its
//! transpose:
//!
//! dM = A dy A', dU = sum over tiles dM' V, dW = G' dU G (this is F(3 x 3, 2 x 2)), dV = dM U, dx += B dV B'.
//!
//! Channels are last: the transforms are additions of runs of channels. The entries of A and B are 0 and +-1 and those of G
//! 0, 1 and +-1/2, so rounding grows by a small factor only (a test measures it).

mod axes;

use rayon::prelude::*;

use self::axes::{
    FREQUENCIES, Filter, FilterBack, Inputs, InputsBack, Outputs, OutputsBack, Planes, PlanesMut,
    analyze, synthesize,
};
use crate::float::wide;
use crate::product::{Matrix, whole};
use crate::{Float, Scope, Shape};

/// Side length of a tile of inputs.
const IN: usize = 4;
/// Side length of a tile of outputs.
const OUT: usize = 2;
/// Number of channels from which tiles pay off. Measured against windows on one thread (AVX2, f32), forward and backward:
/// 16 channels 0.8 and 0.9 times as fast, 32 1.3 and 1.4, 64 1.4 and 1.6, 128 1.5 and 1.8, 256 (8 x 8) and 512 (4 x 4) 2.2
/// and 1.9.
const LEAST_CHANNELS: usize = 32;
/// Values of the transformed tiles of a block: they stay in the L2 cache.
const BLOCK: usize = 1 << 17;
/// Minimum number of tiles per block: products of fewer rows are slow.
const LEAST_BLOCK: usize = 32;
/// Filters that a thread transforms at a time.
const FILTERS: usize = 8;

/// Geometry of the tiles of an image.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tiles {
    pub input: Shape,
    pub output: Shape,
    pub padding: usize,
    /// Whether a few samples are processed on one thread, a block of tiles at a time, or the batch on all threads: then samples
    /// are transformed separately and every frequency is one product.
    pub scope: Scope,
}

/// Splits values into one matrix per frequency.
fn planes<T>(values: &[T]) -> Planes<'_, T> {
    let len = values.len() / FREQUENCIES;
    std::array::from_fn(|f| &values[f * len..][..len])
}

/// Splits values into one mutable matrix per frequency.
fn planes_mut<T>(values: &mut [T]) -> PlanesMut<'_, T> {
    let mut planes = values.chunks_exact_mut(values.len() / FREQUENCIES);
    // INVARIANT: there are as many chunks as frequencies.
    std::array::from_fn(|_| planes.next().unwrap_or_default())
}

/// Bands of `len` values of each plane, with their indices.
fn bands<T: Float>(
    planes: PlanesMut<'_, T>,
    len: usize,
) -> impl ParallelIterator<Item = (usize, PlanesMut<'_, T>)> {
    let count = planes[0].len().div_ceil(len);
    let mut bands = planes.map(|plane| plane.chunks_mut(len));
    // INVARIANT: all planes have the same number of bands.
    let band = |_| std::array::from_fn(|f| bands[f].next().unwrap_or_default());
    let bands: Vec<PlanesMut<'_, T>> = (0..count).map(band).collect();
    bands.into_par_iter().enumerate()
}

/// Band `i` of `len` values of each plane.
fn band<'a, T>(planes: &Planes<'a, T>, i: usize, len: usize) -> Planes<'a, T> {
    planes.map(|plane| &plane[i * len..plane.len().min((i + 1) * len)])
}

/// Computes U = G g G' of filters in the order out, ky, kx, in.
fn filters<T: Float>(c: usize, weight: &[T], mut u: PlanesMut<'_, T>) {
    wide(
        #[inline(always)]
        move || {
            for (o, g) in weight.chunks_exact(9 * c).enumerate() {
                let mut from = [[&g[..0]; 3]; 3];
                for (t, g) in g.chunks_exact(c).enumerate() {
                    from[t / 3][t % 3] = g;
                }
                analyze::<Filter, T, 3>(c, from, &mut u, o);
            }
        },
    );
}

/// Computes dW = G' dU G.
fn filters_back<T: Float>(c: usize, du: Planes<'_, T>, dweight: &mut [T]) {
    wide(
        #[inline(always)]
        move || {
            for (o, dg) in dweight.chunks_exact_mut(9 * c).enumerate() {
                let mut places = [[None; 3]; 3];
                for t in 0..9 {
                    places[t / 3][t % 3] = Some(t * c);
                }
                synthesize::<FilterBack, T, 3>(c, &du, o, false, dg, places);
            }
        },
    );
}

/// The positions of an N x N tile whose first one is at (y, x) - padding, in an image.
#[inline(always)]
fn square<const N: usize>(
    shape: Shape,
    sample: usize,
    (y, x): (usize, usize),
    padding: usize,
) -> [[Option<usize>; N]; N] {
    let mut places = [[None; N]; N];
    for (i, places) in places.iter_mut().enumerate() {
        // Negative positions wrap around to large values.
        let y = (y + i).wrapping_sub(padding);
        for (j, place) in places.iter_mut().enumerate() {
            let x = (x + j).wrapping_sub(padding);
            if y < shape.height && x < shape.width {
                let position = (sample * shape.height + y) * shape.width + x;
                *place = Some(position * shape.channels);
            }
        }
    }
    places
}

impl Tiles {
    fn down(&self) -> usize {
        self.output.height.div_ceil(OUT)
    }

    fn across(&self) -> usize {
        self.output.width.div_ceil(OUT)
    }

    /// Whether tiles save at least a third of the multiplications, which is not so for outputs of 1 x 1 or 3 x 3.
    pub fn pay(&self) -> bool {
        3 * FREQUENCIES * self.count() <= 2 * 9 * self.output.positions()
            && self.input.channels.min(self.output.channels) >= LEAST_CHANNELS
    }

    /// Number of tiles per sample.
    fn count(&self) -> usize {
        self.down() * self.across()
    }

    /// The sample of tile t and its first output.
    #[inline(always)]
    fn at(&self, t: usize) -> (usize, (usize, usize)) {
        let (sample, t) = (t / self.count(), t % self.count());
        (sample, (t / self.across() * OUT, t % self.across() * OUT))
    }

    /// Input positions of tile t.
    #[inline(always)]
    fn inputs(&self, t: usize) -> [[Option<usize>; IN]; IN] {
        let (sample, at) = self.at(t);
        square(self.input, sample, at, self.padding)
    }

    /// Output positions of tile t.
    #[inline(always)]
    fn outputs(&self, t: usize) -> [[Option<usize>; OUT]; OUT] {
        let (sample, at) = self.at(t);
        square(self.output, sample, at, 0)
    }

    /// Computes V = B' d B of the tiles from `first` on, as many as fit.
    fn transform<T: Float>(&self, x: &[T], first: usize, mut v: PlanesMut<'_, T>, zeros: &[T]) {
        let (tiles, c) = (*self, self.input.channels);
        wide(
            #[inline(always)]
            move || {
                for r in 0..v[0].len() / c {
                    let from = tiles.inputs(first + r);
                    let from = runs(x, from, c, zeros);
                    analyze::<Inputs, T, IN>(c, from, &mut v, r);
                }
            },
        );
    }

    /// Computes dM = A dy A'.
    fn transform_back<T: Float>(
        &self,
        dy: &[T],
        first: usize,
        mut dm: PlanesMut<'_, T>,
        zeros: &[T],
    ) {
        let (tiles, c) = (*self, self.output.channels);
        wide(
            #[inline(always)]
            move || {
                for r in 0..dm[0].len() / c {
                    let from = runs(dy, tiles.outputs(first + r), c, zeros);
                    analyze::<OutputsBack, T, OUT>(c, from, &mut dm, r);
                }
            },
        );
    }

    /// Computes y = A' M A, or adds it.
    fn write<T: Float>(&self, m: Planes<'_, T>, first: usize, add: bool, y: &mut [T]) {
        let (tiles, c) = (*self, self.output.channels);
        wide(
            #[inline(always)]
            move || {
                for r in 0..m[0].len() / c {
                    let places = tiles.outputs(first + r);
                    synthesize::<Outputs, T, OUT>(c, &m, r, add, y, places);
                }
            },
        );
    }

    /// Adds B dV B' to dx.
    fn write_back<T: Float>(&self, dv: Planes<'_, T>, first: usize, dx: &mut [T]) {
        let (tiles, c) = (*self, self.input.channels);
        wide(
            #[inline(always)]
            move || {
                for r in 0..dv[0].len() / c {
                    let places = tiles.inputs(first + r);
                    synthesize::<InputsBack, T, IN>(c, &dv, r, true, dx, places);
                }
            },
        );
    }
}

/// The runs of c channels at these positions, zeros outside.
#[inline(always)]
fn runs<'a, T, const N: usize>(
    values: &'a [T],
    places: [[Option<usize>; N]; N],
    c: usize,
    zeros: &'a [T],
) -> [[&'a [T]; N]; N] {
    let mut out = [[&zeros[..c]; N]; N];
    for i in 0..N {
        for j in 0..N {
            if let Some(place) = places[i][j] {
                out[i][j] = &values[place..][..c];
            }
        }
    }
    out
}

/// Splits scratch memory into consecutive parts.
fn parts<T: Float, const N: usize>(scratch: &mut Vec<T>, lens: [usize; N]) -> [&mut [T]; N] {
    let len = lens.iter().sum();
    if scratch.len() < len {
        scratch.resize(len, T::ZERO);
    }
    let mut rest = scratch.as_mut_slice();
    lens.map(|len| rest.split_off_mut(..len).unwrap_or_default())
}

impl Tiles {
    /// Number of tiles per block, of `tiles` in total.
    fn block(&self, tiles: usize) -> usize {
        let values = FREQUENCIES * (self.input.channels + self.output.channels);
        match self.scope {
            Scope::Samples => (BLOCK / values).next_multiple_of(8).max(LEAST_BLOCK).min(tiles),
            Scope::Batch => tiles,
        }
    }

    /// Computes U of all filters.
    fn all_filters<T: Float>(&self, weight: &[T], u: &mut [T]) {
        let c = self.input.channels;
        match self.scope {
            Scope::Samples => filters(c, weight, planes_mut(u)),
            Scope::Batch => bands(planes_mut(u), FILTERS * c).for_each(|(b, u)| {
                filters(c, &weight[b * FILTERS * 9 * c..][..u[0].len() * 9], u);
            }),
        }
    }

    /// Computes dW of all filters.
    fn all_filters_back<T: Float>(&self, du: &[T], dweight: &mut [T]) {
        let (c, du) = (self.input.channels, planes(du));
        match self.scope {
            Scope::Samples => filters_back(c, du, dweight),
            Scope::Batch => {
                let bands = dweight.par_chunks_mut(FILTERS * 9 * c).enumerate();
                bands.for_each(|(b, dweight)| filters_back(c, band(&du, b, FILTERS * c), dweight));
            }
        }
    }

    /// Applies `transform` to a block of tiles with `c` channels: at once or sample by sample.
    fn analyze<T: Float>(
        &self,
        first: usize,
        c: usize,
        values: &mut [T],
        transform: impl Fn(usize, PlanesMut<'_, T>) + Sync,
    ) {
        match self.scope {
            Scope::Samples => transform(first, planes_mut(values)),
            Scope::Batch => bands(planes_mut(values), self.count() * c)
                .for_each(|(sample, band)| transform(sample * self.count(), band)),
        }
    }

    /// The transpose of [`Tiles::analyze`]: into samples of `shape`.
    fn synthesize<T: Float>(
        &self,
        first: usize,
        shape: Shape,
        values: &[T],
        samples: &mut [T],
        transform: impl Fn(usize, Planes<'_, T>, &mut [T]) + Sync,
    ) {
        let values = planes(values);
        match self.scope {
            Scope::Samples => transform(first, values, samples),
            Scope::Batch => {
                let len = self.count() * shape.channels;
                let samples = samples.par_chunks_mut(shape.values()).enumerate();
                samples.for_each(|(s, sample)| transform(0, band(&values, s, len), sample));
            }
        }
    }

    /// Applies `product` to the three matrices of each frequency.
    fn multiply<T: Float>(
        &self,
        to: &mut [T],
        a: &[T],
        b: &[T],
        product: impl Fn(&mut [T], &[T], &[T]) + Sync,
    ) {
        let (a, b, len) = (planes(a), planes(b), to.len() / FREQUENCIES);
        let each = |(f, to): (usize, &mut [T])| product(to, a[f], b[f]);
        match self.scope {
            Scope::Samples => to.chunks_exact_mut(len).enumerate().for_each(each),
            Scope::Batch => to.par_chunks_exact_mut(len).enumerate().for_each(each),
        }
    }

    /// Computes the convolution of n samples into y, or adds it.
    pub fn forward<T: Float>(
        &self,
        n: usize,
        weight: &[T],
        x: &[T],
        add: bool,
        y: &mut [T],
        scratch: &mut Vec<T>,
    ) {
        let (c, o, tiles) = (self.input.channels, self.output.channels, n * self.count());
        let block = self.block(tiles);
        let lens = [o * c, block * c, block * o].map(|len| FREQUENCIES * len);
        let [u, v, m, zeros] = parts(scratch, [lens[0], lens[1], lens[2], c]);
        zeros.fill(T::ZERO);
        let zeros = &*zeros;
        self.all_filters(weight, u);
        for first in (0..tiles).step_by(block) {
            let count = block.min(tiles - first);
            let (v, m) = (&mut v[..FREQUENCIES * count * c], &mut m[..FREQUENCIES * count * o]);
            self.analyze(first, c, v, |t, v| self.transform(x, t, v, zeros));
            self.multiply(m, v, u, |m, v, u| {
                let u = Matrix::rows(u, o, c).transposed();
                whole(m, false, T::ONE, Matrix::rows(v, count, c), u);
            });
            self.synthesize(first, self.output, m, y, |t, m, y| self.write(m, t, add, y));
        }
    }

    /// Computes dx and dW of n samples.
    #[expect(clippy::too_many_arguments, reason = "both gradients share the transform of dy")]
    pub fn backward<T: Float>(
        &self,
        n: usize,
        weight: &[T],
        x: &[T],
        dy: &[T],
        mut dx: Option<&mut [T]>,
        dweight: Option<&mut [T]>,
        scratch: &mut Vec<T>,
    ) {
        let (c, o, tiles) = (self.input.channels, self.output.channels, n * self.count());
        let block = self.block(tiles);
        let lens = [o * c, block * c, block * o].map(|len| FREQUENCIES * len);
        let [u, du, v, dm, zeros] = parts(scratch, [lens[0], lens[0], lens[1], lens[2], c.max(o)]);
        zeros.fill(T::ZERO);
        let zeros = &*zeros;
        if let Some(dx) = &mut dx {
            dx.fill(T::ZERO);
            self.all_filters(weight, u);
        }
        for first in (0..tiles).step_by(block) {
            let count = block.min(tiles - first);
            let (v, dm) = (&mut v[..FREQUENCIES * count * c], &mut dm[..FREQUENCIES * count * o]);
            self.analyze(first, o, dm, |t, dm| self.transform_back(dy, t, dm, zeros));
            if dweight.is_some() {
                self.analyze(first, c, v, |t, v| self.transform(x, t, v, zeros));
                self.multiply(du, dm, v, |du, dm, v| {
                    let dm = Matrix::rows(dm, count, o).transposed();
                    whole(du, first > 0, T::ONE, dm, Matrix::rows(v, count, c));
                });
            }
            let Some(dx) = &mut dx else { continue };
            // V is no longer needed: dV reuses its memory.
            self.multiply(v, dm, u, |dv, dm, u| {
                whole(dv, false, T::ONE, Matrix::rows(dm, count, o), Matrix::rows(u, o, c));
            });
            self.synthesize(first, self.input, v, dx, |t, dv, dx| self.write_back(dv, t, dx));
        }
        if let Some(dweight) = dweight {
            self.all_filters_back(du, dweight);
        }
    }
}

#[cfg(test)]
mod tests;
