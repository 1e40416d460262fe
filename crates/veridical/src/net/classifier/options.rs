//! Settings of `train classifier`.

use std::path::Path;

use serde_json::{Value, json};
use veridical_core::settings;
use veridical_core::settings::{Settings as _, SettingsLayer, Values};
use veridical_io::Input;
use veridical_io::run::RunFolder;

use super::super::TrainNet;
use super::super::vectors::LabeledVectors;
use crate::settings::{Start, TextFiles, TrainingSeed};
use crate::{Error, Result, config};

/// The `method` of a run that is a classifier of vectors.
pub const METHOD: &str = "classifier";
/// Options that change no byte of the model, or are stored elsewhere in `run.json`.
const ELSEWHERE: [&str; 1] = ["seed"];
/// Defaults of an MLP, which needs held-out rows to stop.
const MLP_EPOCHS: u32 = 200;
const MLP_PATIENCE: u32 = 10;
const MLP_VALIDATION: f64 = 0.1;

settings! {
    /// Kind and settings of a classifier: the section `settings` of `run.json`.
    pub struct ClassifierRecipe in "Model" {
        /// Model: logistic; knn (by cosine); phi (logistic regression on random Fourier features); mlp:N (a network)
        pub model: String = "logistic".into(),
        /// Feature spec of ⟨model⟩ phi
        pub phi: Option<Input> = None
            => [value("SPEC"), otherwise("gaussian kernel, unit rows, median length scale, D = 4 x dimension")],
        /// Values to choose from by cross-validation: output-dim (phi), c (logistic, phi) or k (knn)
        pub grid: Vec<String> = Vec::new() => [value("SETTING=V,V")],
        /// Inverse penalty of the logistic regression, as in scikit-learn
        pub c: Option<f64> = None => [value("C"), otherwise("by cross-validation")],
        /// Number of voting neighbors of ⟨model⟩ knn
        pub k: Option<usize> = None => [value("K"), at_least(1.0), otherwise("by cross-validation")],
        /// Number of folds of the cross-validation
        pub folds: Option<usize> = None => [at_least(2.0), detail(), otherwise(FOLDS.to_string())],
    }
}

/// Default number of folds.
const FOLDS: usize = 5;

settings! {
    /// The vectors that a classifier learns from.
    pub struct ClassifierOptions in "Data" {
        /// Vectors to learn from: a vector table or a run
        pub vectors: Option<Input> = None => [value("TABLE")],
        /// Random seed of the test set, independent of ⟨seed⟩
        pub split_seed: Option<u64> = None => [detail(), value("S"), otherwise("0")],
    } with {
        /// The labels, and how both are read.
        pub labeled: LabeledVectors,
        /// How text files are decoded.
        pub files: TextFiles,
        /// Random seed of the folds.
        pub seed: TrainingSeed,
    }
}

impl ClassifierOptions {
    /// Returns the options to store in `run.json`.
    pub(super) fn documented(&self) -> Values {
        config::documented(self, &ELSEWHERE)
    }
}

settings! {
    /// A classifier and its vectors.
    pub struct ClassifierRequest {
    } with {
        /// Kind and settings.
        pub recipe: ClassifierRecipe,
        /// Vectors and labels.
        pub options: ClassifierOptions,
    }
}

settings! {
    /// Settings of [`train`](super::train).
    pub struct TrainClassifier {
    } with {
        /// Model and vectors.
        pub request: ClassifierRequest,
        /// Seeds and output folder.
        pub start: Start,
    }
}

/// What a classifier decides by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ModelKind {
    Logistic,
    Knn,
    Phi,
}

/// The values of ⟨grid⟩, ascending.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Grid {
    pub output_dim: Vec<usize>,
    pub c: Vec<f64>,
    pub k: Vec<usize>,
}

impl TrainClassifier {
    /// Creates settings from layers, highest priority first, on top of the run that they name with `from`.
    ///
    /// # Errors
    /// [`Error::Core`] names the setting that is unknown or invalid.
    pub fn new(mut layers: Vec<SettingsLayer>) -> Result<Self> {
        let given = Self::layered(METHOD, &layers)?;
        layers.extend(given.start.from.as_deref().map(layer_of).transpose()?);
        Ok(Self::layered(METHOD, &layers)?)
    }

    /// Returns the training of a network that ⟨model⟩ mlp:N stands for; `None` for the other models.
    pub(super) fn network(&self) -> Result<Option<TrainNet>> {
        let Self { request: ClassifierRequest { recipe, options }, start } = self;
        if !recipe.model.starts_with("mlp:") {
            return Ok(None);
        }
        recipe.refuse(&["phi", "grid", "c", "k", "folds"])?;
        let usual = json!({
            "epochs": MLP_EPOCHS, "patience": MLP_PATIENCE, "validation": MLP_VALIDATION, "model": recipe.model,
        });
        let mut values: Values = usual.as_object().cloned().unwrap_or_default();
        values.extend(options.given());
        values.extend(start.given());
        if let Some(vectors) = values.remove("vectors") {
            values.insert("data".into(), vectors);
        }
        let out = start.output.folder(METHOD).to_string();
        values.insert("out".into(), out.into());
        values.remove("from");
        TrainNet::new(vec![SettingsLayer::given(values)]).map(Some)
    }
}

impl ClassifierRecipe {
    /// Returns the kind of model.
    pub(super) fn kind(&self) -> Result<ModelKind> {
        let kind = match self.model.as_str() {
            "logistic" => ModelKind::Logistic,
            "knn" => ModelKind::Knn,
            "phi" => ModelKind::Phi,
            other => {
                let what = format!("⟨model⟩: there is no classifier `{other}`");
                return Err(Error::request(what, "choose logistic, knn, phi or mlp:N"));
            }
        };
        match kind {
            ModelKind::Logistic => self.refuse(&["phi", "k"])?,
            ModelKind::Knn => self.refuse(&["phi", "c"])?,
            ModelKind::Phi => self.refuse(&["k"])?,
        }
        match self.c.filter(|c| !(c.is_finite() && *c > 0.0)) {
            Some(c) => Err(Error::setting("c", "a number above 0", c)),
            None => Ok(kind),
        }
    }

    /// Returns the number of folds.
    pub(super) fn folds(&self) -> usize {
        self.folds.unwrap_or(FOLDS)
    }

    /// Rejects settings that the model has no use for.
    fn refuse(&self, names: &[&str]) -> Result<()> {
        let given = self.given();
        let is_set = |name: &&&str| match given.get(**name) {
            Some(Value::Array(values)) => !values.is_empty(),
            other => other.is_some_and(|value| !value.is_null()),
        };
        match names.iter().find(is_set) {
            None => Ok(()),
            Some(name) => {
                let what = format!("⟨{name}⟩ is not a setting of ⟨model⟩ {}", self.model);
                Err(Error::request(what, format!("leave ⟨{name}⟩ out")))
            }
        }
    }

    /// Returns the values of ⟨grid⟩.
    pub(super) fn grid(&self, kind: ModelKind) -> Result<Grid> {
        let mut grid = Grid::default();
        for text in &self.grid {
            let refused = |what: String| {
                Error::request(
                    format!("⟨grid⟩ {text}: {what}"),
                    "pass SETTING=V,V, such as ⟨grid⟩ output-dim=32,64,128",
                )
            };
            let (name, list) =
                text.split_once('=').ok_or_else(|| refused("there is no `=`".into()))?;
            let number = |v: &str| {
                let value = v.trim().parse::<f64>().ok().filter(|x| x.is_finite() && *x > 0.0);
                value.ok_or_else(|| refused(format!("`{v}` is not a number above 0")))
            };
            let mut values = list.split(',').map(number).collect::<Result<Vec<f64>>>()?;
            values.sort_by(f64::total_cmp);
            let whole = || {
                let whole = |&x: &f64| (x.fract() == 0.0 && x < 1e9).then_some(x as usize);
                let found: Option<Vec<usize>> = values.iter().map(whole).collect();
                found.ok_or_else(|| refused(format!("{name} is an integer")))
            };
            let is_set = match name {
                "c" => self.c.is_some(),
                "k" => self.k.is_some(),
                _ => false,
            };
            match (name, kind) {
                _ if is_set => return Err(refused(format!("⟨{name}⟩ is set, too"))),
                ("output-dim", ModelKind::Phi) => grid.output_dim = whole()?,
                ("k", ModelKind::Knn) => grid.k = whole()?,
                ("c", ModelKind::Logistic | ModelKind::Phi) => grid.c = values,
                _ => {
                    let model = &self.model;
                    return Err(refused(format!("⟨model⟩ {model} has no `{name}` to choose")));
                }
            }
        }
        Ok(grid)
    }
}

/// Returns the settings of an earlier run and its input files as a layer.
///
/// # Errors
/// As [`RunFolder::open`].
pub fn layer_of(path: &Path) -> Result<SettingsLayer> {
    if !super::is_classifier(path) {
        let what = "is not a run of a classifier; pass one, or its run.json";
        return Err(Error::request(format!("⟨from⟩ {} {what}", path.display()), ""));
    }
    Ok(config::of_run::<ClassifierRequest>(&RunFolder::open(path)?, path, &[]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_is_for_the_settings_of_the_model() {
        let recipe = |model: &str, grid: &[&str]| ClassifierRecipe {
            model: model.into(),
            grid: grid.iter().map(ToString::to_string).collect(),
            ..ClassifierRecipe::default()
        };
        let phi = recipe("phi", &["output-dim=64,32", "c=10,1"]);
        let grid = phi.grid(phi.kind().unwrap()).unwrap();
        assert_eq!((grid.output_dim, grid.c), (vec![32, 64], vec![1.0, 10.0]));
        for (model, grid, message) in [
            ("knn", "output-dim=32", "⟨grid⟩ output-dim=32: ⟨model⟩ knn has no `output-dim`"),
            ("phi", "output-dim=a", "`a` is not a number above 0"),
            ("knn", "k=1.5", "k is an integer"),
            ("knn", "k", "there is no `=`"),
        ] {
            let recipe = recipe(model, &[grid]);
            let error = recipe.grid(recipe.kind().unwrap()).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
        let twice = ClassifierRecipe { k: Some(3), ..recipe("knn", &["k=1,2"]) };
        assert!(twice.grid(ModelKind::Knn).unwrap_err().to_string().contains("⟨k⟩ is set, too"));
    }

    #[test]
    fn settings_of_other_models_are_refused() {
        let refused = |recipe: ClassifierRecipe| recipe.kind().unwrap_err().to_string();
        let knn = ClassifierRecipe { model: "knn".into(), c: Some(1.0), ..Default::default() };
        assert!(refused(knn).starts_with("⟨c⟩ is not a setting of ⟨model⟩ knn"));
        let other = ClassifierRecipe { model: "forest".into(), ..Default::default() };
        assert!(refused(other).starts_with("⟨model⟩: there is no classifier `forest`"));
    }
}
