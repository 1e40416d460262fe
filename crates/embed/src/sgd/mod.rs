//! Stochastic gradient descent over the rows of embedding tables.
//!
//! Deterministic: sequential steps with batch size 1 on one thread; several runs share the cores instead. Hogwild:
//! every thread takes the next block of samples and locks the rows it changes, one at a time (after Recht et al.
//! 2011, whose threads do not lock at all): the order of the steps depends on thread timing, so no two runs are
//! equal.

mod dropout;
mod predict;
mod rows;
pub(crate) mod vector;
mod walk;
mod windows;

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use pulp::{Simd, WithSimd};
use veridical_core::Progress;

pub(crate) use self::dropout::Dropout;
pub(crate) use self::predict::{Desk, add};
use self::rows::Locked;
pub(crate) use self::rows::{Rows, TableRows};
pub(crate) use self::walk::{Position, Scratch, Step, Walk, check_walk};
pub(crate) use self::windows::{Noise, Pieces, neighbors};
use crate::{Error, Mode, Result, Schedule, finite};

/// One pass over the samples of a method.
pub(crate) trait Pass: Sync {
    /// Scratch memory of a thread.
    type Scratch: Send;

    /// Samples between two checks of the progress, the learning rate and interruptions.
    fn block_size(&self) -> u64 {
        4096
    }

    /// Makes the scratch memory of a thread.
    fn scratch(&self) -> Self::Scratch;

    /// Takes the steps of some samples at a learning rate; adds their losses.
    fn block<S: Simd, R: Rows>(
        &self,
        simd: S,
        tables: &mut [R],
        scratch: &mut Self::Scratch,
        samples: Range<u64>,
        rate: f32,
    ) -> LossSum;
}

/// A sum of losses and their number; methods may measure only every few samples.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LossSum {
    pub sum: f64,
    pub count: u64,
}

impl LossSum {
    pub fn add(&mut self, loss: f64) {
        self.sum += loss;
        self.count += 1;
    }

    fn join(&mut self, other: Self) {
        self.sum += other.sum;
        self.count += other.count;
    }

    pub fn mean(self) -> f64 {
        self.sum / self.count.max(1) as f64
    }
}

/// The position of a pass within a training.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub epoch: u32,
    pub epochs: u32,
    pub samples: u64,
    pub lr: f64,
    pub schedule: Schedule,
    pub mode: Mode,
}

impl Plan {
    /// The learning rate at a sample.
    pub fn rate(&self, sample: u64) -> f64 {
        let done = (f64::from(self.epoch) + sample as f64 / self.samples as f64)
            / f64::from(self.epochs.max(1));
        self.schedule.rate(self.lr, done, self.epochs)
    }
}

/// Visits the samples once; returns the mean of the measured losses.
pub(crate) fn pass<P: Pass>(
    pass: &P,
    mut tables: Vec<TableRows<'_>>,
    plan: Plan,
    progress: &Progress,
) -> Result<f64> {
    let size = pass.block_size();
    let blocks = plan.samples.div_ceil(size);
    let one = |block: u64| block * size..((block + 1) * size).min(plan.samples);
    let looked = |samples: &Range<u64>, loss: LossSum| -> Result<()> {
        progress.advance(samples.end - samples.start);
        finite(loss.sum, plan.epoch, plan.rate(samples.start))?;
        Ok(progress.check()?)
    };
    let arch = pulp::Arch::new();
    let mut total = LossSum::default();
    if plan.mode == Mode::Deterministic {
        let mut scratch = pass.scratch();
        for samples in (0..blocks).map(one) {
            let rate = plan.rate(samples.start) as f32;
            let (tables, scratch) = (&mut tables[..], &mut scratch);
            let loss =
                arch.dispatch(Block { pass, tables, scratch, samples: samples.clone(), rate });
            looked(&samples, loss)?;
            total.join(loss);
        }
    } else {
        let locked: Vec<Locked<'_>> = tables.into_iter().map(Locked::new).collect();
        let next = AtomicU64::new(0);
        let outcome = Mutex::new((LossSum::default(), Ok(())));
        let work = || {
            let mut scratch = pass.scratch();
            let mut own = LossSum::default();
            let mut rows: Vec<&Locked<'_>> = locked.iter().collect();
            let mut result = Ok(());
            while result.is_ok() {
                let block = next.fetch_add(1, Ordering::Relaxed);
                if block >= blocks {
                    break;
                }
                let samples = one(block);
                let rate = plan.rate(samples.start) as f32;
                let (tables, scratch) = (&mut rows[..], &mut scratch);
                let loss =
                    arch.dispatch(Block { pass, tables, scratch, samples: samples.clone(), rate });
                result = looked(&samples, loss);
                own.join(loss);
            }
            if result.is_err() {
                next.store(blocks, Ordering::Relaxed); // stops the other threads
            }
            if let Ok(mut all) = outcome.lock() {
                all.0.join(own);
                all.1 = std::mem::replace(&mut all.1, Ok(())).and(result);
            }
        };
        rayon::scope(|scope| {
            (1..rayon::current_num_threads()).for_each(|_| scope.spawn(|_| work()));
            work();
        });
        let outcome: (LossSum, Result<()>) =
            outcome.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        outcome.1?;
        total = outcome.0;
    }
    finite(total.mean(), plan.epoch, plan.rate(0))
}

struct Block<'a, P: Pass, R> {
    pass: &'a P,
    tables: &'a mut [R],
    scratch: &'a mut P::Scratch,
    samples: Range<u64>,
    rate: f32,
}

impl<P: Pass, R: Rows> WithSimd for Block<'_, P, R> {
    type Output = LossSum;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> LossSum {
        self.pass.block(simd, self.tables, self.scratch, self.samples, self.rate)
    }
}

/// Checks the settings that all SGD trainers share.
pub(crate) fn check(dim: usize, lr: f64, weight_decay: f64, dropout: f64) -> Result<()> {
    if dim == 0 {
        return Err(Error::setting("dim", "at least 1", dim));
    }
    if !(lr > 0.0 && lr.is_finite()) {
        return Err(Error::setting("lr", "above 0", lr));
    }
    if !(weight_decay >= 0.0 && weight_decay.is_finite()) {
        return Err(Error::setting("weight-decay", "0 or above", weight_decay));
    }
    if !(0.0..1.0).contains(&dropout) {
        return Err(Error::setting("dropout", "at least 0 and below 1", dropout));
    }
    Ok(())
}
