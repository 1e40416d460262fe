//! `veridical featurize apply`

use std::fmt::Write as _;

use veridical::Result;
use veridical::core::Observer;
use veridical::featurize::{self, Applied, Apply};
use veridical::io::Source;

use crate::flags::Flags;
use crate::terminal::Terminal;

pub const EXAMPLES: &str = "\
Examples:
  veridical featurize apply items.parquet phi.parquet
  veridical featurize apply --spec spec.json --dtype f16 --rows-per-part 1000000 items/ phi/
  veridical featurize apply --spec spec.json --output-dim 256 items.npy phi.npy
  cat items.arrows | veridical featurize apply --spec spec.json - - > phi.arrows

Without --spec: unit rows, gaussian kernel, median length scale, orthogonal directions, D = 4 d, seed 0;
the spec is written beside the output (phi.parquet has phi.spec.json).

Formats go by file extension: .parquet, .arrow, .feather, .ipc, .npy, .npz, .safetensors, .csv, .tsv, word2vec
.vec, .w2v and .bin, GloVe .txt and .glove (text also .gz, .xz, .zst); s3://, gs:// and az:// are read and
written like files; `-` is Arrow IPC on stdin or stdout. The output appears whole or not at all; an
interrupted job continues with --resume.

phi rotates with h. A model that is not retrained on the new phi needs h aligned first.";

pub fn run(flags: Flags<Apply>, terminal: &Terminal) -> Result<()> {
    let settings = flags.settings("featurize apply")?;
    let applied = featurize::apply(&settings, &terminal.job())?;
    if settings.output.source() == Source::Stream {
        terminal.note(summary(&applied).trim_end()); // stdout carries the table
        return Ok(());
    }
    terminal.result("featurize-apply", &applied, &summary(&applied))?;
    terminal.next(&format!("veridical vectors stats {}", settings.output));
    Ok(())
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
