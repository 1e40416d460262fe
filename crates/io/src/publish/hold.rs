//! The exclusive right to work on an output: a file that the operating system locks for as long as its holder lives.
//!
//! The first line of the file names the holder, so that a second job can say who is at work and since when; the second
//! line is the holder's own note for a process that finds the file after a crash. Where the file system has no locks, the
//! named process decides: while it lives, the output is held.

use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use veridical_core::Error as Core;

use super::{is_at, is_unsupported};
use crate::{Error, Result};

/// The most bytes of a lock that are read: it holds two short lines.
const MAX_BYTES: u64 = 64 << 10;

/// The process that holds a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The process id.
    pub pid: u32,
    /// The host it runs on.
    pub host: String,
    /// When it acquired the lock, in seconds since 1970.
    pub since: u64,
}

impl Holder {
    pub(crate) fn this_process() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        Self { pid: std::process::id(), host: host_name().unwrap_or_default(), since }
    }

    /// Whether the process may still be alive: on another host nobody here can tell.
    fn may_live(&self) -> bool {
        self.host != host_name().unwrap_or_default() || is_alive(self.pid)
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} on {}, since {}", self.pid, self.host, utc(self.since))
    }
}

/// A lock that is held until it is dropped.
#[derive(Debug)]
pub struct Hold {
    path: PathBuf,
    file: File,
    holder: Holder,
    dead: Option<Holder>,
    note: String,
}

impl Hold {
    /// Locks the file at `path`; `shown` is the output as the user knows it.
    ///
    /// # Errors
    /// [`veridical_core::Error::Exists`] names the live holder, [`Error::Write`] if the file cannot be written.
    pub fn acquire(path: &Path, shown: &Path) -> Result<Self> {
        let failed = |e| Error::write(path, e);
        let (file, is_locked) = loop {
            let mut options = OpenOptions::new();
            let file = options.read(true).write(true).create(true).truncate(false).open(path);
            let file = file.map_err(failed)?;
            match file.try_lock() {
                Ok(()) if !is_at(&file, path) => {} // removed by its previous holder
                Err(TryLockError::WouldBlock) => return Err(held(shown, &file)),
                Err(TryLockError::Error(e)) if !is_unsupported(&e) => return Err(failed(e)),
                Ok(()) => break (file, true),
                Err(TryLockError::Error(_)) => break (file, false),
            }
        };
        let (dead, note) = content(&file).map_err(failed)?;
        if !is_locked && dead.as_ref().is_some_and(Holder::may_live) {
            let error = held(shown, &file);
            let hint = format!("if that job is dead, remove {}", path.display());
            return Err(Core::exists(error.to_string(), hint).into());
        }
        let mut hold =
            Self { path: path.to_owned(), file, holder: Holder::this_process(), dead, note };
        hold.write().map_err(failed)?;
        Ok(hold)
    }

    /// Rejects an output that another job holds, without touching anything.
    ///
    /// # Errors
    /// [`veridical_core::Error::Exists`] names the holder.
    pub fn refuse_held(path: &Path, shown: &Path) -> Result<()> {
        let Ok(file) = File::open(path) else { return Ok(()) };
        match file.try_lock_shared() {
            Err(TryLockError::WouldBlock) => Err(held(shown, &file)),
            _ => Ok(()),
        }
    }

    /// Returns the dead process that this one took the lock over from, if any.
    pub fn dead(&self) -> Option<&Holder> {
        self.dead.as_ref()
    }

    /// Returns the note that the dead process left; empty if there is none.
    pub fn note(&self) -> &str {
        &self.note
    }

    /// Leaves a note, in one line, for a process that finds the lock after a crash.
    ///
    /// # Errors
    /// The error of writing.
    pub fn leave(&mut self, note: &str) -> io::Result<()> {
        note.clone_into(&mut self.note);
        self.write()
    }

    /// Overwrites the two lines; what a longer text leaves behind them is never read.
    fn write(&mut self) -> io::Result<()> {
        // INVARIANT: numbers and text always serialize.
        let holder = serde_json::to_string(&self.holder).expect("a holder serializes");
        self.file.rewind()?;
        self.file.write_all(format!("{holder}\n{}\n", self.note).as_bytes())
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path); // before unlocking; a leftover file is reused
    }
}

/// The holder and the note in a lock.
fn content(mut file: &File) -> io::Result<(Option<Holder>, String)> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.take(MAX_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let mut lines = text.lines();
    let holder = lines.next().and_then(|line| serde_json::from_str(line).ok());
    Ok((holder, lines.next().unwrap_or_default().to_owned()))
}

fn held(output: &Path, file: &File) -> Error {
    // Without the name of its holder, the lock is still held.
    let holder = content(file).ok().and_then(|(holder, _)| holder);
    let who = holder.map(|holder| format!(" ({holder})")).unwrap_or_default();
    let what = format!("{} is being written by another job{who}", output.display());
    Core::exists(what, "wait for it or choose another name").into()
}

/// Returns the name of this host, if it is known.
#[cfg(unix)]
pub fn host_name() -> Option<String> {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    (!name.is_empty()).then_some(name)
}

/// Returns the name of this host, if it is known.
#[cfg(not(unix))]
pub fn host_name() -> Option<String> {
    std::env::var("COMPUTERNAME").ok()
}

#[cfg(unix)]
fn is_alive(pid: u32) -> bool {
    use rustix::io::Errno;
    use rustix::process::{Pid, test_kill_process};

    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| !matches!(test_kill_process(pid), Err(Errno::SRCH)))
}

#[cfg(not(unix))]
fn is_alive(_pid: u32) -> bool {
    true
}

/// A time as `2026-11-18 07:12:03 UTC`; the calendar is that of Hinnant, "chrono-compatible low-level date algorithms".
fn utc(seconds: u64) -> String {
    let (days, second) = ((seconds / 86_400) as i64 + 719_468, seconds % 86_400);
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds from `date -u -d @N`.
    #[test]
    fn times_are_those_of_the_calendar() {
        assert_eq!(utc(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(utc(1_767_225_599), "2025-12-31 23:59:59 UTC");
        assert_eq!(utc(4_107_542_400), "2100-03-01 00:00:00 UTC");
    }

    #[test]
    fn a_second_job_learns_who_holds_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let (path, out) = (dir.path().join(".lock"), Path::new("live"));
        let first = Hold::acquire(&path, out).unwrap();
        assert!(first.dead().is_none() && first.note().is_empty());
        for error in
            [Hold::acquire(&path, out).unwrap_err(), Hold::refuse_held(&path, out).unwrap_err()]
        {
            let text = error.to_string();
            let start = format!(
                "live is being written by another job (process {} on {}, since 2",
                std::process::id(),
                host_name().unwrap()
            );
            assert!(text.starts_with(&start), "{text}");
            assert!(text.ends_with(" UTC); wait for it or choose another name"), "{text}");
        }
        drop(first);
        assert!(!path.exists());
        Hold::refuse_held(&path, out).unwrap();
    }

    #[test]
    fn the_lock_of_a_dead_process_is_taken_over_with_its_note() {
        let dir = tempfile::tempdir().unwrap();
        let (path, out) = (dir.path().join(".lock"), Path::new("live"));
        let mut first = Hold::acquire(&path, out).unwrap();
        first.leave("a rather long note").unwrap();
        first.leave("short").unwrap();
        let left = fs::read(&path).unwrap();
        drop(first);
        fs::write(&path, left).unwrap();
        let next = Hold::acquire(&path, out).unwrap();
        assert_eq!(next.dead().unwrap().pid, std::process::id());
        assert_eq!(next.note(), "short");
        drop(next);
        fs::write(&path, b"\xff{\n\n").unwrap();
        assert!(Hold::acquire(&path, out).unwrap().dead().is_none());
    }
}
