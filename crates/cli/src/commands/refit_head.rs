//! `veridical refit-head`

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use veridical::net::{self, RefitHead, RefitNet};
use veridical::{Error, Result};

use crate::commands::evaluate::write_files;
use crate::terminal::Terminal;
use crate::training::OutputArgs;
use crate::typed::typed;

pub const ABOUT: &str = "\
Solve for the last layer of a network on the features below it, and write the result as a run.

Training leaves the last layer short of the best for its own features. Solving for it is a convex problem that
costs less than an epoch: logistic regression for classes, ridge regression for numbers. The penalty is chosen
by cross-validation among those that do not raise the training loss; if there is none, the head stays.";

const EXAMPLES: &str = "\
Examples:
  veridical refit-head --run runs/mnist --out runs/mnist-refit
  veridical refit-head --run runs/mnist --data mnist/ --method ridge --html refit.html --out runs/ridge
  veridical evaluate --run runs/mnist runs/mnist-refit";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Command {
    /// A run of a network
    #[arg(long, value_name = "RUN")]
    run: PathBuf,
    /// Examples to solve on [default: those the run learnt from]
    #[arg(long, value_name = "FILE_OR_FOLDER")]
    data: Option<PathBuf>,
    /// logistic or ridge [default: logistic for classes, ridge for numbers]
    #[arg(long, value_name = "NAME", value_parser = ["logistic", "ridge"], hide_possible_values = true)]
    method: Option<String>,
    /// Parts of the cross-validation
    #[arg(long, value_name = "N", default_value_t = 5)]
    folds: usize,
    /// Seed of the parts
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Write a page with the path of penalties
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

impl Command {
    pub fn run(self, terminal: &Terminal) -> Result<()> {
        if let Some(path) =
            self.html.as_ref().filter(|path| path.exists() && !self.output.is_force())
        {
            let what = "exists already; choose another name or replace it with --force";
            return Err(Error::Usage(format!("{} {what}", path.display())));
        }
        let settings = RefitNet {
            run: self.run,
            data: self.data,
            method: self.method,
            folds: self.folds,
            seed: self.seed,
            out: self.output.out("net-refit"),
            if_exists: self.output.if_exists(),
        };
        let refit = net::refit(&settings, terminal)?;
        write_files(self.html.as_deref(), || refit.to_html(&typed()), None, &refit, terminal)?;
        terminal.result("refit-head", &refit, &text(&refit))?;
        terminal.next(&format!("veridical evaluate --run {} {}", refit.run, refit.out));
        Ok(())
    }
}

fn text(refit: &RefitHead) -> String {
    let mut text = format!("{} ({}, {} features)\n", refit.run, refit.model, refit.features);
    let _ = writeln!(text, "  {:<18}{:>10}{:>10}", "", "before", "after"); // cannot fail
    for (part, compared) in refit.parts() {
        for (name, before, after) in RefitHead::rows(compared) {
            let _ = writeln!(text, "  {:<18}{before:>10.4}{after:>10.4}", format!("{part} {name}"));
        }
    }
    let _ = match refit.penalty {
        Some(penalty) => {
            writeln!(text, "  {} with penalty {penalty:e}, written to {}", refit.method, refit.out)
        }
        None => writeln!(
            text,
            "  no penalty lowers the training loss: the head stays, written to {}",
            refit.out
        ),
    };
    text
}
