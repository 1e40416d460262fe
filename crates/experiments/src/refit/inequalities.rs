//! The lemmas and theorems of paper 004, section 2, measured on trained networks; formulas in `bounds`.

use std::collections::BTreeMap;

use serde::Deserialize;
use veridical::Result;
use veridical_core::{Error as CoreError, Estimate};

use super::bounds::{Bound, Nested, OnGrids, OnPlanes, ROUNDING, regression};
use super::classify::{pairs, planes};
use super::grid::FUNCTIONS_71;
use super::kernels::Study;
use crate::lab::row;
use crate::{Experiment, Findings, Row, RunOptions};

pub(crate) const INEQUALITIES: Experiment = Experiment {
    id: "004-inequalities",
    claim: "Paper 004, section 2, lemmas 4.1 to 5.2 and theorems 4.1 to 5.2: test errors of conjugate and tangent kernel bound each \
        other up to constants",
    rule: "replicated if every inequality has a slack of at least -1e-10 (of |f|_0, or of the larger loss) on every network on which its hypothesis holds, the \
        printed constants of (59) and (61) among them, and the counterexample does not exceed the printed constant of (59); partly if only \
        some of these hold, refuted if none does. (38) and (52) are tested in the forms that are true of numbers: exact projections, \
        and penalized objectives",
    deviations: &[
        "five seeds of the networks of `004-figures3-7` (CKJ and NTKJ as exact projections) and of `004-figures8-11` (lambda = 1e-6)",
        "(38): with truncated pseudo-inverses the spaces are not nested, so the least squares of features stand for the projections; (52): \
         without a penalty both sides are 0",
        "Lipschitz constants are largest slopes between neighboring test nodes",
        "a constant that is far above the measured ratio makes an inequality true and empty: both are reported, as log10 of the right \
         side over the left; residuals of f1 and f2 are not far above the slack that is allowed, so there the ratio says more",
    ],
    config: include_str!("../../../../experiments/004-inequalities/config.toml"),
    run,
};

/// The networks are those of these experiments.
const REGRESSION: &str = include_str!("../../../../experiments/004-figures3-7/config.toml");
const CLASSES: &str = include_str!("../../../../experiments/004-figures8-11/config.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    seeds: u64,
}

fn run(config: &str, options: &RunOptions<'_>) -> Result<Findings> {
    let config: Config = toml::from_str(config)
        .map_err(|e| CoreError::damaged(format!("the configuration is damaged: {e}"), ""))?;
    let mut findings = Findings::default();
    let study = Study::new(REGRESSION, config.seeds, options)?;
    for studied in &study.studied {
        let function = FUNCTIONS_71.into_iter().find(|(name, _)| *name == studied.function);
        let Some((_, function)) = function else { continue };
        let (f, g) = (study.train.values(function), study.test.values(function));
        let of = |looks: &super::kernels::Looks| -> Option<Vec<Bound>> {
            let [ck, ntk] = &looks.last()?.projections;
            Some(regression(
                [&study.train, &study.test],
                &OnGrids { train: &f, test: &g },
                &OnGrids { train: &ck.train, test: &ck.test },
                &OnGrids { train: &ntk.train, test: &ntk.test },
            ))
        };
        let all: Vec<Vec<Bound>> = studied.runs.iter().filter_map(of).collect();
        report(&format!("{}, {}", studied.network, studied.function), &all, &mut findings);
    }
    for pair in pairs(CLASSES, config.seeds, options)? {
        let (name, boundary) = pair.boundary;
        let [train, test] = planes(CLASSES, boundary)?;
        let nested = Nested::new(&train, &test);
        let of = |[ck, ntk]: &[super::logistic::Solved; 2]| {
            nested.bounds(
                &OnPlanes { train: &ck.train, test: &ck.test },
                &OnPlanes { train: &ntk.train, test: &ntk.test },
                [ck.objective, ntk.objective],
            )
        };
        let all: Vec<Vec<Bound>> = pair.solved.iter().map(of).collect();
        report(&format!("{}, {name}", pair.network), &all, &mut findings);
    }
    let [train, test] = planes(CLASSES, |_, _| -1.0)?;
    let nested = Nested::new(&train, &test);
    let [printed, corrected] = nested.constants();
    let reached = nested.counterexample();
    let what = "counterexample to (59): test loss / training loss".to_owned();
    findings.rows.push(Row {
        paper: Some(printed),
        theory: Some(corrected),
        holds: Some(reached <= printed),
        ..Row::new(what, Estimate::point(reached, 1))
    });
    Ok(findings)
}

/// One row for every inequality: log10 of right over left on the networks where the hypothesis holds.
fn report(name: &str, networks: &[Vec<Bound>], findings: &mut Findings) {
    let mut by_name: BTreeMap<usize, (&str, Vec<&Bound>)> = BTreeMap::new();
    for bounds in networks {
        for (at, bound) in bounds.iter().enumerate() {
            by_name.entry(at).or_insert((bound.name, Vec::new())).1.push(bound);
        }
    }
    for (inequality, bounds) in by_name.values() {
        let applied: Vec<&&Bound> = bounds.iter().filter(|bound| bound.applies).collect();
        if bounds.iter().any(|bound| bound.is_conditional) {
            let share = Estimate::share(applied.len() as u64, bounds.len() as u64);
            let what = format!("{name}: share of networks with the hypothesis of {inequality}");
            findings.rows.push(Row::new(what, share.with_seeds(bounds.len() as u64)));
        }
        if applied.is_empty() {
            continue;
        }
        let room: Vec<f64> = applied
            .iter()
            .map(|bound| {
                (bound.right.max(f64::MIN_POSITIVE) / bound.left.max(f64::MIN_POSITIVE)).log10()
            })
            .collect();
        let what = format!("{name}: log10 of right / left of {inequality}");
        let mut found = row(what, None, &room);
        found.holds = Some(applied.iter().all(|bound| bound.slack() >= ROUNDING));
        findings.rows.push(found);
    }
}
