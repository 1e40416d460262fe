//! Readers of tables.
//!
//! If a table opens and reads to its end,
//! - every chunk has as many ids and kept values as rows, and vectors of the width of the schema;
//! - chunks of one row, of three rows and of the default size return the same rows, bit for bit;
//! - a reader that skips rows, as a resumed job does, returns the rest;
//! - `--on-nan zero` keeps all rows, `skip` keeps those without a bad value, `error` returns the table
//!   only if no value is bad: then all three agree.
//!
//! If it does not, it fails for all chunk sizes. An intact file must open.
//!
//! Damaged Parquet is the exception: a byte of its schema or its levels can make the decoder return other
//! rows in other chunks, or detect the damage only from certain positions. Parquet files have no checksum
//! by default, so there only the shape of the result is checked; intact files satisfy every guarantee.

use std::fs;
use std::path::Path;

use tempfile::TempDir;
use veridical_data::Ids;
use veridical_io::{Error, OnNan, ReadOptions, Source, TableReader};

use crate::{Outcome, words};

/// Rows that are checked: run lengths make millions of rows from a few bytes.
const ROWS: usize = 2000;
/// Values that are checked, for the same reason.
const VALUES: usize = 1 << 20;

/// The file that an index of shards may refer to.
const SHARD: (&str, &[u8]) = ("shard.safetensors", include_bytes!("../corpus/safetensors/vectors"));

thread_local! {
    /// The folder of the inputs; left behind if the process dies.
    static FOLDER: TempDir = tempfile::Builder::new()
        .prefix("veridical-fuzz-")
        .tempdir()
        .expect("a folder for the inputs can be created");
}

pub(crate) fn run(file: &str, set: fn(&mut ReadOptions), bytes: &[u8], intact: bool) -> Outcome {
    let mut options = ReadOptions::default();
    set(&mut options);
    FOLDER.with(|folder| {
        let path = folder.path().join(file);
        if file.ends_with(".index.json") && !folder.path().join(SHARD.0).exists() {
            put(&folder.path().join(SHARD.0), SHARD.1);
        }
        put(&path, bytes);
        check(&path, &options, intact)
    })
}

/// Checks the ids of a table of five rows.
pub(crate) fn run_ids(file: &str, bytes: &[u8], intact: bool) -> Outcome {
    FOLDER.with(|folder| {
        let (rows, path) = (folder.path().join("rows.csv"), folder.path().join(file));
        put(&rows, b"a,b\n1,2\n3,4\n5,6\n7,8\n9,10\n");
        put(&path, bytes);
        let ids = veridical_io::Input::from(path).into();
        check(&rows, &ReadOptions { ids, ..ReadOptions::default() }, intact)
    })
}

/// Creates a new file: some file systems flush an overwritten one, which takes longer than everything else.
fn put(path: &Path, bytes: &[u8]) {
    let _ = fs::remove_file(path); // does not exist the first time
    fs::write(path, bytes).expect("the input can be put into its file");
}

/// The first rows of a table.
#[derive(Debug, Default, PartialEq)]
struct Rows {
    dim: usize,
    numbers: Vec<u64>,
    ids: Vec<String>,
    /// As bits, so that NaN equals itself.
    values: Vec<u32>,
    /// Whether all rows were read.
    whole: bool,
}

impl Rows {
    fn row(&self, i: usize) -> &[u32] {
        &self.values[i * self.dim..][..self.dim]
    }
}

fn check(path: &Path, options: &ReadOptions, intact: bool) -> Outcome {
    let may_differ = !intact && path.extension().is_some_and(|extension| extension == "parquet");
    let with = |on_nan, chunk_rows| ReadOptions { on_nan, chunk_rows, ..options.clone() };
    let zero = read(path, &with(OnNan::Zero, None), 0);
    for chunk_rows in [1, 3] {
        let again = read(path, &with(OnNan::Zero, Some(chunk_rows)), 0);
        match (&zero, &again) {
            (Ok((one, _)), Ok((other, _))) if one == other => {}
            (Err(_), Err(_)) => {}
            _ if may_differ => return DIFFERS.into(),
            (Ok(_), Ok(_)) => panic!("chunks of {chunk_rows} differ"),
            (one, other) => panic!("chunks of {chunk_rows}: {} {}", end(one), end(other)),
        }
    }
    let skip = read(path, &with(OnNan::Skip, None), 0);
    let strict = read(path, &with(OnNan::Error, None), 0);
    let Ok((zero, zeroed)) = zero else {
        assert!(skip.is_err() && strict.is_err(), "the policy for NaN decides if a table is read");
        assert!(!intact, "an intact file is refused: {}", end(&skip));
        return end(&skip);
    };
    if zero.whole {
        check_policies(&zero, zeroed, skip, strict);
    }
    let passed = zero.ids.len() / 2;
    let rest = match read(path, &with(OnNan::Zero, None), passed as u64) {
        Ok((rest, _)) => rest,
        Err(_) if may_differ => return DIFFERS.into(),
        Err(e) => panic!("after {passed} rows: {e}"),
    };
    let (n, from) = (rest.ids.len(), passed * zero.dim);
    let same = rest.numbers[..] == zero.numbers[passed..][..n]
        && rest.ids[..] == zero.ids[passed..][..n]
        && rest.values[..] == zero.values[from..][..rest.values.len()];
    if may_differ && !same {
        return DIFFERS.into();
    }
    assert!(same, "the rows after {passed} others differ");
    format!("{} {} rows", if zeroed > 0 { "repaired" } else { "read" }, zero.ids.len().min(3))
}

const DIFFERS: &str = "damage read differently in other chunks";

type Read = Result<(Rows, u64), Error>;

fn check_policies(zero: &Rows, zeroed: u64, skip: Read, strict: Read) {
    let (skip, _) = skip.unwrap_or_else(|e| panic!("zero reads it, skip does not: {e}"));
    let kept: Vec<usize> = (0..zero.ids.len())
        .filter(|&i| skip.numbers.binary_search(&zero.numbers[i]).is_ok())
        .collect();
    assert_eq!(kept.len(), skip.ids.len(), "skip invents rows");
    for (s, &z) in kept.iter().enumerate() {
        assert_eq!((&skip.ids[s], skip.row(s)), (&zero.ids[z], zero.row(z)), "row {z}");
    }
    assert_eq!(zeroed > 0, kept.len() < zero.ids.len(), "skip and zero disagree about bad rows");
    match strict {
        Ok((strict, _)) => assert!(zeroed == 0 && strict == *zero, "a bad value passed"),
        Err(e) => assert!(zeroed > 0, "refused without a bad value: {e}"),
    }
}

/// The rows after `passed` ones, and how many values were set to 0.
fn read(path: &Path, options: &ReadOptions, passed: u64) -> Read {
    let mut reader = TableReader::open(&Source::Path(path.to_owned()), options)?;
    reader.skip_rows(passed);
    let (dim, promised) = (reader.schema().dim, reader.n_rows());
    let kept = reader.schema().kept.len();
    assert!(dim > 0, "vectors without values");
    let limit = ROWS.min(VALUES / dim).max(1);
    let mut rows = Rows { dim, ..Rows::default() };
    let mut zeroed = 0;
    while rows.ids.len() < limit {
        let Some(chunk) = reader.next_chunk()? else {
            rows.whole = true;
            break;
        };
        let n = chunk.n_rows();
        assert!(n > 0 && chunk.vectors.len() == n * dim, "{n} rows of {dim} have other values");
        assert_eq!(chunk.kept.len(), kept);
        chunk.kept.iter().for_each(|column| assert_eq!(column.len(), n));
        assert!(chunk.vectors.iter().all(|x| x.is_finite()), "a value is not finite");
        zeroed += chunk.zeroed_values();
        rows.numbers.extend(chunk.numbers());
        rows.ids.extend((0..n).map(|i| id(&chunk.ids, i)));
        rows.values.extend(chunk.vectors.iter().map(|x| x.to_bits()));
    }
    if rows.whole {
        assert!(promised.is_none_or(|n| n == reader.rows_read()), "{promised:?} rows promised");
        assert_eq!(reader.replaced().1, zeroed);
    }
    rows.numbers.truncate(limit);
    rows.ids.truncate(limit);
    rows.values.truncate(limit * dim);
    Ok((rows, zeroed))
}

/// With its kind, to distinguish the number 7 from the text "7".
fn id(ids: &Ids, i: usize) -> String {
    match ids {
        Ids::Int(ids) => format!("{}", ids.value(i)),
        Ids::Text(ids) => format!("{:?}", ids.value(i)),
    }
}

fn end(read: &Read) -> Outcome {
    let Err(error) = read else { return "read".into() };
    let text = error.to_string();
    let what = text.split_once(": ").map_or(&*text, |(_, what)| what); // without the file
    words(what)
}
