//! Minimal filtering for 3 x 3 windows with stride 1 (Winograd 1980; Lavin & Gray 2016, section 4.1).
//!
//! F(2 x 2, 3 x 3): a tile d of 4 x 4 inputs and a filter g give 2 x 2 outputs
//!
//! y = A' [(G g G') . (B' d B)] A, . value by value,
//!
//! with 16 multiplications instead of 36. Summed over channels these are 16 products, one per frequency: with V the
//! transformed tiles (tiles x inputs) and U the transformed filters (outputs x inputs), M = V U'. Tiles lie 2 apart; the last
//! may hang over the edge, where it reads zeros and writes nothing. Every step is linear, so the way back is its
//! transpose:
//!
//! dM = A dy A', dU = sum over tiles dM' V, dW = G' dU G (this is F(3 x 3, 2 x 2)), dV = dM U, dx += B dV B'.
//!
//! Channels are last: the transforms are additions of runs of channels. The entries of A and B are 0 and +-1 and those of G
//! 0, 1 and +-1/2, so rounding grows by a small factor only (a test states it).

use std::ops::{Add, Mul, Sub};

use rayon::prelude::*;

use crate::float::wide;
use crate::product::{Matrix, whole};
use crate::{Float, Scope, Shape};

/// Frequencies of a tile.
const FREQUENCIES: usize = 16;
/// Side of a tile of inputs.
const IN: usize = 4;
/// Side of a tile of outputs.
const OUT: usize = 2;
/// Channels that are taken together.
const LANES: usize = 8;
/// Tiles pay from so many channels on. Measured against windows on one thread (Zen 3, f32), forward and backward: 16 channels
/// 0.8 and 0.9 times as fast, 32 1.3 and 1.4, 64 1.5 and 1.6, 128 1.5 and 1.8, 256 (8 x 8) 2.2 and 2.0, 512 (4 x 4) 2.2 and 1.9.
const LEAST_CHANNELS: usize = 32;
/// Values of the transformed tiles of a block: they stay in the second cache level.
const BLOCK: usize = 1 << 17;
/// and a block has at least so many tiles: products of fewer rows are slow.
const LEAST_BLOCK: usize = 32;
/// Filters that a thread transforms at a time.
const FILTERS: usize = 8;

/// Where tiles lie.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tiles {
    pub input: Shape,
    pub output: Shape,
    pub padding: usize,
    /// Whether few samples come on one thread, a block of tiles at a time, or the batch on all threads: then samples are
    /// transformed apart and every frequency is one product.
    pub scope: Scope,
}

/// A matrix of each frequency.
type Planes<'a, T> = [&'a [T]; FREQUENCIES];
/// A matrix of each frequency, to be written.
type PlanesMut<'a, T> = [&'a mut [T]; FREQUENCIES];

/// A few channels.
#[derive(Clone, Copy)]
struct Lanes<T, const L: usize>([T; L]);

impl<T: Float, const L: usize> Lanes<T, L> {
    #[inline(always)]
    fn of(values: &[T], at: usize) -> Self {
        let mut lanes = [T::ZERO; L];
        lanes.copy_from_slice(&values[at..][..L]);
        Self(lanes)
    }

    #[inline(always)]
    fn to(self, values: &mut [T], at: usize) {
        values[at..][..L].copy_from_slice(&self.0);
    }

    #[inline(always)]
    fn negated(self) -> Self {
        Self([T::ZERO; L]) - self
    }
}

impl<T: Float, const L: usize> Add for Lanes<T, L> {
    type Output = Self;

    #[inline(always)]
    fn add(mut self, other: Self) -> Self {
        for i in 0..L {
            self.0[i] += other.0[i];
        }
        self
    }
}

impl<T: Float, const L: usize> Sub for Lanes<T, L> {
    type Output = Self;

    #[inline(always)]
    fn sub(mut self, other: Self) -> Self {
        for i in 0..L {
            self.0[i] -= other.0[i];
        }
        self
    }
}

impl<T: Float, const L: usize> Mul<T> for Lanes<T, L> {
    type Output = Self;

    #[inline(always)]
    fn mul(mut self, factor: T) -> Self {
        for i in 0..L {
            self.0[i] *= factor;
        }
        self
    }
}

/// One transform along one axis.
trait Axis<const I: usize, const O: usize> {
    fn apply<T: Float, const L: usize>(v: [Lanes<T, L>; I]) -> [Lanes<T, L>; O];
}

/// X m X' for the transform X.
#[inline(always)]
fn both<X: Axis<I, O>, T: Float, const I: usize, const O: usize, const L: usize>(
    m: [[Lanes<T, L>; I]; I],
) -> [[Lanes<T, L>; O]; O] {
    let zero = Lanes([T::ZERO; L]);
    let mut half = [[zero; O]; I];
    for i in 0..I {
        half[i] = X::apply(m[i]);
    }
    let mut out = [[zero; O]; O];
    for j in 0..O {
        let mut column = [zero; I];
        for i in 0..I {
            column[i] = half[i][j];
        }
        let column = X::apply(column);
        for i in 0..O {
            out[i][j] = column[i];
        }
    }
    out
}

/// B': a tile of inputs to its frequencies.
struct Inputs;
impl Axis<4, 4> for Inputs {
    #[inline(always)]
    fn apply<T: Float, const L: usize>(d: [Lanes<T, L>; 4]) -> [Lanes<T, L>; 4] {
        [d[0] - d[2], d[1] + d[2], d[2] - d[1], d[1] - d[3]]
    }
}

/// B.
struct InputsBack;
impl Axis<4, 4> for InputsBack {
    #[inline(always)]
    fn apply<T: Float, const L: usize>(v: [Lanes<T, L>; 4]) -> [Lanes<T, L>; 4] {
        [v[0], v[1] - v[2] + v[3], v[1] + v[2] - v[0], v[3].negated()]
    }
}

/// A': frequencies to a tile of outputs.
struct Outputs;
impl Axis<4, 2> for Outputs {
    #[inline(always)]
    fn apply<T: Float, const L: usize>(m: [Lanes<T, L>; 4]) -> [Lanes<T, L>; 2] {
        [m[0] + m[1] + m[2], m[1] - m[2] - m[3]]
    }
}

/// A.
struct OutputsBack;
impl Axis<2, 4> for OutputsBack {
    #[inline(always)]
    fn apply<T: Float, const L: usize>(y: [Lanes<T, L>; 2]) -> [Lanes<T, L>; 4] {
        [y[0], y[0] + y[1], y[0] - y[1], y[1].negated()]
    }
}

/// G: a filter to its frequencies.
struct Filter;
impl Axis<3, 4> for Filter {
    #[inline(always)]
    fn apply<T: Float, const L: usize>(g: [Lanes<T, L>; 3]) -> [Lanes<T, L>; 4] {
        let half = T::of(0.5);
        let sum = (g[0] + g[2]) * half;
        let middle = g[1] * half;
        [g[0], sum + middle, sum - middle, g[2]]
    }
}

/// G'.
struct FilterBack;
impl Axis<4, 3> for FilterBack {
    #[inline(always)]
    fn apply<T: Float, const L: usize>(u: [Lanes<T, L>; 4]) -> [Lanes<T, L>; 3] {
        let half = T::of(0.5);
        let sum = (u[1] + u[2]) * half;
        [u[0] + sum, (u[1] - u[2]) * half, sum + u[3]]
    }
}

/// Runs of c channels at the places of a square, transformed into a row of each frequency.
#[inline(always)]
fn analyse<X: Axis<I, 4>, T: Float, const I: usize>(
    c: usize,
    from: [[&[T]; I]; I],
    to: &mut PlanesMut<'_, T>,
    row: usize,
) {
    let even = c - c % LANES;
    for at in (0..even).step_by(LANES) {
        analyse_at::<X, T, I, LANES>(at, &from, to, row * c);
    }
    for at in even..c {
        analyse_at::<X, T, I, 1>(at, &from, to, row * c);
    }
}

#[inline(always)]
fn analyse_at<X: Axis<I, 4>, T: Float, const I: usize, const L: usize>(
    at: usize,
    from: &[[&[T]; I]; I],
    to: &mut PlanesMut<'_, T>,
    first: usize,
) {
    let mut square = [[Lanes([T::ZERO; L]); I]; I];
    for i in 0..I {
        for j in 0..I {
            square[i][j] = Lanes::of(from[i][j], at);
        }
    }
    let square = both::<X, T, I, 4, L>(square);
    for i in 0..4 {
        for j in 0..4 {
            square[i][j].to(to[4 * i + j], first + at);
        }
    }
}

/// One row of each frequency, transformed and written (or added) to runs of c channels: `places` says where they begin, none
/// if outside.
#[inline(always)]
fn synthesise<X: Axis<4, O>, T: Float, const O: usize>(
    c: usize,
    from: &Planes<'_, T>,
    row: usize,
    add: bool,
    to: &mut [T],
    places: [[Option<usize>; O]; O],
) {
    let even = c - c % LANES;
    for at in (0..even).step_by(LANES) {
        synthesise_at::<X, T, O, LANES>(at, from, row * c, add, to, &places);
    }
    for at in even..c {
        synthesise_at::<X, T, O, 1>(at, from, row * c, add, to, &places);
    }
}

#[inline(always)]
fn synthesise_at<X: Axis<4, O>, T: Float, const O: usize, const L: usize>(
    at: usize,
    from: &Planes<'_, T>,
    first: usize,
    add: bool,
    to: &mut [T],
    places: &[[Option<usize>; O]; O],
) {
    let mut square = [[Lanes([T::ZERO; L]); 4]; 4];
    for i in 0..4 {
        for j in 0..4 {
            square[i][j] = Lanes::of(from[4 * i + j], first + at);
        }
    }
    let square = both::<X, T, 4, O, L>(square);
    for i in 0..O {
        for j in 0..O {
            let Some(place) = places[i][j] else { continue };
            let old = if add { Lanes::of(to, place + at) } else { Lanes([T::ZERO; L]) };
            (old + square[i][j]).to(to, place + at);
        }
    }
}

/// A matrix of each frequency, one after the other.
fn planes<T>(values: &[T]) -> Planes<'_, T> {
    let len = values.len() / FREQUENCIES;
    std::array::from_fn(|f| &values[f * len..][..len])
}

/// The same, to be written.
fn planes_mut<T>(values: &mut [T]) -> PlanesMut<'_, T> {
    let mut planes = values.chunks_exact_mut(values.len() / FREQUENCIES);
    // INVARIANT: there are as many chunks as frequencies.
    std::array::from_fn(|_| planes.next().unwrap_or_default())
}

/// Bands of `len` values of each plane, and their numbers.
fn bands<T: Float>(
    planes: PlanesMut<'_, T>,
    len: usize,
) -> impl ParallelIterator<Item = (usize, PlanesMut<'_, T>)> {
    let count = planes[0].len().div_ceil(len);
    let mut bands = planes.map(|plane| plane.chunks_mut(len));
    // INVARIANT: all planes have as many bands.
    let band = |_| std::array::from_fn(|f| bands[f].next().unwrap_or_default());
    let bands: Vec<PlanesMut<'_, T>> = (0..count).map(band).collect();
    bands.into_par_iter().enumerate()
}

/// Band `i` of `len` values of each plane.
fn band<'a, T>(planes: &Planes<'a, T>, i: usize, len: usize) -> Planes<'a, T> {
    planes.map(|plane| &plane[i * len..plane.len().min((i + 1) * len)])
}

/// U = G g G' of filters in the order out, ky, kx, in.
fn filters<T: Float>(c: usize, weight: &[T], mut u: PlanesMut<'_, T>) {
    wide(
        #[inline(always)]
        move || {
            for (o, g) in weight.chunks_exact(9 * c).enumerate() {
                let mut from = [[&g[..0]; 3]; 3];
                for (t, g) in g.chunks_exact(c).enumerate() {
                    from[t / 3][t % 3] = g;
                }
                analyse::<Filter, T, 3>(c, from, &mut u, o);
            }
        },
    );
}

/// dW = G' dU G.
fn filters_back<T: Float>(c: usize, du: Planes<'_, T>, dweight: &mut [T]) {
    wide(
        #[inline(always)]
        move || {
            for (o, dg) in dweight.chunks_exact_mut(9 * c).enumerate() {
                let mut places = [[None; 3]; 3];
                for t in 0..9 {
                    places[t / 3][t % 3] = Some(t * c);
                }
                synthesise::<FilterBack, T, 3>(c, &du, o, false, dg, places);
            }
        },
    );
}

/// A square of positions of an image, those of an N x N tile whose first one is at (y, x) - padding.
#[inline(always)]
fn square<const N: usize>(
    shape: Shape,
    sample: usize,
    (y, x): (usize, usize),
    padding: usize,
) -> [[Option<usize>; N]; N] {
    let mut places = [[None; N]; N];
    for (i, places) in places.iter_mut().enumerate() {
        // Positions before the first become large.
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

    /// Whether they save multiplications worth the transforms: a third at least, which images of 1 or 3 positions do not.
    pub fn pay(&self) -> bool {
        3 * FREQUENCIES * self.count() <= 2 * 9 * self.output.positions()
            && self.input.channels.min(self.output.channels) >= LEAST_CHANNELS
    }

    /// Tiles of a sample.
    fn count(&self) -> usize {
        self.down() * self.across()
    }

    /// The sample of tile t and its first output.
    #[inline(always)]
    fn at(&self, t: usize) -> (usize, (usize, usize)) {
        let (sample, t) = (t / self.count(), t % self.count());
        (sample, (t / self.across() * OUT, t % self.across() * OUT))
    }

    /// Inputs of tile t.
    #[inline(always)]
    fn inputs(&self, t: usize) -> [[Option<usize>; IN]; IN] {
        let (sample, at) = self.at(t);
        square(self.input, sample, at, self.padding)
    }

    /// Outputs of tile t.
    #[inline(always)]
    fn outputs(&self, t: usize) -> [[Option<usize>; OUT]; OUT] {
        let (sample, at) = self.at(t);
        square(self.output, sample, at, 0)
    }

    /// V = B' d B of the tiles from `first` on, as many as there is room for.
    fn transform<T: Float>(&self, x: &[T], first: usize, mut v: PlanesMut<'_, T>, zeros: &[T]) {
        let (tiles, c) = (*self, self.input.channels);
        wide(
            #[inline(always)]
            move || {
                for r in 0..v[0].len() / c {
                    let from = tiles.inputs(first + r);
                    let from = runs(x, from, c, zeros);
                    analyse::<Inputs, T, IN>(c, from, &mut v, r);
                }
            },
        );
    }

    /// dM = A dy A'.
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
                    analyse::<OutputsBack, T, OUT>(c, from, &mut dm, r);
                }
            },
        );
    }

    /// y = A' M A, or += it.
    fn write<T: Float>(&self, m: Planes<'_, T>, first: usize, add: bool, y: &mut [T]) {
        let (tiles, c) = (*self, self.output.channels);
        wide(
            #[inline(always)]
            move || {
                for r in 0..m[0].len() / c {
                    let places = tiles.outputs(first + r);
                    synthesise::<Outputs, T, OUT>(c, &m, r, add, y, places);
                }
            },
        );
    }

    /// dx += B dV B'.
    fn write_back<T: Float>(&self, dv: Planes<'_, T>, first: usize, dx: &mut [T]) {
        let (tiles, c) = (*self, self.input.channels);
        wide(
            #[inline(always)]
            move || {
                for r in 0..dv[0].len() / c {
                    let places = tiles.inputs(first + r);
                    synthesise::<InputsBack, T, IN>(c, &dv, r, true, dx, places);
                }
            },
        );
    }
}

/// The runs of c channels at these places, zeros outside.
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

/// Parts of a room, one after the other.
fn parts<T: Float, const N: usize>(room: &mut Vec<T>, lens: [usize; N]) -> [&mut [T]; N] {
    let len = lens.iter().sum();
    if room.len() < len {
        room.resize(len, T::ZERO);
    }
    let mut rest = room.as_mut_slice();
    lens.map(|len| rest.split_off_mut(..len).unwrap_or_default())
}

impl Tiles {
    /// Tiles of a block, of `tiles`.
    fn block(&self, tiles: usize) -> usize {
        let values = FREQUENCIES * (self.input.channels + self.output.channels);
        match self.scope {
            Scope::Samples => (BLOCK / values).next_multiple_of(8).max(LEAST_BLOCK).min(tiles),
            Scope::Batch => tiles,
        }
    }

    /// U of all filters.
    fn all_filters<T: Float>(&self, weight: &[T], u: &mut [T]) {
        let c = self.input.channels;
        match self.scope {
            Scope::Samples => filters(c, weight, planes_mut(u)),
            Scope::Batch => bands(planes_mut(u), FILTERS * c).for_each(|(b, u)| {
                filters(c, &weight[b * FILTERS * 9 * c..][..u[0].len() * 9], u);
            }),
        }
    }

    /// dW of all filters.
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

    /// `transform` of a block of tiles with `c` channels: all of it or sample by sample.
    fn analyse<T: Float>(
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

    /// The transpose of [`Tiles::analyse`]: into samples of `shape`.
    fn synthesise<T: Float>(
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

    /// `product` of each frequency's three matrices.
    fn multiply<T: Float>(
        &self,
        to: &mut [T],
        a: &[T],
        b: &[T],
        product: impl Fn(&mut [T], &[T], &[T]) + Sync,
    ) {
        let pairs = planes(a).into_iter().zip(planes(b));
        let len = to.len() / FREQUENCIES;
        match self.scope {
            Scope::Samples => {
                to.chunks_exact_mut(len).zip(pairs).for_each(|(to, (a, b))| product(to, a, b));
            }
            Scope::Batch => {
                let (a, b) = (planes(a), planes(b));
                let each = to.par_chunks_exact_mut(len).enumerate();
                each.for_each(|(f, to)| product(to, a[f], b[f]));
            }
        }
    }

    /// y = the convolution of n samples, or y += it.
    pub fn forward<T: Float>(
        &self,
        n: usize,
        weight: &[T],
        x: &[T],
        add: bool,
        y: &mut [T],
        room: &mut Vec<T>,
    ) {
        let (c, o, tiles) = (self.input.channels, self.output.channels, n * self.count());
        let block = self.block(tiles);
        let lens = [o * c, block * c, block * o].map(|len| FREQUENCIES * len);
        let [u, v, m, zeros] = parts(room, [lens[0], lens[1], lens[2], c]);
        zeros.fill(T::ZERO);
        let zeros = &*zeros;
        self.all_filters(weight, u);
        for first in (0..tiles).step_by(block) {
            let count = block.min(tiles - first);
            let (v, m) = (&mut v[..FREQUENCIES * count * c], &mut m[..FREQUENCIES * count * o]);
            self.analyse(first, c, v, |t, v| self.transform(x, t, v, zeros));
            self.multiply(m, v, u, |m, v, u| {
                let u = Matrix::rows(u, o, c).transposed();
                whole(m, false, T::ONE, Matrix::rows(v, count, c), u);
            });
            self.synthesise(first, self.output, m, y, |t, m, y| self.write(m, t, add, y));
        }
    }

    /// dx and dW of n samples.
    #[expect(clippy::too_many_arguments, reason = "both gradients share the transform of dy")]
    pub fn backward<T: Float>(
        &self,
        n: usize,
        weight: &[T],
        x: &[T],
        dy: &[T],
        mut dx: Option<&mut [T]>,
        dweight: Option<&mut [T]>,
        room: &mut Vec<T>,
    ) {
        let (c, o, tiles) = (self.input.channels, self.output.channels, n * self.count());
        let block = self.block(tiles);
        let lens = [o * c, block * c, block * o].map(|len| FREQUENCIES * len);
        let [u, du, v, dm, zeros] = parts(room, [lens[0], lens[0], lens[1], lens[2], c.max(o)]);
        zeros.fill(T::ZERO);
        let zeros = &*zeros;
        if let Some(dx) = &mut dx {
            dx.fill(T::ZERO);
            self.all_filters(weight, u);
        }
        for first in (0..tiles).step_by(block) {
            let count = block.min(tiles - first);
            let (v, dm) = (&mut v[..FREQUENCIES * count * c], &mut dm[..FREQUENCIES * count * o]);
            self.analyse(first, o, dm, |t, dm| self.transform_back(dy, t, dm, zeros));
            if dweight.is_some() {
                self.analyse(first, c, v, |t, v| self.transform(x, t, v, zeros));
                self.multiply(du, dm, v, |du, dm, v| {
                    let dm = Matrix::rows(dm, count, o).transposed();
                    whole(du, first > 0, T::ONE, dm, Matrix::rows(v, count, c));
                });
            }
            let Some(dx) = &mut dx else { continue };
            // V is no longer needed: its place is that of dV.
            self.multiply(v, dm, u, |dv, dm, u| {
                whole(dv, false, T::ONE, Matrix::rows(dm, count, o), Matrix::rows(u, o, c));
            });
            self.synthesise(first, self.input, v, dx, |t, dv, dx| self.write_back(dv, t, dx));
        }
        if let Some(dweight) = dweight {
            self.all_filters_back(du, dweight);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::normals;

    /// y, dx and dW of <c, y>, word for word, in f64.
    fn textbook(tiles: &Tiles, n: usize, w: &[f64], x: &[f64], dy: &[f64]) -> [Vec<f64>; 3] {
        let (i, o) = (tiles.input, tiles.output);
        let mut y = vec![0.0; n * o.values()];
        let (mut dx, mut dw) = (vec![0.0; x.len()], vec![0.0; w.len()]);
        for s in 0..n {
            for (oy, ox) in (0..o.positions()).map(|p| (p / o.width, p % o.width)) {
                for (ky, kx) in (0..9).map(|t| (t / 3, t % 3)) {
                    let (iy, ix) = (oy + ky, ox + kx);
                    let (Some(iy), Some(ix)) =
                        (iy.checked_sub(tiles.padding), ix.checked_sub(tiles.padding))
                    else {
                        continue;
                    };
                    if iy >= i.height || ix >= i.width {
                        continue;
                    }
                    let at = ((s * i.height + iy) * i.width + ix) * i.channels;
                    let to = ((s * o.height + oy) * o.width + ox) * o.channels;
                    for b in 0..o.channels {
                        for a in 0..i.channels {
                            let tap = ((b * 3 + ky) * 3 + kx) * i.channels + a;
                            y[to + b] += w[tap] * x[at + a];
                            dx[at + a] += w[tap] * dy[to + b];
                            dw[tap] += x[at + a] * dy[to + b];
                        }
                    }
                }
            }
        }
        [y, dx, dw]
    }

    fn of_tiles<T: Float>(tiles: &Tiles, n: usize, w: &[T], x: &[T], dy: &[T]) -> [Vec<T>; 3] {
        let fresh = |len| vec![T::of(f64::NAN); len];
        let (mut y, mut dx, mut dw) = (fresh(dy.len()), fresh(x.len()), fresh(w.len()));
        let mut room = fresh(5);
        tiles.forward(n, w, x, false, &mut y, &mut room);
        tiles.backward(n, w, x, dy, Some(&mut dx), Some(&mut dw), &mut room);
        [y, dx, dw]
    }

    fn tiles(height: usize, width: usize, channels: (usize, usize), padding: usize) -> Tiles {
        let input = Shape::image(height, width, channels.0);
        let size = |size: usize| size + 2 * padding - 2;
        let output = Shape::image(size(height), size(width), channels.1);
        Tiles { input, output, padding, scope: Scope::Samples }
    }

    /// w, x and dy of normal numbers.
    fn numbers(tiles: &Tiles, n: usize) -> [Vec<f64>; 3] {
        let weights = 9 * tiles.input.channels * tiles.output.channels;
        let (i, o) = (n * tiles.input.values(), n * tiles.output.values());
        [normals(weights, "w"), normals(i, "x"), normals(o, "dy")]
    }

    /// A sum has at most 9 * 19 products (2 * 9 * 9 for dW) of numbers below 5, so its terms are below 25 and their roots of
    /// squares sum to about 13; transforms make them at most 16 times as large: errors of about 16 * 25 * 13 * 2^-53 < 1e-12.
    #[test]
    fn tiles_are_windows() {
        for (height, width) in (1..=9).flat_map(|h| (1..=9).map(move |w| (h, w))) {
            for padding in 0..=2 {
                if height.min(width) + 2 * padding < 3 {
                    continue;
                }
                // Odd channels, and more than are taken together.
                for channels in [(1, 2), (11, 9), (3, 19)] {
                    let mut tiles = tiles(height, width, channels, padding);
                    let [w, x, dy] = numbers(&tiles, 2);
                    let want = textbook(&tiles, 2, &w, &x, &dy);
                    for scope in [Scope::Samples, Scope::Batch] {
                        tiles.scope = scope;
                        let got = of_tiles(&tiles, 2, &w, &x, &dy);
                        for (got, want) in got.iter().flatten().zip(want.iter().flatten()) {
                            assert!((got - want).abs() < 1e-11, "{tiles:?}: {got} {want}");
                        }
                    }
                }
            }
        }
    }

    /// Many blocks: 2 x 32 channels give blocks of 128 tiles, and there are 3 x 100.
    #[test]
    fn blocks_add_up() {
        let tiles = tiles(20, 20, (32, 32), 1);
        assert!(tiles.block(300) < 300);
        let [w, x, dy] = numbers(&tiles, 3);
        let want = textbook(&tiles, 3, &w, &x, &dy);
        let got = of_tiles(&tiles, 3, &w, &x, &dy);
        for (got, want) in got.iter().flatten().zip(want.iter().flatten()) {
            assert!((got - want).abs() < 1e-10, "{got} {want}");
        }
    }

    /// The largest error over the root mean square, in f32, of normal numbers with 64 channels (sums of 576 products, 512
    /// for dW): measured 1.7e-6 for y, 1.5e-6 for dx and 1.6e-6 for dW; bounded by twice as much.
    #[test]
    fn rounding_in_f32() {
        let tiles = tiles(16, 16, (64, 64), 1);
        let [w, x, dy] =
            numbers(&tiles, 2).map(|v| v.iter().map(|&v| v as f32).collect::<Vec<_>>());
        let exact = |v: &[f32]| v.iter().map(|&v| f64::from(v)).collect::<Vec<_>>();
        let want = textbook(&tiles, 2, &exact(&w), &exact(&x), &exact(&dy));
        let got = of_tiles(&tiles, 2, &w, &x, &dy);
        for (got, want) in got.iter().zip(&want) {
            let size = (want.iter().map(|v| v * v).sum::<f64>() / want.len() as f64).sqrt();
            let error =
                got.iter().zip(want).map(|(&g, w)| (f64::from(g) - w).abs()).fold(0.0, f64::max);
            assert!(error <= 3.4e-6 * size, "{error} of {size}");
        }
    }
}
