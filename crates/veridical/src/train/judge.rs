//! How good a model is on rows that were kept back: NDCG@10 of a full ranking, or the error of ratings.

use std::collections::BTreeMap;

use veridical_core::Seed;
use veridical_data::Lists;
use veridical_embed::evaluate::{self, Protocol, Settings, Task};
use veridical_embed::{Model, Purpose};

use super::material::Divided;
use crate::Result;

const NDCG: &str = "ndcg@10";
const RMSE: &str = "rmse";
const K: usize = 10;

/// Judges a model on the validation rows.
pub(crate) enum Judge<'a> {
    /// By lists of items.
    Ranking {
        /// What was learnt from.
        train: Lists,
        /// The same in the order of time.
        sequences: Lists,
        /// What is to be found.
        relevant: Lists,
    },
    /// By predicted ratings.
    Ratings {
        /// The data.
        divided: &'a Divided,
    },
}

impl<'a> Judge<'a> {
    /// On the validation rows.
    pub fn validation(divided: &'a Divided, purpose: Purpose) -> Result<Self> {
        let Divided { data, split, .. } = divided;
        Ok(match purpose {
            Purpose::Rating => Self::Ratings { divided },
            _ => Self::Ranking {
                train: data.by_user(&split.train),
                sequences: data.sequences(&split.train),
                relevant: data.by_user(&split.validation),
            },
        })
    }

    /// Measures by name.
    pub fn measures(&self, model: &Model) -> Result<BTreeMap<String, f64>> {
        match self {
            Self::Ranking { train, sequences, relevant } => {
                let task = Task { train, sequences: Some(sequences), aside: None, relevant };
                let protocols = vec![Protocol::Full];
                let settings = Settings { ks: vec![K], protocols, seed: Seed::new(0)? };
                let report = evaluate::ranking(&*model.scorer()?, &task, &settings)?;
                let kept = [NDCG, "hit@10", "recall@10"];
                let measure = |name: &&str| Some(((*name).into(), report.get("full", name)?.value));
                Ok(kept.iter().filter_map(measure).collect())
            }
            Self::Ratings { divided } => {
                let (user, item, rating) = divided.pairs(&divided.split.validation)?;
                let report = evaluate::ratings(model, &user, &item, &rating)?;
                let measures = [(RMSE, report.rmse.value), ("mae", report.mae.value)];
                Ok(measures.into_iter().map(|(name, value)| (name.into(), value)).collect())
            }
        }
    }

    /// The measure that decides.
    pub fn decisive(&self) -> &'static str {
        match self {
            Self::Ranking { .. } => NDCG,
            Self::Ratings { .. } => RMSE,
        }
    }

    /// Whether a value of that measure is better than another.
    pub fn is_better(&self, value: f64, than: f64) -> bool {
        match self {
            Self::Ranking { .. } => value > than,
            Self::Ratings { .. } => value < than,
        }
    }
}
