//! Embeddings of the same ids: the rows that several tables share.

use veridical_core::{Order, Seed};
use veridical_data::{Ids, VectorTable};

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

/// Tables joined on their ids.
#[derive(Clone, Debug)]
pub struct SharedTables {
    /// The shared ids.
    pub ids: Ids,
    /// The rows of each table, in the order of the tables.
    pub runs: Vec<SharedRows>,
}

impl SharedTables {
    /// Makes runs from joined tables and their names; with `unit`, every row is divided by its norm.
    pub fn new(tables: Vec<VectorTable>, names: Vec<String>, unit: bool) -> Option<Self> {
        let ids = tables.first()?.ids.clone();
        let runs = tables.into_iter().zip(names).map(|(table, name)| {
            let VectorTable { dim, vectors: mut rows, .. } = table;
            if unit {
                veridical_learn::to_unit_rows(&mut rows, dim);
            }
            SharedRows { name, dim, rows }
        });
        Some(Self { ids, runs: runs.collect() })
    }

    /// Returns the number of shared ids.
    pub fn n(&self) -> usize {
        self.ids.len()
    }

    /// Whether all tables have the same embedding dimension.
    pub fn same_width(&self) -> bool {
        self.runs.iter().all(|run| run.dim == self.runs[0].dim)
    }

    /// Draws `count` of the shared rows without replacement from the random stream `name`, in random order.
    pub fn sample(&self, count: usize, seed: Seed, name: &str) -> Vec<u32> {
        let n = self.n();
        let order = Order::new(n as u64, seed, name, 0);
        (0..count.min(n) as u64).map(|t| order.at(t) as u32).collect()
    }
}
