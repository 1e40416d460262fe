//! Runs that differ only in the seed: `OUT/seed-<value>`, each with the bytes of the single run.
//!
//! The ensemble grows in `OUT.partial/` and appears by one rename. Deterministic SGD gains less from a
//! second thread than from a second run beside it, so such runs share the threads, one each; others take
//! turns on all threads.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use veridical_core::progress::Progress;
use veridical_core::{Seed, threads};
use veridical_data::IfExists;
use veridical_data::run::{EnsembleWriter, seed_folder};

use super::give_up;
use crate::{Error, Observer, Result};

/// What can be trained for any seed.
pub(crate) trait Seeded: Sync {
    /// What one seed leaves behind.
    type Run: Send;

    /// The name of the method.
    fn method(&self) -> &str;

    /// Whether runs of several seeds may share the threads, one each, without losing speed.
    fn is_one_thread_enough(&self) -> bool;

    /// Trains one run into a folder.
    fn run(
        &self,
        seed: Seed,
        out: &Path,
        if_exists: IfExists,
        observer: &dyn Observer,
    ) -> Result<Self::Run>;

    /// The run is now in the folder of its seed below `ensemble`.
    fn moved(run: &mut Self::Run, ensemble: &Path);
}

/// The seeds s, s+1, ..., s+n-1.
pub(crate) fn seeds(first: Seed, n: u64) -> Result<Vec<Seed>> {
    if n == 0 {
        return Err(Error::Usage("--seeds must be at least 1, got 0".into()));
    }
    let seed = |i: u64| Ok(Seed::new(first.get().saturating_add(i))?);
    seed(n - 1)?; // before a list of any length is made
    (0..n).map(seed).collect()
}

pub(crate) fn train<J: Seeded>(
    job: &J,
    seeds: &[Seed],
    out: &Path,
    if_exists: IfExists,
    observer: &dyn Observer,
) -> Result<Vec<J::Run>> {
    let numbers: Vec<u64> = seeds.iter().map(|seed| seed.get()).collect();
    let writer = EnsembleWriter::begin(out, job.method(), &numbers, if_exists)?;
    let folder = writer.folder().to_owned();
    let outcome = match job.is_one_thread_enough() && rayon::current_num_threads() > 1 {
        true => side_by_side(job, seeds, &folder, observer),
        false => one_by_one(job, seeds, &folder, observer),
    };
    let mut runs = match outcome {
        Ok(runs) => runs,
        Err(error) if folder == out => return Err(error), // finished before: nothing is taken away
        Err(error) => return Err(give_up(error, &folder)),
    };
    writer.publish()?;
    for run in &mut runs {
        J::moved(run, out);
    }
    Ok(runs)
}

fn one_by_one<J: Seeded>(
    job: &J,
    seeds: &[Seed],
    folder: &Path,
    observer: &dyn Observer,
) -> Result<Vec<J::Run>> {
    let run = |&seed: &Seed| {
        let named = Named { seed, with_bars: true, observer };
        job.run(seed, &seed_folder(folder, seed.get()), IfExists::Resume, &named)
    };
    seeds.iter().map(run).collect()
}

/// Every worker takes the next seed; after an error no more are taken.
fn side_by_side<J: Seeded>(
    job: &J,
    seeds: &[Seed],
    folder: &Path,
    observer: &dyn Observer,
) -> Result<Vec<J::Run>> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, Result<J::Run>)>> = Mutex::default();
    let work = || {
        while let at = next.fetch_add(1, Ordering::Relaxed)
            && let Some(&seed) = seeds.get(at)
        {
            let named = Named { seed, with_bars: false, observer };
            let folder = seed_folder(folder, seed.get());
            let train = || job.run(seed, &folder, IfExists::Resume, &named);
            let outcome = threads::with_threads(Some(1), train).unwrap_or_else(|e| Err(e.into()));
            if outcome.is_err() {
                next.store(seeds.len(), Ordering::Relaxed);
            }
            done.lock().unwrap_or_else(|e| e.into_inner()).push((at, outcome));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..rayon::current_num_threads().min(seeds.len()) {
            scope.spawn(work);
        }
    });
    let mut done = done.into_inner().unwrap_or_else(|e| e.into_inner());
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}

/// Says which seed a note is about.
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

    fn progress(&self, what: &str, unit: &str, total: Option<u64>) -> Progress {
        match self.with_bars {
            true => {
                self.observer.progress(&format!("seed {} {what}", self.seed.get()), unit, total)
            }
            false => Progress::hidden(),
        }
    }
}
