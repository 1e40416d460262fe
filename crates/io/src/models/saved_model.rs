//! TensorFlow SavedModel, written without TensorFlow.
//!
//! saved_model.pb           tag `serve`, signature `serving_default`: `vector` [?, d] -> `features`
//!                          [?, D], the directions inside as a constant
//! assets.extra/spec.json   the spec; TensorFlow leaves this folder to its users
//! variables/               empty: there are no variables, and some tools look for the folder
//!
//! A protobuf is limited to 2 GiB, and so is the map.

use std::path::Path;

use prost::Message;
use veridical_core::Error as Core;

use super::saved_model_messages::*;
use super::{Affine, INPUT, ModelMap, OUTPUT, RowStep, SQUARED_FLOOR, Sums};
use super::{doubles, reciprocals, singles};
use crate::{Result, publish};

/// The entries of the folder.
pub const NAMES: [&str; 3] = ["saved_model.pb", "assets.extra", "variables"];
/// Bytes of directions that fit in a protobuf, with a margin for the rest.
const LIMIT: usize = (1 << 31) - (64 << 20);
/// The graph version that TensorFlow 2.6 wrote.
const PRODUCER: i32 = 808;

/// Rejects a map that is too large for a protobuf.
///
/// # Errors
/// [`veridical_core::Error::Request`] names the limit and the alternatives.
pub fn check_size(input_dim: usize, n_directions: usize) -> Result<()> {
    let bytes = input_dim * n_directions * size_of::<f32>();
    if bytes <= LIMIT {
        return Ok(());
    }
    let what = format!("the directions take {bytes} bytes and a SavedModel holds at most 2 GiB");
    let hint = "export with ⟨to⟩ onnx, which keeps them in a file beside the model, or cut phi with ⟨output-dim⟩";
    Err(Core::request(what, hint).into())
}

/// Writes the folder of `map`.
///
/// # Errors
/// [`crate::Error::Content`] if writing fails.
pub fn write(map: &ModelMap, path: &Path) -> Result<()> {
    let model = model(map).encode_to_vec();
    publish::folder(path, |folder| {
        for name in &NAMES[1..] {
            publish::subfolder(&folder.join(name))?;
        }
        publish::put(&folder.join("assets.extra/spec.json"), map.spec.as_bytes())?;
        publish::put(&folder.join("saved_model.pb"), &model)
    })
}

fn model(map: &ModelMap) -> SavedModel {
    let mut graph = Builder::default();
    graph.placeholder(map.row_dim());
    let x = map.before.as_ref().map_or(INPUT, |before| graph.align(before));
    let y = graph.normalize(x, &map.rows, map.input_dim);
    graph.features(y, map);
    let info = |name: &str, width: usize| {
        let shape = Some(Shape::of(&[-1, width as i64]));
        (name.to_owned(), TensorInfo { name: format!("{name}:0"), dtype: FLOAT, shape })
    };
    let signature = Signature {
        inputs: [info(INPUT, map.row_dim())].into(),
        outputs: [info(OUTPUT, map.output_dim())].into(),
        method_name: "tensorflow/serving/predict".into(),
    };
    let meta_info = MetaInfo {
        meta_graph_version: concat!("veridical ", env!("CARGO_PKG_VERSION")).into(),
        tags: vec!["serve".into()],
        tensorflow_version: "2.6.0".into(),
    };
    let graph = Graph { nodes: graph.nodes, versions: Some(Versions { producer: PRODUCER }) };
    let meta_graph = MetaGraph {
        meta_info: Some(meta_info),
        graph: Some(graph),
        signatures: [("serving_default".to_owned(), signature)].into(),
    };
    SavedModel { schema_version: 1, meta_graphs: vec![meta_graph] }
}

#[derive(Default)]
struct Builder {
    nodes: Vec<Node>,
}

impl Builder {
    fn op(&mut self, name: &str, op: &str, inputs: &[&str], attributes: &[(&str, Value)]) {
        let attribute = |(name, value): &(&str, Value)| {
            ((*name).to_owned(), Attribute { value: Some(value.clone()) })
        };
        self.nodes.push(Node {
            name: name.into(),
            op: op.into(),
            inputs: inputs.iter().map(|&name| name.to_owned()).collect(),
            attributes: attributes.iter().map(attribute).collect(),
        });
    }

    /// An operation on values of one type.
    fn on(&mut self, dtype: i32, name: &str, op: &str, inputs: &[&str]) {
        self.op(name, op, inputs, &[("T", Value::Type(dtype))]);
    }

    fn cast(&mut self, name: &str, input: &str, from: i32, to: i32) {
        let types = [("SrcT", Value::Type(from)), ("DstT", Value::Type(to))];
        self.op(name, "Cast", &[input], &types);
    }

    fn constant(&mut self, name: &str, dtype: i32, dims: &[i64], content: Vec<u8>) {
        let tensor = Tensor { dtype, shape: Some(Shape::of(dims)), content };
        let value = Attribute { value: Some(Value::Tensor(tensor)) };
        let dtype = Attribute { value: Some(Value::Type(dtype)) };
        self.nodes.push(Node {
            name: name.into(),
            op: "Const".into(),
            inputs: Vec::new(),
            attributes: [("dtype".into(), dtype), ("value".into(), value)].into(),
        });
    }

    fn placeholder(&mut self, d: usize) {
        let shape = Shape::of(&[-1, d as i64]);
        let attributes = [("dtype", Value::Type(FLOAT)), ("shape", Value::Shape(shape))];
        self.op(INPUT, "Placeholder", &[], &attributes);
    }

    /// The name of the mapped rows.
    fn align(&mut self, map: &Affine) -> &'static str {
        let [from, to] = [map.from.len() as i64, map.to.len() as i64];
        self.constant("map_from", DOUBLE, &[from], doubles(&map.from));
        self.constant("map_matrix", DOUBLE, &[from, to], doubles(&map.matrix));
        self.constant("map_to", DOUBLE, &[to], doubles(&map.to));
        self.cast("unaligned_f64", INPUT, FLOAT, DOUBLE);
        self.on(DOUBLE, "shifted", "Sub", &["unaligned_f64", "map_from"]);
        let as_it_is = Value::Bool(false);
        let product = [
            ("T", Value::Type(DOUBLE)),
            ("transpose_a", as_it_is.clone()),
            ("transpose_b", as_it_is),
        ];
        self.op("turned", "MatMul", &["shifted", "map_matrix"], &product);
        self.on(DOUBLE, "aligned_f64", "AddV2", &["turned", "map_to"]);
        self.cast("aligned", "aligned_f64", DOUBLE, FLOAT);
        "aligned"
    }

    /// The name of the normalized rows.
    fn normalize(&mut self, x: &'static str, rows: &RowStep, d: usize) -> &'static str {
        if *rows == RowStep::AsIs {
            return x;
        }
        self.cast("vector_f64", x, FLOAT, DOUBLE);
        match rows {
            RowStep::AsIs => {}
            RowStep::Unit => {
                self.constant("floor", DOUBLE, &[], doubles(&[SQUARED_FLOOR]));
                self.constant("one", DOUBLE, &[], doubles(&[1.0]));
                self.constant("columns", INT32, &[1], 1i32.to_le_bytes().into());
                self.on(DOUBLE, "squares", "Square", &["vector_f64"]);
                let sum = [
                    ("T", Value::Type(DOUBLE)),
                    ("Tidx", Value::Type(INT32)),
                    ("keep_dims", Value::Bool(true)),
                ];
                self.op("squared", "Sum", &["squares", "columns"], &sum);
                self.on(DOUBLE, "squared_floored", "Maximum", &["squared", "floor"]);
                self.on(DOUBLE, "norm", "Sqrt", &["squared_floored"]);
                self.on(DOUBLE, "inverse", "RealDiv", &["one", "norm"]);
                self.on(DOUBLE, "normalized_f64", "Mul", &["vector_f64", "inverse"]);
            }
            RowStep::Standardize { means, deviations } => {
                let factors = doubles(&reciprocals(deviations));
                self.constant("means", DOUBLE, &[d as i64], doubles(means));
                self.constant("inverse_deviations", DOUBLE, &[d as i64], factors);
                self.on(DOUBLE, "centred", "Sub", &["vector_f64", "means"]);
                self.on(DOUBLE, "normalized_f64", "Mul", &["centred", "inverse_deviations"]);
            }
        }
        self.cast("normalized", "normalized_f64", DOUBLE, FLOAT);
        "normalized"
    }

    fn features(&mut self, y: &str, map: &ModelMap) {
        let dims = [map.n_directions() as i64, map.input_dim as i64];
        self.constant("directions", FLOAT, &dims, singles(&map.directions));
        let product = |dtype| {
            [
                ("T", Value::Type(dtype)),
                ("transpose_a", Value::Bool(false)),
                ("transpose_b", Value::Bool(true)),
            ]
        };
        match map.sums {
            Sums::Chain => {
                self.op("projections", "MatMul", &[y, "directions"], &product(FLOAT));
            }
            Sums::Tree => {
                self.cast("y_f64", y, FLOAT, DOUBLE);
                self.cast("directions_f64", "directions", FLOAT, DOUBLE);
                let inputs = ["y_f64", "directions_f64"];
                self.op("projections_f64", "MatMul", &inputs, &product(DOUBLE));
                self.cast("projections", "projections_f64", DOUBLE, FLOAT);
            }
        }
        self.on(FLOAT, "cos", "Cos", &["projections"]);
        self.on(FLOAT, "sin", "Sin", &["projections"]);
        let pairs = [("T", Value::Type(FLOAT)), ("N", Value::Int(2)), ("axis", Value::Int(2))];
        self.op("pairs", "Pack", &["cos", "sin"], &pairs);
        let shape: Vec<u8> = [-1, map.output_dim() as i32].map(i32::to_le_bytes).concat();
        self.constant("features_shape", INT32, &[2], shape);
        let types = [("T", Value::Type(FLOAT)), ("Tshape", Value::Type(INT32))];
        self.op("interleaved", "Reshape", &["pairs", "features_shape"], &types);
        self.constant("scale", FLOAT, &[], singles(&[map.scale()]));
        self.on(FLOAT, OUTPUT, "Mul", &["interleaved", "scale"]);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::example;
    use super::*;

    #[test]
    fn the_bytes_decode_to_the_model_and_are_the_same_every_time() {
        let dir = tempfile::tempdir().unwrap();
        let standardize = RowStep::Standardize { means: vec![1.0; 3], deviations: vec![2.0; 3] };
        for rows in [RowStep::AsIs, RowStep::Unit, standardize] {
            let map = example(3, 2, rows);
            let bytes = ["a", "b"].map(|name| {
                let path = dir.path().join(name);
                write(&map, &path).unwrap();
                assert_eq!(fs::read(path.join("assets.extra/spec.json")).unwrap(), b"{}");
                fs::read(path.join("saved_model.pb")).unwrap()
            });
            assert!(bytes[0] == bytes[1]);
            let decoded = SavedModel::decode(&bytes[0][..]).unwrap();
            assert_eq!(decoded, model(&map));
            let meta = &decoded.meta_graphs[0];
            assert_eq!(meta.meta_info.as_ref().unwrap().tags, ["serve"]);
            let signature = &meta.signatures["serving_default"];
            assert_eq!(signature.inputs["vector"].shape, Some(Shape::of(&[-1, 3])));
            assert_eq!(signature.outputs["features"].shape, Some(Shape::of(&[-1, 4])));
            let nodes = &meta.graph.as_ref().unwrap().nodes;
            for (i, node) in nodes.iter().enumerate() {
                for input in &node.inputs {
                    let known = nodes[..i].iter().any(|node| node.name == *input);
                    assert!(known, "{} lacks {input}", node.name);
                }
            }
        }
    }

    #[test]
    fn a_map_beyond_two_gibibytes_is_refused() {
        check_size(256, 1 << 20).unwrap();
        let message = check_size(1 << 10, 1 << 19).unwrap_err().to_string();
        assert_eq!(
            message,
            "the directions take 2147483648 bytes and a SavedModel holds at most 2 GiB; export with \
             ⟨to⟩ onnx, which keeps them in a file beside the model, or cut phi with ⟨output-dim⟩"
        );
    }
}
