//! Folders of images: `CLASS/*.png`, or `train/CLASS/*.png` and `test/CLASS/*.png`; PNG and JPEG.
//!
//! The sorted names of the folders are the classes; the images of a class are in the order of their names. All
//! images have the same size and number of channels.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use arrow_array::StringArray;
use rayon::prelude::*;
use veridical_core::Error as Core;
use veridical_data::Ids;

use super::decode::{Pixels, decode};
use super::folder::Folder;
use super::inputs::Inputs;
use super::{ExampleShape, Examples, Found, Targets, Values};
use crate::read::is_skipped;
use crate::{Error, Result, storage};

/// The pixels of a photograph of 4,096 x 4,096; networks use far less.
const MAX_VALUES: usize = 3 << 24;
const MAX_BYTES: u64 = 256 << 20;
/// Images that are decoded in parallel before they are put in order.
const BLOCK: usize = 256;
const PARTS: [&str; 2] = ["train", "test"];

pub(super) fn is_here(folder: &Folder<'_>) -> bool {
    folder.files().iter().any(|file| match file.names.as_slice() {
        [_, name] => is_image(name),
        [part, _, name] => PARTS.contains(&part.as_str()) && is_image(name),
        _ => false,
    })
}

/// Whether images are in the folder itself.
pub(super) fn are_direct(folder: &Folder<'_>) -> bool {
    folder.direct().any(|(name, _)| is_image(name))
}

fn is_image(name: &str) -> bool {
    let extension = name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
    matches!(extension.as_deref(), Some("png" | "jpg" | "jpeg"))
}

/// Images by class.
type ByClass<'a> = BTreeMap<&'a str, Vec<&'a Path>>;

pub(super) fn read(folder: &Folder<'_>) -> Result<Found> {
    let has_parts = folder.files().iter().any(|file| file.names.len() == 3);
    let [mut train, mut test] = [ByClass::new(), ByClass::new()];
    for file in folder.files().iter().filter(|file| file.names.len() > 1) {
        let (part, class, name) = match file.names.as_slice() {
            [class, name] if !has_parts => (&mut train, class, name),
            [part, class, name] if part == PARTS[0] => (&mut train, class, name),
            [part, class, name] if part == PARTS[1] => (&mut test, class, name),
            _ => return Err(misplaced(&file.path)),
        };
        if !is_image(name) {
            let what = "is not a PNG or JPEG image; convert or remove it";
            return Err(Error::content(&file.path, what));
        }
        part.entry(class).or_default().push(&file.path);
    }
    refuse_empty_classes(folder.path, has_parts)?;
    let mut classes: Vec<&str> = train.keys().chain(test.keys()).copied().collect();
    classes.sort_unstable();
    classes.dedup();
    let mut first = None;
    let [train, test] = [train, test].map(|part| read_part(&part, &classes, &mut first));
    let classes = classes.into_iter().map(str::to_owned).collect();
    Ok(Found { train: train?, test: test?, classes, ..Found::default() })
}

fn misplaced(path: &Path) -> Error {
    let what = "is misplaced: images belong in CLASS/, or all in train/CLASS/ and test/CLASS/";
    Error::content(path, format!("{what}; move it"))
}

/// Empty folders do not show in the list of files.
fn refuse_empty_classes(path: &Path, has_parts: bool) -> Result<()> {
    let parts: Vec<PathBuf> = match has_parts {
        true => PARTS.iter().map(|part| path.join(part)).collect(),
        false => vec![path.to_owned()],
    };
    // A store has no empty folders, and nothing can be listed there.
    for part in parts.iter().filter(|part| part.is_dir()) {
        let failed = |e| Error::read(part, "list the folder", e);
        let mut folders = Vec::new();
        for entry in fs::read_dir(part).map_err(failed)? {
            let entry = entry.map_err(failed)?.path();
            let name = entry.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if entry.is_dir() && !is_skipped(&name) {
                folders.push(entry);
            }
        }
        folders.sort();
        for class in folders {
            if storage::list(&class, is_skipped)?.is_some_and(|files| files.is_empty()) {
                let what = "the class has no image; put some there or remove the folder";
                return Err(Error::content(class, what));
            }
        }
    }
    Ok(())
}

fn read_part<'a>(
    part: &ByClass<'a>,
    classes: &[&str],
    first: &mut Option<(&'a Path, ExampleShape)>,
) -> Result<Option<Examples>> {
    let number = |name: &str| classes.iter().position(|class| *class == name).unwrap_or_default();
    let of_class = |(name, files): (&&str, &Vec<&'a Path>)| {
        let class = number(name) as u32;
        files.iter().map(|&file| (class, file)).collect::<Vec<_>>()
    };
    let files: Vec<(u32, &Path)> = part.iter().flat_map(of_class).collect();
    let mut values = Vec::new();
    for block in files.chunks(BLOCK) {
        let images: Vec<Result<Pixels>> =
            block.par_iter().map(|(_, path)| read_image(path)).collect();
        for (image, &(_, path)) in images.into_iter().zip(block) {
            let Pixels { height, width, channels, values: pixels } = image?;
            let shape = ExampleShape::Image { height, width, channels };
            let (other, expected) = *first.get_or_insert((path, shape));
            if shape != expected {
                let what = format!("is {shape}, but {} is {expected}", other.display());
                let remedy = "give all images one size, and all gray or all colors";
                return Err(Error::content(path, format!("{what}; {remedy}")));
            }
            values.extend(pixels);
        }
    }
    let classes = files.iter().map(|&(class, _)| class).collect();
    Ok(first.filter(|_| !files.is_empty()).map(|(_, shape)| Examples {
        shape,
        values: Values::Bytes(values),
        targets: Targets::Classes(classes),
    }))
}

/// Every image below a folder, in the order of their paths, which are the ids.
pub(super) fn read_all(folder: &Folder<'_>) -> Result<Inputs> {
    let is_image = |names: &[String]| names.last().is_some_and(|name| is_image(name));
    let files: Vec<_> = folder.files().iter().filter(|file| is_image(&file.names)).collect();
    let paths = BTreeMap::from([("", files.iter().map(|file| file.path.as_path()).collect())]);
    let examples = read_part(&paths, &[""], &mut None)?;
    let examples = examples.ok_or_else(|| Error::no_rows(folder.path))?;
    let ids = StringArray::from_iter_values(files.iter().map(|file| file.names.join("/")));
    let targets = Targets::Classes(Vec::new());
    Ok(Inputs { ids: Ids::Text(ids), examples: Examples { targets, ..examples }, note: None })
}

fn read_image(path: &Path) -> Result<Pixels> {
    decode(path, &storage::read(path, MAX_BYTES)?, MAX_VALUES)
}

/// Writes images as `CLASS/NUMBER.png` below a folder.
///
/// # Errors
/// [`veridical_core::Error::Unfit`] for examples other than grayscale or RGB images of named classes, [`Error::Write`] if writing
/// fails.
pub fn write_image_folder(folder: &Path, examples: &Examples, classes: &[String]) -> Result<()> {
    let what = "only gray or RGB images of named classes become files";
    let refused = || Error::from(Core::unfit(what, ""));
    let (ExampleShape::Image { height, width, channels }, Values::Bytes(values)) =
        (examples.shape, &examples.values)
    else {
        return Err(refused());
    };
    let (Targets::Classes(labels), colors) = (&examples.targets, colors(channels)) else {
        return Err(refused());
    };
    let colors = colors.ok_or_else(refused)?;
    let digits = examples.n().to_string().len();
    for (i, (image, &label)) in values.chunks_exact(examples.shape.len()).zip(labels).enumerate() {
        let class = folder.join(classes.get(label as usize).ok_or_else(refused)?);
        fs::create_dir_all(&class).map_err(|e| Error::write(&class, e))?;
        let path = class.join(format!("{i:0digits$}.png"));
        write_png(&path, [height, width], colors, image)?;
    }
    Ok(())
}

const fn colors(channels: usize) -> Option<png::ColorType> {
    match channels {
        1 => Some(png::ColorType::Grayscale),
        3 => Some(png::ColorType::Rgb),
        _ => None,
    }
}

/// Returns an image as the bytes of a PNG file, with its width; `None` for rows of numbers and other numbers of channels.
///
/// # Panics
/// If there is no such row.
pub fn png_of(examples: &Examples, row: usize) -> Option<(Vec<u8>, u32)> {
    let (ExampleShape::Image { height, width, channels }, Values::Bytes(values)) =
        (examples.shape, &examples.values)
    else {
        return None;
    };
    let len = examples.shape.len();
    let mut bytes = Vec::new();
    let image = &values[row * len..][..len];
    encode(&mut bytes, [height, width], colors(channels)?, image).ok()?;
    Some((bytes, width as u32))
}

fn write_png(path: &Path, size: [usize; 2], colors: png::ColorType, image: &[u8]) -> Result<()> {
    let file = BufWriter::new(File::create(path).map_err(|e| Error::write(path, e))?);
    encode(file, size, colors, image).map_err(|e| Error::write(path, std::io::Error::other(e)))
}

fn encode(
    to: impl Write,
    [height, width]: [usize; 2],
    colors: png::ColorType,
    image: &[u8],
) -> std::result::Result<(), png::EncodingError> {
    let mut encoder = png::Encoder::new(to, width as u32, height as u32);
    encoder.set_color(colors);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(image)?;
    writer.finish()
}
