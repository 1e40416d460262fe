//! One guard for the outputs of every verb, derived from the declaration of its settings: no output is ever an input, by
//! any name, and pages, summaries and metrics replace nothing but their own kind.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;
use veridical_core::Error as Core;
use veridical_core::settings::{Access, Field, Kind, Values};

use crate::run::{self, RunFolder};
use crate::{Input, Result, publications, storage};

/// The first line of every page.
pub const PAGE: &str = "<!doctype html><!-- veridical -->";
/// The beginning of every summary in Markdown.
pub const SUMMARY: &str = "**Veridical";
/// The first line of every metrics file.
pub const METRICS: &str = "# veridical";

/// An output with a form of its own: its setting, its extensions, what it is, and how it begins.
const FORMS: [(&str, &[&str], &str, &str); 3] = [
    ("html", &["html", "htm"], "page", PAGE),
    ("markdown", &["md", "markdown"], "summary", SUMMARY),
    ("prometheus", &["prom", "txt"], "metrics file", METRICS),
];

/// Folders for unfinished work: they may lie anywhere but on an input.
const WORK: [&str; 2] = ["staging", "keep"];

/// A path and the setting that names it.
struct Named {
    setting: String,
    path: PathBuf,
    real: Option<PathBuf>,
}

impl Named {
    fn new(setting: &str, path: PathBuf) -> Self {
        let real = real_path(&path);
        Self { setting: setting.to_owned(), path, real }
    }
}

/// Rejects settings that would overwrite an input, or a file that is not of the kind that is written. `behind` are further
/// files that the inputs refer to.
///
/// # Errors
/// [`veridical_core::Error::Request`] and [`veridical_core::Error::Exists`] name the setting, the path and the remedy.
pub fn protect(fields: &[Field], values: &Values, behind: &[PathBuf]) -> Result<()> {
    let outputs = paths(fields, values, Access::Written);
    if outputs.is_empty() {
        return Ok(());
    }
    let mut inputs = paths(fields, values, Access::Read);
    let data: Vec<PathBuf> = inputs.iter().flat_map(|input| data_of_run(&input.path)).collect();
    let further = behind.iter().cloned().chain(data);
    inputs.extend(further.map(|path| Named::new("", path)));
    for output in &outputs {
        for input in &inputs {
            refuse_input(output, input)?;
        }
        let force = values.get("force") == Some(&Value::Bool(true));
        check_form(output, force)?;
        refuse_version(output)?;
    }
    for (i, output) in outputs.iter().enumerate() {
        let same = |other: &&Named| output.path == other.path || is_same(output, other);
        if let Some(other) = outputs[..i].iter().find(same) {
            let what = format!(
                "{}: ⟨{}⟩ and ⟨{}⟩ name the same file",
                output.path.display(),
                other.setting,
                output.setting
            );
            return Err(Core::request(what, "choose another name for one of them").into());
        }
    }
    Ok(())
}

/// The paths that settings name, without streams.
fn paths(fields: &[Field], values: &Values, wanted: Access) -> Vec<Named> {
    let mut found = Vec::new();
    for field in fields {
        let (Kind::Path(access) | Kind::List(&Kind::Path(access))) = field.kind else { continue };
        if access != wanted {
            continue;
        }
        let value = values.get(&field.name).unwrap_or(&field.default);
        let several = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        for path in
            several.iter().filter_map(|path| serde_json::from_value::<Input>(path.clone()).ok())
        {
            if !path.as_os_str().is_empty() && *path != *Path::new("-") {
                found.push(Named::new(&field.name, path.to_path_buf()));
            }
        }
    }
    found
}

/// The files that a run was trained on.
fn data_of_run(path: &Path) -> Vec<PathBuf> {
    let Ok(run) = RunFolder::open(path) else { return Vec::new() };
    let Some(Value::Object(data)) = run.logged("data") else { return Vec::new() };
    let path = |value: &Value| value.as_str().map(PathBuf::from).filter(|path| path.is_absolute());
    data.values().filter_map(path).collect()
}

fn is_same(a: &Named, b: &Named) -> bool {
    match (&a.real, &b.real) {
        (Some(a), Some(b)) => a == b || is_same_file(a, b),
        _ => false,
    }
}

/// Whether two names are of one file, as hard links are.
#[cfg(unix)]
fn is_same_file(a: &Path, b: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;

    let of = |path: &Path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    of(a).is_some_and(|a| of(b) == Some(a))
}

#[cfg(not(unix))]
fn is_same_file(_a: &Path, _b: &Path) -> bool {
    false
}

/// Follows the links of a path, which need not exist itself.
pub fn real_path(path: &Path) -> Option<PathBuf> {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let by_parent = || Some(parent.canonicalize().ok()?.join(path.file_name()?));
    path.canonicalize().ok().or_else(by_parent)
}

fn refuse_input(output: &Named, input: &Named) -> Result<()> {
    let refused = |why: String| {
        let setting = match output.setting.as_str() {
            "" => String::new(),
            name => format!("⟨{name}⟩ "),
        };
        let what = format!("{setting}{}: {why}", output.path.display());
        Err(Core::request(what, "no input is ever overwritten; choose another name").into())
    };
    let of = match input.setting.as_str() {
        "" => "an input of this job".to_owned(),
        name => format!("the input of ⟨{name}⟩"),
    };
    if storage::overlap(&input.path, &output.path)? == Some(true) {
        return refused(format!("this is {of}, or one is inside the other"));
    }
    if is_same(output, input) {
        return refused(format!("this is {of}"));
    }
    let (Some(to), Some(from)) = (&output.real, &input.real) else { return Ok(()) };
    let is_work = WORK.contains(&output.setting.as_str());
    if to.starts_with(from) && to.is_file() && !begins_with_ours(to) && belongs(from, to) {
        return refused(format!("this file belongs to {of}, {}", input.path.display()));
    }
    // Publications are never replaced by the next one.
    if from.starts_with(to) && from.exists() && !is_work && !publications::is_root(to)? {
        return refused(format!("{of}, {}, is inside it", input.path.display()));
    }
    Ok(())
}

/// Whether a file in an input folder is read with it; next to a run there may be others.
fn belongs(folder: &Path, file: &Path) -> bool {
    let name = file.strip_prefix(folder).ok().and_then(|path| path.components().next());
    let name = name.map(|name| name.as_os_str().to_string_lossy().into_owned());
    !RunFolder::is_run(folder) || name.is_some_and(|name| run::OWN_NAMES.contains(&name.as_str()))
}

/// Rejects an output inside a published version, which never changes.
fn refuse_version(output: &Named) -> Result<()> {
    let Some(real) = &output.real else { return Ok(()) };
    let is_version = |folder: &&Path| publications::is_version(folder).unwrap_or(false);
    match real.ancestors().skip(1).find(is_version) {
        None => Ok(()),
        Some(version) => {
            let what = format!(
                "⟨{}⟩ {}: this is inside the published version {}",
                output.setting,
                output.path.display(),
                version.display()
            );
            Err(Core::request(what, "a version never changes; choose another name").into())
        }
    }
}

fn check_form(output: &Named, force: bool) -> Result<()> {
    let form = FORMS.iter().find(|(setting, ..)| *setting == output.setting);
    let Some((setting, extensions, what, start)) = form else { return Ok(()) };
    let path = &output.path;
    let extension = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    if !extensions.contains(&&*extension) {
        let what = format!("⟨{setting}⟩ {}: not the name of a {what}", path.display());
        return Err(Core::request(what, format!("its name ends in .{}", extensions[0])).into());
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    if let Some(parent) = parent.filter(|parent| !storage::is_remote(path) && !parent.is_dir()) {
        let what = format!("{} does not exist or is not a folder", parent.display());
        return Err(Core::missing(what, "create it first").into());
    }
    if path.is_dir() {
        return Err(Core::exists(format!("{} is a folder", path.display()), "name a file").into());
    }
    if !path.is_file() || force || begins_with(path, start) {
        return Ok(());
    }
    let what = format!("{} already exists and is not a {what} of veridical", path.display());
    Err(Core::exists(what, "choose another name or replace it with ⟨force⟩").into())
}

fn begins_with_ours(path: &Path) -> bool {
    FORMS.iter().any(|(.., start)| begins_with(path, start))
}

fn begins_with(path: &Path, start: &str) -> bool {
    let mut bytes = vec![0; start.len()];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut bytes));
    read.is_ok() && bytes == start.as_bytes()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use veridical_core::settings;
    use veridical_core::settings::Settings as _;

    use super::*;
    use crate::Output;

    settings! {
        /// An example.
        pub struct Example {
            /// Tables
            pub tables: Vec<Input> = Vec::new(),
            /// Page
            pub html: Option<Output> = None,
            /// Summary
            pub markdown: Option<Output> = None,
            /// Folder
            pub out: Option<Output> = None,
            /// Replace
            pub force: bool = false,
        }
    }

    fn refused(values: &Value) -> String {
        let values = values.as_object().cloned().unwrap();
        match protect(&Example::fields(), &values, &[]) {
            Ok(()) => String::new(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn no_output_is_an_input_by_any_name() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("a.html"), PAGE).unwrap();
        fs::create_dir(at("folder")).unwrap();
        fs::write(at("folder/part.parquet"), "x").unwrap();
        fs::hard_link(at("a.html"), at("hard.html")).unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(at("a.html"), at("soft.html")).unwrap();
        let names = ["a.html", "hard.html", "soft.html", "folder/../a.html"];
        for name in names {
            let message =
                refused(&json!({ "tables": [at("a.html")], "html": at(name), "force": true }));
            assert!(
                message.contains(": this is the input of ⟨tables⟩; no input is"),
                "{name}: {message}"
            );
        }
        for (input, output) in
            [("folder", "folder/part.parquet"), ("folder/part.parquet", "folder")]
        {
            let message = refused(&json!({ "tables": [at(input)], "out": at(output) }));
            assert!(
                message.contains("no input is ever overwritten"),
                "{input} {output}: {message}"
            );
        }
        assert_eq!(
            refused(&json!({ "tables": [at("folder")], "html": at("folder/new.html") })),
            ""
        );
        let twice = refused(&json!({ "html": at("b.html"), "out": at("folder/../b.html") }));
        assert!(twice.contains("⟨html⟩ and ⟨out⟩ name the same file"), "{twice}");
    }

    #[test]
    fn a_page_replaces_a_page_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("ours.html"), format!("{PAGE}\n<html>")).unwrap();
        fs::write(at("other.html"), "<!doctype html>\n<html>").unwrap();
        fs::write(at("ours.md"), "**Veridical:** safe").unwrap();
        assert_eq!(refused(&json!({ "html": at("ours.html"), "markdown": at("ours.md") })), "");
        assert_eq!(refused(&json!({ "html": at("new.html"), "markdown": "-" })), "");
        let other = refused(&json!({ "html": at("other.html") }));
        assert!(other.ends_with("other.html already exists and is not a page of veridical; choose another name or replace it with ⟨force⟩"), "{other}");
        assert_eq!(refused(&json!({ "html": at("other.html"), "force": true })), "");
        let named = refused(&json!({ "html": "b.parquet" }));
        assert_eq!(named, "⟨html⟩ b.parquet: not the name of a page; its name ends in .html");
        assert!(refused(&json!({ "markdown": "b.toml" })).ends_with("its name ends in .md"));
    }
}
