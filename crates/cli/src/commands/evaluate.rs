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

A run is evaluated on exactly its own split. The table ranks all items the user has not trained on and compares every
model with the best baseline, user by user; baselines are trained on the same rows. With --all it shows every metric
under three protocols: all items, 100 sampled uniformly, and 100 sampled by popularity. The two sampled protocols
flatter weak models; quote the first.

A network is evaluated on the test set of its data, or of --data: accuracy with a 95 % interval and per class, or
RMSE, MAE and R2 for regression; a text model on its test documents. The runs of an ensemble count as one model,
with mean and standard deviation over seeds.";

pub const EXAMPLES: &str = "\
Examples:
  veridical evaluate --run runs/bpr
  veridical evaluate ranking --run runs/bpr runs/als --measures ndcg@20,mrr --html report.html
  veridical evaluate --run runs/sasrec --keep-history --all
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
    terminal.result("evaluate", &evaluation, &text(&evaluation, settings.all))?;
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

pub fn text(evaluation: &Evaluation, all: bool) -> String {
    let mut text = format!(
        "{} held-out rows, split {}; 95 % intervals over users and seeds\n",
        evaluation.test_rows, evaluation.split
    );
    let mut rows = vec![header(evaluation)];
    rows.extend(evaluation.models.iter().map(|model| row(evaluation, model)));
    text.push('\n');
    text.push_str(&aligned(&rows));
    if all {
        every_measure(&mut text, evaluation);
    }
    for note in &evaluation.notes {
        let _ = writeln!(text, "\nnote: {note}"); // writing to a String cannot fail
    }
    text
}

/// The names of the columns.
fn header(evaluation: &Evaluation) -> Vec<String> {
    let mut header = vec!["model".to_owned()];
    if evaluation.models.iter().any(|model| model.ratings.is_some()) {
        header.extend(["rmse".to_owned(), "mae".to_owned()]);
    }
    header.extend(evaluation.columns.iter().cloned());
    if let Some(versus) = evaluation.models.iter().find_map(|model| model.versus.as_ref()) {
        let first = evaluation.columns.first().map_or("", String::as_str);
        header.push(format!("{first} - {}", versus.baseline));
    }
    header
}

fn row(evaluation: &Evaluation, model: &EvaluatedModel) -> Vec<String> {
    let mut row = vec![title(model)];
    if let Some(ratings) = &model.ratings {
        row.extend([shown(ratings.rmse), shown(ratings.mae)]);
    }
    if let Some(report) = &model.ranking {
        let cell = |name| report.get("full", name).map_or("-".into(), shown);
        row.extend(evaluation.columns.iter().map(|name| cell(name)));
    }
    let difference = model.versus.as_ref().and_then(|versus| versus.differences.first());
    row.extend(difference.map(|d| {
        let sign = if d.estimate.value >= 0.0 { "+" } else { "" };
        format!("{sign}{}", shown(d.estimate))
    }));
    row
}

/// Lines of cells in columns.
fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |at: usize| {
        rows.iter()
            .filter_map(|row| row.get(at))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        format!("  {}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

/// Every metric of every model under every protocol.
fn every_measure(text: &mut String, evaluation: &Evaluation) {
    let protocols = evaluation.protocols();
    for model in &evaluation.models {
        let Some(report) = &model.ranking else { continue };
        let _ = writeln!(text, "\n{}", title(model));
        let mut rows = vec![[String::new()].into_iter().chain(protocols.clone()).collect()];
        for measure in evaluation.measures() {
            let cell = |protocol: &String| report.get(protocol, &measure).map_or("-".into(), shown);
            let cells: Vec<String> = protocols.iter().map(cell).collect();
            rows.push([measure].into_iter().chain(cells).collect());
        }
        text.push_str(&aligned(&rows));
    }
}

/// The name of a model, with the number of its seeds; baselines are marked.
fn title(model: &EvaluatedModel) -> String {
    let kind = match (model.is_baseline, model.seeds.len()) {
        (true, _) => " (baseline)".to_owned(),
        (false, 0 | 1) => String::new(),
        (false, n) => format!(" ({n} seeds)"),
    };
    format!("{}{kind}", model.name)
}
