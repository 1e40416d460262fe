//! GRU and LSTM compared with PyTorch (`tests/oracles/nets/recurrent.py`), alone and inside networks.
//!
//! Both sides compute in f64. Rounding differences, about 1e-15 per step, grow by at most the norm of dh'/dh per step; with
//! these weights it is near 1, so forty steps leave some 1e-13: 1e-10 is loose for the correct formula and tight for a wrong one.

use serde_json::Value;
use veridical_core::Seed;
use veridical_core::threads::with_threads;
use veridical_nets::layers::{Direction, Gru, Linear, Lstm, SequencePool};
use veridical_nets::{Builder, Float, Mode, Net, Plan, Shape, TapFactors, Taps, Workspace};

use crate::oracle::{list, mixed, near, read};

const TOLERANCE: f64 = 1e-10;

fn starts(lengths: &[usize]) -> Vec<usize> {
    let ends = lengths.iter().scan(0, |end, len| {
        *end += len;
        Some(*end)
    });
    std::iter::once(0).chain(ends).collect()
}

fn builder<T: Float>(cell: &str, d: usize, h: usize, direction: Direction) -> Builder<T> {
    let mut b = Builder::new(Shape::row(d), Seed::new(1).unwrap());
    match cell {
        "gru" => b.push("rnn", Gru::new(d, h, direction)).unwrap(),
        "lstm" => b.push("rnn", Lstm::new(d, h, direction)).unwrap(),
        other => panic!("no cell {other}"),
    };
    b
}

fn check(case: &Value) {
    let size = |key: &str| case[key].as_u64().unwrap() as usize;
    let (cell, d, h) = (case["cell"].as_str().unwrap(), size("inputs"), size("hidden"));
    let direction = if case["both"] == true { Direction::Both } else { Direction::Forward };
    let mut net = builder::<f64>(cell, d, h, direction).finish().unwrap();
    let tensors = net.tensors();
    for (t, tensor) in tensors.iter().enumerate() {
        net.params[tensor.place.clone()].copy_from_slice(&mixed(t, tensor.place.len(), 0.6));
    }
    let starts = starts(&list::<usize>(&case["lengths"]));
    let rows = starts[starts.len() - 1];
    let plan = Plan::new(&net, |_| true).with_input(&net);
    let mut work = Workspace::new(&net, rows, Some(&plan));
    let x = mixed(crate::oracle::INPUT, rows * d, 2.0);
    net.forward_sequences(&mut work, &starts, Mode::Training, 0, |slot| slot.copy_from_slice(&x));
    let what = |part: &str| format!("{part} of {cell} {direction:?}");
    near(work.outputs(&net), &list::<f64>(&case["y"]), TOLERANCE, &what("y"));
    let (_, gradient) = work.output_gradient(&net);
    let dy = mixed(crate::oracle::COTANGENT, gradient.len(), 1.0);
    gradient.copy_from_slice(&dy);
    net.backward(&mut work, &plan);
    near(work.input_gradient(&net), &list::<f64>(&case["dx"]), TOLERANCE, &what("dx"));
    let theirs = case["gradients"].as_object().unwrap();
    assert_eq!(tensors.len(), theirs.len());
    for tensor in tensors {
        let name = tensor.name.strip_prefix("rnn.").unwrap();
        let got = &work.grads[tensor.place.clone()];
        near(got, &list::<f64>(&theirs[name]), TOLERANCE, &what(name));
    }
}

#[test]
fn outputs_and_gradients_are_those_of_pytorch() {
    let oracle = read("nets/recurrent");
    let cases = oracle["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 4);
    cases.iter().for_each(check);
}

/// A bidirectional layer, its end states, a dense layer.
fn classifier<T: Float>(cell: &str) -> Net<T> {
    let mut b = builder(cell, 5, 7, Direction::Both);
    b.push("ends", SequencePool::Ends).unwrap();
    b.push("fc", Linear::new(14, 2)).unwrap();
    b.finish().unwrap()
}

#[test]
fn the_bytes_do_not_depend_on_threads() {
    let lengths: Vec<usize> = (0..60).map(|i| 1 + i * 7 % 23).collect();
    let starts = starts(&lengths);
    let rows = starts[lengths.len()];
    let x: Vec<f32> = mixed(3, rows * 5, 1.0).into_iter().map(|x| x as f32).collect();
    for cell in ["gru", "lstm"] {
        let run = || {
            let net = classifier::<f32>(cell);
            let plan = Plan::new(&net, |_| true).with_input(&net);
            let mut work = Workspace::new(&net, rows, Some(&plan));
            let fill = |slot: &mut [f32]| slot.copy_from_slice(&x);
            net.forward_sequences(&mut work, &starts, Mode::Training, 0, fill);
            let (outputs, gradient) = work.output_gradient(&net);
            gradient.copy_from_slice(outputs);
            let outputs = outputs.to_vec();
            net.backward(&mut work, &plan);
            (outputs, work.grads.clone(), work.input_gradient(&net).to_vec())
        };
        let one = with_threads(Some(1), run).unwrap();
        assert!(one.1.iter().filter(|g| **g != 0.0).count() > one.1.len() / 2);
        for threads in [2, 3] {
            assert!(with_threads(Some(threads), run).unwrap() == one, "{cell}, {threads} threads");
        }
    }
}

/// The gradient of an output of one sequence, alone in its batch, equals the taps of that sequence among many.
#[test]
fn taps_are_the_gradients_of_sequences() {
    let lengths = [3, 1, 9, 2];
    let starts = starts(&lengths);
    let rows = starts[lengths.len()];
    let x = mixed(3, rows * 5, 1.0);
    for cell in ["gru", "lstm"] {
        let net = classifier::<f64>(cell);
        let cells = net.tensors().into_iter().filter(|t| t.name.starts_with("rnn"));
        let own: usize = cells.map(|t| t.place.len()).sum();
        let mut seen = vec![vec![0.0; net.params.len()]; lengths.len()];
        Taps::new(&net, rows).take_sequences(
            &starts,
            &[0; 4],
            &[1],
            |slot| slot.copy_from_slice(&x),
            |tap| {
                let TapFactors::Outer(outer) = &tap.factors else { panic!("two factors") };
                let first = if tap.name == "rnn" { 0 } else { own };
                assert_eq!(tap.part.is_empty(), tap.name != "rnn");
                for (i, seen) in seen.iter_mut().enumerate() {
                    let gradient = outer.gradient(i);
                    let (weight, bias) =
                        gradient.split_at(outer.sizes.inputs * outer.sizes.outputs);
                    for (part, place) in [weight, bias].into_iter().zip(outer.places) {
                        seen[first + place..][..part.len()].copy_from_slice(part);
                    }
                }
            },
        );
        let plan = Plan::new(&net, |_| true);
        let mut work = Workspace::new(&net, 9, Some(&plan));
        for (i, &len) in lengths.iter().enumerate() {
            let own = &x[starts[i] * 5..starts[i + 1] * 5];
            let fill = |slot: &mut [f64]| slot.copy_from_slice(own);
            net.forward_sequences(&mut work, &[0, len], Mode::Frozen, 0, fill);
            work.output_gradient(&net).1.copy_from_slice(&[0.0, 1.0]);
            net.backward(&mut work, &plan);
            // Sums of at most nine rows of numbers near 1, in another order.
            near(&seen[i], &work.grads, 1e-13, cell);
        }
    }
}
