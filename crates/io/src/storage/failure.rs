//! A store that fails while a decoder runs. Decoders wrap or discard the error they receive,
//! so the store's own error is kept aside and reported in its place.

use std::cell::RefCell;

use crate::{Error, Result};

thread_local! {
    static FAILED: RefCell<Option<Error>> = const { RefCell::new(None) };
}

/// Keeps `error` and returns a stand-in for the decoder.
#[cfg(feature = "object-store")]
pub(super) fn keep(error: Error) -> std::io::Error {
    let shown = std::io::Error::other(error.to_string());
    FAILED.set(Some(error));
    shown
}

/// Runs a decoder; if it fails because a store failed, returns the store's error.
pub(crate) fn explained<T>(decode: impl FnOnce() -> Result<T>) -> Result<T> {
    FAILED.take();
    decode().map_err(|error| FAILED.take().unwrap_or(error))
}
