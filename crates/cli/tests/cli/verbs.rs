//! What every verb does, says and prints.

use std::io::Write as _;
use std::sync::Arc;

use crate::common::*;
use arrow_array::{
    ArrayRef, Float32Array, Int8Array, Int32Array, LargeStringArray, StringArray, UInt16Array,
    UInt32Array, UInt64Array,
};
use serde_json::Value;
use veridical::features::{FeatureMap, FeatureSpec, Normalize};
use veridical_data::{Ids, Table};

/// 200 rows of width 5 with lengths that vary.
fn items() -> Table {
    let mut table = named_rows(200, 5);
    for (r, row) in table.vectors.chunks_exact_mut(5).enumerate() {
        row.iter_mut().for_each(|x| *x *= 1.0 + (r % 7) as f32);
    }
    table
}

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.put_table("t.parquet", &items());
    sandbox
}

fn rows_f64(table: &Table) -> Vec<Vec<f64>> {
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

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Population variance, as NumPy's.
fn variance(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / values.len() as f64
}

#[track_caller]
fn assert_close(got: &Value, want: f64, tolerance: f64) {
    let got = got.as_f64().unwrap();
    assert!((got - want).abs() <= tolerance * want.abs().max(1.0), "got {got}, want {want}");
}

/// Rows are rounded to f32 after they are normalized: 6e-8 of a coordinate of at most 1.
const ROUNDED: f64 = 1e-6;

// featurize

#[test]
fn apply_without_a_spec_uses_the_documented_defaults_and_writes_the_spec() {
    let sandbox = sandbox();
    let result = json(&sandbox, "featurize", "featurize apply t.parquet phi.parquet");
    assert_eq!(result["action"], "apply");
    let result = &result["result"];
    assert_eq!(result["output"], "phi.parquet");
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
    assert_eq!(phi.vectors, FeatureMap::new(&spec).unwrap().transform(&table.vectors).unwrap());
}

/// With the spec that was written beside the output the same output comes again.
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
    assert_eq!((&new["action"], &new["out"]), (&"new".into(), &"s.json".into()));
    let want = FeatureSpec::params(128, 512).seed(7).length_scale(0.5).build().unwrap();
    assert_eq!(sandbox.text("s.json"), want.to_json());

    let describe = json(&sandbox, "featurize", "featurize describe s.json");
    assert_eq!(describe["action"], "describe");
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
    assert_eq!(line("size"), "2.0 KiB per row, 128.0 KiB of directions");
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
    // Standardised columns have variance 1 together.
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
    let phi = FeatureMap::new(&spec).unwrap().transform(&table.vectors).unwrap();
    assert_eq!(sandbox.table("phi.parquet").vectors, phi);
}

/// c = f32(1 / sqrt(m)) is rounded once on either side, and each product once: 2^-22 in all.
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
    let spec = |result: &Value, field: &str| result["result"]["spec"][field].clone();
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
    assert_eq!(stats["result"]["dtype"], "f16");
}

#[test]
fn a_poor_length_scale_is_warned_about_with_a_better_one() {
    let sandbox = sandbox();
    let better = median_distance(&unit(&rows_f64(&items()))); // of 200 rows, all are sampled
    for (l, low, high) in [("0.01", 100, 0), ("100", 0, 100)] {
        sandbox.ok(&format!("featurize new --input-dim 5 --length-scale {l} --out s.json --force"));
        let warnings = sandbox.warnings("featurize apply --spec s.json t.parquet phi.csv --force");
        let warning = format!(
            "{low} % of the sampled kernel values are below 0.05 and {high} % above 0.95: phi tells \
             little apart; try --length-scale {better:.4} (the median distance) instead of {l}"
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
    let largest =
        json(&sandbox, "featurize", line)["result"]["largest_projection"].as_f64().unwrap();
    assert!(largest > 1e5);
    let warnings = sandbox.warnings(line);
    let warning = format!(
        "|u.h| reaches {largest:.3e}: phi turns around at tiny changes of h; use a larger length \
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

// vectors

#[test]
fn head_shows_the_first_rows() {
    let sandbox = Sandbox::new();
    sandbox.put("t.csv", "id,a,b\nx,1,-2.5\nlong,0.123456,3\nz,5,6\n");
    let text = sandbox.ok("vectors head t.csv --rows 2");
    assert_eq!(text, "x      1.00000  -2.50000\nlong   0.12346   3.00000\n");
    let head = json(&sandbox, "vectors", "vectors head t.csv -n 2");
    assert_eq!(head["action"], "head");
    assert_eq!(head["result"]["dim"], 2);
    assert_eq!(head["result"]["ids"], serde_json::json!(["x", "long"]));
    assert_eq!(head["result"]["rows"][0], serde_json::json!([1.0, -2.5]));
    let all = json(&sandbox, "vectors", "vectors head t.csv");
    assert_eq!(all["result"]["ids"].as_array().unwrap().len(), 3);
    assert_eq!(sandbox.ok("vectors head t.csv --rows 0"), "");
}

#[test]
fn head_of_wide_rows_says_how_wide_they_are() {
    let sandbox = Sandbox::new();
    sandbox.put_table(
        "t.npy",
        &Table { ids: Ids::Int(vec![0].into()), dim: 8, vectors: vec![1.0; 8] },
    );
    assert_eq!(
        sandbox.ok("vectors head t.npy"),
        format!("0 {} ... (8)\n", ["  1.00000"; 6].join(" "))
    );
}

#[test]
fn stats_sum_a_table_up() {
    let sandbox = Sandbox::new();
    sandbox.put("t.csv", "id,a,b,c\n1,3,4,0\n2,0,0,0\n3,nan,1,1\n4,-6,8,0\n5,1,inf,\n");
    let stats = json(&sandbox, "vectors", "vectors stats t.csv");
    assert_eq!(stats["action"], "stats");
    let stats = &stats["result"];
    for (field, value) in [
        ("rows", Value::from(3)),
        ("dim", 3.into()),
        ("dtype", "f32".into()),
        ("ids", "integer".into()),
        ("rows_not_finite", 2.into()),
        ("zero_rows", 1.into()),
        ("constant_columns", 1.into()),
        ("min", (-6.0).into()),
        ("max", 8.0.into()),
        ("norms_sampled", 3.into()),
    ] {
        assert_eq!(stats[field], value, "{field}");
    }
    let values = [3.0, 4.0, 0.0, 0.0, 0.0, 0.0, -6.0, 8.0, 0.0];
    assert_close(&stats["mean"], mean(&values), 1e-12);
    assert_close(&stats["deviation"], variance(&values).sqrt(), 1e-12);
    // Norms 0, 5, 10; 5 % lies at a tenth of the way from 0 to 5.
    for (got, want) in
        stats["norm_quantiles"].as_array().unwrap().iter().zip([0.0, 0.5, 5.0, 9.5, 10.0])
    {
        assert_close(got, want, 1e-12);
    }
    let text = sandbox.ok("vectors stats t.csv");
    assert!(text.starts_with("rows              3\ndim               3 (f32)\n"), "{text}");
    assert!(text.contains("\nnot finite        2 rows\nzero              1 rows\n"), "{text}");
}

#[test]
fn convert_takes_a_table_through_every_format() {
    let sandbox = sandbox();
    let formats = ["arrow", "feather", "ipc", "safetensors", "csv", "tsv", "pq", "parquet"];
    let mut last = "t.parquet".to_owned();
    for format in formats {
        let next = format!("next.{format}");
        let result = json(&sandbox, "vectors", &format!("vectors convert {last} {next}"));
        assert_eq!(result["action"], "convert");
        assert_eq!(result["result"]["output"], next);
        assert_eq!((&result["result"]["rows"], &result["result"]["dim"]), (&200.into(), &5.into()));
        assert_eq!(sandbox.table(&next), items(), "{format}");
        last = next;
    }
    sandbox.ok("vectors convert t.parquet next.npy --drop-ids");
    assert_eq!(sandbox.table("next.npy").vectors, items().vectors);
}

/// zero_rows of a conversion must not say 0 where there are some.
#[test]
fn convert_does_not_report_what_it_did_not_count() {
    let sandbox = Sandbox::new();
    sandbox.put("t.csv", "id,a\n1,0\n2,1\n");
    let result = json(&sandbox, "vectors", "vectors convert t.csv out.csv");
    let zero_rows = &result["result"]["zero_rows"];
    assert!(zero_rows.is_null() || *zero_rows == 1, "{result}");
}

#[test]
fn convert_rounds_to_f16() {
    let sandbox = Sandbox::new();
    sandbox.put("t.csv", "id,a,b,c\n1,0.1,-2,65504\n");
    for format in ["parquet", "arrow", "safetensors", "csv"] {
        sandbox.ok(&format!("vectors convert t.csv out.{format} --dtype f16"));
        let out = sandbox.table(&format!("out.{format}"));
        assert_eq!(out.vectors, [0.099_975_586, -2.0, 65504.0], "{format}");
    }
    let size = |name: &str| sandbox.bytes(name).len();
    sandbox.put_table("wide.npy", &rows(100, 50));
    sandbox.ok("vectors convert wide.npy half.npy --dtype f16");
    assert_eq!(size("half.npy") - 128, 100 * 50 * 2);
}

#[test]
fn compression_makes_parquet_smaller_and_changes_no_value() {
    let sandbox = Sandbox::new();
    let table = Table { vectors: vec![0.5; 4000], ..rows(1000, 4) };
    sandbox.put_table("t.parquet", &table);
    sandbox.ok("vectors convert t.parquet plain.parquet");
    sandbox.ok("vectors convert t.parquet small.parquet --compression zstd");
    assert!(sandbox.bytes("small.parquet").len() < sandbox.bytes("plain.parquet").len() / 2);
    assert_eq!(sandbox.table("small.parquet"), table);
}

#[test]
fn rows_per_part_writes_a_folder_of_any_format() {
    let sandbox = sandbox();
    for format in ["parquet", "arrow", "safetensors", "csv", "tsv"] {
        sandbox.ok(&format!(
            "vectors convert t.parquet {format} --rows-per-part 90 --format {format}"
        ));
        let names: Vec<String> =
            sandbox.below(format).keys().map(|p| p.display().to_string()).collect();
        let part = |i| format!("part-0000{i}.{format}");
        assert_eq!(names, [String::new(), part(0), part(1), part(2)]);
        assert_eq!(sandbox.table(format), items(), "{format}");
    }
    // As many rows as two parts hold: no third one.
    sandbox.ok("vectors convert t.parquet even --rows-per-part 100");
    assert_eq!(sandbox.below("even").len(), 1 + 2);
}

#[test]
fn force_replaces_a_folder_with_all_that_is_in_it() {
    let sandbox = sandbox();
    sandbox.ok("vectors convert t.parquet out --rows-per-part 50");
    sandbox.ok("vectors convert t.parquet out --rows-per-part 100 --force");
    assert_eq!(sandbox.below("out").len(), 1 + 2);
    assert_eq!(sandbox.table("out"), items());
}

// Reading

#[test]
fn folders_with_keys_give_columns() {
    let sandbox = Sandbox::new();
    sandbox.put("d/day=mon/shop=1/a.csv", "id,title,a\n1,x,1\n");
    sandbox.put("d/day=tue/shop=2/a.csv", "id,title,a\n2,\"y, z\",2\n3,w,3\n");
    sandbox.ok("vectors convert d out.csv --keep-columns day,title,shop");
    let want = "id,v0,day,title,shop\n1,1,mon,x,1\n2,2,tue,\"y, z\",2\n3,3,tue,w,2\n";
    assert_eq!(sandbox.text("out.csv"), want);
    sandbox.ok("vectors convert d out.parquet --keep-columns day,title,shop");
    sandbox.ok("vectors convert out.parquet again.csv --keep-columns day,title,shop");
    assert_eq!(sandbox.text("again.csv"), want);
}

#[test]
fn what_other_programs_leave_in_folders_is_skipped() {
    let sandbox = Sandbox::new();
    sandbox.put_table("d/part-0.parquet", &items());
    for name in [
        "_SUCCESS",
        ".hidden",
        ".part-0.parquet.crc",
        "part-0.parquet.crc",
        "_tmp/x.parquet",
        ".git/y.csv",
    ] {
        sandbox.put(&format!("d/{name}"), "not a table");
    }
    sandbox.ok("vectors convert d out.parquet");
    assert_eq!(sandbox.table("out.parquet"), items());
}

/// Spark leaves files without rows where a partition had none.
#[test]
fn a_file_without_rows_among_others_is_passed_over() {
    let sandbox = Sandbox::new();
    let table = items();
    for name in ["part-0", "part-2", "part-4"] {
        let empty = vec![
            ("id", Arc::new(StringArray::from(Vec::<&str>::new())) as ArrayRef),
            ("vector", lists(&[])),
        ];
        sandbox.put_parquet(&format!("d/{name}.parquet"), empty);
    }
    sandbox.put_table("d/part-1.parquet", &slice(&table, 0, 80));
    sandbox.put_table("d/part-3.parquet", &slice(&table, 80, 200));
    sandbox.ok("vectors convert d out.parquet");
    assert_eq!(sandbox.table("out.parquet"), table);
}

#[test]
fn kept_columns_of_any_type_follow_their_rows() {
    let sandbox = Sandbox::new();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("title", Arc::new(StringArray::from(vec![Some("x"), None]))),
        ("id", numbers(2)),
        ("price", Arc::new(Float32Array::from(vec![1.5, 2.5]))),
        ("v", lists(&[&[1.0, 2.0], &[3.0, 4.0]])),
        ("stock", Arc::new(Int8Array::from(vec![-1, 7]))),
    ];
    sandbox.put_parquet("t.parquet", columns);
    sandbox.ok("vectors convert t.parquet out.csv --keep-columns stock,title,price");
    assert_eq!(
        sandbox.text("out.csv"),
        "id,v0,v1,stock,title,price\n0,1,2,-1,x,1.5\n1,3,4,7,,2.5\n"
    );
    sandbox.ok("featurize apply t.parquet phi.parquet --keep-columns stock,title,price");
    sandbox.ok("vectors convert phi.parquet phi.csv --keep-columns stock,title,price");
    assert!(sandbox.text("phi.csv").lines().nth(2).unwrap().ends_with(",7,,2.5"));
}

#[test]
fn ids_come_from_a_second_file() {
    let sandbox = Sandbox::new();
    sandbox.put_table("t.npy", &rows(3, 2));
    sandbox.put("ids.txt", "a\nb\nc\n").put("windows.txt", "a\r\nb\r\nc\r\n");
    sandbox.put("only.csv", "name\na\nb\nc\n").put("id.csv", "n,id\n1,a\n2,b\n3,c\n");
    sandbox.put("key.tsv", "n\tkey\n1\ta\n2\tb\n3\tc\n");
    let text = || Arc::new(StringArray::from(vec!["a", "b", "c"])) as ArrayRef;
    sandbox.put_parquet("only.parquet", vec![("name", text())]);
    sandbox.put_parquet("id.parquet", vec![("n", numbers(3)), ("id", text())]);
    for ids in ["ids.txt", "windows.txt", "only.csv", "id.csv", "only.parquet", "id.parquet"] {
        sandbox.ok(&format!("vectors convert t.npy out.parquet --ids {ids} --force"));
        let out = sandbox.table("out.parquet");
        assert_eq!(out.ids, Ids::Text(vec!["a", "b", "c"].into()), "{ids}");
        assert_eq!(out.vectors, rows(3, 2).vectors);
    }
    sandbox.put("numbers.txt", "7\n8\n-9\n");
    sandbox.ok("featurize apply t.npy phi.parquet --ids numbers.txt");
    assert_eq!(sandbox.table("phi.parquet").ids, Ids::Int(vec![7, 8, -9].into()));
}

/// `--id-column` names the column of the file of ids: the table itself has none.
#[test]
fn id_column_chooses_in_the_file_of_ids() {
    let sandbox = Sandbox::new();
    sandbox.put_table("t.npy", &rows(2, 2));
    sandbox.put("ids.csv", "n,key\n1,a\n2,b\n");
    sandbox.ok("vectors convert t.npy out.parquet --ids ids.csv --id-column key");
    assert_eq!(sandbox.table("out.parquet").ids, Ids::Text(vec!["a", "b"].into()));
}

#[test]
fn a_table_without_ids_is_numbered_and_says_so() {
    let sandbox = Sandbox::new();
    sandbox.put_table("t.npy", &rows(3, 2));
    let outcome = sandbox.run("vectors convert t.npy out.parquet");
    let note =
        "veridical: the table has no ids: rows are numbered from 0 (--ids FILE names them)\n";
    assert_eq!((outcome.code, &*outcome.stderr), (Some(0), note));
    assert_eq!(sandbox.table("out.parquet").ids, Ids::Int(vec![0, 1, 2].into()));
}

#[test]
fn compressed_text_is_read() {
    let sandbox = Sandbox::new();
    let table = items();
    let text = csv(&table);
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gz.write_all(text.as_bytes()).unwrap();
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
    xz.write_all(text.as_bytes()).unwrap();
    sandbox.put("t.csv.gz", gz.finish().unwrap());
    sandbox.put("t.csv.xz", xz.finish().unwrap());
    sandbox.put("t.csv.zst", zstd::encode_all(text.as_bytes(), 1).unwrap());
    for name in ["t.csv.gz", "t.csv.xz", "t.csv.zst"] {
        sandbox.ok(&format!("vectors convert {name} out.parquet --force"));
        assert_eq!(sandbox.table("out.parquet"), table, "{name}");
    }
    // Two streams one after the other, as `cat a.gz b.gz` makes them.
    let half = text.find("item-100,").unwrap();
    let piece = |text: &str| {
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gz.write_all(text.as_bytes()).unwrap();
        gz.finish().unwrap()
    };
    sandbox.put("two.csv.gz", [piece(&text[..half]), piece(&text[half..])].concat());
    sandbox.ok("vectors convert two.csv.gz out.parquet --force");
    assert_eq!(sandbox.table("out.parquet"), table);
}

#[test]
fn text_in_another_encoding_is_read() {
    let sandbox = Sandbox::new();
    sandbox.put("t.csv", b"id,a\ncaf\xE9,1\n");
    sandbox.ok("vectors convert t.csv out.csv --encoding latin-1");
    assert_eq!(sandbox.text("out.csv"), "id,v0\ncaf\u{e9},1\n");
}

#[test]
fn integer_ids_of_any_width_become_64_bits() {
    let sandbox = Sandbox::new();
    let cases: [(&str, ArrayRef); 5] = [
        ("int8", Arc::new(Int8Array::from(vec![1, -5]))),
        ("int32", Arc::new(Int32Array::from(vec![1, i32::MIN]))),
        ("uint16", Arc::new(UInt16Array::from(vec![1, u16::MAX]))),
        ("uint32", Arc::new(UInt32Array::from(vec![1, u32::MAX]))),
        ("uint64", Arc::new(UInt64Array::from(vec![1, i64::MAX as u64]))),
    ];
    for ((name, ids), last) in
        cases.into_iter().zip([-5, i64::from(i32::MIN), 65_535, 4_294_967_295, i64::MAX])
    {
        let file = format!("{name}.parquet");
        sandbox.put_parquet(&file, vec![("item_id", ids), ("v", lists(&[&[1.0], &[2.0]]))]);
        sandbox.ok(&format!("vectors convert {file} out.parquet --force"));
        assert_eq!(sandbox.table("out.parquet").ids, Ids::Int(vec![1, last].into()), "{name}");
    }
}

#[test]
fn text_ids_stay_text() {
    let sandbox = Sandbox::new();
    let ids = Arc::new(LargeStringArray::from(vec!["1", "\u{e9} \u{1F600}"]));
    sandbox.put_parquet("t.parquet", vec![("id", ids), ("v", lists(&[&[1.0], &[2.0]]))]);
    for format in ["parquet", "arrow", "safetensors"] {
        sandbox.ok(&format!("vectors convert t.parquet out.{format}"));
        let out = sandbox.table(&format!("out.{format}"));
        assert_eq!(out.ids, Ids::Text(vec!["1", "\u{e9} \u{1F600}"].into()), "{format}");
    }
    sandbox.put("zeros.csv", "id,a\n007,1\n8,2\n"); // 007 is no integer: its zeros would be lost
    sandbox.put("numbers.csv", "id,a\n7,1\n8,2\n");
    let ids = |line: &str| {
        sandbox.ok(&format!("vectors convert {line} ids.parquet --force"));
        sandbox.table("ids.parquet").ids
    };
    assert_eq!(ids("zeros.csv"), Ids::Text(vec!["007", "8"].into()));
    assert_eq!(ids("numbers.csv"), Ids::Int(vec![7, 8].into()));
    assert_eq!(ids("numbers.csv --text-ids"), Ids::Text(vec!["7", "8"].into()));
}

#[test]
fn the_choice_of_columns_is_named() {
    let sandbox = Sandbox::new();
    sandbox.put("wide.csv", "item_id,a,b\n1,1,2\n").put("list.csv", "id,emb\n1,\"[1.5 2 3e0]\"\n");
    sandbox.put_table("t.parquet", &rows(2, 2));
    for (file, note) in [
        ("wide.csv", "vectors from 2 columns `a` to `b`, ids from column `item_id`"),
        ("list.csv", "vectors from column `emb`, ids from column `id`"),
        ("t.parquet", "vectors from column `vector`, ids from column `id`"),
    ] {
        let outcome = sandbox.run(&format!("vectors head {file}"));
        assert_eq!(outcome.stderr, format!("veridical: {note}\n"));
        let quiet = sandbox.run(&format!("vectors head {file} --quiet"));
        assert_eq!((quiet.code, &*quiet.stderr), (Some(0), ""));
    }
    assert_eq!(sandbox.table("list.csv").vectors, [1.5, 2.0, 3.0]);
}

#[test]
fn columns_are_chosen_by_name() {
    let sandbox = Sandbox::new();
    let columns = vec![
        ("user_id", numbers(1)),
        ("key", Arc::new(StringArray::from(vec!["k"])) as ArrayRef),
        ("a", lists(&[&[1.0, 2.0]])),
        ("b", lists(&[&[3.0, 4.0, 5.0]])),
    ];
    sandbox.put_parquet("t.parquet", columns);
    sandbox.ok("vectors convert t.parquet out.csv --vector-column b --id-column key");
    assert_eq!(sandbox.text("out.csv"), "id,v0,v1,v2\nk,3,4,5\n");
}

// demo, reproduce, help

#[test]
fn the_demo_runs_once_and_again_only_by_force() {
    let sandbox = Sandbox::new();
    let demo = json(&sandbox, "demo", "demo --out demo");
    let files = [
        "shop/interactions.csv",
        "shop/items.csv",
        "runs",
        "monday.parquet",
        "tuesday.parquet",
        "broken.parquet",
        "spec.json",
        "budget.toml",
        "stability.html",
        "published",
        "stopped",
    ];
    let files: Vec<String> = files.map(|name| format!("demo/{name}")).to_vec();
    assert_eq!(demo["files"], serde_json::json!(files));
    assert!(files.iter().all(|file| sandbox.has(file)));
    let number = |field: &str| demo[field].as_f64().unwrap();
    assert!(demo["coordinate_sd"][0].as_f64().unwrap() > 0.8);
    assert!(demo["coordinate_sd"][1].as_f64().unwrap() < 0.3);
    assert!(number("gram_noise") < 0.3 && number("cka") > 0.9);
    let model = |name: &str| {
        let models = demo["models"].as_array().unwrap();
        let found = models.iter().find(|m| m["treatment"] == name).unwrap();
        ["retrained", "unretrained"].map(|field| found[field].as_f64().unwrap())
    };
    assert!(model("raw")[0] > 0.9 && model("raw")[1] < 0.5, "{:?}", model("raw"));
    assert!(model("aligned")[1] > 0.9);
    assert!(model("align-then-phi orthogonal D=128")[1] > 0.9);
    assert_eq!(demo["tuesday"]["published"], true);
    assert_eq!(demo["broken"]["published"], false);
    assert!(sandbox.has("demo/published/_SUCCESS") && !sandbox.has("demo/stopped/_SUCCESS"));
    assert!(sandbox.has("demo/stopped/report.html") && !sandbox.has("demo/stopped/vectors"));

    let without_logs = || {
        let mut files = sandbox.below("demo");
        files.retain(|path, _| path.file_name().is_none_or(|name| name != "log.jsonl"));
        files
    };
    let before = without_logs();
    sandbox.refuses(
        "demo --out demo",
        "demo is not empty; choose another folder with --out, or write into it with --force",
    );
    let text = sandbox.ok("demo --out demo --force");
    assert!(text.starts_with("wrote\n  demo/shop/interactions.csv\n"), "{text}");
    assert!(text.contains("the geometry stays"), "{text}");
    assert!(without_logs() == before, "the demo is the same every time");
}

#[test]
fn the_commands_that_help_and_the_demo_suggest_work() {
    let sandbox = Sandbox::new();
    sandbox.ok("demo --out demo");
    for line in [
        "featurize apply demo/monday.parquet phi.parquet",
        "vectors stats phi.parquet",
        "featurize apply --spec demo/spec.json demo/monday.parquet phi2.parquet",
        "featurize new --input-dim 128 --output-dim 512 --seed 7 --out spec.json",
        "featurize new --data demo/monday.parquet --length-scale median --out spec2.json",
        "featurize new --input-dim 64 --gamma 0.5 --directions iid --normalize none --out spec3.json",
        "vectors head demo/monday.parquet --rows 3",
        "vectors convert demo/monday.parquet items-f16.safetensors --dtype f16",
        "reproduce show 000-kernel-error",
        "stability demo/monday.parquet demo/tuesday.parquet --budget demo/budget.toml",
        "align --reference demo/monday.parquet demo/tuesday.parquet --out aligned.parquet",
    ] {
        sandbox.ok(line);
    }
}

#[test]
fn experiments_are_listed_shown_and_run() {
    let sandbox = Sandbox::new();
    let list = json(&sandbox, "reproduce", "reproduce list");
    assert_eq!(list["action"], "list");
    assert_eq!(list["experiments"][0]["id"], "000-kernel-error");
    assert!(sandbox.ok("reproduce list").starts_with("000-kernel-error\n    "));

    let show = json(&sandbox, "reproduce", "reproduce show 000-kernel-error");
    assert_eq!(show["action"], "show");
    assert!(show["config"].as_str().unwrap().contains("quick_seeds"));
    for field in ["id", "claim", "rule"] {
        let value = show["experiment"][field].as_str().unwrap();
        assert!(sandbox.ok("reproduce show 000-kernel-error").contains(value), "{field}");
    }

    let run = json(&sandbox, "reproduce", "reproduce run 000-kernel-error --quick --out r.json");
    assert_eq!(run["action"], "run");
    assert_eq!(run["result"]["verdict"], "replicated");
    assert_eq!(run["result"]["quick"], true);
    assert_eq!(run["result"]["rows"].as_array().unwrap().len(), 16);
    let saved: Value = serde_json::from_str(&sandbox.text("r.json")).unwrap();
    assert_eq!(saved, run["result"]);
    let text = sandbox.ok("reproduce run 000-kernel-error --quick --threads 1");
    assert!(text.starts_with("000-kernel-error: replicated\n\n"), "{text}");
    assert_eq!(text.matches(" holds\n").count(), 16);
}

#[test]
fn every_verb_has_a_page_of_help() {
    let sandbox = Sandbox::new();
    for (verb, has_examples) in [
        ("", true),
        ("featurize", false),
        ("featurize new", true),
        ("featurize apply", true),
        ("featurize describe", false),
        ("featurize plan", true),
        ("featurize check", true),
        ("featurize export", true),
        ("vectors", true),
        ("vectors head", false),
        ("vectors stats", false),
        ("vectors convert", false),
        ("stability", true),
        ("stability budget", false),
        ("refresh", true),
        ("demo", false),
        ("reproduce", true),
        ("reproduce list", false),
        ("reproduce show", false),
        ("reproduce run", false),
        ("completions", true),
        ("man", true),
    ] {
        for flag in ["--help", "-h"] {
            let outcome = sandbox.run(&format!("{verb} {flag}"));
            assert_eq!((outcome.code, &*outcome.stderr), (Some(0), ""), "{verb}");
            let usage = format!("Usage: veridical {verb}");
            assert!(outcome.stdout.contains(usage.trim_end()), "{verb}\n{}", outcome.stdout);
            assert!(outcome.stdout.contains("Examples:") || !has_examples, "{verb}");
        }
    }
    let page = sandbox.ok("--help");
    for word in [
        "Train:",
        "Measure:",
        "Stabilise:",
        "Tools:",
        "train",
        "featurize",
        "vectors",
        "demo",
        "reproduce",
        "Exit codes",
    ] {
        assert!(page.contains(word), "{word}");
    }
    assert_eq!(sandbox.ok("--version"), concat!("veridical ", env!("CARGO_PKG_VERSION"), "\n"));
}

/// What is shown under "Examples" must be understood, even if its files are not there, and must not
/// be broken into two lines.
#[test]
fn every_example_of_the_help_is_a_valid_command() {
    let sandbox = Sandbox::new();
    for verb in [
        "",
        "featurize new",
        "featurize apply",
        "featurize plan",
        "featurize check",
        "featurize export",
        "align",
        "train",
        "tune",
        "evaluate",
        "recommend",
        "similar",
        "predict",
        "train text",
        "data",
        "vectors",
        "stability",
        "refresh",
        "reproduce",
        "completions",
        "man",
    ] {
        let page = sandbox.ok(&format!("{verb} --help"));
        let examples: Vec<&str> = page
            .lines()
            .filter_map(|line| line.trim().split_once("veridical "))
            .map(|(_, rest)| rest)
            .collect();
        assert!(!examples.is_empty(), "{verb}");
        let is_example = |line: &&&str| {
            !["VERB", "METHOD"].iter().any(|word| line.contains(word)) && !line.contains('[')
        };
        for example in examples.iter().filter(is_example) {
            let line = example.split(['>', '|']).next().unwrap();
            let outcome = sandbox.run(&format!("{line} --quiet"));
            let understood =
                outcome.code == Some(0) || outcome.stderr.starts_with("veridical: error: ");
            assert!(understood, "{example}\n{outcome:?}");
        }
    }
}

#[test]
fn results_go_to_stdout_and_all_else_to_stderr() {
    let sandbox = sandbox();
    let outcome = sandbox.run("featurize apply t.parquet phi.parquet --json");
    serde_json::from_str::<Value>(&outcome.stdout).unwrap();
    assert_eq!(outcome.stderr, "veridical: vectors from column `vector`, ids from column `id`\n");
    let outcome = sandbox.run("featurize apply t.parquet phi2.parquet");
    let mut lines = outcome.stdout.lines();
    assert_eq!(lines.next(), Some("200 rows, 5 -> 20, written to phi2.parquet"));
    assert!(lines.next().unwrap().starts_with("spec "));
    assert!(
        lines
            .next()
            .unwrap()
            .starts_with("spec written to phi2.spec.json: gaussian, length scale ")
    );
}
