//! Packed sequences through a network: dependence between rows, pooling, and gradients.

use proptest::prelude::*;
use veridical_core::Seed;

use super::*;
use crate::layers::{Activation, Kind, Linear};
use crate::testing::normals;
use crate::{Builder, Factors, Layer, Result, Shape, TapFactors, Taps};

/// y_r = the sum of the rows of the sequence up to r; or, pooled, of all.
#[derive(Debug)]
struct Sums {
    pools: bool,
}

impl<T: Float> Layer<T> for Sums {
    fn output(&self, input: Shape) -> Result<Shape> {
        Ok(input)
    }

    fn pools(&self) -> bool {
        self.pools
    }

    fn forward(&self, pass: Forward<'_, T>) {
        let d = pass.input.values();
        for (s, rows) in pass.sequences.ranges().enumerate() {
            let mut sum = vec![T::ZERO; d];
            for r in rows {
                sum.iter_mut().zip(&pass.x[r * d..]).for_each(|(s, &x)| *s += x);
                let to = if self.pools { s } else { r };
                pass.y[to * d..][..d].copy_from_slice(&sum);
            }
        }
    }

    fn backward(&self, pass: Backward<'_, T>) {
        let d = pass.input.values();
        let Some(dx) = pass.dx else { return };
        for (s, rows) in pass.sequences.ranges().enumerate() {
            let mut sum = vec![T::ZERO; d];
            for r in rows.rev() {
                let from = if self.pools { s } else { r };
                match self.pools {
                    true => sum.copy_from_slice(&pass.dy[from * d..][..d]),
                    false => {
                        sum.iter_mut().zip(&pass.dy[from * d..]).for_each(|(s, &dy)| *s += dy);
                    }
                }
                dx[r * d..][..d].copy_from_slice(&sum);
            }
        }
    }

    fn factors(&self, _: Shape) -> Factors {
        Factors::None
    }
}

/// [W1 x, sums of x] concatenated, summed again, a dense layer, and, pooled, another one.
fn net(pools: bool) -> Net<f64> {
    let mut b = Builder::new(Shape::row(3), Seed::new(1).unwrap());
    let input = b.last();
    let first = b.push("first", Linear::new(3, 2)).unwrap();
    let sums = b.after(input, "sums", Sums { pools: false }).unwrap();
    b.join("join", first, sums).unwrap();
    b.push("tanh", Activation::new(Kind::Tanh)).unwrap();
    let wide = b.push("wide", Linear::new(5, 4)).unwrap();
    let more = b.push("more", Linear::new(4, 4)).unwrap();
    b.add("add", wide, more, false).unwrap();
    b.push("along", Sums { pools }).unwrap();
    b.push("last", Linear::new(4, 2)).unwrap();
    b.finish().unwrap()
}

fn starts(lengths: &[usize]) -> Vec<usize> {
    let ends = lengths.iter().scan(0, |end, len| {
        *end += len;
        Some(*end)
    });
    std::iter::once(0).chain(ends).collect()
}

/// <c, outputs>, with a fixed c.
fn loss(net: &Net<f64>, work: &mut Workspace<f64>, starts: &[usize], x: &[f64]) -> f64 {
    net.forward_sequences(work, starts, Mode::Training, 0, |slot| slot.copy_from_slice(x));
    let c = normals(work.outputs(net).len(), "c");
    work.outputs(net).iter().zip(c).map(|(y, c)| y * c).sum()
}

#[test]
fn gradients_of_sequences_are_right() {
    for pools in [false, true] {
        let mut net = net(pools);
        let starts = starts(&[3, 1, 5, 2, 1, 1, 4, 1, 1, 2, 6]);
        let mut x = normals(27 * 3, "x");
        let plan = Plan::new(&net, |_| true).with_input(&net);
        let mut work = Workspace::new(&net, 40, Some(&plan));
        loss(&net, &mut work, &starts, &x);
        assert!(work.chunks.len() > 4, "several chunks are tested");
        let (outputs, gradient) = work.output_gradient(&net);
        assert_eq!(outputs.len(), if pools { 11 } else { 27 } * 2);
        let c = normals(gradient.len(), "c");
        gradient.copy_from_slice(&c);
        net.backward(&mut work, &plan);
        let (dx, dparams) = (work.input_gradient(&net).to_vec(), work.grads.clone());
        let near = |a: f64, b: f64| (a - b).abs() < 1e-7;
        for k in 0..x.len() {
            let at = x[k];
            let [up, down] = [1e-5, -1e-5].map(|h| {
                x[k] = at + h;
                loss(&net, &mut work, &starts, &x)
            });
            x[k] = at;
            assert!(near(dx[k], (up - down) / 2e-5), "input {k}: {} {}", dx[k], (up - down) / 2e-5);
        }
        for (k, &gradient) in dparams.iter().enumerate() {
            let at = net.params[k];
            let [up, down] = [1e-5, -1e-5].map(|h| {
                net.params[k] = at + h;
                loss(&net, &mut work, &starts, &x)
            });
            net.params[k] = at;
            assert!(near(gradient, (up - down) / 2e-5), "parameter {k}");
        }
    }
}

#[test]
fn taps_of_a_sequence_add_up_to_its_gradient() {
    for pools in [false, true] {
        let net = net(pools);
        let lengths = [3, 1, 5, 2];
        let starts = starts(&lengths);
        let rows: Vec<usize> = starts[1..].iter().map(|end| end - 1).collect();
        let x = normals(11 * 3, "x");
        let mut seen = vec![Vec::new(); 4];
        let mut at_input = Vec::new();
        Taps::new(&net, 11).with_input().take_sequences(
            &starts,
            &rows,
            &[1],
            |slot| slot.copy_from_slice(&x),
            |tap| match &tap.factors {
                TapFactors::Rows(rows) => at_input = rows.to_vec(),
                TapFactors::Outer(outer) => {
                    assert_eq!(tap.samples.len(), 4);
                    seen.iter_mut().enumerate().for_each(|(i, g)| g.extend(outer.gradient(i)));
                }
                TapFactors::Direct(_) | TapFactors::Added { .. } => unreachable!(),
            },
        );
        let plan = Plan::new(&net, |_| true).with_input(&net);
        let mut work = Workspace::new(&net, 11, Some(&plan));
        for (i, &len) in lengths.iter().enumerate() {
            let own = &x[starts[i] * 3..starts[i + 1] * 3];
            net.forward_sequences(&mut work, &[0, len], Mode::Frozen, 0, |slot| {
                slot.copy_from_slice(own);
            });
            let (_, gradient) = work.output_gradient(&net);
            gradient.fill(0.0);
            let last = gradient.len() - 1;
            gradient[last] = 1.0;
            net.backward(&mut work, &plan);
            let near = |a: &f64, b: &f64| (a - b).abs() < 1e-12 * (1.0 + b.abs());
            assert_eq!(seen[i].len(), work.grads.len());
            assert!(seen[i].iter().zip(&work.grads).all(|(a, b)| near(a, b)));
            let dx = work.input_gradient(&net);
            assert!(at_input[starts[i] * 3..].iter().zip(dx).all(|(a, b)| near(a, b)));
        }
    }
}

proptest! {
    #[test]
    fn chunks_hold_all_sequences_in_order(lengths in prop::collection::vec(1usize..50, 1..60)) {
        let starts = starts(&lengths);
        let chunks = chunks(&starts);
        prop_assert!(chunks.len() <= CHUNKS);
        prop_assert_eq!(chunks[0].start, 0);
        prop_assert_eq!(chunks[chunks.len() - 1].end, lengths.len());
        prop_assert!(chunks.windows(2).all(|pair| pair[0].end == pair[1].start));
    }
}
