//! What a long computation needs from whoever called it: somebody to tell, and a way to be stopped.
//!
//! Nothing here knows a terminal or a signal. The caller owns the [`Cancel`] flag and may reuse it; two jobs of one process
//! are stopped apart.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{Error, Result};

/// Who is told what happens on the way.
pub trait Observer: Sync {
    /// Something the user should know.
    fn note(&self, text: &str);
    /// Something the user should do something about.
    fn warn(&self, text: &str);
    /// Something to count long work with: `unit`s up to `total`, if that is known. The work is over when it is dropped.
    fn meter(&self, what: &str, unit: &str, total: Option<u64>) -> Box<dyn Meter>;
}

/// Counts how much of some work is done.
pub trait Meter: Send + Sync {
    /// `n` more units are done.
    fn advance(&self, n: u64);
}

/// Tells nobody.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {
    fn note(&self, _text: &str) {}
    fn warn(&self, _text: &str) {}
    fn meter(&self, _what: &str, _unit: &str, _total: Option<u64>) -> Box<dyn Meter> {
        Box::new(Self)
    }
}

impl Meter for Silent {
    fn advance(&self, _n: u64) {}
}

/// A flag that asks a job to stop. Clones share it.
///
/// ```
/// use veridical_core::Cancel;
///
/// let cancel = Cancel::default();
/// let of_the_job = cancel.clone();
/// cancel.cancel();
/// assert!(of_the_job.check().is_err());
/// cancel.reset(); // the next job may use it again
/// assert!(of_the_job.check().is_ok());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// A flag that somebody else raises, such as a handler of signals.
    pub const fn of(flag: Arc<AtomicBool>) -> Self {
        Self(flag)
    }

    /// Asks the job to stop at its next safe point.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Takes the request back.
    pub fn reset(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Whether the job is asked to stop.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// # Errors
    /// [`Error::Interrupted`] once the job is asked to stop.
    pub fn check(&self) -> Result<()> {
        if self.is_cancelled() { Err(Error::Interrupted) } else { Ok(()) }
    }
}

/// Who is told, and who may stop it.
#[derive(Clone)]
pub struct Job<'a> {
    /// Who is told.
    pub observer: &'a dyn Observer,
    /// Who may stop it.
    pub cancel: Cancel,
}

impl fmt::Debug for Job<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job").field("cancel", &self.cancel).finish_non_exhaustive()
    }
}

impl Default for Job<'_> {
    fn default() -> Self {
        Self::silent()
    }
}

impl<'a> Job<'a> {
    /// A job that `observer` hears of and that nobody else can stop.
    pub fn new(observer: &'a dyn Observer) -> Self {
        Self { observer, cancel: Cancel::default() }
    }

    /// A job that tells nobody and that nobody can stop.
    pub fn silent() -> Self {
        Self::new(&Silent)
    }

    /// The same job, told to another observer.
    pub fn told_to<'b>(&self, observer: &'b dyn Observer) -> Job<'b> {
        Job { observer, cancel: self.cancel.clone() }
    }

    /// The same job, told to nobody.
    pub fn quiet(&self) -> Job<'static> {
        Job { observer: &Silent, cancel: self.cancel.clone() }
    }

    /// Something the user should know.
    pub fn note(&self, text: &str) {
        self.observer.note(text);
    }

    /// Something the user should do something about.
    pub fn warn(&self, text: &str) {
        self.observer.warn(text);
    }

    /// Counts long work; see [`Observer::meter`].
    pub fn progress(&self, what: &str, unit: &str, total: Option<u64>) -> Progress {
        Progress { meter: self.observer.meter(what, unit, total), cancel: self.cancel.clone() }
    }

    /// # Errors
    /// [`Error::Interrupted`] once the job is asked to stop.
    pub fn check(&self) -> Result<()> {
        self.cancel.check()
    }
}

/// How far one piece of long work is; it is over when this is dropped.
pub struct Progress {
    meter: Box<dyn Meter>,
    cancel: Cancel,
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress").field("cancel", &self.cancel).finish_non_exhaustive()
    }
}

impl Progress {
    /// Progress that nobody sees, of work that nobody can stop.
    pub fn hidden() -> Self {
        Job::silent().progress("", "", None)
    }

    /// `n` more units are done.
    pub fn advance(&self, n: u64) {
        self.meter.advance(n);
    }

    /// # Errors
    /// [`Error::Interrupted`] once the job is asked to stop.
    pub fn check(&self) -> Result<()> {
        self.cancel.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_jobs_of_one_process_are_cancelled_apart() {
        let (one, other) = (Job::silent(), Job::silent());
        let counted = one.progress("", "", None);
        one.cancel.cancel();
        assert_eq!(one.check(), Err(Error::Interrupted));
        assert_eq!(counted.check(), Err(Error::Interrupted));
        assert_eq!(one.quiet().check(), Err(Error::Interrupted));
        assert_eq!(other.check(), Ok(()));
        one.cancel.reset();
        assert_eq!((one.check(), counted.check()), (Ok(()), Ok(())));
    }
}
