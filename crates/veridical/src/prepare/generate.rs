//! Data with planted truth, as files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, StringArray};
use arrow_schema::{DataType, Field};
use serde::Serialize;
use veridical_data::generate::{CorpusSettings, ShopSettings};
use veridical_data::{ColumnWriter, IdMap, generate, interactions};

use super::Folder;
use crate::Result;

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
