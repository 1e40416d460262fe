//! `veridical train METHOD`

use std::fmt::Write as _;

use clap::{Args, Subcommand};
use veridical::train::{self, Run, Train, Trained};
use veridical::{Error, Result, net as nets};

use crate::commands::net::{self, NetArgs};
use crate::commands::text::{self, TextArgs};
use crate::methods::Chosen;
use crate::terminal::Terminal;
use crate::training::{Shared, StartArgs, values};

pub const ABOUT: &str = "\
Learn embeddings from interactions or text, or a network from examples, into a run folder.

The folder holds run.json (every setting, seeds, fingerprints of the data), metrics.jsonl (one line per
epoch), vectors/TABLE.parquet with your own ids, the model and the last checkpoint; of a network, its weights
under PyTorch's names. The same seed gives the same bytes for any number of threads; only
`--mode hogwild` gives that up.";

const EXAMPLES: &str = "\
Examples:
  veridical train bpr --interactions ratings.dat --split per-user:50 --sse-item 0.01 --out runs/bpr
  veridical train item2vec --interactions ratings.dat --dim 32 --seeds 10 --out runs/i2v
  veridical train mf --interactions ratings.dat --sse-graph-item edges.csv --sse-item 0.005
  veridical train als --interactions ratings.dat --validation 0.1 --patience 3
  veridical train doc2vec --text reviews.csv --column text --sse 0.01 --out runs/reviews
  veridical train net --model mlp:512,512 --data mnist/ --epochs 10 --lr 1e-3 --out runs/mnist
  veridical train text --text reviews.csv --column text --label-column label --out runs/sentiment
  veridical train --from runs/bpr/run.json --seed 3 --out runs/bpr-3

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
    replay: StartArgs,
}

#[derive(Debug, Subcommand)]
enum What {
    #[command(flatten)]
    Embedding(Chosen<Shared>),
    /// A network on images or tables: MLP, CNN, ResNet
    #[command(long_about = net::ABOUT)]
    Net(NetArgs),
    /// Documents told apart by a recurrent network on vectors of words
    #[command(long_about = text::ABOUT)]
    Text(Box<TextArgs>),
}

impl Command {
    pub fn run(self, terminal: &Terminal) -> Result<()> {
        if let (None, Some(from)) = (&self.what, &self.replay.from)
            && (nets::is_net(from) || nets::text::is_text(from))
        {
            let mut given = values(&self.replay);
            given.retain(|_, value| !value.is_null());
            let StartArgs { seeds, config, output, .. } = &self.replay;
            let train = if nets::is_net(from) { net::train } else { text::train };
            return train(given, *seeds, Some(from), config.as_deref(), output, terminal);
        }
        let (method, start, given) = match self.what {
            Some(What::Net(args)) => return args.run(terminal),
            Some(What::Text(args)) => return args.run(terminal),
            Some(What::Embedding(Chosen { method, settings, shared })) => {
                let mut settings = settings.map_err(Error::Usage)?;
                settings.extend(values(&shared));
                (Some(method), shared.start, settings)
            }
            None => (None, self.replay.clone(), values(&self.replay)),
        };
        let request = start.request(method, given)?;
        let settings = Train {
            out: start.output.out(request.method.name()),
            seeds: start.seeds,
            if_exists: start.output.if_exists(),
            request,
        };
        let trained = train::train(&settings, terminal)?;
        terminal.result("train", &trained, &shown(&trained))?;
        let (out, split) = (&trained.out, trained.split.as_deref());
        let table = trained.runs.first().and_then(|run| run.tables.first());
        terminal.next(&match (split, table) {
            (Some(rule), _) if rule != "none" => format!("veridical evaluate --run {out}"),
            (Some(_), _) => format!("veridical recommend --run {out} --k 20 --out recs.parquet"),
            (None, Some(table)) if settings.seeds.is_none() => {
                format!("veridical vectors stats {out} --table {}", table.name)
            }
            (None, _) => format!("ls {out}"),
        });
        Ok(())
    }
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
        let verb = if *was_finished { "there already" } else { "written" };
        let holds =
            if tables.is_empty() { String::new() } else { format!(" ({})", tables.join(", ")) };
        let _ = writeln!(text, "\n  {folder} {verb}{holds}");
    }
    text
}
