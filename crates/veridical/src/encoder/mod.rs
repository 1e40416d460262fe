//! Sentence embeddings from a pretrained encoder, loaded from a folder saved by sentence-transformers.
//!
//! [`Encoder`] itself is documented in `veridical-text`; this module connects it to folders and documents.

mod embed;

use std::path::Path;

use veridical_io::{FolderFiles, storage};
pub use veridical_text::{Encoder, Passes, Texts};

pub use self::embed::{EmbeddedSentences, embed_sentences};
use crate::Result;

/// Loads a sentence encoder from its folder.
///
/// # Errors
/// A file that is missing, damaged, unsupported, or inconsistent with the others.
pub fn open(folder: &Path) -> Result<Encoder> {
    let what = match storage::exists(folder)? {
        false => "does not exist",
        true if folder.exists() && !folder.is_dir() => "is not a folder",
        true => return Ok(Encoder::open(&FolderFiles::new(folder))?),
    };
    let what = format!("⟨encoder {}⟩: {what}", folder.display());
    let hint = "pass the folder of an encoder saved by sentence-transformers";
    Err(veridical_core::Error::missing(what, hint).into())
}
