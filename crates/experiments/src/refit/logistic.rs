//! Two classes in the plane (paper 004, section 6, figures 8 to 11): a network, and logistic regression on its conjugate and tangent
//! features.
//!
//! min over beta  sum_i ln(1 + exp(-t_i beta'Phi(x_i))) + (lambda / 2) |beta|^2,  t_i = 1 for class 1 and -1 for class 0     (23)
//!
//! Phi are the gradients of f_1 - f_2 (remark 3.1), for CK by the last layer alone. With Phi = U S V' only the coordinates of beta along V
//! count, so the regression has as many unknowns as points, and Newton's method solves it, along a falling lambda. Without the
//! penalty there is no minimum: 96 points are separable by thousands of features, and the loss falls to 0 at infinity.

use serde::{Deserialize, Serialize};
use veridical::Result;
use veridical_core::{Error as CoreError, Job, Seed};
use veridical_kernels::tangent::{Examples, Factors, Kind, Plan, Settings};
use veridical_learn::{Svd, solve_spd, thin_svd};
use veridical_nets::{
    Curve, Loss, Mode, Net, NetConfig, OptimizerKind, OptimizerSettings, Schedule, Shape, Target,
    Trainer, TrainerSettings, Workspace,
};

use super::grid::Network;

/// A function whose sign is the class.
pub(super) type Boundary = fn(f64, f64) -> f64;

/// Eq. 72.
pub(super) const BOUNDARIES_72: [(&str, Boundary); 2] = [
    ("F1", |x, y| 4.0 * x * x - 3.0 * x + 5.0 * y - 1.0),
    ("F2", |x, y| 2.0 * x.powi(3) - 0.6 * x * x - 1.94 * x + y + 0.2),
];

/// Points of [-1, 1]^2 on (intervals + 1) x (intervals + 1) nodes, the second coordinate first to change, with their classes.
pub(super) struct Plane {
    /// Intervals along each axis: N1 and N2, or M1 and M2.
    pub intervals: [usize; 2],
    pub points: Vec<f64>,
    pub classes: Vec<u32>,
}

impl Plane {
    pub fn new(intervals: [usize; 2], boundary: Boundary) -> Self {
        let [n1, n2] = intervals;
        let at = |i: usize, n: usize| -1.0 + 2.0 * i as f64 / n as f64;
        let nodes = (0..=n1).flat_map(|i| (0..=n2).map(move |j| [at(i, n1), at(j, n2)]));
        let points: Vec<f64> = nodes.flatten().collect();
        let classes =
            points.chunks_exact(2).map(|p| u32::from(boundary(p[0], p[1]) > 0.0)).collect();
        Self { intervals, points, classes }
    }

    pub fn n(&self) -> usize {
        self.classes.len()
    }

    /// Cross-entropy summed over the nodes, and the share of right classes, of psi > 0 for class 1.
    pub fn score(&self, psi: &[f64]) -> Score {
        let signed = psi.iter().zip(&self.classes);
        let signed = signed.map(|(psi, &y)| if y == 1 { *psi } else { -*psi });
        let (mut loss, mut right) = (0.0, 0);
        for margin in signed {
            loss += softplus(-margin);
            right += usize::from(margin > 0.0);
        }
        Score { loss, accuracy: right as f64 / self.n() as f64 }
    }
}

/// Cross-entropy and accuracy.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(super) struct Score {
    pub loss: f64,
    pub accuracy: f64,
}

/// ln(1 + e^x).
pub(super) fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

/// A logistic regression on features at one penalty.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Solved {
    pub lambda: f64,
    /// The penalized loss on the training nodes.
    pub objective: f64,
    /// The length of its gradient over that at 0.
    pub gradient: f64,
    /// psi = beta'Phi on training and test nodes.
    pub train: Vec<f64>,
    pub test: Vec<f64>,
}

/// Newton steps for each penalty.
const STEPS: usize = 200;
/// The gradient at which to stop, relative to that at 0.
const TOLERANCE: f64 = 1e-13;

/// Solves (23) for features of training and test nodes, rows of `dim`, for falling penalties.
pub(super) fn path(
    [train, test]: [&[f64]; 2],
    dim: usize,
    classes: &[u32],
    lambdas: &[f64],
) -> Vec<Solved> {
    let Svd { u, s, v } = thin_svd(train, dim);
    let r = s.len();
    // Coordinates of both lists of nodes along V.
    let own: Vec<f64> =
        u.chunks_exact(r).flat_map(|row| row.iter().zip(&s).map(|(u, s)| u * s)).collect();
    let mut others = vec![0.0; test.len() / dim * r];
    for (to, row) in others.chunks_exact_mut(r).zip(test.chunks_exact(dim)) {
        for (x, v) in row.iter().zip(v.chunks_exact(r)) {
            to.iter_mut().zip(v).for_each(|(t, v)| *t += x * v);
        }
    }
    let signs: Vec<f64> = classes.iter().map(|&y| if y == 1 { 1.0 } else { -1.0 }).collect();
    let mut beta = vec![0.0; r];
    let mut sorted = lambdas.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let mut first = None;
    sorted
        .into_iter()
        .map(|lambda| {
            let problem = Problem { rows: &own, r, signs: &signs, lambda };
            let scale = *first.get_or_insert_with(|| norm(&problem.gradient(&vec![0.0; r])));
            problem.newton(&mut beta, scale);
            let psi = |rows: &[f64]| rows.chunks_exact(r).map(|row| dot(row, &beta)).collect();
            Solved {
                lambda,
                objective: problem.value(&beta),
                gradient: norm(&problem.gradient(&beta)) / scale,
                train: psi(&own),
                test: psi(&others),
            }
        })
        .collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn norm(x: &[f64]) -> f64 {
    dot(x, x).sqrt()
}

/// Penalized logistic regression in few coordinates.
struct Problem<'a> {
    rows: &'a [f64],
    r: usize,
    signs: &'a [f64],
    lambda: f64,
}

impl Problem<'_> {
    fn margins<'b>(&'b self, beta: &'b [f64]) -> impl Iterator<Item = f64> + 'b {
        self.rows.chunks_exact(self.r).zip(self.signs).map(move |(row, t)| t * dot(row, beta))
    }

    fn value(&self, beta: &[f64]) -> f64 {
        let loss: f64 = self.margins(beta).map(|m| softplus(-m)).sum();
        loss + self.lambda / 2.0 * dot(beta, beta)
    }

    /// -sum_i t_i z_i / (1 + exp(m_i)) + lambda beta.
    fn gradient(&self, beta: &[f64]) -> Vec<f64> {
        let mut g: Vec<f64> = beta.iter().map(|b| self.lambda * b).collect();
        for ((row, t), m) in self.rows.chunks_exact(self.r).zip(self.signs).zip(self.margins(beta))
        {
            let weight = -t * (-softplus(m)).exp();
            g.iter_mut().zip(row).for_each(|(g, z)| *g += weight * z);
        }
        g
    }

    /// Newton with halving (Armijo), each system scaled to a unit diagonal.
    fn newton(&self, beta: &mut [f64], scale: f64) {
        let r = self.r;
        for _ in 0..STEPS {
            let g = self.gradient(beta);
            if norm(&g) <= TOLERANCE * scale {
                return;
            }
            let mut h = vec![0.0; r * r];
            for (row, m) in self.rows.chunks_exact(r).zip(self.margins(beta)) {
                // p (1 - p) without cancellation.
                let weight = (-softplus(m) - softplus(-m)).exp();
                for (h, a) in h.chunks_exact_mut(r).zip(row) {
                    h.iter_mut().zip(row).for_each(|(h, b)| *h += weight * a * b);
                }
            }
            (0..r).for_each(|i| h[i * r + i] += self.lambda);
            let d: Vec<f64> = (0..r).map(|i| 1.0 / h[i * r + i].sqrt()).collect();
            for (row, a) in h.chunks_exact_mut(r).zip(&d) {
                row.iter_mut().zip(&d).for_each(|(h, b)| *h *= a * b);
            }
            let scaled: Vec<f64> = g.iter().zip(&d).map(|(g, d)| -g * d).collect();
            let mut step = solve_spd(&mut h, &scaled);
            step.iter_mut().zip(&d).for_each(|(s, d)| *s *= d);
            let (value, slope) = (self.value(beta), dot(&g, &step));
            let mut length = 1.0;
            loop {
                let next: Vec<f64> = beta.iter().zip(&step).map(|(b, s)| b + length * s).collect();
                if self.value(&next) <= value + 1e-4 * length * slope + 8.0 * f64::EPSILON * value {
                    beta.copy_from_slice(&next);
                    break;
                }
                length /= 2.0;
                if length < 1e-12 {
                    return; // rounding of the value is all that is left
                }
            }
        }
    }
}

/// How a network is trained on a plane.
pub(super) struct Training<'a> {
    pub network: &'a Network,
    pub lr: f64,
    /// The most epochs.
    pub epochs: u32,
    /// The training accuracy that ends it; none trains to the last epoch.
    pub until: Option<f64>,
    pub seed: u64,
}

impl Training<'_> {
    /// Trains on all nodes at once; `look` sees the network after the epochs for which `is_looked` holds, and at the end.
    pub fn run<L>(
        &self,
        plane: &Plane,
        is_looked: impl Fn(u32) -> bool,
        mut look: impl FnMut(&Net<f64>, u32) -> Result<L>,
        job: &Job<'_>,
    ) -> Result<Vec<L>> {
        let mut model = NetConfig::new(self.network.model.parse()?, Shape::row(2), 2);
        model.activation = self.network.activation.parse()?;
        let n = plane.n();
        let settings = TrainerSettings {
            loss: Loss::CrossEntropy { smoothing: 0.0 },
            optimizer: OptimizerSettings::of(OptimizerKind::Adam),
            lr: self.lr,
            schedule: Schedule { curve: Curve::Constant, warmup: 0, total: 0 },
            clip: None,
            batch: n,
        };
        let net = model.build::<f64>(Seed::new(self.seed)?)?;
        let mut trainer = Trainer::new(net, settings, |_| true)?;
        let mut seen = Vec::new();
        for epoch in 1..=self.epochs {
            job.check()?;
            let fill = |slot: &mut [f64]| slot.copy_from_slice(&plane.points);
            trainer.step(n, Target::Classes(&plane.classes), None, fill)?;
            let is_done = match self.until {
                Some(until) => outputs(trainer.net(), plane).accuracy(plane) >= until,
                None => false,
            } || epoch == self.epochs;
            if is_done || is_looked(epoch) {
                seen.push(look(trainer.net(), epoch)?);
            }
            if is_done {
                break;
            }
        }
        Ok(seen)
    }
}

/// f_1 - f_2 on the nodes, where f_1 is the output of class 1.
pub(super) struct Psi(pub Vec<f64>);

impl Psi {
    fn accuracy(&self, plane: &Plane) -> f64 {
        plane.score(&self.0).accuracy
    }
}

/// The difference of the outputs of a network on a plane.
pub(super) fn outputs(net: &Net<f64>, plane: &Plane) -> Psi {
    let mut work = Workspace::new(net, plane.n(), None);
    net.forward(&mut work, plane.n(), Mode::Frozen, 0, |slot| slot.copy_from_slice(&plane.points));
    Psi(work.outputs(net).chunks_exact(2).map(|f| f[1] - f[0]).collect())
}

/// The gradients of the difference of the outputs at the nodes, of all layers or of the last one.
pub(super) fn features(
    net: &Net<f64>,
    plane: &Plane,
    is_conjugate: bool,
    job: &Job<'_>,
) -> Result<(Vec<f64>, usize)> {
    let mut settings = Settings::new(Kind::Difference(1, 0));
    if is_conjugate {
        let head = net.head_name().ok_or_else(|| {
            CoreError::Internal("a network of the configuration has a dense last layer".into())
        })?;
        settings.layers = vec![head.to_owned()];
    }
    let examples = Examples::new(plane.n(), |samples, slot: &mut [f64]| {
        slot.copy_from_slice(&plane.points[2 * samples.start..2 * samples.end]);
    });
    let plan = Plan::new(net, &examples, None, &settings)?;
    let factors = Factors::take(net, &examples, &plan, &job.quiet())?;
    Ok((factors.features(0..plane.n())?, factors.feature_dim()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two points at -1 and 1 with one feature: psi = b x with 2 / (1 + e^b) = lambda b. The gradient at 0 is 1, so the sides differ by at
    /// most the tolerance, and by the rounding of their sum of numbers up to 1.
    #[test]
    fn the_penalized_minimum_is_stationary() {
        for lambda in [1.0, 1e-3, 1e-8] {
            let found = path([&[-1.0, 1.0], &[2.0]], 1, &[0, 1], &[lambda]).remove(0);
            let b = found.train[1];
            let gradient = 2.0 / (1.0 + b.exp()) - lambda * b;
            assert!(gradient.abs() <= TOLERANCE + 4.0 * f64::EPSILON, "{b} {gradient}");
            assert!((found.test[0] - 2.0 * b).abs() < 1e-9 * b);
        }
    }

    #[test]
    fn boundaries_do_not_meet_the_nodes_of_the_paper() {
        for (name, boundary) in BOUNDARIES_72 {
            let (train, test) = (Plane::new([11, 7], boundary), Plane::new([22, 21], boundary));
            assert_eq!((train.n(), test.n()), (96, 506));
            for p in test.points.chunks(2) {
                assert!(boundary(p[0], p[1]).abs() > 1e-9, "{name}");
            }
        }
    }
}
