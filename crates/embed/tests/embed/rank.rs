//! Closed forms, alternating least squares and fold-in through their public API.

use serde_json::{Value, json};
use veridical_core::threads::with_threads;
use veridical_data::{Graph, Interactions, Lists};
use veridical_embed::fold_in::{FoldIn, fold_in};
use veridical_embed::{Embedding, Factors, Graphs, Input, Method, Model, Result, recommend};

use crate::common::{CLUSTERS, all_rows, lists, purity, settings, shop, train};

fn learn(method: Method, values: Value, data: &Interactions, graphs: &Graphs) -> Result<Model> {
    let rows = all_rows(data);
    train(method, values, Input::of(data, &rows), graphs)
}

fn factors(model: Model) -> Factors {
    let Model::Factors(factors) = model else { panic!("no factors") };
    factors
}

/// Ranking methods, with settings that learn the planted clusters quickly.
fn cases() -> Vec<(Method, Value)> {
    vec![
        (Method::Pop, json!({})),
        (Method::ItemKnn, json!({ "neighbors": 15 })),
        (Method::Ease, json!({ "weight-decay": 10.0 })),
        (Method::Als, json!({ "dim": 8, "epochs": 6 })),
        (Method::Als, json!({ "dim": 7, "epochs": 6, "solver": "cholesky" })),
        (Method::PpmiSvd, json!({ "dim": 8 })),
    ]
}

/// A user's items are from the user's cluster nine times in ten, so nearly all of the best new ones are from it too.
#[test]
fn every_method_recommends_from_the_planted_cluster() {
    let data = shop(200, 80, 15);
    let history = data.by_user(&all_rows(&data));
    let users: Vec<u32> = (0..200).collect();
    for (method, values) in cases() {
        let model = learn(method, values.clone(), &data, &Graphs::default()).unwrap();
        let scorer = model.scorer().unwrap();
        let best = recommend(&*scorer, &users, &history, None, 3, false);
        let own = |(u, best): (usize, &Vec<veridical_learn::Scored>)| {
            best.iter().filter(|s| s.number as usize % CLUSTERS == u % CLUSTERS).count()
        };
        let share = best.iter().enumerate().map(own).sum::<usize>() as f64 / 600.0;
        let chance = method == Method::Pop;
        assert!(
            if chance { share < 0.5 } else { share > 0.9 },
            "{} {values}: {share}",
            method.name()
        );
        for (u, best) in best.iter().enumerate() {
            assert!(best.iter().all(|s| history.get(u).binary_search(&s.number).is_err()));
        }
    }
}

#[test]
fn neighbors_of_an_item_are_of_its_cluster() {
    let data = shop(300, 80, 30);
    for (method, values) in cases().into_iter().filter(|(method, _)| *method != Method::Pop) {
        let model = learn(method, values.clone(), &data, &Graphs::default()).unwrap();
        let near = |i: usize| model.similar("item", i, 1).unwrap()[0].number as usize;
        let same = (0..80).filter(|&i| near(i) % CLUSTERS == i % CLUSTERS).count();
        assert!(same > 72, "{} {values}: {same} of 80", method.name());
        assert!(model.similar("movie", 0, 1).is_err());
    }
    let pop = learn(Method::Pop, json!({}), &data, &Graphs::default()).unwrap();
    let message = pop.similar("item", 0, 1).unwrap_err().to_string();
    assert_eq!(message, "a popularity model has no similar items; train another method");
}

#[test]
fn threads_do_not_change_a_byte() {
    let data = shop(150, 80, 20);
    let groups = groups(150, 80);
    let with_graph =
        json!({ "dim": 5, "epochs": 2, "graph-weight-user": 0.1, "graph-weight-item": 0.2 });
    let explicit = json!({ "dim": 8, "epochs": 3, "feedback": "explicit" });
    let cases = cases().into_iter().chain([(Method::Als, explicit)]);
    let cases = cases.map(|case| (case, Graphs::default()));
    for ((method, values), graphs) in cases.chain([((Method::Als, with_graph), groups)]) {
        let run = |threads| {
            with_threads(Some(threads), || learn(method, values.clone(), &data, &graphs).unwrap())
                .unwrap()
        };
        let one = run(1);
        for threads in [2, 5] {
            assert!(run(threads) == one, "{} {values} on {threads} threads", method.name());
        }
    }
}

fn groups(users: usize, items: usize) -> Graphs {
    let graph = |n: usize| {
        let of: Vec<Vec<u32>> = (0..n as u32).map(|j| vec![j % 4, 4 + j % 3]).collect();
        let of: Vec<&[u32]> = of.iter().map(Vec::as_slice).collect();
        let of = lists(&of);
        let pairs = (0..n).flat_map(|j| of.get(j).iter().map(move |&g| (g, j as u32)));
        let members = Lists::collect(7, pairs.collect::<Vec<_>>().into_iter());
        Some(Graph::Groups { of, members })
    };
    Graphs { user: graph(users), item: graph(items), ..Graphs::default() }
}

/// The whole objective from its definition, in f64 over all pairs.
fn objective(data: &Interactions, f: &Factors, s: &Objective, graphs: &Graphs) -> f64 {
    let value = |a: &[f32], b: &[f32]| -> f64 {
        a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    };
    let rating = data.rating.as_ref().unwrap();
    let mut sum = 0.0;
    if s.explicit {
        for (r, rating) in rating.iter().enumerate() {
            let p = value(f.user.row(data.user[r] as usize), f.item.row(data.item[r] as usize));
            sum += (f64::from(rating - f.mean) - p).powi(2);
        }
    } else {
        for u in 0..f.user.n_rows() {
            for i in 0..f.item.n_rows() {
                let own = (0..data.len())
                    .filter(|&r| (data.user[r], data.item[r]) == (u as u32, i as u32));
                let total: f64 = own.map(|r| f64::from(rating[r])).sum();
                let p = value(f.user.row(u), f.item.row(i));
                let chosen = f64::from(u8::from(total > 0.0));
                sum += (1.0 + s.alpha * total) * (chosen - p).powi(2);
            }
        }
    }
    let norm = |table: &Embedding| value(table.values(), table.values());
    sum += s.decay * (norm(&f.user) + norm(&f.item));
    for (table, graph, weight) in
        [(&f.user, &graphs.user, s.graph), (&f.item, &graphs.item, s.graph)]
    {
        let Some(graph) = graph else { continue };
        for j in 0..table.n_rows() {
            for k in 0..j {
                let gap: f64 = table
                    .row(j)
                    .iter()
                    .zip(table.row(k))
                    .map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2))
                    .sum();
                sum += weight * edge(graph, j, k) * gap;
            }
        }
    }
    sum
}

fn edge(graph: &Graph, j: usize, k: usize) -> f64 {
    match graph {
        Graph::Groups { of, .. } => {
            of.get(j).iter().filter(|g| of.get(k).contains(g)).count() as f64
        }
        Graph::Edges { neighbors, weights } => {
            let at = neighbors.get(j).binary_search(&(k as u32));
            at.map_or(0.0, |at| {
                let place = neighbors.range(j).start + at;
                weights.as_ref().map_or(1.0, |w| f64::from(w[place]))
            })
        }
    }
}

struct Objective {
    explicit: bool,
    alpha: f64,
    decay: f64,
    graph: f64,
}

fn edges(users: usize, items: usize) -> Graphs {
    let ring = |n: usize| {
        let near: Vec<Vec<u32>> = (0..n)
            .map(|j| {
                let mut near = vec![((j + 1) % n) as u32, ((j + n - 1) % n) as u32];
                near.sort_unstable();
                near
            })
            .collect();
        let near: Vec<&[u32]> = near.iter().map(Vec::as_slice).collect();
        let neighbors = lists(&near);
        let weight = |(j, k): (usize, u32)| 0.5 + ((j + k as usize) % 3) as f32;
        let weights = (0..n).flat_map(|j| {
            neighbors.get(j).iter().map(move |&k| weight((j, k))).collect::<Vec<_>>()
        });
        Some(Graph::Edges { weights: Some(weights.collect()), neighbors })
    };
    Graphs { user: ring(users), item: ring(items), ..Graphs::default() }
}

/// Every iteration lowers the objective, and at the end it is stationary: its gradient, by finite differences, is
/// zero up to the f32 noise in the values.
#[test]
fn als_lowers_its_objective_to_a_point_without_gradient() {
    let data = shop(12, 8, 6);
    let none = Graphs::default();
    for (explicit, solver, graphs) in [
        (false, "cg", &none),
        (false, "cholesky", &none),
        (true, "cg", &none),
        (true, "cholesky", &none),
        (false, "cg", &groups(12, 8)),
        (true, "cholesky", &groups(12, 8)),
        (true, "cg", &edges(12, 8)),
        (false, "cholesky", &edges(12, 8)),
    ] {
        let graph = if graphs.user.is_some() { 0.3 } else { 0.0 };
        let s = Objective { explicit, alpha: 0.7, decay: 0.5, graph };
        let feedback = if explicit { "explicit" } else { "implicit" };
        let values = |epochs: u32| {
            json!({
                "dim": 3, "epochs": epochs, "feedback": feedback, "solver": solver, "alpha": 0.7,
                "weight-decay": 0.5, "graph-weight-user": graph, "graph-weight-item": graph,
            })
        };
        let mut last = f64::INFINITY;
        for epochs in [1, 2, 3, 5, 10, 40] {
            let model = factors(learn(Method::Als, values(epochs), &data, graphs).unwrap());
            let now = objective(&data, &model, &s, graphs);
            assert!(
                now <= last * (1.0 + 1e-6),
                "{values:?}: {now} after {last}",
                values = values(epochs)
            );
            last = now;
        }
        let model = factors(learn(Method::Als, values(400), &data, graphs).unwrap());
        let base = objective(&data, &model, &s, graphs);
        let step = 1e-2;
        for at in 0..model.user.values().len() {
            let moved = |by: f32| {
                let mut moved = model.clone();
                moved.user.values_mut()[at] += by;
                objective(&data, &moved, &s, graphs)
            };
            let slope = (moved(step) - moved(-step)) / (2.0 * f64::from(step));
            // Values near 1 carry 2^-24, curvatures are below a few hundred.
            assert!(slope.abs() < 2e-3 * base.max(1.0).sqrt(), "{solver} {feedback} {at}: {slope}");
        }
    }
}

/// A graph Laplacian pulls neighbors together.
#[test]
fn a_laplacian_brings_neighbors_closer() {
    let data = shop(40, 20, 8);
    let graphs = edges(40, 20);
    let spread = |weight: f64| {
        let values = json!({ "dim": 4, "epochs": 20, "feedback": "explicit", "weight-decay": 1.0,
            "graph-weight-user": weight, "cg-steps": 10 });
        let user = factors(learn(Method::Als, values, &data, &graphs).unwrap()).user;
        let gap = |j: usize| -> f64 {
            let pair = user.row(j).iter().zip(user.row((j + 1) % 40));
            pair.map(|(a, b)| f64::from(a - b).powi(2)).sum()
        };
        let norm: f64 = user.values().iter().map(|x| f64::from(x * x)).sum();
        (0..40).map(gap).sum::<f64>() / norm
    };
    let (free, tied) = (spread(0.0), spread(3.0));
    assert!(tied < 0.5 * free, "{tied} against {free}");
    let message =
        learn(Method::Als, json!({ "graph-weight-item": 1.0 }), &data, &Graphs::default());
    let message = message.unwrap_err().to_string();
    assert!(
        message.starts_with("⟨graph-weight-item⟩ is 1, but that table has no graph"),
        "{message}"
    );
}

/// The chosen alpha and decay are for interactions without ratings: ratings are taken relative to their mean, and explicit feedback
/// and a decay per entry keep a small decay.
#[test]
fn the_defaults_of_als_depend_on_the_feedback() {
    let data = shop(30, 20, 6);
    let rows = all_rows(&data);
    let of = |data: &Interactions, values: Value| {
        let resolved = Method::Als.resolved(&settings(values), Input::of(data, &rows)).unwrap();
        [resolved["alpha"].as_f64(), resolved["weight-decay"].as_f64()]
    };
    let rating = data.rating.clone().unwrap();
    let mean = rating.iter().map(|&r| f64::from(r)).sum::<f64>() / rating.len() as f64;
    assert_eq!(of(&data, json!({})), [Some(10.0 / mean), Some(50.0)]);
    assert_eq!(of(&data, json!({ "alpha": 2.0 })), [Some(2.0), Some(50.0)]);
    assert_eq!(of(&data, json!({ "scaled-decay": true }))[1], Some(0.01));
    assert_eq!(of(&data, json!({ "feedback": "explicit" })), [None, Some(0.01)]);
    let unrated = Interactions { rating: None, ..data.clone() };
    assert_eq!(of(&unrated, json!({})), [Some(10.0), Some(50.0)]);
    // Ratings that are all equal say nothing more than none.
    let same = Interactions { rating: Some(vec![4.0; rating.len()]), ..data.clone() };
    let values = json!({ "dim": 4, "epochs": 3 });
    let vectors = |data: &Interactions| {
        factors(learn(Method::Als, values.clone(), data, &Graphs::default()).unwrap()).user
    };
    assert_eq!(vectors(&same), vectors(&unrated));
}

/// At convergence, folding a user in from the training history reproduces the trained user.
#[test]
fn folded_in_users_score_like_those_that_were_learned() {
    let data = shop(30, 20, 6);
    let rows = all_rows(&data);
    for values in [
        json!({ "dim": 4, "epochs": 400, "solver": "cholesky", "weight-decay": 1.0, "alpha": 2.0 }),
        json!({ "dim": 4, "epochs": 400, "solver": "cholesky", "feedback": "explicit", "weight-decay": 0.3,
            "scaled-decay": true }),
    ] {
        let model = learn(Method::Als, values.clone(), &data, &Graphs::default()).unwrap();
        let problem = FoldIn::of(Method::Als, &settings(values.clone())).unwrap();
        // One entry per pair, ratings summed as implicit feedback does; repeats kept for explicit.
        let implicit = matches!(problem, FoldIn::Confidence { .. });
        let rating = data.rating.as_ref().unwrap();
        let mut entries: Vec<(u32, u32, f32)> = Vec::new();
        for &r in &rows {
            let (u, i, y) = (data.user[r as usize], data.item[r as usize], rating[r as usize]);
            match entries.iter_mut().find(|e| implicit && (e.0, e.1) == (u, i)) {
                Some(same) => same.2 += y,
                None => entries.push((u, i, y)),
            }
        }
        let history = Lists::collect(30, entries.iter().map(|e| (e.0, e.1)));
        let mut by_user = entries.clone();
        by_user.sort_by_key(|e| e.0);
        let ratings: Vec<f32> = by_user.iter().map(|e| e.2).collect();
        let users: Vec<u32> = (0..30).collect();
        let (mut own, mut new) = (vec![0.0; 30 * 20], vec![0.0; 30 * 20]);
        model.scorer().unwrap().score(&users, &history, &mut own);
        let folded = fold_in(&model, &history, Some(&ratings), problem).unwrap();
        folded.score(&users, &history, &mut new);
        let gap = own.iter().zip(&new).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(gap < 1e-3, "{values}: {gap}");
        if !implicit {
            assert!(fold_in(&model, &history, None, problem).is_err());
        }
    }
}

/// New users of a planted cluster get its items from every method.
#[test]
fn new_users_are_served() {
    let data = shop(200, 80, 30);
    let history = lists(&[&[0, 4, 8, 12], &[1, 5, 9, 13], &[]]);
    let mut cases = cases();
    cases.push((Method::Bpr, json!({ "dim": 8, "epochs": 10 })));
    for (method, values) in cases.into_iter().filter(|(method, _)| *method != Method::Pop) {
        let model = learn(method, values.clone(), &data, &Graphs::default()).unwrap();
        let problem = FoldIn::of(method, &settings(values.clone())).unwrap();
        let scorer = fold_in(&model, &history, None, problem).unwrap();
        let best = recommend(&*scorer, &[0, 1, 2], &history, None, 5, false);
        for (u, best) in best[..2].iter().enumerate() {
            let own = best.iter().filter(|s| s.number as usize % CLUSTERS == u).count();
            assert!(own >= 4, "{} {values}: {own} of 5 for user {u}", method.name());
        }
        assert_eq!(best[2].len(), 5);
    }
}

#[test]
fn vectors_of_items_recover_the_clusters() {
    let data = shop(300, 80, 30);
    let model = learn(Method::PpmiSvd, json!({ "dim": 4 }), &data, &Graphs::default()).unwrap();
    let Model::Items { item, .. } = &model else { panic!("no items") };
    assert!(purity(item) > 0.95, "{}", purity(item));
}

#[test]
fn settings_out_of_range_are_named() {
    let data = shop(20, 8, 3);
    for (method, values, message) in [
        (Method::Als, json!({ "dim": 0 }), "⟨dim⟩ must be at least 1, got 0"),
        (Method::Als, json!({ "cg-steps": 0 }), "⟨cg-steps⟩ must be at least 1, got 0"),
        (Method::Als, json!({ "alpha": -1.0 }), "⟨alpha⟩ must be 0 or above, got -1"),
        (Method::ItemKnn, json!({ "neighbors": 0 }), "⟨neighbors⟩ must be at least 1, got 0"),
        (Method::ItemKnn, json!({ "shrink": -2.0 }), "⟨shrink⟩ must be 0 or above, got -2"),
        (Method::Ease, json!({ "weight-decay": 0.0 }), "⟨weight-decay⟩ must be above 0, got 0"),
        (
            Method::PpmiSvd,
            json!({ "dim": 9 }),
            "⟨dim⟩ must be from 1 to the number of items, 8, got 9",
        ),
        (Method::PpmiSvd, json!({ "dim": 2, "window": 0 }), "⟨window⟩ must be at least 1, got 0"),
        (Method::PpmiSvd, json!({ "dim": 2, "shift": 0.0 }), "⟨shift⟩ must be above 0, got 0"),
    ] {
        let error = learn(method, values, &data, &Graphs::default()).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
    let unrated = Interactions { rating: None, ..data };
    let values = json!({ "feedback": "explicit" });
    let error = learn(Method::Als, values, &unrated, &Graphs::default()).unwrap_err().to_string();
    assert_eq!(
        error,
        "als ⟨feedback⟩ explicit learns from ratings, but the interactions have none"
    );
}

/// The confidence interval of its RMSE is below the RMSE of the mean rating.
#[test]
fn explicit_als_predicts_the_planted_ratings() {
    let data = shop(800, 80, 60);
    let (test, rows): (Vec<u32>, Vec<u32>) = all_rows(&data).into_iter().partition(|r| r % 5 == 0);
    let values = json!({ "dim": 4, "feedback": "explicit", "weight-decay": 2.0 });
    let input = Input::of(&data, &rows);
    let model = train(Method::Als, values, input, &Graphs::default()).unwrap();
    let of = |values: &[u32]| test.iter().map(|&r| values[r as usize]).collect::<Vec<_>>();
    let rating: Vec<f32> =
        test.iter().map(|&r| data.rating.as_ref().unwrap()[r as usize]).collect();
    let report =
        veridical_embed::evaluate::ratings(&model, &of(&data.user), &of(&data.item), &rating);
    let report = report.unwrap();
    let mean = rating.iter().sum::<f32>() / rating.len() as f32;
    let squares: f32 = rating.iter().map(|r| (r - mean).powi(2)).sum();
    let knowing_nothing = f64::from(squares / rating.len() as f32).sqrt();
    assert!(report.rmse.high < knowing_nothing, "{report:?} against {knowing_nothing}");
    assert!(report.rmse.low < report.rmse.value && report.rmse.value < report.rmse.high);
    assert!(report.mae.value < report.rmse.value);
}

/// A new user who rates like a cluster is predicted to continue that way: the unseen items of the cluster get the
/// higher ratings, all on the scale of the data.
#[test]
fn ratings_of_new_users_are_predicted() {
    let data = shop(300, 80, 60);
    let values = json!({ "dim": 8, "epochs": 30, "lr": 0.05 });
    let model = learn(Method::Mf, values.clone(), &data, &Graphs::default()).unwrap();
    let rated: Vec<u32> = (0..24).collect();
    let ratings: Vec<f32> = rated.iter().map(|i| if i % 4 == 0 { 4.5 } else { 1.5 }).collect();
    let history = lists(&[&rated]);
    let problem = FoldIn::of(Method::Mf, &settings(values)).unwrap();
    let mut scores = vec![0.0; 80];
    fold_in(&model, &history, Some(&ratings), problem).unwrap().score(&[0], &history, &mut scores);
    let mean = |own: bool| {
        let of: Vec<f32> = (24..80).filter(|i| (i % 4 == 0) == own).map(|i| scores[i]).collect();
        of.iter().sum::<f32>() / of.len() as f32
    };
    let (own, other) = (mean(true), mean(false));
    assert!(own > other + 1.0, "{own} against {other}");
    assert!(scores.iter().all(|s| (0.0..6.0).contains(s)), "{scores:?}");
}
