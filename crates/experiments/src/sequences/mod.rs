//! Recommenders that read sequences, on MovieLens-1M.

mod table4;

use crate::Experiment;

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
        "neither batch nor epochs are stated: batches of 32, the best of every 10 epochs on validation, at most 60 (d = 100: 40), stopping \
         after 20 without a better one; as many steps as 240 epochs in the batches of 128 of the common PyTorch code",
        "full cross entropy learns from every item at every position: the best of every 3 epochs, at most 15, stopping after 6",
        "weight decay 1e-5 is Adam's squared norm, on the rows that a step touches; dropout 0.1, rate 0.001 and 2 blocks \
         are the paper's",
        "an epoch meets every user once, in place of users drawn with replacement",
        "negatives are no item of the user's training rows; SSE leaves them alone",
    ],
    config: include_str!("../../../../experiments/001-table4/config.toml"),
    run: table4::run,
};
