//! Streams documents from a file of lines, a column, or a folder.

use std::io::{BufReader, Read};
use std::path::Path;

use super::TextOptions;
use crate::read::{plain_text, read_line};
use crate::records::{self, Cell, RecordOptions, Role};
use crate::{Error, RecordFormat, Result, storage};

/// The id of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum DocId<T> {
    /// Its position in the input.
    Row(u64),
    /// An integer id.
    Integer(i64),
    /// A text id.
    Name(T),
}

impl DocId<&str> {
    pub fn to_owned_id(self) -> DocId<String> {
        match self {
            Self::Row(row) => DocId::Row(row),
            Self::Integer(id) => DocId::Integer(id),
            Self::Name(name) => match name.parse::<i64>() {
                Ok(id) if id.to_string() == name => DocId::Integer(id),
                _ => DocId::Name(name.to_owned()),
            },
        }
    }
}

impl DocId<String> {
    pub fn shown(&self) -> String {
        match self {
            Self::Row(row) => row.to_string(),
            Self::Integer(id) => id.to_string(),
            Self::Name(name) => name.clone(),
        }
    }

    pub fn integer(&self) -> Option<i64> {
        match self {
            Self::Row(row) => i64::try_from(*row).ok(),
            Self::Integer(id) => Some(*id),
            Self::Name(_) => None,
        }
    }
}

const TEXT: usize = 0;
const ID: usize = 1;

pub(super) const TEXT_ROLE: Role = Role {
    name: "text",
    flag: "⟨column⟩ ",
    known: &[
        "text",
        "review",
        "review_text",
        "reviewtext",
        "content",
        "body",
        "document",
        "sentence",
        "comment",
        "description",
        "abstract",
    ],
    required: true,
    place: records::LAST,
};
pub(super) const ID_ROLE: Role = Role {
    name: "id",
    flag: "⟨id-column⟩ ",
    known: &["id", "doc", "doc_id", "docid", "document_id", "review_id"],
    required: false,
    place: 0,
};
const ROLES: [Role; 2] = [TEXT_ROLE, ID_ROLE];

/// The maximum size in bytes of a file that is one document.
const MAX_DOCUMENT: u64 = 1 << 30;

type Take<'a> = dyn FnMut(DocId<&str>, &str) -> Result<()> + 'a;

/// Passes every document to `take`, until it fails; returns notes on the reading.
pub(super) fn read(path: &Path, options: &TextOptions, take: &mut Take<'_>) -> Result<Vec<String>> {
    storage::explained(|| {
        let files = records::files(path)?;
        let is_folder = files.len() != 1 || files[0] != path;
        let RecordOptions { columns, format, .. } = &options.records;
        let is_plain = |file: &Path| {
            let format = format.map_or_else(|| RecordFormat::of_path(file), Ok)?;
            Ok::<_, Error>(format == RecordFormat::Text)
        };
        let mut all_plain = true;
        for file in &files {
            all_plain &= is_plain(file)?;
        }
        if !all_plain {
            return read_column(path, options, take);
        }
        if let Some(column) = ROLES.iter().find_map(|role| columns.of_role(role)) {
            let what = format!(
                "there is no column `{column}`: plain text has none; give a CSV or Parquet file"
            );
            return Err(Error::content(path, what));
        }
        if is_folder {
            for file in &files {
                read_file(path, file, options, take)?;
            }
            return Ok(vec![format!("{} files, each a document", files.len())]);
        }
        read_lines(path, options, take)
    })
}

fn read_column(path: &Path, options: &TextOptions, take: &mut Take<'_>) -> Result<Vec<String>> {
    let mut row_number = 0;
    let seen = records::read(path, &ROLES, &options.records, &mut |row| {
        let id = match row.cell(ID) {
            None => DocId::Row(row_number),
            Some(Cell::Int(id)) => DocId::Integer(id),
            Some(Cell::Text(id)) if !id.trim().is_empty() => DocId::Name(id.trim()),
            Some(_) => return Err(row.refused("the id is missing; fill it in or drop the row")),
        };
        let text = match row.cell(TEXT) {
            Some(Cell::Text(text)) => text,
            Some(Cell::Missing) | None => "",
            Some(other) => {
                let what =
                    format!("`{}` is not text; choose another column with ⟨column⟩", other.shown());
                return Err(row.refused(what));
            }
        };
        row_number += 1;
        take(id, text)
    })?;
    Ok(seen.notes)
}

fn read_lines(path: &Path, options: &TextOptions, take: &mut Take<'_>) -> Result<Vec<String>> {
    let mut input =
        BufReader::with_capacity(1 << 18, plain_text(path, options.records.encoding.as_deref())?);
    let mut line = Vec::new();
    let mut number = 0;
    loop {
        line.clear();
        if read_line(&mut input, &mut line, path, number + 1)? == 0 {
            return Ok(vec!["one document per line, numbered from 0".into()]);
        }
        let text = std::str::from_utf8(&line)
            .map_err(|_| not_utf8(path, &format!("line {}", number + 1)))?;
        take(DocId::Row(number), text)?;
        number += 1;
    }
}

fn read_file(folder: &Path, path: &Path, options: &TextOptions, take: &mut Take<'_>) -> Result<()> {
    let mut content = Vec::new();
    let input = plain_text(path, options.records.encoding.as_deref())?;
    let read = input.take(MAX_DOCUMENT + 1).read_to_end(&mut content);
    if read.map_err(|e| Error::malformed(path, "text", e))? as u64 > MAX_DOCUMENT {
        let what = format!("the document is longer than {} MiB; cut it", MAX_DOCUMENT >> 20);
        return Err(Error::content(path, what));
    }
    let text = std::str::from_utf8(&content).map_err(|_| not_utf8(path, "the document"))?;
    let name = path.strip_prefix(folder).unwrap_or(path).to_string_lossy();
    take(DocId::Name(&name), text)
}

fn not_utf8(path: &Path, place: &str) -> Error {
    let what =
        format!("{place} is not UTF-8; name its encoding with ⟨encoding⟩, for example latin-1");
    Error::content(path, what)
}
