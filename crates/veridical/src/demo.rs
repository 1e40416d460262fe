//! `veridical demo`: the product in a minute, on a generated shop.
//!
//! Ten item2vec trainings on the same interactions show what a retraining changes: coordinates completely, the Gram
//! matrix hardly. Limits come from these ten; a good refresh is published under them, and one whose ids went wrong is
//! stopped.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::json;
use veridical_core::{Order, Seed};
use veridical_data::generate::ShopSettings;
use veridical_data::run::seed_folder;
use veridical_data::{Ids, IfExists, ReadOptions, Source, Table, write_atomically};
use veridical_embed::Method;
use veridical_features::FeatureSpec;
use veridical_inspect::Limit;

use crate::align::FitSettings;
use crate::featurize::{self, LengthScale, NewSpec};
use crate::prepare::{self, GenerateShop};
use crate::refresh::{self, Refresh};
use crate::stability::{self, Settings, Stability};
use crate::train::{self, Layer, Request, Train};
use crate::{Error, Observer, Result};

const USERS: usize = 3000;
const ITEMS: usize = 400;
const PER_USER: usize = 20;
const DIM: usize = 16;
const GENRES: usize = 8;
const EPOCHS: u32 = 5;
/// Seeds of the trainings: Monday's is the first, Tuesday's the second.
const FIRST_SEED: u64 = 1;
const RUNS: u64 = 10;
/// Multiples of the dimension that feature maps are tried at.
const MULTIPLES: [usize; 2] = [2, 8];

/// What the demo measured.
#[derive(Clone, Debug, Serialize)]
pub struct Demo {
    /// The files and folders it wrote.
    pub files: Vec<String>,
    /// The report on the ten trainings.
    pub report: String,
    /// How far a coordinate moves from training to training, in units of its size; raw and aligned.
    pub coordinate_sd: [f64; 2],
    /// How far an inner product moves, in units of the spread between pairs.
    pub gram_noise: f64,
    /// Neighbours that stay, of ten.
    pub nn_overlap: f64,
    /// Debiased linear CKA.
    pub cka: f64,
    /// Accuracy of a genre model by treatment.
    pub models: Vec<Model>,
    /// Accuracy of the most frequent genre.
    pub chance: f64,
    /// Limits of the budget.
    pub limits: usize,
    /// What happened to Tuesday's table.
    pub tuesday: Outcome,
    /// What happened to the table whose ids went wrong.
    pub broken: Outcome,
}

/// Accuracies of one treatment.
#[derive(Clone, Debug, Serialize)]
pub struct Model {
    /// What was done to the vectors.
    pub treatment: String,
    /// Mean over trainings, retrained on each.
    pub retrained: f64,
    /// Deviation over trainings.
    pub sd: f64,
    /// Mean over trainings of the first one's model, not retrained.
    pub unretrained: f64,
}

/// What a refresh ended with.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Whether it was published.
    pub published: bool,
    /// The sentence of the verdict.
    pub verdict: String,
    /// Limits that were not kept.
    pub broken_limits: Vec<String>,
    /// Its folder.
    pub output: String,
}

/// Generates, trains, measures and publishes into `folder`.
///
/// # Errors
/// [`Error::Usage`] if the folder is there and not empty, unless `force` is set.
pub fn run(folder: &Path, force: bool, observer: &dyn Observer) -> Result<Demo> {
    let occupied = fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some());
    if occupied && !force {
        let what = "is not empty; choose another folder with --out, or write into it with --force";
        return Err(Error::Usage(format!("{} {what}", folder.display())));
    }
    fs::create_dir_all(folder).map_err(|e| {
        Error::Usage(format!("{}: cannot create the folder: {e}", folder.display()))
    })?;
    let at = |name: &str| folder.join(name);
    let if_exists = if force { IfExists::Force } else { IfExists::Refuse };
    let (interactions, genres) = make_shop(&at("shop"), force)?;
    train_runs(&interactions, &at("runs"), if_exists, observer)?;
    let day = |seed: u64, name: &str| {
        let table = seed_folder(&at("runs"), seed).join("vectors/item.parquet");
        let mut table = Table::load(&Source::Path(table), &ReadOptions::default())?;
        // What item2vec means is in the angles.
        veridical_learn::to_unit_rows(&mut table.vectors, table.dim);
        table.save(&at(name))?;
        Ok::<Table, Error>(table)
    };
    day(FIRST_SEED, "monday.parquet")?;
    let tuesday = day(FIRST_SEED + 1, "tuesday.parquet")?;
    Table { ids: shuffled(&tuesday.ids)?, ..tuesday }.save(&at("broken.parquet"))?;

    let spec = featurize::new_spec(&NewSpec {
        length_scale: LengthScale::Median,
        data: Some(Source::Path(at("monday.parquet"))),
        ..NewSpec::default()
    })?;
    featurize::save_spec(&spec, &at("spec.json"), force)?;

    let ensemble = Stability {
        labels: Some(genres),
        spec: Some(spec.clone()),
        settings: Settings { multiples: MULTIPLES.to_vec(), ..Settings::default() },
        ..Stability::new(vec![at("runs")])
    };
    let found = stability::stability(&ensemble, observer)?;
    let report = at("stability.html");
    let command = format!(
        "veridical stability {} --labels {} --spec {} --multiples 2,8 --html {}",
        at("runs").display(),
        at("shop/items.csv").display(),
        at("spec.json").display(),
        report.display()
    );
    write_atomically(&report, found.to_html(&command).as_bytes())?;
    let (limits, budget) = found.propose_budget();
    write_atomically(&at("budget.toml"), budget.as_bytes())?;

    let publish =
        |new: &str, out: &str| publish(folder, new, out, &spec, &limits, if_exists, observer);
    let tuesday = publish("tuesday.parquet", "published")?;
    let broken = publish("broken.parquet", "stopped")?;

    let downstream = found.downstream.iter().flat_map(|d| &d.treatments);
    let models = downstream.filter_map(|t| {
        Some(Model {
            treatment: t.treatment.clone(),
            retrained: t.accuracy.mean,
            sd: t.accuracy.sd?,
            unretrained: t.unretrained.as_ref()?.mean,
        })
    });
    let coordinates = found.comparison.coordinates.as_ref();
    let sd = coordinates.and_then(|c| Some([c.relative_sd?.value, c.aligned_relative_sd?.value]));
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
        "published",
        "stopped",
    ];
    Ok(Demo {
        files: files.map(|name| at(name).display().to_string()).to_vec(),
        report: report.display().to_string(),
        coordinate_sd: sd.unwrap_or([f64::NAN; 2]),
        gram_noise: found.comparison.gram_noise.value(),
        nn_overlap: found.comparison.nn_overlap.value(),
        cka: found.comparison.cka.value(),
        models: models.collect(),
        chance: 1.0 / GENRES as f64,
        limits: limits.len(),
        tuesday,
        broken,
    })
}

fn publish(
    folder: &Path,
    new: &str,
    out: &str,
    spec: &FeatureSpec,
    limits: &[Limit],
    if_exists: IfExists,
    observer: &dyn Observer,
) -> Result<Outcome> {
    let at = |name: &str| folder.join(name);
    let (reference, new, out) = (at("monday.parquet"), at(new), at(out));
    let command = format!(
        "veridical refresh --reference {} --new {} --spec {} --budget {} --out {}",
        reference.display(),
        new.display(),
        at("spec.json").display(),
        at("budget.toml").display(),
        out.display()
    );
    let comparison = Stability {
        limits: limits.to_vec(),
        ..Stability::new(vec![reference.clone(), new.clone()])
    };
    let done = refresh::refresh(
        &Refresh {
            comparison,
            reference,
            new,
            spec: Some(spec.clone()),
            fit: FitSettings::default(),
            dates: None,
            allow_chain: false,
            out,
            if_exists,
            command,
        },
        observer,
    )?;
    let broken = done.report.gates.iter().filter(|gate| !gate.is_kept());
    Ok(Outcome {
        published: done.published,
        broken_limits: broken.map(|gate| gate.limit.clone()).collect(),
        verdict: done.report.verdict.sentence,
        output: done.output,
    })
}

/// Who bought what, with eight genres behind it.
fn make_shop(out: &Path, force: bool) -> Result<(PathBuf, PathBuf)> {
    let settings = ShopSettings {
        users: USERS,
        items: ITEMS,
        clusters: GENRES,
        per_user: PER_USER,
        skew: 1.0,
        noise: 0.5,
        seed: Seed::new(0)?,
    };
    let items = out.join("items.csv");
    let out = out.to_owned();
    let made = prepare::shop(&GenerateShop { settings, out, format: "csv".into(), force })?;
    Ok((PathBuf::from(&made.files[0]), items))
}

/// `runs/seed-1` to `runs/seed-10`.
fn train_runs(data: &Path, out: &Path, if_exists: IfExists, observer: &dyn Observer) -> Result<()> {
    let given = json!({
        "interactions": data, "seed": FIRST_SEED, "dim": DIM, "epochs": EPOCHS,
    });
    let given = Layer::given(given.as_object().cloned().unwrap_or_default());
    let request = Request::new(Method::Item2vec, &[given])?;
    let (out, seeds) = (out.to_owned(), Some(RUNS));
    train::train(&Train { request, out, seeds, if_exists }, observer)?;
    Ok(())
}

/// Rows under the ids of other rows: a join that went wrong.
fn shuffled(ids: &Ids) -> Result<Ids> {
    let order = Order::new(ids.len() as u64, Seed::new(0)?, "broken", 0);
    let rows = (0..ids.len() as u64).map(|row| order.at(row) as usize);
    Ok(match ids {
        Ids::Int(ids) => Ids::Int(rows.map(|r| ids.value(r)).collect::<Vec<i64>>().into()),
        Ids::Text(ids) => Ids::Text(rows.map(|r| ids.value(r)).collect::<Vec<&str>>().into()),
    })
}
