//! Table A.1: the sentiment of film reviews, read by a bidirectional network from skip-gram vectors of words.
//!
//! Pretrainings differ in the seed alone, and the networks that read them have one seed: what spreads comes from the vectors. Networks
//! of other seeds on the first pretraining's vectors say how much the reader spreads by itself.

use std::collections::BTreeMap;
use std::iter::repeat_n;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::json;
use veridical::net::text::{Parts, TextNetOptions, TextRecipe};
use veridical::settings::Vocabulary;
use veridical::{Error, Result};
use veridical_core::settings::Settings as _;
use veridical_core::{Error as CoreError, Job, Seed, Stream};
use veridical_data::{IdMap, Interactions, LabeledTexts};
use veridical_embed::{Graphs, Input, Method, Model};
use veridical_features::FeatureMap;
use veridical_io::{LabeledOptions, read_labeled};
use veridical_learn::to_unit_rows;
use veridical_nets::EmbeddingTable;
use veridical_nets::fit::{Course, DocumentLearner, Documents, Watched, first_vectors, fit};

use super::{phi, sd_row};
use crate::lab::{self, Settings, row, sd_ratio};
use crate::movielens::Folder;
use crate::queue::{Done, once};
use crate::{Experiment, Findings, Row, RunOptions};

pub(crate) const TABLE_A1: Experiment = Experiment {
    id: ID,
    claim: "Paper 000, table A.1: a bidirectional network that reads features phi_d of skip-gram vectors h tells the sentiment of \
        IMDB reviews better than with h, and with a deviation over pretrainings eight times smaller",
    rule: "replicated if, for d = 16 and d = 32, the 95 % interval of phi_d - h, paired over pretrainings, lies above 0 and that of \
        sd(h) / sd(phi_d) lies above 1; partly if only some of these hold; refuted if none. Whether the paper's values are inside, \
        the reader's own spread and learned vectors are reported without a claim",
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
    config: include_str!("../../../../experiments/000-tableA1/config.toml"),
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
    /// The one for which the reader's own spread and learned vectors are measured too.
    beside: usize,
    /// Weight decays to choose from.
    decays: Vec<f64>,
    /// That of learned vectors.
    learned_decay: f64,
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
    /// Vectors that are learned with the network.
    Learned,
}

impl Kind {
    fn name(self, d: usize) -> String {
        match self {
            Self::H => format!("h, d = {d}"),
            Self::Phi => format!("phi_d(h), d = {d}"),
            Self::Learned => format!("learned vectors, d = {d}"),
        }
    }
}

/// One training.
#[derive(Clone, Copy, Debug)]
struct Training {
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
    parts: Parts,
    /// Unit rows by dimension and pretraining.
    vectors: BTreeMap<(usize, u64), Vec<f32>>,
    seeds: u64,
}

fn run(config: &str, options: &RunOptions<'_>) -> Result<Findings> {
    let config: Config = toml::from_str(config)
        .map_err(|e| CoreError::damaged(format!("{ID}: the configuration is damaged: {e}"), ""))?;
    let mut study = Study::new(&config, options)?;
    study.pretrain()?;
    let (chosen, mut found) = study.choose()?;
    let mut trainings = Vec::new();
    for &d in &config.dims {
        for kind in [Kind::H, Kind::Phi] {
            let decay = chosen[&(kind, d)];
            trainings.extend((1..study.seeds).map(|n| Training {
                kind,
                d,
                decay,
                pretrained: n,
                seed: 0,
            }));
        }
    }
    let (d, decay) = (config.beside, chosen[&(Kind::H, config.beside)]);
    trainings.extend((1..study.seeds).map(|n| Training {
        kind: Kind::H,
        d,
        decay,
        pretrained: 0,
        seed: n,
    }));
    let (kind, decay) = (Kind::Learned, config.learned_decay);
    trainings.extend((0..study.seeds).map(|n| Training { kind, d, decay, pretrained: 0, seed: n }));
    let more = study.measure("measuring", &trainings)?;
    found.extend(trainings.into_iter().zip(more));
    Ok(study.report(&chosen, &found))
}

/// The reviews, or generated documents in a smoke test.
pub fn reviews(options: &RunOptions<'_>) -> Result<LabeledTexts> {
    if options.quick {
        return generated();
    }
    let path = Folder::new(options.data).file("imdb-10k/imdb_10k.csv.xz")?;
    let mut columns = LabeledOptions::default();
    columns.records.columns = "text=text,id=id,label=label".parse()?;
    Ok(read_labeled(&path, &columns)?.0)
}

impl<'a> Study<'a> {
    fn new(config: &'a Config, options: &'a RunOptions<'a>) -> Result<Self> {
        let mut recipe = config.reader.clone();
        let mut pretraining = lab::grid(&config.pretraining).swap_remove(0);
        if options.quick {
            (recipe.epochs, recipe.patience) = (config.quick_epochs, None);
            pretraining.insert("epochs".into(), config.quick_epochs.into());
        }
        let division = TextNetOptions {
            test_share: Some(config.test_share),
            validation: Some(config.validation),
            vocabulary: Vocabulary { min_count: Some(config.min_count) },
            ..TextNetOptions::default()
        };
        let parts = Parts::new(&reviews(options)?, &division, Path::new(""), recipe.max_length)?;
        let seeds = if options.quick { config.quick_seeds } else { config.seeds };
        Ok(Self { config, options, recipe, pretraining, parts, vectors: BTreeMap::new(), seeds })
    }

    /// Skip-gram over the documents: words are items, documents are users.
    fn pretrain(&mut self) -> Result<()> {
        let (train, words) = (&self.parts.train, self.words());
        // A document without a known word is the one word after the last.
        let sentences = (0..train.len()).map(|i| train.words(i));
        let sentences: Vec<&[u32]> = sentences.filter(|own| own[0] < words as u32).collect();
        let user = (0..).zip(&sentences).flat_map(|(n, words)| words.iter().map(move |_| n));
        let data = Interactions {
            users: IdMap::numbered(sentences.len()),
            items: IdMap::numbered(words),
            user: user.collect(),
            item: sentences.concat(),
            rating: None,
            time: None,
        };
        let rows: Vec<u32> = (0..data.len() as u32).collect();
        let jobs: Vec<(usize, u64)> =
            self.config.dims.iter().flat_map(|&d| (0..self.seeds).map(move |n| (d, n))).collect();
        let bar = self.options.job.progress("pretraining", "models", Some(jobs.len() as u64));
        let tables = lab::side_by_side(&jobs, &bar, |&(d, seed)| {
            let mut settings = self.pretraining.clone();
            settings.insert("dim".into(), d.into());
            let (input, graphs) = (Input::of(&data, &rows), Graphs::default());
            let mut trainer =
                Method::Item2vec.trainer(&settings, input, &graphs, Seed::new(seed)?)?;
            lab::epochs(&mut *trainer, self.options.job, |_, _, _| Ok(()))?;
            let Model::Items { item, .. } = trainer.into_model() else {
                let what = "item2vec did not give vectors of items";
                return Err(CoreError::Internal(what.into()).into());
            };
            let mut values = item.into_values();
            to_unit_rows(&mut values, d);
            Ok(values)
        })?;
        self.vectors = jobs.into_iter().zip(tables).collect();
        Ok(())
    }

    /// The weight decay with the best accuracy on validation for the first pretraining of each kind, and these trainings.
    #[allow(clippy::type_complexity, reason = "two lists by training")]
    fn choose(&self) -> Result<(BTreeMap<(Kind, usize), f64>, Vec<(Training, Done<Measured>)>)> {
        let of = |d: usize, kind: Kind| {
            let training = move |&decay: &f64| Training { kind, d, decay, pretrained: 0, seed: 0 };
            self.config.decays.iter().map(training)
        };
        let kinds = [Kind::H, Kind::Phi];
        let dims = self.config.dims.iter();
        let trainings: Vec<Training> =
            dims.flat_map(|&d| kinds.into_iter().flat_map(move |kind| of(d, kind))).collect();
        let tried = self.measure("choosing", &trainings)?;
        let mut best: BTreeMap<(Kind, usize), (Training, Done<Measured>)> = BTreeMap::new();
        for (training, done) in trainings.into_iter().zip(tried) {
            let place =
                best.entry((training.kind, training.d)).or_insert_with(|| (training, done.clone()));
            if done.value.validation > place.1.value.validation {
                *place = (training, done);
            }
        }
        let chosen = best.iter().map(|(&of, (training, _))| (of, training.decay)).collect();
        Ok((chosen, best.into_values().collect()))
    }

    fn measure(&self, what: &str, trainings: &[Training]) -> Result<Vec<Done<Measured>>> {
        let bar = self.options.job.progress(what, "trainings", Some(trainings.len() as u64));
        lab::side_by_side(trainings, &bar, |training| {
            let recipe = TextRecipe { weight_decay: training.decay, ..self.recipe.clone() };
            let key = json!({
                "experiment": ID, "quick": self.options.quick, "reader": recipe, "pretraining": self.pretraining,
                "parts": [self.config.test_share, self.config.validation], "min_count": self.config.min_count,
                "kind": training.kind.name(training.d), "pretrained": training.pretrained, "seed": training.seed,
            });
            once(self.options.keep, &key, || self.learn(training, &recipe))
        })
    }

    fn learn(&self, training: &Training, recipe: &TextRecipe) -> Result<Measured> {
        let unit = &self.vectors[&(training.d, training.pretrained)];
        let (seed, job) = (Seed::new(training.seed)?, self.options.job.quiet());
        match training.kind {
            Kind::H => self.read(recipe, Some(unit), training.d, seed, &job),
            Kind::Phi => {
                let features = FeatureMap::new(&phi(training.d, training.d, 1.0, 0)?)?
                    .transform(veridical_core::Rows::new(unit, training.d)?)?;
                self.read(recipe, Some(&features), training.d, seed, &job)
            }
            Kind::Learned => {
                let recipe = TextRecipe { dim: Some(training.d), ..recipe.clone() };
                self.read(&recipe, None, training.d, seed, &job)
            }
        }
    }

    /// How many words are known.
    fn words(&self) -> usize {
        self.parts.vocabulary.words().len()
    }

    /// Trains a reader on vectors of all words, which stay as they are, or on learned ones; ends after `recipe.patience` epochs
    /// without a better accuracy on validation, and the best epoch is tested (paper 000, appendix: experiments with NLP dataset).
    fn read(
        &self,
        recipe: &TextRecipe,
        vectors: Option<&[f32]>,
        d: usize,
        seed: Seed,
        job: &Job<'_>,
    ) -> Result<Measured> {
        let Parts { train, validation, test, classes, .. } = &self.parts;
        let recipe = recipe.clone().settled(train.len(), vectors.map(|_| d))?;
        recipe.check()?;
        let (loss, outputs) = TextRecipe::loss(classes.len());
        let values = match vectors {
            None => first_vectors(self.words() + 1, recipe.dim(), seed),
            // One of zeros for documents without a known word.
            Some(values) => values.iter().copied().chain(repeat_n(0.0, d)).collect(),
        };
        let table = EmbeddingTable::new(recipe.dim(), values, &recipe.optimizer())?;
        let mut learner = DocumentLearner::new(
            recipe.net(outputs, seed)?,
            recipe.training(loss, train.len()),
            (table, vectors.is_none()),
            train,
            Some(validation),
            classes.len(),
        )?;
        let course = Course {
            watched: Watched::Accuracy,
            patience: recipe.patience,
            keeps_best: true,
            has_classes: true,
            ..Course::new(train.len(), recipe.epochs, seed)
        };
        let learned = fit::<Error>(&course, &mut learner, None, None, job)?;
        let best = learned.best.ok_or_else(|| CoreError::setting("epochs", "at least 1", 0))?;
        let tested = learner.measure(test, job)?.accuracy.map_or(f64::NAN, |share| share.value);
        Ok(Measured {
            best: best.epoch,
            epochs: learned.epochs,
            validation: 100.0 * best.value,
            test: 100.0 * tested,
        })
    }

    fn report(
        &self,
        chosen: &BTreeMap<(Kind, usize), f64>,
        found: &[(Training, Done<Measured>)],
    ) -> Findings {
        let mut rows = Vec::new();
        for &d in &self.config.dims {
            let of = |kind: Kind, has: &dyn Fn(&Training) -> bool| -> Vec<f64> {
                let own = |(training, _): &&(Training, Done<Measured>)| {
                    training.kind == kind && training.d == d && has(training)
                };
                found.iter().filter(own).map(|(_, done)| done.value.test).collect()
            };
            let h = of(Kind::H, &|training| training.seed == 0);
            let features = of(Kind::Phi, &|_| true);
            let own = of(Kind::H, &|training| training.pretrained == 0);
            let learned = of(Kind::Learned, &|_| true);
            let paper = PAPER.iter().find(|(of, _)| *of == d).map(|(_, paper)| paper);
            let at = |i: usize| paper.map(|paper| paper[i]);
            let joint = Some(86.25);
            for (name, values, paper) in [
                (Kind::H.name(d), &h, [at(0), at(1)]),
                (Kind::Phi.name(d), &features, [at(2), at(3)]),
                (
                    format!("h of one pretraining, readers of other seeds, d = {d}"),
                    &own,
                    [None, None],
                ),
                (Kind::Learned.name(d), &learned, [joint, Some(0.12)]),
            ] {
                if values.len() > 1 {
                    rows.push(row(format!("accuracy, {name}"), paper[0], values));
                    rows.push(sd_row(format!("sd of accuracy, {name}"), paper[1], values));
                }
            }
            let gain: Vec<f64> = features.iter().zip(&h).map(|(a, b)| a - b).collect();
            let reported = paper.map(|paper| paper[2] - paper[0]);
            let gain = row(format!("accuracy, phi_d(h) - h, d = {d}"), reported, &gain);
            rows.push(Row { holds: Some(gain.measured.low > 0.0), ..gain });
            if let Some(measured) = sd_ratio(&h, &features) {
                let what = format!("sd(h) / sd(phi_d(h)) of accuracy, d = {d}");
                let paper = paper.map(|paper| paper[1] / paper[3]);
                let holds = Some(measured.low > 1.0);
                rows.push(Row { paper, holds, ..Row::new(what, measured) });
            }
        }
        let Parts { train, validation, test, .. } = &self.parts;
        let [train, validation, test] = [train, validation, test].map(Documents::len);
        let mut notes = vec![format!(
            "{train} documents to learn from, {validation} to stop on, {test} to test on; {} words",
            self.words()
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
fn generated() -> Result<LabeledTexts> {
    const DOCUMENTS: usize = 600;
    const WORDS: u64 = 12;
    let stream = Stream::new(Seed::new(0)?, "reproduce/reviews");
    let mut texts = LabeledTexts::default();
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
