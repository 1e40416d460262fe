//! Decoding raw little-endian floats.

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
