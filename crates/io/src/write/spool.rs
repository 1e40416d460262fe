//! Ids spooled to separate files until the last row is known: formats that store all vectors before
//! all ids need them at the end.

use std::fs;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use veridical_data::Ids;

use super::append::Append;
use crate::{Error, IdKind, Result};

pub(super) struct IdSpool {
    kind: IdKind,
    /// Integer ids, or the text of text ids.
    ids: Append,
    /// The end of each text id.
    offsets: Append,
    pub n_rows: u64,
    /// Total bytes of all text ids.
    pub text_len: u64,
    /// Length of the longest text id in characters.
    pub longest: u64,
}

impl IdSpool {
    /// Opens files beside `path`, new or as `state` describes them.
    pub fn open(path: &Path, kind: IdKind, state: Option<&Value>) -> Result<Self> {
        let number = |key: &str| state.and_then(|state| state[key].as_u64());
        let at = |key| number(key).or(state.map(|_| 0));
        Ok(Self {
            kind,
            ids: Append::open_at(&beside(path, "ids"), at("ids_bytes"))?,
            offsets: Append::open_at(&beside(path, "offsets"), at("offsets_bytes"))?,
            n_rows: number("n_rows").unwrap_or(0),
            text_len: number("text_len").unwrap_or(0),
            longest: number("longest").unwrap_or(0),
        })
    }

    pub fn push(&mut self, ids: &Ids) -> Result<()> {
        self.n_rows += ids.len() as u64;
        match ids {
            Ids::Int(ids) if self.kind == IdKind::Int => {
                ids.values().iter().try_for_each(|id| self.ids.put(&id.to_le_bytes()))
            }
            Ids::Int(_) => Ok(()),
            Ids::Text(ids) => ids.iter().flatten().try_for_each(|id| {
                self.text_len += id.len() as u64;
                self.longest = self.longest.max(id.chars().count() as u64);
                self.ids.put(id.as_bytes())?;
                self.offsets.put(&self.text_len.to_le_bytes())
            }),
        }
    }

    /// Flushes everything to the operating system; returns the state needed to resume from here.
    pub fn end_group(&mut self) -> Result<Value> {
        Ok(json!({
            "n_rows": self.n_rows, "text_len": self.text_len, "longest": self.longest,
            "ids_bytes": self.ids.flushed()?, "offsets_bytes": self.offsets.flushed()?,
        }))
    }

    /// The integers, or all text concatenated, as stored on disk. The files stay until the output is
    /// published: a process killed from here on must find them again.
    pub fn for_each_bytes(&mut self, put: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.ids.flushed()?;
        blocks(self.ids.path(), put)
    }

    /// The end of each text id, as 64-bit integers.
    pub fn for_each_offset_bytes(&mut self, put: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.offsets.flushed()?;
        blocks(self.offsets.path(), put)
    }

    /// The text ids, one by one.
    pub fn for_each_text(&mut self, mut put: impl FnMut(&str) -> Result<()>) -> Result<()> {
        self.ids.flushed()?;
        self.offsets.flushed()?;
        let open = |path: &Path| {
            let file = fs::File::open(path).map_err(|e| Error::read(path, "read", e))?;
            Ok::<_, Error>(BufReader::with_capacity(1 << 18, file))
        };
        let (mut ids, mut offsets) = (open(self.ids.path())?, open(self.offsets.path())?);
        let failed = |e: io::Error| Error::read(self.ids.path(), "read", e);
        let mut from = 0;
        for _ in 0..self.n_rows {
            let mut to = [0; 8];
            offsets.read_exact(&mut to).map_err(failed)?;
            let to = u64::from_le_bytes(to);
            let mut text = String::new();
            (&mut ids).take(to - from).read_to_string(&mut text).map_err(failed)?;
            put(&text)?;
            from = to;
        }
        Ok(())
    }
}

fn beside(path: &Path, what: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("_{}.{what}", name.trim_start_matches('_')))
}

fn blocks(path: &Path, mut put: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let failed = |e| Error::read(path, "read", e);
    let mut file = fs::File::open(path).map_err(failed)?;
    let mut block = vec![0; 1 << 18];
    loop {
        match file.read(&mut block).map_err(failed)? {
            0 => return Ok(()),
            n => put(&block[..n])?,
        }
    }
}
