use super::*;

#[test]
fn sketches_have_names_and_sizes() {
    for name in ["sjlt:4096", "gaussian:10240", "rademacher:7", "kron:64x16"] {
        assert_eq!(name.parse::<Sketch>().unwrap().to_string(), name);
    }
    for name in ["sjlt", "sjlt:", "sjlt:0", "other:3", "kron:3", "kron:0x4", "sjlt:-1"] {
        assert!(name.parse::<Sketch>().is_err(), "{name}");
    }
    assert_eq!(Sketch::for_error(0.02).unwrap().dim, 5000);
    let refused = Sketch::for_error(1.5).unwrap_err().to_string();
    assert_eq!(refused, "⟨error⟩ must be from 0.001 to below 1, got 1.5");
}

/// Every sketch of a batch is that of its sample alone, and sketches of two layers add up.
#[test]
fn sketches_are_linear_and_sample_by_sample() {
    let gradients: Vec<f64> = (0..3 * 1000).map(|i| ((i * 7919) % 101) as f64 - 50.0).collect();
    for name in ["sjlt:300", "gaussian:300", "rademacher:300"] {
        let mut projector = Projector::<f64>::new(&name.parse().unwrap(), Seed::new(1).unwrap());
        let from = |first: usize| {
            let gradients = &gradients;
            move |i: usize, to: &mut [f64]| {
                to.copy_from_slice(&gradients[(first + i) * 1000..][..1000]);
            }
        };
        let mut all = vec![0.0; 3 * 300];
        projector.add("a", 0, 1000, from(0), &mut all);
        for i in 0..3 {
            let mut one = vec![0.0; 300];
            projector.add("a", 0, 1000, from(i), &mut one);
            let near = one.iter().zip(&all[i * 300..]).all(|(a, b)| (a - b).abs() < 1e-9);
            assert!(near, "{name} {i}");
            let first = one.clone();
            projector.add("b", 1, 1000, from(0), &mut one);
            let mut other = vec![0.0; 300];
            projector.add("b", 1, 1000, from(0), &mut other);
            assert!((0..300).all(|k| (one[k] - first[k] - other[k]).abs() < 1e-9), "{name}");
        }
    }
}
