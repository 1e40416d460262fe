//! Stochastic gradient descent: g' = g + decay p; without momentum p <- p - lr g'.
//!
//! With momentum mu (Polyak 1964, in the form of Sutskever et al. 2013 that PyTorch uses): b <- mu b + g' with b = 0 before
//! the first step, then p <- p - lr b, or p <- p - lr (g' + mu b) with Nesterov momentum.

use super::{OptimizerSettings, Rule};
use crate::Float;

/// SGD without momentum.
#[derive(Clone, Copy)]
pub(super) struct Sgd<T> {
    lr: T,
    decay: T,
}

impl<T: Float> Sgd<T> {
    pub(super) fn new(settings: &OptimizerSettings, lr: f64) -> Self {
        Self { lr: T::of(lr), decay: T::of(settings.weight_decay()) }
    }
}

impl<T: Float> Rule<T, 0> for Sgd<T> {
    #[inline(always)]
    fn next(self, p: T, g: T, _: [T; 0]) -> (T, [T; 0]) {
        (p - self.lr * (g + self.decay * p), [])
    }
}

/// SGD with momentum.
#[derive(Clone, Copy)]
pub(super) struct Momentum<T> {
    plain: Sgd<T>,
    mu: T,
    /// mu and 1 with Nesterov, 1 and 0 without.
    of_buffer: T,
    of_gradient: T,
}

impl<T: Float> Momentum<T> {
    pub(super) fn new(settings: &OptimizerSettings, lr: f64) -> Self {
        let mu = T::of(settings.momentum);
        let (of_buffer, of_gradient) =
            if settings.nesterov { (mu, T::ONE) } else { (T::ONE, T::ZERO) };
        Self { plain: Sgd::new(settings, lr), mu, of_buffer, of_gradient }
    }
}

impl<T: Float> Rule<T, 1> for Momentum<T> {
    #[inline(always)]
    fn next(self, p: T, g: T, [b]: [T; 1]) -> (T, [T; 1]) {
        let g = g + self.plain.decay * p;
        let b = self.mu * b + g;
        (p - self.plain.lr * (self.of_buffer * b + self.of_gradient * g), [b])
    }
}
