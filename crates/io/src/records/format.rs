//! The file formats of records.

use std::path::Path;

use crate::format::Compression;
use crate::{Error, Result};

/// A file format of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordFormat {
    /// Text with a separator that is detected from the first line.
    Text,
    /// Comma-separated text; semicolons and tabs are detected from the first line.
    Csv,
    /// Tab-separated text.
    Tsv,
    /// MovieLens: fields separated by `::`, no header, often latin-1.
    Dat,
    /// RecBole's atomic files: tab-separated, column names with types such as `user_id:token`.
    Inter,
    /// Apache Parquet.
    Parquet,
    /// Arrow IPC, file or stream.
    Arrow,
    /// A sparse matrix saved by scipy, with users as rows.
    Npz,
}

impl RecordFormat {
    /// The names that `--format` accepts.
    pub const NAMES: [&'static str; 8] =
        ["text", "csv", "tsv", "dat", "inter", "parquet", "arrow", "npz"];

    /// Returns the format of a name or file extension.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "text" | "txt" | "data" | "base" | "test" | "train" => Self::Text,
            "csv" => Self::Csv,
            "tsv" => Self::Tsv,
            "dat" | "movielens" => Self::Dat,
            // RecBole names its files after their content.
            "inter" | "item" | "user" | "kg" | "link" | "net" => Self::Inter,
            "parquet" | "pq" => Self::Parquet,
            "arrow" | "feather" | "ipc" | "arrows" => Self::Arrow,
            "npz" => Self::Npz,
            _ => return None,
        })
    }

    /// Infers the format from the extension of `path`, ignoring `.gz`, `.xz` and `.zst`. Unknown extensions are text.
    ///
    /// # Errors
    /// [`Error::Content`] for a columnar file that is compressed as a whole.
    pub fn of_path(path: &Path) -> Result<Self> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        let plain =
            Compression::of_name(&name).map_or(&*name, |c| name.trim_end_matches(c.suffix()));
        let extension = plain.rsplit_once('.').map(|(_, extension)| extension);
        let format = extension.and_then(Self::from_name).unwrap_or(Self::Text);
        if plain.len() != name.len() && !format.is_text() {
            let what = "only text may be compressed as a whole; decompress it first";
            return Err(Error::content(path, what));
        }
        Ok(format)
    }

    /// Returns whether it is text.
    pub const fn is_text(self) -> bool {
        !matches!(self, Self::Parquet | Self::Arrow | Self::Npz)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_inferred_from_extensions() {
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
