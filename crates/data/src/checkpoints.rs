//! How a training run is stored while it is in progress: metrics line by line, and checkpoints that it can resume from.
//!
//! The training loop stores its state through this trait and knows nothing of files; run folders implement it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::TensorMap;

/// A tensor to be stored.
#[derive(Clone, Copy, Debug)]
pub struct NamedTensor<'a> {
    /// The tensor's name.
    pub name: &'a str,
    /// The tensor's dimensions, slowest first; empty for a scalar.
    pub shape: &'a [usize],
    /// The values, row-major; their number is the product of the dimensions.
    pub values: &'a [f32],
}

/// Converts a tensor map to the form in which tensors are stored.
pub fn named(tensors: &TensorMap) -> Vec<NamedTensor<'_>> {
    tensors.iter().map(|(name, (shape, values))| NamedTensor { name, shape, values }).collect()
}

/// The state of a run after an epoch or a step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The number of completed epochs, or steps of a network.
    #[serde(alias = "epochs")]
    pub done: u32,
    /// State of the loop around the trainer.
    pub memo: Value,
    /// The length in bytes of the metrics up to this checkpoint.
    pub metrics_bytes: u64,
    #[serde(skip)]
    /// The trainer's state.
    pub state: TensorMap,
    #[serde(skip)]
    /// The state after the best epoch so far, if it is stored.
    pub best: Option<TensorMap>,
}

/// Storage for the checkpoints and metrics of a training run.
pub trait Checkpoints {
    /// The error of storing.
    type Error;

    /// Appends the metrics of an epoch, and returns the total number of bytes of metrics.
    ///
    /// # Errors
    /// If the metrics cannot be stored.
    fn add_metrics(&self, line: &Value) -> Result<u64, Self::Error>;

    /// Stores a state and deletes the previous one; the fields `state` and `best` of the checkpoint itself are ignored.
    ///
    /// # Errors
    /// If the state cannot be stored.
    fn save(
        &self,
        at: &Checkpoint,
        state: &[NamedTensor<'_>],
        best: Option<&[NamedTensor<'_>]>,
    ) -> Result<(), Self::Error>;
}
