//! The tables of a comparison: checked, and joined on their ids.

use std::collections::HashSet;
use std::sync::Arc;

use serde::Serialize;
use veridical_core::{Error, Job, Result, splitmix};
use veridical_data::{Ids, Passes, VectorTable, fingerprint, join_named};

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
        let report = TableReport::new(name, fingerprint::of_table(&table), sanity(&table), job)?;
        Ok(Self { report, table })
    }
}

impl TableReport {
    /// Makes the report of a table that was checked.
    ///
    /// # Errors
    /// [`Error::Unfit`] for a table with only equal vectors.
    pub fn new(name: String, fingerprint: String, sanity: Sanity, job: &Job<'_>) -> Result<Self> {
        if sanity.constant_columns == sanity.dim && sanity.rows > 1 {
            return Err(Error::unfit(
                format!("{name}: all vectors are equal"),
                "there is nothing to compare; was it written before training?",
            ));
        }
        if sanity.zero_vectors > 0 {
            let Sanity { zero_vectors: zero, rows, .. } = sanity;
            job.warn(&format!("{name}: {zero} of {rows} vectors are zero"));
        }
        Ok(Self { name, fingerprint, sanity })
    }
}

/// Tables joined on their shared ids.
#[derive(Clone, Debug)]
pub struct Joined {
    /// The rows of the shared ids, for every table.
    pub runs: Arc<dyn Passes>,
    /// The sanity checks of the tables before the join.
    pub reports: Vec<TableReport>,
    /// For every table, the number of ids of the first table that it lacks.
    pub missing: Vec<usize>,
    /// For every table, the number of its ids that the first table lacks.
    pub extra: Vec<usize>,
    /// Some rows of the last table whose ids the first one lacks: at most [`NEW_IDS`].
    pub new_rows: Vec<f32>,
}

/// The number of new ids whose nearest neighbors are searched.
pub const NEW_IDS: usize = 500;

impl Joined {
    /// Makes a join of tables that were read elsewhere.
    ///
    /// # Errors
    /// [`Error::Unfit`] for tables that share fewer than [`LEAST_IDS`] ids.
    pub fn new(
        runs: Arc<dyn Passes>,
        reports: Vec<TableReport>,
        missing: Vec<usize>,
        extra: Vec<usize>,
        new_rows: Vec<f32>,
    ) -> Result<Self> {
        let shared = runs.n();
        let names: Vec<String> = reports.iter().map(|report| report.name.clone()).collect();
        if shared == 0 {
            return Err(Error::unfit(
                format!("{} have no id in common", and(&names)),
                "are they tables of the same things?",
            ));
        }
        if shared < LEAST_IDS {
            return Err(Error::unfit(
                format!("{} share only {shared} ids", and(&names)),
                format!("a comparison needs at least {LEAST_IDS}"),
            ));
        }
        Ok(Self { runs, reports, missing, extra, new_rows })
    }
}

/// Joins tables in memory on their ids.
///
/// # Errors
/// [`Error::Request`] for fewer than two tables, [`Error::Unfit`] for tables that share fewer than [`LEAST_IDS`] ids, or
/// with repeated ids or ids of different types.
pub fn join(tables: Vec<NamedTable>) -> Result<Joined> {
    let (reports, tables): (Vec<TableReport>, Vec<VectorTable>) =
        tables.into_iter().map(|named| (named.report, named.table)).unzip();
    let names: Vec<String> = reports.iter().map(|report| report.name.clone()).collect();
    if tables.len() < 2 {
        let got = names.first().map_or(String::new(), |name| format!(", got only {name}"));
        let what = "a comparison needs at least two tables or runs";
        return Err(Error::request(format!("{what}{got}"), ""));
    }
    let new_rows = new_rows(&tables);
    let joined = join_named(tables, &names).map_err(|e| match e {
        Error::Unfit { what, .. } if what.contains("no id in common") => Error::unfit(
            format!("{} have no id in common", and(&names)),
            "are they tables of the same things?",
        ),
        other => other,
    })?;
    let veridical_data::Joined { tables, missing, extra } = joined;
    let runs = SharedTables::new(tables, names)
        .ok_or_else(|| Error::Internal("a join returned no tables".into()))?;
    Joined::new(Arc::new(runs), reports, missing, extra, new_rows)
}

/// `a and b`, or the first and the last of several.
fn and(names: &[String]) -> String {
    match names {
        [first, last] => format!("{first} and {last}"),
        [first, .., last] => format!("{first} .. {last} ({} tables)", names.len()),
        _ => names.concat(),
    }
}

/// Rows of the last table that the first one lacks.
fn new_rows(tables: &[VectorTable]) -> Vec<f32> {
    let (Some(first), Some(last)) = (tables.first(), tables.last()) else { return Vec::new() };
    let n = last.n_rows();
    let mut kept = NewRows::new(last.dim);
    let mut keep = |row: usize| kept.add(row, last.row(row));
    match (&first.ids, &last.ids) {
        (Ids::Int(first), Ids::Int(last)) => {
            let known: HashSet<i64> = first.values().iter().copied().collect();
            (0..n).filter(|&r| !known.contains(&last.value(r))).for_each(&mut keep);
        }
        (Ids::Text(first), Ids::Text(last)) => {
            let known: HashSet<&str> = first.iter().flatten().collect();
            (0..n).filter(|&r| !known.contains(last.value(r))).for_each(&mut keep);
        }
        _ => {} // the join refuses them
    }
    kept.finish()
}

/// A sample of at most [`NEW_IDS`] of the rows that are added.
#[derive(Clone, Debug)]
pub struct NewRows {
    dim: usize,
    /// The hash of the row number, the number, the row.
    kept: Vec<(u64, usize, Vec<f32>)>,
}

impl NewRows {
    /// Starts with no rows.
    pub const fn new(dim: usize) -> Self {
        Self { dim, kept: Vec::new() }
    }

    /// Adds a row with its number.
    pub fn add(&mut self, number: usize, row: &[f32]) {
        self.kept.push((splitmix(number as u64), number, row.to_vec()));
        if self.kept.len() >= 2 * NEW_IDS {
            self.thin();
        }
    }

    fn thin(&mut self) {
        self.kept.sort_unstable_by_key(|(hash, number, _)| (*hash, *number));
        self.kept.truncate(NEW_IDS);
    }

    /// Returns the sample, in the order of the numbers.
    pub fn finish(mut self) -> Vec<f32> {
        self.thin();
        self.kept.sort_unstable_by_key(|(_, number, _)| *number);
        let mut rows = Vec::with_capacity(self.kept.len() * self.dim);
        self.kept.iter().for_each(|(_, _, row)| rows.extend_from_slice(row));
        rows
    }
}
