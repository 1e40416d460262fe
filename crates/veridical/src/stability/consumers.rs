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
use veridical_core::{Error as Refused, Job, Order};
use veridical_data::Cell;
use veridical_inspect::{Consumer, SharedRows};
use veridical_io::shared::SharedTable;
use veridical_io::{LabelOptions, ReadOptions, Source};

use super::{Stability, find_cell, share, table};
use crate::Result;
use crate::settings::TableIds;

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
/// [`Refused::Missing`] for a file that cannot be read, [`Refused::Unfit`] names the file and the line.
pub fn read_consumers(path: &Path) -> Result<Vec<Named>> {
    let refused =
        |what: &str, hint: &str| Refused::unfit(format!("{}: {what}", path.display()), hint);
    let text = std::fs::read_to_string(path).map_err(|e| {
        Refused::missing(format!("{}: cannot read the consumers: {e}", path.display()), "")
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

/// The largest number of shared ids that a consumer is assessed on.
const MOST_IDS: usize = 200_000;

impl Named {
    /// Reads the table it was trained on and joins it with today's table.
    pub fn read(
        &self,
        today: &SharedTable,
        request: &Stability,
        job: &Job<'_>,
    ) -> Result<Consumer> {
        let options = ReadOptions::default();
        let unit = request.settings.samples.unit();
        let of = |what: &str| format!("consumer `{}`: {what}", self.name);
        let refused = |error: &dyn std::fmt::Display| Refused::unfit(of(&error.to_string()), "");
        let source = Source::Path(self.table.clone());
        let own = table(&source, &TableIds::default(), &options, (0, 1));
        let own = own.map_err(|e| refused(&e))?;
        let today = SharedTable { name: "today's table".into(), ..today.clone() };
        let shared = share(vec![own, today], &request.resources, &job.quiet());
        let shared = shared.map_err(|e| if e.is_interrupted() { e } else { refused(&e).into() })?;
        let (had, rows) = (shared.reports[0].sanity.rows, &*shared.rows);
        if rows.n() == 0 {
            let what = format!("{} and today's table have no id in common", self.table.display());
            return Err(refused(&what).into());
        }
        let order =
            Order::new(rows.n() as u64, request.settings.samples.seed()?, "consumer ids", 0);
        let mut chosen: Vec<u32> =
            (0..rows.n().min(MOST_IDS) as u64).map(|t| order.at(t) as u32).collect();
        chosen.sort_unstable();
        if chosen.len() < rows.n() {
            job.note(&of(&format!("assessed on {MOST_IDS} of {} ids", rows.n())));
        }
        let run = |dim: usize, mut rows: Vec<f32>| {
            if unit {
                veridical_learn::to_unit_rows(&mut rows, dim);
            }
            SharedRows { name: String::new(), dim, rows }
        };
        let dims = rows.dims();
        let (mut own, mut now) = (Vec::new(), Vec::new());
        rows.pass(&mut |window| {
            let inside = chosen.iter().map(|&row| row as usize);
            let inside = inside.skip_while(|row| *row < window.first);
            for row in inside.take_while(|row| *row < window.first + window.len()) {
                let at = row - window.first;
                own.extend_from_slice(&window.tables[0][at * dims[0]..][..dims[0]]);
                now.extend_from_slice(&window.tables[1][at * dims[1]..][..dims[1]]);
            }
            Ok(())
        })?;
        let (own, today) = (run(dims[0], own), run(dims[1], now));
        let queries = self.queries.as_ref().map(|path| {
            let table = veridical_io::read_table(&Source::Path(path.clone()), &options);
            let table = table.map_err(|e| refused(&e))?;
            if table.dim != own.dim {
                let what = format!(
                    "{}: its queries have dimension {}, its table {}",
                    path.display(),
                    table.dim,
                    own.dim
                );
                return Err(Refused::shape(of(&what), ""));
            }
            Ok(run(table.dim, table.vectors).rows)
        });
        let labels = self.labels.as_ref().map(|path| {
            let find = |cell: Cell<'_>| find_cell(rows, cell);
            let options = LabelOptions::default();
            let (labels, notes) = veridical_io::read_labels_of(path, &options, rows.n(), &find)
                .map_err(|e| refused(&e))?;
            notes.iter().for_each(|note| job.note(&of(note)));
            let first = |&row: &u32| labels.of.get(row as usize).first().copied();
            let labels_of = chosen.iter().map(|row| first(row).unwrap_or(u32::MAX)).collect();
            Ok::<(Vec<u32>, usize), Refused>((labels_of, labels.classes.len()))
        });
        let (labels, classes) = labels.transpose()?.unwrap_or_default();
        let queries = queries.transpose()?;
        let kept = [rows.n(), had];
        Ok(Consumer { name: self.name.clone(), own, today, ids: kept, queries, labels, classes })
    }
}
