//! The inequalities of paper 004, section 2, for one function or network: both sides, with the constants as printed and as corrected.
//!
//! Regression, with r_CK = f - f_CK, r_NTK = f - f_NTK of exact projections, tau = M / N, beta = |P_NTK f|_0 / |f|_0:
//!   (33)  |g|_0 <= sqrt(tau) |g|_1
//!   (34)  |g|_1 <= sqrt(2) |g|_0 where g is monotonic between training nodes
//!   (37)  |g|_1^2 <= 4 (|g|_0^2 + 2 (b - a)^2 L^2 / N^2)
//!   (38)  |r_NTK|_0 <= |r_CK|_0
//!   (40)  |f_NTK - f_CK|_0 <= beta |r_CK|_0
//!   (44)  |r_CK|_0 <= |r_NTK|_0 / (1 - beta); by (42) 1 / sqrt(1 - beta^2) already holds
//!   (45)  |r_NTK|_1 / C1 <= |r_CK|_1 <= C2 |r_NTK|_1,  C1 = sqrt(2 tau), C2 = C1 / (1 - beta), for monotonic residuals
//!   (48)  |r_NTK|_1^2 <= D1 |r_CK|_1^2 + 8 (b - a)^2 L_NTK^2 / N^2,  D1 = 4 tau
//!   (49)  |r_CK|_1^2 <= D2 |r_NTK|_1^2 + 8 (b - a)^2 L_CK^2 / N^2,  D2 = 4 tau / (1 - beta)^2
//! By (41) 1 - beta^2 = |r_NTK|_0^2 / |f|_0^2, which keeps digits where beta rounds to 1. L is the largest slope between neighboring test
//! nodes: the constant of the piecewise linear function through them, which is all that the norms see.
//! Slack is in units of |f|_0; squares are compared by their roots.
//!
//! Classes, with psi of both kernels on nested grids, l the summed cross-entropy:
//!   (54)  l_0 <= l_1
//!   (59)  l_1 <= c l_0 if every maximum over a rectangle is at a corner, c = tau1 tau2 in print. A training node is a corner of four
//!         rectangles, whose closed union has (2 tau1 + 1)(2 tau2 + 1) test nodes: this c holds, and (2 tau1 - 1)(2 tau2 - 1) is reached
//!   (61)  l_1 <= e^(h L) c l_0 for Lipschitz psi and matching labels, the same c
//!   (64)  l_0,CK <= omega l_0,NTK, omega = max exp(psi^_CK - psi^_NTK), psi^ = (1 - 2 eta) psi
//!   (65)  l_1,NTK <= c l_1,CK and l_1,CK <= c omega l_1,NTK under the hypothesis of (59)
//!   (68)  the same with e^(h L) under that of (61); the print drops c

use super::grid::Grid;
use super::logistic::{Plane, softplus};

/// Both sides of an inequality, left <= right, and whether its hypothesis holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bound {
    pub name: &'static str,
    pub left: f64,
    pub right: f64,
    pub applies: bool,
    /// Whether there is a hypothesis that can fail.
    pub is_conditional: bool,
    /// The unit of the slack; the larger side if there is none.
    unit: Option<f64>,
}

impl Bound {
    fn new(name: &'static str, left: f64, right: f64) -> Self {
        Self { name, left, right, applies: true, is_conditional: false, unit: None }
    }

    fn if_so(self, applies: bool) -> Self {
        Self { applies, is_conditional: true, ..self }
    }

    /// What is left of the right side, in its unit: an inequality holds at -1e-10 and above.
    pub fn slack(&self) -> f64 {
        let larger = self.left.abs().max(self.right.abs());
        (self.right - self.left) / self.unit.unwrap_or(larger).max(f64::MIN_POSITIVE)
    }
}

/// The least slack that counts as holding: rounding.
pub(super) const ROUNDING: f64 = -1e-10;

/// A function on both grids.
pub(super) struct OnGrids<'a> {
    pub train: &'a [f64],
    pub test: &'a [f64],
}

/// The largest slope between neighboring test nodes.
fn lipschitz(grid: &Grid, values: &[f64]) -> f64 {
    let slopes = grid.x.windows(2).zip(values.windows(2));
    slopes.map(|(x, g)| ((g[1] - g[0]) / (x[1] - x[0])).abs()).fold(0.0, f64::max)
}

/// Whether values on the test grid are monotonic between training nodes, every `tau` test nodes.
fn is_monotonic(values: &[f64], tau: usize) -> bool {
    (0..values.len() - 1).step_by(tau).all(|first| {
        let part = &values[first..=(first + tau).min(values.len() - 1)];
        part.windows(2).all(|w| w[0] <= w[1]) || part.windows(2).all(|w| w[0] >= w[1])
    })
}

fn difference(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a - b).collect()
}

/// The inequalities of regression for a function and its projections.
pub(super) fn regression(
    [train, test]: [&Grid; 2],
    f: &OnGrids<'_>,
    ck: &OnGrids<'_>,
    ntk: &OnGrids<'_>,
) -> Vec<Bound> {
    let tau = (test.x.len() - 1) / (train.x.len() - 1);
    let intervals = (train.x.len() - 1) as f64;
    let root = (2.0 * tau as f64).sqrt();
    let [r_ck, r_ntk] = [ck, ntk].map(|g| difference(f.train, g.train));
    let [s_ck, s_ntk] = [ck, ntk].map(|g| difference(f.test, g.test));
    let [ck_0, ntk_0] = [&r_ck, &r_ntk].map(|r| train.norm(r));
    let [ck_1, ntk_1] = [&s_ck, &s_ntk].map(|r| test.norm(r));
    let between = train.norm(&difference(ntk.train, ck.train));
    let length = train.x[train.x.len() - 1] - train.x[0];
    // 1 - beta^2 from the residual, and 1 - beta = (1 - beta^2) / (1 + beta).
    let gap2 = (ntk_0 / train.norm(f.train)).powi(2).min(1.0);
    let beta = (1.0 - gap2).sqrt();
    let gap = gap2 / (1.0 + beta);
    let step = |g: &[f64]| 2.0 * (length * lipschitz(test, g) / intervals).powi(2);
    let monotonic = [&s_ck, &s_ntk].map(|s| is_monotonic(s, tau));
    let both = monotonic[0] && monotonic[1];
    let tau = tau as f64;
    let root_of = |square: f64| square.sqrt();
    let all = vec![
        Bound::new("(33) for f - f_CK", ck_0, tau.sqrt() * ck_1),
        Bound::new("(33) for f - f_NTK", ntk_0, tau.sqrt() * ntk_1),
        Bound::new("(34) for f - f_CK", ck_1, 2f64.sqrt() * ck_0).if_so(monotonic[0]),
        Bound::new("(34) for f - f_NTK", ntk_1, 2f64.sqrt() * ntk_0).if_so(monotonic[1]),
        Bound::new("(37) for f - f_CK", ck_1, root_of(4.0 * (ck_0.powi(2) + step(&s_ck)))),
        Bound::new("(37) for f - f_NTK", ntk_1, root_of(4.0 * (ntk_0.powi(2) + step(&s_ntk)))),
        Bound::new("(38)", ntk_0, ck_0),
        Bound::new("(40)", between, beta * ck_0),
        Bound::new("(44)", ck_0, ntk_0 / gap),
        Bound::new("(44) with 1/sqrt(1 - beta^2)", ck_0, ntk_0 / gap2.sqrt()),
        Bound::new("(45), left", ntk_1, root * ck_1).if_so(both),
        Bound::new("(45), right", ck_1, root / gap * ntk_1).if_so(both),
        Bound::new("(48)", ntk_1, root_of(4.0 * tau * ck_1.powi(2) + 4.0 * step(&s_ntk))),
        Bound::new(
            "(49)",
            ck_1,
            (2.0 * tau.sqrt() / gap * ntk_1).hypot(root_of(4.0 * step(&s_ck))),
        ),
    ];
    let unit = Some(train.norm(f.train));
    all.into_iter().map(|bound| Bound { unit, ..bound }).collect()
}

/// Values of psi on both planes, as lists of nodes.
pub(super) struct OnPlanes<'a> {
    pub train: &'a [f64],
    pub test: &'a [f64],
}

/// Two nested grids with the numbers of test intervals per training interval.
pub(super) struct Nested<'a> {
    pub train: &'a Plane,
    pub test: &'a Plane,
    pub taus: [usize; 2],
}

impl<'a> Nested<'a> {
    pub fn new(train: &'a Plane, test: &'a Plane) -> Self {
        let taus = [0, 1].map(|axis| test.intervals[axis] / train.intervals[axis]);
        Self { train, test, taus }
    }

    /// The printed constant, and the one that holds.
    pub fn constants(&self) -> [f64; 2] {
        let [a, b] = self.taus;
        [(a * b) as f64, ((2 * a + 1) * (2 * b + 1)) as f64]
    }

    /// Corners (as test nodes) and all test nodes of every rectangle.
    fn rectangles(&self) -> Vec<(Vec<usize>, Vec<usize>)> {
        let ([n1, n2], [t1, t2]) = (self.train.intervals, self.taus);
        let width = self.test.intervals[1] + 1;
        let mut all = Vec::with_capacity(n1 * n2);
        for (i, j) in (0..n1).flat_map(|i| (0..n2).map(move |j| (i, j))) {
            let node = |a: usize, b: usize| (i * t1 + a) * width + j * t2 + b;
            let corners = vec![node(0, 0), node(0, t2), node(t1, 0), node(t1, t2)];
            let inside = (0..=t1).flat_map(|a| (0..=t2).map(move |b| (a, b)));
            all.push((corners, inside.map(|(a, b)| node(a, b)).collect()));
        }
        all
    }

    /// Whether psi^ has its maximum over every rectangle at a corner.
    fn has_corner_maxima(&self, psi: &[f64]) -> bool {
        let hat = |node: usize| if self.test.classes[node] == 1 { -psi[node] } else { psi[node] };
        self.rectangles().iter().all(|(corners, inside)| {
            let most = corners.iter().map(|&c| hat(c)).fold(f64::NEG_INFINITY, f64::max);
            inside.iter().all(|&node| hat(node) <= most)
        })
    }

    /// Whether every test node lies in some rectangle with a corner of its class.
    fn is_matching(&self) -> bool {
        let mut matched = vec![false; self.test.n()];
        for (corners, inside) in self.rectangles() {
            for node in inside {
                let class = self.test.classes[node];
                matched[node] |= corners.iter().any(|&corner| self.test.classes[corner] == class);
            }
        }
        matched.iter().all(|matched| *matched)
    }

    /// The largest slope of psi between neighboring test nodes along the axes and diagonals.
    fn lipschitz(&self, psi: &[f64]) -> f64 {
        let [m1, m2] = self.test.intervals;
        let at = |i: usize, j: usize| i * (m2 + 1) + j;
        let [dx, dy] = [2.0 / m1 as f64, 2.0 / m2 as f64];
        let mut most = 0.0f64;
        for (i, j) in (0..=m1).flat_map(|i| (0..=m2).map(move |j| (i, j))) {
            let mut slope = |k: usize, l: usize, length: f64| {
                most = most.max((psi[at(k, l)] - psi[at(i, j)]).abs() / length);
            };
            if i < m1 {
                slope(i + 1, j, dx);
            }
            if j < m2 {
                slope(i, j + 1, dy);
            }
            if i < m1 && j < m2 {
                slope(i + 1, j + 1, dx.hypot(dy));
            }
        }
        most
    }

    /// The summed cross-entropies on training and test nodes.
    fn losses(&self, psi: &OnPlanes<'_>) -> [f64; 2] {
        [self.train.score(psi.train).loss, self.test.score(psi.test).loss]
    }

    /// The inequalities of classes; `penalized` are the objectives of both kernels.
    pub fn bounds(&self, ck: &OnPlanes<'_>, ntk: &OnPlanes<'_>, penalized: [f64; 2]) -> Vec<Bound> {
        let [[ck_0, ck_1], [ntk_0, ntk_1]] = [ck, ntk].map(|psi| self.losses(psi));
        let [printed, c] = self.constants();
        let corner = [ck, ntk].map(|psi| self.has_corner_maxima(psi.test));
        let is_matching = self.is_matching();
        let [t1, t2] = self.train.intervals;
        let h = (2.0 / t1 as f64).hypot(2.0 / t2 as f64);
        let [e_ck, e_ntk] = [ck, ntk].map(|psi| (h * self.lipschitz(psi.test)).exp());
        let hat = |psi: f64, class: u32| if class == 1 { -psi } else { psi };
        let pairs = ck.train.iter().zip(ntk.train).zip(&self.train.classes);
        let omega = pairs.map(|((a, b), &y)| hat(*a, y) - hat(*b, y)).fold(0.0, f64::max).exp();
        let both = corner[0] && corner[1];
        vec![
            Bound::new("(52), penalized", penalized[1], penalized[0]),
            Bound::new("(54) for CK", ck_0, ck_1),
            Bound::new("(54) for NTK", ntk_0, ntk_1),
            Bound::new("(59) for CK as printed", ck_1, printed * ck_0).if_so(corner[0]),
            Bound::new("(59) for NTK as printed", ntk_1, printed * ntk_0).if_so(corner[1]),
            Bound::new("(59) for CK, corrected", ck_1, c * ck_0).if_so(corner[0]),
            Bound::new("(59) for NTK, corrected", ntk_1, c * ntk_0).if_so(corner[1]),
            Bound::new("(61) for CK as printed", ck_1, e_ck * printed * ck_0).if_so(is_matching),
            Bound::new("(61) for NTK as printed", ntk_1, e_ntk * printed * ntk_0)
                .if_so(is_matching),
            Bound::new("(61) for CK, corrected", ck_1, e_ck * c * ck_0).if_so(is_matching),
            Bound::new("(61) for NTK, corrected", ntk_1, e_ntk * c * ntk_0).if_so(is_matching),
            Bound::new("(64)", ck_0, omega * ntk_0),
            Bound::new("(65), left, corrected", ntk_1, c * ck_1).if_so(both),
            Bound::new("(65), right, corrected", ck_1, c * omega * ntk_1).if_so(both),
            Bound::new("(68), left, corrected", ntk_1, e_ntk * c * ck_1).if_so(is_matching),
            Bound::new("(68), right, corrected", ck_1, omega * e_ck * c * ntk_1).if_so(is_matching),
        ]
    }

    /// l_1 / l_0 of a psi^ that is large at one inner training node and at all test nodes inside the four rectangles around it, and
    /// so small elsewhere that nothing is added: its maxima are at corners.
    pub fn counterexample(&self) -> f64 {
        let [t1, t2] = self.taus;
        let [i, j] = self.train.intervals.map(|n| n / 2);
        let (large, small) = (30.0, -60.0);
        let width = self.test.intervals[1] + 1;
        let near = |node: usize| {
            let (a, b) = (node / width, node % width);
            a.abs_diff(i * t1) < t1 && b.abs_diff(j * t2) < t2
        };
        let hat: Vec<f64> =
            (0..self.test.n()).map(|node| if near(node) { large } else { small }).collect();
        let loss = |values: &mut dyn Iterator<Item = f64>| values.map(softplus).sum::<f64>();
        let own = self.train.intervals;
        let corners = (0..=own[0]).flat_map(|a| (0..=own[1]).map(move |b| a * t1 * width + b * t2));
        loss(&mut hat.iter().copied()) / loss(&mut corners.map(|node| hat[node]))
    }
}

#[cfg(test)]
mod tests {
    use veridical_core::{Job, Seed, Stream};
    use veridical_nets::{Net, NetConfig, Shape};

    use super::super::approximants::Approximants;
    use super::super::grid::FUNCTIONS_71;
    use super::super::logistic::{BOUNDARIES_72, Plane, features, path};
    use super::*;

    /// A random network that is moved away from its first weights, as training does.
    fn net(inputs: usize, outputs: usize, seed: u64, activation: &str) -> Net<f64> {
        let shape = Shape::row(inputs);
        let mut config = NetConfig::new("mlp:12,12".parse().unwrap(), shape, outputs);
        config.activation = activation.parse().unwrap();
        let mut net = config.build::<f64>(Seed::new(seed).unwrap()).unwrap();
        let mut moves = vec![0.0; net.params.len()];
        Stream::new(Seed::new(seed).unwrap(), "test/moves").at(0, 0).fill_normals(&mut moves);
        net.params.iter_mut().zip(moves).for_each(|(p, z)| *p += 0.3 * z);
        net
    }

    fn holds(bounds: &[Bound], seed: u64) -> usize {
        let applied: Vec<&Bound> = bounds.iter().filter(|bound| bound.applies).collect();
        for bound in &applied {
            let is_printed = bound.name.contains("as printed");
            assert!(is_printed || bound.slack() >= ROUNDING, "seed {seed}: {bound:?}");
        }
        applied.len()
    }

    /// Twenty random networks: every inequality whose hypothesis holds, up to rounding.
    #[test]
    fn inequalities_of_regression_hold_on_random_networks() {
        let (train, test) = (Grid::new(31), Grid::new(91));
        let mut applied = 0;
        for seed in 0..20 {
            let (_, f) = FUNCTIONS_71[seed as usize % 3];
            let net = net(1, 1, seed, if seed % 4 == 3 { "relu" } else { "tanh" });
            let found = Approximants::new(&net, f, [&train, &test], &Job::silent()).unwrap();
            // Projections are exact on the singular values that are kept, and nested where none is near the cut-off: NTKJ keeps all
            // that CKJ keeps at a cut-off that is far lower.
            let (ck, ntk) = (found.solve(2, Some(1e-8)).unwrap(), found.solve(3, None).unwrap());
            let on = |v: &'_ super::super::approximants::Values| (v.train.clone(), v.test.clone());
            let ((a, b), (c, d)) = (on(&ck), on(&ntk));
            let (y, z) = (train.values(f), test.values(f));
            let bounds = regression(
                [&train, &test],
                &OnGrids { train: &y, test: &z },
                &OnGrids { train: &a, test: &b },
                &OnGrids { train: &c, test: &d },
            );
            applied += holds(&bounds, seed);
        }
        assert!(applied >= 20 * 10, "{applied}");
    }

    /// (38) and (52) in their penalized form: for unnormalized kernels the objective of NTK is never above that of CK, whatever lambda.
    #[test]
    fn penalized_objectives_are_ordered_on_random_networks() {
        for seed in 0..20 {
            let (_, boundary) = BOUNDARIES_72[seed as usize % 2];
            let (train, test) = (Plane::new([5, 4], boundary), Plane::new([10, 12], boundary));
            let net = net(2, 2, seed, if seed % 4 == 3 { "relu" } else { "tanh" });
            let job = Job::silent();
            let lambdas = [1.0, 1e-2, 1e-4, 1e-6];
            let solved = [true, false].map(|is_conjugate| {
                let (own, dim) = features(&net, &train, is_conjugate, &job).unwrap();
                let (others, _) = features(&net, &test, is_conjugate, &job).unwrap();
                let logistic = path([&own, &others], dim, &train.classes, &lambdas);
                let ridge: Vec<f64> = lambdas
                    .iter()
                    .map(|lambda| ridge_objective(&own, dim, &train.classes, *lambda))
                    .collect();
                (logistic, ridge)
            });
            let nested = Nested::new(&train, &test);
            for (at, lambda) in lambdas.iter().enumerate() {
                let [ck, ntk] = solved.each_ref().map(|(_, ridge)| ridge[at]);
                assert!((ck - ntk) / ck >= ROUNDING, "(38), seed {seed}, {lambda}: {ntk} {ck}");
                let [ck, ntk] = solved.each_ref().map(|(logistic, _)| &logistic[at]);
                let on = |s: &'_ super::super::logistic::Solved| (s.train.clone(), s.test.clone());
                let ((a, b), (c, d)) = (on(ck), on(ntk));
                let bounds = nested.bounds(
                    &OnPlanes { train: &a, test: &b },
                    &OnPlanes { train: &c, test: &d },
                    [ck.objective, ntk.objective],
                );
                assert!(holds(&bounds, seed) >= 4);
            }
        }
    }

    /// min |y - Phi beta|^2 + lambda |beta|^2 = lambda y'(K + lambda I)^-1 y.
    fn ridge_objective(features: &[f64], dim: usize, classes: &[u32], lambda: f64) -> f64 {
        let n = classes.len();
        let row = |i: usize| &features[i * dim..][..dim];
        let mut k = vec![0.0; n * n];
        for i in 0..n {
            for j in 0..n {
                k[i * n + j] = row(i).iter().zip(row(j)).map(|(a, b)| a * b).sum();
            }
            k[i * n + i] += lambda;
        }
        let y: Vec<f64> = classes.iter().map(|&y| if y == 1 { 1.0 } else { -1.0 }).collect();
        let solved = veridical_learn::solve_spd(&mut k, &y);
        lambda * solved.iter().zip(&y).map(|(a, b)| a * b).sum::<f64>()
    }

    /// Both grids of the paper: tau = (2, 3), where 6 is printed, 35 holds, and 15 is reached.
    #[test]
    fn the_printed_constant_of_59_has_a_counterexample() {
        let boundary = |_: f64, _: f64| -1.0;
        let (train, test) = (Plane::new([11, 7], boundary), Plane::new([22, 21], boundary));
        let nested = Nested::new(&train, &test);
        assert_eq!(nested.constants(), [6.0, 35.0]);
        assert!((nested.counterexample() - 15.0).abs() < 1e-9);
        assert!(nested.is_matching());
    }

    #[test]
    fn hypotheses_are_seen() {
        let grid = Grid::new(7);
        assert!(
            is_monotonic(&[0.0, 1.0, 2.0, 2.0, 0.0, -1.0, -1.0], 3)
                && lipschitz(&grid, &[0.0; 7]) == 0.0
        );
        assert!(!is_monotonic(&[0.0, 2.0, 1.0, 1.0, 0.0, -1.0, -1.0], 3));
        let boundary = |x: f64, _: f64| x - 0.1;
        let (train, test) = (Plane::new([1, 1], boundary), Plane::new([2, 2], boundary));
        let nested = Nested::new(&train, &test);
        // psi^ = psi for class 0 (x <= 0): larger inside than at the corners, and the other way around.
        let inner: Vec<f64> = (0..9).map(|node| if node == 4 { 1.0 } else { 0.0 }).collect();
        assert!(!nested.has_corner_maxima(&inner));
        assert!(nested.has_corner_maxima(&[0.0; 9]));
        assert!((nested.lipschitz(&inner) - 1.0).abs() < 1e-12);
    }
}
