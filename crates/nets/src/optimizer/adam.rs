//! Adam (Kingma & Ba 2015, algorithm 1) and AdamW (Loshchilov & Hutter 2019, algorithm 2).
//!
//! In step t: m <- m + (1 - beta1)(g' - m), v <- beta2 v + (1 - beta2) g'^2,
//!
//! p <- s p - lr/(1 - beta1^t) m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
//!
//! Adam: g' = g + decay p and s = 1. AdamW: g' = g and s = 1 - lr decay.

use super::{Kind, OptimizerSettings, Rule};
use crate::Float;

/// Constants of one step.
#[derive(Clone, Copy)]
pub(super) struct Adam<T> {
    decay: T,
    shrink: T,
    new_m: T,
    beta2: T,
    new_v: T,
    step: T,
    unbias: T,
    eps: T,
}

impl<T: Float> Adam<T> {
    pub(super) fn new(s: &OptimizerSettings, lr: f64, t: u64) -> Self {
        let decay = s.weight_decay();
        let (inside, outside) =
            if s.kind == Kind::Adamw { (0.0, 1.0 - lr * decay) } else { (decay, 1.0) };
        let missing = |beta: f64| 1.0 - beta.powf(t as f64);
        Self {
            decay: T::of(inside),
            shrink: T::of(outside),
            new_m: T::of(1.0 - s.beta1),
            beta2: T::of(s.beta2),
            new_v: T::of(1.0 - s.beta2),
            step: T::of(lr / missing(s.beta1)),
            unbias: T::of(1.0 / missing(s.beta2).sqrt()),
            eps: T::of(s.eps()),
        }
    }
}

impl<T: Float> Rule<T, 2> for Adam<T> {
    #[inline(always)]
    fn next(self, p: T, g: T, [m, v]: [T; 2]) -> (T, [T; 2]) {
        let g = g + self.decay * p;
        let m = m + self.new_m * (g - m);
        let v = self.beta2 * v + self.new_v * (g * g);
        let p = self.shrink * p - self.step * (m / (v.sqrt() * self.unbias + self.eps));
        (p, [m, v])
    }
}
