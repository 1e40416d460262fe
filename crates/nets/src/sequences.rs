//! Packed sequences of different lengths in one batch, without padding.
//!
//! A batch of sequences is packed: the rows of all sequences are concatenated, and a sample of the network is
//! one row. Layers that treat rows independently need nothing more; those that work along a sequence (attention, recurrent
//! layers, positions, pooling) receive the offset of each sequence. There is no padding to mask.

use std::ops::Range;

/// Offsets of packed sequences.
///
/// ```
/// use veridical_nets::Sequences;
///
/// let sequences = Sequences::new(&[0, 3, 5]);
/// assert_eq!((sequences.len(), sequences.rows(), sequences.range(1)), (2, 5, 3..5));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequences<'a> {
    /// Ascending: the first row of each sequence, then the end of the last one.
    starts: &'a [usize],
}

impl<'a> Sequences<'a> {
    /// Creates packed sequences: sequence i has the rows `starts[i] .. starts[i + 1]`, counted from `starts[0]`.
    ///
    /// # Panics
    /// If `starts` is empty.
    pub fn new(starts: &'a [usize]) -> Self {
        assert!(!starts.is_empty(), "the end of the last sequence");
        Self { starts }
    }

    /// Returns the number of sequences.
    pub fn len(self) -> usize {
        self.starts.len() - 1
    }

    /// Returns whether there are no sequences.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Returns the total number of rows.
    pub fn rows(self) -> usize {
        self.starts[self.len()] - self.starts[0]
    }

    /// Returns the rows of sequence `i`, counted from the first row of the first sequence.
    pub fn range(self, i: usize) -> Range<usize> {
        self.starts[i] - self.starts[0]..self.starts[i + 1] - self.starts[0]
    }

    /// Iterates over the rows of all sequences, in order.
    pub fn ranges(self) -> impl ExactSizeIterator<Item = Range<usize>> + 'a {
        (0..self.len()).map(move |i| self.range(i))
    }

    /// Returns a range of the sequences.
    pub fn part(self, sequences: Range<usize>) -> Self {
        Self { starts: &self.starts[sequences.start..=sequences.end] }
    }
}
