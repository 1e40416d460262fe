//! What a transform is asked to do with a block of rows, whichever way it projects.

use super::Checked;
use crate::{Error, Normalize};

/// Rows to transform and where to.
pub(super) struct Task<'a> {
    pub preparation: Preparation<'a>,
    /// m^(-1/2).
    pub scale: f32,
    /// Row-major.
    pub rows: &'a [f32],
    /// Row-major, two features for each direction.
    pub out: &'a mut [f32],
    pub scratch: &'a mut Scratch,
}

/// Room that a thread keeps from task to task.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// A few normalized rows, row by row.
    pub rows: Vec<f32>,
    /// Normalized rows as the projection reads them.
    pub packed: Vec<f32>,
    /// Room of the projection.
    pub work: Vec<f32>,
}

/// What is done to a row before it is projected.
#[derive(Clone, Copy)]
pub(super) struct Preparation<'a> {
    pub normalize: &'a Normalize,
    /// d.
    pub dim: usize,
    /// Largest |y_k| a normalized row may have.
    pub input_limit: f32,
}

impl Preparation<'_> {
    /// Writes the normalized `rows` to `y` and checks their range; the first has number `first`.
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

    /// Why row number `number` cannot be projected, whose normalized size is `value`: the row itself, or what the
    /// spec makes of it.
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

/// The size of `y`, if it is not below the limit.
#[inline(always)]
fn check_range(y: &[f32], limit: f32) -> Result<(), f32> {
    let value = size(y);
    // Not `value > limit`: NaN is beyond every limit.
    if value <= limit { Ok(()) } else { Err(value) }
}

/// The largest |y_k|; infinity and NaN are above every number.
#[inline(always)]
fn size(y: &[f32]) -> f32 {
    // The bits of |y| order like |y| itself.
    f32::from_bits(y.iter().fold(0, |m, y| (y.to_bits() & 0x7FFF_FFFF).max(m)))
}
