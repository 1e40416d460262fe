//! `veridical recommend`: the best items of users.
//!
//! The histories are those the run was trained on, unless other interactions are given. Users that the run
//! knows keep their vectors; users it does not know are folded in from their history
//! ([`veridical_embed::fold_in`]). Methods that score from the history alone treat both alike.

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

use crate::evaluate::divided_as;
use crate::train::{Divided, Request, layer_of, method_of, reading};
use crate::{Error, Result};

/// Users whose lists are made and written at once.
const BLOCK: usize = 4096;
/// Ids that a warning names.
const NAMED: usize = 5;

settings! {
    /// What to recommend, and where to.
    pub struct Recommend {
        /// Run folder
        pub run: Input = Input::default() => [required(), value("RUN")],
        /// Users to recommend to: one id per line, or a column of CSV or Parquet
        pub users: Option<Input> = None => [otherwise("all")],
        /// Histories of users
        pub interactions: Option<Input> = None => [otherwise("what the run was trained on")],
        /// Items per user
        pub k: usize = 20 => [value("K"), at_least(1.0)],
        /// Also recommend items of the history
        pub keep_seen: bool = false => [switch()],
        /// Table to write: .parquet, .arrow, .csv, .tsv or .jsonl
        pub out: Output = Output::default() => [required()],
    } with {
        /// What to do about an earlier output.
        pub replace: Replace,
    }
}

/// What was written.
#[derive(Clone, Debug, Serialize)]
pub struct Recommended {
    /// The table.
    pub out: String,
    /// Users with a list.
    pub users: usize,
    /// Rows of the table.
    pub rows: u64,
    /// Users the run does not know, scored from their history.
    pub folded_in: usize,
    /// Users of whom nothing is known: they have no list.
    pub unknown: Vec<String>,
}

/// Writes the best items of every user: user, item, score, rank.
///
/// # Errors
/// [`Error::Core`] for a run that recommends nothing, and if no user is left.
pub fn recommend(settings: &Recommend, job: &Job<'_>) -> Result<Recommended> {
    settings.check()?;
    let out = &settings.out;
    publish::check_new(out, settings.replace.force)?;
    let run = RunFolder::open(&settings.run)?;
    let method = method_of(&run)?;
    if method.purpose() == Purpose::Text {
        let what = "learnt from documents, which have no users; see `veridical similar`";
        return Err(Error::request(format!("{} {what}", run.path().display()), ""));
    }
    let histories = histories(&run, method, settings.interactions.as_deref(), job)?;
    let asked = match &settings.users {
        Some(path) => read_ids(path, &ReadOptions::default())?,
        None => histories.users.ids().clone(),
    };
    let model = Model::from_parts(run.model()?)?;
    let mut groups = Groups::of(&histories, &model, &asked);
    warn_of_unknown(&groups, &asked, job);
    if groups.is_empty() {
        let what = "nothing is known of any of the users; name their histories with";
        return Err(Error::request(format!("{what} ⟨interactions⟩ FILE"), ""));
    }

    let mut list = List::create(settings, &asked, &histories.items, groups.len(), job)?;
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
        unknown: groups.unknown.iter().map(|&at| asked.get(at)).collect(),
    })
}

/// What users chose: the rows the run was trained on, or those of another file.
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
        let what = "has no item that the run knows; are the ids the same?";
        return Err(Error::request(format!("{} {what}", path.display()), ""));
    };
    if missing > 0 {
        let what = format!("{missing} of {rows} rows have items that the run does not know");
        job.warn(&format!("{}: {what}", path.display()));
    }
    Ok(histories)
}

/// Warns of users of whom nothing is known.
fn warn_of_unknown(groups: &Groups, asked: &Ids, job: &Job<'_>) {
    if groups.unknown.is_empty() {
        return;
    }
    let named: Vec<String> = groups.unknown.iter().take(NAMED).map(|&at| asked.get(at)).collect();
    let more = if groups.unknown.len() > NAMED { ", ..." } else { "" };
    job.warn(&format!(
        "nothing is known of {} users, who get no list: {}{more}",
        groups.unknown.len(),
        named.join(", ")
    ));
}

/// The table that is written.
struct List<'a> {
    settings: &'a Recommend,
    asked: &'a Ids,
    items: &'a IdMap,
    writer: ColumnWriter,
    rows: u64,
    progress: Progress,
}

impl<'a> List<'a> {
    fn create(
        settings: &'a Recommend,
        asked: &'a Ids,
        items: &'a IdMap,
        n_users: usize,
        job: &Job<'_>,
    ) -> Result<Self> {
        let user = match asked {
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
        Ok(Self { settings, asked, items, writer, rows: 0, progress })
    }

    /// Adds the lists of users, given by their places among those asked for and their numbers.
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
                gather(self.asked, &places),
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
