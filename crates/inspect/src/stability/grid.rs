//! Sentence, level, treatment and gate of a verdict agree, over all combinations of aspects and limits.

use veridical_core::{Estimate, Job, Seed};
use veridical_data::generate;

use super::*;

/// A comparison whose numbers are then replaced.
fn base() -> Report {
    let job = Job::silent();
    let table = generate::clusters(60, 4, 3, Seed::new(0).unwrap());
    let moved = generate::rotated(&table, Seed::new(1).unwrap());
    let tables = vec![
        NamedTable::new("a", table, &job).unwrap(),
        NamedTable::new("b", moved, &job).unwrap(),
    ];
    let samples = Samples { pairs: 100, kernel_ids: 100, ..Samples::default() };
    compare(tables, &Settings { samples, ..Settings::default() }, &job).unwrap()
}

fn set(measures: &mut [Measure], key: &str, value: f64) {
    let found = measures.iter_mut().find(|m| m.key == key).unwrap();
    found.estimate = Some(Estimate::exact(value, 60));
}

/// The least and the most of a list of levels.
fn worst(levels: &[Level]) -> Level {
    *levels.iter().max().unwrap()
}

#[test]
fn everything_that_a_verdict_says_agrees() {
    let levels = [Level::Stable, Level::Drifting, Level::Unstable];
    let report = base();
    let Report { mut measures, mut comparison, .. } = report;
    let mut seen = 0;
    for (ids, kept) in levels.into_iter().zip([1.0, 0.95, 0.5]) {
        for (alone, share) in levels.into_iter().zip([0.0, 0.02, 0.1]) {
            for (geometry, cka) in levels.into_iter().zip([0.99, 0.9, 0.5]) {
                for (neighbors, overlap) in levels.into_iter().zip([0.9, 0.6, 0.2]) {
                    for (raw, aligned, coordinates) in [
                        (0.01, 0.01, Level::Stable),
                        (1.0, 0.01, Level::Stable),
                        (1.0, 0.2, Level::Drifting),
                        (1.0, 0.5, Level::Unstable),
                    ] {
                        set(&mut measures, "shared_ids", kept);
                        set(&mut measures, "outlier_ids", share);
                        set(&mut measures, "cka", cka);
                        set(&mut measures, "nn_overlap", overlap);
                        let moved = comparison.coordinates.as_mut().unwrap();
                        moved.relative_sd = Some(Estimate::exact(raw, 60));
                        moved.aligned_relative_sd = Some(Estimate::exact(aligned, 60));
                        comparison.outliers.as_mut().unwrap().share = Estimate::exact(share, 60);
                        let common = worst(&[ids, alone, geometry]);
                        let want = worst(&[common, neighbors, coordinates]);
                        let found = verdict(&measures, &[], &comparison, None);
                        check(&found, want, common, raw);
                        let new_ids = measures.iter().find(|m| m.key == "new_ids").unwrap();
                        for allowed in [0.5, -1.0] {
                            let limit =
                                Limit { value: allowed, ..Limit::new("max-new-ids", 0.5).unwrap() };
                            let gate = Gate::new(&limit, new_ids);
                            let met = gate.is_kept();
                            let found = verdict(&measures, &[gate], &comparison, None);
                            let want = if met { want } else { Level::Unstable };
                            assert_eq!(found.level, want);
                            assert_eq!(found.is_safe(), want != Level::Unstable);
                            let start = if met {
                                "The limit is met. "
                            } else {
                                "Not safe: the limit is not met, "
                            };
                            assert!(found.sentence.starts_with(start), "{}", found.sentence);
                            assert!(
                                met || !found.sentence[9..].contains("Safe"),
                                "{}",
                                found.sentence
                            );
                        }
                        seen += 1;
                    }
                }
            }
        }
    }
    assert_eq!(seen, 324);
}

fn check(found: &Verdict, want: Level, common: Level, raw: f64) {
    let sentence = &found.sentence;
    assert_eq!(found.level, want, "{sentence}");
    let start = match want {
        Level::Stable if raw < 0.1 => "Safe without treatment: ",
        Level::Stable => {
            "Safe for consumers that are retrained, search neighbors or use coordinates (aligned)"
        }
        Level::Drifting => "Safe with care for consumers that ",
        Level::Unstable => "Not safe",
    };
    assert!(sentence.starts_with(start), "{want:?}: {sentence}");
    assert!(sentence.ends_with('.') && !sentence.contains("()"), "{sentence}");
    assert_eq!(found.treatment == "none", common == Level::Unstable, "{sentence}");
    assert_eq!(found.is_safe(), want != Level::Unstable);
    // Each consumer is named once, with its own answer.
    if common != Level::Unstable && !sentence.starts_with("Safe without") {
        for words in ["are retrained", "search neighbors", "use coordinates"] {
            assert_eq!(sentence.matches(words).count(), 1, "{sentence}");
        }
    }
}

/// Where a measure has a limit, the limit decides on its aspect.
#[test]
fn a_limit_takes_the_place_of_the_threshold() {
    let Report { mut measures, comparison, .. } = base();
    set(&mut measures, "nn_overlap", 0.3);
    assert_eq!(verdict(&measures, &[], &comparison, None).level, Level::Unstable);
    let overlap = measures.iter().find(|m| m.key == "nn_overlap").unwrap();
    let gate = Gate::new(&Limit::new("min-nn-overlap", 0.25).unwrap(), overlap);
    let found = verdict(&measures, &[gate], &comparison, None);
    assert_eq!(found.level, Level::Stable, "{}", found.sentence);
    assert!(found.sentence.starts_with("The limit is met. Safe"), "{}", found.sentence);
    set(&mut measures, "nn_overlap", 0.99);
    let overlap = measures.iter().find(|m| m.key == "nn_overlap").unwrap();
    let gate = Gate::new(&Limit::new("min-nn-overlap", 0.995).unwrap(), overlap);
    let found = verdict(&measures, &[gate], &comparison, None);
    assert_eq!(found.level, Level::Unstable);
    assert!(found.deciding_limits().contains(&"min-nn-overlap"));
}
