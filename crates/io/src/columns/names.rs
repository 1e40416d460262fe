//! Columns by their names: found without regard to case where that is unambiguous, the id by default, and the columns
//! of a table with one column per coordinate.
//!
//! Coordinates are recognized as a family: names that are equal up to a number at their end, where the numbers are 0, 1,
//! 2, ... or 1, 2, 3, ... without a gap (`0`, `1`, ...; `dim_0`, `dim_1`, ...; `v1`, `v2`, ...).

use std::collections::BTreeMap;
use std::path::Path;

use crate::{Error, Result};

/// What pandas calls a column without a name.
pub(crate) const UNNAMED: &str = "Unnamed: 0";
/// What pandas calls an index without a name in a Parquet file.
pub(crate) const INDEX_LEVEL: &str = "__index_level_0__";

/// Whether pandas calls the index like this when it writes text.
pub(crate) fn is_unnamed(name: &str) -> bool {
    name.is_empty() || name == UNNAMED
}

/// The column called `asked`, ignoring case if that names only one.
pub(crate) fn find(names: &[&str], asked: &str, flag: &str, path: &Path) -> Result<Option<usize>> {
    if let Some(place) = names.iter().position(|name| *name == asked) {
        return Ok(Some(place));
    }
    if asked == UNNAMED && names.first().is_some_and(|name| name.is_empty()) {
        return Ok(Some(0));
    }
    let alike: Vec<usize> =
        (0..names.len()).filter(|&i| names[i].eq_ignore_ascii_case(asked)).collect();
    match alike[..] {
        [] => Ok(None),
        [only] => Ok(Some(only)),
        _ => {
            let alike: Vec<&str> = alike.iter().map(|&i| names[i]).collect();
            let alike = alike.join("`, `");
            let what = format!("{flag}: `{asked}` could be `{alike}`; write it as the file does");
            Err(Error::content(path, what))
        }
    }
}

/// `id`, or the only column with a name that ends in `_id`, among columns given as (position, name). Case counts only
/// where names differ in nothing else.
pub(crate) fn default_id(columns: &[(usize, &str)], path: &Path) -> Result<Option<usize>> {
    if let Some((place, _)) = columns.iter().find(|(_, name)| *name == "id") {
        return Ok(Some(*place));
    }
    let of = |is_id: fn(&str) -> bool| -> Vec<_> {
        columns.iter().filter(|(_, name)| is_id(&name.to_ascii_lowercase())).collect()
    };
    let mut candidates = of(|name| name == "id");
    if candidates.is_empty() {
        candidates = of(|name| name.ends_with("_id"));
    }
    match candidates[..] {
        [] => Ok(None),
        [(only, _)] => Ok(Some(*only)),
        _ => {
            let names: Vec<&str> = candidates.iter().map(|(_, name)| *name).collect();
            let what = format!("several columns could be the id: `{}`", names.join("`, `"));
            Err(Error::content(path, format!("{what}; choose one with ⟨id-column⟩")))
        }
    }
}

/// The columns that ⟨vector-column⟩ names.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    One(usize),
    /// One column per coordinate, in order.
    Several(Vec<usize>),
}

/// Finds the columns that ⟨vector-column⟩ names: one, all that match `dim_*`, or those of a list `x,y,z`. Columns that
/// are `taken` do not match a pattern.
pub(crate) fn asked(
    names: &[&str],
    asked: &str,
    taken: &[usize],
    path: &Path,
) -> Result<Option<Asked>> {
    const FLAG: &str = "⟨vector-column⟩";
    if let Some(one) = find(names, asked, FLAG, path)? {
        return Ok(Some(Asked::One(one)));
    }
    if asked.contains('*') {
        let free = (0..names.len()).filter(|i| !taken.contains(i));
        let matching: Vec<(usize, &str)> =
            free.map(|i| (i, names[i])).filter(|(_, name)| matches(asked, name)).collect();
        let family = families(&matching).pop().filter(|family| family.len() == matching.len());
        let columns = family.unwrap_or_else(|| matching.iter().map(|(i, _)| *i).collect());
        return Ok((!columns.is_empty()).then_some(Asked::Several(columns)));
    }
    if asked.contains(',') {
        let mut columns = Vec::new();
        for name in asked.split(',') {
            let Some(place) = find(names, name.trim(), FLAG, path)? else { return Ok(None) };
            if columns.contains(&place) {
                let what = format!("{FLAG} names `{}` twice", names[place]);
                return Err(Error::content(path, what));
            }
            columns.push(place);
        }
        return Ok(Some(Asked::Several(columns)));
    }
    Ok(None)
}

/// Whether a name matches a pattern in which `*` stands for any text.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut left) = name.strip_prefix(start) else { return false };
    let Some((middle, end)) = rest.rsplit_once('*') else { return left.ends_with(rest) };
    for piece in middle.split('*') {
        let Some(at) = left.find(piece) else { return false };
        left = &left[at + piece.len()..];
    }
    left.ends_with(end)
}

/// The families of at least two of the columns, each in the order of its numbers.
fn families(columns: &[(usize, &str)]) -> Vec<Vec<usize>> {
    let mut alike: BTreeMap<&str, Vec<(u64, usize)>> = BTreeMap::new();
    for &(place, name) in columns {
        let start = name.trim_end_matches(|c: char| c.is_ascii_digit());
        if let Ok(number) = name[start.len()..].parse() {
            alike.entry(start).or_default().push((number, place));
        }
    }
    let mut families = Vec::new();
    for mut members in alike.into_values() {
        members.sort_unstable();
        let first = members[0].0;
        let is_counted = first <= 1 && members.iter().zip(first..).all(|((n, _), want)| *n == want);
        if is_counted && members.len() > 1 {
            families.push(members.into_iter().map(|(_, place)| place).collect());
        }
    }
    families
}

/// A column that may be a coordinate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate<'a> {
    pub place: usize,
    pub name: &'a str,
    pub is_number: bool,
}

/// Which columns are the coordinates.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Coordinates {
    /// A family, in order; some of its columns may not be numbers.
    Family(Vec<usize>),
    /// All columns of numbers, in the order of the file.
    Numbers(Vec<usize>),
    /// Several groups of columns could be meant.
    Unclear(String),
}

/// Decides which columns are coordinates: the only family if nothing else is a number, else all numbers.
pub(crate) fn coordinates(candidates: &[Candidate<'_>]) -> Coordinates {
    let named: Vec<(usize, &str)> = candidates.iter().map(|c| (c.place, c.name)).collect();
    let mut families = families(&named);
    let shown = |family: &[usize]| {
        let name = |place: Option<&usize>| {
            named.iter().find(|(i, _)| Some(i) == place).map_or("", |(_, name)| *name)
        };
        format!("`{}` to `{}`", name(family.first()), name(family.last()))
    };
    let others: Vec<&str> = candidates
        .iter()
        .filter(|c| c.is_number && !families.iter().any(|family| family.contains(&c.place)))
        .map(|c| c.name)
        .collect();
    let pattern = |family: &[usize]| {
        let first = named.iter().find(|(i, _)| Some(i) == family.first()).map_or("", |(_, n)| *n);
        format!("'{}*'", first.trim_end_matches(|c: char| c.is_ascii_digit()))
    };
    match (&families[..], &others[..]) {
        ([], _) => Coordinates::Numbers(
            candidates.iter().filter(|c| c.is_number).map(|c| c.place).collect(),
        ),
        ([_], []) => Coordinates::Family(families.remove(0)),
        ([family, rest @ ..], _) => {
            let mut groups: Vec<String> = rest.iter().map(|family| shown(family)).collect();
            groups.extend(others.iter().take(3).map(|name| format!("`{name}`")));
            let and_more = if others.len() > 3 { ", ..." } else { "" };
            Coordinates::Unclear(format!(
                "columns {} look like coordinates, but {}{and_more} could be, too; choose them with \
                 ⟨vector-column⟩, as in {}",
                shown(family),
                groups.join(", "),
                pattern(family)
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates<'a>(names: &[&'a str]) -> Vec<Candidate<'a>> {
        let of = |(place, &name): (usize, &&'a str)| Candidate {
            place,
            name: name.trim_end_matches('!'),
            is_number: !name.ends_with('!'),
        };
        names.iter().enumerate().map(of).collect()
    }

    #[test]
    fn numbered_columns_are_coordinates_in_the_order_of_their_numbers() {
        let of = |names: &[&str]| coordinates(&candidates(names));
        assert_eq!(of(&["0", "1", "2"]), Coordinates::Family(vec![0, 1, 2]));
        assert_eq!(of(&["v2", "v10", "v1", "v3"]), Coordinates::Numbers(vec![0, 1, 2, 3]));
        assert_eq!(of(&["v2", "title!", "v1", "v3"]), Coordinates::Family(vec![2, 0, 3]));
        assert_eq!(of(&["dim_000", "dim_001"]), Coordinates::Family(vec![0, 1]));
        // Years are not coordinates.
        assert_eq!(of(&["sales_2019", "sales_2020"]), Coordinates::Numbers(vec![0, 1]));
        assert_eq!(of(&["x", "y"]), Coordinates::Numbers(vec![0, 1]));
        assert_eq!(
            of(&["v0", "v1!"]),
            Coordinates::Family(vec![0, 1]),
            "to be refused by its cell"
        );
        let Coordinates::Unclear(what) = of(&["a_0", "a_1", "price", "b_0", "b_1"]) else {
            panic!("two families and a price");
        };
        assert_eq!(
            what,
            "columns `a_0` to `a_1` look like coordinates, but `b_0` to `b_1`, `price` could be, too; \
             choose them with ⟨vector-column⟩, as in 'a_*'"
        );
    }

    #[test]
    fn names_are_found_without_regard_to_case_where_that_is_unambiguous() {
        let (names, path) = (["Item_ID", "EMBEDDING", "embedding"], Path::new("t"));
        assert_eq!(find(&names, "item_id", "f", path).unwrap(), Some(0));
        assert_eq!(find(&names, "embedding", "f", path).unwrap(), Some(2));
        assert_eq!(find(&names, "x", "f", path).unwrap(), None);
        assert_eq!(
            find(&names, "Embedding", "⟨f⟩", path).unwrap_err().to_string(),
            "t: ⟨f⟩: `Embedding` could be `EMBEDDING`, `embedding`; write it as the file does"
        );
        assert_eq!(find(&["", "a"], UNNAMED, "f", path).unwrap(), Some(0));
        assert_eq!(default_id(&[(3, "ITEM_ID"), (4, "x")], path).unwrap(), Some(3));
        assert_eq!(default_id(&[(0, "Item_Id"), (1, "ID")], path).unwrap(), Some(1));
        assert_eq!(
            default_id(&[(0, "USER_ID"), (1, "item_id")], path).unwrap_err().to_string(),
            "t: several columns could be the id: `USER_ID`, `item_id`; choose one with ⟨id-column⟩"
        );
    }

    #[test]
    fn patterns_and_lists_name_several_columns() {
        let (names, path) = (["id", "d1", "d0", "y", "x", "a,b"], Path::new("t"));
        let of = |text: &str| asked(&names, text, &[0], path).unwrap();
        assert_eq!(of("d*"), Some(Asked::Several(vec![2, 1])));
        assert_eq!(of("*"), Some(Asked::Several(vec![1, 2, 3, 4, 5])));
        assert_eq!(of("x,Y"), Some(Asked::Several(vec![4, 3])));
        assert_eq!((of("a,b"), of("z*"), of("x,z")), (Some(Asked::One(5)), None, None));
        assert!(asked(&names, "x,x", &[], path).unwrap_err().to_string().contains("`x` twice"));
        for (pattern, name, want) in [
            ("a*c", "abc", true),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "ac", false),
            ("*_v", "x_v", true),
            ("ab*ba", "aba", false),
        ] {
            assert_eq!(matches(pattern, name), want, "{pattern} {name}");
        }
    }
}
