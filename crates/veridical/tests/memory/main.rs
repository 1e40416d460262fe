//! The memory of a comparison and of recommendations does not grow with the rows of their tables, and that of an evaluation stays
//! below its limit.
//!
//! An allocator counts what is held at the same time; what is measured runs in a process of its own, so that nothing else is counted.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::alloc::System;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use cap::Cap;
use veridical::align::{Align, align};
use veridical::core::settings::SettingsLayer;
use veridical::core::{Job, Seed};
use veridical::data::{Ids, VectorTable, generate};
use veridical::embed::Method;
use veridical::evaluate::{Evaluate, evaluate};
use veridical::io::Replace;
use veridical::prepare::{Generate, GeneratedKind, TablesOutput};
use veridical::recommend::{Recommend, recommend};
use veridical::settings::{MemoryLimit, RunOutput, Start};
use veridical::stability::{Stability, stability};
use veridical::train::{Request, Train, train};

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// The folder of the tables to compare and the verb that does, for the process that compares them.
const TABLES: &str = "VERIDICAL_COMPARED_TABLES";
const VERB: &str = "VERIDICAL_COMPARING_VERB";
const DIM: usize = 16;

/// Compares and prints the peak; does nothing when it is run as a test.
#[test]
fn the_comparison_in_a_process_of_its_own() {
    let Some(folder) = std::env::var_os(TABLES) else { return };
    let at = |name: &str| Path::new(&folder).join(name);
    let (a, b) = (at("a.parquet"), at("b.parquet"));
    let job = &Job::silent();
    match std::env::var(VERB).unwrap().as_str() {
        "stability" => {
            let tables = vec![a.into(), b.into()];
            stability(&Stability { tables, ..Stability::default() }, job).unwrap();
        }
        "align" => {
            let (reference, tables) = (a.into(), vec![b.into()]);
            let out = at("aligned.parquet").into();
            align(
                &Align { reference: Some(reference), tables, out: Some(out), ..Align::default() },
                job,
            )
            .unwrap();
        }
        verb => unreachable!("{verb}"),
    }
    println!("peak={}", ALLOCATOR.max_allocated());
}

/// The peak in bytes, and what is written to the folder beforehand.
fn peak(n: usize, verb: &str, shuffled: bool) -> f64 {
    let folder = tempfile::tempdir().unwrap();
    let a = generate::clusters(n, DIM, 10, Seed::new(0).unwrap());
    let a = VectorTable { ids: Ids::numbered(0, n), ..a };
    let mut b = generate::rotated(&a, Seed::new(1).unwrap());
    if shuffled {
        let places: Vec<u32> = (0..n as u64).map(|i| (i * 7919 % n as u64) as u32).collect();
        b.ids = b.ids.take(&places);
        b.vectors = places.iter().flat_map(|&at| b.row(at as usize).to_vec()).collect();
    }
    veridical::io::write_table(&a, &folder.path().join("a.parquet")).unwrap();
    veridical::io::write_table(&b, &folder.path().join("b.parquet")).unwrap();
    drop((a, b));
    let test = "the_comparison_in_a_process_of_its_own";
    let variables = [(TABLES, folder.path().as_os_str()), (VERB, OsStr::new(verb))];
    said("peak", &alone(test, &variables)).parse().unwrap()
}

/// What a test prints in a process of its own.
fn alone(test: &str, variables: &[(&str, &OsStr)]) -> String {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout).into_owned();
    assert!(child.status.success(), "{said}{}", String::from_utf8_lossy(&child.stderr));
    said
}

/// The value after `name=`.
fn said<'a>(name: &str, text: &'a str) -> &'a str {
    let value =
        text.lines().find_map(|line| line.split_once(&format!("{name}="))?.1.split(' ').next());
    value.unwrap_or_else(|| panic!("no {name} in: {text}"))
}

#[test]
fn a_million_rows_take_the_memory_of_a_quarter_million() {
    for (verb, shuffled) in [("stability", false), ("stability", true), ("align", true)] {
        let [small, large] = [250_000, 1_000_000].map(|n| peak(n, verb, shuffled));
        let ratio = large / small;
        let what = format!("{verb}, shuffled {shuffled}");
        assert!((0.9..=1.1).contains(&ratio), "{what}: {small} to {large}, {ratio}");
    }
}

/// The run to evaluate and its limit in MiB, for the process that evaluates it.
const RUN: &str = "VERIDICAL_EVALUATED_RUN";
const MEMORY: &str = "VERIDICAL_EVALUATED_MEMORY";

/// Evaluates and prints the models and the peak; does nothing when it is run as a test.
#[test]
fn the_evaluation_in_a_process_of_its_own() {
    let Some(run) = std::env::var_os(RUN) else { return };
    let memory = std::env::var(MEMORY).unwrap().parse().unwrap();
    let run = vec![PathBuf::from(run).into()];
    let memory = MemoryLimit { memory: Some(memory) };
    let evaluation =
        evaluate(&Evaluate { run, memory, ..Evaluate::default() }, &Job::silent()).unwrap();
    let models: Vec<&str> = evaluation.models.iter().filter_map(|model| model.method).collect();
    println!("models={} peak={}", models.join(","), resident());
}

/// The most memory that this process has touched, in bytes; 0 where the system does not say. The allocator would count workspaces of
/// products that are reserved and never touched: seven times the matrices of EASE.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()).unwrap_or(0)
        << 10
}

/// EASE holds 12 bytes for each of 3,000 x 3,000 pairs of items, 103 MiB: it is a baseline within 192 MiB, and left out of 64. The
/// program and its data take 50 MiB.
#[test]
fn an_evaluation_stays_within_its_memory() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    veridical::prepare::generate(&Generate {
        what: Some(GeneratedKind::Shop),
        users: 2000,
        items: 3000,
        per_user: 8,
        output: TablesOutput { out: at("shop").into(), ..TablesOutput::default() },
        ..Generate::default()
    })
    .unwrap();
    let given = serde_json::json!({ "interactions": at("shop/interactions.csv"), "split": "leave-last-one" });
    let layer = SettingsLayer::given(given.as_object().cloned().unwrap());
    let request = Request::new(Method::Pop, &[layer]).unwrap();
    let output = RunOutput { out: Some(at("run").into()), ..RunOutput::default() };
    train(&Train { request, start: Start { output, ..Start::default() } }, &Job::silent()).unwrap();
    for (mib, models) in [("64", "pop,pop,itemknn"), ("192", "pop,pop,itemknn,ease")] {
        let variables = [(RUN, at("run").into_os_string()), (MEMORY, mib.into())];
        let variables = variables.each_ref().map(|(name, value)| (*name, value.as_os_str()));
        let text = alone("the_evaluation_in_a_process_of_its_own", &variables);
        assert_eq!(said("models", &text), models);
        let peak: f64 = said("peak", &text).parse().unwrap();
        assert!(peak <= mib.parse::<f64>().unwrap() * f64::from(1 << 20), "{mib} MiB: {peak}");
    }
}

/// The run to recommend from, and the folder with the users to recommend to; and whether these and their histories are in files.
const TRAINED: &str = "VERIDICAL_TRAINED_RUN";
const FILES: &str = "VERIDICAL_FILES_OF_USERS";

/// Recommends and prints the peak; does nothing when it is run as a test.
#[test]
fn the_recommendations_in_a_process_of_their_own() {
    let Some(folder) = std::env::var_os(TRAINED) else { return };
    let at = |name: &str| Path::new(&folder).join(name);
    let given = std::env::var_os(FILES).is_some();
    let settings = Recommend {
        run: at("run").into(),
        users: given.then(|| at("users.txt").into()),
        interactions: given.then(|| at("new.csv").into()),
        out: at("best.parquet").into(),
        replace: Replace { force: true },
        ..Recommend::default()
    };
    if !given {
        let memory = MemoryLimit { memory: Some(64) };
        let refused =
            recommend(&Recommend { memory, ..settings.clone() }, &Job::silent()).unwrap_err();
        println!("{}", refused.to_string().replace("at least ", "needed="));
    }
    let recommended = recommend(&settings, &Job::silent()).unwrap();
    let peak = ALLOCATOR.max_allocated();
    println!("users={} peak={peak} resident={}", recommended.users, resident());
}

/// A run of `n` users with one of 20,000 items each, 1,000 of these users, and histories of 900 of them and of 100 others.
fn trained(n: usize) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let rows = (0..n).map(|user| format!("{user},{}\n", user % 20_000)).collect::<String>();
    std::fs::write(at("all.csv"), format!("user,item\n{rows}")).unwrap();
    let places: Vec<usize> = (0..1000).map(|i| i * (n / 1000)).collect();
    let users: String = places.iter().map(|user| format!("{user}\n")).collect();
    let others = (n..n + 100).map(|user| format!("{user}\n"));
    std::fs::write(at("users.txt"), users + &others.clone().collect::<String>()).unwrap();
    let known = places[..900].iter().map(|user| format!("{user}\n")).chain(others);
    let rows = known.map(|user| format!("{},3\n{0},19999\n", user.trim())).collect::<String>();
    std::fs::write(at("new.csv"), format!("user,item\n{rows}")).unwrap();
    let given = serde_json::json!({ "interactions": at("all.csv"), "dim": DIM, "epochs": 1 });
    let layer = SettingsLayer::given(given.as_object().cloned().unwrap());
    let request = Request::new(Method::Bpr, &[layer]).unwrap();
    let output = RunOutput { out: Some(at("run").into()), ..RunOutput::default() };
    train(&Train { request, start: Start { output, ..Start::default() } }, &Job::silent()).unwrap();
    folder
}

/// Users and their histories are in files, so of the tables nothing is held but the ids of items.
#[test]
fn recommendations_from_a_million_user_vectors_take_the_memory_of_a_quarter_million() {
    let test = "the_recommendations_in_a_process_of_their_own";
    let [small, large] = [250_000, 1_000_000].map(|n| {
        let folder = trained(n);
        let run = folder.path().as_os_str();
        let text = alone(test, &[(TRAINED, run), (FILES, OsStr::new("given"))]);
        assert_eq!(said("users", &text), "1100");
        said("peak", &text).parse::<f64>().unwrap()
    });
    let ratio = large / small;
    assert!((0.9..=1.1).contains(&ratio), "{small} to {large}, {ratio}");
}

/// The histories of a training are held; what the error says beforehand is enough for them.
#[test]
fn recommendations_to_all_users_need_no_more_memory_than_is_said() {
    let folder = trained(250_000);
    let test = "the_recommendations_in_a_process_of_their_own";
    let text = alone(test, &[(TRAINED, folder.path().as_os_str())]);
    assert_eq!(said("users", &text), "250000");
    let resident: f64 = said("resident", &text).parse().unwrap();
    let needed: f64 = 1e6 * said("needed", &text).parse::<f64>().unwrap();
    if resident == 0.0 {
        return eprintln!("skipped: the system does not tell the memory of a process");
    }
    assert!((0.5 * needed..=needed).contains(&resident), "{resident} of {needed}: {text}");
    let of =
        "MB for the histories (250000 interactions of 250000 users and 20000 items), got 68 MB";
    assert!(text.contains(of), "{text}");
}
