//! `veridical align`

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use veridical::align::{
    self, Align, Aligned, AlignedTable, Anchors, DEFAULT_SAMPLE, Dates, FitSettings, Method,
};
use veridical::data::{NameOptions, ReadOptions, Source, read_ids, read_weights};
use veridical::{Observer, Result};

use crate::args::{ReadArgs, WriteArgs};
use crate::terminal::Terminal;

pub const ABOUT: &str = "\
Turn tables of other trainings into the frame of a reference.

Retraining turns the coordinates of an embedding. A map fitted on the ids that both tables share turns them
back, so that a model trained on the reference works on today's vectors. All rows are mapped, those of new ids
too.";

const EXAMPLES: &str = "\
Examples:
  veridical align --reference a.parquet b.parquet --out b-aligned.parquet --map map.safetensors
  veridical align --reference old-64d.parquet new-128d.parquet --out new-as-64d.parquet
  veridical align --reference seed-0 seed-1 seed-2 seed-3 --out aligned --map maps
  veridical align --reference seed-0 seed-1 seed-2 seed-3 --generalized --out aligned
  veridical align --apply map.safetensors new-items.parquet --out new-items-aligned.parquet
  veridical align --reference a.parquet b.parquet --map map.safetensors --anchors ids.txt

Equal widths: a rotation (Procrustes, reflections allowed). Unequal widths: a ridge regression whose strength is
chosen by anchors that are kept back. A tenth of the anchors is never fitted: the certificate tells how well the
map does on them. Always align to the same reference; one that is itself aligned is refused. docs/align.md";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Command {
    /// Tables to align: files or run folders
    #[arg(value_name = "TABLE", required = true)]
    tables: Vec<PathBuf>,
    /// Table whose frame is kept
    #[arg(long, value_name = "TABLE", required_unless_present = "apply")]
    reference: Option<PathBuf>,
    /// Aligned table to write; a folder for several tables or --generalized
    #[arg(long, value_name = "PATH")]
    out: Option<PathBuf>,
    /// Map to write, as safetensors; a folder for several tables
    #[arg(long, value_name = "FILE")]
    map: Option<PathBuf>,
    /// Map to write, as ONNX; a folder for several tables
    #[arg(long, value_name = "FILE")]
    onnx: Option<PathBuf>,
    /// Use this map instead of fitting one
    #[arg(long, value_name = "MAP", conflicts_with_all = ["map", "method", "scale", "center", "ridge", "rank",
        "anchors", "anchor_weights", "sample", "generalized"])]
    apply: Option<PathBuf>,
    #[command(flatten)]
    fit: FitArgs,
    /// Day of the reference, YYYY-MM-DD; the map then carries its age
    #[arg(long, value_name = "DAY", requires = "date")]
    reference_date: Option<String>,
    /// Day of the tables, YYYY-MM-DD
    #[arg(long, value_name = "DAY", requires = "reference_date")]
    date: Option<String>,
    /// Accept a reference that is itself aligned
    #[arg(long)]
    allow_chain: bool,
    #[command(flatten)]
    read: ReadArgs,
    #[command(flatten)]
    write: WriteArgs,
}

/// How maps are fitted.
#[derive(Args, Debug)]
#[command(next_help_heading = "Fitting")]
struct FitArgs {
    /// Kind of map
    #[arg(long, value_enum, value_name = "KIND", default_value = "auto")]
    method: MethodArg,
    /// Procrustes: lengths may be multiplied by a number
    #[arg(long)]
    scale: bool,
    /// Procrustes: rows are taken less their means
    #[arg(long)]
    center: bool,
    /// Strength of the ridge, relative to the mean variance of a column [default: by anchors kept back]
    #[arg(long, value_name = "L")]
    ridge: Option<f64>,
    /// Rank of a low-rank map
    #[arg(long, value_name = "K")]
    rank: Option<usize>,
    /// File with the ids to fit on: one per line, CSV or Parquet [default: all that are shared]
    #[arg(long, value_name = "FILE", conflicts_with = "anchor_weights")]
    anchors: Option<PathBuf>,
    /// File with the weight of every id, such as its popularity: CSV, TSV or Parquet
    #[arg(long, value_name = "FILE", requires = "anchors_top")]
    anchor_weights: Option<PathBuf>,
    /// Fit on the N ids of largest weight
    #[arg(long, value_name = "N", requires = "anchor_weights")]
    anchors_top: Option<usize>,
    /// Most anchors of a fit
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SAMPLE)]
    sample: usize,
    /// Turn all tables to their common mean; the reference keeps its frame
    #[arg(long)]
    generalized: bool,
    /// Seed of the anchors that are kept back
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    seed: u64,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum MethodArg {
    /// procrustes for equal widths, else ridge
    Auto,
    /// A rotation or reflection
    Procrustes,
    /// Any linear map
    Ridge,
    /// A linear map of rank K
    LowRank,
}

impl FitArgs {
    fn settings(&self) -> Result<FitSettings> {
        let anchors = match (&self.anchors, &self.anchor_weights) {
            (Some(path), _) => {
                let ids = read_ids(path, &ReadOptions::default())?;
                Anchors::Ids((0..ids.len()).map(|i| ids.get(i)).collect())
            }
            (None, Some(path)) => {
                let count = self.anchors_top.unwrap_or(usize::MAX);
                Anchors::Top { weights: read_weights(path, &NameOptions::default())?, count }
            }
            (None, None) => Anchors::Shared,
        };
        Ok(FitSettings {
            method: match self.method {
                MethodArg::Auto => Method::Auto,
                MethodArg::Procrustes => Method::Procrustes,
                MethodArg::Ridge => Method::Ridge,
                MethodArg::LowRank => Method::LowRank,
            },
            scale: self.scale,
            center: self.center,
            ridge: self.ridge,
            rank: self.rank,
            anchors,
            sample: self.sample,
            seed: self.seed,
            ..FitSettings::default()
        })
    }
}

impl Command {
    pub fn run(self, terminal: &Terminal) -> Result<()> {
        let dates = self.reference_date.as_deref().zip(self.date.as_deref());
        let settings = Align {
            reference: self.reference.as_ref().map(Source::from_arg),
            tables: self.tables.iter().map(Source::from_arg).collect(),
            out: self.out.as_ref().map(Source::from_arg),
            map: self.map,
            onnx: self.onnx,
            apply: self.apply,
            fit: self.fit.settings()?,
            generalized: self.fit.generalized,
            dates: dates.map(|(reference, date)| Dates::new(reference, date)).transpose()?,
            allow_chain: self.allow_chain,
            dtype: self.write.dtype(),
            options: self.write.job(&self.read),
        };
        let aligned = align::align(&settings, terminal)?;
        if settings.out == Some(Source::Stream) {
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
}

fn text(aligned: &Aligned) -> String {
    let mut text = String::new();
    for table in &aligned.tables {
        one(&mut text, table);
    }
    if let Some(mean) = &aligned.mean {
        let _ = writeln!(text, "mean of all tables written to {mean}");
    }
    let _ = writeln!(text, "reference {}", aligned.reference_fingerprint); // a String takes every write
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
            "  fitted on {} of {} shared ids, {} kept back",
            of.anchors, of.shared, of.held_out
        );
        let _ = writeln!(
            text,
            "  on those kept back: residual {:.4}{}, mean cosine {:.4}{}",
            of.residual,
            before(of.residual_before),
            of.mean_cosine,
            before(of.mean_cosine_before)
        );
    }
    if let Some(age) = table.age_days {
        let _ = writeln!(text, "  the reference is {age} days older");
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
