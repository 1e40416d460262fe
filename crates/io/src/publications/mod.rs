//! Publications: versions of a table in one folder, one of which is current.
//!
//! | path | content |
//! |---|---|
//! | `OUT/<version>/` | one version, complete once it has `_SUCCESS`; see [`Manifest`] |
//! | `OUT/<version>.partial/` | a version that is being written |
//! | `OUT/<version>.rejected/` | the report on a version that was not published |
//! | `OUT/current` | relative link to the current version, replaced by one rename |
//! | `OUT/_current.json` | the same where there are no links, and in stores: version and digest of its manifest |
//! | `OUT/manifests/<version>.json` | the manifest of every version there ever was |
//! | `OUT/history.parquet` | every measure of every version, made from the manifests |
//! | `OUT/log.jsonl` | when what happened: the only file with times |
//! | `OUT/.lock` | held by the one job that writes ([`publish::Hold`]) |
//!
//! At every moment a reader finds a complete version: a new one appears by one rename before the pointer moves to it, and
//! neither the current version nor the one before it is ever removed. Folders in stores cannot be renamed: a version is
//! uploaded in place with `_SUCCESS` last, and the pointer is replaced by a conditional put, so that of two jobs one loses.

mod manifest;

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use veridical_core::{Cancel, Error as Core};

pub use self::manifest::{FORMAT, FileEntry, MANIFEST, Manifest, SUCCESS, verify};
use crate::publish::{self, Hold};
use crate::storage::{Remote, Tag, Tagged};
use crate::{Error, Format, Result, storage};

const LINK: &str = "current";
const POINTER: &str = "_current.json";
const MANIFESTS: &str = "manifests";
const LOG: &str = "log.jsonl";
/// The measures of all versions, for other tools.
pub const HISTORY: &str = "history.parquet";
const LOCK: &str = ".lock";
const REJECTED: &str = ".rejected";
const PARTIAL: &str = ".partial";
/// Written first into a version in a store: one job at a time uploads it.
const CLAIM: &str = "_job.json";
const MAX_POINTER: u64 = 64 << 10;
const MAX_MANIFEST: u64 = 64 << 20;

/// The pointer to the current version where there are no links.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pointer {
    /// The current version.
    pub version: String,
    /// The digest of its manifest.
    pub manifest: String,
}

/// A folder of publications, on disk or in a store.
#[derive(Clone, Debug)]
pub struct Publications {
    root: PathBuf,
    is_remote: bool,
}

/// Returns whether `path` is a folder of publications. Other folders may hold a link called `current`, or manifests of
/// another kind.
///
/// # Errors
/// [`Error::Store`] if the store fails.
pub fn is_root(path: &Path) -> Result<bool> {
    if let Some(names) = storage::children(path)? {
        let has = |name: &str| names.iter().any(|found| found == name);
        return Ok(has(POINTER) || has(MANIFESTS) && has(HISTORY));
    }
    let has_memory = path.join(MANIFESTS).is_dir();
    let is_link = fs::symlink_metadata(path.join(LINK)).is_ok_and(|found| found.is_symlink());
    Ok(is_link && (has_memory || path.join(LINK).join(MANIFEST).is_file())
        || path.join(POINTER).is_file()
        || has_memory && path.join(HISTORY).is_file())
}

/// Whether a name is that of a folder right here.
fn is_version_name(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\'])
}

/// Returns the version that `path` means: the current one for a folder of publications, `None` for anything else.
///
/// # Errors
/// [`veridical_core::Error::Missing`] if there is no current version, or its folder is gone.
pub fn resolve(path: &Path) -> Result<Option<PathBuf>> {
    // A name with the extension of a table is a table, which saves a request to a store.
    if path.as_os_str() == "-" || Format::of_path(path).is_ok() || !is_root(path)? {
        return Ok(None);
    }
    let publications = Publications::new(path);
    match publications.current()? {
        Some(version) => publications.existing(&version).map(Some),
        None => {
            let what = format!("{}: nothing is published here yet", path.display());
            Err(Core::missing(what, "publish a first version with `veridical refresh`").into())
        }
    }
}

/// Returns the folder of a table of a publication: `vectors`, or the one that is named; `None` if `path` is no publication.
pub(crate) fn table(path: &Path, name: Option<&str>) -> Result<Option<PathBuf>> {
    let version = match resolve(path)? {
        Some(version) => version,
        None if Format::of_path(path).is_err() && is_version(path)? => path.to_owned(),
        None => return Ok(None),
    };
    let folder = version.join(name.unwrap_or("vectors"));
    if storage::exists(&folder)? {
        return Ok(Some(folder));
    }
    let what = format!("{}: there is no table `{}`", version.display(), name.unwrap_or("vectors"));
    Err(Core::missing(what, "choose one with ⟨table⟩: vectors, or features if a spec was given")
        .into())
}

/// Whether a folder is a complete version.
pub(crate) fn is_version(path: &Path) -> Result<bool> {
    if let Some(names) = storage::children(path)? {
        return Ok([MANIFEST, SUCCESS].iter().all(|file| names.iter().any(|name| name == file)));
    }
    Ok(storage::exists(&path.join(MANIFEST))? && storage::exists(&path.join(SUCCESS))?)
}

impl Publications {
    /// The publications in `root`, which need not exist.
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), is_remote: storage::is_remote(root) }
    }

    /// The publications that the folder of a recorded version is one of.
    pub fn of_version(folder: &Path) -> Option<Self> {
        let root = Self::new(folder.parent()?);
        let version = folder.file_name()?.to_str()?;
        root.is_recorded(version).unwrap_or(false).then_some(root)
    }

    /// Returns the folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns whether the folder is in a store.
    pub const fn is_remote(&self) -> bool {
        self.is_remote
    }

    /// Returns the folder of a version.
    pub fn folder(&self, version: &str) -> PathBuf {
        self.root.join(version)
    }

    /// Returns the folder of a rejected version.
    pub fn rejected(&self, version: &str) -> PathBuf {
        self.root.join(format!("{version}{REJECTED}"))
    }

    /// Returns whether a version is here with all its files.
    ///
    /// # Errors
    /// Those of reading.
    pub fn is_complete(&self, version: &str) -> Result<bool> {
        is_version(&self.folder(version))
    }

    /// The folder of a version that is there.
    fn existing(&self, version: &str) -> Result<PathBuf> {
        let folder = self.folder(version);
        if is_version(&folder)? {
            return Ok(folder);
        }
        let what = format!(
            "{}: the current version is `{version}`, and {} is gone or incomplete",
            self.root.display(),
            folder.display()
        );
        let hint = "restore it, or go back with `veridical refresh rollback`";
        Err(Core::missing(what, hint).into())
    }

    /// Locks the folder, creating it if it does not exist; in a store there is no lock.
    ///
    /// # Errors
    /// [`veridical_core::Error::Exists`] names the job that holds the lock, [`Error::Write`] if the folder cannot be written.
    pub fn lock(&self) -> Result<Option<Lock>> {
        if self.is_remote {
            return Ok(None);
        }
        let is_new = !self.root.exists();
        fs::create_dir_all(&self.root).map_err(|e| Error::write(&self.root, e))?;
        let hold = Hold::acquire(&self.root.join(LOCK), &self.root)?;
        Ok(Some(Lock { hold: Some(hold), new: is_new.then(|| self.root.clone()) }))
    }

    /// Rejects a folder that holds something else.
    ///
    /// # Errors
    /// [`veridical_core::Error::Exists`] says what it holds.
    pub fn refuse_foreign(&self) -> Result<()> {
        if self.is_remote {
            return Ok(());
        }
        let refused = |what: &str| {
            let what = format!("{} {what}", self.root.display());
            Err(Core::exists(what, "choose another name").into())
        };
        if self.root.exists() && !self.root.is_dir() {
            return refused("is a file");
        }
        let link = self.root.join(LINK);
        if link.exists() && !link.is_symlink() {
            let what = format!("{} is not a link", link.display());
            return Err(
                Core::exists(what, "a copy of publications must keep links; remove it").into()
            );
        }
        if is_root(&self.root)? {
            return Ok(());
        }
        let ours = |name: &str| {
            name.starts_with('.')
                || [LOG, HISTORY, MANIFESTS].contains(&name)
                || name.ends_with(PARTIAL)
                || name.ends_with(REJECTED)
        };
        for entry in fs::read_dir(&self.root).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if !ours(&name) && !is_version(&entry.path())? {
                return refused("is not a folder of publications");
            }
        }
        Ok(())
    }

    /// Returns the current version, if there is one.
    ///
    /// # Errors
    /// [`Error::Content`] for a damaged pointer.
    pub fn current(&self) -> Result<Option<String>> {
        Ok(self.pointed()?.map(|(version, _)| version))
    }

    /// The current version and, in a store, the state of the pointer.
    fn pointed(&self) -> Result<Option<(String, Option<Tagged>)>> {
        if !self.is_remote
            && let Ok(to) = fs::read_link(self.root.join(LINK))
        {
            let version = to.to_string_lossy().into_owned();
            return match is_version_name(&version) {
                true => Ok(Some((version, None))),
                false => Err(Error::content(
                    self.root.join(LINK),
                    format!("links to `{version}`, which is not a version of this folder"),
                )),
            };
        }
        let path = self.root.join(POINTER);
        let tagged = match Remote::of(&path)? {
            Some(remote) => match remote.read_tagged(MAX_POINTER)? {
                Some(tagged) => tagged,
                None => return Ok(None),
            },
            None if path.is_file() => {
                Tagged { content: storage::read(&path, MAX_POINTER)?, tag: Tag::default() }
            }
            None => return Ok(None),
        };
        let pointer: Pointer = serde_json::from_slice(&tagged.content)
            .map_err(|e| Error::malformed(&path, "pointer", e))?;
        let Pointer { version, .. } = pointer;
        if !is_version_name(&version) {
            return Err(Error::content(&path, format!("`{version}` is not a version")));
        }
        Ok(Some((version, Some(tagged))))
    }

    /// Takes note of the pointer, so that [`Self::switch`] can tell whether another job moved it.
    ///
    /// # Errors
    /// Those of [`Self::current`].
    pub fn seen(&self) -> Result<Seen> {
        let pointed = self.pointed()?;
        let (version, tagged) = pointed.map_or((None, None), |(v, tagged)| (Some(v), tagged));
        Ok(Seen { version, tag: tagged.map(|tagged| tagged.tag) })
    }

    /// Makes a complete version the current one, at one instant.
    ///
    /// # Errors
    /// [`veridical_core::Error::Exists`] if another job moved the pointer of a store since it was `seen`, [`Error::Write`]
    /// if writing fails.
    pub fn switch(&self, version: &str, seen: &Seen) -> Result<()> {
        let manifest = self.folder(version).join(MANIFEST);
        let digest = manifest::digest(&storage::read(&manifest, MAX_MANIFEST)?);
        let pointer = Pointer { version: version.to_owned(), manifest: digest };
        let pointer = publish::pretty(&pointer);
        let path = self.root.join(POINTER);
        if let Some(remote) = Remote::of(&path)? {
            if remote.put_if_unchanged(&pointer, seen.tag.as_ref())? {
                return Ok(());
            }
            let what = format!("{}: another job published meanwhile", self.root.display());
            let hint =
                format!("version {version} is uploaded but not current; continue with ⟨resume⟩");
            return Err(Core::exists(what, hint).into());
        }
        if self.link(version).map_err(|e| Error::write(&self.root.join(LINK), e))? {
            return publish::remove(&path).map_err(|e| Error::write(&path, e));
        }
        publish::put(&path, &pointer)
    }

    /// Replaces the link; `false` if there are no links here.
    fn link(&self, version: &str) -> io::Result<bool> {
        let (aside, link) = (self.root.join(".current.tmp"), self.root.join(LINK));
        publish::remove(&aside)?;
        match symlink(version, &aside) {
            Err(e) if is_without_links(&e) => return Ok(false),
            made => made?,
        }
        publish::rename(&aside, &link)?;
        Ok(true)
    }

    /// Returns the names in the folder.
    fn names(&self) -> Result<Vec<String>> {
        if let Some(names) = storage::children(&self.root)? {
            return Ok(names);
        }
        let entries = fs::read_dir(&self.root).into_iter().flatten().flatten();
        Ok(entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
    }

    /// Returns the manifests of all versions, published or not, in the order in which they were made.
    ///
    /// # Errors
    /// [`Error::Malformed`] for a damaged manifest.
    pub fn manifests(&self) -> Result<Vec<Manifest>> {
        let folder = self.root.join(MANIFESTS);
        if !storage::exists(&folder)? {
            return Ok(Vec::new());
        }
        let skips = |name: &str| name.starts_with(['.', '_']);
        let mut all = Vec::new();
        for path in storage::list(&folder, skips)?.unwrap_or_default() {
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            let manifest = Manifest::read(&path)?;
            // A version is a name in this folder, so that nothing outside is ever read or removed.
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            let stem = if manifest.published { &*stem } else { stem.trim_end_matches(REJECTED) };
            if manifest.version != stem || !is_version_name(stem) {
                let what = format!("is the manifest of version `{}`", manifest.version);
                return Err(Error::content(path, what));
            }
            all.push(manifest);
        }
        all.sort_by(|a, b| (a.sequence, &a.version).cmp(&(b.sequence, &b.version)));
        Ok(all)
    }

    /// Records the manifest of a version: the last step of a publication, and of a rejection.
    ///
    /// # Errors
    /// [`Error::Write`] if writing fails.
    pub fn record(&self, manifest: &Manifest) -> Result<()> {
        if !self.is_remote {
            let folder = self.root.join(MANIFESTS);
            fs::create_dir_all(&folder).map_err(|e| Error::write(&folder, e))?;
        }
        publish::put(&self.recorded(&manifest.version, manifest.published), &manifest.to_bytes())
    }

    fn recorded(&self, version: &str, published: bool) -> PathBuf {
        let rejected = if published { "" } else { REJECTED };
        self.root.join(MANIFESTS).join(format!("{version}{rejected}.json"))
    }

    /// Returns whether a version is complete but was not recorded: its job was killed before the last step.
    ///
    /// # Errors
    /// Those of reading.
    pub fn is_pending(&self, version: &str) -> Result<bool> {
        let folder = self.folder(version);
        if !is_version(&folder)? {
            return Ok(false);
        }
        let recorded = self.recorded(version, true);
        if !storage::exists(&recorded)? {
            return Ok(true);
        }
        let [own, recorded] =
            [folder.join(MANIFEST), recorded].map(|path| storage::read(&path, MAX_MANIFEST));
        Ok(own? != recorded?)
    }

    /// Returns whether a version was ever published here.
    ///
    /// # Errors
    /// Those of reading.
    pub fn is_recorded(&self, version: &str) -> Result<bool> {
        storage::exists(&self.recorded(version, true))
    }

    /// Records the current version if the job that published it was killed before it could.
    ///
    /// # Errors
    /// Those of reading and writing.
    pub fn heal(&self) -> Result<()> {
        match self.current()? {
            Some(current) if self.is_pending(&current)? => {
                self.record(&Manifest::read(&self.folder(&current).join(MANIFEST))?)
            }
            _ => Ok(()),
        }
    }

    /// Removes what an earlier rejection of a version left: it is published now.
    ///
    /// # Errors
    /// [`Error::Write`] if removing fails.
    pub fn forget_rejection(&self, version: &str) -> Result<()> {
        self.remove(&self.recorded(version, false))?;
        self.remove(&self.rejected(version))
    }

    /// Returns the versions that are complete, in the order of `manifests`.
    ///
    /// # Errors
    /// Those of reading.
    pub fn complete<'a>(&self, manifests: &'a [Manifest]) -> Result<Vec<&'a Manifest>> {
        let mut complete = Vec::new();
        for manifest in manifests.iter().filter(|manifest| manifest.published) {
            if is_version(&self.folder(&manifest.version))? {
                complete.push(manifest);
            }
        }
        Ok(complete)
    }

    /// Returns the number of the unfinished version, or the next one.
    ///
    /// # Errors
    /// Those of listing.
    pub fn next_number(&self) -> Result<String> {
        let names = self.names()?;
        let recorded = self.manifests()?;
        let known =
            names.iter().map(String::as_str).chain(recorded.iter().map(|m| m.version.as_str()));
        let number = |name: &str| {
            name.trim_end_matches(REJECTED).trim_end_matches(PARTIAL).parse::<u64>().ok()
        };
        // Larger numbers are not ours.
        let last = known.filter_map(number).filter(|n| *n < 1 << 53).max().unwrap_or(0);
        let is_unfinished =
            names.contains(&format!("{last}{PARTIAL}")) && !names.contains(&last.to_string());
        Ok(if is_unfinished { last } else { last + 1 }.to_string())
    }

    /// Removes versions, oldest first, until `keep` are left; never the current one or the one before it. Returns what
    /// was removed.
    ///
    /// # Errors
    /// [`Error::Write`] if removing fails.
    pub fn prune(&self, keep: usize, manifests: &[Manifest]) -> Result<Vec<String>> {
        let complete = self.complete(manifests)?;
        let current = self.current()?;
        let at = complete.iter().position(|m| Some(&m.version) == current.as_ref());
        // The version before is the one that consumers read until then.
        let previous = at.and_then(|at| complete[at].previous.as_ref());
        let previous = complete.iter().position(|m| Some(&m.version) == previous);
        let before = previous.or(at.and_then(|at| at.checked_sub(1)));
        let is_needed = |i: usize| Some(i) == at || Some(i) == before;
        let surplus = complete.len().saturating_sub(keep);
        let mut removed = Vec::new();
        for (i, manifest) in complete.iter().enumerate().take(surplus) {
            if !is_needed(i) {
                self.remove(&self.folder(&manifest.version))?;
                removed.push(manifest.version.clone());
            }
        }
        let rejected: Vec<&Manifest> = manifests.iter().filter(|m| !m.published).collect();
        for manifest in &rejected[..rejected.len().saturating_sub(keep)] {
            self.remove(&self.rejected(&manifest.version))?;
        }
        Ok(removed)
    }

    /// Removes a file or folder; a folder loses its name, or in a store its `_SUCCESS`, first.
    fn remove(&self, path: &Path) -> Result<()> {
        if let Some(remote) = Remote::of(path)? {
            return remote.remove_all();
        }
        let trash = publish::hidden(path, "trash");
        publish::discard(path, &trash).map_err(|e| Error::write(path, e))
    }

    /// Appends an event with its time to the log; in a store there is none.
    ///
    /// # Errors
    /// [`Error::Write`] if writing fails.
    pub fn log(&self, event: &Value) -> Result<()> {
        if self.is_remote {
            return Ok(());
        }
        let path = self.root.join(LOG);
        let line = format!("{event}\n");
        let append = || {
            let mut file = OpenOptions::new().append(true).create(true).open(&path)?;
            file.write_all(line.as_bytes())
        };
        append().map_err(|e| Error::write(&path, e))
    }

    /// Reserves a version in a store for this process; `may_take_over` if an earlier attempt is resumed or replaced. Returns
    /// the claim.
    ///
    /// # Errors
    /// [`veridical_core::Error::Exists`] if another job is uploading this version.
    pub fn claim(&self, version: &str, may_take_over: bool) -> Result<Option<Claim>> {
        let path = self.folder(version).join(CLAIM);
        let Some(remote) = Remote::of(&path)? else { return Ok(None) };
        let claim = publish::pretty(&publish::Holder::this_process());
        if remote.put_if_unchanged(&claim, None)? {
            return Ok(Some(Claim(claim)));
        }
        if may_take_over {
            return remote.put(&claim).map(|()| Some(Claim(claim)));
        }
        let what = format!("{} is being written by another job", self.folder(version).display());
        Err(Core::exists(what, "wait for it, or take it over with ⟨force⟩").into())
    }

    /// Uploads a version that is complete in the local folder `from`, if the claim still holds and the version is not
    /// current: readers would find it incomplete.
    ///
    /// # Errors
    /// [`veridical_core::Error::Exists`] if another job took the version over, and those of the store.
    pub fn upload(&self, version: &str, claim: &Claim, from: &Path, cancel: &Cancel) -> Result<()> {
        let Some(remote) = Remote::of(&self.folder(version))? else { return Ok(()) };
        let at = Remote::of(&self.folder(version).join(CLAIM))?;
        let now = at.map(|at| at.read_tagged(MAX_POINTER)).transpose()?.flatten();
        let is_ours = now.is_some_and(|now| now.content == claim.0);
        if !is_ours || self.current()?.as_deref() == Some(version) {
            let what =
                format!("{}: another job published this version", self.folder(version).display());
            return Err(Core::exists(what, "publish under another ⟨date⟩").into());
        }
        remote.send_tree(from, &[CLAIM], cancel)
    }

    /// Gives up the claim of a version that is published.
    ///
    /// # Errors
    /// Those of the store.
    pub fn release(&self, version: &str) -> Result<()> {
        match Remote::of(&self.folder(version).join(CLAIM))? {
            Some(remote) => remote.remove(),
            None => Ok(()),
        }
    }

    /// Uploads the report on a rejected version.
    ///
    /// # Errors
    /// Those of the store.
    pub fn upload_rejected(&self, version: &str, from: &Path, cancel: &Cancel) -> Result<()> {
        let Some(remote) = Remote::of(&self.rejected(version))? else { return Ok(()) };
        remote.send_tree(from, &[], cancel)
    }
}

/// The right to upload a version to a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim(Vec<u8>);

/// The pointer as it was when a job began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The version that was current.
    pub version: Option<String>,
    tag: Option<Tag>,
}

/// The lock of a folder of publications; a folder that was created for it and stayed empty is removed with it.
#[derive(Debug)]
pub struct Lock {
    hold: Option<Hold>,
    new: Option<PathBuf>,
}

impl Lock {
    /// Returns the dead process that the lock was taken over from, if any.
    pub fn dead(&self) -> Option<&publish::Holder> {
        self.hold.as_ref().and_then(Hold::dead)
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        drop(self.hold.take());
        if let Some(folder) = &self.new {
            let _ = fs::remove_dir(folder); // fails if there is something in it
        }
    }
}

#[cfg(unix)]
fn symlink(to: &str, at: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(to, at)
}

#[cfg(not(unix))]
fn symlink(_to: &str, _at: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

fn is_without_links(error: &io::Error) -> bool {
    // EPERM is what Linux says of a file system without links.
    matches!(error.kind(), io::ErrorKind::Unsupported | io::ErrorKind::PermissionDenied)
}

#[cfg(test)]
mod tests;
