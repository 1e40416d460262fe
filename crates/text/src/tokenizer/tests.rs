use std::fs;
use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};
use veridical_core::Error;
use veridical_data::MemoryFiles;

use super::*;
use crate::testing::{folder, oracle};

fn files(name: &str) -> MemoryFiles {
    folder(&oracle("tokenizer").join(name))
}

fn opened(name: &str) -> Tokenizer {
    Tokenizer::open(&files(name)).unwrap()
}

/// `tokenizer.json` of the reference of that name.
fn document(name: &str) -> Value {
    serde_json::from_slice(&files(name).bytes["tokenizer.json"]).unwrap()
}

fn encoded(tokenizer: &Tokenizer, text: &str, limit: usize) -> (Vec<u32>, Encoded) {
    let mut ids = Vec::new();
    let encoded = tokenizer.encode(text, limit, &mut ids);
    assert_eq!(encoded.tokens, ids.len());
    (ids, encoded)
}

/// Every text of the reference, whole and truncated.
fn check(name: &str, tokenizer: &Tokenizer) {
    let oracle = fs::read_to_string(oracle("tokenizer/ids.json")).unwrap();
    let oracle: Value = serde_json::from_str(&oracle).unwrap();
    let limit = oracle["limit"].as_u64().unwrap() as usize;
    let texts = oracle["texts"].as_array().unwrap();
    assert!(texts.len() > 150);
    for (i, text) in texts.iter().map(|text| text.as_str().unwrap()).enumerate() {
        let expected = |kind: &str| -> Vec<u32> {
            serde_json::from_value(oracle["models"][name][kind][i].clone()).unwrap()
        };
        let (whole, cut) = (encoded(tokenizer, text, usize::MAX), encoded(tokenizer, text, limit));
        assert_eq!(whole.0, expected("whole"), "{name}, text {i}: {text:?}");
        assert_eq!(cut.0, expected("cut"), "{name}, text {i} cut: {text:?}");
        assert!(!whole.1.is_cut);
        assert_eq!(cut.1.is_cut, whole.0.len() > limit);
    }
}

#[test]
fn wordpiece_gives_the_ids_of_hugging_face() {
    check("wordpiece", &opened("wordpiece"));
}

#[test]
fn byte_level_bpe_gives_the_ids_of_hugging_face() {
    check("bpe", &opened("bpe"));
    check("bpe-prefix", &opened("bpe-prefix"));
}

#[test]
fn a_list_of_words_and_its_configuration_are_a_tokenizer_too() {
    check("list", &opened("list"));
}

/// Requires the folder of all-MiniLM-L6-v2 in `VERIDICAL_MINILM`.
#[test]
fn minilm_gives_the_ids_of_hugging_face() {
    let Some(path) = std::env::var_os("VERIDICAL_MINILM") else {
        eprintln!("skipped: VERIDICAL_MINILM does not name the folder of all-MiniLM-L6-v2");
        return;
    };
    let mut files = folder(Path::new(&path));
    let tokenizer = Tokenizer::open(&files).unwrap();
    assert_eq!((tokenizer.vocabulary(), tokenizer.n_special()), (30522, 2));
    check("minilm", &tokenizer);
    // Its `vocab.txt` describes the same tokenizer.
    files.bytes.remove("tokenizer.json").unwrap();
    check("minilm", &Tokenizer::open(&files).unwrap());
}

#[test]
fn what_the_vocabulary_lacks_is_counted_where_it_is_kept() {
    let tokenizer = opened("wordpiece");
    let unknown = |text: &str, limit| encoded(&tokenizer, text, limit).1.unknown;
    assert_eq!(unknown("the quick fox", 99), 0);
    assert_eq!(unknown("the \u{16A0}\u{16A1} fox \u{16A2}", 99), 2);
    assert_eq!(unknown("the fox the fox the fox the fox \u{16A0}", 5), 0);
    let (ids, _) = encoded(&tokenizer, "\u{16A0}", 99);
    assert_eq!(ids, [2, 1, 3]);
}

#[test]
fn a_limit_leaves_the_tokens_around() {
    let tokenizer = opened("wordpiece");
    for limit in 0..4 {
        let (ids, found) = encoded(&tokenizer, "the quick brown fox", limit);
        assert_eq!(ids.len(), limit.max(2));
        assert_eq!((ids[0], ids[ids.len() - 1], found.is_cut), (2, 3, true));
    }
}

proptest! {
    /// The encoding is lossless: the bytes of the ids are the text. `bpe` has every byte and does not normalize.
    #[test]
    fn bpe_can_be_read_back(text in "(\\PC|[ a-z'\n]){0,60}") {
        prop_assume!(!text.contains('<'));
        let tokenizer = opened("bpe");
        let document = document("bpe");
        let vocabulary = document["model"]["vocab"].as_object().unwrap();
        let token: HashMap<u64, &str> =
            vocabulary.iter().map(|(token, id)| (id.as_u64().unwrap(), token.as_str())).collect();
        let byte: HashMap<char, u8> = (0..=255).map(|byte| (bpe::shown(byte), byte)).collect();
        prop_assert_eq!(byte.len(), 256);
        let (ids, found) = encoded(&tokenizer, &text, usize::MAX);
        let inner = &ids[1..ids.len() - 1];
        let back: Vec<u8> =
            inner.iter().flat_map(|&id| token[&u64::from(id)].chars()).map(|c| byte[&c]).collect();
        prop_assert_eq!(String::from_utf8(back).unwrap(), text);
        prop_assert_eq!(found.unknown, 0);
    }

    /// Truncation keeps a prefix of the full encoding.
    #[test]
    fn a_cut_is_a_prefix(text in "\\PC{0,60}", limit in 2usize..20) {
        for name in ["wordpiece", "bpe", "list"] {
            let tokenizer = opened(name);
            let (whole, cut) = (encoded(&tokenizer, &text, usize::MAX).0, encoded(&tokenizer, &text, limit).0);
            prop_assert_eq!(&cut[..cut.len() - 1], &whole[..cut.len() - 1]);
            prop_assert_eq!(cut.len(), whole.len().min(limit));
        }
    }
}

/// The error for a document.
fn error_of(document: impl Into<Vec<u8>>) -> Error {
    let files = MemoryFiles::default().with("tokenizer.json", document);
    let error = Tokenizer::open(&files).unwrap_err();
    assert!(error.to_string().starts_with("tokenizer.json: "), "{error}");
    error
}

/// The error for the document of `name` after `change`.
fn error_after(name: &str, change: impl FnOnce(&mut Value)) -> String {
    let mut document = document(name);
    change(&mut document);
    let error = error_of(document.to_string());
    assert!(matches!(error, Error::Unfit { .. }), "{error:?}");
    error.to_string()
}

#[test]
fn invalid_tokenizers_are_refused_by_name() {
    type Change = fn(&mut Value);
    let cases: [(&str, Change, &str); 13] = [
        (
            "bpe",
            |d| d["model"]["type"] = json!("Unigram"),
            "unknown variant `Unigram`, expected `WordPiece` or `BPE`",
        ),
        ("bpe", |d| d["pre_tokenizer"]["type"] = json!("Metaspace"), "unknown variant `Metaspace`"),
        (
            "bpe",
            |d| d["pre_tokenizer"] = Value::Null,
            "`pre_tokenizer` is not supported; supported: WordPiece",
        ),
        (
            "bpe",
            |d| d["model"]["byte_fallback"] = json!(true),
            "`byte_fallback` of BPE is not supported",
        ),
        ("bpe", |d| d["model"]["dropout"] = json!(0.1), "`dropout` of BPE is not supported"),
        (
            "bpe",
            |d| d["model"]["merges"][4] = json!(["Ġ", "Ж"]),
            "merge 5, `Ġ` with `Ж`: the vocabulary has no `Ж`",
        ),
        (
            "bpe",
            |d| d["model"]["merges"][4] = json!("a b c"),
            "merge 5, `a b c`, is not two tokens",
        ),
        (
            "bpe",
            |d| d["model"]["unk_token"] = json!("<none>"),
            "the vocabulary has no `<none>`, which is needed for unknown bytes",
        ),
        (
            "wordpiece",
            |d| d["model"]["unk_token"] = json!("[NO]"),
            "the vocabulary has no `[NO]`, which is needed for unknown words",
        ),
        (
            "wordpiece",
            |d| d["model"]["vocab"]["fox"] = json!(7),
            "the id 7 is assigned to two tokens, `",
        ),
        (
            "wordpiece",
            |d| d["model"]["vocab"]["a"] = json!(-1),
            "the id of the token `a`: invalid value",
        ),
        (
            "wordpiece",
            |d| d["added_tokens"][0]["id"] = json!(9),
            "the added token `[PAD]` has the id 9, but in the vocabulary it is 0",
        ),
        (
            "wordpiece",
            |d| d["post_processor"]["special_tokens"]["[CLS]"]["ids"] = json!([4]),
            "`[CLS]` is 4 in `post_processor`, but in the vocabulary it is 2",
        ),
    ];
    for (name, change, expected) in cases {
        let message = error_after(name, change);
        assert!(message.contains(expected), "{expected}: {message}");
    }
    let message = error_after("wordpiece", |d| {
        let vocabulary = d["model"]["vocab"].as_object_mut().unwrap();
        vocabulary.remove("[CLS]");
        d["added_tokens"].as_array_mut().unwrap().retain(|token| token["content"] != "[CLS]");
    });
    assert!(
        message.contains("the vocabulary has no `[CLS]`, which is needed by `post_processor`"),
        "{message}"
    );
}

#[test]
fn a_token_that_is_listed_twice_is_refused() {
    let text = String::from_utf8(files("wordpiece").bytes["tokenizer.json"].clone()).unwrap();
    let error = error_of(text.replace(r#""[PAD]":0,"#, r#""[PAD]":0,"[PAD]":999,"#));
    assert!(error.to_string().contains("the token `[PAD]` has two ids, 0 and 999"), "{error}");
    let error = error_of("{\"model\": ");
    assert!(matches!(error, Error::Damaged { .. }), "{error:?}");
    assert_eq!(
        error.to_string(),
        "tokenizer.json: not a readable JSON file: EOF while parsing a value at line 1 column 10; it may be truncated \
         or damaged, write it again"
    );
}

#[test]
fn lists_that_do_not_serve_are_refused() {
    let message_of = |list: &[u8], config: Option<&str>| {
        let files = MemoryFiles::default().with("vocab.txt", list);
        let files = match config {
            Some(config) => files.with("tokenizer_config.json", config),
            None => files,
        };
        Tokenizer::open(&files).unwrap_err().to_string()
    };
    let empty = Tokenizer::open(&MemoryFiles::default()).unwrap_err();
    assert!(matches!(empty, Error::Missing { .. }), "{empty:?}");
    assert_eq!(
        empty.to_string(),
        "memory: has neither tokenizer.json nor vocab.txt; save the tokenizer beside the model, in Python with \
         AutoTokenizer.from_pretrained(NAME).save_pretrained(FOLDER)"
    );
    for missing in ["[UNK]", "[CLS]", "[SEP]"] {
        let words = ["[UNK]", "[CLS]", "[SEP]", "a"].into_iter().filter(|word| *word != missing);
        let list = words.collect::<Vec<_>>().join("\n");
        let message = message_of(list.as_bytes(), Some("{}"));
        assert!(message.contains(&format!("the vocabulary has no `{missing}`")), "{message}");
    }
    let message = message_of(b"[UNK]\n[CLS]\n[SEP]\na\nb\na\n", Some("{}"));
    assert!(message.contains("vocab.txt: the token `a` has two ids, 3 and 5"), "{message}");
    let message = message_of(b"[UNK]\n\xff\n", Some("{}"));
    assert!(message.contains("vocab.txt: line 2 is not UTF-8"), "{message}");
    let message = message_of(b"", Some("{}"));
    assert!(message.contains("the vocabulary is empty"), "{message}");
    let message = message_of(b"[UNK]\n[CLS]\n[SEP]\n", None);
    assert!(
        message.contains("tokenizer_config.json: is missing; it specifies whether"),
        "{message}"
    );
    let message = message_of(b"[UNK]\n[CLS]\n[SEP]\n", Some("["));
    assert!(message.contains("tokenizer_config.json: not a readable JSON file"), "{message}");
}
