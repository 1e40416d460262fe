//! Consumers: downstream models trained on an earlier table, and the effect of today's vectors on them.
//!
//! A consumer scores ids by <q, h(x)> with queries q from its training. For each treatment of today's vectors there are
//! two numbers: the overlap of the k best ids, and the correlation of all scores, against those on its own table.

use rayon::prelude::*;
use serde::Serialize;
use veridical_core::{Estimate, Order, Seed};
use veridical_features::FeatureMap;
use veridical_learn::{LinearMap, Logistic, LogisticSettings, cosine_neighbors, dot};

use crate::stability::SharedRows;
use crate::stability::downstream::accuracy;
use crate::stability::neighbors::overlaps;

/// The number of queries drawn from the consumer's own table if it provides none.
pub const QUERIES: usize = 500;
/// The number of ids whose scores are correlated.
const CORRELATED: usize = 2000;
/// The number of runs behind an estimate: its own table and today's.
const TABLES: u64 = 2;
/// The least fraction of the consumer's ids that must still exist.
pub const LEAST_IDS: f64 = 0.5;
/// The least correlation of scores for which a treatment is safe.
pub const SAFE_CORRELATION: f64 = 0.9;
/// The least overlap of the best ids for which a treatment is safe.
pub const SAFE_OVERLAP: f64 = 0.5;
/// The largest loss of accuracy for which a treatment is safe, if there are labels.
pub const SAFE_LOSS: f64 = 0.02;
/// Below this correlation after alignment, too little of the geometry is left to retrain on.
pub const BLOCKED_CORRELATION: f64 = 0.3;

/// What a consumer should do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ConsumerVerdict {
    /// The consumer is safe with the given treatment.
    Safe,
    /// Retrain the consumer on today's vectors.
    Retrain,
    /// Do not use today's vectors.
    Blocked,
}

/// The consumer's scores with one treatment.
#[derive(Clone, Debug, Serialize)]
pub struct TreatedScores {
    /// The treatment: `raw`, `aligned` or `align-then-phi`.
    pub treatment: &'static str,
    /// The overlap of the k best ids of a query.
    pub overlap: Option<Estimate>,
    /// The correlation of the scores of a query.
    pub correlation: Option<Estimate>,
    /// The accuracy of the consumer's model on held-out ids; `None` without labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
}

/// The report on one consumer.
#[derive(Clone, Debug, Serialize)]
pub struct ConsumerReport {
    /// The name of the consumer.
    pub name: String,
    /// The number of ids of its table that still exist, and of all ids of its table.
    pub ids: [usize; 2],
    /// The accuracy on its own table, if there are labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own_accuracy: Option<f64>,
    /// The scores for each treatment of today's vectors.
    pub treatments: Vec<TreatedScores>,
    /// What the consumer should do.
    pub verdict: ConsumerVerdict,
    /// The treatment that makes it safe, or why it is not.
    pub reason: String,
}

/// A consumer: its table and today's table on their shared ids.
#[derive(Clone, Debug)]
pub struct Consumer {
    /// The name of the consumer.
    pub name: String,
    /// Its own table, with unit rows.
    pub own: SharedRows,
    /// Today's table, not normalized.
    pub today: SharedRows,
    /// The number of ids of its own table that still exist, and of all ids of its own table.
    pub ids: [usize; 2],
    /// Its queries, unit rows with the dimension of its table.
    pub queries: Option<Vec<f32>>,
    /// The class of every shared id; empty without labels, `u32::MAX` for ids without one.
    pub labels: Vec<u32>,
    /// The number of classes.
    pub classes: usize,
}

/// Assesses one consumer. `map` takes today's vectors to the reference; `features` are applied after it.
///
/// # Errors
/// Those of the feature map.
pub fn consumer(
    consumer: &Consumer,
    map: Option<&LinearMap>,
    features: Option<&FeatureMap>,
    k: usize,
    seed: Seed,
) -> Result<ConsumerReport, veridical_features::Error> {
    let Consumer { name, own, today, ids, queries, labels, classes } = consumer;
    let n = own.rows.len() / own.dim;
    let (ids, [exist, had]) = (*ids, *ids);
    let blocked = |reason: String| ConsumerReport {
        name: name.clone(),
        ids,
        own_accuracy: None,
        treatments: Vec::new(),
        verdict: ConsumerVerdict::Blocked,
        reason,
    };
    if (exist as f64) < LEAST_IDS * had as f64 {
        return Ok(blocked(format!("only {exist} of its {had} ids still exist")));
    }
    let (wide, width) = (own.dim, map.map_or(today.dim, LinearMap::output_dim));
    if today.dim != wide && width != wide {
        return Ok(blocked(format!(
            "it expects vectors of dimension {wide}, today's have dimension {}",
            today.dim
        )));
    }
    let order = Order::new(n as u64, seed, "consumer", 0);
    let (drawn, queries) = match queries {
        Some(queries) => (None, queries.clone()),
        None => {
            let rows: Vec<u32> = (0..QUERIES.min(n) as u64).map(|t| order.at(t) as u32).collect();
            (Some(rows.clone()), own.gather(&rows))
        }
    };
    let sample: Vec<u32> = (0..CORRELATED.min(n) as u64).map(|t| order.at(t) as u32).collect();
    let models =
        (!labels.is_empty()).then(|| LabelModel::fit(own, labels, *classes)).transpose()?;
    let scores = |treatment,
                  queries: &[f32],
                  own: &SharedRows,
                  today: &SharedRows,
                  with_accuracy: bool| {
        let itself = |q: usize| drawn.as_ref().map(|rows| rows[q]);
        let best = |run: &SharedRows| cosine_neighbors(&run.rows, queries, run.dim, k, itself);
        let overlap = overlaps(&best(own), &best(today));
        let correlations: Vec<f64> = queries
            .par_chunks(own.dim)
            .map(|query| {
                let of = |run: &SharedRows| -> Vec<f64> {
                    sample.iter().map(|&i| f64::from(dot(query, run.row(i as usize)))).collect()
                };
                correlation(&of(own), &of(today))
            })
            .collect();
        TreatedScores {
            treatment,
            overlap: Estimate::mean(overlap).map(|e| e.within(0.0, 1.0).with_seeds(TABLES)),
            correlation: Estimate::mean(correlations)
                .map(|e| e.within(-1.0, 1.0).with_seeds(TABLES)),
            accuracy: models.as_ref().filter(|_| with_accuracy).map(|model| model.accuracy(today)),
        }
    };
    let mut treatments = Vec::new();
    if today.dim == own.dim {
        treatments.push(scores("raw", &queries, own, today, true));
    }
    if let Some(map) = map.filter(|map| map.output_dim() == own.dim) {
        let name = String::new();
        let aligned = SharedRows { name, dim: own.dim, rows: map.apply(&today.rows) };
        treatments.push(scores("aligned", &queries, own, &aligned, true));
        if let Some(phi) = features.filter(|phi| phi.spec().input_dim() == own.dim) {
            let dim = phi.spec().output_dim();
            let featurized = |rows: &[f32]| -> Result<SharedRows, veridical_features::Error> {
                Ok(SharedRows {
                    name: String::new(),
                    dim,
                    rows: phi
                        .transform(veridical_core::Rows::new(rows, phi.spec().input_dim())?)?,
                })
            };
            let (own, aligned) = (featurized(&own.rows)?, featurized(&aligned.rows)?);
            let queries = featurized(&queries)?.rows;
            treatments.push(scores("align-then-phi", &queries, &own, &aligned, false));
        }
    }
    let own_accuracy = models.as_ref().map(|model| model.accuracy(own));
    let (verdict, reason) = assess(&treatments, own_accuracy);
    Ok(ConsumerReport { name: name.clone(), ids, own_accuracy, treatments, verdict, reason })
}

fn assess(treatments: &[TreatedScores], own: Option<f64>) -> (ConsumerVerdict, String) {
    let value = |e: Option<Estimate>| e.map_or(f64::NAN, |e| e.value);
    let safe = |t: &&TreatedScores| {
        let loss = own.zip(t.accuracy).map_or(0.0, |(own, today)| own - today);
        value(t.correlation) >= SAFE_CORRELATION
            && value(t.overlap) >= SAFE_OVERLAP
            && loss <= SAFE_LOSS
    };
    if let Some(found) = treatments.iter().find(safe) {
        let with = match found.treatment {
            "raw" => "with today's raw vectors".to_owned(),
            other => format!("with {other} vectors"),
        };
        return (ConsumerVerdict::Safe, with);
    }
    let best = treatments.iter().map(|t| value(t.correlation)).fold(f64::NAN, f64::max);
    if best >= BLOCKED_CORRELATION {
        let why = format!("its scores change too much (correlation {best:.2} at best)");
        (ConsumerVerdict::Retrain, why)
    } else {
        let why = format!("too little of its geometry is left (correlation {best:.2} at best)");
        (ConsumerVerdict::Blocked, why)
    }
}

/// A logistic regression on the labels, as a stand-in for the consumer's own model.
struct LabelModel {
    model: Logistic,
    test: Vec<u32>,
    labels: Vec<u32>,
}

impl LabelModel {
    /// Trained on four of five labeled ids.
    fn fit(own: &SharedRows, labels: &[u32], classes: usize) -> veridical_core::Result<Self> {
        let with_label = (0..labels.len() as u32).filter(|&i| labels[i as usize] != u32::MAX);
        let (mut train, mut test) = (Vec::new(), Vec::new());
        for (at, i) in with_label.enumerate() {
            if at % 5 == 0 { test.push(i) } else { train.push(i) }
        }
        let of = |rows: &[u32]| rows.iter().map(|&i| labels[i as usize]).collect::<Vec<u32>>();
        let settings = LogisticSettings { c: 30.0, ..LogisticSettings::default() };
        let rows = own.gather(&train);
        let rows = veridical_core::Rows::new(&rows, own.dim)?;
        let model = Logistic::fit(rows, &of(&train), classes, &settings, None)?;
        Ok(Self { model, labels: of(&test), test })
    }

    fn accuracy(&self, run: &SharedRows) -> f64 {
        accuracy(&self.labels, &self.model.predict(&run.gather(&self.test)))
    }
}

/// Pearson's correlation; NaN if one side is constant.
fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let n = a.len() as f64;
    let (mean_a, mean_b) = (a.iter().sum::<f64>() / n, b.iter().sum::<f64>() / n);
    let (mut ab, mut aa, mut bb) = (0.0, 0.0, 0.0);
    for (a, b) in a.iter().zip(b) {
        ab += (a - mean_a) * (b - mean_b);
        aa += (a - mean_a).powi(2);
        bb += (b - mean_b).powi(2);
    }
    ab / (aa * bb).sqrt()
}
