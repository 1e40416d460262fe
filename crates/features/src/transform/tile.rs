//! Micro-kernel of the dense projection: a tile of rows times a panel of directions, kept in registers from the first
//! multiplication to the stored features.
//!
//! Each projection is one chain of fused multiply-adds over k = 0 .. d-1 in every tile shape, so the bits do not depend on
//! the other rows, the chunks, the threads or the CPU.
//!
//! Limit: 2 fused vector operations per cycle on AVX2. A 6 x 2 tile needs per k twelve of them, two
//! loads and six broadcasts, so it is compute-bound; a single row is bound by the bandwidth of reading U.

use pulp::{Simd, WithSimd};

use super::Checked;
use super::features::{Features, PAIR, lane_order};
use super::rows::Task;
use super::sincos::FAST_LIMIT;
use crate::Error;

/// Rows per tile.
pub(super) const TILE_ROWS: usize = 6;
/// Vectors per panel.
const TILE_VECTORS: usize = PAIR;
/// Panels processed at once for a single row: enough chains to hide the latency of each.
const ROW_PANELS: usize = 4;

/// Directions in the layout that the micro-kernel reads: panels of a few vectors, k by k, the directions of
/// a vector in the lane order that interleaves to cos, sin, cos, sin.
#[derive(Debug)]
pub(super) struct Packed {
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
pub(super) struct Pack<'a> {
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

/// Dense projection of a block of rows.
pub(super) struct Dense<'a, 'b> {
    pub packed: &'a Packed,
    pub task: Task<'b>,
}

impl WithSimd for Dense<'_, '_> {
    type Output = Result<Checked, Error>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
        let Self { packed, task } = self;
        let Task { preparation, scale, rows, out, scratch } = task;
        let dim = packed.dim;
        let features = Features { simd, scale };
        let n_rows = rows.len() / dim;
        let by_tile = n_rows >= TILE_ROWS / 2;
        let mut seen = Checked::default();
        let mut largest = simd.splat_f32s(0.0);

        // Groups of rows with element k of all rows side by side, as the tile reads them.
        scratch.rows.resize(TILE_ROWS * dim, 0.0);
        let n_groups = if by_tile { n_rows.div_ceil(TILE_ROWS) } else { 0 };
        scratch.packed.resize(n_groups * TILE_ROWS * dim, 0.0);
        let mut groups = scratch.packed.chunks_exact_mut(TILE_ROWS * dim);
        for (g, group_rows) in rows.chunks(TILE_ROWS * dim).enumerate() {
            preparation.apply(group_rows, g * TILE_ROWS, &mut scratch.rows, &mut seen)?;
            if let Some(group) = groups.next() {
                transpose(&scratch.rows, dim, group);
            }
        }
        if by_tile {
            largest = features.tile_by_tile(packed, &scratch.packed, out);
        } else {
            let outs = out.chunks_exact_mut(2 * packed.n_directions);
            for (x, out) in scratch.rows.chunks_exact(dim).zip(outs) {
                largest = simd.max_f32s(largest, features.row(packed, x, out));
            }
        }
        Ok(Checked { largest_projection: simd.reduce_max_f32s(largest), ..seen })
    }
}

/// Transposes [`TILE_ROWS`] rows, so that element k of each is side by side.
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

/// Computes one chain per element of a tile.
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

/// Computes one chain per element of one row and several panels.
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

impl<S: Simd> Features<S> {
    /// Path for many rows; returns the largest |a| in each lane.
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

    /// Path for a single row, as in serving: bound by reading U once.
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

    /// Computes one row and the panels p .. p + P.
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
}
