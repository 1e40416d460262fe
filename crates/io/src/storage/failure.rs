//! A store that fails in the midst of a decoder. Decoders wrap what they are told in words of their own,
//! or forget it; the error of the store is kept aside and put in the place of theirs.

use std::cell::RefCell;

use crate::{Error, Result};

thread_local! {
    static FAILED: RefCell<Option<Error>> = const { RefCell::new(None) };
}

/// Keeps `error` and gives what a decoder is told.
#[cfg(feature = "object-store")]
pub(super) fn keep(error: Error) -> std::io::Error {
    let told = std::io::Error::other(error.to_string());
    FAILED.set(Some(error));
    told
}

/// Runs a decoder; if it fails because a store failed, that is the error.
pub(crate) fn explained<T>(decode: impl FnOnce() -> Result<T>) -> Result<T> {
    FAILED.take();
    decode().map_err(|error| FAILED.take().unwrap_or(error))
}
