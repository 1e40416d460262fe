//! Tables as people have them: every file of `forms/`, written by pandas, polars, pyarrow, NumPy and Spark
//! (`forms/make.py`), is read with its ids and vectors exactly, whatever the chunks, or refused with the flag that cures it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use veridical_data::{Ids, VectorTable};
use veridical_io::{OnDuplicateId, OnNullId, ReadOptions, Source, TableReader, collect_rows};

const ROWS: [f32; 9] = [0.5, -1.25, 2.0, 0.1, 3.0, -0.75, 0.001, 4.0, 8.5];
const IDS: [i64; 3] = [7, 8, 10];
const LARGE: [&str; 3] = ["7", "9223372036854775808", "18446744073709551615"];
const UUIDS: [&str; 3] = [
    "00000000-0000-0000-0000-000000000001",
    "00112233-4455-6677-8899-aabbccddeeff",
    "ffffffff-ffff-ffff-ffff-ffffffffffff",
];

fn form(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/forms")).join(name)
}

fn read(name: &str, options: &ReadOptions) -> (VectorTable, String) {
    let source = Source::Path(form(name));
    let mut tables = [None, Some(1), Some(2)].map(|chunk_rows| {
        let options = ReadOptions { chunk_rows, ..options.clone() };
        let mut reader =
            TableReader::open(&source, &options).unwrap_or_else(|e| panic!("{name}: {e}"));
        let notes = reader.notes().join("; ");
        (collect_rows(&mut reader).unwrap_or_else(|e| panic!("{name}: {e}")), notes)
    });
    assert!(tables.iter().all(|table| *table == tables[0]), "{name}: chunks change what is read");
    std::mem::replace(
        &mut tables[0],
        (VectorTable { ids: ints(&[]), dim: 0, vectors: vec![] }, String::new()),
    )
}

fn refused(name: &str, options: &ReadOptions) -> String {
    let error = veridical_io::read_table(&Source::Path(form(name)), options);
    let error = error.expect_err("the form is refused");
    let message = error.to_string();
    message.replace(&format!("{}: ", form(name).display()), "")
}

fn ints(ids: &[i64]) -> Ids {
    Ids::Int(ids.to_vec().into())
}

fn texts(ids: &[&str]) -> Ids {
    Ids::Text(ids.to_vec().into())
}

fn plain() -> ReadOptions {
    ReadOptions::default()
}

/// Every file that is read without flags: its ids, and the note that says how.
fn without_flags() -> Vec<(&'static str, Ids, &'static str)> {
    const DIMS: &str = "vectors from 3 columns `dim_0` to `dim_2`, ids from column `item_id`";
    const COUNTED: &str = "vectors from 3 columns `0` to `2`, ids from row numbers";
    const V: &str = "vectors from 3 columns `v1` to `v3`, ids from column `Item_Id`";
    const VECTOR: &str = "vectors from column `vector`, ids from column `id`";
    const FEATURES: &str = "vectors from column `features`, ids from column `item_id`";
    const LEFT_OUT: &str = "is the row number, an index of pandas: left out";
    const NUMBERED: &str = "the table has no ids: rows are numbered from 0 (⟨ids⟩ FILE names them)";
    const UUID: &str = "ids of 16 bytes are read as UUIDs";
    const TEXT: &str = "ids above 9223372036854775807 make all of them text";
    let said = |parts: &[&str]| -> &'static str { Box::leak(parts.join("; ").into_boxed_str()) };
    let first = format!("the first column {LEFT_OUT}");
    vec![
        ("pandas_wide.parquet", ints(&IDS), DIMS),
        ("pandas_index.parquet", ints(&IDS), DIMS),
        (
            "pandas_index_level.parquet",
            texts(&["a", "b", "c"]),
            "vectors from 3 columns `0` to `2`, ids from column `__index_level_0__`",
        ),
        (
            "pandas_unnamed.parquet",
            ints(&IDS),
            said(&[DIMS, &format!("column `Unnamed: 0` {LEFT_OUT}")]),
        ),
        ("pandas_index.csv", ints(&IDS), said(&[DIMS, &first])),
        ("pandas_unnamed.csv", ints(&IDS), said(&[DIMS, &first])),
        ("pandas_matrix_index.csv", ints(&[0, 1, 2]), said(&[COUNTED, &first, NUMBERED])),
        (
            "pandas_matrix.csv",
            ints(&[0, 1, 2]),
            said(&[
                "the first line, 0 to 2, are column names as pandas writes them",
                COUNTED,
                NUMBERED,
            ]),
        ),
        ("pandas_uuid.parquet", texts(&UUIDS), said(&[VECTOR, UUID])),
        ("warehouse.csv", ints(&IDS), "vectors from column `EMBEDDING`, ids from column `ITEM_ID`"),
        ("semicolon.csv", ints(&IDS), said(&["columns are separated by `;`", DIMS])),
        ("pipe.csv", ints(&IDS), said(&["columns are separated by `|`", DIMS])),
        (
            "shuffled.csv",
            ints(&IDS),
            "vectors from 3 columns `v1` to `v3`, ids from column `item_id`",
        ),
        ("postgres_array.csv", ints(&IDS), VECTOR),
        ("list_pipe.csv", ints(&IDS), VECTOR),
        ("list_semicolon.csv", ints(&IDS), VECTOR),
        ("polars_wide.parquet", ints(&IDS), V),
        ("polars_wide.arrow", ints(&IDS), V),
        ("polars_u64.parquet", texts(&LARGE), said(&[VECTOR, TEXT])),
        ("polars_u64.arrow", texts(&LARGE), said(&[VECTOR, TEXT])),
        ("polars_array.parquet", ints(&IDS), VECTOR),
        (
            "polars_struct.parquet",
            ints(&IDS),
            "vectors from column `features.values`, ids from column `id`",
        ),
        ("pyarrow_u64_no_statistics.parquet", texts(&LARGE), said(&[VECTOR, TEXT])),
        ("pyarrow_binary16.parquet", texts(&UUIDS), said(&[VECTOR, UUID])),
        ("pyarrow_uuid.parquet", texts(&UUIDS), said(&[VECTOR, UUID])),
        ("numpy_big_f4.npy", ints(&[0, 1, 2]), NUMBERED),
        ("numpy_big_f8.npy", ints(&[0, 1, 2]), NUMBERED),
        ("numpy_u64.npz", texts(&LARGE), TEXT),
        ("spark_array.parquet", ints(&IDS), FEATURES),
    ]
}

#[test]
fn every_form_is_read_without_flags_and_says_how() {
    for (name, ids, note) in without_flags() {
        let (table, said) = read(name, &plain());
        assert_eq!((table.dim, &table.vectors[..]), (3, &ROWS[..]), "{name}");
        assert_eq!(table.ids, ids, "{name}");
        assert_eq!(said, note, "{name}");
    }
}

#[test]
fn vectors_of_spark_are_read_dense_and_sparse() {
    let vectors = [&ROWS[..], &[0.0, 6.5, 0.0], &[0.0, 0.0, 0.0]].concat();
    let asked = |name: &str| ReadOptions { vector_column: Some(name.into()), ..plain() };
    for options in [plain(), asked("features"), asked("FEATURES"), asked("features.values")] {
        let (table, _) = read("spark_vector.parquet", &options);
        assert_eq!((table.dim, &table.vectors), (3, &vectors));
        assert_eq!(table.ids, ints(&[7, 8, 10, 20, 21]));
    }
}

#[test]
fn a_list_inside_a_struct_is_found_by_its_dotted_name() {
    for name in ["features.values", "features"] {
        let options = ReadOptions { vector_column: Some(name.into()), ..plain() };
        assert_eq!(read("polars_struct.parquet", &options).0.vectors, ROWS);
    }
    let options = ReadOptions { vector_column: Some("features.model".into()), ..plain() };
    let message = refused("polars_struct.parquet", &options);
    assert!(
        message.starts_with("⟨vector-column⟩: there is no column `features.model`"),
        "{message}"
    );
}

#[test]
fn integers_of_numpy_are_read_as_floats_and_halves_in_either_byte_order() {
    let integers = [1.0, -2.0, 3.0, 4.0, 5.0, -128.0, 127.0, 0.0, 9.0];
    for (name, descr) in [("numpy_int8.npy", "|i1"), ("numpy_int16.npy", ">i2")] {
        let (table, said) = read(name, &plain());
        assert_eq!(table.vectors, integers, "{name}");
        let note = format!("integers `{descr}` are read as floats, as they are; ");
        assert!(said.starts_with(&note), "{said}");
    }
    let unsigned = integers.map(|x| if x < 0.0 { x + 256.0 } else { x });
    assert_eq!(read("numpy_uint8.npy", &plain()).0.vectors, unsigned);
    let halves = read("numpy_big_f2.npy", &plain()).0.vectors;
    let close = |(x, want): (&f32, &f32)| (x - want).abs() <= want.abs() / 2048.0;
    assert!(halves.iter().zip(&ROWS).all(close), "{halves:?}: half of 2^-10 of the value");
}

#[test]
fn an_index_that_holds_the_ids_is_named_like_pandas_names_it() {
    let named = |name: &str| ReadOptions { id_column: Some(name.into()), ..plain() };
    for (form, id) in [("pandas_matrix_ids.csv", "Unnamed: 0"), ("pandas_column_0.csv", "0")] {
        let (table, _) = read(form, &named(id));
        assert_eq!((&table.vectors[..], table.ids), (&ROWS[..], ints(&IDS)), "{form}");
    }
    assert_eq!(
        refused("pandas_matrix_ids.csv", &plain()),
        "the first column has no name, like the index of pandas, but does not count the rows from 0; if it \
         holds the ids, pass ⟨id-column⟩ 'Unnamed: 0', else name the coordinates with ⟨vector-column⟩, as \
         in 'dim_*'"
    );
    assert_eq!(
        refused("pandas_column_0.csv", &plain()),
        "column `0` holds integers and the others hold floats; if these are the ids, pass ⟨id-column⟩ 0, \
         else ⟨vector-column⟩ '*'"
    );
    let all = ReadOptions { vector_column: Some("*".into()), ..plain() };
    assert_eq!(read("pandas_column_0.csv", &all).0.dim, 4);
}

#[test]
fn coordinates_beside_other_numbers_are_named_by_a_pattern() {
    assert_eq!(
        refused("mixed.parquet", &plain()),
        "columns `dim_0` to `dim_2` look like coordinates, but `price` could be, too; choose them with \
         ⟨vector-column⟩, as in 'dim_*'"
    );
    let options = ReadOptions { vector_column: Some("dim_*".into()), ..plain() };
    assert_eq!(read("mixed.parquet", &options).0.vectors, ROWS);
    let options = ReadOptions { vector_column: Some("dim_1,price".into()), ..plain() };
    assert_eq!(read("mixed.parquet", &options).0.vectors, [-1.25, 0.5, 3.0, -1.25, 4.0, 2.0]);
}

/// A table without its ids must not pass for one that has none.
#[test]
fn an_index_that_pandas_keeps_in_the_metadata_is_refused() {
    assert_eq!(
        refused("pandas_range.parquet", &plain()),
        "the ids `item_id` are in no column: pandas keeps an index that counts from 7 in the metadata; \
         write the table with frame.reset_index(), or name the rows with ⟨ids⟩"
    );
}

#[test]
fn decimal_commas_are_refused() {
    assert_eq!(
        refused("decimal_comma.csv", &plain()),
        "line 2, column `dim_0` holds `0,5`, a number with a decimal comma; write it with a decimal point"
    );
}

#[test]
fn missing_ids_follow_the_policy() {
    let skip = ReadOptions { on_null_id: OnNullId::Skip, ..plain() };
    let kept = [&ROWS[..3], &ROWS[6..]].concat();
    for (name, place) in [("pandas_null_id.parquet", "row 1"), ("pandas_null_id.csv", "line 3")] {
        assert_eq!(
            refused(name, &plain()),
            format!(
                "{place}: the id is missing; fill it in, or pass ⟨on-null-id⟩ skip to drop such rows"
            )
        );
        let (table, _) = read(name, &skip);
        assert_eq!((&table.vectors, table.ids), (&kept, ints(&[7, 10])), "{name}");
        let text = ReadOptions { text_ids: true, ..skip.clone() };
        let want = if name.ends_with("csv") { ["7.0", "10.0"] } else { ["7", "10"] };
        assert_eq!(read(name, &text).0.ids, texts(&want), "{name}");
    }
    let (table, said) = read("pandas_float_id.parquet", &plain());
    assert_eq!((&table.vectors, table.ids), (&kept, ints(&[7, 10])));
    assert!(said.ends_with("ids are floats, read as integers"), "{said}");
}

#[test]
fn ids_that_repeat_follow_the_policy() {
    let with = |on_duplicate_id| ReadOptions { on_duplicate_id, ..plain() };
    assert_eq!(
        refused("pandas_twice.parquet", &plain()),
        "the id 7 occurs twice, in rows 0 and 2; drop one of them, or pass ⟨on-duplicate-id⟩ first or \
         ⟨on-duplicate-id⟩ mean"
    );
    let (first, _) = read("pandas_twice.parquet", &with(OnDuplicateId::First));
    assert_eq!((&first.vectors[..], first.ids), (&ROWS[..6], ints(&[7, 8])));
    let (mean, _) = read("pandas_twice.parquet", &with(OnDuplicateId::Mean));
    let half = |k: usize| ((f64::from(ROWS[k]) + f64::from(ROWS[k + 6])) / 2.0) as f32;
    let want = [half(0), half(1), half(2), ROWS[3], ROWS[4], ROWS[5]];
    assert_eq!((&mean.vectors[..], mean.ids), (&want[..], ints(&[7, 8])));
}

/// A resumed job passes over rows, and an id among them counts as seen.
#[test]
fn ids_before_the_place_where_a_job_is_resumed_count() {
    for (policy, dim) in [(OnDuplicateId::First, 3), (OnDuplicateId::Mean, 3)] {
        let options = ReadOptions { on_duplicate_id: policy, chunk_rows: Some(1), ..plain() };
        let source = Source::Path(form("pandas_twice.parquet"));
        for (skip, want) in [(0, vec![0, 1]), (1, vec![1]), (2, vec![])] {
            let mut reader = TableReader::open(&source, &options).unwrap();
            reader.skip_rows(skip);
            let mut rows = Vec::new();
            while let Some(chunk) = reader.next_chunk().unwrap() {
                rows.extend(chunk.numbers());
                assert_eq!(chunk.dim(), dim);
            }
            assert_eq!((rows, reader.rows_read()), (want, 3), "{policy:?} after {skip}");
        }
    }
}

#[test]
fn ids_of_every_format_are_text_if_the_flag_says_so() {
    let text = ReadOptions { text_ids: true, ..plain() };
    let names =
        ["pandas_wide.parquet", "polars_wide.arrow", "semicolon.csv", "polars_array.parquet"];
    for name in names {
        assert_eq!(read(name, &text).0.ids, texts(&["7", "8", "10"]), "{name}");
    }
    assert_eq!(read("numpy_u64.npz", &text).0.ids, texts(&LARGE));
    assert_eq!(read("pyarrow_u64_no_statistics.parquet", &text).0.ids, texts(&LARGE));
}

/// A file that no test reads would prove nothing.
#[test]
fn every_file_of_the_folder_is_read_by_a_test() {
    let mut named: BTreeSet<String> =
        without_flags().into_iter().map(|(name, _, _)| name.to_owned()).collect();
    let source = include_str!("forms.rs");
    let files = std::fs::read_dir(form("")).unwrap().map(|entry| entry.unwrap().file_name());
    for file in files.map(|name| name.into_string().unwrap()) {
        let is_named = source.contains(&format!("\"{file}\"")) || named.remove(&file);
        assert!(is_named || file == "make.py", "{file}");
    }
}
