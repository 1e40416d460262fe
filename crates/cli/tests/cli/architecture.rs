//! The rules of ARCHITECTURE.md that can be checked on the sources.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Crates that compute on values and see no path, no flag, no terminal and no signal.
const IN_MEMORY: [&str; 10] =
    ["core", "data", "embed", "features", "inspect", "kernels", "learn", "nets", "report", "text"];
/// Crates between them and the command line: they see paths, but their errors name no flag.
const BELOW_CLI: [&str; 3] = ["io", "veridical", "experiments"];
/// Texts that are commands to type, not errors: those of the demo, of pages, and the rendering of flags.
const COMMANDS: [&str; 4] = [
    "veridical/src/error.rs",
    "veridical/src/demo.rs",
    "veridical/src/stability/page.rs",
    "veridical/src/featurize/check/page.rs",
];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The Rust files of a crate without its tests.
fn sources(name: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut waiting = vec![crates().join(name).join("src")];
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(&folder).unwrap().flatten() {
            let path = entry.path();
            let file = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                waiting.push(path);
            } else if file.ends_with(".rs") && !file.contains("test") {
                let text = fs::read_to_string(&path).unwrap();
                let code = text.split("#[cfg(test)]\nmod ").next().unwrap().to_owned();
                let shown = path.strip_prefix(crates()).unwrap().display().to_string();
                found.push((shown, code));
            }
        }
    }
    assert!(!found.is_empty(), "{name} has no sources");
    found
}

/// Returns every line without its comments and, separately, every string literal with the line it starts on.
fn parse(text: &str) -> (Vec<String>, Vec<(usize, String)>) {
    let (mut lines, mut literals) = (vec![String::new()], Vec::new());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\n' => lines.push(String::new()),
            '/' if rest.peek() == Some(&'/') => while rest.next_if(|&c| c != '\n').is_some() {},
            '\'' => {
                // A character, or a lifetime: a character ends within three places.
                let ahead: String = rest.clone().take(3).collect();
                if ahead.starts_with("\"'") || ahead.starts_with("\\") {
                    rest.nth(ahead.find('\'').unwrap_or(2));
                }
            }
            '"' => {
                let (begun, mut literal) = (lines.len(), String::new());
                while let Some(c) = rest.next().filter(|&c| c != '"') {
                    if c == '\n' {
                        lines.push(String::new());
                    }
                    literal.push(c);
                    if c == '\\' {
                        literal.extend(rest.next());
                    }
                }
                literals.push((begun, literal));
            }
            other => lines.last_mut().unwrap().push(other),
        }
    }
    (lines, literals)
}

/// Returns whether a text contains something like `--flag` or `--{name}`.
fn names_a_flag(text: &str) -> bool {
    let mut flags = text.match_indices("--").map(|(at, _)| text[at + 2..].chars().next());
    flags.any(|next| next.is_some_and(|next| next.is_ascii_lowercase() || next == '{'))
}

/// Returns where a crate names flags in its texts.
fn flags_in(file: &str, text: &str) -> Vec<String> {
    let named = parse(text).1.into_iter().filter(|(_, literal)| names_a_flag(literal));
    named.map(|(line, literal)| format!("{file}:{line}: {literal}")).collect()
}

#[test]
fn flags_are_found_in_literals_of_any_length() {
    let text = "let a = \"x\"; // \"--no\"\nlet c = '\"';\nerror(\"one \\\n two --lr\");";
    assert_eq!(flags_in("f", text).len(), 1);
    assert!(flags_in("f", "let b = \"a -- b\"; i -= 1;").is_empty());
}

#[test]
fn computing_crates_see_no_path_flag_terminal_or_signal() {
    let forbidden = ["std::path", "std::fs", "indicatif", "signal_hook", "std::io::stdout"];
    let mut broken = Vec::new();
    for (file, text) in IN_MEMORY.iter().flat_map(|name| sources(name)) {
        broken.extend(flags_in(&file, &text));
        for (number, line) in parse(&text).0.iter().enumerate() {
            if forbidden.iter().any(|word| line.contains(word)) {
                broken.push(format!("{file}:{}: {line}", number + 1));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn no_error_below_the_command_line_names_a_flag() {
    let mut broken = Vec::new();
    for (file, text) in BELOW_CLI.iter().flat_map(|name| sources(name)) {
        if !COMMANDS.contains(&file.as_str()) {
            broken.extend(flags_in(&file, &text));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn computing_crates_need_no_network_compression_or_parquet() {
    // Packages of other platforms are downloaded by nobody.
    let version = std::process::Command::new("rustc").arg("-vV").output().unwrap();
    let version = String::from_utf8(version.stdout).unwrap();
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    let output = std::process::Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--offline", "--filter-platform", host])
        .arg("--manifest-path")
        .arg(crates().join("../Cargo.toml"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let names: BTreeMap<String, String> = metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|package| (text(&package["id"]), text(&package["name"])))
        .collect();
    let needs: BTreeMap<String, Vec<String>> = metadata["resolve"]["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| {
            let is_normal = |dep: &&Value| {
                dep["dep_kinds"].as_array().unwrap().iter().any(|kind| kind["kind"].is_null())
            };
            let deps = node["deps"].as_array().unwrap().iter().filter(is_normal);
            (text(&node["id"]), deps.map(|dep| text(&dep["pkg"])).collect())
        })
        .collect();
    let all_of = |root: &str| {
        let id = names.iter().find(|(_, name)| *name == root).map(|(id, _)| id.clone()).unwrap();
        let (mut seen, mut waiting) = (BTreeSet::new(), vec![id]);
        while let Some(id) = waiting.pop() {
            if seen.insert(names[&id].clone()) {
                waiting.extend(needs[&id].iter().cloned());
            }
        }
        seen
    };
    let foreign = [
        "object_store",
        "reqwest",
        "rustls",
        "hyper",
        "tokio",
        "parquet",
        "flate2",
        "zstd",
        "liblzma",
        "brotli",
        "snap",
        "lz4_flex",
        "indicatif",
        "signal-hook",
    ];
    for name in ["core", "data", "embed", "features", "inspect", "learn", "nets", "report", "text"]
    {
        let needed = all_of(&format!("veridical-{name}"));
        let found: Vec<_> = foreign.iter().filter(|crate_| needed.contains(**crate_)).collect();
        assert!(found.is_empty(), "veridical-{name} needs {found:?}");
    }
    assert!(all_of("veridical-io").contains("parquet"), "the test looks at the right graph");
}
