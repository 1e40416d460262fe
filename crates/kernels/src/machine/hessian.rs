//! The Hessian of the kernel GLM in the inner product of the kernel, and conjugate gradients with it; formulas in `glm.rs`.

use veridical_core::{Job, Result, Rows};

use super::product::product;

/// The mean diagonal of K; 1 for a K of zeros.
pub(super) fn mean_diagonal(k: Rows<'_, f32>) -> f64 {
    let n = k.n();
    let mean = (0..n).map(|i| f64::from(k.row(i)[i])).sum::<f64>() / n as f64;
    if mean > 0.0 { mean } else { 1.0 }
}

pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

pub(super) fn add(to: &mut [f64], factor: f64, x: &[f64]) {
    to.iter_mut().zip(x).for_each(|(to, x)| *to += factor * x);
}

pub(super) fn column_sums(rows: &[f64], columns: usize) -> Vec<f64> {
    let mut sums = vec![0.0; columns];
    rows.chunks_exact(columns).for_each(|row| add(&mut sums, 1.0, row));
    sums
}

/// H at a point, with the intercept in units of `size`.
pub(super) struct Hessian<'a> {
    k: Rows<'a, f32>,
    p: &'a [f64],
    weights: &'a [f64],
    lambda: f64,
    pub size: f64,
}

/// Right-hand sides of H (d, d_b) = (r, r_b), one per lane of `classes` columns, with K r.
pub(super) struct System {
    pub r: Vec<f64>,
    pub k_r: Vec<f64>,
    pub r_b: Vec<f64>,
}

/// A solution with K d, and the products it took.
pub(super) struct Solution {
    pub d: Vec<f64>,
    pub k_d: Vec<f64>,
    pub d_b: Vec<f64>,
    pub products: usize,
}

impl<'a> Hessian<'a> {
    pub fn new(
        k: Rows<'a, f32>,
        p: &'a [f64],
        weights: &'a [f64],
        classes: usize,
        lambda: f64,
    ) -> Self {
        let mut curvature = vec![0.0; classes];
        for (p, w) in p.chunks_exact(classes).zip(weights) {
            curvature.iter_mut().zip(p).for_each(|(sum, p)| *sum += w * p * (1.0 - p));
        }
        let least = curvature.into_iter().fold(f64::INFINITY, f64::min) / weights.len() as f64;
        let size = (mean_diagonal(k) + lambda / least.max(1e-12)).sqrt();
        Self { k, p, weights, lambda, size }
    }

    /// t: (w_i / n) D_i z_i for every row of z, which has whole lanes of `classes` columns.
    pub fn curvature(&self, z: &[f64], classes: usize, width: usize) -> Vec<f64> {
        let n = self.weights.len() as f64;
        let mut t = z.to_vec();
        let rows = t.chunks_exact_mut(width).zip(self.p.chunks_exact(classes)).zip(self.weights);
        for ((t, p), w) in rows {
            for t in t.chunks_exact_mut(classes) {
                let mean = dot(p, t);
                t.iter_mut().zip(p).for_each(|(t, p)| *t = w / n * p * (*t - mean));
            }
        }
        t
    }

    /// Conjugate gradients, every lane until its residual is `tolerance` of its right-hand side.
    pub fn solve(
        &self,
        system: System,
        classes: usize,
        tolerance: f64,
        most: usize,
        job: &Job<'_>,
    ) -> Result<Solution> {
        let System { mut r, mut k_r, mut r_b } = system;
        let width = r_b.len();
        let lanes = width / classes;
        let inner = |a: &[f64], k_b: &[f64], a_b: &[f64], b_b: &[f64]| -> Vec<f64> {
            let mut sums: Vec<f64> =
                (0..lanes).map(|l| dot(lane(a_b, l, classes), lane(b_b, l, classes))).collect();
            for (a, b) in a.chunks_exact(width).zip(k_b.chunks_exact(width)) {
                for (l, sum) in sums.iter_mut().enumerate() {
                    *sum += dot(lane(a, l, classes), lane(b, l, classes));
                }
            }
            sums
        };
        let mut rr = inner(&r, &k_r, &r_b, &r_b);
        let mut stop: Vec<f64> = rr.iter().map(|rr| rr * tolerance * tolerance).collect();
        let none = vec![0.0; width];
        let rounding: Vec<f64> = inner(&k_r, &k_r, &none, &none)
            .iter()
            .map(|square| f64::EPSILON * square.sqrt())
            .collect();
        let (mut p, mut k_p, mut p_b) = (r.clone(), k_r.clone(), r_b.clone());
        let mut solution = Solution {
            d: vec![0.0; r.len()],
            k_d: vec![0.0; r.len()],
            d_b: vec![0.0; width],
            products: 0,
        };
        while solution.products < most && rr.iter().zip(&stop).any(|(rr, stop)| rr > stop) {
            job.check()?;
            let mut z = k_p.clone();
            z.chunks_exact_mut(width).for_each(|row| add(row, self.size, &p_b));
            let t = self.curvature(&z, classes, width);
            let k_t = product(self.k, &t, width);
            solution.products += 1;
            let h_b: Vec<f64> = column_sums(&t, width).iter().map(|t| t * self.size).collect();
            // <p, Hp> = lambda tr(p' K p) + sum t z, without a difference of large numbers.
            let norm = inner(&p, &k_p, &none, &none);
            let bent = inner(&t, &z, &none, &none);
            let steps: Vec<f64> = (0..lanes)
                .map(|l| {
                    let curvature = self.lambda * norm[l] + bent[l];
                    // A finished lane, and rounding where nothing is left to gain, stand still.
                    if rr[l] > stop[l] && curvature > 0.0 { rr[l] / curvature } else { 0.0 }
                })
                .collect();
            if steps.iter().all(|&step| step == 0.0) {
                break;
            }
            add_lanes(&mut solution.d, &steps, &p, classes);
            add_lanes(&mut solution.k_d, &steps, &k_p, classes);
            add_lanes(&mut solution.d_b, &steps, &p_b, classes);
            let down: Vec<f64> = steps.iter().map(|a| -a).collect();
            let by_lambda: Vec<f64> = down.iter().map(|a| a * self.lambda).collect();
            add_lanes(&mut r, &by_lambda, &p, classes);
            add_lanes(&mut r, &down, &t, classes);
            add_lanes(&mut k_r, &by_lambda, &k_p, classes);
            add_lanes(&mut k_r, &down, &k_t, classes);
            add_lanes(&mut r_b, &down, &h_b, classes);
            let next = inner(&r, &k_r, &r_b, &r_b);
            let squares = inner(&r, &r, &none, &none);
            for ((stop, square), rounding) in stop.iter_mut().zip(squares).zip(&rounding) {
                *stop = stop.max(rounding * square.sqrt());
            }
            let beta: Vec<f64> = next
                .iter()
                .zip(&rr)
                .map(|(next, rr)| if *rr > 0.0 { next / rr } else { 0.0 })
                .collect();
            rr = next;
            for (p, r) in [(&mut p, &r), (&mut k_p, &k_r), (&mut p_b, &r_b)] {
                for (p, r) in p.chunks_exact_mut(width).zip(r.chunks_exact(width)) {
                    let lanes = p.chunks_exact_mut(classes).zip(r.chunks_exact(classes));
                    for ((p, r), beta) in lanes.zip(&beta) {
                        p.iter_mut().zip(r).for_each(|(p, r)| *p = r + beta * *p);
                    }
                }
            }
        }
        Ok(solution)
    }
}

fn lane(row: &[f64], lane: usize, classes: usize) -> &[f64] {
    &row[lane * classes..][..classes]
}

/// to += factor x, with a factor per lane.
fn add_lanes(to: &mut [f64], factors: &[f64], x: &[f64], classes: usize) {
    let width = factors.len() * classes;
    for (to, x) in to.chunks_exact_mut(width).zip(x.chunks_exact(width)) {
        let lanes = to.chunks_exact_mut(classes).zip(x.chunks_exact(classes));
        lanes.zip(factors).for_each(|((to, x), factor)| add(to, *factor, x));
    }
}
