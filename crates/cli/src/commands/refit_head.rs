//! `veridical refit-head`

use std::fmt::Write as _;

use veridical::Result;
use veridical::net::{self, RefitHead, RefitNet};

use crate::flags::Flags;
use crate::terminal::Terminal;
use crate::typed::typed;

pub const ABOUT: &str = "\
Refit the last layer of a trained network on the features below it, and write the result as a new run.

Training leaves the last layer short of the optimum for its own features. Refitting it is a convex problem that
costs less than an epoch: logistic regression for classification, ridge regression for numeric targets. The penalty
is chosen by cross-validation among those that do not raise the training loss; if none qualifies, the head is kept.";

pub const EXAMPLES: &str = "\
Examples:
  veridical refit-head --run runs/mnist --out runs/mnist-refit
  veridical refit-head --run runs/mnist --data mnist/ --method ridge --html refit.html --out runs/ridge
  veridical evaluate --run runs/mnist runs/mnist-refit";

pub fn run(flags: Flags<RefitNet>, terminal: &Terminal) -> Result<()> {
    let settings = flags.settings("refit-head")?;
    let refit = net::refit(&settings, &terminal.job())?;
    terminal.write_page(settings.html.as_ref(), || refit.to_html(&typed()))?;
    terminal.result("refit-head", &refit, &text(&refit))?;
    terminal.next(&format!("veridical evaluate --run {} {}", refit.run, refit.out));
    Ok(())
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
            "  no penalty lowers the training loss: the head is unchanged, written to {}",
            refit.out
        ),
    };
    text
}
