//! Readers of images and numeric rows with targets.
//!
//! Reading twice returns the same data. If examples are read,
//! - there are as many targets as inputs, all finite, and a set has at least one;
//! - every class is below the number of names, and every class has a training example, if there is a training set;
//! - both sets have one shape;
//! - without targets, as a network is applied to them, they are read as well, with an id each.

use std::fs;
use std::path::Path;

use tempfile::TempDir;
use veridical_data::examples::{Dataset, Examples, Targets, Values};
use veridical_io::examples::{ExampleOptions, InputOptions, read_examples, read_inputs};

use crate::{Outcome, words};

/// A folder in which one file is the input.
pub(crate) struct Setting {
    /// The path of the file inside the folder.
    pub file: &'static str,
    /// The other files.
    pub beside: &'static [(&'static str, &'static [u8])],
    /// The target of a table, and whether it is a number.
    pub target: Option<(&'static str, bool)>,
}

thread_local! {
    /// The folder of the inputs; left behind if the process dies.
    static FOLDER: TempDir = tempfile::Builder::new()
        .prefix("veridical-fuzz-")
        .tempdir()
        .expect("a folder for the inputs can be created");
}

pub(crate) fn run(name: &str, setting: &Setting, bytes: &[u8], intact: bool) -> Outcome {
    FOLDER.with(|folder| {
        let folder = folder.path().join(name);
        if !folder.exists() {
            setting.beside.iter().for_each(|(file, bytes)| put(&folder.join(file), bytes));
        }
        put(&folder.join(setting.file), bytes);
        let path = if setting.target.is_some() { folder.join(setting.file) } else { folder };
        check(&path, setting, intact)
    })
}

fn check(path: &Path, setting: &Setting, intact: bool) -> Outcome {
    let target = setting.target.map(|(name, _)| name.to_owned());
    let regression = setting.target.is_some_and(|(_, is_number)| is_number);
    let options =
        ExampleOptions { target: target.into_iter().collect(), regression, ..Default::default() };
    let found = read_examples(path, &options);
    check_inputs(path, found.as_ref().ok());
    match found {
        Ok(data) => {
            let again = read_examples(path, &options).expect("it was read before");
            assert!(data == again, "what is read twice differs");
            check_data(&data);
            let shape = data.train.as_ref().map(|train| train.shape.dims().len());
            format!("read {shape:?}, {} classes", data.classes.len().min(4))
        }
        Err(error) => {
            assert!(!intact, "an intact file is refused: {error}");
            let text = error.to_string();
            words(text.split_once(": ").map_or(&*text, |(_, what)| what)) // without the file
        }
    }
}

/// Reads the same bytes without targets.
fn check_inputs(path: &Path, found: Option<&Dataset>) {
    let columns = found.map_or_else(|| vec!["a".to_owned()], |data| data.columns.clone());
    let options = InputOptions { columns, ..InputOptions::default() };
    match read_inputs(path, &options) {
        Ok(inputs) => {
            let n = inputs.examples.n();
            assert!(n > 0 && inputs.ids.len() == n);
            check_values(&inputs.examples);
        }
        Err(error) => assert!(found.is_none(), "examples are read, their inputs are not: {error}"),
    }
}

fn check_data(data: &Dataset) {
    let parts = [&data.train, &data.test];
    assert!(parts.iter().any(|part| part.is_some()));
    let mut shapes = parts.iter().copied().flatten().map(|part| part.shape);
    let first = shapes.next();
    assert!(shapes.all(|shape| Some(shape) == first));
    parts.into_iter().flatten().for_each(|part| check_part(part, data.classes.len()));
    if let Some(Examples { targets: Targets::Classes(labels), .. }) = &data.train {
        assert!((0..data.classes.len() as u32).all(|class| labels.contains(&class)));
    }
}

fn check_part(part: &Examples, classes: usize) {
    let n = part.n();
    check_values(part);
    match &part.targets {
        Targets::Classes(labels) => {
            assert!(labels.len() == n && labels.iter().all(|&label| (label as usize) < classes));
        }
        Targets::Numbers { dim, values } => {
            assert!(values.len() == n * dim && values.iter().all(|x| x.is_finite()));
        }
    }
}

fn check_values(part: &Examples) {
    let (n, len) = (part.n(), part.shape.len());
    assert!(n > 0 && len > 0);
    match &part.values {
        Values::Bytes(values) => assert_eq!(values.len(), n * len),
        Values::Floats(values) => {
            assert!(values.len() == n * len && values.iter().all(|x| x.is_finite()));
        }
    }
}

/// Creates a new file: some file systems flush an overwritten one, which takes longer than everything else.
fn put(path: &Path, bytes: &[u8]) {
    let folder = path.parent().expect("a file is in a folder");
    fs::create_dir_all(folder).expect("the folder can be created");
    let _ = fs::remove_file(path); // does not exist the first time
    fs::write(path, bytes).expect("the input can be put into its file");
}
