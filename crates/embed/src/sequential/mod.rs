//! Models that read a history as a sequence.
//!
//! A network maps the item rows of a history, in chronological order, to a row h at every position; items are scored by
//! <h, E_i>, with h at the last position and E_i a row of item i.

mod architecture;
mod batches;
mod learner;
mod reader;
mod tower;

pub use architecture::Architecture;
pub(crate) use batches::{Batch, Batches, Negatives};
pub(crate) use learner::{Course, Learner, Stepper};
pub use reader::Reader;
pub(crate) use tower::Tower;
pub(crate) use tower::{load as load_optimizer, save as save_optimizer};
use tower::{load_table, save_table};

use std::borrow::Cow;
use std::collections::BTreeMap;

use veridical_core::Seed;
use veridical_data::TensorMap;
use veridical_nets::{Mode, Net, Workspace};

use crate::saved::incomplete;
use crate::{Embedding, Result};

/// The prefix of tensor names of the user network.
pub(crate) const USER_NET: &str = "user.net.";
/// The prefix of tensor names of the item network, if any.
pub(crate) const ITEM_NET: &str = "item.net.";
/// The prefix of tensor names of optimizer state.
pub(crate) const STATE: &str = "state.";

/// The batch size of items in the item network.
const ITEMS: usize = 1024;

/// A sequential model.
#[derive(Clone, Debug, PartialEq)]
pub struct Sequential {
    /// The architecture of its networks.
    pub architecture: Architecture,
    /// The item embeddings that the network reads, one row per item.
    pub item: Embedding,
    /// The weights of its networks.
    pub nets: TensorMap,
    /// The optimizer state; empty after training.
    pub state: TensorMap,
}

impl Sequential {
    /// Makes a model from the numbers of the architecture and all other tensors.
    pub(crate) fn from_parts(numbers: &[f32], mut parts: TensorMap) -> Result<Self> {
        let Some((shape, values)) = parts.remove("item") else { return Err(incomplete()) };
        let &[_, dim] = shape.as_slice() else { return Err(incomplete()) };
        let state = parts.split_off(STATE);
        let (state, after): (BTreeMap<_, _>, BTreeMap<_, _>) =
            state.into_iter().partition(|(name, _)| name.starts_with(STATE));
        parts.extend(after);
        let architecture = Architecture::from_numbers(numbers).ok_or_else(incomplete)?;
        let item = Embedding::new(dim.max(1), values);
        Ok(Self { architecture, item, nets: parts, state })
    }

    /// Returns the scorer of its items.
    ///
    /// # Errors
    /// [`crate::Error::Nets`] if the weights do not fit the architecture.
    pub fn reader(&self) -> Result<Reader<'_>> {
        Reader::new(self)
    }

    /// The network that reads histories, with its weights.
    pub(crate) fn user_net(&self) -> Result<Net<f32>> {
        let mut net = self.architecture.user_net(self.item.dim(), 0.0, Seed::new(0)?)?;
        load_net(&mut net, &self.nets, USER_NET)?;
        Ok(net)
    }

    /// The vectors used for scoring: the item rows, or the outputs of the item network.
    fn targets(&self) -> Result<Cow<'_, [f32]>> {
        if !self.architecture.has_item_net() {
            return Ok(self.item.values().into());
        }
        let mut net = self.architecture.item_net(self.item.dim(), Seed::new(0)?)?;
        load_net(&mut net, &self.nets, ITEM_NET)?;
        let mut work = Workspace::new(&net, ITEMS, None);
        let mut targets = Vec::with_capacity(self.item.n_rows() * net.outputs());
        for block in self.item.values().chunks(ITEMS * self.item.dim()) {
            let n = block.len() / self.item.dim();
            net.forward(&mut work, n, Mode::Frozen, 0, |rows| rows.copy_from_slice(block));
            targets.extend_from_slice(work.outputs(&net));
        }
        Ok(targets.into())
    }

    /// Drops the optimizer state.
    pub(crate) fn without_state(self) -> Self {
        Self { state: TensorMap::default(), ..self }
    }
}

/// Saves the tensors of a network, with a prefix before their names.
pub(crate) fn save_net(net: &Net<f32>, prefix: &str, to: &mut TensorMap) {
    for (name, (shape, values)) in net.export() {
        to.insert(format!("{prefix}{name}"), (shape, values));
    }
}

/// Sets the weights of a network from the tensors with a prefix.
pub(crate) fn load_net(net: &mut Net<f32>, from: &TensorMap, prefix: &str) -> Result<()> {
    let own = from.iter().filter_map(|(name, (shape, values))| {
        let tensor = (shape.clone(), values.clone());
        Some((name.strip_prefix(prefix)?.to_owned(), tensor))
    });
    Ok(net.import(&own.collect(), true)?)
}
