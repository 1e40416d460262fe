//! `veridical completions SHELL`

use clap::Args;
use clap_complete::Shell;
use serde_json::json;
use veridical::Result;

use crate::help;
use crate::terminal::Terminal;

pub const ABOUT: &str = "\
Print a completion script for verbs and flags.

The script is generated from the flags of this version: regenerate it after an update.";

const EXAMPLES: &str = "\
Examples:
  veridical completions bash > ~/.local/share/bash-completion/completions/veridical
  veridical completions zsh > ~/.zfunc/_veridical
  veridical completions fish > ~/.config/fish/completions/veridical.fish

zsh needs ~/.zfunc in `fpath` before `compinit`; the other shells find the file by themselves.";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Command {
    /// Shell to generate the script for
    #[arg(value_enum)]
    shell: Shell,
}

impl Command {
    pub fn run(self, terminal: &Terminal) -> Result<()> {
        let script = script(self.shell);
        let result = json!({ "shell": self.shell.to_string(), "script": script });
        terminal.result("completions", &result, &script)
    }
}

fn script(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut help::command(), "veridical", &mut script);
    // INVARIANT: the names and help texts of the command are valid UTF-8.
    String::from_utf8(script).expect("a completion script is UTF-8")
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    fn check(script: &str, shell: Shell, command: &clap::Command) {
        let has = |word: &str| assert!(script.contains(word), "{shell}: `{word}` is missing");
        has(command.get_name());
        command.get_arguments().filter_map(clap::Arg::get_long).for_each(has);
        command.get_subcommands().for_each(|verb| check(script, shell, verb));
    }

    #[test]
    fn every_verb_and_flag_is_completed_in_every_shell() {
        let mut command = help::command();
        command.build();
        for shell in Shell::value_variants() {
            check(&script(*shell), *shell, &command);
        }
    }
}
