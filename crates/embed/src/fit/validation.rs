//! Validation on held-out rows: NDCG@10 of a full ranking, or the error of ratings.

use std::collections::BTreeMap;

use veridical_core::stopping::Better;
use veridical_core::{Job, Seed};
use veridical_data::{Interactions, Lists, Split};

use crate::evaluate::{self, Protocol, Settings, Task};
use crate::{Model, Purpose, Result};

const NDCG: &str = "ndcg@10";
const RMSE: &str = "rmse";
const K: usize = 10;

/// Metrics by name.
pub type Measures = BTreeMap<String, f64>;

/// Evaluates a model between two epochs.
pub trait Validate {
    /// Computes the metrics of a model.
    ///
    /// # Errors
    /// A model that cannot be evaluated this way, and an interruption by the user.
    fn measures(&self, model: &Model, job: &Job<'_>) -> Result<Measures>;

    /// Returns the name of the metric that early stopping and model selection use.
    fn decisive(&self) -> &str;

    /// Returns whether larger or smaller values of that metric are better.
    fn better(&self) -> Better;
}

/// Evaluates a model on the validation set of a split.
#[derive(Clone, Debug)]
pub struct Validation(Kind);

#[derive(Clone, Debug)]
enum Kind {
    /// Rankings: training items, the same in chronological order, and the held-out items.
    Ranking { train: Lists, sequences: Lists, relevant: Lists },
    /// Predicted ratings of (user, item) pairs.
    Ratings { user: Vec<u32>, item: Vec<u32>, rating: Vec<f32> },
}

impl Validation {
    /// Makes the validation of a split, for models with this purpose.
    ///
    /// # Errors
    /// [`veridical_core::Error::Missing`] if ratings are needed and missing.
    pub fn new(data: &Interactions, split: &Split, purpose: Purpose) -> Result<Self> {
        Ok(Self(match purpose {
            Purpose::Rating => {
                let (user, item, rating) = evaluate::rated(data, &split.validation)?;
                Kind::Ratings { user, item, rating }
            }
            Purpose::Ranking | Purpose::Text => Kind::Ranking {
                train: data.by_user(&split.train),
                sequences: data.sequences(&split.train),
                relevant: data.by_user(&split.validation),
            },
        }))
    }
}

impl Validate for Validation {
    fn measures(&self, model: &Model, job: &Job<'_>) -> Result<Measures> {
        match &self.0 {
            Kind::Ranking { train, sequences, relevant } => {
                let task = Task {
                    train,
                    sequences: Some(sequences),
                    aside: None,
                    relevant,
                    keep_history: false,
                };
                let protocols = vec![Protocol::Full];
                let settings = Settings { ks: vec![K], protocols, seed: Seed::new(0)? };
                let report = evaluate::ranking(&*model.scorer()?, &task, &settings, job)?;
                let kept = [NDCG, "hit@10", "recall@10"];
                let measure = |name: &&str| Some(((*name).into(), report.get("full", name)?.value));
                Ok(kept.iter().filter_map(measure).collect())
            }
            Kind::Ratings { user, item, rating } => {
                let report = evaluate::ratings(model, user, item, rating)?;
                let measures = [(RMSE, report.rmse.value), ("mae", report.mae.value)];
                Ok(measures.into_iter().map(|(name, value)| (name.into(), value)).collect())
            }
        }
    }

    fn decisive(&self) -> &str {
        match self.0 {
            Kind::Ranking { .. } => NDCG,
            Kind::Ratings { .. } => RMSE,
        }
    }

    fn better(&self) -> Better {
        match self.0 {
            Kind::Ranking { .. } => Better::Higher,
            Kind::Ratings { .. } => Better::Lower,
        }
    }
}
