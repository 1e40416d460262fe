//! The papers' tables and figures, run again: `veridical reproduce`.
//!
//! - [`REGISTRY`]: every [`Experiment`] with its claim, the rule of its verdict, written down before it runs, and its configuration;
//!   [`find`] finds one by its id.
//! - [`Experiment::run`]: what was measured, and whether the claim holds: an [`Outcome`].
//! - [`run_all`]: every experiment within a time limit; [`claims`]: what the papers claim; [`book`]: both side by side.
//! - `lab`, `queue`, `movielens`: what experiments share, such as trainings side by side, intervals over seeds, results that are
//!   kept, the data.
//! - One file for each table or figure: paper 000 in `kernel_error`, `families` and `stability`, paper 001 in `sse` and `sequences`, paper
//!   004 in `refit`, `attribution` and `surrogates`.
//!
//! ```
//! let experiment = veridical_experiments::find("000-kernel-error")?;
//! assert!(experiment.rule.starts_with("replicated if"));
//! # Ok::<(), veridical::Error>(())
//! ```

mod all;
mod attribution;
mod book;
mod chart;
mod claims;
mod defaults;
mod families;
mod gate_power;
mod kernel_error;
mod lab;
mod movielens;
mod queue;
mod refit;
mod sequences;
mod sse;
mod stability;
mod surrogates;

use std::path::Path;

use serde::Serialize;
use veridical::{Error, Result};
use veridical_core::settings::TimeLimit;
use veridical_core::{Estimate, Job, settings};
use veridical_io::{Input, Output, Replace};
use veridical_report::{Cell, Foot, Level, Page, Table, Verdict};

pub use self::all::{AllOutcomes, FinishedExperiment, SkippedExperiment, run_all};
pub use self::book::book;
pub use self::chart::{Chart, ChartKind, Series};
pub use self::claims::{Answer, Claim, PAPERS, claims};

settings! {
    /// Which experiment to show.
    pub struct ShowExperiment {
        /// Experiment, as `list` names it
        pub id: String = String::new() => [positional(), required(), value("ID")],
    }
}

settings! {
    /// Which experiments to run, and where their results go.
    pub struct RunExperiment {
        /// Experiment, as `list` names it
        pub id: Option<String> = None => [positional(), value("ID")],
        /// Run every experiment, one after the other
        pub all: bool = false => [switch(), excludes(&["id", "out", "html"])],
        /// Start no work of ⟨all⟩ after this time, such as 90s, 30m or 2h, and list what is left
        pub time: Option<TimeLimit> = None => [value("TIME"), needs(&["all"])],
        /// Smoke test: less data and fewer seeds; the verdict means nothing
        pub quick: bool = false => [switch()],
        /// Folder of the data sets, for experiments on real data
        pub data: Option<Input> = None => [value("DIR"), otherwise("VERIDICAL_DATA, otherwise ../shared/data")],
        /// Folder that keeps finished trainings, so that an interrupted run resumes; with ⟨all⟩ also results and the book of them
        pub keep: Option<Output> = None => [value("DIR")],
        /// Write the result as JSON to this file
        pub out: Option<Output> = None => [heading("Output")],
        /// Write numbers and charts as one HTML file
        pub html: Option<Output> = None => [heading("Output")],
    } with {
        /// What to do about existing files.
        pub replace: Replace,
    }
}

/// How an experiment is run.
#[derive(Clone, Copy)]
pub struct RunOptions<'a> {
    /// Less data and fewer seeds: whether it runs, not what comes out.
    pub quick: bool,
    /// The folder of the data sets, for experiments on real data; `../shared/data` unless given.
    pub data: Option<&'a Path>,
    /// Where finished trainings of long experiments are written down; a run that was interrupted goes on from there.
    pub keep: Option<&'a Path>,
    /// Who is told how far it is, and who may stop it.
    pub job: &'a Job<'a>,
}

/// An experiment that can be run.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Experiment {
    /// `<paper>-<table>`.
    pub id: &'static str,
    /// What the paper says.
    pub claim: &'static str,
    /// When the claim counts as replicated; written before the run.
    pub rule: &'static str,
    /// Choices where the paper is silent or contradicts itself.
    pub deviations: &'static [&'static str],
    #[serde(skip)]
    config: &'static str,
    #[serde(skip)]
    run: fn(&str, &RunOptions<'_>) -> Result<Findings>,
}

/// Every experiment.
pub const REGISTRY: &[Experiment] = &[
    Experiment {
        id: "000-kernel-error",
        claim: "Paper 000, section 5: <phi, phi'> approximates the kernel with m directions; its error \
            falls as 1/sqrt(m)",
        rule: "replicated if, for every m, the interval of the mean error holds 0 and the interval of the \
           variance ratio to (1 + k(2 delta) - 2 k(delta)^2) / (2m) holds 1 for iid directions and lies \
           below 1 for orthogonal ones; the 16 intervals hold together with 95 % (Bonferroni)",
        deviations: &[
            "the paper gives a rate, no numbers: the variance of iid features is the standard one",
            "paper 000 draws iid directions; orthogonal ones (Yu et al. 2016) are measured beside them",
        ],
        config: include_str!("../../../experiments/000-kernel-error/config.toml"),
        run: |config, options| {
            kernel_error::run(config, options.quick, options.job).map(Findings::from)
        },
    },
    Experiment {
        id: "000-families",
        claim: "Paper 000, section 5, draws independent directions; structured ones reach the same error \
            with fewer (Yu et al. 2016; Avron et al. 2016)",
        rule: "replicated if, for every d and every m >= d/2, the interval of the mean squared error on \
           typical pairs, over that of iid directions of the same seeds, lies below 1 for orthogonal and \
           for hadamard directions; those intervals hold together with 95 % (Bonferroni). Near and far \
           pairs, m < d/2 and halton are reported without a claim",
        deviations: &[
            "the paper compares no families; the claim is that of the papers that introduced them",
            "unit rows of a uniform law stand for embeddings: real ones are measured by featurize check",
        ],
        config: include_str!("../../../experiments/000-families/config.toml"),
        run: |config, options| {
            families::run(config, options.quick, options.job).map(Findings::from)
        },
    },
    stability::TABLE1,
    stability::SPREAD,
    stability::FAIR,
    stability::TASK2,
    stability::TABLE_A1,
    stability::FIGURE1,
    stability::FIGURE_A1,
    stability::QUESTIONS,
    stability::FIGURE_A3,
    stability::FIGURE_A4,
    sse::TABLE1,
    sse::TABLE2,
    sse::TABLE3,
    sse::FIGURE3,
    sse::FIGURE4,
    sse::FIGURE5,
    sse::SWEEP_MF,
    sse::SWEEP_BPR,
    sequences::TABLE4,
    refit::FUNCTIONS,
    refit::MNIST,
    surrogates::TABLE1,
    surrogates::TABLE2,
    surrogates::TABLE3,
    surrogates::TRACE,
    surrogates::TABLE4,
    surrogates::ROBUSTNESS,
    refit::KERNELS,
    refit::CLASSIFY,
    refit::INEQUALITIES,
    refit::TABLE5,
    attribution::LDS,
    attribution::LDS_5000,
    attribution::LABELS,
    attribution::STABILITY,
    gate_power::GATE_POWER,
    defaults::DEFAULTS,
];

/// Finds an experiment.
///
/// # Errors
/// [`Error::Core`] lists the ids there are.
pub fn find(id: &str) -> Result<&'static Experiment> {
    REGISTRY.iter().find(|experiment| experiment.id == id).ok_or_else(|| {
        let ids: Vec<&str> = REGISTRY.iter().map(|experiment| experiment.id).collect();
        Error::request(format!("there is no experiment `{id}`; there are: {}", ids.join(", ")), "")
    })
}

impl Experiment {
    /// Its configuration, as TOML.
    pub fn config(&self) -> &'static str {
        self.config
    }

    /// Runs it.
    ///
    /// # Errors
    /// Whatever stops the run; [`veridical_core::Error::Missing`] if its data set is absent.
    pub fn run(&self, options: &RunOptions<'_>) -> Result<Outcome> {
        let Findings { rows, notes, charts } = (self.run)(self.config, options)?;
        let claims: Vec<bool> = rows.iter().filter_map(|row| row.holds).collect();
        let verdict = match claims.iter().filter(|held| **held).count() {
            _ if claims.is_empty() => "not comparable",
            n if n == claims.len() => "replicated",
            0 => "refuted",
            _ => "partly",
        };
        let Self { id, claim, rule, deviations, .. } = *self;
        let quick = options.quick;
        Ok(Outcome { id, claim, rule, deviations, quick, verdict, notes, rows, charts })
    }
}

/// What a run has found.
#[derive(Default)]
struct Findings {
    rows: Vec<Row>,
    notes: Vec<String>,
    charts: Vec<Chart>,
}

impl From<Vec<Row>> for Findings {
    fn from(rows: Vec<Row>) -> Self {
        Self { rows, ..Self::default() }
    }
}

/// What an experiment found.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The experiment.
    pub id: &'static str,
    /// What the paper says.
    pub claim: &'static str,
    /// The rule of the verdict.
    pub rule: &'static str,
    /// Choices where the paper is silent or contradicts itself.
    pub deviations: &'static [&'static str],
    /// Fewer seeds than the configuration says.
    pub quick: bool,
    /// replicated, partly, refuted or not comparable.
    pub verdict: &'static str,
    /// What was chosen on validation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// One entry per measured number.
    pub rows: Vec<Row>,
    /// Pictures, as numbers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub charts: Vec<Chart>,
}

impl Outcome {
    /// Rule, numbers and pictures in one HTML file; `command` is what was typed.
    pub fn to_html(&self, command: &str) -> String {
        let level = match self.verdict {
            "replicated" => Level::Good,
            "partly" => Level::Warn,
            "refuted" => Level::Bad,
            _ => Level::Neutral,
        };
        let mut verdict = Verdict::new(level, format!("{}: {}", self.verdict, self.claim))
            .detail(format!("Rule, written before the run: {}.", self.rule));
        if self.quick {
            verdict = verdict.detail("A quick run: less data and fewer seeds.");
        }
        let data = if self.quick { "quick run, less data" } else { "full run" };
        let page = Page::new(format!("Experiment {}", self.id)).of(data).verdict(verdict);
        let mut page = page.section("Measured", "").table(self.table());
        for chart in &self.charts {
            page = page.chart(chart.piece());
        }
        if !self.notes.is_empty() {
            page = page.section("Chosen on validation", "").list(&self.notes);
        }
        if !self.deviations.is_empty() {
            let why = "Choices where the paper is silent or contradicts itself.";
            page = page.section("Deviations", why).list(self.deviations.iter().copied());
        }
        page.foot(Foot::new(command).fact("experiment", self.id)).data(self).to_html()
    }

    fn table(&self) -> Table {
        let row = |row: &Row| {
            let held = match row.holds {
                Some(true) => Cell::level(Level::Good, "holds"),
                Some(false) => Cell::level(Level::Bad, "fails"),
                None => Cell::from(""),
            };
            [
                Cell::from(row.what.as_str()),
                Cell::from(row.paper.map(|x| Cell::number(x, 4))),
                Cell::from(row.theory.map(|x| Cell::number(x, 4))),
                Cell::interval(row.measured.value, row.measured.interval(), 4),
                Cell::from(row.measured.seeds),
                held,
            ]
        };
        Table::new("Numbers", ["what", "paper", "theory", "measured", "seeds", "claim"])
            .key("claim")
            .explain("Brackets are intervals at the level that the rule names.")
            .rows(self.rows.iter().map(row))
    }
}

/// One measured number.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What was measured.
    pub what: String,
    /// The paper's value, if it gives one.
    pub paper: Option<f64>,
    /// The value that theory predicts, where the paper gives none.
    pub theory: Option<f64>,
    /// Our value; its interval is at the level the rule names.
    pub measured: Estimate,
    /// Whether the rule holds here; `None` where nothing is claimed.
    pub holds: Option<bool>,
}

impl Row {
    /// Creates a row that claims nothing and is compared with nothing.
    fn new(what: String, measured: Estimate) -> Self {
        Self { what, paper: None, theory: None, measured, holds: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `reproduce run --out` wrote is read as what it writes now.
    #[test]
    fn committed_results_have_estimates() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments");
        for Experiment { id, .. } in REGISTRY {
            // An experiment that was not run yet has none; the book says so.
            let Ok(text) = std::fs::read(format!("{folder}/{id}/result.json")) else { continue };
            let result: serde_json::Value = serde_json::from_slice(&text).unwrap();
            for row in result["rows"].as_array().unwrap() {
                let Estimate { value, low, high, n, seeds, .. } =
                    serde_json::from_value(row["measured"].clone()).unwrap();
                assert!(low <= value && value <= high && n >= 1 && seeds >= 1, "{id}: {row}");
                // One run may have an interval over what it was tested on.
                assert!(seeds == 1 || low > f64::NEG_INFINITY, "{id}: {row}");
            }
        }
    }

    /// Those that generate what a quick run learns from.
    #[test]
    fn a_job_that_is_stopped_ends_its_experiment() {
        let job = Job::silent();
        job.cancel.cancel();
        let options = RunOptions { quick: true, data: None, keep: None, job: &job };
        for experiment in REGISTRY.iter().filter(|e| !e.id.starts_with("001-")) {
            let error = experiment.run(&options).unwrap_err();
            assert!(error.is_interrupted(), "{}: {error}", experiment.id);
        }
    }
}
