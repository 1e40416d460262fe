//! Evaluation of rankings and ratings through the public API, against slow versions and other libraries.

use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use serde_json::Value;
use veridical_core::Job;
use veridical_core::threads::with_threads;
use veridical_core::{Seed, Stream};
use veridical_data::{IdMap, Interactions, Lists};
use veridical_embed::evaluate::{self, Protocol, Report, Settings, Task, combine, ranking};
use veridical_embed::{Embedding, Factors, Graphs, Input, Method, Model, Pair, Scorer, Similarity};

use crate::common::{lists, seed};

/// A scorer with given scores, one row per user.
struct FixedScores {
    n_items: usize,
    scores: Vec<f32>,
}

impl Scorer for FixedScores {
    fn n_items(&self) -> usize {
        self.n_items
    }

    fn n_users(&self) -> Option<usize> {
        Some(self.scores.len() / self.n_items)
    }

    fn score(&self, users: &[u32], _history: &Lists, out: &mut [f32]) {
        for (&u, out) in users.iter().zip(out.chunks_exact_mut(self.n_items)) {
            out.copy_from_slice(&self.scores[u as usize * self.n_items..][..self.n_items]);
        }
    }
}

fn settings(ks: &[usize]) -> Settings {
    Settings { ks: ks.to_vec(), protocols: Protocol::ALL.to_vec(), seed: seed(3) }
}

fn value(report: &Report, protocol: &str, measure: &str) -> f64 {
    report.get(protocol, measure).unwrap().value
}

fn oracle() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/oracles/ranking/ranking.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

/// Both sum a hundred terms of size 1 in f64.
#[test]
fn ndcg_auc_and_map_are_those_of_scikit_learn() {
    let oracle = oracle();
    let ks: Vec<usize> = numbers(&oracle["ks"]).iter().map(|&k| k as usize).collect();
    for case in oracle["rankings"].as_array().unwrap() {
        let scores: Vec<f32> = numbers(&case["scores"]).iter().map(|&x| x as f32).collect();
        let relevant: Vec<u32> = numbers(&case["relevant"]).iter().map(|&x| x as u32).collect();
        let relevant = lists(&[&relevant]);
        let task = Task {
            train: &lists(&[&[]]),
            sequences: None,
            aside: None,
            relevant: &relevant,
            keep_history: false,
        };
        let table = FixedScores { n_items: scores.len(), scores };
        let report = ranking(&table, &task, &settings(&ks), &Job::silent()).unwrap();
        for (k, want) in ks.iter().zip(numbers(&case["ndcg"])) {
            assert!((value(&report, "full", &format!("ndcg@{k}")) - want).abs() < 1e-13);
        }
        let auc = case["auc"].as_f64().unwrap();
        assert!((value(&report, "full", "auc") - auc).abs() < 1e-13);
        if let Some(map) = case["map"].as_f64() {
            assert!((value(&report, "full", "map") - map).abs() < 1e-13);
        }
    }
}

/// Scores of f32 against f64: 30 sums of at most 12 weights below 1.
#[test]
fn ease_is_the_textbook_formula() {
    let oracle = oracle();
    let ease = &oracle["ease"];
    let rows: Vec<Vec<u32>> = ease["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| numbers(row).iter().map(|&x| x as u32).collect())
        .collect();
    let pairs = || (0..).zip(&rows).flat_map(|(u, row)| row.iter().map(move |&i| (u, i)));
    let data = Interactions {
        users: IdMap::numbered(rows.len()),
        items: IdMap::numbered(12),
        user: pairs().map(|(u, _): (u32, u32)| u).collect(),
        item: pairs().map(|(_, i)| i).collect(),
        rating: None,
        time: None,
    };
    let all: Vec<u32> = (0..data.len() as u32).collect();
    let values = serde_json::json!({ "weight-decay": ease["weight_decay"] });
    let input = Input::of(&data, &all);
    let model = crate::common::train(Method::Ease, values, input, &Graphs::default()).unwrap();
    let users: Vec<u32> = (0..rows.len() as u32).collect();
    let mut scores = vec![0.0; rows.len() * 12];
    model.scorer().unwrap().score(&users, &data.by_user(&all), &mut scores);
    let want = ease["scores"].as_array().unwrap().iter().flat_map(numbers);
    for (got, want) in scores.iter().zip(want) {
        assert!((f64::from(*got) - want).abs() < 1e-5, "{got} {want}");
    }
}

/// Harmonic numbers and discounts in closed form: one relevant item, equally likely at every rank.
#[test]
fn constant_scores_score_exactly_as_chance() {
    let (n_users, n_items) = (40, 500);
    let relevant: Vec<Vec<u32>> = (0..n_users as u32).map(|u| vec![3 * u + 1]).collect();
    let train: Vec<Vec<u32>> = (0..n_users as u32).map(|u| vec![u, u + 200]).collect();
    let as_lists =
        |values: &[Vec<u32>]| lists(&values.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let (train, relevant) = (as_lists(&train), as_lists(&relevant));
    let task = Task {
        train: &train,
        sequences: None,
        aside: None,
        relevant: &relevant,
        keep_history: false,
    };
    // Arbitrary user vectors; all items are equal.
    let user = Embedding::normal(n_users, 33, 1.0, seed(1), "user");
    let item =
        Embedding::new(33, Embedding::normal(1, 33, 1.0, seed(1), "item").row(0).repeat(n_items));
    let constant = Pair::new(&user, &item, Similarity::Dot).unwrap();
    let report = ranking(&constant, &task, &settings(&[1, 10]), &Job::silent()).unwrap();
    for (protocol, n) in [("full", n_items - 2), ("uniform-100", 101), ("popular-100", 80)] {
        // Users chose 80 items, two of them their own: 78 others and the relevant one, or 77 if it is among them.
        let places = |n: usize, term: fn(f64) -> f64, until: usize| {
            (1..=until).map(|p| term(p as f64)).sum::<f64>() / n as f64
        };
        assert!((value(&report, protocol, "auc") - 0.5).abs() < 1e-15);
        if protocol == "popular-100" {
            continue;
        }
        let expected = [
            ("ndcg@10", places(n, |p| 1.0 / (p + 1.0).log2(), 10)),
            ("recall@10", 10.0 / n as f64),
            ("precision@10", 1.0 / n as f64),
            ("hit@1", 1.0 / n as f64),
            ("hit@10", 10.0 / n as f64),
            ("mrr", places(n, |p| 1.0 / p, n)),
            ("map", places(n, |p| 1.0 / p, n)),
        ];
        for (measure, want) in expected {
            let got = value(&report, protocol, measure);
            assert!((got - want).abs() < 1e-14, "{protocol} {measure}: {got} is not {want}");
        }
    }
}

/// Negated scores reverse the order of every pair, so the two AUCs add up to 1 exactly if, and in practice only
/// if, both models rank the same candidates.
#[test]
fn all_models_rank_the_same_candidates() {
    let (n_users, n_items) = (60, 700);
    let mut scores = vec![0.0; n_users * n_items];
    let noise = Embedding::normal(n_users, n_items, 1.0, seed(1), "scores");
    scores.copy_from_slice(noise.values());
    let relevant: Vec<Vec<u32>> = (0..n_users as u32).map(|u| vec![u, u + 100, u + 300]).collect();
    let train = |u: u32| {
        let mut items: Vec<u32> = (0..80).map(|i| (u + 1 + 8 * i) % 700).collect();
        items.sort_unstable();
        items
    };
    let train: Vec<Vec<u32>> = (0..n_users as u32).map(train).collect();
    let as_lists =
        |values: &[Vec<u32>]| lists(&values.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let (train, relevant) = (as_lists(&train), as_lists(&relevant));
    let task = Task {
        train: &train,
        sequences: None,
        aside: None,
        relevant: &relevant,
        keep_history: false,
    };
    let evaluate = |scores: Vec<f32>, seed: u64| {
        let settings = Settings { seed: Seed::new(seed).unwrap(), ..settings(&[10]) };
        ranking(&FixedScores { n_items, scores }, &task, &settings, &Job::silent()).unwrap()
    };
    let up = evaluate(scores.clone(), 3);
    let down = evaluate(scores.iter().map(|s| -s).collect(), 3);
    let other = evaluate(scores, 4);
    for protocol in ["full", "uniform-100", "popular-100"] {
        let sum = value(&up, protocol, "auc") + value(&down, protocol, "auc");
        assert!((sum - 1.0).abs() < 1e-14, "{protocol}: {sum}");
        let same = value(&up, protocol, "auc") == value(&other, protocol, "auc");
        assert_eq!(same, protocol == "full", "{protocol}");
    }
}

/// Known items of a user have the highest scores: if one of them were a candidate, the relevant item would not
/// be first. It is, in every protocol.
#[test]
fn known_items_are_not_candidates() {
    let (n_users, n_items) = (50, 400);
    let mut scores = vec![0.0; n_users * n_items];
    let part = |u: usize, first: usize, n: usize| -> Vec<u32> {
        (0..n)
            .map(|i| ((u + first + 7 * i) % n_items) as u32)
            .collect::<std::collections::BTreeSet<_>>()
            .into_iter()
            .collect()
    };
    let (mut train, mut aside, mut relevant) = (vec![], vec![], vec![]);
    for u in 0..n_users {
        let known = part(u, 0, 40);
        train.push(known[..20].to_vec());
        aside.push(known[20..30].to_vec());
        relevant.push(known[30..].to_vec());
        known[..30].iter().for_each(|&i| scores[u * n_items + i as usize] = 9.0);
        known[30..].iter().for_each(|&i| scores[u * n_items + i as usize] = 5.0);
    }
    let as_lists =
        |values: &[Vec<u32>]| lists(&values.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let (train, aside, relevant) = (as_lists(&train), as_lists(&aside), as_lists(&relevant));
    let task = Task {
        train: &train,
        sequences: None,
        aside: Some(&aside),
        relevant: &relevant,
        keep_history: false,
    };
    let report = ranking(
        &FixedScores { n_items, scores: scores.clone() },
        &task,
        &settings(&[1, 10]),
        &Job::silent(),
    )
    .unwrap();
    for protocol in ["full", "uniform-100", "popular-100"] {
        for measure in ["ndcg@10", "recall@10", "hit@1", "map", "mrr", "auc"] {
            assert!(
                (value(&report, protocol, measure) - 1.0).abs() < 1e-14,
                "{protocol} {measure}"
            );
        }
    }
    let open = Task { aside: None, ..task };
    let report =
        ranking(&FixedScores { n_items, scores }, &open, &settings(&[1, 10]), &Job::silent())
            .unwrap();
    assert!(value(&report, "full", "hit@1") == 0.0);
}

/// Sorts everything, scores without ties.
fn slow(scores: &[f32], train: &[u32], relevant: &[u32], k: usize) -> [f64; 6] {
    let mut order: Vec<u32> = (0..scores.len() as u32).filter(|i| !train.contains(i)).collect();
    order.sort_by(|a, b| scores[*b as usize].total_cmp(&scores[*a as usize]));
    let places: Vec<usize> =
        (0..order.len()).filter(|&p| relevant.contains(&order[p])).map(|p| p + 1).collect();
    let hits = places.iter().filter(|p| **p <= k).count() as f64;
    let discount = |p: &usize| 1.0 / (*p as f64 + 1.0).log2();
    let dcg: f64 = places.iter().filter(|p| **p <= k).map(discount).sum();
    let ideal: f64 = (1..=k.min(places.len())).map(|p| discount(&p)).sum();
    let n = places.len() as f64;
    let precisions = places.iter().enumerate().map(|(i, p)| (i + 1) as f64 / *p as f64);
    let others = order.len() as f64 - n;
    let wrong: usize = places.iter().enumerate().map(|(i, p)| p - 1 - i).sum();
    [
        dcg / ideal,
        hits / n,
        hits / k as f64,
        precisions.sum::<f64>() / n,
        1.0 / places[0] as f64,
        1.0 - wrong as f64 / (n * others),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn full_ranking_is_that_of_a_sorted_list(
        scores in Just((0..60).map(|i| i as f32).collect::<Vec<_>>()).prop_shuffle(),
        parts in prop::collection::vec(0u8..6, 60), k in 1usize..70,
    ) {
        let part = |p: u8| -> Vec<u32> { (0..60).filter(|&i| parts[i as usize] == p).collect() };
        let (train, relevant) = (part(0), part(1));
        prop_assume!(!relevant.is_empty() && relevant.len() + train.len() < 60);
        let want = slow(&scores, &train, &relevant, k);
        let (train, relevant) = (lists(&[&train]), lists(&[&relevant]));
        let task = Task { train: &train, sequences: None, aside: None, relevant: &relevant, keep_history: false };
        let report = ranking(&FixedScores { n_items: 60, scores }, &task, &settings(&[k]), &Job::silent()).unwrap();
        let names = [format!("ndcg@{k}"), format!("recall@{k}"), format!("precision@{k}"),
            "map".into(), "mrr".into(), "auc".into()];
        for (name, want) in names.iter().zip(want) {
            let got = value(&report, "full", name);
            prop_assert!((got - want).abs() < 1e-13, "{}: {} {}", name, got, want);
        }
    }
}

/// Scores come in blocks of users whose size depends on the number of items alone.
#[test]
fn memory_is_bounded_by_blocks_and_threads_change_nothing() {
    struct Watched<'a>(Pair<'a>, AtomicUsize);
    impl Scorer for Watched<'_> {
        fn n_items(&self) -> usize {
            self.0.n_items()
        }
        fn n_users(&self) -> Option<usize> {
            self.0.n_users()
        }
        fn score(&self, users: &[u32], history: &Lists, out: &mut [f32]) {
            self.1.fetch_max(out.len(), Ordering::Relaxed);
            self.0.score(users, history, out);
        }
    }
    let (n_users, n_items) = (300, 20_000);
    let user = Embedding::normal(n_users, 4, 1.0, seed(1), "user");
    let item = Embedding::normal(n_items, 4, 1.0, seed(1), "item");
    let relevant: Vec<Vec<u32>> = (0..n_users as u32).map(|u| vec![u, 50 * u + 7]).collect();
    let relevant = lists(&relevant.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let train = lists(&vec![&[19_999u32][..]; n_users]);
    let task = Task {
        train: &train,
        sequences: None,
        aside: None,
        relevant: &relevant,
        keep_history: false,
    };
    let run = |threads| {
        let watched =
            Watched(Pair::new(&user, &item, Similarity::Cosine).unwrap(), AtomicUsize::new(0));
        let report = with_threads(Some(threads), || {
            ranking(&watched, &task, &settings(&[5]), &Job::silent()).unwrap()
        });
        (report.unwrap(), watched.1.into_inner())
    };
    let (one, most) = run(1);
    assert!(most <= 1 << 21, "{most} scores at once");
    for threads in [2, 5] {
        assert_eq!(run(threads).0, one);
    }
}

/// Item 0 of the history has the highest score, so item 1 is first without it and second with it.
#[test]
fn the_history_is_ranked_if_it_is_kept() {
    let (train, relevant) = (lists(&[&[0]]), lists(&[&[1]]));
    let mrr = |keep_history| {
        let task =
            Task { train: &train, sequences: None, aside: None, relevant: &relevant, keep_history };
        let table = FixedScores { n_items: 3, scores: vec![3.0, 2.0, 1.0] };
        let report = ranking(&table, &task, &settings(&[1]), &Job::silent()).unwrap();
        report.get("full", "mrr").unwrap().value
    };
    assert_eq!([mrr(false), mrr(true)], [1.0, 0.5]);
}

#[test]
fn what_cannot_be_evaluated_is_reported() {
    let table = |scores: &[f32]| FixedScores { n_items: 3, scores: scores.to_vec() };
    let (train, relevant) = (lists(&[&[0]]), lists(&[&[1]]));
    let task = Task {
        train: &train,
        sequences: None,
        aside: None,
        relevant: &relevant,
        keep_history: false,
    };
    let message = |scores: &[f32], task: &Task<'_>, ks: &[usize]| {
        ranking(&table(scores), task, &settings(ks), &Job::silent()).unwrap_err().to_string()
    };
    assert_eq!(message(&[0.0; 3], &task, &[0]), "⟨k⟩ must be at least 1, got 0");
    assert_eq!(
        message(&[0.0, f32::NAN, 0.0], &task, &[1]),
        "the score of item number 1 for user number 0 is NaN: the vectors contain values that are NaN or too large"
    );
    let known = Task { relevant: &train, ..task };
    assert_eq!(
        message(&[0.0; 3], &known, &[1]),
        "no user has a held-out item that is not in training: choose another ⟨split⟩"
    );
    let wide = lists(&[&[7]]);
    assert_eq!(
        message(&[0.0; 3], &Task { relevant: &wide, ..task }, &[1]),
        "there are vectors of 3 items, fewer than in the data"
    );
    let (two, three) = (Embedding::zeros(1, 2), Embedding::zeros(1, 3));
    let error = Pair::new(&two, &three, Similarity::Dot).unwrap_err().to_string();
    assert!(error.starts_with("user vectors have dimension 2 and item vectors 3"), "{error}");
    let model = Model::Popularity(vec![1.0]);
    let error = evaluate::ratings(&model, &[0], &[0], &[3.0]).unwrap_err().to_string();
    assert!(error.starts_with("this model ranks items but does not predict ratings"), "{error}");
}

/// Errors of ratings share a part per user. The 95 % interval of RMSE contains the true value in about 95 of 100
/// repetitions: 1,000 of them have a standard error of 0.7 points, five of which are allowed, and the normal
/// approximation for 100 users costs about one more.
#[test]
fn intervals_of_ratings_hold_what_they_promise() {
    let (n_users, shared, own) = (100usize, 0.8f64, 0.6f64);
    let truth = (shared * shared + own * own).sqrt();
    let mut held = 0;
    for repetition in 0..1000u32 {
        let stream = Stream::new(seed(9), "ratings");
        let (mut user, mut rating) = (vec![], vec![]);
        for u in 0..n_users {
            let n = 1 + (7 * u + 3) % 9;
            let mut normals = vec![0.0; n + 1];
            stream.at(repetition, u as u64).fill_normals(&mut normals);
            for noise in &normals[1..] {
                user.push(u as u32);
                rating.push((3.0 + shared * normals[0] + own * noise) as f32);
            }
        }
        let model = Model::Factors(Factors {
            user: Embedding::zeros(n_users, 1),
            item: Embedding::zeros(1, 1),
            user_bias: None,
            item_bias: None,
            mean: 3.0,
        });
        let item = vec![0; user.len()];
        let rmse = evaluate::ratings(&model, &user, &item, &rating).unwrap().rmse;
        held += usize::from(rmse.low <= truth && truth <= rmse.high);
    }
    assert!((905..=985).contains(&held), "{held} of 1000");
}

/// Several runs on the same users: the variance between runs adds to the variance between users.
#[test]
fn seeds_widen_the_interval_by_their_spread() {
    let relevant = lists(&[&[0], &[1], &[2], &[3]]);
    let train = lists(&[&[], &[], &[], &[]]);
    let task = Task {
        train: &train,
        sequences: None,
        aside: None,
        relevant: &relevant,
        keep_history: false,
    };
    let run = |s: u64| {
        let noise = Embedding::normal(4, 30, 1.0, seed(s), "scores");
        ranking(
            &FixedScores { n_items: 30, scores: noise.into_values() },
            &task,
            &settings(&[3]),
            &Job::silent(),
        )
        .unwrap()
    };
    let runs: Vec<Report> = (0..5).map(run).collect();
    let combined = combine(&runs).unwrap();
    let auc: Vec<_> = runs.iter().map(|run| run.get("full", "auc").unwrap()).collect();
    let mean = auc.iter().map(|e| e.value).sum::<f64>() / 5.0;
    let between = auc.iter().map(|e| (e.value - mean).powi(2)).sum::<f64>() / 4.0 / 5.0;
    let all = combined.get("full", "auc").unwrap();
    assert!((all.value - mean).abs() < 1e-15);
    assert_eq!((all.n, all.seeds), (4, 5));
    assert!(all.half_width() > 1.96 * between.sqrt());
    assert_eq!(combine(&runs[..1]).unwrap(), runs[0]);
    assert!(combine(&[]).is_none());
}
