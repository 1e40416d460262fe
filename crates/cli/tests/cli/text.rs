//! Text models: contents of runs, equal bytes for any number of threads, resume, pretrained word embeddings, evaluation
//! and prediction. Documents are generated: half of their words belong to the topic of their label.

#![cfg(unix)]

use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json as value};
use veridical_core::{Seed, Stream};

use crate::common::*;

const GOOD: [&str; 6] = ["good", "great", "fine", "lovely", "superb", "brilliant"];
const BAD: [&str; 6] = ["bad", "awful", "poor", "dull", "terrible", "boring"];

/// A document of 2 to 9 words, half of them of its topic on average.
fn document_of(i: usize, is_good: bool) -> String {
    let place = Stream::new(Seed::new(5).unwrap(), "documents").at(0, i as u64);
    let below = |k: usize, n: usize| (place.uniform(k as u32) * n as f64) as usize;
    let word = |k: usize| match (k == 0 || below(2 * k, 2) == 0, is_good) {
        (true, true) => GOOD[below(2 * k + 1, 6)].to_owned(),
        (true, false) => BAD[below(2 * k + 1, 6)].to_owned(),
        (false, _) => format!("w{}", below(2 * k + 1, 30)),
    };
    (0..2 + below(100, 8)).map(word).collect::<Vec<_>>().join(" ")
}

/// `reviews.csv`: 300 documents with the labels bad and good, every fifth a test document.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    let row = |i: usize| {
        let is_good = i * 7 % 11 < 5;
        let (part, label) = (
            if i.is_multiple_of(5) { "test" } else { "train" },
            if is_good { "good" } else { "bad" },
        );
        format!("r{i},{label},\"{}\",{part}\n", document_of(i, is_good))
    };
    let rows: String = (0..300).map(row).collect();
    sandbox.put("reviews.csv", format!("id,label,text,split\n{rows}"));
    sandbox
}

const TRAIN: &str = "train text --model rnn --text reviews.csv --split-column split --min-count 2 --dim 8 --hidden 6";

fn run_files(sandbox: &Sandbox, name: &str) -> Files {
    let mut files = sandbox.below(name);
    files.retain(|path, _| path.file_name().is_none_or(|name| name != "log.jsonl"));
    files
}

fn document(sandbox: &Sandbox, run: &str) -> Value {
    serde_json::from_str(&sandbox.text(&format!("{run}/run.json"))).unwrap()
}

#[test]
fn planted_words_are_learned_evaluated_and_found_in_new_documents() {
    let sandbox = sandbox();
    for cell in ["gru", "lstm"] {
        let flags =
            format!("{TRAIN} --cell {cell} --epochs 12 --batch 20 --lr 0.01 --validation 0.1");
        let trained = json(&sandbox, "train", &format!("{flags} --out {cell}"));
        assert_eq!(
            (&trained["method"], &trained["runs"][0]["epochs"]),
            (&"text".into(), &12.into())
        );
        let about = document(&sandbox, cell);
        assert_eq!(about["classes"], value!(["bad", "good"]));
        assert_eq!(about["split"]["rows"], value!({ "train": 216, "validation": 24, "test": 60 }));
        let words = about["tables"][0]["rows"].as_u64().unwrap();
        assert_eq!(words, 42, "12 words of two topics and 30 others");
        let gates = if cell == "gru" { 3 } else { 4 };
        // Two directions of W_ih, W_hh and two biases; 12 -> 6 -> 1; words and the one for none.
        let weights = 2 * gates * 6 * (8 + 6 + 2) + (12 * 6 + 6) + (6 + 1) + (words + 1) * 8;
        assert_eq!(trained["parameters"], weights);
        let evaluated = json(&sandbox, "evaluate-net", &format!("evaluate --run {cell}"));
        let measures = &evaluated["models"][0]["runs"][0];
        assert_eq!((&evaluated["what"], &measures["n"]), (&"classification".into(), &60.into()));
        // Guessing is right on 30 of 60, with five standard errors 49.4; the first word alone determines the label.
        let accuracy = &measures["accuracy"];
        assert!(accuracy["value"].as_f64().unwrap() >= 55.0 / 60.0, "{accuracy}");
        assert!(accuracy["low"].as_f64().unwrap() < accuracy["value"].as_f64().unwrap());
    }
    let new = "key,text\nx,great superb w3 fine\ny,\"w1 awful, boring\"\nz,\nu,quux\n";
    sandbox.put("new.csv", new);
    let line = "predict --run gru --text new.csv --id-column key --out said.csv";
    let said = json(&sandbox, "predict", line);
    assert_eq!(said["rows"], 4);
    assert!(said["notes"][0].as_str().unwrap().starts_with("2 of 4 documents have no known word"));
    let table = sandbox.text("said.csv");
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 5);
    assert!(lines[1].starts_with("x,good,0.0") && lines[2].starts_with("y,bad,0.9"), "{table}");
    assert_eq!(lines[3].split_once(',').unwrap().1, lines[4].split_once(',').unwrap().1);
    sandbox
        .refuses(line, "said.csv already exists; choose another name or replace it with --force");
    // Other labeled documents, and a page.
    sandbox.put(
        "more.csv",
        "label,text,split\ngood,great fine,test\nbad,dull dull,test\ngood,fine,train\n",
    );
    let evaluated =
        json(&sandbox, "evaluate-net", "evaluate --run gru --data more.csv --html page.html");
    assert_eq!(evaluated["models"][0]["runs"][0]["n"], 3, "all documents of another table");
    // The documents of the training are recognized under another name.
    sandbox.put("copy.csv", sandbox.text("reviews.csv"));
    let evaluated = json(&sandbox, "evaluate-net", "evaluate --run gru --data copy.csv");
    assert_eq!(evaluated["models"][0]["runs"][0]["n"], 60);
    sandbox.put("copy.csv", sandbox.text("reviews.csv").replacen(",test\n", ",train\n", 1));
    sandbox.refuses(
        "evaluate --run gru --data copy.csv",
        "the documents of copy.csv are split differently than in training; restore the split column",
    );
    assert!(sandbox.text("page.html").contains("bidirectional-gru:6,6"));
}

/// What `predict` writes for the test documents is what `evaluate` counts, and the layers below the output are vectors.
#[test]
fn predictions_are_those_that_are_evaluated() {
    let sandbox = sandbox();
    let tfidf = "train text --text reviews.csv --split-column split --quiet --out tfidf";
    sandbox.ok(tfidf);
    sandbox.ok(&format!("{TRAIN} --epochs 3 --lr 0.01 --quiet --out rnn"));
    for run in ["tfidf", "rnn"] {
        let evaluated = json(&sandbox, "evaluate-net", &format!("evaluate --run {run}"));
        sandbox.ok(&format!("predict --run {run} --text reviews.csv --out {run}.csv --quiet"));
        let table = sandbox.text(&format!("{run}.csv"));
        assert!(table.starts_with("id,predicted,p_bad,p_good\nr0,"), "{table}");
        let right = table.lines().skip(1).enumerate().step_by(5).filter(|(i, line)| {
            let label = if i * 7 % 11 < 5 { "good" } else { "bad" };
            line.split(',').nth(1) == Some(label)
        });
        let accuracy = &evaluated["models"][0]["accuracy"]["value"];
        assert_eq!(right.count() as f64 / 60.0, accuracy.as_f64().unwrap(), "{run}");
    }
    let line = "data embed --run rnn --text reviews.csv --out";
    let embedded = json(&sandbox, "data-embed", &format!("{line} last.parquet"));
    assert_eq!((&embedded["rows"], &embedded["dim"]), (&300.into(), &6.into()));
    let embedded = json(&sandbox, "data-embed", &format!("{line} ends.parquet --layer ends"));
    assert_eq!(embedded["dim"], 12);
    sandbox.refuses(
        &format!("{line} no.parquet --layer rnn"),
        "the layer `rnn` of rnn has values for every word; choose one with values for documents: ends, fc1, relu, fc2",
    );
    sandbox.refuses(
        "data embed --run tfidf --text reviews.csv --out no.parquet",
        "tfidf is a regression on words, which has no hidden layers; train with --model rnn",
    );
}

/// A network that memorizes labels without meaning is soon worse than guessing on other documents.
#[test]
fn with_validation_the_best_epoch_is_kept() {
    let sandbox = Sandbox::new();
    let row =
        |i: usize| format!("{},{}\n", i * i * 41 % 97 % 2, document_of(i, i.is_multiple_of(3)));
    sandbox.put("noise.csv", format!("label,text\n{}", (0..120).map(row).collect::<String>()));
    let flags = "train text --model rnn --text noise.csv --min-count 1 --validation 0.3 --dim 8 --hidden 6 --lr 0.02 \
                 --seed 1 --quiet";
    sandbox.ok(&format!("{flags} --epochs 15 --out long"));
    let results = document(&sandbox, "long")["results"].clone();
    let best = results["best"]["epoch"].as_u64().unwrap();
    assert!(best < 15 && results["epochs"] == 15, "{results}");
    sandbox.ok(&format!("{flags} --epochs {best} --out short"));
    assert!(sandbox.bytes("long/model.safetensors") == sandbox.bytes("short/model.safetensors"));
}

#[test]
fn three_classes_and_a_drawn_split() {
    let sandbox = Sandbox::new();
    let row = |i: usize| format!("{},{} w{}\n", i % 3 + 9, ["red", "green", "blue"][i % 3], i % 7);
    sandbox.put("c.csv", format!("label,text\n{}", (0..120).map(row).collect::<String>()));
    let line = "train text --model rnn --text c.csv --test-share 0.25 --split-seed 3 --validation 0.2 --epochs 30 \
                --lr 0.02 --batch 10 --dim 4 --hidden 4 --patience 3 --out run --quiet";
    sandbox.ok(line);
    let about = document(&sandbox, "run");
    assert_eq!(about["classes"], value!(["9", "10", "11"]), "numbers by their size");
    assert_eq!(about["split"]["rows"], value!({ "train": 72, "validation": 18, "test": 30 }));
    let evaluated = json(&sandbox, "evaluate-net", "evaluate --run run");
    let measures = &evaluated["models"][0]["runs"][0];
    assert_eq!((&measures["n"], &measures["accuracy"]["value"]), (&30.into(), &1.0.into()));
}

#[test]
fn the_bytes_do_not_depend_on_threads() {
    let sandbox = sandbox();
    for more in [
        "--cell gru",
        "--cell lstm --dropout 0.2 --weight-decay 1e-4 --validation 0.2 --patience 2",
    ] {
        let flags = format!("{TRAIN} --epochs 3 --batch 16 --seed 7 {more} --quiet");
        sandbox.ok(&format!("{flags} --threads 1 --out one"));
        for threads in [2, 3] {
            sandbox.ok(&format!("{flags} --threads {threads} --out other"));
            assert!(run_files(&sandbox, "one") == run_files(&sandbox, "other"), "{more} {threads}");
            sandbox.remove("other");
        }
        sandbox.remove("one");
    }
}

#[test]
fn runs_of_several_seeds_and_from_an_earlier_run() {
    let sandbox = sandbox();
    let flags = format!("{TRAIN} --epochs 2 --quiet");
    sandbox.ok(&format!("{flags} --seeds 2 --seed 5 --threads 2 --out all"));
    for seed in [5, 6] {
        sandbox.ok(&format!("{flags} --seed {seed} --out one"));
        assert!(run_files(&sandbox, &format!("all/seed-{seed}")) == run_files(&sandbox, "one"));
        sandbox.remove("one");
    }
    let evaluated = json(&sandbox, "evaluate-net", "evaluate --run all");
    assert_eq!(evaluated["models"][0]["seeds"], value!([5, 6]));
    let model = &evaluated["models"][0];
    assert_eq!(
        (&model["accuracy"]["seeds"], &model["accuracy_sd"]["seeds"]),
        (&2.into(), &2.into())
    );
    sandbox.ok("train --from all/seed-5 --seed 6 --out again --quiet");
    assert!(run_files(&sandbox, "again") == run_files(&sandbox, "all/seed-6"));
}

/// Vectors of all words but `w0`; the first value separates the topics.
fn put_vectors(sandbox: &Sandbox, dim: usize) {
    let row = |word: &str, first: f64| {
        let rest: String = (1..dim).map(|k| format!(",{}", k as f64 / 10.0)).collect();
        format!("{word},{first}{rest}\n")
    };
    let mut table: String =
        format!("id{}\n", (0..dim).map(|k| format!(",v{k}")).collect::<String>());
    GOOD.iter().for_each(|word| table.push_str(&row(word, 1.0)));
    BAD.iter().for_each(|word| table.push_str(&row(word, -1.0)));
    (1..30).for_each(|i| table.push_str(&row(&format!("w{i}"), 0.0)));
    sandbox.put("vectors.csv", table);
}

#[test]
fn vectors_that_are_given_stay_unless_asked() {
    let sandbox = sandbox();
    put_vectors(&sandbox, 3);
    let flags = "train text --model rnn --text reviews.csv --split-column split --min-count 1 --vectors vectors.csv \
                 --hidden 4 --epochs 15 --lr 0.02 --batch 20";
    let outcome = sandbox.run(&format!("{flags} --out fixed"));
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let said = "1 of 42 words have no vector in --vectors and are set to zeros";
    assert!(outcome.stderr.contains(said), "{outcome:?}");
    let evaluated = json(&sandbox, "evaluate-net", "evaluate --run fixed");
    let accuracy = &evaluated["models"][0]["runs"][0]["accuracy"]["value"];
    assert!(accuracy.as_f64().unwrap() >= 55.0 / 60.0, "{accuracy}");
    let vector = |run: &str, word: &str| {
        let table = sandbox.table(&format!("{run}/vectors/word.parquet"));
        let row = (0..table.n_rows()).find(|&row| table.ids.get(row) == word).unwrap();
        table.row(row).to_vec()
    };
    assert_eq!(vector("fixed", "great"), [1.0, 0.1, 0.2]);
    assert_eq!(vector("fixed", "w0"), [0.0; 3]);
    sandbox.ok(&format!("{flags} --train-vectors --out moved --quiet"));
    assert_ne!(vector("moved", "great"), [1.0, 0.1, 0.2]);
    assert_ne!(vector("moved", "w0"), [0.0; 3]);
    // A run of this kind has word embeddings itself.
    sandbox.ok(&format!("{} --out again --quiet", flags.replace("vectors.csv", "moved")));
    assert_eq!(vector("again", "great"), vector("moved", "great"));
}

fn is_stopped_and_resumed(sandbox: &Sandbox, line: &str, signal: &str) -> bool {
    let mut command = sandbox.command(format!("{line} --out run --quiet").split_whitespace());
    let mut job = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    for _ in 0..60_000 {
        if sandbox.has("run.partial/checkpoint/state.json") || sandbox.has("run") {
            break;
        }
        sleep(Duration::from_millis(1));
    }
    assert!(Command::new("kill").args([signal, &job.id().to_string()]).status().unwrap().success());
    job.wait().unwrap();
    if sandbox.has("run") {
        sandbox.remove("run");
        return false;
    }
    sandbox.refuses(
        &format!("{} --out run --resume", line.replace("--hidden 6", "--hidden 7")),
        "run.partial: this is not the run that was started: settings.dense was 6 and is now 7; start over with --force",
    );
    sandbox.ok(&format!("{line} --out whole --quiet"));
    sandbox.ok(&format!("{line} --out run --resume --quiet"));
    assert!(run_files(sandbox, "whole") == run_files(sandbox, "run"), "{line} {signal}");
    true
}

#[test]
fn a_stopped_run_comes_out_the_same_also_inside_an_epoch() {
    let sandbox = sandbox();
    let line = format!(
        "{TRAIN} --batch 17 --dropout 0.1 --validation 0.2 --patience 9999 --checkpoint-every 5"
    );
    let mut epochs = 10;
    while !is_stopped_and_resumed(&sandbox, &format!("{line} --epochs {epochs}"), "-KILL") {
        epochs *= 4;
        assert!(epochs < 100_000, "always over before the signal comes");
    }
}

/// `line` must fail with a message that contains all of `parts`.
#[track_caller]
fn refuses_with(sandbox: &Sandbox, line: &str, parts: &[&str]) {
    sandbox.refuses_like(line, |error| {
        for part in parts {
            assert!(error.contains(part), "{line}\n{error}\nhas no {part:?}");
        }
    });
}

#[test]
fn bad_documents_are_named_with_their_place() {
    let sandbox = sandbox();
    let refuses = |content: &str, more: &str, parts: &[&str]| {
        sandbox.put("bad.csv", content);
        refuses_with(
            &sandbox,
            &format!("train text --model rnn --text bad.csv --epochs 1 --out run {more}"),
            parts,
        );
    };
    let few = "label,text\n1,good\n0,bad\n1,fine\n0,dull\n";
    refuses(
        "text\ngood\n",
        "",
        &["bad.csv", "no column is recognized as the label", "--label-column"],
    );
    refuses(
        few,
        "--label-column sentiment",
        &["there is no column `sentiment`", "`label`, `text`"],
    );
    refuses(few, "--column body", &["--column", "`body`"]);
    refuses("label,text\n1,good\n,bad\n", "", &["line 3", "the label is missing"]);
    refuses("label,text\n1,good\n0,\n", "", &["line 3", "the document is empty"]);
    refuses(
        "label,text\n1,good\n1,fine\n1,great\n",
        "--test-share 0",
        &["the label `1`", "at least two classes"],
    );
    refuses(
        few,
        "--test-share 0 --min-count 2",
        &["none of the 4 training documents", "--min-count"],
    );
    refuses(
        "label,text,split\n1,good,train\n0,bad,train\n2,odd,test\n",
        "--split-column split --min-count 1",
        &["label `2`", "0, 1"],
    );
    refuses(
        "label,text,split\n1,a,train\n0,b,tain\n",
        "--split-column split",
        &["line 3", "`tain`"],
    );
    refuses(
        "label,text,split\n1,a,test\n0,b,test\n",
        "--split-column split",
        &["no training documents remain"],
    );
    refuses(few, "--test-share 1", &["--test-share", "below 1, got 1"]);
    refuses(few, "--test-share 0.01", &["--test-share 0.01 of 4 documents is 0"]);
    sandbox.refuses_like("train text --text none.csv --out run", |error| {
        assert!(error.contains("none.csv"), "{error}");
    });
    refuses_with(&sandbox, "train text --out run", &["--text FILE"]);
}

#[test]
fn bad_settings_vectors_and_runs_are_refused() {
    let sandbox = sandbox();
    put_vectors(&sandbox, 3);
    let line = format!("{TRAIN} --epochs 1 --out run");
    for (flag, parts) in [
        ("--batch 241", &["--batch 241", "240 training documents"][..]),
        ("--batch 0", &["--batch must be at least 1"]),
        ("--max-length 0", &["--max-length must be at least 1"]),
        ("--dropout 1", &["dropout", "got 1"]),
        ("--lr 0", &["--lr must be a number above 0"]),
        ("--weight-decay -1", &["--weight-decay must be at least 0, got -1"]),
        ("--patience 0", &["--patience must be at least 1"]),
        ("--train-vectors", &["--train-vectors needs --vectors"]),
        ("--vectors vectors.csv", &["--dim is 8", "have dimension 3", "leave --dim out"]),
        ("--test-share 0.2", &["--test-share and --split-column"]),
        ("--checkpoint-every 0", &["--checkpoint-every"]),
    ] {
        refuses_with(&sandbox, &format!("{line} {flag}"), parts);
    }
    sandbox.put("other.csv", "id,a,b\nhello,1,2\n");
    let plain =
        "train text --model rnn --text reviews.csv --split-column split --epochs 1 --out run";
    refuses_with(
        &sandbox,
        &format!("{plain} --vectors other.csv"),
        &["--vectors other.csv has no vector for any of the", "`hello`"],
    );
    refuses_with(
        &sandbox,
        &format!("{plain} --min-count 2 --lr 1e30"),
        &["training diverged in epoch", "--lr"],
    );
    sandbox.ok(&format!("{line} --quiet"));
    refuses_with(
        &sandbox,
        "evaluate --run run --classes good",
        &["--classes is for networks on images"],
    );
    refuses_with(&sandbox, "evaluate --run run --interactions reviews.csv", &["--interactions is"]);
    sandbox.put("unlabeled.csv", "text\ngood\n");
    refuses_with(&sandbox, "evaluate --run run --data unlabeled.csv", &["--label-column"]);
    refuses_with(&sandbox, "predict --run nowhere --text reviews.csv --out p.csv", &["nowhere"]);
    refuses_with(
        &sandbox,
        "predict --run run --text reviews.csv --column body --out p.csv",
        &["`body`"],
    );
    refuses_with(&sandbox, "train text --from nowhere --out other", &["nowhere"]);
}

#[test]
fn long_documents_are_truncated_with_a_note() {
    let sandbox = sandbox();
    let outcome = sandbox.run(&format!("{TRAIN} --max-length 3 --epochs 1 --out run"));
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let said =
        "training documents are longer than --max-length 3: only their first 3 words are used";
    assert!(outcome.stderr.contains(said), "{outcome:?}");
}

const TFIDF: &str = "train text --text reviews.csv --split-column split";

#[test]
fn words_and_pairs_are_the_default_and_the_baseline_of_the_others() {
    let sandbox = sandbox();
    let trained = json(&sandbox, "train", &format!("{TFIDF} --out tfidf"));
    assert_eq!((&trained["method"], &trained["model"]), (&"text".into(), &"tfidf".into()));
    let about = document(&sandbox, "tfidf");
    assert_eq!(about["settings"]["model"], "tfidf");
    let path = about["results"]["path"].as_array().unwrap();
    let loss = |c: &Value| path.iter().find(|step| step[0] == *c).unwrap()[1].as_f64().unwrap();
    let chosen = loss(&about["results"]["c"]);
    assert!(path.len() > 3 && path.iter().all(|step| step[1].as_f64().unwrap() >= chosen));
    let evaluated = json(&sandbox, "evaluate-net", "evaluate --run tfidf");
    let model = &evaluated["models"][0];
    let accuracy = model["runs"][0]["accuracy"]["value"].as_f64().unwrap();
    assert!(accuracy >= 55.0 / 60.0, "{accuracy}");
    // The most frequent class is the only baseline of the textbook's classifier.
    let names = |evaluated: &Value| -> Vec<String> {
        let models = evaluated["models"].as_array().unwrap();
        models.iter().map(|model| model["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&evaluated), ["tfidf", "majority class"]);
    sandbox.ok(&format!("{TRAIN} --epochs 1 --out weak --quiet"));
    let evaluated = json(&sandbox, "evaluate-net", "evaluate --run weak --html weak.html");
    assert_eq!(names(&evaluated), ["weak", "majority class", "tfidf"]);
    assert_eq!(evaluated["models"][2]["runs"][0]["accuracy"]["value"], accuracy);
    let versus = &evaluated["models"][0]["versus"];
    assert_eq!(versus["baseline"], "tfidf");
    let count = |key: &str| versus[key].as_u64().unwrap() as f64;
    let weak = evaluated["models"][0]["runs"][0]["accuracy"]["value"].as_f64().unwrap();
    let difference = (count("only_model") - count("only_baseline")) / 60.0;
    assert!((weak - accuracy - difference).abs() < 1e-12);
    assert!(sandbox.text("weak.html").contains("worse than the best baseline, tfidf"));
    let alone = json(&sandbox, "evaluate-net", "evaluate --run weak --baselines none");
    assert_eq!(names(&alone), ["weak"]);
}

#[test]
fn words_and_pairs_give_the_same_bytes_for_any_number_of_threads() {
    let sandbox = sandbox();
    sandbox.ok(&format!("{TFIDF} --threads 1 --validation 0.1 --out one --quiet"));
    sandbox.ok(&format!("{TFIDF} --threads 3 --validation 0.1 --out other --quiet"));
    assert!(run_files(&sandbox, "one") == run_files(&sandbox, "other"));
    // The folds are drawn by the seed.
    sandbox.ok(&format!("{TFIDF} --seeds 2 --out all --quiet"));
    sandbox.ok("train --from all/seed-1 --out again --quiet");
    assert!(run_files(&sandbox, "again") == run_files(&sandbox, "all/seed-1"));
    sandbox.put("new.csv", "id,text\na,great w1 fine\nb,\nc,awful poor\n");
    sandbox.ok("predict --run one --text new.csv --out said.csv");
    let table = sandbox.text("said.csv");
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[1].starts_with("a,good,") && lines[3].starts_with("c,bad,"), "{table}");
}

#[test]
fn settings_of_the_other_model_are_refused() {
    let sandbox = sandbox();
    for (flags, parts) in [
        ("--hidden 4", &["--hidden is a setting of --model rnn"][..]),
        ("--min-count 2", &["--min-count is a setting of --model rnn"]),
        ("--model rnn --c 1", &["--c is a setting of --model tfidf"]),
        ("--c 0", &["--c must be a number above 0"]),
        ("--ngrams 3", &["--ngrams"]),
        ("--folds 1", &["--folds must be at least 2"]),
        ("--min-documents 1000", &["none of the 240 training documents", "--min-documents"]),
    ] {
        refuses_with(&sandbox, &format!("{TFIDF} --out run {flags}"), parts);
    }
}
