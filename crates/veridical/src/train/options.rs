//! What a training is asked for: flags, a TOML file with the same names, and the settings of an earlier run.
//!
//! All three are layers of the same flat map from the name of a flag to its value. A stronger layer hides
//! a weaker one value by value: command line, `--config`, `--from`, defaults.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use veridical_core::Seed;
use veridical_data::run::RunFolder;
use veridical_data::split::SplitRule;
use veridical_embed::{Method, Purpose};

use super::Stopping;
use crate::{Error, Result};

/// Sets every `sse-*` probability that its own layer does not set.
const SSE: &str = "sse";
/// Options that name files: they go to the log, and their fingerprints to `run.json`.
const FILES: [&str; 10] = [
    "interactions",
    "text",
    "init",
    "item-vectors",
    "sse-graph-user",
    "sse-graph-item",
    "sse-graph-word",
    "sse-groups-user",
    "sse-groups-item",
    "sse-groups-word",
];
/// Options that stand in the section `split` of `run.json` under other names.
const SPLIT: [(&str, &str); 4] = [
    ("split", "rule"),
    ("split-seed", "seed"),
    ("validation", "validation"),
    ("short-users", "short_users"),
];

/// What every method takes besides its own settings; what is `None` has its default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Options {
    /// Who did what: a file or a folder.
    pub interactions: Option<PathBuf>,
    /// `user=uid,item=sku,rating=stars,time=ts`.
    pub columns: Option<String>,
    /// Rows with a smaller rating are left out.
    pub min_rating: Option<f32>,
    /// Documents: a file or a folder.
    pub text: Option<PathBuf>,
    /// The column of the documents.
    pub column: Option<String>,
    /// The column of their ids.
    pub id_column: Option<String>,
    /// Words that occur less often are left out.
    pub min_count: Option<u64>,
    /// The encoding of text files.
    pub encoding: Option<String>,
    /// The first line is data.
    pub no_header: Option<bool>,
    /// Ids are text even if all of them look like integers.
    pub text_ids: Option<bool>,
    /// How rows are divided, such as `per-user:50`.
    pub split: Option<String>,
    /// Decides which rows go where.
    pub split_seed: Option<u64>,
    /// The share of the training rows that is kept back to choose and to stop.
    pub validation: Option<f64>,
    /// `error` or `drop`, for users with too few rows.
    pub short_users: Option<String>,
    /// Stop after so many epochs without a better value on the validation rows.
    pub patience: Option<u32>,
    /// Judge on the validation rows after every so many epochs.
    pub eval_every: Option<u32>,
    /// Edges among users.
    pub sse_graph_user: Option<PathBuf>,
    /// Edges among items.
    pub sse_graph_item: Option<PathBuf>,
    /// Edges among words.
    pub sse_graph_word: Option<PathBuf>,
    /// Labels of users: those that share one are neighbours.
    pub sse_groups_user: Option<PathBuf>,
    /// Labels of items.
    pub sse_groups_item: Option<PathBuf>,
    /// Labels of words.
    pub sse_groups_word: Option<PathBuf>,
    /// The column of the labels.
    pub groups_column: Option<String>,
    /// What stands between the labels of one id.
    pub groups_separator: Option<String>,
    /// Of triples (id, relation, entity), the relation that makes groups.
    pub groups_relation: Option<String>,
    /// Vectors to start from: a run or a table.
    pub init: Option<PathBuf>,
    /// Vectors of items that `two-tower` reads: a run or a table.
    pub item_vectors: Option<PathBuf>,
    /// The seed of the training.
    pub seed: Option<u64>,
}

impl Options {
    /// The rule of the split.
    ///
    /// # Errors
    /// [`Error::Usage`] lists the rules there are.
    pub fn rule(&self) -> Result<SplitRule> {
        Ok(self.split.as_deref().map_or(Ok(SplitRule::None), str::parse)?)
    }

    /// The seed of the training.
    ///
    /// # Errors
    /// [`Error::Core`] above 2^53 - 1.
    pub fn seed(&self) -> Result<Seed> {
        Ok(Seed::new(self.seed.unwrap_or(0))?)
    }

    /// When the model is judged, and when that ends the training.
    ///
    /// # Errors
    /// [`Error::Usage`] for zeros, and for patience without anything to judge on.
    pub fn stopping(&self) -> Result<Stopping> {
        for (flag, value) in [("patience", self.patience), ("eval-every", self.eval_every)] {
            if value == Some(0) {
                return Err(Error::Usage(format!("--{flag} must be at least 1, got 0")));
            }
            if value.is_some() && self.validation.unwrap_or(0.0) == 0.0 {
                let what = "needs rows to judge on; keep some back with --validation 0.1";
                return Err(Error::Usage(format!("--{flag} {what}")));
            }
        }
        Ok(Stopping { eval_every: self.eval_every.unwrap_or(1), patience: self.patience })
    }
}

/// Some values and where they come from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layer {
    /// A file, for messages.
    pub origin: Option<PathBuf>,
    /// Names of flags without dashes, and their values.
    pub values: Map<String, Value>,
}

impl Layer {
    /// What was given on the command line; values that are null were not.
    pub fn given(values: Map<String, Value>) -> Self {
        Self { origin: None, values: without_nulls(values) }
    }

    /// A TOML file with the names of flags.
    ///
    /// # Errors
    /// [`Error::Usage`] if it cannot be read.
    pub fn toml(path: &Path) -> Result<Self> {
        let failed = |why: String| Error::Usage(format!("{}: {why}", path.display()));
        let text = fs::read_to_string(path).map_err(|e| failed(format!("cannot read: {e}")))?;
        let values = toml::from_str::<Map<String, Value>>(&text)
            .map_err(|e| failed(format!("not a TOML file: {}", e.to_string().trim_end())))?;
        Ok(Self { origin: Some(path.to_owned()), values })
    }

    /// The settings of a run, or of another document of the same form; the paths come from the log beside it.
    ///
    /// # Errors
    /// As [`RunFolder::open`], and [`Error::Usage`] for a method we do not have.
    pub fn run(path: &Path) -> Result<(Method, Self)> {
        let run = RunFolder::open(path)?;
        let document = run.document();
        let method = method_of(&run)?;
        let section =
            |name: &str| document.get(name).and_then(Value::as_object).into_iter().flatten();
        let own = |(name, value): (&String, &Value)| (name.clone(), value.clone());
        let mut values: Map<String, Value> =
            section("settings").chain(section("options")).map(own).collect();
        for (flag, name) in SPLIT {
            let value = document.get("split").and_then(|split| split.get(name));
            values.extend(value.map(|value| (flag.to_owned(), value.clone())));
        }
        values.extend(document.get("seed").map(|seed| ("seed".to_owned(), seed.clone())));
        let logged = run.logged("data").unwrap_or_default();
        let files = FILES.iter().filter_map(|&file| Some((file.into(), logged.get(file)?.clone())));
        values.extend(files);
        Ok((method, Self { origin: Some(path.to_owned()), values: without_nulls(values) }))
    }
}

/// The method of a run.
pub(crate) fn method_of(run: &RunFolder) -> Result<Method> {
    let name = run.document().get("method").and_then(Value::as_str).unwrap_or("");
    Method::from_name(name).ok_or_else(|| {
        let path = run.path().display();
        if name == crate::net::METHOD {
            let model = run.document().pointer("/settings/model").and_then(Value::as_str);
            let what = format!("is a network ({}), which has no embeddings", model.unwrap_or(name));
            return Error::Usage(format!("{path} {what}; see `veridical evaluate --run {path}`"));
        }
        Error::Usage(format!("{path}: this version has no method `{name}`; use a newer one"))
    })
}

/// A method with all its settings, and the options.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// How to learn.
    pub method: Method,
    /// Every setting of the method.
    pub settings: Map<String, Value>,
    /// The rest.
    pub options: Options,
}

impl Request {
    /// From layers, the strongest first.
    ///
    /// # Errors
    /// [`Error::Usage`] names the flag that does not exist or does not fit.
    pub fn new(method: Method, layers: &[Layer]) -> Result<Self> {
        let flags = method.flags();
        let is_setting = |name: &str| flags.iter().any(|flag| flag.name == name);
        let (mut settings, mut options) = (Map::new(), Map::new());
        for Layer { origin, values } in layers.iter().rev() {
            let place =
                origin.as_ref().map_or(String::new(), |path| format!("{}: ", path.display()));
            let wrong = |why: String| Error::Usage(format!("{place}{why}"));
            let mut own = values.clone();
            if let Some(p) = own.remove(SSE) {
                let tables = flags.iter().filter(|flag| is_probability(&flag.name, &flag.default));
                let free = tables.filter(|flag| !values.contains_key(&flag.name));
                let all: Vec<_> = free.map(|flag| (flag.name.clone(), p.clone())).collect();
                own.extend(all);
            }
            for (name, value) in own {
                let alone = Map::from_iter([(name.clone(), value.clone())]);
                if is_setting(&name) {
                    method.settings(&alone).map_err(|e| wrong(e.to_string()))?;
                    settings.insert(name, value);
                } else {
                    let known = serde_json::from_value::<Options>(Value::Object(alone));
                    known.map_err(|e| wrong(explain(method, &name, &e.to_string())))?;
                    options.insert(name, value);
                }
            }
        }
        let settings = match method.settings(&settings)? {
            Value::Object(settings) => settings,
            _ => Map::new(),
        };
        let options = serde_json::from_value(Value::Object(options))
            .map_err(|e| Error::Usage(e.to_string()))?;
        Ok(Self { method, settings, options })
    }

    /// What its models are for: `als` follows its feedback.
    pub fn purpose(&self) -> Purpose {
        purpose(self.method, &self.settings)
    }

    /// The options that belong in `run.json`: those that stand nowhere else and are no paths.
    pub(crate) fn documented(&self) -> Map<String, Value> {
        let mut map = flat(&self.options);
        let is_elsewhere = |name: &str| {
            name == "seed" || FILES.contains(&name) || SPLIT.iter().any(|(flag, _)| *flag == name)
        };
        map.retain(|name, _| !is_elsewhere(name));
        map
    }

    /// The files, as absolute paths, for the log.
    pub(crate) fn files(&self) -> Map<String, Value> {
        let mut map = flat(&self.options);
        map.retain(|name, _| FILES.contains(&name.as_str()));
        for value in map.values_mut() {
            let path = value.as_str().filter(|path| !path.contains("://"));
            let path = path.and_then(|path| std::path::absolute(path).ok());
            if let Some(path) = path {
                *value = path.display().to_string().into();
            }
        }
        map
    }
}

/// What the models of a method are for: `als` follows its feedback.
pub(crate) fn purpose(method: Method, settings: &Map<String, Value>) -> Purpose {
    match settings.get("feedback").and_then(Value::as_str) {
        Some("explicit") => Purpose::Rating,
        _ => method.purpose(),
    }
}

fn flat(options: &Options) -> Map<String, Value> {
    match serde_json::to_value(options) {
        Ok(Value::Object(map)) => without_nulls(map),
        _ => Map::new(), // options are a struct
    }
}

fn without_nulls(mut values: Map<String, Value>) -> Map<String, Value> {
    values.retain(|_, value| !value.is_null());
    values
}

/// Whether a flag is a probability of SSE.
fn is_probability(name: &str, default: &Value) -> bool {
    name.starts_with("sse-") && default.is_number()
}

fn explain(method: Method, name: &str, why: &str) -> String {
    match why.starts_with("unknown field") {
        true => format!("`{}` has no setting `{name}`", method.name()),
        false => format!("--{name}: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn layer(values: Value) -> Layer {
        Layer::given(values.as_object().cloned().unwrap())
    }

    #[test]
    fn a_stronger_layer_hides_a_weaker_one_value_by_value() {
        let given = layer(json!({ "lr": 0.5, "sse": 0.2, "sse-item": 0.0, "seed": null }));
        let weak = layer(json!({ "lr": 0.1, "dim": 8, "sse-user": 0.9, "seed": 3 }));
        let request = Request::new(Method::Bpr, &[given, weak]).unwrap();
        let of = |name: &str| request.settings[name].clone();
        assert_eq!((of("lr"), of("dim")), (json!(0.5), json!(8)));
        assert_eq!((of("sse-user"), of("sse-item")), (json!(0.2), json!(0.0)));
        assert_eq!(request.options.seed, Some(3));
    }

    #[test]
    fn unknown_names_and_wrong_kinds_are_told_with_their_place() {
        let refused = |mut layer: Layer| {
            layer.origin = Some("c.toml".into());
            Request::new(Method::Mf, &[layer]).unwrap_err().to_string()
        };
        let message = refused(layer(json!({ "windw": 3 })));
        assert_eq!(message, "c.toml: `mf` has no setting `windw`");
        let message = refused(layer(json!({ "dim": "wide" })));
        assert!(message.starts_with("c.toml: --dim: invalid type: string"), "{message}");
        let message = refused(layer(json!({ "patience": "long" })));
        assert!(message.starts_with("c.toml: --patience: invalid type"), "{message}");
    }

    #[test]
    fn every_option_is_a_file_a_part_of_the_split_or_documented() {
        let all = serde_json::to_value(Options::default()).unwrap();
        let names: Vec<&String> = all.as_object().unwrap().keys().collect();
        assert!(FILES.iter().all(|file| names.iter().any(|name| name == file)));
        assert!(SPLIT.iter().all(|(flag, _)| names.iter().any(|name| name == flag)));
    }
}
