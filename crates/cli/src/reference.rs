//! `docs/reference.md`: every verb and flag, generated from the one definition that help and man pages come from.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use clap::{Arg, Command};

use crate::help;

const HEADER: &str = "\
# Reference: verbs and flags

Generated from the code (`UPDATE_GOLDEN=1 cargo test -p veridical-cli reference`); `veridical VERB --help` prints the same with examples.
Exit codes: 0 done, 1 a gate failed, 2 bad input or usage, 3 a bug, 130 interrupted (resumable).

Every verb takes `--threads N`, `--quiet`, `--json` and, except `man` and `completions`, `--config FILE`: a TOML file with the names of
flags; flags on the command line take precedence.
";

/// Flags that the header describes.
const COMMON: [&str; 6] = ["help", "version", "threads", "quiet", "json", crate::flags::CONFIG];

/// Renders the page.
fn reference() -> String {
    let mut command = help::command().disable_help_subcommand(true);
    command.build();
    let mut text = HEADER.to_owned();
    for (heading, verbs) in help::GROUPS {
        let _ = writeln!(text, "\n## {heading}"); // writing to a String cannot fail, here and below
        for verb in verbs.iter().filter_map(|verb| command.find_subcommand(verb)) {
            describe(verb, &mut text);
        }
    }
    text
}

/// Describes a verb and the verbs below it.
fn describe(command: &Command, text: &mut String) {
    let name = command.get_bin_name().unwrap_or(command.get_name()).to_owned();
    let about = command.get_long_about().or(command.get_about());
    let about = about.map(ToString::to_string).unwrap_or_default();
    let _ = write!(text, "\n### {name}\n\n{}\n", escaped(&about));
    let below: Vec<&Command> = command.get_subcommands().collect();
    let is_method = |command: &Command| own(command).len() > 12;
    let methods: Vec<&Command> = match below.len() > 3 {
        true => below.iter().copied().filter(|sub| is_method(sub)).collect(),
        false => Vec::new(),
    };
    table(&own(command), "", text);
    let shared = shared(&methods);
    let is_shared = |argument: &&Arg| shared.contains(argument.get_id().as_str());
    let mut described = BTreeSet::new();
    let is_new = |argument: &&Arg| described.insert(argument.get_id().to_string());
    let all = methods.iter().flat_map(|method| own(method)).filter(is_shared).filter(is_new);
    let all: Vec<&Arg> = all.collect();
    let names: Vec<&str> = methods.iter().map(|method| method.get_name()).collect();
    let intro = "Flags that most of the following have; each lists those it does not take:";
    table(&all, intro, text);
    for sub in below {
        if !names.contains(&sub.get_name()) {
            describe(sub, text);
            continue;
        }
        let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
        let name = sub.get_bin_name().unwrap_or(sub.get_name());
        let _ = write!(text, "\n#### {name}\n\n{}\n", escaped(&about));
        let taken: BTreeSet<&str> = own(sub).iter().map(|a| a.get_id().as_str()).collect();
        let missing: Vec<String> = shared.difference(&taken).map(|n| format!("`--{n}`")).collect();
        if !missing.is_empty() {
            let _ = write!(text, "\nDoes not take {}.\n", missing.join(", "));
        }
        let unique: Vec<&Arg> = own(sub).into_iter().filter(|a| !is_shared(a)).collect();
        table(&unique, "", text);
    }
}

/// The flags of a verb, without those of every verb and those that its help hides.
fn own(command: &Command) -> Vec<&Arg> {
    let is_own =
        |argument: &&Arg| !COMMON.contains(&argument.get_id().as_str()) && !argument.is_hide_set();
    command.get_arguments().filter(is_own).collect()
}

/// Names of the flags that at least half of these verbs have with the same help.
fn shared<'a>(commands: &[&'a Command]) -> BTreeSet<&'a str> {
    let mut counts: BTreeMap<(&str, String), usize> = BTreeMap::new();
    for command in commands {
        for argument in own(command) {
            *counts.entry((argument.get_id().as_str(), help_of(argument))).or_default() += 1;
        }
    }
    let of_most = |n: usize| 2 * n >= commands.len();
    counts.into_iter().filter(|(_, n)| of_most(*n)).map(|((name, _), _)| name).collect()
}

fn table(arguments: &[&Arg], intro: &str, text: &mut String) {
    if arguments.is_empty() {
        return;
    }
    if !intro.is_empty() {
        let _ = write!(text, "\n{intro}\n");
    }
    let _ = write!(text, "\n| flag | meaning |\n|---|---|\n");
    for argument in arguments {
        let _ = writeln!(text, "| `{}` | {} |", written(argument), help_of(argument));
    }
}

/// How an argument is written, with the name of its value.
fn written(argument: &Arg) -> String {
    let takes_value = argument.get_action().takes_values();
    let value = argument.get_value_names().filter(|_| takes_value).and_then(<[_]>::first);
    let value = value.map(ToString::to_string).unwrap_or_default();
    match argument.get_long() {
        None => value,
        Some(long) => format!("--{long} {}", value.replace('|', "\\|")).trim().to_owned(),
    }
}

fn help_of(argument: &Arg) -> String {
    let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
    let names: Vec<String> = match argument.is_hide_possible_values_set() {
        true => Vec::new(),
        false => argument
            .get_possible_values()
            .iter()
            .map(|value| match value.get_help() {
                Some(help) => format!("`{}` ({help})", value.get_name()),
                None => format!("`{}`", value.get_name()),
            })
            .collect(),
    };
    match names.is_empty() || !argument.get_action().takes_values() {
        true => escaped(&help),
        false => format!("{}: {}", escaped(&help), escaped(&names.join(", "))),
    }
}

/// Text inside Markdown: signs that would be markup are plain.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;").replace('*', "\\*")
}

/// `UPDATE_GOLDEN=1` writes the page.
#[cfg(feature = "experiments")]
#[test]
fn the_committed_reference_is_what_the_code_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference.md");
    let reference = reference();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, &reference).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap();
    assert!(committed == reference, "run again with UPDATE_GOLDEN=1 and read the diff");
}

#[test]
fn a_flag_is_described_once_for_methods_that_share_it() {
    let reference = reference();
    let rows = |flag: &str| reference.matches(&format!("| `{flag}")).count();
    assert_eq!(rows("--sse-graph-item FILE"), 2, "train and tune");
    assert!(reference.contains("\n#### veridical train bpr\n"));
}
