//! Kernel matrices of a sample of ids: kernel CKA between runs, and kernel-target alignment.
//!
//! kernel CKA       `hsic.rs` with K_ij = k(h(x_i), h(x_j)); a jackknife over groups of ids
//! alignment        centered: <HKH, HTH> / (|HKH| |HTH|), T_ij = 1[y_i = y_j] (Cortes, Mohri & Rostamizadeh 2012)
//! uncentered       <K, T> / (|K| |T|): equation 87 of paper 004, with T instead of y'y
//! same label       E[1[Y = Y'] K]: the mean over i != j (paper 000, lemma 1 and A_n of proposition 4)
//!
//! Matrices are computed one group of rows at a time, so m ids need memory for m^2 / 20 values per run.

use rayon::prelude::*;
use serde::Serialize;
use veridical_core::Estimate;
use veridical_features::Kernel;

use crate::stability::SharedTables;
use crate::stability::hsic::{HsicSums, cka};
use crate::stability::run_pairs::{PairValue, all_pairs};

/// Groups of the jackknife.
const GROUPS: usize = 20;

/// A kernel with its length scale.
#[derive(Clone, Debug)]
pub struct KernelAt {
    /// The kernel.
    pub kernel: Kernel,
    /// The length scale l.
    pub length_scale: f64,
}

impl KernelAt {
    /// Returns k(x, y).
    pub fn value(&self, x: &[f32], y: &[f32]) -> f64 {
        self.kernel.value(x, y, self.length_scale)
    }

    /// k(x, y) as [`Self::value`], with sums in eight accumulators for kernels of the distance.
    fn quick(&self, x: &[f32], y: &[f32]) -> f64 {
        let distance = squared_distance(x, y).sqrt();
        self.kernel.at_distance(distance, self.length_scale).unwrap_or_else(|| self.value(x, y))
    }

    /// k(x, y) for all rows of x and y; 0 where row `first` + i of y is row i of x.
    fn matrix(&self, x: &[f32], y: &[f32], dim: usize, first: Option<usize>) -> Vec<f64> {
        let (n, m) = (x.len() / dim, y.len() / dim);
        let mut values = vec![0.0; n * m];
        let rows = x.chunks_exact(dim).zip(values.chunks_exact_mut(m));
        for (i, (x, values)) in rows.enumerate() {
            for (j, (y, value)) in y.chunks_exact(dim).zip(values).enumerate() {
                if first.is_none_or(|first| first + i != j) {
                    *value = self.quick(x, y);
                }
            }
        }
        values
    }
}

/// Returns the kernel CKA of every pair of runs on the ids `sample`, which must be in random order.
pub fn kernel_cka(runs: &SharedTables, sample: &[u32], kernel: &KernelAt) -> Vec<PairValue> {
    let (m, r) = (sample.len(), runs.runs.len());
    let rows: Vec<Vec<f32>> = runs.runs.iter().map(|run| run.gather(sample)).collect();
    let bounds: Vec<usize> = (0..=GROUPS).map(|g| g * m / GROUPS).collect();
    let with_itself: Vec<[usize; 2]> = (0..r).flat_map(|a| (a..r).map(move |b| [a, b])).collect();
    // For the rows of a group: sums of products by group of columns for every pair, and row sums for every run.
    let of_group = |g: usize| {
        let (from, to) = (bounds[g], bounds[g + 1]);
        let of_run = |(run, rows): (usize, &Vec<f32>)| {
            let dim = runs.runs[run].dim;
            kernel.matrix(&rows[from * dim..to * dim], rows, dim, Some(from))
        };
        let blocks: Vec<Vec<f64>> = rows.iter().enumerate().map(of_run).collect();
        let columns = |row: usize, h: usize| row * m + bounds[h]..row * m + bounds[h + 1];
        let products = with_itself.iter().map(|&[a, b]| {
            let of = |h| (0..to - from).map(|i| inner(&blocks[a], &blocks[b], columns(i, h))).sum();
            (0..GROUPS).map(of).collect::<Vec<f64>>()
        });
        let products: Vec<Vec<f64>> = products.collect();
        let sums = blocks.iter().map(|block| {
            let of = |i, h| block[columns(i, h)].iter().sum::<f64>();
            (0..to - from).map(|i| std::array::from_fn(|h| of(i, h))).collect()
        });
        let sums: Vec<Vec<[f64; GROUPS]>> = sums.collect();
        (products, sums)
    };
    let parts: Vec<_> = (0..GROUPS).into_par_iter().map(of_group).collect();
    // The sums of HSIC_1 for a pair without one group of ids.
    let sums_without = |pair: usize, [a, b]: [usize; 2], without: Option<usize>| {
        let groups = || (0..GROUPS).filter(move |&g| Some(g) != without);
        let mut sums = HsicSums::default();
        for g in groups() {
            sums.n += (bounds[g + 1] - bounds[g]) as f64;
            sums.trace += groups().map(|h| parts[g].0[pair][h]).sum::<f64>();
            for (k_i, l_i) in parts[g].1[a].iter().zip(&parts[g].1[b]) {
                let total =
                    |row: &[f64; GROUPS]| row.iter().sum::<f64>() - without.map_or(0.0, |g| row[g]);
                let (k_i, l_i) = (total(k_i), total(l_i));
                sums.k += k_i;
                sums.l += l_i;
                sums.kl += k_i * l_i;
            }
        }
        sums
    };
    let place = |pair: [usize; 2]| with_itself.iter().position(|p| *p == pair);
    let value = |[a, b]: [usize; 2], without| {
        let of =
            |pair| place(pair).map_or_else(HsicSums::default, |p| sums_without(p, pair, without));
        cka(&of([a, b]), &of([a, a]), &of([b, b]))
    };
    let pairs = all_pairs(r).into_par_iter().map(|pair| {
        let without: Vec<f64> = (0..GROUPS).map(|g| value(pair, Some(g))).collect();
        PairValue::new(pair, Estimate::jackknife(value(pair, None), &without, m as u64))
    });
    pairs.collect()
}

fn squared_distance(x: &[f32], y: &[f32]) -> f64 {
    let (x, x_rest) = x.as_chunks::<8>();
    let (y, y_rest) = y.as_chunks::<8>();
    let mut lanes = [0.0; 8];
    for (x, y) in x.iter().zip(y) {
        for ((lane, x), y) in lanes.iter_mut().zip(x).zip(y) {
            let difference = f64::from(*x) - f64::from(*y);
            *lane += difference * difference;
        }
    }
    let rest = x_rest.iter().zip(y_rest).map(|(x, y)| (f64::from(*x) - f64::from(*y)).powi(2));
    lanes.iter().sum::<f64>() + rest.sum::<f64>()
}

fn inner(a: &[f64], b: &[f64], range: std::ops::Range<usize>) -> f64 {
    a[range.clone()].iter().zip(&b[range]).map(|(a, b)| a * b).sum()
}

/// The agreement of a kernel with labels.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct TargetAlignment {
    /// The number of labeled ids that were used.
    pub ids: usize,
    /// The centered kernel-target alignment.
    pub centered: f64,
    /// The uncentered kernel-target alignment, equation 87 of paper 004.
    pub uncentered: f64,
    /// The mean kernel value over pairs with equal labels, counted as 0 for other pairs: E[1[Y = Y'] K].
    pub same_label: f64,
    /// The mean of K over pairs of different ids.
    pub mean_kernel: f64,
}

/// Returns the agreement of the kernel of `rows` with their labels.
pub fn target_alignment(
    rows: &[f32],
    dim: usize,
    labels: &[u32],
    kernel: &KernelAt,
) -> TargetAlignment {
    let n = labels.len();
    let block = n.div_ceil(GROUPS).max(1);
    // Per row: sums of K, T; in all: <K, K>, <K, T>, <T, T>, and without the diagonal <K, T>, K.
    let of_block = |from: usize| {
        let to = (from + block).min(n);
        let values = kernel.matrix(&rows[from * dim..to * dim], rows, dim, None);
        let mut per_row = Vec::with_capacity(to - from);
        let mut sums = [0.0; 5];
        for (i, row) in (from..to).zip(values.chunks_exact(n)) {
            let (mut k_i, mut t_i) = (0.0, 0.0);
            for (j, &k) in row.iter().enumerate() {
                let t = f64::from(u8::from(labels[i] == labels[j]));
                k_i += k;
                t_i += t;
                sums[0] += k * k;
                sums[1] += k * t;
                sums[2] += t;
                if i != j {
                    sums[3] += k * t;
                    sums[4] += k;
                }
            }
            per_row.push([k_i, t_i]);
        }
        (sums, per_row)
    };
    let starts: Vec<usize> = (0..n).step_by(block).collect();
    let blocks: Vec<_> = starts.into_par_iter().map(of_block).collect();
    let mut sums = [0.0; 5];
    blocks.iter().for_each(|(part, _)| sums.iter_mut().zip(part).for_each(|(s, x)| *s += x));
    let [kk, kt, tt, same, off] = sums;
    let per_row = || blocks.iter().flat_map(|(_, rows)| rows);
    let size = n as f64;
    // <HAH, HBH> = <A, B> - (2/n) sum_i a_i b_i + a b / n^2.
    let centered = |product: f64, p: usize, q: usize| {
        let rows: f64 = per_row().map(|row| row[p] * row[q]).sum();
        let total = |which: usize| per_row().map(|row| row[which]).sum::<f64>();
        product - 2.0 / size * rows + total(p) * total(q) / (size * size)
    };
    TargetAlignment {
        ids: n,
        centered: centered(kt, 0, 1) / (centered(kk, 0, 0) * centered(tt, 1, 1)).sqrt(),
        uncentered: kt / (kk * tt).sqrt(),
        same_label: same / (size * (size - 1.0)),
        mean_kernel: off / (size * (size - 1.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stability::{SharedRows, linear::linear};
    use veridical_core::{Seed, Stream};
    use veridical_data::Ids;

    fn runs(n: usize, dims: &[usize]) -> SharedTables {
        let run = |(draw, &dim): (usize, &usize)| {
            let mut values = vec![0.0; n * dim];
            Stream::new(Seed::new(0).unwrap(), "rows").at(0, draw as u64).fill_normals(&mut values);
            let rows = values.into_iter().map(|x| x as f32).collect();
            SharedRows { name: String::new(), dim, rows }
        };
        let ids = Ids::Int((0..n as i64).collect::<Vec<_>>().into());
        SharedTables::of(ids, dims.iter().enumerate().map(run).collect())
    }

    #[test]
    fn kernel_cka_equals_the_matrices() {
        let runs = runs(90, &[3, 5]);
        let kernel = KernelAt { kernel: Kernel::Gaussian, length_scale: 2.0 };
        let sample: Vec<u32> = (0..90).collect();
        let got = kernel_cka(&runs, &sample, &kernel)[0].estimate.unwrap().value;
        let hsic = |a: usize, b: usize| {
            let mut sums = HsicSums { n: 90.0, ..HsicSums::default() };
            for i in 0..90 {
                let of = |r: usize, j: usize| {
                    let run = &runs.runs[r];
                    if i == j { 0.0 } else { kernel.value(run.row(i), run.row(j)) }
                };
                let row = |r: usize| (0..90).map(|j| of(r, j)).sum::<f64>();
                sums.trace += (0..90).map(|j| of(a, j) * of(b, j)).sum::<f64>();
                sums.k += row(a);
                sums.l += row(b);
                sums.kl += row(a) * row(b);
            }
            sums.hsic()
        };
        let want = hsic(0, 1) / (hsic(0, 0) * hsic(1, 1)).sqrt();
        assert!((got - want).abs() < 1e-12, "{got} is not {want}");
        assert!((got - linear(&runs.runs[0], &runs.runs[1]).cka.unwrap().value).abs() > 1e-6);
    }

    /// Against HKH and HTH as matrices.
    #[test]
    fn alignment_equals_the_direct_formula() {
        let (n, dim) = (50, 4);
        let runs = runs(n, &[dim]);
        let labels: Vec<u32> = (0..n as u32).map(|i| i * i % 3).collect();
        let kernel = KernelAt { kernel: Kernel::Gaussian, length_scale: 1.5 };
        let run = &runs.runs[0];
        let k = |i: usize, j: usize| kernel.value(run.row(i), run.row(j));
        let t = |i: usize, j: usize| f64::from(u8::from(labels[i] == labels[j]));
        let centered = |f: &dyn Fn(usize, usize) -> f64| {
            let row: Vec<f64> =
                (0..n).map(|i| (0..n).map(|j| f(i, j)).sum::<f64>() / n as f64).collect();
            let all = row.iter().sum::<f64>() / n as f64;
            let cell = |i: usize, j: usize| f(i, j) - row[i] - row[j] + all;
            (0..n * n).map(|c| cell(c / n, c % n)).collect::<Vec<f64>>()
        };
        let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let cosine = |a: &[f64], b: &[f64]| product(a, b) / (product(a, a) * product(b, b)).sqrt();
        let (k_c, t_c) = (centered(&k), centered(&t));
        let raw = |f: &dyn Fn(usize, usize) -> f64| {
            (0..n * n).map(|c| f(c / n, c % n)).collect::<Vec<f64>>()
        };
        let got = target_alignment(&run.rows, dim, &labels, &kernel);
        assert!((got.centered - cosine(&k_c, &t_c)).abs() < 1e-12);
        assert!((got.uncentered - cosine(&raw(&k), &raw(&t))).abs() < 1e-12);
        let same: f64 =
            (0..n * n).filter(|c| c / n != c % n).map(|c| k(c / n, c % n) * t(c / n, c % n)).sum();
        assert!((got.same_label - same / (n * (n - 1)) as f64).abs() < 1e-12);
    }
}
