//! `veridical man [VERB...] [--out FOLDER]`

use std::fs;
use std::path::PathBuf;

use clap::Args;
use clap_mangen::Man;
use serde_json::json;
use veridical::core::Observer;
use veridical::io::publish;
use veridical::{Error, Result};

use crate::help;
use crate::terminal::Terminal;

const EXAMPLES: &str = "\
Examples:
  veridical man | man -l -
  veridical man featurize apply | man -l -
  veridical man --out ~/.local/share/man/man1

Existing pages in the folder are replaced.";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Command {
    /// Verb to print the page of [default: the main page]
    #[arg(value_name = "VERB")]
    verb: Vec<String>,
    /// Folder to write all pages to, one per verb
    #[arg(long, value_name = "FOLDER", conflicts_with = "verb")]
    out: Option<PathBuf>,
}

impl Command {
    pub fn run(self, terminal: &Terminal) -> Result<()> {
        let pages = pages();
        let Some(out) = self.out else {
            let page = find(&pages, &self.verb)?;
            let result = json!({ "page": page.name, "text": page.text });
            return terminal.result("man", &result, &page.text);
        };
        fs::create_dir_all(&out).map_err(|e| {
            Error::request(format!("{}: cannot create the folder: {e}", out.display()), "")
        })?;
        let mut written = Vec::new();
        for page in &pages {
            let path = out.join(format!("{}.1", page.name));
            publish::put(&path, page.text.as_bytes())?;
            written.push(path.display().to_string());
        }
        terminal.note(&format!("wrote {} pages to {}", written.len(), out.display()));
        let list = written.iter().map(|path| format!("{path}\n")).collect::<String>();
        terminal.result("man", &json!({ "pages": written }), &list)
    }
}

struct Page {
    /// `veridical-featurize-apply`
    name: String,
    text: String,
}

/// Renders the page of veridical and, after it, one page for every verb.
fn pages() -> Vec<Page> {
    let mut command = help::command().disable_help_subcommand(true);
    command.build();
    let mut waiting = vec![command];
    let mut pages = Vec::new();
    while let Some(command) = waiting.pop() {
        waiting.extend(command.get_subcommands().cloned());
        let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
        let mut text = Vec::new();
        let man = Man::new(command)
            .source(concat!("veridical ", env!("CARGO_PKG_VERSION")))
            .manual("Veridical");
        // INVARIANT: writing to a Vec cannot fail, and the help texts of a command are valid UTF-8.
        man.render(&mut text).expect("writing to memory cannot fail");
        let text = String::from_utf8(text).expect("a man page is UTF-8");
        pages.push(Page { name, text });
    }
    pages.sort_by(|a, b| a.name.cmp(&b.name));
    pages
}

fn find<'a>(pages: &'a [Page], verb: &[String]) -> Result<&'a Page> {
    let name = ["veridical"].into_iter().chain(verb.iter().map(String::as_str));
    let name = name.collect::<Vec<_>>().join("-");
    pages.iter().find(|page| page.name == name).ok_or_else(|| {
        let verb = verb.join(" ");
        Error::missing(format!("unknown verb `{verb}`"), "`veridical --help` lists the verbs")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(command: &clap::Command, pages: &[Page], seen: &mut usize) {
        let name = command.get_display_name().unwrap_or(command.get_name());
        let page = pages.iter().find(|page| page.name == name);
        let text = &page.unwrap_or_else(|| panic!("{name} has no page")).text;
        let shown = command.get_arguments().filter(|argument| !argument.is_hide_set());
        for flag in shown.filter_map(clap::Arg::get_long) {
            let written = format!("\\-\\-{}", flag.replace('-', "\\-"));
            assert!(text.contains(&written), "{name}: --{flag} is missing");
        }
        *seen += 1;
        command.get_subcommands().for_each(|verb| check(verb, pages, seen));
    }

    #[test]
    fn every_verb_has_a_page_with_all_its_flags() {
        let mut command = help::command().disable_help_subcommand(true);
        command.build();
        let (pages, mut seen) = (pages(), 0);
        check(&command, &pages, &mut seen);
        assert_eq!(pages.len(), seen);
    }
}
