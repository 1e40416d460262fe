//! The operations on short vectors that SGD consists of, for any SIMD width.
//!
//! Limit: rows are in the first cache levels, so loads are the bottleneck: two per cycle. A dot product needs
//! two loads per fused multiply-add, a combination of rows 1.25.

use pulp::Simd;

/// Lanes of the widest SIMD that is used.
const WIDEST: usize = 16;

/// `len` rounded up to whole vectors.
pub(crate) const fn padded(len: usize) -> usize {
    len.next_multiple_of(WIDEST)
}

/// sum a_i b_i.
#[inline(always)]
pub(crate) fn dot<S: Simd>(simd: S, a: &[f32], b: &[f32]) -> f32 {
    let (a, a_tail) = S::as_simd_f32s(a);
    let (b, b_tail) = S::as_simd_f32s(b);
    let mut sums = [simd.splat_f32s(0.0); 4];
    let (a_blocks, a_rest) = a.as_chunks::<4>();
    let (b_blocks, b_rest) = b.as_chunks::<4>();
    for (a, b) in a_blocks.iter().zip(b_blocks) {
        for i in 0..4 {
            sums[i] = simd.mul_add_e_f32s(a[i], b[i], sums[i]);
        }
    }
    for (i, (&a, &b)) in a_rest.iter().zip(b_rest).enumerate() {
        sums[i] = simd.mul_add_e_f32s(a, b, sums[i]);
    }
    if !a_tail.is_empty() {
        let (a, b) = (simd.partial_load_f32s(a_tail), simd.partial_load_f32s(b_tail));
        sums[3] = simd.mul_add_e_f32s(a, b, sums[3]);
    }
    let sum = simd.add_f32s(simd.add_f32s(sums[0], sums[1]), simd.add_f32s(sums[2], sums[3]));
    simd.reduce_sum_f32s(sum)
}

/// Calls `act` with the SIMD vectors of equally long rows, the last of them padded with zeros; the values that
/// `act` sets are written back.
#[inline(always)]
pub(crate) fn for_each<S: Simd, const N: usize>(
    simd: S,
    rows: [&mut [f32]; N],
    mut act: impl FnMut([S::f32s; N]) -> [S::f32s; N],
) {
    let mut heads: [&mut [S::f32s]; N] = std::array::from_fn(|_| Default::default());
    let mut tails: [&mut [f32]; N] = std::array::from_fn(|_| Default::default());
    for (i, row) in rows.into_iter().enumerate() {
        (heads[i], tails[i]) = S::as_mut_simd_f32s(row);
    }
    let n = heads[0].len();
    for head in &mut heads {
        *head = &mut std::mem::take(head)[..n];
    }
    #[expect(clippy::needless_range_loop, reason = "k runs over N rows at once")]
    for k in 0..n {
        let mut loaded = [simd.splat_f32s(0.0); N];
        for i in 0..N {
            loaded[i] = heads[i][k];
        }
        let stored = act(loaded);
        for i in 0..N {
            heads[i][k] = stored[i];
        }
    }
    if !tails[0].is_empty() {
        let mut loaded = [simd.splat_f32s(0.0); N];
        for i in 0..N {
            loaded[i] = simd.partial_load_f32s(tails[i]);
        }
        let stored = act(loaded);
        for i in 0..N {
            simd.partial_store_f32s(tails[i], stored[i]);
        }
    }
}

/// row <- keep row + sum_i c_i x_i over `rows`, of `stride` values each and padded.
#[inline(always)]
pub(crate) fn add_combination<S: Simd>(
    simd: S,
    row: &mut [f32],
    keep: f32,
    coefficients: &[f32],
    rows: &[f32],
    stride: usize,
) {
    const { assert!(S::F32_LANES <= WIDEST) };
    let keep = simd.splat_f32s(keep);
    let lanes = S::F32_LANES;
    let (row, tail) = S::as_mut_simd_f32s(row);
    let (rows, _) = S::as_simd_f32s(rows);
    let stride = stride / lanes;
    let (blocks, rest) = row.as_chunks_mut::<4>();
    let mut k = 0;
    for block in blocks {
        let mut sums = *block;
        for sum in &mut sums {
            *sum = simd.mul_f32s(*sum, keep);
        }
        let mut at = k;
        for &c in coefficients {
            let c = simd.splat_f32s(c);
            let x = &rows[at..at + 4];
            for i in 0..4 {
                sums[i] = simd.mul_add_e_f32s(c, x[i], sums[i]);
            }
            at += stride;
        }
        *block = sums;
        k += 4;
    }
    for x in rest {
        *x = combined(simd, simd.mul_f32s(*x, keep), coefficients, rows, stride, k);
        k += 1;
    }
    if !tail.is_empty() {
        let x = simd.mul_f32s(simd.partial_load_f32s(tail), keep);
        let x = combined(simd, x, coefficients, rows, stride, k);
        simd.partial_store_f32s(tail, x);
    }
}

/// Vector number `k` of sum + sum_i c_i x_i.
#[inline(always)]
fn combined<S: Simd>(
    simd: S,
    mut sum: S::f32s,
    coefficients: &[f32],
    rows: &[S::f32s],
    stride: usize,
    k: usize,
) -> S::f32s {
    let mut at = k;
    for &c in coefficients {
        sum = simd.mul_add_e_f32s(simd.splat_f32s(c), rows[at], sum);
        at += stride;
    }
    sum
}

/// Inner products of `n` padded rows on each side: scores[a][b] = <left_a, right_b>.
#[inline(always)]
pub(crate) fn products<S: Simd>(
    simd: S,
    left: &[f32],
    right: &[f32],
    n: [usize; 2],
    stride: usize,
    scores: &mut [f32],
) {
    const { assert!(S::F32_LANES <= WIDEST) };
    let (left, _) = S::as_simd_f32s(left);
    let (right, _) = S::as_simd_f32s(right);
    let stride = stride / S::F32_LANES;
    let [n_left, n_right] = n;
    for a in 0..n_left {
        let scores = &mut scores[a * n_right..(a + 1) * n_right];
        let a = &left[a * stride..(a + 1) * stride];
        let (score_blocks, score_rest) = scores.as_chunks_mut::<4>();
        let mut rest = right;
        for scores in score_blocks {
            let mut sums = [simd.splat_f32s(0.0); 4];
            let (b0, b) = rest.split_at(stride);
            let (b1, b) = b.split_at(stride);
            let (b2, b) = b.split_at(stride);
            let (b3, b) = b.split_at(stride);
            rest = b;
            for ((((&a, &b0), &b1), &b2), &b3) in a.iter().zip(b0).zip(b1).zip(b2).zip(b3) {
                sums[0] = simd.mul_add_e_f32s(a, b0, sums[0]);
                sums[1] = simd.mul_add_e_f32s(a, b1, sums[1]);
                sums[2] = simd.mul_add_e_f32s(a, b2, sums[2]);
                sums[3] = simd.mul_add_e_f32s(a, b3, sums[3]);
            }
            for (score, sum) in scores.iter_mut().zip(sums) {
                *score = simd.reduce_sum_f32s(sum);
            }
        }
        for score in score_rest {
            let b;
            (b, rest) = rest.split_at(stride);
            let mut sums = [simd.splat_f32s(0.0); 2];
            let (a_pairs, a_last) = a.as_chunks::<2>();
            let (b_pairs, b_last) = b.as_chunks::<2>();
            for (a, b) in a_pairs.iter().zip(b_pairs) {
                sums[0] = simd.mul_add_e_f32s(a[0], b[0], sums[0]);
                sums[1] = simd.mul_add_e_f32s(a[1], b[1], sums[1]);
            }
            for (&a, &b) in a_last.iter().zip(b_last) {
                sums[0] = simd.mul_add_e_f32s(a, b, sums[0]);
            }
            *score = simd.reduce_sum_f32s(simd.add_f32s(sums[0], sums[1]));
        }
    }
}

/// 1 / (1 + exp(-x)) to a few ulp, without branches so that it runs on whole vectors: exp by 2^n times a
/// polynomial of degree 6 on [-ln 2 / 2, ln 2 / 2] (Cephes' expf).
#[inline(always)]
pub(crate) fn sigmoid(x: f32) -> f32 {
    let y = (-x).clamp(-80.0, 80.0);
    const SHIFT: f32 = 12_582_912.0; // 1.5 2^23: adding it rounds to an integer
    let shifted = y * std::f32::consts::LOG2_E + SHIFT;
    let n = shifted - SHIFT;
    let r = y - n * 0.693_359_4 + n * 2.121_944_4e-4;
    let p = 1.987_569_1e-4 * r + 1.398_199_9e-3;
    let p = p * r + 8.333_452e-3;
    let p = p * r + 4.166_579_6e-2;
    let p = p * r + 1.666_666_5e-1;
    let p = p * r + 0.5;
    // The integer n is in the low bits of the shifted number; 2^n goes into the exponent of a float.
    let power = shifted.to_bits().wrapping_sub(SHIFT.to_bits()).wrapping_add(127) << 23;
    let exp = (p * r * r + r + 1.0) * f32::from_bits(power);
    1.0 / (1.0 + exp)
}

/// g = factor sigma(score) of padded scores: [`sigmoid`] on whole vectors.
#[inline(always)]
pub(crate) fn scaled_sigmoids<S: Simd>(simd: S, scores: &[f32], factor: f32, g: &mut [f32]) {
    const { assert!(S::F32_LANES <= WIDEST) };
    // 1.5 2^23 + 127: the lowest bits of a number plus this are its nearest integer as the exponent of a float.
    const SHIFT: f32 = 12_583_039.0;
    let all = |x: f32| simd.splat_f32s(x);
    let ((scores, _), (g, _)) = (S::as_simd_f32s(scores), S::as_mut_simd_f32s(g));
    for (&score, g) in scores.iter().zip(g) {
        let y = simd.sub_f32s(all(0.0), score);
        let y = simd.min_f32s(simd.max_f32s(y, all(-80.0)), all(80.0));
        let shifted = simd.mul_add_e_f32s(y, all(std::f32::consts::LOG2_E), all(SHIFT));
        let n = simd.sub_f32s(shifted, all(SHIFT));
        let r = simd.mul_add_e_f32s(n, all(-0.693_359_4), y);
        let r = simd.mul_add_e_f32s(n, all(2.121_944_4e-4), r);
        let mut p = all(1.987_569_1e-4);
        for c in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5, 1.0, 1.0] {
            p = simd.mul_add_e_f32s(p, r, all(c));
        }
        let bits = simd.transmute_u32s_f32s(shifted);
        let power = simd.wrapping_dyn_shl_u32s(bits, simd.splat_u32s(23));
        let exp = simd.mul_f32s(p, simd.transmute_f32s_u32s(power));
        *g = simd.div_f32s(all(factor), simd.add_f32s(all(1.0), exp));
    }
}

/// ln(1 + exp(x)), the loss of a score -x.
pub(crate) fn softplus(x: f32) -> f64 {
    let x = f64::from(x);
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use pulp::{Scalar, WithSimd};

    use super::*;

    /// Runs with the machine's SIMD, to compare with the textbook formula in f64.
    fn run(op: impl WithSimd) {
        pulp::Arch::new().dispatch(op);
    }

    struct Check {
        dim: usize,
        left: Vec<f32>,
        right: Vec<f32>,
    }

    impl Check {
        fn check<S: Simd>(&self, simd: S) {
            let Self { dim, left, right } = self;
            let (dim, stride) = (*dim, padded(*dim));
            let exact = |a: &[f32], b: &[f32]| -> f64 {
                a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
            };
            // Values of size 1: every rounding is at most 2^-24 of a sum of at most dim.
            let allowed = 1e-6 * dim as f64;
            let close = |got: f32, want: f64| {
                assert!((f64::from(got) - want).abs() <= allowed, "{got} is not {want}");
            };
            let (a, b) = (&left[..dim], &right[..dim]);
            close(dot(simd, a, b), exact(a, b));

            let pad = |rows: &[f32]| -> Vec<f32> {
                let row = |row: &[f32]| {
                    let mut row = row.to_vec();
                    row.resize(stride, 0.0);
                    row
                };
                rows.chunks_exact(dim).flat_map(row).collect()
            };
            let (n_left, n_right) = (left.len() / dim, right.len() / dim);
            let mut scores = vec![0.0; n_left * n_right];
            products(simd, &pad(left), &pad(right), [n_left, n_right], stride, &mut scores);
            for (i, a) in left.chunks_exact(dim).enumerate() {
                for (j, b) in right.chunks_exact(dim).enumerate() {
                    close(scores[i * n_right + j], exact(a, b));
                }
            }
            let coefficients: Vec<f32> = (0..n_left).map(|i| 0.5 - i as f32 / 8.0).collect();
            let mut row = b.to_vec();
            add_combination(simd, &mut row, 0.75, &coefficients, &pad(left), stride);
            for (k, &got) in row.iter().enumerate() {
                let terms = left.chunks_exact(dim).zip(&coefficients);
                let sum: f64 = terms.map(|(x, &c)| f64::from(c) * f64::from(x[k])).sum();
                close(got, 0.75 * f64::from(b[k]) + sum);
            }
            let (mut x, mut y) = (a.to_vec(), b.to_vec());
            for_each(simd, [&mut x, &mut y], |[x, y]| [y, simd.add_f32s(x, y)]);
            assert_eq!(x, b);
            (0..dim).for_each(|k| assert_eq!(y[k], a[k] + b[k]));
        }
    }

    impl WithSimd for &Check {
        type Output = ();
        fn with_simd<S: Simd>(self, simd: S) {
            self.check(simd);
        }
    }

    /// Scores and their sigmoids, times -0.5.
    struct Sigmoids<'a>(&'a [f32], &'a mut [f32]);

    impl WithSimd for Sigmoids<'_> {
        type Output = ();
        fn with_simd<S: Simd>(self, simd: S) {
            scaled_sigmoids(simd, self.0, -0.5, self.1);
        }
    }

    proptest! {
        #[test]
        fn operations_are_the_textbook(
            dim in 1usize..70, n_left in 1usize..6, n_right in 1usize..10,
            values in prop::collection::vec(-1.0f32..1.0, 70 * 16)
        ) {
            let left = values[..n_left * dim].to_vec();
            let right = values[n_left * dim..][..n_right * dim].to_vec();
            let check = Check { dim, left, right };
            run(&check);
            check.check(Scalar::new());
        }

        /// The polynomial has a relative error of 2e-7, and so has the result.
        #[test]
        fn the_sigmoid_is_the_sigmoid(x in -100.0f32..100.0) {
            let want = 1.0 / (1.0 + (-f64::from(x)).exp());
            let mut scaled = [[0.0; WIDEST]; 2];
            run(Sigmoids(&[x; WIDEST], &mut scaled[0]));
            Sigmoids(&[x; WIDEST], &mut scaled[1]).with_simd(Scalar::new());
            let scaled = scaled.map(|of| f64::from(of[0]) / -0.5);
            for got in [f64::from(sigmoid(x)), scaled[0], scaled[1]] {
                prop_assert!((got - want).abs() <= 1e-6 * want + 1e-30, "{} {}", got, want);
            }
        }
    }
}
