//! Readers of interactions, labels, edges, documents, tokenizers and maps.
//!
//! Reading twice returns the same data. If interactions are read,
//! - every row has a user and an item of its maps, a rating that is finite and not negative, and a time, if any
//!   row has one;
//! - ids ascend and have no surrounding spaces;
//! - written as CSV they read back the same.
//!
//! If labels or edges are read, lists ascend without repeats, edges are symmetric without self-loops, and edges read back
//! as they were written. If documents are read, every word has its number of occurrences in the vocabulary, by descending
//! count, and is one word again. If a map is read, its parts match, all its values are finite, and it reads back as it was
//! written. If a tokenizer is read, its ids are in its vocabulary, and a limit returns a prefix of the result without it.

use std::fs;
use std::path::Path;

use tempfile::TempDir;
use veridical_data::{Graph, IdMap, Interactions};
use veridical_io::models::affine;
use veridical_io::{EdgeOptions, Error, LabelOptions, TextOptions, read_names};
use veridical_io::{interactions, interactions::InteractionOptions};
use veridical_text::Tokenizer;

use crate::{Outcome, words};

/// Reads a file and checks the result; returns a short description.
pub(crate) type Read = fn(&Path, again: bool) -> Result<String, Error>;

thread_local! {
    /// The folder of the inputs; left behind if the process dies.
    static FOLDER: TempDir = tempfile::Builder::new()
        .prefix("veridical-fuzz-")
        .tempdir()
        .expect("a folder for the inputs can be created");
}

pub(crate) fn run(file: &str, read: Read, bytes: &[u8], intact: bool) -> Outcome {
    FOLDER.with(|folder| {
        let path = folder.path().join(file);
        let _ = fs::remove_file(&path); // does not exist the first time
        fs::write(&path, bytes).expect("the input can be put into its file");
        // Writing files and reading them back takes longer than everything else: for one input in eight.
        let again = intact || bytes.iter().fold(0u8, |sum, b| sum.wrapping_add(*b)) % 8 == 0;
        match read(&path, again) {
            Ok(what) => format!("read {what}"),
            Err(error) => {
                assert!(!intact, "an intact file is refused: {error}");
                let text = error.to_string();
                words(text.split_once(": ").map_or(&*text, |(_, what)| what)) // without the file
            }
        }
    })
}

/// The nodes of the labels and edges.
fn nodes() -> IdMap {
    IdMap::numbered(10)
}

pub(crate) fn read_map(path: &Path, again: bool) -> Result<String, Error> {
    let (map, metadata) = affine::read(path)?;
    assert_eq!(map.matrix.len(), map.from.len() * map.to.len());
    assert!(!map.matrix.is_empty());
    let values = map.from.iter().chain(&map.matrix).chain(&map.to);
    assert!(values.clone().all(|x| x.is_finite()));
    if again {
        let other = path.with_file_name("again.safetensors");
        affine::write(&map, &metadata, &other)?;
        assert_eq!(affine::read(&other)?, (map, metadata));
    }
    Ok("a map".into())
}

pub(crate) fn read_tokenizer(path: &Path, _again: bool) -> Result<String, Error> {
    let folder = path.parent().expect("inputs are in a folder");
    if path.ends_with("vocab.txt") {
        let _ = fs::remove_file(folder.join("tokenizer.json")); // of the other target, if it ran
        fs::write(folder.join("tokenizer_config.json"), "{}").expect("a file can be written");
    }
    let tokenizer = Tokenizer::open(&veridical_io::FolderFiles::new(folder))?;
    let around = tokenizer.n_special();
    for text in [
        "",
        " the film,\ta b! ",
        "[CLS]Caf\u{e9} \u{4e2d}\u{1f600}</s>thethe",
        "\u{0}\u{301}ab[SEP] x",
    ] {
        let (mut whole, mut cut) = (Vec::new(), Vec::new());
        tokenizer.encode(text, usize::MAX, &mut whole);
        let limit = around + 2;
        tokenizer.encode(text, limit, &mut cut);
        assert!(whole.iter().all(|&id| (id as usize) < tokenizer.vocabulary()));
        assert_eq!(cut.len(), whole.len().min(limit));
        let same = whole.iter().zip(&cut).take_while(|(a, b)| a == b).count();
        assert!(same + around >= cut.len());
    }
    Ok("a tokenizer".into())
}

pub(crate) fn read_interactions(path: &Path, again: bool) -> Result<String, Error> {
    let options = InteractionOptions::default();
    let read = interactions::read(path, &options)?;
    let data = &read.data;
    assert!(*data == interactions::read(path, &options).expect("it was read before").data);
    check_rows(data);
    if again {
        let copy = path.with_file_name("copy.csv");
        let rows: Vec<u32> = (0..data.len() as u32).collect();
        interactions::write(&copy, data, &rows, &interactions::ColumnNames::default())
            .expect("rows can be written");
        let back = interactions::read(&copy, &options).expect("rows can be read back").data;
        assert!(back == *data, "rows read back differ");
    }
    let least = InteractionOptions { min_rating: Some(2.0), ..options };
    if let Ok(read) = interactions::read(path, &least) {
        assert!(read.data.rating.iter().flatten().all(|&rating| rating >= 2.0));
    }
    Ok(format!("{} rows, {} notes", data.len().min(3), read.notes.len()))
}

fn check_rows(data: &Interactions) {
    let n = data.len();
    assert!(n > 0 && data.item.len() == n);
    assert!(data.user.iter().all(|&u| (u as usize) < data.users.len()));
    assert!(data.item.iter().all(|&i| (i as usize) < data.items.len()));
    assert!(data.rating.as_ref().is_none_or(|rating| rating.len() == n));
    assert!(data.rating.iter().flatten().all(|r| r.is_finite() && *r >= 0.0));
    assert!(data.time.as_ref().is_none_or(|time| time.len() == n));
    for map in [&data.users, &data.items] {
        for number in 0..map.len() as u32 {
            let id = map.id(number);
            assert!(id == id.trim() && map.number(&id) == Some(number), "{id:?}");
        }
    }
}

pub(crate) fn read_labels(path: &Path, again: bool) -> Result<String, Error> {
    labels(path, again, &LabelOptions::default())
}

pub(crate) fn read_triples(path: &Path, again: bool) -> Result<String, Error> {
    let options = LabelOptions { relation: Some("genre".into()), ..LabelOptions::default() };
    labels(path, again, &options)
}

fn labels(path: &Path, again: bool, options: &LabelOptions) -> Result<String, Error> {
    let (labels, notes) = veridical_io::read_labels(path, options, &nodes())?;
    assert!(labels.of.len() == nodes().len());
    for classes in labels.of.iter() {
        assert!(classes.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(classes.iter().all(|&class| (class as usize) < labels.classes.len()));
    }
    check_graph(&Graph::from_labels(&labels));
    if again {
        let _ = read_names(path, &Default::default()); // may be refused
    }
    Ok(format!("{} classes, {} notes", labels.classes.len().min(3), notes.len()))
}

pub(crate) fn read_edges(path: &Path, again: bool) -> Result<String, Error> {
    let (graph, notes) = veridical_io::read_edges(path, &EdgeOptions::default(), &nodes())?;
    check_graph(&graph);
    if let Graph::Edges { weights, .. } = &graph {
        // Sums of weights may exceed the range of f32.
        assert!(weights.iter().flatten().all(|w| *w > 0.0 && w.is_finite()));
    }
    if again {
        let copy = path.with_file_name("copy.csv");
        veridical_io::write_graph(&graph, &copy, &nodes()).expect("edges can be written");
        let back = veridical_io::read_edges(&copy, &EdgeOptions::default(), &nodes());
        assert!(back.expect("edges can be read back").0 == graph, "edges read back differ");
    }
    let strict = EdgeOptions { strict: true, ..EdgeOptions::default() };
    if let Ok((strict, _)) = veridical_io::read_edges(path, &strict, &nodes()) {
        assert!(strict == graph);
    }
    Ok(format!("{} edges, {} notes", graph.describe().edges.min(3), notes.len()))
}

fn check_graph(graph: &Graph) {
    assert!(graph.n_nodes() == nodes().len());
    let mut ends = 0;
    for node in 0..graph.n_nodes() {
        let near = graph.neighbors(node);
        ends += near.len() as u64;
        assert!(near.windows(2).all(|pair| pair[0] < pair[1]) && !near.contains(&(node as u32)));
        for &other in &near {
            assert!(graph.neighbors(other as usize).contains(&(node as u32)), "not symmetric");
        }
    }
    assert_eq!(graph.describe().edges * 2, ends);
}

pub(crate) fn read_documents(path: &Path, _again: bool) -> Result<String, Error> {
    let options = TextOptions { min_count: 1, ..TextOptions::default() };
    let (corpus, notes) = veridical_io::read_corpus(path, &options)?;
    assert_eq!(corpus.docs.len(), corpus.tokens.len());
    let mut counts = vec![0; corpus.words.len()];
    corpus.tokens.values().iter().for_each(|&word| counts[word as usize] += 1);
    assert!(counts == corpus.counts && counts.iter().all(|&n| n > 0));
    let order = |i: usize| (std::cmp::Reverse(corpus.counts[i]), &corpus.words[i]);
    assert!((1..corpus.words.len()).all(|i| order(i - 1) < order(i)), "words out of order");
    let vocabulary = corpus.vocabulary(true);
    for (number, word) in corpus.words.iter().enumerate() {
        assert_eq!(vocabulary.tokenize(word), [number as u32], "{word:?}");
    }
    let (again, _) =
        veridical_io::read_corpus_with(path, &options, &vocabulary).expect("it was read before");
    assert!(again == corpus, "the same documents under the same words differ");
    Ok(format!("{} documents, {} notes", corpus.docs.len().min(3), notes.len()))
}
