//! `OUTPUT.partial/`: the unfinished output.
//!
//! _manifest.json  the job's description; a job is resumed only if it is the same
//! _journal.json   how much of the files is valid, replaced by rename after every group
//! data            the file itself, or `_part-NNNNN.ext` while a part of a folder is being written
//!
//! For an output in an object store this is a local folder ([`staging_path`]), and uploading the files
//! publishes them: an object appears whole or not at all.
//!
//! One job at a time works here ([`Lock`]). The last rename publishes the whole output. A process killed at
//! any moment leaves either the output or a `.partial` that produces the same bytes when resumed. (After a
//! power failure the journal may be ahead of the disk: start over with `--force`.)

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use veridical_core::{Cancel, Error as Core};

use crate::publish::{self, IfExists, Lock, partial_path};
use crate::storage::{self, Remote, staging_path};
use crate::{Error, Format, Result};

const FORMAT: &str = "veridical-partial/1";
// Names that every reader skips, in case a folder is briefly published with them.
const MANIFEST: &str = "_manifest.json";
const JOURNAL: &str = "_journal.json";
const START_OVER: &str = "start over with ⟨force⟩";

/// The progress of a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Journal {
    pub input_rows: u64,
    pub output_rows: u64,
    /// The part being written, its rows, and its valid bytes.
    pub part: u64,
    pub part_rows: u64,
    pub bytes: u64,
    pub encoder: Value,
    pub tally: Value,
    pub finished: bool,
}

/// The folder of an unfinished output.
#[derive(Debug)]
pub(super) struct Partial {
    output: PathBuf,
    /// The output itself, or its local stand-in.
    place: PathBuf,
    folder: PathBuf,
    is_folder: bool,
    /// Where the output is published, if not on this machine.
    remote: Option<Remote>,
}

impl Partial {
    /// The folder beside `output`, or in `staging` for a store; nothing is touched yet.
    pub fn new(output: &Path, is_folder: bool, staging: Option<&Path>) -> Result<Self> {
        let slash = output.as_os_str().as_encoded_bytes().ends_with(b"/");
        if output.file_name().is_none() || (slash && !is_folder) {
            let hint = "name a file, or a new folder with ⟨rows-per-part⟩";
            return publish::unlike(output, "is a folder", hint);
        }
        let remote = Remote::of(output)?;
        let place = match remote {
            Some(_) => staging_path(output, staging)?,
            None => output.to_owned(),
        };
        let folder = partial_path(&place);
        Ok(Self { output: output.to_owned(), place, folder, is_folder, remote })
    }

    /// Refuses to touch existing output, unless `if_exists` allows it.
    pub fn check(&self, if_exists: IfExists) -> Result<()> {
        Lock::refuse_held_as(&self.place, &self.output)?;
        self.check_place()?;
        self.check_existing(if_exists)
    }

    fn check_existing(&self, if_exists: IfExists) -> Result<()> {
        match if_exists {
            IfExists::Force => self.check_replaceable()?,
            IfExists::Resume if self.is_begun() || self.is_untidy() => {}
            _ => {
                publish::refuse_unfinished(&self.folder, if_exists, "job")?;
                if storage::exists(&self.output)? {
                    return Err(publish::already(&self.output));
                }
            }
        }
        Ok(())
    }

    fn check_place(&self) -> Result<()> {
        if self.remote.is_some() {
            return Ok(()); // the staging folder is created on demand
        }
        let parent = self.output.parent().filter(|p| !p.as_os_str().is_empty());
        if let Some(parent) = parent.filter(|p| !p.is_dir()) {
            let what = format!("{}: the folder does not exist", parent.display());
            return Err(Core::missing(what, "create it first").into());
        }
        Ok(())
    }

    /// Creates the folder, or finds the journal of the job that left it.
    pub fn begin(&self, job: Value, if_exists: IfExists) -> Result<(Lock, Option<Journal>)> {
        self.check(if_exists)?;
        if let (Some(_), Some(parent)) = (&self.remote, self.folder.parent()) {
            fs::create_dir_all(parent).map_err(|e| Error::write(parent, e))?;
        }
        let lock = Lock::acquire_as(&self.place, &self.folder, &self.output)?;
        self.check_existing(if_exists)?; // again, now that the lock is held
        Ok((lock, self.take_up(job, if_exists)?))
    }

    fn take_up(&self, job: Value, if_exists: IfExists) -> Result<Option<Journal>> {
        let manifest = json!({ "format": FORMAT, "job": job });
        if if_exists == IfExists::Resume && self.is_begun() {
            self.check_manifest(&manifest)?;
            return self.journal();
        }
        if if_exists == IfExists::Resume && self.is_untidy() {
            let journal = self.published(&manifest).map(Some);
            return journal.ok_or_else(|| publish::already(&self.output));
        }
        self.remove();
        fs::create_dir(&self.folder).map_err(|e| Error::write(&self.folder, e))?;
        publish::put(&self.folder.join(MANIFEST), &publish::pretty(&manifest))?;
        Ok(None)
    }

    /// Whether an unfinished job exists; a process killed before it wrote its manifest had started
    /// nothing.
    fn is_begun(&self) -> bool {
        self.folder.join(MANIFEST).exists()
    }

    /// Whether a folder was published by a process killed before it had cleaned up.
    fn is_untidy(&self) -> bool {
        let is_local_folder = self.is_folder && self.remote.is_none();
        is_local_folder && !self.is_begun() && self.output.join(JOURNAL).exists()
    }

    /// Only an earlier output may be replaced: a file by a file, a folder of parts by one.
    fn check_replaceable(&self) -> Result<()> {
        let refused = |what: &str, hint: &str| publish::unlike(&self.output, what, hint);
        let ours = |name: &str| {
            name.starts_with('_') || name.starts_with("part-") || name.ends_with(".crc")
        };
        const NOT_OURS: &str = "contains files that are not parts of a table";
        const OTHER: &str = "choose another name";
        if let Some(remote) = &self.remote {
            let names = if self.is_folder { remote.names()? } else { Vec::new() };
            let is_strange = |name: &String| name.contains('/') || !ours(name);
            return if names.iter().any(is_strange) { refused(NOT_OURS, OTHER) } else { Ok(()) };
        }
        if !self.output.is_dir() {
            return Ok(());
        }
        if !self.is_folder {
            let hint = "choose another name, or write a folder with ⟨rows-per-part⟩";
            return refused("is a folder", hint);
        }
        let entries =
            fs::read_dir(&self.output).map_err(|e| Error::read(&self.output, "list", e))?;
        if entries.flatten().any(|entry| !ours(&entry.file_name().to_string_lossy())) {
            return refused(NOT_OURS, OTHER);
        }
        Ok(())
    }

    /// The journal of a folder that was not cleaned up, if it is of the same job.
    fn published(&self, manifest: &Value) -> Option<Journal> {
        let read = |name| serde_json::from_slice(&fs::read(self.output.join(name)).ok()?).ok();
        let same = read(MANIFEST).is_none_or(|before: Value| before == *manifest);
        let journal = serde_json::from_value(read(JOURNAL)?).ok();
        journal.filter(|journal: &Journal| same && journal.finished)
    }

    fn check_manifest(&self, now: &Value) -> Result<()> {
        let path = self.folder.join(MANIFEST);
        let hopeless = |kind: fn(String, &'static str) -> Core, why: String| {
            kind(format!("{}: {why}", self.folder.display()), START_OVER)
        };
        let text = fs::read(&path).map_err(|e| {
            hopeless(Core::missing, format!("there is no manifest to resume from ({e})"))
        })?;
        let before: Value = serde_json::from_slice(&text)
            .map_err(|e| hopeless(Core::damaged, format!("the manifest is damaged ({e})")))?;
        if let Some((at, before, now)) = difference(&before, now, "") {
            let at = at.trim_start_matches(".job.");
            let why =
                format!("this is not the job that was started: {at} was {before} and is now {now}");
            return Err(hopeless(Core::exists, why).into());
        }
        Ok(())
    }

    fn journal(&self) -> Result<Option<Journal>> {
        let path = self.folder.join(JOURNAL);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::read(&path, "read", e)),
        };
        let journal = serde_json::from_slice(&text).map_err(|e| {
            Core::damaged(format!("{}: the journal is damaged ({e})", path.display()), START_OVER)
        })?;
        Ok(Some(journal))
    }

    /// Records the progress of the job.
    pub fn note(&self, journal: &Journal) -> Result<()> {
        // INVARIANT: numbers and JSON values always serialize.
        let text = serde_json::to_vec(journal).expect("a journal serializes");
        publish::note(&self.folder.join(JOURNAL), &text)
    }

    /// The file to write part `part` to.
    pub fn writing(&self, part: u64, format: Format, resumed: bool) -> Result<PathBuf> {
        if !self.is_folder {
            return Ok(self.folder.join("data"));
        }
        let path = self.folder.join(format!("_{}", part_name(part, format)));
        let done = self.folder.join(part_name(part, format));
        if resumed && !path.exists() && done.exists() {
            // Killed between the rename of the part and the journal: undo the rename.
            fs::rename(&done, &path).map_err(|e| Error::write(&path, e))?;
        }
        Ok(path)
    }

    /// Renames a finished part of a folder to its final name.
    pub fn end_part(&self, part: u64, format: Format) -> Result<()> {
        if !self.is_folder {
            return Ok(());
        }
        let done = self.folder.join(part_name(part, format));
        let path = self.folder.join(format!("_{}", part_name(part, format)));
        publish::finished(&path, &done).map_err(|e| Error::write(&done, e))
    }

    /// The final rename, then cleanup. May be called again by a process that finds it half done.
    pub fn publish(&self, lock: &mut Lock, cancel: &Cancel) -> Result<()> {
        match &self.remote {
            Some(remote) => self.send(remote, cancel).map_err(|e| self.waits(e))?,
            None if self.is_folder => return self.publish_folder(lock),
            None => self.publish_file()?,
        }
        lock.discard(&self.folder).map_err(|e| Error::write(&self.folder, e))
    }

    fn send(&self, remote: &Remote, cancel: &Cancel) -> Result<()> {
        if !self.is_folder {
            return remote.send_file(&self.folder.join("data"), cancel);
        }
        let entries = fs::read_dir(&self.folder);
        let entries = entries.map_err(|e| Error::read(&self.folder, "list", e))?;
        let is_part = |path: &PathBuf| {
            path.file_name().is_some_and(|n| !n.to_string_lossy().starts_with('_'))
        };
        let mut parts: Vec<PathBuf> = entries.flatten().map(|e| e.path()).filter(is_part).collect();
        parts.sort();
        remote.send_folder(&parts, cancel)
    }

    /// The table is complete but not uploaded.
    fn waits(&self, error: Error) -> Error {
        match error {
            Error::Store { path, what, .. } => {
                let here = format!("the finished table is in {}", self.folder.display());
                let what = format!("{what}; {here}: continue with ⟨resume⟩");
                Error::Store { path, what, is_transient: true }
            }
            other => other,
        }
    }

    fn publish_folder(&self, lock: &mut Lock) -> Result<()> {
        if self.folder.exists() {
            // The existing output will briefly have the name of the unfinished one: it must not look like it.
            self.tidy()?;
            lock.publish()?;
        }
        self.tidy()
    }

    /// Removes the job's own files from the output.
    fn tidy(&self) -> Result<()> {
        if !self.output.exists() {
            return Ok(());
        }
        let failed = |e| Error::write(&self.output, e);
        // The journal last: it marks that the rest may be removed.
        let entries = fs::read_dir(&self.output).map_err(failed)?.flatten();
        let own = |name: &str| name.starts_with('_') && name != MANIFEST && name != JOURNAL;
        let own = entries
            .map(|e| e.path())
            .filter(|path| own(&path.file_name().unwrap_or_default().to_string_lossy()));
        let last = [MANIFEST, JOURNAL].map(|name| self.output.join(name));
        for path in own.chain(last) {
            match fs::remove_file(&path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(failed(e)),
                _ => {}
            }
        }
        Ok(())
    }

    fn publish_file(&self) -> Result<()> {
        let data = self.folder.join("data");
        if data.exists() {
            publish::finished(&data, &self.output).map_err(|e| Error::write(&self.output, e))?;
        }
        Ok(())
    }

    /// Removes the folder, if it exists.
    pub fn remove(&self) {
        // A folder that cannot be removed is reported when it is created again.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn part_name(part: u64, format: Format) -> String {
    format!("part-{part:05}.{}", format.extension())
}

/// Returns the first position where two JSON values differ, with both values.
pub fn difference(before: &Value, now: &Value, at: &str) -> Option<(String, String, String)> {
    match (before, now) {
        (Value::Object(a), Value::Object(b)) => {
            let keys = a.keys().chain(b.keys().filter(|k| !a.contains_key(*k)));
            keys.into_iter().find_map(|key| {
                let side = |side: &serde_json::Map<String, Value>| {
                    side.get(key).cloned().unwrap_or(Value::Null)
                };
                difference(&side(a), &side(b), &format!("{at}.{key}"))
            })
        }
        _ if before == now => None,
        _ => Some((at.to_owned(), before.to_string(), now.to_string())),
    }
}
