//! The factors of all samples, in memory, and the kernels of their pairs.

use std::ops::Range;

use veridical_core::{Error, Job};
use veridical_nets::{Float, InputTap, Net, Tap, TapFactors, TapKind, Taps};

use super::cotangent::Cotangents;
use super::examples::Examples;
use super::plan::{Path, Plan, PlannedLayer};
use super::scale::Scale;
use super::store::{Products, Sparse, Store};
use super::{Kind, Normalization, Share, Summary};
use crate::Result;
use crate::gram::{Gram, Pairs, Tiles, gram, gram_f64, gram_into};
use crate::project::Projector;

/// The factors of one layer, or the sketch of several.
#[derive(Clone, Debug)]
pub(super) struct LayerFactors<T> {
    pub name: String,
    pub path: Path,
    pub store: Store<T>,
    /// The kernel of every sample with itself, samples x cotangents.
    pub diagonal: Vec<f64>,
}

/// The factors of all samples: what the kernel of any two of them follows from, without the examples.
#[derive(Clone, Debug)]
pub struct Factors<T> {
    pub(super) n: usize,
    pub(super) cotangents: usize,
    pub(super) layers: Vec<LayerFactors<T>>,
    pub(super) outputs: Vec<T>,
    pub(super) normalization: Normalization,
}

/// Which factors of a plan are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    All,
    /// All but gradients.
    Fixed,
    /// The gradients of one cotangent.
    Gradients(usize),
}

impl Which {
    fn has(self, layer: &PlannedLayer) -> bool {
        match self {
            Self::All => true,
            Self::Fixed => layer.path != Path::Gradient,
            Self::Gradients(_) => layer.path == Path::Gradient,
        }
    }
}

impl<T> LayerFactors<T> {
    /// The sum of the diagonal: over samples in order, and then over cotangents.
    pub fn total(&self, cotangents: usize) -> f64 {
        let mut totals = vec![0.0; cotangents];
        for d in self.diagonal.chunks_exact(cotangents) {
            totals.iter_mut().zip(d).for_each(|(t, d)| *t += d);
        }
        totals.iter().sum()
    }
}

impl<T: Float> Factors<T> {
    /// Takes the factors of all examples: one forward pass, and one backward pass for each cotangent.
    ///
    /// # Errors
    /// A request error if they do not fit in memory, unsuitable data if an activation or a gradient is not finite, or an
    /// interruption by the user.
    pub fn take(
        net: &Net<T>,
        examples: &Examples<'_, T>,
        plan: &Plan,
        job: &Job<'_>,
    ) -> Result<Self> {
        if !plan.fits() {
            let what = format!(
                "the factors take {:.0} MB and ⟨memory⟩ allows {:.0} MB",
                plan.bytes() / 1e6,
                plan.settings.memory as f64 / 1e6
            );
            let hint = "raise ⟨memory⟩, take fewer ⟨rows⟩ or ⟨layers⟩, or ⟨sketch⟩ the gradients";
            return Err(Error::request(what, hint).into());
        }
        let all = Self::part(net, examples, plan, 0..examples.len(), Which::All, job)?;
        Ok(if plan.settings.kind == Kind::Entk { all.per_cotangent() } else { all })
    }

    /// Takes those of some examples, whose number begins at a multiple of [`TILE`](crate::gram::TILE), whether or not all fit in memory.
    ///
    /// # Errors
    /// The same as [`Factors::take`].
    pub fn take_part(
        net: &Net<T>,
        examples: &Examples<'_, T>,
        plan: &Plan,
        samples: Range<usize>,
        job: &Job<'_>,
    ) -> Result<Self> {
        Self::part(net, examples, plan, samples, Which::All, job)
    }

    pub(super) fn part(
        net: &Net<T>,
        examples: &Examples<'_, T>,
        plan: &Plan,
        samples: Range<usize>,
        which: Which,
        job: &Job<'_>,
    ) -> Result<Self> {
        let kind = &plan.settings.kind;
        let mut taking = Taking::new(examples, plan, samples.clone(), which)?;
        let wanted = |name: &str| plan.layers.iter().any(|l| l.layer.name == name && which.has(l));
        let capacity = examples.capacity(net);
        let taps = Taps::only(net, capacity, wanted);
        let mut taps = if wanted("") { taps.with_input() } else { taps };
        let is_of_values = kind.is_of_values();
        let cotangents = match is_of_values {
            true => None,
            false => Some(Cotangents::new(kind, net.outputs(), plan.settings.seed)?),
        };
        let wanted = match which {
            Which::Gradients(v) => v..v + 1,
            _ => 0..plan.cotangents,
        };
        let progress = job.progress("tangents", "examples", Some(samples.len() as u64));
        let (mut outputs, mut v) = (Vec::new(), Vec::new());
        for batch in examples.batches(samples.clone(), capacity) {
            examples.forward(&mut taps, batch.clone());
            let f = taps.outputs();
            if is_of_values {
                taking.values(&taps, kind, batch.clone());
            } else {
                taps.inputs(|tap| taking.input(&tap));
            }
            for number in wanted.clone() {
                let Some(cotangents) = &cotangents else { break };
                cotangents.write(number, examples, batch.clone(), &f, &mut v);
                taps.pull(&v, |tap| taking.tap(&tap, number - wanted.start, &batch, &f));
            }
            outputs.extend(f);
            progress.advance(batch.len() as u64);
            progress.check()?;
        }
        let normalization = plan.settings.normalization;
        let (n, m) = (samples.len(), wanted.len());
        let mut layers = taking.layers;
        for layer in &mut layers {
            layer.diagonal = layer.store.diagonal(n, m);
            if let Some(at) = layer.diagonal.iter().position(|d| !d.is_finite()) {
                let sample = samples.start + at / m;
                let what =
                    format!("layer {}: the gradient of sample {sample} is not finite", layer.name);
                let hint = "check the example and the weights of the network";
                return Err(Error::unfit(what, hint).into());
            }
        }
        Ok(Self { n, cotangents: m, layers, outputs, normalization })
    }

    /// Every output of every sample as a sample of its own: the diagonal has that order already.
    pub(super) fn per_cotangent(self) -> Self {
        let (n, m) = (self.n, self.cotangents);
        let each = |layer: LayerFactors<T>| LayerFactors {
            store: layer.store.per_cotangent(n, m),
            ..layer
        };
        let layers = self.layers.into_iter().map(each).collect();
        Self { n: n * m, cotangents: 1, layers, ..self }
    }

    /// Returns the number of samples; for the eNTK of samples and outputs, output by output.
    pub fn len(&self) -> usize {
        self.n
    }

    /// Returns whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// Returns the same factors for another normalization of the kernel: trNTK and trNTK0 have one set of them.
    pub fn normalized(self, normalization: Normalization) -> Self {
        Self { normalization, ..self }
    }

    /// Returns the outputs of the network, samples x outputs.
    pub fn outputs(&self) -> &[T] {
        &self.outputs
    }

    /// Returns the kernel of every sample with itself before normalization, in f64.
    pub fn diagonal(&self) -> Vec<f64> {
        let parts = self.diagonals();
        parts.chunks_exact(self.cotangents).map(|d| d.iter().sum()).collect()
    }

    /// The same by cotangent, samples x cotangents, summed over layers in the order of the kernel: gradients last.
    pub(super) fn diagonals(&self) -> Vec<f64> {
        let mut sums = vec![0.0; self.n * self.cotangents];
        for layer in self.in_order() {
            sums.iter_mut().zip(&layer.diagonal).for_each(|(s, d)| *s += d);
        }
        sums
    }

    /// The layers in the order in which a kernel adds them.
    fn in_order(&self) -> impl Iterator<Item = &LayerFactors<T>> {
        let is =
            |gradient: bool| move |l: &&LayerFactors<T>| (l.path == Path::Gradient) == gradient;
        self.layers.iter().filter(is(false)).chain(self.layers.iter().filter(is(true)))
    }

    /// Returns the share of each layer, or sketch of layers, in the sum of the diagonal.
    pub fn shares(&self) -> Vec<Share> {
        let m = self.cotangents;
        let layers = self.in_order();
        Share::of(layers.map(|l| (l.name.clone(), l.path, l.total(m))).collect())
    }

    /// Returns what is known of the kernel of these samples and others, or of each other, besides its values.
    pub fn summary(&self, columns: Option<&Self>, plan: Plan) -> Summary {
        let diagonals = [self.diagonal(), columns.map_or_else(Vec::new, Self::diagonal)];
        Summary::new(diagonals, self.shares(), plan)
    }

    /// Adds the kernel of a tile, without the gradients of cotangents.
    pub(super) fn add_fixed(
        &self,
        other: &Self,
        rows: &Range<usize>,
        columns: &Range<usize>,
        sums: &mut [f64],
    ) {
        for (own, other) in self.layers.iter().zip(&other.layers) {
            if let (Store::Vectors { lists, .. }, false) = (&own.store, own.path == Path::Gradient)
            {
                let all = 0..lists.len();
                own.store.add(&other.store, self.cotangents, rows, columns, all, sums);
            } else if own.path != Path::Gradient {
                own.store.add(&other.store, self.cotangents, rows, columns, 0..0, sums);
            }
        }
    }

    /// Adds that of the gradients of one cotangent.
    pub(super) fn add_gradients(
        &self,
        other: &Self,
        rows: &Range<usize>,
        columns: &Range<usize>,
        cotangent: usize,
        sums: &mut [f64],
    ) {
        for (own, other) in self.layers.iter().zip(&other.layers) {
            if own.path == Path::Gradient {
                let list = cotangent..cotangent + 1;
                own.store.add(&other.store, self.cotangents, rows, columns, list, sums);
            }
        }
    }

    fn pairs<'a>(&'a self, columns: Option<&'a Self>) -> Result<FactorPairs<'a, T>> {
        let other = columns.unwrap_or(self);
        let is_same = self.cotangents == other.cotangents
            && self.normalization == other.normalization
            && self.layers.len() == other.layers.len()
            && self
                .layers
                .iter()
                .zip(&other.layers)
                .all(|(a, b)| a.name == b.name && a.path == b.path);
        if !is_same {
            let what = "the factors of rows and columns follow different plans";
            return Err(Error::request(what, "take both with one plan").into());
        }
        let scale = |of: &Self| Scale::new(of.normalization, &of.diagonals(), of.cotangents);
        let scales = [scale(self), columns.map_or_else(|| scale(self), scale)];
        Ok(FactorPairs { rows: self, columns, scales })
    }

    /// Computes the kernel of these samples and others, or of each other.
    ///
    /// # Errors
    /// A request error if the factors follow different plans, or an interruption by the user.
    pub fn gram(&self, columns: Option<&Self>, job: &Job<'_>) -> Result<Gram> {
        gram(&self.pairs(columns)?, job)
    }

    /// Computes the tiles of the same that are needed, in order.
    ///
    /// # Errors
    /// Those of [`Factors::gram`] and of the tiles.
    pub fn gram_into<S: Tiles>(
        &self,
        columns: Option<&Self>,
        tiles: &mut S,
        job: &Job<'_>,
    ) -> Result<(), S::Error> {
        gram_into(&self.pairs(columns)?, tiles, job)
    }

    /// Computes the same without rounding to f32.
    ///
    /// # Errors
    /// The same as [`Factors::gram`].
    pub fn gram_f64(&self, columns: Option<&Self>, job: &Job<'_>) -> Result<Vec<f64>> {
        gram_f64(&self.pairs(columns)?, job)
    }

    /// Computes the product of the kernel of these samples with a vector, without the kernel: in two passes over the factors.
    ///
    /// (K u)_i = sum_lv sum_p delta_ip' S a_ip with S = sum_j u_j sum_q delta_jq a_jq', and likewise for the other forms. It is the product
    /// with [`Factors::gram`] up to rounding.
    ///
    /// # Panics
    /// If there is not one number for each sample.
    pub fn multiply(&self, u: &[f64]) -> Vec<f64> {
        assert_eq!(u.len(), self.n, "a number for each sample");
        let scale = Scale::new(self.normalization, &self.diagonals(), self.cotangents);
        let mut scaled: Vec<f64> = u.to_vec();
        scale.multiply(&mut scaled);
        let mut product = vec![0.0; self.n];
        for layer in &self.layers {
            let own = layer.store.multiply(self.cotangents, &scaled);
            product.iter_mut().zip(own).for_each(|(p, x)| *p += x);
        }
        scale.multiply(&mut product);
        product
    }
}

/// All pairs of two sets of factors.
struct FactorPairs<'a, T> {
    rows: &'a Factors<T>,
    columns: Option<&'a Factors<T>>,
    scales: [Scale; 2],
}

impl<T: Float> Pairs for FactorPairs<'_, T> {
    fn size(&self) -> (usize, usize) {
        (self.rows.n, self.columns.unwrap_or(self.rows).n)
    }

    fn is_symmetric(&self) -> bool {
        self.columns.is_none()
    }

    fn tile(&self, rows: Range<usize>, columns: Range<usize>, values: &mut [f64]) {
        let other = self.columns.unwrap_or(self.rows);
        self.rows.add_fixed(other, &rows, &columns, values);
        for cotangent in 0..self.rows.cotangents {
            self.rows.add_gradients(other, &rows, &columns, cotangent, values);
        }
        Scale::apply(&self.scales, self.is_symmetric(), rows, columns, values);
    }
}

/// Factors being taken.
struct Taking<'a, T> {
    examples: &'a Examples<'a, T>,
    /// The first sample that is taken.
    start: usize,
    /// Number of cotangents being taken.
    m: usize,
    layers: Vec<LayerFactors<T>>,
    /// The planned layers that are taken, and where their factors go.
    planned: Vec<(&'a PlannedLayer, usize)>,
    projector: Option<Projector<T>>,
    /// Whether one sketch serves all layers and cotangents.
    is_joint: bool,
    scratch: Vec<T>,
}

impl<'a, T: Float> Taking<'a, T> {
    fn new(
        examples: &'a Examples<'a, T>,
        plan: &'a Plan,
        samples: Range<usize>,
        which: Which,
    ) -> Result<Self> {
        let m = if matches!(which, Which::Gradients(_)) { 1 } else { plan.cotangents };
        let settings = &plan.settings;
        let mut layers = Vec::new();
        let mut planned = Vec::new();
        let joint = settings.sketch.as_ref().filter(|sketch| sketch.is_joint());
        if joint.is_some() && settings.kind == Kind::Entk {
            let what = "a sketch adds up all outputs, and the eNTK keeps them apart";
            return Err(Error::request(what, "drop ⟨sketch⟩ or choose the trace kernel").into());
        }
        for layer in plan.layers.iter().filter(|layer| which.has(layer)) {
            if layer.path == Path::Sketch && joint.is_some() {
                continue;
            }
            planned.push((layer, layers.len()));
            let rows = match layer.layer.is_pooled {
                true => samples.len(),
                false => examples.rows_of(&samples),
            };
            let dim = settings.sketch.as_ref().map_or(0, |sketch| sketch.dim);
            let store = Self::store(layer, m, dim, [samples.len(), rows]);
            let (name, path, diagonal) = (layer.name(), layer.path, Vec::new());
            layers.push(LayerFactors { name, path, store, diagonal });
        }
        let is_joint = |layer: &&PlannedLayer| layer.path == Path::Sketch && which.has(layer);
        let sketched: Vec<&PlannedLayer> = plan.layers.iter().filter(is_joint).collect();
        if let (Some(sketch), false) = (joint, sketched.is_empty()) {
            planned.extend(sketched.into_iter().map(|layer| (layer, layers.len())));
            let list = Vec::with_capacity(samples.len() * sketch.dim);
            let store = Store::Vectors { len: sketch.dim, lists: vec![list] };
            let (name, path, diagonal) = ("sketch".into(), Path::Sketch, Vec::new());
            layers.push(LayerFactors { name, path, store, diagonal });
        }
        let projector = settings.sketch.as_ref().map(|s| Projector::new(s, settings.seed));
        let is_joint = joint.is_some();
        let start = samples.start;
        Ok(Self { examples, start, m, layers, planned, projector, is_joint, scratch: Vec::new() })
    }

    /// An empty store with room for so many samples and rows.
    fn store(
        layer: &PlannedLayer,
        m: usize,
        sketch: usize,
        [samples, rows]: [usize; 2],
    ) -> Store<T> {
        let vectors = |len: usize| {
            let lists = (0..m).map(|_| Vec::with_capacity(samples * len)).collect();
            Store::Vectors { len, lists }
        };
        match (layer.path, layer.layer.kind) {
            (Path::Hadamard | Path::Pairs, TapKind::Outer(sizes)) => {
                let (inputs, outputs) = (sizes.inputs, sizes.outputs);
                let rows = rows * sizes.positions;
                Store::Products(Products {
                    inputs,
                    outputs,
                    bias: 0.0,
                    starts: (layer.path == Path::Pairs).then(|| vec![0]),
                    a: Vec::with_capacity(rows * inputs),
                    delta: Vec::with_capacity(rows * m * outputs),
                })
            }
            (_, TapKind::Rows(width)) => {
                let (ids, vectors) = (Vec::new(), Vec::new());
                Store::Sparse(Sparse { width, starts: vec![0], ids, vectors })
            }
            (Path::Sketch, _) => vectors(sketch),
            (_, TapKind::Outer(sizes)) => vectors(sizes.parameters()),
            (_, TapKind::Direct(len)) => vectors(len),
        }
    }

    fn place(&self, name: &str, part: &str) -> Option<(&'a PlannedLayer, usize)> {
        let found = |(layer, _): &&(&PlannedLayer, usize)| {
            layer.layer.name == name && layer.layer.part == part
        };
        self.planned.iter().find(found).copied()
    }

    /// Keeps a of a batch.
    fn input(&mut self, tap: &InputTap<'_, T>) {
        let Some((_, at)) = self.place(tap.name, tap.part) else { return };
        let Store::Products(own) = &mut self.layers[at].store else { return };
        let samples = tap.samples();
        own.bias = tap.bias.wide() * tap.bias.wide();
        own.a.extend_from_slice(tap.inputs(0..samples.len(), &mut self.scratch));
        if let Some(starts) = &mut own.starts {
            let mut last = starts[starts.len() - 1];
            for rows in samples.ranges() {
                last += rows.len() * tap.sizes.positions;
                starts.push(last);
            }
        }
    }

    /// Keeps what belongs to one cotangent of a batch.
    fn tap(&mut self, tap: &Tap<'_, T>, v: usize, batch: &Range<usize>, f: &[T]) {
        let Some((planned, at)) = self.place(tap.name, tap.part) else { return };
        let (m, n) = (self.m, batch.len());
        let store = &mut self.layers[at].store;
        match (store, &tap.factors) {
            (Store::Products(own), TapFactors::Outer(outer)) => {
                let out = own.outputs;
                let rows = outer.delta.len() / out;
                let first = own.a.len() / own.inputs - rows;
                own.delta.resize((first + rows) * m * out, T::ZERO);
                let to = own.delta[first * m * out..].chunks_exact_mut(m * out);
                for (to, delta) in to.zip(outer.delta.chunks_exact(out)) {
                    to[v * out..][..out].copy_from_slice(delta);
                }
            }
            (Store::Vectors { len, lists }, factors) => {
                let is_joint = self.is_joint && planned.path == Path::Sketch;
                let list = &mut lists[if is_joint { 0 } else { v }];
                // One sketch serves several layers and cotangents.
                let first = (batch.start - self.start) * *len;
                list.resize(first + n * *len, T::ZERO);
                let to = &mut list[first..];
                match (planned.path, factors) {
                    (Path::Sketch, factors) => {
                        let Some(projector) = &mut self.projector else { return };
                        let scratch = &mut self.scratch;
                        sketch(projector, (&planned.name(), v), is_joint, factors, scratch, to);
                    }
                    (_, TapFactors::Outer(outer)) => outer.gradients_into(0..n, to),
                    (_, TapFactors::Direct(all)) => to.copy_from_slice(all),
                    _ => {}
                }
            }
            (Store::Sparse(own), TapFactors::Added { rows, delta }) => {
                let none = |_: usize, _: usize| Vec::new();
                own.append(tap.samples, delta, |row| rows[row] as u32, none, [v, m], f);
            }
            (Store::Sparse(own), TapFactors::Rows(delta)) => {
                let Some(packed) = &self.examples.packed else { return };
                let Some(ids) = &packed.ids else { return };
                let first = packed.starts[batch.start];
                let items = |s: usize, v: usize| match &self.examples.tied {
                    Some(tied) => (tied.items)(batch.start + s, v),
                    None => Vec::new(),
                };
                own.append(tap.samples, delta, |row| ids[first + row], items, [v, m], f);
            }
            _ => {}
        }
    }

    /// Keeps the values of layers for a batch.
    fn values(&mut self, taps: &Taps<'_, T>, kind: &Kind, batch: Range<usize>) {
        if *kind != Kind::Em {
            taps.inputs(|tap| {
                let Some((_, at)) = self.place(tap.name, tap.part) else { return };
                let Store::Vectors { lists, .. } = &mut self.layers[at].store else { return };
                let a = tap.inputs(0..tap.samples().len(), &mut self.scratch);
                for a in a.chunks_exact(tap.sizes.inputs) {
                    lists[0].extend_from_slice(a);
                    lists[0].extend((*kind == Kind::Ck).then_some(tap.bias));
                }
            });
            return;
        }
        for (planned, at) in &self.planned {
            let Store::Vectors { len, lists } = &mut self.layers[*at].store else { continue };
            let values = taps.activations(&planned.layer.name).unwrap_or(&[]);
            let packed = self.examples.packed.as_ref().filter(|_| !planned.layer.is_pooled);
            let Some(packed) = packed else {
                lists[0].extend_from_slice(values);
                continue;
            };
            let starts = &packed.starts[batch.start..=batch.end];
            for rows in starts.windows(2).map(|w| w[0] - starts[0]..w[1] - starts[0]) {
                let scale = T::of(1.0 / rows.len() as f64);
                let mean = (0..*len).map(|k| {
                    let sum = rows.clone().fold(T::ZERO, |sum, row| sum + values[row * *len + k]);
                    sum * scale
                });
                lists[0].extend(mean);
            }
        }
    }
}

/// Adds the sketch of one layer and cotangent of a batch.
fn sketch<T: Float>(
    projector: &mut Projector<T>,
    (layer, cotangent): (&str, usize),
    is_joint: bool,
    factors: &TapFactors<'_, T>,
    scratch: &mut Vec<T>,
    to: &mut [T],
) {
    match factors {
        TapFactors::Outer(outer) if is_joint => {
            let form = |i: usize, to: &mut [T]| outer.gradients_into(i..i + 1, to);
            projector.add(layer, cotangent, outer.sizes.parameters(), form, to);
        }
        TapFactors::Outer(outer) => {
            let n = outer.samples().len();
            let sizes = [outer.sizes.inputs, outer.sizes.outputs];
            let rho = outer.sizes.bias.then_some(outer.bias_scale / outer.weight_scale);
            let len = to.len() / n;
            for (sample, to) in to.chunks_exact_mut(len).enumerate() {
                let a = outer.inputs(sample..sample + 1, scratch);
                projector.pair(layer, (a, rho), sizes, outer.delta_of(sample), to);
            }
        }
        TapFactors::Direct(all) => {
            let count = all.len() / (to.len() / projector.dim());
            let form = |i: usize, to: &mut [T]| to.copy_from_slice(&all[i * count..][..count]);
            projector.add(layer, cotangent, count, form, to);
        }
        TapFactors::Rows(_) | TapFactors::Added { .. } => {}
    }
}
