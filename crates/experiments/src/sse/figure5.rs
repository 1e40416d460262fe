//! Figure 5: the SSE Rademacher complexity, simulated.
//!
//! r(p) = |sum_i sigma_i s_i(p)| / n,  s_i(p) = sum_k p(j_i, k) l(E[k], y_i)      (eq. 9 with l for L, no sup)
//!
//! for random signs sigma. With SSE-SE on users and items, (u, v) the pair of rating i and l the squared error,
//! the sum over k has four parts, each a closed form in the first two moments of the tables:
//!
//! s_i = (1-p)^2 l(u, v) + (1-p) p (mean over v' != v of l(u, v') + mean over u' != u of l(u', v))
//!       + p^2 mean over u' != u, v' != v of l(u', v')
//!
//! with mean over all v' of (y - <u, v'>)^2 = y^2 - 2 y <u, m> + u'Mu, m the mean row and M the mean of v'v''.
//! Given s, E r = sqrt(2 / pi sum s^2) / n up to O(1/n) (central limit): the theory of a row.

use rayon::prelude::*;
use serde::Deserialize;
use veridical::{Error, Result};
use veridical_core::{Seed, Stream};
use veridical_data::Interactions;
use veridical_embed::{Embedding, Factors, Method, Model};
use veridical_learn::dot;

use crate::lab::{self, Evaluated, Fit, Problem};
use crate::movielens::Folder;
use crate::{Chart, Experiment, Findings, Row, RunOptions, Series};

pub(crate) const FIGURE5: Experiment = Experiment {
    id: "001-figure5",
    claim: "Paper 001, figure 5 and remark 1: as the probability p of a transition grows, the samples of the SSE \
        Rademacher complexity on MovieLens-1M get smaller",
    rule: "replicated if for every p > 0 the interval of the difference of r(p) to r(0), paired by signs, lies below 0 \
        for a trained model and for one drawn at random; partly if only for some; refuted if for none. The \
        intervals hold together with 95 % (Bonferroni)",
    deviations: &[
        "the paper does not say at which parameters the loss is evaluated (it leaves out the supremum): at an MF \
         model that was trained, and at one that was drawn",
        "SSE-SE with the same p for users and items; the paper does not say which transition it simulates",
    ],
    config: include_str!("../../../../experiments/001-figure5/config.toml"),
    run,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    /// Values of p, the first 0.
    p: Vec<f64>,
    /// Vectors of signs.
    draws: u64,
    quick_draws: u64,
    quick_epochs: u32,
    settings: toml::Table,
}

fn run(config: &str, options: &RunOptions<'_>) -> Result<Findings> {
    let config: Config = toml::from_str(config).map_err(|e| {
        Error::damaged(format!("001-figure5: the configuration is damaged: {e}"), "")
    })?;
    let draws = if options.quick { config.quick_draws } else { config.draws };
    let problem = Problem::new(
        Folder::new(options.data).everyone(options.quick)?,
        Vec::new(),
        Evaluated::Rmse,
    );
    let rows: Vec<u32> = (0..problem.data.len() as u32).collect();
    let mut settings = lab::grid(&config.settings).swap_remove(0);
    if options.quick {
        settings.insert("epochs".into(), config.quick_epochs.into());
    }
    let fit = Fit {
        problem: &problem,
        method: Method::Mf,
        settings: &settings,
        graphs: "",
        rows: &rows,
        seed: 0,
        job: options.job,
    };
    let Model::Factors(trained) = fit.run(|_, _, _| Ok(()))? else {
        return Err(Error::request("mf did not give factors", ""));
    };
    // Inner products of variance 1.
    let (dim, seed) = (trained.user.dim(), Seed::new(0)?);
    let deviation = (dim as f64).powf(-0.25);
    let draw =
        |table: &Embedding, name| Embedding::normal(table.n_rows(), dim, deviation, seed, name);
    let drawn = Factors {
        user: draw(&trained.user, "reproduce/user"),
        item: draw(&trained.item, "reproduce/item"),
        ..Factors::default()
    };
    let models = [("drawn", drawn), ("trained", trained)];
    let mut findings = Findings::default();
    // Both models, every p > 0: the normal quantile for all of them together.
    let tests = (models.len() * (config.p.len() - 1)) as f64;
    let z = veridical_core::elementary::normal_quantile(1.0 - 0.05 / (2.0 * tests));
    for (name, factors) in &models {
        let losses = Smoothed::new(&problem.data, factors);
        let s: Vec<Vec<f64>> = config.p.iter().map(|&p| losses.at(p)).collect();
        let samples = samples(&s, draws, options)?;
        report(name, &config.p, &s, &samples, z, &mut findings);
    }
    Ok(findings)
}

/// The four parts of every rating's loss.
struct Smoothed {
    own: Vec<f64>,
    /// Both single replacements together.
    one: Vec<f64>,
    both: Vec<f64>,
}

/// A table's mean row and mean outer product, and for each row of another table <u, m> and u'Mu.
struct Moments {
    n: f64,
    mean: Vec<f64>,
    second: Vec<f64>,
}

impl Moments {
    fn of(table: &Embedding) -> Self {
        let (n, d) = (table.n_rows() as f64, table.dim());
        let (mut mean, mut second) = (vec![0.0; d], vec![0.0; d * d]);
        for r in 0..table.n_rows() {
            let row: Vec<f64> = table.row(r).iter().map(|&x| f64::from(x)).collect();
            for (i, x) in row.iter().enumerate() {
                mean[i] += x / n;
                row.iter().zip(&mut second[i * d..]).for_each(|(y, s)| *s += x * y / n);
            }
        }
        Self { n, mean, second }
    }

    /// <u, m> and u'Mu.
    fn seen_from(&self, row: &[f32]) -> [f64; 2] {
        let d = self.mean.len();
        let u: Vec<f64> = row.iter().map(|&x| f64::from(x)).collect();
        let inner = |a: &[f64]| a.iter().zip(&u).map(|(a, u)| a * u).sum::<f64>();
        let square = self.second.chunks_exact(d).zip(&u).map(|(row, u)| u * inner(row)).sum();
        [inner(&self.mean), square]
    }
}

impl Smoothed {
    fn new(data: &Interactions, factors: &Factors) -> Self {
        let (users, items) = (Moments::of(&factors.user), Moments::of(&factors.item));
        let from = |table: &Embedding, other: &Moments| -> Vec<[f64; 2]> {
            (0..table.n_rows()).map(|r| other.seen_from(table.row(r))).collect()
        };
        let (user, item) = (from(&factors.user, &items), from(&factors.item, &users));
        let cross: f64 = users.mean.iter().zip(&items.mean).map(|(a, b)| a * b).sum();
        let squares: f64 = users.second.iter().zip(&items.second).map(|(a, b)| a * b).sum();
        let mean = |y: f64, [first, second]: [f64; 2]| y * y - 2.0 * y * first + second;
        let rating = data.rating.as_deref().unwrap_or_default();
        let mut parts = Self { own: Vec::new(), one: Vec::new(), both: Vec::new() };
        for ((&u, &v), &y) in data.user.iter().zip(&data.item).zip(rating) {
            let (u, v, y) = (u as usize, v as usize, f64::from(y));
            let own = (y - f64::from(dot(factors.user.row(u), factors.item.row(v)))).powi(2);
            // Sums over everybody, then without the pair's own user and item.
            let over_items = items.n * mean(y, user[u]);
            let over_users = users.n * mean(y, item[v]);
            let over_both = users.n * items.n * mean(y, [cross, squares]);
            parts.own.push(own);
            parts
                .one
                .push((over_items - own) / (items.n - 1.0) + (over_users - own) / (users.n - 1.0));
            let others = over_both - over_items - over_users + own;
            parts.both.push(others / ((users.n - 1.0) * (items.n - 1.0)));
        }
        parts
    }

    /// s_i(p).
    fn at(&self, p: f64) -> Vec<f64> {
        let stay = 1.0 - p;
        let parts = self.own.iter().zip(&self.one).zip(&self.both);
        parts.map(|((own, one), both)| stay * stay * own + stay * p * one + p * p * both).collect()
    }
}

/// r(p) for every vector of signs and every p.
fn samples(s: &[Vec<f64>], draws: u64, options: &RunOptions<'_>) -> Result<Vec<Vec<f64>>> {
    let stream = Stream::new(Seed::new(0)?, "reproduce/signs");
    let n = s[0].len();
    let bar = options.job.progress("drawing signs", "draws", Some(draws));
    (0..draws)
        .into_par_iter()
        .map(|draw| {
            bar.check()?;
            let signs: Vec<f64> = (0..n.div_ceil(32))
                .flat_map(|block| {
                    let word = stream.at(draw as u32, block as u64).draws().word();
                    (0..32).map(move |bit| if word >> bit & 1 == 1 { 1.0 } else { -1.0 })
                })
                .collect();
            let sum = |s: &Vec<f64>| s.iter().zip(&signs).map(|(s, sign)| s * sign).sum::<f64>();
            bar.advance(1);
            Ok(s.iter().map(|s| sum(s).abs() / n as f64).collect())
        })
        .collect()
}

fn report(
    name: &str,
    p: &[f64],
    s: &[Vec<f64>],
    samples: &[Vec<f64>],
    z: f64,
    findings: &mut Findings,
) {
    let draws = samples.len() as f64;
    let over_draws = |values: &[f64]| {
        let mean = values.iter().sum::<f64>() / draws;
        let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (draws - 1.0);
        let half = z * (variance / draws).sqrt();
        lab::between(mean, [mean - half, mean + half], samples.len())
    };
    let mut quartiles: Vec<Series> =
        [("lower quartile", 0.25), ("median", 0.5), ("upper quartile", 0.75)]
            .map(|(name, _)| Series { name: name.into(), points: Vec::new() })
            .into();
    for (k, &p) in p.iter().enumerate() {
        let mut of_p: Vec<f64> = samples.iter().map(|sample| sample[k]).collect();
        let n = s[k].len() as f64;
        let squares: f64 = s[k].iter().map(|s| s * s).sum();
        let measured = over_draws(&of_p);
        let theory = Some((2.0 / std::f64::consts::PI * squares).sqrt() / n);
        let what = format!("mean of r, {name} model, p = {p}");
        let row = Row { theory, ..Row::new(what, measured) };
        findings.rows.push(row);
        for (series, q) in quartiles.iter_mut().zip([0.25, 0.5, 0.75]) {
            let value = veridical_core::stats::quantile(&mut of_p, q).unwrap_or(f64::NAN);
            series.points.push([p, value]);
        }
    }
    for (k, &p) in p.iter().enumerate().skip(1) {
        let differences: Vec<f64> = samples.iter().map(|sample| sample[k] - sample[0]).collect();
        let measured = over_draws(&differences);
        let what = format!("mean of r(p) - r(0), {name} model, p = {p}");
        let holds = Some(measured.high < 0.0);
        findings.rows.push(Row { holds, ..Row::new(what, measured) });
    }
    let caption = format!("SSE Rademacher complexity against p, {name} model");
    findings.charts.push(Chart::lines(caption, ["p", "r"], quartiles));
}

#[cfg(test)]
mod tests {
    use veridical_data::IdMap;

    use super::*;

    /// Against the sum over all pairs of rows, with p(j, k) written out.
    #[test]
    fn four_parts_are_the_sum_over_all_replacements() {
        let (n_users, n_items, dim) = (4, 5, 3);
        let seed = Seed::new(3).unwrap();
        let factors = Factors {
            user: Embedding::normal(n_users, dim, 1.0, seed, "test/user"),
            item: Embedding::normal(n_items, dim, 1.0, seed, "test/item"),
            ..Factors::default()
        };
        let data = Interactions {
            users: IdMap::numbered(n_users),
            items: IdMap::numbered(n_items),
            user: vec![0, 3, 1],
            item: vec![4, 0, 2],
            rating: Some(vec![5.0, 1.0, 3.0]),
            time: None,
        };
        let p = 0.3;
        let got = Smoothed::new(&data, &factors).at(p);
        let stays =
            |a: usize, b: usize, n: usize| if a == b { 1.0 - p } else { p / (n - 1) as f64 };
        for (r, &got) in got.iter().enumerate() {
            let (u, v) = (data.user[r] as usize, data.item[r] as usize);
            let y = f64::from(data.rating.as_ref().unwrap()[r]);
            let mut want = 0.0;
            for k in 0..n_users {
                for l in 0..n_items {
                    let inner: f64 = factors
                        .user
                        .row(k)
                        .iter()
                        .zip(factors.item.row(l))
                        .map(|(&a, &b)| f64::from(a) * f64::from(b))
                        .sum();
                    want += stays(u, k, n_users) * stays(v, l, n_items) * (y - inner).powi(2);
                }
            }
            // `dot` is in f32: about 1e-6 of values around 10.
            assert!((got - want).abs() < 1e-4 * want.max(1.0), "row {r}: {got} {want}");
        }
    }
}
