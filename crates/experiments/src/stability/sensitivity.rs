//! Figures A.3 and A.4: the dimension of h, and the variance of the law that U is drawn from.

use serde::Deserialize;
use veridical::{Error, Result};
use veridical_inspect::{Treated, Treatment};

use super::ensemble::{self, Ensemble};
use super::evaluate::{Evaluated, Evaluator, Target, as_it_comes, means, one_split};
use super::world::World;
use super::{phi, sd_row};
use crate::lab::{self, row, sd_ratio};
use crate::{Chart, Experiment, Findings, Row, RunOptions, Series};

const PENALTY: &str = "data, trainer and splits are those of 000-table1; C = 1 as the paper's; C = 100 beside it, \
    because C = 1 holds weights back and not all treatments alike";
const PICTURES: &str = "the paper shows pictures and no numbers";

pub(crate) const FIGURE_A3: Experiment = Experiment {
    id: "000-figureA3",
    claim: "Paper 000, figure A.3: for d = 16, 32, 64 and U standard Gaussian, phi_d predicts genres better than h_d, \
        phi_2d better than phi_d, and both spread less over runs",
    rule: "replicated if for every d and C = 1 the 95 % intervals of phi_d - h_d and phi_2d - phi_d in accuracy, paired \
        over runs, lie above 0, and those of sd(h_d) / sd(phi_d) and sd(h_d) / sd(phi_2d) on one split above 1; partly \
        if only some hold; refuted if none. Macro F1 and C = 100 are reported without a claim",
    deviations: &[PENALTY, PICTURES, "phi_d has d coordinates, as the caption of table 1 has it"],
    config: include_str!("../../../../experiments/000-figureA3/config.toml"),
    run: |config, options| study("000-figureA3", config, options),
};

pub(crate) const FIGURE_A4: Experiment = Experiment {
    id: "000-figureA4",
    claim: "Paper 000, figure A.4: for d = 16, 32, 64 the accuracy under phi_d is very stable over the variance of the \
        law of U, 0.2, 0.4, 0.6, 0.8",
    rule: "replicated if for every d and C = 1 the 95 % interval of the accuracy at 0.4, 0.6 and 0.8 less that at 0.2, \
        paired over runs, lies within one point of 0; partly if only some do; refuted if none. C = 100 is reported \
        without a claim",
    deviations: &[PENALTY, PICTURES, "phi_d has d coordinates, as the caption of table 1 has it"],
    config: include_str!("../../../../experiments/000-figureA4/config.toml"),
    run: |config, options| study("000-figureA4", config, options),
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    seeds: u64,
    quick_seeds: u64,
    quick_epochs: u32,
    splits: u64,
    quick_splits: u64,
    /// d.
    dims: Vec<usize>,
    /// Penalties; the first decides.
    c: Vec<f64>,
    /// sigma_Q^2; empty for U standard Gaussian, against h.
    #[serde(default)]
    variances: Vec<f64>,
    settings: toml::Table,
}

/// Points that a choice of the law may cost.
const NEGLIGIBLE: f64 = 1.0;

fn study(id: &str, config: &str, options: &RunOptions<'_>) -> Result<Findings> {
    let config: Config = toml::from_str(config)
        .map_err(|e| Error::damaged(format!("{id}: the configuration is damaged: {e}"), ""))?;
    let (seeds, splits) = match options.quick {
        true => (config.quick_seeds, config.quick_splits),
        false => (config.seeds, config.splits),
    };
    let world = World::new(options)?;
    let evaluate = Evaluator::new(&world, splits, options.job)?;
    let mut findings = Findings::default();
    for &d in &config.dims {
        let mut settings = lab::grid(&config.settings).swap_remove(0);
        settings.insert("dim".into(), d.into());
        if options.quick {
            settings.insert("epochs".into(), config.quick_epochs.into());
        }
        let last = settings.get("epochs").and_then(serde_json::Value::as_u64).unwrap_or(1) as u32;
        let trained = ensemble::train(&world, &settings, None, 0..seeds, &[last], options)?;
        let ensemble = Ensemble::of(&world, &trained);
        for (at, &c) in config.c.iter().enumerate() {
            let of = |treatment: &Treatment| -> Result<Evaluated> {
                let treated = Treated::new(&ensemble.runs, &ensemble.maps, &world.first.rows);
                let settings = as_it_comes(c);
                let rows = |run| Ok(treated.of(treatment, run)?);
                evaluate.evaluate(ensemble.runs.runs.len(), rows, Target::First, &settings)
            };
            match config.variances.is_empty() {
                true => dimensions(d, c, at == 0, of, &mut findings)?,
                false => laws(d, c, at == 0, &config.variances, of, &mut findings)?,
            }
        }
    }
    Ok(findings)
}

fn scores(name: &str, evaluated: &Evaluated, findings: &mut Findings) {
    for (measure, scores) in [("accuracy", &evaluated.accuracy), ("macro F1", &evaluated.macro_f1)]
    {
        findings.rows.push(row(format!("{measure}, {name}"), None, &means(scores)));
        let what = format!("sd of {measure} on one split, {name}");
        findings.rows.push(sd_row(what, None, &one_split(scores)));
    }
}

fn less(a: &Evaluated, b: &Evaluated) -> Vec<f64> {
    means(&a.accuracy).iter().zip(means(&b.accuracy)).map(|(a, b)| a - b).collect()
}

/// A.3
fn dimensions(
    d: usize,
    c: f64,
    decides: bool,
    of: impl Fn(&Treatment) -> Result<Evaluated>,
    findings: &mut Findings,
) -> Result<()> {
    let h = of(&Treatment::Raw)?;
    let [small, large] = [d, 2 * d].map(|dim| of(&Treatment::Features(phi(d, dim, 1.0, 0)?)));
    let (small, large) = (small?, large?);
    for (name, evaluated) in [("h_d", &h), ("phi_d", &small), ("phi_2d", &large)] {
        scores(&format!("{name}, d = {d}, C = {c}"), evaluated, findings);
    }
    for (name, a, b) in [("phi_d - h_d", &small, &h), ("phi_2d - phi_d", &large, &small)] {
        let gain = row(format!("accuracy, {name}, d = {d}, C = {c}"), None, &less(a, b));
        let holds = decides.then_some(gain.measured.low > 0.0);
        findings.rows.push(Row { holds, ..gain });
    }
    for (name, evaluated) in [("phi_d", &small), ("phi_2d", &large)] {
        let ratio = sd_ratio(&one_split(&h.accuracy), &one_split(&evaluated.accuracy));
        let Some(measured) = ratio else { continue };
        let what = format!("sd(h_d) / sd({name}) of accuracy on one split, d = {d}, C = {c}");
        let holds = decides.then_some(measured.low > 1.0);
        findings.rows.push(Row { holds, ..Row::new(what, measured) });
    }
    Ok(())
}

/// A.4
fn laws(
    d: usize,
    c: f64,
    decides: bool,
    variances: &[f64],
    of: impl Fn(&Treatment) -> Result<Evaluated>,
    findings: &mut Findings,
) -> Result<()> {
    let mut all: Vec<Evaluated> = Vec::new();
    for variance in variances {
        // u ~ N(0, sigma^2 I) has l = 1 / sigma.
        let evaluated = of(&Treatment::Features(phi(d, d, 1.0 / variance.sqrt(), 0)?))?;
        scores(&format!("phi_d, d = {d}, sigma^2 = {variance}, C = {c}"), &evaluated, findings);
        all.push(evaluated);
    }
    for (variance, evaluated) in variances.iter().zip(&all).skip(1) {
        let first = variances[0];
        let what = format!("accuracy, sigma^2 = {variance} less {first}, d = {d}, C = {c}");
        let change = row(what, None, &less(evaluated, &all[0]));
        let near = change.measured.interval().iter().all(|x| x.abs() <= NEGLIGIBLE);
        findings.rows.push(Row { holds: decides.then_some(near), ..change });
    }
    let mean = |evaluated: &Evaluated| {
        let means = means(&evaluated.accuracy);
        means.iter().sum::<f64>() / means.len() as f64
    };
    let points = variances.iter().zip(&all).map(|(&v, evaluated)| [v, mean(evaluated)]).collect();
    let series = Series { name: format!("d = {d}"), points };
    let caption = format!("Accuracy of phi_d against sigma^2, d = {d}, C = {c}");
    findings.charts.push(Chart::lines(caption, ["sigma^2", "accuracy"], vec![series]));
    Ok(())
}
