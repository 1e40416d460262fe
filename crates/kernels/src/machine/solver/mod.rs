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

mod conjugate;
mod descent;
#[cfg(test)]
mod tests;

use std::fmt;

use serde::Serialize;
use veridical_core::{Error, Job, Result, Rows, Seed, Stream};

use super::cholesky::Cholesky;
use super::hessian::{add, dot};
use super::product::check_lambda;
use crate::gram::Pairs;

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
    k: &dyn Pairs,
    y: Rows<'_, f64>,
    lambda: f64,
    solver: Solver,
    settings: &SolverSettings,
    job: &Job<'_>,
) -> Result<Solution> {
    check_lambda(lambda)?;
    let (n, columns) = k.size();
    if !k.is_symmetric() || n != columns {
        let what =
            format!("a system needs the kernel of rows with each other, got {n} x {columns}");
        return Err(Error::shape(what, ""));
    }
    if y.n() != n {
        let what = format!("a Gram matrix of {n} rows was given with {} targets", y.n());
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
    k: &'a dyn Pairs,
    y: Rows<'a, f64>,
    lambda: f64,
    settings: &'a SolverSettings,
    job: &'a Job<'a>,
}

impl System<'_> {
    fn columns(&self) -> usize {
        self.y.dim()
    }

    /// (K + lambda I) x.
    fn apply(&self, x: &[f64]) -> Vec<f64> {
        let mut out = self.k.multiply(x, self.columns());
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
        let mut order: Vec<(u64, u32)> = (0..self.k.size().0 as u32)
            .map(|i| (stream.at(0, u64::from(i)).integer(0), i))
            .collect();
        order.sort_unstable();
        let mut rows: Vec<u32> =
            order.into_iter().take(self.settings.centers).map(|(_, i)| i).collect();
        rows.sort_unstable();
        rows
    }

    fn direct(&self) -> Result<Solution> {
        let n = self.k.size().0;
        let all: Vec<u32> = (0..n as u32).collect();
        let mut a: Vec<f64> = self.k.columns(&all).iter().map(|&k| f64::from(k)).collect();
        (0..n).for_each(|i| a[i * n + i] += self.lambda);
        let factor = Cholesky::new(a, n).ok_or_else(|| not_definite(self.lambda))?;
        let mut alpha = self.y.values().to_vec();
        factor.solve(&mut alpha, self.columns());
        Ok(self.finished(alpha, 1, None))
    }
}

fn not_definite(lambda: f64) -> Error {
    let what = format!("K + {lambda} I is not positive definite");
    Error::unfit(what, "set a larger ⟨lambda⟩")
}

fn norm(a: &[f64]) -> f64 {
    dot(a, a).sqrt()
}

/// |y|, or 1 where y is 0 and so is the solution.
fn scale(y: &[f64]) -> f64 {
    let size = norm(y);
    if size > 0.0 { size } else { 1.0 }
}
