//! `sasrec` and `two-tower` from the command line: runs, other verbs on them, equal bytes after a resume and for any
//! number of threads, and errors.

use crate::common::*;

const SASREC: &str = "train sasrec --interactions shop.csv --split leave-last-one --validation 0.1 --dim 8 --length 10 \
    --blocks 1 --batch 16 --lr 0.01";
const TOWERS: &str =
    "train two-tower --interactions shop.csv --split leave-last-one --hidden 6 --batch 16";

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.put_shop("shop.csv", 60, 30, 15);
    sandbox
}

fn run_files(sandbox: &Sandbox, name: &str) -> Files {
    let mut files = sandbox.below(name);
    files.retain(|path, _| path.file_name().is_none_or(|name| name != "log.jsonl"));
    files
}

#[test]
fn runs_are_evaluated_recommend_and_know_what_is_similar() {
    let sandbox = sandbox();
    let losses = ["bce", "gbce", "ce", "sampled-softmax"];
    for loss in losses {
        let flags =
            format!("--loss {loss} --negatives 3 --epochs 2 --sse-input 0.1 --sse-target 0.1");
        let trained = json(&sandbox, "train", &format!("{SASREC} {flags} --out {loss}"));
        assert_eq!(trained["runs"][0]["epochs"], 2);
        assert_eq!(trained["runs"][0]["tables"][0]["dim"], 8);
    }
    let notes = sandbox.run(&format!("{SASREC} --epochs 1 --out noted")).stderr;
    assert!(notes.contains("longer than --length 10"), "{notes}");
    json(&sandbox, "train", &format!("{TOWERS} --epochs 2 --item-vectors bce --out towers"));
    for run in losses.into_iter().chain(["towers"]) {
        let evaluated = json(&sandbox, "evaluate", &format!("evaluate --run {run}"));
        assert!(evaluated.to_string().contains("ndcg@10"), "{evaluated}");
        let line = format!("recommend --run {run} --k 3 --out {run}.parquet");
        assert_eq!(json(&sandbox, "recommend", &line)["rows"], 180);
        json(&sandbox, "similar", &format!("similar --run {run} --id 103"));
    }
    // Every user with a history of known items gets recommendations.
    sandbox.put("new.csv", "user,item,timestamp\nnew,103,1\nnew,105,2\nodd,77,1\n");
    let line = "recommend --run ce --interactions new.csv --k 2 --out new.parquet";
    let lists = json(&sandbox, "recommend", line);
    assert_eq!((&lists["users"], &lists["rows"]), (&1.into(), &2.into()), "{lists}");
    let tuned = "tune sasrec --interactions shop.csv --split leave-last-one --validation 0.1 --dim 8 --length 12 --blocks 1 \
        --epochs 1 --grid sse-input=0,0.1 --out tuned";
    json(&sandbox, "tune", tuned);
}

#[test]
fn the_same_bytes_for_any_threads_and_after_a_resume() {
    let sandbox = sandbox();
    for train in [SASREC, TOWERS] {
        let name = |part: &str| format!("{}-{part}", &train[6..12]);
        let line = |flags: &str, out: &str| format!("{train} {flags} --out {}", name(out));
        sandbox.ok(&line("--epochs 3 --threads 1", "one"));
        let want = run_files(&sandbox, &name("one"));
        for threads in ["2", "3"] {
            sandbox.ok(&line(&format!("--epochs 3 --threads {threads}"), threads));
            assert!(run_files(&sandbox, &name(threads)) == want, "{threads} threads");
        }
        let seeds = format!("{train} --epochs 3 --seed 0 --seeds 2 --out {}", name("seeds"));
        sandbox.ok(&seeds);
        assert!(run_files(&sandbox, &format!("{}/seed-0", name("seeds"))) == want);
    }
}

/// Without a word, `sasrec` compares all items, holds validation rows out and stops early; the run says so, and repeats itself.
#[test]
fn the_defaults_are_recorded_as_they_were_resolved() {
    let sandbox = sandbox();
    let small = "--dim 8 --length 10 --blocks 1 --epochs 2";
    let line = format!("train sasrec --interactions shop.csv {small}");
    let outcome = sandbox.run(&format!("{line} --split leave-last-one --out run"));
    let note = "validation: 60 of 840 training rows, of 60 users: the last row but one of each";
    assert!(outcome.stderr.contains(note), "{outcome:?}");
    let document = |run: &str| -> serde_json::Value {
        serde_json::from_str(&sandbox.text(&format!("{run}/run.json"))).unwrap()
    };
    let run = document("run");
    assert_eq!(run["settings"]["loss"], "ce");
    assert_eq!(
        (&run["split"]["validation"], &run["options"]["patience"]),
        (&0.1.into(), &5.into())
    );
    assert_eq!(run["results"]["measure"], "ndcg@10");
    sandbox.ok("train --from run --out again --quiet");
    assert!(run_files(&sandbox, "run") == run_files(&sandbox, "again"));
    // Nothing held out for a test: validation rows are still drawn from the training rows.
    let outcome = sandbox.run(&format!("{line} --out all"));
    assert!(outcome.stderr.contains("validation: 90 of 900 training rows"), "{outcome:?}");
    // What is published, in one flag.
    sandbox.ok(&format!("{line} --preset sasrec-2018 --out published --quiet"));
    let published = document("published");
    let of = |name: &str| published["settings"][name].clone();
    let named = serde_json::json!([of("loss"), of("negatives"), of("dim")]);
    assert_eq!(named, serde_json::json!(["bce", 1, 8]));
    assert_eq!(of("dropout"), 0.2);
    assert_eq!(published["split"]["validation"], 0.0);
    assert!(published["results"]["best"].is_null());
    sandbox.ok("train --from published --out published-again --quiet");
    assert!(run_files(&sandbox, "published") == run_files(&sandbox, "published-again"));
}

#[test]
fn what_does_not_fit_is_refused() {
    let sandbox = sandbox();
    sandbox.put("few.csv", "user,item\n1,1\n2,2\n3,1\n");
    sandbox.put_table("others.parquet", &named_rows(5, 4));
    let refuses = |line: &str, part: &str| {
        sandbox.refuses_like(line, |error| assert!(error.contains(part), "{line}\n{error}"));
    };
    let sasrec =
        |flags: &str| format!("train sasrec --interactions shop.csv --dim 8 --out run {flags}");
    refuses(&sasrec("--heads 3"), "--heads must be a divisor of --dim 8, got 3");
    refuses(&sasrec("--negatives 0"), "--negatives must be at least 1");
    refuses(&sasrec("--length 0"), "--length must be at least 1, got 0");
    refuses(&sasrec("--loss mse"), "--loss");
    refuses(&sasrec("--sse-input 2"), "--sse-input must be from 0 to 1, got 2");
    refuses(&sasrec("--lr 1e30"), "training diverged");
    refuses(
        "train sasrec --interactions shop.csv --out run --loss ce --dim 1000000000000",
        "--loss ce needs 558793.6 GiB of memory for 30 items of --dim 1000000000000, and there are",
    );
    refuses(&sasrec("--preset sasrec-2017"), "choose from sasrec-2018");
    refuses(&sasrec("--validation 0 --patience 3"), "--patience needs validation rows");
    refuses(&sasrec("--item-vectors others.parquet"), "does not use --item-vectors");
    refuses("train sasrec --interactions few.csv --out run", "no user has two or more items");
    let towers = |flags: &str| format!("train two-tower --interactions shop.csv --out run {flags}");
    refuses(&towers("--item-vectors others.parquet"), "has no id in common");
    refuses(&towers("--item-vectors missing.parquet"), "missing.parquet");
    refuses(&towers("--hidden 0"), "--hidden must be at least 1, got 0");
    refuses(&towers("--settle -1"), "--settle");
}
