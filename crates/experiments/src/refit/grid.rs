//! The functions of eq. 71 on grids, and a network in f64 that learns one of them and is looked at during training.

use serde::{Deserialize, Serialize};
use veridical::{Error, Result};
use veridical_core::{Error as CoreError, Job, Seed};
use veridical_data::TensorMap;
use veridical_nets::fit::{Course, Evaluation, Learner, Step, fit};
use veridical_nets::{
    Curve, Loss, Net, NetConfig, OptimizerKind, OptimizerSettings, Schedule, Shape, Target,
    Trainer, TrainerSettings,
};

/// A network of the configuration.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Network {
    pub name: String,
    pub model: String,
    pub activation: String,
}

pub(super) type Function = fn(f64) -> f64;

pub(super) const FUNCTIONS_71: [(&str, Function); 3] = [
    ("f1", |x| (std::f64::consts::TAU * x).sin().exp()),
    ("f2", |x| (3.0 * x).exp()),
    ("f3", |x| (3.0 * x).exp().cos()),
];

/// Points on [-1, 1] with trapezoid weights.
pub(super) struct Grid {
    pub x: Vec<f64>,
    pub weights: Vec<f64>,
}

impl Grid {
    pub fn new(points: usize) -> Self {
        let step = 2.0 / (points - 1) as f64;
        let x = (0..points).map(|i| -1.0 + step * i as f64).collect();
        let end = |i: usize| i == 0 || i + 1 == points;
        Self { x, weights: (0..points).map(|i| if end(i) { step / 2.0 } else { step }).collect() }
    }

    /// The values of a function.
    pub fn values(&self, of: Function) -> Vec<f64> {
        self.x.iter().map(|&x| of(x)).collect()
    }

    /// The norm of a function given by its values, eq. (9).
    pub fn norm(&self, values: &[f64]) -> f64 {
        values.iter().zip(&self.weights).map(|(g, w)| w * g * g).sum::<f64>().sqrt()
    }

    /// The norm of the difference, eq. (9).
    pub fn error(&self, of: Function, got: &[f64]) -> f64 {
        let terms = self.x.iter().zip(&self.weights).zip(got);
        terms.map(|((&x, w), g)| w * (of(x) - g).powi(2)).sum::<f64>().sqrt()
    }
}

/// One training: which network learns which function with which seed, and when it is looked at.
pub(super) struct Training<'a> {
    pub network: &'a Network,
    pub lr: f64,
    pub epochs: &'a [u32],
    pub function: Function,
    pub seed: u64,
}

impl Training<'_> {
    /// Trains on a grid, and returns what `look` sees after every epoch that is looked at.
    pub fn run<L>(
        &self,
        grid: &Grid,
        look: impl Fn(&Net<f64>) -> Result<L>,
        job: &Job<'_>,
    ) -> Result<Vec<L>> {
        let mut model = NetConfig::new(self.network.model.parse()?, Shape::row(1), 1);
        model.activation = self.network.activation.parse()?;
        let n = grid.x.len();
        let settings = TrainerSettings {
            loss: Loss::Squared,
            optimizer: OptimizerSettings::of(OptimizerKind::Adam),
            lr: self.lr,
            schedule: Schedule { curve: Curve::Constant, warmup: 0, total: 0 },
            clip: None,
            batch: n,
        };
        let seed = Seed::new(self.seed)?;
        let mut learner = GridLearner {
            trainer: Trainer::new(model.build::<f64>(seed)?, settings, |_| true)?,
            targets: grid.x.iter().map(|&x| (self.function)(x) as f32).collect(),
            grid,
            epochs: self.epochs,
            look,
            seen: Vec::new(),
        };
        let course = Course::new(n, self.epochs.last().copied().unwrap_or(0), seed);
        fit::<Error>(&course, &mut learner, None, None, &job.quiet())?;
        learner.seen.into_iter().collect()
    }
}

/// A network in f64 that learns from all points of a grid at once.
struct GridLearner<'a, L, F> {
    trainer: Trainer<f64>,
    targets: Vec<f32>,
    grid: &'a Grid,
    epochs: &'a [u32],
    look: F,
    seen: Vec<Result<L>>,
}

impl<L, F: Fn(&Net<f64>) -> Result<L>> Learner for GridLearner<'_, L, F> {
    fn settings(&self) -> &TrainerSettings {
        self.trainer.settings()
    }

    fn steps(&self) -> u64 {
        self.trainer.steps()
    }

    fn rate(&self) -> f64 {
        self.trainer.rate()
    }

    /// All points are one batch, in the order of the grid.
    fn step(&mut self, _: &[usize], _: u32) -> veridical_nets::Result<Step> {
        let Self { trainer, targets, grid, .. } = self;
        let fill = |slot: &mut [f64]| slot.copy_from_slice(&grid.x);
        trainer.step(grid.x.len(), Target::Numbers(targets), Some(&grid.weights), fill)
    }

    fn evaluate(&mut self, _: &Job<'_>) -> veridical_nets::Result<Option<Evaluation>> {
        if self.epochs.iter().any(|&epoch| u64::from(epoch) == self.trainer.steps()) {
            self.seen.push((self.look)(self.trainer.net()));
        }
        Ok(None)
    }

    /// Nothing is kept of these trainings.
    fn learned(&self) -> Vec<(String, &[f32])> {
        Vec::new()
    }

    fn kept(&self) -> Vec<(String, &[f32])> {
        Vec::new()
    }

    fn resume(&mut self, _: TensorMap, _: u64) -> veridical_nets::Result<()> {
        Err(CoreError::Internal("a training on a grid is not kept".into()).into())
    }

    fn restore(&mut self, _: &TensorMap) -> bool {
        false
    }
}
