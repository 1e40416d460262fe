//! `docs/json.md`: the fields of every document that `--json` prints, from documents that the program prints here.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::common::Sandbox;

/// A command for every kind of document; several for one kind where fields depend on what is asked for.
const COMMANDS: &[&str] = &[
    "data generate shop --users 120 --items 80 --per-user 8 --out shop",
    "data generate images --out images",
    "data describe --interactions shop/interactions.csv",
    "data split --interactions shop/interactions.csv --split leave-last-one --out parts",
    "data graph --interactions shop/interactions.csv --labels shop/items.csv --out graph.csv",
    "train bpr --interactions shop/interactions.csv --split leave-last-one --epochs 2 --dim 8 --out runs/bpr",
    "train bpr --interactions shop/interactions.csv --split leave-last-one --epochs 2 --dim 8 --seed 1 --out runs/other",
    "tune bpr --interactions shop/interactions.csv --split leave-last-one --validation 0.1 --epochs 2 --grid dim=4,8 --out tuned",
    "evaluate --run runs/bpr",
    "recommend --run runs/bpr --out best.parquet",
    "similar --run runs/bpr --id 3",
    "train net --model mlp:8 --data images --epochs 1 --out runs/net",
    "evaluate --run runs/net",
    "refit-head --run runs/net --out runs/refit",
    "explain --run runs/net --rows 60 --top 2",
    "explain audit --run runs/net --rows 60 --kernels trntk,ck",
    "explain labels --run runs/net --rows 60 --out suspects.csv",
    "kernel compute --run runs/net --rows 60 --plan",
    "kernel compute --run runs/net --rows 60 --sketch sjlt:64 --sketch-all --out k",
    "kernel check k",
    "kernel store --run runs/net --rows 60 --out tangents",
    "kernel regress --data houses.csv --target price --solver richardson --out prices.csv",
    "kernel regress --data houses.csv --target price --lambda 0.1",
    "kernel classify --run runs/net --kernel ck",
    "explain validate --run runs/net --rows 60 --subsets 3 --curve-queries 1 --effects removal --out kept",
    "data poison --data images --patch 3x3@1,1 --target 0 --out poisoned",
    "train net --model mlp:8 --data poisoned --epochs 5 --out runs/poisoned",
    "forensics trace --run runs/poisoned --incidents poisoned/triggered --retrain --out remove.csv",
    "forensics check --run runs/poisoned --suspects poisoned/planted.csv --queries poisoned/triggered --out votes.csv",
    "forensics scan --run runs/poisoned --out ranking.csv",
    "train text --model rnn --text reviews.csv --split-column split --min-count 2 --dim 8 --hidden 6 --epochs 1 --out runs/text",
    "evaluate --run runs/text",
    "predict --run runs/text --text reviews.csv --out predicted.csv",
    "train classifier --vectors runs/bpr --table item --labels shop/items.csv --out runs/classifier",
    "evaluate --run runs/classifier",
    "train doc2vec --text reviews.csv --dim 4 --epochs 1 --out runs/docs",
    "data embed --run runs/docs --text reviews.csv --out embedded.parquet",
    "stability runs/bpr runs/other --table item",
    "stability runs/bpr runs/other --table item --min-cka 0.1",
    "train bpr --interactions shop/interactions.csv --split leave-last-one --epochs 2 --dim 8 --seeds 3 --out runs/three",
    "stability budget runs/three --table item --out budget.toml",
    "align --reference runs/bpr runs/other --table item --out aligned.parquet",
    "refresh --reference runs/bpr --new runs/other --table item --out published --min-shared-ids 0.1 --min-cka -1 --min-nn-overlap 0 --max-procrustes-residual 9 --max-outlier-ids 1 --max-norm-outliers 1 --max-norm-change 9",
    "refresh --reference runs/bpr --new runs/other --table item --out published --min-shared-ids 0.1 --min-cka -1 --min-nn-overlap 0 --max-procrustes-residual 9 --max-outlier-ids 1 --max-norm-outliers 1 --max-norm-change 9 --on-publish true",
    "refresh verify published",
    "refresh init --reference runs/bpr --table item --out started",
    "refresh list published",
    "refresh rollback published",
    "refresh history published",
    "refresh list nowhere",
    "featurize new --input-dim 8 --output-dim 16 --out spec.json",
    "featurize describe spec.json",
    "featurize plan --data runs/bpr --table item --epsilon 0.3",
    "featurize check --spec spec.json runs/bpr --table item",
    "featurize apply --spec spec.json aligned.parquet phi.parquet",
    "featurize export --spec spec.json --to onnx --out phi.onnx",
    "vectors head aligned.parquet",
    "vectors stats aligned.parquet",
    "vectors convert aligned.parquet aligned.csv",
    "demo --out demo",
    "reproduce list",
    "reproduce show 000-kernel-error",
    "reproduce run 000-kernel-error --quick",
    "man train bpr",
    "completions bash",
];

const HEADER: &str = "\
# Reference: JSON documents

What `--json` prints, by `schema`: names and types; the guides explain what they mean. Generated from documents that the program printed (`UPDATE_GOLDEN=1 cargo test -p veridical-cli
documents`), so a field that depends on what was asked for may be absent from yours; a field that may be null says so. `estimate` is a
value with its interval: `value`, `low`, `high`, `n`, `seeds`, all five always there, `low` and `high` null without an interval.
";

/// Types of values by the path of the field; `[]` stands for the elements of a list, `*` for names that depend on the data.
type Fields = BTreeMap<String, Vec<&'static str>>;

fn add(fields: &mut Fields, path: &str, kind: &'static str) {
    let kinds = fields.entry(path.to_owned()).or_default();
    if !kinds.contains(&kind) {
        kinds.push(kind);
        kinds.sort_unstable();
    }
}

fn is_estimate(object: &serde_json::Map<String, Value>) -> bool {
    object.len() == 5
        && ["value", "low", "high", "n", "seeds"].iter().all(|f| object.contains_key(*f))
}

/// Objects whose keys are names of data, settings or measures rather than of fields.
const BY_NAME: &[&str] =
    &["settings", "parameters", "metrics", "measures", "by_class", "names", "columns"];

fn collect(value: &Value, path: &str, fields: &mut Fields) {
    match value {
        Value::Null => add(fields, path, "null"),
        Value::Bool(_) => add(fields, path, "boolean"),
        Value::Number(n) if n.is_f64() => add(fields, path, "number"),
        Value::Number(_) => add(fields, path, "integer"),
        Value::String(_) => add(fields, path, "string"),
        Value::Array(items) => {
            add(fields, path, "list");
            items.iter().for_each(|item| collect(item, &format!("{path}[]"), fields));
        }
        Value::Object(object) if is_estimate(object) => add(fields, path, "estimate"),
        Value::Object(object) => {
            if !path.is_empty() {
                add(fields, path, "object");
            }
            let name = path.rsplit('.').next().unwrap_or_default().trim_end_matches("[]");
            for (key, value) in object {
                let key = if BY_NAME.contains(&name) { "*" } else { key };
                let dot = if path.is_empty() { "" } else { "." };
                collect(value, &format!("{path}{dot}{key}"), fields);
            }
        }
    }
}

/// The schema names in the sources of the commands.
fn schemas() -> Vec<String> {
    let mut waiting = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src/commands")];
    let mut found = Vec::new();
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            waiting.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let text = fs::read_to_string(path).unwrap();
        let names =
            text.split(".result(").skip(1).filter_map(|rest| rest.trim_start().strip_prefix('"'));
        found.extend(names.filter_map(|rest| rest.split('"').next()).map(str::to_owned));
    }
    found.sort_unstable();
    found.dedup();
    found
}

#[test]
fn the_committed_page_of_json_documents_is_what_the_program_prints() {
    let sandbox = Sandbox::new();
    let row = |i: usize| {
        let (label, word) = if i.is_multiple_of(2) { ("good", "great") } else { ("bad", "dull") };
        let part = if i.is_multiple_of(5) { "test" } else { "train" };
        format!("r{i},{label},\"{word} film {} {word}\",{part}\n", i % 7)
    };
    let rows: String = (0..100).map(row).collect();
    sandbox.put("reviews.csv", format!("id,label,text,split\n{rows}"));
    let house = |i: usize| format!("{},{},{}\n", i % 7, i % 11, i % 7 * (i % 11));
    let houses: String = (0..60).map(house).collect();
    sandbox.put("houses.csv", format!("rooms,age,price\n{houses}"));
    let mut documents: BTreeMap<String, (Vec<&str>, Fields)> = BTreeMap::new();
    for command in COMMANDS {
        let outcome = sandbox.run(&format!("{command} --json --quiet"));
        let is_error = command.ends_with("nowhere");
        let is_expected = |code| if is_error { code == 2 } else { code < 2 };
        assert!(outcome.code.is_some_and(is_expected), "{command}\n{outcome:?}");
        let document: Value = serde_json::from_str(&outcome.stdout).unwrap();
        let schema = document["schema"].as_str().unwrap().to_owned();
        let (commands, fields) = documents.entry(schema).or_default();
        commands.push(command);
        collect(&document, "", fields);
    }
    let mut page = HEADER.to_owned();
    for (schema, (commands, fields)) in &documents {
        let _ = write!(page, "\n## {schema}\n\n");
        for command in commands {
            let command = command.split(" --").next().unwrap_or_default();
            let _ = writeln!(page, "Printed by `veridical {command} --json`.\n");
        }
        let _ = write!(page, "| field | type |\n|---|---|\n");
        for (path, kinds) in fields {
            let _ = writeln!(page, "| `{path}` | {} |", kinds.join(" or "));
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/json.md");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let committed = fs::read_to_string(path).unwrap();
    assert!(committed == page, "fields changed; run again with UPDATE_GOLDEN=1 and read the diff");

    let printed: Vec<String> = documents
        .keys()
        .map(|schema| schema.trim_start_matches("veridical.").trim_end_matches("/1").to_owned())
        .collect();
    // Takes as long as all experiments; its fields are those of a list of them.
    let missing: Vec<String> = schemas()
        .into_iter()
        .filter(|name| !printed.contains(name) && name != "reproduce-run-all")
        .collect();
    assert_eq!(missing, Vec::<String>::new(), "documents that no command here prints");
}
