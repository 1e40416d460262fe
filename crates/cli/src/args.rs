//! The one definition of verbs and flags; help, completions and man pages come from it.

use clap::{Args, Parser, Subcommand};
use veridical::align::Align;
use veridical::demo::DemoOutput;
use veridical::evaluate::Evaluate;
use veridical::net::RefitNet;
use veridical::net::text::PredictText;
use veridical::recommend::Recommend;
use veridical::refresh::Refresh;
use veridical::similar::Similar;

use crate::commands::{
    align, completions, data, demo, evaluate, featurize, man, predict, recommend, refit_head,
    refresh, similar, stability, train, tune, vectors,
};
use crate::flags::Flags;
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
    Train(train::Command),
    /// Choose settings by validation rows.
    #[command(long_about = tune::ABOUT)]
    Tune(tune::Command),
    /// Judge runs or vector tables on rows that were kept back.
    #[command(long_about = evaluate::ABOUT, after_help = evaluate::EXAMPLES)]
    Evaluate(Flags<Evaluate>),
    /// Write the best items of every user.
    #[command(long_about = recommend::ABOUT, after_help = recommend::EXAMPLES)]
    Recommend(Flags<Recommend>),
    /// Show the neighbours of an id.
    #[command(after_help = similar::EXAMPLES)]
    Similar(Flags<Similar>),
    /// Tell new documents apart.
    #[command(long_about = predict::ABOUT, after_help = predict::EXAMPLES)]
    Predict(Flags<PredictText>),
    /// Solve for the last layer of a network.
    #[command(long_about = refit_head::ABOUT, after_help = refit_head::EXAMPLES)]
    RefitHead(Flags<RefitNet>),
    /// Say whether a refresh of vectors is safe to ship.
    #[command(long_about = stability::ABOUT)]
    Stability(stability::Command),
    /// Align, compare, gate, featurise and publish today's vectors.
    #[command(long_about = refresh::ABOUT, after_help = refresh::EXAMPLES)]
    Refresh(Flags<Refresh>),
    /// Turn tables of other trainings into the frame of a reference.
    #[command(long_about = align::ABOUT, after_help = align::EXAMPLES)]
    Align(Flags<Align>),
    /// Turn vectors into features whose inner products estimate a kernel.
    #[command(long_about = featurize::ABOUT)]
    Featurize(featurize::Command),
    /// Look at vector tables and convert them.
    Vectors(vectors::Command),
    /// Describe, divide and generate data, build graphs, embed documents.
    Data(data::Command),
    /// Train two days of embeddings and show what a refresh does.
    #[command(long_about = demo::ABOUT)]
    Demo(Flags<DemoOutput>),
    /// Run the experiments that check the papers' claims.
    #[cfg(feature = "experiments")]
    Reproduce(crate::commands::reproduce::Command),
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
            Self::Evaluate(flags) => evaluate::run(flags, terminal),
            Self::Tune(command) => command.run(terminal),
            Self::Recommend(flags) => recommend::run(flags, terminal),
            Self::Similar(flags) => similar::run(flags, terminal),
            Self::Predict(flags) => predict::run(flags, terminal),
            Self::RefitHead(flags) => refit_head::run(flags, terminal),
            Self::Refresh(flags) => refresh::run(flags, terminal),
            Self::Stability(command) => command.run(terminal),
            Self::Align(flags) => align::run(flags, terminal),
            Self::Featurize(command) => command.run(terminal),
            Self::Vectors(command) => command.run(terminal),
            Self::Data(command) => command.run(terminal),
            Self::Demo(flags) => demo::run(flags, terminal),
            #[cfg(feature = "experiments")]
            Self::Reproduce(command) => command.run(terminal),
            Self::Completions(command) => command.run(terminal),
            Self::Man(command) => command.run(terminal),
        }
    }
}
