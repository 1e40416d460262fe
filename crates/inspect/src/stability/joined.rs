//! The tables of a comparison: checked, and joined on their ids.

use std::collections::HashSet;

use serde::Serialize;
use veridical_core::{Error, Job, Result};
use veridical_data::{Ids, VectorTable, fingerprint, join_named};

use crate::stability::{Sanity, SharedTables, sanity};

/// The fewest shared ids that a comparison needs.
pub const LEAST_IDS: usize = 50;

/// The name, fingerprint and sanity checks of a table.
#[derive(Clone, Debug, Serialize)]
pub struct TableReport {
    /// The name of the table.
    pub name: String,
    /// The fingerprint of its content.
    pub fingerprint: String,
    /// The sanity checks of the table.
    #[serde(flatten)]
    pub sanity: Sanity,
}

/// A table with its name and sanity checks.
#[derive(Clone, Debug)]
pub struct NamedTable {
    /// The name and sanity checks.
    pub report: TableReport,
    /// The table.
    pub table: VectorTable,
}

impl NamedTable {
    /// Checks a table.
    ///
    /// # Errors
    /// [`Error::Unfit`] for a table without rows or with only equal vectors, [`Error::Shape`] if the number of values is
    /// not rows times dimension.
    pub fn new(name: impl Into<String>, table: VectorTable, job: &Job<'_>) -> Result<Self> {
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
                format!("{name}: all vectors are equal"),
                "there is nothing to compare; was it written before training?",
            ));
        }
        if sanity.zero_vectors > 0 {
            let zero = sanity.zero_vectors;
            job.warn(&format!("{name}: {zero} of {rows} vectors are zero"));
        }
        let fingerprint = fingerprint::of_table(&table);
        Ok(Self { report: TableReport { name, fingerprint, sanity }, table })
    }
}

/// Tables joined on their shared ids.
#[derive(Clone, Debug)]
pub struct Joined {
    /// The rows of the shared ids, for every table.
    pub runs: SharedTables,
    /// The sanity checks of the tables before the join.
    pub reports: Vec<TableReport>,
    /// For every table, the number of ids of the first table that it lacks.
    pub missing: Vec<usize>,
    /// For every table, the number of its ids that the first table lacks.
    pub extra: Vec<usize>,
    /// The rows of the last table whose ids the first one lacks, with unit norm if requested.
    pub new_rows: Vec<f32>,
}

/// Joins tables on their ids; with `unit`, rows are divided by their norms.
///
/// # Errors
/// [`Error::Request`] for fewer than two tables, [`Error::Unfit`] for tables that share fewer than [`LEAST_IDS`] ids, or
/// with repeated ids or ids of different types.
pub fn join(tables: Vec<NamedTable>, unit: bool) -> Result<Joined> {
    let (reports, tables): (Vec<TableReport>, Vec<VectorTable>) =
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
    let shared = tables.first().map_or(0, VectorTable::n_rows);
    if shared < LEAST_IDS {
        return Err(Error::unfit(
            format!("{} share only {shared} ids", and(&names)),
            format!("a comparison needs at least {LEAST_IDS}"),
        ));
    }
    let runs = SharedTables::new(tables, names, unit)
        .ok_or_else(|| Error::Internal("a join returned no tables".into()))?;
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

fn new_rows(tables: &[VectorTable], unit: bool) -> Vec<f32> {
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
