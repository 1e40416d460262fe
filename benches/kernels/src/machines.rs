//! Kernel machines and rank correlation.

use serde_json::{Value, json};
use veridical_core::ranks::kendall as tau;
use veridical_core::{Job, Rows, Seed, Stream};
use veridical_features::{Kernel, length_scale};
use veridical_kernels::gram::{VectorKernel, VectorPairs, gram};
use veridical_kernels::machine::{Glm, GlmSettings, Solver, SolverSettings, solve};

use crate::job::{Meter, Options, Outcome};

fn normals(count: usize, name: &str) -> Outcome<Vec<f64>> {
    let mut values = vec![0.0; count];
    Stream::new(Seed::new(0)?, name).at(0, 0).fill_normals(&mut values);
    Ok(values)
}

/// n points of C clouds that overlap, an RBF kernel at the median length scale, and its logistic regression.
pub fn logistic(options: &Options) -> Outcome<Value> {
    const DIM: usize = 20;
    let (n, classes): (usize, usize) = (options.get("n")?, options.get("classes")?);
    let centers = normals(classes * DIM, "bench/centers")?;
    let labels: Vec<u32> = (0..n as u32).map(|i| i % classes as u32).collect();
    let noise = normals(n * DIM, "bench/points")?;
    let x: Vec<f32> = noise
        .chunks_exact(DIM)
        .zip(&labels)
        .flat_map(|(z, &y)| {
            let center = &centers[y as usize * DIM..][..DIM];
            z.iter().zip(center).map(|(z, c)| (z + 0.7 * c) as f32)
        })
        .collect();
    let rows = Rows::new(&x, DIM)?;
    let l = length_scale::from_median(rows, &Kernel::Gaussian)?;
    let rbf = VectorKernel::Shift(Kernel::Gaussian, l);
    let k = gram(&VectorPairs::new(&rbf, rows, None), &Job::silent())?;
    options.write_f32s("k.f32", &k.values)?;
    options.write("labels.u32", labels.iter().map(|y| y.to_le_bytes()))?;
    let settings = GlmSettings::new(options.get("lambda")?);
    let meter = Meter::start();
    let k = Rows::new(&k.values, n)?;
    let fit = Glm::fit(k, &labels, classes, None, None, &settings, &Job::silent())?;
    Ok(json!({
        "run": meter.stop(), "objective": fit.objective, "steps": fit.steps, "products": fit.products,
        "converged": fit.converged, "gradient": fit.gradient, "violation": fit.violation,
    }))
}

/// A smooth function of some directions with noise, from normal vectors; error on further rows.
pub fn ridge(options: &Options) -> Outcome<Value> {
    const FRESH: usize = 2000;
    let (n, dim): (usize, usize) = (options.get("n")?, options.get("dim")?);
    let name = options.text("solver")?;
    let solver = Solver::from_name(name).ok_or(format!("no solver {name}"))?;
    let (x, y) = points(n + FRESH, dim)?;
    let (train, fresh) = x.split_at(n * dim);
    let rows = Rows::new(train, dim)?;
    // Of a sample: the rule takes all pairs of the rows that it gets.
    let sample = Rows::new(&train[..n.min(2000) * dim], dim)?;
    let l = length_scale::from_median(sample, &Kernel::Gaussian)?;
    let mean = y[..n].iter().sum::<f64>() / n as f64;
    let target: Vec<f64> = y[..n].iter().map(|y| y - mean).collect();
    let settings = SolverSettings {
        tolerance: options.get_or("tolerance", 1e-4)?,
        centers: options.get("centers")?,
        ..SolverSettings::new(Seed::new(0)?)
    };
    let lambda = options.get_or("lambda", 1e-3)? * n as f64;
    let meter = Meter::start();
    let rbf = VectorKernel::Shift(Kernel::Gaussian, l);
    let k = VectorPairs::new(&rbf, rows, None);
    let found = solve(&k, Rows::new(&target, 1)?, lambda, solver, &settings, &Job::silent())?;
    let run = meter.stop();
    // Predictions of the fresh rows, by the definition.
    let all: Vec<u32> = (0..n as u32).collect();
    let used = found.centers.as_deref().unwrap_or(&all);
    let predict = |z: &[f32]| -> f64 {
        let value = |i: u32| {
            let row = &train[i as usize * dim..][..dim];
            let square: f64 = row.iter().zip(z).map(|(a, b)| f64::from(a - b).powi(2)).sum();
            (-square / (2.0 * l * l)).exp()
        };
        mean + used.iter().zip(&found.alpha).map(|(&i, a)| a * value(i)).sum::<f64>()
    };
    let some = FRESH.min(200);
    let squares = fresh.chunks_exact(dim).zip(&y[n..]).take(some);
    let error: f64 = squares.map(|(z, y)| (predict(z) - y).powi(2)).sum::<f64>() / some as f64;
    if options.text("dir").is_ok() {
        options.write_f32s("x.f32", &x)?;
        options.write_f64s("y.f64", &y)?;
    }
    Ok(json!({
        "run": run, "iterations": found.iterations, "residual": found.residual, "length_scale": l,
        "converged": found.converged, "rmse": error.sqrt(), "tested": some,
    }))
}

fn points(n: usize, dim: usize) -> Outcome<(Vec<f32>, Vec<f64>)> {
    let x: Vec<f32> = normals(n * dim, "bench/vectors")?.into_iter().map(|x| x as f32).collect();
    let noise = normals(n, "bench/noise")?;
    let value = |(x, z): (&[f32], &f64)| {
        let at = |j: usize| f64::from(x[j % dim]);
        let scale = (dim as f64).sqrt();
        let line: f64 = x.iter().map(|&x| f64::from(x)).sum::<f64>() / scale;
        line.sin() + 0.5 * (at(0) * at(1)).tanh() + at(2).abs() + 0.1 * z
    };
    let y = x.chunks_exact(dim).zip(&noise).map(value).collect();
    Ok((x, y))
}

/// tau-b of correlated pairs, without ties and with values rounded to a hundredth.
pub fn kendall(options: &Options) -> Outcome<Value> {
    let n: usize = options.get("n")?;
    let (a, b) = (normals(n, "bench/a")?, normals(n, "bench/b")?);
    let b: Vec<f64> = a.iter().zip(b).map(|(a, b)| 0.6 * a + 0.8 * b).collect();
    options.write_f64s("a.f64", &a)?;
    options.write_f64s("b.f64", &b)?;
    let rounded = |x: &[f64]| x.iter().map(|x| (x * 100.0).round() / 100.0).collect::<Vec<f64>>();
    let of = |a: &[f64], b: &[f64]| -> Outcome<Value> {
        let mut best: Option<Value> = None;
        let mut value = f64::NAN;
        for _ in 0..options.get_or("rounds", 3)? {
            let meter = Meter::start();
            let found = tau(a, b).ok_or("no pairs")?;
            let run = meter.stop();
            value = found.tau_b.value;
            let seconds = |run: &Value| run["seconds"].as_f64().unwrap_or(f64::INFINITY);
            if best.as_ref().is_none_or(|best| seconds(&run) < seconds(best)) {
                best = Some(run);
            }
        }
        Ok(json!({"tau": value, "run": best}))
    };
    Ok(json!({"plain": of(&a, &b)?, "ties": of(&rounded(&a), &rounded(&b))?}))
}
