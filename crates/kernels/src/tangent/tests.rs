//! Kernels against gradients of single samples, in f64: sums of up to some 10^5 products of numbers of order 1 round by far less than
//! 1e-12 of the largest value of a kernel.

use std::collections::BTreeMap;

use veridical_core::threads::with_threads;
use veridical_core::{Job, Seed, Stream};
use veridical_nets::layers::{
    Activation, BatchNorm, Conv2d, Direction, Flatten, Gru, Kind as Act, LayerNorm, Linear, Lstm,
    Mask, Parameterization, Positions, SequencePool,
};
use veridical_nets::models::{Sasrec, TransformerBlock};
use veridical_nets::{Builder, Float, Mode, Net, NetConfig, Plan as Gradients, Shape, Workspace};

use super::*;
use crate::gram::{TILE, Tile, Tiles};
use crate::project::Projection;

fn seed() -> Seed {
    Seed::new(3).unwrap()
}

fn normals(n: usize, name: &str) -> Vec<f64> {
    let mut values = vec![0.0; n];
    Stream::new(seed(), name).at(0, 0).fill_normals(&mut values);
    values
}

/// Items of one sample with their weights.
type Items<T> = Vec<(u32, T)>;

/// A network with samples.
pub(super) struct Case<T> {
    pub(super) net: Net<T>,
    x: Vec<T>,
    pub(super) n: usize,
    starts: Option<Vec<usize>>,
    ids: Option<Vec<u32>>,
    /// Items and their weights for each sample, and the table.
    tied: Option<(Vec<Items<T>>, Vec<T>)>,
}

/// Ids of the table.
const WORDS: usize = 7;

impl<T: Float> Case<T> {
    /// Moves all parameters away from where gradients vanish.
    fn new(mut net: Net<T>, n: usize, lengths: Option<&[usize]>) -> Self {
        let off = normals(net.params.len(), "params");
        net.params.iter_mut().zip(off).for_each(|(p, z)| *p += T::of(0.1 * z));
        let off = normals(net.buffers.len(), "buffers");
        net.buffers.iter_mut().zip(off).for_each(|(p, z)| *p += T::of(0.1 * z.abs()));
        let starts = lengths.map(|lengths| {
            let ends = lengths.iter().scan(0, |end, len| {
                *end += len;
                Some(*end)
            });
            std::iter::once(0).chain(ends).collect::<Vec<usize>>()
        });
        let rows = starts.as_ref().map_or(n, |starts| starts[n]);
        let x = normals(rows * net.input().values(), "x").into_iter().map(T::of).collect();
        Self { net, x, n, starts, ids: None, tied: None }
    }

    pub(super) fn with_ids(self) -> Self {
        let rows = self.starts.as_ref().unwrap()[self.n];
        let ids = (0..rows).map(|r| ((r * r + r / 3) % WORDS) as u32).collect();
        Self { ids: Some(ids), ..self }
    }

    pub(super) fn examples(&self) -> Examples<'_, T> {
        let width = self.net.input().values();
        let Some(starts) = &self.starts else {
            return Examples::new(self.n, move |samples, slot| {
                slot.copy_from_slice(&self.x[samples.start * width..samples.end * width]);
            });
        };
        let examples = Examples::sequences(starts, move |samples, slot| {
            let rows = starts[samples.start]..starts[samples.end];
            slot.copy_from_slice(&self.x[rows.start * width..rows.end * width]);
        });
        let examples = match &self.ids {
            Some(ids) => examples.with_ids(ids),
            None => examples,
        };
        match &self.tied {
            Some((items, table)) => examples.tied(table, |i, _| items[i].clone()),
            None => examples,
        }
    }

    pub(super) fn settings(&self, kind: Kind) -> Settings {
        Settings { normalization: Normalization::None, seed: seed(), ..Settings::new(kind) }
    }

    pub(super) fn take(&self, settings: &Settings) -> Factors<T> {
        let plan = Plan::new(&self.net, &self.examples(), None, settings).unwrap();
        Factors::take(&self.net, &self.examples(), &plan, &Job::silent()).unwrap()
    }

    fn gram(&self, settings: &Settings) -> Vec<f64> {
        self.take(settings).gram_f64(None, &Job::silent()).unwrap()
    }
}

impl Case<f64> {
    /// Outputs of each sample, and its gradient for cotangent v of the outputs: of all parameters, then of the rows of the table.
    pub(super) fn gradients(&self, v: impl Fn(usize, &[f64]) -> Vec<f64>) -> Vec<Vec<f64>> {
        let net = &self.net;
        let plan = Gradients::new(net, |_| true).with_input(net);
        let (width, outputs) = (net.input().values(), net.outputs());
        let each = |i: usize| {
            let rows = self.starts.as_ref().map_or(i..i + 1, |s| s[i]..s[i + 1]);
            let mut work = Workspace::new(net, rows.len(), Some(&plan));
            let x = &self.x[rows.start * width..rows.end * width];
            let fill = |slot: &mut [f64]| slot.copy_from_slice(x);
            match &self.starts {
                Some(_) => {
                    net.forward_sequences(&mut work, &[0, rows.len()], Mode::Frozen, 0, fill)
                }
                None => net.forward(&mut work, 1, Mode::Frozen, 0, fill),
            }
            let (all, gradient) = work.output_gradient(net);
            let last = all.len() - outputs;
            let f = all[last..].to_vec();
            gradient.fill(0.0);
            gradient[last..].copy_from_slice(&v(i, &f));
            net.backward(&mut work, &plan);
            let mut own = work.grads.clone();
            if let Some(ids) = &self.ids {
                let mut table = vec![0.0; WORDS * width];
                let dx = work.input_gradient(net);
                for (id, dx) in ids[rows].iter().zip(dx.chunks_exact(width)) {
                    let to = table[*id as usize * width..].iter_mut();
                    to.zip(dx).for_each(|(t, d)| *t += d);
                }
                for (item, weight) in self.tied.iter().flat_map(|(items, _)| &items[i]) {
                    let to = table[*item as usize * width..].iter_mut();
                    to.zip(&f).for_each(|(t, f)| *t += weight * f);
                }
                own.extend(table);
            }
            own
        };
        (0..self.n).map(each).collect()
    }

    /// The gradients of output c.
    fn of_output(&self, c: usize) -> Vec<Vec<f64>> {
        let outputs = self.net.outputs();
        self.gradients(|_, _| (0..outputs).map(|o| f64::from(u8::from(o == c))).collect())
    }

    /// sum_c <g_i^c, g_j^c>.
    fn trace(&self) -> Vec<f64> {
        let mut sum = vec![0.0; self.n * self.n];
        for c in 0..self.net.outputs() {
            let own = products(&self.of_output(c));
            sum.iter_mut().zip(own).for_each(|(s, k)| *s += k);
        }
        sum
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

pub(super) fn products(g: &[Vec<f64>]) -> Vec<f64> {
    g.iter().flat_map(|a| g.iter().map(move |b| dot(a, b))).collect()
}

pub(super) fn near(got: &[f64], want: &[f64], tolerance: f64, what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    let scale = want.iter().fold(1e-300f64, |m, k| m.max(k.abs()));
    for (p, (got, want)) in got.iter().zip(want).enumerate() {
        assert!(
            (got - want).abs() <= tolerance * scale,
            "{what}, pair {p}: {got} {want} of {scale}"
        );
    }
}

pub(super) fn mlp<T: Float>(n: usize) -> Case<T> {
    let net = NetConfig::new("mlp:16,9".parse().unwrap(), Shape::row(5), 3).build(seed()).unwrap();
    Case::new(net, n, None)
}

fn ntk_mlp() -> Case<f64> {
    let mut net = Builder::new(Shape::row(5), seed());
    let ntk = Parameterization::Ntk { bias: 0.3 };
    net.push("fc1", Linear::new(5, 12).parameterized(ntk)).unwrap();
    net.push("act", Activation::new(Act::Tanh)).unwrap();
    net.push("fc2", Linear::new(12, 3).parameterized(ntk)).unwrap();
    Case::new(net.finish().unwrap(), 6, None)
}

/// Convolutions with padding, stride, groups, depthwise, 1 x 1, batch norm, layer norm, dense.
pub(super) fn convolutions<T: Float>(n: usize) -> Case<T> {
    let mut net = Builder::new(Shape::image(7, 6, 2), seed());
    net.push("conv1", Conv2d::new(2, 4, 3).padding(1)).unwrap();
    net.push("bn", BatchNorm::new(4).with_relu()).unwrap();
    net.push("depthwise", Conv2d::new(4, 4, 3).padding(1).groups(4)).unwrap();
    net.push("grouped", Conv2d::new(4, 6, 3).stride(2).groups(2)).unwrap();
    net.push("act", Activation::new(Act::Tanh)).unwrap();
    net.push("point", Conv2d::new(6, 5, 1).without_bias()).unwrap();
    net.push("flatten", Flatten).unwrap();
    let shape = net.shape(net.last()).values();
    net.push("ln", LayerNorm::new(shape)).unwrap();
    net.push("fc", Linear::new(shape, 3)).unwrap();
    Case::new(net.finish().unwrap(), n, None)
}

pub(super) const LENGTHS: [usize; 6] = [3, 1, 6, 2, 5, 4];

fn recurrent(cell: &str, direction: Direction) -> Case<f64> {
    let mut net = Builder::new(Shape::row(4), seed());
    for name in ["rnn1", "rnn2"] {
        let width = net.shape(net.last()).values();
        match cell {
            "gru" => net.push(name, Gru::new(width, 3, direction)).unwrap(),
            _ => net.push(name, Lstm::new(width, 3, direction)).unwrap(),
        };
    }
    let width = net.shape(net.last()).values();
    net.push("pool", SequencePool::Mean).unwrap();
    net.push("fc", Linear::new(width, 2)).unwrap();
    Case::new(net.finish().unwrap(), 6, Some(&LENGTHS))
}

pub(super) fn transformer<T: Float>(lengths: &[usize]) -> Case<T> {
    let mut net = Builder::new(Shape::row(4), seed());
    net.push("positions", Positions::new(8, 4)).unwrap();
    let block = TransformerBlock {
        mask: Mask::None,
        activation: Act::Gelu,
        dropout: 0.0,
        ..TransformerBlock::new(4, 2, 6)
    };
    block.push(&mut net, "block").unwrap();
    net.push("pool", SequencePool::First).unwrap();
    net.push("fc", Linear::new(4, 2)).unwrap();
    Case::new(net.finish().unwrap(), lengths.len(), Some(lengths))
}

/// Positions from the end, causal attention, outputs at the last row, scores by a tied table.
fn sasrec() -> Case<f64> {
    let model = Sasrec { width: 4, heads: 2, blocks: 2, length: 6, dropout: 0.0 };
    Case::new(model.build(seed()).unwrap(), 6, Some(&LENGTHS))
}

pub(super) fn all() -> Vec<(&'static str, Case<f64>)> {
    let mut all = vec![
        ("mlp", mlp(6)),
        ("ntk", ntk_mlp()),
        ("convolutions", convolutions(5)),
        ("transformer", transformer(&LENGTHS)),
        ("transformer with a table", transformer(&LENGTHS).with_ids()),
        ("sasrec", sasrec()),
    ];
    let cnn = NetConfig::new("cnn:3,max,4".parse().unwrap(), Shape::image(6, 6, 2), 3);
    all.push(("cnn", Case::new(cnn.build(seed()).unwrap(), 4, None)));
    let resnet = NetConfig::new("resnet20".parse().unwrap(), Shape::image(8, 8, 3), 2);
    all.push(("resnet", Case::new(resnet.build(seed()).unwrap(), 3, None)));
    for direction in [Direction::Forward, Direction::Backward, Direction::Both] {
        all.push(("gru", recurrent("gru", direction)));
        all.push(("lstm", recurrent("lstm", direction).with_ids()));
    }
    all
}

#[test]
fn trace_kernels_are_those_of_the_gradients_on_every_path() {
    for (name, case) in all() {
        let want = case.trace();
        for path in [None, Some(Path::Pairs), Some(Path::Gradient)] {
            let settings = Settings { path, ..case.settings(Kind::Trntk0) };
            near(&case.gram(&settings), &want, 1e-12, &format!("{name}, {path:?}"));
        }
        let factors = case.take(&case.settings(Kind::Trntk0));
        let diagonal: Vec<f64> = (0..case.n).map(|i| want[i * case.n + i]).collect();
        near(&factors.diagonal(), &diagonal, 1e-12, name);
        let shares: f64 = factors.shares().iter().map(|share| share.share).sum();
        assert!((shares - 1.0).abs() < 1e-12, "{name}: {shares}");
    }
}

#[test]
fn a_tied_table_has_the_gradient_of_its_scores_too() {
    let mut case = sasrec().with_ids();
    // Two items for each sample, one of them among its rows.
    let items = (0..6u32).map(|i| vec![(i % WORDS as u32, 1.0), ((i * 3 + 1) % 7, -0.5)]).collect();
    case.tied = Some((items, normals(WORDS * 4, "table")));
    let (items, table) = case.tied.as_ref().unwrap();
    let g = case.gradients(|i, _| {
        let scored = items[i].iter().map(|(item, w)| (&table[*item as usize * 4..][..4], w));
        let mut v = vec![0.0; 4];
        scored.for_each(|(row, w)| v.iter_mut().zip(row).for_each(|(v, e)| *v += w * e));
        v
    });
    near(&case.gram(&case.settings(Kind::Items(1))), &products(&g), 1e-12, "tied");
}

#[test]
fn kernels_of_other_cotangents_are_those_of_their_gradients() {
    let labels = [2, 0, 1, 1, 0, 2];
    let case: Case<f64> = mlp(6);
    let c = 3;
    let softmax = |f: &[f64], without: Option<usize>| {
        let e: Vec<f64> = f
            .iter()
            .enumerate()
            .map(|(c, f)| if Some(c) == without { 0.0 } else { f.exp() })
            .collect();
        let sum: f64 = e.iter().sum();
        e.into_iter().map(|e| e / sum).collect::<Vec<f64>>()
    };
    let gram = |kind: Kind| {
        let examples = case.examples().with_labels(&labels);
        let plan = Plan::new(&case.net, &examples, None, &case.settings(kind)).unwrap();
        let factors = Factors::take(&case.net, &examples, &plan, &Job::silent()).unwrap();
        factors.gram_f64(None, &Job::silent()).unwrap()
    };
    let want = |v: &dyn Fn(usize, &[f64]) -> Vec<f64>| products(&case.gradients(v));
    near(&gram(Kind::Pntk), &want(&|_, _| vec![1.0 / 3f64.sqrt(); c]), 1e-12, "pntk");
    near(&gram(Kind::Difference(0, 2)), &want(&|_, _| vec![1.0, 0.0, -1.0]), 1e-12, "difference");
    let loss = |i: usize, f: &[f64]| {
        let mut p = softmax(f, None);
        p[labels[i] as usize] -= 1.0;
        p
    };
    near(&gram(Kind::Loss), &want(&loss), 1e-12, "loss");
    let margin = |i: usize, f: &[f64]| {
        let y = labels[i] as usize;
        let mut v: Vec<f64> = softmax(f, Some(y)).iter().map(|p| -p).collect();
        v[y] = 1.0;
        v
    };
    near(&gram(Kind::Margin), &want(&margin), 1e-12, "margin");
}

/// trNTK0 = sum_c eNTK_cc and pNTK = 1' eNTK 1 / C.
#[test]
fn traces_and_sums_are_those_of_the_entk() {
    for case in [
        mlp(6),
        convolutions(5),
        recurrent("gru", Direction::Both),
        transformer(&LENGTHS).with_ids(),
    ] {
        let (n, c) = (case.n, case.net.outputs());
        let blocks = case.gram(&case.settings(Kind::Entk));
        let at = |i: usize, a: usize, j: usize, b: usize| blocks[(i * c + a) * n * c + j * c + b];
        let pairs = || (0..n).flat_map(|i| (0..n).map(move |j| (i, j)));
        let trace: Vec<f64> = pairs().map(|(i, j)| (0..c).map(|a| at(i, a, j, a)).sum()).collect();
        let whole = |(i, j)| (0..c * c).map(|p| at(i, p / c, j, p % c)).sum::<f64>() / c as f64;
        near(&case.gram(&case.settings(Kind::Trntk0)), &trace, 1e-12, "trace");
        let sums: Vec<f64> = pairs().map(whole).collect();
        near(&case.gram(&case.settings(Kind::Pntk)), &sums, 1e-12, "sum");
        let blocks = products(&{
            let of: Vec<_> = (0..c).map(|a| case.of_output(a)).collect();
            (0..n * c).map(|p| of[p % c][p / c].clone()).collect::<Vec<_>>()
        });
        near(&case.gram(&case.settings(Kind::Entk)), &blocks, 1e-12, "blocks");
    }
}

/// The head's part of trNTK0 is s^2 C (h . h' + rho^2), with CK = h . h' + rho^2; the rest of the layers is the rest of the kernel.
#[test]
fn the_head_is_the_conjugate_kernel() {
    for (case, scale) in [(mlp(6), 1.0), (ntk_mlp(), 1.0 / 12.0), (convolutions(5), 1.0)] {
        let settings = case.settings(Kind::Trntk0);
        let head = case.net.head_name().unwrap().to_owned();
        let own = case.gram(&Settings { layers: vec![head.clone()], ..settings.clone() });
        let ck = case.gram(&case.settings(Kind::Ck));
        let outputs = case.net.outputs() as f64;
        let want: Vec<f64> = ck.iter().map(|k| scale * outputs * k).collect();
        near(&own, &want, 1e-12, "head");
        let all = case.take(&settings);
        let others = all.shares().into_iter().map(|s| s.layer).filter(|l| *l != head).collect();
        let rest = case.gram(&Settings { layers: others, ..settings.clone() });
        let sum: Vec<f64> = own.iter().zip(rest).map(|(a, b)| a + b).collect();
        near(&case.gram(&settings), &sum, 1e-12, "sum");
    }
}

/// Em: inner products of the outputs of all maps; ck-cos the cosine of the input of the head.
#[test]
fn kernels_of_values_are_those_of_the_activations() {
    let case: Case<f64> = convolutions(5);
    let mut work = Workspace::new(&case.net, 5, None);
    case.net.forward(&mut work, 5, Mode::Frozen, 0, |slot| slot.copy_from_slice(&case.x));
    let maps: Vec<&str> = case.net.maps().collect();
    assert_eq!(maps, ["conv1", "bn", "depthwise", "grouped", "point", "ln", "fc"]);
    let of = |name: &str| {
        let values = work.activations(&case.net, name).unwrap();
        products(&values.chunks(values.len() / 5).map(<[f64]>::to_vec).collect::<Vec<_>>())
    };
    let mut sum = vec![0.0; 25];
    maps.iter().for_each(|name| sum.iter_mut().zip(of(name)).for_each(|(s, k)| *s += k));
    near(&case.gram(&case.settings(Kind::Em)), &sum, 1e-12, "em");
    let cosine = |k: &[f64]| -> Vec<f64> {
        (0..25).map(|p| k[p] / (k[p / 5 * 6] * k[p % 5 * 6]).sqrt()).collect()
    };
    near(&case.gram(&Settings::new(Kind::Em)), &cosine(&sum), 1e-12, "cosine of em");
    near(&case.gram(&Settings::new(Kind::CkCosine)), &cosine(&of("ln")), 1e-12, "ck-cos");
}

#[test]
fn cosines_and_the_printed_form_have_their_diagonals() {
    let case: Case<f64> = mlp(300);
    let plain = case.gram(&case.settings(Kind::Trntk0));
    let cosine = case.gram(&Settings::new(Kind::Trntk));
    let paper = Settings { normalization: Normalization::Paper, ..Settings::new(Kind::Trntk) };
    let paper = case.gram(&paper);
    for i in 0..300 {
        assert_eq!(cosine[i * 301], 1.0);
        assert!((1.0 / 3.0 - 1e-12..=1.0 + 1e-12).contains(&paper[i * 301]));
        for j in 0..i {
            let want = plain[i * 300 + j] / (plain[i * 301] * plain[j * 301]).sqrt();
            assert!((cosine[i * 300 + j] - want).abs() < 1e-12);
        }
    }
}

/// Averaged over all signs of four outputs the random kernel is the trace.
#[test]
fn random_signs_are_unbiased() {
    let net = NetConfig::new("mlp:8".parse().unwrap(), Shape::row(5), 4).build(seed()).unwrap();
    let case = Case::<f64>::new(net, 5, None);
    let mut mean = vec![0.0; 25];
    for signs in 0..16u32 {
        let v = (0..4).map(|c| if signs >> c & 1 == 1 { 1.0 } else { -1.0 }).collect::<Vec<f64>>();
        let k = products(&case.gradients(|_, _| v.clone()));
        mean.iter_mut().zip(k).for_each(|(m, k)| *m += k / 16.0);
    }
    near(&case.gram(&case.settings(Kind::Trntk0)), &mean, 1e-12, "all signs");
    // One draw: its cotangents are signs over sqrt(m), the same for all samples.
    let one = case.gram(&case.settings(Kind::RandomTrntk(1)));
    let all = (0..16u32).map(|signs| {
        let v = (0..4).map(|c| if signs >> c & 1 == 1 { 1.0 } else { -1.0 }).collect::<Vec<f64>>();
        products(&case.gradients(|_, _| v.clone()))
    });
    let distance = |k: &[f64]| k.iter().zip(&one).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(all.map(|k| distance(&k)).fold(f64::INFINITY, f64::min) < 1e-10);
}

#[test]
fn kernels_of_training_rows_have_no_negative_eigenvalue() {
    let case: Case<f32> = mlp(80);
    let k = case.gram(&Settings::new(Kind::Trntk));
    let (values, _) = veridical_learn::eigen(&k, 80);
    assert!(values.iter().all(|v| *v > -1e-6), "{values:?}");
}

/// Queries against training rows are the block of the kernel of all; in any order of the queries.
#[test]
fn queries_are_rows_of_the_kernel_of_all() {
    let case: Case<f32> = convolutions(300);
    let settings = Settings::new(Kind::Trntk);
    let width = case.net.input().values();
    let some = |order: Vec<usize>| {
        let x = &case.x;
        let n = order.len();
        let queries = Examples::new(n, move |samples, slot| {
            for (slot, i) in slot.chunks_exact_mut(width).zip(&order[samples]) {
                slot.copy_from_slice(&x[i * width..][..width]);
            }
        });
        let all = case.examples();
        kernel(&case.net, &queries, Some(&all), &settings, &Job::silent()).unwrap().gram
    };
    let whole = case.gram(&settings);
    let (up, down) = (some((0..40).collect()), some((0..40).rev().collect()));
    let one = some(vec![7]);
    for i in 0..40 {
        assert_eq!(up.row(i), down.row(39 - i), "query {i}");
        for j in 0..300 {
            assert!((f64::from(up.row(i)[j]) - whole[i * 300 + j]).abs() < 3e-6);
        }
    }
    assert_eq!(one.row(0), up.row(7));
}

/// The same for sequences of several lengths and a table, over more queries than a tile has.
#[test]
fn the_order_of_sequences_changes_no_byte() {
    let case = transformer::<f32>(&LENGTHS.repeat(50)).with_ids();
    for path in [Path::Pairs, Path::Gradient] {
        let settings = Settings { path: Some(path), ..Settings::new(Kind::Trntk) };
        let all = case.examples();
        let columns: Vec<usize> = (0..40).collect();
        let columns = all.select(&columns);
        let of = |order: &[usize]| {
            let queries = all.select(order);
            kernel(&case.net, &queries, Some(&columns), &settings, &Job::silent()).unwrap().gram
        };
        let (up, down): (Vec<usize>, Vec<usize>) = ((0..300).collect(), (0..300).rev().collect());
        let (up, down) = (of(&up), of(&down));
        for i in 0..300 {
            assert_eq!(up.row(i), down.row(299 - i), "{path:?}, query {i}");
        }
    }
}

#[test]
fn the_bytes_do_not_depend_on_threads_or_memory() {
    let cnn = NetConfig::new("cnn:16,max,24".parse().unwrap(), Shape::image(6, 6, 2), 3);
    let case = Case::<f32>::new(cnn.build(seed()).unwrap(), 600, None);
    let settings = Settings { path: Some(Path::Gradient), ..Settings::new(Kind::Trntk) };
    let run = |threads: usize, memory: u64| {
        let settings = Settings { memory, ..settings.clone() };
        let work = || kernel(&case.net, &case.examples(), None, &settings, &Job::silent()).unwrap();
        with_threads(Some(threads), work).unwrap()
    };
    let whole = run(1, 1 << 30);
    assert!(whole.summary.plan.fits());
    for threads in [2, 7] {
        assert_eq!(run(threads, 1 << 30).gram, whole.gram, "{threads} threads");
    }
    // Other factors take 0.8 MB, the gradients of one cotangent 9 MB, the sums of all rows 2.9 MB: bands of one and of two tiles.
    for memory in [11_000_000, 20_000_000] {
        let other = run(2, memory);
        assert!(!other.summary.plan.fits(), "{}", other.summary.plan);
        assert_eq!(other.gram, whole.gram, "{memory} bytes");
        assert_eq!(other.summary.diagonals, whole.summary.diagonals);
        assert_eq!(other.summary.shares, whole.summary.shares);
    }
    let small = Settings { memory: 1 << 20, ..settings };
    let error = kernel(&case.net, &case.examples(), None, &small, &Job::silent()).unwrap_err();
    assert!(error.to_string().contains("⟨memory⟩ allows 1 MB"), "{error}");
}

/// A job that stops after any tile and goes on with another memory ends with the same bytes.
#[test]
fn tiles_that_are_there_are_not_computed_and_change_nothing() {
    struct Partly<'a> {
        values: &'a mut BTreeMap<(usize, usize), Vec<f32>>,
        left: usize,
    }

    impl Tiles for Partly<'_> {
        type Error = crate::Error;

        fn has(&self, row: usize, column: usize) -> bool {
            self.values.contains_key(&(row, column))
        }

        fn put(&mut self, tile: &Tile) -> Result<()> {
            if self.left == 0 {
                return Err(Error::Interrupted.into());
            }
            self.left -= 1;
            let before =
                self.values.insert((tile.rows.start, tile.columns.start), tile.values.clone());
            assert!(before.is_none(), "a tile was computed twice");
            Ok(())
        }
    }

    let cnn = NetConfig::new("cnn:8,max,12".parse().unwrap(), Shape::image(6, 6, 2), 3);
    let case = Case::<f32>::new(cnn.build(seed()).unwrap(), 600, None);
    let queries: Vec<usize> = (0..300).map(|i| 599 - i).collect();
    let settings = Settings { path: Some(Path::Gradient), ..Settings::new(Kind::Trntk) };
    let examples = case.examples();
    let asked = examples.select(&queries);
    for (rows, columns, n) in [(&examples, None, 6), (&asked, Some(&examples), 6)] {
        let whole = kernel(&case.net, rows, columns, &settings, &Job::silent()).unwrap();
        for stop in 0..n {
            let mut values = BTreeMap::new();
            let mut run = |left: usize, memory: u64| {
                let settings = Settings { memory, ..settings.clone() };
                let mut tiles = Partly { values: &mut values, left };
                kernel_into(&case.net, rows, columns, &settings, &mut tiles, &Job::silent())
            };
            assert!(run(stop, 4_500_000).is_err());
            let summary = run(n, 7_000_000).unwrap();
            assert!(!summary.plan.fits(), "{}", summary.plan);
            assert_eq!(summary.shares, whole.summary.shares, "stopped after {stop}");
            assert_eq!(summary.diagonals, whole.summary.diagonals, "stopped after {stop}");
            for ((i, j), tile) in &values {
                let width = (whole.gram.columns - j).min(TILE);
                for (row, tile) in tile.chunks_exact(width).enumerate() {
                    assert_eq!(tile, &whole.gram.row(i + row)[*j..j + width], "{i} {j}");
                }
            }
            assert_eq!(values.len(), n);
        }
    }
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let case: Case<f64> = mlp(4);
    let refused = |settings: &Settings| {
        let examples = case.examples();
        Plan::new(&case.net, &examples, None, settings).unwrap_err().to_string()
    };
    let layers = Settings { layers: vec!["conv*".into()], ..Settings::new(Kind::Trntk) };
    assert!(
        refused(&layers).starts_with("⟨layers⟩ `conv*` matches no layer"),
        "{}",
        refused(&layers)
    );
    assert!(
        refused(&Settings::new(Kind::Difference(1, 3))).contains("below the number of outputs 3")
    );
    let mut bad: Case<f64> = mlp(4);
    bad.x[6] = f64::NAN;
    let plan = Plan::new(&bad.net, &bad.examples(), None, &Settings::new(Kind::Trntk)).unwrap();
    let error = Factors::take(&bad.net, &bad.examples(), &plan, &Job::silent()).unwrap_err();
    assert!(error.to_string().contains("the gradient of sample 1 is not finite"), "{error}");
    for kind in ["trntk", "rand-trntk:2", "difference:0,1", "ck-cos"] {
        assert_eq!(kind.parse::<Kind>().unwrap().to_string(), kind);
    }
    assert!("tr".parse::<Kind>().is_err());
}

#[test]
fn patterns_match_names_and_parts() {
    for (pattern, name, want) in [
        ("conv*", "conv1", true),
        ("conv*", "fc1", false),
        ("*.conv1", "layer1.0.conv1", true),
        ("*.conv1", "layer1.0.conv12", false),
        ("rnn", "rnn.ih", true),
        ("rnn", "rnn2", false),
        ("a*b*c", "aXbYc", true),
        ("a*b*c", "aXcYb", false),
        ("*", "anything", true),
    ] {
        assert_eq!(matches(pattern, name), want, "{pattern} {name}");
    }
}

/// Kernels of sketches: settings with a sketch of everything.
fn sketched(sketch: &str, seed: u64, everything: bool) -> Settings {
    let sketch: Sketch = sketch.parse().unwrap();
    let sketch = if everything { sketch.of_everything() } else { sketch };
    let seed = Seed::new(seed).unwrap();
    let normalization = Normalization::None;
    Settings { sketch: Some(sketch), seed, normalization, ..Settings::new(Kind::Trntk0) }
}

/// The mean over 200 seeds lies within 4 standard errors of the exact value, and the variance between 200 seeds within the interval of
/// chi-square with 199 degrees of freedom, (139, 274) / 199 at 0.1 %, widened by 1.5 for tails heavier than normal, below its bound.
#[test]
fn sketches_are_unbiased_with_the_variance_of_the_formula() {
    let case: Case<f64> = mlp(3);
    let exact = case.gram(&case.settings(Kind::Trntk0));
    for name in ["sjlt:64", "gaussian:64", "rademacher:64"] {
        let runs: Vec<_> = (0..200).map(|seed| case.gram(&sketched(name, seed, true))).collect();
        for p in 0..9 {
            let (i, j) = (p / 3, p % 3);
            let mean = runs.iter().map(|k| k[p]).sum::<f64>() / 200.0;
            let variance = runs.iter().map(|k| (k[p] - mean).powi(2)).sum::<f64>() / 199.0;
            let error = (variance / 200.0).sqrt();
            assert!(
                (mean - exact[p]).abs() < 4.0 * error + 1e-12,
                "{name} {p}: {mean} {}",
                exact[p]
            );
            let bound = (exact[i * 4] * exact[j * 4] + exact[p].powi(2)) / 64.0;
            let most = if i == j { 3.0 } else { 274.0 / 199.0 * 1.5 };
            assert!(variance < most * bound, "{name} {p}: {variance} of {bound}");
            if i != j && name == "gaussian:64" {
                assert!(
                    variance > 139.0 / 199.0 / 1.5 * bound,
                    "{name} {p}: {variance} of {bound}"
                );
            }
        }
    }
}

/// Layers with exact factors keep them; the sketch replaces the gradients of convolutions alone.
#[test]
fn only_large_gradients_are_sketched() {
    let case: Case<f64> = convolutions(4);
    let exact = case.settings(Kind::Trntk0);
    let rest = case.take(&Settings { path: Some(Path::Gradient), ..exact.clone() });
    let large: Vec<_> = rest.shares().into_iter().filter(|s| s.path == Path::Gradient).collect();
    assert_eq!(large.len(), 4);
    let mut settings = sketched("sjlt:200000", 1, false);
    settings.path = Some(Path::Gradient);
    let factors = case.take(&settings);
    let shares = factors.shares();
    assert_eq!(shares.last().unwrap().layer, "sketch");
    assert_eq!(shares.len(), rest.shares().len() - 3);
    // The standard deviation of a cosine is at most sqrt(2 / 200000) = 0.0032.
    near(&case.gram(&settings), &case.gram(&exact), 0.02, "sketch");
    let threads = |n: usize| {
        let seen = settings.clone();
        with_threads(Some(n), || convolutions::<f64>(4).gram(&seen)).unwrap()
    };
    assert_eq!(threads(1), threads(3));
}

/// Kronecker products with matrices from N(0, 1/A) and N(0, 1/B): unbiased as well.
#[test]
fn kronecker_products_are_unbiased() {
    let case: Case<f64> = mlp(2);
    let exact = case.gram(&case.settings(Kind::Trntk0));
    let runs: Vec<_> = (0..200).map(|seed| case.gram(&sketched("kron:4x5", seed, true))).collect();
    for p in 0..4 {
        let mean = runs.iter().map(|k| k[p]).sum::<f64>() / 200.0;
        let variance = runs.iter().map(|k| (k[p] - mean).powi(2)).sum::<f64>() / 199.0;
        assert!((mean - exact[p]).abs() < 4.0 * (variance / 200.0).sqrt(), "{mean} {}", exact[p]);
    }
    assert_eq!(sketched("kron:4x5", 0, true).sketch.unwrap().projection, Projection::Kron(4, 5));
}

/// The residual of a sketch of everything has the size that its variance predicts: with 256 pairs of 32 samples a factor of two is far.
#[test]
fn residuals_of_sketches_are_of_the_size_predicted() {
    let case: Case<f64> = mlp(70);
    let settings = Settings { kind: Kind::Trntk, ..sketched("sjlt:1000", 2, true) };
    let found =
        crate::project::residual(&case.net, &case.examples(), &settings, &Job::silent()).unwrap();
    let expected = found.expected.unwrap();
    assert_eq!(found.differences.len(), 256);
    assert!(found.rms < 1.5 * expected && found.rms > 0.1 * expected, "{} {expected}", found.rms);
    let exact = Settings { sketch: None, ..settings };
    let none =
        crate::project::residual(&case.net, &case.examples(), &exact, &Job::silent()).unwrap();
    assert_eq!((none.rms, none.expected), (0.0, None));
}

#[test]
fn selected_examples_have_the_kernel_of_their_rows() {
    let chosen = [4, 0, 5];
    for case in [mlp::<f64>(6), transformer(&LENGTHS).with_ids()] {
        let examples = case.examples();
        let some = examples.select(&chosen);
        let plan = Plan::new(&case.net, &some, None, &case.settings(Kind::Trntk0)).unwrap();
        let own = Factors::take(&case.net, &some, &plan, &Job::silent()).unwrap();
        let all = case.gram(&case.settings(Kind::Trntk0));
        let pairs = chosen.iter().flat_map(|i| chosen.iter().map(move |j| i * case.n + j));
        let want: Vec<f64> = pairs.map(|p| all[p]).collect();
        near(&own.gram_f64(None, &Job::silent()).unwrap(), &want, 1e-12, "selected");
    }
}

#[test]
fn products_with_vectors_need_no_kernel() {
    for (name, case) in all() {
        let u = normals(case.n, "u");
        for kind in [Kind::Trntk, Kind::Pntk] {
            for path in [None, Some(Path::Pairs), Some(Path::Gradient)] {
                let settings = Settings { path, ..Settings::new(kind.clone()) };
                let k = case.gram(&settings);
                let want: Vec<f64> = k.chunks(case.n).map(|row| dot(row, &u)).collect();
                near(&case.take(&settings).multiply(&u), &want, 1e-12, name);
            }
        }
    }
}

#[test]
fn labels_beyond_the_outputs_are_refused() {
    let case: Case<f64> = mlp(3);
    let examples = case.examples().with_labels(&[0, 3, 1]);
    let error = Plan::new(&case.net, &examples, None, &case.settings(Kind::Loss)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "example 1 has class 3 and the network 3 classes; number classes from 0"
    );
}
