//! The micro-kernel: a tile of rows times a panel of directions, kept in registers from the first
//! multiplication to the stored features.
//!
//! Each projection is one chain of fused multiply-adds over k = 0 .. d-1, whichever tile computes it,
//! so rows, chunks, threads and CPUs agree bit for bit.
//!
//! Limit: 2 fused vector operations per cycle on AVX2. A 6 x 2 tile needs per k twelve of them, two
//! loads and six broadcasts, so it is bound by arithmetic; one row alone is bound by reading U.

use pulp::{Simd, WithSimd};

use super::Checked;
use super::sincos::{FAST_LIMIT, sincos, sincos_fast};
use crate::{Error, Normalize};

/// Rows of a tile.
pub(super) const TILE_ROWS: usize = 6;
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

/// Normalized rows in groups of [`TILE_ROWS`], element k of a group's rows side by side, as the tile
/// reads them.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    groups: Vec<f32>,
    /// One group, row by row.
    rows: Vec<f32>,
}

/// What to transform and where to.
pub(crate) struct Job<'a> {
    pub packed: &'a Packed,
    pub normalize: &'a Normalize,
    /// Largest |y_k| a normalized row may have.
    pub input_limit: f32,
    pub scale: f32,
    /// Row-major, as wide as the directions.
    pub rows: &'a [f32],
    /// Row-major, two features for each direction.
    pub out: &'a mut [f32],
    /// Room for the normalized rows, kept from job to job.
    pub scratch: &'a mut Rows,
}

impl WithSimd for Job<'_> {
    type Output = Result<Checked, Error>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
        let Self { packed, normalize, rows, out, scratch, .. } = self;
        let dim = packed.dim;
        let features = Features { simd, scale: self.scale };
        let n_rows = rows.len() / dim;
        let by_tile = n_rows >= TILE_ROWS / 2;
        let mut zero_rows = 0;
        let mut largest = simd.splat_f32s(0.0);

        scratch.rows.resize(TILE_ROWS * dim, 0.0);
        scratch
            .groups
            .resize(if by_tile { n_rows.next_multiple_of(TILE_ROWS) * dim } else { 0 }, 0.0);
        let mut groups = scratch.groups.chunks_exact_mut(TILE_ROWS * dim);
        for (g, group_rows) in rows.chunks(TILE_ROWS * dim).enumerate() {
            let normalized = scratch.rows.chunks_exact_mut(dim);
            for (r, (row, y)) in group_rows.chunks_exact(dim).zip(normalized).enumerate() {
                zero_rows += u64::from(!normalize.apply(row, y));
                check_range(y, g * TILE_ROWS + r, self.input_limit)?;
            }
            if let Some(group) = groups.next() {
                transpose(&scratch.rows, dim, group);
            }
        }
        if by_tile {
            largest = features.tile_by_tile(packed, &scratch.groups, out);
        } else {
            let outs = out.chunks_exact_mut(2 * packed.n_directions);
            for (x, out) in scratch.rows.chunks_exact(dim).zip(outs) {
                largest = simd.max_f32s(largest, features.row(packed, x, out));
            }
        }
        Ok(Checked { largest_projection: simd.reduce_max_f32s(largest), zero_rows })
    }
}

/// [`TILE_ROWS`] rows to element k of each side by side.
#[inline(always)]
fn transpose(rows: &[f32], dim: usize, group: &mut [f32]) {
    let mut columns: [&[f32]; TILE_ROWS] = [&[]; TILE_ROWS];
    for (column, row) in columns.iter_mut().zip(rows.chunks_exact(dim)) {
        *column = row;
    }
    let [a, b, c, d, e, f] = columns;
    let elements = a.iter().zip(b).zip(c).zip(d).zip(e).zip(f);
    let group = group.as_chunks_mut::<TILE_ROWS>().0;
    for (out, (((((a, b), c), d), e), f)) in group.iter_mut().zip(elements) {
        *out = [*a, *b, *c, *d, *e, *f];
    }
}

#[inline(always)]
fn check_range(y: &[f32], row: usize, limit: f32) -> Result<(), Error> {
    // The bits of |y| order like |y| itself, with infinity and NaN above every number.
    let largest = y.iter().fold(0, |m, y| (y.to_bits() & 0x7FFF_FFFF).max(m));
    let value = f32::from_bits(largest);
    if !value.is_finite() {
        return Err(Error::NotFinite { row });
    }
    if value > limit {
        return Err(Error::TooLarge { row, value });
    }
    Ok(())
}

/// One chain per element of a tile.
#[inline(always)]
fn project_tile<S: Simd>(
    simd: S,
    panel: &[S::f32s],
    group: &[f32],
) -> [[S::f32s; TILE_VECTORS]; TILE_ROWS] {
    let mut a = [[simd.splat_f32s(0.0); TILE_VECTORS]; TILE_ROWS];
    let steps = panel.as_chunks::<TILE_VECTORS>().0.iter().zip(group.as_chunks::<TILE_ROWS>().0);
    for (u, x) in steps {
        for (a, &x) in a.iter_mut().zip(x) {
            let x = simd.splat_f32s(x);
            a[0] = simd.mul_add_f32s(u[0], x, a[0]);
            a[1] = simd.mul_add_f32s(u[1], x, a[1]);
        }
    }
    a
}

/// One chain per element of one row and several panels.
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
    /// The path of many rows; returns the sizes of the projections.
    #[inline(always)]
    fn tile_by_tile(self, packed: &Packed, groups: &[f32], out: &mut [f32]) -> S::f32s {
        let simd = self.simd;
        let width = 2 * packed.n_directions;
        let mut largest = simd.splat_f32s(0.0);
        for p in 0..packed.n_panels() {
            let panel = S::as_simd_f32s(packed.panel(p)).0;
            let at = 2 * p * packed.panel_width;
            let groups = groups.chunks_exact(TILE_ROWS * packed.dim);
            for (group, out) in groups.zip(out.chunks_mut(TILE_ROWS * width)) {
                let tile = project_tile(simd, panel, group);
                let size = self.size(&tile);
                largest = simd.max_f32s(largest, size);
                let fast = simd.reduce_max_f32s(size) <= FAST_LIMIT;
                for (a, out) in tile.iter().zip(out.chunks_exact_mut(width)) {
                    self.store(*a, &mut out[at..], fast);
                }
            }
        }
        largest
    }

    /// The path of a server: one row, bound by reading U once.
    #[inline(always)]
    fn row(self, packed: &Packed, x: &[f32], out: &mut [f32]) -> S::f32s {
        let mut largest = self.simd.splat_f32s(0.0);
        let grouped = packed.n_panels() / ROW_PANELS * ROW_PANELS;
        for p in (0..grouped).step_by(ROW_PANELS) {
            let size = self.row_panels::<ROW_PANELS>(packed, p, x, out);
            largest = self.simd.max_f32s(largest, size);
        }
        for p in grouped..packed.n_panels() {
            largest = self.simd.max_f32s(largest, self.row_panels::<1>(packed, p, x, out));
        }
        largest
    }

    /// One row and the panels p .. p + P.
    #[inline(always)]
    fn row_panels<const P: usize>(
        self,
        packed: &Packed,
        p: usize,
        x: &[f32],
        out: &mut [f32],
    ) -> S::f32s {
        let mut panels: [&[S::f32s]; P] = [&[]; P];
        for (i, panel) in panels.iter_mut().enumerate() {
            *panel = S::as_simd_f32s(packed.panel(p + i)).0;
        }
        let a = project_row(self.simd, panels, x);
        let size = self.size(&a);
        let fast = self.simd.reduce_max_f32s(size) <= FAST_LIMIT;
        let out = out[2 * p * packed.panel_width..].chunks_mut(2 * packed.panel_width);
        for (a, out) in a.iter().zip(out) {
            self.store(*a, out, fast);
        }
        size
    }

    /// The largest |a|, lane by lane.
    #[inline(always)]
    fn size(self, a: &[[S::f32s; TILE_VECTORS]]) -> S::f32s {
        let mut size = self.simd.splat_f32s(0.0);
        for a in a.iter().flatten() {
            size = self.simd.max_f32s(size, self.simd.abs_f32s(*a));
        }
        size
    }

    /// Stores the features of the projections `a` at the front of `out`, as many as fit.
    #[inline(always)]
    fn store(self, a: [S::f32s; TILE_VECTORS], out: &mut [f32], fast: bool) {
        let first = self.features(a[0], fast);
        let second = self.features(a[1], fast);
        if let [a, b, c, d, ..] = S::as_mut_simd_f32s(out).0 {
            [*a, *b] = first;
            [*c, *d] = second;
        } else {
            let whole = [first, second];
            let whole: &[f32] = pulp::bytemuck::cast_slice(&whole);
            out.copy_from_slice(&whole[..out.len()]);
        }
    }

    /// cos, sin, cos, sin, ... of one vector of projections.
    #[inline(always)]
    fn features(self, a: S::f32s, fast: bool) -> [S::f32s; 2] {
        let simd = self.simd;
        let scale = simd.splat_f32s(self.scale);
        let (sin, cos) = if fast { sincos_fast(simd, a) } else { sincos_any(simd, a) };
        simd.interleave_shfl_f32s([simd.mul_f32s(cos, scale), simd.mul_f32s(sin, scale)])
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
