//! `veridical similar`: nearest neighbors of an id, for qualitative inspection.

use std::collections::HashMap;

use serde::Serialize;
use veridical_core::settings::Settings as _;
use veridical_core::{Job, settings};
use veridical_data::IdMap;
use veridical_embed::{Embedding, Model};
use veridical_io::run::RunFolder;
use veridical_io::{ColumnMap, Input, ReadOptions, RecordOptions, Source, TableReader, read_names};

use crate::evaluate::divided_as;
use crate::{Error, Result};

/// Number of ids that an error message shows.
const SHOWN: usize = 3;

settings! {
    /// Settings of [`similar`].
    pub struct Similar {
        /// Run folder or vector table
        pub run: Input = Input::default() => [required(), value("RUN_OR_TABLE")],
        /// Id to find neighbors of; may be repeated
        pub id: Vec<String> = Vec::new() => [required(), value("ID"), dashes()],
        /// Number of neighbors per id
        pub k: usize = 10 => [value("K"), at_least(1.0)],
        /// Names of ids: MovieLens `::`, CSV, TSV or Parquet
        pub names: Option<Input> = None,
        /// Column with the names, by name or number
        pub name_column: Option<String> = None => [needs(&["names"]), otherwise("`name`, `title`, or the second")],
    } with {
        /// How the table is read; ⟨encoding⟩ is that of the names, too.
        pub read: ReadOptions,
    }
}

impl Similar {
    fn name_options(&self) -> RecordOptions {
        let columns = ColumnMap::default().with("name", self.name_column.as_ref());
        RecordOptions { columns, encoding: self.read.encoding.clone(), ..RecordOptions::default() }
    }
}

/// Nearest neighbors of one id.
#[derive(Clone, Debug, Serialize)]
pub struct Neighbors {
    /// Query id.
    pub id: String,
    /// Name of the query id, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Neighbors, nearest first.
    pub neighbors: Vec<Neighbor>,
}

/// One nearest neighbor.
#[derive(Clone, Debug, Serialize)]
pub struct Neighbor {
    /// Id of the neighbor.
    pub id: String,
    /// Name of the neighbor, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Cosine similarity of the two vectors; the weight or similarity for models without vectors.
    pub similarity: f32,
}

/// Finds the nearest neighbors of ids.
///
/// # Errors
/// [`Error::Core`] for an unknown id.
///
/// # Example
/// ```
/// use veridical::core::Job;
/// use veridical::similar::{Similar, similar};
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("items.csv");
///
/// std::fs::write(&path, "id,x,y\na,1,0\nb,0,1\nc,2,1\n").unwrap();
/// let run = path.as_path().into();
/// let found = similar(&Similar { run, id: vec!["a".into()], k: 1, ..Similar::default() }, &Job::silent())?;
/// assert_eq!(found[0].neighbors[0].id, "c"); // cosine 2 / sqrt(5)
/// # Ok::<(), veridical::Error>(())
/// ```
pub fn similar(settings: &Similar, job: &Job<'_>) -> Result<Vec<Neighbors>> {
    settings.check()?;
    let vectors = Vectors::load(settings, job)?;
    let names = match &settings.names {
        Some(path) => read_names(path, &settings.name_options())?,
        None => HashMap::new(),
    };
    let name = |id: &str| names.get(id).cloned();
    let mut found = Vec::new();
    for id in &settings.id {
        let row = vectors.row(id, settings)?;
        let neighbors = vectors.nearest(row, settings.k)?.into_iter().map(|(row, similarity)| {
            let id = vectors.id(row);
            Neighbor { name: name(&id), id, similarity }
        });
        found.push(Neighbors { id: id.clone(), name: name(id), neighbors: neighbors.collect() });
    }
    Ok(found)
}

/// A vector table with an index of its ids.
struct Vectors {
    ids: IdMap,
    /// Table row of every id index.
    row_of: Vec<u32>,
    /// Id index of every table row.
    number_of: Vec<u32>,
    rows: Rows,
}

enum Rows {
    Table(Embedding),
    /// A model with item vectors only.
    Model(Model),
}

impl Vectors {
    fn load(settings: &Similar, job: &Job<'_>) -> Result<Self> {
        let Similar { run: source, read, .. } = settings;
        let table = &read.table;
        if let Some(seed) = veridical_io::run::seeds(source).first() {
            let what = format!("is an ensemble; pass one of its seeds, such as {}", seed.display());
            return Err(Error::request(format!("{} {what}", source.display()), ""));
        }
        let is_run = RunFolder::is_run(source);
        if is_run && table.as_deref().is_none_or(|table| table == "item") {
            let run = RunFolder::open(source)?;
            if run.tables().is_empty() {
                let items = divided_as(&run, None, job)?.data.items;
                let numbers: Vec<u32> = (0..items.len() as u32).collect();
                let rows = Rows::Model(Model::from_parts(run.model()?)?);
                return Ok(Self { ids: items, row_of: numbers.clone(), number_of: numbers, rows });
            }
        }
        let mut reader = TableReader::open(&Source::Path(source.to_path_buf()), read)?;
        reader.notes().iter().for_each(|note| job.note(note));
        let table = veridical_io::collect_rows(&mut reader)?;
        reader.warnings().iter().for_each(|what| job.warn(what));
        let (ids, number_of) = IdMap::of(&table.ids);
        let mut row_of = vec![0; ids.len()];
        (0..).zip(&number_of).for_each(|(row, &number)| row_of[number as usize] = row);
        let rows = Rows::Table(Embedding::new(table.dim, table.vectors));
        Ok(Self { ids, row_of, number_of, rows })
    }

    fn row(&self, id: &str, settings: &Similar) -> Result<usize> {
        let number = self.ids.number(id.trim()).ok_or_else(|| {
            let some: Vec<String> =
                (0..self.ids.len().min(SHOWN) as u32).map(|n| self.ids.id(n)).collect();
            let source = &settings.run;
            Error::request(
                format!("{source}: unknown id `{id}`; ids look like {}", some.join(", ")),
                "",
            )
        })?;
        Ok(self.row_of[number as usize] as usize)
    }

    fn id(&self, row: u32) -> String {
        self.ids.id(self.number_of[row as usize])
    }

    fn nearest(&self, row: usize, k: usize) -> Result<Vec<(u32, f32)>> {
        let scored = match &self.rows {
            Rows::Table(table) => veridical_embed::similar(table, row, k),
            Rows::Model(model) => model.similar("item", row, k)?,
        };
        Ok(scored.into_iter().map(|scored| (scored.number, scored.score)).collect())
    }
}
