use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::run::{EnsembleWriter, RunWriter, check_output};
use crate::{Dtype, Error, IdKind, OutputSchema, Source, TableWriter, WriteOptions};

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name());
    let mut names: Vec<String> = entries.map(|n| n.into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn what_fails_leaves_nothing_and_keeps_what_was_there() {
    let dir = tempfile::tempdir().unwrap();
    let (old, new) = (dir.path().join("old"), dir.path().join("new"));
    put(&old, b"precious").unwrap();
    for path in [&old, &new] {
        let failed = file(path, |out| {
            out.write_all(b"half")?;
            Err(io::Error::other("no more"))
        });
        let message = format!("{}: cannot write: no more", path.display());
        assert_eq!(failed.unwrap_err().to_string(), message);
    }
    let failed = folder(&new, |aside| {
        put(&aside.join("half"), b"")?;
        Err(Error::content("x", "no"))
    });
    assert!(failed.is_err());
    assert_eq!(fs::read(&old).unwrap(), b"precious");
    assert_eq!(names(dir.path()), ["old"]);
}

/// A checkpoint that does not fit on the disk: the earlier one is kept.
#[test]
fn a_full_disk_leaves_a_job_that_can_be_resumed() {
    let dir = tempfile::tempdir().unwrap();
    let full = || io::Error::from(io::ErrorKind::StorageFull);
    let error = file(&dir.path().join("state"), |_| Err(full())).unwrap_err();
    assert!(error.is_resumable(), "{error:?}");
    assert!(error.to_string().ends_with("; free some space and continue with ⟨resume⟩"), "{error}");
    put(&dir.path().join("file"), b"").unwrap();
    let below_a_file = dir.path().join("file/state");
    for error in [
        put(&below_a_file, b"").unwrap_err(),
        note(&below_a_file, b"").unwrap_err(),
        subfolder(&below_a_file).unwrap_err(),
        folder(&below_a_file, |_| Ok::<(), Error>(())).unwrap_err(),
        crate::run::write_tensors(&below_a_file, &[]).unwrap_err(),
    ] {
        assert!(matches!(error, Error::Write { .. }) && error.is_resumable(), "{error:?}");
    }
}

#[test]
fn a_folder_with_other_files_is_never_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out");
    let fill = |aside: &Path| put(&aside.join("a"), b"1");
    folder(&path, fill).unwrap();
    assert!(check_folder(&path, false, &["a"]).is_err());
    check_folder(&path, true, &["a"]).unwrap();
    folder(&path, fill).unwrap();
    put(&path.join("b"), b"precious").unwrap();
    let message = check_folder(&path, true, &["a"]).unwrap_err().to_string();
    let end = "contains files that are not part of an export; choose another name";
    assert_eq!(message, format!("{} {end}", path.display()));
}

#[test]
fn writers_of_one_file_do_not_mix_and_leave_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    fs::write(dir.path().join(".f.tmp"), "the rest of a killed process").unwrap();
    std::thread::scope(|scope| {
        for writer in 0..4u8 {
            let path = &path;
            scope.spawn(move || {
                for _ in 0..25 {
                    put(path, &vec![writer; 1000]).unwrap();
                    let found = fs::read(path).unwrap();
                    assert!(found.len() == 1000 && found.iter().all(|x| *x == found[0]));
                }
            });
        }
    });
    assert_eq!(names(dir.path()), ["f"]);
}

/// A reader that checks continuously finds the old or the new folder, and in it all of its files.
#[test]
fn a_folder_is_replaced_without_a_gap() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out");
    let fill = |text: &'static [u8]| move |aside: &Path| put(&aside.join("a"), text);
    folder(&path, fill(b"0")).unwrap();
    if !folder::exchange(&path, &path).unwrap_or(false) {
        return eprintln!("skipped: the file system cannot exchange names");
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut looks = 0;
            while !done.load(Ordering::Relaxed) {
                assert!(path.is_dir(), "look {looks} found no folder");
                looks += 1;
            }
            looks
        });
        for _ in 0..50 {
            folder(&path, fill(b"1")).unwrap();
        }
        done.store(true, Ordering::Relaxed);
        assert!(reader.join().unwrap() > 50);
    });
    assert_eq!(fs::read(path.join("a")).unwrap(), b"1");
    assert_eq!(names(dir.path()), ["out"]);
}

/// Killed between the exchange and the removal of the old folder.
#[cfg(unix)]
#[test]
fn an_exchange_without_cleanup_is_distinguished_from_an_unfinished_job() {
    use std::os::unix::fs::MetadataExt;

    let dir = tempfile::tempdir().unwrap();
    let (out, partial) = (dir.path().join("out"), dir.path().join("out.partial"));
    for (folder, text) in [(&out, "new"), (&partial, "old")] {
        fs::create_dir(folder).unwrap();
        fs::write(folder.join("a"), text).unwrap();
    }
    let found = fs::metadata(&out).unwrap();
    fs::write(dir.path().join(".out.lock"), format!("\n{}:{}\n", found.dev(), found.ino()))
        .unwrap();
    drop(Lock::acquire(&out, &partial).unwrap());
    assert_eq!(fs::read(out.join("a")).unwrap(), b"new");
    assert_eq!(names(dir.path()), ["out"]);

    // Without the exchange, the unfinished job is left as it is.
    fs::create_dir(&partial).unwrap();
    let found = fs::metadata(&partial).unwrap();
    fs::write(dir.path().join(".out.lock"), format!("\n{}:{}\n", found.dev(), found.ino()))
        .unwrap();
    drop(Lock::acquire(&out, &partial).unwrap());
    assert_eq!(names(dir.path()), ["out", "out.partial"]);

    // The two renames of a file system without the exchange: killed in between.
    fs::rename(&out, dir.path().join(".out.old")).unwrap();
    fs::write(dir.path().join(".out.lock"), format!("\n{}:{}\n", found.dev(), found.ino()))
        .unwrap();
    drop(Lock::acquire(&out, &partial).unwrap());
    assert_eq!(fs::read(out.join("a")).unwrap(), b"new");
    assert_eq!(names(dir.path()), ["out", "out.partial"]);
}

#[test]
fn one_job_at_a_time_writes_an_output() {
    let dir = tempfile::tempdir().unwrap();
    let held = |error: Error, name: &str| {
        assert!(matches!(error, Error::Core(veridical_core::Error::Exists { .. })), "{error:?}");
        let out = dir.path().join(name).display().to_string();
        let text = error.to_string();
        assert!(
            text.starts_with(&format!("{out} is being written by another job (process ")),
            "{text}"
        );
        assert!(text.ends_with(" UTC); wait for it or choose another name"), "{text}");
    };

    let table = |if_exists: IfExists| {
        let schema = OutputSchema {
            dim: 1,
            dtype: Dtype::F32,
            ids: IdKind::Int,
            kept: Vec::new(),
            metadata: Vec::new(),
        };
        let options = WriteOptions { existing: if_exists.into(), ..WriteOptions::default() };
        let output = Source::Path(dir.path().join("t.parquet"));
        TableWriter::create(&output, schema, &options, serde_json::Value::Null)
    };
    let first = table(IfExists::Refuse).unwrap();
    for if_exists in [IfExists::Refuse, IfExists::Resume, IfExists::Force] {
        held(table(if_exists).err().unwrap(), "t.parquet");
    }
    drop(first);
    table(IfExists::Resume).unwrap().abandon();

    let out = dir.path().join("run");
    let document = serde_json::json!({ "format": crate::run::FORMAT });
    let begin = |if_exists| RunWriter::begin(&out, &document, if_exists);
    let (first, _) = begin(IfExists::Refuse).unwrap().unwrap();
    for if_exists in [IfExists::Refuse, IfExists::Resume, IfExists::Force] {
        held(begin(if_exists).unwrap_err(), "run");
        held(check_output(&out, if_exists).unwrap_err(), "run");
        held(EnsembleWriter::begin(&out, "m", &[1], if_exists).unwrap_err(), "run");
    }
    first.abandon();
    let first = EnsembleWriter::begin(&out, "m", &[1], IfExists::Refuse).unwrap();
    held(begin(IfExists::Force).unwrap_err(), "run");
    first.publish().unwrap();
    assert_eq!(names(dir.path()), ["run"]);
}
