//! Kernels of training images with themselves and with queries.

use veridical::Result;
use veridical_core::{Job, Rows};
use veridical_kernels::gram::{VectorKernel, VectorPairs, gram};
use veridical_kernels::tangent::{Examples, Factors, Normalization, Plan, Settings, kernel};
use veridical_nets::{Feed, Net};

/// Bytes that the factors of one job may take.
pub const MEMORY: u64 = 3 << 30;

/// The values of one kernel.
pub struct Grams {
    /// Training images with each other, n x n.
    pub train: Vec<f32>,
    /// Queries with training images, q x n.
    pub queries: Vec<f32>,
    /// The number of training images.
    pub n: usize,
    /// Kernels of training images and of queries with themselves, before normalization.
    diagonals: [Vec<f64>; 2],
}

impl Grams {
    /// Computes a kernel.
    pub fn new(
        net: &Net<f32>,
        train: &Feed<'_>,
        queries: &Feed<'_>,
        settings: &Settings,
        job: &Job<'_>,
    ) -> Result<Self> {
        let settings = Settings { memory: MEMORY, ..settings.clone() };
        let job = &job.quiet();
        let n = train.len();
        let (train, queries) = (fed(train), fed(queries));
        let plan = Plan::new(net, &train, Some(&queries), &settings)?;
        if plan.fits() {
            let train = Factors::take(net, &train, &plan, job)?;
            let queries = Factors::take(net, &queries, &plan, job)?;
            return Ok(Self {
                train: train.gram(None, job)?.values,
                queries: queries.gram(Some(&train), job)?.values,
                n,
                diagonals: [train.diagonal(), queries.diagonal()],
            });
        }
        let own = kernel(net, &train, None, &settings, job)?;
        let asked = kernel(net, &queries, Some(&train), &settings, job)?;
        let [of_train, _] = own.summary.diagonals;
        let [of_queries, _] = asked.summary.diagonals;
        let diagonals = [of_train, of_queries];
        Ok(Self { train: own.gram.values, queries: asked.gram.values, n, diagonals })
    }

    /// Computes the inner products of the rows of two tables with `n` training rows.
    pub fn of_vectors(train: &[f32], queries: &[f32], n: usize, job: &Job<'_>) -> Result<Self> {
        let dim = train.len() / n;
        let (train, queries) = (Rows::new(train, dim)?, Rows::new(queries, dim)?);
        let kernel = &VectorKernel::Linear;
        let own = gram(&VectorPairs::new(kernel, train, None), &job.quiet())?;
        let asked = gram(&VectorPairs::new(kernel, queries, Some(train)), &job.quiet())?;
        let squares = |rows: Rows<'_, f32>| -> Vec<f64> {
            rows.iter().map(|x| x.iter().map(|x| f64::from(*x).powi(2)).sum()).collect()
        };
        let diagonals = [squares(train), squares(queries)];
        Ok(Self { train: own.values, queries: asked.values, n, diagonals })
    }

    /// Returns the cosine form of a kernel without normalization.
    pub fn cosine(&self) -> Self {
        let [train, queries] = &self.diagonals;
        let scaled = |values: &[f32], rows: &[f64]| -> Vec<f32> {
            let rows = values.chunks_exact(self.n).zip(rows);
            rows.flat_map(|(row, d)| {
                row.iter().zip(train).map(move |(k, e)| (f64::from(*k) / (d * e).sqrt()) as f32)
            })
            .collect()
        };
        let mut own = scaled(&self.train, train);
        own.iter_mut().step_by(self.n + 1).for_each(|k| *k = 1.0);
        let queries = scaled(&self.queries, queries);
        Self { train: own, queries, n: self.n, diagonals: self.diagonals.clone() }
    }

    /// Divides by the standard deviation of the training values, as paper 004's code does with kernels without normalization.
    pub fn standardized(mut self) -> Self {
        let n = self.train.len() as f64;
        let mean = self.train.iter().map(|k| f64::from(*k)).sum::<f64>() / n;
        let square = self.train.iter().map(|k| (f64::from(*k) - mean).powi(2)).sum::<f64>() / n;
        let scale = 1.0 / square.sqrt();
        for k in self.train.iter_mut().chain(&mut self.queries) {
            *k = (f64::from(*k) * scale) as f32;
        }
        self
    }

    /// Returns the values of some queries.
    pub fn of_queries(&self, rows: &[usize]) -> Vec<f32> {
        rows.iter().flat_map(|&q| &self.queries[q * self.n..][..self.n]).copied().collect()
    }
}

/// All samples of a feed.
pub fn fed<'a>(feed: &'a Feed<'_>) -> Examples<'a, f32> {
    Examples::new(feed.len(), move |samples, slot: &mut [f32]| {
        feed.fill(&samples.collect::<Vec<_>>(), slot);
    })
}

/// Without the normalization that belongs to a kernel.
pub fn raw(settings: Settings) -> Settings {
    Settings { normalization: Normalization::None, ..settings }
}

/// As a cosine.
pub fn cosine(settings: Settings) -> Settings {
    Settings { normalization: Normalization::Cosine, ..settings }
}

#[cfg(test)]
mod tests {
    use veridical_core::Seed;
    use veridical_data::generate;
    use veridical_kernels::tangent::Kind;

    use super::super::networks::{Classifier, Training};
    use super::*;

    /// f32 rounding of values and quotients.
    #[test]
    fn the_cosine_form_is_that_of_the_kernel_itself() {
        let examples = generate::images(40, 8, 1, 2, Seed::new(1).unwrap());
        let training = Training {
            optimizer: veridical_nets::OptimizerKind::Adam,
            lr: 1e-3,
            batch: 8,
            epochs: 1,
        };
        let job = Job::silent();
        let trained = Classifier::train("mlp:8", &examples, 2, training, 0, &job).unwrap();
        let feed = trained.feed(&examples).unwrap();
        let of = |settings| Grams::new(&trained.net, &feed, &feed, &settings, &job).unwrap();
        let (own, plain) = (of(Settings::new(Kind::Trntk)), of(Settings::new(Kind::Trntk0)));
        let pairs = plain.cosine();
        for (a, b) in
            own.train.iter().zip(&pairs.train).chain(own.queries.iter().zip(&pairs.queries))
        {
            assert!((a - b).abs() < 1e-5, "{a} {b}");
        }
    }
}
