//! Alignment of one table to another: a linear map fitted on shared ids, with a certificate of its quality.
//!
//! Retraining rotates the coordinates of an embedding and keeps its inner products (paper 000, proposition 2); a rotation
//! fitted on shared ids reverts that (orthogonal Procrustes, Schönemann 1966), other maps join unequal dimensions.

mod anchors;
mod fit;
mod map;

pub use self::anchors::Anchors;
pub use self::fit::{
    Certificate, Common, FitSettings, Fitted, Fitting, MapChoice, Method, Names, fit, fit_common,
    nothing_shared,
};
pub use self::map::{MAP_FORMAT, MapKind, map_id};
