//! The two matrix products of one loss evaluation, between a block of rows and a narrow matrix: X W' and X'G.
//!
//! Both are tiles of 4 rows (or columns) of X times 3 vectors of classes, kept in registers over the whole sum: per step
//! three loads, four broadcasts of an f32 converted to f64, twelve fused multiply-adds. Classes are padded with zeros to whole
//! panels of three vectors. A general GEMM spends its time on packing when one side is this narrow.

use pulp::{Arch, Simd, WithSimd};

const TILE: usize = 4;
const VECTORS: usize = 3;

type Sums<S> = [[<S as Simd>::f64s; VECTORS]; TILE];

/// Layout in which classes are padded to whole panels.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    arch: Arch,
    dim: usize,
    classes: usize,
    /// Number of classes per panel.
    panel: usize,
}

impl Layout {
    pub(super) fn new(dim: usize, classes: usize) -> Self {
        struct Lanes;
        impl WithSimd for Lanes {
            type Output = usize;
            fn with_simd<S: Simd>(self, _: S) -> usize {
                S::F64_LANES
            }
        }
        let arch = Arch::new();
        Self { arch, dim, classes, panel: VECTORS * arch.dispatch(Lanes) }
    }

    /// Number of classes including padding.
    pub(super) fn padded(self) -> usize {
        self.classes.next_multiple_of(self.panel)
    }

    /// W (classes x dim) packed into panels: for each input value, the weights of the classes of a panel.
    pub(super) fn pack(self, w: &[f64]) -> Vec<f64> {
        let mut packed = vec![0.0; self.padded() * self.dim];
        for (k, w) in w.chunks_exact(self.dim).enumerate() {
            let (p, at) = (k / self.panel, k % self.panel);
            let panel = &mut packed[p * self.panel * self.dim..][..self.panel * self.dim];
            panel.iter_mut().skip(at).step_by(self.panel).zip(w).for_each(|(to, w)| *to = *w);
        }
        packed
    }

    /// Writes X W' as rows of padded classes.
    pub(super) fn scores(self, rows: &[f32], packed: &[f64], out: &mut [f64]) {
        self.arch.dispatch(Scores { layout: self, rows, packed, out });
    }

    /// Adds X'G, as rows of padded classes.
    pub(super) fn add_gradient(self, rows: &[f32], g: &[f64], out: &mut [f64]) {
        self.arch.dispatch(Gradient { layout: self, rows, g, out });
    }
}

#[inline(always)]
fn step<S: Simd>(simd: S, sums: &mut Sums<S>, x: [f32; TILE], vectors: &[S::f64s; VECTORS]) {
    for (sums, x) in sums.iter_mut().zip(x) {
        let x = simd.splat_f64s(f64::from(x));
        for (sum, v) in sums.iter_mut().zip(vectors) {
            *sum = simd.mul_add_f64s(*v, x, *sum);
        }
    }
}

struct Scores<'a> {
    layout: Layout,
    rows: &'a [f32],
    packed: &'a [f64],
    out: &'a mut [f64],
}

impl WithSimd for Scores<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { layout: Layout { dim, panel, .. }, rows, packed, out } = self;
        let padded = self.layout.padded();
        let zeros = vec![0.0f32; dim];
        for (rows, out) in rows.chunks(TILE * dim).zip(out.chunks_mut(TILE * padded)) {
            let row = |r: usize| rows.get(r * dim..(r + 1) * dim).unwrap_or(&zeros);
            let elements = row(0).iter().zip(row(1)).zip(row(2)).zip(row(3));
            for (p, packed) in packed.chunks_exact(panel * dim).enumerate() {
                let vectors = S::as_simd_f64s(packed).0.as_chunks::<VECTORS>().0;
                let mut sums = [[simd.splat_f64s(0.0); VECTORS]; TILE];
                for ((((a, b), c), d), vectors) in elements.clone().zip(vectors) {
                    step(simd, &mut sums, [*a, *b, *c, *d], vectors);
                }
                for (sums, out) in sums.iter().zip(out.chunks_exact_mut(padded)) {
                    out[p * panel..][..panel].copy_from_slice(pulp::bytemuck::cast_slice(sums));
                }
            }
        }
    }
}

struct Gradient<'a> {
    layout: Layout,
    rows: &'a [f32],
    g: &'a [f64],
    out: &'a mut [f64],
}

impl WithSimd for Gradient<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { layout: Layout { dim, panel, .. }, rows, g, out } = self;
        let padded = self.layout.padded();
        for (j, out) in (0..dim).step_by(TILE).zip(out.chunks_mut(TILE * padded)) {
            let n = TILE.min(dim - j);
            for p in 0..padded / panel {
                let mut sums = [[simd.splat_f64s(0.0); VECTORS]; TILE];
                for (row, g) in rows.chunks_exact(dim).zip(g.chunks_exact(padded)) {
                    let vectors = S::as_simd_f64s(&g[p * panel..][..panel]).0;
                    let Some(vectors) = vectors.first_chunk() else { continue };
                    let mut x = [0.0; TILE];
                    match row[j..].first_chunk::<TILE>() {
                        Some(four) => x = *four,
                        None => x[..n].copy_from_slice(&row[j..]),
                    }
                    step(simd, &mut sums, x, vectors);
                }
                for (sums, out) in sums.iter().zip(out.chunks_exact_mut(padded)) {
                    let sums: &[f64] = pulp::bytemuck::cast_slice(sums);
                    out[p * panel..][..panel].iter_mut().zip(sums).for_each(|(o, s)| *o += s);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Sums of up to 40 products of values up to 1, in another order: 40^2 eps.
        #[test]
        fn both_products_are_those_of_the_definition(
            n in 0usize..40, dim in 1usize..40, classes in 1usize..40,
        ) {
            let value = |i: usize| ((i * 7919 + 13) % 1009) as f64 / 504.5 - 1.0;
            let rows: Vec<f32> = (0..n * dim).map(|i| value(i + 5) as f32).collect();
            let w: Vec<f64> = (0..classes * dim).map(value).collect();
            let layout = Layout::new(dim, classes);
            let padded = layout.padded();
            let mut scores = vec![f64::NAN; n * padded];
            layout.scores(&rows, &layout.pack(&w), &mut scores);
            let mut gradient = vec![1.0; dim * padded];
            layout.add_gradient(&rows, &scores, &mut gradient);
            for (r, row) in rows.chunks(dim).enumerate() {
                for k in 0..padded {
                    let w = |j: usize| if k < classes { w[k * dim + j] } else { 0.0 };
                    let want: f64 = row.iter().enumerate().map(|(j, x)| f64::from(*x) * w(j)).sum();
                    prop_assert!((scores[r * padded + k] - want).abs() < 1e-12);
                }
            }
            for j in 0..dim {
                for k in 0..padded {
                    let term = |r: usize| f64::from(rows[r * dim + j]) * scores[r * padded + k];
                    let want: f64 = 1.0 + (0..n).map(term).sum::<f64>();
                    prop_assert!((gradient[j * padded + k] - want).abs() < 1e-10);
                }
            }
        }
    }
}
