//! Depthwise convolution, one filter per channel: loops over channels, one position and one window offset at a time.

use super::{Backward, Conv2d, Float, Forward, Shape, column_sums, take, wide};

/// Weights as window offsets x channels.
fn by_place<T: Float>(conv: &Conv2d, weight: &[T], out: &mut [T]) {
    let (taps, c) = (conv.kernel * conv.kernel, conv.inputs);
    for (channel, filter) in weight.chunks_exact(taps).enumerate() {
        filter.iter().enumerate().for_each(|(t, &w)| out[t * c + channel] = w);
    }
}

/// Calls `act` with the output position, the input position and the window offset, for all that are inside the image.
#[inline(always)]
fn for_each(conv: &Conv2d, input: Shape, output: Shape, mut act: impl FnMut(usize, usize, usize)) {
    let Conv2d { kernel, stride, padding, .. } = *conv;
    for oy in 0..output.height {
        for ox in 0..output.width {
            for ky in 0..kernel {
                let y = oy * stride + ky;
                if y < padding || y - padding >= input.height {
                    continue;
                }
                for kx in 0..kernel {
                    let x = ox * stride + kx;
                    if x >= padding && x - padding < input.width {
                        let from = (y - padding) * input.width + x - padding;
                        act(oy * output.width + ox, from, ky * kernel + kx);
                    }
                }
            }
        }
    }
}

pub fn forward<T: Float>(conv: &Conv2d, pass: Forward<'_, T>) {
    let Forward { n, input, output, params, x, y, scratch, .. } = pass;
    let c = conv.inputs;
    let (weight, bias) = params.split_at(conv.weights());
    let places = take(scratch, conv.weights());
    by_place(conv, weight, places);
    let places = &*places;
    wide(
        #[inline(always)]
        move || {
            for i in 0..n {
                let x = &x[i * input.values()..][..input.values()];
                let y = &mut y[i * output.values()..][..output.values()];
                y.chunks_exact_mut(c).for_each(|y| match bias.is_empty() {
                    true => y.fill(T::ZERO),
                    false => y.copy_from_slice(bias),
                });
                for_each(
                    conv,
                    input,
                    output,
                    #[inline(always)]
                    |to, from, t| {
                        let (y, x) = (&mut y[to * c..][..c], &x[from * c..][..c]);
                        let w = &places[t * c..][..c];
                        for ((y, &x), &w) in y.iter_mut().zip(x).zip(w) {
                            *y += x * w;
                        }
                    },
                );
            }
        },
    );
}

pub fn backward<T: Float>(conv: &Conv2d, pass: Backward<'_, T>) {
    let Backward { n, input, output, params, x, dy, mut dx, dparams, scratch, .. } = pass;
    let (c, weights) = (conv.inputs, conv.weights());
    let scratch = take(scratch, 2 * weights);
    let (places, dplaces) = scratch.split_at_mut(weights);
    by_place(conv, &params[..weights], places);
    dplaces.fill(T::ZERO);
    let places = &*places;
    let sums = &mut *dplaces;
    wide(
        #[inline(always)]
        move || {
            for i in 0..n {
                let x = &x[i * input.values()..][..input.values()];
                let dy = &dy[i * output.values()..][..output.values()];
                if let Some(dx) = &mut dx {
                    let dx = &mut dx[i * input.values()..][..input.values()];
                    dx.fill(T::ZERO);
                    for_each(
                        conv,
                        input,
                        output,
                        #[inline(always)]
                        |to, from, t| {
                            let (dx, dy) = (&mut dx[from * c..][..c], &dy[to * c..][..c]);
                            let w = &places[t * c..][..c];
                            for ((dx, &dy), &w) in dx.iter_mut().zip(dy).zip(w) {
                                *dx += dy * w;
                            }
                        },
                    );
                }
                for_each(
                    conv,
                    input,
                    output,
                    #[inline(always)]
                    |to, from, t| {
                        let (x, dy) = (&x[from * c..][..c], &dy[to * c..][..c]);
                        let dw = &mut sums[t * c..][..c];
                        for ((dw, &dy), &x) in dw.iter_mut().zip(dy).zip(x) {
                            *dw += dy * x;
                        }
                    },
                );
            }
        },
    );
    let Some(dparams) = dparams else { return };
    let (dweight, dbias) = dparams.split_at_mut(weights);
    let taps = conv.kernel * conv.kernel;
    for (channel, filter) in dweight.chunks_exact_mut(taps).enumerate() {
        filter.iter_mut().enumerate().for_each(|(t, w)| *w = dplaces[t * c + channel]);
    }
    if conv.bias {
        column_sums(dy, dbias);
    }
}
