//! CIFAR in its binary version (<https://www.cs.toronto.edu/~kriz/cifar.html>).
//!
//! CIFAR-10    record = label, 1,024 red, 1,024 green, 1,024 blue       3,073 bytes
//! CIFAR-100   record = coarse label, fine label, and the same planes   3,074 bytes; the fine label is used
//!
//! Planes are 32 x 32, row-major. Class names are in `batches.meta.txt` or `fine_label_names.txt`,
//! one per line; without that file they are numbers.

use std::path::Path;

use super::classes::named;
use super::folder::Folder;
use super::{ExampleShape, Examples, Found, Origin, Targets, Values};
use crate::{Error, Result, storage};

const FORMAT: &str = "CIFAR";
const SIDE: usize = 32;
const PLANE: usize = SIDE * SIDE;
const CHANNELS: usize = 3;
/// CIFAR-100's training file has 154 MB.
const MAX_BYTES: u64 = 4 << 30;

/// The offset of the label and the number of classes.
#[derive(Clone, Copy)]
struct Version {
    labels: usize,
    classes: usize,
    names: &'static str,
}

const CIFAR_10: Version = Version { labels: 1, classes: 10, names: "batches.meta.txt" };
const CIFAR_100: Version = Version { labels: 2, classes: 100, names: "fine_label_names.txt" };

pub(super) fn is_here(folder: &Folder<'_>) -> bool {
    !folder.batches(".bin").is_empty()
        || folder.find(&["test_batch.bin", "train.bin", "test.bin"]).is_some()
}

pub(super) fn read(folder: &Folder<'_>) -> Result<Found> {
    let batches = folder.batches(".bin");
    let is_10 = !batches.is_empty() || folder.find(&["test_batch.bin"]).is_some();
    let (version, train, test) = if is_10 {
        (CIFAR_10, batches, folder.find(&["test_batch.bin"]))
    } else {
        let train = folder.find(&["train.bin"]).into_iter().collect();
        (CIFAR_100, train, folder.find(&["test.bin"]))
    };
    let (train, of_train) = read_part(&train, version)?.unzip();
    let (test, of_test) = read_part(test.as_slice(), version)?.unzip();
    let classes = named(folder, version.names, version.classes, [&train, &test])?;
    Ok(Found { train, test, classes, origins: [of_train, of_test], ..Found::default() })
}

fn read_part(files: &[&Path], version: Version) -> Result<Option<(Examples, Origin)>> {
    if files.is_empty() {
        return Ok(None);
    }
    let (mut values, mut classes, mut parts) = (Vec::new(), Vec::new(), Vec::new());
    for path in files {
        let before = classes.len();
        read_records(path, version, &mut values, &mut classes)?;
        parts.push((path.to_path_buf(), classes.len() - before));
    }
    let shape = ExampleShape::Image { height: SIDE, width: SIDE, channels: CHANNELS };
    let (values, targets) = (Values::Bytes(values), Targets::Classes(classes));
    Ok(Some((Examples { shape, values, targets }, Origin::Files(parts))))
}

fn read_records(
    path: &Path,
    version: Version,
    values: &mut Vec<u8>,
    classes: &mut Vec<u32>,
) -> Result<()> {
    let bytes = storage::read(path, MAX_BYTES)?;
    let record = version.labels + CHANNELS * PLANE;
    let (n, rest) = (bytes.len() / record, bytes.len() % record);
    if rest != 0 || n == 0 {
        let what = format!("{} bytes are not whole records of {record} bytes", bytes.len());
        return Err(Error::malformed(path, FORMAT, format!("{what}: {n} and {rest} bytes")));
    }
    values.reserve(n * CHANNELS * PLANE);
    for (i, record) in bytes.chunks_exact(record).enumerate() {
        let (labels, pixels) = record.split_at(version.labels);
        let label = labels[version.labels - 1];
        if usize::from(label) >= version.classes {
            let what = format!(
                "record {i} has the label {label} where 0 to {} are expected",
                version.classes - 1
            );
            return Err(Error::malformed(path, FORMAT, what));
        }
        classes.push(u32::from(label));
        let (red, rest) = pixels.split_at(PLANE);
        let (green, blue) = rest.split_at(PLANE);
        values.extend(red.iter().zip(green).zip(blue).flat_map(|((&r, &g), &b)| [r, g, b]));
    }
    Ok(())
}
