//! Commands to run once after a publication or a rejection.
//!
//! A command gets the summary on stdin and paths in its environment; its output goes to stderr. It runs after the lock is
//! released, under a time limit, and its failure changes neither the publication nor the exit code.

use std::io::Write;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use veridical_core::Job;

use super::{MANIFEST, REPORT, Refresh, Refreshed, SUMMARY};

/// How often a running command is looked at.
const POLL: Duration = Duration::from_millis(20);

/// Outcome of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HookReport {
    /// The command.
    pub command: String,
    /// Whether it ended with exit code 0.
    pub ok: bool,
    /// What went wrong, if anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Runs the command for this outcome, if there is one.
pub fn run(settings: &Refresh, refreshed: &Refreshed, job: &Job<'_>) -> Option<HookReport> {
    let command = match refreshed.published {
        true => settings.on_publish.as_ref(),
        false => settings.on_reject.as_ref(),
    }?;
    let error = execute(command, settings.hook_time.duration(), refreshed, job).err();
    if let Some(error) = &error {
        let name = if refreshed.published { "on-publish" } else { "on-reject" };
        job.warn(&format!("⟨{name}⟩ `{command}` {error}"));
    }
    Some(HookReport { command: command.clone(), ok: error.is_none(), error })
}

fn execute(
    command: &str,
    limit: Duration,
    refreshed: &Refreshed,
    job: &Job<'_>,
) -> Result<(), String> {
    let Refreshed { folder, version, out, .. } = refreshed;
    let status = if refreshed.published { "published" } else { "rejected" };
    let mut shell = Command::new("sh");
    shell
        .args(["-c", command])
        .env("VERIDICAL_STATUS", status)
        .env("VERIDICAL_OUT", out)
        .env("VERIDICAL_VERSION", version)
        .env("VERIDICAL_FOLDER", folder)
        .env("VERIDICAL_REPORT", format!("{folder}/{REPORT}"))
        .env("VERIDICAL_SUMMARY", format!("{folder}/{SUMMARY}"))
        .env("VERIDICAL_MANIFEST", format!("{folder}/{MANIFEST}"))
        .stdin(Stdio::piped())
        .stdout(std::io::stderr());
    own_group(&mut shell);
    let mut child = shell.spawn().map_err(|e| format!("cannot be started: {e}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A command that does not read its input is no failure; one that never reads does not block.
        let summary = refreshed.to_markdown();
        thread::spawn(move || drop(stdin.write_all(summary.as_bytes())));
    }
    let start = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return ended(status),
            Ok(None) if start.elapsed() >= limit => {
                stop(&mut child);
                return Err(format!(
                    "was stopped after {} s; allow more with ⟨hook-time⟩",
                    limit.as_secs()
                ));
            }
            Ok(None) if job.cancel.is_canceled() => {
                stop(&mut child);
                return Err("was stopped: the job was interrupted".into());
            }
            Ok(None) => thread::sleep(POLL),
            Err(e) => return Err(format!("cannot be waited for: {e}")),
        }
    }
}

fn ended(status: ExitStatus) -> Result<(), String> {
    match (status.success(), status.code()) {
        (true, _) => Ok(()),
        (false, Some(code)) => Err(format!("failed with exit code {code}")),
        (false, None) => Err("was killed by a signal".into()),
    }
}

/// The command and its own children form one group, which can be stopped as a whole.
#[cfg(unix)]
fn own_group(command: &mut Command) {
    use std::os::unix::process::CommandExt;

    command.process_group(0);
}

#[cfg(not(unix))]
fn own_group(_command: &mut Command) {}

fn stop(child: &mut Child) {
    #[cfg(unix)]
    if let Some(group) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
        // A group that has just ended needs no signal.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = child.kill();
    let _ = child.wait(); // leaves no zombie
}
