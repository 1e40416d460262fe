//! Pretrained weights, and frozen layers.

use std::path::Path;

use veridical_core::Job;
use veridical_data::TensorMap;
use veridical_io::run::{RunFolder, read_tensors};
use veridical_nets::Net;

use super::options::names;
use crate::{Error, Result};

/// Name for all layers but the last.
const FEATURES: &str = "features";
/// Maximum number of names that an error lists.
const LISTED: usize = 24;

/// Loads the tensors of a safetensors file or of a run.
pub(super) fn load(path: &Path) -> Result<TensorMap> {
    match RunFolder::is_run(path) {
        true => {
            let run = RunFolder::open(path)?;
            super::check_is_net(&run)?;
            Ok(run.model()?)
        }
        false if path.is_dir() => {
            let what = "is a folder but not a run; pass a safetensors file or a run folder";
            Err(Error::request(format!("⟨init⟩ {} {what}", path.display()), ""))
        }
        false => Ok(read_tensors(path)?),
    }
}

/// Loads weights into a network. If they have another number of outputs, the last layer keeps its initialization.
pub(super) fn import(
    net: &mut Net<f32>,
    tensors: &TensorMap,
    path: &Path,
    job: &Job<'_>,
) -> Result<()> {
    let Err(error) = net.import(tensors, true) else { return Ok(()) };
    let failed = |e| Error::request(format!("⟨init⟩ {}: {e}", path.display()), "");
    let Some(before) = outputs_of(tensors, net).filter(|&before| before != net.outputs()) else {
        return Err(failed(error));
    };
    net.import(tensors, false).map_err(failed)?;
    let (head, now) = (net.head_name().unwrap_or_default(), net.outputs());
    job.note(&format!(
        "⟨init⟩ has {before} outputs but the task has {now}: the last layer `{head}` is newly initialized"
    ));
    Ok(())
}

/// Returns the number of outputs of the weights, from the last layer under its usual names.
fn outputs_of(tensors: &TensorMap, net: &Net<f32>) -> Option<usize> {
    let own = net.head_name()?;
    [own, "linear", "fc"].iter().find_map(|head| {
        let name = format!("{head}.weight");
        let (shape, _) = tensors.get(&name).or_else(|| tensors.get(&format!("module.{name}")))?;
        shape.first().copied()
    })
}

/// Returns a predicate for whether a layer is trained.
pub(super) fn is_trained(
    net: &Net<f32>,
    freeze: Option<&str>,
) -> Result<impl Fn(&str) -> bool + use<>> {
    let frozen = names(freeze);
    let head = net.head_name().unwrap_or_default().to_owned();
    let mut layers: Vec<String> = Vec::new();
    for tensor in net.tensors() {
        let layer = tensor.name.rsplit_once('.').map_or("", |(layer, _)| layer);
        if layers.last().is_none_or(|last| last != layer) {
            layers.push(layer.to_owned());
        }
    }
    for name in frozen.iter().filter(|name| *name != FEATURES) {
        if !layers.iter().any(|layer| is_inside(layer, name)) {
            let more = layers.len().saturating_sub(LISTED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let known: Vec<&str> = layers.iter().take(LISTED).map(String::as_str).collect();
            let known = known.join(", ");
            return Err(Error::missing(
                format!("⟨freeze⟩: unknown layer `{name}`"),
                format!("the layers are {known}{more}, and `{FEATURES}` is all but `{head}`"),
            ));
        }
    }
    Ok(move |layer: &str| {
        !frozen.iter().any(|name| match name.as_str() {
            FEATURES => layer != head,
            name => is_inside(layer, name),
        })
    })
}

fn is_inside(layer: &str, name: &str) -> bool {
    layer.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}
