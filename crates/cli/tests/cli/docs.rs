//! README and docs: every command runs, and the words are those of the field.
//!
//! Commands are the lines of fenced `sh` blocks that begin with `veridical `. A page runs from top to bottom in a folder of its own, in
//! which `veridical demo --out demo` was run before. Comments of the page say what differs:
//!
//! - `<!-- not run: REASON -->` before a block: it is skipped;
//! - `<!-- setup: COMMAND -->`: a command that readers need not see;
//! - `<!-- exit: 1 -->` before a block: its commands fail a gate.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::Sandbox;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Pages that users read, with their names.
fn pages() -> Vec<(String, String)> {
    let mut names = vec!["README.md".to_owned()];
    let guides = fs::read_dir(root().join("docs")).unwrap();
    names.extend(guides.map(|guide| format!("docs/{}", guide.unwrap().file_name().display())));
    names.retain(|name| name.ends_with(".md"));
    names.sort();
    let read = |name: String| (fs::read_to_string(root().join(&name)).unwrap(), name);
    names.into_iter().map(read).map(|(text, name)| (name, text)).collect()
}

#[derive(Debug, PartialEq)]
struct Shown {
    line: usize,
    command: String,
    exit: i32,
}

/// The commands of a page; an error names a command that is neither run nor marked.
fn commands(page: &str) -> Result<Vec<Shown>, String> {
    let (mut shown, mut fence, mut is_marked, mut exit) = (Vec::new(), None::<String>, false, 0);
    let mut lines = page.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let line = line.trim();
        let comment = line.strip_prefix("<!--").and_then(|line| line.strip_suffix("-->"));
        if let Some((name, value)) = comment.and_then(|comment| comment.split_once(':')) {
            match (name.trim(), value.trim()) {
                ("not run", reason) if !reason.is_empty() => is_marked = true,
                ("exit", code) => exit = code.parse().map_err(|e| format!("line {at}: {e}"))?,
                ("setup", command) => {
                    shown.push(Shown { line: at + 1, command: command.to_owned(), exit: 0 });
                }
                _ => return Err(format!("line {}: a comment nobody reads: {line}", at + 1)),
            }
        } else if let Some(kind) = line.strip_prefix("```") {
            match fence.take() {
                None => fence = Some(kind.to_owned()),
                Some(_) => (is_marked, exit) = (false, 0),
            }
        } else if line.starts_with("veridical ") {
            let mut command = line.to_owned();
            while let Some(begun) = command.strip_suffix('\\') {
                let (_, rest) = lines.next().ok_or("the page ends inside a command")?;
                command = format!("{begun} {}", rest.trim());
            }
            let command = command.split("  #").next().unwrap_or_default().trim().to_owned();
            let is_indented = page.lines().nth(at).is_some_and(|raw| raw.starts_with("    "));
            match fence.as_deref() {
                _ if is_marked => {}
                Some("sh") => shown.push(Shown { line: at + 1, command, exit }),
                Some("") => return Err(format!("line {}: not a block of `sh`: {command}", at + 1)),
                None if is_indented => {
                    return Err(format!("line {}: not a block of `sh`: {command}", at + 1));
                }
                // Output and other languages, and a sentence that begins with the name.
                _ => {}
            }
        }
    }
    Ok(shown)
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-r").args([from, to]).status().unwrap();
    assert!(copied.success());
}

#[test]
fn every_command_of_readme_and_docs_runs() {
    let demo = Sandbox::new();
    demo.ok("demo --out demo --quiet");
    let mut failures = String::new();
    for (name, page) in pages() {
        let commands = commands(&page).unwrap_or_else(|e| panic!("{name}: {e}"));
        if commands.is_empty() {
            continue;
        }
        let sandbox = Sandbox::new();
        if !commands.iter().any(|shown| shown.command.starts_with("veridical demo")) {
            copy(&demo.path("demo"), &sandbox.path("demo"));
        }
        for Shown { line, command, exit } in commands {
            let outcome = sandbox.shell(&command);
            if outcome.code != Some(exit) {
                failures += &format!("{name}:{line}: {command}\n{outcome:?}\n\n");
            }
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

#[test]
fn commands_are_found_in_blocks_and_unmarked_ones_are_refused() {
    let page = "\
<!-- setup: veridical a -->
```sh
veridical b --x \\
    y   # why
pip install z
```
<!-- not run: needs MNIST -->
```sh
veridical c
```
<!-- exit: 1 -->
```sh
veridical d
```
veridical e is a sentence
```sh
veridical f
```
";
    let found = commands(page).unwrap();
    let found: Vec<_> = found.iter().map(|s| (s.line, s.command.as_str(), s.exit)).collect();
    assert_eq!(
        found,
        [
            (1, "veridical a", 0),
            (3, "veridical b --x  y", 0),
            (13, "veridical d", 1),
            (17, "veridical f", 0)
        ]
    );
    for page in ["    veridical a\n", "```\nveridical a\n```\n"] {
        let error = commands(page).unwrap_err();
        assert!(error.ends_with("not a block of `sh`: veridical a"), "{error}");
    }
    assert!(commands("<!-- not run -->\n<!-- nor this: x -->\n").is_err());
}

/// Words that a reader of the field would have to translate, and British spelling.
const BANNED: &[&str] = &[
    "judge",
    "judging",
    "judgement",
    "kept back",
    "told apart",
    "tells apart",
    "tell apart",
    "learnt",
    "is no number",
    "who did what",
    "neighbour",
    "optimise",
    "optimising",
    "optimisation",
    "normalis",
    "colour",
    "centre",
    "labelled",
    "behaviour",
    "favour",
    "initialis",
    "generalis",
    "standardis",
    "regularis",
    "factoris",
    "randomis",
    "minimis",
    "maximis",
    "featuris",
    "tokenis",
    "parameteris",
    "stabilis",
    "serialis",
    "summaris",
    "recognis",
    "analyse",
    "catalogue",
    "licence",
    "artefact",
    "grey",
    "whilst",
    "modelling",
    "cancelled",
];

/// The banned words in a text, each with its line.
fn banned(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let lower = line.to_lowercase();
        let is_word = |word: &str| {
            lower
                .match_indices(word)
                .any(|(start, _)| !lower[..start].ends_with(|c: char| c.is_alphanumeric()))
        };
        let words = BANNED.iter().filter(|word| is_word(word));
        found.extend(words.map(|word| format!("line {}: `{word}` in: {}", at + 1, line.trim())));
    }
    found
}

#[test]
fn banned_words_are_found_whole_and_in_any_case() {
    assert_eq!(banned("Fine.\nNearest Neighbours"), ["line 2: `neighbour` in: Nearest Neighbours"]);
    assert_eq!(banned("optimistic prejudges"), [""; 0]);
}

#[test]
fn docs_use_the_words_of_the_field() {
    let mut pages = pages();
    for name in ["ARCHITECTURE.md", "CONTRIBUTING.md", "DESIGN.md"] {
        pages.push((name.to_owned(), fs::read_to_string(root().join(name)).unwrap()));
    }
    for folder in ["crates", "experiments", "benches"] {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            for page in ["README.md", "RESULTS.md"] {
                let path = entry.as_ref().unwrap().path().join(page);
                if let Ok(text) = fs::read_to_string(&path) {
                    pages.push((path.display().to_string(), text));
                }
            }
        }
    }
    let found: Vec<String> = pages
        .iter()
        .flat_map(|(name, text)| banned(text).into_iter().map(move |f| format!("{name}: {f}")))
        .collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn help_uses_the_words_of_the_field() {
    let sandbox = Sandbox::new();
    sandbox.ok("man --out man --quiet");
    let mut found = Vec::new();
    for page in fs::read_dir(sandbox.path("man")).unwrap() {
        let page = page.unwrap();
        let name = page.file_name();
        let text = fs::read_to_string(page.path()).unwrap();
        found.extend(banned(&text).into_iter().map(|f| format!("{}: {f}", name.display())));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}
