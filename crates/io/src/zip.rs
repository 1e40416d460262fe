//! The subset of zip that npz needs: the directory at the end of the file, entries that are stored or
//! deflated, zip64, and checksums (PKWARE's APPNOTE 6.3, sections 4.3 to 4.5).
//!
//! Written archives are stored, always in zip64 form, with the timestamp of 1980-01-01: their bytes
//! depend on the content alone.

use std::io::{self, BufReader, Read, Seek, SeekFrom, Take};

use crc32fast::Hasher;
use flate2::bufread::DeflateDecoder;
use parquet::file::reader::Length;

use crate::storage::InputFile;

type Result<T> = std::result::Result<T, String>;

const LOCAL: [u8; 4] = *b"PK\x03\x04";
const CENTRAL: [u8; 4] = *b"PK\x01\x02";
const END: [u8; 4] = *b"PK\x05\x06";
const END64: [u8; 4] = *b"PK\x06\x06";
const LOCATOR64: [u8; 4] = *b"PK\x06\x07";
const END_LEN: u64 = 22;
const LOCATOR_LEN: u64 = 20;
/// A larger directory cannot belong to a table.
const MAX_DIRECTORY: u64 = 64 << 20;
/// The largest expansion that deflate can reach.
const MAX_RATIO: u64 = 1032;
const STORED: u16 = 0;
const DEFLATED: u16 = 8;
const ZIP64: u16 = 1;
/// The version that introduced zip64.
const VERSION: u16 = 45;
/// 1980-01-01, the first date that zip can represent.
const DAY: u16 = 0x21;

/// A file in an archive.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub name: String,
    /// Decompressed size in bytes.
    pub size: u64,
    compressed: u64,
    method: u16,
    is_encrypted: bool,
    crc: u32,
    header_at: u64,
}

impl Entry {
    /// Whether its bytes are stored uncompressed.
    pub fn is_stored(&self) -> bool {
        self.method == STORED
    }

    /// The offset of its bytes.
    pub fn data_start(&self, file: &mut InputFile) -> Result<u64> {
        let mut header = [0; 30];
        let at = SeekFrom::Start(self.header_at);
        let read = file.seek(at).and_then(|_| file.read_exact(&mut header));
        if read.is_err() || header[..4] != LOCAL {
            return Err(format!("`{}` is not where the directory says", self.name));
        }
        let names = u64::from(u16_at(&header, 26)) + u64::from(u16_at(&header, 28));
        let start = self.header_at + 30 + names;
        if start.checked_add(self.compressed).is_none_or(|end| end > file.len()) {
            return Err(format!("`{}` extends beyond the end of the file", self.name));
        }
        Ok(start)
    }

    /// Reads its bytes from the start.
    pub fn open(&self, mut file: InputFile) -> Result<EntryReader> {
        if self.is_encrypted {
            return Err(format!("`{}` is encrypted", self.name));
        }
        let start = self.data_start(&mut file)?;
        file.seek(SeekFrom::Start(start)).map_err(|e| e.to_string())?;
        let bytes = BufReader::with_capacity(1 << 18, file.take(self.compressed));
        let content = match self.method {
            STORED if self.size == self.compressed => Content::Stored(bytes),
            DEFLATED if self.size / MAX_RATIO <= self.compressed => {
                Content::Deflated(DeflateDecoder::new(bytes))
            }
            STORED | DEFLATED => {
                let (size, there) = (self.size, self.compressed);
                return Err(format!("`{}` promises {size} bytes from {there}", self.name));
            }
            other => {
                let what = "is compressed by method";
                return Err(format!("`{}` {what} {other}, not stored or deflated", self.name));
            }
        };
        let (left, crc, name) = (self.size, self.crc, self.name.clone());
        Ok(EntryReader { content, left, crc, hasher: Hasher::new(), name })
    }
}

/// The bytes of an entry; the last one is returned only if the checksum is correct.
pub(crate) struct EntryReader {
    content: Content,
    left: u64,
    hasher: Hasher,
    crc: u32,
    name: String,
}

enum Content {
    Stored(BufReader<Take<InputFile>>),
    Deflated(DeflateDecoder<BufReader<Take<InputFile>>>),
}

impl Read for EntryReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = out.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        if n == 0 {
            return Ok(0);
        }
        let bad = |what: &str| {
            io::Error::new(io::ErrorKind::InvalidData, format!("`{}` {what}", self.name))
        };
        let n = match &mut self.content {
            Content::Stored(bytes) => bytes.read(&mut out[..n])?,
            Content::Deflated(bytes) => bytes.read(&mut out[..n])?,
        };
        if n == 0 {
            return Err(bad("is cut off"));
        }
        self.hasher.update(&out[..n]);
        self.left -= n as u64;
        if self.left == 0 && self.hasher.clone().finalize() != self.crc {
            return Err(bad("has a wrong checksum"));
        }
        Ok(n)
    }
}

/// The entries of an archive, as its directory lists them.
pub(crate) fn directory(file: &mut InputFile) -> Result<Vec<Entry>> {
    let (at, len) = locate(file)?;
    if len > MAX_DIRECTORY || at.checked_add(len).is_none_or(|end| end > file.len()) {
        return Err(format!(
            "the directory promises {len} bytes at {at} but the file has {}",
            file.len()
        ));
    }
    let mut bytes = vec![0; len as usize];
    read_at(file, at, &mut bytes)?;
    let mut rest = &bytes[..];
    let mut entries = Vec::new();
    while !rest.is_empty() {
        let (entry, len) = central(rest).ok_or("the directory is damaged")?;
        rest = &rest[len..];
        entries.push(entry);
    }
    Ok(entries)
}

/// The offset and length of the directory.
fn locate(file: &mut InputFile) -> Result<(u64, u64)> {
    let len = file.len();
    if len < END_LEN {
        return Err("it is shorter than the end of an archive".into());
    }
    // A comment of up to 65,535 bytes may follow the record.
    let tail_len = len.min(END_LEN + u64::from(u16::MAX));
    let mut tail = vec![0; tail_len as usize];
    read_at(file, len - tail_len, &mut tail)?;
    let ends_here = |&at: &usize| {
        let comment = tail.get(at + 20..at + 22).map(|b| usize::from(u16_at(b, 0)));
        tail[at..].starts_with(&END) && comment == Some(tail.len() - at - END_LEN as usize)
    };
    let at = (0..=tail.len() - END_LEN as usize)
        .rev()
        .find(ends_here)
        .ok_or("the end of the archive is missing")?;
    let end = &tail[at..];
    let plain = (u64::from(u32_at(end, 16)), u64::from(u32_at(end, 12)));
    let end_at = len - tail_len + at as u64;
    let Some(locator_at) = end_at.checked_sub(LOCATOR_LEN) else { return Ok(plain) };
    let mut locator = [0; LOCATOR_LEN as usize];
    read_at(file, locator_at, &mut locator)?;
    if locator[..4] != LOCATOR64 {
        return Ok(plain);
    }
    let mut end64 = [0; 56];
    read_at(file, u64_at(&locator, 8), &mut end64)?;
    if end64[..4] != END64 {
        return Err("the zip64 end of the archive is not where it should be".into());
    }
    Ok((u64_at(&end64, 48), u64_at(&end64, 40)))
}

fn read_at(file: &mut InputFile, at: u64, out: &mut [u8]) -> Result<()> {
    let read = file.seek(SeekFrom::Start(at)).and_then(|_| file.read_exact(out));
    read.map_err(|e| format!("the directory cannot be read: {e}"))
}

/// One entry of the directory and its length there.
fn central(bytes: &[u8]) -> Option<(Entry, usize)> {
    let fixed = bytes.get(..46).filter(|fixed| fixed[..4] == CENTRAL)?;
    let [name_len, extra_len, comment_len] = [28, 30, 32].map(|at| usize::from(u16_at(fixed, at)));
    let name = bytes.get(46..46 + name_len)?;
    let extra = bytes.get(46 + name_len..)?.get(..extra_len)?;
    let len = 46 + name_len + extra_len + comment_len;
    bytes.get(..len)?;
    let mut sizes = [24, 20, 42].map(|at| u64::from(u32_at(fixed, at)));
    let mut large = zip64_field(extra);
    for size in &mut sizes {
        if *size == u64::from(u32::MAX) {
            let (value, rest) = large?.split_at_checked(8)?;
            *size = u64_at(value, 0);
            large = Some(rest);
        }
    }
    let [size, compressed, header_at] = sizes;
    let entry = Entry {
        name: String::from_utf8_lossy(name).into_owned(),
        size,
        compressed,
        method: u16_at(fixed, 10),
        is_encrypted: u16_at(fixed, 8) & 1 == 1,
        crc: u32_at(fixed, 16),
        header_at,
    };
    Some((entry, len))
}

fn zip64_field(mut extra: &[u8]) -> Option<&[u8]> {
    while extra.len() >= 4 {
        let (id, len) = (u16_at(extra, 0), usize::from(u16_at(extra, 2)));
        let field = extra.get(4..4 + len)?;
        if id == ZIP64 {
            return Some(field);
        }
        extra = &extra[4 + len..];
    }
    None
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

/// A stored entry to be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewEntry {
    pub name: &'static str,
    pub size: u64,
    pub crc: u32,
    /// The offset of its local header.
    pub at: u64,
}

/// Bytes of the local header of an entry with this name.
pub(crate) const fn local_len(name: &str) -> usize {
    30 + name.len() + 20
}

impl NewEntry {
    /// The header that precedes its bytes.
    pub fn local_header(&self) -> Vec<u8> {
        let mut out = LOCAL.to_vec();
        self.push_common(&mut out, 20);
        out.extend(self.name.as_bytes());
        self.push_zip64(&mut out, &[self.size, self.size]);
        out
    }

    fn push_common(&self, out: &mut Vec<u8>, extra_len: u16) {
        // Version, flags, method, time, day.
        [VERSION, 0, STORED, 0, DAY].iter().for_each(|x| out.extend(x.to_le_bytes()));
        [self.crc, u32::MAX, u32::MAX].iter().for_each(|x| out.extend(x.to_le_bytes()));
        [self.name.len() as u16, extra_len].iter().for_each(|x| out.extend(x.to_le_bytes()));
    }

    fn push_zip64(&self, out: &mut Vec<u8>, values: &[u64]) {
        [ZIP64, 8 * values.len() as u16].iter().for_each(|x| out.extend(x.to_le_bytes()));
        values.iter().for_each(|x| out.extend(x.to_le_bytes()));
    }

    fn push_central(&self, out: &mut Vec<u8>) {
        out.extend(CENTRAL);
        out.extend(VERSION.to_le_bytes());
        self.push_common(out, 28);
        out.extend([0; 10]); // comment, disk, attributes
        out.extend(u32::MAX.to_le_bytes());
        out.extend(self.name.as_bytes());
        self.push_zip64(out, &[self.size, self.size, self.at]);
    }
}

/// The directory and the end of an archive; it begins at offset `at`.
pub(crate) fn end(entries: &[NewEntry], at: u64) -> Vec<u8> {
    let mut out = Vec::new();
    entries.iter().for_each(|entry| entry.push_central(&mut out));
    let (n, len) = (entries.len() as u64, out.len() as u64);
    out.extend(END64);
    out.extend(44u64.to_le_bytes()); // of the rest of this record
    out.extend(VERSION.to_le_bytes());
    out.extend(VERSION.to_le_bytes());
    out.extend([0; 8]); // disks
    [n, n, len, at].iter().for_each(|x| out.extend(x.to_le_bytes()));
    out.extend(LOCATOR64);
    out.extend([0; 4]);
    out.extend((at + len).to_le_bytes());
    out.extend(1u32.to_le_bytes());
    out.extend(END);
    out.extend([0; 4]);
    [n as u16; 2].iter().for_each(|x| out.extend(x.to_le_bytes()));
    out.extend((len as u32).to_le_bytes());
    out.extend(u32::MAX.to_le_bytes());
    out.extend([0; 2]);
    out
}
