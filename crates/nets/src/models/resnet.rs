//! Residual networks for 32 x 32 images (He et al. 2015).
//!
//! A basic block is relu(x' + bn2(conv2(relu(bn1(conv1(x)))))) with x' = x, or a shortcut where the size changes.
//!
//! CIFAR family, depth 6 n + 2: a 3 x 3 stem of 16 channels, three stages of n blocks with 16, 32 and 64 channels, option A
//! shortcuts (every second position, channels padded with zeros). Names as in akamaster/pytorch_resnet_cifar10.
//!
//! ResNet-18 and 34: a 3 x 3 stem of 64 channels without pooling, four stages with 64 to 512 channels, projection shortcuts
//! (1 x 1 convolution with batch norm). Names as in kuangliu/pytorch-cifar.

use veridical_core::Seed;

use super::NetConfig;
use crate::layers::{BatchNorm, Conv2d, ConvInit, GlobalAverage, Linear, PadShortcut};
use crate::{Builder, Float, Net, Result, Slot};

/// Shortcut of a block that changes the shape.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Skip {
    Pad,
    Project,
}

struct Family {
    stem: usize,
    /// Channels and number of blocks of each stage.
    stages: Vec<(usize, usize)>,
    skip: Skip,
    init: ConvInit,
}

pub(super) fn cifar<T: Float>(model: &NetConfig, depth: usize, seed: Seed) -> Result<Net<T>> {
    let n = (depth - 2) / 6;
    let stages = vec![(16, n), (32, n), (64, n)];
    build(model, &Family { stem: 16, stages, skip: Skip::Pad, init: ConvInit::He }, seed)
}

pub(super) fn staged<T: Float>(model: &NetConfig, depth: usize, seed: Seed) -> Result<Net<T>> {
    let blocks = if depth == 34 { [3, 4, 6, 3] } else { [2, 2, 2, 2] };
    let stages = [64, 128, 256, 512].into_iter().zip(blocks).collect();
    build(model, &Family { stem: 64, stages, skip: Skip::Project, init: ConvInit::Uniform }, seed)
}

fn build<T: Float>(model: &NetConfig, family: &Family, seed: Seed) -> Result<Net<T>> {
    let mut net = Builder::new(model.input, seed);
    let conv = |from, to, kernel: usize| {
        Conv2d::new(from, to, kernel).padding(kernel / 2).without_bias().init(family.init)
    };
    net.push("conv1", conv(model.input.channels, family.stem, 3))?;
    let mut last = net.push("bn1", BatchNorm::new(family.stem).with_relu())?;
    let mut channels = family.stem;
    for (stage, &(width, blocks)) in family.stages.iter().enumerate() {
        for block in 0..blocks {
            let stride = if stage > 0 && block == 0 { 2 } else { 1 };
            let name = format!("layer{}.{block}", stage + 1);
            let first = conv(channels, width, 3).stride(stride);
            net.after(last, &format!("{name}.conv1"), first)?;
            net.push(&format!("{name}.bn1"), BatchNorm::new(width).with_relu())?;
            net.push(&format!("{name}.conv2"), conv(width, width, 3))?;
            let body = net.push(&format!("{name}.bn2"), BatchNorm::new(width))?;
            let same = stride == 1 && channels == width;
            let skip = if same {
                last
            } else {
                skip(&mut net, &name, family, last, (channels, width, stride))?
            };
            last = net.add(&name, body, skip, true)?;
            channels = width;
        }
    }
    net.push("mean", GlobalAverage)?;
    net.push("linear", Linear::new(channels, model.outputs))?;
    net.finish()
}

fn skip<T: Float>(
    net: &mut Builder<T>,
    name: &str,
    family: &Family,
    from: Slot,
    (inputs, outputs, stride): (usize, usize, usize),
) -> Result<Slot> {
    if family.skip == Skip::Pad {
        return net.after(
            from,
            &format!("{name}.shortcut"),
            PadShortcut::new(stride, inputs, outputs),
        );
    }
    let project = Conv2d::new(inputs, outputs, 1).stride(stride).without_bias().init(family.init);
    net.after(from, &format!("{name}.shortcut.0"), project)?;
    net.push(&format!("{name}.shortcut.1"), BatchNorm::new(outputs))
}
