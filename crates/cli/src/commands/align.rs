//! `veridical align`

use std::fmt::Write as _;

use veridical::Result;
use veridical::align::{self, Align, Aligned, AlignedTable};
use veridical::core::Observer;
use veridical::io::{Output, Source};

use crate::flags::Flags;
use crate::terminal::Terminal;

pub const ABOUT: &str = "\
Align retrained vectors to the coordinate frame of a reference table.

Retraining rotates the coordinates of an embedding. A map fitted on the ids that two tables share undoes the
rotation, so a model trained on the reference works on today's vectors. Every row is mapped, including rows with
new ids.";

pub const EXAMPLES: &str = "\
Examples:
  veridical align --reference a.parquet b.parquet --out b-aligned.parquet --map map.safetensors
  veridical align --reference old-64d.parquet new-128d.parquet --out new-as-64d.parquet
  veridical align --reference seed-0 seed-1 seed-2 seed-3 --out aligned --map maps
  veridical align --reference seed-0 seed-1 seed-2 seed-3 --generalized --out aligned
  veridical align --apply map.safetensors new-items.parquet --out new-items-aligned.parquet
  veridical align --reference a.parquet b.parquet --map map.safetensors --anchors ids.txt

Equal dimensions: orthogonal Procrustes (a rotation, reflections allowed). Different dimensions: ridge regression,
its penalty chosen on held-out anchors. A tenth of the anchors is never fitted: the certificate reports how well the
map does on them. Always align to the same reference; a reference that is itself aligned is rejected. docs/align.md";

pub fn run(flags: Flags<Align>, terminal: &Terminal) -> Result<()> {
    let settings = flags.settings("align")?;
    let aligned = align::align(&settings, &terminal.job())?;
    if settings.out.as_ref().map(Output::source) == Some(Source::Stream) {
        terminal.note(text(&aligned).trim_end()); // stdout carries the table
        return Ok(());
    }
    terminal.result("align", &aligned, &text(&aligned))?;
    let written = aligned.tables.iter().find_map(|table| table.applied.as_ref());
    if let (Some(written), Some(reference)) = (written, &aligned.reference) {
        terminal.next(&format!("veridical stability {reference} {}", written.output));
    }
    Ok(())
}

fn text(aligned: &Aligned) -> String {
    let mut text = String::new();
    for table in &aligned.tables {
        one(&mut text, table);
    }
    if let Some(mean) = &aligned.mean {
        let _ = writeln!(text, "mean of all tables written to {mean}");
    }
    let _ = writeln!(text, "reference {}", aligned.reference_fingerprint); // writing to a String cannot fail
    text
}

fn one(text: &mut String, table: &AlignedTable) {
    let AlignedTable { input, kind, input_dim, output_dim, .. } = table;
    let _ = write!(text, "{input}: {} {input_dim} -> {output_dim}", kind.name());
    if let Some(rank) = table.rank {
        let _ = write!(text, ", rank {rank}");
    }
    if let Some(ridge) = table.ridge {
        let _ = write!(text, ", ridge {ridge:e}");
    }
    let _ = writeln!(text, ", map {}", table.map_id);
    if let Some(of) = &table.certificate {
        let before =
            |value: Option<f64>| value.map(|v| format!(" (before {v:.4})")).unwrap_or_default();
        let _ = writeln!(
            text,
            "  fitted on {} of {} shared ids, {} held out",
            of.anchors, of.shared, of.held_out
        );
        let _ = writeln!(
            text,
            "  held-out ids: residual {:.4}{}, mean cosine {:.4}{}",
            of.residual,
            before(of.residual_before),
            of.mean_cosine,
            before(of.mean_cosine_before)
        );
    }
    if let Some(age) = table.age_days {
        let _ = writeln!(text, "  the reference is {age} days older than the table");
    }
    for (what, path) in [("map", &table.map), ("ONNX", &table.onnx)] {
        if let Some(path) = path {
            let _ = writeln!(text, "  {what} written to {path}");
        }
    }
    if let Some(applied) = &table.applied {
        let _ = writeln!(text, "  {} rows written to {}", applied.rows, applied.output);
    }
}
