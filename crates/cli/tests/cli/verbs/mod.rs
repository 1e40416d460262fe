//! Behavior and output of every verb.

mod featurize;
mod help;
mod reading;
mod vectors;

use serde_json::Value;
use veridical_data::{Ids, VectorTable};

use crate::common::*;

/// 200 rows of dimension 5 with lengths that vary.
fn items() -> VectorTable {
    let mut table = named_rows(200, 5);
    for (r, row) in table.vectors.chunks_exact_mut(5).enumerate() {
        row.iter_mut().for_each(|x| *x *= 1.0 + (r % 7) as f32);
    }
    table
}

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.put_table("t.parquet", &items());
    sandbox
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Population variance, as NumPy's.
fn variance(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / values.len() as f64
}

#[track_caller]
fn assert_close(got: &Value, want: f64, tolerance: f64) {
    let got = got.as_f64().unwrap();
    assert!((got - want).abs() <= tolerance * want.abs().max(1.0), "got {got}, want {want}");
}
