//! `veridical similar`: nearest neighbors of an id, for qualitative inspection.

use std::collections::HashMap;

use serde::Serialize;
use veridical_core::settings::Settings as _;
use veridical_core::{Job, settings};
use veridical_embed::Model;
use veridical_io::run::RunFolder;
use veridical_io::{ColumnMap, Input, ReadOptions, RecordOptions, read_names};
use veridical_learn::{NeighborSearch, Scored};

use crate::evaluate::divided_as;
use crate::settings::{Resources, TableIds};
use crate::{Error, Result, stability};

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
        /// Memory and disk.
        pub resources: Resources,
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
    let Similar { run: source, read, .. } = settings;
    if let Some(seed) = veridical_io::run::seeds(source).first() {
        let what = format!("is an ensemble; pass one of its seeds, such as {}", seed.display());
        return Err(Error::request(format!("{} {what}", source.display()), ""));
    }
    let names = match &settings.names {
        Some(path) => read_names(path, &settings.name_options())?,
        None => HashMap::new(),
    };
    let is_item = read.table.as_deref().is_none_or(|table| table == "item");
    let run =
        (RunFolder::is_run(source) && is_item).then(|| RunFolder::open(source)).transpose()?;
    let found = match run.filter(|run| run.tables().is_empty()) {
        Some(run) => of_model(&run, settings, job)?,
        None => of_table(settings, job)?,
    };
    let name = |id: &str| names.get(id).cloned();
    let named = |(id, near): (&String, Vec<(String, f32)>)| Neighbors {
        id: id.clone(),
        name: name(id),
        neighbors: near
            .into_iter()
            .map(|(id, similarity)| Neighbor { name: name(&id), id, similarity })
            .collect(),
    };
    Ok(settings.id.iter().zip(found).map(named).collect())
}

/// The neighbors of every id, nearest first.
type Found = Vec<Vec<(String, f32)>>;

fn unknown(id: &str, settings: &Similar, some: &[String]) -> Error {
    let source = &settings.run;
    let what = format!("{source}: unknown id `{id}`; ids look like {}", some.join(", "));
    Error::request(what, "")
}

/// By the lists or weights of a model without vectors.
fn of_model(run: &RunFolder, settings: &Similar, job: &Job<'_>) -> Result<Found> {
    let items = divided_as(run, None, job)?.data.items;
    let model = Model::from_parts(run.model()?)?;
    let near = |id: &String| {
        let number = items.number(id.trim()).ok_or_else(|| {
            let some: Vec<String> =
                (0..items.len().min(SHOWN) as u32).map(|n| items.id(n)).collect();
            unknown(id, settings, &some)
        })?;
        let scored = model.similar("item", number as usize, settings.k)?;
        Ok(scored.into_iter().map(|scored| (items.id(scored.number), scored.score)).collect())
    };
    settings.id.iter().map(near).collect()
}

/// By cosine, in passes over the table: one numbers its ids, one finds the rows of the queries, one compares them with all rows.
fn of_table(settings: &Similar, job: &Job<'_>) -> Result<Found> {
    let (source, ids) = (settings.run.source(), TableIds::default());
    let table = stability::table(&source, &ids, &settings.read, (0, 1))?;
    let shared = stability::share(vec![table], &settings.resources, job)?;
    let rows = &*shared.rows;
    let row = |id: &String| rows.find(id.trim());
    let queries: Vec<Option<u32>> = settings.id.iter().map(row).collect();
    let (dim, mut vectors) = (rows.dims()[0], vec![Vec::new(); queries.len()]);
    let mut some: Vec<String> = Vec::new();
    rows.pass(&mut |window| {
        job.check()?;
        some.extend(
            (0..window.len()).take(SHOWN - some.len().min(SHOWN)).map(|i| window.ids.get(i)),
        );
        for (query, vector) in queries.iter().zip(&mut vectors) {
            let at = query.and_then(|row| (row as usize).checked_sub(window.first));
            if let Some(at) = at.filter(|at| *at < window.len()) {
                *vector = window.tables[0][at * dim..][..dim].to_vec();
            }
        }
        Ok(())
    })?;
    if let Some(at) = queries.iter().position(Option::is_none) {
        return Err(unknown(&settings.id[at], settings, &some));
    }
    let mut search = NeighborSearch::new(&vectors.concat(), dim, settings.k, |q| queries[q]);
    let mut id_of: HashMap<u32, String> = HashMap::new();
    rows.pass(&mut |window| {
        job.check()?;
        let first = window.first as u32;
        search.add(first, window.tables[0]);
        let new = (0..queries.len()).flat_map(|q| search.found(q)).filter(|s| s.number >= first);
        for scored in new {
            id_of
                .entry(scored.number)
                .or_insert_with(|| window.ids.get((scored.number - first) as usize));
        }
        Ok(())
    })?;
    let named =
        |scored: Scored| (id_of.get(&scored.number).cloned().unwrap_or_default(), scored.score);
    Ok(search.finish().into_iter().map(|near| near.into_iter().map(named).collect()).collect())
}
