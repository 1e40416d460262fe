//! `veridical evaluate`: runs, or any pair of vector tables, judged on rows that were kept back.
//!
//! A run is judged on exactly its own split: the data is read as the run read it, divided by the run's rule,
//! and both fingerprints are compared with those in `run.json`. Several runs are judged side by side only if
//! they share data and split. The runs of an ensemble count as one model: means over users and seeds.

mod page;
mod tables;

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Map, Value};
use veridical_core::Job;
use veridical_core::settings::Settings as _;
use veridical_core::{Seed, choices, settings};
use veridical_data::split::LEAVE_LAST_ONE_LEAKS;
use veridical_data::{Lists, SplitRule};
use veridical_embed::evaluate::{self as judge, Protocol, RatingReport, Report, Task};
use veridical_embed::fit::{FitSettings, Nowhere, fit};
use veridical_embed::{Graphs, Method, Model, Purpose, Scorer, Similarity, Trainer};
use veridical_io::run::{self, RunFolder};
use veridical_io::{Input, Output, Replace};

pub use self::page::shown;
use crate::settings::{InteractionReading, SplitSettings};
use crate::train::{Divided, Request, layer_of, method_of, purpose};
use crate::tune::Titled;
use crate::{Error, Result};

/// The closed form of `ease` takes minutes above so many items; it is left out unless asked for.
const MOST_ITEMS_FOR_EASE: usize = 8000;

choices! {
    /// What is evaluated.
    pub enum What {
        /// Lists of items: NDCG, recall, precision, hit rate, MAP, MRR, AUC
        Ranking = "ranking",
        /// Predicted ratings: RMSE and MAE
        Ratings = "ratings",
    }
}

settings! {
    /// What to evaluate, and how.
    pub struct Evaluate {
        /// What to evaluate
        pub what: Option<What> = None => [positional(), value("WHAT"), otherwise("what the method of the run is for")],
        /// Run folders or ensembles
        pub run: Vec<Input> = Vec::new()
            => [value("RUN"), at_once(), excludes(&["users", "items", "split", "split-seed", "validation", "short-users",
                "columns", "min-rating", "similarity"])],
        /// Vectors of users
        pub users: Option<Input> = None => [value("TABLE"), needs(&["items"])],
        /// Vectors of items
        pub items: Option<Input> = None => [value("TABLE"), needs(&["users"])],
        /// How vectors of users and items are compared
        pub similarity: Similarity = Similarity::Dot,
        /// Lengths of lists
        pub k: Vec<usize> = vec![1, 5, 10] => [by_comma(), value("K,K")],
        /// Seed of the sampled protocols
        pub seed: u64 = 0 => [value("S")],
        /// Baselines to compare with, or none
        pub baselines: Option<Vec<String>> = None => [by_comma(), value("A,B"), otherwise("pop,itemknn,ease")],
        /// Examples to evaluate a network on
        pub data: Option<Input> = None
            => [value("FILE_OR_FOLDER"), excludes(&["users", "interactions"]), otherwise("those the run was trained on")],
        /// Evaluate a network on these classes only
        pub classes: Option<String> = None => [value("NAME,NAME"), excludes(&["users", "interactions"])],
        /// The interactions
        pub interactions: Option<Input> = None => [otherwise("those the run was trained on")],
        /// Write a page with tables and charts
        pub html: Option<Output> = None => [heading("Output")],
        /// Write the result as JSON to this file
        pub out: Option<Output> = None => [heading("Output")],
    } with {
        /// What to do about an earlier output.
        pub replace: Replace,
        /// How the interactions of tables are read.
        pub reading: InteractionReading,
        /// How they are divided.
        pub split: SplitSettings,
    }
}

impl Evaluate {
    /// The baselines that were asked for; `None` for the usual ones.
    fn asked_baselines(&self) -> Result<Option<Vec<Method>>> {
        let usable = [Method::Pop, Method::ItemKnn, Method::Ease];
        let find = |name: &String| {
            usable.into_iter().find(|method| method.name() == name).ok_or_else(|| {
                let what = "is no baseline; choose some of pop, itemknn, ease, or none";
                Error::request(format!("⟨baselines⟩: `{name}` {what}"), "")
            })
        };
        match &self.baselines {
            Some(names) if *names == ["none"] => Ok(Some(Vec::new())),
            names => names.as_ref().map(|names| names.iter().map(find).collect()).transpose(),
        }
    }
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
/// [`Error::Core`] if nothing was kept back, and if data or split are not those of a run.
pub fn evaluate(settings: &Evaluate, job: &Job<'_>) -> Result<Evaluation> {
    settings.check()?;
    for (name, given) in
        [("data", settings.data.is_some()), ("classes", settings.classes.is_some())]
    {
        if given {
            let run = settings.run.first().map(ToString::to_string).unwrap_or_default();
            let what = "is for networks, and this is no run of one; embeddings are judged on ⟨interactions⟩";
            return Err(Error::request(format!("{run}: ⟨{name}⟩ {what}"), ""));
        }
    }
    settings.asked_baselines()?; // before data is read
    match (&settings.users, &settings.items) {
        (Some(users), Some(items)) => of_tables(settings, users, items, job),
        _ => of_runs(settings, job),
    }
}

fn of_runs(settings: &Evaluate, job: &Job<'_>) -> Result<Evaluation> {
    let groups = settings.run.iter().map(|path| Group::open(path)).collect::<Result<Vec<_>>>()?;
    let Some(first) = groups.first() else {
        return Err(Error::missing("name at least one run with ⟨run⟩", ""));
    };
    let divided = divided_as(first.first(), settings.interactions.as_deref(), job)?;
    for run in groups.iter().flat_map(|group| &group.runs) {
        same_split(first.first(), run)?;
    }
    let what = settings.what.unwrap_or(match first.purpose()? {
        Purpose::Rating => What::Ratings,
        Purpose::Ranking => What::Ranking,
        Purpose::Text => {
            let what = "learnt from documents; there is nothing to rank or to rate";
            return Err(Error::request(format!("{} {what}", first.first().path().display()), ""));
        }
    });
    let court = Court::new(settings, what, &divided)?;
    let mut models = Vec::new();
    for group in &groups {
        let label = group.name.display().to_string();
        let progress = job.progress(&label, "runs", Some(group.runs.len() as u64));
        let mut verdicts = Vec::new();
        for run in &group.runs {
            let model = Model::from_parts(run.model()?)?;
            verdicts.push(court.judge(&model, job)?);
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
    court.finish(models, job)
}

fn of_tables(settings: &Evaluate, users: &Path, items: &Path, job: &Job<'_>) -> Result<Evaluation> {
    let Some(path) = &settings.interactions else {
        return Err(Error::request("vectors are judged on ⟨interactions⟩ FILE", "name it"));
    };
    let rule = settings.split.rule()?;
    if rule == SplitRule::None {
        return Err(nothing_kept_back("⟨split⟩"));
    }
    let data = crate::train::reading::interactions(path, &settings.reading, job)?;
    let divided = Divided::divide(data, rule, &settings.split, job)?;
    let tables = tables::Aligned::load(users, items, divided, job)?;
    let what = settings.what.unwrap_or(What::Ranking);
    let court = Court::new(settings, what, &tables.divided)?;
    let verdict = match what {
        What::Ranking => court.rank(&*tables.scorer(settings.similarity)?, job)?,
        What::Ratings => court.judge(&tables.model(), job)?,
    };
    let name = format!("{} x {}", users.display(), items.display());
    court.finish(vec![verdict.named(name)], job)
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
pub(crate) fn divided_as(run: &RunFolder, given: Option<&Path>, job: &Job<'_>) -> Result<Divided> {
    let (method, layer) = layer_of(run.path())?;
    let mut options = Request::new(method, &[layer])?.options;
    if let Some(path) = given {
        options.interactions = Some(path.into());
    }
    let Some(path) = options.interactions.clone() else {
        let what = "does not say where its data is; name it with ⟨interactions⟩ FILE";
        return Err(Error::request(format!("{} {what}", run.path().display()), ""));
    };
    let divided = Divided::load(method, &options, job)?;
    let document = run.document();
    let recorded = |section: &str| document.get(section)?.get("fingerprint")?.as_str();
    let folder = run.path().display();
    if recorded("data") != divided.describe_data()["fingerprint"].as_str() {
        return Err(Error::request(
            format!("{} holds other data than {folder} was trained on", path.display()),
            "name the same data with ⟨interactions⟩",
        ));
    }
    if recorded("split") != Some(&divided.split.fingerprint()) {
        return Err(Error::request(
            format!("{} is divided otherwise than {folder} was trained on", path.display()),
            "train it again with this version",
        ));
    }
    Ok(divided)
}

/// Refuses to compare what was learnt from other rows.
fn same_split(a: &RunFolder, b: &RunFolder) -> Result<()> {
    for section in ["data", "split"] {
        let of = |run: &RunFolder| run.document().get(section)?.get("fingerprint").cloned();
        if of(a) != of(b) {
            let what = if section == "data" { "data" } else { "split" };
            return Err(Error::request(
                format!(
                    "{} and {} were not trained on the same {what}",
                    a.path().display(),
                    b.path().display()
                ),
                "evaluate them one by one",
            ));
        }
    }
    Ok(())
}

fn nothing_kept_back(flag: &str) -> Error {
    Error::request(
        "nothing was kept back to judge on",
        format!("choose a rule with {flag}, such as leave-last-one or temporal:0.2"),
    )
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
            return Err(nothing_kept_back("train ⟨split⟩"));
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

    fn judge(&self, model: &Model, job: &Job<'_>) -> Result<Verdict> {
        match self.what {
            What::Ranking => self.rank(&*model.scorer()?, job),
            What::Ratings => {
                let (user, item, rating) = self.divided.pairs(&self.divided.split.test)?;
                Ok(Verdict::Ratings(judge::ratings(model, &user, &item, &rating)?))
            }
        }
    }

    fn rank(&self, scorer: &dyn Scorer, job: &Job<'_>) -> Result<Verdict> {
        let task = Task {
            train: &self.train,
            sequences: Some(&self.sequences),
            aside: Some(&self.aside),
            relevant: &self.relevant,
        };
        let settings = judge::Settings {
            ks: self.settings.k.clone(),
            protocols: Protocol::ALL.to_vec(),
            seed: self.seed,
        };
        Ok(Verdict::Ranking(judge::ranking(scorer, &task, &settings, job)?))
    }

    /// Adds the baselines.
    fn finish(&self, mut models: Vec<Judged>, job: &Job<'_>) -> Result<Evaluation> {
        let Divided { data, rule, split, .. } = self.divided;
        let mut notes = Vec::new();
        if *rule == SplitRule::LeaveLastOne {
            notes.push(LEAVE_LAST_ONE_LEAKS.to_owned());
        }
        for method in self.baselines(&mut notes)? {
            let model = trained(method, self.divided, job)?;
            let verdict = self.judge(&model, job)?;
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

    fn baselines(&self, notes: &mut Vec<String>) -> Result<Vec<Method>> {
        if self.what == What::Ratings {
            return Ok(Vec::new());
        }
        Ok(self.settings.asked_baselines()?.unwrap_or_else(|| {
            let mut usual = vec![Method::Pop, Method::ItemKnn];
            if self.divided.data.items.len() <= MOST_ITEMS_FOR_EASE {
                usual.push(Method::Ease);
            } else {
                notes.push(
                    "ease is left out: with so many items it takes long; ask with ⟨baselines⟩"
                        .into(),
                );
            }
            usual
        }))
    }
}

/// A model with the default settings of its method, as `train` would leave it.
fn trained(method: Method, divided: &Divided, job: &Job<'_>) -> Result<Model> {
    let input = veridical_embed::Input::of(&divided.data, &divided.split.train);
    let graphs = Graphs::default();
    let mut trainer = method.trainer(&Map::new(), input, &graphs, Seed::new(0)?)?;
    let titled = Titled(job.observer, method.name());
    let each = |_, _: Option<f64>, _: &dyn Trainer| Ok::<(), Error>(());
    let (settings, job) = (FitSettings::default(), job.told_to(&titled));
    fit(&mut *trainer, settings, None, None::<&Nowhere>, None, &job, each)?;
    Ok(trainer.into_model())
}
