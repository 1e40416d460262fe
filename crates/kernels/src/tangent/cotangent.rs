//! Which function of the outputs the gradients are of: one cotangent v for each, scaled so that a kernel is the plain sum over its
//! cotangents.
//!
//! | kernel | cotangents |
//! |---|---|
//! | eNTK, trNTK0, trNTK | e_1, .., e_C |
//! | pNTK | 1 / sqrt(C) |
//! | random trNTK | s_r / sqrt(m), r = 1..m, with signs s_r of a stream, the same for all samples |
//! | difference | e_a - e_b |
//! | margin | e_y - p' with p' the softmax over the other classes: the gradient of f_y - logsumexp_{c != y} f_c |
//! | loss | p - e_y: the gradient of the cross-entropy, of one output p = sigmoid(f) |
//! | items | sum_c w_c E_c, for scores h . E_c of a tied table |

use std::ops::Range;

use veridical_core::{Error, Seed, Stream};
use veridical_nets::Float;

use super::{Examples, Kind};
use crate::Result;

/// The cotangents of a kernel on a network with C outputs.
#[derive(Clone, Debug)]
pub(super) struct Cotangents {
    kind: Kind,
    outputs: usize,
    seed: Seed,
}

impl Cotangents {
    pub fn new(kind: &Kind, outputs: usize, seed: Seed) -> Result<Self> {
        let rule = format!("below the number of outputs {outputs}");
        match *kind {
            Kind::RandomTrntk(0) | Kind::Items(0) => {
                let name = if matches!(kind, Kind::Items(_)) { "items" } else { "rand-trntk" };
                return Err(Error::setting(name, "at least 1", 0).into());
            }
            Kind::Difference(a, b) if a.max(b) >= outputs || a == b => {
                let rule = format!("two different outputs {rule}");
                return Err(Error::setting("difference", rule, format!("{a} and {b}")).into());
            }
            Kind::Margin if outputs == 1 => {
                let hint = "choose the loss, or pNTK";
                return Err(Error::request("a network with one output has no margin", hint).into());
            }
            _ => {}
        }
        Ok(Self { kind: kind.clone(), outputs, seed })
    }

    /// The number of cotangents m.
    pub fn count(&self) -> usize {
        match self.kind {
            Kind::Entk | Kind::Trntk0 | Kind::Trntk => self.outputs,
            Kind::RandomTrntk(m) | Kind::Items(m) => m,
            _ => 1,
        }
    }

    /// Writes cotangent `number` of a batch with the given outputs.
    pub fn write<T: Float>(
        &self,
        number: usize,
        examples: &Examples<'_, T>,
        batch: Range<usize>,
        f: &[T],
        v: &mut Vec<T>,
    ) {
        let width = self.outputs;
        v.clear();
        v.resize(batch.len() * width, T::ZERO);
        let rows = v.chunks_exact_mut(width).zip(f.chunks_exact(width)).zip(batch);
        match self.kind {
            Kind::Entk | Kind::Trntk0 | Kind::Trntk => {
                rows.for_each(|((v, _), _)| v[number] = T::ONE);
            }
            Kind::RandomTrntk(m) => {
                let (place, scale) = (self.signs().at(0, number as u64), 1.0 / (m as f64).sqrt());
                for ((v, _), _) in rows {
                    for (c, v) in (0..).zip(v) {
                        *v = T::of(if place.uniform(c) < 0.5 { -scale } else { scale });
                    }
                }
            }
            Kind::Difference(a, b) => rows.for_each(|((v, _), _)| {
                v[a] = T::ONE;
                v[b] = -T::ONE;
            }),
            Kind::Margin | Kind::Loss => {
                for ((v, f), i) in rows {
                    let label =
                        examples.labels.as_ref().map_or_else(|| predicted(f), |y| y[i] as usize);
                    match self.kind {
                        Kind::Margin => margin(f, label, v),
                        _ => loss(f, label, v),
                    }
                }
            }
            Kind::Items(_) => {
                let Some(tied) = &examples.tied else { return };
                for ((v, _), i) in rows {
                    for (item, weight) in (tied.items)(i, number) {
                        let row = &tied.table[item as usize * width..][..width];
                        v.iter_mut().zip(row).for_each(|(v, &e)| *v += weight * e);
                    }
                }
            }
            Kind::Pntk | Kind::Ck | Kind::CkCosine | Kind::Em => {
                v.fill(T::of(1.0 / (width as f64).sqrt()));
            }
        }
    }

    fn signs(&self) -> Stream {
        Stream::new(self.seed, "cotangents")
    }
}

fn predicted<T: Float>(f: &[T]) -> usize {
    match f {
        [f] => usize::from(*f > T::ZERO),
        _ => (1..f.len()).fold(0, |best, c| if f[c] > f[best] { c } else { best }),
    }
}

/// Writes the softmax of all outputs but one, which gets 0.
fn softmax<T: Float>(f: &[T], without: Option<usize>, p: &mut [T]) {
    let others = || f.iter().enumerate().filter(|(c, _)| Some(*c) != without);
    let most = others().fold(f64::NEG_INFINITY, |m, (_, f)| m.max(f.wide()));
    let sum: f64 = others().map(|(_, f)| (f.wide() - most).exp()).sum();
    for (c, f) in others() {
        p[c] = T::of((f.wide() - most).exp() / sum);
    }
}

fn margin<T: Float>(f: &[T], label: usize, v: &mut [T]) {
    softmax(f, Some(label), v);
    v.iter_mut().for_each(|v| *v = -*v);
    v[label] = T::ONE;
}

fn loss<T: Float>(f: &[T], label: usize, v: &mut [T]) {
    if let [f] = f {
        v[0] = T::of(1.0 / (1.0 + (-f.wide()).exp()) - label as f64);
        return;
    }
    softmax(f, None, v);
    v[label] -= T::ONE;
}
