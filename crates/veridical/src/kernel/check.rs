//! `veridical kernel check`: is a kernel folder what it says, and what does its kernel look like?
//!
//! - *Residual*: pairs of the matrix against the kernel without a sketch, computed anew from the network or the table.
//! - *Positive semidefinite*: the smallest eigenvalue of a sample of rows, against the rounding of the values. That of all rows is at
//!   most as large (Cauchy's interlacing theorem), so a sample can refute and not prove.
//! - *Spectrum*: eigenvalues of the sample, and their effective number (sum l)^2 / sum l^2.
//! - *Alignment* with the labels, centered.

use std::fs;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;
use veridical_core::settings::{Settings as _, Values};
use veridical_core::{Job, Order, Seed, settings};
use veridical_io::{Input, NpyRows, Output, difference, fingerprint};
use veridical_kernels::gram::{alignment, eigenvalues, rounding};
use veridical_kernels::project::{Projection, Sketch};

use super::compute::{Facts, LayerShare, SketchError};
use super::folder::{DOCUMENT, MATRIX, NAMES, read_names};
use super::source::{KernelRows, Source};
use crate::explain::matrix;
use crate::{Error, Result};

/// Samples of each side of the pairs that are computed anew.
const SIDE: usize = 16;
/// Eigenvalues that are reported.
const EIGENVALUES: usize = 100;
/// Root mean square of the differences of an exact kernel: factors are f32, and sums over other paths round differently.
const EXACT: f64 = 1e-5;
/// The same of angles, which f32 products of nearly parallel vectors determine to the root of their rounding.
const ANGLE: f64 = 1e-3;
/// How far above its expected root mean square a sketch may be on pairs of few samples.
const FACTOR: f64 = 2.0;

settings! {
    /// Settings of [`check`].
    pub struct CheckSettings {
        /// Folder of `kernel compute`
        pub folder: Input = Input::default() => [positional(), required(), value("FOLDER")],
        /// The run, if it has moved
        pub run: Option<Input> = None => [value("RUN"), otherwise("the path in the folder")],
        /// The data that it was trained on, if it has moved
        pub data: Option<Input> = None => [value("FILE_OR_FOLDER"), otherwise("the path in the folder or the run")],
        /// Rows whose eigenvalues are computed
        pub sample: usize = 2000 => [value("N"), at_least(2.0), at_most(20000.0)],
        /// HTML report to write
        pub html: Option<Output> = None,
    }
}

/// Eigenvalues of a sample of a kernel.
#[derive(Clone, Debug, Serialize)]
pub struct Spectrum {
    /// Rows of the sample.
    pub n: usize,
    /// The largest eigenvalues divided by n, largest first.
    pub largest: Vec<f64>,
    /// The smallest one.
    pub smallest: f64,
    /// How far below 0 rounding may put it.
    pub rounding: f64,
    /// (sum l)^2 / sum l^2.
    pub effective_rank: f64,
}

/// Result of [`check`].
#[derive(Clone, Debug, Serialize)]
pub struct Checked {
    /// The folder.
    pub folder: String,
    /// The kernel.
    pub kernel: String,
    /// Its sketch, if any.
    pub sketch: Option<String>,
    /// Rows of the matrix.
    pub rows: usize,
    /// Columns of the matrix.
    pub columns: usize,
    /// Shares of the layers; none of vectors.
    pub layers: Vec<LayerShare>,
    /// Differences of pairs of the matrix and the exact kernel, as cosines.
    pub residual: SketchError,
    /// Eigenvalues; null for a kernel of queries.
    pub spectrum: Option<Spectrum>,
    /// Centered alignment with the labels; null without labels.
    pub alignment: Option<f64>,
    /// What is wrong, in words.
    pub broken: Vec<String>,
    /// Whether nothing is.
    pub passed: bool,
    /// Notes for the reader.
    pub notes: Vec<String>,
    /// The differences, from smallest to largest.
    #[serde(skip)]
    pub(super) differences: Vec<f64>,
}

impl Checked {
    /// Returns the answer in a sentence.
    pub fn answer(&self) -> String {
        let Self { folder, kernel, residual, .. } = self;
        if !self.passed {
            return format!("{folder} is not right: {}.", self.broken.join("; "));
        }
        let psd = match self.spectrum {
            Some(_) => ", positive semidefinite up to rounding",
            None => "",
        };
        format!(
            "{folder} is {kernel}{psd}; {} pairs differ from the exact kernel by {:.1e} (root mean square).",
            residual.pairs, residual.rms
        )
    }
}

/// Checks a kernel folder.
///
/// # Errors
/// [`Error::Core`] if the folder is damaged, or if the run or the table is not the one that it was computed from.
pub fn check(settings: &CheckSettings, job: &Job<'_>) -> Result<Checked> {
    settings.check()?;
    let folder: &Path = &settings.folder;
    let Ok(text) = fs::read(folder.join(DOCUMENT)) else {
        let what = format!("{} is no folder of a kernel", folder.display());
        return Err(Error::missing(what, "write one with `veridical kernel compute`"));
    };
    let damaged = |why: &dyn std::fmt::Display| {
        let what = format!("{}: the document is damaged ({why})", folder.join(DOCUMENT).display());
        Error::damaged(what, "compute the kernel again")
    };
    let document: Value = serde_json::from_slice(&text).map_err(|e| damaged(&e))?;
    let part = |name: &str| document.get(name).cloned().unwrap_or_default();
    let (task, facts) = (part("job"), part("result"));
    let facts: Facts = serde_json::from_value(facts).map_err(|e| damaged(&e))?;
    let text = |name: &str| task.get(name).and_then(Value::as_str).map(str::to_owned);
    let kernel = text("kernel").ok_or_else(|| damaged(&"it names no kernel"))?;
    let path = folder.join(MATRIX);
    let found = fingerprint::of_file(&path)?;
    if found != facts.fingerprint {
        let what = format!("{} is not the matrix that {DOCUMENT} describes", path.display());
        return Err(Error::damaged(what, "compute the kernel again"));
    }
    let mut stored = NpyRows::open(&path)?;
    if stored.shape() != (facts.rows, facts.columns) {
        return Err(damaged(&"the matrix has another shape"));
    }
    let given: Values = serde_json::from_value(part_of(&task, "rows")).map_err(|e| damaged(&e))?;
    let mut rows = KernelRows::of(&given)?;
    rows.run = settings.run.clone().or(rows.run);
    rows.data = settings.data.clone().or(rows.data);
    let mut source = Source::open(&rows, None, &kernel, &Job::silent())?;
    check_same(&source, &task, folder)?;
    let sketch = text("sketch").map(|text| text.parse::<Sketch>()).transpose()?;
    if let Source::Net(net) = &mut source {
        let normalization = part_of(&task, "normalization");
        net.settings.normalization =
            serde_json::from_value(normalization).map_err(|e| damaged(&e))?;
    }
    let differences = differences(&source, &mut stored, &facts, job)?;
    let residual = residual(&differences, sketch.as_ref());
    let mut checked = Checked {
        folder: settings.folder.to_string(),
        kernel,
        sketch: sketch.as_ref().map(ToString::to_string),
        rows: facts.rows,
        columns: facts.columns,
        layers: facts.layers,
        spectrum: None,
        alignment: None,
        broken: Vec::new(),
        passed: false,
        notes: Vec::new(),
        differences: differences.iter().map(|d| d.0).collect(),
        residual,
    };
    checked.differences.sort_by(f64::total_cmp);
    if facts.symmetric {
        let labels = labels(folder, facts.rows)?;
        checked.look(&mut stored, labels.as_deref(), settings.sample, job)?;
    } else {
        checked.notes.push("a kernel of queries has no eigenvalues".into());
    }
    checked.decide(sketch.as_ref());
    Ok(checked)
}

fn part_of(value: &Value, name: &str) -> Value {
    value.get(name).cloned().unwrap_or_default()
}

/// Refuses another network, or other rows, than those of the folder.
fn check_same(source: &Source, task: &Value, folder: &Path) -> Result<()> {
    // Where they are may have changed.
    let content = |mut of: Value| {
        if let Some(of) = of.as_object_mut() {
            of.remove("run");
            of.remove("vectors");
            if let Some(data) = of.get_mut("data").and_then(Value::as_object_mut) {
                data.remove("path");
            }
        }
        of
    };
    let (before, now) = (content(part_of(task, "of")), content(source.identity()?));
    match difference(&before, &now, "") {
        None => Ok(()),
        Some((at, before, now)) => {
            let at = at.trim_start_matches('.');
            let what = format!(
                "{} was computed from something else: {at} was {before} and is now {now}",
                folder.display()
            );
            Err(Error::request(what, "pass the ⟨run⟩ and ⟨data⟩ that it was computed from"))
        }
    }
}

/// Differences of some pairs from the exact kernel, and the exact values, both as cosines where the diagonal is known.
fn differences(
    source: &Source,
    stored: &mut NpyRows,
    facts: &Facts,
    job: &Job<'_>,
) -> Result<Vec<(f64, f64)>> {
    let (n, m) = source.samples();
    // At equal distances, and different ones of rows and columns.
    let spread = |n: usize, shift: usize| -> Vec<usize> {
        let count = SIDE.min(n);
        (0..count).map(|i| ((2 * i + shift) * n / (2 * count)).min(n - 1)).collect()
    };
    let (rows, columns) = (spread(n, 0), spread(m, usize::from(facts.symmetric)));
    let exact = source.exact(&rows, &columns, job)?;
    let copies = facts.columns / m;
    let width = columns.len() * copies;
    let mut all = Vec::new();
    for (a, &i) in rows.iter().enumerate() {
        for v in 0..copies {
            let row = stored.rows(i * copies + v, 1)?;
            for (b, &j) in columns.iter().enumerate() {
                for w in 0..copies {
                    let at = (a * copies + v) * width + b * copies + w;
                    let scale = exact.scales[0][a * copies + v] * exact.scales[1][b * copies + w];
                    let [found, want] = [row[j * copies + w], exact.values[at]].map(f64::from);
                    all.push(((found - want) * scale, want * scale));
                }
            }
        }
    }
    Ok(all)
}

fn residual(differences: &[(f64, f64)], sketch: Option<&Sketch>) -> SketchError {
    let mean = |squares: &mut dyn Iterator<Item = f64>| {
        (squares.sum::<f64>() / differences.len() as f64).sqrt()
    };
    let joint = sketch.filter(|sketch| !matches!(sketch.projection, Projection::Kron(..)));
    SketchError {
        pairs: differences.len(),
        rms: mean(&mut differences.iter().map(|(d, _)| d * d)),
        expected: joint.map(|sketch| {
            mean(&mut differences.iter().map(|(_, k)| (1.0 + k * k) / sketch.dim as f64))
        }),
        largest: differences.iter().fold(0.0, |m, (d, _)| m.max(d.abs())),
    }
}

/// The labels of the rows, as numbers; `None` if there are none.
fn labels(folder: &Path, n: usize) -> Result<Option<Vec<u32>>> {
    let names = read_names(&folder.join(NAMES[0]))?;
    if names.len() != n {
        let what = format!("{} has {} rows, not {n}", folder.join(NAMES[0]).display(), names.len());
        return Err(Error::damaged(what, "compute the kernel again"));
    }
    let mut known: Vec<&String> = names.iter().filter_map(|(_, label)| label.as_ref()).collect();
    known.sort_unstable();
    known.dedup();
    let number = |(_, label): &(String, Option<String>)| {
        known.binary_search(&label.as_ref()?).ok().map(|at| at as u32)
    };
    Ok(names.iter().map(number).collect())
}

impl Checked {
    /// Eigenvalues and alignment of a sample.
    fn look(
        &mut self,
        stored: &mut NpyRows,
        labels: Option<&[u32]>,
        most: usize,
        job: &Job<'_>,
    ) -> Result<()> {
        let n = self.rows;
        let mut sample: Vec<usize> = (0..n).collect();
        if n > most {
            let order = Order::new(n as u64, Seed::new(0)?, "kernel/check", 0);
            sample = (0..most as u64).map(|t| order.at(t) as usize).collect();
            sample.sort_unstable();
            self.notes.push(format!("eigenvalues are of {most} rows drawn at random"));
        }
        let s = sample.len();
        let progress = job.progress("reading", "rows", Some(s as u64));
        let mut values = Vec::with_capacity(s * s);
        for &i in &sample {
            let row = stored.rows(i, 1)?;
            values.extend(sample.iter().map(|&j| row[j]));
            progress.advance(1);
        }
        job.check()?;
        let k = matrix(&values, s)?;
        if let Some(at) = values.iter().position(|x| !x.is_finite()) {
            let what = format!("value ({}, {}) is not finite", sample[at / s], sample[at % s]);
            self.broken.push(what);
            return Ok(());
        }
        let all = eigenvalues(k);
        let smallest = all.last().copied().unwrap_or(0.0);
        let square: f64 = all.iter().map(|l| l * l).sum();
        let sum: f64 = all.iter().sum();
        self.spectrum = Some(Spectrum {
            n: s,
            largest: all.iter().take(EIGENVALUES).map(|l| l / s as f64).collect(),
            smallest,
            rounding: rounding(k),
            effective_rank: if square > 0.0 { sum * sum / square } else { 0.0 },
        });
        if let Some(labels) = labels {
            let own: Vec<u32> = sample.iter().map(|&i| labels[i]).collect();
            self.alignment = alignment(k, &own);
        }
        Ok(())
    }

    fn decide(&mut self, sketch: Option<&Sketch>) {
        if let Some(Spectrum { smallest, rounding, .. }) = &self.spectrum
            && *smallest < -rounding
        {
            self.broken.push(format!(
                "the smallest eigenvalue {smallest:.2e} is further below 0 than rounding explains ({rounding:.1e})"
            ));
        }
        let most = match (sketch, self.residual.expected) {
            (None, _) if self.kernel.starts_with("arc-cosine") => Some(ANGLE),
            (None, _) => Some(EXACT),
            (Some(_), expected) => expected.map(|expected| FACTOR * expected),
        };
        if let Some(most) =
            most.filter(|most| self.residual.rms > *most || self.residual.rms.is_nan())
        {
            self.broken.push(format!(
                "{} pairs differ from the exact kernel by {:.1e} (root mean square), more than {most:.1e}",
                self.residual.pairs, self.residual.rms
            ));
        }
        self.passed = self.broken.is_empty();
    }
}
