//! Splits interactions into training, validation and test rows.
//!
//! Every row has a priority, the first draw of `split/test` at the row's number, so a split depends on the
//! data and the split seed alone:
//!
//! random:s         the round(s n) rows of lowest priority are the test set
//! per-user:k       of every user the k rows of lowest priority are the training set, the others are the test set
//! leave-last-one   the last row of every user in the order of (time, row) is the test set
//! temporal:s       the last round(s n) of all rows in that order are the test set
//!
//! Validation rows are taken from the training rows in the same way: by priority (drawn
//! from `split/validation`), the same number for every user, the second-to-last row of every user, or the latest. Under
//! `leave-last-one` a user with two rows gives no validation row, unless users with too few rows are left out.

mod rule;

use veridical_core::{Seed, Stream, choices};

pub use self::rule::SplitRule;
use crate::{Error, Interactions, Lists, Result};

/// The caveat of `leave-last-one`, for reports.
pub const LEAVE_LAST_ONE_LEAKS: &str = "leave-last-one leaks time across users: the model learns from what other users did after a user's last row; \
     `temporal` does not";

/// The rows of each part of a split, ascending.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Split {
    /// The training rows.
    pub train: Vec<u32>,
    /// Held-out rows for model selection and early stopping; may be empty.
    pub validation: Vec<u32>,
    /// Held-out rows for the final evaluation; may be empty.
    pub test: Vec<u32>,
}

impl Split {
    /// Returns the BLAKE3 hash of the three lists, in hex: splits with the same fingerprint are identical.
    pub fn fingerprint(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        for rows in [&self.train, &self.validation, &self.test] {
            hasher.update(&(rows.len() as u64).to_le_bytes());
            for block in rows.chunks(1 << 14) {
                let bytes: Vec<u8> = block.iter().flat_map(|row| row.to_le_bytes()).collect();
                hasher.update(&bytes);
            }
        }
        hasher.finalize().to_hex().to_string()
    }
}

choices! {
    /// What to do with users that have too few rows for the rule.
    pub enum Short {
        /// Stop with an error
        Error = "error",
        /// Leave them out
        Drop = "drop",
    }
}

/// How a split rule is applied.
#[derive(Clone, Copy, Debug)]
pub struct SplitOptions {
    /// The split seed.
    pub seed: Seed,
    /// The share of the training rows that is held out for validation; 0 for none.
    pub validation: f64,
    /// What to do with users that have too few rows.
    pub short: Short,
}

/// A split and the notes on it.
#[derive(Clone, Debug, PartialEq)]
pub struct SplitOutcome {
    /// The rows of each part.
    pub split: Split,
    /// The number of users with too few rows, which are in no part.
    pub dropped_users: usize,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// Splits interactions by a rule.
///
/// ```
/// use veridical_core::Seed;
/// use veridical_data::generate::{ShopSettings, shop};
/// use veridical_data::split::{Short, SplitOptions, apply};
///
/// let seed = Seed::new(1)?;
/// let shop = shop(ShopSettings { users: 20, items: 30, clusters: 2, per_user: 5, skew: 1.0, noise: 0.1, seed })?;
/// let options = SplitOptions { seed, validation: 0.0, short: Short::Error };
/// let split = apply("random:0.2".parse()?, &shop.data, options)?.split;
/// assert_eq!((split.train.len(), split.test.len()), (80, 20));
/// # Ok::<(), veridical_core::Error>(())
/// ```
///
/// # Errors
/// [`Error`] for a validation share outside [0, 1), for a part that would be empty, and under
/// [`Short::Error`] for users with too few rows.
pub fn apply(rule: SplitRule, data: &Interactions, options: SplitOptions) -> Result<SplitOutcome> {
    let share = options.validation;
    if !(0.0..1.0).contains(&share) {
        return Err(Error::setting("validation", "a share from 0 to below 1", share));
    }
    let rows = 0..u32::try_from(data.len())
        .map_err(|_| Error::unfit("there are more than 2^32 - 1 interactions", ""))?;
    let mut outcome = SplitOutcome { split: Split::default(), dropped_users: 0, notes: Vec::new() };
    match rule {
        SplitRule::None | SplitRule::Random(_) => {
            let kept_back = if let SplitRule::Random(share) = rule { share } else { 0.0 };
            let (test, rest) = lowest(rows, kept_back, Stream::new(options.seed, "split/test"));
            let stream = Stream::new(options.seed, "split/validation");
            let (validation, train) = lowest(rest.into_iter(), share, stream);
            outcome.split = Split { train, validation, test };
        }
        SplitRule::Temporal(kept_back) => {
            note_missing_times(data, &mut outcome.notes);
            let mut train = in_time(data, rows.collect());
            let test = train.split_off(train.len() - part(train.len(), kept_back));
            let validation = train.split_off(train.len() - part(train.len(), share));
            outcome.split = Split { train, validation, test };
        }
        SplitRule::LeaveLastOne => {
            note_missing_times(data, &mut outcome.notes);
            outcome.notes.push(LEAVE_LAST_ONE_LEAKS.into());
            let rows = in_time(data, rows.collect());
            let most = usize::from(share > 0.0);
            let needs = match options.short {
                Short::Error => 2,
                Short::Drop => 2 + most,
            };
            by_user(rule, data, &rows, options.short, &mut outcome, needs, |n| {
                [most.min(n - 2), 1]
            })?;
        }
        SplitRule::PerUser(k) => {
            let kept =
                if share > 0.0 { (share * k as f64).round().clamp(1.0, k as f64) } else { 0.0 };
            let kept = kept as usize;
            if kept == k {
                let what = format!("⟨validation⟩ {share} leaves no training rows of {rule}");
                return Err(Error::request(what, "choose a smaller share or more rows"));
            }
            let rows = by_priority(rows, Stream::new(options.seed, "split/test"));
            let needs = k.saturating_add(1);
            by_user(rule, data, &rows, options.short, &mut outcome, needs, |n| [kept, n - k])?;
        }
    }
    for part in [&mut outcome.split.train, &mut outcome.split.validation, &mut outcome.split.test] {
        part.sort_unstable();
    }
    check_parts(rule, share, data, &outcome.split)?;
    note_validation(rule, data, &outcome.split, &mut outcome.notes);
    note_cold(data, &outcome.split, &mut outcome.notes);
    Ok(outcome)
}

/// Splits the list of every user with as many rows as it `needs`, in the order of `rows`, into training, validation and test rows;
/// the sizes of the last two for a user of n rows are `sizes(n)`.
fn by_user(
    rule: SplitRule,
    data: &Interactions,
    rows: &[u32],
    short: Short,
    outcome: &mut SplitOutcome,
    needs: usize,
    sizes: impl Fn(usize) -> [usize; 2],
) -> Result<()> {
    let lists = Lists::collect(data.users.len(), rows.iter().map(|&r| (data.user[r as usize], r)));
    let is_short = |list: &[u32]| !list.is_empty() && list.len() < needs;
    outcome.dropped_users = lists.iter().filter(|list| is_short(list)).count();
    if let (Short::Error, Some(user)) = (short, lists.iter().position(is_short)) {
        let (n, id) = (lists.get(user).len(), data.users.id(user as u32));
        let have = if outcome.dropped_users == 1 { "has" } else { "have" };
        let what = format!(
            "⟨split {rule}⟩ needs {needs} rows per user, but {} {have} fewer, the first of them `{id}` with {n}",
            users(outcome.dropped_users),
        );
        return Err(Error::unfit(what, "leave such users out with ⟨short-users drop⟩"));
    }
    for list in lists.iter().filter(|list| list.len() >= needs) {
        let [validation, test] = sizes(list.len());
        let (rest, last) = list.split_at(list.len() - test);
        let (train, middle) = rest.split_at(rest.len() - validation);
        outcome.split.train.extend_from_slice(train);
        outcome.split.validation.extend_from_slice(middle);
        outcome.split.test.extend_from_slice(last);
    }
    if outcome.dropped_users > 0 {
        let dropped = users(outcome.dropped_users);
        outcome.notes.push(format!("{dropped} with fewer than {needs} rows left out"));
    }
    Ok(())
}

fn users(n: usize) -> String {
    format!("{n} {}", if n == 1 { "user" } else { "users" })
}

/// round(share n).
fn part(n: usize, share: f64) -> usize {
    (share * n as f64).round() as usize
}

fn priority(stream: Stream, row: u32) -> (u64, u32) {
    (stream.at(0, u64::from(row)).integer(0), row)
}

/// The share of rows with the lowest priority, and the rest.
fn lowest(rows: impl Iterator<Item = u32>, share: f64, stream: Stream) -> (Vec<u32>, Vec<u32>) {
    if share == 0.0 {
        return (Vec::new(), rows.collect());
    }
    let mut drawn: Vec<(u64, u32)> = rows.map(|row| priority(stream, row)).collect();
    let n = part(drawn.len(), share);
    if n > 0 && n < drawn.len() {
        drawn.select_nth_unstable(n);
    }
    let rows = |drawn: &[(u64, u32)]| drawn.iter().map(|&(_, row)| row).collect();
    (rows(&drawn[..n]), rows(&drawn[n..]))
}

fn by_priority(rows: impl Iterator<Item = u32>, stream: Stream) -> Vec<u32> {
    let mut drawn: Vec<(u64, u32)> = rows.map(|row| priority(stream, row)).collect();
    drawn.sort_unstable();
    drawn.into_iter().map(|(_, row)| row).collect()
}

/// The rows by time, then by number.
fn in_time(data: &Interactions, mut rows: Vec<u32>) -> Vec<u32> {
    if let Some(time) = &data.time {
        rows.sort_unstable_by_key(|&row| (time[row as usize], row));
    }
    rows
}

fn note_missing_times(data: &Interactions, notes: &mut Vec<String>) {
    if data.time.is_none() {
        notes.push("the data has no times: rows are assumed to be in chronological order".into());
    }
}

/// Says whose rows validation takes.
fn note_validation(rule: SplitRule, data: &Interactions, split: &Split, notes: &mut Vec<String>) {
    let Split { train, validation, .. } = split;
    if validation.is_empty() {
        return;
    }
    let mut has_rows = vec![false; data.users.len()];
    validation.iter().for_each(|&row| has_rows[data.user[row as usize] as usize] = true);
    let of = users(has_rows.into_iter().filter(|has| *has).count());
    let which = match rule {
        SplitRule::LeaveLastOne => "the last row but one of each",
        SplitRule::Temporal(_) => "the latest rows that are not test rows",
        SplitRule::PerUser(_) => "as many of each, drawn at random",
        SplitRule::None | SplitRule::Random(_) => "drawn at random",
    };
    let (n, all) = (validation.len(), validation.len() + train.len());
    notes.push(format!("validation: {n} of {all} training rows, of {of}: {which}"));
}

fn check_parts(rule: SplitRule, share: f64, data: &Interactions, split: &Split) -> Result<()> {
    let empty = match split {
        Split { train, .. } if train.is_empty() => "no training rows",
        Split { test, .. } if test.is_empty() && rule != SplitRule::None => "no test rows",
        Split { validation, .. } if validation.is_empty() && share > 0.0 => "no validation rows",
        _ => return Ok(()),
    };
    let rows = data.len();
    let what =
        format!("⟨split⟩ {rule} with ⟨validation⟩ {share} leaves {empty} out of {rows} rows");
    Err(Error::request(what, "choose another rule or another share"))
}

/// Notes the test rows of users or items that have no training rows.
fn note_cold(data: &Interactions, split: &Split, notes: &mut Vec<String>) {
    let (mut users, mut items) = (vec![false; data.users.len()], vec![false; data.items.len()]);
    for &row in &split.train {
        users[data.user[row as usize] as usize] = true;
        items[data.item[row as usize] as usize] = true;
    }
    let is_cold = |row: &&u32| {
        let row = **row as usize;
        !users[data.user[row] as usize] || !items[data.item[row] as usize]
    };
    let cold = split.test.iter().filter(is_cold).count();
    if cold > 0 {
        let (all, rest) = (split.test.len(), "have a user or an item without training rows");
        notes.push(format!("{cold} of {all} test rows {rest}"));
    }
}

#[cfg(test)]
mod tests;
