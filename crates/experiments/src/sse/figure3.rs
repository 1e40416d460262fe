//! Figure 3: item embeddings with and without SSE, projected to their first three principal components.
//!
//! The paper shows pictures in which embeddings gather in "two black holes". As a number: two centers are
//! fitted to the projected items (Lloyd 1982), and
//!
//! gathered = median distance of an item to its nearest center / sqrt(mean squared distance to the mean)

use serde::Deserialize;
use veridical::{Error, Result};
use veridical_data::SplitRule;
use veridical_embed::{Embedding, Method, Model};

use super::{cold, divided};
use crate::lab::{self, Fit, Problem, row};
use crate::{Chart, Experiment, Findings, Row, RunOptions, Series};

pub(crate) const FIGURE3: Experiment = Experiment {
    id: "001-figure3",
    claim: "Paper 001, figure 3: under PCA, item embeddings learned with SSE-Graph or SSE-SE gather around two points \
        more than those learned without SSE",
    rule: "replicated if for SSE-Graph and for SSE-SE the 95 % interval of the difference of `gathered` to plain MF, \
        paired over seeds, lies below 0; partly if only for one; refuted if for none. `gathered` is the median \
        distance of an item to the nearer of two fitted centers in the first three components, over the root \
        mean squared distance to the mean",
    deviations: &[
        "the paper shows pictures and no numbers; `gathered` is ours",
        "the paper does not say which data or settings: those of 001-table1, dim 50, 20 % held out",
    ],
    config: include_str!("../../../../experiments/001-figure3/config.toml"),
    run,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    seeds: u64,
    quick_seeds: u64,
    quick_epochs: u32,
    settings: toml::Table,
    variant: Vec<Variant>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Variant {
    name: String,
    #[serde(default)]
    graphs: String,
    #[serde(default)]
    settings: toml::Table,
}

/// Principal components that are looked at.
const COMPONENTS: usize = 3;

fn run(config: &str, options: &RunOptions<'_>) -> Result<Findings> {
    let config: Config = toml::from_str(config).map_err(|e| {
        Error::damaged(format!("001-figure3: the configuration is damaged: {e}"), "")
    })?;
    let problem = cold(options)?;
    let seeds = if options.quick { config.quick_seeds } else { config.seeds };
    let jobs: Vec<(usize, u64)> =
        (0..config.variant.len()).flat_map(|v| (0..seeds).map(move |s| (v, s))).collect();
    let bar = options.job.progress("training", "models", Some(jobs.len() as u64));
    let pictures =
        lab::side_by_side(&jobs, &bar, |&(v, seed)| picture(&config, &problem, v, seed, options))?;
    let of = |v: usize| &pictures[v * seeds as usize..][..seeds as usize];

    let mut rows = Vec::new();
    let mut charts = Vec::new();
    for (v, variant) in config.variant.iter().enumerate() {
        let shares: Vec<f64> = of(v).iter().map(|picture| picture.share).collect();
        let gathered: Vec<f64> = of(v).iter().map(|picture| picture.gathered).collect();
        let name = &variant.name;
        rows.push(row(
            format!("share of variance in {COMPONENTS} components, {name}"),
            None,
            &shares,
        ));
        rows.push(row(format!("gathered, {name}"), None, &gathered));
        charts.push(Chart::points(
            format!("Items of {name}, seed 0"),
            ["component 1", "component 2"],
            vec![Series { name: name.clone(), points: of(v)[0].points.clone() }],
        ));
    }
    for (v, variant) in config.variant.iter().enumerate().skip(1) {
        let pairs = of(v).iter().zip(of(0));
        let differences: Vec<f64> = pairs.map(|(a, b)| a.gathered - b.gathered).collect();
        let what = format!("gathered, {} - {}", variant.name, config.variant[0].name);
        let row = row(what, None, &differences);
        rows.push(Row { holds: Some(row.measured.high < 0.0), ..row });
    }
    Ok(Findings { rows, charts, ..Findings::default() })
}

struct Picture {
    share: f64,
    gathered: f64,
    /// The first two components of every item.
    points: Vec<[f64; 2]>,
}

fn picture(
    config: &Config,
    problem: &Problem,
    v: usize,
    seed: u64,
    options: &RunOptions<'_>,
) -> Result<Picture> {
    let variant = &config.variant[v];
    let mut given = config.settings.clone();
    given.extend(variant.settings.clone());
    let mut settings = lab::grid(&given).swap_remove(0);
    if options.quick {
        settings.insert("epochs".into(), config.quick_epochs.into());
    }
    let split = divided(&problem.data, SplitRule::Random(0.2), 0.0, seed)?;
    let fit = Fit {
        problem,
        method: Method::Mf,
        settings: &settings,
        graphs: &variant.graphs,
        rows: &split.train,
        seed,
        job: options.job,
    };
    let Model::Factors(factors) = fit.run(|_, _, _| Ok(()))? else {
        return Err(Error::request("mf did not give factors", ""));
    };
    let (projected, share) = principal(&factors.item);
    let gathered = gathered(&projected);
    let points = projected.iter().map(|p| [p[0], p[1]]).collect();
    Ok(Picture { share, gathered, points })
}

/// Rows on their first principal components, and the share of the variance that these have.
fn principal(table: &Embedding) -> (Vec<[f64; COMPONENTS]>, f64) {
    let (n, d) = (table.n_rows(), table.dim());
    let rows = || (0..n).map(|r| table.row(r));
    let mut mean = vec![0.0; d];
    rows()
        .for_each(|row| mean.iter_mut().zip(row).for_each(|(m, &x)| *m += f64::from(x) / n as f64));
    let centered: Vec<Vec<f64>> =
        rows().map(|row| row.iter().zip(&mean).map(|(&x, m)| f64::from(x) - m).collect()).collect();
    let mut covariance = vec![0.0; d * d];
    for row in &centered {
        for (i, x) in row.iter().enumerate() {
            row.iter().zip(&mut covariance[i * d..]).for_each(|(y, c)| *c += x * y / n as f64);
        }
    }
    let total: f64 = (0..d).map(|i| covariance[i * d + i]).sum();
    let mut explained = 0.0;
    let mut axes = Vec::new();
    for _ in 0..COMPONENTS {
        let (value, axis) = largest(&covariance, d, &axes);
        explained += value;
        axes.push(axis);
    }
    let on = |row: &Vec<f64>| {
        std::array::from_fn(|c| row.iter().zip(&axes[c]).map(|(x, a)| x * a).sum())
    };
    (centered.iter().map(on).collect(), if total > 0.0 { explained / total } else { 0.0 })
}

/// The largest eigenvalue of a positive semidefinite matrix apart from those of the axes that are known
/// already, and its vector, by power iteration.
fn largest(matrix: &[f64], d: usize, known: &[Vec<f64>]) -> (f64, Vec<f64>) {
    let inner = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let unit = |mut axis: Vec<f64>| {
        for known in known {
            let part = inner(&axis, known);
            axis.iter_mut().zip(known).for_each(|(x, k)| *x -= part * k);
        }
        let norm = inner(&axis, &axis).sqrt();
        (
            norm,
            axis.into_iter().map(|x| if norm > 0.0 { x / norm } else { 0.0 }).collect::<Vec<_>>(),
        )
    };
    // A start with a part in every direction.
    let (_, mut axis) = unit((0..d).map(|i| 1.0 / (1.0 + i as f64)).collect());
    let total: f64 = (0..d).map(|i| matrix[i * d + i]).sum();
    let mut value = 0.0;
    for _ in 0..1000 {
        let (norm, next) = unit(matrix.chunks_exact(d).map(|row| inner(row, &axis)).collect());
        if norm <= 1e-12 * total {
            return (0.0, axis); // rounding, and no direction
        }
        (value, axis) = (norm, next);
    }
    (value, axis)
}

/// Median distance to the nearer of two centers, over the spread.
fn gathered(points: &[[f64; COMPONENTS]]) -> f64 {
    let squared = |a: &[f64; COMPONENTS], b: &[f64; COMPONENTS]| -> f64 {
        a.iter().zip(b).map(|(x, y)| (x - y).powi(2)).sum()
    };
    let by_first = |a: &&[f64; COMPONENTS], b: &&[f64; COMPONENTS]| a[0].total_cmp(&b[0]);
    let ends = points.iter().min_by(by_first).zip(points.iter().max_by(by_first));
    let Some((&low, &high)) = ends else { return f64::NAN };
    let mut centers = [low, high];
    for _ in 0..100 {
        let mut sums = [[0.0; COMPONENTS]; 2];
        let mut counts = [0.0; 2];
        for point in points {
            let near = usize::from(squared(point, &centers[1]) < squared(point, &centers[0]));
            counts[near] += 1.0;
            sums[near].iter_mut().zip(point).for_each(|(s, x)| *s += x);
        }
        for (center, (sum, count)) in centers.iter_mut().zip(sums.iter().zip(counts)) {
            if count > 0.0 {
                *center = sum.map(|s| s / count);
            }
        }
    }
    let nearest =
        |p: &[f64; COMPONENTS]| squared(p, &centers[0]).min(squared(p, &centers[1])).sqrt();
    let mut distances: Vec<f64> = points.iter().map(nearest).collect();
    // Principal components have mean 0.
    let spread =
        points.iter().map(|p| squared(p, &[0.0; COMPONENTS])).sum::<f64>() / points.len() as f64;
    veridical_core::stats::median(&mut distances).unwrap_or(f64::NAN) / spread.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Points on a line along (3, 4) with a little of (-4, 3): variances 25 a and 25 b of the parameters.
    #[test]
    fn components_of_a_slanted_cloud_are_found() {
        let values: Vec<f32> = (0..40)
            .flat_map(|i| {
                let (a, b) = (i as f32 - 19.5, if i % 2 == 0 { 1.0 } else { -1.0 });
                [3.0 * a - 4.0 * b, 4.0 * a + 3.0 * b, 0.0]
            })
            .collect();
        let (points, share) = principal(&Embedding::new(3, values));
        assert!((share - 1.0).abs() < 1e-9, "two directions hold everything: {share}");
        let variance = |c: usize| points.iter().map(|p| p[c] * p[c]).sum::<f64>() / 40.0;
        // Variance of -19.5 .. 19.5 is (40^2 - 1) / 12; the two parameters are nearly uncorrelated.
        assert!((variance(0) / (25.0 * 1599.0 / 12.0) - 1.0).abs() < 1e-3, "{}", variance(0));
        assert!(variance(2) < 1e-9);
    }

    #[test]
    fn two_tight_clusters_are_gathered_and_a_line_is_not() {
        let clusters: Vec<[f64; 3]> = (0..50)
            .map(|i| [if i < 25 { -5.0 } else { 5.0 }, f64::from(i % 5) * 0.01, 0.0])
            .collect();
        let line: Vec<[f64; 3]> = (0..50).map(|i| [f64::from(i) - 24.5, 0.0, 0.0]).collect();
        assert!(gathered(&clusters) < 0.01, "{}", gathered(&clusters));
        // Uniform on [-a, a]: half of a half, a / 4, over a / sqrt(3).
        assert!((gathered(&line) - 3f64.sqrt() / 4.0).abs() < 0.05, "{}", gathered(&line));
    }
}
