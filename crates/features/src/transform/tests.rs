use proptest::prelude::*;
use veridical_core::threads::with_threads;
use veridical_core::{Seed, Stream};

use super::*;
use crate::{Directions, Kernel, Normalize};

fn normals(n: usize, name: &str) -> Vec<f32> {
    let mut x = vec![0.0; n];
    Stream::new(Seed::new(5).unwrap(), name).at(0, 0).fill_normals(&mut x);
    x.into_iter().map(|x| x as f32).collect()
}

/// The definition, one number at a time.
fn textbook(spec: &FeatureSpec, rows: &[f32]) -> Vec<f32> {
    let (d, m) = (spec.input_dim(), spec.n_directions());
    let u = directions::matrix(spec);
    let scale = (1.0 / (m as f64).sqrt()) as f32;
    let mut out = Vec::new();
    for row in spec.normalize().rows(rows, d).chunks_exact(d) {
        for u in u.chunks_exact(d) {
            let a = u.iter().zip(row).fold(0.0f32, |a, (u, x)| u.mul_add(*x, a));
            let (sin, cos) = sincos(a);
            out.extend([scale * cos, scale * sin]);
        }
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Every tile edge: rows not a multiple of the tile, directions not a multiple of the panel.
    #[test]
    fn both_paths_equal_the_textbook(
        n in 0usize..40, d in 1usize..40, m in 1usize..70, l in prop::sample::select(vec![1e-3, 0.3, 5.0]),
        unit in any::<bool>()
    ) {
        let normalize = if unit { Normalize::Unit } else { Normalize::None };
        let spec = FeatureSpec::params(d, 2 * m).length_scale(l).normalize(normalize).build().unwrap();
        let rows = normals(n * d, "rows");
        let want = textbook(&spec, &rows);
        for cpu in [Cpu::Detected, Cpu::Portable] {
            let map = FeatureMap::with_cpu(&spec, cpu).unwrap();
            prop_assert_eq!(&map.transform(&rows).unwrap(), &want);
        }
    }
}

#[test]
fn threads_chunks_and_cpus_give_the_same_bytes() {
    let (n, d) = (1000, 20);
    let spec = FeatureSpec::params(d, 60).length_scale(2.0).build().unwrap();
    let rows = normals(n * d, "rows");
    let map = FeatureMap::new(&spec).unwrap();
    let want = map.transform(&rows).unwrap();
    for threads in [1, 2, 7] {
        assert_eq!(with_threads(Some(threads), || map.transform(&rows).unwrap()).unwrap(), want);
    }
    for chunk in [1, 7, 100] {
        let parts = rows.chunks(chunk * d).map(|rows| map.transform(rows).unwrap());
        assert_eq!(parts.collect::<Vec<_>>().concat(), want);
    }
    let portable = FeatureMap::with_cpu(&spec, Cpu::Portable).unwrap();
    assert_eq!(portable.transform(&rows).unwrap(), want);
}

/// Over independent seeds the mean of <phi(x), phi(y)> is k(x, y) and, for iid directions, its
/// deviation is sqrt((1 + k(2 delta) - 2 k(delta)^2) / (2m)). The mean over n seeds has a standard
/// error of sd / sqrt(n); a variance estimate is off by about sqrt(kurtosis / n) with kurtosis below
/// 3: five standard errors allowed for each.
#[test]
fn the_kernel_estimate_is_unbiased_with_the_stated_deviation() {
    let (d, m, n_seeds, l) = (6, 8, 4000, 1.3);
    let rows = normals(2 * d, "pair");
    let squared: f64 = (0..d).map(|k| f64::from(rows[k] - rows[d + k]).powi(2)).sum();
    let k = Kernel::Gaussian.value(squared, l);
    let k2 = Kernel::Gaussian.value(4.0 * squared, l);
    let sd = ((1.0 + k2 - 2.0 * k * k) / (2.0 * m as f64)).sqrt();
    for family in [Directions::Iid, Directions::Orthogonal] {
        let estimate = |seed| {
            let spec = FeatureSpec::params(d, 2 * m)
                .seed(seed)
                .length_scale(l)
                .directions(family)
                .normalize(Normalize::None)
                .build()
                .unwrap();
            let phi = FeatureMap::new(&spec).unwrap().transform(&rows).unwrap();
            let (x, y) = phi.split_at(2 * m);
            x.iter().zip(y).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>()
        };
        let mut moments = veridical_core::stats::Moments::default();
        (0..n_seeds).map(estimate).for_each(|e| moments.push(e));
        let n = f64::from(n_seeds as u32);
        let bias = moments.mean() - k;
        assert!(bias.abs() < 5.0 * sd / n.sqrt(), "{family:?}: bias {bias}");
        let ratio = moments.variance() / (sd * sd);
        match family {
            Directions::Iid => assert!((ratio - 1.0).abs() < 5.0 * (2.0 / n).sqrt(), "{ratio}"),
            Directions::Orthogonal => assert!(ratio < 1.0, "orthogonal variance ratio {ratio}"),
        }
    }
}

#[test]
fn rows_have_unit_length_and_prefixes_rescale() {
    let spec = FeatureSpec::params(7, 64).build().unwrap();
    let rows = normals(7 * 3, "rows");
    let phi = FeatureMap::new(&spec).unwrap().transform(&rows).unwrap();
    for row in phi.chunks(64) {
        let norm: f64 = row.iter().map(|x| f64::from(*x).powi(2)).sum();
        assert!((norm - 1.0).abs() < 1e-6);
    }
    let short = FeatureMap::new(&spec.prefix(10).unwrap()).unwrap().transform(&rows).unwrap();
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
    let message = |rows: &[f32]| map.transform(rows).unwrap_err().to_string();
    assert_eq!(message(&[0.0, 1.0, f32::NAN, 0.0]), "row 1 has a value that is not finite");
    let many: Vec<f32> = (0..2000).map(|i| if i == 1401 { f32::INFINITY } else { 1.0 }).collect();
    assert_eq!(message(&many), "row 700 has a value that is not finite");
    assert!(message(&[3e38, 3e38]).contains("its projection overflows"));
    assert!(
        message(&[1.0, 2.0, 3.0]).starts_with("rows have 1 columns but the spec's input_dim is 2")
    );
}

#[test]
fn large_projections_are_exact_and_seen() {
    let spec = FeatureSpec::params(2, 40).normalize(Normalize::None).build().unwrap();
    let map = FeatureMap::new(&spec).unwrap();
    let rows = [1e6f32, -3e7, 0.5, 0.25, 0.0, 0.0, 1e4, 1e4];
    assert_eq!(map.transform(&rows).unwrap(), textbook(&spec, &rows));
    let mut out = vec![0.0; 4 * 40];
    assert!(map.transform_into(&rows, &mut out).unwrap().largest_projection > 8192.0);
}

#[test]
fn zero_rows_are_counted_and_half_precision_rounds() {
    let spec = FeatureSpec::params(3, 6).build().unwrap();
    let map = FeatureMap::new(&spec).unwrap();
    let rows = [0.0, 0.0, 0.0, 1.0, 2.0, 3.0];
    let mut half = vec![f16::ZERO; 12];
    let seen = map.transform_into_f16(&rows, &mut half).unwrap();
    assert_eq!(seen.zero_rows, 1);
    let single = map.transform(&rows).unwrap();
    assert!(half.iter().zip(single).all(|(h, s)| *h == f16::from_f32(s)));
}

#[test]
fn extreme_length_scales_are_refused_by_name() {
    let spec = |l| FeatureSpec::params(2, 4).length_scale(l).build().unwrap();
    for l in [1e-300, 1e300] {
        let message = FeatureMap::new(&spec(l)).unwrap_err().to_string();
        assert!(message.starts_with("length_scale must be of a size"), "{message}");
    }
}
