//! Scores of items by a network that reads histories.

use std::borrow::Cow;
use std::sync::Mutex;

use veridical_data::Lists;
use veridical_learn::products;
use veridical_nets::{Mode, Net, Workspace};

use super::Sequential;
use crate::{Embedding, Result, Scorer};

/// The batch size of histories.
const HISTORIES: usize = 16;

/// The scorer of a sequential model: a network reads the history of each user.
#[derive(Debug)]
pub struct Reader<'a> {
    net: Net<f32>,
    item: &'a Embedding,
    /// The item vectors used for scoring, as wide as the output of the network.
    targets: Cow<'a, [f32]>,
    length: usize,
    /// Workspaces that are free for reuse; at most one per concurrent caller.
    workspaces: Mutex<Vec<Workspace<f32>>>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(model: &'a Sequential) -> Result<Self> {
        Ok(Self {
            net: model.user_net()?,
            item: &model.item,
            targets: model.targets()?,
            length: model.architecture.length(),
            workspaces: Mutex::default(),
        })
    }

    fn workspace(&self) -> Workspace<f32> {
        let mut workspaces =
            self.workspaces.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let workspace = workspaces.pop();
        drop(workspaces);
        workspace.unwrap_or_else(|| Workspace::new(&self.net, HISTORIES * self.length, None))
    }

    /// Writes the network output at the last position of each history, `dim` values; zeros for an empty history.
    fn read<'h>(&self, histories: impl Iterator<Item = &'h [u32]>, out: &mut [f32]) {
        out.fill(0.0);
        let dim = self.net.outputs();
        let (mut starts, mut ids, mut places) = (vec![0], Vec::new(), Vec::new());
        for (at, history) in histories.enumerate() {
            if !history.is_empty() {
                ids.extend_from_slice(&history[history.len().saturating_sub(self.length)..]);
                starts.push(ids.len());
                places.push(at);
            }
        }
        if places.is_empty() {
            return;
        }
        let mut workspace = self.workspace();
        self.net.forward_sequences(&mut workspace, &starts, Mode::Frozen, 0, |rows| {
            for (row, &id) in rows.chunks_exact_mut(self.item.dim()).zip(&ids) {
                row.copy_from_slice(self.item.row(id as usize));
            }
        });
        let hidden = workspace.outputs(&self.net);
        for (end, at) in starts[1..].iter().zip(places) {
            out[at * dim..][..dim].copy_from_slice(&hidden[(end - 1) * dim..][..dim]);
        }
        self.workspaces.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(workspace);
    }
}

impl Scorer for Reader<'_> {
    fn n_items(&self) -> usize {
        self.item.n_rows()
    }

    fn n_users(&self) -> Option<usize> {
        None
    }

    fn is_sequential(&self) -> bool {
        true
    }

    fn score(&self, users: &[u32], history: &Lists, out: &mut [f32]) {
        let dim = self.net.outputs();
        let mut hidden = vec![0.0; users.len() * dim];
        for (users, hidden) in users.chunks(HISTORIES).zip(hidden.chunks_mut(HISTORIES * dim)) {
            self.read(users.iter().map(|&u| history.get(u as usize)), hidden);
        }
        products(&hidden, &self.targets, dim, out);
    }
}
