//! The exit codes of every command.

/// How a command ended, as the shell sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// The command succeeded.
    Ok = 0,
    /// The command succeeded and the answer is no: a gate failed.
    GateFailed = 1,
    /// Bad input or usage, which the user can fix.
    BadInput = 2,
    /// A bug in Veridical.
    Bug = 3,
    /// Interrupted by the user; the state on disk can be resumed.
    Interrupted = 130,
}

impl Exit {
    /// Returns the numeric exit code.
    pub const fn code(self) -> u8 {
        self as u8
    }
}
