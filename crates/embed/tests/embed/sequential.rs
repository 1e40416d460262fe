//! SASRec and two-tower: they learn the next item, and results are byte-identical across threads and interruptions.

use proptest as _;
use serde_json::{Map, Value, json};
use veridical_core::Job;
use veridical_core::Progress;
use veridical_core::{Seed, Stream};
use veridical_data::{IdMap, Interactions, Lists, TensorMap};
use veridical_embed::evaluate::{Protocol, Settings, Task, ranking};
use veridical_embed::{Embedding, Graphs, Input, Method, Model, Scorer, Trainer};

const USERS: u32 = 240;
const ITEMS: u32 = 60;

/// Every user cycles through the items in steps of 7 from a random start; one in five items is arbitrary. The last item is
/// held out.
fn planted() -> (Interactions, Vec<u32>, Lists) {
    let mut data = Interactions {
        users: IdMap::numbered(USERS as usize),
        items: IdMap::numbered(ITEMS as usize),
        user: Vec::new(),
        item: Vec::new(),
        rating: None,
        time: None,
    };
    let stream = Stream::new(seed(), "planted");
    let (mut train, mut last) = (Vec::new(), Vec::new());
    for u in 0..USERS {
        let mut draws = stream.at(0, u.into()).draws();
        let (length, start) = (8 + draws.below(9), draws.below(ITEMS));
        for t in 0..=length {
            let is_any = draws.below(5) == 0 && t < length;
            let item = if is_any { draws.below(ITEMS) } else { (start + 7 * t) % ITEMS };
            match t == length {
                true => last.push((u, item)),
                false => train.push(data.user.len() as u32),
            }
            data.user.push(u);
            data.item.push(item);
        }
    }
    let relevant = Lists::collect(USERS as usize, last.into_iter());
    (data, train, relevant)
}

fn settings(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

fn small(loss: &str) -> Map<String, Value> {
    let negatives = if loss == "sampled-softmax" { 30 } else { 2 };
    settings(json!({
        "dim": 16, "length": 12, "blocks": 1, "loss": loss, "negatives": negatives, "batch": 32,
        "epochs": 30, "lr": 0.004, "dropout": 0.1, "sse-input": 0.02, "sse-target": 0.02,
    }))
}

fn towers() -> Map<String, Value> {
    settings(json!({
        "dim": 32, "hidden": 16, "negatives": 3, "batch": 16, "epochs": 40, "lr": 0.02, "weight-decay": 0.0,
    }))
}

fn seed() -> Seed {
    Seed::new(5).unwrap()
}

fn epochs(trainer: &mut dyn Trainer, epochs: std::ops::Range<u32>) {
    for epoch in epochs {
        trainer.epoch(epoch, &Progress::hidden()).unwrap();
    }
}

/// NDCG@10 among all items.
fn ndcg(scorer: &dyn Scorer, data: &Interactions, train: &[u32], relevant: &Lists) -> f64 {
    let (known, sequences) = (data.by_user(train), data.sequences(train));
    // Items repeat here: nothing is excluded from the ranking.
    let none = Lists::collect(known.len(), std::iter::empty());
    let task = Task {
        train: &none,
        sequences: Some(&sequences),
        aside: None,
        relevant,
        keep_history: false,
    };
    let settings = Settings { ks: vec![10], protocols: vec![Protocol::Full], seed: seed() };
    ranking(scorer, &task, &settings, &Job::silent()).unwrap().get("full", "ndcg@10").unwrap().value
}

#[test]
fn planted_sequences_are_learned_and_popularity_is_beaten() {
    let (data, train, relevant) = planted();
    let graphs = Graphs::default();
    let learn = |method: Method, given: &Map<String, Value>, n: u32| {
        let mut trainer = method.trainer(given, Input::of(&data, &train), &graphs, seed()).unwrap();
        epochs(&mut *trainer, 0..n);
        trainer.into_model()
    };
    let of = |model: &Model| ndcg(&*model.scorer().unwrap(), &data, &train, &relevant);
    let popular = of(&learn(Method::Pop, &Map::new(), 1));
    for loss in ["bce", "gbce", "sampled-softmax", "ce"] {
        let value = of(&learn(Method::Sasrec, &small(loss), 80));
        assert!(value > 0.4 && popular < 0.1, "{loss}: {value}, popularity {popular}");
    }
    for loss in ["bce", "bpr"] {
        let mut given = towers();
        given.insert("loss".into(), loss.into());
        let value = of(&learn(Method::TwoTower, &given, 40));
        assert!(value > 0.4, "two-tower {loss}: {value}");
    }
}

/// The order of a history matters only to these models, and a history longer than `length` is cut to its last items.
#[test]
fn histories_are_read_in_their_order() {
    let (data, train, _) = planted();
    let graphs = Graphs::default();
    let input = Input::of(&data, &train);
    let mut trainer = Method::Sasrec.trainer(&small("ce"), input, &graphs, seed()).unwrap();
    assert!(trainer.notes()[0].contains("longer than ⟨length⟩ 12"), "{:?}", trainer.notes());
    epochs(&mut *trainer, 0..2);
    let model = trainer.into_model();
    let scorer = model.scorer().unwrap();
    assert!(scorer.is_sequential());
    let scores = |items: &[u32]| {
        let history = Lists::collect(1, items.iter().map(|&i| (0, i)));
        let mut out = vec![f32::NAN; ITEMS as usize];
        scorer.score(&[0], &history, &mut out);
        out
    };
    assert_ne!(scores(&[1, 2, 3]), scores(&[3, 2, 1]));
    let long: Vec<u32> = (0..30).collect();
    assert_eq!(scores(&long), scores(&long[18..]));
    assert_eq!(scores(&[]), vec![0.0; ITEMS as usize]);
}

fn parts(model: &Model) -> TensorMap {
    model.tensors().unwrap()
}

#[test]
fn a_resumed_run_equals_an_uninterrupted_one() {
    let (data, train, _) = planted();
    let graphs = Graphs::default();
    for (method, given) in [
        (Method::Sasrec, small("bce")),
        (Method::Sasrec, small("ce")),
        (Method::TwoTower, towers()),
    ] {
        let fresh = || method.trainer(&given, Input::of(&data, &train), &graphs, seed()).unwrap();
        let mut whole = fresh();
        epochs(&mut *whole, 0..3);
        let mut first = fresh();
        epochs(&mut *first, 0..2);
        let saved = parts(first.model());
        let mut second = fresh();
        second.restore(Model::from_parts(saved).unwrap()).unwrap();
        epochs(&mut *second, 2..3);
        assert!(parts(second.model()) == parts(whole.model()), "{}", method.name());
        let done = whole.into_model();
        assert!(parts(&done).keys().all(|name| !name.starts_with("state.")));
        assert_eq!(Model::from_parts(parts(&done)).unwrap(), done);
    }
}

#[test]
fn threads_change_no_byte() {
    let (data, train, _) = planted();
    for (method, given) in [
        (Method::Sasrec, small("bce")),
        (Method::Sasrec, small("sampled-softmax")),
        (Method::Sasrec, small("ce")),
        (Method::TwoTower, towers()),
    ] {
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let graphs = Graphs::default();
                let input = Input::of(&data, &train);
                let mut trainer = method.trainer(&given, input, &graphs, seed()).unwrap();
                epochs(&mut *trainer, 0..2);
                parts(trainer.model())
            })
        };
        assert!(run(1) == run(2) && run(1) == run(3), "{}", method.name());
    }
}

#[test]
fn given_vectors_are_fixed_unless_trained() {
    let (data, train, _) = planted();
    let graphs = Graphs::default();
    let given = Embedding::normal(ITEMS as usize, 6, 1.0, seed(), "given");
    let input = Input::Interactions { data: &data, rows: &train, item_vectors: Some(&given) };
    for moves in [false, true] {
        let mut options = towers();
        options.insert("train-vectors".into(), moves.into());
        let mut trainer = Method::TwoTower.trainer(&options, input, &graphs, seed()).unwrap();
        epochs(&mut *trainer, 0..1);
        let Model::Sequential(model) = trainer.into_model() else { panic!() };
        assert_eq!(model.item == given, !moves);
        assert_eq!(model.item.dim(), 6);
    }
}

/// A catalog below the 32 usual negatives gives all other items.
#[test]
fn a_small_catalog_has_fewer_negatives() {
    let (data, train, _) = planted();
    let few = Interactions { items: IdMap::numbered(20), ..data.clone() };
    let negatives = |given: Value, data: &Interactions| {
        let resolved = Method::TwoTower.resolved(&settings(given), Input::of(data, &train));
        resolved.unwrap()["negatives"].clone()
    };
    assert_eq!(negatives(json!({}), &data), 32);
    assert_eq!(negatives(json!({}), &few), 19);
    assert_eq!(negatives(json!({ "negatives": 2 }), &few), 2);
}

#[test]
fn bad_settings_and_a_diverging_loss_are_named() {
    let (data, train, _) = planted();
    let graphs = Graphs::default();
    let says = |method: Method, given: Value| {
        let mut all = if method == Method::Sasrec { small("bce") } else { towers() };
        all.extend(settings(given));
        let trainer = method.trainer(&all, Input::of(&data, &train), &graphs, seed());
        trainer
            .and_then(|mut trainer| {
                (0..20).try_for_each(|e| trainer.epoch(e, &Progress::hidden()).map(|_| ()))
            })
            .unwrap_err()
            .to_string()
    };
    let sasrec = |given: Value| says(Method::Sasrec, given);
    assert_eq!(sasrec(json!({ "heads": 3 })), "⟨heads⟩ must be a divisor of ⟨dim⟩ 16, got 3");
    assert_eq!(sasrec(json!({ "length": 0 })), "⟨length⟩ must be at least 1, got 0");
    assert!(sasrec(json!({ "negatives": 60 })).contains("below the number of items, 60"));
    assert_eq!(sasrec(json!({ "calibration": 2.0 })), "⟨calibration⟩ must be from 0 to 1, got 2");
    assert_eq!(sasrec(json!({ "sse-input": 1.5 })), "⟨sse-input⟩ must be from 0 to 1, got 1.5");
    assert!(sasrec(json!({ "lr": 1e30 })).contains("training diverged"));
    assert!(says(Method::TwoTower, json!({ "hidden": 0 })).contains("⟨hidden⟩"));
    assert!(says(Method::TwoTower, json!({ "lr": 1e30 })).contains("training diverged"));
    let mut other = small("bce");
    other.insert("dim".into(), 8.into());
    let wider = Method::Sasrec.trainer(&small("bce"), Input::of(&data, &train), &graphs, seed());
    let narrow = Method::Sasrec.trainer(&other, Input::of(&data, &train), &graphs, seed()).unwrap();
    let refused = wider.unwrap().restore(narrow.into_model()).unwrap_err().to_string();
    assert!(refused.contains("has another configuration"), "{refused}");
}
