//! Scores of pairs of user and item.
//!
//! A model of ratings gives the predicted rating; every other one the score by which it ranks items, from the history that it was
//! trained on. Users and items that the run does not know have no score.

use std::sync::Arc;

use arrow_array::Float32Array;
use arrow_schema::DataType;
use rayon::prelude::*;
use veridical_core::Job;
use veridical_embed::{Model, Purpose, Scorer};
use veridical_io::run::RunFolder;

use super::{Columns, Predict, Predicted};
use crate::evaluate::divided_as;
use crate::settings::InteractionReading;
use crate::train::{Divided, layer_of, method_of, purpose, reading};
use crate::{Error, Result};

/// Users that are scored at once.
const BLOCK: usize = 16;

pub(super) fn predict(settings: &Predict, job: &Job<'_>) -> Result<Predicted> {
    let run = RunFolder::open(&settings.run)?;
    let method = method_of(&run)?;
    let own = layer_of(run.path())?.1.values;
    let purpose = purpose(method, &own);
    if purpose == Purpose::Text {
        let what =
            format!("{} is a run of {}, which predicts nothing", settings.run, method.name());
        return Err(Error::request(what, "its vectors can be classified: `train classifier`"));
    }
    settings.only("interactions", "scores pairs of user and item")?;
    let Some(path) = &settings.interactions else {
        let what = format!("{} scores pairs of user and item", settings.run);
        return Err(Error::request(what, "pass them with ⟨interactions⟩ FILE"));
    };
    let options = InteractionReading {
        columns: settings.columns.clone(),
        files: settings.files.clone(),
        ..InteractionReading::default()
    };
    let pairs = reading::interactions(path, &options, job)?;
    let divided = divided_as(&run, None, job)?;
    let model = Model::from_parts(run.model()?)?;
    let number = |of: &veridical_data::IdMap, in_run: &veridical_data::IdMap| -> Vec<Option<u32>> {
        (0..of.len() as u32).map(|at| in_run.number(&of.id(at))).collect()
    };
    let users = number(&pairs.users, &divided.data.users);
    let items = number(&pairs.items, &divided.data.items);
    let known: Vec<Option<(u32, u32)>> = pairs
        .user
        .iter()
        .zip(&pairs.item)
        .map(|(&user, &item)| Some((users[user as usize]?, items[item as usize]?)))
        .collect();
    let unknown = known.iter().filter(|pair| pair.is_none()).count();
    if unknown == known.len() {
        let what = "has no pair of a user and an item that the run knows";
        return Err(Error::request(
            format!("{} {what}", path.display()),
            "check that the ids match",
        ));
    }
    let (name, scores) = match purpose {
        Purpose::Rating => {
            let (users, items): (Vec<u32>, Vec<u32>) = known.iter().flatten().copied().unzip();
            let mut ratings = model.predict(&users, &items)?.into_iter();
            ("rating", known.iter().map(|pair| pair.and_then(|_| ratings.next())).collect())
        }
        _ => ("score", scores(&*model.scorer()?, &divided, &known, job)?),
    };
    let mut columns = Columns::new(pairs.users.ids());
    columns.fields.clear();
    columns.arrays.clear();
    let (user, item) = (pairs.users.array(&pairs.user), pairs.items.array(&pairs.item));
    columns.push("user".into(), pairs.users.data_type(), user);
    columns.push("item".into(), pairs.items.data_type(), item);
    columns.push(name.into(), DataType::Float32, Arc::new(Float32Array::from(scores)));
    columns.write(settings)?;
    let mut notes = Vec::new();
    if unknown > 0 {
        let n = known.len();
        notes.push(format!("{unknown} of {n} pairs have a user or an item that the run does not know: they have no {name}"));
    }
    let out = settings.out.to_string();
    Ok(Predicted { rows: known.len(), classes: Vec::new(), notes, out })
}

/// The scores of pairs, as the items of the user are ranked when test rows are evaluated.
fn scores(
    scorer: &dyn Scorer,
    divided: &Divided,
    pairs: &[Option<(u32, u32)>],
    job: &Job<'_>,
) -> Result<Vec<Option<f32>>> {
    let Divided { data, split, .. } = divided;
    let history = match scorer.is_sequential() {
        true => data.sequences(&[&split.train[..], &split.validation].concat()),
        false => data.by_user(&split.train),
    };
    let mut rows: Vec<(u32, u32, usize)> = pairs
        .iter()
        .enumerate()
        .filter_map(|(at, pair)| pair.map(|(user, item)| (user, item, at)))
        .collect();
    rows.sort_unstable();
    let mut users: Vec<u32> = rows.iter().map(|(user, ..)| *user).collect();
    users.dedup();
    let n_items = scorer.n_items();
    let progress = job.progress("scoring", "users", Some(users.len() as u64));
    let blocks = users.par_chunks(BLOCK).map_init(Vec::new, |scratch, block| {
        progress.check()?;
        scratch.resize(block.len() * n_items, 0.0);
        scorer.score(block, &history, scratch);
        let first = rows.partition_point(|(user, ..)| *user < block[0]);
        let of_block =
            rows[first..].iter().take_while(|(user, ..)| *user <= block[block.len() - 1]);
        let score = |&(user, item, at): &(u32, u32, usize)| {
            let row = block.partition_point(|other| *other < user);
            (at, scratch[row * n_items + item as usize])
        };
        progress.advance(block.len() as u64);
        Ok(of_block.map(score).collect::<Vec<(usize, f32)>>())
    });
    let mut scores = vec![None; pairs.len()];
    for block in blocks.collect::<Vec<Result<Vec<(usize, f32)>>>>() {
        block?.into_iter().for_each(|(at, score)| scores[at] = Some(score));
    }
    Ok(scores)
}
