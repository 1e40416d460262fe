//! Attributions of a trained network with retrainings to judge them, and wrong labels.

use serde_json::{Value, json};
use veridical_core::threads::side_by_side;
use veridical_core::{Job, Rows, Seed};
use veridical_inspect::attribute::{dual, margins};
use veridical_inspect::labels::{average_precision, left_out_scores, one_hot, suspects};
use veridical_inspect::surrogate::log_odds;
use veridical_inspect::validate::{datamodel_score, half_subsets};
use veridical_kernels::machine::{Ridge, softmax};
use veridical_kernels::tangent::{Kind, Settings, kernel};

use crate::job::{Meter, Options, Outcome};
use crate::networks::{logits, network, train, write_weights};
use crate::tangent::examples;

/// Penalty of the machines, in units of the mean diagonal of their kernel: the default of the product.
const LAMBDA: f64 = 1.0;

/// Training, the attributions of both effects with what they take, and the outputs of networks trained on halves of the rows.
pub fn scores(options: &Options) -> Outcome<Value> {
    let (classes, epochs): (usize, u32) = (options.get("classes")?, options.get("epochs")?);
    let (x, labels) = (options.f32s("rows.f32")?, options.u32s("labels.u32")?);
    let (z, truth) = (options.f32s("queries.f32")?, options.u32s("query_labels.u32")?);
    let (n, q) = (labels.len(), truth.len());
    let all: Vec<u32> = (0..n as u32).collect();

    let meter = Meter::start();
    let net = train(network(options, 1)?, &x, &labels, &all, epochs, 1)?;
    let trained = meter.stop();
    let tensors = write_weights(options, &net)?;
    let (own, queries) =
        (examples(&net, &x).with_labels(&labels), examples(&net, &z).with_labels(&truth));
    let job = Job::silent();

    // TRAK: margins of the true class, (K + lambda I)^-1, and 1 - p of the training rows.
    let meter = Meter::start();
    let settings = Settings::new(Kind::Margin);
    let k = kernel(&net, &own, None, &settings, &job)?;
    let of_queries = kernel(&net, &queries, Some(&own), &settings, &job)?;
    let unit = k.summary.diagonals[0].iter().sum::<f64>() / n as f64;
    let f = logits(&net, &x)?;
    let doubt: Vec<f64> = f
        .chunks_exact(classes)
        .zip(&labels)
        .map(|(f, &y)| 1.0 - softmax(f, classes)[y as usize])
        .collect();
    let (rows, columns) = (Rows::new(&k.gram.values, n)?, Rows::new(&of_queries.gram.values, n)?);
    let trak = dual(rows, columns, Some(&doubt), LAMBDA * unit)?;
    let by_trak = meter.stop();
    drop((k, of_queries));

    // Removal: exact leave-one-out of kernel ridge on the trNTK.
    let meter = Meter::start();
    let settings = Settings::new(Kind::Trntk);
    let k = kernel(&net, &own, None, &settings, &job)?.gram.values;
    let of_queries = kernel(&net, &queries, Some(&own), &settings, &job)?.gram.values;
    let y = one_hot(&labels, classes)?;
    let ridge = Ridge::fit(Rows::new(&k, n)?, Rows::new(&y, classes)?, LAMBDA, None)?;
    let v = margins(Rows::new(&logits(&net, &z)?, classes)?, &truth);
    let removal = ridge.removal(Rows::new(&of_queries, n)?, Rows::new(&v, classes)?)?;
    let by_removal = meter.stop();
    options.write_f64s("trak.f64", &trak)?;
    options.write_f64s("removal.f64", &removal)?;

    let (m, seeds): (usize, u64) = (options.get("subsets")?, options.get("seeds")?);
    let subsets = half_subsets(n, m, Seed::new(5)?)?;
    for seed in 0..seeds {
        let retrained = |subset: &Vec<u32>| -> Outcome<Vec<f64>> {
            let first = network(options, 100 + seed)?;
            let net = train(first, &x, &labels, subset, epochs, 100 + seed)?;
            let f = logits(&net, &z)?;
            Ok(f.chunks_exact(classes).zip(&truth).map(|(f, &y)| log_odds(f, y)).collect())
        };
        let outputs: Vec<f64> =
            side_by_side::<_, _, Failed>(&subsets, |s| Ok(retrained(s)?))?.concat();
        options.write_f64s(&format!("outputs-{seed}.f64"), &outputs)?;
    }
    let right = |f: &[f64], y: &[u32]| {
        let classes = f.chunks_exact(classes);
        let hits = classes.zip(y).filter(|(f, y)| log_odds(f, **y) > 0.0 || is_largest(f, **y));
        hits.count() as f64 / y.len() as f64
    };
    Ok(json!({
        "training": trained, "trak": by_trak, "removal": by_removal, "tensors": tensors, "rows": n,
        "queries": q, "parameters": net.params.len(),
        "accuracy": [right(&f, &labels), right(&logits(&net, &z)?, &truth)],
    }))
}

fn is_largest(f: &[f64], y: u32) -> bool {
    f.iter().all(|x| *x <= f[y as usize])
}

/// Any error of a retraining, with a text.
#[derive(Debug)]
struct Failed(String);

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failed {}

impl From<veridical_core::Error> for Failed {
    fn from(error: veridical_core::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<Box<dyn std::error::Error + Send + Sync>> for Failed {
    fn from(error: Box<dyn std::error::Error + Send + Sync>) -> Self {
        Self(error.to_string())
    }
}

/// The linear datamodeling score of attributions, queries x rows.
pub fn lds(options: &Options) -> Outcome<Value> {
    let (m, seeds): (usize, u64) = (options.get("subsets")?, options.get("seeds")?);
    let q: usize = options.get("queries")?;
    let effects = options.f64s(options.text("effects")?)?;
    let n = effects.len() / q;
    let subsets = half_subsets(n, m, Seed::new(5)?)?;
    let outputs: Vec<Vec<f64>> = (0..seeds)
        .map(|seed| options.f64s(&format!("outputs-{seed}.f64")))
        .collect::<Outcome<_>>()?;
    let views: Vec<Rows<'_, f64>> =
        outputs.iter().map(|o| Rows::new(o, q)).collect::<Result<_, _>>()?;
    Ok(serde_json::to_value(datamodel_score(Rows::new(&effects, n)?, &subsets, &views)?)?)
}

/// One training on labels of which some are wrong, and the average precision of their ranking by leaving out each row.
pub fn labels(options: &Options) -> Outcome<Value> {
    let (classes, epochs): (usize, u32) = (options.get("classes")?, options.get("epochs")?);
    let (x, labels) = (options.f32s("rows.f32")?, options.u32s("labels.u32")?);
    let wrong = options.u32s("wrong.u32")?;
    let n = labels.len();
    let all: Vec<u32> = (0..n as u32).collect();
    let meter = Meter::start();
    let net = train(network(options, 1)?, &x, &labels, &all, epochs, 1)?;
    let trained = meter.stop();
    let meter = Meter::start();
    let k = kernel(&net, &examples(&net, &x), None, &Settings::new(Kind::Trntk), &Job::silent())?;
    let kernel = meter.stop();
    let y = one_hot(&labels, classes)?;
    let ridge = Ridge::fit(Rows::new(&k.gram.values, n)?, Rows::new(&y, classes)?, LAMBDA, None)?;
    let scores = left_out_scores(&ridge, &y);
    let ranked = suspects(Rows::new(&scores, classes)?, &labels);
    let found = meter.stop();
    let precision = average_precision(ranked.iter().map(|s| wrong[s.row as usize] == 1));
    Ok(json!({
        "training": trained, "kernel": kernel, "found": found, "average_precision": precision,
    }))
}
