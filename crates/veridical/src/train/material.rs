//! Training data: interactions and their split, or documents; graphs; and the sections of `run.json` about
//! them.

use std::path::Path;

use arrow_array::StringArray;
use serde_json::{Map, Value, json};
use veridical_core::Job;
use veridical_core::Seed;
use veridical_data::TensorMap;
use veridical_data::split::{self, Short, SplitOptions, SplitOutcome};
use veridical_data::{
    Corpus, IdMap, Ids, Interactions, Split, SplitRule, VectorTable, fingerprint,
};
use veridical_embed::{Embedding, Graphs, Input, Method, Purpose};
use veridical_io::run::RunFolder;
use veridical_io::{ReadOptions, Source};

use super::options::{Options, Request};
use super::reading;
use crate::settings::SplitSettings;
use crate::{Error, Result};

/// Everything that was read for training.
#[derive(Debug)]
pub(crate) struct Material {
    data: Data,
    /// Vectors of the items, in item order.
    item_vectors: Option<Embedding>,
    /// Neighbors of the rows of the tables.
    pub graphs: Graphs,
    /// Sections of `run.json` about the data.
    pub sections: Map<String, Value>,
}

#[derive(Debug)]
enum Data {
    Interactions(Box<Divided>),
    Text { corpus: Box<Corpus>, words: Ids },
}

impl Material {
    /// Reads the files that the options name.
    pub fn load(request: &Request, job: &Job<'_>) -> Result<Self> {
        let Request { method, options, .. } = request;
        let mut sections = Map::new();
        let data = match method.purpose() {
            Purpose::Text => {
                refuse_interactions(*method, options)?;
                let corpus = reading::text(*method, options, job)?;
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
                let divided = Divided::load(*method, options, job)?;
                sections.insert("data".into(), divided.describe_data());
                sections.insert("split".into(), divided.describe_split());
                Data::Interactions(Box::new(divided))
            }
        };
        let graphs = Graphs::default();
        let mut material = Self { data, item_vectors: None, graphs, sections };
        material.read_graphs(options, job)?;
        if let Some(path) = &options.graphs.item_vectors {
            material.read_vectors(*method, path, job)?;
        }
        Ok(material)
    }

    /// Returns the input of the trainer.
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

    /// Returns the interactions and their split, if there are any.
    pub fn divided(&self) -> Option<&Divided> {
        match &self.data {
            Data::Interactions(divided) => Some(divided),
            Data::Text { .. } => None,
        }
    }

    /// Returns the ids of a vector table.
    pub fn ids(&self, table: &str) -> Option<&Ids> {
        match (&self.data, table) {
            (Data::Interactions(divided), "user") => Some(divided.data.users.ids()),
            (Data::Interactions(divided), "item" | "context") => Some(divided.data.items.ids()),
            (Data::Text { corpus, .. }, "doc") => Some(&corpus.docs),
            (Data::Text { words, .. }, "word" | "context") => Some(words),
            _ => None,
        }
    }

    /// Returns the table whose ids name the rows of a matrix of the model.
    pub fn table_of(&self, matrix: &str) -> Option<&'static str> {
        match (&self.data, matrix) {
            (Data::Interactions(_), "user" | "user.bias") => Some("user"),
            (Data::Interactions(_), "item" | "item.bias" | "context") => Some("item"),
            (Data::Text { .. }, "doc") => Some("doc"),
            (Data::Text { .. }, "word" | "context") => Some("context"),
            _ => None,
        }
    }

    /// Returns the table that a vector table without a run is used for.
    pub fn main_table(&self) -> &'static str {
        match &self.data {
            Data::Interactions(_) => "item",
            Data::Text { .. } => "doc",
        }
    }

    /// Returns the ids of a table in ascending order, and the index of every row among them.
    fn id_map(&self, table: &str) -> Option<(IdMap, Vec<u32>)> {
        self.ids(table).map(IdMap::of)
    }

    /// Reads the item vectors that a method takes as input; an item without one gets zeros.
    fn read_vectors(&mut self, method: Method, path: &Path, job: &Job<'_>) -> Result<()> {
        if method != Method::TwoTower {
            let what =
                format!("{} learns its own vectors and does not use ⟨item-vectors⟩", method.name());
            return Err(Error::request(what, "use ⟨init⟩ for initial vectors"));
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
        let VectorTable { ids: given, dim, vectors } =
            veridical_io::read_table(&Source::Path(file), &ReadOptions::default())?;
        let places = veridical_data::places(&given, ids);
        let known = places.iter().flatten().count();
        let n = ids.len();
        if known == 0 {
            let what = "has no id in common with the items of the interactions; check that it is from the same catalog";
            return Err(Error::request(format!("⟨item-vectors⟩ {} {what}", path.display()), ""));
        }
        if known < n {
            let what = format!("{} of {n} items have no vector and get zeros", n - known);
            job.warn(&format!("⟨item-vectors⟩ {}: {what}", path.display()));
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
            return Err(Error::request(format!("⟨item-vectors⟩ {}: {what}", path.display()), ""));
        }
        let tensor = TensorMap::from([("vectors".to_owned(), (vec![n, dim], rows.clone()))]);
        self.sections.insert("item_vectors".into(), fingerprint::of_tensors(&tensor).into());
        self.item_vectors = Some(Embedding::new(dim, rows));
        Ok(())
    }

    fn read_graphs(&mut self, options: &Options, job: &Job<'_>) -> Result<()> {
        let files = &options.graphs;
        let tables = [
            ("user", &files.sse_graph_user, &files.sse_groups_user),
            ("item", &files.sse_graph_item, &files.sse_groups_item),
            ("word", &files.sse_graph_word, &files.sse_groups_word),
        ];
        let text = &options.reading.files;
        let mut described = Map::new();
        for (table, edges, groups) in tables {
            if edges.is_none() && groups.is_none() {
                continue;
            }
            let Some((ids, places)) = self.id_map(table) else {
                let flag = if edges.is_some() { "graph" } else { "groups" };
                let what = format!("⟨sse-{flag}-{table}⟩: this method has no {table} table");
                return Err(Error::request(what, ""));
            };
            let graph = match (edges, groups) {
                (Some(path), None) => reading::edges(path, text, &ids, job)?,
                (None, Some(path)) => reading::groups(path, (&files.groups, text), &ids, job)?,
                _ => {
                    let (a, b) = (format!("⟨sse-graph-{table}⟩"), format!("⟨sse-groups-{table}⟩"));
                    return Err(Error::request(format!("pass either {a} or {b}, not both"), ""));
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

/// Interactions and their split.
#[derive(Debug)]
pub(crate) struct Divided {
    /// All interactions.
    pub data: Interactions,
    /// Split rule.
    pub rule: SplitRule,
    /// Row numbers of the training, validation and test set.
    pub split: Split,
    dropped_users: usize,
    seed: Seed,
    validation: f64,
    short: Short,
}

impl Divided {
    /// Reads and splits interactions.
    pub fn load(method: Method, options: &Options, job: &Job<'_>) -> Result<Self> {
        refuse_text(method, options)?;
        let Some(path) = &options.interactions else {
            let what = "needs interactions; pass them with ⟨interactions⟩ FILE";
            return Err(Error::request(format!("{} {what}", method.name()), ""));
        };
        let rule = options.split.rule()?; // fail before a long read
        let data = reading::interactions(path, &options.reading, job)?;
        let usual = method.early_stopping().map(|(share, _)| share);
        let mut split = options.split.clone();
        let Some(share) = usual.filter(|_| split.validation.is_none()) else {
            return Self::divide(data, rule, &split, job);
        };
        split.validation = Some(share);
        if let Err(why) = Self::split(&data, rule, &split) {
            job.note(&format!("without validation rows, so all epochs are run: {why}"));
            split.validation = Some(0.0);
        }
        Self::divide(data, rule, &split, job)
    }

    /// Splits interactions by the options.
    pub fn divide(
        data: Interactions,
        rule: SplitRule,
        options: &SplitSettings,
        job: &Job<'_>,
    ) -> Result<Self> {
        let (outcome, SplitOptions { seed, validation, short }) =
            Self::split(&data, rule, options)?;
        outcome.notes.iter().for_each(|note| job.note(note));
        let (split, dropped_users) = (outcome.split, outcome.dropped_users);
        Ok(Self { data, rule, split, dropped_users, seed, validation, short })
    }

    fn split(
        data: &Interactions,
        rule: SplitRule,
        options: &SplitSettings,
    ) -> Result<(SplitOutcome, SplitOptions)> {
        let seed = Seed::new(options.split_seed.unwrap_or(0)).map_err(|e| e.named("split-seed"))?;
        let validation = options.validation.unwrap_or(0.0);
        let short = options.short_users.unwrap_or(Short::Error);
        let options = SplitOptions { seed, validation, short };
        Ok((split::apply(rule, data, options)?, options))
    }

    /// Returns other interactions under the same rule.
    pub fn with(&self, data: Interactions, split: Split) -> Self {
        Self { data, split, ..*self }
    }

    /// Returns the section `data` of `run.json`.
    pub fn describe_data(&self) -> Value {
        json!({
            "fingerprint": fingerprint::of_interactions(&self.data),
            "rows": self.data.len(),
            "users": self.data.users.len(),
            "items": self.data.items.len(),
        })
    }

    /// Returns the section `split` of `run.json`.
    pub fn describe_split(&self) -> Value {
        let Split { train, validation, test } = &self.split;
        json!({
            "rule": self.rule.to_string(),
            "seed": self.seed.get(),
            "validation": self.validation,
            "short_users": self.short.name(),
            "fingerprint": self.split.fingerprint(),
            "rows": { "train": train.len(), "validation": validation.len(), "test": test.len() },
            "dropped_users": self.dropped_users,
        })
    }

    /// Returns users, items and ratings of some rows.
    pub fn pairs(&self, rows: &[u32]) -> Result<(Vec<u32>, Vec<u32>, Vec<f32>)> {
        Ok(veridical_embed::evaluate::rated(&self.data, rows)?)
    }
}

/// Rejects options that apply to documents only.
fn refuse_text(method: Method, options: &Options) -> Result<()> {
    let given = [
        ("text", options.text.is_some()),
        ("column", options.documents.column.is_some()),
        ("id-column", options.documents.id_column.is_some()),
        ("min-count", options.vocabulary.min_count.is_some()),
    ];
    refuse(method, "⟨interactions⟩", &given)
}

/// Rejects options that apply to interactions only.
fn refuse_interactions(method: Method, options: &Options) -> Result<()> {
    let given = [
        ("interactions", options.interactions.is_some()),
        ("split", options.split.split.as_deref().is_some_and(|rule| rule != "none")),
        ("validation", options.split.validation.is_some_and(|share| share != 0.0)),
        ("min-rating", options.reading.min_rating.is_some()),
        ("columns", options.reading.columns.is_some()),
    ];
    refuse(method, "⟨text⟩", &given)
}

fn refuse(method: Method, source: &str, given: &[(&str, bool)]) -> Result<()> {
    match given.iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((flag, _)) => {
            let what =
                format!("{} is trained on {source} and does not use ⟨{flag}⟩", method.name());
            Err(Error::request(what, ""))
        }
    }
}
