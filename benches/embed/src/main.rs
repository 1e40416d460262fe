//! Our side of the benchmark: trains one model and prints one line of JSON; `run.py` compares it with the peer
//! on the same job (`peer.py`).

mod input;

use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;

use input::Data;
use serde_json::{Map, Value, json};
use veridical_core::threads::with_threads;
use veridical_core::{Job, Seed};
use veridical_embed::fit::{FitSettings, Nowhere, fit};
use veridical_embed::{Embedding, Factors, Graphs, Method, Model, Trainer};

// The product's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Errors must be `Send` to cross thread boundaries.
type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const USAGE: &str = "usage: bench-embed METHOD DATA SETTINGS THREADS SEED [PREFIX]
       bench-embed about

DATA has one list of whole numbers per line: the items of a user in their order, or the words of a document.
`uniform:USERS:ITEMS:ROWS` makes rows instead. SETTINGS is a JSON object as `veridical train` would take it.
PREFIX.TABLE.f32 get the vectors, a bias as their last column; the shapes stand in the result.";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(result) => {
            println!("{result}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("bench-embed: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String]) -> Outcome<Value> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["about"] => Ok(json!({
            "version": env!("CARGO_PKG_VERSION"),
            "optimized": !cfg!(debug_assertions),
            "native": cfg!(target_feature = "avx2"),
            "target": format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
        })),
        [method, data, settings, threads, seed, prefix @ ..] if prefix.len() < 2 => {
            let method = Method::from_name(method).ok_or(USAGE)?;
            let settings: Map<String, Value> = serde_json::from_str(settings)?;
            let (threads, seed) = (threads.parse()?, Seed::new(seed.parse()?)?);
            let data = Data::read(data, method)?;
            with_threads(Some(threads), || {
                train(method, &data, &settings, seed, prefix.first().copied())
            })?
        }
        _ => Err(USAGE.into()),
    }
}

fn train(
    method: Method,
    data: &Data,
    settings: &Map<String, Value>,
    seed: Seed,
    prefix: Option<&str>,
) -> Outcome<Value> {
    let graphs = Graphs::default();
    let begin = Instant::now();
    let mut trainer = method.trainer(settings, data.input(), &graphs, seed)?;
    let prepared = begin.elapsed().as_secs_f64();

    let samples = data.len();
    let (settings, job) = (FitSettings::default(), Job::silent());
    let each = |_, _: Option<f64>, _: &dyn Trainer| Ok::<(), veridical_embed::Error>(());
    let begin = Instant::now();
    let fitted = fit(&mut *trainer, settings, None, None::<&Nowhere>, None, &job, each)?;
    let seconds = begin.elapsed().as_secs_f64();
    let peak = peak_bytes();

    let model = trainer.into_model();
    let tables = tables(&model);
    let mut shapes = Map::new();
    let mut table_bytes = 0;
    for (name, table, bias) in &tables {
        let dim = table.dim() + usize::from(bias.is_some());
        shapes.insert((*name).into(), json!([table.n_rows(), dim]));
        table_bytes += 4 * table.n_rows() * dim;
        if let Some(prefix) = prefix {
            write_f32(&format!("{prefix}.{name}.f32"), table, bias.as_deref())?;
        }
    }
    Ok(json!({
        "prepare_seconds": prepared,
        "train_seconds": seconds,
        "epochs": fitted.epochs,
        "samples": samples,
        "samples_per_second": samples as f64 * f64::from(fitted.epochs) / seconds,
        "loss": fitted.loss,
        "peak_bytes": peak,
        "table_bytes": table_bytes,
        "shapes": shapes,
    }))
}

/// The tables that quality is computed from. A score is <u, i> + b_i: users get a last column of ones
/// when items have one of biases.
fn tables(model: &Model) -> Vec<(&'static str, &Embedding, Option<Vec<f32>>)> {
    match model {
        Model::Factors(Factors { user, item, item_bias, .. }) => {
            let ones = item_bias.is_some().then(|| vec![1.0; user.n_rows()]);
            vec![("user", user, ones), ("item", item, item_bias.clone())]
        }
        Model::Items { item, context, .. } => {
            let mut tables = vec![("item", item, None)];
            tables.extend(context.iter().map(|context| ("context", context, None)));
            tables
        }
        Model::Documents { doc, word, context, .. } => {
            vec![("doc", doc, None), ("word", word, None), ("context", context, None)]
        }
        _ => Vec::new(),
    }
}

fn write_f32(path: &str, table: &Embedding, last: Option<&[f32]>) -> std::io::Result<()> {
    let mut bytes = Vec::with_capacity(4 * table.values().len());
    for r in 0..table.n_rows() {
        let values = table.row(r).iter().chain(last.map(|last| &last[r]));
        values.for_each(|x| bytes.extend(x.to_le_bytes()));
    }
    std::fs::write(path, bytes)
}

/// Peak memory of this process, where the system reports it.
fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(1024 * line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?)
}
