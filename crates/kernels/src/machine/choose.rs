//! The penalty lambda by the loss on held-out training rows, largest lambda first.
//!
//! labels     cross-entropy of the labels under [`Glm`], every fit started at the one before
//! network    KL(q | p) of the probabilities q of the network's logits and p of the ridge's, the squared error for one output; a Cholesky
//!            factor for every penalty: at n = 5,000 an eigendecomposition takes ten times as long as six of them
//!
//! Queries never take part: a penalty chosen on them would flatter every score computed on them.

use rayon::prelude::*;
use serde::Serialize;
use veridical_core::{Error, Job, Result, Rows};

use super::glm::{Glm, GlmSettings, check_labels, checked_weights};
use super::product::{check_gram, submatrix};
use super::ridge::RidgeFit;
use super::softmax::log_sum_exp;

/// A penalty with the held-out losses of all candidates.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Choice {
    /// The candidate with the smallest loss; the larger one on ties.
    pub lambda: f64,
    /// Candidates with their mean held-out loss, largest lambda first.
    pub losses: Vec<(f64, f64)>,
    /// Whether the choice is the smallest or largest candidate, so that a better one may lie beyond.
    pub at_end: bool,
}

/// Splits rows into fitted and held-out ones.
struct Parts<'a> {
    k: Rows<'a, f32>,
    fitted: Vec<usize>,
    held_out: &'a [usize],
}

impl<'a> Parts<'a> {
    fn new(k: Rows<'a, f32>, rows: usize, held_out: &'a [usize]) -> Result<Self> {
        let n = check_gram(k, rows, "targets")?;
        let mut is_held_out = vec![false; n];
        for &i in held_out {
            if i >= n || std::mem::replace(&mut is_held_out[i], true) {
                let what = format!("held-out row {i} is not one of {n} rows, or is there twice");
                return Err(Error::unfit(what, ""));
            }
        }
        let fitted: Vec<usize> = (0..n).filter(|&i| !is_held_out[i]).collect();
        if held_out.is_empty() || fitted.len() < 2 {
            let what = format!("{} held-out rows of {n} leave nothing to compare", held_out.len());
            return Err(Error::unfit(what, "hold out some rows, and fit to at least two"));
        }
        Ok(Self { k, fitted, held_out })
    }

    fn gram(&self) -> Vec<f32> {
        submatrix(self.k, &self.fitted, &self.fitted)
    }

    fn queries(&self) -> Vec<f32> {
        submatrix(self.k, self.held_out, &self.fitted)
    }
}

fn falling(lambdas: &[f64]) -> Vec<f64> {
    let mut sorted = lambdas.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    sorted.dedup();
    sorted
}

fn choice(losses: Vec<(f64, f64)>) -> Result<Choice> {
    let best = losses.iter().enumerate().filter(|(_, loss)| loss.1.is_finite());
    let Some((at, &(lambda, _))) = best.min_by(|a, b| a.1.1.total_cmp(&b.1.1)) else {
        return Err(Error::unfit("no penalty gives a finite held-out loss", "add a larger one"));
    };
    let at_end = losses.len() > 1 && (at == 0 || at + 1 == losses.len());
    Ok(Choice { lambda, losses, at_end })
}

/// Chooses lambda of a [`Glm`] by the cross-entropy of the labels of held-out training rows.
///
/// # Errors
/// As [`Glm::fit`], and [`Error::Unfit`] for held-out rows that do not exist or leave nothing to fit.
pub fn choose_glm(
    k: Rows<'_, f32>,
    labels: &[u32],
    classes: usize,
    weights: Option<&[f64]>,
    lambdas: &[f64],
    held_out: &[usize],
    job: &Job<'_>,
) -> Result<Choice> {
    check_labels(labels, classes)?;
    let weights = checked_weights(weights, labels.len())?;
    let parts = Parts::new(k, labels.len(), held_out)?;
    let (gram, queries, n) = (parts.gram(), parts.queries(), parts.fitted.len());
    let y: Vec<u32> = parts.fitted.iter().map(|&i| labels[i]).collect();
    let w: Vec<f64> = parts.fitted.iter().map(|&i| weights[i]).collect();
    let (gram, queries) = (Rows::new(&gram, n)?, Rows::new(&queries, n)?);
    let mut losses = Vec::new();
    let mut start: Option<Glm> = None;
    for lambda in falling(lambdas) {
        let settings = GlmSettings { tolerance: 1e-5, ..GlmSettings::new(lambda) };
        let fit = Glm::fit(gram, &y, classes, Some(&w), start.as_ref(), &settings, job)?;
        let scores = fit.predict(queries)?;
        let (mut loss, mut total) = (0.0, 0.0);
        for (s, &i) in scores.chunks_exact(classes).zip(held_out) {
            loss += weights[i] * (log_sum_exp(s) - s[labels[i] as usize]);
            total += weights[i];
        }
        losses.push((lambda, loss / total));
        start = Some(fit);
    }
    choice(losses)
}

/// Penalties that are tried at the same time: as many factors are held.
const AT_ONCE: usize = 2;

/// Chooses lambda of a ridge on a network's outputs by KL(network | ridge) on held-out training rows; by the squared error if there is
/// one output.
///
/// # Errors
/// As [`RidgeFit::new`], and [`Error::Unfit`] for held-out rows that do not exist or leave nothing to fit.
pub fn choose_ridge(
    k: Rows<'_, f32>,
    logits: Rows<'_, f64>,
    lambdas: &[f64],
    held_out: &[usize],
) -> Result<Choice> {
    let parts = Parts::new(k, logits.n(), held_out)?;
    let (gram, queries, n) = (parts.gram(), parts.queries(), parts.fitted.len());
    let outputs = logits.dim();
    let y: Vec<f64> = parts.fitted.iter().flat_map(|&i| logits.row(i).to_vec()).collect();
    let (gram, queries, y) =
        (Rows::new(&gram, n)?, Rows::new(&queries, n)?, Rows::new(&y, outputs)?);
    let loss = |&lambda: &f64| -> Result<(f64, f64)> {
        let fit = match RidgeFit::new(gram, y, lambda) {
            // The factor may fail for the smallest penalties only.
            Err(Error::Unfit { .. }) if lambdas.iter().any(|other| *other > lambda) => {
                return Ok((lambda, f64::NAN));
            }
            fit => fit?,
        };
        let scores = fit.predict(queries)?;
        let each = scores.chunks_exact(outputs).zip(held_out);
        let sum: f64 = each
            .map(|(s, &i)| match outputs {
                1 => (logits.row(i)[0] - s[0]).powi(2),
                _ => divergence(logits.row(i), s),
            })
            .sum();
        Ok((lambda, sum / held_out.len() as f64))
    };
    let mut losses = Vec::new();
    for some in falling(lambdas).chunks(AT_ONCE) {
        losses.extend(some.par_iter().map(loss).collect::<Result<Vec<_>>>()?);
    }
    choice(losses)
}

/// KL(softmax(a) | softmax(b)).
fn divergence(a: &[f64], b: &[f64]) -> f64 {
    let (log_a, log_b) = (log_sum_exp(a), log_sum_exp(b));
    a.iter().zip(b).map(|(a, b)| (a - log_a).exp() * ((a - log_a) - (b - log_b))).sum()
}

#[cfg(test)]
mod tests {
    use super::super::product::testing::{features, gram, normals};
    use super::*;

    /// Labels that are linear in the features but for noise: a penalty in between beats none and all.
    #[test]
    fn a_penalty_in_between_is_chosen_for_noisy_labels() {
        let (n, dim) = (120, 8);
        let x: Vec<f32> = normals(n * dim, 8).iter().map(|&x| x as f32).collect();
        let noise = normals(n, 9);
        let label = |(x, z): (&[f32], &f64)| u32::from(f64::from(x[0]) + z > 0.0);
        let y: Vec<u32> = x.chunks(dim).zip(&noise).map(label).collect();
        let k = gram(&x, &x, dim);
        let held_out: Vec<usize> = (0..n).step_by(3).collect();
        let k = Rows::new(&k, n).unwrap();
        let lambdas = [1e-6, 1e-3, 1e-1, 1.0, 1e4];
        let got = choose_glm(k, &y, 2, None, &lambdas, &held_out, &Job::silent()).unwrap();
        assert!(!got.at_end && got.losses.len() == 5, "{got:?}");
        assert!(got.losses.windows(2).all(|w| w[0].0 > w[1].0));
        // With nothing but the intercept the loss is about ln 2.
        assert!((got.losses[0].1 - 2f64.ln()).abs() < 0.05, "{got:?}");
    }

    /// Logits that the kernel can represent: the less penalty the nearer.
    #[test]
    fn the_smallest_penalty_is_chosen_where_the_kernel_is_right() {
        let (n, dim) = (60, 3);
        let x = features(n, dim, 0);
        let logits: Vec<f64> =
            x.chunks(dim).flat_map(|x| [f64::from(x[0] - x[1]), f64::from(x[2])]).collect();
        let k = gram(&x, &x, dim);
        let held_out = [3, 17, 40, 41];
        let (k, logits) = (Rows::new(&k, n).unwrap(), Rows::new(&logits, 2).unwrap());
        let got = choose_ridge(k, logits, &[1e-4, 1.0, 100.0], &held_out).unwrap();
        assert_eq!((got.lambda, got.at_end), (1e-4, true));
        assert!(got.losses[2].1 < 1e-9, "{got:?}");
        let none = choose_ridge(k, logits, &[1.0], &[]).unwrap_err().to_string();
        assert!(none.starts_with("0 held-out rows of 60"), "{none}");
    }

    #[test]
    fn equal_logits_do_not_diverge() {
        assert_eq!(divergence(&[1.0, 2.0], &[1.0, 2.0]), 0.0);
        assert!(divergence(&[1.0, 2.0], &[4.0, 5.0]).abs() < 1e-15);
        // Half and half against 3/4 and 1/4: ln 2 - ln(3) / 2 - ... = -ln(sqrt(3) / 2).
        let want = -(3f64.sqrt() / 2.0).ln();
        assert!((divergence(&[0.0, 0.0], &[3f64.ln(), 0.0]) - want).abs() < 1e-15);
    }
}
