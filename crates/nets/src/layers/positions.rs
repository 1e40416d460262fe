//! Learned position embeddings (Vaswani et al. 2017; Kang & McAuley 2018).
//!
//! y_r = s x_r + P_t for row r of a sequence of n rows, with t = r counted from the start, or t = m - n + r counted from the end,
//! so that the last row always has the last of the m positions (sequences padded on the left, as in SASRec).
//!
//! dx = s dy, and row t of dP is the sum of dy over the rows at position t.

use veridical_core::{Seed, Stream};

use super::linear::normal;
use crate::float::wide;
use crate::{Backward, Error, Factors, Float, Forward, Layer, Result, Sequences, Shape, Spec};

/// Adds a learned embedding for each position of a sequence.
///
/// A sequence must not be longer than the number of positions: the caller truncates.
#[derive(Clone, Debug)]
pub struct Positions {
    most: usize,
    width: usize,
    from_end: bool,
    scale: f64,
    deviation: f64,
}

impl Positions {
    /// Creates `most` positions for rows of `width` values, counted from the start, initialized from N(0, 0.02^2).
    pub fn new(most: usize, width: usize) -> Self {
        Self { most, width, from_end: false, scale: 1.0, deviation: 0.02 }
    }

    /// Counts positions from the end: the last row of every sequence has the last position.
    pub fn from_end(self) -> Self {
        Self { from_end: true, ..self }
    }

    /// Sets the factor that x is multiplied with first.
    pub fn scale(self, scale: f64) -> Self {
        Self { scale, ..self }
    }

    /// Sets the standard deviation of the initialization.
    pub fn deviation(self, deviation: f64) -> Self {
        Self { deviation, ..self }
    }

    /// The positions of all rows, sequence by sequence.
    fn of(&self, sequences: Sequences<'_>) -> impl Iterator<Item = usize> {
        sequences.ranges().flat_map(move |rows| {
            let n = rows.len();
            debug_assert!(n <= self.most, "{n} rows and {} positions", self.most);
            let first = if self.from_end { self.most.saturating_sub(n) } else { 0 };
            // Rows beyond the last position share it.
            (0..n).map(move |r| (first + r).min(self.most - 1))
        })
    }
}

impl<T: Float> Layer<T> for Positions {
    fn output(&self, input: Shape) -> Result<Shape> {
        if input != Shape::row(self.width) || self.most == 0 {
            let what = format!(
                "has {} positions for rows of {} values, got {input}",
                self.most, self.width
            );
            return Err(Error::Shape { layer: "positions".into(), what });
        }
        Ok(input)
    }

    fn parameters(&self) -> Vec<Spec> {
        vec![Spec { name: "weight", shape: vec![self.most, self.width] }]
    }

    fn initialize(&self, params: &mut [T], _: &mut [T], seed: Seed, name: &str) {
        normal(params, Stream::new(seed, &format!("init/{name}")), self.deviation);
    }

    fn forward(&self, pass: Forward<'_, T>) {
        let Forward { sequences, params, x, y, .. } = pass;
        let (d, scale) = (self.width, T::of(self.scale));
        wide(
            #[inline(always)]
            move || {
                let rows = x.chunks_exact(d).zip(y.chunks_exact_mut(d));
                for (t, (x, y)) in self.of(sequences).zip(rows) {
                    for ((y, &x), &p) in y.iter_mut().zip(x).zip(&params[t * d..][..d]) {
                        *y = x * scale + p;
                    }
                }
            },
        );
    }

    fn backward(&self, pass: Backward<'_, T>) {
        let Backward { sequences, dy, dx, dparams, .. } = pass;
        let (d, scale) = (self.width, T::of(self.scale));
        wide(
            #[inline(always)]
            move || {
                if let Some(dx) = dx {
                    dx.iter_mut().zip(dy).for_each(|(dx, &dy)| *dx = dy * scale);
                }
                let Some(sums) = dparams else { return };
                sums.fill(T::ZERO);
                for (t, dy) in self.of(sequences).zip(dy.chunks_exact(d)) {
                    for (sum, &dy) in sums[t * d..][..d].iter_mut().zip(dy) {
                        *sum += dy;
                    }
                }
            },
        );
    }

    fn factors(&self, _: Shape) -> Factors {
        Factors::Rows
    }

    fn tap_rows(&self, sequences: Sequences<'_>, rows: &mut Vec<usize>) {
        rows.clear();
        rows.extend(self.of(sequences));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mode;
    use crate::testing::Trial;

    #[test]
    fn gradients_are_right() {
        for layer in [Positions::new(5, 3), Positions::new(6, 3).from_end().scale(1.7)] {
            Trial::of_sequences(&layer, Shape::row(3), &[2, 5, 1, 3], Mode::Training).check();
        }
    }

    #[test]
    fn positions_count_from_the_start_or_to_the_end() {
        let starts = [0, 2, 6, 7];
        let of = |layer: Positions| layer.of(Sequences::new(&starts)).collect::<Vec<_>>();
        assert_eq!(of(Positions::new(5, 1)), [0, 1, 0, 1, 2, 3, 0]);
        assert_eq!(of(Positions::new(5, 1).from_end()), [3, 4, 1, 2, 3, 4, 4]);
    }

    #[test]
    fn a_row_is_scaled_and_moved() {
        let layer = Positions::new(4, 2).from_end().scale(3.0);
        let trial = Trial::of_sequences(&layer, Shape::row(2), &[3, 1], Mode::Frozen);
        let (y, _) = trial.forward();
        for ((y, x), t) in y.chunks(2).zip(trial.x.chunks(2)).zip([1, 2, 3, 3]) {
            let moved = |k: usize| 3.0 * x[k] + trial.params[2 * t + k];
            assert_eq!(y, [moved(0), moved(1)]);
        }
    }
}
