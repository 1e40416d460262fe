//! `veridical train text`

use veridical::Result;
use veridical::core::settings::SettingsLayer;
use veridical::net::text::{self, TrainText};

use super::net::report;
use crate::terminal::Terminal;

pub const ABOUT: &str = "\
Train a bidirectional recurrent network to classify documents, and write it to a run folder.

The documents are rows of a table with a text column and a label column. Word embeddings are learned with the
network, or loaded from --vectors (any table or run with words as ids) and kept fixed unless --train-vectors
fine-tunes them. They feed a bidirectional GRU or LSTM, a dense layer, and the output layer. The same seed gives
the same bytes for any number of threads; a killed run continues with --resume.";

pub const EXAMPLES: &str = "\
Examples:
  veridical train text --text reviews.csv --column text --label-column label --out runs/reviews
  veridical train text --text imdb.csv --split-column split --cell gru --hidden 32 --validation 0.1 \\
      --patience 5 --epochs 50 --out runs/imdb
  veridical train doc2vec --text imdb.csv --column text --dim 32 --out runs/words
  veridical train text --text imdb.csv --split-column split --vectors runs/words --out runs/fixed
  veridical evaluate --run runs/imdb
  veridical predict --run runs/imdb --text new.csv --out predictions.csv";

/// Trains a text model from layers of settings, highest priority first.
pub fn train(layers: Vec<SettingsLayer>, terminal: &Terminal) -> Result<()> {
    report(&text::train(&TrainText::new(layers)?, &terminal.job())?, terminal)
}
