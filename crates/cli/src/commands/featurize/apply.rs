//! `veridical featurize apply`

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use veridical::data::Source;
use veridical::featurize::{self, Applied, Apply};
use veridical::{Observer, Result};

use crate::args::{ReadArgs, WriteArgs};
use crate::terminal::Terminal;

const APPLY_EXAMPLES: &str = "\
Examples:
  veridical featurize apply items.parquet phi.parquet
  veridical featurize apply --spec spec.json --dtype f16 --rows-per-part 1000000 items/ phi/
  veridical featurize apply --spec spec.json --output-dim 256 items.npy phi.npy
  cat items.arrows | veridical featurize apply --spec spec.json - - > phi.arrows

Without --spec: unit rows, gaussian kernel, median length scale, orthogonal directions, D = 4 d, seed 0;
the spec is written beside the output (phi.parquet has phi.spec.json).

Formats go by the ending: .parquet, .arrow, .feather, .ipc, .npy, .npz, .safetensors, .csv, .tsv, word2vec
.vec, .w2v and .bin, GloVe .txt and .glove (text also .gz, .xz, .zst); s3://, gs:// and az:// are read and
written like files; `-` is Arrow IPC on stdin or stdout. The output appears whole or not at all; a job
that was stopped continues with --resume.

phi turns with h. A model that is not retrained on the new phi needs h aligned first.";

#[derive(Args, Debug)]
#[command(after_help = APPLY_EXAMPLES)]
pub struct ApplyArgs {
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
    pub fn run(self, terminal: &Terminal) -> Result<()> {
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
