//! Classification scores.

/// Returns the fraction of correct predictions.
///
/// ```
/// assert_eq!(veridical_inspect::stability::accuracy(&[0, 1, 1, 2], &[0, 1, 2, 2]), 0.75);
/// ```
pub fn accuracy(truth: &[u32], answer: &[u32]) -> f64 {
    let right = truth.iter().zip(answer).filter(|(a, b)| a == b).count();
    right as f64 / truth.len() as f64
}

/// Returns the mean F1 = 2 tp / (2 tp + fp + fn) over the classes that occur among labels or predictions.
pub fn macro_f1(truth: &[u32], answer: &[u32], classes: usize) -> f64 {
    let mut counts = vec![[0.0; 3]; classes]; // right, true, answered
    for (&truth, &answer) in truth.iter().zip(answer) {
        counts[truth as usize][1] += 1.0;
        counts[answer as usize][2] += 1.0;
        counts[truth as usize][0] += f64::from(u8::from(truth == answer));
    }
    let seen = counts.iter().filter(|[_, truth, answered]| truth + answered > 0.0);
    let (sum, n) = seen.fold((0.0, 0.0), |(sum, n), [right, truth, answered]| {
        (sum + 2.0 * right / (truth + answered), n + 1.0)
    });
    sum / n
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `sklearn.metrics.f1_score([0, 0, 1, 1, 2], [0, 1, 1, 1, 0], average="macro")`.
    #[test]
    fn scores_are_those_of_scikit_learn() {
        let (truth, answer) = ([0, 0, 1, 1, 2], [0, 1, 1, 1, 0]);
        assert!((macro_f1(&truth, &answer, 4) - 0.433_333_333_333_333_3).abs() < 1e-15);
        assert!((accuracy(&truth, &answer) - 0.6).abs() < 1e-15);
    }
}
