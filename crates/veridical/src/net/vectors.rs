//! Labeled vectors as examples: the rows of a vector table, with the classes that a second file gives to their ids.
//!
//! Ids without a class are left out; of several classes the first counts. One seeded shuffle of the labeled rows decides which are
//! held out as test set.

use std::path::Path;

use serde_json::{Map, json};
use veridical_core::{Error as CoreError, Job, Order, Seed, settings};
use veridical_data::examples::{Dataset, ExampleShape, Examples, Targets, Values};
use veridical_data::{IdMap, VectorTable, fingerprint};
use veridical_io::{ColumnMap, Input, LabelOptions, ReadOptions, Source};

use crate::settings::TextFiles;
use crate::{Error, Result};

/// Default fraction of test examples.
const TEST_SHARE: f64 = 0.1;

settings! {
    /// The labels of a vector table, and how both are read.
    pub struct LabeledVectors in "Data" {
        /// Labels of the rows of a vector table: ids and classes
        pub labels: Option<Input> = None,
        /// Column with the labels
        pub label_column: Option<String> = None
            => [needs(&["labels"]), detail(), otherwise("`class`, `label`, .. or the last")],
        /// Table of a run folder
        pub table: Option<String> = None => [detail(), otherwise("item, or the first")],
        /// Column of the ids
        pub id_column: Option<String> = None => [detail(), otherwise("`id`, or the only `*_id`")],
        /// Column of the vectors, or the columns of their coordinates
        pub vector_column: Option<String> = None => [detail(), otherwise("the only list of floats, else numbered columns")],
        /// Fraction of the labeled vectors held out as test set
        pub test_share: Option<f64> = None
            => [needs(&["labels"]), detail(), value("SHARE"), otherwise(TEST_SHARE.to_string())],
    }
}

impl LabeledVectors {
    /// Reads a vector table.
    pub(super) fn table(&self, path: &Path, files: &TextFiles) -> Result<VectorTable> {
        let Self { table, id_column, vector_column, .. } = self.clone();
        let options = ReadOptions {
            table,
            id_column,
            vector_column,
            encoding: files.encoding.clone(),
            no_header: files.no_header,
            ..ReadOptions::default()
        };
        Ok(veridical_io::read_table(&Source::Path(path.to_owned()), &options)?)
    }

    /// Reads the labeled rows of a table, of some classes or of all; the test set is drawn with the seed `held_out`, without one
    /// there is none.
    pub(super) fn read(
        &self,
        path: &Path,
        files: &TextFiles,
        classes: Option<&[String]>,
        held_out: Option<Seed>,
        job: &Job<'_>,
    ) -> Result<Dataset> {
        let Some(labels) = &self.labels else {
            return Err(Error::request("vectors need labels", "pass them with ⟨labels⟩ FILE"));
        };
        let table = self.table(path, files)?;
        let columns = ColumnMap::default().with("class", self.label_column.as_ref());
        let options = LabelOptions {
            records: files.records(columns),
            column_setting: veridical_io::LABEL_COLUMN,
            ..LabelOptions::default()
        };
        let (ids, numbers) = IdMap::of(&table.ids);
        let (found, notes) = veridical_io::read_labels(labels, &options, &ids)?;
        notes.iter().for_each(|note| job.note(note));
        let mut several = 0;
        let mut rows: Vec<(usize, String)> = Vec::new();
        for (row, &number) in numbers.iter().enumerate() {
            let own = found.of.get(number as usize);
            several += usize::from(own.len() > 1);
            if let Some(&class) = own.first() {
                rows.push((row, found.classes.id(class)));
            }
        }
        if several > 0 {
            job.note(&format!("{several} rows have several classes; the first of each counts"));
        }
        let names = match classes {
            Some(names) => names.to_vec(),
            None => super::text::classes(rows.iter().map(|(_, class)| class)),
        };
        let number = |class: &String| names.iter().position(|name| name == class);
        let rows: Vec<(usize, u32)> =
            rows.iter().filter_map(|(row, class)| Some((*row, number(class)? as u32))).collect();
        if names.len() < 2 || rows.is_empty() {
            let what = match names.as_slice() {
                [only] => format!("every labeled row has the class `{only}`"),
                _ => "no row has one of the classes".into(),
            };
            let hint = "classification needs at least two classes";
            return Err(CoreError::unfit(format!("{}: {what}", labels.display()), hint).into());
        }
        let all = Examples {
            shape: ExampleShape::Row { columns: table.dim },
            values: Values::Floats(
                rows.iter().flat_map(|(row, _)| table.row(*row)).copied().collect(),
            ),
            targets: Targets::Classes(rows.iter().map(|(_, class)| *class).collect()),
        };
        let (train, test) = match held_out {
            Some(seed) => split(all, self.share()?, seed, labels)?,
            None => (all, None),
        };
        let mut section = Map::from_iter([
            ("shape".to_owned(), json!([table.dim])),
            ("classes".to_owned(), json!(names.len())),
        ]);
        for (name, part) in [("train", Some(&train)), ("test", test.as_ref())] {
            if let Some(part) = part {
                let content = fingerprint::of_examples(part, &names, &[]);
                section.insert(name.into(), json!({ "rows": part.n(), "fingerprint": content }));
            }
        }
        Ok(Dataset {
            train: Some(train),
            test,
            classes: names,
            columns: Vec::new(),
            fingerprint: section.into(),
            notes: Vec::new(),
        })
    }

    fn share(&self) -> Result<f64> {
        let share = self.test_share.unwrap_or(TEST_SHARE);
        match (0.0..1.0).contains(&share) {
            true => Ok(share),
            false => {
                Err(Error::setting("test-share", "a fraction of at least 0 and below 1", share))
            }
        }
    }
}

/// Divides examples into a training and a test set.
fn split(
    all: Examples,
    share: f64,
    seed: Seed,
    labels: &Path,
) -> Result<(Examples, Option<Examples>)> {
    let n = all.n();
    let count = (share * n as f64).round() as usize;
    if count == 0 || count == n {
        return match share > 0.0 {
            false => Ok((all, None)),
            true => {
                let what = format!("⟨test-share⟩ {share} of {n} labeled rows is {count}");
                Err(Error::request(
                    format!("{}: {what}", labels.display()),
                    "each part needs at least one",
                ))
            }
        };
    }
    let order = Order::new(n as u64, seed, "test-share", 0);
    let part = |range: std::ops::Range<usize>| {
        let mut rows: Vec<usize> = range.map(|t| order.at(t as u64) as usize).collect();
        rows.sort_unstable();
        all.subset(&rows)
    };
    Ok((part(count..n), Some(part(0..count))))
}
