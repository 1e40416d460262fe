//! Publishing to a store: an object appears whole or not at all.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutPayload, WriteMultipart};
use veridical_core::Cancel;

use super::location::Location;
use super::store::{Purpose, client, explain, runtime};
use crate::{Error, Result};

/// Bytes per part; larger for files that would exceed the number of parts a store allows.
const PART: u64 = 8 << 20;
const MAX_PARTS: u64 = 9_000;
/// Parts in flight at a time.
const AT_ONCE: usize = 3;

/// Puts a small object.
pub(super) fn put(at: &Location, content: &[u8]) -> Result<()> {
    let store = client(at, Purpose::Write)?;
    let payload = PutPayload::from(content.to_vec());
    let put = runtime()?.block_on(store.put(&at.key, payload));
    put.map(|_| ()).map_err(|e| explain(at, "write", &e))
}

/// Puts a small object under a condition; `false` if the condition does not hold.
pub(super) fn put_opts(at: &Location, content: &[u8], mode: PutMode) -> Result<bool> {
    use object_store::Error as E;

    let store = client(at, Purpose::Write)?;
    let payload = PutPayload::from(content.to_vec());
    match runtime()?.block_on(store.put_opts(&at.key, payload, mode.into())) {
        Ok(_) => Ok(true),
        Err(E::AlreadyExists { .. } | E::Precondition { .. } | E::NotFound { .. }) => Ok(false),
        Err(E::NotImplemented { .. } | E::NotSupported { .. }) => Err(Error::Store {
            path: at.url.clone(),
            what: "cannot write: the store refuses conditional puts, without which two jobs could publish at \
                   once; publish to a local folder and copy it"
                .into(),
            is_transient: false,
        }),
        Err(e) => Err(explain(at, "write", &e)),
    }
}

/// Deletes an object; one that does not exist counts as deleted.
pub(super) fn delete(at: &Location) -> Result<()> {
    let store = client(at, Purpose::Write)?;
    match runtime()?.block_on(store.delete(&at.key)) {
        Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
        Err(e) => Err(explain(at, "delete", &e)),
    }
}

/// Uploads a file; a cancellation between two parts leaves nothing behind.
pub(super) fn send(from: &Path, at: &Location, cancel: &Cancel) -> Result<()> {
    let unreadable = |e| Error::read(from, "read", e);
    let mut file = File::open(from).map_err(unreadable)?;
    let len = file.metadata().map_err(unreadable)?.len();
    let part = PART.max(len.div_ceil(MAX_PARTS).next_multiple_of(1 << 20));
    let mut next_part = || {
        let mut bytes = Vec::with_capacity(len.min(part) as usize);
        (&mut file).take(part).read_to_end(&mut bytes).map_err(unreadable)?;
        Ok::<_, Error>(bytes)
    };
    if len <= part {
        return put(at, &next_part()?);
    }
    let failed = |e| explain(at, "write", &e);
    let store = client(at, Purpose::Write)?;
    runtime()?.block_on(async {
        let upload = store.put_multipart(&at.key).await.map_err(failed)?;
        let mut upload = WriteMultipart::new_with_chunk_size(upload, part as usize);
        loop {
            let ready = upload.wait_for_capacity(AT_ONCE - 1).await.map_err(failed);
            let bytes = ready.and_then(|()| Ok(cancel.check()?)).and_then(|()| next_part());
            match bytes {
                Ok(bytes) if bytes.is_empty() => break,
                Ok(bytes) => upload.put(bytes.into()),
                Err(error) => {
                    let _ = upload.abort().await; // the first error is the one to report
                    return Err(error);
                }
            }
        }
        upload.finish().await.map(|_| ()).map_err(failed)
    })
}
