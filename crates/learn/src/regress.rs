//! Linear maps between tables of any widths, and canonical correlations.
//!
//! With centered rows, C_bb = B'B, C_ba = B'A:
//! ridge      M = (C_bb + l I)^-1 C_ba (Hoerl & Kennard 1970), with l = lambda tr(C_bb) / d, so that lambda is
//!            dimensionless; from and to are the means, which are not penalized
//! low rank   M V V' with V the k leading eigenvectors of M'C_ba: reduced-rank regression (Izenman 1975) with a ridge
//!            (Mukherjee & Zhu 2011, eq. 4)
//! canonical  singular values of C_aa^-1/2 C_ab C_bb^-1/2 (Hotelling 1936): the cosines of the principal angles between
//!            the column spaces of A and B; centered, the canonical correlations
//!
//! Directions of C below d eps of the largest are dropped: they hold only rounding error.

use faer::{Mat, MatRef};

use crate::dense::{Svd, product, row_major, view};
use crate::{LinearMap, PairMoments, eigen};

/// Fits the ridge regression of a on b.
///
/// ```
/// use veridical_learn::{PairMoments, ridge_map};
///
/// let (a, b) = ([1.0, 3.0, 5.0], [0.0, 1.0, 2.0]); // a = 2 b + 1
/// let map = ridge_map(&PairMoments::of(&a, 1, &b, 1), 0.0);
/// assert!((map.apply(&[10.0])[0] - 21.0).abs() < 1e-5);
/// ```
///
/// # Panics
/// If lambda is negative or not finite, or the moments are not finite.
pub fn ridge_map(moments: &PairMoments, lambda: f64) -> LinearMap {
    let (matrix, _) = ridge(&moments.centered(), lambda);
    with_means(moments, &matrix)
}

/// Fits the reduced-rank regression of a on b, with a matrix of rank at most `rank`.
///
/// # Panics
/// If the rank is 0, lambda is negative or not finite, or the moments are not finite.
///
/// ```
/// use veridical_learn::{PairMoments, low_rank_map};
///
/// let a = [1.0, 2.0, 2.0, 4.0, 3.0, 6.0]; // both columns follow b: rank 1
/// let map = low_rank_map(&PairMoments::of(&a, 2, &[1.0, 2.0, 3.0], 1), 1, 0.0);
/// assert!((map.apply(&[5.0])[1] - 10.0).abs() < 1e-5);
/// ```
pub fn low_rank_map(moments: &PairMoments, rank: usize, lambda: f64) -> LinearMap {
    assert!(rank > 0, "a rank of at least 1");
    let da = moments.dim_a();
    let (matrix, cross) = ridge(&moments.centered(), lambda);
    let fitted = product(matrix.transpose(), cross.as_ref());
    let symmetric = Mat::from_fn(da, da, |i, j| 0.5 * (fitted[(i, j)] + fitted[(j, i)]));
    let (_, vectors) = eigen(&row_major(symmetric.as_ref()), da);
    let leading = view(&vectors, da).subcols(0, rank.min(da));
    let onto = product(product(matrix.as_ref(), leading).as_ref(), leading.transpose());
    with_means(moments, &onto)
}

/// M and B'A of centered moments.
fn ridge(centered: &PairMoments, lambda: f64) -> (Mat<f64>, Mat<f64>) {
    assert!(lambda >= 0.0 && lambda.is_finite(), "the penalty must be finite and at least 0");
    let d = centered.dim_b();
    let cross = view(centered.ab(), d).transpose().to_owned();
    let (values, vectors) = eigen(centered.bb(), d);
    let vectors = view(&vectors, d);
    let penalty = lambda * values.iter().map(|l| l.max(0.0)).sum::<f64>() / d as f64;
    let floor = floor(&values);
    let inverse = |l: f64| if l > floor { 1.0 / (l + penalty) } else { 0.0 };
    let turned = product(vectors.transpose(), cross.as_ref());
    let scaled = Mat::from_fn(d, cross.ncols(), |i, j| turned[(i, j)] * inverse(values[i]));
    (product(vectors, scaled.as_ref()), cross)
}

fn floor(values: &[f64]) -> f64 {
    4.0 * values.len() as f64 * f64::EPSILON * values.first().copied().unwrap_or(0.0).max(0.0)
}

fn with_means(moments: &PairMoments, matrix: &Mat<f64>) -> LinearMap {
    let [to, from] = moments.means();
    LinearMap { from, matrix: row_major(matrix.as_ref()), to }
}

/// Computes the cosines of the principal angles between the column spaces of the two tables, largest first.
///
/// Their number is the smaller of the two ranks. With `centered`, the means are subtracted first, which makes them the
/// canonical correlations.
///
/// # Panics
/// If the moments are not finite.
///
/// ```
/// use veridical_learn::{PairMoments, canonical_correlations};
///
/// let moments = PairMoments::of(&[1.0, 2.0, 3.0], 1, &[5.0, 3.0, 1.0], 1); // a linear function
/// assert!((canonical_correlations(&moments, true)[0] - 1.0).abs() < 1e-12);
/// ```
pub fn canonical_correlations(moments: &PairMoments, centered: bool) -> Vec<f64> {
    let centered = centered.then(|| moments.centered());
    let used = centered.as_ref().unwrap_or(moments);
    let (da, db) = (used.dim_a(), used.dim_b());
    let (a, b) = (whitening(used.aa(), da), whitening(used.bb(), db));
    if a.ncols() == 0 || b.ncols() == 0 {
        return Vec::new();
    }
    let inside = product(product(a.transpose(), view(used.ab(), db)).as_ref(), b.as_ref());
    Svd::of(inside.as_ref()).s.into_iter().map(|s| s.min(1.0)).collect()
}

/// V diag(l)^-1/2 of the directions above the rounding floor.
fn whitening(gram: &[f64], dim: usize) -> Mat<f64> {
    let (values, vectors) = eigen(gram, dim);
    let floor = floor(&values);
    let rank = values.iter().take_while(|&&l| l > floor).count();
    let vectors: MatRef<'_, f64> = view(&vectors, dim);
    Mat::from_fn(dim, rank, |i, j| vectors[(i, j)] / values[j].sqrt())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use veridical_core::{Seed, Stream};

    use super::*;
    use crate::{residual, solve_spd};

    fn table(n: usize, dim: usize, at: u64) -> Vec<f32> {
        let mut x = vec![0.0; n * dim];
        Stream::new(Seed::new(6).unwrap(), "test/regress").at(0, at).fill_normals(&mut x);
        x.iter().map(|&x| x as f32).collect()
    }

    fn planted(d_in: usize, d_out: usize, at: u64) -> LinearMap {
        let values = |n, at| table(1, n, at).iter().map(|&x| f64::from(x)).collect();
        LinearMap {
            from: values(d_in, at),
            matrix: values(d_in * d_out, at + 1),
            to: values(d_out, at + 2),
        }
    }

    /// The matrix is accurate to the f32 rounding of a; errors in the shifts show in the mapped rows.
    #[test]
    fn a_planted_map_is_recovered() {
        let (n, db, da) = (400, 9, 14);
        let b = table(n, db, 1);
        let map = planted(db, da, 2);
        let a = map.apply(&b);
        let got = ridge_map(&PairMoments::of(&a, da, &b, db), 0.0);
        for (g, w) in got.matrix.iter().zip(&map.matrix) {
            assert!((g - w).abs() < 1e-6, "{g} instead of {w}");
        }
        for (g, w) in got.apply(&b).iter().zip(&a) {
            assert!((g - w).abs() < 1e-5, "{g} instead of {w}");
        }
    }

    /// Column by column against Cholesky on the normal equations, condition below 10.
    #[test]
    fn ridge_solves_the_normal_equations() {
        let (n, db, da, lambda) = (60, 5, 3, 0.3);
        let (a, b) = (table(n, da, 11), table(n, db, 12));
        let moments = PairMoments::of(&a, da, &b, db);
        let map = ridge_map(&moments, lambda);
        let centered = moments.centered();
        let trace: f64 = (0..db).map(|i| centered.bb()[i * (db + 1)]).sum();
        for j in 0..da {
            let mut left = centered.bb().to_vec();
            (0..db).for_each(|i| left[i * (db + 1)] += lambda * trace / db as f64);
            let right: Vec<f64> = centered.ab()[j * db..][..db].to_vec();
            let want = solve_spd(&mut left, &right);
            for (i, want) in want.iter().enumerate() {
                assert!((map.matrix[i * da + j] - want).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn low_rank_maps_have_their_rank_and_find_a_planted_one() {
        let (n, db, da, rank) = (300, 8, 6, 2);
        let b = table(n, db, 21);
        let (left, right) = (planted(db, rank, 22), planted(rank, da, 30));
        let a = right.apply(&left.apply(&b));
        let moments = PairMoments::of(&a, da, &b, db);
        let rank_of = |map: &LinearMap| {
            let s = Svd::of(view(&map.matrix, da)).s;
            s.iter().filter(|&&x| x > 1e-9 * s[0]).count()
        };
        for k in 1..=da {
            let map = low_rank_map(&moments, k, 0.0);
            // a is a function of b up to f32 rounding, which a larger rank also fits.
            assert!(rank_of(&map) <= k);
            assert_eq!(residual(&moments, &map) < 1e-5, k >= rank, "{k}");
        }
    }

    /// Among maps of rank k the residual is least: no other k columns of the full map's span do better, and the
    /// optimum is the sum of the eigenvalues left out (Izenman 1975, theorem 1).
    #[test]
    fn the_residual_of_a_low_rank_is_the_sum_of_what_is_left_out() {
        let (n, db, da) = (200, 7, 5);
        let (b, e) = (table(n, db, 41), table(n, da, 42));
        let a: Vec<f32> =
            planted(db, da, 43).apply(&b).iter().zip(e).map(|(x, e)| x + 0.5 * e).collect();
        let moments = PairMoments::of(&a, da, &b, db);
        let total: f64 = (0..da).map(|i| moments.aa()[i * (da + 1)]).sum();
        let square = |map: &LinearMap| residual(&moments, map).powi(2) * total;
        let (matrix, cross) = ridge(&moments.centered(), 0.0);
        let fitted = row_major(product(matrix.transpose(), cross.as_ref()).as_ref());
        let (values, _) = eigen(&fitted, da);
        for k in 1..=da {
            let left: f64 = values[k..].iter().sum();
            let got = square(&low_rank_map(&moments, k, 0.0)) - square(&ridge_map(&moments, 0.0));
            assert!((got - left).abs() < 1e-9 * total, "{k}: {got} {left}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        /// Full-rank linear maps leave them unchanged, and a table has angle 0 to itself. Condition numbers stay below
        /// about 1e4, and f32 rounds the tables at 6e-8.
        #[test]
        fn canonical_correlations_depend_on_column_spaces_alone(
            n in 30usize..80, da in 1usize..6, db in 1usize..6, at in 0u64..500, centered: bool,
        ) {
            let (a, b) = (table(n, da, 4 * at + 100), table(n, db, 4 * at + 101));
            let of = |a: &[f32], da, b: &[f32], db| {
                canonical_correlations(&PairMoments::of(a, da, b, db), centered)
            };
            let want = of(&a, da, &b, db);
            prop_assert_eq!(want.len(), da.min(db));
            prop_assert!(want.windows(2).all(|w| w[0] >= w[1]));
            let mut mixed = planted(db, db, 4 * at + 102);
            (0..db).for_each(|i| mixed.matrix[i * (db + 1)] += 6.0);
            mixed.from.fill(0.0);
            mixed.to.fill(0.0);
            for (g, w) in of(&a, da, &mixed.apply(&b), db).iter().zip(&want) {
                prop_assert!((g - w).abs() < 1e-4, "{} instead of {}", g, w);
            }
            for one in of(&a, da, &a, da) {
                prop_assert!((one - 1.0).abs() < 1e-9);
            }
        }
    }

    /// Rank one against rank two (a repeated column, a column of zeros): one correlation, that between the lines.
    #[test]
    fn dependent_and_empty_columns_are_left_out() {
        let a = [1.0, 1.0, 0.0, 2.0, 2.0, 0.0, 3.0, 3.0, 0.0, 5.0, 5.0, 0.0];
        let b = [1.0, 0.0, 0.0, 1.0, 1.0, 1.0, 2.0, 0.0];
        let got = canonical_correlations(&PairMoments::of(&a, 3, &b, 2), false);
        // (1, 2, 3, 5) projected on the span of (1, 0, 1, 2) and (0, 1, 1, 0), by normal equations.
        let (s11, s12, s22, y1, y2) = (6.0f64, 1.0f64, 2.0f64, 14.0f64, 5.0f64);
        let det = s11 * s22 - s12 * s12;
        let explained = (y1 * (s22 * y1 - s12 * y2) + y2 * (s11 * y2 - s12 * y1)) / det;
        assert_eq!(got.len(), 1);
        assert!((got[0] - (explained / 39.0).sqrt()).abs() < 1e-12);
        assert!(
            canonical_correlations(&PairMoments::of(&[0.0; 4], 1, &[1.0; 4], 1), false).is_empty()
        );
    }
}
