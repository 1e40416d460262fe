//! Decoders of other projects may panic on hostile bytes. Here such a panic becomes an error about
//! the file.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use crate::{Error, Result};

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Whether a panic on this thread is caught and reported as an error: a panic hook stays silent.
pub fn panic_is_guarded() -> bool {
    GUARDED.get()
}

/// Runs a foreign decoder. After an error its state is not used again.
pub(crate) fn guard<T>(
    path: &Path,
    format: &'static str,
    decode: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let before = GUARDED.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(decode));
    GUARDED.set(before);
    outcome.unwrap_or_else(|panic| Err(Error::malformed(path, format, message(&panic))))
}

fn message(panic: &Box<dyn Any + Send>) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("the decoder gave up")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_about_the_file() {
        std::panic::set_hook(Box::new(|_| assert!(panic_is_guarded())));
        let error = guard::<()>(Path::new("x.parquet"), "Parquet", || panic!("offset {}", 7));
        assert!(
            error
                .unwrap_err()
                .to_string()
                .contains("x.parquet: not a readable Parquet file: offset 7")
        );
        assert!(!panic_is_guarded());
        drop(std::panic::take_hook());
    }
}
