//! `veridical featurize new`

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use veridical::data::Source;
use veridical::featurize::{self, NewSpec};
use veridical::{Observer, Result};

use super::describe;
use super::map::MapArgs;
use crate::args::ReadArgs;
use crate::terminal::Terminal;

const NEW_EXAMPLES: &str = "\
Examples:
  veridical featurize new --input-dim 128 --output-dim 512 --seed 7 --out spec.json
  veridical featurize new --data items.parquet --length-scale median --out spec.json
  veridical featurize new --input-dim 64 --gamma 0.5 --directions iid --out spec.json
  veridical featurize new --data items.npy --output-dim 4096 --directions hadamard --out spec.json
  veridical featurize new --data items.npy --kernel matern-3/2 --out spec.json
  veridical featurize new --data items.npy --mixture 0.5:1,1:1,2:1 --out spec.json

`median` and `sklearn-gamma-scale` look at the table once and write a number into the spec.";

#[derive(Args, Debug)]
#[command(after_help = NEW_EXAMPLES)]
pub struct New {
    /// Width of the vectors; taken from --data if that is given
    #[arg(long, value_name = "d")]
    input_dim: Option<usize>,
    /// Width of phi, even: a cosine and a sine for each direction [default: 4 d]
    #[arg(long, value_name = "D")]
    output_dim: Option<usize>,
    #[command(flatten)]
    map: MapArgs,
    /// Table for the rules that look at data
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// Where to write the spec
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Replace a spec that is there
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    read: ReadArgs,
}

impl New {
    pub fn run(self, terminal: &Terminal) -> Result<()> {
        let spec = featurize::new_spec_observed(
            &NewSpec {
                input_dim: self.input_dim,
                output_dim: self.output_dim,
                data: self.data.as_ref().map(Source::from_arg),
                read: self.read.options(),
                ..self.map.settings(self.data.is_some())
            },
            terminal,
        )?;
        featurize::save_spec(&spec, &self.out, self.force)?;
        let out = self.out.display();
        terminal.note(&format!("wrote {out}"));
        let result =
            json!({ "action": "new", "out": out.to_string(), "spec": featurize::describe(&spec) });
        terminal.result("featurize", &result, &describe::text(&spec))?;
        terminal.next(&format!("veridical featurize apply --spec {out} INPUT OUTPUT"));
        Ok(())
    }
}
