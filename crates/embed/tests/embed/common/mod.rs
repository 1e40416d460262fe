//! Data with planted clusters, small enough for a test.

use arrow_array::Int64Array;
use serde_json::{Map, Value};
use veridical_core::Progress;
use veridical_core::{Seed, Stream};
use veridical_data::{Corpus, IdMap, Ids, Interactions, Lists};
use veridical_embed::{Embedding, Graphs, Input, Method, Model, Result};

pub const CLUSTERS: usize = 4;

/// Users and items belong to cluster number mod 4; a user's items are from the same cluster nine times in ten
/// and rated 5 (others 1), plus 0 or 1 in turns.
pub fn shop(users: usize, items: usize, per_user: usize) -> Interactions {
    let stream = Stream::new(Seed::new(77).unwrap(), "test/shop");
    let (mut user, mut item, mut rating, mut time) = (vec![], vec![], vec![], vec![]);
    for u in 0..users {
        let mut draws = stream.at(0, u as u64).draws();
        for t in 0..per_user {
            let own = draws.uniform() < 0.9;
            let cluster = if own { u % CLUSTERS } else { draws.below(CLUSTERS as u32) as usize };
            let i = CLUSTERS * draws.below((items / CLUSTERS) as u32) as usize + cluster;
            user.push(u as u32);
            item.push(i as u32);
            let like = if i % CLUSTERS == u % CLUSTERS { 4.5 } else { 1.5 };
            rating.push(like + draws.below(2) as f32 - 0.5);
            time.push(t as i64);
        }
    }
    let numbered = IdMap::numbered;
    let (users, items) = (numbered(users), numbered(items));
    Interactions { users, items, user, item, rating: Some(rating), time: Some(time) }
}

/// Documents with words from topic number mod 4 nine times in ten.
pub fn texts(docs: usize, words: usize, length: usize) -> Corpus {
    let data = shop(docs, words, length);
    let rows: Vec<u32> = (0..data.len() as u32).collect();
    let tokens = data.sequences(&rows);
    let mut counts = vec![0; words];
    tokens.values().iter().for_each(|&w| counts[w as usize] += 1);
    Corpus {
        docs: Ids::Int(Int64Array::from_iter_values(0..docs as i64)),
        words: (0..words).map(|w| format!("word{w}")).collect(),
        counts,
        tokens,
    }
}

pub fn settings(values: Value) -> Map<String, Value> {
    values.as_object().unwrap().clone()
}

pub fn seed(value: u64) -> Seed {
    Seed::new(value).unwrap()
}

pub fn all_rows(data: &Interactions) -> Vec<u32> {
    (0..data.len() as u32).collect()
}

/// Trains to the end.
pub fn train(method: Method, values: Value, input: Input<'_>, graphs: &Graphs) -> Result<Model> {
    let mut trainer = method.trainer(&settings(values), input, graphs, seed(1))?;
    for epoch in 0..trainer.epochs() {
        trainer.epoch(epoch, &Progress::hidden())?;
    }
    Ok(trainer.into_model())
}

/// The fraction of rows with a nearest neighbor, by cosine, in the same cluster.
pub fn purity(rows: &Embedding) -> f64 {
    let unit: Vec<Vec<f32>> = (0..rows.n_rows())
        .map(|r| {
            let row = rows.row(r);
            let norm = row.iter().map(|x| x * x).sum::<f32>().sqrt();
            row.iter().map(|x| x / norm).collect()
        })
        .collect();
    let nearest = |r: usize| {
        let cosine = |k: &usize| -> f32 { unit[r].iter().zip(&unit[*k]).map(|(a, b)| a * b).sum() };
        let others = (0..unit.len()).filter(|&k| k != r);
        others.max_by(|a, b| cosine(a).total_cmp(&cosine(b))).unwrap()
    };
    let same = (0..unit.len()).filter(|&r| nearest(r) % CLUSTERS == r % CLUSTERS).count();
    same as f64 / unit.len() as f64
}

pub fn lists(values: &[&[u32]]) -> Lists {
    let pairs: Vec<(u32, u32)> = values
        .iter()
        .enumerate()
        .flat_map(|(key, list)| list.iter().map(move |&value| (key as u32, value)))
        .collect();
    Lists::collect(values.len(), pairs.into_iter())
}
