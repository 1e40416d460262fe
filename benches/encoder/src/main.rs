//! Our side of the benchmark: one job, one line of JSON; `run.py` compares it with its peers.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use serde_json::{Value, json};
use veridical::core::threads::with_threads;
use veridical::encoder::Texts;

// The product's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const USAGE: &str = "usage: bench-encoder rate FOLDER TEXTS BATCH THREADS SECONDS OUT
       bench-encoder about

TEXTS has one text per line; OUT gets the vectors as f32, little-endian.";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(result) => {
            println!("{result}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("bench-encoder: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[&str]) -> Outcome<Value> {
    match args[..] {
        ["about"] => Ok(json!({
            "version": env!("CARGO_PKG_VERSION"),
            "target": format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
        })),
        ["rate", folder, texts, batch, threads, seconds, out] => {
            let (batch, seconds) = (batch.parse()?, seconds.parse()?);
            let job = || rate(Path::new(folder), Path::new(texts), batch, seconds, Path::new(out));
            with_threads(Some(threads.parse()?), job)?
        }
        _ => Err(USAGE.into()),
    }
}

/// Measures sentences per second, from text to vector: the best pass over all texts within the time.
fn rate(folder: &Path, texts: &Path, batch: usize, seconds: f64, out: &Path) -> Outcome<Value> {
    let texts = fs::read_to_string(texts)?;
    let texts: Vec<&str> = texts.lines().collect();
    let encoder = veridical::encoder::open(folder)?;
    let mut passes = encoder.passes(batch, 1024)?;
    let mut once = || -> Outcome<(Vec<f32>, usize)> {
        let mut tokens = Texts::default();
        let count = texts.iter().map(|text| encoder.tokenize(text, &mut tokens).tokens).sum();
        Ok((encoder.vectors(&tokens, &mut passes, |_| Ok::<(), veridical::Error>(()))?, count))
    };
    let (vectors, tokens) = once()?;
    fs::write(out, vectors.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>())?;
    let (begun, mut best) = (Instant::now(), f64::INFINITY);
    while begun.elapsed().as_secs_f64() < seconds || best.is_infinite() {
        let pass = Instant::now();
        once()?;
        best = best.min(pass.elapsed().as_secs_f64());
    }
    Ok(json!({ "rate": texts.len() as f64 / best, "tokens": tokens }))
}
