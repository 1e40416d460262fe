//! TF-IDF: documents as sparse vectors of their words and pairs of adjacent words.
//!
//! x_dt = (1 + ln tf_dt) (ln((1 + n) / (1 + df_t)) + 1) for the terms of a document, divided by its norm: sublinear term
//! frequencies, smoothed inverse document frequencies (Salton & Buckley 1988; scikit-learn's `TfidfVectorizer` with
//! `sublinear_tf`). Terms occur in at least `min_documents` documents, most frequent first, then by bytes.

use std::collections::HashMap;

use veridical_core::{Result, SparseRows};

use super::Corpus;
use super::words::for_each_word;
use crate::Ids;

/// What counts as a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TfidfSettings {
    /// Whether pairs of adjacent words are terms, besides words.
    pub pairs: bool,
    /// The fewest documents of a term.
    pub min_documents: u64,
    /// The most terms; those of most documents are kept.
    pub max_terms: usize,
}

/// The terms of some documents, with the weights of their rarity.
///
/// ```
/// use veridical_data::{Tfidf, TfidfSettings};
///
/// let settings = TfidfSettings { pairs: true, min_documents: 1, max_terms: 100 };
/// let tfidf = Tfidf::fit(&["a good film", "a bad film"], &settings);
/// assert_eq!(tfidf.terms()[..2], ["a", "film"]); // in both; then by bytes
/// let row = tfidf.vector("Good FILM, unknown");
/// let terms: Vec<&str> = row.iter().map(|(t, _)| tfidf.terms()[*t as usize].as_str()).collect();
/// assert_eq!(terms, ["film", "good", "good film"]);
/// ```
#[derive(Clone, Debug)]
pub struct Tfidf {
    terms: Vec<String>,
    idf: Vec<f32>,
    words: HashMap<String, u32>,
    /// The number of the term of a word, or of two words.
    numbers: HashMap<u64, u32>,
}

/// The key of a word, or of two.
fn key(first: u32, second: Option<u32>) -> u64 {
    u64::from(first) << 32 | second.map_or(0, |second| u64::from(second) + 1)
}

impl Tfidf {
    /// Finds the terms of documents.
    pub fn fit(texts: &[&str], settings: &TfidfSettings) -> Self {
        let ids = Ids::numbered(0, texts.len());
        let corpus = Corpus::of_texts(ids, texts.iter().copied(), true, 1);
        let mut documents: HashMap<u64, u64> = HashMap::new();
        let mut own = Vec::new();
        for tokens in corpus.tokens.iter() {
            own.clear();
            own.extend(tokens.iter().map(|&word| key(word, None)));
            if settings.pairs {
                own.extend(tokens.windows(2).map(|two| key(two[0], Some(two[1]))));
            }
            own.sort_unstable();
            own.dedup();
            own.iter().for_each(|term| *documents.entry(*term).or_default() += 1);
        }
        let name = |term: u64| {
            let first = &corpus.words[(term >> 32) as usize];
            match (term as u32).checked_sub(1) {
                None => first.clone(),
                Some(second) => format!("{first} {}", corpus.words[second as usize]),
            }
        };
        let mut kept: Vec<(u64, String)> = documents
            .into_iter()
            .filter(|(_, count)| *count >= settings.min_documents)
            .map(|(term, count)| (count, name(term)))
            .collect();
        kept.sort_unstable_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        kept.truncate(settings.max_terms);
        let n = texts.len() as f64;
        let idf = kept.iter().map(|(df, _)| (((1.0 + n) / (1.0 + *df as f64)).ln() + 1.0) as f32);
        let idf = idf.collect();
        Self::new(kept.into_iter().map(|(_, term)| term).collect(), idf)
    }

    /// Restores the terms and their weights.
    ///
    /// # Panics
    /// If there is not one weight per term.
    pub fn new(terms: Vec<String>, idf: Vec<f32>) -> Self {
        assert_eq!(terms.len(), idf.len(), "one weight per term");
        let mut words: HashMap<String, u32> = HashMap::new();
        let mut numbers = HashMap::with_capacity(terms.len());
        for (number, term) in (0..).zip(&terms) {
            let mut of = |word: &str| match words.get(word) {
                Some(&known) => known,
                None => {
                    let new = words.len() as u32;
                    words.insert(word.to_owned(), new);
                    new
                }
            };
            let (first, second) = match term.split_once(' ') {
                None => (of(term), None),
                Some((first, second)) => (of(first), Some(of(second))),
            };
            numbers.insert(key(first, second), number);
        }
        Self { terms, idf, words, numbers }
    }

    /// Returns the terms by number.
    pub fn terms(&self) -> &[String] {
        &self.terms
    }

    /// Returns the inverse document frequencies by number.
    pub fn idf(&self) -> &[f32] {
        &self.idf
    }

    /// Returns the entries of a document, by number of the term; none if it has no known term.
    pub fn vector(&self, text: &str) -> Vec<(u32, f32)> {
        let mut found = Vec::new();
        let mut last = None;
        for_each_word(text, true, |word| {
            let word = self.words.get(word).copied();
            let of = |first: Option<u32>, second| self.numbers.get(&key(first?, second)).copied();
            found.extend(of(word, None));
            if word.is_some() {
                found.extend(of(last, word));
            }
            last = word;
        });
        found.sort_unstable();
        let mut row: Vec<(u32, f32)> = found
            .chunk_by(|a, b| a == b)
            .map(|same| (same[0], (1.0 + (same.len() as f32).ln()) * self.idf[same[0] as usize]))
            .collect();
        let norm = row.iter().map(|(_, x)| f64::from(*x) * f64::from(*x)).sum::<f64>().sqrt();
        row.iter_mut().for_each(|(_, x)| *x = (f64::from(*x) / norm) as f32);
        row
    }

    /// Returns the vectors of documents.
    pub fn vectors<'a>(&self, texts: impl Iterator<Item = &'a str>) -> Result<SparseRows> {
        let mut rows = SparseRows::new(self.terms.len());
        for text in texts {
            rows.push(&self.vector(text))?;
        }
        Ok(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed with scikit-learn 1.7: TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"\w+").
    #[test]
    fn vectors_are_those_of_scikit_learn() {
        let texts = ["a b a b c", "b c", "d a b"];
        let settings = TfidfSettings { pairs: true, min_documents: 1, max_terms: 1000 };
        let tfidf = Tfidf::fit(&texts, &settings);
        let names = ["b", "a", "a b", "b c", "c", "b a", "d", "d a"];
        assert_eq!(tfidf.terms(), names);
        let row = |text: &str| -> HashMap<String, f32> {
            let name = |(t, x): (u32, f32)| (tfidf.terms()[t as usize].clone(), x);
            tfidf.vector(text).into_iter().map(name).collect()
        };
        // idf: b 1; a, c, ab, bc ln(4/3) + 1; ba, d, da ln 2 + 1. tf of a, b and ab: 1 + ln 2.
        let (two, idf2, idf1) = (1.0 + 2f32.ln(), (4.0f32 / 3.0).ln() + 1.0, 2f32.ln() + 1.0);
        let raw = [
            ("b", two),
            ("a", two * idf2),
            ("a b", two * idf2),
            ("b a", idf1),
            ("b c", idf2),
            ("c", idf2),
        ];
        let norm = raw.iter().map(|(_, x)| x * x).sum::<f32>().sqrt();
        let got = row(texts[0]);
        assert_eq!(got.len(), raw.len());
        for (term, want) in raw {
            assert!((got[term] - want / norm).abs() < 1e-6, "{term}");
        }
        assert!(row("unknown words").is_empty());
        // An unknown word stands between its neighbors.
        assert_eq!(row("a x b").len(), 2);
    }

    #[test]
    fn rare_terms_are_left_out_and_saved_terms_give_the_same_vectors() {
        let texts = ["x y z", "x y", "x q"];
        let settings = TfidfSettings { pairs: true, min_documents: 2, max_terms: 2 };
        let tfidf = Tfidf::fit(&texts, &settings);
        assert_eq!(tfidf.terms(), ["x", "x y"]);
        let again = Tfidf::new(tfidf.terms().to_vec(), tfidf.idf().to_vec());
        for text in texts {
            assert_eq!(tfidf.vector(text), again.vector(text));
        }
        let words = TfidfSettings { pairs: false, min_documents: 1, max_terms: 10 };
        assert_eq!(Tfidf::fit(&texts, &words).terms(), ["x", "y", "q", "z"]);
    }
}
