//! Lines of text of bounded length.
//!
//! A compressed file of two megabytes can hold a line of gigabytes, and a quote that is never closed makes one record of
//! a whole file. No line, and no record of several lines, is longer than [`MAX_LINE`]: what is longer is refused with its
//! position before more of it is read.

use std::fmt;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;

use csv::StringRecord;

use crate::{Error, Result};

/// Bytes of the longest line, or of the longest record of several quoted lines.
pub(crate) const MAX_LINE: u64 = 64 << 20;
/// The largest number of separators in one record: a field costs more memory than its separator.
const MAX_SEPARATORS: usize = 1 << 22;
/// Text as it is read from a file.
pub(crate) type Text = Box<dyn Read + Send>;

/// The error of a line that is too long.
fn too_long(path: &Path, line: u64, excess: &Excess) -> Error {
    let remedy = "check that the file is text with one row per line";
    Error::content(path, format!("line {line} {excess}; {remedy}"))
}

/// Appends line `number` of a file with its line break; returns the number of bytes read.
pub(crate) fn read_line(
    input: &mut impl BufRead,
    line: &mut Vec<u8>,
    path: &Path,
    number: u64,
) -> Result<usize> {
    let n = input.take(MAX_LINE).read_until(b'\n', line);
    let n = n.map_err(|e| Error::malformed(path, "text", e))?;
    if n as u64 == MAX_LINE && line.last() != Some(&b'\n') {
        return Err(too_long(path, number, &Excess::Bytes));
    }
    Ok(n)
}

/// The first line that is not blank, read ahead, and a reader of the whole text, without a byte order mark.
pub(crate) fn with_first_line(path: &Path, input: Text) -> Result<(Text, Vec<u8>)> {
    let mut input = BufReader::with_capacity(1 << 18, input);
    let mut head = Vec::new();
    let mut number = 1;
    let first = loop {
        let start = head.len();
        let n = read_line(&mut input, &mut head, path, number)?;
        if start == 0 && head.starts_with(b"\xEF\xBB\xBF") {
            head.drain(..3);
        }
        if n == 0 || !head[start..].trim_ascii().is_empty() || head.len() as u64 > MAX_LINE {
            break head[start..].to_vec();
        }
        number += 1;
    };
    Ok((Box::new(Cursor::new(head).chain(input)), first))
}

/// How a record exceeds the bounds.
#[derive(Clone, Copy, Debug)]
enum Excess {
    Bytes,
    Separators,
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes => {
                let mib = MAX_LINE >> 20;
                write!(f, "is longer than {mib} MiB, or has a quote that is not closed")
            }
            Self::Separators => write!(f, "has more than {MAX_SEPARATORS} fields"),
        }
    }
}

impl std::error::Error for Excess {}

/// Counts the bytes and separators since the last record.
struct Metered {
    inner: Text,
    separator: u8,
    bytes: u64,
    separators: usize,
}

impl Read for Metered {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let excess = if self.bytes >= MAX_LINE {
            Some(Excess::Bytes)
        } else {
            (self.separators > MAX_SEPARATORS).then_some(Excess::Separators)
        };
        if let Some(excess) = excess {
            return Err(io::Error::new(io::ErrorKind::InvalidData, excess));
        }
        let n = self.inner.read(out)?;
        self.bytes += n as u64;
        self.separators += out[..n].iter().filter(|&&byte| byte == self.separator).count();
        Ok(n)
    }
}

/// The records of delimited text.
pub(crate) struct CsvRecords {
    reader: csv::Reader<Metered>,
}

impl CsvRecords {
    /// All lines are records, the first one too.
    pub fn new(input: Text, separator: u8, quoting: bool) -> Self {
        let metered = Metered { inner: input, separator, bytes: 0, separators: 0 };
        let mut builder = csv::ReaderBuilder::new();
        builder.delimiter(separator).quoting(quoting).has_headers(false);
        Self { reader: builder.from_reader(metered) }
    }

    /// Reads the next record; false after the last.
    pub fn advance(&mut self, record: &mut StringRecord, path: &Path) -> Result<bool> {
        let first = self.reader.position().line();
        let more = self.reader.read_record(record).map_err(|e| failed(&e, first, path))?;
        let metered = self.reader.get_mut();
        (metered.bytes, metered.separators) = (0, 0);
        Ok(more)
    }
}

/// `first` is the line on which the record begins.
fn failed(error: &csv::Error, first: u64, path: &Path) -> Error {
    let line = error.position().map_or(first, csv::Position::line);
    match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            let what = "repair the line, or quote fields that contain the separator";
            Error::content(
                path,
                format!("line {line} has {len} fields where {expected_len} are expected; {what}"),
            )
        }
        csv::ErrorKind::Utf8 { .. } => Error::content(
            path,
            format!(
                "line {line} is not UTF-8; name its encoding with ⟨encoding⟩, for example latin-1"
            ),
        ),
        csv::ErrorKind::Io(e) => match e.get_ref().and_then(|e| e.downcast_ref::<Excess>()) {
            Some(excess) => too_long(path, first, excess),
            None => Error::malformed(path, "text", e),
        },
        other => Error::malformed(path, "text", format!("{other:?}")),
    }
}

/// The line of a record.
pub(crate) fn line_of(record: &StringRecord) -> u64 {
    record.position().map_or(0, csv::Position::line)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first bytes, then the others over and over, so that no memory is needed for them.
    struct Endless(Vec<u8>, &'static [u8], u64);

    impl Read for Endless {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            if !self.0.is_empty() {
                let n = self.0.len().min(out.len());
                out[..n].copy_from_slice(&self.0[..n]);
                self.0.drain(..n);
                return Ok(n);
            }
            let n = (out.len() as u64).min(self.2) as usize / self.1.len() * self.1.len();
            out[..n].chunks_mut(self.1.len()).for_each(|to| to.copy_from_slice(self.1));
            self.2 -= n as u64;
            Ok(n)
        }
    }

    fn message(start: &str, then: &'static [u8], n: u64) -> Option<String> {
        let input = Box::new(Endless(start.as_bytes().to_vec(), then, n));
        let mut records = CsvRecords::new(input, b',', true);
        let mut record = StringRecord::new();
        loop {
            match records.advance(&mut record, Path::new("t.csv")) {
                Ok(true) => {}
                Ok(false) => return None,
                Err(e) => return Some(e.to_string()),
            }
        }
    }

    #[test]
    fn a_line_that_never_ends_is_refused_with_its_number() {
        let long = "t.csv: line 3 is longer than 64 MiB, or has a quote that is not closed; check that \
                    the file is text with one row per line";
        assert_eq!(message("a,b\n1,2\n", b"7", 1 << 40).unwrap(), long);
        assert_eq!(message("a,b\n1,2\n3,\"", b"\n", 1 << 40).unwrap(), long);
        let fields = "t.csv: line 1 has more than 4194304 fields; check that the file is text with one \
                      row per line";
        assert_eq!(message("a", b",", 1 << 40).unwrap(), fields);
    }

    #[test]
    fn long_text_of_short_lines_is_read() {
        assert_eq!(message("a\n", b"1\n", MAX_LINE + (1 << 20)), None);
        let mut input = BufReader::new(&b"a\nb"[..]);
        let mut line = Vec::new();
        assert_eq!(read_line(&mut input, &mut line, Path::new("t"), 1).unwrap(), 2);
        assert_eq!(read_line(&mut input, &mut line, Path::new("t"), 2).unwrap(), 1);
        let mut endless = BufReader::new(Endless(Vec::new(), b"x", 1 << 40));
        let error = read_line(&mut endless, &mut Vec::new(), Path::new("t"), 7).unwrap_err();
        assert!(error.to_string().starts_with("t: line 7 is longer than 64 MiB"), "{error}");
    }
}
