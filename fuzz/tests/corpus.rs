//! Replays the corpus with a fixed set of mutations.

use std::alloc::System;

use cap::Cap;
use veridical_core::Seed;
use veridical_fuzz::TARGETS;
use veridical_fuzz::driver::{self, Budget};

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// Enough to find every mistake found so far; about a minute for all targets.
const MUTATIONS: u64 = 1500;

#[test]
fn no_reader_breaks_a_promise_on_the_corpus_or_its_mutations() {
    for target in TARGETS {
        let seed = Seed::new(0).unwrap();
        let peak = || ALLOCATOR.max_allocated();
        let seen = driver::run(target, seed, Budget::Mutations(MUTATIONS), peak);
        let seen = seen.unwrap_or_else(|failure| {
            let path = std::env::temp_dir().join(format!("veridical-fuzz-{}", target.name));
            std::fs::write(&path, &failure.bytes).unwrap();
            panic!("{}\nthe input is in {}", failure.what, path.display());
        });
        // A corpus that no reader accepts, or damage that is never detected, would test nothing.
        assert!(seen.accepted > 0, "{} accepts nothing: {:?}", target.name, seen.outcomes);
        assert!(seen.outcomes.len() > 2, "{} ends one way only", target.name);
    }
}
