//! Decoding and encoding alone: the three stages of `veridical featurize apply`, with the same cuts,
//! threads and queues, but a constant in place of phi.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use veridical_io::{
    Chunk, Cuts, Dtype, OutputSchema, Piece, ReadOptions, Source, TableReader, TableWriter,
    Vectors, WriteOptions,
};

use crate::Outcome;

/// Pieces queued between two threads, as in the product.
const IN_FLIGHT: usize = 2;

/// Reads `input` and writes vectors of `output_dim` values to `output`.
pub fn run(input: &str, output: &str, output_dim: usize) -> Outcome<Value> {
    let reader = TableReader::open(&Source::from_arg(input), &ReadOptions::default())?;
    let schema = OutputSchema {
        dim: output_dim,
        dtype: Dtype::F32,
        ids: reader.schema().ids,
        kept: reader.schema().kept.clone(),
        metadata: Vec::new(),
    };
    let target = Source::from_arg(output);
    let writer = TableWriter::create(&target, schema, &WriteOptions::default(), Value::Null)?;
    let cuts = writer.cuts();
    let mut rows = 0;
    let mut filling = Duration::ZERO;
    thread::scope(|scope| {
        let (to_main, from_reader) = sync_channel(IN_FLIGHT);
        let (to_writer, from_main) = sync_channel(IN_FLIGHT);
        let reading = scope.spawn(move || read(reader, cuts, &to_main));
        let writing = scope.spawn(move || write(writer, &from_main));
        for cut in &from_reader {
            let begin = Instant::now();
            // Not zeros, which would be pages that were never touched.
            let vectors = vec![1.0 / output_dim as f32; cut.n_rows() * output_dim];
            filling += begin.elapsed();
            rows += cut.n_rows() as u64;
            let input_rows = cut.row_number(cut.n_rows() - 1) + 1;
            let Chunk { ids, kept, .. } = cut;
            let vectors = Vectors::F32(vectors.into());
            if to_writer.send(Piece { ids, vectors, kept, input_rows }).is_err() {
                break; // the writer has an error to report
            }
        }
        drop((from_reader, to_writer));
        let read = reading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let written = writing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        read.and(written)
    })?;
    Ok(json!({ "rows": rows, "fill_seconds": filling.as_secs_f64() }))
}

/// Decodes, cuts and sends until the table or the receiver ends.
fn read(mut reader: TableReader, mut cuts: Cuts, to: &SyncSender<Chunk>) -> Outcome<()> {
    let mut waiting: VecDeque<Chunk> = VecDeque::new();
    let mut n_waiting = 0;
    loop {
        let want = cuts.next_rows();
        while n_waiting < want {
            let Some(chunk) = reader.next_chunk()? else { break };
            n_waiting += chunk.n_rows();
            waiting.push_back(chunk);
        }
        let n = want.min(n_waiting);
        if n == 0 {
            return Ok(());
        }
        let rows = take(&mut waiting, n)?;
        n_waiting -= n;
        cuts.advance(n);
        if to.send(rows).is_err() {
            return Ok(()); // the other side has an error to report
        }
    }
}

/// The first `n` queued rows as one chunk.
fn take(waiting: &mut VecDeque<Chunk>, mut n: usize) -> Outcome<Chunk> {
    let mut parts = Vec::new();
    while n > 0
        && let Some(chunk) = waiting.pop_front()
    {
        let here = n.min(chunk.n_rows());
        if here < chunk.n_rows() {
            waiting.push_front(chunk.slice(here, chunk.n_rows() - here));
        }
        parts.push(chunk.slice(0, here));
        n -= here;
    }
    Ok(Chunk::concat(&parts)?)
}

fn write(mut writer: TableWriter, from: &Receiver<Piece>) -> Outcome<()> {
    for piece in from {
        writer.write(piece)?;
    }
    Ok(writer.finish(&veridical_core::Cancel::default())?)
}
