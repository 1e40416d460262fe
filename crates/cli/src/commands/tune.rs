//! `veridical tune METHOD`

use std::fmt::Write as _;

use clap::Args;
use serde_json::Value;
use veridical::Result;
use veridical::train::Request;
use veridical::tune::{self, Trial, Tune, TuneSettings, Tuned};

use crate::commands::evaluate::text as evaluation_text;
use crate::methods::Chosen;
use crate::terminal::Terminal;

pub const ABOUT: &str = "\
Tune hyperparameters by grid search, selecting on validation data only.

Every trial is trained as `train` would train it and recorded in OUT/tune.jsonl. The best trial is retrained into
OUT/best, and only that model is evaluated on the test rows, once. Pass OUT/best.json to `train --from`.";

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
    chosen: Chosen<TuneSettings>,
}

impl Command {
    pub fn run(self, terminal: &Terminal) -> Result<()> {
        let method = self.chosen.method;
        let (layers, settings) = self.chosen.layers()?;
        let request = Request::from_run(Some(method), layers, settings.from.as_deref())?;
        let tuned = tune::tune(&Tune { request, settings }, &terminal.job())?;
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
    let _ = writeln!(text, "\nbest run: {}", tuned.run);
    if let Some(test) = &tuned.test {
        let _ = write!(text, "\nTest rows, evaluated once:\n{}", evaluation_text(test, false));
    }
    text
}
