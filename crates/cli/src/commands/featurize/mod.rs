//! `veridical featurize new|apply|describe|plan|check|export`

mod apply;
mod check;
mod describe;
mod export;
mod new;
mod plan;

use clap::{Args, Subcommand};
use veridical::Result;
use veridical::featurize::{Apply, Check, DescribeSpec, Export, Plan, WriteSpec};

use crate::flags::Flags;
use crate::terminal::Terminal;

pub const ABOUT: &str = "\
Turn vectors h into random Fourier features phi.

phi's inner products estimate a kernel of h, by default k(x, y) = exp(-|x - y|^2 / (2 l^2)). A small
spec file determines every bit of phi, on every machine.

phi inherits h's rotation: after h is trained again, phi has other coordinates too. It helps models
that are retrained on it. A model that is not retrained needs the new h aligned to the old h first.";

#[derive(Args, Debug)]
pub struct Command {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make a feature spec.
    #[command(after_help = new::EXAMPLES)]
    New(Flags<WriteSpec>),
    /// Write phi of a table.
    #[command(after_help = apply::EXAMPLES)]
    Apply(Flags<Apply>),
    /// Say what a spec means.
    Describe(Flags<DescribeSpec>),
    /// Choose the width of phi by its error, measured on your data.
    #[command(after_help = plan::EXAMPLES)]
    Plan(Flags<Plan>),
    /// Measure the kernel error of a spec on a table.
    #[command(after_help = check::EXAMPLES)]
    Check(Flags<Check>),
    /// Write the map as a model, as U, or as values to test against.
    #[command(after_help = export::EXAMPLES)]
    Export(Flags<Export>),
}

impl Command {
    pub fn run(self, terminal: &Terminal) -> Result<()> {
        match self.action {
            Action::New(flags) => new::run(flags, terminal),
            Action::Apply(flags) => apply::run(flags, terminal),
            Action::Describe(flags) => describe::run(flags, terminal),
            Action::Plan(flags) => plan::run(flags, terminal),
            Action::Check(flags) => check::run(flags, terminal),
            Action::Export(flags) => export::run(flags, terminal),
        }
    }
}
