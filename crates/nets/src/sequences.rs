//! Sequences of different lengths in one batch, without padding.
//!
//! A batch of sequences is packed: the rows of all sequences stand one after the other and a sample of the network is
//! one row. Layers that treat rows apart need nothing more; those that look along a sequence (attention, recurrent
//! layers, positions, pooling) are told where each begins. What padding would have masked is not there.

use std::ops::Range;

/// Where the sequences of some rows begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequences<'a> {
    /// Ascending; the first row of each sequence, then the end of the last one.
    starts: &'a [usize],
}

impl<'a> Sequences<'a> {
    /// Sequence i has the rows `starts[i] .. starts[i + 1]` of those from `starts[0]` on.
    ///
    /// # Panics
    /// If there is no start.
    pub fn new(starts: &'a [usize]) -> Self {
        assert!(!starts.is_empty(), "the end of the last sequence");
        Self { starts }
    }

    /// How many sequences.
    pub fn len(self) -> usize {
        self.starts.len() - 1
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// How many rows they have together.
    pub fn rows(self) -> usize {
        self.starts[self.len()] - self.starts[0]
    }

    /// The rows of sequence `i`, counted from the first row of the first sequence.
    pub fn range(self, i: usize) -> Range<usize> {
        self.starts[i] - self.starts[0]..self.starts[i + 1] - self.starts[0]
    }

    /// The rows of all sequences, in order.
    pub fn ranges(self) -> impl ExactSizeIterator<Item = Range<usize>> + 'a {
        (0..self.len()).map(move |i| self.range(i))
    }

    /// Some of the sequences.
    pub fn part(self, sequences: Range<usize>) -> Self {
        Self { starts: &self.starts[sequences.start..=sequences.end] }
    }
}
