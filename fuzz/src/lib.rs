//! Fuzzes everything that reads external bytes with damaged input.
//!
//! A target is a plain function of bytes. It may reject them; it must not panic, hang or use more
//! memory than [`MEMORY`], and what it accepts must satisfy the guarantees documented at the target. The
//! corpus of a target is in `corpus/<target>/`: files written by other programs and by ours, and the
//! damaged ones that once broke something. `tests/corpus.rs` replays it with a fixed set of
//! mutations; `make fuzz` continues for a given time.

pub mod driver;
mod examples;
pub mod mutate;
mod records;
mod spec;
mod table;

use std::path::PathBuf;

use veridical_io::ReadOptions;

/// What a target did with its input, in words without numbers. An input with a new outcome found a new
/// path through the code and is worth mutating further.
pub type Outcome = String;

/// A function of bytes that must survive them.
pub struct Target {
    /// The name of its corpus folder.
    pub name: &'static str,
    run: Runner,
}

enum Runner {
    /// The bytes are a table, in a file of this name.
    Table(&'static str, fn(&mut ReadOptions)),
    /// The bytes are the ids of a table, in a file of this name.
    Ids(&'static str),
    /// The bytes are records of some kind, in a file of this name.
    Records(&'static str, records::Read),
    /// The bytes are examples, in a folder with others.
    Examples(examples::Setting),
    /// The bytes are anything else.
    Plain(fn(&[u8]) -> Outcome),
}

/// All targets. The file name selects the reader: a new format is one more line, and a folder
/// of the same name with a few intact files (`make_corpus.py`).
pub const TARGETS: &[Target] = &[
    table("parquet", "t.parquet", |_| {}),
    table("parquet_kept", "t.parquet", |o| o.keep_columns = vec!["title".into()]),
    table("arrow_file", "t.arrow", |_| {}),
    table("arrow_stream", "t.arrows", |_| {}), // stdin is read by the same code
    table("npy", "t.npy", |_| {}),
    table("npz", "t.npz", |_| {}),
    table("safetensors", "t.safetensors", |_| {}),
    table("safetensors_index", "t.safetensors.index.json", |_| {}),
    table("word2vec_text", "t.vec", |_| {}),
    table("word2vec_binary", "t.bin", |_| {}),
    table("word2vec_binary_gz", "t.bin.gz", |_| {}),
    table("glove", "t.txt", |_| {}),
    table("csv", "t.csv", |_| {}),
    table("csv_kept", "t.csv", |o| o.keep_columns = vec!["title".into()]),
    table("csv_no_header", "t.csv", |o| o.no_header = true),
    table("csv_utf16", "t.csv", |o| o.encoding = Some("utf-16".into())),
    table("csv_shift_jis", "t.csv", |o| o.encoding = Some("shift_jis".into())),
    table("csv_gz", "t.csv.gz", |_| {}),
    table("csv_xz", "t.csv.xz", |_| {}),
    table("csv_zst", "t.csv.zst", |_| {}),
    table("tsv", "t.tsv", |o| o.text_ids = true),
    ids("ids_lines", "ids.txt"),
    ids("ids_csv", "ids.csv"),
    ids("ids_parquet", "ids.parquet"),
    records("interactions_csv", "r.csv", records::read_interactions),
    records("interactions_csv_gz", "r.csv.gz", records::read_interactions),
    records("interactions_dat", "r.dat", records::read_interactions),
    records("interactions_text", "r.data", records::read_interactions),
    records("interactions_inter", "r.inter", records::read_interactions),
    records("interactions_parquet", "r.parquet", records::read_interactions),
    records("interactions_arrow", "r.arrow", records::read_interactions),
    records("interactions_npz", "r.npz", records::read_interactions),
    records("labels_dat", "l.dat", records::read_labels),
    records("labels_csv", "l.csv", records::read_labels),
    records("labels_parquet", "l.parquet", records::read_labels),
    records("labels_triples", "l.tsv", records::read_triples),
    records("edges_csv", "e.csv", records::read_edges),
    records("edges_npz", "e.npz", records::read_edges),
    records("text_lines", "t.txt", records::read_documents),
    records("text_csv", "t.csv", records::read_documents),
    records("tokenizer_json", "tokenizer.json", records::read_tokenizer),
    records("tokenizer_list", "vocab.txt", records::read_tokenizer),
    records("map", "m.safetensors", records::read_map),
    examples("idx_images", "train-images-idx3-ubyte", &[("train-labels-idx1-ubyte", LABELS)]),
    examples("idx_images_gz", "t10k-images-idx3-ubyte.gz", &[("t10k-labels-idx1-ubyte", LABELS)]),
    examples("idx_labels", "train-labels-idx1-ubyte", &[("train-images-idx3-ubyte", IMAGES)]),
    examples("cifar_10", "data_batch_1.bin", &[]),
    examples("cifar_100", "train.bin", &[]),
    examples("sheet", "data_batch_1.png", &[("train_labels.json", b"[0,1,2,0]")]),
    examples("sheet_labels", "train_lables.json", &[("data_batch_1.png", SHEET)]),
    examples("png", "a/1.png", &[("b/1.png", PIXELS)]),
    examples("jpeg", "a/1.jpg", &[("b/1.jpg", PHOTO)]),
    rows("rows_csv", "t.csv", "y", false),
    rows("rows_numbers", "t.csv", "y", true),
    rows("rows_parquet", "t.parquet", "y", false),
    Target { name: "spec", run: Runner::Plain(spec::run) },
];

const fn table(name: &'static str, file: &'static str, set: fn(&mut ReadOptions)) -> Target {
    Target { name, run: Runner::Table(file, set) }
}

const fn ids(name: &'static str, file: &'static str) -> Target {
    Target { name, run: Runner::Ids(file) }
}

const fn records(name: &'static str, file: &'static str, read: records::Read) -> Target {
    Target { name, run: Runner::Records(file, read) }
}

/// Files beside the input of some targets.
const IMAGES: &[u8] = include_bytes!("../corpus/idx_images/grey");
const LABELS: &[u8] = include_bytes!("../corpus/idx_labels/three-classes");
const SHEET: &[u8] = include_bytes!("../corpus/sheet/colour");
const PIXELS: &[u8] = include_bytes!("../corpus/png/grey");
const PHOTO: &[u8] = include_bytes!("../corpus/jpeg/colour");

const fn examples(
    name: &'static str,
    file: &'static str,
    beside: &'static [(&'static str, &'static [u8])],
) -> Target {
    Target { name, run: Runner::Examples(examples::Setting { file, beside, target: None }) }
}

const fn rows(
    name: &'static str,
    file: &'static str,
    target: &'static str,
    is_number: bool,
) -> Target {
    let target = Some((target, is_number));
    Target { name, run: Runner::Examples(examples::Setting { file, beside: &[], target }) }
}

/// The memory in bytes that no input of the corpus's size may exceed.
pub const MEMORY: usize = 256 << 20;

impl Target {
    /// Returns the target named `name`.
    pub fn find(name: &str) -> Option<&'static Self> {
        TARGETS.iter().find(|target| target.name == name)
    }

    /// Runs the target; `intact` bytes must be accepted.
    ///
    /// # Panics
    /// If a guarantee is violated.
    pub fn run(&self, bytes: &[u8], intact: bool) -> Outcome {
        match &self.run {
            Runner::Table(file, set) => table::run(file, *set, bytes, intact),
            Runner::Ids(file) => table::run_ids(file, bytes, intact),
            Runner::Records(file, read) => records::run(file, *read, bytes, intact),
            Runner::Examples(setting) => examples::run(self.name, setting, bytes, intact),
            Runner::Plain(run) => run(bytes),
        }
    }

    /// Returns the files of its corpus in the order of their names.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn corpus(&self) -> std::io::Result<Vec<(PathBuf, Vec<u8>)>> {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus").join(self.name);
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            paths.push(entry?.path());
        }
        paths.sort();
        paths.into_iter().map(|path| Ok((path.clone(), std::fs::read(path)?))).collect()
    }
}

/// The first words of an error, without numbers and what it quotes from the input.
fn words(error: &str) -> Outcome {
    let unquoted = error.split(['`', '"']).step_by(2).collect::<String>();
    let plain = |word: &&str| word.bytes().all(|b| b.is_ascii_lowercase() || b",:;".contains(&b));
    unquoted.split(' ').filter(plain).take(8).collect::<Vec<_>>().join(" ")
}
