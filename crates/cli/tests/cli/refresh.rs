//! `veridical refresh`: what it publishes, what it stops, and that readers always find a complete version.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;
use veridical_core::{Seed, Stream};
use veridical_data::{Ids, VectorTable};

use crate::common::Sandbox;

const DIM: usize = 16;

/// `a`, `b` (a with its coordinates reversed and a few new ids) and `broken` (b with its ids shifted), of `n` ids.
fn sandbox(n: usize) -> Sandbox {
    let sandbox = Sandbox::new();
    let mut values = vec![0.0; n * DIM];
    Stream::new(Seed::new(0).unwrap(), "rows").at(0, 0).fill_normals(&mut values);
    let rows: Vec<f32> = values.iter().map(|&x| x as f32).collect();
    let table = |ids: Vec<i64>, vectors: Vec<f32>| VectorTable {
        ids: Ids::Int(ids.into()),
        dim: DIM,
        vectors,
    };
    let numbers: Vec<i64> = (0..n as i64).collect();
    veridical_io::write_table(&table(numbers.clone(), rows.clone()), &sandbox.path("a.parquet"))
        .unwrap();
    let mut reversed = rows;
    reversed.chunks_exact_mut(DIM).for_each(<[f32]>::reverse);
    let shifted: Vec<i64> = numbers.iter().map(|i| (i + 1) % n as i64).collect();
    veridical_io::write_table(&table(shifted, reversed.clone()), &sandbox.path("broken.parquet"))
        .unwrap();
    let more: Vec<i64> = numbers.into_iter().chain([9_000_000, 9_000_001]).collect();
    let extra: Vec<f32> = reversed[..2 * DIM].to_vec();
    veridical_io::write_table(&table(more, [reversed, extra].concat()), &sandbox.path("b.parquet"))
        .unwrap();
    sandbox.put("budget.toml", "min-cka = 0.9\nmin-nn-overlap = 0.8\nmin-shared-ids = 0.99\n");
    sandbox.ok(&format!("featurize new --input-dim {DIM} --out spec.json"));
    sandbox
}

const LINE: &str = "refresh --reference a.parquet --new b.parquet --spec spec.json --budget budget.toml --out live";
const SMALL: &str = "--probes 20 --pairs 100 --kernel-ids 100";

fn broken() -> String {
    LINE.replace("b.parquet", "broken.parquet")
}

fn json(sandbox: &Sandbox, name: &str) -> Value {
    serde_json::from_str(&sandbox.text(name)).unwrap()
}

fn names(sandbox: &Sandbox, folder: &str) -> Vec<String> {
    let entries = fs::read_dir(sandbox.path(folder)).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn current(sandbox: &Sandbox) -> PathBuf {
    fs::read_link(sandbox.path("live/current")).unwrap()
}

#[test]
fn a_good_refresh_is_published_whole() {
    let sandbox = sandbox(400);
    sandbox.ok(LINE);
    assert_eq!(
        names(&sandbox, "live"),
        ["1", "current", "history.parquet", "log.jsonl", "manifests"]
    );
    assert_eq!(current(&sandbox), Path::new("1"));
    let files = [
        "_SUCCESS",
        "features",
        "manifest.json",
        "map.safetensors",
        "metrics.prom",
        "outliers.csv",
    ];
    assert_eq!(
        names(&sandbox, "live/1"),
        [&files[..], &["report.html", "summary.md", "vectors"]].concat()
    );
    let manifest = json(&sandbox, "live/current/manifest.json");
    assert_eq!(manifest["passed"], true);
    assert_eq!(manifest["gates"].as_array().unwrap().len(), 3);
    for (field, want) in [
        ("version", Value::from("1")),
        ("rows", 402.into()),
        ("dim", DIM.into()),
        ("dtype", "f32".into()),
        ("spec_id", json(&sandbox, "spec.json")["spec_id"].clone()),
        ("frame", manifest["job"]["reference"].clone()),
        ("map_id", manifest["map"]["map_id"].clone()),
    ] {
        assert_eq!(manifest[field], want, "{field}");
    }
    assert_eq!(sandbox.bytes("live/manifests/1.json"), sandbox.bytes("live/1/manifest.json"));
    let summary = sandbox.text("live/1/summary.md");
    assert!(
        summary.lines().count() <= 12
            && summary.starts_with("**Veridical refresh 1: published.** ")
    );
    let title = "<title>Refresh 1: published · b.parquet against a.parquet</title>";
    assert!(sandbox.text("live/1/report.html").contains(title));
    assert!(!sandbox.text("live/1/report.html").contains("name=\"date\""));
    // The vectors are aligned: nobody is told to do it again.
    let text = sandbox.ok(&LINE.replace("--out live", "--out other"));
    assert!(text.contains("\n  the refresh aligns the vectors (alignment restores"), "{text}");
    assert!(summary.contains("\n- the refresh aligns the vectors (alignment"), "{summary}");
    let page = sandbox.text("live/1/report.html");
    assert!(page.contains("<li>The refresh aligns the vectors: alignment"));
    for said in [&text, &summary, &page] {
        assert!(!said.contains("use: aligned") && !said.contains("veridical align"));
    }
    let compared = sandbox.ok("stability a.parquet b.parquet --html b.html");
    assert!(compared.contains("\n  use: aligned (alignment restores"), "{compared}");
    assert!(
        sandbox
            .text("b.html")
            .contains("Use aligned vectors (<code>veridical align</code> makes them)")
    );
    // The reversal is undone, for new ids too; every verb takes the folder.
    let (a, published) = (sandbox.table("a.parquet"), sandbox.table("live"));
    assert_eq!(published.n_rows(), 402);
    let distance = |i: usize, j: usize| {
        let pairs = a.row(i).iter().zip(published.row(j));
        pairs.map(|(x, y)| (x - y).abs()).fold(0.0, f32::max)
    };
    assert!((0..400).all(|i| distance(i, i) < 1e-4));
    assert!(distance(0, 400) < 1e-4 && distance(1, 401) < 1e-4);
    // The features are those of the published vectors.
    sandbox.ok("featurize apply --spec spec.json live phi.parquet");
    assert_eq!(sandbox.table("phi.parquet").vectors, sandbox.table("live/1/features").vectors);
    let stats = sandbox.ok("vectors stats live --table features --json");
    assert_eq!(serde_json::from_str::<Value>(&stats).unwrap()["dim"], 4 * DIM);
}

#[test]
fn features_are_those_of_the_vectors_as_published() {
    let sandbox = sandbox(400);
    sandbox.ok(&format!("{LINE} --dtype f16 --rows-per-part 150 --compression zstd"));
    assert_eq!(
        names(&sandbox, "live/1/vectors"),
        ["part-00000.parquet", "part-00001.parquet", "part-00002.parquet"]
    );
    assert_eq!(json(&sandbox, "live/1/manifest.json")["dtype"], "f16");
    sandbox.ok("featurize apply --spec spec.json live/1 phi.parquet --dtype f16");
    assert_eq!(sandbox.table("phi.parquet").vectors, sandbox.table("live/1/features").vectors);
    sandbox.ok("refresh verify live");
}

#[test]
fn a_rejected_day_leaves_a_report_beside_the_current_version() {
    let sandbox = sandbox(400);
    let outcome = sandbox.run(&format!("{} --quiet --date 2026-01-01", broken()));
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(outcome.only_error().starts_with("nothing was published: "), "{outcome:?}");
    let rejected = ["manifest.json", "metrics.prom", "outliers.csv", "report.html", "summary.md"];
    assert_eq!(names(&sandbox, "live/2026-01-01.rejected"), rejected);
    sandbox.refuses(
        "vectors stats live",
        "live: nothing is published here yet; publish a first version with `veridical refresh`",
    );
    sandbox.ok(&format!("{LINE} --date 2026-01-02"));
    let before = sandbox.below("live/2026-01-02");
    let outcome = sandbox.run(&format!("{} --quiet --json --date 2026-01-03", broken()));
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    let document: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(
        (&document["published"], &document["version"]),
        (&false.into(), &"2026-01-03".into())
    );
    assert_eq!(document["yesterday"]["version"], "2026-01-02");
    assert_eq!(current(&sandbox), Path::new("2026-01-02"));
    assert!(sandbox.below("live/2026-01-02") == before);
    let summary = sandbox.text("live/2026-01-03.rejected/summary.md");
    assert!(summary.starts_with("**Veridical refresh 2026-01-03: NOT published.** "), "{summary}");
    // The same day again, repaired: no flag is needed, and the rejection is forgotten.
    sandbox.ok(&format!("{LINE} --date 2026-01-03"));
    assert!(!sandbox.has("live/2026-01-03.rejected"));
    assert_eq!(
        names(&sandbox, "live/manifests"),
        ["2026-01-01.rejected.json", "2026-01-02.json", "2026-01-03.json"]
    );
    // Without limits the verdict decides.
    let line = "refresh --reference a.parquet --new broken.parquet --out other --without-limits";
    assert_eq!(sandbox.run(line).code, Some(1));
    assert!(!sandbox.has("other/current") && sandbox.has("other/1.rejected/report.html"));
}

#[test]
fn versions_are_kept_and_replaced_only_when_asked() {
    let sandbox = sandbox(200);
    let line = format!("{LINE} {SMALL}");
    sandbox.ok(&format!("{line} --date 2026-01-01"));
    sandbox.refuses(
        &format!("{line} --date 2026-01-01"),
        "version 2026-01-01 already exists in live; choose another --date or replace it with --force",
    );
    let before = sandbox.below("live/2026-01-01");
    let forced = format!("{} {SMALL} --date 2026-01-01 --force", broken());
    assert_eq!(sandbox.run(&forced).code, Some(1));
    assert!(sandbox.below("live/2026-01-01") == before, "the earlier one stays");
    sandbox.ok(&format!("{line} --date 2026-01-01 --force"));
    sandbox.ok(&line);
    sandbox.ok(&line);
    assert_eq!(current(&sandbox), Path::new("2"));
    let listed: Value = serde_json::from_str(&sandbox.ok("refresh list live --json")).unwrap();
    let states: Vec<(&str, &str)> = listed["versions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|v| (v["version"].as_str().unwrap(), v["state"].as_str().unwrap()))
        .collect();
    assert_eq!(states, [("2026-01-01", "published"), ("1", "published"), ("2", "current")]);
    sandbox.ok(&format!("{line} --keep 2"));
    assert!(!sandbox.has("live/2026-01-01") && !sandbox.has("live/1"));
    assert!(sandbox.has("live/2") && sandbox.has("live/3") && sandbox.has("live/manifests/1.json"));
    // Nothing else is touched.
    sandbox.put("mine/file", "mine");
    let line = "refresh --reference a.parquet --new b.parquet --out mine --force --without-limits";
    sandbox.refuses(line, "mine is not a folder of publications; choose another name");
    let other = "refresh --reference broken.parquet --new b.parquet --out live --probes 20 --without-limits";
    sandbox.refuses_like(other, |error| {
        assert!(error.starts_with("live has the frame of another reference (version "), "{error}");
        assert!(error.ends_with("to another folder, since consumers rely on the frame"), "{error}");
    });
}

#[test]
fn consumers_can_go_back() {
    let sandbox = sandbox(200);
    let line = format!("{LINE} {SMALL}");
    for day in ["2026-01-01", "2026-01-02", "2026-01-03"] {
        sandbox.ok(&format!("{line} --date {day}"));
    }
    let shown = sandbox.ok("refresh rollback live");
    assert_eq!(shown, "live: version 2026-01-02 is current, before it was 2026-01-03\n");
    sandbox.ok("refresh rollback live");
    assert_eq!(current(&sandbox), Path::new("2026-01-01"));
    sandbox.refuses(
        "refresh rollback live",
        "live: there is no version before 2026-01-01 to go back to; publish a good table instead",
    );
    sandbox.refuses(
        "refresh rollback live --to 2026-01-09",
        "live: there is no version 2026-01-09; the versions are 2026-01-01, 2026-01-02, 2026-01-03",
    );
    sandbox.ok("refresh rollback live --to 2026-01-03");
    // A damaged version is not made current; a lost one is gone back from.
    sandbox.put("live/2026-01-02/vectors/vectors.parquet", "short");
    sandbox.refuses_like("refresh rollback live", |error| {
        assert!(
            error.starts_with("live/2026-01-02/vectors/vectors.parquet: has 5 bytes"),
            "{error}"
        );
    });
    sandbox.refuses_like("refresh verify live/2026-01-02", |error| {
        assert!(
            error.starts_with("live/2026-01-02/vectors/vectors.parquet: has 5 bytes"),
            "{error}"
        );
    });
    sandbox.remove("live/2026-01-03");
    sandbox.refuses_like("vectors stats live", |error| {
        assert!(
            error.contains("the current version is `2026-01-03`, and live/2026-01-03 is gone"),
            "{error}"
        );
    });
    sandbox.ok("refresh rollback live --to 2026-01-01");
    sandbox.ok("vectors stats live");
    sandbox.refuses(
        "refresh list spec.json",
        "spec.json is not a folder of publications; name the folder that `veridical refresh` publishes to",
    );
}

/// The version that consumers read before is the one to go back to, whatever its date.
#[test]
fn the_version_before_is_the_one_that_was_current() {
    let sandbox = sandbox(200);
    let line = format!("{LINE} {SMALL}");
    for day in ["2026-01-01", "2026-01-02", "2026-01-03"] {
        sandbox.ok(&format!("{line} --date {day}"));
    }
    sandbox.ok("refresh rollback live --to 2026-01-01");
    sandbox.ok(&format!("{line} --date 2026-01-04 --keep 2"));
    assert!(sandbox.has("live/2026-01-01") && !sandbox.has("live/2026-01-02"));
    sandbox.ok("refresh rollback live");
    assert_eq!(current(&sandbox), Path::new("2026-01-01"));
    // A day that was published is not published again unasked, though its folder is gone.
    sandbox.refuses(
        &format!("{line} --date 2026-01-02"),
        "version 2026-01-02 was published in live; choose another --date or publish it again with --force",
    );
    sandbox.ok(&format!("{line} --date 2026-01-02 --force"));
    sandbox.ok("refresh rollback live");
    assert_eq!(current(&sandbox), Path::new("2026-01-01"));
}

/// The job was killed before its last step, and then the version was damaged.
#[test]
fn what_is_damaged_is_not_resumed_and_what_was_switched_is_remembered() {
    let sandbox = sandbox(200);
    let line = format!("{LINE} {SMALL}");
    sandbox.ok(&format!("{line} --date 2026-01-01"));
    sandbox.ok(&format!("{line} --date 2026-01-02"));
    sandbox.remove("live/manifests/2026-01-02.json");
    let whole = sandbox.bytes("live/2026-01-02/vectors/vectors.parquet");
    sandbox.put("live/2026-01-02/vectors/vectors.parquet", "");
    sandbox.refuses_like(&format!("{line} --date 2026-01-02 --resume"), |error| {
        assert!(
            error.starts_with("live/2026-01-02/vectors/vectors.parquet: has 0 bytes"),
            "{error}"
        );
    });
    sandbox.put("live/2026-01-02/vectors/vectors.parquet", whole);
    sandbox.ok(&format!("{line} --date 2026-01-03"));
    assert!(sandbox.has("live/manifests/2026-01-02.json"));
    sandbox.ok("refresh rollback live");
    assert_eq!(current(&sandbox), Path::new("2026-01-02"));
    let edited =
        sandbox.text("live/2026-01-02/manifest.json").replace("\"rows\": 202", "\"rows\": 999");
    sandbox.put("live/2026-01-02/manifest.json", edited);
    sandbox.refuses(
        "refresh verify live",
        "live/2026-01-02/manifest.json: is not the manifest that was recorded; publish this version again with --force",
    );
}

/// Another table takes the place of today's after it was compared: what is published is what was compared, or nothing.
#[test]
fn a_table_that_changes_meanwhile_is_not_published() {
    let sandbox = sandbox(20_000);
    fs::copy(sandbox.path("b.parquet"), sandbox.path("today.parquet")).unwrap();
    let line = LINE.replace("b.parquet", "today.parquet");
    let line = format!("{line} {SMALL} --quiet");
    let mut job = sandbox.command(line.split_whitespace());
    let mut job = job.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while !sandbox.has("live/1.partial/job.json") && job.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    fs::rename(sandbox.path("broken.parquet"), sandbox.path("today.parquet")).unwrap();
    match job.wait().unwrap().code() {
        Some(2) => assert!(!sandbox.has("live/current") && !sandbox.has("live/1.partial")),
        code => {
            assert_eq!(code, Some(0));
            sandbox.ok(&LINE.replace("--out live", "--out other"));
            assert!(sandbox.table("live").vectors == sandbox.table("other").vectors);
        }
    }
}

#[test]
fn a_version_never_changes_and_odd_names_are_refused() {
    let sandbox = sandbox(200);
    let line = format!("{LINE} {SMALL}");
    sandbox.ok(&line);
    let inside = |error: &str| assert!(error.contains("inside the published version"), "{error}");
    let pages = "stability a.parquet b.parquet --pairs 200 --kernel-ids 100 --html";
    for page in ["live/current/report.html", "live/1/new.html"] {
        sandbox.refuses_like(&format!("{pages} {page}"), inside);
    }
    sandbox
        .refuses_like("vectors convert a.parquet live/1/vectors/vectors.parquet --force", inside);
    sandbox.refuses(
        &format!("{line} --html nowhere/x.html"),
        "nowhere does not exist or is not a folder; create it first",
    );
    sandbox.put("conf.txt", "");
    sandbox.refuses_like(
        &format!("{line} --config conf.txt --prometheus=conf.txt --force"),
        |error| {
            assert!(error.contains("this is an input of this job"), "{error}");
        },
    );
    for out in ["x.parquet", "-"] {
        let error = format!("{out}: this is not the name of a folder; name a folder to publish to");
        sandbox.refuses(&line.replace("--out live", &format!("--out {out}")), &error);
    }
    sandbox.refuses(
        &line.replace("--new b.parquet", "--new -"),
        "a stream can be read only once, and it is compared before it is published; use a file",
    );
    sandbox.put("d/x", "");
    fs::copy(sandbox.path("b.parquet"), sandbox.path("d/b.parquet")).unwrap();
    sandbox.remove("d/x");
    sandbox.refuses(
        &line
            .replace("--new b.parquet --spec", "--new d --spec")
            .replace("--out live", "--out d/live"),
        "d/live: this is inside a table that is read; publish to another folder",
    );
    sandbox.put("live/18446744073709551615/x", "");
    sandbox.ok(&line);
    assert_eq!(current(&sandbox), Path::new("2"));
    // Settings that turn out wrong when the table is written leave nothing to resume.
    sandbox.refuses_like(&format!("{line} --dtype bf16"), |error| {
        assert!(error.contains("bf16"), "{error}")
    });
    // A link that a copy turned into a folder.
    sandbox.remove("live/current");
    sandbox.put("live/current/x", "");
    sandbox.refuses_like(&line, |error| {
        assert!(error.starts_with("live/current is not a link"), "{error}")
    });
}

#[test]
fn another_job_is_not_taken_up_and_a_held_lock_names_its_holder() {
    let sandbox = sandbox(200);
    let line = format!("{LINE} {SMALL}");
    sandbox.put("live/1.partial/job.json", "{\"new\": \"x\"}");
    sandbox.refuses_like(&format!("{line} --resume"), |error| {
        assert!(error.starts_with("live/1.partial belongs to a different refresh: "), "{error}");
        assert!(error.ends_with("start over with --force"), "{error}");
    });
    sandbox.refuses(&line, "live/1.partial holds an unfinished refresh; continue it with --resume or start over with --force");
    sandbox.ok(&format!("{line} --force"));
    assert!(!sandbox.has("live/1.partial"));
    let lock = fs::File::create(sandbox.path("live/.lock")).unwrap();
    lock.try_lock().unwrap();
    fs::write(
        sandbox.path("live/.lock"),
        "{\"pid\":4711,\"host\":\"east\",\"since\":1767225599}\n",
    )
    .unwrap();
    for line in [&line, "refresh rollback live"] {
        sandbox.refuses(
            line,
            "live is being written by another job (process 4711 on east, since 2025-12-31 23:59:59 UTC); wait \
             for it or choose another name",
        );
    }
    drop(lock);
    let outcome = sandbox.run(&line);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.stderr.contains("taken over (process 4711 on east, since 2025"), "{outcome:?}");
}

#[test]
fn hooks_run_once_after_the_switch_and_change_nothing() {
    let sandbox = sandbox(200);
    let program = env!("CARGO_BIN_EXE_veridical");
    let refresh = |line: &str, hook: [&str; 2]| {
        let mut command = sandbox.command(line.split_whitespace());
        command.args(SMALL.split_whitespace()).args(["--json", "--hook-time", "5s"]).args(hook);
        crate::common::Outcome::of(command.output().unwrap())
    };
    // The hook sees the new version, and is not blocked by the lock.
    let script = format!(
        "cat > said; echo \"$VERIDICAL_STATUS $VERIDICAL_VERSION $VERIDICAL_FOLDER $VERIDICAL_OUT\" >> said; \
         test -f \"$VERIDICAL_REPORT\" && test -f \"$VERIDICAL_SUMMARY\" && test -f \"$VERIDICAL_MANIFEST\" && \
         readlink live/current >> said; {program} refresh verify live >> said; echo once >> said"
    );
    let outcome = refresh(LINE, ["--on-publish", &script]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let said = sandbox.text("said");
    let summary = sandbox.text("live/1/summary.md");
    let rest = said.strip_prefix(&summary).unwrap_or_else(|| panic!("{said}"));
    assert!(
        rest.starts_with("published 1 live/1 live\n1\nlive/1: version 1 is complete: "),
        "{rest}"
    );
    assert!(rest.ends_with("rows\nonce\n"), "{rest}");
    let document = |outcome: &crate::common::Outcome| -> Value {
        serde_json::from_str(&outcome.stdout).unwrap()
    };
    assert_eq!(document(&outcome)["hook"]["ok"], true);
    for (command, error) in [
        ("exit 7", "failed with exit code 7"),
        ("sleep 60 & sleep 60", "was stopped after 5 s; allow more with --hook-time"),
        ("kill -9 $$", "was killed by a signal"),
    ] {
        let outcome = refresh(&broken(), ["--on-reject", command]);
        assert_eq!(outcome.code, Some(1), "{outcome:?}");
        let hook = &document(&outcome)["hook"];
        assert_eq!((&hook["ok"], &hook["command"]), (&false.into(), &command.into()));
        let said = format!("veridical: warning: --on-reject `{command}` {error}\n");
        assert!(outcome.stderr.contains(&said), "{outcome:?}");
        assert!(!sandbox.has("live/2/_SUCCESS"));
    }
    let outcome = refresh(LINE, ["--on-publish", "exit 3"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(current(&sandbox), Path::new("5"));
}

#[test]
fn all_forms_of_a_report_in_one_run() {
    let sandbox = sandbox(200);
    let forms = "--html day.html --markdown=day.md --prometheus=day.prom --json";
    for day in ["2026-01-01", "2026-01-02"] {
        let out = sandbox.ok(&format!("{LINE} {SMALL} --date {day} {forms}"));
        let document: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(document["schema"], "veridical.refresh/1");
        assert_eq!(sandbox.text("day.md"), sandbox.text(&format!("live/{day}/summary.md")));
        assert_eq!(sandbox.text("day.prom"), sandbox.text(&format!("live/{day}/metrics.prom")));
        assert!(
            sandbox.text("day.html").contains(&format!("<meta name=\"date\" content=\"{day}\">"))
        );
    }
    let outcome =
        sandbox.run(&format!("{LINE} {SMALL} --markdown --json --date 2026-01-03 --quiet"));
    assert_eq!(outcome.code, Some(2));
    let want = "--json and --markdown both go to stdout; write one of them to a file";
    assert_eq!(outcome.only_error(), want);
}

#[test]
fn a_program_that_asks_for_json_gets_errors_as_documents() {
    let sandbox = Sandbox::new();
    for (line, kind) in [
        ("refresh --reference no.parquet --new no.parquet --out x --without-limits --json", "file"),
        ("refresh list nowhere --json", "missing"),
        ("vectors stats nowhere.parquet --json", "file"),
        ("stability --k 0 a b --json", "setting"),
        ("vectors stats --json", "usage"),
        ("no-such-verb --json", "usage"),
    ] {
        let outcome = sandbox.run(line);
        assert_eq!(outcome.code, Some(2), "{line}\n{outcome:?}");
        let document: Value = serde_json::from_str(&outcome.stdout)
            .unwrap_or_else(|e| panic!("{line}: {e}\n{outcome:?}"));
        assert_eq!(document["schema"], "veridical.error/1", "{line}");
        assert_eq!((&document["kind"], &document["exit"]), (&kind.into(), &2.into()), "{line}");
        assert!(
            outcome.stderr.contains(document["error"].as_str().unwrap()),
            "{line}\n{outcome:?}"
        );
        assert!(sandbox.names().len() == 1, "{line}");
    }
}

/// A month with a rejected day and a drift: the history remembers, and proposes limits.
#[test]
fn days_are_remembered() {
    let sandbox = sandbox(200);
    let line = format!("{LINE} {SMALL}");
    let days = |from: usize, to: usize| {
        for day in from..=to {
            sandbox.ok(&format!("{line} --date 2026-01-{day:02}"));
        }
    };
    days(1, 3);
    assert_eq!(sandbox.run(&format!("{} {SMALL} --date 2026-01-04", broken())).code, Some(1));
    sandbox.refuses(
        "stability budget --from-history live",
        "live has 3 published days, and limits need at least 20; until then propose them from runs on identical data",
    );
    days(5, 21);
    let text = sandbox.ok("refresh history live --html history.html");
    assert!(
        text.starts_with("21 days: 20 published, 1 rejected; 2026-01-21 is current.\n"),
        "{text}"
    );
    assert!(
        text.contains(
            "  2026-01-04   rejected         200 rows  not met: min-cka, min-nn-overlap\n"
        ),
        "{text}"
    );
    let title = "<title>History of live · versions 2026-01-01 to 2026-01-21</title>";
    assert!(sandbox.text("history.html").contains(title));
    let budget = sandbox.ok("stability budget --from-history live");
    assert!(
        budget.contains("\nmin-cka = 0.99") && budget.contains("20 published days of live"),
        "{budget}"
    );
    sandbox.ok("stability budget --from-history live --out learned.toml");
    sandbox.ok(&format!("{line} --date 2026-01-22 --budget learned.toml")
        .replace("--budget budget.toml", ""));
    // Seven versions are kept; every day is remembered.
    let kept = names(&sandbox, "live").iter().filter(|name| name.starts_with("2026")).count();
    assert_eq!(kept, 7 + 1, "{:?}", names(&sandbox, "live"));
    assert_eq!(names(&sandbox, "live/manifests").len(), 22);
    let file = fs::File::open(sandbox.path("live/history.parquet")).unwrap();
    let rows = parquet::file::serialized_reader::SerializedFileReader::new(file).unwrap();
    let metadata = parquet::file::reader::FileReader::metadata(&rows).file_metadata().clone();
    let columns: Vec<&str> =
        metadata.schema_descr().columns().iter().map(|column| column.name()).collect();
    assert_eq!(columns[..6], ["version", "date", "published", "against", "measure", "value"]);
    assert_eq!(metadata.num_rows(), 22 * 13 + 21 * 13);
}

/// Whether readers find a complete version: its manifest lists files that are all there.
fn complete(live: &Path) -> Result<(), String> {
    let version = fs::read_link(live.join("current")).map_err(|e| format!("no current: {e}"))?;
    let folder = live.join(version);
    let text = fs::read(folder.join("manifest.json")).map_err(|e| format!("no manifest: {e}"))?;
    let manifest: Value = serde_json::from_slice(&text).map_err(|e| e.to_string())?;
    for file in manifest["files"].as_array().ok_or("no files")? {
        let path = folder.join(file["path"].as_str().ok_or("no path")?);
        let len = fs::metadata(&path).map_err(|e| format!("{}: {e}", path.display()))?.len();
        if Some(len) != file["bytes"].as_u64() {
            return Err(format!("{} has {len} bytes", path.display()));
        }
    }
    match folder.join("_SUCCESS").exists() {
        true => Ok(()),
        false => Err("no _SUCCESS".into()),
    }
}

/// Jobs that overlap, some of them killed, some forced over the same version: at no look was there no publication.
#[test]
fn overlapping_jobs_never_leave_readers_without_a_version() {
    overlap(20);
}

/// `make soak`.
#[test]
#[ignore = "takes minutes: make soak"]
fn many_overlapping_jobs_never_leave_readers_without_a_version() {
    overlap(200);
}

fn overlap(jobs: u64) {
    let sandbox = sandbox(200);
    let line = format!("{LINE} {SMALL} --quiet");
    sandbox.ok(&format!("{line} --date 2026-01-01"));
    let live = sandbox.path("live");
    let (done, looks) = (AtomicBool::new(false), AtomicU64::new(0));
    let stream = Stream::new(Seed::new(7).unwrap(), "soak");
    let random = |job: u64, what: u64, below: u64| {
        let [a, ..] = stream.at(what as u32, job).words(0);
        u64::from(a) % below
    };
    let mut codes = std::collections::BTreeMap::<String, u64>::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                assert!(live.join("current/_SUCCESS").exists(), "no publication");
                // Its files are looked at one by one; a version that is replaced meanwhile is looked at again.
                let seen = (0..3).map(|_| complete(&live)).find(Result::is_ok);
                assert!(seen.is_some(), "{:?}", complete(&live));
                looks.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let mut running: Vec<Child> = Vec::new();
        let mut finish = |mut child: Child| {
            let code = child.wait().unwrap().code();
            *codes.entry(format!("{code:?}")).or_default() += 1;
        };
        for job in 0..jobs {
            let day = 1 + random(job, 0, 4);
            let flags = ["", " --force", " --resume", " --keep 1"][random(job, 1, 4) as usize];
            let new = if random(job, 2, 4) == 0 { broken() } else { LINE.to_owned() };
            let line = format!("{new} {SMALL} --quiet --date 2026-01-{day:02}{flags}");
            let mut command = sandbox.command(line.split_whitespace());
            let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            if random(job, 3, 2) == 0 {
                let (pid, after) = (child.id().to_string(), random(job, 4, 200));
                scope.spawn(move || {
                    std::thread::sleep(Duration::from_millis(after));
                    let _ = std::process::Command::new("kill").args(["-9", &pid]).output();
                });
            }
            running.push(child);
            std::thread::sleep(Duration::from_millis(random(job, 5, 150)));
            if running.len() == 3 {
                finish(running.remove(random(job, 6, 3) as usize));
            }
        }
        running.into_iter().for_each(&mut finish);
        done.store(true, Ordering::Relaxed);
    });
    let looks = looks.into_inner();
    println!("{jobs} jobs, exit codes {codes:?}, {looks} looks");
    // How many are killed before they end depends on the machine; of many, some are.
    let killed = codes.contains_key("None") || jobs < 100;
    assert!(looks > jobs && codes.contains_key("Some(0)") && killed, "{codes:?}");
    sandbox.ok("refresh verify live");
    // Whatever was left can be finished or started over.
    for day in 1..=4 {
        let outcome = sandbox.run(&format!("{line} --date 2026-01-{day:02} --force"));
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
    }
    sandbox.ok("refresh verify live");
    let left: Vec<String> =
        names(&sandbox, "live").into_iter().filter(|name| name.ends_with(".partial")).collect();
    assert_eq!(left, Vec::<String>::new());
}
