//! What every verb checks before it starts, derived from the declaration of its settings: no output is an input, and a
//! folder of publications means its current version, resolved once.

use std::path::{Path, PathBuf};

use veridical_core::settings::{Access, Field, Kind, SettingsLayer, Value, Values};
use veridical_io::{Input, path_value, publications, publish};

use crate::{Result, stability};

/// Rejects settings that would overwrite an input; `layers` are the strongest first, and `config` is the file of one of them.
///
/// # Errors
/// As [`publish::protect`].
pub fn protect(fields: &[Field], layers: &[SettingsLayer], config: Option<&Path>) -> Result<()> {
    let mut values = Values::new();
    for layer in layers.iter().rev() {
        values.extend(layer.values.iter().map(|(name, value)| (name.clone(), value.clone())));
    }
    let consumers = values.get("consumers").and_then(Value::as_str);
    let mut behind: Vec<PathBuf> = consumers.map(stability::files_of_consumers).unwrap_or_default();
    behind.extend(config.map(Path::to_owned));
    Ok(publish::protect(fields, &values, &behind)?)
}

/// Replaces every folder of publications that is read by its current version.
///
/// # Errors
/// As [`publications::resolve`].
pub fn resolve(fields: &[Field], mut layers: Vec<SettingsLayer>) -> Result<Vec<SettingsLayer>> {
    let is_read = |field: &&Field| {
        let kind =
            matches!(field.kind, Kind::Path(Access::Read) | Kind::List(Kind::Path(Access::Read)));
        kind && !field.is_root
    };
    for field in fields.iter().filter(is_read) {
        for layer in &mut layers {
            match layer.values.get_mut(&field.name) {
                Some(Value::Array(paths)) => paths.iter_mut().try_for_each(resolve_one)?,
                Some(path) => resolve_one(path)?,
                None => {}
            }
        }
    }
    Ok(layers)
}

fn resolve_one(value: &mut Value) -> Result<()> {
    // A value of another kind is reported when the settings are made.
    let Ok(path) = serde_json::from_value::<Input>(value.clone()) else { return Ok(()) };
    if !path.as_os_str().is_empty()
        && let Some(version) = publications::resolve(&path)?
    {
        *value = path_value(version.as_os_str());
    }
    Ok(())
}
