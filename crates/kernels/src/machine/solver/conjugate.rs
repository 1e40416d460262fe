//! Preconditioned conjugate gradients: of the system itself, and of falkon's restriction to centers.

use veridical_core::{Job, Result, Rows};
use veridical_learn::gram;

use super::super::cholesky::Cholesky;
use super::super::hessian::add;
use super::super::product::{product, transposed_product};
use super::{Solution, SolverSettings, System, norm, not_definite, scale};

impl System<'_> {
    /// L of K_mm, for the centers of the sample.
    fn centers(&self) -> Result<(Vec<u32>, Vec<f32>, Cholesky)> {
        let centers = self.sample();
        let m = centers.len();
        let columns = self.k.columns(&centers);
        let value = |i: usize, j: usize| f64::from(columns[centers[i] as usize * m + j]);
        let own = || {
            let mut own = Vec::with_capacity(m * m);
            (0..m)
                .for_each(|i| own.extend((0..m).map(|j| f64::midpoint(value(i, j), value(j, i)))));
            own
        };
        let (factor, _) = Cholesky::with_jitter(own, m).ok_or_else(|| not_definite(self.lambda))?;
        Ok((centers, columns, factor))
    }

    pub(super) fn pcg(&self) -> Result<Solution> {
        let c = self.columns();
        let (centers, columns, factor) = self.centers()?;
        let m = centers.len();
        let b = factor.whiten(&columns);
        drop(columns);
        let mut inner = gram(&b, m);
        (0..m).for_each(|i| inner[i * m + i] += self.lambda);
        let inner = Cholesky::new(inner, m).ok_or_else(|| not_definite(self.lambda))?;
        let rows = Rows::new(&b, m)?;
        let precondition = |r: &[f64]| -> Vec<f64> {
            let mut seen = transposed_product(&b, m, r, c);
            inner.solve(&mut seen, c);
            let mut z = r.to_vec();
            add(&mut z, -1.0, &product(rows, &seen, c));
            z.iter_mut().for_each(|z| *z /= self.lambda);
            z
        };
        let (alpha, steps) = conjugate_gradients(
            self.y.values(),
            c,
            |x| self.apply(x),
            precondition,
            self.settings,
            self.job,
        )?;
        Ok(self.finished(alpha, steps, None))
    }

    pub(super) fn falkon(&self) -> Result<Solution> {
        let (n, c) = (self.k.size().0, self.columns());
        let (centers, columns, factor) = self.centers()?;
        let m = centers.len();
        let rows = Rows::new(&columns, m)?;
        let apply = |w: &[f64]| -> Vec<f64> {
            let mut a = w.to_vec();
            factor.upper(&mut a, c);
            let f = product(rows, &a, c);
            let mut out = transposed_product(&columns, m, &f, c);
            factor.lower(&mut out, c);
            add(&mut out, self.lambda, w);
            out
        };
        let inner = factor.gram_of_factor(n as f64 / m as f64, self.lambda);
        let inner = Cholesky::new(inner, m).ok_or_else(|| not_definite(self.lambda))?;
        let precondition = |r: &[f64]| -> Vec<f64> {
            let mut z = r.to_vec();
            inner.solve(&mut z, c);
            z
        };
        let mut target = transposed_product(&columns, m, self.y.values(), c);
        factor.lower(&mut target, c);
        let (w, iterations) =
            conjugate_gradients(&target, c, apply, precondition, self.settings, self.job)?;
        let mut r = target.clone();
        add(&mut r, -1.0, &apply(&w));
        let residual = norm(&r) / scale(&target);
        let mut alpha = w;
        factor.upper(&mut alpha, c);
        let converged = residual <= self.settings.tolerance;
        let centers = Some(centers);
        Ok(Solution { alpha, centers, iterations, residual, predicted: None, converged })
    }
}

/// Preconditioned conjugate gradients from 0 on every column at once, until the residual of all is within the tolerance.
fn conjugate_gradients(
    y: &[f64],
    c: usize,
    apply: impl Fn(&[f64]) -> Vec<f64>,
    precondition: impl Fn(&[f64]) -> Vec<f64>,
    settings: &SolverSettings,
    job: &Job<'_>,
) -> Result<(Vec<f64>, usize)> {
    let mut x = vec![0.0; y.len()];
    let mut r = y.to_vec();
    let stop = settings.tolerance * scale(y);
    let mut z = precondition(&r);
    let mut p = z.clone();
    let mut rz = column_dots(&r, &z, c);
    let mut steps = 0;
    while steps < settings.iterations && norm(&r) > stop {
        job.check()?;
        let q = apply(&p);
        let curvature = column_dots(&p, &q, c);
        let ratio = |a: f64, b: f64| if a > 0.0 && b > 0.0 { a / b } else { 0.0 };
        let along: Vec<f64> = rz.iter().zip(&curvature).map(|(a, b)| ratio(*a, *b)).collect();
        if along.iter().all(|step| *step == 0.0) {
            break;
        }
        add_columns(&mut x, &along, 1.0, &p);
        add_columns(&mut r, &along, -1.0, &q);
        z = precondition(&r);
        let next = column_dots(&r, &z, c);
        let beta: Vec<f64> = next.iter().zip(&rz).map(|(a, b)| ratio(*a, *b)).collect();
        rz = next;
        for (p, z) in p.chunks_exact_mut(c).zip(z.chunks_exact(c)) {
            p.iter_mut().zip(z).zip(&beta).for_each(|((p, z), beta)| *p = z + beta * *p);
        }
        steps += 1;
    }
    Ok((x, steps))
}

fn add_columns(to: &mut [f64], factors: &[f64], sign: f64, x: &[f64]) {
    let c = factors.len();
    for (to, x) in to.chunks_exact_mut(c).zip(x.chunks_exact(c)) {
        to.iter_mut().zip(x).zip(factors).for_each(|((to, x), factor)| *to += sign * factor * x);
    }
}

fn column_dots(a: &[f64], b: &[f64], c: usize) -> Vec<f64> {
    let mut sums = vec![0.0; c];
    for (a, b) in a.chunks_exact(c).zip(b.chunks_exact(c)) {
        sums.iter_mut().zip(a).zip(b).for_each(|((s, a), b)| *s += a * b);
    }
    sums
}
