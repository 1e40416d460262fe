//! `veridical featurize plan`

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{ArgGroup, Args};
use serde_json::json;
use veridical::Result;
use veridical::data::Source;
use veridical::featurize::{self, Answer, Goal, NewSpec, Plan, Planned};

use super::describe::bytes;
use super::map::MapArgs;
use crate::args::ReadArgs;
use crate::terminal::Terminal;

const EXAMPLES: &str = "\
Examples:
  veridical featurize plan --data items.parquet --epsilon 0.05
  veridical featurize plan --data items.parquet --output-dim 512 --directions hadamard
  veridical featurize plan --input-dim 128 --epsilon 0.05 --confidence 0.99

The error of a pair is |<phi(x), phi(y)> - k(x, y)|. Bounds from theory hold for data nobody has; with
--data the errors of random pairs of your rows are measured and widths are tested from the largest
down until one fails, so the width that is left holds with the stated confidence.";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, group = ArgGroup::new("goal").required(true).args(["epsilon", "output_dim"]))]
pub struct PlanArgs {
    /// The error to reach; asks for the width
    #[arg(long, value_name = "E", allow_hyphen_values = true)]
    epsilon: Option<f64>,
    /// The width to judge; asks for the error
    #[arg(long, value_name = "D")]
    output_dim: Option<usize>,
    /// Probability with which a bound holds
    #[arg(long, value_name = "P", default_value_t = 0.99, allow_hyphen_values = true)]
    confidence: f64,
    /// Width of the vectors; taken from --data if that is given
    #[arg(long, value_name = "d")]
    input_dim: Option<usize>,
    /// Table to measure errors on
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// Widths above this are not tried on --data
    #[arg(long, value_name = "D", default_value_t = 16_384)]
    max_output_dim: usize,
    #[command(flatten)]
    map: MapArgs,
    #[command(flatten)]
    read: ReadArgs,
}

impl PlanArgs {
    pub fn run(self, terminal: &Terminal) -> Result<()> {
        let data = self.data.as_ref().map(Source::from_arg);
        // INVARIANT: clap asks for exactly one of the two.
        let goal = match (self.epsilon, self.output_dim) {
            (Some(epsilon), _) => Goal::Epsilon(epsilon),
            (None, output_dim) => Goal::OutputDim(output_dim.expect("clap asks for a goal")),
        };
        let settings = Plan {
            map: NewSpec {
                input_dim: self.input_dim,
                data: data.clone(),
                read: self.read.options(),
                ..self.map.settings(data.is_some())
            },
            goal,
            confidence: self.confidence,
            max_output_dim: self.max_output_dim,
        };
        let planned = featurize::plan(&settings, terminal)?;
        let result = json!({ "action": "plan", "result": planned });
        terminal.result("featurize", &result, &text(&planned, goal))?;
        match (&data, planned.recommended_output_dim) {
            (Some(data), Some(output_dim)) => terminal.next(&format!(
                "veridical featurize new --data {data} --output-dim {output_dim}{} --out spec.json",
                self.map
            )),
            _ => terminal.next("veridical featurize plan --data FILE with the same flags"),
        }
        Ok(())
    }
}

fn text(planned: &Planned, goal: Goal) -> String {
    let mut text = String::new();
    let Planned { input_dim, kernel, length_scale, directions, normalize, confidence, .. } =
        planned;
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "{input_dim} values, {kernel} kernel, length scale {length_scale:.6}, {directions}, normalize \
         {normalize}, confidence {confidence}"
    );
    if let (Some(pairs), Some(rows)) = (planned.n_pairs, planned.n_rows) {
        let _ = writeln!(text, "measured on {pairs} disjoint random pairs of {rows} rows");
    }
    text.push('\n');
    let first = if matches!(goal, Goal::Epsilon(_)) { "D" } else { "error" };
    let _ = writeln!(
        text,
        "{first:>10} {:>10} {:>12}  {:<26}  what it bounds",
        "row", "100M rows", "use"
    );
    for answer in &planned.answers {
        let _ = writeln!(text, "{}", line(answer, goal));
    }
    if let (Some(output_dim), Goal::Epsilon(epsilon)) = (planned.recommended_output_dim, goal) {
        let _ = writeln!(
            text,
            "\nrecommended: D = {output_dim}; 95 % of the pairs of your data are within {epsilon}"
        );
    }
    text
}

fn line(answer: &Answer, goal: Goal) -> String {
    let Answer { bounds, label, .. } = answer;
    if let Some(why) = &answer.why_not {
        return format!("{:>10} {:>10} {:>12}  {label:<26}  {bounds}: {why}", "-", "-", "-");
    }
    let first = match goal {
        Goal::Epsilon(_) => answer.output_dim.map(|d| d.to_string()),
        Goal::OutputDim(_) => answer.epsilon.map(|e| format!("{e:.4}")),
    };
    let row = answer.bytes_per_row.map(|b| bytes(b as usize)).unwrap_or_default();
    let many = answer.gb_per_100m_rows.map(|gb| format!("{gb:.1} GB")).unwrap_or_default();
    let first = first.unwrap_or_default();
    format!("{first:>10} {row:>10} {many:>12}  {label:<26}  {bounds}")
}
