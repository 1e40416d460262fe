//! Sequences of tokens, cut into pieces for trainers.

use std::ops::Range;

use veridical_core::{Alias, Draws, Stream, threshold};
use veridical_data::Lists;

use crate::{Error, Result};

/// Longer sequences are cut, so that work is divided among threads and the learning rate decays smoothly.
const LONGEST: usize = 10_000;
/// Tokens between two progress checks.
const BLOCK_TOKENS: usize = 4096;

/// Sequences cut into pieces of at most 10,000 tokens.
#[derive(Debug)]
pub(crate) struct Pieces {
    /// The sequence and the range of tokens of each piece.
    pieces: Vec<(u32, Range<usize>)>,
    n_tokens: usize,
}

impl Pieces {
    pub fn new(sequences: &Lists) -> Self {
        let cut = |s: usize| {
            let all = sequences.range(s);
            let starts = all.clone().step_by(LONGEST);
            starts.map(move |from| (s as u32, from..(from + LONGEST).min(all.end)))
        };
        let pieces = (0..sequences.len()).flat_map(cut).collect();
        Self { pieces, n_tokens: sequences.values().len() }
    }

    pub fn len(&self) -> u64 {
        self.pieces.len() as u64
    }

    pub fn get(&self, piece: u64) -> (u32, Range<usize>) {
        self.pieces[piece as usize].clone()
    }

    /// The number of pieces that contain about 4,096 tokens.
    pub fn block_size(&self) -> u64 {
        (self.pieces.len() * BLOCK_TOKENS).div_ceil(self.n_tokens.max(1)) as u64
    }
}

/// The tokens within `reach` of a position.
#[inline(always)]
pub(crate) fn neighbors<T>(
    tokens: &[T],
    position: usize,
    reach: usize,
) -> impl Iterator<Item = &T> {
    let end = (position + reach + 1).min(tokens.len());
    tokens[position.saturating_sub(reach)..position].iter().chain(&tokens[position + 1..end])
}

/// Draws of negatives by count to a power, and subsampling of frequent tokens.
#[derive(Debug)]
pub(crate) struct Noise {
    alias: Alias,
    /// The probability to keep a token, in steps of 2^-32; empty keeps all.
    kept: Vec<u64>,
}

impl Noise {
    /// Keeps token w with probability sqrt(t / f_w) + t / f_w where f_w is its relative frequency and t is
    /// `subsample` (the formula of the word2vec code).
    pub fn new(counts: &[u64], power: f64, subsample: f64) -> Result<Self> {
        if !(subsample >= 0.0 && subsample.is_finite()) {
            return Err(Error::setting("subsample", "0 or above", subsample));
        }
        let weight = |&n: &u64| if n == 0 { 0.0 } else { (n as f64).powf(power) };
        let weights: Vec<f64> = counts.iter().map(weight).collect();
        let alias = Alias::new(&weights).filter(|_| power.is_finite());
        let alias = alias.ok_or_else(|| Error::setting("power", "a number near 0.75", power))?;
        let total = counts.iter().sum::<u64>() as f64;
        let keep = |&n: &u64| {
            let ratio = subsample * total / n.max(1) as f64;
            threshold(ratio.sqrt() + ratio)
        };
        let kept = if subsample > 0.0 { counts.iter().map(keep).collect() } else { Vec::new() };
        Ok(Self { alias, kept })
    }

    /// The tokens of a piece that are kept in this epoch, with their positions.
    #[inline]
    pub fn thin(
        &self,
        tokens: &[u32],
        piece: Range<usize>,
        stream: Stream,
        epoch: u32,
        kept: &mut Vec<(u32, usize)>,
    ) {
        kept.clear();
        let all = piece.map(|at| (tokens[at], at));
        match self.kept.as_slice() {
            [] => kept.extend(all),
            thresholds => kept.extend(all.filter(|&(w, at)| {
                stream.at(epoch, at as u64).draws().happens(thresholds[w as usize])
            })),
        }
    }

    /// The target and its negatives; a negative that equals the target is skipped.
    #[inline(always)]
    pub fn targets(&self, w: u32, negatives: usize, draws: &mut Draws, targets: &mut Vec<u32>) {
        for _ in 0..negatives {
            let drawn = self.alias.draw(draws);
            if drawn != w {
                targets.push(drawn);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use veridical_core::Seed;

    use super::*;

    #[test]
    fn long_sequences_are_cut_and_nothing_is_lost() {
        let lengths = [3, 0, 25_000, 10_000];
        let pairs =
            lengths.iter().enumerate().flat_map(|(s, &n)| (0..n).map(move |_| (s as u32, 0)));
        let lists = Lists::collect(4, pairs.collect::<Vec<_>>().into_iter());
        let pieces = Pieces::new(&lists);
        let all: Vec<_> = (0..pieces.len()).map(|p| pieces.get(p)).collect();
        let lengths: Vec<_> = all.iter().map(|(s, tokens)| (*s, tokens.len())).collect();
        assert_eq!(lengths, [(0, 3), (2, 10_000), (2, 10_000), (2, 5000), (3, 10_000)]);
        assert!(all.windows(2).all(|two| two[0].1.end == two[1].1.start));
    }

    /// A token of frequency f = 0.9 is kept with probability sqrt(0.09 / 0.9) + 0.1 = 0.416; n = 50,000, five
    /// standard errors.
    #[test]
    fn frequent_tokens_are_thinned_out() {
        let noise = Noise::new(&[90, 10], 0.75, 0.09).unwrap();
        let stream = Stream::new(Seed::new(1).unwrap(), "test");
        let tokens: Vec<u32> = (0..51_000).map(|at| u32::from(at >= 50_000)).collect();
        let mut kept = Vec::new();
        noise.thin(&tokens, 0..tokens.len(), stream, 0, &mut kept);
        let frequent = kept.iter().filter(|(w, _)| *w == 0).count();
        assert_eq!(kept.len() - frequent, 1000, "rare tokens are all kept");
        assert!(kept.iter().all(|&(w, at)| tokens[at] == w));
        let kept = frequent as f64 / 50_000.0;
        let want = 0.1f64.sqrt() + 0.1;
        assert!((kept - want).abs() < 5.0 * (want * (1.0 - want) / 50_000.0).sqrt(), "{kept}");
    }
}
