//! Data with planted truth, as files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, StringArray};
use arrow_schema::{DataType, Field};
use serde::Serialize;
use veridical_core::Seed;
use veridical_data::examples::write_idx;
use veridical_data::generate::{CorpusSettings, ShopSettings};
use veridical_data::{ColumnWriter, IdMap, generate, interactions};

use super::Folder;
use crate::{Error, Result};

/// A shop: users and items of latent clusters.
#[derive(Clone, Debug)]
pub struct GenerateShop {
    /// What it is like.
    pub settings: ShopSettings,
    /// The folder.
    pub out: PathBuf,
    /// csv, tsv, parquet or another ending that can be written.
    pub format: String,
    /// Replace files that are there.
    pub force: bool,
}

/// Documents of latent topics.
#[derive(Clone, Debug)]
pub struct GenerateText {
    /// What they are like.
    pub settings: CorpusSettings,
    /// The folder.
    pub out: PathBuf,
    /// csv, tsv, parquet or another ending that can be written.
    pub format: String,
    /// Replace files that are there.
    pub force: bool,
}

/// Images of classes that differ by their patterns.
#[derive(Clone, Debug)]
pub struct GenerateImages {
    /// To learn from.
    pub images: usize,
    /// To test on.
    pub test_images: usize,
    /// Pixels of a side.
    pub size: usize,
    /// Values of a pixel.
    pub channels: usize,
    /// Classes.
    pub classes: usize,
    /// Seed.
    pub seed: Seed,
    /// The folder.
    pub out: PathBuf,
    /// Replace files that are there.
    pub force: bool,
}

/// What was written.
#[derive(Clone, Debug, Serialize)]
pub struct Generated {
    /// The files.
    pub files: Vec<String>,
    /// Rows of the first of them.
    pub rows: usize,
}

/// Writes `interactions`, and the clusters of `items` and `users`.
///
/// # Errors
/// Settings under which no shop can be, and a folder that is there unless `force`.
pub fn shop(settings: &GenerateShop) -> Result<Generated> {
    let GenerateShop { settings, out, format, force } = settings;
    let folder = Folder::check(out, *force)?;
    let shop = generate::shop(*settings)?;
    let names = ["interactions", "items", "users"].map(|name| format!("{name}.{format}"));
    folder.write(|folder| {
        let rows: Vec<u32> = (0..shop.data.len() as u32).collect();
        interactions::write(&folder.join(&names[0]), &shop.data, &rows)?;
        labels(&folder.join(&names[1]), &shop.data.items, "cluster", &shop.item_cluster)?;
        labels(&folder.join(&names[2]), &shop.data.users, "cluster", &shop.user_cluster)
    })?;
    Ok(Generated { files: written(out, &names), rows: shop.data.len() })
}

/// Writes `documents`, and their `topics`.
///
/// # Errors
/// Settings under which no documents can be, and a folder that is there unless `force`.
pub fn text(settings: &GenerateText) -> Result<Generated> {
    let GenerateText { settings, out, format, force } = settings;
    let folder = Folder::check(out, *force)?;
    let planted = generate::corpus(*settings)?;
    let names = ["documents", "topics"].map(|name| format!("{name}.{format}"));
    let n = planted.texts.len();
    folder.write(|folder| {
        let fields = vec![
            Field::new("id", DataType::Int64, false),
            Field::new("text", DataType::Utf8, false),
        ];
        let mut writer = ColumnWriter::create(&folder.join(&names[0]), fields)?;
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..n as i64));
        writer.write(vec![ids, Arc::new(StringArray::from_iter_values(&planted.texts))])?;
        writer.finish()?;
        labels(&folder.join(&names[1]), &IdMap::numbered(n), "topic", &planted.doc_topic)
    })?;
    Ok(Generated { files: written(out, &names), rows: n })
}

/// Writes images and labels as idx files.
///
/// # Errors
/// Settings under which no images can be, and a folder that is there unless `force`.
pub fn images(settings: &GenerateImages) -> Result<Generated> {
    let GenerateImages { images, test_images, size, channels, classes, seed, .. } = *settings;
    let within = |flag: &str, value: usize, from: usize, to: usize| match value {
        _ if (from..=to).contains(&value) => Ok(()),
        _ => Err(Error::Usage(format!("{flag} must be from {from} to {to}, got {value}"))),
    };
    within("--size", size, 2, 512)?;
    within("--channels", channels, 1, 3)?;
    within("--classes", classes, 2, 256)?;
    within("--images", images, classes, MOST_VALUES / (size * size * channels))?;
    within("--test-images", test_images, 0, MOST_VALUES / (size * size * channels))?;
    let folder = Folder::check(&settings.out, settings.force)?;
    let all = generate::images(images + test_images, size, channels, classes, seed);
    let train = all.subset(&(0..images).collect::<Vec<_>>());
    let test = all.subset(&(images..images + test_images).collect::<Vec<_>>());
    let test = Some(&test).filter(|_| test_images > 0);
    folder.write(|folder| Ok(write_idx(folder, &train, test)?))?;
    let dims = if channels > 1 { 4 } else { 3 };
    let parts = ["train", "t10k"].into_iter().take(if test.is_some() { 2 } else { 1 });
    let names = parts.flat_map(|part| {
        [format!("{part}-images-idx{dims}-ubyte"), format!("{part}-labels-idx1-ubyte")]
    });
    Ok(Generated { files: written(&settings.out, &names.collect::<Vec<_>>()), rows: images })
}

/// Bytes of one part: more are no small example.
const MOST_VALUES: usize = 1 << 30;

fn labels(path: &Path, ids: &IdMap, name: &str, of: &[u32]) -> Result<()> {
    let fields =
        vec![Field::new("id", ids.data_type(), false), Field::new(name, DataType::Int64, false)];
    let mut writer = ColumnWriter::create(path, fields)?;
    let numbers: Vec<u32> = (0..of.len() as u32).collect();
    let classes = Int64Array::from_iter_values(of.iter().map(|&class| i64::from(class)));
    writer.write(vec![ids.array(&numbers), Arc::new(classes)])?;
    Ok(writer.finish()?)
}

fn written(out: &Path, names: &[String]) -> Vec<String> {
    names.iter().map(|name| out.join(name).display().to_string()).collect()
}
