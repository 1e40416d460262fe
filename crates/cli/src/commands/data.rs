//! `veridical data describe|split|generate|graph|embed`

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use serde::Serialize;
use serde_json::{Value, json};
use veridical::core::Seed;
use veridical::data::IfExists;
use veridical::data::generate::{CorpusSettings, ShopSettings};
use veridical::encoder::{EmbedSentences, embed_sentences};
use veridical::prepare::{
    self, BuildGraph, Description, Embed, GenerateImages, GenerateShop, GenerateText, GraphSource,
    Quantiles, Side,
};
use veridical::train::Options;
use veridical::{Error, Result};

use crate::terminal::Terminal;
use crate::training::{GroupArgs, ReadingArgs, SplitArgs, TableArgs, values};

const EXAMPLES: &str = "\
Examples:
  veridical data generate shop --users 500 --items 200 --out shop
  veridical data describe --interactions ratings.dat
  veridical data split --interactions ratings.dat --split per-user:50 --out parts
  veridical data graph --interactions ratings.dat --labels movies.dat --out genres.csv
  veridical data graph --interactions ratings.dat --vectors side.parquet --k 10 --out edges.csv
  veridical data embed --run runs/reviews --text new.csv --column text --out vectors.parquet
  veridical data embed --encoder all-MiniLM-L6-v2/ --text reviews.csv --column text --out v.parquet";

const EMBED_EXAMPLES: &str = "\
Examples:
  veridical data embed --encoder all-MiniLM-L6-v2/ --text reviews.csv --column text --out v.parquet
  veridical data embed --encoder all-MiniLM-L6-v2/ --text pages.txt --max-length 128 --out pages.parquet
  veridical data embed --run runs/reviews --text new.csv --column text --out vectors.parquet

The folder of an encoder is the one that sentence-transformers saves: a BERT (MiniLM, bge, e5, gte) with mean or cls pooling.
Vectors are those of sentence-transformers to within rounding. A killed job goes on with --resume.";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Command {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Sum interactions or documents up: counts, ratings, times.
    Describe(DescribeArgs),
    /// Divide interactions and write every part to a file.
    Split(PartsArgs),
    /// Make data with planted truth.
    Generate(GenerateArgs),
    /// Build a graph among users or items, for SSE-Graph.
    Graph(GraphArgs),
    /// Turn documents into vectors by a pretrained encoder or a doc2vec run.
    #[command(after_help = EMBED_EXAMPLES)]
    Embed(EmbedArgs),
}

#[derive(Args, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct DescribeArgs {
    /// Who did what: a file or a folder
    #[arg(long, value_name = "FILE", required_unless_present = "text", conflicts_with = "text")]
    interactions: Option<PathBuf>,
    /// Documents: a file or a folder
    #[arg(long, value_name = "FILE")]
    text: Option<PathBuf>,
    #[command(flatten)]
    #[serde(flatten)]
    reading: ReadingArgs,
}

#[derive(Args, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct PartsArgs {
    /// Who did what: a file or a folder
    #[arg(long, value_name = "FILE")]
    interactions: PathBuf,
    #[command(flatten)]
    #[serde(skip)]
    out: FolderArgs,
    #[command(flatten, next_help_heading = "Reading")]
    #[serde(flatten)]
    table: TableArgs,
    #[command(flatten)]
    #[serde(flatten)]
    split: SplitArgs,
}

/// A folder of tables.
#[derive(Args, Clone, Debug)]
struct FolderArgs {
    /// Folder to write to
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
    /// Format of the files
    #[arg(long, value_enum, default_value = "csv")]
    format: FormatArg,
    /// Replace files that are there
    #[arg(long)]
    force: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum FormatArg {
    Csv,
    Tsv,
    Parquet,
}

impl FormatArg {
    const fn ending(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Tsv => "tsv",
            Self::Parquet => "parquet",
        }
    }
}

#[derive(Args, Debug)]
struct GenerateArgs {
    /// What to make
    #[arg(value_enum)]
    what: Generate,
    #[command(flatten)]
    out: FolderArgs,
    /// Seed
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Users of the shop
    #[arg(long, value_name = "N", default_value_t = 1000)]
    users: usize,
    /// Items of the shop
    #[arg(long, value_name = "N", default_value_t = 500)]
    items: usize,
    /// Clusters of taste in the shop
    #[arg(long, value_name = "N", default_value_t = 8)]
    clusters: usize,
    /// Items of every user of the shop
    #[arg(long, value_name = "N", default_value_t = 30)]
    per_user: usize,
    /// How uneven popularity is inside a cluster: the exponent of Zipf's law
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    skew: f64,
    /// Documents
    #[arg(long, value_name = "N", default_value_t = 500)]
    docs: usize,
    /// Topics of documents
    #[arg(long, value_name = "N", default_value_t = 5)]
    topics: usize,
    /// Words of a topic, and as many that are common to all
    #[arg(long, value_name = "N", default_value_t = 100)]
    words: usize,
    /// Words of a document
    #[arg(long, value_name = "N", default_value_t = 50)]
    length: usize,
    /// Images to learn from
    #[arg(long, value_name = "N", default_value_t = 2000)]
    images: usize,
    /// Images to test on
    #[arg(long, value_name = "N", default_value_t = 500)]
    test_images: usize,
    /// Pixels of a side of an image
    #[arg(long, value_name = "N", default_value_t = 16)]
    size: usize,
    /// Values of a pixel: 1 for grey, 3 for colours
    #[arg(long, value_name = "N", default_value_t = 1)]
    channels: usize,
    /// Classes of images
    #[arg(long, value_name = "N", default_value_t = 5)]
    classes: usize,
    /// Share of choices that do not follow the taste, or of words common to all topics
    #[arg(long, value_name = "SHARE", default_value_t = 0.1)]
    noise: f64,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Generate {
    /// Users and items of latent clusters, with ratings and times: interactions, items, users
    Shop,
    /// Documents of latent topics: documents, topics
    Text,
    /// Images of classes that differ by their patterns: idx files, as MNIST has them
    Images,
}

#[derive(Args, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct GraphArgs {
    /// The interactions whose users or items are the nodes
    #[arg(long, value_name = "FILE")]
    interactions: PathBuf,
    /// Whose graph
    #[arg(long, value_enum, default_value = "item")]
    #[serde(skip)]
    of: SideArg,
    /// Neighbours share a label: genre, cast, age group
    #[arg(long, value_name = "FILE", group = "source", required = true)]
    #[serde(skip)]
    labels: Option<PathBuf>,
    /// Neighbours by a list of edges
    #[arg(long, value_name = "FILE", group = "source", required = true)]
    #[serde(skip)]
    edges: Option<PathBuf>,
    /// Neighbours are the nearest by cosine of these vectors
    #[arg(long, value_name = "TABLE", group = "source", required = true)]
    #[serde(skip)]
    vectors: Option<PathBuf>,
    /// Nearest neighbours of each
    #[arg(long, value_name = "K", default_value_t = 10, requires = "vectors")]
    #[serde(skip)]
    k: usize,
    /// File to write: .csv, .tsv, .parquet or .jsonl
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    out: PathBuf,
    /// Replace a file that is there
    #[arg(long)]
    #[serde(skip)]
    force: bool,
    #[command(flatten, next_help_heading = "Reading")]
    #[serde(flatten)]
    table: TableArgs,
    #[command(flatten)]
    #[serde(flatten)]
    groups: GroupArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum SideArg {
    User,
    Item,
}

#[derive(Args, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
#[command(group = ArgGroup::new("by").required(true).args(["encoder", "run"]))]
struct EmbedArgs {
    /// Folder of a pretrained sentence encoder, as sentence-transformers saves it
    #[arg(long, value_name = "FOLDER")]
    #[serde(skip)]
    encoder: Option<PathBuf>,
    /// Run of doc2vec
    #[arg(long, value_name = "RUN")]
    #[serde(skip)]
    run: Option<PathBuf>,
    /// Documents: a file or a folder
    #[arg(long, value_name = "FILE")]
    text: PathBuf,
    /// Column of the documents [default: that of the run, or by its name]
    #[arg(long, value_name = "NAME")]
    column: Option<String>,
    /// Column of their ids [default: that of the run, or by its name]
    #[arg(long, value_name = "NAME")]
    id_column: Option<String>,
    /// Encoding of text files [default: utf-8]
    #[arg(long, value_name = "NAME")]
    encoding: Option<String>,
    /// Table to write
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    out: PathBuf,
    /// Replace a table that is there
    #[arg(long)]
    #[serde(skip)]
    force: bool,
    /// Continue an unfinished job from OUT.partial
    #[arg(long, requires = "encoder", conflicts_with = "force", help_heading = "Encoder")]
    #[serde(skip)]
    resume: bool,
    /// Cut texts after so many tokens [default: what the encoder was made for]
    #[arg(long, value_name = "N", requires = "encoder", help_heading = "Encoder")]
    #[serde(skip)]
    max_length: Option<usize>,
    /// Texts that go through the network together, at most
    #[arg(
        long,
        value_name = "N",
        default_value_t = 64,
        requires = "encoder",
        help_heading = "Encoder"
    )]
    #[serde(skip)]
    batch: usize,
    /// Mebibytes that a batch may take
    #[arg(
        long,
        value_name = "MIB",
        default_value_t = 512,
        requires = "encoder",
        help_heading = "Encoder"
    )]
    #[serde(skip)]
    memory: usize,
}

impl Command {
    pub fn run(self, terminal: &Terminal) -> Result<()> {
        match self.action {
            Action::Describe(args) => {
                let description = prepare::describe(&options(&args)?, terminal)?;
                let result = json!({ "action": "describe", "result": description });
                terminal.result("data", &result, &described(&description))
            }
            Action::Split(args) => {
                let FolderArgs { out, format, force } = args.out.clone();
                let options = options(&args)?;
                let written = prepare::split(&options, &out, format.ending(), force, terminal)?;
                let rows = &written.split["rows"];
                let text = format!(
                    "{} to learn from, {} to validate, {} to test, written to {}\n",
                    rows["train"], rows["validation"], rows["test"], written.out
                );
                terminal.result("data", &json!({ "action": "split", "result": written }), &text)
            }
            Action::Generate(args) => generate(args, terminal),
            Action::Graph(args) => graph(args, terminal),
            Action::Embed(args) => embed(args, terminal),
        }
    }
}

fn options(args: &impl Serialize) -> Result<Options> {
    let mut given = values(args);
    given.retain(|_, value| !value.is_null());
    serde_json::from_value(Value::Object(given)).map_err(|e| Error::Usage(e.to_string()))
}

fn generate(args: GenerateArgs, terminal: &Terminal) -> Result<()> {
    let FolderArgs { out, format, force } = args.out;
    let (format, seed) = (format.ending().to_owned(), Seed::new(args.seed)?);
    let folder = out.display().to_string();
    let (generated, next) = match args.what {
        Generate::Shop => {
            let GenerateArgs { users, items, clusters, per_user, skew, noise, .. } = args;
            let settings = ShopSettings { users, items, clusters, per_user, skew, noise, seed };
            let done = prepare::shop(&GenerateShop { settings, out, format, force })?;
            let next = format!("train bpr --split leave-last-one --interactions {}", done.files[0]);
            (done, next)
        }
        Generate::Text => {
            let GenerateArgs { docs, topics, words, length, noise, .. } = args;
            let settings = CorpusSettings { docs, topics, words, length, noise, seed };
            let done = prepare::text(&GenerateText { settings, out, format, force })?;
            let next = format!("train doc2vec --column text --text {}", done.files[0]);
            (done, next)
        }
        Generate::Images => {
            let GenerateArgs { images, test_images, size, channels, classes, .. } = args;
            let done = prepare::images(&GenerateImages {
                images,
                test_images,
                size,
                channels,
                classes,
                seed,
                out,
                force,
            })?;
            (done, format!("train net --model cnn-small --data {folder}"))
        }
    };
    let text = format!("{} rows\n{}\n", generated.rows, generated.files.join("\n"));
    terminal.result("data", &json!({ "action": "generate", "result": generated }), &text)?;
    terminal.next(&format!("veridical {next}"));
    Ok(())
}

fn embed(args: EmbedArgs, terminal: &Terminal) -> Result<()> {
    let options = options(&args)?;
    let (rows, dim, out, result) = match (args.encoder, args.run) {
        (Some(encoder), _) => {
            let if_exists = match (args.resume, args.force) {
                (true, _) => IfExists::Resume,
                (_, true) => IfExists::Force,
                _ => IfExists::Refuse,
            };
            let EmbedArgs { out, batch, max_length, memory, .. } = args;
            let settings =
                EmbedSentences { encoder, options, out, if_exists, batch, max_length, memory };
            let done = embed_sentences(&settings, terminal)?;
            (done.rows, done.dim, done.out.clone(), json!(done))
        }
        (_, Some(run)) => {
            let settings = Embed { run, options, out: args.out, force: args.force };
            let done = prepare::embed(&settings, terminal)?;
            (done.rows, done.dim, done.out.clone(), json!(done))
        }
        _ => return Err(Error::Usage("give one of --encoder and --run".into())),
    };
    let text = format!("{rows} vectors of {dim} values, written to {out}\n");
    terminal.result("data", &json!({ "action": "embed", "result": result }), &text)?;
    terminal.next(&format!("veridical vectors head {out}"));
    Ok(())
}

fn graph(args: GraphArgs, terminal: &Terminal) -> Result<()> {
    let options = options(&args)?;
    let source = match (args.labels, args.edges, args.vectors) {
        (Some(labels), _, _) => GraphSource::Labels(labels),
        (_, Some(edges), _) => GraphSource::Edges(edges),
        (_, _, Some(vectors)) => GraphSource::Nearest { vectors, k: args.k },
        _ => return Err(Error::Usage("give one of --labels, --edges and --vectors".into())),
    };
    let side = match args.of {
        SideArg::User => Side::User,
        SideArg::Item => Side::Item,
    };
    let interactions = args.interactions.display().to_string();
    let settings = BuildGraph { options, side, source, out: args.out, force: args.force };
    let built = prepare::graph(&settings, terminal)?;
    let summary = &built.summary;
    let groups = summary.groups.map_or(String::new(), |n| format!(" in {n} groups"));
    let text = format!(
        "{} nodes{groups}, {} edges, {:.1} neighbours on average, {} nodes without any, written to {}\n",
        summary.nodes, summary.edges, summary.mean_degree, summary.isolated, built.out
    );
    terminal.result("data", &json!({ "action": "graph", "result": built }), &text)?;
    let (flag, out) = (&built.flag, &built.out);
    let p = flag.rsplit('-').next().unwrap_or("item");
    terminal.next(&format!(
        "veridical train bpr --interactions {interactions} {flag} {out} --sse-{p} 0.01"
    ));
    Ok(())
}

fn described(description: &Description) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<17} {value}"); // writing to a String cannot fail
    };
    let spread = |q: &Quantiles| {
        let Quantiles { min, median, mean, quantile_95, max } = q;
        format!("min {min}, median {median}, mean {mean:.2}, 95 % {quantile_95:.1}, max {max}")
    };
    match description {
        Description::Interactions {
            rows,
            users,
            items,
            density,
            repeated,
            per_user,
            per_item,
            ratings,
            times,
            fingerprint,
        } => {
            line("rows", rows.to_string());
            line("users", users.to_string());
            line("items", items.to_string());
            line("density", format!("{:.3} %", 100.0 * density));
            line("repeated pairs", repeated.to_string());
            line("rows per user", spread(per_user));
            line("rows per item", spread(per_item));
            line("ratings", ratings.as_ref().map_or("none".into(), spread));
            line(
                "times",
                times.map_or("none".into(), |[first, last]| format!("{first} to {last}")),
            );
            line("fingerprint", fingerprint.clone());
        }
        Description::Documents {
            documents,
            empty,
            words,
            tokens,
            per_document,
            frequent,
            fingerprint,
        } => {
            line("documents", format!("{documents}, {empty} of them empty"));
            line("vocabulary", format!("{words} words: {}, ...", frequent.join(", ")));
            line("words", tokens.to_string());
            line("words per doc", spread(per_document));
            line("fingerprint", fingerprint.clone());
        }
    }
    text
}
