//! Transforms of tiles and filters along both axes, several channels at a time.

use std::ops::{Add, Mul, Sub};

use crate::Float;

/// Number of frequencies of a tile.
pub(super) const FREQUENCIES: usize = 16;
/// Channels that are processed together.
const LANES: usize = 8;

/// One matrix per frequency.
pub(super) type Planes<'a, T> = [&'a [T]; FREQUENCIES];
/// One matrix per frequency, mutable.
pub(super) type PlanesMut<'a, T> = [&'a mut [T]; FREQUENCIES];

/// A few channels.
#[derive(Clone, Copy)]
pub(super) struct Lanes<T, const L: usize>([T; L]);

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

/// A transform along one axis.
pub(super) trait Axis<const I: usize, const O: usize> {
    fn apply<T: Float, const L: usize>(v: [Lanes<T, L>; I]) -> [Lanes<T, L>; O];
}

/// Computes X m X' for the transform X.
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
pub(super) struct Inputs;
impl Axis<4, 4> for Inputs {
    #[inline(always)]
    fn apply<T: Float, const L: usize>(d: [Lanes<T, L>; 4]) -> [Lanes<T, L>; 4] {
        [d[0] - d[2], d[1] + d[2], d[2] - d[1], d[1] - d[3]]
    }
}

/// B, the transpose of [`Inputs`].
pub(super) struct InputsBack;
impl Axis<4, 4> for InputsBack {
    #[inline(always)]
    fn apply<T: Float, const L: usize>(v: [Lanes<T, L>; 4]) -> [Lanes<T, L>; 4] {
        [v[0], v[1] - v[2] + v[3], v[1] + v[2] - v[0], v[3].negated()]
    }
}

/// A': frequencies to a tile of outputs.
pub(super) struct Outputs;
impl Axis<4, 2> for Outputs {
    #[inline(always)]
    fn apply<T: Float, const L: usize>(m: [Lanes<T, L>; 4]) -> [Lanes<T, L>; 2] {
        [m[0] + m[1] + m[2], m[1] - m[2] - m[3]]
    }
}

/// A, the transpose of [`Outputs`].
pub(super) struct OutputsBack;
impl Axis<2, 4> for OutputsBack {
    #[inline(always)]
    fn apply<T: Float, const L: usize>(y: [Lanes<T, L>; 2]) -> [Lanes<T, L>; 4] {
        [y[0], y[0] + y[1], y[0] - y[1], y[1].negated()]
    }
}

/// G: a filter to its frequencies.
pub(super) struct Filter;
impl Axis<3, 4> for Filter {
    #[inline(always)]
    fn apply<T: Float, const L: usize>(g: [Lanes<T, L>; 3]) -> [Lanes<T, L>; 4] {
        let half = T::of(0.5);
        let sum = (g[0] + g[2]) * half;
        let middle = g[1] * half;
        [g[0], sum + middle, sum - middle, g[2]]
    }
}

/// G', the transpose of [`Filter`].
pub(super) struct FilterBack;
impl Axis<4, 3> for FilterBack {
    #[inline(always)]
    fn apply<T: Float, const L: usize>(u: [Lanes<T, L>; 4]) -> [Lanes<T, L>; 3] {
        let half = T::of(0.5);
        let sum = (u[1] + u[2]) * half;
        [u[0] + sum, (u[1] - u[2]) * half, sum + u[3]]
    }
}

/// Transforms runs of c channels at the positions of a square into a row of each frequency.
#[inline(always)]
pub(super) fn analyze<X: Axis<I, 4>, T: Float, const I: usize>(
    c: usize,
    from: [[&[T]; I]; I],
    to: &mut PlanesMut<'_, T>,
    row: usize,
) {
    let even = c - c % LANES;
    for at in (0..even).step_by(LANES) {
        analyze_at::<X, T, I, LANES>(at, &from, to, row * c);
    }
    for at in even..c {
        analyze_at::<X, T, I, 1>(at, &from, to, row * c);
    }
}

#[inline(always)]
fn analyze_at<X: Axis<I, 4>, T: Float, const I: usize, const L: usize>(
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

/// Transforms one row of each frequency and writes (or adds) it to runs of c channels: `places` is where they start, `None`
/// if outside.
#[inline(always)]
pub(super) fn synthesize<X: Axis<4, O>, T: Float, const O: usize>(
    c: usize,
    from: &Planes<'_, T>,
    row: usize,
    add: bool,
    to: &mut [T],
    places: [[Option<usize>; O]; O],
) {
    let even = c - c % LANES;
    for at in (0..even).step_by(LANES) {
        synthesize_at::<X, T, O, LANES>(at, from, row * c, add, to, &places);
    }
    for at in even..c {
        synthesize_at::<X, T, O, 1>(at, from, row * c, add, to, &places);
    }
}

#[inline(always)]
fn synthesize_at<X: Axis<4, O>, T: Float, const O: usize, const L: usize>(
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
