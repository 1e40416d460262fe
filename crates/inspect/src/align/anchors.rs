//! Anchors: shared ids of two tables, on which a map is fitted.

use std::collections::HashMap;

use veridical_core::{Error, Result};
use veridical_data::Passes;

/// Which of the shared ids are used as anchors.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Anchors {
    /// All shared ids.
    #[default]
    Shared,
    /// The given ids.
    Ids(Vec<String>),
    /// The shared ids of largest weight; ids without a weight are not used.
    Top {
        /// The weights by id.
        weights: HashMap<String, f64>,
        /// The number of anchors.
        count: usize,
    },
}

/// The rows of the anchors among the shared ids, rising; `None` if all are. `names` are the names of the tables in messages.
pub(super) fn rows(
    shared: &dyn Passes,
    anchors: &Anchors,
    [a, b]: [&str; 2],
) -> Result<Option<Vec<u32>>> {
    let none = |what: &str| {
        let n = shared.n();
        Error::missing(
            format!("none of the {what} is among the {n} ids that {a} and {b} share"),
            "the file must contain ids of the tables",
        )
    };
    let mut rows: Vec<u32> = match anchors {
        Anchors::Shared => return Ok(None),
        Anchors::Ids(ids) => {
            let rows: Vec<u32> = ids.iter().filter_map(|id| shared.find(id)).collect();
            if rows.is_empty() {
                return Err(none("ids of ⟨anchors⟩"));
            }
            rows
        }
        Anchors::Top { weights, count } => {
            let weighted = weights.iter().filter_map(|(id, w)| Some((*w, shared.find(id)?)));
            let mut weighted: Vec<(f64, u32)> = weighted.collect();
            if weighted.is_empty() {
                return Err(none("ids of ⟨anchor-weights⟩"));
            }
            weighted.sort_by(|x, y| y.0.total_cmp(&x.0).then(x.1.cmp(&y.1)));
            weighted.into_iter().take(*count).map(|(_, row)| row).collect()
        }
    };
    rows.sort_unstable();
    rows.dedup();
    Ok(Some(rows))
}
