//! Every loss compared with its formula, and its gradients with finite differences.

use super::*;
use crate::testing::normals;
use crate::{Addend, RowGradient};

const DIM: usize = 11;
const ROWS: usize = 37;
const N: usize = 300;

struct Case {
    hidden: Vec<f64>,
    table: Vec<f64>,
    targets: Vec<u32>,
    negatives: Vec<u32>,
}

fn case(k: usize) -> Case {
    let ids = |n: usize, step: usize| (0..n).map(|i| ((i * step + i / 7) % ROWS) as u32).collect();
    Case {
        hidden: normals(N * DIM, "hidden"),
        table: normals(ROWS * DIM, "table").iter().map(|x| 0.4 * x).collect(),
        targets: ids(N, 5),
        negatives: ids(N * k, 11),
    }
}

impl Case {
    fn positions(&self) -> Positions<'_, f64> {
        Positions { dim: DIM, hidden: &self.hidden, table: &self.table, targets: &self.targets }
    }

    fn score(&self, i: usize, id: u32) -> f64 {
        let row = &self.table[id as usize * DIM..][..DIM];
        self.hidden[i * DIM..][..DIM].iter().zip(row).map(|(h, e)| h * e).sum()
    }

    /// `loss` returns L, dL/dh and dL/dE; L is compared with `textbook`, and the gradients with its differences at some indices.
    fn check(
        mut self,
        loss: impl Fn(&Self) -> (f64, Vec<f64>, Vec<f64>),
        textbook: impl Fn(&Self) -> f64,
    ) {
        let (value, dh, de) = loss(&self);
        let want = textbook(&self);
        assert!((value - want).abs() < 1e-13 * want.abs(), "{value} {want}");
        for k in (0..N * DIM).step_by(101) {
            let at = self.hidden[k];
            let [up, down] = [1e-5, -1e-5].map(|h| {
                self.hidden[k] = at + h;
                textbook(&self)
            });
            self.hidden[k] = at;
            // As in `testing`: differences are off by about 4e-11.
            assert!((dh[k] - (up - down) / 2e-5).abs() < 1e-9, "hidden {k}");
        }
        for k in (0..ROWS * DIM).step_by(13) {
            let at = self.table[k];
            let [up, down] = [1e-5, -1e-5].map(|h| {
                self.table[k] = at + h;
                textbook(&self)
            });
            self.table[k] = at;
            assert!((de[k] - (up - down) / 2e-5).abs() < 1e-9, "table {k}");
        }
    }
}

/// The row-sparse gradient as a dense one.
fn spread(addends: &[Addend<f64>], sources: &[&[f64]]) -> Vec<f64> {
    let mut gradient = RowGradient::default();
    gradient.sum(DIM, addends, sources);
    let mut all = vec![0.0; ROWS * DIM];
    for (&row, values) in gradient.rows.iter().zip(gradient.values.chunks_exact(DIM)) {
        all[row as usize * DIM..][..DIM].copy_from_slice(values);
    }
    all
}

fn ln_sigma(s: f64) -> f64 {
    -(-s).exp().ln_1p()
}

#[test]
fn pairs_are_those_of_the_formula() {
    for k in [1, 3] {
        for loss in [Pairwise::Binary { beta: 1.0 }, Pairwise::Binary { beta: 0.3 }, Pairwise::Bpr]
        {
            let run = |case: &Case| {
                let mut dh = vec![f64::NAN; N * DIM];
                let mut addends = Vec::new();
                let l = loss.evaluate(case.positions(), &case.negatives, &mut dh, &mut addends, 0);
                let de = spread(&addends, &[&case.hidden]);
                (l, dh, de)
            };
            case(k).check(run, |case| {
                let position = |i: usize| {
                    let s = case.score(i, case.targets[i]);
                    let others = case.negatives[i * k..][..k].iter().map(|&j| case.score(i, j));
                    match loss {
                        Pairwise::Binary { beta } => {
                            -beta * ln_sigma(s) - others.map(|t| ln_sigma(-t)).sum::<f64>()
                        }
                        Pairwise::Bpr => -others.map(|t| ln_sigma(s - t)).sum::<f64>() / k as f64,
                    }
                };
                (0..N).map(position).sum::<f64>() / N as f64
            });
        }
    }
}

/// Petrov & Macdonald 2023: without calibration the loss is unchanged, full calibration weights the target by the share drawn.
#[test]
fn beta_of_gbce() {
    assert!((gbce_beta(10, 101, 0.0) - 1.0).abs() < 1e-15);
    assert!((gbce_beta(10, 101, 1.0) - 0.1).abs() < 1e-15);
    assert!((gbce_beta(10, 101, 0.5) - 0.55).abs() < 1e-15);
    assert_eq!(gbce_beta(100, 101, 0.75), 1.0);
}

#[test]
fn the_sampled_softmax_is_that_of_the_formula() {
    let correction = |id: u32| 0.1 * f64::from(id) - 1.0;
    let shared = |case: &Case| case.negatives[..20].to_vec();
    let run = |case: &Case| {
        let mut work = SampledSoftmax::default();
        let (mut dh, mut addends) = (vec![f64::NAN; N * DIM], Vec::new());
        let negatives = shared(case);
        let l = sampled_softmax(
            &mut work,
            case.positions(),
            &negatives,
            correction,
            &mut dh,
            &mut addends,
            0,
        );
        let de = spread(&addends, &[&case.hidden, &work.gradient]);
        (l, dh, de)
    };
    case(1).check(run, |case| {
        let position = |i: usize| {
            let y = case.targets[i];
            let z = |id: u32| case.score(i, id) - correction(id);
            let others = shared(case).into_iter().filter(|&j| j != y).map(|j| z(j).exp());
            (z(y).exp() + others.sum::<f64>()).ln() - z(y)
        };
        (0..N).map(position).sum::<f64>() / N as f64
    });
}

fn full(case: &Case) -> (f64, Vec<f64>, Vec<f64>) {
    let (mut dh, mut de) = (vec![f64::NAN; N * DIM], vec![f64::NAN; ROWS * DIM]);
    let l = full_softmax(&mut FullSoftmax::default(), case.positions(), &mut dh, &mut de);
    (l, dh, de)
}

#[test]
fn the_full_softmax_is_that_of_the_formula() {
    case(1).check(full, |case| {
        let position = |i: usize| {
            let total: f64 = (0..ROWS as u32).map(|j| case.score(i, j).exp()).sum();
            total.ln() - case.score(i, case.targets[i])
        };
        (0..N).map(position).sum::<f64>() / N as f64
    });
}

/// Both ways to compute dE: sums of groups and strips.
#[test]
fn large_tables_get_the_same_gradient() {
    let case = case(1);
    let (_, _, want) = full(&case);
    let totals: Vec<f64> = (0..N)
        .map(|i| (0..ROWS as u32).map(|j| case.score(i, j).exp()).sum::<f64>().ln())
        .collect();
    let mut got = vec![f64::NAN; ROWS * DIM];
    full::strips(&case.positions(), 64, &totals, &mut got);
    assert!(got.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-14));
}

#[test]
fn threads_change_no_byte() {
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let case = case(2);
            let mut dh = vec![0.0; N * DIM];
            let mut addends = Vec::new();
            let bce = Pairwise::Binary { beta: 1.0 };
            let l = bce.evaluate(case.positions(), &case.negatives, &mut dh, &mut addends, 0);
            (l, dh, addends, full(&case))
        })
    };
    assert!(run(1) == run(2) && run(1) == run(3));
}

#[test]
fn nan_is_not_hidden() {
    let mut case = case(1);
    case.hidden[5 * DIM] = f64::NAN;
    assert!(full(&case).0.is_nan());
    let (mut dh, mut addends) = (vec![0.0; N * DIM], Vec::new());
    let l = Pairwise::Bpr.evaluate(case.positions(), &case.negatives, &mut dh, &mut addends, 0);
    assert!(l.is_nan());
}
