//! Warm start: earlier vectors as the initialization of a new training.
//!
//! An id in both keeps its row. A new id gets the mean of the kept rows plus the row it would have had in a cold
//! start. Ids that are gone are dropped. A run passes on everything it learned (vectors, contexts, biases); a
//! vector table initializes the table of items, or of documents.

use serde::Serialize;
use veridical_core::Error as Core;
use veridical_data::{Ids, TensorMap, VectorTable, fingerprint, places};

use crate::{Model, Result, Trainer};

/// The counts of a warm start of one table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Warmed {
    /// The name of the table.
    pub table: String,
    /// The number of ids that kept their rows.
    pub kept: usize,
    /// The number of ids without an earlier row.
    pub new: usize,
    /// The number of earlier rows that were dropped because their ids are gone.
    pub dropped: usize,
}

/// Earlier vectors to start from.
#[derive(Clone, Debug)]
pub struct Earlier {
    /// The ids of each table, by table name.
    pub ids: Vec<(String, Ids)>,
    /// The matrices by their names in a model, rows in the order of the ids of their tables.
    pub tensors: TensorMap,
}

impl Earlier {
    /// Makes earlier vectors from a vector table, to initialize the table `name`.
    pub fn of_table(name: &str, table: VectorTable) -> Self {
        let VectorTable { ids, dim, vectors } = table;
        let tensors = TensorMap::from([(name.to_owned(), (vec![ids.len(), dim], vectors))]);
        Self { ids: vec![(name.to_owned(), ids)], tensors }
    }

    /// Returns a fingerprint that differs for different vectors.
    pub fn fingerprint(&self) -> String {
        fingerprint::of_tensors(&self.tensors)
    }

    /// Writes the rows into a trainer; `ids_of` returns the ids of a table, `table_of` the table whose ids name the rows of
    /// a matrix.
    ///
    /// # Errors
    /// [`Core::Shape`] for vectors of another dimension, [`Core::Request`] if no id is shared.
    pub fn start<'a>(
        &self,
        trainer: &mut dyn Trainer,
        ids_of: impl Fn(&str) -> Option<&'a Ids>,
        table_of: impl Fn(&str) -> Option<&'static str>,
    ) -> Result<Vec<Warmed>> {
        let mut state = trainer.model().tensors()?;
        let mut warmed = Vec::new();
        for (table, earlier) in &self.ids {
            let Some(ids) = ids_of(table) else { continue };
            let places = places(earlier, ids);
            for (name, (shape, values)) in &mut state {
                if table_of(name) != Some(table.as_str()) {
                    continue;
                }
                let Some((before_shape, before)) = self.tensors.get(name) else { continue };
                let [rows, dim] = before_shape.as_slice() else { continue };
                if *rows != earlier.len() || shape[0] != ids.len() {
                    continue;
                }
                if shape[1] != *dim {
                    return Err(Core::shape(
                        format!(
                            "⟨init⟩: table `{table}` has embedding dimension {dim} but ⟨dim⟩ is {}",
                            shape[1]
                        ),
                        format!("train with ⟨dim⟩ {dim}"),
                    )
                    .into());
                }
                fill(values, *dim, before, &places);
            }
            let kept = places.iter().flatten().count();
            let (new, dropped) = (places.len() - kept, earlier.len() - kept);
            warmed.push(Warmed { table: table.clone(), kept, new, dropped });
        }
        if !warmed.iter().any(|table| table.kept > 0) {
            let what = "⟨init⟩ shares no id with the data; is it from the same catalog?";
            return Err(Core::request(what, "").into());
        }
        trainer.restore(Model::from_parts(state)?)?;
        Ok(warmed)
    }
}

/// Copies the known rows and adds their mean to the rest.
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
