//! `veridical vectors head|stats|convert`

use std::fmt::Write as _;

use clap::{Args, Subcommand};
use veridical::Result;
use veridical::io::Source;
use veridical::vectors::{self, Convert, Head, ShowHead, Stats, SumUp};

use crate::flags::Flags;
use crate::terminal::Terminal;

const EXAMPLES: &str = "\
Examples:
  veridical vectors head items.parquet --rows 3
  veridical vectors stats items.npy --ids items.txt --json
  veridical vectors convert items.csv items.parquet --keep-columns title
  veridical vectors convert items.parquet items-f16.safetensors --dtype f16
  veridical vectors convert phi.parquet phi256.parquet --prefix 256";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Command {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print the first rows.
    Head(Flags<ShowHead>),
    /// Summarize a table: rows, ids, norms, non-finite values, zero rows.
    Stats(Flags<SumUp>),
    /// Convert a table to another format or dtype.
    Convert(Flags<Convert>),
}

impl Command {
    pub fn run(self, terminal: &Terminal) -> Result<()> {
        match self.action {
            Action::Head(flags) => {
                let head = vectors::head(&flags.settings("vectors head")?, &terminal.job())?;
                terminal.result("vectors-head", &head, &table(&head))
            }
            Action::Stats(flags) => {
                let stats = vectors::stats(&flags.settings("vectors stats")?, &terminal.job())?;
                terminal.result("vectors-stats", &stats, &text(&stats))
            }
            Action::Convert(flags) => {
                let settings = flags.settings("vectors convert")?;
                let converted = vectors::convert(&settings, &terminal.job())?;
                if settings.output.source() == Source::Stream {
                    return Ok(()); // stdout carries the table
                }
                let (rows, dim, out) = (converted.rows, converted.dim, &converted.output);
                let text = format!("{rows} rows of dimension {dim}, written to {out}\n");
                terminal.result("vectors-convert", &converted, &text)
            }
        }
    }
}

/// Number of coordinates that fit on a line.
const SHOWN: usize = 6;

fn table(head: &Head) -> String {
    let width = head.ids.iter().map(|id| id.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (id, row) in head.ids.iter().zip(&head.rows) {
        let values: Vec<String> = row.iter().take(SHOWN).map(|x| format!("{x:>9.5}")).collect();
        let more = if row.len() > SHOWN { format!(" ... ({})", row.len()) } else { String::new() };
        let _ = writeln!(text, "{id:<width$} {}{more}", values.join(" ")); // cannot fail
    }
    text
}

fn text(stats: &Stats) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<17} {value}"); // writing to a String cannot fail
    };
    line("rows", stats.rows.to_string());
    line("dim", format!("{} ({})", stats.dim, stats.dtype));
    line("ids", stats.ids.to_owned());
    line("not finite", format!("{} rows", stats.rows_not_finite));
    line("zero", format!("{} rows", stats.zero_rows));
    line("constant", format!("{} columns", stats.constant_columns));
    line(
        "values",
        format!(
            "{} to {}, mean {:.6}, sd {:.6}",
            stats.min, stats.max, stats.mean, stats.deviation
        ),
    );
    let [min, low, median, high, max] = stats.norm_quantiles;
    line(
        "norms",
        format!("min {min:.6}, 5 % {low:.6}, median {median:.6}, 95 % {high:.6}, max {max:.6}"),
    );
    if (stats.norms_sampled as u64) < stats.rows {
        line("", format!("(norms from a sample of {} rows)", stats.norms_sampled));
    }
    text
}
