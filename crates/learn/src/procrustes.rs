//! Orthogonal Procrustes: rotations that align one table with another.
//!
//! Rows a_i of a reference and b_i of the table to align, as matrices A and B.
//!
//! Procrustes   min over R'R = I of |A - B R|_F: R = U V' of the singular value decomposition B'A = U S V'
//!              (Schönemann 1966). R may be a reflection. With centering, means are subtracted first; with scaling,
//!              s R with s = tr(S) / |B|^2.
//! Generalized  min over R_1 .. R_m of sum_i<j |X_i R_i - X_j R_j|^2 (Gower 1975), by updates R_i = polar factor of
//!              X_i' sum_{j != i} X_j R_j, which never increase the sum (ten Berge 1977). The X_i'X_j are computed
//!              once, so an update costs d^3 per pair and reads no rows. Iteration stops when no entry of an R_i moved by
//!              more than 1e-10, or after 500 sweeps. The R_i are unique up to a common rotation; R_1 = I, so the first
//!              table keeps its frame.
//!
//! Where B'A is rank-deficient (fewer rows than columns, columns of zeros) U and V are not unique; there R rotates as
//! little as possible: R = U_1 V_1' + U_0 W V_0' with W the polar factor of U_0'V_0. So aligning a table twice changes
//! nothing the second time.

use faer::{Mat, MatRef};

use veridical_core::{Error, Result, Rows};

use crate::dense::{Svd, product, row_major, view};
use crate::{LinearMap, PairMoments};

/// Orthogonal Procrustes of the rows b to the rows a; by default neither scaled nor centered.
///
/// ```
/// use veridical_learn::{PairMoments, Procrustes, residual};
///
/// let (a, b) = ([1.0, 0.0, 0.0, 2.0], [0.0, 1.0, -2.0, 0.0]); // b is a, turned by a quarter
/// let moments = PairMoments::of(&a, 2, &b, 2);
/// let map = Procrustes::default().fit(&moments);
/// assert!(map.is_rotation() && residual(&moments, &map) < 1e-7);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Procrustes {
    /// Whether to fit a scale factor as well.
    pub scale: bool,
    /// Whether to subtract the mean of each table first.
    pub center: bool,
}

impl Procrustes {
    /// Fits the map from b to a.
    ///
    /// # Panics
    /// If the widths differ, or the moments are not finite.
    pub fn fit(&self, moments: &PairMoments) -> LinearMap {
        let d = moments.dim_a();
        assert_eq!(d, moments.dim_b(), "equal widths");
        let centered = self.center.then(|| moments.centered());
        let used = centered.as_ref().unwrap_or(moments);
        let (mut rotation, trace) = polar(view(used.ab(), d).transpose());
        let size: f64 = (0..d).map(|i| used.bb()[i * (d + 1)]).sum();
        if self.scale && size > 0.0 {
            rotation = Mat::from_fn(d, d, |i, j| rotation[(i, j)] * (trace / size));
        }
        let mut map = LinearMap::plain(row_major(rotation.as_ref()), d, d);
        if self.center {
            [map.to, map.from] = moments.means();
        }
        map
    }
}

/// The orthogonal matrix nearest to a square matrix, and tr(S).
fn polar(matrix: MatRef<'_, f64>) -> (Mat<f64>, f64) {
    let d = matrix.nrows();
    let Svd { u, s, v } = Svd::of(matrix);
    let floor = 4.0 * d as f64 * f64::EPSILON * s[0];
    let rank = s.iter().take_while(|&&s| s > floor).count();
    let mut rotation = product(u.subcols(0, rank), v.subcols(0, rank).transpose());
    if rank < d {
        let (u, v) = (u.subcols(rank, d - rank), v.subcols(rank, d - rank));
        let turn = Svd::of(product(u.transpose(), v).as_ref());
        let turn = product(turn.u.as_ref(), turn.v.transpose());
        let rest = product(product(u, turn.as_ref()).as_ref(), v.transpose());
        rotation = Mat::from_fn(d, d, |i, j| rotation[(i, j)] + rest[(i, j)]);
    }
    (rotation, s.iter().sum())
}

/// Computes the relative residual |A - map(B)|_F / |A|_F from the moments alone.
///
/// If A is zero, the residual is 0 where the map reproduces it and infinite otherwise.
///
/// It is the root of a difference of sums, so an exact fit is reported as about 1e-8.
///
/// # Panics
/// If the map has other widths than the moments.
pub fn residual(moments: &PairMoments, map: &LinearMap) -> f64 {
    let (da, db) = (moments.dim_a(), moments.dim_b());
    assert!(map.input_dim() == db && map.output_dim() == da, "equal widths");
    let total: f64 = (0..da).map(|i| moments.aa()[i * (da + 1)]).sum();
    let shifted = moments.shifted(&map.to, &map.from);
    let matrix = view(&map.matrix, da);
    // |A - B M|^2 = tr A'A - 2 tr M'B'A + tr M'B'B M
    let own: f64 = (0..da).map(|i| shifted.aa()[i * (da + 1)]).sum();
    let inner = |other: MatRef<'_, f64>| -> f64 {
        let terms = (0..db).flat_map(|i| (0..da).map(move |j| matrix[(i, j)] * other[(i, j)]));
        terms.sum()
    };
    let cross = inner(view(shifted.ab(), db).transpose());
    let square = inner(product(view(shifted.bb(), db), matrix).as_ref());
    let left = (own - 2.0 * cross + square).max(0.0);
    if left == 0.0 { 0.0 } else { (left / total).sqrt() }
}

/// Aligns all tables, with the same number of rows each, to their common mean.
///
/// Returns one rotation per table and the mean of the rotated tables.
///
/// # Errors
/// [`Error::Shape`] if there are no tables, or they do not hold the same number of whole rows.
///
/// ```
/// use veridical_learn::generalized_procrustes;
///
/// let (a, b) = ([1.0, 0.0, 0.0, 2.0], [0.0, 1.0, -2.0, 0.0]); // b is a, rotated by 90 degrees
/// let (maps, mean) = generalized_procrustes(&[&a, &b], 2)?;
/// assert!(maps[1].is_rotation());
/// assert!(mean.iter().zip(a).all(|(m, a)| (m - a).abs() < 1e-6));
/// # Ok::<(), veridical_core::Error>(())
/// ```
pub fn generalized_procrustes(tables: &[&[f32]], dim: usize) -> Result<(Vec<LinearMap>, Vec<f32>)> {
    let Some(first) = tables.first() else {
        return Err(Error::shape("there are no tables to align", ""));
    };
    let n = Rows::new(first, dim)?.values().len();
    if let Some(other) = tables.iter().find(|table| table.len() != n) {
        let what = format!("tables of {} and {} values have no common mean", n, other.len());
        return Err(Error::shape(what, ""));
    }
    let m = tables.len();
    // X_i'X_j for i < j.
    let at = |i: usize, j: usize| i * m - i * (i + 1) / 2 + j - i - 1;
    let pairs = (0..m).flat_map(|i| (i + 1..m).map(move |j| (i, j)));
    let cross: Vec<Vec<f64>> =
        pairs.map(|(i, j)| PairMoments::of(tables[i], dim, tables[j], dim).ab().to_vec()).collect();
    let cross = |i: usize, j: usize| {
        let product = view(&cross[at(i.min(j), i.max(j))], dim);
        if i < j { product } else { product.transpose() }
    };
    let identity = Mat::<f64>::identity(dim, dim);
    let mut turns = vec![identity];
    turns.extend((1..m).map(|i| polar(cross(i, 0)).0));
    for _ in 0..500 {
        let mut moved = 0.0f64;
        for i in 0..m {
            let mut sum = Mat::<f64>::zeros(dim, dim);
            for j in (0..m).filter(|&j| j != i) {
                let part = product(cross(i, j), turns[j].as_ref());
                sum = Mat::from_fn(dim, dim, |r, c| sum[(r, c)] + part[(r, c)]);
            }
            if m > 1 {
                let turn = polar(sum.as_ref()).0;
                let change = (0..dim).flat_map(|r| (0..dim).map(move |c| (r, c)));
                let change = change.map(|at| (turn[at] - turns[i][at]).abs());
                moved = change.fold(moved, f64::max);
                turns[i] = turn;
            }
        }
        if moved <= 1e-10 {
            break;
        }
    }
    let first = turns[0].clone();
    let turned = |turn: &Mat<f64>| row_major(product(turn.as_ref(), first.transpose()).as_ref());
    let mut maps: Vec<LinearMap> =
        turns.iter().map(|turn| LinearMap::plain(turned(turn), dim, dim)).collect();
    maps[0] = LinearMap::identity(dim);
    let mut mean = vec![0.0f64; n];
    for (table, map) in tables.iter().zip(&maps) {
        let turned = map.apply(table);
        mean.iter_mut().zip(turned).for_each(|(s, x)| *s += f64::from(x));
    }
    Ok((maps, mean.iter().map(|s| (s / m as f64) as f32).collect()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use veridical_core::{Seed, Stream};

    use super::*;
    use crate::orthonormal;

    fn normals(n: usize, at: u64) -> Vec<f64> {
        let mut x = vec![0.0; n];
        Stream::new(Seed::new(5).unwrap(), "test/procrustes").at(0, at).fill_normals(&mut x);
        x
    }

    fn table(n: usize, dim: usize, at: u64) -> Vec<f32> {
        normals(n * dim, at).iter().map(|&x| x as f32).collect()
    }

    fn rotation(dim: usize, at: u64) -> LinearMap {
        LinearMap::plain(orthonormal(&normals(dim * dim, at), dim), dim, dim)
    }

    fn largest_difference(x: &[f64], y: &[f64]) -> f64 {
        x.iter().zip(y).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max)
    }

    fn moments(a: &[f32], b: &[f32], dim: usize) -> PairMoments {
        PairMoments::of(a, dim, b, dim)
    }

    fn inverse(map: &LinearMap) -> Vec<f64> {
        row_major(view(&map.matrix, map.output_dim()).transpose())
    }

    /// |A - map(B)| / |A| from the rows.
    fn direct(a: &[f32], b: &[f32], map: &LinearMap) -> f64 {
        let square = |x: f64| x * x;
        let left: f64 =
            a.iter().zip(map.apply(b)).map(|(&a, b)| square(f64::from(a) - f64::from(b))).sum();
        (left / a.iter().map(|&a| square(f64::from(a))).sum::<f64>()).sqrt()
    }

    /// B = A Q in f32: entries are off by 2^-24 of their size, the rotation by a small multiple of that.
    #[test]
    fn a_planted_rotation_is_recovered_to_1e_6_and_aligning_is_idempotent() {
        for (n, dim, at) in [(50, 3, 1), (400, 32, 2), (2000, 128, 3)] {
            let a = table(n, dim, at);
            let planted = rotation(dim, at + 100);
            let b = planted.apply(&a);
            let map = Procrustes::default().fit(&moments(&a, &b, dim));
            assert!(map.is_rotation());
            assert!(largest_difference(&map.matrix, &inverse(&planted)) < 1e-6);
            let aligned = map.apply(&b);
            assert!(direct(&a, &b, &map) < 1e-6);
            let again = Procrustes::default().fit(&moments(&a, &aligned, dim));
            let identity = LinearMap::identity(dim);
            assert!(largest_difference(&again.matrix, &identity.matrix) < 1e-6);
        }
    }

    /// As above with a scale and a shift: a = (b - q) R / 2.5 + p.
    #[test]
    fn planted_scale_and_translation_are_recovered() {
        let (n, dim) = (500, 8);
        let a = table(n, dim, 11);
        let mut planted = rotation(dim, 12);
        planted.matrix.iter_mut().for_each(|x| *x *= 2.5);
        planted.to = normals(dim, 13);
        let b = planted.apply(&a);
        let map = Procrustes { scale: true, center: true }.fit(&moments(&a, &b, dim));
        assert!(direct(&a, &b, &map) < 1e-6);
        assert!(!map.is_rotation());
        let plain = Procrustes::default().fit(&moments(&a, &b, dim));
        assert!(plain.is_rotation() && direct(&a, &b, &plain) > 0.5);
    }

    /// Three rows in eight columns, and columns of zeros: the undetermined part is not rotated.
    #[test]
    fn what_the_rows_do_not_determine_is_turned_as_little_as_possible() {
        let dim = 8;
        let a = table(3, dim, 21);
        let map = Procrustes::default().fit(&moments(&a, &a, dim));
        assert!(largest_difference(&map.matrix, &LinearMap::identity(dim).matrix) < 1e-6);
        let zeros = vec![0.0; 4 * dim];
        let map = Procrustes { scale: true, center: true }.fit(&moments(&zeros, &zeros, dim));
        assert!(largest_difference(&map.matrix, &LinearMap::identity(dim).matrix) < 1e-12);
        assert_eq!(residual(&moments(&zeros, &zeros, dim), &map), 0.0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        /// R is orthogonal, no worse than the identity, and the moments give its residual: squares agree to n eps.
        #[test]
        fn fits_are_rotations_that_are_no_worse_than_none(
            n in 1usize..60, dim in 1usize..12, at in 0u64..1000,
            scale in any::<bool>(), center in any::<bool>(),
        ) {
            let (a, b) = (table(n, dim, 2 * at + 5000), table(n, dim, 2 * at + 5001));
            let moments = moments(&a, &b, dim);
            let plain = Procrustes::default().fit(&moments);
            prop_assert!(plain.is_rotation());
            let of_identity = residual(&moments, &LinearMap::identity(dim));
            prop_assert!(residual(&moments, &plain) <= of_identity + 1e-7);
            let map = Procrustes { scale, center }.fit(&moments);
            prop_assert!(residual(&moments, &map) <= residual(&moments, &plain) + 1e-7);
            let (from_moments, from_rows) = (residual(&moments, &map), direct(&a, &b, &map));
            prop_assert!((from_moments.powi(2) - from_rows.powi(2)).abs() < 1e-5 * (1.0 + from_rows));
        }

        /// R rotated copies of one table: the maps undo the rotations, and the mean is the first copy.
        #[test]
        fn generalized_procrustes_recovers_rotated_copies(
            m in 1usize..5, dim in 1usize..7, at in 0u64..1000,
        ) {
            let n = 4 * dim;
            let base = table(n, dim, at + 9000);
            let turns: Vec<LinearMap> =
                (0..m as u64).map(|i| rotation(dim, 100 * at + i + 20_000)).collect();
            let copies: Vec<Vec<f32>> = turns.iter().map(|turn| turn.apply(&base)).collect();
            let tables: Vec<&[f32]> = copies.iter().map(Vec::as_slice).collect();
            let (maps, mean) = generalized_procrustes(&tables, dim).unwrap();
            prop_assert_eq!(&maps[0], &LinearMap::identity(dim));
            for (map, copy) in maps.iter().zip(&copies) {
                prop_assert!(map.is_rotation());
                prop_assert!(direct(&copies[0], copy, map) < 1e-5);
            }
            let identity = LinearMap::identity(dim);
            prop_assert!(direct(&copies[0], &mean, &identity) < 1e-5);
        }
    }

    /// With noise, the sum of squares between tables is below that of aligning all to the first, and the mean is
    /// nearer to the truth than the first table is: its noise has a quarter of the variance.
    #[test]
    fn the_common_mean_is_better_than_any_table() {
        let (m, n, dim) = (4, 200, 6);
        let truth = table(n, dim, 31);
        let noisy: Vec<Vec<f32>> = (0..m)
            .map(|i| {
                let turned = rotation(dim, 40 + i).apply(&truth);
                let noise = table(n, dim, 50 + i);
                turned.iter().zip(noise).map(|(x, e)| x + 0.3 * e).collect()
            })
            .collect();
        let tables: Vec<&[f32]> = noisy.iter().map(Vec::as_slice).collect();
        let (maps, mean) = generalized_procrustes(&tables, dim).unwrap();
        let spread = |maps: &[LinearMap]| -> f64 {
            let turned: Vec<_> = maps.iter().zip(&tables).map(|(m, t)| m.apply(t)).collect();
            let pairs = (0..4).flat_map(|i| (0..i).map(move |j| (i, j)));
            let gap = |(x, y): (&f32, &f32)| f64::from(x - y).powi(2);
            pairs.map(|(i, j)| turned[i].iter().zip(&turned[j]).map(gap).sum::<f64>()).sum()
        };
        let to_first: Vec<LinearMap> =
            tables.iter().map(|t| Procrustes::default().fit(&moments(tables[0], t, dim))).collect();
        assert!(spread(&maps) < spread(&to_first));
        let error = |table: &[f32]| {
            let map = Procrustes::default().fit(&moments(&truth, table, dim));
            direct(&truth, table, &map)
        };
        assert!(error(&mean) < 0.6 * error(tables[0]), "{} {}", error(&mean), error(tables[0]));
    }
}
