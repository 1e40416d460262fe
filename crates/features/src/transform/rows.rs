//! The task of transforming a block of rows, independent of the kind of projection.

use super::Checked;
use crate::{Error, Normalize};

/// Rows to transform, and the output.
pub(super) struct Task<'a> {
    pub preparation: Preparation<'a>,
    /// The scale m^(-1/2).
    pub scale: f32,
    /// Input rows, row-major.
    pub rows: &'a [f32],
    /// Output, row-major, two features per direction.
    pub out: &'a mut [f32],
    pub scratch: &'a mut Scratch,
}

/// Scratch memory that a thread reuses between tasks.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// A few normalized rows, row-major.
    pub rows: Vec<f32>,
    /// Normalized rows in the layout that the projection reads.
    pub packed: Vec<f32>,
    /// Scratch memory of the projection.
    pub work: Vec<f32>,
}

/// Normalization and range check of a row before it is projected.
#[derive(Clone, Copy)]
pub(super) struct Preparation<'a> {
    pub normalize: &'a Normalize,
    /// Width d of a row.
    pub dim: usize,
    /// Largest |y_k| that a normalized row may have.
    pub input_limit: f32,
}

impl Preparation<'_> {
    /// Writes the normalized `rows` to `y` and checks their range; the first row has index `first`.
    #[inline(always)]
    pub fn apply(
        self,
        rows: &[f32],
        first: usize,
        y: &mut [f32],
        seen: &mut Checked,
    ) -> Result<(), Error> {
        let pairs = rows.chunks_exact(self.dim).zip(y.chunks_exact_mut(self.dim));
        for (r, (row, y)) in pairs.enumerate() {
            seen.zero_rows += u64::from(!self.normalize.apply(row, y));
            check_range(y, self.input_limit)
                .map_err(|value| self.refusal(row, first + r, value))?;
        }
        Ok(())
    }

    /// The error for row `number` with normalized absolute value `value`: blames the row itself if it is out of range, else
    /// the normalization of the spec.
    #[cold]
    fn refusal(self, row: &[f32], number: usize, value: f32) -> Error {
        let scaled = matches!(self.normalize, Normalize::Standardize { .. });
        if scaled && size(row) <= self.input_limit {
            return Error::Normalization { row: number, value };
        }
        if value.is_finite() {
            return Error::TooLarge { row: number, value };
        }
        Error::NotFinite { row: number }
    }
}

/// Checks that the largest |y_k| is below the limit, and returns it otherwise.
#[inline(always)]
fn check_range(y: &[f32], limit: f32) -> Result<(), f32> {
    let value = size(y);
    // Not `value > limit`: NaN must fail too.
    if value <= limit { Ok(()) } else { Err(value) }
}

/// The largest |y_k|; infinity and NaN are above every number.
#[inline(always)]
fn size(y: &[f32]) -> f32 {
    // The bit patterns of |y| order like |y| itself.
    f32::from_bits(y.iter().fold(0, |m, y| (y.to_bits() & 0x7FFF_FFFF).max(m)))
}
