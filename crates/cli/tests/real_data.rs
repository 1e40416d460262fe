//! The commands on a real table: the class vectors of a trained network, if the data is there.
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
fn class_vectors_of_a_trained_network_are_featurised() {
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
    assert_eq!(stats["result"]["rows"], 10);
    assert_eq!(stats["result"]["dim"], 4 * 64);
    let norms = stats["result"]["norm_quantiles"].as_array().expect("five quantiles");
    assert!(
        norms.iter().all(|norm| (norm.as_f64().unwrap_or(0.0) - 1.0).abs() < 1e-5),
        "{norms:?}"
    );
}
