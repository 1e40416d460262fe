use veridical_data::{IdMap, Interactions};

use super::*;
use crate::Transition;

/// User u has items u, u + 1, .. in chronological order, 3 + u % 5 of them.
fn data(users: u32, n_items: u32) -> Interactions {
    let mut data = Interactions {
        users: IdMap::numbered(users as usize),
        items: IdMap::numbered(n_items as usize),
        user: Vec::new(),
        item: Vec::new(),
        rating: None,
        time: None,
    };
    for u in 0..users {
        for k in 0..3 + u % 5 {
            data.user.push(u);
            data.item.push((u + k) % n_items);
        }
    }
    data
}

fn moves(n: usize, input: f64, target: f64) -> Moves<'static, 2> {
    let transition = |p| Transition::new("input", n, p, 1.0, None).unwrap();
    Moves::new(Seed::new(3).unwrap(), [transition(input), transition(target)])
}

fn batches(
    data: &Interactions,
    length: usize,
    negatives: Negatives,
    p: [f64; 2],
) -> Batches<'static> {
    let rows: Vec<u32> = (0..data.len() as u32).collect();
    let sse = moves(data.items.len(), p[0], p[1]);
    Batches::new(data, &rows, length, 16, negatives, sse, Seed::new(1).unwrap()).unwrap()
}

#[test]
fn every_position_predicts_the_next_item_and_every_user_is_met_once() {
    let data = data(50, 60);
    let batches = batches(&data, 4, Negatives::Own(2), [0.0; 2]);
    assert_eq!((batches.users(), batches.len(), batches.cut()), (50, 4, (20, 7)));
    let mut firsts = Vec::new();
    for number in 0..batches.len() {
        let mut batch = Batch::default();
        batches.fill(7, number, &batches.order(7), &mut batch);
        assert_eq!(batch.negatives.len(), 2 * batch.inputs.len());
        for pair in batch.starts.windows(2) {
            let (inputs, targets) =
                (&batch.inputs[pair[0]..pair[1]], &batch.targets[pair[0]..pair[1]]);
            assert!(inputs.len() <= 4 && !inputs.is_empty());
            assert_eq!(inputs[1..], targets[..targets.len() - 1]);
            assert!(inputs.iter().zip(targets).all(|(a, b)| (a + 1) % 60 == *b));
            let last = targets[targets.len() - 1];
            firsts.push(last);
            // What the user has: up to seven items before the last, cyclic.
            for j in &batch.negatives[2 * pair[0]..2 * pair[1]] {
                assert!((last + 60 - j) % 60 > targets.len() as u32 || (last + 60 - j) % 60 >= 3);
            }
        }
    }
    assert_eq!(firsts.len(), 50);
}

/// Of n replacements with probability p, n p +- 5 sqrt(n p (1 - p)) happen: outside with probability 6e-7.
#[test]
fn sse_replaces_inputs_and_targets_as_often_as_it_says() {
    let data = data(2000, 900);
    for p in [[0.1, 0.0], [0.0, 0.3], [0.2, 0.1]] {
        let plain = batches(&data, 50, Negatives::Shared(0), [0.0; 2]);
        let moved = batches(&data, 50, Negatives::Shared(0), p);
        let (mut count, mut changed) = (0, [0, 0]);
        for epoch in 0..5 {
            for number in 0..plain.len() {
                let [mut a, mut b] = [Batch::default(), Batch::default()];
                plain.fill(epoch, number, &plain.order(epoch), &mut a);
                moved.fill(epoch, number, &moved.order(epoch), &mut b);
                assert_eq!(a.starts, b.starts);
                count += a.inputs.len();
                let differ = |a: &[u32], b: &[u32]| a.iter().zip(b).filter(|(a, b)| a != b).count();
                changed[0] += differ(&a.inputs, &b.inputs);
                changed[1] += differ(&a.targets, &b.targets);
            }
        }
        for (changed, p) in changed.into_iter().zip(p) {
            let (n, changed) = (count as f64, changed as f64);
            assert!(
                (changed - n * p).abs() <= 5.0 * (n * p * (1.0 - p)).sqrt(),
                "{changed} {n} {p}"
            );
        }
    }
}

#[test]
fn negatives_follow_popularity() {
    let data = data(400, 10);
    let rows: Vec<u32> = (0..data.len() as u32).filter(|r| data.item[*r as usize] < 3).collect();
    let sse = moves(10, 0.0, 0.0);
    let shared = Negatives::Shared(50);
    let batches = Batches::new(&data, &rows, 9, 16, shared, sse, Seed::new(1).unwrap()).unwrap();
    let batches = batches.by_popularity(1.0);
    let mut batch = Batch::default();
    batches.fill(0, 0, &batches.order(0), &mut batch);
    assert_eq!(batch.negatives.len(), 50);
    assert!(batch.negatives.iter().all(|&j| j < 3), "items that never occur are never drawn");
}

#[test]
fn nobody_with_two_items_is_an_error() {
    let data = data(3, 10);
    let sse = moves(10, 0.0, 0.0);
    let seed = Seed::new(1).unwrap();
    let refused = Batches::new(&data, &[0, 3], 9, 16, Negatives::Own(1), sse, seed).err().unwrap();
    assert!(refused.to_string().contains("no user has two or more items"));
}
