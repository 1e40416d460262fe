//! No output is ever an input: every output of every verb, pointed at every input of the verb, by two names.
//!
//! The table is `tests/golden/flags.txt`, which a test derives from the declaration of the settings: a new flag is covered.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::common::{Outcome, Sandbox};

/// A flag of the table.
struct Flag {
    name: String,
    access: Option<String>,
    is_positional: bool,
    is_required: bool,
}

fn verbs() -> BTreeMap<String, Vec<Flag>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/flags.txt");
    let mut verbs: BTreeMap<String, Vec<Flag>> = BTreeMap::new();
    for line in fs::read_to_string(path).unwrap().lines() {
        let (verb, rest) = line.split_once(" --").unwrap();
        let words: Vec<&str> = rest.split(' ').collect();
        let access = words[2..].iter().find(|word| ["read", "written"].contains(word));
        verbs.entry(verb.to_owned()).or_default().push(Flag {
            name: words[0].to_owned(),
            access: access.map(|&word| word.to_owned()),
            is_positional: words.contains(&"positional"),
            is_required: words.contains(&"required"),
        });
    }
    verbs
}

/// Required flags that are not paths.
const VALUES: [(&str, &str); 4] =
    [("to", "onnx"), ("what", "ranking"), ("id", "x"), ("grid", "dim=4,8")];

/// A file name that the output accepts.
fn named(output: &str) -> &'static str {
    match output {
        "html" => "same.html",
        "markdown" => "same.md",
        "prometheus" => "same.prom",
        _ => "same.parquet",
    }
}

#[test]
fn no_output_of_any_verb_overwrites_an_input() {
    let (mut pairs, mut excluded, mut problems) = (0, Vec::new(), Vec::new());
    for (verb, flags) in verbs() {
        let of = |access: &str| -> Vec<&Flag> {
            flags.iter().filter(|flag| flag.access.as_deref() == Some(access)).collect()
        };
        for output in of("written") {
            for input in of("read") {
                let file = named(&output.name);
                for is_linked in [false, true] {
                    let sandbox = Sandbox::new();
                    sandbox.put(file, "precious");
                    let other = format!("link-{file}");
                    if is_linked {
                        std::os::unix::fs::symlink(file, sandbox.path(&other)).unwrap();
                    }
                    let target = if is_linked { &other } else { file };
                    let mut args: Vec<String> = verb.split(' ').map(str::to_owned).collect();
                    let mut positional = Vec::new();
                    for flag in &flags {
                        let value = match &flag.name {
                            name if *name == output.name => target.to_owned(),
                            name if *name == input.name => file.to_owned(),
                            name if flag.is_required || flag.is_positional => {
                                let value = VALUES.iter().find(|(known, _)| known == name);
                                value.map_or_else(
                                    || format!("other-{name}"),
                                    |(_, v)| (*v).to_owned(),
                                )
                            }
                            name if name == "force" => {
                                args.push("--force".into());
                                continue;
                            }
                            _ => continue,
                        };
                        match flag.is_positional {
                            true => positional.push(value),
                            false => args.push(format!("--{}={value}", flag.name)),
                        }
                    }
                    args.extend(positional);
                    let outcome = Outcome::of(sandbox.command(&args).output().unwrap());
                    pairs += 1;
                    let what = format!("{verb} --{} on --{}", output.name, input.name);
                    if sandbox.text(file) != "precious" || outcome.code != Some(2) {
                        problems.push(format!("{what}: {args:?}\n{outcome:?}"));
                    } else if outcome.stderr.contains("cannot be used with")
                        || outcome.stderr.contains("required arguments were not provided")
                    {
                        excluded.push(what);
                    } else if !outcome.stderr.contains("no input is ever overwritten") {
                        problems.push(format!("{what}: {args:?}\n{outcome:?}"));
                    }
                }
            }
        }
    }
    assert!(problems.is_empty(), "{} of {pairs}\n{}", problems.len(), problems.join("\n"));
    // Flags that exclude each other, or that need a third one, never get that far.
    assert!(
        pairs > 200 && excluded.len() < pairs / 10,
        "{} of {pairs}: {excluded:?}",
        excluded.len()
    );
}

/// The commands of which each turned an input into something else.
#[test]
fn a_forgotten_page_name_destroys_nothing() {
    let sandbox = Sandbox::new();
    for name in ["a.parquet", "b.parquet", "c.parquet"] {
        sandbox.put_table(name, &crate::common::rows(120, 4));
    }
    sandbox.put("budget.toml", "min-cka = 0.1\n");
    sandbox.ok("featurize new --input-dim 4 --out spec.json");
    for (line, message) in [
        (
            "stability --html a.parquet b.parquet c.parquet",
            "--html a.parquet: not the name of a page; its name ends in .html",
        ),
        (
            "stability --markdown=a.parquet b.parquet c.parquet",
            "--markdown a.parquet: not the name of a summary; its name ends in .md",
        ),
        (
            "stability --prometheus=b.parquet b.parquet c.parquet",
            "--prometheus b.parquet: this is the input of --tables; no input is ever overwritten; choose another name",
        ),
        (
            "stability a.parquet b.parquet --budget budget.toml --html budget.toml",
            "--html budget.toml: this is the input of --budget; no input is ever overwritten; choose another name",
        ),
        (
            "align --reference a.parquet b.parquet --map b.parquet --force",
            "--map b.parquet: this is the input of --tables; no input is ever overwritten; choose another name",
        ),
        (
            "align --reference a.parquet b.parquet --onnx a.parquet --force",
            "--onnx a.parquet: this is the input of --reference; no input is ever overwritten; choose another name",
        ),
        (
            "featurize export --spec spec.json --to safetensors --out spec.json --force",
            "--out spec.json: this is the input of --spec; no input is ever overwritten; choose another name",
        ),
    ] {
        sandbox.refuses(line, message);
    }
    // A page of ours is replaced, another file only if asked.
    let line = "stability a.parquet b.parquet --pairs 200 --kernel-ids 100 --html report.html";
    sandbox.ok(line);
    sandbox.ok(line);
    sandbox.put("report.html", "<!doctype html>\n<p>mine");
    sandbox.refuses(
        line,
        "report.html already exists and is not a page of veridical; choose another name or replace it with --force",
    );
    sandbox.ok(&format!("{line} --force"));
}

/// Next to the files of a run there may be others.
#[test]
fn results_may_lie_in_the_folder_of_a_run_but_not_on_its_files() {
    let sandbox = Sandbox::new();
    sandbox.put_shop("shop.csv", 60, 40, 8);
    sandbox.ok(
        "train bpr --interactions shop.csv --split leave-last-one --epochs 1 --dim 4 --out run",
    );
    for force in ["", " --force"] {
        sandbox.ok(&format!("recommend --run run --out run/best.csv{force}"));
        sandbox.ok(&format!("evaluate --run run --out run/measures.json{force}"));
    }
    for file in ["run/run.json", "run/vectors/item.parquet", "shop.csv"] {
        sandbox.refuses_like(&format!("evaluate --run run --out {file} --force"), |error| {
            assert!(
                error.ends_with("no input is ever overwritten; choose another name"),
                "{error}"
            );
        });
    }
}
