//! The exit codes every command keeps.

/// How a command ended, as the shell sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// The work was done.
    Ok = 0,
    /// The work was done and the answer is no: a gate failed.
    GateFailed = 1,
    /// Bad input or usage: the user can put it right.
    BadInput = 2,
    /// A bug of ours.
    Bug = 3,
    /// Stopped by the user; the state on disk can be resumed.
    Interrupted = 130,
}

impl Exit {
    /// The number the shell sees.
    pub const fn code(self) -> u8 {
        self as u8
    }
}
