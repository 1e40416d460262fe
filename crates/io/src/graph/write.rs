//! Writes graphs.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{Float32Array, Int64Array};
use arrow_schema::{DataType, Field};
use veridical_data::{Graph, IdMap};

use crate::{ColumnWriter, Result};

/// Writes every edge once as `source`, `target` and, if weighted, `weight`, or every group membership as `id`, `group`.
///
/// # Errors
/// The errors of [`ColumnWriter`].
pub fn write_graph(graph: &Graph, path: &Path, ids: &IdMap) -> Result<()> {
    let id = |name: &str| Field::new(name, ids.data_type(), false);
    match graph {
        Graph::Edges { neighbors, weights } => {
            let mut fields = vec![id("source"), id("target")];
            fields.extend(weights.iter().map(|_| Field::new("weight", DataType::Float32, false)));
            let mut writer = ColumnWriter::create(path, fields)?;
            for (node, list) in neighbors.iter().enumerate() {
                let above = list.partition_point(|&other| (other as usize) < node);
                let later = &list[above..];
                let here = vec![node as u32; later.len()];
                let mut columns = vec![ids.array(&here), ids.array(later)];
                if let Some(weights) = weights {
                    let own = weights[neighbors.range(node)][above..].to_vec();
                    columns.push(Arc::new(Float32Array::from(own)));
                }
                if !later.is_empty() {
                    writer.write(columns)?;
                }
            }
            writer.finish()
        }
        Graph::Groups { of, .. } => {
            let fields = vec![id("id"), Field::new("group", DataType::Int64, false)];
            let mut writer = ColumnWriter::create(path, fields)?;
            for (node, list) in of.iter().enumerate().filter(|(_, list)| !list.is_empty()) {
                let groups = list.iter().map(|&group| i64::from(group));
                let here = ids.array(&vec![node as u32; list.len()]);
                writer.write(vec![here, Arc::new(Int64Array::from_iter_values(groups))])?;
            }
            writer.finish()
        }
    }
}
