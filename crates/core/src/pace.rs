//! How often a state is written: often enough to lose little, seldom enough to cost little.

use std::time::{Duration, Instant};

/// A state is written at most so often, besides the last one.
const CHECKPOINT_AFTER: Duration = Duration::from_millis(250);
/// Large states take long to write; training between two of them takes at least so many times longer.
const CHECKPOINT_SHARE: u32 = 20;

/// When something that takes a while may be done again.
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
    /// From now on.
    pub fn new() -> Self {
        Self { last: Instant::now(), wait: CHECKPOINT_AFTER }
    }

    /// Whether it may be done again.
    pub fn is_due(&self) -> bool {
        self.last.elapsed() > self.wait
    }

    /// Does it, and waits the longer the longer it takes.
    ///
    /// # Errors
    /// Those of `work`.
    pub fn time<T, E>(&mut self, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let begun = Instant::now();
        let done = work()?;
        self.last = Instant::now();
        self.wait = CHECKPOINT_AFTER.max(begun.elapsed() * CHECKPOINT_SHARE);
        Ok(done)
    }
}
