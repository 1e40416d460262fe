//! Linear item-to-item weights in closed form (Steck, "Embarrassingly shallow autoencoders", 2019).
//!
//! B = argmin |X - X B|^2 + lambda |B|^2 with diag B = 0, X binary:
//! P = (X'X + lambda I)^-1,  B_ij = - P_ij / P_jj for i != j; a user's scores are x B.
//!
//! The inverse is in f64 and in place: n^3 multiply-adds and [`bytes`] of memory, 12 n^2, for n items.

use rayon::prelude::*;
use veridical_core::Progress;
use veridical_core::Seed;
use veridical_core::settings;
use veridical_learn::invert_spd;

use super::closed_form::ClosedForm;
use super::cooccurrence::{Choices, Row};
use crate::{Embedding, Error, Graphs, Input, Model, Result, Trainer};

/// 11 GB of memory; beyond it the O(n^3) inverse takes hours.
const MOST_ITEMS: usize = 30_000;

/// Returns the memory that a fit needs for n items, in bytes: the matrix in f64 and the weights in f32.
pub const fn bytes(n: usize) -> u64 {
    12 * (n as u64).pow(2)
}

settings! {
    /// Settings of `ease`.
    pub struct Settings {
        /// L2 penalty on the weights
        pub weight_decay: f64 = 250.0,
    }
}

/// Makes a trainer that has not run an epoch yet.
///
/// # Errors
/// Settings out of range, data without interactions or with too many items.
pub fn trainer<'a>(
    settings: &Settings,
    input: Input<'a>,
    _graphs: &'a Graphs,
    _seed: Seed,
) -> Result<Box<dyn Trainer + 'a>> {
    let lambda = settings.weight_decay;
    if !(lambda > 0.0 && lambda.is_finite()) {
        return Err(Error::setting("weight-decay", "above 0", lambda));
    }
    let (data, rows) = input.interactions()?;
    let n = data.items.len();
    if n > MOST_ITEMS {
        let gigabytes = bytes(n) as f64 / 1e9;
        return Err(Error::unfit(format!(
            "ease with {n} items would need {gigabytes:.0} GB: at most {MOST_ITEMS} items; itemknn has no such limit"
        )));
    }
    let solve = move |progress: &Progress| {
        let choices = Choices::new(data, rows);
        let mut matrix = vec![0.0; n * n];
        let fill = |row: &mut Row, (i, out): (usize, &mut [f64])| {
            row.of(&choices, i, |j, both| out[j as usize] = f64::from(both));
            out[i] += lambda;
        };
        matrix.par_chunks_exact_mut(n).enumerate().for_each_init(Row::default, fill);
        progress.check()?;
        let inverse = invert_spd(matrix, n)?
            .ok_or_else(|| Error::unfit("the linear system is singular; raise ⟨weight-decay⟩"))?;
        let diagonal: Vec<f64> = (0..n).map(|i| inverse[i * n + i]).collect();
        let mut weights = vec![0.0; n * n];
        weights.par_chunks_exact_mut(n).zip(inverse.par_chunks_exact(n)).enumerate().for_each(
            |(i, (out, row))| {
                for ((w, p), d) in out.iter_mut().zip(row).zip(&diagonal) {
                    *w = (-p / d) as f32;
                }
                out[i] = 0.0;
            },
        );
        progress.advance(rows.len() as u64);
        Ok(Model::Weights(Embedding::new(n, weights)))
    };
    let model = Model::Weights(Embedding::zeros(n, n));
    Ok(Box::new(ClosedForm { samples: rows.len() as u64, model, solve }))
}
