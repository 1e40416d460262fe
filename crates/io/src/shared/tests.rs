//! Joins from files in every state against the join in memory.

use std::path::Path;

use veridical_core::{Job, Seed};
use veridical_data::{Ids, Passes as _, VectorTable, generate, join};

use super::*;

const N: usize = 3000;

fn numbered(dim: usize, seed: u64) -> VectorTable {
    let table = generate::clusters(N, dim, 3, Seed::new(seed).unwrap());
    VectorTable { ids: Ids::numbered(100, N), ..table }
}

fn options(folder: &Path, memory: u64) -> JoinOptions {
    JoinOptions { memory, besides: |_, _| 0, scratch: folder.join("scratch") }
}

fn named(folder: &Path, file: &str, table: &VectorTable) -> SharedTable {
    let path = folder.join(file);
    crate::write_table(table, &path).unwrap();
    let source = Source::Path(path);
    SharedTable {
        name: file.into(),
        source,
        options: ReadOptions { chunk_rows: Some(700), ..ReadOptions::default() },
    }
}

/// The rows of a table at these places.
fn taken(table: &VectorTable, places: &[u32], text: bool) -> VectorTable {
    let ids = table.ids.take(places);
    let ids = match text {
        true => Ids::Text((0..ids.len()).map(|i| Some(format!("id-{}", ids.get(i)))).collect()),
        false => ids,
    };
    let vectors = places.iter().flat_map(|&at| table.row(at as usize)).copied().collect();
    VectorTable { ids, dim: table.dim, vectors }
}

/// All windows, put together.
fn passed(files: &SharedFiles) -> (Vec<String>, Vec<Vec<f32>>) {
    let (mut ids, mut rows) = (Vec::new(), vec![Vec::new(); files.dims().len()]);
    files
        .pass(&mut |window| {
            assert_eq!(window.first, ids.len());
            ids.extend((0..window.len()).map(|i| window.ids.get(i)));
            rows.iter_mut().zip(window.tables).for_each(|(all, rows)| all.extend_from_slice(rows));
            Ok(())
        })
        .unwrap();
    (ids, rows)
}

#[test]
fn every_way_to_keep_rows_gives_the_same_windows() {
    let folder = tempfile::tempdir().unwrap();
    let table = numbered(5, 0);
    let other = numbered(4, 1);
    let all: Vec<u32> = (0..N as u32).collect();
    let shuffled: Vec<u32> = (0..N as u32).map(|i| i * 1009 % N as u32).collect();
    let late: Vec<u32> = (0..2000).chain((2000..N as u32).rev()).collect();
    let gaps: Vec<u32> = (0..N as u32).filter(|i| i % 7 != 3).collect();
    let few: Vec<u32> = shuffled.iter().copied().filter(|i| i % 3 != 0).collect();
    for text in [false, true] {
        for (first, second) in [
            (&all, &all),
            (&all, &shuffled),
            (&gaps, &late),
            (&late, &gaps),
            (&few, &shuffled),
            (&gaps, &few),
        ] {
            let tables = vec![taken(&table, first, text), taken(&other, second, text)];
            let want = join(tables.clone()).unwrap();
            for extension in ["parquet", "csv", "npz"] {
                for memory in [1 << 30, 200_000] {
                    let files = ["a", "b"].iter().zip(&tables);
                    let files = files
                        .map(|(name, t)| named(folder.path(), &format!("{name}.{extension}"), t))
                        .collect();
                    let mut seen = [0, 0];
                    let mut observe = |read: FirstRead<'_>| {
                        assert_eq!(read.first, seen[read.table]);
                        seen[read.table] += read.chunk.n_rows();
                    };
                    let options = options(folder.path(), memory);
                    let (shared, counts) =
                        join_tables(files, &options, &Job::silent(), &mut observe).unwrap();
                    let kept = shared.stored.iter().all(|s| matches!(s, Stored::Kept(_)));
                    assert_eq!(kept, memory > 1 << 20, "the test is about both");
                    assert_eq!(seen, [first.len(), second.len()]);
                    for _ in 0..2 {
                        let (ids, rows) = passed(&shared);
                        let ids_want = &want.tables[0].ids;
                        assert_eq!(
                            ids,
                            (0..ids_want.len()).map(|i| ids_want.get(i)).collect::<Vec<_>>()
                        );
                        assert!(
                            rows.iter().zip(&want.tables).all(|(got, want)| *got == want.vectors)
                        );
                    }
                    assert_eq!(counts[1].missing, want.missing[1]);
                    assert_eq!(counts[1].extra, want.extra[1]);
                    let id = want.tables[0].ids.get(17);
                    assert_eq!((shared.find(&id), shared.find("nobody")), (Some(17), None));
                    drop(shared);
                    let left = std::fs::read_dir(&options.scratch).map_or(0, Iterator::count);
                    assert_eq!(left, 0, "the scratch folder is left as it was");
                }
            }
        }
    }
}

#[test]
fn what_cannot_be_joined_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let table = numbered(5, 0);
    let refused = |tables: [&VectorTable; 2], memory| {
        let files = ["a.parquet", "b.parquet"].iter().zip(tables);
        let files = files.map(|(name, t)| named(folder.path(), name, t)).collect();
        let options = options(folder.path(), memory);
        join_tables(files, &options, &Job::silent(), &mut |_| ()).unwrap_err().to_string()
    };
    let mut twice: Vec<u32> = (0..N as u32).collect();
    twice[2500] = 1200;
    let twice = taken(&table, &twice, false);
    let what = "the id 1300 occurs twice, in rows 1200 and 2500; drop one of them, or pass ⟨on-duplicate-id⟩ first or \
                ⟨on-duplicate-id⟩ mean";
    assert_eq!(refused([&twice, &table], 1 << 30), format!("a.parquet: {what}"));
    assert_eq!(refused([&table, &twice], 200_000), format!("b.parquet: {what}"));
    let text = taken(&table, &(0..N as u32).collect::<Vec<_>>(), true);
    assert!(
        refused([&table, &text], 1 << 30)
            .starts_with("b.parquet has text ids and a.parquet has integer ids")
    );
    let little = refused([&table, &table], 20_000);
    assert_eq!(
        little,
        "⟨memory⟩ must be at least 1 MB for tables of 3000 ids and dimension 5, got 1 MB"
    );
}
