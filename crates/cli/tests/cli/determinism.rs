//! The bytes of an output depend on the rows alone: not on threads, chunks or the number of input
//! files.

use veridical::features::FeatureSpec;
use veridical_data::VectorTable;

use crate::common::*;

/// More than a row group, and more than the 1,024 rows that the median rule samples.
const ROWS: usize = 70_000;
const FORMATS: [&str; 6] = ["parquet", "arrow", "safetensors", "csv", "tsv", "npy"];

/// The same table as `t.parquet`, `t.csv` and folders of 13 files of uneven length of each.
fn sandbox() -> Sandbox {
    let (sandbox, table) = (Sandbox::new(), named_rows(ROWS, 3));
    sandbox.put_table("t.parquet", &table).put("t.csv", csv(&table));
    for (i, part) in parts(&table).iter().enumerate() {
        sandbox.put_table(&format!("parquet/{i:02}.parquet"), part);
        sandbox.put(&format!("csv/{i:02}.csv"), csv(part));
    }
    sandbox
}

/// The table in 13 pieces; piece i has i + 1 shares.
fn parts(table: &VectorTable) -> Vec<VectorTable> {
    let n = table.n_rows();
    let start = |i: usize| n * (i * (i + 1)) / (13 * 14);
    (0..13).map(|i| slice(table, start(i), start(i + 1))).collect()
}

/// Runs `line` with `flags`, returns the output with its spec, and removes them.
fn output(sandbox: &Sandbox, line: &str, extension: &str, flags: &str) -> Vec<u8> {
    let out = format!("out.{extension}");
    sandbox.ok(&format!("{line} {out} {flags} --drop-ids"));
    let bytes = sandbox.bytes(&out);
    sandbox.remove(&out);
    let spec =
        if sandbox.has("out.spec.json") { sandbox.bytes("out.spec.json") } else { Vec::new() };
    sandbox.remove("out.spec.json");
    [spec, bytes].concat()
}

#[test]
fn threads_do_not_change_a_byte() {
    let sandbox = sandbox();
    for extension in FORMATS {
        let of = |flags| output(&sandbox, "featurize apply t.parquet", extension, flags);
        let one = of("--threads 1");
        assert!(
            ["--threads 2", "--threads 7", ""].iter().all(|flags| of(flags) == one),
            "{extension}"
        );
    }
}

#[test]
fn chunks_do_not_change_a_byte() {
    let sandbox = sandbox();
    for extension in ["parquet", "safetensors"] {
        for input in ["t.parquet", "t.csv"] {
            let line = format!("featurize apply {input}");
            let of = |n| output(&sandbox, &line, extension, &format!("--chunk-rows {n}"));
            let all = of(ROWS);
            assert!([1, 1000].iter().all(|&n| of(n) == all), "{input} {extension}");
        }
    }
}

#[test]
fn the_number_and_format_of_input_files_do_not_change_a_byte() {
    let sandbox = sandbox();
    for verb in ["featurize apply", "vectors convert"] {
        for extension in ["parquet", "arrow", "npy"] {
            let of = |input| output(&sandbox, &format!("{verb} {input}"), extension, "");
            let one = of("t.parquet");
            for input in ["parquet", "csv", "t.csv"] {
                assert!(of(input) == one, "{verb} {input} {extension}");
            }
        }
    }
}

#[test]
fn a_folder_has_the_same_bytes_however_it_is_written() {
    let sandbox = sandbox();
    for format in ["parquet", "safetensors"] {
        let of = |input: &str, flags: &str| {
            sandbox.ok(&format!(
                "featurize apply {input} phi --rows-per-part 30000 --format {format} {flags}"
            ));
            let files = sandbox.below("phi");
            let rows = sandbox.table("phi");
            sandbox.remove("phi");
            sandbox.remove("phi.spec.json");
            (files, rows)
        };
        let (files, rows) = of("t.parquet", "--threads 1");
        let names: Vec<String> = files.keys().map(|name| name.display().to_string()).collect();
        let part = |i| format!("part-0000{i}.{format}");
        assert_eq!(names, [String::new(), part(0), part(1), part(2)]);
        assert!(of("parquet", "--threads 2 --chunk-rows 1000").0 == files);
        assert!(of("csv", "--threads 7").0 == files);

        sandbox.ok("featurize apply t.parquet one.parquet --force");
        assert!(sandbox.table("one.parquet") == rows, "a folder holds the rows of a file");
    }
}

#[test]
fn the_same_command_gives_the_same_bytes_twice() {
    let sandbox = sandbox();
    for extension in FORMATS {
        for line in ["featurize apply t.parquet", "vectors convert t.parquet"] {
            let of = || output(&sandbox, line, extension, "--dtype f16");
            assert!(of() == of(), "{line} {extension}");
        }
    }
}

/// The rule samples rows; which rows those are must not depend on chunks, not even when rows are
/// left out.
#[test]
fn chunks_and_files_do_not_change_a_spec() {
    let sandbox = sandbox();
    let with_gaps = |text: String| -> String {
        let line = |(i, line): (usize, &str)| match line.split_once(',') {
            Some((id, _)) if i % 5 == 3 => format!("{id},nan,1,1\n"),
            _ => format!("{line}\n"),
        };
        text.lines().enumerate().map(line).collect()
    };
    let table = named_rows(5000, 3);
    sandbox.put("gaps.csv", with_gaps(csv(&table)));
    let text = sandbox.text("gaps.csv");
    let (header, lines) = text.split_once('\n').unwrap();
    let lines: Vec<&str> = lines.lines().collect();
    for (i, lines) in lines.chunks(390).enumerate() {
        sandbox.put(&format!("gaps/{i:02}.csv"), format!("{header}\n{}\n", lines.join("\n")));
    }
    for rule in
        ["--length-scale median", "--length-scale sklearn-gamma-scale --normalize standardize"]
    {
        let spec = |flags: &str| {
            sandbox.ok(&format!("featurize new {rule} --out s.json --force {flags}"));
            sandbox.text("s.json")
        };
        let want = spec("--data t.parquet");
        for flags in [
            "--data t.parquet --chunk-rows 7",
            "--data parquet --threads 1",
            "--data csv --threads 2 --chunk-rows 1",
        ] {
            assert_eq!(spec(flags), want, "{flags}");
        }
        let want = spec("--on-nan skip --data gaps.csv");
        for flags in [
            "--on-nan skip --data gaps.csv --chunk-rows 1",
            "--on-nan skip --data gaps.csv --chunk-rows 1000",
            "--on-nan skip --data gaps",
        ] {
            assert_eq!(spec(flags), want, "{flags}");
        }
    }
}

/// What is printed is a result too.
#[test]
fn statistics_and_warnings_do_not_depend_on_chunks_or_threads() {
    let sandbox = sandbox();
    let stats = |flags: &str| sandbox.ok(&format!("vectors stats --json {flags}"));
    let want = stats("t.parquet");
    for flags in ["t.parquet --chunk-rows 1000", "parquet --threads 1", "csv --threads 7"] {
        assert_eq!(stats(flags), want, "{flags}");
    }

    let spec = FeatureSpec::params(3, 4).length_scale(0.01).build().unwrap();
    sandbox.put("tiny.json", spec.to_json());
    let warnings = |flags: &str| {
        sandbox.warnings(&format!("featurize apply --spec tiny.json {flags} phi.parquet --force"))
    };
    let want = warnings("t.parquet");
    assert_eq!(want.len(), 1);
    for flags in ["t.parquet --chunk-rows 777 --threads 1", "csv --threads 2"] {
        assert_eq!(warnings(flags), want, "{flags}");
    }
}
