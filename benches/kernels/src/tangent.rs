//! Exact tangent kernels and sketches of gradients.

use std::time::Instant;

use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, Par};
use serde_json::{Value, json};
use veridical_core::{Job, Seed};
use veridical_kernels::project::Sketch;
use veridical_kernels::tangent::{Examples, Factors, Kind, Normalization, Plan, Settings, kernel};
use veridical_nets::{Net, TapKind};

use crate::job::{Meter, Options, Outcome};
use crate::networks::{network, pixels, write_weights};

pub fn examples<'a>(net: &Net<f32>, x: &'a [f32]) -> Examples<'a, f32> {
    let width = net.input().values();
    Examples::new(x.len() / width, move |samples, slot| {
        slot.copy_from_slice(&x[samples.start * width..samples.end * width]);
    })
}

/// The fastest of some rounds, from a network and inputs to K.
pub fn trntk(options: &Options) -> Outcome<Value> {
    let (n, rounds): (usize, usize) = (options.get("n")?, options.get_or("rounds", 1)?);
    let net = network(options, 0)?;
    let x = pixels(&net, n)?;
    options.write_f32s("inputs.f32", &x)?;
    let tensors = write_weights(options, &net)?;
    let examples = examples(&net, &x);
    let settings = Settings::new(Kind::Trntk);
    let mut runs = Vec::new();
    let mut last = None;
    for _ in 0..rounds {
        let meter = Meter::start();
        last = Some(kernel(&net, &examples, None, &settings, &Job::silent())?);
        runs.push(meter.stop());
    }
    let found = last.ok_or("at least one round")?;
    options.write_f32s("k.f32", &found.gram.values)?;
    let work = found.summary.plan.operations() + passes(&found.summary.plan);
    Ok(json!({
        "runs": runs, "operations": work, "parameters": net.params.len(), "tensors": tensors,
        "plan": found.summary.plan.to_string(),
    }))
}

/// Operations of the forward pass and of a backward pass to the inputs for every cotangent, dense layers and convolutions.
fn passes(plan: &Plan) -> f64 {
    let products = |kind: TapKind| match kind {
        TapKind::Outer(sizes) => {
            (sizes.positions * sizes.groups * sizes.inputs * sizes.outputs) as f64
        }
        _ => 0.0,
    };
    let pass: f64 = plan.layers.iter().map(|layer| products(layer.layer.kind)).sum();
    2.0 * pass * plan.samples[0] as f64 * (1 + plan.cotangents) as f64
}

/// Sketches of all layers together, and their error on the cosines of the first samples.
pub fn project(options: &Options) -> Outcome<Value> {
    const PAIRED: usize = 64;
    let (n, k): (usize, usize) = (options.get("n")?, options.get("k")?);
    let net = network(options, 0)?;
    let x = pixels(&net, n)?;
    options.write_f32s("inputs.f32", &x)?;
    let tensors = write_weights(options, &net)?;
    let all = examples(&net, &x);
    let sketch: Sketch = format!("sjlt:{k}").parse()?;
    let settings = |seed: u64, sketch: Option<Sketch>| -> Outcome<Settings> {
        let seed = Seed::new(seed)?;
        let normalization = Normalization::Cosine;
        Ok(Settings { sketch, seed, normalization, ..Settings::new(Kind::Difference(0, 1)) })
    };
    let own = settings(0, Some(sketch.clone().of_everything()))?;
    let meter = Meter::start();
    let plan = Plan::new(&net, &all, None, &own)?;
    Factors::take(&net, &all, &plan, &Job::silent())?;
    let taken = meter.stop();
    let some: Vec<usize> = (0..PAIRED.min(n)).collect();
    let some = all.select(&some);
    let cosines = |settings: &Settings| -> Outcome<Vec<f32>> {
        Ok(kernel(&net, &some, None, settings, &Job::silent())?.gram.values)
    };
    let exact = cosines(&settings(0, None)?)?;
    let mut squares = 0.0;
    const SEEDS: u64 = 8;
    for seed in 0..SEEDS {
        let sketched = cosines(&settings(seed, Some(sketch.clone().of_everything()))?)?;
        squares += square_error(&sketched, &exact, some.len());
    }
    Ok(json!({
        "run": taken, "rms": (squares / SEEDS as f64).sqrt(), "parameters": net.params.len(),
        "tensors": tensors, "paired": some.len(),
    }))
}

/// The mean square of the differences off the diagonal.
fn square_error(a: &[f32], b: &[f32], n: usize) -> f64 {
    let pairs = (0..n * n).filter(|p| p / n != p % n);
    pairs.map(|p| f64::from(a[p] - b[p]).powi(2)).sum::<f64>() / (n * (n - 1)) as f64
}

/// Floating-point operations per second of a large f32 product on all threads, the best of five.
pub fn gemm_rate() -> f64 {
    let n = 2048;
    let x = Mat::<f32>::from_fn(n, n, |i, j| ((i * 31 + j * 17) % 101) as f32 / 50.0 - 1.0);
    let mut out = Mat::<f32>::zeros(n, n);
    let once = |out: &mut Mat<f32>| {
        let start = Instant::now();
        matmul(out.as_mut(), Accum::Replace, x.as_ref(), x.as_ref(), 1.0, Par::rayon(0));
        start.elapsed().as_secs_f64()
    };
    let best = (0..5).map(|_| once(&mut out)).fold(f64::INFINITY, f64::min);
    2.0 * (n as f64).powi(3) / best
}
