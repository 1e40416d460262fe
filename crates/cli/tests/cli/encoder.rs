//! `veridical data embed --encoder`: a tiny BERT through the real program, compared with sentence-transformers.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use veridical_data::VectorTable;

use crate::common::Sandbox;

fn oracles() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/oracles/encoder")
}

fn reference() -> Value {
    serde_json::from_slice(&fs::read(oracles().join("vectors.json")).unwrap()).unwrap()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}

/// The tiny encoder as `tiny`, and the texts of the oracle as `texts.csv`.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    copy(&oracles().join("tiny"), &sandbox.path("tiny"));
    let mut csv = "id,text\n".to_owned();
    for (i, text) in reference()["texts"].as_array().unwrap().iter().enumerate() {
        csv += &format!("t{i},\"{}\"\n", text.as_str().unwrap().replace('"', "\"\""));
    }
    sandbox.put("texts.csv", csv);
    sandbox
}

const EMBED: &str = "data embed --encoder tiny --text texts.csv --column text";

/// Returns the largest difference from the reference of that name.
fn distance(table: &VectorTable, name: &str) -> f64 {
    let rows = &reference()[name];
    let rows = rows.as_array().unwrap();
    assert_eq!(table.n_rows(), rows.len());
    let mut worst: f64 = 0.0;
    for (i, row) in rows.iter().map(|row| row.as_array().unwrap()).enumerate() {
        assert_eq!(table.row(i).len(), row.len());
        assert_eq!(table.ids.get(i), format!("t{i}"));
        let pairs = table.row(i).iter().zip(row);
        worst =
            pairs.map(|(&x, y)| (f64::from(x) - y.as_f64().unwrap()).abs()).fold(worst, f64::max);
    }
    worst
}

/// Both sides round every number to f32: relative 2^-24 each time, a few hundred of them on the way of a value through two
/// layers with weights of order 1, so 1e-5 of values of order 1 is ten times what is expected.
#[test]
fn a_tiny_bert_gives_the_vectors_of_sentence_transformers() {
    let sandbox = sandbox();
    sandbox.ok(&format!("{EMBED} --out unit.parquet"));
    assert!(distance(&sandbox.table("unit.parquet"), "tiny") < 1e-5);
    let modules: Value = serde_json::from_str(&sandbox.text("tiny/modules.json")).unwrap();
    sandbox.put("tiny/modules.json", json!([modules[0], modules[1]]).to_string());
    sandbox.ok(&format!("{EMBED} --out mean.parquet"));
    assert!(distance(&sandbox.table("mean.parquet"), "tiny-mean") < 1e-5);
    sandbox
        .put("tiny/1_Pooling/config.json", r#"{"pooling_mode": "cls", "embedding_dimension": 16}"#);
    sandbox.ok(&format!("{EMBED} --out first.parquet"));
    assert!(distance(&sandbox.table("first.parquet"), "tiny-cls") < 1e-5);
    // The word list is equivalent to tokenizer.json.
    sandbox.remove("tiny/tokenizer.json");
    sandbox.ok(&format!("{EMBED} --out list.parquet"));
    assert_eq!(sandbox.bytes("list.parquet"), sandbox.bytes("first.parquet"));
}

/// With the folder of all-MiniLM-L6-v2 in `VERIDICAL_MINILM`.
#[test]
fn minilm_gives_the_vectors_of_sentence_transformers() {
    let Some(folder) = std::env::var_os("VERIDICAL_MINILM") else {
        eprintln!("skipped: VERIDICAL_MINILM does not name the folder of all-MiniLM-L6-v2");
        return;
    };
    let sandbox = sandbox();
    let mut line: Vec<_> = EMBED.split(' ').map(Into::into).collect();
    line[3] = folder;
    line.extend(["--out".into(), "m.parquet".into()]);
    assert!(sandbox.command(line).status().unwrap().success());
    let worst = distance(&sandbox.table("m.parquet"), "minilm");
    assert!(worst < 1e-4, "{worst}");
}

#[test]
fn vectors_do_not_depend_on_batches_threads_or_company() {
    let sandbox = sandbox();
    sandbox.ok(&format!("{EMBED} --out a.parquet"));
    for batch in 1..=8 {
        sandbox.ok(&format!("{EMBED} --batch {batch} --out b{batch}.parquet"));
        assert!(
            sandbox.bytes(&format!("b{batch}.parquet")) == sandbox.bytes("a.parquet"),
            "{batch}"
        );
    }
    for (i, options) in
        ["--batch 1", "--batch 3", "--memory 1 --batch 5", "--threads 1", "--threads 3"]
            .iter()
            .enumerate()
    {
        sandbox.ok(&format!("{EMBED} {options} --out {i}.parquet"));
        assert!(sandbox.bytes(&format!("{i}.parquet")) == sandbox.bytes("a.parquet"), "{options}");
    }
    let all = sandbox.table("a.parquet");
    let lines: Vec<String> = sandbox.text("texts.csv").lines().map(str::to_owned).collect();
    sandbox.put("one.csv", format!("{}\n{}\n", lines[0], lines[2]));
    sandbox.ok("data embed --encoder tiny --text one.csv --out one.parquet --quiet");
    assert_eq!(sandbox.table("one.parquet").row(0), all.row(1));
}

#[test]
fn what_happened_to_the_texts_is_said() {
    let sandbox = sandbox();
    let line = "data embed --encoder tiny --text texts.csv --column text --out a.parquet --json";
    let outcome = sandbox.run(line);
    let result: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(result["schema"], "veridical.data-embed/1");
    assert_eq!((&result["rows"], &result["dim"]), (&json!(8), &json!(16)));
    assert_eq!(
        (&result["max_length"], &result["cut"], &result["empty"]),
        (&json!(24), &json!(1), &json!(2))
    );
    assert!(result["unknown"].as_u64() > Some(0) && result["tokens"].as_u64() > Some(24));
    assert!(
        outcome.stderr.contains("1 of 8 texts were truncated to 24 tokens"),
        "{}",
        outcome.stderr
    );
    assert!(outcome.stderr.contains("2 of 8 texts are empty and get the embedding of empty text"));
    let more =
        sandbox.run("data embed --encoder tiny --text texts.csv --max-length 5 --out b.parquet");
    assert!(more.stderr.contains("of 8 texts were truncated to 5 tokens"), "{}", more.stderr);
}

/// The disk is full after the first group of 65,536 rows.
#[test]
#[cfg(unix)]
fn an_interrupted_job_goes_on_to_the_same_bytes_and_counts() {
    let sandbox = sandbox();
    let texts =
        |i: usize| ["good film", "", "a very bad plot", "unheard words again and again"][i % 4];
    sandbox.put(
        "many.txt",
        (0..70_000).map(|i| format!("{}\n", texts(i * i % 7))).collect::<String>(),
    );
    let line = "data embed --encoder tiny --text many.txt --out";
    let whole = sandbox.run(&format!("{line} whole.parquet --json"));
    assert_eq!(whole.code, Some(0), "{whole:?}");
    let room = sandbox.bytes("whole.parquet").len() / 1024 - 100;
    let stopped =
        sandbox.shell(&format!("(ulimit -f {room}; trap '' XFSZ; veridical {line} out.parquet)"));
    assert_eq!(stopped.code, Some(2), "{stopped:?}");
    assert!(sandbox.has("out.parquet.partial") && !sandbox.has("out.parquet"));
    sandbox.refuses_like(&format!("{line} out.parquet --resume --max-length 9"), |error| {
        assert!(error.contains("max_length"), "{error}");
    });
    let resumed = sandbox.run(&format!("{line} out.parquet --resume --json"));
    assert!(resumed.stderr.contains("resuming after 65536 texts"), "{resumed:?}");
    assert!(sandbox.bytes("out.parquet") == sandbox.bytes("whole.parquet"));
    let (first, second) = (whole.stdout, resumed.stdout.replace("out.parquet", "whole.parquet"));
    assert_eq!(first, second);
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
        let sandbox = sandbox();
        sandbox.remove(&format!("tiny/{name}"));
        let copy = "copy the whole folder of the encoder, as sentence-transformers saves it";
        sandbox.refuses(
            &format!("{EMBED} --out a.parquet"),
            &format!("tiny/{name}: is missing; {why}: {copy}"),
        );
        sandbox.put(&format!("tiny/{name}"), "?");
        sandbox.refuses_like(&format!("{EMBED} --out a.parquet"), |error| {
            assert!(error.starts_with(&format!("tiny/{name}: not ")), "{error}");
        });
    }
    let sandbox = sandbox();
    sandbox.remove("tiny/tokenizer.json");
    sandbox.remove("tiny/vocab.txt");
    sandbox.refuses_like(&format!("{EMBED} --out a.parquet"), |error| {
        assert!(
            error.starts_with("tiny: has neither tokenizer.json nor vocab.txt; save"),
            "{error}"
        );
    });
    sandbox.remove("tiny/model.safetensors");
    sandbox.put("tiny/pytorch_model.bin", "x");
    copy(&oracles().join("tiny"), &sandbox.path("whole"));
    fs::copy(sandbox.path("whole/tokenizer.json"), sandbox.path("tiny/tokenizer.json")).unwrap();
    sandbox.refuses_like(&format!("{EMBED} --out a.parquet"), |error| {
        assert!(
            error.contains("model.safetensors: is missing; the weights are in another format"),
            "{error}"
        );
    });
    // Without it texts may have as many tokens as there are positions.
    sandbox.remove("whole/sentence_bert_config.json");
    let line = "data embed --encoder whole --text texts.csv --out a.parquet --json --quiet";
    let result: Value = serde_json::from_str(&sandbox.ok(line)).unwrap();
    assert_eq!(result["max_length"], 32);
}

#[test]
fn files_that_do_not_belong_together_are_refused() {
    type Change = fn(&mut Value);
    let cases: [(&str, Change, &str); 12] = [
        (
            "config.json",
            |c| c["model_type"] = json!("roberta"),
            "tiny/config.json: `model_type` is `roberta`; only bert is supported",
        ),
        (
            "config.json",
            |c| c["hidden_act"] = json!("relu"),
            "tiny/config.json: `hidden_act` is `relu`; only gelu",
        ),
        (
            "config.json",
            |c| c["num_attention_heads"] = json!(3),
            "`hidden_size` 16 is not divisible by `num_attention_heads` 3",
        ),
        (
            "config.json",
            |c| c["num_hidden_layers"] = json!(0),
            "tiny/config.json: `num_hidden_layers` is 0",
        ),
        ("config.json", |c| c["num_hidden_layers"] = json!(3), "missing encoder.layer.2."),
        (
            "config.json",
            |c| c["intermediate_size"] = json!(31),
            "is [32, 16] and should be [31, 16]",
        ),
        (
            "config.json",
            |c| c["vocab_size"] = json!(65),
            "tiny/model.safetensors: these are not the weights of this network: wrong shape: embeddings.word_embeddings.weight is [64, 16] and should be [65, 16]",
        ),
        (
            "config.json",
            |c| c["hidden_size"] = json!("x"),
            "tiny/config.json: invalid type: string \"x\"",
        ),
        (
            "modules.json",
            |m| m[2]["type"] = json!("a.b.Dense"),
            "tiny/modules.json: the modules are Transformer, Pooling, Dense; only",
        ),
        (
            "1_Pooling/config.json",
            |p| p["pooling_mode_max_tokens"] = json!(true),
            "tiny/1_Pooling/config.json: the pooling is `max_tokens, mean_tokens`; only mean and cls",
        ),
        (
            "1_Pooling/config.json",
            |p| p["word_embedding_dimension"] = json!(384),
            "pools vectors of 384 values, the network has 16",
        ),
        (
            "sentence_bert_config.json",
            |s| s["max_seq_length"] = json!(33),
            "`max_seq_length` is 33, but it must be at least 3",
        ),
    ];
    for (name, change, expected) in cases {
        let sandbox = sandbox();
        let mut document: Value =
            serde_json::from_str(&sandbox.text(&format!("tiny/{name}"))).unwrap();
        change(&mut document);
        sandbox.put(&format!("tiny/{name}"), document.to_string());
        sandbox.refuses_like(&format!("{EMBED} --out a.parquet"), |error| {
            assert!(error.contains(expected), "{expected}\n{error}");
        });
    }
    // A tokenizer with more tokens than the network has rows for.
    let sandbox = sandbox();
    let mut tokenizer: Value = serde_json::from_str(&sandbox.text("tiny/tokenizer.json")).unwrap();
    tokenizer["model"]["vocab"]["more"] = json!(64);
    sandbox.put("tiny/tokenizer.json", tokenizer.to_string());
    sandbox.refuses(
        &format!("{EMBED} --out a.parquet"),
        "tiny: the tokenizer has 65 tokens but the network has 64 embeddings; use the tokenizer that the model was trained with",
    );
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let sandbox = sandbox();
    let refuses = |line: &str, message: &str| {
        sandbox.refuses_like(line, |error| assert!(error.contains(message), "{line}\n{error}"));
    };
    refuses(
        "data embed --encoder none --text texts.csv --out a.parquet",
        "--encoder none: does not exist; pass the folder of an encoder",
    );
    refuses(
        "data embed --encoder texts.csv --text texts.csv --out a.parquet",
        "--encoder texts.csv: is not a folder; pass the folder of an encoder",
    );
    refuses("data embed --encoder tiny --text texts.csv --column body --out a.parquet", "body");
    refuses(&format!("{EMBED} --batch 0 --out a.parquet"), "--batch must be 1 or more, got 0");
    refuses(
        &format!("{EMBED} --max-length 2 --out a.parquet"),
        "--max-length 2: every text has 2 special tokens, so it must be at least 3",
    );
    refuses(
        &format!("{EMBED} --max-length 30 --out a.parquet"),
        "--max-length 30: the encoder supports at most 24 tokens",
    );
    refuses(
        &format!("{EMBED} --memory 0 --out a.parquet"),
        "--memory 0: a text of 24 tokens needs 1 MiB",
    );
    refuses(
        &format!("{EMBED} --out texts.csv --force"),
        "this is the input of --text; no input is ever overwritten",
    );
    sandbox.put("bad.txt", b"fine\nn\xf6t\n");
    refuses("data embed --encoder tiny --text bad.txt --out a.parquet", "line 2 is not UTF-8");
    sandbox.ok(&format!("{EMBED} --out a.parquet"));
    refuses(&format!("{EMBED} --out a.parquet"), "a.parquet");
    sandbox.ok(&format!("{EMBED} --out a.parquet --force"));
    let outcome = sandbox.run("data embed --text texts.csv --out b.parquet");
    assert_eq!(outcome.code, Some(2));
    assert!(outcome.stderr.contains("pass either --encoder or --run"), "{}", outcome.stderr);
}
