//! Documents with planted topics, and long word sequences that follow Zipf's law.
//!
//! Document d has topic d mod T. Each word is drawn from the topic's own words with probability 1 - e, else
//! from the words common to all topics; both by Zipf's law with exponent 1.

use veridical_core::{Alias, Draws, Seed, Stream, threshold};

use crate::{Corpus, Error, Ids, Result};

/// Settings of a synthetic corpus.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CorpusSettings {
    /// The number of documents.
    pub docs: usize,
    /// The number of topics, T in the header.
    pub topics: usize,
    /// The number of words per topic, and of words common to all topics.
    pub words: usize,
    /// The number of words per document.
    pub length: usize,
    /// The probability of common words, e in the header.
    pub noise: f64,
    /// The random seed.
    pub seed: Seed,
}

/// A synthetic corpus with its ground truth.
#[derive(Clone, Debug)]
pub struct PlantedCorpus {
    /// The documents as text: word w of topic t is `t<t>w<w>`, a common word `common<w>`.
    pub texts: Vec<String>,
    /// The tokenized documents.
    pub corpus: Corpus,
    /// The topic of every document.
    pub doc_topic: Vec<u32>,
    /// The topic of every word of the vocabulary; `None` for common words.
    pub word_topic: Vec<Option<u32>>,
}

/// Generates a corpus with planted topics.
///
/// # Errors
/// [`Error`] for invalid settings.
pub fn corpus(settings: CorpusSettings) -> Result<PlantedCorpus> {
    let CorpusSettings { docs, topics, words, length, noise, seed } = settings;
    if docs == 0 || topics == 0 || words == 0 || length == 0 || !(0.0..=1.0).contains(&noise) {
        let what = "documents, topics, words and lengths must be at least 1, noise from 0 to 1";
        return Err(Error::request(what, ""));
    }
    let table = zipf(words, 1.0)?;
    let stream = Stream::new(seed, "generate/corpus");
    let document = |doc: usize| {
        let mut draws = stream.at(0, doc as u64).draws();
        let word = |draws: &mut Draws| {
            let is_common = draws.happens(threshold(noise));
            let word = table.draw(draws);
            if is_common { format!("common{word}") } else { format!("t{}w{word}", doc % topics) }
        };
        (0..length).map(|_| word(&mut draws)).collect::<Vec<_>>().join(" ")
    };
    let texts: Vec<String> = (0..docs).map(document).collect();
    let corpus =
        Corpus::of_texts(Ids::numbered(0, docs), texts.iter().map(String::as_str), true, 1);
    let topic = |word: &String| word.strip_prefix('t')?.split('w').next()?.parse().ok();
    Ok(PlantedCorpus {
        word_topic: corpus.words.iter().map(topic).collect(),
        doc_topic: (0..docs).map(|doc| (doc % topics) as u32).collect(),
        texts,
        corpus,
    })
}

/// An endless sequence of the words 0 .. n-1 by Zipf's law: word t is drawn at address t / 1024 of the
/// stream, so any stretch can be generated independently.
#[derive(Clone, Debug)]
pub struct SequenceTokens {
    table: Alias,
    stream: Stream,
    draws: Draws,
    next: u64,
}

/// Words drawn at one address.
const STRETCH: u64 = 1024;

/// Returns an endless sequence of the words 0 .. n-1, word w with probability proportional to (1 + w)^-exponent.
///
/// # Errors
/// [`Error`] without words, or for an exponent that is NaN.
pub fn sequence_tokens(words: usize, exponent: f64, seed: Seed) -> Result<SequenceTokens> {
    let stream = Stream::new(seed, "generate/sequence");
    let draws = stream.at(0, 0).draws();
    Ok(SequenceTokens { table: zipf(words, exponent)?, stream, draws, next: 0 })
}

impl Iterator for SequenceTokens {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        if self.next.is_multiple_of(STRETCH) {
            self.draws = self.stream.at(0, self.next / STRETCH).draws();
        }
        self.next += 1;
        Some(self.table.draw(&mut self.draws))
    }
}

fn zipf(words: usize, exponent: f64) -> Result<Alias> {
    let weights: Vec<f64> = (0..words).map(|word| (1.0 + word as f64).powf(-exponent)).collect();
    Alias::new(&weights).ok_or_else(|| {
        let what = format!("cannot draw from {words} words by Zipf's law with exponent {exponent}");
        Error::request(what, "")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> CorpusSettings {
        let seed = Seed::new(1).unwrap();
        CorpusSettings { docs: 60, topics: 3, words: 20, length: 50, noise: 0.3, seed }
    }

    /// Of 3,000 words 30 % are common: five standard errors of sqrt(3,000 0.3 0.7) = 25.
    #[test]
    fn documents_speak_of_their_topic_and_of_common_things() {
        let planted = corpus(settings()).unwrap();
        assert_eq!(planted.corpus.tokens.len(), 60);
        let mut common = 0;
        for (doc, tokens) in planted.corpus.tokens.iter().enumerate() {
            assert_eq!(tokens.len(), 50);
            for &word in tokens {
                match planted.word_topic[word as usize] {
                    Some(topic) => assert_eq!(topic, planted.doc_topic[doc]),
                    None => common += 1,
                }
            }
        }
        assert!((common - 900i32).abs() < 125, "{common}");
        assert_eq!(corpus(settings()).unwrap().texts, planted.texts);
        assert!(corpus(CorpusSettings { topics: 0, ..settings() }).is_err());
    }

    /// Word 0 has probability 1 / (1 + 1/2 + 1/3 + 1/4) = 0.48: five standard errors of 10,000 draws are 0.025.
    #[test]
    fn sequences_follow_zipfs_law() {
        let tokens = || sequence_tokens(4, 1.0, Seed::new(2).unwrap()).unwrap();
        let first = tokens().take(10_000).filter(|&word| word == 0).count();
        assert!((first as f64 / 10_000.0 - 0.48).abs() < 0.025, "{first}");
        assert!(tokens().take(3000).eq(tokens().take(3000)));
        assert!(sequence_tokens(0, 1.0, Seed::new(2).unwrap()).is_err());
    }
}
