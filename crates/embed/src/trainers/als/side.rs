//! The values of a sparse matrix, row by row.

/// Rows of (column, value), columns ascending.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Side {
    starts: Vec<usize>,
    columns: Vec<u32>,
    values: Vec<f32>,
}

impl Side {
    /// From (row, column, value) in any order; duplicates of one place are kept or summed.
    pub(super) fn new(
        n_rows: usize,
        entries: impl Iterator<Item = (u32, u32, f32)> + Clone,
        sum: bool,
    ) -> Self {
        let mut side = Self::collect(n_rows, entries);
        let mut kept = 0;
        let mut start = 0;
        let mut row: Vec<(u32, f32)> = Vec::new();
        for r in 0..n_rows {
            let end = side.starts[r + 1];
            row.clear();
            row.extend((start..end).map(|at| (side.columns[at], side.values[at])));
            row.sort_by_key(|(column, _)| *column);
            if sum {
                row.dedup_by(|next, first| {
                    let same = next.0 == first.0;
                    first.1 += if same { next.1 } else { 0.0 };
                    same
                });
            }
            for &(column, value) in &row {
                side.columns[kept] = column;
                side.values[kept] = value;
                kept += 1;
            }
            start = end;
            side.starts[r + 1] = kept;
        }
        side.columns.truncate(kept);
        side.values.truncate(kept);
        side
    }

    fn collect(n_rows: usize, entries: impl Iterator<Item = (u32, u32, f32)> + Clone) -> Self {
        let mut starts = vec![0; n_rows + 1];
        entries.clone().for_each(|(row, _, _)| starts[row as usize + 1] += 1);
        for row in 0..n_rows {
            starts[row + 1] += starts[row];
        }
        let mut next = starts.clone();
        let mut columns = vec![0; starts[n_rows]];
        let mut values = vec![0.0; starts[n_rows]];
        for (row, column, value) in entries {
            let at = &mut next[row as usize];
            columns[*at] = column;
            values[*at] = value;
            *at += 1;
        }
        Self { starts, columns, values }
    }

    /// Columns as rows.
    pub(super) fn transposed(&self, n_columns: usize) -> Self {
        let row = |r: usize| {
            let (columns, values) = self.row(r);
            columns.iter().zip(values).map(move |(&c, &v)| (c, r as u32, v))
        };
        Self::collect(n_columns, (0..self.n_rows()).flat_map(row))
    }

    pub(super) fn n_rows(&self) -> usize {
        self.starts.len() - 1
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// Columns and values of row `r`.
    pub(super) fn row(&self, r: usize) -> (&[u32], &[f32]) {
        let range = self.starts[r]..self.starts[r + 1];
        (&self.columns[range.clone()], &self.values[range])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_one_place_are_summed_or_kept() {
        let entries = [(1, 2, 1.0), (0, 1, 2.0), (1, 0, 3.0), (1, 2, 4.0)];
        let summed = Side::new(3, entries.into_iter(), true);
        assert_eq!(summed.row(1), (&[0, 2][..], &[3.0, 5.0][..]));
        assert_eq!(summed.row(2), (&[][..], &[][..]));
        let kept = Side::new(3, entries.into_iter(), false);
        assert_eq!(kept.row(1), (&[0, 2, 2][..], &[3.0, 1.0, 4.0][..]));
        let back = summed.transposed(3);
        assert_eq!(back.row(2), (&[1][..], &[5.0][..]));
        assert_eq!(back.transposed(3), summed);
    }
}
