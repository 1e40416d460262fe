//! Learning rate schedules: a factor per step, which multiplies the learning rate.
//!
//! With a warm-up of w steps, factor(k) = (k + 1) / w for the steps k < w (Goyal et al. 2017, section 2.2); after it the curve
//! starts with t = k - w:
//!
//! - constant: 1
//! - step: factor^floor(t / every)
//! - cosine: (1 + cos(pi t / T)) / 2 with T = total - w, 0 from t = T on (Loshchilov & Hutter 2017, eq. 5, without restarts)
//!
//! As PyTorch's StepLR and CosineAnnealingLR, stepped once per step of the optimizer.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use veridical_core::settings::{Kind, Setting};

use crate::{Error, Result};

/// Shape of a learning rate schedule: written `constant`, `step:EVERY,FACTOR` or `cosine`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Curve {
    /// Constant learning rate.
    #[default]
    Constant,
    /// Learning rate that is multiplied by `factor` after every `every` steps.
    Step {
        /// Number of steps, or of epochs for [`Curve::in_epochs`].
        every: u64,
        /// Factor of each decay.
        factor: f64,
    },
    /// Cosine decay from 1 to 0.
    Cosine,
}

impl Setting for Curve {
    const KIND: Kind = Kind::Text;
}

impl Curve {
    /// Converts a curve whose `every` counts epochs of `steps` steps to steps.
    pub fn in_epochs(self, steps: u64) -> Self {
        match self {
            Curve::Step { every, factor } => {
                Curve::Step { every: every.saturating_mul(steps), factor }
            }
            other => other,
        }
    }
}

impl FromStr for Curve {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = |why: &str| {
            Error::request(format!(
                "schedule {text:?}: {why}; it must be constant, cosine, or step:EVERY,FACTOR as in step:30,0.1"
            ))
        };
        match text.split_once(':') {
            None if text == "constant" => Ok(Curve::Constant),
            None if text == "cosine" => Ok(Curve::Cosine),
            Some(("step", numbers)) => {
                let (every, factor) =
                    numbers.split_once(',').ok_or_else(|| bad("step needs two numbers"))?;
                let every = every.trim().parse::<u64>().ok().filter(|e| *e > 0);
                let every = every.ok_or_else(|| bad("EVERY must be a whole number above 0"))?;
                let factor = factor.trim().parse::<f64>().ok().filter(|f| *f > 0.0 && *f <= 1.0);
                let factor = factor.ok_or_else(|| bad("FACTOR must be above 0 and at most 1"))?;
                Ok(Curve::Step { every, factor })
            }
            _ => Err(bad("unknown schedule")),
        }
    }
}

impl fmt::Display for Curve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Curve::Constant => f.write_str("constant"),
            Curve::Step { every, factor } => write!(f, "step:{every},{factor}"),
            Curve::Cosine => f.write_str("cosine"),
        }
    }
}

impl TryFrom<String> for Curve {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Curve> for String {
    fn from(curve: Curve) -> Self {
        curve.to_string()
    }
}

/// A learning rate schedule: a curve with its warm-up and length, in steps.
///
/// ```
/// use veridical_nets::{Curve, Schedule};
///
/// let schedule = Schedule { curve: Curve::Cosine, warmup: 2, total: 10 };
/// assert_eq!(schedule.factor(0), 0.5); // the warm-up reaches 1 after two steps
/// assert!((schedule.factor(6) - 0.5).abs() < 1e-12); // halfway through the decay
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// Curve after the warm-up.
    pub curve: Curve,
    /// Number of steps in which the learning rate rises linearly.
    pub warmup: u64,
    /// Number of steps of the whole training, warm-up included.
    pub total: u64,
}

impl Schedule {
    /// Returns the factor of the learning rate at `step`, counted from 0.
    pub fn factor(&self, step: u64) -> f64 {
        if step < self.warmup {
            return (step + 1) as f64 / self.warmup as f64;
        }
        let t = step - self.warmup;
        match self.curve {
            Curve::Constant => 1.0,
            Curve::Step { every, factor } => factor.powf((t / every.max(1)) as f64),
            Curve::Cosine => {
                let length = self.total.saturating_sub(self.warmup);
                if t >= length {
                    return 0.0;
                }
                (1.0 + (std::f64::consts::PI * (t as f64 / length as f64)).cos()) / 2.0
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warm_up_goes_in_front_of_any_curve() {
        let of = |curve: &str, warmup, total| {
            let schedule = Schedule { curve: curve.parse().unwrap(), warmup, total };
            (0..total).map(|k| schedule.factor(k)).collect::<Vec<_>>()
        };
        assert_eq!(of("constant", 4, 6), [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]);
        assert_eq!(of("step:2,0.5", 0, 6), [1.0, 1.0, 0.5, 0.5, 0.25, 0.25]);
        assert_eq!(of("step:2,0.5", 1, 6), [1.0, 1.0, 1.0, 0.5, 0.5, 0.25]);
        // cos(pi/3) = 1/2; a few roundings of numbers near 1.
        let cosine = of("cosine", 2, 8);
        assert_eq!(cosine[..3], [0.5, 1.0, 1.0]);
        for (k, want) in [(4, 0.75), (5, 0.5), (6, 0.25)] {
            assert!((cosine[k] - want).abs() < 4.0 * f64::EPSILON);
        }
        assert_eq!(Schedule { curve: Curve::Cosine, warmup: 2, total: 8 }.factor(8), 0.0);
        let epochs = "step:2,0.5".parse::<Curve>().unwrap().in_epochs(10);
        assert_eq!(epochs, Curve::Step { every: 20, factor: 0.5 });
    }

    #[test]
    fn text_and_back() {
        for text in ["constant", "cosine", "step:30,0.1"] {
            let curve: Curve = text.parse().unwrap();
            assert_eq!(curve.to_string(), text);
            let json = serde_json::to_string(&curve).unwrap();
            assert_eq!(json, format!("{text:?}"));
            assert_eq!(serde_json::from_str::<Curve>(&json).unwrap(), curve);
        }
        for (text, why) in [
            ("linear", "unknown schedule"),
            ("step", "unknown schedule"),
            ("step:30", "step needs two numbers"),
            ("step:0,0.1", "EVERY must be a whole number above 0"),
            ("step:3,-1", "FACTOR must be above 0 and at most 1"),
            ("step:3,nan", "FACTOR must be above 0 and at most 1"),
        ] {
            let message = text.parse::<Curve>().unwrap_err().to_string();
            assert!(
                message.starts_with(&format!("schedule {text:?}: {why}; it must be")),
                "{message}"
            );
        }
    }
}
