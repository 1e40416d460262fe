//! `veridical train text`

use veridical::Result;
use veridical::core::Job;
use veridical::core::settings::SettingsLayer;
use veridical::net::text::{self, TrainText};

use super::net::report;
use crate::terminal::Terminal;

pub const ABOUT: &str = "\
Train a classifier of documents, and write it to a run folder.

The documents are rows of a table with a text column and a label column. --model tfidf, the default, is a logistic
regression on words and pairs of adjacent words with sublinear TF-IDF weights; cross-validation on the training
documents chooses its penalty. It takes seconds and is hard to beat with a few thousand documents. --model rnn is a
bidirectional GRU or LSTM on word embeddings, which are learned with it or loaded from --vectors (any table or run
with words as ids) and kept fixed unless --train-vectors fine-tunes them; with a validation part it keeps its best
epoch. `evaluate` prints the baselines beside either. The same seed gives the same bytes for any number of threads;
a killed run continues with --resume.";

pub const EXAMPLES: &str = "\
Examples:
  veridical train text --text reviews.csv --column text --label-column label --out runs/reviews
  veridical evaluate --run runs/reviews
  veridical predict --run runs/reviews --text new.csv --out predictions.csv
  veridical train text --model rnn --text imdb.csv --split-column split --cell gru --hidden 32 --validation 0.1 \\
      --patience 5 --epochs 50 --out runs/rnn
  veridical train doc2vec --text imdb.csv --column text --dim 32 --out runs/words
  veridical train text --model rnn --text imdb.csv --split-column split --vectors runs/words --out runs/fixed";

/// Trains a text model from layers of settings, highest priority first.
pub fn train(layers: Vec<SettingsLayer>, job: &Job<'_>, terminal: &Terminal) -> Result<()> {
    report(&text::train(&TrainText::new(layers)?, job)?, terminal)
}
