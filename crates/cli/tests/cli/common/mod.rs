//! Test sandbox: a folder to work in, the program to run there, and tables to run it on.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use parquet::arrow::ArrowWriter;
use tempfile::TempDir;
use veridical_core::Seed;
use veridical_data::generate::{CorpusSettings, ShopSettings};
use veridical_data::{IdMap, Ids, Interactions, VectorTable, generate};
use veridical_io::interactions::{self, ColumnNames};
use veridical_io::{ReadOptions, Source};

/// Files with their content, by their paths; folders have none.
pub type Files = BTreeMap<PathBuf, Option<Vec<u8>>>;

/// A temporary folder. Commands run inside it, so that messages name files without a path.
pub struct Sandbox(TempDir);

impl Sandbox {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file, with the folders above it.
    pub fn put(&self, name: &str, content: impl AsRef<[u8]>) -> &Self {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    pub fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    pub fn text(&self, name: &str) -> String {
        String::from_utf8(self.bytes(name)).unwrap()
    }

    pub fn has(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    /// Removes a file or a folder, if it exists.
    pub fn remove(&self, name: &str) {
        let path = self.path(name);
        if path.is_dir() {
            fs::remove_dir_all(path).unwrap();
        } else if path.exists() {
            fs::remove_file(path).unwrap();
        }
    }

    pub fn table(&self, name: &str) -> VectorTable {
        veridical_io::read_table(&Source::Path(self.path(name)), &ReadOptions::default()).unwrap()
    }

    pub fn command<I: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = I>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_veridical"));
        command.args(args).current_dir(self.0.path());
        command
    }

    /// Runs `line`, split at blanks.
    pub fn run(&self, line: &str) -> Outcome {
        Outcome::of(self.command(line.split_whitespace()).output().unwrap())
    }

    /// Runs `line` in a shell, where `veridical` is the program.
    pub fn shell(&self, line: &str) -> Outcome {
        let program = env!("CARGO_BIN_EXE_veridical");
        let script = format!("veridical() {{ \"{program}\" \"$@\"; }}\n{line}");
        let mut shell = Command::new("bash");
        shell.args(["-c", &script]).current_dir(self.0.path());
        Outcome::of(shell.output().unwrap())
    }

    /// Runs `line`, which must succeed, and returns what it printed.
    pub fn ok(&self, line: &str) -> String {
        let outcome = self.run(line);
        assert_eq!(outcome.code, Some(0), "{line}\n{outcome:?}");
        outcome.stdout
    }

    /// Runs `line`, which must succeed, and returns its warnings.
    pub fn warnings(&self, line: &str) -> Vec<String> {
        let outcome = self.run(line);
        assert_eq!(outcome.code, Some(0), "{line}\n{outcome:?}");
        outcome.warnings()
    }

    /// Runs `line`, which must exit with 2, print only `message`, and leave the folder unchanged.
    #[track_caller]
    pub fn refuses(&self, line: &str, message: &str) {
        self.refuses_like(line, |error| assert_eq!(error, message, "{line}"));
    }

    /// [`refuses`](Self::refuses) for a message that is not known exactly.
    #[track_caller]
    pub fn refuses_like(&self, line: &str, check: impl FnOnce(&str)) {
        let before = self.everything();
        let outcome = self.run(&format!("{line} --quiet"));
        assert_eq!(outcome.code, Some(2), "{line}\n{outcome:?}");
        check(outcome.only_error());
        assert_eq!(outcome.stdout, "", "{line}");
        assert!(self.everything() == before, "{line} left something: {:?}", self.names());
    }

    /// Runs `line`, which must report `file` as unreadable in `format`.
    #[track_caller]
    pub fn finds_malformed(&self, line: &str, file: &str, format: &str) {
        self.refuses_like(line, |error| {
            let start = format!("{file}: not a readable {format} file: ");
            assert!(error.starts_with(&start), "{line}\n{error}");
            let end = "; it may be truncated or damaged, write it again";
            assert!(error.ends_with(end), "{line}\n{error}");
        });
    }

    /// Returns all files of the sandbox.
    pub fn everything(&self) -> Files {
        self.below(".")
    }

    /// [`everything`](Self::everything) below a folder, or a file alone; a link has its target as content; without the lock that a killed job leaves and the next
    /// one takes over.
    pub fn below(&self, name: &str) -> Files {
        let top = self.path(name);
        let mut found = BTreeMap::new();
        let mut waiting = vec![top.clone()];
        while let Some(path) = waiting.pop() {
            let content = if path.is_symlink() && path != top {
                Some(fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes())
            } else if path.is_dir() {
                waiting.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
                None
            } else {
                Some(fs::read(&path).unwrap())
            };
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if !(name.starts_with('.') && name.ends_with(".lock")) {
                found.insert(path.strip_prefix(&top).unwrap().to_owned(), content);
            }
        }
        found
    }

    /// Whether the output `name` is `want`. A folder may be published with `_journal.json` for a
    /// moment; readers pass over it.
    pub fn holds(&self, name: &str, want: &Files) -> bool {
        let mut files = self.below(name);
        files.retain(|path, _| !path.to_string_lossy().starts_with('_'));
        files == *want
    }

    pub fn names(&self) -> Vec<PathBuf> {
        self.everything().into_keys().collect()
    }

    /// Writes columns as Parquet.
    pub fn put_parquet(&self, name: &str, columns: Vec<(&str, ArrayRef)>) -> &Self {
        self.put(name, "");
        let batch = batch(columns);
        let file = File::create(self.path(name)).unwrap();
        let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        self
    }

    /// Writes columns as an Arrow IPC file.
    pub fn put_arrow(&self, name: &str, columns: Vec<(&str, ArrayRef)>) -> &Self {
        self.put(name, "");
        let batch = batch(columns);
        let file = File::create(self.path(name)).unwrap();
        let mut writer = arrow_ipc::writer::FileWriter::try_new(file, &batch.schema()).unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
        self
    }

    /// Writes interactions of users of four tastes; items are called 100, 101, ..., and item i is of taste
    /// i mod 4, as are users.
    pub fn put_shop(&self, name: &str, users: usize, items: usize, per_user: usize) -> &Self {
        let shop = shop(users, items, per_user);
        let numbers: Vec<i64> = (100..100 + items as i64).collect();
        let data = Interactions { items: IdMap::of_integers(&numbers).0, ..shop };
        let rows: Vec<u32> = (0..data.len() as u32).collect();
        self.put(name, "");
        interactions::write(&self.path(name), &data, &rows, &ColumnNames::default()).unwrap();
        self
    }

    /// Writes documents of four topics with the columns `id` and `text`.
    pub fn put_documents(&self, name: &str, docs: usize) -> &Self {
        let seed = Seed::new(4).unwrap();
        let settings = CorpusSettings { docs, topics: 4, words: 20, length: 15, noise: 0.2, seed };
        let texts = generate::corpus(settings).unwrap().texts;
        let lines = texts.iter().enumerate().map(|(i, text)| format!("doc-{i},{text}\n"));
        self.put(name, format!("id,text\n{}", lines.collect::<String>()))
    }

    /// Writes a generated table in the format of the name; npy loses the ids.
    pub fn put_table(&self, name: &str, table: &VectorTable) -> &Self {
        if name.ends_with(".npy") {
            let shape = format!("({}, {})", table.n_rows(), table.dim);
            return self.put(name, npy("<f4", &shape, &singles(&table.vectors)));
        }
        self.put(name, "");
        veridical_io::write_table(table, &self.path(name)).unwrap();
        self
    }
}

/// Users and items of four tastes.
pub fn shop(users: usize, items: usize, per_user: usize) -> Interactions {
    let seed = Seed::new(11).unwrap();
    let settings =
        ShopSettings { users, items, clusters: 4, per_user, skew: 0.5, noise: 0.05, seed };
    generate::shop(settings).unwrap().data
}

/// Outcome of a command.
#[derive(Debug)]
pub struct Outcome {
    /// `None` after a signal.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Outcome {
    pub fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// stderr, if it is one line that reports an error: the error.
    #[track_caller]
    pub fn only_error(&self) -> &str {
        let line = self.stderr.strip_suffix('\n').unwrap_or(&self.stderr);
        assert!(!line.contains('\n'), "more than one line\n{self:?}");
        line.strip_prefix("veridical: error: ").unwrap_or_else(|| panic!("no error\n{self:?}"))
    }

    pub fn warnings(&self) -> Vec<String> {
        let warning = |line: &str| line.strip_prefix("veridical: warning: ").map(str::to_owned);
        self.stderr.lines().filter_map(warning).collect()
    }
}

/// The result of `line`, printed as JSON of `verb`.
#[track_caller]
pub fn json(sandbox: &Sandbox, verb: &str, line: &str) -> serde_json::Value {
    let text = sandbox.ok(&format!("{line} --json"));
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    // A sub-verb has its own schema.
    let document = match (verb, line.split_whitespace().nth(1)) {
        ("data" | "featurize" | "reproduce" | "vectors", Some(action)) => {
            format!("{verb}-{action}")
        }
        ("train", Some(what @ ("net" | "text"))) => format!("train-{what}"),
        _ => verb.to_owned(),
    };
    assert_eq!(value["schema"], format!("veridical.{document}/1"), "{line}");
    estimates_are_whole(&value);
    value
}

/// Checks that every value with an interval has the same JSON form.
#[track_caller]
pub fn estimates_are_whole(value: &serde_json::Value) {
    use serde_json::Value;
    match value {
        Value::Array(values) => values.iter().for_each(|value| estimates_are_whole(value)),
        Value::Object(fields) => {
            let has = |name: &str| fields.contains_key(name);
            assert!(!has("interval") && !has("sd_interval"), "{value}");
            if has("low") || has("high") {
                let number =
                    |name: &str| fields.get(name).is_some_and(|x| x.is_number() || x.is_null());
                assert!(["value", "low", "high"].into_iter().all(number), "{value}");
                assert!(value["n"].is_u64() && value["seeds"].as_u64() >= Some(1), "{value}");
            }
            fields.values().for_each(|value| estimates_are_whole(value));
        }
        _ => {}
    }
}

pub fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter(columns).unwrap()
}

/// Ids 0, 1, 2, ...
pub fn numbers(n: usize) -> ArrayRef {
    Arc::new(arrow_array::Int64Array::from_iter_values(0..n as i64))
}

/// A list column of f32.
pub fn lists(rows: &[&[f32]]) -> ArrayRef {
    let rows = rows.iter().map(|row| Some(row.iter().copied().map(Some)));
    Arc::new(arrow_array::ListArray::from_iter_primitive::<arrow_array::types::Float32Type, _, _>(
        rows,
    ))
}

/// Rows around three centers with integer ids.
pub fn rows(n: usize, dim: usize) -> VectorTable {
    let table = generate::clusters(n, dim, 3, Seed::new(5).unwrap());
    VectorTable { ids: Ids::Int((0..n as i64).map(|i| 3 * i + 1).collect()), ..table }
}

/// The same with text ids.
pub fn named_rows(n: usize, dim: usize) -> VectorTable {
    generate::clusters(n, dim, 3, Seed::new(5).unwrap())
}

/// Rows `from..to` of a table.
pub fn slice(table: &VectorTable, from: usize, to: usize) -> VectorTable {
    let ids = match &table.ids {
        Ids::Int(ids) => Ids::Int(ids.slice(from, to - from)),
        Ids::Text(ids) => Ids::Text(ids.slice(from, to - from)),
    };
    let vectors = table.vectors[from * table.dim..to * table.dim].to_vec();
    VectorTable { ids, dim: table.dim, vectors }
}

/// CSV text of a table: `id, v0, v1, ...`.
pub fn csv(table: &VectorTable) -> String {
    use std::fmt::Write as _;
    let names: Vec<String> = (0..table.dim).map(|k| format!("v{k}")).collect();
    let mut text = format!("id,{}\n", names.join(","));
    for r in 0..table.n_rows() {
        let values: Vec<String> = table.row(r).iter().map(f32::to_string).collect();
        writeln!(text, "{},{}", table.ids.get(r), values.join(",")).unwrap();
    }
    text
}

/// An npy file with this header and data.
pub fn npy(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend_from_slice(&(header.len() as u16).to_le_bytes());
    file.extend_from_slice(header.as_bytes());
    file.extend_from_slice(data);
    file
}

/// A safetensors file with this header and data.
pub fn safetensors(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), data].concat()
}

/// Little-endian singles.
pub fn singles(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}
