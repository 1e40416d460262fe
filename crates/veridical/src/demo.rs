//! `veridical demo`: the product in a minute, on generated data.
//!
//! Ten item2vec runs on the same interactions show what retraining changes: coordinates completely, the Gram matrix
//! hardly. Limits are proposed from these ten runs; under them a good refresh is published, and one with permuted ids is
//! stopped.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::json;
use veridical_core::settings::SettingsLayer;
use veridical_core::{Error as Refusal, Estimate, Job, Order, Seed, settings};
use veridical_data::{Ids, VectorTable};
use veridical_embed::Method;
use veridical_io::run::seed_folder;
use veridical_io::{IfExists, Output, ReadOptions, Replace, Source, WriteOptions, publish};

use crate::align::DateSettings;
use crate::featurize::{self, NewSpec};
use crate::prepare::{self, Generate, GeneratedKind, TablesOutput};
use crate::refresh::{self, Refresh};
use crate::settings::{RunOutput, Start};
use crate::stability::{self, EvidenceFiles, Limits, Settings, Stability};
use crate::train::{self, Request, Train};
use crate::{Error, Result};

const USERS: usize = 3000;
const ITEMS: usize = 400;
const PER_USER: usize = 20;
const DIM: usize = 16;
const GENRES: usize = 8;
const EPOCHS: u32 = 5;
/// Random seeds of the runs: Monday's is the first, Tuesday's the second.
const FIRST_SEED: u64 = 1;
const RUNS: u64 = 10;
/// The folder of publications, and the dates of its two days.
const LIVE: &str = "live";
const TUESDAY: &str = "2026-01-06";
const WEDNESDAY: &str = "2026-01-07";
/// Multiples of the embedding dimension at which feature maps are evaluated; the second is that of the spec.
const MULTIPLES: [usize; 2] = [2, 4];

/// Measurements and outcomes of the demo.
#[derive(Clone, Debug, Serialize)]
pub struct Demo {
    /// Paths of the files and folders that were written.
    pub files: Vec<String>,
    /// Path of the stability report on the ten runs.
    pub report: String,
    /// Standard deviation of a coordinate over runs, relative to its size; raw and aligned.
    pub coordinate_sd: [Option<Estimate>; 2],
    /// Standard deviation of an inner product over runs, relative to the spread between pairs.
    pub gram_noise: Option<Estimate>,
    /// Share of the ten nearest neighbors that two runs have in common.
    pub nn_overlap: Option<Estimate>,
    /// Debiased linear CKA between runs.
    pub cka: Option<Estimate>,
    /// Accuracy of a genre classifier, per treatment of the vectors.
    pub models: Vec<TreatmentAccuracy>,
    /// Accuracy of always predicting the most frequent genre.
    pub chance: f64,
    /// Dimension D of the features of `spec.json`.
    pub output_dim: usize,
    /// Number of limits in the budget.
    pub limits: usize,
    /// Outcome of publishing Tuesday's table.
    pub tuesday: Outcome,
    /// Outcome of publishing the table with permuted ids.
    pub broken: Outcome,
}

/// Accuracy of a downstream model under one treatment of the vectors.
#[derive(Clone, Debug, Serialize)]
pub struct TreatmentAccuracy {
    /// Name of the treatment.
    pub treatment: String,
    /// Mean accuracy over runs, with the model retrained on each run.
    pub retrained: Estimate,
    /// Standard deviation of the accuracy over runs.
    pub sd: Estimate,
    /// Mean accuracy over runs of the model trained on the first run, not retrained.
    pub unretrained: Estimate,
}

/// Outcome of one refresh.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Whether the vectors were published.
    pub published: bool,
    /// The verdict, as a sentence.
    pub verdict: String,
    /// Names of the limits that were not met.
    pub broken_limits: Vec<String>,
    /// Folder of the version, or of the report on its rejection.
    #[serde(rename = "out")]
    pub output: String,
}

settings! {
    /// Output settings of the demo.
    pub struct DemoOutput {
        /// Folder to write to
        pub out: Output = "demo".into() => [value("FOLDER")],
        /// Write into a non-empty folder
        pub force: bool = false => [switch()],
    }
}

/// Generates data, trains, measures and publishes, all into one folder.
///
/// # Errors
/// [`Refusal::Exists`] if the folder exists and is not empty, unless `force` is set.
pub fn run(settings: &DemoOutput, job: &Job<'_>) -> Result<Demo> {
    let (folder, force): (&Path, bool) = (&settings.out, settings.force);
    let occupied = fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some());
    if occupied && !force {
        let hint = "choose another folder with ⟨out⟩, or write into it with ⟨force⟩";
        return Err(Refusal::exists(format!("{} is not empty", folder.display()), hint).into());
    }
    fs::create_dir_all(folder).map_err(|e| {
        Refusal::request(format!("{}: cannot create the folder: {e}", folder.display()), "")
    })?;
    let at = |name: &str| folder.join(name);
    let if_exists = if force { IfExists::Force } else { IfExists::Refuse };
    let (interactions, genres) = make_shop(&at("shop"), force)?;
    train_runs(&interactions, &at("runs"), if_exists, job)?;
    let day = |seed: u64, name: &str| {
        let table = seed_folder(&at("runs"), seed).join("vectors/item.parquet");
        let mut table = veridical_io::read_table(&Source::Path(table), &ReadOptions::default())?;
        // Item2vec encodes meaning in angles, not in norms.
        veridical_learn::to_unit_rows(&mut table.vectors, table.dim);
        veridical_io::write_table(&table, &at(name))?;
        Ok::<VectorTable, Error>(table)
    };
    day(FIRST_SEED, "monday.parquet")?;
    let tuesday = day(FIRST_SEED + 1, "tuesday.parquet")?;
    let broken = VectorTable { ids: shuffled(&tuesday.ids)?, ..tuesday };
    veridical_io::write_table(&broken, &at("broken.parquet"))?;

    let data = Some(at("monday.parquet").into());
    let spec = featurize::new_spec(&NewSpec { data, ..NewSpec::default() })?;
    featurize::save_spec(&spec, &at("spec.json"), force)?;

    let ensemble = Stability {
        tables: vec![at("runs").into()],
        evidence: EvidenceFiles {
            labels: Some(genres.into()),
            spec: Some(at("spec.json").into()),
            ..EvidenceFiles::default()
        },
        settings: Settings { multiples: MULTIPLES.to_vec(), ..Settings::default() },
        ..Stability::default()
    };
    let found = stability::stability(&ensemble, job)?;
    let report = at("stability.html");
    let command = format!(
        "veridical stability {} --labels {} --spec {} --multiples {} --html {}",
        at("runs").display(),
        at("shop/items.csv").display(),
        at("spec.json").display(),
        MULTIPLES.map(|multiple| multiple.to_string()).join(","),
        report.display()
    );
    publish::put(&report, found.to_html(&command).as_bytes())?;
    let (limits, budget) = found.propose_budget()?;
    publish::put(&at("budget.toml"), budget.as_bytes())?;

    let publish = |new: &str, day: &str| publish(folder, new, day, if_exists, job);
    let tuesday = publish("tuesday.parquet", TUESDAY)?;
    let broken = publish("broken.parquet", WEDNESDAY)?;

    let downstream = found.downstream.iter().flat_map(|d| &d.treatments);
    let models = downstream.filter_map(|t| {
        Some(TreatmentAccuracy {
            treatment: t.treatment.clone(),
            retrained: t.accuracy.mean,
            sd: t.accuracy.sd?,
            unretrained: t.unretrained.as_ref()?.mean,
        })
    });
    let coordinates = found.comparison.coordinates.as_ref();
    let files = [
        "shop/interactions.csv",
        "shop/items.csv",
        "runs",
        "monday.parquet",
        "tuesday.parquet",
        "broken.parquet",
        "spec.json",
        "budget.toml",
        "stability.html",
        LIVE,
    ];
    Ok(Demo {
        files: files.map(|name| at(name).display().to_string()).to_vec(),
        report: report.display().to_string(),
        coordinate_sd: coordinates.map_or([None; 2], |c| [c.relative_sd, c.aligned_relative_sd]),
        gram_noise: found.comparison.gram_noise.estimate,
        nn_overlap: found.comparison.nn_overlap.estimate,
        cka: found.comparison.cka.estimate,
        models: models.collect(),
        chance: 1.0 / GENRES as f64,
        output_dim: spec.output_dim(),
        limits: limits.len(),
        tuesday,
        broken,
    })
}

fn publish(
    folder: &Path,
    new: &str,
    day: &str,
    if_exists: IfExists,
    job: &Job<'_>,
) -> Result<Outcome> {
    let at = |name: &str| folder.join(name);
    let (reference, new, out) = (at("monday.parquet"), at(new), at(LIVE));
    let command = format!(
        "veridical refresh --reference {} --new {} --spec {} --budget {} --out {} --date {day}",
        reference.display(),
        new.display(),
        at("spec.json").display(),
        at("budget.toml").display(),
        out.display()
    );
    let settings = Refresh {
        reference: reference.into(),
        new: new.into(),
        out: out.into(),
        dates: DateSettings { date: Some(day.to_owned()), ..DateSettings::default() },
        evidence: EvidenceFiles { spec: Some(at("spec.json").into()), ..EvidenceFiles::default() },
        write: WriteOptions { existing: if_exists.into(), ..WriteOptions::default() },
        limits: Limits::of_budget(at("budget.toml")),
        command,
        ..Refresh::default()
    };
    let done = refresh::refresh(&settings, job)?;
    let broken = done.report.gates.iter().filter(|gate| !gate.is_kept());
    Ok(Outcome {
        published: done.published,
        broken_limits: broken.map(|gate| gate.limit.clone()).collect(),
        verdict: done.report.0.verdict.sentence,
        output: done.folder,
    })
}

/// Generates purchases with eight planted genres.
fn make_shop(out: &Path, force: bool) -> Result<(PathBuf, PathBuf)> {
    let items = out.join("items.csv");
    let output =
        TablesOutput { out: out.into(), replace: Replace { force }, ..TablesOutput::default() };
    let made = prepare::generate(&Generate {
        what: Some(GeneratedKind::Shop),
        users: USERS,
        items: ITEMS,
        clusters: GENRES,
        per_user: PER_USER,
        noise: 0.5,
        output,
        ..Generate::default()
    })?;
    Ok((PathBuf::from(&made.files[0]), items))
}

/// Trains `runs/seed-1` to `runs/seed-10`.
fn train_runs(data: &Path, out: &Path, if_exists: IfExists, job: &Job<'_>) -> Result<()> {
    let given = json!({
        "interactions": data, "seed": FIRST_SEED, "dim": DIM, "epochs": EPOCHS,
    });
    let given = SettingsLayer::given(given.as_object().cloned().unwrap_or_default());
    let request = Request::new(Method::Item2vec, &[given])?;
    let output = RunOutput { out: Some(out.into()), existing: if_exists.into() };
    let start = Start { seeds: Some(RUNS), output, ..Start::default() };
    train::train(&Train { request, start }, job)?;
    Ok(())
}

/// Assigns rows to the ids of other rows, like a join that went wrong.
fn shuffled(ids: &Ids) -> Result<Ids> {
    let order = Order::new(ids.len() as u64, Seed::new(0)?, "broken", 0);
    let rows = (0..ids.len() as u64).map(|row| order.at(row) as usize);
    Ok(match ids {
        Ids::Int(ids) => Ids::Int(rows.map(|r| ids.value(r)).collect::<Vec<i64>>().into()),
        Ids::Text(ids) => Ids::Text(rows.map(|r| ids.value(r)).collect::<Vec<&str>>().into()),
    })
}
