//! BLAKE3 fingerprints of files: has the input changed since the job was started?
//!
//! `blake3:<hex>` covers every byte. Files above 64 MiB get `blake3-sampled:<hex>`, which covers the
//! length, the first and last 8 MiB and 256 evenly spaced blocks of 64 KiB: a second pass over
//! terabytes would cost more than the job. Objects in a store have `etag:<etag>:<size>`.
//!
//! The parsed content of a file has a fingerprint of its own: [`veridical_data::fingerprint`].

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use parquet::file::reader::Length;

use crate::{Error, Result, storage};

const WHOLE_LIMIT: u64 = 64 << 20;
const END: u64 = 8 << 20;
const BLOCKS: u64 = 256;
const BLOCK: u64 = 64 << 10;

/// Returns the fingerprint of a file.
///
/// ```
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("a.txt");
/// std::fs::write(&path, "abc")?;
/// assert!(veridical_io::fingerprint::of_file(&path)?.starts_with("blake3:6437b3ac"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::Read`] if the file cannot be read.
pub fn of_file(path: &Path) -> Result<String> {
    let failed = |e| Error::read(path, "read", e);
    let mut file = storage::open(path)?;
    if let Some(of_store) = file.fingerprint() {
        return Ok(of_store);
    }
    let len = file.len();
    let mut hasher = blake3::Hasher::new();
    if len <= WHOLE_LIMIT {
        std::io::copy(&mut file, &mut hasher).map_err(failed)?;
        return Ok(format!("blake3:{}", hasher.finalize().to_hex()));
    }
    hasher.update(&len.to_le_bytes());
    let middle = (0..BLOCKS).map(|i| (END + (len - 2 * END - BLOCK) / BLOCKS * i, BLOCK));
    for (at, n) in [(0, END), (len - END, END)].into_iter().chain(middle) {
        file.seek(SeekFrom::Start(at)).map_err(failed)?;
        std::io::copy(&mut (&mut file).take(n), &mut hasher).map_err(failed)?;
    }
    Ok(format!("blake3-sampled:{}", hasher.finalize().to_hex()))
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn a_small_file_is_hashed_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        std::fs::write(&path, b"abc").unwrap();
        // BLAKE3 of "abc", from the BLAKE3 test vectors.
        let want = "blake3:6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85";
        assert_eq!(of_file(&path).unwrap(), want);
    }

    #[test]
    fn a_large_file_notices_a_changed_end_and_length() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let file = File::create(&path).unwrap();
        file.set_len(WHOLE_LIMIT + 1).unwrap();
        let before = of_file(&path).unwrap();
        file.set_len(WHOLE_LIMIT + 2).unwrap();
        assert!(before.starts_with("blake3-sampled:") && before != of_file(&path).unwrap());
    }
}
