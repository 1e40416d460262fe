//! `consumers.toml`: the downstream models that a refresh reaches.
//!
//! ```toml
//! [[consumer]]
//! name = "search"
//! table = "monday.parquet"      # what it was trained on
//! queries = "queries.parquet"   # optional: its query vectors of that day
//! labels = "genres.csv"         # optional
//! ```

use std::path::{Path, PathBuf};

use serde::Deserialize;
use veridical_core::Seed;
use veridical_data::{LabelOptions, Labels, ReadOptions, Source, Table, join_named};
use veridical_features::FeatureMap;
use veridical_inspect::{Consumer, ConsumerReport, Run, consumer};
use veridical_learn::LinearMap;

use crate::recommend::id_map;
use crate::{Error, Observer, Result};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default, rename = "consumer")]
    consumers: Vec<Named>,
}

/// One entry.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Named {
    name: String,
    table: PathBuf,
    queries: Option<PathBuf>,
    labels: Option<PathBuf>,
}

/// Reads the list; paths are relative to it.
///
/// # Errors
/// [`Error::Usage`] names the file and the line.
pub fn read_consumers(path: &Path) -> Result<Vec<Named>> {
    let refused = |what: String| Error::Usage(format!("{}: {what}", path.display()));
    let text = std::fs::read_to_string(path)
        .map_err(|e| refused(format!("cannot read the consumers: {e}")))?;
    let document: Document = toml::from_str(&text).map_err(|e| {
        let line = e.span().map_or(0, |span| text[..span.start].matches('\n').count() + 1);
        refused(format!("line {line}: {}", e.message()))
    })?;
    if document.consumers.is_empty() {
        return Err(refused(
            "names no consumer; each is a [[consumer]] with name and table".into(),
        ));
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    let beside = |path: PathBuf| folder.join(path);
    Ok(document
        .consumers
        .into_iter()
        .map(|named| Named {
            table: beside(named.table),
            queries: named.queries.map(beside),
            labels: named.labels.map(beside),
            ..named
        })
        .collect())
}

/// How consumers are looked at.
pub struct Looking<'a> {
    /// Takes today's vectors to the reference.
    pub map: Option<&'a LinearMap>,
    /// Applied after the map.
    pub features: Option<&'a FeatureMap>,
    /// Best ids of a query.
    pub k: usize,
    pub seed: Seed,
    /// Whether rows are divided by their norms.
    pub unit: bool,
}

impl Named {
    /// What today's table does to it.
    pub fn report(
        &self,
        today: &Table,
        looking: &Looking<'_>,
        observer: &dyn Observer,
    ) -> Result<ConsumerReport> {
        let options = ReadOptions::default();
        let load = |path: &PathBuf| Table::load(&Source::Path(path.clone()), &options);
        let of = |what: &str| format!("consumer `{}`: {what}", self.name);
        let own = load(&self.table).map_err(|e| Error::Usage(of(&e.to_string())))?;
        let had = own.n_rows();
        let names = [self.table.display().to_string(), "today's table".into()];
        let joined = match join_named(vec![own, today.clone()], &names) {
            Ok(joined) => joined.tables,
            Err(e) => return Err(Error::Usage(of(&e.to_string()))),
        };
        let ids = joined[0].ids.clone();
        let [own, today] = <[Table; 2]>::try_from(joined)
            .map_err(|_| Error::Usage(of("two tables were joined")))?;
        let run = |table: Table| {
            let Table { dim, vectors: mut rows, .. } = table;
            if looking.unit {
                veridical_learn::to_unit_rows(&mut rows, dim);
            }
            Run { name: String::new(), dim, rows }
        };
        let (own, today) = (run(own), run(today));
        let queries = self.queries.as_ref().map(|path| {
            let table = load(path).map_err(|e| Error::Usage(of(&e.to_string())))?;
            if table.dim != own.dim {
                let what = format!(
                    "{}: its queries have {} values, its table {}",
                    path.display(),
                    table.dim,
                    own.dim
                );
                return Err(Error::Usage(of(&what)));
            }
            Ok(run(table).rows)
        });
        let (map, number_of) = id_map(&ids);
        let labels = self.labels.as_ref().map(|path| {
            let (labels, notes) = Labels::read(path, &LabelOptions::default(), &map)
                .map_err(|e| Error::Usage(of(&e.to_string())))?;
            notes.iter().for_each(|note| observer.note(&of(note)));
            let first = |&number: &u32| labels.of.get(number as usize).first().copied();
            let labels_of = number_of.iter().map(|n| first(n).unwrap_or(u32::MAX)).collect();
            Ok::<(Vec<u32>, usize), Error>((labels_of, labels.classes.len()))
        });
        let (labels, classes) = labels.transpose()?.unwrap_or_default();
        let of_today = Consumer {
            name: self.name.clone(),
            own,
            today,
            had,
            queries: queries.transpose()?,
            labels,
            classes,
        };
        let Looking { map, features, k, seed, .. } = *looking;
        Ok(consumer(&of_today, map, features, k, seed)?)
    }
}
