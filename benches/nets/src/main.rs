//! Our side of the benchmark: one job, one line of JSON; `run.py` compares it with PyTorch.

mod sequences;

use std::error::Error;
use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

use serde_json::{Value, json};
use veridical_core::threads::with_threads;
use veridical_core::{Seed, Stream};
use veridical_nets::{
    Curve, Loss, Mode, Net, NetConfig, OptimizerKind, OptimizerSettings, Plan, Schedule, Shape,
    TapFactors, Taps, Target, Trainer, TrainerSettings, Workspace,
};

// The product's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const USAGE: &str = "usage: bench-nets train CASE BATCH THREADS SECONDS
       bench-nets taps CASE BATCH THREADS SECONDS
       bench-nets about

CASE is mlp, cnn-small or resnet18; of train also embedding, gru, lstm, and sasrec, encoder, with -dropout or
without.";

const CLASSES: usize = 10;
/// Number of batches that alternate.
const BATCHES: usize = 4;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(result) => {
            println!("{result}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("bench-nets: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String]) -> Outcome<Value> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let [job, case, batch, threads, seconds] = args[..] else {
        return match args[..] {
            ["about"] => Ok(json!({
                "version": env!("CARGO_PKG_VERSION"),
                "target": format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
            })),
            _ => Err(USAGE.into()),
        };
    };
    let (batch, seconds) = (batch.parse()?, seconds.parse()?);
    with_threads(Some(threads.parse()?), || match job {
        "train" => match sequences::train(case, batch, seconds)? {
            Some(result) => Ok(result),
            None => train(case, batch, seconds),
        },
        "taps" => taps(case, batch, seconds),
        _ => Err(USAGE.into()),
    })?
}

/// The network of a case and its training settings.
fn network(case: &str) -> Outcome<(Net<f32>, OptimizerSettings, f64)> {
    let adam = (OptimizerSettings::of(OptimizerKind::Adam), 1e-3);
    let momentum = 0.9;
    let sgd = OptimizerSettings { momentum, ..OptimizerSettings::of(OptimizerKind::Sgd) };
    let (name, input, (optimizer, lr)) = match case {
        "mlp" => ("mlp:512,512", Shape::row(784), adam),
        "cnn-small" => ("cnn-small", Shape::image(28, 28, 1), adam),
        "resnet18" => ("resnet18", Shape::image(32, 32, 3), (sgd, 0.01)),
        _ => return Err(USAGE.into()),
    };
    let net = NetConfig::new(name.parse()?, input, CLASSES).build(Seed::new(0)?)?;
    Ok((net, optimizer, lr))
}

/// Random pixels and classes.
fn batches(net: &Net<f32>, batch: usize) -> Outcome<Vec<(Vec<f32>, Vec<u32>)>> {
    let stream = Stream::new(Seed::new(0)?, "pixels");
    let values = batch * net.input().values();
    let one = |b: u32| {
        let place = stream.at(b, 0);
        let pixels = (0..values as u32).map(|k| place.uniform(k) as f32).collect();
        (pixels, (0..batch as u32).map(|i| (i * 7 + b) % CLASSES as u32).collect())
    };
    Ok((0..BATCHES as u32).map(one).collect())
}

/// Runs of `work` per second, over about `seconds`.
fn rate(seconds: f64, mut work: impl FnMut(usize) -> Outcome<()>) -> Outcome<f64> {
    let (start, mut times) = (Instant::now(), 0);
    loop {
        work(times)?;
        times += 1;
        let spent = start.elapsed().as_secs_f64();
        if spent >= seconds {
            return Ok(times as f64 / spent);
        }
    }
}

/// Samples per second of whole training steps.
fn train(case: &str, batch: usize, seconds: f64) -> Outcome<Value> {
    let (net, optimizer, lr) = network(case)?;
    let batches = batches(&net, batch)?;
    let loss = Loss::CrossEntropy { smoothing: 0.0 };
    let schedule = Schedule { curve: Curve::Constant, warmup: 0, total: 0 };
    let settings = TrainerSettings { loss, optimizer, lr, schedule, clip: None, batch };
    let mut trainer = Trainer::new(net, settings, |_| true)?;
    let mut last = f64::NAN;
    let mut step = |i: usize| {
        let (pixels, classes) = &batches[i % BATCHES];
        let (loss, _) =
            trainer.step(batch, Target::Classes(classes), None, |x| x.copy_from_slice(pixels))?;
        last = loss;
        Ok(())
    };
    rate(seconds / 4.0, &mut step)?; // warm up caches, clocks, threads
    let rate = rate(seconds, &mut step)? * batch as f64;
    Ok(json!({"rate": rate, "loss": last}))
}

/// Seconds of a forward pass, of a backward pass, and of taps per output: all ten outputs with the one forward
/// pass that serves them, divided by ten; passed to the sink, and with the windows of convolutions gathered by the sink.
fn taps(case: &str, batch: usize, seconds: f64) -> Outcome<Value> {
    let (net, ..) = network(case)?;
    let batches = batches(&net, batch)?;
    let fill = |i: usize| {
        let pixels = &batches[i % BATCHES].0;
        move |x: &mut [f32]| x.copy_from_slice(pixels)
    };
    let plan = Plan::new(&net, |_| true);
    let mut work = Workspace::new(&net, batch, Some(&plan));
    let all: Vec<usize> = (0..CLASSES).collect();
    let mut taps = Taps::new(&net, batch);
    let mut scratch = Vec::new();
    // The best of alternating rounds.
    let mut best = [f64::INFINITY; 4];
    for _ in 0..4 {
        let forward = rate(seconds / 16.0, |i| {
            net.forward(&mut work, batch, Mode::Frozen, 0, fill(i));
            Ok(())
        })?;
        let backward = rate(seconds / 16.0, |_| {
            work.output_gradient(&net).1.fill(0.1);
            net.backward(&mut work, &plan);
            Ok(())
        })?;
        let handed = rate(seconds / 16.0, |i| {
            taps.take(batch, &all, fill(i), |tap| {
                black_box(&tap);
            });
            Ok(())
        })?;
        let gathered = rate(seconds / 16.0, |i| {
            taps.take(batch, &all, fill(i), |tap| {
                if let TapFactors::Outer(outer) = &tap.factors {
                    // Sample by sample: the windows of a batch may exceed the memory.
                    for sample in 0..tap.samples.len() {
                        black_box(outer.inputs(sample..sample + 1, &mut scratch));
                    }
                }
                black_box(&tap);
            });
            Ok(())
        })?;
        let outputs = CLASSES as f64;
        let spent =
            [1.0 / forward, 1.0 / backward, 1.0 / handed / outputs, 1.0 / gathered / outputs];
        best.iter_mut().zip(spent).for_each(|(best, spent)| *best = best.min(spent));
    }
    let [forward, backward, handed, gathered] = best;
    Ok(json!({"forward": forward, "backward": backward, "tap": handed, "gathered": gathered}))
}
