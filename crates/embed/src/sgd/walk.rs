//! One pass over sequences of tokens; the method defines the step at a position.

use std::ops::Range;

use pulp::Simd;
use veridical_core::{Draws, Order, Seed, Stream};

use super::{Desk, Dropout, LossSum, Noise, Pass, Pieces, Rows, neighbors};
use crate::sse::{Mover, Moves};
use crate::{Error, Result};

/// The loss is measured at every `MEASURED`-th position.
const MEASURED: usize = 16;

/// The step of a method at a position; `N` tables have transitions.
pub(crate) trait Step<const N: usize>: Sync {
    /// Updates the rows of a position; returns its loss if measured.
    fn step<S: Simd, R: Rows>(
        &self,
        simd: S,
        tables: &mut [R],
        scratch: &mut Scratch,
        movers: &mut [Mover<'_>; N],
        here: Position<'_>,
    ) -> Option<f64>;
}

/// One token in its sequence.
pub(crate) struct Position<'a> {
    /// The number of the sequence.
    pub sequence: u32,
    /// The token at the position.
    pub token: u32,
    /// The random draws of this position.
    pub draws: Draws,
    /// Whether to measure the loss.
    pub is_measured: bool,
    pub rate: f32,
    kept: &'a [(u32, usize)],
    position: usize,
}

impl Position<'_> {
    /// The tokens at most b away, b uniform in 1 .. window.
    #[inline(always)]
    pub fn neighbors(&mut self, window: usize) -> impl Iterator<Item = u32> {
        let reach = 1 + self.draws.below(window as u32) as usize;
        neighbors(self.kept, self.position, reach).map(|&(token, _)| token)
    }
}

/// Scratch memory of a thread.
pub(crate) struct Scratch {
    pub desk: Desk,
    /// The rows behind the inputs.
    pub inputs: Vec<u32>,
    mask: Vec<f32>,
    kept: Vec<(u32, usize)>,
}

impl Scratch {
    /// Applies dropout to the inputs, if any.
    #[inline(always)]
    pub fn drop_out(&mut self, dropout: Option<Dropout>, draws: &mut Draws) {
        if let Some(dropout) = dropout {
            dropout.fill(&mut self.mask, draws);
            self.desk.mask(&self.mask);
        }
    }
}

/// The walk of one epoch.
pub(crate) struct Walk<'a, P, const N: usize> {
    pub step: P,
    tokens: &'a [u32],
    pieces: &'a Pieces,
    noise: &'a Noise,
    sse: &'a Moves<'a, N>,
    dim: usize,
    epoch: u32,
    order: Order,
    stream: Stream,
    keep: Stream,
}

impl<'a, P, const N: usize> Walk<'a, P, N> {
    /// The random streams are named after the method.
    #[expect(clippy::too_many_arguments, reason = "a walk is all of these")]
    pub fn new(
        method: &str,
        seed: Seed,
        epoch: u32,
        tokens: &'a [u32],
        pieces: &'a Pieces,
        noise: &'a Noise,
        sse: &'a Moves<'a, N>,
        dim: usize,
        step: P,
    ) -> Self {
        let stream = |purpose: &str| Stream::new(seed, &format!("{method}/{purpose}"));
        Self {
            step,
            tokens,
            pieces,
            noise,
            sse,
            dim,
            epoch,
            order: Order::new(pieces.len(), seed, &format!("{method}/order"), epoch),
            stream: stream("position"),
            keep: stream("keep"),
        }
    }

    /// Calls `act` at every position of some samples; `kept` is scratch memory.
    #[inline(always)]
    pub fn positions(
        &self,
        samples: Range<u64>,
        rate: f32,
        kept: &mut Vec<(u32, usize)>,
        mut act: impl FnMut(&mut [Mover<'a>; N], Position<'_>),
    ) {
        let mut movers = self.sse.movers(self.epoch, samples.start);
        for t in samples {
            let (sequence, tokens) = self.pieces.get(self.order.at(t));
            self.noise.thin(self.tokens, tokens, self.keep, self.epoch, kept);
            for (position, &(token, at)) in kept.iter().enumerate() {
                let draws = self.stream.at(self.epoch, at as u64).draws();
                let is_measured = at % MEASURED == 0;
                let kept = &kept[..];
                let here = Position { sequence, token, draws, is_measured, rate, kept, position };
                act(&mut movers, here);
            }
        }
    }
}

impl<P: Step<N>, const N: usize> Pass for Walk<'_, P, N> {
    type Scratch = Scratch;

    fn block_size(&self) -> u64 {
        self.pieces.block_size()
    }

    fn scratch(&self) -> Scratch {
        let mask = vec![1.0; self.dim];
        Scratch { desk: Desk::new(self.dim), inputs: Vec::new(), mask, kept: Vec::new() }
    }

    #[inline(always)]
    fn block<S: Simd, R: Rows>(
        &self,
        simd: S,
        tables: &mut [R],
        scratch: &mut Scratch,
        samples: Range<u64>,
        rate: f32,
    ) -> LossSum {
        let mut loss = LossSum::default();
        let mut kept = std::mem::take(&mut scratch.kept);
        self.positions(
            samples,
            rate,
            &mut kept,
            #[inline(always)]
            |movers, here| {
                if let Some(measured) = self.step.step(simd, tables, scratch, movers, here) {
                    loss.add(measured);
                }
            },
        );
        scratch.kept = kept;
        loss
    }
}

/// Checks the settings that all walks share; `tokens` is the noun for the `n` tokens in messages.
pub(crate) fn check_walk(window: usize, negatives: usize, n: usize, tokens: &str) -> Result<()> {
    if window == 0 {
        return Err(Error::setting("window", "at least 1", window));
    }
    if negatives == 0 || negatives >= n {
        let must_be = format!("at least 1 and below the number of {tokens}, {n}");
        return Err(Error::setting("negatives", must_be, negatives));
    }
    Ok(())
}
