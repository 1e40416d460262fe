//! BLAKE3 fingerprints of values.
//!
//! `content:<hex>` covers the parsed content of a file, ids and values in their order: the same data in
//! another format, or compressed, has the same fingerprint.
//!
//! ```
//! use veridical_core::Seed;
//! use veridical_data::{fingerprint, generate};
//!
//! let table = generate::clusters(10, 4, 2, Seed::new(0)?);
//! let same = fingerprint::of_table(&table.clone());
//! assert_eq!(fingerprint::of_table(&table), same);
//! assert!(same.starts_with("content:"));
//! # Ok::<(), veridical_core::Error>(())
//! ```

use crate::examples::{Examples, Targets, Values};
use crate::{Corpus, Graph, Ids, Interactions, LabeledTexts, Lists, Part, TensorMap, VectorTable};

/// Returns the fingerprint of interactions.
pub fn of_interactions(data: &Interactions) -> String {
    let Interactions { users, items, user, item, rating, time } = data;
    let mut content = Content::new("interactions");
    content.ids(users.ids());
    content.ids(items.ids());
    content.numbers(user);
    content.numbers(item);
    content.maybe(rating.as_deref(), |x| x.to_bits().to_le_bytes());
    content.maybe(time.as_deref(), |x| x.to_le_bytes());
    content.finish()
}

/// Returns the fingerprint of a vector table.
pub fn of_table(table: &VectorTable) -> String {
    let mut content = TableContent::new(table.dim);
    content.add(&table.ids, &table.vectors);
    content.finish()
}

/// The fingerprint of [`of_table`] for a table that arrives row by row: ids and vectors are hashed side by side, and their hashes
/// together. How the rows are cut does not matter.
pub struct TableContent {
    dim: usize,
    rows: u64,
    ids: blake3::Hasher,
    vectors: blake3::Hasher,
}

impl TableContent {
    /// Starts with no rows.
    pub fn new(dim: usize) -> Self {
        Self { dim, rows: 0, ids: blake3::Hasher::new(), vectors: blake3::Hasher::new() }
    }

    /// Adds rows.
    pub fn add(&mut self, ids: &Ids, vectors: &[f32]) {
        self.rows += ids.len() as u64;
        match ids {
            Ids::Int(ids) => hash_values(&mut self.ids, ids.values(), |x| x.to_le_bytes()),
            Ids::Text(ids) => ids.iter().map(Option::unwrap_or_default).for_each(|id| {
                self.ids.update(&(id.len() as u64).to_le_bytes()).update(id.as_bytes());
            }),
        }
        hash_values(&mut self.vectors, vectors, |x| x.to_bits().to_le_bytes());
    }

    /// Returns the fingerprint.
    pub fn finish(self) -> String {
        let mut content = Content::new("table");
        content.values(&[self.dim as u64, self.rows], u64::to_le_bytes);
        content.bytes(self.ids.finalize().as_bytes());
        content.bytes(self.vectors.finalize().as_bytes());
        content.finish()
    }
}

/// Adds the bytes of values to a hash.
fn hash_values<T: Copy, const N: usize>(
    hasher: &mut blake3::Hasher,
    values: &[T],
    bytes: fn(T) -> [u8; N],
) {
    for block in values.chunks(1 << 14) {
        let block: Vec<u8> = block.iter().flat_map(|&x| bytes(x)).collect();
        hasher.update(&block);
    }
}

/// Returns the fingerprint of tokenized documents.
pub fn of_corpus(corpus: &Corpus) -> String {
    let mut content = Content::new("corpus");
    content.ids(&corpus.docs);
    content.values(&corpus.counts, |x| x.to_le_bytes());
    corpus.words.iter().for_each(|word| content.text(word));
    content.lists(&corpus.tokens);
    content.finish()
}

/// Returns the fingerprint of labeled documents, regardless of the part they belong to.
pub fn of_labeled(texts: &LabeledTexts) -> String {
    let mut content = Content::new("labelled");
    content.values(&[texts.texts.len()], |n| (n as u64).to_le_bytes());
    texts.texts.iter().chain(&texts.labels).for_each(|text| content.text(text));
    content.finish()
}

/// Returns the fingerprint of the assignment of documents to parts.
pub fn of_parts(parts: &[Part]) -> String {
    let mut content = Content::new("parts");
    content.values(parts, |part| [part as u8]);
    content.finish()
}

/// Returns the fingerprint of a graph.
pub fn of_graph(graph: &Graph) -> String {
    let mut content = Content::new("graph");
    match graph {
        Graph::Edges { neighbors, weights } => {
            content.lists(neighbors);
            content.maybe(weights.as_deref(), |x| x.to_bits().to_le_bytes());
        }
        Graph::Groups { of, .. } => content.lists(of), // the members carry the same information
    }
    content.finish()
}

/// Returns the fingerprint of examples: inputs, targets, and the names of classes and columns.
pub fn of_examples(examples: &Examples, classes: &[String], columns: &[String]) -> String {
    let mut content = Content::new("examples");
    content.values(&examples.shape.dims(), |n| (n as u64).to_le_bytes());
    match &examples.values {
        Values::Bytes(values) => content.bytes(values),
        Values::Floats(values) => content.values(values, |x| x.to_bits().to_le_bytes()),
    }
    match &examples.targets {
        Targets::Classes(labels) => content.numbers(labels),
        Targets::Numbers { dim, values } => {
            content.values(&[*dim], |n| (n as u64).to_le_bytes());
            content.values(values, |x| x.to_bits().to_le_bytes());
        }
    }
    for names in [classes, columns] {
        content.values(&[names.len()], |n| (n as u64).to_le_bytes());
        names.iter().for_each(|name| content.text(name));
    }
    content.finish()
}

/// Returns the fingerprint of a list of numbers.
pub fn of_numbers(numbers: &[usize]) -> String {
    let mut content = Content::new("numbers");
    content.values(numbers, |n| (n as u64).to_le_bytes());
    content.finish()
}

/// Returns the fingerprint of a text.
pub fn of_text(text: &str) -> String {
    let mut content = Content::new("text");
    content.text(text);
    content.finish()
}

/// Returns the fingerprint of named tensors.
pub fn of_tensors(tensors: &TensorMap) -> String {
    let mut content = Content::new("tensors");
    for (name, (shape, values)) in tensors {
        content.text(name);
        content.values(shape, |n| (n as u64).to_le_bytes());
        content.values(values, |x| x.to_bits().to_le_bytes());
    }
    content.finish()
}

/// A hash under construction; each list is preceded by its length.
struct Content(blake3::Hasher);

impl Content {
    fn new(kind: &str) -> Self {
        let mut content = Self(blake3::Hasher::new());
        content.text(kind);
        content
    }

    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
    }

    fn ids(&mut self, ids: &Ids) {
        match ids {
            Ids::Int(ids) => self.values(ids.values(), |x| x.to_le_bytes()),
            Ids::Text(ids) => ids.iter().for_each(|id| self.text(id.unwrap_or_default())),
        }
    }

    fn numbers(&mut self, values: &[u32]) {
        self.values(values, |x| x.to_le_bytes());
    }

    fn lists(&mut self, lists: &Lists) {
        lists.iter().for_each(|list| self.numbers(list));
    }

    fn maybe<T: Copy, const N: usize>(&mut self, values: Option<&[T]>, bytes: fn(T) -> [u8; N]) {
        match values {
            Some(values) => self.values(values, bytes),
            None => self.text("none"),
        }
    }

    fn values<T: Copy, const N: usize>(&mut self, values: &[T], bytes: fn(T) -> [u8; N]) {
        self.0.update(&(values.len() as u64).to_le_bytes());
        hash_values(&mut self.0, values, bytes);
    }

    fn finish(self) -> String {
        format!("content:{}", self.0.finalize().to_hex())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_one_fingerprint_however_it_is_cut() {
        for ids in [Ids::numbered(0, 9), Ids::Text((0..9).map(|i| Some(format!("a{i}"))).collect())]
        {
            let vectors: Vec<f32> = (0..18u8).map(f32::from).collect();
            let whole =
                of_table(&VectorTable { ids: ids.clone(), dim: 2, vectors: vectors.clone() });
            let mut content = TableContent::new(2);
            for (from, to) in [(0, 1), (1, 7), (7, 9)] {
                content.add(&ids.slice(from, to - from), &vectors[2 * from..2 * to]);
            }
            assert_eq!(content.finish(), whole);
        }
    }

    #[test]
    fn every_value_changes_the_fingerprint() {
        use crate::IdMap;
        let of = |user: &[i64], item: &[i64], time: Option<Vec<i64>>| {
            let (users, user) = IdMap::of_integers(user);
            let (items, item) = IdMap::of_integers(item);
            of_interactions(&Interactions { users, items, user, item, rating: None, time })
        };
        let all = [
            of(&[1, 2], &[5, 6], None),
            of(&[1, 3], &[5, 6], None),
            of(&[1, 2], &[6, 5], None),
            of(&[1, 2], &[5, 6], Some(vec![0, 1])),
            of(&[1, 2], &[5, 6], Some(vec![1, 0])),
        ];
        let distinct: std::collections::BTreeSet<&String> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
        assert_eq!(all[0], of(&[1, 2], &[5, 6], None));
    }
}
