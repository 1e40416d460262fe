//! How a training is kept while it runs: metrics line by line, and states that it can go on from.
//!
//! A loop of epochs keeps its state through this trait and knows nothing of files; run folders implement it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::TensorMap;

/// A tensor to be kept.
#[derive(Clone, Copy, Debug)]
pub struct NamedTensor<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its sizes, slowest first; none for a single number.
    pub shape: &'a [usize],
    /// As many as the sizes multiply to, the last dimension fastest.
    pub values: &'a [f32],
}

/// Tensors as they are kept.
pub fn named(tensors: &TensorMap) -> Vec<NamedTensor<'_>> {
    tensors.iter().map(|(name, (shape, values))| NamedTensor { name, shape, values }).collect()
}

/// Where a run stood after an epoch or a step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Epochs, or steps of a network, that are done.
    #[serde(alias = "epochs")]
    pub done: u32,
    /// What the loop around the trainer remembers.
    pub memo: Value,
    /// Bytes of the metrics that belong to these.
    pub metrics_bytes: u64,
    #[serde(skip)]
    /// The trainer's state.
    pub state: TensorMap,
    #[serde(skip)]
    /// The state of the best epoch so far, if one is kept.
    pub best: Option<TensorMap>,
}

/// Keeps what a training has reached.
pub trait Checkpoints {
    /// What can go wrong.
    type Error;

    /// Appends the metrics of an epoch; how many bytes of metrics there are afterwards.
    ///
    /// # Errors
    /// If they cannot be kept.
    fn add_metrics(&self, line: &Value) -> Result<u64, Self::Error>;

    /// Keeps a state and forgets the one before; `state` and `best` of the checkpoint itself are not looked at.
    ///
    /// # Errors
    /// If it cannot be kept.
    fn save(
        &self,
        at: &Checkpoint,
        state: &[NamedTensor<'_>],
        best: Option<&[NamedTensor<'_>]>,
    ) -> Result<(), Self::Error>;
}
