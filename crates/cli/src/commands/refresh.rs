//! `veridical refresh`

use std::path::PathBuf;

use clap::Args;
use veridical::align::{Dates, FitSettings};
use veridical::data::IfExists;
use veridical::refresh::{self, Refresh, Refreshed};
use veridical::stability::Stability;
use veridical::{Result, featurize};

use super::stability::{LimitArgs, SizeArgs};
use crate::args::ReadArgs;
use crate::terminal::Terminal;
use crate::typed::typed;

pub const ABOUT: &str = "\
Align, compare, gate, featurise and publish today's vectors.

The daily job as one command. Today's table is turned into the frame of a fixed reference, compared with it, held against
a budget of limits, featurised if there is a spec, and published to a folder that appears by one rename with `_SUCCESS`
in it. If a limit is not kept the folder holds the report and its summary alone, and the exit code is 1. Without limits
the verdict decides. A job that was killed goes on with --resume and publishes the same bytes.";

const EXAMPLES: &str = "\
Examples:
  veridical refresh --reference monday.parquet --new today.parquet --budget b.toml --out published
  veridical refresh --reference monday.parquet --new today.parquet --spec spec.json --out published
  veridical refresh --reference A.parquet --new B.parquet --consumers c.toml --out live --force

Exit codes: 0 published, 1 a limit was not kept and nothing was published, 2 bad input, 130 interrupted (--resume).";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Command {
    /// Table or run folder whose frame is kept, the same every day
    #[arg(long, value_name = "TABLE")]
    reference: PathBuf,
    /// Today's table or run folder
    #[arg(long, value_name = "TABLE")]
    new: PathBuf,
    /// Folder to publish
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
    /// Feature spec: publish features of the aligned vectors too
    #[arg(long, value_name = "FILE")]
    spec: Option<PathBuf>,
    /// Downstream models, a TOML list of `consumer` with name, table, queries, labels
    #[arg(long, value_name = "FILE")]
    consumers: Option<PathBuf>,
    /// Runs on identical data: what they differ by stands beside every number
    #[arg(long, value_name = "RUN", num_args = 1..)]
    noise_floor: Vec<PathBuf>,
    /// What ids are called: MovieLens `::`, CSV, TSV or Parquet
    #[arg(long, value_name = "FILE")]
    names: Option<PathBuf>,
    /// How much ids weigh (id, weight)
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    /// Day of the reference (YYYY-MM-DD), for the age of the map
    #[arg(long, value_name = "DATE", requires = "date")]
    reference_date: Option<String>,
    /// Day of today's table
    #[arg(long, value_name = "DATE", requires = "reference_date")]
    date: Option<String>,
    /// Accept a reference that is itself aligned to another table
    #[arg(long)]
    allow_chain: bool,
    /// Go on with a refresh that was interrupted
    #[arg(long, conflicts_with = "force")]
    resume: bool,
    /// Replace a folder that was published before
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    sizes: SizeArgs,
    #[command(flatten)]
    read: ReadArgs,
}

impl Command {
    pub fn run(self, terminal: &Terminal) -> Result<()> {
        let settings = self.sizes.settings()?;
        let seed = settings.seed.get();
        let dates = match (&self.reference_date, &self.date) {
            (Some(reference), Some(date)) => Some(Dates::new(reference, date)?),
            _ => None,
        };
        let comparison = Stability {
            read: self.read.options(),
            noise_floor: self.noise_floor,
            names: self.names,
            weights: self.weights,
            limits: self.limits.limits()?,
            consumers: self.consumers,
            settings,
            ..Stability::new(vec![self.reference.clone(), self.new.clone()])
        };
        let request = Refresh {
            reference: self.reference,
            new: self.new,
            spec: self.spec.as_deref().map(featurize::load_spec).transpose()?,
            comparison,
            fit: FitSettings { seed, ..FitSettings::default() },
            dates,
            allow_chain: self.allow_chain,
            out: self.out,
            if_exists: match (self.resume, self.force) {
                (true, _) => IfExists::Resume,
                (_, true) => IfExists::Force,
                _ => IfExists::Refuse,
            },
            command: typed(),
        };
        let refreshed = refresh::refresh(&request, terminal)?;
        terminal.result("refresh", &refreshed, &text(&refreshed))?;
        refreshed.gate()
    }
}

fn text(refreshed: &Refreshed) -> String {
    let mut text = refreshed.report.to_text();
    let word =
        if refreshed.published { "published" } else { "NOT published; written for you to read" };
    text += &format!("\n{word}:\n");
    for file in &refreshed.files {
        text += &format!("  {file}\n");
    }
    text
}
