//! `veridical train classifier`

use veridical::Result;
use veridical::core::Job;
use veridical::core::settings::SettingsLayer;
use veridical::net::classifier::{self, TrainClassifier};

use super::net::report;
use crate::terminal::Terminal;

pub const ABOUT: &str = "\
Train a classifier of vectors, and write it to a run folder.

The vectors are a vector table or a run, the labels a table with their ids and classes. --model logistic, the default, is a
logistic regression on centered vectors; knn lets the nearest rows vote; phi is a logistic regression on random Fourier
features, with the spec --phi; mlp:N is a network with N hidden units, trained as by `train net`. Penalty, number of neighbors
and output dim are chosen by cross-validation on the training rows. `evaluate` prints the baselines beside it.";

pub const EXAMPLES: &str = "\
Examples:
  veridical train classifier --vectors runs/i2v --labels items.csv --out runs/genres
  veridical evaluate --run runs/genres
  veridical predict --run runs/genres --vectors new.parquet --out predictions.csv
  veridical train classifier --model phi --phi spec.json --grid output-dim=32,64,128 --vectors v.parquet \\
      --labels labels.csv --out runs/phi
  veridical train classifier --model mlp:64 --vectors v.npy --labels labels.csv --out runs/mlp";

/// Trains a classifier from layers of settings, highest priority first.
pub fn train(layers: Vec<SettingsLayer>, job: &Job<'_>, terminal: &Terminal) -> Result<()> {
    report(&classifier::train(&TrainClassifier::new(layers)?, job)?, terminal)
}
