//! `veridical evaluate [ranking|ratings]`

use std::fmt::Write as _;

use serde::Serialize;
use veridical::evaluate::{self, Evaluate, EvaluatedModel, Evaluation, shown};
use veridical::io::publish;
use veridical::{Result, net};

use crate::commands::net::evaluation_text;
use crate::flags::Flags;
use crate::terminal::Terminal;
use crate::typed::typed;

pub const ABOUT: &str = "\
Evaluate runs, or any pair of user and item vector tables, on held-out interactions.

A run is evaluated on exactly its own split. Rankings are evaluated under three protocols, side by side: against all
items the user has not trained on, against 100 items sampled uniformly, and against 100 sampled by popularity.
The two sampled protocols flatter weak models; quote the first. Baselines are trained on the same rows.

A network is evaluated on the test set of its data, or of --data: accuracy with a 95 % interval and per class, or
RMSE, MAE and R2 for regression; a text model on its test documents. The runs of an ensemble count as one model,
with mean and standard deviation over seeds.";

pub const EXAMPLES: &str = "\
Examples:
  veridical evaluate --run runs/bpr
  veridical evaluate ranking --run runs/bpr runs/als --k 1,5,10 --html report.html
  veridical evaluate ratings --run runs/mf
  veridical evaluate --run runs/mnist --data mnist/ --html mnist.html
  veridical evaluate --users U.npy --items I.npy --interactions r.csv --split temporal:0.2";

pub fn run(flags: Flags<Evaluate>, terminal: &Terminal) -> Result<()> {
    let settings = flags.settings("evaluate")?;
    if let Some(path) = &settings.out {
        publish::check_new(path, settings.replace.force)?;
    }
    if settings.run.iter().any(|run| net::is_network(run)) {
        let evaluation = net::evaluate(&settings, &terminal.job())?;
        write_files(&settings, || evaluation.to_html(&typed()), &evaluation, terminal)?;
        terminal.result("evaluate-net", &evaluation, &evaluation_text(&evaluation))?;
        if let [run] = settings.run.as_slice()
            && net::is_net(run)
        {
            terminal.next(&format!("veridical refit-head --run {run} --out {run}-refit"));
        }
        return Ok(());
    }
    let evaluation = evaluate::evaluate(&settings, &terminal.job())?;
    write_files(&settings, || evaluation.to_html(&typed()), &evaluation, terminal)?;
    terminal.result("evaluate", &evaluation, &text(&evaluation))?;
    if let Some(run) = settings.run.first() {
        terminal.next(&format!("veridical recommend --run {run} --k 20 --out recs.parquet"));
    }
    Ok(())
}

/// Writes the page and the JSON file if they were requested.
fn write_files(
    settings: &Evaluate,
    page: impl FnOnce() -> String,
    numbers: &impl Serialize,
    terminal: &Terminal,
) -> Result<()> {
    terminal.write_page(settings.html.as_ref(), page)?;
    terminal.write_page(settings.out.as_ref(), || {
        // INVARIANT: an evaluation is numbers and strings.
        let json = serde_json::to_string_pretty(numbers).expect("an evaluation serializes");
        format!("{json}\n")
    })
}

pub fn text(evaluation: &Evaluation) -> String {
    let mut text = format!(
        "{} held-out rows, split {}; 95 % intervals over users and seeds\n",
        evaluation.test_rows, evaluation.split
    );
    let protocols = evaluation.protocols();
    for model in &evaluation.models {
        let _ = writeln!(text, "\n{}", title(model)); // writing to a String cannot fail
        if let Some(report) = &model.ranking {
            let head: String = protocols.iter().map(|name| format!("{name:<18}")).collect();
            let _ = writeln!(text, "  {:<14}{}", "", head.trim_end());
            for measure in evaluation.measures() {
                let cell = |protocol: &String| {
                    let value = report.get(protocol, &measure).map_or("-".into(), shown);
                    format!("{value:<18}")
                };
                let cells: String = protocols.iter().map(cell).collect();
                let _ = writeln!(text, "  {measure:<14}{}", cells.trim_end());
            }
        }
        if let Some(ratings) = &model.ratings {
            let _ = writeln!(text, "  {:<14}{}", "rmse", shown(ratings.rmse));
            let _ = writeln!(text, "  {:<14}{}", "mae", shown(ratings.mae));
        }
    }
    for note in &evaluation.notes {
        let _ = writeln!(text, "\nnote: {note}");
    }
    text
}

fn title(model: &EvaluatedModel) -> String {
    let estimate = model.ranking.as_ref().and_then(|report| report.protocols.first());
    let estimate = estimate.and_then(|protocol| protocol.measures.first()).map(|m| m.estimate);
    let users = estimate.or(model.ratings.map(|ratings| ratings.rmse)).map_or(0, |e| e.n);
    let kind = match (model.is_baseline, model.method) {
        (true, _) => "baseline, ".to_owned(),
        (false, Some(method)) => format!("{method}, "),
        (false, None) => String::new(),
    };
    let seeds = match model.seeds.len() {
        0 | 1 => String::new(),
        n => format!(", {n} seeds"),
    };
    format!("{} ({kind}{users} users{seeds})", model.name)
}
