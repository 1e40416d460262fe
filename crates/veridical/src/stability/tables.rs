//! The tables of a comparison: read, looked at, joined on their ids.

use std::path::{Path, PathBuf};

use serde::Serialize;
use veridical_data::{Ids, Joined, ReadOptions, Source, Table, fingerprint, join_named, run};
use veridical_inspect::{Runs, Sanity, sanity};

use crate::{Error, Observer, Result};

/// Fewer shared ids tell nothing.
pub const LEAST_IDS: usize = 50;

/// A table as it was read.
#[derive(Clone, Debug, Serialize)]
pub struct TableReport {
    /// As it was named.
    pub name: String,
    /// Its content.
    pub fingerprint: String,
    /// What it looks like.
    #[serde(flatten)]
    pub sanity: Sanity,
}

/// A table with its name.
pub struct Loaded {
    pub report: TableReport,
    pub table: Table,
}

impl Loaded {
    /// Reads and looks at a table.
    pub fn read(path: &Path, options: &ReadOptions, observer: &dyn Observer) -> Result<Self> {
        let source = Source::from_arg(path);
        let table = Table::load(&source, options)?;
        Self::new(source.to_string(), table, observer)
    }

    /// Looks at a table that is there already.
    pub fn new(name: String, table: Table, observer: &dyn Observer) -> Result<Self> {
        let sanity = sanity(&table);
        if sanity.constant_columns == sanity.dim && sanity.rows > 1 {
            let what = "all its vectors are the same; there is nothing to compare";
            return Err(Error::Usage(format!("{name}: {what}. Was it written before training?")));
        }
        if sanity.zero_vectors > 0 {
            let (zero, rows) = (sanity.zero_vectors, sanity.rows);
            observer.warn(&format!("{name}: {zero} of {rows} vectors are all zeros"));
        }
        let fingerprint = fingerprint::of_table(&table);
        Ok(Self { report: TableReport { name, fingerprint, sanity }, table })
    }
}

/// The tables that paths name: an ensemble stands for all its seeds.
pub fn expand(paths: &[PathBuf]) -> Vec<PathBuf> {
    let of = |path: &PathBuf| match run::seeds(path) {
        seeds if seeds.is_empty() => vec![path.clone()],
        seeds => seeds,
    };
    paths.iter().flat_map(of).collect()
}

/// Tables on their shared ids.
pub struct JoinedRuns {
    pub runs: Runs,
    pub reports: Vec<TableReport>,
    /// For every table, ids of the first table that it lacks.
    pub missing: Vec<usize>,
    /// For every table, ids that the first table lacks.
    pub extra: Vec<usize>,
    /// Rows of the last table whose ids the first one lacks, unit rows if asked for.
    pub new_rows: Vec<f32>,
}

/// Joins tables; with `unit` rows are divided by their norms.
pub fn joined(tables: Vec<Loaded>, unit: bool) -> Result<JoinedRuns> {
    let (reports, tables): (Vec<TableReport>, Vec<Table>) =
        tables.into_iter().map(|loaded| (loaded.report, loaded.table)).unzip();
    let names: Vec<String> = reports.iter().map(|report| report.name.clone()).collect();
    let new_rows = new_rows(&tables, unit);
    let Joined { tables, missing, extra } = join_named(tables, &names).map_err(|e| match e {
        veridical_data::Error::Usage(what) if what.contains("no id in common") => Error::Usage(
            format!("{} have no id in common; are they tables of the same things?", and(&names)),
        ),
        other => other.into(),
    })?;
    let shared = tables[0].n_rows();
    if shared < LEAST_IDS {
        let what = format!("share only {shared} ids; a comparison needs at least {LEAST_IDS}");
        return Err(Error::Usage(format!("{} {what}", and(&names))));
    }
    // INVARIANT: a join gives back the tables it took, at least one.
    let runs = Runs::new(tables, names, unit).expect("tables were joined");
    Ok(JoinedRuns { runs, reports, missing, extra, new_rows })
}

/// `a, b and c`.
fn and(names: &[String]) -> String {
    match names {
        [first, last] => format!("{first} and {last}"),
        [first, .., last] => format!("{first} .. {last} ({} tables)", names.len()),
        _ => names.concat(),
    }
}

fn new_rows(tables: &[Table], unit: bool) -> Vec<f32> {
    let (Some(first), Some(last)) = (tables.first(), tables.last()) else { return Vec::new() };
    let n = last.n_rows();
    let rows: Vec<usize> = match (&first.ids, &last.ids) {
        (Ids::Int(first), Ids::Int(last)) => {
            let known: std::collections::HashSet<i64> = first.values().iter().copied().collect();
            (0..n).filter(|&r| !known.contains(&last.value(r))).collect()
        }
        (Ids::Text(first), Ids::Text(last)) => {
            let known: std::collections::HashSet<&str> = first.iter().flatten().collect();
            (0..n).filter(|&r| !known.contains(last.value(r))).collect()
        }
        _ => Vec::new(), // the join refuses them
    };
    let mut vectors: Vec<f32> = rows.iter().flat_map(|&r| last.row(r)).copied().collect();
    if unit {
        veridical_learn::to_unit_rows(&mut vectors, last.dim);
    }
    vectors
}
