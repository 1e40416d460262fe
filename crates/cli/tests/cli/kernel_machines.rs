//! `kernel check`, `kernel regress` and `kernel classify`: what is planted is found, solvers agree, bad input is named.

#![cfg(unix)]

use std::fmt::Write as _;

use serde_json::Value;
use veridical_core::{Seed, Stream};

use crate::common::*;

fn json(sandbox: &Sandbox, verb: &str, line: &str) -> Value {
    let value: Value = serde_json::from_str(&sandbox.ok(&format!("{line} --json"))).unwrap();
    assert_eq!(value["schema"], format!("veridical.kernel-{verb}/1"), "{line}");
    value
}

fn number(value: &Value, path: &str) -> f64 {
    value.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("{path} in {value}"))
}

/// `curve.csv`: y = sin 2a + cos 3b of 240 points; `rings.csv`: the class is whether a point is within a circle.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    let stream = Stream::new(Seed::new(4).unwrap(), "points");
    let (mut curve, mut rings) = ("a,b,y\n".to_owned(), "a,b,where\n".to_owned());
    for i in 0..240 {
        let place = stream.at(0, i);
        let (a, b) = (4.0 * place.uniform(0) - 2.0, 4.0 * place.uniform(1) - 2.0);
        writeln!(curve, "{a:.6},{b:.6},{:.6}", (2.0 * a).sin() + (3.0 * b).cos()).unwrap();
        let is_inside = a * a + b * b < 2.0;
        writeln!(rings, "{a:.6},{b:.6},{}", if is_inside { "inside" } else { "outside" }).unwrap();
    }
    sandbox.put("curve.csv", curve);
    sandbox.put("rings.csv", rings);
    sandbox
}

#[test]
fn a_smooth_function_is_learned_and_solvers_agree() {
    let sandbox = sandbox();
    let line = "kernel regress --data curve.csv --target y --length-scale 0.7";
    let found = json(&sandbox, "regress", &format!("{line} --out a.csv --html a.html"));
    assert!(number(&found, "/scores/0/r2") > 0.99, "{found}");
    assert!(number(&found, "/scores/2/r2") < 0.5, "no line fits it");
    assert!(number(&found, "/gain/low") > 0.0);
    assert!(number(&found, "/solved/residual") < 1e-6);
    sandbox.ok(&format!("{line} --threads 1 --out b.csv"));
    assert_eq!(sandbox.text("a.csv"), sandbox.text("b.csv"), "any number of threads");
    assert!(sandbox.text("a.csv").starts_with("row,target,predicted\n"));
    assert!(sandbox.text("a.html").contains("Error by penalty"));
    let rmse = |solver: &str| {
        let more = format!("{line} --lambda 0.1 --tolerance 1e-7 --centers 192 --solver {solver}");
        let found = json(&sandbox, "regress", &format!("{more} --iterations 20000"));
        assert_eq!(found["solved"]["converged"], true, "{solver}: {found}");
        (number(&found, "/scores/0/rmse/value"), number(&found, "/solved/residual"))
    };
    let (direct, _) = rmse("direct");
    let (other, _) = rmse("pcg");
    // The intercept of `direct` is a part of the fit, that of the others the mean.
    assert!((other - direct).abs() < 0.2 * direct, "{other} {direct}");
    for solver in ["richardson", "eigenpro", "falkon"] {
        let (own, residual) = rmse(solver);
        assert!((own - other).abs() < 1e-3 * other && residual <= 1e-7, "{solver}: {own} {other}");
    }
    let few = format!("{line} --lambda 0.1 --solver richardson --iterations 25");
    let found = json(&sandbox, "regress", &few);
    let (residual, predicted) =
        (number(&found, "/solved/residual"), number(&found, "/solved/predicted_residual"));
    // 40 Lanczos steps are exact for 25 of the iteration, up to rounding.
    assert!((residual / predicted - 1.0).abs() < 1e-6, "{residual} {predicted}");
    assert_eq!(found["solved"]["converged"], false);
}

/// Inputs that are there twice make the matrix singular: the fit goes on, and says so.
#[test]
fn repeated_inputs_are_counted() {
    let sandbox = sandbox();
    let curve = sandbox.text("curve.csv");
    let (header, rows) = curve.split_once('\n').unwrap();
    let more: String = rows.lines().take(10).map(|line| format!("{line}\n")).collect();
    sandbox.put("t/train.csv", format!("{header}\n{rows}{more}")).put("t/test.csv", &curve);
    let found = json(&sandbox, "regress", "kernel regress --data t --target y");
    let notes = found["notes"].to_string();
    assert!(notes.contains("10 training rows have the inputs of another one"), "{notes}");
    assert!(number(&found, "/scores/0/r2") > 0.95);
}

#[test]
fn rings_are_classified_better_than_by_a_line() {
    let sandbox = sandbox();
    let line = "kernel classify --data rings.csv --target where";
    for more in ["", "--solver direct", "--kernel laplace", "--solver pcg --lambda 0.01"] {
        let found = json(&sandbox, "classify", &format!("{line} {more}"));
        let accuracy = |at: usize| number(&found, &format!("/scores/{at}/accuracy/value"));
        assert!(accuracy(0) > 0.9 && accuracy(0) > accuracy(2) + 0.1, "{more}: {found}");
    }
    let found = json(&sandbox, "classify", &format!("{line} --out p.csv --html c.html"));
    assert!(number(&found, "/scores/0/cross_entropy/value") < 0.3);
    let header = "row,score_inside,score_outside,label,predicted";
    assert_eq!(sandbox.text("p.csv").lines().next().unwrap(), header);
}

/// On a grid, with a test set of its own; kernels of the network that was trained on it.
#[test]
fn machines_on_the_kernels_of_a_network_refine_it() {
    let sandbox = Sandbox::new();
    let line = |x: f64| format!("{x:.6},{:.6}\n", (3.0 * x).sin() * (-x * x / 8.0).exp());
    let set = |from: f64, step: f64, n: usize| -> String {
        (0..n).map(|i| line(from + step * i as f64)).collect()
    };
    sandbox.put("f/train.csv", format!("x,y\n{}", set(-2.0, 0.04, 101)));
    sandbox.put("f/test.csv", format!("x,y\n{}", set(-1.99, 0.0397, 100)));
    sandbox.ok(
        "train net --model mlp:32,32 --activation tanh --data f --target y --regression --epochs 60 --batch 20 --lr 0.01 --out run",
    );
    let error = |kernel: &str, more: &str| {
        let line = format!("kernel regress --run run --kernel {kernel} --weights trapezoid {more}");
        let found = json(&sandbox, "regress", &line);
        assert_eq!(found["held_out"], "the test set");
        let own = number(&found, "/scores/0/rmse/value");
        let network = number(&found, "/scores/1/rmse/value");
        assert!(own < network, "{kernel}: {own} {network}");
        own
    };
    for kernel in ["ck", "ntk", "ckj", "ntkj"] {
        error(kernel, "");
    }
    // Features do not lose digits to squaring.
    assert!(error("ckj", "--lambda 1e-12") < error("ck", "--lambda 1e-3"));
}

#[test]
fn a_check_finds_what_is_wrong_with_a_kernel() {
    let sandbox = Sandbox::new();
    sandbox
        .ok("data generate images --images 120 --test-images 20 --size 6 --classes 3 --out images");
    sandbox.ok("train net --model mlp:12 --data images --epochs 3 --out run");
    sandbox.ok("kernel compute --run run --out k");
    let found = json(&sandbox, "check", "kernel check k --html k.html");
    assert_eq!((found["passed"].as_bool(), found["rows"].as_u64()), (Some(true), Some(120)));
    assert!(number(&found, "/residual/rms") < 1e-6);
    assert!(number(&found, "/alignment") > 0.05, "classes are not alike");
    let sum: f64 =
        found["spectrum"]["largest"].as_array().unwrap().iter().map(|l| l.as_f64().unwrap()).sum();
    assert!(sum > 0.9 && sum <= 1.0 + 1e-6, "a cosine kernel has trace n: {sum}");
    for part in ["Share of the layers", "Differences of cosines", "Largest eigenvalues"] {
        assert!(sandbox.text("k.html").contains(part), "{part}");
    }
    sandbox.ok("kernel compute --run run --sketch sjlt:256 --sketch-all --out sketched");
    let found = json(&sandbox, "check", "kernel check sketched");
    let (rms, expected) = (number(&found, "/residual/rms"), number(&found, "/residual/expected"));
    assert!(rms > 1e-4 && rms < 2.0 * expected, "{rms} {expected}");
    sandbox.ok("kernel compute --run run --queries images --kernel ck --out asked");
    let found = json(&sandbox, "check", "kernel check asked");
    assert!(found["spectrum"].is_null() && found["passed"] == true);
    // Moved, and then another network.
    std::fs::rename(sandbox.path("run"), sandbox.path("moved")).unwrap();
    sandbox.refuses_like("kernel check k", |error| assert!(error.contains("run"), "{error}"));
    sandbox.ok("kernel check k --run moved");
    sandbox.ok("train net --model mlp:12 --data images --epochs 3 --seed 1 --out other");
    sandbox.refuses_like("kernel check k --run other", |error| {
        assert!(error.starts_with("k was computed from something else: weights was"), "{error}");
    });
    // A matrix that is not the one, and one that is no kernel.
    let mut bytes = sandbox.bytes("k/k.npy");
    for (i, j) in [(3, 7), (7, 3)] {
        bytes[128 + 4 * (i * 120 + j)..][..4].copy_from_slice(&9.0f32.to_le_bytes());
    }
    sandbox.put("k/k.npy", &bytes);
    sandbox.refuses(
        "kernel check k --run moved",
        "k/k.npy is not the matrix that k.json describes; compute the kernel again",
    );
    let mut document: Value = serde_json::from_slice(&sandbox.bytes("k/k.json")).unwrap();
    let own = veridical_io::fingerprint::of_file(&sandbox.path("k/k.npy")).unwrap();
    document["result"]["fingerprint"] = own.into();
    sandbox.put("k/k.json", serde_json::to_vec(&document).unwrap());
    let outcome = sandbox.run("kernel check k --run moved");
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(outcome.stdout.contains("the smallest eigenvalue -8."), "{}", outcome.stdout);
    sandbox.refuses_like("kernel check images", |error| {
        assert!(error.starts_with("images is no folder of a kernel"), "{error}");
    });
}

#[test]
fn machines_refuse_what_they_cannot_learn_from() {
    let sandbox = sandbox();
    sandbox.put("one.csv", "a,b,where\n1,2,in\n2,3,in\n3,5,in\n4,4,in\n5,5,in\n");
    let regress = "kernel regress --data curve.csv --target y";
    let refuses = |line: &str, parts: &[&str]| {
        sandbox.refuses_like(line, |error| {
            for part in parts {
                assert!(error.contains(part), "{line}\n{error}\nhas no {part:?}");
            }
        });
    };
    sandbox.refuses(
        "kernel regress --kernel rbf",
        "a machine learns from examples; pass them with --data, or --run RUN",
    );
    sandbox.refuses(
        &format!("{regress} --solver newton"),
        "--solver newton is for classes; choose direct or pcg",
    );
    refuses(&format!("{regress} --kernel ntk"), &["--kernel ntk is of a network, or unknown"]);
    refuses(&format!("{regress} --lambda 0"), &["--lambda must be `path`, or a number above 0"]);
    refuses(&format!("{regress} --lambda few"), &["--lambda must be", "few"]);
    refuses(&format!("{regress} --length-scale wide"), &["--length-scale must be", "wide"]);
    refuses(&format!("{regress} --held-out 0.001"), &["--held-out 0.001 of 240 rows is 0"]);
    refuses(&format!("{regress} --weights trapezoid"), &["needs inputs on a grid", "curve.csv"]);
    refuses(
        "kernel classify --data one.csv --target where",
        &["one.csv: all examples are of class `in`; two classes are needed"],
    );
    refuses(&format!("{regress} --html curve.csv"), &["curve.csv"]);
    let few = "a,where\n1,in\n2,out\n3,by\n4,in\n";
    sandbox.put("few/train.csv", few).put("few/test.csv", few);
    refuses(
        "kernel classify --data few --target where",
        &["4 training rows are few for 3 classes; learn from at least two rows for each class"],
    );
    refuses(
        &format!("{regress} --memory 64 --rows 3000 --held-out 0.01 --solver newton"),
        &["--solver newton is for classes"],
    );
    sandbox.ok("train net --model mlp:4 --data rings.csv --target where --epochs 1 --out run");
    refuses("kernel regress --run run --kernel ck", &["has classes; use `kernel classify`"]);
    refuses(
        "kernel classify --run run --kernel ckj --solver pcg",
        &["ckj is solved by a decomposition of its features"],
    );
    refuses("kernel classify --run run --kernel entk", &["entk has no value for two inputs alone"]);
}
