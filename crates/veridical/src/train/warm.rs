//! Warm start: yesterday's vectors as the first values of today's training.
//!
//! An id that both have keeps its row. A new id gets the mean of the rows that were kept plus the row it
//! would have had in a cold start. Ids that are gone are dropped. A run hands on everything it learnt
//! (vectors, contexts, biases), a vector table stands for the table of items, or of documents.

use std::path::Path;

use serde::Serialize;
use veridical_data::run::{RunFolder, TensorMap};
use veridical_data::{IdMap, Ids, ReadOptions, Source, Table, fingerprint};
use veridical_embed::{Model, Tensors, Trainer};

use super::material::Material;
use crate::{Error, Result};

/// What a warm start did to one table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Warmed {
    /// The table.
    pub table: String,
    /// Ids that kept their rows.
    pub kept: usize,
    /// Ids that had none.
    pub new: usize,
    /// Rows whose ids are gone.
    pub dropped: usize,
}

/// Earlier vectors.
#[derive(Clone, Debug)]
pub(crate) struct Earlier {
    /// The ids of tables, by name.
    ids: Vec<(String, Ids)>,
    /// Matrices by their names in a model, in the order of the ids of their tables.
    tensors: TensorMap,
}

impl Earlier {
    /// From a run folder, or from a vector table that stands for `table`.
    pub fn load(path: &Path, table: &str) -> Result<Self> {
        let read =
            |path: &Path| Table::load(&Source::Path(path.to_owned()), &ReadOptions::default());
        if !RunFolder::is_run(path) {
            let Table { ids, dim, vectors } = read(path)?;
            let tensors = TensorMap::from([(table.to_owned(), (vec![ids.len(), dim], vectors))]);
            return Ok(Self { ids: vec![(table.to_owned(), ids)], tensors });
        }
        let run = RunFolder::open(path)?;
        let ids = |name: &str| Ok((name.to_owned(), read(&run.table(Some(name))?)?.ids));
        let ids = run.tables().into_iter().map(ids).collect::<Result<_>>()?;
        Ok(Self { ids, tensors: run.state()? })
    }

    /// Tells other vectors apart.
    pub fn fingerprint(&self) -> String {
        fingerprint::of_tensors(&self.tensors)
    }

    /// Puts the rows into a trainer.
    pub fn start(&self, trainer: &mut dyn Trainer, material: &Material) -> Result<Vec<Warmed>> {
        let parts = trainer.model().parts()?.into_iter();
        let mut state: TensorMap =
            parts.map(|p| (p.name.into_owned(), (p.shape, p.values.into_owned()))).collect();
        let mut warmed = Vec::new();
        for (table, earlier) in &self.ids {
            let Some(ids) = material.ids(table) else { continue };
            let places = places(earlier, ids);
            for (name, (shape, values)) in &mut state {
                if material.table_of(name) != Some(table.as_str()) {
                    continue;
                }
                let Some((before_shape, before)) = self.tensors.get(name) else { continue };
                let [rows, dim] = before_shape.as_slice() else { continue };
                if *rows != earlier.len() || shape[0] != ids.len() {
                    continue;
                }
                if shape[1] != *dim {
                    return Err(Error::Usage(format!(
                        "--init: table `{table}` has vectors of {dim} values where --dim is {}; train \
                         with --dim {dim}",
                        shape[1]
                    )));
                }
                fill(values, *dim, before, &places);
            }
            let kept = places.iter().flatten().count();
            let (new, dropped) = (places.len() - kept, earlier.len() - kept);
            warmed.push(Warmed { table: table.clone(), kept, new, dropped });
        }
        if !warmed.iter().any(|table| table.kept > 0) {
            let what = "--init shares no id with the data; is it of the same catalogue?";
            return Err(Error::Usage(what.into()));
        }
        trainer.restore(Model::from_parts(Tensors(state))?)?;
        Ok(warmed)
    }
}

/// The row of every id among the earlier ones.
pub(crate) fn places(earlier: &Ids, ids: &Ids) -> Vec<Option<usize>> {
    let (map, numbers) = match earlier {
        Ids::Int(ids) => IdMap::of_integers(ids.values()),
        Ids::Text(ids) => IdMap::of_texts(ids.iter().flatten()),
    };
    let mut row_of = vec![0; map.len()];
    numbers.iter().enumerate().for_each(|(row, &number)| row_of[number as usize] = row);
    (0..ids.len()).map(|i| map.number(&ids.get(i)).map(|number| row_of[number as usize])).collect()
}

/// Copies the rows that are known and adds their mean to the others.
fn fill(now: &mut [f32], dim: usize, before: &[f32], places: &[Option<usize>]) {
    let row = |r: usize| &before[r * dim..][..dim];
    let mut mean = vec![0.0f64; dim];
    let known = places.iter().flatten().count().max(1) as f64;
    for &r in places.iter().flatten() {
        mean.iter_mut().zip(row(r)).for_each(|(m, &x)| *m += f64::from(x) / known);
    }
    for (now, place) in now.chunks_exact_mut(dim).zip(places) {
        match place {
            Some(r) => now.copy_from_slice(row(*r)),
            None => now.iter_mut().zip(&mean).for_each(|(x, m)| *x += *m as f32),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_rows_are_copied_and_new_ones_start_at_the_mean() {
        let mut now = [9.0, 9.0, 0.5, -0.5, 9.0, 9.0];
        fill(&mut now, 2, &[1.0, 2.0, 3.0, 6.0], &[Some(1), None, Some(0)]);
        assert_eq!(now, [3.0, 6.0, 2.5, 3.5, 1.0, 2.0]);
    }
}
