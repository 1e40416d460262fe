//! What is explained: a network, the training rows that it learned from, queries, and the kernel of them all.
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
use veridical_data::examples::{Examples as Data, Targets};
use veridical_io::{Input, run};
use veridical_kernels::tangent::{
    Examples, Factors, Kind, Plan, Settings as KernelSettings, Share, kernel as kernel_of,
};
use veridical_nets::Feed;

use crate::kernel::Store;
use crate::net::{Division, Inputs, Saved, Task, divide};
use crate::settings::TextFiles;
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
        /// Run of `train net` to explain
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
    pub saved: Saved,
    pub classes: Vec<String>,
    /// Training rows that are used, with their numbers in the data.
    pub train: Data,
    pub rows: Vec<usize>,
    /// All training rows of the run, with their numbers.
    pub everything: Data,
    pub numbers: Vec<usize>,
    pub queries: Data,
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
}

/// Returns the runs of an ensemble, or the run itself.
pub(crate) fn runs(path: &Path) -> Vec<PathBuf> {
    let seeds = run::seeds(path);
    if seeds.is_empty() { vec![path.to_owned()] } else { seeds }
}

impl Subject {
    /// Opens a run with its data; `queries` is a file or folder of inputs.
    pub fn open(
        run: &Path,
        settings: &SubjectSettings,
        queries: Option<&Path>,
        job: &Job<'_>,
    ) -> Result<Self> {
        if !crate::net::is_net(run) {
            let what = format!("{} is no run of `train net`", run.display());
            return Err(Error::request(what, "train one, such as ⟨model⟩ mlp:128 or cnn-small"));
        }
        let saved = Saved::open(run)?;
        let Task::Classes(classes) = &saved.task else {
            let what = format!("{} predicts numbers; explanations are of classes", run.display());
            return Err(Error::request(what, "choose a run that classifies"));
        };
        let classes = classes.clone();
        if saved.net.outputs() != classes.len() {
            let what = format!("{} has one output for two classes", run.display());
            return Err(Error::request(what, "train with ⟨loss⟩ cross-entropy"));
        }
        let path = saved.data(settings.data.as_deref())?;
        let data = saved.read(&path, None, None, job)?;
        check_same(&saved, &data.fingerprint, &path)?;
        let Division { train, rows, validation, .. } =
            divide(data.train, &saved.task, &saved.request.options)?;
        let Some(train) = train else {
            let what = format!("{} has no training examples", path.display());
            return Err(Error::request(what, "pass the data that the network was trained on"));
        };
        let seed = Seed::new(settings.seed)?;
        let all_rows = train.n();
        let mut notes = Vec::new();
        let by_class = of_classes(&train, classes.len(), seed);
        let of_test = |examples: Data, name: &str, notes: &mut Vec<String>| {
            let n = examples.n();
            let kept = first_of_each(&of_classes(&examples, classes.len(), seed), n, MOST_QUERIES);
            if kept.len() < n {
                notes.push(format!("{} of {n} {name} examples are asked about.", kept.len()));
            }
            let ids = Ids::Int(kept.iter().map(|&i| Some(i as i64)).collect());
            (examples.subset(&kept), ids)
        };
        let mut kept: Vec<usize> = (0..all_rows).collect();
        let (queries, query_ids, query_source) = match (queries, data.test, validation) {
            (Some(path), ..) => {
                let (ids, examples, found) =
                    saved.inputs(&Inputs::of_data(path), &TextFiles::default())?;
                notes.extend(found);
                (examples, ids, path.display().to_string())
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
            saved,
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

    /// Returns the labels of the training rows.
    pub fn labels(&self) -> &[u32] {
        labels(&self.train)
    }

    /// Returns the labels of the queries; empty if they are unknown.
    pub fn query_labels(&self) -> &[u32] {
        labels(&self.queries)
    }

    /// Says which rows are used, for the first line.
    pub fn says_rows(&self) -> String {
        let (used, all) = (self.rows.len(), self.numbers.len());
        match used == all {
            true => format!("{all} training rows"),
            false => format!("{used} of {all} training rows, stratified by class"),
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

    pub(crate) fn feed<'a>(&self, data: &'a Data) -> Result<Feed<'a>> {
        Ok(self.saved.normalization.feed(data, Seed::new(0)?))
    }

    /// Returns the logits of training rows and of queries.
    pub fn logits(&self, job: &Job<'_>) -> Result<[Vec<f64>; 2]> {
        let of = |data: &Data| -> Result<Vec<f64>> {
            let feed = self.feed(data)?;
            let label = self.saved.run.path().display().to_string();
            let net = &self.saved.net;
            let outputs =
                veridical_nets::metrics::Passes::new(net).outputs(net, &feed, (&label, job))?;
            if let Some(at) = outputs.iter().position(|x| !x.is_finite()) {
                let what =
                    format!("{label}: the output for example {} is not finite", at / net.outputs());
                return Err(Error::request(what, "train the network again with a smaller ⟨lr⟩"));
            }
            Ok(outputs.into_iter().map(f64::from).collect())
        };
        Ok([of(&self.train)?, of(&self.queries)?])
    }

    /// Asks about the test set, or all rows, of other data with labels.
    pub fn ask_labeled(&mut self, path: &Path, job: &Job<'_>) -> Result<()> {
        let (queries, note) = self.saved.test_set(self.saved.read(path, None, None, job)?)?;
        self.notes = note.into_iter().collect();
        self.query_ids = Ids::numbered(0, queries.n());
        (self.queries, self.query_source) = (queries, path.display().to_string());
        Ok(())
    }

    /// Reads inputs without labels in the format of the network.
    pub fn inputs(&self, path: &Path) -> Result<Data> {
        Ok(self.saved.inputs(&Inputs::of_data(path), &TextFiles::default())?.1)
    }

    /// Returns the places of all training rows of a class.
    pub fn rows_of(&self, class: u32) -> Vec<usize> {
        let labels = labels(&self.everything);
        (0..labels.len()).filter(|&row| labels[row] == class).collect()
    }

    /// Computes a kernel of any inputs with others.
    pub fn kernel_of(
        &self,
        rows: &Data,
        columns: &Data,
        kind: Kind,
        settings: &SubjectSettings,
        job: &Job<'_>,
    ) -> Result<Vec<f32>> {
        let (rows, columns) = (self.feed(rows)?, self.feed(columns)?);
        let kernel = kernel_settings(kind, settings)?;
        let found = kernel_of(&self.saved.net, &fed(&rows), Some(&fed(&columns)), &kernel, job)?;
        Ok(found.gram.values)
    }

    /// Computes a kernel of the training rows alone.
    pub fn train_kernel(
        &self,
        kind: Kind,
        settings: &SubjectSettings,
        job: &Job<'_>,
    ) -> Result<Vec<f32>> {
        let feed = self.feed(&self.train)?;
        let kernel = kernel_settings(kind, settings)?;
        if let Some(path) = settings.store.as_deref() {
            let store = Store::open(path, self)?;
            let (_, factors) = store.factors(self, None, &kernel, job)?;
            return Ok(factors.gram(None, job)?.values);
        }
        let found = kernel_of(&self.saved.net, &fed(&feed), None, &kernel, job)?;
        Ok(found.gram.values)
    }

    /// Computes a kernel of training rows and queries.
    pub fn kernels(
        &self,
        kind: Kind,
        settings: &SubjectSettings,
        job: &Job<'_>,
    ) -> Result<Kernels> {
        let kernel = kernel_settings(kind, settings)?;
        let (train_feed, query_feed) = (self.feed(&self.train)?, self.feed(&self.queries)?);
        let (train, queries) = (fed(&train_feed), fed(&query_feed));
        let net = &self.saved.net;
        let named = |shares: Vec<Share>| -> Vec<(String, f64)> {
            shares.into_iter().map(|share| (share.layer, share.share)).collect()
        };
        // The outputs of all layers are not in a store: Em is computed from the network.
        if let Some(path) = settings.store.as_deref().filter(|_| kernel.kind != Kind::Em) {
            let store = Store::open(path, self)?;
            let (plan, train) = store.factors(self, Some(&queries), &kernel, job)?;
            let queries = Factors::take(net, &queries, &plan, job)?;
            return Ok(Kernels {
                train: train.gram(None, job)?.values,
                queries: queries.gram(Some(&train), job)?.values,
                shares: named(train.shares()),
                operations: plan.operations(),
            });
        }
        let plan = Plan::new(net, &train, Some(&queries), &kernel)?;
        let operations = plan.operations();
        if plan.fits() {
            let train = Factors::take(net, &train, &plan, job)?;
            let queries = Factors::take(net, &queries, &plan, job)?;
            return Ok(Kernels {
                train: train.gram(None, job)?.values,
                queries: queries.gram(Some(&train), job)?.values,
                shares: named(train.shares()),
                operations,
            });
        }
        let own = kernel_of(net, &train, None, &kernel, job)?;
        let asked = kernel_of(net, &queries, Some(&train), &kernel, job)?;
        Ok(Kernels {
            train: own.gram.values,
            queries: asked.gram.values,
            shares: named(own.summary.shares),
            operations,
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

/// All samples of a feed.
pub(crate) fn fed<'a>(feed: &'a Feed<'_>) -> Examples<'a, f32> {
    Examples::new(feed.len(), move |samples, slot: &mut [f32]| {
        feed.fill(&samples.collect::<Vec<_>>(), slot);
    })
}

/// The rows of every class in an order drawn by the seed; rows without a label are one class.
fn of_classes(data: &Data, classes: usize, seed: Seed) -> Vec<Vec<usize>> {
    let mut rows = vec![Vec::new(); classes.max(1)];
    let order = Order::new(data.n() as u64, seed, "explain/rows", 0);
    let labels = labels(data);
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

fn labels(data: &Data) -> &[u32] {
    match &data.targets {
        Targets::Classes(labels) => labels,
        Targets::Numbers { .. } => &[],
    }
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
