//! Explanations, wrong labels and forensics: planted faults are found, clean data is not accused, outputs are the same for any
//! number of threads.

#![cfg(unix)]

use std::collections::BTreeSet;

use serde_json::Value;
use veridical_core::Seed;
use veridical_data::generate;
use veridical_io::examples::write_idx;

use crate::common::*;

/// `idx`: 240 images of 10 x 10 in three classes for training, 90 for testing.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    let all = generate::images(330, 10, 1, 3, Seed::new(2).unwrap());
    let part = |from: usize, to: usize| all.subset(&(from..to).collect::<Vec<_>>());
    write_idx(&sandbox.path("idx"), Some(&part(0, 240)), Some(&part(240, 330))).unwrap();
    sandbox
}

const TRAIN: &str = "train net --model mlp:24 --epochs 15 --lr 0.005";

/// The column `row` of a list.
fn rows(sandbox: &Sandbox, name: &str) -> BTreeSet<usize> {
    let text = sandbox.text(name);
    text.lines().skip(1).map(|line| line.split(',').next().unwrap().parse().unwrap()).collect()
}

#[test]
fn decisions_are_explained_by_rows_of_their_class() {
    let sandbox = sandbox();
    sandbox.ok(&format!("{TRAIN} --data idx --out run"));
    let line = "explain --run run --top 5 --out a.csv --html why.html";
    let found = json(&sandbox, "explain", line);
    let explained = found["explained"].as_array().unwrap();
    assert_eq!(explained.len(), 90);
    let same = |e: &&Value| e["supporting"][0]["label"] == e["class"];
    // Removal of the strongest supporting row of another class would be a fault of signs.
    assert!(explained.iter().filter(same).count() > 80);
    assert!(found["agreement"]["value"].as_f64().unwrap() > 0.8);
    assert_eq!(
        sandbox.text("a.csv").lines().next().unwrap(),
        "query,row,effect,value,class,label,similarity,stable"
    );
    let page = sandbox.text("why.html");
    assert!(page.contains("data:image/png;base64,") && page.contains("Query "));
    sandbox.ok("explain --run run --top 5 --threads 1 --out b.csv");
    assert_eq!(sandbox.text("a.csv"), sandbox.text("b.csv"), "any number of threads");
    for effect in ["influence", "mass", "trak", "fisher", "similarity"] {
        let found =
            json(&sandbox, "explain", &format!("explain --run run --effect {effect} --rows 120"));
        let rows = found["rows"].as_str().unwrap();
        assert_eq!(rows, "120 of 240 training rows, stratified by class");
        let explained = found["explained"].as_array().unwrap();
        assert!(explained.iter().filter(same).count() > 60, "{effect}");
    }
}

#[test]
fn an_audit_names_a_kernel_and_its_limits_have_an_exit_code() {
    let sandbox = sandbox();
    sandbox.ok(&format!("{TRAIN} --data idx --out run"));
    let found = json(
        &sandbox,
        "explain-audit",
        "explain audit --run run --kernels trntk,ck --html audit.html",
    );
    let audited = found["audited"].as_array().unwrap();
    assert_eq!(audited.len(), 4);
    let agreement = |of: &Value| of["faithfulness"]["agreement"]["value"].as_f64().unwrap();
    assert!(audited.iter().all(|of| agreement(of) > 0.7));
    assert!(["trntk", "ck"].contains(&found["recommendation"]["kernel"].as_str().unwrap()));
    let outcome = sandbox.run("explain audit --run run --kernels ck --min-tau 0.999 --max-tad 50");
    assert_eq!(outcome.code, Some(1));
    assert!(outcome.stderr.contains("tau of ck is"), "{}", outcome.stderr);
    assert_eq!(sandbox.run("explain audit --run run --kernels ck --min-tau -1").code, Some(0));
}

#[test]
fn flipped_labels_head_the_list() {
    let sandbox = sandbox();
    sandbox.ok("data poison --data idx --flip 0.1 --out flipped");
    sandbox.ok(&format!("{TRAIN} --data flipped --out run"));
    let found = json(
        &sandbox,
        "explain-labels",
        "explain labels --run run --out suspects.csv --html labels.html",
    );
    let planted = rows(&sandbox, "flipped/planted.csv");
    assert_eq!(planted.len(), 24);
    let listed: Vec<usize> = found["suspects"]
        .as_array()
        .unwrap()
        .iter()
        .take(24)
        .map(|suspect| suspect["row"].as_u64().unwrap() as usize)
        .collect();
    // Of 24 rows drawn at random 2.4 would be flipped.
    assert!(listed.iter().filter(|row| planted.contains(row)).count() >= 16, "{listed:?}");
    assert_eq!(found["calibration"]["planted"], 5);
    assert_eq!(sandbox.run("explain labels --run run --max-label-errors 0.001").code, Some(1));
}

#[test]
fn poison_is_traced_and_removing_it_ends_the_attack() {
    let sandbox = sandbox();
    sandbox.ok("data poison --data idx --patch 3x3@7,7 --fraction 0.1 --target 1 --out poisoned");
    sandbox.ok(&format!("{TRAIN} --data poisoned --out run"));
    let line = "forensics trace --run run --incidents poisoned/triggered --out remove.csv --html trace.html";
    let found = json(&sandbox, "forensics-trace", line);
    assert_eq!(found["class"], "1");
    let (planted, traced) = (rows(&sandbox, "poisoned/planted.csv"), rows(&sandbox, "remove.csv"));
    let hits = planted.intersection(&traced).count();
    assert!(
        hits >= 22 && traced.len() <= 26,
        "{hits} of {} planted, {} traced",
        planted.len(),
        traced.len()
    );
    sandbox.ok("train net --from run --exclude-rows remove.csv --out cleaned");
    let excluded = &document(&sandbox, "cleaned")["split"]["excluded"]["rows"];
    assert_eq!(excluded.as_u64(), Some(traced.len() as u64));
    let accuracy = |run: &str| {
        let found = json(
            &sandbox,
            "evaluate-net",
            &format!("evaluate --run {run} --data poisoned/triggered"),
        );
        found["models"][0]["accuracy"]["value"].as_f64().unwrap()
    };
    let (before, after) = (accuracy("run"), accuracy("cleaned"));
    assert!(before < 0.3 && after > 0.7, "{before} {after}");
}

#[test]
fn clean_decisions_accuse_nobody() {
    let sandbox = sandbox();
    sandbox.ok(&format!("{TRAIN} --data idx --out run"));
    // Incidents that are none: every test image of class 0.
    let all = generate::images(330, 10, 1, 3, Seed::new(2).unwrap());
    let own: Vec<usize> = (240..330).filter(|i| i % 3 == 0).collect();
    write_idx(&sandbox.path("fine"), None, Some(&all.subset(&own))).unwrap();
    let found = json(
        &sandbox,
        "forensics-trace",
        "forensics trace --run run --incidents fine --out none.csv",
    );
    assert_eq!(found["group"].as_array().unwrap().len(), 0);
    assert_eq!(sandbox.text("none.csv"), "row,label,score,low,high\n");
}

fn document(sandbox: &Sandbox, run: &str) -> Value {
    serde_json::from_str(&sandbox.text(&format!("{run}/run.json"))).unwrap()
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let sandbox = sandbox();
    sandbox.ok("train net --model mlp:24 --data idx --epochs 1 --out run");
    sandbox.refuses_like("explain --run idx", |e| assert!(e.contains("train net"), "{e}"));
    sandbox.refuses_like("explain --run run --rows none", |e| assert!(e.contains("`all`"), "{e}"));
    sandbox.refuses_like("explain --run run --layers conv*", |e| {
        assert!(e.contains("matches no layer"), "{e}");
    });
    sandbox.refuses_like("explain --run run --class 7", |e| {
        assert!(e.contains("one of 0, 1, 2"), "{e}")
    });
    sandbox.refuses_like("explain --run run --min-stable-top10 0.5", |e| {
        assert!(e.contains("ensemble"), "{e}");
    });
    sandbox.ok("data poison --data idx --flip 0.2 --out other");
    sandbox.refuses_like("explain --run run --data other", |e| {
        assert!(e.contains("are not those of"), "{e}");
    });
    sandbox.refuses_like("explain audit --run run --kernels nngp", |e| {
        assert!(e.contains("trntk0"), "{e}")
    });
    sandbox.refuses_like("forensics trace --run run --incidents nowhere", |e| {
        assert!(e.contains("nowhere"), "{e}");
    });
    sandbox.refuses_like("data poison --data idx --patch 3x3@9,9 --target 0 --out p", |e| {
        assert!(e.contains("inside images of 10 x 10"), "{e}");
    });
    sandbox.refuses_like("data poison --data idx --patch 3x3@1,1 --target cat --out p", |e| {
        assert!(e.contains("one of 0, 1, 2"), "{e}");
    });
    sandbox
        .refuses_like("data poison --data idx --out p", |e| assert!(e.contains("--patch"), "{e}"));
    assert!(!sandbox.has("p"));
    sandbox.put("rows.csv", "row\n5\n999\n");
    sandbox.refuses_like("train net --from run --exclude-rows rows.csv --out c", |e| {
        assert!(e.contains("no row of the training data"), "{e}");
    });
}
