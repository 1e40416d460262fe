//! How good scores are: three protocols, side by side.
//!
//! Full         all items except the user's training items (and validation items, when testing) are ranked
//! Uniform(n)   every relevant item is ranked among the same n items drawn uniformly without replacement
//!              from those the user has in no part (the protocol of the SASRec paper, Kang & McAuley 2018)
//! Popular(n)   the same, drawn by how often items occur in training (that of BERT4Rec, Sun et al. 2019)
//!
//! With several relevant items of a user, the sampled protocols rank each alone and average; the papers'
//! case is that of one. Ties get their expected value over all orders ([`metrics`]). Which items are drawn
//! depends on the evaluation's seed and the user alone, so all models meet the same candidates.
//!
//! Means are over users; intervals are at 95 %, over users ([`veridical_core::Estimate`]).

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
pub use self::report::{Measure, ProtocolReport, Report, combine};
use crate::score::block_users;
use crate::{Error, Result, Scorer};

/// Which items a relevant item is ranked among.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// All items the user has not in training.
    Full,
    /// So many items drawn uniformly.
    Uniform(usize),
    /// So many items drawn by popularity.
    Popular(usize),
}

impl Protocol {
    /// Those printed side by side, full ranking first.
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

/// What is measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Lengths of lists.
    pub ks: Vec<usize>,
    /// The protocols, in the order they are reported.
    pub protocols: Vec<Protocol>,
    /// Of the sampled protocols.
    pub seed: Seed,
}

/// The items of every user by their part: one list per user, ascending, without repeats.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    /// Learnt from: the history of a user, and the popularity of items.
    pub train: &'a Lists,
    /// What is known of each user in the order of time, for models that read it so.
    pub sequences: Option<&'a Lists>,
    /// Kept out of the candidates as well: validation items, when testing.
    pub aside: Option<&'a Lists>,
    /// To be found.
    pub relevant: &'a Lists,
}

/// Ranks the items of every user who has a relevant one.
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
/// let task = Task { train: &train, sequences: None, aside: None, relevant: &relevant };
/// let settings = Settings { ks: vec![1], protocols: vec![Protocol::Full], seed: Seed::new(0)? };
/// let popularity = Model::Popularity(vec![1.0, 2.0, 3.0]);
/// let report = ranking(&*popularity.scorer()?, &task, &settings, &Job::silent())?;
/// // The first user is offered item 2, the second one has it already and is offered item 1.
/// assert_eq!(report.get("full", "hit@1").map(|hit| hit.value), Some(0.5));
/// # Ok::<(), veridical_embed::Error>(())
/// ```
///
/// # Errors
/// [`veridical_core::Error::Setting`] for a list of length 0, [`veridical_core::Error::Unfit`] when there is nothing to judge, when scores
/// are no numbers, or when tables have other sizes than the task; and when the user interrupts.
pub fn ranking(
    scorer: &dyn Scorer,
    task: &Task<'_>,
    settings: &Settings,
    job: &Job<'_>,
) -> Result<Report> {
    if let Some(k) = settings.ks.iter().find(|k| **k == 0) {
        return Err(Error::setting("k", "at least 1", k));
    }
    let n_items = scorer.n_items();
    let n_users = task.relevant.len();
    if scorer.n_users().is_some_and(|n| n < n_users) || task.train.len() < n_users {
        return Err(Error::unfit(format!("there are {n_users} users to judge, more than vectors")));
    }
    let users: Vec<u32> = (0..n_users as u32).filter(|&u| !relevant(task, u).is_empty()).collect();
    if users.is_empty() {
        return Err(Error::unfit(
            "no user has an item that is kept back and not in training: choose another ⟨split⟩",
        ));
    }
    let largest = [task.train, task.relevant].into_iter().chain(task.aside);
    let largest = largest.filter_map(|lists| lists.values().iter().max()).max();
    if largest.is_some_and(|&i| i as usize >= n_items) {
        return Err(Error::unfit(format!(
            "there are vectors of {n_items} items, fewer than the data has"
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
            let mut scores = std::mem::take(&mut scratch.scores);
            scores.resize(block.len() * n_items, 0.0);
            scorer.score(block, history, &mut scores);
            for (&user, row) in block.iter().zip(scores.chunks_exact_mut(n_items)) {
                if let Some(i) = row.iter().position(|s| !s.is_finite()) {
                    return Err(not_finite(user, i, row[i]));
                }
                let judge = Judge { task, settings, candidates: &candidates, tables: &tables };
                judge.user(user, row, scratch, &mut moments);
            }
            scratch.scores = scores;
            Ok(moments)
        });
    let blocks: Vec<Result<Vec<Moments>>> = blocks.collect();
    let mut total = vec![Moments::default(); settings.protocols.len() * names.len()];
    for block in blocks {
        total.iter_mut().zip(&block?).for_each(|(sum, part)| sum.merge(part));
    }
    Ok(Report::new(&settings.protocols, &names, &total))
}

fn not_finite(user: u32, item: usize, score: f32) -> Error {
    Error::unfit(format!(
        "the score of item number {item} for user number {user} is {score}: the vectors hold values that are no numbers or too large"
    ))
}

/// The items to be found that are candidates at all.
fn relevant(task: &Task<'_>, user: u32) -> Vec<u32> {
    let known = |i: &u32| {
        let holds = |lists: &Lists| lists.get(user as usize).binary_search(i).is_ok();
        holds(task.train) || task.aside.is_some_and(holds)
    };
    task.relevant.get(user as usize).iter().copied().filter(|i| !known(i)).collect()
}

/// What a thread keeps from one block to the next.
#[derive(Default)]
struct Scratch {
    scores: Vec<f32>,
    values: Vec<f64>,
    sum: Vec<f64>,
}

struct Judge<'a> {
    task: &'a Task<'a>,
    settings: &'a Settings,
    candidates: &'a Candidates,
    tables: &'a Tables,
}

impl Judge<'_> {
    /// Adds the measures of one user; `row` loses the scores of what is no candidate.
    fn user(&self, user: u32, row: &mut [f32], scratch: &mut Scratch, moments: &mut [Moments]) {
        let Self { task, settings, candidates, tables } = self;
        let relevant = relevant(task, user);
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
        for (&protocol, moments) in
            settings.protocols.iter().zip(moments.chunks_exact_mut(n_metrics))
        {
            let drawn = match protocol {
                Protocol::Full => {
                    let ties = Ties::count(row, &relevant);
                    metrics::measure(&ties, n_candidates, ks, tables, &mut scratch.values);
                    add(moments, &scratch.values);
                    continue;
                }
                Protocol::Uniform(n) => candidates.uniform(n, user, row, &relevant),
                Protocol::Popular(n) => candidates.popular(n, user, row, &relevant),
            };
            if drawn.is_empty() {
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
        }
    }
}

/// NaN stands for a measure that is not defined for a user.
fn add(moments: &mut [Moments], values: &[f64]) {
    for (moments, &value) in moments.iter_mut().zip(values) {
        if !value.is_nan() {
            moments.push(value);
        }
    }
}
