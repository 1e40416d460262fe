//! What there is to know about data before training.

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
    /// What to sum up.
    pub struct Describe {
        /// Who did what: a file or a folder
        pub interactions: Option<Input> = None => [excludes(&["text"])],
        /// Documents: a file or a folder
        pub text: Option<Input> = None,
    } with {
        /// How interactions are read.
        pub reading: InteractionReading,
        /// Which columns documents stand in.
        pub documents: DocumentColumns,
        /// Which words are known.
        pub vocabulary: Vocabulary,
    }
}

/// A summary of interactions or documents.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Description {
    /// Who did what.
    Interactions {
        /// Rows.
        rows: usize,
        /// Users.
        users: usize,
        /// Items.
        items: usize,
        /// The share of pairs of a user and an item that occur.
        density: f64,
        /// Rows whose pair occurs before.
        repeated: usize,
        /// Rows of a user.
        per_user: Quantiles,
        /// Rows of an item.
        per_item: Quantiles,
        /// Ratings, if there are any.
        ratings: Option<Quantiles>,
        /// The first and the last time, if there are times.
        times: Option<[i64; 2]>,
        /// Tells other data apart.
        fingerprint: String,
    },
    /// Texts.
    Documents {
        /// Documents.
        documents: usize,
        /// Documents without a word of the vocabulary.
        empty: usize,
        /// Words of the vocabulary.
        words: usize,
        /// Words of all documents.
        tokens: usize,
        /// Words of a document.
        per_document: Quantiles,
        /// The most frequent words.
        frequent: Vec<String>,
        /// Tells other data apart.
        fingerprint: String,
    },
}

/// A few order statistics and the mean.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quantiles {
    /// The smallest.
    pub min: f64,
    /// Half are below.
    pub median: f64,
    /// The mean.
    pub mean: f64,
    /// One in twenty is above.
    pub quantile_95: f64,
    /// The largest.
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

/// Reads interactions, or documents if the options name some, and sums them up.
///
/// # Errors
/// What cannot be read.
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
            Err(Error::request("name ⟨interactions FILE⟩, or documents with ⟨text FILE⟩", ""))
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
