//! The numbers that `tests/oracles/nets/nets.py` computes, and the files of oracles that use them.

use serde::de::DeserializeOwned;
use serde_json::Value;
use veridical_nets::Shape;

/// Tensor number of the input.
pub const INPUT: usize = 1000;
/// Tensor number of dL/dy of a layer.
pub const COTANGENT: usize = 2000;

/// Reads one of the reference files, by folder and name.
pub fn read(name: &str) -> Value {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/oracles");
    serde_json::from_str(&std::fs::read_to_string(format!("{folder}/{name}.json")).unwrap())
        .unwrap()
}

pub fn list<T: DeserializeOwned>(value: &Value) -> Vec<T> {
    serde_json::from_value(value.clone()).unwrap()
}

/// The first values of tensor t, times `scale`: splitmix64.
pub fn mixed(t: usize, count: usize, scale: f64) -> Vec<f64> {
    let number = |k: u64| {
        let mut z = (((t as u64) << 32) + k + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        ((z >> 11) as f64 * 2f64.powi(-52) - 1.0) * scale
    };
    (0..count as u64).map(number).collect()
}

/// Tensor t of a layer or model, in PyTorch's order.
pub fn layer_tensor(t: usize, name: &str, shape: &[usize]) -> Vec<f64> {
    let fan_in: usize = shape[1..].iter().product();
    let (shift, scale) = match () {
        () if name.ends_with("weight") && shape.len() > 1 => (0.0, (6.0 / fan_in as f64).sqrt()),
        () if name.ends_with("weight") => (1.0, 0.2),
        () if name.ends_with("running_var") => (1.0, 0.5),
        () => (0.0, 0.1),
    };
    mixed(t, shape.iter().product(), scale).into_iter().map(|u| shift + u).collect()
}

/// n samples: channels first in PyTorch, last in ours.
#[derive(Clone, Copy, Debug)]
pub struct Images {
    pub n: usize,
    pub shape: Shape,
}

impl Images {
    /// From n x c or n x c x h x w.
    pub fn of(dims: &[usize]) -> Self {
        let shape = match dims[1..] {
            [c, h, w] => Shape::image(h, w, c),
            _ => Shape::row(dims[1]),
        };
        Self { n: dims[0], shape }
    }

    pub fn len(&self) -> usize {
        self.n * self.shape.values()
    }

    /// Converts from PyTorch's order to ours.
    pub fn ours(&self, values: &[f64]) -> Vec<f64> {
        self.transposed(values, self.shape.positions())
    }

    /// Converts from our order to PyTorch's.
    pub fn theirs(&self, values: &[f64]) -> Vec<f64> {
        self.transposed(values, self.shape.channels)
    }

    /// Each sample, which has rows of `columns` values, transposed.
    fn transposed(&self, values: &[f64], columns: usize) -> Vec<f64> {
        let turned = |sample: &[f64]| -> Vec<f64> {
            let column = |j| sample.iter().skip(j).step_by(columns).copied();
            (0..columns).flat_map(column).collect()
        };
        values.chunks_exact(self.shape.values()).flat_map(turned).collect()
    }
}

/// Asserts equality up to `tolerance` of the largest value.
pub fn near(got: &[f64], want: &[f64], tolerance: f64, what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    let size = want.iter().fold(1.0f64, |size, x| size.max(x.abs()));
    for (k, (got, want)) in got.iter().zip(want).enumerate() {
        assert!(
            (got - want).abs() <= tolerance * size,
            "{what}, entry {k}: {got} instead of {want}"
        );
    }
}
