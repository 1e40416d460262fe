//! `veridical featurize export`

use std::fmt::Write as _;

use veridical::Result;
use veridical::featurize::{self, Export, ExportFormat, Exported};

use crate::flags::Flags;
use crate::terminal::Terminal;

pub const EXAMPLES: &str = "\
Examples:
  veridical featurize export --spec spec.json --out phi.onnx
  veridical featurize export --spec spec.json --to saved-model --out models/phi/1
  veridical featurize export --spec spec.json --output-dim 256 --out directions.safetensors
  veridical featurize export --spec spec.json --map map.safetensors --out align-then-phi.onnx
  veridical featurize export --spec spec.json --to conformance --out conformance

Models map `vector` (batch x d, f32) to `features` (batch x D, f32), for any batch size. ONNX is opset 17;
directions above 1 GiB go to a file beside the model (PATH.data). A SavedModel has the signature
`serving_default`. Numerical agreement with `featurize apply`, and how to serve the models: docs/serving.md.";

pub fn run(flags: Flags<Export>, terminal: &Terminal) -> Result<()> {
    let settings = flags.settings("featurize export")?;
    let exported = featurize::export(&settings, &terminal.job())?;
    terminal.result("featurize-export", &exported, &text(&exported))?;
    let spec = &settings.spec;
    terminal.next(&match exported.to {
        ExportFormat::Conformance => format!("cat {}/README.md", exported.out),
        _ => format!("veridical featurize export --spec {spec} --to conformance --out conformance"),
    });
    Ok(())
}

fn text(exported: &Exported) -> String {
    let Exported { to, files, spec, map, .. } = exported;
    let mut text = format!("{}, {} -> {}\n", to.name(), spec.input_dim, spec.output_dim);
    for file in files {
        let size = super::describe::bytes(usize::try_from(file.bytes).unwrap_or(usize::MAX));
        let _ = writeln!(text, "{} ({size})", file.path); // writing to a String cannot fail
    }
    let _ = writeln!(text, "spec {}", spec.spec_id);
    if let Some(map) = map {
        let how = if map.folded { "folded into the directions" } else { "applied before phi" };
        let _ = writeln!(text, "map {} ({how})", map.map_id);
    }
    text
}
