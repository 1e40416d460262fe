//! Runs targets on their corpus and on mutations of it.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use veridical_core::Seed;

use crate::mutate::{Draws, mutate};
use crate::{MEMORY, Outcome, Target};

/// The maximum number of inputs kept for new outcomes: some errors quote the input in ever new ways.
const POOL: usize = 500;

/// Returns the peak memory use in bytes; the binary's allocator knows it.
pub type Peak = fn() -> usize;

/// An input that broke a guarantee.
#[derive(Debug)]
pub struct Failure {
    /// What broke, and for which input.
    pub what: String,
    /// The bytes of the input.
    pub bytes: Vec<u8>,
}

/// Statistics of a run.
#[derive(Debug, Default)]
pub struct Seen {
    /// The number of inputs run.
    pub inputs: u64,
    /// The number of inputs accepted.
    pub accepted: u64,
    /// The distinct outcomes.
    pub outcomes: BTreeSet<Outcome>,
    /// The longest time that an input took.
    pub slowest: Duration,
}

/// When to stop.
#[derive(Clone, Copy, Debug)]
pub enum Budget {
    /// After this many mutations.
    Mutations(u64),
    /// After this much time.
    Time(Duration),
}

/// Replays the corpus of `target`, then mutates it, along with every input that had a new outcome.
///
/// # Errors
/// The first [`Failure`].
///
/// # Panics
/// If the corpus cannot be read or is empty.
pub fn run(target: &Target, seed: Seed, budget: Budget, peak: Peak) -> Result<Seen, Failure> {
    let start = Instant::now();
    let corpus = target.corpus().unwrap_or_else(|e| panic!("the corpus of {}: {e}", target.name));
    assert!(!corpus.is_empty(), "the corpus of {} is empty", target.name);
    let mut seen = Seen::default();
    for (path, bytes) in &corpus {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let intact = !name.starts_with("damaged-");
        seen.run(target, bytes, intact, peak, || path.display().to_string())?;
    }
    let mut pool: Vec<Vec<u8>> = corpus.into_iter().map(|(_, bytes)| bytes).collect();
    let good = pool.len();
    for index in 0.. {
        let over = match budget {
            Budget::Mutations(n) => index >= n,
            Budget::Time(time) => start.elapsed() >= time,
        };
        if over {
            break;
        }
        let mut draws = Draws::new(seed, target.name, index);
        // Half of the time an intact file, so that damage does not only accumulate.
        let input = if draws.below(2) == 0 { draws.below(good) } else { draws.below(pool.len()) };
        let bytes = mutate(&pool[input], &pool, &mut draws);
        let place = || format!("mutation {index} of seed {}", seed.get());
        if seen.run(target, &bytes, false, peak, place)? && pool.len() < good + POOL {
            pool.push(bytes);
        }
    }
    Ok(seen)
}

impl Seen {
    /// Runs one input; returns whether it had a new outcome.
    fn run(
        &mut self,
        target: &Target,
        bytes: &[u8],
        intact: bool,
        peak: Peak,
        place: impl Fn() -> String,
    ) -> Result<bool, Failure> {
        let failure = |what: &str| Failure {
            what: format!("{}, {}: {what}", target.name, place()),
            bytes: bytes.to_vec(),
        };
        let start = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| target.run(bytes, intact)));
        self.slowest = self.slowest.max(start.elapsed());
        self.inputs += 1;
        let outcome = outcome.map_err(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            failure(text.or_else(|| panic.downcast_ref().copied()).unwrap_or("a panic"))
        })?;
        if peak() > MEMORY {
            return Err(failure(&format!("it took {} MiB of memory", peak() >> 20)));
        }
        self.accepted +=
            u64::from(["read", "repaired", "a map"].iter().any(|w| outcome.starts_with(w)));
        Ok(self.outcomes.insert(outcome))
    }
}
