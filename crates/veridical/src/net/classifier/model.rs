//! Classifiers of vectors: logistic regression on the vectors or on their random Fourier features, and nearest neighbors.
//!
//! logistic  scores W x' + b of x' = (x - mean) / s, s the root mean square of all centered coordinates: one number, so that the
//!           classifier does not depend on the coordinate system, which the training of vectors leaves to chance
//! phi       the same scores of phi(x)
//! knn       ln((v_c + 1/K) / (k + 1)), v_c votes of the k nearest rows by cosine for class c of K: no probability is 0
//!
//! Penalty, output dim and k are chosen by cross-validation on the training rows: the first two by log-loss, k by accuracy.

use rayon::prelude::*;
use veridical_core::{Error as CoreError, RowSample, Rows, Seed};
use veridical_data::examples::{Examples, Targets, Values};
use veridical_features::{FeatureMap, FeatureSpec, Kernel, Normalize, length_scale};
use veridical_learn::{Folds, Logistic, LogisticSettings, Metric, Penalty, nearest_labels};

use super::options::{ClassifierRecipe, Grid, ModelKind};
use crate::Result;

/// The penalties that cross-validation tries: C from 2^-10 to 2^20.
fn penalties() -> Vec<f64> {
    (-5..=10).map(|power| f64::from(2 * power).exp2()).collect()
}

/// The numbers of neighbors that cross-validation tries.
const NEIGHBORS: [usize; 8] = [1, 3, 5, 10, 20, 40, 80, 160];
/// Rows that the median length scale is measured on.
const MEDIAN_ROWS: usize = 1000;
/// Fits to this gradient differ from the optimum in no digit that is shown.
const TOLERANCE: f64 = 1e-5;

/// A fitted classifier.
pub(super) enum Fitted {
    /// Linear scores.
    Linear { input: LinearInput, scores: Logistic },
    /// Votes of the training rows.
    Neighbors { rows: Vec<f32>, dim: usize, labels: Vec<u32>, k: usize },
}

/// What linear scores are computed from.
pub(super) enum LinearInput {
    /// (x - mean) / scale.
    Scaled { mean: Vec<f32>, scale: f32 },
    /// phi(x).
    Features(Box<FeatureMap>),
}

/// What cross-validation chose, and what it saw.
#[derive(Clone, Debug, Default)]
pub(super) struct Choice {
    pub output_dim: Option<usize>,
    pub c: Option<f64>,
    pub k: Option<usize>,
    /// Output dim (phi), C, and the mean log-loss on held-out rows.
    pub penalties: Vec<(Option<usize>, f64, f64)>,
    /// k, and the accuracy on held-out rows.
    pub neighbors: Vec<(usize, f64)>,
}

/// Labeled rows.
#[derive(Clone, Copy)]
pub(super) struct Labeled<'a> {
    pub rows: Rows<'a, f32>,
    pub labels: &'a [u32],
    pub classes: usize,
}

impl<'a> Labeled<'a> {
    /// Labeled vectors.
    pub fn of(examples: &'a Examples, classes: usize) -> Result<Self> {
        let rows = rows_of(examples)?;
        match &examples.targets {
            Targets::Classes(labels) => Ok(Self { rows, labels, classes }),
            Targets::Numbers { .. } => Err(CoreError::shape("targets are not classes", "").into()),
        }
    }

    fn with<'b>(&self, rows: Rows<'b, f32>) -> Labeled<'b>
    where
        'a: 'b,
    {
        Labeled { rows, labels: self.labels, classes: self.classes }
    }
}

/// The rows of examples that are vectors.
pub(super) fn rows_of(examples: &Examples) -> Result<Rows<'_, f32>> {
    match &examples.values {
        Values::Floats(values) => Ok(Rows::new(values, examples.shape.len())?),
        Values::Bytes(_) => Err(CoreError::shape("examples are images, not vectors", "").into()),
    }
}

impl LinearInput {
    fn scaled(rows: Rows<'_, f32>) -> Self {
        let (n, dim) = (rows.n() as f64, rows.dim());
        let mut mean = vec![0.0f64; dim];
        for row in rows.iter() {
            mean.iter_mut().zip(row).for_each(|(m, &x)| *m += f64::from(x));
        }
        mean.iter_mut().for_each(|m| *m /= n);
        let square = |row: &[f32]| -> f64 {
            row.iter().zip(&mean).map(|(&x, m)| (f64::from(x) - m).powi(2)).sum()
        };
        let scale = (rows.iter().map(square).sum::<f64>() / (n * dim as f64)).sqrt() as f32;
        let scale = if scale > 0.0 { scale } else { 1.0 };
        Self::Scaled { mean: mean.into_iter().map(|m| m as f32).collect(), scale }
    }

    fn apply(&self, rows: Rows<'_, f32>) -> Result<Vec<f32>> {
        match self {
            Self::Scaled { mean, scale } => {
                let row = |row: &[f32]| -> Vec<f32> {
                    row.iter().zip(mean).map(|(x, m)| (x - m) / scale).collect()
                };
                Ok(rows.iter().flat_map(row).collect())
            }
            Self::Features(map) => Ok(map.transform(rows)?),
        }
    }
}

impl Fitted {
    /// Fits a classifier with the settings of a recipe; `spec` is the feature spec of phi, if one is given.
    pub fn new(
        recipe: &ClassifierRecipe,
        spec: Option<&FeatureSpec>,
        data: Labeled<'_>,
        seed: Seed,
    ) -> Result<(Self, Choice)> {
        let kind = recipe.kind()?;
        let grid = recipe.grid(kind)?;
        let folds = Folds { n: recipe.folds(), seed };
        match kind {
            ModelKind::Logistic => {
                let input = LinearInput::scaled(data.rows);
                Self::linear(recipe, &grid, vec![(None, input)], data, folds)
            }
            ModelKind::Phi => {
                let given = match spec {
                    Some(spec) => spec.clone(),
                    None => usual_spec(data.rows, seed)?,
                };
                if given.input_dim() != data.rows.dim() {
                    let (of, dim) = (given.input_dim(), data.rows.dim());
                    let what = format!("⟨phi⟩ is for vectors of dimension {of}, these have {dim}");
                    return Err(CoreError::request(what, "make a spec of these vectors").into());
                }
                let dims = match grid.output_dim.as_slice() {
                    [] => vec![given.output_dim()],
                    dims => dims.to_vec(),
                };
                let input = |width: usize| -> Result<_> {
                    let map = FeatureMap::new(&given.redrawn(given.seed().get(), width)?)?;
                    Ok((Some(width), LinearInput::Features(Box::new(map))))
                };
                let inputs = dims.into_iter().map(input).collect::<Result<Vec<_>>>()?;
                Self::linear(recipe, &grid, inputs, data, folds)
            }
            ModelKind::Knn => Self::neighbors(recipe, &grid, data, folds),
        }
    }

    /// Fits the textbook classifier, as a baseline.
    pub fn usual(data: Labeled<'_>, seed: Seed) -> Result<Self> {
        Ok(Self::new(&ClassifierRecipe::default(), None, data, seed)?.0)
    }

    /// Chooses among inputs and penalties.
    fn linear(
        recipe: &ClassifierRecipe,
        grid: &Grid,
        inputs: Vec<(Option<usize>, LinearInput)>,
        data: Labeled<'_>,
        folds: Folds,
    ) -> Result<(Self, Choice)> {
        let cs = match (recipe.c, grid.c.as_slice()) {
            (Some(c), _) => vec![c],
            (None, []) => penalties(),
            (None, cs) => cs.to_vec(),
        };
        let is_settled = inputs.len() == 1 && cs.len() == 1;
        let mut choice = Choice::default();
        let mut best: Option<(f64, f64, Option<usize>, LinearInput)> = None;
        for (width, input) in inputs {
            let (c, loss) = if is_settled {
                (cs[0], 0.0)
            } else {
                let x = input.apply(data.rows)?;
                let x = data.with(Rows::new(&x, x.len() / data.rows.n())?);
                let found = penalty(x, &cs, folds)?;
                choice.penalties.extend(found.path.iter().map(|&(c, loss)| (width, c, loss)));
                let loss = found.path.iter().find(|(c, _)| *c == found.c);
                (found.c, loss.map_or(f64::INFINITY, |(_, loss)| *loss))
            };
            if best.as_ref().is_none_or(|(_, least, ..)| loss < *least) {
                best = Some((c, loss, width, input));
            }
        }
        let nothing = || CoreError::unfit("there is nothing to choose from", "");
        let (c, _, width, input) = best.ok_or_else(nothing)?;
        (choice.output_dim, choice.c) = (width, Some(c));
        let x = input.apply(data.rows)?;
        let x = data.with(Rows::new(&x, x.len() / data.rows.n())?);
        let mut scores = Logistic::fit(x.rows, x.labels, x.classes, &settings(c), None)?;
        // As they are stored.
        let round = |x: &mut f64| *x = f64::from(x.max(f64::from(f32::MIN)) as f32);
        scores.weights.iter_mut().chain(&mut scores.intercepts).for_each(round);
        Ok((Self::Linear { input, scores }, choice))
    }

    fn neighbors(
        recipe: &ClassifierRecipe,
        grid: &Grid,
        data: Labeled<'_>,
        folds: Folds,
    ) -> Result<(Self, Choice)> {
        let n = data.rows.n();
        let mut choice = Choice::default();
        let k = match recipe.k {
            Some(k) => k,
            None => {
                let ks = if grid.k.is_empty() { &NEIGHBORS[..] } else { &grid.k };
                choice.neighbors = accuracies(data, ks, folds)?;
                let better = |a: (usize, f64), b: (usize, f64)| if b.1 > a.1 { b } else { a };
                choice.neighbors.iter().copied().reduce(better).map_or(1, |(k, _)| k)
            }
        };
        if k > n {
            let must_be = format!("at most {n}, the number of training rows");
            return Err(CoreError::setting("k", must_be, k).into());
        }
        choice.k = Some(k);
        let (rows, labels) = (data.rows.values().to_vec(), data.labels.to_vec());
        Ok((Self::Neighbors { rows, dim: data.rows.dim(), labels, k }, choice))
    }

    /// Returns the outputs of rows: one logit per class.
    pub fn outputs(&self, rows: Rows<'_, f32>, classes: usize) -> Result<Vec<f32>> {
        match self {
            Self::Linear { input, scores } => {
                let scores = scores.scores(&input.apply(rows)?);
                Ok(scores.into_iter().map(|s| s.max(f64::from(f32::MIN)) as f32).collect())
            }
            Self::Neighbors { rows: train, dim, labels, k } => {
                let train = Rows::new(train, *dim)?;
                let near = nearest_labels(train, labels, classes, rows, *k, Metric::Cosine)?;
                let logits = |near: &[u32]| -> Vec<f32> {
                    let mut votes = vec![1.0 / classes as f64; classes];
                    near.iter().for_each(|&label| votes[label as usize] += 1.0);
                    votes.into_iter().map(|v| (v / (near.len() as f64 + 1.0)).ln() as f32).collect()
                };
                Ok(near.chunks_exact(*k).flat_map(logits).collect())
            }
        }
    }

    /// Returns the dimension of the vectors.
    pub fn dim(&self) -> usize {
        match self {
            Self::Linear { input: LinearInput::Scaled { mean, .. }, .. } => mean.len(),
            Self::Linear { input: LinearInput::Features(map), .. } => map.spec().input_dim(),
            Self::Neighbors { dim, .. } => *dim,
        }
    }

    /// Returns the number of weights, or of coordinates of the voting rows.
    pub fn parameters(&self) -> usize {
        match self {
            Self::Linear { scores, .. } => scores.weights.len() + scores.intercepts.len(),
            Self::Neighbors { rows, .. } => rows.len(),
        }
    }
}

fn settings(c: f64) -> LogisticSettings {
    LogisticSettings { c, tolerance: TOLERANCE, ..LogisticSettings::default() }
}

fn penalty(data: Labeled<'_>, cs: &[f64], folds: Folds) -> Result<Penalty> {
    let Labeled { rows, labels, classes } = data;
    Ok(Logistic::choose_penalty(rows, labels, classes, cs, folds, &settings(1.0))?)
}

/// The accuracy on held-out rows of every number of neighbors that the folds allow.
fn accuracies(data: Labeled<'_>, ks: &[usize], folds: Folds) -> Result<Vec<(usize, f64)>> {
    let Labeled { rows, labels, classes } = data;
    let parts = folds.parts(labels, classes)?;
    let fewest = parts.iter().map(|(train, _)| train.len()).min().unwrap_or(0);
    let ks: Vec<usize> = ks.iter().copied().filter(|k| *k <= fewest).collect();
    let Some(&most) = ks.iter().max() else {
        let what = format!("⟨grid⟩: every k exceeds the {fewest} training rows of a fold");
        return Err(CoreError::request(what, "choose smaller ones").into());
    };
    let right = |(train, test): &(Vec<usize>, Vec<usize>)| -> Result<Vec<usize>> {
        let picked = |own: &[usize]| -> Vec<f32> {
            own.iter().flat_map(|&i| rows.row(i)).copied().collect()
        };
        let own: Vec<u32> = train.iter().map(|&i| labels[i]).collect();
        let (a, b) = (picked(train), picked(test));
        let (a, b) = (Rows::new(&a, rows.dim())?, Rows::new(&b, rows.dim())?);
        let near = nearest_labels(a, &own, classes, b, most, Metric::Cosine)?;
        let count = |k: usize| {
            let of = near.chunks_exact(most).zip(test);
            of.filter(|(near, i)| majority(&near[..k], classes) == labels[**i]).count()
        };
        Ok(ks.iter().map(|&k| count(k)).collect())
    };
    let counts = parts.par_iter().map(right).collect::<Result<Vec<_>>>()?;
    let share = |at: usize| counts.iter().map(|of| of[at]).sum::<usize>() as f64 / rows.n() as f64;
    Ok(ks.iter().enumerate().map(|(at, &k)| (k, share(at))).collect())
}

/// The class with the most votes, the smallest on ties.
fn majority(near: &[u32], classes: usize) -> u32 {
    let mut votes = vec![0; classes];
    near.iter().for_each(|&label| votes[label as usize] += 1);
    (0..classes as u32).rev().max_by_key(|&class| votes[class as usize]).unwrap_or(0)
}

/// The spec of phi by default, that of `featurize`: gaussian, unit rows, median length scale, D = 4 x dimension.
fn usual_spec(rows: Rows<'_, f32>, seed: Seed) -> Result<FeatureSpec> {
    let dim = rows.dim();
    let mut sample = RowSample::new(MEDIAN_ROWS, dim, seed, "median");
    sample.offer(0..rows.n() as u64, rows.values());
    let sample = sample.into_rows();
    let unit = Normalize::Unit.rows(Rows::new(&sample, dim)?)?;
    let l = length_scale::from_median(Rows::new(&unit, dim)?, &Kernel::default())?;
    let params = FeatureSpec::params(dim, 4 * dim).seed(seed.get()).length_scale(l);
    Ok(params.normalize(Normalize::Unit).build()?)
}

#[cfg(test)]
mod tests {
    use veridical_core::Stream;
    use veridical_data::examples::ExampleShape;

    use super::*;

    /// Two rings around each other: no line separates them, neighbors and features do.
    fn rings(n: usize) -> (Vec<f32>, Vec<u32>) {
        let mut draws = vec![0.0; 3 * n];
        Stream::new(Seed::new(3).unwrap(), "test/rings").at(0, 0).fill_normals(&mut draws);
        let labels: Vec<u32> = (0..n as u32).map(|i| i % 2).collect();
        let row = |(draws, &label): (&[f64], &u32)| {
            let norm = draws[0].hypot(draws[1]);
            let radius = 1.0 + f64::from(label) + 0.1 * draws[2];
            // A third coordinate, or all rows of one direction would be the same to a cosine.
            [(draws[0] / norm * radius) as f32, (draws[1] / norm * radius) as f32, 1.0]
        };
        (draws.chunks_exact(3).zip(&labels).flat_map(row).collect(), labels)
    }

    fn accuracy(fitted: &Fitted, rows: &[f32], labels: &[u32]) -> f64 {
        let outputs = fitted.outputs(Rows::new(rows, 3).unwrap(), 2).unwrap();
        let right = outputs.chunks_exact(2).zip(labels);
        right.filter(|(f, label)| u32::from(f[1] > f[0]) == **label).count() as f64
            / labels.len() as f64
    }

    #[test]
    fn what_no_line_separates_neighbors_and_features_do() {
        let (rows, labels) = rings(400);
        let (train, test) = rows.split_at(900);
        let (own, held) = labels.split_at(300);
        let data = Labeled { rows: Rows::new(train, 3).unwrap(), labels: own, classes: 2 };
        let fit = |model: &str, grid: &[&str]| {
            let grid = grid.iter().map(ToString::to_string).collect();
            let recipe = ClassifierRecipe { model: model.into(), grid, ..Default::default() };
            Fitted::new(&recipe, None, data, Seed::new(0).unwrap()).unwrap()
        };
        let (logistic, choice) = fit("logistic", &[]);
        assert!(accuracy(&logistic, test, held) < 0.7 && choice.c.is_some());
        let (knn, choice) = fit("knn", &["k=1,5,15"]);
        assert!(accuracy(&knn, test, held) > 0.95, "{}", accuracy(&knn, test, held));
        assert_eq!(choice.neighbors.len(), 3);
        let (phi, choice) = fit("phi", &["output-dim=2,64"]);
        assert!(accuracy(&phi, test, held) > 0.95, "{}", accuracy(&phi, test, held));
        assert_eq!(choice.output_dim, Some(64));
    }

    /// The reason for one scale: a rotation changes no output (up to f32 of the rotated rows).
    #[test]
    fn logistic_does_not_depend_on_the_coordinate_system() {
        let (rows, labels) = rings(60);
        let (sin, cos) = 0.7f32.sin_cos();
        let turned: Vec<f32> = rows
            .chunks_exact(3)
            .flat_map(|r| [cos * r[0] - sin * r[2], r[1], sin * r[0] + cos * r[2]])
            .collect();
        let outputs = |rows: &[f32]| {
            let data = Labeled { rows: Rows::new(rows, 3).unwrap(), labels: &labels, classes: 2 };
            let fitted = Fitted::usual(data, Seed::new(0).unwrap()).unwrap();
            fitted.outputs(data.rows, 2).unwrap()
        };
        for (a, b) in outputs(&rows).iter().zip(outputs(&turned)) {
            assert!((a - b).abs() < 1e-3, "{a} {b}");
        }
    }

    #[test]
    fn votes_are_probabilities() {
        let rows = Rows::new(&[1.0, 0.0, 0.9, 0.1, 0.0, 1.0], 2).unwrap();
        let data = Labeled { rows, labels: &[0, 0, 1], classes: 2 };
        let recipe = ClassifierRecipe { model: "knn".into(), k: Some(2), ..Default::default() };
        let (fitted, _) = Fitted::new(&recipe, None, data, Seed::new(0).unwrap()).unwrap();
        let outputs = fitted.outputs(Rows::new(&[1.0, 0.05], 2).unwrap(), 2).unwrap();
        let shares: Vec<f32> = outputs.iter().map(|x| x.exp()).collect();
        assert!((shares[0] - 2.5 / 3.0).abs() < 1e-6 && (shares[1] - 0.5 / 3.0).abs() < 1e-6);
        let recipe = ClassifierRecipe { k: Some(4), ..recipe };
        assert!(Fitted::new(&recipe, None, data, Seed::new(0).unwrap()).is_err());
    }

    #[test]
    fn images_are_not_vectors() {
        let examples = Examples {
            shape: ExampleShape::Row { columns: 1 },
            values: Values::Bytes(vec![1, 2]),
            targets: Targets::Classes(vec![0, 1]),
        };
        assert!(Labeled::of(&examples, 2).is_err());
    }
}
