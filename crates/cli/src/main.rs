//! The `veridical` command: arguments in, results on stdout, everything else on stderr.

mod args;
mod bar;
mod commands;
mod flags;
mod help;
mod methods;
#[cfg(test)]
mod reference;
mod signals;
mod terminal;
mod typed;

use std::process::ExitCode;

use clap::FromArgMatches;
use veridical::core::exit::Exit;
use veridical::core::threads;

use crate::args::Cli;
use crate::terminal::{Terminal, put_error, say};

// Tables are allocated and freed in megabytes: with glibc's allocator each of them costs page faults.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    std::panic::set_hook(Box::new(report_bug));
    let matches = help::command().try_get_matches().unwrap_or_else(|e| refuse(&e));
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|e| refuse(&e));
    let cancel = match signals::listen() {
        Ok(cancel) => cancel,
        Err(error) => {
            say(&format!("veridical: error: {error}"));
            return ExitCode::from(Exit::BadInput.code());
        }
    };
    let terminal = Terminal::new(cli.common.quiet, cli.common.json, cancel);
    let outcome = threads::with_threads(cli.common.threads, || cli.command.run(&terminal));
    let outcome = outcome.unwrap_or_else(|e| Err(e.into()));
    let exit = match outcome {
        Ok(()) => Exit::Ok,
        Err(error) if is_closed_pipe(&error) => Exit::Ok,
        Err(error) => {
            terminal.error(&error);
            error.exit()
        }
    };
    ExitCode::from(exit.code())
}

/// Prints help, or what is wrong with the command line; for programs as a document, too.
fn refuse(error: &clap::Error) -> ! {
    let wants_json = std::env::args_os().any(|word| word == "--json");
    if wants_json && error.exit_code() == i32::from(Exit::BadInput.code()) {
        let text = error.render().to_string();
        let line = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
        put_error(line, "usage", Exit::BadInput);
    }
    error.exit()
}

/// A reader such as `head` closes the pipe when it has enough: that is not an error.
fn is_closed_pipe(error: &veridical::Error) -> bool {
    matches!(error, veridical::Error::Io(e) if e.is_closed_pipe())
}

/// Reports a panic as a bug and exits with code 3.
fn report_bug(panic: &std::panic::PanicHookInfo<'_>) {
    let version = env!("CARGO_PKG_VERSION");
    say(&format!("veridical: this is a bug: {panic}"));
    say(&format!("veridical: please report it with the command you ran and the version {version}"));
    std::process::exit(i32::from(Exit::Bug.code()));
}
