//! `veridical featurize new`

use serde_json::json;
use veridical::Result;
use veridical::core::Observer;
use veridical::featurize::{self, WriteSpec};

use super::describe;
use crate::flags::Flags;
use crate::terminal::Terminal;

pub const EXAMPLES: &str = "\
Examples:
  veridical featurize new --input-dim 128 --output-dim 512 --seed 7 --out spec.json
  veridical featurize new --data items.parquet --length-scale median --out spec.json
  veridical featurize new --input-dim 64 --gamma 0.5 --directions iid --out spec.json
  veridical featurize new --data items.npy --output-dim 4096 --directions hadamard --out spec.json
  veridical featurize new --data items.npy --kernel matern-3/2 --out spec.json
  veridical featurize new --data items.npy --mixture 0.5:1,1:1,2:1 --out spec.json

`median` and `sklearn-gamma-scale` read the table once and store the resulting number in the spec.";

pub fn run(flags: Flags<WriteSpec>, terminal: &Terminal) -> Result<()> {
    let settings = flags.settings("featurize new")?;
    let spec = featurize::new_spec_observed(&settings.spec, &terminal.job())?;
    featurize::save_spec(&spec, &settings.out, settings.replace.force)?;
    let out = &settings.out;
    terminal.note(&format!("wrote {out}"));
    let result = json!({ "out": out, "spec": featurize::describe(&spec) });
    terminal.result("featurize-new", &result, &describe::text(&spec))?;
    terminal.next(&format!("veridical featurize apply --spec {out} INPUT OUTPUT"));
    Ok(())
}
