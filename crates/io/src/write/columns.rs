//! Result tables: a few named columns, written row by row and published whole.
//!
//! Rows are passed to the format in pieces of 65,536 whatever their batches, so the bytes depend on
//! the rows alone.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Int64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_ipc::writer::FileWriter;
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use veridical_core::{Cancel, Error as Core};

use super::GROUP_ROWS;
use super::delimited::push_float;
use crate::publish::Aside;
use crate::storage::{Remote, staging_path};
use crate::{Error, Result};

const CREATED_BY: &str = concat!("veridical ", env!("CARGO_PKG_VERSION"));

/// Writes a table of named columns to Parquet, Arrow, CSV, TSV or JSON Lines, by the file extension. The file
/// appears when it is finished; an unfinished one leaves nothing behind.
pub struct ColumnWriter {
    output: PathBuf,
    /// The temporary file, until it is finished.
    aside: Option<Aside>,
    remote: Option<Remote>,
    schema: Arc<Schema>,
    sink: Option<Sink>,
    waiting: Vec<RecordBatch>,
    n_waiting: usize,
}

enum Sink {
    Parquet(Box<ArrowWriter<BufWriter<File>>>),
    Arrow(FileWriter<BufWriter<File>>),
    Delimited(csv::Writer<File>),
    Lines(BufWriter<File>),
}

const KNOWN: &str = ".parquet, .arrow, .csv, .tsv and .jsonl";

impl ColumnWriter {
    /// Starts a file with these columns.
    ///
    /// # Errors
    /// [`Error::Content`] for an unknown file extension, [`Error::Write`] if writing fails.
    pub fn create(output: &Path, fields: Vec<Field>) -> Result<Self> {
        let extension =
            output.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        if !["parquet", "pq", "arrow", "csv", "tsv", "jsonl", "ndjson"].contains(&&*extension) {
            let what = format!(
                "cannot infer the output format from the file name; known extensions are {KNOWN}"
            );
            return Err(Error::content(output, what));
        }
        let remote = Remote::of(output)?;
        let place = match &remote {
            Some(_) => staging_path(output, None)?,
            None => output.to_owned(),
        };
        if let (Some(_), Some(folder)) = (&remote, place.parent()) {
            fs::create_dir_all(folder).map_err(|e| Error::write(folder, e))?;
        }
        let failed = |e: std::io::Error| Error::write(output, e);
        let aside = Aside::create(&place).map_err(failed)?;
        let file = aside.handle().map_err(failed)?;
        let schema = Arc::new(Schema::new(fields));
        let mut writer = Self {
            output: output.to_owned(),
            aside: Some(aside),
            remote,
            schema: Arc::clone(&schema),
            sink: None,
            waiting: Vec::new(),
            n_waiting: 0,
        };
        let other = |e: &dyn std::fmt::Display| failed(std::io::Error::other(e.to_string()));
        writer.sink = Some(match &*extension {
            "parquet" | "pq" => {
                let properties = WriterProperties::builder()
                    .set_created_by(CREATED_BY.to_owned())
                    .set_max_row_group_row_count(Some(GROUP_ROWS))
                    .build();
                let file = BufWriter::new(file);
                let writer = ArrowWriter::try_new(file, schema, Some(properties));
                Sink::Parquet(Box::new(writer.map_err(|e| other(&e))?))
            }
            "arrow" => {
                let writer = FileWriter::try_new(BufWriter::new(file), &schema);
                Sink::Arrow(writer.map_err(|e| other(&e))?)
            }
            "jsonl" | "ndjson" => Sink::Lines(BufWriter::new(file)),
            text => {
                let delimiter = if text == "tsv" { b'\t' } else { b',' };
                let mut writer = csv::WriterBuilder::new().delimiter(delimiter).from_writer(file);
                let names = schema.fields().iter().map(|field| field.name());
                writer.write_record(names).map_err(|e| other(&e))?;
                Sink::Delimited(writer)
            }
        });
        Ok(writer)
    }

    /// Appends rows: one array per column, of the declared types.
    ///
    /// # Errors
    /// [`veridical_core::Error::Shape`] if the arrays do not match the columns, [`Error::Write`] if writing fails.
    pub fn write(&mut self, columns: Vec<ArrayRef>) -> Result<()> {
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns)
            .map_err(|e| Core::shape(format!("{}: {e}", self.output.display()), ""))?;
        self.n_waiting += batch.num_rows();
        self.waiting.push(batch);
        while self.n_waiting >= GROUP_ROWS {
            self.pass_on(GROUP_ROWS)?;
        }
        Ok(())
    }

    /// Passes the first `n` waiting rows to the format.
    fn pass_on(&mut self, n: usize) -> Result<()> {
        let all = arrow_select::concat::concat_batches(&self.schema, &self.waiting)
            .map_err(|e| Core::shape(format!("{}: {e}", self.output.display()), ""))?;
        self.n_waiting -= n;
        self.waiting = vec![all.slice(n, self.n_waiting)];
        let rows = all.slice(0, n);
        let failed = |e: std::io::Error| Error::write(&self.output, e);
        let other = |e: &dyn std::fmt::Display| failed(std::io::Error::other(e.to_string()));
        match &mut self.sink {
            Some(Sink::Parquet(writer)) => writer.write(&rows).map_err(|e| other(&e)),
            Some(Sink::Arrow(writer)) => writer.write(&rows).map_err(|e| other(&e)),
            Some(Sink::Delimited(writer)) => {
                let mut text = String::new();
                for row in 0..rows.num_rows() {
                    for column in rows.columns() {
                        text.clear();
                        push_value(&mut text, column, row);
                        writer.write_field(&text).map_err(|e| other(&e))?;
                    }
                    writer.write_record(None::<&[u8]>).map_err(|e| other(&e))?;
                }
                Ok(())
            }
            Some(Sink::Lines(file)) => {
                let mut line = String::new();
                for row in 0..rows.num_rows() {
                    line.clear();
                    push_object(&mut line, &self.schema, &rows, row);
                    file.write_all(line.as_bytes()).map_err(failed)?;
                }
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Writes the remaining rows and publishes the file.
    ///
    /// # Errors
    /// [`Error::Write`] if writing fails.
    pub fn finish(mut self) -> Result<()> {
        if self.n_waiting > 0 {
            self.pass_on(self.n_waiting)?;
        }
        let failed = |e: std::io::Error| Error::write(&self.output, e);
        let other = |e: &dyn std::fmt::Display| failed(std::io::Error::other(e.to_string()));
        let unbuffered =
            |file: BufWriter<File>| file.into_inner().map_err(|e| failed(e.into_error()));
        let file: File = match self.sink.take() {
            Some(Sink::Parquet(writer)) => unbuffered(writer.into_inner().map_err(|e| other(&e))?)?,
            Some(Sink::Arrow(mut writer)) => {
                writer.finish().map_err(|e| other(&e))?;
                unbuffered(writer.into_inner().map_err(|e| other(&e))?)?
            }
            Some(Sink::Delimited(writer)) => {
                writer.into_inner().map_err(|e| failed(e.into_error()))?
            }
            Some(Sink::Lines(file)) => unbuffered(file)?,
            None => return Ok(()),
        };
        drop(file);
        match (self.aside.take(), &self.remote) {
            (Some(aside), Some(remote)) => remote.send_file(aside.path(), &Cancel::default()),
            (Some(aside), None) => aside.publish(&self.output).map(|_len| ()).map_err(failed),
            (None, _) => Ok(()),
        }
    }
}

fn push_value(text: &mut String, column: &ArrayRef, row: usize) {
    if column.is_null(row) {
        return;
    }
    // Writing to a String cannot fail.
    let _ = match column.data_type() {
        DataType::Utf8 => write!(text, "{}", column.as_string::<i32>().value(row)),
        DataType::Int64 => write!(text, "{}", column.as_primitive::<Int64Type>().value(row)),
        DataType::Float32 => {
            push_float(text, column.as_primitive::<Float32Type>().value(row));
            Ok(())
        }
        _ => match ArrayFormatter::try_new(column, &FormatOptions::default()) {
            Ok(values) => write!(text, "{}", values.value(row)),
            Err(_) => Ok(()),
        },
    };
}

fn push_object(line: &mut String, schema: &Schema, rows: &RecordBatch, row: usize) {
    let mut separator = '{';
    for (field, column) in schema.fields().iter().zip(rows.columns()) {
        line.push(separator);
        separator = ',';
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        line.push_str(&quoted(field.name()));
        line.push(':');
        let mut value = String::new();
        push_value(&mut value, column, row);
        let number = value.parse::<f64>().is_ok_and(f64::is_finite);
        match column.data_type() {
            _ if column.is_null(row) => line.push_str("null"),
            kind if kind.is_numeric() && number => line.push_str(&value),
            kind if kind.is_numeric() => line.push_str("null"),
            _ => line.push_str(&quoted(&value)),
        }
    }
    line.push_str("}\n");
}

#[cfg(test)]
mod tests {
    use arrow_array::{Float32Array, Int64Array, StringArray};

    use super::*;

    fn fields() -> Vec<Field> {
        vec![
            Field::new("user", DataType::Int64, false),
            Field::new("item", DataType::Utf8, false),
            Field::new("score", DataType::Float32, true),
        ]
    }

    fn rows(from: i64, to: i64) -> Vec<ArrayRef> {
        let score = |r: i64| (r % 3 != 1).then_some(r as f32 / 2.0);
        vec![
            Arc::new(Int64Array::from_iter_values(from..to)),
            Arc::new(StringArray::from_iter_values((from..to).map(|r| format!("\"i\",{r}")))),
            Arc::new(Float32Array::from_iter((from..to).map(score))),
        ]
    }

    #[test]
    fn bytes_do_not_depend_on_batches() {
        let dir = tempfile::tempdir().unwrap();
        let n = 2 * GROUP_ROWS as i64 + 5;
        for extension in ["parquet", "arrow", "csv", "tsv", "jsonl"] {
            let written = |name: &str, step: i64| {
                let path = dir.path().join(format!("{name}.{extension}"));
                let mut writer = ColumnWriter::create(&path, fields()).unwrap();
                for from in (0..n).step_by(step as usize) {
                    writer.write(rows(from, (from + step).min(n))).unwrap();
                }
                assert!(!path.exists());
                writer.finish().unwrap();
                fs::read(&path).unwrap()
            };
            assert!(written("one", n) == written("many", 50_000), "{extension}");
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 10);
    }

    #[test]
    fn text_holds_what_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let written = |name: &str| {
            let path = dir.path().join(name);
            let mut writer = ColumnWriter::create(&path, fields()).unwrap();
            writer.write(rows(0, 2)).unwrap();
            writer.finish().unwrap();
            fs::read_to_string(&path).unwrap()
        };
        assert_eq!(written("a.csv"), "user,item,score\n0,\"\"\"i\"\",0\",0\n1,\"\"\"i\"\",1\",\n");
        let lines = written("a.jsonl");
        let parsed: Vec<serde_json::Value> =
            lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let want = [
            serde_json::json!({ "user": 0, "item": "\"i\",0", "score": 0 }),
            serde_json::json!({ "user": 1, "item": "\"i\",1", "score": null }),
        ];
        assert_eq!(parsed, want);
    }

    #[test]
    fn an_unfinished_file_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.parquet");
        fs::write(&path, "before").unwrap();
        let mut writer = ColumnWriter::create(&path, fields()).unwrap();
        writer.write(rows(0, 9)).unwrap();
        let message = writer.write(vec![]).unwrap_err().to_string();
        assert!(message.contains("a.parquet"), "{message}");
        drop(writer);
        assert_eq!(fs::read(&path).unwrap(), b"before");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        let message = ColumnWriter::create(&dir.path().join("a.xls"), fields()).err().unwrap();
        assert!(
            message
                .to_string()
                .ends_with("known extensions are .parquet, .arrow, .csv, .tsv and .jsonl")
        );
    }
}
