//! Evaluation of rankings under three protocols, and of predicted ratings.
//!
//! Full         all items except the user's training items (and validation items, when testing) are ranked; with
//!              [`Task::keep_history`] those as well, as RecBole does for sequential models
//! Uniform(n)   every relevant item is ranked among the same n items drawn uniformly without replacement from
//!              those the user has in no part of the split (the protocol of the SASRec paper, Kang & McAuley 2018)
//! Popular(n)   the same, drawn by item counts in training (the protocol of BERT4Rec, Sun et al. 2019)
//!
//! If a user has several relevant items, the sampled protocols rank each alone and average; in the papers there
//! is one. Ties get their expected value over all orders ([`metrics`]). Which items are drawn depends only on
//! the random seed of the evaluation and the user, so all models rank the same candidates.
//!
//! Means and 95 % confidence intervals are over users ([`veridical_core::Estimate`]).

mod candidates;
pub mod metrics;
mod ratings;
mod report;

use rayon::prelude::*;
use veridical_core::stats::Moments;
use veridical_core::{Job, Seed};
use veridical_data::Lists;

use self::candidates::Candidates;
use self::metrics::{Tables, Ties};
pub use self::ratings::{RatingReport, rated, ratings};
pub use self::report::{ByUser, Measure, ProtocolReport, Report, combine};
use crate::score::block_users;
use crate::{Error, Result, Scorer};

/// The candidates that a relevant item is ranked among.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// All items that the user does not have in training.
    Full,
    /// This number of items, drawn uniformly.
    Uniform(usize),
    /// This number of items, drawn by popularity.
    Popular(usize),
}

impl Protocol {
    /// The default protocols, full ranking first.
    pub const ALL: [Self; 3] = [Self::Full, Self::Uniform(100), Self::Popular(100)];
}

impl std::fmt::Display for Protocol {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Full => write!(f, "full"),
            Self::Uniform(n) => write!(f, "uniform-{n}"),
            Self::Popular(n) => write!(f, "popular-{n}"),
        }
    }
}

/// The settings of an evaluation.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The cutoffs k of the top-k metrics.
    pub ks: Vec<usize>,
    /// The protocols, in the order of the report.
    pub protocols: Vec<Protocol>,
    /// The random seed of the sampled protocols.
    pub seed: Seed,
}

/// The items of every user by part of the split: one ascending list per user, without repeats.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    /// The training items: the history of a user, and the popularity of items.
    pub train: &'a Lists,
    /// The history of each user in chronological order, for sequential models.
    pub sequences: Option<&'a Lists>,
    /// Items that are excluded from the candidates as well: the validation items, when testing.
    pub aside: Option<&'a Lists>,
    /// The held-out items to find.
    pub relevant: &'a Lists,
    /// Whether the full protocol ranks the items of the history, too.
    pub keep_history: bool,
}

/// Ranks the candidates of every user with a relevant item and computes the metrics.
///
/// ```
/// use veridical_core::{Job, Seed};
/// use veridical_data::Lists;
/// use veridical_embed::Model;
/// use veridical_embed::evaluate::{Protocol, Settings, Task, ranking};
///
/// // Two users of three items; item 1 of each is held out.
/// let train = Lists::collect(2, [(0, 0), (1, 2)].into_iter());
/// let relevant = Lists::collect(2, [(0, 1), (1, 1)].into_iter());
/// let task = Task {
///     train: &train, sequences: None, aside: None, relevant: &relevant, keep_history: false,
/// };
/// let settings = Settings { ks: vec![1], protocols: vec![Protocol::Full], seed: Seed::new(0)? };
/// let popularity = Model::Popularity(vec![1.0, 2.0, 3.0]);
/// let report = ranking(&*popularity.scorer()?, &task, &settings, &Job::silent())?;
/// // The top item is item 2 for the first user, and item 1 for the second, who already has item 2.
/// assert_eq!(report.get("full", "hit@1").map(|hit| hit.value), Some(0.5));
/// # Ok::<(), veridical_embed::Error>(())
/// ```
///
/// # Errors
/// [`veridical_core::Error::Setting`] for a cutoff of 0, [`veridical_core::Error::Unfit`] when there are no held-out items,
/// when scores are not finite, or when tables and task differ in size; and an interruption by the user.
pub fn ranking(
    scorer: &dyn Scorer,
    task: &Task<'_>,
    settings: &Settings,
    job: &Job<'_>,
) -> Result<Report> {
    Ok(ranking_by_user(scorer, task, settings, job)?.0)
}

/// As [`ranking`], with the metrics of every user under the first protocol, for paired comparisons.
///
/// # Errors
/// The same as [`ranking`].
pub fn ranking_by_user(
    scorer: &dyn Scorer,
    task: &Task<'_>,
    settings: &Settings,
    job: &Job<'_>,
) -> Result<(Report, ByUser)> {
    if let Some(k) = settings.ks.iter().find(|k| **k == 0) {
        return Err(Error::setting("k", "at least 1", k));
    }
    let n_items = scorer.n_items();
    let n_users = task.relevant.len();
    if scorer.n_users().is_some_and(|n| n < n_users) || task.train.len() < n_users {
        return Err(Error::unfit(format!(
            "there are {n_users} users to evaluate, more than user vectors"
        )));
    }
    let users: Vec<u32> = (0..n_users as u32).filter(|&u| !relevant(task, u).is_empty()).collect();
    if users.is_empty() {
        return Err(Error::unfit(
            "no user has a held-out item that is not in training: choose another ⟨split⟩",
        ));
    }
    let largest = [task.train, task.relevant].into_iter().chain(task.aside);
    let largest = largest.filter_map(|lists| lists.values().iter().max()).max();
    if largest.is_some_and(|&i| i as usize >= n_items) {
        return Err(Error::unfit(format!(
            "there are vectors of {n_items} items, fewer than in the data"
        )));
    }
    let candidates = Candidates::new(task.train, n_items, settings.seed);
    let tables = Tables::new(n_items);
    let names = metrics::names(&settings.ks);

    let history = task.sequences.filter(|_| scorer.is_sequential()).unwrap_or(task.train);
    let blocks =
        users.par_chunks(block_users(n_items)).map_init(Scratch::default, |scratch, block| {
            job.check()?;
            let mut moments = vec![Moments::default(); settings.protocols.len() * names.len()];
            let mut by_user = Vec::with_capacity(block.len() * names.len());
            let mut scores = std::mem::take(&mut scratch.scores);
            scores.resize(block.len() * n_items, 0.0);
            scorer.score(block, history, &mut scores);
            for (&user, row) in block.iter().zip(scores.chunks_exact_mut(n_items)) {
                if let Some(i) = row.iter().position(|s| !s.is_finite()) {
                    return Err(not_finite(user, i, row[i]));
                }
                let evaluator =
                    Evaluator { task, settings, candidates: &candidates, tables: &tables };
                evaluator.user(user, row, scratch, &mut moments, &mut by_user);
            }
            scratch.scores = scores;
            Ok((moments, by_user))
        });
    let blocks: Vec<Result<(Vec<Moments>, Vec<f32>)>> = blocks.collect();
    let mut total = vec![Moments::default(); settings.protocols.len() * names.len()];
    let mut values = Vec::with_capacity(users.len() * names.len());
    for block in blocks {
        let (moments, by_user) = block?;
        total.iter_mut().zip(&moments).for_each(|(sum, part)| sum.merge(part));
        values.extend(by_user);
    }
    let report = Report::new(&settings.protocols, &names, &total);
    Ok((report, ByUser { names, values }))
}

fn not_finite(user: u32, item: usize, score: f32) -> Error {
    Error::unfit(format!(
        "the score of item number {item} for user number {user} is {score}: the vectors contain values that are NaN or too large"
    ))
}

/// The relevant items that are candidates.
fn relevant(task: &Task<'_>, user: u32) -> Vec<u32> {
    if task.keep_history {
        return task.relevant.get(user as usize).to_vec();
    }
    let known = |i: &u32| {
        let holds = |lists: &Lists| lists.get(user as usize).binary_search(i).is_ok();
        holds(task.train) || task.aside.is_some_and(holds)
    };
    task.relevant.get(user as usize).iter().copied().filter(|i| !known(i)).collect()
}

/// Scratch memory that a thread reuses between blocks.
#[derive(Default)]
struct Scratch {
    scores: Vec<f32>,
    values: Vec<f64>,
    sum: Vec<f64>,
}

struct Evaluator<'a> {
    task: &'a Task<'a>,
    settings: &'a Settings,
    candidates: &'a Candidates,
    tables: &'a Tables,
}

impl Evaluator<'_> {
    /// Adds the metrics of one user; in `row`, scores of items that are not candidates become minus infinity.
    fn user(
        &self,
        user: u32,
        row: &mut [f32],
        scratch: &mut Scratch,
        moments: &mut [Moments],
        by_user: &mut Vec<f32>,
    ) {
        let Self { task, settings, candidates, tables } = self;
        let relevant = relevant(task, user);
        let of_all = task.keep_history.then(|| (Ties::count(row, &relevant), row.len()));
        let train = task.train.get(user as usize);
        let aside = task.aside.map_or(&[][..], |lists| lists.get(user as usize));
        let mut n_candidates = row.len();
        for &i in train.iter().chain(aside) {
            let score = &mut row[i as usize];
            n_candidates -= usize::from(*score > f32::NEG_INFINITY);
            *score = f32::NEG_INFINITY;
        }
        let ks = &settings.ks;
        let n_metrics = moments.len() / settings.protocols.len();
        for (at, (&protocol, moments)) in
            settings.protocols.iter().zip(moments.chunks_exact_mut(n_metrics)).enumerate()
        {
            let drawn = match protocol {
                Protocol::Full => {
                    match &of_all {
                        Some((ties, n)) => {
                            metrics::measure(ties, *n, ks, tables, &mut scratch.values)
                        }
                        None => {
                            let ties = Ties::count(row, &relevant);
                            metrics::measure(&ties, n_candidates, ks, tables, &mut scratch.values);
                        }
                    }
                    add(moments, &scratch.values);
                    if at == 0 {
                        by_user.extend(scratch.values.iter().map(|&x| x as f32));
                    }
                    continue;
                }
                Protocol::Uniform(n) => candidates.uniform(n, user, row, &relevant),
                Protocol::Popular(n) => candidates.popular(n, user, row, &relevant),
            };
            if drawn.is_empty() {
                if at == 0 {
                    by_user.extend(std::iter::repeat_n(f32::NAN, n_metrics));
                }
                continue;
            }
            scratch.sum.clear();
            scratch.sum.resize(n_metrics, 0.0);
            for &i in &relevant {
                let ties = Ties::of_one(row[i as usize], drawn.iter().map(|&j| row[j as usize]));
                metrics::measure(&ties, drawn.len() + 1, ks, tables, &mut scratch.values);
                scratch.sum.iter_mut().zip(&scratch.values).for_each(|(s, v)| *s += v);
            }
            scratch.sum.iter_mut().for_each(|s| *s /= relevant.len() as f64);
            add(moments, &scratch.sum);
            if at == 0 {
                by_user.extend(scratch.sum.iter().map(|&x| x as f32));
            }
        }
    }
}

/// Adds metrics to their moments; NaN means that a metric is not defined for the user.
fn add(moments: &mut [Moments], values: &[f64]) {
    for (moments, &value) in moments.iter_mut().zip(values) {
        if !value.is_nan() {
            moments.push(value);
        }
    }
}
