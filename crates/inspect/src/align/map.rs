//! Kinds of maps, and the id of a map from its content.

use serde::Serialize;
use sha2::{Digest, Sha256};
use veridical_learn::LinearMap;

/// The format name of stored maps, which the hash of a map id begins with.
pub const MAP_FORMAT: &str = "veridical-map/1";

/// The kind of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MapKind {
    /// A rotation or reflection, which keeps all inner products.
    Rotation,
    /// A rotation with a shift, a scale or both.
    Similarity,
    /// Any linear map.
    Ridge,
    /// A linear map of small rank.
    LowRank,
}

impl MapKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Rotation, Self::Similarity, Self::Ridge, Self::LowRank];

    /// Returns the name used in files and results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rotation => "rotation",
            Self::Similarity => "similarity",
            Self::Ridge => "ridge",
            Self::LowRank => "low-rank",
        }
    }
}

/// Returns the id of a map to a reference.
///
/// It is the hex SHA-256 of [`MAP_FORMAT`], "\n", the kind, "\n", the fingerprint of the reference, "\n", both dimensions as
/// u64 and the bits of `from`, `matrix` and `to`, all little endian. Equal ids mean equal maps to equal references.
pub fn map_id(map: &LinearMap, kind: MapKind, reference: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(format!("{MAP_FORMAT}\n{}\n{reference}\n", kind.name()));
    for width in [map.input_dim(), map.output_dim()] {
        hash.update((width as u64).to_le_bytes());
    }
    for value in map.from.iter().chain(&map.matrix).chain(&map.to) {
        hash.update(value.to_bits().to_le_bytes());
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
