//! Early stopping: when training ends before its last epoch.
//!
//! A metric is watched, and it has improved if its gain g over a reference is large enough:
//!
//! g = reference - value if lower is better, value - reference if higher is
//!
//! | against | the reference is | improved if |
//! |---|---|---|
//! | `Best` | the value of the last improvement | g > min_delta |
//! | `Previous` | the preceding value, whatever it was | g >= min_delta |
//!
//! After `patience` epochs without an improvement training ends. The first value has no reference and counts as an
//! improvement; a later value that is NaN never does.

/// Which direction of a metric is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Lower is better: losses and errors.
    Lower,
    /// Higher is better: accuracies and ranking metrics.
    Higher,
}

/// The reference that a value is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Against {
    /// The value of the last improvement.
    Best,
    /// The preceding value.
    Previous,
}

/// The rule of early stopping.
///
/// ```
/// use veridical_core::stopping::{Against, Better, EarlyStopping, Waiting};
///
/// let rule = EarlyStopping { better: Better::Higher, against: Against::Best, min_delta: 0.0, patience: 2 };
/// let mut waiting = Waiting::default();
/// let mut epochs = 0;
/// for accuracy in [0.6, 0.8, 0.7, 0.75, 0.9] {
///     epochs += 1;
///     waiting.see(&rule, accuracy, 1);
///     if rule.is_over(waiting.waited) {
///         break;
///     }
/// }
/// assert_eq!((epochs, waiting.mark), (4, Some(0.8)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EarlyStopping {
    /// Which direction of the metric is better.
    pub better: Better,
    /// The reference that a value is compared with.
    pub against: Against,
    /// The smallest gain that counts as an improvement.
    pub min_delta: f64,
    /// The number of epochs without an improvement after which training ends.
    pub patience: u32,
}

impl EarlyStopping {
    /// Stops after `patience` epochs without a value better than the best so far.
    pub const fn patience(better: Better, patience: u32) -> Self {
        Self { better, against: Against::Best, min_delta: 0.0, patience }
    }

    /// Returns whether a value improves on the reference.
    pub fn improves(&self, value: f64, on: Option<f64>) -> bool {
        let Some(reference) = on else { return true };
        let gain = match self.better {
            Better::Lower => reference - value,
            Better::Higher => value - reference,
        };
        match self.against {
            Against::Best => gain > self.min_delta,
            Against::Previous => gain >= self.min_delta,
        }
    }

    /// Returns whether training ends after `waited` epochs without an improvement.
    pub const fn is_over(&self, waited: u32) -> bool {
        waited >= self.patience
    }
}

/// The state of early stopping between two values.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Waiting {
    /// The reference value.
    pub mark: Option<f64>,
    /// The number of epochs since the last improvement.
    pub waited: u32,
}

impl Waiting {
    /// Records the value after `epochs` more epochs, and returns whether it is an improvement.
    pub fn see(&mut self, rule: &EarlyStopping, value: f64, epochs: u32) -> bool {
        let improves = rule.improves(value, self.mark);
        self.waited = if improves { 0 } else { self.waited + epochs };
        if improves || rule.against == Against::Previous {
            self.mark = Some(value);
        }
        improves
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epochs_of(rule: EarlyStopping, values: &[f64]) -> (usize, Waiting) {
        let mut waiting = Waiting::default();
        for (at, &value) in values.iter().enumerate() {
            waiting.see(&rule, value, 1);
            if rule.is_over(waiting.waited) {
                return (at + 1, waiting);
            }
        }
        (values.len(), waiting)
    }

    #[test]
    fn small_steps_against_the_best_add_up() {
        let values = [1.0, 0.96, 0.92, 0.88];
        let best = EarlyStopping {
            better: Better::Lower,
            against: Against::Best,
            min_delta: 0.05,
            patience: 2,
        };
        assert_eq!(epochs_of(best, &values), (4, Waiting { mark: Some(0.92), waited: 1 }));
        let previous = EarlyStopping { against: Against::Previous, ..best };
        assert_eq!(epochs_of(previous, &values), (3, Waiting { mark: Some(0.92), waited: 2 }));
    }

    #[test]
    fn a_gain_of_exactly_min_delta_counts_against_the_previous_value_alone() {
        let rule = EarlyStopping::patience(Better::Lower, 1);
        assert_eq!(epochs_of(rule, &[1.0, 1.0, 1.0]).0, 2);
        let rule = EarlyStopping { against: Against::Previous, ..rule };
        assert_eq!(epochs_of(rule, &[1.0, 1.0, 1.0]).0, 3);
    }

    #[test]
    fn a_value_that_is_nan_is_not_an_improvement() {
        let rule = EarlyStopping::patience(Better::Higher, 2);
        assert_eq!(epochs_of(rule, &[0.1, f64::NAN, f64::NAN, 0.2]).0, 3);
    }
}
