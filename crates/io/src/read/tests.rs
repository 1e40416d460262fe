use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{ArrayRef, Float32Array, StringArray};
use arrow_array::{
    DictionaryArray, FixedSizeListArray, Int32Array, LargeListArray, ListArray, RecordBatch,
    UInt16Array,
};
use parquet::arrow::ArrowWriter;
use proptest::prelude::*;
use veridical_core::Seed;
use veridical_data::{VectorTable, generate};

use super::*;

fn parquet(path: &Path, columns: Vec<(&str, ArrayRef)>) {
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut writer =
        ArrowWriter::try_new(fs::File::create(path).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

fn load(path: &Path, options: &ReadOptions) -> Result<VectorTable> {
    crate::read_table(&Source::Path(path.to_owned()), options)
}

fn refused(path: &Path, options: &ReadOptions) -> String {
    let message = load(path, options).unwrap_err().to_string();
    message.replace(&format!("{}/", path.parent().unwrap().display()), "")
}

fn ints(values: &[i32]) -> ArrayRef {
    Arc::new(Int32Array::from(values.to_vec()))
}

fn lists(rows: Vec<Option<Vec<Option<f32>>>>) -> ArrayRef {
    Arc::new(ListArray::from_iter_primitive::<Float32Type, _, _>(rows))
}

#[test]
fn lists_of_every_kind_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let rows = || [Some(vec![Some(1.0), Some(2.0)]), Some(vec![Some(3.0), Some(4.0)])];
    let doubles = rows()
        .map(|row| row.map(|row| row.into_iter().map(|x| x.map(f64::from)).collect::<Vec<_>>()));
    let columns: Vec<ArrayRef> = vec![
        lists(rows().to_vec()),
        Arc::new(LargeListArray::from_iter_primitive::<Float64Type, _, _>(doubles)),
        Arc::new(FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(rows(), 2)),
    ];
    for column in columns {
        parquet(
            &path,
            vec![("item_id", Arc::new(UInt16Array::from(vec![7, 65_535]))), ("v", column)],
        );
        let table = load(&path, &ReadOptions::default()).unwrap();
        assert_eq!(table.vectors, [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(table.ids, Ids::Int(vec![7, 65_535].into()));
    }
}

#[test]
fn missing_rows_and_values_follow_the_policy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let rows = vec![Some(vec![Some(1.0), None]), None, Some(vec![Some(3.0), Some(4.0)])];
    parquet(&path, vec![("id", ints(&[1, 2, 3])), ("v", lists(rows))]);
    let with = |on_nan| ReadOptions { on_nan, ..ReadOptions::default() };
    assert!(
        refused(&path, &with(OnNan::Error))
            .starts_with("t.parquet: row 0, column 1 is NaN or missing")
    );
    assert_eq!(load(&path, &with(OnNan::Zero)).unwrap().vectors, [1.0, 0.0, 0.0, 0.0, 3.0, 4.0]);
    let skipped = load(&path, &with(OnNan::Skip)).unwrap();
    assert_eq!((skipped.vectors, skipped.ids), (vec![3.0, 4.0], Ids::Int(vec![3].into())));
}

#[test]
fn rows_of_another_length_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let mut rows = vec![Some(vec![Some(1.0), Some(2.0)]); 100];
    rows[90] = Some(vec![Some(1.0)]);
    parquet(&path, vec![("v", lists(rows))]);
    let message = refused(&path, &ReadOptions::default());
    assert!(
        message.starts_with("t.parquet: row 90 has 1 values where earlier rows have 2"),
        "{message}"
    );
}

#[test]
fn dictionary_ids_are_text_and_kept_dictionaries_are_unpacked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let words: DictionaryArray<arrow_array::types::Int32Type> =
        vec!["x", "y", "x"].into_iter().collect();
    let vectors = lists(vec![Some(vec![Some(1.0)]); 3]);
    parquet(
        &path,
        vec![("id", Arc::new(words.clone())), ("kind", Arc::new(words)), ("v", vectors)],
    );
    let options = ReadOptions { keep_columns: vec!["kind".into()], ..ReadOptions::default() };
    let mut reader = TableReader::open(&Source::Path(path), &options).unwrap();
    let chunk = reader.next_chunk().unwrap().unwrap();
    let want = StringArray::from(vec!["x", "y", "x"]);
    assert_eq!(chunk.ids, Ids::Text(want.clone()));
    assert_eq!(chunk.kept[0].as_any().downcast_ref::<StringArray>(), Some(&want));
}

#[test]
fn npy_in_fortran_order_and_half_precision_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.npy");
    let header = "{'descr': '<f2', 'fortran_order': True, 'shape': (3, 2), }";
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    // Columns (1, 2, 3) and (4, 5, 6).
    (1..=6).for_each(|x| bytes.extend(half::f16::from_f32(x as f32).to_le_bytes()));
    fs::write(&path, bytes).unwrap();
    for chunk_rows in [1, 2, 3] {
        let options = ReadOptions { chunk_rows: Some(chunk_rows), ..ReadOptions::default() };
        assert_eq!(load(&path, &options).unwrap().vectors, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    }
}

#[test]
fn a_bf16_tensor_is_read_by_name_or_as_the_only_matrix() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.safetensors");
    let write = |header: &str| {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.as_bytes());
        [1.5f32, -2.0].iter().for_each(|&x| bytes.extend(half::bf16::from_f32(x).to_le_bytes()));
        fs::write(&path, bytes).unwrap();
    };
    let tensor = r#"{"dtype":"BF16","shape":[2,1],"data_offsets":[0,4]}"#;
    write(&format!(r#"{{"emb":{tensor}}}"#));
    assert_eq!(load(&path, &ReadOptions::default()).unwrap().vectors, [1.5, -2.0]);
    write(&format!(r#"{{"emb":{tensor},"other":{tensor}}}"#));
    let options = ReadOptions { tensor: Some("emb".into()), ..ReadOptions::default() };
    assert_eq!(load(&path, &options).unwrap().vectors, [1.5, -2.0]);
    let message = refused(&path, &ReadOptions::default());
    let want = "there is no tensor `vectors`; it has `emb`, `other`; choose one with ⟨tensor⟩";
    assert_eq!(message, format!("t.safetensors: {want}"));
}

#[test]
fn folders_are_read_in_order_with_their_partitions() {
    let folder = tempfile::tempdir().unwrap();
    for (day, id) in [("day=1", 10), ("day=2", 20)] {
        let below = folder.path().join(day);
        fs::create_dir(&below).unwrap();
        parquet(
            &below.join("a.parquet"),
            vec![("id", ints(&[id])), ("v", lists(vec![Some(vec![Some(1.0)])]))],
        );
        fs::write(below.join("_SUCCESS"), "").unwrap();
        fs::write(below.join(".a.parquet.crc"), "x").unwrap();
    }
    let options = ReadOptions { keep_columns: vec!["day".into()], ..ReadOptions::default() };
    let mut reader = TableReader::open(&Source::from_arg(folder.path()), &options).unwrap();
    let mut seen = Vec::new();
    while let Some(chunk) = reader.next_chunk().unwrap() {
        let day = chunk.kept[0].as_any().downcast_ref::<StringArray>().unwrap().value(0).to_owned();
        seen.push((chunk.first_row, chunk.ids.get(0), day));
    }
    assert_eq!(seen, [(0, "10".into(), "1".into()), (1, "20".into(), "2".into())]);
}

/// A resumed job skips rows; what follows must equal a full read.
#[test]
fn skipping_rows_equals_reading_over_them() {
    let folder = tempfile::tempdir().unwrap();
    let table = generate::clusters(50, 3, 4, Seed::new(1).unwrap());
    for extension in ["parquet", "arrow", "npy", "npz", "safetensors", "csv", "vec", "bin", "txt"] {
        let parts = folder.path().join(extension);
        fs::create_dir(&parts).unwrap();
        for part in 0..3 {
            let rows = VectorTable {
                ids: Ids::numbered(0, 10),
                dim: 3,
                vectors: table.vectors[part * 30..(part + 1) * 30].to_vec(),
            };
            let file = parts.join(format!("{part}.parquet"));
            crate::write_table(&rows, &file).unwrap();
            if extension != "parquet" {
                let options = crate::WriteOptions { drop_ids: true, ..Default::default() };
                copy_as(&file, &parts.join(format!("{part}.{extension}")), &options);
                fs::remove_file(file).unwrap();
            }
        }
        for skip in [0, 1, 9, 10, 11, 25, 29, 30] {
            let options = ReadOptions { chunk_rows: Some(4), ..ReadOptions::default() };
            let mut reader = TableReader::open(&Source::from_arg(&parts), &options).unwrap();
            reader.skip_rows(skip);
            let mut vectors = Vec::new();
            let mut first = None;
            while let Some(chunk) = reader.next_chunk().unwrap() {
                first.get_or_insert(chunk.first_row);
                vectors.extend_from_slice(&chunk.vectors);
            }
            assert_eq!(vectors, table.vectors[skip as usize * 3..90], "{extension} {skip}");
            assert_eq!(first, (skip < 30).then_some(skip), "{extension} {skip}");
        }
    }
}

fn copy_as(from: &Path, to: &Path, options: &crate::WriteOptions) {
    let table = load(from, &ReadOptions::default()).unwrap();
    let schema = crate::OutputSchema {
        dim: table.dim,
        dtype: Dtype::F32,
        ids: IdKind::Int,
        kept: Vec::new(),
        metadata: Vec::new(),
    };
    let output = Source::Path(to.to_owned());
    let mut writer = crate::TableWriter::create(&output, schema, options, Value::Null).unwrap();
    let vectors = crate::Vectors::F32(table.vectors.into());
    writer
        .write(crate::Piece { ids: table.ids, vectors, kept: Vec::new(), input_rows: 10 })
        .unwrap();
    writer.finish(&veridical_core::Cancel::default()).unwrap();
}

#[test]
fn ambiguous_columns_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let vectors = || lists(vec![Some(vec![Some(1.0)])]);
    parquet(&path, vec![("a", vectors()), ("b", vectors())]);
    assert_eq!(
        refused(&path, &ReadOptions::default()),
        "t.parquet: several columns hold lists of floats: `a`, `b`; choose one with ⟨vector-column⟩"
    );
    parquet(&path, vec![("x_id", ints(&[1])), ("y_id", ints(&[1])), ("v", vectors())]);
    assert_eq!(
        refused(&path, &ReadOptions::default()),
        "t.parquet: several columns could be the id: `x_id`, `y_id`; choose one with ⟨id-column⟩"
    );
    parquet(&path, vec![("n", ints(&[1])), ("x", Arc::new(Float32Array::from(vec![1.0])))]);
    assert_eq!(
        refused(&path, &ReadOptions::default()),
        "t.parquet: no column holds lists of floats; the columns are `n` (Int32), `x` (Float32); choose \
         the coordinates with ⟨vector-column⟩, as in 'dim_*' or 'x,y,z'"
    );
    let options = ReadOptions { vector_column: Some("n".into()), ..ReadOptions::default() };
    assert!(
        refused(&path, &options)
            .starts_with("t.parquet: column `n` (Int32) where lists of floats are expected")
    );
    let options = ReadOptions { vector_column: Some("z".into()), ..ReadOptions::default() };
    assert!(
        refused(&path, &options).starts_with("t.parquet: ⟨vector-column⟩: there is no column `z`")
    );
}

#[test]
fn csv_columns_are_identified_by_their_names_and_first_row() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    let with = |text: &str, options: &ReadOptions| {
        fs::write(&path, text).unwrap();
        load(&path, options).map_err(|_| refused(&path, options))
    };
    let plain = ReadOptions::default();
    let wide = with("id,a,b\n7,1,2\n8,3,4\n", &plain).unwrap();
    assert_eq!((wide.ids, wide.vectors), (Ids::Int(vec![7, 8].into()), vec![1.0, 2.0, 3.0, 4.0]));
    let list = with("user_id,v\nx,\"[1, 2]\"\ny,3 4\n", &plain).unwrap();
    assert_eq!((list.ids, list.dim), (Ids::Text(vec!["x", "y"].into()), 2));
    let bare = ReadOptions { no_header: true, ..ReadOptions::default() };
    assert_eq!(with("1,2\n3,4\n", &bare).unwrap().vectors, [1.0, 2.0, 3.0, 4.0]);

    let refusals = [
        ("word,v\n", "the table is empty: it has no rows"),
        (
            ",a,b\n0,1,2\n2,1,2\n",
            "line 3: the first column looks like the index of pandas but is not",
        ),
        (
            ",a,b\n5,1,2\n",
            "the first column has no name, like the index of pandas, but does not count",
        ),
        (
            "word,v0,v1\nx,1,2\n",
            "line 2, column `word` holds `x` where a number is expected; choose",
        ),
        ("id,v0,v1\n1,2,x\n", "line 2, column `v1` holds `x` where a number is expected; choose"),
        ("id,u,v\n1,2 3,4 5\n", "several columns could be the vectors: `u`, `v`; choose one with"),
        (
            "id,v\n1,2 3\n2,\"0,5;1,5\"\n",
            "line 3, column `v` holds `0,5`, a number with a decimal comma",
        ),
        ("1,2\n3,4\n", "the first line holds numbers, not column names; pass ⟨no-header⟩"),
        ("id,a\n1,x\n", "line 2, column `a` holds `x` where a number is expected"),
        ("id,a\n1,1\nx,2\n", "line 3: the id `x` is not an integer, unlike the first one"),
        ("id,a,b\n1,1,2\n2,3\n", "line 3 has 2 fields where 3 are expected"),
    ];
    for (text, want) in refusals {
        let message = with(text, &plain).unwrap_err();
        assert!(message.starts_with(&format!("t.csv: {want}")), "{message}");
    }
}

fn damaged(
    extension: &'static str,
) -> impl Strategy<Value = (&'static str, Vec<(usize, u8)>, usize)> {
    let flips = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    (flips, any::<prop::sample::Index>(), any::<bool>()).prop_map(move |(flips, cut, cuts)| {
        let len = 4096;
        let flips = flips.into_iter().map(|(at, byte)| (at.index(len), byte)).collect();
        (extension, flips, if cuts { cut.index(len) } else { usize::MAX })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]
    /// Whatever happens to the bytes of a file, reading it ends in rows or in an error about it.
    #[test]
    fn damaged_files_never_panic(
        (extension, flips, cut) in prop_oneof![
            damaged("parquet"), damaged("arrow"), damaged("npy"), damaged("safetensors"), damaged("csv"),
            damaged("npz"), damaged("vec"), damaged("bin"), damaged("txt")
        ]
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(format!("t.{extension}"));
        let whole = folder.path().join("whole.parquet");
        crate::write_table(&generate::clusters(40, 3, 4, Seed::new(1).unwrap()), &whole).unwrap();
        if extension == "npy" {
            fs::write(&path, npy_bytes()).unwrap();
        } else {
            crate::write_table(&load(&whole, &ReadOptions::default()).unwrap(), &path).unwrap();
        }
        let mut bytes = fs::read(&path).unwrap();
        let len = bytes.len();
        flips.iter().for_each(|(at, byte)| bytes[at % len] ^= byte);
        bytes.truncate(cut.min(len));
        fs::write(&path, bytes).unwrap();
        if let Err(error) = load(&path, &ReadOptions::default()) {
            prop_assert!(error.to_string().contains(&format!("t.{extension}")), "{error}");
        }
    }
}

fn npy_bytes() -> Vec<u8> {
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (40, 3), }\n";
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    (0..120).for_each(|x| bytes.extend((x as f32).to_le_bytes()));
    bytes
}

fn oracle(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/oracles/tables")).join(name)
}

const ORACLE: [f32; 12] = [1.0, 2.0, 3.0, 4.0, 0.1, 1e-8, -3.0, 5.0, 0.0, -0.0, 1e20, 7.0];

#[test]
fn tables_of_gensim_and_numpy_are_read_whatever_the_chunks() {
    let words = Ids::Text(vec!["the", "caf\u{e9}", "x_y"].into());
    let names =
        ["gensim.vec", "gensim.bin", "gensim.txt", "stored.npz", "deflated.npz", "fortran.npz"];
    for name in names {
        for chunk_rows in [1, 2, 3] {
            let options = ReadOptions { chunk_rows: Some(chunk_rows), ..ReadOptions::default() };
            let table = load(&oracle(name), &options).unwrap();
            assert_eq!((&table.vectors[..], &table.ids), (&ORACLE[..], &words), "{name}");
        }
    }
    let mut reader =
        TableReader::open(&Source::Path(oracle("bfloat16.npz")), &ReadOptions::default()).unwrap();
    let notes = "vectors from array `emb`; values `<V2` are read as bfloat16";
    assert_eq!(reader.notes()[0], notes);
    let want = ORACLE.map(|x| half::bf16::from_f32(x).to_f32());
    assert_eq!(reader.next_chunk().unwrap().unwrap().vectors[..], want);
}

#[test]
fn arrays_that_are_pickle_or_cannot_be_streamed_are_refused() {
    let message = |name| refused(&oracle(name), &ReadOptions::default());
    assert_eq!(
        message("objects.npz"),
        "objects.npz: array `ids` holds Python objects, which are stored as pickle and never read; \
         save it with np.array(ids, dtype=str)"
    );
    assert_eq!(
        message("fortran-deflated.npz"),
        "fortran-deflated.npz: array `vectors` is compressed and in Fortran order, so that its rows \
         cannot be streamed; save it with np.ascontiguousarray(array), or with np.savez"
    );
}

#[test]
fn words_may_contain_spaces_and_a_header_is_distinguished_from_a_row() {
    let folder = tempfile::tempdir().unwrap();
    let read = |name: &str, text: &str, options: &ReadOptions| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        load(&path, options).map(|table| (table.ids, table.vectors))
    };
    let plain = ReadOptions::default();
    let words = |ids: &[&str]| Ids::Text(ids.to_vec().into());
    let (ids, vectors) = read("t.txt", "the 1 2\n. . . 3 4\nat a@b.c 5 6\n", &plain).unwrap();
    assert_eq!(
        (ids, vectors),
        (words(&["the", ". . .", "at a@b.c"]), vec![1., 2., 3., 4., 5., 6.])
    );
    // fastText ends its lines with a space, Windows with a carriage return.
    let (ids, _) = read("t.vec", "2 2\r\na 1 2 \r\nb\t3 4\r\n\r\n", &plain).unwrap();
    assert_eq!(ids, words(&["a", "b"]));
    let (ids, vectors) = read("t.txt", "2 2\na 1 2\nb 3 4\n", &plain).unwrap();
    assert_eq!((ids, vectors.len()), (words(&["a", "b"]), 4));
    let glove = ReadOptions { input_format: Some(Format::Glove), ..ReadOptions::default() };
    let (ids, vectors) = read("t.txt", "7 2\n8 3\n", &glove).unwrap();
    assert_eq!((ids, vectors), (Ids::Int(vec![7, 8].into()), vec![2.0, 3.0]));
    let text = ReadOptions { text_ids: true, ..ReadOptions::default() };
    assert_eq!(read("t.glove", "7 2.5\nx 3\n", &text).unwrap().0, words(&["7", "x"]));
}

/// The original tool writes a line break after every vector, gensim does not.
#[test]
fn binary_word2vec_is_read_with_and_without_line_breaks_and_in_other_encodings() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.bin");
    // 2.5929e-33 contains the bytes of line breaks and spaces.
    let values = [1.0f32, f32::from_le_bytes(*b"\n \n\x09"), -2.0, f32::from_le_bytes(*b"    ")];
    for end in ["", "\n"] {
        let mut bytes = b"2 2\n".to_vec();
        for (word, row) in [&b"a"[..], b"caf\xe9"].iter().zip(values.chunks(2)) {
            bytes.extend(*word);
            bytes.push(b' ');
            row.iter().for_each(|x| bytes.extend(x.to_le_bytes()));
            bytes.extend(end.as_bytes());
        }
        fs::write(&path, bytes).unwrap();
        let latin = ReadOptions { encoding: Some("latin-1".into()), ..ReadOptions::default() };
        let table = load(&path, &latin).unwrap();
        assert_eq!(table.ids, Ids::Text(vec!["a", "caf\u{e9}"].into()));
        assert_eq!(table.vectors, values);
        assert_eq!(
            refused(&path, &ReadOptions::default()),
            "t.bin: row 1: the word is not UTF-8; name its encoding with ⟨encoding⟩, for example \
             latin-1"
        );
    }
}

/// An index of two files, one with the vectors and the other with the ids.
#[test]
fn a_tensor_is_found_in_its_file_through_the_index() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, header: &str, data: &[u8]| {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        fs::write(folder.path().join(name), bytes).unwrap();
    };
    let data: Vec<u8> = [1.0f32, 2.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    write("a.safetensors", r#"{"emb":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]}}"#, &data);
    let data: Vec<u8> = [7i64, 8].iter().flat_map(|x| x.to_le_bytes()).collect();
    write("b.safetensors", r#"{"ids":{"dtype":"I64","shape":[2],"data_offsets":[0,16]}}"#, &data);
    let index = folder.path().join("model.safetensors.index.json");
    fs::write(
        &index,
        r#"{"metadata":{},"weight_map":{"emb":"a.safetensors","ids":"b.safetensors"}}"#,
    )
    .unwrap();
    let options = ReadOptions { tensor: Some("emb".into()), ..ReadOptions::default() };
    let table = load(&index, &options).unwrap();
    assert_eq!((table.ids, table.vectors), (Ids::Int(vec![7, 8].into()), vec![1.0, 2.0]));
    let files = TableReader::files(&Source::Path(index.clone()), &options).unwrap();
    let names = files.iter().map(|path| path.file_name().unwrap().to_str().unwrap());
    let want = ["model.safetensors.index.json", "a.safetensors", "b.safetensors"];
    assert_eq!(names.collect::<Vec<_>>(), want, "all of them are fingerprinted");

    for shard in ["../a.safetensors", "/etc/passwd", "", "x/../../a", "s3://b/a", "c\\\\a"] {
        let map = format!(r#"{{"weight_map":{{"emb":"{shard}"}}}}"#);
        fs::write(&index, map).unwrap();
        let shard = shard.replace("\\\\", "\\");
        assert_eq!(
            refused(&index, &ReadOptions::default()),
            format!(
                "model.safetensors.index.json: the index places tensor `emb` in `{shard}`, \
                 outside the folder; write the index again"
            )
        );
    }
    let cases = [
        (
            r#"{"weight_map":{"emb":"b.safetensors"}}"#,
            "b.safetensors: there is no tensor `emb`, which the index says is here; download both again",
        ),
        (
            r#"{"weight_map":{"emb":"gone.safetensors"}}"#,
            "gone.safetensors: cannot open: No such file or directory (os error 2)",
        ),
        (
            r#"{"weight_map":{"x":"a.safetensors","y":"b.safetensors"}}"#,
            "model.safetensors.index.json: there is no tensor `vectors`; it has `x`, `y`; choose one with ⟨tensor⟩",
        ),
    ];
    for (map, want) in cases {
        fs::write(&index, map).unwrap();
        assert_eq!(refused(&index, &ReadOptions::default()), want);
    }
    fs::write(&index, "{}").unwrap();
    let message = refused(&index, &ReadOptions::default());
    assert!(message.contains("the index is not JSON with a `weight_map`"), "{message}");
}
