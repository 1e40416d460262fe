//! Comparison with scikit-learn (`tests/oracles/learn`).

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use serde_json::Value;
use veridical_core::Rows;
use veridical_learn::{Logistic, LogisticSettings, Metric, OneVsRest, knn_predict};

fn oracle() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/oracles/learn/learn.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The rows that the reference script computes.
fn rows(n: usize, dim: usize, salt: usize) -> Vec<f32> {
    let value = |i: usize, j: usize| {
        let hash = (i * 7919 + j * 104_729 + i * j * 31 + i * i * 17) % 1009;
        (hash as f64 / 504.5 - 1.0) as f32
    };
    (0..n).flat_map(|i| (0..dim).map(move |j| value(i + salt, j))).collect()
}

fn size(case: &Value, key: &str) -> usize {
    case[key].as_u64().unwrap() as usize
}

fn numbers<T: serde::de::DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap()
}

/// Both gradients are below about 1e-8, and the Hessian is at least 1 / (C n) > 5e-5: weights agree to 1e-3, and losses
/// to the square of that. The required accuracy of the loss is 1e-6.
fn compare(fit: &Logistic, case: &Value) {
    let loss = case["loss"].as_f64().unwrap();
    assert!(fit.converged);
    assert!((fit.loss - loss).abs() <= 1e-6 * loss, "{} instead of {loss}", fit.loss);
    let close = |got: &[f64], want: Vec<f64>| {
        got.iter().zip(want).all(|(g, w)| (g - w).abs() < 1e-3 * (1.0 + w.abs()))
    };
    assert!(close(&fit.weights, numbers(&case["weights"])), "weights, C = {}", case["c"]);
    assert!(close(&fit.intercepts, numbers(&case["intercepts"])), "intercepts, C = {}", case["c"]);
}

#[test]
fn softmax_regression_has_scikit_learns_minimum() {
    for case in oracle()["softmax"].as_array().unwrap() {
        let (n, dim) = (size(case, "n"), size(case, "dim"));
        let settings = LogisticSettings {
            c: case["c"].as_f64().unwrap(),
            tolerance: 1e-8,
            ..Default::default()
        };
        let labels: Vec<u32> = numbers(&case["labels"]);
        let rows = rows(n, dim, 0);
        compare(
            &Logistic::fit(
                Rows::new(&rows, dim).unwrap(),
                &labels,
                size(case, "classes"),
                &settings,
                None,
            )
            .unwrap(),
            case,
        );
        // The default tolerance keeps the accuracy of the loss too.
        let settings = LogisticSettings { c: settings.c, ..Default::default() };
        let fit = Logistic::fit(
            Rows::new(&rows, dim).unwrap(),
            &labels,
            size(case, "classes"),
            &settings,
            None,
        )
        .unwrap();
        let loss = case["loss"].as_f64().unwrap();
        assert!((fit.loss - loss).abs() <= 1e-6 * loss, "{} instead of {loss}", fit.loss);
    }
}

#[test]
fn one_against_the_rest_has_scikit_learns_minimum() {
    for case in oracle()["one_vs_rest"].as_array().unwrap() {
        let (n, dim) = (size(case, "n"), size(case, "dim"));
        let settings = LogisticSettings {
            c: case["c"].as_f64().unwrap(),
            tolerance: 1e-8,
            ..Default::default()
        };
        let sets: Vec<Vec<u32>> = numbers(&case["sets"]);
        let rows = rows(n, dim, 0);
        let fit =
            OneVsRest::fit(Rows::new(&rows, dim).unwrap(), &sets, size(case, "classes"), &settings)
                .unwrap();
        compare(&fit.0, case);
        let predicted: Vec<Vec<u32>> = numbers(&case["predicted"]);
        assert_eq!(fit.predict(&rows), predicted);
    }
}

#[test]
fn neighbors_vote_as_in_scikit_learn() {
    for case in oracle()["knn"].as_array().unwrap() {
        let (n, dim) = (size(case, "n"), size(case, "dim"));
        let metric = if case["metric"] == "cosine" { Metric::Cosine } else { Metric::Euclidean };
        let labels: Vec<u32> = numbers(&case["labels"]);
        let (classes, k) = (size(case, "classes"), size(case, "k"));
        let got = knn_predict(
            Rows::new(&rows(n, dim, 0), dim).unwrap(),
            &labels,
            classes,
            Rows::new(&rows(40, dim, 5000), dim).unwrap(),
            k,
            metric,
        )
        .unwrap();
        let want: Vec<u32> = numbers(&case["predicted"]);
        assert_eq!(got, want, "{} {k}", case["metric"]);
    }
}
