//! A table of methods: settings chosen on validation, then every method on every seed, then differences
//! paired by seed.
//!
//! Run s trains with seed s on the split of split seed s, so intervals cover both; with `one_split_too` the
//! same seeds are also run on the split of split seed 0.

use std::collections::BTreeMap;

use serde::Deserialize;
use veridical::{Error, Result};
use veridical_data::Split;
use veridical_embed::Method;

use crate::lab::{self, Choice, Fit, Problem, Settings, row};
use crate::{Findings, Row, RunOptions};

/// Training seed of the runs that settings are chosen by; no other run has it.
const CHOICE_SEED: u64 = 1000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    seeds: u64,
    quick_seeds: u64,
    /// Epochs that `--quick` trains for.
    quick_epochs: u32,
    /// Share of the training rows that settings are chosen on.
    pub validation: f64,
    /// Epochs between two looks at validation.
    every: u32,
    /// Whether all seeds also run on one split.
    #[serde(default)]
    one_split_too: bool,
    /// Settings of every variant of a method; lists are chosen from.
    #[serde(default)]
    common: BTreeMap<String, toml::Table>,
    variant: Vec<Variant>,
    #[serde(default)]
    claim: Vec<Claim>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Variant {
    name: String,
    method: String,
    #[serde(default)]
    graphs: String,
    /// One value per measure.
    #[serde(default)]
    paper: Vec<f64>,
    #[serde(default)]
    settings: toml::Table,
}

/// The paper says that one variant is better than another.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Claim {
    better: String,
    than: String,
}

impl Config {
    pub fn parse(id: &str, text: &str) -> Result<Self> {
        toml::from_str(text)
            .map_err(|e| Error::damaged(format!("{id}: the configuration is damaged: {e}"), ""))
    }

    fn at(&self, name: &str) -> Result<usize> {
        self.variant.iter().position(|variant| variant.name == name).ok_or_else(|| {
            Error::damaged(
                format!("the configuration is damaged: there is no variant `{name}`"),
                "",
            )
        })
    }

    /// Everything a variant is tried with.
    fn candidates(&self, variant: &Variant, quick: bool) -> Result<(Method, Vec<Settings>)> {
        let name = &variant.method;
        let method = Method::from_name(name).ok_or_else(|| {
            Error::damaged(format!("the configuration is damaged: there is no method `{name}`"), "")
        })?;
        let mut given = self.common.get(name).cloned().unwrap_or_default();
        given.extend(variant.settings.clone());
        let mut candidates = lab::grid(&given);
        if quick {
            candidates.truncate(1);
            for settings in &mut candidates {
                if let Some(epochs) = settings.get_mut("epochs") {
                    *epochs = self.quick_epochs.into();
                }
            }
        }
        Ok((method, candidates))
    }
}

/// Runs the table; `split` divides the rows of the problem by a split seed.
pub fn run(
    config: &Config,
    problem: &Problem,
    split: impl Fn(u64) -> Result<Split>,
    options: &RunOptions<'_>,
) -> Result<Findings> {
    let seeds = if options.quick { config.quick_seeds } else { config.seeds };
    let splits: Vec<Split> = (0..seeds).map(split).collect::<Result<_>>()?;
    let rows: Vec<Vec<u32>> = splits.iter().map(lab::learned).collect();

    let (chosen, notes) = choose(config, problem, &splits[0], options)?;

    // (variant, split, seed)
    let varied = (0..seeds).map(|s| (s, s));
    let fixed = (1..seeds).map(|s| (0, s)).filter(|_| config.one_split_too);
    let runs: Vec<(u64, u64)> = varied.chain(fixed).collect();
    let jobs: Vec<(usize, u64, u64)> = runs
        .iter()
        .flat_map(|&(split, seed)| (0..chosen.len()).map(move |variant| (variant, split, seed)))
        .collect();
    let bar = options.job.progress("measuring", "trainings", Some(jobs.len() as u64));
    let values = lab::side_by_side(&jobs, &bar, |&(variant, split, seed)| {
        let (method, choice) = &chosen[variant];
        let fit = Fit {
            problem,
            method: *method,
            settings: &choice.settings,
            graphs: &config.variant[variant].graphs,
            rows: &rows[split as usize],
            seed,
            job: options.job,
        };
        let model = fit.run(|_, _, _| Ok(()))?;
        problem.evaluate(&model, fit.rows, &splits[split as usize].test, options.job)
    })?;
    let found: BTreeMap<_, _> = jobs.into_iter().zip(values).collect();

    let mut report = Report { config, problem, found: &found, rows: Vec::new() };
    report.regime("", &(0..seeds).map(|s| (s, s)).collect::<Vec<_>>(), true)?;
    if config.one_split_too {
        report.regime(", one split", &(0..seeds).map(|s| (0, s)).collect::<Vec<_>>(), false)?;
    }
    Ok(Findings { rows: report.rows, notes, ..Findings::default() })
}

/// How a variant is run.
type Chosen = (Method, Choice);

/// The best settings of every variant on validation, and what was chosen in words.
fn choose(
    config: &Config,
    problem: &Problem,
    split: &Split,
    options: &RunOptions<'_>,
) -> Result<(Vec<Chosen>, Vec<String>)> {
    let variants: Vec<(Method, Vec<Settings>)> = config
        .variant
        .iter()
        .map(|variant| config.candidates(variant, options.quick))
        .collect::<Result<_>>()?;
    let jobs: Vec<(usize, &Settings)> = variants
        .iter()
        .enumerate()
        .flat_map(|(v, (_, candidates))| candidates.iter().map(move |settings| (v, settings)))
        .collect();
    let bar = options.job.progress("choosing", "trainings", Some(jobs.len() as u64));
    let tried = lab::side_by_side(&jobs, &bar, |&(v, settings)| {
        let graphs = &config.variant[v].graphs;
        let fit = Fit {
            problem,
            method: variants[v].0,
            settings,
            graphs,
            rows: &split.train,
            seed: CHOICE_SEED,
            job: options.job,
        };
        let every = if options.quick { 1 } else { config.every };
        // A closed form has no epochs to choose.
        let every = if settings.contains_key("epochs") { every } else { 1 };
        lab::validate(&fit, &split.validation, every)
    })?;
    let sign = problem.evaluated.sign();
    let mut chosen = Vec::new();
    let mut notes = Vec::new();
    for (v, (method, candidates)) in variants.iter().enumerate() {
        let name = &config.variant[v].name;
        let of_variant = jobs.iter().zip(&tried).filter(|((of, _), _)| *of == v);
        let mut best: Option<&Choice> = None;
        for choice in of_variant.filter_map(|(_, choice)| choice.as_ref()) {
            if best.is_none_or(|best| sign * choice.value > sign * best.value) {
                best = Some(choice);
            }
        }
        let best = best.ok_or_else(|| {
            Error::request(format!("{name}: every training diverged"), "lower the learning rate")
        })?;
        let measure = problem.evaluated.measures().last().copied().unwrap_or_default();
        let picked = picked(candidates, best);
        if !picked.is_empty() {
            notes.push(format!("{name}: {picked} by {measure} {:.4} on validation", best.value));
        }
        chosen.push((*method, best.clone()));
    }
    Ok((chosen, notes))
}

/// The settings in which the candidates differ, and the number of epochs.
fn picked(candidates: &[Settings], best: &Choice) -> String {
    let differs = |name: &str| candidates.iter().any(|c| c.get(name) != candidates[0].get(name));
    let of = |(name, value): (&String, &serde_json::Value)| {
        (name == "epochs" || differs(name)).then(|| format!("{name} {value}"))
    };
    best.settings.iter().filter_map(of).collect::<Vec<_>>().join(", ")
}

struct Report<'a> {
    config: &'a Config,
    problem: &'a Problem,
    /// Measures by variant, split seed and seed.
    found: &'a BTreeMap<(usize, u64, u64), Vec<f64>>,
    rows: Vec<Row>,
}

impl Report<'_> {
    fn values(&self, variant: usize, measure: usize, runs: &[(u64, u64)]) -> Vec<f64> {
        runs.iter().map(|&(split, seed)| self.found[&(variant, split, seed)][measure]).collect()
    }

    /// Rows about some runs; claims are decided only where `decides`.
    fn regime(&mut self, suffix: &str, runs: &[(u64, u64)], decides: bool) -> Result<()> {
        let measures = self.problem.evaluated.measures();
        for (v, variant) in self.config.variant.iter().enumerate() {
            for (m, measure) in measures.iter().enumerate() {
                let what = format!("{measure}, {}{suffix}", variant.name);
                let paper = variant.paper.get(m).copied().filter(|_| decides);
                let row = row(what, paper, &self.values(v, m, runs));
                self.rows.push(row);
            }
        }
        for claim in &self.config.claim {
            let (better, than) = (self.config.at(&claim.better)?, self.config.at(&claim.than)?);
            for (m, measure) in measures.iter().enumerate() {
                self.difference([better, than], m, measure, suffix, runs, decides);
            }
        }
        Ok(())
    }

    /// Better minus the other, paired by run: on the right side of 0, and of the paper's size.
    fn difference(
        &mut self,
        [better, than]: [usize; 2],
        m: usize,
        measure: &str,
        suffix: &str,
        runs: &[(u64, u64)],
        decides: bool,
    ) {
        let (a, b) = (self.values(better, m, runs), self.values(than, m, runs));
        let differences: Vec<f64> = a.iter().zip(&b).map(|(a, b)| a - b).collect();
        let [better, than] = [better, than].map(|v| &self.config.variant[v]);
        let paper = |variant: &Variant| variant.paper.get(m).copied();
        let paper = paper(better).zip(paper(than)).map(|(a, b)| a - b).filter(|_| decides);
        let sign = self.problem.evaluated.sign();
        let what = format!("{measure}, {} - {}{suffix}", better.name, than.name);
        let row = row(what.clone(), paper, &differences);
        let [low, high] = row.measured.interval();
        let right = if sign > 0.0 { low > 0.0 } else { high < 0.0 };
        self.rows.push(Row { holds: decides.then_some(right), ..row.clone() });
        if let Some(paper) = paper {
            let inside = (low..=high).contains(&paper);
            let what = format!("{what}: the paper's size is inside the interval");
            self.rows.push(Row { what, holds: Some(inside), ..row });
        }
    }
}
