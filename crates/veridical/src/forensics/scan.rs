//! `veridical forensics scan`: where to look first when nothing is known. A ranking of classes by how far their training rows fall apart,
//! and of the rows within each; never a verdict ([`veridical_inspect::forensics`]).

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, StringArray};
use arrow_schema::{DataType, Field};
use serde::Serialize;
use veridical_core::settings::Settings as _;
use veridical_core::{Job, settings};
use veridical_inspect::forensics::scan as scan_classes;
use veridical_io::{ColumnWriter, Output, Replace, publish};
use veridical_kernels::tangent::Kind;

use crate::Result;
use crate::explain::{Pictures, Subject, SubjectSettings, matrix, runs};

/// Rows of each end of the first class that a page shows.
const SHOWN: usize = 12;

settings! {
    /// Settings of [`scan`].
    pub struct Scan {
        /// Number of rows to list for each class
        pub top: usize = 10 => [value("K"), at_least(1.0)],
        /// Table of all rows to write, class by class: CSV, TSV, Parquet, Arrow or JSON Lines
        pub out: Option<Output> = None,
        /// HTML report to write
        pub html: Option<Output> = None,
    } with {
        /// Run, data and rows.
        pub subject: SubjectSettings,
        /// Whether existing output is replaced.
        pub replace: Replace,
    }
}

/// A training row in the ranking of its class.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scanned {
    /// Number of the row in the training data.
    pub row: usize,
    /// Its first principal component score; the smaller group is above.
    pub first: f64,
    /// Its second score.
    pub second: f64,
    /// The spectral signature, the square of the first.
    pub spectral: f64,
}

/// A class in the ranking.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScannedClass {
    /// The class.
    pub class: String,
    /// Number of its rows.
    pub n: usize,
    /// Share of its rows in the smaller group.
    pub share: f64,
    /// Distance of the means of both groups, in standard deviations within them.
    pub separation: f64,
    /// Shares of the variance of the first two components.
    pub explained: [f64; 2],
    /// Its first rows.
    pub rows: Vec<Scanned>,
}

/// Result of [`scan`].
#[derive(Clone, Debug, Serialize)]
pub struct Scanning {
    /// The run.
    pub run: String,
    /// Training rows that were used, in words.
    pub rows: String,
    /// What follows from a scan.
    pub verdict: &'static str,
    /// Classes, largest separation first.
    pub classes: Vec<ScannedClass>,
    /// Notes for the reader.
    pub notes: Vec<String>,
    /// Path of the table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out: Option<String>,
    /// Components of all rows of the first class.
    #[serde(skip)]
    pub(super) points: Vec<(f64, f64, String)>,
    /// Its rows at both ends, with their places.
    #[serde(skip)]
    pub(super) ends: [Vec<(usize, Scanned)>; 2],
    #[serde(skip)]
    pub(super) pictures: Pictures,
}

impl Scanning {
    /// Returns the answer in a sentence.
    pub fn answer(&self) -> String {
        let look = match self.classes.first() {
            Some(ScannedClass { class, share, .. }) => format!(
                "look first at class {class}, whose rows fall apart most ({:.0} % in the smaller group)",
                100.0 * share
            ),
            None => "no class has enough different rows to rank".to_owned(),
        };
        format!("A ranking, {}: {look}.", self.verdict)
    }
}

/// Ranks classes and their training rows by where to look first.
///
/// # Errors
/// As [`trace`](super::trace()).
pub fn scan(settings: &Scan, job: &Job<'_>) -> Result<Scanning> {
    settings.check()?;
    if let Some(out) = &settings.out {
        publish::check_new(out, settings.replace.force)?;
    }
    let run = runs(&settings.subject.run).swap_remove(0);
    let subject = Subject::open(&run, &settings.subject, None, job)?;
    subject.needs_classes("a scan")?;
    let n = subject.rows.len();
    let kernel = subject.train_kernel(Kind::Trntk, &settings.subject, job)?;
    let found = scan_classes(matrix(&kernel, n)?, subject.labels())?;
    let scanned = |row: &veridical_inspect::forensics::ScannedRow| Scanned {
        row: subject.rows[row.row as usize],
        first: row.first,
        second: row.second,
        spectral: row.spectral,
    };
    let classes: Vec<ScannedClass> = found
        .classes
        .iter()
        .map(|class| ScannedClass {
            class: subject.classes[class.class as usize].clone(),
            n: class.rows.len(),
            share: class.share,
            separation: class.separation,
            explained: class.explained,
            rows: class.rows.iter().take(settings.top).map(scanned).collect(),
        })
        .collect();
    if let Some(out) = &settings.out {
        let rows = found.classes.iter().flat_map(|class| {
            let name = subject.classes[class.class as usize].as_str();
            class.rows.iter().map(move |row| (name, row))
        });
        let rows: Vec<(&str, Scanned)> = rows.map(|(name, row)| (name, scanned(row))).collect();
        write(out, &rows)?;
    }
    let all = found.classes.first().map_or(&[][..], |class| &class.rows);
    let place = |row: &veridical_inspect::forensics::ScannedRow| (row.row as usize, scanned(row));
    let ends = [
        all.iter().take(SHOWN).map(place).collect::<Vec<_>>(),
        all.iter().rev().take(SHOWN.min(all.len().saturating_sub(SHOWN))).map(place).collect(),
    ];
    let shown = ends.iter().flatten().map(|(at, _)| *at);
    Ok(Scanning {
        run: run.display().to_string(),
        rows: subject.says_rows(),
        verdict: found.verdict,
        classes,
        notes: Vec::new(),
        out: settings.out.as_ref().map(ToString::to_string),
        points: all
            .iter()
            .map(|row| (row.first, row.second, format!("row {}", subject.rows[row.row as usize])))
            .collect(),
        pictures: Pictures::of_rows(&subject, shown),
        ends,
    })
}

fn write(out: &Output, rows: &[(&str, Scanned)]) -> Result<()> {
    let fields = vec![
        Field::new("class", DataType::Utf8, false),
        Field::new("row", DataType::Int64, false),
        Field::new("first", DataType::Float64, false),
        Field::new("second", DataType::Float64, false),
        Field::new("spectral", DataType::Float64, false),
    ];
    let number = |of: fn(&Scanned) -> f64| -> ArrayRef {
        Arc::new(Float64Array::from_iter_values(rows.iter().map(|(_, row)| of(row))))
    };
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter_values(rows.iter().map(|(class, _)| class))),
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|(_, row)| row.row as i64))),
        number(|row| row.first),
        number(|row| row.second),
        number(|row| row.spectral),
    ];
    let mut writer = ColumnWriter::create(out, fields)?;
    writer.write(columns)?;
    Ok(writer.finish()?)
}
