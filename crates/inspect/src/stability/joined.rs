//! The tables of a comparison: looked at, and joined on their ids.

use std::collections::HashSet;

use serde::Serialize;
use veridical_core::{Error, Job, Result};
use veridical_data::{Ids, Table, fingerprint, join_named};

use crate::stability::{Runs, Sanity, sanity};

/// Fewer shared ids tell nothing.
pub const LEAST_IDS: usize = 50;

/// A table as it was given.
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

/// A table that was looked at, with its name.
#[derive(Clone, Debug)]
pub struct NamedTable {
    /// What it is called, and what it looks like.
    pub report: TableReport,
    /// Its rows.
    pub table: Table,
}

impl NamedTable {
    /// Looks at a table.
    ///
    /// # Errors
    /// [`Error::Unfit`] for a table without rows or whose vectors are all the same, [`Error::Shape`] for one whose values
    /// are not rows times width.
    pub fn new(name: impl Into<String>, table: Table, job: &Job<'_>) -> Result<Self> {
        let name = name.into();
        let (rows, dim, values) = (table.n_rows(), table.dim, table.vectors.len());
        if rows == 0 || dim == 0 {
            return Err(Error::unfit(format!("{name} has {rows} rows of {dim} values"), ""));
        }
        if values != rows * dim {
            let what = format!("{name} has {values} values for {rows} rows of {dim}");
            return Err(Error::shape(what, ""));
        }
        let sanity = sanity(&table);
        if sanity.constant_columns == sanity.dim && sanity.rows > 1 {
            return Err(Error::unfit(
                format!("{name}: all its vectors are the same"),
                "there is nothing to compare. Was it written before training?",
            ));
        }
        if sanity.zero_vectors > 0 {
            let zero = sanity.zero_vectors;
            job.warn(&format!("{name}: {zero} of {rows} vectors are all zeros"));
        }
        let fingerprint = fingerprint::of_table(&table);
        Ok(Self { report: TableReport { name, fingerprint, sanity }, table })
    }
}

/// Tables on their shared ids.
#[derive(Clone, Debug)]
pub struct Joined {
    /// Their rows of the shared ids.
    pub runs: Runs,
    /// What they looked like before.
    pub reports: Vec<TableReport>,
    /// For every table, ids of the first table that it lacks.
    pub missing: Vec<usize>,
    /// For every table, ids that the first table lacks.
    pub extra: Vec<usize>,
    /// Rows of the last table whose ids the first one lacks, unit rows if asked for.
    pub new_rows: Vec<f32>,
}

/// Joins tables; with `unit` rows are divided by their norms.
///
/// # Errors
/// [`Error::Request`] for fewer than two tables, [`Error::Unfit`] for tables that share fewer than [`LEAST_IDS`] ids, or
/// whose ids repeat or are of two types.
pub fn join(tables: Vec<NamedTable>, unit: bool) -> Result<Joined> {
    let (reports, tables): (Vec<TableReport>, Vec<Table>) =
        tables.into_iter().map(|named| (named.report, named.table)).unzip();
    let names: Vec<String> = reports.iter().map(|report| report.name.clone()).collect();
    if tables.len() < 2 {
        let got = names.first().map_or(String::new(), |name| format!(", got only {name}"));
        let what = "a comparison needs at least two tables or runs";
        return Err(Error::request(format!("{what}{got}"), ""));
    }
    let new_rows = new_rows(&tables, unit);
    let joined = join_named(tables, &names).map_err(|e| match e {
        Error::Unfit { what, .. } if what.contains("no id in common") => Error::unfit(
            format!("{} have no id in common", and(&names)),
            "are they tables of the same things?",
        ),
        other => other,
    })?;
    let veridical_data::Joined { tables, missing, extra } = joined;
    let shared = tables.first().map_or(0, Table::n_rows);
    if shared < LEAST_IDS {
        return Err(Error::unfit(
            format!("{} share only {shared} ids", and(&names)),
            format!("a comparison needs at least {LEAST_IDS}"),
        ));
    }
    let runs = Runs::new(tables, names, unit)
        .ok_or_else(|| Error::Internal("a join gave no tables back".into()))?;
    Ok(Joined { runs, reports, missing, extra, new_rows })
}

/// `a and b`, or the first and the last of several.
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
            let known: HashSet<i64> = first.values().iter().copied().collect();
            (0..n).filter(|&r| !known.contains(&last.value(r))).collect()
        }
        (Ids::Text(first), Ids::Text(last)) => {
            let known: HashSet<&str> = first.iter().flatten().collect();
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
