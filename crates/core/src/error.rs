/// What can go wrong in the ground layer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting is outside its range: the caller changes the setting.
    #[error("{name} must be {must_be}, got {got}")]
    Param {
        /// The setting as the user knows it.
        name: &'static str,
        /// The rule it broke.
        must_be: &'static str,
        /// The value that was given.
        got: String,
    },
    /// The user asked the job to stop.
    #[error("interrupted")]
    Interrupted,
    /// The operating system refused a service.
    #[error("cannot {what}: {why}")]
    System {
        /// What was attempted.
        what: &'static str,
        /// The system's answer.
        why: String,
    },
}

impl Error {
    /// A setting outside its range.
    pub fn param(name: &'static str, must_be: &'static str, got: impl ToString) -> Self {
        Self::Param { name, must_be, got: got.to_string() }
    }
}
