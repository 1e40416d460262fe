//! The small estimators everybody needs, on matrices of f32 in row-major order.
//!
//! - [`products`]: inner products of all rows of two tables.
//! - [`top_k`]: the best of many scores, ties decided by number.

mod product;
mod solve;
mod top_k;

pub use product::{cosine_neighbours, dot, products, unit_rows};
pub use solve::{gram, invert_spd, solve_spd};
pub use top_k::{Scored, top_k};
