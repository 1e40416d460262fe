//! Vectors of sentences from a pretrained encoder, run from the folder that sentence-transformers saves.
//!
//! What an [`Encoder`] computes is said in `veridical-text`; here it meets folders and documents.

mod embed;

use std::path::Path;

use veridical_io::{FolderFiles, storage};
pub use veridical_text::{Encoder, Passes, Texts};

pub use self::embed::{EmbeddedSentences, embed_sentences};
use crate::Result;

/// Reads an encoder from its folder.
///
/// # Errors
/// One for each file that is missing, damaged, of a kind that cannot be run, or does not fit the others.
pub fn open(folder: &Path) -> Result<Encoder> {
    let what = match storage::exists(folder)? {
        false => "does not exist",
        true if folder.exists() && !folder.is_dir() => "is not a folder",
        true => return Ok(Encoder::open(&FolderFiles::new(folder))?),
    };
    let what = format!("⟨encoder {}⟩: {what}", folder.display());
    let hint = "name the folder of an encoder, as sentence-transformers saves it";
    Err(veridical_core::Error::missing(what, hint).into())
}
