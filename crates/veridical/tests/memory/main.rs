//! The memory of a comparison does not grow with the rows of its tables.
//!
//! An allocator counts what is held at the same time; the comparison runs in a process of its own, so that nothing else is counted.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::alloc::System;
use std::path::Path;
use std::process::Command;

use cap::Cap;
use veridical::core::{Job, Seed};
use veridical::data::{Ids, VectorTable, generate};
use veridical::stability::{Stability, stability};

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// The folder of the tables to compare, for the process that compares them.
const TABLES: &str = "VERIDICAL_COMPARED_TABLES";
const DIM: usize = 16;

/// Compares and prints the peak; does nothing when it is run as a test.
#[test]
fn the_comparison_in_a_process_of_its_own() {
    let Some(folder) = std::env::var_os(TABLES) else { return };
    let at = |name: &str| Path::new(&folder).join(name).into();
    let tables = vec![at("a.parquet"), at("b.parquet")];
    stability(&Stability { tables, ..Stability::default() }, &Job::silent()).unwrap();
    println!("peak={}", ALLOCATOR.max_allocated());
}

/// The peak in bytes, and what is written to the folder beforehand.
fn peak(n: usize, shuffled: bool) -> f64 {
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
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_comparison_in_a_process_of_its_own", "--nocapture"])
        .env(TABLES, folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout).into_owned();
    assert!(child.status.success(), "{said}{}", String::from_utf8_lossy(&child.stderr));
    let peak = said.lines().find_map(|line| line.split_once("peak=")?.1.trim().parse::<f64>().ok());
    peak.unwrap_or_else(|| panic!("no peak in: {said}"))
}

#[test]
fn a_million_rows_take_the_memory_of_a_quarter_million() {
    for shuffled in [false, true] {
        let [small, large] = [250_000, 1_000_000].map(|n| peak(n, shuffled));
        let ratio = large / small;
        assert!((0.9..=1.1).contains(&ratio), "shuffled {shuffled}: {small} to {large}, {ratio}");
    }
}
