//! Matrices that are handed on tile by tile, instead of being kept.
//!
//! Of a symmetric matrix only tiles on and above the diagonal are handed on. A tile has the bytes that
//! [`gram`](super::gram()) has at its place, whichever other tiles are computed.

use std::ops::Range;

use rayon::prelude::*;
use veridical_core::{Job, Progress};

use super::{Pairs, STRIP, TILE};

/// Tiles that are computed together.
const GROUP: usize = 16;

/// One tile of a matrix.
#[derive(Clone, Debug, PartialEq)]
pub struct Tile {
    /// Its rows.
    pub rows: Range<usize>,
    /// Its columns.
    pub columns: Range<usize>,
    /// Its values, row by row.
    pub values: Vec<f32>,
}

/// Where the tiles of a matrix go.
pub trait Tiles {
    /// What can go wrong.
    type Error: From<crate::Error>;

    /// Returns whether the tile that begins at this row and column, multiples of [`TILE`], is not needed.
    fn has(&self, row: usize, column: usize) -> bool;

    /// Takes a tile.
    ///
    /// # Errors
    /// Any; the computation ends with it.
    fn put(&mut self, tile: &Tile) -> Result<(), Self::Error>;
}

/// Computes the tiles that are needed, in order.
///
/// # Errors
/// Those of the tiles, or an interruption by the user.
pub fn gram_into<S: Tiles>(
    pairs: &impl Pairs,
    tiles: &mut S,
    job: &Job<'_>,
) -> Result<(), S::Error> {
    let n = pairs.size().0;
    let progress = job.progress("kernel", "rows", Some(n as u64));
    rows_into(pairs, 0..n, tiles, &progress)
}

/// Computes those of some rows, which begin at a multiple of [`TILE`].
pub(crate) fn rows_into<S: Tiles>(
    pairs: &impl Pairs,
    rows: Range<usize>,
    tiles: &mut S,
    progress: &Progress,
) -> Result<(), S::Error> {
    let m = pairs.size().1;
    for rows in parts(rows, TILE) {
        let first = if pairs.is_symmetric() { rows.start } else { 0 };
        let wanted: Vec<Range<usize>> =
            parts(first..m, TILE).filter(|columns| !tiles.has(rows.start, columns.start)).collect();
        for group in wanted.chunks(GROUP) {
            progress.check().map_err(crate::Error::from)?;
            let mut found: Vec<Tile> = group
                .iter()
                .map(|columns| Tile {
                    rows: rows.clone(),
                    columns: columns.clone(),
                    values: vec![0.0; rows.len() * columns.len()],
                })
                .collect();
            found.par_iter_mut().for_each(|tile| {
                let width = tile.columns.len();
                let strips = tile
                    .values
                    .par_chunks_mut(STRIP * width)
                    .zip(parts(rows.clone(), STRIP).collect::<Vec<_>>());
                strips.for_each(|(strip, rows)| {
                    let mut values = vec![0.0; strip.len()];
                    pairs.tile(rows, tile.columns.clone(), &mut values);
                    strip.iter_mut().zip(values).for_each(|(v, x)| *v = x as f32);
                });
                if pairs.is_symmetric() && tile.rows == tile.columns {
                    super::mirror(&mut tile.values, width);
                }
            });
            found.iter().try_for_each(|tile| tiles.put(tile))?;
        }
        progress.advance(rows.len() as u64);
    }
    Ok(())
}

/// Cuts a range into parts of this length; the last one may be shorter.
pub(crate) fn parts(range: Range<usize>, step: usize) -> impl Iterator<Item = Range<usize>> {
    let end = range.end;
    range.step_by(step).map(move |start| start..(start + step).min(end))
}

/// The sums of the tiles of some rows and columns, for values that arrive in several passes.
#[derive(Debug)]
pub(crate) struct Sums {
    tiles: Vec<(Range<usize>, Range<usize>, Vec<f64>)>,
}

impl Sums {
    /// Rows and columns begin at a multiple of [`TILE`]; of a symmetric matrix tiles below the diagonal are left out.
    pub fn new(rows: Range<usize>, columns: Range<usize>, is_symmetric: bool) -> Self {
        let tiles = parts(rows, STRIP).flat_map(|rows| {
            let first = if is_symmetric { rows.start / TILE * TILE } else { 0 };
            let columns = parts(columns.clone(), TILE).filter(move |c| c.start >= first);
            columns.map(move |columns| {
                let sums = vec![0.0; rows.len() * columns.len()];
                (rows.clone(), columns, sums)
            })
        });
        Self { tiles: tiles.collect() }
    }

    /// Calls `add` with every tile inside some rows and columns.
    pub fn add(
        &mut self,
        rows: &Range<usize>,
        columns: &Range<usize>,
        add: impl Fn(Range<usize>, Range<usize>, &mut [f64]) + Sync,
    ) {
        self.tiles.par_iter_mut().for_each(|(own, others, sums)| {
            let is_inside = |part: &Range<usize>, of: &Range<usize>| {
                part.start >= of.start && part.end <= of.end
            };
            if is_inside(own, rows) && is_inside(others, columns) {
                add(own.clone(), others.clone(), sums);
            }
        });
    }

    /// Writes the sums of a tile.
    pub fn tile(&self, rows: &Range<usize>, columns: &Range<usize>, values: &mut [f64]) {
        let at = self.tiles.binary_search_by_key(&(rows.start, columns.start), |tile| {
            (tile.0.start, tile.1.start)
        });
        if let Ok(at) = at {
            values.copy_from_slice(&self.tiles[at].2);
        }
    }
}

/// All tiles, in memory.
#[derive(Debug)]
pub(crate) struct Kept {
    gram: super::Gram,
    is_symmetric: bool,
}

impl Kept {
    pub fn new((rows, columns): (usize, usize), is_symmetric: bool) -> Self {
        let values = vec![0.0; rows * columns];
        Self { gram: super::Gram { rows, columns, values }, is_symmetric }
    }

    pub fn finish(mut self) -> super::Gram {
        if self.is_symmetric {
            super::mirror(&mut self.gram.values, self.gram.rows);
        }
        self.gram
    }
}

impl Tiles for Kept {
    type Error = crate::Error;

    fn has(&self, _row: usize, _column: usize) -> bool {
        false
    }

    fn put(&mut self, tile: &Tile) -> crate::Result<()> {
        let width = self.gram.columns;
        let rows = tile.values.chunks_exact(tile.columns.len());
        for (i, values) in tile.rows.clone().zip(rows) {
            self.gram.values[i * width..][tile.columns.clone()].copy_from_slice(values);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Numbers;
    use super::super::{gram, gram_f64};
    use super::*;

    #[test]
    fn tiles_are_those_of_the_matrix_and_sums_keep_their_places() {
        for is_symmetric in [true, false] {
            let pairs = Numbers(600, is_symmetric);
            let all = gram(&pairs, &Job::silent()).unwrap();
            let mut kept = Kept::new((600, 600), is_symmetric);
            gram_into(&pairs, &mut kept, &Job::silent()).unwrap();
            assert_eq!(kept.finish(), all);
            let mut sums = Sums::new(256..600, 256..600, is_symmetric);
            let square = 256..512;
            sums.add(&square, &square, |rows, columns, values| pairs.tile(rows, columns, values));
            let whole = gram_f64(&pairs, &Job::silent()).unwrap();
            let mut tile = vec![0.0; STRIP * TILE];
            sums.tile(&(320..384), &(256..512), &mut tile);
            let want = (0..STRIP * TILE).map(|p| whole[(320 + p / TILE) * 600 + 256 + p % TILE]);
            assert!(tile.iter().copied().eq(want));
            tile.fill(-1.0);
            sums.tile(&(512..576), &(512..600), &mut tile[..64 * 88]);
            assert!(tile[..64 * 88].iter().all(|x| *x == 0.0), "nothing was added there");
        }
    }

    /// Tiles that are there already are not computed again.
    #[test]
    fn only_tiles_that_are_needed_are_computed() {
        struct Partly(Vec<(usize, usize)>);

        impl Tiles for Partly {
            type Error = crate::Error;

            fn has(&self, row: usize, column: usize) -> bool {
                column == 256 || row == 512
            }

            fn put(&mut self, tile: &Tile) -> crate::Result<()> {
                self.0.push((tile.rows.start, tile.columns.start));
                Ok(())
            }
        }

        let mut tiles = Partly(Vec::new());
        gram_into(&Numbers(600, false), &mut tiles, &Job::silent()).unwrap();
        assert_eq!(tiles.0, [(0, 0), (0, 512), (256, 0), (256, 512)]);
    }
}
