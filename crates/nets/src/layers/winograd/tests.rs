//! Tiles compared with the formula.

use super::*;
use crate::testing::normals;

/// y, dx and dW of <c, y>, term by term, in f64.
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
    let mut scratch = fresh(5);
    tiles.forward(n, w, x, false, &mut y, &mut scratch);
    tiles.backward(n, w, x, dy, Some(&mut dx), Some(&mut dw), &mut scratch);
    [y, dx, dw]
}

fn tiles(height: usize, width: usize, channels: (usize, usize), padding: usize) -> Tiles {
    let input = Shape::image(height, width, channels.0);
    let size = |size: usize| size + 2 * padding - 2;
    let output = Shape::image(size(height), size(width), channels.1);
    Tiles { input, output, padding, scope: Scope::Samples }
}

/// Normal numbers w, x and dy.
fn numbers(tiles: &Tiles, n: usize) -> [Vec<f64>; 3] {
    let weights = 9 * tiles.input.channels * tiles.output.channels;
    let (i, o) = (n * tiles.input.values(), n * tiles.output.values());
    [normals(weights, "w"), normals(i, "x"), normals(o, "dy")]
}

/// A sum has at most 9 * 19 products (2 * 9 * 9 for dW) of numbers below 5, so its terms are below 25 and the root of their
/// number is about 13; transforms make them at most 16 times larger: errors of about 16 * 25 * 13 * 2^-53 < 1e-12.
#[test]
fn tiles_are_windows() {
    for (height, width) in (1..=9).flat_map(|h| (1..=9).map(move |w| (h, w))) {
        for padding in 0..=2 {
            if height.min(width) + 2 * padding < 3 {
                continue;
            }
            // Odd channel counts, and more than are processed together.
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

/// The largest error relative to the root mean square, in f32, of normal numbers with 64 channels (sums of 576 products,
/// 512 for dW): measured 1.7e-6 for y, 1.5e-6 for dx and 1.6e-6 for dW; bounded by twice as much.
#[test]
fn rounding_in_f32() {
    let tiles = tiles(16, 16, (64, 64), 1);
    let [w, x, dy] = numbers(&tiles, 2).map(|v| v.iter().map(|&v| v as f32).collect::<Vec<_>>());
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

#[test]
fn threads_change_no_byte() {
    let tiles = Tiles { scope: Scope::Batch, ..tiles(7, 6, (33, 40), 1) };
    let [w, x, dy] = numbers(&tiles, 5).map(|v| v.iter().map(|&v| v as f32).collect::<Vec<_>>());
    let run = |threads| {
        veridical_core::threads::with_threads(Some(threads), || of_tiles(&tiles, 5, &w, &x, &dy))
            .unwrap()
    };
    assert_eq!(run(1), run(3));
}
