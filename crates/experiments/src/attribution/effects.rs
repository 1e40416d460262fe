//! All effects of training rows on the margins of queries, as `explain` computes them with its defaults.
//!
//! mass        the terms of the kernel GLM on trNTK0 that is fitted to the labels (equation 3)
//! influence   the derivative of the same machine by the weight of a row
//! removal     kernel ridge on trNTK without the row, lambda = 1 times the mean diagonal
//! trak        margins, fisher  gradients of the loss: lambda = 1 times the mean diagonal
//! similarity  trNTK

use veridical::Result;
use veridical_core::{Error as CoreError, Job, Rows, Seed};
use veridical_inspect::attribute::{dual, margins, mass};
use veridical_inspect::labels::one_hot;
use veridical_inspect::surrogate::{FitSettings, Machine, Target, fit};
use veridical_kernels::machine::{Ridge, softmax};
use veridical_kernels::tangent::{Factors, Kind, Plan, Settings};
use veridical_nets::Net;

use super::network::{World, fed, labels};

/// Penalty of ridge, trak and fisher relative to the mean diagonal: the default of `explain`.
const LAMBDA: f64 = 1.0;

/// A kernel of the training rows, and of queries with them.
pub(super) struct Kernels {
    train: Vec<f32>,
    queries: Vec<f32>,
    n: usize,
}

impl Kernels {
    /// Computes a kernel with the labels given to margins and losses.
    pub fn new(
        world: &World,
        net: &Net<f32>,
        kind: Kind,
        [own, asked]: [&[u32]; 2],
        job: &Job<'_>,
    ) -> Result<Self> {
        let job = &job.quiet();
        let (train, queries) = (world.feed(&world.train)?, world.feed(&world.queries)?);
        let (train, queries) = (fed(&train).with_labels(own), fed(&queries).with_labels(asked));
        let plan = Plan::new(net, &train, Some(&queries), &Settings::new(kind))?;
        let train = Factors::take(net, &train, &plan, job)?;
        let queries = Factors::take(net, &queries, &plan, job)?;
        let n = train.len();
        let (own, asked) = (train.gram(None, job)?.values, queries.gram(Some(&train), job)?.values);
        Ok(Self { train: own, queries: asked, n })
    }

    /// The kernel of the training rows only.
    pub fn of_train_alone(
        world: &World,
        net: &Net<f32>,
        kind: Kind,
        job: &Job<'_>,
    ) -> Result<Self> {
        let job = &job.quiet();
        let feed = world.feed(&world.train)?;
        let examples = fed(&feed);
        let plan = Plan::new(net, &examples, None, &Settings::new(kind))?;
        let train = Factors::take(net, &examples, &plan, job)?.gram(None, job)?.values;
        Ok(Self { train, queries: Vec::new(), n: examples.len() })
    }

    pub fn of_train(&self) -> Result<Rows<'_, f32>> {
        Ok(Rows::new(&self.train, self.n)?)
    }

    fn of_queries(&self) -> Result<Rows<'_, f32>> {
        Ok(Rows::new(&self.queries, self.n)?)
    }

    /// The penalty of ridge: so many mean diagonals.
    pub fn lambda(&self) -> f64 {
        let diagonal = (0..self.n).map(|i| f64::from(self.train[i * self.n + i]));
        LAMBDA * diagonal.sum::<f64>() / self.n as f64
    }
}

/// Effects on the margin of the label of every query, queries x rows, in the order of
/// [`Effect::ALL`](veridical_inspect::attribute::Effect::ALL).
pub(super) fn effects(world: &World, net: &Net<f32>, job: &Job<'_>) -> Result<Vec<Vec<f64>>> {
    let classes = world.classes;
    let (y, asked) = (labels(&world.train), labels(&world.queries));
    let logits = world.logits(net, &world.queries, job)?;
    let v = margins(Rows::new(&logits, classes)?, asked);
    let v = Rows::new(&v, classes)?;
    let kernel = |kind| Kernels::new(world, net, kind, [y, asked], job);
    let cosine = kernel(Kind::Trntk)?;
    let targets = one_hot(y, classes)?;
    let ridge =
        Ridge::fit(cosine.of_train()?, Rows::new(&targets, classes)?, cosine.lambda(), None)?;
    let removal = ridge.removal(cosine.of_queries()?, v)?;
    let similarity = cosine.queries.iter().map(|&k| f64::from(k)).collect();
    drop(cosine);
    let trace = kernel(Kind::Trntk0)?;
    let (k, q) = (trace.of_train()?, trace.of_queries()?);
    let target = Target::Labels { labels: y, classes, weights: None };
    let fitted = fit(k, target, &FitSettings::labels(Seed::new(0)?), &job.quiet())?;
    let Machine::Glm(glm) = &fitted.machine else {
        return Err(CoreError::Internal("labels are fitted by a GLM".into()).into());
    };
    let influence = glm.influence(k, q, v, &job.quiet())?;
    let mass = mass(Rows::new(glm.alpha(), classes)?, glm.intercepts(), q, v)?;
    drop(trace);
    let margin = kernel(Kind::Margin)?;
    let own = world.logits(net, &world.train, job)?;
    let doubt: Vec<f64> = own
        .chunks_exact(classes)
        .zip(y)
        .map(|(logits, &y)| 1.0 - softmax(logits, classes)[y as usize])
        .collect();
    let trak = dual(margin.of_train()?, margin.of_queries()?, Some(&doubt), margin.lambda())?;
    drop(margin);
    let loss = kernel(Kind::Loss)?;
    // The gradient of the loss of a query points against its margin, and so do those of training rows: products are positive where more
    // weight on the row raises the margin.
    let fisher = dual(loss.of_train()?, loss.of_queries()?, None, loss.lambda())?;
    // The order of Effect::ALL.
    Ok(vec![mass, removal, influence, trak, fisher, similarity])
}
