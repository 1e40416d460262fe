//! An object that is read like a file: blocks of 4 MiB by ranged requests, with the last few cached, and the next one
//! prefetched after two consecutive reads. Every request is tied to the state of the object when it was opened, so that a
//! table is never a mix of two versions.

use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt};
use tokio::task::JoinHandle;

use super::failure;
use super::location::Location;
use super::store::{Purpose, changed, client, explain, runtime};
use crate::Result;

const BLOCK: u64 = 4 << 20;
/// Cached blocks: the columns of a Parquet file are read in turn.
const KEPT: usize = 6;

type Fetched = std::result::Result<Bytes, Failed>;

enum Failed {
    Store(object_store::Error),
    Changed,
}

/// An open object. Clones share their cache but not their position.
#[derive(Clone)]
pub(crate) struct Object {
    shared: Arc<Shared>,
    position: u64,
}

struct Shared {
    at: Location,
    store: Arc<dyn ObjectStore>,
    meta: ObjectMeta,
    blocks: Mutex<Blocks>,
}

#[derive(Default)]
struct Blocks {
    /// Most recently used last.
    kept: Vec<(u64, Bytes)>,
    ahead: Option<(u64, JoinHandle<Fetched>)>,
}

impl Object {
    /// Requests the size and state of the object.
    pub fn open(at: &Location) -> Result<Self> {
        Self::open_in(client(at, Purpose::Read)?, at)
    }

    fn open_in(store: Arc<dyn ObjectStore>, at: &Location) -> Result<Self> {
        let meta = runtime()?.block_on(store.head(&at.key));
        let meta = meta.map_err(|e| explain(at, "open", &e))?;
        let blocks = Mutex::default();
        let shared = Arc::new(Shared { at: at.clone(), store, meta, blocks });
        Ok(Self { shared, position: 0 })
    }

    pub fn len(&self) -> u64 {
        self.shared.meta.size
    }

    /// An identifier of the state of the object.
    pub fn fingerprint(&self) -> String {
        let ObjectMeta { size, e_tag, last_modified, .. } = &self.shared.meta;
        match e_tag {
            Some(tag) => format!("etag:{}:{size}", tag.trim_matches('"')),
            None => format!("modified:{}:{size}", last_modified.timestamp_millis()),
        }
    }

    /// A reader from `position` on.
    pub fn at(&self, position: u64) -> Self {
        Self { shared: Arc::clone(&self.shared), position }
    }

    /// Some bytes; fewer than requested at the end of a block, none at the end of the object.
    fn next_bytes(&mut self, most: usize) -> io::Result<Bytes> {
        let len = self.len();
        if self.position >= len || most == 0 {
            return Ok(Bytes::new());
        }
        let block = self.shared.block(self.position / BLOCK)?;
        let from = (self.position % BLOCK) as usize;
        let bytes = block.slice(from..block.len().min(from.saturating_add(most)));
        self.position += bytes.len() as u64;
        Ok(bytes)
    }

    /// Exactly `n` bytes from `start` on.
    pub fn range(&self, start: u64, n: usize) -> io::Result<Bytes> {
        if start.checked_add(n as u64).is_none_or(|end| end > self.len()) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut reader = self.at(start);
        let first = reader.next_bytes(n)?;
        if first.len() == n {
            return Ok(first);
        }
        let mut all = Vec::with_capacity(n);
        all.extend_from_slice(&first);
        while all.len() < n {
            all.extend_from_slice(&reader.next_bytes(n - all.len())?);
        }
        Ok(all.into())
    }
}

impl Shared {
    fn block(&self, index: u64) -> io::Result<Bytes> {
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = blocks.kept.iter().position(|(i, _)| *i == index) {
            let found = blocks.kept.remove(place);
            blocks.kept.push(found.clone());
            return Ok(found.1);
        }
        let runtime = runtime().map_err(failure::keep)?;
        let fetched = match blocks.ahead.take() {
            Some((i, task)) if i == index => runtime.block_on(task),
            other => {
                drop(other);
                runtime.block_on(runtime.spawn(self.fetch(index)))
            }
        };
        let fetched = fetched.map_err(io::Error::other)?;
        let block = fetched.map_err(|failed| {
            failure::keep(match failed {
                Failed::Store(e) => explain(&self.at, "read", &e),
                Failed::Changed => changed(&self.at),
            })
        })?;
        let in_a_row = index > 0 && blocks.kept.iter().any(|(i, _)| *i == index - 1);
        if in_a_row && (index + 1) * BLOCK < self.meta.size {
            blocks.ahead = Some((index + 1, runtime.spawn(self.fetch(index + 1))));
        }
        if blocks.kept.len() == KEPT {
            blocks.kept.remove(0);
        }
        blocks.kept.push((index, block.clone()));
        Ok(block)
    }

    fn fetch(&self, index: u64) -> impl Future<Output = Fetched> + Send + 'static {
        let range = index * BLOCK..self.meta.size.min((index + 1) * BLOCK);
        let (store, key) = (Arc::clone(&self.store), self.at.key.clone());
        let (e_tag, modified) = (self.meta.e_tag.clone(), self.meta.last_modified);
        async move {
            let options = GetOptions {
                if_match: e_tag.clone(),
                range: Some(GetRange::Bounded(range.clone())),
                ..GetOptions::default()
            };
            let got = store.get_opts(&key, options).await.map_err(Failed::Store)?;
            let same = if e_tag.is_some() {
                got.meta.e_tag == e_tag
            } else {
                got.meta.last_modified == modified
            };
            let bytes = got.bytes().await.map_err(Failed::Store)?;
            let Range { start, end } = range;
            if same && bytes.len() as u64 == end - start { Ok(bytes) } else { Err(Failed::Changed) }
        }
    }
}

impl std::fmt::Debug for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Object({} at {})", self.shared.at.url, self.position)
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        if let Some((_, task)) = &self.ahead {
            task.abort();
        }
    }
}

impl Read for Object {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let bytes = self.next_bytes(out.len())?;
        out[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }
}

impl Seek for Object {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let place = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
            SeekFrom::End(by) => self.len().checked_add_signed(by),
        };
        self.position = place.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use object_store::memory::InMemory;

    use super::*;

    fn opened(content: &[u8]) -> (Object, impl Fn(&[u8]) + use<>) {
        let at = Location::parse(Path::new("s3://bucket/t")).unwrap().unwrap();
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let (to, key) = (Arc::clone(&store), at.key.clone());
        let put = move |content: &[u8]| {
            let payload = object_store::PutPayload::from(content.to_vec());
            runtime().unwrap().block_on(to.put(&key, payload)).unwrap();
        };
        put(content);
        (Object::open_in(store, &at).unwrap(), put)
    }

    fn content() -> Vec<u8> {
        (0..5 * BLOCK as u32 / 4 + 7).flat_map(u32::to_le_bytes).collect()
    }

    #[test]
    fn an_object_reads_as_its_bytes_from_any_place() {
        let content = content();
        let (mut object, _) = opened(&content);
        let mut all = Vec::new();
        object.read_to_end(&mut all).unwrap();
        assert!(all == content);
        let b = BLOCK as usize;
        for (at, n) in [(0, 1), (b - 3, 7), (3 * b + 5, 2 * b), (1, 3 * b), (content.len() - 9, 9)]
        {
            assert!(object.range(at as u64, n).unwrap() == content[at..at + n], "{n} at {at}");
            object.seek(SeekFrom::Start(at as u64)).unwrap();
            let mut some = vec![0; n];
            object.read_exact(&mut some).unwrap();
            assert!(some == content[at..at + n], "{n} at {at}");
        }
        assert!(object.range(content.len() as u64 - 1, 2).is_err());
        assert!(object.range(u64::MAX, 2).is_err());
        assert_eq!(object.seek(SeekFrom::End(-2)).unwrap(), content.len() as u64 - 2);
        assert!(object.seek(SeekFrom::End(i64::MIN)).is_err());
    }

    #[test]
    fn reading_stops_if_an_object_changes() {
        let mut content = content();
        let (mut object, put) = opened(&content);
        let before = object.fingerprint();
        let mut some = vec![0; 10];
        object.read_exact(&mut some).unwrap();
        content[0] ^= 1;
        put(&content);
        let error = failure::explained(|| {
            object.seek(SeekFrom::Start(3 * BLOCK)).unwrap();
            object.read_exact(&mut some).map_err(|e| crate::Error::content("t", e.to_string()))
        });
        let want = "s3://bucket/t: cannot read: the object changed while it was read; run the job again \
                    when no other process writes to it";
        assert_eq!(error.unwrap_err().to_string(), want);
        let again = Object::open_in(Arc::clone(&object.shared.store), &object.shared.at).unwrap();
        assert_ne!(before, again.fingerprint());
        assert!(before.starts_with("etag:") && before.ends_with(&format!(":{}", content.len())));
    }
}
