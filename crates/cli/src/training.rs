//! The flags that all methods of `train` and `tune` share.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_json::{Map, Value};
use veridical::data::IfExists;
use veridical::embed::Method;
use veridical::train::{Layer, Request};
use veridical::{Error, Result};

/// Everything besides the settings of a method.
#[derive(Args, Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Shared {
    #[command(flatten)]
    #[serde(flatten)]
    pub start: StartArgs,
    #[command(flatten)]
    #[serde(flatten)]
    reading: ReadingArgs,
    #[command(flatten)]
    #[serde(flatten)]
    split: SplitArgs,
    #[command(flatten)]
    #[serde(flatten)]
    stopping: StoppingArgs,
    #[command(flatten)]
    #[serde(flatten)]
    graphs: GraphArgs,
}

/// Where a run comes from and goes to.
#[derive(Args, Clone, Debug, Serialize)]
#[command(next_help_heading = "Data and output")]
#[serde(rename_all = "kebab-case")]
pub struct StartArgs {
    /// Who did what: CSV, TSV, MovieLens `::`, Parquet, RecBole .inter or scipy .npz, a file or a folder
    #[arg(long, value_name = "FILE")]
    interactions: Option<PathBuf>,
    /// Documents: a file with one per line, a table, or a folder of .txt files
    #[arg(long, value_name = "FILE")]
    text: Option<PathBuf>,
    /// Seed of everything that is drawn while training, 0 to 2^53 - 1 [default: 0]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Train N runs with the seeds S, S+1, ... into OUT/seed-S, OUT/seed-S+1, ...
    #[arg(long, value_name = "N")]
    #[serde(skip)]
    pub seeds: Option<u64>,
    /// Settings of an earlier run: every one that is not given here, and the data it was trained on
    #[arg(long, value_name = "RUN")]
    #[serde(skip)]
    pub from: Option<PathBuf>,
    /// TOML file with the names of flags
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    #[serde(skip)]
    pub output: OutputArgs,
}

/// Where a folder is written.
#[derive(Args, Clone, Debug)]
pub struct OutputArgs {
    /// Folder to write to [default: runs/METHOD]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Continue an unfinished run from its last checkpoint
    #[arg(long, conflicts_with = "force")]
    resume: bool,
    /// Start over and replace what is there
    #[arg(long)]
    force: bool,
}

impl OutputArgs {
    pub fn out(&self, default: &str) -> PathBuf {
        self.out.clone().unwrap_or_else(|| PathBuf::from("runs").join(default))
    }

    pub fn is_force(&self) -> bool {
        self.force
    }

    pub fn if_exists(&self) -> IfExists {
        match (self.resume, self.force) {
            (true, _) => IfExists::Resume,
            (_, true) => IfExists::Force,
            _ => IfExists::Refuse,
        }
    }
}

/// How data is read.
#[derive(Args, Clone, Debug, Serialize)]
#[command(next_help_heading = "Reading")]
#[serde(rename_all = "kebab-case")]
pub struct ReadingArgs {
    #[command(flatten)]
    #[serde(flatten)]
    pub table: TableArgs,
    /// Column of the documents [default: `text`, or the only one]
    #[arg(long, value_name = "NAME")]
    column: Option<String>,
    /// Column of the ids of documents [default: `id`, or the number of the row]
    #[arg(long, value_name = "NAME")]
    id_column: Option<String>,
    /// Leave out words that occur less often [default: 5]
    #[arg(long, value_name = "N")]
    min_count: Option<u64>,
}

/// How interactions are read.
#[derive(Args, Clone, Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct TableArgs {
    /// Columns by name or number [default: by their usual names]
    #[arg(long, value_name = "user=U,item=I,rating=R,time=T")]
    columns: Option<String>,
    /// Leave out rows with a smaller rating
    #[arg(long, value_name = "R", allow_negative_numbers = true)]
    min_rating: Option<f32>,
    /// Encoding of text files [default: utf-8]
    #[arg(long, value_name = "NAME")]
    encoding: Option<String>,
    /// The first line is data; columns are called 0, 1, 2, ...
    #[arg(long)]
    #[serde(skip_serializing_if = "is_unset")]
    no_header: bool,
    /// Read ids as text even if they look like integers
    #[arg(long)]
    #[serde(skip_serializing_if = "is_unset")]
    text_ids: bool,
}

/// What is kept back.
#[derive(Args, Clone, Debug, Default, Serialize)]
#[command(next_help_heading = "Split")]
#[serde(rename_all = "kebab-case")]
pub struct SplitArgs {
    /// none, random:SHARE, leave-last-one, per-user:N or temporal:SHARE [default: none]
    #[arg(long, value_name = "RULE")]
    split: Option<String>,
    /// Seed of the split, apart from --seed [default: 0]
    #[arg(long, value_name = "S")]
    split_seed: Option<u64>,
    /// Share of the training rows that is kept back to judge on while training [default: 0]
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true)]
    validation: Option<f64>,
    /// What to do with users that have too few rows for the split [default: error]
    #[arg(long, value_enum, value_name = "WHAT")]
    short_users: Option<ShortArg>,
}

#[derive(Clone, Copy, Debug, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
enum ShortArg {
    /// Stop and count them
    Error,
    /// Leave them out
    Drop,
}

#[derive(Args, Clone, Debug, Serialize)]
#[command(next_help_heading = "Early stopping")]
#[serde(rename_all = "kebab-case")]
struct StoppingArgs {
    /// Stop after N epochs without a better value on the validation rows, and keep the best model
    #[arg(long, value_name = "N")]
    patience: Option<u32>,
    /// Judge on the validation rows after every N epochs [default: 1]
    #[arg(long, value_name = "N")]
    eval_every: Option<u32>,
}

#[derive(Args, Clone, Debug, Serialize)]
#[command(next_help_heading = "Graphs and warm start")]
#[serde(rename_all = "kebab-case")]
struct GraphArgs {
    /// Edges among users: source, target and maybe weight
    #[arg(long, value_name = "FILE", visible_alias = "graph-user")]
    sse_graph_user: Option<PathBuf>,
    /// Edges among items
    #[arg(long, value_name = "FILE", visible_alias = "graph-item")]
    sse_graph_item: Option<PathBuf>,
    /// Edges among words
    #[arg(long, value_name = "FILE", visible_alias = "graph-word")]
    sse_graph_word: Option<PathBuf>,
    /// Labels of users: those that share one are neighbours
    #[arg(long, value_name = "FILE")]
    sse_groups_user: Option<PathBuf>,
    /// Labels of items, such as genres
    #[arg(long, value_name = "FILE")]
    sse_groups_item: Option<PathBuf>,
    /// Labels of words
    #[arg(long, value_name = "FILE")]
    sse_groups_word: Option<PathBuf>,
    #[command(flatten)]
    #[serde(flatten)]
    groups: GroupArgs,
    /// Warm start: vectors of an earlier run or a table; new ids start at their mean
    #[arg(long, value_name = "RUN_OR_TABLE")]
    init: Option<PathBuf>,
    /// Vectors of items that `two-tower` reads as they are: a run folder or a vector table
    #[arg(long, value_name = "RUN|TABLE")]
    item_vectors: Option<PathBuf>,
}

/// How labels are read.
#[derive(Args, Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct GroupArgs {
    /// Column of the labels, by name or number [default: the last]
    #[arg(long, value_name = "NAME")]
    groups_column: Option<String>,
    /// What stands between the labels of one id [default: |]
    #[arg(long, value_name = "TEXT")]
    groups_separator: Option<String>,
    /// The relation to take from triples (id, relation, entity)
    #[arg(long, value_name = "NAME")]
    groups_relation: Option<String>,
}

/// Flags as values by their names.
pub fn values(args: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(args) {
        Ok(Value::Object(map)) => map,
        _ => Map::new(), // arguments are structs
    }
}

impl StartArgs {
    /// What is asked for, from the command line, `--config` and `--from`; the method may come from the last.
    pub fn request(&self, method: Option<Method>, given: Map<String, Value>) -> Result<Request> {
        let mut layers = vec![Layer::given(given)];
        layers.extend(self.config.as_deref().map(Layer::toml).transpose()?);
        let from = self.from.as_deref().map(|from| Ok::<_, Error>((from, Layer::run(from)?)));
        let Some((from, (earlier, layer))) = from.transpose()? else {
            let named = method.ok_or_else(|| {
                Error::Usage("name a method, or settings of an earlier run with --from RUN".into())
            });
            return Request::new(named?, &layers);
        };
        if let Some(method) = method.filter(|method| *method != earlier) {
            let (from, before, now) = (from.display(), earlier.name(), method.name());
            return Err(Error::Usage(format!(
                "{from} is a run of {before}, whose settings {now} does not have"
            )));
        }
        layers.push(layer);
        Request::new(earlier, &layers)
    }
}

/// Whether a flag without a value was left out.
pub fn is_unset(flag: &bool) -> bool {
    !flag
}
