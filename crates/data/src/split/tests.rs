use std::collections::HashSet;

use proptest::prelude::*;

use super::*;
use crate::IdMap;

fn data(user: Vec<u32>, time: Option<Vec<i64>>) -> Interactions {
    let n_users = user.iter().max().map_or(0, |u| *u as usize + 1);
    let item = (0..user.len() as u32).map(|row| row % 7).collect();
    Interactions {
        users: IdMap::numbered(n_users),
        items: IdMap::numbered(7),
        user,
        item,
        rating: None,
        time,
    }
}

fn options(seed: u64, validation: f64, short: Short) -> SplitOptions {
    SplitOptions { seed: Seed::new(seed).unwrap(), validation, short }
}

fn split(rule: &str, data: &Interactions, options: SplitOptions) -> Result<SplitOutcome> {
    apply(rule.parse().unwrap(), data, options)
}

fn uneven(n: u32) -> Vec<u32> {
    (0..n).map(|row| (row * row + row / 3) % 11).collect()
}

#[test]
fn a_random_share_is_exact_and_another_seed_draws_another() {
    let data = data(uneven(1000), None);
    let one = split("random:0.2", &data, options(1, 0.1, Short::Error)).unwrap().split;
    assert_eq!((one.test.len(), one.validation.len(), one.train.len()), (200, 80, 720));
    let other = split("random:0.2", &data, options(2, 0.1, Short::Error)).unwrap().split;
    assert_ne!(one.fingerprint(), other.fingerprint());
    let again = split("random:0.2", &data, options(1, 0.1, Short::Error)).unwrap().split;
    assert_eq!(one.fingerprint(), again.fingerprint());
}

/// Each of 1,000 rows is in a test of 20 % with probability 0.2: over 200 seeds a row is drawn 40 times with
/// standard error sqrt(200 0.2 0.8) = 5.7; six of them allow for the largest of 1,000.
#[test]
fn every_row_is_drawn_equally_often() {
    let data = data(uneven(1000), None);
    let mut drawn = vec![0u32; 1000];
    for seed in 0..200 {
        let test = split("random:0.2", &data, options(seed, 0.0, Short::Error)).unwrap().split.test;
        test.iter().for_each(|&row| drawn[row as usize] += 1);
    }
    assert!(drawn.iter().all(|&n| (f64::from(n) - 40.0).abs() < 34.0), "{drawn:?}");
}

#[test]
fn the_last_one_of_every_user_is_left_by_time_and_then_by_row() {
    // User 0 has times 5, 9, 9: rows 1 and 3 tie and the later row is the last.
    let data = data(vec![0, 0, 1, 0, 1, 2], Some(vec![5, 9, 8, 9, 3, 1]));
    let message = split("loo", &data, options(0, 0.0, Short::Error)).unwrap_err().to_string();
    assert_eq!(
        message,
        "⟨split leave-last-one⟩ needs 2 rows per user, but 1 user have fewer, the first of them `2` \
         with 1; leave such users out with ⟨short-users drop⟩"
            .replace("1 user have", "1 user has")
    );
    let outcome = split("loo", &data, options(0, 0.0, Short::Drop)).unwrap();
    let want = Split { train: vec![0, 1, 4], validation: vec![], test: vec![2, 3] };
    assert_eq!((outcome.split, outcome.dropped_users), (want, 1));
    assert!(outcome.notes.contains(&LEAVE_LAST_ONE_LEAKS.to_owned()), "{:?}", outcome.notes);
    assert!(outcome.notes.contains(&"1 user with fewer than 2 rows left out".to_owned()));
    // With validation a user with two rows gives none, unless short users are left out: user 0 alone has three.
    let enough = self::data(vec![0, 0, 1, 0, 1], Some(vec![5, 9, 8, 9, 3]));
    let outcome = split("loo", &enough, options(0, 0.1, Short::Error)).unwrap();
    let want = Split { train: vec![0, 4], validation: vec![1], test: vec![2, 3] };
    assert_eq!((outcome.split, outcome.dropped_users), (want, 0));
    let note = "validation: 1 of 3 training rows, of 1 user: the last row but one of each";
    assert!(outcome.notes.contains(&note.to_owned()), "{:?}", outcome.notes);
    let outcome = split("loo", &data, options(0, 0.1, Short::Drop)).unwrap();
    let want = Split { train: vec![0], validation: vec![1], test: vec![3] };
    assert_eq!((outcome.split, outcome.dropped_users), (want, 2));
}

#[test]
fn without_times_the_rows_are_the_order_of_time() {
    let data = data(vec![0, 0, 1, 1], None);
    for (rule, test) in [("loo", vec![1, 3]), ("temporal:0.25", vec![3])] {
        let outcome = split(rule, &data, options(0, 0.0, Short::Error)).unwrap();
        assert_eq!(outcome.split.test, test);
        assert!(outcome.notes[0].starts_with("the data has no times"), "{:?}", outcome.notes);
    }
}

#[test]
fn a_temporal_split_holds_out_the_latest() {
    let data = data(vec![0; 10], Some(vec![10, 1, 9, 2, 8, 3, 7, 4, 6, 5]));
    let split = split("temporal:0.2", &data, options(0, 0.25, Short::Error)).unwrap().split;
    let want = Split { train: vec![1, 3, 5, 7, 8, 9], validation: vec![4, 6], test: vec![0, 2] };
    assert_eq!(split, want);
}

#[test]
fn per_user_keeps_the_same_number_of_rows_of_every_user() {
    let user: Vec<u32> = (0..300).map(|row| if row % 3 == 0 { 0 } else { row % 2 + 1 }).collect();
    let data = data(user, None);
    let outcome = split("per-user:50", &data, options(4, 0.1, Short::Error)).unwrap();
    for user in 0..3 {
        let count = |rows: &[u32]| rows.iter().filter(|&&r| data.user[r as usize] == user).count();
        assert_eq!(count(&outcome.split.train), 45);
        assert_eq!(count(&outcome.split.validation), 5);
        assert_eq!(count(&outcome.split.test), 50);
    }
    let message =
        split("per-user:100", &data, options(4, 0.0, Short::Error)).unwrap_err().to_string();
    assert!(message.contains("needs 101 rows per user, but 3 users have fewer"), "{message}");
    let message =
        split("per-user:100", &data, options(4, 0.0, Short::Drop)).unwrap_err().to_string();
    assert!(message.contains("leaves no training rows out of 300 rows"), "{message}");
    let message = split("per-user:1", &data, options(4, 0.5, Short::Drop)).unwrap_err().to_string();
    assert!(message.starts_with("⟨validation⟩ 0.5 leaves no training rows of per-user:1"));
}

#[test]
fn shares_that_leave_nothing_are_refused() {
    let data = data(vec![0, 0], None);
    for validation in [-0.1, 1.0, f64::NAN] {
        let refused = split("none", &data, options(0, validation, Short::Error)).unwrap_err();
        assert!(refused.to_string().starts_with("⟨validation⟩ must be a share from 0 to below 1"));
    }
    let refused = split("random:0.01", &data, options(0, 0.0, Short::Error)).unwrap_err();
    assert!(refused.to_string().contains("leaves no test rows out of 2 rows"), "{refused}");
    let refused = split("none", &data, options(0, 0.1, Short::Error)).unwrap_err();
    assert!(refused.to_string().contains("leaves no validation rows out of 2 rows"), "{refused}");
}

#[test]
fn test_rows_without_training_rows_are_counted() {
    let data = data(vec![0, 0, 0, 1], None);
    let outcome = split("temporal:0.25", &data, options(0, 0.0, Short::Error)).unwrap();
    let want = "1 of 1 test rows have a user or an item without training rows";
    assert_eq!(outcome.notes.last().unwrap(), want);
}

#[test]
fn a_fingerprint_distinguishes_parts() {
    let split = |train: &[u32], test: &[u32]| Split {
        train: train.to_vec(),
        validation: Vec::new(),
        test: test.to_vec(),
    };
    let prints = [split(&[1, 2], &[3]), split(&[1], &[2, 3]), split(&[1, 2, 3], &[])];
    let prints: HashSet<String> = prints.iter().map(Split::fingerprint).collect();
    assert_eq!(prints.len(), 3);
    assert!(prints.iter().all(|print| print.len() == 64));
}

proptest! {
    /// The parts are disjoint and ascending, and together they are all rows but those of dropped users.
    #[test]
    fn parts_divide_the_rows(
        user in prop::collection::vec(0u32..9, 12..200),
        time in prop::collection::vec(-5i64..5, 200),
        rule in prop::sample::select(vec!["none", "random:0.3", "loo", "per-user:2", "temporal:0.3"]),
        validation in prop::sample::select(vec![0.0, 0.3]),
        seed in 0u64..100,
    ) {
        let time = time[..user.len()].to_vec();
        let data = data(user, Some(time));
        let Ok(outcome) = split(rule, &data, options(seed, validation, Short::Drop)) else {
            return Ok(());
        };
        let parts = [&outcome.split.train, &outcome.split.validation, &outcome.split.test];
        for part in parts {
            prop_assert!(part.is_sorted());
        }
        let mut all: Vec<u32> = parts.into_iter().flatten().copied().collect();
        all.sort_unstable();
        prop_assert!(all.windows(2).all(|pair| pair[0] < pair[1]));
        let there: HashSet<u32> = all.iter().map(|&r| data.user[r as usize]).collect();
        let of_those = (0..data.len()).filter(|&r| there.contains(&data.user[r])).count();
        prop_assert_eq!(of_those, all.len());
        let users: HashSet<u32> = data.user.iter().copied().collect();
        prop_assert_eq!(users.len() - there.len(), outcome.dropped_users);
    }
}
