//! `veridical evaluate [ranking|ratings]`

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_json::Value;
use veridical::data::write_atomically;
use veridical::embed::{Method, Similarity};
use veridical::evaluate::{self, Evaluate, Evaluation, Judged, Models, What, shown};
use veridical::net::EvaluateNet;
use veridical::train::Options;
use veridical::{Error, Observer, Result, net};

use crate::commands::net::judged_text;
use crate::terminal::Terminal;
use crate::training::{SplitArgs, TableArgs, values};
use crate::typed::typed;

pub const ABOUT: &str = "\
Judge runs, or any pair of vector tables, on rows that were kept back.

A run is judged on exactly its own split. Rankings are judged under three protocols, side by side: among
all items the user has not trained on, among 100 items drawn uniformly, and among 100 drawn by popularity.
The last two flatter weak models; quote the first. Baselines are trained on the same rows.

A network is judged on the test part of its data, or of --data: accuracy with its interval and every class, or
the error of numbers; one that reads text, on its test documents. The runs of an ensemble count as one model, with the mean and deviation over seeds.";

const EXAMPLES: &str = "\
Examples:
  veridical evaluate --run runs/bpr
  veridical evaluate ranking --run runs/bpr runs/als --k 1,5,10 --html report.html
  veridical evaluate ratings --run runs/mf
  veridical evaluate --run runs/mnist --data mnist/ --html mnist.html
  veridical evaluate --users U.npy --items I.npy --interactions r.csv --split temporal:0.2";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Command {
    /// What to judge [default: what the method of the run is for]
    #[arg(value_enum)]
    what: Option<WhatArg>,
    /// Run folders or ensembles
    #[arg(long, value_name = "RUN", num_args = 1.., required_unless_present = "users",
          conflicts_with_all = ["users", "items", "split", "split_seed", "validation", "short_users",
                                "columns", "min_rating", "similarity"])]
    run: Vec<PathBuf>,
    /// Vectors of users
    #[arg(long, value_name = "TABLE", requires = "items")]
    users: Option<PathBuf>,
    /// Vectors of items
    #[arg(long, value_name = "TABLE", requires = "users")]
    items: Option<PathBuf>,
    /// How vectors of users and items are compared
    #[arg(long, value_enum, default_value = "dot")]
    similarity: SimilarityArg,
    /// Lengths of lists
    #[arg(long, value_name = "K,K", value_delimiter = ',', default_value = "1,5,10")]
    k: Vec<usize>,
    /// Seed of the sampled protocols
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Baselines to compare with, or none [default: pop,itemknn,ease]
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    baselines: Option<Vec<String>>,
    /// Write a page with tables and charts
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the result as JSON to this file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Replace files that are there
    #[arg(long)]
    force: bool,
    /// Examples to judge a network on [default: those the run was trained on]
    #[arg(long, value_name = "FILE_OR_FOLDER", conflicts_with_all = ["users", "interactions"])]
    data: Option<PathBuf>,
    /// Judge a network on these classes only
    #[arg(long, value_name = "NAME,NAME", conflicts_with_all = ["users", "interactions"])]
    classes: Option<String>,
    /// The interactions [default: those the run was trained on]
    #[arg(long, value_name = "FILE")]
    interactions: Option<PathBuf>,
    #[command(flatten, next_help_heading = "Reading")]
    table: TableArgs,
    #[command(flatten)]
    split: SplitArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum WhatArg {
    /// Lists of items: NDCG, recall, precision, hit rate, MAP, MRR, AUC
    Ranking,
    /// Predicted ratings: RMSE and MAE
    Ratings,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum SimilarityArg {
    /// Inner product
    Dot,
    /// Inner product of unit vectors
    Cosine,
}

impl Command {
    pub fn run(self, terminal: &Terminal) -> Result<()> {
        for path in [&self.html, &self.out].into_iter().flatten() {
            if !self.force && path.exists() {
                let what = "exists already; choose another name or replace it with --force";
                return Err(Error::Usage(format!("{} {what}", path.display())));
            }
        }
        if self.run.iter().any(|run| is_network(run)) {
            return self.networks(terminal);
        }
        if let Some(flag) =
            self.data.as_ref().map(|_| "--data").or(self.classes.as_ref().map(|_| "--classes"))
        {
            let run = self.run.first().map(|run| run.display().to_string()).unwrap_or_default();
            let what = "is for networks, and this is no run of one; embeddings are judged on --interactions";
            return Err(Error::Usage(format!("{run}: {flag} {what}")));
        }
        let mut given = values(&self.table);
        given.extend(values(&self.split));
        given.retain(|_, value| !value.is_null());
        let options: Options = serde_json::from_value(Value::Object(given))
            .map_err(|e| Error::Usage(e.to_string()))?;
        let models = match (self.users, self.items) {
            (Some(users), Some(items)) => {
                let similarity = match self.similarity {
                    SimilarityArg::Dot => Similarity::Dot,
                    SimilarityArg::Cosine => Similarity::Cosine,
                };
                Models::Tables { users, items, similarity }
            }
            _ => Models::Runs(self.run),
        };
        let settings = Evaluate {
            what: self.what.map(|what| match what {
                WhatArg::Ranking => What::Ranking,
                WhatArg::Ratings => What::Ratings,
            }),
            models,
            options: Options { interactions: self.interactions, ..options },
            ks: self.k,
            seed: self.seed,
            baselines: self.baselines.map(|names| baselines(&names)).transpose()?,
        };
        let evaluation = evaluate::evaluate(&settings, terminal)?;
        let html = || evaluation.to_html(&typed());
        write_files(self.html.as_deref(), html, self.out.as_deref(), &evaluation, terminal)?;
        terminal.result("evaluate", &evaluation, &text(&evaluation))?;
        if let Models::Runs(runs) = &settings.models
            && let Some(run) = runs.first()
        {
            let run = run.display();
            terminal.next(&format!("veridical recommend --run {run} --k 20 --out recs.parquet"));
        }
        Ok(())
    }
}

impl Command {
    /// The same question about networks.
    fn networks(self, terminal: &Terminal) -> Result<()> {
        let foreign = [
            (self.what.is_some(), "ranking and ratings are"),
            (self.interactions.is_some(), "--interactions is"),
            (self.baselines.is_some(), "--baselines is"),
        ];
        if let Some((_, what)) = foreign.into_iter().find(|(given, _)| *given) {
            let run = self.run.iter().find(|run| is_network(run)).map(|run| run.display());
            let run = run.map(|run| run.to_string()).unwrap_or_default();
            return Err(Error::Usage(format!(
                "{run} is a network; {what} for embeddings, see --data"
            )));
        }
        let settings = EvaluateNet { runs: self.run, data: self.data, classes: self.classes };
        let evaluation = net::evaluate(&settings, terminal)?;
        let html = || evaluation.to_html(&typed());
        write_files(self.html.as_deref(), html, self.out.as_deref(), &evaluation, terminal)?;
        terminal.result("evaluate", &evaluation, &judged_text(&evaluation))?;
        if let [run] = settings.runs.as_slice()
            && net::is_net(run)
        {
            let run = run.display();
            terminal.next(&format!("veridical refit-head --run {run} --out {run}-refit"));
        }
        Ok(())
    }
}

/// Whether a run is a network, on examples or on text.
fn is_network(run: &Path) -> bool {
    net::is_net(run) || net::text::is_text(run)
}

/// The page and the numbers, where they are asked for.
pub fn write_files(
    html: Option<&Path>,
    page: impl FnOnce() -> String,
    out: Option<&Path>,
    numbers: &impl Serialize,
    terminal: &Terminal,
) -> Result<()> {
    if let Some(path) = html {
        write_atomically(path, page().as_bytes())?;
        terminal.note(&format!("wrote {}", path.display()));
    }
    if let Some(path) = out {
        // INVARIANT: an evaluation is numbers and strings.
        let json = serde_json::to_string_pretty(numbers).expect("an evaluation serialises");
        write_atomically(path, format!("{json}\n").as_bytes())?;
        terminal.note(&format!("wrote {}", path.display()));
    }
    Ok(())
}

fn baselines(names: &[String]) -> Result<Vec<Method>> {
    let usable = [Method::Pop, Method::ItemKnn, Method::Ease];
    if names == ["none"] {
        return Ok(Vec::new());
    }
    let find = |name: &String| {
        usable.into_iter().find(|method| method.name() == name).ok_or_else(|| {
            let what = "is no baseline; choose some of pop, itemknn, ease, or none";
            Error::Usage(format!("--baselines: `{name}` {what}"))
        })
    };
    names.iter().map(find).collect()
}

pub fn text(evaluation: &Evaluation) -> String {
    let mut text = format!(
        "{} rows kept back by {}; 95 % intervals over users and seeds\n",
        evaluation.test_rows, evaluation.split
    );
    let protocols = evaluation.protocols();
    for model in &evaluation.models {
        let _ = writeln!(text, "\n{}", title(model)); // writing to a String cannot fail
        if let Some(report) = &model.ranking {
            let head: String = protocols.iter().map(|name| format!("{name:<18}")).collect();
            let _ = writeln!(text, "  {:<14}{}", "", head.trim_end());
            for measure in evaluation.measures() {
                let cell = |protocol: &String| {
                    let value = report.get(protocol, &measure).map_or("-".into(), shown);
                    format!("{value:<18}")
                };
                let cells: String = protocols.iter().map(cell).collect();
                let _ = writeln!(text, "  {measure:<14}{}", cells.trim_end());
            }
        }
        if let Some(ratings) = &model.ratings {
            let _ = writeln!(text, "  {:<14}{}", "rmse", shown(ratings.rmse));
            let _ = writeln!(text, "  {:<14}{}", "mae", shown(ratings.mae));
        }
    }
    for note in &evaluation.notes {
        let _ = writeln!(text, "\nnote: {note}");
    }
    text
}

fn title(model: &Judged) -> String {
    let estimate = model.ranking.as_ref().and_then(|report| report.protocols.first());
    let estimate = estimate.and_then(|protocol| protocol.measures.first()).map(|m| m.estimate);
    let users = estimate.or(model.ratings.map(|ratings| ratings.rmse)).map_or(0, |e| e.users);
    let kind = match (model.is_baseline, model.method) {
        (true, _) => "baseline, ".to_owned(),
        (false, Some(method)) => format!("{method}, "),
        (false, None) => String::new(),
    };
    let seeds = match model.seeds.len() {
        0 | 1 => String::new(),
        n => format!(", {n} seeds"),
    };
    format!("{} ({kind}{users} users{seeds})", model.name)
}
