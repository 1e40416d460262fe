use std::slice::from_ref;

use super::*;
use crate::testing::normals;

const KINDS: [Kind; 5] = [Kind::Gd, Kind::Sgd, Kind::Adam, Kind::Adamw, Kind::Adagrad];

fn all_settings() -> Vec<OptimiserSettings> {
    let mut all: Vec<_> = KINDS.map(OptimiserSettings::of).to_vec();
    let momentum = OptimiserSettings { momentum: 0.9, ..OptimiserSettings::of(Kind::Sgd) };
    all.push(momentum);
    all.push(OptimiserSettings { nesterov: true, ..momentum });
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
            let mut optimiser = Optimiser::new(&settings, n);
            let mut params = f32s(n, "params");
            for step in ["one", "two"] {
                let mut grads = f32s(n, step);
                pool.install(|| {
                    clip(&mut grads, &trained, 1.0);
                    optimiser.step(0.01, &mut params, &grads, &trained);
                });
            }
            (params, optimiser.states)
        };
        let one = run(1);
        assert_eq!(one, run(2));
        assert_eq!(one, run(3));
        let before = f32s(n, "params");
        // A tiny gradient may round away; the others move.
        let moved = |i: &usize| one.0[*i] != before[*i];
        assert_eq!((0..n).filter(|i| !inside(*i)).filter(moved).count(), 0, "{settings:?}");
        assert!((0..n).filter(moved).count() > n - n / 50, "{settings:?}");
        assert!(one.1.iter().all(|s| (0..n).all(|i| (s[i] != 0.0) == inside(i))));
    }
}

#[test]
fn a_restored_state_goes_on_as_if_nothing_had_happened() {
    let n = 40;
    for settings in all_settings() {
        let mut whole = Optimiser::new(&settings, n);
        let mut params = normals(n, "params");
        let grads: Vec<_> = ["a", "b", "c"].map(|name| normals(n, name)).to_vec();
        whole.step(0.1, &mut params, &grads[0], from_ref(&(0..n)));
        let mut again = Optimiser::new(&settings, n);
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
    let mut adam = Optimiser::<f64>::new(&OptimiserSettings::of(Kind::Adam), 3);
    let three = &[0.0; 3][..];
    let mut says = |state: &[(&str, &[f64])]| adam.set_state(1, state).unwrap_err().to_string();
    assert_eq!(says(&[("sum", three)]), "optimiser state \"sum\" is not of adam");
    assert_eq!(says(&[("exp_avg", three)]), "optimiser state \"exp_avg_sq\" is missing");
    assert_eq!(
        says(&[("exp_avg", three), ("exp_avg_sq", &[0.0; 2])]),
        "optimiser state \"exp_avg_sq\" has 2 numbers, the network has 3 parameters"
    );
    assert_eq!(adam.steps(), 0);
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let adam = OptimiserSettings::of(Kind::Adam);
    let sgd = OptimiserSettings::of(Kind::Sgd);
    for (settings, says) in [
        (OptimiserSettings { momentum: 1.0, ..sgd }, "momentum is 1: it must be"),
        (OptimiserSettings { beta2: f64::NAN, ..adam }, "beta2 is NaN: it must be"),
        (OptimiserSettings { eps: Some(-1.0), ..adam }, "eps is -1: it must be"),
        (OptimiserSettings { weight_decay: Some(f64::INFINITY), ..adam }, "weight decay is inf"),
        (OptimiserSettings { momentum: 0.9, ..adam }, "momentum is of sgd, adam has its own"),
        (OptimiserSettings { nesterov: true, ..sgd }, "nesterov needs a momentum above 0"),
    ] {
        let said = settings.check().unwrap_err().to_string();
        assert!(said.starts_with(says), "{said}");
    }
    assert!(all_settings().iter().all(|s| s.check().is_ok()));
    let json = r#"{"kind":"adamw","weight-decay":0.1}"#;
    let read: OptimiserSettings = serde_json::from_str(json).unwrap();
    assert_eq!((read.weight_decay(), read.eps(), read.beta2), (0.1, 1e-8, 0.999));
    assert_eq!(serde_json::from_str::<Kind>("\"adagrad\"").unwrap().name(), "adagrad");
}

/// With all weights of a quadratic bowl |p|^2 / 2 every rule goes to its bottom.
#[test]
fn every_rule_descends() {
    for settings in all_settings() {
        let mut optimiser = Optimiser::new(&settings, 20);
        let mut params = normals(20, "params");
        let length = |p: &[f64]| p.iter().map(|x| x * x).sum::<f64>();
        let before = length(&params);
        for _ in 0..200 {
            let grads = params.clone();
            optimiser.step(0.2, &mut params, &grads, from_ref(&(0..20)));
        }
        assert!(length(&params) < before / 20.0, "{settings:?}: {}", length(&params));
    }
}
