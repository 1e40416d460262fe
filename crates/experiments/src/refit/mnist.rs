//! Subsets of MNIST: accuracy before and after the last layer is solved.

use serde::Deserialize;
use veridical::{Error, Result};
use veridical_core::{Error as CoreError, Order, Seed};
use veridical_data::examples::{Examples, Targets};
use veridical_data::generate;
use veridical_io::examples::{ExampleOptions, read_examples};
use veridical_nets::fit::{Course, ExampleLearner, fit};
use veridical_nets::{
    Curve, Feed, Loss, Mode, Net, NetConfig, OptimizerKind, OptimizerSettings, RefitMethod,
    RefitSettings, Schedule, Shape, Target, Trainer, TrainerSettings, Workspace, correct, moments,
    refit,
};

use crate::lab::{self, row};
use crate::movielens::Folder;
use crate::{Experiment, Findings, RunOptions};

pub(crate) const MNIST: Experiment = Experiment {
    id: "004-refit-mnist",
    claim: "Paper 004, section 6: retraining only the last layer is a low-cost recipe for significantly improving the accuracy \
        of a network",
    rule: "replicated if, for n = 500, 2,000 and 10,000 training images, the 95 % interval over seeds of the mean gain in test \
        accuracy (percentage points, after minus before) lies above 0, for ridge and for logistic regression each; partly if \
        only some do, refuted if none does",
    deviations: &[
        "the paper shows the gain for two classes in the plane and for GPT-2; MNIST subsets are ours",
        "the network: mlp:512,512, relu, Adam 1e-3, batches of 64, 20 epochs; the penalty by five-fold cross-validation on the \
         training images, which the network has seen",
        "each seed draws its own subset and its own first weights; the 10,000 test images are the same",
    ],
    config: include_str!("../../../../experiments/004-refit-mnist/config.toml"),
    run,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    seeds: u64,
    quick_seeds: u64,
    sizes: Vec<usize>,
    quick_sizes: Vec<usize>,
    model: String,
    quick_model: String,
    epochs: u32,
    quick_epochs: u32,
    batch: usize,
    lr: f64,
    folds: usize,
}

/// Accuracies in percent: before, and after each method.
type Accuracies = [f64; 3];

const METHODS: [(&str, RefitMethod); 2] =
    [("ridge", RefitMethod::Ridge), ("logistic", RefitMethod::Logistic)];

fn run(config: &str, options: &RunOptions<'_>) -> Result<Findings> {
    let config: Config = toml::from_str(config)
        .map_err(|e| CoreError::damaged(format!("the configuration is damaged: {e}"), ""))?;
    let (train, test) = parts(options)?;
    let (seeds, sizes) = match options.quick {
        true => (config.quick_seeds, &config.quick_sizes),
        false => (config.seeds, &config.sizes),
    };
    let jobs: Vec<(usize, u64)> =
        sizes.iter().flat_map(|&n| (0..seeds).map(move |seed| (n, seed))).collect();
    let bar = options.job.progress("networks", "networks", Some(jobs.len() as u64));
    let found = lab::side_by_side(&jobs, &bar, |&(n, seed)| {
        let order = Order::new(train.n() as u64, Seed::new(seed)?, "subset", 0);
        let rows: Vec<usize> = (0..n as u64).map(|t| order.at(t) as usize).collect();
        compared(&config, options, &train.subset(&rows), &test, seed)
    })?;
    drop(bar);
    let mut findings = Findings::default();
    for (n, runs) in sizes.iter().zip(found.chunks_exact(seeds as usize)) {
        let of = |k: usize| -> Vec<f64> { runs.iter().map(|run| run[k]).collect() };
        findings.rows.push(row(format!("n = {n}: accuracy of the network, %"), None, &of(0)));
        for (k, (name, _)) in METHODS.into_iter().enumerate() {
            findings.rows.push(row(format!("n = {n}: accuracy after {name}, %"), None, &of(k + 1)));
            let gains: Vec<f64> = runs.iter().map(|run| run[k + 1] - run[0]).collect();
            let mut gain = row(format!("n = {n}: gain by {name}, points"), None, &gains);
            gain.holds = Some(gain.measured.low > 0.0);
            findings.rows.push(gain);
        }
    }
    Ok(findings)
}

/// MNIST, or generated images for a quick run.
fn parts(options: &RunOptions<'_>) -> Result<(Examples, Examples)> {
    if options.quick {
        let all = generate::images(400, 12, 1, 4, Seed::new(0)?);
        let rows: Vec<usize> = (0..400).collect();
        return Ok((all.subset(&rows[..200]), all.subset(&rows[200..])));
    }
    let folder = Folder::new(options.data).file("mnist")?;
    let found = read_examples(&folder, &ExampleOptions::default())?;
    match (found.train, found.test) {
        (Some(train), Some(test)) => Ok((train, test)),
        _ => {
            let what = format!("{}: training and test images are needed", folder.display());
            Err(CoreError::missing(what, "").into())
        }
    }
}

fn compared(
    config: &Config,
    options: &RunOptions<'_>,
    train: &Examples,
    test: &Examples,
    seed: u64,
) -> Result<Accuracies> {
    let shape = Shape::from(train.shape);
    let (name, epochs) = match options.quick {
        true => (&config.quick_model, config.quick_epochs),
        false => (&config.model, config.epochs),
    };
    let classes = labels(train);
    let outputs = classes.iter().max().map_or(0, |c| *c as usize + 1);
    let model = NetConfig::new(name.parse()?, shape, outputs);
    let settings = TrainerSettings {
        loss: Loss::CrossEntropy { smoothing: 0.0 },
        optimizer: OptimizerSettings::of(OptimizerKind::Adam),
        lr: config.lr,
        schedule: Schedule { curve: Curve::Constant, warmup: 0, total: 0 },
        clip: None,
        batch: config.batch,
    };
    let seed = Seed::new(seed)?;
    // One mean and deviation over all pixels of a channel.
    let (mean, deviation) = moments((&train.values).into(), shape);
    let feed = Feed::of(train, &mean, &deviation, seed);
    let test_feed = Feed::of(test, &mean, &deviation, seed);
    let trainer = Trainer::new(model.build::<f32>(seed)?, settings, |_| true)?;
    let n = train.n();
    let mut learner = ExampleLearner::new(trainer, (feed.clone(), train), None, outputs);
    let course = Course { has_classes: true, ..Course::new(n, epochs, seed) };
    fit::<Error>(&course, &mut learner, None, None, &options.job.quiet())?;
    let mut net = learner.into_net();
    let test_classes = labels(test);
    let (features, _) = applied(&net, &feed, n);
    let (_, before) = applied(&net, &test_feed, test.n());
    let percent = |outputs_: &[f32]| {
        100.0 * correct(outputs_, outputs, test_classes) as f64 / test_classes.len() as f64
    };
    let mut accuracies = [percent(&before); 3];
    let head = net.solved_head()?;
    for (k, (_, method)) in METHODS.into_iter().enumerate() {
        let settings = RefitSettings { method, folds: config.folds, seed };
        let dim = net.feature_dim();
        let solved = refit(&features, dim, Target::Classes(classes), outputs, &head, &settings)?;
        net.set_head(&solved.head)?;
        let (_, after) = applied(&net, &test_feed, test.n());
        accuracies[k + 1] = percent(&after);
    }
    Ok(accuracies)
}

/// Features in f64 and outputs of all samples of a feed.
fn applied(net: &Net<f32>, feed: &Feed<'_>, n: usize) -> (Vec<f64>, Vec<f32>) {
    const BATCH: usize = 256;
    let mut work = Workspace::new(net, BATCH.min(n), None);
    let (mut features, mut outputs) = (Vec::new(), Vec::new());
    let rows: Vec<usize> = (0..n).collect();
    for rows in rows.chunks(BATCH) {
        net.forward(&mut work, rows.len(), Mode::Frozen, 0, |slot| feed.fill(rows, slot));
        features.extend(net.features(&work).iter().map(|&h| f64::from(h)));
        outputs.extend_from_slice(work.outputs(net));
    }
    (features, outputs)
}

fn labels(examples: &Examples) -> &[u32] {
    match &examples.targets {
        Targets::Classes(classes) => classes,
        Targets::Numbers { .. } => &[], // images have classes
    }
}
