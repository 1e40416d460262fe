//! Long short-term memory (Hochreiter & Schmidhuber 1997; forget gate: Gers et al. 2000), in PyTorch's form.
//!
//! With s = p + q:
//! i = sigmoid(s_i)   f = sigmoid(s_f)   g = tanh(s_g)   o = sigmoid(s_o)
//! c' = f c + i g     h' = o tanh c'
//!
//! With d = dL/dh' and e = dL/dc' + d o (1 - tanh^2 c'): delta_o = d tanh c' o (1 - o), delta_i = e g i (1 - i),
//! delta_f = e c f (1 - f), delta_g = e i (1 - g^2); epsilon is delta, and e f is passed on to c.

use super::Cell;
use crate::Float;
use crate::elementary::{sigmoid, tanh};

/// Cell of an LSTM: gates i, f, g, o, and the memory c.
#[derive(Clone, Debug)]
pub struct LstmCell;

/// Splits a row into its gates.
#[inline(always)]
fn quarters<T>(row: &mut [T]) -> [&mut [T]; 4] {
    let h = row.len() / 4;
    let (i, rest) = row.split_at_mut(h);
    let (f, rest) = rest.split_at_mut(h);
    let (g, o) = rest.split_at_mut(h);
    [i, f, g, o]
}

/// Replaces s by the gates.
#[inline(always)]
fn open<T: Float>(s: &mut [T]) {
    let [i, f, g, o] = quarters(s);
    i.iter_mut().for_each(|s| *s = sigmoid(*s));
    f.iter_mut().for_each(|s| *s = sigmoid(*s));
    g.iter_mut().for_each(|s| *s = tanh(*s));
    o.iter_mut().for_each(|s| *s = sigmoid(*s));
}

impl Cell for LstmCell {
    const GATES: usize = 4;
    const HAS_MEMORY: bool = true;
    const NAME: &'static str = "lstm";

    #[inline(always)]
    fn step<T: Float>(p: &[T], q: &mut [T], h: &mut [T], memory: &mut [T]) {
        q.iter_mut().zip(p).for_each(|(q, &p)| *q += p);
        open(q);
        let [i, f, g, o] = quarters(q);
        for (((c, &f), &i), &g) in memory.iter_mut().zip(&*f).zip(&*i).zip(&*g) {
            *c = f * *c + i * g;
        }
        for ((h, &o), &c) in h.iter_mut().zip(&*o).zip(&*memory) {
            *h = o * tanh(c);
        }
    }

    /// Writes the gates to p and tanh c' to the front of q.
    #[inline(always)]
    fn recall<T: Float>(p: &mut [T], q: &mut [T], before: &[T], after: &mut [T]) {
        p.iter_mut().zip(&*q).for_each(|(p, &q)| *p += q);
        open(p);
        let [i, f, g, _] = quarters(p);
        let parts = after.iter_mut().zip(before).zip(&*f).zip(&*i).zip(&*g);
        for ((((after, &c), &f), &i), &g) in parts {
            *after = f * c + i * g;
        }
        q.iter_mut().zip(&*after).for_each(|(q, &c)| *q = tanh(c));
    }

    #[inline(always)]
    fn back<T: Float>(p: &mut [T], q: &mut [T], before: &[T], dh: &mut [T], dmemory: &mut [T]) {
        let len = before.len();
        let [i, f, g, o] = quarters(p);
        let (i, f, g, o) = (&mut i[..len], &mut f[..len], &mut g[..len], &mut o[..len]);
        let (tanh, dh, dc) = (&q[..len], &mut dh[..len], &mut dmemory[..len]);
        for k in 0..len {
            let (ik, fk, gk, ok, d, t) = (i[k], f[k], g[k], o[k], dh[k], tanh[k]);
            let e = dc[k] + d * ok * (T::ONE - t * t);
            i[k] = e * gk * ik * (T::ONE - ik);
            f[k] = e * before[k] * fk * (T::ONE - fk);
            g[k] = e * ik * (T::ONE - gk * gk);
            o[k] = d * t * ok * (T::ONE - ok);
            dc[k] = e * fk;
            dh[k] = T::ZERO;
        }
        q.copy_from_slice(p);
    }
}
