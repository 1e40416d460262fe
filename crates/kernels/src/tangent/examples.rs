//! Examples as a network reads them: rows or images by number, or packed sequences.
//!
//! Batches never cross a multiple of [`TILE`] samples, so that a part of the samples is cut into the same batches alone and among
//! all.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use veridical_core::Error;
use veridical_nets::{Float, Net};

use crate::Result;
use crate::gram::TILE;

/// Maximum number of samples per batch.
const MOST_SAMPLES: usize = 64;
/// Maximum number of rows of packed sequences per batch, unless a sequence is longer.
const MOST_ROWS: usize = 4096;
/// Maximum number of values per batch, activations and gradients: 256 MiB of f32.
const MOST_NUMBERS: usize = 64 << 20;

/// Writes the inputs of some samples, one after the other.
type Fill<'a, T> = Box<dyn Fn(Range<usize>, &mut [T]) + 'a>;
/// The items, with their weights, that cotangent `.1` of sample `.0` is for.
type Items<'a, T> = Box<dyn Fn(usize, usize) -> Vec<(u32, T)> + 'a>;

/// Examples that are fed to a network.
///
/// ```
/// use veridical_kernels::tangent::Examples;
///
/// let rows = [0.0f32, 1.0, 2.0, 3.0];
/// let examples = Examples::new(2, |samples, slot| {
///     slot.copy_from_slice(&rows[samples.start * 2..samples.end * 2]);
/// });
/// assert_eq!(examples.len(), 2);
/// ```
pub struct Examples<'a, T> {
    n: usize,
    fill: Fill<'a, T>,
    pub(super) packed: Option<Packed<'a>>,
    pub(super) labels: Option<Cow<'a, [u32]>>,
    pub(super) tied: Option<Tied<'a, T>>,
}

/// Sequences of rows.
#[derive(Clone, Debug)]
pub(super) struct Packed<'a> {
    /// Offsets of the sequences in all rows, ending with their number.
    pub starts: Cow<'a, [usize]>,
    /// The row of each sequence whose outputs count, counted from its first; the last one by default.
    pub rows: Option<Cow<'a, [usize]>>,
    /// The id of each row in the table before the network.
    pub ids: Option<Cow<'a, [u32]>>,
}

impl Packed<'_> {
    fn select(&self, samples: &[usize]) -> Packed<'static> {
        let range = |i: usize| self.starts[i]..self.starts[i + 1];
        let ends = samples.iter().scan(0, |end, &i| {
            *end += range(i).len();
            Some(*end)
        });
        let rows = self.rows.as_ref().map(|rows| samples.iter().map(|&i| rows[i]).collect());
        let ids = self.ids.as_ref();
        let ids = ids.map(|ids| samples.iter().flat_map(|&i| &ids[range(i)]).copied().collect());
        Packed { starts: std::iter::once(0).chain(ends).collect(), rows, ids }
    }
}

/// A table that is both before the network and the weights of its scores, f_c = h . E_c.
pub(super) struct Tied<'a, T> {
    /// Values of the table, `width` per row.
    pub table: &'a [T],
    pub items: Items<'a, T>,
}

impl<T> fmt::Debug for Examples<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Examples")
            .field("n", &self.n)
            .field("packed", &self.packed)
            .finish_non_exhaustive()
    }
}

impl<'a, T: Float> Examples<'a, T> {
    /// Creates `n` samples; `fill` writes the inputs of a range of them, one after the other.
    pub fn new(n: usize, fill: impl Fn(Range<usize>, &mut [T]) + 'a) -> Self {
        Self { n, fill: Box::new(fill), packed: None, labels: None, tied: None }
    }

    /// Creates packed sequences: sequence i has rows `starts[i] .. starts[i + 1]`; `fill` writes the rows of a range of sequences.
    ///
    /// If the network does not pool, the outputs of a sequence are those of its last row.
    ///
    /// # Panics
    /// If a sequence is empty or the first does not start at 0.
    pub fn sequences(starts: &'a [usize], fill: impl Fn(Range<usize>, &mut [T]) + 'a) -> Self {
        assert!(starts.first() == Some(&0) && starts.is_sorted_by(|a, b| a < b), "starts ascend");
        let n = starts.len() - 1;
        let packed = Packed { starts: starts.into(), rows: None, ids: None };
        Self { packed: Some(packed), ..Self::new(n, fill) }
    }

    /// Sets the row of each sequence whose outputs count, counted from its first.
    pub fn at_rows(mut self, rows: &'a [usize]) -> Self {
        if let Some(packed) = &mut self.packed {
            packed.rows = Some(rows.into());
        }
        self
    }

    /// Sets the id of each row in an embedding table before the network, which then belongs to the kernel.
    pub fn with_ids(mut self, ids: &'a [u32]) -> Self {
        if let Some(packed) = &mut self.packed {
            packed.ids = Some(ids.into());
        }
        self
    }

    /// Sets the classes, for margins and losses.
    pub fn with_labels(self, labels: &'a [u32]) -> Self {
        Self { labels: Some(labels.into()), ..self }
    }

    /// Ties the table before the network to its scores, f_c = h . E_c with the network's outputs h: `items(i, number)` lists the items
    /// c and weights w_c whose sum sum_c w_c f_c is function `number` of sample i ([`super::Kind::Items`]).
    pub fn tied(self, table: &'a [T], items: impl Fn(usize, usize) -> Vec<(u32, T)> + 'a) -> Self {
        Self { tied: Some(Tied { table, items: Box::new(items) }), ..self }
    }

    /// Returns some of the samples, in the given order.
    ///
    /// # Panics
    /// If a sample does not exist.
    pub fn select<'s>(&'s self, samples: &'s [usize]) -> Examples<'s, T> {
        let packed = self.packed.as_ref().map(|packed| packed.select(samples));
        let lengths: Vec<usize> = samples.iter().map(|&i| self.rows_of(&(i..i + 1))).collect();
        let fill = move |part: Range<usize>, mut slot: &mut [T]| {
            let rows: usize = lengths[part.clone()].iter().sum();
            let width = slot.len() / rows.max(1);
            for (&i, length) in samples[part.clone()].iter().zip(&lengths[part]) {
                let own = slot.split_off_mut(..length * width).unwrap_or_default();
                (self.fill)(i..i + 1, own);
            }
        };
        let labels = self.labels.as_ref().map(|y| samples.iter().map(|&i| y[i]).collect());
        let tied = self.tied.as_ref().map(|tied| Tied {
            table: tied.table,
            items: Box::new(move |i, number| (tied.items)(samples[i], number)) as Items<'s, T>,
        });
        Examples { n: samples.len(), fill: Box::new(fill), packed, labels, tied }
    }

    /// Returns the number of samples.
    pub fn len(&self) -> usize {
        self.n
    }

    /// Returns whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// Returns the number of rows of the sequences of some samples; without sequences the number of samples.
    pub(super) fn rows_of(&self, samples: &Range<usize>) -> usize {
        match &self.packed {
            Some(Packed { starts, .. }) => starts[samples.end] - starts[samples.start],
            None => samples.len(),
        }
    }

    /// The number of rows that a batch may have.
    pub(super) fn capacity(&self, net: &Net<T>) -> usize {
        let sizes = net.names().filter_map(|name| net.output_of(name));
        let values = net.input().values() + sizes.map(|shape| shape.values()).sum::<usize>();
        let fits = MOST_NUMBERS / (2 * values);
        match &self.packed {
            None => 1 << fits.clamp(1, MOST_SAMPLES).ilog2(),
            Some(Packed { starts, .. }) => {
                let longest = starts.windows(2).map(|w| w[1] - w[0]).max().unwrap_or(1);
                fits.clamp(1, MOST_ROWS).max(longest)
            }
        }
    }

    /// Cuts some samples into batches.
    pub(super) fn batches(&self, samples: Range<usize>, capacity: usize) -> Vec<Range<usize>> {
        let mut batches: Vec<Range<usize>> = Vec::new();
        for i in samples {
            match batches.last_mut() {
                Some(last)
                    if !i.is_multiple_of(TILE)
                        && self.rows_of(&(last.start..i + 1)) <= capacity =>
                {
                    last.end = i + 1;
                }
                _ => batches.push(i..i + 1),
            }
        }
        batches
    }

    /// Runs the forward pass of a batch.
    pub(super) fn forward(&self, taps: &mut veridical_nets::Taps<'_, T>, batch: Range<usize>) {
        let Some(Packed { starts, rows, .. }) = &self.packed else {
            return taps.forward(batch.len(), |slot| (self.fill)(batch, slot));
        };
        let first = starts[batch.start];
        let own: Vec<usize> = starts[batch.start..=batch.end].iter().map(|s| s - first).collect();
        let last = |i: usize| own[i + 1] - own[i] - 1;
        let row =
            |i: usize| own[i] + rows.as_ref().map_or_else(|| last(i), |rows| rows[batch.start + i]);
        let at: Vec<usize> = (0..batch.len()).map(row).collect();
        taps.forward_sequences(&own, &at, |slot| (self.fill)(batch, slot));
    }

    /// Checks that everything given has one value per sample or row.
    pub(super) fn check(&self) -> Result<()> {
        let wrong = |what: &str, has: usize, needs: usize| {
            Err(Error::shape(format!("{has} {what} for {needs}"), "give one for each").into())
        };
        if self.n == 0 {
            return Err(Error::unfit("there are no examples", "a kernel needs at least one").into());
        }
        if let Some(labels) = self.labels.as_ref().filter(|labels| labels.len() != self.n) {
            return wrong("labels", labels.len(), self.n);
        }
        let Some(Packed { starts, rows, ids }) = &self.packed else { return Ok(()) };
        if let Some(rows) = rows.as_ref().filter(|rows| rows.len() != self.n) {
            return wrong("rows of outputs", rows.len(), self.n);
        }
        match ids.as_ref().filter(|ids| ids.len() != starts[self.n]) {
            Some(ids) => wrong("ids", ids.len(), starts[self.n]),
            None => Ok(()),
        }
    }
}
