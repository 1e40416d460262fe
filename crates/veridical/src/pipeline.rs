//! Table-to-table pipeline: a reader thread decodes and cuts rows into pieces, the calling thread transforms them on all
//! cores, a writer thread encodes. At most a few pieces are in flight, so memory does not grow with the table.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use veridical_core::{Error as Refusal, Job, Progress, settings};
use veridical_io::{
    Chunk, Cuts, OnDuplicateId, OnNullId, OutputSchema, Piece, ReadOptions, Source, TableReader,
    TableWriter, Vectors, WriteOptions, publish, storage,
};

use crate::{Error, Result};

/// Capacity of the channel between two threads, in pieces.
const IN_FLIGHT: usize = 2;

settings! {
    /// How one table is read and another is written.
    pub struct JobOptions {
    } with {
        /// How the input is read.
        pub read: ReadOptions,
        /// How the output is written.
        pub write: WriteOptions,
    }
}

impl JobOptions {
    /// Returns the read options, including the columns carried over to the output.
    pub(crate) fn reading(&self) -> ReadOptions {
        ReadOptions { keep_columns: self.write.keep_columns.clone(), ..self.read.clone() }
    }
}

/// Statistics of a table job; preserved when the job is interrupted and resumed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// Number of rows written.
    pub rows: u64,
    /// Number of zero rows under `unit` normalization.
    pub zero_rows: u64,
    /// Number of rows skipped under `--on-nan skip`.
    pub skipped_rows: u64,
    /// Number of values set to 0 under `--on-nan zero`.
    pub zeroed_values: u64,
    /// Largest projection |u.h|.
    pub largest_projection: f32,
}

/// A transform of rows.
pub(crate) trait Transform {
    /// Returns the vectors to write for these rows.
    fn apply(&mut self, rows: &Chunk, tally: &mut Tally) -> Result<Vectors>;
}

/// Rows cut to the size of a piece, and the number of input rows consumed with them.
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
            "the content of a stream cannot be verified, so a job that reads one cannot be resumed";
        return Err(Refusal::request(what, "start over with ⟨force⟩").into());
    }
    TableWriter::check(output, write)?;
    let reader = TableReader::open(input, read)?;
    reader.notes().iter().for_each(|note| job.note(note));
    Ok(reader)
}

/// A table to read, transform and write.
pub(crate) struct TableJob<'a> {
    pub reader: TableReader,
    pub input: &'a Source,
    pub output: &'a Source,
    pub schema: OutputSchema,
    pub options: &'a JobOptions,
    /// Description of the transform; a job is resumed only if it is unchanged.
    pub description: Value,
}

/// Runs a table job to completion.
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
        // INVARIANT: the threads return errors; a panic in one is a bug and propagates as one.
        let read = reading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let (writer, written) =
            writing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        // The reader's error explains an early end; the writer's error comes before the closed channel that the
        // transform sees because of it.
        let outcome = read.map(|rows| rows_read = rows).and(written).and(transformed);
        let outcome =
            outcome.and_then(|()| if tally.rows > 0 { Ok(()) } else { Err(no_rows(input)) });
        finish(writer, outcome, input, job)
    });
    outcome?;
    tally.skipped_rows = rows_read - tally.rows; // includes rows after the last one kept
    let drops_ids = options.read.on_null_id != OnNullId::Error
        || options.read.on_duplicate_id != OnDuplicateId::Error;
    if drops_ids && tally.skipped_rows > 0 {
        let why = "their id is missing or repeated, or a value is not a finite number";
        job.warn(&format!("{} rows were skipped: {why}", tally.skipped_rows));
        warn_about_replaced(0, tally.zeroed_values, job);
    } else {
        warn_about_replaced(tally.skipped_rows, tally.zeroed_values, job);
    }
    Ok(tally)
}

fn no_rows(input: &Source) -> Error {
    let what = format!("{input}: no rows remain");
    Refusal::unfit(what, "every row contains a value that is not a finite number").into()
}

/// Warns about rows skipped and values replaced by the policy for non-finite values.
pub(crate) fn warn_about_replaced(skipped: u64, zeroed: u64, job: &Job<'_>) {
    if skipped > 0 {
        job.warn(&format!("{skipped} rows with values that are not finite numbers were skipped"));
    }
    if zeroed > 0 {
        job.warn(&format!("{zeroed} values that are not finite numbers were set to 0"));
    }
}

/// Completes the output, keeps it for a resume, or removes it.
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

/// Decodes, cuts and sends until the table or the receiver ends. Returns the number of rows read.
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

/// Takes the first `n` waiting rows as one chunk.
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

/// Everything that determines the bytes of the output.
fn manifest(table: &TableJob<'_>) -> Result<Value> {
    let (read, write) = (&table.options.reading(), &table.options.write);
    let files = TableReader::files(table.input, read)?;
    let below = |file: &Path| {
        // The folders of a partitioned table are part of it.
        let relative = table.input.path().and_then(|folder| file.strip_prefix(folder).ok());
        relative.map(|path| format!("{} ", path.display())).unwrap_or_default()
    };
    let mut inputs = Vec::new();
    for file in files.iter().map(PathBuf::as_path).chain(read.ids.iter().map(|ids| &**ids)) {
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

/// Rejects input and output that are the same file or inside each other.
pub(crate) fn refuse_overlap(input: &Source, output: &Source) -> Result<()> {
    let (Some(input), Some(output)) = (input.path(), output.path()) else { return Ok(()) };
    let same =
        ("the output is the input", "write to another file, then replace the input if you wish");
    let inside = ("one of input and output is inside the other", "write somewhere else");
    let refused = |(what, hint): (&str, &str)| {
        Err(Refusal::request(format!("{}: {what}", output.display()), hint).into())
    };
    if storage::overlap(input, output)? == Some(true) {
        return refused(if input == output { same } else { inside });
    }
    let (Some(from), Some(to)) = (publish::real_path(input), publish::real_path(output)) else {
        return Ok(());
    };
    if from == to {
        return refused(same);
    }
    let mut partial = to.clone().into_os_string();
    partial.push(".partial");
    if from.starts_with(&partial) {
        let what = "the input is the unfinished output, which would be deleted";
        let what = format!("{}: {what}", input.display());
        return Err(Refusal::request(what, "move it away first").into());
    }
    if to.starts_with(&from) || from.starts_with(&to) {
        return refused(inside);
    }
    Ok(())
}
