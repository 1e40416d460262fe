//! `veridical reproduce`: experiments that check the papers' claims, each with its rule written down
//! before it runs.

mod families;
mod kernel_error;

use serde::Serialize;

use crate::{Error, Observer, Result};

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
    run: fn(&str, bool, &dyn Observer) -> Result<Vec<Row>>,
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
        config: include_str!("../../../../experiments/000-kernel-error/config.toml"),
        run: kernel_error::run,
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
        config: include_str!("../../../../experiments/000-families/config.toml"),
        run: families::run,
    },
];

/// Finds an experiment.
///
/// # Errors
/// [`Error::Usage`] lists the ids there are.
pub fn find(id: &str) -> Result<&'static Experiment> {
    REGISTRY.iter().find(|experiment| experiment.id == id).ok_or_else(|| {
        let ids: Vec<&str> = REGISTRY.iter().map(|experiment| experiment.id).collect();
        Error::Usage(format!("there is no experiment `{id}`; there are: {}", ids.join(", ")))
    })
}

impl Experiment {
    /// Its configuration, as TOML.
    pub fn config(&self) -> &'static str {
        self.config
    }

    /// Runs it; `quick` takes fewer seeds.
    ///
    /// # Errors
    /// Whatever stops the run.
    pub fn run(&self, quick: bool, observer: &dyn Observer) -> Result<Outcome> {
        let rows = (self.run)(self.config, quick, observer)?;
        let claims: Vec<bool> = rows.iter().filter_map(|row| row.holds).collect();
        let verdict = match claims.iter().filter(|held| **held).count() {
            n if n == claims.len() => "replicated",
            0 => "refuted",
            _ => "partly",
        };
        let Self { id, claim, rule, deviations, .. } = *self;
        Ok(Outcome { id, claim, rule, deviations, quick, verdict, rows })
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
    /// replicated, partly or refuted.
    pub verdict: &'static str,
    /// One entry per measured number.
    pub rows: Vec<Row>,
}

/// One measured number.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What was measured.
    pub what: String,
    /// The value the theory or the paper gives, if it gives one.
    pub expected: Option<f64>,
    /// Our value.
    pub measured: f64,
    /// Its interval, at the level the rule names.
    pub interval: [f64; 2],
    /// How many seeds.
    pub seeds: u64,
    /// Whether the rule holds here; `None` where nothing is claimed.
    pub holds: Option<bool>,
}
