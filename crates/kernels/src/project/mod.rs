//! Sketches of gradients, where exact factors are too large.
//!
//! A sketch s_i of K numbers stands for all gradients g_i^v of a sample, of all sketched layers and all cotangents v together, and
//! E <s_i, s_j> = sum_v <g_i^v, g_j^v>. With x and y the gradients laid end to end:
//!
//! | projection | s | Var <s_x, s_y> |
//! |---|---|---|
//! | sjlt | s_h(p) += sigma(p) x_p with one bucket h(p) and one sign sigma(p) for each p | at most (\|x\|^2 \|y\|^2 + (x . y)^2) / K |
//! | gaussian | R x / sqrt(K), R_kp from N(0, 1) | (\|x\|^2 \|y\|^2 + (x . y)^2) / K |
//! | rademacher | the same with signs | the same, less 2 sum_p x_p^2 y_p^2 / K |
//! | kron:AxB | for each layer and cotangent B' G A, A and B from N(0, 1/A) and N(0, 1/B) | far larger |
//!
//! Every parameter of every cotangent has its own bucket, sign or row of R, from stream `sketch/<layer>`. The sparse transform with
//! one bucket (Kane & Nelson 2014) takes one addition per number whatever K is, and has the variance of dense projections; the
//! Kronecker product (LoGra, Choe et al. 2024) is here for comparison. K = ceil(2 / eps^2) keeps the standard deviation of the cosine of any
//! two samples below eps, as |x|^2 |y|^2 + (x . y)^2 <= 2 |x|^2 |y|^2.

mod residual;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use rayon::prelude::*;
use serde::Serialize;
use veridical_core::{Error, Seed, Stream};
use veridical_nets::Float;

use crate::Result;
use crate::gram::product;
pub use residual::{Residual, residual};

/// How gradients are projected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Projection {
    /// Sparse Johnson-Lindenstrauss transform with one entry per column.
    Sjlt,
    /// Dense Gaussian matrix.
    Gaussian,
    /// Dense matrix of signs.
    Rademacher,
    /// Gaussian matrices on the input and the output of each layer.
    Kron(usize, usize),
}

/// A sketch of gradients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sketch {
    /// The projection.
    pub projection: Projection,
    /// Numbers K of a sketch; of each layer and cotangent for [`Projection::Kron`].
    pub dim: usize,
    /// Whether all layers but tables are sketched, instead of those whose gradients would be formed anyway.
    pub everything: bool,
}

impl Sketch {
    /// Creates a sketch of the layers whose gradients would be formed anyway.
    ///
    /// # Errors
    /// A setting error for a dimension of 0.
    pub fn new(projection: Projection, dim: usize) -> Result<Self> {
        let dim = match projection {
            Projection::Kron(a, b) => a * b,
            _ => dim,
        };
        if dim == 0 || dim > MOST {
            return Err(Error::setting("sketch", format!("from 1 to {MOST} numbers"), dim).into());
        }
        Ok(Self { projection, dim, everything: false })
    }

    /// Creates a sparse transform whose cosines have a standard deviation of at most `error`.
    ///
    /// # Errors
    /// A setting error if the error is not between 0.001 and 1.
    pub fn for_error(error: f64) -> Result<Self> {
        if !(0.001..1.0).contains(&error) {
            return Err(Error::setting("error", "from 0.001 to below 1", error).into());
        }
        Self::new(Projection::Sjlt, (2.0 / (error * error)).ceil() as usize)
    }

    /// Sketches all layers but tables.
    pub fn of_everything(self) -> Self {
        Self { everything: true, ..self }
    }

    /// Whether one sketch serves all layers and cotangents.
    pub(crate) fn is_joint(&self) -> bool {
        !matches!(self.projection, Projection::Kron(..))
    }
}

/// Largest dimension of a sketch.
const MOST: usize = 1 << 24;

impl fmt::Display for Sketch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.projection {
            Projection::Sjlt => write!(f, "sjlt:{}", self.dim),
            Projection::Gaussian => write!(f, "gaussian:{}", self.dim),
            Projection::Rademacher => write!(f, "rademacher:{}", self.dim),
            Projection::Kron(a, b) => write!(f, "kron:{a}x{b}"),
        }
    }
}

impl FromStr for Sketch {
    type Err = crate::Error;

    fn from_str(text: &str) -> Result<Self> {
        let unknown = || {
            let known = "sjlt:4096, gaussian:4096, rademacher:4096 or kron:64x64";
            crate::Error::from(Error::setting("sketch", known, text))
        };
        let (name, size) = text.split_once(':').ok_or_else(unknown)?;
        let number = |text: &str| text.parse::<usize>().map_err(|_| unknown());
        let projection = match name {
            "sjlt" => Projection::Sjlt,
            "gaussian" => Projection::Gaussian,
            "rademacher" => Projection::Rademacher,
            "kron" => {
                let (a, b) = size.split_once('x').ok_or_else(unknown)?;
                let (a, b) = (number(a)?, number(b)?);
                if a.max(b) > 1 << 12 {
                    return Err(unknown());
                }
                return Self::new(Projection::Kron(a, b), 0);
            }
            _ => return Err(unknown()),
        };
        Self::new(projection, number(size)?)
    }
}

/// Columns of a dense projection that one thread computes at once.
const COLUMNS: usize = 128;
/// Parameters that the sparse transform passes over at once if they are zeros.
const RUN: usize = 16;
/// Parameters that a dense projection reads at once.
const PARAMETERS: usize = 256;

/// Projects the gradients of batches.
#[derive(Debug)]
pub(crate) struct Projector<T> {
    sketch: Sketch,
    seed: Seed,
    /// Bucket and sign of every parameter, by layer and cotangent.
    tables: BTreeMap<(String, usize), Vec<u32>>,
    /// The two matrices of every layer.
    pairs: BTreeMap<String, [Vec<T>; 2]>,
}

impl<T: Float> Projector<T> {
    pub fn new(sketch: &Sketch, seed: Seed) -> Self {
        Self { sketch: sketch.clone(), seed, tables: BTreeMap::new(), pairs: BTreeMap::new() }
    }

    pub fn dim(&self) -> usize {
        self.sketch.dim
    }

    fn stream(&self, layer: &str) -> Stream {
        Stream::new(self.seed, &format!("sketch/{layer}"))
    }

    /// Adds the projections of gradients of one layer and cotangent to sketches, samples x K; `form` writes the `count` values of the
    /// gradient of one sample.
    pub fn add(
        &mut self,
        layer: &str,
        cotangent: usize,
        count: usize,
        form: impl Fn(usize, &mut [T]) + Sync,
        out: &mut [T],
    ) {
        if self.sketch.projection == Projection::Sjlt {
            return self.scatter(layer, cotangent, count, form, out);
        }
        let mut gradients = vec![T::ZERO; out.len() / self.sketch.dim * count];
        let each = gradients.par_chunks_mut(count).enumerate();
        each.for_each(|(sample, gradient)| form(sample, gradient));
        self.multiply(layer, cotangent, count, &gradients, out);
    }

    fn scatter(
        &mut self,
        layer: &str,
        cotangent: usize,
        count: usize,
        form: impl Fn(usize, &mut [T]) + Sync,
        out: &mut [T],
    ) {
        let (dim, stream) = (self.sketch.dim, self.stream(layer));
        let table = self.tables.entry((layer.to_owned(), cotangent)).or_insert_with(|| {
            let words = (0..count.div_ceil(4) as u32)
                .flat_map(|block| stream.words([block, cotangent as u32, 0, 0]));
            let entry = |word: u32| {
                let bucket = (u64::from(word >> 1) * dim as u64) >> 31;
                (bucket as u32) << 1 | word & 1
            };
            words.take(count).map(entry).collect()
        });
        out.par_chunks_mut(dim).enumerate().for_each_init(Vec::new, |gradient, (sample, out)| {
            gradient.resize(count, T::ZERO);
            form(sample, gradient);
            for (entries, values) in table.chunks(RUN).zip(gradient.chunks(RUN)) {
                // Units that relu turned off leave whole rows of zeros.
                if values.iter().all(|g| *g == T::ZERO) {
                    continue;
                }
                for (&entry, &g) in entries.iter().zip(values) {
                    let to = &mut out[(entry >> 1) as usize];
                    *to += if entry & 1 == 1 { -g } else { g };
                }
            }
        });
    }

    fn multiply(
        &self,
        layer: &str,
        cotangent: usize,
        count: usize,
        gradients: &[T],
        out: &mut [T],
    ) {
        let (dim, stream) = (self.sketch.dim, self.stream(layer));
        let (n, blocks) = (gradients.len() / count, dim.div_ceil(COLUMNS));
        let is_gaussian = self.sketch.projection == Projection::Gaussian;
        let scale = 1.0 / (dim as f64).sqrt();
        let columns = |block: usize| {
            let width = COLUMNS.min(dim - block * COLUMNS);
            let mut sums = vec![T::ZERO; n * width];
            let (mut part, mut matrix, mut drawn) = (Vec::new(), Vec::new(), vec![0.0; width]);
            for first in (0..count).step_by(PARAMETERS) {
                let len = PARAMETERS.min(count - first);
                part.clear();
                for gradient in gradients.chunks_exact(count) {
                    part.extend_from_slice(&gradient[first..first + len]);
                }
                matrix.clear();
                for p in first..first + len {
                    let place = stream.at(cotangent as u32, (p * blocks + block) as u64);
                    match is_gaussian {
                        true => place.fill_normals(&mut drawn),
                        false => {
                            for (k, d) in (0..).zip(&mut drawn) {
                                *d = if place.uniform(k) < 0.5 { -1.0 } else { 1.0 };
                            }
                        }
                    }
                    matrix.extend(drawn.iter().map(|z| T::of(z * scale)));
                }
                product(&mut sums, true, &part, &matrix, [n, len, width]);
            }
            (width, sums)
        };
        let parts: Vec<(usize, Vec<T>)> = (0..blocks).into_par_iter().map(columns).collect();
        for (block, (width, sums)) in parts.into_iter().enumerate() {
            for (out, sums) in out.chunks_exact_mut(dim).zip(sums.chunks_exact(width)) {
                let to = out[block * COLUMNS..].iter_mut();
                to.zip(sums).for_each(|(o, &s)| *o += s);
            }
        }
    }

    /// Writes sum_p (B' delta_p) (A' \[a_p, rho\])' of one sample.
    pub fn pair(
        &mut self,
        layer: &str,
        (a, rho): (&[T], Option<T>),
        sizes: [usize; 2],
        delta: &[T],
        out: &mut [T],
    ) {
        let Projection::Kron(wide, high) = self.sketch.projection else { return };
        let [inputs, outputs] = sizes;
        let all = inputs + usize::from(rho.is_some());
        let stream = self.stream(layer);
        let [left, right] = self.pairs.entry(layer.to_owned()).or_insert_with(|| {
            [(all, wide), (outputs, high)].map(|(rows, columns)| {
                let mut drawn = vec![0.0; rows * columns];
                stream.at(0, columns as u64).fill_normals(&mut drawn);
                let scale = 1.0 / (columns as f64).sqrt();
                drawn.into_iter().map(|z| T::of(z * scale)).collect()
            })
        });
        let rows = delta.len() / outputs;
        let mut a_part = vec![T::ZERO; rows * wide];
        if let Some(rho) = rho {
            let last = &left[inputs * wide..];
            for row in a_part.chunks_exact_mut(wide) {
                row.iter_mut().zip(last).for_each(|(r, &l)| *r = rho * l);
            }
        }
        product(&mut a_part, true, a, left, [rows, inputs, wide]);
        let mut d_part = vec![T::ZERO; rows * high];
        product(&mut d_part, false, delta, right, [rows, outputs, high]);
        out.fill(T::ZERO);
        for (a, d) in a_part.chunks_exact(wide).zip(d_part.chunks_exact(high)) {
            for (out, &d) in out.chunks_exact_mut(wide).zip(d) {
                out.iter_mut().zip(a).for_each(|(o, &a)| *o += d * a);
            }
        }
    }
}
