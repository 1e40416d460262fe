//! Table to table: a reader thread decodes and cuts, the calling thread transforms on all cores, a
//! writer thread encodes. At most a few pieces are in flight, so memory does not grow with the table.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use veridical_core::interrupt;
use veridical_core::progress::Progress;
use veridical_data::{
    Chunk, Cuts, IfExists, OutputSchema, Piece, ReadOptions, Source, TableReader, TableWriter,
    Vectors, WriteOptions, fingerprint, storage,
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

/// Rows cut to the size of a piece, and how many of the input are used up with them.
struct Cut {
    rows: Chunk,
    input_rows: u64,
}

/// Opens `input` for a job that writes to `output`.
pub(crate) fn open_input(
    input: &Source,
    output: &Source,
    options: &JobOptions,
    observer: &dyn Observer,
) -> Result<TableReader> {
    let JobOptions { read, write } = options;
    refuse_overlap(input, output)?;
    if *input == Source::Stream && write.if_exists == IfExists::Resume {
        let what =
            "a stream cannot be told from another, so a job that reads one cannot be resumed";
        return Err(Error::Usage(format!("{what}; start over with --force")));
    }
    TableWriter::check(output, write)?;
    let reader = TableReader::open(input, read)?;
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
            tally.skipped_rows = resumed.input_rows - resumed.output_rows;
            writer.finish()?;
            return Ok(tally);
        }
        reader.skip_rows(resumed.input_rows);
    }
    let bar = observer.progress("writing", "rows", reader.n_rows());
    bar.advance(tally.rows);
    let cuts = writer.cuts();
    let mut rows_read = 0;
    let outcome = thread::scope(|scope| {
        let (to_transform, from_reader) = sync_channel(IN_FLIGHT);
        let (to_writer, from_transform) = sync_channel(IN_FLIGHT);
        let reading = scope.spawn(move || read(reader, cuts, &to_transform));
        let writing = scope.spawn(move || write(writer, &from_transform));
        let transformed = transform_all(&from_reader, &to_writer, transform, &mut tally, &bar);
        drop((from_reader, to_writer));
        // INVARIANT: the threads return errors; a panic in them is a bug and goes on as one.
        let read = reading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let (writer, written) =
            writing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        // The reader's error explains an early end; the writer's comes before the transform's view of
        // a closed channel.
        let outcome = read.map(|rows| rows_read = rows).and(written).and(transformed);
        let outcome =
            outcome.and_then(|()| if tally.rows > 0 { Ok(()) } else { Err(no_rows(input)) });
        finish(writer, outcome, input)
    });
    outcome?;
    tally.skipped_rows = rows_read - tally.rows; // with those behind the last row that was kept
    warn_about_replaced(tally.skipped_rows, tally.zeroed_values, observer);
    Ok(tally)
}

fn no_rows(input: &Source) -> Error {
    Error::Usage(format!("{input}: no rows are left; all of them hold values that are not numbers"))
}

/// What the policy for values that are not numbers did.
pub(crate) fn warn_about_replaced(skipped: u64, zeroed: u64, observer: &dyn Observer) {
    if skipped > 0 {
        observer.warn(&format!("{skipped} rows with values that are not numbers were left out"));
    }
    if zeroed > 0 {
        observer.warn(&format!("{zeroed} values that are not numbers were set to 0"));
    }
}

/// Completes an output, keeps it to be taken up again, or takes it away.
pub(crate) fn finish(writer: TableWriter, outcome: Result<()>, input: &Source) -> Result<()> {
    match outcome {
        Ok(()) => match writer.finish() {
            Err(veridical_data::Error::Core(veridical_core::Error::Interrupted)) => {
                Err(Error::Interrupted)
            }
            other => Ok(other?),
        },
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

/// Decodes, cuts and sends until the table or the receiver ends. Returns how many rows there are.
fn read(mut reader: TableReader, mut cuts: Cuts, to: &SyncSender<Cut>) -> Result<u64> {
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
            return Ok(reader.rows_read());
        }
        let rows = take(&mut waiting, n)?;
        n_waiting -= n;
        cuts.advance(n);
        let cut = Cut { input_rows: rows.row_number(n - 1) + 1, rows };
        if to.send(cut).is_err() {
            return Ok(reader.rows_read()); // the other side has an error to report
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
        tally.zeroed_values += cut.rows.zeroed_values();
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
        if let Err(error) = writer.write_noting(piece, json!(tally)) {
            return (writer, Err(error.into()));
        }
    }
    (writer, Ok(()))
}

/// Everything that decides the bytes of the output.
fn manifest(job: &Job<'_>) -> Result<Value> {
    let (read, write) = (&job.options.read, &job.options.write);
    let files = TableReader::files(job.input, read)?;
    let below = |file: &Path| {
        // The folders of a partitioned table are part of it.
        let relative = job.input.path().and_then(|folder| file.strip_prefix(folder).ok());
        relative.map(|path| format!("{} ", path.display())).unwrap_or_default()
    };
    let mut inputs = Vec::new();
    for file in files.iter().chain(&read.ids_file) {
        inputs.push(format!("{}{}", below(file).trim_start(), fingerprint::of_file(file)?));
    }
    let mut manifest = json!({
        "inputs": inputs,
        "dtype": job.schema.dtype.name(),
        "input_format": read.input_format.map(|format| format.extension()),
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
    });
    if let (Some(all), Value::Object(description)) = (manifest.as_object_mut(), &job.description) {
        all.extend(description.clone());
    }
    Ok(manifest)
}

/// Input and output must not be the same file or lie inside each other.
pub(crate) fn refuse_overlap(input: &Source, output: &Source) -> Result<()> {
    let (Some(input), Some(output)) = (input.path(), output.path()) else { return Ok(()) };
    let same = "the output is the input; write to another file, then replace the input if you wish";
    let inside = "input and output lie inside each other; write somewhere else";
    let refused = |what: &str| Err(Error::Usage(format!("{}: {what}", output.display())));
    if storage::overlap(input, output)? == Some(true) {
        return refused(if input == output { same } else { inside });
    }
    let real = |path: &Path| {
        let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let by_parent = || Some(parent.canonicalize().ok()?.join(path.file_name()?));
        path.canonicalize().ok().or_else(by_parent)
    };
    let (Some(from), Some(to)) = (real(input), real(output)) else { return Ok(()) };
    if from == to {
        return refused(same);
    }
    let mut partial = to.clone().into_os_string();
    partial.push(".partial");
    if from.starts_with(&partial) {
        let what = "the input is the unfinished output, which would be cleared; move it away first";
        return Err(Error::Usage(format!("{}: {what}", input.display())));
    }
    if to.starts_with(&from) || from.starts_with(&to) {
        return refused(inside);
    }
    Ok(())
}
