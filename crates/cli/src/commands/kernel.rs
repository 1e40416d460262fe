//! `veridical kernel compute|store|check|regress|classify`

use std::fmt::Write as _;

use clap::{Args, Subcommand};
use veridical::kernel::{
    self, CheckSettings, Checked, Compute, Computed, Learn, Learned, Score, StoreSettings, Stored,
};
use veridical::{Error, Result};

use crate::flags::Flags;
use crate::terminal::Terminal;
use crate::typed::typed;

pub const ABOUT: &str = "\
Compute kernels of networks and of vectors.

The tangent kernel of a network compares the gradients of its outputs at two inputs: k(x, x') is what a step of training on x changes at
x'. `kernel compute` writes it as a matrix, tile by tile, so that it may be larger than the memory and be resumed after any tile; `kernel
store` keeps the factors it is made of, from which any other tangent kernel of the same rows is computed without the network's
inputs. docs/kernel.md has the formulas and what they cost.";

const COMPUTE: &str = "\
Examples:
  veridical kernel compute --run runs/mnist --plan
  veridical kernel compute --run runs/mnist --kernel trntk --out k
  veridical kernel compute --run runs/resnet --error 0.02 --rows all --out k
  veridical kernel compute --run runs/mnist --queries strange/ --out k
  veridical kernel compute --vectors items.parquet --kernel rbf --out k";

const STORE: &str = "\
Examples:
  veridical kernel store --run runs/mnist --rows all --out tangents
  veridical kernel compute --run runs/mnist --store tangents --kernel pntk --out k
  veridical explain --run runs/mnist --store tangents --html why.html";

const CHECK: &str = "\
Examples:
  veridical kernel check k --html check.html
  veridical kernel check k --run moved/mnist --sample 5000

Exit codes: 0 the kernel is what its folder says, 1 it is not, 2 bad input.";

const REGRESS: &str = "\
Examples:
  veridical kernel regress --data houses.csv --target price --kernel rbf --html regress.html
  veridical kernel regress --data houses.csv --target price --solver pcg --lambda 1e-3
  veridical kernel regress --run runs/function --kernel ckj --weights trapezoid --out predicted.csv";

const CLASSIFY: &str = "\
Examples:
  veridical kernel classify --data pets.csv --target kind --kernel laplace
  veridical kernel classify --run runs/mnist --kernel ntk --rows 5000 --html classify.html
  veridical kernel classify --data digits/ --kernel rbf --solver falkon --centers 4000 --lambda 1e-3";

#[derive(Args, Debug)]
pub struct Command {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Write the kernel of training rows, or of queries and training rows, as a matrix.
    #[command(after_help = COMPUTE)]
    Compute(Flags<Compute>),
    /// Store the factors of tangent kernels.
    #[command(after_help = STORE)]
    Store(Flags<StoreSettings>),
    /// Compare a written kernel with the exact one, and look at its eigenvalues.
    #[command(after_help = CHECK)]
    Check(Flags<CheckSettings>),
    /// Fit kernel ridge regression and evaluate it on held-out rows.
    #[command(after_help = REGRESS)]
    Regress(Flags<Learn>),
    /// Fit a kernel classifier and evaluate it on held-out rows.
    #[command(after_help = CLASSIFY)]
    Classify(Flags<Learn>),
}

impl Command {
    pub fn run(self, terminal: &Terminal) -> Result<()> {
        match self.action {
            Action::Compute(flags) => compute(flags, terminal),
            Action::Store(flags) => store(flags, terminal),
            Action::Check(flags) => check(flags, terminal),
            Action::Regress(flags) => {
                let settings = flags.settings("kernel regress")?;
                let found = kernel::regress(&settings, &terminal.job())?;
                learned("kernel-regress", &settings, &found, terminal)
            }
            Action::Classify(flags) => {
                let settings = flags.settings("kernel classify")?;
                let found = kernel::classify(&settings, &terminal.job())?;
                learned("kernel-classify", &settings, &found, terminal)
            }
        }
    }
}

fn compute(flags: Flags<Compute>, terminal: &Terminal) -> Result<()> {
    let settings = flags.settings("kernel compute")?;
    let found = kernel::compute(&settings, &terminal.job())?;
    terminal.result("kernel-compute", &found, &computed(&found))?;
    if let Some(out) = &found.out {
        terminal.next(&format!("veridical kernel check {out} --html check.html"));
    }
    Ok(())
}

fn computed(found: &Computed) -> String {
    let mut text = format!("{}\n", found.answer());
    // Writing to a String cannot fail.
    if let Some(plan) = &found.plan {
        let wide = plan.iter().map(|layer| layer.layer.len()).max().unwrap_or(0).max(5);
        let _ = writeln!(
            text,
            "\n  {:<wide$}  {:<9} {:>12} {:>10} {:>9}",
            "layer", "path", "GFLOP", "MB", "seconds"
        );
        for layer in plan {
            let _ = writeln!(
                text,
                "  {:<wide$}  {:<9} {:>12.3} {:>10.1} {:>9.3}",
                layer.layer, layer.path, layer.gflop, layer.mb, layer.seconds
            );
        }
    }
    if let Some(matrix) = &found.matrix {
        let wide = matrix.layers.iter().map(|layer| layer.layer.len()).max().unwrap_or(0);
        for layer in &matrix.layers {
            let share = 100.0 * layer.share;
            let _ = writeln!(text, "  {:<wide$}  {:<9} {share:>5.1} %", layer.layer, layer.path);
        }
        if let Some(residual) = &matrix.residual {
            let expected =
                residual.expected.map_or(String::new(), |e| format!(", expected {e:.4}"));
            let _ = writeln!(
                text,
                "sketch: off by {:.4} on {} pairs{expected}",
                residual.rms, residual.pairs
            );
        }
    }
    for note in &found.notes {
        let _ = writeln!(text, "note: {note}");
    }
    if let Some(out) = &found.out {
        let _ = writeln!(text, "written to {out}");
    }
    text
}

fn store(flags: Flags<StoreSettings>, terminal: &Terminal) -> Result<()> {
    let settings = flags.settings("kernel store")?;
    let found = kernel::store(&settings, &terminal.job())?;
    terminal.result("kernel-store", &found, &stored(&found))?;
    let Stored { run, out, .. } = &found;
    terminal.next(&format!("veridical explain --run {run} --store {out} --html why.html"));
    Ok(())
}

fn stored(found: &Stored) -> String {
    let mut text = format!("{}\n", found.answer());
    for layer in &found.layers {
        let _ = writeln!(text, "  {:<9} {}", layer.path.to_string(), layer.layer);
    }
    let _ = writeln!(text, "written to {}", found.out);
    text
}

fn check(flags: Flags<CheckSettings>, terminal: &Terminal) -> Result<()> {
    let settings = flags.settings("kernel check")?;
    let found = kernel::check(&settings, &terminal.job())?;
    terminal.write_page(settings.html.as_ref(), || found.to_html(&typed()))?;
    terminal.result("kernel-check", &found, &checked(&found))?;
    match found.passed {
        true => Ok(()),
        false => Err(Error::GateFailed(format!("the check failed: {}", found.broken.join("; ")))),
    }
}

fn checked(found: &Checked) -> String {
    let mut text = format!("{}\n", found.answer());
    if let Some(spectrum) = &found.spectrum {
        let some: Vec<String> =
            spectrum.largest.iter().take(5).map(|l| format!("{l:.4}")).collect();
        let _ = writeln!(text, "  eigenvalues / n      {}, ...", some.join(", "));
        let _ = writeln!(text, "  smallest eigenvalue  {:.1e}", spectrum.smallest);
        let _ = writeln!(text, "  effective rank       {:.1}", spectrum.effective_rank);
    }
    if let Some(alignment) = found.alignment {
        let _ = writeln!(text, "  label alignment      {alignment:.3}");
    }
    for layer in &found.layers {
        let _ = writeln!(text, "  {:<20} {:>5.1} %", layer.layer, 100.0 * layer.share);
    }
    for note in &found.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

fn learned(verb: &str, settings: &Learn, found: &Learned, terminal: &Terminal) -> Result<()> {
    terminal.write_page(settings.html.as_ref(), || found.to_html(&typed()))?;
    terminal.result(verb, found, &scores(found))
}

fn scores(found: &Learned) -> String {
    let mut text = format!("{}\n\n", found.answer());
    let wide = found.scores.iter().map(|score| score.model.chars().count()).max().unwrap_or(0);
    for Score { model, rmse, r2, accuracy, cross_entropy } in &found.scores {
        let _ = write!(text, "  {model:<wide$}");
        if let Some(rmse) = rmse {
            let _ = write!(text, "  error {:.5}", rmse.value);
        }
        if let Some(r2) = r2 {
            let _ = write!(text, "  variance predicted {:.1} %", 100.0 * r2);
        }
        if let Some(accuracy) = accuracy {
            let _ = write!(text, "  {}", accuracy.percent());
        }
        if let Some(loss) = cross_entropy {
            let _ = write!(text, "  cross-entropy {:.4}", loss.value);
        }
        text.push('\n');
    }
    let solved = &found.solved;
    let _ = write!(text, "\npenalty {:.1e}, {}", found.lambda, solved.solver);
    if let Some(residual) = solved.residual {
        let _ = write!(text, ": residual {residual:.1e} after {} iterations", solved.iterations);
    }
    if let Some(predicted) = solved.predicted_residual {
        let _ = write!(text, " (predicted {predicted:.1e})");
    }
    text.push('\n');
    for note in &found.notes {
        let _ = writeln!(text, "note: {note}");
    }
    if let Some(out) = &found.out {
        let _ = writeln!(text, "written to {out}");
    }
    text
}
