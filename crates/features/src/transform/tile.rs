//! The micro-kernel: a tile of rows times a panel of directions, kept in registers from the first
//! multiplication to the stored features.
//!
//! Each projection is one chain of fused multiply-adds over k = 0 .. d-1, whichever tile computes it,
//! so rows, chunks, threads and CPUs agree bit for bit.
//!
//! Limit: 2 fused vector operations per cycle on AVX2. A 6 x 2 tile needs per k twelve of them, two
//! loads and six broadcasts, so it is bound by arithmetic; one row alone is bound by reading U.

use pulp::{Simd, WithSimd};

use super::sincos::{FAST_LIMIT, sincos, sincos_fast};

/// Rows of a tile.
pub(crate) const TILE_ROWS: usize = 6;
/// Vectors across a panel.
const TILE_VECTORS: usize = 2;
/// Panels taken at once for a single row, enough chains to hide the latency of one.
const ROW_PANELS: usize = 4;

/// The directions as the micro-kernel reads them: panels of a few vectors, k by k, the directions of
/// a vector in the lane order that interleaves to cos, sin, cos, sin.
#[derive(Debug)]
pub(crate) struct Packed {
    data: Vec<f32>,
    dim: usize,
    n_directions: usize,
    panel_width: usize,
}

impl Packed {
    fn panel(&self, p: usize) -> &[f32] {
        let size = self.dim * self.panel_width;
        &self.data[p * size..][..size]
    }

    fn n_panels(&self) -> usize {
        self.n_directions.div_ceil(self.panel_width)
    }
}

/// Packs U (row-major, m rows of width `dim`).
pub(crate) struct Pack<'a> {
    pub u: &'a [f32],
    pub dim: usize,
}

impl WithSimd for Pack<'_> {
    type Output = Packed;

    fn with_simd<S: Simd>(self, simd: S) -> Packed {
        let lanes = S::F32_LANES;
        let order = lane_order(simd);
        let panel_width = TILE_VECTORS * lanes;
        let n_directions = self.u.len() / self.dim;
        let mut data = vec![0.0; n_directions.div_ceil(panel_width) * panel_width * self.dim];
        for (j, u) in self.u.chunks_exact(self.dim).enumerate() {
            let (panel, slot) = (j / panel_width, j % panel_width);
            let lane = slot / lanes * lanes + order[slot % lanes];
            let panel = &mut data[panel * panel_width * self.dim..];
            for (k, &u) in u.iter().enumerate() {
                panel[k * panel_width + lane] = u;
            }
        }
        Packed { data, dim: self.dim, n_directions, panel_width }
    }
}

/// The lane in which direction p of a vector must stand, found by asking the instruction itself:
/// lane numbers are interleaved, and pair p comes from the lane it names.
fn lane_order<S: Simd>(simd: S) -> Vec<usize> {
    let numbers: Vec<f32> = (0..S::F32_LANES).map(|lane| lane as f32).collect();
    let lanes = S::as_simd_f32s(&numbers).0[0];
    let mut pairs = vec![0.0; 2 * S::F32_LANES];
    S::as_mut_simd_f32s(&mut pairs).0.copy_from_slice(&simd.interleave_shfl_f32s([lanes, lanes]));
    pairs.iter().step_by(2).map(|&lane| lane as usize).collect()
}

/// Transforms rows that are already normalized and packed: `x` holds groups of [`TILE_ROWS`] rows,
/// element k of the group's rows side by side. Returns the largest |u.x|.
pub(crate) struct TransformTiles<'a> {
    pub packed: &'a Packed,
    pub x: &'a [f32],
    /// Row-major, `2 * n_directions` wide.
    pub out: &'a mut [f32],
    pub scale: f32,
}

impl WithSimd for TransformTiles<'_> {
    type Output = f32;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f32 {
        let Self { packed, x, out, scale } = self;
        let width = 2 * packed.n_directions;
        let features = Features { simd, scale };
        let mut largest = simd.splat_f32s(0.0);
        for p in 0..packed.n_panels() {
            let panel = S::as_simd_f32s(packed.panel(p)).0;
            let at = 2 * p * packed.panel_width;
            let groups = x.chunks_exact(TILE_ROWS * packed.dim);
            for (x, out) in groups.zip(out.chunks_mut(TILE_ROWS * width)) {
                let tile = project_tile(simd, panel, x);
                let mut tile_largest = simd.splat_f32s(0.0);
                for a in tile.iter().flatten() {
                    tile_largest = simd.max_f32s(tile_largest, simd.abs_f32s(*a));
                }
                largest = simd.max_f32s(largest, tile_largest);
                let fast = simd.reduce_max_f32s(tile_largest) <= FAST_LIMIT;
                for (a, out) in tile.into_iter().zip(out.chunks_exact_mut(width)) {
                    features.store(a, &mut out[at..], fast);
                }
            }
        }
        simd.reduce_max_f32s(largest)
    }
}

/// One chain per element of a 6 x 2 tile.
#[inline(always)]
fn project_tile<S: Simd>(
    simd: S,
    panel: &[S::f32s],
    x: &[f32],
) -> [[S::f32s; TILE_VECTORS]; TILE_ROWS] {
    let mut a = [[simd.splat_f32s(0.0); TILE_VECTORS]; TILE_ROWS];
    let steps = panel.as_chunks::<TILE_VECTORS>().0.iter().zip(x.as_chunks::<TILE_ROWS>().0);
    for (u, x) in steps {
        for (a, &x) in a.iter_mut().zip(x) {
            let x = simd.splat_f32s(x);
            a[0] = simd.mul_add_f32s(u[0], x, a[0]);
            a[1] = simd.mul_add_f32s(u[1], x, a[1]);
        }
    }
    a
}

/// Transforms one normalized row: the path of a server, bound by reading U once.
pub(crate) struct TransformRow<'a> {
    pub packed: &'a Packed,
    pub x: &'a [f32],
    pub out: &'a mut [f32],
    pub scale: f32,
}

impl WithSimd for TransformRow<'_> {
    type Output = f32;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f32 {
        let Self { packed, x, out, scale } = self;
        let features = Features { simd, scale };
        let mut largest = simd.splat_f32s(0.0);
        let mut put = |a: [S::f32s; TILE_VECTORS], p: usize| {
            let both = simd.max_f32s(simd.abs_f32s(a[0]), simd.abs_f32s(a[1]));
            largest = simd.max_f32s(largest, both);
            let fast = simd.reduce_max_f32s(both) <= FAST_LIMIT;
            features.store(a, &mut out[2 * p * packed.panel_width..], fast);
        };
        let n_panels = packed.n_panels();
        let grouped = n_panels / ROW_PANELS * ROW_PANELS;
        let panel = |p| S::as_simd_f32s(packed.panel(p)).0;
        for p in (0..grouped).step_by(ROW_PANELS) {
            let panels: [_; ROW_PANELS] = std::array::from_fn(|i| panel(p + i));
            for (i, a) in project_row(simd, panels, x).into_iter().enumerate() {
                put(a, p + i);
            }
        }
        for p in grouped..n_panels {
            let [a] = project_row(simd, [panel(p)], x);
            put(a, p);
        }
        simd.reduce_max_f32s(largest)
    }
}

#[inline(always)]
fn project_row<S: Simd, const P: usize>(
    simd: S,
    panels: [&[S::f32s]; P],
    x: &[f32],
) -> [[S::f32s; TILE_VECTORS]; P] {
    let mut a = [[simd.splat_f32s(0.0); TILE_VECTORS]; P];
    let panels = panels.map(|panel| &panel.as_chunks::<TILE_VECTORS>().0[..x.len()]);
    for (k, &x) in x.iter().enumerate() {
        let x = simd.splat_f32s(x);
        for (a, panel) in a.iter_mut().zip(panels) {
            a[0] = simd.mul_add_f32s(panel[k][0], x, a[0]);
            a[1] = simd.mul_add_f32s(panel[k][1], x, a[1]);
        }
    }
    a
}

/// Turns projections into stored features.
#[derive(Clone, Copy)]
struct Features<S> {
    simd: S,
    scale: f32,
}

impl<S: Simd> Features<S> {
    /// Stores the features of the projections `a` at the front of `out`, as many as fit.
    #[inline(always)]
    fn store(self, a: [S::f32s; TILE_VECTORS], out: &mut [f32], fast: bool) {
        let simd = self.simd;
        let scale = simd.splat_f32s(self.scale);
        let room = 2 * S::F32_LANES;
        let fits = (TILE_VECTORS * room).min(out.len());
        let mut out = &mut out[..fits];
        for a in a {
            let (sin, cos) = if fast { sincos_fast(simd, a) } else { sincos_any(simd, a) };
            let pair = [simd.mul_f32s(cos, scale), simd.mul_f32s(sin, scale)];
            let pair = simd.interleave_shfl_f32s(pair);
            if out.len() >= room {
                let (now, later) = out.split_at_mut(room);
                S::as_mut_simd_f32s(now).0.copy_from_slice(&pair);
                out = later;
            } else {
                let mut whole = [pair];
                let whole: &mut [f32] = pulp::bytemuck::cast_slice_mut(&mut whole);
                out.copy_from_slice(&whole[..out.len()]);
                out = &mut [];
            }
        }
    }
}

/// [`sincos`] element by element, for vectors with an element beyond the fast range.
#[cold]
#[inline(never)]
fn sincos_any<S: Simd>(_simd: S, a: S::f32s) -> (S::f32s, S::f32s) {
    let (mut sin, mut cos) = ([a], [a]);
    let sines: &mut [f32] = pulp::bytemuck::cast_slice_mut(&mut sin);
    let cosines: &mut [f32] = pulp::bytemuck::cast_slice_mut(&mut cos);
    for (s, c) in sines.iter_mut().zip(cosines) {
        (*s, *c) = sincos(*s);
    }
    (sin[0], cos[0])
}
