//! Which queries rest on suspect training rows: a query is flagged when at least 3 of its 5 most similar training rows are suspects
//! (paper 004, section 1.5).
//!
//! If suspects were any share pi of the rows, a query would be flagged with probability sum_(j >= 3) C(5, j) pi^j (1 - pi)^(5 - j), 0.0086
//! for pi = 0.1, and the number of flagged queries would be binomial: p is the probability of at least as many.

use serde::Serialize;
use veridical_core::distributions::binomial_cdf;
use veridical_core::{Error, Estimate, Result, Rows};
use veridical_learn::top_k;

use crate::surrogate::at_least;

/// The rule of the vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct VoteSettings {
    /// The number of nearest rows that vote.
    pub nearest: usize,
    /// The number of suspects among them that flags a query.
    pub needed: usize,
}

impl Default for VoteSettings {
    fn default() -> Self {
        Self { nearest: 5, needed: 3 }
    }
}

/// The queries that rest on suspects.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VoteCheck {
    /// The rule.
    pub rule: VoteSettings,
    /// The number of suspects among the nearest rows of every query.
    pub votes: Vec<u32>,
    /// The flagged queries.
    pub flagged: Vec<u32>,
    /// The share of flagged queries.
    pub flagged_share: Estimate,
    /// The probability that chance flags a query.
    pub chance: f64,
    /// The number of flagged queries that chance stays within, 95 % of the time.
    pub chance_range: [u64; 2],
    /// The probability that chance flags at least as many.
    pub p_value: f64,
    /// The share of flagged queries that are truly bad, if that is known.
    pub precision: Option<Estimate>,
    /// The share of truly bad queries that are flagged, if that is known.
    pub recall: Option<Estimate>,
}

/// Flags queries by their kernel values with the training rows; `truly_bad` says which queries are known to be bad.
///
/// # Errors
/// [`Error::Unfit`] if suspects are out of range, twice there, none or all rows; [`Error::Setting`] for a rule that cannot be met;
/// [`Error::Shape`] if the truth does not have one value per query.
pub fn check(
    queries: Rows<'_, f32>,
    suspects: &[u32],
    truly_bad: Option<&[bool]>,
    rule: VoteSettings,
) -> Result<VoteCheck> {
    let (q, n) = (queries.n(), queries.dim());
    let is_suspect = checked(suspects, n)?;
    if rule.needed == 0 || rule.needed > rule.nearest || rule.nearest > n {
        let got = format!("{} of {}", rule.needed, rule.nearest);
        return Err(Error::setting("votes", format!("from 1 to the nearest rows, of {n}"), got));
    }
    if let Some(truth) = truly_bad.filter(|truth| truth.len() != q) {
        let what = format!("{q} queries were given with the truth of {}", truth.len());
        return Err(Error::shape(what, ""));
    }
    let votes_of = |k: &[f32]| -> u32 {
        let near = top_k((0..).zip(k.iter().copied()), rule.nearest);
        near.iter().map(|near| u32::from(is_suspect[near.number as usize])).sum()
    };
    let votes: Vec<u32> = queries.iter().map(votes_of).collect();
    let is_flagged = |query: usize| votes[query] as usize >= rule.needed;
    let flagged: Vec<u32> = (0..q).filter(|&i| is_flagged(i)).map(|i| i as u32).collect();
    let count = flagged.len() as u64;
    let share = suspects.len() as f64 / n as f64;
    let chance = at_least(rule.needed as u64, rule.nearest as u64, share);
    let reaches = |p: f64| (0..=q as u64).find(|&k| binomial_cdf(k, q as u64, chance) >= p);
    let chance_range = [reaches(0.025), reaches(0.975)].map(|k| k.unwrap_or(q as u64));
    let truth = truly_bad.map(|truth| {
        let hit = flagged.iter().filter(|&&i| truth[i as usize]).count() as u64;
        let bad = truth.iter().filter(|bad| **bad).count() as u64;
        (Estimate::share(hit, count), Estimate::share(hit, bad))
    });
    Ok(VoteCheck {
        rule,
        flagged_share: Estimate::share(count, q as u64),
        chance,
        chance_range,
        p_value: at_least(count, q as u64, chance),
        precision: truth.map(|t| t.0),
        recall: truth.map(|t| t.1),
        votes,
        flagged,
    })
}

fn checked(suspects: &[u32], n: usize) -> Result<Vec<bool>> {
    let mut is_suspect = vec![false; n];
    for &row in suspects {
        let Some(slot) = is_suspect.get_mut(row as usize) else {
            let what = format!("suspect {row} does not exist: there are {n} training rows");
            return Err(Error::unfit(what, "rows are counted from 0"));
        };
        if std::mem::replace(slot, true) {
            return Err(Error::unfit(format!("row {row} is twice among the suspects"), ""));
        }
    }
    match suspects.len() {
        0 => Err(Error::unfit("there are no suspects to check", "")),
        all if all == n => {
            Err(Error::unfit("all training rows are suspects", "then no query can be told apart"))
        }
        _ => Ok(is_suspect),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use veridical_core::{Seed, Stream};

    #[test]
    fn queries_next_to_suspects_are_flagged() {
        // Eight rows, suspects 0, 1, 2; the first query is nearest to them, the second to the others.
        let k = [9.0, 8.0, 7.0, 6.0, 5.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 6.0, 5.0, 7.0, 8.0, 9.0];
        let truth = [true, true];
        let rule = VoteSettings::default();
        let got = check(Rows::new(&k, 8).unwrap(), &[0, 1, 2], Some(&truth), rule).unwrap();
        assert_eq!((got.votes, got.flagged), (vec![3, 0], vec![0]));
        assert_eq!((got.precision.unwrap().value, got.recall.unwrap().value), (1.0, 0.5));
    }

    /// The example of the header, and `scipy.stats.binom` on paper: 10 0.1^3 0.9^2 + 5 0.1^4 0.9 + 0.1^5 = 0.00856.
    #[test]
    fn chance_flags_as_the_formula_says() {
        let k: Vec<f32> = (0..200).map(|i| (i * 37 % 101) as f32).collect();
        let rule = VoteSettings::default();
        let got = check(Rows::new(&k, 20).unwrap(), &[0, 1], None, rule).unwrap();
        assert!((got.chance - 0.00856).abs() < 1e-12 && got.precision.is_none());
        assert_eq!(got.chance_range, [0, 1]);
    }

    /// 200 clean runs of 50 queries with random similarities: flags are inside four binomial errors of their expectation, and the p-value
    /// is below 5 % in at most 5 % + 4 sqrt(0.05 * 0.95 / 200) = 11 % of the runs.
    #[test]
    fn clean_data_are_not_accused() {
        let (n, q, suspects) = (600, 50, 60);
        let stream = Stream::new(Seed::new(8).unwrap(), "test/votes");
        let (mut flagged, mut accused, mut chance) = (0, 0, 0.0);
        for run in 0..200 {
            let mut k = vec![0.0; n * q];
            stream.at(0, run).fill_normals(&mut k);
            let k: Vec<f32> = k.iter().map(|&k| k as f32).collect();
            let rows: Vec<u32> = (0..suspects).map(|i| i * 10).collect();
            let got =
                check(Rows::new(&k, n).unwrap(), &rows, None, VoteSettings::default()).unwrap();
            flagged += got.flagged.len();
            accused += u32::from(got.p_value < 0.05);
            chance = got.chance;
        }
        let all = 200.0 * q as f64;
        let expected = all * chance;
        assert!((flagged as f64 - expected).abs() < 4.0 * (expected * (1.0 - chance)).sqrt());
        assert!(accused <= 22, "{accused} of 200");
    }

    #[test]
    fn suspects_that_cannot_be_are_refused() {
        let k = [0.0f32; 12];
        let k = Rows::new(&k, 6).unwrap();
        let message = |suspects: &[u32]| {
            check(k, suspects, None, VoteSettings::default()).unwrap_err().to_string()
        };
        assert_eq!(message(&[]), "there are no suspects to check");
        assert_eq!(message(&[2, 2]), "row 2 is twice among the suspects");
        assert!(message(&[6]).starts_with("suspect 6 does not exist"));
        assert!(message(&[0, 1, 2, 3, 4, 5]).starts_with("all training rows are suspects"));
        let rule = VoteSettings { nearest: 5, needed: 6 };
        let message = check(k, &[0], None, rule).unwrap_err().to_string();
        assert_eq!(message, "⟨votes⟩ must be from 1 to the nearest rows, of 6, got 6 of 5");
    }
}
