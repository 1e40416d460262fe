//! Embeddings of the same ids: the rows that several tables share, and samples of them.

use std::sync::OnceLock;

use veridical_core::{Order, Result, Seed};
use veridical_data::passes::window_rows;
use veridical_data::{IdMap, Ids, Passes, VectorTable, Window};

/// The rows of one table for the shared ids.
#[derive(Clone, Debug)]
pub struct SharedRows {
    /// The name in a report.
    pub name: String,
    /// The embedding dimension.
    pub dim: usize,
    /// The vectors, row-major, one row per shared id.
    pub rows: Vec<f32>,
}

impl SharedRows {
    /// Returns row `i`.
    #[inline]
    pub fn row(&self, i: usize) -> &[f32] {
        &self.rows[i * self.dim..][..self.dim]
    }

    /// Returns a copy of the rows with these numbers.
    pub fn gather(&self, rows: &[u32]) -> Vec<f32> {
        rows.iter().flat_map(|&i| self.row(i as usize)).copied().collect()
    }
}

/// Tables in memory, joined on their ids.
#[derive(Clone, Debug)]
pub struct SharedTables {
    /// The shared ids.
    pub ids: Ids,
    /// The rows of each table, in the order of the tables.
    pub runs: Vec<SharedRows>,
    /// The ids in order, and the row of each.
    rows_of: OnceLock<(IdMap, Vec<u32>)>,
}

impl SharedTables {
    /// Makes shared tables from the ids, which differ, and the rows of every table.
    pub const fn of(ids: Ids, runs: Vec<SharedRows>) -> Self {
        Self { ids, runs, rows_of: OnceLock::new() }
    }

    /// Makes shared tables from joined tables and their names; `None` without tables.
    pub fn new(tables: Vec<VectorTable>, names: Vec<String>) -> Option<Self> {
        let ids = tables.first()?.ids.clone();
        let run = |(table, name): (VectorTable, String)| SharedRows {
            name,
            dim: table.dim,
            rows: table.vectors,
        };
        Some(Self::of(ids, tables.into_iter().zip(names).map(run).collect()))
    }

    /// Returns the number of shared ids.
    pub fn n(&self) -> usize {
        self.ids.len()
    }

    /// Draws `count` of the shared rows without replacement from the random stream `name`, in random order.
    pub fn sample(&self, count: usize, seed: Seed, name: &str) -> Vec<u32> {
        sample(self.n(), count, seed, name)
    }
}

impl Passes for SharedTables {
    fn n(&self) -> usize {
        self.ids.len()
    }

    fn names(&self) -> Vec<&str> {
        self.runs.iter().map(|run| run.name.as_str()).collect()
    }

    fn dims(&self) -> Vec<usize> {
        self.runs.iter().map(|run| run.dim).collect()
    }

    fn find(&self, id: &str) -> Option<u32> {
        let (map, row_of) = self.rows_of.get_or_init(|| {
            let (map, numbers) = IdMap::of(&self.ids);
            let mut row_of = vec![0; map.len()];
            (0..).zip(&numbers).for_each(|(row, &number)| row_of[number as usize] = row);
            (map, row_of)
        });
        map.number(id).map(|number| row_of[number as usize])
    }

    fn pass(&self, visit: &mut dyn FnMut(Window<'_>) -> Result<()>) -> Result<()> {
        let step = window_rows(&self.dims());
        for first in (0..self.n()).step_by(step) {
            let n = step.min(self.n() - first);
            let tables: Vec<&[f32]> =
                self.runs.iter().map(|run| &run.rows[first * run.dim..][..n * run.dim]).collect();
            visit(Window { first, ids: &self.ids.slice(first, n), tables: &tables })?;
        }
        Ok(())
    }
}

/// Draws `count` of `n` rows without replacement from the random stream `name`, in random order.
pub fn sample(n: usize, count: usize, seed: Seed, name: &str) -> Vec<u32> {
    let order = Order::new(n as u64, seed, name, 0);
    (0..count.min(n) as u64).map(|t| order.at(t) as u32).collect()
}
