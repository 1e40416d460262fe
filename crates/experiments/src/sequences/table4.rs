//! SASRec with and without SSE, beside models that know no order.
//!
//! Every user's last item is to be found and the last but one chooses the number of epochs. Each training runs on one thread and is
//! kept when it is done.

use serde::{Deserialize, Serialize};
use serde_json::json;
use veridical::{Error, Result};
use veridical_core::stopping::Better;
use veridical_core::{Job, Seed};
use veridical_data::{Interactions, Short, Split, SplitOptions, SplitRule, split};
use veridical_embed::evaluate::Protocol;
use veridical_embed::fit::{FitSettings, Measures, Nowhere, Validate, fit};
use veridical_embed::{Graphs, Input, Method, Model, Trainer};

use crate::lab::{self, Settings, ranked, row};
use crate::movielens::Folder;
use crate::queue::{Done, once};
use crate::{Findings, Row, RunOptions};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    seeds: u64,
    quick_seeds: u64,
    quick_epochs: u32,
    /// Epochs between two looks at validation.
    every: u32,
    /// Epochs without a better value before a training ends.
    patience: u32,
    common: toml::Table,
    variant: Vec<Variant>,
    claim: Vec<Claim>,
}

impl Config {
    /// Epochs between two looks at validation, and without a better value before a training ends.
    fn looks(&self, variant: &Variant) -> [u32; 2] {
        [variant.every.unwrap_or(self.every), variant.patience.unwrap_or(self.patience)]
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Variant {
    name: String,
    method: String,
    /// Instead of all.
    seeds: Option<u64>,
    every: Option<u32>,
    patience: Option<u32>,
    /// NDCG@10 and hit rate@10 among 100.
    paper: Option<[f64; 2]>,
    #[serde(default)]
    settings: toml::Table,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Claim {
    better: String,
    than: String,
    /// The paper's differences; 0 where it has none.
    by: [f64; 2],
}

/// NDCG@10 and hit rate@10 under both protocols, and after how many epochs.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Measured {
    epochs: u32,
    sampled: [f64; 2],
    full: [f64; 2],
}

const MEASURES: [&str; 2] = ["ndcg@10", "hit@10"];
const SAMPLED: Protocol = Protocol::Uniform(100);

pub fn run(config: &str, options: &RunOptions<'_>) -> Result<Findings> {
    let config: Config = toml::from_str(config).map_err(|e| {
        Error::damaged(format!("001-table4: the configuration is damaged: {e}"), "")
    })?;
    let data = Folder::new(options.data).everyone(options.quick)?;
    let court = Court::new(data, options.job)?;
    let seeds = |variant: &Variant| match options.quick {
        true => config.quick_seeds,
        false => variant.seeds.unwrap_or(config.seeds),
    };
    let jobs: Vec<(usize, u64)> = (0..config.variant.len())
        .flat_map(|variant| (0..seeds(&config.variant[variant])).map(move |seed| (variant, seed)))
        .collect();
    let bar = options.job.progress("measuring", "trainings", Some(jobs.len() as u64));
    let values = lab::side_by_side(&jobs, &bar, |&(variant, seed)| {
        let variant = &config.variant[variant];
        let settings = settings(&config, variant, options.quick)?;
        let key = json!({
            "experiment": "001-table4", "quick": options.quick, "method": variant.method,
            "settings": settings, "looks": config.looks(variant), "seed": seed,
        });
        once(options.keep, &key, || court.learn(&config, variant, &settings, seed))
    })?;
    let found: Vec<((usize, u64), Done<Measured>)> = jobs.into_iter().zip(values).collect();
    report(&config, &found)
}

fn settings(config: &Config, variant: &Variant, quick: bool) -> Result<Settings> {
    let mut given =
        if variant.method == "sasrec" { config.common.clone() } else { toml::Table::new() };
    given.extend(variant.settings.clone());
    let mut settings = lab::grid(&given).pop().unwrap_or_default();
    if quick && settings.contains_key("epochs") {
        settings.insert("epochs".into(), config.quick_epochs.into());
    }
    Ok(settings)
}

/// The rows to learn from and to evaluate on.
struct Court<'a> {
    data: Interactions,
    split: Split,
    job: &'a Job<'a>,
}

impl<'a> Court<'a> {
    fn new(data: Interactions, job: &'a Job<'a>) -> Result<Self> {
        let options = SplitOptions { seed: Seed::new(0)?, validation: 0.1, short: Short::Drop };
        let split = split::apply(SplitRule::LeaveLastOne, &data, options)?.split;
        Ok(Self { data, split, job })
    }

    /// The measures under protocols.
    fn evaluate(
        &self,
        model: &Model,
        parts: [&[u32]; 3],
        protocols: &[Protocol],
    ) -> veridical_embed::Result<Vec<[f64; 2]>> {
        let found = ranked(model, &self.data, parts, &MEASURES, &[10], protocols, self.job)?;
        Ok(found.iter().map(|values| [values[0], values[1]]).collect())
    }

    fn learn(
        &self,
        config: &Config,
        variant: &Variant,
        settings: &Settings,
        seed: u64,
    ) -> Result<Measured> {
        let damaged = || Error::missing(format!("there is no method `{}`", variant.method), "");
        let method = Method::from_name(&variant.method).ok_or_else(damaged)?;
        let Split { train, validation, test } = &self.split;
        let graphs = Graphs::default();
        let input = Input::of(&self.data, train);
        let mut trainer = method.trainer(settings, input, &graphs, Seed::new(seed)?)?;
        let [eval_every, patience] = config.looks(variant);
        let stop = FitSettings { eval_every, patience: Some(patience) };
        let job = self.job.quiet();
        let each = |_, _: Option<f64>, _: &dyn Trainer| Ok::<(), Error>(());
        let fitted = fit(&mut *trainer, stop, Some(self), None::<&Nowhere>, None, &job, each)?;
        let epochs = fitted.best.map_or(fitted.epochs, |best| best.epoch);
        let model = trainer.into_model();
        let parts = [&train[..], validation, test];
        let values = self.evaluate(&model, parts, &[SAMPLED, Protocol::Full])?;
        Ok(Measured { epochs, sampled: values[0], full: values[1] })
    }
}

/// By the first measure of a full ranking of the validation rows.
impl Validate for Court<'_> {
    fn measures(&self, model: &Model, _job: &Job<'_>) -> veridical_embed::Result<Measures> {
        let parts = [&self.split.train, &[][..], &self.split.validation];
        let [first, _] = self.evaluate(model, parts, &[Protocol::Full])?[0];
        Ok(Measures::from([(MEASURES[0].to_owned(), first)]))
    }

    fn decisive(&self) -> &str {
        MEASURES[0]
    }

    fn better(&self) -> Better {
        Better::Higher
    }
}

fn report(config: &Config, found: &[((usize, u64), Done<Measured>)]) -> Result<Findings> {
    let of = |variant: usize| {
        found.iter().filter(move |((v, _), _)| *v == variant).map(|(_, done)| done)
    };
    let mut rows = Vec::new();
    let mut notes = Vec::new();
    for (v, variant) in config.variant.iter().enumerate() {
        for (m, measure) in MEASURES.iter().enumerate() {
            let paper = variant.paper.map(|paper| paper[m]);
            let sampled: Vec<f64> = of(v).map(|done| done.value.sampled[m]).collect();
            let full: Vec<f64> = of(v).map(|done| done.value.full[m]).collect();
            rows.push(row(format!("{}: {measure}, 100 sampled", variant.name), paper, &sampled));
            rows.push(row(format!("{}: {measure}, all", variant.name), None, &full));
        }
        let epochs: Vec<String> = of(v).map(|done| done.value.epochs.to_string()).collect();
        let minutes: f64 = of(v).map(|done| done.minutes).sum();
        notes.push(format!(
            "{}: best epochs {}; {minutes:.0} CPU minutes",
            variant.name,
            epochs.join(", ")
        ));
    }
    for Claim { better, than, by } in &config.claim {
        let at = |name: &str| {
            let damaged = || Error::missing(format!("there is no variant `{name}`"), "");
            config.variant.iter().position(|v| v.name == name).ok_or_else(damaged)
        };
        let (a, b) = (at(better)?, at(than)?);
        for (m, measure) in MEASURES.iter().enumerate() {
            let gap = |of_value: fn(&Measured) -> [f64; 2]| -> Vec<f64> {
                of(a)
                    .zip(of(b))
                    .map(|(a, b)| of_value(&a.value)[m] - of_value(&b.value)[m])
                    .collect()
            };
            let sampled = gap(|value| value.sampled);
            let is_claim = sampled.len() > 1 && by.iter().all(|by| *by != 0.0);
            let what = format!("{better} over {than}: {measure}, 100 sampled");
            let gained = row(what, (by[m] != 0.0).then_some(by[m]), &sampled);
            let [low, high] = gained.measured.interval();
            let holds = is_claim.then_some(low > 0.0 && (low..=high).contains(&by[m]));
            rows.push(Row { holds, ..gained });
            let full = gap(|value| value.full);
            rows.push(row(format!("{better} over {than}: {measure}, all"), None, &full));
        }
    }
    Ok(Findings { rows, notes, ..Findings::default() })
}
