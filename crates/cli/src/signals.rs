//! Ctrl-C as a flag that long-running work polls at safe points.
//!
//! The first SIGINT or SIGTERM sets the flag; the job sees it at its next check, leaves a state that can be resumed and
//! returns. A second signal terminates the process immediately.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::{register, register_conditional_shutdown};
use veridical::core::exit::Exit;
use veridical::core::{Cancel, Error, Result};

/// Installs the signal handlers and returns the flag they set.
pub fn listen() -> Result<Cancel> {
    let failed =
        |e: std::io::Error| Error::System { what: "listen for Ctrl-C", why: e.to_string() };
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        let code = i32::from(Exit::Interrupted.code());
        register_conditional_shutdown(signal, code, flag.clone()).map_err(failed)?;
        register(signal, flag.clone()).map_err(failed)?;
    }
    Ok(Cancel::of(flag))
}
