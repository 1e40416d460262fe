//! What is explained: a network of images, tables, vectors or documents, the training rows that it learned from, queries, and the kernel of them all.
//!
//! Training rows are those that `train net` saw: the rows of the data less those excluded, held out or beyond its limit. Above `rows`
//! of them a stratified part is taken: of class c the first round(rows n_c / n) of an order drawn by the seed, at least one. Without
//! `queries` the test set of the data is asked about, else the validation rows, else a tenth of the training rows, held out.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use veridical_core::settings::{Kind as SettingKind, Setting};
use veridical_core::{Error as Refusal, Job, Order, Rows, Seed, settings};
use veridical_data::Ids;
use veridical_io::{Input, run};
use veridical_kernels::tangent::{
    Factors, Kind, Plan, Settings as KernelSettings, Share, kernel as kernel_of,
};
use veridical_nets::Net;

use super::network::{Fed, Network};
use super::samples::Samples;
use crate::kernel::Store;
use crate::net::{Again, Division, LearnedTexts, Normalization, Saved, divide};
use crate::{Error, Result};

/// Share of the training rows that are queries if there is nothing else.
const HELD_OUT: f64 = 0.1;
/// Queries that are explained unless there are fewer.
const MOST_QUERIES: usize = 1000;

/// A number of rows, or all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum RowLimit {
    /// At most so many.
    Most(usize),
    /// All.
    All,
}

impl Setting for RowLimit {
    const KIND: SettingKind = SettingKind::Text;
}

impl FromStr for RowLimit {
    type Err = Refusal;

    fn from_str(text: &str) -> std::result::Result<Self, Refusal> {
        match text.parse::<usize>() {
            _ if text == "all" => Ok(Self::All),
            Ok(n) if n > 0 => Ok(Self::Most(n)),
            _ => Err(Refusal::setting("rows", "a number of at least 1, or `all`", text)),
        }
    }
}

impl TryFrom<String> for RowLimit {
    type Error = Refusal;

    fn try_from(text: String) -> std::result::Result<Self, Refusal> {
        text.parse()
    }
}

impl From<RowLimit> for String {
    fn from(limit: RowLimit) -> Self {
        match limit {
            RowLimit::Most(n) => n.to_string(),
            RowLimit::All => "all".into(),
        }
    }
}

settings! {
    /// The network to explain, its training rows and the queries.
    pub struct SubjectSettings in "Run and data" {
        /// Run of `train net`, or of `train text --model rnn`, to explain
        pub run: Input = Input::default() => [required(), value("RUN")],
        /// The data that it was trained on
        pub data: Option<Input> = None => [value("FILE_OR_FOLDER"), otherwise("the path in the run")],
        /// Training rows to use, stratified by class: a number, or `all`
        pub rows: RowLimit = RowLimit::Most(5000) => [value("N")],
        /// Layers of the kernel, by name or pattern
        pub layers: Option<String> = None => [detail(), value("NAME,PATTERN*"), otherwise("all")],
        /// Memory for the kernel, in MB
        pub memory: u64 = 2000 => [detail(), value("MB"), at_least(64.0)],
        /// Random seed of the rows, of held-out queries and of random cotangents
        pub seed: u64 = 0 => [value("S")],
        /// Factors of the training rows, from `kernel store`, instead of passes through the network
        pub store: Option<Input> = None => [detail(), value("FOLDER")],
    }
}

/// A network with its training rows and queries.
pub(crate) struct Subject {
    pub network: Network,
    /// Names of the classes; none for a regression.
    pub classes: Vec<String>,
    /// Training rows that are used, with their numbers in the data.
    pub train: Samples,
    pub rows: Vec<usize>,
    /// All training rows of the run, with their numbers.
    pub everything: Samples,
    pub numbers: Vec<usize>,
    pub queries: Samples,
    /// Names of the queries: those of their file, or row numbers.
    pub query_ids: Ids,
    /// What the queries are, for the page.
    pub query_source: String,
    pub notes: Vec<String>,
}

/// Kernel values of a subject.
pub(crate) struct Kernels {
    /// Training rows with each other, n x n.
    pub train: Vec<f32>,
    /// Queries with training rows, q x n.
    pub queries: Vec<f32>,
    /// Share of every layer in the trace.
    pub shares: Vec<(String, f64)>,
    /// Floating-point operations of the kernel.
    pub operations: f64,
    /// Bytes of its factors.
    pub bytes: f64,
    /// Training rows without a gradient, by their place: their kernel is 0.
    pub zeros: Vec<usize>,
}

/// Returns the runs of an ensemble, or the run itself.
pub(crate) fn runs(path: &Path) -> Vec<PathBuf> {
    let seeds = run::seeds(path);
    if seeds.is_empty() { vec![path.to_owned()] } else { seeds }
}

/// What a run learned from, and what it did not.
struct Learned {
    train: Samples,
    rows: Vec<usize>,
    validation: Option<Samples>,
    test: Option<Samples>,
}

impl Learned {
    fn of(network: &Network, given: Option<&Path>, job: &Job<'_>) -> Result<Self> {
        match network {
            Network::Net(saved) => Self::of_net(saved, given, job),
            Network::Text(saved) => {
                let some = |part: LearnedTexts| {
                    let LearnedTexts { texts, labels, .. } = part;
                    Some(Samples::Documents { texts, labels }).filter(|part| part.n() > 0)
                };
                let [train, validation, test] = saved.learned_from(given, job)?;
                let rows = train.rows;
                let train = Samples::Documents { texts: train.texts, labels: train.labels };
                Ok(Self { train, rows, validation: some(validation), test: some(test) })
            }
        }
    }

    fn of_net(saved: &Saved, given: Option<&Path>, job: &Job<'_>) -> Result<Self> {
        let path = saved.data(given)?;
        let data = saved.read(&path, None, None, job)?;
        check_same(saved, &data.fingerprint, &path)?;
        let Division { train, rows, validation, .. } =
            divide(data.train, &saved.task, &saved.request.options)?;
        let Some(train) = train else {
            let what = format!("{} has no training examples", path.display());
            return Err(Error::request(what, "pass the data that the network was trained on"));
        };
        let of = |examples| Samples::Examples(examples, saved.columns());
        Ok(Self { train: of(train), rows, validation: validation.map(of), test: data.test.map(of) })
    }
}

impl Subject {
    /// Opens a run with its data; `queries` is a file or folder of inputs.
    pub fn open(
        run: &Path,
        settings: &SubjectSettings,
        queries: Option<&Path>,
        job: &Job<'_>,
    ) -> Result<Self> {
        let network = Network::open(run)?;
        let classes = network.classes();
        let Learned { train, rows, validation, test } =
            Learned::of(&network, settings.data.as_deref(), job)?;
        let seed = Seed::new(settings.seed)?;
        let all_rows = train.n();
        let mut notes = Vec::new();
        let by_class = of_classes(&train, classes.len(), seed);
        let of_test = |examples: Samples, name: &str, notes: &mut Vec<String>| {
            let n = examples.n();
            let kept = first_of_each(&of_classes(&examples, classes.len(), seed), n, MOST_QUERIES);
            if kept.len() < n {
                notes.push(format!("{} of {n} {name} examples are asked about.", kept.len()));
            }
            let ids = Ids::Int(kept.iter().map(|&i| Some(i as i64)).collect());
            (examples.subset(&kept), ids)
        };
        let mut kept: Vec<usize> = (0..all_rows).collect();
        let (queries, query_ids, query_source) = match (queries, test, validation) {
            (Some(path), ..) => {
                let (ids, samples, found) = network.inputs(path, job)?;
                notes.extend(found);
                (samples, ids, path.display().to_string())
            }
            (None, Some(test), _) => {
                let (queries, ids) = of_test(test, "test", &mut notes);
                (queries, ids, "the test set".to_owned())
            }
            (None, None, Some(validation)) => {
                let (queries, ids) = of_test(validation, "validation", &mut notes);
                (queries, ids, "the validation rows".to_owned())
            }
            (None, None, None) => {
                let wanted = ((HELD_OUT * all_rows as f64).round() as usize).clamp(1, MOST_QUERIES);
                let mut asked = first_of_each(&by_class, all_rows, wanted);
                asked.truncate(all_rows.saturating_sub(1));
                let is_asked = |row: &usize| asked.binary_search(row).is_ok();
                kept.retain(|row| !is_asked(row));
                notes.push(format!(
                    "there is no test set: {} training rows are the queries, which the network has learned.",
                    asked.len()
                ));
                let ids = Ids::Int(asked.iter().map(|&i| Some(rows[i] as i64)).collect());
                (train.subset(&asked), ids, "held-out training rows".to_owned())
            }
        };
        if let RowLimit::Most(most) = settings.rows
            && kept.len() > most
        {
            let among: Vec<Vec<usize>> = by_class
                .iter()
                .map(|rows| {
                    rows.iter().copied().filter(|row| kept.binary_search(row).is_ok()).collect()
                })
                .collect();
            kept = first_of_each(&among, kept.len(), most);
        }
        let used = train.subset(&kept);
        let used_rows = kept.iter().map(|&row| rows[row]).collect();
        Ok(Self {
            network,
            classes,
            train: used,
            rows: used_rows,
            everything: train,
            numbers: rows,
            queries,
            query_ids,
            query_source,
            notes,
        })
    }

    /// Refuses rows that leave a class with fewer than two: without one of them nothing would speak for it.
    pub fn check_classes(&self) -> Result<()> {
        let count = |class: usize| self.labels().iter().filter(|y| **y as usize == class).count();
        match (0..self.classes.len()).find(|&class| count(class) < 2) {
            None => Ok(()),
            Some(class) => {
                let what = format!(
                    "class {} has {} of the {} training rows that are used, and needs two",
                    self.classes[class],
                    count(class),
                    self.rows.len()
                );
                Err(Error::request(what, "raise ⟨rows⟩, or train without the class"))
            }
        }
    }

    /// Refuses a regression where classes are needed.
    pub fn needs_classes(&self, what: &str) -> Result<()> {
        if self.classes.is_empty() {
            let run = self.network.path().display();
            let what = format!("{run} predicts a number, and {what} is about classes");
            return Err(Error::request(
                what,
                "use `explain` with ⟨effect⟩ removal, mass or similarity",
            ));
        }
        Ok(())
    }

    /// Returns the number of columns of [`logits`](Self::logits): one for a regression, else one for each class.
    pub fn dim(&self) -> usize {
        self.classes.len().max(1)
    }

    /// Returns the labels of the training rows.
    pub fn labels(&self) -> &[u32] {
        self.train.labels()
    }

    /// Returns the labels of the queries; empty if they are unknown.
    pub fn query_labels(&self) -> &[u32] {
        self.queries.labels()
    }

    /// Says which rows are used, for the first line.
    pub fn says_rows(&self) -> String {
        let (used, all) = (self.rows.len(), self.numbers.len());
        match (used == all, self.classes.is_empty()) {
            (true, _) => format!("{all} training rows"),
            (false, true) => format!("{used} of {all} training rows, drawn by the seed"),
            (false, false) => format!("{used} of {all} training rows, stratified by class"),
        }
    }

    /// Takes all training rows, at most `most`, and asks about none.
    pub fn without_queries(mut self, most: RowLimit, seed: Seed) -> Self {
        let n = self.everything.n();
        let by_class = of_classes(&self.everything, self.classes.len(), seed);
        let kept = match most {
            RowLimit::Most(most) => first_of_each(&by_class, n, most),
            RowLimit::All => (0..n).collect(),
        };
        self.train = self.everything.subset(&kept);
        self.rows = kept.into_iter().map(|row| self.numbers[row]).collect();
        self.notes.clear();
        self
    }

    /// Prepares samples as the network reads them.
    pub(crate) fn feed<'a>(&'a self, samples: &'a Samples) -> Result<Fed<'a>> {
        self.network.fed(samples)
    }

    /// Returns the logits of samples, one for each class; the second of two classes has all of a single output.
    pub fn logits_of(&self, samples: &Samples, job: &Job<'_>) -> Result<Vec<f64>> {
        let outputs = self.network.outputs(samples, job)?;
        Ok(match self.has_one_output_for_two()? {
            true => outputs.into_iter().flat_map(|s| [0.0, s]).collect(),
            false => outputs,
        })
    }

    /// Whether the network has one output for two classes.
    pub fn has_one_output_for_two(&self) -> Result<bool> {
        Ok(self.classes.len() == 2 && self.network.net().outputs() == 1)
    }

    /// Returns the logits of training rows and of queries.
    pub fn logits(&self, job: &Job<'_>) -> Result<[Vec<f64>; 2]> {
        Ok([self.logits_of(&self.train, job)?, self.logits_of(&self.queries, job)?])
    }

    /// Asks about the test set, or all rows, of other data with labels.
    pub fn ask_labeled(&mut self, path: &Path, job: &Job<'_>) -> Result<()> {
        let (queries, note) = self.network.labeled(path, job)?;
        self.notes = note.into_iter().collect();
        self.query_ids = Ids::numbered(0, queries.n());
        (self.queries, self.query_source) = (queries, path.display().to_string());
        Ok(())
    }

    /// Asks about so many of the queries only, spread over all of them.
    pub fn ask_some(&mut self, most: usize) {
        let n = self.queries.n();
        if n <= most {
            return;
        }
        let kept: Vec<usize> = (0..most).map(|i| i * n / most).collect();
        self.query_ids = Ids::Text(kept.iter().map(|&i| Some(self.query_ids.get(i))).collect());
        self.queries = self.queries.subset(&kept);
        self.notes.push(format!("{most} of {n} queries are asked about."));
    }

    /// Asks about inputs, with their labels where the path has labels.
    pub fn ask(&mut self, path: &Path, job: &Job<'_>) -> Result<()> {
        if self.ask_labeled(path, &job.quiet()).is_ok() {
            return Ok(());
        }
        let (ids, samples, notes) = self.network.inputs(path, job)?;
        (self.queries, self.query_ids, self.notes) = (samples, ids, notes);
        self.query_source = path.display().to_string();
        Ok(())
    }

    /// Reads inputs without labels in the format of the network.
    pub fn inputs(&self, path: &Path, job: &Job<'_>) -> Result<Samples> {
        Ok(self.network.inputs(path, job)?.1)
    }

    /// Returns the places of all training rows of a class.
    pub fn rows_of(&self, class: u32) -> Vec<usize> {
        let labels = self.everything.labels();
        (0..labels.len()).filter(|&row| labels[row] == class).collect()
    }

    /// Returns the number of training rows in the data, with those that the run left out.
    pub fn rows_of_data(&self) -> usize {
        let after_last = self.numbers.last().map_or(0, |last| last + 1);
        self.network.rows_of_data().unwrap_or(after_last).max(after_last)
    }

    /// Prepares to train the run again.
    pub fn again(&self, settings: &SubjectSettings, job: &Job<'_>) -> Result<Again> {
        let Network::Net(saved) = &self.network else {
            let run = self.network.path().display();
            let what = format!("{run} is a text model, and training again is for `train net`");
            return Err(Error::request(
                what,
                "train it again by hand, on a table without the rows",
            ));
        };
        let path = saved.data(settings.data.as_deref())?;
        let data = saved.read(&path, None, None, &job.quiet())?;
        // INVARIANT: its rows were read when the subject was opened.
        let all = data.train.ok_or_else(|| Error::missing("no training examples", ""))?;
        Again::new(saved, all)
    }

    /// Returns the rows that the run excluded, with their labels.
    pub fn left_out(
        &self,
        settings: &SubjectSettings,
        job: &Job<'_>,
    ) -> Result<Vec<(usize, String)>> {
        let Network::Net(saved) = &self.network else { return Ok(Vec::new()) };
        if saved.request.options.exclude_rows.is_none() {
            return Ok(Vec::new());
        }
        let again = self.again(settings, job)?;
        let name = |row: usize| again.label(row).map(|y| self.classes[y as usize].clone());
        Ok(again.excluded().into_iter().map(|row| (row, name(row).unwrap_or_default())).collect())
    }

    /// Puts a network that was trained again in the place of that of the run.
    pub fn replace(&mut self, (net, normalization): (Net<f32>, Normalization)) {
        if let Network::Net(saved) = &mut self.network {
            (saved.net, saved.normalization) = (net, normalization);
        }
    }

    /// Computes a kernel of any inputs with others.
    pub fn kernel_of(
        &self,
        rows: &Samples,
        columns: &Samples,
        kind: Kind,
        settings: &SubjectSettings,
        job: &Job<'_>,
    ) -> Result<Vec<f32>> {
        let (rows, columns) = (self.network.fed(rows)?, self.network.fed(columns)?);
        let kernel = kernel_settings(kind, settings)?;
        let (rows, columns) = (rows.examples(), columns.examples());
        let found = kernel_of(self.network.net(), &rows, Some(&columns), &kernel, job)?;
        Ok(found.gram.values)
    }

    /// Computes a kernel of the training rows alone.
    pub fn train_kernel(
        &self,
        kind: Kind,
        settings: &SubjectSettings,
        job: &Job<'_>,
    ) -> Result<Vec<f32>> {
        let fed = self.network.fed(&self.train)?;
        let kernel = kernel_settings(kind, settings)?;
        if let Some(path) = settings.store.as_deref() {
            let store = Store::open(path, self)?;
            let (_, factors) = store.factors(self, None, None, &kernel, job)?;
            return Ok(factors.gram(None, job)?.values);
        }
        let found = kernel_of(self.network.net(), &fed.examples(), None, &kernel, job)?;
        Ok(found.gram.values)
    }

    /// Computes a kernel of training rows and queries. Margins and losses are those of the labels, and of the classes `of` that
    /// the queries are explained as.
    pub fn kernels(
        &self,
        kind: Kind,
        settings: &SubjectSettings,
        of: Option<&[u32]>,
        job: &Job<'_>,
    ) -> Result<Kernels> {
        let mut found = None;
        self.all_kernels(&[kind], settings, of, job, |_, kernels| {
            found = Some(kernels);
            Ok(())
        })?;
        // INVARIANT: there is one kernel for each kind.
        found.ok_or_else(|| Error::missing("no kernel", ""))
    }

    /// Computes several kernels, one after the other. Those that differ by their normalization share their factors.
    pub fn all_kernels(
        &self,
        kinds: &[Kind],
        settings: &SubjectSettings,
        of: Option<&[u32]>,
        job: &Job<'_>,
        mut each: impl FnMut(&Kind, Kernels) -> Result<()>,
    ) -> Result<()> {
        let (train_fed, query_fed) =
            (self.network.fed(&self.train)?, self.network.fed(&self.queries)?);
        let (mut train, mut queries) = (train_fed.examples(), query_fed.examples());
        let labels = Some(self.labels()).filter(|labels| !labels.is_empty());
        if let Some(labels) = labels {
            train = train.with_labels(labels);
        }
        if let Some(of) = of {
            queries = queries.with_labels(of);
        }
        let net = self.network.net();
        let named = |shares: Vec<Share>| -> Vec<(String, f64)> {
            shares.into_iter().map(|share| (share.layer, share.share)).collect()
        };
        let is_zero = |diagonal: &[f64]| -> Vec<usize> {
            (0..self.rows.len()).filter(|&i| diagonal[i] == 0.0).collect()
        };
        let is_trace = |kind: &Kind| matches!(kind, Kind::Trntk | Kind::Trntk0);
        let mut kept: Option<[Factors<f32>; 2]> = None;
        for (i, kind) in kinds.iter().enumerate() {
            let kernel = kernel_settings(kind.clone(), settings)?;
            // The outputs of all layers are not in a store: Em is computed from the network.
            if let Some(path) = settings.store.as_deref().filter(|_| kernel.kind != Kind::Em) {
                let store = Store::open(path, self)?;
                let (plan, own) = store.factors(self, Some(&queries), labels, &kernel, job)?;
                let asked = Factors::take(net, &queries, &plan, job)?;
                let kernels = Kernels {
                    train: own.gram(None, job)?.values,
                    queries: asked.gram(Some(&own), job)?.values,
                    shares: named(own.shares()),
                    operations: plan.operations(),
                    bytes: plan.bytes(),
                    zeros: is_zero(&own.diagonal()),
                };
                each(kind, kernels)?;
                continue;
            }
            let plan = Plan::new(net, &train, Some(&queries), &kernel)?;
            let (operations, bytes) = (plan.operations(), plan.bytes());
            if !plan.fits() {
                let own = kernel_of(net, &train, None, &kernel, job)?;
                let asked = kernel_of(net, &queries, Some(&train), &kernel, job)?;
                let zeros = is_zero(&own.summary.diagonals[0]);
                let (train, queries) = (own.gram.values, asked.gram.values);
                let shares = named(own.summary.shares);
                each(kind, Kernels { train, queries, shares, operations, bytes, zeros })?;
                continue;
            }
            let taken = match kept.take().filter(|_| is_trace(kind)) {
                Some(taken) => taken.map(|factors| factors.normalized(kind.normalization())),
                None => [
                    Factors::take(net, &train, &plan, job)?,
                    Factors::take(net, &queries, &plan, job)?,
                ],
            };
            let [own, asked] = &taken;
            let kernels = Kernels {
                train: own.gram(None, job)?.values,
                queries: asked.gram(Some(own), job)?.values,
                shares: named(own.shares()),
                operations,
                bytes,
                zeros: is_zero(&own.diagonal()),
            };
            kept = Some(taken).filter(|_| is_trace(kind) && kinds[i + 1..].iter().any(is_trace));
            each(kind, kernels)?;
        }
        Ok(())
    }

    /// Says which training rows have no gradient.
    pub fn says_zeros(&self, zeros: &[usize]) -> Option<String> {
        let rows: Vec<String> = zeros.iter().take(5).map(|&at| self.rows[at].to_string()).collect();
        let more = if zeros.len() > rows.len() { ", .." } else { "" };
        (!zeros.is_empty()).then(|| {
            format!(
                "{} training rows have no gradient, as without biases and with units that are all off: their kernel is 0 (rows {}{more}).",
                zeros.len(),
                rows.join(", ")
            )
        })
    }
}

/// The settings of a kernel.
pub(crate) fn kernel_settings(kind: Kind, settings: &SubjectSettings) -> Result<KernelSettings> {
    Ok(KernelSettings {
        layers: crate::net::names(settings.layers.as_deref()),
        seed: Seed::new(settings.seed)?,
        memory: settings.memory * 1_000_000,
        ..KernelSettings::new(kind)
    })
}

/// The rows of every class in an order drawn by the seed; rows without a label are one class.
fn of_classes(data: &Samples, classes: usize, seed: Seed) -> Vec<Vec<usize>> {
    let mut rows = vec![Vec::new(); classes.max(1)];
    let order = Order::new(data.n() as u64, seed, "explain/rows", 0);
    let labels = data.labels();
    for t in 0..data.n() as u64 {
        let row = order.at(t) as usize;
        rows[labels.get(row).map_or(0, |&label| label as usize)].push(row);
    }
    rows
}

/// Takes `most` of n rows, in rising order: of every class its share by the largest remainders, at least one.
fn first_of_each(by_class: &[Vec<usize>], n: usize, most: usize) -> Vec<usize> {
    let mut kept: Vec<usize> = by_class.concat();
    if n > most {
        let exact = |rows: &Vec<usize>| most as f64 * rows.len() as f64 / n as f64;
        let mut takes: Vec<usize> =
            by_class.iter().map(|rows| (exact(rows) as usize).max(rows.len().min(1))).collect();
        let mut order: Vec<usize> = (0..by_class.len()).collect();
        order.sort_by(|&a, &b| {
            let rest = |class: usize| exact(&by_class[class]) - takes[class] as f64;
            rest(b).total_cmp(&rest(a))
        });
        // With so few that the rows of rare classes do not fit, the most common ones give some up.
        while takes.iter().sum::<usize>() > most {
            let common = (0..takes.len()).max_by_key(|&class| takes[class]).unwrap_or(0);
            if takes[common] <= 1 {
                break;
            }
            takes[common] -= 1;
        }
        let left = most.saturating_sub(takes.iter().sum());
        order.into_iter().take(left).for_each(|class| takes[class] += 1);
        kept = by_class.iter().zip(takes).flat_map(|(rows, n)| &rows[..n]).copied().collect();
    }
    kept.sort_unstable();
    kept
}

/// Refuses data that is not what the network was trained on.
fn check_same(saved: &Saved, found: &serde_json::Value, path: &Path) -> Result<()> {
    let recorded = saved.run.document().get("data").and_then(|data| data.get("train"));
    if recorded.is_some() && recorded != found.get("train") {
        let run = saved.run.path().display();
        let what = format!("the training examples of {} are not those of {run}", path.display());
        return Err(Error::request(what, "pass with ⟨data⟩ what the network was trained on"));
    }
    Ok(())
}

/// A matrix with rows of `dim` values.
pub(crate) fn matrix<T>(values: &[T], dim: usize) -> Result<Rows<'_, T>> {
    Ok(Rows::new(values, dim)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_stratified_and_has_the_size_that_was_asked_for() {
        let by_class = [(0..70).collect(), (70..99).collect(), vec![99], Vec::new()];
        for most in [4, 10, 37, 99] {
            let kept = first_of_each(&by_class, 100, most);
            assert_eq!(kept.len(), most);
            assert!(kept.is_sorted() && kept.contains(&99));
            let of_first = kept.iter().filter(|&&row| row < 70).count() as f64;
            assert!((of_first - 0.7 * most as f64).abs() <= 1.0, "{of_first} of {most}");
        }
        assert_eq!(first_of_each(&by_class, 100, 3).len(), 3);
        assert_eq!(first_of_each(&by_class, 100, 100), (0..100).collect::<Vec<_>>());
    }
}
