use super::*;
use crate::testing::Trial;

#[test]
fn gradients_are_right_for_every_option() {
    let image = |size| Shape::image(size, size + 1, 4);
    for (conv, input) in [
        (Conv2d::new(4, 3, 3), image(4)),
        (Conv2d::new(4, 3, 3).padding(1), image(3)),
        (Conv2d::new(4, 3, 3).padding(1).stride(2).without_bias(), image(5)),
        (Conv2d::new(4, 5, 1), image(3)),
        (Conv2d::new(4, 5, 1).stride(2), image(4)),
        (Conv2d::new(4, 2, 2).padding(2), image(2)),
        (Conv2d::new(4, 6, 3).padding(1).groups(2), image(3)),
        (Conv2d::new(4, 4, 3).padding(1).groups(4), image(3)),
        (Conv2d::new(4, 4, 3).padding(1).stride(2).groups(4).without_bias(), image(4)),
        (Conv2d::new(4, 8, 3).padding(1).groups(4), image(3)),
        // With Winograd tiles.
        (Conv2d::new(32, 33, 3).padding(1), Shape::image(5, 4, 32)),
        (Conv2d::new(33, 32, 3).without_bias(), Shape::image(4, 4, 33)),
    ] {
        Trial::new(&conv, input, 2, Mode::Frozen).check();
    }
}

/// The formula, term by term.
fn textbook(conv: &Conv2d, trial: &Trial<'_>) -> Vec<f64> {
    let (input, output) = (trial.input, trial.output());
    let own = (conv.inputs / conv.groups, conv.outputs / conv.groups);
    let mut y = Vec::new();
    for s in 0..trial.n {
        for oy in 0..output.height {
            for ox in 0..output.width {
                for o in 0..conv.outputs {
                    let mut sum = if conv.bias { trial.params[conv.weights() + o] } else { 0.0 };
                    for ky in 0..conv.kernel {
                        for kx in 0..conv.kernel {
                            let iy = (oy * conv.stride + ky).checked_sub(conv.padding);
                            let ix = (ox * conv.stride + kx).checked_sub(conv.padding);
                            let (Some(iy), Some(ix)) = (iy, ix) else { continue };
                            if iy >= input.height || ix >= input.width {
                                continue;
                            }
                            for c in 0..own.0 {
                                let at =
                                    ((s * input.height + iy) * input.width + ix) * input.channels;
                                let w = ((o * conv.kernel + ky) * conv.kernel + kx) * own.0 + c;
                                sum += trial.params[w] * trial.x[at + o / own.1 * own.0 + c];
                            }
                        }
                    }
                    y.push(sum);
                }
            }
        }
    }
    y
}

#[test]
fn the_product_is_the_formula() {
    for conv in [
        Conv2d::new(4, 6, 3).padding(1),
        Conv2d::new(4, 6, 3).padding(1).stride(2).groups(2),
        Conv2d::new(4, 4, 3).stride(2).groups(4),
        Conv2d::new(4, 3, 5).padding(3).without_bias(),
    ] {
        let trial = Trial::new(&conv, Shape::image(6, 5, 4), 3, Mode::Frozen);
        let (y, _) = trial.forward();
        let want = textbook(&conv, &trial);
        assert_eq!(y.len(), want.len());
        assert!(y.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-12), "{conv:?}");
    }
}

/// Large enough to be processed as one batch.
#[test]
fn batches_and_samples_agree() {
    let conv = Conv2d::new(64, 128, 3).padding(1).stride(2);
    let input = Shape::image(4, 4, 64);
    assert_eq!(Layer::<f64>::scope(&conv, input, Mode::Training), Scope::Batch);
    let trial = Trial::new(&conv, input, 3, Mode::Frozen);
    let (y, _) = trial.forward();
    let want = textbook(&conv, &trial);
    assert!(y.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-11));
    let (dx, dparams) = trial.backward(0..3);
    let (mut dx2, mut dparams2) = (vec![f64::NAN; dx.len()], vec![f64::NAN; dparams.len()]);
    conv.backward_samples(Backward {
        sequences: crate::Sequences::new(&trial.starts),
        n: 3,
        input,
        output: trial.output(),
        mode: Mode::Frozen,
        params: &trial.params,
        buffers: &[],
        x: &trial.x,
        y: &y,
        dy: &trial.c,
        dx: Some(&mut dx2),
        dparams: Some(&mut dparams2),
        tapped: None,
        kept: &[],
        noise: crate::testing::noise(0),
        scratch: &mut Vec::new(),
    });
    let near = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-11);
    assert!(near(&dx, &dx2) && near(&dparams, &dparams2));
}

#[test]
fn orders_of_weights_are_inverse() {
    let conv = Conv2d::new(3, 2, 3);
    let values: Vec<f64> = (0..54).map(f64::from).collect();
    let mut there = values.clone();
    Layer::import(&conv, 0, &mut there);
    assert_eq!(&there[..4], &[0.0, 9.0, 18.0, 1.0]);
    Layer::export(&conv, 0, &mut there);
    assert_eq!(there, values);
}
