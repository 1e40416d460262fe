//! The single definition of verbs and flags; help, completions and man pages are generated from it.

use clap::{Args, Parser, Subcommand};
use veridical::align::Align;
use veridical::demo::DemoOutput;
use veridical::evaluate::Evaluate;
use veridical::net::RefitNet;
use veridical::predict::Predict;
use veridical::recommend::Recommend;
use veridical::similar::Similar;

use crate::commands::{
    align, completions, data, demo, evaluate, explain, featurize, forensics, kernel, man, predict,
    recommend, refit_head, refresh, similar, stability, train, tune, vectors,
};
use crate::flags::Flags;
use crate::terminal::Terminal;

#[derive(Debug, Parser)]
#[command(name = "veridical", version, about = ABOUT, after_help = AFTER_HELP, max_term_width = 120)]
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
`veridical VERB --help` explains a verb in full, `veridical VERB -h` is shorter.";

/// Flags that every verb takes.
#[derive(Args, Debug)]
pub struct Common {
    /// Number of threads [default: all cores]; results are identical except with --mode hogwild.
    #[arg(long, global = true, value_name = "N")]
    pub threads: Option<usize>,
    /// Print only results, warnings and errors.
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// Print the result as JSON.
    #[arg(long, global = true)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Train embeddings, networks, or classifiers of documents or vectors.
    #[command(long_about = train::ABOUT)]
    Train(train::Command),
    /// Tune hyperparameters by grid search on validation data.
    #[command(long_about = tune::ABOUT)]
    Tune(tune::Command),
    /// Evaluate runs, vector tables or networks on held-out data.
    #[command(long_about = evaluate::ABOUT, after_help = evaluate::EXAMPLES)]
    Evaluate(Flags<Evaluate>),
    /// Write the top-k items of every user.
    #[command(long_about = recommend::ABOUT, after_help = recommend::EXAMPLES)]
    Recommend(Flags<Recommend>),
    /// Show the nearest neighbors of an id.
    #[command(after_help = similar::EXAMPLES)]
    Similar(Flags<Similar>),
    /// Apply a run to new documents, vectors, images, tables or pairs.
    #[command(long_about = predict::ABOUT, after_help = predict::EXAMPLES)]
    Predict(Flags<Predict>),
    /// Refit the last layer of a trained network by convex optimization.
    #[command(long_about = refit_head::ABOUT, after_help = refit_head::EXAMPLES)]
    RefitHead(Flags<RefitNet>),
    /// Compare vector tables and report whether a refresh is safe to ship.
    #[command(long_about = stability::ABOUT)]
    Stability(stability::Command),
    /// Align, compare, gate, featurize and publish today's vectors.
    #[command(long_about = refresh::ABOUT)]
    Refresh(refresh::Command),
    /// Align retrained vectors to the coordinate frame of a reference.
    #[command(long_about = align::ABOUT, after_help = align::EXAMPLES)]
    Align(Flags<Align>),
    /// Map vectors to random Fourier features that approximate a kernel.
    #[command(long_about = featurize::ABOUT)]
    Featurize(featurize::Command),
    /// Explain decisions of a network by its training rows.
    #[command(long_about = explain::ABOUT)]
    Explain(explain::Command),
    /// Find the training rows behind wrong decisions.
    #[command(long_about = forensics::ABOUT)]
    Forensics(forensics::Command),
    /// Compute kernels of networks and of vectors.
    #[command(long_about = kernel::ABOUT)]
    Kernel(kernel::Command),
    /// Inspect vector tables and convert between formats.
    Vectors(vectors::Command),
    /// Describe, split, generate or poison data; build graphs; embed.
    Data(data::Command),
    /// Show it all on generated data: train, measure, gate two refreshes.
    #[command(long_about = demo::ABOUT)]
    Demo(Flags<DemoOutput>),
    /// Run the experiments that test the papers' claims.
    #[cfg(feature = "experiments")]
    Reproduce(crate::commands::reproduce::Command),
    /// Print a shell completion script.
    #[command(long_about = completions::ABOUT)]
    Completions(completions::Command),
    /// Print a man page, or write all of them to a folder.
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
            Self::Refresh(command) => command.run(terminal),
            Self::Stability(command) => command.run(terminal),
            Self::Align(flags) => align::run(flags, terminal),
            Self::Featurize(command) => command.run(terminal),
            Self::Explain(command) => command.run(terminal),
            Self::Forensics(command) => command.run(terminal),
            Self::Kernel(command) => command.run(terminal),
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
