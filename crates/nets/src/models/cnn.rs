//! Small convolutional networks, as paper 004 trains them on MNIST and CIFAR.

use veridical_core::Seed;

use super::NetConfig;
use crate::layers::{BatchNorm, Conv2d, Dropout, Flatten, GlobalAverage, Kind, Linear, MaxPool};
use crate::{Builder, Float, Net, Result};

/// conv1 (3 x 3, 32), pooling, conv2 (3 x 3, 64), pooling, fc1 (128), fc2, with activations after conv1, conv2 and fc1.
pub(super) fn small<T: Float>(model: &NetConfig, seed: Seed) -> Result<Net<T>> {
    let mut net = Builder::new(model.input, seed);
    net.push("conv1", Conv2d::new(model.input.channels, 32, 3).padding(1))?;
    activate_and_pool(&mut net, model, 1)?;
    net.push("conv2", Conv2d::new(32, 64, 3).padding(1))?;
    activate_and_pool(&mut net, model, 2)?;
    let flat = net.push("flatten", Flatten)?;
    net.push("fc1", Linear::new(net.shape(flat).values(), 128))?;
    net.push("act3", model.activation)?;
    if model.dropout > 0.0 {
        net.push("dropout", Dropout::new(model.dropout)?)?;
    }
    net.push("fc2", Linear::new(128, model.outputs))?;
    net.finish()
}

/// max sigma(x) = sigma(max x) for a nondecreasing activation: pooling first saves three quarters of the activations.
fn activate_and_pool<T: Float>(
    net: &mut Builder<T>,
    model: &NetConfig,
    number: usize,
) -> Result<()> {
    let (act, pool) = (format!("act{number}"), format!("pool{number}"));
    if model.activation.kind() == Kind::Gelu {
        net.push(&act, model.activation)?;
        net.push(&pool, MaxPool::new(2, 2, 0))?;
    } else {
        net.push(&pool, MaxPool::new(2, 2, 0))?;
        net.push(&act, model.activation)?;
    }
    Ok(())
}

/// Blocks of a 3 x 3 convolution, batch norm and relu, with pooling between, then a mean over positions.
pub(super) fn blocks<T: Float>(
    model: &NetConfig,
    blocks: &[Option<usize>],
    seed: Seed,
) -> Result<Net<T>> {
    let mut net = Builder::new(model.input, seed);
    let mut channels = model.input.channels;
    for (i, block) in blocks.iter().enumerate() {
        match *block {
            None => net.push(&format!("pool{i}"), MaxPool::new(2, 2, 0))?,
            Some(width) => {
                let conv = Conv2d::new(channels, width, 3).padding(1).without_bias();
                net.push(&format!("conv{i}"), conv)?;
                channels = width;
                net.push(&format!("bn{i}"), BatchNorm::new(width).with_relu())?
            }
        };
    }
    net.push("mean", GlobalAverage)?;
    net.push("fc", Linear::new(channels, model.outputs))?;
    net.finish()
}
