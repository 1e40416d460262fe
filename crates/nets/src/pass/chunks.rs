//! Splitting a batch into chunks: by sequences, never by threads.

use std::ops::Range;

use super::CHUNKS;
use crate::Sequences;

/// Groups of whole sequences with an eighth of all rows or slightly more.
pub(super) fn chunks(starts: &[usize]) -> Vec<Range<usize>> {
    let count = starts.len() - 1;
    let size = (starts[count] - starts[0]).div_ceil(CHUNKS).max(1);
    let mut chunks = Vec::with_capacity(CHUNKS);
    let mut first = 0;
    for last in 1..=count {
        if starts[last] - starts[first] >= size || last == count {
            chunks.push(first..last);
            first = last;
        }
    }
    chunks
}

/// Splits a list into parts of the given lengths.
pub(super) fn cut<T>(mut list: &mut [T], lens: impl Iterator<Item = usize>) -> Vec<&mut [T]> {
    lens.map(|len| list.split_off_mut(..len).unwrap_or_default()).collect()
}

/// The samples of a pass.
#[derive(Clone, Copy)]
pub(super) struct Batch<'a> {
    pub starts: &'a [usize],
    pub singles: &'a [usize],
}

impl<'a> Batch<'a> {
    /// The samples of some sequences, in a slot that is pooled or not.
    pub fn span(self, is_pooled: bool, sequences: &Range<usize>) -> Range<usize> {
        match is_pooled {
            true => sequences.clone(),
            false => self.starts[sequences.start]..self.starts[sequences.end],
        }
    }

    /// How the samples of some sequences in such a slot divide into sequences.
    pub fn sequences(self, is_pooled: bool, sequences: &Range<usize>) -> Sequences<'a> {
        let starts = if is_pooled { self.singles } else { self.starts };
        Sequences::new(&starts[sequences.start..=sequences.end])
    }

    pub fn all(self) -> Range<usize> {
        0..self.starts.len() - 1
    }
}
