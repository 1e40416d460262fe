//! Logistic regression on the words and pairs of words of a document ([`Tfidf`], [`SparseLogistic`]): the textbook classifier
//! of documents, and the baseline of every other one.
//!
//! The penalty is chosen by cross-validation on the training documents, from the strongest on.

use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};
use veridical_core::settings::Settings as _;
use veridical_core::{Error as CoreError, Job, Seed, SparseRows};
use veridical_data::{Ids, NamedTensor, Part, Tfidf, TfidfSettings};
use veridical_io::IfExists;
use veridical_io::run::{self, RunWriter};
use veridical_learn::{Folds, LogisticSettings, Penalty, SparseLogistic};
use veridical_nets::fit::Evaluation;
use veridical_nets::metrics::{Measures, measures};

use super::super::{Learned, NetRun, one_run};
use super::material::Divided;
use super::options::{METHOD, TextModel, TextNetOptions, TextRecipe, TextRequest, TfidfRecipe};
use super::{IDF, INTERCEPTS, TERMS};
use crate::train::{RunTable, Seeded, host, log, now};
use crate::{Error, Result, config};

/// The penalties that cross-validation tries: C from 1/64 to 1024.
fn penalties() -> Vec<f64> {
    (-3..=5).map(|power| f64::from(2 * power).exp2()).collect()
}

/// Fits and predictions to this gradient differ from the optimum in no digit that is shown.
const TOLERANCE: f64 = 1e-5;

/// A fitted classifier.
pub(super) struct Classifier {
    pub tfidf: Tfidf,
    pub fit: SparseLogistic,
}

impl Classifier {
    /// Returns the outputs for documents, and the number of documents without a known term.
    pub fn outputs(&self, texts: &[&str]) -> Result<(Vec<f32>, usize)> {
        let rows = self.tfidf.vectors(texts.iter().copied())?;
        let unknown = (0..rows.n()).filter(|&i| rows.row(i).0.is_empty()).count();
        Ok((self.fit.outputs(&rows), unknown))
    }

    /// Fits the usual classifier to documents, as a baseline.
    pub fn usual(texts: &[&str], labels: &[u32], classes: usize, seed: Seed) -> Result<Self> {
        let terms = Terms::of(&TfidfRecipe::default(), texts)?;
        let (fit, _) = terms.fit(&TfidfRecipe::default(), labels, classes, seed)?;
        Ok(Self { tfidf: terms.tfidf, fit })
    }
}

/// The terms of documents, and the documents by their terms.
struct Terms {
    tfidf: Tfidf,
    rows: SparseRows,
}

impl Terms {
    fn of(recipe: &TfidfRecipe, texts: &[&str]) -> Result<Self> {
        let &TfidfRecipe { ngrams, min_documents, max_terms, .. } = recipe;
        let tfidf =
            Tfidf::fit(texts, &TfidfSettings { pairs: ngrams > 1, min_documents, max_terms });
        if tfidf.terms().is_empty() {
            let n = texts.len();
            let what = format!(
                "none of the {n} training documents has a word of {min_documents} documents"
            );
            return Err(CoreError::unfit(what, "lower ⟨min-documents⟩").into());
        }
        let rows = tfidf.vectors(texts.iter().copied())?;
        Ok(Self { tfidf, rows })
    }

    /// Fits with the requested penalty, or with that of cross-validation.
    fn fit(
        &self,
        recipe: &TfidfRecipe,
        labels: &[u32],
        classes: usize,
        seed: Seed,
    ) -> Result<(SparseLogistic, Penalty)> {
        let settings = LogisticSettings { tolerance: TOLERANCE, ..LogisticSettings::default() };
        let chosen = match recipe.c {
            Some(c) => Penalty { c, path: Vec::new() },
            None => {
                let folds = Folds { n: recipe.folds, seed };
                let cs = penalties();
                SparseLogistic::choose_penalty(&self.rows, labels, classes, &cs, folds, &settings)?
            }
        };
        let settings = LogisticSettings { c: chosen.c, ..settings };
        Ok((SparseLogistic::fit(&self.rows, labels, classes, &settings)?, chosen))
    }
}

/// A request with its documents loaded, for any seed, which draws the folds.
pub(super) struct Prepared {
    recipe: TfidfRecipe,
    options: TextNetOptions,
    divided: Divided,
    terms: Terms,
    labels: Vec<u32>,
}

impl Prepared {
    pub fn load(request: TextRequest, job: &Job<'_>) -> Result<Self> {
        let TextRequest { tfidf: recipe, options, .. } = request;
        recipe.check()?;
        if let Some(c) = recipe.c.filter(|c| !(c.is_finite() && *c > 0.0)) {
            return Err(Error::setting("c", "a number above 0", c));
        }
        let divided = Divided::load(&options, job)?;
        let texts = divided.texts(Part::Train);
        let terms = Terms::of(&recipe, &texts)?;
        let unknown = (0..terms.rows.n()).filter(|&i| terms.rows.row(i).0.is_empty()).count();
        if unknown > 0 {
            let n = texts.len();
            job.note(&format!("{unknown} of {n} training documents have no known word"));
        }
        let labels = divided.labels(Part::Train)?;
        Ok(Self { recipe, options, labels, terms, divided })
    }

    /// Returns the name of the model and the number of its weights.
    pub fn described(&self) -> (String, usize) {
        let (_, outputs) = TextRecipe::loss(self.divided.classes.len());
        (TextModel::Tfidf.name().into(), (self.terms.tfidf.terms().len() + 1) * outputs)
    }

    fn document(&self, seed: Seed) -> Value {
        let mut settings = self.recipe.given();
        settings.insert("model".into(), TextModel::Tfidf.name().into());
        let mut document = json!({
            "format": run::FORMAT,
            "version": env!("CARGO_PKG_VERSION"),
            "method": METHOD,
            "settings": settings,
            "seed": seed.get(),
            "options": self.options.documented(),
        });
        if let Some(document) = document.as_object_mut() {
            document.extend(self.divided.sections());
        }
        document
    }

    /// Metrics on the documents of a part; `None` if it has none.
    fn measured(&self, classifier: &Classifier, part: Part) -> Result<Option<Measures>> {
        let texts = self.divided.texts(part);
        if texts.is_empty() {
            return Ok(None);
        }
        let (outputs, _) = classifier.outputs(&texts)?;
        let classes = self.divided.classes.len();
        let (loss, dim) = TextRecipe::loss(classes);
        let targets = veridical_data::examples::Targets::Classes(self.divided.labels(part)?);
        Ok(Some(measures(&outputs, dim, &targets, loss, classes)?))
    }

    fn complete(
        &self,
        seed: Seed,
        writer: RunWriter,
        mut document: Value,
        job: &Job<'_>,
    ) -> Result<Learned> {
        let begun = Instant::now();
        log(&writer, "data", config::files(&self.options))?;
        let threads = rayon::current_num_threads();
        log(&writer, "start", json!({ "threads": threads, "host": host(), "time": now() }))?;
        let classes = self.divided.classes.len();
        let progress = job.progress("fitting", "fits", None);
        let (fit, Penalty { c, path }) =
            self.terms.fit(&self.recipe, &self.labels, classes, seed)?;
        drop(progress);
        job.check()?;
        if let Some((_, loss)) = path.iter().find(|(tried, _)| *tried == c) {
            let folds = self.recipe.folds;
            job.note(&format!("C {c} by {folds}-fold cross-validation, log-loss {loss:.4}"));
        }
        if !fit.converged {
            job.warn(&format!(
                "the regression has not converged after {} iterations; choose a smaller ⟨c⟩",
                fit.iterations
            ));
        }
        let classifier = Classifier { tfidf: self.terms.tfidf.clone(), fit };
        let brief = |part: Part| -> Result<Option<Evaluation>> {
            Ok(self.measured(&classifier, part)?.map(|found| found.evaluation()))
        };
        let train = brief(Part::Train)?;
        let learned = Learned {
            steps: classifier.fit.iterations as u64,
            loss: train.map(|found| found.loss),
            accuracy: train.and_then(|found| found.accuracy),
            validation: brief(Part::Validation)?,
            ..Learned::default()
        };
        let Classifier { tfidf, fit } = &classifier;
        let ids = Ids::Text(tfidf.terms().iter().map(Some).collect());
        let (rows, dim) = (ids.len(), fit.intercepts.len());
        writer.write_table(TERMS, &ids, dim, &fit.weights, None)?;
        document["tables"] = json!([RunTable { name: TERMS.into(), rows, dim, bias: false }]);
        document["results"] = json!(learned);
        document["results"]["c"] = json!(c);
        document["results"]["path"] = json!(path);
        log(&writer, "end", json!({ "seconds": begun.elapsed().as_secs_f64(), "time": now() }))?;
        let model = [
            NamedTensor { name: IDF, shape: &[rows], values: tfidf.idf() },
            NamedTensor { name: INTERCEPTS, shape: &[dim], values: &fit.intercepts },
        ];
        writer.publish(&document, &model)?;
        Ok(learned)
    }
}

impl Seeded for Prepared {
    type Run = NetRun;

    fn method(&self) -> &str {
        METHOD
    }

    fn is_one_thread_enough(&self) -> bool {
        false
    }

    fn run(&self, seed: Seed, out: &Path, if_exists: IfExists, job: &Job<'_>) -> Result<NetRun> {
        one_run((seed, out, if_exists), self.document(seed), job, |writer, _, document| {
            self.complete(seed, writer, document, job)
        })
    }

    fn moved(run: &mut NetRun, ensemble: &Path) {
        run.folder = run::seed_folder(ensemble, run.seed).display().to_string();
    }
}
