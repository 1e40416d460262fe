//! Tests of every measure against a slow reference: textbook formulas in f64 on small random tables.

use veridical_core::{Error, Job, Seed, Stream};
use veridical_data::{Ids, VectorTable};
use veridical_features::{FeatureSpec, Kernel};
use veridical_learn::LinearMap;

use super::coordinates::coordinates;
use super::hsic::HsicSums;
use super::kernel::kernel_cka;
use super::pairs::spreads;
use super::*;

fn seed() -> Seed {
    Seed::new(3).unwrap()
}

fn normals(count: usize, draw: u64) -> Vec<f64> {
    let mut values = vec![0.0; count];
    Stream::new(seed(), "twins").at(0, draw).fill_normals(&mut values);
    values
}

/// Runs that share a signal: x_r = signal + 0.6 noise_r.
fn runs(n: usize, dim: usize, count: u64) -> SharedTables {
    let signal = normals(n * dim, 0);
    let run = |r: u64| {
        let noise = normals(n * dim, r + 1);
        let rows = signal.iter().zip(noise).map(|(s, e)| (s + 0.6 * e) as f32).collect();
        SharedRows { name: format!("run {r}"), dim, rows }
    };
    SharedTables::of(Ids::numbered(0, n), (0..count).map(run).collect())
}

fn kernel() -> KernelAt {
    KernelAt { kernel: Kernel::Gaussian, length_scale: 2.0 }
}

fn settings(n: usize) -> CompareSettings {
    CompareSettings { k: 5, probes: n, pairs: 400, kernel_ids: n, seed: seed(), unit: false }
}

fn compared(runs: &SharedTables, weights: Option<&[f64]>) -> Comparison {
    geometry(runs, weights, &settings(runs.n()), &kernel(), &|_| ()).unwrap()
}

fn inner(x: &[f32], y: &[f32]) -> f64 {
    x.iter().zip(y).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum()
}

fn gaussian(x: &[f32], y: &[f32]) -> f64 {
    let squared: f64 = x.iter().zip(y).map(|(x, y)| (f64::from(*x) - f64::from(*y)).powi(2)).sum();
    (-squared / (2.0 * 2.0 * 2.0)).exp()
}

fn close(got: f64, want: f64, tolerance: f64) {
    assert!((got - want).abs() <= tolerance, "{got} is not {want}");
}

/// All ids by their cosine to id `i`, largest first, without itself.
fn nearest(run: &SharedRows, n: usize, i: usize, k: usize) -> Vec<u32> {
    let cosine = |j: usize| {
        let (x, y) = (run.row(i), run.row(j));
        inner(x, y) / (inner(x, x) * inner(y, y)).sqrt()
    };
    let mut others: Vec<usize> = (0..n).filter(|&j| j != i).collect();
    others.sort_by(|&a, &b| cosine(b).total_cmp(&cosine(a)));
    others.into_iter().take(k).map(|j| j as u32).collect()
}

fn slow_overlap(runs: &SharedTables, i: usize) -> f64 {
    let [a, b] = [0, 1].map(|r| nearest(&runs.runs[r], runs.n(), i, 5));
    a.iter().filter(|j| b.contains(j)).count() as f64 / 5.0
}

/// HSIC_1 as a U-statistic (Song et al. 2012): the mean of K_ij (L_ij + L_qr - 2 L_iq) over different i, j, q, r.
fn slow_hsic(n: usize, k: &dyn Fn(usize, usize) -> f64, l: &dyn Fn(usize, usize) -> f64) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for i in 0..n {
        for j in (0..n).filter(|&j| j != i) {
            for q in (0..n).filter(|&q| q != i && q != j) {
                for r in (0..n).filter(|&r| r != i && r != j && r != q) {
                    sum += k(i, j) * (l(i, j) + l(q, r) - 2.0 * l(i, q));
                    count += 1.0;
                }
            }
        }
    }
    sum / count
}

fn slow_cka(runs: &SharedTables, value: fn(&[f32], &[f32]) -> f64) -> f64 {
    let n = runs.n();
    let table = |r: usize| -> Vec<f64> {
        let run = &runs.runs[r];
        (0..n * n).map(|c| value(run.row(c / n), run.row(c % n))).collect()
    };
    let (k, l) = (table(0), table(1));
    let (k, l) = (|i: usize, j: usize| k[i * n + j], |i: usize, j: usize| l[i * n + j]);
    slow_hsic(n, &k, &l) / (slow_hsic(n, &k, &k) * slow_hsic(n, &l, &l)).sqrt()
}

/// Both are multiples of 1 / (5 n), summed in any order: rounding is below 1e-14. Cosines of these 40 ids differ by far
/// more than the 1e-7 of f32.
#[test]
fn overlap_is_that_of_sorted_cosines() {
    let runs = runs(40, 3, 2);
    let want = (0..40).map(|i| slow_overlap(&runs, i)).sum::<f64>() / 40.0;
    assert!(want > 0.1 && want < 0.9, "the runs do not discriminate: {want}");
    close(compared(&runs, None).nn_overlap.value(), want, 1e-12);
}

/// 1,680 terms of size below 100: rounding below 1680 x 100 x 1e-16 of a mean.
#[test]
fn hsic_of_sums_is_the_u_statistic() {
    let runs = runs(8, 3, 2);
    let gram = |r: usize, i: usize, j: usize| {
        if i == j { 0.0 } else { inner(runs.runs[r].row(i), runs.runs[r].row(j)) }
    };
    let mut sums = HsicSums { n: 8.0, ..HsicSums::default() };
    for i in 0..8 {
        for j in 0..8 {
            sums.trace += gram(0, i, j) * gram(1, j, i);
            sums.k += gram(0, i, j);
            sums.l += gram(1, i, j);
            sums.kl += (0..8).map(|q| gram(0, i, q) * gram(1, q, j)).sum::<f64>();
        }
    }
    close(sums.hsic(), slow_hsic(8, &|i, j| gram(0, i, j), &|i, j| gram(1, i, j)), 1e-10);
}

/// 255,024 terms of size below 100, of either sign: rounding below 1e-10 of a CKA of order 1.
#[test]
fn linear_cka_is_that_of_the_u_statistic() {
    let runs = runs(24, 3, 2);
    let got = linear(&runs.runs[0], &runs.runs[1]).cka.unwrap().value;
    close(got, slow_cka(&runs, inner), 1e-10);
}

/// As for linear CKA, with values below 1.
#[test]
fn kernel_cka_is_that_of_the_u_statistic() {
    let runs = runs(24, 3, 2);
    let sample: Vec<u32> = (0..24).collect();
    let got = kernel_cka(&runs, &sample, &kernel())[0].estimate.unwrap().value;
    close(got, slow_cka(&runs, gaussian), 1e-10);
}

/// In the plane the best rotation or reflection has a closed form: with M = B'A, the largest tr(R'M) is
/// |(m00 + m11, m01 - m10)| or |(m00 - m11, m01 + m10)|. The residual is of order 1, so its square root keeps 1e-10.
#[test]
fn procrustes_residual_is_that_of_the_best_rotation_of_the_plane() {
    let runs = runs(50, 2, 2);
    let (a, b) = (&runs.runs[0], &runs.runs[1]);
    let column = |run: &SharedRows, k: usize| -> Vec<f64> {
        (0..50).map(|i| f64::from(run.row(i)[k])).collect()
    };
    let m = |i: usize, j: usize| -> f64 {
        column(b, i).iter().zip(column(a, j)).map(|(x, y)| x * y).sum()
    };
    let turn = (m(0, 0) + m(1, 1)).hypot(m(0, 1) - m(1, 0));
    let reflection = (m(0, 0) - m(1, 1)).hypot(m(0, 1) + m(1, 0));
    let (aa, bb) = (inner(&a.rows, &a.rows), inner(&b.rows, &b.rows));
    let want = ((aa + bb - 2.0 * turn.max(reflection)) / aa).sqrt();
    assert!(want > 0.1, "{want}");
    close(linear(a, b).residual.unwrap().value, want, 1e-10);
}

/// Inner products are f32 sums of three terms: 1e-6 relative, of which noise and spread keep 1e-5.
#[test]
fn noise_and_spread_are_those_of_all_drawn_pairs() {
    let runs = runs(30, 3, 3);
    let sample: Vec<u32> = (0..30).rev().collect();
    let mut drawn = Vec::new();
    for batch in 0..20 {
        let mut draws = Stream::new(seed(), "pairs").at(0, batch).draws();
        for _ in 0..20 {
            let i = draws.below(30);
            let j = (i + 1 + draws.below(29)) % 30;
            drawn.push((29 - i as usize, 29 - j as usize));
        }
    }
    let found = spreads(&runs, &sample, &kernel(), 400, seed());
    for (found, value) in found.iter().zip([inner, gaussian as fn(&[f32], &[f32]) -> f64]) {
        let of = |chosen: &[usize]| {
            let r = chosen.len() as f64;
            let (mut noise, mut means) = (0.0, Vec::new());
            for &(i, j) in &drawn {
                let at = |&r: &usize| value(runs.runs[r].row(i), runs.runs[r].row(j));
                let values: Vec<f64> = chosen.iter().map(at).collect();
                let mean = values.iter().sum::<f64>() / r;
                noise += values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (r - 1.0);
                means.push(mean);
            }
            let pairs = drawn.len() as f64;
            let mean = means.iter().sum::<f64>() / pairs;
            let spread = means.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / pairs;
            [(noise / pairs).sqrt(), spread.sqrt()]
        };
        let [noise, spread] = of(&[0, 1, 2]);
        assert_eq!(found.pairs, drawn.len());
        close(found.noise, noise, 1e-5);
        close(found.spread, spread, 1e-5);
        for pair in &found.ratios {
            let [noise, spread] = of(&pair.runs);
            close(pair.estimate.unwrap().value, noise / spread, 1e-5);
        }
    }
}

/// Two passes over 90 values per dimension: sums in another order differ by 1e-14.
#[test]
fn coordinates_move_as_their_variances_say() {
    let (n, dim, count) = (30, 4, 3);
    let runs = runs(n, dim, count);
    let maps = vec![LinearMap::identity(dim); count as usize];
    let sample: Vec<u32> = (0..n as u32).collect();
    let got = coordinates(&runs, &sample, &maps);
    let at = |r: usize, i: usize, k: usize| f64::from(runs.runs[r].row(i)[k]);
    let variance = |k: usize| -> f64 {
        let of_id = |i: usize| {
            let mean = (0..3).map(|r| at(r, i, k)).sum::<f64>() / 3.0;
            (0..3).map(|r| (at(r, i, k) - mean).powi(2)).sum::<f64>() / 2.0
        };
        (0..n).map(of_id).sum::<f64>() / n as f64
    };
    let squares: f64 = runs.runs.iter().map(|run| inner(&run.rows, &run.rows)).sum();
    let size = (squares / (3 * n * dim) as f64).sqrt();
    let mean = (0..dim).map(variance).sum::<f64>() / dim as f64;
    close(got.size, size, 1e-12);
    for k in 0..dim {
        close(got.variance[k], variance(k), 1e-12);
        close(got.aligned_variance[k], variance(k), 1e-12);
    }
    close(got.relative_sd.unwrap().value, mean.sqrt() / size, 1e-12);
}

/// Counted, so equal; norms are sums of squares in f64 in the same order.
#[test]
fn sanity_is_what_comparing_all_rows_says() {
    let (n, dim) = (40, 3);
    let mut vectors: Vec<f32> = normals(n * dim, 9).into_iter().map(|x| x as f32).collect();
    for i in 0..n {
        vectors[i * dim + 2] = 7.0;
        if i % 7 == 3 {
            vectors.copy_within(0..dim, i * dim);
        }
    }
    let table = VectorTable { ids: Ids::numbered(0, n), dim, vectors };
    let got = sanity(&table);
    let repeated = (0..n).filter(|&i| (0..i).any(|j| table.row(i) == table.row(j))).count();
    let constant = (0..dim).filter(|&k| (0..n).all(|i| table.row(i)[k] == table.row(0)[k])).count();
    assert_eq!(
        (got.duplicate_vectors, got.constant_columns, got.zero_vectors),
        (repeated, constant, 0)
    );
    let mut norms: Vec<f64> = (0..n).map(|i| inner(table.row(i), table.row(i)).sqrt()).collect();
    norms.sort_by(f64::total_cmp);
    for (got, q) in got.norm_quantiles.into_iter().zip([0.0, 0.05, 0.5, 0.95, 1.0]) {
        let place = q * (n - 1) as f64;
        let (low, high) = (norms[place.floor() as usize], norms[place.ceil() as usize]);
        close(got, low + (high - low) * place.fract(), 1e-12);
    }
}

/// Sums of squares by subtraction from the total: 24 values of order 1, rounding below 1e-13.
#[test]
fn components_are_those_of_the_analysis_of_variance() {
    let (runs, splits) = (6, 4);
    let y = normals(runs * splits, 11);
    let scores: Vec<Vec<f64>> = y.chunks(splits).map(<[f64]>::to_vec).collect();
    let got = Scores::new(&scores).components.unwrap();
    let (r, s) = (runs as f64, splits as f64);
    let mean = y.iter().sum::<f64>() / (r * s);
    let total: f64 = y.iter().map(|x| (x - mean).powi(2)).sum();
    let of_runs: f64 = (0..runs)
        .map(|a| s * ((0..splits).map(|b| y[a * splits + b]).sum::<f64>() / s - mean).powi(2))
        .sum();
    let of_splits: f64 = (0..splits)
        .map(|b| r * ((0..runs).map(|a| y[a * splits + b]).sum::<f64>() / r - mean).powi(2))
        .sum();
    let interaction = (total - of_runs - of_splits) / ((r - 1.0) * (s - 1.0));
    close(got.interaction, interaction, 1e-12);
    close(got.run, (of_runs / (r - 1.0) - interaction) / s, 1e-12);
    close(got.split, (of_splits / (s - 1.0) - interaction) / r, 1e-12);
}

/// Picks the largest remaining id, repeatedly.
#[test]
fn changed_ids_are_those_of_largest_weight_and_churn() {
    let runs = runs(40, 3, 2);
    let weights: Vec<f64> = (0..40).map(|i| f64::from(1 + i * 7 % 5)).collect();
    let got = changed(&compared(&runs, Some(&weights)), Some(&weights), 12);
    let mut left: Vec<usize> = (0..40).collect();
    for found in got {
        let harm = |i: usize| weights[i] * (1.0 - slow_overlap(&runs, i));
        // Sums of x / 1 pair in another order are equal: overlaps are the same fifths.
        let best = left.iter().copied().fold(left[0], |a, b| if harm(b) > harm(a) { b } else { a });
        assert_eq!(found.row as usize, best);
        assert_eq!((found.weight, found.overlap), (weights[best], slow_overlap(&runs, best)));
        assert_eq!(found.before, nearest(&runs.runs[0], 40, best, 5));
        assert_eq!(found.after, nearest(&runs.runs[1], 40, best, 5));
        left.retain(|&i| i != best);
    }
}

/// The same few operations in another order: 1e-12 relative.
#[test]
fn rates_are_those_of_the_propositions() {
    let (n, d) = (40.0, 6.0f64);
    let comparison = compared(&runs(40, 6, 2), None);
    let spec = FeatureSpec::params(6, 24).kernel(Kernel::Gaussian).length_scale(2.0);
    let spec = spec.build().unwrap();
    let target = TargetAlignment {
        ids: 40,
        centered: 0.5,
        uncentered: 0.6,
        same_label: 0.25,
        mean_kernel: 0.3,
    };
    let got = theory(&comparison, &spec, Some(&target));
    let moved = comparison.coordinates.as_ref().unwrap();
    let noise = moved.variance.iter().sum::<f64>() / d;
    let ratio = noise / (moved.size.powi(2) - noise);
    close(got.noise_to_signal.unwrap()[0].unwrap(), ratio.sqrt(), 1e-12);
    // q = min(8, d / 2) = 3 directions of signal.
    close(got.estimation_rate.unwrap()[0].unwrap(), ratio * 3.0 / n * (d / 3.0).ln(), 1e-12);
    let m = spec.n_directions() as f64;
    let [directions, ids] = got.alignment_rate.unwrap();
    // A Gaussian of length scale 2 has E |w|^2 = d / 4.
    close(directions, d / 4.0 / 0.01 * (-m * 0.01 / (16.0 * (d + 2.0))).exp(), 1e-9);
    close(ids, (-n * 0.01 / 128.0).exp(), 1e-12);
    close(got.nadaraya_watson_risk.unwrap(), 1.0 - 0.05f64.sqrt() * 0.25, 1e-12);
}

fn named(name: &str, n: usize, first: u64) -> NamedTable {
    let vectors = normals(n * 3, 20).into_iter().map(|x| x as f32).collect();
    let table = VectorTable { ids: Ids::numbered(first, n), dim: 3, vectors };
    NamedTable::new(name, table, &Job::silent()).unwrap()
}

#[test]
fn what_cannot_be_compared_is_refused_early() {
    let job = Job::silent();
    let empty = VectorTable { ids: Ids::numbered(0, 0), dim: 3, vectors: Vec::new() };
    assert!(matches!(NamedTable::new("a", empty, &job), Err(Error::Unfit { .. })));
    let ragged = VectorTable { ids: Ids::numbered(0, 2), dim: 3, vectors: vec![0.0; 5] };
    assert!(matches!(NamedTable::new("a", ragged, &job), Err(Error::Shape { .. })));
    assert!(matches!(join(Vec::new()), Err(Error::Request { .. })));
    assert!(matches!(join(vec![named("a", 60, 0)]), Err(Error::Request { .. })));
    let apart = join(vec![named("a", 60, 0), named("b", 60, 100)]);
    let expected = "a and b have no id in common; are they tables of the same things?";
    assert_eq!(apart.unwrap_err().to_string(), expected);
    let few = join(vec![named("a", 60, 0), named("b", 60, 50)]);
    let expected = "a and b share only 10 ids; a comparison needs at least 50";
    assert_eq!(few.unwrap_err().to_string(), expected);

    let two = runs(40, 3, 2);
    let refused = |runs: &SharedTables, weights: Option<&[f64]>, settings: &CompareSettings| {
        geometry(runs, weights, settings, &kernel(), &|_| ()).unwrap_err()
    };
    assert!(matches!(refused(&runs(40, 3, 1), None, &settings(40)), Error::Request { .. }));
    assert!(matches!(refused(&runs(3, 3, 2), None, &settings(3)), Error::Unfit { .. }));
    assert!(matches!(refused(&two, Some(&[1.0]), &settings(40)), Error::Shape { .. }));
    let none = CompareSettings { k: 0, ..settings(40) };
    assert_eq!(refused(&two, None, &none).to_string(), "⟨k⟩ must be at least 1, got 0");
}

#[test]
fn limits_are_checked_or_refused() {
    let job = Job::silent();
    let tables = || join(vec![named("a", 60, 0), named("b", 60, 0)]).unwrap();
    let samples = Samples { pairs: 200, ..Samples::default() };
    let settings = Settings { samples, ..Settings::default() };
    let with = |limits: Vec<Limit>| {
        assess(tables(), &Evidence { limits, ..Evidence::default() }, &settings, &job)
    };
    let report = with(vec![Limit::new("min-cka", 0.9).unwrap()]).unwrap();
    assert_eq!((report.passed, report.gates.len()), (Some(true), 1));
    let message = with(vec![Limit::new("min-metric", 0.9).unwrap()]).unwrap_err().to_string();
    assert_eq!(message, "min-metric needs ⟨labels⟩: it limits the accuracy of a classifier");
    assert!(matches!(Limit::new("min-ckaa", 0.9), Err(Error::Request { .. })));
    assert!(matches!(Limit::new("min-cka", f64::NAN), Err(Error::Setting { .. })));
}

#[test]
fn a_comparison_stops_on_interruption() {
    let job = Job::silent();
    job.cancel.cancel();
    let tables = vec![named("a", 60, 0), named("b", 60, 0)];
    let stopped = compare(tables, &Settings::default(), &job).unwrap_err();
    assert!(matches!(stopped, crate::Error::Core(Error::Interrupted)), "{stopped}");
}
