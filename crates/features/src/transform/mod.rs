//! The feature map phi: normalize, project, sine and cosine, scale, interleave.
//!
//! Rows are processed in blocks that fit the L2 cache; inside a block every panel of U meets
//! every tile of rows while it is in the L1 cache. Cost: 2 n m d flops and n m sine-cosine pairs;
//! hadamard directions need no matrix and at most 6 n m log2 p flops.

mod features;
mod hadamard;
mod rows;
mod sincos;
mod tile;

use half::f16;
use half::slice::HalfFloatSliceExt;
use rayon::prelude::*;
use veridical_core::Rows;

use self::hadamard::{Prepare, Prepared, Structured};
use self::rows::{Preparation, Scratch, Task};
pub use self::sincos::sincos;
use self::tile::{Dense, Pack, Packed, TILE_ROWS};
use crate::directions::hadamard::Hadamard;
use crate::{Directions, Error, FeatureSpec, directions};

/// Bytes of packed rows per block: half of a 512 KB L2 cache.
const BLOCK_BYTES: usize = 256 << 10;
/// Rows per block of the hadamard projection: a multiple of every SIMD width.
const HADAMARD_ROWS: usize = 64;
/// Projections must stay below this; the largest f32 is 3.4e38.
const PROJECTION_LIMIT: f64 = 1e38;

/// Instruction set to use. All choices give the same bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cpu {
    /// The best instruction set of this machine.
    #[default]
    Detected,
    /// Plain scalar code, as on a machine without vector units.
    Portable,
}

impl Cpu {
    fn run<Op: pulp::WithSimd>(self, op: Op) -> Op::Output {
        match self {
            Self::Detected => pulp::Arch::new().dispatch(op),
            Self::Portable => {
                use pulp::Simd;
                pulp::Scalar::new().vectorize(|| op.with_simd(pulp::Scalar::new()))
            }
        }
    }
}

/// Statistics that a transform collects about its input.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Checked {
    /// Largest |u.h|. Above 2^12, sine and cosine carry little information about h.
    pub largest_projection: f32,
    /// Number of zero rows under `unit` normalization; they stay zero.
    pub zero_rows: u64,
}

impl Checked {
    /// Combines the statistics of two transforms.
    pub fn and(self, other: Self) -> Self {
        Self {
            largest_projection: self.largest_projection.max(other.largest_projection),
            zero_rows: self.zero_rows + other.zero_rows,
        }
    }
}

/// The feature map of a spec, with directions drawn and packed for this machine.
#[derive(Debug)]
pub struct FeatureMap {
    spec: FeatureSpec,
    projection: Projection,
    cpu: Cpu,
    /// Largest |y_k| that a row may have.
    input_limit: f32,
}

/// Directions in the layout of the dense or the structured projection.
#[derive(Debug)]
enum Projection {
    Dense(Packed),
    Hadamard(Prepared),
}

impl FeatureMap {
    /// Draws and packs the directions.
    ///
    /// # Errors
    /// [`Error::Param`] if a direction is out of the range of f32 (an extreme length scale).
    pub fn new(spec: &FeatureSpec) -> Result<Self, Error> {
        Self::with_cpu(spec, Cpu::Detected)
    }

    /// Draws and packs the directions for a given instruction set.
    ///
    /// # Errors
    /// The same as [`new`](Self::new).
    pub fn with_cpu(spec: &FeatureSpec, cpu: Cpu) -> Result<Self, Error> {
        let dim = spec.input_dim();
        // Bound on every intermediate value of a projection, for inputs of absolute value 1.
        let (projection, growth) = if spec.directions() == Directions::Hadamard {
            let hadamard = Hadamard::new(spec);
            let p = hadamard.size as f64;
            let largest = hadamard.factors.iter().fold(0.0f64, |m, c| m.max(*c)) as f32;
            directions::check_range(largest, spec)?;
            let projection = Projection::Hadamard(cpu.run(Prepare(hadamard)));
            (projection, p * p * f64::from(largest.max(1.0)))
        } else {
            let u = directions::checked_matrix(spec)?;
            let largest = u.iter().fold(0.0f32, |m, u| m.max(u.abs()));
            let packed = cpu.run(Pack { u: &u, dim });
            (Projection::Dense(packed), f64::from(largest) * dim as f64)
        };
        let input_limit = (PROJECTION_LIMIT / growth) as f32;
        Ok(Self { spec: spec.clone(), projection, cpu, input_limit })
    }

    /// Returns the spec of this map.
    pub fn spec(&self) -> &FeatureSpec {
        &self.spec
    }

    /// Computes phi of the rows, row-major.
    ///
    /// # Errors
    /// The same as [`transform_into`](Self::transform_into).
    ///
    /// ```
    /// use veridical_core::Rows;
    /// use veridical_features::{FeatureMap, FeatureSpec};
    ///
    /// let map = FeatureMap::new(&FeatureSpec::params(4, 8).build()?)?;
    /// assert_eq!(map.transform(Rows::new(&[0.5; 12], 4)?)?.len(), 3 * 8);
    // Twelve values are also two rows of width 6, which this spec does not accept.
    /// let error = map.transform(Rows::new(&[0.5; 12], 6)?).unwrap_err();
    /// assert!(error.to_string().starts_with("rows have 6 columns but the spec's input_dim is 4"));
    /// # Ok::<(), veridical_features::Error>(())
    /// ```
    pub fn transform(&self, rows: Rows<'_, f32>) -> Result<Vec<f32>, Error> {
        let mut out = vec![0.0; rows.n() * self.spec.output_dim()];
        self.transform_into(rows, &mut out)?;
        Ok(out)
    }

    /// Writes phi of `rows` to `out`, both row-major, on the threads of the current pool.
    ///
    /// # Errors
    /// [`Error::Width`] if the rows do not have the width of the spec, [`Error::Rows`] if `out` does not have exactly the
    /// size of the features; [`Error::NotFinite`], [`Error::TooLarge`] and [`Error::Normalization`] name the first row that
    /// cannot be projected.
    pub fn transform_into(&self, rows: Rows<'_, f32>, out: &mut [f32]) -> Result<Checked, Error> {
        let (dim, width) = (self.spec.input_dim(), self.spec.output_dim());
        if rows.dim() != dim {
            return Err(Error::Width { expected: dim, got: rows.dim() });
        }
        if out.len() != rows.n() * width {
            let (n, got) = (rows.n(), out.len());
            let what =
                format!("features of {n} rows take {n} x {width} values, but the output has {got}");
            return Err(veridical_core::Error::shape(what, "").into());
        }
        let rows = rows.values();
        let block_rows = self.block_rows();
        if rows.len() <= block_rows * dim {
            return self.transform_block(rows, out, &mut Scratch::default());
        }
        let blocks = rows.par_chunks(block_rows * dim).zip(out.par_chunks_mut(block_rows * width));
        let results: Vec<_> = blocks
            .enumerate()
            .map_init(Scratch::default, |scratch, (b, (rows, out))| {
                self.transform_block(rows, out, scratch).map_err(|e| e.shifted(b * block_rows))
            })
            .collect();
        results.into_iter().try_fold(Checked::default(), |seen, block| Ok(seen.and(block?)))
    }

    /// Writes phi of `rows` to `out`, rounded to half precision.
    ///
    /// # Errors
    /// The same as [`transform_into`](Self::transform_into).
    pub fn transform_into_f16(
        &self,
        rows: Rows<'_, f32>,
        out: &mut [f16],
    ) -> Result<Checked, Error> {
        let mut single = vec![0.0f32; out.len()];
        let checked = self.transform_into(rows, &mut single)?;
        let piece = 1 << 14;
        out.par_chunks_mut(piece)
            .zip(single.par_chunks(piece))
            .for_each(|(out, single)| out.convert_from_f32_slice(single));
        Ok(checked)
    }

    /// Rows per block: as many whole tiles as fit [`BLOCK_BYTES`], or a multiple of the SIMD width.
    fn block_rows(&self) -> usize {
        match &self.projection {
            Projection::Hadamard(_) => HADAMARD_ROWS,
            Projection::Dense(_) => {
                let fitting = BLOCK_BYTES / (self.spec.input_dim() * size_of::<f32>()) / TILE_ROWS;
                fitting.clamp(1, 32) * TILE_ROWS
            }
        }
    }

    fn transform_block(
        &self,
        rows: &[f32],
        out: &mut [f32],
        scratch: &mut Scratch,
    ) -> Result<Checked, Error> {
        let task = Task {
            preparation: Preparation {
                normalize: self.spec.normalize(),
                dim: self.spec.input_dim(),
                input_limit: self.input_limit,
            },
            scale: (1.0 / (self.spec.n_directions() as f64).sqrt()) as f32,
            rows,
            out,
            scratch,
        };
        match &self.projection {
            Projection::Dense(packed) => self.cpu.run(Dense { packed, task }),
            Projection::Hadamard(prepared) => self.cpu.run(Structured { prepared, task }),
        }
    }
}

impl Error {
    /// Returns the same error with its row index increased by `first`.
    pub(crate) fn shifted(self, first: usize) -> Self {
        match self {
            Self::NotFinite { row } => Self::NotFinite { row: row + first },
            Self::TooLarge { row, value } => Self::TooLarge { row: row + first, value },
            Self::Normalization { row, value } => Self::Normalization { row: row + first, value },
            other => other,
        }
    }
}

#[cfg(test)]
mod tests;
