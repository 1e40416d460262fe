use proptest::prelude::*;
use veridical_core::{Seed, Stream};

use super::lbfgs::Smooth;
use super::*;
use crate::{LinearMap, orthonormal};

fn normals(n: usize, at: u64) -> Vec<f64> {
    let mut x = vec![0.0; n];
    Stream::new(Seed::new(8).unwrap(), "test/logistic").at(0, at).fill_normals(&mut x);
    x
}

fn table(n: usize, dim: usize, at: u64) -> Vec<f32> {
    normals(n * dim, at).iter().map(|&x| x as f32).collect()
}

/// Labels from planted scores with noise.
fn labels(rows: &[f32], dim: usize, classes: usize, at: u64) -> Vec<u32> {
    let planted = normals(classes * dim, at);
    let noise = normals(rows.len() / dim * classes, at + 1);
    let score = |i: usize, k: usize| -> f64 {
        let (x, w) = (&rows[i * dim..][..dim], &planted[k * dim..][..dim]);
        x.iter().zip(w).map(|(&x, w)| f64::from(x) * w).sum::<f64>() + noise[i * classes + k]
    };
    let best =
        |i| (0..classes).max_by(|&a, &b| score(i, a).total_cmp(&score(i, b))).unwrap() as u32;
    (0..rows.len() / dim).map(best).collect()
}

/// The objective by its definition.
fn objective(rows: &[f32], labels: &[u32], fit: &Logistic, c: f64) -> f64 {
    let n = labels.len() as f64;
    let scores = fit.scores(rows);
    let loss =
        |(s, &y): (&[f64], &u32)| s.iter().map(|s| s.exp()).sum::<f64>().ln() - s[y as usize];
    let data: f64 = scores.chunks(fit.intercepts.len()).zip(labels).map(loss).sum();
    data / n + fit.weights.iter().map(|w| w * w).sum::<f64>() / (2.0 * c * n)
}

/// Central differences with step e are off by e^2 f''' / 6 + eps f / e, below 1e-9 for e = 1e-5.
#[test]
fn the_gradient_is_that_of_finite_differences() {
    let (n, dim, classes) = (700, 5, 4);
    let rows = table(n, dim, 1);
    let classes_of = labels(&rows, dim, classes, 2);
    let sets: Vec<Vec<u32>> =
        classes_of.iter().map(|&y| (0..4).filter(|k| (y + k) % 3 == 0).collect()).collect();
    for targets in [Targets::Softmax(&classes_of), Targets::Sigmoid(&sets)] {
        let examples = Examples { rows: &rows, dim, targets, classes };
        let axes = Axes::of(&rows, dim);
        let shares = [0.25; 4];
        let objective =
            Objective { examples: &examples, axes: &axes, penalty: 0.01, shares: &shares };
        let x = normals(classes * (dim + 1), 4);
        let (mut gradient, mut unused) = (vec![0.0; x.len()], vec![0.0; x.len()]);
        objective.evaluate(&x, &mut gradient);
        for i in 0..x.len() {
            let mut at = |e: f64| {
                let mut x = x.clone();
                x[i] += e;
                objective.evaluate(&x, &mut unused)
            };
            let difference = (at(1e-5) - at(-1e-5)) / 2e-5;
            assert!((difference - gradient[i]).abs() < 1e-8, "{i}: {difference} {}", gradient[i]);
        }
    }
}

#[test]
fn the_loss_is_the_objective_and_its_minimum() {
    let (n, dim, classes, c) = (300, 6, 3, 2.0);
    let rows = table(n, dim, 11);
    let y = labels(&rows, dim, classes, 12);
    let settings = LogisticSettings { c, ..Default::default() };
    let fit = Logistic::fit(Rows::new(&rows, dim).unwrap(), &y, classes, &settings, None).unwrap();
    assert!(fit.converged && fit.iterations < 30, "{}", fit.iterations);
    assert!((objective(&rows, &y, &fit, c) - fit.loss).abs() < 1e-12);
    for at in 0..20 {
        let mut other = fit.clone();
        other
            .weights
            .iter_mut()
            .zip(normals(classes * dim, 100 + at))
            .for_each(|(w, e)| *w += 0.01 * e);
        assert!(objective(&rows, &y, &other, c) > fit.loss);
    }
    assert!(fit.intercepts.iter().sum::<f64>().abs() < 1e-12);
    for j in 0..dim {
        let sum: f64 = fit.weights.iter().skip(j).step_by(dim).sum();
        assert!(sum.abs() < 1e-12, "{sum}");
    }
}

/// Above 2^19 products the rows are split across threads.
#[test]
fn bytes_are_the_same_on_any_threads() {
    let (n, dim, classes) = (6000, 20, 5);
    let rows = table(n, dim, 21);
    let y = labels(&rows, dim, classes, 22);
    let run = |threads| {
        let fit = || {
            Logistic::fit(
                Rows::new(&rows, dim).unwrap(),
                &y,
                classes,
                &LogisticSettings::default(),
                None,
            )
            .unwrap()
        };
        veridical_core::threads::with_threads(Some(threads), fit).unwrap()
    };
    let one = run(1);
    assert!(run(2) == one && run(5) == one);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(15))]

    /// Gradients below 1e-8 with a Hessian of at least 1/(C n) > 1e-3 determine the weights to 1e-5 in each
    /// direction; f32 rounds the rotated rows at 6e-8.
    #[test]
    fn a_rotation_changes_no_prediction(dim in 2usize..7, classes in 2usize..5, at in 0u64..100) {
        let n = 80;
        let rows = table(n, dim, 10 * at + 1000);
        let y = labels(&rows, dim, classes, 10 * at + 1001);
        let turn = orthonormal(&normals(dim * dim, 10 * at + 1005), dim);
        let turn = LinearMap { from: vec![0.0; dim], matrix: turn, to: vec![0.0; dim] };
        let settings = LogisticSettings { c: 3.0, tolerance: 1e-8, ..Default::default() };
        let fit = |rows: &[f32]| Logistic::fit(Rows::new(rows, dim).unwrap(), &y, classes, &settings, None).unwrap();
        let (one, other) = (fit(&rows), fit(&turn.apply(&rows)));
        prop_assert!(one.converged && other.converged);
        prop_assert!((one.loss - other.loss).abs() < 1e-6);
        let turned_back = turn.apply(&rows);
        for (a, b) in one.scores(&rows).iter().zip(other.scores(&turned_back)) {
            prop_assert!(*a == b || (a - b).abs() < 1e-3, "{} {}", a, b);
        }
    }
}

#[test]
fn a_path_has_the_fits_of_its_penalties() {
    let (n, dim, classes) = (200, 5, 3);
    let rows = table(n, dim, 31);
    let y = labels(&rows, dim, classes, 32);
    let cs = [1.0, 0.01, 100.0];
    let settings = LogisticSettings { tolerance: 1e-9, ..Default::default() };
    let path = logistic_path(Rows::new(&rows, dim).unwrap(), &y, classes, &settings, &cs).unwrap();
    for (fit, c) in path.iter().zip(cs) {
        let alone = Logistic::fit(
            Rows::new(&rows, dim).unwrap(),
            &y,
            classes,
            &LogisticSettings { c, ..settings },
            None,
        )
        .unwrap();
        assert!(fit.converged);
        assert!((fit.loss - alone.loss).abs() < 1e-10, "{c}");
    }
    let again =
        Logistic::fit(Rows::new(&rows, dim).unwrap(), &y, classes, &settings, Some(&path[0]))
            .unwrap();
    assert!(again.iterations <= 1, "a warm start at the solution stops at once");
}

#[test]
fn classes_without_examples_are_never_predicted() {
    let rows = [-1.0, -2.0, -3.0, 1.0, 2.0, 3.0];
    let settings = LogisticSettings::default();
    let fit = Logistic::fit(Rows::new(&rows, 1).unwrap(), &[3, 3, 3, 1, 1, 1], 5, &settings, None)
        .unwrap();
    assert!(fit.converged && fit.loss.is_finite());
    assert_eq!(fit.predict(&[-5.0, 5.0]), [3, 1]);
    let warm =
        Logistic::fit(Rows::new(&rows, 1).unwrap(), &[3, 3, 0, 1, 1, 1], 5, &settings, Some(&fit))
            .unwrap();
    assert!(warm.converged, "a start with fewer classes is ignored");
    let one = Logistic::fit(Rows::new(&rows, 1).unwrap(), &[2; 6], 5, &settings, None).unwrap();
    assert_eq!((one.predict(&[-5.0, 5.0]), one.loss), (vec![2, 2], 0.0));
    let sets = [vec![0], vec![0], vec![0], vec![0, 2], vec![0, 2], vec![0, 2]];
    let multi = OneVsRest::fit(
        Rows::new(&rows, 1).unwrap(),
        &sets,
        4,
        &LogisticSettings { c: 100.0, ..settings },
    )
    .unwrap();
    assert_eq!(multi.predict(&[-5.0, 1.5]), [vec![0], vec![0, 2]]);
}

/// Constant columns, zero rows and columns whose scales differ by 1e6.
#[test]
fn odd_columns_do_no_harm() {
    let n = 60;
    let rows: Vec<f32> =
        table(n, 1, 41).iter().flat_map(|&x| [x * 1e3, 1.0, 0.0, x * x * 1e-3]).collect();
    let y: Vec<u32> = rows.chunks(4).map(|row| u32::from(row[0] > 0.0)).collect();
    let fit =
        Logistic::fit(Rows::new(&rows, 4).unwrap(), &y, 2, &LogisticSettings::default(), None)
            .unwrap();
    assert!(fit.converged && fit.weights.iter().all(|w| w.is_finite()));
    assert_eq!(fit.predict(&rows), y);
}
