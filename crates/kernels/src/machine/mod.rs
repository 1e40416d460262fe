//! Machines that learn from a Gram matrix: everything here sees inner products and never a network.
//!
//! - [`Ridge`]: kernel ridge with an intercept, with every row or group of rows removed in closed form; [`RidgeSpectrum`]: all
//!   penalties from one eigendecomposition.
//! - [`LeastSquares`]: no penalty and a stated rank, on features (CKJ, NTKJ) or a Gram matrix (paper 004, (14)).
//! - [`Glm`]: multinomial logistic regression in the space of the kernel, and the influence of every training row on a prediction.
//! - [`Svm`]: soft-margin support vector machines; [`nearest_votes`], [`kernel_votes`]: k-NN and Nadaraya-Watson.
//! - [`choose_glm`], [`choose_ridge`]: the penalty by the loss on held-out training rows.
//! - [`solve`]: the system of ridge regression by [`Solver`], also where the Gram matrix does not fit into memory ([`Pairs`](crate::gram::Pairs)).
//!
//! A Gram matrix in memory is a [`Rows`](veridical_core::Rows) of f32, one row per query or training row and one column per training
//! row; [`LeastSquares`] takes f64, where rounding decides. Sums and solutions are f64, and work is split by size alone, so that bytes do not depend on the number of threads.

mod cholesky;
mod choose;
mod dense;
mod glm;
mod hessian;
mod least_squares;
mod neighbors;
mod product;
mod ridge;
mod softmax;
mod solver;
mod svm;

pub use choose::{Choice, choose_glm, choose_ridge};
pub use dense::DenseGram;
pub use glm::{Glm, GlmSettings, Penalty, balanced_weights};
pub use least_squares::{LeastSquares, Linear};
pub use neighbors::{kernel_votes, nearest_votes};
pub use product::product;
pub use ridge::{Ridge, RidgeAt, RidgeFit, RidgeSpectrum};
pub use softmax::{log_sum_exp, softmax};
pub use solver::{Solution, Solver, SolverSettings, solve};
pub use svm::{Svm, SvmSettings};
