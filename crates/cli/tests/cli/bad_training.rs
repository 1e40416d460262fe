//! Bad data and bad settings of training: one message that names the place, exit code 2, nothing written.

use crate::common::*;

const TRAIN: &str = "train bpr --epochs 2 --dim 4 --out run --interactions";

/// `line` must fail with a message that contains all of `parts`.
#[track_caller]
fn refuses_with(sandbox: &Sandbox, line: &str, parts: &[&str]) {
    sandbox.refuses_like(line, |error| {
        for part in parts {
            assert!(error.contains(part), "{line}\n{error}\nhas no {part:?}");
        }
    });
}

#[test]
fn interactions_that_cannot_be_read_are_named_with_their_place() {
    let sandbox = Sandbox::new();
    let head = "user,item,rating,timestamp\n";
    let good = "1,10,3,100\n1,11,4,101\n2,10,5,102\n";
    let cases: [(&str, String, &[&str]); 9] = [
        ("rating.csv", format!("{head}{good}2,11,great,103\n"), &["line 5", "great"]),
        ("nan.csv", format!("{head}{good}2,11,NaN,103\n"), &["line 5", "NaN"]),
        ("negative.csv", format!("{head}{good}2,11,-1,103\n"), &["line 5", "-1"]),
        ("time.csv", format!("{head}{good}2,11,3,noon\n"), &["line 5", "noon"]),
        ("ragged.csv", format!("{head}{good}2,11\n"), &["line 5"]),
        ("collide.csv", "user,item\na,x\n a,y\nb,x\n".into(), &["line 3", "a"]),
        ("empty.csv", String::new(), &["empty"]),
        ("header.csv", head.into(), &["empty"]),
        ("columns.csv", "who,what\n1,2\n".into(), &["--columns"]),
    ];
    for (name, text, parts) in cases {
        sandbox.put(name, text);
        let parts: Vec<&str> = [name].iter().chain(parts).copied().collect();
        refuses_with(&sandbox, &format!("{TRAIN} {name}"), &parts);
    }
    sandbox.put("good.csv", format!("{head}{good}"));
    refuses_with(&sandbox, &format!("{TRAIN} good.csv --columns user=uid"), &["good.csv", "uid"]);
    refuses_with(&sandbox, &format!("{TRAIN} good.csv --columns uid"), &["--columns", "uid"]);
    refuses_with(&sandbox, &format!("{TRAIN} missing.csv"), &["missing.csv: cannot "]);
    refuses_with(&sandbox, &format!("{TRAIN} good.csv --min-rating 9"), &["good.csv"]);
}

#[test]
fn settings_out_of_range_are_named_as_they_were_typed() {
    let sandbox = Sandbox::new();
    sandbox.put_shop("r.csv", 30, 20, 6);
    let cases: [(&str, &str); 16] = [
        ("bpr --dim 0", "--dim must be"),
        ("bpr --dim many", "--dim must be a whole number, got many"),
        ("bpr --dim -3", "--dim must be a whole number, got -3"),
        ("bpr --epochs 0", "--epochs must be"),
        ("bpr --sse-item 1.5", "--sse-item must be"),
        ("bpr --sse-user -0.1", "--sse-user must be"),
        ("bpr --sse 2", "--sse-"),
        ("bpr --rho-item -1 --sse-item 0.1", "--rho-item must be"),
        ("bpr --lr nan", "--lr must be a number, got nan"),
        ("bpr --negatives 20", "--negatives must be"),
        ("item2vec --negatives 20", "--negatives must be"),
        ("item2vec --window 0", "--window must be"),
        ("mf --dropout 1", "--dropout must be"),
        ("mf --weight-decay -1", "--weight-decay must be"),
        ("als --cg-steps 0", "--cg-steps must be"),
        ("bpr --mode fast", "--mode"),
    ];
    for (flags, part) in cases {
        let (method, flags) = flags.split_once(' ').unwrap();
        let line = format!("train {method} --interactions r.csv --out run {flags}");
        refuses_with(&sandbox, &line, &[part]);
    }
    let line = "train bpr --interactions r.csv --out run";
    for (flags, message) in [
        (
            "--seed 9007199254740992",
            "--seed must be an integer from 0 to 2^53 - 1, got 9007199254740992",
        ),
        ("--seeds 0", "--seeds must be at least 1, got 0"),
        ("--patience 2", "--patience needs validation rows; hold some out with --validation 0.1"),
        ("--validation 0.1 --eval-every 0", "--eval-every must be at least 1, got 0"),
        ("--validation 1", "--validation must be a share from 0 to below 1, got 1"),
        ("--text r.csv", "bpr is trained on --interactions and does not use --text"),
    ] {
        sandbox.refuses(&format!("{line} {flags}"), message);
    }
    for (line, message) in [
        ("train bpr --out run", "bpr needs interactions; pass them with --interactions FILE"),
        ("train doc2vec --out run", "doc2vec needs documents; pass them with --text FILE"),
        (
            "train doc2vec --text r.csv --split random:0.1 --out run",
            "doc2vec is trained on --text and does not use --split",
        ),
    ] {
        sandbox.refuses(line, message);
    }
    refuses_with(&sandbox, &format!("{line} --split half"), &["half", "per-user:"]);
}

#[test]
fn users_with_too_few_rows_are_counted_and_dropped_only_when_asked() {
    let sandbox = Sandbox::new();
    let text = "user,item,timestamp\n1,10,1\n1,11,2\n1,12,3\n2,10,1\n2,12,2\n2,11,5\n3,10,1\n";
    sandbox.put("r.csv", text);
    let line = "train bpr --interactions r.csv --dim 2 --epochs 1 --split per-user:2 --out run";
    refuses_with(
        &sandbox,
        line,
        &["--split per-user:2 needs 3 rows", "1 user", "--short-users drop"],
    );
    let outcome = sandbox.run(&format!("{line} --short-users drop"));
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.stderr.contains("1 user with fewer than 3 rows left out"), "{outcome:?}");
}

#[test]
fn graphs_of_other_ids_are_refused() {
    let sandbox = Sandbox::new();
    sandbox.put_shop("r.csv", 30, 20, 6);
    let line = "train bpr --interactions r.csv --dim 2 --epochs 1 --sse-item 0.1 --out run";
    sandbox.put("other.csv", "source,target\n1,2\n2,3\n");
    refuses_with(&sandbox, &format!("{line} --sse-graph-item other.csv"), &["other.csv"]);
    sandbox.put("weights.csv", "source,target,weight\n100,101,1\n101,102,-2\n");
    refuses_with(
        &sandbox,
        &format!("{line} --sse-graph-item weights.csv"),
        &["weights.csv", "line 3", "-2"],
    );
    sandbox.put("labels.csv", "id,genre\n1,a\n2,a\n");
    refuses_with(&sandbox, &format!("{line} --sse-groups-item labels.csv"), &["labels.csv"]);
    sandbox.put("edges.csv", "source,target\n100,101\n100,999\n");
    let outcome = sandbox.run(&format!("{line} --sse-graph-item edges.csv"));
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.stderr.contains("999"), "unknown ids are counted: {}", outcome.stderr);
    sandbox.remove("run");
    sandbox.refuses(
        &format!("{line} --sse-graph-item edges.csv --sse-groups-item labels.csv"),
        "pass either --sse-graph-item or --sse-groups-item, not both",
    );
    sandbox.refuses(
        &format!("{line} --sse-graph-word edges.csv"),
        "--sse-graph-word: this method has no word table",
    );
}

#[test]
fn a_diverging_run_stops_with_epoch_rate_and_hint() {
    let sandbox = Sandbox::new();
    sandbox.put_shop("r.csv", 60, 40, 12);
    let line =
        "train mf --interactions r.csv --dim 8 --lr 1e6 --epochs 20 --weight-decay 0 --out run";
    refuses_with(&sandbox, line, &["epoch ", "learning rate ", "diverged", "lower --lr"]);
    refuses_with(&sandbox, &format!("{line} --seeds 3"), &["diverged"]);
    assert!(!sandbox.has("run") && !sandbox.has("run.partial"));
    // In tuning, a diverging trial counts as bad and does not end the search.
    let tune = "tune mf --interactions r.csv --dim 8 --epochs 3 --weight-decay 0 --grid lr=1e6,0.05 --out t";
    let tuned = json(&sandbox, "tune", tune);
    assert_eq!(
        (&tuned["best"], &tuned["trials"][0]["value"]),
        (&1.into(), &serde_json::Value::Null)
    );
}

#[test]
fn damaged_runs_are_refused() {
    let sandbox = Sandbox::new();
    sandbox.put_shop("r.csv", 30, 20, 6);
    sandbox.ok(
        "train bpr --interactions r.csv --split random:0.2 --dim 2 --epochs 1 --out run --quiet",
    );
    let model = sandbox.bytes("run/model.safetensors");
    sandbox.put("run/model.safetensors", &model[..model.len() - 3]);
    refuses_with(&sandbox, "evaluate --run run", &["model.safetensors"]);
    sandbox.put("run/model.safetensors", &model);
    sandbox.put("run/run.json", "{}");
    refuses_with(&sandbox, "evaluate --run run", &["run.json", "veridical-run/1"]);
    sandbox.put("run/run.json", "{\"format\"");
    refuses_with(&sandbox, "evaluate --run run", &["run.json"]);
    refuses_with(
        &sandbox,
        "recommend --run nothing --out x.parquet",
        &["nothing is not a run folder"],
    );
    sandbox.refuses("train --out run", "pass a method, or an earlier run with --from RUN");
}
