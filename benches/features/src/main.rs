//! Times the transform of rows from stdin-free, seeded data and prints one JSON object a case.
//!
//! `run.py` calls it with the rows it gives to the peers: `bench-features ROWS.f32 N d D THREADS`.

use std::hint::black_box;
use std::time::Instant;

use serde_json::json;
use veridical_core::threads::with_threads;
use veridical_features::{FeatureMap, FeatureSpec};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [path, n, d, output_dim, threads] = args.as_slice() else {
        return Err("usage: bench-features ROWS.f32 N d D THREADS".into());
    };
    let (n, d, output_dim): (usize, usize, usize) = (n.parse()?, d.parse()?, output_dim.parse()?);
    let threads: usize = threads.parse()?;
    let bytes = std::fs::read(path)?;
    let rows: Vec<f32> =
        bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).take(n * d).collect();
    let spec = FeatureSpec::params(d, output_dim).length_scale(1.0).build()?;
    let map = FeatureMap::new(&spec)?;

    let mut out = vec![0.0f32; n * output_dim];
    let batch = with_threads(Some(threads), || {
        best_of(|| drop(black_box(map.transform_into(&rows, &mut out))))
    })?;
    let mut one = vec![0.0f32; output_dim];
    let single = best_of(|| {
        for row in rows.chunks_exact(d).take(200) {
            drop(black_box(map.transform_into(row, &mut one)));
        }
    }) / 200.0;
    println!(
        "{}",
        json!({
            "batch_seconds": batch, "single_row_microseconds": single * 1e6,
            "checksum": out.iter().map(|&x| f64::from(x)).sum::<f64>(),
        })
    );
    Ok(())
}

/// The best of at least five runs and one second.
fn best_of(mut job: impl FnMut()) -> f64 {
    let start = Instant::now();
    let mut best = f64::INFINITY;
    let mut runs = 0;
    while runs < 5 || start.elapsed().as_secs_f64() < 1.0 {
        let begin = Instant::now();
        job();
        best = best.min(begin.elapsed().as_secs_f64());
        runs += 1;
    }
    best
}
