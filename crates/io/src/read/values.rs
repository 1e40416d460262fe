//! Decoding raw numbers: floats of either byte order, and integers, which are read as floats.

use arrow_buffer::ScalarBuffer;
use half::{bf16, f16};

use crate::Dtype;

/// Decodes bytes to f32.
pub(super) fn decode(bytes: &[u8], dtype: Dtype) -> ScalarBuffer<f32> {
    match dtype {
        Dtype::F32 => bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect(),
        Dtype::F64 => bytes.as_chunks().0.iter().map(|b| f64::from_le_bytes(*b) as f32).collect(),
        Dtype::F16 => bytes.as_chunks().0.iter().map(|b| f16::from_le_bytes(*b).to_f32()).collect(),
        Dtype::Bf16 => {
            bytes.as_chunks().0.iter().map(|b| bf16::from_le_bytes(*b).to_f32()).collect()
        }
    }
}

/// How numbers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    pub kind: StoredKind,
    pub big_endian: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoredKind {
    Float(Dtype),
    /// Integers of so many bytes.
    Signed(usize),
    Unsigned(usize),
}

impl Stored {
    /// The size of one number in bytes.
    pub const fn size(self) -> usize {
        match self.kind {
            StoredKind::Float(dtype) => dtype.size(),
            StoredKind::Signed(size) | StoredKind::Unsigned(size) => size,
        }
    }

    /// The type that the numbers are said to have.
    pub const fn dtype(self) -> Dtype {
        match self.kind {
            StoredKind::Float(dtype) => dtype,
            _ => Dtype::F32,
        }
    }

    /// Decodes bytes to f32; integers beyond 2^24 are rounded.
    pub fn decode(self, bytes: &[u8]) -> ScalarBuffer<f32> {
        let swapped;
        let bytes = if self.big_endian {
            let mut little = bytes.to_vec();
            little.chunks_exact_mut(self.size()).for_each(<[u8]>::reverse);
            swapped = little;
            &swapped
        } else {
            bytes
        };
        match self.kind {
            StoredKind::Float(dtype) => decode(bytes, dtype),
            StoredKind::Signed(size) => {
                let number = |b: &[u8]| integer(b, b[size - 1] >= 0x80) as i64 as f32;
                bytes.chunks_exact(size).map(number).collect()
            }
            StoredKind::Unsigned(size) => {
                bytes.chunks_exact(size).map(|b| integer(b, false) as f32).collect()
            }
        }
    }
}

/// A little-endian integer of up to eight bytes, widened.
pub(super) fn integer(bytes: &[u8], is_negative: bool) -> u64 {
    let mut wide = [if is_negative { 0xFF } else { 0 }; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(wide)
}

/// The position of the first NaN or infinity.
pub(super) fn first_not_finite(values: &[f32]) -> Option<usize> {
    // Blocks without one are skipped at memory speed.
    const BLOCK: usize = 1024;
    let exponent = |x: &f32| x.to_bits() & 0x7F80_0000;
    let suspect = |block: &&[f32]| block.iter().map(exponent).max() == Some(0x7F80_0000);
    let (i, block) = values.chunks(BLOCK).enumerate().find(|(_, block)| suspect(block))?;
    block.iter().position(|x| !x.is_finite()).map(|at| i * BLOCK + at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_and_either_byte_order_are_decoded() {
        let of =
            |kind, big_endian, bytes: &[u8]| Stored { kind, big_endian }.decode(bytes).to_vec();
        assert_eq!(of(StoredKind::Signed(1), false, &[0x80, 0xFF, 127]), [-128.0, -1.0, 127.0]);
        assert_eq!(of(StoredKind::Unsigned(1), false, &[0x80, 0xFF]), [128.0, 255.0]);
        assert_eq!(of(StoredKind::Signed(2), true, &[0xFF, 0xFE, 1, 0]), [-2.0, 256.0]);
        assert_eq!(of(StoredKind::Unsigned(8), false, &[0xFF; 8]), [u64::MAX as f32]);
        let bytes: Vec<u8> = [1.5f64, -2.0].iter().flat_map(|x| x.to_be_bytes()).collect();
        assert_eq!(of(StoredKind::Float(Dtype::F64), true, &bytes), [1.5, -2.0]);
    }

    #[test]
    fn the_first_bad_value_is_found_in_any_block() {
        for at in [0, 1, 1023, 1024, 2999] {
            let mut values = vec![1.0; 3000];
            assert_eq!(first_not_finite(&values), None);
            values[at] = f32::INFINITY;
            values[2999] = f32::NAN;
            assert_eq!(first_not_finite(&values), Some(at));
        }
    }
}
