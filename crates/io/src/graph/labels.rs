//! Classes, names and weights of nodes from files.

use std::collections::HashMap;
use std::path::Path;

use veridical_data::{Cell, IdMap, Interner, Labels, Lists};

use super::unknown_ids;
use crate::records::{self, BETWEEN, LAST, RecordOptions, Role};
use crate::{Error, Result};

/// Options for reading labels.
#[derive(Clone, Debug)]
pub struct LabelOptions {
    /// How the files are read; their columns are `id`, `class` and, for triples, `relation`.
    pub records: RecordOptions,
    /// The separator between the classes in a field; empty if a field is one class.
    pub separator: String,
    /// The relation whose rows are used, for triples (id, relation, class).
    pub relation: Option<String>,
    /// The setting that chooses the column of the classes, for messages.
    pub column_setting: &'static str,
}

impl Default for LabelOptions {
    fn default() -> Self {
        Self {
            records: RecordOptions::default(),
            separator: "|".into(),
            relation: None,
            column_setting: GROUPS,
        }
    }
}

/// The setting that chooses the column of groups.
const GROUPS: &str = "⟨groups-column⟩ ";
/// The setting that chooses the column of labels.
pub const LABEL_COLUMN: &str = "⟨label-column⟩ ";

const ID: Role = Role {
    name: "id",
    flag: "",
    known: &[
        "id",
        "item",
        "item_id",
        "itemid",
        "movie",
        "movie_id",
        "movieid",
        "product_id",
        "sku",
        "asin",
        "user",
        "user_id",
        "userid",
        "uid",
        "head",
        "head_id",
        "subject",
        "word",
        "doc",
    ],
    required: true,
    place: 0,
};

const CLASS: Role = Role {
    name: "class",
    flag: GROUPS,
    known: &[
        "class",
        "classes",
        "label",
        "labels",
        "genre",
        "genres",
        "category",
        "categories",
        "tag",
        "tags",
        "group",
        "cluster",
        "entity",
        "entity_id",
        "tail",
        "tail_id",
        "object",
    ],
    required: true,
    place: LAST,
};

const RELATION: Role = Role {
    name: "relation",
    flag: "",
    known: &["relation", "relation_id", "predicate", "type"],
    required: true,
    place: 1,
};

const NAME: Role = Role {
    name: "name",
    flag: "",
    known: &["name", "title", "movie_title", "product_title", "label", "text", "description"],
    required: true,
    place: 1,
};

const WEIGHT: Role = Role {
    name: "weight",
    flag: "",
    known: &["weight", "count", "popularity", "views", "clicks", "sales", "n", "frequency"],
    required: true,
    place: LAST,
};

/// Reads the classes of the nodes of `ids`: rows of id and class, rows of id and several classes separated by
/// [`LabelOptions::separator`] (`movies.dat`), or triples, of which one relation is used.
///
/// ```
/// use veridical_data::IdMap;
/// use veridical_io::{LabelOptions, read_labels};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("movies.csv");
/// std::fs::write(&path, "id,title,genres\n1,Toy Story,Animation|Comedy\n2,Heat,Crime\n")?;
/// let (ids, _) = IdMap::of_integers(&[1, 2]);
///
/// let (labels, notes) = read_labels(&path, &LabelOptions::default(), &ids)?;
/// assert_eq!((labels.classes.len(), labels.of.get(0).len()), (3, 2));
/// assert_eq!(notes, ["id from column `id`, class from column `genres`"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::Content`] if no id is known or no row has the relation.
pub fn read_labels(
    path: &Path,
    options: &LabelOptions,
    ids: &IdMap,
) -> Result<(Labels, Vec<String>)> {
    read_labels_of(path, options, ids.len(), &|cell| ids.find(cell))
}

/// Reads the classes of `n` nodes as [`read_labels`] does; `find` returns the number of an id.
///
/// # Errors
/// Those of [`read_labels`].
pub fn read_labels_of(
    path: &Path,
    options: &LabelOptions,
    n: usize,
    find: &dyn Fn(Cell<'_>) -> Option<u32>,
) -> Result<(Labels, Vec<String>)> {
    let mut roles = vec![ID, Role { flag: options.column_setting, ..CLASS }];
    roles.extend(options.relation.iter().map(|_| RELATION));
    let mut classes = Interner::new(false);
    let mut pairs: Vec<(u32, u32)> = Vec::new();
    let (mut all, mut unknown, mut example) = (0u64, 0u64, String::new());
    let mut relations: Vec<String> = Vec::new();
    let seen = records::read(path, &roles, &options.records, &mut |row| {
        if let (Some(want), Some(cell)) = (&options.relation, row.cell(2)) {
            let got = cell.shown();
            if got.trim() != want {
                if relations.len() < 12 && !relations.contains(&got) {
                    relations.push(got);
                }
                return Ok(());
            }
        }
        all += 1;
        let (id, class) = (row.cell(0).unwrap_or(Cell::Missing), row.cell(1));
        let Some(node) = find(id) else {
            if unknown == 0 {
                example = id.shown();
            }
            unknown += 1;
            return Ok(());
        };
        let refused = |what: String| row.refused(format!("class: {what}"));
        match class {
            Some(Cell::Text(text)) => {
                for class in parts(text, &options.separator) {
                    pairs.push((node, classes.number(Cell::Text(class)).map_err(refused)?));
                }
            }
            Some(Cell::Missing) | None => {}
            Some(class) => pairs.push((node, classes.number(class).map_err(refused)?)),
        }
        Ok(())
    })?;
    if pairs.is_empty() {
        let what = match &options.relation {
            Some(relation) if all == 0 => {
                let there = relations.join("`, `");
                format!("no row has the relation `{relation}`; the relations are `{there}`")
            }
            _ if unknown == all => {
                let what = unknown_ids("rows", unknown, all, &example);
                format!("{what}; the ids must be those of the data")
            }
            _ => "no row has a class".into(),
        };
        return Err(Error::content(path, what));
    }
    let mut notes = seen.notes;
    if unknown > 0 {
        notes.push(unknown_ids("rows", unknown, all, &example) + "; they were dropped");
    }
    let (classes, places) = classes.finish();
    pairs.iter_mut().for_each(|(_, class)| *class = places[*class as usize]);
    let mut of = Lists::collect(n, pairs.into_iter());
    of.sort_and_dedup();
    let bare = of.iter().filter(|list| list.is_empty()).count();
    if bare > 0 {
        notes.push(format!("{bare} of {n} ids have no class"));
    }
    Ok((Labels { classes, of }, notes))
}

/// How MovieLens marks a movie without genres.
const NO_GENRES: &str = "(no genres listed)";

/// The classes in a field; empty ones are dropped.
fn parts<'a>(text: &'a str, separator: &'a str) -> impl Iterator<Item = &'a str> {
    let outer = text.split(BETWEEN);
    let parts = outer.flat_map(move |part| {
        // Splitting by an empty separator would split between all characters.
        let most = if separator.is_empty() { 1 } else { usize::MAX };
        part.splitn(most, if separator.is_empty() { "|" } else { separator })
    });
    parts.map(str::trim).filter(|part| !part.is_empty() && *part != NO_GENRES)
}

/// Reads the names of ids, such as the titles of `movies.dat`, from the columns `id` and `name`. The first name of an
/// id is used.
///
/// # Errors
/// [`Error::Content`] for a file that cannot be read, or if its columns cannot be identified.
pub fn read_names(path: &Path, options: &RecordOptions) -> Result<HashMap<String, String>> {
    let mut names = HashMap::new();
    records::read(path, &[ID, NAME], options, &mut |row| {
        names.entry(text_of(row.cell(0))).or_insert_with(|| text_of(row.cell(1)));
        Ok(())
    })?;
    Ok(names)
}

fn text_of(cell: Option<Cell<'_>>) -> String {
    match cell {
        Some(Cell::Text(text)) => text.trim().to_owned(),
        Some(other) => other.shown(),
        None => String::new(),
    }
}

/// Reads the weights of ids from the columns `id` and `weight`; a weight is a number of at least 0. Weights of an id with
/// several rows are added, so that a list of events counts them.
///
/// # Errors
/// [`Error::Content`] for a file that cannot be read, columns that cannot be identified, or an invalid weight.
pub fn read_weights(path: &Path, options: &RecordOptions) -> Result<HashMap<String, f64>> {
    let mut weights = HashMap::new();
    records::read(path, &[ID, WEIGHT], options, &mut |row| {
        let shown = row.cell(1).map_or_else(String::new, |cell| cell.shown());
        let weight = shown.trim().parse::<f64>().ok().filter(|w| w.is_finite() && *w >= 0.0);
        let weight = weight.ok_or_else(|| {
            row.refused(format!("weight: `{shown}` is not a number of at least 0"))
        })?;
        *weights.entry(text_of(row.cell(0))).or_insert(0.0) += weight;
        Ok(())
    })?;
    Ok(weights)
}
