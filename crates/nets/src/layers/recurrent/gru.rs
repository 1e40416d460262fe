//! Gated recurrent unit (Cho et al. 2014), in PyTorch's form: the reset gate is applied after the product.
//!
//! r = sigmoid(p_r + q_r)        z = sigmoid(p_z + q_z)
//! n = tanh(p_n + r q_n)         h' = n + z (h - n)
//!
//! With d = dL/dh': delta_n = d (1 - z)(1 - n^2), delta_z = d (h - n) z (1 - z), delta_r = delta_n q_n r (1 - r);
//! epsilon is (delta_r, delta_z, delta_n r), and d z is passed on to h.

use super::Cell;
use crate::Float;
use crate::elementary::{sigmoid, tanh};

/// Cell of a GRU: gates r, z, n.
#[derive(Clone, Debug)]
pub struct GruCell;

/// Splits a row into r, z and the third gate.
#[inline(always)]
fn thirds<T>(row: &mut [T]) -> [&mut [T]; 3] {
    let h = row.len() / 3;
    let (r, rest) = row.split_at_mut(h);
    let (z, n) = rest.split_at_mut(h);
    [r, z, n]
}

impl Cell for GruCell {
    const GATES: usize = 3;
    const HAS_MEMORY: bool = false;
    const NAME: &'static str = "gru";

    #[inline(always)]
    fn step<T: Float>(p: &[T], q: &mut [T], h: &mut [T], _: &mut [T]) {
        let (both, new) = p.split_at(2 * h.len());
        q.iter_mut().zip(both).for_each(|(q, &p)| *q = sigmoid(*q + p));
        let [r, z, n] = thirds(q);
        for ((n, &r), &p) in n.iter_mut().zip(&*r).zip(new) {
            *n = tanh(p + r * *n);
        }
        for ((h, &z), &n) in h.iter_mut().zip(&*z).zip(&*n) {
            *h = n + z * (*h - n);
        }
    }

    #[inline(always)]
    fn recall<T: Float>(p: &mut [T], q: &mut [T], before: &[T], _: &mut [T]) {
        let (both, new) = p.split_at_mut(2 * before.len());
        both.iter_mut().zip(&*q).for_each(|(p, &q)| *p = sigmoid(*p + q));
        let [_, _, q] = thirds(q);
        for ((p, &q), &r) in new.iter_mut().zip(&*q).zip(&*both) {
            *p = tanh(*p + r * q);
        }
    }

    #[inline(always)]
    fn back<T: Float>(p: &mut [T], q: &mut [T], before: &[T], dh: &mut [T], _: &mut [T]) {
        let len = before.len();
        let ([r, z, n], [er, ez, en]) = (thirds(p), thirds(q));
        let (r, z, n) = (&mut r[..len], &mut z[..len], &mut n[..len]);
        let (er, ez, en, dh) = (&mut er[..len], &mut ez[..len], &mut en[..len], &mut dh[..len]);
        for k in 0..len {
            let (rk, zk, nk, d) = (r[k], z[k], n[k], dh[k]);
            let dn = d * (T::ONE - zk) * (T::ONE - nk * nk);
            let dz = d * (before[k] - nk) * zk * (T::ONE - zk);
            let dr = dn * en[k] * rk * (T::ONE - rk);
            (r[k], z[k], n[k]) = (dr, dz, dn);
            (er[k], ez[k], en[k]) = (dr, dz, dn * rk);
            dh[k] = d * zk;
        }
    }
}
