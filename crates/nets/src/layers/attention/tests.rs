//! Attention compared with the formula, row by row.

use super::*;
use crate::testing::{Trial, noise, normals};

const MASKS: [Mask; 2] = [Mask::None, Mask::Causal];

/// The formula, written out.
fn textbook(
    layer: &Attention,
    trial: &Trial<'_>,
    m: impl Fn(usize, usize, usize) -> f64,
) -> Vec<f64> {
    let (d, c) = (layer.width, layer.width / layer.heads);
    let mut y = vec![0.0; trial.n * d];
    for rows in trial.starts.windows(2) {
        for i in rows[0]..rows[1] {
            for h in 0..layer.heads {
                let at =
                    |row: usize, part: usize, k: usize| trial.x[row * 3 * d + part * d + h * c + k];
                let end = if layer.mask == Mask::Causal { i + 1 } else { rows[1] };
                let e: Vec<f64> = (rows[0]..end)
                    .map(|j| {
                        let dot: f64 = (0..c).map(|k| at(i, 0, k) * at(j, 1, k)).sum();
                        (dot / (c as f64).sqrt()).exp()
                    })
                    .collect();
                let total: f64 = e.iter().sum();
                for k in 0..c {
                    let terms = e.iter().enumerate();
                    y[i * d + h * c + k] =
                        terms.map(|(j, e)| e / total * m(i, h, j) * at(rows[0] + j, 2, k)).sum();
                }
            }
        }
    }
    y
}

fn near(got: &[f64], want: &[f64]) {
    assert_eq!(got.len(), want.len());
    for (k, (got, want)) in got.iter().zip(want).enumerate() {
        assert!((got - want).abs() < 1e-13 * (1.0 + want.abs()), "{k}: {got} {want}");
    }
}

#[test]
fn gradients_are_right() {
    for mask in MASKS {
        for (width, heads, p) in [(4, 2, 0.0), (3, 1, 0.3), (6, 3, 0.5)] {
            let layer = Attention::new(width, heads, mask).unwrap().dropout(p).unwrap();
            let input = Shape::row(3 * width);
            for mode in [Mode::Training, Mode::Frozen] {
                Trial::of_sequences(&layer, input, &[1, 2, 7, 4], mode).check();
            }
        }
        // More than one block.
        let layer = Attention::new(2, 1, mask).unwrap();
        let lengths = [BLOCK + 3, 2, 2 * BLOCK + 1];
        Trial::of_sequences(&layer, Shape::row(6), &lengths, Mode::Training).check();
    }
}

#[test]
fn outputs_are_those_of_the_formula() {
    for mask in MASKS {
        for (width, heads) in [(6, 3), (20, 1), (64, 2)] {
            let layer = Attention::new(width, heads, mask).unwrap();
            let lengths = [1, 2, 7, 40, 3 * BLOCK - 1];
            let trial =
                Trial::of_sequences(&layer, Shape::row(3 * width), &lengths, Mode::Training);
            near(&trial.forward().0, &textbook(&layer, &trial, |_, _, _| 1.0));
        }
    }
}

/// m of row i, head h and column j equals value j of a dropout that draws from the blocks of the head.
#[test]
fn values_are_left_out_by_row_head_and_column() {
    let layer = Attention::new(4, 2, Mask::Causal).unwrap().dropout(0.25).unwrap();
    let trial = Trial::of_sequences(&layer, Shape::row(12), &[3, 140], Mode::Training);
    let factor = |i: usize, h: usize, j: usize| {
        let (group, j) = (j / 128, j % 128);
        let block = h as u32 * DRAWS + (16 * group + j % 32 / 2) as u32;
        let word = noise(0).at(i).words(block)[j / 32];
        let half = if j % 2 == 0 { word & 0xffff } else { word >> 16 };
        if half >= 16384 { 65536.0 / 49152.0 } else { 0.0 }
    };
    near(&trial.forward().0, &textbook(&layer, &trial, factor));
}

/// Changing later rows, in the sequence or after it, does not change any byte of a row.
#[test]
fn the_mask_hides_the_future() {
    for (heads, p) in [(1, 0.0), (2, 0.2)] {
        let layer = Attention::new(8, heads, Mask::Causal).unwrap().dropout(p).unwrap();
        let mut trial = Trial::of_sequences(&layer, Shape::row(24), &[5, 137], Mode::Training);
        let (before, _) = trial.forward();
        for changed in [130, 100, 69, 68, 64, 6, 5] {
            let other = normals(24, "other");
            trial.x[changed * 24..][..24].iter_mut().zip(other).for_each(|(x, z)| *x = 9.0 * z);
            let (after, _) = trial.forward();
            let bits = |y: &[f64]| y[..changed * 8].iter().map(|y| y.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&before), bits(&after), "row {changed}");
            assert_ne!(before[changed * 8..], after[changed * 8..]);
        }
    }
}

#[test]
fn large_scores_do_not_overflow() {
    let layer = Attention::new(2, 1, Mask::None).unwrap();
    let mut trial = Trial::of_sequences(&layer, Shape::row(6), &[5], Mode::Frozen);
    trial.x.iter_mut().for_each(|x| *x *= 1e3);
    assert!(trial.forward().0.iter().all(|y| y.is_finite()));
}

#[test]
fn heads_must_divide_the_width() {
    for (width, heads) in [(6, 4), (6, 0), (0, 1)] {
        let error = Attention::new(width, heads, Mask::None).unwrap_err().to_string();
        assert!(error.contains("is not divisible by"), "{error}");
    }
}

#[test]
fn strips_hold_every_number_once() {
    every_number_once::<16>();
    every_number_once::<32>();
}

fn every_number_once<const C: usize>() {
    for (rows, columns) in [(1, 1), (8, 8), (16, 16), (17, 9), (23, 40), (40, 50)] {
        let values: Vec<f64> = (0..rows * (columns + 3)).map(|i| i as f64 + 1.0).collect();
        let view = View { values: &values, stride: columns + 3, first: 2, rows, columns };
        let at = |i: usize, k: usize| match i < rows && k < columns {
            true => values[i * (columns + 3) + 2 + k],
            false => 0.0,
        };
        let mut strips = vec![f64::NAN; view.packed::<C>()];
        view.pack::<C>(&mut strips);
        for (n, x) in strips.iter().enumerate() {
            let (strip, rest) = (n / (rows * C), n % (rows * C));
            assert_eq!(*x, at(rest / C, strip * C + rest % C));
        }
        let mut strips = vec![f64::NAN; view.packed_transposed::<C>()];
        view.pack_transposed::<C>(&mut strips);
        for (n, x) in strips.iter().enumerate() {
            let (strip, rest) = (n / (columns * C), n % (columns * C));
            assert_eq!(*x, at(strip * C + rest % C, rest / C));
        }
    }
}

/// Tiles of AVX2 and of AVX-512 give the same bytes, forward and backward.
#[test]
fn the_shape_of_tiles_does_not_matter() {
    for (width, heads, mask) in [(20, 1, Mask::Causal), (64, 2, Mask::None), (50, 1, Mask::Causal)]
    {
        let layer = Attention::new(width, heads, mask).unwrap().dropout(0.1).unwrap();
        let starts = [0, 1, 8, 8 + BLOCK, 95, 300];
        let rows = starts[starts.len() - 1];
        let x: Vec<f32> = normals(rows * 3 * width, "x").into_iter().map(|z| z as f32).collect();
        let dy: Vec<f32> = normals(rows * width, "dy").into_iter().map(|z| z as f32).collect();
        let small = there_and_back::<4, 16>(&layer, &starts, &x, &dy);
        let large = there_and_back::<6, 32>(&layer, &starts, &x, &dy);
        assert!(small == large, "{width} values in {heads} heads");
    }
}

fn there_and_back<const R: usize, const C: usize>(
    layer: &Attention,
    starts: &[usize],
    x: &[f32],
    dy: &[f32],
) -> (Vec<f32>, Vec<f32>) {
    let (mut y, mut dx, mut scratch) = (vec![0.0; dy.len()], vec![0.0; x.len()], Vec::new());
    let sequences = Sequences::new(starts);
    for head in layer.tasks::<R, C>(sequences, Mode::Training, noise(0)) {
        head.forward(x, &mut y, &mut scratch);
    }
    for head in layer.tasks::<R, C>(sequences, Mode::Training, noise(0)) {
        head.backward(x, &y, dy, &mut dx, &mut scratch);
    }
    (y, dx)
}
