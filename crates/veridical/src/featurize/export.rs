//! `veridical featurize export`: the feature map of a spec as a model, its directions U, or conformance data.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use arrow_buffer::ScalarBuffer;
use serde::Serialize;
use serde_json::{Value, json};
use veridical_core::{Cancel, Error as Refusal, Job, Rows, Stream, choices, settings};
use veridical_data::Ids;
use veridical_features::{Directions, FeatureMap, FeatureSpec, Normalize, directions};
use veridical_io::models::{ModelMap, RowStep, Sums, onnx, saved_model, tensors};
use veridical_io::publish;
use veridical_io::{
    Dtype, IdKind, Input, Output, OutputSchema, Piece, Replace, Source, TableWriter, Vectors,
    WriteOptions,
};
use veridical_learn::LinearMap;

use super::{Description, describe, load_spec};
use crate::Result;
use crate::align::MapFile;

choices! {
    /// Format that a spec is exported to.
    pub enum ExportFormat {
        /// Model for ONNX Runtime and compatible runtimes
        Onnx = "onnx",
        /// Folder for TensorFlow and TensorFlow Serving
        SavedModel = "saved-model",
        /// Directions U
        Safetensors = "safetensors",
        /// Inputs, U and phi to test another implementation against
        Conformance = "conformance",
    }
}

impl ExportFormat {
    /// Returns the format implied by the file extension.
    fn from_extension(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "onnx" => Some(Self::Onnx),
            "safetensors" => Some(Self::Safetensors),
            _ => None,
        }
    }

    fn resolve(requested: Option<Self>, path: &Path) -> Result<Self> {
        match (requested, Self::from_extension(path)) {
            (Some(requested), Some(implied)) if requested != implied => Err(Refusal::request(
                format!(
                    "{}: ⟨to⟩ {} does not match this file extension",
                    path.display(),
                    requested.name()
                ),
                "choose another name or leave out ⟨to⟩",
            )
            .into()),
            (Some(format), _) | (None, Some(format)) => Ok(format),
            (None, None) => Err(Refusal::request(
                format!(
                    "{}: cannot infer the export format from the file extension",
                    path.display()
                ),
                "pass ⟨to⟩ onnx, saved-model, safetensors or conformance",
            )
            .into()),
        }
    }
}

settings! {
    /// Settings of [`export`].
    pub struct Export {
        /// Feature spec
        pub spec: Input = Input::default() => [required()],
        /// Export format
        pub to: Option<ExportFormat> = None
            => [value("FORMAT"), otherwise("by the file extension of PATH, .onnx or .safetensors")],
        /// File or folder to write
        pub out: Output = Output::default() => [required(), value("PATH")],
        /// Truncate phi to its first D coordinates, rescaled
        pub output_dim: Option<usize> = None => [value("D")],
        /// Map written by `align`, applied before phi; a rotation costs nothing
        pub map: Option<Input> = None,
        /// ONNX: always store the directions in a file next to the model
        pub external_data: bool = false => [switch()],
    } with {
        /// Whether an existing export is replaced.
        pub replace: Replace,
    }
}

/// Result of [`export`].
#[derive(Clone, Debug, Serialize)]
pub struct Exported {
    /// Export format.
    pub to: ExportFormat,
    /// File or folder that was written.
    pub out: String,
    /// The individual files.
    pub files: Vec<ExportedFile>,
    /// Description of the exported spec.
    pub spec: Description,
    /// Alignment map applied before phi, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub map: Option<ExportedMap>,
}

/// How an alignment map was exported.
#[derive(Clone, Debug, Serialize)]
pub struct ExportedMap {
    /// Id of the map.
    pub map_id: String,
    /// Whether it is folded into the directions, at no extra inference cost.
    pub folded: bool,
}

/// An exported file.
#[derive(Clone, Debug, Serialize)]
pub struct ExportedFile {
    /// Path of the file.
    pub path: String,
    /// Size in bytes.
    pub bytes: u64,
}

/// Exports the feature map of a spec for other runtimes.
///
/// # Errors
/// [`Refusal::Request`] if the format is ambiguous, [`crate::Error::Io`] if the output exists or cannot be written,
/// [`crate::Error::Features`] if the spec has no such prefix or no usable directions.
pub fn export(settings: &Export, job: &Job<'_>) -> Result<Exported> {
    let (out, force) = (&*settings.out, settings.replace.force);
    let spec = load_spec(&settings.spec)?;
    let map = settings.map.as_deref().map(|path| MapFile::load_noted(path, job)).transpose()?;
    let to = ExportFormat::resolve(settings.to, out)?;
    if settings.external_data && to != ExportFormat::Onnx {
        return Err(Refusal::request("⟨external-data⟩ is for ⟨to⟩ onnx", "").into());
    }
    let spec = match settings.output_dim {
        Some(output_dim) => spec.prefix(output_dim)?,
        None => spec,
    };
    let map = map.as_ref().map(|map| Before::of(map, &spec, to)).transpose()?;
    let (d, m) = (spec.input_dim(), spec.n_directions());
    let weights = if settings.external_data { onnx::Weights::Beside } else { onnx::Weights::Auto };
    match to {
        ExportFormat::Onnx => {
            publish::check_file(out, force)?;
            if onnx::is_beside(weights, d, m) {
                publish::check_file(&onnx::weights_path(out), force)?;
            }
        }
        ExportFormat::SavedModel => {
            saved_model::check_size(d, m)?;
            make_parent(out)?;
            publish::check_folder(out, force, &saved_model::NAMES)?;
        }
        ExportFormat::Safetensors => publish::check_file(out, force)?,
        ExportFormat::Conformance => {
            make_parent(out)?;
            publish::check_folder(out, force, &CONFORMANCE)?;
        }
    }
    let mut paths = vec![out.to_owned()];
    match to {
        ExportFormat::Onnx => paths = onnx::write(&model_map(&spec, map, job)?, out, weights)?,
        ExportFormat::SavedModel => saved_model::write(&model_map(&spec, map, job)?, out)?,
        ExportFormat::Safetensors => tensors::write(&model_map(&spec, map, job)?, out)?,
        ExportFormat::Conformance => conformance(&spec, out, job)?,
    }
    Ok(Exported {
        to,
        out: out.display().to_string(),
        files: files(paths)?,
        spec: describe(&spec),
        map: map.map(|map| ExportedMap { map_id: map.file.map_id(), folded: map.folded }),
    })
}

/// Creates the folders above an output folder: servers take models from folders of versions, such as `models/phi/1`.
fn make_parent(out: &Path) -> Result<()> {
    let parent = out.parent().filter(|parent| !parent.as_os_str().is_empty() && !parent.exists());
    let Some(parent) = parent else { return Ok(()) };
    fs::create_dir_all(parent).map_err(|e| {
        let what = format!("{}: cannot create the folder: {e}", parent.display());
        Refusal::missing(what, "").into()
    })
}

/// An alignment map before phi.
#[derive(Clone, Copy)]
struct Before<'a> {
    file: &'a MapFile,
    /// phi(hR; U) = phi(h; UR'): R commutes with `none` and `unit` normalization, not with the scaling of
    /// columns.
    folded: bool,
}

impl<'a> Before<'a> {
    fn of(file: &'a MapFile, spec: &FeatureSpec, to: ExportFormat) -> Result<Self> {
        let (gives, takes) = (file.map.output_dim(), spec.input_dim());
        if gives != takes {
            let what = format!(
                "the map returns vectors of dimension {gives} but the spec expects {takes}"
            );
            return Err(Refusal::shape(
                what,
                "use the spec of the reference that the map aligns to",
            )
            .into());
        }
        let columns_scaled = matches!(spec.normalize(), Normalize::Standardize { .. });
        let folded = file.map.is_rotation() && !columns_scaled;
        let refused = |what: &str, hint: &str| Err(Refusal::request(what, hint).into());
        match to {
            ExportFormat::Onnx | ExportFormat::SavedModel => {}
            ExportFormat::Conformance => {
                return refused(
                    "⟨map⟩ cannot be combined with ⟨to⟩ conformance, which tests phi alone",
                    "",
                );
            }
            ExportFormat::Safetensors if folded => {}
            ExportFormat::Safetensors => {
                return refused(
                    "this map cannot be folded into the directions (only a rotation can, under normalize none or \
                     unit)",
                    "export with ⟨to⟩ onnx or saved-model, which keep the map as a separate step",
                );
            }
        }
        Ok(Self { file, folded })
    }

    /// Computes U R': every direction rotated back.
    fn fold(self, directions: &[f32]) -> Vec<f32> {
        let LinearMap { from, matrix, to } = &self.file.map;
        let d = from.len();
        let transposed = (0..d * d).map(|at| matrix[at % d * d + at / d]).collect();
        LinearMap { from: to.clone(), matrix: transposed, to: from.clone() }.apply(directions)
    }
}

/// Lists every file at or below `waiting`, sorted by name.
fn files(mut waiting: Vec<PathBuf>) -> Result<Vec<ExportedFile>> {
    let mut found = Vec::new();
    while let Some(path) = waiting.pop() {
        let failed = |e| Refusal::unfit(format!("{}: cannot read: {e}", path.display()), "");
        let metadata = fs::metadata(&path).map_err(failed)?;
        if metadata.is_dir() {
            let entries = fs::read_dir(&path).map_err(failed)?;
            waiting.extend(entries.flatten().map(|entry| entry.path()));
        } else {
            found.push(ExportedFile { path: path.display().to_string(), bytes: metadata.len() });
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

fn model_map(spec: &FeatureSpec, map: Option<Before<'_>>, job: &Job<'_>) -> Result<ModelMap> {
    let u = directions::checked_matrix(spec)?;
    job.check()?;
    let (d, big_d) = (spec.input_dim(), spec.output_dim());
    let map_id = map.map(|map| map.file.map_id());
    let after = map_id.as_ref().map(|id| format!(" after map {id}")).unwrap_or_default();
    Ok(ModelMap {
        input_dim: d,
        before: map.filter(|map| !map.folded).map(|map| map.file.affine()),
        directions: match map.filter(|map| map.folded) {
            Some(map) => map.fold(&u),
            None => u,
        },
        map_id,
        sums: match spec.directions() {
            Directions::Hadamard => Sums::Tree,
            _ => Sums::Chain,
        },
        rows: match spec.normalize() {
            Normalize::None => RowStep::AsIs,
            Normalize::Unit => RowStep::Unit,
            Normalize::Standardize { means, deviations } => {
                RowStep::Standardize { means: means.clone(), deviations: deviations.clone() }
            }
        },
        spec: spec.to_json(),
        description: format!(
            "Random Fourier features, {} kernel, {d} -> {big_d}: spec {}{after}",
            spec.kernel().name(),
            spec.spec_id()
        ),
    })
}

// The conformance folder

/// Files in a conformance folder.
const CONFORMANCE: [&str; 8] = [
    "README.md",
    "spec.json",
    "inputs.npy",
    "inputs.json",
    "directions.npy",
    "directions.json",
    "phi.npy",
    "phi.json",
];
/// Number of random rows in it.
const RANDOM_ROWS: u64 = 8;
/// Maximum number of values in its JSON files: about two megabytes.
const JSON_VALUES: usize = 1 << 16;

fn conformance(spec: &FeatureSpec, out: &Path, job: &Job<'_>) -> Result<()> {
    let map = FeatureMap::new(spec)?;
    let (d, big_d) = (spec.input_dim(), spec.output_dim());
    let u = directions::matrix(spec);
    job.check()?;
    let mut names = Vec::new();
    let (mut inputs, mut phi) = (Vec::new(), Vec::new());
    for (name, row) in telling_rows(spec) {
        match map.transform(Rows::new(&row, d)?) {
            Ok(features) => {
                names.push(name);
                inputs.extend_from_slice(&row);
                phi.extend_from_slice(&features);
            }
            // Designed to reach the limits; with extreme settings in the spec it may overflow.
            Err(_) if !name.starts_with("normal") => {}
            Err(e) => return Err(e.into()),
        }
    }
    let tolerances = tolerances(spec, &u, &inputs)?;
    publish::folder(out, |folder| {
        publish::put(&folder.join("spec.json"), spec.to_json().as_bytes())?;
        for (name, dim, values) in
            [("inputs", d, inputs.clone()), ("directions", d, u), ("phi", big_d, phi)]
        {
            if values.len() <= JSON_VALUES {
                let mut document = document(name, dim, &values);
                if name != "directions" {
                    document["rows"] = json!(names);
                }
                if name == "phi" {
                    document["tolerances"] = json!(tolerances);
                }
                // INVARIANT: finite numbers and strings always serialize.
                let text = serde_json::to_string(&document).expect("a JSON value serializes");
                publish::put(&folder.join(format!("{name}.json")), (text + "\n").as_bytes())?;
            }
            save_npy(&folder.join(format!("{name}.npy")), dim, values)?;
        }
        let readme = readme(spec, &names, &tolerances);
        Ok(publish::put(&folder.join("README.md"), readme.as_bytes())?)
    })
}

/// Returns rows that expose typical mistakes of an implementation.
fn telling_rows(spec: &FeatureSpec) -> Vec<(String, Vec<f32>)> {
    let d = spec.input_dim();
    let unit = |k: usize| (0..d).map(|i| f32::from(u8::from(i == k))).collect::<Vec<f32>>();
    let normals = |row: u64| {
        let mut g = vec![0.0; d];
        Stream::new(spec.seed(), "conformance").at(0, row).fill_normals(&mut g);
        g
    };
    let scaled = |row: u64, factor: f64| {
        normals(row).iter().map(|g| (g * factor) as f32).collect::<Vec<f32>>()
    };
    let mut rows = vec![
        ("zero".to_owned(), vec![0.0; d]),
        ("first unit vector".into(), unit(0)),
        ("last unit vector".into(), unit(d - 1)),
        ("ones".into(), vec![1.0; d]),
    ];
    // Singles below 1e-38 are subnormal. Under `unit` both are rows like any other; else the huge one
    // has angles beyond 2^13, where sine and cosine are reduced exactly.
    let huge = if *spec.normalize() == Normalize::Unit { 1e30 } else { 1e5 * spec.length_scale() };
    rows.push(("tiny".into(), scaled(RANDOM_ROWS, 1e-40)));
    rows.push(("huge".into(), scaled(RANDOM_ROWS + 1, huge)));
    for j in 0..RANDOM_ROWS {
        let row = match spec.normalize() {
            Normalize::Standardize { means, deviations } => {
                let columns = means.iter().zip(deviations).zip(normals(j));
                columns.map(|((mean, deviation), g)| (mean + deviation * g) as f32).collect()
            }
            Normalize::None | Normalize::Unit => scaled(j, 1.0),
        };
        rows.push((format!("normal {j}"), row));
    }
    rows
}

/// Returns, per row, how far another summation order may deviate from phi: see the README of the folder.
fn tolerances(spec: &FeatureSpec, u: &[f32], inputs: &[f32]) -> Result<Vec<f64>> {
    let d = spec.input_dim();
    let c = 1.0 / (spec.n_directions() as f64).sqrt();
    let dot = |u: &[f32], y: &[f32]| -> f64 {
        u.iter().zip(y).map(|(&u, &y)| f64::from(u) * f64::from(y)).sum()
    };
    let rows = spec.normalize().rows(Rows::new(inputs, d)?)?;
    let angle = |y: &[f32]| u.chunks_exact(d).map(|u| dot(u, y).abs()).fold(0.0, f64::max);
    let tolerance = |a: f64| {
        let exact = c * (5.0 * (d as f64).sqrt() * 2f64.powi(-24) * a + 2f64.powi(-22));
        format!("{exact:.1e}").parse().unwrap_or(exact)
    };
    Ok(rows.chunks_exact(d).map(|y| tolerance(angle(y))).collect())
}

fn document(name: &str, dim: usize, values: &[f32]) -> Value {
    let bits = |row: &[f32]| -> Vec<String> {
        row.iter().map(|x| format!("{:08x}", x.to_bits())).collect()
    };
    let rows = values.chunks_exact(dim);
    json!({
        "schema": "veridical.conformance/1",
        "array": name,
        "shape": [rows.len(), dim],
        "values": rows.clone().collect::<Vec<_>>(),
        "bits": rows.map(bits).collect::<Vec<_>>(),
    })
}

fn save_npy(path: &Path, dim: usize, values: Vec<f32>) -> Result<()> {
    let schema = OutputSchema {
        dim,
        dtype: Dtype::F32,
        ids: IdKind::RowNumber,
        kept: Vec::new(),
        metadata: Vec::new(),
    };
    let output = Source::Path(path.to_owned());
    let mut writer = TableWriter::create(&output, schema, &WriteOptions::default(), Value::Null)?;
    let n_rows = values.len() / dim;
    let values = ScalarBuffer::from(values);
    let mut at = 0;
    while at < n_rows {
        let n = writer.cuts().next_rows().min(n_rows - at);
        writer.write(Piece {
            ids: Ids::Int((at as i64..(at + n) as i64).collect()),
            vectors: Vectors::F32(values.slice(at * dim, n * dim)),
            kept: Vec::new(),
            input_rows: (at + n) as u64,
        })?;
        at += n;
    }
    Ok(writer.finish(&Cancel::default())?)
}

fn readme(spec: &FeatureSpec, names: &[String], tolerances: &[f64]) -> String {
    let (d, big_d, m) = (spec.input_dim(), spec.output_dim(), spec.n_directions());
    let mut text = format!(
        "\
# Values to test another implementation against

The map of `spec.json` (spec id `{id}`): {d} -> {big_d}.

| file | shape | what |
|---|---|---|
| `inputs` | {n} x {d} | rows h |
| `directions` | {m} x {d} | U |
| `phi` | {n} x {big_d} | phi of the rows |

Each stands as `.npy` (little-endian f32) and, up to {JSON_VALUES} numbers, as `.json`: `values` are
decimals that read back as the same single, `bits` the IEEE bits of each single in hex. Larger arrays
have no `.json`.

## How to check

1. Rebuild U from `spec.json` as docs/format-spec.md of Veridical says: it must equal `directions` bit
   for bit. Or take `directions` as given.
2. Compute phi of `inputs`. An implementation that follows the page (one chain of f32 fused
   multiply-adds per direction, its sine and cosine) must equal `phi` bit for bit.
3. One that sums in another order, or takes another sine, must stay within the tolerance of the row:
   |difference| <= c (5 sqrt(d) 2^-24 A + 2^-22), with c = 1/sqrt(m) and A the largest |u.h| of the row:
   five standard deviations of d roundings of a sum of size A, and the last places of the sine.

`normal j` is drawn from stream `conformance` of the spec's seed: element i of row j has the counter
[i / 2, j, 0, 0]; under `standardize` it is scaled to the columns. `tiny` and `huge` are rows {t} and {h}
of the stream, scaled. Rows that this map refuses because they overflow are left out.

| row | name | tolerance |
|---|---|---|
",
        id = spec.spec_id(),
        n = names.len(),
        t = RANDOM_ROWS,
        h = RANDOM_ROWS + 1,
    );
    for (i, (name, tolerance)) in names.iter().zip(tolerances).enumerate() {
        let _ = writeln!(text, "| {i} | {name} | {tolerance:.1e} |"); // writing to a String cannot fail
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_extension_implies_the_format() {
        let resolve = |to, path: &str| ExportFormat::resolve(to, Path::new(path));
        assert_eq!(resolve(None, "a/phi.onnx").unwrap(), ExportFormat::Onnx);
        assert_eq!(resolve(None, "u.safetensors").unwrap(), ExportFormat::Safetensors);
        let to = Some(ExportFormat::Conformance);
        assert_eq!(resolve(to, "folder").unwrap(), ExportFormat::Conformance);
        assert!(resolve(to, "phi.onnx").is_err());
        assert!(resolve(None, "phi").is_err());
    }

    /// Angles of the huge row are beyond 2^13 without `unit`, where the format page has another rule.
    #[test]
    fn the_huge_row_reaches_the_exact_reduction() {
        for l in [0.01, 1.0, 50.0] {
            let spec = FeatureSpec::params(5, 16)
                .length_scale(l)
                .normalize(Normalize::None)
                .build()
                .unwrap();
            let (_, huge) =
                telling_rows(&spec).into_iter().find(|(name, _)| name == "huge").unwrap();
            let map = FeatureMap::new(&spec).unwrap();
            let seen = map.transform_into(Rows::new(&huge, 5).unwrap(), &mut [0.0; 16]).unwrap();
            assert!(seen.largest_projection > 8192.0, "{}", seen.largest_projection);
        }
    }
}
