//! `veridical recommend`: top-k items per user.
//!
//! Histories are the interactions the run was trained on, unless others are given. Users known to the run keep their
//! vectors; unknown users are folded in from their history ([`veridical_embed::fold_in`]). Methods that score from the
//! history alone treat both the same.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float32Array, Int32Array, Int64Array, StringArray};
use arrow_schema::{DataType, Field};
use serde::Serialize;
use serde_json::{Map, Value};
use veridical_core::Job;
use veridical_core::settings::Settings as _;
use veridical_core::{Progress, settings};
use veridical_data::{IdMap, Ids, Lists, fingerprint};
use veridical_embed::fold_in::{FoldIn, fold_in};
use veridical_embed::histories::{Groups, Histories};
use veridical_embed::{Method, Model, Purpose, Scorer};
use veridical_io::run::RunFolder;
use veridical_io::{ColumnWriter, Input, Output, ReadOptions, Replace, Source, publish, read_ids};

use crate::evaluate::{MEAN_OF_VECTORS, divided_as};
use crate::train::{Divided, Request, layer_of, method_of, reading};
use crate::{Error, Result};

/// Number of users that are scored and written at once.
const BLOCK: usize = 4096;
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
/// [`Error::Core`] for a run that cannot recommend, and if no user can be scored.
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
    let histories = histories(&run, method, settings.interactions.as_deref(), job)?;
    let requested = match &settings.users {
        Some(path) => read_ids(path, &ReadOptions::default())?,
        None => histories.users.ids().clone(),
    };
    let model = Model::from_parts(run.model()?)?;
    let mut groups = Groups::of(&histories, &model, &requested);
    warn_of_unknown(&groups, &requested, job);
    if groups.is_empty() {
        let what = "none of the users is known to the run; pass their histories with";
        return Err(Error::request(format!("{what} ⟨interactions⟩ FILE"), ""));
    }

    let mut list = List::create(settings, &requested, &histories.items, groups.len(), job)?;
    let known = std::mem::take(&mut groups.known);
    let history = match &model {
        Model::Factors(factors) => histories.by_number(factors.user.n_rows()),
        _ => histories.lists.clone(),
    };
    list.add(&*model.scorer()?, &known, &history, Some(&histories.sequences))?;
    if !groups.new.is_empty() {
        let given = run.document().get("settings").and_then(Value::as_object).cloned();
        let problem = FoldIn::of(method, &given.unwrap_or_else(Map::new))?;
        let (history, ratings) = histories.of(&groups.new);
        let scorer = fold_in(&model, &history, ratings.as_deref(), problem)?;
        let numbered: Vec<(usize, u32)> =
            groups.new.iter().zip(0..).map(|(&(at, _), number)| (at, number)).collect();
        list.add(&*scorer, &numbered, &history, None)?;
    }
    Ok(Recommended {
        out: out.to_string(),
        users: known.len() + groups.new.len(),
        rows: list.finish()?,
        folded_in: groups.new.len(),
        unknown: groups.unknown.iter().map(|&at| requested.get(at)).collect(),
    })
}

/// Returns the histories: the rows the run was trained on, or those of another file.
fn histories(
    run: &RunFolder,
    method: Method,
    given: Option<&Path>,
    job: &Job<'_>,
) -> Result<Histories> {
    let own = || divided_as(run, None, job);
    let of_run = |Divided { data, split, .. }: Divided| Histories::of_split(data, &split);
    let Some(path) = given else { return Ok(of_run(own()?)) };
    let (_, layer) = layer_of(run.path())?;
    let options = Request::new(method, &[layer])?.options;
    let data = reading::interactions(path, &options.reading, job)?;
    let recorded = run.document().get("data").and_then(|data| data.get("fingerprint"));
    if recorded.and_then(Value::as_str) == Some(&fingerprint::of_interactions(&data)) {
        let rule = options.split.rule()?;
        return Ok(of_run(Divided::divide(data, rule, &options.split, job)?));
    }
    let table = |name: &str| -> Result<Option<IdMap>> {
        if !run.tables().contains(&name) {
            return Ok(None);
        }
        let source = Source::Path(run.table(Some(name))?);
        Ok(Some(IdMap::of(&veridical_io::read_table(&source, &ReadOptions::default())?.ids).0))
    };
    let items = match table("item")? {
        Some(items) => items,
        None => own()?.data.items,
    };
    let rows = data.len();
    let Some((histories, missing)) = Histories::of_others(data, items, table("user")?) else {
        let what = "has no item known to the run; check that the ids match";
        return Err(Error::request(format!("{} {what}", path.display()), ""));
    };
    if missing > 0 {
        let what = format!("{missing} of {rows} rows have items unknown to the run");
        job.warn(&format!("{}: {what}", path.display()));
    }
    Ok(histories)
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
    items: &'a IdMap,
    writer: ColumnWriter,
    rows: u64,
    progress: Progress,
}

impl<'a> List<'a> {
    fn create(
        settings: &'a Recommend,
        requested: &'a Ids,
        items: &'a IdMap,
        n_users: usize,
        job: &Job<'_>,
    ) -> Result<Self> {
        let user = match requested {
            Ids::Int(_) => DataType::Int64,
            Ids::Text(_) => DataType::Utf8,
        };
        let fields = vec![
            Field::new("user", user, false),
            Field::new("item", items.data_type(), false),
            Field::new("score", DataType::Float32, false),
            Field::new("rank", DataType::Int32, false),
        ];
        let writer = ColumnWriter::create(&settings.out, fields)?;
        let progress = job.progress("recommending", "users", Some(n_users as u64));
        Ok(Self { settings, requested, items, writer, rows: 0, progress })
    }

    /// Adds the recommendations of users, given by their positions in the request and their indices.
    fn add(
        &mut self,
        scorer: &dyn Scorer,
        users: &[(usize, u32)],
        history: &Lists,
        sequences: Option<&Lists>,
    ) -> Result<()> {
        let Recommend { k, keep_seen, .. } = *self.settings;
        for block in users.chunks(BLOCK) {
            self.progress.check()?;
            let numbers: Vec<u32> = block.iter().map(|&(_, number)| number).collect();
            let lists =
                veridical_embed::recommend(scorer, &numbers, history, sequences, k, keep_seen);
            let (mut places, mut items, mut scores, mut ranks) = (vec![], vec![], vec![], vec![]);
            for (&(at, _), list) in block.iter().zip(&lists) {
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
                self.items.array(&items),
                Arc::new(Float32Array::from(scores)),
                Arc::new(Int32Array::from(ranks)),
            ])?;
            self.progress.advance(block.len() as u64);
        }
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
