//! Finding ids and vectors among the columns of an Arrow schema.
//!
//! Without flags, the vectors are the only list of floats (or vector of Spark ML), else the only one inside a struct, else
//! the columns of numbers that form a family (`names.rs`); the id is `id`, or the only `*_id`.

mod ids;
mod names;
mod vectors;

use std::path::Path;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::{DataType, Field, Fields, Schema};
use serde_json::Value;

pub(crate) use self::ids::{
    MISSING, decode_ids, exceeds, first_null, id_kind, may_exceed, note as id_note, to_text,
};
use self::names::INDEX_LEVEL;
pub(crate) use self::names::{
    Asked, Candidate, Coordinates, asked, coordinates, default_id, find, is_unnamed,
};
pub(crate) use self::vectors::Vectors;
use self::vectors::{is_spark, nested, vector_dtype};
use crate::{Dtype, Error, IdKind, ReadOptions, Result};

/// The roles of the columns of a schema.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    pub vectors: Vectors,
    pub id: Option<usize>,
    pub id_kind: IdKind,
    /// The index of pandas, which must be the row number.
    pub index: Option<usize>,
    pub kept: Vec<usize>,
    pub dtype: Dtype,
    /// A note for the user about the choice.
    pub note: Option<String>,
}

impl Chosen {
    /// All columns used, ascending and without repeats.
    pub fn projection(&self) -> Vec<usize> {
        let used = self.kept.iter().chain(self.vectors.columns()).copied();
        let mut all: Vec<usize> = used.chain(self.id).chain(self.index).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The same choice after the columns were projected.
    pub fn projected(&self) -> Self {
        let all = self.projection();
        // INVARIANT: `projection` holds every index that is looked up here.
        let place = |i: usize| all.binary_search(&i).expect("the projection holds every column");
        Self {
            vectors: self.vectors.placed(place),
            id: self.id.map(place),
            index: self.index.map(place),
            kept: self.kept.iter().map(|&i| place(i)).collect(),
            ..self.clone()
        }
    }

    /// Adds to the note for the user.
    pub fn say(&mut self, more: &str) {
        self.note = Some(match self.note.take() {
            Some(note) => format!("{note}; {more}"),
            None => more.to_owned(),
        });
    }
}

/// Chooses columns by name if requested, else by what they hold.
pub(crate) fn choose(schema: &Schema, options: &ReadOptions, path: &Path) -> Result<Chosen> {
    let columns = Columns { schema, path };
    let id = columns.id(options)?;
    let id_kind = match id.map(|i| schema.field(i)) {
        None => IdKind::RowNumber,
        Some(field) => match id_kind(field.data_type()) {
            Some(_) if options.text_ids => IdKind::Text,
            Some(kind) => kind,
            None => {
                let what = format!("id column {} is neither integer nor text", describe(field));
                let remedy = "choose another one with ⟨id-column⟩";
                return Err(columns.refused(format!("{what}; {remedy}")));
            }
        },
    };
    if id.is_none() && options.ids.is_empty() {
        columns.refuse_hidden_index()?;
    }
    let kept = options.keep_columns.iter().map(|name| columns.find(name, "⟨keep-columns⟩"));
    let kept = kept.collect::<Result<Vec<_>>>()?;
    let found = columns.vectors(options, id, &kept)?;
    let mut chosen = Chosen {
        dtype: columns.dtype(&found.vectors),
        vectors: found.vectors,
        id,
        id_kind,
        index: found.index,
        kept,
        note: None,
    };
    if options.vector_column.is_none() || options.id_column.is_none() {
        let id =
            id.map_or("row numbers".into(), |i| format!("column `{}`", schema.field(i).name()));
        chosen.say(&format!("vectors from {}, ids from {id}", found.called));
    }
    if let Some(index) = found.index {
        let name = schema.field(index).name();
        chosen.say(&format!("column `{name}` is the row number, an index of pandas: left out"));
    }
    if let Some(note) = id.and_then(|i| id_note(schema.field(i).data_type(), id_kind)) {
        chosen.say(note);
    }
    Ok(chosen)
}

/// The vectors that were found.
struct Found {
    vectors: Vectors,
    index: Option<usize>,
    /// As the note calls them.
    called: String,
}

struct Columns<'a> {
    schema: &'a Schema,
    path: &'a Path,
}

impl Columns<'_> {
    fn refused(&self, what: String) -> Error {
        Error::content(self.path, what)
    }

    fn names(&self) -> Vec<&str> {
        self.schema.fields().iter().map(|field| field.name().as_str()).collect()
    }

    /// All columns with their types.
    fn listed(&self) -> String {
        let fields = self.schema.fields().iter().map(|field| describe(field));
        fields.collect::<Vec<_>>().join(", ")
    }

    fn find(&self, name: &str, flag: &str) -> Result<usize> {
        find(&self.names(), name, flag, self.path)?.ok_or_else(|| self.unknown(name, flag))
    }

    fn unknown(&self, name: &str, flag: &str) -> Error {
        let columns = self.listed();
        self.refused(format!("{flag}: there is no column `{name}`; the columns are {columns}"))
    }

    fn id(&self, options: &ReadOptions) -> Result<Option<usize>> {
        if let Some(name) = &options.id_column {
            return self.find(name, "⟨id-column⟩").map(Some);
        }
        let may_be =
            |f: &Field| f.name().eq_ignore_ascii_case("id") || id_kind(f.data_type()).is_some();
        let fields = self.schema.fields().iter().enumerate().filter(|(_, field)| may_be(field));
        let columns: Vec<_> = fields.map(|(i, field)| (i, field.name().as_str())).collect();
        let index = columns.iter().find(|(_, name)| *name == INDEX_LEVEL).map(|(i, _)| *i);
        Ok(default_id(&columns, self.path)?.or(index))
    }

    /// pandas keeps an index that counts in the metadata and stores no column for it. One with a name that does not count
    /// from 0 is the ids.
    fn refuse_hidden_index(&self) -> Result<()> {
        let Some(pandas) = self.schema.metadata().get("pandas") else { return Ok(()) };
        let Ok(pandas) = serde_json::from_str::<Value>(pandas) else { return Ok(()) };
        let indexes = pandas["index_columns"].as_array();
        let is_range = |index: &&Value| index["kind"] == "range" && index["name"].is_string();
        for index in indexes.into_iter().flatten().filter(is_range) {
            if index["start"] != 0 || index["step"] != 1 {
                let name = index["name"].as_str().unwrap_or_default();
                let start = &index["start"];
                return Err(self.refused(format!(
                    "the ids `{name}` are in no column: pandas keeps an index that counts from {start} \
                     in the metadata; write the table with frame.reset_index(), or name the rows with \
                     ⟨ids⟩"
                )));
            }
        }
        Ok(())
    }

    fn vectors(&self, options: &ReadOptions, id: Option<usize>, kept: &[usize]) -> Result<Found> {
        if let Some(name) = &options.vector_column {
            return self.asked_vectors(name, id, kept);
        }
        let fields = self.schema.fields();
        let is_vector = |&i: &usize| vector_dtype(fields[i].data_type()).is_some();
        let mut found: Vec<(usize, Vec<usize>, String)> = (0..fields.len())
            .filter(is_vector)
            .map(|i| (i, Vec::new(), fields[i].name().clone()))
            .collect();
        if found.is_empty() {
            let below = |(i, field): (usize, &Arc<Field>)| {
                nested(field).into_iter().map(move |(below, name)| (i, below, name))
            };
            found = fields.iter().enumerate().flat_map(below).collect();
        }
        match found.len() {
            0 => self.wide(id, kept),
            1 => {
                let (root, below, name) = found.remove(0);
                let vectors = Vectors::Column { root, below };
                Ok(Found { vectors, index: None, called: format!("column `{name}`") })
            }
            _ => {
                let names: Vec<_> = found.into_iter().map(|(_, _, name)| name).collect();
                let names = names.join("`, `");
                Err(self.refused(format!(
                    "several columns hold lists of floats: `{names}`; choose one with ⟨vector-column⟩"
                )))
            }
        }
    }

    /// The columns that the user names: one, a field of one (`features.values`), or several.
    fn asked_vectors(&self, name: &str, id: Option<usize>, kept: &[usize]) -> Result<Found> {
        let taken: Vec<usize> = kept.iter().copied().chain(id).collect();
        let fields = self.schema.fields();
        let root = match asked(&self.names(), name, &taken, self.path)? {
            Some(Asked::Several(columns)) => {
                let is_number = |&&i: &&usize| fields[i].data_type().is_numeric();
                if let Some(&other) = columns.iter().find(|i| !is_number(i)) {
                    let what = "where numbers are expected; choose others with ⟨vector-column⟩";
                    return Err(self.refused(format!("column {} {what}", describe(&fields[other]))));
                }
                let called = self.called(&columns);
                return Ok(Found { vectors: Vectors::Wide(columns), index: None, called });
            }
            Some(Asked::One(root)) => Some(root),
            None => None,
        };
        let called = format!("column `{name}`");
        let Some(root) = root else {
            let inside = fields.iter().enumerate().find_map(|(i, field)| {
                let below = below(field, name)?;
                Some(Vectors::Column { root: i, below })
            });
            let vectors = inside.ok_or_else(|| self.unknown(name, "⟨vector-column⟩"))?;
            return Ok(Found { vectors, index: None, called });
        };
        let field = &fields[root];
        let mut inside = nested(field);
        let below = match vector_dtype(field.data_type()) {
            Some(_) => Vec::new(),
            None if inside.len() == 1 => inside.remove(0).0,
            None => {
                let what = "where lists of floats are expected; cast it, or choose another column with ⟨vector-column⟩";
                return Err(self.refused(format!("column {} {what}", describe(field))));
            }
        };
        Ok(Found { vectors: Vectors::Column { root, below }, index: None, called })
    }

    /// One column per coordinate.
    fn wide(&self, id: Option<usize>, kept: &[usize]) -> Result<Found> {
        let fields = self.schema.fields();
        let is_index = |i: usize| {
            let name = fields[i].name();
            name == INDEX_LEVEL || is_unnamed(name) && fields[i].data_type().is_integer()
        };
        let is_free = |i: &usize| Some(*i) != id && !kept.contains(i);
        let index = (0..fields.len()).filter(is_free).find(|&i| is_index(i));
        let candidates: Vec<Candidate<'_>> = (0..fields.len())
            .filter(|i| is_free(i) && !is_index(*i))
            .map(|place| Candidate {
                place,
                name: fields[place].name(),
                is_number: fields[place].data_type().is_integer()
                    || fields[place].data_type().is_floating(),
            })
            .collect();
        let remedy = "choose the coordinates with ⟨vector-column⟩, as in 'dim_*' or 'x,y,z'";
        let columns = match coordinates(&candidates) {
            Coordinates::Family(columns) => {
                let is_number =
                    |&&i: &&usize| candidates.iter().any(|c| c.place == i && c.is_number);
                if let Some(&other) = columns.iter().find(|i| !is_number(i)) {
                    let what = format!("column {} is no number", describe(&fields[other]));
                    return Err(self.refused(format!("{what}; {remedy}")));
                }
                columns
            }
            Coordinates::Numbers(columns)
                if columns.len() > 1
                    && columns.iter().all(|&i| fields[i].data_type().is_floating()) =>
            {
                columns
            }
            Coordinates::Numbers(columns) => {
                let what = "no column holds lists of floats";
                let remedy = if columns.is_empty() { "" } else { &format!("; {remedy}") };
                let columns = self.listed();
                return Err(self.refused(format!("{what}; the columns are {columns}{remedy}")));
            }
            Coordinates::Unclear(what) => return Err(self.refused(what)),
        };
        let besides = candidates.iter().find(|c| !c.is_number && id_kind_at(fields, c.place));
        if let (None, Some(besides)) = (id, besides) {
            let (shown, name) = (describe(&fields[besides.place]), besides.name);
            let what = format!("there is one column per coordinate, and column {shown} besides");
            let ids = format!("if it holds the ids, pass ⟨id-column⟩ '{name}'");
            return Err(self.refused(format!("{what}; {ids}, else {remedy}")));
        }
        let called = self.called(&columns);
        let index = index.filter(|&i| is_unnamed(fields[i].name()));
        Ok(Found { vectors: Vectors::Wide(columns), index, called })
    }

    fn called(&self, columns: &[usize]) -> String {
        let name = |i: Option<&usize>| i.map_or("", |&i| self.schema.field(i).name());
        let (first, last) = (name(columns.first()), name(columns.last()));
        format!("{} columns `{first}` to `{last}`", columns.len())
    }

    fn dtype(&self, vectors: &Vectors) -> Dtype {
        let field = |i: usize| self.schema.field(i).data_type();
        match vectors {
            Vectors::Wide(columns) => {
                let all = |t: &DataType| columns.iter().all(|&i| field(i) == t);
                match () {
                    () if all(&DataType::Float16) => Dtype::F16,
                    () if columns.iter().any(|&i| *field(i) == DataType::Float64) => Dtype::F64,
                    () => Dtype::F32,
                }
            }
            Vectors::Column { root, below } => {
                let mut inside = field(*root);
                for &i in below {
                    let DataType::Struct(fields) = inside else { break };
                    inside = fields[i].data_type();
                }
                vector_dtype(inside).unwrap_or_default()
            }
        }
    }
}

/// The fields that a dotted name leads through; the values of a vector of Spark are the vector itself, dense or sparse.
fn below(field: &Field, name: &str) -> Option<Vec<usize>> {
    let wanted = |dotted: &str| dotted.eq_ignore_ascii_case(name);
    if is_spark(field.data_type()) && wanted(&format!("{}.values", field.name())) {
        return Some(Vec::new());
    }
    let nested = nested(field);
    let is_it =
        |(_, dotted): &&(Vec<usize>, String)| wanted(dotted) || wanted(&format!("{dotted}.values"));
    nested.iter().find(is_it).map(|(below, _)| below.clone())
}

fn id_kind_at(fields: &Fields, place: usize) -> bool {
    id_kind(fields[place].data_type()).is_some()
}

fn describe(field: &Field) -> String {
    format!("`{}` ({})", field.name(), field.data_type())
}

/// The type of a column that is copied to the output: dictionaries are unpacked so that every chunk has one type.
pub(crate) fn kept_field(field: &Field) -> Field {
    let data_type = match field.data_type() {
        DataType::Dictionary(_, value) => value.as_ref().clone(),
        other => other.clone(),
    };
    Field::new(field.name(), data_type, true)
}

/// Converts a copied column to the type of its [`kept_field`].
pub(crate) fn kept_column(array: &ArrayRef, field: &Field, path: &Path) -> Result<ArrayRef> {
    if array.data_type() == field.data_type() {
        return Ok(Arc::clone(array));
    }
    arrow_cast::cast(array, field.data_type())
        .map_err(|e| Error::content(path, format!("column `{}`: {e}", field.name())))
}
