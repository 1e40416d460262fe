//! The location and the file format of a table.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use veridical_core::settings::{Kind, Setting};

use crate::{Error, Result};

/// A file format for vector tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// Apache Parquet.
    Parquet,
    /// Arrow IPC, file or stream.
    Arrow,
    /// NumPy array file.
    Npy,
    /// NumPy archive of arrays.
    Npz,
    /// Hugging Face safetensors.
    Safetensors,
    /// Comma-separated text.
    Csv,
    /// Tab-separated text.
    Tsv,
    /// word2vec, text.
    Word2vec,
    /// word2vec, binary.
    Word2vecBinary,
    /// GloVe: word2vec text without its first line.
    Glove,
}

const KNOWN: &str = ".parquet, .arrow, .feather, .ipc, .npy, .npz, .safetensors, .csv, .tsv, .vec \
                     (word2vec text), .bin (word2vec binary), .txt (GloVe or word2vec text)";
/// The names of formats, with descriptions.
const NAMES: [(&str, &str); 10] = [
    ("parquet", "Parquet"),
    ("arrow", "Arrow IPC, file or stream"),
    ("npy", "NumPy array"),
    ("npz", "NumPy archive"),
    ("safetensors", "Hugging Face safetensors"),
    ("csv", "Comma-separated text"),
    ("tsv", "Tab-separated text"),
    ("word2vec", "word2vec, text"),
    ("word2vec-binary", "word2vec, binary"),
    ("glove", "GloVe: word2vec text without its first line"),
];

impl Setting for Format {
    const KIND: Kind = Kind::Choice(&NAMES);
}

impl Serialize for Format {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        self.key().serialize(to)
    }
}

impl<'de> Deserialize<'de> for Format {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        Self::from_name(&name).ok_or_else(|| {
            let names = NAMES.map(|(name, _)| name).join(", ");
            serde::de::Error::custom(format!(
                "there is no format `{name}`; the formats are {names}"
            ))
        })
    }
}

/// The file name suffix of the index of a model that is split into several files.
const INDEX: &str = ".safetensors.index.json";

impl Format {
    /// Returns the name used in settings.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Arrow => "arrow",
            Self::Npy => "npy",
            Self::Npz => "npz",
            Self::Safetensors => "safetensors",
            Self::Csv => "csv",
            Self::Tsv => "tsv",
            Self::Word2vec => "word2vec",
            Self::Word2vecBinary => "word2vec-binary",
            Self::Glove => "glove",
        }
    }

    /// Returns the format of a name such as `parquet` or of a file extension.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "parquet" | "pq" => Self::Parquet,
            "arrow" | "feather" | "ipc" | "arrows" => Self::Arrow,
            "npy" => Self::Npy,
            "npz" => Self::Npz,
            "safetensors" => Self::Safetensors,
            "csv" => Self::Csv,
            "tsv" => Self::Tsv,
            "word2vec" | "vec" | "w2v" => Self::Word2vec,
            "word2vec-binary" | "bin" => Self::Word2vecBinary,
            "glove" | "txt" => Self::Glove,
            _ => return None,
        })
    }

    /// Infers the format from the extension of `path`, ignoring `.gz`, `.xz` and `.zst`.
    ///
    /// # Errors
    /// [`Error::Content`] for an unknown extension, and for a compressed file of a format that cannot be compressed as a whole.
    pub fn of_path(path: &Path) -> Result<Self> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        let plain =
            Compression::of_name(&name).map_or(&*name, |c| name.trim_end_matches(c.suffix()));
        if is_index(path) {
            return Ok(Self::Safetensors);
        }
        let format = plain.rsplit_once('.').and_then(|(_, extension)| Self::from_name(extension));
        let format = format.ok_or_else(|| {
            Error::content(
                path,
                format!("cannot infer the format from the file name; known extensions are {KNOWN}"),
            )
        })?;
        if plain.len() != name.len() && !format.is_compressible() {
            let what = "only text and word2vec may be compressed as a whole; decompress it first";
            return Err(Error::content(path, what));
        }
        Ok(format)
    }

    /// Returns whether it is delimited text.
    pub const fn is_delimited(self) -> bool {
        matches!(self, Self::Csv | Self::Tsv)
    }

    /// Returns whether each row is a word followed by numbers.
    pub const fn has_words(self) -> bool {
        matches!(self, Self::Word2vec | Self::Word2vecBinary | Self::Glove)
    }

    /// Returns whether it is read sequentially, so that a file may be compressed as a whole.
    pub const fn is_compressible(self) -> bool {
        self.is_delimited() || self.has_words()
    }

    /// Returns the extension of files written in it.
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Arrow => "arrow",
            Self::Npy => "npy",
            Self::Npz => "npz",
            Self::Safetensors => "safetensors",
            Self::Csv => "csv",
            Self::Tsv => "tsv",
            Self::Word2vec => "vec",
            Self::Word2vecBinary => "bin",
            Self::Glove => "txt",
        }
    }

    /// Returns the name used in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Parquet => "Parquet",
            Self::Arrow => "Arrow IPC",
            Self::Npy => "npy",
            Self::Npz => "npz",
            Self::Safetensors => "safetensors",
            Self::Csv => "CSV",
            Self::Tsv => "TSV",
            Self::Word2vec => "word2vec text",
            Self::Word2vecBinary => "word2vec binary",
            Self::Glove => "GloVe",
        }
    }
}

/// Whether a path names the tensor index of a model rather than the tensors.
pub(crate) fn is_index(path: &Path) -> bool {
    path.to_string_lossy().to_ascii_lowercase().ends_with(INDEX)
}

/// Compression of a whole file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    Gzip,
    Xz,
    Zstd,
}

impl Compression {
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        [Self::Gzip, Self::Xz, Self::Zstd].into_iter().find(|c| name.ends_with(c.suffix()))
    }

    pub(crate) const fn suffix(self) -> &'static str {
        match self {
            Self::Gzip => ".gz",
            Self::Xz => ".xz",
            Self::Zstd => ".zst",
        }
    }
}

/// The source or destination of a table.
///
/// ```
/// use veridical_io::Source;
///
/// assert_eq!(Source::from_arg("-"), Source::Stream);
/// assert!(Source::from_arg("items.parquet").path().is_some());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file or folder.
    Path(PathBuf),
    /// Arrow IPC on stdin or stdout, written `-`.
    Stream,
}

impl Source {
    /// Parses a command-line argument.
    pub fn from_arg(arg: impl AsRef<Path>) -> Self {
        let path = arg.as_ref();
        if path == Path::new("-") { Self::Stream } else { Self::Path(path.to_owned()) }
    }

    /// Returns the path, if it is one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Path(path) => Some(path),
            Self::Stream => None,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => path.display().fmt(f),
            Self::Stream => f.write_str("-"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_inferred_from_extensions() {
        let of = |name: &str| Format::of_path(Path::new(name));
        assert_eq!(of("a/b.PARQUET").unwrap(), Format::Parquet);
        assert_eq!(of("a.csv.gz").unwrap(), Format::Csv);
        assert_eq!(of("a.tsv.zst").unwrap(), Format::Tsv);
        assert_eq!(of("glove.6B.50d.txt").unwrap(), Format::Glove);
        assert_eq!(of("GoogleNews-vectors-negative300.bin.gz").unwrap(), Format::Word2vecBinary);
        assert_eq!(of("wiki.en.vec").unwrap(), Format::Word2vec);
        assert_eq!(of("m/model.safetensors.index.json").unwrap(), Format::Safetensors);
        assert!(
            NAMES.iter().all(|(name, _)| Format::from_name(name).is_some_and(|f| f.key() == *name))
        );
        assert!(of("a.npy.gz").unwrap_err().to_string().contains("decompress it first"));
        let message = of("vectors").unwrap_err().to_string();
        assert!(
            message.starts_with("vectors: cannot infer the format from the file name"),
            "{message}"
        );
    }
}
