//! AdaGrad (Duchi, Hazan & Singer 2011, eq. 1 with the diagonal): g' = g + decay p, s <- s + g'^2,
//!
//! p <- p - lr g' / (sqrt(s) + eps)

use super::{OptimizerSettings, Rule};
use crate::Float;

/// Constants of one step.
#[derive(Clone, Copy)]
pub(super) struct Adagrad<T> {
    lr: T,
    decay: T,
    eps: T,
}

impl<T: Float> Adagrad<T> {
    pub(super) fn new(s: &OptimizerSettings, lr: f64) -> Self {
        Self { lr: T::of(lr), decay: T::of(s.weight_decay()), eps: T::of(s.eps()) }
    }
}

impl<T: Float> Rule<T, 1> for Adagrad<T> {
    #[inline(always)]
    fn next(self, p: T, g: T, [s]: [T; 1]) -> (T, [T; 1]) {
        let g = g + self.decay * p;
        let s = s + g * g;
        (p - self.lr * (g / (s.sqrt() + self.eps)), [s])
    }
}
