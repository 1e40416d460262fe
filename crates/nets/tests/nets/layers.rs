//! Layers compared with PyTorch (`tests/oracles/nets/nets.py`): outputs, gradients and running statistics.
//!
//! Both sides compute in f64. A value is a sum of at most a few hundred products of numbers near 1 and differs by the order of
//! the sum, so by about 100 eps ~ 2e-14; a tolerance of 1e-11 is loose for the correct formula and tight for a wrong one.

use serde_json::Value;
use veridical_core::{Seed, Stream};
use veridical_nets::layers::{
    Activation, AveragePool, BatchNorm, Conv2d, Flatten, GlobalAverage, Linear, MaxPool,
    PadShortcut,
};
use veridical_nets::{Backward, Forward, Layer, Mode, Noise, Sequences, Spec};

use crate::oracle::{Images, layer_tensor, list, mixed, near, read};

const TOLERANCE: f64 = 1e-11;

/// The layer of a case.
fn layer(case: &Value) -> Box<dyn Layer<f64>> {
    let options = &case["options"];
    let size = |key: &str| options[key].as_u64().map(|n| n as usize);
    let need = |key: &str| size(key).unwrap();
    let bias = options["bias"].as_bool().unwrap_or(true);
    match case["layer"].as_str().unwrap() {
        "linear" => {
            let layer = Linear::new(need("inputs"), need("outputs"));
            Box::new(if bias { layer } else { layer.without_bias() })
        }
        "conv" => {
            let layer = Conv2d::new(need("inputs"), need("outputs"), need("kernel"))
                .stride(size("stride").unwrap_or(1))
                .padding(size("padding").unwrap_or(0))
                .groups(size("groups").unwrap_or(1));
            Box::new(if bias { layer } else { layer.without_bias() })
        }
        "activation" => {
            let kind = options["kind"].as_str().unwrap();
            let layer: Activation = kind.parse().unwrap();
            let normalized = options["normalized"].as_bool().unwrap();
            Box::new(if normalized { layer.normalized() } else { layer })
        }
        "batch-norm" => {
            let layer = BatchNorm::new(need("channels"));
            Box::new(if options["relu"] == true { layer.with_relu() } else { layer })
        }
        "max-pool" => Box::new(MaxPool::new(need("size"), need("stride"), need("padding"))),
        "average-pool" => Box::new(AveragePool::new(need("size"), need("stride"), need("padding"))),
        "global-average" => Box::new(GlobalAverage),
        "flatten" => Box::new(Flatten),
        "padding-shortcut" => Box::new(PadShortcut::new(2, need("inputs"), need("outputs"))),
        other => panic!("no layer {other}"),
    }
}

/// All tensors of a kind in the layer's order, numbered from `first` on.
fn fill(specs: &[Spec], first: usize, import: impl Fn(usize, &mut Vec<f64>)) -> Vec<f64> {
    let tensors = specs.iter().enumerate().map(|(i, spec)| {
        let mut values = layer_tensor(first + i, spec.name, &spec.shape);
        import(i, &mut values);
        values
    });
    tensors.flatten().collect()
}

fn check(case: &Value) {
    let layer = layer(case);
    let mode = if case["mode"] == "train" { Mode::Training } else { Mode::Frozen };
    let [input, output] = ["input", "output"].map(|key| Images::of(&list::<usize>(&case[key])));
    assert_eq!(layer.output(input.shape).unwrap(), output.shape, "{}", case["options"]);
    let n = input.n;
    let (parameters, kinds) = (layer.parameters(), layer.buffers());
    let params = fill(&parameters, 0, |which, values| layer.import(which, values));
    let mut buffers = fill(&kinds, parameters.len(), |_, _| ());
    let x = input.ours(&mixed(crate::oracle::INPUT, input.len(), 2.0));
    let dy = output.ours(&mixed(crate::oracle::COTANGENT, output.len(), 1.0));
    let noise = Noise { stream: Stream::new(Seed::new(0).unwrap(), "none"), step: 0, first: 0 };
    let starts: Vec<usize> = (0..=n).collect();
    let sequences = Sequences::new(&starts);
    let mut y = vec![f64::NAN; output.len()];
    let mut kept = vec![f64::NAN; layer.kept(input.shape)];
    layer.forward(Forward {
        n,
        sequences,
        input: input.shape,
        output: output.shape,
        mode,
        params: &params,
        buffers: &buffers,
        x: &x,
        y: &mut y,
        kept: &mut kept,
        noise,
        scratch: &mut Vec::new(),
    });
    let mut dx = vec![f64::NAN; input.len()];
    let mut dparams = vec![f64::NAN; params.len()];
    layer.backward(Backward {
        n,
        sequences,
        input: input.shape,
        output: output.shape,
        mode,
        params: &params,
        buffers: &buffers,
        x: &x,
        y: &y,
        dy: &dy,
        dx: Some(&mut dx),
        dparams: Some(&mut dparams),
        tapped: None,
        kept: &kept,
        noise,
        scratch: &mut Vec::new(),
    });
    let what = |part: &str| format!("{part} of {} {}", case["layer"], case["options"]);
    near(&output.theirs(&y), &list::<f64>(&case["y"]), TOLERANCE, &what("y"));
    near(&input.theirs(&dx), &list::<f64>(&case["dx"]), TOLERANCE, &what("dx"));
    let mut rest = &dparams[..];
    for (which, spec) in parameters.iter().enumerate() {
        let (own, later) = rest.split_at(spec.len());
        rest = later;
        let mut own = own.to_vec();
        layer.export(which, &mut own);
        near(&own, &list::<f64>(&case["gradients"][spec.name]), TOLERANCE, &what(spec.name));
    }
    if mode == Mode::Training {
        layer.settle(&kept, &mut buffers);
    }
    let mut rest = &buffers[..];
    for spec in &kinds {
        let (own, later) = rest.split_at(spec.len());
        rest = later;
        near(own, &list::<f64>(&case["buffers"][spec.name]), TOLERANCE, &what(spec.name));
    }
}

/// Checks the number of cases of a layer, so that none is skipped because of a wrong name.
fn check_all(name: &str, cases: usize) {
    let oracle = read("nets/layers");
    let all = oracle["layers"].as_array().unwrap();
    let own: Vec<&Value> = all.iter().filter(|case| case["layer"] == name).collect();
    assert_eq!(own.len(), cases);
    own.into_iter().for_each(check);
}

#[test]
fn linear() {
    check_all("linear", 2);
}

#[test]
fn convolutions() {
    check_all("conv", 12);
}

#[test]
fn activations() {
    check_all("activation", 12);
}

#[test]
fn batch_norm_with_its_running_statistics() {
    check_all("batch-norm", 8);
}

#[test]
fn shortcuts_that_pad() {
    check_all("padding-shortcut", 1);
}

#[test]
fn pooling() {
    check_all("max-pool", 2);
    check_all("average-pool", 3);
    check_all("global-average", 1);
}

#[test]
fn flattening() {
    check_all("flatten", 1);
}
