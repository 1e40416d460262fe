//! Multilayer perceptron: dense layers with activations between them.
//!
//! h_0 = x,  h_l = sigma(W_l h_(l-1) + b_l),  f = W_(L+1) h_L + b_(L+1)      (paper 004, eq. 7)
//!
//! Names are those of a PyTorch `Sequential`: 0, 2, 4, .. for dense layers, the activations between (with dropout:
//! 0, 3, 6, ..).
//!
//! Symmetric initialization (paper 003): units j and m-1-j of the last hidden layer have the same weights, drawn from N(0, 1/d),
//! and opposite signs +-1 in the output; all biases are 0, so f = 0.

use veridical_core::{Seed, Stream};

use super::{Init, NetConfig};
use crate::layers::{Dropout, Flatten, Linear};
use crate::{Builder, Error, Float, Net, Result};

pub(super) fn build<T: Float>(model: &NetConfig, hidden: &[usize], seed: Seed) -> Result<Net<T>> {
    let mut net = Builder::new(model.input, seed);
    if model.input.positions() > 1 {
        net.push("flatten", Flatten)?;
    }
    let mut number = 0;
    let mut name = || {
        number += 1;
        (number - 1).to_string()
    };
    let mut inputs = model.input.values();
    for &width in hidden {
        net.push(&name(), Linear::new(inputs, width).parameterized(model.parameterization))?;
        net.push(&name(), model.activation)?;
        if model.dropout > 0.0 {
            net.push(&name(), Dropout::new(model.dropout)?)?;
        }
        inputs = width;
    }
    net.push(&name(), Linear::new(inputs, model.outputs).parameterized(model.parameterization))?;
    let mut net = net.finish()?;
    if model.init == Init::Symmetric {
        mirror(&mut net, seed)?;
    }
    Ok(net)
}

/// Makes pairs of units of the last hidden layer cancel.
fn mirror<T: Float>(net: &mut Net<T>, seed: Seed) -> Result<()> {
    let tensors = net.tensors();
    let weights: Vec<_> = tensors.iter().filter(|t| t.name.ends_with("weight")).collect();
    let [.., last, head] = weights.as_slice() else {
        return Err(Error::request("⟨symmetric⟩ needs a hidden layer".into()));
    };
    let (width, inputs) = (last.shape[0], last.shape[1]);
    if !width.is_multiple_of(2) {
        let what = format!(
            "⟨symmetric⟩ needs an even number of units in the last hidden layer, got {width}"
        );
        return Err(Error::request(what));
    }
    for tensor in &tensors {
        let values = &mut net.params[tensor.place.clone()];
        if tensor.name.ends_with("bias") {
            values.fill(T::ZERO);
        } else if tensor.name != head.name {
            let fan_in = tensor.shape[1] as f64;
            let stream = Stream::new(seed, &format!("symmetric/{}", tensor.name));
            crate::layers::normal(values, stream, 1.0 / fan_in.sqrt());
        }
    }
    let rows = &mut net.params[last.place.clone()];
    for j in 0..width / 2 {
        rows.copy_within(j * inputs..(j + 1) * inputs, (width - 1 - j) * inputs);
    }
    let signs = Stream::new(seed, "symmetric/signs").at(0, 0);
    let mut draws = signs.draws();
    for row in net.params[head.place.clone()].chunks_exact_mut(width) {
        for j in 0..width / 2 {
            let a = if draws.below(2) == 0 { T::ONE } else { -T::ONE };
            (row[j], row[width - 1 - j]) = (a, -a);
        }
    }
    Ok(())
}
