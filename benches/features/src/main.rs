//! Our side of the benchmark; `run.py` compares it with the peers. Every mode prints one JSON object.

mod io;

use std::error::Error;
use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

use serde_json::{Value, json};
use veridical_core::Rows;
use veridical_core::threads::with_threads;
use veridical_features::{Directions, FeatureMap, FeatureSpec, directions};

// The product's allocator, so that both sides of the file-to-file comparison use the same one.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Errors must be `Send` to cross thread boundaries.
type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const USAGE: &str = "usage: bench-features FAMILY ROWS.f32 N d D THREADS [PREFIX]
       bench-features io INPUT OUTPUT D
       bench-features about

The first times the transform of N rows of width d with directions of the family (iid, orthogonal,
hadamard or halton); PREFIX.phi.f32 and PREFIX.u.f32 get what it computed for the first rows, and U. The
second reads INPUT and writes constant vectors of width D to OUTPUT as `veridical featurize apply`
would. The third says how this program was built.";

/// Rows that are written for the caller to check.
const CHECK_ROWS: usize = 300;
/// Rows that are transformed one by one.
const SINGLE_ROWS: usize = 200;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(result) => {
            println!("{result}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("bench-features: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String]) -> Outcome<Value> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["about"] => Ok(about()),
        ["io", input, output, output_dim] => io::run(input, output, output_dim.parse()?),
        [family, rows, n, d, output_dim, threads, prefix @ ..] if prefix.len() < 2 => {
            let family = Directions::ALL.into_iter().find(|f| f.name() == *family).ok_or(USAGE)?;
            let spec = FeatureSpec::params(d.parse()?, output_dim.parse()?).directions(family);
            let prefix = prefix.first().copied();
            transform(rows, n.parse()?, &spec.build()?, threads.parse()?, prefix)
        }
        _ => Err(USAGE.into()),
    }
}

/// Features enabled at compile time, and the instruction set chosen at run time.
fn about() -> Value {
    let enabled = [
        ("avx", cfg!(target_feature = "avx")),
        ("avx2", cfg!(target_feature = "avx2")),
        ("fma", cfg!(target_feature = "fma")),
        ("avx512f", cfg!(target_feature = "avx512f")),
        ("neon", cfg!(target_feature = "neon")),
    ];
    let enabled: Vec<&str> = enabled.iter().filter(|(_, on)| *on).map(|(name, _)| *name).collect();
    let arch = format!("{:?}", pulp::Arch::new());
    let dispatched = arch.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    json!({
        "target": format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
        "optimized": !cfg!(debug_assertions),
        "compiled_in": enabled,
        "dispatched": dispatched,
        "version": env!("CARGO_PKG_VERSION"),
    })
}

fn transform(
    path: &str,
    n: usize,
    spec: &FeatureSpec,
    threads: usize,
    prefix: Option<&str>,
) -> Outcome<Value> {
    let (d, width) = (spec.input_dim(), spec.output_dim());
    let bytes = std::fs::read(path)?;
    let rows: Vec<f32> =
        bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).take(n * d).collect();
    if n == 0 || rows.len() != n * d {
        return Err(format!("{path}: {} values are not {n} rows of {d}", rows.len()).into());
    }
    let map = FeatureMap::new(spec)?;

    let mut one = vec![0.0f32; width];
    let singles = n.min(SINGLE_ROWS);
    let single = best_of(|| {
        for row in rows.chunks_exact(d).take(singles) {
            black_box(map.transform_into(black_box(Rows::new(row, d)?), &mut one)?);
        }
        Ok(())
    })? / singles as f64;

    let mut out = vec![0.0f32; n * width];
    let batch = with_threads(Some(threads), || {
        best_of(|| {
            black_box(map.transform_into(black_box(Rows::new(&rows, d)?), &mut out)?);
            Ok(())
        })
    })??;

    if let Some(prefix) = prefix {
        let head = &out[..n.min(CHECK_ROWS) * width];
        write_f32(&format!("{prefix}.phi.f32"), head)?;
        write_f32(&format!("{prefix}.u.f32"), &directions::matrix(spec))?;
    }
    Ok(json!({
        "batch_seconds": batch,
        "single_row_microseconds": single * 1e6,
        "worst_norm_error": worst_norm_error(&out, width),
        "spec_id": spec.spec_id(),
    }))
}

/// The largest | |phi| - 1 | of all rows; infinite if a value is NaN.
fn worst_norm_error(phi: &[f32], width: usize) -> f64 {
    let error = |row: &[f32]| {
        let squared: f64 = row.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
        let error = (squared.sqrt() - 1.0).abs();
        if error.is_nan() { f64::INFINITY } else { error }
    };
    phi.chunks_exact(width).map(error).fold(0.0, f64::max)
}

fn write_f32(path: &str, values: &[f32]) -> std::io::Result<()> {
    let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
    std::fs::write(path, bytes)
}

/// The best of at least five runs and one second, after a warm-up run.
fn best_of(mut job: impl FnMut() -> Outcome<()>) -> Outcome<f64> {
    job()?;
    let start = Instant::now();
    let mut best = f64::INFINITY;
    let mut runs = 0;
    while runs < 5 || start.elapsed().as_secs_f64() < 1.0 {
        let begin = Instant::now();
        job()?;
        best = best.min(begin.elapsed().as_secs_f64());
        runs += 1;
    }
    Ok(best)
}
