//! Table to table: a reader thread decodes and cuts, the calling thread transforms on all cores, a
//! writer thread encodes. At most a few pieces are in flight, so memory does not grow with the table.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use veridical_core::interrupt;
use veridical_core::progress::Progress;
use veridical_data::{
    Chunk, Cuts, OutputSchema, Piece, ReadOptions, Source, TableReader, TableWriter, Vectors,
    WriteOptions, fingerprint,
};

use crate::{Error, Result};

/// Pieces waiting between two threads.
const IN_FLIGHT: usize = 2;

/// Who is told what happens on the way.
pub trait Observer: Sync {
    /// Something the user should know.
    fn note(&self, text: &str);
    /// Something the user should do something about.
    fn warn(&self, text: &str);
    /// A bar for long work.
    fn progress(&self, what: &str, unit: &str, total: Option<u64>) -> Progress;
}

/// Tells nobody.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {
    fn note(&self, _text: &str) {}
    fn warn(&self, _text: &str) {}
    fn progress(&self, _what: &str, _unit: &str, _total: Option<u64>) -> Progress {
        Progress::hidden()
    }
}

/// How a table is read and another is written.
#[derive(Clone, Debug, Default)]
pub struct JobOptions {
    /// How to read.
    pub read: ReadOptions,
    /// How to write.
    pub write: WriteOptions,
}

/// What a job saw, kept over interruptions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// Rows written.
    pub rows: u64,
    /// Zero rows under `unit`.
    pub zero_rows: u64,
    /// Rows left out under `--on-nan skip`.
    pub skipped_rows: u64,
    /// Values set to 0 under `--on-nan zero`.
    pub zeroed_values: u64,
    /// The largest |u.h|.
    pub largest_projection: f32,
}

/// What is done to the rows.
pub(crate) trait Transform {
    /// The vectors to write for these rows.
    fn apply(&mut self, rows: &Chunk, tally: &mut Tally) -> Result<Vectors>;
}

/// Rows cut to the size of a piece, with what the reader had seen by then.
struct Cut {
    rows: Chunk,
    input_rows: u64,
    skipped_rows: u64,
    zeroed_values: u64,
}

/// Opens `input` for a job that writes to `output`.
pub(crate) fn open_input(
    input: &Source,
    output: &Source,
    options: &ReadOptions,
    observer: &dyn Observer,
) -> Result<TableReader> {
    refuse_overlap(input, output)?;
    let reader = TableReader::open(input, options)?;
    reader.notes().iter().for_each(|note| observer.note(note));
    Ok(reader)
}

/// A table to be read, changed and written.
pub(crate) struct Job<'a> {
    pub reader: TableReader,
    pub input: &'a Source,
    pub output: &'a Source,
    pub schema: OutputSchema,
    pub options: &'a JobOptions,
    /// What is done to the rows; a job is resumed only if this is the same.
    pub description: Value,
}

/// Runs a job to its end.
pub(crate) fn run(
    job: Job<'_>,
    transform: &mut dyn Transform,
    observer: &dyn Observer,
) -> Result<Tally> {
    let manifest = manifest(&job)?;
    let Job { mut reader, input, output, schema, options, .. } = job;
    let writer = TableWriter::create(output, schema, &options.write, manifest)?;
    let mut tally = Tally::default();
    if let Some(resumed) = writer.resumed() {
        tally = serde_json::from_value(resumed.tally.clone()).unwrap_or_default();
        tally.rows = resumed.output_rows;
        observer.note(&format!("resuming after {} rows", resumed.output_rows));
        if resumed.finished {
            writer.finish()?;
            return Ok(tally);
        }
        reader.skip_rows(resumed.input_rows);
    }
    let bar = observer.progress("rows", "rows", reader.n_rows());
    bar.advance(tally.rows);
    let cuts = writer.cuts();
    let outcome = thread::scope(|scope| {
        let (to_transform, from_reader) = sync_channel(IN_FLIGHT);
        let (to_writer, from_transform) = sync_channel(IN_FLIGHT);
        let before = (tally.skipped_rows, tally.zeroed_values);
        let reading = scope.spawn(move || read(reader, cuts, before, &to_transform));
        let writing = scope.spawn(move || write(writer, &from_transform));
        let transformed = transform_all(&from_reader, &to_writer, transform, &mut tally, &bar);
        drop((from_reader, to_writer));
        // INVARIANT: the threads return errors; a panic in them is a bug and goes on as one.
        let read = reading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let (writer, written) =
            writing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        // The reader's error explains an early end; the writer's comes before the transform's view of
        // a closed channel.
        let outcome = read.and(written).and(transformed);
        finish(writer, outcome, input)
    });
    outcome.map(|()| tally)
}

fn finish(writer: TableWriter, outcome: Result<()>, input: &Source) -> Result<()> {
    match outcome {
        Ok(()) => Ok(writer.finish()?),
        Err(Error::Core(veridical_core::Error::Interrupted)) if writer.is_resumable() => {
            Err(Error::Interrupted)
        }
        Err(Error::Data(e)) if e.is_resumable() => Err(e.into()),
        Err(error) => {
            writer.abandon();
            Err(match error {
                Error::Features(e) => Error::InFile { path: input.to_string(), source: e },
                other => other,
            })
        }
    }
}

/// Decodes, cuts and sends until the table or the receiver ends.
fn read(
    mut reader: TableReader,
    mut cuts: Cuts,
    before: (u64, u64),
    to: &SyncSender<Cut>,
) -> Result<()> {
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
        let (skipped, zeroed) = reader.replaced();
        let cut = Cut {
            input_rows: rows.row_number(n - 1) + 1,
            rows,
            skipped_rows: before.0 + skipped,
            zeroed_values: before.1 + zeroed,
        };
        if to.send(cut).is_err() {
            return Ok(()); // the other side has an error to report
        }
    }
}

/// The first `n` waiting rows as one chunk.
fn take(waiting: &mut VecDeque<Chunk>, mut n: usize) -> Result<Chunk> {
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

fn transform_all(
    from: &Receiver<Cut>,
    to: &SyncSender<(Piece, Tally)>,
    transform: &mut dyn Transform,
    tally: &mut Tally,
    bar: &Progress,
) -> Result<()> {
    for cut in from {
        interrupt::check()?;
        let vectors = transform.apply(&cut.rows, tally)?;
        let n = cut.rows.n_rows() as u64;
        tally.rows += n;
        tally.skipped_rows = cut.skipped_rows;
        tally.zeroed_values = cut.zeroed_values;
        let Chunk { ids, kept, .. } = cut.rows;
        let piece = Piece { ids, vectors, kept, input_rows: cut.input_rows };
        if to.send((piece, *tally)).is_err() {
            return Ok(()); // the writer has an error to report
        }
        bar.advance(n);
    }
    Ok(())
}

fn write(mut writer: TableWriter, from: &Receiver<(Piece, Tally)>) -> (TableWriter, Result<()>) {
    for (piece, tally) in from {
        if let Err(error) = writer.write_noting(piece, || json!(tally)) {
            return (writer, Err(error.into()));
        }
    }
    (writer, Ok(()))
}

/// Everything that decides the bytes of the output.
fn manifest(job: &Job<'_>) -> Result<Value> {
    let (read, write) = (&job.options.read, &job.options.write);
    let mut inputs = Vec::new();
    for path in job.input.path().into_iter().chain(read.ids_file.as_deref()) {
        for file in files_below(path)? {
            inputs.push(fingerprint::of_file(&file)?);
        }
    }
    Ok(json!({
        "rows": job.description,
        "inputs": inputs,
        "dtype": job.schema.dtype.name(),
        "id_column": read.id_column,
        "vector_column": read.vector_column,
        "tensor": read.tensor,
        "keep_columns": read.keep_columns,
        "text_ids": read.text_ids,
        "has_header": read.has_header,
        "encoding": read.encoding,
        "on_nan": format!("{:?}", read.on_nan),
        "rows_per_part": write.rows_per_part,
        "format": write.format.map(|format| format.extension()),
        "zstd": write.zstd,
    }))
}

fn files_below(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    let listed = std::fs::read_dir(path)
        .map_err(|e| Error::Usage(format!("{}: cannot list the folder: {e}", path.display())))?;
    let mut entries: Vec<PathBuf> = listed.flatten().map(|entry| entry.path()).collect();
    entries.sort();
    for entry in entries {
        files.extend(files_below(&entry)?);
    }
    Ok(files)
}

/// Input and output must not be the same file or lie inside each other.
fn refuse_overlap(input: &Source, output: &Source) -> Result<()> {
    let (Some(input), Some(output)) = (input.path(), output.path()) else { return Ok(()) };
    let real = |path: &Path| {
        let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let by_parent = || Some(parent.canonicalize().ok()?.join(path.file_name()?));
        path.canonicalize().ok().or_else(by_parent)
    };
    let (Some(from), Some(to)) = (real(input), real(output)) else { return Ok(()) };
    if from == to {
        let what =
            "the output is the input; write to another file, then replace the input if you wish";
        return Err(Error::Usage(format!("{}: {what}", output.display())));
    }
    if to.starts_with(&from) || from.starts_with(&to) {
        let what = "input and output lie inside each other; write somewhere else";
        return Err(Error::Usage(format!("{}: {what}", output.display())));
    }
    Ok(())
}
