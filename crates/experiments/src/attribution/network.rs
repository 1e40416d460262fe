//! Small classifiers that are trained again and again on parts of one data set.

use std::path::Path;

use serde::{Deserialize, Serialize};
use veridical::encoder::{Encoder, Texts};
use veridical::{Error, Result};
use veridical_core::{Error as CoreError, Job, Order, Seed};
use veridical_data::examples::{ExampleShape, Examples, Targets, Values};
use veridical_data::{Files, generate};
use veridical_io::examples::{ExampleOptions, read_examples};
use veridical_io::{FolderFiles, LabeledOptions, RecordOptions, read_labeled};
use veridical_kernels::tangent::Examples as KernelExamples;
use veridical_nets::fit::{Course, ExampleLearner, fit};
use veridical_nets::metrics::Passes;
use veridical_nets::{
    Curve, Feed, Loss, Net, NetConfig, OptimizerKind, OptimizerSettings, Schedule, Trainer,
    TrainerSettings, moments,
};

use crate::RunOptions;
use crate::movielens::Folder;

/// How a network is trained, from the configuration.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Training {
    pub model: String,
    pub epochs: u32,
    pub batch: usize,
    pub lr: f64,
}

/// Training rows and queries, with one normalization for every network.
pub(crate) struct World {
    pub train: Examples,
    pub queries: Examples,
    pub classes: usize,
    mean: Vec<f64>,
    deviation: Vec<f64>,
}

/// The encoder that turns tweets into vectors.
const ENCODER: &str = "all-MiniLM-L6-v2";
/// The classes of generated images and the width of one.
const GENERATED: (usize, usize) = (4, 10);

impl World {
    /// Draws `n` training rows and `queries` test rows of a data set: `mnist`, `fashion-mnist` or `sentiment140` (vectors of MiniLM);
    /// generated images for a quick run.
    pub fn new(name: &str, n: usize, queries: usize, options: &RunOptions<'_>) -> Result<Self> {
        let (train, test) = match (options.quick, name) {
            (true, _) => {
                let (classes, size) = GENERATED;
                let all = generate::images(n + queries, size, 1, classes, Seed::new(0)?);
                let rows: Vec<usize> = (0..n + queries).collect();
                (all.subset(&rows[..n]), all.subset(&rows[n..]))
            }
            (false, "sentiment140") => {
                let all = tweets(options, n + queries)?;
                let rows: Vec<usize> = (0..all.n()).collect();
                (all.subset(&rows[..n]), all.subset(&rows[n..]))
            }
            (false, name) => {
                let folder = Folder::new(options.data).file(name)?;
                let found = read_examples(&folder, &ExampleOptions::default())?;
                match (found.train, found.test) {
                    (Some(train), Some(test)) => {
                        (drawn(&train, n, "train")?, drawn(&test, queries, "queries")?)
                    }
                    _ => {
                        let what =
                            format!("{}: training and test images are needed", folder.display());
                        return Err(CoreError::missing(what, "").into());
                    }
                }
            }
        };
        Ok(Self::of(train, test))
    }

    /// With one mean and deviation over all values of a channel.
    pub fn of(train: Examples, queries: Examples) -> Self {
        let most = labels(&train).iter().chain(labels(&queries)).max();
        let classes = most.map_or(0, |most| *most as usize + 1);
        let (mean, deviation) = moments((&train.values).into(), train.shape.into());
        Self { train, queries, classes, mean, deviation }
    }

    /// The features of the last layer for some examples.
    pub fn features(&self, net: &Net<f32>, examples: &Examples, job: &Job<'_>) -> Result<Vec<f64>> {
        let feed = self.feed(examples)?;
        let mut features = Vec::new();
        Passes::new(net).run(net, &feed, ("features", &job.quiet()), |_, work| {
            features.extend(net.features(work).iter().map(|&h| f64::from(h)));
        })?;
        Ok(features)
    }

    pub fn feed<'a>(&self, examples: &'a Examples) -> Result<Feed<'a>> {
        Ok(Feed::of(examples, &self.mean, &self.deviation, Seed::new(0)?))
    }

    /// Trains a network on some of the training rows, with the given labels of all of them.
    pub fn trained(
        &self,
        rows: &[u32],
        labels: &[u32],
        training: &Training,
        seed: u64,
        job: &Job<'_>,
    ) -> Result<Net<f32>> {
        let seed = Seed::new(seed)?;
        let chosen: Vec<usize> = rows.iter().map(|&row| row as usize).collect();
        let mut examples = self.train.subset(&chosen);
        examples.targets = Targets::Classes(chosen.iter().map(|&row| labels[row]).collect());
        let model = NetConfig::new(training.model.parse()?, examples.shape.into(), self.classes);
        let settings = TrainerSettings {
            loss: Loss::CrossEntropy { smoothing: 0.0 },
            optimizer: OptimizerSettings::of(OptimizerKind::Adam),
            lr: training.lr,
            schedule: Schedule { curve: Curve::Constant, warmup: 0, total: 0 },
            clip: None,
            batch: training.batch.min(examples.n()),
        };
        let trainer = Trainer::new(model.build::<f32>(seed)?, settings, |_| true)?;
        let feed = self.feed(&examples)?;
        let mut learner = ExampleLearner::new(trainer, (feed, &examples), None, self.classes);
        let course =
            Course { has_classes: true, ..Course::new(examples.n(), training.epochs, seed) };
        fit::<Error>(&course, &mut learner, None, None, &job.quiet())?;
        Ok(learner.into_net())
    }

    /// The logits of some examples.
    pub fn logits(&self, net: &Net<f32>, examples: &Examples, job: &Job<'_>) -> Result<Vec<f64>> {
        let feed = self.feed(examples)?;
        let outputs = Passes::new(net).outputs(net, &feed, ("logits", &job.quiet()))?;
        Ok(outputs.into_iter().map(f64::from).collect())
    }
}

/// All examples of a feed, as kernels read them.
pub(super) fn fed<'a>(feed: &'a Feed<'_>) -> KernelExamples<'a, f32> {
    KernelExamples::new(feed.len(), move |samples, slot: &mut [f32]| {
        feed.fill(&samples.collect::<Vec<_>>(), slot);
    })
}

pub(crate) fn labels(examples: &Examples) -> &[u32] {
    match &examples.targets {
        Targets::Classes(classes) => classes,
        Targets::Numbers { .. } => &[], // all data sets here have classes
    }
}

/// The share of logits whose largest one is that of the label.
pub(crate) fn accuracy(logits: &[f64], labels: &[u32]) -> f64 {
    let classes = logits.len() / labels.len();
    let largest = veridical_inspect::surrogate::largest;
    let right = logits.chunks_exact(classes).zip(labels).filter(|(f, y)| largest(f) == **y);
    right.count() as f64 / labels.len() as f64
}

/// The first `n` examples in an order that belongs to the experiments: the same rows for every network.
fn drawn(all: &Examples, n: usize, what: &str) -> Result<Examples> {
    let order = Order::new(all.n() as u64, Seed::new(0)?, &format!("experiment/{what}"), 0);
    let rows: Vec<usize> = (0..n as u64).map(|t| order.at(t) as usize).collect();
    Ok(all.subset(&rows))
}

/// Vectors of tweets with their polarity, in an order that belongs to the experiments.
fn tweets(options: &RunOptions<'_>, n: usize) -> Result<Examples> {
    let folder = Folder::new(options.data);
    let (texts, classes) = distant(&folder.file("sentiment140/train_sample_20k.csv.xz")?)?;
    let order = Order::new(texts.len() as u64, Seed::new(0)?, "experiment/tweets", 0);
    let rows: Vec<usize> = (0..n as u64).map(|t| order.at(t) as usize).collect();
    let texts: Vec<&str> = rows.iter().map(|&row| texts[row].as_str()).collect();
    let values = encoded(&FolderFiles::new(folder.file(ENCODER)?), &texts, options.job)?;
    Ok(Examples {
        shape: ExampleShape::Row { columns: values.len() / n },
        values: Values::Floats(values),
        targets: Targets::Classes(rows.iter().map(|&row| classes[row]).collect()),
    })
}

/// Tweets of the training sample with a 1 for the positive ones.
fn distant(path: &Path) -> Result<(Vec<String>, Vec<u32>)> {
    let columns = "text=text,id=ids,label=target".parse()?;
    let records = RecordOptions { columns, ..RecordOptions::default() };
    let (read, _) = read_labeled(path, &LabeledOptions { records, ..LabeledOptions::default() })?;
    let classes = read.labels.iter().map(|label| u32::from(label == "4")).collect();
    Ok((read.texts, classes))
}

/// The vectors of texts under a sentence encoder, in order.
pub(crate) fn encoded<F: Files + ?Sized>(
    files: &F,
    texts: &[&str],
    job: &Job<'_>,
) -> Result<Vec<f32>>
where
    Error: From<F::Error>,
{
    const BATCH: usize = 32;
    const MEMORY: usize = 512;
    let encoder = Encoder::open(files)?;
    let mut all = Texts::default();
    for text in texts {
        encoder.tokenize(text, &mut all);
    }
    let mut passes = encoder.passes(BATCH, MEMORY)?;
    let bar = job.progress("encoding", "texts", Some(texts.len() as u64));
    encoder.vectors(&all, &mut passes, |count| {
        bar.advance(count as u64);
        Ok(bar.check()?)
    })
}
