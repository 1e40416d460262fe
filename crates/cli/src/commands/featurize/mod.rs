//! `veridical featurize new|apply|describe|export`

mod export;

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;
use veridical::data::Source;
use veridical::features::{Directions, FeatureSpec};
use veridical::featurize::{self, Applied, Apply, LengthScale, NewSpec, Normalization};
use veridical::{Observer, Result};

use crate::args::{ReadArgs, WriteArgs};
use crate::terminal::Terminal;

pub const ABOUT: &str = "\
Turn vectors h into random Fourier features phi.

phi's inner products estimate the kernel k(x, y) = exp(-|x - y|^2 / (2 l^2)) of h. A small spec file
determines every bit of phi, on every machine.

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
    New(Box<New>),
    /// Write phi of a table.
    Apply(Box<ApplyArgs>),
    /// Say what a spec means.
    Describe(Describe),
    /// Write the map as a model, as U, or as values to test against.
    Export(export::ExportArgs),
}

impl Command {
    pub fn run(self, terminal: &Terminal) -> Result<()> {
        match self.action {
            Action::New(new) => new.run(terminal),
            Action::Apply(apply) => apply.run(terminal),
            Action::Describe(describe) => describe.run(terminal),
            Action::Export(export) => export.run(terminal),
        }
    }
}

const NEW_EXAMPLES: &str = "\
Examples:
  veridical featurize new --input-dim 128 --output-dim 512 --seed 7 --out spec.json
  veridical featurize new --data items.parquet --length-scale median --out spec.json
  veridical featurize new --input-dim 64 --gamma 0.5 --directions iid --out spec.json

`median` and `sklearn-gamma-scale` look at the table once and write a number into the spec.";

#[derive(Args, Debug)]
#[command(after_help = NEW_EXAMPLES)]
struct New {
    /// Width of the vectors; taken from --data if that is given
    #[arg(long, value_name = "d")]
    input_dim: Option<usize>,
    /// Width of phi, even: a cosine and a sine for each direction [default: 4 d]
    #[arg(long, value_name = "D")]
    output_dim: Option<usize>,
    /// Seed of the directions, 0 to 2^53 - 1
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// l: a number, `median` or `sklearn-gamma-scale` [default: 1, or median with --data]
    #[arg(long, value_name = "L", value_parser = parse_length_scale, allow_hyphen_values = true)]
    length_scale: Option<LengthScale>,
    /// scikit-learn's gamma = 1 / (2 l^2), instead of --length-scale
    #[arg(long, value_name = "G", conflicts_with = "length_scale", allow_hyphen_values = true)]
    gamma: Option<f64>,
    /// How the directions are drawn
    #[arg(long, value_enum, default_value = "orthogonal")]
    directions: DirectionsArg,
    /// What is done to a row first
    #[arg(long, value_enum, default_value = "unit")]
    normalize: NormalizeArg,
    /// Table for the rules that look at data
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// Where to write the spec
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Replace a spec that is there
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    read: ReadArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DirectionsArg {
    /// Independent
    Iid,
    /// Orthogonal inside blocks of d: a smaller error
    Orthogonal,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum NormalizeArg {
    /// Nothing
    None,
    /// Rows of length one
    Unit,
    /// Columns of mean 0 and deviation 1, measured on --data
    Standardize,
}

fn parse_length_scale(text: &str) -> std::result::Result<LengthScale, String> {
    match text {
        "median" => Ok(LengthScale::Median),
        "sklearn-gamma-scale" => Ok(LengthScale::SklearnGammaScale),
        number => number
            .parse()
            .map(LengthScale::Fixed)
            .map_err(|_| "must be a number, `median` or `sklearn-gamma-scale`".to_owned()),
    }
}

impl New {
    fn run(self, terminal: &Terminal) -> Result<()> {
        let default =
            if self.data.is_some() { LengthScale::Median } else { LengthScale::Fixed(1.0) };
        let length_scale = match self.gamma {
            Some(gamma) => LengthScale::Gamma(gamma),
            None => self.length_scale.unwrap_or(default),
        };
        let spec = featurize::new_spec_observed(
            &NewSpec {
                input_dim: self.input_dim,
                output_dim: self.output_dim,
                seed: self.seed,
                length_scale,
                directions: match self.directions {
                    DirectionsArg::Iid => Directions::Iid,
                    DirectionsArg::Orthogonal => Directions::Orthogonal,
                },
                normalize: match self.normalize {
                    NormalizeArg::None => Normalization::None,
                    NormalizeArg::Unit => Normalization::Unit,
                    NormalizeArg::Standardize => Normalization::Standardize,
                },
                data: self.data.as_ref().map(Source::from_arg),
                read: self.read.options(),
            },
            terminal,
        )?;
        featurize::save_spec(&spec, &self.out, self.force)?;
        let out = self.out.display();
        terminal.note(&format!("wrote {out}"));
        let result =
            json!({ "action": "new", "out": out.to_string(), "spec": featurize::describe(&spec) });
        terminal.result("featurize", &result, &text(&spec))?;
        terminal.next(&format!("veridical featurize apply --spec {out} INPUT OUTPUT"));
        Ok(())
    }
}

#[derive(Args, Debug)]
struct Describe {
    /// The spec
    #[arg(value_name = "SPEC")]
    spec: PathBuf,
}

impl Describe {
    fn run(self, terminal: &Terminal) -> Result<()> {
        let spec = featurize::load_spec(&self.spec)?;
        let result = json!({ "action": "describe", "spec": featurize::describe(&spec) });
        terminal.result("featurize", &result, &text(&spec))
    }
}

fn text(spec: &FeatureSpec) -> String {
    let d = featurize::describe(spec);
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<14} {value}"); // writing to a String cannot fail
    };
    line(
        "map",
        format!(
            "{} -> {} ({} directions, cos and sin of each)",
            d.input_dim, d.output_dim, d.n_directions
        ),
    );
    line("kernel", format!("{}, exp(-|x - y|^2 / (2 l^2))", d.kernel));
    line("length scale", format!("{} (gamma {:.6})", d.length_scale, d.gamma));
    line("directions", format!("{}, seed {}", d.directions, d.seed));
    line("rows", format!("normalize {}", d.normalize));
    line(
        "error",
        format!(
            "one kernel value has a standard deviation of at most {:.4} (iid)",
            d.worst_deviation
        ),
    );
    line(
        "size",
        format!("{} per row, {} of directions", bytes(d.bytes_per_row), bytes(d.directions_bytes)),
    );
    line("spec id", d.spec_id);
    line("directions id", d.directions_id);
    text
}

fn bytes(n: usize) -> String {
    const UNITS: [&str; 4] = ["bytes", "KiB", "MiB", "GiB"];
    let (mut size, mut unit) = (n as f64, 0);
    while size >= 1024.0 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{n} bytes") } else { format!("{size:.1} {}", UNITS[unit]) }
}

const APPLY_EXAMPLES: &str = "\
Examples:
  veridical featurize apply items.parquet phi.parquet
  veridical featurize apply --spec spec.json --dtype f16 --rows-per-part 1000000 items/ phi/
  veridical featurize apply --spec spec.json --output-dim 256 items.npy phi.npy
  cat items.arrows | veridical featurize apply --spec spec.json - - > phi.arrows

Without --spec: unit rows, gaussian kernel, median length scale, orthogonal directions, D = 4 d, seed 0;
the spec is written beside the output (phi.parquet has phi.spec.json).

Formats go by the ending: .parquet, .arrow, .feather, .ipc, .npy, .safetensors, .csv, .tsv (text also
.gz, .xz, .zst); `-` is Arrow IPC on stdin or stdout. The output appears whole or not at all; a job that
was stopped continues with --resume.

phi turns with h. A model that is not retrained on the new phi needs h aligned first.";

#[derive(Args, Debug)]
#[command(after_help = APPLY_EXAMPLES)]
struct ApplyArgs {
    /// Table of vectors: a file, a folder or `-`
    #[arg(value_name = "INPUT")]
    input: PathBuf,
    /// Table of features to write
    #[arg(value_name = "OUTPUT")]
    output: PathBuf,
    /// The spec
    #[arg(long, value_name = "FILE")]
    spec: Option<PathBuf>,
    /// Cut phi to its first D coordinates, rescaled
    #[arg(long, value_name = "D")]
    output_dim: Option<usize>,
    #[command(flatten)]
    read: ReadArgs,
    #[command(flatten)]
    write: WriteArgs,
}

impl ApplyArgs {
    fn run(self, terminal: &Terminal) -> Result<()> {
        let spec = self.spec.as_deref().map(featurize::load_spec).transpose()?;
        let output = Source::from_arg(&self.output);
        let applied = featurize::apply(
            &Apply {
                input: Source::from_arg(&self.input),
                output: output.clone(),
                spec,
                output_dim: self.output_dim,
                dtype: self.write.dtype(),
                options: self.write.job(&self.read),
            },
            terminal,
        )?;
        if output == Source::Stream {
            terminal.note(summary(&applied).trim_end()); // stdout carries the table
            return Ok(());
        }
        let result = json!({ "action": "apply", "result": applied });
        terminal.result("featurize", &result, &summary(&applied))?;
        terminal.next(&format!("veridical vectors stats {output}"));
        Ok(())
    }
}

fn summary(applied: &Applied) -> String {
    let Applied { output, spec_path, spec, tally } = applied;
    let (rows, d, output_dim) = (tally.rows, spec.input_dim, spec.output_dim);
    let mut text = format!("{rows} rows, {d} -> {output_dim}, written to {output}\n");
    let _ = writeln!(text, "spec {}", spec.spec_id); // writing to a String cannot fail
    if let Some(path) = spec_path {
        let _ = writeln!(
            text,
            "spec written to {path}: gaussian, length scale {:.6} (median), {}, normalize {}, seed {}",
            spec.length_scale, spec.directions, spec.normalize, spec.seed
        );
    }
    text
}
