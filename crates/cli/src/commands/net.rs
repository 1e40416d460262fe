//! `veridical train net`

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use serde_json::{Map, Value};
use veridical::net::{
    self, METHOD, Measures, NetEvaluation, NetRequest, NetRun, Spread, TrainNet, TrainedNet,
};
use veridical::train::Layer;
use veridical::{Error, Result};

use crate::terminal::Terminal;
use crate::training::{OutputArgs, is_unset, values};

pub const ABOUT: &str = "\
Train a network on images or on rows of numbers, into a run folder.

Data: MNIST's idx files, CIFAR's batches, PNG sheets, folders of images by class, or a table with --target.
Models: mlp:512,512 (any widths), cnn-small, cnn:32,max,64,max (3 x 3 convolutions with batch norm, `max` is a
pooling), resnet20, 32, 44 and 56 (the CIFAR family), resnet18 and resnet34. Weights are saved as safetensors
under PyTorch's names. The same seed gives the same bytes for any number of threads; a run that was killed
goes on with --resume.";

const EXAMPLES: &str = "\
Examples:
  veridical train net --model mlp:512,512 --data mnist/ --epochs 10 --lr 1e-3 --out runs/mnist
  veridical train net --model resnet20 --data cifar10/ --optimizer sgd --lr 0.1 --momentum 0.9 \\
      --weight-decay 1e-4 --schedule cosine --flip --crop 4 --epochs 100 --out runs/resnet20
  veridical train net --model mlp:128,128,128 --activation tanh --data table.csv --target price --regression
  veridical train net --model resnet20 --data pets/ --init resnet20.safetensors --freeze features
  veridical train net --model resnet20 --data cifar10/ --init resnet20.safetensors --epochs 0 \\
      --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225 --out runs/theirs
  veridical evaluate --run runs/mnist";

/// Classes that are listed one by one.
const MOST_CLASSES: usize = 40;

/// `--model` and everything else.
#[derive(Args, Clone, Debug, Serialize)]
#[command(after_help = EXAMPLES)]
#[serde(rename_all = "kebab-case")]
pub struct NetArgs {
    #[command(flatten)]
    #[serde(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    #[serde(flatten)]
    data: DataArgs,
    #[command(flatten)]
    #[serde(flatten)]
    training: TrainingArgs,
    #[command(flatten)]
    #[serde(flatten)]
    stopping: StoppingArgs,
    #[command(flatten)]
    #[serde(skip)]
    start: StartArgs,
    /// Seed of everything that is drawn while training, 0 to 2^53 - 1 [default: 0]
    #[arg(long, value_name = "S", help_heading = "Output")]
    seed: Option<u64>,
}

#[derive(Args, Clone, Debug, Serialize)]
#[command(next_help_heading = "Model")]
#[serde(rename_all = "kebab-case")]
struct ModelArgs {
    /// mlp:512,512, cnn-small, cnn:32,max,64,max, resnet20|32|44|56, resnet18|34
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// relu, gelu, tanh, sigmoid, softplus or erf, or normalized-relu and so on; of mlp and cnn-small
    /// [default: relu]
    #[arg(long, value_name = "NAME")]
    activation: Option<String>,
    /// standard, ntk, or ntk:BIAS; of mlp [default: standard]
    #[arg(long, value_name = "NAME")]
    parameterization: Option<String>,
    /// Start at 0 everywhere, with units that cancel in pairs; of mlp
    #[arg(long)]
    #[serde(skip_serializing_if = "is_unset")]
    symmetric: bool,
    /// Leave out hidden values with this probability; of mlp and cnn-small [default: 0]
    #[arg(long, value_name = "P", value_parser = number, allow_negative_numbers = true)]
    dropout: Option<f64>,
    /// Weights to start from: a safetensors file with PyTorch's names, or a run
    #[arg(long, value_name = "FILE_OR_RUN")]
    init: Option<PathBuf>,
    /// Layers that stay as they are: `features` (all but the last), or names such as conv1,layer1
    #[arg(long, value_name = "NAMES")]
    freeze: Option<String>,
}

#[derive(Args, Clone, Debug, Serialize)]
#[command(next_help_heading = "Data")]
#[serde(rename_all = "kebab-case")]
struct DataArgs {
    /// Examples: a folder with idx, CIFAR or image files, or a table
    #[arg(long, value_name = "FILE_OR_FOLDER")]
    data: Option<PathBuf>,
    /// The column of a table to predict; several for regression
    #[arg(long, value_name = "COLUMN,COLUMN")]
    target: Option<String>,
    /// Targets are numbers, not classes
    #[arg(long)]
    #[serde(skip_serializing_if = "is_unset")]
    regression: bool,
    /// Learn to tell only these classes
    #[arg(long, value_name = "NAME,NAME")]
    classes: Option<String>,
    /// Columns of a table that are no inputs
    #[arg(long, value_name = "COLUMN,COLUMN")]
    ignore_columns: Option<String>,
    /// The first line of a table is data; columns are called 0, 1, 2, ...
    #[arg(long)]
    #[serde(skip_serializing_if = "is_unset")]
    no_header: bool,
    /// Encoding of text files [default: utf-8]
    #[arg(long, value_name = "NAME")]
    encoding: Option<String>,
    /// data: subtract the mean of the training examples and divide by their deviation, channel by channel
    /// (of tables: column by column); none: as they are, bytes as 0 to 1 [default: data]
    #[arg(long, value_name = "HOW", value_parser = ["data", "none"], hide_possible_values = true)]
    normalize: Option<String>,
    /// Subtract these from the channels instead, with bytes as 0 to 1
    #[arg(long, value_name = "X,X,X", allow_hyphen_values = true)]
    mean: Option<String>,
    /// Divide the channels by these
    #[arg(long, value_name = "X,X,X", allow_hyphen_values = true)]
    std: Option<String>,
    /// Learn from N examples, drawn by --split-seed
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Share of the examples that is kept back to judge on while training [default: 0]
    #[arg(long, value_name = "SHARE", value_parser = number, allow_negative_numbers = true)]
    validation: Option<f64>,
    /// Seed of --limit and --validation, apart from --seed [default: 0]
    #[arg(long, value_name = "S")]
    split_seed: Option<u64>,
    /// Mirror images left and right with probability 1/2
    #[arg(long)]
    #[serde(skip_serializing_if = "is_unset")]
    flip: bool,
    /// Move images by up to N pixels, over a border of zeros [default: 0]
    #[arg(long, value_name = "N")]
    crop: Option<usize>,
}

#[derive(Args, Clone, Debug, Serialize)]
#[command(next_help_heading = "Training")]
#[serde(rename_all = "kebab-case")]
struct TrainingArgs {
    /// Passes over the examples; 0 with --init takes weights into a run [default: 10]
    #[arg(long, value_name = "N")]
    epochs: Option<u32>,
    /// Examples of a step [default: 128; of gd all]
    #[arg(long, value_name = "N")]
    batch: Option<usize>,
    /// gd (all examples at once), sgd, adam, adamw or adagrad [default: adam]
    #[arg(long, value_name = "NAME", value_parser = ["gd", "sgd", "adam", "adamw", "adagrad"], hide_possible_values = true)]
    optimizer: Option<String>,
    /// Learning rate [default: adam, adamw 0.001; sgd, gd 0.1; adagrad 0.01]
    #[arg(long, value_name = "X", value_parser = number, allow_negative_numbers = true)]
    lr: Option<f64>,
    /// Of gd and sgd [default: 0]
    #[arg(long, value_name = "X", value_parser = number, allow_negative_numbers = true)]
    momentum: Option<f64>,
    /// Nesterov's momentum
    #[arg(long)]
    #[serde(skip_serializing_if = "is_unset")]
    nesterov: bool,
    /// Weight decay; adamw's is decoupled [default: 0; adamw 0.01]
    #[arg(long, value_name = "X", value_parser = number, allow_negative_numbers = true)]
    weight_decay: Option<f64>,
    /// constant, cosine (to 0), or step:EVERY,FACTOR with EVERY in epochs [default: constant]
    #[arg(long, value_name = "CURVE")]
    schedule: Option<String>,
    /// Steps on which the rate rises to its value [default: 0]
    #[arg(long, value_name = "STEPS")]
    warmup: Option<u64>,
    /// Scale gradients of a larger norm down to it
    #[arg(long, value_name = "NORM", value_parser = number, allow_negative_numbers = true)]
    clip: Option<f64>,
    /// cross-entropy, squared or binary-cross-entropy (two classes, one output) [default: cross-entropy;
    /// squared with --regression]
    #[arg(long, value_name = "NAME", value_parser = ["cross-entropy", "squared", "binary-cross-entropy"], hide_possible_values = true)]
    loss: Option<String>,
    /// How much of a target is spread over all classes [default: 0]
    #[arg(long, value_name = "SHARE", value_parser = number, allow_negative_numbers = true)]
    label_smoothing: Option<f64>,
}

#[derive(Args, Clone, Debug, Serialize)]
#[command(next_help_heading = "Early stopping and checkpoints")]
#[serde(rename_all = "kebab-case")]
pub struct StoppingArgs {
    /// Stop after N epochs without a lower loss, on the validation examples (then the best epoch is kept) or on
    /// the training examples
    #[arg(long, value_name = "N")]
    patience: Option<u32>,
    /// What counts as lower; `--patience 3 --min-delta 1e-4` is usual for recommenders [default: 0]
    #[arg(long, value_name = "X", value_parser = number, allow_negative_numbers = true)]
    min_delta: Option<f64>,
    /// Steps between two checkpoints [default: by time, a twentieth of it at most]
    #[arg(long, value_name = "STEPS")]
    checkpoint_every: Option<u64>,
}

/// What a training of a network starts from, and where it goes to.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Output")]
pub struct StartArgs {
    /// Train N runs with the seeds S, S+1, ... into OUT/seed-S, OUT/seed-S+1, ...
    #[arg(long, value_name = "N")]
    pub seeds: Option<u64>,
    /// Settings of an earlier run: every one that is not given here, and the data it was trained on
    #[arg(long, value_name = "RUN")]
    pub from: Option<PathBuf>,
    /// TOML file with the names of flags
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// A finite number.
pub fn number(text: &str) -> std::result::Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|x| x.is_finite());
    value.ok_or_else(|| "it must be a number".to_owned())
}

impl NetArgs {
    pub fn run(self, terminal: &Terminal) -> Result<()> {
        let given = values(&self);
        let StartArgs { seeds, from, config, output } = self.start;
        train(given, seeds, from.as_deref(), config.as_deref(), &output, terminal)
    }
}

/// Trains with the flags that were given, over `--config` and `--from`.
pub fn train(
    given: Map<String, Value>,
    seeds: Option<u64>,
    from: Option<&Path>,
    config: Option<&Path>,
    output: &OutputArgs,
    terminal: &Terminal,
) -> Result<()> {
    let earlier = |from: &Path| match net::is_net(from) {
        true => net::layer_of(from),
        false => {
            let what = "is no run of a network; name one, or its run.json";
            Err(Error::Usage(format!("--from {} {what}", from.display())))
        }
    };
    let settings = TrainNet {
        request: NetRequest::new(&layers(given, config, from, earlier)?)?,
        out: output.out(METHOD),
        seeds,
        if_exists: output.if_exists(),
    };
    report(&net::train(&settings, terminal)?, terminal)
}

/// Flags that were given, over `--config` and `--from`; `earlier` reads a run.
pub fn layers(
    given: Map<String, Value>,
    config: Option<&Path>,
    from: Option<&Path>,
    earlier: impl Fn(&Path) -> Result<Layer>,
) -> Result<Vec<Layer>> {
    let mut layers = vec![Layer::given(given)];
    layers.extend(config.map(Layer::toml).transpose()?);
    layers.extend(from.map(earlier).transpose()?);
    Ok(layers)
}

/// What was trained, and what comes next.
pub fn report(trained: &TrainedNet, terminal: &Terminal) -> Result<()> {
    terminal.result("train", trained, &text(trained))?;
    terminal.next(&format!("veridical evaluate --run {}", trained.out));
    Ok(())
}

fn text(trained: &TrainedNet) -> String {
    let mut text = String::new();
    for NetRun { folder, seed, learnt, was_finished } in &trained.runs {
        let (model, parameters) = (&trained.model, trained.parameters);
        let _ =
            write!(text, "{model} ({parameters} weights) seed {seed}: {} epochs", learnt.epochs); // cannot fail
        let stopped = if learnt.stopped_early { ", stopped early" } else { "" };
        let mut parts = Vec::new();
        parts.extend(learnt.loss.map(|loss| format!("loss {loss:.4}")));
        parts.extend(learnt.accuracy.map(|share| format!("accuracy {:.2} %", 100.0 * share)));
        if let Some(judged) = learnt.validation {
            parts.push(format!("validation loss {:.4}", judged.loss));
            parts.extend(judged.accuracy.map(|share| format!("accuracy {:.2} %", 100.0 * share)));
            parts.extend(judged.rmse.map(|rmse| format!("rmse {rmse:.4}")));
            parts.extend(learnt.best.map(|best| format!("best epoch {}", best.epoch)));
        }
        let parts =
            if parts.is_empty() { String::new() } else { format!(", {}", parts.join(", ")) };
        let verb = if *was_finished { "there already" } else { "written" };
        let _ = writeln!(text, "{stopped}{parts}\n  {folder} {verb}");
    }
    text
}

/// The evaluation of networks.
pub fn judged_text(evaluation: &NetEvaluation) -> String {
    let mut text = String::new();
    for model in &evaluation.models {
        let seeds = match model.seeds.len() {
            1 => String::new(),
            n => format!(", {n} seeds"),
        };
        let n = model.runs.first().map_or(0, |run| run.n);
        let _ = writeln!(text, "{} ({}, {n} examples{seeds})", model.name, model.model); // cannot fail
        match model.runs.as_slice() {
            [one] => text.push_str(&one_text(one, &evaluation.classes)),
            _ => {
                let mut line = |name: &str, spread: Option<Spread>, scale: f64, unit: &str| {
                    let Some(Spread { mean, sd: Some(sd) }) = spread else { return };
                    let (mean, sd) = (scale * mean, scale * sd);
                    let _ = writeln!(text, "  {name:<10}{mean:.4}{unit}, sd {sd:.4} over seeds");
                };
                line("accuracy", model.accuracy, 100.0, " %");
                line("rmse", model.rmse, 1.0, "");
                line("loss", Some(model.loss), 1.0, "");
            }
        }
    }
    for note in &evaluation.notes {
        let _ = writeln!(text, "\nnote: {note}");
    }
    text
}

/// One run: its measures, and every class if they are few.
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
