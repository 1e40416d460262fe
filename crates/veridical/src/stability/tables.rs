//! The tables of a comparison: read once, checked, and joined on their ids.

use std::path::PathBuf;
use std::sync::Arc;

use veridical_core::Job;
use veridical_data::fingerprint::TableContent;
use veridical_data::passes::window_rows;
use veridical_data::{Passes, Window};
use veridical_inspect::stability::{Joined, NewRows, SanityCount, TableReport};
use veridical_io::shared::{FirstRead, JoinOptions, SharedTable, join_tables};
use veridical_io::{Input, ReadOptions, Source, run};
use veridical_learn::LinearMap;

use crate::settings::{Resources, TableIds};
use crate::{Error, Result};

/// Returns the tables that paths refer to: an ensemble is expanded to its seeds.
pub fn expand(paths: &[Input]) -> Vec<PathBuf> {
    let of = |path: &Input| match run::seeds(path) {
        seeds if seeds.is_empty() => vec![path.to_path_buf()],
        seeds => seeds,
    };
    paths.iter().flat_map(of).collect()
}

/// Returns table `at.0` of `at.1`, where 0 is the reference, and how it is read.
pub(crate) fn table(
    source: &Source,
    ids: &TableIds,
    options: &ReadOptions,
    at: (usize, usize),
) -> Result<SharedTable> {
    let options = ReadOptions { keep_columns: Vec::new(), ..ids.reading(source, options, at)? };
    Ok(SharedTable { name: source.to_string(), source: source.clone(), options })
}

/// Returns the tables of a comparison and how they are read.
pub(crate) fn tables_of(paths: &[PathBuf], options: &ReadOptions) -> Result<Vec<SharedTable>> {
    let of = |(i, path): (usize, &PathBuf)| {
        table(&Source::from_arg(path), &TableIds::default(), options, (i, paths.len()))
    };
    paths.iter().enumerate().map(of).collect()
}

/// What is learned of a table when it is read for the first time.
struct Learned {
    sanity: SanityCount,
    content: TableContent,
    new: NewRows,
}

/// Rows that two or more tables share.
pub(crate) struct Shared {
    /// The rows.
    pub rows: Arc<dyn Passes>,
    /// The checks of every table.
    pub reports: Vec<TableReport>,
    /// An id of every table.
    pub examples: Vec<String>,
    missing: Vec<usize>,
    extra: Vec<usize>,
    new_rows: Vec<f32>,
}

/// Reads tables once and joins them.
pub(crate) fn share(
    tables: Vec<SharedTable>,
    resources: &Resources,
    job: &Job<'_>,
) -> Result<Shared> {
    share_mapped(tables, None, resources, job)
}

/// As [`share`]; the rows of the last table are mapped.
pub(crate) fn share_mapped(
    tables: Vec<SharedTable>,
    map: Option<&LinearMap>,
    resources: &Resources,
    job: &Job<'_>,
) -> Result<Shared> {
    let last = tables.len() - 1;
    let names: Vec<String> = tables.iter().map(|table| table.name.clone()).collect();
    let options = JoinOptions {
        memory: resources.memory.bytes(),
        besides: needed,
        scratch: resources.scratch(),
    };
    let mut learned: Vec<Learned> = Vec::new();
    let mut examples = Vec::new();
    let mut observe = |FirstRead { table, first, chunk, is_new }: FirstRead<'_>| {
        let map = map.filter(|_| table == last);
        let mapped = map.map(|map| map.apply(&chunk.vectors));
        let (dim, vectors) = match (map, &mapped) {
            (Some(map), Some(mapped)) => (map.output_dim(), &mapped[..]),
            _ => (chunk.dim(), &chunk.vectors[..]),
        };
        if learned.len() <= table {
            learned.push(Learned {
                sanity: SanityCount::new(dim),
                content: TableContent::new(dim),
                new: NewRows::new(dim),
            });
            examples.push(chunk.ids.get(0));
        }
        let Learned { sanity, content, new } = &mut learned[table];
        sanity.add(vectors);
        content.add(&chunk.ids, vectors);
        for (i, _) in is_new.iter().enumerate().filter(|(_, is_new)| **is_new) {
            new.add(first + i, &vectors[i * dim..][..dim]);
        }
    };
    let (rows, counts) = join_tables(tables, &options, job, &mut observe)?;
    let rows: Arc<dyn Passes> = match map {
        Some(map) => Arc::new(Mapped { rows: Arc::new(rows), map: map.clone() }),
        None => Arc::new(rows),
    };
    let (mut reports, mut new_rows) = (Vec::new(), Vec::new());
    for (name, Learned { sanity, content, new }) in names.into_iter().zip(learned) {
        reports.push(TableReport::new(name, content.finish(), sanity.finish(), job)?);
        new_rows = new.finish();
    }
    Ok(Shared {
        rows,
        reports,
        examples,
        missing: counts.iter().map(|count| count.missing).collect(),
        extra: counts.iter().map(|count| count.extra).collect(),
        new_rows,
    })
}

/// Shared rows, those of the last table mapped.
#[derive(Debug)]
struct Mapped {
    rows: Arc<dyn Passes>,
    map: LinearMap,
}

impl Passes for Mapped {
    fn n(&self) -> usize {
        self.rows.n()
    }

    fn names(&self) -> Vec<&str> {
        self.rows.names()
    }

    fn dims(&self) -> Vec<usize> {
        let mut dims = self.rows.dims();
        dims.pop();
        dims.push(self.map.output_dim());
        dims
    }

    fn find(&self, id: &str) -> Option<u32> {
        self.rows.find(id)
    }

    fn pass(
        &self,
        visit: &mut dyn FnMut(Window<'_>) -> veridical_core::Result<()>,
    ) -> veridical_core::Result<()> {
        self.rows.pass(&mut |Window { first, ids, tables }| {
            let Some((last, others)) = tables.split_last() else { return Ok(()) };
            let mapped = self.map.apply(last);
            let tables: Vec<&[f32]> = others.iter().copied().chain([&mapped[..]]).collect();
            visit(Window { first, ids, tables: &tables })
        })
    }
}

impl Shared {
    /// Returns the join for a comparison.
    pub fn joined(self) -> Result<Joined> {
        let Self { rows, reports, missing, extra, new_rows, .. } = self;
        Joined::new(rows, reports, missing, extra, new_rows).map_err(Error::from)
    }
}

/// The memory that a comparison of tables of these dimensions needs besides the index of ids: windows three times over, the rows
/// of all samples, the sums of moments, and what does not depend on the tables: the products of probes with blocks of rows.
fn needed(dims: &[usize], rows: u64) -> u64 {
    const DRAWN: u64 = 60_000;
    const GROUPS: u64 = 21;
    const FIXED: u64 = 24 << 20;
    const PRODUCTS: u64 = 72 << 20;
    const PROBES: u64 = 2000;
    let all: u64 = dims.iter().map(|&dim| dim as u64).sum();
    let squares: u64 = dims.iter().map(|&dim| 3 * (dim * dim) as u64).sum();
    let windows = 3 * 4 * all * rows.min(window_rows(dims) as u64);
    let products = PRODUCTS.min(4 * PROBES.min(rows) * rows);
    windows + 8 * DRAWN.min(rows) * all + 8 * GROUPS * squares + FIXED + products
}
