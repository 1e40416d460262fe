//! The frame of one table for another: a map fitted on the ids that both have, with a certificate of how good it is.
//!
//! Retraining turns the coordinates of an embedding and leaves its inner products (paper 000, proposition 2); a rotation
//! fitted on shared ids turns them back (orthogonal Procrustes, Schönemann 1966), other maps join unequal widths.

mod anchors;
mod fit;
mod map;

pub use self::anchors::Anchors;
pub use self::fit::{Certificate, Common, FitSettings, Fitted, Method, Names, fit, fit_common};
pub use self::map::{MAP_FORMAT, MapKind, map_id};
