//! `veridical featurize check`

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use veridical::data::{Source, write_atomically};
use veridical::featurize::{self, Check, CheckReport};
use veridical::{Error, Observer, Result};

use crate::args::ReadArgs;
use crate::terminal::Terminal;
use crate::typed::typed;

const EXAMPLES: &str = "\
Examples:
  veridical featurize check --spec spec.json items.parquet
  veridical featurize check --spec spec.json items.parquet --html check.html";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct CheckArgs {
    /// Table of vectors: a file or a folder
    #[arg(value_name = "DATA")]
    data: PathBuf,
    /// The spec
    #[arg(long, value_name = "FILE")]
    spec: PathBuf,
    /// Write a page with charts
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Replace a page that is there
    #[arg(long, requires = "html")]
    force: bool,
    #[command(flatten)]
    read: ReadArgs,
}

impl CheckArgs {
    pub fn run(self, terminal: &Terminal) -> Result<()> {
        if let Some(path) = self.html.as_ref().filter(|path| !self.force && path.exists()) {
            let what = "exists already; choose another name or replace it with --force";
            return Err(Error::Usage(format!("{} {what}", path.display())));
        }
        let report = featurize::check(
            &Check {
                spec: featurize::load_spec(&self.spec)?,
                data: Source::from_arg(&self.data),
                read: self.read.options(),
            },
            terminal,
        )?;
        if let Some(path) = &self.html {
            write_atomically(path, report.to_html(&typed()).as_bytes())?;
            terminal.note(&format!("wrote {}", path.display()));
        }
        terminal.result(
            "featurize",
            &json!({ "action": "check", "result": report }),
            &text(&report),
        )?;
        let (spec, data) = (self.spec.display(), self.data.display());
        terminal.next(&format!("veridical featurize apply --spec {spec} {data} phi.parquet"));
        Ok(())
    }
}

fn text(report: &CheckReport) -> String {
    let CheckReport { spec, errors, pairs, rows, .. } = report;
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{}", format!("{name:<16} {value}").trim_end()); // cannot fail
    };
    line("spec", spec.spec_id.clone());
    line("measured on", format!("{pairs} random pairs of {rows} rows"));
    line(
        "error",
        format!(
            "mean {:.5}, median {:.5}, 95 % {:.5}, 99 % {:.5}, max {:.5}",
            errors.mean, errors.median, errors.quantile_95, errors.quantile_99, errors.max
        ),
    );
    line(
        "rms",
        format!("{:.5} (iid directions in theory: {:.5})", report.rms, report.expected_iid_rms),
    );
    line("largest |u.h|", format!("{:.3}", report.largest_projection));
    line(
        "kernel values",
        format!(
            "{:.1} % below 0.05, {:.1} % above 0.95",
            100.0 * report.near_zero,
            100.0 * report.near_one
        ),
    );
    line("", String::new());
    line("directions", format!("mean error at D = {} [95 % interval over seeds]", spec.output_dim));
    for family in &report.families {
        let chosen = if family.directions == spec.directions { "  <- this spec" } else { "" };
        let value = match (family.mean, family.interval, &family.refused) {
            (Some(mean), Some([low, high]), _) => {
                format!("{mean:.5} [{low:.5}, {high:.5}], {} seeds{chosen}", family.seeds)
            }
            (_, _, why) => format!("- {}", why.clone().unwrap_or_default()),
        };
        line(family.directions, value);
    }
    text
}
