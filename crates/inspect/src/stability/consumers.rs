//! Downstream models that were trained on some earlier table: what today's vectors do to them.
//!
//! A consumer scores ids by <q, h(x)> with queries q of the day it was trained. For each treatment of today's vectors
//! two numbers: the overlap of the k best ids, and the correlation of all scores, against those on its own table.

use rayon::prelude::*;
use serde::Serialize;
use veridical_core::{Estimate, Order, Seed};
use veridical_features::FeatureMap;
use veridical_learn::{LinearMap, Logistic, LogisticSettings, cosine_neighbours, dot};

use crate::stability::Run;
use crate::stability::downstream::accuracy;
use crate::stability::neighbors::overlaps;

/// Queries drawn from the consumer's own table if it names none.
pub const QUERIES: usize = 500;
/// Ids whose scores are correlated.
const CORRELATED: usize = 2000;
/// Its own table and today's: the runs behind an estimate.
const TABLES: u64 = 2;
/// At least so many of its ids must still be there.
pub const LEAST_IDS: f64 = 0.5;
/// A consumer is safe with a treatment whose scores correlate at least so much, and
pub const SAFE_CORRELATION: f64 = 0.9;
/// whose best ids overlap at least so much, and
pub const SAFE_OVERLAP: f64 = 0.5;
/// that loses at most this much accuracy where there are labels.
pub const SAFE_LOSS: f64 = 0.02;
/// Below this correlation after alignment nothing of the geometry is left to retrain on.
pub const BLOCKED_CORRELATION: f64 = 0.3;

/// What a consumer should do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ConsumerVerdict {
    /// Nothing, with the treatment that is named.
    Safe,
    /// Train its model anew on today's vectors.
    Retrain,
    /// Do not take today's vectors.
    Blocked,
}

/// Scores of one treatment.
#[derive(Clone, Debug, Serialize)]
pub struct TreatedScores {
    /// `raw`, `aligned` or `align-then-phi`.
    pub treatment: &'static str,
    /// Overlap of the k best ids of a query.
    pub overlap: Option<Estimate>,
    /// Correlation of the scores of a query.
    pub correlation: Option<Estimate>,
    /// Accuracy of the consumer's model on ids it was not trained on; `None` without labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
}

/// One line of the report.
#[derive(Clone, Debug, Serialize)]
pub struct ConsumerReport {
    /// Its name.
    pub name: String,
    /// Ids of its table that are still there, and how many it had.
    pub ids: [usize; 2],
    /// Accuracy on its own table, if there are labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own_accuracy: Option<f64>,
    /// Each treatment of today's vectors.
    pub treatments: Vec<TreatedScores>,
    /// What to do.
    pub verdict: ConsumerVerdict,
    /// The treatment that makes it safe, or why it is not.
    pub reason: String,
}

/// A consumer: its table and today's on the ids they share.
#[derive(Clone, Debug)]
pub struct Consumer {
    /// Its name.
    pub name: String,
    /// Its own table, unit rows.
    pub own: Run,
    /// Today's, as it is.
    pub today: Run,
    /// Ids of its own table before the join.
    pub had: usize,
    /// Its queries, unit rows as wide as its table.
    pub queries: Option<Vec<f32>>,
    /// Class of every shared id; empty without labels, `u32::MAX` for ids without one.
    pub labels: Vec<u32>,
    /// Classes.
    pub classes: usize,
}

/// Looks at one consumer. `map` takes today's vectors to the reference; `features` are applied after it.
///
/// # Errors
/// Of the transform.
pub fn consumer(
    consumer: &Consumer,
    map: Option<&LinearMap>,
    features: Option<&FeatureMap>,
    k: usize,
    seed: Seed,
) -> Result<ConsumerReport, veridical_features::Error> {
    let Consumer { name, own, today, had, queries, labels, classes } = consumer;
    let n = own.rows.len() / own.dim;
    let ids = [n, *had];
    let blocked = |reason: String| ConsumerReport {
        name: name.clone(),
        ids,
        own_accuracy: None,
        treatments: Vec::new(),
        verdict: ConsumerVerdict::Blocked,
        reason,
    };
    if (n as f64) < LEAST_IDS * *had as f64 {
        return Ok(blocked(format!("only {n} of its {had} ids are still there")));
    }
    let (wide, width) = (own.dim, map.map_or(today.dim, LinearMap::output_dim));
    if today.dim != wide && width != wide {
        return Ok(blocked(format!(
            "it expects {wide} values per vector, today's have {}",
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
    let models = (!labels.is_empty()).then(|| Model::fit(own, labels, *classes)).transpose()?;
    let scores = |treatment, queries: &[f32], own: &Run, today: &Run, judge: bool| {
        let itself = |q: usize| drawn.as_ref().map(|rows| rows[q]);
        let best = |run: &Run| cosine_neighbours(&run.rows, queries, run.dim, k, itself);
        let overlap = overlaps(&best(own), &best(today));
        let correlations: Vec<f64> = queries
            .par_chunks(own.dim)
            .map(|query| {
                let of = |run: &Run| -> Vec<f64> {
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
            accuracy: models.as_ref().filter(|_| judge).map(|model| model.accuracy(today)),
        }
    };
    let mut treatments = Vec::new();
    if today.dim == own.dim {
        treatments.push(scores("raw", &queries, own, today, true));
    }
    if let Some(map) = map.filter(|map| map.output_dim() == own.dim) {
        let name = String::new();
        let aligned = Run { name, dim: own.dim, rows: map.apply(&today.rows) };
        treatments.push(scores("aligned", &queries, own, &aligned, true));
        if let Some(phi) = features.filter(|phi| phi.spec().input_dim() == own.dim) {
            let dim = phi.spec().output_dim();
            let featurised = |rows: &[f32]| -> Result<Run, veridical_features::Error> {
                Ok(Run {
                    name: String::new(),
                    dim,
                    rows: phi
                        .transform(veridical_core::Rows::new(rows, phi.spec().input_dim())?)?,
                })
            };
            let (own, aligned) = (featurised(&own.rows)?, featurised(&aligned.rows)?);
            let queries = featurised(&queries)?.rows;
            treatments.push(scores("align-then-phi", &queries, &own, &aligned, false));
        }
    }
    let own_accuracy = models.as_ref().map(|model| model.accuracy(own));
    let (verdict, reason) = judge(&treatments, own_accuracy);
    Ok(ConsumerReport { name: name.clone(), ids, own_accuracy, treatments, verdict, reason })
}

fn judge(treatments: &[TreatedScores], own: Option<f64>) -> (ConsumerVerdict, String) {
    let value = |e: Option<Estimate>| e.map_or(f64::NAN, |e| e.value);
    let safe = |t: &&TreatedScores| {
        let loss = own.zip(t.accuracy).map_or(0.0, |(own, today)| own - today);
        value(t.correlation) >= SAFE_CORRELATION
            && value(t.overlap) >= SAFE_OVERLAP
            && loss <= SAFE_LOSS
    };
    if let Some(found) = treatments.iter().find(safe) {
        let with = match found.treatment {
            "raw" => "with today's vectors as they are".to_owned(),
            other => format!("with {other} vectors"),
        };
        return (ConsumerVerdict::Safe, with);
    }
    let best = treatments.iter().map(|t| value(t.correlation)).fold(f64::NAN, f64::max);
    if best >= BLOCKED_CORRELATION {
        let why = format!("its scores change too much (correlation {best:.2} at best)");
        (ConsumerVerdict::Retrain, why)
    } else {
        let why = format!("nothing of its geometry is left (correlation {best:.2} at best)");
        (ConsumerVerdict::Blocked, why)
    }
}

/// The consumer's own model, as far as labels can stand in for it.
struct Model {
    model: Logistic,
    test: Vec<u32>,
    labels: Vec<u32>,
}

impl Model {
    /// Trained on four of five labelled ids.
    fn fit(own: &Run, labels: &[u32], classes: usize) -> veridical_core::Result<Self> {
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

    fn accuracy(&self, run: &Run) -> f64 {
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
