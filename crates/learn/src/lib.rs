//! The small estimators everybody needs, on matrices in row-major order.
//!
//! - [`products`]: inner products of all rows of two tables; [`cosine_neighbours`]: the nearest of them.
//! - [`top_k`]: the best of many scores, ties decided by number.
//! - [`gram`], [`solve_spd`], [`invert_spd`]: least squares.
//! - [`eigen`], [`Pca`], [`randomised_svd`]: directions of large variance.
//!
//! Work is divided by the sizes alone, so every result has the same bytes on any number of threads.

mod eigen;
mod product;
mod solve;
mod svd;
mod top_k;

pub use eigen::{Pca, eigen, orthonormal};
pub use product::{cosine_neighbours, dot, products, to_unit_rows, unit_rows};
pub use solve::{gram, invert_spd, solve_spd};
pub use svd::{Operator, randomised_svd};
pub use top_k::{Best, Scored, top_k};
