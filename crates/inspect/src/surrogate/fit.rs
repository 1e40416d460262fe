//! Fits a surrogate to labels or to the network.
//!
//! labels     the kernel GLM: what is left out of it is a labeled example, so removal, influence and label errors need this fit
//! network    ridge on the network's logits: its parts add up to what the network itself says
//!
//! The penalty is the best of a falling grid on every tenth training row by a stream; queries never take part.

use serde::Serialize;
use veridical_core::{Error, Job, Result, Rows, Seed, Stream};
use veridical_kernels::machine::{Choice, Glm, GlmSettings, RidgeFit, choose_glm, choose_ridge};

/// What a surrogate imitates.
#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    /// The labels of the training rows.
    Labels {
        /// One label per row.
        labels: &'a [u32],
        /// The number of classes.
        classes: usize,
        /// A weight per row.
        weights: Option<&'a [f64]>,
    },
    /// The network's logits on the training rows.
    Network(Rows<'a, f64>),
}

/// How a surrogate is fitted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FitSettings {
    /// Penalties to choose from, as multiples of the mean diagonal of K.
    pub penalties: Vec<f64>,
    /// The share of training rows held out for the choice.
    pub held_out: f64,
    /// The seed of the held-out rows.
    #[serde(skip)]
    pub seed: Seed,
}

impl FitSettings {
    /// Settings for a GLM: penalties from 1e-1 to 1e-5, a tenth held out.
    pub fn labels(seed: Seed) -> Self {
        Self { penalties: vec![1e-1, 1e-2, 1e-3, 1e-4, 1e-5], held_out: 0.1, seed }
    }

    /// Settings for ridge: penalties from 10 to 1e-4, a tenth held out.
    pub fn network(seed: Seed) -> Self {
        Self { penalties: vec![10.0, 1.0, 1e-1, 1e-2, 1e-3, 1e-4], held_out: 0.1, seed }
    }
}

/// The machine behind a surrogate.
#[derive(Clone, Debug)]
pub enum Machine {
    /// Fitted to labels.
    Glm(Glm),
    /// Fitted to the network.
    Ridge(RidgeFit),
}

/// A kernel machine that imitates a network.
#[derive(Clone, Debug)]
pub struct Surrogate {
    /// The fitted machine.
    pub machine: Machine,
    /// How its penalty was chosen.
    pub choice: Choice,
}

impl Surrogate {
    /// Returns alpha: a row of one value per class for every training row.
    pub fn alpha(&self) -> &[f64] {
        match &self.machine {
            Machine::Glm(glm) => glm.alpha(),
            Machine::Ridge(ridge) => ridge.alpha(),
        }
    }

    /// Returns the intercepts, one per class.
    pub fn intercepts(&self) -> &[f64] {
        match &self.machine {
            Machine::Glm(glm) => glm.intercepts(),
            Machine::Ridge(ridge) => ridge.intercepts(),
        }
    }

    /// Predicts the logits of queries from their kernel values with the training rows.
    ///
    /// # Errors
    /// [`Error::Shape`] if there is not one kernel value per training row, [`Error::Unfit`] if one is not finite.
    pub fn logits(&self, k: Rows<'_, f32>) -> Result<Vec<f64>> {
        match &self.machine {
            Machine::Glm(glm) => glm.predict(k),
            Machine::Ridge(ridge) => ridge.predict(k),
        }
    }
}

/// Fits a surrogate on the Gram matrix of the training rows.
///
/// # Errors
/// [`Error::Setting`] for a share of held-out rows outside (0, 1) or without penalties; those of [`Glm::fit`] and [`RidgeFit::new`].
pub fn fit(
    k: Rows<'_, f32>,
    target: Target<'_>,
    settings: &FitSettings,
    job: &Job<'_>,
) -> Result<Surrogate> {
    let n = k.n();
    if !(settings.held_out > 0.0 && settings.held_out < 1.0) {
        return Err(Error::setting("held-out", "above 0 and below 1", settings.held_out));
    }
    if settings.penalties.is_empty() {
        return Err(Error::setting("lambda", "at least one penalty", "none"));
    }
    let unit = (0..n.min(k.dim())).map(|i| f64::from(k.row(i)[i])).sum::<f64>() / n as f64;
    let unit = if unit > 0.0 { unit } else { 1.0 };
    let lambdas: Vec<f64> = settings.penalties.iter().map(|penalty| penalty * unit).collect();
    let held_out = held_out(n, &target, settings);
    match target {
        Target::Labels { labels, classes, weights } => {
            let choice = choose_glm(k, labels, classes, weights, &lambdas, &held_out, job)?;
            let glm = GlmSettings::new(choice.lambda);
            let glm = Glm::fit(k, labels, classes, weights, None, &glm, job)?;
            Ok(Surrogate { machine: Machine::Glm(glm), choice })
        }
        Target::Network(logits) => {
            let choice = choose_ridge(k, logits, &lambdas, &held_out)?;
            let ridge = RidgeFit::new(k, logits, choice.lambda)?;
            Ok(Surrogate { machine: Machine::Ridge(ridge), choice })
        }
    }
}

/// Rows held out at random, but never the last row of a class.
fn held_out(n: usize, target: &Target<'_>, settings: &FitSettings) -> Vec<usize> {
    let wanted = ((n as f64 * settings.held_out).round() as usize).max(1);
    let stream = Stream::new(settings.seed, "surrogate/held-out");
    let mut order: Vec<(u64, usize)> =
        (0..n).map(|i| (stream.at(0, i as u64).integer(0), i)).collect();
    order.sort_unstable();
    let mut left = match target {
        Target::Labels { labels, classes, .. } => {
            let mut counts = vec![0usize; *classes];
            for &y in *labels {
                if let Some(count) = counts.get_mut(y as usize) {
                    *count += 1;
                }
            }
            counts
        }
        Target::Network(_) => vec![n],
    };
    let class = |i: usize| match target {
        Target::Labels { labels, .. } => labels.get(i).map_or(0, |&y| y as usize),
        Target::Network(_) => 0,
    };
    let mut taken = Vec::with_capacity(wanted);
    for (_, i) in order {
        if taken.len() < wanted && left.get(class(i)).is_some_and(|&rows| rows > 1) {
            left[class(i)] -= 1;
            taken.push(i);
        }
    }
    taken.sort_unstable();
    taken
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::surrogate::faithfulness::{faithfulness, largest};

    /// A linear "network" on its own features: fitted to the network, the surrogate is the network.
    #[test]
    fn a_network_in_the_space_of_the_kernel_is_reproduced() {
        let (n, q, dim, classes) = (80, 40, 5, 3);
        let mut drawn = vec![0.0; (n + q) * dim + dim * classes];
        let seed = Seed::new(1).unwrap();
        Stream::new(seed, "test/surrogate").at(0, 0).fill_normals(&mut drawn);
        let (x, w) = drawn.split_at((n + q) * dim);
        let logits: Vec<f64> = x
            .chunks(dim)
            .flat_map(|x| {
                w.chunks(dim).map(move |w| x.iter().zip(w).map(|(x, w)| x * w).sum::<f64>())
            })
            .collect();
        let kernel = |a: &[f64]| -> Vec<f32> {
            let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
            let rows = a.chunks(dim);
            rows.flat_map(|a| x[..n * dim].chunks(dim).map(move |b| dot(a, b) as f32)).collect()
        };
        let (train, queries) = (kernel(&x[..n * dim]), kernel(&x[n * dim..]));
        let (train, queries) = (Rows::new(&train, n).unwrap(), Rows::new(&queries, n).unwrap());
        let labels: Vec<u32> = logits.chunks(classes).map(largest).collect();
        let (of_train, of_queries) = logits.split_at(n * classes);
        let target = Target::Network(Rows::new(of_train, classes).unwrap());
        let job = Job::silent();
        let fitted = fit(train, target, &FitSettings::network(seed), &job).unwrap();
        let compare = |fitted: &Surrogate| {
            let got = fitted.logits(queries).unwrap();
            let network = Rows::new(of_queries, classes).unwrap();
            faithfulness(network, Rows::new(&got, classes).unwrap(), &labels[n..]).unwrap()
        };
        let to_network = compare(&fitted);
        assert!(to_network.tau.correct_class.unwrap().value > 0.99, "{to_network:?}");
        let target = Target::Labels { labels: &labels[..n], classes, weights: None };
        let to_labels = compare(&fit(train, target, &FitSettings::labels(seed), &job).unwrap());
        let tau = to_labels.tau.correct_class.unwrap().value;
        assert!(tau > 0.4 && tau < 0.95, "{to_labels:?}");
        assert!(to_labels.divergence.value > to_network.divergence.value);
    }

    #[test]
    fn every_class_keeps_a_row() {
        let labels = [0, 1, 1, 1, 2, 1, 1, 1, 1, 1];
        let target = Target::Labels { labels: &labels, classes: 3, weights: None };
        let settings = FitSettings { held_out: 0.9, ..FitSettings::labels(Seed::new(0).unwrap()) };
        let taken = held_out(10, &target, &settings);
        assert_eq!(taken.len(), 7);
        assert!(!taken.contains(&0) && !taken.contains(&4));
    }
}
