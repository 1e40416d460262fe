//! Ensembles: runs that differ only in the seed, in `OUT/seed-<value>`, each with the same bytes as a single run.
//!
//! The ensemble grows in `OUT.partial/` and appears by one rename. Deterministic SGD gains less from a second thread
//! than from a second run in parallel, so such runs share the threads, one each; others run one after the other on all
//! threads.

use std::path::Path;

use veridical_core::{Job, Meter, Observer, Silent};
use veridical_core::{Seed, threads};
use veridical_io::IfExists;
use veridical_io::run::{EnsembleWriter, seed_folder};

use super::give_up;
use crate::{Error, Result};

/// A training that can be run for any seed.
pub(crate) trait Seeded: Sync {
    /// Result of one run.
    type Run: Send;

    /// Returns the name of the method.
    fn method(&self) -> &str;

    /// Returns whether runs of several seeds may share the threads, one each, without losing speed.
    fn is_one_thread_enough(&self) -> bool;

    /// Trains one run into a folder.
    fn run(&self, seed: Seed, out: &Path, if_exists: IfExists, job: &Job<'_>) -> Result<Self::Run>;

    /// Updates the paths of a run that was moved to its folder below `ensemble`.
    fn moved(run: &mut Self::Run, ensemble: &Path);
}

/// Returns the seeds s, s+1, ..., s+n-1.
pub(crate) fn seeds(first: Seed, n: u64) -> Result<Vec<Seed>> {
    if n == 0 {
        return Err(Error::setting("seeds", "at least 1", "0"));
    }
    let seed = |i: u64| Ok(Seed::new(first.get().saturating_add(i))?);
    seed(n - 1)?; // fail before a list of any length is allocated
    (0..n).map(seed).collect()
}

pub(crate) fn train<J: Seeded>(
    prepared: &J,
    seeds: &[Seed],
    out: &Path,
    if_exists: IfExists,
    job: &Job<'_>,
) -> Result<Vec<J::Run>> {
    let numbers: Vec<u64> = seeds.iter().map(|seed| seed.get()).collect();
    let writer = EnsembleWriter::begin(out, prepared.method(), &numbers, if_exists)?;
    let folder = writer.folder().to_owned();
    let outcome = match prepared.is_one_thread_enough() && rayon::current_num_threads() > 1 {
        true => beside_each_other(prepared, seeds, &folder, job),
        false => one_by_one(prepared, seeds, &folder, job),
    };
    let mut runs = match outcome {
        Ok(runs) => runs,
        Err(error) if folder == out => return Err(error), // finished before: nothing is removed
        Err(error) => return Err(give_up(error, &folder)),
    };
    writer.publish()?;
    for run in &mut runs {
        J::moved(run, out);
    }
    Ok(runs)
}

fn one_by_one<J: Seeded>(
    prepared: &J,
    seeds: &[Seed],
    folder: &Path,
    job: &Job<'_>,
) -> Result<Vec<J::Run>> {
    let run = |&seed: &Seed| {
        let named = Named { seed, with_bars: true, observer: job.observer };
        let folder = seed_folder(folder, seed.get());
        prepared.run(seed, &folder, IfExists::Resume, &job.with_observer(&named))
    };
    seeds.iter().map(run).collect()
}

/// Trains runs in parallel, one thread each.
fn beside_each_other<J: Seeded>(
    prepared: &J,
    seeds: &[Seed],
    folder: &Path,
    job: &Job<'_>,
) -> Result<Vec<J::Run>> {
    threads::side_by_side(seeds, |&seed| {
        let named = Named { seed, with_bars: false, observer: job.observer };
        let folder = seed_folder(folder, seed.get());
        prepared.run(seed, &folder, IfExists::Resume, &job.with_observer(&named))
    })
}

/// An observer that prefixes notes with the seed.
struct Named<'a> {
    seed: Seed,
    with_bars: bool,
    observer: &'a dyn Observer,
}

impl Observer for Named<'_> {
    fn note(&self, text: &str) {
        self.observer.note(&format!("seed {}: {text}", self.seed.get()));
    }

    fn warn(&self, text: &str) {
        self.observer.warn(&format!("seed {}: {text}", self.seed.get()));
    }

    fn meter(&self, what: &str, unit: &str, total: Option<u64>) -> Box<dyn Meter> {
        match self.with_bars {
            true => self.observer.meter(&format!("seed {} {what}", self.seed.get()), unit, total),
            false => Box::new(Silent),
        }
    }
}
