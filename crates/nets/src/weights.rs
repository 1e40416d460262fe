//! Import and export of weights under PyTorch's names and shapes.
//!
//! A `state_dict` saved from the usual definition of an architecture loads unchanged: names are those of the modules,
//! convolutions are reordered from out, in, ky, kx to the order of this crate. Integers (`num_batches_tracked`) are
//! ignored. The prefix `module.` of every name, which data-parallel training adds, is removed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use veridical_core::Error as CoreError;
use veridical_data::TensorMap;

use crate::net::{Named, Net};
use crate::{Error, Float, Result};

/// Names of the same module in other definitions of a network: torchvision's and ours.
const SYNONYMS: [(&str, &str); 2] = [(".downsample.", ".shortcut."), ("fc.", "linear.")];
/// Maximum number of names of each kind that are listed.
const LISTED: usize = 8;

impl<T: Float> Net<T> {
    /// Returns the values of a tensor in PyTorch's order, from a list such as [`Net::params`] or its gradient.
    pub fn torch_order(&self, named: &Named, from: &[T]) -> Vec<T> {
        let mut values = from[named.place.clone()].to_vec();
        if let (Some(layer), true) = (self.nodes[named.node].layer(), named.is_parameter) {
            layer.export(named.which, &mut values);
        }
        values
    }

    /// Sets a tensor from values in PyTorch's order.
    ///
    /// # Panics
    /// If the number of values differs.
    pub fn set(&mut self, named: &Named, mut values: Vec<T>) {
        if let (Some(layer), true) = (self.nodes[named.node].layer(), named.is_parameter) {
            layer.import(named.which, &mut values);
        }
        let to = if named.is_parameter { &mut self.params } else { &mut self.buffers };
        to[named.place.clone()].copy_from_slice(&values);
    }

    /// Exports all parameters and buffers, in PyTorch's order of values.
    pub fn export(&self) -> TensorMap {
        let named = self.tensors().into_iter().map(|named| {
            let from = if named.is_parameter { &self.params } else { &self.buffers };
            let values = self.torch_order(&named, from).into_iter().map(|x| x.wide() as f32);
            (named.name.clone(), (named.shape.clone(), values.collect()))
        });
        named.collect()
    }

    /// Imports parameters and buffers from tensors.
    ///
    /// With `head` false the last layer may be missing or of another size and then keeps its initialization: this is how a network
    /// that was trained for other classes is fine-tuned.
    ///
    /// # Errors
    /// [`Error::Weights`] lists tensors that are missing, unexpected, or of the wrong shape.
    pub fn import(&mut self, tensors: &TensorMap, head: bool) -> Result<()> {
        let prefixed =
            !tensors.is_empty() && tensors.keys().all(|name| name.starts_with("module."));
        let named = self.tensors();
        let own: BTreeSet<&str> = named.iter().map(|named| named.name.as_str()).collect();
        let known = |name: &str| match name {
            _ if own.contains(name) => name.to_owned(),
            _ => SYNONYMS
                .iter()
                .fold(name.to_owned(), |name, (other, ours)| name.replace(other, ours)),
        };
        let stripped = |name: &str| known(if prefixed { &name["module.".len()..] } else { name });
        let given: BTreeMap<String, &(Vec<usize>, Vec<f32>)> =
            tensors.iter().map(|(name, tensor)| (stripped(name), tensor)).collect();
        let last = self.head();
        let mut missing = Vec::new();
        let mut wrong = Vec::new();
        let mut found = Vec::new();
        for named in &named {
            let optional = !head && Some(named.node) == last;
            match given.get(named.name.as_str()) {
                None if optional => {}
                None => missing.push(named.name.clone()),
                Some((shape, values)) if *shape == named.shape => found.push((named, values)),
                Some(_) if optional => {}
                Some((shape, _)) => wrong
                    .push(format!("{} is {shape:?} and should be {:?}", named.name, named.shape)),
            }
        }
        let own: BTreeSet<&str> = named.iter().map(|named| named.name.as_str()).collect();
        let extra: Vec<String> =
            given.into_keys().filter(|name| !own.contains(name.as_str())).collect();
        if !missing.is_empty() || !wrong.is_empty() || !extra.is_empty() {
            return Err(Error::Weights { missing, extra, wrong });
        }
        for (named, values) in found {
            if let Some(at) = values.iter().position(|x| !x.is_finite()) {
                let what = format!("{}[{at}] is {}", named.name, values[at]);
                return Err(CoreError::unfit(what, "weights must be finite").into());
            }
            self.set(named, values.iter().map(|&x| T::of(f64::from(x))).collect());
        }
        Ok(())
    }
}

pub(crate) fn mismatch(missing: &[String], extra: &[String], wrong: &[String]) -> String {
    let mut text = String::from("these are not the weights of this network: ");
    let mut parts = Vec::new();
    if !missing.is_empty() {
        let near = |name: &String| match nearest(name, extra) {
            Some(near) => format!("{name} (found {near})"),
            None => name.clone(),
        };
        parts.push(format!("missing {}", listed(missing.iter().map(near).collect())));
    }
    if !wrong.is_empty() {
        parts.push(format!("wrong shape: {}", listed(wrong.to_vec())));
    }
    if !extra.is_empty() {
        parts.push(format!("unexpected {}", listed(extra.to_vec())));
    }
    let _ = write!(text, "{}", parts.join("; ")); // writing to a String cannot fail
    text
}

fn listed(mut names: Vec<String>) -> String {
    let more = names.len().saturating_sub(LISTED);
    names.truncate(LISTED);
    let text = names.join(", ");
    if more > 0 { format!("{text} and {more} more") } else { text }
}

/// The name with the smallest edit distance, if it is small.
fn nearest<'a>(name: &str, among: &'a [String]) -> Option<&'a String> {
    let scored = among.iter().map(|other| (distance(name, other), other));
    scored.min_by_key(|(d, _)| *d).filter(|(d, _)| *d <= name.len() / 2).map(|(_, other)| other)
}

/// Number of insertions, deletions and replacements (Levenshtein 1966).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
