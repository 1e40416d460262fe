use std::fs;

use serde_json::{Value, json};
use veridical_core::error::render;
use veridical_data::MemoryFiles;

use super::*;
use crate::testing::{folder, oracle};

fn reference() -> Value {
    serde_json::from_slice(&fs::read(oracle("encoder/vectors.json")).unwrap()).unwrap()
}

fn tiny() -> MemoryFiles {
    folder(&oracle("encoder/tiny"))
}

/// The texts of the reference.
fn texts() -> Vec<String> {
    serde_json::from_value(reference()["texts"].clone()).unwrap()
}

fn vectors(encoder: &Encoder, batch: usize, memory: usize, texts: &[String]) -> Vec<f32> {
    let mut tokens = Texts::default();
    for text in texts {
        encoder.tokenize(text, &mut tokens);
    }
    let mut passes = encoder.passes(batch, memory).unwrap();
    let mut n = 0;
    let vectors = encoder.vectors(&tokens, &mut passes, |count| {
        n += count;
        Ok::<(), Error>(())
    });
    assert_eq!(n, texts.len());
    vectors.unwrap()
}

/// Both sides round every number to f32: relative error 2^-24 each time, a few hundred roundings on the path of a value
/// through two layers with weights of order 1, so 1e-5 of values of order 1 is ten times the expected error.
#[test]
fn a_tiny_bert_gives_the_vectors_of_sentence_transformers() {
    let reference = reference();
    let check = |files: &MemoryFiles, name: &str| {
        let encoder = Encoder::open(files).unwrap();
        let expected: Vec<Vec<f64>> = serde_json::from_value(reference[name].clone()).unwrap();
        assert_eq!(expected.len(), texts().len());
        let found = vectors(&encoder, 4, 64, &texts());
        for (row, expected) in found.chunks_exact(encoder.dim()).zip(&expected) {
            assert_eq!(row.len(), expected.len());
            let close = |(&x, y): (&f32, &f64)| (f64::from(x) - y).abs() < 1e-5;
            assert!(row.iter().zip(expected).all(close), "{name}: {row:?}, {expected:?}");
        }
        found
    };
    let mut files = tiny();
    check(&files, "tiny");
    let modules: Value = serde_json::from_slice(&files.bytes["modules.json"]).unwrap();
    files = files.with("modules.json", json!([modules[0], modules[1]]).to_string());
    check(&files, "tiny-mean");
    let settings = r#"{"pooling_mode": "cls", "embedding_dimension": 16}"#;
    files = files.with("1_Pooling/config.json", settings);
    let first = check(&files, "tiny-cls");
    // `vocab.txt` describes the same tokenizer as `tokenizer.json`.
    files.bytes.remove("tokenizer.json").unwrap();
    assert_eq!(check(&files, "tiny-cls"), first);
}

#[test]
fn vectors_do_not_depend_on_batches_or_company() {
    let encoder = Encoder::open(&tiny()).unwrap();
    let all = vectors(&encoder, 32, 64, &texts());
    for batch in 1..=8 {
        assert_eq!(vectors(&encoder, batch, 1, &texts()), all, "{batch}");
    }
    assert_eq!(vectors(&encoder, 32, 64, &texts()[1..2]), all[16..32]);
}

#[test]
fn the_progress_callback_can_stop_the_run() {
    let encoder = Encoder::open(&tiny()).unwrap();
    let mut tokens = Texts::default();
    for text in texts() {
        encoder.tokenize(&text, &mut tokens);
    }
    let mut passes = encoder.passes(3, 64).unwrap();
    let mut n = 0;
    let ended = encoder.vectors(&tokens, &mut passes, |count| {
        n += count;
        if n < 6 { Ok(()) } else { Err("enough") }
    });
    assert_eq!((ended, n), (Err("enough"), 6));
}

#[test]
fn every_missing_file_is_named_with_what_it_is_for() {
    let cases = [
        ("config.json", "it holds the sizes of the network"),
        ("model.safetensors", "it holds the weights"),
        ("modules.json", "it specifies the pooling"),
        ("1_Pooling/config.json", "it specifies the pooling"),
    ];
    for (name, why) in cases {
        let mut files = tiny();
        files.bytes.remove(name);
        files.tensors.remove(name);
        let error = Encoder::open(&files).unwrap_err();
        assert!(matches!(error, Error::Missing { .. }), "{error:?}");
        let copy = "copy the whole folder of the encoder, as sentence-transformers saves it";
        assert_eq!(error.to_string(), format!("{name}: is missing; {why}: {copy}"));
    }
    for name in ["config.json", "modules.json", "1_Pooling/config.json"] {
        let error = Encoder::open(&tiny().with(name, "?")).unwrap_err();
        assert!(matches!(error, Error::Damaged { .. }), "{error:?}");
        let expected = format!(
            "{name}: not readable as JSON: expected value at line 1 column 1; copy the file again"
        );
        assert_eq!(error.to_string(), expected);
    }
    let mut files = tiny().with("pytorch_model.bin", "x");
    files.tensors.clear();
    assert_eq!(
        Encoder::open(&files).unwrap_err().to_string(),
        "model.safetensors: is missing; the weights are in another format: save them as one file, in Python with \
         SentenceTransformer(FOLDER).save(NEW_FOLDER, safe_serialization=True)"
    );
    // Without the file, a text may have as many tokens as the network has positions.
    let mut files = tiny();
    assert_eq!(Encoder::open(&files).unwrap().max_length(), 24);
    files.bytes.remove("sentence_bert_config.json").unwrap();
    assert_eq!(Encoder::open(&files).unwrap().max_length(), 32);
}

/// The error message after a change to the JSON document of that name.
fn error_after(name: &str, change: impl FnOnce(&mut Value)) -> String {
    let files = tiny();
    let mut document: Value = serde_json::from_slice(&files.bytes[name]).unwrap();
    change(&mut document);
    let error = Encoder::open(&files.with(name, document.to_string())).unwrap_err();
    assert!(matches!(error, Error::Unfit { .. }), "{error:?}");
    error.to_string()
}

#[test]
fn files_that_do_not_belong_together_are_refused() {
    type Change = fn(&mut Value);
    let cases: [(&str, Change, &str); 16] = [
        (
            "config.json",
            |c| c["model_type"] = json!("roberta"),
            "config.json: `model_type` is `roberta`; only bert is supported (MiniLM, BERT, bge, e5, gte)",
        ),
        (
            "config.json",
            |c| c["hidden_act"] = json!("relu"),
            "config.json: `hidden_act` is `relu`; only gelu is supported",
        ),
        (
            "config.json",
            |c| c["position_embedding_type"] = json!("relative_key"),
            "config.json: `position_embedding_type` is `relative_key`; only absolute is supported",
        ),
        (
            "config.json",
            |c| c["is_decoder"] = json!(true),
            "config.json: `is_decoder` is true; only encoders are supported",
        ),
        (
            "config.json",
            |c| c["num_attention_heads"] = json!(3),
            "config.json: `hidden_size` 16 is not divisible by `num_attention_heads` 3",
        ),
        (
            "config.json",
            |c| c["num_hidden_layers"] = json!(0),
            "config.json: `num_hidden_layers` is 0; it must be from 1 to 16777216",
        ),
        (
            "config.json",
            |c| c["layer_norm_eps"] = json!(1),
            "config.json: `layer_norm_eps` is 1; it must be between 0 and 1",
        ),
        ("config.json", |c| c["num_hidden_layers"] = json!(3), "missing encoder.layer.2."),
        (
            "config.json",
            |c| c["vocab_size"] = json!(65),
            "model.safetensors: these are not the weights of this network: wrong shape: \
             embeddings.word_embeddings.weight is [64, 16] and should be [65, 16]",
        ),
        (
            "config.json",
            |c| c["hidden_size"] = json!("x"),
            "config.json: invalid type: string \"x\", expected usize at line 1 column",
        ),
        (
            "modules.json",
            |m| m[2]["type"] = json!("a.b.Dense"),
            "modules.json: the modules are Transformer, Pooling, Dense; only Transformer, Pooling and optionally \
             Normalize are supported",
        ),
        (
            "modules.json",
            |m| m[0]["path"] = json!("0_Transformer"),
            "modules.json: the network is in 0_Transformer; move its files here and set its `path` to \"\"",
        ),
        (
            "1_Pooling/config.json",
            |p| p["pooling_mode_max_tokens"] = json!(true),
            "1_Pooling/config.json: the pooling is `max_tokens, mean_tokens`; only mean and cls are supported",
        ),
        (
            "1_Pooling/config.json",
            |p| p["word_embedding_dimension"] = json!(384),
            "1_Pooling/config.json: pools vectors of 384 values, the network has 16; use the files of a single model",
        ),
        (
            "sentence_bert_config.json",
            |s| s["max_seq_length"] = json!(33),
            "memory: `max_seq_length` is 33, but it must be at least 3 (2 special tokens and one more) and at most 32, the \
             number of positions of the network",
        ),
        (
            // More tokens than the network has embeddings.
            "tokenizer.json",
            |t| t["model"]["vocab"]["more"] = json!(64),
            "memory: the tokenizer has 65 tokens but the network has 64 embeddings; use the tokenizer that the model was \
             trained with",
        ),
    ];
    for (name, change, expected) in cases {
        let message = error_after(name, change);
        assert!(message.contains(expected), "{expected}\n{message}");
    }
    let mut files = tiny();
    let weights = files.tensors.get_mut(WEIGHTS).unwrap();
    weights.get_mut("embeddings.word_embeddings.weight").unwrap().1[35] = f32::NAN;
    assert_eq!(
        Encoder::open(&files).unwrap_err().to_string(),
        "model.safetensors: the vector of token 2 has the value NaN; weights must be finite"
    );
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let mut encoder = Encoder::open(&tiny()).unwrap();
    let flags = |error: Error| {
        render(&error.to_string(), |name, value| match value {
            Some(value) => format!("--{name} {value}"),
            None => format!("--{name}"),
        })
    };
    assert_eq!(
        flags(encoder.set_max_length(2).unwrap_err()),
        "--max-length 2: every text has 2 special tokens, so it must be at least 3"
    );
    assert_eq!(
        flags(encoder.set_max_length(30).unwrap_err()),
        "--max-length 30: the encoder supports at most 24 tokens; longer texts are truncated"
    );
    assert_eq!(flags(encoder.passes(0, 64).unwrap_err()), "--batch must be 1 or more, got 0");
    assert_eq!(
        flags(encoder.passes(8, 0).unwrap_err()),
        "--memory 0: a text of 24 tokens needs 1 MiB; raise it or truncate texts with --max-length"
    );
    encoder.set_max_length(3).unwrap();
    let mut tokens = Texts::default();
    assert!(encoder.tokenize("a good film", &mut tokens).is_cut);
    assert_eq!((tokens.len(), tokens.tokens(0).len(), encoder.n_special()), (1, 3, 2));
}

#[test]
fn files_that_decide_a_vector_are_named() {
    let encoder = Encoder::open(&tiny()).unwrap();
    let names = encoder.file_names();
    let files = tiny();
    for name in files.bytes.keys().chain(files.tensors.keys()) {
        assert!(names.contains(name), "{name}");
    }
}
