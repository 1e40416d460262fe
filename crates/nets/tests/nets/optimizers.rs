//! Optimizers, losses, clipping and schedules compared with PyTorch (`tests/oracles/nets/optimizers.py`).
//!
//! Both sides compute in f64 and in the same order up to a few roundings of 1e-16 per operation; five steps of an optimizer
//! divide by numbers not below 1e-3, so a relative tolerance of 1e-12 is loose.

use serde_json::Value;
use veridical_nets::{
    Loss, Optimizer, OptimizerKind as Kind, OptimizerSettings, Schedule, Target, clip,
};

fn oracle() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/oracles/nets/optimizers.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The numbers that the reference script computes.
fn wave(count: usize, offset: f64, scale: f64) -> Vec<f64> {
    (0..count).map(|k| scale * (0.37 * k as f64 + offset).sin()).collect()
}

fn list<T: serde::de::DeserializeOwned>(value: &Value) -> Vec<T> {
    serde_json::from_value(value.clone()).unwrap()
}

fn near(got: &[f64], want: &[f64], what: &Value) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (got, want) in got.iter().zip(want) {
        assert!(
            (got - want).abs() <= 1e-12 * want.abs().max(1e-2),
            "{got} instead of {want}: {what}"
        );
    }
}

#[test]
fn optimizers_step_as_pytorch_does() {
    let oracle = oracle();
    let cases = oracle["optimizers"].as_array().unwrap();
    assert_eq!(cases.len(), 13);
    for case in cases {
        let options = &case["options"];
        let mut s = OptimizerSettings::of(serde_json::from_value(case["kind"].clone()).unwrap());
        s.momentum = options["momentum"].as_f64().unwrap_or(s.momentum);
        s.nesterov = options["nesterov"].as_bool().unwrap_or(s.nesterov);
        s.beta1 = options["betas"][0].as_f64().unwrap_or(s.beta1);
        s.beta2 = options["betas"][1].as_f64().unwrap_or(s.beta2);
        s.eps = options["eps"].as_f64();
        s.weight_decay = options["weight_decay"].as_f64();
        s.check().unwrap();
        // Full-batch descent is the same rule.
        let kinds = if s.kind == Kind::Sgd { vec![Kind::Sgd, Kind::Gd] } else { vec![s.kind] };
        for kind in kinds {
            let steps = case["steps"].as_array().unwrap();
            let n = steps[0].as_array().unwrap().len();
            let mut params = wave(n, 0.0, 1.0);
            let mut optimizer = Optimizer::new(&OptimizerSettings { kind, ..s }, n);
            for (k, want) in steps.iter().enumerate() {
                let grads = wave(n, 1.0 + k as f64, 1.0);
                let all = 0..n;
                let lr = case["lr"].as_f64().unwrap();
                optimizer.step(lr, &mut params, &grads, std::slice::from_ref(&all));
                near(&params, &list(want), case);
            }
        }
    }
}

#[test]
fn losses_and_their_gradients_are_those_of_pytorch() {
    let oracle = oracle();
    let cases = oracle["losses"].as_array().unwrap();
    assert_eq!(cases.len(), 16);
    for case in cases {
        let [n, dim] = ["n", "dim"].map(|key| case[key].as_u64().unwrap() as usize);
        let loss = match case["loss"].as_str().unwrap() {
            "squared" => Loss::Squared,
            "cross-entropy" => {
                Loss::CrossEntropy { smoothing: case["smoothing"].as_f64().unwrap() }
            }
            _ => Loss::BinaryCrossEntropy,
        };
        let outputs = wave(n * dim, 0.5, 3.0);
        let (mut classes, mut numbers) = (Vec::<u32>::new(), Vec::<f32>::new());
        let targets = if case["targets"] == "classes" {
            classes.extend(list::<u32>(&case["values"]));
            Target::Classes(&classes)
        } else {
            numbers.extend(list::<f64>(&case["values"]).iter().map(|&y| y as f32));
            Target::Numbers(&numbers)
        };
        loss.check(dim, targets).unwrap();
        let weights = (!case["weights"].is_null()).then(|| list::<f64>(&case["weights"]));
        let mut gradient = vec![f64::NAN; n * dim];
        let value =
            loss.evaluate(&outputs, n, dim, targets, weights.as_deref(), Some(&mut gradient));
        near(&[value], &[case["value"].as_f64().unwrap()], case);
        near(&gradient, &list(&case["gradient"]), case);
    }
}

#[test]
fn gradients_are_clipped_as_pytorch_does() {
    for case in oracle()["clips"].as_array().unwrap() {
        let mut gradient = [wave(5, 1.0, 2.0), vec![9.0], wave(6, 2.0, 1.0)].concat();
        let norm = clip(&mut gradient, &[0..5, 6..12], case["limit"].as_f64().unwrap());
        near(&[norm], &[case["norm"].as_f64().unwrap()], case);
        assert_eq!(gradient.remove(5), 9.0);
        near(&gradient, &list(&case["gradient"]), case);
    }
}

/// PyTorch multiplies the learning rate of the previous step, so its roundings accumulate over ten steps.
#[test]
fn schedules_are_those_of_pytorch() {
    for case in oracle()["schedules"].as_array().unwrap() {
        let schedule: Schedule = serde_json::from_value(serde_json::json!({
            "curve": case["curve"], "warmup": case["warmup"], "total": case["total"],
        }))
        .unwrap();
        let factors: Vec<f64> = (0..schedule.total).map(|step| schedule.factor(step)).collect();
        near(&factors, &list(&case["factors"]), case);
    }
}
