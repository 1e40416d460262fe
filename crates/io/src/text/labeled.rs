//! Documents with labels, and optionally the part (training, validation or test set) they belong to, from a table.

use std::path::Path;

use veridical_data::{Cell, LabeledTexts, Part};

use super::documents::{ID_ROLE, TEXT_ROLE};
use crate::records::{self, RecordOptions, Role, Row};
use crate::{Error, Result};

/// Options for reading labeled documents.
#[derive(Clone, Debug, Default)]
pub struct LabeledOptions {
    /// How the files are read; their columns are `text`, `id`, `label` and, only if named, `split`, with the values train,
    /// validation and test.
    pub records: RecordOptions,
    /// Whether labels and words are optional, for documents that are only to be classified or encoded.
    pub without_labels: bool,
}

const TEXT: usize = 0;
const ID: usize = 1;
const LABEL: usize = 2;
const SPLIT: usize = 3;

const LABELS: Role = Role {
    name: "label",
    flag: "⟨label-column⟩ ",
    known: &["label", "class", "target", "sentiment", "category", "polarity"],
    required: true,
    place: 0,
};
/// Found only by the name that the user gives.
const SPLITS: Role =
    Role { name: "split", flag: "⟨split-column⟩ ", known: &[], required: true, place: 0 };

/// Reads the labeled documents of a table. Also returns notes for the user.
///
/// # Errors
/// [`Error::Content`] for missing columns; names the first row without a label, without text, or with an invalid
/// part.
pub fn read_labeled(path: &Path, options: &LabeledOptions) -> Result<(LabeledTexts, Vec<String>)> {
    let label = Role { required: !options.without_labels, ..LABELS };
    let all = [TEXT_ROLE, ID_ROLE, label, SPLITS];
    let has_split = options.records.columns.of_role(&SPLITS).is_some();
    let roles = if has_split { &all[..] } else { &all[..SPLIT] };
    let mut found = LabeledTexts::default();
    let seen =
        records::read(path, roles, &options.records, &mut |row| add(&mut found, row, options))?;
    if found.texts.is_empty() {
        return Err(Error::no_rows(path));
    }
    Ok((found, seen.notes))
}

fn add(found: &mut LabeledTexts, row: &Row<'_>, options: &LabeledOptions) -> Result<()> {
    let text = match row.cell(TEXT) {
        Some(Cell::Text(text)) => text,
        Some(Cell::Missing) | None => "",
        Some(other) => {
            let what = "is not text; choose another column with ⟨column⟩";
            return Err(row.refused(format!("`{}` {what}", other.shown())));
        }
    };
    if text.trim().is_empty() && !options.without_labels {
        return Err(row.refused("the document is empty; fill it in or drop the row"));
    }
    match row.cell(LABEL).map(content) {
        _ if options.without_labels => {}
        Some(label) if !label.is_empty() => found.labels.push(label),
        _ => return Err(row.refused("the label is missing; fill it in or drop the row")),
    }
    if let Some(cell) = row.cell(SPLIT) {
        found.parts.push(match content(cell).to_lowercase().as_str() {
            "train" | "training" => Part::Train,
            "validation" | "valid" | "val" | "dev" => Part::Validation,
            "test" => Part::Test,
            other => {
                let what = format!("⟨split-column⟩ has `{other}`");
                return Err(row.refused(format!("{what}; expected train, validation or test")));
            }
        });
    }
    let number = found.texts.len().to_string();
    let id = row.cell(ID).map(content).filter(|id| !id.is_empty());
    found.ids.push(id.unwrap_or(number));
    found.texts.push(text.to_owned());
    Ok(())
}

/// The whole content of a cell.
fn content(cell: Cell<'_>) -> String {
    match cell {
        Cell::Text(text) => text.trim().to_owned(),
        other => other.shown(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(content: &str, options: &LabeledOptions) -> Result<(LabeledTexts, Vec<String>)> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("reviews.csv");
        std::fs::write(&path, content).unwrap();
        read_labeled(&path, options)
    }

    fn split(column: &str) -> LabeledOptions {
        let mut options = LabeledOptions::default();
        options.records.columns.set("split", column);
        options
    }

    #[test]
    fn columns_by_their_names_and_by_flags() {
        let text = "label,text,where\n1,\"good, very\",train\n0,bad,test\n";
        let (found, _) = read(text, &LabeledOptions::default()).unwrap();
        assert_eq!(found.texts, ["good, very", "bad"]);
        assert_eq!(found.labels, ["1", "0"]);
        assert_eq!((found.ids[1].as_str(), found.parts.len()), ("1", 0));
        let (found, _) = read(text, &split("where")).unwrap();
        assert_eq!(found.parts, [Part::Train, Part::Test]);
    }

    #[test]
    fn what_is_missing_is_named_with_its_place() {
        let refused =
            |text: &str, options: &LabeledOptions| read(text, options).unwrap_err().to_string();
        let usual = LabeledOptions::default();
        assert!(refused("text\ngood\n", &usual).contains("⟨label-column⟩"));
        let error = refused("text,label\ngood,1\nbad,\n", &usual);
        assert!(error.contains("line 3: the label is missing"), "{error}");
        let error = refused("text,label\n  ,1\n", &usual);
        assert!(error.contains("line 2: the document is empty"), "{error}");
        let options = split("part");
        let error = refused("text,label,part\ngood,1,tset\n", &options);
        assert!(error.contains("line 2: ⟨split-column⟩ has `tset`"), "{error}");
        assert!(refused("text,label\ngood,1\n", &options).contains("part"));
    }

    #[test]
    fn new_documents_need_no_label() {
        let options = LabeledOptions { without_labels: true, ..LabeledOptions::default() };
        let (found, _) = read("id,text,label\n7,good,\n8,,1\n", &options).unwrap();
        assert_eq!((found.ids, found.labels.len()), (vec!["7".into(), "8".into()], 0));
    }
}
