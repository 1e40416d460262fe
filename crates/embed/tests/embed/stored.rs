//! Vector tables that are read in passes recommend what the model in memory does, to the last bit.

use serde_json::{Value, json};
use veridical_core::{Job, Seed};
use veridical_data::{Lists, StoredRows};
use veridical_embed::fold_in::{FoldIn, fold_in};
use veridical_embed::{
    Embedding, Factors, Graphs, Input, Method, Model, Result, StoredVectors, UserVectors, recommend,
};
use veridical_learn::Scored;

use crate::common::{all_rows, settings, shop, train};

/// A matrix in memory that is read by row.
struct Kept(Embedding);

impl StoredRows for Kept {
    fn n_rows(&self) -> usize {
        self.0.n_rows()
    }

    fn dim(&self) -> usize {
        self.0.dim()
    }

    fn read(&mut self, first: usize, n: usize, rows: &mut Vec<f32>) -> veridical_core::Result<()> {
        rows.clear();
        rows.extend_from_slice(&self.0.values()[first * self.dim()..(first + n) * self.dim()]);
        Ok(())
    }
}

/// The tables of a model, read in chunks of at least so many items.
fn tables(model: &Model, chunk_items: usize) -> StoredVectors<'static> {
    let parts = model.parts().unwrap();
    let dim = parts.iter().find(|part| part.name == "item").unwrap().shape[1];
    let open = |name: &str| -> Result<Option<Box<dyn StoredRows>>> {
        let part = parts.iter().find(|part| part.name == name);
        let kept = |values: Vec<f32>, dim| Box::new(Kept(Embedding::new(dim, values))) as Box<_>;
        Ok(part.map(|part| kept(part.values.to_vec(), part.shape[1])))
    };
    StoredVectors::open(open).unwrap().unwrap().with_chunks_of(chunk_items * dim)
}

fn best(
    tables: &mut StoredVectors<'_>,
    users: &UserVectors,
    history: &Lists,
    k: usize,
    keep_seen: bool,
) -> Vec<Vec<Scored>> {
    tables.recommend(users, history, k, keep_seen, &Job::silent()).unwrap()
}

fn same(a: &[Vec<Scored>], b: &[Vec<Scored>]) {
    assert_eq!(a.len(), b.len());
    for (user, (a, b)) in a.iter().zip(b).enumerate() {
        let bits = |list: &[Scored]| {
            list.iter().map(|s| (s.number, s.score.to_bits())).collect::<Vec<_>>()
        };
        assert_eq!(bits(a), bits(b), "user {user}");
    }
}

/// Histories of `n` users among `items`: none, few and many of them.
fn some_histories(n: usize, items: usize) -> Lists {
    let mut pairs: Vec<(u32, u32)> = Vec::new();
    for user in 0..n {
        let count = [0, 1, 3, 40][user % 4];
        let mut list: Vec<u32> =
            (0..count).map(|i| ((user * 7919 + i * i * 104_729) % items) as u32).collect();
        list.sort_unstable();
        list.dedup();
        pairs.extend(list.into_iter().map(|item| (user as u32, item)));
    }
    Lists::collect(n, pairs.into_iter())
}

/// Every 5,000th item has the same vector, so the best ones tie across chunks. One user alone and the last block of users make
/// products of other shapes.
#[test]
fn tables_in_passes_give_the_scores_and_ties_of_the_model_in_memory() {
    const ITEMS: usize = 20_011;
    let seed = Seed::new(5).unwrap();
    for (dim, chunk_items) in [(1, 1024), (5, 3000), (16, 1024), (64, 4096), (100, 7000)] {
        let first = Embedding::normal(5000, dim, 1.0, seed, "item");
        let rows: Vec<f32> = (0..ITEMS).flat_map(|i| first.row(i % 5000).to_vec()).collect();
        let user = Embedding::normal(300, dim, 1.0, seed, "user");
        let bias = |n, name| Embedding::normal(n, 1, 1.0, seed, name).into_values();
        let item_bias: Vec<f32> = bias(5000, "item bias").into_iter().cycle().take(ITEMS).collect();
        let plain = Factors { user, item: Embedding::new(dim, rows), ..Factors::default() };
        let rated = Factors {
            user_bias: Some(bias(300, "user bias")),
            item_bias: Some(item_bias),
            mean: 3.5,
            ..plain.clone()
        };
        let items =
            Model::Items { item: plain.item.clone(), context: None, state: Default::default() };
        for model in [Model::Factors(plain), Model::Factors(rated), items] {
            let mut stored = tables(&model, chunk_items);
            for n in [1, 2, 7, 105, 300] {
                let (users, history): (Vec<u32>, _) =
                    ((0..n as u32).collect(), some_histories(n, ITEMS));
                let vectors = match stored.has_users() {
                    true => stored.of_users(&users).unwrap(),
                    false => stored.of_means(&history).unwrap(),
                };
                for (k, keep_seen) in [(10, false), (37, true), (30_000, false)] {
                    if k > ITEMS && n > 7 {
                        continue;
                    }
                    let scorer = model.scorer().unwrap();
                    let want = recommend(&*scorer, &users, &history, None, k, keep_seen);
                    same(&best(&mut stored, &vectors, &history, k, keep_seen), &want);
                }
            }
        }
    }
}

/// The least squares problems of all methods, from gathered rows and a Gram matrix of a pass.
#[test]
fn users_folded_in_from_tables_are_those_of_the_model_in_memory() {
    let data = shop(200, 80, 30);
    let rows = all_rows(&data);
    let cases: [(Method, Value); 4] = [
        (Method::Als, json!({ "dim": 8, "epochs": 3 })),
        (Method::Als, json!({ "dim": 7, "epochs": 3, "feedback": "explicit" })),
        (Method::Bpr, json!({ "dim": 8, "epochs": 2 })),
        (Method::Mf, json!({ "dim": 6, "epochs": 2 })),
    ];
    let history = some_histories(50, 80);
    let ratings: Vec<f32> = (0..history.values().len()).map(|i| (i % 5) as f32 + 1.0).collect();
    for (method, values) in cases {
        let model =
            train(method, values.clone(), Input::of(&data, &rows), &Graphs::default()).unwrap();
        let problem = FoldIn::of(method, &settings(values)).unwrap();
        let scorer = fold_in(&model, &history, Some(&ratings), problem).unwrap();
        let users: Vec<u32> = (0..50).collect();
        let want = recommend(&*scorer, &users, &history, None, 80, false);
        let mut stored = tables(&model, 100);
        let gram = stored.gram(problem, &Job::silent()).unwrap();
        let users = stored.of_new_users(&history, Some(&ratings), problem, &gram).unwrap();
        same(&best(&mut stored, &users, &history, 80, false), &want);
        let none = stored.of_new_users(&history, None, problem, &gram);
        assert_eq!(none.is_err(), matches!(problem, FoldIn::Ratings { .. }));
    }
}
