//! `veridical train net`

use std::fmt::Write as _;

use veridical::Result;
use veridical::core::settings::SettingsLayer;
use veridical::core::{Estimate, Job};
use veridical::net::{self, McNemar, Measures, NetEvaluation, NetRun, TrainNet, TrainedNet};

use crate::terminal::Terminal;

pub const ABOUT: &str = "\
Train a network on images or a numeric table, and write it to a run folder.

Data: MNIST idx files, CIFAR batches, PNG sheets, image folders (one folder per class), or a table with --target.
Models: mlp:512,512 (any widths), cnn-small, cnn:32,max,64,max (3 x 3 convolutions with batch norm; `max` is
max pooling), resnet20, 32, 44 and 56 (the CIFAR family), resnet18 and resnet34. Weights are saved as safetensors
under PyTorch's names. The same seed gives the same bytes for any number of threads; a killed run continues
with --resume.";

pub const EXAMPLES: &str = "\
Examples:
  veridical train net --model mlp:512,512 --data mnist/ --epochs 10 --lr 1e-3 --out runs/mnist
  veridical train net --model resnet20 --data cifar10/ --optimizer sgd --lr 0.1 --momentum 0.9 \\
      --weight-decay 1e-4 --schedule cosine --flip --crop 4 --epochs 100 --out runs/resnet20
  veridical train net --model mlp:64,64 --data t.csv --target price --regression
  veridical train net --model resnet20 --data pets/ --init resnet20.safetensors --freeze features
  veridical train net --model resnet20 --data cifar10/ --init resnet20.safetensors --epochs 0 \\
      --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225 --out runs/theirs";

/// Per-class results are printed for at most this many classes.
const MOST_CLASSES: usize = 40;

/// Trains a network from layers of settings, highest priority first.
pub fn train(layers: Vec<SettingsLayer>, job: &Job<'_>, terminal: &Terminal) -> Result<()> {
    report(&net::train(&TrainNet::new(layers)?, job)?, terminal)
}

/// Reports the result of training and suggests the next command.
pub fn report(trained: &TrainedNet, terminal: &Terminal) -> Result<()> {
    terminal.result(&format!("train-{}", trained.method), trained, &text(trained))?;
    terminal.next(&format!("veridical evaluate --run {}", trained.out));
    Ok(())
}

fn text(trained: &TrainedNet) -> String {
    let mut text = String::new();
    for NetRun { folder, seed, learned, was_finished } in &trained.runs {
        let (model, parameters) = (&trained.model, trained.parameters);
        let what = match (learned.epochs, learned.steps) {
            (0, 0) => "fitted".to_owned(),
            (0, steps) => format!("{steps} iterations"),
            (epochs, _) => format!("{epochs} epochs"),
        };
        let _ = write!(text, "{model} ({parameters} weights) seed {seed}: {what}"); // cannot fail
        let stopped = if learned.stopped_early { ", stopped early" } else { "" };
        let mut parts = Vec::new();
        parts.extend(learned.loss.map(|loss| format!("training loss {loss:.4}")));
        parts.extend(learned.accuracy.map(|share| format!("accuracy {:.2} %", 100.0 * share)));
        if let Some(validation) = learned.validation {
            parts.push(format!("validation loss {:.4}", validation.loss));
            parts.extend(
                validation.accuracy.map(|share| format!("accuracy {:.2} %", 100.0 * share)),
            );
            parts.extend(validation.rmse.map(|rmse| format!("rmse {rmse:.4}")));
            parts.extend(learned.best.map(|best| format!("best epoch {}", best.epoch)));
        }
        let parts =
            if parts.is_empty() { String::new() } else { format!(", {}", parts.join(", ")) };
        let verb = if *was_finished { "already finished" } else { "written" };
        let _ = writeln!(text, "{stopped}{parts}\n  {folder} {verb}");
    }
    text
}

/// Formats the evaluation of networks.
pub fn evaluation_text(evaluation: &NetEvaluation) -> String {
    let mut text = String::new();
    for model in evaluation.models.iter().filter(|model| !model.is_baseline) {
        let seeds = match model.seeds.len() {
            1 => String::new(),
            n => format!(", {n} seeds"),
        };
        let n = model.runs.first().map_or(0, |run| run.n);
        let _ = writeln!(text, "{} ({}, {n} examples{seeds})", model.name, model.model); // cannot fail
        match model.runs.as_slice() {
            [one] => text.push_str(&one_text(one, &evaluation.classes)),
            _ => {
                let mut line = |name: &str,
                                found: [Option<Estimate>; 2],
                                scale: f64,
                                unit: &str| {
                    let [Some(mean), Some(sd)] = found.map(|e| e.map(|e| scale * e.value)) else {
                        return;
                    };
                    let _ = writeln!(text, "  {name:<10}{mean:.4}{unit}, sd {sd:.4} over seeds");
                };
                line("accuracy", [model.accuracy, model.accuracy_sd], 100.0, " %");
                line("rmse", [model.rmse, model.rmse_sd], 1.0, "");
                line("loss", [Some(model.loss), model.loss_sd], 1.0, "");
            }
        }
    }
    let baselines: Vec<_> = evaluation.models.iter().filter(|model| model.is_baseline).collect();
    if !baselines.is_empty() {
        text.push_str("\nbaselines on the same examples\n");
    }
    for model in baselines {
        let accuracy = model.accuracy.map_or(String::new(), |share| share.percent());
        let _ =
            writeln!(text, "  {:<16}accuracy {accuracy}, loss {:.4}", model.name, model.loss.value);
    }
    for (model, versus) in evaluation.models.iter().filter_map(|m| Some((m, m.versus.as_ref()?))) {
        let McNemar { baseline, only_model, only_baseline, p } = versus;
        let _ = writeln!(
            text,
            "  {} against {baseline}: {only_model} examples only it has right, {only_baseline} only {baseline} (McNemar p {})",
            model.name,
            p_value(*p)
        );
    }
    for note in &evaluation.notes {
        let _ = writeln!(text, "\nnote: {note}");
    }
    text
}

fn p_value(p: f64) -> String {
    if p < 1e-4 { "< 0.0001".into() } else { format!("= {p:.4}") }
}

/// Formats the metrics of one run, and those of every class if there are few.
fn one_text(measures: &Measures, classes: &[String]) -> String {
    let mut text = String::new();
    if let Some(accuracy) = measures.accuracy {
        let _ = writeln!(text, "  {:<10}{}", "accuracy", accuracy.percent()); // cannot fail
    }
    let mut line = |name: &str, value: Option<f64>| {
        let Some(value) = value else { return };
        let _ = writeln!(text, "  {name:<10}{value:.4}");
    };
    line("loss", Some(measures.loss));
    line("rmse", measures.rmse);
    line("mae", measures.mae);
    line("r2", measures.r2);
    if !classes.is_empty() && classes.len() <= MOST_CLASSES {
        let width = classes.iter().map(String::len).max().unwrap_or(0).max(5) + 2;
        let _ = writeln!(text, "\n  {:<width$}{:>8}  accuracy", "class", "examples");
        for ((name, share), row) in classes.iter().zip(measures.by_class()).zip(&measures.confusion)
        {
            let n: u64 = row.iter().sum();
            let share = if n > 0 { share.percent() } else { "-".into() };
            let _ = writeln!(text, "  {name:<width$}{n:>8}  {share}");
        }
    }
    text
}
