//! How good a model is on rows that were held out: NDCG@10 of a full ranking, or the error of ratings.

use std::collections::BTreeMap;

use veridical_core::stopping::Better;
use veridical_core::{Job, Seed};
use veridical_data::{Interactions, Lists, Split};

use crate::evaluate::{self, Protocol, Settings, Task};
use crate::{Model, Purpose, Result};

const NDCG: &str = "ndcg@10";
const RMSE: &str = "rmse";
const K: usize = 10;

/// Measures by name.
pub type Measures = BTreeMap<String, f64>;

/// Judges a model between two epochs.
pub trait Judge {
    /// Measures by name.
    ///
    /// # Errors
    /// A model that cannot be judged so, and an interruption.
    fn measures(&self, model: &Model, job: &Job<'_>) -> Result<Measures>;

    /// The measure that decides.
    fn decisive(&self) -> &str;

    /// Which values of that measure are better.
    fn better(&self) -> Better;
}

/// Judges a model on the validation rows of a split.
#[derive(Clone, Debug)]
pub struct Validation(Kind);

#[derive(Clone, Debug)]
enum Kind {
    /// By lists of items: what was learned from, the same in the order of time, and what is to be found.
    Ranking { train: Lists, sequences: Lists, relevant: Lists },
    /// By predicted ratings of pairs of a user and an item.
    Ratings { user: Vec<u32>, item: Vec<u32>, rating: Vec<f32> },
}

impl Validation {
    /// On the validation rows, for a model that is meant for `purpose`.
    ///
    /// # Errors
    /// [`veridical_core::Error::Missing`] for ratings that are not there.
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

impl Judge for Validation {
    fn measures(&self, model: &Model, job: &Job<'_>) -> Result<Measures> {
        match &self.0 {
            Kind::Ranking { train, sequences, relevant } => {
                let task = Task { train, sequences: Some(sequences), aside: None, relevant };
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
