use std::fs;

use arrow_array::StringArray;
use proptest::prelude::*;
use serde_json::json;
use veridical_core::Seed;
use veridical_data::{VectorTable, generate};

use super::*;
use crate::publish::partial_path;
use crate::{Chunk, ReadOptions, TableReader};

const FORMATS: [&str; 10] =
    ["parquet", "arrow", "npy", "npz", "safetensors", "csv", "tsv", "vec", "bin", "txt"];

fn table(n: usize, dim: usize, text: bool) -> VectorTable {
    let mut table = generate::clusters(n, dim, 3, Seed::new(9).unwrap());
    if !text {
        table.ids = Ids::Int((0..n as i64).map(|i| 7 * i - 3).collect());
    }
    table
}

fn options(if_exists: IfExists) -> WriteOptions {
    WriteOptions { existing: if_exists.into(), drop_ids: true, ..WriteOptions::default() }
}

fn schema_of(table: &VectorTable) -> OutputSchema {
    let ids = if matches!(table.ids, Ids::Int(_)) { IdKind::Int } else { IdKind::Text };
    let metadata = vec![("veridical.spec".to_owned(), "{}".to_owned())];
    OutputSchema { dim: table.dim, dtype: Dtype::F32, ids, kept: Vec::new(), metadata }
}

/// Writes rows from the writer's position, at most `stop_after` groups of them.
fn write_rows(writer: &mut TableWriter, table: &VectorTable, stop_after: usize) -> bool {
    let mut at = writer.resumed().map_or(0, |r| r.input_rows as usize);
    let chunk = Chunk {
        first_row: 0,
        ids: table.ids.clone(),
        vectors: table.vectors.clone().into(),
        kept: Vec::new(),
        row_numbers: None,
        zeroed: None,
    };
    let end = (at / GROUP_ROWS + stop_after) * GROUP_ROWS;
    while at < table.n_rows() {
        if at >= end {
            return false;
        }
        let n = writer.cuts().next_rows().min(table.n_rows() - at);
        let rows = chunk.slice(at, n);
        at += n;
        let vectors = Vectors::F32(rows.vectors);
        let piece = Piece { ids: rows.ids, vectors, kept: Vec::new(), input_rows: at as u64 };
        writer.write_noting(piece, json!({ "at": at })).unwrap();
    }
    true
}

/// Words of word2vec and GloVe contain no spaces.
fn without_blanks(table: &VectorTable) -> VectorTable {
    let Ids::Text(ids) = &table.ids else { return table.clone() };
    let ids = ids.iter().flatten().map(|id| id.replace(' ', "_"));
    VectorTable { ids: Ids::Text(StringArray::from_iter_values(ids)), ..table.clone() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn every_format_round_trips(
        values in prop::collection::vec(prop::num::f32::NORMAL | prop::num::f32::SUBNORMAL | prop::num::f32::ZERO, 1..60),
        dim in 1usize..5, texts in prop::collection::vec("\\PC{1,8}", 60), ints in prop::collection::hash_set(any::<i64>(), 60),
        text in any::<bool>(), chunk in 1usize..9
    ) {
        let n = values.len() / dim;
        prop_assume!(n > 0);
        let ids = if text {
            let texts = texts[..n].iter().enumerate();
            Ids::Text(StringArray::from_iter_values(texts.map(|(i, text)| format!("{text}#{i}"))))
        } else {
            Ids::Int(ints.into_iter().take(n).collect())
        };
        let table = VectorTable { ids, dim, vectors: values[..n * dim].to_vec() };
        let folder = tempfile::tempdir().unwrap();
        for format in FORMATS {
            let table = if ["vec", "bin", "txt"].contains(&format) { without_blanks(&table) } else { table.clone() };
            let path = folder.path().join(format!("table.{format}"));
            let output = Source::Path(path.clone());
            let mut writer =
                TableWriter::create(&output, schema_of(&table), &options(IfExists::Refuse), Value::Null).unwrap();
            prop_assert!(write_rows(&mut writer, &table, usize::MAX / GROUP_ROWS / 2));
            writer.finish(&Cancel::default()).unwrap();
            let read = ReadOptions { chunk_rows: Some(chunk), text_ids: text, ..ReadOptions::default() };
            let got = crate::read_table(&output, &read).unwrap();
            prop_assert_eq!(&got.vectors, &table.vectors, "{}", format);
            if format != "npy" {
                prop_assert_eq!(&got.ids, &table.ids, "{}", format);
            }
            prop_assert!(!partial_path(&path).exists());
        }
    }
}

/// Stopped after every group in turn, then resumed: the same bytes as without interruption.
#[test]
fn a_resumed_file_equals_an_uninterrupted_one() {
    let table = table(3 * GROUP_ROWS + 777, 2, true);
    let folder = tempfile::tempdir().unwrap();
    for format in FORMATS {
        let whole = folder.path().join(format!("whole.{format}"));
        let resumed = folder.path().join(format!("resumed.{format}"));
        let create = |path: &Path, if_exists| {
            let output = Source::Path(path.to_owned());
            TableWriter::create(&output, schema_of(&table), &options(if_exists), json!({"job": 1}))
                .unwrap()
        };
        let mut writer = create(&whole, IfExists::Refuse);
        assert!(write_rows(&mut writer, &table, 100));
        writer.finish(&Cancel::default()).unwrap();

        drop(create(&resumed, IfExists::Refuse)); // killed before the first row
        loop {
            let mut writer = create(&resumed, IfExists::Resume);
            let done = write_rows(&mut writer, &table, 1);
            if done {
                writer.finish(&Cancel::default()).unwrap();
                break;
            }
            drop(writer); // killed
            let data = partial_path(&resumed).join("data");
            let mut torn = fs::read(&data).unwrap();
            torn.extend_from_slice(b"half a row group");
            fs::write(&data, torn).unwrap();
        }
        assert!(fs::read(&whole).unwrap() == fs::read(&resumed).unwrap(), "{format}");
    }
}

#[test]
fn a_resumed_folder_equals_an_uninterrupted_one() {
    let table = table(2 * GROUP_ROWS + 500, 2, false);
    let folder = tempfile::tempdir().unwrap();
    for format in [Format::Parquet, Format::Safetensors] {
        let run = |name: &str, groups| {
            let path = folder.path().join(format!("{name}-{}", format.extension()));
            let output = Source::Path(path.clone());
            let options = WriteOptions {
                rows_per_part: Some(50_000),
                format: Some(format),
                ..options(IfExists::Resume)
            };
            loop {
                let mut writer =
                    TableWriter::create(&output, schema_of(&table), &options, Value::Null).unwrap();
                if write_rows(&mut writer, &table, groups) {
                    writer.finish(&Cancel::default()).unwrap();
                    break path;
                }
            }
        };
        let (whole, resumed) = (run("whole", 100), run("resumed", 1));
        let names = |path: &Path| {
            let mut names: Vec<_> =
                fs::read_dir(path).unwrap().map(|e| e.unwrap().file_name()).collect();
            names.sort();
            names
        };
        assert_eq!(names(&whole), names(&resumed));
        assert_eq!(names(&whole).len(), 3);
        for name in names(&whole) {
            assert!(fs::read(whole.join(&name)).unwrap() == fs::read(resumed.join(&name)).unwrap());
        }
        let output = Source::Path(whole);
        assert_eq!(crate::read_table(&output, &ReadOptions::default()).unwrap(), table);
    }
}

#[test]
fn a_different_job_is_not_resumed_and_existing_output_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let output = Source::Path(path.clone());
    let table = table(10, 2, false);
    let create =
        |if_exists, job| TableWriter::create(&output, schema_of(&table), &options(if_exists), job);
    drop(create(IfExists::Refuse, json!({"spec_id": "a", "input": {"x": 1}})).unwrap());

    let refused = |if_exists, job| create(if_exists, job).map(|_| ()).unwrap_err().to_string();
    let message = refused(IfExists::Refuse, Value::Null);
    assert!(message.ends_with("continue it with ⟨resume⟩ or start over with ⟨force⟩"), "{message}");
    let message = refused(IfExists::Resume, json!({"spec_id": "b", "input": {"x": 1}}));
    assert!(message.contains("spec_id was \"a\" and is now \"b\""), "{message}");
    let message = refused(IfExists::Resume, json!({"spec_id": "a", "input": {"x": 2}}));
    assert!(message.contains("input.x was 1 and is now 2"), "{message}");

    let mut writer = create(IfExists::Force, Value::Null).unwrap();
    write_rows(&mut writer, &table, 1);
    writer.finish(&Cancel::default()).unwrap();
    let before = fs::read(&path).unwrap();
    assert!(refused(IfExists::Refuse, Value::Null).contains("already exists"));
    create(IfExists::Force, Value::Null).unwrap().abandon();
    assert_eq!(fs::read(&path).unwrap(), before);
    assert!(!partial_path(&path).exists());
}

/// Killed between the exchange of the new folder with the earlier one and the removal of the latter.
#[cfg(unix)]
#[test]
fn a_replacement_killed_at_its_last_step_is_resumed() {
    use std::os::unix::fs::MetadataExt;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    let output = Source::Path(path.clone());
    let table = table(10, 2, false);
    let create = |if_exists| {
        let options = WriteOptions { rows_per_part: Some(6), ..options(if_exists) };
        TableWriter::create(&output, schema_of(&table), &options, Value::Null)
    };
    for if_exists in [IfExists::Refuse, IfExists::Force] {
        let mut writer = create(if_exists).unwrap();
        write_rows(&mut writer, &table, 1);
        writer.finish(&Cancel::default()).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
    let partial = partial_path(&path);
    fs::create_dir(&partial).unwrap();
    fs::write(partial.join("part-00000.parquet"), "the earlier one").unwrap();
    let journal = Journal { output_rows: 10, finished: true, ..Journal::default() };
    fs::write(path.join("_journal.json"), serde_json::to_vec(&journal).unwrap()).unwrap();
    let found = fs::metadata(&path).unwrap();
    let lock = folder.path().join(".t.lock");
    fs::write(lock, format!("\n{}:{}\n", found.dev(), found.ino())).unwrap();

    let writer = create(IfExists::Resume).unwrap();
    assert!(writer.resumed().unwrap().finished);
    writer.finish(&Cancel::default()).unwrap();
    assert_eq!(crate::read_table(&output, &ReadOptions::default()).unwrap(), table);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    assert_eq!(fs::read_dir(&path).unwrap().count(), 2);
}

#[test]
fn kept_columns_follow_their_rows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("in.csv");
    fs::write(&path, "id,title,a,b\n1,\"x, y\",0.5,1\n2,z,2,3e-30\n").unwrap();
    let read = ReadOptions { keep_columns: vec!["title".into()], ..ReadOptions::default() };
    for format in ["parquet", "arrow", "csv", "tsv"] {
        let mut reader = TableReader::open(&Source::Path(path.clone()), &read).unwrap();
        let chunk = reader.next_chunk().unwrap().unwrap();
        let out = Source::Path(folder.path().join(format!("out.{format}")));
        let schema = OutputSchema {
            dim: 2,
            dtype: Dtype::F32,
            ids: reader.schema().ids,
            kept: reader.schema().kept.clone(),
            metadata: Vec::new(),
        };
        let mut writer =
            TableWriter::create(&out, schema, &WriteOptions::default(), Value::Null).unwrap();
        let vectors = Vectors::F32(chunk.vectors.clone());
        writer.write(Piece { ids: chunk.ids, vectors, kept: chunk.kept, input_rows: 2 }).unwrap();
        writer.finish(&Cancel::default()).unwrap();
        let mut again = TableReader::open(&out, &read).unwrap();
        let got = again.next_chunk().unwrap().unwrap();
        let titles = got.kept[0].as_any().downcast_ref::<StringArray>().unwrap();
        assert_eq!(titles.iter().flatten().collect::<Vec<_>>(), ["x, y", "z"], "{format}");
        assert_eq!(&got.vectors[..], [0.5, 1.0, 2.0, 3e-30]);
    }
}

/// The reference implementation reads what we write.
#[test]
fn safetensors_are_read_by_the_reference_implementation() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.safetensors");
    let table = table(5, 3, true);
    crate::write_table(&table, &path).unwrap();
    let bytes = fs::read(&path).unwrap();
    let tensors = ::safetensors::SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(tensors.tensor("vectors").unwrap().shape(), [5, 3]);
    assert_eq!(tensors.tensor("ids").unwrap().data(), b"item-0item-1item-2item-3item-4");
}

#[test]
fn bf16_is_written_to_safetensors_rounded_to_nearest_and_refused_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let table = table(100, 3, false);
    let write = |name: &str| {
        let path = folder.path().join(name);
        let schema = OutputSchema { dtype: Dtype::Bf16, ..schema_of(&table) };
        let output = Source::Path(path);
        let mut writer =
            TableWriter::create(&output, schema, &options(IfExists::Refuse), Value::Null)?;
        write_rows(&mut writer, &table, 1);
        writer.finish(&Cancel::default())?;
        crate::read_table(&output, &ReadOptions::default())
    };
    let got = write("t.safetensors").unwrap();
    let want: Vec<f32> = table.vectors.iter().map(|&x| bf16::from_f32(x).to_f32()).collect();
    assert_eq!(got.vectors, want);
    for name in ["t.parquet", "t.npy", "t.npz", "t.csv", "t.bin"] {
        let message = write(name).unwrap_err().to_string();
        assert!(message.ends_with("write .safetensors, or pass ⟨dtype⟩ f16"), "{message}");
    }
}

#[test]
fn words_that_other_readers_would_split_are_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |name: &str, id: &str| {
        let table = VectorTable { ids: Ids::Text(vec![id].into()), dim: 1, vectors: vec![1.0] };
        crate::write_table(&table, &folder.path().join(name)).unwrap_err().to_string()
    };
    for id in ["a b", "", "a\n", "\ta", "a\x0bb"] {
        for name in ["t.vec", "t.bin", "t.txt"] {
            let what = "is empty or contains whitespace, which word2vec and GloVe cannot store";
            let want = format!("the id {id:?} {what}; write .parquet or .npz");
            assert_eq!(refused(name, id), want);
        }
    }
    let want = r#"the id "a\0" ends in a NUL character, which npz cannot store; write .parquet"#;
    assert_eq!(refused("t.npz", "a\0"), want);
}

/// Two writes produce the same bytes: the archive contains no timestamps.
#[test]
fn npz_has_no_timestamp_and_its_checksums_hold() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.npz");
    let table = table(50, 3, true);
    crate::write_table(&table, &path).unwrap();
    let bytes = fs::read(&path).unwrap();
    assert_eq!(&bytes[10..14], [0, 0, 0x21, 0], "1980-01-01 00:00");
    for at in [zip_data_at(&bytes) + 130, bytes.len() / 2] {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        fs::write(&path, damaged).unwrap();
        let message = crate::read_table(&Source::Path(path.clone()), &ReadOptions::default());
        let message = message.unwrap_err().to_string();
        assert!(message.contains(".npy` has a wrong checksum"), "{message}");
    }
}

fn zip_data_at(bytes: &[u8]) -> usize {
    30 + usize::from(bytes[26]) + usize::from(bytes[28])
}
