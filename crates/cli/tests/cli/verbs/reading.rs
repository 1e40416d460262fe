//! Reading files, folders, ids and columns.

use std::io::Write as _;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, Float32Array, Int8Array, Int32Array, LargeStringArray, StringArray, UInt16Array,
    UInt32Array, UInt64Array,
};

use super::*;

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
    sandbox.put("zeros.csv", "id,a\n007,1\n8,2\n"); // 007 is not an integer: its zeros would be lost
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
