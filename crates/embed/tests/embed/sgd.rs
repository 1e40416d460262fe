//! The SGD trainers through their public API: what they recover, and what they guarantee.

use serde_json::{Value, json};
use veridical_core::Error as Kind;
use veridical_core::Progress;
use veridical_core::settings::Settings as _;
use veridical_core::threads::with_threads;
use veridical_data::{Graph, Interactions};
use veridical_embed::trainers::doc2vec;
use veridical_embed::{Error, Graphs, Input, Method, Model, Result};

use crate::common::{all_rows, lists, purity, seed, settings, shop, texts, train};

fn input<'a>(data: &'a Interactions, rows: &'a [u32]) -> Input<'a> {
    Input::of(data, rows)
}

fn learn(method: Method, values: Value) -> Result<Model> {
    let data = shop(200, 80, 40);
    train(method, values, input(&data, &all_rows(&data)), &Graphs::default())
}

/// Settings under which each method learns the planted clusters in a second.
fn cases() -> Vec<(Method, Value)> {
    vec![
        (Method::Mf, json!({ "dim": 8, "epochs": 10, "lr": 0.05 })),
        (Method::Bpr, json!({ "dim": 8, "epochs": 10, "biases": true, "negatives": 2 })),
        (Method::Item2vec, json!({ "dim": 8, "epochs": 30, "lr": 0.05 })),
        (Method::Item2vec, json!({ "dim": 8, "epochs": 30, "lr": 0.05, "cbow": true })),
    ]
}

fn with(mut values: Value, more: Value) -> Value {
    let more = more.as_object().unwrap().clone();
    values.as_object_mut().unwrap().extend(more);
    values
}

/// By chance the nearest neighbor is in the same cluster with probability 1/4.
#[test]
fn every_method_recovers_the_planted_clusters_in_both_modes_with_sse_and_dropout() {
    let more = [
        json!({}),
        json!({ "mode": "hogwild" }),
        json!({ "sse-item": 0.05, "dropout": 0.1, "weight-decay": 0.001 }),
    ];
    for (method, values) in cases() {
        for more in &more {
            let values = with(values.clone(), more.clone());
            let model = with_threads(Some(3), || learn(method, values.clone())).unwrap().unwrap();
            let (Model::Factors(veridical_embed::Factors { item, .. }) | Model::Items { item, .. }) =
                &model
            else {
                panic!("no items");
            };
            let purity = purity(item);
            assert!(purity > 0.9, "{} {values}: {purity}", method.name());
        }
    }
}

#[test]
fn documents_of_a_topic_are_close_and_so_are_inferred_ones() {
    let corpus = texts(120, 60, 60);
    for more in [json!({}), json!({ "words": true }), json!({ "algorithm": "dm" })] {
        let values = with(json!({ "dim": 8, "epochs": 40, "lr": 0.05 }), more);
        let given = settings(values.clone());
        let model =
            train(Method::Doc2vec, values.clone(), Input::Text(&corpus), &Graphs::default())
                .unwrap();
        let Model::Documents { doc, .. } = &model else { panic!("no documents") };
        assert!(purity(doc) > 0.9, "{values}: {}", purity(doc));

        let settings = doc2vec::Settings::of(&given).unwrap();
        let infer = |docs: &_| {
            doc2vec::infer(&settings, &model, docs, seed(5), &Progress::hidden()).unwrap()
        };
        let inferred = infer(&corpus.tokens);
        assert!(purity(&inferred) > 0.9, "{values}: {}", purity(&inferred));
        // The same document with and without others, and an empty document.
        let alone = infer(&lists(&[&[], corpus.tokens.get(7)]));
        assert_eq!(alone.row(1), inferred.row(7));
        assert_eq!(alone.row(0), [0.0; 8]);
    }
}

#[test]
fn the_same_bytes_come_from_any_number_of_threads() {
    for (method, values) in cases() {
        let values = with(values, json!({ "epochs": 2, "sse-item": 0.1, "dropout": 0.2 }));
        let on = |threads| with_threads(Some(threads), || learn(method, values.clone()).unwrap());
        let want = on(1).unwrap();
        assert_eq!(on(2).unwrap(), want);
        assert_eq!(on(5).unwrap(), want);
    }
}

#[test]
fn a_resumed_training_ends_as_an_uninterrupted_one() {
    let data = shop(100, 40, 20);
    let rows = all_rows(&data);
    let (hidden, graphs) = (Progress::hidden(), Graphs::default());
    for (method, values) in cases() {
        let given = settings(with(values, json!({ "epochs": 3, "sse-item": 0.1 })));
        let begin = || method.trainer(&given, input(&data, &rows), &graphs, seed(3)).unwrap();
        let mut whole = begin();
        (0..3).for_each(|epoch| assert!(whole.epoch(epoch, &hidden).unwrap().is_some()));
        let mut first = begin();
        first.epoch(0, &hidden).unwrap();
        let mut second = begin();
        second.restore(first.model().clone()).unwrap();
        (1..3).for_each(|epoch| assert!(second.epoch(epoch, &hidden).unwrap().is_some()));
        assert_eq!(second.model(), whole.model(), "{}", method.name());
    }
}

#[test]
fn seeds_and_sse_change_the_result_and_p_of_zero_does_not() {
    let data = shop(50, 40, 10);
    let rows = all_rows(&data);
    let group_of: Vec<Vec<u32>> = (0..40).map(|i| vec![i % 4]).collect();
    let members: Vec<Vec<u32>> = (0..4).map(|g| (0..10).map(|i| 4 * i + g).collect()).collect();
    let of: Vec<&[u32]> = group_of.iter().map(Vec::as_slice).collect();
    let members: Vec<&[u32]> = members.iter().map(Vec::as_slice).collect();
    let groups = Graph::Groups { of: lists(&of), members: lists(&members) };
    let graphs = Graphs { item: Some(groups), ..Graphs::default() };
    for (method, values) in cases() {
        let run = |more: Value, graphs: &Graphs| {
            train(method, with(values.clone(), more), input(&data, &rows), graphs).unwrap()
        };
        let plain = run(json!({}), &Graphs::default());
        assert_eq!(run(json!({ "sse-item": 0.0 }), &graphs), plain);
        let simple = run(json!({ "sse-item": 0.2 }), &Graphs::default());
        assert_ne!(simple, plain);
        assert_ne!(run(json!({ "sse-item": 0.2 }), &graphs), simple);
    }
}

#[test]
fn a_diverging_run_names_the_epoch_and_the_rate() {
    let error = learn(Method::Mf, json!({ "lr": 1e4 })).unwrap_err();
    let Error::Core(Kind::Diverged { place, rate, .. }) = &error else { panic!("{error}") };
    assert_eq!((place.as_str(), *rate), ("epoch 1", 1e4));
    assert!(error.to_string().ends_with("lower ⟨lr⟩ or raise ⟨weight-decay⟩"), "{error}");
}

#[test]
fn settings_out_of_range_are_named() {
    let message = |method, values| learn(method, values).unwrap_err().to_string();
    assert_eq!(message(Method::Mf, json!({ "dim": 0 })), "⟨dim⟩ must be at least 1, got 0");
    assert_eq!(message(Method::Bpr, json!({ "lr": 0.0 })), "⟨lr⟩ must be above 0, got 0");
    assert_eq!(
        message(Method::Bpr, json!({ "negatives": 80 })),
        "⟨negatives⟩ must be at least 1 and below the number of items, 80, got 80"
    );
    assert_eq!(
        message(Method::Item2vec, json!({ "sse-item": 1.5 })),
        "⟨sse-item⟩ must be from 0 to 1, got 1.5"
    );
    assert_eq!(
        message(Method::Mf, json!({ "dropout": 1.0 })),
        "⟨dropout⟩ must be at least 0 and below 1, got 1"
    );
    assert_eq!(
        message(Method::Doc2vec, json!({})),
        "doc2vec learns from ⟨text⟩, not from ⟨interactions⟩"
    );
    let mut data = shop(5, 40, 3);
    data.rating = None;
    let rows = all_rows(&data);
    let refused = train(Method::Mf, json!({}), input(&data, &rows), &Graphs::default());
    assert_eq!(
        refused.unwrap_err().to_string(),
        "mf learns from ratings, but the interactions have none; bpr and als work without ratings"
    );
}
