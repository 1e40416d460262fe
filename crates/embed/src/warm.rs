//! Warm start: yesterday's vectors as the first values of today's training.
//!
//! An id that both have keeps its row. A new id gets the mean of the rows that were kept plus the row it
//! would have had in a cold start. Ids that are gone are dropped. A run hands on everything it learned
//! (vectors, contexts, biases), a vector table stands for the table of items, or of documents.

use serde::Serialize;
use veridical_core::Error as Core;
use veridical_data::{Ids, Table, TensorMap, fingerprint, places};

use crate::{Model, Result, Trainer};

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
pub struct Earlier {
    /// The ids of tables, by name.
    pub ids: Vec<(String, Ids)>,
    /// Matrices by their names in a model, in the order of the ids of their tables.
    pub tensors: TensorMap,
}

impl Earlier {
    /// A vector table that stands for the table `name`.
    pub fn of_table(name: &str, table: Table) -> Self {
        let Table { ids, dim, vectors } = table;
        let tensors = TensorMap::from([(name.to_owned(), (vec![ids.len(), dim], vectors))]);
        Self { ids: vec![(name.to_owned(), ids)], tensors }
    }

    /// Tells other vectors apart.
    pub fn fingerprint(&self) -> String {
        fingerprint::of_tensors(&self.tensors)
    }

    /// Puts the rows into a trainer; `ids_of` knows the ids of a table, `table_of` whose ids name the rows of a matrix.
    ///
    /// # Errors
    /// [`Core::Shape`] for vectors of another width, [`Core::Request`] if no id is shared.
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
                            "⟨init⟩: table `{table}` has vectors of {dim} values where ⟨dim⟩ is {}",
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
            let what = "⟨init⟩ shares no id with the data; is it of the same catalogue?";
            return Err(Core::request(what, "").into());
        }
        trainer.restore(Model::from_parts(state)?)?;
        Ok(warmed)
    }
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
