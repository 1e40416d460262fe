//! Solvers against each other and against the systems they solve.

use super::super::dense::DenseGram;
use super::super::product::{product, testing::normals};
use super::*;
use crate::gram::{VectorKernel, VectorPairs};
use veridical_core::threads::with_threads;
use veridical_features::Kernel;

fn settings(tolerance: f64, iterations: usize, centers: usize) -> SolverSettings {
    SolverSettings { tolerance, iterations, centers, seed: Seed::new(0).unwrap() }
}

/// Vectors with the kernel of their pairs.
struct Cloud {
    x: Vec<f32>,
    kernel: VectorKernel,
}

impl Cloud {
    fn new(n: usize, l: f64) -> Self {
        let x = normals(n * 4, 0).iter().map(|&x| x as f32).collect();
        Self { x, kernel: VectorKernel::Shift(Kernel::Gaussian, l) }
    }

    fn pairs(&self) -> VectorPairs<'_> {
        VectorPairs::new(&self.kernel, Rows::new(&self.x, 4).unwrap(), None)
    }
}

/// All solvers of the system reach the solution of the direct one: an error of at most |r| / lambda.
#[test]
fn solvers_agree() {
    let (n, c, lambda) = (300, 2, 3.0);
    let cloud = Cloud::new(n, 1.0);
    let k = cloud.pairs();
    let y = normals(n * c, 1);
    let y = Rows::new(&y, c).unwrap();
    let run = |solver, s: &SolverSettings| solve(&k, y, lambda, solver, s, &Job::silent()).unwrap();
    // The values of K in one tile and in many differ by f32 roundings, 6e-8 each, up to sqrt(n) in a product.
    let rounding = 6e-8 * (n as f64).sqrt();
    let direct = run(Solver::Direct, &settings(rounding, 1, 1));
    assert!(direct.converged, "{}", direct.residual);
    for (solver, most) in [(Solver::Richardson, 900), (Solver::EigenPro, 200), (Solver::Pcg, 20)] {
        let got = run(solver, &settings(1e-9, 900, 100));
        assert!(got.converged && got.iterations <= most, "{solver} {}", got.iterations);
        let apart = got.alpha.iter().zip(&direct.alpha);
        let apart = apart.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(apart < 2.0 * rounding * norm(y.values()) / lambda, "{solver}: {apart}");
    }
    // With all rows as centers falkon's restriction is none.
    let falkon = run(Solver::Falkon, &settings(1e-10, 300, n));
    assert!(falkon.converged, "{} {}", falkon.residual, falkon.iterations);
    assert_eq!(falkon.centers.as_deref().map(<[u32]>::len), Some(n));
    let f = k.multiply(&falkon.alpha, c);
    let want = k.multiply(&direct.alpha, c);
    assert!(f.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-4), "jitter of K");
}

/// The formula of the header: exact while the steps are fewer than those of Lanczos, and close far beyond.
#[test]
fn richardsons_residual_is_predicted() {
    let (n, lambda) = (200, 0.5);
    let cloud = Cloud::new(n, 1.5);
    let k = cloud.pairs();
    let y = normals(n, 1);
    let run = |steps| {
        let y = Rows::new(&y, 1).unwrap();
        let s = settings(1e-12, steps, 10);
        solve(&k, y, lambda, Solver::Richardson, &s, &Job::silent()).unwrap()
    };
    for (steps, allowed) in [(1, 1e-10), (5, 1e-10), (30, 1e-8), (300, 1e-2)] {
        let got = run(steps);
        let predicted = got.predicted.unwrap();
        let ratio = predicted / got.residual - 1.0;
        assert!(ratio.abs() < allowed, "{steps}: {predicted} {}", got.residual);
    }
}

/// Better conditioned systems take fewer steps: preconditioning by half of the rows.
#[test]
fn preconditioning_saves_steps() {
    let (n, lambda) = (400, 1e-3);
    let cloud = Cloud::new(n, 2.0);
    let k = cloud.pairs();
    let y = normals(n, 1);
    let y = Rows::new(&y, 1).unwrap();
    let steps = |centers| {
        let s = settings(1e-6, 900, centers);
        let got = solve(&k, y, lambda, Solver::Pcg, &s, &Job::silent()).unwrap();
        assert!(got.converged, "{centers}: {}", got.residual);
        got.iterations
    };
    let [few, many] = [1, 200].map(steps);
    assert!(5 * many < few, "{many} of {few}");
}

/// Falkon minimizes its own objective: against the normal equations in full.
#[test]
fn falkon_solves_the_restricted_problem() {
    let (n, m, lambda) = (300, 20, 2.0);
    let cloud = Cloud::new(n, 1.5);
    let k = cloud.pairs();
    let y = normals(n, 1);
    let s = settings(1e-10, 200, m);
    let got = solve(&k, Rows::new(&y, 1).unwrap(), lambda, Solver::Falkon, &s, &Job::silent());
    let got = got.unwrap();
    let centers = got.centers.unwrap();
    assert!(got.converged && got.iterations < 60, "{}", got.iterations);
    let columns = k.columns(&centers);
    let mut a = vec![0.0; m * m];
    let mut b = vec![0.0; m];
    for (row, y) in columns.chunks(m).zip(&y) {
        for i in 0..m {
            b[i] += f64::from(row[i]) * y;
            (0..m).for_each(|j| a[i * m + j] += f64::from(row[i]) * f64::from(row[j]));
        }
    }
    for (i, &center) in centers.iter().enumerate() {
        for j in 0..m {
            a[i * m + j] += lambda * f64::from(columns[center as usize * m + j]);
        }
    }
    let want = veridical_learn::solve_spd(&mut a, &b);
    let (got, want) = (
        product(Rows::new(&columns, m).unwrap(), &got.alpha, 1),
        product(Rows::new(&columns, m).unwrap(), &want, 1),
    );
    assert!(got.iter().zip(&want).all(|(g, w)| (g - w).abs() < 1e-5));
}

#[test]
fn solutions_have_the_same_bytes_on_any_threads() {
    let cloud = Cloud::new(600, 1.0);
    let k = cloud.pairs();
    let y = normals(600, 1);
    for solver in Solver::ALL {
        let run = |threads| {
            let s = settings(1e-6, 20, 50);
            let y = Rows::new(&y, 1).unwrap();
            with_threads(Some(threads), || {
                solve(&k, y, 1.0, solver, &s, &Job::silent()).unwrap().alpha
            })
            .unwrap()
        };
        assert!(run(1) == run(3), "{solver}");
        assert_eq!(Solver::from_name(solver.name()), Some(solver));
    }
}

#[test]
fn what_cannot_be_solved_is_refused() {
    let values = [0.0, 9.0, 9.0, 0.0];
    let k = DenseGram::new(Rows::new(&values, 2).unwrap()).unwrap();
    let message = |y: &[f64], lambda, s: &SolverSettings| {
        let y = Rows::new(y, 1).unwrap();
        solve(&k, y, lambda, Solver::Direct, s, &Job::silent()).unwrap_err().to_string()
    };
    let fine = settings(1e-6, 10, 2);
    assert!(message(&[1.0, 2.0], 1.0, &fine).starts_with("K + 1 I is not positive definite"));
    assert!(message(&[1.0], 1.0, &fine).starts_with("a Gram matrix of 2 rows"));
    assert!(message(&[1.0, f64::NAN], 1.0, &fine).starts_with("the target of row 1"));
    assert!(message(&[1.0, 2.0], -1.0, &fine).starts_with("⟨lambda⟩"));
    assert!(message(&[1.0, 2.0], 1.0, &settings(0.0, 10, 2)).starts_with("⟨tolerance⟩"));
    assert!(message(&[1.0, 2.0], 1.0, &settings(0.1, 10, 0)).starts_with("⟨centers⟩"));
}
