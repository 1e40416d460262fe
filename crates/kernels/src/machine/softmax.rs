//! Probabilities from logits: p_c = exp(s_c - L), L = ln sum_c exp s_c, computed from the largest logit down.

/// Returns ln sum_c exp(s_c); minus infinity for no values.
pub fn log_sum_exp(scores: &[f64]) -> f64 {
    let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if top == f64::NEG_INFINITY {
        return top;
    }
    top + scores.iter().map(|s| (s - top).exp()).sum::<f64>().ln()
}

/// Returns the probabilities of rows of `classes` logits.
///
/// ```
/// let p = veridical_kernels::machine::softmax(&[0.0, 0.0, 1e4, 0.0], 2);
/// assert_eq!(p, [0.5, 0.5, 1.0, 0.0]);
/// ```
pub fn softmax(scores: &[f64], classes: usize) -> Vec<f64> {
    let mut p = scores.to_vec();
    for row in p.chunks_exact_mut(classes) {
        let sum = log_sum_exp(row);
        row.iter_mut().for_each(|s| *s = (*s - sum).exp());
    }
    p
}
