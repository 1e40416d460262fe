//! The first page of help: the verbs under the product's five words.

use std::fmt::Write as _;

use clap::CommandFactory;

use crate::args::Cli;

/// Verbs by heading; a test holds this against the subcommands there are.
pub const GROUPS: [(&str, &[&str]); 5] = [
    ("Train", &["train", "tune", "evaluate", "recommend", "similar", "predict", "refit-head"]),
    ("Measure", &["stability"]),
    ("Stabilize", &["align", "featurize", "refresh"]),
    ("Explain", &["explain", "kernel", "forensics"]),
    ("Tools", &["data", "vectors", "demo", "reproduce", "completions", "man"]),
];

/// The command with its grouped page of help.
pub fn command() -> clap::Command {
    let command = Cli::command();
    let mut verbs = String::new();
    for (heading, names) in GROUPS {
        let _ = writeln!(verbs, "{heading}:"); // writing to a String cannot fail
        for name in names {
            // A build without experiments has no `reproduce`.
            let Some(verb) = command.find_subcommand(name) else { continue };
            let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(verbs, "  {name:<11} {about}");
        }
        verbs.push('\n');
    }
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{verbs}Options:\n{{options}}{{after-help}}"
    );
    flowing(command.help_template(template))
}

/// Joins the lines of each paragraph of the long descriptions, so that they wrap at the width of the terminal alone, and breaks
/// long examples as a shell reads them, so that they do not wrap at all.
fn flowing(command: clap::Command) -> clap::Command {
    let command = match command.get_long_about().map(ToString::to_string) {
        None => command,
        Some(about) => {
            let joined: Vec<String> = about.split("\n\n").map(joined).collect();
            command.long_about(joined.join("\n\n"))
        }
    };
    let command = match command.get_after_help().map(ToString::to_string) {
        None => command,
        Some(text) => command.after_help(broken(&text)),
    };
    command.mut_subcommands(flowing)
}

/// A paragraph as one line; lists and tables keep their lines. A line that begins with a flag is prose.
fn joined(paragraph: &str) -> String {
    let is_item = |line: &str| [" ", "- ", "* "].iter().any(|sign| line.starts_with(sign));
    match paragraph.lines().any(is_item) {
        true => paragraph.to_owned(),
        false => paragraph.lines().collect::<Vec<_>>().join(" "),
    }
}

/// The width of the narrowest usual terminal.
const NARROW: usize = 80;

/// Breaks commands that a narrow terminal would wrap: `\` ends a line, and the next begins further right, with a flag if
/// possible. Prose flows as in descriptions.
fn broken(text: &str) -> String {
    let whole = text.replace("\\\n", "");
    let paragraph = |text: &str| {
        let lines: Vec<String> = joined(text).lines().map(broken_line).collect();
        lines.join("\n")
    };
    let paragraphs: Vec<String> = whole.split("\n\n").map(paragraph).collect();
    paragraphs.join("\n\n")
}

fn broken_line(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let whole = format!("  {}", words.join(" "));
    if !line.starts_with("  veridical ") {
        return line.to_owned();
    }
    if whole.len() <= NARROW {
        return whole;
    }
    // A flag stays with its value.
    let mut pieces: Vec<String> = Vec::new();
    for word in words {
        match pieces.last_mut() {
            Some(last)
                if last.starts_with('-') && !last.contains(' ') && !word.starts_with('-') =>
            {
                *last += &format!(" {word}");
            }
            _ => pieces.push(word.to_owned()),
        }
    }
    let mut lines = vec![String::from(" ")];
    for piece in pieces {
        // INVARIANT: there is a first line.
        let room = NARROW - " \\".len();
        match lines.last_mut() {
            Some(last) if last.len() + 1 + piece.len() <= room => *last += &format!(" {piece}"),
            _ => lines.push(format!("      {piece}")),
        }
    }
    lines.join(" \\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_stands_under_a_heading() {
        let command = Cli::command();
        let mut verbs: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        let mut grouped: Vec<&str> =
            GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        grouped.retain(|name| cfg!(feature = "experiments") || *name != "reproduce");
        verbs.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(verbs, grouped);
        command.debug_assert();
    }

    #[test]
    fn paragraphs_flow_and_lists_keep_their_lines() {
        assert_eq!(joined("one\ntwo"), "one two");
        assert_eq!(joined("one\n  two  2"), "one\n  two  2");
        assert_eq!(joined("one\n- two"), "one\n- two");
        assert_eq!(joined("pass\n--two to it"), "pass --two to it");
    }

    #[test]
    fn long_examples_are_broken_as_a_shell_reads_them() {
        let long = "  veridical align --reference a.parquet b.parquet --out b-aligned.parquet --map map.safetensors";
        let want = "  veridical align --reference a.parquet b.parquet --out b-aligned.parquet \\\n      --map map.safetensors";
        assert_eq!(broken(long), want);
        assert_eq!(broken(want), want);
        assert_eq!(
            broken("Examples:\n  veridical demo\n\nExit"),
            "Examples:\n  veridical demo\n\nExit"
        );
    }

    /// Descriptions are prose in one paragraph each: a line breaks only where the next word does not fit.
    #[test]
    fn long_help_is_wrapped_once_at_the_width_of_the_terminal() {
        fn check(command: &mut clap::Command, width: usize, wrong: &mut Vec<String>) {
            *command = command.clone().term_width(width);
            let page = command.render_long_help().to_string();
            let lines: Vec<&str> = page.lines().collect();
            let name = command.get_bin_name().unwrap_or(command.get_name()).to_owned();
            for line in lines.iter().filter(|line| !line.contains("Usage: ")) {
                if line.chars().count() > width {
                    wrong.push(format!("{name} at {width}, too wide: {line}"));
                }
            }
            for pair in lines.windows(2) {
                let word = pair[1].split(' ').next().unwrap_or_default();
                let is_prose = |line: &str| !line.is_empty() && !line.starts_with(' ');
                let fits = pair[0].chars().count() + 1 + word.chars().count() <= width;
                if is_prose(pair[0]) && is_prose(pair[1]) && fits {
                    wrong.push(format!("{name} at {width}, broken early: {}", pair[0]));
                }
            }
            command.get_subcommands_mut().for_each(|verb| check(verb, width, wrong));
        }
        for width in [80, 100, 120] {
            let mut command = command();
            command.build();
            let mut wrong = Vec::new();
            check(&mut command, width, &mut wrong);
            assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        }
    }

    /// `-h` of every verb, with its number of lines.
    fn short(command: &mut clap::Command, found: &mut Vec<(String, usize)>) {
        let lines = command.render_help().to_string().lines().count();
        found.push((command.get_bin_name().unwrap_or(command.get_name()).to_owned(), lines));
        command.get_subcommands_mut().for_each(|verb| short(verb, found));
    }

    #[test]
    fn short_help_of_every_verb_fits_sixty_lines() {
        let mut command = command();
        command.build();
        let mut found = Vec::new();
        short(&mut command, &mut found);
        found.retain(|(_, lines)| *lines > 60);
        assert!(found.is_empty(), "{found:?}");
    }
}
