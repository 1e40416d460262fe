//! `veridical explain validate`: do attributions predict what training again shows?
//!
//! Two tests, with the run's own recipe ([`veridical_inspect::validate`]): the linear datamodeling score, from trainings on random halves
//! of the rows, with the ceiling that the seeds leave; and removal curves, from trainings without the top rows of single queries,
//! beside random rows. If only a part of the rows is used, the network that is explained is first trained again on that part.
//!
//! Outputs of trainings are kept in `out`, one file each, by what was trained: a stopped job goes on there, and other effects or more
//! subsets need the missing trainings only.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use veridical_core::settings::Settings as _;
use veridical_core::{Error as Refusal, Estimate, Job, Order, Seed, settings};
use veridical_data::fingerprint;
use veridical_inspect::attribute::top;
use veridical_inspect::surrogate::log_odds;
use veridical_inspect::validate::{
    CurvePoint, DatamodelScore, Retrained, datamodel_score, half_subsets, removal_curve,
};
use veridical_io::{Existing, IfExists, Input, Output, publish};

use super::{Effect, Effects, Samples, Subject, SubjectSettings, effects, matrix, runs};
use crate::net::Again;
use crate::{Error, Result};

settings! {
    /// Settings of [`validate`].
    pub struct Validate {
        /// Effects to validate: removal, influence, mass, trak, fisher, similarity
        pub effects: Vec<Effect> = vec![Effect::Removal, Effect::Influence, Effect::Mass, Effect::Trak]
            => [value("NAME,NAME"), by_comma()],
        /// Random halves of the rows to train on
        pub subsets: usize = 50 => [at_least(3.0), at_most(1000.0)],
        /// Trainings of each subset, with different seeds
        pub trainings: usize = 2 => [at_least(1.0), at_most(100.0)],
        /// Inputs whose decisions are predicted
        pub queries: Option<Input> = None => [value("FILE_OR_FOLDER"), otherwise("the test set")],
        /// Most queries
        pub most_queries: usize = 100 => [at_least(1.0), detail()],
        /// Queries of the removal curves, with a training for each, each effect and each share; 0 for none
        pub curve_queries: usize = 10 => [value("N")],
        /// Shares of the rows that the removal curves take away
        pub shares: Vec<f64> = vec![0.001, 0.01, 0.05] => [value("SHARE,SHARE"), by_comma(), above(0.0), below(0.5), detail()],
        /// Folder to keep the outputs of the trainings in, where a stopped job goes on with ⟨resume⟩
        pub out: Option<Output> = None => [value("FOLDER")],
        /// HTML report to write
        pub html: Option<Output> = None,
    } with {
        /// Run, data and rows.
        pub subject: SubjectSettings,
        /// What is done about existing output.
        pub existing: Existing,
    }
}

/// An effect with its scores.
#[derive(Clone, Debug, Serialize)]
pub struct Validated {
    /// The effect.
    pub effect: &'static str,
    /// Linear datamodeling score: mean over queries of the rank correlation with the retrained margins; null where none varies.
    pub score: Option<Estimate>,
    /// Its standard error over queries.
    pub standard_error: Option<f64>,
    /// The score of every query.
    pub queries: Vec<Option<f64>>,
    /// The margin after removing the top rows, by the share of the rows.
    pub curve: Vec<CurvePoint>,
}

/// Result of [`validate`].
#[derive(Clone, Debug, Serialize)]
pub struct Validation {
    /// The run.
    pub run: String,
    /// Training rows that were used, in words.
    pub rows: String,
    /// What the queries are.
    pub queries: String,
    /// Number of queries.
    pub n: usize,
    /// Number of random halves.
    pub subsets: usize,
    /// Number of trainings of each.
    pub trainings: usize,
    /// Number of networks that were trained in all, those of earlier jobs included.
    pub networks: usize,
    /// The score that the seeds of the trainings leave possible; null for one training of each.
    pub ceiling: Option<f64>,
    /// Number of queries of the removal curves.
    pub curve_queries: usize,
    /// The effects, in the order that was asked for.
    pub validated: Vec<Validated>,
    /// Notes for the reader.
    pub notes: Vec<String>,
    /// Folder of the outputs of the trainings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out: Option<String>,
}

impl Validation {
    /// Returns the answer in a sentence.
    pub fn answer(&self) -> String {
        let scored = self.validated.iter().filter_map(|one| Some((one.effect, one.score?)));
        let best = scored.max_by(|a, b| a.1.value.total_cmp(&b.1.value));
        let Some((effect, score)) = best else {
            return "No margin varies between the trainings, so nothing can be predicted.".into();
        };
        let possible = self.ceiling.map_or(String::new(), |c| format!(" of a possible {c:.2}"));
        format!(
            "{effect} predicts training again best: a linear datamodeling score of {:.2}{possible} ({} halves of the rows, {} trainings each).",
            score.value, self.subsets, self.trainings
        )
    }
}

/// Validates attributions by training again.
///
/// # Errors
/// As [`explain`](super::explain()); [`Refusal::Exists`] for unfinished or existing output; an interruption keeps what is done.
pub fn validate(settings: &Validate, job: &Job<'_>) -> Result<Validation> {
    settings.check()?;
    if settings.effects.is_empty() {
        return Err(Refusal::setting("effects", "at least one effect", "none").into());
    }
    let if_exists = settings.existing.if_exists();
    match &settings.out {
        Some(out) => publish::refuse_existing(out, if_exists, "validation")?,
        None if if_exists == IfExists::Resume => {
            return Err(Error::request("⟨resume⟩ continues in ⟨out⟩", "pass it"));
        }
        None => {}
    }
    let run = runs(&settings.subject.run).swap_remove(0);
    let queries = settings.queries.as_deref();
    let mut subject = Subject::open(&run, &settings.subject, queries, job)?;
    subject.ask_some(settings.most_queries);
    let again = subject.again(&settings.subject, job)?;
    let mut notes = std::mem::take(&mut subject.notes);
    let mut of_subject = settings.subject.clone();
    if subject.rows.len() < subject.numbers.len() {
        notes.push(format!(
            "The network that is explained was trained again on the {} rows that are used, as the run was.",
            subject.rows.len()
        ));
        job.note("training the network that is explained on the rows that are used");
        subject.replace(again.on(&subject.rows, again.seed(), &job.quiet())?);
        // Stored factors are those of the network of the run.
        of_subject.store = None;
    }
    let mut found = Vec::new();
    let mut of: Option<Vec<u32>> = None;
    for effect in &settings.effects {
        let one = effects(&subject, *effect, &of_subject, of.as_deref(), job)?;
        of.get_or_insert_with(|| one.of.clone());
        found.push(one);
    }
    // INVARIANT: there is at least one effect.
    let of = of.unwrap_or_default();
    let (n, q) = (subject.rows.len(), of.len());
    let seed = Seed::new(settings.subject.seed)?;
    let subsets = half_subsets(n, settings.subsets, seed)?;
    let curve_queries = settings.curve_queries.min(q);
    let trainings = planned(settings, &again, &subsets, &found, (n, curve_queries))?;
    let kept = Kept::open(
        settings.out.as_deref(),
        if_exists,
        &identity(&subject, &found[0], &settings.subject),
    )?;
    let outputs = trained(&subject, &again, &of, &trainings, &kept, job)?;

    let of_seeds: Vec<Vec<f64>> = (0..settings.trainings)
        .map(|t| (0..subsets.len()).flat_map(|s| outputs[&half(s, t)].clone()).collect())
        .collect();
    let views = of_seeds.iter().map(|all| matrix(all, q)).collect::<Result<Vec<_>>>()?;
    let mut ceiling = None;
    let mut validated = Vec::new();
    for (effect, effects) in settings.effects.iter().zip(&found) {
        let scored = datamodel_score(matrix(&effects.values, n)?, &subsets, &views)?;
        let DatamodelScore { score, ceiling: possible, queries, .. } = scored;
        ceiling = possible;
        let curve = curve(settings, *effect, &outputs, curve_queries)?;
        validated.push(Validated {
            effect: effect.name(),
            standard_error: score.map(|score| score.error).filter(|error| error.is_finite()),
            score,
            queries,
            curve,
        });
    }
    kept.finish()?;
    Ok(Validation {
        run: run.display().to_string(),
        rows: subject.says_rows(),
        queries: subject.query_source.clone(),
        n: q,
        subsets: subsets.len(),
        trainings: settings.trainings,
        networks: trainings.len(),
        ceiling,
        curve_queries,
        validated,
        notes,
        out: settings.out.as_ref().map(ToString::to_string),
    })
}

/// One training: what it is called, the places of its rows, and which of the seeds it has.
struct Training {
    name: String,
    rows: Vec<usize>,
    seed: Seed,
}

fn half(subset: usize, training: usize) -> String {
    format!("half-{subset}-seed-{training}")
}

fn without_top(effect: Effect, share: f64, query: usize) -> String {
    format!("without-top-{}-{share}-query-{query}", effect.name())
}

fn without_random(share: f64, training: usize) -> String {
    format!("without-random-{share}-seed-{training}")
}

const FULL: &str = "all-seed-";

/// All trainings that are needed.
fn planned(
    settings: &Validate,
    again: &Again,
    subsets: &[Vec<u32>],
    found: &[Effects],
    (n, curve_queries): (usize, usize),
) -> Result<Vec<Training>> {
    let seed_of = |training: usize| Seed::new(again.seed().get() + training as u64);
    let mut all = Vec::new();
    for t in 0..settings.trainings {
        for (s, rows) in subsets.iter().enumerate() {
            let rows = rows.iter().map(|&at| at as usize).collect();
            all.push(Training { name: half(s, t), rows, seed: seed_of(t)? });
        }
    }
    if curve_queries == 0 {
        return Ok(all);
    }
    let but = |gone: &[u32]| -> Vec<usize> {
        let mut stays = vec![true; n];
        gone.iter().for_each(|&at| stays[at as usize] = false);
        (0..n).filter(|&at| stays[at]).collect()
    };
    let count = |share: f64| ((share * n as f64).round() as usize).clamp(1, n - 2);
    for t in 0..settings.trainings {
        let (name, seed) = (format!("{FULL}{t}"), seed_of(t)?);
        all.push(Training { name, rows: (0..n).collect(), seed });
        for &share in &settings.shares {
            let order = Order::new(n as u64, seed, "validate/random", (1e6 * share) as u32);
            let gone: Vec<u32> = (0..count(share)).map(|i| order.at(i as u64) as u32).collect();
            all.push(Training { name: without_random(share, t), rows: but(&gone), seed });
        }
    }
    for (effect, effects) in settings.effects.iter().zip(found) {
        for &share in &settings.shares {
            for (query, values) in effects.values.chunks_exact(n).take(curve_queries).enumerate() {
                let name = without_top(*effect, share, query);
                let rows = but(&top(values, count(share)));
                all.push(Training { name, rows, seed: seed_of(0)? });
            }
        }
    }
    Ok(all)
}

/// The margins of all queries after every training.
fn trained(
    subject: &Subject,
    again: &Again,
    of: &[u32],
    trainings: &[Training],
    kept: &Kept,
    job: &Job<'_>,
) -> Result<BTreeMap<String, Vec<f64>>> {
    let Samples::Examples(queries, _) = &subject.queries else {
        return Err(Error::request("documents are not trained again", ""));
    };
    let dim = subject.dim();
    let has_one = subject.has_one_output_for_two()?;
    let progress = job.progress("training", "networks", Some(trainings.len() as u64));
    let one = |training: &Training| -> Result<(String, Vec<f64>)> {
        let outputs = match kept.get(&training.name)? {
            Some(outputs) => outputs,
            None => {
                let rows: Vec<usize> = training.rows.iter().map(|&at| subject.rows[at]).collect();
                let outputs = again.outputs(&rows, training.seed, queries, &job.quiet())?;
                let outputs: Vec<f64> = match has_one {
                    true => outputs.into_iter().flat_map(|s| [0.0, f64::from(s)]).collect(),
                    false => outputs.into_iter().map(f64::from).collect(),
                };
                kept.put(&training.name, &outputs)?;
                outputs
            }
        };
        progress.advance(1);
        progress.check()?;
        if outputs.len() != of.len() * dim {
            let what = format!("the outputs of training {} are damaged", training.name);
            return Err(Error::damaged(what, "start over with ⟨force⟩"));
        }
        let margin = |(logits, &of): (&[f64], &u32)| match subject.classes.is_empty() {
            true => logits[0],
            false => log_odds(logits, of),
        };
        let margins = outputs.chunks_exact(dim).zip(of).map(margin).collect();
        Ok((training.name.clone(), margins))
    };
    match again.is_small() {
        true => trainings.par_iter().map(one).collect(),
        false => trainings.iter().map(one).collect(),
    }
}

/// The removal curve of an effect.
fn curve(
    settings: &Validate,
    effect: Effect,
    outputs: &BTreeMap<String, Vec<f64>>,
    queries: usize,
) -> Result<Vec<CurvePoint>> {
    if queries == 0 {
        return Ok(Vec::new());
    }
    // The network with the same seed as those without the top rows.
    let full = &outputs[&format!("{FULL}0")][..queries];
    let mean_of = |names: Vec<String>| -> Vec<f64> {
        let all = names.len() as f64;
        (0..queries).map(|x| names.iter().map(|name| outputs[name][x]).sum::<f64>() / all).collect()
    };
    let shares: Vec<(f64, Vec<f64>, Vec<f64>)> = settings
        .shares
        .iter()
        .map(|&share| {
            let top = (0..queries).map(|x| outputs[&without_top(effect, share, x)][x]).collect();
            let drawn = (0..settings.trainings).map(|t| without_random(share, t)).collect();
            let whole = mean_of((0..settings.trainings).map(|t| format!("{FULL}{t}")).collect());
            // The drop by random rows is between networks of the same seeds.
            let random =
                mean_of(drawn).into_iter().zip(whole).zip(full).map(|((r, w), f)| f - (w - r));
            (share, top, random.collect())
        })
        .collect();
    let retrained: Vec<Retrained<'_>> = shares
        .iter()
        .map(|(share, top, random)| Retrained { share: *share, top, random })
        .collect();
    Ok(removal_curve(full, &retrained)?.points)
}

/// What kept outputs depend on besides the name of a training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Identity {
    /// Outputs of the network that is explained for the queries, which depend on both.
    network: String,
    /// The rows that are used.
    rows: String,
    /// The seed of the subsets.
    seed: u64,
    /// The layers of the kernel, which decide the top rows.
    layers: Option<String>,
}

fn identity(subject: &Subject, effects: &Effects, settings: &SubjectSettings) -> Identity {
    let bits: Vec<usize> = effects.logits.iter().map(|x| x.to_bits() as usize).collect();
    Identity {
        network: fingerprint::of_numbers(&bits),
        rows: fingerprint::of_numbers(&subject.rows),
        seed: settings.seed,
        layers: settings.layers.clone(),
    }
}

const MANIFEST: &str = "manifest.json";

/// Outputs of trainings, in a folder while the job works and when it has finished; nowhere without one.
struct Kept(Option<(PathBuf, Mutex<publish::Lock>)>);

impl Kept {
    fn open(out: Option<&Path>, if_exists: IfExists, identity: &Identity) -> Result<Self> {
        let Some(out) = out else { return Ok(Self(None)) };
        let partial = publish::partial_path(out);
        let lock = publish::Lock::acquire(out, &partial)?;
        let failed = |e| veridical_io::Error::write(out, e);
        if if_exists == IfExists::Force {
            publish::remove(&partial).map_err(failed)?;
        }
        let earlier = [partial.as_path(), out].into_iter().find(|path| path.is_dir());
        match earlier.filter(|_| if_exists == IfExists::Resume) {
            Some(earlier) => {
                check_same(earlier, identity)?;
                if earlier == out {
                    fs::rename(out, &partial).map_err(failed)?;
                }
            }
            None => {
                publish::subfolder(&partial)?;
                publish::put(&partial.join(MANIFEST), &publish::pretty(identity))?;
            }
        }
        Ok(Self(Some((partial, Mutex::new(lock)))))
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        self.0.as_ref().map(|(folder, _)| folder.join(format!("{name}.json")))
    }

    fn get(&self, name: &str) -> Result<Option<Vec<f64>>> {
        let Some(path) = self.path(name) else { return Ok(None) };
        let text = match fs::read(&path) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            text => text.map_err(|e| unreadable(&path, &e))?,
        };
        let outputs = serde_json::from_slice(&text).map_err(|e| {
            let what = format!("{}: damaged ({e})", path.display());
            Refusal::damaged(what, "remove the file and pass ⟨resume⟩, or start over with ⟨force⟩")
        })?;
        Ok(Some(outputs))
    }

    fn put(&self, name: &str, outputs: &[f64]) -> Result<()> {
        match self.path(name) {
            None => Ok(()),
            Some(path) => Ok(publish::put(&path, &publish::pretty(&outputs))?),
        }
    }

    /// Gives the folder its name.
    fn finish(self) -> Result<()> {
        let Some((_, lock)) = self.0 else { return Ok(()) };
        let mut lock = lock.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(lock.publish()?)
    }
}

fn unreadable(path: &Path, e: &std::io::Error) -> Refusal {
    Refusal::missing(format!("{}: cannot be read: {e}", path.display()), "start over with ⟨force⟩")
}

/// Refuses outputs of another network, other rows or queries.
fn check_same(folder: &Path, identity: &Identity) -> Result<()> {
    let path = folder.join(MANIFEST);
    let text = fs::read(&path).map_err(|e| unreadable(&path, &e))?;
    let found: Identity = serde_json::from_slice(&text).map_err(|e| {
        let what = format!("{}: damaged ({e})", path.display());
        Refusal::damaged(what, "start over with ⟨force⟩")
    })?;
    let differs = if found.network != identity.network {
        "of another network, or for other queries"
    } else if found.rows != identity.rows {
        "of networks that were trained on other rows"
    } else if found.seed != identity.seed {
        "with another ⟨seed⟩"
    } else if found.layers != identity.layers {
        "with other ⟨layers⟩"
    } else {
        return Ok(());
    };
    let what = format!("{} holds outputs {differs}", folder.display());
    Err(Error::request(what, "start over with ⟨force⟩, or name another ⟨out⟩"))
}
