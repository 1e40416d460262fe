//! `veridical tune METHOD`

use std::fmt::Write as _;

use clap::Args;
use serde::Serialize;
use serde_json::Value;
use veridical::tune::{self, Trial, Tune, Tuned};
use veridical::{Error, Result};

use crate::commands::evaluate::text as evaluation_text;
use crate::methods::Chosen;
use crate::terminal::Terminal;
use crate::training::{Shared, values};

pub const ABOUT: &str = "\
Try combinations of settings and choose by validation rows alone.

Every trial is trained as `train` would and written to OUT/tune.jsonl. The best is trained once more into
OUT/best, and only for it are the test rows read, once. OUT/best.json serves `train --from`.";

const EXAMPLES: &str = "\
Examples:
  veridical tune bpr --interactions ratings.dat --grid sse-item=0,0.005,0.01 --grid lr=0.01,0.1
  veridical tune mf --interactions ratings.dat --split random:0.2 --grid sse=0,0.01 --patience 3
  veridical train --from runs/tune-bpr/best.json --seed 7 --out runs/best";

#[derive(Args, Debug)]
#[command(
    after_help = EXAMPLES,
    subcommand_required = true,
    arg_required_else_help = true,
    subcommand_help_heading = "Methods"
)]
pub struct Command {
    #[command(subcommand)]
    chosen: Chosen<TuneArgs>,
}

#[derive(Args, Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct TuneArgs {
    /// Values of a setting to try; give it once for each setting
    #[arg(long, value_name = "SETTING=V,V", required = true, help_heading = "Tuning")]
    #[serde(skip)]
    grid: Vec<String>,
    /// Lengths of lists in the last word on the test rows
    #[arg(
        long,
        value_name = "K,K",
        value_delimiter = ',',
        default_value = "1,5,10",
        help_heading = "Tuning"
    )]
    #[serde(skip)]
    k: Vec<usize>,
    #[command(flatten)]
    #[serde(flatten)]
    shared: Shared,
}

impl Command {
    pub fn run(self, terminal: &Terminal) -> Result<()> {
        let Chosen { method, settings, shared } = self.chosen;
        let mut settings = settings.map_err(Error::Usage)?;
        let start = shared.shared.start.clone();
        if start.seeds.is_some() {
            let what = "--seeds is for train; tune with one seed, then train the best with many";
            return Err(Error::Usage(what.into()));
        }
        settings.extend(values(&shared));
        let grid = shared.grid.iter().map(|text| tune::parse_grid(method, text));
        let settings = Tune {
            grid: grid.collect::<Result<_>>()?,
            request: start.request(Some(method), settings)?,
            out: start.output.out(&format!("tune-{}", method.name())),
            if_exists: start.output.if_exists(),
            ks: shared.k,
        };
        let tuned = tune::tune(&settings, terminal)?;
        terminal.result("tune", &tuned, &text(&tuned))?;
        terminal.next(&format!(
            "veridical train --from {}/best.json --seeds 5 --out runs/final",
            tuned.out
        ));
        Ok(())
    }
}

fn text(tuned: &Tuned) -> String {
    let mut text = format!("{} on the validation rows\n", tuned.measure);
    for (at, trial) in tuned.trials.iter().enumerate() {
        let Trial { settings, value, fitted, .. } = trial;
        let value = value.map_or("diverged".into(), |value| format!("{value:.4}"));
        let epoch = fitted.as_ref().and_then(|fitted| fitted.best).map(|best| best.epoch);
        let epoch = epoch.map_or(String::new(), |epoch| format!("  (best at epoch {epoch})"));
        let one = |(name, value): (&String, &Value)| match value {
            Value::String(text) => format!("{name}={text}"),
            other => format!("{name}={other}"),
        };
        let settings: Vec<String> = settings.iter().map(one).collect();
        let mark = if at == tuned.best { "  <- best" } else { "" };
        let _ = writeln!(text, "  {value:>8}  {}{epoch}{mark}", settings.join(" ")); // cannot fail
    }
    let _ = writeln!(text, "\nthe best is in {}", tuned.run);
    if let Some(test) = &tuned.test {
        let _ = write!(text, "\nOn the test rows, read once:\n{}", evaluation_text(test));
    }
    text
}
