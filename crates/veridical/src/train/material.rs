//! What a training works on, once read: rows and their split, or documents; graphs; and what `run.json`
//! says about them.

use std::path::Path;

use arrow_array::StringArray;
use serde_json::{Map, Value, json};
use veridical_core::Seed;
use veridical_data::run::{RunFolder, TensorMap};
use veridical_data::split::{self, Short, SplitOptions};
use veridical_data::{
    Corpus, IdMap, Ids, Interactions, ReadOptions, Source, Split, SplitRule, Table, fingerprint,
};
use veridical_embed::{Embedding, Graphs, Input, Method, Purpose};

use super::options::{Options, Request};
use super::{reading, warm};
use crate::{Error, Observer, Result};

/// Everything that was read.
#[derive(Debug)]
pub(crate) struct Material {
    data: Data,
    /// Vectors of the items, in their order.
    item_vectors: Option<Embedding>,
    /// What is known about the rows of the tables.
    pub graphs: Graphs,
    /// The sections of `run.json` about the data.
    pub sections: Map<String, Value>,
}

#[derive(Debug)]
enum Data {
    Interactions(Box<Divided>),
    Text { corpus: Box<Corpus>, words: Ids },
}

impl Material {
    /// Reads what the options name.
    pub fn load(request: &Request, observer: &dyn Observer) -> Result<Self> {
        let Request { method, options, .. } = request;
        let mut sections = Map::new();
        let data = match method.purpose() {
            Purpose::Text => {
                refuse_interactions(*method, options)?;
                let corpus = reading::text(*method, options, observer)?;
                let described = json!({
                    "fingerprint": fingerprint::of_corpus(&corpus),
                    "documents": corpus.docs.len(),
                    "words": corpus.words.len(),
                    "tokens": corpus.tokens.values().len(),
                });
                sections.insert("data".into(), described);
                let words = Ids::Text(StringArray::from_iter_values(&corpus.words));
                Data::Text { corpus: Box::new(corpus), words }
            }
            Purpose::Rating | Purpose::Ranking => {
                let divided = Divided::load(*method, options, observer)?;
                sections.insert("data".into(), divided.describe_data());
                sections.insert("split".into(), divided.describe_split());
                Data::Interactions(Box::new(divided))
            }
        };
        let graphs = Graphs::default();
        let mut material = Self { data, item_vectors: None, graphs, sections };
        material.read_graphs(options, observer)?;
        if let Some(path) = &options.item_vectors {
            material.read_vectors(*method, path, observer)?;
        }
        Ok(material)
    }

    /// What the trainer learns from.
    pub fn input(&self) -> Input<'_> {
        match &self.data {
            Data::Interactions(divided) => {
                let item_vectors = self.item_vectors.as_ref();
                Input::Interactions {
                    data: &divided.data,
                    rows: &divided.split.train,
                    item_vectors,
                }
            }
            Data::Text { corpus, .. } => Input::Text(corpus),
        }
    }

    /// Rows and split, if it is interactions.
    pub fn divided(&self) -> Option<&Divided> {
        match &self.data {
            Data::Interactions(divided) => Some(divided),
            Data::Text { .. } => None,
        }
    }

    /// The ids of a vector table.
    pub fn ids(&self, table: &str) -> Option<&Ids> {
        match (&self.data, table) {
            (Data::Interactions(divided), "user") => Some(divided.data.users.ids()),
            (Data::Interactions(divided), "item" | "context") => Some(divided.data.items.ids()),
            (Data::Text { corpus, .. }, "doc") => Some(&corpus.docs),
            (Data::Text { words, .. }, "word" | "context") => Some(words),
            _ => None,
        }
    }

    /// The table whose ids name the rows of a matrix of a model.
    pub fn table_of(&self, matrix: &str) -> Option<&'static str> {
        match (&self.data, matrix) {
            (Data::Interactions(_), "user" | "user.bias") => Some("user"),
            (Data::Interactions(_), "item" | "item.bias" | "context") => Some("item"),
            (Data::Text { .. }, "doc") => Some("doc"),
            (Data::Text { .. }, "word" | "context") => Some("context"),
            _ => None,
        }
    }

    /// The table that a vector table without a run stands for.
    pub fn main_table(&self) -> &'static str {
        match &self.data {
            Data::Interactions(_) => "item",
            Data::Text { .. } => "doc",
        }
    }

    /// The ids of a table in ascending order, and the place of every row among them.
    fn id_map(&self, table: &str) -> Option<(IdMap, Vec<u32>)> {
        Some(match self.ids(table)? {
            Ids::Int(ids) => IdMap::of_integers(ids.values()),
            Ids::Text(ids) => IdMap::of_texts(ids.iter().flatten()),
        })
    }

    /// The vectors of items that a method reads; an item without one has zeros.
    fn read_vectors(&mut self, method: Method, path: &Path, observer: &dyn Observer) -> Result<()> {
        if method != Method::TwoTower {
            let what =
                format!("{} learns its own vectors and takes no --item-vectors", method.name());
            return Err(Error::Usage(format!("{what}; --init gives it vectors to start from")));
        }
        let Some(ids) = self.ids("item") else { return Ok(()) };
        let run = if RunFolder::is_run(path) { Some(RunFolder::open(path)?) } else { None };
        let file = match &run {
            None => path.to_owned(),
            Some(run) => {
                let tables = run.tables();
                let table = ["item", "doc"].into_iter().find(|table| tables.contains(table));
                run.table(table)?
            }
        };
        let Table { ids: given, dim, vectors } =
            Table::load(&Source::Path(file), &ReadOptions::default())?;
        let places = warm::places(&given, ids);
        let known = places.iter().flatten().count();
        let n = ids.len();
        if known == 0 {
            let what =
                "shares no id with the items of the interactions; is it of the same catalogue?";
            return Err(Error::Usage(format!("--item-vectors {} {what}", path.display())));
        }
        if known < n {
            let what = format!("{} of {n} items have no vector and are read as zeros", n - known);
            observer.warn(&format!("--item-vectors {}: {what}", path.display()));
        }
        let mut rows = vec![0.0; n * dim];
        for (row, place) in rows.chunks_exact_mut(dim).zip(places) {
            if let Some(r) = place {
                row.copy_from_slice(&vectors[r * dim..][..dim]);
            }
        }
        if let Some(at) = rows.iter().position(|x| !x.is_finite()) {
            let (item, value) = (ids.get(at / dim), rows[at]);
            let what = format!("item {item} has the value {value}; vectors must be finite");
            return Err(Error::Usage(format!("--item-vectors {}: {what}", path.display())));
        }
        let tensor = TensorMap::from([("vectors".to_owned(), (vec![n, dim], rows.clone()))]);
        self.sections.insert("item_vectors".into(), fingerprint::of_tensors(&tensor).into());
        self.item_vectors = Some(Embedding::new(dim, rows));
        Ok(())
    }

    fn read_graphs(&mut self, options: &Options, observer: &dyn Observer) -> Result<()> {
        let tables = [
            ("user", &options.sse_graph_user, &options.sse_groups_user),
            ("item", &options.sse_graph_item, &options.sse_groups_item),
            ("word", &options.sse_graph_word, &options.sse_groups_word),
        ];
        let mut described = Map::new();
        for (table, edges, groups) in tables {
            if edges.is_none() && groups.is_none() {
                continue;
            }
            let Some((ids, places)) = self.id_map(table) else {
                let flag = if edges.is_some() { "graph" } else { "groups" };
                let what = format!("--sse-{flag}-{table}: this method has no table of {table}s");
                return Err(Error::Usage(what));
            };
            let graph = match (edges, groups) {
                (Some(path), None) => reading::edges(path, options, &ids, observer)?,
                (None, Some(path)) => reading::groups(path, options, &ids, observer)?,
                _ => {
                    let (a, b) = (format!("--sse-graph-{table}"), format!("--sse-groups-{table}"));
                    return Err(Error::Usage(format!("give either {a} or {b}, not both")));
                }
            };
            let graph = graph.renumbered(&places);
            described.insert(table.into(), fingerprint::of_graph(&graph).into());
            let place = match table {
                "user" => &mut self.graphs.user,
                "item" => &mut self.graphs.item,
                _ => &mut self.graphs.word,
            };
            *place = Some(graph);
        }
        if !described.is_empty() {
            self.sections.insert("graphs".into(), described.into());
        }
        Ok(())
    }
}

/// Interactions and which of them are learnt from.
#[derive(Debug)]
pub(crate) struct Divided {
    /// All rows.
    pub data: Interactions,
    /// How they were divided.
    pub rule: SplitRule,
    /// Their parts.
    pub split: Split,
    dropped_users: usize,
    seed: Seed,
    validation: f64,
    short: Short,
}

impl Divided {
    /// Reads and divides.
    pub fn load(method: Method, options: &Options, observer: &dyn Observer) -> Result<Self> {
        refuse_text(method, options)?;
        let Some(path) = &options.interactions else {
            let what = "learns from interactions; name them with --interactions FILE";
            return Err(Error::Usage(format!("{} {what}", method.name())));
        };
        let rule = options.rule()?; // before a long read
        let data = reading::interactions(path, options, observer)?;
        Self::divide(data, rule, options, observer)
    }

    /// Divides rows by the options.
    pub fn divide(
        data: Interactions,
        rule: SplitRule,
        options: &Options,
        observer: &dyn Observer,
    ) -> Result<Self> {
        let seed = Seed::new(options.split_seed.unwrap_or(0))
            .map_err(|e| Error::Usage(format!("--split-{e}")))?;
        let validation = options.validation.unwrap_or(0.0);
        let short = match options.short_users.as_deref() {
            None | Some("error") => Short::Error,
            Some("drop") => Short::Drop,
            Some(other) => {
                let what = "--short-users must be error or drop, got";
                return Err(Error::Usage(format!("{what} {other}")));
            }
        };
        let outcome = split::apply(rule, &data, SplitOptions { seed, validation, short })?;
        outcome.notes.iter().for_each(|note| observer.note(note));
        let (split, dropped_users) = (outcome.split, outcome.dropped_users);
        Ok(Self { data, rule, split, dropped_users, seed, validation, short })
    }

    /// Other rows under the same rule.
    pub fn with(&self, data: Interactions, split: Split) -> Self {
        Self { data, split, ..*self }
    }

    /// The section `data` of `run.json`.
    pub fn describe_data(&self) -> Value {
        json!({
            "fingerprint": fingerprint::of_interactions(&self.data),
            "rows": self.data.len(),
            "users": self.data.users.len(),
            "items": self.data.items.len(),
        })
    }

    /// The section `split` of `run.json`.
    pub fn describe_split(&self) -> Value {
        let Split { train, validation, test } = &self.split;
        json!({
            "rule": self.rule.to_string(),
            "seed": self.seed.get(),
            "validation": self.validation,
            "short_users": if self.short == Short::Drop { "drop" } else { "error" },
            "fingerprint": self.split.fingerprint(),
            "rows": { "train": train.len(), "validation": validation.len(), "test": test.len() },
            "dropped_users": self.dropped_users,
        })
    }

    /// Users, items and ratings of some rows.
    pub fn pairs(&self, rows: &[u32]) -> Result<(Vec<u32>, Vec<u32>, Vec<f32>)> {
        let Some(ratings) = &self.data.rating else {
            let what =
                "the interactions have no ratings to judge by; name their column with --columns";
            return Err(Error::Usage(format!("{what} rating=NAME")));
        };
        let of = |values: &[u32]| rows.iter().map(|&r| values[r as usize]).collect();
        let ratings = rows.iter().map(|&r| ratings[r as usize]).collect();
        Ok((of(&self.data.user), of(&self.data.item), ratings))
    }
}

/// What is for documents alone.
fn refuse_text(method: Method, options: &Options) -> Result<()> {
    let given = [
        ("text", options.text.is_some()),
        ("column", options.column.is_some()),
        ("id-column", options.id_column.is_some()),
        ("min-count", options.min_count.is_some()),
    ];
    refuse(method, "--interactions", &given)
}

/// What is for interactions alone.
fn refuse_interactions(method: Method, options: &Options) -> Result<()> {
    let given = [
        ("interactions", options.interactions.is_some()),
        ("split", options.split.as_deref().is_some_and(|rule| rule != "none")),
        ("validation", options.validation.is_some_and(|share| share != 0.0)),
        ("min-rating", options.min_rating.is_some()),
        ("columns", options.columns.is_some()),
    ];
    refuse(method, "--text", &given)
}

fn refuse(method: Method, source: &str, given: &[(&str, bool)]) -> Result<()> {
    match given.iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((flag, _)) => {
            let what = format!("{} learns from {source} and takes no --{flag}", method.name());
            Err(Error::Usage(what))
        }
    }
}
