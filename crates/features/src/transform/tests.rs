use proptest::prelude::*;
use veridical_core::threads::with_threads;
use veridical_core::{Rows, Seed, Stream};

use super::*;
use crate::{Directions, Kernel, Normalize};

fn phi_of(map: &FeatureMap, rows: &[f32]) -> Vec<f32> {
    map.transform(Rows::new(rows, map.spec().input_dim()).unwrap()).unwrap()
}

fn normals(n: usize, name: &str) -> Vec<f32> {
    let mut x = vec![0.0; n];
    Stream::new(Seed::new(5).unwrap(), name).at(0, 0).fill_normals(&mut x);
    x.into_iter().map(|x| x as f32).collect()
}

/// The definition, one number at a time.
fn textbook(spec: &FeatureSpec, rows: &[f32]) -> Vec<f32> {
    let (d, m) = (spec.input_dim(), spec.n_directions());
    let scale = (1.0 / (m as f64).sqrt()) as f32;
    let u = directions::matrix(spec);
    let hadamard = (spec.directions() == Directions::Hadamard).then(|| Hadamard::new(spec));
    let mut out = Vec::new();
    for row in spec.normalize().rows(Rows::new(rows, d).unwrap()).unwrap().chunks_exact(d) {
        let projections: Vec<f32> = match &hadamard {
            Some(hadamard) => hadamard_projections(hadamard, row),
            None => {
                let chain =
                    |u: &[f32]| u.iter().zip(row).fold(0.0f32, |a, (u, x)| u.mul_add(*x, a));
                u.chunks_exact(d).map(chain).collect()
            }
        };
        for a in projections {
            let (sin, cos) = sincos(a);
            out.extend([scale * cos, scale * sin]);
        }
    }
    out
}

fn hadamard_projections(hadamard: &Hadamard, row: &[f32]) -> Vec<f32> {
    let p = hadamard.size;
    let mut projections = Vec::new();
    for signs in hadamard.signs.chunks(3 * p) {
        let mut v = row.to_vec();
        v.resize(p, 0.0);
        for signs in signs.chunks(p) {
            v.iter_mut().zip(signs).for_each(|(v, s)| *v *= s);
            let mut h = 1;
            while h < p {
                for k in (0..p).filter(|k| k & h == 0) {
                    (v[k], v[k + h]) = (v[k] + v[k + h], v[k] - v[k + h]);
                }
                h *= 2;
            }
        }
        projections.extend(v);
    }
    hadamard.factors.iter().zip(projections).map(|(c, w)| *c as f32 * w).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Every tile edge: rows not a multiple of the tile, directions not a multiple of the panel.
    #[test]
    fn both_paths_equal_the_textbook(
        n in 0usize..40, d in 1usize..40, m in 1usize..70, l in prop::sample::select(vec![1e-3, 0.3, 5.0]),
        unit in any::<bool>(), family in prop::sample::select(Directions::ALL.to_vec())
    ) {
        let normalize = if unit { Normalize::Unit } else { Normalize::None };
        let spec = FeatureSpec::params(d, 2 * m).length_scale(l).normalize(normalize).directions(family);
        let spec = spec.build().unwrap();
        let rows = normals(n * d, "rows");
        let want = textbook(&spec, &rows);
        for cpu in [Cpu::Detected, Cpu::Portable] {
            let map = FeatureMap::with_cpu(&spec, cpu).unwrap();
            prop_assert_eq!(&phi_of(&map, &rows), &want);
        }
    }
}

#[test]
fn threads_chunks_and_cpus_give_the_same_bytes() {
    let n = 300;
    // p = 64, 128, 256 and 512: every remainder of the stages that are computed three at a time.
    for (family, d, m) in [
        (Directions::Orthogonal, 20, 30),
        (Directions::Hadamard, 20, 30),
        (Directions::Hadamard, 100, 200),
        (Directions::Hadamard, 200, 300),
        (Directions::Hadamard, 300, 530),
        (Directions::Halton, 9, 30),
    ] {
        let spec = FeatureSpec::params(d, 2 * m).length_scale(2.0).directions(family);
        let spec = spec.build().unwrap();
        let rows = normals(n * d, "rows");
        let map = FeatureMap::new(&spec).unwrap();
        let want = phi_of(&map, &rows);
        for threads in [1, 2, 7] {
            let got = with_threads(Some(threads), || phi_of(&map, &rows));
            assert_eq!(got.unwrap(), want);
        }
        for chunk in [1, 7, 100] {
            let parts = rows.chunks(chunk * d).map(|rows| phi_of(&map, rows));
            assert_eq!(parts.collect::<Vec<_>>().concat(), want);
        }
        let portable = FeatureMap::with_cpu(&spec, Cpu::Portable).unwrap();
        assert_eq!(phi_of(&portable, &rows), want);
        assert_eq!(textbook(&spec, &rows[..20 * d]), want[..20 * 2 * m]);
    }
}

/// <phi(x), phi(y)> of one draw.
fn estimate(spec: &FeatureSpec, seed: u64, rows: &[f32]) -> f64 {
    let spec = spec.redrawn(seed, spec.output_dim()).unwrap();
    let phi = phi_of(&FeatureMap::new(&spec).unwrap(), rows);
    let (x, y) = phi.split_at(spec.output_dim());
    x.iter().zip(y).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum()
}

fn over_seeds(spec: &FeatureSpec, n_seeds: u64, rows: &[f32]) -> veridical_core::stats::Moments {
    let mut moments = veridical_core::stats::Moments::default();
    (0..n_seeds).map(|seed| estimate(spec, seed, rows)).for_each(|e| moments.push(e));
    moments
}

/// k(x, y) and the standard deviation sqrt((1 + k(2 delta) - 2 k(delta)^2) / (2m)) of its estimate from m
/// independent directions.
fn exact(spec: &FeatureSpec, rows: &[f32]) -> (f64, f64) {
    let (x, y) = rows.split_at(spec.input_dim());
    let twice: Vec<f32> = x.iter().zip(y).map(|(x, y)| x + 2.0 * (y - x)).collect();
    let k = spec.kernel().value(x, y, spec.length_scale());
    let k2 = spec.kernel().value(x, &twice, spec.length_scale());
    (k, ((1.0 + k2 - 2.0 * k * k) / (2.0 * spec.n_directions() as f64)).sqrt())
}

fn all_kernels() -> Vec<Kernel> {
    let named = |name| match Kernel::from_name(name).unwrap() {
        Kernel::Mixture { .. } => {
            Kernel::Mixture { scales: vec![0.5, 1.0, 4.0], weights: vec![1.0, 2.0, 0.5] }
        }
        kernel => kernel,
    };
    Kernel::NAMES.map(named).to_vec()
}

/// Over independent seeds the mean of <phi(x), phi(y)> is k(x, y): the spectral measure of every kernel
/// against its formula. The mean over n seeds has a standard error of sd / sqrt(n), with sd at most
/// that of iid directions; five allowed. Hadamard directions are unbiased only for large p.
#[test]
fn every_kernel_is_estimated_without_bias_by_every_family() {
    let (d, m, n_seeds, l) = (6, 8, 3000, 1.3);
    let rows = normals(2 * d, "pair");
    for kernel in all_kernels() {
        for family in [Directions::Iid, Directions::Orthogonal, Directions::Halton] {
            let spec = FeatureSpec::params(d, 2 * m).length_scale(l).normalize(Normalize::None);
            let Ok(spec) = spec.kernel(kernel.clone()).directions(family).build() else { continue };
            let (k, sd) = exact(&spec, &rows);
            let moments = over_seeds(&spec, n_seeds, &rows);
            let n = n_seeds as f64;
            let bias = moments.mean() - k;
            assert!(bias.abs() < 5.0 * sd / n.sqrt(), "{} {family:?}: {bias}", kernel.name());
        }
    }
}

/// A variance estimate is off by about sqrt(kurtosis / n) with kurtosis below 3: five standard errors.
#[test]
fn the_kernel_estimate_has_the_stated_standard_deviation() {
    let (d, m, n_seeds, l) = (6, 8, 4000, 1.3);
    let rows = normals(2 * d, "pair");
    for family in [Directions::Iid, Directions::Orthogonal] {
        let spec = FeatureSpec::params(d, 2 * m).length_scale(l).directions(family);
        let spec = spec.normalize(Normalize::None).build().unwrap();
        let (_, sd) = exact(&spec, &rows);
        let ratio = over_seeds(&spec, n_seeds, &rows).variance() / (sd * sd);
        match family {
            Directions::Iid => {
                assert!((ratio - 1.0).abs() < 5.0 * (2.0 / n_seeds as f64).sqrt(), "{ratio}");
            }
            _ => assert!(ratio < 1.0, "orthogonal variance ratio {ratio}"),
        }
    }
}

/// Hadamard directions are biased, and less so for larger p: below 0.005 from p = 64 on, at every
/// distance and for a pair that differs in one coordinate only, the worst case for Hadamard matrices.
/// Eight blocks per draw make the mean precise enough to resolve the bias.
#[test]
fn the_bias_of_hadamard_directions_is_below_0_005() {
    let (d, n_seeds) = (64, 4000);
    for dense in [true, false] {
        for distance in [0.5, 1.0, 2.0] {
            let mut rows = if dense { normals(2 * d, "pair") } else { vec![0.0; 2 * d] };
            rows[..d].fill(0.0);
            if !dense {
                rows[d + 5] = 1.0;
            }
            let norm = veridical_core::orthogonal::squared_norm(&rows[d..]).sqrt();
            rows[d..].iter_mut().for_each(|x| *x *= (distance / norm) as f32);
            let spec = FeatureSpec::params(d, 2 * 8 * d).directions(Directions::Hadamard);
            let spec = spec.normalize(Normalize::None).build().unwrap();
            let (k, _) = exact(&spec, &rows);
            let moments = over_seeds(&spec, n_seeds, &rows);
            let bias = moments.mean() - k;
            let error = (moments.variance() / n_seeds as f64).sqrt();
            assert!(5.0 * error < 0.0025, "a standard error of {error} is too coarse");
            assert!(bias.abs() + 5.0 * error < 0.005, "at {distance}: {bias} +- {error}");
        }
    }
}

#[test]
fn rows_have_unit_length_and_prefixes_rescale() {
    let spec = FeatureSpec::params(7, 64).build().unwrap();
    let rows = normals(7 * 3, "rows");
    let phi = phi_of(&FeatureMap::new(&spec).unwrap(), &rows);
    for row in phi.chunks(64) {
        let norm: f64 = row.iter().map(|x| f64::from(*x).powi(2)).sum();
        assert!((norm - 1.0).abs() < 1e-6);
    }
    let short = phi_of(&FeatureMap::new(&spec.prefix(10).unwrap()).unwrap(), &rows);
    let factor = (64.0f64 / 10.0).sqrt();
    for (long, short) in phi.chunks(64).zip(short.chunks(10)) {
        for (l, s) in long.iter().zip(short) {
            // Three roundings of values at most 1 / sqrt(5).
            assert!((f64::from(*l) * factor - f64::from(*s)).abs() < 1e-7);
        }
    }
}

#[test]
fn rows_that_cannot_be_projected_are_named() {
    let spec = FeatureSpec::params(2, 4).normalize(Normalize::None).build().unwrap();
    let map = FeatureMap::new(&spec).unwrap();
    let message =
        |values: &[f32]| map.transform(Rows::new(values, 2).unwrap()).unwrap_err().to_string();
    assert_eq!(message(&[0.0, 1.0, f32::NAN, 0.0]), "row 1 has a value that is not finite");
    let many: Vec<f32> = (0..2000).map(|i| if i == 1401 { f32::INFINITY } else { 1.0 }).collect();
    assert_eq!(message(&many), "row 700 has a value that is not finite");
    assert!(message(&[3e38, 3e38]).contains("its projection overflows"));
    let wide = Rows::new(&[1.0; 12], 6).unwrap();
    assert_eq!(
        map.transform(wide).unwrap_err().to_string(),
        "rows have 6 columns but the spec's input_dim is 2; use the table the spec was made for, or make a spec \
         with ⟨input-dim⟩ 6"
    );
    let few = map.transform_into(Rows::new(&[1.0; 4], 2).unwrap(), &mut [0.0; 7]).unwrap_err();
    assert!(matches!(few, Error::Rows(_)), "{few}");
}

/// An ordinary row that overflows because of the means or standard deviations is not blamed; a row out of range itself is.
#[test]
fn a_normalization_that_overflows_is_named() {
    let refused = |mean: f64, deviation: f64, row: [f32; 2]| {
        let normalize =
            Normalize::Standardize { means: vec![mean; 2], deviations: vec![deviation; 2] };
        let spec = FeatureSpec::params(2, 4).normalize(normalize).build().unwrap();
        let rows = [[0.0; 2], row].concat();
        FeatureMap::new(&spec).unwrap().transform(Rows::new(&rows, 2).unwrap()).unwrap_err()
    };
    for (mean, deviation) in [(1e38, 1.0), (1e300, 1.0), (0.0, 1e-60)] {
        let message = refused(mean, deviation, [1.0; 2]).to_string();
        assert!(message.starts_with("the spec's normalization takes row "), "{message}");
    }
    assert!(matches!(refused(0.0, 1.0, [3e38; 2]), Error::TooLarge { row: 1, .. }));
    assert!(matches!(refused(0.0, 1.0, [f32::NAN; 2]), Error::NotFinite { row: 1 }));
}

#[test]
fn large_projections_are_exact_and_seen() {
    let spec = FeatureSpec::params(2, 40).normalize(Normalize::None).build().unwrap();
    let map = FeatureMap::new(&spec).unwrap();
    let rows = [1e6f32, -3e7, 0.5, 0.25, 0.0, 0.0, 1e4, 1e4];
    assert_eq!(phi_of(&map, &rows), textbook(&spec, &rows));
    let mut out = vec![0.0; 4 * 40];
    assert!(
        map.transform_into(Rows::new(&rows, 2).unwrap(), &mut out).unwrap().largest_projection
            > 8192.0
    );
}

#[test]
fn zero_rows_are_counted_and_half_precision_rounds() {
    let spec = FeatureSpec::params(3, 6).build().unwrap();
    let map = FeatureMap::new(&spec).unwrap();
    let rows = [0.0, 0.0, 0.0, 1.0, 2.0, 3.0];
    let mut half = vec![f16::ZERO; 12];
    let seen = map.transform_into_f16(Rows::new(&rows, 3).unwrap(), &mut half).unwrap();
    assert_eq!(seen.zero_rows, 1);
    let single = phi_of(&map, &rows);
    assert!(half.iter().zip(single).all(|(h, s)| *h == f16::from_f32(s)));
}

/// a_j is c_j times a sum with at most 3 log2 p levels of additions of numbers up to p^(3/2) |y|.
#[test]
fn the_hadamard_transform_is_the_product_with_its_matrix() {
    for d in [3, 64, 70, 300] {
        let m = 2 * d + 100;
        let spec = FeatureSpec::params(d, 2 * m).directions(Directions::Hadamard).build().unwrap();
        let rows = spec.normalize().rows(Rows::new(&normals(5 * d, "rows"), d).unwrap()).unwrap();
        let hadamard = Hadamard::new(&spec);
        let u = directions::matrix(&spec);
        for row in rows.chunks(d) {
            for (fast, u) in hadamard_projections(&hadamard, row).iter().zip(u.chunks(d)) {
                let product: f64 =
                    u.iter().zip(row).map(|(u, x)| f64::from(*u) * f64::from(*x)).sum();
                // |u| is about sqrt(p) times at most 1.5; 27 levels of relative error 2^-24.
                let allowed = 1.5 * (hadamard.size as f64).sqrt() * 30.0 * 2f64.powi(-24);
                assert!((f64::from(*fast) - product).abs() < allowed, "{fast} {product}");
            }
        }
    }
}

#[test]
fn extreme_length_scales_are_refused_by_name() {
    let spec = |l| FeatureSpec::params(2, 4).length_scale(l).build().unwrap();
    for l in [1e-300, 1e300] {
        let message = FeatureMap::new(&spec(l)).unwrap_err().to_string();
        assert!(message.starts_with("length_scale must be such that"), "{message}");
    }
}
