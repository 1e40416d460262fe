//! The one definition of verbs and flags; help, completions and man pages come from it.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use veridical::JobOptions;
use veridical::data::{Dtype, Format, IfExists, OnNan, ReadOptions, WriteOptions};

use crate::commands::{
    align, completions, data, demo, evaluate, featurize, man, predict, recommend, refit_head,
    refresh, reproduce, similar, stability, train, tune, vectors,
};
use crate::terminal::Terminal;

#[derive(Debug, Parser)]
#[command(name = "veridical", version, about = ABOUT, after_help = AFTER_HELP, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
    #[command(flatten)]
    pub common: Common,
}

const ABOUT: &str = "Veridical: learned representations you can trust.";

const AFTER_HELP: &str = "\
Examples:
  veridical demo --out demo
  veridical train bpr --interactions demo/shop/interactions.csv --split leave-last-one
  veridical evaluate --run runs/bpr
  veridical featurize apply demo/monday.parquet phi.parquet

Exit codes: 0 done, 1 a gate failed, 2 bad input or usage, 3 a bug, 130 interrupted (resumable).
`veridical VERB --help` explains a verb.";

/// Flags that every verb takes.
#[derive(Args, Debug)]
pub struct Common {
    /// Threads to use; all cores by default. Never changes a result, except of --mode hogwild.
    #[arg(long, global = true, value_name = "N")]
    pub threads: Option<usize>,
    /// Only results, warnings and errors.
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// Print the result as JSON.
    #[arg(long, global = true)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Learn embeddings from interactions or text, or a network from images or tables.
    #[command(long_about = train::ABOUT)]
    Train(Box<train::Command>),
    /// Choose settings by validation rows.
    #[command(long_about = tune::ABOUT)]
    Tune(Box<tune::Command>),
    /// Judge runs or vector tables on rows that were kept back.
    #[command(long_about = evaluate::ABOUT)]
    Evaluate(Box<evaluate::Command>),
    /// Write the best items of every user.
    #[command(long_about = recommend::ABOUT)]
    Recommend(recommend::Command),
    /// Show the neighbours of an id.
    Similar(similar::Command),
    /// Tell new documents apart.
    #[command(long_about = predict::ABOUT)]
    Predict(predict::Command),
    /// Solve for the last layer of a network.
    #[command(long_about = refit_head::ABOUT)]
    RefitHead(refit_head::Command),
    /// Say whether a refresh of vectors is safe to ship.
    #[command(long_about = stability::ABOUT)]
    Stability(Box<stability::Command>),
    /// Align, compare, gate, featurise and publish today's vectors.
    #[command(long_about = refresh::ABOUT)]
    Refresh(Box<refresh::Command>),
    /// Turn tables of other trainings into the frame of a reference.
    #[command(long_about = align::ABOUT)]
    Align(Box<align::Command>),
    /// Turn vectors into features whose inner products estimate a kernel.
    #[command(long_about = featurize::ABOUT)]
    Featurize(featurize::Command),
    /// Look at vector tables and convert them.
    Vectors(vectors::Command),
    /// Describe, divide and generate data, build graphs, embed documents.
    Data(Box<data::Command>),
    /// Train two days of embeddings and show what a refresh does.
    #[command(long_about = demo::ABOUT)]
    Demo(demo::Command),
    /// Run the experiments that check the papers' claims.
    Reproduce(reproduce::Command),
    /// Print a script that completes verbs and flags in a shell.
    #[command(long_about = completions::ABOUT)]
    Completions(completions::Command),
    /// Print a page of the manual, or write all of them to a folder.
    Man(man::Command),
}

impl Command {
    pub fn run(self, terminal: &Terminal) -> veridical::Result<()> {
        match self {
            Self::Train(command) => command.run(terminal),
            Self::Evaluate(command) => command.run(terminal),
            Self::Tune(command) => command.run(terminal),
            Self::Recommend(command) => command.run(terminal),
            Self::Similar(command) => command.run(terminal),
            Self::Predict(command) => command.run(terminal),
            Self::RefitHead(command) => command.run(terminal),
            Self::Refresh(command) => command.run(terminal),
            Self::Stability(command) => command.run(terminal),
            Self::Align(command) => command.run(terminal),
            Self::Featurize(command) => command.run(terminal),
            Self::Vectors(command) => command.run(terminal),
            Self::Data(command) => command.run(terminal),
            Self::Demo(command) => command.run(terminal),
            Self::Reproduce(command) => command.run(terminal),
            Self::Completions(command) => command.run(terminal),
            Self::Man(command) => command.run(terminal),
        }
    }
}

/// How a table is read.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Reading")]
pub struct ReadArgs {
    /// Format of the input [default: by its ending]
    #[arg(long, value_name = "FORMAT", value_parser = Format::NAMES)]
    input_format: Option<String>,
    /// Table of a run folder [default: item, or the first]
    #[arg(long, value_name = "NAME")]
    table: Option<String>,
    /// Column of the ids [default: `id`, or the only `*_id`]
    #[arg(long, value_name = "NAME")]
    id_column: Option<String>,
    /// Column of the vectors [default: the only list of floats]
    #[arg(long, value_name = "NAME")]
    vector_column: Option<String>,
    /// Tensor of a safetensors file or array of an npz file [default: `vectors`, or the only matrix of floats]
    #[arg(long, value_name = "NAME")]
    tensor: Option<String>,
    /// File that names the rows of a table without ids: one id per line, CSV or Parquet
    #[arg(long, value_name = "FILE")]
    ids: Option<PathBuf>,
    /// Read ids of CSV, TSV, word2vec and GloVe as text even if they look like integers
    #[arg(long)]
    text_ids: bool,
    /// The first line of CSV and TSV is data; columns are called 0, 1, 2, ...
    #[arg(long)]
    no_header: bool,
    /// Encoding of CSV, TSV, word2vec and GloVe [default: utf-8]
    #[arg(long, value_name = "NAME")]
    encoding: Option<String>,
    /// What to do with values that are NaN, infinite or missing
    #[arg(long, value_enum, value_name = "WHAT", default_value = "error")]
    on_nan: OnNanArg,
    /// Rows to read at once; never changes a result
    #[arg(long, value_name = "N")]
    chunk_rows: Option<usize>,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum OnNanArg {
    /// Stop and name the place
    #[default]
    Error,
    /// Leave the row out
    Skip,
    /// Put 0 in its place
    Zero,
}

impl ReadArgs {
    pub fn options(&self) -> ReadOptions {
        ReadOptions {
            input_format: self.input_format.as_deref().and_then(Format::from_name),
            table: self.table.clone(),
            id_column: self.id_column.clone(),
            vector_column: self.vector_column.clone(),
            tensor: self.tensor.clone(),
            keep_columns: Vec::new(),
            ids_file: self.ids.clone(),
            text_ids: self.text_ids,
            has_header: !self.no_header,
            encoding: self.encoding.clone(),
            on_nan: match self.on_nan {
                OnNanArg::Error => OnNan::Error,
                OnNanArg::Skip => OnNan::Skip,
                OnNanArg::Zero => OnNan::Zero,
            },
            chunk_rows: self.chunk_rows,
        }
    }
}

/// How a table is written.
#[derive(Args, Debug)]
#[command(next_help_heading = "Writing")]
pub struct WriteArgs {
    /// Columns to carry along, separated by commas
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    keep_columns: Vec<String>,
    /// Number type of the written vectors
    #[arg(long, value_enum, default_value = "f32")]
    dtype: DtypeArg,
    /// Write a folder of files with N rows each
    #[arg(long, value_name = "N")]
    rows_per_part: Option<u64>,
    /// Format of the files of a folder [default: parquet]
    #[arg(long, value_name = "FORMAT", requires = "rows_per_part", value_parser = Format::NAMES)]
    format: Option<String>,
    /// Compression of Parquet
    #[arg(long, value_enum, value_name = "WHAT", default_value = "none")]
    compression: CompressionArg,
    /// Write npy although it cannot hold the ids
    #[arg(long)]
    drop_ids: bool,
    /// Folder where an output for an object store grows [default: the user's cache]
    #[arg(long, value_name = "DIR")]
    staging: Option<PathBuf>,
    /// Continue an unfinished job from OUTPUT.partial
    #[arg(long, conflicts_with = "force")]
    resume: bool,
    /// Start over and replace what is there
    #[arg(long)]
    force: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DtypeArg {
    F32,
    F16,
    /// safetensors only
    Bf16,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum CompressionArg {
    None,
    Zstd,
}

impl WriteArgs {
    pub fn dtype(&self) -> Dtype {
        match self.dtype {
            DtypeArg::F32 => Dtype::F32,
            DtypeArg::F16 => Dtype::F16,
            DtypeArg::Bf16 => Dtype::Bf16,
        }
    }

    pub fn job(&self, read: &ReadArgs) -> JobOptions {
        let read = ReadOptions { keep_columns: self.keep_columns.clone(), ..read.options() };
        let format = self.format.as_deref().and_then(Format::from_name);
        let if_exists = match (self.resume, self.force) {
            (true, _) => IfExists::Resume,
            (_, true) => IfExists::Force,
            _ => IfExists::Refuse,
        };
        let write = WriteOptions {
            format,
            rows_per_part: self.rows_per_part,
            if_exists,
            zstd: self.compression == CompressionArg::Zstd,
            drop_ids: self.drop_ids,
            staging: self.staging.clone(),
        };
        JobOptions { read, write }
    }
}
