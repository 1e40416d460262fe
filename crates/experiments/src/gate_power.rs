//! How much damage the gate of `refresh` sees, and how often it stops a healthy retraining.
//!
//! R trainings on identical data differ in the seed alone. Half of them make a budget as `stability budget` does: for every measure
//! the limit that 99 % of their pairs pass with the harmful end of the interval. A pair of the other half is checked against it as
//! it is (a false alarm if a limit breaks), and with a planted damage in a share of the ids of its second table:
//!
//! noise      rows drawn at random, of the norm of the row they replace
//! exchanged  the rows of the ids change places in a circle
//! scaled     rows ten times as long
//! shifted    consecutive ids, one vector of the median norm added to all
//! stale      rows of the first table
//! apart      ids of one class (or some), rows of a third training
//!
//! Three gates are compared: single ids (`max-outlier-ids`, `max-norm-outliers`), means (all others) and both.

use serde::{Deserialize, Serialize};
use serde_json::json;
use veridical::{Error, Result};
use veridical_core::{Estimate, Order, Seed, Stream};
use veridical_data::generate::{ShopSettings, shop};
use veridical_data::{Interactions, Labels};
use veridical_embed::{Graphs, Input, Method, Model};
use veridical_features::{Kernel, length_scale};
use veridical_inspect::measures::KINDS;
use veridical_inspect::{
    CompareSettings, Comparison, Gate, KernelAt, Limit, SharedRows, SharedTables, geometry, propose,
};
use veridical_learn::unit_rows;

use crate::lab::{self, Settings};
use crate::movielens::Folder;
use crate::{Experiment, Findings, Row, RunOptions, queue};

pub(crate) const GATE_POWER: Experiment = Experiment {
    id: "gate-power",
    claim: "A budget from 25 trainings on identical data lets other retrainings pass and stops a refresh with 2 % of its ids \
        damaged, which means over all ids do not see",
    rule: "replicated if on every table at most 5 % of the pairs of 25 other trainings break a limit on single ids, and noise, \
        exchanged and stale rows in 2 % of the ids are stopped in at least 95 % of 40 draws; partly if only some of these hold; \
        refuted if none. Other kinds, other shares and the limits on means are reported without a claim",
    deviations: &[
        "no paper claims this: it is the promise of `refresh`",
        "a pair of trainings stands for yesterday and today; a day of new data moves more than that, and a budget from past days \
         would be wider",
    ],
    config: include_str!("../../../experiments/gate-power/config.toml"),
    run,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    runs: usize,
    quick_runs: usize,
    draws: u64,
    quick_draws: u64,
    shares: Vec<f64>,
    quick_shares: Vec<f64>,
    probes: usize,
    pairs: usize,
    kernel_ids: usize,
    seen: f64,
    table: Vec<TableConfig>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TableConfig {
    name: String,
    data: String,
    method: String,
    settings: toml::Table,
}

/// The kinds of damage.
const DAMAGES: [&str; 6] = ["noise", "exchanged", "scaled", "shifted", "stale", "apart"];
/// The kinds that the claim is about, and their share.
const CLAIMED: [&str; 3] = ["noise", "exchanged", "stale"];
const CLAIMED_SHARE: f64 = 0.02;
/// The most false alarms that the claim allows.
const FALSE_ALARMS: f64 = 0.05;
/// The factor of scaled rows.
const SCALE: f32 = 10.0;
/// The measures of single ids.
const SINGLE: [&str; 2] = ["outlier_ids", "norm_outliers"];

/// Draws stopped by limits on single ids, on means, and on either.
#[derive(Clone, Copy, Default, Deserialize, Serialize)]
struct Stopped {
    single: u64,
    means: u64,
    any: u64,
    of: u64,
}

impl Stopped {
    fn add(&mut self, [single, means]: [bool; 2]) {
        self.single += u64::from(single);
        self.means += u64::from(means);
        self.any += u64::from(single || means);
        self.of += 1;
    }
}

fn run(config: &str, options: &RunOptions<'_>) -> Result<Findings> {
    let config: Config = toml::from_str(config).map_err(|e| {
        Error::damaged(format!("gate-power: the configuration is damaged: {e}"), "")
    })?;
    let mut findings = Findings::default();
    for table in &config.table {
        let world = World::new(&table.data, options)?;
        let runs = trained(&config, table, &world, options)?;
        study(&config, table, &world, &runs, options, &mut findings)?;
    }
    Ok(findings)
}

/// What is learned from, and classes of items.
struct World {
    data: Interactions,
    classes: Vec<Vec<u32>>,
}

impl World {
    fn new(name: &str, options: &RunOptions<'_>) -> Result<Self> {
        let of = |data: Interactions, labels: &Labels| {
            let mut classes = vec![Vec::new(); labels.classes.len()];
            for (item, list) in (0..).zip(labels.of.iter()) {
                if let Some(&class) = list.first() {
                    classes[class as usize].push(item);
                }
            }
            Self { data, classes }
        };
        if name == "shop" || options.quick {
            let (users, items) = if options.quick { (200, 400) } else { (6000, 4000) };
            let shop = shop(ShopSettings {
                users,
                items,
                clusters: 20,
                per_user: 40,
                skew: 0.7,
                noise: 0.3,
                seed: Seed::new(0)?,
            })?;
            let labels = shop.item_labels();
            return Ok(of(shop.data, &labels));
        }
        let folder = Folder::new(options.data);
        let data = folder.sequences()?;
        let labels = folder.genres(&data.items)?;
        Ok(of(data, &labels))
    }
}

/// Item vectors of every training.
fn trained(
    config: &Config,
    table: &TableConfig,
    world: &World,
    options: &RunOptions<'_>,
) -> Result<Vec<Vec<f32>>> {
    let method = if table.method == "bpr" { Method::Bpr } else { Method::Item2vec };
    let settings = lab::grid(&table.settings).swap_remove(0);
    let runs = if options.quick { config.quick_runs } else { config.runs };
    let seeds: Vec<u64> = (0..runs as u64).collect();
    let bar =
        options.job.progress(&format!("training {}", table.name), "models", Some(runs as u64));
    lab::side_by_side(&seeds, &bar, |&seed| {
        let key = json!({ "gate-power": table.name, "settings": settings, "seed": seed, "quick": options.quick });
        let done =
            queue::once(options.keep, &key, || one(method, &settings, world, seed, options))?;
        Ok(done.value)
    })
}

fn one(
    method: Method,
    settings: &Settings,
    world: &World,
    seed: u64,
    options: &RunOptions<'_>,
) -> Result<Vec<f32>> {
    let rows: Vec<u32> = (0..world.data.len() as u32).collect();
    let input = Input::of(&world.data, &rows);
    let graphs = Graphs::default();
    let mut trainer = method.trainer(settings, input, &graphs, Seed::new(seed)?)?;
    lab::epochs(&mut *trainer, options.job, |_, _, _| Ok(()))?;
    match trainer.into_model() {
        Model::Items { item, .. } => Ok(item.values().to_vec()),
        Model::Factors(factors) => Ok(factors.item.values().to_vec()),
        _ => Err(Error::request("the method has no vectors of items", "")),
    }
}

/// Trainings on identical data, compared as `stability` compares them.
struct Lab<'a> {
    config: &'a Config,
    world: &'a World,
    kernel: KernelAt,
}

impl Lab<'_> {
    fn compared(&self, tables: Vec<Vec<f32>>) -> Result<Comparison> {
        let n = self.world.data.items.len();
        let run = |rows: Vec<f32>| SharedRows { name: String::new(), dim: rows.len() / n, rows };
        let tables = SharedTables::of(
            self.world.data.items.ids().clone(),
            tables.into_iter().map(run).collect(),
        );
        let settings = CompareSettings {
            k: 10,
            probes: self.config.probes,
            pairs: self.config.pairs,
            kernel_ids: self.config.kernel_ids,
            seed: Seed::new(0)?,
            unit: true,
        };
        Ok(geometry(&tables, None, &settings, &self.kernel, &|_| ())?)
    }

    /// Whether limits on single ids and on means are broken.
    fn stopped(limits: &[Limit], comparison: &Comparison) -> Result<[bool; 2]> {
        let measures = comparison.measures()?;
        let mut broken = [false; 2];
        for limit in limits {
            let found = measures.iter().find(|measure| measure.key == limit.kind.key);
            let kept = found.is_some_and(|measure| Gate::new(limit, measure).is_kept());
            broken[usize::from(!SINGLE.contains(&limit.kind.key))] |= !kept;
        }
        Ok(broken)
    }
}

fn study(
    config: &Config,
    table: &TableConfig,
    world: &World,
    runs: &[Vec<f32>],
    options: &RunOptions<'_>,
    findings: &mut Findings,
) -> Result<()> {
    let n = world.data.items.len();
    let dim = runs[0].len() / n;
    let unit = unit_rows(&runs[0][..runs[0].len().min(2000 * dim)], dim);
    let length_scale =
        length_scale::from_median(veridical_core::Rows::new(&unit, dim)?, &Kernel::Gaussian)?;
    let lab = Lab { config, world, kernel: KernelAt { kernel: Kernel::Gaussian, length_scale } };
    let (budget, others) = runs.split_at(runs.len() / 2);
    let floor = lab.compared(budget.to_vec())?;
    let limits: Vec<Limit> = KINDS.iter().filter_map(|kind| propose(&floor, kind)).collect();
    for limit in &limits {
        findings.notes.push(format!("{}: {} {}", table.name, limit.kind.limit(), limit.value));
    }
    let checked = lab.compared(others.to_vec())?;
    let mut alarms = Stopped::default();
    for pair in 0..checked.cka.pairs.len() {
        alarms.add(broken_pair(&limits, &checked, pair));
    }
    for (what, count) in
        [("single ids", alarms.single), ("means", alarms.means), ("either", alarms.any)]
    {
        let share = Estimate::share(count, alarms.of).with_seeds(others.len() as u64);
        let holds = (what == "single ids").then_some(share.value <= FALSE_ALARMS);
        let what = format!("{}: false alarms by limits on {what}", table.name);
        findings.rows.push(Row { holds, ..Row::new(what, share) });
    }
    let (shares, draws) = match options.quick {
        true => (&config.quick_shares, config.quick_draws),
        false => (&config.shares, config.draws),
    };
    let cells: Vec<(&str, f64)> = DAMAGES
        .iter()
        .flat_map(|damage| shares.iter().map(move |share| (*damage, *share)))
        .collect();
    let bar = options.job.progress(
        &format!("damaging {}", table.name),
        "cells",
        Some(cells.len() as u64),
    );
    let found = lab::side_by_side(&cells, &bar, |&(damage, share)| {
        let limited: Vec<(String, f64)> =
            limits.iter().map(|limit| (limit.kind.limit(), limit.value)).collect();
        let key = json!({ "gate-power": table.name, "damage": damage, "share": share, "draws": draws,
            "settings": table.settings, "limits": limited, "quick": options.quick });
        let cell = queue::once(options.keep, &key, || {
            let mut stopped = Stopped::default();
            for draw in 0..draws {
                options.job.check()?;
                let [a, b, c] = three(others.len(), draw)?;
                let damaged = Damage { world, dim, share, draw }
                    .of(damage, [&others[a], &others[b], &others[c]])?;
                let comparison = lab.compared(vec![others[a].clone(), damaged])?;
                stopped.add(Lab::stopped(&limits, &comparison)?);
            }
            Ok(stopped)
        })?;
        Ok(cell.value)
    })?;
    for damage in DAMAGES {
        let mut least = None;
        for ((_, share), stopped) in
            cells.iter().zip(&found).filter(|((kind, _), _)| *kind == damage)
        {
            let percent = 100.0 * share;
            for (gate, count) in
                [("single ids", stopped.single), ("means", stopped.means), ("either", stopped.any)]
            {
                let rate = Estimate::share(count, stopped.of).with_seeds(others.len() as u64);
                let claimed =
                    gate == "either" && CLAIMED.contains(&damage) && *share == CLAIMED_SHARE;
                let holds = claimed.then_some(rate.value >= config.seen);
                let what = format!(
                    "{}: {damage}, {percent} % of ids: stopped by limits on {gate}",
                    table.name
                );
                findings.rows.push(Row { holds, ..Row::new(what, rate) });
            }
            let rate = stopped.any as f64 / stopped.of as f64;
            least = match least {
                None if rate >= config.seen => Some(*share),
                Some(_) if rate < config.seen => None,
                other => other,
            };
        }
        let shown =
            least.map_or("none of these shares".to_owned(), |share| format!("{} %", 100.0 * share));
        findings
            .notes
            .push(format!("{}: least share of {damage} that is stopped: {shown}", table.name));
    }
    Ok(())
}

/// Whether a pair of runs breaks limits on single ids and on means.
fn broken_pair(limits: &[Limit], comparison: &Comparison, pair: usize) -> [bool; 2] {
    let mut broken = [false; 2];
    for limit in limits {
        let found = comparison.pairs_of(limit.kind.key).and_then(|m| m.pairs[pair].estimate);
        let beyond = found.is_none_or(|e| match limit.kind.harm {
            veridical_inspect::Harm::Low => limit.kind.harmful(e.interval()) < limit.value,
            veridical_inspect::Harm::High => limit.kind.harmful(e.interval()) > limit.value,
        });
        broken[usize::from(!SINGLE.contains(&limit.kind.key))] |= beyond;
    }
    broken
}

/// Three different runs for a draw.
fn three(runs: usize, draw: u64) -> Result<[usize; 3]> {
    let order = Order::new(runs as u64, Seed::new(0)?, "gate-power/runs", draw as u32);
    Ok([0, 1, 2].map(|t| order.at(t) as usize))
}

/// A damage of one draw.
struct Damage<'a> {
    world: &'a World,
    dim: usize,
    share: f64,
    draw: u64,
}

impl Damage<'_> {
    /// The second table with a share of its ids damaged.
    fn of(&self, kind: &str, [first, second, third]: [&Vec<f32>; 3]) -> Result<Vec<f32>> {
        let Self { world, dim, share, draw } = *self;
        let n = second.len() / dim;
        let count = ((share * n as f64).round() as usize).max(1);
        let order = Order::new(n as u64, Seed::new(1)?, "gate-power/ids", draw as u32);
        let drawn: Vec<usize> = (0..count as u64).map(|t| order.at(t) as usize).collect();
        let stream = Stream::new(Seed::new(2)?, "gate-power");
        let normals = |count: usize, what: u32| {
            let mut values = vec![0.0; count];
            stream.at(what, draw).fill_normals(&mut values);
            values
        };
        let norm = |row: &[f32]| row.iter().map(|x| x * x).sum::<f32>().sqrt();
        let row = |table: &[f32], i: usize| -> Vec<f32> { table[i * dim..][..dim].to_vec() };
        let mut damaged = second.clone();
        let mut put = |i: usize, row: &[f32]| damaged[i * dim..][..dim].copy_from_slice(row);
        match kind {
            "noise" => {
                let noise = normals(count * dim, 0);
                for (at, &i) in drawn.iter().enumerate() {
                    let strange: Vec<f32> =
                        noise[at * dim..][..dim].iter().map(|x| *x as f32).collect();
                    let scale = norm(&row(second, i)) / norm(&strange).max(f32::MIN_POSITIVE);
                    put(i, &strange.iter().map(|x| x * scale).collect::<Vec<f32>>());
                }
            }
            "exchanged" => {
                for (at, &i) in drawn.iter().enumerate() {
                    put(i, &row(second, drawn[(at + 1) % count]));
                }
            }
            "scaled" => {
                for &i in &drawn {
                    put(i, &row(second, i).iter().map(|x| SCALE * x).collect::<Vec<f32>>());
                }
            }
            "shifted" => {
                let mut norms: Vec<f64> =
                    second.chunks(dim).map(|row| f64::from(norm(row))).collect();
                let median = veridical_core::stats::median(&mut norms).unwrap_or(1.0) as f32;
                let shift: Vec<f32> = normals(dim, 1).into_iter().map(|x| x as f32).collect();
                let scale = median / norm(&shift).max(f32::MIN_POSITIVE);
                let start = drawn[0] % (n - count + 1);
                for i in start..start + count {
                    let moved = row(second, i)
                        .iter()
                        .zip(&shift)
                        .map(|(x, s)| x + scale * s)
                        .collect::<Vec<f32>>();
                    put(i, &moved);
                }
            }
            "stale" => drawn.iter().for_each(|&i| put(i, &row(first, i))),
            _ => {
                let classes = Order::new(
                    world.classes.len() as u64,
                    Seed::new(3)?,
                    "gate-power/classes",
                    draw as u32,
                );
                let all = (0..world.classes.len() as u64)
                    .flat_map(|t| &world.classes[classes.at(t) as usize]);
                all.take(count).for_each(|&i| put(i as usize, &row(third, i as usize)));
            }
        }
        Ok(damaged)
    }
}
