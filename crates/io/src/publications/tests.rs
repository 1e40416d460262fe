use serde_json::{Map, Value};

use super::*;

fn manifest(version: &str, sequence: u64, published: bool) -> Manifest {
    Manifest {
        format: FORMAT.into(),
        version: version.into(),
        date: None,
        published,
        sequence,
        previous: None,
        frame: "f".into(),
        rows: 1,
        dim: 2,
        dtype: "f32".into(),
        spec_id: None,
        map_id: None,
        passed: None,
        gates: Value::Array(Vec::new()),
        files: Vec::new(),
        details: Map::new(),
    }
}

/// Writes a complete version.
fn publish_version(publications: &Publications, version: &str, sequence: u64) -> Manifest {
    let folder = publications.folder(version);
    fs::create_dir_all(folder.join("vectors")).unwrap();
    fs::write(folder.join("vectors/part.csv"), format!("id,x\na,{sequence}\n")).unwrap();
    let files = FileEntry::all_of(&folder).unwrap();
    let manifest = Manifest { files, ..manifest(version, sequence, true) };
    fs::write(folder.join(MANIFEST), manifest.to_bytes()).unwrap();
    fs::write(folder.join(SUCCESS), "").unwrap();
    manifest
}

fn switch(publications: &Publications, version: &str) {
    publications.switch(version, &publications.seen().unwrap()).unwrap();
}

#[test]
fn a_folder_means_its_current_version() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("live");
    let publications = Publications::new(&root);
    assert!(!is_root(&root).unwrap() && resolve(&root).unwrap().is_none());
    for (sequence, version) in (1..).zip(["1", "2"]) {
        let made = publish_version(&publications, version, sequence);
        assert!(publications.is_pending(version).unwrap());
        switch(&publications, version);
        publications.record(&made).unwrap();
        assert!(!publications.is_pending(version).unwrap());
        assert_eq!(resolve(&root).unwrap().unwrap(), root.join(version));
    }
    assert_eq!(table(&root, None).unwrap().unwrap(), root.join("2/vectors"));
    assert_eq!(table(&root.join("1"), None).unwrap().unwrap(), root.join("1/vectors"));
    assert_eq!(table(&root.join("current"), None).unwrap().unwrap(), root.join("current/vectors"));
    let error = table(&root, Some("features")).unwrap_err().to_string();
    assert!(error.contains("2: there is no table `features`; choose one with ⟨table⟩"), "{error}");
    fs::remove_dir_all(root.join("2")).unwrap();
    let error = resolve(&root).unwrap_err().to_string();
    assert!(
        error.contains("the current version is `2`, and ") && error.contains("is gone"),
        "{error}"
    );
    assert!(error.ends_with("go back with `veridical refresh rollback`"), "{error}");
}

#[test]
fn other_folders_are_tables_as_before() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("manifests")).unwrap();
    assert!(!is_root(dir.path()).unwrap());
    #[cfg(unix)]
    {
        let other = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("a.parquet", other.path().join(LINK)).unwrap();
        assert!(!is_root(other.path()).unwrap());
    }
}

#[test]
fn a_pointer_stands_in_for_the_link() {
    let dir = tempfile::tempdir().unwrap();
    let publications = Publications::new(dir.path());
    publish_version(&publications, "1", 1);
    let pointer = Pointer { version: "1".into(), manifest: "m".into() };
    fs::write(dir.path().join(POINTER), publish::pretty(&pointer)).unwrap();
    assert_eq!(publications.current().unwrap().as_deref(), Some("1"));
    assert_eq!(resolve(dir.path()).unwrap().unwrap(), dir.path().join("1"));
    switch(&publications, "1");
    assert!(!dir.path().join(POINTER).exists(), "one pointer, not two");
    fs::remove_file(dir.path().join(LINK)).unwrap();
    for bad in ["", "{}", r#"{"version":"../x","manifest":""}"#, r#"{"version":"","manifest":""}"#]
    {
        fs::write(dir.path().join(POINTER), bad).unwrap();
        assert!(publications.current().is_err(), "{bad}");
    }
}

#[test]
fn the_current_version_and_the_one_before_it_are_never_removed() {
    let dir = tempfile::tempdir().unwrap();
    let publications = Publications::new(dir.path());
    let mut all: Vec<Manifest> =
        (1..=6).map(|i| publish_version(&publications, &i.to_string(), i)).collect();
    all.push(manifest("7", 7, false));
    fs::create_dir(publications.rejected("7")).unwrap();
    switch(&publications, "3");
    assert_eq!(publications.prune(2, &all).unwrap(), ["1", "4"]);
    let there = publications.complete(&all).unwrap();
    let there: Vec<&str> = there.iter().map(|m| m.version.as_str()).collect();
    assert_eq!(there, ["2", "3", "5", "6"]);
    assert!(publications.rejected("7").exists());
    switch(&publications, "6");
    assert_eq!(publications.prune(1, &all).unwrap(), ["2", "3"]);
    assert!(publications.prune(1, &all).unwrap().is_empty());
}

#[test]
fn numbers_go_on_after_everything_that_was_ever_there() {
    let dir = tempfile::tempdir().unwrap();
    let publications = Publications::new(dir.path());
    let next = || publications.next_number().unwrap();
    assert_eq!(next(), "1");
    fs::create_dir(dir.path().join("1.partial")).unwrap();
    assert_eq!(next(), "1", "unfinished");
    fs::create_dir(dir.path().join("1")).unwrap();
    assert_eq!(next(), "2");
    fs::create_dir(dir.path().join("4.rejected")).unwrap();
    assert_eq!(next(), "5");
    publications.record(&manifest("11", 1, true)).unwrap();
    publications.record(&manifest("2026-01-01", 2, true)).unwrap();
    assert_eq!(next(), "12");
}

#[test]
fn verify_names_the_file_that_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let publications = Publications::new(dir.path());
    let folder = publications.folder("1");
    type Damage = (&'static str, fn(&Path));
    let damage: [Damage; 5] = [
        ("part.csv: is missing", |f| fs::remove_file(f.join("vectors/part.csv")).unwrap()),
        ("part.csv: has 4 bytes where the manifest has 9", |f| {
            fs::write(f.join("vectors/part.csv"), "id,x").unwrap();
        }),
        ("part.csv: has changed", |f| {
            fs::write(f.join("vectors/part.csv"), "id,x\nb,1\n").unwrap()
        }),
        ("more.csv: is not in the manifest", |f| {
            fs::write(f.join("vectors/more.csv"), "").unwrap()
        }),
        ("manifest.json: lists `../x`, which is outside", |f| {
            let text = fs::read_to_string(f.join(MANIFEST)).unwrap();
            fs::write(f.join(MANIFEST), text.replace("vectors/part.csv", "../x")).unwrap();
        }),
    ];
    for (message, damage) in damage {
        publish_version(&publications, "1", 1);
        assert_eq!(verify(&folder).unwrap().version, "1");
        damage(&folder);
        let error = verify(&folder).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
        fs::remove_dir_all(&folder).unwrap();
    }
    publish_version(&publications, "1", 1);
    fs::write(folder.join(MANIFEST), "{\"format\":\"other\"}").unwrap();
    let error = verify(&folder).unwrap_err().to_string();
    assert!(error.ends_with("has other where `veridical-refresh/2` is expected"), "{error}");
}

#[test]
fn other_folders_are_left_alone_and_an_empty_one_is_taken_back() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("live");
    let publications = Publications::new(&root);
    drop(publications.lock().unwrap());
    assert!(!root.exists());
    fs::create_dir(&root).unwrap();
    publications.refuse_foreign().unwrap();
    fs::write(root.join("mine"), "").unwrap();
    let error = publications.refuse_foreign().unwrap_err().to_string();
    assert!(
        error.ends_with("live is not a folder of publications; choose another name"),
        "{error}"
    );
    drop(publications.lock().unwrap());
    assert!(root.exists());
}

#[test]
fn nothing_outside_is_reached_by_a_hostile_name() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("live");
    let publications = Publications::new(&root);
    publish_version(&Publications::new(dir.path()), "precious", 1);
    let made = publish_version(&publications, "1", 1);
    publications.record(&made).unwrap();
    let hostile = manifest("../precious", 2, true);
    fs::write(root.join("manifests/2.json"), hostile.to_bytes()).unwrap();
    let error = publications.manifests().unwrap_err().to_string();
    assert!(
        error.ends_with("manifests/2.json: is the manifest of version `../precious`"),
        "{error}"
    );
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("../precious", root.join(LINK)).unwrap();
        let error = publications.current().unwrap_err().to_string();
        assert!(
            error.ends_with("links to `../precious`, which is not a version of this folder"),
            "{error}"
        );
    }
    assert!(dir.path().join("precious/vectors").exists());
}
