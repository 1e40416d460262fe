use std::slice::from_ref;

use super::*;
use crate::testing::normals;

const KINDS: [Kind; 5] = [Kind::Gd, Kind::Sgd, Kind::Adam, Kind::Adamw, Kind::Adagrad];

fn all_settings() -> Vec<OptimizerSettings> {
    let mut all: Vec<_> = KINDS.map(OptimizerSettings::of).to_vec();
    let momentum = OptimizerSettings { momentum: 0.9, ..OptimizerSettings::of(Kind::Sgd) };
    all.push(momentum);
    all.push(OptimizerSettings { nesterov: true, ..momentum });
    all
}

fn f32s(n: usize, name: &str) -> Vec<f32> {
    normals(n, name).iter().map(|&x| x as f32).collect()
}

#[test]
fn the_same_bytes_for_any_number_of_threads_and_only_inside_the_ranges() {
    let n = 3 * BLOCK + 100;
    let trained = [3..7, 7..7, 50..2 * BLOCK, 2 * BLOCK + 1..n - 1];
    let inside = |i: usize| trained.iter().any(|r| r.contains(&i));
    for settings in all_settings() {
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let mut optimizer = Optimizer::new(&settings, n);
            let mut params = f32s(n, "params");
            for step in ["one", "two"] {
                let mut grads = f32s(n, step);
                pool.install(|| {
                    clip(&mut grads, &trained, 1.0);
                    optimizer.step(0.01, &mut params, &grads, &trained);
                });
            }
            (params, optimizer.states)
        };
        let one = run(1);
        assert_eq!(one, run(2));
        assert_eq!(one, run(3));
        let before = f32s(n, "params");
        // A tiny gradient may round away; the others change their parameters.
        let moved = |i: &usize| one.0[*i] != before[*i];
        assert_eq!((0..n).filter(|i| !inside(*i)).filter(moved).count(), 0, "{settings:?}");
        assert!((0..n).filter(moved).count() > n - n / 50, "{settings:?}");
        assert!(one.1.iter().all(|s| (0..n).all(|i| (s[i] != 0.0) == inside(i))));
    }
}

#[test]
fn a_restored_state_continues_identically() {
    let n = 40;
    for settings in all_settings() {
        let mut whole = Optimizer::new(&settings, n);
        let mut params = normals(n, "params");
        let grads: Vec<_> = ["a", "b", "c"].map(|name| normals(n, name)).to_vec();
        whole.step(0.1, &mut params, &grads[0], from_ref(&(0..n)));
        let mut again = Optimizer::new(&settings, n);
        again.set_state(whole.steps(), &whole.state()).unwrap();
        let mut resumed = params.clone();
        for g in &grads[1..] {
            whole.step(0.1, &mut params, g, from_ref(&(0..n)));
            again.step(0.1, &mut resumed, g, from_ref(&(0..n)));
        }
        assert_eq!(params, resumed, "{settings:?}");
        assert_eq!(whole.steps(), again.steps());
    }
}

#[test]
fn a_state_of_something_else_is_refused() {
    let mut adam = Optimizer::<f64>::new(&OptimizerSettings::of(Kind::Adam), 3);
    let three = &[0.0; 3][..];
    let mut says = |state: &[(&str, &[f64])]| adam.set_state(1, state).unwrap_err().to_string();
    assert_eq!(says(&[("sum", three)]), "optimizer state \"sum\" does not belong to adam");
    assert_eq!(says(&[("exp_avg", three)]), "optimizer state \"exp_avg_sq\" is missing");
    assert_eq!(
        says(&[("exp_avg", three), ("exp_avg_sq", &[0.0; 2])]),
        "optimizer state \"exp_avg_sq\" has 2 values but the network has 3 parameters"
    );
    assert_eq!(adam.steps(), 0);
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let adam = OptimizerSettings::of(Kind::Adam);
    let sgd = OptimizerSettings::of(Kind::Sgd);
    for (settings, says) in [
        (OptimizerSettings { momentum: 1.0, ..sgd }, "momentum is 1: it must be"),
        (OptimizerSettings { beta2: f64::NAN, ..adam }, "beta2 is NaN: it must be"),
        (OptimizerSettings { eps: Some(-1.0), ..adam }, "eps is -1: it must be"),
        (OptimizerSettings { weight_decay: Some(f64::INFINITY), ..adam }, "weight decay is inf"),
        (OptimizerSettings { momentum: 0.9, ..adam }, "momentum is an option of sgd, not of adam"),
        (OptimizerSettings { nesterov: true, ..sgd }, "nesterov requires a momentum above 0"),
    ] {
        let message = settings.check().unwrap_err().to_string();
        assert!(message.starts_with(says), "{message}");
    }
    assert!(all_settings().iter().all(|s| s.check().is_ok()));
    let json = r#"{"kind":"adamw","weight-decay":0.1}"#;
    let read: OptimizerSettings = serde_json::from_str(json).unwrap();
    assert_eq!((read.weight_decay(), read.eps(), read.beta2), (0.1, 1e-8, 0.999));
    assert_eq!(serde_json::from_str::<Kind>("\"adagrad\"").unwrap().name(), "adagrad");
}

/// On the quadratic |p|^2 / 2 every rule converges to the minimum.
#[test]
fn every_rule_descends() {
    for settings in all_settings() {
        let mut optimizer = Optimizer::new(&settings, 20);
        let mut params = normals(20, "params");
        let length = |p: &[f64]| p.iter().map(|x| x * x).sum::<f64>();
        let before = length(&params);
        for _ in 0..200 {
            let grads = params.clone();
            optimizer.step(0.2, &mut params, &grads, from_ref(&(0..20)));
        }
        assert!(length(&params) < before / 20.0, "{settings:?}: {}", length(&params));
    }
}
