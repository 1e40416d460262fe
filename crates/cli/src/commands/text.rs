//! `veridical train text`

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use serde_json::{Map, Value};
use veridical::net::text::{self, METHOD, TextRequest, TrainText};
use veridical::{Error, Result};

use super::net::{StartArgs, StoppingArgs, layers, number, report};
use crate::terminal::Terminal;
use crate::training::{OutputArgs, is_unset, values};

pub const ABOUT: &str = "\
Tell documents apart by a recurrent network that reads their words in both directions, into a run folder.

The documents are rows of a table with a column of text and one of labels. Vectors of words are learnt with the
network, or taken from --vectors (any table or run with words for ids) and kept as they are unless
--train-vectors lets them move. Then come a GRU or LSTM in both directions, a dense layer, and the output. The
same seed gives the same bytes for any number of threads; a run that was killed goes on with --resume.";

const EXAMPLES: &str = "\
Examples:
  veridical train text --text reviews.csv --column text --label-column label --out runs/reviews
  veridical train text --text imdb.csv --split-column split --cell gru --hidden 32 --validation 0.1 \\
      --patience 5 --epochs 50 --lr 1e-4 --weight-decay 1e-4 --out runs/imdb
  veridical train doc2vec --text imdb.csv --column text --dim 32 --out runs/words
  veridical train text --text imdb.csv --split-column split --vectors runs/words --out runs/fixed
  veridical evaluate --run runs/imdb
  veridical predict --run runs/imdb --text new.csv --out predictions.csv";

/// Everything about a network that reads text.
#[derive(Args, Clone, Debug, Serialize)]
#[command(after_help = EXAMPLES)]
#[serde(rename_all = "kebab-case")]
pub struct TextArgs {
    #[command(flatten)]
    #[serde(flatten)]
    data: DataArgs,
    #[command(flatten)]
    #[serde(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    #[serde(flatten)]
    training: TrainingArgs,
    #[command(flatten)]
    #[serde(flatten)]
    stopping: StoppingArgs,
    #[command(flatten)]
    #[serde(skip)]
    start: StartArgs,
    /// Seed of everything that is drawn while training, 0 to 2^53 - 1 [default: 0]
    #[arg(long, value_name = "S", help_heading = "Output")]
    seed: Option<u64>,
}

#[derive(Args, Clone, Debug, Serialize)]
#[command(next_help_heading = "Documents")]
#[serde(rename_all = "kebab-case")]
struct DataArgs {
    /// A table of documents with labels: CSV, TSV, Parquet, also compressed
    #[arg(long, value_name = "FILE")]
    text: Option<PathBuf>,
    /// Column of the documents [default: `text`, or a usual name]
    #[arg(long, value_name = "NAME")]
    column: Option<String>,
    /// Column of the labels [default: `label`, or a usual name]
    #[arg(long, value_name = "NAME")]
    label_column: Option<String>,
    /// Column of the ids of documents [default: `id`, or the number of the row]
    #[arg(long, value_name = "NAME")]
    id_column: Option<String>,
    /// Column that says train, validation or test
    #[arg(long, value_name = "NAME")]
    split_column: Option<String>,
    /// Share of the documents to test on, if no column says [default: 0.1]
    #[arg(long, value_name = "SHARE", value_parser = number, allow_negative_numbers = true)]
    test_share: Option<f64>,
    /// Share of the documents to learn from that is kept back to judge on while training [default: 0]
    #[arg(long, value_name = "SHARE", value_parser = number, allow_negative_numbers = true)]
    validation: Option<f64>,
    /// Seed of both shares, apart from --seed [default: 0]
    #[arg(long, value_name = "S")]
    split_seed: Option<u64>,
    /// Leave out words that occur less often in the documents to learn from [default: 5]
    #[arg(long, value_name = "N")]
    min_count: Option<u64>,
    /// Read the first N known words of a document [default: 256]
    #[arg(long, value_name = "N")]
    max_length: Option<usize>,
    /// Encoding of text files [default: utf-8]
    #[arg(long, value_name = "NAME")]
    encoding: Option<String>,
    /// The first line is data; columns are called 0, 1, 2, ...
    #[arg(long)]
    #[serde(skip_serializing_if = "is_unset")]
    no_header: bool,
}

#[derive(Args, Clone, Debug, Serialize)]
#[command(next_help_heading = "Model")]
#[serde(rename_all = "kebab-case")]
struct ModelArgs {
    /// Vectors of words: a table, or a run that has some; words without one get zeros
    #[arg(long, value_name = "FILE_OR_RUN")]
    vectors: Option<PathBuf>,
    /// Let the vectors of --vectors move
    #[arg(long)]
    #[serde(skip_serializing_if = "is_unset")]
    train_vectors: bool,
    /// Values of a word's vector [default: 64, or those of --vectors]
    #[arg(long, value_name = "N")]
    dim: Option<usize>,
    /// gru or lstm [default: lstm]
    #[arg(long, value_name = "NAME", value_parser = ["gru", "lstm"], hide_possible_values = true)]
    cell: Option<String>,
    /// State of the cell in each direction [default: 32]
    #[arg(long, value_name = "N")]
    hidden: Option<usize>,
    /// Units of the dense layer [default: as --hidden]
    #[arg(long, value_name = "N")]
    dense: Option<usize>,
    /// Leave out values of vectors and of the dense layer with this probability [default: 0]
    #[arg(long, value_name = "P", value_parser = number, allow_negative_numbers = true)]
    dropout: Option<f64>,
}

#[derive(Args, Clone, Debug, Serialize)]
#[command(next_help_heading = "Training")]
#[serde(rename_all = "kebab-case")]
struct TrainingArgs {
    /// Passes over the documents [default: 10]
    #[arg(long, value_name = "N")]
    epochs: Option<u32>,
    /// Documents of a step [default: 64]
    #[arg(long, value_name = "N")]
    batch: Option<usize>,
    /// Learning rate of Adam [default: 0.001]
    #[arg(long, value_name = "X", value_parser = number, allow_negative_numbers = true)]
    lr: Option<f64>,
    /// Weight decay, also of vectors that move [default: 0]
    #[arg(long, value_name = "X", value_parser = number, allow_negative_numbers = true)]
    weight_decay: Option<f64>,
    /// Scale gradients of the network of a larger norm down to it
    #[arg(long, value_name = "NORM", value_parser = number, allow_negative_numbers = true)]
    clip: Option<f64>,
}

impl TextArgs {
    pub fn run(self, terminal: &Terminal) -> Result<()> {
        let given = values(&self);
        let StartArgs { seeds, from, config, output } = self.start;
        train(given, seeds, from.as_deref(), config.as_deref(), &output, terminal)
    }
}

/// Trains with the flags that were given, over `--config` and `--from`.
pub fn train(
    given: Map<String, Value>,
    seeds: Option<u64>,
    from: Option<&Path>,
    config: Option<&Path>,
    output: &OutputArgs,
    terminal: &Terminal,
) -> Result<()> {
    let earlier = |from: &Path| match text::is_text(from) {
        true => text::layer_of(from),
        false => {
            let what = "is no run that reads text; name one, or its run.json";
            Err(Error::Usage(format!("--from {} {what}", from.display())))
        }
    };
    let settings = TrainText {
        request: TextRequest::new(&layers(given, config, from, earlier)?)?,
        out: output.out(METHOD),
        seeds,
        if_exists: output.if_exists(),
    };
    report(&text::train(&settings, terminal)?, terminal)
}
