//! The defaults of the trainers, chosen on validation rows of data of three shapes.
//!
//! Every setting of a method is trained on the training rows of each data set and measured on its validation rows: NDCG@10 of the
//! user's last row but one among all items, or the root mean squared error of ratings (`mf`). A value over the best value of its data
//! set (for errors: the inverse) is at most 1; the setting with the highest mean of it over data sets is the default. Slow methods
//! try every setting with few seeds, and the best two again with all.
//!
//! Only what is chosen, and the default before, meets the test rows, beside the baselines.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use veridical::{Error, Result};
use veridical_core::Seed;
use veridical_data::generate::{ShopSettings, shop_in_order};
use veridical_data::{Interactions, Short, Split, SplitOptions, split};
use veridical_embed::evaluate::{self, Protocol};
use veridical_embed::fit::{FitSettings, Nowhere, Validation, fit};
use veridical_embed::{Graphs, Input, Method, Model, Purpose, Trainer};

use crate::lab::{self, Settings, learned, over_seeds, row};
use crate::movielens::{Folder, part};
use crate::{Experiment, Findings, Row, RunOptions, queue};

pub(crate) const DEFAULTS: Experiment = Experiment {
    id: "defaults",
    claim: "The default settings of every trainer, chosen on validation rows of three data sets, are not below the earlier \
        defaults on test rows, and `sasrec` by default beats `itemknn`",
    rule: "a method's default is the setting with the highest mean over data sets of NDCG@10 on validation rows relative to the \
        best setting of the data set (mf: of the inverse root mean squared error); slow methods try six settings with one seed \
        and the best two with three. Replicated if on every data set no chosen default is below the earlier one on test rows \
        beyond the 95 % interval over seeds, and sasrec's is above itemknn beyond its own; partly if only some of these hold; \
        refuted if none",
    deviations: &[
        "no paper claims this: it is the promise of a default",
        "MovieLens-1M is cut to one user of twelve, and generated data are small: defaults are for data of this size",
        "slow methods end after five epochs without a better validation value, and after 40 epochs at the latest, the earlier \
         defaults after 100; sasrec's had 200, and no validation rows",
        "the earlier sasrec had dimension 50 and length 200; here all settings have 64 and 50",
    ],
    config: include_str!("../../../experiments/defaults/config.toml"),
    run,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    seeds: u64,
    first_seeds: u64,
    patience: u32,
    data: Vec<DataConfig>,
    method: Vec<MethodConfig>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum DataConfig {
    MovieLens {
        name: String,
        one_user_of: u32,
    },
    Shop {
        name: String,
        users: usize,
        items: usize,
        clusters: usize,
        per_user: usize,
        skew: f64,
        noise: f64,
        follow: f64,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MethodConfig {
    name: String,
    #[serde(default)]
    slow: bool,
    common: toml::Table,
    settings: BTreeMap<String, toml::Table>,
}

/// The setting that was the default before.
const EARLIER: &str = "earlier";
const BASELINES: [Method; 3] = [Method::Pop, Method::ItemKnn, Method::Ease];
const NDCG: &str = "ndcg@10";

/// Interactions of one shape, and which rows are held out.
struct World {
    name: String,
    ranking: (Interactions, Split),
    rating: (Interactions, Split),
}

impl World {
    fn new(config: &DataConfig, options: &RunOptions<'_>) -> Result<Self> {
        let small = |name: &str| {
            let shape = [100, 60, 5, 8].map(|n: u32| n as usize);
            (name.to_owned(), shape, [0.7, 0.3, 0.5])
        };
        let (name, [users, items, clusters, per_user], [skew, noise, follow]) = match config {
            DataConfig::MovieLens { name, .. } if options.quick => small(name),
            DataConfig::Shop { name, .. } if options.quick => small(name),
            DataConfig::MovieLens { name, one_user_of } => {
                let folder = Folder::new(options.data);
                let ranking = part(&folder.sequences()?, *one_user_of);
                let rating = part(&folder.everyone(false)?, *one_user_of);
                return Self::of(name.clone(), ranking, rating);
            }
            DataConfig::Shop { name, users, items, clusters, per_user, skew, noise, follow } => {
                (name.clone(), [*users, *items, *clusters, *per_user], [*skew, *noise, *follow])
            }
        };
        let seed = Seed::new(0)?;
        let settings = ShopSettings { users, items, clusters, per_user, skew, noise, seed };
        let data = shop_in_order(settings, follow)?.data;
        Self::of(name, data.clone(), data)
    }

    fn of(name: String, ranking: Interactions, rating: Interactions) -> Result<Self> {
        let held_out = |data: Interactions, rule: &str| -> Result<(Interactions, Split)> {
            let seed = Seed::new(0)?;
            let options = SplitOptions { seed, validation: 0.1, short: Short::Drop };
            let split = split::apply(rule.parse()?, &data, options)?.split;
            Ok((data, split))
        };
        let ranking = held_out(ranking, "leave-last-one")?;
        Ok(Self { name, ranking, rating: held_out(rating, "random:0.1")? })
    }

    fn rows(&self, method: Method) -> &(Interactions, Split) {
        match method.purpose() {
            Purpose::Rating => &self.rating,
            Purpose::Ranking | Purpose::Text => &self.ranking,
        }
    }

    /// The value of a model on some rows: what was learned from is not ranked, and what is aside neither.
    fn value(
        &self,
        method: Method,
        model: &Model,
        [train, aside, relevant]: [&[u32]; 3],
        options: &RunOptions<'_>,
    ) -> Result<f64> {
        let (data, _) = self.rows(method);
        if method.purpose() == Purpose::Rating {
            let (user, item, rating) = evaluate::rated(data, relevant)?;
            return Ok(evaluate::ratings(model, &user, &item, &rating)?.rmse.value);
        }
        let parts = [train, aside, relevant];
        let protocols = [Protocol::Full];
        let found =
            lab::ranked(model, data, parts, &[NDCG], &[10], &protocols, &options.job.quiet())?;
        Ok(found[0][0])
    }
}

/// One training.
#[derive(Clone, Copy)]
struct Training<'a> {
    world: &'a World,
    method: Method,
    settings: &'a Settings,
    seed: u64,
    /// Epochs without a better validation value; `None` learns for all epochs.
    patience: Option<u32>,
    options: &'a RunOptions<'a>,
}

/// What one training came to; nothing if it diverged.
#[derive(Clone, Copy, Deserialize, Serialize)]
struct Measured {
    value: Option<f64>,
    /// Of a slow method, which keeps its best epoch; read after the choice alone.
    test: Option<f64>,
    epochs: u32,
}

impl Training<'_> {
    /// On the validation rows.
    fn measured(self) -> Result<Measured> {
        let (_, Split { train, validation, test }) = self.world.rows(self.method);
        let (train, validation, test) = (&**train, &**validation, &**test);
        self.kept("validation", || {
            let Some((model, epochs)) = self.model(train)? else {
                return Ok(Measured { value: None, test: None, epochs: 0 });
            };
            let value = |parts| self.world.value(self.method, &model, parts, self.options);
            let later = self.patience.map(|_| value([train, validation, test])).transpose()?;
            Ok(Measured { value: Some(value([train, &[], validation])?), test: later, epochs })
        })
    }

    /// On the test rows; a method without validation rows learns from these too.
    fn tested(self) -> Result<Measured> {
        if self.patience.is_some() {
            let measured = self.measured()?;
            return Ok(Measured { value: measured.test, ..measured });
        }
        let (_, split) = self.world.rows(self.method);
        let rows = learned(split);
        self.kept("test", || {
            let Some((model, epochs)) = self.model(&rows)? else {
                return Ok(Measured { value: None, test: None, epochs: 0 });
            };
            let parts = [&*rows, &[], &split.test];
            let value = self.world.value(self.method, &model, parts, self.options)?;
            Ok(Measured { value: Some(value), test: None, epochs })
        })
    }

    fn kept(self, rows: &str, job: impl FnOnce() -> Result<Measured>) -> Result<Measured> {
        let Self { world, method, settings, seed, patience, options } = self;
        options.job.check()?;
        let (data, _) = world.rows(method);
        let key = json!({ "defaults": world.name, "rows": data.len(), "on": rows, "method": method.name(),
            "settings": settings, "seed": seed, "patience": patience, "quick": options.quick });
        Ok(queue::once(options.keep, &key, job)?.value)
    }

    /// The model and its number of epochs; nothing if it diverged.
    fn model(self, rows: &[u32]) -> Result<Option<(Model, u32)>> {
        let Self { world, method, settings, seed, patience, options } = self;
        let (data, split) = world.rows(method);
        let graphs = Graphs::default();
        let input = Input::of(data, rows);
        let mut trainer = method.trainer(settings, input, &graphs, Seed::new(seed)?)?;
        let validation = Validation::new(data, split, method.purpose())?;
        let validate = patience.map(|_| &validation as _);
        let stopping = FitSettings { eval_every: 1, patience };
        let each = |_, _: Option<f64>, _: &dyn Trainer| Ok::<(), Error>(());
        let job = options.job.quiet();
        match fit(&mut *trainer, stopping, validate, None::<&Nowhere>, None, &job, each) {
            Ok(fitted) => {
                let epochs = fitted.best.map_or(fitted.epochs, |best| best.epoch);
                Ok(Some((trainer.into_model(), epochs)))
            }
            Err(Error::Embed(error)) if error.is_diverged() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// A method, its settings, and how many seeds they get.
struct Study<'a> {
    method: Method,
    settings: Vec<(&'a str, Settings)>,
    patience: Option<u32>,
    /// Of the first round, and of the best two.
    seeds: [u64; 2],
}

impl<'a> Study<'a> {
    fn new(config: &'a Config, of: &'a MethodConfig, options: &RunOptions<'_>) -> Result<Self> {
        let damaged = |what: String| Error::damaged(format!("defaults: {what}"), "");
        let method = Method::from_name(&of.name)
            .ok_or_else(|| damaged(format!("there is no method `{}`", of.name)))?;
        let merged = |own: &toml::Table| {
            let mut all = of.common.clone();
            all.extend(own.clone());
            let mut settings = lab::grid(&all).swap_remove(0);
            if options.quick && settings.contains_key("epochs") {
                settings.insert("epochs".into(), 2.into());
            }
            settings
        };
        let mut settings: Vec<_> =
            of.settings.iter().map(|(name, own)| (name.as_str(), merged(own))).collect();
        settings.sort_by_key(|(name, _)| *name != EARLIER);
        if options.quick {
            settings.truncate(2);
        }
        let all = if options.quick { 1 } else { config.seeds };
        let first = if of.slow { config.first_seeds.min(all) } else { all };
        let patience = of.slow.then_some(config.patience);
        Ok(Self { method, settings, patience, seeds: [first, all] })
    }

    /// Values on validation rows: of every world, setting and seed.
    fn values(
        &self,
        worlds: &[World],
        which: &[usize],
        seeds: u64,
        options: &RunOptions<'_>,
    ) -> Result<Vec<Vec<Vec<f64>>>> {
        let cells: Vec<(usize, usize, u64)> = (0..worlds.len())
            .flat_map(|w| which.iter().flat_map(move |&s| (0..seeds).map(move |seed| (w, s, seed))))
            .collect();
        let label = format!("{} on validation rows", self.method.name());
        let bar = options.job.progress(&label, "trainings", Some(cells.len() as u64));
        let found = lab::side_by_side(&cells, &bar, |&(w, s, seed)| {
            self.training(&worlds[w], s, seed, options).measured()
        })?;
        let mut values = vec![vec![Vec::new(); self.settings.len()]; worlds.len()];
        for (&(w, s, _), measured) in cells.iter().zip(found) {
            values[w][s].push(measured.value.unwrap_or(self.worst()));
        }
        Ok(values)
    }

    fn training<'b>(
        &'b self,
        world: &'b World,
        setting: usize,
        seed: u64,
        options: &'b RunOptions<'b>,
    ) -> Training<'b> {
        let settings = &self.settings[setting].1;
        Training { world, method: self.method, settings, seed, patience: self.patience, options }
    }

    fn is_error(&self) -> bool {
        self.method.purpose() == Purpose::Rating
    }

    /// What stands for a training that diverged: nothing found, or the width of the scale of ratings.
    fn worst(&self) -> f64 {
        if self.is_error() { 4.0 } else { 0.0 }
    }

    fn measure(&self) -> &'static str {
        if self.is_error() { "RMSE" } else { "NDCG@10" }
    }

    /// Settings with values, the best first: by the mean over data sets of the value relative to the best of the data set.
    fn order(&self, values: &[Vec<Vec<f64>>]) -> Vec<(usize, f64)> {
        let which: Vec<usize> =
            (0..self.settings.len()).filter(|&s| !values[0][s].is_empty()).collect();
        let score = |s: usize| {
            let relative = values.iter().map(|of| {
                let value = |s: usize| {
                    let mean = mean(&of[s]);
                    if self.is_error() { 1.0 / mean } else { mean }
                };
                let best = which.iter().map(|&s| value(s)).fold(f64::MIN_POSITIVE, f64::max);
                value(s) / best
            });
            mean(&relative.collect::<Vec<_>>())
        };
        let mut order: Vec<(usize, f64)> = which.iter().map(|&s| (s, score(s))).collect();
        order.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        order
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn run(config: &str, options: &RunOptions<'_>) -> Result<Findings> {
    let config: Config = toml::from_str(config)
        .map_err(|e| Error::damaged(format!("defaults: the configuration is damaged: {e}"), ""))?;
    let worlds: Vec<World> =
        config.data.iter().map(|data| World::new(data, options)).collect::<Result<_>>()?;
    let mut findings = Findings::default();
    let mut neighbors = Vec::new();
    for world in &worlds {
        let (_, split) = &world.ranking;
        let sizes = [&split.train, &split.validation, &split.test].map(Vec::len);
        findings.notes.push(format!(
            "{}: {} users, {} items, {} training, {} validation and {} test rows",
            world.name,
            world.ranking.0.users.len(),
            world.ranking.0.items.len(),
            sizes[0],
            sizes[1],
            sizes[2]
        ));
        for method in BASELINES {
            let none = Settings::new();
            let training =
                Training { world, method, settings: &none, seed: 0, patience: None, options };
            let (validation, test) = (training.measured()?.value, training.tested()?.value);
            for (on, value) in [("validation", validation), ("test", test)] {
                let what = format!("{}: {}: NDCG@10, {on}", world.name, method.name());
                findings.rows.push(row(what, None, &[value.unwrap_or(0.0)]));
            }
            if method == Method::ItemKnn {
                neighbors.push(test.unwrap_or(0.0));
            }
        }
    }
    for method in &config.method {
        let study = Study::new(&config, method, options)?;
        decide(&study, &worlds, &neighbors, options, &mut findings)?;
    }
    Ok(findings)
}

/// Chooses the default of a method, and compares it with the earlier one.
fn decide(
    study: &Study<'_>,
    worlds: &[World],
    neighbors: &[f64],
    options: &RunOptions<'_>,
    findings: &mut Findings,
) -> Result<()> {
    let method = study.method.name();
    let [first, all] = study.seeds;
    let every: Vec<usize> = (0..study.settings.len()).collect();
    let mut values = study.values(worlds, &every, first, options)?;
    let mut order = study.order(&values);
    findings.notes.push(format!("{method}: {} seeds each: {}", first, shown(study, &order)));
    if first < all {
        let best: Vec<usize> = order.iter().take(2).map(|(s, _)| *s).collect();
        let last = study.values(worlds, &best, all, options)?;
        order = study.order(&last);
        findings.notes.push(format!("{method}: {all} seeds each: {}", shown(study, &order)));
        for (of, last) in values.iter_mut().zip(last) {
            best.iter().for_each(|&s| of[s].clone_from(&last[s]));
        }
    }
    let chosen = order[0].0;
    let (name, settings) = &study.settings[chosen];
    findings.notes.push(format!("{method}: chosen: {name}: {}", Value::Object(settings.clone())));
    let measure = study.measure();
    for (world, of) in worlds.iter().zip(&values) {
        for (s, values) in of.iter().enumerate() {
            let setting = study.settings[s].0;
            let what = format!("{}: {method}, {setting}: {measure}, validation", world.name);
            findings.rows.push(row(what, None, values));
        }
    }
    let earlier = every.iter().copied().find(|&s| study.settings[s].0 == EARLIER).unwrap_or(chosen);
    for (world, neighbors) in worlds.iter().zip(neighbors) {
        let seeds: Vec<u64> = (0..all).collect();
        let test = |s: usize| -> Result<Vec<f64>> {
            let bar = options.job.quiet().progress(method, "trainings", Some(all));
            let one = |&seed: &u64| study.training(world, s, seed, options).tested();
            let found = lab::side_by_side(&seeds, &bar, one)?;
            Ok(found.iter().map(|m| m.value.unwrap_or(study.worst())).collect())
        };
        let of_chosen = test(chosen)?;
        let at = format!("{}: {method}", world.name);
        findings.rows.push(row(format!("{at}, chosen: {measure}, test"), None, &of_chosen));
        if earlier != chosen {
            let of_earlier = test(earlier)?;
            findings.rows.push(row(format!("{at}, earlier: {measure}, test"), None, &of_earlier));
            let sign = if study.is_error() { -1.0 } else { 1.0 };
            let gain: Vec<f64> =
                of_chosen.iter().zip(&of_earlier).map(|(a, b)| sign * (a - b)).collect();
            let gain = over_seeds(&gain);
            let holds = Some(!gain.has_interval() || gain.high >= 0.0);
            let what = format!("{at}: gain of the chosen default over the earlier, test");
            findings.rows.push(Row { holds, ..Row::new(what, gain) });
        }
        if !study.is_error() {
            let gain: Vec<f64> = of_chosen.iter().map(|a| a - neighbors).collect();
            let gain = over_seeds(&gain);
            let holds = (study.method == Method::Sasrec).then_some(gain.low > 0.0);
            let what = format!("{at}: gain of the chosen default over itemknn, test");
            findings.rows.push(Row { holds, ..Row::new(what, gain) });
        }
    }
    Ok(())
}

/// Settings and their mean relative values, the best first.
fn shown(study: &Study<'_>, order: &[(usize, f64)]) -> String {
    let one = |(s, score): &(usize, f64)| format!("{} {score:.4}", study.settings[*s].0);
    order.iter().map(one).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every setting of `config.toml` that `result.json` says was chosen is the default of its method, and heads the order of its
    /// validation values. Only the epochs of slow methods are not: there they are a limit, which early stopping meets first.
    #[test]
    fn defaults_are_what_was_chosen() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/defaults");
        let result = std::fs::read(format!("{folder}/result.json")).unwrap();
        let result: Value = serde_json::from_slice(&result).unwrap();
        assert_eq!(result["quick"], false);
        let config: Config = toml::from_str(DEFAULTS.config).unwrap();
        let seed = Seed::new(0).unwrap();
        let shape = ShopSettings {
            users: 10,
            items: 300,
            clusters: 2,
            per_user: 4,
            skew: 0.5,
            noise: 0.1,
            seed,
        };
        // `als` takes alpha relative to the mean rating.
        let data = Interactions { rating: None, ..shop_in_order(shape, 0.0).unwrap().data };
        let rows: Vec<u32> = (0..data.len() as u32).collect();
        let notes: Vec<&str> =
            result["notes"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        for MethodConfig { name, slow, common, settings } in &config.method {
            let chosen = format!("{name}: chosen: ");
            let chosen = notes.iter().find_map(|note| note.strip_prefix(&chosen)).unwrap();
            let (chosen, values) = chosen.split_once(": {").unwrap();
            let order = format!("{name}: {} seeds each: {chosen} ", config.seeds);
            assert!(notes.iter().any(|note| note.starts_with(&order)), "{order}");
            let values: Settings = serde_json::from_str(&format!("{{{values}")).unwrap();
            let mut tried = common.clone();
            tried.extend(settings[chosen].clone());
            assert_eq!(lab::grid(&tried), [values], "{name}");
            let method = Method::from_name(name).unwrap();
            let defaults = method.resolved(&Settings::new(), Input::of(&data, &rows)).unwrap();
            for (setting, value) in &lab::grid(&tried)[0] {
                let is_limit = *slow && setting == "epochs";
                assert!(is_limit || defaults[setting] == *value, "{name} {setting}");
            }
            let stopping = slow.then_some(config.patience);
            assert_eq!(method.early_stopping().map(|(_, patience)| patience), stopping, "{name}");
        }
    }
}
