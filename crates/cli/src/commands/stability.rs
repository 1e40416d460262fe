//! `veridical stability [budget]`

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;
use veridical::core::Seed;
use veridical::data::{ColumnMap, LabelOptions, NameOptions, write_atomically};
use veridical::inspect::{Kind, Limit};
use veridical::stability::{self, Settings, Stability, StabilityReport, read_budget};
use veridical::{Error, Observer, Result, featurize};

use crate::args::ReadArgs;
use crate::terminal::Terminal;
use crate::typed::typed;

pub const ABOUT: &str = "\
Say whether a refresh of vectors is safe to ship.

Two or more tables of the same things are joined on their ids and compared: are the ids and norms sane, did coordinates
move, did the geometry (the Gram matrix) hold, which neighbours changed, what do models lose that are retrained and
models that are not. `--noise-floor` puts beside every number what training again on the same data changes; limits make
it a gate with an exit code. docs/stability.md explains each number and when it misleads.";

const EXAMPLES: &str = "\
Examples:
  veridical stability yesterday.parquet today.parquet
  veridical stability yesterday.parquet today.parquet --budget budget.toml --html report.html
  veridical stability runs/i2v/seed-* --labels genres.csv --spec spec.json --html stability.html
  veridical stability yesterday.parquet today.parquet --noise-floor runs/i2v --weights sales.csv
  veridical stability monday.parquet today.parquet --min-cka 0.9 --min-nn-overlap 0.5 --markdown
  veridical stability budget runs/i2v/seed-* --out budget.toml

Exit codes: 0 compared (and all limits kept), 1 a limit was not kept, 2 bad input.";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct Command {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    compare: Box<Compare>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Propose limits from runs on identical data.
    Budget(Box<Budget>),
}

#[derive(Args, Debug)]
struct Compare {
    /// Two or more vector tables, run folders or ensembles; the first is the reference
    #[arg(value_name = "TABLE", required = true)]
    tables: Vec<PathBuf>,
    /// Runs on identical data (or past days): what they differ by stands beside every number
    #[arg(long, value_name = "RUN", num_args = 1..)]
    noise_floor: Vec<PathBuf>,
    #[command(flatten)]
    labels: LabelArgs,
    /// What ids are called: MovieLens `::`, CSV, TSV or Parquet
    #[arg(long, value_name = "FILE")]
    names: Option<PathBuf>,
    /// How much ids weigh (id, weight): heavy ids are probed more often and reported first
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    /// Feature spec that consumers use [default: gaussian, median length scale]
    #[arg(long, value_name = "FILE")]
    spec: Option<PathBuf>,
    /// Downstream models, a TOML list of `consumer` with name, table, queries, labels
    #[arg(long, value_name = "FILE")]
    consumers: Option<PathBuf>,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    sizes: SizeArgs,
    #[command(flatten)]
    outputs: OutputArgs,
    #[command(flatten)]
    read: ReadArgs,
}

#[derive(Args, Debug)]
struct Budget {
    /// Runs on identical data, at least two: an ensemble, or its seeds
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,
    /// Budget to write [default: stdout]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Replace a budget that is there
    #[arg(long)]
    force: bool,
    /// How much ids weigh (id, weight): heavy ids are probed more often
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    #[command(flatten)]
    sizes: SizeArgs,
    #[command(flatten)]
    read: ReadArgs,
}

#[derive(Args, Debug)]
struct LabelArgs {
    /// Classes of ids: models with labels are compared
    #[arg(long, value_name = "FILE")]
    labels: Option<PathBuf>,
    /// Column of the classes, by name or number [default: `class`, `label`, `genres`, .. or the last]
    #[arg(long, value_name = "NAME", requires = "labels")]
    label_column: Option<String>,
    /// Encoding of labels and names [default: utf-8]
    #[arg(long, value_name = "NAME")]
    label_encoding: Option<String>,
    /// Leave out classes that have fewer ids than folds
    #[arg(long, requires = "labels")]
    drop_rare_classes: bool,
    /// Folds of the models
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(2..=100))]
    folds: u32,
    /// Multiples of the dimension that feature maps are tried at
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_value = "2,4,8")]
    multiples: Vec<u32>,
}

/// One flag for every measure.
#[derive(Args, Debug)]
#[command(next_help_heading = "Limits (exit code 1 when one is not kept)")]
pub struct LimitArgs {
    /// File of limits (TOML)
    #[arg(long, value_name = "FILE")]
    pub budget: Option<PathBuf>,
    /// Least share of the reference's ids
    #[arg(long, value_name = "SHARE")]
    min_shared_ids: Option<f64>,
    /// Most new ids, as a share of today's
    #[arg(long, value_name = "SHARE")]
    max_new_ids: Option<f64>,
    /// Most vectors of zeros, as a share
    #[arg(long, value_name = "SHARE")]
    max_zero_vectors: Option<f64>,
    /// Most vectors that repeat another, as a share
    #[arg(long, value_name = "SHARE")]
    max_duplicate_vectors: Option<f64>,
    /// Most change of the median norm, relative
    #[arg(long, value_name = "X")]
    max_norm_change: Option<f64>,
    /// Least nearest-neighbour overlap
    #[arg(long, value_name = "SHARE")]
    min_nn_overlap: Option<f64>,
    /// Least debiased linear CKA
    #[arg(long, value_name = "X")]
    min_cka: Option<f64>,
    /// Least debiased kernel CKA
    #[arg(long, value_name = "X")]
    min_kernel_cka: Option<f64>,
    /// Most that may be left after alignment
    #[arg(long, value_name = "X")]
    max_procrustes_residual: Option<f64>,
    /// Most noise of inner products, relative to their spread
    #[arg(long, value_name = "X")]
    max_gram_noise: Option<f64>,
    /// Most noise of kernel values, relative to their spread
    #[arg(long, value_name = "X")]
    max_kernel_noise: Option<f64>,
    /// Least accuracy of a retrained model (needs --labels)
    #[arg(long, value_name = "X")]
    min_metric: Option<f64>,
    /// Most deviation of that accuracy over runs (needs --labels and 5 runs)
    #[arg(long, value_name = "X")]
    max_metric_sd: Option<f64>,
}

impl LimitArgs {
    /// The budget, with flags in the place of its limits.
    pub fn limits(&self) -> Result<Vec<Limit>> {
        let mut limits = self.budget.as_deref().map(read_budget).transpose()?.unwrap_or_default();
        for (name, value) in [
            ("min-shared-ids", self.min_shared_ids),
            ("max-new-ids", self.max_new_ids),
            ("max-zero-vectors", self.max_zero_vectors),
            ("max-duplicate-vectors", self.max_duplicate_vectors),
            ("max-norm-change", self.max_norm_change),
            ("min-nn-overlap", self.min_nn_overlap),
            ("min-cka", self.min_cka),
            ("min-kernel-cka", self.min_kernel_cka),
            ("max-procrustes-residual", self.max_procrustes_residual),
            ("max-gram-noise", self.max_gram_noise),
            ("max-kernel-noise", self.max_kernel_noise),
            ("min-metric", self.min_metric),
            ("max-metric-sd", self.max_metric_sd),
        ] {
            let (Some(kind), Some(value)) = (Kind::of_limit(name), value) else { continue };
            if !value.is_finite() {
                return Err(Error::Usage(format!("--{name} must be a finite number, got {value}")));
            }
            limits.retain(|limit| limit.kind != kind);
            limits.push(Limit { kind, value });
        }
        Ok(limits)
    }
}

/// Samples.
#[derive(Args, Debug)]
#[command(next_help_heading = "Samples")]
pub struct SizeArgs {
    /// Nearest neighbours of a probe
    #[arg(long, value_name = "K", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    k: u32,
    /// Ids whose neighbours are compared
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(2..))]
    probes: u32,
    /// Pairs of ids whose inner products are compared
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(100..))]
    pairs: u32,
    /// Ids of the kernel matrices
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(100..=20_000))]
    kernel_ids: u32,
    /// Compare vectors as they are, not divided by their norms
    #[arg(long)]
    keep_norms: bool,
    /// Decides every sample
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

impl SizeArgs {
    pub fn settings(&self) -> Result<Settings> {
        Ok(Settings {
            k: self.k as usize,
            probes: self.probes as usize,
            pairs: self.pairs as usize,
            kernel_ids: self.kernel_ids as usize,
            unit: !self.keep_norms,
            seed: Seed::new(self.seed)?,
            ..Settings::default()
        })
    }
}

#[derive(Args, Debug)]
struct OutputArgs {
    /// Write one self-contained page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Twelve lines for a ticket, to stdout or to a file
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    markdown: Option<PathBuf>,
    /// Gauges for Prometheus, to stdout or to a file
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-", conflicts_with = "json")]
    prometheus: Option<PathBuf>,
}

impl Command {
    pub fn run(self, terminal: &Terminal) -> Result<()> {
        match self.action {
            Some(Action::Budget(budget)) => budget.run(terminal),
            None => self.compare.run(terminal),
        }
    }
}

impl Compare {
    fn run(self, terminal: &Terminal) -> Result<()> {
        let mut settings = self.sizes.settings()?;
        settings.folds = self.labels.folds as usize;
        settings.multiples = self.labels.multiples.iter().map(|&m| m as usize).collect();
        let mut label_columns = ColumnMap::default();
        if let Some(column) = self.labels.label_column {
            label_columns.set("class", column);
        }
        let encoding = self.labels.label_encoding;
        let request = Stability {
            tables: self.tables,
            read: self.read.options(),
            noise_floor: self.noise_floor,
            labels: self.labels.labels,
            label_options: LabelOptions {
                columns: label_columns,
                encoding: encoding.clone(),
                ..LabelOptions::default()
            },
            drop_rare_classes: self.labels.drop_rare_classes,
            names: self.names,
            name_options: NameOptions { encoding, ..NameOptions::default() },
            weights: self.weights,
            spec: self.spec.as_deref().map(featurize::load_spec).transpose()?,
            limits: self.limits.limits()?,
            consumers: self.consumers,
            settings,
        };
        let report = stability::stability(&request, terminal)?;
        self.outputs.write(&report, terminal)?;
        report.gate()
    }
}

impl OutputArgs {
    fn write(&self, report: &StabilityReport, terminal: &Terminal) -> Result<()> {
        let stdout = Path::new("-");
        if let Some(path) = &self.html {
            write_atomically(path, report.to_html(&typed()).as_bytes())?;
            terminal.note(&format!("written to {}", path.display()));
        }
        let mut said = false;
        for (path, text) in [
            (&self.markdown, StabilityReport::to_markdown as fn(&StabilityReport) -> String),
            (&self.prometheus, StabilityReport::to_prometheus),
        ] {
            match path {
                Some(path) if path == stdout => {
                    terminal.text(&text(report))?;
                    said = true;
                }
                Some(path) => {
                    write_atomically(path, text(report).as_bytes())?;
                    terminal.note(&format!("written to {}", path.display()));
                }
                None => {}
            }
        }
        if !said {
            terminal.result("stability", report, &report.to_text())?;
        }
        if self.html.is_none() {
            terminal.next("the same command with --html report.html, to look instead of read");
        }
        Ok(())
    }
}

impl Budget {
    fn run(self, terminal: &Terminal) -> Result<()> {
        let request = Stability {
            read: self.read.options(),
            weights: self.weights,
            settings: self.sizes.settings()?,
            ..Stability::new(self.runs)
        };
        if let Some(out) = self.out.as_deref().filter(|out| out.exists() && !self.force) {
            return Err(Error::Usage(format!(
                "{} is there already; replace it with --force",
                out.display()
            )));
        }
        let (limits, text) = stability::stability(&request, terminal)?.propose_budget();
        let Some(out) = self.out else { return terminal.text(&text) };
        write_atomically(&out, text.as_bytes())?;
        let limits: Vec<_> = limits
            .iter()
            .map(|limit| json!({ "limit": limit.kind.limit(), "value": limit.value }))
            .collect();
        let shown = format!("{} limits, written to {}\n", limits.len(), out.display());
        let result = json!({ "action": "budget", "output": out, "limits": limits });
        terminal.result("stability", &result, &shown)?;
        terminal.next(&format!("veridical stability REFERENCE TODAY --budget {}", out.display()));
        Ok(())
    }
}
