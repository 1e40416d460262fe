//! `veridical featurize new|apply|describe|plan|check|export`

mod apply;
mod check;
mod describe;
mod export;
mod map;
mod new;
mod plan;

use clap::{Args, Subcommand};
use veridical::Result;

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
    New(Box<new::New>),
    /// Write phi of a table.
    Apply(Box<apply::ApplyArgs>),
    /// Say what a spec means.
    Describe(describe::Describe),
    /// Choose the width of phi by its error, measured on your data.
    Plan(Box<plan::PlanArgs>),
    /// Measure the kernel error of a spec on a table.
    Check(Box<check::CheckArgs>),
    /// Write the map as a model, as U, or as values to test against.
    Export(export::ExportArgs),
}

impl Command {
    pub fn run(self, terminal: &Terminal) -> Result<()> {
        match self.action {
            Action::New(new) => new.run(terminal),
            Action::Apply(apply) => apply.run(terminal),
            Action::Describe(describe) => describe.run(terminal),
            Action::Plan(plan) => plan.run(terminal),
            Action::Check(check) => check.run(terminal),
            Action::Export(export) => export.run(terminal),
        }
    }
}
