//! Data with planted truth, as files.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, StringArray};
use arrow_schema::{DataType, Field};
use serde::Serialize;
use veridical_core::settings::Settings as _;
use veridical_core::{Error as Refusal, Seed, choices, settings};
use veridical_data::generate::{CorpusSettings, ShopSettings};
use veridical_data::{IdMap, generate};
use veridical_io::examples::write_idx;
use veridical_io::{ColumnWriter, interactions};

use super::{Folder, TablesOutput};
use crate::{Error, Result};

choices! {
    /// What to make.
    pub enum Kind {
        /// Users and items of latent clusters, with ratings and times: interactions, items, users
        Shop = "shop",
        /// Documents of latent topics: documents, topics
        Text = "text",
        /// Images of classes that differ by their patterns: idx files, as MNIST has them
        Images = "images",
    }
}

settings! {
    /// What to make, and where to.
    pub struct Generate {
        /// What to make
        pub what: Option<Kind> = None => [positional(), required(), value("WHAT")],
        /// Seed
        pub seed: u64 = 0 => [value("S")],
        /// Users of the shop
        pub users: usize = 1000,
        /// Items of the shop
        pub items: usize = 500,
        /// Clusters of taste in the shop
        pub clusters: usize = 8,
        /// Items of every user of the shop
        pub per_user: usize = 30,
        /// How uneven popularity is inside a cluster: the exponent of Zipf's law
        pub skew: f64 = 1.0 => [value("S")],
        /// Documents
        pub docs: usize = 500,
        /// Topics of documents
        pub topics: usize = 5,
        /// Words of a topic, and as many that are common to all
        pub words: usize = 100,
        /// Words of a document
        pub length: usize = 50,
        /// Images to learn from
        pub images: usize = 2000,
        /// Images to test on
        pub test_images: usize = 500,
        /// Pixels of a side of an image
        pub size: usize = 16 => [at_least(2.0), at_most(512.0)],
        /// Values of a pixel: 1 for gray, 3 for colors
        pub channels: usize = 1 => [at_least(1.0), at_most(3.0)],
        /// Classes of images
        pub classes: usize = 5 => [at_least(2.0), at_most(256.0)],
        /// Share of choices that do not follow the taste, or of words common to all topics
        pub noise: f64 = 0.1 => [value("SHARE")],
    } with {
        /// The folder.
        pub output: TablesOutput,
    }
}

/// What was written.
#[derive(Clone, Debug, Serialize)]
pub struct Generated {
    /// The files.
    pub files: Vec<String>,
    /// Rows of the first of them.
    pub rows: usize,
}

/// Makes data and writes it.
///
/// # Errors
/// Settings under which there can be no such data, and a folder that is there unless it may be replaced.
pub fn generate(settings: &Generate) -> Result<Generated> {
    settings.check()?;
    match settings.what {
        Some(Kind::Shop) => shop(settings),
        Some(Kind::Text) => text(settings),
        Some(Kind::Images) => images(settings),
        None => Err(Error::missing("name what to make: shop, text or images", "")),
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
        interactions::write(&folder.join(&names[0]), &shop.data, &rows)?;
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
    folder.write(|folder| Ok(write_idx(folder, &train, test)?))?;
    let dims = if channels > 1 { 4 } else { 3 };
    let parts = ["train", "t10k"].into_iter().take(if test.is_some() { 2 } else { 1 });
    let names = parts.flat_map(|part| {
        [format!("{part}-images-idx{dims}-ubyte"), format!("{part}-labels-idx1-ubyte")]
    });
    Ok(Generated { files: written(out, &names.collect::<Vec<_>>()), rows: images })
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
