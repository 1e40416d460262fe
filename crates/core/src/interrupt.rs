//! Ctrl-C as a question that long work asks at safe points.
//!
//! The first SIGINT or SIGTERM raises a flag; the job sees it at its next [`check`], leaves a state
//! that can be resumed and returns [`Error::Interrupted`]. A second signal ends the process at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use crate::Error;
use crate::exit::Exit;

static RAISED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

fn flag() -> &'static Arc<AtomicBool> {
    RAISED.get_or_init(Arc::default)
}

/// Starts listening; called once by the program, never by the library.
///
/// # Errors
/// [`Error::System`] when the handlers cannot be installed.
pub fn listen() -> Result<(), Error> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let failed =
        |e: std::io::Error| Error::System { what: "listen for Ctrl-C", why: e.to_string() };
    for signal in [SIGINT, SIGTERM] {
        let code = i32::from(Exit::Interrupted.code());
        signal_hook::flag::register_conditional_shutdown(signal, code, flag().clone())
            .map_err(failed)?;
        signal_hook::flag::register(signal, flag().clone()).map_err(failed)?;
    }
    Ok(())
}

/// Returns [`Error::Interrupted`] once the user has asked to stop.
///
/// # Errors
/// See above; otherwise none.
pub fn check() -> Result<(), Error> {
    if flag().load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
}
