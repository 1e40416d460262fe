//! Kernels as files: the same bytes for any threads, memory, interruption and store; bad input named.

#![cfg(unix)]

use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;
use veridical_core::Seed;
use veridical_data::{NamedTensor, generate};
use veridical_io::examples::write_idx;
use veridical_io::run::{read_tensors, write_tensors};

use crate::common::*;

/// `idx`: images of 10 x 10 in three classes, `train` for training and 30 for testing.
fn sandbox(train: usize) -> Sandbox {
    let sandbox = Sandbox::new();
    let all = generate::images(train + 30, 10, 1, 3, Seed::new(2).unwrap());
    let part = |from: usize, to: usize| all.subset(&(from..to).collect::<Vec<_>>());
    let (first, rest) = (part(0, train), part(train, train + 30));
    write_idx(&sandbox.path("idx"), Some(&first), Some(&rest)).unwrap();
    sandbox
}

fn json(sandbox: &Sandbox, verb: &str, line: &str) -> Value {
    let value: Value = serde_json::from_str(&sandbox.ok(&format!("{line} --json"))).unwrap();
    assert_eq!(value["schema"], format!("veridical.kernel-{verb}/1"), "{line}");
    value
}

/// The values of `k.npy`.
fn matrix(sandbox: &Sandbox, name: &str) -> (usize, Vec<f32>) {
    let table = sandbox.table(&format!("{name}/k.npy"));
    (table.dim, table.vectors)
}

#[test]
fn the_bytes_are_the_same_for_any_threads_memory_and_interruption() {
    let sandbox = sandbox(1600);
    sandbox.ok("train net --model cnn:16,max,24 --epochs 1 --data idx --out run");
    let line = "kernel compute --run run --rows all";
    sandbox.ok(&format!("{line} --out whole --threads 1"));
    let want = sandbox.below("whole");
    let (n, k) = matrix(&sandbox, "whole");
    assert_eq!((n, k.len()), (1600, 1600 * 1600));
    assert!((0..n).all(|i| k[i * n + i] == 1.0), "cosines");
    assert!((0..n).all(|i| k[i * n + (i * 7) % n] == k[(i * 7) % n * n + i]), "symmetric");
    // The gradients of all samples take 70 MB: two bands.
    sandbox.ok(&format!("{line} --out small --threads 2 --memory 64"));
    assert!(sandbox.below("small") == want, "memory");
    for (at, memory) in [(1, 64), (9, 2000)] {
        let mut command = sandbox.command(format!("{line} --out k --memory {memory}").split(' '));
        let mut job = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let done = || {
            let tiles = std::fs::read(sandbox.path("k.partial/_tiles")).unwrap_or_default();
            tiles.iter().filter(|tile| **tile == 1).count()
        };
        while job.try_wait().unwrap().is_none() && done() < at {
            sleep(Duration::from_millis(1));
        }
        job.kill().unwrap();
        job.wait().unwrap();
        if !sandbox.has("k") {
            let error = sandbox.run(&format!("{line} --out k"));
            assert_eq!(error.code, Some(2));
            assert!(error.stderr.contains("continue it with --resume or start over with --force"));
            let other = sandbox.run(&format!("{line} --kernel pntk --out k --resume"));
            assert_eq!(other.code, Some(2), "{other:?}");
            assert!(
                other.stderr.contains("kernel was \"trntk\" and is now \"pntk\""),
                "{}",
                other.stderr
            );
        }
        sandbox.ok(&format!("{line} --out k --resume --threads 3"));
        assert!(sandbox.below("k") == want, "killed after {at} tiles");
        let again = json(&sandbox, "compute", &format!("{line} --out k --resume"));
        assert_eq!(again["notes"][0], "this kernel was finished before");
        sandbox.remove("k");
    }
}

#[test]
fn a_store_gives_the_kernels_of_the_network_and_its_explanations() {
    let sandbox = sandbox(300);
    sandbox.ok("train net --model cnn:8,max,12 --epochs 2 --data idx --out run");
    let stored = json(&sandbox, "store", "kernel store --run run --rows all --out tangents");
    assert_eq!(stored["rows"], 300);
    // Taken in other pieces.
    sandbox.ok("kernel store --run run --rows all --threads 1 --memory 64 --out again");
    assert!(sandbox.below("tangents") == sandbox.below("again"));
    let line = "kernel compute --run run";
    for kernel in ["trntk", "ck"] {
        sandbox.ok(&format!("{line} --kernel {kernel} --out direct"));
        sandbox.ok(&format!("{line} --kernel {kernel} --store tangents --out read"));
        assert!(sandbox.bytes("direct/k.npy") == sandbox.bytes("read/k.npy"), "{kernel}");
        sandbox.remove("direct");
        sandbox.remove("read");
    }
    // Linear combinations of rounded gradients are off by some 1e-6 of the largest value.
    for kernel in ["pntk", "rand-trntk:2", "margin", "loss"] {
        sandbox.ok(&format!("{line} --kernel {kernel} --queries idx --out direct"));
        sandbox.ok(&format!("{line} --kernel {kernel} --queries idx --store tangents --out read"));
        let ((n, a), (_, b)) = (matrix(&sandbox, "direct"), matrix(&sandbox, "read"));
        assert_eq!((n, a.len()), (300, 30 * 300));
        let scale = a.iter().fold(0.0f32, |m, x| m.max(x.abs()));
        assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-5 * scale), "{kernel}");
        sandbox.remove("direct");
        sandbox.remove("read");
    }
    let audit = "audit --run run --kernels trntk,em,ck";
    let [direct, read] = ["", "--store tangents"].map(|more| {
        let found = sandbox.ok(&format!("explain {audit} {more} --json"));
        serde_json::from_str::<Value>(&found).unwrap()["audited"].clone()
    });
    assert_eq!(direct, read);
    for verb in ["explain --run run --rows 120 --out", "explain labels --run run --out"] {
        sandbox.ok(&format!("{verb} a.csv"));
        sandbox.ok(&format!("{verb} b.csv --store tangents"));
        assert_eq!(sandbox.text("a.csv"), sandbox.text("b.csv"), "{verb}");
        sandbox.remove("a.csv");
        sandbox.remove("b.csv");
    }
}

#[test]
fn plans_and_sketches_say_what_they_cost_and_how_far_off_they_are() {
    let sandbox = sandbox(300);
    sandbox.ok("train net --model cnn:8,max,12 --epochs 1 --data idx --out run");
    let before = sandbox.everything();
    let plan = json(&sandbox, "compute", "kernel compute --run run --plan");
    assert!(sandbox.everything() == before, "a plan writes nothing");
    let layers = plan["plan"].as_array().unwrap();
    assert_eq!(layers.len(), 5, "two convolutions with their norms, and the last layer");
    assert!(layers.iter().all(|layer| layer["gflop"].as_f64().unwrap() > 0.0));
    assert_eq!((&layers[0]["path"], &layers[4]["path"]), (&"gradient".into(), &"hadamard".into()));
    let exact = json(&sandbox, "compute", "kernel compute --run run --out exact");
    let shares = |found: &Value| -> f64 {
        let layers = found["matrix"]["layers"].as_array().unwrap();
        layers.iter().map(|layer| layer["share"].as_f64().unwrap()).sum()
    };
    assert!((shares(&exact) - 1.0).abs() < 1e-12);
    // The standard deviation of the root mean square of 256 pairs of few samples is below a third of it.
    let line = "kernel compute --run run --error 0.05 --out sketched";
    let sketched = json(&sandbox, "compute", line);
    assert_eq!(sketched["sketch"], "sjlt:800");
    let residual = &sketched["matrix"]["residual"];
    let (rms, expected) =
        (residual["rms"].as_f64().unwrap(), residual["expected"].as_f64().unwrap());
    assert!(rms > 0.0 && rms < 0.05 && expected < 0.05, "{rms} {expected}");
    let ((_, a), (_, b)) = (matrix(&sandbox, "exact"), matrix(&sandbox, "sketched"));
    let square: f32 = a.iter().zip(&b).map(|(a, b)| (a - b) * (a - b)).sum();
    let all = (square / a.len() as f32).sqrt();
    assert!(f64::from(all) < 0.05 && all > 0.0, "{all}");
    let conv = json(&sandbox, "compute", "kernel compute --run run --layers conv* --out conv");
    assert_eq!(conv["matrix"]["layers"].as_array().unwrap().len(), 2);
}

#[test]
fn kernels_of_tables_are_their_formulas() {
    let sandbox = Sandbox::new();
    sandbox.put("t.csv", "id,x,y\na,0,0\nb,3,4\nc,6,8\n");
    sandbox.put("q.csv", "id,x,y\nd,3,4\n");
    let line = "kernel compute --vectors t.csv";
    let found = json(&sandbox, "compute", &format!("{line} --kernel rbf --length-scale 5 --out k"));
    assert_eq!(found["matrix"]["rows"], 3);
    let (n, k) = matrix(&sandbox, "k");
    let want = |distance: f32| (-0.5 * (distance / 5.0).powi(2)).exp();
    assert_eq!(n, 3);
    for (got, want) in k[..3].iter().zip([1.0, want(5.0), want(10.0)]) {
        assert!((got - want).abs() < 1e-6, "{got} {want}");
    }
    sandbox.ok(&format!("{line} --kernel linear --queries q.csv --out q"));
    assert_eq!(matrix(&sandbox, "q"), (3, vec![0.0, 25.0, 50.0]));
    assert_eq!(sandbox.text("q/rows.csv").lines().collect::<Vec<_>>(), ["id,label", "d,"]);
    assert_eq!(sandbox.text("q/columns.csv").lines().count(), 4);
    for kernel in ["laplace", "arc-cosine-1", "matern-3/2"] {
        sandbox.ok(&format!("{line} --kernel {kernel} --out other --force"));
    }
}

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
fn what_does_not_fit_together_is_refused_by_name() {
    let sandbox = sandbox(90);
    sandbox.ok("train net --model mlp:6 --epochs 1 --data idx --out run");
    sandbox.ok("train net --model mlp:6 --epochs 1 --data idx --seed 1 --out other");
    let more = generate::images(90, 10, 1, 3, Seed::new(3).unwrap());
    write_idx(&sandbox.path("more"), Some(&more), None).unwrap();
    let small = generate::images(20, 6, 1, 3, Seed::new(3).unwrap());
    write_idx(&sandbox.path("small"), None, Some(&small)).unwrap();
    sandbox.put("t.csv", "id,x,y\na,0,0\nb,3,4\n");
    sandbox.put("wide.csv", "id,x,y,z\na,0,0,1\nb,3,4,1\n");
    let compute = "kernel compute --run run --out k";
    sandbox.refuses(
        "kernel compute --out k",
        "a kernel is of a network or of vectors; pass --run RUN or --vectors TABLE",
    );
    sandbox.refuses(
        "kernel compute --run run",
        "there is nowhere to write to; pass --out FOLDER, or --plan",
    );
    sandbox.refuses(
        &format!("{compute} --kernel rbf"),
        "--kernel rbf is of vectors, not of a network; pass --vectors TABLE instead of --run",
    );
    refuses_with(
        &sandbox,
        &format!("{compute} --kernel ntkx"),
        &["--kernel must be trntk", "ntkx"],
    );
    refuses_with(&sandbox, &format!("{compute} --kernel difference:0,3"), &["below the number"]);
    refuses_with(&sandbox, &format!("{compute} --layers conv*"), &["`conv*` matches no layer"]);
    refuses_with(&sandbox, &format!("{compute} --sketch sjlt"), &["--sketch must be sjlt:4096"]);
    sandbox.refuses(
        &format!("{compute} --kernel ck --sketch sjlt:64"),
        "--sketch is of gradients, and ck has none; drop it",
    );
    refuses_with(
        &sandbox,
        &format!("{compute} --normalization paper --error 0.1"),
        &["a sketch adds up all outputs", "--normalization cosine"],
    );
    refuses_with(
        &sandbox,
        &format!("{compute} --data more"),
        &["the training examples of more are not those of run"],
    );
    refuses_with(&sandbox, &format!("{compute} --queries small"), &["6x6x1", "10x10x1"]);
    refuses_with(&sandbox, "kernel compute --run idx --out k", &["idx is no run of `train net`"]);
    refuses_with(
        &sandbox,
        "kernel compute --run run --out none/k",
        &["none does not exist or is not a folder; create it first"],
    );
    sandbox.put("else/file", "x");
    refuses_with(
        &sandbox,
        "kernel compute --run run --out else --force",
        &["else is something else; choose another name"],
    );
    let table = "kernel compute --vectors t.csv --out k";
    refuses_with(&sandbox, &format!("{table} --kernel trntk"), &["--kernel must be linear, rbf"]);
    refuses_with(
        &sandbox,
        &format!("{table} --kernel rbf --length-scale 0"),
        &["--length-scale must be a number above 0, or `median`, got 0"],
    );
    refuses_with(
        &sandbox,
        &format!("{table} --kernel linear --queries wide.csv"),
        &["wide.csv has vectors of 3 values and t.csv of 2"],
    );
    // 3,000,000 rows: 36 TB.
    sandbox.put("long.npy", npy("<f4", "(3000000, 1)", &[0; 12_000_000]));
    refuses_with(
        &sandbox,
        "kernel compute --vectors long.npy --kernel linear --out k",
        &["k takes 36000.0 GB", "take fewer --rows or --queries, or another disk"],
    );
    sandbox.ok("kernel store --run run --rows 60 --out tangents");
    refuses_with(
        &sandbox,
        "kernel compute --run other --store tangents --rows 60 --out k",
        &["tangents holds factors of other weights (content:", "than those of other (content:"],
    );
    refuses_with(
        &sandbox,
        &format!("{compute} --store tangents"),
        &["tangents holds the factors of 60 training rows, and row", "--rows all"],
    );
    refuses_with(
        &sandbox,
        &format!("{compute} --store tangents --rows 60 --kernel em"),
        &["factors of trntk0 do not contain those of em: they have no outputs of layers"],
    );
    refuses_with(
        &sandbox,
        "kernel store --run run --kernel ck --out more-tangents",
        &["ck has no gradients to store; store those of trntk: they contain CK"],
    );
    refuses_with(&sandbox, &format!("{compute} --store idx"), &["idx is no folder of factors"]);
    sandbox.ok("kernel store --run run --rows all --kernel pntk --out sums");
    refuses_with(
        &sandbox,
        &format!("{compute} --store sums"),
        &["factors of pntk do not contain those of trntk: store those of all outputs"],
    );
    let manifest = sandbox.text("sums/manifest.json");
    sandbox.put("sums/manifest.json", &manifest[..manifest.len() / 2]);
    refuses_with(&sandbox, &format!("{compute} --store sums"), &["the manifest is damaged"]);
}

#[test]
fn what_does_not_fit_in_memory_is_refused_with_what_would() {
    let sandbox = sandbox(600);
    sandbox.ok("train net --model mlp:9000 --epochs 1 --batch 100 --data idx --out run");
    let line = "kernel compute --run run --out k --memory 64";
    let mut rows = 0;
    sandbox.refuses_like(line, |error| {
        assert!(error.contains("the factors of 600 samples need") && error.contains("--memory"));
        let (_, rest) = error.split_once("take at most --rows ").expect(error);
        rows = rest.split(',').next().unwrap().parse().unwrap();
    });
    assert!(rows > 100 && rows < 600, "{rows}");
    sandbox.ok(&format!("{line} --rows {rows}"));
}

/// Weights so large that units overflow, and a first layer whose units are all off.
#[test]
fn gradients_that_are_not_finite_are_named_and_those_that_vanish_are_listed() {
    let sandbox = sandbox(60);
    sandbox.ok("train net --model mlp:6 --epochs 1 --data idx --out run");
    let model = sandbox.path("run/model.safetensors");
    let mut tensors = read_tensors(&model).unwrap();
    let mut set = |weight: f32, bias: f32| {
        tensors.get_mut("0.weight").unwrap().1.fill(weight);
        tensors.get_mut("0.bias").unwrap().1.fill(bias);
        let named: Vec<NamedTensor<'_>> = tensors
            .iter()
            .map(|(name, (shape, values))| NamedTensor { name, shape, values })
            .collect();
        write_tensors(&model, &named).unwrap();
    };
    set(3e38, 0.0);
    refuses_with(
        &sandbox,
        "kernel compute --run run --out k",
        &["the gradient of sample ", " is not finite; check the example and the weights"],
    );
    set(0.0, -1.0);
    let found = json(&sandbox, "compute", "kernel compute --run run --layers 0 --out k");
    assert_eq!(found["matrix"]["zeros"].as_array().unwrap().len(), 60);
    let note = "60 samples have no gradient, and kernel 0 with all: 0, 1, 2, 3, 4, ...";
    assert_eq!(found["notes"][0], note);
    assert!(matrix(&sandbox, "k").1.iter().all(|k| *k == 0.0));
}
