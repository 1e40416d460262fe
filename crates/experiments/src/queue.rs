//! Trainings that take hours: each result is saved when it is done, and an interrupted run resumes from the saved ones.

use std::path::Path;
use std::time::Instant;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use veridical::{Error, Result};
use veridical_data::fingerprint;
use veridical_io::write_atomically;

/// The result of a job, and what it took on one thread.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Done<T> {
    /// CPU minutes of the thread.
    pub minutes: f64,
    /// The result.
    pub value: T,
}

#[derive(Deserialize)]
struct Kept<T> {
    version: String,
    key: Value,
    done: Done<T>,
}

/// Runs a job on one thread unless `keep` holds the result of the same `key` by the same version.
///
/// # Errors
/// The job's own, and a file that cannot be read or written.
pub fn once<T: Serialize + DeserializeOwned>(
    keep: Option<&Path>,
    key: &Value,
    job: impl FnOnce() -> Result<T>,
) -> Result<Done<T>> {
    let version = env!("CARGO_PKG_VERSION");
    let hash = fingerprint::of_text(&key.to_string()).replace(':', "-");
    let file = keep.map(|folder| folder.join(format!("{hash}.json")));
    if let Some(file) = file.as_ref().filter(|file| file.exists()) {
        let failed =
            |why: String| Error::request(format!("{}: {why}", file.display()), "delete it");
        let text = std::fs::read_to_string(file).map_err(|e| failed(e.to_string()))?;
        let kept: Kept<T> = serde_json::from_str(&text).map_err(|e| failed(e.to_string()))?;
        if kept.version == version && kept.key == *key {
            return Ok(kept.done);
        }
    }
    let clock = Clock::start();
    let value = job()?;
    let done = Done { minutes: clock.seconds() / 60.0, value };
    if let Some(file) = file {
        let text = serde_json::json!({ "version": version, "key": key, "done": done });
        self::keep(&file, &text.to_string())?;
    }
    Ok(done)
}

/// Writes a file that appears whole, and the folder it is in.
///
/// # Errors
/// A disk that refuses.
pub fn keep(file: &Path, text: &str) -> Result<()> {
    if let Some(folder) = file.parent() {
        let failed = |e: std::io::Error| Error::request(format!("{}: {e}", folder.display()), "");
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    Ok(write_atomically(file, text.as_bytes())?)
}

/// Seconds of this thread on a processor; seconds that pass where the system does not say.
pub struct Clock {
    begun: Instant,
    busy: Option<f64>,
}

impl Clock {
    /// Begins to count.
    pub fn start() -> Self {
        Self { begun: Instant::now(), busy: Self::busy() }
    }

    /// Returns the seconds since the start.
    pub fn seconds(&self) -> f64 {
        let busy = Self::busy().zip(self.busy).map(|(now, before)| now - before);
        busy.unwrap_or_else(|| self.begun.elapsed().as_secs_f64())
    }

    /// Linux counts nanoseconds.
    fn busy() -> Option<f64> {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        Some(text.split(' ').next()?.parse::<u64>().ok()? as f64 / 1e9)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_job_is_done_once_for_each_key() {
        let folder = tempfile::tempdir().unwrap();
        let keep = Some(folder.path());
        let run = |key: Value, value: u32| once(keep, &key, || Ok(value)).unwrap().value;
        assert_eq!(run(json!({ "seed": 1 }), 10), 10);
        assert_eq!(run(json!({ "seed": 1 }), 20), 10);
        assert_eq!(run(json!({ "seed": 2 }), 20), 20);
        assert_eq!(once(None, &json!({ "seed": 1 }), || Ok(30)).unwrap().value, 30);
        let file = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
        std::fs::write(&file, "{").unwrap();
        let broken = [json!({ "seed": 1 }), json!({ "seed": 2 })]
            .map(|key| once(keep, &key, || Ok(1u32)).is_err());
        assert!(broken[0] != broken[1], "the damaged file is an error, the other is not");
    }
}
