//! Tests with planted damage: every kind is counted exactly, and none is called safe.

use veridical_core::{Job, Seed, Stream};
use veridical_data::{Ids, VectorTable, generate};

use super::*;

const N: usize = 2000;
const DIM: usize = 16;
const CLUSTERS: usize = 20;

fn normals(count: usize, draw: u64) -> Vec<f32> {
    let mut values = vec![0.0; count];
    Stream::new(Seed::new(5).unwrap(), "damage").at(0, draw).fill_normals(&mut values);
    values.into_iter().map(|x| x as f32).collect()
}

/// Ids in clusters, and a retraining: the same rows with a little noise in other coordinates.
fn tables() -> [VectorTable; 2] {
    let centers = normals(CLUSTERS * DIM, 0);
    let own = normals(N * DIM, 1);
    let row = |i: usize, k: usize| centers[i % CLUSTERS * DIM + k] + own[i * DIM + k];
    let vectors: Vec<f32> = (0..N * DIM).map(|at| row(at / DIM, at % DIM)).collect();
    let moved: Vec<f32> =
        vectors.iter().zip(normals(N * DIM, 2)).map(|(x, e)| x + 0.15 * e).collect();
    let table = |vectors| VectorTable { ids: Ids::numbered(0, N), dim: DIM, vectors };
    let moved = generate::rotated(&table(moved), Seed::new(7).unwrap());
    [table(vectors), moved]
}

fn compared(reference: VectorTable, new: VectorTable, limits: Vec<Limit>) -> Report {
    let job = Job::silent();
    let named = |name: &str, table| NamedTable::new(name, table, &job).unwrap();
    let samples = Samples { pairs: 20_000, kernel_ids: 500, probes: 500, ..Samples::default() };
    let settings = Settings { samples, ..Settings::default() };
    let joined = join(vec![named("a", reference), named("b", new)]).unwrap();
    assess(joined, &Evidence { limits, ..Evidence::default() }, &settings, &job).unwrap()
}

/// The rows that are damaged: one in `every`, none of them in one cluster alone.
fn damaged(every: usize) -> Vec<usize> {
    (0..N).filter(|i| (i / CLUSTERS).is_multiple_of(every)).collect()
}

/// Changes rows of a table.
fn with(table: &VectorTable, rows: &[usize], of: impl Fn(usize, usize) -> f32) -> VectorTable {
    let mut table = table.clone();
    for &i in rows {
        (0..DIM).for_each(|k| table.vectors[i * DIM + k] = of(i, k));
    }
    table
}

fn outliers(report: &Report) -> [usize; 2] {
    let found = report.comparison.outliers.as_ref().unwrap();
    [found.share.value, found.norms.value].map(|share| (share * N as f64).round() as usize)
}

#[test]
fn a_retraining_has_no_outliers() {
    let [a, b] = tables();
    let report = compared(a, b, Vec::new());
    assert_eq!(outliers(&report), [0, 0]);
    assert_eq!(report.verdict.level, Level::Stable, "{}", report.verdict.sentence);
    assert!(
        report.verdict.sentence.starts_with("Safe for consumers"),
        "{}",
        report.verdict.sentence
    );
    assert!(report.comparison.outliers.unwrap().power > 0.95);
}

/// In 16 dimensions a row of noise has a cosine above 0.9, which could pass for a retraining, once in a million.
#[test]
fn noise_and_exchanged_ids_are_counted_exactly() {
    let [a, b] = tables();
    let noise = normals(N * DIM, 3);
    for every in [50, 20, 10, 5] {
        let rows = damaged(every);
        let noisy =
            compared(a.clone(), with(&b, &rows, |i, k| 1.4 * noise[i * DIM + k]), Vec::new());
        assert_eq!(outliers(&noisy)[0], rows.len(), "one row of noise in {every}");
        let next = |i: usize| rows[(rows.iter().position(|r| *r == i).unwrap() + 7) % rows.len()];
        let exchanged = with(&b, &rows, |i, k| b.vectors[next(i) * DIM + k]);
        let exchanged = compared(a.clone(), exchanged, Vec::new());
        assert_eq!(outliers(&exchanged)[0], rows.len(), "one id in {every} exchanged");
        let worst = &noisy.comparison.outliers.as_ref().unwrap().worst;
        assert!(worst.iter().all(|id| rows.contains(&id.id.parse().unwrap())));
        assert_eq!(worst.len(), rows.len());
        for report in [noisy, exchanged] {
            let (share, level) = (rows.len() as f64 / N as f64, report.verdict.level);
            let expected = if share <= 0.03 { Level::Drifting } else { Level::Unstable };
            assert!(level >= expected, "{share}: {level:?}");
        }
    }
}

#[test]
fn a_mixture_is_named_with_its_size() {
    let [a, b] = tables();
    let noise = normals(N * DIM, 3);
    let rows = damaged(20);
    let report = compared(a, with(&b, &rows, |i, k| noise[i * DIM + k]), Vec::new());
    let sentence = &report.verdict.sentence;
    assert!(
        sentence.starts_with("Not safe: part of the table is damaged: 5.0 % of ids moved alone; ")
    );
    let noise = report.comparison.outliers.as_ref().unwrap().like_noise.unwrap();
    // 100 rows of noise, half of which lie beyond the median: a standard error of 0.5 % of ids.
    assert!((noise.value - 0.05).abs() < 0.015, "{noise:?}");
    assert!(noise.low < 0.05 && 0.05 < noise.high, "{noise:?}");
    assert!(sentence.contains(" % of ids moved like noise"), "{sentence}");
}

#[test]
fn norms_stale_rows_and_a_class_of_its_own_are_seen() {
    let [a, b] = tables();
    let rows = damaged(3);
    let scaled =
        compared(a.clone(), with(&b, &rows, |i, k| 100.0 * b.vectors[i * DIM + k]), Vec::new());
    assert_eq!(outliers(&scaled), [0, rows.len()]);
    assert_eq!(scaled.verdict.level, Level::Unstable);
    let rows = damaged(20);
    let stale = compared(a.clone(), with(&b, &rows, |i, k| a.vectors[i * DIM + k]), Vec::new());
    assert_eq!(outliers(&stale)[0], rows.len());
    assert_eq!(stale.comparison.outliers.as_ref().unwrap().stale, rows.len() as u64);
    let again = generate::rotated(&b, Seed::new(11).unwrap());
    let class: Vec<usize> = (0..N).filter(|i| i % CLUSTERS == 3).collect();
    let apart =
        compared(a.clone(), with(&b, &class, |i, k| again.vectors[i * DIM + k]), Vec::new());
    assert_eq!(outliers(&apart)[0], class.len());
    let shift = normals(DIM, 12);
    let block: Vec<usize> = (0..100).collect();
    let shifted = with(&b, &block, |i, k| b.vectors[i * DIM + k] + 2.0 * shift[k]);
    let shifted = compared(a, shifted, Vec::new());
    assert_eq!(outliers(&shifted)[0], block.len());
}

/// A limit decides in place of the fixed thresholds, and one that cannot be measured is an error.
#[test]
fn a_limit_on_outliers_decides() {
    let [a, b] = tables();
    let noise = normals(N * DIM, 3);
    let noisy = with(&b, &damaged(50), |i, k| noise[i * DIM + k]);
    let limit = |value| vec![Limit::new("max-outlier-ids", value).unwrap()];
    let passed = |value| compared(a.clone(), noisy.clone(), limit(value)).passed;
    assert_eq!((passed(0.01), passed(0.05)), (Some(false), Some(true)));
    let job = Job::silent();
    let joined = join(vec![
        NamedTable::new("a", a.clone(), &job).unwrap(),
        NamedTable::new("b", b, &job).unwrap(),
    ]);
    let samples = Samples { pairs: 1000, kernel_ids: 100, ..Samples::default() };
    let settings = Settings { samples, ..Settings::default() };
    let evidence = Evidence { limits: limit(1e-4), ..Evidence::default() };
    let message = assess(joined.unwrap(), &evidence, &settings, &job).unwrap_err().to_string();
    let want = "max-outlier-ids 0.0001 cannot be measured with 2000 ids; without a single outlier their share may be up to \
                0.0019: use a limit above that, or 38411 ids";
    assert_eq!(message, want);
}

#[test]
fn more_neighbors_than_half_of_the_ids_are_refused() {
    let [a, b] = tables();
    let job = Job::silent();
    let named = |name: &str, table| NamedTable::new(name, table, &job).unwrap();
    let samples = Samples { k: 1000, pairs: 1000, ..Samples::default() };
    let settings = Settings { samples, ..Settings::default() };
    let refused = compare(vec![named("a", a), named("b", b)], &settings, &job).unwrap_err();
    assert!(refused.to_string().starts_with("⟨k⟩ must be at most 999"), "{refused}");
}
