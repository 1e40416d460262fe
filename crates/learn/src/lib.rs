//! The small estimators everybody needs, on matrices in row-major order.
//!
//! - [`products`]: inner products of all rows of two tables; [`cosine_neighbours`]: the nearest of them.
//! - [`top_k`]: the best of many scores, ties decided by number.
//! - [`RidgePath`]: ridge regression for all penalties at once.
//! - [`gram`], [`solve_spd`], [`invert_spd`]: least squares.
//! - [`eigen`], [`Pca`], [`randomised_svd`]: directions of large variance.
//! - [`PairMoments`]: what two tables have in common, in one pass; [`Procrustes`], [`ridge_map`], [`low_rank_map`],
//!   [`generalised_procrustes`]: the [`LinearMap`] from one to another; [`canonical_correlations`].
//! - [`Logistic`], [`OneVsRest`], [`logistic_path`], [`knn_predict`], [`nadaraya_watson`]: classes of rows.
//!
//! Work is divided by the sizes alone, so every result has the same bytes on any number of threads.

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
pub use logistic::{Logistic, LogisticSettings, OneVsRest, logistic_path};
pub use map::LinearMap;
pub use moments::PairMoments;
pub use procrustes::{Procrustes, generalised_procrustes, residual};
pub use product::{cosine_neighbours, dot, products, to_unit_rows, unit_rows};
pub use regress::{canonical_correlations, low_rank_map, ridge_map};
pub use ridge::{RidgeFit, RidgePath};
pub use solve::{gram, invert_spd, solve_spd};
pub use svd::{Operator, randomised_svd};
pub use top_k::{Best, Scored, top_k};
pub use votes::{Metric, knn_predict, nadaraya_watson};
