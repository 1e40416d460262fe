//! Recommenders that read sequences, on MovieLens-1M.

mod table4;

use super::Experiment;

pub(super) const TABLE4: Experiment = Experiment {
    id: "001-table4",
    claim: "Paper 001, table 4: on MovieLens-1M, replacing inputs and targets of SASRec with probability 0.1 (SSE-SE) \
        raises NDCG@10 from 0.5941 to 0.6200 and the hit rate@10 from 0.8182 to 0.8315, among 100 sampled items",
    rule: "replicated if the 95 % intervals of both differences, paired over seeds, d = 50, lie above 0 and hold the \
        paper's differences 0.0259 and 0.0133; partly if only some of these hold; refuted if none. Full cross entropy, \
        full ranking, d = 100 and the baselines are reported without a claim",
    deviations: &[
        "a third of the timestamps are estimates (ratings 1 to 3 of the first 80 % of time), so the order inside one \
         sitting is partly not the publisher's: values are comparable with published ones only roughly",
        "d = 50, as SASRec's authors have it; the paper's d = 100 is run with one seed",
        "the number of epochs is not stated: the best of every 20 on validation, at most 100 (d = 100: 60), stopping after 40 without a \
         better one, in batches of 64: as many steps as 200 epochs in batches of 128",
        "full cross entropy: the best of every 5 epochs, at most 25, stopping after 10, in batches of 32",
        "weight decay 1e-5 is Adam's squared norm, on the rows that a step touches; dropout 0.1, rate 0.001 and 2 blocks \
         are the paper's",
        "an epoch meets every user once, in place of users drawn with replacement",
        "negatives are no item of the user's training rows; SSE leaves them alone",
    ],
    config: include_str!("../../../../../experiments/001-table4/config.toml"),
    run: table4::run,
};
