//! Fuzzes for a while, or replays one file.
//!
//! Inputs that break something are saved to `target/fuzz/`; add them to the corpus with the fix.
//! If the process dies without a message, the last input is in the temporary folder, in
//! `veridical-fuzz-*`.

use std::alloc::System;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use cap::Cap;
use clap::Parser;
use veridical_core::Seed;
use veridical_fuzz::driver::{self, Budget};
use veridical_fuzz::{TARGETS, Target};

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// Runs every reader and the spec parser on damaged input.
#[derive(Parser)]
struct Arguments {
    /// Seconds for all targets together
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Seed of the mutations
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Run this file alone, on one target
    #[arg(long, value_name = "FILE", requires = "targets")]
    replay: Option<PathBuf>,
    /// Targets to run; all by default
    #[arg(value_name = "TARGET", value_parser = TARGETS.iter().map(|t| t.name).collect::<Vec<_>>())]
    targets: Vec<String>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mut targets: Vec<&Target> =
        arguments.targets.iter().filter_map(|name| Target::find(name)).collect();
    if let Some(path) = arguments.replay {
        let bytes = fs::read(&path).expect("the file to replay can be read");
        println!("{}", targets[0].run(&bytes, false));
        return ExitCode::SUCCESS;
    }
    if targets.is_empty() {
        targets = TARGETS.iter().collect();
    }
    let seed = Seed::new(arguments.seed).expect("a seed is below 2^53");
    let time = Duration::from_secs(arguments.seconds) / targets.len() as u32;
    let mut failed = false;
    println!(
        "{:<16}{:>10}{:>10}{:>10}{:>12}",
        "target", "inputs", "accepted", "outcomes", "slowest"
    );
    for target in targets {
        match driver::run(target, seed, Budget::Time(time), || ALLOCATOR.max_allocated()) {
            Ok(seen) => println!(
                "{:<16}{:>10}{:>10}{:>10}{:>9} ms",
                target.name,
                seen.inputs,
                seen.accepted,
                seen.outcomes.len(),
                seen.slowest.as_millis()
            ),
            Err(failure) => {
                failed = true;
                fs::create_dir_all("target/fuzz").expect("target/fuzz can be created");
                let path = format!("target/fuzz/{}-{}", target.name, arguments.seed);
                fs::write(&path, &failure.bytes).expect("the input can be saved");
                println!("{}\n    saved to {path}", failure.what);
            }
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
