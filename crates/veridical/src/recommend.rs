//! `veridical recommend`: top-k items per user.
//!
//! Histories are the interactions the run was trained on, unless others are given. Users known to the run keep their
//! vectors; unknown users are folded in from their history ([`veridical_embed::fold_in`]). Methods that score from the
//! history alone treat both the same.
//!
//! Vector tables are read in passes ([`veridical_embed::StoredVectors`]). What is held: the histories, with all columns of
//! the interactions while they are read; the ids of items; of users those that are asked for; and whole models that are
//! networks, lists or weights.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float32Array, Int32Array, Int64Array, StringArray};
use arrow_schema::{DataType, Field};
use serde::Serialize;
use serde_json::{Map, Value};
use veridical_core::Job;
use veridical_core::settings::Settings as _;
use veridical_core::{Progress, settings};
use veridical_data::{IdMap, Ids, StoredRows, fingerprint};
use veridical_embed::fold_in::FoldIn;
use veridical_embed::histories::{Groups, Histories, Known, UserRows, UsersBy};
use veridical_embed::{Method, Model, Purpose, StoredVectors};
use veridical_io::run::RunFolder;
use veridical_io::shared::shown;
use veridical_io::{ColumnWriter, Input, Output, ReadOptions, Replace, Source, TableReader};
use veridical_io::{publish, read_ids};
use veridical_learn::Scored;

use crate::evaluate::{MEAN_OF_VECTORS, divided_as};
use crate::settings::MemoryLimit;
use crate::train::{Divided, Request, layer_of, method_of, reading};
use crate::{Error, Result};

/// Number of users that are scored and written at once.
const BLOCK: usize = 4096;
/// Bytes of one interaction at the peak, while its row becomes part of a history.
const ROW_BYTES: u64 = 80;
/// Bytes of a user or an item: the id, its number, the place of its history.
const ID_BYTES: u64 = 96;
/// Bytes of a recommendation: in the columns of a block, and in those that wait to be written.
const ENTRY_BYTES: u64 = 64;
/// How often a model in memory is there while it is read: as bytes and as numbers.
const MODEL_COPIES: u64 = 2;
/// Bytes that depend on neither: the program, and what products of matrices pack.
const FIXED: u64 = 40 << 20;
/// Number of ids that a warning lists.
const NAMED: usize = 5;

settings! {
    /// Settings of [`recommend`].
    pub struct Recommend {
        /// Run folder to recommend from
        pub run: Input = Input::default() => [required(), value("RUN")],
        /// Users to recommend to: one id per line, or a column of CSV or Parquet
        pub users: Option<Input> = None => [otherwise("all")],
        /// User-item interactions to take histories from (file or folder)
        pub interactions: Option<Input> = None => [otherwise("the training data of the run")],
        /// Number of items per user
        pub k: usize = 20 => [value("K"), at_least(1.0)],
        /// Also recommend items that are in the user's history
        pub keep_seen: bool = false => [switch()],
        /// Table to write: .parquet, .arrow, .csv, .tsv or .jsonl
        pub out: Output = Output::default() => [required()],
    } with {
        /// Whether existing output is replaced.
        pub replace: Replace,
        /// Memory to use.
        pub memory: MemoryLimit,
    }
}

/// Result of [`recommend`].
#[derive(Clone, Debug, Serialize)]
pub struct Recommended {
    /// Path of the table.
    pub out: String,
    /// Number of users with recommendations.
    pub users: usize,
    /// Number of rows in the table.
    pub rows: u64,
    /// Number of users unknown to the run, folded in from their history.
    pub folded_in: usize,
    /// Users without a vector or a history: they get no recommendations.
    pub unknown: Vec<String>,
}

/// Writes the top-k items of every user: user, item, score, rank.
///
/// # Errors
/// [`Error::Core`] for a run that cannot recommend, for too little memory, and if no user can be scored.
///
/// # Example
/// ```
/// use veridical::core::Job;
/// use veridical::recommend::{Recommend, recommend};
/// # use serde_json::json;
/// # use veridical::core::settings::SettingsLayer;
/// # use veridical::embed::Method;
/// # use veridical::prepare::{Generate, GeneratedKind, TablesOutput};
/// # use veridical::settings::{RunOutput, Start};
/// # use veridical::train::{self, Request, Train};
/// # let folder = tempfile::tempdir().unwrap();
/// # let at = |name: &str| folder.path().join(name);
/// # let shop = Generate {
/// #     what: Some(GeneratedKind::Shop),
/// #     users: 60,
/// #     items: 80,
/// #     per_user: 8,
/// #     output: TablesOutput { out: at("shop").into(), ..TablesOutput::default() },
/// #     ..Generate::default()
/// # };
/// # veridical::prepare::generate(&shop)?;
/// # let interactions = at("shop/interactions.csv");
/// # let given = json!({ "interactions": interactions, "dim": 4, "epochs": 2, "split": "leave-last-one" });
/// # let layer = SettingsLayer::given(given.as_object().cloned().unwrap());
/// # let request = Request::new(Method::Bpr, &[layer])?;
/// # let output = RunOutput { out: Some(at("run").into()), ..RunOutput::default() };
/// # train::train(&Train { request, start: Start { output, ..Start::default() } }, &Job::silent())?;
///
/// let settings = Recommend {
///     run: at("run").into(),
///     k: 3,
///     out: at("recs.csv").into(),
///     ..Recommend::default()
/// };
/// let recommended = recommend(&settings, &Job::silent())?;
/// assert_eq!((recommended.users, recommended.rows), (60, 60 * 3));
/// # Ok::<(), veridical::Error>(())
/// ```
pub fn recommend(settings: &Recommend, job: &Job<'_>) -> Result<Recommended> {
    settings.check()?;
    let out = &settings.out;
    publish::check_new(out, settings.replace.force)?;
    let run = RunFolder::open(&settings.run)?;
    let method = method_of(&run)?;
    if method.purpose() == Purpose::Text {
        let what = "was trained on documents, which have no users; see `veridical similar`";
        return Err(Error::request(format!("{} {what}", run.path().display()), ""));
    }
    if method == Method::Item2vec {
        job.warn(MEAN_OF_VECTORS);
    }
    let asked = settings.users.as_ref().map(|path| read_ids(path, &ReadOptions::default()));
    let asked = asked.transpose()?;
    let stored = StoredVectors::open(|name| -> Result<_> {
        Ok(run.matrix(name)?.map(|matrix| Box::new(matrix) as Box<dyn StoredRows>))
    })?;
    let held = Held { run: &run, stored: stored.as_ref(), settings };
    let histories = histories(&held, method, asked.as_ref(), job)?;
    let requested = asked.unwrap_or_else(|| histories.users.ids().clone());
    let scoring = match stored {
        Some(tables) if tables.n_items() != histories.items.len() => {
            let (found, ids) = (tables.n_items(), histories.items.len());
            let what = format!("{} has vectors of {found} items", run.path().display());
            return Err(Error::request(format!("{what} and {ids} ids"), "train it again"));
        }
        Some(tables) => Scoring::Passes(tables),
        None => Scoring::Held(Model::from_parts(run.model()?)?),
    };
    let groups = Groups::of(&histories, scoring.users_by(), &requested);
    warn_of_unknown(&groups, &requested, job);
    if groups.is_empty() {
        let what = "none of the users is known to the run; pass their histories with";
        return Err(Error::request(format!("{what} ⟨interactions⟩ FILE"), ""));
    }

    let mut list = List::create(settings, &requested, &histories, groups.len(), job)?;
    match scoring {
        Scoring::Held(model) => list.add_held(&model, &groups.known)?,
        Scoring::Passes(mut tables) => {
            list.add_known(&mut tables, &groups.known, job)?;
            if !groups.new.is_empty() {
                let given = run.document().get("settings").and_then(Value::as_object).cloned();
                let problem = FoldIn::of(method, &given.unwrap_or_else(Map::new))?;
                list.add_new(&mut tables, &groups.new, problem, job)?;
            }
        }
    }
    Ok(Recommended {
        out: out.to_string(),
        users: groups.len(),
        rows: list.finish()?,
        folded_in: groups.new.len(),
        unknown: groups.unknown.iter().map(|&at| requested.get(at)).collect(),
    })
}

/// What scores items.
enum Scoring {
    /// Vector tables that are read in passes.
    Passes(StoredVectors<'static>),
    /// A model in memory: a network, lists or weights.
    Held(Model),
}

impl Scoring {
    fn users_by(&self) -> UsersBy {
        match self {
            Self::Passes(tables) if tables.has_users() => UsersBy::Vector,
            Self::Passes(_) => UsersBy::History,
            Self::Held(model) => model.users_by(),
        }
    }
}

/// What has to be held at the same time.
struct Held<'a> {
    run: &'a RunFolder,
    stored: Option<&'a StoredVectors<'static>>,
    settings: &'a Recommend,
}

impl Held<'_> {
    /// Refuses to hold the histories of so many interactions if they and the rest need more memory than there is.
    fn check(&self, rows: u64, users: u64, items: u64) -> Result<()> {
        let k = (self.settings.k as u64).min(items);
        let block = users.clamp(1, BLOCK as u64);
        let (model, what) = match self.stored {
            Some(tables) => {
                let threads = rayon::current_num_threads();
                (tables.needed(block as usize, k as usize, threads), "")
            }
            None => (MODEL_COPIES * self.run.model_bytes()?, " and the model"),
        };
        let histories = ROW_BYTES * rows + ID_BYTES * (users + items);
        let needed = FIXED + model + histories + block * k * ENTRY_BYTES;
        let memory = self.settings.memory.bytes();
        if needed <= memory {
            return Ok(());
        }
        let of = format!("{rows} interactions of {users} users and {items} items");
        let must_be = format!("at least {} for the histories ({of}){what}", shown(needed));
        Err(veridical_core::Error::setting("memory", must_be, shown(memory)).into())
    }
}

/// Returns the histories: the rows the run was trained on, or those of another file.
fn histories(
    held: &Held<'_>,
    method: Method,
    asked: Option<&Ids>,
    job: &Job<'_>,
) -> Result<Histories> {
    let Held { run, settings, .. } = held;
    let data = run.document().get("data");
    let recorded = |name: &str| data.and_then(|data| data.get(name));
    let count = |name: &str| recorded(name).and_then(Value::as_u64).unwrap_or(0);
    let own = |besides: [u64; 2]| {
        let [rows, users] = besides;
        held.check(count("rows") + rows, count("users") + users, count("items"))?;
        divided_as(run, None, job)
    };
    let of_run = |Divided { data, split, .. }: Divided| Histories::of_split(data, &split);
    let Some(path) = settings.interactions.as_deref() else { return Ok(of_run(own([0, 0])?)) };
    let (_, layer) = layer_of(run.path())?;
    let options = Request::new(method, &[layer])?.options;
    let data = reading::interactions(path, &options.reading, job)?;
    let counts = [data.len(), data.users.len(), data.items.len()];
    let [rows, n_users, n_items] = counts.map(|count| count as u64);
    held.check(rows, n_users, n_items.max(count("items")))?;
    if recorded("fingerprint").and_then(Value::as_str) == Some(&fingerprint::of_interactions(&data))
    {
        let rule = options.split.rule()?;
        return Ok(of_run(Divided::divide(data, rule, &options.split, job)?));
    }
    let mut items = Vec::new();
    visit_ids(run, "item", |_, ids| items.push(ids.clone()))?;
    let items = match items.is_empty() {
        false => IdMap::of(&Ids::concat(&items)).0,
        true => own([rows, n_users])?.data.items,
    };
    let mut users: Option<UserRows> = None;
    let wanted = asked.unwrap_or(data.users.ids());
    visit_ids(run, "user", |first, ids| {
        users.get_or_insert_with(|| UserRows::new(wanted, ids)).add(first, ids);
    })?;
    let Some((histories, missing)) = Histories::of_others(data, items, users) else {
        let what = "has no item known to the run; check that the ids match";
        return Err(Error::request(format!("{} {what}", path.display()), ""));
    };
    if missing > 0 {
        let what = format!("{missing} of {rows} rows have items unknown to the run");
        job.warn(&format!("{}: {what}", path.display()));
    }
    Ok(histories)
}

/// Visits the ids of a vector table of a run with the number of their first row, if the run has that table.
fn visit_ids(run: &RunFolder, table: &str, mut visit: impl FnMut(u32, &Ids)) -> Result<()> {
    if !run.tables().contains(&table) {
        return Ok(());
    }
    let source = Source::Path(run.table(Some(table))?);
    let mut reader = TableReader::open(&source, &ReadOptions::default())?;
    while let Some(chunk) = reader.next_chunk()? {
        visit(chunk.first_row as u32, &chunk.ids);
    }
    Ok(())
}

/// Warns about users without a vector or a history.
fn warn_of_unknown(groups: &Groups, requested: &Ids, job: &Job<'_>) {
    if groups.unknown.is_empty() {
        return;
    }
    let named: Vec<String> =
        groups.unknown.iter().take(NAMED).map(|&at| requested.get(at)).collect();
    let more = if groups.unknown.len() > NAMED { ", ..." } else { "" };
    job.warn(&format!(
        "{} users are unknown and get no recommendations: {}{more}",
        groups.unknown.len(),
        named.join(", ")
    ));
}

/// The output table.
struct List<'a> {
    settings: &'a Recommend,
    requested: &'a Ids,
    histories: &'a Histories,
    writer: ColumnWriter,
    rows: u64,
    progress: Progress,
}

impl<'a> List<'a> {
    fn create(
        settings: &'a Recommend,
        requested: &'a Ids,
        histories: &'a Histories,
        n_users: usize,
        job: &Job<'_>,
    ) -> Result<Self> {
        let user = match requested {
            Ids::Int(_) => DataType::Int64,
            Ids::Text(_) => DataType::Utf8,
        };
        let fields = vec![
            Field::new("user", user, false),
            Field::new("item", histories.items.data_type(), false),
            Field::new("score", DataType::Float32, false),
            Field::new("rank", DataType::Int32, false),
        ];
        let writer = ColumnWriter::create(&settings.out, fields)?;
        let progress = job.progress("recommending", "users", Some(n_users as u64));
        Ok(Self { settings, requested, histories, writer, rows: 0, progress })
    }

    /// Adds what a model in memory recommends.
    fn add_held(&mut self, model: &Model, users: &[Known]) -> Result<()> {
        let Recommend { k, keep_seen, .. } = *self.settings;
        let (scorer, Histories { lists, sequences, .. }) = (model.scorer()?, self.histories);
        for block in users.chunks(BLOCK) {
            self.progress.check()?;
            let numbers: Vec<u32> = block.iter().map(|user| user.history).collect();
            let best = veridical_embed::recommend(
                &*scorer,
                &numbers,
                lists,
                Some(sequences),
                k,
                keep_seen,
            );
            self.write(block.iter().map(|user| user.at), &best)?;
        }
        Ok(())
    }

    /// Adds what is recommended to users by their vectors, or by their histories for a model without user vectors.
    fn add_known(
        &mut self,
        tables: &mut StoredVectors<'_>,
        users: &[Known],
        job: &Job<'_>,
    ) -> Result<()> {
        let Recommend { k, keep_seen, .. } = *self.settings;
        for block in users.chunks(BLOCK) {
            let numbers: Vec<u32> = block.iter().map(|user| user.history).collect();
            let (lists, _) = self.histories.of(&numbers);
            let rows: Vec<u32> = block.iter().filter_map(|user| user.row).collect();
            let vectors = match tables.has_users() {
                true => tables.of_users(&rows)?,
                false => tables.of_means(&lists)?,
            };
            let best = tables.recommend(&vectors, &lists, k, keep_seen, job)?;
            self.write(block.iter().map(|user| user.at), &best)?;
        }
        Ok(())
    }

    /// Adds what is recommended to users that are folded in.
    fn add_new(
        &mut self,
        tables: &mut StoredVectors<'_>,
        users: &[(usize, u32)],
        problem: FoldIn,
        job: &Job<'_>,
    ) -> Result<()> {
        let Recommend { k, keep_seen, .. } = *self.settings;
        let gram = tables.gram(problem, job)?;
        for block in users.chunks(BLOCK) {
            let numbers: Vec<u32> = block.iter().map(|&(_, number)| number).collect();
            let (lists, ratings) = self.histories.of(&numbers);
            let vectors = tables.of_new_users(&lists, ratings.as_deref(), problem, &gram)?;
            let best = tables.recommend(&vectors, &lists, k, keep_seen, job)?;
            self.write(block.iter().map(|&(at, _)| at), &best)?;
        }
        Ok(())
    }

    /// Writes the lists of users, given by their places in the request.
    fn write(&mut self, users: impl Iterator<Item = usize>, lists: &[Vec<Scored>]) -> Result<()> {
        let (mut places, mut items, mut scores, mut ranks) = (vec![], vec![], vec![], vec![]);
        for (at, list) in users.zip(lists) {
            for (rank, scored) in (1i32..).zip(list) {
                places.push(at);
                items.push(scored.number);
                scores.push(scored.score);
                ranks.push(rank);
            }
        }
        self.rows += ranks.len() as u64;
        self.writer.write(vec![
            gather(self.requested, &places),
            self.histories.items.array(&items),
            Arc::new(Float32Array::from(scores)),
            Arc::new(Int32Array::from(ranks)),
        ])?;
        self.progress.advance(lists.len() as u64);
        Ok(())
    }

    fn finish(self) -> Result<u64> {
        self.writer.finish()?;
        Ok(self.rows)
    }
}

fn gather(ids: &Ids, places: &[usize]) -> ArrayRef {
    match ids {
        Ids::Int(ids) => {
            Arc::new(Int64Array::from_iter_values(places.iter().map(|&at| ids.value(at))))
        }
        Ids::Text(ids) => {
            Arc::new(StringArray::from_iter_values(places.iter().map(|&at| ids.value(at))))
        }
    }
}
