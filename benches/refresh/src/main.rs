//! The tables of the benchmark, and the limits it is measured against; `run.py` runs it. Every mode prints one JSON object.

use std::error::Error;
use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

use rayon::prelude::*;
use serde_json::{Value, json};
use veridical_core::{Cancel, Order, Seed, Stream};
use veridical_data::Ids;
use veridical_io::{
    Dtype, GROUP_ROWS, IdKind, OutputSchema, Piece, ReadOptions, Source, TableReader, TableWriter,
    Vectors, WriteOptions,
};

// The product's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Outcome<T> = Result<T, Box<dyn Error>>;

const USAGE: &str = "usage: bench-refresh make OUT ROWS DIM [noise] [shuffled]
       bench-refresh read TABLE
       bench-refresh pieces FOLDER ROWS DIM
       bench-refresh gemm DIM
       bench-refresh about

The first writes a table of clusters; with `noise` that of a retraining: other coordinates and a little noise; with `shuffled` in
another order. The second reads a table, as every pass of a comparison does. The third writes and reads as many bytes as the
pieces of such a table. The fourth is the rate of the products of 2,000 probes with rows of DIM values.";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(result) => {
            println!("{result}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("bench-refresh: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String]) -> Outcome<Value> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["about"] => {
            Ok(json!({ "version": env!("CARGO_PKG_VERSION"), "target": std::env::consts::ARCH }))
        }
        ["make", out, rows, dim, how @ ..] => make(out, rows.parse()?, dim.parse()?, how),
        ["read", table] => read(table),
        ["pieces", folder, rows, dim] => pieces(folder, rows.parse()?, dim.parse()?),
        ["gemm", dim] => gemm(dim.parse()?),
        _ => Err(USAGE.into()),
    }
}

const CLUSTERS: usize = 1000;
/// The noise of a retraining, relative to the rows.
const NOISE: f64 = 0.2;

fn make(out: &str, rows: usize, dim: usize, how: &[&str]) -> Outcome<Value> {
    let (noise, shuffled) = (how.contains(&"noise"), how.contains(&"shuffled"));
    let schema = OutputSchema {
        dim,
        dtype: Dtype::F32,
        ids: IdKind::Int,
        kept: Vec::new(),
        metadata: Vec::new(),
    };
    let target = Source::from_arg(out);
    let mut writer = TableWriter::create(&target, schema, &WriteOptions::default(), Value::Null)?;
    let seed = Seed::new(0)?;
    let (own, other) = (Stream::new(seed, "rows"), Stream::new(seed, "noise"));
    let mut centers = vec![0.0; CLUSTERS * dim];
    Stream::new(seed, "centers").at(0, 0).fill_normals(&mut centers);
    let order = Order::new(rows as u64, seed, "order", 0);
    let row = |at: usize| -> Vec<f32> {
        let mut x = vec![0.0; dim];
        own.at(0, at as u64).fill_normals(&mut x);
        let center = &centers[at * 7919 % CLUSTERS * dim..][..dim];
        x.iter_mut().zip(center).for_each(|(x, c)| *x += c);
        if noise {
            let mut e = vec![0.0; dim];
            other.at(0, at as u64).fill_normals(&mut e);
            x.iter_mut().zip(&e).for_each(|(x, e)| *x += NOISE * e);
            x.reverse(); // the same geometry in other coordinates
        }
        x.into_iter().map(|x| x as f32).collect()
    };
    for first in (0..rows).step_by(GROUP_ROWS) {
        let n = GROUP_ROWS.min(rows - first);
        let place = |i: usize| if shuffled { order.at(i as u64) as usize } else { i };
        let ids: Vec<i64> = (first..first + n).map(|i| place(i) as i64).collect();
        let vectors: Vec<f32> =
            (first..first + n).into_par_iter().flat_map_iter(|i| row(place(i))).collect();
        writer.write(Piece {
            ids: Ids::Int(ids.into()),
            vectors: Vectors::F32(vectors.into()),
            kept: Vec::new(),
            input_rows: (first + n) as u64,
        })?;
    }
    writer.finish(&Cancel::default())?;
    Ok(json!({ "rows": rows, "bytes": std::fs::metadata(out)?.len() }))
}

fn read(table: &str) -> Outcome<Value> {
    let begin = Instant::now();
    let mut reader = TableReader::open(&Source::from_arg(table), &ReadOptions::default())?;
    let (mut rows, mut sum) = (0, 0.0);
    while let Some(chunk) = reader.next_chunk()? {
        rows += chunk.n_rows();
        sum += black_box(&chunk.vectors).first().copied().unwrap_or(0.0);
    }
    Ok(json!({ "rows": rows, "sum": sum, "seconds": begin.elapsed().as_secs_f64() }))
}

/// Writes and reads bytes in sequence, as many as pieces have.
fn pieces(folder: &str, rows: u64, dim: u64) -> Outcome<Value> {
    use std::io::{Read, Write};
    let path = std::path::Path::new(folder).join("bench-pieces");
    let (bytes, block) = (rows * (4 + 4 * dim), vec![1u8; 1 << 20]);
    let begin = Instant::now();
    let mut file = std::fs::File::create(&path)?;
    for _ in 0..bytes >> 20 {
        file.write_all(&block)?;
    }
    drop(file);
    let (mut file, mut block) = (std::fs::File::open(&path)?, block);
    while file.read(&mut block)? > 0 {}
    std::fs::remove_file(&path)?;
    Ok(json!({ "bytes": bytes, "seconds": begin.elapsed().as_secs_f64() }))
}

/// The rate of single-threaded products on all threads at once, in flops.
fn gemm(dim: usize) -> Outcome<Value> {
    const PROBES: usize = 2000;
    let rows = (1 << 16) / dim;
    let block: Vec<f32> = (0..rows * dim).map(|i| (i % 17) as f32).collect();
    let probes: Vec<f32> = (0..PROBES * dim).map(|i| (i % 13) as f32).collect();
    let repeats = 400;
    let once = || {
        let begin = Instant::now();
        (0..repeats).into_par_iter().for_each(|_| {
            let mut out = vec![0.0; PROBES * rows];
            veridical_learn::products(&probes, &block, dim, &mut out);
            black_box(&out);
        });
        begin.elapsed().as_secs_f64()
    };
    let seconds = (0..3).map(|_| once()).fold(f64::INFINITY, f64::min);
    let flops = 2.0 * (PROBES * rows * dim * repeats) as f64;
    Ok(json!({ "flops_per_second": flops / seconds }))
}
