//! The kinds of files that hold records.

use std::path::Path;

use crate::format::Compression;
use crate::{Error, Result};

/// How records are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordFormat {
    /// Text; its separator is seen from the first line.
    Text,
    /// Comma-separated text; semicolons and tabs are seen from the first line.
    Csv,
    /// Tab-separated text.
    Tsv,
    /// MovieLens: fields between `::`, no first line of names, often latin-1.
    Dat,
    /// RecBole's atomic files: tabs, and names with types as `user_id:token`.
    Inter,
    /// Parquet.
    Parquet,
    /// Arrow IPC, file or stream.
    Arrow,
    /// A sparse matrix that scipy saved; its rows are users.
    Npz,
}

impl RecordFormat {
    /// The names that `--format` takes.
    pub const NAMES: [&'static str; 8] =
        ["text", "csv", "tsv", "dat", "inter", "parquet", "arrow", "npz"];

    /// From a name or the ending of a file.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "text" | "txt" | "data" | "base" | "test" | "train" => Self::Text,
            "csv" => Self::Csv,
            "tsv" => Self::Tsv,
            "dat" | "movielens" => Self::Dat,
            // RecBole names its files after what they hold.
            "inter" | "item" | "user" | "kg" | "link" | "net" => Self::Inter,
            "parquet" | "pq" => Self::Parquet,
            "arrow" | "feather" | "ipc" | "arrows" => Self::Arrow,
            "npz" => Self::Npz,
            _ => return None,
        })
    }

    /// By the ending of `path`, looking through `.gz`, `.xz` and `.zst`. Unknown endings are text.
    ///
    /// # Errors
    /// [`Error::Content`] for a columnar file that is compressed as a whole.
    pub fn of_path(path: &Path) -> Result<Self> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        let plain =
            Compression::of_name(&name).map_or(&*name, |c| name.trim_end_matches(c.suffix()));
        let ending = plain.rsplit_once('.').map(|(_, ending)| ending);
        let format = ending.and_then(Self::from_name).unwrap_or(Self::Text);
        if plain.len() != name.len() && !format.is_text() {
            let what = "only text may be compressed as a whole; decompress it first";
            return Err(Error::content(path, what));
        }
        Ok(format)
    }

    /// Whether it has lines.
    pub const fn is_text(self) -> bool {
        !matches!(self, Self::Parquet | Self::Arrow | Self::Npz)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_tell_the_format() {
        let of = |name: &str| RecordFormat::of_path(Path::new(name)).unwrap();
        assert_eq!(of("ml-1m/ratings.dat.xz"), RecordFormat::Dat);
        assert_eq!(of("ratings.CSV"), RecordFormat::Csv);
        assert_eq!(of("ml-100k.inter.gz"), RecordFormat::Inter);
        assert_eq!(of("u.data"), RecordFormat::Text);
        assert_eq!(of("ratings"), RecordFormat::Text);
        assert!(RecordFormat::NAMES.iter().all(|name| RecordFormat::from_name(name).is_some()));
        let message = RecordFormat::of_path(Path::new("a.npz.gz")).unwrap_err().to_string();
        assert_eq!(
            message,
            "a.npz.gz: only text may be compressed as a whole; decompress it first"
        );
    }
}
