//! Documents as numbers of words.

use crate::{Ids, Lists};

/// Documents, their words and how often each occurs.
#[derive(Clone, Debug, PartialEq)]
pub struct Corpus {
    /// One id per document, in the order of the input.
    pub docs: Ids,
    /// The vocabulary: by falling count, then by bytes.
    pub words: Vec<String>,
    /// How often each word occurs.
    pub counts: Vec<u64>,
    /// The words of every document in their order, as numbers; words outside the vocabulary are left out.
    pub tokens: Lists,
}
