//! Aligns tables by id: the intersection of the ids, in the first table's order.

use std::collections::HashMap;
use std::hash::Hash;

use arrow_array::{Int64Array, StringArray};

use crate::{Error, IdMap, Ids, Result, VectorTable};

/// Tables that share the same ids in the same order.
#[derive(Clone, Debug)]
pub struct Joined {
    /// The common rows of every table.
    pub tables: Vec<VectorTable>,
    /// For every table, the number of ids of the first table that it lacks.
    pub missing: Vec<usize>,
    /// For every table, the number of its ids that the first table lacks.
    pub extra: Vec<usize>,
}

/// Joins `tables` on id.
///
/// # Errors
/// [`Error`] for a duplicate id within a table, for integer ids against text ids, and
/// for tables that have no id in common.
///
/// ```
/// use veridical_data::{Ids, VectorTable, join};
///
/// let table = |ids: Vec<i64>| {
///     let vectors = ids.iter().map(|&id| id as f32).collect();
///     VectorTable { ids: Ids::Int(ids.into()), dim: 1, vectors }
/// };
/// let joined = join(vec![table(vec![3, 1, 2]), table(vec![2, 3, 9])])?;
/// assert_eq!(joined.tables[1].vectors, [3.0, 2.0]); // the first table's order
/// assert_eq!((joined.missing[1], joined.extra[1]), (1, 1));
/// # Ok::<(), veridical_data::Error>(())
/// ```
pub fn join(tables: Vec<VectorTable>) -> Result<Joined> {
    let names: Vec<String> = (1..=tables.len()).map(|n| format!("table {n}")).collect();
    join_named(tables, &names)
}

/// Joins tables as [`join`] does; `names` are the names of the tables in error messages.
///
/// # Errors
/// The errors of [`join`].
pub fn join_named(tables: Vec<VectorTable>, names: &[String]) -> Result<Joined> {
    match tables.first().map(|t| &t.ids) {
        None => Err(Error::missing("a join needs at least one table", "")),
        Some(Ids::Int(_)) => join_on(tables, names, |ids| match ids {
            Ids::Int(ids) => Some(ids.values().to_vec()),
            Ids::Text(_) => None,
        }),
        Some(Ids::Text(_)) => join_on(tables, names, |ids| match ids {
            Ids::Text(ids) => {
                Some(ids.iter().map(|id| id.unwrap_or_default().to_owned()).collect())
            }
            Ids::Int(_) => None,
        }),
    }
}

/// Returns the row in `earlier` of every id of `ids`; an integer and a text are equal if they have the same spelling.
pub fn places(earlier: &Ids, ids: &Ids) -> Vec<Option<usize>> {
    let (map, numbers) = IdMap::of(earlier);
    let mut row_of = vec![0; map.len()];
    numbers.iter().enumerate().for_each(|(row, &number)| row_of[number as usize] = row);
    (0..ids.len()).map(|i| map.number(&ids.get(i)).map(|number| row_of[number as usize])).collect()
}

fn join_on<K: Hash + Eq + ToString>(
    tables: Vec<VectorTable>,
    names: &[String],
    keys_of: impl Fn(&Ids) -> Option<Vec<K>>,
) -> Result<Joined> {
    let mut keys = Vec::new();
    let mut places = Vec::new();
    for table in &tables {
        let table_keys = keys_of(&table.ids).ok_or_else(|| {
            let what = "one table has integer ids and another has text ids";
            let remedy = "pass ⟨text-ids⟩ to read all ids as text, or name the rows of a table without ids \
                          with ⟨ids⟩";
            Error::unfit(what, remedy)
        })?;
        keys.push(table_keys);
    }
    for (t, table_keys) in keys.iter().enumerate() {
        let mut place = HashMap::with_capacity(table_keys.len());
        for (row, key) in table_keys.iter().enumerate() {
            if let Some(before) = place.insert(key, row) {
                let (name, id) = (&names[t], key.to_string());
                let what = format!("{name} has the id {id} twice, in rows {before} and {row}");
                return Err(Error::unfit(what, "a join needs each id once (⟨on-duplicate-id⟩)"));
            }
        }
        places.push(place);
    }
    let common: Vec<&K> =
        keys[0].iter().filter(|key| places[1..].iter().all(|p| p.contains_key(key))).collect();
    if common.is_empty() {
        return Err(Error::unfit("the tables have no id in common", ""));
    }
    let missing = places.iter().map(|p| keys[0].iter().filter(|k| !p.contains_key(k)).count());
    let extra = keys.iter().map(|ks| ks.iter().filter(|k| !places[0].contains_key(k)).count());
    let (missing, extra) = (missing.collect(), extra.collect());
    let rows = places.iter().map(|place| common.iter().map(|key| place[key]).collect());
    let rows: Vec<Vec<usize>> = rows.collect();
    // One after the other: a table already in the first table's order is not copied, any other one is dropped
    // before the next is processed.
    let tables = tables.into_iter().zip(rows).map(|(table, rows)| {
        let as_it_is = rows.len() == table.n_rows() && rows.iter().copied().eq(0..rows.len());
        if as_it_is { table } else { take(&table, &rows) }
    });
    Ok(Joined { missing, extra, tables: tables.collect() })
}

fn take(table: &VectorTable, rows: &[usize]) -> VectorTable {
    let ids = match &table.ids {
        Ids::Int(ids) => Ids::Int(Int64Array::from_iter_values(rows.iter().map(|&r| ids.value(r)))),
        Ids::Text(ids) => {
            Ids::Text(StringArray::from_iter_values(rows.iter().map(|&r| ids.value(r))))
        }
    };
    let vectors = rows.iter().flat_map(|&r| table.row(r)).copied().collect();
    VectorTable { ids, dim: table.dim, vectors }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(ids: Ids) -> VectorTable {
        let vectors = (0..ids.len()).map(|r| r as f32).collect();
        VectorTable { ids, dim: 1, vectors }
    }

    fn text(ids: &[&str]) -> VectorTable {
        table(Ids::Text(ids.to_vec().into()))
    }

    #[test]
    fn three_tables_keep_their_common_ids_in_the_first_order() {
        let joined =
            join(vec![text(&["a", "b", "c"]), text(&["c", "a", "x"]), text(&["c", "b", "a"])])
                .unwrap();
        let rows: Vec<_> = joined.tables.iter().map(|t| t.vectors.clone()).collect();
        assert_eq!(rows, [[0.0, 2.0], [1.0, 0.0], [2.0, 0.0]]);
        assert_eq!((joined.missing, joined.extra), (vec![0, 1, 0], vec![0, 1, 0]));
    }

    #[test]
    fn duplicates_mixed_types_and_strangers_are_refused() {
        let message = |tables| join(tables).unwrap_err().to_string();
        let twice = message(vec![text(&["a"]), text(&["b", "a", "b"])]);
        assert_eq!(
            twice,
            "table 2 has the id b twice, in rows 0 and 2; a join needs each id once (⟨on-duplicate-id⟩)"
        );
        let mixed = message(vec![text(&["1"]), table(Ids::Int(vec![1].into()))]);
        assert!(mixed.starts_with("one table has integer ids and another has text ids"));
        assert_eq!(message(vec![text(&["a"]), text(&["b"])]), "the tables have no id in common");
        assert!(message(vec![]).contains("at least one table"));
    }
}
