//! Anchors: shared ids of two tables, on which a map is fitted.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use veridical_core::{Error, Result};
use veridical_data::{Ids, VectorTable};

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

/// Row numbers of the same id in the reference and in the other table, in the order of the reference.
pub(super) type Pairs = Vec<(usize, usize)>;

/// The rows of the anchors; `names` are the names of the tables in messages.
pub(super) fn pairs(
    reference: &VectorTable,
    new: &VectorTable,
    anchors: &Anchors,
    names: [&str; 2],
) -> Result<Pairs> {
    let shared = match (&reference.ids, &new.ids) {
        (Ids::Int(a), Ids::Int(b)) => shared(a.values(), b.values(), names)?,
        (Ids::Text(a), Ids::Text(b)) => {
            let a: Vec<&str> = a.iter().map(Option::unwrap_or_default).collect();
            let b: Vec<&str> = b.iter().map(Option::unwrap_or_default).collect();
            shared(&a, &b, names)?
        }
        (a, _) => {
            let [text, integers] =
                if matches!(a, Ids::Text(_)) { names } else { [names[1], names[0]] };
            return Err(Error::unfit(
                format!("{text} has text ids and {integers} has integer ids"),
                "convert one of them so that both have the same type (⟨text-ids⟩ reads ids of CSV as text)",
            ));
        }
    };
    if shared.is_empty() {
        let [a, b] = names;
        let (x, y) = (reference.ids.get(0), new.ids.get(0));
        return Err(Error::unfit(
            format!(
                "{a} and {b} share no id: ids of the first look like {x}, ids of the second like {y}"
            ),
            "align tables with the same ids (⟨id-column⟩ chooses the column)",
        ));
    }
    chosen(shared, reference, anchors, names)
}

fn shared<K: Hash + Eq + ToString>(a: &[K], b: &[K], names: [&str; 2]) -> Result<Pairs> {
    let places = |keys: &'_ [K], name: &str| -> Result<()> {
        let mut seen: HashMap<&K, usize> = HashMap::with_capacity(keys.len());
        for (row, key) in keys.iter().enumerate() {
            if let Some(before) = seen.insert(key, row) {
                let key = key.to_string();
                return Err(Error::unfit(
                    format!("{name}: the id {key} occurs twice, in rows {before} and {row}"),
                    "an alignment needs unique ids",
                ));
            }
        }
        Ok(())
    };
    places(a, names[0])?;
    places(b, names[1])?;
    let place: HashMap<&K, usize> = b.iter().zip(0..).collect();
    Ok(a.iter().enumerate().filter_map(|(row, key)| Some((row, *place.get(key)?))).collect())
}

fn chosen(
    shared: Pairs,
    reference: &VectorTable,
    anchors: &Anchors,
    names: [&str; 2],
) -> Result<Pairs> {
    let [a, b] = names;
    let none = |what: &str| {
        let n = shared.len();
        Error::missing(
            format!("none of the {what} is among the {n} ids that {a} and {b} share"),
            "the file must contain ids of the tables",
        )
    };
    match anchors {
        Anchors::Shared => Ok(shared),
        Anchors::Ids(ids) => {
            let wanted: HashSet<&str> = ids.iter().map(String::as_str).collect();
            let pairs: Pairs = shared
                .iter()
                .copied()
                .filter(|&(row, _)| wanted.contains(reference.ids.get(row).as_str()))
                .collect();
            if pairs.is_empty() { Err(none("ids of ⟨anchors⟩")) } else { Ok(pairs) }
        }
        Anchors::Top { weights, count } => {
            let weight = |row: usize| weights.get(&reference.ids.get(row)).copied();
            let mut weighted: Vec<(f64, (usize, usize))> =
                shared.iter().filter_map(|&pair| Some((weight(pair.0)?, pair))).collect();
            if weighted.is_empty() {
                return Err(none("ids of ⟨anchor-weights⟩"));
            }
            weighted.sort_by(|x, y| y.0.total_cmp(&x.0).then(x.1.cmp(&y.1)));
            weighted.truncate(*count);
            let mut pairs: Pairs = weighted.into_iter().map(|(_, pair)| pair).collect();
            pairs.sort_unstable();
            Ok(pairs)
        }
    }
}
