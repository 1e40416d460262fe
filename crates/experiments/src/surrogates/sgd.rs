//! Paper 004's fit of a kernel machine: scikit-learn's `SGDClassifier(loss="log_loss", alpha=.., class_weight="balanced")` on the rows of
//! a Gram matrix as features, one class against the others.
//!
//! min over w, b  (1/n) sum_i c_i ln(1 + exp(-y_i (w·k_i + b))) + (alpha / 2) |w|^2
//!
//! by steps on one row at a time, in a new order in every epoch:
//!   eta_t = 1 / (alpha (t_0 + t)),  t_0 = 1 / (alpha eta_0),  eta_0 = s / max(1, |loss'(-s)|),  s = alpha^(-1/4)   (Bottou 2012)
//!   w <- (1 - eta alpha) w - eta c_i loss'_i k_i,  b <- b - eta c_i loss'_i
//! It ends when the sum of losses has not fallen by 1e-3 n below the smallest in five epochs, or after 1,000 epochs. The penalty is
//! |w|^2, not the norm in the space of the kernel, and the minimum is not reached.

use veridical::Result;
use veridical_core::{Job, Order, Rows, Seed};
use veridical_kernels::machine::product;

/// The order of the rows of an epoch.
const ORDER: &str = "surrogates/sgd";
const TOLERANCE: f64 = 1e-3;
const PATIENCE: u32 = 5;
const EPOCHS: u32 = 1000;
/// Partial sums of an inner product, which the compiler turns into vectors.
const LANES: usize = 16;

/// Returns the logits of queries by machines fitted to the labels: a row of one value per class; for two classes 0 and the logit of class 1.
pub fn logits(
    k: Rows<'_, f32>,
    labels: &[u32],
    classes: usize,
    alpha: f64,
    queries: Rows<'_, f32>,
    seed: Seed,
    job: &Job<'_>,
) -> Result<Vec<f64>> {
    let machines = if classes == 2 { 1..2 } else { 0..classes as u32 };
    let mut scores = vec![0.0; queries.n() * classes];
    for class in machines {
        job.check()?;
        let y: Vec<bool> = labels.iter().map(|&label| label == class).collect();
        let (w, b) = one(k, &y, alpha, seed);
        let of_class = scores.iter_mut().skip(class as usize).step_by(classes);
        of_class.zip(product(queries, &w, 1)).for_each(|(s, f)| *s = f + b);
    }
    Ok(scores)
}

fn one(k: Rows<'_, f32>, y: &[bool], alpha: f64, seed: Seed) -> (Vec<f64>, f64) {
    let n = y.len();
    let positive = y.iter().filter(|y| **y).count() as f64;
    let balance = |count: f64| n as f64 / (2.0 * count.max(1.0));
    let (above, below) = (balance(positive), balance(n as f64 - positive));
    let s = alpha.powf(-0.25);
    let eta_0 = s / slope(-s, 1.0).abs().max(1.0);
    let t_0 = 1.0 / (alpha * eta_0);
    // w = scale v.
    let (mut v, mut scale, mut b, mut t) = (vec![0.0f32; n], 1.0f64, 0.0f64, 0.0f64);
    let (mut best, mut waited) = (f64::INFINITY, 0);
    for epoch in 0..EPOCHS {
        let order = Order::new(n as u64, seed, ORDER, epoch);
        let mut loss = 0.0;
        for position in 0..n as u64 {
            let i = order.at(position) as usize;
            let (row, sign) = (k.row(i), if y[i] { 1.0 } else { -1.0 });
            let p = scale * dot(&v, row) + b;
            loss += softplus(-sign * p);
            let eta = 1.0 / (alpha * (t_0 + t));
            let step = -eta * slope(p, sign) * if y[i] { above } else { below };
            scale *= (1.0 - eta * alpha).max(0.0);
            if scale < 1e-9 {
                v.iter_mut().for_each(|v| *v = (f64::from(*v) * scale) as f32);
                scale = 1.0;
            }
            let by = (step / scale) as f32;
            v.iter_mut().zip(row).for_each(|(v, k)| *v += by * k);
            b += step;
            t += 1.0;
        }
        waited = if loss > best - TOLERANCE * n as f64 { waited + 1 } else { 0 };
        best = best.min(loss);
        if waited >= PATIENCE {
            break;
        }
    }
    (v.into_iter().map(|v| f64::from(v) * scale).collect(), b)
}

/// The derivative of ln(1 + exp(-y p)) by p.
fn slope(p: f64, y: f64) -> f64 {
    -y / (1.0 + (y * p).exp())
}

fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    let mut lanes = [0.0f32; LANES];
    let (a, b) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest = a.remainder().iter().zip(b.remainder());
    let rest: f64 = rest.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
    for (a, b) in a.zip(b) {
        lanes.iter_mut().zip(a).zip(b).for_each(|((sum, a), b)| *sum += a * b);
    }
    rest + lanes.iter().map(|sum| f64::from(*sum)).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use veridical_core::Stream;
    use veridical_kernels::machine::{Glm, GlmSettings, Penalty, balanced_weights};

    use super::*;

    /// Separated classes are told apart, and the objective ends within a tenth of its minimum, which the kGLM with this penalty has.
    #[test]
    fn stochastic_steps_come_close_to_the_minimum() {
        let (n, dim, alpha) = (200, 4, 1e-2);
        let mut x = vec![0.0; n * dim];
        let seed = Seed::new(2).unwrap();
        Stream::new(seed, "test/sgd").at(0, 0).fill_normals(&mut x);
        let labels: Vec<u32> = (0..n as u32).map(|i| i % 2).collect();
        x.chunks_mut(dim).zip(&labels).for_each(|(x, &y)| x[0] += 2.0 * f64::from(y));
        let unit = |x: &[f64]| x.iter().map(|x| x * x).sum::<f64>().sqrt();
        let cosine = |a: &[f64], b: &[f64]| {
            a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>() / (unit(a) * unit(b))
        };
        let k: Vec<f32> =
            x.chunks(dim).flat_map(|a| x.chunks(dim).map(move |b| cosine(a, b) as f32)).collect();
        let k = Rows::new(&k, n).unwrap();
        let y: Vec<bool> = labels.iter().map(|y| *y == 1).collect();
        let (w, b) = one(k, &y, alpha, seed);
        let objective = |w: &[f64], b: f64| {
            let f = product(k, w, 1);
            let loss = f.iter().zip(&y).map(|(f, y)| softplus(if *y { -f - b } else { f + b }));
            loss.sum::<f64>() / n as f64 + alpha / 2.0 * w.iter().map(|w| w * w).sum::<f64>()
        };
        // Two columns of a multinomial fit: half of the difference has twice the penalty per column.
        let weights = balanced_weights(&labels, 2);
        let settings = GlmSettings::new(2.0 * alpha);
        let job = Job::silent();
        let fit = Glm::fit_penalized(
            k,
            &labels,
            2,
            weights.as_deref(),
            Penalty::Weights,
            &settings,
            &job,
        );
        let fit = fit.unwrap();
        let best: Vec<f64> = fit.alpha().chunks(2).map(|a| a[1] - a[0]).collect();
        let minimum = objective(&best, fit.intercepts()[1] - fit.intercepts()[0]);
        let got = objective(&w, b);
        assert!(got < 1.1 * minimum && got >= minimum - 1e-6, "{got} {minimum}");
        let scores = logits(k, &labels, 2, alpha, k, seed, &job).unwrap();
        let right = scores.chunks(2).zip(&labels).filter(|(s, y)| (s[1] > 0.0) == (**y == 1));
        assert!(right.count() > 160);
    }
}
