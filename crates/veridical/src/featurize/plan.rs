//! `featurize plan`: the dimension of phi for a target error, or the error of a dimension, by four methods that bound
//! different quantities; see [`veridical_features::plan`].

use serde::Serialize;
use veridical_core::settings::Settings as _;
use veridical_core::{Error as Refusal, Job, Rows, settings};
use veridical_features::FeatureSpec;
use veridical_features::plan::{self, Domain, Measured};
use veridical_io::{Input, ReadOptions, Source};

use super::sample::Sample;
use super::{MapSettings, NewSpec, Normalization, make_spec};
use crate::{Error, Result};

/// Number of rows sampled from the data; pairs are half as many.
const SAMPLED_ROWS: usize = 32_768;
/// Table size for which storage is reported: 100 million rows.
const MANY_ROWS: f64 = 1e8;
/// Below this, rounding of phi to f32 is no longer negligible.
const MIN_EPSILON: f64 = 1e-6;
/// Beyond this, (1 + confidence) / 2 is too close to 1 for its normal quantile.
const MAX_CONFIDENCE: f64 = 1.0 - 1e-12;

/// The given quantity; the plan computes the other one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// Target error: the plan returns the dimension.
    Epsilon(f64),
    /// Given dimension: the plan returns the error.
    OutputDim(usize),
}

settings! {
    /// Settings of [`plan()`].
    pub struct Plan {
        /// Target kernel error; the plan returns the dimension D
        pub epsilon: Option<f64> = None => [value("E"), excludes(&["output-dim"])],
        /// Dimension D of phi; the plan returns the kernel error
        pub output_dim: Option<usize> = None => [value("D")],
        /// Confidence with which a bound holds
        pub confidence: f64 = 0.99 => [value("P")],
        /// Dimension d of the vectors; taken from ⟨data⟩ if given
        pub input_dim: Option<usize> = None => [value("d")],
        /// Vector table to measure errors on
        pub data: Option<Input> = None,
        /// Largest dimension D to try on ⟨data⟩
        pub max_output_dim: usize = 16_384 => [value("D")],
    } with {
        /// Settings of the feature map.
        pub map: MapSettings,
        /// How the table is read.
        pub read: ReadOptions,
    }
}

impl Plan {
    /// Returns the goal.
    ///
    /// # Errors
    /// [`Refusal::Request`] unless exactly one of the two is given.
    pub fn goal(&self) -> Result<Goal> {
        match (self.epsilon, self.output_dim) {
            (Some(epsilon), None) => Ok(Goal::Epsilon(epsilon)),
            (None, Some(output_dim)) => Ok(Goal::OutputDim(output_dim)),
            _ => {
                let what =
                    "pass a target error with ⟨epsilon E⟩, or a dimension with ⟨output-dim D⟩";
                Err(Refusal::request(what, "").into())
            }
        }
    }
}

/// Answer of one method.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// Name of the method: `uniform`, `pair`, `measured-mean`, `measured-quantile` or `alignment`.
    pub method: &'static str,
    /// Quantity that is bounded.
    pub bounds: String,
    /// What the answer is useful for.
    pub label: &'static str,
    /// Error bound.
    pub epsilon: Option<f64>,
    /// Number of directions m.
    pub directions: Option<u64>,
    /// Output dimension D = 2m.
    pub output_dim: Option<u64>,
    /// Bytes per row of phi in f32.
    pub bytes_per_row: Option<u64>,
    /// Storage in GB (10^9 bytes) for 100 million rows.
    pub gb_per_100m_rows: Option<f64>,
    /// Reason why there is no answer.
    pub why_not: Option<String>,
}

/// Errors measured on the data at one dimension.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Point {
    /// Output dimension D.
    pub output_dim: usize,
    /// Mean absolute error of the pairs.
    pub mean: f64,
    /// Upper confidence bound on the mean.
    pub mean_bound: f64,
    /// 95 % quantile of the absolute errors.
    pub quantile_95: f64,
    /// Upper confidence bound on the quantile; `None` if there are too few pairs.
    pub quantile_95_bound: Option<f64>,
}

/// Result of [`plan()`].
#[derive(Clone, Debug, Serialize)]
pub struct Planned {
    /// Input dimension d.
    pub input_dim: usize,
    /// Name of the kernel.
    pub kernel: &'static str,
    /// Length scale l.
    pub length_scale: f64,
    /// How the directions U are sampled.
    pub directions: &'static str,
    /// Normalization of the input rows.
    pub normalize: &'static str,
    /// Random seed of the directions and of the sampled pairs.
    pub seed: u64,
    /// Confidence with which a bound holds.
    pub confidence: f64,
    /// Answers, one per method.
    pub answers: Vec<Answer>,
    /// Recommended dimension D, if errors were measured.
    pub recommended_output_dim: Option<usize>,
    /// Number of pairs measured.
    pub n_pairs: Option<usize>,
    /// Number of rows in the data.
    pub n_rows: Option<u64>,
    /// Errors of all dimensions that were tried.
    pub measured: Vec<Point>,
}

/// Plans the output dimension of phi.
///
/// # Errors
/// [`Refusal::Setting`] for a goal or confidence out of range, [`Error::Io`] if the table cannot be read.
///
/// # Example
/// ```
/// use veridical::core::Job;
/// use veridical::featurize::{self, Plan};
///
/// let plan = Plan { input_dim: Some(64), epsilon: Some(0.05), ..Plan::default() };
/// let planned = featurize::plan(&plan, &Job::silent())?;
/// let pair = planned.answers.iter().find(|answer| answer.method == "pair").unwrap();
/// assert!(pair.output_dim.unwrap() > 1000); // a single pair, at confidence 0.99
/// assert_eq!(planned.recommended_output_dim, None); // only data can recommend a dimension
/// # Ok::<(), veridical::Error>(())
/// ```
pub fn plan(settings: &Plan, job: &Job<'_>) -> Result<Planned> {
    settings.check()?;
    let goal = settings.goal()?;
    check(settings, goal)?;
    let largest = match goal {
        Goal::OutputDim(output_dim) => output_dim,
        Goal::Epsilon(_) => settings.max_output_dim,
    };
    let map = NewSpec {
        input_dim: settings.input_dim,
        output_dim: Some(largest),
        data: settings.data.clone(),
        map: settings.map.clone(),
        read: settings.read.clone(),
    };
    let (spec, _summary) = make_spec(&map, job).map_err(|e| name_the_flag(e, goal))?;
    let data = map.source();
    let sample = match &data {
        Some(data) => Some(Sample::read(data, &map.read, &spec, SAMPLED_ROWS, job)?),
        None => None,
    };
    let curve = match (&data, &sample) {
        (Some(data), Some(sample)) => {
            let curve = Curve::measure(&spec, sample, settings);
            Some(curve.map_err(|error| Sample::refused(data, error))?)
        }
        _ => None,
    };
    let domain = domain(&spec, map.map.normalize, sample.as_ref());
    let mut answers = theory(&spec, domain, settings, goal);
    let (mean, quantile) = match &curve {
        Some(curve) => {
            (curve.answer(settings, goal, MEAN), curve.answer(settings, goal, BY_QUANTILE))
        }
        None => (MEAN.unmeasured(), BY_QUANTILE.unmeasured()),
    };
    let recommended = quantile.output_dim.map(|output_dim| output_dim as usize);
    answers.splice(2..2, [mean, quantile]);
    Ok(Planned {
        input_dim: spec.input_dim(),
        kernel: spec.kernel().name(),
        length_scale: spec.length_scale(),
        directions: spec.directions().name(),
        normalize: spec.normalize().name(),
        seed: spec.seed().get(),
        confidence: settings.confidence,
        answers,
        recommended_output_dim: recommended.filter(|_| curve.is_some()),
        n_pairs: curve.as_ref().and_then(|curve| Some(curve.measured.first()?.n_pairs)),
        n_rows: sample.map(|sample| sample.n_rows),
        measured: curve.map(|curve| curve.points()).unwrap_or_default(),
    })
}

fn check(settings: &Plan, goal: Goal) -> Result<()> {
    let confidence = settings.confidence;
    if !(confidence > 0.0 && confidence <= MAX_CONFIDENCE) {
        let must_be = "above 0 and at most 1 - 1e-12";
        return Err(Refusal::setting("confidence", must_be, confidence).into());
    }
    match goal {
        Goal::Epsilon(epsilon) if !(MIN_EPSILON..2.0).contains(&epsilon) => {
            let must_be = "at least 1e-6 (phi is f32) and below 2 (kernel values and their estimates \
                           are between -1 and 1)";
            Err(Refusal::setting("epsilon", must_be, epsilon).into())
        }
        _ if settings.data.as_ref().map(Input::source) == Some(Source::Stream) => {
            let what = "a stream can be read only once, and the length scale is chosen before the \
                        errors are measured";
            Err(Refusal::request(what, "pass ⟨data⟩ FILE").into())
        }
        _ => Ok(()),
    }
}

/// Names `--max-output-dim` in an error about the largest dimension tried.
fn name_the_flag(error: Error, goal: Goal) -> Error {
    use veridical_features::Error::Param;
    match (error, goal) {
        (Error::Features(Param { name: "output_dim", must_be, got }), Goal::Epsilon(_)) => {
            Refusal::setting("max-output-dim", must_be, got).into()
        }
        (error, _) => error,
    }
}

/// Returns the set that the uniform bounds cover, or the reason why there is none.
fn domain(
    spec: &FeatureSpec,
    normalization: Normalization,
    sample: Option<&Sample>,
) -> std::result::Result<Domain, String> {
    let kernel = spec.kernel();
    let second_moment = kernel.second_moment(spec.input_dim(), spec.length_scale());
    let second_moment = second_moment.ok_or_else(|| {
        format!("no bound: the directions of {} have an infinite second moment", kernel.name())
    })?;
    let diameter = match (normalization, sample) {
        (Normalization::Unit, _) => 2.0,
        (_, Some(sample)) => sample.diameter,
        (_, None) => return Err("needs the diameter of the rows: pass ⟨data⟩ FILE".into()),
    };
    Ok(Domain { input_dim: spec.input_dim(), second_moment, diameter })
}

impl Answer {
    fn new(method: &'static str, label: &'static str, bounds: String) -> Self {
        Self {
            method,
            bounds,
            label,
            epsilon: None,
            directions: None,
            output_dim: None,
            bytes_per_row: None,
            gb_per_100m_rows: None,
            why_not: None,
        }
    }

    fn with(mut self, epsilon: f64, directions: f64) -> Self {
        let bytes = 2.0 * directions * size_of::<f32>() as f64;
        self.epsilon = Some(epsilon);
        // An integer below 2^63, since epsilon is at least 1e-6.
        self.directions = Some(directions as u64);
        self.output_dim = Some(2 * directions as u64);
        self.bytes_per_row = Some(bytes as u64);
        self.gb_per_100m_rows = Some(bytes * MANY_ROWS / 1e9);
        self
    }

    fn without(mut self, why_not: String) -> Self {
        self.why_not = Some(why_not);
        self
    }
}

/// Returns the theoretical answers: uniform, one pair, alignment, in this order.
fn theory(
    spec: &FeatureSpec,
    domain: std::result::Result<Domain, String>,
    settings: &Plan,
    goal: Goal,
) -> Vec<Answer> {
    let confidence = settings.confidence;
    let uniform =
        Answer::new("uniform", "worst case, not for sizing", "every pair at once".to_owned());
    let pair = Answer::new(
        "pair",
        "normal approximation",
        "one pair, at the worst distance, iid directions".to_owned(),
    );
    let alignment = |rows: Option<f64>| {
        let rows = rows.map(|n| format!(", from {n:.0} labeled rows on")).unwrap_or_default();
        let bounds = format!("change of kernel-label alignment (paper 000, prop. 4){rows}");
        Answer::new("alignment", "order only", bounds)
    };
    let worst = spec.kernel().worst_variance();
    let m = spec.n_directions();
    let pair = match goal {
        Goal::Epsilon(epsilon) => {
            pair.with(epsilon, plan::pair_directions(epsilon, confidence, worst))
        }
        Goal::OutputDim(_) => pair.with(plan::pair_epsilon(m, confidence, worst), m as f64),
    };
    let domain = match domain {
        Ok(domain) => domain,
        Err(why) => return vec![uniform.without(why.clone()), pair, alignment(None).without(why)],
    };
    match goal {
        Goal::Epsilon(epsilon) => {
            let (directions, rows) = domain.alignment_directions(epsilon, confidence);
            let uniform = uniform.with(epsilon, domain.uniform_directions(epsilon, confidence));
            vec![uniform, pair, alignment(Some(rows)).with(epsilon, directions)]
        }
        Goal::OutputDim(_) => {
            let epsilon = domain.alignment_epsilon(m, confidence);
            let uniform = uniform.with(domain.uniform_epsilon(m, confidence), m as f64);
            vec![uniform, pair, alignment(None).with(epsilon, m as f64)]
        }
    }
}

/// One of the two measured bounds.
#[derive(Clone, Copy)]
struct Bound {
    method: &'static str,
    what: &'static str,
    /// Short form of `what`, for the reason why there is no answer.
    short: &'static str,
    of: fn(&Measured) -> f64,
    /// Bound for this number of pairs if all errors were 0.
    least: fn(usize, f64) -> f64,
}

const MEAN: Bound = Bound {
    method: "measured-mean",
    what: "mean absolute error over pairs",
    short: "the mean",
    of: |measured| measured.mean_bound,
    least: |n_pairs, confidence| Measured::of(&vec![0.0; n_pairs], confidence).mean_bound,
};
const BY_QUANTILE: Bound = Bound {
    method: "measured-quantile",
    what: "absolute error of 95 % of the pairs",
    short: "the 95 % quantile",
    of: |measured| measured.quantile_bound,
    least: |_, _| 0.0,
};

impl Bound {
    fn answer(self) -> Answer {
        let label =
            if self.method == BY_QUANTILE.method { "recommended" } else { "measured on your data" };
        Answer::new(self.method, label, format!("{} of your data", self.what))
    }

    fn unmeasured(self) -> Answer {
        self.answer().without("pass ⟨data⟩ FILE to measure it".to_owned())
    }
}

/// Errors of all candidate dimensions on the data.
struct Curve {
    candidates: Vec<usize>,
    measured: Vec<Measured>,
}

impl Curve {
    fn measure(
        spec: &FeatureSpec,
        sample: &Sample,
        settings: &Plan,
    ) -> std::result::Result<Self, veridical_features::Error> {
        let candidates = plan::candidates(spec.n_directions());
        let errors =
            plan::pair_errors(spec, Rows::new(&sample.rows, spec.input_dim())?, &candidates)?;
        let measured = errors.iter().map(|e| Measured::of(e, settings.confidence)).collect();
        Ok(Self { candidates, measured })
    }

    fn answer(&self, settings: &Plan, goal: Goal, bound: Bound) -> Answer {
        let (Some(largest), Some(last)) = (self.candidates.last(), self.measured.last()) else {
            return bound.unmeasured();
        };
        let reached = (bound.of)(last);
        let confidence = settings.confidence;
        let few = |within: &str| {
            let (n, what) = (last.n_pairs, bound.short);
            let what = format!(
                "{n} pairs are too few to bound {what}{within} with confidence {confidence}"
            );
            bound.answer().without(what)
        };
        match goal {
            _ if reached.is_infinite() => few(""),
            Goal::OutputDim(_) => bound.answer().with(reached, *largest as f64),
            // A larger dimension does not help: with so few pairs the bound on the mean adds more than epsilon.
            Goal::Epsilon(epsilon) if (bound.least)(last.n_pairs, confidence) > epsilon => {
                few(&format!(" within {epsilon}"))
            }
            Goal::Epsilon(epsilon) => {
                match plan::smallest(&self.candidates, &self.measured, bound.of, epsilon) {
                    Some(m) => bound.answer().with(epsilon, m as f64),
                    None => bound.answer().without(format!(
                        "not reached: {reached:.4} at D = {}; raise ⟨max-output-dim⟩ or ⟨epsilon⟩",
                        2 * largest
                    )),
                }
            }
        }
    }

    fn points(&self) -> Vec<Point> {
        let point = |(m, measured): (&usize, &Measured)| Point {
            output_dim: 2 * m,
            mean: measured.mean,
            mean_bound: measured.mean_bound,
            quantile_95: measured.quantile,
            quantile_95_bound: Some(measured.quantile_bound).filter(|b| b.is_finite()),
        };
        self.candidates.iter().zip(&self.measured).map(point).collect()
    }
}
