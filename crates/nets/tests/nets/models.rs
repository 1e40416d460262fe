//! Models compared with PyTorch, and properties of every model.

use std::collections::BTreeMap;

use serde_json::Value;
use veridical_core::{Seed, threads};
use veridical_data::TensorMap;
use veridical_nets::layers::Parameterization;
use veridical_nets::{
    Architecture, Curve, Float, Init, Loss, Mode, Net, NetConfig, OptimizerKind, OptimizerSettings,
    Plan, Schedule, Shape, TapFactors, Taps, Target, Trainer, TrainerSettings, Workspace,
};

use crate::oracle::{INPUT, Images, layer_tensor, list, mixed, near, read};

fn seed(n: u64) -> Seed {
    Seed::new(n).unwrap()
}

fn model(name: &str, input: Shape, outputs: usize) -> NetConfig {
    let (name, activation) = name.split_once(' ').unwrap_or((name, "relu"));
    let mut model = NetConfig::new(name.parse().unwrap(), input, outputs);
    model.activation = activation.parse().unwrap();
    model
}

/// A network with the weights of the reference.
fn with_weights<T: Float>(mut net: Net<T>) -> Net<T> {
    for (t, named) in net.tensors().iter().enumerate() {
        let values = layer_tensor(t, &named.name, &named.shape);
        net.set(named, values.into_iter().map(T::of).collect());
    }
    net
}

/// A reference tensor is summarized by its sum, its sum of squares and five entries. Entries are compared relative to the
/// norm: they are sums of thousands of products with rounding 1e-16.
fn check_summary(got: &[f64], want: &Value, what: &str) {
    let len = got.len();
    let norm = want["squares"].as_f64().unwrap().sqrt();
    let number = |name: &str| want[name].as_f64().unwrap();
    let sum: f64 = got.iter().sum();
    assert!(
        (sum - number("sum")).abs() <= 1e-10 * (1.0 + norm * (len as f64).sqrt()),
        "{what}: sum"
    );
    let squares: f64 = got.iter().map(|g| g * g).sum();
    assert!((squares - norm * norm).abs() <= 1e-10 * (1.0 + norm * norm), "{what}: squares");
    let entries: Vec<f64> = (0..5).map(|j| got[j * (len - 1) / 4]).collect();
    near(&entries, &list::<f64>(&want["entries"]), 1e-10 * (1.0 + norm), what);
}

#[test]
fn outputs_losses_and_gradients_are_those_of_pytorch() {
    for case in read("nets/models")["models"].as_array().unwrap() {
        let name = case["model"].as_str().unwrap();
        let images = Images::of(&list::<usize>(&case["input"]));
        let mut net = with_weights(model(name, images.shape, 10).build::<f64>(seed(0)).unwrap());
        let names: Vec<String> = net.tensors().into_iter().map(|named| named.name).collect();
        let theirs = case["tensors"].as_array().unwrap().iter();
        assert_eq!(
            names,
            theirs.map(|t| t["name"].as_str().unwrap()).collect::<Vec<_>>(),
            "{name}"
        );
        let x = images.ours(&mixed(INPUT, images.len(), 2.0));
        let n = images.n;
        let classes: Vec<u32> = (0..n as u32).map(|i| (3 * i + 1) % 10).collect();
        let loss = Loss::CrossEntropy { smoothing: case["smoothing"].as_f64().unwrap() };
        let plan = Plan::new(&net, |_| true);
        for (mode, part) in [(Mode::Frozen, "eval"), (Mode::Training, "train")] {
            let want = &case[part];
            let what = format!("{name}, {part}");
            let mut work = Workspace::new(&net, n, Some(&plan));
            net.forward(&mut work, n, mode, 0, |slot| slot.copy_from_slice(&x));
            near(work.outputs(&net), &list::<f64>(&want["outputs"]), 1e-10, &what);
            let (outputs, gradient) = work.output_gradient(&net);
            let got =
                loss.evaluate(outputs, n, 10, Target::Classes(&classes), None, Some(gradient));
            near(&[got], &[want["loss"].as_f64().unwrap()], 1e-10, &what);
            net.backward(&mut work, &plan);
            for named in net.tensors().iter().filter(|named| named.is_parameter) {
                let what = format!("{what}, gradient of {}", named.name);
                check_summary(
                    &net.torch_order(named, &work.grads),
                    &want["gradients"][&named.name],
                    &what,
                );
            }
            if mode == Mode::Training {
                net.settle(&work);
                for named in net.tensors().iter().filter(|named| !named.is_parameter) {
                    let what = format!("{what}, {}", named.name);
                    check_summary(
                        &net.buffers[named.place.clone()],
                        &want["buffers"][&named.name],
                        &what,
                    );
                }
            }
        }
    }
}

/// Small inputs for every architecture.
fn all() -> Vec<NetConfig> {
    let mut ntk = model("mlp:16,8 normalized-tanh", Shape::row(6), 3);
    ntk.parameterization = Parameterization::Ntk { bias: 0.5 };
    let mut dropped = model("mlp:32 gelu", Shape::image(3, 3, 2), 3);
    dropped.dropout = 0.2;
    vec![
        ntk,
        dropped,
        model("mlp:", Shape::row(6), 3),
        model("cnn-small tanh", Shape::image(8, 8, 2), 3),
        model("cnn:8,max,12", Shape::image(8, 8, 3), 3),
        model("resnet20", Shape::image(8, 8, 3), 3),
        model("resnet18", Shape::image(8, 8, 3), 3),
    ]
}

/// One pattern per class, with some noise.
fn samples(model: &NetConfig, n: usize) -> (Vec<f32>, Vec<u32>) {
    let len = model.input.values();
    let classes: Vec<u32> = (0..n as u32).map(|i| i % model.outputs as u32).collect();
    let x = classes.iter().enumerate().flat_map(|(i, &c)| {
        let pattern = mixed(5000 + c as usize, len, 1.0);
        let noise = mixed(6000 + i, len, 0.3);
        pattern.into_iter().zip(noise).map(|(p, e)| (p + e) as f32).collect::<Vec<_>>()
    });
    (x.collect(), classes)
}

fn settings(lr: f64, batch: usize) -> TrainerSettings {
    TrainerSettings {
        loss: Loss::CrossEntropy { smoothing: 0.0 },
        optimizer: OptimizerSettings::of(OptimizerKind::Adam),
        lr,
        schedule: Schedule { curve: Curve::Constant, warmup: 0, total: 0 },
        clip: Some(5.0),
        batch,
    }
}

/// The gradient of <e_c, f(x_i)> with respect to every parameter, for sample i alone, by a backward pass.
fn sample_gradient(net: &Net<f64>, x: &[f64], c: usize) -> Vec<f64> {
    let plan = Plan::new(net, |_| true);
    let mut work = Workspace::new(net, 1, Some(&plan));
    net.forward(&mut work, 1, Mode::Frozen, 0, |slot| slot.copy_from_slice(x));
    let (_, gradient) = work.output_gradient(net);
    gradient.fill(0.0);
    gradient[c] = 1.0;
    net.backward(&mut work, &plan);
    work.grads
}

#[test]
fn gradients_put_together_from_taps_are_those_of_each_sample() {
    for model in all() {
        let mut net = model.build::<f64>(seed(3)).unwrap();
        let len = net.params.len();
        net.params.iter_mut().zip(mixed(77, len, 0.1)).for_each(|(p, z)| *p += z);
        let (x, _) = samples(&model, 3);
        let x: Vec<f64> = x.into_iter().map(f64::from).collect();
        let values = model.input.values();
        let outputs = [2, 0];
        let mut seen: BTreeMap<(usize, usize), Vec<f64>> = BTreeMap::new();
        Taps::new(&net, 4).take(
            3,
            &outputs,
            |slot| slot.copy_from_slice(&x),
            |tap| {
                for i in 0..tap.samples.len() {
                    let own = match &tap.factors {
                        TapFactors::Outer(outer) => outer.gradient(i),
                        TapFactors::Direct(all) => {
                            let count = all.len() / tap.samples.len();
                            all[i * count..][..count].to_vec()
                        }
                        TapFactors::Rows(_) | TapFactors::Added { .. } => continue,
                    };
                    seen.entry((tap.output, i)).or_default().extend(own);
                }
            },
        );
        for c in outputs {
            for i in 0..3 {
                let want = sample_gradient(&net, &x[i * values..][..values], c);
                let what = format!("{}, output {c}, sample {i}", model.architecture);
                near(&seen[&(c, i)], &want, 1e-11, &what);
            }
        }
    }
}

/// A cotangent of two outputs gives the sum of their taps; taps of some layers are those of all, in one order.
#[test]
fn cotangents_are_linear_and_layers_are_chosen_by_name() {
    for model in all() {
        let net = model.build::<f64>(seed(3)).unwrap();
        let (x, _) = samples(&model, 3);
        let x: Vec<f64> = x.into_iter().map(f64::from).collect();
        let fill = |slot: &mut [f64]| slot.copy_from_slice(&x);
        let names: Vec<String> = Taps::new(&net, 3).layers().into_iter().map(|l| l.name).collect();
        let mut all = BTreeMap::<String, Vec<f64>>::new();
        Taps::new(&net, 3).take(3, &[0, 2], fill, |tap| {
            let TapFactors::Outer(outer) = &tap.factors else { return };
            let delta = outer.delta.iter().map(|d| if tap.output == 0 { *d } else { -0.5 * d });
            let sums = all.entry(tap.name.into()).or_insert_with(|| vec![0.0; outer.delta.len()]);
            sums.iter_mut().zip(delta).for_each(|(s, d)| *s += d);
        });
        let last = &names[names.len().saturating_sub(2)..];
        let mut taps = Taps::only(&net, 3, |name| last.iter().any(|own| own == name));
        assert!(taps.layers().iter().map(|l| &l.name).eq(last));
        taps.forward(3, fill);
        let mut work = Workspace::new(&net, 3, None);
        net.forward(&mut work, 3, Mode::Frozen, 0, fill);
        assert_eq!(taps.outputs(), work.outputs(&net));
        let mut inputs = Vec::new();
        taps.inputs(|tap| inputs.push((tap.name.to_owned(), tap.samples().len(), tap.bias)));
        let v: Vec<f64> = (0..3 * net.outputs())
            .map(|p| match p % net.outputs() {
                0 => 1.0,
                2 => -0.5,
                _ => 0.0,
            })
            .collect();
        let mut seen = Vec::new();
        taps.pull(&v, |tap| {
            let TapFactors::Outer(outer) = &tap.factors else { return };
            near(outer.delta, &all[tap.name], 1e-12, tap.name);
            let rho = outer.bias_scale / outer.weight_scale;
            seen.push((tap.name.to_owned(), 3, if outer.sizes.bias { rho } else { 0.0 }));
        });
        assert_eq!(inputs, seen, "{}", model.architecture);
    }
}

/// Runs some steps and returns the final state.
fn trained(model: &NetConfig, n: usize, steps: usize) -> (Vec<u32>, Vec<u32>, u64) {
    let (x, classes) = samples(model, n);
    let mut trainer =
        Trainer::new(model.build::<f32>(seed(1)).unwrap(), settings(1e-3, n), |_| true).unwrap();
    let mut last = 0.0;
    for _ in 0..steps {
        let fill = |slot: &mut [f32]| slot.copy_from_slice(&x);
        last = trainer.step(n, Target::Classes(&classes), None, fill).unwrap().0;
    }
    let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect();
    let net = trainer.into_net();
    (bits(&net.params), bits(&net.buffers), last.to_bits())
}

#[test]
fn threads_change_no_byte() {
    let mut models = all();
    // Large enough for products to be split.
    models.push(model("mlp:300,200", Shape::row(120), 3));
    for model in models {
        let run =
            |threads| threads::with_threads(Some(threads), || trained(&model, 37, 3)).unwrap();
        let one = run(1);
        assert!(run(2) == one && run(3) == one, "{}", model.architecture);
    }
}

#[test]
fn a_resumed_training_is_the_uninterrupted_one() {
    for model in all() {
        let (x, classes) = samples(&model, 12);
        let start = || {
            Trainer::new(model.build::<f32>(seed(1)).unwrap(), settings(1e-3, 12), |_| true)
                .unwrap()
        };
        let step = |trainer: &mut Trainer<f32>| {
            let fill = |slot: &mut [f32]| slot.copy_from_slice(&x);
            trainer.step(12, Target::Classes(&classes), None, fill).unwrap().0
        };
        let mut whole = start();
        (0..2).for_each(|_| {
            step(&mut whole);
        });
        let kept: Vec<(String, Vec<f32>)> = whole
            .optimizer()
            .state()
            .into_iter()
            .map(|(name, kept)| (name.into(), kept.to_vec()))
            .collect();
        let (params, buffers) = (whole.net().params.clone(), whole.net().buffers.clone());
        let mut resumed = start();
        resumed.resume(&params, &buffers, &kept, 2).unwrap();
        for _ in 0..2 {
            assert_eq!(
                step(&mut whole).to_bits(),
                step(&mut resumed).to_bits(),
                "{}",
                model.architecture
            );
        }
        assert_eq!(whole.net().params, resumed.net().params);
        assert_eq!(whole.net().buffers, resumed.net().buffers);
        assert!(resumed.resume(&params[1..], &buffers, &kept, 2).is_err());
    }
}

#[test]
fn every_model_memorizes_64_samples() {
    for model in all() {
        if model.architecture == Architecture::Mlp(Vec::new()) {
            continue; // six weights per class cannot separate 64 samples
        }
        let (x, classes) = samples(&model, 64);
        let mut trainer =
            Trainer::new(model.build::<f32>(seed(1)).unwrap(), settings(3e-3, 64), |_| true)
                .unwrap();
        let mut right = 0;
        for _ in 0..300 {
            let fill = |slot: &mut [f32]| slot.copy_from_slice(&x);
            trainer.step(64, Target::Classes(&classes), None, fill).unwrap();
            let outputs = trainer.predict(64, |slot| slot.copy_from_slice(&x));
            right = veridical_nets::correct(outputs, model.outputs, &classes);
            if right == 64 {
                break;
            }
        }
        assert_eq!(right, 64, "{}", model.architecture);
    }
}

#[test]
fn weights_come_back_and_others_are_refused() {
    for model in all() {
        let net = model.build::<f32>(seed(4)).unwrap();
        let mut other = model.build::<f32>(seed(5)).unwrap();
        other.import(&net.export(), true).unwrap();
        assert_eq!(
            (net.params, net.buffers),
            (other.params, other.buffers),
            "{}",
            model.architecture
        );
    }
    let model = model("resnet20", Shape::image(8, 8, 3), 3);
    let mut net = model.build::<f32>(seed(4)).unwrap();
    let whole = net.export();
    let refused = |net: &mut Net<f32>, tensors: &TensorMap| {
        net.import(tensors, true).unwrap_err().to_string()
    };
    let mut tensors = whole.clone();
    let moved = tensors.remove("layer1.0.bn1.weight").unwrap();
    tensors.insert("layer1.0.bn1.gamma".into(), moved);
    tensors.get_mut("conv1.weight").unwrap().0 = vec![16, 3, 9];
    let message = refused(&mut net, &tensors);
    assert!(
        message.contains("missing layer1.0.bn1.weight (found layer1.0.bn1.gamma)"),
        "{message}"
    );
    assert!(
        message.contains("conv1.weight is [16, 3, 9] and should be [16, 3, 3, 3]"),
        "{message}"
    );
    assert!(message.contains("unexpected layer1.0.bn1.gamma"), "{message}");
    let mut tensors = whole.clone();
    tensors.get_mut("linear.bias").unwrap().1[1] = f32::NAN;
    assert!(refused(&mut net, &tensors).contains("linear.bias[1] is NaN"));
    // The prefix of data-parallel training, torchvision's name of the head.
    let renamed: TensorMap = whole
        .iter()
        .map(|(name, t)| (format!("module.{}", name.replace("linear", "fc")), t.clone()))
        .collect();
    net.import(&renamed, true).unwrap();
    // Other classes: the head keeps its initialization.
    let mut wider =
        NetConfig::new(model.architecture, model.input, 7).build::<f32>(seed(4)).unwrap();
    assert!(wider.import(&whole, true).is_err());
    wider.import(&whole, false).unwrap();
}

/// Initially f = 0, and units come in pairs (paper 003).
#[test]
fn a_symmetric_network_is_zero_at_first() {
    let mut model = model("mlp:10,8", Shape::row(5), 2);
    model.init = Init::Symmetric;
    let net = model.build::<f64>(seed(9)).unwrap();
    let (x, _) = samples(&model, 6);
    let mut work = Workspace::new(&net, 6, None);
    net.forward(&mut work, 6, Mode::Frozen, 0, |slot| {
        slot.iter_mut().zip(&x).for_each(|(to, &from)| *to = f64::from(from));
    });
    // Equal terms of opposite sign, summed in some order.
    assert!(work.outputs(&net).iter().all(|f| f.abs() < 1e-14));
    assert!(work.activations(&net, "3").unwrap().iter().any(|h| *h > 0.1));
    model.architecture = "mlp:10,7".parse().unwrap();
    assert!(model.build::<f64>(seed(9)).unwrap_err().to_string().contains("even number"));
}

/// Frozen layers keep their parameters and statistics; the others change.
#[test]
fn frozen_layers_stay() {
    let model = model("resnet20", Shape::image(8, 8, 3), 3);
    let (x, classes) = samples(&model, 9);
    let net = model.build::<f32>(seed(1)).unwrap();
    let before = net.export();
    let is_trained = |name: &str| name.starts_with("layer3") || name == "linear";
    let mut trainer = Trainer::new(net, settings(1e-2, 9), is_trained).unwrap();
    for _ in 0..2 {
        let fill = |slot: &mut [f32]| slot.copy_from_slice(&x);
        trainer.step(9, Target::Classes(&classes), None, fill).unwrap();
    }
    for (name, tensor) in trainer.net().export() {
        assert_eq!(before[&name] != tensor, is_trained(name.rsplit_once('.').unwrap().0), "{name}");
    }
}
