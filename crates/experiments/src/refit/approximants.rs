//! The approximants of a network on its own tangent features (paper 004, section 2): CK and NTK by the pseudo-inverse of the weighted
//! Gram matrix (14), CKJ and NTKJ by least squares on the features themselves (17), (18).

use serde::{Deserialize, Serialize};
use veridical::Result;
use veridical_core::{Job, Rows};
use veridical_kernels::machine::LeastSquares;
use veridical_kernels::tangent::{Examples, Factors, Kind, Plan, Settings};
use veridical_nets::Net;

use super::grid::{Function, Grid};

/// The approximants, in the order of their values.
pub(super) const NAMES: [&str; 4] = ["CK", "NTK", "CKJ", "NTKJ"];

/// Values of one approximant.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Values {
    pub train: Vec<f64>,
    pub test: Vec<f64>,
}

/// The four regressions of one network, decomposed.
pub(super) struct Approximants {
    regressions: [LeastSquares; 4],
    /// Rows of training and test points for each of them.
    rows: [[Table; 2]; 4],
}

/// Rows of a fixed width.
struct Table {
    values: Vec<f64>,
    dim: usize,
}

impl Table {
    fn rows(&self) -> Result<Rows<'_, f64>> {
        Ok(Rows::new(&self.values, self.dim)?)
    }
}

impl Approximants {
    /// Decomposes the four regressions of a function on the training grid.
    pub fn new(
        net: &Net<f64>,
        function: Function,
        [train, test]: [&Grid; 2],
        job: &Job<'_>,
    ) -> Result<Self> {
        let y = train.values(function);
        let y = Rows::new(&y, 1)?;
        let weights = Some(&train.weights[..]);
        let tables = |kind: Kind| -> Result<([Table; 2], [Table; 2])> {
            let (own, other) =
                (taken(net, &kind, &train.x, job)?, taken(net, &kind, &test.x, job)?);
            let (n, dim) = (own.len(), own.feature_dim()?);
            let gram = Table { values: own.gram_f64(None, &job.quiet())?, dim: n };
            let across = Table { values: other.gram_f64(Some(&own), &job.quiet())?, dim: n };
            let features = Table { values: own.features(0..n)?, dim };
            let others = Table { values: other.features(0..other.len())?, dim };
            Ok(([gram, across], [features, others]))
        };
        let ((ck, ckj), (ntk, ntkj)) = (tables(Kind::Ck)?, tables(Kind::Trntk0)?);
        let regressions = [
            LeastSquares::of_kernel(ck[0].rows()?, y, weights)?,
            LeastSquares::of_kernel(ntk[0].rows()?, y, weights)?,
            LeastSquares::of_features(ckj[0].rows()?, y, weights)?,
            LeastSquares::of_features(ntkj[0].rows()?, y, weights)?,
        ];
        Ok(Self { regressions, rows: [ck, ntk, ckj, ntkj] })
    }

    /// Approximant number `at` on both grids, with singular values below `rcond` of the largest left out; by default those below the
    /// rounding of the matrix.
    pub fn solve(&self, at: usize, rcond: Option<f64>) -> Result<Values> {
        let regression = &self.regressions[at];
        let fit = regression.solve(rcond.unwrap_or_else(|| regression.rounding()))?;
        let [train, test] = &self.rows[at];
        Ok(Values { train: fit.predict(train.rows()?)?, test: fit.predict(test.rows()?)? })
    }
}

/// The factors of a kernel on a grid.
fn taken(net: &Net<f64>, kind: &Kind, x: &[f64], job: &Job<'_>) -> Result<Factors<f64>> {
    let job = &job.quiet();
    let examples = Examples::new(x.len(), |samples, slot: &mut [f64]| {
        slot.copy_from_slice(&x[samples]);
    });
    let plan = Plan::new(net, &examples, None, &Settings::new(kind.clone()))?;
    Ok(Factors::take(net, &examples, &plan, job)?)
}

#[cfg(test)]
mod tests {
    use veridical_core::Seed;
    use veridical_nets::{NetConfig, Shape};

    use super::super::grid::FUNCTIONS_71;
    use super::*;

    /// The features of the conjugate kernel are among those of the tangent kernel, and both forms of a kernel are one function where
    /// nothing is cut: 9 points and 8 features, condition below 1e5, whose square is far below 1e13 roundings at 1e-3.
    #[test]
    fn features_and_kernels_of_a_small_network_agree() {
        let mut config = NetConfig::new("mlp:7".parse().unwrap(), Shape::row(1), 1);
        config.activation = "tanh".parse().unwrap();
        let net = config.build::<f64>(Seed::new(1).unwrap()).unwrap();
        let (train, test) = (Grid::new(9), Grid::new(25));
        let function = FUNCTIONS_71[1].1;
        let job = Job::silent();
        let found = Approximants::new(&net, function, [&train, &test], &job).unwrap();
        let error = |at: usize, rcond: f64| {
            let values = found.solve(at, Some(rcond)).unwrap();
            (train.error(function, &values.train), values)
        };
        let (kernel, features) = (error(0, 1e-6), error(2, 1e-3));
        assert!((kernel.0 - features.0).abs() < 1e-6, "{} {}", kernel.0, features.0);
        let difference = kernel.1.test.iter().zip(&features.1.test).map(|(a, b)| (a - b).abs());
        assert!(difference.fold(0.0, f64::max) < 1e-6);
        // More features fit no worse (38).
        assert!(
            found.solve(3, None).map(|v| train.error(function, &v.train)).unwrap() <= features.0
        );
    }
}
