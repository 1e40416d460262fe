//! Figure 1: how far coordinates and inner products move from run to run.
//!
//! v = mean over items and dimensions of the unbiased variance over runs of a coordinate; the same over sampled pairs
//! of items of an inner product. Intervals: jackknife over runs (Efron & Tibshirani 1993, 11). A unit vector turned
//! at random has coordinates of variance 1/d: unit rows begin there, so only vectors of their own length can move
//! further apart in training.

use serde::Deserialize;
use veridical::{Error, Result};
use veridical_core::stats::{quantile, sd_interval};
use veridical_core::{Estimate, Order, Seed, Stream};
use veridical_learn::dot;

use super::ensemble::{self, Ensemble, Trained};
use super::modes::dip_test;
use super::world::World;
use crate::lab::{self, row};
use crate::{Chart, Experiment, Findings, Row, RunOptions, Series};

pub(crate) const FIGURE1: Experiment = Experiment {
    id: "000-figure1",
    claim: "Paper 000, figure 1: over ten runs (a) coordinates of h vary widely while (b) losses agree, (c) the variance \
        grows as training goes on, and (d) the variance of inner products is by magnitudes smaller",
    rule: "replicated if (a) the interval of the deviation over runs of a coordinate, relative to its root mean square \
        size, lies above 0.5 (unit rows) and (b) that of the deviation of the last epoch's loss relative to its mean \
        below 0.01; (c) for successive epochs of 1, 2, 5, 10 the interval of the ratio of variances lies above 1 \
        (vectors of their own length); (d) that of the variance of coordinates over the variance of inner products \
        lies above 10 (unit rows); (c) the dip test rejects one mode for the variances of coordinates drawn at random \
        (vectors of their own length, last epoch) at 5 %; partly if only some hold; refuted if none. Intervals are 95 %, jackknife over runs, \
        chi-square for the loss. Unit rows in (c), aligned coordinates and relative sizes in (d) are reported \
        without a claim",
    deviations: &[
        "the paper shows pictures and no numbers: the limits 0.5, 0.01, 1 and 10 are ours",
        "the paper does not say whether rows are of unit length: both are measured",
        "data and trainer are those of 000-table1; the loss is item2vec's, over every 16th position",
        "the three movies are drawn at random",
    ],
    config: include_str!("../../../../experiments/000-figure1/config.toml"),
    run,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    seeds: u64,
    quick_seeds: u64,
    /// Epochs that are looked at, the last one the end.
    epochs: Vec<u32>,
    quick_epochs: Vec<u32>,
    /// Items shown one by one.
    shown: u64,
    /// Pairs of items.
    pairs: u64,
    /// Coordinates whose variances are tested for one mode.
    modes: usize,
    settings: toml::Table,
}

/// Uniform samples of a dip test.
const DIPS: u64 = 999;
/// Steps of the quantiles in a picture.
const STEPS: u32 = 40;

fn run(config: &str, options: &RunOptions<'_>) -> Result<Findings> {
    let config: Config = toml::from_str(config).map_err(|e| {
        Error::damaged(format!("000-figure1: the configuration is damaged: {e}"), "")
    })?;
    let (seeds, epochs) = match options.quick {
        true => (config.quick_seeds, &config.quick_epochs),
        false => (config.seeds, &config.epochs),
    };
    let mut settings = lab::grid(&config.settings).swap_remove(0);
    settings.insert("epochs".into(), epochs.last().copied().unwrap_or(1).into());
    let world = World::new(options)?;
    let trained = ensemble::train(&world, &settings, None, 0..seeds, epochs, options)?;
    let mut findings = Findings::default();
    losses(&trained, &mut findings);
    growth(&world, &trained, epochs, &mut findings)?;
    let unit = Ensemble::of(&world, &trained);
    let tables = Tables::of(&unit);
    movies(&world, &tables, config.shown, &mut findings)?;
    inner_products(&unit, &tables, config.pairs, &mut findings)?;
    let own = Ensemble::new(
        &world.data.items,
        trained.iter().filter_map(|t| t.after.last().cloned()),
        false,
    );
    own_length(&own, config.pairs, &mut findings)?;
    let lengths = [("own length", &own), ("unit rows", &unit)];
    for (decides, (kind, of)) in [true, false].into_iter().zip(lengths) {
        let tables: Vec<&[f32]> = of.runs.runs.iter().map(|run| &run.rows[..]).collect();
        let [dip, p] = one_mode(&variances(&tables), config.modes)?;
        let what = format!("(c) dip of the variances of coordinates, {kind}");
        findings.rows.push(estimated(what, dip, None));
        let what = format!("(c) p of one mode of these variances, {kind}");
        findings.rows.push(estimated(what, p, decides.then_some(p.value < 0.05)));
    }
    Ok(findings)
}

/// Rows of all runs as they are, and turned to the first.
struct Tables {
    dim: usize,
    raw: Vec<Vec<f32>>,
    aligned: Vec<Vec<f32>>,
}

impl Tables {
    fn of(ensemble: &Ensemble) -> Self {
        let runs = &ensemble.runs.runs;
        Self {
            dim: ensemble.dim(),
            raw: runs.iter().map(|run| run.rows.clone()).collect(),
            aligned: runs
                .iter()
                .zip(&ensemble.maps)
                .map(|(run, map)| map.apply(&run.rows))
                .collect(),
        }
    }
}

/// The variance over runs of every value.
pub(super) fn variances(tables: &[&[f32]]) -> Vec<f64> {
    let n = tables.len() as f64;
    let of = |i: usize| {
        let values = tables.iter().map(|table| f64::from(table[i]));
        let mean = values.clone().sum::<f64>() / n;
        values.map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0)
    };
    (0..tables[0].len()).map(of).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

pub(super) fn mean_variance(tables: &[&[f32]]) -> f64 {
    mean(&variances(tables))
}

/// The mean square of all values.
pub(super) fn mean_square(tables: &[&[f32]]) -> f64 {
    let of = |table: &&[f32]| table.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>();
    tables.iter().map(of).sum::<f64>() / (tables.len() * tables[0].len()) as f64
}

/// Dip and p of one mode for so many of the values, drawn with replacement.
pub(super) fn one_mode(values: &[f64], drawn: usize) -> Result<[Estimate; 2]> {
    let mut draws = Stream::new(Seed::new(0)?, "reproduce/modes").at(0, 0).draws();
    let sample: Vec<f64> =
        (0..drawn).map(|_| values[draws.below(values.len() as u32) as usize]).collect();
    let (dip, p) = dip_test(&sample, DIPS, Seed::new(0)?);
    Ok([dip, p].map(|value| Estimate::point(value, drawn as u64)))
}

/// A statistic of runs, with the jackknife over runs.
pub(super) fn over_runs(runs: usize, statistic: impl Fn(&[usize]) -> f64) -> Result<Estimate> {
    let all: Vec<usize> = (0..runs).collect();
    let without: Vec<f64> = all
        .iter()
        .map(|&left_out| {
            let kept: Vec<usize> = all.iter().copied().filter(|&run| run != left_out).collect();
            statistic(&kept)
        })
        .collect();
    Estimate::jackknife(statistic(&all), &without, runs as u64)
        .map(|estimate| estimate.with_seeds(runs as u64))
        .ok_or_else(|| Error::request("a variance over runs is not finite", ""))
}

pub(super) fn select<'a>(tables: &'a [Vec<f32>], runs: &[usize]) -> Vec<&'a [f32]> {
    runs.iter().map(|&run| &tables[run][..]).collect()
}

pub(super) fn estimated(what: String, measured: Estimate, holds: Option<bool>) -> Row {
    Row { holds, ..Row::new(what, measured) }
}

/// The quantiles of values, as a line.
pub(super) fn quantiles(name: String, values: &mut [f64]) -> Series {
    let points = (0..=STEPS).map(|step| {
        let q = f64::from(step) / f64::from(STEPS);
        [q, quantile(values, q).unwrap_or(f64::NAN)]
    });
    Series { name, points: points.collect() }
}

/// (b)
fn losses(trained: &[Trained], findings: &mut Findings) {
    let last: Vec<f64> = trained.iter().filter_map(|t| t.losses.last().copied()).collect();
    let first: Vec<f64> = trained.iter().filter_map(|t| t.losses.first().copied()).collect();
    findings.rows.push(row("(b) loss of the first epoch".into(), None, &first));
    findings.rows.push(row("(b) loss of the last epoch".into(), None, &last));
    let center = mean(&last);
    let freedom = last.len() as f64 - 1.0;
    let sd = (last.iter().map(|x| (x - center).powi(2)).sum::<f64>() / freedom).sqrt();
    let interval = sd_interval(sd, freedom).map(|sd| sd / center);
    let relative = lab::between(sd / center, interval, last.len());
    let what = "(b) sd of the last loss over runs, relative to its mean".into();
    findings.rows.push(estimated(what, relative, Some(relative.high < 0.01)));
    let series = |(seed, trained): (usize, &Trained)| {
        let points = trained.losses.iter().enumerate().map(|(e, &loss)| [e as f64 + 1.0, loss]);
        Series { name: format!("seed {seed}"), points: points.collect() }
    };
    let series = trained.iter().enumerate().map(series).collect();
    let caption = "(b) Loss of every run".to_owned();
    findings.charts.push(Chart::lines(caption, ["epoch", "loss"], series));
}

/// (c)
fn growth(
    world: &World,
    trained: &[Trained],
    epochs: &[u32],
    findings: &mut Findings,
) -> Result<()> {
    let runs = trained.len();
    let mut own: Vec<Vec<Vec<f32>>> = Vec::new();
    let mut charts: [Vec<Series>; 3] = Default::default();
    for (at, epoch) in epochs.iter().enumerate() {
        let of_epoch = || trained.iter().map(|t| t.after[at].clone());
        let unit = Tables::of(&Ensemble::new(&world.data.items, of_epoch(), true));
        own.push(of_epoch().collect());
        let kinds = [
            ("own length", &own[at]),
            ("unit rows", &unit.raw),
            ("unit rows, aligned", &unit.aligned),
        ];
        for ((kind, tables), chart) in kinds.into_iter().zip(&mut charts) {
            let estimate = over_runs(runs, |kept| mean_variance(&select(tables, kept)))?;
            let what = format!("(c) variance of a coordinate over runs, {kind}, epoch {epoch}");
            findings.rows.push(estimated(what, estimate, None));
            let mut all = variances(&select(tables, &(0..runs).collect::<Vec<_>>()));
            chart.push(quantiles(format!("epoch {epoch}"), &mut all));
        }
        let size = over_runs(runs, |kept| mean_square(&select(&own[at], kept)))?;
        let what = format!("(c) mean square of a coordinate, own length, epoch {epoch}");
        findings.rows.push(estimated(what, size, None));
    }
    for (at, pair) in epochs.windows(2).enumerate() {
        let ratio = over_runs(runs, |kept| {
            mean_variance(&select(&own[at + 1], kept)) / mean_variance(&select(&own[at], kept))
        })?;
        let what = format!("(c) variance at epoch {} / epoch {}, own length", pair[1], pair[0]);
        findings.rows.push(estimated(what, ratio, Some(ratio.low > 1.0)));
    }
    for (kind, series) in ["own length", "unit rows", "unit rows, aligned"].into_iter().zip(charts)
    {
        let caption = format!("(c) Quantiles of the variances of coordinates over runs, {kind}");
        findings.charts.push(Chart::lines(caption, ["share of coordinates", "variance"], series));
    }
    Ok(())
}

/// (a)
fn movies(world: &World, tables: &Tables, shown: u64, findings: &mut Findings) -> Result<()> {
    let (runs, d) = (tables.raw.len(), tables.dim);
    let items = world.first.rows.len() as u64;
    let order = Order::new(items, Seed::new(0)?, "reproduce/movies", 0);
    let mut series = Vec::new();
    for item in (0..shown.min(items)).map(|t| world.first.rows[order.at(t) as usize]) {
        let id = world.data.items.id(item);
        for (kind, all) in [("raw", &tables.raw), ("aligned", &tables.aligned)] {
            let row: Vec<Vec<f32>> =
                all.iter().map(|table| table[item as usize * d..][..d].to_vec()).collect();
            let estimate = over_runs(runs, |kept| mean_variance(&select(&row, kept)))?;
            let what = format!("(a) variance of a coordinate over runs, item {id}, {kind}");
            findings.rows.push(estimated(what, estimate, None));
            let all = variances(&select(&row, &(0..runs).collect::<Vec<_>>()));
            let points = all.iter().enumerate().map(|(k, &v)| [k as f64 + 1.0, v]).collect();
            series.push(Series { name: format!("item {id}, {kind}"), points });
        }
    }
    let caption = "(a) Variance over runs of every dimension of some items, unit rows".to_owned();
    findings.charts.push(Chart::lines(caption, ["dimension", "variance"], series));
    for (kind, all, claimed) in [("raw", &tables.raw, true), ("aligned", &tables.aligned, false)] {
        let relative = over_runs(runs, |kept| {
            let kept = select(all, kept);
            (mean_variance(&kept) / mean_square(&kept)).sqrt()
        })?;
        let what =
            format!("(a) sd of a coordinate over runs relative to its size, unit rows, {kind}");
        let holds = claimed.then_some(relative.low > 0.5);
        findings.rows.push(estimated(what, relative, holds));
    }
    Ok(())
}

/// Inner products of the same pairs of items in every run.
fn products(ensemble: &Ensemble, pairs: u64) -> Result<Vec<Vec<f32>>> {
    let stream = Stream::new(Seed::new(0)?, "reproduce/pairs");
    let n = ensemble.runs.n() as u32;
    let pairs: Vec<(usize, usize)> = (0..pairs)
        .map(|pair| {
            let mut draws = stream.at(0, pair).draws();
            let i = draws.below(n);
            (i as usize, ((i + 1 + draws.below(n - 1)) % n) as usize)
        })
        .collect();
    let of_run = |run: &veridical_inspect::SharedRows| {
        pairs.iter().map(|&(i, j)| dot(run.row(i), run.row(j))).collect()
    };
    Ok(ensemble.runs.runs.iter().map(of_run).collect())
}

/// The variance over pairs of their means over runs.
fn spread(tables: &[&[f32]]) -> f64 {
    let of = |i: usize| tables.iter().map(|t| f64::from(t[i])).sum::<f64>() / tables.len() as f64;
    let values: Vec<f64> = (0..tables[0].len()).map(of).collect();
    let center = mean(&values);
    values.iter().map(|x| (x - center).powi(2)).sum::<f64>() / (values.len() as f64 - 1.0)
}

/// (d)
fn inner_products(
    unit: &Ensemble,
    tables: &Tables,
    pairs: u64,
    findings: &mut Findings,
) -> Result<()> {
    let products = products(unit, pairs)?;
    let runs = products.len();
    let variance = over_runs(runs, |kept| mean_variance(&select(&products, kept)))?;
    let what = "(d) variance of an inner product over runs, unit rows".into();
    findings.rows.push(estimated(what, variance, None));
    for (kind, all, claimed) in [("raw", &tables.raw, true), ("aligned", &tables.aligned, false)] {
        let ratio = over_runs(runs, |kept| {
            mean_variance(&select(all, kept)) / mean_variance(&select(&products, kept))
        })?;
        let what =
            format!("(d) variance of coordinates / variance of inner products, unit rows, {kind}");
        findings.rows.push(estimated(what, ratio, claimed.then_some(ratio.low > 10.0)));
    }
    let relative = over_runs(runs, |kept| {
        let kept = select(&products, kept);
        (mean_variance(&kept) / spread(&kept)).sqrt()
    })?;
    let what = "(d) sd of an inner product over runs relative to its spread over pairs, unit rows";
    findings.rows.push(estimated(what.into(), relative, None));
    let all: Vec<usize> = (0..runs).collect();
    let mut kinds = [
        ("coordinates", variances(&select(&tables.raw, &all))),
        ("coordinates, aligned", variances(&select(&tables.aligned, &all))),
        ("inner products", variances(&select(&products, &all))),
    ];
    let series =
        kinds.iter_mut().map(|(name, values)| quantiles((*name).to_owned(), values)).collect();
    let caption = "(d) Quantiles of variances over runs, unit rows".to_owned();
    findings.charts.push(Chart::lines(caption, ["share", "variance"], series));
    Ok(())
}

/// (d) for vectors as they were trained.
fn own_length(own: &Ensemble, pairs: u64, findings: &mut Findings) -> Result<()> {
    let (tables, products) = (Tables::of(own), products(own, pairs)?);
    let runs = products.len();
    let variance = over_runs(runs, |kept| mean_variance(&select(&products, kept)))?;
    let what = "(d) variance of an inner product over runs, own length".into();
    findings.rows.push(estimated(what, variance, None));
    let ratio = over_runs(runs, |kept| {
        mean_variance(&select(&tables.raw, kept)) / mean_variance(&select(&products, kept))
    })?;
    let what = "(d) variance of coordinates / variance of inner products, own length".into();
    findings.rows.push(estimated(what, ratio, None));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs 1, 2, 4 of one value: variance 7/3; leaving one out 2, 4.5, 0.5, whose mean is 7/3.
    #[test]
    fn variances_over_runs_and_their_jackknife() {
        let tables = [vec![1.0f32], vec![2.0], vec![4.0]];
        let estimate = over_runs(3, |kept| mean_variance(&select(&tables, kept))).unwrap();
        assert!((estimate.value - 7.0 / 3.0).abs() < 1e-12);
        let squares: f64 = [2.0f64, 4.5, 0.5].iter().map(|v| (v - 7.0 / 3.0).powi(2)).sum();
        assert!((estimate.error - (2.0 / 3.0 * squares).sqrt()).abs() < 1e-12);
    }
}
