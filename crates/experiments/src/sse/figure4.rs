//! Figure 4: training loss and test measure against epochs, with and without SSE-SE at the same rate.

use serde::Deserialize;
use veridical::{Error, Result};
use veridical_data::{Split, SplitRule};
use veridical_embed::Method;

use super::divided;
use crate::lab::{self, Evaluated, Fit, Problem, row};
use crate::movielens::Folder;
use crate::{Chart, Experiment, Findings, Row, RunOptions, Series};

pub(crate) const FIGURE4: Experiment = Experiment {
    id: "001-figure4",
    claim: "Paper 001, figure 4 and section 4.5: MF and BPR with SSE-SE reach better test results than without, and \
        get there in fewer epochs at the same rate",
    rule: "replicated if for MF and for BPR the 95 % interval of the difference of the best test measure over the \
        epochs, paired over seeds, is better than 0, and that of the number of epochs until the best of the plain \
        run is reached lies below 0 (never counts as one more than all epochs); partly if only some; refuted if none",
    deviations: &[
        "the figure's data and settings are not stated: those of 001-table2 for MF and of 001-table3 for BPR",
        "the loss of a run with SSE is that of the replaced rows, which it minimizes",
        "test measures are looked at after every epoch and the best is taken, for both alike: a figure, no choice",
    ],
    config: include_str!("../../../../experiments/001-figure4/config.toml"),
    run,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    seeds: u64,
    quick_seeds: u64,
    quick_epochs: u32,
    mf: Pair,
    bpr: Pair,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pair {
    settings: toml::Table,
    sse: toml::Table,
}

/// One training: loss and test measure after every epoch.
struct Curve {
    loss: Vec<[f64; 2]>,
    test: Vec<[f64; 2]>,
}

fn run(config: &str, options: &RunOptions<'_>) -> Result<Findings> {
    let config: Config = toml::from_str(config).map_err(|e| {
        Error::damaged(format!("001-figure4: the configuration is damaged: {e}"), "")
    })?;
    let folder = Folder::new(options.data);
    let seeds = if options.quick { config.quick_seeds } else { config.seeds };
    let mut findings = Findings::default();

    let (data, split) = folder.authors(options.quick)?;
    let problem = Problem::new(data, Vec::new(), Evaluated::Rmse);
    let splits = vec![split; seeds as usize];
    compare(&config, Method::Mf, &problem, &splits, options, &mut findings)?;

    let evaluated = Evaluated::Ranking(&["precision@10"], &[10]);
    let problem = Problem::new(folder.warm(options.quick)?, Vec::new(), evaluated);
    let split = |seed| divided(&problem.data, SplitRule::PerUser(50), 0.0, seed);
    let splits: Vec<Split> = (0..seeds).map(split).collect::<Result<_>>()?;
    compare(&config, Method::Bpr, &problem, &splits, options, &mut findings)?;
    Ok(findings)
}

fn compare(
    config: &Config,
    method: Method,
    problem: &Problem,
    splits: &[Split],
    options: &RunOptions<'_>,
    findings: &mut Findings,
) -> Result<()> {
    let pair = if method == Method::Mf { &config.mf } else { &config.bpr };
    let mut with = pair.settings.clone();
    with.extend(pair.sse.clone());
    let sides = [&pair.settings, &with].map(|given| {
        let mut settings = lab::grid(given).swap_remove(0);
        if options.quick {
            settings.insert("epochs".into(), config.quick_epochs.into());
        }
        settings
    });
    let jobs: Vec<(usize, usize)> =
        (0..2).flat_map(|side| (0..splits.len()).map(move |seed| (side, seed))).collect();
    let bar = options.job.progress(method.name(), "trainings", Some(jobs.len() as u64));
    let curves = lab::side_by_side(&jobs, &bar, |&(side, seed)| {
        let split = &splits[seed];
        let fit = Fit {
            problem,
            method,
            settings: &sides[side],
            graphs: "",
            rows: &split.train,
            seed: seed as u64,
            job: options.job,
        };
        let mut curve = Curve { loss: Vec::new(), test: Vec::new() };
        fit.run(|epochs, loss, trainer| {
            let x = f64::from(epochs);
            curve.loss.extend(loss.map(|loss| [x, loss]));
            let values = problem.evaluate(trainer.model(), fit.rows, &split.test, options.job)?;
            curve.test.push([x, values.last().copied().unwrap_or(f64::NAN)]);
            Ok(())
        })?;
        Ok(curve)
    })?;
    let (plain, sse) = curves.split_at(splits.len());
    report(method, problem.evaluated, plain, sse, findings);
    Ok(())
}

/// What a pair of trainings comes to.
struct Reached {
    /// Epochs and measure of the best moment without SSE.
    plain: [f64; 2],
    /// The best measure with SSE.
    sse: f64,
    /// Epochs with SSE until it is as good as `plain`.
    reached: f64,
}

fn report(
    method: Method,
    evaluated: Evaluated,
    plain: &[Curve],
    sse: &[Curve],
    findings: &mut Findings,
) {
    let sign = evaluated.sign();
    let measure = evaluated.measures().last().copied().unwrap_or_default();
    let name = method.name().to_uppercase();
    let better = |a: f64, b: f64| sign * a > sign * b;
    let best = |curve: &Curve| {
        curve.test.iter().fold([0.0, f64::NAN], |best, &at| {
            if best[1].is_nan() || better(at[1], best[1]) { at } else { best }
        })
    };
    let all: Vec<Reached> = plain
        .iter()
        .zip(sse)
        .map(|(plain, sse)| {
            let target = best(plain);
            let reached = sse.test.iter().find(|at| !better(target[1], at[1])).map(|at| at[0]);
            let reached = reached.unwrap_or(sse.test.len() as f64 + 1.0);
            Reached { plain: target, sse: best(sse)[1], reached }
        })
        .collect();
    let values = |of: fn(&Reached) -> f64| all.iter().map(of).collect::<Vec<_>>();
    let rows = &mut findings.rows;
    rows.push(row(format!("{measure}, best of {name}"), None, &values(|of| of.plain[1])));
    rows.push(row(format!("{measure}, best of {name} with SSE-SE"), None, &values(|of| of.sse)));
    rows.push(row(format!("epochs to the best of {name}"), None, &values(|of| of.plain[0])));
    rows.push(row(
        format!("epochs to the same with SSE-SE, {name}"),
        None,
        &values(|of| of.reached),
    ));
    let what = format!("{measure}, with SSE-SE - without, {name}");
    let gain = row(what, None, &values(|of| of.sse - of.plain[1]));
    let [low, high] = gain.measured.interval();
    let holds = Some(if sign > 0.0 { low > 0.0 } else { high < 0.0 });
    rows.push(Row { holds, ..gain });
    let what = format!("epochs, with SSE-SE - without, {name}");
    let faster = row(what, None, &values(|of| of.reached - of.plain[0]));
    rows.push(Row { holds: Some(faster.measured.high < 0.0), ..faster });

    let series = |of: fn(&Curve) -> &Vec<[f64; 2]>| {
        [(plain, "without SSE"), (sse, "SSE-SE")]
            .map(|(curves, name)| Series { name: name.into(), points: of(&curves[0]).clone() })
            .into()
    };
    findings.charts.push(Chart::lines(
        format!("{name}: test {measure} against epochs, seed 0"),
        ["epochs", measure],
        series(|curve| &curve.test),
    ));
    findings.charts.push(Chart::lines(
        format!("{name}: training loss against epochs, seed 0"),
        ["epochs", "loss"],
        series(|curve| &curve.loss),
    ));
}
