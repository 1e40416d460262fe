//! Small estimators shared by the other crates, on row-major matrices.
//!
//! - [`products`]: inner products of all pairs of rows of two tables; [`cosine_neighbors`]: nearest neighbors by cosine.
//! - [`top_k`]: the k highest scores, ties broken by number.
//! - [`RidgePath`]: ridge regression for a whole path of penalties.
//! - [`gram`], [`solve_spd`], [`invert_spd`]: Gram matrices and symmetric positive definite systems.
//! - [`eigen`], [`Pca`], [`thin_svd`], [`randomized_svd`]: eigenvectors, principal components, all and leading singular
//!   vectors.
//! - [`PairMoments`]: joint first and second moments of two tables, in one pass; [`Procrustes`], [`ridge_map`],
//!   [`low_rank_map`], [`generalized_procrustes`]: the [`LinearMap`] from one table to the other; [`canonical_correlations`].
//! - [`Logistic`], [`OneVsRest`], [`logistic_path`], [`knn_predict`], [`nearest_labels`], [`nadaraya_watson`]: classifiers;
//!   [`SparseLogistic`]: on sparse rows; [`Penalty`]: chosen by cross-validation.
//!
//! Work is split by problem size alone, so every result has the same bytes on any number of threads.

mod dense;
mod eigen;
mod exp;
mod logistic;
mod map;
mod moments;
mod procrustes;
mod product;
mod regress;
mod ridge;
mod solve;
mod svd;
mod top_k;
mod votes;

pub use eigen::{Pca, eigen, orthonormal};
pub use logistic::{
    Folds, Logistic, LogisticSettings, OneVsRest, Penalty, SparseLogistic, logistic_path,
};
pub use map::LinearMap;
pub use moments::PairMoments;
pub use procrustes::{Procrustes, generalized_procrustes, residual};
pub use product::{NeighborSearch, cosine_neighbors, dot, products, to_unit_rows, unit_rows};
pub use regress::{canonical_correlations, low_rank_map, ridge_map};
pub use ridge::{RidgeFit, RidgePath};
pub use solve::{GramSum, gram, invert_spd, solve_spd};
pub use svd::{Operator, Svd, randomized_svd, thin_svd};
pub use top_k::{Best, Scored, top_k};
pub use votes::{Metric, knn_predict, nadaraya_watson, nearest_labels};

/// The example of the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct ReadmeExample;
