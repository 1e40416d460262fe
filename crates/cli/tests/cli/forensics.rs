//! Forensics: incidents traced, suspects checked, classes ranked; clean data is not accused; training again confirms.

#![cfg(unix)]

use std::collections::BTreeSet;

use serde_json::Value;
use veridical_core::Seed;
use veridical_data::generate;
use veridical_io::examples::write_idx;

use crate::common::*;
use crate::explain::{TRAIN, rows, sandbox};

/// `poisoned`: a tenth of the images has a patch and the label 1, and `run` learned from it.
fn poisoned() -> Sandbox {
    let sandbox = sandbox();
    sandbox.ok("data poison --data idx --patch 3x3@7,7 --fraction 0.1 --target 1 --out poisoned");
    sandbox.ok(&format!("{TRAIN} --data poisoned --out run"));
    sandbox
}

fn document(sandbox: &Sandbox, run: &str) -> Value {
    serde_json::from_str(&sandbox.text(&format!("{run}/run.json"))).unwrap()
}

#[test]
fn poison_is_traced_and_removing_it_ends_the_attack() {
    let sandbox = poisoned();
    let line = "forensics trace --run run --incidents poisoned/triggered --out remove.csv --html trace.html";
    let found = json(&sandbox, "forensics-trace", line);
    assert_eq!(found["class"], "1");
    assert_eq!(found["needs_another_round"], true, "no training has confirmed it");
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
    // The list of a run that left rows out already has them too: it may be passed as it is.
    let some: BTreeSet<usize> = planted.iter().copied().take(8).collect();
    let lines: String = some.iter().map(|row| format!("{row}\n")).collect();
    sandbox.put("some.csv", format!("row\n{lines}"));
    sandbox.ok("train net --from run --exclude-rows some.csv --out partly");
    sandbox.ok("forensics trace --run partly --incidents poisoned/triggered --out all.csv");
    let again = rows(&sandbox, "all.csv");
    assert!(again.is_superset(&some) && again.intersection(&planted).count() >= 20, "{again:?}");
}

/// What `--retrain` measures is what the third command trains.
#[test]
fn three_commands_lead_from_poison_to_a_clean_network() {
    let sandbox = poisoned();
    let line = "forensics trace --run run --incidents poisoned/triggered --retrain --out remove.csv --html trace.html";
    let found = json(&sandbox, "forensics-trace", line);
    let states = found["states"].as_array().unwrap();
    let of = |state: &Value, what: &str| state[what]["value"].as_f64().unwrap();
    // Incidents that are left may be ordinary mistakes: what no training confirmed is not in the list.
    let confirmed = states.iter().rev().find(|state| state["confirms"] != false);
    let (first, last) = (&states[0], confirmed.unwrap());
    assert!(of(first, "success") > 0.7 && of(last, "success") < 0.3, "{states:?}");
    assert!(of(last, "accuracy") > of(first, "accuracy") - 0.05);
    assert_eq!(found["needs_another_round"], false);
    let listed = rows(&sandbox, "remove.csv");
    let planted = rows(&sandbox, "poisoned/planted.csv");
    assert_eq!(listed.len() as u64, last["removed"].as_u64().unwrap());
    assert!(listed.difference(&planted).count() <= 3, "{listed:?}");
    assert!(sandbox.text("trace.html").contains("Before and after removal"));
    sandbox.ok("train net --from run --exclude-rows remove.csv --out cleaned");
    let predicted =
        json(&sandbox, "predict", "predict --run cleaned --data poisoned/triggered --out p.csv");
    let counts = predicted["classes"].as_array().unwrap();
    let hits = counts.iter().find(|c| c[0] == "1").map_or(0, |c| c[1].as_u64().unwrap());
    let share = hits as f64 / predicted["rows"].as_u64().unwrap() as f64;
    assert!((share - of(last, "success")).abs() < 1e-9, "{counts:?}, {last}");
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
    assert_eq!(sandbox.text("none.csv"), "row,label,score,low,high,round\n");
}

#[test]
fn decisions_that_rest_on_suspects_are_flagged() {
    let sandbox = poisoned();
    let line = "forensics check --run run --suspects poisoned/planted.csv --queries poisoned/triggered --out votes.csv --html check.html";
    let found = json(&sandbox, "forensics-check", line);
    let share = |what: &str| found[what]["value"].as_f64().unwrap();
    assert!(found["p_value"].as_f64().unwrap() < 1e-6);
    assert!(share("precision") > 0.9 && share("recall") > 0.6, "{found}");
    assert_eq!(found["suspects_used"], 24);
    let page = sandbox.text("check.html");
    assert!(
        page.contains("data:image/png;base64,") && page.contains("wrong ones that are flagged")
    );
    assert_eq!(
        sandbox.text("votes.csv").lines().next().unwrap(),
        "query,predicted,label,votes,flagged"
    );
    // Clean decisions of the same network do not rest on them.
    let found = json(
        &sandbox,
        "forensics-check",
        "forensics check --run run --suspects poisoned/planted.csv",
    );
    assert!(found["p_value"].as_f64().unwrap() > 0.001, "{found}");
}

#[test]
fn a_scan_ranks_and_never_accuses() {
    let sandbox = poisoned();
    let found = json(
        &sandbox,
        "forensics-scan",
        "forensics scan --run run --out ranking.csv --html scan.html",
    );
    assert_eq!(found["verdict"], "no verdict without incidents or suspects");
    let classes = found["classes"].as_array().unwrap();
    let names: BTreeSet<&str> = classes.iter().map(|c| c["class"].as_str().unwrap()).collect();
    assert_eq!(names, BTreeSet::from(["0", "1", "2"]));
    let of = |i: usize| classes[i]["separation"].as_f64().unwrap();
    assert!(of(0) >= of(1) && of(1) >= of(2));
    assert_eq!(sandbox.text("ranking.csv").lines().count(), 241);
    let text = sandbox.ok("forensics scan --run run --rows 100");
    assert!(text.contains("no verdict without incidents or suspects"), "{text}");
    assert!(sandbox.text("scan.html").contains("Where to look first"));
}

#[test]
fn requests_of_forensics_that_make_no_sense_are_refused() {
    let sandbox = sandbox();
    sandbox.ok("train net --model mlp:24 --data idx --epochs 6 --lr 0.005 --out run");
    sandbox.refuses_like("forensics trace --run run --incidents nowhere", |e| {
        assert!(e.contains("nowhere"), "{e}");
    });
    let all = generate::images(330, 10, 1, 3, Seed::new(2).unwrap());
    let mixed = all.subset(&(240..330).collect::<Vec<_>>());
    write_idx(&sandbox.path("mixed"), None, Some(&mixed)).unwrap();
    sandbox.refuses_like("forensics trace --run run --incidents mixed", |e| {
        assert!(e.starts_with("the incidents are predicted as several classes: 0 ("), "{e}");
        assert!(e.ends_with("name the one they were wrongly put into with --class"), "{e}");
    });
    let own: Vec<usize> = (0..30).filter(|i| i % 3 == 0).collect();
    write_idx(&sandbox.path("known"), None, Some(&all.subset(&own))).unwrap();
    sandbox.refuses(
        "forensics trace --run run --incidents known --class 0 --out r.csv",
        "incident 0 is a training row; pass inputs that the network did not learn",
    );
    sandbox.refuses_like("forensics trace --run run --incidents mixed --class 7", |e| {
        assert!(e.contains("one of 0, 1, 2"), "{e}");
    });
    let suspects = |rows: &str, message: &str| {
        sandbox.put("rows.csv", rows);
        sandbox.refuses("forensics check --run run --suspects rows.csv --out v.csv", message);
    };
    suspects(
        "row\n5\n240\n",
        "rows.csv: entry 2: `240` is no row of the training data; there are rows 0 to 239",
    );
    suspects("row\n5\n5\n", "rows.csv: row 5 is twice among the suspects; list every row once");
    let every: String = (0..240).map(|row| format!("{row}\n")).collect();
    suspects(
        &format!("row\n{every}"),
        "rows.csv: all training rows that are used are suspects, so no decision can be told apart; list fewer rows",
    );
    sandbox.put("rows.csv", "row\n5\n6\n");
    sandbox.refuses(
        "forensics check --run run --suspects rows.csv --needed 6",
        "--needed must be at most --nearest 5, got 6",
    );
    sandbox.refuses(
        "forensics check --run run --suspects rows.csv --nearest 300",
        "--nearest must be at most the 240 training rows that are used, got 300",
    );
    sandbox.ok("train net --model mlp:24 --data idx --exclude-rows rows.csv --epochs 1 --out less");
    sandbox.refuses_like("forensics check --run less --suspects rows.csv", |e| {
        assert!(
            e.starts_with("rows.csv: none of the 2 suspects is among the 238 training rows"),
            "{e}"
        );
    });
    sandbox.refuses_like("forensics scan --run run --layers conv*", |e| {
        assert!(e.contains("matches no layer"), "{e}");
    });
}
