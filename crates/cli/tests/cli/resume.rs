//! Jobs that are killed, interrupted or run out of disk space resume where they stopped, and produce
//! the same bytes.

#![cfg(unix)]

use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use veridical::features::FeatureSpec;
use veridical_io::GROUP_ROWS;

use crate::common::*;

/// `t.parquet` of `n` rows of dimension 4 and `spec.json` to D = `output_dim`.
fn sandbox(n: usize, output_dim: usize) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.put_table("t.parquet", &named_rows(n, 4));
    sandbox.put("spec.json", FeatureSpec::params(4, output_dim).build().unwrap().to_json());
    sandbox
}

const APPLY: &str = "featurize apply --spec spec.json t.parquet";

fn spawn(sandbox: &Sandbox, line: &str) -> Child {
    let mut command = sandbox.command(line.split_whitespace());
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

fn send(signal: &str, child: &Child) {
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

/// Runs `line` with a limit of `kib` KiB per file: a write beyond that fails.
fn with_limit(sandbox: &Sandbox, kib: u64, line: &str) -> Outcome {
    // In a subshell, so that the limit and the ignored signal reach the program.
    sandbox.shell(&format!("(ulimit -f {kib}; trap '' XFSZ; veridical {line})"))
}

// Killed

/// Kills `APPLY out` at `n` moments spread over its run. After each, what is published is whole,
/// and `--resume` gives the bytes of an uninterrupted run.
fn kill_and_resume(sandbox: &Sandbox, out: &str, flags: &str, n: usize) {
    let whole = format!("whole-{out}");
    let begun = Instant::now();
    sandbox.ok(&format!("{APPLY} {whole} {flags}"));
    let typical = begun.elapsed();
    let want = sandbox.below(&whole);

    let line = format!("{APPLY} {out} {flags}");
    let mut resumed = 0;
    for i in 0..n {
        let mut job = spawn(sandbox, &line);
        // Multiples of the golden ratio are spread evenly, whatever n is.
        sleep(typical.mul_f64((i as f64 * 0.618_034).fract()));
        job.kill().unwrap();
        job.wait().unwrap();
        let published = sandbox.has(out);
        assert!(!published || sandbox.holds(out, &want), "{out}: kill {i} left half an output");

        let partial = format!("{out}.partial");
        resumed += u32::from(sandbox.has(&partial));
        // A folder killed between its last rename and its tidying up is tidied up by `--resume`.
        let untidy = sandbox.has(&format!("{out}/_journal.json"));
        let finished = published && !untidy && !sandbox.has(&partial);
        let outcome = sandbox.run(&format!("{line} --resume --quiet"));
        if finished {
            let message =
                format!("{out} already exists; choose another name or replace it with --force");
            assert_eq!((outcome.code, outcome.only_error()), (Some(2), &*message));
        } else {
            assert_eq!(outcome.code, Some(0), "{out}: kill {i}: {outcome:?}");
        }
        assert!(sandbox.holds(out, &want), "{out}: kill {i} changed the output");
        assert!(!sandbox.has(&partial), "{out}: kill {i} left {partial}");
        sandbox.remove(out);
    }
    assert!(n < 20 || resumed > 0, "no kill hit the job while it was writing");
}

#[test]
fn a_parquet_job_killed_at_fifty_moments_comes_out_the_same() {
    kill_and_resume(&sandbox(300_000, 16), "phi.parquet", "--dtype f16", 50);
}

#[test]
fn jobs_of_the_other_formats_killed_come_out_the_same() {
    let sandbox = sandbox(2 * GROUP_ROWS + 10_000, 8);
    for extension in ["arrow", "safetensors", "npy", "csv"] {
        kill_and_resume(&sandbox, &format!("phi.{extension}"), "--drop-ids", 5);
    }
}

#[test]
fn folders_killed_come_out_the_same() {
    let sandbox = sandbox(3 * GROUP_ROWS, 8);
    kill_and_resume(&sandbox, "phi", "--rows-per-part 40000", 5);
    kill_and_resume(&sandbox, "phi2", "--rows-per-part 80000 --format safetensors", 5);
}

#[test]
fn a_job_killed_over_and_over_comes_out_the_same() {
    let sandbox = sandbox(4 * GROUP_ROWS, 16);
    let begun = Instant::now();
    sandbox.ok(&format!("{APPLY} whole.parquet"));
    let typical = begun.elapsed();
    for i in 0..8 {
        let mut job = spawn(&sandbox, &format!("{APPLY} phi.parquet --resume"));
        sleep(typical.mul_f64(0.3 + 0.05 * f64::from(i)));
        job.kill().unwrap();
        job.wait().unwrap();
    }
    let last = sandbox.run(&format!("{APPLY} phi.parquet --resume"));
    assert!(last.code == Some(0) || last.stderr.contains("already exists"), "{last:?}");
    assert!(sandbox.bytes("phi.parquet") == sandbox.bytes("whole.parquet"));
}

/// Killed right after the folder was made, before the manifest was in it.
#[test]
fn a_partial_without_a_manifest_is_begun_anew() {
    let sandbox = sandbox(100, 8);
    sandbox.ok(&format!("{APPLY} whole.parquet"));
    for leftover in [None, Some(".manifest.json.tmp")] {
        fs::create_dir(sandbox.path("phi.parquet.partial")).unwrap();
        if let Some(name) = leftover {
            sandbox.put(&format!("phi.parquet.partial/{name}"), "{\"for");
        }
        sandbox.ok(&format!("{APPLY} phi.parquet --resume"));
        assert!(sandbox.bytes("phi.parquet") == sandbox.bytes("whole.parquet"));
        assert!(!sandbox.has("phi.parquet.partial"));
        sandbox.remove("phi.parquet");
    }
}

/// Killed after the last rename, while OUTPUT.partial was being cleared.
#[test]
fn a_partial_that_was_being_cleared_does_not_stand_in_the_way() {
    let sandbox = sandbox(100, 8);
    sandbox.ok(&format!("{APPLY} phi.parquet"));
    let want = sandbox.bytes("phi.parquet");
    sandbox.put("phi.parquet.partial/_journal.json", "{}");
    let outcome = sandbox.run(&format!("{APPLY} phi.parquet --resume"));
    assert!(outcome.code == Some(0) || outcome.stderr.contains("already exists"), "{outcome:?}");
    assert!(sandbox.bytes("phi.parquet") == want);
}

/// Killed after the ids of a safetensors file were moved into it, before the journal said so.
#[test]
fn a_safetensors_job_killed_at_its_end_comes_out_the_same() {
    let sandbox = sandbox(GROUP_ROWS + 1000, 8);
    sandbox.ok(&format!("{APPLY} whole.safetensors"));
    let whole = sandbox.bytes("whole.safetensors");
    let group = 1 + (GROUP_ROWS * 8 * 4 + 1024) as u64 / 1024; // no space for the second group
    assert_eq!(with_limit(&sandbox, group, &format!("{APPLY} phi.safetensors")).code, Some(2));
    let partial = sandbox.path("phi.safetensors.partial");
    fs::write(partial.join("data"), &whole).unwrap();
    sandbox.ok(&format!("{APPLY} phi.safetensors --resume"));
    assert!(sandbox.bytes("phi.safetensors") == whole);
}

// Interrupted

/// Starts `line` and interrupts it once its first row group is written. On a slow machine the
/// job may finish first: then it starts again.
fn interrupted(sandbox: &Sandbox, line: &str, out: &str, signal: &str) -> Outcome {
    let journal = sandbox.path(format!("{out}.partial/_journal.json"));
    for _ in 0..20 {
        let mut job = spawn(sandbox, line);
        while !journal.exists() && job.try_wait().unwrap().is_none() {
            sleep(Duration::from_millis(1));
        }
        send(signal, &job);
        let outcome = Outcome::of(job.wait_with_output().unwrap());
        if outcome.code != Some(0) {
            return outcome;
        }
        sandbox.remove(out);
    }
    panic!("{line} was always done before it could be interrupted");
}

#[test]
fn ctrl_c_keeps_what_is_done_and_says_how_to_go_on() {
    let sandbox = sandbox(300_000, 64);
    for (whole, out, flags, signal) in [
        ("whole.parquet", "phi.parquet", "", "-INT"),
        ("whole.npy", "phi.npy", "--drop-ids", "-TERM"),
        ("whole", "phi", "--rows-per-part 100000", "-INT"),
    ] {
        sandbox.ok(&format!("{APPLY} {whole} {flags}"));
        let line = format!("{APPLY} {out} {flags}");
        let outcome = interrupted(&sandbox, &format!("{line} --quiet"), out, signal);
        assert_eq!(outcome.code, Some(130), "{outcome:?}");
        let message = "interrupted; finished work is kept, continue with --resume";
        assert_eq!(outcome.only_error(), message);
        assert!(sandbox.has(&format!("{out}.partial")) && !sandbox.has(out));

        let resumed = sandbox.run(&format!("{line} --resume"));
        assert_eq!(resumed.code, Some(0), "{resumed:?}");
        assert!(resumed.stderr.contains("veridical: resuming after "), "{resumed:?}");
        assert!(sandbox.below(out) == sandbox.below(whole), "{out}");
        assert!(!sandbox.has(&format!("{out}.partial")));
    }
}

/// The pace is set by what stdin gives: the signal certainly arrives in the middle.
#[test]
fn ctrl_c_in_the_middle_of_a_pipe_ends_with_130_and_no_advice_to_resume_a_stream() {
    use std::io::Write as _;
    let sandbox = sandbox(2 * GROUP_ROWS + 100, 8);
    sandbox.shell("veridical vectors convert t.parquet - > t.arrows");
    let stream = sandbox.bytes("t.arrows");
    let (first, rest) = stream.split_at(stream.len() * 3 / 4); // more than a batch
    let mut command = sandbox.command("featurize apply --spec spec.json - - --quiet".split(' '));
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut job = command.spawn().unwrap();
    let mut stdin = job.stdin.take().unwrap();
    let mut stdout = job.stdout.take().unwrap();
    stdin.write_all(first).unwrap();
    // The first batch has come out: the job is well on its way.
    std::io::Read::read_exact(&mut stdout, &mut [0; 1024]).unwrap();
    send("-INT", &job);
    let drain = std::thread::spawn(move || std::io::copy(&mut stdout, &mut std::io::sink()));
    let _ = stdin.write_all(rest); // the job may be gone
    drop(stdin);
    let outcome = Outcome::of(job.wait_with_output().unwrap());
    drain.join().unwrap().unwrap();
    assert_eq!(outcome.code, Some(130), "{outcome:?}");
    let error = outcome.only_error();
    assert!(error.starts_with("interrupted"), "{error}");
    assert!(!error.contains("--resume"), "a stream cannot be resumed: {error}");
}

// Out of disk space

#[test]
fn a_file_that_may_not_grow_keeps_what_is_done() {
    let sandbox = sandbox(3 * GROUP_ROWS, 8);
    for (out, flags, data) in [
        ("phi.parquet", "", "data"),
        ("phi.arrow", "", "data"),
        ("phi.safetensors", "", "data"),
        ("phi.npy", "--drop-ids", "data"),
        ("phi.csv", "", "data"),
        ("phi", "--rows-per-part 150000", "_part-00000.parquet"),
    ] {
        let whole = format!("whole-{out}");
        sandbox.ok(&format!("{APPLY} {whole} {flags}"));
        let line = format!("{APPLY} {out} {flags}");
        // A group is 2 MiB of features and more.
        let outcome = with_limit(&sandbox, 3500, &format!("{line} --quiet"));
        assert_eq!(outcome.code, Some(2), "{out}: {outcome:?}");
        let message = format!("{out}.partial/{data}: cannot write: File too large (os error 27)");
        assert_eq!(outcome.only_error(), message);
        assert!(sandbox.has(&format!("{out}.partial")) && !sandbox.has(out), "{out}");

        sandbox.ok(&format!("{line} --resume"));
        assert!(sandbox.below(out) == sandbox.below(&whole), "{out}");
    }
}

/// On a file system of one megabyte, where the test may mount one in a namespace of its own.
#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_keeps_what_is_done() {
    let sandbox = sandbox(3 * GROUP_ROWS, 4);
    sandbox.ok(&format!("{APPLY} whole.parquet"));
    fs::create_dir(sandbox.path("disk")).unwrap();
    let program = env!("CARGO_BIN_EXE_veridical");
    let script = format!(
        "mount -t tmpfs -o size=4m tmpfs disk || exit 99
         {program} {APPLY} disk/phi.parquet --quiet; echo code $?
         ls disk
         mount -o remount,size=64m disk
         {program} {APPLY} disk/phi.parquet --resume --quiet; echo code $?
         ls disk
         cp disk/phi.parquet phi.parquet"
    );
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--map-root-user", "sh", "-c", &script]);
    let outcome = unshare.current_dir(sandbox.path(".")).output().map(Outcome::of);
    let outcome = match outcome {
        Ok(outcome) if outcome.code == Some(0) || outcome.stdout.contains("code") => outcome,
        other => return eprintln!("skipped: no file system can be mounted here: {other:?}"),
    };
    assert_eq!(
        outcome.only_error(),
        "disk/phi.parquet.partial/data: cannot write: No space left on device (os error 28); free \
         some space and continue with --resume"
    );
    let lines: Vec<&str> = outcome
        .stdout
        .lines()
        .filter(|line| !line.contains(' ') || line.starts_with("code"))
        .collect();
    assert_eq!(lines, ["code 2", "phi.parquet.partial", "code 0", "phi.parquet"]);
    assert!(sandbox.bytes("phi.parquet") == sandbox.bytes("whole.parquet"));
}

// Another job

/// `phi.parquet.partial` with one row group.
fn stopped() -> Sandbox {
    let sandbox = sandbox(2 * GROUP_ROWS, 8);
    let outcome = with_limit(&sandbox, 3500, &format!("{APPLY} phi.parquet"));
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(sandbox.has("phi.parquet.partial/_journal.json"));
    sandbox
}

fn not_the_job(what: &str) -> String {
    let begun = "phi.parquet.partial: this is not the job that was started:";
    format!("{begun} {what}; start over with --force")
}

#[test]
fn another_spec_is_not_resumed() {
    let sandbox = stopped();
    let (before, now) = (FeatureSpec::params(4, 8), FeatureSpec::params(4, 8).seed(1));
    let (before, now) = (before.build().unwrap(), now.build().unwrap());
    sandbox.put("other.json", now.to_json());
    let ids = format!("spec_id was \"{}\" and is now \"{}\"", before.spec_id(), now.spec_id());
    sandbox.refuses(
        "featurize apply --spec other.json t.parquet phi.parquet --resume",
        &not_the_job(&ids),
    );
}

#[test]
fn a_changed_input_is_not_resumed() {
    let sandbox = stopped();
    let mut table = named_rows(2 * GROUP_ROWS, 4);
    table.vectors[0] += 1.0;
    sandbox.put_table("t.parquet", &table);
    sandbox.refuses_like(&format!("{APPLY} phi.parquet --resume"), |error| {
        let start =
            "phi.parquet.partial: this is not the job that was started: inputs was [\"blake3:";
        assert!(error.starts_with(start), "{error}");
        assert!(error.ends_with("; start over with --force"), "{error}");
        assert!(error.contains(" and is now [\"blake3:"), "{error}");
    });
}

#[test]
fn other_options_are_not_resumed() {
    let sandbox = stopped();
    for (flags, what) in [
        ("--dtype f16", "dtype was \"f32\" and is now \"f16\""),
        ("--on-nan zero", "on_nan was \"Error\" and is now \"Zero\""),
        ("--compression zstd", "zstd was false and is now true"),
    ] {
        sandbox.refuses(&format!("{APPLY} phi.parquet --resume {flags}"), &not_the_job(what));
    }
    sandbox.refuses_like("vectors convert t.parquet phi.parquet --resume", |error| {
        assert!(error.starts_with("phi.parquet.partial: this is not the job"), "{error}");
    });
    // Threads and chunks do not affect the output.
    sandbox.ok(&format!("{APPLY} phi.parquet --resume --threads 1 --chunk-rows 1000"));
    sandbox.ok(&format!("{APPLY} whole.parquet"));
    assert!(sandbox.bytes("phi.parquet") == sandbox.bytes("whole.parquet"));
}

#[test]
fn another_prefix_is_not_resumed() {
    let sandbox = sandbox(2 * GROUP_ROWS, 8);
    sandbox.ok(&format!("{APPLY} full.parquet"));
    let convert = "vectors convert full.parquet phi.parquet --prefix";
    let outcome = with_limit(&sandbox, 3200, &format!("{convert} 6"));
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(sandbox.has("phi.parquet.partial/_journal.json"));
    sandbox.refuses(&format!("{convert} 4 --resume"), &not_the_job("prefix was 6 and is now 4"));
    sandbox.refuses(
        "vectors convert full.parquet phi.parquet --resume",
        &not_the_job("prefix was 6 and is now null"),
    );
    let resumed = sandbox.run(&format!("{convert} 6 --resume"));
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
    assert!(resumed.stderr.contains("resuming after 65536 rows"), "{resumed:?}");
    sandbox.ok("vectors convert full.parquet whole.parquet --prefix 6");
    assert!(sandbox.bytes("phi.parquet") == sandbox.bytes("whole.parquet"));
}

/// The files are the same, but not the column that comes from their path.
#[test]
fn renamed_folders_are_not_resumed_when_their_names_are_kept() {
    let sandbox = sandbox(10, 8);
    sandbox.put_table("d/day=mon/t.parquet", &named_rows(2 * GROUP_ROWS, 4));
    let line = "featurize apply --spec spec.json d phi.parquet --keep-columns day";
    assert_eq!(with_limit(&sandbox, 3500, line).code, Some(2));
    fs::rename(sandbox.path("d/day=mon"), sandbox.path("d/day=tue")).unwrap();
    sandbox.refuses_like(&format!("{line} --resume"), |error| {
        assert!(error.starts_with("phi.parquet.partial: this is not the job"), "{error}");
    });
}

/// A stream leaves no fingerprint: another one must not be appended to the first.
#[test]
fn another_stream_is_not_resumed() {
    let sandbox = sandbox(2 * GROUP_ROWS, 8);
    let mut other = named_rows(2 * GROUP_ROWS, 4);
    other.vectors.iter_mut().for_each(|x| *x += 1.0);
    sandbox.put_table("other.parquet", &other);
    sandbox.shell(
        "veridical vectors convert t.parquet - > t.arrows
         veridical vectors convert other.parquet - > other.arrows",
    );
    let stopped =
        with_limit(&sandbox, 3500, "featurize apply --spec spec.json - phi.parquet < t.arrows");
    assert_eq!(stopped.code, Some(2), "{stopped:?}");
    let outcome = sandbox.shell(
        "veridical -q featurize apply --spec spec.json - phi.parquet --resume < other.arrows",
    );
    assert_eq!(outcome.code, Some(2), "two streams were mixed: {outcome:?}");
    assert!(!sandbox.has("phi.parquet"));
}

#[test]
fn a_damaged_partial_is_refused_with_the_remedy() {
    let sandbox = stopped();
    let journal = sandbox.bytes("phi.parquet.partial/_journal.json");
    let line = format!("{APPLY} phi.parquet --resume");
    for damaged in [&journal[..journal.len() / 2], b"", b"{}", b"[1]"] {
        sandbox.put("phi.parquet.partial/_journal.json", damaged);
        sandbox.refuses_like(&line, |error| {
            let start = "phi.parquet.partial/_journal.json: the journal is damaged (";
            assert!(error.starts_with(start), "{error}");
            assert!(error.ends_with("); start over with --force"), "{error}");
        });
    }
    sandbox.put("phi.parquet.partial/_journal.json", journal);
    sandbox.put("phi.parquet.partial/data", "short");
    sandbox.refuses_like(&line, |error| {
        let start = "phi.parquet.partial/data: the file has 5 bytes but the journal says ";
        assert!(error.starts_with(start), "{error}");
        assert!(error.ends_with("; start over with --force"), "{error}");
    });
    sandbox.ok(&format!("{APPLY} phi.parquet --force"));
    sandbox.ok(&format!("{APPLY} whole.parquet"));
    assert!(sandbox.bytes("phi.parquet") == sandbox.bytes("whole.parquet"));
}

// Counts

/// One row in ten is bad, the counts are of the whole table.
#[test]
fn rows_left_out_are_counted_once() {
    let sandbox = sandbox(10, 8);
    let n = 3 * GROUP_ROWS;
    let mut table = named_rows(n, 4);
    table.vectors.iter_mut().step_by(40).for_each(|x| *x = f32::NAN);
    sandbox.put_table("t.parquet", &table);
    let bad = n.div_ceil(10);
    for (policy, count) in [
        ("skip", format!("{bad} rows with values that are not finite numbers were skipped")),
        ("zero", format!("{bad} values that are not finite numbers were set to 0")),
    ] {
        let flags = format!("--on-nan {policy}");
        let whole = sandbox.warnings(&format!("{APPLY} whole.parquet --force {flags}"));
        assert_eq!(whole, std::slice::from_ref(&count));
        let stopped = with_limit(&sandbox, 3500, &format!("{APPLY} phi.parquet {flags}"));
        assert_eq!(stopped.code, Some(2), "{stopped:?}");
        let resumed = sandbox.warnings(&format!("{APPLY} phi.parquet --resume {flags}"));
        assert!(sandbox.bytes("phi.parquet") == sandbox.bytes("whole.parquet"), "{policy}");
        assert_eq!(resumed, [count]);
        sandbox.remove("phi.parquet");
    }
}

#[test]
fn a_resumed_job_reports_the_whole_table() {
    let sandbox = stopped();
    let resumed = json(&sandbox, "featurize", &format!("{APPLY} phi.parquet --resume"));
    let whole = json(&sandbox, "featurize", &format!("{APPLY} whole.parquet"));
    let (mut resumed, whole) = (resumed.clone(), whole.clone());
    resumed["out"] = whole["out"].clone();
    assert_eq!(resumed, whole);
    assert_eq!(whole["rows"], 2 * GROUP_ROWS);
}

#[test]
fn the_default_spec_is_found_again_and_written_at_the_end() {
    let sandbox = sandbox(2 * GROUP_ROWS, 8);
    let line = "featurize apply t.parquet";
    sandbox.ok(&format!("{line} whole.parquet"));
    let stopped = with_limit(&sandbox, 5000, &format!("{line} phi.parquet"));
    assert_eq!(stopped.code, Some(2), "{stopped:?}");
    sandbox.ok(&format!("{line} phi.parquet --resume"));
    assert!(sandbox.bytes("phi.parquet") == sandbox.bytes("whole.parquet"));
    assert_eq!(sandbox.text("phi.spec.json"), sandbox.text("whole.spec.json"));
}

#[test]
fn resume_with_nothing_to_resume_runs_the_job() {
    let sandbox = sandbox(100, 8);
    sandbox.ok(&format!("{APPLY} phi.parquet --resume"));
    assert_eq!(sandbox.table("phi.parquet").n_rows(), 100);
}
