//! Synthetic data with planted structure, written as files.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, StringArray};
use arrow_schema::{DataType, Field};
use serde::Serialize;
use veridical_core::settings::Settings as _;
use veridical_core::{Error as Refusal, Seed, choices, settings};
use veridical_data::generate::{CorpusSettings, ShopSettings};
use veridical_data::{IdMap, generate};
use veridical_io::ColumnWriter;
use veridical_io::examples::write_idx;
use veridical_io::interactions::{self, ColumnNames};

use super::{Folder, TablesOutput};
use crate::{Error, Result};

choices! {
    /// Kind of synthetic data.
    pub enum Kind {
        /// Users and items in latent clusters, with ratings and times: interactions, items, users
        Shop = "shop",
        /// Documents with latent topics: documents, topics
        Text = "text",
        /// Images in classes that differ by pattern: idx files, as in MNIST
        Images = "images",
    }
}

settings! {
    /// Settings of [`generate()`].
    pub struct Generate {
        /// Kind of data to generate
        pub what: Option<Kind> = None => [positional(), required(), value("WHAT")],
        /// Random seed
        pub seed: u64 = 0 => [value("S")],
        /// shop: number of users
        pub users: usize = 1000,
        /// shop: number of items
        pub items: usize = 500,
        /// shop: number of latent clusters
        pub clusters: usize = 8,
        /// shop: interactions per user
        pub per_user: usize = 30,
        /// shop: exponent of Zipf's law for item popularity within a cluster
        pub skew: f64 = 1.0 => [value("S")],
        /// text: number of documents
        pub docs: usize = 500,
        /// text: number of topics
        pub topics: usize = 5,
        /// text: words per topic, and as many shared by all topics
        pub words: usize = 100,
        /// text: words per document
        pub length: usize = 50,
        /// images: number of training images
        pub images: usize = 2000,
        /// images: number of test images
        pub test_images: usize = 500,
        /// images: side length in pixels
        pub size: usize = 16 => [at_least(2.0), at_most(512.0)],
        /// images: number of channels, 1 for grayscale, 3 for color
        pub channels: usize = 1 => [at_least(1.0), at_most(3.0)],
        /// images: number of classes
        pub classes: usize = 5 => [at_least(2.0), at_most(256.0)],
        /// Fraction of random choices (shop), or of words shared by all topics (text)
        pub noise: f64 = 0.1 => [value("SHARE")],
    } with {
        /// Output folder and file format.
        pub output: TablesOutput,
    }
}

/// Result of [`generate()`].
#[derive(Clone, Debug, Serialize)]
pub struct Generated {
    /// Paths of the files that were written.
    pub files: Vec<String>,
    /// Number of rows in the first file.
    pub rows: usize,
}

/// Generates data and writes it to a folder.
///
/// # Errors
/// Settings for which no data can be generated, and an existing folder unless it may be replaced.
///
/// # Example
/// ```
/// use veridical::prepare::{Generate, GeneratedKind, TablesOutput, generate};
/// # let folder = tempfile::tempdir().unwrap();
///
/// let out = folder.path().join("shop");
/// let output = TablesOutput { out: out.as_path().into(), ..TablesOutput::default() };
/// let (users, per_user) = (50, 8);
/// let what = Some(GeneratedKind::Shop);
/// let generated = generate(&Generate { what, users, per_user, output, ..Generate::default() })?;
/// assert_eq!(generated.rows, 50 * 8);
/// assert!(out.join("interactions.csv").exists());
/// # Ok::<(), veridical::Error>(())
/// ```
pub fn generate(settings: &Generate) -> Result<Generated> {
    settings.check()?;
    match settings.what {
        Some(Kind::Shop) => shop(settings),
        Some(Kind::Text) => text(settings),
        Some(Kind::Images) => images(settings),
        None => Err(Error::missing("pass what to generate: shop, text or images", "")),
    }
}

/// Writes `interactions`, and the clusters of `items` and `users`.
fn shop(settings: &Generate) -> Result<Generated> {
    let Generate { users, items, clusters, per_user, skew, noise, .. } = *settings;
    let TablesOutput { out, format, replace } = &settings.output;
    let seed = Seed::new(settings.seed)?;
    let folder = Folder::check(out, replace.force)?;
    let shop =
        generate::shop(ShopSettings { users, items, clusters, per_user, skew, noise, seed })?;
    let names = ["interactions", "items", "users"].map(|name| format!("{name}.{}", format.name()));
    folder.write(|folder| {
        let rows: Vec<u32> = (0..shop.data.len() as u32).collect();
        interactions::write(&folder.join(&names[0]), &shop.data, &rows, &ColumnNames::default())?;
        labels(&folder.join(&names[1]), &shop.data.items, "cluster", &shop.item_cluster)?;
        labels(&folder.join(&names[2]), &shop.data.users, "cluster", &shop.user_cluster)
    })?;
    Ok(Generated { files: written(out, &names), rows: shop.data.len() })
}

/// Writes `documents`, and their `topics`.
fn text(settings: &Generate) -> Result<Generated> {
    let Generate { docs, topics, words, length, noise, .. } = *settings;
    let TablesOutput { out, format, replace } = &settings.output;
    let seed = Seed::new(settings.seed)?;
    let folder = Folder::check(out, replace.force)?;
    let planted = generate::corpus(CorpusSettings { docs, topics, words, length, noise, seed })?;
    let names = ["documents", "topics"].map(|name| format!("{name}.{}", format.name()));
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
fn images(settings: &Generate) -> Result<Generated> {
    let Generate { images, test_images, size, channels, classes, .. } = *settings;
    let TablesOutput { out, replace, .. } = &settings.output;
    let within = |name: &'static str, value: usize, from: usize, to: usize| match value {
        _ if (from..=to).contains(&value) => Ok(()),
        _ => Err(Refusal::setting(name, format!("from {from} to {to}"), value)),
    };
    within("images", images, classes, MOST_VALUES / (size * size * channels))?;
    within("test-images", test_images, 0, MOST_VALUES / (size * size * channels))?;
    let folder = Folder::check(out, replace.force)?;
    let seed = Seed::new(settings.seed)?;
    let all = generate::images(images + test_images, size, channels, classes, seed);
    let train = all.subset(&(0..images).collect::<Vec<_>>());
    let test = all.subset(&(images..images + test_images).collect::<Vec<_>>());
    let test = Some(&test).filter(|_| test_images > 0);
    folder.write(|folder| Ok(write_idx(folder, Some(&train), test)?))?;
    let dims = if channels > 1 { 4 } else { 3 };
    let parts = ["train", "t10k"].into_iter().take(if test.is_some() { 2 } else { 1 });
    let names = parts.flat_map(|part| {
        [format!("{part}-images-idx{dims}-ubyte"), format!("{part}-labels-idx1-ubyte")]
    });
    Ok(Generated { files: written(out, &names.collect::<Vec<_>>()), rows: images })
}

/// Maximum size of one part in bytes.
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
