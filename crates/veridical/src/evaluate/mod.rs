//! `veridical evaluate`: evaluates runs, or any pair of user and item vector tables, on held-out interactions.
//!
//! A run is evaluated on exactly its own split: the data is read as the run read it, split by the run's rule, and both
//! fingerprints are compared with those in `run.json`. Several runs are evaluated side by side only if they share data
//! and split. The runs of an ensemble count as one model: means are over users and seeds.

mod page;
mod tables;

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Map, Value};
use veridical_core::Job;
use veridical_core::settings::Settings as _;
use veridical_core::{Estimate, Seed, choices, settings};
use veridical_data::split::LEAVE_LAST_ONE_LEAKS;
use veridical_data::{Lists, SplitRule};
use veridical_embed::evaluate::{
    self as metrics, ByUser, Measure, Protocol, RatingReport, Report, Task,
};
use veridical_embed::fit::{FitSettings, Nowhere, fit};
use veridical_embed::trainers::ease;
use veridical_embed::{Graphs, Method, Model, Purpose, Scorer, Similarity, Trainer};
use veridical_io::run::{self, RunFolder};
use veridical_io::{Input, Output, Replace};

pub use self::page::shown;
use crate::settings::{InteractionReading, MemoryLimit, SplitSettings};
use crate::train::{Divided, Request, layer_of, method_of, purpose};
use crate::tune::Titled;
use crate::{Error, Result};

/// The closed form of `ease` takes minutes above this number of items; it is then skipped unless requested.
const MOST_ITEMS_FOR_EASE: usize = 8000;
/// The memory of `ease`, in bytes, above which it is said beforehand.
const SMALL_EASE: u64 = 256 << 20;

choices! {
    /// Task that a model is evaluated on.
    pub enum What {
        /// Ranked lists: NDCG, recall, precision, hit rate, MAP, MRR, AUC
        Ranking = "ranking",
        /// Predicted ratings: RMSE and MAE
        Ratings = "ratings",
    }
}

settings! {
    /// Settings of [`evaluate`].
    pub struct Evaluate {
        /// Task to evaluate
        pub what: Option<What> = None => [positional(), value("WHAT"), otherwise("the task of the run's method")],
        /// Run folders or ensembles to evaluate
        pub run: Vec<Input> = Vec::new()
            => [value("RUN"), at_once(), excludes(&["users", "items", "split", "split-seed", "validation", "short-users",
                "columns", "min-rating", "similarity"])],
        /// User vectors (vector table)
        pub users: Option<Input> = None => [value("TABLE"), needs(&["items"])],
        /// Item vectors (vector table)
        pub items: Option<Input> = None => [value("TABLE"), needs(&["users"])],
        /// Similarity between user and item vectors
        pub similarity: Similarity = Similarity::Dot,
        /// Cutoffs k of the ranking metrics
        pub k: Vec<usize> = vec![1, 5, 10] => [by_comma(), value("K,K")],
        /// Metrics of the table, such as ndcg@10, map or auc
        pub measures: Vec<String> = Vec::new()
            => [by_comma(), value("A,B"), otherwise("ndcg, recall and hit at the largest k")],
        /// Show every metric under every protocol
        pub all: bool = false => [switch()],
        /// Rank the items of the user's history as well, as RecBole does for sequential models
        pub keep_history: bool = false => [switch()],
        /// Random seed of the sampled protocols
        pub seed: u64 = 0 => [value("S")],
        /// Baselines to train and compare with, or none
        pub baselines: Option<Vec<String>> = None => [by_comma(), value("A,B"), otherwise("pop,itemknn,ease")],
        /// Examples to evaluate a network on
        pub data: Option<Input> = None
            => [value("FILE_OR_FOLDER"), excludes(&["users", "interactions"]), otherwise("the training data of the run")],
        /// Labels of ⟨data⟩, for models trained on vectors
        pub labels: Option<Input> = None => [needs(&["data"]), otherwise("those of the training")],
        /// Evaluate a network on these classes only
        pub classes: Option<String> = None => [value("NAME,NAME"), excludes(&["users", "interactions"])],
        /// User-item interactions (file or folder)
        pub interactions: Option<Input> = None => [otherwise("the training data of the run")],
        /// HTML report to write, with tables and charts
        pub html: Option<Output> = None => [heading("Output")],
        /// JSON file to write the result to
        pub out: Option<Output> = None => [heading("Output")],
    } with {
        /// Whether existing output is replaced.
        pub replace: Replace,
        /// How interactions are read when evaluating vector tables.
        pub reading: InteractionReading,
        /// How interactions are split when evaluating vector tables.
        pub split: SplitSettings,
        /// Memory of the baselines.
        pub memory: MemoryLimit,
    }
}

impl Evaluate {
    /// Returns the cutoffs: those of ⟨k⟩ and those of ⟨measures⟩.
    fn cutoffs(&self) -> Vec<usize> {
        let of = |name: &String| name.split_once('@').and_then(|(_, k)| k.parse().ok());
        let mut cutoffs = self.k.clone();
        cutoffs.extend(self.measures.iter().filter_map(of).filter(|k| !self.k.contains(k)));
        cutoffs.sort_unstable();
        cutoffs.dedup();
        cutoffs
    }

    /// Returns the metrics of the table.
    fn columns(&self) -> Result<Vec<String>> {
        if self.measures.is_empty() {
            let k = self.k.iter().max().copied().unwrap_or(10);
            return Ok(["ndcg", "recall", "hit"].map(|name| format!("{name}@{k}")).to_vec());
        }
        let known = metrics::metrics::names(&self.cutoffs());
        match self.measures.iter().find(|name| !known.contains(name)) {
            None => Ok(self.measures.clone()),
            Some(name) => Err(Error::request(
                format!("⟨measures⟩: there is no metric `{name}`"),
                "choose from ndcg@K, recall@K, precision@K, hit@K, map, mrr and auc",
            )),
        }
    }

    /// Returns the requested baselines; `None` for the default ones.
    fn requested_baselines(&self) -> Result<Option<Vec<Method>>> {
        let usable = [Method::Pop, Method::ItemKnn, Method::Ease];
        let find = |name: &String| {
            usable.into_iter().find(|method| method.name() == name).ok_or_else(|| {
                let what = "is not a baseline; choose from pop, itemknn and ease, or none";
                Error::request(format!("⟨baselines⟩: `{name}` {what}"), "")
            })
        };
        match &self.baselines {
            Some(names) if *names == ["none"] => Ok(Some(Vec::new())),
            names => names.as_ref().map(|names| names.iter().map(find).collect()).transpose(),
        }
    }
}

/// Result of [`evaluate`].
#[derive(Clone, Debug, Serialize)]
pub struct Evaluation {
    /// Task that was evaluated.
    pub what: What,
    /// Split rule.
    pub split: String,
    /// Fingerprint of the split.
    pub split_fingerprint: String,
    /// Number of held-out test rows.
    pub test_rows: usize,
    /// Random seed of the sampled protocols.
    pub seed: u64,
    /// Whether the items of the history were ranked, too.
    pub keep_history: bool,
    /// Metrics of the table, in the order of its columns.
    pub columns: Vec<String>,
    /// Caveats about the numbers.
    pub notes: Vec<String>,
    /// Results per model, in the order given, followed by the baselines.
    pub models: Vec<EvaluatedModel>,
}

/// Evaluation of one model.
#[derive(Clone, Debug, Serialize)]
pub struct EvaluatedModel {
    /// Run folder, or name of the baseline.
    pub name: String,
    /// Training method, for runs and baselines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<&'static str>,
    /// Whether the model is a baseline.
    pub is_baseline: bool,
    /// Random seeds of the runs.
    pub seeds: Vec<u64>,
    /// Ranking metrics under every protocol.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub ranking: Option<Report>,
    /// Errors of predicted ratings.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub ratings: Option<RatingReport>,
    /// Comparison with the best baseline, user by user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub versus: Option<Versus>,
}

/// Differences to the best baseline, the one with the highest first metric of the table.
#[derive(Clone, Debug, Serialize)]
pub struct Versus {
    /// Name of the baseline.
    pub baseline: String,
    /// Means over users of the difference of a metric, under the first protocol.
    pub differences: Vec<Measure>,
}

/// Evaluates runs or vector tables on held-out interactions.
///
/// # Errors
/// [`Error::Core`] if the split holds nothing out, and if data or split differ from those of a run.
///
/// # Example
/// ```
/// use veridical::core::Job;
/// use veridical::evaluate::{Evaluate, evaluate};
/// # use serde_json::json;
/// # use veridical::core::settings::SettingsLayer;
/// # use veridical::embed::Method;
/// # use veridical::prepare::{Generate, GeneratedKind, TablesOutput};
/// # use veridical::settings::{RunOutput, Start};
/// # use veridical::train::{self, Request, Train};
/// # let folder = tempfile::tempdir().unwrap();
/// # let at = |name: &str| folder.path().join(name);
/// # let shop = Generate {
/// #     what: Some(GeneratedKind::Shop),
/// #     users: 60,
/// #     items: 80,
/// #     per_user: 8,
/// #     output: TablesOutput { out: at("shop").into(), ..TablesOutput::default() },
/// #     ..Generate::default()
/// # };
/// # veridical::prepare::generate(&shop)?;
/// # let interactions = at("shop/interactions.csv");
/// # let given = json!({ "interactions": interactions, "dim": 4, "epochs": 2, "split": "leave-last-one" });
/// # let layer = SettingsLayer::given(given.as_object().cloned().unwrap());
/// # let request = Request::new(Method::Bpr, &[layer])?;
/// # let output = RunOutput { out: Some(at("run").into()), ..RunOutput::default() };
/// # train::train(&Train { request, start: Start { output, ..Start::default() } }, &Job::silent())?;
///
/// // `run` was trained with the split leave-last-one: one test row for each of 60 users.
/// let baselines = Some(vec!["pop".to_owned()]);
/// let settings = Evaluate { run: vec![at("run").into()], baselines, ..Evaluate::default() };
/// let evaluation = evaluate(&settings, &Job::silent())?;
/// assert_eq!(evaluation.test_rows, 60);
/// let ndcg = evaluation.models[0].ranking.as_ref().unwrap().get("full", "ndcg@10").unwrap();
/// assert!(ndcg.low <= ndcg.value && ndcg.value <= ndcg.high);
/// # Ok::<(), veridical::Error>(())
/// ```
pub fn evaluate(settings: &Evaluate, job: &Job<'_>) -> Result<Evaluation> {
    settings.check()?;
    for (name, given) in [
        ("data", settings.data.is_some()),
        ("labels", settings.labels.is_some()),
        ("classes", settings.classes.is_some()),
    ] {
        if given {
            let run = settings.run.first().map(ToString::to_string).unwrap_or_default();
            let what = "is for networks, and this run is not one; embeddings are evaluated on ⟨interactions⟩";
            return Err(Error::request(format!("{run}: ⟨{name}⟩ {what}"), ""));
        }
    }
    settings.requested_baselines()?; // fail before data is read
    settings.columns()?;
    match (&settings.users, &settings.items) {
        (Some(users), Some(items)) => of_tables(settings, users, items, job),
        _ => of_runs(settings, job),
    }
}

fn of_runs(settings: &Evaluate, job: &Job<'_>) -> Result<Evaluation> {
    let groups = settings.run.iter().map(|path| Group::open(path)).collect::<Result<Vec<_>>>()?;
    let Some(first) = groups.first() else {
        return Err(Error::missing("pass at least one run with ⟨run⟩", ""));
    };
    let divided = divided_as(first.first(), settings.interactions.as_deref(), job)?;
    for run in groups.iter().flat_map(|group| &group.runs) {
        same_split(first.first(), run)?;
    }
    let what = settings.what.unwrap_or(match first.purpose()? {
        Purpose::Rating => What::Ratings,
        Purpose::Ranking => What::Ranking,
        Purpose::Text => {
            let what = "was trained on documents; it predicts neither rankings nor ratings";
            return Err(Error::request(format!("{} {what}", first.first().path().display()), ""));
        }
    });
    let evaluator = Evaluator::new(settings, what, &divided)?;
    let baselines = evaluator.baselines(job)?;
    let mut models = Vec::new();
    for group in &groups {
        let label = group.name.display().to_string();
        let progress = job.progress(&label, "runs", Some(group.runs.len() as u64));
        let mut runs = Vec::new();
        for run in &group.runs {
            let model = Model::from_parts(run.model()?)?;
            runs.push(evaluator.evaluate(&model, job)?);
            progress.advance(1);
        }
        let method = method_of(group.first())?;
        if method == Method::Item2vec && what == What::Ranking {
            job.warn(MEAN_OF_VECTORS);
        }
        models.push(EvaluatedModel {
            method: Some(method.name()),
            seeds: group
                .runs
                .iter()
                .filter_map(|run| run.document().get("seed")?.as_u64())
                .collect(),
            versus: baselines.versus(&runs, &evaluator.columns),
            ..Metrics::combine(&runs).named(label)
        });
    }
    evaluator.finish(models, baselines)
}

/// Said where item2vec ranks: its vectors are made for neighbors, and the mean of a long history is near everything.
pub(crate) const MEAN_OF_VECTORS: &str = "item2vec ranks by the cosine to the mean of the history, often far below `pop`: \
    use its vectors for neighbors and features, and bpr, als, ease or sasrec to recommend";

fn of_tables(settings: &Evaluate, users: &Path, items: &Path, job: &Job<'_>) -> Result<Evaluation> {
    let Some(path) = &settings.interactions else {
        return Err(Error::request(
            "vectors are evaluated on ⟨interactions⟩ FILE",
            "pass the file",
        ));
    };
    let rule = settings.split.rule()?;
    if rule == SplitRule::None {
        return Err(nothing_held_out("⟨split⟩"));
    }
    let data = crate::train::reading::interactions(path, &settings.reading, job)?;
    let divided = Divided::divide(data, rule, &settings.split, job)?;
    let tables = tables::Aligned::load(users, items, divided, job)?;
    let what = settings.what.unwrap_or(What::Ranking);
    let evaluator = Evaluator::new(settings, what, &tables.divided)?;
    let found = match what {
        What::Ranking => evaluator.rank(&*tables.scorer(settings.similarity)?, job)?,
        What::Ratings => evaluator.evaluate(&tables.model(), job)?,
    };
    let name = format!("{} x {}", users.display(), items.display());
    let baselines = evaluator.baselines(job)?;
    let versus = baselines.versus(std::slice::from_ref(&found), &evaluator.columns);
    evaluator.finish(vec![EvaluatedModel { versus, ..found.named(name) }], baselines)
}

/// The runs of an ensemble, or a single run.
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

/// Reads and splits the data as the run did; `given` may be another location of the same data.
pub(crate) fn divided_as(run: &RunFolder, given: Option<&Path>, job: &Job<'_>) -> Result<Divided> {
    let (method, layer) = layer_of(run.path())?;
    let mut options = Request::new(method, &[layer])?.options;
    if let Some(path) = given {
        options.interactions = Some(path.into());
    }
    let Some(path) = options.interactions.clone() else {
        let what = "does not record where its data is; pass it with ⟨interactions⟩ FILE";
        return Err(Error::request(format!("{} {what}", run.path().display()), ""));
    };
    let divided = Divided::load(method, &options, job)?;
    let document = run.document();
    let recorded = |section: &str| document.get(section)?.get("fingerprint")?.as_str();
    let folder = run.path().display();
    if recorded("data") != divided.describe_data()["fingerprint"].as_str() {
        return Err(Error::request(
            format!("{} is not the data that {folder} was trained on", path.display()),
            "pass the same data with ⟨interactions⟩",
        ));
    }
    if recorded("split") != Some(&divided.split.fingerprint()) {
        return Err(Error::request(
            format!("the split of {} differs from the one {folder} was trained on", path.display()),
            "train the run again with this version",
        ));
    }
    Ok(divided)
}

/// Rejects runs that were trained on different rows.
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

fn nothing_held_out(flag: &str) -> Error {
    Error::request(
        "the split holds out no rows to evaluate on",
        format!("choose a split with {flag}, such as leave-last-one or temporal:0.2"),
    )
}

/// Metrics of one run.
#[derive(Clone, Debug)]
enum Metrics {
    Ranking(Report, ByUser),
    Ratings(RatingReport),
}

impl Metrics {
    fn combine(runs: &[Self]) -> Self {
        let rankings: Vec<Report> = runs.iter().filter_map(|run| run.ranking().cloned()).collect();
        let ratings: Vec<RatingReport> = runs.iter().filter_map(Self::ratings).collect();
        let first = runs.first().and_then(Self::by_user).cloned();
        let combined =
            metrics::combine(&rankings).zip(first).map(|(all, one)| Self::Ranking(all, one));
        let combined = combined.or_else(|| RatingReport::combine(&ratings).map(Self::Ratings));
        // INVARIANT: every group has a run, and all runs are evaluated on the same task.
        combined.expect("metrics of one kind")
    }

    fn ranking(&self) -> Option<&Report> {
        if let Self::Ranking(report, _) = self { Some(report) } else { None }
    }

    fn by_user(&self) -> Option<&ByUser> {
        if let Self::Ranking(_, by_user) = self { Some(by_user) } else { None }
    }

    fn ratings(&self) -> Option<RatingReport> {
        if let Self::Ratings(report) = self { Some(*report) } else { None }
    }

    fn named(self, name: String) -> EvaluatedModel {
        let (ranking, ratings) = (self.ranking().cloned(), self.ratings());
        EvaluatedModel {
            name,
            method: None,
            is_baseline: false,
            seeds: Vec::new(),
            ranking,
            ratings,
            versus: None,
        }
    }
}

/// The baselines, and what was left out.
#[derive(Default)]
struct Baselines {
    models: Vec<EvaluatedModel>,
    /// The metrics of the best one by user.
    best: Option<(String, ByUser)>,
    notes: Vec<String>,
}

impl Baselines {
    /// Compares runs with the best baseline.
    fn versus(&self, runs: &[Metrics], columns: &[String]) -> Option<Versus> {
        let (baseline, best) = self.best.as_ref()?;
        let difference = |name: &String| {
            let of = |run: &Metrics| run.by_user()?.difference(best, name);
            let runs: Option<Vec<Estimate>> = runs.iter().map(of).collect();
            Some(Measure { name: name.clone(), estimate: Estimate::over_seeds(&runs?)? })
        };
        let differences = columns.iter().map(difference).collect::<Option<Vec<_>>>()?;
        Some(Versus { baseline: baseline.clone(), differences })
    }
}

/// The held-out rows and everything needed to evaluate a model on them.
struct Evaluator<'a> {
    what: What,
    settings: &'a Evaluate,
    seed: Seed,
    divided: &'a Divided,
    train: Lists,
    /// Interactions known when the test rows occur, in order of time.
    sequences: Lists,
    aside: Lists,
    relevant: Lists,
    /// Metrics of the table.
    columns: Vec<String>,
}

impl<'a> Evaluator<'a> {
    fn new(settings: &'a Evaluate, what: What, divided: &'a Divided) -> Result<Self> {
        let Divided { data, split, .. } = divided;
        if split.test.is_empty() {
            return Err(nothing_held_out("train ⟨split⟩"));
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
            columns: if what == What::Ranking { settings.columns()? } else { Vec::new() },
        })
    }

    fn evaluate(&self, model: &Model, job: &Job<'_>) -> Result<Metrics> {
        match self.what {
            What::Ranking => self.rank(&*model.scorer()?, job),
            What::Ratings => {
                let (user, item, rating) = self.divided.pairs(&self.divided.split.test)?;
                Ok(Metrics::Ratings(metrics::ratings(model, &user, &item, &rating)?))
            }
        }
    }

    fn rank(&self, scorer: &dyn Scorer, job: &Job<'_>) -> Result<Metrics> {
        let task = Task {
            train: &self.train,
            sequences: Some(&self.sequences),
            aside: Some(&self.aside),
            relevant: &self.relevant,
            keep_history: self.settings.keep_history,
        };
        // Sampled candidates are never items of the history.
        let protocols = match self.settings.keep_history {
            true => vec![Protocol::Full],
            false => Protocol::ALL.to_vec(),
        };
        let settings =
            metrics::Settings { ks: self.settings.cutoffs(), protocols, seed: self.seed };
        let (report, by_user) = metrics::ranking_by_user(scorer, &task, &settings, job)?;
        Ok(Metrics::Ranking(report, by_user))
    }

    /// Trains and evaluates the baselines.
    fn baselines(&self, job: &Job<'_>) -> Result<Baselines> {
        let mut baselines = Baselines::default();
        if self.what == What::Ratings {
            return Ok(baselines);
        }
        let mut best: Option<f64> = None;
        for method in self.chosen_baselines(&mut baselines.notes)? {
            let needed = ease::bytes(self.divided.data.items.len());
            if method == Method::Ease && needed > SMALL_EASE {
                job.note(&format!("the baseline ease takes {} MiB of memory", mib(needed)));
            }
            let model = trained(method, self.divided, job)?;
            let found = self.evaluate(&model, job)?;
            let value = self.columns.first().and_then(|name| found.ranking()?.get("full", name));
            if let (Some(value), Some(by_user)) = (value, found.by_user())
                && best.is_none_or(|best| value.value > best)
            {
                best = Some(value.value);
                baselines.best = Some((method.name().into(), by_user.clone()));
            }
            baselines.models.push(EvaluatedModel {
                method: Some(method.name()),
                is_baseline: true,
                ..found.named(method.name().into())
            });
        }
        Ok(baselines)
    }

    /// Assembles the result.
    fn finish(&self, mut models: Vec<EvaluatedModel>, baselines: Baselines) -> Result<Evaluation> {
        let Divided { data, rule, split, .. } = self.divided;
        let mut notes = Vec::new();
        if *rule == SplitRule::LeaveLastOne {
            notes.push(LEAVE_LAST_ONE_LEAKS.to_owned());
        }
        notes.extend(baselines.notes);
        models.extend(baselines.models);
        if self.what == What::Ranking && data.items.len() <= 100 {
            notes.push("with 100 items or fewer the sampled protocols have fewer negatives".into());
        }
        Ok(Evaluation {
            what: self.what,
            split: rule.to_string(),
            split_fingerprint: split.fingerprint(),
            test_rows: split.test.len(),
            seed: self.seed.get(),
            keep_history: self.settings.keep_history,
            columns: self.columns.clone(),
            notes,
            models,
        })
    }

    /// Returns the requested baselines, or the usual ones that are fast and fit into memory.
    fn chosen_baselines(&self, notes: &mut Vec<String>) -> Result<Vec<Method>> {
        let items = self.divided.data.items.len();
        let (needed, allowed) = (ease::bytes(items), self.settings.memory.bytes());
        if let Some(requested) = self.settings.requested_baselines()? {
            if requested.contains(&Method::Ease) && needed > allowed {
                return Err(Error::request(
                    format!(
                        "⟨baselines⟩: ease needs {} MiB of memory for {items} items",
                        mib(needed)
                    ),
                    format!(
                        "allow it with ⟨memory⟩ {}, or leave ease out: itemknn needs little",
                        mib(needed)
                    ),
                ));
            }
            return Ok(requested);
        }
        let mut usual = vec![Method::Pop, Method::ItemKnn];
        if items <= MOST_ITEMS_FOR_EASE && needed <= allowed {
            usual.push(Method::Ease);
        } else {
            notes.push(format!(
                "ease is skipped: {items} items would take minutes and {} MiB of memory; request it with ⟨baselines⟩",
                mib(needed)
            ));
        }
        Ok(usual)
    }
}

const fn mib(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 20)
}

/// Trains a model with the default settings of its method, as `train` would.
fn trained(method: Method, divided: &Divided, job: &Job<'_>) -> Result<Model> {
    let input = veridical_embed::Input::of(&divided.data, &divided.split.train);
    let graphs = Graphs::default();
    let mut trainer = method.trainer(&Map::new(), input, &graphs, Seed::new(0)?)?;
    let titled = Titled(job.observer, method.name());
    let each = |_, _: Option<f64>, _: &dyn Trainer| Ok::<(), Error>(());
    let (settings, job) = (FitSettings::default(), job.with_observer(&titled));
    fit(&mut *trainer, settings, None, None::<&Nowhere>, None, &job, each)?;
    Ok(trainer.into_model())
}
