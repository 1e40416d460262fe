//! `veridical recommend`: the best items of users.
//!
//! The histories are those the run was trained on, unless other interactions are given. Users that the run
//! knows keep their vectors; users it does not know are folded in from their history
//! ([`veridical_embed::fold_in`]). Methods that score from the history alone treat both alike.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, Float32Array, Int32Array, Int64Array, StringArray};
use arrow_schema::{DataType, Field};
use serde::Serialize;
use serde_json::{Map, Value};
use veridical_core::interrupt;
use veridical_core::progress::Progress;
use veridical_data::run::RunFolder;
use veridical_data::{
    ColumnWriter, IdMap, Ids, Interactions, Lists, ReadOptions, Source, Table, fingerprint,
    read_ids,
};
use veridical_embed::fold_in::{FoldIn, fold_in};
use veridical_embed::{Method, Model, Purpose, Scorer, Tensors};

use crate::evaluate::divided_as;
use crate::train::{Divided, Layer, Options, Request, method_of, reading};
use crate::{Error, Observer, Result};

/// Users whose lists are made and written at once.
const BLOCK: usize = 4096;
/// Ids that a warning names.
const NAMED: usize = 5;

/// What to recommend, and where to.
#[derive(Clone, Debug)]
pub struct Recommend {
    /// A run folder.
    pub run: PathBuf,
    /// Histories of users, in place of those the run was trained on.
    pub interactions: Option<PathBuf>,
    /// A file of the users to recommend to; all by default.
    pub users: Option<PathBuf>,
    /// Items per user.
    pub k: usize,
    /// Also items of the history.
    pub keep_seen: bool,
    /// The table to write.
    pub out: PathBuf,
    /// Replace a file that is there.
    pub force: bool,
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
/// [`Error::Usage`] for a run that recommends nothing, and if no user is left.
pub fn recommend(settings: &Recommend, observer: &dyn Observer) -> Result<Recommended> {
    let Recommend { run, k, out, force, .. } = settings;
    if !force && out.exists() {
        let what = "exists already; choose another name or replace it with --force";
        return Err(Error::Usage(format!("{} {what}", out.display())));
    }
    if *k == 0 {
        return Err(Error::Usage("--k must be at least 1, got 0".into()));
    }
    let run = RunFolder::open(run)?;
    let method = method_of(&run)?;
    if method.purpose() == Purpose::Text {
        let what = "learnt from documents, which have no users; see `veridical similar`";
        return Err(Error::Usage(format!("{} {what}", run.path().display())));
    }
    let histories = Histories::load(&run, method, settings.interactions.as_deref(), observer)?;
    let asked = match &settings.users {
        Some(path) => read_ids(path, &ReadOptions::default())?,
        None => histories.users.ids().clone(),
    };
    let model = Model::from_parts(Tensors(run.model()?))?;
    let mut groups = Groups::of(&histories, &model, &asked);
    groups.unknown_warning(&asked, observer);
    if groups.known.is_empty() && groups.new.is_empty() {
        let what = "nothing is known of any of the users; name their histories with";
        return Err(Error::Usage(format!("{what} --interactions FILE")));
    }

    let mut list = List::create(settings, &asked, &histories.items, groups.len(), observer)?;
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
        out: out.display().to_string(),
        users: known.len() + groups.new.len(),
        rows: list.finish()?,
        folded_in: groups.new.len(),
        unknown: groups.unknown.iter().map(|&at| asked.get(at)).collect(),
    })
}

/// What users are known to have chosen, in the numbers of the model's items.
struct Histories {
    users: IdMap,
    /// The model's items.
    items: IdMap,
    /// One list per user, ascending, and an empty one at the end.
    lists: Lists,
    /// The same in the order of time, repeats included.
    sequences: Lists,
    /// One rating per entry, if there are any.
    ratings: Option<Vec<f32>>,
    /// The number of every user in the model, if it has vectors of users.
    in_model: Vec<Option<u32>>,
    /// The model's users, if they are others.
    model_users: Option<IdMap>,
}

impl Histories {
    fn load(
        run: &RunFolder,
        method: Method,
        given: Option<&Path>,
        observer: &dyn Observer,
    ) -> Result<Self> {
        let own = || divided_as(run, &Options::default(), observer);
        let Some(path) = given else { return Ok(Self::of_run(own()?)) };
        let (_, layer) = Layer::run(run.path())?;
        let mut options = Request::new(method, &[layer])?.options;
        options.interactions = Some(path.to_owned());
        let data = reading::interactions(path, &options, observer)?;
        let recorded = run.document().get("data").and_then(|data| data.get("fingerprint"));
        if recorded.and_then(Value::as_str) == Some(&fingerprint::of_interactions(&data)) {
            return Ok(Self::of_run(Divided::divide(data, options.rule()?, &options, observer)?));
        }
        let table = |name: &str| -> Result<Option<IdMap>> {
            if !run.tables().contains(&name) {
                return Ok(None);
            }
            let source = Source::Path(run.table(Some(name))?);
            Ok(Some(id_map(&Table::load(&source, &ReadOptions::default())?.ids).0))
        };
        let items = match table("item")? {
            Some(items) => items,
            None => own()?.data.items,
        };
        Self::of_others(data, items, table("user")?, path, observer)
    }

    /// All rows but those kept back for the test, which may be recommended. Users without training rows, such
    /// as those who were too short for the split, have a vector as it was drawn, and are folded in.
    fn of_run(divided: Divided) -> Self {
        let Divided { data, split, .. } = divided;
        let mut is_test = vec![false; data.len()];
        split.test.iter().for_each(|&row| is_test[row as usize] = true);
        let rows: Vec<u32> = (0..data.len() as u32).filter(|&r| !is_test[r as usize]).collect();
        let mut in_model = vec![None; data.users.len()];
        for &row in &split.train {
            let user = data.user[row as usize];
            in_model[user as usize] = Some(user);
        }
        let same = (0..data.items.len() as u32).map(Some).collect::<Vec<_>>();
        Self::new(data, &rows, &same, in_model, None)
    }

    /// All rows of other data whose items the model knows.
    fn of_others(
        data: Interactions,
        items: IdMap,
        users: Option<IdMap>,
        path: &Path,
        observer: &dyn Observer,
    ) -> Result<Self> {
        let number = |map: &IdMap, id: String| map.number(&id);
        let item_of: Vec<Option<u32>> =
            (0..data.items.len() as u32).map(|i| number(&items, data.items.id(i))).collect();
        let known = |r: &u32| item_of[data.item[*r as usize] as usize].is_some();
        let rows: Vec<u32> = (0..data.len() as u32).filter(known).collect();
        if rows.is_empty() {
            let what = "has no item that the run knows; are the ids the same?";
            return Err(Error::Usage(format!("{} {what}", path.display())));
        }
        let missing = data.len() - rows.len();
        if missing > 0 {
            let what =
                format!("{missing} of {} rows have items that the run does not know", data.len());
            observer.warn(&format!("{}: {what}", path.display()));
        }
        let of_user = |u: u32| users.as_ref().and_then(|users| number(users, data.users.id(u)));
        let in_model = (0..data.users.len() as u32).map(of_user).collect();
        let histories = Self::new(data, &rows, &item_of, in_model, Some(items));
        Ok(Self { model_users: users, ..histories })
    }

    fn new(
        data: Interactions,
        rows: &[u32],
        item_of: &[Option<u32>],
        in_model: Vec<Option<u32>>,
        items: Option<IdMap>,
    ) -> Self {
        let entry = |&r: &u32| {
            let item = item_of[data.item[r as usize] as usize]?;
            Some((data.user[r as usize], item, r))
        };
        let mut entries: Vec<(u32, u32, u32)> = rows.iter().filter_map(entry).collect();
        entries.sort_unstable();
        entries.dedup_by_key(|(user, item, _)| (*user, *item)); // the first rating of a pair counts
        let lists = Lists::collect(
            data.users.len() + 1,
            entries.iter().map(|&(user, item, _)| (user, item)),
        );
        let mut in_time = rows.to_vec();
        if let Some(time) = &data.time {
            in_time.sort_by_key(|&r| (time[r as usize], r));
        }
        let in_time: Vec<(u32, u32)> =
            in_time.iter().filter_map(entry).map(|(user, item, _)| (user, item)).collect();
        let sequences = Lists::collect(data.users.len() + 1, in_time.into_iter());
        let ratings = data.rating.as_ref();
        let ratings = ratings.map(|of| entries.iter().map(|&(.., r)| of[r as usize]).collect());
        let items = items.unwrap_or(data.items);
        Self { users: data.users, items, lists, sequences, ratings, in_model, model_users: None }
    }

    /// The number of a user among the histories, and that of the row that was learnt for them.
    fn find(&self, id: &str) -> (Option<u32>, Option<u32>) {
        let number = self.users.number(id);
        let learnt = match &self.model_users {
            Some(users) => users.number(id),
            None => number.and_then(|u| self.in_model[u as usize]),
        };
        (number, learnt)
    }

    /// The lists by the numbers of users in the model.
    fn by_number(&self, n_users: usize) -> Lists {
        let of_user = |(user, number): (usize, &Option<u32>)| {
            number.map(|number| self.lists.get(user).iter().map(move |&item| (number, item)))
        };
        let pairs = self.in_model.iter().enumerate().filter_map(of_user).flatten();
        Lists::collect(n_users, pairs)
    }

    /// The lists and ratings of some users, numbered from 0.
    fn of(&self, users: &[(usize, u32)]) -> (Lists, Option<Vec<f32>>) {
        let pairs = (0u32..).zip(users).flat_map(|(number, &(_, user))| {
            self.lists.get(user as usize).iter().map(move |&item| (number, item))
        });
        let lists = Lists::collect(users.len(), pairs);
        let ratings = self.ratings.as_ref().map(|ratings| {
            let of_user = |&(_, user): &(usize, u32)| &ratings[self.lists.range(user as usize)];
            users.iter().flat_map(of_user).copied().collect()
        });
        (lists, ratings)
    }
}

/// Who is scored how; users by their place among those asked for.
struct Groups {
    /// With their number for the scorer of the model.
    known: Vec<(usize, u32)>,
    /// To be folded in, with their number among the histories.
    new: Vec<(usize, u32)>,
    /// Of whom nothing is known.
    unknown: Vec<usize>,
}

impl Groups {
    fn of(histories: &Histories, model: &Model, asked: &Ids) -> Self {
        let mut groups = Self { known: Vec::new(), new: Vec::new(), unknown: Vec::new() };
        let nobody = histories.users.len() as u32;
        for at in 0..asked.len() {
            let (number, learnt) = histories.find(&asked.get(at));
            let has_history = number.is_some_and(|u| !histories.lists.get(u as usize).is_empty());
            match (model, number, learnt) {
                (Model::Factors(_), _, Some(learnt)) => groups.known.push((at, learnt)),
                (Model::Factors(_), Some(u), None) if has_history => groups.new.push((at, u)),
                (Model::Popularity(_), u, _) => groups.known.push((at, u.unwrap_or(nobody))),
                (Model::Factors(_), ..) => groups.unknown.push(at),
                (_, Some(u), _) if has_history => groups.known.push((at, u)),
                _ => groups.unknown.push(at),
            }
        }
        groups
    }

    fn len(&self) -> usize {
        self.known.len() + self.new.len()
    }

    fn unknown_warning(&self, asked: &Ids, observer: &dyn Observer) {
        if self.unknown.is_empty() {
            return;
        }
        let named: Vec<String> = self.unknown.iter().take(NAMED).map(|&at| asked.get(at)).collect();
        let more = if self.unknown.len() > NAMED { ", ..." } else { "" };
        observer.warn(&format!(
            "nothing is known of {} users, who get no list: {}{more}",
            self.unknown.len(),
            named.join(", ")
        ));
    }
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
        observer: &dyn Observer,
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
        let progress = observer.progress("recommending", "users", Some(n_users as u64));
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
            interrupt::check()?;
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

/// Ids in ascending order, and the place of each among them.
pub(crate) fn id_map(ids: &Ids) -> (IdMap, Vec<u32>) {
    match ids {
        Ids::Int(ids) => IdMap::of_integers(ids.values()),
        Ids::Text(ids) => IdMap::of_texts(ids.iter().flatten()),
    }
}
