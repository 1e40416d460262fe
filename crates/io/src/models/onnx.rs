//! ONNX: opset 17, IR version 8 (ONNX Runtime 1.12 and later).
//!
//! Input `vector` (batch x d, f32), output `features` (batch x D, f32), any batch. phi is one chain of
//! f32 fused multiply-adds per direction, so the graph is laid out for how the matrix product of ONNX
//! Runtime processes it on a CPU: an unbroken chain over up to 256 columns of a packed matrix, and over
//! up to 1,024 columns where the matrix is at most 16 wide and the batch has two rows or more. Up to
//! `PLAIN_COLUMNS` columns U is one matrix; above, it is split into groups of `GROUP` directions,
//! and a zero row is appended to the batch. The projections then have the same bits as ours for d up to 1,024.
//! Everywhere else the product is as accurate as its order of summation: a product in f64 would be
//! farther from our phi, whose own rounding it does not have. Hadamard projections are not chains but
//! trees of some thirty operations, nearly exact: for them the product is in f64.

use std::io::Write;
use std::path::{Path, PathBuf};

use prost::Message;

use super::onnx_messages::*;
use super::{Affine, INPUT, ModelMap, OUTPUT, RowStep, SQUARED_FLOOR, Sums};
use super::{doubles, put_singles, reciprocals, singles};
use crate::{Result, publish};

const IR_VERSION: i64 = 8;
const OPSET: i64 = 17;
/// Bytes of directions stored inside the model: half of the protobuf limit.
const INSIDE_LIMIT: usize = 1 << 30;
/// The widest rows that are projected by one matrix.
const PLAIN_COLUMNS: usize = 256;
/// Directions per group, for wider rows.
const GROUP: usize = 16;

/// Where the directions are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Weights {
    /// Inside the model up to a gibibyte, else in a separate file.
    #[default]
    Auto,
    /// In a separate file beside the model.
    Beside,
}

/// Returns the file of the directions of `model`, if they are not inside it.
pub fn weights_path(model: &Path) -> PathBuf {
    let mut name = model.file_name().unwrap_or_default().to_owned();
    name.push(".data");
    model.with_file_name(name)
}

/// Returns whether a map of m directions of width d has its directions in a separate file.
pub fn is_beside(weights: Weights, input_dim: usize, n_directions: usize) -> bool {
    let bytes = input_dim * n_directions * size_of::<f32>();
    weights == Weights::Beside || bytes > INSIDE_LIMIT
}

/// Writes `map`, the directions before the model that refers to them; returns the files.
///
/// # Errors
/// [`Error::Content`](crate::Error::Content) if writing fails.
pub fn write(map: &ModelMap, path: &Path, weights: Weights) -> Result<Vec<PathBuf>> {
    let layout = Layout::of(map);
    let mut written = Vec::new();
    let mut directions = Tensor { dims: layout.dims(), ..tensor("directions", FLOAT) };
    if is_beside(weights, map.input_dim, map.n_directions()) {
        let beside = weights_path(path);
        let len = publish::file(&beside, |out| layout.put(&map.directions, out))?;
        let location = beside.file_name().unwrap_or_default().to_string_lossy().into_owned();
        directions.external_data = vec![
            entry("location", &location),
            entry("offset", "0"),
            entry("length", &len.to_string()),
        ];
        directions.data_location = Some(EXTERNAL);
        written.push(beside);
    } else {
        let mut bytes = Vec::with_capacity(layout.n_values() * size_of::<f32>());
        // INVARIANT: a Vec takes every write.
        layout.put(&map.directions, &mut bytes).expect("memory takes every write");
        directions.raw_data = Some(bytes);
    }
    let model = model(map, layout, directions).encode_to_vec();
    publish::put(path, &model)?;
    written.push(path.to_owned());
    Ok(written)
}

/// The layout of U in the model.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Layout {
    /// m x d, unchanged.
    Plain { m: usize, d: usize },
    /// groups x d x 16, the last group padded with zeros.
    Grouped { m: usize, d: usize },
}

impl Layout {
    fn of(map: &ModelMap) -> Self {
        let (d, m) = (map.input_dim, map.n_directions());
        let plain = d <= PLAIN_COLUMNS || map.sums == Sums::Tree;
        if plain { Self::Plain { m, d } } else { Self::Grouped { m, d } }
    }

    fn dims(self) -> Vec<i64> {
        match self {
            Self::Plain { m, d } => vec![m as i64, d as i64],
            Self::Grouped { m, d } => vec![m.div_ceil(GROUP) as i64, d as i64, GROUP as i64],
        }
    }

    fn n_values(self) -> usize {
        self.dims().iter().map(|&n| n as usize).product()
    }

    fn put(self, u: &[f32], out: &mut impl Write) -> std::io::Result<()> {
        let d = match self {
            Self::Plain { .. } => return put_singles(out, u),
            Self::Grouped { d, .. } => d,
        };
        let mut group = vec![0.0; d * GROUP];
        for rows in u.chunks(d * GROUP) {
            group.fill(0.0);
            for (j, row) in rows.chunks_exact(d).enumerate() {
                for (k, &value) in row.iter().enumerate() {
                    group[k * GROUP + j] = value;
                }
            }
            put_singles(out, &group)?;
        }
        Ok(())
    }
}

fn model(map: &ModelMap, layout: Layout, directions: Tensor) -> Model {
    let mut graph = Builder { d: map.input_dim as i64, ..Builder::default() };
    graph.initializers.push(directions);
    let x = map.before.as_ref().map_or(INPUT, |before| graph.align(before));
    let y = graph.normalize(x, &map.rows);
    let a = match map.sums {
        Sums::Chain => graph.project(y, layout),
        Sums::Tree => graph.project_exactly(y),
    };
    graph.features(&a, map);
    let mut metadata = vec![entry("veridical.spec", &map.spec)];
    metadata.extend(map.map_id.as_ref().map(|id| entry("veridical.map_id", id)));
    let (input, output) = (map.row_dim(), map.output_dim());
    graph.model("phi", &map.description, input, value_info(OUTPUT, output), metadata)
}

/// Writes an affine map alone: input `vector`, output `aligned`, in f64 and rounded once.
///
/// # Errors
/// [`Error::Content`](crate::Error::Content) if writing fails.
pub fn write_affine(map: &Affine, map_id: &str, path: &Path) -> Result<()> {
    let mut graph = Builder::default();
    let out = graph.align(map);
    let (input, output) = (map.from.len(), map.to.len());
    let description = format!("Alignment of rows, {input} -> {output}: map {map_id}");
    let metadata = vec![entry("veridical.map_id", map_id)];
    let model = graph.model("align", &description, input, value_info(out, output), metadata);
    publish::put(path, &model.encode_to_vec())
}

#[derive(Default)]
struct Builder {
    d: i64,
    nodes: Vec<Node>,
    initializers: Vec<Tensor>,
}

impl Builder {
    /// The graph as a model.
    fn model(
        self,
        name: &str,
        description: &str,
        input_dim: usize,
        output: ValueInfo,
        metadata_props: Vec<Entry>,
    ) -> Model {
        Model {
            ir_version: IR_VERSION,
            producer_name: "veridical".into(),
            producer_version: env!("CARGO_PKG_VERSION").into(),
            doc_string: description.to_owned(),
            graph: Some(Graph {
                node: self.nodes,
                name: name.into(),
                initializer: self.initializers,
                input: vec![value_info(INPUT, input_dim)],
                output: vec![output],
            }),
            opset_import: vec![OperatorSet { domain: String::new(), version: OPSET }],
            metadata_props,
        }
    }

    /// Adds an operation; its output has the name of the node.
    fn op(&mut self, name: &str, op_type: &str, inputs: &[&str], attribute: Vec<Attribute>) {
        self.nodes.push(Node {
            input: inputs.iter().map(|&name| name.to_owned()).collect(),
            output: vec![name.to_owned()],
            name: name.to_owned(),
            op_type: op_type.to_owned(),
            attribute,
        });
    }

    fn cast(&mut self, name: &str, input: &str, to: i32) {
        self.op(name, "Cast", &[input], vec![Attribute::int("to", to.into())]);
    }

    fn integers(&mut self, name: &str, values: &[i64]) {
        let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        self.initializers.push(Tensor {
            dims: vec![values.len() as i64],
            raw_data: Some(bytes),
            ..tensor(name, INT64)
        });
    }

    fn doubles(&mut self, name: &str, values: &[f64]) {
        self.double_matrix(name, &[values.len()], values);
    }

    fn double_matrix(&mut self, name: &str, dims: &[usize], values: &[f64]) {
        self.initializers.push(Tensor {
            dims: dims.iter().map(|&n| n as i64).collect(),
            raw_data: Some(doubles(values)),
            ..tensor(name, DOUBLE)
        });
    }

    /// The name of the mapped rows.
    fn align(&mut self, map: &Affine) -> &'static str {
        self.doubles("map_from", &map.from);
        self.double_matrix("map_matrix", &[map.from.len(), map.to.len()], &map.matrix);
        self.doubles("map_to", &map.to);
        self.cast("unaligned_f64", INPUT, DOUBLE);
        self.op("shifted", "Sub", &["unaligned_f64", "map_from"], vec![]);
        self.op("turned", "MatMul", &["shifted", "map_matrix"], vec![]);
        self.op("aligned_f64", "Add", &["turned", "map_to"], vec![]);
        self.cast("aligned", "aligned_f64", FLOAT);
        "aligned"
    }

    /// The name of the normalized rows.
    fn normalize(&mut self, x: &'static str, rows: &RowStep) -> &'static str {
        if *rows == RowStep::AsIs {
            return x;
        }
        self.cast("vector_f64", x, DOUBLE);
        match rows {
            RowStep::AsIs => {}
            RowStep::Unit => {
                self.doubles("floor", &[SQUARED_FLOOR]);
                self.doubles("one", &[1.0]);
                let axes = vec![Attribute::ints("axes", &[1]), Attribute::int("keepdims", 1)];
                self.op("squared", "ReduceSumSquare", &["vector_f64"], axes);
                self.op("squared_floored", "Max", &["squared", "floor"], vec![]);
                self.op("norm", "Sqrt", &["squared_floored"], vec![]);
                self.op("inverse", "Div", &["one", "norm"], vec![]);
                self.op("normalized_f64", "Mul", &["vector_f64", "inverse"], vec![]);
            }
            RowStep::Standardize { means, deviations } => {
                self.doubles("means", means);
                self.doubles("inverse_deviations", &reciprocals(deviations));
                self.op("centred", "Sub", &["vector_f64", "means"], vec![]);
                self.op("normalized_f64", "Mul", &["centred", "inverse_deviations"], vec![]);
            }
        }
        self.cast("normalized", "normalized_f64", FLOAT);
        "normalized"
    }

    /// The name of the projections of the rows `y`, batch x m.
    fn project(&mut self, y: &str, layout: Layout) -> String {
        let m = match layout {
            Layout::Plain { .. } => {
                let transposed = vec![Attribute::int("transB", 1)];
                self.op("projections", "Gemm", &[y, "directions"], transposed);
                return "projections".into();
            }
            Layout::Grouped { m, .. } => m,
        };
        let padded = m.next_multiple_of(GROUP) as i64;
        self.initializers.push(Tensor {
            dims: vec![1, self.d],
            raw_data: Some(vec![0; self.d as usize * size_of::<f32>()]),
            ..tensor("zero_row", FLOAT)
        });
        self.op("two_rows", "Concat", &[y, "zero_row"], vec![Attribute::int("axis", 0)]);
        self.op("groups_and_zero", "MatMul", &["two_rows", "directions"], vec![]);
        self.integers("start", &[0]);
        self.integers("before_last", &[-1]);
        self.integers("axis_1", &[1]);
        let slice = ["groups_and_zero", "start", "before_last", "axis_1"];
        self.op("groups", "Slice", &slice, vec![]);
        let rows_first = vec![Attribute::ints("perm", &[1, 0, 2])];
        self.op("rows_first", "Transpose", &["groups"], rows_first);
        self.integers("projections_shape", &[0, padded]);
        self.op("projections", "Reshape", &["rows_first", "projections_shape"], vec![]);
        if padded == m as i64 {
            return "projections".into();
        }
        self.integers("n_directions", &[m as i64]);
        let slice = ["projections", "start", "n_directions", "axis_1"];
        self.op("true_projections", "Slice", &slice, vec![]);
        "true_projections".into()
    }

    /// [`project`](Self::project) in f64, rounded once.
    fn project_exactly(&mut self, y: &str) -> String {
        self.cast("y_f64", y, DOUBLE);
        self.cast("directions_f64", "directions", DOUBLE);
        let transposed = vec![Attribute::int("transB", 1)];
        self.op("projections_f64", "Gemm", &["y_f64", "directions_f64"], transposed);
        self.cast("projections", "projections_f64", FLOAT);
        "projections".into()
    }

    fn features(&mut self, a: &str, map: &ModelMap) {
        self.integers("axis_2", &[2]);
        for (function, name, column) in [("Cos", "cos", "cos_column"), ("Sin", "sin", "sin_column")]
        {
            self.op(name, function, &[a], vec![]);
            self.op(column, "Unsqueeze", &[name, "axis_2"], vec![]);
        }
        let pairs = vec![Attribute::int("axis", 2)];
        self.op("pairs", "Concat", &["cos_column", "sin_column"], pairs);
        self.integers("features_shape", &[0, map.output_dim() as i64]);
        self.op("interleaved", "Reshape", &["pairs", "features_shape"], vec![]);
        self.initializers
            .push(Tensor { raw_data: Some(singles(&[map.scale()])), ..tensor("scale", FLOAT) });
        self.op(OUTPUT, "Mul", &["interleaved", "scale"], vec![]);
    }
}

fn tensor(name: &str, data_type: i32) -> Tensor {
    Tensor { name: name.into(), data_type, ..Tensor::default() }
}

fn entry(key: &str, value: &str) -> Entry {
    Entry { key: key.into(), value: value.into() }
}

/// A table of f32 values with any number of rows.
fn value_info(name: &str, width: usize) -> ValueInfo {
    let dim = vec![
        Dimension { value: None, param: Some("batch".into()) },
        Dimension { value: Some(width as i64), param: None },
    ];
    let tensor_type = Some(TensorType { elem_type: FLOAT, shape: Some(Shape { dim }) });
    ValueInfo { name: name.into(), kind: Some(Type { tensor_type }) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::example;
    use super::*;

    fn written(map: &ModelMap, weights: Weights) -> (Model, Vec<Vec<u8>>) {
        let dir = tempfile::tempdir().unwrap();
        let files = write(map, &dir.path().join("phi.onnx"), weights).unwrap();
        let bytes: Vec<Vec<u8>> = files.iter().map(|path| std::fs::read(path).unwrap()).collect();
        (Model::decode(&bytes[bytes.len() - 1][..]).unwrap(), bytes)
    }

    fn directions(model: &Model) -> &Tensor {
        let initializers = &model.graph.as_ref().unwrap().initializer;
        initializers.iter().find(|tensor| tensor.name == "directions").unwrap()
    }

    fn every_row_step(d: usize) -> [RowStep; 3] {
        let standardize = RowStep::Standardize { means: vec![0.5; d], deviations: vec![2.0; d] };
        [RowStep::AsIs, RowStep::Unit, standardize]
    }

    #[test]
    fn the_bytes_decode_to_the_model_and_are_the_same_every_time() {
        let map = example(3, 2, RowStep::Unit);
        let (model, bytes) = written(&map, Weights::Auto);
        assert_eq!(bytes, written(&map, Weights::Auto).1);
        assert_eq!((model.ir_version, model.opset_import[0].version), (8, 17));
        assert_eq!(model.producer_name, "veridical");
        assert_eq!(model.metadata_props, [entry("veridical.spec", "{}")]);
        let graph = model.graph.as_ref().unwrap();
        assert_eq!(graph.input, [value_info("vector", 3)]);
        assert_eq!(graph.output, [value_info("features", 4)]);
        assert_eq!(directions(&model).dims, [2, 3]);
        assert_eq!(directions(&model).raw_data, Some(singles(&map.directions)));
    }

    /// What a checker verifies: every input is defined before it is used, and every name only once.
    #[test]
    fn every_graph_is_connected_and_ends_in_the_features() {
        for (d, m) in [(3, 2), (256, 5), (257, 16), (257, 17)] {
            for rows in every_row_step(d) {
                let graph = written(&example(d, m, rows), Weights::Auto).0.graph.unwrap();
                let mut known: BTreeSet<&str> =
                    graph.initializer.iter().map(|tensor| tensor.name.as_str()).collect();
                assert_eq!(known.len(), graph.initializer.len());
                known.insert(INPUT);
                for node in &graph.node {
                    for input in &node.input {
                        assert!(known.contains(input.as_str()), "{} lacks {input}", node.name);
                    }
                    assert!(known.insert(&node.output[0]), "{} twice", node.name);
                }
                assert_eq!(graph.node.last().unwrap().output, [OUTPUT]);
            }
        }
    }

    #[test]
    fn wide_directions_are_in_groups_padded_with_zeros() {
        let map = example(300, 17, RowStep::AsIs);
        let model = written(&map, Weights::Auto).0;
        let tensor = directions(&model);
        assert_eq!(tensor.dims, [2, 300, 16]);
        let bytes = tensor.raw_data.as_ref().unwrap();
        let at = |group: usize, k: usize, j: usize| {
            let i = 4 * ((group * 300 + k) * 16 + j);
            f32::from_le_bytes(bytes[i..i + 4].try_into().unwrap())
        };
        assert_eq!(at(0, 7, 3), map.directions[3 * 300 + 7]);
        assert_eq!(at(1, 299, 0), map.directions[16 * 300 + 299]);
        assert_eq!(at(1, 299, 1), 0.0);
    }

    #[test]
    fn directions_beside_the_model_have_the_bytes_of_those_inside() {
        for d in [3, 300] {
            let map = example(d, 20, RowStep::Unit);
            let (inside, _) = written(&map, Weights::Auto);
            let (beside, files) = written(&map, Weights::Beside);
            assert_eq!(Some(&files[0]), directions(&inside).raw_data.as_ref());
            let tensor = directions(&beside);
            assert_eq!((tensor.data_location, &tensor.raw_data), (Some(EXTERNAL), &None));
            assert_eq!(tensor.dims, directions(&inside).dims);
            let length = files[0].len().to_string();
            let want = [("location", "phi.onnx.data"), ("offset", "0"), ("length", &length)];
            assert_eq!(tensor.external_data, want.map(|(key, value)| entry(key, value)));
        }
    }

    #[test]
    fn directions_above_a_gibibyte_go_beside_the_model() {
        assert!(!is_beside(Weights::Auto, 256, 1 << 20));
        assert!(is_beside(Weights::Auto, 256, (1 << 20) + 1));
        assert!(is_beside(Weights::Auto, 1 << 20, 257));
        assert!(is_beside(Weights::Beside, 1, 1));
    }
}
