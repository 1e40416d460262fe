//! `veridical featurize export`

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::json;
use veridical::Result;
use veridical::align::MapFile;
use veridical::featurize::{self, Export, ExportFormat, Exported};

use crate::terminal::Terminal;

const EXAMPLES: &str = "\
Examples:
  veridical featurize export --spec spec.json --out phi.onnx
  veridical featurize export --spec spec.json --to saved-model --out models/phi/1
  veridical featurize export --spec spec.json --output-dim 256 --out directions.safetensors
  veridical featurize export --spec spec.json --map map.safetensors --out align-then-phi.onnx
  veridical featurize export --spec spec.json --to conformance --out conformance

Models take `vector` (batch x d, f32) and give `features` (batch x D, f32), any batch. ONNX is opset 17;
directions above 1 GiB go to a file beside the model (PATH.data). A SavedModel has the signature
`serving_default`. How close they are to `featurize apply`, and how to serve them: docs/serving.md.";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ExportArgs {
    /// The spec
    #[arg(long, value_name = "FILE")]
    spec: PathBuf,
    /// What to write [default: by the ending of PATH, .onnx or .safetensors]
    #[arg(long, value_enum, value_name = "FORMAT")]
    to: Option<To>,
    /// The file or folder to write
    #[arg(long, value_name = "PATH")]
    out: PathBuf,
    /// Cut phi to its first D coordinates, rescaled
    #[arg(long, value_name = "D")]
    output_dim: Option<usize>,
    /// Map that rows go through first, as `align` writes it; a rotation costs nothing
    #[arg(long, value_name = "FILE")]
    map: Option<PathBuf>,
    /// ONNX: keep the directions in a file beside the model, whatever their size
    #[arg(long)]
    external_data: bool,
    /// Replace an earlier export
    #[arg(long)]
    force: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum To {
    /// A model for ONNX Runtime and others
    Onnx,
    /// A folder for TensorFlow and TensorFlow Serving
    SavedModel,
    /// The directions U
    Safetensors,
    /// Rows, U and phi to test another implementation against
    Conformance,
}

impl To {
    fn format(self) -> ExportFormat {
        match self {
            Self::Onnx => ExportFormat::Onnx,
            Self::SavedModel => ExportFormat::SavedModel,
            Self::Safetensors => ExportFormat::Safetensors,
            Self::Conformance => ExportFormat::Conformance,
        }
    }
}

impl ExportArgs {
    pub fn run(self, terminal: &Terminal) -> Result<()> {
        let exported = featurize::export(&Export {
            spec: featurize::load_spec(&self.spec)?,
            to: self.to.map(To::format),
            out: self.out,
            output_dim: self.output_dim,
            map: self.map.as_deref().map(MapFile::load).transpose()?,
            external_data: self.external_data,
            force: self.force,
        })?;
        let result = json!({ "action": "export", "result": exported });
        terminal.result("featurize", &result, &text(&exported))?;
        let spec = self.spec.display();
        terminal.next(&match exported.to {
            ExportFormat::Conformance => format!("cat {}/README.md", exported.out),
            _ => format!(
                "veridical featurize export --spec {spec} --to conformance --out conformance"
            ),
        });
        Ok(())
    }
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
        let how = if map.folded { "folded into the directions" } else { "a step before phi" };
        let _ = writeln!(text, "map {} ({how})", map.map_id);
    }
    text
}
