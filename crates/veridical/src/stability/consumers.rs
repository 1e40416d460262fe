//! `consumers.toml`: the downstream models affected by a refresh.
//!
//! ```toml
//! [[consumer]]
//! name = "search"
//! table = "monday.parquet"      # the table it was trained on
//! queries = "queries.parquet"   # optional: its query vectors of that day
//! labels = "genres.csv"         # optional
//! ```

use std::path::{Path, PathBuf};

use serde::Deserialize;
use veridical_core::{Error, Job};
use veridical_data::{IdMap, VectorTable, join_named};
use veridical_inspect::{Consumer, SharedRows};
use veridical_io::{LabelOptions, ReadOptions, Source};

use crate::Result;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default, rename = "consumer")]
    consumers: Vec<Named>,
}

/// One entry of the list.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Named {
    name: String,
    table: PathBuf,
    queries: Option<PathBuf>,
    labels: Option<PathBuf>,
}

/// Reads the list of consumers; paths are relative to the list.
///
/// # Errors
/// [`Error::Missing`] for a file that cannot be read, [`Error::Unfit`] names the file and the line.
pub fn read_consumers(path: &Path) -> Result<Vec<Named>> {
    let refused =
        |what: &str, hint: &str| Error::unfit(format!("{}: {what}", path.display()), hint);
    let text = std::fs::read_to_string(path).map_err(|e| {
        Error::missing(format!("{}: cannot read the consumers: {e}", path.display()), "")
    })?;
    let document: Document = toml::from_str(&text).map_err(|e| {
        let line = e.span().map_or(0, |span| text[..span.start].matches('\n').count() + 1);
        refused(&format!("line {line}: {}", e.message()), "")
    })?;
    if document.consumers.is_empty() {
        let hint = "each is a [[consumer]] with name and table";
        return Err(refused("lists no consumer", hint).into());
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

/// Returns the files that a list of consumers names; none if it cannot be read.
pub(crate) fn files_of_consumers(path: &str) -> Vec<PathBuf> {
    let listed = read_consumers(Path::new(path)).unwrap_or_default();
    let files = |named: Named| [Some(named.table), named.queries, named.labels];
    listed.into_iter().flat_map(files).flatten().collect()
}

impl Named {
    /// Reads the table it was trained on and joins it with today's table; with `unit`, rows are normalized to unit length.
    pub fn read(&self, today: &VectorTable, unit: bool, job: &Job<'_>) -> Result<Consumer> {
        let options = ReadOptions::default();
        let load = |path: &PathBuf| veridical_io::read_table(&Source::Path(path.clone()), &options);
        let of = |what: &str| format!("consumer `{}`: {what}", self.name);
        let refused = |what: &str| Error::unfit(of(what), "");
        let own = load(&self.table).map_err(|e| refused(&e.to_string()))?;
        let had = own.n_rows();
        let names = [self.table.display().to_string(), "today's table".into()];
        let joined = match join_named(vec![own, today.clone()], &names) {
            Ok(joined) => joined.tables,
            Err(e) => return Err(refused(&e.to_string()).into()),
        };
        let ids = joined[0].ids.clone();
        let [own, today] = <[VectorTable; 2]>::try_from(joined)
            .map_err(|_| Error::Internal(of("two tables were joined")))?;
        let run = |table: VectorTable| {
            let VectorTable { dim, vectors: mut rows, .. } = table;
            if unit {
                veridical_learn::to_unit_rows(&mut rows, dim);
            }
            SharedRows { name: String::new(), dim, rows }
        };
        let (own, today) = (run(own), run(today));
        let queries = self.queries.as_ref().map(|path| {
            let table = load(path).map_err(|e| refused(&e.to_string()))?;
            if table.dim != own.dim {
                let what = format!(
                    "{}: its queries have dimension {}, its table {}",
                    path.display(),
                    table.dim,
                    own.dim
                );
                return Err(Error::shape(of(&what), ""));
            }
            Ok(run(table).rows)
        });
        let (map, number_of) = IdMap::of(&ids);
        let labels = self.labels.as_ref().map(|path| {
            let (labels, notes) = veridical_io::read_labels(path, &LabelOptions::default(), &map)
                .map_err(|e| refused(&e.to_string()))?;
            notes.iter().for_each(|note| job.note(&of(note)));
            let first = |&number: &u32| labels.of.get(number as usize).first().copied();
            let labels_of = number_of.iter().map(|n| first(n).unwrap_or(u32::MAX)).collect();
            Ok::<(Vec<u32>, usize), Error>((labels_of, labels.classes.len()))
        });
        let (labels, classes) = labels.transpose()?.unwrap_or_default();
        let queries = queries.transpose()?;
        Ok(Consumer { name: self.name.clone(), own, today, had, queries, labels, classes })
    }
}
