//! Networks with random inputs, training them, and their weights as PyTorch orders them.

use serde_json::{Value, json};
use veridical_core::{Seed, Stream};
use veridical_nets::{
    Curve, Loss, Net, NetConfig, OptimizerKind, OptimizerSettings, Schedule, Shape, Target,
    Trainer, TrainerSettings,
};

use crate::job::{Options, Outcome};

/// A network by name, for ten classes or `classes=`.
pub fn network(options: &Options, seed: u64) -> Outcome<Net<f32>> {
    let name = options.text("net")?;
    let input = match name {
        "resnet20" => Shape::image(32, 32, 3),
        name if name.starts_with("mlp") => Shape::row(784),
        _ => Shape::image(28, 28, 1),
    };
    let classes = options.get_or("classes", 10)?;
    Ok(NetConfig::new(name.parse()?, input, classes).build(Seed::new(seed)?)?)
}

/// Uniform values, samples x input.
pub fn pixels(net: &Net<f32>, n: usize) -> Outcome<Vec<f32>> {
    let stream = Stream::new(Seed::new(0)?, "bench/pixels");
    let width = net.input().values() as u32;
    let one = |i: usize| {
        let place = stream.at(0, i as u64);
        (0..width).map(move |k| place.uniform(k) as f32).collect::<Vec<f32>>()
    };
    Ok((0..n).flat_map(one).collect())
}

/// Writes `weights.f32`: all tensors in PyTorch's order of names and values, and returns names and shapes.
pub fn write_weights(options: &Options, net: &Net<f32>) -> Outcome<Value> {
    let mut values = Vec::new();
    let mut tensors = Vec::new();
    for named in net.tensors() {
        let from = if named.is_parameter { &net.params } else { &net.buffers };
        values.extend(net.torch_order(&named, from));
        tensors.push(json!({"name": named.name, "shape": named.shape}));
    }
    options.write_f32s("weights.f32", &values)?;
    Ok(tensors.into())
}

/// Trains on some rows with Adam, learning rate 1e-3 and batches of 64.
pub fn train(
    net: Net<f32>,
    x: &[f32],
    labels: &[u32],
    rows: &[u32],
    epochs: u32,
    seed: u64,
) -> Outcome<Net<f32>> {
    const BATCH: usize = 64;
    let width = net.input().values();
    let settings = TrainerSettings {
        loss: Loss::CrossEntropy { smoothing: 0.0 },
        optimizer: OptimizerSettings::of(OptimizerKind::Adam),
        lr: 1e-3,
        schedule: Schedule { curve: Curve::Constant, warmup: 0, total: 0 },
        clip: None,
        batch: BATCH,
    };
    let mut trainer = Trainer::new(net, settings, |_| true)?;
    let stream = Stream::new(Seed::new(seed)?, "bench/order");
    for epoch in 0..epochs {
        let mut order: Vec<(u64, u32)> =
            rows.iter().map(|&i| (stream.at(epoch, u64::from(i)).integer(0), i)).collect();
        order.sort_unstable();
        for batch in order.chunks(BATCH) {
            let y: Vec<u32> = batch.iter().map(|&(_, i)| labels[i as usize]).collect();
            trainer.step(batch.len(), Target::Classes(&y), None, |slot| {
                for (to, (_, i)) in slot.chunks_exact_mut(width).zip(batch) {
                    to.copy_from_slice(&x[*i as usize * width..][..width]);
                }
            })?;
        }
    }
    Ok(trainer.into_net())
}

/// The logits of rows, in f64.
pub fn logits(net: &Net<f32>, x: &[f32]) -> Outcome<Vec<f64>> {
    use veridical_nets::{Mode, Workspace};
    const BATCH: usize = 256;
    let width = net.input().values();
    let mut work = Workspace::new(net, BATCH, None);
    let mut all = Vec::new();
    for x in x.chunks(BATCH * width) {
        net.forward(&mut work, x.len() / width, Mode::Frozen, 0, |slot| slot.copy_from_slice(x));
        all.extend(work.outputs(net).iter().map(|&f| f64::from(f)));
    }
    Ok(all)
}
