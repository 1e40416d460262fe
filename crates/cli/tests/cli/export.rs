//! `featurize export`: outputs, printed text and errors.

use veridical::features::{FeatureSpec, Normalize, directions};

use crate::common::*;

fn spec() -> FeatureSpec {
    FeatureSpec::params(3, 8).seed(5).build().unwrap()
}

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.put("spec.json", spec().to_json());
    sandbox
}

#[test]
fn the_result_names_every_file_and_its_size() {
    let sandbox = sandbox();
    let cases = [
        ("phi.onnx", "onnx", vec!["phi.onnx"]),
        ("u.safetensors", "safetensors", vec!["u.safetensors"]),
        (
            "model --to saved-model",
            "saved-model",
            vec!["model/assets.extra/spec.json", "model/saved_model.pb"],
        ),
        ("x.onnx --external-data", "onnx", vec!["x.onnx", "x.onnx.data"]),
        (
            "values --to conformance",
            "conformance",
            vec![
                "values/README.md",
                "values/directions.json",
                "values/directions.npy",
                "values/inputs.json",
                "values/inputs.npy",
                "values/phi.json",
                "values/phi.npy",
                "values/spec.json",
            ],
        ),
    ];
    for (out, to, files) in cases {
        let line = format!("featurize export --spec spec.json --out {out}");
        let result = json(&sandbox, "featurize", &line);
        let result = &result;
        assert_eq!(result["to"], to);
        assert_eq!(result["spec"]["spec_id"], spec().spec_id());
        let named: Vec<&str> = result["files"]
            .as_array()
            .unwrap()
            .iter()
            .map(|file| {
                let path = file["path"].as_str().unwrap();
                assert_eq!(file["bytes"], sandbox.bytes(path).len(), "{path}");
                path
            })
            .collect();
        assert_eq!(named, files);
    }
    let hidden = |path: &&std::path::PathBuf| path.to_string_lossy().contains(".tmp");
    assert_eq!(sandbox.names().iter().filter(hidden).count(), 0);
}

#[test]
fn the_summary_is_short() {
    let sandbox = sandbox();
    let text = sandbox.ok("featurize export --spec spec.json --out u.safetensors");
    let size = sandbox.bytes("u.safetensors").len();
    let want =
        format!("safetensors, 3 -> 8\nu.safetensors ({size} bytes)\nspec {}\n", spec().spec_id());
    assert_eq!(text, want);
}

#[test]
fn a_prefix_has_the_first_directions_and_a_spec_of_its_own() {
    let sandbox = sandbox();
    sandbox.ok("featurize export --spec spec.json --output-dim 4 --to conformance --out values");
    let prefix = spec().prefix(4).unwrap();
    assert_eq!(sandbox.text("values/spec.json"), prefix.to_json());
    assert_eq!(sandbox.table("values/directions.npy").vectors, directions::matrix(&prefix));
    assert_eq!(sandbox.table("values/phi.npy").dim, 4);
}

#[test]
fn a_conformance_folder_of_a_map_with_extreme_columns_leaves_rows_out() {
    let sandbox = Sandbox::new();
    let normalize = Normalize::Standardize { means: vec![0.0; 3], deviations: vec![1e-38; 3] };
    let spec = FeatureSpec::params(3, 8).normalize(normalize).build().unwrap();
    sandbox.put("spec.json", spec.to_json());
    sandbox.ok("featurize export --spec spec.json --to conformance --out values");
    let readme = sandbox.text("values/README.md");
    assert!(readme.contains("| zero |") && readme.contains("| normal 7 |"), "{readme}");
    assert!(!readme.contains("| huge |"), "{readme}");
}

// Errors

const EXPORT: &str = "featurize export --spec spec.json --out";

#[test]
fn an_export_of_a_spec_that_is_missing_or_edited_is_refused() {
    let sandbox = sandbox();
    sandbox.refuses(
        "featurize export --spec nowhere.json --out phi.onnx",
        "nowhere.json: cannot open: No such file or directory (os error 2)",
    );
    sandbox.put("edited.json", spec().to_json().replace("\"seed\": 5", "\"seed\": 6"));
    sandbox.refuses_like("featurize export --spec edited.json --out phi.onnx", |error| {
        let start = "edited.json: the spec_id does not match the fields: the document says ";
        assert!(error.starts_with(start), "{error}");
    });
    sandbox.refuses(
        &format!("{EXPORT} phi.onnx --output-dim 10"),
        "output_dim must be at most the spec's output_dim 8, got 10",
    );
}

#[test]
fn a_format_that_is_not_clear_is_refused() {
    let sandbox = sandbox();
    for out in ["phi", "phi.pb", "model.tflite", "folder/"] {
        sandbox.refuses(
            &format!("{EXPORT} {out}"),
            &format!(
                "{out}: cannot infer the export format from the file extension; pass --to onnx, saved-model, \
                 safetensors or conformance"
            ),
        );
    }
    sandbox.refuses(
        &format!("{EXPORT} phi.onnx --to safetensors"),
        "phi.onnx: --to safetensors does not match this file extension; choose another name or leave out \
         --to",
    );
    sandbox.refuses(
        &format!("{EXPORT} u.safetensors --external-data"),
        "--external-data is for --to onnx",
    );
    sandbox.refuses(
        &format!("{EXPORT} phi --to tflite"),
        "--to must be one of onnx, saved-model, safetensors, conformance, got tflite",
    );
}

#[test]
fn an_output_that_is_there_is_replaced_only_by_force_and_only_if_it_is_an_export() {
    let sandbox = sandbox();
    sandbox
        .put("phi.onnx", "precious")
        .put("a.onnx.data", "precious")
        .put("values/precious", "")
        .put("folder.onnx/precious", "");
    let exists = "already exists; choose another name or replace it with --force";
    sandbox.refuses(&format!("{EXPORT} phi.onnx"), &format!("phi.onnx {exists}"));
    let line = format!("{EXPORT} a.onnx --external-data");
    sandbox.refuses(&line, &format!("a.onnx.data {exists}"));
    for to in ["saved-model", "conformance"] {
        let line = format!("{EXPORT} values --to {to}");
        sandbox.refuses(&line, &format!("values {exists}"));
        sandbox.refuses(
            &format!("{line} --force"),
            "values contains files that are not part of an export; choose another name",
        );
        let line = format!("{EXPORT} spec.json --to {to} --force");
        let error = "--out spec.json: this is the input of --spec; no input is ever overwritten; choose another name";
        sandbox.refuses(&line, error);
        let line = format!("{EXPORT} values/precious --to {to} --force");
        sandbox.refuses(&line, "values/precious is a file; name a new folder");
        let line = format!("{EXPORT} . --to {to} --force");
        let error = "--out .: the input of --spec, spec.json, is inside it; no input is ever overwritten; choose another name";
        sandbox.refuses(&line, error);
        let line = format!("{EXPORT} .. --to {to} --force");
        sandbox.refuses_like(&line, |error| assert!(error.contains("is inside it"), "{error}"));
    }
    let line = format!("{EXPORT} folder.onnx --force");
    sandbox.refuses(&line, "folder.onnx is a folder; name a file");
    sandbox.refuses(&format!("{EXPORT} new.onnx/"), "new.onnx/ is a folder; name a file");

    sandbox.ok(&format!("{EXPORT} phi.onnx --force"));
    assert!(sandbox.bytes("phi.onnx") != b"precious");
    sandbox.ok(&format!("{EXPORT} model --to saved-model"));
    sandbox.ok(&format!("{EXPORT} model --to saved-model --force --output-dim 4"));
}

#[test]
fn an_output_that_cannot_be_written_is_refused() {
    let sandbox = sandbox();
    for out in ["no/phi.onnx", "no/u.safetensors"] {
        sandbox.refuses(
            &format!("{EXPORT} {out}"),
            "no does not exist or is not a folder; create it first",
        );
    }
    for (out, place) in
        [("/proc/phi.onnx", "/proc/phi.onnx"), ("/proc/m --to conformance", "/proc/m")]
    {
        sandbox.refuses_like(&format!("{EXPORT} {out}"), |error| {
            assert!(error.starts_with(&format!("{place}: cannot write: ")), "{error}");
        });
    }
}

/// TensorFlow Serving takes `models/NAME/VERSION`.
#[test]
fn folders_above_an_exported_folder_are_created() {
    let sandbox = sandbox();
    for (out, file) in [
        ("models/phi/1 --to saved-model", "models/phi/1/saved_model.pb"),
        ("models/phi/2 --to saved-model", "models/phi/2/saved_model.pb"),
        ("new/conformance --to conformance", "new/conformance/README.md"),
    ] {
        sandbox.ok(&format!("{EXPORT} {out}"));
        assert!(sandbox.has(file), "{file}");
    }
    sandbox.refuses_like(&format!("{EXPORT} spec.json/m --to saved-model"), |error| {
        assert!(error.starts_with("spec.json does not exist or is not a folder"), "{error}");
    });
}

#[test]
fn directions_too_large_for_a_saved_model_are_refused_before_they_are_drawn() {
    let sandbox = Sandbox::new();
    let spec = FeatureSpec::params(1 << 10, 1 << 21).build().unwrap();
    sandbox.put("spec.json", spec.to_json());
    sandbox.refuses(
        &format!("{EXPORT} model --to saved-model"),
        "the directions take 4294967296 bytes and a SavedModel holds at most 2 GiB; export with --to \
         onnx, which keeps them in a file beside the model, or cut phi with --output-dim",
    );
}

#[test]
fn directions_outside_the_range_of_f32_are_refused() {
    let sandbox = Sandbox::new();
    for l in [1e-40, 1e40] {
        let spec = FeatureSpec::params(3, 8).length_scale(l).build().unwrap();
        sandbox.put("spec.json", spec.to_json());
        for out in ["phi.onnx", "u.safetensors", "m --to saved-model", "m --to conformance"] {
            sandbox.refuses(
                &format!("{EXPORT} {out}"),
                &format!(
                    "length_scale must be such that the directions stay within the range of f32, \
                     got {l}"
                ),
            );
        }
    }
}
