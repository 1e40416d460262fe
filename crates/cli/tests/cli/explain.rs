//! Explanations, audits, wrong labels and validation, of every kind of run: planted faults are found, outputs are the same for any
//! number of threads, nonsense is refused.

#![cfg(unix)]

use std::collections::BTreeSet;

use serde_json::Value;
use veridical_core::Seed;
use veridical_data::generate;
use veridical_io::examples::write_idx;

use crate::common::*;

/// `idx`: 240 images of 10 x 10 in three classes for training, 90 for testing.
pub fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    let all = generate::images(330, 10, 1, 3, Seed::new(2).unwrap());
    let part = |from: usize, to: usize| all.subset(&(from..to).collect::<Vec<_>>());
    write_idx(&sandbox.path("idx"), Some(&part(0, 240)), Some(&part(240, 330))).unwrap();
    sandbox
}

pub const TRAIN: &str = "train net --model mlp:24 --epochs 15 --lr 0.005";

/// The column `row` of a list.
pub fn rows(sandbox: &Sandbox, name: &str) -> BTreeSet<usize> {
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
fn limits_may_stand_in_a_file() {
    let sandbox = sandbox();
    sandbox.ok(&format!("{TRAIN} --data idx --out run"));
    sandbox.put("audit.toml", "min-tau = 0.999\nmax-label-errors = 0.9\n");
    let line = "explain audit --run run --kernels ck --budget audit.toml";
    let outcome = sandbox.run(line);
    assert_eq!(outcome.code, Some(1));
    assert!(outcome.stderr.contains("the limit is 0.999"), "{}", outcome.stderr);
    // A flag comes first.
    assert_eq!(sandbox.run(&format!("{line} --min-tau -1")).code, Some(0));
    assert_eq!(sandbox.run("explain labels --run run --budget audit.toml").code, Some(0));
    sandbox.put("audit.toml", "min-tua = 0.5\n");
    sandbox.refuses(
        line,
        "audit.toml: unknown limit `min-tua`; known are min-tau, min-agreement, max-tad, min-stable-top10, max-label-errors",
    );
}

/// Effects of kernel ridge must predict the trainings of a small dense network better than chance, and the outputs are kept.
#[test]
fn attributions_are_validated_by_training_again_and_outputs_are_kept() {
    let sandbox = sandbox();
    sandbox.ok("train net --model mlp:12 --data idx --epochs 10 --lr 0.005 --out run");
    let line = "explain validate --run run --effects removal,similarity --subsets 12 --most-queries 30 --curve-queries 2 --shares 0.05 --out kept";
    let found = json(&sandbox, "explain-validate", &format!("{line} --html v.html"));
    let score = |of: &Value, i: usize| of["validated"][i]["score"]["value"].as_f64().unwrap();
    assert!(score(&found, 0) > 0.1, "{found}");
    assert_eq!(found["networks"], 12 * 2 + 2 + 2 + 2 * 2);
    let page = sandbox.text("v.html");
    assert!(page.contains("Linear datamodeling score") && page.contains("Drop of the margin"));
    let files = sandbox.below("kept");
    let outputs = files.keys().filter(|path| path.extension().is_some_and(|e| e == "json"));
    assert_eq!(outputs.count(), 33, "manifest and outputs");
    // Another effect needs its own removals only, and a lost output is trained again to the same bytes.
    sandbox.remove("kept/half-3-seed-1.json");
    let again = json(&sandbox, "explain-validate", &format!("{line} --resume --threads 1"));
    assert_eq!(score(&again, 0), score(&found, 0));
    assert!(sandbox.holds("kept", &files));
    sandbox.refuses(line, "kept already exists; choose another name or replace it with --force");
    sandbox.refuses(
        &format!("{line} --seed 3 --resume"),
        "kept holds outputs with another --seed; start over with --force, or name another --out",
    );
    sandbox.refuses(
        &format!("{line} --rows 120 --resume"),
        "kept holds outputs of another network, or for other queries; start over with --force, or name another --out",
    );
    sandbox.refuses("explain validate --run run --resume", "--resume continues in --out; pass it");
}

#[test]
fn one_output_for_two_classes_is_explained_like_two() {
    let sandbox = Sandbox::new();
    let all = generate::images(200, 8, 1, 2, Seed::new(3).unwrap());
    let part = |from: usize, to: usize| all.subset(&(from..to).collect::<Vec<_>>());
    write_idx(&sandbox.path("idx"), Some(&part(0, 150)), Some(&part(150, 200))).unwrap();
    sandbox.ok("data poison --data idx --flip 0.1 --out flipped");
    sandbox.ok(&format!("{TRAIN} --data flipped --loss binary-cross-entropy --out run"));
    for effect in ["removal", "influence", "mass", "trak", "fisher", "similarity"] {
        let found = json(&sandbox, "explain", &format!("explain --run run --effect {effect}"));
        let explained = found["explained"].as_array().unwrap();
        let (mut same, mut all) = (0, 0);
        for one in explained {
            let rows = one["supporting"].as_array().unwrap();
            same += rows.iter().filter(|row| row["label"] == one["class"]).count();
            all += rows.len();
        }
        // Half of the rows by chance, 85 to 100 % with two outputs.
        assert!(same * 4 > all * 3, "{effect}: {same} of {all}");
    }
    let found = json(&sandbox, "explain-audit", "explain audit --run run --kernels trntk,pntk,ck");
    assert!(
        found["audited"][0]["faithfulness"]["tau"]["class_one"]["value"].as_f64().unwrap() > 0.5
    );
    sandbox.ok("explain labels --run run --out suspects.csv");
    let (planted, listed) = (rows(&sandbox, "flipped/planted.csv"), rows(&sandbox, "suspects.csv"));
    assert!(planted.intersection(&listed).count() >= 10, "{planted:?} {listed:?}");
    sandbox.ok("forensics scan --run run");
    sandbox.ok(
        "explain validate --run run --effects removal --subsets 3 --trainings 1 --curve-queries 0",
    );
}

#[test]
fn tables_and_predictions_of_numbers_are_explained() {
    let sandbox = Sandbox::new();
    let row = |i: usize| {
        let [a, b] = [(i * 37 % 101) as f64 / 50.0 - 1.0, (i * 53 % 89) as f64 / 44.0 - 1.0];
        format!("{a},{b},{},{}\n", 2.0 * a - b, if a > b { "up" } else { "down" })
    };
    let table: String = (0..160).map(row).collect();
    sandbox.put("t.csv", format!("a,b,y,class\n{table}"));
    sandbox.put("new.csv", "a,b\n0.5,-0.5\n-0.5,0.5\n");
    sandbox.ok("train net --model mlp:16 --data t.csv --target y --regression --ignore-columns class --epochs 40 --out number");
    for effect in ["removal", "mass", "similarity"] {
        let line =
            format!("explain --run number --queries new.csv --effect {effect} --html n.html");
        let found = json(&sandbox, "explain", &line);
        let explained = found["explained"].as_array().unwrap();
        assert_eq!(explained.len(), 2);
        assert!(explained[0]["probability"].is_null() && explained[0]["class"] == "prediction");
        assert!(found["correlation"]["value"].as_f64().unwrap() > 0.9, "{effect}");
    }
    assert!(sandbox.text("n.html").contains("a 0.5, b -0.5"));
    sandbox.refuses(
        "explain --run number --effect influence",
        "--effect influence is of classes, and number predicts a number; choose removal, mass or similarity",
    );
    for (verb, what) in [
        ("explain audit", "an audit"),
        ("explain labels", "a wrong label"),
        ("forensics scan", "a scan"),
        ("forensics trace --incidents new.csv", "a trace"),
    ] {
        sandbox.refuses(
            &format!("{verb} --run number"),
            &format!("number predicts a number, and {what} is about classes; use `explain` with --effect removal, mass or similarity"),
        );
    }
    sandbox.refuses(
        "explain --run number --class up",
        "--class up: the network predicts a number, not classes; leave --class out",
    );
    sandbox.ok("train net --model mlp:16 --data t.csv --target class --ignore-columns y --epochs 20 --out class");
    let found = json(&sandbox, "explain", "explain --run class --queries new.csv --html c.html");
    assert_eq!(found["explained"][0]["predicted"], "up");
    sandbox.ok("train net --model mlp:4 --data t.csv --target y,b --regression --ignore-columns class --epochs 1 --out two");
    sandbox.refuses(
        "explain --run two",
        "two predicts 2 numbers; explanations are of one; train a network for each target",
    );
}

#[test]
fn documents_are_explained_by_documents() {
    let sandbox = Sandbox::new();
    let words = [["good", "great", "fine", "lovely"], ["bad", "awful", "poor", "dull"]];
    let row = |i: usize| {
        let word = |k: usize| words[i % 2][(i * 7 + k * 5) % 4];
        let label = if i.is_multiple_of(2) { "good" } else { "bad" };
        format!("{label},<b>{}</b> film w{} {}\n", word(0), i % 9, word(1))
    };
    let table: String = (0..120).map(row).collect();
    sandbox.put("reviews.csv", format!("label,text\n{table}"));
    sandbox.put("new.csv", "text\na great and lovely film\nan awful film\n");
    sandbox.ok("train text --model rnn --text reviews.csv --min-count 2 --dim 8 --hidden 6 --epochs 12 --lr 0.01 --out run");
    let line = "explain --run run --queries new.csv --html why.html --out a.csv";
    let found = json(&sandbox, "explain", line);
    let explained = found["explained"].as_array().unwrap();
    for (one, class) in explained.iter().zip(["good", "bad"]) {
        assert_eq!(
            (&one["predicted"], &one["supporting"][0]["label"]),
            (&class.into(), &class.into())
        );
    }
    let page = sandbox.text("why.html");
    assert!(page.contains("a great and lovely film") && page.contains("&lt;b&gt;"), "escaped text");
    assert!(!page.contains("<b>great"));
    sandbox.ok("explain --run run --queries new.csv --threads 1 --out b.csv");
    assert_eq!(sandbox.text("a.csv"), sandbox.text("b.csv"), "any number of threads");
    sandbox.ok("explain audit --run run --kernels trntk,ck");
    sandbox.ok("explain labels --run run --html labels.html");
    sandbox.ok("forensics scan --run run");
    sandbox.refuses(
        "explain validate --run run",
        "run is a text model, and training again is for `train net`; train it again by hand, on a table without the rows",
    );
    sandbox.put("other.csv", sandbox.text("reviews.csv").replace("great", "grand"));
    sandbox.refuses(
        "explain --run run --data other.csv",
        "the documents of other.csv are not those of run; pass with --data what the network was trained on",
    );
    sandbox.ok("train text --text reviews.csv --out words");
    sandbox.refuses_like("explain --run words", |e| {
        assert!(e.contains("it has no tangent kernel; train with --model rnn"), "{e}");
    });
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
    sandbox.refuses(
        "explain --run run --rows 4",
        "class 1 has 1 of the 4 training rows that are used, and needs two; raise --rows, or train without the class",
    );
    sandbox.refuses_like("explain validate --run run --effects shapley", |e| {
        assert!(e.contains("shapley") && e.contains("removal"), "{e}");
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
