//! idx files (<http://yann.lecun.com/exdb/mnist/>): two zero bytes, the type (8: unsigned bytes), the number of
//! dimensions, each dimension as a big-endian u32, then the values, the last dimension fastest.
//!
//! Images have the dimensions n, height, width, and optionally channels; labels have n.

use std::fs;
use std::io::Read;
use std::path::Path;
use veridical_core::Error as Core;

use super::classes::numbered;
use super::folder::Folder;
use super::inputs::{Inputs, TEST_SET, by_number};
use super::{ExampleShape, Examples, Found, Origin, Targets, Values};
use crate::format::Compression;
use crate::publish;
use crate::read::decompressed;
use crate::{Error, Result};

const FORMAT: &str = "idx";
const UNSIGNED_BYTES: u8 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Images,
    Labels,
}

pub(super) fn is_here(folder: &Folder<'_>) -> bool {
    folder.direct().any(|(name, _)| role(name).is_some())
}

/// The name without a compression extension.
fn plain(name: &str) -> &str {
    Compression::of_name(name).map_or(name, |c| name.trim_end_matches(c.suffix()))
}

/// The content of a file by its name: `train-images-idx3-ubyte.gz`, or with a dot before `idx3`.
fn role(name: &str) -> Option<(bool, Content)> {
    let (part, rest) = plain(name).split_once('-')?;
    let is_train = match part {
        "train" => true,
        "t10k" | "test" => false,
        _ => return None,
    };
    match rest.replace('.', "-").as_str() {
        "images-idx3-ubyte" | "images-idx4-ubyte" => Some((is_train, Content::Images)),
        "labels-idx1-ubyte" => Some((is_train, Content::Labels)),
        _ => None,
    }
}

pub(super) fn read(folder: &Folder<'_>) -> Result<Found> {
    let file = |wanted: (bool, Content)| {
        let mut files = folder.direct().filter(|(name, _)| role(name) == Some(wanted));
        let Some((first, path)) = files.next() else { return Ok(None) };
        // A compressed copy may exist beside the plain file, after it in the order of names.
        match files.find(|(name, _)| plain(name) != plain(first)) {
            None => Ok(Some(path)),
            Some((other, _)) => {
                let what = format!("holds both {first} and {other}; keep one of them");
                Err(Error::content(folder.path, what))
            }
        }
    };
    let part = |is_train: bool| {
        let name = if is_train { "train" } else { "t10k" };
        match (file((is_train, Content::Images))?, file((is_train, Content::Labels))?) {
            (None, None) => Ok(None),
            (Some(images), Some(labels)) => {
                let part = read_part(images, labels)?;
                let origin = Origin::Files(vec![(labels.to_owned(), part.n())]);
                Ok(Some((part, origin)))
            }
            (Some(images), None) => Err(alone(images, &format!("{name}-labels-idx1-ubyte"))),
            (None, Some(labels)) => Err(alone(labels, &format!("{name}-images-idx3-ubyte"))),
        }
    };
    let ((train, of_train), (test, of_test)) = (part(true)?.unzip(), part(false)?.unzip());
    let (classes, origins) = (numbered([&train, &test]), [of_train, of_test]);
    Ok(Found { train, test, classes, origins, ..Found::default() })
}

/// The images of the test set, or else of the training set; labels need not be there.
pub(super) fn read_images(folder: &Folder<'_>) -> Result<Inputs> {
    let find = |is_train: bool| {
        folder.direct().find(|(name, _)| role(name) == Some((is_train, Content::Images)))
    };
    let (train, test) = (find(true), find(false));
    let note = (train.is_some() && test.is_some()).then(|| TEST_SET.to_owned());
    let Some((_, path)) = test.or(train) else {
        return Err(Error::content(folder.path, "has labels, but no images"));
    };
    let (_, shape, values) = read_image_array(path)?;
    let targets = Targets::Classes(Vec::new());
    Ok(by_number(Examples { shape, values: Values::Bytes(values), targets }, note))
}

fn alone(path: &Path, other: &str) -> Error {
    Error::content(path, format!("there is no {other} beside it; download it too"))
}

fn read_part(images: &Path, labels: &Path) -> Result<Examples> {
    let (label_dims, label_values) = read_array(labels)?;
    let &[n] = label_dims.as_slice() else {
        let what = format!("labels have one dimension, these have {}", label_dims.len());
        return Err(Error::content(labels, what));
    };
    let (n_images, shape, values) = read_image_array(images)?;
    if n_images != n {
        let labels = labels.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let what =
            format!("has {n_images} images, but {labels} has {n} labels; download both again");
        return Err(Error::content(images, what));
    }
    let classes = label_values.into_iter().map(u32::from).collect();
    Ok(Examples { shape, values: Values::Bytes(values), targets: Targets::Classes(classes) })
}

/// The number of images, their shape and their pixels.
fn read_image_array(path: &Path) -> Result<(usize, ExampleShape, Vec<u8>)> {
    let (dims, values) = read_array(path)?;
    let (n, height, width, channels) = match *dims.as_slice() {
        [n, height, width] => (n, height, width, 1),
        [n, height, width, channels] => (n, height, width, channels),
        _ => {
            let what = format!("images have three or four dimensions, these have {}", dims.len());
            return Err(Error::content(path, what));
        }
    };
    if values.is_empty() {
        return Err(Error::content(path, format!("has no pixels: its dimensions are {dims:?}")));
    }
    Ok((n, ExampleShape::Image { height, width, channels }, values))
}

/// Dimensions and values. Memory grows with the bytes that exist.
fn read_array(path: &Path) -> Result<(Vec<usize>, Vec<u8>)> {
    let damaged = |what: String| Error::malformed(path, FORMAT, what);
    let mut input = decompressed(path)?;
    let mut take = |n: usize| {
        let mut bytes = vec![0; n];
        input.read_exact(&mut bytes).map_err(|_| damaged("its header is cut off".into()))?;
        Ok::<_, Error>(bytes)
    };
    let magic = take(4)?;
    let &[0, 0, UNSIGNED_BYTES, n_dims @ 1..=4] = magic.as_slice() else {
        let what = "where 0, 0, 8 (unsigned bytes) and the number of dimensions are expected";
        return Err(damaged(format!("it begins with the bytes {magic:?} {what}")));
    };
    let dims = take(4 * usize::from(n_dims))?;
    let dims: Vec<usize> =
        dims.as_chunks().0.iter().map(|dim| u32::from_be_bytes(*dim) as usize).collect();
    let expected = dims.iter().try_fold(1usize, |n, &dim| n.checked_mul(dim));
    let expected = expected
        .filter(|&n| n < usize::MAX)
        .ok_or_else(|| damaged(format!("its dimensions {dims:?} are too large for any memory")))?;
    let mut values = Vec::new();
    let found = input.take(expected as u64 + 1).read_to_end(&mut values);
    let found = found.map_err(|e| damaged(e.to_string()))?;
    if found != expected {
        let found = if found > expected { "more".into() } else { found.to_string() };
        let what = format!("its dimensions {dims:?} promise {expected} bytes, found {found}");
        return Err(damaged(what));
    }
    values.shrink_to_fit();
    Ok((dims, values))
}

/// Writes images as idx files that [`read_examples`](super::read_examples) reads back.
///
/// # Errors
/// [`veridical_core::Error::Unfit`] for data that idx cannot store: numeric rows, and targets other than classes below 256.
/// [`Error::Write`] if writing fails.
pub fn write_idx(folder: &Path, train: Option<&Examples>, test: Option<&Examples>) -> Result<()> {
    fs::create_dir_all(folder).map_err(|e| Error::write(folder, e))?;
    train.map_or(Ok(()), |train| write_part(folder, "train", train))?;
    test.map_or(Ok(()), |test| write_part(folder, "t10k", test))
}

fn write_part(folder: &Path, name: &str, part: &Examples) -> Result<()> {
    let refused = |what: &str| Error::from(Core::unfit(format!("idx files hold {what}"), ""));
    let (ExampleShape::Image { height, width, channels }, Values::Bytes(values)) =
        (part.shape, &part.values)
    else {
        return Err(refused("images, not rows of numbers"));
    };
    let Targets::Classes(labels) = &part.targets else {
        return Err(refused("classes, not numbers to predict"));
    };
    let labels: std::result::Result<Vec<u8>, _> = labels.iter().map(|&l| u8::try_from(l)).collect();
    let labels = labels.map_err(|_| refused("at most 256 classes"))?;
    let mut dims = vec![part.n(), height, width];
    if channels > 1 {
        dims.push(channels);
    }
    let images = format!("{name}-images-idx{}-ubyte", dims.len());
    write_array(&folder.join(images), &dims, values)?;
    write_array(&folder.join(format!("{name}-labels-idx1-ubyte")), &[part.n()], &labels)
}

fn write_array(path: &Path, dims: &[usize], values: &[u8]) -> Result<()> {
    let mut bytes = vec![0, 0, UNSIGNED_BYTES, dims.len() as u8];
    for &dim in dims {
        let dim = u32::try_from(dim).map_err(|_| {
            Core::unfit(format!("{}: {dim} is too large for an idx file", path.display()), "")
        })?;
        bytes.extend(dim.to_be_bytes());
    }
    bytes.extend_from_slice(values);
    publish::put(path, &bytes)
}
