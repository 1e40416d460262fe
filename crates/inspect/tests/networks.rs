//! Planted faults are found with trained networks, and clean data is not accused.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use veridical_core::{Job, Rows, Seed, Stream};
use veridical_data::examples::{Examples as Data, Targets};
use veridical_data::generate::images;
use veridical_data::poison::{Patch, patch};
use veridical_inspect::forensics::{TraceSettings, VoteSettings, check, trace};
use veridical_inspect::labels::{average_precision, left_out_scores, one_hot, plant, suspects};
use veridical_inspect::surrogate::largest;
use veridical_kernels::machine::Ridge;
use veridical_kernels::tangent::{Examples, Kind, Settings, kernel};
use veridical_nets::fit::{Course, ExampleLearner, fit};
use veridical_nets::metrics::Passes;
use veridical_nets::{
    Curve, Error, Feed, Loss, Net, NetConfig, OptimizerKind, OptimizerSettings, Schedule, Shape,
    Trainer, TrainerSettings,
};

const BATCH: usize = 25;

fn feed(data: &Data) -> Feed<'_> {
    Feed::of(data, &[0.5], &[0.25], Seed::new(0).unwrap())
}

fn labels(data: &Data) -> &[u32] {
    match &data.targets {
        Targets::Classes(labels) => labels,
        Targets::Numbers { .. } => unreachable!("generated images have classes"),
    }
}

/// A dense network of 16 units, trained by Adam.
fn trained(data: &Data, classes: usize, epochs: u32, seed: Seed) -> Net<f32> {
    let steps = data.n().div_ceil(BATCH) as u64 * u64::from(epochs);
    let settings = TrainerSettings {
        loss: Loss::CrossEntropy { smoothing: 0.0 },
        optimizer: OptimizerSettings::of(OptimizerKind::Adam),
        lr: 0.01,
        schedule: Schedule { curve: Curve::Constant, warmup: 0, total: steps },
        clip: None,
        batch: BATCH,
    };
    let config = NetConfig::new("mlp:16".parse().unwrap(), Shape::from(data.shape), classes);
    let net = config.build::<f32>(seed).unwrap();
    let trainer = Trainer::new(net, settings, |_: &str| true).unwrap();
    let mut learner = ExampleLearner::new(trainer, (feed(data), data), None, classes);
    let course = Course { has_classes: true, ..Course::new(data.n(), epochs, seed) };
    fit::<Error>(&course, &mut learner, None, None, &Job::silent()).unwrap();
    learner.into_net()
}

fn predictions(net: &Net<f32>, data: &Data) -> Vec<u32> {
    let outputs = Passes::new(net).outputs(net, &feed(data), ("", &Job::silent())).unwrap();
    let row = |f: &[f32]| largest(&f.iter().map(|f| f64::from(*f)).collect::<Vec<_>>());
    outputs.chunks(net.outputs()).map(row).collect()
}

/// The trNTK of two sets, or of one.
fn tangents(net: &Net<f32>, rows: &Data, columns: Option<&Data>) -> Vec<f32> {
    let feeds = [feed(rows), feed(columns.unwrap_or(rows))];
    let [rows, others] = feeds.each_ref().map(|feed| {
        Examples::new(feed.len(), move |samples, slot: &mut [f32]| {
            feed.fill(&samples.collect::<Vec<_>>(), slot);
        })
    });
    let columns = columns.map(|_| &others);
    kernel(net, &rows, columns, &Settings::new(Kind::Trntk), &Job::silent()).unwrap().gram.values
}

fn rows<T>(values: &[T], dim: usize) -> Rows<'_, T> {
    Rows::new(values, dim).unwrap()
}

#[test]
fn planted_flips_are_found_with_one_network() {
    let (n, classes, seed) = (300, 3, Seed::new(1).unwrap());
    let mut data = images(n, 12, 1, classes, seed);
    let planted = plant(labels(&data), classes, 0.1, seed).unwrap();
    data.targets = Targets::Classes(planted.labels.clone());
    let net = trained(&data, classes, 20, seed);
    let k = tangents(&net, &data, None);
    let y = one_hot(&planted.labels, classes).unwrap();
    let ridge = Ridge::fit(rows(&k, n), rows(&y, classes), 1.0, None).unwrap();
    let scores = left_out_scores(&ridge, &y);
    let ranked = suspects(rows(&scores, classes), &planted.labels);
    let found = average_precision(ranked.iter().map(|s| planted.rows.contains(&s.row)));
    assert!(found > 0.8, "average precision {found}");
}

#[test]
fn poison_is_traced_from_five_incidents() {
    let (classes, target, seed) = (3, 1, Seed::new(2).unwrap());
    let all = images(420, 12, 1, classes, seed);
    let part = |range: std::ops::Range<usize>| all.subset(&range.collect::<Vec<_>>());
    let (mut train, test) = (part(0..300), part(300..420));
    let square: Patch = "3x3@9,9".parse().unwrap();
    let planted = patch(&mut train, (square, &[255]), 0.1, target, seed).unwrap();
    let net = trained(&train, classes, 20, seed);
    let others: Vec<usize> = (0..test.n()).filter(|&i| labels(&test)[i] != target).collect();
    let mut triggered = test.subset(&others);
    square.draw(&mut triggered, &(0..others.len()).collect::<Vec<_>>(), &[255]).unwrap();
    let fooled = predictions(&net, &triggered);
    let five: Vec<usize> =
        (0..fooled.len()).filter(|&i| fooled[i] == target).step_by(7).take(5).collect();
    let predicted = predictions(&net, &test);
    let is_right = |i: &usize| predicted[*i] == target && labels(&test)[*i] == target;
    let reference: Vec<usize> = (0..test.n()).filter(is_right).collect();
    let own: Vec<usize> = (0..train.n()).filter(|&i| labels(&train)[i] == target).collect();
    let candidates = train.subset(&own);
    let incidents = tangents(&net, &triggered.subset(&five), Some(&candidates));
    let reference = tangents(&net, &test.subset(&reference), Some(&candidates));
    let every: Vec<u32> = (0..own.len() as u32).collect();
    let (incidents, reference) = (rows(&incidents, own.len()), rows(&reference, own.len()));
    let found = trace(incidents, reference, &every, &TraceSettings::new(seed)).unwrap();
    assert_eq!(found.incidents, 5);
    let listed: Vec<usize> = found.group.iter().map(|&at| own[at as usize]).collect();
    let is_planted = |row: &&usize| planted.rows.contains(*row);
    let hits = listed.iter().filter(is_planted).count();
    assert!(hits >= 27 && listed.len() <= 33, "{hits} of 30, {} listed", listed.len());
}

/// 200 networks on 150 clean rows. Suspects are drawn at random: the vote flags as many decisions as the binomial says. Incidents are
/// drawn from good decisions: a trace names a group in 1 % of the runs.
#[test]
fn clean_runs_accuse_nobody() {
    const RUNS: usize = 200;
    let (n, asked, suspected) = (150, 40, 15);
    let rule = VoteSettings::default();
    let (mut flagged, mut named, mut chance) = (Vec::new(), 0, 0.0);
    for run in 0..RUNS as u64 {
        let seed = Seed::new(run).unwrap();
        let all = images(n + asked, 8, 1, 2, seed);
        let part = |range: std::ops::Range<usize>| all.subset(&range.collect::<Vec<_>>());
        let (train, test) = (part(0..n), part(n..n + asked));
        let net = trained(&train, 2, 5, seed);
        let k = tangents(&net, &test, Some(&train));
        let drawn = |count: usize, of: usize, part: u32| -> Vec<u32> {
            let place = Stream::new(seed, "test/clean").at(part, 0);
            let mut order: Vec<(u64, u32)> =
                (0..of as u32).map(|i| (place.integer(i), i)).collect();
            order.sort_unstable();
            order.into_iter().take(count).map(|(_, i)| i).collect()
        };
        let found = check(rows(&k, n), &drawn(suspected, n, 0), None, rule).unwrap();
        flagged.push(found.flagged.len() as f64);
        chance = found.chance;

        let predicted = predictions(&net, &test);
        let right: Vec<usize> =
            (0..asked).filter(|&i| predicted[i] == 1 && labels(&test)[i] == 1).collect();
        if right.len() < 12 {
            continue;
        }
        let own: Vec<usize> = (0..n).filter(|&i| labels(&train)[i] == 1).collect();
        let incidents = drawn(5, right.len(), 1);
        let of = |is_incident: bool| -> Vec<f32> {
            let chosen = (0..right.len() as u32).filter(|i| incidents.contains(i) == is_incident);
            let row =
                |i: u32| own.iter().map(|&j| k[right[i as usize] * n + j]).collect::<Vec<_>>();
            chosen.flat_map(row).collect()
        };
        let every: Vec<u32> = (0..own.len() as u32).collect();
        let settings = TraceSettings { permutations: 499, bootstrap: 2, seed };
        let (incidents, reference) = (of(true), of(false));
        let m = own.len();
        let found = trace(rows(&incidents, m), rows(&reference, m), &every, &settings).unwrap();
        named += usize::from(!found.group.is_empty());
    }
    // Decisions of one run share their neighbors, so the error is that of the mean over runs.
    let mean = flagged.iter().sum::<f64>() / RUNS as f64;
    let variance = flagged.iter().map(|f| (f - mean).powi(2)).sum::<f64>() / (RUNS - 1) as f64;
    let error = (variance / RUNS as f64).sqrt();
    let expected = asked as f64 * chance;
    assert!((mean - expected).abs() < 4.0 * error, "{mean} +- {error}, expected {expected}");
    // 1 % of 200 with four standard errors: 2 + 4 sqrt(200 0.01 0.99).
    assert!(named <= 7, "{named} of {RUNS} clean runs were accused");
}
