//! `featurize`: specs and features.

use veridical::features::{FeatureMap, FeatureSpec, Normalize};
use veridical_core::Rows;

use super::*;

fn rows_f64(table: &VectorTable) -> Vec<Vec<f64>> {
    table
        .vectors
        .chunks_exact(table.dim)
        .map(|row| row.iter().map(|&x| x.into()).collect())
        .collect()
}

fn unit(rows: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let unit = |row: &Vec<f64>| {
        let norm = row.iter().map(|x| x * x).sum::<f64>().sqrt();
        row.iter().map(|x| x / norm).collect()
    };
    rows.iter().map(unit).collect()
}

fn median_distance(rows: &[Vec<f64>]) -> f64 {
    let mut distances = Vec::new();
    for (i, a) in rows.iter().enumerate() {
        for b in &rows[..i] {
            distances.push(a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt());
        }
    }
    distances.sort_by(f64::total_cmp);
    let n = distances.len();
    (distances[(n - 1) / 2] + distances[n / 2]) / 2.0
}

/// Rows are rounded to f32 after they are normalized: 6e-8 of a coordinate of at most 1.
const ROUNDED: f64 = 1e-6;

#[test]
fn apply_without_a_spec_uses_the_documented_defaults_and_writes_the_spec() {
    let sandbox = sandbox();
    let result = json(&sandbox, "featurize", "featurize apply t.parquet phi.parquet");
    let result = &result;
    assert_eq!(result["out"], "phi.parquet");
    assert_eq!(result["spec_path"], "phi.spec.json");
    assert_eq!(result["rows"], 200);
    let spec: Value = serde_json::from_str(&sandbox.text("phi.spec.json")).unwrap();
    for (field, value) in [
        ("kernel", "gaussian".into()),
        ("directions", "orthogonal".into()),
        ("normalize", "unit".into()),
        ("seed", 0.into()),
        ("input_dim", 5.into()),
        ("output_dim", Value::from(4 * 5)),
    ] {
        assert_eq!(spec[field], value, "{field}");
        assert_eq!(result["spec"][field], value, "{field}");
    }
    assert_close(&spec["length_scale"], median_distance(&unit(&rows_f64(&items()))), ROUNDED);
    assert_eq!(spec["spec_id"], result["spec"]["spec_id"]);
    assert_eq!(sandbox.names().len(), 4, "{:?}", sandbox.names()); // the folder, t, phi and the spec
}

#[test]
fn apply_writes_the_phi_of_its_spec_for_every_row_in_order() {
    let sandbox = sandbox();
    sandbox.ok("featurize apply t.parquet phi.parquet");
    let spec = FeatureSpec::from_json(&sandbox.text("phi.spec.json")).unwrap();
    let (table, phi) = (items(), sandbox.table("phi.parquet"));
    assert_eq!(phi.ids, table.ids);
    assert_eq!(
        phi.vectors,
        FeatureMap::new(&spec).unwrap().transform(Rows::new(&table.vectors, 5).unwrap()).unwrap()
    );
}

/// The spec written next to the output reproduces the output.
#[test]
fn the_spec_beside_the_output_gives_the_output_again() {
    let sandbox = sandbox();
    sandbox.ok("featurize apply t.parquet phi.parquet");
    sandbox.ok("featurize apply --spec phi.spec.json t.parquet again.parquet");
    assert!(sandbox.bytes("phi.parquet") == sandbox.bytes("again.parquet"));
    assert!(!sandbox.has("again.spec.json"));
}

#[test]
fn a_folder_has_its_spec_beside_it() {
    let sandbox = sandbox();
    sandbox.ok("featurize apply t.parquet phi/ --rows-per-part 150");
    assert!(sandbox.has("phi.spec.json"));
    assert_eq!(sandbox.table("phi").n_rows(), 200);
}

#[test]
fn new_writes_a_spec_that_describe_explains() {
    let sandbox = Sandbox::new();
    let line =
        "featurize new --input-dim 128 --output-dim 512 --seed 7 --length-scale 0.5 --out s.json";
    let new = json(&sandbox, "featurize", line);
    assert_eq!(new["out"], "s.json");
    let want = FeatureSpec::params(128, 512).seed(7).length_scale(0.5).build().unwrap();
    assert_eq!(sandbox.text("s.json"), want.to_json());

    let describe = json(&sandbox, "featurize", "featurize describe s.json");
    assert_eq!(describe["spec"], new["spec"]);
    assert_eq!(describe["spec"]["gamma"], 2.0);
    assert_eq!(describe["spec"]["n_directions"], 256);
    assert_eq!(describe["spec"]["bytes_per_row"], 2048);

    let text = sandbox.ok("featurize describe s.json");
    let line =
        |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap()[15..].to_owned();
    assert_eq!(line("map"), "128 -> 512 (256 directions, cos and sin of each)");
    assert_eq!(line("length scale"), "0.5 (gamma 2.000000)");
    assert_eq!(line("directions "), "orthogonal, seed 7");
    assert_eq!(line("rows"), "normalize unit");
    assert_eq!(line("size"), "2.0 KiB per row, 128.0 KiB for the directions");
    assert_eq!(line("spec id"), want.spec_id());
    assert_eq!(line("directions id"), want.directions_id());
}

#[test]
fn new_has_the_documented_defaults() {
    let sandbox = Sandbox::new();
    sandbox.ok("featurize new --input-dim 6 --out s.json");
    assert_eq!(sandbox.text("s.json"), FeatureSpec::params(6, 24).build().unwrap().to_json());
    sandbox.ok(
        "featurize new --input-dim 6 --gamma 0.125 --directions iid --normalize none --out g.json",
    );
    let spec: Value = serde_json::from_str(&sandbox.text("g.json")).unwrap();
    assert_eq!(spec["length_scale"], 2.0);
    assert_eq!((&spec["directions"], &spec["normalize"]), (&"iid".into(), &"none".into()));
}

#[test]
fn new_leaves_an_equal_spec_and_replaces_another_only_by_force() {
    let sandbox = Sandbox::new();
    sandbox.ok("featurize new --input-dim 6 --out s.json");
    sandbox.ok("featurize new --input-dim 6 --out s.json");
    assert_eq!(sandbox.run("featurize new --input-dim 7 --out s.json").code, Some(2));
    sandbox.ok("featurize new --input-dim 7 --out s.json --force");
    assert_eq!(sandbox.text("s.json"), FeatureSpec::params(7, 28).build().unwrap().to_json());
}

/// The document that `new` wrote.
fn new_spec(sandbox: &Sandbox, flags: &str) -> Value {
    sandbox.ok(&format!("featurize new --data t.parquet --out s.json --force {flags}"));
    serde_json::from_str(&sandbox.text("s.json")).unwrap()
}

#[test]
fn the_median_rule_is_the_median_distance() {
    let sandbox = sandbox();
    let rows = rows_f64(&items());
    let spec = new_spec(&sandbox, "");
    assert_close(&spec["length_scale"], median_distance(&unit(&rows)), ROUNDED);
    let spec = new_spec(&sandbox, "--length-scale median --normalize none");
    assert_close(&spec["length_scale"], median_distance(&rows), 1e-12);
}

/// gamma = 1 / (d var(X)) over all values of X.
#[test]
fn the_gamma_rule_is_that_of_scikit_learn() {
    let sandbox = sandbox();
    let rows = rows_f64(&items());
    let l = |rows: &[Vec<f64>]| (5.0 * variance(&rows.concat()) / 2.0).sqrt();
    let rule = "--length-scale sklearn-gamma-scale";
    let spec = new_spec(&sandbox, rule);
    assert_close(&spec["length_scale"], l(&unit(&rows)), ROUNDED);
    let spec = new_spec(&sandbox, &format!("{rule} --normalize none"));
    assert_close(&spec["length_scale"], l(&rows), 1e-12);
    // Standardized columns have variance 1 together.
    let spec = new_spec(&sandbox, &format!("{rule} --normalize standardize"));
    assert_close(&spec["length_scale"], 2.5f64.sqrt(), 1e-12);
}

#[test]
fn standardize_takes_means_and_deviations_from_the_data() {
    let sandbox = Sandbox::new();
    let mut table = items();
    table.vectors.iter_mut().skip(2).step_by(5).for_each(|x| *x = 7.0); // a constant column
    sandbox.put_table("t.parquet", &table);
    let spec = new_spec(&sandbox, "--normalize standardize --length-scale median");
    let rows = rows_f64(&table);
    let mut standardized = rows.clone();
    for k in 0..5 {
        let column: Vec<f64> = rows.iter().map(|row| row[k]).collect();
        let deviation = if k == 2 { 1.0 } else { variance(&column).sqrt() };
        assert_close(&spec["means"][k], mean(&column), 1e-12);
        assert_close(&spec["deviations"][k], deviation, 1e-12);
        standardized.iter_mut().for_each(|row| row[k] = (row[k] - mean(&column)) / deviation);
    }
    assert_close(&spec["length_scale"], median_distance(&standardized), ROUNDED);

    sandbox.ok("featurize apply --spec s.json t.parquet phi.parquet");
    let numbers = |field: &str| -> Vec<f64> {
        spec[field].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
    };
    let normalize =
        Normalize::Standardize { means: numbers("means"), deviations: numbers("deviations") };
    let spec = FeatureSpec::params(5, 20)
        .length_scale(spec["length_scale"].as_f64().unwrap())
        .normalize(normalize)
        .build()
        .unwrap();
    let phi =
        FeatureMap::new(&spec).unwrap().transform(Rows::new(&table.vectors, 5).unwrap()).unwrap();
    assert_eq!(sandbox.table("phi.parquet").vectors, phi);
}

/// c = f32(1 / sqrt(m)) is rounded once on either side, and each product once: 2^-22 in total.
#[test]
fn output_dim_cuts_phi_to_its_scaled_prefix() {
    let sandbox = sandbox();
    sandbox.ok("featurize new --data t.parquet --output-dim 20 --out s.json");
    let full = json(&sandbox, "featurize", "featurize apply --spec s.json t.parquet full.parquet");
    let cut = json(
        &sandbox,
        "featurize",
        "featurize apply --spec s.json --output-dim 6 t.parquet cut.parquet",
    );
    let spec = |result: &Value, field: &str| result["spec"][field].clone();
    assert_eq!(spec(&cut, "output_dim"), 6);
    assert_eq!(spec(&cut, "directions_id"), spec(&full, "directions_id"));
    assert_ne!(spec(&cut, "spec_id"), spec(&full, "spec_id"));

    let (full, cut) = (sandbox.table("full.parquet"), sandbox.table("cut.parquet"));
    assert_eq!((full.dim, cut.dim), (20, 6));
    let scale = (20.0f64 / 6.0).sqrt();
    for r in 0..200 {
        for (cut, full) in cut.row(r).iter().zip(full.row(r)) {
            let want = scale * f64::from(*full);
            assert!((f64::from(*cut) - want).abs() <= 2f64.powi(-22), "row {r}: {cut} {want}");
        }
    }
    sandbox.ok("featurize apply --spec s.json --output-dim 20 t.parquet same.parquet");
    assert!(sandbox.bytes("same.parquet") == sandbox.bytes("full.parquet"));
}

#[test]
fn output_dim_without_a_spec_is_the_width_of_phi() {
    let sandbox = sandbox();
    for dim in [6, 64] {
        sandbox.ok(&format!("featurize apply --output-dim {dim} t.parquet phi.parquet --force"));
        assert_eq!(sandbox.table("phi.parquet").dim, dim);
        let spec: Value = serde_json::from_str(&sandbox.text("phi.spec.json")).unwrap();
        assert_eq!(spec["output_dim"], dim);
    }
}

#[test]
fn f16_is_phi_rounded_to_half() {
    let sandbox = sandbox();
    sandbox.ok("featurize apply t.parquet phi.parquet");
    sandbox.ok("featurize apply --spec phi.spec.json t.parquet half.parquet --dtype f16");
    let (phi, half) = (sandbox.table("phi.parquet"), sandbox.table("half.parquet"));
    // Half a unit in the last place of values below 1/2.
    let close = |(a, b): (&f32, &f32)| (a - b).abs() <= 2f32.powi(-13);
    assert!(phi.vectors.iter().zip(&half.vectors).all(close));
    assert_ne!(phi.vectors, half.vectors);
    let stats = json(&sandbox, "vectors", "vectors stats half.parquet");
    assert_eq!(stats["dtype"], "f16");
}

#[test]
fn a_poor_length_scale_is_warned_about_with_a_better_one() {
    let sandbox = sandbox();
    let better = median_distance(&unit(&rows_f64(&items()))); // of 200 rows, all are sampled
    for (l, low, high) in [("0.01", 100, 0), ("100", 0, 100)] {
        sandbox.ok(&format!("featurize new --input-dim 5 --length-scale {l} --out s.json --force"));
        let warnings = sandbox.warnings("featurize apply --spec s.json t.parquet phi.csv --force");
        let warning = format!(
            "{low} % of the sampled kernel values are below 0.05 and {high} % above 0.95: phi \
             barely discriminates between rows; try --length-scale {better:.4} (the median distance) instead of {l}"
        );
        assert_eq!(warnings, [warning]);
    }
    sandbox.ok(&format!(
        "featurize new --input-dim 5 --length-scale {better:.4} --out s.json --force"
    ));
    assert!(sandbox.warnings("featurize apply --spec s.json t.parquet phi.csv --force").is_empty());
}

#[test]
fn a_large_projection_is_warned_about() {
    let sandbox = Sandbox::new();
    let mut table = items();
    table.vectors.iter_mut().for_each(|x| *x *= 1e5);
    sandbox.put_table("t.parquet", &table);
    let normalize = |l| FeatureSpec::params(5, 20).normalize(Normalize::None).length_scale(l);
    sandbox.put("s.json", normalize(1.0).build().unwrap().to_json());
    let line = "featurize apply --spec s.json t.parquet phi.csv --force";
    let largest = json(&sandbox, "featurize", line)["largest_projection"].as_f64().unwrap();
    assert!(largest > 1e5);
    let warnings = sandbox.warnings(line);
    let warning = format!(
        "|u.h| reaches {largest:.3e}: tiny changes of h change phi completely; use a larger length \
         scale or normalize the rows"
    );
    assert!(warnings.contains(&warning), "{warnings:?}");
    sandbox.put("s.json", normalize(2e5).build().unwrap().to_json());
    assert!(sandbox.warnings(line).is_empty());
}

#[test]
fn features_carry_their_spec() {
    let sandbox = sandbox();
    sandbox.ok("featurize apply t.parquet phi.parquet");
    let spec = sandbox.text("phi.spec.json");
    let file = std::fs::File::open(sandbox.path("phi.parquet")).unwrap();
    let reader = parquet::file::reader::SerializedFileReader::new(file).unwrap();
    let metadata = parquet::file::reader::FileReader::metadata(&reader);
    let pairs = metadata.file_metadata().key_value_metadata().unwrap();
    let found = pairs.iter().find(|pair| pair.key == "veridical.spec").unwrap();
    assert_eq!(found.value.as_deref(), Some(&*spec));

    sandbox.ok("featurize apply --spec phi.spec.json t.parquet phi.arrow");
    let file = std::fs::File::open(sandbox.path("phi.arrow")).unwrap();
    let reader = arrow_ipc::reader::FileReader::try_new(file, None).unwrap();
    assert_eq!(reader.schema().metadata()["veridical.spec"], spec);
}
