//! The commands on real data: the class vectors of a trained network, MovieLens-1M, where available.
//!
//! Looks in `$VERIDICAL_DATA`, else in `../shared/data` beside the checkout; skips with a message
//! where it is absent.

use std::path::PathBuf;

use assert_cmd::Command;

fn data(name: &str) -> Option<PathBuf> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");
    let folder = std::env::var_os("VERIDICAL_DATA").map_or_else(|| beside.into(), PathBuf::from);
    let path = folder.join(name);
    if path.exists() {
        return Some(path);
    }
    eprintln!(
        "skipped: {} is absent; set VERIDICAL_DATA to the folder of data sets",
        path.display()
    );
    None
}

#[test]
fn class_vectors_of_a_trained_network_are_featurized() {
    let Some(network) = data("models/resnet20-cifar10.safetensors") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let veridical = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_veridical"));
        let output =
            command.current_dir(&folder).args(args).assert().success().get_output().clone();
        String::from_utf8(output.stdout).expect("results are text")
    };
    let network = network.to_str().expect("a path in UTF-8");
    veridical(&["featurize", "apply", network, "phi.parquet", "--tensor", "linear.weight"]);
    let stats: serde_json::Value =
        serde_json::from_str(&veridical(&["vectors", "stats", "phi.parquet", "--json"]))
            .expect("JSON");
    assert_eq!(stats["rows"], 10);
    assert_eq!(stats["dim"], 4 * 64);
    let norms = stats["norm_quantiles"].as_array().expect("five quantiles");
    assert!(
        norms.iter().all(|norm| (norm.as_f64().unwrap_or(0.0) - 1.0).abs() < 1e-5),
        "{norms:?}"
    );
}

/// 4,247 of the 6,040 users have more than 50 of the 1,000,209 ratings.
#[test]
fn movielens_is_trained_on_and_evaluated_beside_popularity() {
    let Some(ratings) = data("ml-1m/ratings.dat.xz") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let veridical = |args: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_veridical"));
        let args = args.split_whitespace();
        let output =
            command.current_dir(&folder).args(args).assert().success().get_output().clone();
        String::from_utf8(output.stdout).expect("results are text")
    };
    let ratings = ratings.to_str().expect("a path in UTF-8");
    let split = "--split per-user:50 --short-users drop";
    veridical(&format!(
        "train bpr --interactions {ratings} {split} --dim 32 --epochs 10 --out run --quiet"
    ));
    let evaluated = veridical("evaluate --run run --baselines pop --k 10 --json --quiet");
    let evaluated: serde_json::Value = serde_json::from_str(&evaluated).expect("JSON");
    assert_eq!(evaluated["test_rows"], 728_621);
    let ndcg = |model: usize| {
        let full = &evaluated["models"][model]["protocols"][0];
        assert_eq!(
            (&full["protocol"], &full["measures"][0]["name"]),
            (&"full".into(), &"ndcg@10".into())
        );
        assert_eq!(full["measures"][0]["n"], 4_247);
        full["measures"][0]["value"].as_f64().expect("a number")
    };
    assert!(ndcg(0) > ndcg(1), "{} {}", ndcg(0), ndcg(1));
}
