//! Where to look when nothing is known: per class, do its training rows fall into a large and a small group?
//!
//! The Gram matrix of a class is centered and decomposed; principal component scores of a row are sqrt(d_j) v_ij, signed such that the
//! smaller side of the best cut of the first ([`split`]) is above. Classes are ranked by the separation of that cut, rows within a class
//! by their first score. The spectral signature (Tran, Li & Madry 2018) is its square, which loses the sign and with it a group of
//! a third of the class.
//!
//! Clean classes have subgroups too. A ranking is all that follows from it: no verdict without incidents or suspects.

use serde::Serialize;
use veridical_core::{Error, Result, Rows};
use veridical_learn::eigen;

use super::split::split;

/// A training row of a class with its first principal component score.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ScannedRow {
    /// The training row.
    pub row: u32,
    /// The first score; the smaller group is above.
    pub first: f64,
    /// The second score.
    pub second: f64,
    /// The spectral signature, the square of the first.
    pub spectral: f64,
}

/// The groups of a class.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassScan {
    /// The class.
    pub class: u32,
    /// The share of its rows in the smaller group.
    pub share: f64,
    /// The distance of both means in standard deviations within the groups.
    pub separation: f64,
    /// The shares of the variance of the first two components.
    pub explained: [f64; 2],
    /// All rows of the class, highest first score first.
    pub rows: Vec<ScannedRow>,
}

/// A ranking of classes and rows to look at.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scan {
    /// Classes, largest separation first.
    pub classes: Vec<ClassScan>,
    /// What follows from it.
    pub verdict: &'static str,
}

/// The rows a class needs to have groups.
const LEAST: usize = 4;

/// Ranks classes by how far their training rows fall apart; classes of fewer than four rows, or of equal rows, are left out.
///
/// # Errors
/// [`Error::Shape`] if the Gram matrix does not have one row and column per label, [`Error::Unfit`] if it is not finite.
pub fn scan(k: Rows<'_, f32>, labels: &[u32]) -> Result<Scan> {
    let n = labels.len();
    if k.n() != n || k.dim() != n {
        let what = format!("{n} labels do not fit a Gram matrix {} x {}", k.n(), k.dim());
        return Err(Error::shape(what, ""));
    }
    if k.values().iter().any(|k| !k.is_finite()) {
        return Err(Error::unfit("the Gram matrix is not finite", ""));
    }
    let mut groups = std::collections::BTreeMap::<u32, Vec<usize>>::new();
    labels.iter().enumerate().for_each(|(i, &y)| groups.entry(y).or_default().push(i));
    let groups = groups.into_iter().filter(|(_, rows)| rows.len() >= LEAST);
    let mut classes: Vec<ClassScan> =
        groups.filter_map(|(class, rows)| of_class(k, class, &rows)).collect();
    classes.sort_by(|a, b| b.separation.total_cmp(&a.separation).then(a.class.cmp(&b.class)));
    Ok(Scan { classes, verdict: "no verdict without incidents or suspects" })
}

fn of_class(k: Rows<'_, f32>, class: u32, rows: &[usize]) -> Option<ClassScan> {
    let n = rows.len();
    let at = |i: usize, j: usize| f64::from(k.row(rows[i])[rows[j]]);
    let means: Vec<f64> =
        (0..n).map(|i| (0..n).map(|j| at(i, j)).sum::<f64>() / n as f64).collect();
    let mean = means.iter().sum::<f64>() / n as f64;
    let centered: Vec<f64> =
        (0..n * n).map(|c| at(c / n, c % n) - means[c / n] - means[c % n] + mean).collect();
    let (values, vectors) = eigen(&centered, n);
    let total: f64 = values.iter().map(|d| d.max(0.0)).sum();
    let score = |i: usize, j: usize| values[j].max(0.0).sqrt() * vectors[i * n + j];
    let first: Vec<f64> = (0..n).map(|i| score(i, 0)).collect();
    let found = split(&first)?;
    // The smaller group above: turn the component if it is below.
    let sign = if 2 * found.above as usize > n { -1.0 } else { 1.0 };
    let smaller = found.above.min(n as u64 - found.above);
    let row = |i: usize| {
        let first = sign * first[i];
        ScannedRow { row: rows[i] as u32, first, second: score(i, 1), spectral: first * first }
    };
    let mut scanned: Vec<ScannedRow> = (0..n).map(row).collect();
    scanned.sort_by(|a, b| b.first.total_cmp(&a.first).then(a.row.cmp(&b.row)));
    Some(ClassScan {
        class,
        share: smaller as f64 / n as f64,
        separation: found.separation,
        explained: [values[0] / total, values[1].max(0.0) / total],
        rows: scanned,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use veridical_core::{Seed, Stream};

    #[test]
    fn a_class_with_a_planted_group_is_looked_at_first() {
        let (n, dim) = (120, 6);
        let mut x = vec![0.0; n * dim];
        let seed = Seed::new(2).unwrap();
        Stream::new(seed, "test/scan").at(0, 0).fill_normals(&mut x);
        let labels: Vec<u32> = (0..n as u32).map(|i| i % 3).collect();
        // Class 1: a third of its rows elsewhere.
        for i in (1..n).step_by(9) {
            x[i * dim + 2] += 6.0;
        }
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>() as f32;
        let k: Vec<f32> =
            x.chunks(dim).flat_map(|a| x.chunks(dim).map(move |b| dot(a, b))).collect();
        let got = scan(Rows::new(&k, n).unwrap(), &labels).unwrap();
        assert_eq!(got.verdict, "no verdict without incidents or suspects");
        let first = &got.classes[0];
        assert_eq!((first.class, got.classes.len()), (1, 3));
        let planted = (1..n as u32).step_by(9).count();
        assert!((first.share - planted as f64 / 40.0).abs() < 0.06, "{}", first.share);
        let found = first.rows.iter().take(planted).filter(|r| r.row % 9 == 1).count();
        assert!(found + 1 >= planted, "{found} of {planted}");
        assert!(first.explained[0] > first.explained[1] && first.separation > 4.0);
        let small = scan(Rows::new(&k[..1], 1).unwrap(), &labels).unwrap_err().to_string();
        assert_eq!(small, "120 labels do not fit a Gram matrix 1 x 1");
    }
}
