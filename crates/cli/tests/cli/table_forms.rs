//! Tables as people have them, through the verbs that compare, align and search them. What each form of a file holds is
//! tested beside the readers (`io/tests/forms.rs`).

use arrow_array::UInt64Array;
use std::fmt::Write as _;
use std::sync::Arc;

use veridical_core::Seed;
use veridical_data::{VectorTable, generate};

use crate::common::*;

fn clusters(seed: u64) -> VectorTable {
    generate::clusters(300, 4, 3, Seed::new(seed).unwrap())
}

/// What `DataFrame(table).to_csv(path)` writes.
fn csv_of_pandas(table: &VectorTable) -> String {
    let mut text = String::from(",0,1,2,3\n");
    for row in 0..table.n_rows() {
        let values: Vec<String> = table.row(row).iter().map(|x| format!("{x:?}")).collect();
        writeln!(text, "{row},{}", values.join(",")).unwrap();
    }
    text
}

fn npy_of(table: &VectorTable) -> Vec<u8> {
    npy("<f4", &format!("({}, {})", table.n_rows(), table.dim), &singles(&table.vectors))
}

/// One id per line, in an order of its own.
fn id_lines(ids: impl Iterator<Item = usize>) -> String {
    ids.map(|id| format!("item-{id}\n")).collect()
}

/// The row numbers of two unrelated tables agree: as a coordinate they would be the only stable one, and a large one.
#[test]
fn the_index_of_pandas_does_not_make_unrelated_tables_stable() {
    let sandbox = Sandbox::new();
    let (a, b) = (clusters(1), clusters(2));
    sandbox.put("a.csv", csv_of_pandas(&a)).put("b.csv", csv_of_pandas(&b));
    sandbox.put_table("a.parquet", &a).put_table("b.parquet", &b);
    let of = |line: &str| json(&sandbox, "stability", line)["verdict"].clone();
    assert_eq!(of("stability a.csv b.csv"), of("stability a.parquet b.parquet"));
    let said = sandbox.run("stability a.csv b.csv").stderr;
    assert!(said.contains("a.csv: ") && said.contains("an index of pandas: left out"), "{said}");
}

#[test]
fn each_table_has_its_own_file_of_ids() {
    let sandbox = Sandbox::new();
    let table = clusters(1);
    let n = table.n_rows();
    let mut turned = table.clone();
    turned.vectors = table.vectors.chunks(4).rev().flatten().copied().collect();
    sandbox.put("a.npy", npy_of(&table)).put("b.npy", npy_of(&turned));
    sandbox.put("a.txt", id_lines(0..n)).put("b.txt", id_lines((0..n).rev()));
    let named = json(&sandbox, "stability", "stability a.npy b.npy --ids a.txt --ids b.txt");
    assert_eq!(named["verdict"]["treatment"], "raw", "{}", named["verdict"]);
    let fitted = |flags: &str| {
        let line = format!("align --reference a.npy b.npy --out out.parquet --force {flags}");
        json(&sandbox, "align", &line)["tables"][0]["certificate"]["residual"].as_f64().unwrap()
    };
    assert!(fitted("--reference-ids a.txt --new-ids b.txt") < 1e-5);
    assert!(fitted("--ids a.txt --ids b.txt") < 1e-5);
    assert!(fitted("--ids a.txt") > 0.1, "one file for both pairs the wrong rows");
    assert_eq!(sandbox.table("out.parquet").ids.get(0), "item-0");
    sandbox.ok(
        "refresh --reference a.npy --new b.npy --reference-ids a.txt --new-ids b.txt --out days --without-limits",
    );
    // A file for all tables is for those without ids, a file for one table must be needed.
    sandbox.put_table("named.parquet", &table);
    let ids = (0..n).map(|row| format!("{}\n", table.ids.get(row)));
    sandbox.put("own.txt", ids.collect::<String>());
    sandbox.ok("stability named.parquet a.npy --ids own.txt");
    sandbox.refuses(
        "stability named.parquet a.npy --ids own.txt --ids own.txt",
        "named.parquet: --ids is for tables without ids, but this one has an id column",
    );
    sandbox.refuses(
        "stability a.npy b.npy --ids a.txt --ids b.txt --ids a.txt",
        "--ids is given 3 times for 2 tables; give it once, or once per table in their order",
    );
    sandbox.refuses(
        "vectors convert a.npy other.csv --ids a.txt --ids b.txt",
        "--ids is given 2 times for 1 table; give it once, or once per table in their order",
    );
}

#[test]
fn ids_that_repeat_are_kept_once_or_merged_by_every_verb() {
    let sandbox = Sandbox::new();
    sandbox.put("t.csv", "id,a,b\nx,1,2\ny,3,4\nx,3,6\nz,0,1\n");
    sandbox.refuses(
        "similar --run t.csv --id x",
        "t.csv: the id x occurs twice, in rows 0 and 2; drop one of them, or pass --on-duplicate-id \
         first or --on-duplicate-id mean",
    );
    sandbox.ok("similar --run t.csv --id x --on-duplicate-id first");
    for (policy, x) in [("first", [1.0, 2.0]), ("mean", [2.0, 4.0])] {
        let line = format!("vectors convert t.csv {policy}.parquet --on-duplicate-id {policy}");
        assert_eq!(
            sandbox.warnings(&line),
            [
                "1 rows were skipped: their id is missing or repeated, or a value is not a finite number"
            ]
        );
        let table = sandbox.table(&format!("{policy}.parquet"));
        assert_eq!(table.vectors, [&x[..], &[3.0, 4.0, 0.0, 1.0]].concat());
    }
    sandbox.shell("veridical vectors convert t.csv - > t.arrow");
    let piped = sandbox
        .shell("veridical vectors convert - out.csv --on-duplicate-id mean --quiet < t.arrow");
    assert_eq!(
        piped.only_error(),
        "--on-duplicate-id mean reads the table three times, and a stream can be read once; use a file, \
         or --on-duplicate-id first"
    );
}

#[test]
fn similar_reads_tables_like_the_other_verbs() {
    let sandbox = Sandbox::new();
    let text = "KEY;x;y;price\na;1;0;7\nb;0;1;7\nc;2;1;7\n";
    sandbox.put("t.csv", text);
    let line = "similar --run t.csv --id a --k 1 --id-column key --vector-column x,y";
    assert_eq!(json(&sandbox, "similar", line)["results"][0]["neighbors"][0]["id"], "c");
}

/// Hashes as ids: a table whose largest is below 2^63 has integer ids, another has text ids.
#[test]
fn unsigned_ids_on_both_sides_of_the_limit_join_as_text() {
    let sandbox = Sandbox::new();
    let table = clusters(1);
    let rows: Vec<&[f32]> = table.vectors.chunks(4).collect();
    let ids = |last: u64| Arc::new(UInt64Array::from_iter_values((0..299).chain([last])));
    sandbox.put_parquet("low.parquet", vec![("id", ids(299)), ("v", lists(&rows))]);
    sandbox.put_parquet("high.parquet", vec![("id", ids(u64::MAX)), ("v", lists(&rows))]);
    sandbox.refuses(
        "stability low.parquet high.parquet",
        "high.parquet has text ids and low.parquet has integer ids; pass --text-ids to read all ids as text, or \
         name the rows of a table without ids with --ids",
    );
    sandbox.ok("stability low.parquet high.parquet --text-ids");
}

/// A few kilobytes that decompress to one line.
#[test]
fn a_line_that_is_too_long_is_refused_in_every_kind_of_text() {
    let sandbox = Sandbox::new();
    let long = sandbox.shell("head -c 70000000 /dev/zero | tr '\\0' 1 | gzip -1 > long.gz");
    assert_eq!(long.code, Some(0), "{long:?}");
    let bytes = sandbox.bytes("long.gz");
    sandbox.put("rows.npy", npy("<f4", "(1, 1)", &singles(&[1.0])));
    for name in ["t.csv.gz", "t.tsv.gz", "t.vec.gz", "t.txt.gz"] {
        sandbox.put(name, &bytes);
        let line = match name {
            "t.txt.gz" => "vectors convert rows.npy out.parquet --ids t.txt.gz".to_owned(),
            _ => format!("vectors convert {name} out.parquet"),
        };
        sandbox.refuses(
            &line,
            &format!(
                "{name}: line 1 is longer than 64 MiB, or has a quote that is not closed; check that the \
                 file is text with one row per line"
            ),
        );
    }
}
