//! About how many labels are wrong: the confident joint (Northcutt, Jiang & Chuang 2021) of predictions that no row took part in.
//!
//! Threshold t_c is the mean prediction of class c over the rows labeled c. A row labeled y counts in C_yc for the largest of the
//! classes whose prediction reaches its threshold, if any. Rows of C are scaled to the class sizes, Q_yc = n_y C_yc / sum_c C_yc, and
//! the number of wrong labels is the sum off the diagonal. Predictions need the right order within a class only, not calibration.

use serde::Serialize;
use veridical_core::Rows;

/// The confident joint of labels and predictions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ConfidentJoint {
    /// t_c per class.
    pub thresholds: Vec<f64>,
    /// C, one row per label.
    pub counts: Vec<Vec<u64>>,
    /// About how many rows of every label are wrong.
    pub wrong: Vec<f64>,
    /// About how many labels are wrong in all.
    pub estimate: f64,
}

/// Counts labels against predictions, rows of one value per class.
///
/// # Panics
/// If there is not one row of predictions per label, or a label has no column.
pub fn confident_joint(predictions: Rows<'_, f64>, labels: &[u32]) -> ConfidentJoint {
    let classes = predictions.dim();
    assert_eq!(predictions.n(), labels.len(), "one row of predictions per label");
    let (mut sums, mut sizes) = (vec![0.0; classes], vec![0u64; classes]);
    for (p, &y) in predictions.iter().zip(labels) {
        sums[y as usize] += p[y as usize];
        sizes[y as usize] += 1;
    }
    // A class without rows has no threshold that could be reached.
    let thresholds: Vec<f64> = sums.iter().zip(&sizes).map(|(sum, &n)| sum / n as f64).collect();
    let mut counts = vec![vec![0u64; classes]; classes];
    for (p, &y) in predictions.iter().zip(labels) {
        let reached = (0..classes).filter(|&c| p[c] >= thresholds[c]);
        if let Some(class) = reached.max_by(|&a, &b| p[a].total_cmp(&p[b]).then(b.cmp(&a))) {
            counts[y as usize][class] += 1;
        }
    }
    let wrong = |(y, counts): (usize, &Vec<u64>)| {
        let counted: u64 = counts.iter().sum();
        let off = (counted - counts[y]) as f64;
        if counted == 0 { 0.0 } else { sizes[y] as f64 * off / counted as f64 }
    };
    let wrong: Vec<f64> = counts.iter().enumerate().map(wrong).collect();
    let estimate = wrong.iter().sum();
    ConfidentJoint { thresholds, counts, wrong, estimate }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// cleanlab's own definition by hand: thresholds 0.6 and 0.8.
    #[test]
    fn the_joint_counts_confident_rows() {
        let p = [0.9, 0.1, 0.8, 0.2, 0.1, 0.9, 0.15, 0.85, 0.4, 0.6, 0.05, 0.95];
        let labels = [0, 0, 0, 1, 1, 1];
        let got = confident_joint(Rows::new(&p, 2).unwrap(), &labels);
        assert!((got.thresholds[0] - 0.6).abs() < 1e-12);
        assert!((got.thresholds[1] - 0.8).abs() < 1e-12);
        // Row 4 (0.4, 0.6) reaches no threshold.
        assert_eq!(got.counts, [[2, 1], [0, 2]]);
        assert_eq!((got.wrong.clone(), got.estimate), (vec![1.0, 0.0], 1.0));
    }
}
