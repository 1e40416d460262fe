//! `OUT.partial/`: an unfinished run.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, Float32Array};
use arrow_schema::{DataType, Field};
use serde_json::Value;
use veridical_core::{Cancel, Error as Core};
use veridical_data::{Checkpoint, Checkpoints, Ids, NamedTensor};

use super::{DOCUMENT, LOG, METRICS, MODEL, VECTORS};
use super::{read_tensors, write_tensors};
use crate::publish::{self, Lock, partial_path};
use crate::storage;
use crate::write::difference;
use crate::{Chunk, Dtype, Error, IdKind, IfExists, OutputSchema, Piece, Result, Source};
use crate::{TableWriter, Vectors, WriteOptions};

const CHECKPOINT: &str = "checkpoint";
const STATE: &str = "state.json";

/// Writes one run.
#[derive(Debug)]
pub struct RunWriter {
    partial: PathBuf,
    lock: Lock,
}

/// Rejects an output that a run could not be written to, before any work is done.
///
/// # Errors
/// [`veridical_core::Error::Exists`] names what exists and the remedy.
pub fn check_output(output: &Path, if_exists: IfExists) -> Result<()> {
    if storage::is_remote(output) {
        let what = format!("{}: runs are written to local folders", output.display());
        return Err(Core::request(what, "copy the finished run to the store").into());
    }
    Lock::refuse_held(output)?;
    check_existing(output, if_exists)
}

fn check_existing(output: &Path, if_exists: IfExists) -> Result<()> {
    if if_exists == IfExists::Force && output.exists() && !is_ours(output) {
        return publish::unlike(output, "is not a run", "choose another name");
    }
    publish::refuse_existing(output, if_exists, "run")
}

/// The lock for writing a run or an ensemble to `output`, after checking again what exists.
pub(super) fn lock(output: &Path, if_exists: IfExists) -> Result<Lock> {
    check_output(output, if_exists)?;
    let partial = partial_path(output);
    if let Some(folder) = partial.parent() {
        fs::create_dir_all(folder).map_err(|e| Error::write(&partial, e))?;
    }
    let lock = Lock::acquire(output, &partial)?;
    check_existing(output, if_exists)?;
    Ok(lock)
}

/// Whether a folder is a run, an ensemble or empty.
fn is_ours(path: &Path) -> bool {
    path.join(DOCUMENT).is_file()
        || !super::seeds(path).is_empty()
        || fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

impl RunWriter {
    /// Starts a run described by `document`, or resumes one: then its checkpoint is returned. `None`
    /// if the run is already finished.
    ///
    /// # Errors
    /// [`veridical_core::Error::Exists`] if an output exists, or if the unfinished run has another configuration.
    pub fn begin(
        output: &Path,
        document: &Value,
        if_exists: IfExists,
    ) -> Result<Option<(Self, Option<Checkpoint>)>> {
        check_output(output, if_exists)?;
        let is_finished = || if_exists == IfExists::Resume && output.join(DOCUMENT).is_file();
        if is_finished() && !partial_path(output).exists() {
            check_same(output, document, true)?; // nothing to write, so nothing to lock
            return Ok(None);
        }
        let writer = Self { partial: partial_path(output), lock: lock(output, if_exists)? };
        if is_finished() {
            check_same(output, document, true)?;
            return Ok(None);
        }
        if if_exists == IfExists::Resume && writer.partial.join(DOCUMENT).is_file() {
            check_same(&writer.partial, document, false)?;
            let checkpoint = writer.checkpoint()?;
            return Ok(Some((writer, checkpoint)));
        }
        let failed = |e| Error::write(&writer.partial, e);
        if writer.partial.exists() {
            fs::remove_dir_all(&writer.partial).map_err(failed)?;
        }
        fs::create_dir_all(&writer.partial).map_err(failed)?;
        publish::put(&writer.partial.join(DOCUMENT), &publish::pretty(document))?;
        Ok(Some((writer, None)))
    }

    fn checkpoint(&self) -> Result<Option<Checkpoint>> {
        let folder = self.partial.join(CHECKPOINT);
        let Ok(text) = fs::read(folder.join(STATE)) else { return Ok(None) };
        let damaged = |e| Error::malformed(&folder.join(STATE), "checkpoint", e);
        let mut checkpoint: Checkpoint = serde_json::from_slice(&text).map_err(damaged)?;
        checkpoint.state = read_tensors(&folder.join(state_file(checkpoint.done)))?;
        let best = folder.join(best_file(checkpoint.done));
        checkpoint.best = if best.exists() { Some(read_tensors(&best)?) } else { None };
        // Lines after the checkpoint are written again; within the first epoch there are none yet.
        let metrics = self.partial.join(METRICS);
        let cut = OpenOptions::new().write(true).create(true).truncate(false).open(&metrics);
        cut.and_then(|file| file.set_len(checkpoint.metrics_bytes))
            .map_err(|e| Error::write(&metrics, e))?;
        Ok(Some(checkpoint))
    }

    /// Returns the folder that the run is written to.
    pub fn folder(&self) -> &Path {
        &self.partial
    }

    /// Appends a line to the log.
    ///
    /// # Errors
    /// [`Error::Write`] if writing fails.
    pub fn log(&self, line: &Value) -> Result<()> {
        append(&self.partial.join(LOG), line).map(|_len| ())
    }

    /// Writes a vector table.
    ///
    /// # Errors
    /// The errors of [`TableWriter`].
    pub fn write_table(
        &self,
        name: &str,
        ids: &Ids,
        dim: usize,
        vectors: &[f32],
        bias: Option<&[f32]>,
    ) -> Result<()> {
        let folder = self.partial.join(VECTORS);
        fs::create_dir_all(&folder).map_err(|e| Error::write(&folder, e))?;
        let kind = if matches!(ids, Ids::Int(_)) { IdKind::Int } else { IdKind::Text };
        let kept = bias.iter().map(|_| Field::new("bias", DataType::Float32, false)).collect();
        let schema = OutputSchema { dim, dtype: Dtype::F32, ids: kind, kept, metadata: Vec::new() };
        let options = WriteOptions { existing: IfExists::Force.into(), ..WriteOptions::default() };
        let output = Source::Path(folder.join(format!("{name}.parquet")));
        let mut writer = TableWriter::create(&output, schema, &options, Value::Null)?;
        let bias = bias.map(|bias| Arc::new(Float32Array::from(bias.to_vec())) as ArrayRef);
        let mut at = 0;
        while at < ids.len() {
            let n = writer.cuts().next_rows().min(ids.len() - at);
            let values = vectors[at * dim..(at + n) * dim].to_vec();
            let rows = Chunk::bare(at as u64, ids.slice(at, n), values.into());
            let kept = bias.iter().map(|bias| bias.slice(at, n)).collect();
            at += n;
            writer.write(Piece {
                ids: rows.ids,
                vectors: Vectors::F32(rows.vectors),
                kept,
                input_rows: at as u64,
            })?;
        }
        writer.finish(&Cancel::default())
    }

    /// Completes the run: writes the model and the final document, which gets the digests of the tables, and renames the folder.
    ///
    /// # Errors
    /// [`Error::Write`] if writing fails.
    pub fn publish(mut self, document: &Value, model: &[NamedTensor<'_>]) -> Result<()> {
        write_tensors(&self.partial.join(MODEL), model)?;
        let mut document = document.clone();
        super::digests::add(&self.partial, &mut document)?;
        publish::put(&self.partial.join(DOCUMENT), &publish::pretty(&document))?;
        self.lock.publish()
    }

    /// Removes everything written so far, after bad input.
    pub fn abandon(self) {
        let _ = fs::remove_dir_all(&self.partial); // the first error is the one to report
    }
}

impl Checkpoints for RunWriter {
    type Error = Error;

    fn add_metrics(&self, line: &Value) -> Result<u64> {
        append(&self.partial.join(METRICS), line)
    }

    fn save(
        &self,
        at: &Checkpoint,
        state: &[NamedTensor<'_>],
        best: Option<&[NamedTensor<'_>]>,
    ) -> Result<()> {
        let folder = self.partial.join(CHECKPOINT);
        fs::create_dir_all(&folder).map_err(|e| Error::write(&folder, e))?;
        let now = [state_file(at.done), best_file(at.done)];
        write_tensors(&folder.join(&now[0]), state)?;
        if let Some(best) = best {
            write_tensors(&folder.join(&now[1]), best)?;
        }
        // INVARIANT: numbers and strings under string keys.
        let text = serde_json::to_vec(at).expect("a checkpoint serializes");
        publish::put(&folder.join(STATE), &text)?;
        let entries = fs::read_dir(&folder).map_err(|e| Error::read(&folder, "list", e))?;
        for entry in entries.flatten() {
            let name = entry.file_name();
            let is_tensors = Path::new(&name).extension().is_some_and(|e| e == "safetensors");
            if is_tensors && !now.iter().any(|kept| name == kept.as_str()) {
                let _ = fs::remove_file(entry.path()); // only takes space
            }
        }
        Ok(())
    }
}

/// Compares everything the user can choose; a finished run also has results.
fn check_same(folder: &Path, now: &Value, finished: bool) -> Result<()> {
    let path = folder.join(DOCUMENT);
    let text = fs::read(&path).map_err(|e| Error::read(&path, "read", e))?;
    let mut before: Value =
        serde_json::from_slice(&text).map_err(|e| Error::malformed(&path, "run.json", e))?;
    if let (true, Some(before), Some(now)) = (finished, before.as_object_mut(), now.as_object()) {
        before.retain(|key, _| now.contains_key(key));
    }
    match difference(&before, now, "") {
        None => Ok(()),
        Some((at, before, now)) => {
            let at = at.trim_start_matches('.');
            let what =
                format!("this is not the run that was started: {at} was {before} and is now {now}");
            let what = format!("{}: {what}", folder.display());
            let remedy = match at.ends_with("epochs") && !finished {
                true => format!(
                    "keep what is done with ⟨finish {}⟩, or start over with ⟨force⟩",
                    folder.display()
                ),
                false => "start over with ⟨force⟩".to_owned(),
            };
            Err(Core::exists(what, remedy).into())
        }
    }
}

/// Returns the folder that an unfinished run would be published as.
///
/// # Errors
/// [`veridical_core::Error::Request`] if the folder is not an unfinished run with a checkpoint.
pub fn unfinished(partial: &Path) -> Result<PathBuf> {
    let refused = |what: &str, remedy: &str| -> Result<PathBuf> {
        Err(Core::request(format!("{} {what}", partial.display()), remedy).into())
    };
    let output =
        partial.to_str().and_then(|path| path.trim_end_matches('/').strip_suffix(".partial"));
    let Some(output) = output.filter(|_| partial.is_dir()) else {
        return refused(
            "is not an unfinished run",
            "pass the folder RUN.partial that a training has left",
        );
    };
    if !partial.join(DOCUMENT).is_file() {
        let inner = fs::read_dir(partial).into_iter().flatten().flatten();
        let inner = inner.map(|entry| entry.path()).find(|path| {
            path.extension().is_some_and(|e| e == "partial") && path.join(DOCUMENT).is_file()
        });
        return match inner {
            Some(run) => refused(
                "holds runs of several seeds",
                &format!("finish {}, then go on with ⟨resume⟩", run.display()),
            ),
            None => refused("is not an unfinished run: it has no run.json", "train it again"),
        };
    }
    if !partial.join(CHECKPOINT).join(STATE).is_file() {
        return refused("has no checkpoint yet", "go on with ⟨resume⟩");
    }
    Ok(PathBuf::from(output))
}

/// The best state in the checkpoint of a run, else the last, if any.
pub(super) fn state_of(run: &Path) -> Option<PathBuf> {
    let folder = run.join(CHECKPOINT);
    let state: Checkpoint = serde_json::from_slice(&fs::read(folder.join(STATE)).ok()?).ok()?;
    let files = [best_file(state.done), state_file(state.done)].map(|name| folder.join(name));
    files.into_iter().find(|file| file.is_file())
}

fn state_file(done: u32) -> String {
    format!("state-{done}.safetensors")
}

fn best_file(done: u32) -> String {
    format!("best-{done}.safetensors")
}

fn append(path: &Path, line: &Value) -> Result<u64> {
    let failed = |e| Error::write(path, e);
    let mut file = OpenOptions::new().create(true).append(true).open(path).map_err(failed)?;
    writeln!(file, "{line}").map_err(failed)?;
    Ok(file.metadata().map_err(failed)?.len())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::run::RunFolder;

    fn tensor(values: &[f32]) -> NamedTensor<'_> {
        let shape: &[usize] = if values.len() == 1 { &[1, 1] } else { &[2, 1] };
        NamedTensor { name: "item", shape, values }
    }

    fn document(seed: u64) -> Value {
        json!({ "format": crate::run::FORMAT, "seed": seed })
    }

    #[test]
    fn a_run_resumes_at_its_checkpoint_and_appears_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("run");
        let (writer, none) =
            RunWriter::begin(&out, &document(1), IfExists::Refuse).unwrap().unwrap();
        assert_eq!(none, None);
        let metrics_bytes = writer.add_metrics(&json!({ "epoch": 1 })).unwrap();
        let memo = json!({ "waited": 2 });
        let checkpoint = Checkpoint { done: 1, memo, metrics_bytes, ..Checkpoint::default() };
        writer.save(&checkpoint, &[tensor(&[1.0])], Some(&[tensor(&[0.5])])).unwrap();
        writer.add_metrics(&json!({ "epoch": 2 })).unwrap();
        drop(writer);

        let message = |e: Error| e.to_string().replace(&dir.path().display().to_string(), "DIR");
        let refused = RunWriter::begin(&out, &document(1), IfExists::Refuse).unwrap_err();
        let end = "holds an unfinished run; continue it with ⟨resume⟩ or start over with ⟨force⟩";
        assert_eq!(message(refused), format!("DIR/run.partial {end}"));
        let other = RunWriter::begin(&out, &document(2), IfExists::Resume).unwrap_err();
        let what = "this is not the run that was started: seed was 1 and is now 2";
        assert_eq!(message(other), format!("DIR/run.partial: {what}; start over with ⟨force⟩"));
        let shorter = json!({ "settings": { "epochs": 1 } });
        fs::write(dir.path().join(DOCUMENT), r#"{"settings":{"epochs":3}}"#).unwrap();
        let ended = message(check_same(dir.path(), &shorter, false).unwrap_err());
        assert!(ended.ends_with("keep what is done with ⟨finish DIR⟩, or start over with ⟨force⟩"));

        let (writer, found) =
            RunWriter::begin(&out, &document(1), IfExists::Resume).unwrap().unwrap();
        let found = found.unwrap();
        assert_eq!((found.done, &found.memo), (1, &json!({ "waited": 2 })));
        assert_eq!((found.state["item"].1[0], found.best.unwrap()["item"].1[0]), (1.0, 0.5));
        writer.add_metrics(&json!({ "epoch": 2 })).unwrap();
        let ids = Ids::numbered(0, 2);
        writer.write_table("item", &ids, 1, &[3.0, 4.0], Some(&[0.1, 0.2])).unwrap();
        let mut done = document(1);
        done["tables"] = json!([{ "name": "item" }]);
        writer.publish(&done, &[tensor(&[3.0, 4.0])]).unwrap();
        assert!(RunWriter::begin(&out, &document(1), IfExists::Resume).unwrap().is_none());

        let run = RunFolder::open(&out).unwrap();
        assert_eq!(fs::read_to_string(out.join(METRICS)).unwrap().lines().count(), 2);
        assert_eq!(run.model().unwrap()["item"].1, [3.0, 4.0]);
        let table = crate::read_table(&Source::Path(run.table(None).unwrap()), &Default::default());
        assert_eq!(table.unwrap().vectors, [3.0, 4.0]);
        let message = message(run.table(Some("user")).unwrap_err());
        assert_eq!(message, "DIR/run: there is no table `user`; choose one with ⟨table⟩: item");
    }

    #[test]
    fn a_checkpoint_that_counted_epochs_is_still_read() {
        let old = r#"{ "epochs": 3, "memo": null, "metrics_bytes": 7 }"#;
        let read: Checkpoint = serde_json::from_str(old).unwrap();
        assert_eq!((read.done, read.metrics_bytes), (3, 7));
    }

    #[test]
    fn only_runs_are_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("precious");
        fs::create_dir(&out).unwrap();
        fs::write(out.join("thesis.txt"), "x").unwrap();
        let message = check_output(&out, IfExists::Force).unwrap_err().to_string();
        assert!(message.ends_with("precious is not a run; choose another name"), "{message}");
        let message = check_output(Path::new("s3://b/run"), IfExists::Force).unwrap_err();
        assert!(message.to_string().starts_with("s3://b/run: runs are written to local folders"));
    }
}
