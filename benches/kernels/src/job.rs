//! Options of a job, its files, and what it takes.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Instant;

use serde_json::{Value, json};

pub type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// NAME=VALUE arguments.
pub struct Options(BTreeMap<String, String>);

impl Options {
    pub fn new(args: &[String]) -> Outcome<Self> {
        let pair = |arg: &String| {
            let (name, value) = arg.split_once('=').ok_or(format!("{arg}: NAME=VALUE, please"))?;
            Ok((name.to_owned(), value.to_owned()))
        };
        args.iter().map(pair).collect::<Outcome<_>>().map(Self)
    }

    pub fn text(&self, name: &str) -> Outcome<&str> {
        Ok(self.0.get(name).ok_or(format!("{name}= is missing"))?)
    }

    pub fn get<T: FromStr<Err: Error + Send + Sync + 'static>>(&self, name: &str) -> Outcome<T> {
        Ok(self.text(name)?.parse()?)
    }

    pub fn get_or<T: FromStr<Err: Error + Send + Sync + 'static>>(
        &self,
        name: &str,
        otherwise: T,
    ) -> Outcome<T> {
        if self.0.contains_key(name) { self.get(name) } else { Ok(otherwise) }
    }

    fn path(&self, name: &str) -> Outcome<PathBuf> {
        Ok(PathBuf::from(self.text("dir")?).join(name))
    }

    pub fn f32s(&self, name: &str) -> Outcome<Vec<f32>> {
        Ok(self.words(name)?.as_chunks().0.iter().map(|w| f32::from_le_bytes(*w)).collect())
    }

    pub fn f64s(&self, name: &str) -> Outcome<Vec<f64>> {
        Ok(self.words(name)?.as_chunks().0.iter().map(|w| f64::from_le_bytes(*w)).collect())
    }

    pub fn u32s(&self, name: &str) -> Outcome<Vec<u32>> {
        Ok(self.words(name)?.as_chunks().0.iter().map(|w| u32::from_le_bytes(*w)).collect())
    }

    fn words(&self, name: &str) -> Outcome<Vec<u8>> {
        let path = self.path(name)?;
        Ok(std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?)
    }

    pub fn write<const B: usize>(
        &self,
        name: &str,
        values: impl IntoIterator<Item = [u8; B]>,
    ) -> Outcome<()> {
        let bytes: Vec<u8> = values.into_iter().flatten().collect();
        Ok(std::fs::write(self.path(name)?, bytes)?)
    }

    pub fn write_f32s(&self, name: &str, values: &[f32]) -> Outcome<()> {
        self.write(name, values.iter().map(|x| x.to_le_bytes()))
    }

    pub fn write_f64s(&self, name: &str, values: &[f64]) -> Outcome<()> {
        self.write(name, values.iter().map(|x| x.to_le_bytes()))
    }
}

/// Seconds of the clock, of the processors, and the largest memory of the process so far.
pub struct Meter {
    start: Instant,
    used: f64,
}

impl Meter {
    pub fn start() -> Self {
        Self { start: Instant::now(), used: processor_seconds() }
    }

    pub fn stop(&self) -> Value {
        json!({
            "seconds": self.start.elapsed().as_secs_f64(),
            "cpu_seconds": processor_seconds() - self.used,
            "peak_mb": peak_megabytes(),
        })
    }
}

/// User and system time of all threads: fields 14 and 15 of /proc/self/stat, in hundredths. 0 where there is none.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after = stat.rsplit(')').next().unwrap_or_default();
    let times = after.split_whitespace().skip(11).take(2);
    times.filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// The largest resident memory of the process, where the system tells.
fn peak_megabytes() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().trim_end_matches("kB").trim().parse::<f64>().ok()? * 1024.0 / 1e6)
}
