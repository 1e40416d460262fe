//! `veridical train text`

use veridical::Result;
use veridical::core::settings::Layer;
use veridical::net::text::{self, TrainText};

use super::net::report;
use crate::terminal::Terminal;

pub const ABOUT: &str = "\
Tell documents apart by a recurrent network that reads their words in both directions, into a run folder.

The documents are rows of a table with a column of text and one of labels. Vectors of words are learnt with the
network, or taken from --vectors (any table or run with words for ids) and kept as they are unless
--train-vectors lets them move. Then come a GRU or LSTM in both directions, a dense layer, and the output. The
same seed gives the same bytes for any number of threads; a run that was killed goes on with --resume.";

pub const EXAMPLES: &str = "\
Examples:
  veridical train text --text reviews.csv --column text --label-column label --out runs/reviews
  veridical train text --text imdb.csv --split-column split --cell gru --hidden 32 --validation 0.1 \\
      --patience 5 --epochs 50 --lr 1e-4 --weight-decay 1e-4 --out runs/imdb
  veridical train doc2vec --text imdb.csv --column text --dim 32 --out runs/words
  veridical train text --text imdb.csv --split-column split --vectors runs/words --out runs/fixed
  veridical evaluate --run runs/imdb
  veridical predict --run runs/imdb --text new.csv --out predictions.csv";

/// Trains with what was given, the strongest first.
pub fn train(layers: Vec<Layer>, terminal: &Terminal) -> Result<()> {
    report(&text::train(&TrainText::new(layers)?, &terminal.job())?, terminal)
}
