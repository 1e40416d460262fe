//! Reads and writes user-item interactions.

mod read;
mod sequences;
mod write;

pub use self::read::{ColumnNames, InteractionOptions, Read, read};
pub use self::sequences::read_sequences;
pub use self::write::write;

#[cfg(test)]
mod tests;
