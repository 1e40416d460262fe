//! Table A.1: the sentiment of film reviews, read by a bidirectional network from skip-gram vectors of words.
//!
//! Pretrainings differ in the seed alone, and the networks that read them have one seed: what spreads comes from the vectors. Networks
//! of other seeds on the first pretraining's vectors say how much the reader spreads by itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::json;
use veridical_core::{Seed, Stream};
use veridical_data::{IdMap, Interactions, LabelledTexts};
use veridical_embed::{Graphs, Input, Method, Model};
use veridical_features::FeatureMap;
use veridical_learn::to_unit_rows;

use super::{phi, sd_row};
use crate::net::text::{TextNetOptions, TextRecipe, Trial};
use crate::reproduce::lab::{self, Settings, row, sd_ratio};
use crate::reproduce::movielens::Folder;
use crate::reproduce::queue::{Done, once};
use crate::reproduce::{Experiment, Findings, Row, RunOptions};
use crate::{Error, Result};

pub(in crate::reproduce) const TABLE_A1: Experiment = Experiment {
    id: ID,
    claim: "Paper 000, table A.1: a bidirectional network that reads features phi_d of skip-gram vectors h tells the sentiment of \
        IMDB reviews better than with h, and with a deviation over pretrainings eight times smaller",
    rule: "replicated if, for d = 16 and d = 32, the 95 % interval of phi_d - h, paired over pretrainings, lies above 0 and that of \
        sd(h) / sd(phi_d) lies above 1; partly if only some of these hold; refuted if none. Whether the paper's values are inside, \
        the reader's own spread and learnt vectors are reported without a claim",
    deviations: &[
        "10,000 of the 50,000 reviews, divided 80 % / 10 % / 10 % by one shuffle; 5 pretrainings in place of 10",
        "window 3 and 3 negatives alone; the paper varies both between 3 and 4",
        "skip-gram over the documents to learn from, 30 epochs, words that occur 5 times, the first 128 words of a review",
        "an LSTM of 16 in each direction, the tutorial has 64; rate 1e-3 in place of 1e-4 and an end after 3 epochs without a better \
         accuracy on validation in place of 5: an epoch is a fifth as long",
        "the weight decay is chosen on validation from 1e-6, 1e-4 and 1e-2, for the first pretraining of each kind, and kept for the others",
        "the paper states neither the scaling of h nor of phi: unit rows, and phi of d coordinates with its factor 1 / sqrt(m), \
         u ~ N(0, I)",
        "all readers have the same seed: the paper does not say; the spread over the seeds of readers stands beside it",
    ],
    config: include_str!("../../../../../experiments/000-tableA1/config.toml"),
    run,
};

const ID: &str = "000-tableA1";
/// By d: accuracy with h and its deviation, with phi_d and its deviation; window 3, 3 negatives.
const PAPER: [(usize, [f64; 4]); 2] =
    [(16, [74.87, 1.98, 76.65, 0.24]), (32, [76.64, 2.01, 78.26, 0.23])];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    seeds: u64,
    quick_seeds: u64,
    quick_epochs: u32,
    dims: Vec<usize>,
    /// The one for which the reader's own spread and learnt vectors are measured too.
    beside: usize,
    /// Weight decays to choose from.
    decays: Vec<f64>,
    /// That of learnt vectors.
    learnt_decay: f64,
    test_share: f64,
    /// Of the rest.
    validation: f64,
    min_count: u64,
    pretraining: toml::Table,
    reader: TextRecipe,
}

/// Accuracies in points.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Measured {
    best: u32,
    epochs: u32,
    validation: f64,
    test: f64,
}

/// What a reader is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// Unit rows of a pretraining.
    H,
    /// Their features.
    Phi,
    /// Vectors that are learnt with the network.
    Learnt,
}

impl Kind {
    fn name(self, d: usize) -> String {
        match self {
            Self::H => format!("h, d = {d}"),
            Self::Phi => format!("phi_d(h), d = {d}"),
            Self::Learnt => format!("learnt vectors, d = {d}"),
        }
    }
}

/// One training.
#[derive(Clone, Copy, Debug)]
struct Job {
    kind: Kind,
    /// Which of the dimensions.
    d: usize,
    decay: f64,
    pretrained: u64,
    seed: u64,
}

struct Study<'a> {
    config: &'a Config,
    options: &'a RunOptions<'a>,
    recipe: TextRecipe,
    pretraining: Settings,
    trial: Trial,
    /// Unit rows by dimension and pretraining.
    vectors: BTreeMap<(usize, u64), Vec<f32>>,
    seeds: u64,
}

fn run(config: &str, options: &RunOptions<'_>) -> Result<Findings> {
    let config: Config = toml::from_str(config)
        .map_err(|e| Error::Usage(format!("{ID}: the configuration is damaged: {e}")))?;
    let mut study = Study::new(&config, options)?;
    study.pretrain()?;
    let (chosen, mut found) = study.choose()?;
    let mut jobs = Vec::new();
    for &d in &config.dims {
        for kind in [Kind::H, Kind::Phi] {
            let decay = chosen[&(kind, d)];
            jobs.extend((1..study.seeds).map(|n| Job { kind, d, decay, pretrained: n, seed: 0 }));
        }
    }
    let (d, decay) = (config.beside, chosen[&(Kind::H, config.beside)]);
    jobs.extend((1..study.seeds).map(|n| Job { kind: Kind::H, d, decay, pretrained: 0, seed: n }));
    let (kind, decay) = (Kind::Learnt, config.learnt_decay);
    jobs.extend((0..study.seeds).map(|n| Job { kind, d, decay, pretrained: 0, seed: n }));
    let more = study.measure("measuring", &jobs)?;
    found.extend(jobs.into_iter().zip(more));
    Ok(study.report(&chosen, &found))
}

impl<'a> Study<'a> {
    fn new(config: &'a Config, options: &'a RunOptions<'a>) -> Result<Self> {
        let mut recipe = config.reader.clone();
        let mut pretraining = lab::grid(&config.pretraining).swap_remove(0);
        if options.quick {
            (recipe.epochs, recipe.patience) = (config.quick_epochs, None);
            pretraining.insert("epochs".into(), config.quick_epochs.into());
        }
        let reading = TextNetOptions {
            column: Some("text".into()),
            label_column: Some("label".into()),
            id_column: Some("id".into()),
            test_share: Some(config.test_share),
            validation: Some(config.validation),
            min_count: Some(config.min_count),
            ..TextNetOptions::default()
        };
        let texts = match options.quick {
            true => generated()?,
            false => {
                let path = Folder::new(options.data).file("imdb-10k/imdb_10k.csv.xz")?;
                LabelledTexts::read(&path, &reading.reading())?.0
            }
        };
        let trial = Trial::new(&texts, &reading, recipe.max_length)?;
        let seeds = if options.quick { config.quick_seeds } else { config.seeds };
        Ok(Self { config, options, recipe, pretraining, trial, vectors: BTreeMap::new(), seeds })
    }

    /// Skip-gram over the documents: words are items, documents are users.
    fn pretrain(&mut self) -> Result<()> {
        let sentences: Vec<&[u32]> = self.trial.sentences().collect();
        let user = (0..).zip(&sentences).flat_map(|(n, words)| words.iter().map(move |_| n));
        let data = Interactions {
            users: IdMap::numbered(sentences.len()),
            items: IdMap::numbered(self.trial.words()),
            user: user.collect(),
            item: sentences.concat(),
            rating: None,
            time: None,
        };
        let rows: Vec<u32> = (0..data.len() as u32).collect();
        let jobs: Vec<(usize, u64)> =
            self.config.dims.iter().flat_map(|&d| (0..self.seeds).map(move |n| (d, n))).collect();
        let bar = self.options.observer.progress("pretraining", "models", Some(jobs.len() as u64));
        let tables = lab::side_by_side(&jobs, &bar, |&(d, seed)| {
            let mut settings = self.pretraining.clone();
            settings.insert("dim".into(), d.into());
            let (input, graphs) = (Input::of(&data, &rows), Graphs::default());
            let mut trainer =
                Method::Item2vec.trainer(&settings, input, &graphs, Seed::new(seed)?)?;
            lab::epochs(&mut *trainer, |_, _, _| Ok(()))?;
            let Model::Items { item, .. } = trainer.into_model() else {
                return Err(Error::Usage("item2vec did not give vectors of items".into()));
            };
            let mut values = item.into_values();
            to_unit_rows(&mut values, d);
            Ok(values)
        })?;
        self.vectors = jobs.into_iter().zip(tables).collect();
        Ok(())
    }

    /// The weight decay with the best accuracy on validation for the first pretraining of each kind, and these trainings.
    #[allow(clippy::type_complexity, reason = "two lists by job")]
    fn choose(&self) -> Result<(BTreeMap<(Kind, usize), f64>, Vec<(Job, Done<Measured>)>)> {
        let of = |d: usize, kind: Kind| {
            let job = move |&decay: &f64| Job { kind, d, decay, pretrained: 0, seed: 0 };
            self.config.decays.iter().map(job)
        };
        let kinds = [Kind::H, Kind::Phi];
        let dims = self.config.dims.iter();
        let jobs: Vec<Job> =
            dims.flat_map(|&d| kinds.into_iter().flat_map(move |kind| of(d, kind))).collect();
        let tried = self.measure("choosing", &jobs)?;
        let mut best: BTreeMap<(Kind, usize), (Job, Done<Measured>)> = BTreeMap::new();
        for (job, done) in jobs.into_iter().zip(tried) {
            let place = best.entry((job.kind, job.d)).or_insert_with(|| (job, done.clone()));
            if done.value.validation > place.1.value.validation {
                *place = (job, done);
            }
        }
        let chosen = best.iter().map(|(&of, (job, _))| (of, job.decay)).collect();
        Ok((chosen, best.into_values().collect()))
    }

    fn measure(&self, what: &str, jobs: &[Job]) -> Result<Vec<Done<Measured>>> {
        let bar = self.options.observer.progress(what, "trainings", Some(jobs.len() as u64));
        lab::side_by_side(jobs, &bar, |job| {
            let recipe = TextRecipe { weight_decay: job.decay, ..self.recipe.clone() };
            let key = json!({
                "experiment": ID, "quick": self.options.quick, "reader": recipe, "pretraining": self.pretraining,
                "parts": [self.config.test_share, self.config.validation], "min_count": self.config.min_count,
                "kind": job.kind.name(job.d), "pretrained": job.pretrained, "seed": job.seed,
            });
            once(self.options.keep, &key, || self.learn(job, &recipe))
        })
    }

    fn learn(&self, job: &Job, recipe: &TextRecipe) -> Result<Measured> {
        let unit = &self.vectors[&(job.d, job.pretrained)];
        let seed = Seed::new(job.seed)?;
        let tried = match job.kind {
            Kind::H => self.trial.run(recipe, Some((job.d, unit)), seed)?,
            Kind::Phi => {
                let features = FeatureMap::new(&phi(job.d, job.d, 1.0, 0)?)?.transform(unit)?;
                self.trial.run(recipe, Some((job.d, &features)), seed)?
            }
            Kind::Learnt => {
                let recipe = TextRecipe { dim: Some(job.d), ..recipe.clone() };
                self.trial.run(&recipe, None, seed)?
            }
        };
        let points = |share: f64| 100.0 * share;
        Ok(Measured {
            best: tried.best,
            epochs: tried.epochs,
            validation: points(tried.validation),
            test: points(tried.test),
        })
    }

    fn report(
        &self,
        chosen: &BTreeMap<(Kind, usize), f64>,
        found: &[(Job, Done<Measured>)],
    ) -> Findings {
        let mut rows = Vec::new();
        for &d in &self.config.dims {
            let of = |kind: Kind, has: &dyn Fn(&Job) -> bool| -> Vec<f64> {
                let own =
                    |(job, _): &&(Job, Done<Measured>)| job.kind == kind && job.d == d && has(job);
                found.iter().filter(own).map(|(_, done)| done.value.test).collect()
            };
            let h = of(Kind::H, &|job| job.seed == 0);
            let features = of(Kind::Phi, &|_| true);
            let own = of(Kind::H, &|job| job.pretrained == 0);
            let learnt = of(Kind::Learnt, &|_| true);
            let paper = PAPER.iter().find(|(of, _)| *of == d).map(|(_, paper)| paper);
            let at = |i: usize| paper.map(|paper| paper[i]);
            let joint = Some(86.25);
            for (name, values, expected) in [
                (Kind::H.name(d), &h, [at(0), at(1)]),
                (Kind::Phi.name(d), &features, [at(2), at(3)]),
                (
                    format!("h of one pretraining, readers of other seeds, d = {d}"),
                    &own,
                    [None, None],
                ),
                (Kind::Learnt.name(d), &learnt, [joint, Some(0.12)]),
            ] {
                if values.len() > 1 {
                    rows.push(row(format!("accuracy, {name}"), expected[0], values));
                    rows.push(sd_row(format!("sd of accuracy, {name}"), expected[1], values));
                }
            }
            let gain: Vec<f64> = features.iter().zip(&h).map(|(a, b)| a - b).collect();
            let expected = paper.map(|paper| paper[2] - paper[0]);
            let gain = row(format!("accuracy, phi_d(h) - h, d = {d}"), expected, &gain);
            rows.push(Row { holds: Some(gain.interval[0] > 0.0), ..gain });
            if let Some((measured, interval)) = sd_ratio(&h, &features) {
                let what = format!("sd(h) / sd(phi_d(h)) of accuracy, d = {d}");
                let expected = paper.map(|paper| paper[1] / paper[3]);
                let holds = Some(interval[0] > 1.0);
                rows.push(Row { what, expected, measured, interval, seeds: self.seeds, holds });
            }
        }
        let [train, validation, test] = self.trial.sizes();
        let mut notes = vec![format!(
            "{train} documents to learn from, {validation} to stop on, {test} to test on; {} words",
            self.trial.words()
        )];
        for (&(kind, d), decay) in chosen {
            notes.push(format!("{}: weight decay {decay:e}", kind.name(d)));
        }
        let minutes: f64 = found.iter().map(|(_, done)| done.minutes).sum();
        let epochs: Vec<String> = found.iter().map(|(_, d)| d.value.best.to_string()).collect();
        notes.push(format!(
            "{minutes:.0} CPU minutes of {} trainings; best epochs {}",
            found.len(),
            epochs.join(", ")
        ));
        Findings { rows, notes, ..Findings::default() }
    }
}

/// Documents of two topics: half of their words is of the topic of their label, the others are of both.
fn generated() -> Result<LabelledTexts> {
    const DOCUMENTS: usize = 600;
    const WORDS: u64 = 12;
    let stream = Stream::new(Seed::new(0)?, "reproduce/reviews");
    let mut texts = LabelledTexts::default();
    for i in 0..DOCUMENTS {
        let label = i % 2;
        let place = stream.at(0, i as u64);
        let word = |k: u32| {
            let of = (place.uniform(2 * k) * WORDS as f64) as u64;
            let topic = if place.uniform(2 * k + 1) < 0.5 { label } else { 2 };
            format!("w{topic}x{of}")
        };
        texts.texts.push((0..16).map(word).collect::<Vec<_>>().join(" "));
        texts.ids.push(i.to_string());
        texts.labels.push(label.to_string());
    }
    Ok(texts)
}
