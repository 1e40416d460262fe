//! The networks that are imitated: trained ones of `crates/nets`, and the small networks of paper 004's code with one output.
//!
//! The paper's small networks have weights and biases from N(0, 1) and a fixed factor after every hidden layer:
//!
//! mlp     relu(l(x) / 10) three times with 100 units, then a dense layer
//! cnn     3 x 3 convolutions of 64, 32, 8 channels, each with relu, mean pooling and 1 / sqrt(9 channels), then dense layers of 128
//!         and 64 units with relu and 1 / sqrt(units), then a dense layer
//! deep    the same with two convolutions for each, and the maximum for the mean
//!
//! They learn in one of three ways:
//!
//! sigmoid                squares of sigmoid(f) - y
//! difference-squared     squares of f - f_0 - y with the untrained network f_0; the logit is f - f_0 - 1/2
//! difference-logistic    logistic loss of the logit f - f_0
//!
//! f - f_0 is one network with two branches, of which the second one is never trained; the kernel is that of the first.

use serde::{Deserialize, Serialize};
use veridical::{Error, Result};
use veridical_core::{Job, Seed, Stream};
use veridical_data::examples::{Examples, Targets};
use veridical_io::run::read_tensors;
use veridical_nets::fit::{Course, ExampleLearner, fit};
use veridical_nets::layers::{Activation, AveragePool, Conv2d, Flatten, Kind, Linear, MaxPool};
use veridical_nets::metrics::Passes;
use veridical_nets::{
    Backward, Builder, Curve, Feed, Float, Forward, Layer, Loss, Net, NetConfig, OptimizerKind,
    OptimizerSettings, Schedule, Shape, Slot, Trainer, TrainerSettings, moments,
};

use super::images::labels;
use crate::RunOptions;
use crate::movielens::Folder;

/// The ResNet-20 of akamaster/pytorch_resnet_cifar10, and its authors' normalization of the images.
const WEIGHTS: &str = "models/resnet20-cifar10.safetensors";
const MEAN: [f64; 3] = [0.485, 0.456, 0.406];
const DEVIATION: [f64; 3] = [0.229, 0.224, 0.225];
const RELU: Activation = Activation::new(Kind::Relu);

/// How a network is trained.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Training {
    pub optimizer: OptimizerKind,
    pub lr: f64,
    pub batch: usize,
    pub epochs: u32,
}

impl Training {
    /// For a smoke test: two epochs.
    pub fn quick(self) -> Self {
        Self { epochs: 2, ..self }
    }

    fn settings(self, loss: Loss) -> TrainerSettings {
        TrainerSettings {
            loss,
            optimizer: OptimizerSettings::of(self.optimizer),
            lr: self.lr,
            schedule: Schedule { curve: Curve::Constant, warmup: 0, total: 0 },
            clip: None,
            batch: self.batch,
        }
    }
}

/// A trained network with the normalization of its inputs.
pub struct Classifier {
    pub net: Net<f32>,
    pub mean: Vec<f64>,
    pub deviation: Vec<f64>,
}

impl Classifier {
    /// Trains an architecture with cross entropy, inputs normalized by the moments of the training images.
    pub fn train(
        model: &str,
        examples: &Examples,
        classes: usize,
        training: Training,
        seed: u64,
        job: &Job<'_>,
    ) -> Result<Self> {
        let (shape, seed) = (Shape::from(examples.shape), Seed::new(seed)?);
        let net = NetConfig::new(model.parse()?, shape, classes).build(seed)?;
        let (mean, deviation) = moments((&examples.values).into(), shape);
        let loss = Loss::CrossEntropy { smoothing: 0.0 };
        let trainer = Trainer::new(net, training.settings(loss), |_| true)?;
        let feed = Feed::of(examples, &mean, &deviation, seed);
        let net = learn(trainer, feed, examples, classes, training.epochs, seed, job)?;
        Ok(Self { net, mean, deviation })
    }

    /// Reads the ResNet-20 that others trained on CIFAR-10.
    pub fn resnet20(options: &RunOptions<'_>) -> Result<Self> {
        let weights = Folder::new(options.data).file(WEIGHTS)?;
        let model = NetConfig::new("resnet20".parse()?, Shape::image(32, 32, 3), 10);
        let mut net = model.build(Seed::new(0)?)?;
        net.import(&read_tensors(&weights)?, true)?;
        Ok(Self { net, mean: MEAN.to_vec(), deviation: DEVIATION.to_vec() })
    }

    /// Feeds images to the network.
    pub fn feed<'a>(&self, examples: &'a Examples) -> Result<Feed<'a>> {
        Ok(Feed::of(examples, &self.mean, &self.deviation, Seed::new(0)?))
    }

    /// Returns the outputs for images.
    pub fn logits(&self, examples: &Examples, job: &Job<'_>) -> Result<Vec<f64>> {
        outputs(&self.net, &self.feed(examples)?, job)
    }
}

fn learn(
    trainer: Trainer<f32>,
    feed: Feed<'_>,
    examples: &Examples,
    classes: usize,
    epochs: u32,
    seed: Seed,
    job: &Job<'_>,
) -> Result<Net<f32>> {
    let mut learner = ExampleLearner::new(trainer, (feed, examples), None, classes);
    let course = Course { has_classes: classes > 0, ..Course::new(examples.n(), epochs, seed) };
    fit::<Error>(&course, &mut learner, None, None, &job.quiet())?;
    Ok(learner.into_net())
}

fn outputs(net: &Net<f32>, feed: &Feed<'_>, job: &Job<'_>) -> Result<Vec<f64>> {
    let outputs = Passes::new(net).outputs(net, feed, ("", &job.quiet()))?;
    Ok(outputs.into_iter().map(f64::from).collect())
}

/// A small network of paper 004.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Small {
    Mlp,
    Cnn,
    Deep,
}

/// What a small network learns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Learns {
    Sigmoid,
    DifferenceSquared,
    DifferenceLogistic,
}

/// A trained small network.
pub struct Binary {
    pub net: Net<f32>,
    /// The layers of its kernel.
    pub layers: Vec<String>,
    /// What is taken from its output to get the logit of class 1.
    threshold: f64,
}

impl Binary {
    /// Trains a small network on images of classes 0 and 1.
    pub fn train(
        small: Small,
        learns: Learns,
        examples: &Examples,
        training: Training,
        seed: u64,
        job: &Job<'_>,
    ) -> Result<Self> {
        let (shape, seed) = (Shape::from(examples.shape), Seed::new(seed)?);
        let numbers = Targets::Numbers {
            dim: 1,
            values: labels(examples).iter().map(|&y| y as f32).collect(),
        };
        let (loss, targets) = match learns {
            Learns::DifferenceLogistic => (Loss::BinaryCrossEntropy, examples.targets.clone()),
            _ => (Loss::Squared, numbers),
        };
        let examples = Examples { targets, ..examples.clone() };
        let feed = plain(&examples, shape, seed);
        let settings = training.settings(loss);
        if learns == Learns::Sigmoid {
            let trainer = Trainer::new(single(small, shape, seed, true)?, settings, |_| true)?;
            let learned = learn(trainer, feed, &examples, 0, training.epochs, seed, job)?;
            let mut net = single(small, shape, seed, false)?;
            net.params.copy_from_slice(&learned.params);
            return Ok(Self { net, layers: Vec::new(), threshold: 0.0 });
        }
        let is_trained = |name: &str| name.starts_with(FIRST);
        let trainer = Trainer::new(difference(small, shape, seed)?, settings, is_trained)?;
        let net = learn(trainer, feed, &examples, 0, training.epochs, seed, job)?;
        let threshold = if learns == Learns::DifferenceSquared { 0.5 } else { 0.0 };
        Ok(Self { net, layers: vec![format!("{FIRST}*")], threshold })
    }

    /// Feeds images to the network, from 0 to 1.
    pub fn feed<'a>(&self, examples: &'a Examples) -> Result<Feed<'a>> {
        Ok(plain(examples, self.net.input(), Seed::new(0)?))
    }

    /// Returns two scores for every image: 0, and the logit of class 1.
    pub fn scores(&self, examples: &Examples, job: &Job<'_>) -> Result<Vec<f64>> {
        let outputs = outputs(&self.net, &self.feed(examples)?, job)?;
        Ok(outputs.into_iter().flat_map(|f| [0.0, f - self.threshold]).collect())
    }
}

fn plain(examples: &Examples, shape: Shape, seed: Seed) -> Feed<'_> {
    let channels = shape.channels;
    Feed::of(examples, &vec![0.0; channels], &vec![1.0; channels], seed)
}

/// Prefixes of the names of the layers of f and f_0.
const FIRST: &str = "f.";
const SECOND: &str = "f0.";

/// A small network, with its sigmoid if `squashed`.
fn single(small: Small, shape: Shape, seed: Seed, squashed: bool) -> Result<Net<f32>> {
    let mut builder = Builder::new(shape, seed);
    let input = builder.last();
    stack(&mut builder, input, small, "")?;
    if squashed {
        builder.push("sigmoid", Activation::new(Kind::Sigmoid))?;
    }
    let mut net = builder.finish()?;
    draw(&mut net.params, seed);
    Ok(net)
}

/// f - f_0.
fn difference(small: Small, shape: Shape, seed: Seed) -> Result<Net<f32>> {
    let mut builder = Builder::new(shape, seed);
    let input = builder.last();
    let first = stack(&mut builder, input, small, FIRST)?;
    let second = stack(&mut builder, input, small, SECOND)?;
    builder.add("difference", first, second, false)?;
    let mut net = builder.finish()?;
    let half = net.params.len() / 2;
    let (f, f_0) = net.params.split_at_mut(half);
    draw(f, seed);
    f_0.copy_from_slice(f);
    // The last dense layer is linear: its negative is that of the whole network.
    let head = net.tensors().iter().rev().take(2).map(|t| t.place.len()).sum::<usize>();
    net.params[2 * half - head..].iter_mut().for_each(|p| *p = -*p);
    Ok(net)
}

/// All parameters from N(0, 1).
fn draw(params: &mut [f32], seed: Seed) {
    let mut drawn = vec![0.0; params.len()];
    Stream::new(seed, "surrogates/weights").at(0, 0).fill_normals(&mut drawn);
    params.iter_mut().zip(drawn).for_each(|(p, z)| *p = z as f32);
}

fn stack(b: &mut Builder<f32>, input: Slot, small: Small, prefix: &str) -> Result<Slot> {
    let mut at = input;
    let name = |layer: &str| format!("{prefix}{layer}");
    if small == Small::Mlp {
        at = b.after(at, &name("flatten"), Flatten)?;
        for layer in ["l1", "l2", "l3"] {
            at = hidden(b, at, &name(layer), 100, 0.1)?;
        }
        return Ok(b.after(at, &name("l4"), Linear::new(b.shape(at).values(), 1))?);
    }
    let per_stage = if small == Small::Deep { 2 } else { 1 };
    for (stage, width) in (1..).zip([64, 32, 8]) {
        let scale = Scale(1.0 / f64::from(9 * width as u32).sqrt());
        for number in 1..=per_stage {
            let own = name(&format!("conv{stage}-{number}"));
            let conv = Conv2d::new(b.shape(at).channels, width, 3).padding(1);
            at = b.after(at, &own, conv)?;
            at = b.after(at, &format!("{own}-relu"), RELU)?;
            if number < per_stage {
                at = b.after(at, &format!("{own}-scale"), scale)?;
            }
        }
        // The factor is above 0, so it may follow the pooling, where there are fewer values.
        let pool = name(&format!("pool{stage}"));
        at = match small {
            Small::Deep => b.after(at, &pool, MaxPool::new(2, 2, 0))?,
            _ => b.after(at, &pool, AveragePool::new(2, 2, 0))?,
        };
        at = b.after(at, &format!("{pool}-scale"), scale)?;
    }
    at = b.after(at, &name("flatten"), Flatten)?;
    for (layer, width) in [("fc1", 128), ("fc2", 64)] {
        at = hidden(b, at, &name(layer), width, 1.0 / (width as f64).sqrt())?;
    }
    Ok(b.after(at, &name("fc3"), Linear::new(b.shape(at).values(), 1))?)
}

/// A dense layer with relu and a factor, in any order: relu(s x) = s relu(x) for s > 0.
fn hidden(b: &mut Builder<f32>, at: Slot, name: &str, width: usize, scale: f64) -> Result<Slot> {
    let at = b.after(at, name, Linear::new(b.shape(at).values(), width))?;
    let at = b.after(at, &format!("{name}-relu"), RELU)?;
    Ok(b.after(at, &format!("{name}-scale"), Scale(scale))?)
}

/// y = s x, dx = s dy.
#[derive(Clone, Copy, Debug)]
struct Scale(f64);

impl Scale {
    fn write<T: Float>(self, from: &[T], to: &mut [T]) {
        let s = T::of(self.0);
        to.iter_mut().zip(from).for_each(|(y, &x)| *y = s * x);
    }
}

impl<T: Float> Layer<T> for Scale {
    fn output(&self, input: Shape) -> veridical_nets::Result<Shape> {
        Ok(input)
    }

    fn forward(&self, pass: Forward<'_, T>) {
        self.write(pass.x, pass.y);
    }

    fn backward(&self, pass: Backward<'_, T>) {
        if let Some(dx) = pass.dx {
            self.write(pass.dy, dx);
        }
    }
}

#[cfg(test)]
mod tests {
    use veridical_data::generate;

    use super::*;

    /// The paper's formulas on one input: pooling of equal values, and the difference of a network with itself.
    #[test]
    fn untrained_networks_have_the_papers_form() {
        let (shape, seed) = (Shape::image(16, 16, 1), Seed::new(3).unwrap());
        let examples = generate::images(8, 16, 1, 2, seed);
        let feed = plain(&examples, shape, seed);
        let of = |net: &Net<f32>| outputs(net, &feed, &Job::silent()).unwrap();
        for small in [Small::Mlp, Small::Cnn, Small::Deep] {
            assert!(of(&single(small, shape, seed, false).unwrap()).iter().any(|f| *f != 0.0));
            let difference = difference(small, shape, seed).unwrap();
            assert!(of(&difference).iter().all(|f| f.abs() < 1e-5), "{small:?}");
        }
        let net = single(Small::Mlp, shape, seed, false).unwrap();
        let x: Vec<f64> = {
            let mut x = vec![0.0f32; 256];
            feed.fill(&[0], &mut x);
            x.into_iter().map(f64::from).collect()
        };
        let tensors = net.tensors();
        let mut h = x;
        for (layer, pair) in tensors.chunks(2).enumerate() {
            let [w, b] = [&pair[0], &pair[1]].map(|t| &net.params[t.place.clone()]);
            let rows = w.chunks(h.len()).zip(b);
            let next = rows.map(|(w, b)| {
                let sum: f64 = w.iter().zip(&h).map(|(w, h)| f64::from(*w) * h).sum();
                sum + f64::from(*b)
            });
            h = match layer {
                3 => next.collect(),
                _ => next.map(|z| (z / 10.0).max(0.0)).collect(),
            };
        }
        // f32 sums of some hundred products.
        assert!(
            (of(&net)[0] - h[0]).abs() < 1e-4 * h[0].abs().max(1.0),
            "{} {}",
            of(&net)[0],
            h[0]
        );
    }
}
