//! A pass over shared rows as a comparison sees them, and the rows that it draws from a pass to keep.

use rayon::prelude::*;
use veridical_core::Result;
use veridical_data::{Ids, Passes, Window};

use crate::stability::{SharedRows, SharedTables};

/// A window whose rows are divided by their norms, if that is asked for.
pub struct Prepared<'a> {
    /// The window as it is.
    pub raw: Window<'a>,
    /// The number of the first row.
    pub first: usize,
    /// The ids of the rows.
    pub ids: &'a Ids,
    /// The rows of every table.
    pub tables: &'a [&'a [f32]],
    /// The norms of the rows of every table, as they were.
    pub norms: &'a [Vec<f32>],
}

/// Visits all windows of the shared rows; with `unit`, rows are divided by their norms.
pub fn visit(
    source: &dyn Passes,
    unit: bool,
    visit: &mut dyn FnMut(&Prepared<'_>) -> Result<()>,
) -> Result<()> {
    let dims = source.dims();
    let mut norms: Vec<Vec<f32>> = vec![Vec::new(); dims.len()];
    let mut divided: Vec<Vec<f32>> = vec![Vec::new(); dims.len()];
    source.pass(&mut |raw| {
        let Window { first, ids, tables } = raw;
        for ((table, dim), (norms, divided)) in
            tables.iter().zip(&dims).zip(norms.iter_mut().zip(&mut divided))
        {
            let norm = |row: &[f32]| {
                row.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt() as f32
            };
            table.par_chunks_exact(*dim).map(norm).collect_into_vec(norms);
            if unit {
                divided.clear();
                divided.extend_from_slice(table);
                veridical_learn::to_unit_rows(divided, *dim);
            }
        }
        let unit_rows: Vec<&[f32]> = divided.iter().map(Vec::as_slice).collect();
        let tables = if unit { &unit_rows } else { tables };
        visit(&Prepared { raw, first, ids, tables, norms: &norms })
    })
}

/// Some of the shared rows.
#[derive(Clone, Debug)]
pub struct Drawn {
    /// The row numbers among all shared ids, rising.
    rows: Vec<u32>,
    /// These rows of every table.
    pub tables: SharedTables,
    /// The norms of the rows of every table before any division.
    pub norms: Vec<Vec<f32>>,
}

impl Drawn {
    /// Returns the places of rows in the drawn tables; all of them must have been drawn.
    pub fn places(&self, rows: &[u32]) -> Vec<u32> {
        let place = |row: &u32| self.rows.binary_search(row).map_or(u32::MAX, |at| at as u32);
        rows.iter().map(place).collect()
    }
}

/// Keeps chosen rows of the windows of a pass.
pub struct Draw {
    rows: Vec<u32>,
    ids: Vec<Ids>,
    tables: Vec<SharedRows>,
    norms: Vec<Vec<f32>>,
}

impl Draw {
    /// Prepares to keep these rows, in any order and with repetitions.
    pub fn new<'a>(source: &dyn Passes, rows: impl IntoIterator<Item = &'a [u32]>) -> Self {
        let mut rows: Vec<u32> = rows.into_iter().flatten().copied().collect();
        rows.sort_unstable();
        rows.dedup();
        let table = |(name, dim): (&str, usize)| SharedRows {
            name: name.to_owned(),
            dim,
            rows: Vec::with_capacity(rows.len() * dim),
        };
        let tables: Vec<SharedRows> =
            source.names().into_iter().zip(source.dims()).map(table).collect();
        Self { rows, ids: Vec::new(), norms: vec![Vec::new(); tables.len()], tables }
    }

    /// Takes its rows from the next window.
    pub fn add(&mut self, window: &Prepared<'_>) {
        let (first, last) = (window.first as u32, (window.first + window.ids.len()) as u32);
        let [from, to] = [first, last].map(|row| self.rows.partition_point(|&r| r < row));
        let inside: Vec<u32> = self.rows[from..to].iter().map(|row| row - first).collect();
        self.ids.push(window.ids.take(&inside));
        for (at, table) in self.tables.iter_mut().enumerate() {
            for &row in &inside {
                let start = row as usize * table.dim;
                table.rows.extend_from_slice(&window.tables[at][start..][..table.dim]);
                self.norms[at].push(window.norms[at][row as usize]);
            }
        }
    }

    /// Returns the rows.
    pub fn finish(self) -> Drawn {
        let Self { rows, ids, tables, norms } = self;
        Drawn { rows, tables: SharedTables::of(Ids::concat(&ids), tables), norms }
    }
}
