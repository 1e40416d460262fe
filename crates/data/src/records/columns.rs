//! Which column plays which part.

use std::path::Path;
use std::str::FromStr;

use super::MOST_ROLES;
use crate::{Error, Result};

/// A part of a row that a reader looks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Role {
    /// As `--columns` calls it.
    pub name: &'static str,
    /// Names of columns that are taken for it, the best first; lower case.
    pub known: &'static [&'static str],
    /// Whether the reader can do without.
    pub required: bool,
    /// Its place in files whose first line is data.
    pub place: usize,
}

/// Columns by the parts they play: `user=uid,item=sku`, or by their places from 0, `user=0,item=1`.
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
                return Err(Error::Usage(format!("--columns: `{}` {what}", pair.trim())));
            }
            if map.get(part).is_some() {
                return Err(Error::Usage(format!("--columns names `{part}` twice")));
            }
            map.set(part, column);
        }
        Ok(map)
    }
}

impl ColumnMap {
    /// Names the column of a part.
    pub fn set(&mut self, part: impl Into<String>, column: impl Into<String>) {
        self.0.push((part.into(), column.into()));
    }

    /// The column of a part.
    pub fn get(&self, part: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == part).map(|(_, column)| column.as_str())
    }

    /// Whether no part is named.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Refuses parts that the reader does not look for.
    pub(super) fn check(&self, roles: &[Role]) -> Result<()> {
        let known = |part: &str| roles.iter().any(|role| role.is_called(part));
        match self.0.iter().find(|(part, _)| !known(part)) {
            None => Ok(()),
            Some((part, _)) => {
                let names: Vec<&str> = roles.iter().map(|role| role.name).collect();
                let what = format!("there is no part `{part}`; the parts are {}", names.join(", "));
                Err(Error::Usage(format!("--columns: {what}")))
            }
        }
    }

    fn of_role(&self, role: &Role) -> Option<&str> {
        self.0.iter().find(|(part, _)| role.is_called(part)).map(|(_, column)| column.as_str())
    }
}

impl Role {
    fn is_called(&self, part: &str) -> bool {
        self.name == part || self.known.contains(&part)
    }
}

/// The places of the columns that play the roles.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    pub places: [Option<usize>; MOST_ROLES],
    names: [String; MOST_ROLES],
    /// Whether the user left the choice to us.
    chosen: bool,
}

impl Found {
    pub fn roles(&self) -> [bool; MOST_ROLES] {
        self.places.map(|place| place.is_some())
    }

    /// The row, the column and the value of a matrix.
    pub fn matrix() -> Self {
        Self { places: [Some(0), Some(1), Some(2), None], ..Self::default() }
    }

    /// The number of columns that a row must have.
    pub fn width(&self) -> usize {
        self.places.iter().flatten().max().map_or(0, |place| place + 1)
    }

    /// Which columns were taken, if the user did not name them all.
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

/// Finds columns by their names.
pub(super) fn by_name(
    path: &Path,
    names: &[String],
    roles: &[Role],
    map: &ColumnMap,
) -> Result<Found> {
    let mut found = Found::default();
    for (i, role) in roles.iter().enumerate() {
        let Some(asked) = map.of_role(role) else { continue };
        let alike = |name: &String| name.eq_ignore_ascii_case(asked);
        let place = names.iter().position(|name| name == asked);
        let place =
            place.or_else(|| names.iter().position(alike)).or_else(|| number(asked, names.len()));
        let place = place.ok_or_else(|| no_column(path, asked, names))?;
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
                    format!("no column is known to hold the {name}; the columns are `{there}`");
                let remedy = format!("name it with --columns {name}=COLUMN");
                return Err(Error::content(path, format!("{what}; {remedy}")));
            }
            None => {}
        }
    }
    Ok(found)
}

/// Finds columns of a file without names by their places.
pub(super) fn by_place(
    path: &Path,
    width: usize,
    roles: &[Role],
    map: &ColumnMap,
) -> Result<Found> {
    let mut found = Found { chosen: map.is_empty(), ..Found::default() };
    let names: Vec<String> = (0..width).map(|place| place.to_string()).collect();
    for (i, role) in roles.iter().enumerate() {
        let place = match map.of_role(role) {
            Some(asked) => Some(number(asked, width).ok_or_else(|| {
                let what =
                    format!("the first line is data, so columns have numbers, 0 to {}", width - 1);
                Error::content(path, format!("--columns {}={asked}: {what}", role.name))
            })?),
            None if map.is_empty() => (role.place < width).then_some(role.place),
            None => None,
        };
        match place {
            Some(place) => found.take(i, place, &names[place]),
            None if role.required => {
                let what = format!(
                    "the first line is data and has {width} fields, no column holds the {}",
                    role.name
                );
                let remedy = format!("name it with --columns {}=NUMBER", role.name);
                return Err(Error::content(path, format!("{what}; {remedy}")));
            }
            None => {}
        }
    }
    Ok(found)
}

fn number(asked: &str, width: usize) -> Option<usize> {
    asked.parse().ok().filter(|place| *place < width)
}

fn no_column(path: &Path, asked: &str, names: &[String]) -> Error {
    let names = names.join("`, `");
    Error::content(
        path,
        format!("--columns: there is no column `{asked}`; the columns are `{names}`"),
    )
}

/// Whether the fields of a first line are names of columns: one of them is asked for or known, or none is a
/// number.
pub(super) fn are_names<'a>(
    fields: impl Iterator<Item = &'a str> + Clone,
    roles: &[Role],
    map: &ColumnMap,
) -> bool {
    let is_number = |field: &str| field.trim().parse::<f64>().is_ok();
    let is_known = |field: &str| {
        let field = field.trim();
        let known = |role: &Role| role.known.iter().any(|name| field.eq_ignore_ascii_case(name));
        !is_number(field)
            && (roles.iter().any(known) || map.0.iter().any(|(_, column)| column == field))
    };
    fields.clone().any(is_known) || !fields.clone().any(is_number)
}
