//! Summary statistics of interactions and documents.

use serde::Serialize;
use veridical_core::settings::Settings as _;
use veridical_core::stats::quantile;
use veridical_core::{Job, settings};
use veridical_data::{Corpus, Interactions, fingerprint};
use veridical_io::Input;

use crate::settings::{DocumentColumns, InteractionReading, Vocabulary};
use crate::train::reading;
use crate::{Error, Result};

settings! {
    /// Settings of [`describe`].
    pub struct Describe {
        /// User-item interactions (file or folder)
        pub interactions: Option<Input> = None => [excludes(&["text"])],
        /// Documents (file or folder)
        pub text: Option<Input> = None,
    } with {
        /// How interactions are read.
        pub reading: InteractionReading,
        /// Which columns hold the documents.
        pub documents: DocumentColumns,
        /// Which words are in the vocabulary.
        pub vocabulary: Vocabulary,
    }
}

/// Summary of interactions or documents.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Description {
    /// Summary of user-item interactions.
    Interactions {
        /// Number of interactions.
        rows: usize,
        /// Number of distinct users.
        users: usize,
        /// Number of distinct items.
        items: usize,
        /// Fraction of user-item pairs that occur.
        density: f64,
        /// Number of rows that repeat an earlier user-item pair.
        repeated: usize,
        /// Interactions per user.
        per_user: Quantiles,
        /// Interactions per item.
        per_item: Quantiles,
        /// Distribution of the ratings, if present.
        ratings: Option<Quantiles>,
        /// First and last timestamp, if present.
        times: Option<[i64; 2]>,
        /// Fingerprint of the interactions.
        fingerprint: String,
    },
    /// Summary of documents.
    Documents {
        /// Number of documents.
        documents: usize,
        /// Number of documents without a word of the vocabulary.
        empty: usize,
        /// Vocabulary size.
        words: usize,
        /// Number of tokens in all documents.
        tokens: usize,
        /// Tokens per document.
        per_document: Quantiles,
        /// The most frequent words.
        frequent: Vec<String>,
        /// Fingerprint of the documents.
        fingerprint: String,
    },
}

/// Summary of a distribution: quantiles and mean.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quantiles {
    /// Minimum.
    pub min: f64,
    /// Median.
    pub median: f64,
    /// Arithmetic mean.
    pub mean: f64,
    /// 95 % quantile.
    pub quantile_95: f64,
    /// Maximum.
    pub max: f64,
}

impl Quantiles {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.collect();
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        let mut at = |q| quantile(&mut values, q).unwrap_or(0.0);
        let (min, median, quantile_95, max) = (at(0.0), at(0.5), at(0.95), at(1.0));
        Self { min, median, mean, quantile_95, max }
    }
}

/// Reads interactions or documents and computes summary statistics.
///
/// # Errors
/// Files that cannot be read.
pub fn describe(settings: &Describe, job: &Job<'_>) -> Result<Description> {
    settings.check()?;
    match (&settings.text, &settings.interactions) {
        (Some(path), _) => {
            let options = reading::text_options(
                &settings.documents,
                &settings.vocabulary,
                &settings.reading.files,
            );
            Ok(of_corpus(&reading::corpus(path, &options, job)?))
        }
        (None, Some(path)) => {
            Ok(of_interactions(&reading::interactions(path, &settings.reading, job)?))
        }
        (None, None) => {
            Err(Error::request("pass ⟨interactions FILE⟩, or documents with ⟨text FILE⟩", ""))
        }
    }
}

fn of_interactions(data: &Interactions) -> Description {
    let counts = |numbers: &[u32], n: usize| {
        let mut counts = vec![0u32; n];
        numbers.iter().for_each(|&number| counts[number as usize] += 1);
        Quantiles::of(counts.into_iter().map(f64::from))
    };
    let pair = |(&user, &item): (&u32, &u32)| u64::from(user) << 32 | u64::from(item);
    let mut pairs: Vec<u64> = data.user.iter().zip(&data.item).map(pair).collect();
    pairs.sort_unstable();
    pairs.dedup();
    let (users, items) = (data.users.len(), data.items.len());
    let ratings = data.rating.as_ref();
    let times = data.time.as_ref();
    Description::Interactions {
        rows: data.len(),
        users,
        items,
        density: pairs.len() as f64 / (users as f64 * items as f64),
        repeated: data.len() - pairs.len(),
        per_user: counts(&data.user, users),
        per_item: counts(&data.item, items),
        ratings: ratings.map(|ratings| Quantiles::of(ratings.iter().copied().map(f64::from))),
        times: times.and_then(|times| Some([*times.iter().min()?, *times.iter().max()?])),
        fingerprint: fingerprint::of_interactions(data),
    }
}

fn of_corpus(corpus: &Corpus) -> Description {
    Description::Documents {
        documents: corpus.docs.len(),
        empty: corpus.tokens.iter().filter(|doc| doc.is_empty()).count(),
        words: corpus.words.len(),
        tokens: corpus.tokens.values().len(),
        per_document: Quantiles::of(corpus.tokens.iter().map(|doc| doc.len() as f64)),
        frequent: corpus.words.iter().take(10).cloned().collect(),
        fingerprint: fingerprint::of_corpus(corpus),
    }
}
