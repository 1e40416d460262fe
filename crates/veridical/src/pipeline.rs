//! Table to table: a reader thread decodes and cuts, the calling thread transforms on all cores, a
//! writer thread encodes. At most a few pieces are in flight, so memory does not grow with the table.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use veridical_core::{Error as Refusal, Job, Progress, settings};
use veridical_io::{
    Chunk, Cuts, OutputSchema, Piece, ReadOptions, Source, TableReader, TableWriter, Vectors,
    WriteOptions, storage,
};

use crate::{Error, Result};

/// Pieces waiting between two threads.
const IN_FLIGHT: usize = 2;

settings! {
    /// How a table is read and another is written.
    pub struct JobOptions {
    } with {
        /// How to read.
        pub read: ReadOptions,
        /// How to write.
        pub write: WriteOptions,
    }
}

impl JobOptions {
    /// How to read, with the columns that are carried along to the output.
    pub(crate) fn reading(&self) -> ReadOptions {
        ReadOptions { keep_columns: self.write.keep_columns.clone(), ..self.read.clone() }
    }
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
    job: &Job<'_>,
) -> Result<TableReader> {
    let (read, write) = (&options.reading(), &options.write);
    refuse_overlap(input, output)?;
    if *input == Source::Stream && write.existing.resume {
        let what =
            "a stream cannot be told from another, so a job that reads one cannot be resumed";
        return Err(Refusal::request(what, "start over with ⟨force⟩").into());
    }
    TableWriter::check(output, write)?;
    let reader = TableReader::open(input, read)?;
    reader.notes().iter().for_each(|note| job.note(note));
    Ok(reader)
}

/// A table to be read, changed and written.
pub(crate) struct TableJob<'a> {
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
    table: TableJob<'_>,
    transform: &mut dyn Transform,
    job: &Job<'_>,
) -> Result<Tally> {
    let manifest = manifest(&table)?;
    let TableJob { mut reader, input, output, schema, options, .. } = table;
    let writer = TableWriter::create(output, schema, &options.write, manifest)?;
    let mut tally = Tally::default();
    if let Some(resumed) = writer.resumed() {
        tally = serde_json::from_value(resumed.tally.clone()).unwrap_or_default();
        tally.rows = resumed.output_rows;
        job.note(&format!("resuming after {} rows", resumed.output_rows));
        if resumed.finished {
            tally.skipped_rows = resumed.input_rows - resumed.output_rows;
            writer.finish(&job.cancel)?;
            return Ok(tally);
        }
        reader.skip_rows(resumed.input_rows);
    }
    let bar = job.progress("writing", "rows", reader.n_rows());
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
        finish(writer, outcome, input, job)
    });
    outcome?;
    tally.skipped_rows = rows_read - tally.rows; // with those behind the last row that was kept
    warn_about_replaced(tally.skipped_rows, tally.zeroed_values, job);
    Ok(tally)
}

fn no_rows(input: &Source) -> Error {
    let what = format!("{input}: no rows are left");
    Refusal::unfit(what, "all of them hold values that are not numbers").into()
}

/// What the policy for values that are not numbers did.
pub(crate) fn warn_about_replaced(skipped: u64, zeroed: u64, job: &Job<'_>) {
    if skipped > 0 {
        job.warn(&format!("{skipped} rows with values that are not numbers were left out"));
    }
    if zeroed > 0 {
        job.warn(&format!("{zeroed} values that are not numbers were set to 0"));
    }
}

/// Completes an output, keeps it to be taken up again, or takes it away.
pub(crate) fn finish(
    writer: TableWriter,
    outcome: Result<()>,
    input: &Source,
    job: &Job<'_>,
) -> Result<()> {
    match outcome {
        Ok(()) => match writer.finish(&job.cancel) {
            Err(e) if e.is_interrupted() => Err(Error::Interrupted),
            other => Ok(other?),
        },
        Err(e) if e.is_interrupted() && writer.is_resumable() => Err(Error::Interrupted),
        Err(Error::Io(e)) if e.is_resumable() => Err(e.into()),
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
        bar.check()?;
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
fn manifest(table: &TableJob<'_>) -> Result<Value> {
    let (read, write) = (&table.options.reading(), &table.options.write);
    let files = TableReader::files(table.input, read)?;
    let below = |file: &Path| {
        // The folders of a partitioned table are part of it.
        let relative = table.input.path().and_then(|folder| file.strip_prefix(folder).ok());
        relative.map(|path| format!("{} ", path.display())).unwrap_or_default()
    };
    let mut inputs = Vec::new();
    for file in files.iter().map(PathBuf::as_path).chain(read.ids.as_deref()) {
        inputs.push(format!(
            "{}{}",
            below(file).trim_start(),
            veridical_io::fingerprint::of_file(file)?
        ));
    }
    let mut manifest = json!({
        "inputs": inputs,
        "dtype": table.schema.dtype.name(),
    });
    let described = [read.describe(), write.describe(), table.description.clone()];
    for description in described {
        if let (Some(all), Value::Object(description)) = (manifest.as_object_mut(), description) {
            all.extend(description);
        }
    }
    Ok(manifest)
}

/// Input and output must not be the same file or lie inside each other.
pub(crate) fn refuse_overlap(input: &Source, output: &Source) -> Result<()> {
    let (Some(input), Some(output)) = (input.path(), output.path()) else { return Ok(()) };
    let same =
        ("the output is the input", "write to another file, then replace the input if you wish");
    let inside = ("input and output lie inside each other", "write somewhere else");
    let refused = |(what, hint): (&str, &str)| {
        Err(Refusal::request(format!("{}: {what}", output.display()), hint).into())
    };
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
        let what = "the input is the unfinished output, which would be cleared";
        let what = format!("{}: {what}", input.display());
        return Err(Refusal::request(what, "move it away first").into());
    }
    if to.starts_with(&from) || from.starts_with(&to) {
        return refused(inside);
    }
    Ok(())
}
