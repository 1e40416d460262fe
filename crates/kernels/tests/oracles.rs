//! Tangent kernels compared with the Jacobians of PyTorch (`tests/oracles/kernels/kernels.py`), on every path.
//!
//! Both sides compute in f64. An entry is a sum of at most a few thousand products of gradients, which are sums through at most ten
//! layers: rounding of some 1e-13 of the largest entry. 1e-10 of it is loose for the correct formula and tight for a wrong one.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[allow(dead_code, reason = "tests of networks use the rest")]
#[path = "../../nets/tests/nets/oracle/mod.rs"]
mod oracle;

use std::collections::BTreeMap;

use serde_json::Value;
use veridical_core::{Job, Seed};
use veridical_kernels::tangent::{Examples, Factors, Kind, Path, Plan, Settings, kernel};
use veridical_nets::layers::{
    Activation, AveragePool, BatchNorm, Conv2d, Direction, Flatten, GlobalAverage, Gru,
    Kind as Act, LayerNorm, Linear, Lstm, Mask, MaxPool, Positions, SequencePool,
};
use veridical_nets::models::TransformerBlock;
use veridical_nets::{Builder, Float, Net, Shape};

use oracle::{Images, list, mixed, near, read};

const TOLERANCE: f64 = 1e-10;

/// Tensors of PyTorch by name, with their number and shape.
type Tensors = BTreeMap<String, (usize, Vec<usize>)>;

fn tensors(case: &Value) -> Tensors {
    let all = case["tensors"].as_array().unwrap().iter().enumerate();
    all.map(|(t, own)| (own["name"].as_str().unwrap().to_owned(), (t, list(&own["shape"]))))
        .collect()
}

/// The values of a tensor by the rule of the oracle.
fn values(tensors: &Tensors, name: &str) -> Vec<f64> {
    let (t, shape) = &tensors[name];
    let fan_in: usize = shape[1..].iter().product();
    let (shift, scale) = match () {
        () if shape.len() > 1 => (0.0, (3.0 / fan_in as f64).sqrt()),
        () if name.ends_with("running_var") => (1.0, 0.5),
        () if name.ends_with("weight") => (1.0, 0.2),
        () => (0.0, 0.1),
    };
    mixed(*t, shape.iter().product(), scale).into_iter().map(|u| shift + u).collect()
}

fn builder<T: Float>(shape: Shape) -> Builder<T> {
    Builder::new(shape, Seed::new(0).unwrap())
}

fn mlp<T: Float>() -> Net<T> {
    let mut net = builder(Shape::row(5));
    net.push("fc1", Linear::new(5, 9)).unwrap();
    net.push("act1", Activation::new(Act::Tanh)).unwrap();
    net.push("fc2", Linear::new(9, 7).without_bias()).unwrap();
    net.push("act2", Activation::new(Act::Relu)).unwrap();
    net.push("fc3", Linear::new(7, 3)).unwrap();
    net.finish().unwrap()
}

fn images<T: Float>() -> Net<T> {
    let mut net = builder(Shape::image(7, 6, 2));
    net.push("conv1", Conv2d::new(2, 4, 3).padding(1)).unwrap();
    net.push("bn", BatchNorm::new(4).with_relu()).unwrap();
    net.push("depthwise", Conv2d::new(4, 4, 3).padding(1).groups(4)).unwrap();
    net.push("grouped", Conv2d::new(4, 6, 3).stride(2).groups(2)).unwrap();
    net.push("act", Activation::new(Act::Tanh)).unwrap();
    net.push("point", Conv2d::new(6, 5, 1).without_bias()).unwrap();
    net.push("flatten", Flatten).unwrap();
    net.push("ln", LayerNorm::new(30)).unwrap();
    net.push("fc", Linear::new(30, 3)).unwrap();
    net.finish().unwrap()
}

fn pooled<T: Float>() -> Net<T> {
    let mut net = builder(Shape::image(10, 9, 3));
    net.push("conv1", Conv2d::new(3, 4, 3)).unwrap();
    net.push("act1", Activation::new(Act::Tanh)).unwrap();
    net.push("pool1", MaxPool::new(2, 2, 0)).unwrap();
    net.push("conv2", Conv2d::new(4, 5, 2).without_bias()).unwrap();
    net.push("bn2", BatchNorm::new(5)).unwrap();
    net.push("pool2", AveragePool::new(2, 1, 0)).unwrap();
    net.push("average", GlobalAverage).unwrap();
    net.push("fc", Linear::new(5, 3)).unwrap();
    net.finish().unwrap()
}

fn recurrent<T: Float>(cell: &str, direction: Direction, pool: SequencePool) -> Net<T> {
    let mut net = builder(Shape::row(4));
    for name in ["rnn1", "rnn2"] {
        let width = net.shape(net.last()).values();
        match cell {
            "gru" => net.push(name, Gru::new(width, 3, direction)).unwrap(),
            _ => net.push(name, Lstm::new(width, 3, direction)).unwrap(),
        };
    }
    let width = net.shape(net.last()).values();
    net.push("pool", pool).unwrap();
    net.push("fc", Linear::new(width, 3)).unwrap();
    net.finish().unwrap()
}

fn block() -> TransformerBlock {
    TransformerBlock { dropout: 0.0, ..TransformerBlock::new(4, 2, 6) }
}

fn decoder() -> TransformerBlock {
    TransformerBlock { mask: Mask::Causal, norm_first: true, ..block() }
}

fn transformer<T: Float>(block: &TransformerBlock, pool: SequencePool) -> Net<T> {
    let mut net = builder(Shape::row(4));
    net.push("positions", Positions::new(8, 4)).unwrap();
    block.push(&mut net, "block").unwrap();
    net.push("pool", pool).unwrap();
    net.push("fc", Linear::new(4, 3)).unwrap();
    net.finish().unwrap()
}

fn ranker<T: Float>() -> Net<T> {
    let mut net = builder(Shape::row(4));
    net.push("positions", Positions::new(6, 4).from_end().scale(2.0)).unwrap();
    decoder().push(&mut net, "block").unwrap();
    net.finish().unwrap()
}

fn network<T: Float>(name: &str) -> Net<T> {
    let encoder = TransformerBlock { activation: Act::Gelu, ..block() };
    match name {
        "mlp" => mlp(),
        "images" => images(),
        "pooled" => pooled(),
        "gru both" | "gru of words" => recurrent("gru", Direction::Both, SequencePool::Mean),
        "lstm both" => recurrent("lstm", Direction::Both, SequencePool::Mean),
        "gru forward" => recurrent("gru", Direction::Forward, SequencePool::Last),
        "lstm forward" => recurrent("lstm", Direction::Forward, SequencePool::Last),
        "encoder" | "encoder of words" => transformer(&encoder, SequencePool::First),
        "decoder" => transformer(&decoder(), SequencePool::Last),
        "tied table" => ranker(),
        other => panic!("no network {other}"),
    }
}

/// A network of the oracle with its samples.
struct Case<T> {
    name: String,
    net: Net<T>,
    n: usize,
    x: Vec<T>,
    /// Offsets of the sequences.
    starts: Option<Vec<usize>>,
    /// The id of each row, and the table.
    words: Option<(Vec<u32>, Vec<T>)>,
    labels: Vec<u32>,
}

impl<T: Float> Case<T> {
    fn of(case: &Value) -> Self {
        let name = case["name"].as_str().unwrap().to_owned();
        let mut net: Net<T> = network(&name);
        let tensors = tensors(case);
        let prefix = if name.ends_with("of words") { "net." } else { "" };
        for named in net.tensors() {
            let own = named.name.replace("in_proj.", "in_proj_");
            let values = values(&tensors, &format!("{prefix}{own}"));
            net.set(&named, values.into_iter().map(T::of).collect());
        }
        let n = case["samples"].as_u64().unwrap() as usize;
        let starts = case.get("lengths").map(|lengths| {
            let ends = list::<usize>(lengths).into_iter().scan(0, |end, len| {
                *end += len;
                Some(*end)
            });
            std::iter::once(0).chain(ends).collect::<Vec<usize>>()
        });
        let cast = |values: Vec<f64>| values.into_iter().map(T::of).collect::<Vec<T>>();
        let words =
            case.get("ids").map(|ids| (list::<u32>(ids), cast(values(&tensors, "words.weight"))));
        let x = match (&words, &starts) {
            (Some((ids, table)), _) => {
                ids.iter().flat_map(|&id| table[id as usize * 4..][..4].iter().copied()).collect()
            }
            (None, Some(starts)) => cast(mixed(oracle::INPUT, starts[n] * 4, 2.0)),
            (None, None) => {
                let images = Images::of(&[vec![n], list(&case["input"])].concat());
                cast(images.ours(&mixed(oracle::INPUT, images.len(), 2.0)))
            }
        };
        let labels = (0..n as u32).map(|i| i % 3).collect();
        Self { name, net, n, x, starts, words, labels }
    }

    fn examples(&self) -> Examples<'_, T> {
        let width = self.net.input().values();
        let Some(starts) = &self.starts else {
            let examples = Examples::new(self.n, move |samples, slot| {
                slot.copy_from_slice(&self.x[samples.start * width..samples.end * width]);
            });
            return examples.with_labels(&self.labels);
        };
        let examples = Examples::sequences(starts, move |samples, slot| {
            let rows = starts[samples.start] * width..starts[samples.end] * width;
            slot.copy_from_slice(&self.x[rows]);
        });
        let examples = examples.with_labels(&self.labels);
        let Some((ids, table)) = &self.words else { return examples };
        let examples = examples.with_ids(ids);
        if self.name != "tied table" {
            return examples;
        }
        examples.tied(table, |i, _| {
            vec![((i % 7) as u32, T::ONE), (((3 * i + 1) % 7) as u32, T::of(-0.5))]
        })
    }

    fn take(&self, settings: &Settings) -> Factors<T> {
        let plan = Plan::new(&self.net, &self.examples(), None, settings).unwrap();
        Factors::take(&self.net, &self.examples(), &plan, &Job::silent()).unwrap()
    }
}

/// The kernels of the oracle and ours.
const KINDS: [(&str, Kind); 9] = [
    ("entk", Kind::Entk),
    ("trntk0", Kind::Trntk0),
    ("trntk", Kind::Trntk),
    ("pntk", Kind::Pntk),
    ("difference", Kind::Difference(0, 2)),
    ("margin", Kind::Margin),
    ("loss", Kind::Loss),
    ("ck", Kind::Ck),
    ("items", Kind::Items(1)),
];

#[test]
fn kernels_are_those_of_pytorch_on_every_path() {
    let oracle = read("kernels/kernels");
    let cases = oracle["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 12);
    for case in cases {
        let own = Case::<f64>::of(case);
        let kernels = case["kernels"].as_object().unwrap();
        let mut compared = 0;
        for (name, kind) in KINDS {
            let Some(want) = kernels.get(name) else { continue };
            let want: Vec<f64> = list(want);
            // `near` is relative to the largest entry or 1, whichever is larger.
            let scale = 1.0 / want.iter().fold(0.0f64, |m, k| m.max(k.abs()));
            let scaled = |k: &[f64]| k.iter().map(|k| k * scale).collect::<Vec<f64>>();
            for path in [None, Some(Path::Pairs), Some(Path::Gradient)] {
                let settings = Settings { path, ..Settings::new(kind.clone()) };
                let got = own.take(&settings).gram_f64(None, &Job::silent()).unwrap();
                let what = format!("{name} of {}, {path:?}", own.name);
                near(&scaled(&got), &scaled(&want), TOLERANCE, &what);
            }
            compared += 1;
        }
        assert_eq!(compared, kernels.len(), "{}", own.name);
    }
}

#[test]
fn outputs_are_those_of_pytorch() {
    for case in read("kernels/kernels")["cases"].as_array().unwrap() {
        let own = Case::<f64>::of(case);
        // Those of the tied table are its scores, which the kernel of items contains.
        if own.name != "tied table" {
            let factors = own.take(&Settings::new(Kind::Ck));
            near(factors.outputs(), &list::<f64>(&case["outputs"]), TOLERANCE, &own.name);
        }
    }
}

/// As it is used, in f32: values are off by some 2^-24 of the largest, sums through up to ten layers by less than a hundred times that.
#[test]
fn kernels_in_f32_are_those_of_pytorch() {
    for case in read("kernels/kernels")["cases"].as_array().unwrap() {
        let Some(want) = case["kernels"].get("trntk") else { continue };
        let own = Case::<f32>::of(case);
        let settings = Settings::new(Kind::Trntk);
        let got = kernel(&own.net, &own.examples(), None, &settings, &Job::silent()).unwrap();
        let got: Vec<f64> = got.gram.values.iter().map(|&k| f64::from(k)).collect();
        near(&got, &list::<f64>(want), 6e-6, &own.name);
    }
}
