//! Runs: contents, equal bytes for any number of threads, resume, replay and warm start.

#![cfg(unix)]

use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;
use veridical_data::VectorTable;

use crate::common::*;

/// Every method with settings that keep it short.
const METHODS: [(&str, &str); 9] = [
    ("mf", "--interactions r.csv --dim 6 --epochs 3 --sse 0.05 --dropout 0.1"),
    ("als", "--interactions r.csv --dim 6 --epochs 3"),
    ("bpr", "--interactions r.csv --dim 6 --epochs 3 --sse-user 0.1 --sse-item 0.01 --biases on"),
    ("item2vec", "--interactions r.csv --dim 6 --epochs 3 --window 3 --sse 0.02 --vectors both"),
    ("doc2vec", "--text d.csv --column text --min-count 1 --dim 6 --epochs 3 --sse 0.02"),
    ("ppmi-svd", "--interactions r.csv --dim 6"),
    ("pop", "--interactions r.csv"),
    ("itemknn", "--interactions r.csv --neighbors 5"),
    ("ease", "--interactions r.csv"),
];

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.put_shop("r.csv", 60, 40, 12).put_documents("d.csv", 40);
    sandbox
}

/// The files of a run without its log, which may differ.
fn run_files(sandbox: &Sandbox, name: &str) -> Files {
    let mut files = sandbox.below(name);
    files.retain(|path, _| path.file_name().is_none_or(|name| name != "log.jsonl"));
    files
}

fn document(sandbox: &Sandbox, run: &str) -> Value {
    serde_json::from_str(&sandbox.text(&format!("{run}/run.json"))).unwrap()
}

#[test]
fn flipped_bytes_in_a_table_of_a_run_are_refused_by_what_reads_it() {
    let sandbox = sandbox();
    for (out, seed) in [("a", 1), ("b", 2)] {
        sandbox.ok(&format!(
            "train bpr --interactions r.csv --dim 6 --epochs 1 --seed {seed} --out {out} --quiet"
        ));
    }
    let table = &document(&sandbox, "b")["tables"][0];
    let name = table["name"].as_str().unwrap();
    let file = format!("b/vectors/{name}.parquet");
    let mut bytes = sandbox.bytes(&file);
    assert_eq!(table["bytes"], bytes.len());
    assert!(table["digest"].as_str().unwrap().starts_with("blake3:"));
    sandbox.ok(&format!("vectors stats b --table {name}"));
    let middle = bytes.len() / 3;
    bytes[middle] ^= 1;
    sandbox.put(&file, &bytes);
    for line in [
        format!("vectors stats b --table {name}"),
        format!("vectors stats {file}"),
        format!("stability a b --table {name}"),
        format!("align --reference a b --table {name} --out c.parquet"),
    ] {
        let why = "has changed: its digest is not that of run.json of the run; train the run again, or restore the file";
        sandbox.refuses(&line, &format!("{file}: {why}"));
    }
}

#[test]
fn every_method_has_the_same_bytes_for_1_2_and_5_threads() {
    let sandbox = sandbox();
    for (method, flags) in METHODS {
        let line = |threads: u32, out: &str| {
            format!("train {method} {flags} --seed 3 --threads {threads} --out {out} --quiet")
        };
        sandbox.ok(&line(1, "one"));
        for threads in [2, 5] {
            sandbox.ok(&line(threads, "other"));
            let same = run_files(&sandbox, "one") == run_files(&sandbox, "other");
            assert!(same, "{method} differs on {threads} threads");
            sandbox.remove("other");
        }
        assert!(!sandbox.has("one.partial"));
        sandbox.remove("one");
    }
}

#[test]
fn a_run_says_everything_about_itself_and_carries_the_users_own_ids() {
    let sandbox = sandbox();
    let flags = "--interactions r.csv --split leave-last-one --validation 0.1 --dim 6 --epochs 4";
    let trained = json(&sandbox, "train", &format!("train bpr {flags} --seed 7 --out run"));
    assert_eq!(trained["runs"][0]["epochs"], 4);
    let document = document(&sandbox, "run");
    assert_eq!(document["format"], "veridical-run/1");
    assert_eq!((&document["method"], &document["seed"]), (&"bpr".into(), &7.into()));
    assert_eq!(document["settings"]["lr"], 0.05, "defaults are written down");
    assert_eq!(document["split"]["rule"], "leave-last-one");
    let rows = &document["split"]["rows"];
    assert_eq!((&rows["validation"], &rows["test"]), (&60.into(), &60.into()));
    assert!(document["data"]["fingerprint"].as_str().unwrap().starts_with("content:"));
    let folder = sandbox.path("").display().to_string();
    for file in ["run.json", "metrics.jsonl"] {
        assert!(!sandbox.text(&format!("run/{file}")).contains(folder.trim_end_matches('/')));
    }
    assert!(sandbox.text("run/log.jsonl").contains("r.csv"), "paths are in the log");
    let metrics = sandbox.text("run/metrics.jsonl");
    let last: Value = serde_json::from_str(metrics.lines().last().unwrap()).unwrap();
    assert_eq!((metrics.lines().count(), &last["epoch"]), (4, &4.into()));
    assert!(last["loss"].is_f64() && last["validation"]["ndcg@10"].is_f64(), "{last}");
    let items = sandbox.table("run/vectors/item.parquet");
    assert_eq!((items.dim, items.n_rows(), items.ids.get(0).as_str()), (6, 40, "100"));
    assert_eq!(sandbox.table("run").vectors, items.vectors, "a run is a vector table");
}

#[test]
fn the_runs_of_an_ensemble_are_those_of_single_seeds() {
    let sandbox = sandbox();
    let flags = "train item2vec --interactions r.csv --dim 6 --epochs 2 --quiet";
    sandbox.ok(&format!("{flags} --seeds 3 --seed 5 --threads 2 --out all"));
    for seed in 5..8 {
        sandbox.ok(&format!("{flags} --seed {seed} --out one"));
        let same = run_files(&sandbox, &format!("all/seed-{seed}")) == run_files(&sandbox, "one");
        assert!(same, "seed {seed}");
        sandbox.remove("one");
    }
    // As a kill would leave it after two seeds.
    let want = run_files(&sandbox, "all");
    std::fs::rename(sandbox.path("all"), sandbox.path("all.partial")).unwrap();
    sandbox.remove("all.partial/seed-7");
    sandbox.refuses_like(
        "train item2vec --interactions r.csv --dim 6 --epochs 2 --seeds 2 --seed 5 --out all --resume",
        |error| assert!(error.starts_with("all.partial: the unfinished ensemble has "), "{error}"),
    );
    sandbox.ok(&format!("{flags} --seeds 3 --seed 5 --out all --resume"));
    assert!(run_files(&sandbox, "all") == want && !sandbox.has("all.partial"));
    sandbox.ok("train als --interactions r.csv --dim 4 --epochs 2 --seeds 2 --out als --quiet");
    assert!(sandbox.has("als/seed-0/run.json") && sandbox.has("als/seed-1/run.json"));
    sandbox.refuses(
        "vectors stats all",
        "all is an ensemble; name one of its seeds, such as all/seed-5",
    );
    sandbox.refuses(
        "train item2vec --interactions r.csv --seeds 2 --out all",
        "all already exists; choose another name or replace it with --force",
    );
    sandbox.ok(&format!("{flags} --seeds 1 --out all --force"));
    assert!(!sandbox.has("all/seed-5") && sandbox.has("all/seed-0"));
}

#[test]
fn a_run_replays_from_its_document_and_from_a_file_of_settings() {
    let sandbox = sandbox();
    let flags =
        "--interactions r.csv --split random:0.2 --min-rating 2 --dim 5 --epochs 2 --sse-item 0.1";
    sandbox.ok(&format!("train bpr {flags} --seed 0 --out a --quiet"));
    sandbox.ok(&format!("train bpr {flags} --seed 3 --lr 0.1 --out want --quiet"));
    sandbox.ok("train bpr --from a/run.json --seed 3 --lr 0.1 --out b --quiet");
    assert!(run_files(&sandbox, "want") == run_files(&sandbox, "b"));
    sandbox.ok("train --from a --out c --quiet");
    assert!(run_files(&sandbox, "a") == run_files(&sandbox, "c"));
    sandbox.put(
        "c.toml",
        "interactions = \"r.csv\"\nsplit = \"random:0.2\"\nmin-rating = 2.0\ndim = 5\nepochs = 2\n\
         sse-item = 0.1\nseed = 3\nlr = 0.7\n",
    );
    sandbox.ok("train bpr --config c.toml --lr 0.1 --out d --quiet");
    assert!(run_files(&sandbox, "want") == run_files(&sandbox, "d"));
    sandbox.refuses(
        "train mf --from a --out e",
        "a is a run of bpr, and its settings do not apply to mf",
    );
    sandbox.put("bad.toml", "windw = 3\n");
    sandbox.refuses(
        "train bpr --interactions r.csv --config bad.toml --out e",
        "bad.toml: `bpr` has no setting `windw`",
    );
}

/// Without learning rate decay, the best epoch of a long run is the last of one that ends there.
#[test]
fn early_stopping_keeps_the_best_model() {
    let sandbox = sandbox();
    let flags = "train mf --interactions r.csv --validation 0.2 --dim 8 --lr 0.2 --weight-decay 0 \
                 --schedule constant --seed 1 --quiet";
    sandbox.ok(&format!("{flags} --epochs 60 --patience 4 --out long"));
    let long = document(&sandbox, "long");
    let (best, epochs) = (&long["results"]["best"]["epoch"], &long["results"]["epochs"]);
    assert_eq!(long["results"]["measure"], "rmse");
    assert_eq!(epochs.as_u64().unwrap(), best.as_u64().unwrap() + 4, "it stops after the patience");
    sandbox.ok(&format!("{flags} --epochs {best} --out short"));
    for file in ["vectors/item.parquet", "vectors/user.parquet", "model.safetensors"] {
        let bytes = |run: &str| sandbox.bytes(&format!("{run}/{file}"));
        assert!(bytes("long") == bytes("short"), "{file}");
    }
}

/// An interrupted training that is ended is the run that ends at its best epoch so far.
#[test]
fn an_unfinished_run_is_ended_and_kept() {
    let sandbox = sandbox();
    let flags = "train mf --interactions r.csv --validation 0.2 --dim 8 --lr 0.2 --weight-decay 0 \
                 --schedule constant --seed 1 --quiet";
    let line = format!("{flags} --epochs 10000000 --out run");
    let mut job = sandbox.command(line.split_whitespace()).stderr(Stdio::null()).spawn().unwrap();
    for _ in 0..60_000 {
        if sandbox.has("run.partial/checkpoint/state.json") {
            break;
        }
        sleep(Duration::from_millis(1));
    }
    assert!(Command::new("kill").args(["-INT", &job.id().to_string()]).status().unwrap().success());
    assert_eq!(job.wait().unwrap().code(), Some(130));
    sandbox.refuses(
        "train --finish run.partial --seed 2",
        "--finish ends a training as it was started and does not take --seed; leave --seed out",
    );
    sandbox.ok("train --finish run.partial --quiet");
    assert!(!sandbox.has("run.partial"));
    let results = document(&sandbox, "run")["results"].clone();
    let [best, epochs] =
        [&results["best"]["epoch"], &results["epochs"]].map(|n| n.as_u64().unwrap());
    assert!(best <= epochs && epochs < 10_000_000, "{results}");
    sandbox.ok(&format!("{flags} --epochs {best} --out short"));
    for file in ["vectors/item.parquet", "model.safetensors"] {
        let bytes = |run: &str| sandbox.bytes(&format!("{run}/{file}"));
        assert!(bytes("run") == bytes("short"), "{file}");
    }
    sandbox.ok("recommend --run run --k 3 --out recs.csv --quiet");
}

#[test]
fn only_an_unfinished_run_with_a_checkpoint_is_ended() {
    let sandbox = sandbox();
    let of_no_run =
        "is not an unfinished run; pass the folder RUN.partial that a training has left";
    sandbox.refuses("train --finish r.csv", &format!("r.csv {of_no_run}"));
    sandbox.ok("train bpr --interactions r.csv --dim 4 --epochs 1 --out run --quiet");
    sandbox.refuses("train --finish run", &format!("run {of_no_run}"));
    sandbox.refuses("train --finish none.partial", &format!("none.partial {of_no_run}"));
    sandbox.put("a.partial/notes.txt", "").put("b.partial/run.json", "{}");
    sandbox.put("c.partial/seed-0.partial/run.json", "{}");
    sandbox.refuses(
        "train --finish a.partial",
        "a.partial is not an unfinished run: it has no run.json; train it again",
    );
    sandbox.refuses(
        "train --finish b.partial",
        "b.partial has no checkpoint yet; go on with --resume",
    );
    sandbox.refuses(
        "train --finish c.partial",
        "c.partial holds runs of several seeds; finish c.partial/seed-0.partial, then go on with --resume",
    );
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| -> f64 {
        a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    };
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

fn row<'a>(table: &'a VectorTable, id: &str) -> &'a [f32] {
    table.row((0..table.n_rows()).find(|&r| table.ids.get(r) == id).unwrap())
}

/// A day later some items are new and some are gone; those that stay keep their directions under a small
/// learning rate, while a cold start has no direction in common (a cosine of 32 values is below 0.9 by more than
/// five standard errors of 1/sqrt(32)).
#[test]
fn a_warm_start_keeps_shared_ids_close() {
    let sandbox = sandbox();
    let text = sandbox.text("r.csv");
    let item = |line: &str| line.split(',').nth(1).unwrap().parse::<u64>().unwrap_or(0);
    let without = |gone: u64| -> String {
        text.lines().filter(|line| item(line) != gone).map(|line| format!("{line}\n")).collect()
    };
    sandbox.put("monday.csv", without(139)).put("tuesday.csv", without(100));
    let flags = "train item2vec --dim 32";
    sandbox.ok(&format!("{flags} --interactions monday.csv --epochs 20 --out monday --quiet"));
    let line = format!("{flags} --interactions tuesday.csv --epochs 2 --lr 0.001 --seed 9 --out");
    let outcome = sandbox.run(&format!("{line} tuesday --init monday"));
    assert!(
        outcome.stderr.contains("warm start of item: 38 rows kept, 1 new, 1 dropped"),
        "{outcome:?}"
    );
    sandbox.ok(&format!("{line} cold --quiet"));
    sandbox.ok(&format!("{line} table --init monday/vectors/item.parquet --quiet"));
    let [monday, tuesday, cold, table] =
        ["monday", "tuesday", "cold", "table"].map(|run| sandbox.table(run));
    for id in (101..139).map(|id| id.to_string()) {
        let to = |other: &VectorTable| cosine(row(&monday, &id), row(other, &id));
        assert!(to(&tuesday) > 0.98, "{id}: {}", to(&tuesday));
        assert!(to(&table) > 0.98, "{id}: {}", to(&table));
        assert!(to(&cold) < 0.9, "{id}: {}", to(&cold));
    }
    assert!(row(&tuesday, "139").iter().all(|x| x.is_finite()));
    sandbox.refuses(
        "train item2vec --interactions tuesday.csv --dim 8 --init monday --out x",
        "--init: table `item` has embedding dimension 32 but --dim is 8; train with --dim 32",
    );
}

/// Interrupts `line` after some epochs, or kills it, and continues it. A machine that finishes before the
/// signal gets more work.
fn stop_and_resume(sandbox: &Sandbox, line: &str, mut epochs: u32, signal: &str) {
    for _ in 0..5 {
        let line = format!("{line} --epochs {epochs}");
        if is_stopped_and_resumed(sandbox, &line, signal) {
            return;
        }
        epochs *= 4;
    }
    panic!("{line} is always over before the signal comes");
}

fn is_stopped_and_resumed(sandbox: &Sandbox, line: &str, signal: &str) -> bool {
    let mut command = sandbox.command(format!("{line} --out run --quiet").split_whitespace());
    let mut job = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    for _ in 0..60_000 {
        if sandbox.has("run.partial/checkpoint/state.json") || sandbox.has("run") {
            break;
        }
        sleep(Duration::from_millis(1));
    }
    let id = job.id().to_string();
    assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    let status = job.wait().unwrap();
    if sandbox.has("run") {
        sandbox.remove("run");
        return false;
    }
    sandbox.ok(&format!("{line} --out whole --quiet"));
    if signal == "-INT" {
        assert_eq!(status.code(), Some(130), "{line}");
        sandbox.refuses(
            &format!("{line} --seed 8 --out run --resume"),
            "run.partial: this is not the run that was started: seed was 0 and is now 8; start over with --force",
        );
        sandbox.refuses(
            &format!("{line} --out run"),
            "run.partial holds an unfinished run; continue it with --resume or start over with --force",
        );
    }
    sandbox.ok(&format!("{line} --out run --resume --quiet"));
    assert!(run_files(sandbox, "whole") == run_files(sandbox, "run"), "{line} {signal}");
    sandbox.ok(&format!("{line} --out run --resume --quiet")); // finished: nothing to do
    sandbox.remove("whole");
    sandbox.remove("run");
    true
}

#[test]
fn an_interrupted_run_comes_out_the_same() {
    let sandbox = Sandbox::new();
    sandbox.put_shop("r.csv", 300, 100, 30).put_documents("d.csv", 200);
    for (line, epochs) in [
        ("train mf --interactions r.csv --dim 16 --validation 0.1 --patience 9999", 2000),
        ("train bpr --interactions r.csv --dim 16 --sse 0.01", 100),
        ("train item2vec --interactions r.csv --dim 16 --window 3", 30),
        ("train doc2vec --text d.csv --column text --min-count 1 --dim 16", 150),
        ("train als --interactions r.csv --dim 16", 400),
        (
            "train sasrec --interactions r.csv --dim 8 --length 20 --blocks 1 --sse 0.1 --validation 0",
            20,
        ),
        ("train two-tower --interactions r.csv --hidden 8 --settle 0 --validation 0", 20),
    ] {
        stop_and_resume(&sandbox, line, epochs, "-INT");
    }
    stop_and_resume(&sandbox, "train bpr --interactions r.csv --dim 16", 100, "-KILL");
}
