//! Gradients of recurrent layers, and which rows depend on which.

use super::*;
use crate::Mode;
use crate::testing::{Trial, normals};

const ALL: [Direction; 3] = [Direction::Forward, Direction::Backward, Direction::Both];

#[test]
fn gradients_are_right() {
    for direction in ALL {
        for (d, h) in [(3, 2), (2, 5), (1, 1)] {
            let lengths = [3, 1, 6, 6, 2, 1, 4];
            let gru = Gru::new(d, h, direction);
            Trial::of_sequences(&gru, Shape::row(d), &lengths, Mode::Training).check();
            let lstm = Lstm::new(d, h, direction);
            Trial::of_sequences(&lstm, Shape::row(d), &lengths, Mode::Frozen).check();
        }
        // Whole tiles and a remainder.
        let gru = Gru::new(4, 17, direction);
        Trial::of_sequences(&gru, Shape::row(4), &[2, 3, 2, 1, 3], Mode::Training).check();
        let lstm = Lstm::new(4, 17, direction);
        Trial::of_sequences(&lstm, Shape::row(4), &[2, 3, 2, 1, 3], Mode::Training).check();
    }
}

/// y with row `changed` of the only sequence replaced.
fn outputs(layer: &dyn Layer<f64>, changed: Option<usize>) -> Vec<f64> {
    let mut trial = Trial::of_sequences(layer, Shape::row(3), &[6], Mode::Frozen);
    if let Some(row) = changed {
        trial.x[row * 3..][..3].copy_from_slice(&normals(3, "changed"));
    }
    trial.forward().0
}

#[test]
fn a_row_sees_what_came_before_it_alone() {
    for layer in
        [&Gru::new(3, 4, Direction::Both) as &dyn Layer<f64>, &Lstm::new(3, 4, Direction::Both)]
    {
        let y = outputs(layer, None);
        let other = outputs(layer, Some(2));
        for row in 0..6 {
            let differs = |first: usize| {
                let at = row * 8 + first..row * 8 + first + 4;
                y[at.clone()].iter().zip(&other[at]).all(|(a, b)| a != b)
            };
            let same = |first: usize| {
                let at = row * 8 + first..row * 8 + first + 4;
                y[at.clone()] == other[at]
            };
            assert!(if row < 2 { same(0) } else { differs(0) }, "forward, row {row}");
            assert!(if row > 2 { same(4) } else { differs(4) }, "backward, row {row}");
        }
    }
}

/// Running forward along the reversed sequence equals running backward along the sequence.
#[test]
fn directions_mirror_each_other() {
    let (along, against) =
        (Lstm::new(3, 4, Direction::Forward), Lstm::new(3, 4, Direction::Backward));
    let mut a = Trial::of_sequences(&along, Shape::row(3), &[7], Mode::Frozen);
    let b = Trial::of_sequences(&against, Shape::row(3), &[7], Mode::Frozen);
    a.x = b.x.chunks_exact(3).rev().flatten().copied().collect();
    let turned: Vec<f64> = a.forward().0.chunks_exact(4).rev().flatten().copied().collect();
    assert_eq!(turned, b.forward().0);
}

#[test]
fn other_rows_are_refused() {
    let error = Layer::<f32>::output(&Gru::new(3, 4, Direction::Both), Shape::row(2)).unwrap_err();
    assert!(
        error.to_string().contains("expects rows of 3 values for 4 hidden units, got"),
        "{error}"
    );
}
