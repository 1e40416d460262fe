use std::io;
use std::path::{Path, PathBuf};

/// The result of reading or writing files.
pub type Result<T> = std::result::Result<T, Error>;

/// What can go wrong in reading or writing, grouped by who can fix it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system failed to read.
    #[error("{path}: cannot {action}: {source}")]
    Read {
        /// The path of the file.
        path: String,
        /// What was attempted.
        action: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// The operating system failed to write; what was written so far is kept for `--resume`.
    #[error("{path}: cannot write: {source}{}", write_remedy(path, source))]
    Write {
        /// The path of the file.
        path: String,
        /// The error of the system.
        source: io::Error,
    },
    /// An object store refused or failed; `what` says what was requested and what to do.
    #[error("{path}: {what}")]
    Store {
        /// The URL of the object.
        path: String,
        /// What failed, why, and what to do.
        what: String,
        /// Whether the same request may succeed later.
        is_transient: bool,
    },
    /// The bytes violate the file format.
    #[error(
        "{path}: not a readable {format} file: {what}; it may be truncated or damaged, write it again"
    )]
    Malformed {
        /// The path of the file.
        path: String,
        /// The format that the file was read as.
        format: &'static str,
        /// What is wrong.
        what: String,
    },
    /// The file is valid, but its content cannot be used; `what` names the position and the remedy.
    #[error("{path}: {what}")]
    Content {
        /// The path of the file.
        path: String,
        /// What is wrong, where, and what to do.
        what: String,
    },
    /// The file has no rows; such files are skipped in a folder.
    #[error("{path}: the table is empty: it has no rows")]
    NoRows {
        /// The path of the file.
        path: String,
    },
    /// A value or setting is invalid, an output exists, or the user interrupted the job.
    #[error(transparent)]
    Core(#[from] veridical_core::Error),
}

fn write_remedy(path: &str, source: &io::Error) -> &'static str {
    match source.kind() {
        _ if path == STDOUT => "",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; free some space and continue with ⟨resume⟩"
        }
        _ => "",
    }
}

/// The name of stdout in messages.
pub(crate) const STDOUT: &str = "stdout";

impl Error {
    /// Returns the error as one of a pass over rows, which knows no files.
    pub(crate) fn into_core(self) -> veridical_core::Error {
        match self {
            Self::Core(error) => error,
            other => veridical_core::Error::unfit(other.to_string(), ""),
        }
    }

    /// Creates the error of writing to stdout.
    pub fn stdout(source: io::Error) -> Self {
        Self::Write { path: STDOUT.into(), source }
    }

    pub(crate) fn no_rows(path: &Path) -> Self {
        Self::NoRows { path: path.display().to_string() }
    }

    pub(crate) fn read(path: &Path, action: &'static str, source: io::Error) -> Self {
        Self::Read { path: path.display().to_string(), action, source }
    }

    /// A file or folder that could not be written.
    pub fn write(path: &Path, source: io::Error) -> Self {
        Self::Write { path: path.display().to_string(), source }
    }

    pub(crate) fn content(path: impl Into<PathBuf>, what: impl Into<String>) -> Self {
        Self::Content { path: path.into().display().to_string(), what: what.into() }
    }

    pub(crate) fn malformed(path: &Path, format: &'static str, what: impl ToString) -> Self {
        Self::Malformed { path: path.display().to_string(), format, what: what.to_string() }
    }

    /// Returns whether the work done so far can be resumed: true for an interruption, for a disk that
    /// cannot be written and for a store that fails, false for bad input.
    pub fn is_resumable(&self) -> bool {
        self.is_interrupted()
            || matches!(self, Self::Write { .. } | Self::Store { is_transient: true, .. })
    }

    /// Returns whether the user interrupted the job.
    pub fn is_interrupted(&self) -> bool {
        matches!(self, Self::Core(e) if e.is_interrupted())
    }

    /// Returns whether a closed pipe is the cause, which is not an error on a command line.
    pub fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Write { source, .. } if source.kind() == io::ErrorKind::BrokenPipe)
    }
}
