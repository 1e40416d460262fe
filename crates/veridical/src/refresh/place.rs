//! Where a version is written and how it becomes current, on disk and in a store.
//!
//! After the version has appeared, every step may be repeated: switch the pointer, rewrite the history, remove old
//! versions, log, and last record the manifest. A version that is complete but not recorded is one whose job was killed in
//! between; resuming that job repeats the steps.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use veridical_core::{Cancel, Error as Refused, Job};
use veridical_io::publications::{self, Manifest, Publications, Seen};
use veridical_io::{Format, IfExists, Source, publish, storage, write_atomically};

use super::{MANIFEST, Refresh, history};
use crate::Result;
use crate::train::now;

const JOB: &str = "job.json";

/// What is left to do for a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Everything.
    Write,
    /// The version has appeared; the job that wrote it was killed before the rest.
    Complete,
}

/// The folder of publications during one job.
pub struct Place {
    publications: Publications,
    /// The local folder in which the version grows: the same one, or a stand-in for a store.
    work: Publications,
    version: String,
    is_numbered: bool,
    if_exists: IfExists,
    seen: Seen,
    /// The manifests of this version: of its publication, and of its rejection.
    own: Vec<Manifest>,
    /// The manifests of all other versions.
    others: Vec<Manifest>,
    previous: Option<String>,
    claim: Option<publications::Claim>,
    /// The folder in which the version grows.
    stage: PathBuf,
    /// Held while the version is replaced; dropped before the lock of the whole folder.
    replacing: Option<publish::Lock>,
    _lock: Option<publications::Lock>,
}

impl Place {
    /// Locks the folder and chooses the version; nothing is written yet.
    pub fn open(settings: &Refresh, job: &Job<'_>) -> Result<Self> {
        let publications = Publications::new(&settings.out);
        refuse_names(settings)?;
        publications.refuse_foreign()?;
        let day = settings.dates.day()?;
        let work = match publications.is_remote() {
            true => Publications::new(&storage::staging_path(
                &settings.out,
                settings.write.staging.as_deref(),
            )?),
            false => publications.clone(),
        };
        let lock = lock(&work, job)?;
        let if_exists = settings.write.existing.if_exists();
        let is_numbered = day.is_none();
        let version = match day {
            Some(day) => day,
            None => numbered(&publications, if_exists)?,
        };
        let stage = publish::partial_path(&work.folder(&version));
        let seen = publications.seen()?;
        let mut place = Self {
            replacing: None,
            previous: None,
            own: Vec::new(),
            claim: None,
            others: Vec::new(),
            publications,
            work,
            version,
            is_numbered,
            if_exists,
            seen,
            stage,
            _lock: lock,
        };
        if !place.publications.is_remote() {
            // Also settles a replacement that a killed job left half done.
            let folder = place.publications.folder(&place.version);
            place.replacing = Some(publish::Lock::acquire(&folder, &place.stage)?);
        }
        place.refuse_existing()?;
        if place.seen.version.as_ref() != Some(&place.version) {
            place.publications.heal()?;
        }
        let all = place.publications.manifests()?;
        (place.own, place.others) = all.into_iter().partition(|m| m.version == place.version);
        place.previous = place.version_before()?;
        Ok(place)
    }

    fn refuse_existing(&self) -> Result<()> {
        let folder = self.publications.folder(&self.version);
        let exists = storage::exists(&folder)?;
        let already = || {
            let what =
                format!("version {} already exists in {}", self.version, self.root().display());
            Err(Refused::exists(what, "choose another ⟨date⟩ or replace it with ⟨force⟩").into())
        };
        match self.if_exists {
            IfExists::Refuse if self.stage.exists() => {
                let what = format!("{} holds an unfinished refresh", self.stage.display());
                let hint = "continue it with ⟨resume⟩ or start over with ⟨force⟩";
                Err(Refused::exists(what, hint).into())
            }
            IfExists::Refuse
                if exists
                    && (!self.publications.is_remote()
                        || self.publications.is_complete(&self.version)?) =>
            {
                already()
            }
            IfExists::Force
                if exists
                    && !storage::exists(&folder.join(MANIFEST))?
                    && !self.publications.is_remote() =>
            {
                let what = format!("{} is not a version", folder.display());
                Err(Refused::exists(what, "choose another ⟨date⟩").into())
            }
            IfExists::Refuse if self.publications.is_recorded(&self.version)? => {
                let what =
                    format!("version {} was published in {}", self.version, self.root().display());
                Err(Refused::exists(what, "choose another ⟨date⟩ or publish it again with ⟨force⟩")
                    .into())
            }
            IfExists::Resume if exists && !self.stage.exists() => {
                match self.publications.is_pending(&self.version)? {
                    true => Ok(()),
                    false
                        if self.publications.is_remote()
                            && !self.publications.is_complete(&self.version)? =>
                    {
                        Ok(())
                    }
                    false => already(),
                }
            }
            IfExists::Force
                if self.publications.is_remote()
                    && self.seen.version.as_ref() == Some(&self.version) =>
            {
                let what = format!(
                    "{}: version {} is current, and objects cannot be replaced all at once",
                    self.root().display(),
                    self.version
                );
                Err(Refused::exists(what, "publish under another ⟨date⟩, or roll back first")
                    .into())
            }
            _ => Ok(()),
        }
    }

    /// The version that consumers read until now.
    fn version_before(&self) -> Result<Option<String>> {
        let before = match &self.seen.version {
            // It is replaced, or its job was killed after the switch.
            Some(current) if *current == self.version => {
                let path = self.publications.folder(current).join(MANIFEST);
                let recorded = Manifest::read(&path).ok().and_then(|manifest| manifest.previous);
                recorded.or_else(|| self.published_before()?.previous.clone())
            }
            current => current.clone(),
        };
        match before {
            Some(before) if self.publications.is_complete(&before)? => Ok(Some(before)),
            _ => Ok(None),
        }
    }

    /// Rejects a reference other than the one of all published versions: consumers rely on the frame.
    pub fn refuse_other_frame(&self, frame: &str) -> Result<()> {
        let Some(other) = self.others.iter().find(|m| m.published && m.frame != frame) else {
            return Ok(());
        };
        let what = format!(
            "{} has the frame of another reference (version {}: {}; this one is {frame})",
            self.root().display(),
            other.version,
            other.frame
        );
        let hint = "publish tables of a new reference to another folder, since consumers rely on the frame";
        Err(Refused::exists(what, hint).into())
    }

    pub fn root(&self) -> &Path {
        self.publications.root()
    }

    pub fn version(&self) -> &str {
        &self.version
    }

    pub fn previous(&self) -> Option<&str> {
        self.previous.as_deref()
    }

    pub fn folder_of(&self, version: &str) -> PathBuf {
        self.publications.folder(version)
    }

    pub fn stage(&self) -> &Path {
        &self.stage
    }

    /// The local folder for the report on a rejection.
    pub fn rejected(&self) -> PathBuf {
        self.work.rejected(&self.version)
    }

    /// The folder of the outcome, for people.
    pub fn shown(&self, published: bool) -> String {
        let folder = match published {
            true => self.publications.folder(&self.version),
            false => self.publications.rejected(&self.version),
        };
        folder.display().to_string()
    }

    /// The place of this version in the order of publication. Only what replaces itself keeps its place: the current version,
    /// or a rejection.
    pub fn sequence(&self, published: bool) -> u64 {
        let replaces_itself = !published || self.seen.version.as_ref() == Some(&self.version);
        let own = self.own.iter().find(|m| replaces_itself && m.published == published);
        let last = self.others.iter().map(|manifest| manifest.sequence).max().unwrap_or(0);
        own.map_or(last + 1, |manifest| manifest.sequence)
    }

    /// Creates the folder in which the version grows, or takes up one of the same job.
    pub fn begin(&mut self, job: &Value) -> Result<Step> {
        let is_resumed = self.if_exists == IfExists::Resume;
        if is_resumed && !self.stage.exists() && self.publications.is_pending(&self.version)? {
            let manifest = Manifest::read(&self.publications.folder(&self.version).join(MANIFEST))?;
            self.refuse_other_job(manifest.details.get("job"), job)?;
            publications::verify(&self.publications.folder(&self.version))?;
            return Ok(Step::Complete);
        }
        if is_resumed && self.stage.exists() {
            let before = self.job_of_stage();
            if before.is_some() {
                self.refuse_other_job(before.as_ref(), job)?;
                self.claim()?;
                return Ok(Step::Write);
            }
        }
        // A numbered job that was killed after its last step is not made again under the next number.
        if is_resumed
            && self.is_numbered
            && let Some(same) = self.others.iter().find(|m| {
                m.published
                    && Some(&m.version) == self.seen.version.as_ref()
                    && is_same_table(m, job)
            })
        {
            let what = format!(
                "{} has this table already, as version {}",
                self.root().display(),
                same.version
            );
            return Err(Refused::exists(what, "there is nothing to resume").into());
        }
        remove(&self.stage)?;
        create(&self.stage)?;
        write_atomically(&self.stage.join(JOB), &publish::pretty(job))?;
        self.claim()?;
        Ok(Step::Write)
    }

    /// Reserves the version in a store.
    fn claim(&mut self) -> Result<()> {
        let may_take_over = self.if_exists != IfExists::Refuse;
        self.claim = self.publications.claim(&self.version, may_take_over)?;
        Ok(())
    }

    /// Removes what was begun: resuming would not help.
    pub fn abandon(&self) {
        let _ = remove(&self.stage); // the first error is the one to report
    }

    /// The job that the unfinished version belongs to; once finished, it is in the manifest.
    fn job_of_stage(&self) -> Option<Value> {
        let read = |file: &str| {
            let bytes = fs::read(self.stage.join(file)).ok()?;
            serde_json::from_slice::<Value>(&bytes).ok()
        };
        read(JOB).or_else(|| read(MANIFEST)?.get("job").cloned())
    }

    fn refuse_other_job(&self, before: Option<&Value>, job: &Value) -> Result<()> {
        let now = job.as_object().into_iter().flatten();
        let differs =
            |(key, value): &(&String, &Value)| before.and_then(|b| b.get(key)) != Some(*value);
        let keys: Vec<&str> = now.filter(differs).map(|(key, _)| key.as_str()).collect();
        if keys.is_empty() {
            return Ok(());
        }
        let what = format!(
            "{} belongs to a different refresh: {} differ",
            self.stage.display(),
            keys.join(", ")
        );
        Err(Refused::exists(what, "start over with ⟨force⟩").into())
    }

    /// The path of a table of the version: a file in its own folder, or a folder of parts.
    pub fn table(&self, name: &str, in_parts: bool) -> Result<PathBuf> {
        let folder = self.stage.join(name);
        if in_parts {
            return Ok(folder);
        }
        create(&folder)?;
        Ok(folder.join(format!("{name}.parquet")))
    }

    /// Resumes a table that was started.
    pub fn resumed(output: &Path) -> IfExists {
        match publish::partial_path(output).exists() {
            true => IfExists::Resume,
            false => IfExists::Refuse,
        }
    }

    /// Removes everything that is not part of the version: a kill right after a table is finished leaves its working
    /// folder behind.
    pub fn tidy(&self) -> Result<()> {
        let mut folders = vec![self.stage.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let (path, name) = (entry.path(), entry.file_name());
                let name = name.to_string_lossy();
                if name.starts_with('.') || name.ends_with(".partial") || name.starts_with("_part")
                {
                    remove(&path)?;
                } else if path.is_dir() {
                    folders.push(path);
                }
            }
        }
        remove(&self.stage.join(JOB))
    }

    /// Makes the finished version appear.
    pub fn appear(&mut self, cancel: &Cancel) -> Result<()> {
        if let Some(claim) = &self.claim {
            return Ok(self.publications.upload(&self.version, claim, &self.stage, cancel)?);
        }
        // INVARIANT: `open` locked what appears.
        let lock = self.replacing.as_mut().ok_or_else(|| Refused::Internal("no lock".into()))?;
        Ok(lock.publish()?)
    }

    /// Makes the version current and remembers it; returns its manifest and the versions that were removed.
    pub fn complete(&self, keep: usize) -> Result<(Manifest, Vec<String>)> {
        let manifest = Manifest::read(&self.publications.folder(&self.version).join(MANIFEST))?;
        self.publications.switch(&self.version, &self.seen)?;
        self.publications.forget_rejection(&self.version)?;
        let mut all = self.others.clone();
        all.push(manifest.clone());
        history::write(&self.publications, &all)?;
        let removed = self.publications.prune(keep, &all)?;
        self.log("publish")?;
        self.publications.record(&manifest)?;
        self.publications.release(&self.version)?;
        if self.publications.is_remote() {
            remove(&self.stage)?;
        }
        Ok((manifest, removed))
    }

    /// Remembers that the version was rejected.
    pub fn complete_rejection(&self, manifest: &Manifest, cancel: &Cancel) -> Result<()> {
        remove(&self.stage)?;
        if self.publications.is_remote() {
            let folder = self.rejected();
            self.publications.upload_rejected(&self.version, &folder, cancel)?;
            remove(&folder)?;
        }
        let mut all = self.others.clone();
        all.extend(self.published_before().cloned());
        all.push(manifest.clone());
        history::write(&self.publications, &all)?;
        self.log("reject")?;
        Ok(self.publications.record(manifest)?)
    }

    /// The manifest of this version if it was published before: a rejection does not touch it.
    fn published_before(&self) -> Option<&Manifest> {
        self.own.iter().find(|manifest| manifest.published)
    }

    fn log(&self, event: &str) -> Result<()> {
        Ok(self
            .publications
            .log(&json!({ "event": event, "version": self.version, "time": now() }))?)
    }
}

/// Rejects names that cannot be those of a folder of publications, and a folder inside a table that is read.
fn refuse_names(settings: &Refresh) -> Result<()> {
    let refused = |what: &str, hint: &str| {
        Err(Refused::request(format!("{}: {what}", settings.out.display()), hint).into())
    };
    if *settings.out == *Path::new("-") || Format::of_path(&settings.out).is_ok() {
        return refused("this is not the name of a folder", "name a folder to publish to");
    }
    let out = publish::real_path(&settings.out);
    for input in [&settings.reference, &settings.new] {
        if input.source() == Source::Stream {
            let what = "a stream can be read only once, and it is compared before it is published";
            return Err(Refused::request(what, "use a file").into());
        }
        if let (Some(out), Some(from)) = (&out, publish::real_path(input))
            && out.starts_with(&from)
        {
            return refused("this is inside a table that is read", "publish to another folder");
        }
    }
    Ok(())
}

/// Locks publications, and says so if the job that held the lock is dead.
pub(super) fn lock(
    publications: &Publications,
    job: &Job<'_>,
) -> Result<Option<publications::Lock>> {
    let lock = publications.lock()?;
    if let Some(dead) = lock.as_ref().and_then(publications::Lock::dead) {
        let what = "the lock of a job that ended without releasing it was taken over";
        job.note(&format!("{what} ({dead})"));
    }
    Ok(lock)
}

/// Whether a manifest is of the same table, whatever was current before it.
fn is_same_table(manifest: &Manifest, job: &Value) -> bool {
    let Some(before) = manifest.details.get("job") else { return false };
    let mut keys = job.as_object().into_iter().flatten();
    keys.all(|(key, value)| key == "previous" || before.get(key) == Some(value))
}

/// The number of the version: a job that is resumed takes up the last one if it was not finished.
fn numbered(publications: &Publications, if_exists: IfExists) -> Result<String> {
    let next = publications.next_number()?;
    if if_exists == IfExists::Resume
        && let Some(last) = next.parse::<u64>().ok().and_then(|next| next.checked_sub(1))
        && publications.is_pending(&last.to_string())?
    {
        return Ok(last.to_string());
    }
    Ok(next)
}

fn create(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).map_err(|e| veridical_io::Error::write(folder, e).into())
}

/// Removes a file or a folder, if it exists.
fn remove(path: &Path) -> Result<()> {
    publish::remove(path).map_err(|e| veridical_io::Error::write(path, e).into())
}
