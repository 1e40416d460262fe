//! The methods, one per file: objective with its source, settings, trainer.

pub mod als;
pub mod bpr;
pub(crate) mod chosen;
mod closed_form;
mod cooccurrence;
pub mod doc2vec;
pub mod ease;
pub mod item2vec;
pub mod itemknn;
pub mod mf;
pub mod pop;
pub mod ppmi_svd;
pub mod sasrec;
pub mod two_tower;
