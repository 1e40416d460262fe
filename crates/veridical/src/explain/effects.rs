//! Effects of all training rows on all queries of a subject, by any of the formulas.

use veridical_core::ranks::pearson;
use veridical_core::{Estimate, Job, Seed};
use veridical_inspect::attribute::{self, margins};
use veridical_inspect::labels::one_hot;
use veridical_inspect::surrogate::{FitSettings, Machine, Surrogate, Target, fit, largest};
use veridical_kernels::machine::{Ridge, softmax};
use veridical_kernels::tangent::Kind;

use super::{Effect, Kernels, LAMBDA, Subject, SubjectSettings, matrix, mean_diagonal};
use crate::{Error, Result};

/// Groups of the jackknife of a correlation.
const GROUPS: usize = 20;

/// Effects of all training rows on all queries.
pub(crate) struct Effects {
    /// A row of one value per training row for every query.
    pub values: Vec<f64>,
    pub similarity: Vec<f32>,
    /// Logits of the queries; predictions of a regression.
    pub logits: Vec<f64>,
    /// The class that is explained, for every query.
    pub of: Vec<u32>,
    pub agreement: Option<Estimate>,
    pub correlation: Option<Estimate>,
    /// Training rows without a gradient.
    pub zeros: Vec<usize>,
}

/// Computes the effects for a run; `of` are the classes that are explained, the predicted ones by default.
pub(crate) fn effects(
    subject: &Subject,
    effect: Effect,
    settings: &SubjectSettings,
    of: Option<&[u32]>,
    job: &Job<'_>,
) -> Result<Effects> {
    subject.check_classes()?;
    let (n, dim) = (subject.rows.len(), subject.dim());
    let is_regression = subject.classes.is_empty();
    if is_regression && !matches!(effect, Effect::Removal | Effect::Mass | Effect::Similarity) {
        let run = subject.network.path().display();
        let what = format!("⟨effect⟩ {} is of classes, and {run} predicts a number", effect.name());
        return Err(Error::request(what, "choose removal, mass or similarity"));
    }
    let [own, logits] = subject.logits(job)?;
    let predicted: Vec<u32> = logits.chunks_exact(dim).map(largest).collect();
    let of = of.map_or_else(|| predicted.clone(), <[u32]>::to_vec);
    // The margin of a single output is the output, with the sign of the class.
    let has_signs = effect == Effect::Trak && subject.has_one_output_for_two()?;
    let kind = if has_signs { Kind::Trntk0 } else { effect.kernel() };
    let Kernels { mut train, mut queries, zeros, .. } =
        subject.kernels(kind, settings, (!is_regression).then_some(of.as_slice()), job)?;
    if has_signs {
        let signs: Vec<f32> = subject.labels().iter().map(|&y| sign(y)).collect();
        let turn = |k: &mut [f32], rows: &mut dyn Iterator<Item = f32>| {
            for (row, own) in k.chunks_exact_mut(n).zip(rows) {
                row.iter_mut().zip(&signs).for_each(|(k, sign)| *k *= own * sign);
            }
        };
        turn(&mut train, &mut signs.iter().copied());
        turn(&mut queries, &mut of.iter().map(|&y| sign(y)));
    }
    let v = match is_regression {
        true => vec![1.0; of.len()],
        false => margins(matrix(&logits, dim)?, &of),
    };
    let (k, q, v) = (matrix(&train, n)?, matrix(&queries, n)?, matrix(&v, dim)?);
    let unit = mean_diagonal(&train, n);
    let unit = if unit > 0.0 { unit } else { 1.0 };
    let seed = Seed::new(settings.seed)?;
    let ridge = || -> Result<Ridge> {
        let targets = match is_regression {
            true => subject.train.numbers().iter().map(|&y| f64::from(y)).collect(),
            false => one_hot(subject.labels(), dim)?,
        };
        Ok(Ridge::fit(k, matrix(&targets, dim)?, LAMBDA * unit, None)?)
    };
    let surrogate = |target: Target<'_>, fitting: FitSettings| -> Result<Surrogate> {
        Ok(fit(k, target, &fitting, job)?)
    };
    let (values, machine) = match effect {
        Effect::Removal => {
            let ridge = ridge()?;
            (ridge.removal(q, v)?, Some(ridge.predict(q)?))
        }
        Effect::Influence => {
            let labels = Target::Labels { labels: subject.labels(), classes: dim, weights: None };
            let fitted = surrogate(labels, FitSettings::labels(seed))?;
            let Machine::Glm(glm) = &fitted.machine else {
                return Err(Error::request("labels are fitted by logistic regression", ""));
            };
            (glm.influence(k, q, v, job)?, Some(fitted.logits(q)?))
        }
        Effect::Mass => {
            let target = Target::Network(matrix(&own, dim)?);
            let fitted = surrogate(target, FitSettings::network(seed))?;
            let alpha = matrix(fitted.alpha(), dim)?;
            (attribute::mass(alpha, fitted.intercepts(), q, v)?, Some(fitted.logits(q)?))
        }
        Effect::Trak => {
            let doubt: Vec<f64> = own
                .chunks_exact(dim)
                .zip(subject.labels())
                .map(|(logits, &label)| 1.0 - softmax(logits, dim)[label as usize])
                .collect();
            (attribute::dual(k, q, Some(&doubt), LAMBDA * unit)?, None)
        }
        // Loss gradients point from the label: more weight on a row lowers the loss of rows like it.
        Effect::Fisher => (attribute::dual(k, q, None, LAMBDA * unit)?, None),
        Effect::Similarity => (queries.iter().map(|&k| f64::from(k)).collect(), None),
    };
    let machine = match machine {
        Some(machine) => machine,
        // Kernels of margins and losses contain the labels of the queries: a machine on them says nothing about the network.
        None if matches!(effect, Effect::Trak | Effect::Fisher) => Vec::new(),
        None => ridge()?.predict(q)?,
    };
    let (mut agreement, mut correlation) = (None, None);
    match is_regression {
        true => correlation = Some(correlated(&machine, &logits)),
        false if machine.is_empty() => {}
        false => {
            let rows = machine.chunks_exact(dim).zip(&predicted);
            let same = rows.filter(|(f, p)| largest(f) == **p).count();
            agreement = Some(Estimate::share(same as u64, predicted.len() as u64));
        }
    }
    Ok(Effects { values, similarity: queries, logits, of, agreement, correlation, zeros })
}

fn sign(class: u32) -> f32 {
    if class == 1 { 1.0 } else { -1.0 }
}

/// Pearson's correlation with a delete-a-group jackknife.
fn correlated(a: &[f64], b: &[f64]) -> Estimate {
    let (n, value) = (a.len(), pearson(a, b));
    let groups = GROUPS.min(n);
    let without = |group: usize| {
        let kept = |x: &[f64]| -> Vec<f64> {
            (0..n).filter(|i| i % groups != group).map(|i| x[i]).collect()
        };
        pearson(&kept(a), &kept(b))
    };
    let without: Vec<f64> = (0..groups).map(without).collect();
    Estimate::jackknife(value, &without, n as u64)
        .map_or(Estimate::point(value, n as u64), |e| e.within(-1.0, 1.0))
}
