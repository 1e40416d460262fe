//! `veridical train METHOD`

use std::fmt::Write as _;

use clap::{Args, Subcommand};
use veridical::core::Job;
use veridical::core::settings::{Settings as _, SettingsLayer};
use veridical::io::run::unfinished;
use veridical::net::TrainNet;
use veridical::net::classifier::TrainClassifier;
use veridical::net::text::TrainText;
use veridical::settings::Start;
use veridical::train::{self, Replay, Request, Run, Train, Trained};
use veridical::{Error, Result, net as nets};

use crate::commands::{classifier, net, text};
use crate::flags::Flags;
use crate::methods::Chosen;
use crate::terminal::Terminal;

pub const ABOUT: &str = "\
Train embeddings on interactions or text, or a network or classifier on labeled examples, and write a run folder.

The folder holds run.json (every setting, seeds, fingerprints of the data), metrics.jsonl (one line per
epoch), vectors/TABLE.parquet with your own ids, the model and the last checkpoint; for a network, its weights
under PyTorch's names. The same seed gives the same bytes for any number of threads; only
`--mode hogwild` gives that up.";

const EXAMPLES: &str = "\
Examples:
  veridical train bpr --interactions ratings.dat --split per-user:50 --sse-item 0.01 --out runs/bpr
  veridical train item2vec --interactions ratings.dat --dim 32 --seeds 10 --out runs/i2v
  veridical train sasrec --interactions ratings.dat --split leave-last-one
  veridical train net --model mlp:512,512 --data mnist/ --out runs/mnist
  veridical train text --text reviews.csv --column text --label-column label --out runs/sentiment
  veridical train classifier --vectors runs/i2v --labels items.csv --out runs/genres
  veridical train --from runs/bpr/run.json --seed 3 --out runs/bpr-3
  veridical train --finish runs/long.partial

`veridical train METHOD --help` lists the settings of a method.";

#[derive(Args, Debug)]
#[command(
    after_help = EXAMPLES,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    arg_required_else_help = true,
    subcommand_help_heading = "Methods"
)]
pub struct Command {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    replay: Flags<Replay>,
}

#[derive(Debug, Subcommand)]
enum What {
    #[command(flatten)]
    Embedding(Chosen<Start>),
    /// Neural network on images, tables or vectors: MLP, CNN, ResNet
    #[command(long_about = net::ABOUT, after_help = net::EXAMPLES)]
    Net(Flags<TrainNet>),
    /// Text classifier: words and pairs of words, or a recurrent network
    #[command(long_about = text::ABOUT, after_help = text::EXAMPLES)]
    Text(Flags<TrainText>),
    /// Classifier of vectors: logistic regression, neighbors, random Fourier features, MLP
    #[command(long_about = classifier::ABOUT, after_help = classifier::EXAMPLES)]
    Classifier(Flags<TrainClassifier>),
}

impl Command {
    pub fn run(self, terminal: &Terminal) -> Result<()> {
        match self.what {
            Some(What::Net(flags)) => net::train(flags.layers()?, &terminal.job(), terminal),
            Some(What::Text(flags)) => text::train(flags.layers()?, &terminal.job(), terminal),
            Some(What::Classifier(flags)) => {
                classifier::train(flags.layers()?, &terminal.job(), terminal)
            }
            Some(What::Embedding(chosen)) => {
                let method = chosen.method;
                let (layers, start) = chosen.layers()?;
                let request = Request::from_run(Some(method), layers, start.from.as_deref())?;
                embedding(Train { request, start }, &terminal.job(), terminal)
            }
            None => replay(self.replay, terminal),
        }
    }
}

/// Trains again with the settings of an earlier run of any kind, or ends an unfinished one.
fn replay(flags: Flags<Replay>, terminal: &Terminal) -> Result<()> {
    let mut given = flags.given()?.clone();
    let mut layers = flags.layers()?;
    let mut job = terminal.job();
    if let Some(partial) = Replay::of(&given)?.finish {
        let own = ["from", "out", "seed", "seeds", "resume", "force"];
        if let Some(name) = own.iter().find(|name| given.contains_key(**name)) {
            let what =
                format!("⟨finish⟩ ends a training as it was started and does not take ⟨{name}⟩");
            return Err(Error::request(what, format!("leave ⟨{name}⟩ out")));
        }
        let out = unfinished(&partial)?;
        given.remove("finish");
        given.insert("from".into(), partial.display().to_string().into());
        given.insert("out".into(), out.display().to_string().into());
        given.insert("resume".into(), true.into());
        layers[0] = SettingsLayer::given(given.clone());
        job.ends_now = true;
    }
    let start = Replay::of(&given)?.start;
    match start.from.as_deref() {
        Some(from) if nets::is_net(from) => net::train(layers, &job, terminal),
        Some(from) if nets::text::is_text(from) => text::train(layers, &job, terminal),
        Some(from) if nets::classifier::is_classifier(from) => {
            classifier::train(layers, &job, terminal)
        }
        from => {
            let mut own = given;
            Start::fields().iter().for_each(|field| drop(own.remove(&field.name)));
            layers[0] = SettingsLayer::given(own);
            let request = Request::from_run(None, layers, from)?;
            embedding(Train { request, start }, &job, terminal)
        }
    }
}

fn embedding(settings: Train, job: &Job<'_>, terminal: &Terminal) -> Result<()> {
    let trained = train::train(&settings, job)?;
    terminal.result("train", &trained, &shown(&trained))?;
    let (out, split) = (&trained.out, trained.split.as_deref());
    let table = trained.runs.first().and_then(|run| run.tables.first());
    terminal.next(&match (split, table) {
        (Some(rule), _) if rule != "none" => format!("veridical evaluate --run {out}"),
        (Some(_), _) => format!("veridical recommend --run {out} --k 20 --out recs.parquet"),
        (None, Some(table)) if settings.start.seeds.is_none() => {
            format!("veridical vectors stats {out} --table {}", table.name)
        }
        (None, _) => format!("ls {out}"),
    });
    Ok(())
}

fn shown(trained: &Trained) -> String {
    let mut text = String::new();
    for run in &trained.runs {
        let Run { folder, seed, tables, fitted, was_finished } = run;
        let _ = write!(text, "{} seed {seed}: {} epochs", trained.method, fitted.epochs); // cannot fail
        if let Some(loss) = fitted.loss {
            let _ = write!(text, ", loss {loss:.4}");
        }
        if let (Some(best), Some(measure)) = (fitted.best, &fitted.measure) {
            let _ = write!(text, ", best {measure} {:.4} at epoch {}", best.value, best.epoch);
        }
        let tables: Vec<String> =
            tables.iter().map(|t| format!("{} {} x {}", t.name, t.rows, t.dim)).collect();
        let verb = if *was_finished { "already finished" } else { "written" };
        let holds =
            if tables.is_empty() { String::new() } else { format!(" ({})", tables.join(", ")) };
        let _ = writeln!(text, "\n  {folder} {verb}{holds}");
    }
    text
}
