//! Our side of the benchmark: one job, one line of JSON; `run.py` compares it with scikit-learn or the GEMM rate.

use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;

use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, Par};
use serde_json::{Value, json};
use veridical_core::threads::with_threads;
use veridical_core::{Rows, Seed, Stream};
use veridical_learn::{
    LinearMap, Logistic, LogisticSettings, PairMoments, Procrustes, orthonormal, residual,
};

// The product's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const USAGE: &str = "usage: bench-learn logistic ROWS LABELS DIM CLASSES C TOLERANCE THREADS ROUNDS
       bench-learn procrustes N DIM THREADS
       bench-learn about

ROWS are f32 and LABELS u32, little endian, without a header.";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(result) => {
            println!("{result}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("bench-learn: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String]) -> Outcome<Value> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["about"] => Ok(json!({
            "version": env!("CARGO_PKG_VERSION"),
            "target": format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
        })),
        ["logistic", rows, labels, dim, classes, c, tolerance, threads, rounds] => {
            let settings = LogisticSettings {
                c: c.parse()?,
                tolerance: tolerance.parse()?,
                ..Default::default()
            };
            let rows: Vec<f32> = words(rows)?.into_iter().map(f32::from_le_bytes).collect();
            let labels: Vec<u32> = words(labels)?.into_iter().map(u32::from_le_bytes).collect();
            let (dim, classes, rounds) = (dim.parse()?, classes.parse()?, rounds.parse()?);
            with_threads(Some(threads.parse()?), || {
                logistic(&rows, dim, &labels, classes, &settings, rounds)
            })?
        }
        ["procrustes", n, dim, threads] => {
            let (n, dim) = (n.parse()?, dim.parse()?);
            with_threads(Some(threads.parse()?), || procrustes(n, dim))?
        }
        _ => Err(USAGE.into()),
    }
}

fn words(path: &str) -> Outcome<Vec<[u8; 4]>> {
    let bytes = std::fs::read(path).map_err(|error| format!("{path}: {error}"))?;
    Ok(bytes.as_chunks::<4>().0.to_vec())
}

fn logistic(
    rows: &[f32],
    dim: usize,
    labels: &[u32],
    classes: usize,
    settings: &LogisticSettings,
    rounds: usize,
) -> Outcome<Value> {
    let mut seconds = Vec::new();
    let mut last = None;
    for _ in 0..rounds {
        let start = Instant::now();
        last = Some(Logistic::fit(Rows::new(rows, dim)?, labels, classes, settings, None)?);
        seconds.push(start.elapsed().as_secs_f64());
    }
    let fit = last.ok_or("at least one round")?;
    Ok(json!({
        "seconds": seconds, "loss": fit.loss, "iterations": fit.iterations, "converged": fit.converged,
    }))
}

/// Rows come in batches of 65,536, as from a file; the same batch, reused, is larger than any cache.
fn procrustes(n: usize, dim: usize) -> Outcome<Value> {
    let lot = n.min(65_536);
    let stream = Stream::new(Seed::new(0)?, "bench/procrustes");
    let mut a = vec![0.0f64; lot * dim];
    stream.at(0, 0).fill_normals(&mut a);
    let mut turn = vec![0.0f64; dim * dim];
    stream.at(0, 1).fill_normals(&mut turn);
    let turn =
        LinearMap { from: vec![0.0; dim], matrix: orthonormal(&turn, dim), to: vec![0.0; dim] };
    let a: Vec<f32> = a.iter().map(|&x| x as f32).collect();
    let b = turn.apply(&a);

    let start = Instant::now();
    let mut moments = PairMoments::new(dim, dim);
    for first in (0..n).step_by(lot) {
        let rows = lot.min(n - first) * dim;
        moments.add(&a[..rows], &b[..rows]);
    }
    let moments_seconds = start.elapsed().as_secs_f64();
    let map = Procrustes::default().fit(&moments);
    let seconds = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let mapped = map.apply(&b);
    let apply_seconds = start.elapsed().as_secs_f64();
    // All of A'B, and the upper halves of A'A and B'B.
    let flops = 4.0 * n as f64 * (dim * dim) as f64;
    Ok(json!({
        "seconds": seconds,
        "moments_seconds": moments_seconds,
        "moments_rate": flops / moments_seconds,
        "apply_rate": 2.0 * (mapped.len() * dim) as f64 / apply_seconds,
        "gemm_rate": gemm_rate(),
        "residual": residual(&moments, &map),
    }))
}

/// Floating-point operations per second of a large f64 product on all threads, the best of five.
fn gemm_rate() -> f64 {
    let n = 2048;
    let x = Mat::<f64>::from_fn(n, n, |i, j| ((i * 31 + j * 17) % 101) as f64 / 50.0 - 1.0);
    let mut out = Mat::<f64>::zeros(n, n);
    let once = |out: &mut Mat<f64>| {
        let start = Instant::now();
        matmul(out.as_mut(), Accum::Replace, x.as_ref(), x.as_ref(), 1.0, Par::rayon(0));
        start.elapsed().as_secs_f64()
    };
    let best = (0..5).map(|_| once(&mut out)).fold(f64::INFINITY, f64::min);
    2.0 * (n as f64).powi(3) / best
}
