//! Sizes and digests of the tables of a run, in its `run.json`: bytes that changed since they were written are noticed.
//!
//! Each entry of `tables` has `bytes` and `digest` (`blake3:` and the hash of every byte). Runs from before them are read
//! unchecked.

use std::path::Path;

use serde_json::{Value, json};
use veridical_core::Error as Core;

use super::{DOCUMENT, RunFolder, VECTORS};
use crate::publications::FileEntry;
use crate::{Result, storage};

/// Adds sizes and digests to the tables of a document whose files are in `folder`.
///
/// # Errors
/// [`crate::Error::Read`] if a table cannot be read.
pub(super) fn add(folder: &Path, document: &mut Value) -> Result<()> {
    let tables = document.get_mut("tables").and_then(Value::as_array_mut);
    for table in tables.into_iter().flatten() {
        let Some(name) = table.get("name").and_then(Value::as_str) else { continue };
        let FileEntry { bytes, digest, .. } =
            FileEntry::of(folder, &format!("{VECTORS}/{name}.parquet"))?;
        table["bytes"] = json!(bytes);
        table["digest"] = json!(digest);
    }
    Ok(())
}

/// Compares a file with its run's document, if it is a table of a run: `RUN/vectors/NAME.parquet`.
///
/// # Errors
/// [`Core::Damaged`] for a table that changed, [`crate::Error::Read`] if it cannot be read.
pub(crate) fn check(path: &Path) -> Result<()> {
    if storage::is_remote(path) || path.extension().is_none_or(|extension| extension != "parquet") {
        return Ok(());
    }
    let vectors = path.parent().filter(|folder| folder.ends_with(VECTORS));
    let folder = vectors.and_then(Path::parent).filter(|run| RunFolder::is_run(run));
    let name = path.file_stem().and_then(|name| name.to_str());
    let (Some(folder), Some(name)) = (folder, name) else { return Ok(()) };
    let run = RunFolder::open(folder)?;
    let tables = run.document().get("tables").and_then(Value::as_array);
    let is_named = |table: &&Value| table.get("name").and_then(Value::as_str) == Some(name);
    let Some(table) = tables.into_iter().flatten().find(is_named) else { return Ok(()) };
    let (bytes, digest) = (table.get("bytes"), table.get("digest"));
    let (Some(bytes), Some(digest)) =
        (bytes.and_then(Value::as_u64), digest.and_then(Value::as_str))
    else {
        return Ok(());
    };
    let damaged = |what: String| {
        let what = format!("{}: {what}", path.display());
        Err(Core::damaged(what, "train the run again, or restore the file").into())
    };
    let found = FileEntry::of(folder, &format!("{VECTORS}/{name}.parquet"))?;
    if found.bytes != bytes {
        let found = found.bytes;
        return damaged(format!("has {found} bytes where {DOCUMENT} of the run has {bytes}"));
    }
    match found.digest == digest {
        true => Ok(()),
        false => damaged(format!("has changed: its digest is not that of {DOCUMENT} of the run")),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use veridical_data::Ids;

    use super::*;
    use crate::run::{FORMAT, RunWriter};
    use crate::{IfExists, ReadOptions, Source, read_table};

    #[test]
    fn flipped_bytes_in_a_table_of_a_run_are_noticed_and_older_runs_still_open() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("run");
        let document = json!({ "format": FORMAT });
        let (writer, _) = RunWriter::begin(&out, &document, IfExists::Refuse).unwrap().unwrap();
        writer.write_table("item", &Ids::numbered(0, 2), 1, &[3.0, 4.0], None).unwrap();
        let done = json!({ "format": FORMAT, "tables": [{ "name": "item", "rows": 2 }] });
        let tensor =
            veridical_data::NamedTensor { name: "item", shape: &[2, 1], values: &[3.0, 4.0] };
        writer.publish(&done, &[tensor]).unwrap();

        let table = out.join("vectors/item.parquet");
        let read = |path: &Path| {
            read_table(&Source::Path(path.to_owned()), &ReadOptions::default())
                .map(|table| table.vectors)
                .map_err(|e| e.to_string().replace(&dir.path().display().to_string(), "DIR"))
        };
        assert_eq!(read(&out).unwrap(), [3.0, 4.0]);
        let whole = fs::read(&table).unwrap();
        // Every byte counts, those of the values themselves included.
        for at in [4, whole.len() / 3, whole.len() / 2, whole.len() - 5] {
            let mut flipped = whole.clone();
            flipped[at] ^= 1;
            fs::write(&table, flipped).unwrap();
            for path in [&out, &table] {
                assert_eq!(
                    read(path).unwrap_err(),
                    "DIR/run/vectors/item.parquet: has changed: its digest is not that of run.json of the run; train the run \
                     again, or restore the file"
                );
            }
        }
        fs::write(&table, &whole[1..]).unwrap();
        let n = whole.len();
        let message = read(&out).unwrap_err();
        assert!(
            message.contains(&format!("has {} bytes where run.json of the run has {n};", n - 1)),
            "{message}"
        );

        // A run from before digests.
        fs::write(&table, &whole).unwrap();
        fs::write(out.join(DOCUMENT), done.to_string()).unwrap();
        assert_eq!(read(&out).unwrap(), [3.0, 4.0]);
    }
}
