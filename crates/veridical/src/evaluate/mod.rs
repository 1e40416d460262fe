//! `veridical evaluate`: runs, or any pair of vector tables, judged on rows that were kept back.
//!
//! A run is judged on exactly its own split: the data is read as the run read it, divided by the run's rule,
//! and both fingerprints are compared with those in `run.json`. Several runs are judged side by side only if
//! they share data and split. The runs of an ensemble count as one model: means over users and seeds.

mod page;
mod tables;

use std::path::{Path, PathBuf};

pub use self::page::shown;
use serde::Serialize;
use serde_json::{Map, Value};
use veridical_core::Seed;
use veridical_core::progress::Progress;
use veridical_data::run::{self, RunFolder};
use veridical_data::split::LEAVE_LAST_ONE_LEAKS;
use veridical_data::{Lists, SplitRule};
use veridical_embed::evaluate::{self as judge, Protocol, RatingReport, Report, Settings, Task};
use veridical_embed::{Graphs, Input, Method, Model, Purpose, Scorer, Similarity, Tensors};

use crate::train::{Divided, Layer, Options, Request, method_of, purpose};
use crate::{Error, Observer, Result};

/// The closed form of `ease` takes minutes above so many items; it is left out unless asked for.
const MOST_ITEMS_FOR_EASE: usize = 8000;

/// What is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// Lists of items.
    Ranking,
    /// Predicted ratings.
    Ratings,
}

/// The models to judge.
#[derive(Clone, Debug)]
pub enum Models {
    /// Run folders and ensembles.
    Runs(Vec<PathBuf>),
    /// Vectors of users and items from anywhere.
    Tables {
        /// Vectors of users.
        users: PathBuf,
        /// Vectors of items.
        items: PathBuf,
        /// How two vectors are compared.
        similarity: Similarity,
    },
}

/// What to judge, and how.
#[derive(Clone, Debug)]
pub struct Evaluate {
    /// `None`: what the method of the first run is for.
    pub what: Option<What>,
    /// The models.
    pub models: Models,
    /// Where the data is and, for tables, how it is divided; what is `None` comes from the run.
    pub options: Options,
    /// Lengths of lists.
    pub ks: Vec<usize>,
    /// Seed of the sampled protocols.
    pub seed: u64,
    /// Baselines trained on the same rows; `None` for the usual ones.
    pub baselines: Option<Vec<Method>>,
}

/// What was found.
#[derive(Clone, Debug, Serialize)]
pub struct Evaluation {
    /// What was judged.
    pub what: What,
    /// The rule of the split.
    pub split: String,
    /// Tells one split from another.
    pub split_fingerprint: String,
    /// Rows that were kept back.
    pub test_rows: usize,
    /// Seed of the sampled protocols.
    pub seed: u64,
    /// What to bear in mind.
    pub notes: Vec<String>,
    /// The models in the order they were given, then the baselines.
    pub models: Vec<Judged>,
}

/// One model.
#[derive(Clone, Debug, Serialize)]
pub struct Judged {
    /// The folder, or the name of the baseline.
    pub name: String,
    /// The method, for runs and baselines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<&'static str>,
    /// Whether it is there to compare with.
    pub is_baseline: bool,
    /// The seeds of the runs.
    pub seeds: Vec<u64>,
    /// Under every protocol.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub ranking: Option<Report>,
    /// Of predicted ratings.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub ratings: Option<RatingReport>,
}

/// Judges.
///
/// # Errors
/// [`Error::Usage`] if nothing was kept back, and if data or split are not those of a run.
pub fn evaluate(settings: &Evaluate, observer: &dyn Observer) -> Result<Evaluation> {
    match &settings.models {
        Models::Runs(paths) => of_runs(settings, paths, observer),
        Models::Tables { users, items, similarity } => {
            of_tables(settings, users, items, *similarity, observer)
        }
    }
}

fn of_runs(settings: &Evaluate, paths: &[PathBuf], observer: &dyn Observer) -> Result<Evaluation> {
    let groups = paths.iter().map(|path| Group::open(path)).collect::<Result<Vec<_>>>()?;
    let Some(first) = groups.first() else {
        return Err(Error::Usage("name at least one run with --run".into()));
    };
    let divided = divided_as(first.first(), &settings.options, observer)?;
    for run in groups.iter().flat_map(|group| &group.runs) {
        same_split(first.first(), run)?;
    }
    let what = settings.what.unwrap_or(match first.purpose()? {
        Purpose::Rating => What::Ratings,
        Purpose::Ranking => What::Ranking,
        Purpose::Text => {
            let what = "learnt from documents; there is nothing to rank or to rate";
            return Err(Error::Usage(format!("{} {what}", first.first().path().display())));
        }
    });
    let court = Court::new(settings, what, &divided)?;
    let mut models = Vec::new();
    for group in &groups {
        let label = group.name.display().to_string();
        let progress = observer.progress(&label, "runs", Some(group.runs.len() as u64));
        let mut verdicts = Vec::new();
        for run in &group.runs {
            let model = Model::from_parts(Tensors(run.model()?))?;
            verdicts.push(court.judge(&model)?);
            progress.advance(1);
        }
        models.push(Judged {
            method: Some(method_of(group.first())?.name()),
            seeds: group
                .runs
                .iter()
                .filter_map(|run| run.document().get("seed")?.as_u64())
                .collect(),
            ..Verdict::combine(&verdicts).named(label)
        });
    }
    court.finish(models, observer)
}

fn of_tables(
    settings: &Evaluate,
    users: &Path,
    items: &Path,
    similarity: Similarity,
    observer: &dyn Observer,
) -> Result<Evaluation> {
    let options = &settings.options;
    let Some(path) = &options.interactions else {
        return Err(Error::Usage("vectors are judged on --interactions FILE; name it".into()));
    };
    let rule = options.rule()?;
    if rule == SplitRule::None {
        return Err(nothing_kept_back("--split"));
    }
    let data = crate::train::reading::interactions(path, options, observer)?;
    let divided = Divided::divide(data, rule, options, observer)?;
    let tables = tables::Aligned::load(users, items, divided, observer)?;
    let what = settings.what.unwrap_or(What::Ranking);
    let court = Court::new(settings, what, &tables.divided)?;
    let verdict = match what {
        What::Ranking => court.rank(&*tables.scorer(similarity)?)?,
        What::Ratings => court.judge(&tables.model())?,
    };
    let name = format!("{} x {}", users.display(), items.display());
    court.finish(vec![verdict.named(name)], observer)
}

/// The runs of an ensemble, or one alone.
struct Group {
    name: PathBuf,
    runs: Vec<RunFolder>,
}

impl Group {
    fn open(path: &Path) -> Result<Self> {
        let mut folders = run::seeds(path);
        if folders.is_empty() {
            folders.push(path.to_owned());
        }
        let runs = folders.iter().map(|folder| Ok(RunFolder::open(folder)?));
        Ok(Self { name: path.to_owned(), runs: runs.collect::<Result<_>>()? })
    }

    fn first(&self) -> &RunFolder {
        &self.runs[0] // never empty: see `open`
    }

    fn purpose(&self) -> Result<Purpose> {
        let run = self.first();
        let settings = run.document().get("settings").and_then(Value::as_object);
        Ok(purpose(method_of(run)?, settings.unwrap_or(&Map::new())))
    }
}

/// Reads and divides the data as a run did; `given` may name another place of the same data.
pub(crate) fn divided_as(
    run: &RunFolder,
    given: &Options,
    observer: &dyn Observer,
) -> Result<Divided> {
    let (method, layer) = Layer::run(run.path())?;
    let mut options = Request::new(method, &[layer])?.options;
    if given.interactions.is_some() {
        options.interactions.clone_from(&given.interactions);
    }
    let Some(path) = options.interactions.clone() else {
        let what = "does not say where its data is; name it with --interactions FILE";
        return Err(Error::Usage(format!("{} {what}", run.path().display())));
    };
    let divided = Divided::load(method, &options, observer)?;
    let document = run.document();
    let recorded = |section: &str| document.get(section)?.get("fingerprint")?.as_str();
    let folder = run.path().display();
    if recorded("data") != divided.describe_data()["fingerprint"].as_str() {
        return Err(Error::Usage(format!(
            "{} holds other data than {folder} was trained on; name the same data with --interactions",
            path.display()
        )));
    }
    if recorded("split") != Some(&divided.split.fingerprint()) {
        return Err(Error::Usage(format!(
            "{} is divided otherwise than {folder} was trained on; train it again with this version",
            path.display()
        )));
    }
    Ok(divided)
}

/// Refuses to compare what was learnt from other rows.
fn same_split(a: &RunFolder, b: &RunFolder) -> Result<()> {
    for section in ["data", "split"] {
        let of = |run: &RunFolder| run.document().get(section)?.get("fingerprint").cloned();
        if of(a) != of(b) {
            let what = if section == "data" { "data" } else { "split" };
            return Err(Error::Usage(format!(
                "{} and {} were not trained on the same {what}; evaluate them one by one",
                a.path().display(),
                b.path().display()
            )));
        }
    }
    Ok(())
}

fn nothing_kept_back(flag: &str) -> Error {
    Error::Usage(format!(
        "nothing was kept back to judge on; choose a rule with {flag}, such as leave-last-one or temporal:0.2"
    ))
}

/// What one run is found to be worth.
#[derive(Clone, Debug)]
enum Verdict {
    Ranking(Report),
    Ratings(RatingReport),
}

impl Verdict {
    fn combine(verdicts: &[Self]) -> Self {
        let rankings: Vec<Report> = verdicts.iter().filter_map(|v| v.ranking().cloned()).collect();
        let ratings: Vec<RatingReport> = verdicts.iter().filter_map(Self::ratings).collect();
        let combined = judge::combine(&rankings).map(Self::Ranking);
        let combined = combined.or_else(|| RatingReport::combine(&ratings).map(Self::Ratings));
        // INVARIANT: every group has a run, and all are judged for the same thing.
        combined.expect("verdicts of one kind")
    }

    fn ranking(&self) -> Option<&Report> {
        if let Self::Ranking(report) = self { Some(report) } else { None }
    }

    fn ratings(&self) -> Option<RatingReport> {
        if let Self::Ratings(report) = self { Some(*report) } else { None }
    }

    fn named(self, name: String) -> Judged {
        let (ranking, ratings) = (self.ranking().cloned(), self.ratings());
        Judged { name, method: None, is_baseline: false, seeds: Vec::new(), ranking, ratings }
    }
}

/// The rows to judge on.
struct Court<'a> {
    what: What,
    settings: &'a Evaluate,
    seed: Seed,
    divided: &'a Divided,
    train: Lists,
    /// What is known when the test rows come, in the order of time.
    sequences: Lists,
    aside: Lists,
    relevant: Lists,
}

impl<'a> Court<'a> {
    fn new(settings: &'a Evaluate, what: What, divided: &'a Divided) -> Result<Self> {
        let Divided { data, split, .. } = divided;
        if split.test.is_empty() {
            return Err(nothing_kept_back("train --split"));
        }
        Ok(Self {
            what,
            settings,
            seed: Seed::new(settings.seed)?,
            divided,
            train: data.by_user(&split.train),
            sequences: data.sequences(&[&split.train[..], &split.validation].concat()),
            aside: data.by_user(&split.validation),
            relevant: data.by_user(&split.test),
        })
    }

    fn judge(&self, model: &Model) -> Result<Verdict> {
        match self.what {
            What::Ranking => self.rank(&*model.scorer()?),
            What::Ratings => {
                let (user, item, rating) = self.divided.pairs(&self.divided.split.test)?;
                Ok(Verdict::Ratings(judge::ratings(model, &user, &item, &rating)?))
            }
        }
    }

    fn rank(&self, scorer: &dyn Scorer) -> Result<Verdict> {
        let task = Task {
            train: &self.train,
            sequences: Some(&self.sequences),
            aside: Some(&self.aside),
            relevant: &self.relevant,
        };
        let settings = Settings {
            ks: self.settings.ks.clone(),
            protocols: Protocol::ALL.to_vec(),
            seed: self.seed,
        };
        Ok(Verdict::Ranking(judge::ranking(scorer, &task, &settings)?))
    }

    /// Adds the baselines.
    fn finish(&self, mut models: Vec<Judged>, observer: &dyn Observer) -> Result<Evaluation> {
        let Divided { data, rule, split, .. } = self.divided;
        let mut notes = Vec::new();
        if *rule == SplitRule::LeaveLastOne {
            notes.push(LEAVE_LAST_ONE_LEAKS.to_owned());
        }
        for method in self.baselines(&mut notes) {
            let progress = observer.progress(method.name(), "rows", None);
            let model = trained(method, self.divided, &progress)?;
            let verdict = self.judge(&model)?;
            models.push(Judged {
                method: Some(method.name()),
                is_baseline: true,
                ..verdict.named(method.name().into())
            });
        }
        if self.what == What::Ranking && data.items.len() <= 100 {
            notes.push("with 100 items or fewer the sampled protocols have fewer negatives".into());
        }
        Ok(Evaluation {
            what: self.what,
            split: rule.to_string(),
            split_fingerprint: split.fingerprint(),
            test_rows: split.test.len(),
            seed: self.seed.get(),
            notes,
            models,
        })
    }

    fn baselines(&self, notes: &mut Vec<String>) -> Vec<Method> {
        if self.what == What::Ratings {
            return Vec::new();
        }
        self.settings.baselines.clone().unwrap_or_else(|| {
            let mut usual = vec![Method::Pop, Method::ItemKnn];
            if self.divided.data.items.len() <= MOST_ITEMS_FOR_EASE {
                usual.push(Method::Ease);
            } else {
                notes.push(
                    "ease is left out: with so many items it takes long; ask with --baselines"
                        .into(),
                );
            }
            usual
        })
    }
}

/// A model with the default settings of its method.
fn trained(method: Method, divided: &Divided, progress: &Progress) -> Result<Model> {
    let input = Input::of(&divided.data, &divided.split.train);
    let graphs = Graphs::default();
    let mut trainer = method.trainer(&Map::new(), input, &graphs, Seed::new(0)?)?;
    for epoch in 0..trainer.epochs() {
        trainer.epoch(epoch, progress)?;
    }
    Ok(trainer.into_model())
}
