//! Paper 001, stochastic shared embeddings, on MovieLens-1M.

mod figure3;
mod figure4;
mod figure5;
mod table;

use veridical::Result;
use veridical_core::{Seed, Stream};
use veridical_data::{Interactions, Short, Split, SplitOptions, SplitRule, split};

use crate::lab::{Evaluated, Problem};
use crate::movielens::Folder;
use crate::{Experiment, RunOptions};

/// Settings that table 3 and the sweep have in common.
const TOP: Evaluated =
    Evaluated::Ranking(&["precision@1", "precision@5", "precision@10"], &[1, 5, 10]);
const SWEEP: Evaluated = Evaluated::Ranking(&["precision@10", "ndcg@10"], &[10]);

/// How weight decay is meant in all of them.
const DECAY: &str = "weight decay is lambda in lr (e v - lambda u) for the rows of every sample, as in the \
    authors' code: rows are pulled as often as they are used";

pub(super) const TABLE1: Experiment = Experiment {
    id: "001-table1",
    claim: "Paper 001, table 1: on users with fewer than 60 ratings, SSE-Graph and SSE-SE have a lower RMSE than \
        SGD-MF and than ALS with a graph Laplacian",
    rule: "replicated if in all four comparisons the 95 % interval of the difference of RMSE, paired over seeds, \
        lies below 0 and holds the paper's difference; partly if only some of these hold; refuted if none. What \
        only adds biases, or takes genres for the cast, is reported without a claim",
    deviations: &[
        "the paper does not state the split: 20 % of the ratings at random, another split for every seed",
        "the paper states neither dimension nor weight decay here: dim 50 (of figure 3), weight decay and epochs \
         chosen on a tenth of the training ratings for every method; p and rho are the paper's, and chosen beside it",
        "biases and the mean are left out as in the authors' code, and reported with them as well",
        "the graph of movies is the cast in movie-kg-ml1m (at most a few actors of each movie), not IMDb's",
        DECAY,
    ],
    config: include_str!("../../../../experiments/001-table1/config.toml"),
    run: |config, options| {
        let config = table::Config::parse("001-table1", config)?;
        let problem = cold(options)?;
        let share = config.validation;
        let split = |seed| divided(&problem.data, SplitRule::Random(0.2), share, seed);
        table::run(&config, &problem, split, options)
    },
};

pub(super) const TABLE2: Experiment = Experiment {
    id: "001-table2",
    claim: "Paper 001, table 2 (Douban, MovieLens-10M, Netflix): SSE-SE lowers the RMSE of MF more than dropout \
        does, and both together lower it most",
    rule: "replicated if in all four comparisons the 95 % interval of the difference of RMSE, paired over seeds, \
        lies below 0; partly if only in some; refuted if in none. The paper has no numbers for this data",
    deviations: &[
        "the data is the authors' split of MovieLens-1M, which comes with their code, not one of the table's",
        "dim, weight decay, rate and p are those of the authors' README (100, 0.1, 0.01, 0.005; dropout 0.1, rate \
         0.005 with both); epochs chosen on a tenth of the training ratings",
        "dropout leaves coordinates out of the prediction and of the step; the authors' code only out of the step",
        "the first vectors have deviation 0.1; the authors' code begins with 1",
        DECAY,
    ],
    config: include_str!("../../../../experiments/001-table2/config.toml"),
    run: |config, options| {
        let config = table::Config::parse("001-table2", config)?;
        let (data, parts) = Folder::new(options.data).authors(options.quick)?;
        let problem = Problem::new(data, Vec::new(), Evaluated::Rmse);
        table::run(&config, &problem, |seed| validated(&parts, config.validation, seed), options)
    },
};

pub(super) const TABLE3: Experiment = Experiment {
    id: "001-table3",
    claim: "Paper 001, table 3: with 50 ratings of every user to learn from, SSE-SE + BPR has a higher precision \
        at 1, 5 and 10 than BPR and than dropout + BPR",
    rule: "replicated if in all six comparisons the 95 % interval of the difference, paired over seeds, lies above 0 \
        and holds the paper's difference; partly if only some of these hold; refuted if none. Other variants, the \
        baselines and the runs on one split are reported without a claim",
    deviations: &[
        "which 50 ratings of a user are learned from is drawn anew for every seed; `one split` keeps them",
        "epochs (at most 40, as in the authors' script) are chosen on 5 of the 50 ratings of every user; the \
         authors' script prints the test precision after 1, 5, 10, ... 40 epochs",
        "the rate is 0.1 times 0.9 for every epoch done: the default of the program the authors used",
        "the paper does not state the probability of dropout: chosen from 0.05, 0.1 and 0.2",
        "SSE replaces user, chosen and other item; the authors' code leaves the other item (shown beside it)",
        DECAY,
    ],
    config: include_str!("../../../../experiments/001-table3/config.toml"),
    run: |config, options| {
        let config = table::Config::parse("001-table3", config)?;
        let problem = Problem::new(warm(options)?, Vec::new(), TOP);
        let share = config.validation;
        let split = |seed| divided(&problem.data, SplitRule::PerUser(50), share, seed);
        table::run(&config, &problem, split, options)
    },
};

pub(super) const SWEEP_MF: Experiment = Experiment {
    id: "001-sweep-mf",
    claim: "Paper 001, section 3: p and rho are tuning parameters; p = 0.01 is usually reasonable",
    rule: "no verdict: RMSE against p and rho, for the guide",
    deviations: &["the data and the split are those of 001-table1", DECAY],
    config: include_str!("../../../../experiments/001-sweep-mf/config.toml"),
    run: |config, options| {
        let config = table::Config::parse("001-sweep-mf", config)?;
        let problem = cold(options)?;
        let share = config.validation;
        let split = |seed| divided(&problem.data, SplitRule::Random(0.2), share, seed);
        table::run(&config, &problem, split, options)
    },
};

pub(super) const SWEEP_BPR: Experiment = Experiment {
    id: "001-sweep-bpr",
    claim: "Paper 001, section 3: p is a tuning parameter; p = 0.01 is usually reasonable",
    rule: "no verdict: precision and NDCG against p of users and items, for the guide",
    deviations: &["the data and the splits are those of 001-table3", DECAY],
    config: include_str!("../../../../experiments/001-sweep-bpr/config.toml"),
    run: |config, options| {
        let config = table::Config::parse("001-sweep-bpr", config)?;
        let problem = Problem::new(warm(options)?, Vec::new(), SWEEP);
        let share = config.validation;
        let split = |seed| divided(&problem.data, SplitRule::PerUser(50), share, seed);
        table::run(&config, &problem, split, options)
    },
};

pub(super) use self::figure3::FIGURE3;
pub(super) use self::figure4::FIGURE4;
pub(super) use self::figure5::FIGURE5;

fn warm(options: &RunOptions<'_>) -> Result<Interactions> {
    Folder::new(options.data).warm(options.quick)
}

fn cold(options: &RunOptions<'_>) -> Result<Problem> {
    let folder = Folder::new(options.data);
    let data = folder.cold(options.quick)?;
    let graphs = folder.graphs(&data)?;
    Ok(Problem::new(data, graphs, Evaluated::Rmse))
}

fn divided(data: &Interactions, rule: SplitRule, validation: f64, seed: u64) -> Result<Split> {
    let options = SplitOptions { seed: Seed::new(seed)?, validation, short: Short::Drop };
    Ok(split::apply(rule, data, options)?.split)
}

/// A share of the training rows set apart, drawn by the split seed; the test rows stay.
fn validated(parts: &Split, share: f64, seed: u64) -> Result<Split> {
    let stream = Stream::new(Seed::new(seed)?, "reproduce/validation");
    let (validation, train) =
        parts.train.iter().partition(|&&row| stream.at(0, u64::from(row)).uniform(0) < share);
    Ok(Split { train, validation, test: parts.test.clone() })
}
