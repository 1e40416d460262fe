//! Bad input: exit code 2, one line that names the file, the place and the remedy, and nothing left
//! behind.

use std::sync::Arc;

use arrow_array::types::{Float32Type, Float64Type, Int64Type};
use arrow_array::{BooleanArray, Float64Array, Int64Array, ListArray, StringArray, UInt64Array};
use veridical::features::FeatureSpec;

use crate::common::*;

/// `t.csv` of width 3 and `spec.json` for it.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.put("t.csv", "id,a,b,c\n1,0.5,1,2\n2,3,4,5\n3,1,0,1\n");
    sandbox.put("spec.json", FeatureSpec::params(3, 8).build().unwrap().to_json());
    sandbox
}

const ON_NAN: &str = "repair it, or pass --on-nan skip to drop such rows or --on-nan zero to \
                      replace it by 0";
const DAMAGED: &str = "; it may be truncated or damaged, write it again";

// Shape

#[test]
fn rows_of_another_width_than_the_spec_are_refused() {
    let sandbox = sandbox();
    sandbox.put("spec4.json", FeatureSpec::params(4, 8).build().unwrap().to_json());
    for line in
        ["apply --spec spec4.json t.csv phi.parquet", "check --spec spec4.json t.csv --html x.html"]
    {
        sandbox.refuses(
            &format!("featurize {line}"),
            "t.csv: rows have 3 columns but the spec's input_dim is 4; use the table the spec was made \
             for, or make a spec with --input-dim 3",
        );
    }
}

#[test]
fn a_ragged_row_is_named() {
    let sandbox = Sandbox::new();
    sandbox.put("fields.csv", "id,a,b\n1,1,2\n2,3\n");
    sandbox.refuses(
        "vectors convert fields.csv out.parquet",
        "fields.csv: line 3 has 2 fields where 3 are expected; repair the line, or quote fields \
         that contain the separator",
    );
    sandbox.put("lists.csv", "id,v\n1,\"[1, 2]\"\n2,\"[1, 2, 3]\"\n");
    sandbox.refuses(
        "vectors convert lists.csv out.parquet",
        "lists.csv: line 3 has 3 values where earlier rows have 2; every vector must have the same \
         length; repair the row",
    );
    let ragged = || vec![("id", numbers(3)), ("v", lists(&[&[1.0, 2.0], &[3.0, 4.0], &[5.0]]))];
    sandbox.put_parquet("lists.parquet", ragged()).put_arrow("lists.arrow", ragged());
    for file in ["lists.parquet", "lists.arrow"] {
        sandbox.refuses(
            &format!("vectors convert {file} out.csv"),
            &format!(
                "{file}: row 2 has 1 values where earlier rows have 2; drop or repair the row: every \
                 vector must have the same length"
            ),
        );
    }
    sandbox.put_parquet("none.parquet", vec![("id", numbers(1)), ("v", lists(&[&[]]))]);
    sandbox.refuses(
        "vectors convert none.parquet out.csv",
        "none.parquet: row 0 has an empty vector; drop the row",
    );
}

/// Beyond the rows that are looked at first, and beyond a chunk.
#[test]
fn a_ragged_row_far_down_is_named_and_nothing_of_the_output_stays() {
    let sandbox = Sandbox::new();
    let mut rows: Vec<&[f32]> = vec![&[1.0, 2.0]; 70_000];
    rows[68_000] = &[1.0];
    sandbox.put_parquet("t.parquet", vec![("id", numbers(70_000)), ("v", lists(&rows))]);
    sandbox.refuses(
        "vectors convert t.parquet out.csv",
        "t.parquet: row 68000 has 1 values where earlier rows have 2; drop or repair the row: every \
         vector must have the same length",
    );
}

#[test]
fn files_of_different_widths_in_a_folder_are_refused() {
    let sandbox = Sandbox::new();
    sandbox.put("d/a.csv", "id,a\n1,1\n").put("d/b.csv", "id,a,b\n1,1,2\n");
    sandbox.refuses(
        "vectors convert d out.csv",
        "d/b.csv: vectors have 2 values where earlier files have 1; all files of a folder must have the \
         same schema",
    );
}

#[test]
fn files_with_different_kinds_of_ids_in_a_folder_are_refused_with_the_remedy() {
    let sandbox = Sandbox::new();
    sandbox.put("d/a.csv", "id,a\nx,1\n").put("d/b.csv", "id,a\n1,1\n");
    sandbox.refuses_like("vectors convert d out.csv", |error| {
        assert!(error.starts_with("d/b.csv: ids are "), "{error}");
        assert!(error.contains("--text-ids"), "the remedy is missing: {error}");
    });
    sandbox.ok("vectors convert d out.csv --text-ids");
}

#[test]
fn a_kept_column_of_another_type_in_a_later_file_is_refused_by_name() {
    let sandbox = Sandbox::new();
    let column = |title| vec![("id", numbers(1)), ("v", lists(&[&[1.0]])), ("title", title)];
    sandbox.put_parquet("d/a.parquet", column(Arc::new(StringArray::from(vec!["x"]))));
    sandbox.put_parquet("d/b.parquet", column(Arc::new(Int64Array::from(vec![1]))));
    sandbox.refuses_like("vectors convert d out.csv --keep-columns title", |error| {
        assert!(error.starts_with("d/b.parquet: "), "{error}");
        assert!(error.contains("`title`"), "{error}");
    });
}

// Values

#[test]
fn a_value_that_is_not_a_number_is_named_by_row_and_column() {
    let sandbox = Sandbox::new();
    for (name, value, what) in [
        ("nan", "NaN", "NaN or missing"),
        ("inf", "-inf", "infinite"),
        ("gap", "", "NaN or missing"),
    ] {
        sandbox.put(&format!("{name}.csv"), format!("id,a,b,c\n1,1,2,3\n2,3,4,{value}\n"));
        sandbox.refuses(
            &format!("vectors convert {name}.csv out.parquet"),
            &format!("{name}.csv: row 1, column 2 is {what}; {ON_NAN}"),
        );
    }
    let rows: [&[f32]; 3] = [&[1.0, 2.0], &[1.0, 2.0], &[f32::INFINITY, 2.0]];
    sandbox.put_parquet("t.parquet", vec![("id", numbers(3)), ("v", lists(&rows))]);
    for line in [
        "vectors convert t.parquet out.csv",
        "vectors head t.parquet",
        "featurize new --data t.parquet --out new.json",
        "featurize apply t.parquet phi.parquet",
    ] {
        sandbox.refuses(line, &format!("t.parquet: row 2, column 0 is infinite; {ON_NAN}"));
    }
}

#[test]
fn a_missing_value_or_vector_counts_as_not_a_number() {
    let sandbox = Sandbox::new();
    let v = |rows: Vec<Option<Vec<Option<f32>>>>| {
        Arc::new(ListArray::from_iter_primitive::<Float32Type, _, _>(rows)) as _
    };
    let full = Some(vec![Some(1.0), Some(2.0)]);
    let hole = Some(vec![Some(1.0), None]);
    sandbox.put_parquet("value.parquet", vec![("v", v(vec![full.clone(), hole]))]);
    sandbox.put_parquet("vector.parquet", vec![("v", v(vec![full, None]))]);
    let message =
        |file: &str, column| format!("{file}: row 1, column {column} is NaN or missing; {ON_NAN}");
    sandbox.refuses("vectors convert value.parquet out.csv", &message("value.parquet", 1));
    sandbox.refuses("vectors convert vector.parquet out.csv", &message("vector.parquet", 0));
}

/// 1e300 is a valid number, but f32 cannot represent it.
#[test]
fn a_double_beyond_f32_is_not_called_infinite() {
    let sandbox = Sandbox::new();
    let rows = [Some(vec![Some(1.0), Some(1e300)])];
    let v = ListArray::from_iter_primitive::<Float64Type, _, _>(rows);
    sandbox.put_parquet("t.parquet", vec![("v", Arc::new(v))]);
    sandbox.refuses_like("vectors convert t.parquet out.csv", |error| {
        assert!(error.starts_with("t.parquet: row 0, column 1 "), "{error}");
        assert!(error.contains("f32"), "{error}");
    });
}

/// Rows 1, 2 and 3 are bad; row 3 has two bad values.
const WITH_NAN: &str = "id,a,b\n10,1,2\n11,3,nan\n12,inf,1\n13,,-inf\n14,1,1\n";

#[test]
fn on_nan_skip_leaves_rows_out_and_counts_them() {
    let sandbox = Sandbox::new();
    sandbox.put("t.csv", WITH_NAN);
    let warnings = sandbox.warnings("featurize apply t.csv phi.csv --on-nan skip");
    assert_eq!(warnings, ["3 rows with values that are not finite numbers were skipped"]);
    let phi = sandbox.table("phi.csv");
    assert_eq!((0..2).map(|r| phi.ids.get(r)).collect::<Vec<_>>(), ["10", "14"]);
    assert_eq!(phi.n_rows(), 2);

    let warnings = sandbox.warnings("vectors convert t.csv out.csv --on-nan skip");
    assert_eq!(sandbox.text("out.csv"), "id,v0,v1\n10,1,2\n14,1,1\n");
    assert_eq!(warnings, ["3 rows with values that are not finite numbers were skipped"]);
}

#[test]
fn on_nan_zero_puts_zeros_and_counts_them() {
    let sandbox = Sandbox::new();
    sandbox.put("t.csv", WITH_NAN);
    let warnings = sandbox.warnings("featurize apply t.csv phi.csv --on-nan zero");
    let zeroed = "4 values that are not finite numbers were set to 0";
    assert!(warnings.contains(&zeroed.to_owned()), "{warnings:?}");
    assert_eq!(sandbox.table("phi.csv").n_rows(), 5);

    let warnings = sandbox.warnings("vectors convert t.csv out.csv --on-nan zero");
    assert_eq!(sandbox.text("out.csv"), "id,v0,v1\n10,1,2\n11,3,0\n12,0,1\n13,0,0\n14,1,1\n");
    assert_eq!(warnings, [zeroed]);
}

#[test]
fn a_spec_made_with_on_nan_skip_says_how_many_rows_it_left_out() {
    let sandbox = Sandbox::new();
    sandbox.put("t.csv", WITH_NAN);
    let warnings = sandbox.warnings("featurize new --data t.csv --out new.json --on-nan skip");
    assert_eq!(warnings, ["3 rows with values that are not finite numbers were skipped"]);
}

/// A piece of phi has 64 rows here, and the bad row comes right after it.
#[test]
fn a_skipped_row_behind_the_last_piece_is_counted() {
    let sandbox = Sandbox::new();
    let rows: String = (0..64).map(|i| format!("{i},1,{i}\n")).collect();
    sandbox.put("t.csv", format!("id,a,b\n{rows}64,nan,1\n"));
    sandbox.put("spec.json", FeatureSpec::params(2, 32_768).build().unwrap().to_json());
    let warnings = sandbox.warnings(
        "featurize apply --spec spec.json t.csv phi.parquet --on-nan skip --chunk-rows 1 --dtype f16",
    );
    let skipped = "1 rows with values that are not finite numbers were skipped";
    assert!(warnings.contains(&skipped.to_owned()), "{warnings:?}");
}

#[test]
fn a_table_of_which_no_row_is_left_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.put("t.csv", "id,a,b\n1,nan,2\n2,3,nan\n");
    sandbox.put("spec.json", FeatureSpec::params(2, 8).build().unwrap().to_json());
    for line in
        ["vectors convert t.csv out.parquet", "featurize apply --spec spec.json t.csv out.parquet"]
    {
        sandbox.refuses_like(&format!("{line} --on-nan skip"), |error| {
            assert!(error.contains("no rows remain"), "{error}");
            assert!(error.starts_with("t.csv: "), "the file is not named: {error}");
        });
    }
}

/// phi(0) is a cosine of 1 and a sine of 0 for every direction.
#[test]
fn a_zero_row_under_unit_stays_zero_and_is_counted() {
    let sandbox = Sandbox::new();
    sandbox.put("t.csv", "id,a,b,c\n1,0,0,0\n2,3,4,5\n3,0,-0,0\n");
    sandbox.put("spec.json", FeatureSpec::params(3, 8).build().unwrap().to_json());
    let warnings = sandbox.warnings("featurize apply --spec spec.json t.csv phi.parquet");
    assert_eq!(warnings, ["2 rows are zero and stay zero under `unit` normalization"]);
    let phi = sandbox.table("phi.parquet");
    let origin = [0.5, 0.0].repeat(4); // 1 / sqrt(4 directions)
    assert_eq!((phi.row(0), phi.row(2)), (&origin[..], &origin[..]));
    assert_ne!(phi.row(1), origin);
}

#[test]
fn a_value_that_does_not_fit_f16_is_refused_by_file_and_row() {
    let sandbox = Sandbox::new();
    sandbox.put("t.csv", "id,a,b\n1,1,2\n2,3,-70000\n");
    sandbox.refuses_like("vectors convert t.csv out.parquet --dtype f16", |error| {
        assert!(error.starts_with("t.csv: row 1"), "the file is not named: {error}");
        assert!(error.contains("-7e4 does not fit f16"), "{error}");
        assert!(error.contains("--dtype f32"), "the remedy is missing: {error}");
    });
    sandbox.put("t.csv", "id,a,b\n1,1,2\n2,3,-65504\n");
    sandbox.ok("vectors convert t.csv out.parquet --dtype f16");
}

#[test]
fn a_projection_that_would_overflow_is_refused_by_file_and_row() {
    let sandbox = Sandbox::new();
    sandbox.put("t.csv", "id,a\n1,1\n2,3e38\n");
    let spec = FeatureSpec::params(1, 2).normalize(veridical::features::Normalize::None);
    sandbox.put("spec.json", spec.length_scale(1e-3).build().unwrap().to_json());
    sandbox.refuses(
        "featurize apply --spec spec.json t.csv phi.parquet",
        "t.csv: row 1 has a value of size 3e38: its projection overflows; rescale the rows, for \
         example with --normalize standardize",
    );
}

// Files that are empty, truncated or inconsistent

const FORMATS: [(&str, &str); 5] = [
    ("parquet", "Parquet"),
    ("arrow", "Arrow IPC"),
    ("npy", "npy"),
    ("npz", "npz"),
    ("safetensors", "safetensors"),
];

#[test]
fn an_empty_file_of_any_format_is_refused() {
    let sandbox = Sandbox::new();
    let cases = [
        (
            "t.parquet",
            "not a readable Parquet file: EOF: Parquet file too small. Size is 0 but need 8",
        ),
        (
            "t.arrow",
            "not a readable Arrow IPC file: it ends before its schema; expected an Arrow IPC stream",
        ),
        ("t.npy", "not a readable npy file: the header is cut off"),
        ("t.npz", "not a readable npz file: it is shorter than the end of an archive"),
        ("t.bin", "not a readable word2vec file: it does not start with a line `rows width`"),
        ("t.safetensors", "not a readable safetensors file: it is shorter than its first field"),
        ("t.csv.gz", "not a readable text file: unexpected end of file"),
        ("t.csv.zst", "not a readable text file: incomplete frame"),
        ("t.csv.xz", "not a readable text file: premature eof"),
    ];
    for (file, what) in cases {
        sandbox.put(file, "");
        sandbox.refuses(
            &format!("vectors convert {file} out.parquet"),
            &format!("{file}: {what}{DAMAGED}"),
        );
    }
    for file in ["t.csv", "t.tsv", "t.vec", "t.txt"] {
        sandbox.put(file, "");
        sandbox.refuses(
            &format!("vectors convert {file} out.parquet"),
            &format!("{file}: the table is empty: it has no rows"),
        );
    }
}

#[test]
fn a_table_without_rows_is_refused() {
    let sandbox = Sandbox::new();
    let empty = || vec![("id", numbers(0)), ("v", lists(&[]))];
    sandbox.put_parquet("t.parquet", empty()).put_arrow("t.arrow", empty());
    sandbox.put("t.csv", "id,a\n").put("t.tsv", "id\ta\n");
    for file in ["t.parquet", "t.arrow", "t.csv", "t.tsv"] {
        sandbox.refuses(
            &format!("vectors convert {file} out.csv"),
            &format!("{file}: the table is empty: it has no rows"),
        );
    }
    for file in ["none.vec", "none.bin", "none.txt"] {
        sandbox.put(file, "0 3\n");
        sandbox.refuses(
            &format!("vectors convert {file} out.csv"),
            &format!("{file}: the table is empty: it has no rows"),
        );
    }
    sandbox.put("t.npy", npy("<f4", "(0, 3)", &[]));
    sandbox.refuses("vectors convert t.npy out.csv", "t.npy: the table is empty: it has no rows");
    let header = r#"{"vectors":{"dtype":"F32","shape":[0,3],"data_offsets":[0,0]}}"#;
    sandbox.put("t.safetensors", safetensors(header, &[]));
    sandbox.refuses(
        "vectors convert t.safetensors out.csv",
        "t.safetensors: the table is empty: it has no rows",
    );
}

#[test]
fn a_folder_without_data_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.put("d/_SUCCESS", "").put("d/.part.parquet.crc", "");
    sandbox.refuses(
        "vectors convert d out.csv",
        "d: the folder has no data files (names that start with `_` or `.` and *.crc are skipped)",
    );
}

/// Twenty lengths from a byte to all but the last byte.
#[test]
fn a_truncated_file_is_refused_by_name() {
    let sandbox = Sandbox::new();
    let table = named_rows(1000, 4);
    for (extension, format) in FORMATS {
        let file = format!("cut.{extension}");
        sandbox.put_table(&file, &table);
        let whole = sandbox.bytes(&file);
        let n = whole.len();
        let lengths = (1..16).map(|i| n * i / 16).chain([1, 7, 100, n - 8, n - 1]);
        for len in lengths {
            sandbox.put(&file, &whole[..len]);
            let line = format!("vectors convert {file} out.csv");
            sandbox.finds_malformed(&line, &file, format);
        }
    }
}

#[test]
fn truncated_compressed_text_is_refused_by_name() {
    use std::io::Write as _;
    let sandbox = Sandbox::new();
    let text = csv(&rows(1000, 4));
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gz.write_all(text.as_bytes()).unwrap();
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
    xz.write_all(text.as_bytes()).unwrap();
    let zst = zstd::encode_all(text.as_bytes(), 1).unwrap();
    let cases = [
        ("cut.csv.gz", gz.finish().unwrap()),
        ("cut.csv.xz", xz.finish().unwrap()),
        ("cut.csv.zst", zst),
    ];
    for (file, whole) in cases {
        for len in [1, whole.len() / 4, whole.len() / 2, whole.len() - 1] {
            sandbox.put(file, &whole[..len]);
            let line = format!("vectors convert {file} out.parquet");
            sandbox.finds_malformed(&line, file, "text");
        }
    }
}

/// Every byte of a small file set to 0, 127, 128 and 255 in turn would take minutes; every 13th
/// byte with a value that changes takes seconds. A damaged file may still be readable, but it is
/// never a crash.
#[test]
fn a_damaged_file_is_never_a_crash() {
    let sandbox = Sandbox::new();
    let table = named_rows(20, 3);
    for (extension, _) in FORMATS {
        let file = format!("t.{extension}");
        sandbox.put_table(&file, &table);
        let whole = sandbox.bytes(&file);
        for at in (0..whole.len()).step_by(13) {
            let mut damaged = whole.clone();
            damaged[at] = [0, 0x7F, 0x80, 0xFF][at / 13 % 4];
            sandbox.put(&file, damaged);
            let outcome = sandbox.run(&format!("vectors stats {file} --quiet"));
            assert!(matches!(outcome.code, Some(0 | 2)), "{file}, byte {at}: {outcome:?}");
        }
    }
}

/// A change inside the values of an archive is found by its checksum, wherever it is.
#[test]
fn a_damaged_archive_never_gives_rows() {
    let sandbox = Sandbox::new();
    sandbox.put_table("whole.npz", &named_rows(20, 3));
    let whole = sandbox.bytes("whole.npz");
    let cases: [(usize, &[u8], &str); 4] = [
        (300, b"\xFF", "`vectors.npy` has a wrong checksum"),
        (
            central(&whole) + 10,
            b"\x0c",
            "`vectors.npy` is compressed by method 12, not stored or deflated",
        ),
        (central(&whole) + 8, b"\x01", "`vectors.npy` is encrypted"),
        (0, b"X", "`vectors.npy` is not where the directory says"),
    ];
    for (at, bytes, what) in cases {
        let mut damaged = whole.clone();
        damaged[at..at + bytes.len()].copy_from_slice(bytes);
        sandbox.put("t.npz", damaged);
        sandbox.refuses(
            "vectors convert t.npz out.csv",
            &format!("t.npz: not a readable npz file: {what}{DAMAGED}"),
        );
    }
    let pickled = String::from_utf8_lossy(&whole).find("'<f4'");
    assert!(pickled.is_some());
    sandbox.put("t.npz", replaced(&whole, b"'<f4'", b"'|O' "));
    sandbox.refuses(
        "vectors convert t.npz out.csv",
        "t.npz: array `vectors`: the array holds Python objects, which are stored as pickle and never \
         read; save it with array.astype('<f4')",
    );
    sandbox.put("t.npz", replaced(&whole, b"(20, 3)", b"(99, 3)"));
    sandbox.refuses_like("vectors convert t.npz out.csv", |error| {
        let want = "t.npz: not a readable npz file: the header promises 99 x 3 values, ";
        assert!(error.starts_with(want), "{error}");
    });
    sandbox.put("t.npz", replaced(&whole, b"(20,)", b"(19,)"));
    sandbox.refuses(
        "vectors convert t.npz out.csv",
        "t.npz: array `ids` has shape [19] where one id per row, 20, is expected",
    );
    sandbox.put("raw.npy", npy("|V2", "(2, 2)", &[0; 8]));
    sandbox.refuses(
        "vectors convert raw.npy out.csv",
        "raw.npy: the array holds `|V2`, two raw bytes that may be bfloat16 or anything; save it with \
         array.astype('<f4'), or as safetensors",
    );
}

/// Where the directory of an archive begins.
fn central(archive: &[u8]) -> usize {
    archive.windows(4).position(|w| w == b"PK\x01\x02").unwrap()
}

fn replaced(file: &[u8], what: &[u8], by: &[u8]) -> Vec<u8> {
    let at = file.windows(what.len()).position(|w| w == what).unwrap();
    [&file[..at], by, &file[at + what.len()..]].concat()
}

#[test]
fn bad_word2vec_and_glove_files_are_refused_by_line_or_row() {
    let sandbox = Sandbox::new();
    let promises = |n, seen: &str| {
        format!(
            "the first line promises {n} rows but the file has {seen}; it may be cut off: write it \
             again, or remove the first line and read it with --input-format glove"
        )
    };
    let header = "the first line is not the header `rows width` of word2vec; without one it is GloVe: \
                  read it with --input-format glove";
    let utf8 = "line 2 has a word that is not UTF-8; name its encoding with --encoding, for example \
                latin-1";
    let cases: [(&str, &[u8], String); 10] = [
        ("a.vec", b"3 2\na 1 2\nb 3 4\n", promises(3, "2")),
        ("a.vec", b"1 2\na 1 2\nb 3 4\n", promises(1, "more")),
        ("a.vec", b"a 1 2\nb 3 4\n", header.into()),
        (
            "a.vec",
            b"99999999999 9999999999999\na 1 2\n",
            "line 2 has 3 fields where a word and 9999999999999 numbers are expected; repair or drop \
             it"
            .into(),
        ),
        ("a.txt", b"a 1 2\nb 3\n", "line 2 has 2 fields where a word and 2 numbers are expected; repair or drop it".into()),
        ("a.txt", b"a 1 2\nb 3 4 5\n", "line 2 has more than 2 numbers; repair or drop it".into()),
        ("a.txt", b"a 1 2\nb 3 x\n", "line 2 holds `x` where a number is expected; repair or drop it".into()),
        ("a.txt", b"a 1 2\n\nb 3 4\n", "line 2 is empty; remove it".into()),
        ("a.txt", b"hello world\n", "line 1 has no numbers after its word".into()),
        ("a.txt", b"a 1 2\ncaf\xe9 3 4\n", utf8.into()),
    ];
    for (file, text, what) in cases {
        sandbox.put(file, text);
        sandbox.refuses(&format!("vectors convert {file} out.csv"), &format!("{file}: {what}"));
    }
    sandbox.ok("vectors convert a.txt out.csv --encoding latin-1");
    assert_eq!(sandbox.text("out.csv"), "id,v0,v1\na,1,2\ncaf\u{e9},3,4\n");
}

#[test]
fn bad_word2vec_binaries_are_refused() {
    let sandbox = Sandbox::new();
    let row = |word: &str| [word.as_bytes(), b" ", &singles(&[1.0, 2.0])].concat();
    let file = |header: &str, rows: &[Vec<u8>]| [header.as_bytes(), &rows.concat()].concat();
    let (a, b) = (row("a"), row("longer"));
    let malformed = [
        (
            file("3 2\n", &[a.clone(), b.clone(), vec![0; 8]]),
            "it promises 3 rows but ends in row 2",
        ),
        (file("2 2\n", &[a.clone(), b[..14].to_vec()]), "it promises 2 rows but ends in row 1"),
        (file("1 2\n", &[a.clone(), b.clone()]), "there is data after its 1 rows"),
        (file("hello\n", std::slice::from_ref(&a)), "it does not start with a line `rows width`"),
        (
            file("9999999999999999999 2\n", std::slice::from_ref(&a)),
            "the header promises 9999999999999999999 x 2 values but the file has 32 bytes",
        ),
        (
            file("1 9999999999999\n", std::slice::from_ref(&a)),
            "the header promises 1 x 9999999999999 values but the file has 26 bytes",
        ),
    ];
    for (bytes, what) in malformed {
        sandbox.put("t.bin", bytes);
        sandbox.refuses(
            "vectors convert t.bin out.csv",
            &format!("t.bin: not a readable word2vec file: {what}{DAMAGED}"),
        );
    }
    sandbox.put("t.bin", [&793_712_314u32.to_le_bytes()[..], &[0; 100]].concat());
    sandbox.refuses(
        "vectors convert t.bin out.csv",
        "t.bin: this is a fastText model, not a table of vectors; use the .vec file beside it",
    );
    sandbox.put("t.bin", b"PK\x03\x04archive/data.pkl");
    sandbox.refuses(
        "vectors convert t.bin out.csv",
        "t.bin: this looks like a PyTorch file, which is pickle and never read; save it as safetensors",
    );
}

#[test]
fn a_header_that_promises_more_than_the_file_holds_is_refused() {
    let sandbox = Sandbox::new();
    let data = singles(&[1.0; 6]);
    for (n, d) in [(3u64, 3), (1_000_000_000_000, 3), (1 << 62, 1 << 62)] {
        let file = npy("<f4", &format!("({n}, {d})"), &data);
        let there = file.len() as u64;
        let bytes = n.checked_mul(d).and_then(|n| n.checked_mul(4));
        let promised = bytes.map(|bytes| there - data.len() as u64 + bytes);
        let promised =
            promised.map_or("more bytes than there can be".into(), |n| format!("{n} bytes"));
        sandbox.put("t.npy", file);
        sandbox.refuses(
            "vectors convert t.npy out.csv",
            &format!(
                "t.npy: not a readable npy file: the header promises {n} x {d} values, {promised}, but \
                 the file has {there}{DAMAGED}"
            ),
        );
    }
    let tensor = |shape: &str, offsets: &str| {
        let header =
            format!(r#"{{"vectors":{{"dtype":"F32","shape":{shape},"data_offsets":{offsets}}}}}"#);
        safetensors(&header, &data)
    };
    let tensor_cases = [
        (
            tensor("[1000000000000,3]", "[0,12000000000000]"),
            "tensor `vectors` is at 0..12000000000000 but the file has 24 bytes of data",
        ),
        (
            tensor("[18446744073709551615,3]", "[0,24]"),
            "tensor `vectors` has shape [18446744073709551615, 3] of F32 but 24 bytes",
        ),
        (
            tensor("[2,3]", "[24,0]"),
            "tensor `vectors` is at 24..0 but the file has 24 bytes of data",
        ),
        (
            [&u64::MAX.to_le_bytes()[..], b"{}"].concat(),
            "the header promises 18446744073709551615 bytes but the file has 10",
        ),
        (
            [&99_999_999u64.to_le_bytes()[..], b"{}"].concat(),
            "the header promises 99999999 bytes but the file has 10",
        ),
    ];
    for (file, what) in tensor_cases {
        sandbox.put("t.safetensors", file);
        sandbox.refuses(
            "vectors convert t.safetensors out.csv",
            &format!("t.safetensors: not a readable safetensors file: {what}{DAMAGED}"),
        );
    }
    let huge_npy_header = [b"\x93NUMPY\x02\x00".as_slice(), &u32::MAX.to_le_bytes()].concat();
    sandbox.put("t.npy", huge_npy_header);
    sandbox.refuses(
        "vectors convert t.npy out.csv",
        &format!("t.npy: not a readable npy file: the header is longer than 1 MiB{DAMAGED}"),
    );
}

/// The last bytes of a Parquet file say how long its footer is; those of an Arrow file too, and
/// the footer says how long each batch is.
#[test]
fn a_footer_that_promises_more_than_the_file_holds_is_refused() {
    let sandbox = Sandbox::new();
    let table = rows(20, 3);
    sandbox.put_table("t.parquet", &table).put_table("t.arrow", &table);
    let (parquet, arrow) = (sandbox.bytes("t.parquet"), sandbox.bytes("t.arrow"));
    let patched = |file: &[u8], at: usize, bytes: &[u8]| {
        let mut file = file.to_vec();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        file
    };
    for len in [1u32 << 30, u32::MAX] {
        sandbox.put("bad.parquet", patched(&parquet, parquet.len() - 8, &len.to_le_bytes()));
        sandbox.finds_malformed("vectors convert bad.parquet out.csv", "bad.parquet", "Parquet");
        sandbox.put("bad.arrow", patched(&arrow, arrow.len() - 10, &len.to_le_bytes()));
        sandbox.finds_malformed("vectors convert bad.arrow out.csv", "bad.arrow", "Arrow IPC");
    }
    let block = last_block(&arrow);
    for body in [1i64 << 20, 1 << 33, 1 << 40, i64::MAX, -1] {
        sandbox.put("bad.arrow", patched(&arrow, block + 16, &body.to_le_bytes()));
        sandbox.refuses(
            "vectors convert bad.arrow out.csv",
            "bad.arrow: not a readable Arrow IPC file: the footer promises a batch beyond the end of \
             the file; it may be truncated or damaged, write it again",
        );
    }
}

/// Where the footer of an Arrow file describes its last batch: offset, length of the metadata (4
/// bytes, padded to 8), length of the body.
fn last_block(file: &[u8]) -> usize {
    let word = |at: usize| i64::from_le_bytes(file[at..at + 8].try_into().unwrap());
    let footer_len = i32::from_le_bytes(file[file.len() - 10..][..4].try_into().unwrap()) as usize;
    let footer = file.len() - 10 - footer_len;
    let inside = |x: i64| x > 0 && (x as usize) < footer;
    let is_block = |&at: &usize| inside(word(at)) && inside(word(at + 8)) && inside(word(at + 16));
    (footer..file.len() - 34).step_by(4).rfind(is_block).unwrap()
}

// Columns

#[test]
fn a_column_that_holds_no_floats_is_refused() {
    let sandbox = Sandbox::new();
    let integers = || {
        let rows = [Some([Some(1), Some(2)])];
        Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(rows))
    };
    let text = || Arc::new(StringArray::from(vec!["1 2"]));
    sandbox.put_parquet("int.parquet", vec![("id", numbers(1)), ("v", integers())]);
    sandbox.put_arrow("int.arrow", vec![("id", numbers(1)), ("v", integers())]);
    sandbox.put_parquet("text.parquet", vec![("id", numbers(1)), ("v", text())]);
    for (file, kind) in
        [("int.parquet", "List(Int64)"), ("int.arrow", "List(Int64)"), ("text.parquet", "Utf8")]
    {
        sandbox.refuses(
            &format!("vectors convert {file} out.csv"),
            &format!(
                "{file}: no column holds lists of floats; the columns are `id` (Int64), `v` ({kind})"
            ),
        );
        sandbox.refuses(
            &format!("vectors convert {file} out.csv --vector-column v"),
            &format!(
                "{file}: column `v` ({kind}) where lists of floats are expected; cast it, or choose \
                 another column with --vector-column"
            ),
        );
    }
    sandbox.put("t.csv", "id,title,a\n1,hello,2\n");
    sandbox.refuses(
        "vectors convert t.csv out.parquet",
        "t.csv: line 2, column `title` holds `hello` where a number is expected; choose the coordinates \
         with --vector-column, as in 'dim_*', or remove the column",
    );
    sandbox.ok("vectors convert t.csv out.parquet --vector-column a");
    sandbox.put("t.npy", npy("<c8", "(1, 1)", &[0; 8]));
    sandbox.refuses(
        "vectors convert t.npy out.csv",
        "t.npy: the array holds `<c8` where floats or integers are expected; save it with \
         array.astype('<f4')",
    );
    sandbox.put("t.npy", npy("<f4", "(2,)", &[0; 8]));
    sandbox.refuses(
        "vectors convert t.npy out.csv",
        "t.npy: the array has shape [2] where rows of vectors are expected; reshape it to 2-d",
    );
    let header = r#"{"vectors":{"dtype":"I64","shape":[1,2],"data_offsets":[0,16]}}"#;
    sandbox.put("t.safetensors", safetensors(header, &[0; 16]));
    sandbox.refuses(
        "vectors convert t.safetensors out.csv",
        "t.safetensors: tensor `vectors` holds I64 where floats are expected; choose another one with \
         --tensor",
    );
}

#[test]
fn two_columns_that_could_be_the_vectors_are_refused() {
    let sandbox = Sandbox::new();
    let column = || lists(&[&[1.0, 2.0]]);
    sandbox.put_parquet("t.parquet", vec![("a", column()), ("b", column())]);
    sandbox.refuses(
        "vectors convert t.parquet out.csv",
        "t.parquet: several columns hold lists of floats: `a`, `b`; choose one with --vector-column",
    );
    sandbox.ok("vectors convert t.parquet out.csv --vector-column b");
}

#[test]
fn two_columns_that_could_be_the_id_are_refused() {
    let sandbox = Sandbox::new();
    let columns =
        vec![("user_id", numbers(1)), ("item_id", numbers(1)), ("v", lists(&[&[1.0, 2.0]]))];
    sandbox.put_parquet("t.parquet", columns);
    sandbox.put("t.csv", "user_id,item_id,a\n1,2,3\n");
    for file in ["t.parquet", "t.csv"] {
        sandbox.refuses(
            &format!("vectors convert {file} out.arrow"),
            &format!(
                "{file}: several columns could be the id: `user_id`, `item_id`; choose one with \
                 --id-column"
            ),
        );
    }
    sandbox.ok("vectors convert t.parquet out.arrow --id-column item_id");
}

#[test]
fn an_unknown_column_is_refused_with_the_columns_there_are() {
    let sandbox = sandbox();
    sandbox.put_table("t.parquet", &rows(3, 2));
    for flag in ["--vector-column", "--id-column", "--keep-columns"] {
        sandbox.refuses(
            &format!("vectors convert t.csv out.parquet {flag} nope"),
            &format!(
                "t.csv: {flag}: there is no column `nope`; the columns are `id`, `a`, `b`, `c`"
            ),
        );
        sandbox.refuses(
            &format!("vectors convert t.parquet out.csv {flag} nope"),
            &format!(
                "t.parquet: {flag}: there is no column `nope`; the columns are `id` (Int64), `vector` \
                 (FixedSizeList(2 x non-null Float32))"
            ),
        );
    }
    sandbox.put_table("t.safetensors", &rows(3, 2));
    sandbox.refuses(
        "vectors convert t.safetensors out.csv --tensor nope",
        "t.safetensors: there is no tensor `nope`; it has `ids`, `vectors`; choose one with --tensor",
    );
}

#[test]
fn ids_that_are_missing_or_too_large_are_refused() {
    let sandbox = Sandbox::new();
    let table = |ids| vec![("id", ids), ("v", lists(&[&[1.0], &[2.0]]))];
    let text = StringArray::from(vec![Some("a"), None]);
    sandbox.put_parquet("gap.parquet", table(Arc::new(text)));
    sandbox.refuses(
        "vectors convert gap.parquet out.csv",
        "gap.parquet: row 1: the id is missing; fill it in, or pass --on-null-id skip to drop such rows",
    );
    sandbox.ok("vectors convert gap.parquet gap-out.csv --on-null-id skip");
    sandbox.put_parquet("float.parquet", table(Arc::new(Float64Array::from(vec![1.0, 2.5]))));
    sandbox.refuses(
        "vectors convert float.parquet out.csv",
        "float.parquet: row 1: the id 2.5 is not an integer; choose another column with --id-column",
    );
    sandbox.put_parquet("bool.parquet", table(Arc::new(BooleanArray::from(vec![true, false]))));
    sandbox.refuses(
        "vectors convert bool.parquet out.csv",
        "bool.parquet: id column `id` (Boolean) is neither integer nor text; choose another one with \
         --id-column",
    );
    // A stream is read once: that an id is too large is known too late to read all of them as text.
    let columns = batch(table(Arc::new(UInt64Array::from(vec![1, u64::MAX]))));
    let mut stream = Vec::new();
    let mut writer =
        arrow_ipc::writer::StreamWriter::try_new(&mut stream, &columns.schema()).unwrap();
    writer.write(&columns).unwrap();
    writer.finish().unwrap();
    drop(writer);
    sandbox.put("big.arrow", stream);
    sandbox.ok("vectors convert big.arrow big.csv");
    let piped = sandbox.shell("veridical vectors convert - out.csv < big.arrow --quiet");
    assert_eq!(
        piped.only_error(),
        "-: row 1: the id 18446744073709551615 does not fit a 64-bit integer; pass --text-ids to read \
         all ids as text"
    );
    sandbox.shell("veridical vectors convert - text.csv --text-ids < big.arrow");
    assert_eq!(sandbox.text("text.csv"), sandbox.text("big.csv"));
    sandbox.put("gap.csv", "id,a\nx,1\n,2\n");
    sandbox.refuses(
        "vectors convert gap.csv out.parquet",
        "gap.csv: line 3: the id is missing; fill it in, or pass --on-null-id skip to drop such rows",
    );
    sandbox.put("mixed.csv", "id,a\n1,1\nx,2\n");
    sandbox.refuses(
        "vectors convert mixed.csv out.parquet",
        "mixed.csv: line 3: the id `x` is not an integer, unlike the first one; pass --text-ids to \
         read all ids as text",
    );
}

#[test]
fn a_file_of_ids_that_names_too_few_or_too_many_rows_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.put("t.npy", npy("<f4", "(3, 2)", &singles(&[1.0; 6])));
    sandbox.put("few.txt", "a\nb\n").put("many.txt", "a\nb\nc\nd\n").put("none.txt", "");
    let few = |n| format!("names {n} rows but the table has more; the numbers must match");
    sandbox.refuses("vectors convert t.npy out.csv --ids few.txt", &format!("few.txt: {}", few(2)));
    sandbox
        .refuses("vectors convert t.npy out.csv --ids none.txt", &format!("none.txt: {}", few(0)));
    sandbox.refuses(
        "vectors convert t.npy out.csv --ids many.txt",
        "t.npy: the table has 3 rows but --ids names 4; the numbers must match",
    );
    sandbox.refuses(
        "vectors convert t.npy out.csv --ids nowhere.txt",
        "nowhere.txt: cannot open: No such file or directory (os error 2)",
    );
    sandbox.put("t.csv", "id,a\n1,1\n");
    sandbox.refuses(
        "vectors convert t.csv out.csv --ids few.txt",
        "t.csv: --ids is for tables without ids, but this one has an id column",
    );
}

/// An empty line in the middle of a file of ids is a missing id, as in a CSV.
#[test]
fn a_file_of_ids_with_an_empty_id_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.put("t.npy", npy("<f4", "(3, 2)", &singles(&[1.0; 6])));
    sandbox.put("ids.txt", "a\n\nc\n");
    sandbox.refuses_like("vectors convert t.npy out.csv --ids ids.txt", |error| {
        assert!(error.starts_with("ids.txt: "), "{error}");
        assert!(error.contains("line 2") && error.contains("missing"), "{error}");
    });
}

#[test]
fn csv_without_a_header_is_noticed() {
    let sandbox = Sandbox::new();
    sandbox.put("t.csv", "1,0.5,2\n2,3,4\n");
    sandbox.refuses(
        "vectors convert t.csv out.parquet",
        "t.csv: the first line holds numbers, not column names; pass --no-header",
    );
    sandbox.ok("vectors convert t.csv out.parquet --no-header --id-column 0");
}

/// What `DataFrame(matrix).to_csv("t.csv")` writes: an index without a name, then columns 0, 1, ... The row number must not
/// become a coordinate: it is the same in every table.
#[test]
fn the_unnamed_index_of_pandas_is_left_out_whatever_the_columns_are_called() {
    let sandbox = Sandbox::new();
    for header in [",a,b", ",0,1", "Unnamed: 0,a,b"] {
        sandbox.put("t.csv", format!("{header}\n0,0.5,1\n1,2,3\n"));
        sandbox.ok("vectors convert t.csv out.parquet --force");
        assert_eq!(sandbox.table("out.parquet").vectors, [0.5, 1.0, 2.0, 3.0], "{header}");
        sandbox.put("t.csv", format!("{header}\n0,0.5,1\n7,2,3\n"));
        sandbox.refuses(
            "vectors convert t.csv other.parquet",
            "t.csv: line 3: the first column looks like the index of pandas but is not the row number 1; \
             if it holds the ids, pass --id-column 'Unnamed: 0', else name the coordinates with \
             --vector-column, as in 'dim_*'",
        );
        let named = sandbox
            .shell("veridical vectors convert t.csv out.parquet --force --id-column 'Unnamed: 0'");
        assert_eq!(named.code, Some(0), "{named:?}");
        assert_eq!(sandbox.table("out.parquet").ids.get(1), "7");
    }
}

/// `id;a;b` is one column to a reader that splits at commas, and `1;2;3` would do for a list: the id
/// would become a coordinate.
#[test]
fn text_with_another_separator_is_split_there_and_says_so() {
    let sandbox = Sandbox::new();
    for separator in [";", "\t", "|"] {
        sandbox.put("t.csv", "id,a,b\n1,2,3\n2,3,4\n".replace(',', separator));
        sandbox.ok("vectors convert t.csv out.parquet --force");
        let table = sandbox.table("out.parquet");
        assert_eq!((table.vectors, table.ids.get(1)), (vec![2.0, 3.0, 3.0, 4.0], "2".to_owned()));
    }
}

#[test]
fn text_that_is_not_utf8_is_refused_by_line() {
    let sandbox = Sandbox::new();
    sandbox.put("t.csv", b"id,a\nx,1\n\xFF\xFE,2\n");
    sandbox.refuses(
        "vectors convert t.csv out.parquet",
        "t.csv: line 3 is not UTF-8; name its encoding with --encoding, for example latin-1",
    );
    sandbox.refuses(
        "vectors convert t.csv out.parquet --encoding latin-99",
        "--encoding: `latin-99` is not known; use for example utf-8, latin-1, utf-16 or shift_jis",
    );
    sandbox.refuses_like("vectors convert t.csv out.parquet --encoding shift_jis", |error| {
        assert!(error.starts_with("t.csv: "), "{error}");
        assert!(error.contains("the text is not Shift_JIS; choose another --encoding"), "{error}");
    });
}
