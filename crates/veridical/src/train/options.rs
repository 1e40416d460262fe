//! Settings of a training: flags, a TOML file with the same names, and the settings of an earlier run.
//!
//! All three are layers of one flat map from names of settings to values. A layer of higher priority overrides the
//! others value by value: flags, the configuration file, the earlier run, defaults.

use std::path::Path;

use serde_json::{Map, Value};
use veridical_core::settings;
use veridical_core::settings::{Field, Settings as _, SettingsLayer, Values};
use veridical_embed::fit::FitSettings;
use veridical_embed::{Method, Purpose};
use veridical_io::Input;
use veridical_io::run::RunFolder;

use crate::settings::{
    DocumentColumns, GroupReading, InteractionReading, SplitSettings, Start, TrainingSeed,
    Vocabulary,
};
use crate::{Error, Result, config};

/// Sets every `sse-*` probability that is not set in the same layer.
pub const SSE: &str = "sse";
/// Names published settings: a layer below those that are given in the same layer.
const PRESET: &str = "preset";
/// Options stored in the section `split` of `run.json` under other names.
const SPLIT: [(&str, &str); 4] = [
    ("split", "rule"),
    ("split-seed", "seed"),
    ("validation", "validation"),
    ("short-users", "short_users"),
];

settings! {
    /// Options that every method takes besides its own settings.
    pub struct Options in "Data" {
        /// User-item interactions (file or folder): CSV, TSV, `::`, Parquet, RecBole .inter, scipy .npz
        pub interactions: Option<Input> = None,
        /// Documents: a file with one per line, a table, or a folder of .txt files
        pub text: Option<Input> = None,
    } with {
        /// How interactions are read.
        pub reading: InteractionReading,
        /// Which columns hold the documents.
        pub documents: DocumentColumns,
        /// Which words are in the vocabulary.
        pub vocabulary: Vocabulary,
        /// Which rows are held out.
        pub split: SplitSettings,
        /// Early stopping.
        pub stopping: Stopping,
        /// Graphs, and vectors for a warm start.
        pub graphs: GraphFiles,
        /// Random seed of training.
        pub seed: TrainingSeed,
    }
}

settings! {
    /// Settings that may be given when an earlier run is trained again.
    pub struct Replay in "Data" {
        /// User-item interactions, if they have moved since the earlier run
        pub interactions: Option<Input> = None,
        /// Documents, if they have moved since the earlier run
        pub text: Option<Input> = None,
        /// Labeled examples, if they have moved since the earlier run
        pub data: Option<Input> = None,
        /// End an unfinished training at its last checkpoint, and keep it
        pub finish: Option<Input> = None => [heading("Output"), value("RUN.partial")],
    } with {
        /// Random seed of training.
        pub seed: TrainingSeed,
        /// The earlier run, and where runs are written.
        pub start: Start,
    }
}

settings! {
    /// Early stopping.
    pub struct Stopping in "Early stopping" {
        /// Early stopping: epochs without improvement on the validation rows; the best epoch is kept
        pub patience: Option<u32> = None => [otherwise("0, off; sasrec, two-tower: 5")],
        /// Evaluate on the validation rows every N epochs
        pub eval_every: Option<u32> = None => [detail(), at_least(1.0), otherwise("1")],
    }
}

settings! {
    /// Graphs for SSE-Graph, and vectors for a warm start.
    pub struct GraphFiles in "Graphs and warm start" {
        /// User-user edges: source, target and optionally weight
        pub sse_graph_user: Option<Input> = None => [aliases(&["graph-user"])],
        /// Item-item edges
        pub sse_graph_item: Option<Input> = None => [aliases(&["graph-item"])],
        /// Word-word edges
        pub sse_graph_word: Option<Input> = None => [aliases(&["graph-word"])],
        /// Labels of users; users that share a label are neighbors
        pub sse_groups_user: Option<Input> = None,
        /// Labels of items, such as genres; items that share a label are neighbors
        pub sse_groups_item: Option<Input> = None,
        /// Labels of words; words that share a label are neighbors
        pub sse_groups_word: Option<Input> = None,
        /// Warm start: initial vectors from an earlier run or a table; new ids start at the mean
        pub init: Option<Input> = None => [value("RUN_OR_TABLE")],
        /// Fixed item vectors for `two-tower`: a run folder or a vector table
        pub item_vectors: Option<Input> = None => [value("RUN_OR_TABLE")],
    } with {
        /// How labels are read.
        pub groups: GroupReading,
    }
}

impl Options {
    /// Returns when the model is evaluated and when training stops early.
    pub fn stopping(&self) -> FitSettings {
        let Stopping { patience, eval_every } = self.stopping;
        FitSettings {
            eval_every: eval_every.unwrap_or(1),
            patience: patience.filter(|epochs| *epochs > 0),
        }
    }

    /// Refuses early stopping that can have no validation rows.
    fn check_stopping(&self, method: Method) -> Result<()> {
        let Stopping { patience, eval_every } = self.stopping;
        let usual = method.early_stopping().map_or(0.0, |(share, _)| share);
        for (name, value) in [("patience", patience), ("eval-every", eval_every)] {
            if value.is_some_and(|n| n > 0) && self.split.validation.unwrap_or(usual) == 0.0 {
                let what = "needs validation rows; hold some out with ⟨validation⟩ 0.1";
                return Err(Error::request(format!("⟨{name}⟩ {what}"), ""));
            }
        }
        Ok(())
    }
}

/// Returns the settings of a run, or of another document of the same form, as a layer; paths come from the log.
///
/// # Errors
/// As [`RunFolder::open`], and [`Error::Core`] for an unknown method.
pub fn layer_of(path: &Path) -> Result<(Method, SettingsLayer)> {
    let run = RunFolder::open(path)?;
    let method = method_of(&run)?;
    let mut layer = config::of_run::<Options>(&run, path, &SPLIT);
    if method.early_stopping().is_some() {
        layer.values.entry("patience").or_insert_with(|| 0.into());
    }
    Ok((method, layer))
}

/// Returns the method of a run.
pub(crate) fn method_of(run: &RunFolder) -> Result<Method> {
    let name = run.document().get("method").and_then(Value::as_str).unwrap_or("");
    Method::from_name(name).ok_or_else(|| {
        let path = run.path().display();
        if name == crate::net::METHOD {
            let model = run.document().pointer("/settings/model").and_then(Value::as_str);
            let what = format!("is a network ({}), which has no embeddings", model.unwrap_or(name));
            return Error::request(
                format!("{path} {what}"),
                format!("see `veridical evaluate ⟨run⟩ {path}`"),
            );
        }
        Error::missing(
            format!("{path}: this version has no method `{name}`"),
            "use a newer version",
        )
    })
}

/// A training request: a method with all its settings, and the options.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Training method.
    pub method: Method,
    /// All settings of the method.
    pub settings: Map<String, Value>,
    /// Data, split and other options.
    pub options: Options,
}

/// Returns the settings of a method and the options that every method takes.
pub fn fields(method: Method) -> Vec<Field> {
    let own = method.fields().into_iter().map(|field| field.heading("Method"));
    let all = has_sse(method).then(sse_field);
    own.chain(all).chain(preset_field(method)).chain(Options::fields()).collect()
}

fn preset_field(method: Method) -> Option<Field> {
    let names: Vec<&str> = method.presets().iter().map(|preset| preset.name).collect();
    let help = format!("Published settings, below those that are given: {}", names.join(", "));
    let field =
        Field::new::<Option<String>>(PRESET, &help, &None, concat!(module_path!(), "::PRESET"));
    (!names.is_empty()).then(|| field.heading("Method"))
}

/// Replaces the name of a preset by its settings.
fn expand_preset(method: Method, own: &mut Values) -> veridical_core::Result<()> {
    let Some(name) = own.remove(PRESET) else { return Ok(()) };
    let presets = method.presets();
    let found =
        presets.iter().find(|preset| Some(preset.name) == name.as_str()).ok_or_else(|| {
            let names: Vec<&str> = presets.iter().map(|preset| preset.name).collect();
            let what = format!("⟨preset⟩: `{}` has no preset {name}", method.name());
            let hint = match names.as_slice() {
                [] => "leave it out".to_owned(),
                names => format!("choose from {}", names.join(", ")),
            };
            veridical_core::Error::request(what, hint)
        })?;
    for (name, value) in found.values() {
        own.entry(name).or_insert(value);
    }
    Ok(())
}

/// Returns whether a setting is an SSE probability.
pub(crate) fn is_probability(field: &Field) -> bool {
    field.name.starts_with("sse-") && field.default.is_f64()
}

fn has_sse(method: Method) -> bool {
    method.fields().iter().any(is_probability)
}

fn sse_field() -> Field {
    let help = "SSE: replacement probability for every table without its own setting; 0.01 is a good start";
    Field::new::<Option<f64>>(SSE, help, &None, concat!(module_path!(), "::SSE")).heading("Method")
}

impl Request {
    /// Creates a request from layers, highest priority first, on top of the run `from`, which may supply the method.
    ///
    /// # Errors
    /// [`Error::Core`] names the setting that is unknown or invalid.
    pub fn from_run(
        method: Option<Method>,
        given: Vec<SettingsLayer>,
        from: Option<&Path>,
    ) -> Result<Self> {
        let mut layers = given;
        let Some(from) = from else {
            let named = method.ok_or_else(|| {
                let what = "pass a method, or an earlier run with ⟨from RUN⟩";
                Error::missing(what, "")
            });
            return Self::new(named?, &layers);
        };
        let (earlier, layer) = layer_of(from)?;
        if let Some(method) = method.filter(|method| *method != earlier) {
            let (from, before, now) = (from.display(), earlier.name(), method.name());
            return Err(Error::request(
                format!("{from} is a run of {before}, and its settings do not apply to {now}"),
                "",
            ));
        }
        layers.push(layer);
        Self::new(earlier, &layers)
    }

    /// Creates a request from layers, highest priority first.
    ///
    /// # Errors
    /// [`Error::Core`] names the setting that is unknown or invalid.
    pub fn new(method: Method, layers: &[SettingsLayer]) -> Result<Self> {
        let fields = method.fields();
        let (mut settings, mut options) = (Values::new(), Options::default());
        for layer in layers.iter().rev() {
            let refuse = |e| layer.refuse(e);
            let mut own = layer.values.clone();
            expand_preset(method, &mut own).map_err(refuse)?;
            if let Some(p) = own.remove(SSE) {
                let tables = fields.iter().filter(|field| is_probability(field));
                let free = tables.filter(|field| !layer.values.contains_key(&field.name));
                own.extend(free.map(|field| (field.name.clone(), p.clone())).collect::<Vec<_>>());
            }
            for (name, value) in own {
                if fields.iter().any(|field| field.name == name) {
                    let alone = Map::from_iter([(name.clone(), value.clone())]);
                    method.settings(&alone).map_err(refuse)?;
                    settings.insert(name, value);
                } else if !options.set(&name, &value).map_err(refuse)? {
                    let what = format!("`{}` has no setting `{name}`", method.name());
                    return Err(layer.refuse(veridical_core::Error::request(what, "")).into());
                }
            }
        }
        let settings = method.settings(&settings)?;
        settings::check(&fields, &settings)?;
        options.check()?;
        options.check_stopping(method)?;
        Ok(Self { method, settings, options })
    }

    /// Returns the task its models are evaluated on; for `als` it depends on the feedback setting.
    pub fn purpose(&self) -> Purpose {
        purpose(self.method, &self.settings)
    }

    /// Returns the options to store in `run.json`: those not stored elsewhere that are not paths.
    pub(crate) fn documented(&self) -> Values {
        let split = SPLIT.map(|(name, _)| name);
        config::documented(&self.options, &[&split[..], &["seed"]].concat())
    }

    /// Returns the files as absolute paths, for the log.
    pub(crate) fn files(&self) -> Values {
        config::files(&self.options)
    }
}

/// Returns the task of a method's models; for `als` it depends on the feedback setting.
pub(crate) fn purpose(method: Method, settings: &Map<String, Value>) -> Purpose {
    match settings.get("feedback").and_then(Value::as_str) {
        Some("explicit") => Purpose::Rating,
        _ => method.purpose(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn layer(values: Value) -> SettingsLayer {
        SettingsLayer::given(values.as_object().cloned().unwrap())
    }

    #[test]
    fn a_stronger_layer_hides_a_weaker_one_value_by_value() {
        let given = layer(json!({ "lr": 0.5, "sse": 0.2, "sse-item": 0.0, "seed": null }));
        let weak = layer(json!({ "lr": 0.1, "dim": 8, "sse-user": 0.9, "seed": 3 }));
        let request = Request::new(Method::Bpr, &[given, weak]).unwrap();
        let of = |name: &str| request.settings[name].clone();
        assert_eq!((of("lr"), of("dim")), (json!(0.5), json!(8)));
        assert_eq!((of("sse-user"), of("sse-item")), (json!(0.2), json!(0.0)));
        assert_eq!(request.options.seed.seed, Some(3));
    }

    #[test]
    fn a_preset_lies_below_what_is_given_beside_it_and_above_weaker_layers() {
        let given = layer(json!({ "preset": "sasrec-2018", "batch": 64 }));
        let weak =
            layer(json!({ "loss": "ce", "heads": 5, "weight-decay": 0.5, "sse-input": 0.1 }));
        let request = Request::new(Method::Sasrec, &[given, weak]).unwrap();
        let of = |name: &str| request.settings[name].clone();
        assert_eq!([of("loss"), of("negatives")], [json!("bce"), json!(1)]);
        assert_eq!([of("batch"), of("heads"), of("epochs")], [json!(64), json!(1), json!(200)]);
        assert_eq!([of("weight-decay"), of("sse-input")], [json!(0.0), json!(0.1)]);
        assert_eq!(request.options.split.validation, Some(0.0));
        assert_eq!(request.options.stopping().patience, None);
        let refused = |method| {
            let layer = layer(json!({ "preset": "sasrec-2017" }));
            Request::new(method, &[layer]).unwrap_err().to_string()
        };
        assert!(refused(Method::Sasrec).contains("choose from sasrec-2018"));
        assert!(refused(Method::Bpr).contains("`bpr` has no preset \"sasrec-2017\""));
    }

    #[test]
    fn unknown_names_and_wrong_types_are_reported_with_their_origin() {
        let refused = |mut layer: SettingsLayer| {
            layer.origin = Some("c.toml".into());
            Request::new(Method::Mf, &[layer]).unwrap_err().to_string()
        };
        let message = refused(layer(json!({ "windw": 3 })));
        assert_eq!(message, "c.toml: `mf` has no setting `windw`");
        let message = refused(layer(json!({ "dim": "wide" })));
        assert!(message.starts_with("c.toml: ⟨dim⟩: invalid type: string"), "{message}");
        let message = refused(layer(json!({ "patience": "long" })));
        assert!(message.starts_with("c.toml: ⟨patience⟩: invalid type"), "{message}");
    }
}
