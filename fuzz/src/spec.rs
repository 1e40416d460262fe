//! The parser of feature specs, and the transform of whatever it accepts.
//!
//! An accepted spec, written and read again, is the same spec with the same ids; its prefix has the
//! same directions; and phi of ordinary rows is finite and not longer than 1.
//!
//! Nearly every mutation invalidates the ids, which depend on all other fields: they are repaired, so that
//! the fields are tested too.

use veridical_core::Rows;
use veridical_features::{Error, FeatureMap, FeatureSpec};

use crate::{Outcome, words};

/// The maximum m d of the maps that are built.
const ELEMENTS: usize = 1 << 14;

pub(crate) fn run(bytes: &[u8]) -> Outcome {
    let Ok(text) = std::str::from_utf8(bytes) else { return "not text".into() };
    let mut text = text.to_owned();
    for _ in 0..3 {
        match FeatureSpec::from_json(&text) {
            Ok(spec) => return check(&spec),
            Err(Error::Id { stated, computed, .. }) if !stated.is_empty() => {
                text = text.replace(&stated, &computed);
            }
            Err(error) => return words(&error.to_string()),
        }
    }
    "the ids are beyond repair".into()
}

fn check(spec: &FeatureSpec) -> Outcome {
    let again = FeatureSpec::from_json(&spec.to_json()).expect("a written spec can be read");
    assert_eq!(again, *spec);
    let prefix = spec.prefix(2).expect("every spec has a direction");
    assert_eq!(prefix.directions_id(), spec.directions_id());

    let (d, width) = (spec.input_dim(), spec.output_dim());
    if d * spec.n_directions() > ELEMENTS {
        return "a large spec".into();
    }
    let map = match FeatureMap::new(spec) {
        Ok(map) => map,
        Err(error) => return words(&error.to_string()),
    };
    let rows: Vec<f32> = (0..3 * d).map(|i| ((i * 37 % 101) as f32 - 50.0) / 25.0).collect();
    let phi = match map.transform(Rows::new(&rows, d).expect("three whole rows")) {
        Ok(phi) => phi,
        Err(Error::TooLarge { .. }) => return "too large".into(),
        // Extreme means or deviations move an ordinary row out of the range of f32.
        Err(Error::Normalization { .. }) => return "not finite".into(),
        Err(error) => panic!("ordinary rows are refused: {error}"),
    };
    assert_eq!(phi.len(), 3 * width);
    for row in phi.chunks_exact(width) {
        let square: f64 = row.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
        // cos^2 + sin^2 = 1 for every direction, and 1e-5 is 80 roundings of f32.
        assert!((square - 1.0).abs() < 1e-5, "|phi|^2 = {square}");
    }
    "a map".into()
}
