//! Models that read a history as a sequence.
//!
//! A network turns the rows of the items of a history, in the order of time, into a row h at every position; items are
//! scored by <h, E_i>, where h is that of the last position and E_i a row of the item's own.

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
use tower::{load_table, save_table};

use std::borrow::Cow;
use std::collections::BTreeMap;

use veridical_core::Seed;
use veridical_data::TensorMap;
use veridical_nets::{Mode, Net, Workspace};

use crate::saved::incomplete;
use crate::{Embedding, Result};

/// Tensors of a network under its own names, after this.
pub(crate) const USER_NET: &str = "user.net.";
/// The same for the network of items, if there is one.
pub(crate) const ITEM_NET: &str = "item.net.";
/// What an optimiser keeps stands after this.
pub(crate) const STATE: &str = "state.";

/// Items that go through their network at once.
const ITEMS: usize = 1024;

/// A model of sequences.
#[derive(Clone, Debug, PartialEq)]
pub struct Sequential {
    /// What its networks are.
    pub architecture: Architecture,
    /// One row per item: what the network reads.
    pub item: Embedding,
    /// The parameters of its networks.
    pub nets: TensorMap,
    /// What the optimisers keep, while it is trained.
    pub state: TensorMap,
}

impl Sequential {
    /// From the numbers of the architecture and all other tensors.
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

    /// What scores items.
    ///
    /// # Errors
    /// [`crate::Error::Nets`] if the parameters are not those of the architecture.
    pub fn reader(&self) -> Result<Reader<'_>> {
        Reader::new(self)
    }

    /// The network that reads histories, with its parameters.
    pub(crate) fn user_net(&self) -> Result<Net<f32>> {
        let mut net = self.architecture.user_net(self.item.dim(), 0.0, Seed::new(0)?)?;
        take_over(&mut net, &self.nets, USER_NET)?;
        Ok(net)
    }

    /// What items are scored with: their rows, or what their network makes of them.
    fn targets(&self) -> Result<Cow<'_, [f32]>> {
        if !self.architecture.has_item_net() {
            return Ok(self.item.values().into());
        }
        let mut net = self.architecture.item_net(self.item.dim(), Seed::new(0)?)?;
        take_over(&mut net, &self.nets, ITEM_NET)?;
        let mut work = Workspace::new(&net, ITEMS, None);
        let mut targets = Vec::with_capacity(self.item.n_rows() * net.outputs());
        for block in self.item.values().chunks(ITEMS * self.item.dim()) {
            let n = block.len() / self.item.dim();
            net.forward(&mut work, n, Mode::Frozen, 0, |rows| rows.copy_from_slice(block));
            targets.extend_from_slice(work.outputs(&net));
        }
        Ok(targets.into())
    }

    /// Without what the optimisers keep.
    pub(crate) fn handed_out(self) -> Self {
        Self { state: TensorMap::default(), ..self }
    }
}

/// The tensors of a network, under names after a prefix.
pub(crate) fn hand_over(net: &Net<f32>, prefix: &str, to: &mut TensorMap) {
    for (name, (shape, values)) in net.export() {
        to.insert(format!("{prefix}{name}"), (shape, values));
    }
}

/// Sets the parameters of a network from the tensors after a prefix.
pub(crate) fn take_over(net: &mut Net<f32>, from: &TensorMap, prefix: &str) -> Result<()> {
    let own = from.iter().filter_map(|(name, (shape, values))| {
        let tensor = (shape.clone(), values.clone());
        Some((name.strip_prefix(prefix)?.to_owned(), tensor))
    });
    Ok(net.import(&own.collect(), true)?)
}
