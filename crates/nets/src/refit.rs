//! Refitting the last layer on the features below it.
//!
//! A trained network is f(x) = W h(x) + b. Gradient descent leaves W, b short of the optimum for its own features h;
//! solving for them is a convex problem that costs less than an epoch: least squares
//! min sum_i |W h(x_i) + b - y_i|^2 + penalty (paper 004, eq. 17 and 18 with the features of eq. 29: its conjugate kernel
//! solved through the features, CKJ), or logistic regression (eq. 15). The penalty is chosen by cross-validation on up to
//! [`MOST_ROWS`] rows, and the problem is solved on all rows; if the training loss is then above the network's own, the next
//! smaller penalty is tried, so a refit never increases the training loss; if no penalty is left, the head is kept.

use veridical_core::choices;
use veridical_core::{Order, Rows, Seed};
use veridical_learn::{Logistic, LogisticSettings, RidgePath, logistic_path};

use crate::layers::Parameterization;
use crate::net::Net;
use crate::pass::Workspace;
use crate::{Error, Float, Loss, Result, Target};

/// The last layer: outputs x dim weights, and a bias per output.
#[derive(Clone, Debug, PartialEq)]
pub struct Head {
    /// Weights, row-major, one row per output.
    pub weight: Vec<f64>,
    /// Biases, one per output.
    pub bias: Vec<f64>,
}

impl Head {
    /// Computes W h + b for every row of features.
    pub fn apply(&self, features: &[f64]) -> Vec<f64> {
        let (weights, intercepts) = (self.weight.clone(), self.bias.clone());
        veridical_learn::RidgeFit { weights, intercepts }.predict(features)
    }
}

choices! {
    /// Problem that a refit solves
    pub enum RefitMethod {
        /// Multinomial logistic regression
        Logistic = "logistic",
        /// Least squares on one-hot classes, or on numbers
        Ridge = "ridge",
    }
}

/// Settings of a refit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RefitSettings {
    /// Problem that is solved.
    pub method: RefitMethod,
    /// Number of folds of the cross-validation.
    pub folds: usize,
    /// Random seed that assigns rows to folds.
    pub seed: Seed,
}

/// One penalty of the cross-validation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RefitPoint {
    /// Penalty, relative to the largest variance of the features (ridge), or 1/(C n) (logistic).
    pub penalty: f64,
    /// Loss on the held-out rows, over all folds.
    pub cv_loss: f64,
    /// Training loss after solving on all rows; only for penalties that were solved on all rows.
    pub train_loss: Option<f64>,
}

/// Result of a refit.
#[derive(Clone, Debug, PartialEq)]
pub struct Refit {
    /// The new head, or the old one.
    pub head: Head,
    /// The chosen penalty.
    pub penalty: f64,
    /// All penalties of the cross-validation, largest first.
    pub path: Vec<RefitPoint>,
    /// Training loss of the old head.
    pub before: f64,
    /// Training loss of the new head.
    pub after: f64,
    /// Whether no penalty improved the training loss and the old head was kept.
    pub kept: bool,
}

/// Penalties of least squares.
const RIDGE: [f64; 13] =
    [1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-10, 1e-12, 1e-16, 1e-20, 0.0];
/// C n of logistic regression: the penalty is |W|^2 / (2 C n) on the mean loss.
const LOGISTIC: [f64; 7] = [1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7];
/// Maximum number of rows for the cross-validation: enough to compare penalties.
pub const MOST_ROWS: usize = 10_000;
/// Maximum number of iterations of one logistic regression.
const MOST_STEPS: usize = 300;

/// Solves for the head of `dim` features with `outputs` outputs on n rows.
///
/// # Errors
/// A request error if the method does not suit the targets, if there are fewer rows than folds, or if a feature is NaN or
/// infinite.
pub fn refit(
    features: &[f64],
    dim: usize,
    targets: Target<'_>,
    outputs: usize,
    current: &Head,
    settings: &RefitSettings,
) -> Result<Refit> {
    let n = features.len() / dim.max(1);
    if settings.folds < 2 || n < 2 * settings.folds {
        let what =
            format!("cross-validation with {} folds needs more than {n} rows", settings.folds);
        return Err(Error::unfit(what));
    }
    if let Some(at) = features.iter().position(|x| !x.is_finite()) {
        let what = format!("feature {} of row {} is {}", at % dim, at / dim, features[at]);
        return Err(Error::unfit(what));
    }
    let problem = Problem { features, dim, targets, outputs, n };
    problem.check(settings.method)?;
    let before = problem.loss(settings.method, current, None);
    let penalties: &[f64] = match settings.method {
        RefitMethod::Ridge => &RIDGE,
        RefitMethod::Logistic => &LOGISTIC,
    };
    let cv = problem.cross_validated(settings, penalties)?;
    let shown = |penalty: f64| match settings.method {
        RefitMethod::Logistic => 1.0 / penalty,
        RefitMethod::Ridge => penalty,
    };
    let point =
        |(&penalty, &cv_loss)| RefitPoint { penalty: shown(penalty), cv_loss, train_loss: None };
    let mut path: Vec<RefitPoint> = penalties.iter().zip(&cv).map(point).collect();
    // INVARIANT: there is at least one penalty.
    let best = (0..cv.len()).min_by(|&a, &b| cv[a].total_cmp(&cv[b])).unwrap_or(0);
    for i in best..penalties.len() {
        let Some(head) = problem.solve(settings.method, &penalties[i..=i], None)?.pop() else {
            break;
        };
        let after = problem.loss(settings.method, &head, None);
        path[i].train_loss = Some(after);
        if after <= before {
            let penalty = path[i].penalty;
            return Ok(Refit { head, penalty, path, before, after, kept: false });
        }
    }
    Ok(Refit { head: current.clone(), penalty: 0.0, path, before, after: before, kept: true })
}

struct Problem<'a> {
    features: &'a [f64],
    dim: usize,
    targets: Target<'a>,
    outputs: usize,
    n: usize,
}

impl Problem<'_> {
    fn check(&self, method: RefitMethod) -> Result<()> {
        match (method, self.targets) {
            (RefitMethod::Logistic, Target::Numbers(_)) => {
                Err(Error::request("logistic regression is for classes; use ⟨method⟩ ridge".into()))
            }
            (RefitMethod::Logistic, Target::Classes(_)) if self.outputs == 1 => {
                let what = "logistic regression needs an output per class, the network has one; use ⟨method⟩ ridge";
                Err(Error::request(what.into()))
            }
            (RefitMethod::Logistic, targets) => {
                Loss::CrossEntropy { smoothing: 0.0 }.check(self.outputs, targets)
            }
            (RefitMethod::Ridge, targets) => Loss::Squared.check(self.outputs, targets),
        }
    }

    /// The loss of every penalty on held-out rows.
    fn cross_validated(&self, settings: &RefitSettings, penalties: &[f64]) -> Result<Vec<f64>> {
        let order = Order::new(self.n as u64, settings.seed, "refit", 0);
        let mut rows: Vec<(usize, usize)> = (0..self.n.min(MOST_ROWS))
            .map(|t| (order.at(t as u64) as usize, t % settings.folds))
            .collect();
        rows.sort_unstable();
        let mut losses = vec![0.0; penalties.len()];
        for fold in 0..settings.folds {
            let of = |wanted: bool| -> Vec<usize> {
                rows.iter().filter(|(_, f)| (*f == fold) == wanted).map(|(row, _)| *row).collect()
            };
            let (kept, held) = (of(false), of(true));
            let heads = self.solve(settings.method, penalties, Some(&kept))?;
            for (sum, head) in losses.iter_mut().zip(&heads) {
                let share = held.len() as f64 / rows.len() as f64;
                *sum += self.loss(settings.method, head, Some(&held)) * share;
            }
        }
        Ok(losses)
    }

    /// The mean loss of a head on some rows, or on all.
    fn loss(&self, method: RefitMethod, head: &Head, rows: Option<&[usize]>) -> f64 {
        let loss = match method {
            RefitMethod::Ridge => Loss::Squared,
            RefitMethod::Logistic => Loss::CrossEntropy { smoothing: 0.0 },
        };
        let outputs = match rows {
            None => head.apply(self.features),
            Some(rows) => head.apply(&picked(self.features, self.dim, rows)),
        };
        let n = rows.map_or(self.n, <[usize]>::len);
        match self.targets {
            Target::Classes(classes) => {
                let classes =
                    rows.map_or_else(|| classes.to_vec(), |rows| picked(classes, 1, rows));
                loss.evaluate(&outputs, n, self.outputs, Target::Classes(&classes), None, None)
            }
            Target::Numbers(numbers) => {
                let numbers = rows
                    .map_or_else(|| numbers.to_vec(), |rows| picked(numbers, self.outputs, rows));
                loss.evaluate(&outputs, n, self.outputs, Target::Numbers(&numbers), None, None)
            }
        }
    }

    /// Heads for all penalties, solved on some rows or on all.
    fn solve(
        &self,
        method: RefitMethod,
        penalties: &[f64],
        rows: Option<&[usize]>,
    ) -> Result<Vec<Head>> {
        let all: Vec<usize>;
        let rows = match rows {
            Some(rows) => rows,
            None => {
                all = (0..self.n).collect();
                &all
            }
        };
        match (method, self.targets) {
            (RefitMethod::Logistic, Target::Classes(classes)) => {
                let rows_f32: Vec<f32> =
                    picked(self.features, self.dim, rows).into_iter().map(|x| x as f32).collect();
                let classes = picked(classes, 1, rows);
                let cs: Vec<f64> = penalties.iter().map(|c| c / rows.len() as f64).collect();
                let settings = LogisticSettings {
                    tolerance: 1e-5,
                    max_iterations: MOST_STEPS,
                    ..LogisticSettings::default()
                };
                let fits = logistic_path(
                    Rows::new(&rows_f32, self.dim)?,
                    &classes,
                    self.outputs,
                    &settings,
                    &cs,
                )?;
                let head = |fit: Logistic| {
                    // A class without examples has no finite intercept; it is never predicted.
                    let bias = fit.intercepts.iter().map(|b| b.max(-1e6)).collect();
                    Head { weight: fit.weights, bias }
                };
                Ok(fits.into_iter().map(head).collect())
            }
            _ => {
                let x = picked(self.features, self.dim, rows);
                let y: Vec<f64> = rows.iter().flat_map(|&i| self.numbers(i)).collect();
                let path =
                    RidgePath::new(Rows::new(&x, self.dim)?, Rows::new(&y, self.outputs)?, None)?;
                let fit = |&lambda: &f64| {
                    let fit = path.solve(lambda);
                    Head { weight: fit.weights, bias: fit.intercepts }
                };
                Ok(penalties.iter().map(fit).collect())
            }
        }
    }

    /// Targets of least squares, as in the squared loss.
    fn numbers(&self, i: usize) -> Vec<f64> {
        match self.targets {
            Target::Numbers(numbers) => {
                numbers[i * self.outputs..][..self.outputs].iter().map(|&y| f64::from(y)).collect()
            }
            Target::Classes(classes) if self.outputs == 1 => {
                vec![if classes[i] == 1 { 1.0 } else { -1.0 }]
            }
            Target::Classes(classes) => {
                (0..self.outputs).map(|k| f64::from(u8::from(classes[i] as usize == k))).collect()
            }
        }
    }
}

/// Selects rows of `width` values.
fn picked<V: Copy>(values: &[V], width: usize, rows: &[usize]) -> Vec<V> {
    rows.iter().flat_map(|&i| values[i * width..][..width].iter().copied()).collect()
}

impl<T: Float> Net<T> {
    /// Offsets of weights and bias of the last layer, if it is a dense layer at the end, and its parameterization.
    fn dense_head(&self) -> Result<(usize, usize, Parameterization)> {
        let head = self.head().filter(|&head| head + 1 == self.nodes.len());
        let found = head.and_then(|head| Some((head, self.nodes[head].layer()?.as_linear()?)));
        let (head, linear) = found.ok_or_else(|| {
            Error::request(
                "the network does not end in a dense layer: it has no head to solve for".into(),
            )
        })?;
        if !linear.has_bias() {
            return Err(Error::request("the last layer has no bias".into()));
        }
        Ok((head, linear.inputs(), linear.parameterization()))
    }

    /// Returns the last layer as a linear map of the features, for any parameterization.
    ///
    /// # Errors
    /// A request error if the network does not end in a dense layer.
    pub fn solved_head(&self) -> Result<Head> {
        let (head, dim, parameterization) = self.dense_head()?;
        let (s, t) = parameterization.scales(dim);
        let (weight, bias) =
            self.params[self.nodes[head].params.clone()].split_at(dim * self.outputs());
        Ok(Head {
            weight: weight.iter().map(|w| w.wide() * s).collect(),
            bias: bias.iter().map(|b| b.wide() * t).collect(),
        })
    }

    /// Replaces the last layer.
    ///
    /// # Errors
    /// A request error if the network does not end in a dense layer of this size, or if its bias has scale 0.
    pub fn set_head(&mut self, new: &Head) -> Result<()> {
        let (head, dim, parameterization) = self.dense_head()?;
        let (s, t) = parameterization.scales(dim);
        let outputs = self.outputs();
        if new.weight.len() != dim * outputs || new.bias.len() != outputs {
            return Err(Error::request("the head does not have the size of the last layer".into()));
        }
        if t == 0.0 && new.bias.iter().any(|b| *b != 0.0) {
            return Err(Error::request("biases have scale 0 in this parameterization".into()));
        }
        let place = self.nodes[head].params.clone();
        let scaled = new
            .weight
            .iter()
            .map(|w| w / s)
            .chain(new.bias.iter().map(|b| if t == 0.0 { 0.0 } else { b / t }));
        self.params[place].iter_mut().zip(scaled).for_each(|(to, x)| *to = T::of(x));
        Ok(())
    }

    /// Returns the input of the last layer in the last forward pass, n x features.
    pub fn features<'w>(&self, work: &'w Workspace<T>) -> &'w [T] {
        work.values(self, self.nodes[self.nodes.len() - 1].from)
    }

    /// Returns the number of features that the last layer reads.
    pub fn feature_dim(&self) -> usize {
        self.nodes[self.nodes.len() - 1].input.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::normals;
    use crate::{Architecture, Mode, NetConfig, Shape};

    fn settings(method: RefitMethod) -> RefitSettings {
        RefitSettings { method, folds: 4, seed: Seed::new(0).unwrap() }
    }

    #[test]
    fn a_planted_linear_model_is_found() {
        let (n, dim) = (200, 6);
        let x = normals(n * dim, "x");
        let planted = Head { weight: normals(2 * dim, "w"), bias: vec![0.5, -1.0] };
        let y: Vec<f32> = planted.apply(&x).iter().map(|&y| y as f32).collect();
        let start = Head { weight: vec![0.0; 2 * dim], bias: vec![0.0; 2] };
        let refit =
            refit(&x, dim, Target::Numbers(&y), 2, &start, &settings(RefitMethod::Ridge)).unwrap();
        // Targets are rounded to f32.
        assert!(refit.head.weight.iter().zip(&planted.weight).all(|(a, b)| (a - b).abs() < 1e-6));
        assert!(refit.after < 1e-12 && refit.before > 0.1 && !refit.kept);
    }

    /// Noise and as many features as rows: the smallest penalty is not chosen, and the training loss never increases.
    #[test]
    fn never_worse_on_the_training_loss() {
        let (n, dim) = (60, 40);
        let x = normals(n * dim, "x");
        let classes: Vec<u32> =
            (0..n).map(|i| u32::from(x[i * dim] + 0.8 * normals(n, "e")[i] > 0.0)).collect();
        for start in ["w0", "w1", "w2"] {
            let scale = if start == "w0" { 0.0 } else { 0.3 };
            let head = Head {
                weight: normals(2 * dim, start).iter().map(|w| w * scale).collect(),
                bias: vec![0.0; 2],
            };
            for method in [RefitMethod::Ridge, RefitMethod::Logistic] {
                let refit =
                    refit(&x, dim, Target::Classes(&classes), 2, &head, &settings(method)).unwrap();
                assert!(refit.after <= refit.before, "{method:?} {start}");
                assert!(refit.kept || refit.path.iter().any(|p| p.train_loss == Some(refit.after)));
                let again = super::refit(
                    &x,
                    dim,
                    Target::Classes(&classes),
                    2,
                    &refit.head,
                    &settings(method),
                )
                .unwrap();
                assert!(again.after <= again.before);
            }
        }
    }

    /// The output of the network equals its head applied to its features, in both parameterizations, before and after a change.
    #[test]
    fn the_head_of_a_network_is_read_and_set() {
        for ntk in [false, true] {
            let mut model = NetConfig::new(Architecture::Mlp(vec![7]), Shape::row(4), 3);
            if ntk {
                model.parameterization = Parameterization::Ntk { bias: 0.2 };
            }
            let mut net = model.build::<f64>(Seed::new(1).unwrap()).unwrap();
            let x = normals(5 * 4, "x");
            for round in 0..2 {
                let mut work = Workspace::new(&net, 5, None);
                net.forward(&mut work, 5, Mode::Frozen, 0, |slot| slot.copy_from_slice(&x));
                assert_eq!(net.feature_dim(), 7);
                let head = net.solved_head().unwrap();
                let want = head.apply(net.features(&work));
                let near = work.outputs(&net).iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-12);
                assert!(near, "{ntk} {round}");
                net.set_head(&Head { weight: normals(21, "new"), bias: vec![1.0, 2.0, 3.0] })
                    .unwrap();
            }
        }
    }
}
