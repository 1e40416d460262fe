//! Machines on the kernel of training rows, and their scores on held-out rows.

use veridical_core::{Estimate, Job, Order, Rows, Seed};
use veridical_features::Kernel as ShiftKernel;
use veridical_features::length_scale::from_median;
use veridical_kernels::gram::{Pairs, VectorKernel, VectorPairs, gram};
use veridical_kernels::machine::{
    DenseGram, Glm, GlmSettings, LeastSquares, Ridge, RidgeSpectrum, SolverSettings, choose_glm,
    product, solve,
};
use veridical_kernels::tangent::{
    Examples, Factors, Kind, Normalization, Plan, Settings as KernelSettings, kernel,
};
use veridical_nets::metrics::Passes;

use super::data::Material;
use super::score::{baselines, largest, losses, scored};
use super::{Learn, Learned, Solved, SolverName, Tried};
use crate::explain::{fed, matrix};
use crate::net::Saved;
use crate::{Error, Result};

/// Penalties of a path in powers of ten, largest first, two for each.
const PATH: std::ops::RangeInclusive<i32> = -16..=4;
/// Cut-offs of singular values, largest first.
const CUTS: std::ops::RangeInclusive<i32> = 1..=15;
/// Share of the training rows on which a penalty is chosen that has no closed form.
const CHOSEN_ON: f64 = 0.1;
/// Rows from which the penalty of an iterative solver is chosen.
const CHOSEN_FROM: usize = 1000;
/// Rows of which the median distance is taken.
const MEDIAN_ROWS: usize = 1000;
/// Held-out rows whose kernel values are computed at once.
const BLOCK: usize = 1024;

/// What kernel values, or features, are computed from.
enum Of {
    Vectors(VectorKernel),
    Net(KernelSettings),
    Features(KernelSettings),
}

/// A fitted machine with its predictions of the held-out rows.
pub(super) struct Fitted {
    kernel: String,
    length_scale: Option<f64>,
    lambda: f64,
    path: Vec<Tried>,
    solved: Solved,
    /// Held-out rows x targets: predictions, or scores of classes.
    pub predicted: Vec<f64>,
    /// Whether the scores are logits.
    is_logistic: bool,
    notes: Vec<String>,
}

/// What a solver returns: penalty, path, solution and predictions.
struct Found {
    lambda: f64,
    path: Vec<Tried>,
    solved: Solved,
    predicted: Vec<f64>,
    notes: Vec<String>,
}

impl Of {
    fn new(settings: &Learn, material: &Material) -> Result<(Self, Option<f64>)> {
        let name = settings.kernel.as_str();
        let shift = match name {
            "rbf" => Some(ShiftKernel::Gaussian),
            "mixture" => None,
            name => ShiftKernel::from_name(name),
        };
        let vectors = match name {
            "linear" => Some(VectorKernel::Linear),
            "arc-cosine-0" => Some(VectorKernel::ArcCosine0),
            "arc-cosine-1" => Some(VectorKernel::ArcCosine1),
            _ => None,
        };
        if let Some(kernel) = shift {
            let scale = match settings.length_scale.as_str() {
                "median" => {
                    let step = material.train.n().div_ceil(MEDIAN_ROWS);
                    let some = material.train.x.chunks_exact(material.dim).step_by(step);
                    let some: Vec<f32> = some.flatten().copied().collect();
                    from_median(Rows::new(&some, material.dim)?, &kernel)?
                }
                text => {
                    let scale = text.parse::<f64>().ok().filter(|l| l.is_finite() && *l > 0.0);
                    let must_be = "a number above 0, or `median`";
                    scale.ok_or_else(|| Error::setting("length-scale", must_be, text))?
                }
            };
            return Ok((Self::Vectors(VectorKernel::Shift(kernel, scale)), Some(scale)));
        }
        if let Some(kernel) = vectors {
            return Ok((Self::Vectors(kernel), None));
        }
        if settings.run.is_none() {
            let what = format!("⟨kernel {name}⟩ is of a network, or unknown");
            let hint = "pass ⟨run⟩ RUN, or choose linear, rbf, laplace, matern-3/2 or arc-cosine-1";
            return Err(Error::request(what, hint));
        }
        let kind = match name {
            "ntk" | "ntkj" => Kind::Trntk0,
            "ckj" => Kind::Ck,
            name => name.parse().map_err(|_| {
                let known = "ck, ntk, ckj, ntkj, trntk, trntk0, pntk, ck-cos or em of a run, or a kernel of vectors";
                Error::setting("kernel", known, name)
            })?,
        };
        if matches!(kind, Kind::Entk | Kind::Margin | Kind::Loss) {
            let what = format!("{kind} has no value for two inputs alone");
            return Err(Error::request(what, "choose trntk"));
        }
        let memory = settings.memory * 1_000_000;
        let seed = Seed::new(settings.split_seed)?;
        let kernel = KernelSettings { memory, seed, ..KernelSettings::new(kind) };
        Ok(match name.ends_with('j') {
            true => (Self::Features(kernel), None),
            false => (Self::Net(kernel), None),
        })
    }
}

/// The network and both sets of a run, as it reads them.
fn sides<R>(
    material: &Material,
    with: impl FnOnce(&Saved, &Examples<'_, f32>, &Examples<'_, f32>) -> Result<R>,
) -> Result<R> {
    let Some(saved) = &material.saved else {
        return Err(Error::request("this kernel is of a network", "pass ⟨run⟩ RUN"));
    };
    let feed = |of| Ok::<_, Error>(saved.normalization.feed(of, Seed::new(0)?));
    let (train, test) = (feed(&material.train.examples)?, feed(&material.test.examples)?);
    with(saved, &fed(&train), &fed(&test))
}

/// Numbers of a path, largest first.
pub(super) fn powers() -> Vec<f64> {
    PATH.rev().map(|e| 10f64.powf(f64::from(e) / 2.0)).collect()
}

/// The penalty, if it is a number.
fn number(settings: &Learn, least: &str) -> Result<Option<f64>> {
    if settings.lambda == "path" {
        return Ok(None);
    }
    let found = settings.lambda.parse::<f64>().ok().filter(|l| l.is_finite());
    let found =
        found.filter(|l| if least == "above 0" { *l > 0.0 } else { (0.0..1.0).contains(l) });
    match found {
        Some(lambda) => Ok(Some(lambda)),
        None => {
            Err(Error::setting("lambda", format!("`path`, or a number {least}"), &settings.lambda))
        }
    }
}

/// The best of a path; the larger penalty on ties.
pub(super) fn best(path: &[Tried]) -> Result<f64> {
    let found =
        path.iter().filter(|t| t.error.is_finite()).min_by(|a, b| a.error.total_cmp(&b.error));
    found
        .map(|t| t.lambda)
        .ok_or_else(|| Error::unfit("no penalty gives a finite error", "set a larger ⟨lambda⟩"))
}

fn note_end(path: &[Tried], lambda: f64, notes: &mut Vec<String>) {
    let ends = [path.first(), path.last()].map(|t| t.map(|t| t.lambda));
    if path.len() > 1 && ends.contains(&Some(lambda)) {
        notes.push(format!("the chosen penalty {lambda:.1e} is the end of the path"));
    }
}

/// A tenth of the rows, drawn by the seed.
pub(super) fn chosen_on(n: usize, settings: &Learn) -> Result<Vec<usize>> {
    let order = Order::new(n as u64, Seed::new(settings.split_seed)?, "kernel/penalty", 0);
    let count = ((CHOSEN_ON * n as f64).round() as u64).max(1);
    let mut rows: Vec<usize> = (0..count).map(|t| order.at(t) as usize).collect();
    rows.sort_unstable();
    Ok(rows)
}

pub(super) fn root_mean_square(values: &[f64]) -> f64 {
    (values.iter().map(|x| x * x).sum::<f64>() / values.len() as f64).sqrt()
}

impl Fitted {
    pub fn new(
        settings: &Learn,
        solver: SolverName,
        material: &Material,
        job: &Job<'_>,
    ) -> Result<Self> {
        let (of, length_scale) = Of::new(settings, material)?;
        let found = match &of {
            Of::Features(kernel) => {
                if settings.solver.is_some_and(|s| s != SolverName::Direct) {
                    let what =
                        format!("{} is solved by a decomposition of its features", settings.kernel);
                    return Err(Error::request(what, "drop ⟨solver⟩, or choose ck or ntk"));
                }
                features(settings, material, kernel, job)?
            }
            Of::Vectors(kernel)
                if ![SolverName::Newton, SolverName::Direct].contains(&solver)
                    && !fits(material, settings) =>
            {
                // Its tiles are computed whenever they are needed.
                let rows = matrix(&material.train.x, material.dim)?;
                let pairs = VectorPairs::new(kernel, rows, None);
                let diagonal: Vec<f64> = rows.iter().map(|x| kernel.value(x, x)).collect();
                iterative(settings, solver, material, &of, (&pairs, &diagonal), job)?
            }
            _ => {
                check_memory(material, settings)?;
                let k = train_gram(material, &of, job)?;
                match solver {
                    SolverName::Newton => logistic(settings, material, &of, &k, job)?,
                    SolverName::Direct => direct(settings, material, &of, &k, job)?,
                    _ => {
                        let rows = matrix(&k, material.train.n())?;
                        let diagonal = diagonal(rows);
                        let dense = DenseGram::new(rows)?;
                        iterative(settings, solver, material, &of, (&dense, &diagonal), job)?
                    }
                }
            }
        };
        let Found { lambda, path, solved, predicted, mut notes } = found;
        note_end(&path, lambda, &mut notes);
        if !solved.converged {
            notes.push(format!(
                "the solver did not reach ⟨tolerance⟩ {} in {} iterations",
                settings.tolerance, solved.iterations
            ));
        }
        let kernel = settings.kernel.clone();
        let is_logistic = solver == SolverName::Newton && !matches!(of, Of::Features(_));
        Ok(Self { kernel, length_scale, lambda, path, solved, predicted, is_logistic, notes })
    }

    /// The class with the largest score.
    pub fn classes(&self, t: usize) -> Vec<u32> {
        largest(&self.predicted, t)
    }

    /// Scores the machine beside the network and the baselines.
    pub fn evaluate(
        &self,
        settings: &Learn,
        material: &Material,
        job: &Job<'_>,
    ) -> Result<Learned> {
        let t = material.targets();
        let machine = match (material.classes.is_empty(), self.is_logistic) {
            (true, _) => format!("Kernel ridge on {}", self.kernel),
            (false, true) => format!("Kernel logistic regression on {}", self.kernel),
            (false, false) => format!("Least squares on {}", self.kernel),
        };
        let machine = match self.kernel.ends_with('j') {
            true => format!("Least squares on the features of {}", self.kernel.to_uppercase()),
            false => machine,
        };
        let score = |model: String, predicted: &[f64], is_logits: bool| {
            scored(model, predicted, is_logits, material, t)
        };
        let mut scores = vec![score(machine, &self.predicted, self.is_logistic)];
        let mut errors = vec![losses(&self.predicted, material, t)];
        if let Some(saved) = &material.saved {
            let feed = saved.normalization.feed(&material.test.examples, Seed::new(0)?);
            let label = saved.run.path().display().to_string();
            let outputs = Passes::new(&saved.net).outputs(&saved.net, &feed, (&label, job))?;
            let outputs: Vec<f64> = outputs.into_iter().map(f64::from).collect();
            if outputs.len() == material.test.n() * t {
                scores.push(score(format!("the network {label}"), &outputs, true));
            }
        }
        for (name, predicted) in baselines(settings, material)? {
            errors.push(losses(&predicted, material, t));
            scores.push(score(name.into(), &predicted, name.starts_with("logistic")));
        }
        // Of both baselines the one with the smaller mean error.
        let mean = |of: &[f64]| of.iter().sum::<f64>();
        let better = usize::from(mean(&errors[2]) < mean(&errors[1])) + 1;
        let gain = errors[better].iter().zip(&errors[0]).map(|(theirs, own)| theirs - own);
        let points = match material.classes.is_empty() {
            true => material.test.y.iter().copied().zip(self.predicted.iter().copied()).collect(),
            false => Vec::new(),
        };
        Ok(Learned {
            data: material.name.clone(),
            kernel: self.kernel.clone(),
            length_scale: self.length_scale,
            run: settings.run.as_ref().map(ToString::to_string),
            rows: material.train.n(),
            held_out: material.held_out.clone(),
            n: material.test.n(),
            lambda: self.lambda,
            path: self.path.clone(),
            solved: self.solved.clone(),
            scores,
            gain: Estimate::mean(gain),
            notes: material.notes.iter().chain(&self.notes).cloned().collect(),
            out: None,
            points,
        })
    }
}

/// Whether the Gram matrix of the training rows fits in memory, with a copy in f64 for a solver.
fn fits(material: &Material, settings: &Learn) -> bool {
    bytes(material) <= settings.memory as f64 * 1e6
}

fn bytes(material: &Material) -> f64 {
    12.0 * (material.train.n() as f64).powi(2)
}

fn check_memory(material: &Material, settings: &Learn) -> Result<()> {
    if fits(material, settings) {
        return Ok(());
    }
    let what = format!(
        "the Gram matrices of {} rows take {:.0} MB and ⟨memory⟩ allows {} MB",
        material.train.n(),
        bytes(material) / 1e6,
        settings.memory
    );
    let rows = (settings.memory as f64 * 1e6 / 12.0).sqrt() as usize;
    let hint = format!(
        "take at most ⟨rows {rows}⟩, raise ⟨memory⟩, or choose a kernel of vectors with ⟨solver falkon⟩ or pcg"
    );
    Err(Error::request(what, hint))
}

fn train_gram(material: &Material, of: &Of, job: &Job<'_>) -> Result<Vec<f32>> {
    match of {
        Of::Vectors(kernel) => {
            let rows = matrix(&material.train.x, material.dim)?;
            Ok(gram(&VectorPairs::new(kernel, rows, None), job)?.values)
        }
        Of::Net(settings) | Of::Features(settings) => sides(material, |saved, train, _| {
            Ok(kernel(&saved.net, train, None, settings, job)?.gram.values)
        }),
    }
}

/// The sums of kernel values of held-out rows with training rows, or some of them, times alpha.
fn predict(
    material: &Material,
    of: &Of,
    centers: Option<&[u32]>,
    alpha: &[f64],
    job: &Job<'_>,
) -> Result<Vec<f64>> {
    let t = material.targets();
    let n = centers.map_or(material.train.n(), <[u32]>::len);
    let values = match of {
        Of::Vectors(kernel) => {
            let dim = material.dim;
            let picked: Vec<f32>;
            let train = match centers {
                None => &material.train.x,
                Some(centers) => {
                    let row = |&i: &u32| &material.train.x[i as usize * dim..][..dim];
                    picked = centers.iter().flat_map(row).copied().collect();
                    &picked
                }
            };
            let mut all = Vec::with_capacity(material.test.n() * t);
            for block in material.test.x.chunks(BLOCK * dim) {
                let rows = matrix(block, dim)?;
                let pairs = VectorPairs::new(kernel, rows, Some(matrix(train, dim)?));
                let k = gram(&pairs, job)?;
                all.extend(product(matrix(&k.values, n)?, alpha, t));
            }
            return Ok(all);
        }
        Of::Net(settings) | Of::Features(settings) => sides(material, |saved, train, test| {
            let places: Vec<usize>;
            let some = match centers {
                None => None,
                Some(centers) => {
                    places = centers.iter().map(|&i| i as usize).collect();
                    Some(train.select(&places))
                }
            };
            let columns = some.as_ref().unwrap_or(train);
            Ok(kernel(&saved.net, test, Some(columns), settings, job)?.gram.values)
        })?,
    };
    Ok(product(matrix(&values, n)?, alpha, t))
}

fn add_intercepts(values: &mut [f64], intercepts: &[f64]) {
    for row in values.chunks_exact_mut(intercepts.len()) {
        row.iter_mut().zip(intercepts).for_each(|(y, b)| *y += b);
    }
}

fn diagonal(k: Rows<'_, f32>) -> Vec<f64> {
    (0..k.n()).map(|i| f64::from(k.row(i)[i])).collect()
}

/// The mean of the diagonal of a Gram matrix: the unit of penalties.
fn unit(diagonal: &[f64]) -> Result<f64> {
    let mean = diagonal.iter().sum::<f64>() / diagonal.len() as f64;
    match mean > 0.0 && mean.is_finite() {
        true => Ok(mean),
        false => {
            Err(Error::unfit("the kernel is 0 for all training rows", "choose another kernel"))
        }
    }
}

/// Kernel ridge by decomposition; the penalty by the errors of single rows left out.
fn direct(
    settings: &Learn,
    material: &Material,
    of: &Of,
    k: &[f32],
    job: &Job<'_>,
) -> Result<Found> {
    let (n, t) = (material.train.n(), material.targets());
    let (k, y) = (matrix(k, n)?, matrix(&material.train.y, t)?);
    let unit = unit(&diagonal(k))?;
    let given = number(settings, "above 0")?;
    let mut path = Vec::new();
    let weights = material.weights.as_deref();
    // Of mean 1, so that the unit of the penalty does not depend on them.
    let weights: Option<Vec<f64>> =
        weights.map(|weights| weights.iter().map(|w| w * n as f64).collect());
    let (lambda, alpha, intercepts) = match (&weights, given) {
        (None, None) => {
            let spectrum = RidgeSpectrum::new(k, y)?;
            for lambda in powers() {
                job.check()?;
                // Rounding of K can make it indefinite: smaller penalties end there.
                let Ok(at) = spectrum.at(lambda * unit) else { break };
                path.push(Tried { lambda, error: root_mean_square(&at.left_out) });
            }
            let lambda = best(&path)?;
            let at = spectrum.at(lambda * unit)?;
            (lambda, at.alpha, at.intercepts)
        }
        (weights, given) => {
            let weights = weights.as_deref();
            let lambda = match given {
                Some(lambda) => lambda,
                None => {
                    for lambda in powers() {
                        job.check()?;
                        let Ok(ridge) = Ridge::fit(k, y, lambda * unit, weights) else { break };
                        let left_out = ridge.left_out_residuals();
                        let weighted: Vec<f64> = left_out
                            .chunks_exact(t)
                            .enumerate()
                            .flat_map(|(i, row)| {
                                let w = weights.map_or(1.0, |w| w[i]).sqrt();
                                row.iter().map(move |r| r * w)
                            })
                            .collect();
                        path.push(Tried { lambda, error: root_mean_square(&weighted) });
                    }
                    best(&path)?
                }
            };
            let ridge = Ridge::fit(k, y, lambda * unit, weights)?;
            (lambda, ridge.alpha().to_vec(), ridge.intercepts().to_vec())
        }
    };
    let residual = {
        let mut r = product(k, &alpha, t);
        add_intercepts(&mut r, &intercepts);
        for (i, (r, (y, a))) in
            r.chunks_exact_mut(t).zip(y.iter().zip(alpha.chunks_exact(t))).enumerate()
        {
            let penalty = lambda * unit / weights.as_ref().map_or(1.0, |w| w[i]);
            for ((r, y), a) in r.iter_mut().zip(y).zip(a) {
                *r += penalty * a - y;
            }
        }
        root_mean_square(&r) / root_mean_square(y.values()).max(f64::MIN_POSITIVE)
    };
    let mut predicted = predict(material, of, None, &alpha, job)?;
    add_intercepts(&mut predicted, &intercepts);
    let solved = Solved {
        solver: "direct".into(),
        iterations: 1,
        residual: Some(residual),
        predicted_residual: None,
        converged: true,
    };
    Ok(Found { lambda, path, solved, predicted, notes: Vec::new() })
}

/// Kernel ridge on targets less their mean, by a named solver.
fn iterative(
    settings: &Learn,
    solver: SolverName,
    material: &Material,
    of: &Of,
    (k, diagonal): (&dyn Pairs, &[f64]),
    job: &Job<'_>,
) -> Result<Found> {
    if material.weights.is_some() {
        let what = format!("⟨solver {}⟩ has no weights", solver.name());
        return Err(Error::request(what, "choose direct, or drop ⟨weights⟩"));
    }
    let (n, t) = (material.train.n(), material.targets());
    let mut mean = vec![0.0; t];
    for row in material.train.y.chunks_exact(t) {
        mean.iter_mut().zip(row).for_each(|(m, y)| *m += y / n as f64);
    }
    let mut y = material.train.y.clone();
    y.chunks_exact_mut(t).for_each(|row| row.iter_mut().zip(&mean).for_each(|(y, m)| *y -= m));
    let unit = unit(diagonal)?;
    let mut notes = Vec::new();
    let (lambda, path) = match number(settings, "above 0")? {
        Some(lambda) => (lambda, Vec::new()),
        None => {
            let order = Order::new(n as u64, Seed::new(settings.split_seed)?, "kernel/penalty", 0);
            let mut some: Vec<u32> =
                (0..n.min(CHOSEN_FROM) as u64).map(|i| order.at(i) as u32).collect();
            some.sort_unstable();
            let columns = k.columns(&some);
            let own: Vec<f32> = some
                .iter()
                .flat_map(|&i| &columns[i as usize * some.len()..][..some.len()])
                .copied()
                .collect();
            let targets: Vec<f64> =
                some.iter().flat_map(|&i| &y[i as usize * t..][..t]).copied().collect();
            let spectrum = RidgeSpectrum::new(matrix(&own, some.len())?, matrix(&targets, t)?)?;
            let mut path = Vec::new();
            for lambda in powers() {
                let Ok(at) = spectrum.at(lambda * unit) else { break };
                path.push(Tried { lambda, error: root_mean_square(&at.left_out) });
            }
            if some.len() < n {
                notes.push(format!("the penalty is chosen on {} of the rows", some.len()));
            }
            (best(&path)?, path)
        }
    };
    // INVARIANT: newton is not asked for here.
    let Some(named) = solver.solver() else {
        return Err(Error::request("⟨solver newton⟩ solves no linear system", "choose direct"));
    };
    let solving = SolverSettings {
        tolerance: settings.tolerance,
        iterations: settings.iterations,
        centers: settings.centers,
        seed: Seed::new(settings.split_seed)?,
    };
    let solution = solve(k, matrix(&y, t)?, lambda * unit, named, &solving, job)?;
    let mut predicted = predict(material, of, solution.centers.as_deref(), &solution.alpha, job)?;
    add_intercepts(&mut predicted, &mean);
    let solved = Solved {
        solver: solver.name().into(),
        iterations: solution.iterations,
        residual: Some(solution.residual),
        predicted_residual: solution.predicted,
        converged: solution.converged,
    };
    Ok(Found { lambda, path, solved, predicted, notes })
}

/// Kernel logistic regression; the penalty by the cross-entropy of a tenth of the training rows.
fn logistic(
    settings: &Learn,
    material: &Material,
    of: &Of,
    k: &[f32],
    job: &Job<'_>,
) -> Result<Found> {
    let n = material.train.n();
    let classes = material.classes.len();
    let k = matrix(k, n)?;
    let labels = material.train.labels.as_deref().unwrap_or_default();
    let unit = unit(&diagonal(k))?;
    // Weights of mean 1.
    let weights: Option<Vec<f64>> =
        material.weights.as_ref().map(|weights| weights.iter().map(|w| w * n as f64).collect());
    let weights = weights.as_deref();
    let (lambda, path) = match number(settings, "above 0")? {
        Some(lambda) => (lambda, Vec::new()),
        None => {
            let held_out = chosen_on(n, settings)?;
            let lambdas: Vec<f64> =
                powers().into_iter().filter(|l| *l >= 1e-7).map(|l| l * unit).collect();
            let choice = choose_glm(k, labels, classes, weights, &lambdas, &held_out, job)?;
            let tried = |&(lambda, error): &(f64, f64)| Tried { lambda: lambda / unit, error };
            (choice.lambda / unit, choice.losses.iter().map(tried).collect())
        }
    };
    let fitting = GlmSettings::new(lambda * unit);
    let glm = Glm::fit(k, labels, classes, weights, None, &fitting, job)?;
    let mut predicted = predict(material, of, None, glm.alpha(), job)?;
    add_intercepts(&mut predicted, glm.intercepts());
    let solved = Solved {
        solver: "newton".into(),
        iterations: glm.steps,
        residual: None,
        predicted_residual: None,
        converged: glm.converged,
    };
    Ok(Found { lambda, path, solved, predicted, notes: Vec::new() })
}

/// Least squares of features at the rank that a cut-off leaves; the cut-off by the error of a tenth of the training rows.
fn features(
    settings: &Learn,
    material: &Material,
    kernel: &KernelSettings,
    job: &Job<'_>,
) -> Result<Found> {
    let t = material.targets();
    let kernel = KernelSettings { normalization: Normalization::None, ..kernel.clone() };
    let (dim, train, test) = sides(material, |saved, train, test| {
        let plan = Plan::new(&saved.net, train, Some(test), &kernel)?;
        let of = |examples: &Examples<'_, f32>| -> Result<(usize, Vec<f64>)> {
            let factors = Factors::take(&saved.net, examples, &plan, job)?;
            let dim = factors.feature_dim()?;
            let total = dim as f64 * (material.train.n() + material.test.n()) as f64 * 8.0;
            if 3.0 * total > settings.memory as f64 * 1e6 {
                let what = format!(
                    "{dim} features of each row take {:.0} MB and ⟨memory⟩ allows {} MB",
                    3.0 * total / 1e6,
                    settings.memory
                );
                return Err(Error::request(
                    what,
                    "take fewer ⟨rows⟩, raise ⟨memory⟩, or choose ck or ntk",
                ));
            }
            Ok((dim, factors.features(0..factors.len())?))
        };
        let ((dim, train), (_, test)) = (of(train)?, of(test)?);
        Ok((dim, train, test))
    })?;
    let (x, y) = (matrix(&train, dim)?, matrix(&material.train.y, t)?);
    let weights = material.weights.as_deref();
    let (cut, path) = match number(settings, "from 0 to below 1")? {
        Some(cut) => (cut, Vec::new()),
        None => {
            let held_out = chosen_on(x.n(), settings)?;
            let is_kept = |i: &usize| held_out.binary_search(i).is_err();
            let kept: Vec<usize> = (0..x.n()).filter(is_kept).collect();
            let rows = |of: Rows<'_, f64>, rows: &[usize]| -> Vec<f64> {
                rows.iter().flat_map(|&i| of.row(i)).copied().collect()
            };
            let (fit_x, fit_y) = (rows(x, &kept), rows(y, &kept));
            let (ask_x, ask_y) = (rows(x, &held_out), rows(y, &held_out));
            let own: Option<Vec<f64>> = weights.map(|w| kept.iter().map(|&i| w[i]).collect());
            let (fit_x, fit_y) = (matrix(&fit_x, dim)?, matrix(&fit_y, t)?);
            let problem = LeastSquares::of_features(fit_x, fit_y, own.as_deref())?;
            let mut path = Vec::new();
            for lambda in CUTS.map(|e| 10f64.powi(-e)) {
                job.check()?;
                let found = problem.solve(lambda)?.predict(matrix(&ask_x, dim)?)?;
                let off: Vec<f64> = found.iter().zip(&ask_y).map(|(f, y)| f - y).collect();
                path.push(Tried { lambda, error: root_mean_square(&off) });
            }
            (best(&path)?, path)
        }
    };
    let problem = LeastSquares::of_features(x, y, weights)?;
    let solution = problem.solve(cut)?;
    let predicted = solution.predict(matrix(&test, dim)?)?;
    let solved = Solved {
        solver: "direct".into(),
        iterations: 1,
        residual: None,
        predicted_residual: None,
        converged: true,
    };
    let notes = vec![format!(
        "{} of {dim} features' directions are used: singular values above {cut:.0e} of the largest",
        solution.rank
    )];
    Ok(Found { lambda: cut, path, solved, predicted, notes })
}
