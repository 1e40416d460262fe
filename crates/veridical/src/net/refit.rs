//! `veridical refit-head`: refits the last layer of a network on the features below it.
//!
//! The features of the training examples are computed once; fitting the head is then a convex problem
//! ([`veridical_nets::refit`]), its penalty chosen by cross-validation. The result is a run like any other.

use std::time::Instant;

use serde::Serialize;
use serde_json::{Value, json};
use veridical_core::Job;
use veridical_core::{Seed, settings};
use veridical_data::examples::Examples;
use veridical_data::named;
use veridical_io::run::{self, RunWriter};
use veridical_io::{IfExists, Input, Output};
use veridical_nets::metrics::{Measures, Passes, measures};
use veridical_nets::{Loss, Net, RefitMethod, RefitSettings, refit as solve};
use veridical_report::{Axis, Card, Cell, Foot, Level, Line, Page, Table, Verdict};

use super::material::{Task, divide};
use super::saved::Saved;
use crate::settings::RunOutput;
use crate::train::{give_up, host, log, now};
use crate::{Error, Result};

settings! {
    /// Settings of [`refit`].
    pub struct RefitNet {
        /// Run of a network
        pub run: Input = Input::default() => [required(), value("RUN")],
        /// Examples to fit on
        pub data: Option<Input> = None => [value("FILE_OR_FOLDER"), otherwise("the training examples of the run")],
        /// Regression method: logistic or ridge
        pub method: Option<RefitMethod> = None => [otherwise("logistic for classification, ridge for regression")],
        /// Number of cross-validation folds
        pub folds: usize = 5,
        /// Random seed of the folds
        pub seed: u64 = 0 => [value("S")],
        /// HTML report to write, with the penalty path
        pub html: Option<Output> = None,
    } with {
        /// Where the new run is written.
        pub output: RunOutput,
    }
}

impl RefitNet {
    fn out(&self) -> Output {
        self.output.folder("net-refit")
    }
}

/// Result of [`refit`].
#[derive(Clone, Debug, Serialize)]
pub struct RefitHead {
    /// Run whose head was refitted.
    pub run: String,
    /// Run folder that was written.
    pub out: String,
    /// Architecture.
    pub model: String,
    /// Regression method: `ridge` or `logistic`.
    pub method: &'static str,
    /// Input dimension of the last layer.
    pub features: usize,
    /// Number of cross-validation folds.
    pub folds: usize,
    /// Random seed of the folds.
    pub seed: u64,
    /// Chosen penalty; `None` if the head is unchanged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub penalty: Option<f64>,
    /// Whether the head is unchanged because no penalty lowered the training loss.
    pub kept: bool,
    /// All penalties that were tried, largest first.
    pub path: Vec<Tried>,
    /// Metrics on the examples the head was fitted on.
    pub train: Compared,
    /// Metrics on the test set, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test: Option<Compared>,
}

/// Losses of one penalty.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Tried {
    /// Penalty relative to the largest variance of the features (ridge), or 1/(C n) (logistic).
    pub penalty: f64,
    /// Cross-validation loss on held-out rows.
    pub cv_loss: f64,
    /// Loss on all rows, for penalties that were fitted on all rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub train_loss: Option<f64>,
}

/// Metrics of the network before and after the refit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// With the original head.
    pub before: Measures,
    /// With the refitted head.
    pub after: Measures,
}

/// Refits the head of a network and publishes the result as a new run.
///
/// # Errors
/// [`Error::Core`] if the run is not a network, or the data does not match it; nothing is left behind.
pub fn refit(settings: &RefitNet, job: &Job<'_>) -> Result<RefitHead> {
    let out = settings.out();
    run::check_output(&out, settings.output.existing.if_exists())?;
    let mut saved = Saved::open(&settings.run)?;
    let method = method_of(settings.method, &saved)?;
    let path = saved.data(settings.data.as_deref())?;
    let data = saved.read(&path, None, None, job)?;
    let fingerprint = data.fingerprint.clone();
    let train = divide(data.train, &saved.task, &saved.request.options)?.train;
    let Some(train) = train else {
        let what = "has only test examples; there is nothing to fit on";
        return Err(Error::request(format!("{} {what}", path.display()), ""));
    };
    let solve_settings =
        RefitSettings { method, folds: settings.folds, seed: Seed::new(settings.seed)? };
    let current = saved.net.solved_head()?;
    let loss = loss_of(method);
    let outputs = saved.net.outputs();
    let mut evaluator = Evaluator { loss, classes: saved.classes(), job };
    let (features, before) = evaluator.features(&saved, &train)?;
    let test_before =
        data.test.as_ref().map(|test| evaluator.evaluate(&saved, test)).transpose()?;
    job.note(&format!(
        "fitting {outputs} x {} weights on {} examples",
        saved.net.feature_dim(),
        train.n()
    ));
    let target = (&train.targets).into();
    let found =
        solve(&features, saved.net.feature_dim(), target, outputs, &current, &solve_settings)?;
    drop(features);
    let (mut kept, mut after) = (found.kept, before.clone());
    if !kept {
        saved.net.set_head(&found.head)?;
        after = evaluator.evaluate(&saved, &train)?;
        // The head is fitted in f64 and stored in f32.
        if after.loss > before.loss {
            saved.net.set_head(&current)?;
            (kept, after) = (true, before.clone());
        }
    }
    let test_after = data.test.as_ref().map(|test| evaluator.evaluate(&saved, test)).transpose()?;
    let tried = |p: &veridical_nets::RefitPoint| {
        let veridical_nets::RefitPoint { penalty, cv_loss, train_loss } = *p;
        Tried { penalty, cv_loss, train_loss }
    };
    let refit = RefitHead {
        run: settings.run.to_string(),
        out: out.to_string(),
        model: saved.recipe().model.clone(),
        method: method.name(),
        features: saved.net.feature_dim(),
        folds: settings.folds,
        seed: settings.seed,
        penalty: (!kept).then_some(found.penalty),
        kept,
        path: found.path.iter().map(tried).collect(),
        train: Compared { before, after },
        test: test_before.zip(test_after).map(|(before, after)| Compared { before, after }),
    };
    publish(settings, &saved, &refit, &fingerprint, &path)?;
    Ok(refit)
}

fn method_of(given: Option<RefitMethod>, saved: &Saved) -> Result<RefitMethod> {
    let is_one_output = saved.net.outputs() == 1;
    match (given, &saved.task) {
        (Some(RefitMethod::Ridge), _) | (None, Task::Numbers(_)) => Ok(RefitMethod::Ridge),
        (None, Task::Classes(_)) if is_one_output => Ok(RefitMethod::Ridge),
        (Some(RefitMethod::Logistic) | None, Task::Classes(_)) => Ok(RefitMethod::Logistic),
        (Some(RefitMethod::Logistic), Task::Numbers(_)) => Err(Error::request(
            "⟨method⟩ logistic is for classification",
            "use ⟨method⟩ ridge for regression",
        )),
    }
}

/// Returns the loss that a method minimizes.
fn loss_of(method: RefitMethod) -> Loss {
    match method {
        RefitMethod::Ridge => Loss::Squared,
        RefitMethod::Logistic => Loss::CrossEntropy { smoothing: 0.0 },
    }
}

/// Computes metrics with the loss of the method.
struct Evaluator<'a> {
    loss: Loss,
    classes: usize,
    job: &'a Job<'a>,
}

impl Evaluator<'_> {
    fn evaluate(&mut self, saved: &Saved, examples: &Examples) -> Result<Measures> {
        let feed = saved.normalization.feed(examples, Seed::new(0)?);
        let what = ("evaluating", self.job);
        let outputs = Passes::new(&saved.net).outputs(&saved.net, &feed, what)?;
        self.measures(&saved.net, &outputs, examples)
    }

    /// Returns the input of the last layer, and the metrics of the unmodified network.
    fn features(&mut self, saved: &Saved, examples: &Examples) -> Result<(Vec<f64>, Measures)> {
        let net = &saved.net;
        let feed = saved.normalization.feed(examples, Seed::new(0)?);
        let mut features = Vec::with_capacity(examples.n() * net.feature_dim());
        let mut outputs = Vec::with_capacity(examples.n() * net.outputs());
        Passes::new(net).run(net, &feed, ("features", self.job), |_, work| {
            features.extend(net.features(work).iter().map(|&x| f64::from(x)));
            outputs.extend_from_slice(work.outputs(net));
        })?;
        Ok((features, self.measures(net, &outputs, examples)?))
    }

    fn measures(&self, net: &Net<f32>, outputs: &[f32], examples: &Examples) -> Result<Measures> {
        let found = measures(outputs, net.outputs(), &examples.targets, self.loss, self.classes)?;
        Ok(Measures { confusion: Vec::new(), ..found }) // shown by `evaluate`
    }
}

/// Writes the run: the document of the original with an added section about the refit.
fn publish(
    settings: &RefitNet,
    saved: &Saved,
    refit: &RefitHead,
    fingerprint: &Value,
    data: &std::path::Path,
) -> Result<()> {
    let begun = Instant::now();
    let mut document = saved.run.document().clone();
    document["version"] = env!("CARGO_PKG_VERSION").into();
    let mut section = json!(refit);
    if let Some(section) = section.as_object_mut() {
        section.retain(|name, _| !["run", "out", "model"].contains(&name.as_str()));
    }
    section["data"] = fingerprint.clone();
    document["refit"] = section;
    let if_exists = match settings.output.existing.if_exists() {
        IfExists::Resume => IfExists::Force, // a refit has no intermediate state
        other => other,
    };
    let Some((writer, _)) = RunWriter::begin(&settings.out(), &document, if_exists)? else {
        return Ok(());
    };
    let partial = writer.folder().to_owned();
    let write = || {
        let absolute =
            |path: &std::path::Path| std::path::absolute(path).unwrap_or(path.to_owned());
        let files = json!({ "data": absolute(data), "refit": absolute(saved.run.path()) });
        log(&writer, "data", files)?;
        let threads = rayon::current_num_threads();
        let start = json!({ "threads": threads, "host": host(), "time": now() });
        log(&writer, "start", start)?;
        let end = json!({ "seconds": begun.elapsed().as_secs_f64(), "time": now() });
        log(&writer, "end", end)
    };
    write().map_err(|error| give_up(error, &partial))?;
    let tensors = saved.net.export();
    let outcome = writer.publish(&document, &named(&tensors));
    outcome.map_err(|error| give_up(error.into(), &partial))
}

impl RefitHead {
    /// Returns name, before and after of each metric.
    pub fn rows(compared: &Compared) -> Vec<(&'static str, f64, f64)> {
        let Compared { before, after } = compared;
        let accuracy = |m: &Measures| m.accuracy.map(|share| share.value);
        let both = |name, a: Option<f64>, b: Option<f64>| Some((name, a?, b?));
        let rows = [
            both("loss", Some(before.loss), Some(after.loss)),
            both("accuracy", accuracy(before), accuracy(after)),
            both("rmse", before.rmse, after.rmse),
            both("r2", before.r2, after.r2),
        ];
        rows.into_iter().flatten().collect()
    }

    /// Returns the evaluated parts by name.
    pub fn parts(&self) -> impl Iterator<Item = (&'static str, &Compared)> {
        std::iter::once(("train", &self.train)).chain(self.test.as_ref().map(|test| ("test", test)))
    }

    /// Renders the report as an HTML page; `command` is the command line shown in the footer.
    pub fn to_html(&self, command: &str) -> String {
        let rows = self.parts().flat_map(|(part, compared)| {
            let n = compared.before.n;
            RefitHead::rows(compared).into_iter().map(move |(name, before, after)| {
                [
                    Cell::text(format!("{part} {name} ({n} examples)")),
                    Cell::number(before, 4),
                    Cell::number(after, 4),
                ]
            })
        });
        let table = Table::new("Before and after", ["metric", "before", "after"])
            .explain("The loss is the one the method minimizes.")
            .rows(rows);
        let points = |of: fn(&Tried) -> Option<f64>| -> Vec<[f64; 2]> {
            let usable = self.path.iter().filter(|tried| tried.penalty > 0.0);
            usable.filter_map(|tried| Some([tried.penalty, of(tried)?])).collect()
        };
        let chart = Line::new(
            "Penalty path",
            "The penalty with the lowest cross-validation loss is chosen, or the next smaller one that does not raise the training loss.",
            Axis::log("penalty"),
            Axis::new("loss"),
        )
        .series("cross-validation", points(|tried| Some(tried.cv_loss)))
        .series("training", points(|tried| tried.train_loss));
        let foot = Foot::new(command)
            .fact("method", self.method)
            .fact("cross-validation folds", self.folds)
            .fact("seed", self.seed);
        Page::new("Refit of the last layer")
            .of(format!("{} of {}", self.model, self.run))
            .verdict(self.verdict())
            .cards(self.cards())
            .section(
                self.model.clone(),
                format!("{} features below the last layer.", self.features),
            )
            .table(table)
            .chart(chart)
            .foot(foot)
            .data(self)
            .to_html()
    }

    fn verdict(&self) -> Verdict {
        let compared = self.test.as_ref().unwrap_or(&self.train);
        let (before, after) = (compared.before.loss, compared.after.loss);
        let part = if self.test.is_some() { "test" } else { "training" };
        let (level, sentence) = match () {
            () if self.kept => (
                Level::Neutral,
                "No penalty lowers the training loss: the head is unchanged.".to_owned(),
            ),
            () if after <= before => {
                (Level::Good, format!("The {part} loss falls from {before:.4} to {after:.4}."))
            }
            () => (Level::Warn, format!("The {part} loss rises from {before:.4} to {after:.4}.")),
        };
        Verdict::new(level, sentence)
    }

    fn cards(&self) -> Vec<Card> {
        let (part, compared) = match &self.test {
            Some(test) => ("test", test),
            None => ("train", &self.train),
        };
        let card = |(name, before, after): (&str, f64, f64)| {
            Card::new(format!("{part} {name}"), format!("{after:.4}"))
                .note(format!("was {before:.4}"))
        };
        RefitHead::rows(compared).into_iter().map(card).collect()
    }
}
