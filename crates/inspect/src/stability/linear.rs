//! Debiased linear CKA, the Procrustes residual and principal angles of two tables in one pass over their rows.
//!
//! With X, Y the tables, a_i = |x_i|^2, b_i = |y_i|^2, s = X'1, t = Y'1, the sums of HSIC_1 for K = XX', L = YY' are
//!   tr(K~L~) = |X'Y|_F^2 - sum a_i b_i,  1'K~1 = |s|^2 - sum a_i,
//!   1'K~L~1 = s'X'Y t - s'X'b - t'Y'a + sum a_i b_i,
//! so the n x n formula is computed exactly in O(d^2) memory. Rows are divided into groups; sums of all groups but one
//! yield the jackknife.

use rayon::prelude::*;
use veridical_core::Estimate;
use veridical_data::passes::window_rows;
use veridical_learn::{LinearMap, PairMoments, Procrustes, canonical_correlations, residual};

use crate::stability::SharedRows;
use crate::stability::hsic::{HsicSums, cka};

/// Groups of the jackknife; half as many for wide tables, whose moments are large.
const GROUPS: usize = 20;
const WIDE: usize = 512;

/// Moments of both tables, and of rows weighted by their squared norms.
#[derive(Clone, Debug)]
struct Sums {
    pair: PairMoments,
    /// sum a_i, sum b_i.
    norms: [f64; 2],
    /// sum a_i^2, sum a_i b_i, sum b_i^2.
    products: [f64; 3],
    /// X'a, X'b, Y'a, Y'b.
    weighted: [Vec<f64>; 4],
}

impl Sums {
    fn new(dim_x: usize, dim_y: usize) -> Self {
        let weighted = [dim_x, dim_x, dim_y, dim_y].map(|dim| vec![0.0; dim]);
        Self { pair: PairMoments::new(dim_x, dim_y), norms: [0.0; 2], products: [0.0; 3], weighted }
    }

    fn add(&mut self, x: &[f32], y: &[f32]) {
        self.pair.add(x, y);
        let rows = x.chunks_exact(self.pair.dim_a()).zip(y.chunks_exact(self.pair.dim_b()));
        for (x, y) in rows {
            let (a, b) = (squared_norm(x), squared_norm(y));
            self.norms[0] += a;
            self.norms[1] += b;
            let products = [a * a, a * b, b * b];
            self.products.iter_mut().zip(products).for_each(|(sum, x)| *sum += x);
            for (sums, (row, weight)) in
                self.weighted.iter_mut().zip([(x, a), (x, b), (y, a), (y, b)])
            {
                sums.iter_mut().zip(row).for_each(|(sum, &x)| *sum += weight * f64::from(x));
            }
        }
    }

    fn combine(&mut self, other: &Self, sign: f64) {
        if sign > 0.0 {
            self.pair.merge(&other.pair)
        } else {
            self.pair.remove(&other.pair)
        }
        let add = |into: &mut [f64], from: &[f64]| {
            into.iter_mut().zip(from).for_each(|(x, y)| *x += sign * y);
        };
        add(&mut self.norms, &other.norms);
        add(&mut self.products, &other.products);
        self.weighted.iter_mut().zip(&other.weighted).for_each(|(x, y)| add(x, y));
    }

    fn cka(&self) -> f64 {
        let (n, pair) = (self.pair.count() as f64, &self.pair);
        let (s, t) = (pair.sum_a(), pair.sum_b());
        let [a, b] = self.norms;
        let [aa, ab, bb] = self.products;
        let [xa, xb, ya, yb] = &self.weighted;
        let (k, l) = (inner(s, s) - a, inner(t, t) - b);
        let sums = |cross: &[f64], diagonal, [k, l]: [f64; 2], kl| {
            let trace = inner(cross, cross) - diagonal;
            HsicSums { n, trace, k, l, kl }
        };
        let kl = bilinear(s, pair.ab(), t) - inner(s, xb) - inner(t, ya) + ab;
        let kk = bilinear(s, pair.aa(), s) - 2.0 * inner(s, xa) + aa;
        let ll = bilinear(t, pair.bb(), t) - 2.0 * inner(t, yb) + bb;
        cka(
            &sums(pair.ab(), ab, [k, l], kl),
            &sums(pair.aa(), aa, [k, k], kk),
            &sums(pair.bb(), bb, [l, l], ll),
        )
    }
}

/// The linear comparison of two tables.
#[derive(Clone, Debug)]
pub struct Linear {
    /// The debiased linear CKA.
    pub cka: Option<Estimate>,
    /// The residual |A - B R|_F / |A|_F after orthogonal Procrustes; `None` for unequal dimensions.
    pub residual: Option<Estimate>,
    /// The cosines of the principal angles between the two column spaces, largest first.
    pub cosines: Vec<f64>,
    /// The distance of the spectra of the two covariances: |l - m|_1 / (|l|_1 + |m|_1) of sorted eigenvalues.
    pub spectra: f64,
    /// The rotation that takes the second table to the first; `None` for unequal dimensions.
    pub map: Option<LinearMap>,
}

/// The sums over the rows of two tables, by group of the jackknife.
pub struct LinearSums {
    dims: [usize; 2],
    groups: Vec<Sums>,
}

impl LinearSums {
    /// Starts with no rows of these dimensions.
    pub fn new(dim_x: usize, dim_y: usize) -> Self {
        let groups = if dim_x.max(dim_y) > WIDE { GROUPS / 2 } else { GROUPS };
        Self { dims: [dim_x, dim_y], groups: vec![Sums::new(dim_x, dim_y); groups] }
    }

    /// Adds the rows from number `first` on.
    pub fn add(&mut self, first: usize, x: &[f32], y: &[f32]) {
        let [dim_x, dim_y] = self.dims;
        let (n, groups) = (x.len() / dim_x, self.groups.len());
        self.groups.par_iter_mut().enumerate().for_each(|(g, sums)| {
            let own = (g + groups - first % groups) % groups;
            let gather = |rows: &[f32], dim: usize| -> Vec<f32> {
                (own..n).step_by(groups).flat_map(|i| &rows[i * dim..][..dim]).copied().collect()
            };
            sums.add(&gather(x, dim_x), &gather(y, dim_y));
        });
    }

    /// Compares the tables whose rows were added.
    pub fn finish(self) -> Linear {
        let Self { dims: [dim_x, dim_y], groups: parts } = self;
        let mut all = Sums::new(dim_x, dim_y);
        parts.iter().for_each(|part| all.combine(part, 1.0));
        finish(all, &parts, [dim_x, dim_y])
    }
}

/// Compares two tables in memory.
pub fn linear(x: &SharedRows, y: &SharedRows) -> Linear {
    let mut sums = LinearSums::new(x.dim, y.dim);
    let step = window_rows(&[x.dim, y.dim]);
    let windows = x.rows.chunks(step * x.dim).zip(y.rows.chunks(step * y.dim));
    for (first, (x, y)) in (0..).step_by(step).zip(windows) {
        sums.add(first, x, y);
    }
    sums.finish()
}

fn finish(mut all: Sums, parts: &[Sums], [dim_x, dim_y]: [usize; 2]) -> Linear {
    let n = all.pair.count();
    let fit = |sums: &Sums| {
        let map = Procrustes::default().fit(&sums.pair);
        (residual(&sums.pair, &map), map)
    };
    let same_width = dim_x == dim_y;
    let whole = same_width.then(|| fit(&all));
    let (mut ckas, mut residuals) = (Vec::new(), Vec::new());
    for part in parts {
        all.combine(part, -1.0);
        ckas.push(all.cka());
        residuals.push(if same_width { fit(&all).0 } else { f64::NAN });
        all.combine(part, 1.0);
    }
    let spectrum = |moments: &[f64], dim| veridical_learn::eigen(moments, dim).0;
    let centered = all.pair.centered();
    let spectra = (spectrum(centered.aa(), dim_x), spectrum(centered.bb(), dim_y));
    let estimate = |value: f64, without: &[f64]| Estimate::jackknife(value, without, n);
    Linear {
        cka: estimate(all.cka(), &ckas),
        residual: whole.as_ref().and_then(|(value, _)| estimate(*value, &residuals)),
        cosines: canonical_correlations(&all.pair, false),
        spectra: spectral_distance(&spectra.0, &spectra.1),
        map: whole.map(|(_, map)| map),
    }
}

fn spectral_distance(a: &[f64], b: &[f64]) -> f64 {
    let at = |values: &[f64], i: usize| values.get(i).copied().unwrap_or(0.0);
    let longest = a.len().max(b.len());
    let difference: f64 = (0..longest).map(|i| (at(a, i) - at(b, i)).abs()).sum();
    difference / (a.iter().chain(b).map(|x| x.abs()).sum::<f64>()).max(f64::MIN_POSITIVE)
}

fn squared_norm(row: &[f32]) -> f64 {
    row.iter().map(|&x| f64::from(x) * f64::from(x)).sum()
}

fn inner(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// a' M b for a row-major M.
fn bilinear(a: &[f64], matrix: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(matrix.chunks_exact(b.len())).map(|(a, row)| a * inner(row, b)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use veridical_core::{Seed, Stream};

    fn normals(n: usize, dim: usize, draw: u64) -> SharedRows {
        let mut values = vec![0.0; n * dim];
        Stream::new(Seed::new(0).unwrap(), "rows").at(0, draw).fill_normals(&mut values);
        let rows = values.into_iter().map(|x| x as f32).collect();
        SharedRows { name: String::new(), dim, rows }
    }

    /// HSIC_1 from the n x n matrices, by definition.
    fn slow_hsic(x: &SharedRows, y: &SharedRows) -> f64 {
        let n = x.rows.len() / x.dim;
        let gram = |run: &SharedRows, i: usize, j: usize| -> f64 {
            if i == j {
                return 0.0;
            }
            run.row(i).iter().zip(run.row(j)).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
        };
        let mut sums = HsicSums { n: n as f64, ..HsicSums::default() };
        for i in 0..n {
            let (mut k_i, mut l_i) = (0.0, 0.0);
            for j in 0..n {
                let (k, l) = (gram(x, i, j), gram(y, j, i));
                sums.trace += k * l;
                k_i += k;
                l_i += l;
            }
            sums.k += k_i;
            sums.l += l_i;
            sums.kl += k_i * l_i;
        }
        sums.hsic()
    }

    /// Sums of 60^2 products in another order: 1e-12 is far above rounding.
    #[test]
    fn one_pass_equals_the_matrices() {
        let mut x = normals(60, 5, 1);
        x.rows.iter_mut().for_each(|value| *value += 3.0);
        let y = normals(60, 8, 2);
        let slow = slow_hsic(&x, &y) / (slow_hsic(&x, &x) * slow_hsic(&y, &y)).sqrt();
        let fast = linear(&x, &y).cka.unwrap().value;
        assert!((fast - slow).abs() < 1e-12, "{fast} is not {slow}");
    }

    #[test]
    fn independent_tables_have_zero_on_average() {
        let draws = 1000;
        let value = |draw: u64| {
            let (x, y) = (normals(32, 16, 2 * draw), normals(32, 16, 2 * draw + 1));
            linear(&x, &y).cka.unwrap().value
        };
        let mean = Estimate::mean((0..draws).map(value)).unwrap();
        assert!(mean.value.abs() < 4.0 * mean.error, "{mean:?}");
        assert!(mean.error < 0.02, "the test could not see a bias of 0.08: {mean:?}");
    }

    #[test]
    fn a_constant_table_has_no_cka() {
        let x = normals(40, 4, 0);
        let constant = SharedRows { rows: vec![1.0; 160], ..x.clone() };
        assert!(linear(&x, &constant).cka.is_none());
    }
}
