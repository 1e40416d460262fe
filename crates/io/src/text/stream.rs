//! Documents whose texts are never all in memory: read once for their ids and for errors, then again
//! for their texts.

use std::path::{Path, PathBuf};

use veridical_core::Error as Core;
use veridical_data::Ids;

use super::{TextOptions, doc_ids, documents};
use crate::{Error, Result, fingerprint, records};

/// A stream of documents with their ids.
#[derive(Debug)]
pub struct Documents {
    path: PathBuf,
    options: TextOptions,
    ids: Ids,
}

impl Documents {
    /// Reads all documents, as [`read_corpus`](super::read_corpus) does, and keeps their ids. Also returns notes for the user.
    ///
    /// # Errors
    /// [`Error::Content`] for input that cannot be read and for duplicate ids, [`Error::NoRows`] if there are no documents.
    pub fn open(path: &Path, options: &TextOptions) -> Result<(Self, Vec<String>)> {
        let mut ids = Vec::new();
        let mut notes = documents::read(path, options, &mut |id, _| {
            ids.push(id.to_owned_id());
            Ok(())
        })?;
        if ids.is_empty() {
            return Err(Error::no_rows(path));
        }
        let ids = doc_ids(ids, options, path, &mut notes)?;
        Ok((Self { path: path.to_owned(), options: options.clone(), ids }, notes))
    }

    /// Returns one id per document, in the order of the input.
    pub fn ids(&self) -> &Ids {
        &self.ids
    }

    /// Returns the fingerprint of every file, in order.
    ///
    /// # Errors
    /// [`Error::Read`] if a file no longer exists.
    pub fn fingerprints(&self) -> Result<Vec<String>> {
        let files = records::files(&self.path)?;
        files.iter().map(|file| fingerprint::of_file(file)).collect()
    }

    /// Passes the texts to `take` from document `first` on, until it fails.
    ///
    /// # Errors
    /// The error of `take`; [`Error::Content`] if the number of documents has changed.
    pub fn for_each<E: From<Error>>(
        &self,
        first: usize,
        mut take: impl FnMut(&str) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let changed = || Error::content(&self.path, "changed while it was read; try again");
        let (mut failure, mut seen) = (None, 0);
        let outcome = documents::read(&self.path, &self.options, &mut |_, text| {
            seen += 1;
            if seen > self.ids.len() {
                return Err(changed());
            }
            let outcome = if seen > first { take(text) } else { Ok(()) };
            outcome.map_err(|error| {
                failure = Some(error);
                Error::from(Core::Interrupted) // stops reading; `failure` is reported
            })
        });
        match failure {
            Some(error) => Err(error),
            None if outcome.is_ok() && seen < self.ids.len() => Err(changed().into()),
            None => outcome.map(|_| ()).map_err(E::from),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_in_order_from_any_document_on() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.csv");
        std::fs::write(&path, "id,text\nb,one\na,\nc,\"two\nlines\"\n").unwrap();
        let (documents, _) = Documents::open(&path, &TextOptions::default()).unwrap();
        assert_eq!(documents.ids().get(2), "c");
        for first in 0..4 {
            let mut texts = Vec::new();
            let take = |text: &str| {
                texts.push(text.to_owned());
                Ok::<(), Error>(())
            };
            documents.for_each(first, take).unwrap();
            assert_eq!(texts, ["one", "", "two\nlines"][first..]);
        }
    }

    #[test]
    fn a_failure_stops_reading_and_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.txt");
        std::fs::write(&path, "one\ntwo\nthree\n").unwrap();
        let (documents, _) = Documents::open(&path, &TextOptions::default()).unwrap();
        let mut seen = 0;
        let outcome = documents.for_each(0, |_| {
            seen += 1;
            Err(Error::content("t", "enough"))
        });
        assert_eq!((outcome.unwrap_err().to_string().as_str(), seen), ("t: enough", 1));
    }

    #[test]
    fn a_file_that_changes_between_the_two_readings_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.txt");
        for other in ["one\n", "one\ntwo\nthree\n"] {
            std::fs::write(&path, "one\ntwo\n").unwrap();
            let (documents, _) = Documents::open(&path, &TextOptions::default()).unwrap();
            std::fs::write(&path, other).unwrap();
            let message = documents.for_each(0, |_| Ok::<(), Error>(())).unwrap_err().to_string();
            assert!(message.contains("t.txt: changed while it was read"), "{message}");
        }
    }

    #[test]
    fn text_that_is_not_utf_8_is_named_by_its_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.txt");
        std::fs::write(&path, b"one\ntw\xffo\n").unwrap();
        let message = Documents::open(&path, &TextOptions::default()).unwrap_err().to_string();
        assert!(
            message.contains("line 2 is not UTF-8; name its encoding with ⟨encoding⟩"),
            "{message}"
        );
    }
}
