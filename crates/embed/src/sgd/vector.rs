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

/// Copies a row to a padded one. Two vectors at a time: a loop over one is compiled to a call that costs more than the
/// copy of a short row.
#[inline(always)]
pub(crate) fn copy_padded<S: Simd>(simd: S, row: &[f32], out: &mut [f32]) {
    let (row, tail) = S::as_simd_f32s(row);
    let (out, _) = S::as_mut_simd_f32s(out);
    let (pairs, last) = row.as_chunks::<2>();
    let (out_pairs, _) = out.as_chunks_mut::<2>();
    for (out, pair) in out_pairs.iter_mut().zip(pairs) {
        out[0] = pair[0];
        out[1] = pair[1];
    }
    let mut k = 2 * pairs.len();
    for &x in last {
        out[k] = x;
        k += 1;
    }
    if !tail.is_empty() {
        out[k] = simd.partial_load_f32s(tail);
    }
}

/// row <- keep row + sum_i c_i x_i over `rows`, of `stride` values each and padded. The coefficients are those at every
/// `step`-th place from the first on.
#[inline(always)]
pub(crate) fn add_combination<S: Simd>(
    simd: S,
    row: &mut [f32],
    keep: f32,
    coefficients: &[f32],
    step: usize,
    rows: &[f32],
    stride: usize,
) {
    const { assert!(S::F32_LANES <= WIDEST) };
    let (rows, _) = S::as_simd_f32s(rows);
    let sum = Combination { keep, coefficients, step, rows, stride: stride / S::F32_LANES };
    let (row, tail) = S::as_mut_simd_f32s(row);
    let (blocks, rest) = row.as_chunks_mut::<8>();
    let k = 8 * blocks.len();
    for (i, block) in blocks.iter_mut().enumerate() {
        sum.add::<S, 8>(simd, block, &mut [], 8 * i);
    }
    match rest.len() + usize::from(!tail.is_empty()) {
        0 => (),
        1 => sum.add::<S, 1>(simd, rest, tail, k),
        2 => sum.add::<S, 2>(simd, rest, tail, k),
        3 => sum.add::<S, 3>(simd, rest, tail, k),
        4 => sum.add::<S, 4>(simd, rest, tail, k),
        5 => sum.add::<S, 5>(simd, rest, tail, k),
        6 => sum.add::<S, 6>(simd, rest, tail, k),
        7 => sum.add::<S, 7>(simd, rest, tail, k),
        _ => sum.add::<S, 8>(simd, rest, tail, k),
    }
}

/// What [`add_combination`] adds; the stride is in vectors.
struct Combination<'a, V> {
    keep: f32,
    coefficients: &'a [f32],
    step: usize,
    rows: &'a [V],
    stride: usize,
}

impl<V: Copy> Combination<'_, V> {
    /// For `N` vectors from number `k` on, of which the last one is the tail if `row` has one less.
    #[inline(always)]
    fn add<S: Simd<f32s = V>, const N: usize>(
        &self,
        simd: S,
        row: &mut [V],
        tail: &mut [f32],
        k: usize,
    ) {
        let Self { keep, coefficients, step, rows, stride } = *self;
        let keep = simd.splat_f32s(keep);
        let (row, last) = row.split_at_mut(N - 1);
        let mut sums = [keep; N];
        for i in 0..N - 1 {
            sums[i] = simd.mul_f32s(row[i], keep);
        }
        let x = match last {
            [x, ..] => *x,
            [] => simd.partial_load_f32s(tail),
        };
        sums[N - 1] = simd.mul_f32s(x, keep);
        for (&c, x) in coefficients.iter().step_by(step).zip(rows.chunks_exact(stride)) {
            let (c, x) = (simd.splat_f32s(c), &x[k..k + N]);
            for i in 0..N {
                sums[i] = simd.mul_add_e_f32s(c, x[i], sums[i]);
            }
        }
        for (x, sum) in row.iter_mut().zip(sums) {
            *x = sum;
        }
        match last {
            [x, ..] => *x = sums[N - 1],
            [] => simd.partial_store_f32s(tail, sums[N - 1]),
        }
    }
}

/// Inner products of a padded row with padded rows, as many as there are scores.
#[inline(always)]
pub(crate) fn products<S: Simd>(
    simd: S,
    row: &[f32],
    rows: &[f32],
    stride: usize,
    scores: &mut [f32],
) {
    const { assert!(S::F32_LANES <= WIDEST) };
    let (row, _) = S::as_simd_f32s(row);
    let (rows, _) = S::as_simd_f32s(rows);
    let (blocks, rest) = scores.as_chunks_mut::<6>();
    let stride = stride / S::F32_LANES;
    let (first, last) = rows.split_at(6 * stride * blocks.len());
    for (scores, rows) in blocks.iter_mut().zip(first.chunks_exact(6 * stride)) {
        dots::<S, 6>(simd, row, rows, stride, scores);
    }
    match rest.len() {
        0 => (),
        1 => dots::<S, 1>(simd, row, last, stride, rest),
        2 => dots::<S, 2>(simd, row, last, stride, rest),
        3 => dots::<S, 3>(simd, row, last, stride, rest),
        4 => dots::<S, 4>(simd, row, last, stride, rest),
        _ => dots::<S, 5>(simd, row, last, stride, rest),
    }
}

/// Inner products with `N` rows.
#[inline(always)]
fn dots<S: Simd, const N: usize>(
    simd: S,
    row: &[S::f32s],
    rows: &[S::f32s],
    stride: usize,
    scores: &mut [f32],
) {
    let mut rest = rows;
    let rows: [&[S::f32s]; N] = std::array::from_fn(
        #[inline(always)]
        |_| {
            let (row, after) = rest.split_at(stride);
            rest = after;
            row
        },
    );
    let mut sums = [simd.splat_f32s(0.0); N];
    for (k, &x) in row[..stride].iter().enumerate() {
        for i in 0..N {
            sums[i] = simd.mul_add_e_f32s(x, rows[i][k], sums[i]);
        }
    }
    for i in 0..N {
        scores[i] = simd.reduce_sum_f32s(sums[i]);
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

/// [`sigmoid`] on whole vectors. The polynomial by Estrin's scheme: inputs of a position wait for each other's sigmoids.
#[inline(always)]
pub(crate) fn sigmoids<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    // 1.5 2^23 + 127: the lowest bits of a number plus this are its nearest integer as the exponent of a float.
    const SHIFT: f32 = 12_583_039.0;
    let all = |x: f32| simd.splat_f32s(x);
    let x = simd.min_f32s(simd.max_f32s(x, all(-80.0)), all(80.0));
    let shifted = simd.mul_add_e_f32s(x, all(-std::f32::consts::LOG2_E), all(SHIFT));
    let n = simd.sub_f32s(shifted, all(SHIFT));
    // r = -x - n ln 2, in two steps.
    let r = simd.mul_add_e_f32s(n, all(0.693_359_4), x);
    let r = simd.sub_f32s(simd.mul_f32s(n, all(2.121_944_4e-4)), r);
    let line = |c1: f32, c0: f32| simd.mul_add_e_f32s(r, all(c1), all(c0));
    let r2 = simd.mul_f32s(r, r);
    let low = simd.mul_add_e_f32s(r2, line(1.666_666_5e-1, 0.5), line(1.0, 1.0));
    let high = simd.mul_add_e_f32s(
        r2,
        line(1.987_569_1e-4, 1.398_199_9e-3),
        line(8.333_452e-3, 4.166_579_6e-2),
    );
    let p = simd.mul_add_e_f32s(simd.mul_f32s(r2, r2), high, low);
    let power = simd.wrapping_dyn_shl_u32s(simd.transmute_u32s_f32s(shifted), simd.splat_u32s(23));
    let exp = simd.mul_f32s(p, simd.transmute_f32s_u32s(power));
    simd.div_f32s(all(1.0), simd.add_f32s(all(1.0), exp))
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
    fn run<Op: WithSimd>(op: Op) -> Op::Output {
        pulp::Arch::new().dispatch(op)
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
            let mut copied = vec![0.0; stride];
            copy_padded(simd, a, &mut copied);
            assert_eq!(copied, pad(a));
            let mut scores = vec![0.0; right.len() / dim];
            products(simd, &copied, &pad(right), stride, &mut scores);
            for (b, &score) in right.chunks_exact(dim).zip(&scores) {
                close(score, exact(a, b));
            }
            for step in [1, 3] {
                let coefficients: Vec<f32> =
                    (0..left.len() / dim * step).map(|i| 0.5 - i as f32 / 32.0).collect();
                let mut row = b.to_vec();
                add_combination(simd, &mut row, 0.75, &coefficients, step, &pad(left), stride);
                for (k, &got) in row.iter().enumerate() {
                    let terms = left.chunks_exact(dim).zip(coefficients.iter().step_by(step));
                    let sum: f64 = terms.map(|(x, &c)| f64::from(c) * f64::from(x[k])).sum();
                    close(got, 0.75 * f64::from(b[k]) + sum);
                }
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

    /// The sigmoid of one number, on a vector.
    struct Sigmoid(f32);

    impl WithSimd for Sigmoid {
        type Output = f32;
        fn with_simd<S: Simd>(self, simd: S) -> f32 {
            let mut out = [0.0; WIDEST];
            S::as_mut_simd_f32s(&mut out).0.fill(sigmoids(simd, simd.splat_f32s(self.0)));
            out[0]
        }
    }

    proptest! {
        #[test]
        fn operations_are_the_textbook(
            dim in 1usize..150, n_left in 1usize..6, n_right in 1usize..10,
            values in prop::collection::vec(-1.0f32..1.0, 150 * 16)
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
            let on_vectors = [run(Sigmoid(x)), Sigmoid(x).with_simd(Scalar::new())];
            for got in [sigmoid(x), on_vectors[0], on_vectors[1]].map(f64::from) {
                prop_assert!((got - want).abs() <= 1e-6 * want + 1e-30, "{} {}", got, want);
            }
        }
    }
}
