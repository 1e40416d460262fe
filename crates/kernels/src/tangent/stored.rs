//! Factors as arrays that a file can hold, and the factors of other functions of the outputs from those of each output.
//!
//! A backward pass is linear in the cotangent: delta^v = sum_c v_c delta^(e_c). Factors of all outputs therefore contain those of pNTK,
//! differences, random signs, margins and losses, up to rounding, and a of the last layer is the feature of the conjugate kernel. Neither
//! the examples nor another pass through the network is needed.

use serde::{Deserialize, Serialize};
use veridical_core::{Error, Seed};
use veridical_nets::Float;

use super::cotangent::Cotangents;
use super::factors::{Factors, LayerFactors};
use super::store::{Products, Sparse, Store};
use super::{Examples, Kind, Normalization, Path, Plan};
use crate::Result;

/// What the arrays of a layer are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredLayer {
    /// Name of the layer, with that of its part; `sketch` for a sketch of several.
    pub layer: String,
    /// How its kernel is computed.
    pub path: Path,
    /// Its arrays.
    #[serde(flatten)]
    pub form: Form,
}

/// The form of the factors of a layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "form", rename_all = "lowercase")]
pub enum Form {
    /// `a`, rows x inputs; `d`, rows x cotangents x outputs; with several rows per sample `rows`, their numbers.
    Products {
        /// Values of a row of a.
        inputs: usize,
        /// Values of a row of delta, of one cotangent.
        outputs: usize,
        /// rho^2 of \[a, rho\].
        bias: f64,
        /// Whether a sample may have several rows.
        is_sequence: bool,
    },
    /// `g`, samples x lists x length.
    Vectors {
        /// Values of a vector.
        length: usize,
        /// Number of vectors per sample.
        lists: usize,
    },
    /// `rows`, the number of ids of every sample; `ids`; `g`, ids x cotangents x width.
    Sparse {
        /// Values of a row of the table.
        width: usize,
    },
}

impl StoredLayer {
    /// Returns the names of the arrays of numbers, each with the values of one row, for so many cotangents.
    pub fn values(&self, cotangents: usize) -> Vec<(&'static str, usize)> {
        match self.form {
            Form::Products { inputs, outputs, .. } => {
                vec![("a", inputs), ("d", cotangents * outputs)]
            }
            Form::Vectors { length, lists } => vec![("g", lists * length)],
            Form::Sparse { width } => vec![("g", cotangents * width)],
        }
    }

    /// Returns the names of the arrays of counts and ids.
    pub fn counts(&self) -> &'static [&'static str] {
        match self.form {
            Form::Products { is_sequence: true, .. } => &["rows"],
            Form::Products { .. } | Form::Vectors { .. } => &[],
            Form::Sparse { .. } => &["rows", "ids"],
        }
    }
}

/// The arrays of a layer, in the order of [`StoredLayer::values`] and [`StoredLayer::counts`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Arrays {
    /// Numbers.
    pub values: Vec<Vec<f32>>,
    /// Counts and ids.
    pub counts: Vec<Vec<u32>>,
}

/// Numbers from a running total.
fn lengths(starts: &[usize]) -> Vec<u32> {
    starts.windows(2).map(|w| (w[1] - w[0]) as u32).collect()
}

/// A running total of numbers.
fn starts(lengths: &[u32]) -> Vec<usize> {
    let ends = lengths.iter().scan(0, |end, &n| {
        *end += n as usize;
        Some(*end)
    });
    std::iter::once(0).chain(ends).collect()
}

impl Factors<f32> {
    /// Returns the number of cotangents.
    pub fn cotangents(&self) -> usize {
        self.cotangents
    }

    /// Returns the layers as arrays.
    pub fn arrays(&self) -> Vec<(StoredLayer, Arrays)> {
        let each = |layer: &LayerFactors<f32>| {
            let (form, arrays) = match &layer.store {
                Store::Products(own) => {
                    let (inputs, outputs, bias) = (own.inputs, own.outputs, own.bias);
                    let is_sequence = own.starts.is_some();
                    let counts = own.starts.iter().map(|s| lengths(s)).collect();
                    let values = vec![own.a.clone(), own.delta.clone()];
                    let form = Form::Products { inputs, outputs, bias, is_sequence };
                    (form, Arrays { values, counts })
                }
                Store::Vectors { len, lists } => {
                    let each = (0..self.n)
                        .flat_map(|i| lists.iter().flat_map(move |l| &l[i * len..][..*len]));
                    let values = vec![each.copied().collect()];
                    let form = Form::Vectors { length: *len, lists: lists.len() };
                    (form, Arrays { values, counts: Vec::new() })
                }
                Store::Sparse(own) => {
                    let counts = vec![lengths(&own.starts), own.ids.clone()];
                    let values = vec![own.vectors.clone()];
                    (Form::Sparse { width: own.width }, Arrays { values, counts })
                }
            };
            (StoredLayer { layer: layer.name.clone(), path: layer.path, form }, arrays)
        };
        self.layers.iter().map(each).collect()
    }

    /// Creates factors from the arrays of `n` samples.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the lengths of arrays contradict each other.
    pub fn from_arrays(
        n: usize,
        cotangents: usize,
        layers: Vec<(StoredLayer, Arrays)>,
        outputs: Vec<f32>,
    ) -> Result<Self> {
        let layers = layers.into_iter().map(|(stored, arrays)| {
            let damaged = || {
                let what = format!("the arrays of layer {} have other sizes", stored.layer);
                crate::Error::from(Error::damaged(what, "store the factors again"))
            };
            let widths = stored.values(cotangents);
            let is_whole = arrays.values.len() == widths.len()
                && arrays.counts.len() == stored.counts().len()
                && widths
                    .iter()
                    .zip(&arrays.values)
                    .all(|((_, width), v)| *width > 0 && v.len().is_multiple_of(*width));
            if !is_whole {
                return Err(damaged());
            }
            let rows: Vec<usize> =
                widths.iter().zip(&arrays.values).map(|((_, w), v)| v.len() / w).collect();
            let mut counts = arrays.counts.into_iter();
            let mut values = arrays.values.into_iter();
            let mut value = || values.next().unwrap_or_default();
            let starts = counts.next().map(|lengths| starts(&lengths));
            let total = starts.as_ref().map_or(Some(n), |s| s.last().copied());
            let has_all = starts.as_ref().is_none_or(|starts| starts.len() == n + 1);
            if !has_all || rows.iter().any(|rows| Some(*rows) != total) {
                return Err(damaged());
            }
            let store = match stored.form {
                Form::Products { inputs, outputs, bias, .. } => {
                    let (a, delta) = (value(), value());
                    Store::Products(Products { inputs, outputs, bias, starts, a, delta })
                }
                Form::Vectors { length, lists } => {
                    let all = value();
                    let list = |v: usize| {
                        all.chunks_exact(length).skip(v).step_by(lists).flatten().copied().collect()
                    };
                    Store::Vectors { len: length, lists: (0..lists).map(list).collect() }
                }
                Form::Sparse { width } => {
                    let ids = counts.next().unwrap_or_default();
                    if Some(ids.len()) != total {
                        return Err(damaged());
                    }
                    let starts = starts.unwrap_or_default();
                    Store::Sparse(Sparse { width, starts, ids, vectors: value() })
                }
            };
            let diagonal = store.diagonal(n, cotangents);
            Ok(LayerFactors { name: stored.layer, path: stored.path, store, diagonal })
        });
        let layers = layers.collect::<Result<Vec<_>>>()?;
        let normalization = Normalization::None;
        Ok(Self { n, cotangents, layers, outputs, normalization })
    }

    /// Returns the factors of some samples, in the given order.
    ///
    /// # Panics
    /// If a sample does not exist.
    pub fn select(&self, samples: &[usize]) -> Self {
        let (m, outputs) = (self.cotangents, self.outputs.len() / self.n.max(1));
        let layer = |layer: &LayerFactors<f32>| {
            let store = match &layer.store {
                Store::Products(own) => {
                    let (starts, rows) = chosen(own.starts.as_deref(), samples);
                    Store::Products(Products {
                        starts,
                        a: taken(&own.a, own.inputs, &rows),
                        delta: taken(&own.delta, m * own.outputs, &rows),
                        ..*own
                    })
                }
                Store::Vectors { len, lists } => {
                    let lists = lists.iter().map(|list| taken(list, *len, samples)).collect();
                    Store::Vectors { len: *len, lists }
                }
                Store::Sparse(own) => {
                    let (starts, rows) = chosen(Some(&own.starts), samples);
                    Store::Sparse(Sparse {
                        width: own.width,
                        starts: starts.unwrap_or_default(),
                        ids: taken(&own.ids, 1, &rows),
                        vectors: taken(&own.vectors, m * own.width, &rows),
                    })
                }
            };
            let diagonal = taken(&layer.diagonal, m, samples);
            LayerFactors { name: layer.name.clone(), path: layer.path, store, diagonal }
        };
        Self {
            n: samples.len(),
            cotangents: m,
            layers: self.layers.iter().map(layer).collect(),
            outputs: taken(&self.outputs, outputs, samples),
            normalization: self.normalization,
        }
    }

    /// Returns the factors of a kernel from those of `own`, for the layers of its plan; `head` is the last layer.
    ///
    /// # Errors
    /// A request error if the kernel needs other gradients, or a layer that is not there.
    pub fn of_kind(
        &self,
        own: &Kind,
        plan: &Plan,
        labels: Option<&[u32]>,
        head: Option<&str>,
    ) -> Result<Self> {
        let kind = &plan.settings.kind;
        let refused = |why: &str| {
            let what = format!("factors of {own} do not contain those of {kind}: {why}");
            crate::Error::from(Error::request(what, "compute them from the examples"))
        };
        let normalization = plan.settings.normalization;
        let is_of_all = matches!(own, Kind::Trntk | Kind::Trntk0 | Kind::Entk);
        if kind.is_of_values() {
            return match kind {
                Kind::Em => Err(refused("they have no outputs of layers")),
                _ => self
                    .conjugate(kind, head, normalization)
                    .ok_or_else(|| refused("the last layer is not among them")),
            };
        }
        let wanted: Vec<String> = match plan.settings.sketch.as_ref().is_some_and(|s| s.is_joint())
        {
            true => self.layers.iter().map(|layer| layer.name.clone()).collect(),
            false => plan.layers.iter().map(|layer| layer.name()).collect(),
        };
        let chosen = wanted.iter().map(|name| {
            let found = self.layers.iter().find(|layer| layer.name == *name);
            found.ok_or_else(|| refused(&format!("layer {name} is not among them")))
        });
        let chosen = chosen.collect::<Result<Vec<_>>>()?;
        let is_same = own == kind || is_of_all && matches!(kind, Kind::Trntk | Kind::Trntk0);
        if !is_same && (!is_of_all || chosen.iter().any(|layer| layer.path == Path::Sketch)) {
            let why = match is_of_all {
                true => "a sketch adds up all outputs",
                false => "store those of all outputs",
            };
            return Err(refused(why));
        }
        if matches!(kind, Kind::Items(_)) {
            return Err(refused("they are of outputs"));
        }
        let mut found = Self {
            n: self.n,
            cotangents: self.cotangents,
            layers: chosen.into_iter().cloned().collect(),
            outputs: self.outputs.clone(),
            normalization,
        };
        if *kind == Kind::Entk {
            return Ok(found.per_cotangent());
        }
        if !is_same {
            found.combine(kind, plan.settings.seed, labels)?;
        }
        Ok(found)
    }

    /// The features of the conjugate kernel.
    fn conjugate(
        &self,
        kind: &Kind,
        head: Option<&str>,
        normalization: Normalization,
    ) -> Option<Self> {
        let layer = self.layers.iter().find(|layer| Some(layer.name.as_str()) == head)?;
        let Store::Products(Products { inputs, bias, starts: None, a, .. }) = &layer.store else {
            return None;
        };
        let rho = (*kind == Kind::Ck).then(|| bias.sqrt() as f32);
        let list = a.chunks_exact(*inputs).flat_map(|a| a.iter().copied().chain(rho)).collect();
        let len = inputs + usize::from(rho.is_some());
        let store = Store::Vectors { len, lists: vec![list] };
        let diagonal = store.diagonal(self.n, 1);
        let (name, path) = (layer.name.clone(), Path::Direct);
        let layers = vec![LayerFactors { name, path, store, diagonal }];
        Some(Self {
            n: self.n,
            cotangents: 1,
            layers,
            outputs: self.outputs.clone(),
            normalization,
        })
    }

    /// Replaces the gradients of all outputs by those of other functions of them.
    fn combine(&mut self, kind: &Kind, seed: Seed, labels: Option<&[u32]>) -> Result<()> {
        let (n, c) = (self.n, self.cotangents);
        let cotangents = Cotangents::new(kind, c, seed)?;
        let m = cotangents.count();
        let examples = Examples::new(n, |_, _: &mut [f32]| {});
        let examples = match labels {
            Some(labels) => examples.with_labels(labels),
            None => examples,
        };
        let mut one = Vec::new();
        // Samples x new cotangents x outputs.
        let mut v = vec![0.0f32; n * m * c];
        for r in 0..m {
            cotangents.write(r, &examples, 0..n, &self.outputs, &mut one);
            for (to, from) in v.chunks_exact_mut(m * c).zip(one.chunks_exact(c)) {
                to[r * c..][..c].copy_from_slice(from);
            }
        }
        let weights = |sample: usize| &v[sample * m * c..][..m * c];
        for layer in &mut self.layers {
            match &mut layer.store {
                Store::Products(own) => {
                    let width = own.outputs;
                    let samples = of_rows(own.starts.as_deref(), n);
                    own.delta = combined(&own.delta, [c, m, width], samples, weights);
                }
                Store::Sparse(own) => {
                    let samples = of_rows(Some(&own.starts), n);
                    own.vectors = combined(&own.vectors, [c, m, own.width], samples, weights);
                }
                Store::Vectors { len, lists } => {
                    let new = (0..m).map(|r| {
                        let mut list = Vec::with_capacity(n * *len);
                        for i in 0..n {
                            let own: Vec<&[f32]> =
                                lists.iter().map(|list| &list[i * *len..][..*len]).collect();
                            let weights = &weights(i)[r * c..][..c];
                            list.extend((0..*len).map(|k| {
                                let parts = own.iter().zip(weights);
                                parts.map(|(x, w)| x[k].wide() * w.wide()).sum::<f64>() as f32
                            }));
                        }
                        list
                    });
                    *lists = new.collect();
                }
            }
            layer.diagonal = layer.store.diagonal(n, m);
        }
        self.cotangents = m;
        Ok(())
    }
}

/// Some rows of `width` values.
fn taken<V: Copy>(values: &[V], width: usize, rows: &[usize]) -> Vec<V> {
    rows.iter().flat_map(|&row| &values[row * width..][..width]).copied().collect()
}

/// Offsets and rows of some samples.
fn chosen(from: Option<&[usize]>, samples: &[usize]) -> (Option<Vec<usize>>, Vec<usize>) {
    let Some(from) = from else { return (None, samples.to_vec()) };
    let range = |&i: &usize| from[i]..from[i + 1];
    let counts: Vec<u32> = samples.iter().map(|i| range(i).len() as u32).collect();
    (Some(starts(&counts)), samples.iter().flat_map(range).collect())
}

/// The sample of every row.
fn of_rows(starts: Option<&[usize]>, n: usize) -> Vec<usize> {
    match starts {
        None => (0..n).collect(),
        Some(starts) => {
            (0..n).flat_map(|i| std::iter::repeat_n(i, starts[i + 1] - starts[i])).collect()
        }
    }
}

/// Sums of the gradients of all outputs of every row, with the weights of its sample.
fn combined<'a>(
    gradients: &[f32],
    [c, m, width]: [usize; 3],
    samples: Vec<usize>,
    weights: impl Fn(usize) -> &'a [f32],
) -> Vec<f32> {
    let mut all = Vec::with_capacity(samples.len() * m * width);
    for (own, sample) in gradients.chunks_exact(c * width).zip(samples) {
        for weights in weights(sample).chunks_exact(c) {
            all.extend((0..width).map(|k| {
                let parts = own.iter().skip(k).step_by(width).zip(weights);
                parts.map(|(x, w)| x.wide() * w.wide()).sum::<f64>() as f32
            }));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use veridical_core::Job;

    use super::super::Settings;
    use super::super::tests::{Case, LENGTHS, convolutions, mlp, transformer};
    use super::*;

    fn restored(factors: &Factors<f32>) -> Factors<f32> {
        let arrays = factors.arrays();
        let outputs = factors.outputs().to_vec();
        Factors::from_arrays(factors.len(), factors.cotangents(), arrays, outputs).unwrap()
    }

    /// Arrays contain everything: kernels have the same bytes, whether taken at once or in parts.
    #[test]
    fn factors_survive_as_arrays() {
        let check = |name: &str, case: &Case<f32>, settings: &Settings| {
            let factors = case.take(settings);
            let again = restored(&factors);
            let gram = |of: &Factors<f32>| of.gram_f64(None, &Job::silent()).unwrap();
            let plain = Settings { normalization: Normalization::None, ..settings.clone() };
            assert_eq!(gram(&again), gram(&case.take(&plain)), "{name}");
            assert_eq!(again.diagonal(), factors.diagonal(), "{name}");
            let some = gram(&again.select(&[1, 4]));
            let n = factors.len();
            let all = gram(&again);
            let want = [all[n + 1], all[n + 4], all[4 * n + 1], all[4 * n + 4]];
            assert_eq!(some, want, "{name}: some samples");
        };
        for path in [Path::Pairs, Path::Gradient] {
            let settings = Settings { path: Some(path), ..Settings::new(Kind::Trntk0) };
            check("convolutions", &convolutions(5), &settings);
            check("transformer", &transformer::<f32>(&LENGTHS).with_ids(), &settings);
        }
        check("mlp", &mlp(6), &Settings::new(Kind::RandomTrntk(2)));
        let sketch = Some("sjlt:64".parse().unwrap());
        check("sketch", &convolutions(5), &Settings { sketch, ..Settings::new(Kind::Trntk0) });
    }

    /// Sums of three products of f32 in f64, rounded once: relative errors of some 1e-7, which cancellation in sums over
    /// positions may raise a hundredfold.
    #[test]
    fn factors_of_all_outputs_contain_those_of_functions_of_them() {
        let labels = [2, 0, 1, 1, 0];
        let case: Case<f32> = convolutions(5);
        let examples = || case.examples().with_labels(&labels);
        for path in [Path::Pairs, Path::Gradient] {
            let with = |kind: Kind| Settings { path: Some(path), ..case.settings(kind) };
            let all = restored(&case.take(&with(Kind::Trntk0)));
            for kind in [
                Kind::Trntk,
                Kind::Entk,
                Kind::Pntk,
                Kind::RandomTrntk(2),
                Kind::Difference(0, 2),
                Kind::Margin,
                Kind::Loss,
                Kind::Ck,
                Kind::CkCosine,
            ] {
                let plan = Plan::new(&case.net, &examples(), None, &with(kind.clone())).unwrap();
                let want = Factors::take(&case.net, &examples(), &plan, &Job::silent()).unwrap();
                let head = case.net.head_name();
                let got = all.of_kind(&Kind::Trntk0, &plan, Some(&labels), head).unwrap();
                let gram = |of: &Factors<f32>| of.gram_f64(None, &Job::silent()).unwrap();
                let (got, want) = (gram(&got), gram(&want));
                if matches!(kind, Kind::Trntk | Kind::Entk | Kind::Ck | Kind::CkCosine) {
                    assert_eq!(got, want, "{kind} {path:?}");
                }
                let scale = want.iter().fold(0.0f64, |m, k| m.max(k.abs()));
                for (got, want) in got.iter().zip(&want) {
                    assert!((got - want).abs() < 1e-5 * scale, "{kind} {path:?}: {got} {want}");
                }
            }
        }
        let all = restored(&case.take(&case.settings(Kind::Pntk)));
        let plan =
            |kind: Kind| Plan::new(&case.net, &examples(), None, &case.settings(kind)).unwrap();
        let refused = |own: Kind, kind: Kind| {
            all.of_kind(&own, &plan(kind), None, None).unwrap_err().to_string()
        };
        assert!(refused(Kind::Pntk, Kind::Trntk).contains("store those of all outputs"));
        assert!(refused(Kind::Trntk, Kind::Em).contains("they have no outputs of layers"));
    }

    #[test]
    fn arrays_of_other_sizes_are_refused() {
        let factors = transformer::<f32>(&LENGTHS).with_ids().take(&Settings::new(Kind::Trntk0));
        for layer in 0..factors.arrays().len() {
            let mut arrays = factors.arrays();
            arrays[layer].1.values[0].pop();
            let again = Factors::from_arrays(6, factors.cotangents(), arrays, Vec::new());
            assert!(again.unwrap_err().to_string().contains("have other sizes"));
        }
    }
}
