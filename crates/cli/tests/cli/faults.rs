//! A job that is killed before any of its changes to the disk, or for which any of them fails, resumes
//! with `--resume` and produces the same bytes.
//!
//! `common/faults.c` intercepts calls from the program to the C library. Where it cannot be built or
//! loaded these tests pass without testing anything, and say so.

#![cfg(target_os = "linux")]

use std::path::PathBuf;
use std::process::Command;

use veridical::features::FeatureSpec;
use veridical_data::VectorTable;
use veridical_io::GROUP_ROWS;

use crate::common::*;

const APPLY: &str = "featurize apply --spec spec.json t.parquet";
const ENOSPC: &str = "28";

/// A table of one row group and a remainder; parts of 66,000 rows have both, too.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.put_table("t.parquet", &named_rows(GROUP_ROWS + 2000, 2));
    sandbox.put("spec.json", FeatureSpec::params(2, 4).build().unwrap().to_json());
    sandbox
}

fn library(sandbox: &Sandbox) -> Option<PathBuf> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/common/faults.c");
    let library = sandbox.path("faults.so");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).arg("-ldl");
    cc.output().is_ok_and(|output| output.status.success()).then_some(library)
}

/// Runs `APPLY out` once for each change it makes to the disk, with a fault at that change.
fn fault_everywhere(out: &str, flags: &str, errno: Option<&str>) {
    let sandbox = sandbox();
    sandbox.ok(&format!("{APPLY} whole-{out} {flags}"));
    let want = sandbox.below(&format!("whole-{out}"));
    fault_at_every_change(&sandbox, &format!("{APPLY} {out} {flags} --quiet"), out, &want, errno);
}

/// `line` writes `out`, which must be nothing or `want` after a fault at any of its changes to the disk.
fn fault_at_every_change(
    sandbox: &Sandbox,
    line: &str,
    out: &str,
    want: &Files,
    errno: Option<&str>,
) {
    let Some(library) = library(sandbox) else {
        return eprintln!("skipped: cc cannot build the library");
    };
    let mut problems = Vec::new();
    for change in 1.. {
        let mut command = sandbox.command(line.split_whitespace());
        command.env("LD_PRELOAD", &library).env("FAULT_AT", change.to_string());
        command.env("FAULT_MARK", sandbox.path("hit")).envs(errno.map(|e| ("FAULT_ERRNO", e)));
        let outcome = Outcome::of(command.output().unwrap());
        if !sandbox.has("hit") {
            assert_eq!(outcome.code, Some(0), "{outcome:?}");
            assert!(change == 1 || change > 15, "the job changed the disk {change} times only");
            break;
        }
        let place = sandbox.text("hit");
        let mut check = |holds: bool, what: &str, outcome: &Outcome| {
            if !holds {
                problems.push(format!("{place}: {what}\n  {outcome:?}"));
            }
        };
        let published = sandbox.has(out);
        check(!published || sandbox.holds(out, want), "published half an output", &outcome);
        match (errno, outcome.code) {
            (None, code) => assert_eq!(code, None, "{outcome:?}"),
            // A fault while it cleans up may be none to the user.
            (Some(_), Some(0)) => check(published, "succeeded without an output", &outcome),
            (Some(_), code) => {
                let advice = "; free some space and continue with --resume\n";
                let advises = code == Some(2) && outcome.stderr.ends_with(advice);
                check(advises, "is not a full disk to the user", &outcome);
            }
        }
        let resumed = sandbox.run(&format!("{line} --resume"));
        let done = published && resumed.stderr.contains("already exists");
        if resumed.code == Some(0) || done {
            check(sandbox.has(out) && sandbox.holds(out, want), "gives another output", &resumed);
            check(!sandbox.has(&format!("{out}.partial")), "leaves a rest", &resumed);
        } else {
            check(false, "cannot be resumed", &resumed);
        }
        for name in ["hit", out, &format!("{out}.partial")] {
            sandbox.remove(name);
        }
    }
    assert!(problems.is_empty(), "{out}, a fault at\n{}", problems.join("\n"));
}

#[test]
fn a_parquet_job_may_be_killed_anywhere() {
    fault_everywhere("phi.parquet", "", None);
}

#[test]
fn an_arrow_job_may_be_killed_anywhere() {
    fault_everywhere("phi.arrow", "", None);
}

#[test]
fn an_npy_job_may_be_killed_anywhere() {
    fault_everywhere("phi.npy", "--drop-ids", None);
}

#[test]
fn a_safetensors_job_may_be_killed_anywhere() {
    fault_everywhere("phi.safetensors", "", None);
}

#[test]
fn a_csv_job_may_be_killed_anywhere() {
    fault_everywhere("phi.csv", "", None);
}

#[test]
fn a_folder_of_parquet_may_be_killed_anywhere() {
    fault_everywhere("phi", "--rows-per-part 66000", None);
}

#[test]
fn a_folder_of_safetensors_may_be_killed_anywhere() {
    fault_everywhere("phi", "--rows-per-part 66000 --format safetensors", None);
}

#[test]
fn the_disk_may_be_full_anywhere_for_a_file() {
    fault_everywhere("phi.parquet", "", Some(ENOSPC));
}

#[test]
fn the_disk_may_be_full_anywhere_for_a_folder_of_safetensors() {
    fault_everywhere("phi", "--rows-per-part 66000 --format safetensors", Some(ENOSPC));
}

/// A kernel of a table, and the factors of a network.
const KERNEL: &str = "kernel compute --vectors t.csv --kernel rbf --quiet --out k";
const STORE: &str = "kernel store --run run --quiet --out k";

fn fault_a_kernel(line: &str, errno: Option<&str>) {
    let sandbox = Sandbox::new();
    let table: String = (0..40).map(|i| format!("{i},{},{}\n", i % 7, i % 11)).collect();
    sandbox.put("t.csv", format!("id,x,y\n{table}"));
    sandbox.ok("data generate images --images 40 --size 4 --classes 2 --out images");
    sandbox.ok("train net --model mlp:3 --epochs 1 --data images --out run");
    sandbox.ok(line);
    let want = sandbox.below("k");
    sandbox.remove("k");
    fault_at_every_change(&sandbox, line, "k", &want, errno);
}

#[test]
fn a_kernel_may_be_killed_anywhere() {
    fault_a_kernel(KERNEL, None);
}

#[test]
fn the_factors_of_a_kernel_may_be_killed_anywhere() {
    fault_a_kernel(STORE, None);
}

#[test]
fn the_disk_may_be_full_anywhere_for_a_kernel() {
    fault_a_kernel(KERNEL, Some(ENOSPC));
}

#[test]
fn the_disk_may_be_full_anywhere_for_factors() {
    fault_a_kernel(STORE, Some(ENOSPC));
}

const DAY: &str = "refresh --reference a.parquet --spec spec.json --min-cka 0.9 --out live --probes 20 --pairs 100 \
                   --kernel-ids 100 --quiet";

/// `a`, `b` (the same geometry in other coordinates) and `bad` (other rows), and a spec.
fn days() -> Sandbox {
    let sandbox = Sandbox::new();
    let mut values = vec![0.0; 2 * 200 * 4];
    let stream = veridical_core::Stream::new(veridical_core::Seed::new(0).unwrap(), "rows");
    stream.at(0, 0).fill_normals(&mut values);
    let values: Vec<f32> = values.iter().map(|&x| x as f32).collect();
    let (vectors, other) = values.split_at(200 * 4);
    let turned = vectors.chunks_exact(4).flat_map(|row| row.iter().rev().copied()).collect();
    let table = named_rows(200, 4);
    let put = |name: &str, vectors: Vec<f32>| {
        sandbox.put_table(name, &VectorTable { vectors, ..table.clone() });
    };
    put("a.parquet", vectors.to_vec());
    put("b.parquet", turned);
    put("bad.parquet", other.to_vec());
    sandbox.put("spec.json", FeatureSpec::params(4, 8).build().unwrap().to_json());
    sandbox
}

/// The files of the publications but for times, locks and leftovers that readers skip and the next job removes.
fn remembered(sandbox: &Sandbox) -> Files {
    let mut files = sandbox.below("live");
    files.retain(|path, _| {
        let is_hidden = |part: std::path::Component<'_>| {
            part.as_os_str().to_string_lossy().starts_with('.') || part.as_os_str() == "log.jsonl"
        };
        !path.components().any(is_hidden)
    });
    files
}

/// Runs `line` once for each of its changes to the disk, killed or failing there, on a copy of `start`: readers always find
/// the version before or the new one, and resuming ends as the uninterrupted job does.
fn fault_a_day(prepare: &[&str], line: &str, code: i32, errno: Option<&str>) {
    let sandbox = days();
    for line in prepare {
        sandbox.ok(&format!("{DAY} {line}"));
    }
    let Some(library) = library(&sandbox) else {
        return eprintln!("skipped: cc cannot build the library");
    };
    let copy = |from: &str, to: &str| {
        sandbox.remove(to);
        if sandbox.has(from) {
            let done =
                Command::new("cp").args(["-a", from, to]).current_dir(sandbox.path(".")).status();
            assert!(done.unwrap().success());
        }
    };
    copy("live", "start");
    assert_eq!(sandbox.run(line).code, Some(code), "{line}");
    let want = remembered(&sandbox);
    let mut problems = Vec::new();
    for change in 1.. {
        copy("start", "live");
        let mut command = sandbox.command(line.split_whitespace());
        command.env("LD_PRELOAD", &library).env("FAULT_AT", change.to_string());
        command.env("FAULT_MARK", sandbox.path("hit")).envs(errno.map(|e| ("FAULT_ERRNO", e)));
        let outcome = Outcome::of(command.output().unwrap());
        if !sandbox.has("hit") {
            assert_eq!(outcome.code, Some(code), "{outcome:?}");
            assert!(change > 3, "the job changed the disk {change} times only");
            break;
        }
        let place = sandbox.text("hit");
        sandbox.remove("hit");
        let mut check = |holds: bool, what: &str, outcome: &Outcome| {
            if !holds {
                problems.push(format!("{place}: {what}\n  {outcome:?}"));
            }
        };
        if !prepare.is_empty() {
            let verified = sandbox.run("refresh verify live");
            check(verified.code == Some(0), "readers find no complete version", &verified);
        }
        let resumed = match line.starts_with("refresh rollback") {
            true if remembered(&sandbox) == want => continue, // the fault came after the switch
            true => sandbox.run(line),
            false => sandbox.run(&format!("{line} --resume")),
        };
        let done = resumed.code == Some(2)
            && (resumed.stderr.contains("already exists")
                || resumed.stderr.contains("already, as version"));
        check(done || resumed.code == Some(code), "cannot be resumed", &resumed);
        let got = remembered(&sandbox);
        if got != want {
            let differ = |path: &&PathBuf| got.get(*path) != want.get(*path);
            let paths: Vec<&PathBuf> = want.keys().chain(got.keys()).filter(differ).collect();
            check(false, &format!("ends differently: {paths:?}"), &resumed);
        }
    }
    assert!(problems.is_empty(), "{line}, a fault at\n{}", problems.join("\n"));
}

#[test]
fn a_first_day_may_be_killed_anywhere() {
    fault_a_day(&[], &format!("{DAY} --new b.parquet"), 0, None);
}

#[test]
fn a_next_day_may_be_killed_anywhere() {
    let first = "--new b.parquet --date 2026-01-01";
    fault_a_day(&[first], &format!("{DAY} --new b.parquet --date 2026-01-02"), 0, None);
}

#[test]
fn the_disk_may_be_full_anywhere_on_a_next_day() {
    let first = "--new b.parquet --date 2026-01-01";
    fault_a_day(&[first], &format!("{DAY} --new b.parquet --date 2026-01-02"), 0, Some(ENOSPC));
}

#[test]
fn a_rejected_day_may_be_killed_anywhere() {
    let first = "--new b.parquet --date 2026-01-01";
    fault_a_day(&[first], &format!("{DAY} --new bad.parquet --date 2026-01-02"), 1, None);
}

#[test]
fn a_rejected_first_day_may_be_killed_anywhere() {
    fault_a_day(&[], &format!("{DAY} --new bad.parquet --date 2026-01-01"), 1, None);
}

#[test]
fn a_rollback_may_be_killed_anywhere() {
    let days = ["--new b.parquet --date 2026-01-01", "--new b.parquet --date 2026-01-02"];
    fault_a_day(&days, "refresh rollback live --quiet", 0, None);
}

#[test]
fn removing_old_versions_may_be_killed_anywhere() {
    let days = [
        "--new b.parquet --date 2026-01-01",
        "--new b.parquet --date 2026-01-02",
        "--new b.parquet --date 2026-01-03",
    ];
    fault_a_day(&days, &format!("{DAY} --new b.parquet --date 2026-01-04 --keep 1"), 0, None);
}

/// Where links cannot be made, `_current.json` says what is current.
#[test]
fn without_links_a_pointer_is_written() {
    let sandbox = days();
    let Some(library) = library(&sandbox) else {
        return eprintln!("skipped: cc cannot build the library");
    };
    for day in ["2026-01-01", "2026-01-02"] {
        let line = format!("{DAY} --new b.parquet --date {day}");
        let mut command = sandbox.command(line.split_whitespace());
        command.env("LD_PRELOAD", &library).env("NO_LINKS", "1");
        let outcome = Outcome::of(command.output().unwrap());
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        let pointer: serde_json::Value =
            serde_json::from_str(&sandbox.text("live/_current.json")).unwrap();
        assert_eq!(pointer["version"], day);
        assert!(!sandbox.has("live/current"));
        sandbox.ok("refresh verify live");
        assert_eq!(sandbox.table("live").n_rows(), 200);
    }
}
