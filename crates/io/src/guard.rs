//! Third-party decoders may panic on hostile bytes. This module turns such a panic into an error about
//! the file, silently: the first guard installs a panic hook before the host's that ignores guarded panics.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook, take_hook};
use std::path::Path;
use std::sync::Once;

use crate::{Error, Result};

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

static SILENCE: Once = Once::new();

type Hook = Box<dyn Fn(&PanicHookInfo<'_>) + Send + Sync>;

/// The host's hook, silent about panics that become errors.
fn silent_where_guarded(host: Hook) -> Hook {
    Box::new(move |panic| {
        if !GUARDED.get() {
            host(panic);
        }
    })
}

/// Runs a third-party decoder. After an error its state is not used again.
pub(crate) fn guard<T>(
    path: &Path,
    format: &'static str,
    decode: impl FnOnce() -> Result<T>,
) -> Result<T> {
    SILENCE.call_once(|| set_hook(silent_where_guarded(take_hook())));
    let before = GUARDED.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(decode));
    GUARDED.set(before);
    outcome.unwrap_or_else(|panic| Err(Error::malformed(path, format, message(&panic))))
}

fn message(panic: &Box<dyn Any + Send>) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("the decoder failed")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn a_panic_becomes_an_error_about_the_file_and_the_hosts_hook_hears_only_others() {
        static HEARD: AtomicUsize = AtomicUsize::new(0);
        let host = |_: &PanicHookInfo<'_>| {
            HEARD.fetch_add(1, Ordering::Relaxed);
        };
        set_hook(silent_where_guarded(Box::new(host)));
        let error = guard::<()>(Path::new("x.parquet"), "Parquet", || panic!("offset {}", 7));
        let message = error.unwrap_err().to_string();
        assert!(message.contains("x.parquet: not a readable Parquet file: offset 7"), "{message}");
        assert_eq!(HEARD.load(Ordering::Relaxed), 0);
        assert!(catch_unwind(|| panic!("ours")).is_err());
        assert_eq!(HEARD.load(Ordering::Relaxed), 1);
        drop(take_hook());
    }
}
