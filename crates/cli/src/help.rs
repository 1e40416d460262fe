//! The first page of help: the verbs under the product's five words.

use std::fmt::Write as _;

use clap::CommandFactory;

use crate::args::Cli;

/// Verbs by heading; a test holds this against the subcommands there are.
pub const GROUPS: [(&str, &[&str]); 4] = [
    ("Train", &["train", "tune", "evaluate", "recommend", "similar", "predict", "refit-head"]),
    ("Measure", &["stability"]),
    ("Stabilize", &["align", "featurize", "refresh"]),
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

/// Joins the lines of each paragraph of the long descriptions, so that they wrap at the width of the terminal alone.
fn flowing(command: clap::Command) -> clap::Command {
    let command = match command.get_long_about().map(ToString::to_string) {
        None => command,
        Some(about) => {
            let joined: Vec<String> = about.split("\n\n").map(joined).collect();
            command.long_about(joined.join("\n\n"))
        }
    };
    command.mut_subcommands(flowing)
}

/// A paragraph as one line; lists and tables keep their lines.
fn joined(paragraph: &str) -> String {
    match paragraph.lines().any(|line| line.starts_with([' ', '-', '*'])) {
        true => paragraph.to_owned(),
        false => paragraph.lines().collect::<Vec<_>>().join(" "),
    }
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
