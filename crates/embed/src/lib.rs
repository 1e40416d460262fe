//! Trainers of embedding tables, and the evaluation of what they learn.
//!
//! - [`Embedding`]: a table of vectors while it is being learned.
//! - [`Trainer`]: one epoch at a time; random draws are addressed by epoch and sample, so a trainer's
//!   parameters are all of its state.
//! - [`fit`](fit::fit): the training loop, with validation, checkpoints and early stopping.
//! - [`Transition`]: stochastic shared embeddings (SSE), for every trainer.
//! - [`Model`]: the result of training; it scores items for users.
//! - [`evaluate`]: ranking and rating metrics; [`recommend`]: the top-k items of users; [`fold_in`]: users
//!   that are not in the training data.
//!
//! ```
//! use serde_json::Map;
//! use veridical_core::{Job, Seed};
//! use veridical_data::generate::{ShopSettings, shop};
//! use veridical_embed::fit::{FitSettings, Nowhere, fit};
//! use veridical_embed::{Error, Graphs, Input, Method, Trainer, recommend};
//!
//! let seed = Seed::new(0)?;
//! let settings =
//!     ShopSettings { users: 60, items: 20, clusters: 4, per_user: 8, skew: 0.5, noise: 0.1, seed };
//! let data = shop(settings)?.data;
//! let rows: Vec<u32> = (0..data.len() as u32).collect();
//! let graphs = Graphs::default();
//! let mut trainer = Method::Ease.trainer(&Map::new(), Input::of(&data, &rows), &graphs, seed)?;
//! let each = |_, _: Option<f64>, _: &dyn Trainer| Ok::<(), Error>(());
//! let (stopping, job) = (FitSettings::default(), Job::silent());
//! fit(&mut *trainer, stopping, None, None::<&Nowhere>, None, &job, each)?;
//!
//! let model = trainer.into_model();
//! let history = data.by_user(&rows);
//! let best = recommend(&*model.scorer()?, &[0], &history, None, 3, false);
//! assert_eq!(best[0].len(), 3);
//! assert!(best[0].iter().all(|item| !history.get(0).contains(&item.number)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod embedding;
mod error;
pub mod evaluate;
pub mod fit;
pub mod fold_in;
pub mod histories;
mod input;
mod method;
mod model;
mod recommend;
mod saved;
mod score;
mod sequential;
mod sgd;
mod sse;
mod stored;
mod trainer;
pub mod trainers;
pub mod warm;

pub use embedding::Embedding;
pub use error::{Error, Result};
pub use input::{Graphs, Input};
pub use method::{Method, Preset, Purpose};
pub use model::{Factors, Model};
pub use recommend::{recommend, similar};
pub use saved::{ModelTable, Part};
pub use score::{Pair, Scorer, Similarity};
pub use sequential::{Architecture, Sequential};
pub use sse::{Mover, Transition};
pub use stored::{StoredVectors, UserVectors};
pub use trainer::{Mode, Schedule, Trainer, finite};

/// The example of the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct ReadmeExample;
