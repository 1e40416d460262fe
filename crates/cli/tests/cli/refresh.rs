//! `veridical refresh`: what it publishes, what it stops, and that a partial output is never visible.

use serde_json::Value;
use veridical_core::{Seed, Stream};
use veridical_data::{Ids, VectorTable};

use crate::common::Sandbox;

const DIM: usize = 16;

/// `a`, `b` (a with its coordinates reversed and a few new ids) and `broken` (b with its ids shifted), of `n` ids.
fn sandbox(n: usize) -> Sandbox {
    let sandbox = Sandbox::new();
    let mut values = vec![0.0; n * DIM];
    Stream::new(Seed::new(0).unwrap(), "rows").at(0, 0).fill_normals(&mut values);
    let rows: Vec<f32> = values.iter().map(|&x| x as f32).collect();
    let table = |ids: Vec<i64>, vectors: Vec<f32>| VectorTable {
        ids: Ids::Int(ids.into()),
        dim: DIM,
        vectors,
    };
    let numbers: Vec<i64> = (0..n as i64).collect();
    veridical_io::write_table(&table(numbers.clone(), rows.clone()), &sandbox.path("a.parquet"))
        .unwrap();
    let mut reversed = rows;
    reversed.chunks_exact_mut(DIM).for_each(<[f32]>::reverse);
    let shifted: Vec<i64> = numbers.iter().map(|i| (i + 1) % n as i64).collect();
    veridical_io::write_table(&table(shifted, reversed.clone()), &sandbox.path("broken.parquet"))
        .unwrap();
    let more: Vec<i64> = numbers.into_iter().chain([9_000_000, 9_000_001]).collect();
    let extra: Vec<f32> = reversed[..2 * DIM].to_vec();
    veridical_io::write_table(&table(more, [reversed, extra].concat()), &sandbox.path("b.parquet"))
        .unwrap();
    sandbox.put("budget.toml", "min-cka = 0.9\nmin-nn-overlap = 0.8\nmin-shared-ids = 0.99\n");
    sandbox.ok(&format!("featurize new --input-dim {DIM} --out spec.json"));
    sandbox
}

const LINE: &str = "refresh --reference a.parquet --new b.parquet --spec spec.json --budget budget.toml --out published";

#[test]
fn a_good_refresh_is_published_whole() {
    let sandbox = sandbox(400);
    sandbox.ok(LINE);
    for file in [
        "vectors/vectors.parquet",
        "features/features.parquet",
        "map.safetensors",
        "report.html",
        "summary.md",
        "manifest.json",
        "_SUCCESS",
    ] {
        assert!(sandbox.has(&format!("published/{file}")), "{file}");
    }
    let manifest: Value = serde_json::from_str(&sandbox.text("published/manifest.json")).unwrap();
    assert_eq!(manifest["passed"], true);
    assert_eq!(manifest["gates"].as_array().unwrap().len(), 3);
    let spec: Value = serde_json::from_str(&sandbox.text("spec.json")).unwrap();
    assert_eq!(manifest["spec_id"], spec["spec_id"]);
    assert!(sandbox.text("published/summary.md").lines().count() <= 12);
    // The reversal is undone, for new ids too.
    let (a, published) = (sandbox.table("a.parquet"), sandbox.table("published/vectors"));
    assert_eq!(published.n_rows(), 402);
    let distance = |i: usize, j: usize| {
        let pairs = a.row(i).iter().zip(published.row(j));
        pairs.map(|(x, y)| (x - y).abs()).fold(0.0, f32::max)
    };
    assert!((0..400).all(|i| distance(i, i) < 1e-4));
    assert!(distance(0, 400) < 1e-4 && distance(1, 401) < 1e-4);
    // The features are those of the published vectors.
    sandbox.ok("featurize apply --spec spec.json published/vectors/vectors.parquet phi.parquet");
    assert_eq!(sandbox.table("phi.parquet").vectors, sandbox.table("published/features").vectors);
}

#[test]
fn a_broken_refresh_leaves_a_report_and_nothing_else() {
    let sandbox = sandbox(400);
    let line =
        "refresh --reference a.parquet --new broken.parquet --budget budget.toml --out published";
    let outcome = sandbox.run(&format!("{line} --quiet"));
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(outcome.only_error().starts_with("nothing was published: "), "{outcome:?}");
    let mut files: Vec<String> = std::fs::read_dir(sandbox.path("published"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    assert_eq!(files, ["report.html", "summary.md"]);
    // Without limits the verdict decides.
    let line = "refresh --reference a.parquet --new broken.parquet --out other";
    assert_eq!(sandbox.run(line).code, Some(1));
    assert!(!sandbox.has("other/_SUCCESS"));
}

#[test]
fn an_earlier_publication_is_never_lost() {
    let sandbox = sandbox(400);
    sandbox.ok(LINE);
    let before = sandbox.below("published");
    sandbox
        .refuses(LINE, "published already exists; choose another name or replace it with --force");
    let broken = LINE.replace("b.parquet", "broken.parquet") + " --force";
    assert_eq!(sandbox.run(&broken).code, Some(1));
    assert!(sandbox.below("published") == before, "the earlier one stays");
    assert!(sandbox.has("published.rejected/report.html"));
    sandbox.ok(&format!("{LINE} --force"));
    let manifest = "published/manifest.json";
    assert!(sandbox.has(manifest) && !sandbox.has("published.before"));
    sandbox.put("mine/file", "mine");
    let line = "refresh --reference a.parquet --new b.parquet --out mine --force";
    sandbox.refuses(line, "mine is not a refresh; choose another name");
}

#[test]
fn another_job_is_not_taken_up() {
    let sandbox = sandbox(400);
    sandbox.put("published.partial/job.json", "{\"new\": \"x\"}");
    sandbox.refuses_like(&format!("{LINE} --resume"), |error| {
        assert!(error.starts_with("published.partial belongs to a different refresh: "), "{error}");
        assert!(error.ends_with("start over with --force"), "{error}");
    });
    sandbox.ok(&format!("{LINE} --force"));
    assert!(!sandbox.has("published.partial"));
}
