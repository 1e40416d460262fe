//! Documents with labels, and maybe the part they belong to, from the columns of a table.

use std::path::Path;

use super::TextOptions;
use crate::records::{self, Cell, RecordOptions, Role, Row};
use crate::{ColumnMap, Error, Result};

/// Documents of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LabelledTexts {
    /// As they stand in the table.
    pub texts: Vec<String>,
    /// What each is called: its id, or its number from 0.
    pub ids: Vec<String>,
    /// One per document; none if they are not asked for.
    pub labels: Vec<String>,
    /// One per document, if there is a column for it.
    pub parts: Vec<Part>,
}

/// What a document is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// To learn from.
    Train,
    /// To decide when to stop.
    Validation,
    /// To judge on.
    Test,
}

/// Which columns there are.
#[derive(Clone, Debug, Default)]
pub struct LabelledOptions {
    /// How text is read; words are not cut here.
    pub text: TextOptions,
    /// The column of the labels; otherwise by its name.
    pub label_column: Option<String>,
    /// The column that says train, validation or test.
    pub split_column: Option<String>,
    /// Documents may do without labels, and without words: they are only to be read.
    pub without_labels: bool,
}

const TEXT: usize = 0;
const ID: usize = 1;
const LABEL: usize = 2;
const SPLIT: usize = 3;

const LABELS: Role = Role {
    name: "label",
    flag: "--label-column ",
    known: &["label", "class", "target", "sentiment", "category", "polarity"],
    required: true,
    place: 0,
};
/// Found by the name that the user gives alone.
const SPLITS: Role =
    Role { name: "split", flag: "--split-column ", known: &[], required: false, place: 0 };

impl LabelledTexts {
    /// Reads the documents of a table.
    ///
    /// # Errors
    /// [`Error::Content`] for columns that are not there, and naming the first row without a label, without text, or
    /// with a part that is none.
    pub fn read(path: &Path, options: &LabelledOptions) -> Result<(Self, Vec<String>)> {
        let mut columns = ColumnMap::default();
        let asked = [
            ("text", &options.text.column),
            ("id", &options.text.id_column),
            ("label", &options.label_column),
            ("split", &options.split_column),
        ];
        for (role, column) in asked {
            if let Some(column) = column {
                columns.set(role, column);
            }
        }
        let [text, id] = super::documents::ROLES;
        let label = Role { required: !options.without_labels, ..LABELS };
        let mut all = [text, id, label, SPLITS];
        if options.split_column.is_some() {
            all[SPLIT].required = true;
        }
        let roles = if options.split_column.is_some() { &all[..] } else { &all[..SPLIT] };
        let records = RecordOptions {
            columns,
            format: options.text.format,
            has_header: options.text.has_header,
            encoding: options.text.encoding.as_deref(),
        };
        let mut found = Self::default();
        let seen = records::read(path, roles, &records, &mut |row| found.add(row, options))?;
        if found.texts.is_empty() {
            return Err(Error::no_rows(path));
        }
        Ok((found, seen.notes))
    }

    fn add(&mut self, row: &Row<'_>, options: &LabelledOptions) -> Result<()> {
        let text = match row.cell(TEXT) {
            Some(Cell::Text(text)) => text,
            Some(Cell::Missing) | None => "",
            Some(other) => {
                let what = "is not text; choose another column with --column";
                return Err(row.refused(format!("`{}` {what}", other.shown())));
            }
        };
        if text.trim().is_empty() && !options.without_labels {
            return Err(row.refused("the document is empty; fill it in or drop the row"));
        }
        match row.cell(LABEL).map(content) {
            _ if options.without_labels => {}
            Some(label) if !label.is_empty() => self.labels.push(label),
            _ => return Err(row.refused("the label is missing; fill it in or drop the row")),
        }
        if let Some(cell) = options.split_column.as_ref().and(row.cell(SPLIT)) {
            self.parts.push(match content(cell).to_lowercase().as_str() {
                "train" | "training" => Part::Train,
                "validation" | "valid" | "val" | "dev" => Part::Validation,
                "test" => Part::Test,
                other => {
                    let what = format!("--split-column has `{other}`");
                    return Err(row.refused(format!("{what}; it is train, validation or test")));
                }
            });
        }
        let number = self.texts.len().to_string();
        let id = row.cell(ID).map(content).filter(|id| !id.is_empty());
        self.ids.push(id.unwrap_or(number));
        self.texts.push(text.to_owned());
        Ok(())
    }
}

/// What stands in a cell, whole.
fn content(cell: Cell<'_>) -> String {
    match cell {
        Cell::Text(text) => text.trim().to_owned(),
        other => other.shown(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(content: &str, options: &LabelledOptions) -> Result<(LabelledTexts, Vec<String>)> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("reviews.csv");
        std::fs::write(&path, content).unwrap();
        LabelledTexts::read(&path, options)
    }

    #[test]
    fn columns_by_their_names_and_by_flags() {
        let text = "label,text,where\n1,\"good, very\",train\n0,bad,test\n";
        let (found, _) = read(text, &LabelledOptions::default()).unwrap();
        assert_eq!(found.texts, ["good, very", "bad"]);
        assert_eq!(found.labels, ["1", "0"]);
        assert_eq!((found.ids[1].as_str(), found.parts.len()), ("1", 0));
        let options =
            LabelledOptions { split_column: Some("where".into()), ..LabelledOptions::default() };
        let (found, _) = read(text, &options).unwrap();
        assert_eq!(found.parts, [Part::Train, Part::Test]);
    }

    #[test]
    fn what_is_missing_is_named_with_its_place() {
        let refused =
            |text: &str, options: &LabelledOptions| read(text, options).unwrap_err().to_string();
        let usual = LabelledOptions::default();
        assert!(refused("text\ngood\n", &usual).contains("--label-column"));
        let error = refused("text,label\ngood,1\nbad,\n", &usual);
        assert!(error.contains("line 3: the label is missing"), "{error}");
        let error = refused("text,label\n  ,1\n", &usual);
        assert!(error.contains("line 2: the document is empty"), "{error}");
        let options =
            LabelledOptions { split_column: Some("part".into()), ..LabelledOptions::default() };
        let error = refused("text,label,part\ngood,1,tset\n", &options);
        assert!(error.contains("line 2: --split-column has `tset`"), "{error}");
        assert!(refused("text,label\ngood,1\n", &options).contains("part"));
    }

    #[test]
    fn new_documents_need_no_label() {
        let options = LabelledOptions { without_labels: true, ..LabelledOptions::default() };
        let (found, _) = read("id,text,label\n7,good,\n8,,1\n", &options).unwrap();
        assert_eq!((found.ids, found.labels.len()), (vec!["7".into(), "8".into()], 0));
    }
}
