//! The interface between a long computation and its caller: progress, messages and cancellation.
//!
//! This module knows nothing about terminals or signals. The caller owns the [`Cancel`] flag and may reuse it; two jobs in
//! one process are canceled independently.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::{Error, Result};

/// Receives the messages and the progress of a job.
pub trait Observer: Sync {
    /// Reports something the user should know.
    fn note(&self, text: &str);
    /// Reports a problem that the user should act on.
    fn warn(&self, text: &str);
    /// Starts a progress meter that counts `unit`s up to `total`, if known. The work is finished when the meter is dropped.
    fn meter(&self, what: &str, unit: &str, total: Option<u64>) -> Box<dyn Meter>;
}

/// Counts how much of a piece of work is done.
pub trait Meter: Send + Sync {
    /// Adds `n` completed units.
    fn advance(&self, n: u64);
}

/// An observer that discards everything.
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

/// A flag that requests a job to stop. Clones share the flag.
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
pub struct Cancel {
    flag: Arc<AtomicBool>,
    deadline: Option<Instant>,
}

impl Cancel {
    /// Wraps a flag that is set elsewhere, such as in a signal handler.
    pub const fn of(flag: Arc<AtomicBool>) -> Self {
        Self { flag, deadline: None }
    }

    /// Returns the same flag with a time limit: it also requests the job to stop from `deadline` on.
    pub fn until(&self, deadline: Instant) -> Self {
        let deadline = self.deadline.map_or(deadline, |earlier| earlier.min(deadline));
        Self { flag: self.flag.clone(), deadline: Some(deadline) }
    }

    /// Requests the job to stop at its next safe point.
    pub fn cancel(&self) {
        self.flag.store(true, Ordering::Relaxed);
    }

    /// Withdraws the request.
    pub fn reset(&self) {
        self.flag.store(false, Ordering::Relaxed);
    }

    /// Returns whether the job was requested to stop.
    pub fn is_canceled(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
            || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Returns an error once the job was requested to stop.
    ///
    /// # Errors
    /// [`Error::Interrupted`] once the job was requested to stop.
    pub fn check(&self) -> Result<()> {
        if self.is_canceled() { Err(Error::Interrupted) } else { Ok(()) }
    }
}

/// The context of a long computation: where it reports to, and how it is canceled.
///
/// ```
/// use veridical_core::{Error, Job};
///
/// fn count(n: u64, job: &Job) -> Result<u64, Error> {
///     let progress = job.progress("counting", "numbers", Some(n));
///     for _ in 0..n {
///         progress.check()?;
///         progress.advance(1);
///     }
///     Ok(n)
/// }
///
/// let job = Job::silent();
/// assert_eq!(count(3, &job), Ok(3));
/// job.cancel.cancel();
/// assert_eq!(count(3, &job), Err(Error::Interrupted));
/// ```
#[derive(Clone)]
pub struct Job<'a> {
    /// Receives messages and progress.
    pub observer: &'a dyn Observer,
    /// The flag that cancels the job.
    pub cancel: Cancel,
    /// Whether a training ends at the checkpoint that it resumes from, and is kept.
    pub ends_now: bool,
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
    /// Creates a job that reports to `observer`, with a cancel flag of its own.
    pub fn new(observer: &'a dyn Observer) -> Self {
        Self { observer, cancel: Cancel::default(), ends_now: false }
    }

    /// Creates a job that reports nothing, with a cancel flag of its own.
    pub fn silent() -> Self {
        Self::new(&Silent)
    }

    /// Returns the same job, reporting to another observer.
    pub fn with_observer<'b>(&self, observer: &'b dyn Observer) -> Job<'b> {
        Job { observer, cancel: self.cancel.clone(), ends_now: self.ends_now }
    }

    /// Returns the same job, reporting nothing.
    pub fn quiet(&self) -> Job<'static> {
        self.with_observer(&Silent)
    }

    /// Reports something the user should know.
    pub fn note(&self, text: &str) {
        self.observer.note(text);
    }

    /// Reports a problem that the user should act on.
    pub fn warn(&self, text: &str) {
        self.observer.warn(text);
    }

    /// Starts a progress meter; see [`Observer::meter`].
    pub fn progress(&self, what: &str, unit: &str, total: Option<u64>) -> Progress {
        Progress { meter: self.observer.meter(what, unit, total), cancel: self.cancel.clone() }
    }

    /// Returns an error once the job was requested to stop.
    ///
    /// # Errors
    /// [`Error::Interrupted`] once the job was requested to stop.
    pub fn check(&self) -> Result<()> {
        self.cancel.check()
    }
}

/// The progress of one piece of work, which is finished when this is dropped.
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
    /// Creates a progress meter that is neither shown nor cancelable.
    pub fn hidden() -> Self {
        Job::silent().progress("", "", None)
    }

    /// Adds `n` completed units.
    pub fn advance(&self, n: u64) {
        self.meter.advance(n);
    }

    /// Returns an error once the job was requested to stop.
    ///
    /// # Errors
    /// [`Error::Interrupted`] once the job was requested to stop.
    pub fn check(&self) -> Result<()> {
        self.cancel.check()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn two_jobs_of_one_process_are_canceled_apart() {
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

    #[test]
    fn a_deadline_stops_a_job_and_leaves_the_flag_alone() {
        let now = Instant::now();
        let cancel = Cancel::default();
        let (over, ahead) = (cancel.until(now), cancel.until(now + Duration::from_hours(1)));
        assert_eq!((over.check(), ahead.check()), (Err(Error::Interrupted), Ok(())));
        assert_eq!(ahead.until(now).check(), Err(Error::Interrupted));
        assert_eq!(over.until(now + Duration::from_hours(1)).check(), Err(Error::Interrupted));
        assert_eq!(cancel.check(), Ok(()));
        cancel.cancel();
        assert_eq!(ahead.check(), Err(Error::Interrupted));
    }
}
