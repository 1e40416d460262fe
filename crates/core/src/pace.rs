//! How often checkpoints are written: often enough to lose little work, rarely enough to cost little time.

use std::time::{Duration, Instant};

/// The minimum time between two checkpoints; the last one is always written.
const CHECKPOINT_AFTER: Duration = Duration::from_millis(250);
/// Large states take long to write; training between two of them takes at least this many times longer.
const CHECKPOINT_SHARE: u32 = 20;

/// Schedules repeated work that takes a while, such as writing checkpoints.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    last: Instant,
    wait: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self::new()
    }
}

impl Pace {
    /// Starts the first waiting period now.
    pub fn new() -> Self {
        Self { last: Instant::now(), wait: CHECKPOINT_AFTER }
    }

    /// Returns whether the work is due again.
    pub fn is_due(&self) -> bool {
        self.last.elapsed() > self.wait
    }

    /// Runs `work`, and makes the next waiting period longer the longer it takes.
    ///
    /// # Errors
    /// The errors of `work`.
    pub fn time<T, E>(&mut self, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let begun = Instant::now();
        let done = work()?;
        self.last = Instant::now();
        self.wait = CHECKPOINT_AFTER.max(begun.elapsed() * CHECKPOINT_SHARE);
        Ok(done)
    }
}
