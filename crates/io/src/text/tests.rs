use std::fs;

use super::*;

struct Folder(tempfile::TempDir);

impl Folder {
    fn read(
        &self,
        name: &str,
        content: &str,
        options: &TextOptions,
    ) -> Result<(Corpus, Vec<String>)> {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        read_corpus(&path, options)
    }
}

fn folder() -> Folder {
    Folder(tempfile::tempdir().unwrap())
}

fn least(min_count: u64) -> TextOptions {
    TextOptions { min_count, ..TextOptions::default() }
}

fn columns(text: &str) -> RecordOptions {
    RecordOptions { columns: text.parse().unwrap(), ..RecordOptions::default() }
}

fn document(corpus: &Corpus, i: usize) -> String {
    let words = corpus.tokens.get(i).iter().map(|&word| corpus.words[word as usize].as_str());
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn lines_are_documents_and_words_go_by_count_then_bytes() {
    let (corpus, notes) = folder().read("a.txt", "b a\nA c a\n\nd b\n", &least(2)).unwrap();
    assert_eq!((corpus.words.join(" ").as_str(), &corpus.counts[..]), ("a b", &[3, 2][..]));
    assert_eq!(corpus.docs, Ids::numbered(0, 4));
    let documents: Vec<String> = (0..4).map(|i| document(&corpus, i)).collect();
    assert_eq!(documents, ["b a", "a a", "", "b"]);
    assert_eq!(
        notes,
        [
            "one document per line, numbered from 0",
            "1 of 4 documents have no words in the vocabulary"
        ]
    );
}

#[test]
fn columns_and_folders_hold_documents() {
    let folder = folder();
    let (csv, notes) = folder
        .read("a.csv", "id,label,text\nx,0,\"One, two\"\ny,1,\"two\nthree\"\n", &least(1))
        .unwrap();
    assert_eq!(notes, ["text from column `text`, id from column `id`"]);
    assert_eq!((csv.docs.get(1).as_str(), document(&csv, 1).as_str()), ("y", "two three"));
    let named = TextOptions { records: columns("text=Body,id=n"), ..least(1) };
    let (tsv, notes) = folder.read("a.tsv", "n\tbody\n7\tOne\n", &named).unwrap();
    assert!(notes.is_empty() && tsv.docs == Ids::Int(Int64Array::from(vec![7])));
    folder.read("reviews/pos/1.txt", "good film\n", &least(1)).unwrap();
    folder.read("reviews/neg/1.txt", "bad film\n", &least(1)).unwrap();
    let (files, _) = read_corpus(&folder.0.path().join("reviews"), &least(1)).unwrap();
    assert_eq!((files.docs.get(0), files.docs.get(1)), ("neg/1.txt".into(), "pos/1.txt".into()));
    assert_eq!(document(&files, 0), "bad film");
}

#[test]
fn duplicate_ids_are_replaced_by_numbers() {
    let folder = folder();
    let content = "id,text\n5,a\n5,b\n";
    let (corpus, notes) = folder.read("a.csv", content, &least(1)).unwrap();
    assert_eq!(corpus.docs, Ids::numbered(0, 2));
    assert_eq!(notes[1], "duplicate ids (`5`): documents are numbered from 0 instead");
    let named = TextOptions { records: columns("id=id"), ..least(1) };
    let message = folder.read("a.csv", content, &named).unwrap_err().to_string();
    assert!(message.ends_with("⟨id-column⟩ id: `5` names more than one document"), "{message}");
}

#[test]
fn unusable_documents_are_refused() {
    let folder = folder();
    let refused = |name: &str, content: &str, options: &TextOptions| {
        let error = folder.read(name, content, options).unwrap_err().to_string();
        error.replace(&format!("{}/", folder.0.path().display()), "")
    };
    let want = "a.txt: none of 2 documents has a word that occurs 5 times; lower ⟨min-count⟩";
    assert_eq!(refused("a.txt", "a b\nc\n", &TextOptions::default()), want);
    assert_eq!(refused("b.txt", "", &least(1)), "b.txt: the table is empty: it has no rows");
    let named = TextOptions { records: columns("text=txt"), ..least(1) };
    assert!(
        refused("a.csv", "id,text\n1,a\n", &named)
            .starts_with("a.csv: ⟨column⟩: there is no column `txt`")
    );
    assert!(
        refused("a.txt", "a\n", &named).contains("there is no column `txt`: plain text has none")
    );
    let message = refused("b.csv", "id,words\n1,a\n", &least(1));
    assert!(
        message.contains("no column is recognized as the text")
            && message.contains("⟨column⟩ COLUMN"),
        "{message}"
    );
    fs::write(folder.0.path().join("l.txt"), b"caf\xe9\n").unwrap();
    let message = read_corpus(&folder.0.path().join("l.txt"), &least(1)).unwrap_err().to_string();
    assert!(
        message.ends_with(
            "line 1 is not UTF-8; name its encoding with ⟨encoding⟩, for example latin-1"
        )
    );
    let latin = RecordOptions { encoding: Some("latin-1".into()), ..Default::default() };
    let latin = TextOptions { records: latin, ..least(1) };
    let (corpus, _) = read_corpus(&folder.0.path().join("l.txt"), &latin).unwrap();
    assert_eq!(corpus.words, ["caf\u{e9}"]);
}

#[test]
fn new_documents_are_read_under_an_old_vocabulary() {
    let folder = folder();
    let (corpus, _) = folder.read("old.txt", "a b b\n", &least(1)).unwrap();
    let path = folder.0.path().join("new.txt");
    fs::write(&path, "A x b\nz\n").unwrap();
    let vocabulary = corpus.vocabulary(true);
    let (new, notes) = read_corpus_with(&path, &TextOptions::default(), &vocabulary).unwrap();
    assert_eq!(
        (&new.words, new.tokens.get(0), new.tokens.get(1)),
        (&corpus.words, &[1, 0][..], &[][..])
    );
    assert_eq!(notes[1], "1 of 2 documents have no words in the vocabulary");
    assert_eq!(vocabulary.tokenize("b a"), [0, 1]);
}

#[test]
fn reviews_of_films_are_read() {
    let Some(path) = crate::testing::shared("imdb-10k/imdb_10k.csv.xz") else { return };
    let (corpus, notes) = read_corpus(&path, &TextOptions::default()).unwrap();
    assert_eq!(corpus.tokens.len(), 10_000, "{notes:?}");
    assert_eq!(corpus.words[0], "the");
    assert!(corpus.counts.is_sorted_by(|a, b| a >= b) && !corpus.words.contains(&"br".to_owned()));
    assert_eq!(corpus.counts.iter().sum::<u64>() as usize, corpus.tokens.values().len());
}
