//! Which way the kernel of each layer is computed, by its cost.
//!
//! With m cotangents, T positions (or rows of a sequence), `in` inputs and `out` outputs per position, and b = 1 with a bias:
//!
//! | path | for | per sample | per pair | numbers kept per sample |
//! |---|---|---|---|---|
//! | hadamard | T = 1 | | (in + b) + m out | (in + b) + m out |
//! | pairs | T > 1 | | T^2 (in + b + m (out + 1)) | T (in + b + m out) |
//! | gradient | T > 1 | m T in out | m (in + b) out | m (in + b) out, of one cotangent at a time if memory is short |
//! | sketch | instead of gradient | the same, and m (in + b) out | K for all sketched layers | K for all |
//! | direct | norms | 2 T d m | 2 d m | 2 d m |
//! | rows | tables | | d m for each shared id | T d m |
//!
//! A layer with T > 1 takes the cheaper of pairs and gradient; groups of channels always take the gradient. For sequences T is the
//! root mean square of the lengths.

use std::fmt;

use serde::{Deserialize, Serialize};
use veridical_core::Error;
use veridical_nets::{Float, Net, Outer, TapKind, TappedLayer, Taps};

use super::cotangent::Cotangents;
use super::{Examples, Kind, Settings};
use crate::Result;
use crate::gram::TILE;
use crate::project::Projection;

/// The way in which the kernel of a layer is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Path {
    /// (a . a')(delta . delta').
    Hadamard,
    /// The same, summed over all pairs of positions.
    Pairs,
    /// Inner products of the gradients of samples.
    Gradient,
    /// Inner products of sketches of the gradients.
    Sketch,
    /// Inner products of small gradients: norms, and values of layers.
    Direct,
    /// Inner products of the gradients of the rows of a table that both samples use.
    Rows,
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Hadamard => "hadamard",
            Self::Pairs => "pairs",
            Self::Gradient => "gradient",
            Self::Sketch => "sketch",
            Self::Direct => "direct",
            Self::Rows => "rows",
        })
    }
}

/// One layer of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedLayer {
    /// What its taps are made of.
    pub layer: TappedLayer,
    /// How its kernel is computed.
    pub path: Path,
    /// Multiplications per sample.
    pub forming: f64,
    /// Multiplications per pair of samples.
    pub per_pair: f64,
    /// Numbers kept per sample, for all cotangents.
    pub numbers: f64,
}

impl PlannedLayer {
    /// Returns the name of the layer, with that of its part.
    pub fn name(&self) -> String {
        full_name(&self.layer)
    }
}

fn full_name(layer: &TappedLayer) -> String {
    match (layer.name.as_str(), layer.part) {
        ("", _) => "embedding table".into(),
        (name, "") => name.into(),
        (name, part) => format!("{name}.{part}"),
    }
}

/// What a layer of a plan costs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// Name of the layer, with that of its part.
    pub layer: String,
    /// How its kernel is computed.
    pub path: Path,
    /// Floating-point operations of forming factors and of their products.
    pub flop: f64,
    /// Bytes of the factors of all samples; of a sketch of several layers in the first of them.
    pub bytes: f64,
}

/// How a kernel is computed, layer by layer.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The layers, in the order of the network.
    pub layers: Vec<PlannedLayer>,
    /// Numbers of rows and columns; the second is 0 if they are the same samples.
    pub samples: [usize; 2],
    /// Number of cotangents m: of backward passes per batch.
    pub cotangents: usize,
    /// What was asked for.
    pub settings: Settings,
    /// Bytes of one number.
    size: usize,
}

impl Plan {
    /// Plans the kernel of the pairs of `rows` and `columns`, or of all pairs of `rows`.
    ///
    /// # Errors
    /// A request error if the settings do not suit the network or the examples, or if the factors do not fit in memory.
    pub fn new<T: Float>(
        net: &Net<T>,
        rows: &Examples<'_, T>,
        columns: Option<&Examples<'_, T>>,
        settings: &Settings,
    ) -> Result<Self> {
        for examples in std::iter::once(rows).chain(columns) {
            examples.check()?;
        }
        let samples = [rows.len(), columns.map_or(0, Examples::len)];
        if settings.kind.is_of_values() {
            return Self::of_values(net, rows, samples, settings);
        }
        for examples in std::iter::once(rows).chain(columns) {
            let classes = net.outputs().max(2);
            let labels = examples.labels.iter().flat_map(|labels| labels.iter().enumerate());
            if let Some((i, y)) = labels.into_iter().find(|(_, y)| **y as usize >= classes) {
                let what = format!("example {i} has class {y} and the network {classes} classes");
                return Err(Error::unfit(what, "number classes from 0").into());
            }
        }
        let cotangents = Cotangents::new(&settings.kind, net.outputs(), settings.seed)?.count();
        let taps = Taps::only(net, 1, |_| true);
        let has_table = rows.packed.as_ref().is_some_and(|packed| packed.ids.is_some());
        let taps = if has_table { taps.with_input() } else { taps };
        let all = taps.layers();
        settings.check_layers(all.iter().map(full_name))?;
        let squares = |examples: &Examples<'_, T>| match &examples.packed {
            None => (1.0, 1.0),
            Some(packed) => {
                let n = examples.len() as f64;
                let lengths = packed.starts.windows(2).map(|w| (w[1] - w[0]) as f64);
                let square: f64 = lengths.clone().map(|t| t * t).sum::<f64>() / n;
                (lengths.sum::<f64>() / n, square.sqrt())
            }
        };
        let (mean, root) = squares(rows);
        let pairs = pairs(samples);
        let total = (samples[0] + samples[1]) as f64;
        let cost = |layer: TappedLayer| {
            let (t, square) = if layer.is_pooled { (1.0, 1.0) } else { (mean, root) };
            let is_single = rows.packed.is_none() || layer.is_pooled;
            let m = cotangents as f64;
            let (path, forming, per_pair, numbers) = match layer.kind {
                TapKind::Direct(count) => {
                    let count = count as f64 * m;
                    match settings.sketches_everything() {
                        true => (Path::Sketch, t * count, 0.0, 0.0),
                        false => (Path::Direct, t * count, count, count),
                    }
                }
                TapKind::Rows(width) => {
                    let width = width as f64 * m;
                    (Path::Rows, t * width, t * width, t * width)
                }
                TapKind::Outer(sizes) => {
                    let at = sizes.positions as f64;
                    let name = full_name(&layer);
                    let forced = settings.paths.iter().find(|(of, _)| *of == name);
                    let path = forced.map(|(_, path)| *path).or(settings.path);
                    outer(
                        (settings, path),
                        sizes,
                        m,
                        [t * at, square * at],
                        is_single,
                        [total, pairs],
                    )
                }
            };
            // The eNTK has a value for each pair of outputs, and a copy of a for each output.
            let copies = match (&settings.kind, layer.kind, path) {
                (Kind::Entk, TapKind::Outer(sizes), Path::Hadamard | Path::Pairs) => {
                    (m - 1.0) * (t * sizes.positions as f64) * sizes.inputs as f64
                }
                _ => 0.0,
            };
            let per_pair = if settings.kind == Kind::Entk { m * per_pair } else { per_pair };
            PlannedLayer { layer, path, forming, per_pair, numbers: numbers + copies }
        };
        let layers = all.into_iter().filter(|layer| settings.wants(&full_name(layer)));
        let layers = layers.map(cost).collect();
        let size = size_of::<T>();
        let plan = Self { layers, samples, cotangents, settings: settings.clone(), size };
        plan.check_memory()?;
        Ok(plan)
    }

    /// The values of layers instead of gradients: CK and Em.
    fn of_values<T: Float>(
        net: &Net<T>,
        rows: &Examples<'_, T>,
        samples: [usize; 2],
        settings: &Settings,
    ) -> Result<Self> {
        let direct = |name: &str, count: usize| PlannedLayer {
            layer: TappedLayer {
                name: name.into(),
                part: "",
                kind: TapKind::Direct(count),
                is_pooled: net.is_of_sequences(name) == Some(true),
            },
            path: Path::Direct,
            forming: 0.0,
            per_pair: count as f64,
            numbers: count as f64,
        };
        let layers = if settings.kind == Kind::Em {
            let maps: Vec<&str> = net.maps().collect();
            settings.check_layers(maps.iter().map(|name| (*name).to_owned()))?;
            let wanted = maps.into_iter().filter(|name| settings.wants(name));
            wanted.filter_map(|name| Some(direct(name, net.output_of(name)?.values()))).collect()
        } else {
            let head = net.head_name().unwrap_or_default();
            let taps = Taps::only(net, 1, |name| name == head);
            match taps.layers().as_slice() {
                [
                    TappedLayer {
                        kind: TapKind::Outer(Outer { positions: 1, inputs, .. }),
                        is_pooled,
                        ..
                    },
                ] if *is_pooled || rows.packed.is_none() => {
                    let rho = usize::from(settings.kind == Kind::Ck);
                    vec![direct(head, inputs + rho)]
                }
                _ => {
                    let what = "the conjugate kernel is that of the features of a dense last layer, which this network does not have";
                    return Err(Error::request(what, "choose another kernel").into());
                }
            }
        };
        let (settings, size) = (settings.clone(), size_of::<T>());
        let plan = Self { layers, samples, cotangents: 1, settings, size };
        plan.check_memory()?;
        Ok(plan)
    }

    /// Returns the number of floating-point operations of forming factors and of their products.
    pub fn operations(&self) -> f64 {
        self.costs().iter().map(|cost| cost.flop).sum()
    }

    /// Returns what every layer costs.
    pub fn costs(&self) -> Vec<Cost> {
        let total = (self.samples[0] + self.samples[1]) as f64;
        let pairs = pairs(self.samples);
        let mut joint = self.settings.sketch.as_ref().filter(|_| !self.is_kron());
        let each = |layer: &PlannedLayer| {
            let dim = match layer.path {
                Path::Sketch => joint.take().map_or(0.0, |sketch| sketch.dim as f64),
                _ => 0.0,
            };
            Cost {
                layer: layer.name(),
                path: layer.path,
                flop: 2.0 * (layer.forming * total + (layer.per_pair + dim) * pairs),
                bytes: (layer.numbers + dim) * total * self.size as f64,
            }
        };
        self.layers.iter().map(each).collect()
    }

    /// Returns the bytes that the factors of all samples take.
    pub fn bytes(&self) -> f64 {
        self.fixed() + self.gradients() * (self.samples[0] + self.samples[1]) as f64
    }

    /// Bytes of all factors but those of gradients.
    fn fixed(&self) -> f64 {
        let total = (self.samples[0] + self.samples[1]) as f64;
        let of = |layer: &PlannedLayer| match layer.path {
            Path::Gradient => 0.0,
            // One sketch serves all layers.
            Path::Sketch if !self.is_kron() => 0.0,
            _ => layer.numbers,
        };
        let has_sketch = self.layers.iter().any(|layer| layer.path == Path::Sketch);
        let sketch = self.settings.sketch.as_ref().filter(|_| has_sketch && !self.is_kron());
        let numbers =
            self.layers.iter().map(of).sum::<f64>() + sketch.map_or(0.0, |s| s.dim as f64);
        numbers * total * self.size as f64
    }

    fn is_kron(&self) -> bool {
        let sketch = self.settings.sketch.as_ref();
        sketch.is_some_and(|sketch| matches!(sketch.projection, Projection::Kron(..)))
    }

    /// Bytes of the gradients of one sample, of all cotangents.
    fn gradients(&self) -> f64 {
        let gradients = self.layers.iter().filter(|layer| layer.path == Path::Gradient);
        gradients.map(|layer| layer.numbers).sum::<f64>() * self.size as f64
    }

    /// Whether all factors fit in memory at once.
    pub fn fits(&self) -> bool {
        self.bytes() <= self.settings.memory as f64
    }

    /// How many samples' gradients of one cotangent fit in memory, of rows and of columns, besides the sums of these rows with all
    /// columns: in whole tiles.
    pub(super) fn panel(&self) -> usize {
        let left = self.settings.memory as f64 - self.fixed();
        ((left / self.per_row()) as usize / TILE).max(1) * TILE
    }

    /// Bytes of the gradients of a row and a column, and of the sums of a row.
    fn per_row(&self) -> f64 {
        let [n, m] = self.samples;
        2.0 * self.gradients() / self.cotangents as f64 + 8.0 * if m == 0 { n } else { m } as f64
    }

    /// Refuses what does not fit even with the gradients of two tiles of samples at a time.
    fn check_memory(&self) -> Result<()> {
        if self.fits() {
            return Ok(());
        }
        let total = self.samples[0] + self.samples[1];
        let fixed = self.fixed();
        let needed = match self.settings.kind {
            Kind::Entk => self.bytes(),
            _ => fixed + self.per_row() * total.min(TILE) as f64,
        };
        let memory = self.settings.memory as f64;
        if needed <= memory {
            return Ok(());
        }
        let what = format!(
            "the factors of {total} samples need {:.0} MB and ⟨memory⟩ allows {:.0} MB",
            needed / 1e6,
            memory / 1e6
        );
        let mut ways = vec![format!("set ⟨memory {}⟩", (needed / 1e6).ceil())];
        // The factors of other layers grow with the samples, and those of gradients take at least two tiles.
        let rows = (memory - (needed - fixed)) / fixed * total as f64;
        if fixed > 0.0 && rows >= 1.0 {
            ways.push(format!("take at most ⟨rows {}⟩", rows as usize));
        }
        ways.push("choose fewer ⟨layers⟩".into());
        if self.gradients() > 0.0 && self.settings.sketch.is_none() {
            ways.push("⟨sketch⟩ the gradients".into());
        }
        Err(Error::request(what, ways.join(", or ")).into())
    }
}

/// The number of pairs that are computed.
fn pairs([n, m]: [usize; 2]) -> f64 {
    let n = n as f64;
    if m == 0 { n * (n + 1.0) / 2.0 } else { n * m as f64 }
}

/// Path, cost of forming and per pair, and numbers kept of a product of a and delta, with mean and root mean square of its
/// positions, for so many samples and pairs.
fn outer(
    (settings, path): (&Settings, Option<Path>),
    sizes: Outer,
    m: f64,
    [mean, root]: [f64; 2],
    is_single: bool,
    [total, pairs]: [f64; 2],
) -> (Path, f64, f64, f64) {
    let Outer { positions, groups, inputs, outputs, bias } = sizes;
    let (inputs, out) = ((inputs + usize::from(bias)) as f64, outputs as f64);
    let count = m * sizes.parameters() as f64;
    let gradient = (Path::Gradient, m * mean * inputs * out * groups as f64, count, count);
    let together = inputs + m * out;
    let exact = if is_single && positions == 1 && groups == 1 {
        (Path::Hadamard, 0.0, together, together)
    } else if groups > 1 {
        gradient
    } else {
        let apart = (Path::Pairs, 0.0, root * root * (together + m), mean * together);
        let cost =
            |(_, forming, per_pair, _): (Path, f64, f64, f64)| total * forming + pairs * per_pair;
        let fits = apart.3 * total * 4.0 <= settings.memory as f64 / 2.0;
        if fits && cost(apart) < cost(gradient) { apart } else { gradient }
    };
    let exact =
        path.filter(|_| exact.0 != Path::Hadamard && groups == 1).map_or(
            exact,
            |path| match path {
                Path::Pairs => (Path::Pairs, 0.0, root * root * (together + m), mean * together),
                _ => gradient,
            },
        );
    let Some(sketch) = &settings.sketch else { return exact };
    if exact.0 != Path::Gradient && !sketch.everything {
        return exact;
    }
    let forming = gradient.1 + count;
    match sketch.projection {
        Projection::Kron(a, b) if groups == 1 => {
            let count = m * (a * b) as f64;
            (Path::Sketch, forming, count, count)
        }
        Projection::Kron(..) => exact,
        _ => (Path::Sketch, forming, 0.0, 0.0),
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [n, m] = self.samples;
        let total = (n + m) as f64;
        let wide = self.layers.iter().map(|layer| layer.name().len()).max().unwrap_or(0).max(5);
        writeln!(f, "{:wide$}  path      GFLOP form  GFLOP pairs       MB", "layer")?;
        for layer in &self.layers {
            writeln!(
                f,
                "{:wide$}  {:8}  {:>10.3}  {:>11.3}  {:>7.1}",
                layer.name(),
                layer.path,
                2e-9 * layer.forming * total,
                2e-9 * layer.per_pair * pairs(self.samples),
                1e-6 * layer.numbers * total * self.size as f64,
            )?;
        }
        write!(
            f,
            "{} cotangents, {:.3} GFLOP, {:.1} MB of factors",
            self.cotangents,
            1e-9 * self.operations(),
            1e-6 * self.bytes()
        )
    }
}
