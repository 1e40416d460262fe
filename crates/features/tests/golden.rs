//! Bit-for-bit comparison with the values of `tests/golden/`, which the independent Python reference
//! (`python/reference/make_golden.py`) wrote.

#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

use serde_json::Value;
use veridical_core::{Rows, Seed, Stream, philox};
use veridical_features::{Cpu, FeatureMap, FeatureSpec, directions, sincos};

fn golden(name: &str) -> Value {
    let path = format!("{}/../../tests/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    serde_json::from_str(&text).unwrap()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("expected a list, got {value}"))
}

fn bits(value: &Value) -> u64 {
    u64::from_str_radix(value.as_str().unwrap(), 16).unwrap()
}

fn words<const N: usize>(value: &Value) -> [u32; N] {
    std::array::from_fn(|i| bits(&value[i]) as u32)
}

fn f32_bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}

fn golden_f32_bits(rows: &Value) -> Vec<u32> {
    list(rows).iter().flat_map(list).map(|x| bits(x) as u32).collect()
}

fn spec_of(case: &Value) -> FeatureSpec {
    FeatureSpec::from_json(&case["spec"].to_string()).unwrap()
}

#[test]
fn philox_known_answers() {
    for vector in list(&golden("philox.json")["vectors"]) {
        let got = philox::philox4x32_10(words(&vector["counter"]), words(&vector["key"]));
        assert_eq!(got, words(&vector["output"]));
    }
}

#[test]
fn streams_and_normals() {
    let file = golden("normals.json");
    for stream in list(&file["streams"]) {
        let seed = Seed::new(stream["seed"].as_u64().unwrap()).unwrap();
        let ours = Stream::new(seed, stream["name"].as_str().unwrap());
        assert_eq!(ours.key(), words(&stream["key"]));
        for vector in list(&stream["vectors"]) {
            let mut normals = [0.0; 16];
            ours.at(0, vector["j"].as_u64().unwrap()).fill_normals(&mut normals);
            let want: Vec<u64> = list(&vector["normals"]).iter().map(bits).collect();
            assert_eq!(normals.map(f64::to_bits).as_slice(), want);
        }
    }
}

#[test]
fn uniforms() {
    let block = &golden("normals.json")["block"];
    let seed = Seed::new(block["seed"].as_u64().unwrap()).unwrap();
    let place = Stream::new(seed, block["name"].as_str().unwrap()).at(0, 0);
    assert_eq!(words::<4>(&block["counter"]), [0; 4]);
    assert_eq!(place.words(0), words(&block["words"]));
    for i in 0..2 {
        assert_eq!(place.uniform(i).to_bits(), bits(&block["uniforms"][i as usize]));
    }
}

#[test]
fn directions_of_every_family_and_ids() {
    for case in list(&golden("directions.json")["cases"]) {
        let spec = spec_of(case);
        assert_eq!(spec.spec_id(), case["spec_id"]);
        assert_eq!(spec.directions_id(), case["directions_id"]);
        let got = f32_bits(&directions::matrix(&spec));
        assert_eq!(got, golden_f32_bits(&case["directions"]), "{}", case["spec"]);
    }
}

#[test]
fn phi_on_every_path() {
    for case in list(&golden("phi.json")["cases"]) {
        let spec = spec_of(case);
        let rows: Vec<f32> =
            golden_f32_bits(&case["rows"]).into_iter().map(f32::from_bits).collect();
        for cpu in [Cpu::Detected, Cpu::Portable] {
            let map = FeatureMap::with_cpu(&spec, cpu).unwrap();
            let got =
                f32_bits(&map.transform(Rows::new(&rows, spec.input_dim()).unwrap()).unwrap());
            assert_eq!(got, golden_f32_bits(&case["phi"]), "{cpu:?} {}", case["spec"]);
        }
    }
}

#[test]
fn quantiles() {
    for case in list(&golden("quantile.json")["cases"]) {
        let v = f64::from_bits(bits(&case["v"]));
        let got = veridical_core::elementary::normal_quantile(v);
        assert_eq!(got.to_bits(), bits(&case["quantile"]), "at {v:e}");
    }
}

#[test]
fn sine_and_cosine() {
    for case in list(&golden("sincos.json")["cases"]) {
        let a = f32::from_bits(bits(&case["a"]) as u32);
        let (sin, cos) = sincos(a);
        let want = (bits(&case["sin"]) as u32, bits(&case["cos"]) as u32);
        assert_eq!((sin.to_bits(), cos.to_bits()), want, "at {a:e}");
    }
}
