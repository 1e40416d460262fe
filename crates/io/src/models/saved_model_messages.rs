//! The messages of TensorFlow that a feature map needs (tensorflow/core/protobuf and
//! tensorflow/core/framework). Maps are sorted, so the bytes are always the same.

use std::collections::BTreeMap;

use prost::{Message, Oneof};

#[derive(Clone, PartialEq, Message)]
pub struct SavedModel {
    #[prost(int64, tag = "1")]
    pub schema_version: i64,
    #[prost(message, repeated, tag = "2")]
    pub meta_graphs: Vec<MetaGraph>,
}

#[derive(Clone, PartialEq, Message)]
pub struct MetaGraph {
    #[prost(message, optional, tag = "1")]
    pub meta_info: Option<MetaInfo>,
    #[prost(message, optional, tag = "2")]
    pub graph: Option<Graph>,
    #[prost(btree_map = "string, message", tag = "5")]
    pub signatures: BTreeMap<String, Signature>,
}

#[derive(Clone, PartialEq, Message)]
pub struct MetaInfo {
    #[prost(string, tag = "1")]
    pub meta_graph_version: String,
    #[prost(string, repeated, tag = "4")]
    pub tags: Vec<String>,
    #[prost(string, tag = "5")]
    pub tensorflow_version: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct Graph {
    #[prost(message, repeated, tag = "1")]
    pub nodes: Vec<Node>,
    #[prost(message, optional, tag = "4")]
    pub versions: Option<Versions>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Versions {
    #[prost(int32, tag = "1")]
    pub producer: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct Node {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub op: String,
    #[prost(string, repeated, tag = "3")]
    pub inputs: Vec<String>,
    #[prost(btree_map = "string, message", tag = "5")]
    pub attributes: BTreeMap<String, Attribute>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Attribute {
    #[prost(oneof = "Value", tags = "3, 5, 6, 7, 8")]
    pub value: Option<Value>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum Value {
    #[prost(int64, tag = "3")]
    Int(i64),
    #[prost(bool, tag = "5")]
    Bool(bool),
    #[prost(int32, tag = "6")]
    Type(i32),
    #[prost(message, tag = "7")]
    Shape(Shape),
    #[prost(message, tag = "8")]
    Tensor(Tensor),
}

pub const FLOAT: i32 = 1;
pub const DOUBLE: i32 = 2;
pub const INT32: i32 = 3;

#[derive(Clone, PartialEq, Message)]
pub struct Tensor {
    #[prost(int32, tag = "1")]
    pub dtype: i32,
    #[prost(message, optional, tag = "2")]
    pub shape: Option<Shape>,
    #[prost(bytes = "vec", tag = "4")]
    pub content: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Shape {
    #[prost(message, repeated, tag = "2")]
    pub dims: Vec<Dimension>,
}

impl Shape {
    pub fn of(dims: &[i64]) -> Self {
        Self { dims: dims.iter().map(|&size| Dimension { size }).collect() }
    }
}

#[derive(Clone, PartialEq, Message)]
pub struct Dimension {
    /// -1: any.
    #[prost(int64, tag = "1")]
    pub size: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct Signature {
    #[prost(btree_map = "string, message", tag = "1")]
    pub inputs: BTreeMap<String, TensorInfo>,
    #[prost(btree_map = "string, message", tag = "2")]
    pub outputs: BTreeMap<String, TensorInfo>,
    #[prost(string, tag = "3")]
    pub method_name: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct TensorInfo {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(int32, tag = "2")]
    pub dtype: i32,
    #[prost(message, optional, tag = "3")]
    pub shape: Option<Shape>,
}
