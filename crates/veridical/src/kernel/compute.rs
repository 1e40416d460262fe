//! `veridical kernel compute`: a Gram matrix as a file, by tiles.

use serde::{Deserialize, Serialize};
use serde_json::json;
use veridical_core::settings::Settings as _;
use veridical_core::{Job, choices, settings};
use veridical_io::publish::{self, Begun, WorkFolder};
use veridical_io::{Existing, IfExists, Input, Output, fingerprint};
use veridical_kernels::gram::operations_per_second;
use veridical_kernels::project::{Residual, Sketch, residual};
use veridical_kernels::tangent::{Normalization, Path};

use super::folder::{DOCUMENT, MATRIX, NAMES, Writing, settled, write_names};
use super::source::{KernelRows, NetSource, Source};
use crate::{Error, Result};

choices! {
    /// How a tangent kernel is normalized.
    pub enum NormalizationName {
        /// By the square roots of the diagonal
        Cosine = "cosine",
        /// Not at all
        None = "none",
        /// By the sums of the norms of all outputs, as paper 004 prints it
        Paper = "paper",
    }
}

impl From<NormalizationName> for Normalization {
    fn from(name: NormalizationName) -> Self {
        match name {
            NormalizationName::Cosine => Self::Cosine,
            NormalizationName::None => Self::None,
            NormalizationName::Paper => Self::Paper,
        }
    }
}

settings! {
    /// Settings of [`compute`].
    pub struct Compute {
        /// Kernel: trntk, trntk0, entk, pntk, rand-trntk:M, difference:A,B, margin, loss, ck, ck-cos, em; of vectors linear, rbf, laplace, cauchy, matern-3/2, arc-cosine-0, arc-cosine-1, ...
        pub kernel: String = "trntk".into() => [value("NAME")],
        /// Normalization
        pub normalization: Option<NormalizationName> = None => [otherwise("that of the kernel"), excludes(&["vectors"])],
        /// Sketch of gradients that are too large: sjlt:K, gaussian:K, rademacher:K or kron:AxB
        pub sketch: Option<String> = None => [value("SKETCH"), otherwise("none, exact"), excludes(&["vectors"])],
        /// Sketch so that the cosine of two samples has at most this standard deviation
        pub error: Option<f64> = None => [value("EPS"), excludes(&["sketch", "vectors"]), at_least(0.001), below(1.0)],
        /// Sketch the gradients of all layers, also where exact factors are small
        pub sketch_all: bool = false => [switch(), detail()],
        /// Factors of the training rows, from `kernel store`, instead of passes through the network
        pub store: Option<Input> = None => [value("FOLDER"), excludes(&["vectors", "sketch", "error", "plan"])],
        /// Print what would be computed, and its cost, and stop
        pub plan: bool = false => [switch(), excludes(&["vectors"])],
        /// Folder to write to
        pub out: Option<Output> = None => [value("FOLDER")],
    } with {
        /// Run, data and rows.
        pub rows: KernelRows,
        /// How existing output is handled.
        pub existing: Existing,
    }
}

/// The cost of one layer.
#[derive(Clone, Debug, Serialize)]
pub struct Planned {
    /// Name of the layer.
    pub layer: String,
    /// How its kernel is computed.
    pub path: Path,
    /// Floating-point operations, in billions.
    pub gflop: f64,
    /// Megabytes of its factors.
    pub mb: f64,
    /// Seconds at the rate of products that was measured now.
    pub seconds: f64,
}

/// A layer of a kernel.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LayerShare {
    /// Name of the layer; `sketch` for a sketch of several.
    pub layer: String,
    /// How its kernel was computed.
    pub path: Path,
    /// Its share of the sum of the diagonal.
    pub share: f64,
}

/// How far a sketch is from the exact kernel.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SketchError {
    /// Pairs that were also computed exactly.
    pub pairs: usize,
    /// Root mean square of the differences of cosines.
    pub rms: f64,
    /// What the variance of the sketch predicts, an upper bound; null for a Kronecker product.
    pub expected: Option<f64>,
    /// Largest difference.
    pub largest: f64,
}

impl SketchError {
    pub(super) fn of(found: &Residual) -> Self {
        Self {
            pairs: found.differences.len(),
            rms: found.rms,
            expected: found.expected,
            largest: found.differences.iter().fold(0.0, |m, d| m.max(d.abs())),
        }
    }
}

/// What a kernel folder says of its matrix.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Facts {
    /// Rows of the matrix.
    pub rows: usize,
    /// Columns of the matrix.
    pub columns: usize,
    /// Whether rows and columns are the same.
    pub symmetric: bool,
    /// Layers with their shares; none of vectors.
    pub layers: Vec<LayerShare>,
    /// Rows, and after them columns, whose gradient is 0: their kernel is 0.
    pub zeros: Vec<usize>,
    /// The sketch on pairs that were also computed exactly.
    pub residual: Option<SketchError>,
    /// Fingerprint of the matrix.
    pub fingerprint: String,
}

/// Result of [`compute`].
#[derive(Clone, Debug, Serialize)]
pub struct Computed {
    /// The kernel.
    pub kernel: String,
    /// Its normalization; null of vectors.
    pub normalization: Option<Normalization>,
    /// The sketch, if any.
    pub sketch: Option<String>,
    /// Which rows, in words.
    pub of: String,
    /// The cost of every layer, with ⟨plan⟩.
    pub plan: Option<Vec<Planned>>,
    /// What was computed; null with ⟨plan⟩.
    pub matrix: Option<Facts>,
    /// Notes for the reader.
    pub notes: Vec<String>,
    /// The folder.
    pub out: Option<String>,
}

impl Computed {
    /// Returns the answer in a sentence.
    pub fn answer(&self) -> String {
        let name = match &self.normalization {
            Some(Normalization::Cosine) => format!("{} (cosine)", self.kernel),
            _ => self.kernel.clone(),
        };
        match (&self.matrix, &self.plan) {
            (Some(matrix), _) => {
                let Facts { rows, columns, .. } = matrix;
                format!("{name}: {rows} x {columns} values of {}.", self.of)
            }
            (None, Some(plan)) => {
                let sum = |of: fn(&Planned) -> f64| plan.iter().map(of).sum::<f64>();
                format!(
                    "{name} of {}: {:.3} GFLOP, {:.1} MB of factors, about {:.2} s.",
                    self.of,
                    sum(|p| p.gflop),
                    sum(|p| p.mb),
                    sum(|p| p.seconds)
                )
            }
            (None, None) => name,
        }
    }
}

/// Computes a kernel and writes it to a folder, or plans it.
///
/// # Errors
/// [`Error::Core`] if the settings do not suit the run or the table, if the matrix does not fit on the disk, or its factors in memory.
/// Bad input leaves nothing behind; an interruption and a full disk leave a state that can be resumed.
pub fn compute(settings: &Compute, job: &Job<'_>) -> Result<Computed> {
    settings.check()?;
    let if_exists = settings.existing.if_exists();
    if let (Some(out), false) = (&settings.out, settings.plan) {
        publish::check_work(out, if_exists, DOCUMENT)?;
    }
    let mut source =
        Source::open(&settings.rows, settings.store.as_deref(), &settings.kernel, job)?;
    let sketch = settings.sketch()?;
    if let Source::Net(net) = &mut source {
        net.settings.sketch = sketch.clone();
        if let Some(normalization) = settings.normalization {
            net.settings.normalization = normalization.into();
        }
        if matches!(net.settings.kind.to_string().as_str(), "ck" | "ck-cos" | "em")
            && sketch.is_some()
        {
            let what = format!("⟨sketch⟩ is of gradients, and {} has none", settings.kernel);
            return Err(Error::request(what, "drop it"));
        }
        // Refuse what does not suit before anything is written.
        net.plan()?;
    }
    let mut computed = Computed {
        kernel: settings.kernel.clone(),
        normalization: source.normalization(),
        sketch: sketch.as_ref().map(ToString::to_string),
        of: source.says_rows(),
        plan: None,
        matrix: None,
        notes: Vec::new(),
        out: None,
    };
    job.note(&computed.of);
    if let (true, Source::Net(net)) = (settings.plan, &source) {
        computed.plan = Some(planned(net)?);
        return Ok(computed);
    }
    let Some(out) = &settings.out else {
        return Err(Error::request("there is nowhere to write to", "pass ⟨out⟩ FOLDER, or ⟨plan⟩"));
    };
    let (n, m) = source.size();
    let hint = "take fewer ⟨rows⟩ or ⟨queries⟩, or another disk";
    if if_exists != IfExists::Resume {
        publish::check_space(out, 4 * n as u64 * m as u64, hint)?;
    }
    let mut rows = settings.rows.values();
    // Changes no byte.
    rows.remove("memory");
    let identity = json!({
        "kernel": settings.kernel,
        "normalization": computed.normalization,
        "sketch": computed.sketch,
        "sketch_all": settings.sketch_all,
        "store": settings.store.is_some(),
        "rows": rows,
        "of": source.identity()?,
    });
    let facts = match WorkFolder::begin(out, DOCUMENT, identity, if_exists)? {
        Begun::Finished(found) => {
            computed.notes.push("this kernel was finished before".into());
            serde_json::from_value(found).map_err(|e| {
                Error::damaged(
                    format!("{out}: damaged {DOCUMENT} ({e})"),
                    "start over with ⟨force⟩",
                )
            })?
        }
        Begun::New(work) | Begun::Resumed(work) => {
            match write(&work, &source, &mut computed, settings.error, job) {
                Ok(facts) => {
                    // INVARIANT: numbers and names always serialize.
                    work.publish(serde_json::to_value(&facts).unwrap_or_default())?;
                    facts
                }
                Err(error) => return Err(settled(work, error)),
            }
        }
    };
    computed.note_zeros(&facts);
    computed.matrix = Some(facts);
    computed.out = Some(out.to_string());
    Ok(computed)
}

/// Writes everything but the document.
fn write(
    work: &WorkFolder,
    source: &Source,
    computed: &mut Computed,
    wished: Option<f64>,
    job: &Job<'_>,
) -> Result<Facts> {
    let (rows, columns) = source.size();
    let is_symmetric = source.is_symmetric();
    let mut tiles = Writing::open(work, (rows, columns), is_symmetric)?;
    if tiles.count() > 0 {
        job.note(&format!("{} tiles are there already", tiles.count()));
    }
    let summary = source.kernel_into(&mut tiles, job)?;
    drop(tiles);
    for (name, (ids, labels)) in NAMES.iter().zip(source.names()) {
        write_names(&work.path().join(name), &ids, &labels)?;
    }
    let residual = match source {
        Source::Net(net) if net.settings.sketch.is_some() => {
            let feed = net.subject.feed(&net.subject.train)?;
            let found = residual(net.subject.network.net(), &feed.examples(), &net.settings, job)?;
            Some(SketchError::of(&found))
        }
        _ => None,
    };
    if let (Some(wished), Some(found)) = (wished, &residual)
        && found.rms > wished
    {
        let note = format!(
            "on {} pairs the sketch is off by {:.4} (root mean square), more than ⟨error {wished}⟩",
            found.pairs, found.rms
        );
        job.observer.warn(&note);
        computed.notes.push(note);
    }
    let (layers, zeros) = summary.map_or_else(Default::default, |summary| {
        let share = |s: veridical_kernels::tangent::Share| LayerShare {
            layer: s.layer,
            path: s.path,
            share: s.share,
        };
        let layers: Vec<LayerShare> = summary.shares.into_iter().map(share).collect();
        (layers, summary.zeros)
    });
    if computed.sketch.is_some() && layers.iter().all(|layer| layer.path != Path::Sketch) {
        computed.notes.push(
            "no layer needs a sketch, so the kernel is exact; ⟨sketch-all⟩ sketches all layers"
                .into(),
        );
    }
    Ok(Facts {
        rows,
        columns,
        symmetric: is_symmetric,
        layers,
        zeros,
        residual,
        fingerprint: fingerprint::of_file(&work.path().join(MATRIX))?,
    })
}

/// The cost of every layer.
fn planned(net: &NetSource) -> Result<Vec<Planned>> {
    let rate = operations_per_second();
    let costs = net.plan()?.costs().into_iter();
    Ok(costs
        .map(|cost| Planned {
            layer: cost.layer,
            path: cost.path,
            gflop: cost.flop / 1e9,
            mb: cost.bytes / 1e6,
            seconds: cost.flop / rate,
        })
        .collect())
}

impl Computed {
    fn note_zeros(&mut self, facts: &Facts) {
        if !facts.zeros.is_empty() {
            let some: Vec<String> = facts.zeros.iter().take(5).map(ToString::to_string).collect();
            self.notes.push(format!(
                "{} samples have no gradient, and kernel 0 with all: {}{}",
                facts.zeros.len(),
                some.join(", "),
                if facts.zeros.len() > some.len() { ", ..." } else { "" }
            ));
        }
    }
}

impl Compute {
    fn sketch(&self) -> Result<Option<Sketch>> {
        let sketch = match (&self.sketch, self.error) {
            (Some(text), _) => Some(text.parse::<Sketch>()?),
            (None, Some(error)) => Some(Sketch::for_error(error)?),
            (None, None) if self.sketch_all => {
                return Err(Error::request(
                    "⟨sketch-all⟩ needs a sketch",
                    "pass ⟨sketch⟩ or ⟨error⟩",
                ));
            }
            (None, None) => None,
        };
        Ok(sketch.map(|sketch| if self.sketch_all { sketch.of_everything() } else { sketch }))
    }
}
