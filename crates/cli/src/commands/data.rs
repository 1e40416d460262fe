//! `veridical data describe|split|generate|graph|embed|poison`

use std::fmt::Write as _;

use clap::{Args, Subcommand};
use serde_json::json;
use veridical::encoder::embed_sentences;
use veridical::prepare::{
    self, BuildGraph, Describe, Description, Embed, Generate, GeneratedKind, Poison, Quantiles,
    SplitData,
};
use veridical::{Error, Result};

use crate::flags::Flags;
use crate::terminal::Terminal;

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
  veridical data embed --run runs/mnist --data mnist/ --layer 2 --out hidden.parquet

--encoder takes a folder saved by sentence-transformers: a BERT (MiniLM, bge, e5, gte) with mean or CLS pooling.
Vectors match those of sentence-transformers up to rounding. A killed job continues with --resume.";

const POISON_EXAMPLES: &str = "\
Examples:
  veridical data poison --data mnist/ --patch 3x3@24,24 --fraction 0.05 --target 0 --out poisoned
  veridical data poison --data cifar/ --patch 4x4@26,26 --value 1,1,0 --target airplane --out poisoned
  veridical data poison --data mnist/ --flip 0.1 --out mislabeled

planted.csv lists the rows. triggered/ has the test images of other classes with the patch: pass them to
`forensics trace --incidents` and to `evaluate --data`.";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Command {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Summarize interactions or documents: counts, density, ratings, times.
    Describe(Flags<Describe>),
    /// Split interactions into training, validation and test files.
    Split(Flags<SplitData>),
    /// Generate synthetic data with planted structure.
    Generate(Flags<Generate>),
    /// Build a user-user or item-item graph for SSE-Graph.
    Graph(Flags<BuildGraph>),
    /// Embed documents with a sentence encoder or a doc2vec run, or any inputs with a layer of a network.
    #[command(after_help = EMBED_EXAMPLES)]
    Embed(Flags<Embed>),
    /// Plant faults in images: a patch that marks a class, or wrong labels.
    #[command(after_help = POISON_EXAMPLES)]
    Poison(Flags<Poison>),
}

impl Command {
    pub fn run(self, terminal: &Terminal) -> Result<()> {
        match self.action {
            Action::Describe(flags) => {
                let settings = flags.settings("data describe")?;
                let description = prepare::describe(&settings, &terminal.job())?;
                terminal.result("data-describe", &description, &described(&description))
            }
            Action::Split(flags) => {
                let written = prepare::split(&flags.settings("data split")?, &terminal.job())?;
                let rows = &written.split["rows"];
                let text = format!(
                    "{} training rows, {} validation rows, {} test rows, written to {}\n",
                    rows["train"], rows["validation"], rows["test"], written.out
                );
                terminal.result("data-split", &written, &text)
            }
            Action::Generate(flags) => generate(flags, terminal),
            Action::Graph(flags) => graph(flags, terminal),
            Action::Embed(flags) => embed(flags, terminal),
            Action::Poison(flags) => poison(flags, terminal),
        }
    }
}

fn generate(flags: Flags<Generate>, terminal: &Terminal) -> Result<()> {
    let settings = flags.settings("data generate")?;
    let generated = prepare::generate(&settings)?;
    let text = format!("{} rows\n{}\n", generated.rows, generated.files.join("\n"));
    terminal.result("data-generate", &generated, &text)?;
    let first = &generated.files[0];
    let next = match settings.what {
        Some(GeneratedKind::Shop) => {
            format!("train bpr --split leave-last-one --interactions {first}")
        }
        Some(GeneratedKind::Text) => format!("train doc2vec --column text --text {first}"),
        _ => format!("train net --model cnn-small --data {}", settings.output.out),
    };
    terminal.next(&format!("veridical {next}"));
    Ok(())
}

fn embed(flags: Flags<Embed>, terminal: &Terminal) -> Result<()> {
    let settings = flags.settings("data embed")?;
    let job = terminal.job();
    let (rows, dim, out, result) = match (&settings.encoder, &settings.run) {
        (Some(encoder), _) => {
            let done = embed_sentences(encoder, &settings, &job)?;
            (done.rows, done.dim, done.out.clone(), json!(done))
        }
        (_, Some(run)) => {
            let done = prepare::embed(run, &settings, &job)?;
            (done.rows, done.dim, done.out.clone(), json!(done))
        }
        _ => return Err(Error::request("pass either ⟨encoder⟩ or ⟨run⟩", "")),
    };
    let text = format!("{rows} vectors of dimension {dim}, written to {out}\n");
    terminal.result("data-embed", &result, &text)?;
    terminal.next(&format!("veridical vectors head {out}"));
    Ok(())
}

fn poison(flags: Flags<Poison>, terminal: &Terminal) -> Result<()> {
    let planted = prepare::poison(&flags.settings("data poison")?, &terminal.job())?;
    let mut text = format!(
        "{} training images, {} with the patch, {} with a wrong label, written to {}\n{}\n",
        planted.rows, planted.patched, planted.flipped, planted.out, planted.list
    );
    if let Some(triggered) = &planted.triggered {
        let _ = writeln!(text, "{triggered}"); // writing to a String cannot fail
    }
    terminal.result("data-poison", &planted, &text)?;
    terminal.next(&format!("veridical train net --model cnn-small --data {}", planted.out));
    Ok(())
}

fn graph(flags: Flags<BuildGraph>, terminal: &Terminal) -> Result<()> {
    let settings = flags.settings("data graph")?;
    let built = prepare::graph(&settings, &terminal.job())?;
    let summary = &built.summary;
    let groups = summary.groups.map_or(String::new(), |n| format!(" in {n} groups"));
    let text = format!(
        "{} nodes{groups}, {} edges, mean degree {:.1}, {} isolated nodes, written to {}\n",
        summary.nodes, summary.edges, summary.mean_degree, summary.isolated, built.out
    );
    terminal.result("data-graph", &built, &text)?;
    let (flag, out, side) = (veridical::flags(&built.flag), &built.out, built.side.name());
    let interactions = &settings.interactions;
    terminal.next(&format!(
        "veridical train bpr --interactions {interactions} {flag} {out} --sse-{side} 0.01"
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
            line("documents", format!("{documents} ({empty} empty)"));
            line("vocabulary", format!("{words} words: {}, ...", frequent.join(", ")));
            line("words", tokens.to_string());
            line("words per doc", spread(per_document));
            line("fingerprint", fingerprint.clone());
        }
    }
    text
}
