//! Records of text files: one line each, or several where a field is quoted.

use std::io::BufReader;
use std::path::Path;

use csv::StringRecord;

use super::columns::{are_names, by_name, by_place};
use super::{Cell, Found, Place, RecordFormat, RecordOptions, Role, Row};
use crate::read::{CsvRecords, Text, line_of, plain_text, read_line, with_first_line};
use crate::{Error, Result};

type Input = BufReader<Text>;

/// The separator between fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Separator {
    Byte(u8),
    DoubleColon,
    Spaces,
}

impl Separator {
    pub fn of(format: RecordFormat, line: &[u8]) -> Self {
        let has = |byte: u8| line.contains(&byte);
        let first = |bytes: &[u8]| bytes.iter().copied().find(|&byte| has(byte)).map(Self::Byte);
        let has_colons = line.windows(2).any(|pair| pair == b"::");
        match format {
            RecordFormat::Tsv | RecordFormat::Inter => Self::Byte(b'\t'),
            RecordFormat::Csv => first(b",;\t|").unwrap_or(Self::Byte(b',')),
            _ if has_colons => Self::DoubleColon,
            _ => first(b"\t,;|").unwrap_or(Self::Spaces),
        }
    }
}

pub(super) fn read(
    path: &Path,
    format: RecordFormat,
    roles: &[Role],
    options: &RecordOptions,
    take: &mut dyn FnMut(&Row<'_>) -> Result<()>,
) -> Result<(Found, Vec<String>)> {
    let input = plain_text(path, options.encoding.as_deref())?;
    let (input, first) = with_first_line(path, input)?;
    let separator = Separator::of(format, &first);
    let mut records = Records::new(input, separator, format != RecordFormat::Inter);
    if !records.advance(path)? {
        return Err(Error::no_rows(path));
    }
    let has_names = match options.has_header {
        Some(has_header) => has_header || format == RecordFormat::Inter,
        None => format == RecordFormat::Inter || are_names(records.fields(), &options.columns),
    };
    let found = if has_names {
        let name = |field: &str| {
            let plain = field.trim();
            // RecBole: `user_id:token`.
            let plain =
                if format == RecordFormat::Inter { plain.split(':').next() } else { Some(plain) };
            plain.unwrap_or_default().to_owned()
        };
        let names: Vec<String> = records.fields().map(name).collect();
        let found = by_name(path, &names, roles, &options.columns).map_err(|e| match e {
            Error::Content { path, what } if options.has_header.is_none() => Error::Content {
                path,
                what: format!("{what}, or pass ⟨no-header⟩ if the first line is data"),
            },
            other => other,
        })?;
        if !records.advance(path)? {
            return Err(Error::no_rows(path));
        }
        found
    } else {
        by_place(path, records.fields().count(), roles, &options.columns)?
    };
    let width = found.width();
    loop {
        if records.len() < width {
            let (line, n) = (records.line(), records.len());
            let what = format!("line {line} has {n} fields where {width} are expected");
            return Err(Error::content(path, format!("{what}; repair the line")));
        }
        let cell = |place: Option<usize>| place.map(|place| Cell::Text(records.get(place)));
        let place = Place::Line(records.line());
        take(&Row { path, place, cells: found.places.map(cell) })?;
        if !records.advance(path)? {
            break;
        }
    }
    Ok((found, records.note(path).into_iter().collect()))
}

/// A stream of records.
pub(super) enum Records {
    Csv { reader: CsvRecords, record: StringRecord },
    Split(SplitLines),
}

/// Lines without quotes.
pub(super) struct SplitLines {
    input: Input,
    separator: Separator,
    bytes: Vec<u8>,
    line: String,
    fields: Vec<std::ops::Range<usize>>,
    /// The number of fields of the first record.
    width: Option<usize>,
    number: u64,
    /// The number of lines that are not UTF-8.
    latin: u64,
}

impl Records {
    pub fn new(input: Text, separator: Separator, quoting: bool) -> Self {
        match separator {
            Separator::Byte(byte) => Self::Csv {
                reader: CsvRecords::new(input, byte, quoting),
                record: StringRecord::new(),
            },
            _ => Self::Split(SplitLines {
                input: BufReader::with_capacity(1 << 18, input),
                separator,
                bytes: Vec::new(),
                line: String::new(),
                fields: Vec::new(),
                width: None,
                number: 0,
                latin: 0,
            }),
        }
    }

    /// Advances to the next record; false after the last.
    pub fn advance(&mut self, path: &Path) -> Result<bool> {
        match self {
            Self::Csv { reader, record } => reader.advance(record, path),
            Self::Split(lines) => lines.advance(path),
        }
    }

    pub fn get(&self, place: usize) -> &str {
        match self {
            Self::Csv { record, .. } => &record[place],
            Self::Split(lines) => &lines.line[lines.fields[place].clone()],
        }
    }

    pub fn len(&self) -> usize {
        match self {
            Self::Csv { record, .. } => record.len(),
            Self::Split(lines) => lines.fields.len(),
        }
    }

    pub fn fields(&self) -> impl Iterator<Item = &str> + Clone {
        (0..self.len()).map(|place| self.get(place))
    }

    pub fn line(&self) -> u64 {
        match self {
            Self::Csv { record, .. } => line_of(record),
            Self::Split(lines) => lines.number,
        }
    }

    fn note(&self, path: &Path) -> Option<String> {
        match self {
            Self::Split(lines) if lines.latin > 0 => {
                let n = lines.latin;
                let lines = if n == 1 { "1 line is" } else { &format!("{n} lines are") };
                let what =
                    format!("{lines} not UTF-8 and read as latin-1 (⟨encoding⟩ names another)");
                Some(format!("{}: {what}", path.display()))
            }
            _ => None,
        }
    }
}

impl SplitLines {
    fn advance(&mut self, path: &Path) -> Result<bool> {
        loop {
            self.bytes.clear();
            let n = read_line(&mut self.input, &mut self.bytes, path, self.number + 1)?;
            if n == 0 {
                return Ok(false);
            }
            self.number += 1;
            let bytes = self.bytes.trim_ascii_end();
            if !bytes.is_empty() {
                self.line.clear();
                if let Ok(text) = std::str::from_utf8(bytes) {
                    self.line.push_str(text);
                } else {
                    self.latin += 1;
                    self.line.push_str(&encoding_rs::WINDOWS_1252.decode(bytes).0);
                }
                break;
            }
        }
        self.split();
        let (n, width) = (self.fields.len(), *self.width.get_or_insert(self.fields.len()));
        if n != width {
            let what = format!("line {} has {n} fields where {width} are expected", self.number);
            return Err(Error::content(path, format!("{what}; repair the line")));
        }
        Ok(true)
    }

    fn split(&mut self) {
        self.fields.clear();
        let mut from = 0;
        match self.separator {
            Separator::DoubleColon => {
                for (at, colons) in self.line.match_indices("::") {
                    self.fields.push(from..at);
                    from = at + colons.len();
                }
                self.fields.push(from..self.line.len());
            }
            _ => {
                for (at, space) in self.line.match_indices([' ', '\t']) {
                    if at > from {
                        self.fields.push(from..at);
                    }
                    from = at + space.len();
                }
                if from < self.line.len() {
                    self.fields.push(from..self.line.len());
                }
            }
        }
    }
}
