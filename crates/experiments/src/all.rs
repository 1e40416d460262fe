//! `veridical reproduce run --all`: every experiment, one after the other, within a time limit.
//!
//! What is finished is kept in a folder, so that the same command continues after a limit, an interrupt or a crash; the folder then
//! also holds each result as `ID/result.json` and the book of them as `README.md`.

use std::collections::BTreeMap;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use veridical::{Error, Result};
use veridical_core::Error as CoreError;
use veridical_core::settings::TimeLimit;

use crate::{Experiment, REGISTRY, RunOptions, book, queue};

/// What became of every experiment.
#[derive(Clone, Debug, Default, Serialize)]
pub struct AllOutcomes {
    /// Experiments that ran to their end, now or earlier.
    pub finished: Vec<FinishedExperiment>,
    /// Experiments whose data sets are absent.
    pub skipped: Vec<SkippedExperiment>,
    /// Experiments that did not fit into the time limit.
    pub left: Vec<&'static str>,
}

/// An experiment that ran to its end.
#[derive(Clone, Debug, Serialize)]
pub struct FinishedExperiment {
    /// The id of the experiment.
    pub id: &'static str,
    /// replicated, partly, refuted or not comparable.
    pub verdict: String,
    /// The minutes that it took, on all cores.
    pub minutes: f64,
}

/// An experiment that did not run.
#[derive(Clone, Debug, Serialize)]
pub struct SkippedExperiment {
    /// The id of the experiment.
    pub id: &'static str,
    /// Which data set is absent, and where it was expected.
    pub reason: String,
}

#[derive(Deserialize, Serialize)]
struct Timed {
    outcome: Value,
    minutes: f64,
}

/// Runs every experiment until `time` is over.
///
/// # Errors
/// Whatever stops an experiment, except absent data and the time limit.
pub fn run_all(options: &RunOptions<'_>, time: Option<TimeLimit>) -> Result<AllOutcomes> {
    run_until(REGISTRY, options, time.and_then(|time| Instant::now().checked_add(time.duration())))
}

fn run_until(
    experiments: &[Experiment],
    options: &RunOptions<'_>,
    deadline: Option<Instant>,
) -> Result<AllOutcomes> {
    let mut job = options.job.clone();
    if let Some(deadline) = deadline {
        job.cancel = job.cancel.until(deadline);
    }
    let is_over = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
    let options = &RunOptions { job: &job, ..*options };
    let (mut outcomes, mut results) = (AllOutcomes::default(), BTreeMap::new());
    for experiment in experiments {
        let id = experiment.id;
        match timed(experiment, options) {
            Ok(Timed { outcome, minutes }) => {
                let verdict = outcome["verdict"].as_str().unwrap_or_default().to_owned();
                job.note(&format!("{id}: {verdict}"));
                if let Some(folder) = options.keep {
                    let file = folder.join(id).join("result.json");
                    queue::keep(&file, &format!("{outcome:#}\n"))?;
                }
                outcomes.finished.push(FinishedExperiment { id, verdict, minutes });
                results.insert(id.to_owned(), outcome);
            }
            Err(Error::Core(error @ CoreError::Missing { .. })) => {
                job.warn(&format!("{id} is skipped: {error}"));
                outcomes.skipped.push(SkippedExperiment { id, reason: error.to_string() });
            }
            Err(error) if error.is_interrupted() && is_over() => outcomes.left.push(id),
            Err(error) => return Err(error),
        }
    }
    if let Some(folder) = options.keep {
        queue::keep(&folder.join("README.md"), &book(&results)?)?;
    }
    Ok(outcomes)
}

/// Runs an experiment unless its outcome is kept.
fn timed(experiment: &Experiment, options: &RunOptions<'_>) -> Result<Timed> {
    let key = json!({
        "experiment": experiment.id,
        "config": experiment.config,
        "quick": options.quick,
        // A path need not be UTF-8, and JSON must.
        "data": options.data.map(|path| path.to_string_lossy()),
    });
    let run = || {
        options.job.check()?;
        let begun = Instant::now();
        let outcome = experiment.run(options)?;
        let outcome = serde_json::to_value(&outcome)
            .map_err(|e| CoreError::Internal(format!("an outcome is not JSON: {e}")))?;
        Ok(Timed { outcome, minutes: begun.elapsed().as_secs_f64() / 60.0 })
    };
    Ok(queue::once(options.keep, &key, run)?.value)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use veridical_core::Job;

    use super::*;

    #[test]
    fn absent_data_is_named_and_what_is_finished_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let (keep, data) = (folder.path().join("kept"), folder.path().join("nowhere"));
        let job = Job::silent();
        let options = RunOptions { quick: true, data: Some(&data), keep: Some(&keep), job: &job };
        // The first generates its data, the second reads MovieLens.
        let experiments = ["000-kernel-error", "001-table1"].map(|id| *crate::find(id).unwrap());
        let outcomes = run_until(&experiments, &options, None).unwrap();
        assert_eq!(outcomes.left, Vec::<&str>::new());
        assert_eq!((outcomes.finished.len(), outcomes.skipped.len()), (1, 1));
        for skipped in &outcomes.skipped {
            let place = data.display().to_string();
            assert!(skipped.reason.starts_with(&place), "{}: {}", skipped.id, skipped.reason);
        }
        let book = fs::read(keep.join("README.md")).unwrap();
        for finished in &outcomes.finished {
            let result = fs::read(keep.join(finished.id).join("result.json")).unwrap();
            let result: Value = serde_json::from_slice(&result).unwrap();
            assert_eq!(result["verdict"], finished.verdict.as_str());
        }
        // Kept outcomes are not computed again: a damaged file would be seen.
        let again = run_until(&experiments, &options, None).unwrap();
        let of = |outcomes: &AllOutcomes| -> Vec<String> {
            outcomes.finished.iter().map(|one| format!("{one:?}")).collect()
        };
        assert_eq!(of(&again), of(&outcomes));
        assert_eq!(fs::read(keep.join("README.md")).unwrap(), book);
    }

    #[test]
    fn what_did_not_fit_into_the_time_is_listed() {
        let job = Job::silent();
        let options = RunOptions { quick: true, data: None, keep: None, job: &job };
        let outcomes = run_until(REGISTRY, &options, Some(Instant::now())).unwrap();
        assert_eq!(outcomes.left, REGISTRY.iter().map(|e| e.id).collect::<Vec<_>>());
        assert!(outcomes.finished.is_empty());
    }

    #[test]
    fn an_interrupt_is_not_taken_for_the_time_limit() {
        let job = Job::silent();
        job.cancel.cancel();
        let options = RunOptions { quick: true, data: None, keep: None, job: &job };
        let time = "1h".parse().unwrap();
        assert!(run_all(&options, Some(time)).unwrap_err().is_interrupted());
    }
}
