//! `veridical refresh init`: the budget, the spec and the first publication that a daily job starts from.

use std::path::{Path, PathBuf};

use serde::Serialize;
use veridical_core::settings::Settings as _;
use veridical_core::{Error as Refused, Estimate, Job, settings};
use veridical_inspect::Limit;
use veridical_io::{Input, Output, ReadOptions, Replace, TableReader, publish};

use super::{Refresh, refresh};
use crate::Result;
use crate::align::DateSettings;
use crate::featurize::{NewSpec, new_spec_observed, save_spec};
use crate::stability::{EvidenceFiles, Limits, ProposeBudget, Samples, Settings, propose_budget};

settings! {
    /// Settings of [`init`].
    pub struct Init {
        /// Reference table or run folder, the same every day
        pub reference: Input = Input::default() => [required(), value("TABLE")],
        /// Folder to publish to
        pub out: Output = Output::default() => [required(), value("FOLDER")],
        /// At least three runs on identical data, or tables of past days: limits are what they keep
        pub runs: Vec<Input> = Vec::new() => [value("RUN"), at_once(), otherwise("limits by rule of thumb")],
        /// Budget file to write
        pub budget: Option<Output> = None => [value("FILE"), otherwise("FOLDER.budget.toml")],
        /// Feature spec to write
        pub spec: Option<Output> = None => [value("FILE"), otherwise("FOLDER.spec.json")],
    } with {
        /// Date of the reference, which names the first version.
        pub dates: DateSettings,
        /// Whether existing files are replaced.
        pub replace: Replace,
        /// Sample sizes.
        pub samples: Samples,
        /// How tables are read.
        pub read: ReadOptions,
    }
}

/// Result of [`init`].
#[derive(Clone, Debug, Serialize)]
pub struct Initialized {
    /// The budget file.
    pub budget: String,
    /// Number of limits in it.
    pub limits: usize,
    /// Whether the limits were measured on runs.
    pub measured: bool,
    /// The spec file.
    pub spec: String,
    /// The first version.
    pub version: String,
    /// Its folder.
    pub folder: String,
}

/// Limits for a table of which no runs are known: what no healthy refresh of any table we know breaks.
const BY_THUMB: [(&str, f64); 7] = [
    ("min-shared-ids", 0.95),
    ("max-zero-vectors", 0.001),
    ("max-norm-change", 0.2),
    ("min-nn-overlap", 0.4),
    ("min-cka", 0.8),
    ("max-outlier-ids", 0.03),
    ("max-norm-outliers", 0.03),
];

/// Writes a budget and a spec, and publishes the reference as the first version.
///
/// # Errors
/// As [`refresh`] and [`propose_budget`]; files that exist, unless they may be replaced.
pub fn init(settings: &Init, job: &Job<'_>) -> Result<Initialized> {
    settings.check()?;
    let beside = |given: &Option<Output>, extension: &str| -> PathBuf {
        let beside = || PathBuf::from(format!("{}.{extension}", trimmed(&settings.out)));
        given.as_deref().map_or_else(beside, Path::to_owned)
    };
    let (budget, spec) =
        (beside(&settings.budget, "budget.toml"), beside(&settings.spec, "spec.json"));
    for file in [&budget, &spec] {
        publish::check_new(file, settings.replace.force)?;
    }
    let (limits, text) = limits(settings, job)?;
    let new = NewSpec {
        data: Some(settings.reference.clone()),
        read: settings.read.clone(),
        ..NewSpec::default()
    };
    let made = new_spec_observed(&new, job)?;
    publish::put(&budget, text.as_bytes())?;
    save_spec(&made, &spec, settings.replace.force)?;
    let samples = settings.samples.clone();
    let first = Refresh {
        reference: settings.reference.clone(),
        new: settings.reference.clone(),
        out: settings.out.clone(),
        dates: settings.dates.clone(),
        evidence: EvidenceFiles { spec: Some(spec.as_path().into()), ..EvidenceFiles::default() },
        limits: Limits::of_budget(budget.as_path()),
        compare: Settings { samples, ..Settings::default() },
        read: settings.read.clone(),
        ..Refresh::default()
    };
    let refreshed = refresh(&first, job)?;
    refreshed.gate()?;
    let (budget, spec) = (budget.display().to_string(), spec.display().to_string());
    Ok(Initialized {
        limits: limits.len(),
        measured: !settings.runs.is_empty(),
        version: refreshed.version,
        folder: refreshed.folder,
        budget,
        spec,
    })
}

fn trimmed(out: &Output) -> String {
    out.to_string().trim_end_matches('/').to_owned()
}

/// The number of rows of the reference.
fn rows(settings: &Init) -> Result<u64> {
    let mut reader = TableReader::open(&settings.reference.source(), &settings.read)?;
    if let Some(rows) = reader.n_rows() {
        return Ok(rows);
    }
    let mut rows = 0;
    while let Some(chunk) = reader.next_chunk()? {
        rows += chunk.n_rows() as u64;
    }
    Ok(rows)
}

/// The limits and the text of the budget file.
fn limits(settings: &Init, job: &Job<'_>) -> Result<(Vec<Limit>, String)> {
    if settings.runs.is_empty() {
        // With few ids a small share cannot be told from none.
        let least = Estimate::share(0, rows(settings)?).high;
        let limit = |(name, value): &(&str, f64)| match name.ends_with("outlier-ids")
            || name.ends_with("outliers")
        {
            true => Limit::new(name, value.max((110.0 * least).ceil() / 100.0)),
            false => Limit::new(name, *value),
        };
        let limits: Vec<Limit> =
            BY_THUMB.iter().map(limit).collect::<std::result::Result<_, Refused>>()?;
        let mut text =
            "# Limits by rule of thumb: they stop damage, not every change that your consumers would notice.\n\
             # `veridical stability budget` measures limits, on at least three runs on the same data or on published days.\n"
                .to_owned();
        for Limit { kind, value } in &limits {
            text += &format!("\n# {}\n{} = {value:?}\n", kind.meaning, kind.limit());
        }
        job.note("limits are by rule of thumb: ⟨runs⟩ measures them on runs on identical data");
        return Ok((limits, text));
    }
    let request = ProposeBudget {
        runs: settings.runs.clone(),
        samples: settings.samples.clone(),
        read: settings.read.clone(),
        ..ProposeBudget::default()
    };
    let proposed = propose_budget(&request, job)?;
    Ok((proposed.limits, proposed.text))
}
