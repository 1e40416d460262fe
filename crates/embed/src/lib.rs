//! Everything that learns an embedding table, and how it is judged.
//!
//! - [`Embedding`]: a table of vectors while it is being learnt.
//! - [`Trainer`]: one pass over the data at a time; what is drawn is addressed by epoch and sample, so a
//!   trainer's parameters are all of its state.
//! - [`Transition`]: stochastic shared embeddings, for every trainer.
//! - [`Model`]: what a trainer leaves behind; it scores items for users.
//! - [`evaluate`]: how good the scores are; [`recommend`]: the best of them; [`fold_in`]: users that came
//!   after the training.

mod embedding;
mod error;
pub mod evaluate;
pub mod fold_in;
mod input;
mod method;
mod model;
mod recommend;
mod saved;
mod score;
mod sequential;
pub mod settings;
mod sgd;
mod sse;
mod trainer;
pub mod trainers;

pub use embedding::Embedding;
pub use error::{Error, Result};
pub use input::{Graphs, Input};
pub use method::{Method, Purpose};
pub use model::{Factors, Model, Tensors};
pub use recommend::{recommend, similar};
pub use saved::{ModelTable, Part};
pub use score::{Pair, Scorer, Similarity};
pub use sequential::{Architecture, Sequential};
pub use settings::Flag;
pub use sse::{Mover, Transition};
pub use trainer::{Mode, Schedule, Settling, Trainer, finite};
