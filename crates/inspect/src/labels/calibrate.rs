//! How far to trust a list of suspects: flips planted in known rows, and what share of them each length of the list has found.
//!
//! Let R(s) be the share of planted flips with a score of at least s, N(s) the number of other rows there, and E an estimate of the
//! number of real errors. If real errors score as planted ones do, E R(s) of the N(s) are real: the precision is min(1, E R / N).
//! Real errors are rarely uniform over classes and are often harder to see, so this is the optimistic end.

use serde::Serialize;
use veridical_core::{Error, Estimate, Result, Seed, Stream};

use super::Suspect;

/// Labels some of which were flipped.
#[derive(Clone, Debug, PartialEq)]
pub struct Planted {
    /// All labels, the flipped ones among them.
    pub labels: Vec<u32>,
    /// The flipped rows, in order.
    pub rows: Vec<u32>,
}

/// A length of the list with what it finds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CurvePoint {
    /// Rows listed that were not planted.
    pub listed: u64,
    /// The score of the last of them.
    pub score: f64,
    /// The share of planted flips found so far.
    pub recall: Estimate,
    /// The share of the listed rows that are wrong, if real errors score as planted ones.
    pub precision: f64,
}

/// A list of suspects checked on planted flips.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Calibration {
    /// The number of planted flips.
    pub planted: u64,
    /// The average precision of the list for the planted flips alone, against all other rows.
    pub average_precision: f64,
    /// Points of the curve, shortest list first.
    pub curve: Vec<CurvePoint>,
}

/// Flips a share of the labels to another class, rows and classes at random.
///
/// # Errors
/// [`Error::Setting`] for a share outside (0, 1) or that rounds to no row, [`Error::Unfit`] for fewer than two classes.
pub fn plant(labels: &[u32], classes: usize, share: f64, seed: Seed) -> Result<Planted> {
    if classes < 2 {
        let what = format!("labels of {classes} classes cannot be flipped");
        return Err(Error::unfit(what, "at least two classes are needed"));
    }
    let count = (labels.len() as f64 * share).round() as usize;
    if !(share > 0.0 && share < 1.0) || count == 0 {
        return Err(Error::setting("calibrate", "a share of at least one row, below 1", share));
    }
    let stream = Stream::new(seed, "labels/planted");
    let mut order: Vec<(u64, u32)> =
        (0..labels.len() as u32).map(|i| (stream.at(0, u64::from(i)).integer(0), i)).collect();
    order.sort_unstable();
    let mut rows: Vec<u32> = order.into_iter().take(count).map(|(_, i)| i).collect();
    rows.sort_unstable();
    let mut flipped = labels.to_vec();
    for &row in &rows {
        let label = &mut flipped[row as usize];
        // One of the other classes, each as likely.
        let step = 1 + stream.at(1, u64::from(row)).draws().below(classes as u32 - 1);
        *label = (*label + step) % classes as u32;
    }
    Ok(Planted { labels: flipped, rows })
}

/// Measures a ranked list of suspects, found on labels with planted flips, at lists of 1, 2, 5, 10, 20, 50, .. rows.
///
/// `real` is the estimated number of real errors among the rows that were not flipped.
pub fn calibrate(ranked: &[Suspect], planted: &Planted, real: f64) -> Calibration {
    let is_planted = |row: u32| planted.rows.binary_search(&row).is_ok();
    let total = planted.rows.len() as u64;
    let (mut found, mut listed, mut curve) = (0, 0, Vec::new());
    let mut next = lengths();
    let mut wanted = next.next();
    let last = ranked.len() as u64 - total;
    for suspect in ranked {
        if is_planted(suspect.row) {
            found += 1;
            continue;
        }
        listed += 1;
        if wanted == Some(listed) || listed == last {
            let recall = Estimate::share(found, total);
            let precision = (real * recall.value / listed as f64).min(1.0);
            curve.push(CurvePoint { listed, score: suspect.score, recall, precision });
            wanted = next.next();
        }
    }
    let truth = ranked.iter().map(|s| is_planted(s.row));
    Calibration { planted: total, average_precision: average_precision(truth), curve }
}

/// 1, 2, 5, 10, 20, 50, ..
fn lengths() -> impl Iterator<Item = u64> {
    (0..18).flat_map(|power| [1, 2, 5].map(|x| x * 10u64.pow(power)))
}

/// Returns the average precision of a ranking, best first: the mean over the relevant rows of the share of relevant rows up to each;
/// NaN if none is relevant.
///
/// ```
/// use veridical_inspect::labels::average_precision;
///
/// assert_eq!(average_precision([true, false, true]), (1.0 + 2.0 / 3.0) / 2.0);
/// ```
pub fn average_precision(relevant: impl IntoIterator<Item = bool>) -> f64 {
    let (mut found, mut sum) = (0.0, 0.0);
    for (rank, is_relevant) in (1..).zip(relevant) {
        if is_relevant {
            found += 1.0;
            sum += found / f64::from(rank);
        }
    }
    sum / found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labels::{confident_joint, left_out_scores, one_hot, suspects};
    use veridical_core::Rows;
    use veridical_kernels::machine::Ridge;

    /// Classes as Gaussian clouds three standard deviations apart, rows with a linear kernel and its square.
    fn clouds(n: usize, classes: usize) -> (Vec<f32>, Vec<u32>) {
        let dim = classes;
        let mut x = vec![0.0; n * dim];
        let stream = Stream::new(Seed::new(2).unwrap(), "test/labels");
        stream.at(0, 0).fill_normals(&mut x);
        let labels: Vec<u32> = (0..n).map(|i| (i % classes) as u32).collect();
        for (x, &y) in x.chunks_mut(dim).zip(&labels) {
            x[y as usize] += 4.0;
        }
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let cosine = |a: &[f64], b: &[f64]| dot(a, b) / (dot(a, a) * dot(b, b)).sqrt();
        let k = x.chunks(dim).flat_map(|a| x.chunks(dim).map(move |b| cosine(a, b) as f32));
        (k.collect(), labels)
    }

    #[test]
    fn planted_flips_are_found_and_counted() {
        let (n, classes) = (400, 4);
        let (k, labels) = clouds(n, classes);
        let planted = plant(&labels, classes, 0.1, Seed::new(4).unwrap()).unwrap();
        assert_eq!(planted.rows.len(), 40);
        for (i, (a, b)) in labels.iter().zip(&planted.labels).enumerate() {
            assert_eq!(a != b, planted.rows.contains(&(i as u32)));
        }
        let y = one_hot(&planted.labels, classes).unwrap();
        let ridge =
            Ridge::fit(Rows::new(&k, n).unwrap(), Rows::new(&y, classes).unwrap(), 1.0, None);
        let ridge = ridge.unwrap();
        let scores = left_out_scores(&ridge, &y);
        for row in scores.chunks(classes) {
            assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        }
        let scores = Rows::new(&scores, classes).unwrap();
        let ranked = suspects(scores, &planted.labels);
        let found = average_precision(ranked.iter().map(|s| planted.rows.contains(&s.row)));
        assert!(found > 0.9, "{found}");
        let right = ranked.iter().filter(|s| planted.rows.contains(&s.row));
        let right = right.filter(|s| s.suggested == labels[s.row as usize]).count();
        assert!(right >= 36, "{right} of 40 true labels suggested");
        let joint = confident_joint(scores, &planted.labels);
        assert!((30.0..60.0).contains(&joint.estimate), "{}", joint.estimate);
        // Another fit of the same matrix: the true labels, by a product.
        let clean = one_hot(&labels, classes).unwrap();
        let again = ridge.with_targets(Rows::new(&clean, classes).unwrap()).unwrap();
        let scores = left_out_scores(&again, &clean);
        let joint = confident_joint(Rows::new(&scores, classes).unwrap(), &labels);
        assert!(joint.estimate < 15.0, "{}", joint.estimate);
    }

    /// The precision of a list with real errors, estimated from planted ones, is near the true one.
    #[test]
    fn the_calibrated_precision_is_near_the_true_one() {
        let (n, classes) = (800, 4);
        let (k, truth) = clouds(n, classes);
        let real = plant(&truth, classes, 0.08, Seed::new(1).unwrap()).unwrap();
        let planted = plant(&real.labels, classes, 0.05, Seed::new(2).unwrap()).unwrap();
        let y = one_hot(&planted.labels, classes).unwrap();
        let y = Rows::new(&y, classes).unwrap();
        let ridge = Ridge::fit(Rows::new(&k, n).unwrap(), y, 1.0, None).unwrap();
        let scores = left_out_scores(&ridge, y.values());
        let ranked = suspects(Rows::new(&scores, classes).unwrap(), &planted.labels);
        let got = calibrate(&ranked, &planted, 61.0);
        assert_eq!(got.planted, 40);
        assert_eq!(got.curve.last().unwrap().listed, 760);
        assert_eq!(got.curve.last().unwrap().recall.value, 1.0);
        let at = got.curve.iter().find(|point| point.listed == 50).unwrap();
        let others = ranked.iter().filter(|s| !planted.rows.contains(&s.row)).take(50);
        let true_share = others.filter(|s| real.rows.contains(&s.row)).count() as f64 / 50.0;
        // Four binomial errors of a share of 40 planted rows and of 50 listed ones: at most 4 sqrt(0.25 / 40 + 0.25 / 50).
        assert!((at.precision - true_share).abs() < 0.42, "{} {true_share}", at.precision);
        assert!(at.precision > 0.6 && true_share > 0.6, "{} {true_share}", at.precision);
    }

    #[test]
    fn what_cannot_be_flipped_or_scored_is_refused() {
        let seed = Seed::new(0).unwrap();
        assert!(plant(&[0, 0], 1, 0.5, seed).unwrap_err().to_string().contains("1 classes"));
        let message = plant(&[0, 1], 2, 0.01, seed).unwrap_err().to_string();
        assert_eq!(message, "⟨calibrate⟩ must be a share of at least one row, below 1, got 0.01");
        let message = one_hot(&[0, 1, 1], 2).unwrap_err().to_string();
        assert!(message.starts_with("class 0 has fewer than two training rows"), "{message}");
    }
}
