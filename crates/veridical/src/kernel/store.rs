//! `veridical kernel store`: the tangent factors of training rows on disk, and kernels read from them.
//!
//! The factors of all outputs of a network contain the gradients of any function of them, so one store serves all tangent kernels and
//! CK, any queries and any part of its rows, without the training data:
//!
//! manifest.json     what it is: kernel, layers with their forms, fingerprints of weights, data and rows
//! logits.npy        outputs of the network, samples x outputs
//! diagonal.npy      the unnormalized kernel of every sample with itself
//! rows.csv          ids and labels
//! NN-LAYER.X.npy    the arrays of a layer (X: a, d, g, rows or ids)

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use veridical_core::settings::Settings as _;
use veridical_core::{Job, Seed, settings};
use veridical_data::fingerprint;
use veridical_io::publish::{self, Begun, WorkFolder};
use veridical_io::{ArrayWriter, Existing, IfExists, Input, Output, read_array};
use veridical_kernels::gram::TILE;
use veridical_kernels::project::Sketch;
use veridical_kernels::tangent::{
    Arrays, Examples, Factors, Kind, Normalization, Plan, Settings as KernelSettings, StoredLayer,
};

use super::folder::{NAMES, settled, write_names};
use super::source::{KernelRows, NetSource};
use crate::explain::{RowLimit, Subject};
use crate::{Error, Result};

/// Name of the document.
const DOCUMENT: &str = "manifest.json";
const JOURNAL: &str = "_journal.json";
/// Most tiles of samples whose factors are taken at once.
const TILES: usize = 4;

settings! {
    /// Settings of [`store`].
    pub struct StoreSettings in "Run and data" {
        /// Run of `train net`
        pub run: Input = Input::default() => [required(), value("RUN")],
        /// The data that it was trained on
        pub data: Option<Input> = None => [value("FILE_OR_FOLDER"), otherwise("the path in the run")],
        /// Training rows to store, stratified by class: a number, or `all`
        pub rows: RowLimit = RowLimit::Most(5000) => [value("N")],
        /// Layers to store, by name or pattern
        pub layers: Option<String> = None => [value("NAME,PATTERN*"), otherwise("all")],
        /// Gradients to store: trntk for those of all outputs, which contain all others, or one of pntk, rand-trntk:M, difference:A,B
        pub kernel: String = "trntk".into() => [value("NAME")],
        /// Sketch of gradients that are too large: sjlt:K, gaussian:K, rademacher:K or kron:AxB
        pub sketch: Option<String> = None => [value("SKETCH"), otherwise("none, exact")],
        /// Memory for the factors of some rows, in MB
        pub memory: u64 = 2000 => [detail(), value("MB"), at_least(64.0)],
        /// Random seed of the rows, of random cotangents and of the sketch
        pub seed: u64 = 0 => [value("S")],
        /// Folder to write to
        pub out: Output = Output::default() => [required(), value("FOLDER")],
    } with {
        /// How existing output is handled.
        pub existing: Existing,
    }
}

/// Result of [`store`].
#[derive(Clone, Debug, Serialize)]
pub struct Stored {
    /// The run.
    pub run: String,
    /// Which gradients.
    pub kernel: String,
    /// Which rows, in words.
    pub of: String,
    /// Number of rows.
    pub rows: usize,
    /// Bytes of the arrays.
    pub bytes: u64,
    /// Names of the layers, with how their kernels are computed.
    pub layers: Vec<StoredLayer>,
    /// Notes for the reader.
    pub notes: Vec<String>,
    /// The folder.
    pub out: String,
}

impl Stored {
    /// Returns the answer in a sentence.
    pub fn answer(&self) -> String {
        let Self { of, layers, bytes, .. } = self;
        format!("Factors of {of}: {} layers, {:.1} MB.", layers.len(), *bytes as f64 / 1e6)
    }
}

/// What a manifest says of its arrays.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Contents {
    rows: usize,
    outputs: usize,
    cotangents: usize,
    bytes: u64,
    layers: Vec<StoredLayer>,
}

/// How far a store got.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Journal {
    samples: usize,
    layers: Vec<StoredLayer>,
    cotangents: usize,
    /// Valid bytes of every file.
    bytes: BTreeMap<String, u64>,
}

/// The name of an array of layer `at`.
fn file(at: usize, layer: &str, array: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let layer: String = layer.chars().map(safe).collect();
    format!("{at:02}-{layer}.{array}.npy")
}

/// Stores the factors of the training rows of a network.
///
/// # Errors
/// [`Error::Core`] if the settings do not suit the run, or if the factors do not fit on the disk. Bad input leaves nothing behind; an
/// interruption and a full disk leave a state that can be resumed.
pub fn store(settings: &StoreSettings, job: &Job<'_>) -> Result<Stored> {
    settings.check()?;
    let StoreSettings { out, existing, .. } = settings;
    let if_exists = existing.if_exists();
    publish::check_work(out, if_exists, DOCUMENT)?;
    let kind = settings.kernel.parse::<Kind>()?;
    let kind = match kind {
        Kind::Trntk | Kind::Entk => Kind::Trntk0,
        Kind::Em | Kind::Ck | Kind::CkCosine => {
            let what = format!("{kind} has no gradients to store");
            return Err(Error::request(what, "store those of trntk: they contain CK"));
        }
        kind => kind,
    };
    let rows = KernelRows {
        run: Some(settings.run.clone()),
        data: settings.data.clone(),
        rows: Some(settings.rows),
        layers: settings.layers.clone(),
        seed: settings.seed,
        ..KernelRows::default()
    };
    let mut net = NetSource::open(&rows, None, kind.clone(), job)?;
    net.settings.normalization = Normalization::None;
    net.settings.sketch = settings.sketch.as_ref().map(|text| text.parse()).transpose()?;
    // The disk holds them, not the memory.
    net.settings.memory = u64::MAX >> 1;
    let plan = net.plan()?;
    let n = net.subject.train.n();
    let each = plan.bytes() / n as f64;
    let memory = settings.memory as f64 * 1e6;
    if each * TILE.min(n) as f64 > memory {
        let what = format!(
            "the factors of {} rows take {:.0} MB and ⟨memory⟩ allows {:.0} MB",
            TILE.min(n),
            each * TILE.min(n) as f64 / 1e6,
            memory / 1e6
        );
        return Err(Error::request(what, "raise ⟨memory⟩, choose fewer ⟨layers⟩, or ⟨sketch⟩"));
    }
    if if_exists != IfExists::Resume {
        let hint = "take fewer ⟨rows⟩ or ⟨layers⟩, or ⟨sketch⟩ the gradients";
        publish::check_space(out, plan.bytes() as u64, hint)?;
    }
    let of = net.subject.says_rows();
    job.note(&of);
    let identity = identity(&net, settings, &kind)?;
    let contents = match WorkFolder::begin(out, DOCUMENT, identity, if_exists)? {
        Begun::Finished(found) => serde_json::from_value(found).map_err(|e| damaged(out, &e))?,
        Begun::New(work) | Begun::Resumed(work) => {
            let chunk = TILE * ((memory / each) as usize / TILE).clamp(1, TILES);
            match write(&work, &net, &plan, chunk, job) {
                Ok(contents) => {
                    // INVARIANT: numbers and names always serialize.
                    work.publish(serde_json::to_value(&contents).unwrap_or_default())?;
                    contents
                }
                Err(error) => return Err(settled(work, error)),
            }
        }
    };
    Ok(Stored {
        run: settings.run.to_string(),
        kernel: kind.to_string(),
        of,
        rows: contents.rows,
        bytes: contents.bytes,
        layers: contents.layers,
        notes: Vec::new(),
        out: out.to_string(),
    })
}

fn damaged(path: &Path, why: &dyn std::fmt::Display) -> Error {
    let what = format!("{}: the manifest is damaged ({why})", path.join(DOCUMENT).display());
    Error::damaged(what, "store the factors again with ⟨force⟩")
}

/// What identifies a store.
fn identity(net: &NetSource, settings: &StoreSettings, kind: &Kind) -> Result<Value> {
    let subject = &net.subject;
    Ok(json!({
        "kernel": kind.to_string(),
        "layers": settings.layers,
        "sketch": settings.sketch,
        "seed": settings.seed,
        "run": settings.run,
        "weights": subject.network.fingerprint()?,
        "data": subject.everything.fingerprint(&subject.classes),
        "rows": fingerprint::of_numbers(&subject.rows),
    }))
}

/// The files of a store that is being written.
struct Files {
    folder: PathBuf,
    open: BTreeMap<String, ArrayWriter>,
    journal: Journal,
}

impl Files {
    fn open(folder: &Path) -> Result<Self> {
        let path = folder.join(JOURNAL);
        let journal = match fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text).map_err(|e| {
                let what = format!("{}: the journal is damaged ({e})", path.display());
                Error::damaged(what, "start over with ⟨force⟩")
            })?,
            Err(_) => Journal::default(),
        };
        Ok(Self { folder: folder.to_owned(), open: BTreeMap::new(), journal })
    }

    fn put<N: veridical_io::Number>(&mut self, name: &str, values: &[N]) -> Result<()> {
        if !self.open.contains_key(name) {
            let len = self.journal.bytes.get(name).copied();
            let writer = ArrayWriter::open(&self.folder.join(name), len)?;
            self.open.insert(name.to_owned(), writer);
        }
        match self.open.get_mut(name) {
            Some(writer) => Ok(writer.put(values)?),
            None => Ok(()),
        }
    }

    /// Notes that everything is written up to a sample.
    fn note(&mut self, samples: usize) -> Result<()> {
        for (name, writer) in &mut self.open {
            self.journal.bytes.insert(name.clone(), writer.flushed()?);
        }
        self.journal.samples = samples;
        // INVARIANT: numbers and names always serialize.
        let text = serde_json::to_vec(&self.journal).unwrap_or_default();
        Ok(publish::note(&self.folder.join(JOURNAL), &text)?)
    }

    fn finish<N: veridical_io::Number>(&mut self, name: &str, width: Option<usize>) -> Result<()> {
        self.put::<N>(name, &[])?;
        match self.open.remove(name) {
            Some(writer) => Ok(writer.finish::<N>(width)?),
            None => Ok(()),
        }
    }
}

/// Writes everything but the manifest.
fn write(
    work: &WorkFolder,
    net: &NetSource,
    plan: &Plan,
    chunk: usize,
    job: &Job<'_>,
) -> Result<Contents> {
    let subject = &net.subject;
    let feed = subject.feed(&subject.train)?;
    let examples = feed.examples();
    let n = subject.train.n();
    let mut files = Files::open(work.path())?;
    if files.journal.samples > 0 {
        job.note(&format!("{} rows are there already", files.journal.samples));
    }
    let progress = job.progress("store", "rows", Some(n as u64));
    progress.advance(files.journal.samples as u64);
    for first in (files.journal.samples..n).step_by(chunk) {
        progress.check()?;
        let samples = first..(first + chunk).min(n);
        let factors = Factors::take_part(
            subject.network.net(),
            &examples,
            plan,
            samples.clone(),
            &Job::silent(),
        )?;
        files.journal.cotangents = factors.cotangents();
        let layers = factors.arrays();
        for (at, (layer, arrays)) in layers.iter().enumerate() {
            let widths = layer.values(factors.cotangents());
            for ((array, _), values) in widths.iter().zip(&arrays.values) {
                files.put(&file(at, &layer.layer, array), values)?;
            }
            for (array, counts) in layer.counts().iter().zip(&arrays.counts) {
                files.put(&file(at, &layer.layer, array), counts)?;
            }
        }
        files.put("logits.npy", factors.outputs())?;
        files.put("diagonal.npy", &factors.diagonal())?;
        files.journal.layers = layers.into_iter().map(|(layer, _)| layer).collect();
        files.note(samples.end)?;
        progress.advance(samples.len() as u64);
    }
    let Journal { layers, cotangents, bytes, .. } = files.journal.clone();
    for (at, layer) in layers.iter().enumerate() {
        for (array, width) in layer.values(cotangents) {
            files.finish::<f32>(&file(at, &layer.layer, array), Some(width))?;
        }
        for array in layer.counts() {
            files.finish::<u32>(&file(at, &layer.layer, array), None)?;
        }
    }
    let outputs = subject.network.net().outputs();
    files.finish::<f32>("logits.npy", Some(outputs))?;
    files.finish::<f64>("diagonal.npy", None)?;
    for (ids, labels) in net.names(1) {
        write_names(&work.path().join(NAMES[0]), &ids, &labels)?;
    }
    Ok(Contents { rows: n, outputs, cotangents, bytes: bytes.values().sum(), layers })
}

/// A store that is read.
pub(crate) struct Store {
    folder: PathBuf,
    kind: Kind,
    sketch: Option<Sketch>,
    seed: u64,
    contents: Contents,
    /// Places in the store of the training rows that are used.
    places: Vec<usize>,
}

impl Store {
    /// Opens a store for the training rows of a subject, which must be among its own.
    pub fn open(folder: &Path, subject: &Subject) -> Result<Self> {
        let path = folder.join(DOCUMENT);
        let Ok(text) = fs::read(&path) else {
            let what = format!("{} is no folder of factors", folder.display());
            return Err(Error::missing(what, "write one with `veridical kernel store`"));
        };
        let all: Value = serde_json::from_slice(&text).map_err(|e| damaged(folder, &e))?;
        let [job, result] =
            ["job", "result"].map(|name| all.get(name).cloned().unwrap_or_default());
        let contents: Contents = serde_json::from_value(result).map_err(|e| damaged(folder, &e))?;
        let text =
            |name: &str| job.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let run = subject.network.path().display();
        let data = subject.everything.fingerprint(&subject.classes);
        let weights = subject.network.fingerprint()?;
        for (name, what, now) in [("weights", "weights", weights), ("data", "training data", data)]
        {
            let before = text(name);
            if before != now {
                let what = format!(
                    "{} holds factors of other {what} ({}) than those of {run} ({})",
                    folder.display(),
                    short(&before),
                    short(&now)
                );
                return Err(Error::request(what, "store the factors of this run"));
            }
        }
        let kind = text("kernel").parse()?;
        let sketch = match job.get("sketch").and_then(Value::as_str) {
            Some(text) => Some(text.parse()?),
            None => None,
        };
        let seed = job.get("seed").and_then(Value::as_u64).unwrap_or(0);
        let places = places(folder, &subject.rows)?;
        Ok(Self { folder: folder.to_owned(), kind, sketch, seed, contents, places })
    }

    /// Reads the factors of a kernel of the subject's training rows, and the plan that its queries, or other inputs, must follow.
    /// Margins and losses are those of `labels`, or of the predicted classes.
    pub fn factors(
        &self,
        subject: &Subject,
        queries: Option<&Examples<'_, f32>>,
        labels: Option<&[u32]>,
        settings: &KernelSettings,
        job: &Job<'_>,
    ) -> Result<(Plan, Factors<f32>)> {
        let seed = Seed::new(self.seed)?;
        let is_random = matches!(settings.kind, Kind::RandomTrntk(_));
        if (self.sketch.is_some() || is_random && self.kind == settings.kind)
            && settings.seed != seed
        {
            let what = format!(
                "{} was written with ⟨seed {}⟩, not {}",
                self.folder.display(),
                self.seed,
                settings.seed.get()
            );
            return Err(Error::request(what, "pass its ⟨seed⟩"));
        }
        if self.contents.bytes > settings.memory {
            let what = format!(
                "the factors in {} take {:.0} MB and ⟨memory⟩ allows {:.0} MB",
                self.folder.display(),
                self.contents.bytes as f64 / 1e6,
                settings.memory as f64 / 1e6
            );
            return Err(Error::request(
                what,
                "raise ⟨memory⟩, or compute the kernel without ⟨store⟩",
            ));
        }
        let layers = self.contents.layers.iter();
        let settings = KernelSettings {
            sketch: self.sketch.clone(),
            paths: layers.clone().map(|layer| (layer.layer.clone(), layer.path)).collect(),
            ..settings.clone()
        };
        let net = subject.network.net();
        let feed = subject.feed(&subject.train)?;
        let train = feed.examples();
        let plan = Plan::new(net, queries.unwrap_or(&train), queries.map(|_| &train), &settings)?;
        let progress = job.progress("reading", "layers", Some(self.contents.layers.len() as u64));
        let mut arrays = Vec::new();
        for (at, layer) in self.contents.layers.iter().enumerate() {
            progress.check()?;
            let read = |array: &str| self.folder.join(file(at, &layer.layer, array));
            let widths = layer.values(self.contents.cotangents);
            let values = widths.iter().map(|(array, width)| {
                let (found, values) = read_array::<f32>(&read(array))?;
                match found == *width {
                    true => Ok(values),
                    false => Err(damaged(&self.folder, &format!("{array} of {}", layer.layer))),
                }
            });
            let values = values.collect::<Result<Vec<_>>>()?;
            let counts = layer.counts().iter().map(|array| Ok(read_array::<u32>(&read(array))?.1));
            let counts = counts.collect::<Result<Vec<_>>>()?;
            arrays.push((layer.clone(), Arrays { values, counts }));
            progress.advance(1);
        }
        let (_, outputs) = read_array::<f32>(&self.folder.join("logits.npy"))?;
        let Contents { rows, cotangents, .. } = self.contents;
        let all = Factors::from_arrays(rows, cotangents, arrays, outputs)?;
        let all = if self.places.len() == rows { all } else { all.select(&self.places) };
        let head = net.head_name();
        let found = all.of_kind(&self.kind, &plan, labels, head)?;
        Ok((plan, found))
    }
}

/// A fingerprint that fits into a sentence.
fn short(fingerprint: &str) -> &str {
    fingerprint.get(..20).unwrap_or(fingerprint)
}

/// The places of rows in a store.
fn places(folder: &Path, rows: &[usize]) -> Result<Vec<usize>> {
    let path = folder.join(NAMES[0]);
    let ids = super::folder::read_names(&path)?;
    let places: BTreeMap<String, usize> =
        ids.into_iter().enumerate().map(|(at, (id, _))| (id, at)).collect();
    let place = |row: &usize| {
        places.get(&row.to_string()).copied().ok_or_else(|| {
            let what = format!(
                "{} holds the factors of {} training rows, and row {row} is not among them",
                folder.display(),
                places.len()
            );
            Error::request(
                what,
                "store all rows with ⟨rows all⟩, or pass the ⟨rows⟩ and ⟨seed⟩ of the store",
            )
        })
    };
    rows.iter().map(place).collect()
}
