//! Maps columns to roles.

use std::path::Path;
use std::str::FromStr;
use veridical_core::Error as Core;

use super::MOST_ROLES;
use crate::{Error, Result};

/// A role that a reader needs a column for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Role {
    /// The name of the role in `--columns`.
    pub name: &'static str,
    /// Recognized column names in lower case, best first.
    pub known: &'static [&'static str],
    /// The flag that names its column, up to the name; empty if there is none.
    pub flag: &'static str,
    /// Whether the column is required.
    pub required: bool,
    /// Its position in files whose first line is data; [`LAST`] for the last.
    pub place: usize,
}

/// The last column, whatever its number.
pub(crate) const LAST: usize = usize::MAX;

/// Columns by role: `user=uid,item=sku`, or by position from 0, `user=0,item=1`.
///
/// ```
/// use veridical_io::ColumnMap;
///
/// let columns: ColumnMap = "user=uid,item=sku".parse()?;
/// assert_eq!((columns.get("item"), columns.get("rating")), (Some("sku"), None));
/// # Ok::<(), veridical_io::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColumnMap(Vec<(String, String)>);

impl FromStr for ColumnMap {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut map = Self::default();
        for pair in text.split(',').filter(|pair| !pair.trim().is_empty()) {
            let (part, column) = pair.split_once('=').unwrap_or((pair, ""));
            let (part, column) = (part.trim(), column.trim());
            if part.is_empty() || column.is_empty() {
                let what = "is not of the form PART=COLUMN, as user=uid or user=0";
                return Err(
                    Core::request(format!("⟨columns⟩: `{}` {what}", pair.trim()), "").into()
                );
            }
            if map.get(part).is_some() {
                return Err(Core::request(format!("⟨columns⟩ names `{part}` twice"), "").into());
            }
            map.set(part, column);
        }
        Ok(map)
    }
}

impl ColumnMap {
    /// Sets the column of a role, replacing an earlier one.
    pub fn set(&mut self, part: impl Into<String>, column: impl Into<String>) {
        let part = part.into();
        self.remove(&part);
        self.0.push((part, column.into()));
    }

    /// Returns the map with the column of one more role, if `column` is given.
    #[must_use]
    pub fn with(mut self, part: &str, column: Option<impl Into<String>>) -> Self {
        if let Some(column) = column {
            self.set(part, column);
        }
        self
    }

    /// Removes the column of a role, so that it is found by name or position.
    pub fn remove(&mut self, part: &str) {
        self.0.retain(|(name, _)| name != part);
    }

    /// Returns the column of a role.
    pub fn get(&self, part: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == part).map(|(_, column)| column.as_str())
    }

    /// Returns whether no column is named.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Rejects roles that the reader does not have.
    pub(super) fn check(&self, roles: &[Role]) -> Result<()> {
        let known = |part: &str| roles.iter().any(|role| role.is_called(part));
        match self.0.iter().find(|(part, _)| !known(part)) {
            None => Ok(()),
            Some((part, _)) => {
                let names: Vec<&str> = roles.iter().map(|role| role.name).collect();
                let what = format!("⟨columns⟩: there is no part `{part}`");
                Err(Core::request(what, format!("the parts are {}", names.join(", "))).into())
            }
        }
    }

    /// The column of a role, under any of its names.
    pub(crate) fn of_role(&self, role: &Role) -> Option<&str> {
        self.0.iter().find(|(part, _)| role.is_called(part)).map(|(_, column)| column.as_str())
    }
}

impl Role {
    /// How the user can specify the column.
    fn remedy(&self, column: &str) -> String {
        match self.flag {
            "" => format!("call it `{}` in the first line", self.name),
            flag => format!("name it with {flag}{column}"),
        }
    }

    /// The flag as the prefix of an error message.
    fn prefix(&self) -> String {
        match self.flag.split_once(' ') {
            Some((flag, _)) => format!("{flag}: "),
            None => String::new(),
        }
    }

    fn is_called(&self, part: &str) -> bool {
        self.name == part || self.known.contains(&part)
    }
}

/// The positions of the columns of all roles.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    pub places: [Option<usize>; MOST_ROLES],
    names: [String; MOST_ROLES],
    /// Whether these are names, and not positions.
    is_named: bool,
    /// Whether the columns were chosen automatically.
    chosen: bool,
}

impl Found {
    pub fn roles(&self) -> [bool; MOST_ROLES] {
        self.places.map(|place| place.is_some())
    }

    /// The row, column and value of a matrix.
    pub fn matrix() -> Self {
        Self { places: [Some(0), Some(1), Some(2), None], ..Self::default() }
    }

    /// The name of the column of each role.
    pub fn into_names(self) -> [Option<String>; MOST_ROLES] {
        self.names.map(|name| (self.is_named && !name.is_empty()).then_some(name))
    }

    /// The number of columns that a row must have.
    pub fn width(&self) -> usize {
        self.places.iter().flatten().max().map_or(0, |place| place + 1)
    }

    /// A note on the columns used, unless the user named them all.
    pub fn note(&self, roles: &[Role]) -> Option<String> {
        let column = |(i, role): (usize, &Role)| {
            self.places[i].map(|_| format!("{} from column `{}`", role.name, self.names[i]))
        };
        let columns: Vec<String> = roles.iter().enumerate().filter_map(column).collect();
        self.chosen.then(|| columns.join(", "))
    }

    fn take(&mut self, role: usize, place: usize, name: &str) {
        self.places[role] = Some(place);
        self.names[role] = name.to_owned();
    }
}

/// Finds columns by name.
pub(super) fn by_name(
    path: &Path,
    names: &[String],
    roles: &[Role],
    map: &ColumnMap,
) -> Result<Found> {
    let mut found = Found { is_named: true, ..Found::default() };
    for (i, role) in roles.iter().enumerate() {
        let Some(asked) = map.of_role(role) else { continue };
        let place = find_column(names, asked).ok_or_else(|| no_column(path, role, asked, names))?;
        found.take(i, place, &names[place]);
    }
    for (i, role) in roles.iter().enumerate().filter(|(_, role)| map.of_role(role).is_none()) {
        let is_free = |place: &usize| !found.places.contains(&Some(*place));
        let of_name = |known: &&str| names.iter().position(|name| name.eq_ignore_ascii_case(known));
        match role.known.iter().filter_map(of_name).find(is_free) {
            Some(place) => {
                found.take(i, place, &names[place]);
                found.chosen = true;
            }
            None if role.required => {
                let (name, there) = (role.name, names.join("`, `"));
                let what =
                    format!("no column is recognized as the {name}; the columns are `{there}`");
                return Err(Error::content(path, format!("{what}; {}", role.remedy("COLUMN"))));
            }
            None => {}
        }
    }
    Ok(found)
}

/// Finds columns by position, in a file without column names. If the user names some, only the missing required ones
/// are added.
pub(super) fn by_place(
    path: &Path,
    width: usize,
    roles: &[Role],
    map: &ColumnMap,
) -> Result<Found> {
    let mut found = Found::default();
    let names: Vec<String> = (0..width).map(|place| place.to_string()).collect();
    for (i, role) in roles.iter().enumerate() {
        let Some(asked) = map.of_role(role) else { continue };
        let place = number(asked, width).ok_or_else(|| {
            let last = width.saturating_sub(1);
            let what = format!("the first line is data, so columns have numbers, 0 to {last}");
            Error::content(path, format!("{}{asked}: {what}", role.flag))
        })?;
        found.take(i, place, &names[place]);
    }
    for (i, role) in roles.iter().enumerate().filter(|(_, role)| map.of_role(role).is_none()) {
        let place = if role.place == LAST { width.saturating_sub(1) } else { role.place };
        let is_free = place < width && !found.places.contains(&Some(place));
        if is_free && (role.required || map.is_empty()) {
            found.take(i, place, &names[place]);
            found.chosen = true;
        } else if role.required {
            let name = role.name;
            let what = format!(
                "the first line is data of {width} fields, and none is left for the {name}"
            );
            return Err(Error::content(path, format!("{what}; {}", role.remedy("NUMBER"))));
        }
    }
    Ok(found)
}

/// The column with this name, ignoring case if necessary, or with this number.
pub(crate) fn find_column(names: &[String], asked: &str) -> Option<usize> {
    let alike = |name: &String| name.eq_ignore_ascii_case(asked);
    let place = names.iter().position(|name| name == asked);
    place.or_else(|| names.iter().position(alike)).or_else(|| number(asked, names.len()))
}

fn number(asked: &str, width: usize) -> Option<usize> {
    asked.parse().ok().filter(|place| *place < width)
}

fn no_column(path: &Path, role: &Role, asked: &str, names: &[String]) -> Error {
    let (flag, names) = (role.prefix(), names.join("`, `"));
    let what = format!("{flag}there is no column `{asked}`; the columns are `{names}`");
    Error::content(path, what)
}

/// Whether the fields of a first line are column names: one of them was requested, or none is a number.
pub(super) fn are_names<'a>(
    fields: impl Iterator<Item = &'a str> + Clone,
    map: &ColumnMap,
) -> bool {
    let is_number = |field: &str| field.trim().parse::<f64>().is_ok();
    let is_asked =
        |field: &str| !is_number(field) && map.0.iter().any(|(_, column)| column == field.trim());
    fields.clone().any(is_asked) || !fields.clone().any(is_number)
}
