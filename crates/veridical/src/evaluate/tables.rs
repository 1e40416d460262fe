//! Vectors from any source, matched to interactions by id.

use std::path::Path;

use veridical_core::Job;
use veridical_data::{IdMap, Ids, Interactions, Split, VectorTable};
use veridical_embed::{Embedding, Factors, Model, Pair, Scorer, Similarity};
use veridical_io::{ReadOptions, Source};

use crate::train::Divided;
use crate::{Error, Result};

/// Vectors of the users and items of the data, and the rows whose user and item both have a vector.
pub(super) struct Aligned {
    user: Embedding,
    item: Embedding,
    pub divided: Divided,
}

impl Aligned {
    pub fn load(users: &Path, items: &Path, divided: Divided, job: &Job<'_>) -> Result<Self> {
        let load = |path: &Path, table: &str| {
            let is_run = veridical_io::run::RunFolder::is_run(path);
            let table = is_run.then(|| table.to_owned());
            let options = ReadOptions { table, ..ReadOptions::default() };
            veridical_io::read_table(&Source::Path(path.to_owned()), &options)
        };
        let (user_table, item_table) = (load(users, "user")?, load(items, "item")?);
        let user_rows = Rows::find(users, &user_table, &divided.data.users, job, "user")?;
        let item_rows = Rows::find(items, &item_table, &divided.data.items, job, "item")?;
        let divided = only_known(divided, &user_rows, &item_rows);
        let (user, item) = (user_rows.gather(&user_table), item_rows.gather(&item_table));
        Ok(Self { user, item, divided })
    }

    pub fn scorer(&self, similarity: Similarity) -> Result<Box<dyn Scorer + '_>> {
        Ok(Box::new(Pair::new(&self.user, &self.item, similarity)?))
    }

    /// Returns a model that predicts ratings by inner products.
    pub fn model(&self) -> Model {
        let (user, item) = (self.user.clone(), self.item.clone());
        Model::Factors(Factors { user, item, ..Factors::default() })
    }
}

/// The table row of every id that has one.
struct Rows {
    /// Indices of the ids in the data that have a row, ascending.
    numbers: Vec<u32>,
    /// Their table rows.
    rows: Vec<usize>,
}

impl Rows {
    fn find(
        path: &Path,
        table: &VectorTable,
        ids: &IdMap,
        job: &Job<'_>,
        what: &str,
    ) -> Result<Self> {
        let (map, places) = match &table.ids {
            Ids::Int(ids) => IdMap::of_integers(ids.values()),
            Ids::Text(ids) => IdMap::of_texts(ids.iter().flatten()),
        };
        if map.len() < places.len() {
            let what = format!("a {what} id occurs twice; every id must have one vector");
            return Err(Error::request(format!("{}: {what}", path.display()), ""));
        }
        let mut row_of = vec![0; map.len()];
        places.iter().enumerate().for_each(|(row, &place)| row_of[place as usize] = row);
        let known =
            |number: u32| map.number(&ids.id(number)).map(|place| (number, row_of[place as usize]));
        let (numbers, rows): (Vec<u32>, Vec<usize>) =
            (0..ids.len() as u32).filter_map(known).unzip();
        if numbers.is_empty() {
            let what = format!("has no vector for any {what} of the interactions");
            return Err(Error::request(
                format!("{} {what}", path.display()),
                "check that the ids match",
            ));
        }
        let missing = ids.len() - numbers.len();
        if missing > 0 {
            let what = format!("{missing} of {} {what}s have no vector and are skipped", ids.len());
            job.warn(&format!("{}: {what}", path.display()));
        }
        Ok(Self { numbers, rows })
    }

    fn gather(&self, table: &VectorTable) -> Embedding {
        let values = self.rows.iter().flat_map(|&row| table.row(row)).copied().collect();
        Embedding::new(table.dim, values)
    }

    /// Returns the new index of every old index.
    fn renumbering(&self, n: usize) -> Vec<Option<u32>> {
        let mut new = vec![None; n];
        (0..).zip(&self.numbers).for_each(|(i, &number)| new[number as usize] = Some(i));
        new
    }
}

/// Keeps the rows whose user and item have vectors, with new indices.
fn only_known(divided: Divided, users: &Rows, items: &Rows) -> Divided {
    let Interactions { users: user_ids, items: item_ids, user, item, rating, time } = &divided.data;
    let user_of = users.renumbering(user_ids.len());
    let item_of = items.renumbering(item_ids.len());
    let mut data = Interactions {
        users: user_ids.only(&users.numbers),
        items: item_ids.only(&items.numbers),
        user: Vec::new(),
        item: Vec::new(),
        rating: rating.as_ref().map(|_| Vec::new()),
        time: time.as_ref().map(|_| Vec::new()),
    };
    let mut new_row = vec![None; user.len()];
    for r in 0..user.len() {
        let (Some(u), Some(i)) = (user_of[user[r] as usize], item_of[item[r] as usize]) else {
            continue;
        };
        new_row[r] = Some(data.user.len() as u32);
        data.user.push(u);
        data.item.push(i);
        if let (Some(to), Some(from)) = (&mut data.rating, rating) {
            to.push(from[r]);
        }
        if let (Some(to), Some(from)) = (&mut data.time, time) {
            to.push(from[r]);
        }
    }
    let part = |rows: &[u32]| rows.iter().filter_map(|&r| new_row[r as usize]).collect();
    let Split { train, validation, test } = &divided.split;
    let split = Split { train: part(train), validation: part(validation), test: part(test) };
    divided.with(data, split)
}
