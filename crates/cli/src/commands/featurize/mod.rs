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
Map vectors h to random Fourier features phi.

Inner products of phi estimate a kernel of h, by default k(x, y) = exp(-|x - y|^2 / (2 l^2)). A small
spec file determines every bit of phi, on every machine.

phi inherits the rotation of h: after h is retrained, phi has different coordinates too. It helps models
that are retrained on it. A model that is not retrained needs the new h aligned to the old h first.";

#[derive(Args, Debug)]
pub struct Command {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Create a feature spec.
    #[command(after_help = new::EXAMPLES)]
    New(Flags<WriteSpec>),
    /// Compute the features phi of a vector table.
    #[command(after_help = apply::EXAMPLES)]
    Apply(Flags<Apply>),
    /// Describe a feature spec.
    Describe(Flags<DescribeSpec>),
    /// Choose the output dimension of phi for a target kernel error.
    #[command(after_help = plan::EXAMPLES)]
    Plan(Flags<Plan>),
    /// Measure the kernel approximation error of a spec on a table.
    #[command(after_help = check::EXAMPLES)]
    Check(Flags<Check>),
    /// Export the feature map as a model, its directions, or conformance data.
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
