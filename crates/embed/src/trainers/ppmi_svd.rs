//! Shifted positive pointwise mutual information by a randomized SVD: the reproducible alternative to skip-gram
//! (Levy & Goldberg 2014; Levy, Goldberg & Dagan 2015).
//!
//! counts    c_ij pairs of positions at most `window` apart in a user's sequence with items i and j; n_i = sum_j c_ij
//! matrix    M_ij = max(0, ln(c_ij / (n_i p_j)) - ln shift),  p_j = n_j^power / sum_k n_k^power
//! vectors   U S^exponent of M ~ U S V' (`veridical_learn::randomized_svd`)
//!
//! Rows of c are counted one at a time from the positions of their item, so memory is that of the positions and of
//! the positive entries of M.

use rayon::prelude::*;
use veridical_core::Progress;
use veridical_core::settings;
use veridical_core::{Seed, Stream};
use veridical_data::{Lists, TensorMap};
use veridical_learn::{Operator, randomized_svd};

use super::closed_form::ClosedForm;
use crate::{Embedding, Error, Graphs, Input, Model, Result, Trainer};

settings! {
    /// Settings of `ppmi-svd`.
    pub struct Settings {
        /// Embedding dimension
        pub dim: usize = 32,
        /// Neighbors on each side
        pub window: usize = 5,
        /// Its logarithm is subtracted from the mutual information (the k of skip-gram)
        pub shift: f64 = 1.0,
        /// Exponent of the context counts
        pub power: f64 = 0.75,
        /// Exponent of the singular values in the vectors
        pub exponent: f64 = 0.5,
        /// Oversampling: columns of the random sketch beyond dim
        pub oversampling: usize = 10,
        /// Power iterations
        pub iterations: usize = 4,
    }
}

/// Makes a trainer that has not run an epoch yet.
///
/// # Errors
/// Settings out of range, and data without interactions.
pub fn trainer<'a>(
    settings: &Settings,
    input: Input<'a>,
    _graphs: &'a Graphs,
    seed: Seed,
) -> Result<Box<dyn Trainer + 'a>> {
    let settings = settings.clone();
    let (data, rows) = input.interactions()?;
    let n = data.items.len();
    check(&settings, n)?;
    let model = Model::Items {
        item: Embedding::zeros(n, settings.dim),
        context: None,
        state: TensorMap::default(),
    };
    let solve = move |progress: &Progress| {
        let matrix = Sparse::ppmi(&data.sequences(rows), n, &settings, progress)?;
        progress.advance(rows.len() as u64);
        let Settings { dim, oversampling, iterations, exponent, .. } = settings;
        let stream = Stream::new(seed, "ppmi-svd/sketch");
        let (values, mut u) = randomized_svd(&matrix, dim, oversampling, iterations, stream)?;
        // Directions beyond the rank stay zero, even with exponent 0.
        let scale = |s: &f64| if *s > 0.0 { s.powf(exponent) } else { 0.0 };
        let scales: Vec<f64> = values.iter().map(scale).collect();
        for row in u.chunks_exact_mut(dim) {
            row.iter_mut().zip(&scales).for_each(|(x, s)| *x *= s);
        }
        let item = Embedding::new(dim, u.into_iter().map(|x| x as f32).collect());
        Ok(Model::Items { item, context: None, state: TensorMap::default() })
    };
    Ok(Box::new(ClosedForm { samples: rows.len() as u64, model, solve }))
}

fn check(settings: &Settings, n_items: usize) -> Result<()> {
    let Settings { dim, window, shift, power, exponent, .. } = *settings;
    if dim == 0 || dim > n_items {
        let must = format!("from 1 to the number of items, {n_items}");
        return Err(Error::setting("dim", must, dim));
    }
    if window == 0 {
        return Err(Error::setting("window", "at least 1", window));
    }
    if !(shift > 0.0 && shift.is_finite()) {
        return Err(Error::setting("shift", "above 0", shift));
    }
    if !power.is_finite() {
        return Err(Error::setting("power", "a number", power));
    }
    if !exponent.is_finite() {
        return Err(Error::setting("exponent", "a number", exponent));
    }
    Ok(())
}

/// Rows of (column, value), and the same by columns.
struct Sparse {
    n: usize,
    rows: Vec<Vec<(u32, f64)>>,
    columns: Vec<Vec<(u32, f64)>>,
}

impl Sparse {
    fn ppmi(sequences: &Lists, n: usize, settings: &Settings, progress: &Progress) -> Result<Self> {
        let Settings { window, shift, power, .. } = *settings;
        let tokens = sequences.values();
        let places = Lists::collect(n, tokens.iter().copied().zip(0..));
        let mut ends = vec![(0, 0); tokens.len()];
        for user in 0..sequences.len() {
            let range = sequences.range(user);
            ends[range.clone()].fill((range.start as u32, range.end as u32));
        }
        let around = |place: u32| {
            let (first, end) = ends[place as usize];
            let window = u32::try_from(window).unwrap_or(u32::MAX);
            let near = place.saturating_sub(window).max(first)
                ..place.saturating_add(window).saturating_add(1).min(end);
            near.filter(move |&p| p != place).map(|p| tokens[p as usize])
        };
        let totals: Vec<f64> = (0..n)
            .into_par_iter()
            .map(|i| places.get(i).iter().map(|&p| around(p).count()).sum::<usize>() as f64)
            .collect();
        // Items that never co-occur with another have no column, whatever the power.
        let smoothed: Vec<f64> =
            totals.iter().map(|&t| if t > 0.0 { t.powf(power) } else { 0.0 }).collect();
        let sum: f64 = smoothed.iter().sum();
        let row = |counts: &mut Vec<u32>, i: usize| -> Result<Vec<(u32, f64)>> {
            progress.check()?;
            counts.resize(n, 0);
            let mut met: Vec<u32> = Vec::new();
            for &place in places.get(i) {
                for j in around(place) {
                    if counts[j as usize] == 0 {
                        met.push(j);
                    }
                    counts[j as usize] += 1;
                }
            }
            met.sort_unstable();
            let entry = |j: u32| {
                let count = f64::from(std::mem::take(&mut counts[j as usize]));
                let chance = totals[i] * smoothed[j as usize] / sum;
                (j, (count / chance).ln() - shift.ln())
            };
            Ok(met.into_iter().map(entry).filter(|(_, value)| *value > 0.0).collect())
        };
        let rows: Vec<Result<Vec<(u32, f64)>>> =
            (0..n).into_par_iter().map_init(Vec::new, row).collect();
        let rows: Vec<Vec<(u32, f64)>> = rows.into_iter().collect::<Result<_>>()?;
        if rows.iter().all(Vec::is_empty) {
            return Err(Error::unfit(
                "no two items co-occur more often than by chance: lower ⟨shift⟩ or raise ⟨window⟩",
            ));
        }
        let mut columns = vec![Vec::new(); n];
        for (i, row) in rows.iter().enumerate() {
            row.iter().for_each(|&(j, value)| columns[j as usize].push((i as u32, value)));
        }
        Ok(Self { n, rows, columns })
    }

    fn times(&self, rows: &[Vec<(u32, f64)>], x: &[f64], k: usize) -> Vec<f64> {
        let mut out = vec![0.0; self.n * k];
        out.par_chunks_exact_mut(k).zip(rows).for_each(|(out, row)| {
            for &(j, value) in row {
                let x = &x[j as usize * k..][..k];
                out.iter_mut().zip(x).for_each(|(o, x)| *o += value * x);
            }
        });
        out
    }
}

impl Operator for Sparse {
    fn shape(&self) -> [usize; 2] {
        [self.n, self.n]
    }

    fn apply(&self, x: &[f64], k: usize) -> Vec<f64> {
        self.times(&self.rows, x, k)
    }

    fn apply_transposed(&self, x: &[f64], k: usize) -> Vec<f64> {
        self.times(&self.columns, x, k)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lists(values: &[&[u32]]) -> Lists {
        let pairs =
            values.iter().zip(0..).flat_map(|(list, key)| list.iter().map(move |&v| (key, v)));
        Lists::collect(values.len(), pairs)
    }

    /// The definition, from a table of counts over all pairs of positions.
    #[test]
    fn the_matrix_is_that_of_the_definition() {
        let sequences = lists(&[&[0, 1, 2, 1, 3], &[], &[3, 0, 0], &[2]]);
        let settings = Settings { window: 2, shift: 1.1, ..Settings::default() };
        let n = 5;
        let mut counts = vec![0.0; n * n];
        for list in sequences.iter() {
            for (p, &i) in list.iter().enumerate() {
                for (q, &j) in list.iter().enumerate() {
                    if p != q && p.abs_diff(q) <= 2 {
                        counts[i as usize * n + j as usize] += 1.0;
                    }
                }
            }
        }
        let total = |i: usize| counts[i * n..][..n].iter().sum::<f64>();
        let sum: f64 = (0..n).map(|j| total(j).powf(0.75)).sum();
        let matrix = Sparse::ppmi(&sequences, n, &settings, &Progress::hidden()).unwrap();
        for i in 0..n {
            for j in 0..n {
                let pmi = (counts[i * n + j] / (total(i) * total(j).powf(0.75) / sum)).ln();
                let want = (pmi - 1.1f64.ln()).max(0.0);
                let find = |row: &[(u32, f64)], at: usize| {
                    row.iter().find(|e| e.0 as usize == at).map_or(0.0, |e| e.1)
                };
                assert!((find(&matrix.rows[i], j) - want).abs() < 1e-12, "{i} {j}");
                assert!((find(&matrix.columns[j], i) - want).abs() < 1e-12, "{i} {j}");
            }
        }
    }

    #[test]
    fn nothing_above_chance_is_an_error() {
        let sequences = lists(&[&[0], &[1]]);
        let error =
            Sparse::ppmi(&sequences, 2, &Settings::default(), &Progress::hidden()).err().unwrap();
        assert!(error.to_string().starts_with("no two items co-occur"), "{error}");
    }
}
