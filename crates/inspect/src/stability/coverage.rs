//! The coverage of every interval by simulation: tables of ids drawn from one population, whose own value is known from a table a
//! hundred times as large. 200 draws of a 95 % interval: four binomial standard errors are 0.06.

use veridical_core::{Estimate, Seed, Stream};
use veridical_data::Ids;
use veridical_features::Kernel;

use super::*;

const DIM: usize = 4;
const IDS: usize = 1200;
const DRAWS: u64 = 200;

/// Rows of clusters of unequal size, and the same rows with noise of unequal size: pairs of ids are far from independent.
fn drawn(n: usize, draw: u64) -> SharedTables {
    let stream = Stream::new(Seed::new(17).unwrap(), "coverage");
    let fill = |count: usize, what: u32| {
        let mut values = vec![0.0; count];
        stream.at(what, draw).fill_normals(&mut values);
        values
    };
    let (own, noise, kind) = (fill(n * DIM, 0), fill(n * DIM, 1), fill(n, 2));
    let row = |i: usize, k: usize| -> f64 {
        // Three clusters, the third of them rare.
        let cluster = usize::from(kind[i] > 0.0) + usize::from(kind[i] > 1.2);
        let center = [2.0, -1.0, 3.0][cluster] * f64::from(u8::from(k == cluster));
        center + own[i * DIM + k]
    };
    let noisy = |i: usize, k: usize| {
        let size = if kind[i] > 1.2 { 1.0 } else { 0.4 };
        row(i, k) + size * noise[i * DIM + k]
    };
    let table = |of: &dyn Fn(usize, usize) -> f64| {
        let rows = (0..n * DIM).map(|at| of(at / DIM, at % DIM) as f32).collect();
        SharedRows { name: String::new(), dim: DIM, rows }
    };
    SharedTables::of(Ids::numbered(0, n), vec![table(&row), table(&noisy)])
}

fn compared(tables: &SharedTables, pairs: usize) -> Comparison {
    let settings = CompareSettings {
        k: 10,
        probes: 200,
        pairs,
        kernel_ids: tables.n().min(3000),
        seed: Seed::new(1).unwrap(),
        unit: false,
    };
    let kernel = KernelAt { kernel: Kernel::Gaussian, length_scale: 2.0 };
    geometry(tables, None, &settings, &kernel, &|_| ()).unwrap()
}

fn share(covered: usize) -> f64 {
    covered as f64 / DRAWS as f64
}

#[test]
fn intervals_over_ids_cover_the_population() {
    let of = |c: &Comparison| -> Vec<(&'static str, Estimate)> {
        let all = [
            ("cka", &c.cka),
            ("kernel_cka", &c.kernel_cka),
            ("procrustes_residual", &c.procrustes_residual),
            ("gram_noise", &c.gram_noise),
            ("kernel_noise", &c.kernel_noise),
        ];
        let mut all: Vec<(&'static str, Estimate)> =
            all.into_iter().map(|(key, m)| (key, m.estimate.unwrap())).collect();
        let moved = c.coordinates.as_ref().unwrap();
        all.push(("relative_sd", moved.relative_sd.unwrap()));
        all.push(("aligned_relative_sd", moved.aligned_relative_sd.unwrap()));
        all
    };
    // 120,000 ids in all: the standard error of their mean is a tenth of that of one draw.
    let large: Vec<Vec<(&'static str, Estimate)>> =
        (0..40).map(|draw| of(&compared(&drawn(3000, 1000 + draw), 200_000))).collect();
    let mean = |at: usize| large.iter().map(|found| found[at].1.value).sum::<f64>() / 40.0;
    let population: Vec<(&str, f64)> =
        large[0].iter().enumerate().map(|(at, (key, _))| (*key, mean(at))).collect();
    let mut covered = vec![0; population.len()];
    for draw in 1..=DRAWS {
        for (at, (_, found)) in of(&compared(&drawn(IDS, draw), 40_000)).into_iter().enumerate() {
            let [low, high] = found.interval();
            covered[at] += usize::from(low <= population[at].1 && population[at].1 <= high);
        }
    }
    for ((key, _), covered) in population.iter().zip(covered) {
        let share = share(covered);
        assert!((0.9..=1.0).contains(&share), "{key}: {share}");
    }
}

/// The overlap of one pair of tables, whose own value is that of all ids as probes.
#[test]
fn the_interval_of_the_overlap_covers_that_of_all_ids() {
    let tables = drawn(IDS, 1);
    let at = |probes: usize, seed: u64| {
        let settings = CompareSettings {
            k: 10,
            probes,
            pairs: 100,
            kernel_ids: 100,
            seed: Seed::new(seed).unwrap(),
            unit: false,
        };
        let kernel = KernelAt { kernel: Kernel::Gaussian, length_scale: 2.0 };
        geometry(&tables, None, &settings, &kernel, &|_| ()).unwrap().nn_overlap.estimate.unwrap()
    };
    let truth = at(IDS, 0).value;
    let covered = (1..=DRAWS).filter(|&seed| {
        let [low, high] = at(150, seed).interval();
        low <= truth && truth <= high
    });
    let share = share(covered.count());
    assert!((0.9..=1.0).contains(&share), "{share}");
}

/// Ids that are damaged with probability 0.04: the share in a table varies from draw to draw.
#[test]
fn the_interval_of_outliers_covers_the_rate_of_damage() {
    let stream = Stream::new(Seed::new(23).unwrap(), "damage");
    let dim = 16;
    let covered = (0..DRAWS).filter(|&draw| {
        let mut values = vec![0.0; 3 * 500 * dim];
        stream.at(0, draw).fill_normals(&mut values);
        let (rows, rest) = values.split_at(500 * dim);
        let (noise, strange) = rest.split_at(500 * dim);
        let hit = |i: usize| stream.at(1, draw * 500 + i as u64).uniform(0) < 0.04;
        let new = |at: usize| match hit(at / dim) {
            true => strange[at],
            false => rows[at] + 0.15 * noise[at],
        };
        let table = |rows: Vec<f64>| SharedRows {
            name: String::new(),
            dim,
            rows: rows.into_iter().map(|x| x as f32).collect(),
        };
        let new = table((0..500 * dim).map(new).collect());
        let tables = SharedTables::of(Ids::numbered(0, 500), vec![table(rows.to_vec()), new]);
        let [low, high] = compared(&tables, 100).outlier_ids.estimate.unwrap().interval();
        low <= 0.04 && 0.04 <= high
    });
    let share = share(covered.count());
    assert!((0.9..=1.0).contains(&share), "{share}");
}
