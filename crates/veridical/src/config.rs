//! Sources of settings other than the caller: configuration files and the runs of earlier trainings.

use std::fs;
use std::path::Path;

use serde_json::Value;
use veridical_core::settings::{Kind, Settings, SettingsLayer, Values};
use veridical_io::run::RunFolder;

use crate::{Error, Result};

/// Reads a TOML file whose keys are the names of settings.
///
/// # Errors
/// [`Error::Core`] if the file cannot be read or parsed.
pub fn layer(path: &Path) -> Result<SettingsLayer> {
    let origin = path.display().to_string();
    let failed = |why: String| Error::request(format!("{origin}: {why}"), "");
    let text = fs::read_to_string(path).map_err(|e| failed(format!("cannot read: {e}")))?;
    let values = toml::from_str::<Values>(&text).map_err(|e| {
        let line = e.span().map_or(0, |span| text[..span.start].matches('\n').count() + 1);
        failed(format!("not a TOML file: line {line}: {}", e.message()))
    })?;
    Ok(SettingsLayer { origin: Some(origin), values })
}

/// Returns the settings of a run; those in `split` are stored in its `split` section under other names, paths in its log.
pub(crate) fn of_run<S: Settings>(
    run: &RunFolder,
    path: &Path,
    split: &[(&str, &str)],
) -> SettingsLayer {
    let document = run.document();
    let section = |name: &str| document.get(name).and_then(Value::as_object).into_iter().flatten();
    let own = |(name, value): (&String, &Value)| (name.clone(), value.clone());
    let mut values: Values = section("settings").chain(section("options")).map(own).collect();
    for (setting, name) in split {
        let value = document.get("split").and_then(|split| split.get(name));
        values.extend(value.map(|value| ((*setting).to_owned(), value.clone())));
    }
    values.extend(document.get("seed").map(|seed| ("seed".to_owned(), seed.clone())));
    let logged = run.logged("data").unwrap_or_default();
    let files = paths::<S>().into_iter();
    values.extend(files.filter_map(|file| Some((file.clone(), logged.get(&file)?.clone()))));
    values.retain(|_, value| !value.is_null());
    SettingsLayer { origin: Some(path.display().to_string()), values }
}

/// Returns the settings to store in `run.json`: those that are set, are not paths and are not stored `elsewhere`.
pub(crate) fn documented<S: Settings>(settings: &S, elsewhere: &[&str]) -> Values {
    let (mut values, paths) = (settings.given(), paths::<S>());
    values.retain(|name, value| {
        *value != Value::Bool(false) && !paths.contains(name) && !elsewhere.contains(&name.as_str())
    });
    values
}

/// Returns the path settings as absolute paths, for the log.
pub(crate) fn files<S: Settings>(settings: &S) -> Values {
    let (mut values, paths) = (settings.given(), paths::<S>());
    values.retain(|name, _| paths.contains(name));
    for value in values.values_mut() {
        let path = value.as_str().filter(|path| !path.contains("://"));
        if let Some(path) = path.and_then(|path| std::path::absolute(path).ok()) {
            *value = path.display().to_string().into();
        }
    }
    values
}

/// Returns the names of the settings that are paths.
fn paths<S: Settings>() -> Vec<String> {
    let is_path = |kind: Kind| matches!(kind, Kind::Path(_) | Kind::List(Kind::Path(_)));
    S::fields().into_iter().filter(|field| is_path(field.kind)).map(|field| field.name).collect()
}
