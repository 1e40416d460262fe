//! Solvers of (K + lambda I) alpha = y by name, for one or several columns of y at once.
//!
//! direct       Cholesky, n^3 / 3
//! richardson   alpha <- alpha - eta r, r = (K + lambda I) alpha - y, eta = 1 / theta with the largest Ritz value theta of K + lambda I
//!              (1 % above it). From 0 the residual after t steps is U (1 - eta l)^t U'y: its norm is the integral of (1 - eta l)^2t over the
//!              spectral measure of y, predicted by Gauss quadrature from a Lanczos process begun at y (Golub & Meurant 2010),
//!              exactly while t is below its length
//! eigenpro     the same on a flattened spectrum (Ma & Belkin 2017): the gradient loses (1 - tau / s_i) of its component along the leading
//!              eigenfunctions of a subsample, tau the first eigenvalue s that is kept
//! pcg          conjugate gradients, preconditioned by the Nystrom approximation B B' + lambda I, B = K_nm L^-T with K_mm = L L'
//!              (Frangella, Tropp & Udell 2023): (BB' + lambda I)^-1 = (I - B (B'B + lambda I)^-1 B') / lambda
//! falkon       not this system, but its restriction to m centers: min |y - K_nm a|^2 + lambda a' K_mm a; in w = L'a the matrix is
//!              L^-1 K_mn K_nm L^-T + lambda I, by conjugate gradients preconditioned by (n/m) L'L + lambda I (Rudi, Carratino & Rosasco 2017)
//!
//! The centers are a uniform sample. The reported residual is |r| / |y| of the system that is solved, for falkon of its normal equations in w,
//! recomputed from the solution at the end. No intercept: subtract the mean of y before, and add it to predictions.

use std::fmt;

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use rayon::prelude::*;
use serde::Serialize;
use veridical_core::{Error, Job, Result, Rows, Seed, Stream};
use veridical_learn::{eigen, gram};

use super::cholesky::Cholesky;
use super::hessian::{add, dot};
use super::operator::GramOperator;
use super::product::{check_lambda, product};

/// How a system is solved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Solver {
    /// Cholesky decomposition.
    Direct,
    /// Gradient descent.
    Richardson,
    /// Gradient descent on a flattened spectrum.
    EigenPro,
    /// Nystrom-preconditioned conjugate gradients.
    Pcg,
    /// Falkon's restriction to centers.
    Falkon,
}

impl Solver {
    /// All solvers.
    pub const ALL: [Self; 5] =
        [Self::Direct, Self::Richardson, Self::EigenPro, Self::Pcg, Self::Falkon];

    /// Returns the name used in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Richardson => "richardson",
            Self::EigenPro => "eigenpro",
            Self::Pcg => "pcg",
            Self::Falkon => "falkon",
        }
    }

    /// Returns the solver called `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|solver| solver.name() == name)
    }
}

impl fmt::Display for Solver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// When to stop, and the size of approximations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SolverSettings {
    /// The relative residual at which to stop.
    pub tolerance: f64,
    /// The largest number of iterations.
    pub iterations: usize,
    /// Centers of falkon and pcg, rows of the subsample of eigenpro; at most n.
    pub centers: usize,
    /// The seed of the sample.
    pub seed: Seed,
}

impl SolverSettings {
    /// A relative residual of 1e-6, 1,000 iterations, 1,000 centers.
    pub const fn new(seed: Seed) -> Self {
        Self { tolerance: 1e-6, iterations: 1000, centers: 1000, seed }
    }
}

/// A solution with its residual.
#[derive(Clone, Debug)]
pub struct Solution {
    /// alpha: a row of one value per column of y for every center, or for every row where `centers` is none.
    pub alpha: Vec<f64>,
    /// The rows that alpha belongs to, if not all.
    pub centers: Option<Vec<u32>>,
    /// Iterations taken.
    pub iterations: usize,
    /// |r| / |y|, recomputed from the solution.
    pub residual: f64,
    /// The residual that Richardson's formula predicts after as many iterations.
    pub predicted: Option<f64>,
    /// Whether the residual is within the tolerance.
    pub converged: bool,
}

/// Solves (K + lambda I) alpha = y; y has one row per row of K.
///
/// # Errors
/// [`Error::Setting`] for a lambda, tolerance or number of centers that is not above 0; [`Error::Shape`] if sizes differ; [`Error::Unfit`] if
/// y is not finite or the matrix not positive definite; [`Error::Interrupted`] if the job is cancelled.
///
/// ```
/// use veridical_core::{Job, Rows, Seed};
/// use veridical_kernels::machine::{DenseGram, Solver, SolverSettings, solve};
///
/// let k = DenseGram::new(Rows::new(&[3.0, 0.0, 0.0, 1.0], 2)?)?;
/// let settings = SolverSettings::new(Seed::new(0)?);
/// for solver in Solver::ALL {
///     let found = solve(&k, Rows::new(&[4.0, 2.0], 1)?, 1.0, solver, &settings, &Job::silent())?;
///     assert!(found.converged && found.alpha.iter().all(|a| (a - 1.0).abs() < 1e-5));
/// }
/// # Ok::<(), veridical_core::Error>(())
/// ```
pub fn solve(
    k: &dyn GramOperator,
    y: Rows<'_, f64>,
    lambda: f64,
    solver: Solver,
    settings: &SolverSettings,
    job: &Job<'_>,
) -> Result<Solution> {
    check_lambda(lambda)?;
    if y.n() != k.n() {
        let what = format!("a Gram matrix of {} rows was given with {} targets", k.n(), y.n());
        return Err(Error::shape(what, ""));
    }
    if let Some(at) = y.values().iter().position(|y| !y.is_finite()) {
        return Err(Error::unfit(format!("the target of row {} is not finite", at / y.dim()), ""));
    }
    if settings.tolerance.is_nan() || settings.tolerance <= 0.0 {
        return Err(Error::setting("tolerance", "above 0", settings.tolerance));
    }
    if settings.centers == 0 {
        return Err(Error::setting("centers", "at least 1", settings.centers));
    }
    let system = System { k, y, lambda, settings, job };
    match solver {
        Solver::Direct => system.direct(),
        Solver::Richardson => system.richardson(),
        Solver::EigenPro => system.eigenpro(),
        Solver::Pcg => system.pcg(),
        Solver::Falkon => system.falkon(),
    }
}

struct System<'a> {
    k: &'a dyn GramOperator,
    y: Rows<'a, f64>,
    lambda: f64,
    settings: &'a SolverSettings,
    job: &'a Job<'a>,
}

/// Lanczos steps behind the prediction of Richardson's residual.
const LANCZOS: usize = 40;
/// Leading eigenfunctions that eigenpro flattens.
const FLATTENED: usize = 160;
/// Steps of the power method for eigenpro's step size.
const POWER: usize = 10;

impl System<'_> {
    fn columns(&self) -> usize {
        self.y.dim()
    }

    /// (K + lambda I) x.
    fn apply(&self, x: &[f64]) -> Vec<f64> {
        let mut out = self.k.apply(x, self.columns());
        add(&mut out, self.lambda, x);
        out
    }

    /// y - (K + lambda I) alpha.
    fn residual(&self, alpha: &[f64]) -> Vec<f64> {
        let mut r = self.y.values().to_vec();
        add(&mut r, -1.0, &self.apply(alpha));
        r
    }

    fn finished(&self, alpha: Vec<f64>, iterations: usize, predicted: Option<f64>) -> Solution {
        let residual = norm(&self.residual(&alpha)) / scale(self.y.values());
        let converged = residual <= self.settings.tolerance;
        Solution { alpha, centers: None, iterations, residual, predicted, converged }
    }

    /// A uniform sample of rows, in order.
    fn sample(&self) -> Vec<u32> {
        let stream = Stream::new(self.settings.seed, "kernels/centers");
        let mut order: Vec<(u64, u32)> =
            (0..self.k.n() as u32).map(|i| (stream.at(0, u64::from(i)).integer(0), i)).collect();
        order.sort_unstable();
        let mut rows: Vec<u32> =
            order.into_iter().take(self.settings.centers).map(|(_, i)| i).collect();
        rows.sort_unstable();
        rows
    }

    fn direct(&self) -> Result<Solution> {
        let n = self.k.n();
        let all: Vec<u32> = (0..n as u32).collect();
        let mut a: Vec<f64> = self.k.columns(&all).iter().map(|&k| f64::from(k)).collect();
        (0..n).for_each(|i| a[i * n + i] += self.lambda);
        let factor = Cholesky::new(a, n).ok_or_else(|| not_definite(self.lambda))?;
        let mut alpha = self.y.values().to_vec();
        factor.solve(&mut alpha, self.columns());
        Ok(self.finished(alpha, 1, None))
    }

    fn richardson(&self) -> Result<Solution> {
        let spectrum = self.lanczos()?;
        let largest = spectrum.iter().flatten().map(|(theta, _)| *theta).fold(0.0, f64::max);
        let eta = 1.0 / (1.01 * largest);
        let mut alpha = vec![0.0; self.y.values().len()];
        let mut r = self.y.values().to_vec();
        let stop = self.settings.tolerance * scale(&r);
        let mut steps = 0;
        while steps < self.settings.iterations && norm(&r) > stop {
            self.job.check()?;
            add(&mut alpha, eta, &r);
            let moved = self.apply(&r);
            add(&mut r, -eta, &moved);
            steps += 1;
        }
        let square: f64 = spectrum
            .iter()
            .flatten()
            .map(|(theta, weight)| weight * (1.0 - eta * theta).powi(2 * steps as i32))
            .sum();
        let predicted = square.max(0.0).sqrt() / scale(self.y.values());
        Ok(self.finished(alpha, steps, Some(predicted)))
    }

    /// For every column of y the nodes and weights of Gauss quadrature of its spectral measure under K + lambda I.
    fn lanczos(&self) -> Result<Vec<Vec<(f64, f64)>>> {
        let (n, c) = (self.k.n(), self.columns());
        let length = LANCZOS.min(n);
        let norms: Vec<f64> = (0..c).map(|j| norm(&column(self.y.values(), c, j))).collect();
        let mut basis: Vec<Vec<Vec<f64>>> = vec![Vec::new(); c];
        let (mut on, mut off) = (vec![Vec::new(); c], vec![Vec::new(); c]);
        let mut q = self.y.values().to_vec();
        let scale_columns = |q: &mut [f64], sizes: &[f64]| {
            for row in q.chunks_exact_mut(c) {
                row.iter_mut()
                    .zip(sizes)
                    .for_each(|(q, s)| *q = if *s > 0.0 { *q / s } else { 0.0 });
            }
        };
        scale_columns(&mut q, &norms);
        for _ in 0..length {
            self.job.check()?;
            let moved = self.apply(&q);
            let mut sizes = vec![0.0; c];
            let mut next = vec![0.0; n * c];
            for j in 0..c {
                let (own, mut w) = (column(&q, c, j), column(&moved, c, j));
                on[j].push(dot(&own, &w));
                basis[j].push(own);
                // Twice is enough (Parlett).
                for _ in 0..2 {
                    for v in &basis[j] {
                        let along = dot(v, &w);
                        add(&mut w, -along, v);
                    }
                }
                let size = norm(&w);
                // An invariant subspace: the quadrature is exact from here on.
                sizes[j] = if size > 1e-10 * on[j][0].abs() { size } else { 0.0 };
                off[j].push(sizes[j]);
                next.iter_mut().skip(j).step_by(c).zip(w).for_each(|(to, x)| *to = x);
            }
            scale_columns(&mut next, &sizes);
            q = next;
        }
        let of_column = |j: usize| {
            let steps = off[j].iter().position(|size| *size == 0.0).map_or(length, |at| at + 1);
            let mut t = vec![0.0; steps * steps];
            for i in 0..steps {
                t[i * steps + i] = on[j][i];
                if i + 1 < steps {
                    t[i * steps + i + 1] = off[j][i];
                    t[(i + 1) * steps + i] = off[j][i];
                }
            }
            let (values, vectors) = eigen(&t, steps);
            let weight = |k: usize| (norms[j] * vectors[k]).powi(2);
            values.iter().enumerate().map(|(k, theta)| (*theta, weight(k))).collect()
        };
        Ok((0..c).map(of_column).collect())
    }

    fn eigenpro(&self) -> Result<Solution> {
        let (n, c) = (self.k.n(), self.columns());
        let centers = self.sample();
        let s = centers.len();
        let of_sample = self.k.columns(&centers);
        let own: Vec<f64> = centers
            .iter()
            .flat_map(|&i| of_sample[i as usize * s..][..s].iter().map(|&k| f64::from(k)))
            .collect();
        let (values, vectors) = eigen(&own, s);
        // Directions below f32 rounding of the largest say nothing.
        let sound = values.iter().take_while(|v| **v > 1e-5 * values[0]).count();
        let q = FLATTENED.min(sound.saturating_sub(1)).min(s / 2);
        let tau = values.get(q).copied().unwrap_or(0.0).max(0.0);
        // V diag((1 - tau / s_i) / s_i) V' on the sample.
        let correct = |r: &[f64]| -> Vec<f64> {
            let seen = transposed_product(&of_sample, s, r, c);
            let mut along = vec![0.0; q * c];
            for (row, seen) in vectors.chunks_exact(s).zip(seen.chunks_exact(c)) {
                for (out, v) in along.chunks_exact_mut(c).zip(&row[..q]) {
                    add(out, *v, seen);
                }
            }
            for (out, value) in along.chunks_exact_mut(c).zip(&values) {
                let factor = (1.0 - tau / value) / value;
                out.iter_mut().for_each(|x| *x *= factor);
            }
            let mut step = r.to_vec();
            for (&i, row) in centers.iter().zip(vectors.chunks_exact(s)) {
                let to = &mut step[i as usize * c..][..c];
                for (x, v) in along.chunks_exact(c).zip(&row[..q]) {
                    add(to, -v, x);
                }
            }
            step
        };
        // The largest eigenvalue of P (K + lambda I) by the power method, from y.
        let mut x = self.y.values().to_vec();
        let mut largest = 0.0f64;
        for _ in 0..POWER {
            self.job.check()?;
            let size = norm(&x);
            if size == 0.0 {
                break;
            }
            x.iter_mut().for_each(|x| *x /= size);
            x = correct(&self.apply(&x));
            largest = largest.max(norm(&x));
        }
        let mut eta = if largest > 0.0 { 1.0 / (1.1 * largest) } else { 1.0 };
        let mut alpha = vec![0.0; n * c];
        let mut r = self.y.values().to_vec();
        let stop = self.settings.tolerance * scale(&r);
        let (mut steps, mut before) = (0, f64::INFINITY);
        while steps < self.settings.iterations && norm(&r) > stop {
            self.job.check()?;
            // P (K + lambda I) is not normal: a residual that grows asks for a smaller step.
            let now = norm(&r);
            if now > 2.0 * before {
                eta /= 2.0;
            }
            before = before.min(now);
            let step = correct(&r);
            add(&mut alpha, eta, &step);
            let moved = self.apply(&step);
            add(&mut r, -eta, &moved);
            steps += 1;
        }
        Ok(self.finished(alpha, steps, None))
    }

    /// L of K_mm, for the centers of the sample.
    fn centers(&self) -> Result<(Vec<u32>, Vec<f32>, Cholesky)> {
        let centers = self.sample();
        let m = centers.len();
        let columns = self.k.columns(&centers);
        let mut own: Vec<f64> = centers
            .iter()
            .flat_map(|&i| columns[i as usize * m..][..m].iter().map(|&k| f64::from(k)))
            .collect();
        for i in 0..m {
            for j in 0..i {
                let mean = f64::midpoint(own[i * m + j], own[j * m + i]);
                own[i * m + j] = mean;
                own[j * m + i] = mean;
            }
        }
        let (factor, _) =
            Cholesky::with_jitter(&own, m).ok_or_else(|| not_definite(self.lambda))?;
        Ok((centers, columns, factor))
    }

    fn pcg(&self) -> Result<Solution> {
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

    fn falkon(&self) -> Result<Solution> {
        let (n, c) = (self.k.n(), self.columns());
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

fn not_definite(lambda: f64) -> Error {
    let what = format!("K + {lambda} I is not positive definite");
    Error::unfit(what, "set a larger ⟨lambda⟩")
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

/// A' x for a matrix of rows of `m` f32 values: blocks of rows, summed in order.
fn transposed_product(a: &[f32], m: usize, x: &[f64], c: usize) -> Vec<f64> {
    const STEP: usize = 256;
    let n = a.len() / m;
    let block = n.div_ceil(32).next_multiple_of(STEP);
    let partial = |(a, x): (&[f32], &[f64])| {
        let mut sum = vec![0.0; m * c];
        let mut wide = Vec::new();
        for (a, x) in a.chunks(STEP * m).zip(x.chunks(STEP * c)) {
            wide.clear();
            wide.extend(a.iter().map(|&a| f64::from(a)));
            let rows = a.len() / m;
            let a = MatRef::from_row_major_slice(&wide, rows, m);
            let x = MatRef::from_row_major_slice(x, rows, c);
            let out = MatMut::from_row_major_slice_mut(&mut sum, m, c);
            matmul(out, Accum::Add, a.transpose(), x, 1.0, Par::Seq);
        }
        sum
    };
    let parts: Vec<Vec<f64>> =
        a.par_chunks(block * m).zip(x.par_chunks(block * c)).map(partial).collect();
    let mut total = vec![0.0; m * c];
    parts.iter().for_each(|part| add(&mut total, 1.0, part));
    total
}

fn add_columns(to: &mut [f64], factors: &[f64], sign: f64, x: &[f64]) {
    let c = factors.len();
    for (to, x) in to.chunks_exact_mut(c).zip(x.chunks_exact(c)) {
        to.iter_mut().zip(x).zip(factors).for_each(|((to, x), factor)| *to += sign * factor * x);
    }
}

fn norm(a: &[f64]) -> f64 {
    dot(a, a).sqrt()
}

/// |y|, or 1 where y is 0 and so is the solution.
fn scale(y: &[f64]) -> f64 {
    let size = norm(y);
    if size > 0.0 { size } else { 1.0 }
}

fn column(x: &[f64], c: usize, j: usize) -> Vec<f64> {
    x.iter().skip(j).step_by(c).copied().collect()
}

fn column_dots(a: &[f64], b: &[f64], c: usize) -> Vec<f64> {
    let mut sums = vec![0.0; c];
    for (a, b) in a.chunks_exact(c).zip(b.chunks_exact(c)) {
        sums.iter_mut().zip(a).zip(b).for_each(|((s, a), b)| *s += a * b);
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::super::operator::{DenseGram, GaussianGram};
    use super::super::product::testing::normals;
    use super::*;
    use veridical_core::threads::with_threads;

    fn settings(tolerance: f64, iterations: usize, centers: usize) -> SolverSettings {
        SolverSettings { tolerance, iterations, centers, seed: Seed::new(0).unwrap() }
    }

    fn gaussian(n: usize, l: f64) -> GaussianGram {
        let x: Vec<f32> = normals(n * 4, 0).iter().map(|&x| x as f32).collect();
        GaussianGram::new(Rows::new(&x, 4).unwrap(), l).unwrap()
    }

    /// All solvers of the system reach the solution of the direct one: an error of at most |r| / lambda.
    #[test]
    fn solvers_agree() {
        let (n, c, lambda) = (300, 2, 3.0);
        let k = gaussian(n, 1.0);
        let y = normals(n * c, 1);
        let y = Rows::new(&y, c).unwrap();
        let run =
            |solver, s: &SolverSettings| solve(&k, y, lambda, solver, s, &Job::silent()).unwrap();
        // The values of K in one tile and in many differ by f32 roundings, 6e-8 each, up to sqrt(n) in a product.
        let rounding = 6e-8 * (n as f64).sqrt();
        let direct = run(Solver::Direct, &settings(rounding, 1, 1));
        assert!(direct.converged, "{}", direct.residual);
        for (solver, most) in
            [(Solver::Richardson, 900), (Solver::EigenPro, 200), (Solver::Pcg, 20)]
        {
            let got = run(solver, &settings(1e-9, 900, 100));
            assert!(got.converged && got.iterations <= most, "{solver} {}", got.iterations);
            let apart = got.alpha.iter().zip(&direct.alpha);
            let apart = apart.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(apart < 2.0 * rounding * norm(y.values()) / lambda, "{solver}: {apart}");
        }
        // With all rows as centers falkon's restriction is none.
        let falkon = run(Solver::Falkon, &settings(1e-10, 300, n));
        assert!(falkon.converged, "{} {}", falkon.residual, falkon.iterations);
        assert_eq!(falkon.centers.as_deref().map(<[u32]>::len), Some(n));
        let f = k.apply(&falkon.alpha, c);
        let want = k.apply(&direct.alpha, c);
        assert!(f.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-4), "jitter of K");
    }

    /// The formula of the header: exact while the steps are fewer than those of Lanczos, and close far beyond.
    #[test]
    fn richardsons_residual_is_predicted() {
        let (n, lambda) = (200, 0.5);
        let k = gaussian(n, 1.5);
        let y = normals(n, 1);
        let run = |steps| {
            let y = Rows::new(&y, 1).unwrap();
            let s = settings(1e-12, steps, 10);
            solve(&k, y, lambda, Solver::Richardson, &s, &Job::silent()).unwrap()
        };
        for (steps, allowed) in [(1, 1e-10), (5, 1e-10), (30, 1e-8), (300, 1e-2)] {
            let got = run(steps);
            let predicted = got.predicted.unwrap();
            let ratio = predicted / got.residual - 1.0;
            assert!(ratio.abs() < allowed, "{steps}: {predicted} {}", got.residual);
        }
    }

    /// Better conditioned systems take fewer steps: preconditioning by half of the rows.
    #[test]
    fn preconditioning_saves_steps() {
        let (n, lambda) = (400, 1e-3);
        let k = gaussian(n, 2.0);
        let y = normals(n, 1);
        let y = Rows::new(&y, 1).unwrap();
        let steps = |centers| {
            let s = settings(1e-6, 900, centers);
            let got = solve(&k, y, lambda, Solver::Pcg, &s, &Job::silent()).unwrap();
            assert!(got.converged, "{centers}: {}", got.residual);
            got.iterations
        };
        let [few, many] = [1, 200].map(steps);
        assert!(5 * many < few, "{many} of {few}");
    }

    /// Falkon minimizes its own objective: against the normal equations in full.
    #[test]
    fn falkon_solves_the_restricted_problem() {
        let (n, m, lambda) = (300, 20, 2.0);
        let k = gaussian(n, 1.5);
        let y = normals(n, 1);
        let s = settings(1e-10, 200, m);
        let got = solve(&k, Rows::new(&y, 1).unwrap(), lambda, Solver::Falkon, &s, &Job::silent());
        let got = got.unwrap();
        let centers = got.centers.unwrap();
        assert!(got.converged && got.iterations < 60, "{}", got.iterations);
        let columns = k.columns(&centers);
        let mut a = vec![0.0; m * m];
        let mut b = vec![0.0; m];
        for (row, y) in columns.chunks(m).zip(&y) {
            for i in 0..m {
                b[i] += f64::from(row[i]) * y;
                (0..m).for_each(|j| a[i * m + j] += f64::from(row[i]) * f64::from(row[j]));
            }
        }
        for (i, &center) in centers.iter().enumerate() {
            for j in 0..m {
                a[i * m + j] += lambda * f64::from(columns[center as usize * m + j]);
            }
        }
        let want = veridical_learn::solve_spd(&mut a, &b);
        let (got, want) = (
            product(Rows::new(&columns, m).unwrap(), &got.alpha, 1),
            product(Rows::new(&columns, m).unwrap(), &want, 1),
        );
        assert!(got.iter().zip(&want).all(|(g, w)| (g - w).abs() < 1e-5));
    }

    #[test]
    fn solutions_have_the_same_bytes_on_any_threads() {
        let k = gaussian(600, 1.0);
        let y = normals(600, 1);
        for solver in Solver::ALL {
            let run = |threads| {
                let s = settings(1e-6, 20, 50);
                let y = Rows::new(&y, 1).unwrap();
                with_threads(Some(threads), || {
                    solve(&k, y, 1.0, solver, &s, &Job::silent()).unwrap().alpha
                })
                .unwrap()
            };
            assert!(run(1) == run(3), "{solver}");
            assert_eq!(Solver::from_name(solver.name()), Some(solver));
        }
    }

    #[test]
    fn what_cannot_be_solved_is_refused() {
        let values = [0.0, 9.0, 9.0, 0.0];
        let k = DenseGram::new(Rows::new(&values, 2).unwrap()).unwrap();
        let message = |y: &[f64], lambda, s: &SolverSettings| {
            let y = Rows::new(y, 1).unwrap();
            solve(&k, y, lambda, Solver::Direct, s, &Job::silent()).unwrap_err().to_string()
        };
        let fine = settings(1e-6, 10, 2);
        assert!(message(&[1.0, 2.0], 1.0, &fine).starts_with("K + 1 I is not positive definite"));
        assert!(message(&[1.0], 1.0, &fine).starts_with("a Gram matrix of 2 rows"));
        assert!(message(&[1.0, f64::NAN], 1.0, &fine).starts_with("the target of row 1"));
        assert!(message(&[1.0, 2.0], -1.0, &fine).starts_with("⟨lambda⟩"));
        assert!(message(&[1.0, 2.0], 1.0, &settings(0.0, 10, 2)).starts_with("⟨tolerance⟩"));
        assert!(message(&[1.0, 2.0], 1.0, &settings(0.1, 10, 0)).starts_with("⟨centers⟩"));
    }
}
