//! `vectors`: inspecting and converting tables.

use super::*;

#[test]
fn head_shows_the_first_rows() {
    let sandbox = Sandbox::new();
    sandbox.put("t.csv", "id,a,b\nx,1,-2.5\nlong,0.123456,3\nz,5,6\n");
    let text = sandbox.ok("vectors head t.csv --rows 2");
    assert_eq!(text, "x      1.00000  -2.50000\nlong   0.12346   3.00000\n");
    let head = json(&sandbox, "vectors", "vectors head t.csv -n 2");
    assert_eq!(head["dim"], 2);
    assert_eq!(head["ids"], serde_json::json!(["x", "long"]));
    assert_eq!(head["rows"][0], serde_json::json!([1.0, -2.5]));
    let all = json(&sandbox, "vectors", "vectors head t.csv");
    assert_eq!(all["ids"].as_array().unwrap().len(), 3);
    assert_eq!(sandbox.ok("vectors head t.csv --rows 0"), "");
}

#[test]
fn head_of_wide_rows_says_how_wide_they_are() {
    let sandbox = Sandbox::new();
    sandbox.put_table(
        "t.npy",
        &VectorTable { ids: Ids::Int(vec![0].into()), dim: 8, vectors: vec![1.0; 8] },
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
    let stats = &stats;
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
    // Norms 0, 5, 10; 5 % is at a tenth of the way from 0 to 5.
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
        assert_eq!(result["out"], next);
        assert_eq!((&result["rows"], &result["dim"]), (&200.into(), &5.into()));
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
    let zero_rows = &result["zero_rows"];
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
    let table = VectorTable { vectors: vec![0.5; 4000], ..rows(1000, 4) };
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
