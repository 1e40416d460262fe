//! Named tensors: the content of models, checkpoints and optimizer states.

use std::collections::BTreeMap;

/// Tensors by name: shape, slowest dimension first, and values.
pub type TensorMap = BTreeMap<String, (Vec<usize>, Vec<f32>)>;
