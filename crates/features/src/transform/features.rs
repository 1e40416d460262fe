//! From projections to stored features: sine and cosine, scale, interleave.

use pulp::Simd;

use super::sincos::{sincos, sincos_fast};

/// Number of vectors of projections that are stored together.
pub(super) const PAIR: usize = 2;

/// Converts projections to stored features.
#[derive(Clone, Copy)]
pub(super) struct Features<S> {
    pub simd: S,
    /// The scale m^(-1/2).
    pub scale: f32,
}

impl<S: Simd> Features<S> {
    /// The largest |a| in each lane.
    #[inline(always)]
    pub fn size(self, a: &[[S::f32s; PAIR]]) -> S::f32s {
        let mut size = self.simd.splat_f32s(0.0);
        for a in a.iter().flatten() {
            size = self.simd.max_f32s(size, self.simd.abs_f32s(*a));
        }
        size
    }

    /// Stores the features of the projections `a` at the front of `out`, as many as fit.
    #[inline(always)]
    pub fn store(self, a: [S::f32s; PAIR], out: &mut [f32], fast: bool) {
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

    /// Interleaved cos, sin, cos, sin, ... of one vector of projections.
    #[inline(always)]
    fn features(self, a: S::f32s, fast: bool) -> [S::f32s; 2] {
        let simd = self.simd;
        let scale = simd.splat_f32s(self.scale);
        let (sin, cos) = if fast { sincos_fast(simd, a) } else { sincos_any(simd, a) };
        simd.interleave_shfl_f32s([simd.mul_f32s(cos, scale), simd.mul_f32s(sin, scale)])
    }
}

/// The lane in which direction p of a vector must be stored, derived from the instruction itself:
/// lane numbers are interleaved, and pair p comes from the lane it names.
pub(super) fn lane_order<S: Simd>(simd: S) -> Vec<usize> {
    let numbers: Vec<f32> = (0..S::F32_LANES).map(|lane| lane as f32).collect();
    let lanes = S::as_simd_f32s(&numbers).0[0];
    let mut pairs = vec![0.0; 2 * S::F32_LANES];
    S::as_mut_simd_f32s(&mut pairs).0.copy_from_slice(&simd.interleave_shfl_f32s([lanes, lanes]));
    pairs.iter().step_by(2).map(|&lane| lane as usize).collect()
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
