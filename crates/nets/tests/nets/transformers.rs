//! Layer norm, attention, transformer blocks, SASRec and BERT compared with PyTorch (`tests/oracles/nets/transformers.py`),
//! and properties of networks on sequences.
//!
//! Both sides compute in f64. Values are sums of a few hundred products of numbers near 1 through at most ten layers whose
//! norms keep them there: rounding is some 1e-14, and 1e-10 is tight enough to reject a wrong formula.

use std::collections::BTreeMap;

use serde_json::Value;
use veridical_core::Seed;
use veridical_core::threads::with_threads;
use veridical_data::TensorMap;
use veridical_nets::layers::{Attention, Kind, LayerNorm, Mask};
use veridical_nets::models::{Bert, Sasrec, TransformerBlock};
use veridical_nets::{Builder, Float, Mode, Net, Plan, Shape, TapFactors, Taps, Workspace};

use crate::oracle::{layer_tensor, list, mixed, near, read};

const TOLERANCE: f64 = 1e-10;

fn seed() -> Seed {
    Seed::new(1).unwrap()
}

fn starts(lengths: &[usize]) -> Vec<usize> {
    let ends = lengths.iter().scan(0, |end, len| {
        *end += len;
        Some(*end)
    });
    std::iter::once(0).chain(ends).collect()
}

fn sasrec(width: usize, heads: usize, dropout: f64) -> Sasrec {
    Sasrec { width, heads, blocks: 2, length: 40, dropout }
}

fn bert(width: usize, heads: usize, dropout: f64) -> Bert {
    let (vocabulary, layers, intermediate, positions, types) = (7, 2, 10, 45, 2);
    let (eps, activation) = (1e-12, Kind::Gelu);
    Bert {
        vocabulary,
        width,
        layers,
        heads,
        intermediate,
        positions,
        types,
        eps,
        activation,
        dropout,
    }
}

/// The network of a case.
fn network(case: &Value) -> Net<f64> {
    let options = &case["options"];
    let size = |key: &str| options[key].as_u64().unwrap() as usize;
    let mask = if options["causal"] == true { Mask::Causal } else { Mask::None };
    let mut net = Builder::new(Shape::row(case["input"].as_u64().unwrap() as usize), seed());
    match case["name"].as_str().unwrap() {
        "layer-norm" => {
            let eps = options["eps"].as_f64().unwrap();
            net.push("0", LayerNorm::new(size("width")).eps(eps)).unwrap();
        }
        "attention" => {
            let layer = Attention::new(size("width"), size("heads"), mask).unwrap();
            net.push("attention", layer).unwrap();
        }
        "block" => {
            let block = TransformerBlock {
                mask,
                norm_first: options["norm_first"] == true,
                activation: if options["activation"] == "gelu" { Kind::Gelu } else { Kind::Relu },
                dropout: 0.0,
                ..TransformerBlock::new(size("width"), size("heads"), size("hidden"))
            };
            block.push(&mut net, "block").unwrap();
        }
        "sasrec" => return sasrec(size("width"), size("heads"), 0.0).build(seed()).unwrap(),
        "bert" => return bert(size("width"), size("heads"), 0.0).build(seed()).unwrap(),
        other => panic!("no network {other}"),
    }
    net.finish().unwrap()
}

/// A tensor of ours from theirs, by name: values of the weights or of their gradients.
fn ours(
    name: &str,
    theirs: &dyn Fn(&str) -> Vec<f64>,
    width: usize,
    is_gradient: bool,
) -> Vec<f64> {
    let (layer, kind) = name.rsplit_once('.').unwrap();
    if let Some(layer) = layer.strip_suffix(".in_proj") {
        return theirs(&format!("{layer}.in_proj_{kind}"));
    }
    let of_in_proj = |layer: &str| theirs(&format!("{layer}.in_proj_{kind}"));
    if let Some(layer) = layer.strip_suffix(".q") {
        let all = of_in_proj(layer);
        return all[..all.len() / 3].to_vec();
    }
    if let Some(layer) = layer.strip_suffix(".kv") {
        let all = of_in_proj(layer);
        return all[all.len() / 3..].to_vec();
    }
    if layer.ends_with("attention.self") {
        let parts = ["query", "key", "value"].map(|part| theirs(&format!("{layer}.{part}.{kind}")));
        return parts.concat();
    }
    match layer {
        // The first row is that of the padding.
        "pos_emb" => theirs(name)[width..].to_vec(),
        "embeddings.position_embeddings" if !is_gradient => {
            let types = theirs("embeddings.token_type_embeddings.weight");
            let sums = theirs(name).into_iter().enumerate().map(|(i, p)| p + types[i % width]);
            sums.collect()
        }
        _ => theirs(name),
    }
}

fn check(case: &Value) {
    let mut net = network(case);
    let what = |part: &str| format!("{part} of {} {}", case["name"], case["options"]);
    let width = net.outputs();
    let tensors: BTreeMap<&str, (usize, Vec<usize>)> = case["tensors"]
        .as_array()
        .unwrap()
        .iter()
        .enumerate()
        .map(|(t, own)| (own["name"].as_str().unwrap(), (t, list::<usize>(&own["shape"]))))
        .collect();
    let weight = |name: &str| {
        let (t, shape) = &tensors[name];
        // Weights of several dimensions are halved.
        let half = if name.ends_with("weight") && shape.len() > 1 { 0.5 } else { 1.0 };
        let name = if name.ends_with("weight") { "weight" } else { "bias" };
        let values = layer_tensor(*t, name, shape).into_iter();
        values.map(|x| half * x).collect::<Vec<f64>>()
    };
    for named in net.tensors() {
        net.set(&named, ours(&named.name, &weight, width, false));
    }
    let starts = starts(&list::<usize>(&case["lengths"]));
    let rows = starts[starts.len() - 1];
    let plan = Plan::new(&net, |_| true).with_input(&net);
    let mut work = Workspace::new(&net, rows, Some(&plan));
    let x = mixed(crate::oracle::INPUT, rows * net.input().values(), 2.0);
    net.forward_sequences(&mut work, &starts, Mode::Training, 0, |slot| slot.copy_from_slice(&x));
    near(work.outputs(&net), &list::<f64>(&case["y"]), TOLERANCE, &what("y"));
    let (_, gradient) = work.output_gradient(&net);
    let dy = mixed(crate::oracle::COTANGENT, gradient.len(), 1.0);
    gradient.copy_from_slice(&dy);
    net.backward(&mut work, &plan);
    near(work.input_gradient(&net), &list::<f64>(&case["dx"]), TOLERANCE, &what("dx"));
    let theirs = |name: &str| list::<f64>(&case["gradients"][name]);
    let mut compared = 0;
    for named in net.tensors() {
        let want = ours(&named.name, &theirs, width, true);
        compared += want.len();
        near(&work.grads[named.place.clone()], &want, TOLERANCE, &what(&named.name));
    }
    assert_eq!(compared, net.params.len());
}

/// Checks the number of cases, so that none is skipped because of a wrong name.
fn check_all(name: &str, count: usize) {
    let oracle = read("nets/transformers");
    let all = oracle["cases"].as_array().unwrap();
    let own: Vec<&Value> = all.iter().filter(|case| case["name"] == name).collect();
    assert_eq!(own.len(), count);
    own.into_iter().for_each(check);
}

#[test]
fn layer_norm() {
    check_all("layer-norm", 2);
}

#[test]
fn attention() {
    check_all("attention", 4);
}

#[test]
fn blocks_with_norms_first_and_last() {
    check_all("block", 4);
}

#[test]
fn body_of_sasrec() {
    check_all("sasrec", 1);
}

#[test]
fn encoder_of_bert() {
    check_all("bert", 1);
}

/// The networks tested below, both with parameters away from their initialization.
fn networks<T: Float>(dropout: f64) -> [Net<T>; 2] {
    let mut nets =
        [sasrec(8, 2, dropout).build(seed()).unwrap(), bert(8, 2, dropout).build(seed()).unwrap()];
    for net in &mut nets {
        let off = mixed(77, net.params.len(), 0.3);
        net.params.iter_mut().zip(off).for_each(|(p, z)| *p += T::of(z));
    }
    nets
}

fn rows<T: Float>(starts: &[usize], width: usize) -> Vec<T> {
    let values = mixed(crate::oracle::INPUT, starts[starts.len() - 1] * width, 2.0);
    values.into_iter().map(T::of).collect()
}

#[test]
fn taps_of_a_sequence_are_its_gradient() {
    let lengths = [3, 1, 40, 7];
    let starts = starts(&lengths);
    let total = starts[4];
    let last: Vec<usize> = starts[1..].iter().map(|end| end - 1).collect();
    for net in networks::<f64>(0.1) {
        let x = rows::<f64>(&starts, 8);
        let mut seen = vec![Vec::new(); lengths.len()];
        Taps::new(&net, total).take_sequences(
            &starts,
            &last,
            &[5],
            |slot| slot.copy_from_slice(&x),
            |tap| {
                for (i, seen) in seen.iter_mut().enumerate() {
                    match &tap.factors {
                        TapFactors::Outer(outer) => seen.extend(outer.gradient(i)),
                        TapFactors::Direct(all) => {
                            let count = all.len() / tap.samples.len();
                            seen.extend_from_slice(&all[i * count..][..count]);
                        }
                        TapFactors::Added { rows, delta } => {
                            let table = net.tensors()[0].clone();
                            let mut sums = vec![0.0; table.place.len()];
                            for row in tap.samples.range(i) {
                                let to = sums[rows[row] * 8..].iter_mut();
                                to.zip(&delta[row * 8..][..8]).for_each(|(s, d)| *s += d);
                            }
                            seen.extend(sums);
                        }
                        TapFactors::Rows(_) => panic!("the input was not requested"),
                    }
                }
            },
        );
        let plan = Plan::new(&net, |_| true);
        let mut work = Workspace::new(&net, total, Some(&plan));
        for (i, &len) in lengths.iter().enumerate() {
            let own = &x[starts[i] * 8..starts[i + 1] * 8];
            net.forward_sequences(&mut work, &[0, len], Mode::Frozen, 0, |slot| {
                slot.copy_from_slice(own);
            });
            let (_, gradient) = work.output_gradient(&net);
            gradient.fill(0.0);
            gradient[(len - 1) * 8 + 5] = 1.0;
            net.backward(&mut work, &plan);
            near(&seen[i], &work.grads, 1e-11, &format!("sequence {i}"));
        }
    }
}

/// The complete state after a step.
fn stepped(net: &Net<f32>, starts: &[usize]) -> Vec<u32> {
    let plan = Plan::new(net, |_| true).with_input(net);
    let mut work = Workspace::new(net, starts[starts.len() - 1], Some(&plan));
    let x = rows::<f32>(starts, net.input().values());
    net.forward_sequences(&mut work, starts, Mode::Training, 3, |slot| slot.copy_from_slice(&x));
    let (outputs, gradient) = work.output_gradient(net);
    let mut seen: Vec<u32> = outputs.iter().map(|y| y.to_bits()).collect();
    gradient.iter_mut().zip(mixed(crate::oracle::COTANGENT, outputs.len(), 1.0)).for_each(
        |(g, c)| {
            *g = c as f32;
        },
    );
    net.backward(&mut work, &plan);
    let rest = work.grads.iter().chain(work.input_gradient(net));
    seen.extend(rest.map(|g| g.to_bits()));
    seen
}

#[test]
fn threads_change_no_byte() {
    let lengths: Vec<usize> = (0..90).map(|i| 1 + 7 * i % 40).collect();
    let starts = starts(&lengths);
    for net in networks::<f32>(0.2) {
        let run = |threads| with_threads(Some(threads), || stepped(&net, &starts)).unwrap();
        let one = run(1);
        assert!(run(2) == one && run(3) == one);
    }
}

/// A row of SASRec does not depend on later rows or on other sequences.
#[test]
fn the_future_changes_no_byte_of_sasrec() {
    let net = &networks::<f32>(0.0)[0];
    let starts = starts(&[5, 40, 3]);
    let mut x = rows::<f32>(&starts, 8);
    let mut work = Workspace::new(net, 48, None);
    let mut run = |x: &[f32]| -> Vec<u32> {
        net.forward_sequences(&mut work, &starts, Mode::Training, 0, |slot| {
            slot.copy_from_slice(x);
        });
        work.outputs(net).iter().map(|y| y.to_bits()).collect()
    };
    let before = run(&x);
    x[30 * 8..45 * 8].iter_mut().for_each(|x| *x = 5.0 - 3.0 * *x);
    let after = run(&x);
    assert_eq!(before[..30 * 8], after[..30 * 8]);
    assert_eq!(before[45 * 8..], after[45 * 8..]);
    assert!((30..45).all(|row| before[row * 8..][..8] != after[row * 8..][..8]));
}

/// Encoders as Hugging Face writes them.
fn hugging_face(config: &Bert, prefix: &str) -> (Net<f32>, TensorMap) {
    let net = config.build::<f32>(seed()).unwrap();
    let shape = vec![config.vocabulary, config.width];
    let values = mixed(5, config.vocabulary * config.width, 1.0);
    let words = (shape, values.iter().map(|&x| x as f32).collect());
    let tensors = config.export(&net, words);
    let named = tensors.into_iter().map(|(name, tensor)| (format!("{prefix}{name}"), tensor));
    (net, named.collect())
}

#[test]
fn weights_of_bert_come_and_go_by_their_names() {
    let config = bert(8, 2, 0.0);
    for prefix in ["", "bert."] {
        let (net, mut tensors) = hugging_face(&config, prefix);
        let query = format!("{prefix}encoder.layer.1.attention.self.query.weight");
        assert_eq!(tensors[&query].0, [8, 8]);
        tensors.insert(format!("{prefix}pooler.dense.weight"), (vec![1], vec![0.0]));
        // Token types are folded into the positions.
        let types = format!("{prefix}embeddings.token_type_embeddings.weight");
        tensors.get_mut(&types).unwrap().1[..8].fill(0.25);
        let mut other = config.build::<f32>(Seed::new(2).unwrap()).unwrap();
        let words = config.import(&mut other, &tensors).unwrap();
        assert_eq!(words, tensors[&format!("{prefix}embeddings.word_embeddings.weight")]);
        let positions = net.tensors()[0].place.clone();
        assert_eq!(positions, 0..45 * 8);
        assert_eq!(other.params[positions.end..], net.params[positions.end..]);
        let moved = other.params[positions.clone()].iter().zip(&net.params[positions]);
        assert!(moved.into_iter().all(|(a, b)| *a == *b + 0.25));
    }
}

#[test]
fn weights_of_another_encoder_are_refused() {
    let config = bert(8, 2, 0.0);
    let (mut net, mut tensors) = hugging_face(&config, "");
    let moved = tensors.remove("encoder.layer.0.attention.self.key.bias").unwrap();
    tensors.insert("encoder.layer.0.attention.self.keys.bias".into(), moved);
    tensors.get_mut("embeddings.word_embeddings.weight").unwrap().0 = vec![8, 7];
    let message = config.import(&mut net, &tensors).unwrap_err().to_string();
    let missing = "missing encoder.layer.0.attention.self.key.bias (found encoder.layer.0.attention.self.keys.bias)";
    assert!(message.contains(missing), "{message}");
    assert!(message.contains("word_embeddings.weight is [8, 7] and should be [7, 8]"), "{message}");
    assert!(bert(8, 3, 0.0).build::<f32>(seed()).unwrap_err().to_string().contains("3 heads"));
    assert!(sasrec(8, 2, 1.0).build::<f32>(seed()).is_err());
}
