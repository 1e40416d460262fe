//! Networks: contents of runs, equal bytes for any number of threads, resume, pretrained weights, evaluation, refit.

#![cfg(unix)]

use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;
use veridical_core::Seed;
use veridical_data::generate;
use veridical_io::examples::write_idx;

use crate::common::*;

const CLASSES: usize = 3;

/// `idx`: 180 images of 8 x 8 in three classes for training, 60 for testing. `table`: y = a - 2 b + a noise of 0.1.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    let all = generate::images(240, 8, 1, CLASSES, Seed::new(1).unwrap());
    let part = |from: usize, to: usize| all.subset(&(from..to).collect::<Vec<_>>());
    std::fs::create_dir(sandbox.path("idx")).unwrap();
    write_idx(&sandbox.path("idx"), Some(&part(0, 180)), Some(&part(180, 240))).unwrap();
    for (file, rows) in [("train", 0..200), ("test", 200..260)] {
        let row = |i: usize| {
            let [a, b, e] = [37, 53, 91].map(|m| ((i * m + i * i) % 101) as f64 / 50.0 - 1.0);
            format!("{a},{b},{}\n", a - 2.0 * b + 0.1 * e)
        };
        let text: String = rows.map(row).collect();
        sandbox.put(&format!("table/{file}.csv"), format!("a,b,y\n{text}"));
    }
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
fn a_run_says_everything_about_itself_and_is_evaluated() {
    let sandbox = sandbox();
    let flags =
        "train net --model mlp:32 --data idx --epochs 12 --lr 0.01 --validation 0.2 --seed 3";
    let trained = json(&sandbox, "train", &format!("{flags} --out run"));
    assert_eq!(
        (&trained["method"], &trained["parameters"]),
        (&"net".into(), &(64 * 32 + 32 + 32 * 3 + 3).into())
    );
    assert_eq!(
        (&trained["runs"][0]["epochs"], &trained["runs"][0]["steps"]),
        (&12.into(), &24.into())
    );
    let document = document(&sandbox, "run");
    assert_eq!((&document["method"], &document["seed"]), (&"net".into(), &3.into()));
    assert_eq!(document["settings"]["optimizer"], "adam", "defaults are written down");
    assert_eq!(
        (&document["input"], &document["classes"]),
        (&serde_json::json!([8, 8, 1]), &serde_json::json!(["0", "1", "2"]))
    );
    assert_eq!(document["split"]["rows"], serde_json::json!({ "train": 144, "validation": 36 }));
    assert!(document["normalization"]["std"][0].as_f64().unwrap() > 0.0);
    let folder = sandbox.path("").display().to_string();
    for file in ["run.json", "metrics.jsonl"] {
        assert!(!sandbox.text(&format!("run/{file}")).contains(folder.trim_end_matches('/')));
    }
    let metrics = sandbox.text("run/metrics.jsonl");
    let last: Value = serde_json::from_str(metrics.lines().last().unwrap()).unwrap();
    assert_eq!(
        (metrics.lines().count(), &last["epoch"], &last["steps"]),
        (12, &12.into(), &24.into())
    );
    for value in [&last["loss"], &last["accuracy"], &last["lr"], &last["validation"]["loss"]] {
        assert!(value.is_f64(), "{last}");
    }
    let evaluated = json(&sandbox, "evaluate-net", "evaluate --run run");
    let measures = &evaluated["models"][0]["runs"][0];
    assert_eq!((&evaluated["what"], &measures["n"]), (&"classification".into(), &60.into()));
    // Guessing is right on 20 of 60, with five standard errors 38.
    let accuracy = &measures["accuracy"];
    assert!(accuracy["value"].as_f64().unwrap() > 38.0 / 60.0, "{accuracy}");
    assert!(accuracy["low"].as_f64() < accuracy["value"].as_f64());
    let right: u64 = (0..3).map(|c| measures["confusion"][c][c].as_u64().unwrap()).sum();
    assert_eq!(right as f64 / 60.0, accuracy["value"].as_f64().unwrap());
    let text = sandbox.ok("evaluate --run run --data idx --html page.html --quiet");
    assert!(text.contains("accuracy") && text.contains("class"), "{text}");
    assert!(sandbox.text("page.html").contains("Confusion matrix"));
    let fewer = json(&sandbox, "evaluate-net", "evaluate --run run --classes 2,0");
    assert_eq!(fewer["models"][0]["runs"][0]["n"], 40);
    assert_eq!(fewer["models"][0]["runs"][0]["confusion"][2], measures["confusion"][2]);
}

#[test]
fn a_network_has_the_same_bytes_for_1_2_and_3_threads() {
    let sandbox = sandbox();
    for flags in [
        "--model mlp:24,16 --dropout 0.2 --batch 50 --validation 0.1",
        "--model cnn-small --flip --crop 1 --optimizer sgd --momentum 0.9 --schedule cosine",
        "--model cnn:8,max,8 --optimizer adamw --clip 1 --label-smoothing 0.1 --limit 90",
    ] {
        let line = |threads: u32, out: &str| {
            format!(
                "train net {flags} --data idx --epochs 2 --threads {threads} --out {out} --quiet"
            )
        };
        sandbox.ok(&line(1, "one"));
        for threads in [2, 3] {
            sandbox.ok(&line(threads, "other"));
            let same = run_files(&sandbox, "one") == run_files(&sandbox, "other");
            assert!(same, "{flags} differs on {threads} threads");
            sandbox.remove("other");
        }
        sandbox.remove("one");
    }
}

#[test]
fn the_runs_of_an_ensemble_are_those_of_single_seeds() {
    let sandbox = sandbox();
    let flags = "train net --model mlp:8 --data idx --epochs 3 --quiet";
    sandbox.ok(&format!("{flags} --seeds 3 --seed 5 --threads 2 --out all"));
    for seed in 5..8 {
        sandbox.ok(&format!("{flags} --seed {seed} --out one"));
        assert!(
            run_files(&sandbox, &format!("all/seed-{seed}")) == run_files(&sandbox, "one"),
            "seed {seed}"
        );
        sandbox.remove("one");
    }
    let evaluated = json(&sandbox, "evaluate-net", "evaluate --run all");
    let model = &evaluated["models"][0];
    assert_eq!(model["seeds"], serde_json::json!([5, 6, 7]));
    assert_eq!(model["runs"].as_array().unwrap().len(), 3);
    // Examples and seeds widen the accuracy, seeds alone the loss.
    for name in ["accuracy", "loss"] {
        let [low, value, high] =
            ["low", "value", "high"].map(|end| model[name][end].as_f64().unwrap());
        assert!(low < value && value < high, "{}", model[name]);
        assert_eq!((&model[name]["n"], &model[name]["seeds"]), (&60.into(), &3.into()));
        assert!(model[format!("{name}_sd")]["value"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn a_run_replays_from_its_document_and_from_a_file_of_settings() {
    let sandbox = sandbox();
    let flags = "--model mlp:8 --data idx --epochs 2 --limit 100 --lr 0.02 --classes 0,2";
    sandbox.ok(&format!("train net {flags} --out a --quiet"));
    sandbox.ok(&format!("train net {flags} --seed 4 --out want --quiet"));
    sandbox.ok("train net --from a --seed 4 --out b --quiet");
    sandbox.ok("train --from a/run.json --seed 4 --out c --quiet");
    sandbox.put(
        "c.toml",
        "model = \"mlp:8\"\ndata = \"idx\"\nepochs = 2\nlimit = 100\nlr = 0.5\nclasses = \"0,2\"\nseed = 4\n",
    );
    sandbox.ok("train net --config c.toml --lr 0.02 --out d --quiet");
    for run in ["b", "c", "d"] {
        assert!(run_files(&sandbox, "want") == run_files(&sandbox, run), "{run}");
    }
    assert_eq!(document(&sandbox, "a")["classes"], serde_json::json!(["0", "2"]));
    assert_eq!(json(&sandbox, "evaluate-net", "evaluate --run a")["models"][0]["runs"][0]["n"], 40);
    sandbox.put("bad.toml", "widht = 3\n");
    sandbox
        .refuses("train net --config bad.toml --out e", "bad.toml: `net` has no setting `widht`");
}

/// Weights come into another run unchanged, with another number of outputs without the head, and frozen layers stay.
#[test]
fn weights_are_taken_over_and_frozen_layers_stay() {
    let sandbox = sandbox();
    sandbox.ok("train net --model cnn-small --data idx --epochs 1 --out a --quiet");
    let line = "train net --model cnn-small --data idx --quiet";
    sandbox.ok(&format!("{line} --init a --epochs 0 --out b"));
    sandbox.ok(&format!("{line} --init a/model.safetensors --epochs 0 --out c"));
    let model = |run: &str| sandbox.bytes(&format!("{run}/model.safetensors"));
    assert!(model("a") == model("b") && model("a") == model("c"));
    let tensors = |run: &str| {
        veridical_io::run::read_tensors(&sandbox.path(format!("{run}/model.safetensors"))).unwrap()
    };
    sandbox.ok(&format!("{line} --init a --epochs 1 --freeze features --out d"));
    sandbox.ok(&format!("{line} --init a --epochs 1 --freeze conv1,fc2 --out e"));
    let (a, d, e) = (tensors("a"), tensors("d"), tensors("e"));
    for (name, before) in &a {
        assert_eq!(before == &d[name], !name.starts_with("fc2"), "{name}");
        let is_frozen = name.starts_with("conv1") || name.starts_with("fc2");
        assert_eq!(before == &e[name], is_frozen, "{name}");
    }
    let outcome = sandbox
        .run("train net --model cnn-small --data idx --classes 0,1 --init a --epochs 0 --out f");
    let note = "--init has 3 outputs but the task has 2: the last layer `fc2` is newly initialized";
    assert!(outcome.code == Some(0) && outcome.stderr.contains(note), "{outcome:?}");
    assert_eq!(tensors("f")["conv1.weight"], a["conv1.weight"]);
}

#[test]
fn numbers_are_predicted_from_a_table() {
    let sandbox = sandbox();
    let flags =
        "train net --model mlp:32 --activation tanh --data table --target y --regression --lr 0.02";
    sandbox.ok(&format!("{flags} --epochs 40 --out run --quiet"));
    let evaluated = json(&sandbox, "evaluate-net", "evaluate --run run");
    let measures = &evaluated["models"][0]["runs"][0];
    assert_eq!((&evaluated["what"], &measures["n"]), (&"regression".into(), &60.into()));
    // The noise is uniform up to 0.1: 0.058 is the least; y itself has a standard deviation of 1.3.
    assert!(measures["rmse"].as_f64().unwrap() < 0.3, "{measures}");
    assert!(measures["r2"].as_f64().unwrap() > 0.9, "{measures}");
    // What is predicted has the error that is evaluated, up to the f32 of the targets.
    sandbox.ok("predict --run run --data table/test.csv --out p.csv --quiet");
    let column = |file: &str, at: usize| -> Vec<f64> {
        let cell = |line: &str| line.split(',').nth(at).unwrap().parse().unwrap();
        sandbox.text(file).lines().skip(1).map(cell).collect()
    };
    let (y, predicted) = (column("table/test.csv", 2), column("p.csv", 1));
    let mean = y.iter().zip(&predicted).map(|(y, p)| (y - p).powi(2)).sum::<f64>() / 60.0;
    let rmse = measures["rmse"].as_f64().unwrap();
    assert!((mean.sqrt() - rmse).abs() < 1e-5 * rmse, "{mean} {rmse}");
    let refit = json(&sandbox, "refit-head", "refit-head --run run --out refit --html page.html");
    assert_eq!((&refit["method"], &refit["kept"]), (&"ridge".into(), &false.into()));
    let loss = |part: &str, when: &str| refit[part][when]["loss"].as_f64().unwrap();
    assert!(loss("train", "after") <= loss("train", "before"), "{refit}");
    assert!(sandbox.text("page.html").contains("Penalty path"));
}

#[test]
fn early_stopping_keeps_the_best_epoch() {
    let sandbox = sandbox();
    // Random labels: a network that memorizes them is soon worse than guessing on other rows.
    let row = |i: u64| {
        let draw = |m: u64| (i * i * m + i * 29) % 97;
        format!("{},{},{},{}\n", draw(31), draw(57), draw(83), draw(41) % 2)
    };
    sandbox.put("noise.csv", format!("a,b,c,y\n{}", (1..80).map(row).collect::<String>()));
    let flags = "train net --model mlp:64 --data noise.csv --target y --validation 0.3 --lr 0.02 --seed 1 --quiet";
    sandbox.ok(&format!("{flags} --epochs 200 --patience 4 --out long"));
    let results = document(&sandbox, "long")["results"].clone();
    let (best, epochs) =
        (results["best"]["epoch"].as_u64().unwrap(), results["epochs"].as_u64().unwrap());
    assert_eq!((epochs, &results["stopped_early"]), (best + 4, &true.into()));
    sandbox.ok(&format!("{flags} --epochs {best} --out short"));
    assert!(sandbox.bytes("long/model.safetensors") == sandbox.bytes("short/model.safetensors"));
    // On the training loss: nothing gets better by 1 three times in a row.
    let flags = "train net --model mlp:8 --data idx --epochs 50 --quiet --out few";
    sandbox.ok(&format!("{flags} --patience 3 --min-delta 5"));
    assert_eq!(document(&sandbox, "few")["results"]["epochs"], 4);
}

#[test]
fn a_refit_is_never_worse_on_the_training_loss_and_is_a_run() {
    let sandbox = sandbox();
    sandbox.ok("train net --model mlp:24 --data idx --epochs 3 --limit 150 --out run --quiet");
    for method in ["logistic", "ridge"] {
        let line = format!("refit-head --run run --data idx --method {method} --out {method}");
        let refit = json(&sandbox, "refit-head", &line);
        let loss = |part: &str, when: &str| refit[part][when]["loss"].as_f64().unwrap();
        assert!(loss("train", "after") <= loss("train", "before"), "{refit}");
        assert_eq!(
            (&refit["train"]["before"]["n"], &refit["test"]["after"]["n"]),
            (&150.into(), &60.into())
        );
        assert!(refit["path"].as_array().unwrap().len() > 5);
        let evaluated = json(&sandbox, "evaluate-net", &format!("evaluate --run {method}"));
        let accuracy = |value: &Value| value["accuracy"]["value"].as_f64().unwrap();
        assert_eq!(accuracy(&evaluated["models"][0]["runs"][0]), accuracy(&refit["test"]["after"]));
        assert_eq!(document(&sandbox, method)["refit"]["method"], method);
    }
    // Only the head moves, and threads change nothing.
    let tensors = |run: &str| {
        veridical_io::run::read_tensors(&sandbox.path(format!("{run}/model.safetensors"))).unwrap()
    };
    let (before, after) = (tensors("run"), tensors("logistic"));
    assert!(before["0.weight"] == after["0.weight"] && before["2.weight"] != after["2.weight"]);
    sandbox.ok("refit-head --run run --data idx --method logistic --threads 3 --out three --quiet");
    assert!(run_files(&sandbox, "logistic") == run_files(&sandbox, "three"));
}

/// Interrupts `line`, or kills it, and continues it. A machine that finishes before the signal gets more work.
fn stop_and_resume(sandbox: &Sandbox, line: &str, mut epochs: u32, signal: &str) {
    for _ in 0..6 {
        if is_stopped_and_resumed(sandbox, &format!("{line} --epochs {epochs}"), signal) {
            return;
        }
        epochs *= 4;
    }
    panic!("{line} is always over before the signal comes");
}

fn is_stopped_and_resumed(sandbox: &Sandbox, line: &str, signal: &str) -> bool {
    let mut command = sandbox.command(format!("{line} --out run --quiet").split_whitespace());
    let mut job = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    for _ in 0..60_000 {
        if sandbox.has("run.partial/checkpoint/state.json") || sandbox.has("run") {
            break;
        }
        sleep(Duration::from_millis(1));
    }
    assert!(Command::new("kill").args([signal, &job.id().to_string()]).status().unwrap().success());
    let status = job.wait().unwrap();
    if sandbox.has("run") {
        sandbox.remove("run");
        return false;
    }
    if signal == "-INT" {
        assert_eq!(status.code(), Some(130), "{line}");
    }
    sandbox.refuses(
        &format!("{} --out run --resume", line.replace("mlp:32", "mlp:33")),
        "run.partial: this is not the run that was started: settings.model was \"mlp:32\" and is now \"mlp:33\"; start over with --force",
    );
    sandbox.ok(&format!("{line} --out whole --quiet"));
    sandbox.ok(&format!("{line} --out run --resume --quiet"));
    assert!(run_files(sandbox, "whole") == run_files(sandbox, "run"), "{line} {signal}");
    sandbox.ok(&format!("{line} --out run --resume --quiet")); // finished: nothing to do
    sandbox.remove("whole");
    sandbox.remove("run");
    true
}

#[test]
fn a_stopped_run_comes_out_the_same_also_inside_an_epoch() {
    let sandbox = sandbox();
    let line = "train net --model mlp:32 --data idx --batch 7 --dropout 0.1 --validation 0.2 --patience 9999 --crop 1";
    // 144 examples are 21 steps: a checkpoint every 13 steps is inside an epoch.
    stop_and_resume(&sandbox, &format!("{line} --checkpoint-every 13"), 20, "-KILL");
    stop_and_resume(&sandbox, line, 20, "-INT");
}
