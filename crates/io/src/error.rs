use std::io;
use std::path::{Path, PathBuf};

/// The result of working with tables.
pub type Result<T> = std::result::Result<T, Error>;

/// What can go wrong with a table, grouped by who can put it right.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused to read.
    #[error("{path}: cannot {action}: {source}")]
    Read {
        /// The file.
        path: String,
        /// What was attempted.
        action: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// The operating system refused to write; what was written so far is kept for `--resume`.
    #[error("{path}: cannot write: {source}{}", write_remedy(path, source))]
    Write {
        /// The file.
        path: String,
        /// The system's answer.
        source: io::Error,
    },
    /// An object store refused or failed; `what` says what was asked for and what to do.
    #[error("{path}: {what}")]
    Store {
        /// The object.
        path: String,
        /// What, why and what to do.
        what: String,
        /// Whether the same request may succeed later.
        is_transient: bool,
    },
    /// The bytes are not what the format promises.
    #[error(
        "{path}: not a readable {format} file: {what}; it may be truncated or damaged, write it again"
    )]
    Malformed {
        /// The file.
        path: String,
        /// What it was taken for.
        format: &'static str,
        /// What is wrong.
        what: String,
    },
    /// The file is readable, but its content does not serve; `what` names place and remedy.
    #[error("{path}: {what}")]
    Content {
        /// The file.
        path: String,
        /// What, where and what to do.
        what: String,
    },
    /// The file holds no rows; passed over among the files of a folder.
    #[error("{path}: the table is empty: it has no rows")]
    NoRows {
        /// The file.
        path: String,
    },
    /// A value does not serve, a setting or a request is refused, an output is there, or the user interrupted.
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

/// How stdout is called in messages.
pub(crate) const STDOUT: &str = "stdout";

impl Error {
    /// Stdout refused to be written.
    pub fn stdout(source: io::Error) -> Self {
        Self::Write { path: STDOUT.into(), source }
    }

    pub(crate) fn no_rows(path: &Path) -> Self {
        Self::NoRows { path: path.display().to_string() }
    }

    pub(crate) fn read(path: &Path, action: &'static str, source: io::Error) -> Self {
        Self::Read { path: path.display().to_string(), action, source }
    }

    pub(crate) fn write(path: &Path, source: io::Error) -> Self {
        Self::Write { path: path.display().to_string(), source }
    }

    pub(crate) fn content(path: impl Into<PathBuf>, what: impl Into<String>) -> Self {
        Self::Content { path: path.into().display().to_string(), what: what.into() }
    }

    pub(crate) fn malformed(path: &Path, format: &'static str, what: impl ToString) -> Self {
        Self::Malformed { path: path.display().to_string(), format, what: what.to_string() }
    }

    /// Whether the work done so far can be taken up again: true for an interruption, for a disk that
    /// refuses to write and for a store that fails, false for bad input.
    pub fn is_resumable(&self) -> bool {
        self.is_interrupted()
            || matches!(self, Self::Write { .. } | Self::Store { is_transient: true, .. })
    }

    /// Whether the user asked the job to stop.
    pub fn is_interrupted(&self) -> bool {
        matches!(self, Self::Core(e) if e.is_interrupted())
    }

    /// Whether a closed pipe caused it, which is not an error for a command line.
    pub fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Write { source, .. } if source.kind() == io::ErrorKind::BrokenPipe)
    }
}
