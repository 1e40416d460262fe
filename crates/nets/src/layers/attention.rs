//! Multi-head attention (Vaswani et al. 2017, section 3.2).
//!
//! A row of x is [q k v], each of d values, and head h has c = d/heads of each. Inside a sequence, for each head,
//!
//! s_ij = q_i . k_j / sqrt(c),  p_i = softmax of s_i over the j that row i sees,  o_i = sum_j m_ij p_ij v_j
//!
//! Row i sees the rows up to itself ([`Mask::Causal`]) or all rows of its sequence ([`Mask::None`]); m = 1, or the dropout
//! factors. Backward, with D_i = do_i . o_i:
//!
//! dv_j = sum_i m_ij p_ij do_i,  ds_ij = p_ij (m_ij do_i . v_j - D_i)/sqrt(c),  dq_i = sum_j ds_ij k_j,  dk_j = sum_i ds_ij q_i
//!
//! Rows i are processed in blocks of a few dozen, small enough for s to stay in the cache; inside, tiles of a few rows stop
//! at the last column that they see, so the masked half is never computed. p is recomputed in the backward pass (as in Dao et
//! al. 2022): it would be the largest activation of the network to store.

mod tile;

use veridical_core::Place;

use self::tile::{View, add, columns_by_strip, rows_by_strip, store};
use super::Dropout;
use crate::float::{ByTiles, by_tiles, sum};
use crate::layer::take;
use crate::{Backward, Error, Float, Forward, Layer, Mode, Noise, Result, Sequences, Shape};

/// Attention mask: which rows a row attends to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mask {
    /// All rows of its sequence.
    None,
    /// The rows up to and including itself.
    Causal,
}

/// Multi-head attention; the input is [q k v].
#[derive(Clone, Debug)]
pub struct Attention {
    width: usize,
    heads: usize,
    mask: Mask,
    dropout: Option<Dropout>,
}

/// Rows of s computed at once: whole tiles, of four rows or of six.
const BLOCK: usize = 24;
/// Values of a row of s that loops process at once; strips hold a multiple of it.
const LANES: usize = 16;
/// Number of random blocks reserved per row and head: enough for 2^25 columns.
const DRAWS: u32 = 1 << 22;

impl Attention {
    /// Creates attention over q, k, v of `width` values each, in `heads` heads.
    ///
    /// # Errors
    /// A request error if the width is not divisible by the number of heads.
    pub fn new(width: usize, heads: usize, mask: Mask) -> Result<Self> {
        if heads == 0 || width == 0 || !width.is_multiple_of(heads) || heads > 1024 {
            return Err(Error::request(format!(
                "the width {width} is not divisible by {heads} heads; use 1 to 1024 heads of equal width"
            )));
        }
        Ok(Self { width, heads, mask, dropout: None })
    }

    /// Applies dropout with probability `p` to the attention weights in training.
    ///
    /// # Errors
    /// A request error unless p is in [0, 1).
    pub fn dropout(self, p: f64) -> Result<Self> {
        let dropout = Dropout::new(p)?;
        Ok(Self { dropout: (dropout.probability() > 0.0).then_some(dropout), ..self })
    }

    /// The heads of all sequences, one after the other.
    fn tasks<'a, const R: usize, const C: usize>(
        &'a self,
        sequences: Sequences<'a>,
        mode: Mode,
        noise: Noise,
    ) -> impl Iterator<Item = Head<'a, R, C>> {
        let dropout = self.dropout.as_ref().filter(|_| mode == Mode::Training);
        sequences.ranges().flat_map(move |rows| {
            (0..self.heads).map(move |head| Head {
                width: self.width,
                size: self.width / self.heads,
                head,
                first: rows.start,
                rows: rows.len(),
                mask: self.mask,
                dropout,
                noise,
            })
        })
    }
}

/// One head of one sequence, with products in tiles of R rows and C columns.
struct Head<'a, const R: usize, const C: usize> {
    width: usize,
    /// Width c of a head.
    size: usize,
    head: usize,
    /// First row of the sequence.
    first: usize,
    rows: usize,
    mask: Mask,
    dropout: Option<&'a Dropout>,
    noise: Noise,
}

/// Some rows of a head and the columns that they see.
#[derive(Clone, Copy)]
struct Block {
    first: usize,
    rows: usize,
    columns: usize,
}

/// Splits scratch memory into consecutive parts.
fn cut<T, const N: usize>(mut scratch: &mut [T], lens: [usize; N]) -> [&mut [T]; N] {
    lens.map(|len| scratch.split_off_mut(..len).unwrap_or_default())
}

impl<const R: usize, const C: usize> Head<'_, R, C> {
    fn blocks(&self) -> impl Iterator<Item = Block> {
        let (n, mask) = (self.rows, self.mask);
        (0..n).step_by(BLOCK).map(move |first| {
            let rows = BLOCK.min(n - first);
            let columns = if mask == Mask::Causal { first + rows } else { n };
            Block { first, rows, columns }
        })
    }

    /// The view of q (0), k (1) or v (2).
    fn part<'v, T>(&self, x: &'v [T], part: usize) -> View<'v, T> {
        let stride = 3 * self.width;
        let first = part * self.width + self.head * self.size;
        let values = &x[self.first * stride..];
        View { values, stride, first, rows: self.rows, columns: self.size }
    }

    /// The view of o or do.
    fn out<'v, T>(&self, y: &'v [T]) -> View<'v, T> {
        let values = &y[self.first * self.width..];
        let first = self.head * self.size;
        View { values, stride: self.width, first, rows: self.rows, columns: self.size }
    }

    /// The scale 1/sqrt(c).
    fn scale<T: Float>(&self) -> T {
        T::of(1.0 / (self.size as f64).sqrt())
    }

    /// Number of columns that row i of a block sees.
    #[inline(always)]
    fn seen(&self, block: Block, i: usize) -> usize {
        if self.mask == Mask::Causal { block.first + i + 1 } else { block.columns }
    }

    /// Number of columns that the tile from row i on sees.
    #[inline(always)]
    fn seen_by_tile(&self, block: Block, i: usize) -> usize {
        self.seen(block, (i + R).min(block.rows) - 1)
    }

    /// Length of a row of s: whole tiles of columns, in whole strips.
    fn stride(&self) -> usize {
        self.rows.next_multiple_of(R).next_multiple_of(C)
    }

    /// Products of the rows of a block with the strips of the transpose of all rows, as far as each tile sees.
    #[inline(always)]
    fn scores<T: Float>(&self, rows: View<'_, T>, strips: &[T], block: Block, s: &mut [T]) {
        let stride = self.stride();
        for i in (0..block.rows).step_by(R) {
            let a = rows.tile::<R>(block.first + i);
            let seen = self.seen_by_tile(block, i);
            let strips = strips.chunks_exact(self.size * C);
            for (strip, first) in strips.zip((0..seen).step_by(C)) {
                let tile = rows_by_strip::<T, R, C>(a, strip);
                store(tile, s, i * stride + first, stride);
            }
        }
    }

    /// p of a block; zero where masked.
    #[inline(always)]
    fn weights<T: Float>(&self, q: View<'_, T>, keys: &[T], block: Block, p: &mut [T]) {
        self.scores(q, keys, block, p);
        let rows = p.chunks_exact_mut(self.stride()).take(block.rows);
        for (i, row) in rows.enumerate() {
            softmax(row, self.seen(block, i), self.scale());
        }
        // Rows that pad the last tile.
        let whole = block.rows.next_multiple_of(R);
        p[block.rows * self.stride()..whole * self.stride()].fill(T::ZERO);
    }

    /// The dropout factors m of row i of a block; `None` without dropout.
    #[inline(always)]
    fn factors<'m, T: Float>(&self, block: Block, i: usize, m: &'m mut [T]) -> Option<&'m [T]> {
        let dropout = self.dropout?;
        let place: Place = self.noise.at(self.first + block.first + i);
        let m = &mut m[..self.seen(block, i).next_multiple_of(C)];
        dropout.factors(place, self.head as u32 * DRAWS, m);
        Some(m)
    }

    /// Products of rows of s with the strips of rows that each tile sees, written to `to`, whose rows are those of a sequence.
    #[inline(always)]
    fn gather<T: Float>(
        &self,
        s: &[T],
        strips: &[T],
        block: Block,
        to: &mut [T],
        (stride, first): (usize, usize),
    ) {
        let long = self.stride();
        for i in (0..block.rows).step_by(R) {
            let seen = self.seen_by_tile(block, i);
            let s = &s[i * long..];
            let a = std::array::from_fn(
                #[inline(always)]
                |r| &s[r * long..][..seen],
            );
            for (k, strip) in strips.chunks_exact(self.rows * C).enumerate() {
                let tile = rows_by_strip::<T, R, C>(a, &strip[..seen * C]);
                let len = C.min(self.size - k * C);
                for (r, row) in tile.iter().enumerate().take(block.rows - i) {
                    let at = (self.first + block.first + i + r) * stride + first + k * C;
                    match to[at..].first_chunk_mut::<C>() {
                        Some(to) if len == C => *to = *row,
                        _ => to[at..][..len].copy_from_slice(&row[..len]),
                    }
                }
            }
        }
    }

    /// sums_j += sum_i s_ij b_i over the rows i of a block, b in strips.
    #[inline(always)]
    fn scatter<T: Float>(&self, s: &[T], strips: &[T], block: Block, sums: &mut [T]) {
        let (long, wide) = (self.stride(), self.size.next_multiple_of(C));
        for j in (0..block.columns).step_by(R) {
            // Earlier rows do not see the column.
            let hidden = if self.mask == Mask::Causal { j.saturating_sub(block.first) } else { 0 };
            let s = &s[hidden * long..block.rows * long];
            for (k, strip) in strips.chunks_exact(self.rows * C).enumerate() {
                let strip = &strip[(block.first + hidden) * C..];
                let strip = &strip[..(block.rows - hidden) * C];
                let at = j * wide + k * C;
                add(columns_by_strip::<T, R, C>(s, long, j, strip), sums, at, wide);
            }
        }
    }

    #[inline(always)]
    fn forward<T: Float>(&self, x: &[T], y: &mut [T], scratch: &mut Vec<T>) {
        let (q, k, v) = (self.part(x, 0), self.part(x, 1), self.part(x, 2));
        let stride = self.stride();
        let lens = [k.packed_transposed::<C>(), v.packed::<C>(), BLOCK * stride, stride];
        let [keys, values, p, m] = cut(take(scratch, lens.iter().sum()), lens);
        k.pack_transposed::<C>(keys);
        v.pack::<C>(values);
        for block in self.blocks() {
            self.weights(q, keys, block, p);
            if self.dropout.is_some() {
                for i in 0..block.rows {
                    let Some(m) = self.factors(block, i, m) else { continue };
                    let p = &mut p[i * stride..][..m.len()];
                    for k in 0..p.len() {
                        p[k] *= m[k];
                    }
                }
            }
            self.gather(p, values, block, y, (self.width, self.head * self.size));
        }
    }

    #[inline(always)]
    fn backward<T: Float>(&self, x: &[T], y: &[T], dy: &[T], dx: &mut [T], scratch: &mut Vec<T>) {
        let (q, k, v) = (self.part(x, 0), self.part(x, 1), self.part(x, 2));
        let (out, dout) = (self.out(y), self.out(dy));
        let stride = self.stride();
        let wide = self.size.next_multiple_of(C);
        let (long, sums) = (k.packed_transposed::<C>(), self.rows.next_multiple_of(R) * wide);
        let lens = [long, long, k.packed::<C>(), k.packed::<C>(), k.packed::<C>(), sums, sums];
        let blocks = [BLOCK * stride, BLOCK * stride, stride];
        let scratch = take(scratch, lens.iter().chain(&blocks).sum());
        let (packed, rest) = scratch.split_at_mut(lens.iter().sum());
        let [keys, values, own_keys, queries, douts, dk, dv] = cut(packed, lens);
        let [p, ds, m] = cut(rest, blocks);
        k.pack_transposed::<C>(keys);
        v.pack_transposed::<C>(values);
        k.pack::<C>(own_keys);
        q.pack::<C>(queries);
        dout.pack::<C>(douts);
        dk.fill(T::ZERO);
        dv.fill(T::ZERO);
        for block in self.blocks() {
            self.weights(q, keys, block, p);
            self.scores(dout, values, block, ds);
            let rows = p.chunks_exact_mut(stride).zip(ds.chunks_exact_mut(stride));
            for (i, (p, ds)) in rows.enumerate().take(block.rows) {
                let at = block.first + i;
                let d = sum(
                    [out.row(at), dout.row(at)],
                    #[inline(always)]
                    |[y, dy]| y * dy,
                );
                let (m, seen) = (self.factors(block, i, m), self.seen(block, i));
                slopes(p, ds, m, d, seen, self.scale());
            }
            let whole = block.rows.next_multiple_of(R);
            ds[block.rows * stride..whole * stride].fill(T::ZERO);
            self.gather(ds, own_keys, block, dx, (q.stride, q.first));
            self.scatter(ds, queries, block, dk);
            self.scatter(p, douts, block, dv);
        }
        for (part, sums) in [(k, dk), (v, dv)] {
            for (i, row) in sums.chunks_exact(wide).enumerate().take(self.rows) {
                let at = (self.first + i) * part.stride + part.first;
                dx[at..][..self.size].copy_from_slice(&row[..self.size]);
            }
        }
    }
}

/// Replaces m do v' by ds = p (m do v' - d) scale, and p by m p; zero where masked.
#[inline(always)]
fn slopes<T: Float>(p: &mut [T], ds: &mut [T], m: Option<&[T]>, d: T, seen: usize, scale: T) {
    ds[seen..].fill(T::ZERO);
    let len = seen.next_multiple_of(LANES);
    let (p, ds) = (&mut p[..len], &mut ds[..len]);
    match m {
        None => {
            for k in 0..len {
                ds[k] = p[k] * (ds[k] - d) * scale;
            }
        }
        Some(m) => {
            let m = &m[..len];
            for k in 0..len {
                ds[k] = p[k] * (m[k] * ds[k] - d) * scale;
                p[k] *= m[k];
            }
        }
    }
}

/// Replaces the first `seen` values of a row by exp(scale (s_j - max))/sum, the others by 0.
#[inline(always)]
fn softmax<T: Float>(row: &mut [T], seen: usize, scale: T) {
    let (whole, rest) = row[..seen].as_chunks::<LANES>();
    let mut lanes = [row[0]; LANES];
    for s in whole {
        for (lane, &s) in lanes.iter_mut().zip(s) {
            *lane = lane.larger(s);
        }
    }
    let mut largest = lanes[0];
    for &s in lanes.iter().chain(rest) {
        largest = largest.larger(s);
    }
    // Whole vectors; values beyond `seen` are other products, which are ignored.
    let row_len = seen.next_multiple_of(LANES);
    for s in row[..row_len].as_chunks_mut::<LANES>().0.as_flattened_mut() {
        *s = ((*s - largest) * scale).exp();
    }
    row[seen..].fill(T::ZERO);
    let row = &mut row[..row_len];
    let share = T::ONE
        / sum(
            [&*row],
            #[inline(always)]
            |[s]| s,
        );
    row.iter_mut().for_each(|s| *s *= share);
}

impl<T: Float> Layer<T> for Attention {
    fn output(&self, input: Shape) -> Result<Shape> {
        if input != Shape::row(3 * self.width) {
            let what =
                format!("expects rows of q, k, v with {} values each, got {input}", self.width);
            return Err(Error::Shape { layer: "attention".into(), what });
        }
        Ok(Shape::row(self.width))
    }

    fn forward(&self, pass: Forward<'_, T>) {
        by_tiles(There(self, pass));
    }

    fn backward(&self, pass: Backward<'_, T>) {
        by_tiles(Back(self, pass));
    }
}

/// Forward pass as work on tiles.
struct There<'a, T>(&'a Attention, Forward<'a, T>);

impl<T: Float> ByTiles for There<'_, T> {
    #[inline(always)]
    fn run<const R: usize, const C: usize>(self) {
        let Self(attention, Forward { sequences, mode, x, y, noise, scratch, .. }) = self;
        for head in attention.tasks::<R, C>(sequences, mode, noise) {
            head.forward(x, y, scratch);
        }
    }
}

/// Backward pass as work on tiles.
struct Back<'a, T>(&'a Attention, Backward<'a, T>);

impl<T: Float> ByTiles for Back<'_, T> {
    #[inline(always)]
    fn run<const R: usize, const C: usize>(self) {
        let Self(attention, pass) = self;
        let Backward { sequences, mode, x, y, dy, dx: Some(dx), noise, scratch, .. } = pass else {
            return;
        };
        for head in attention.tasks::<R, C>(sequences, mode, noise) {
            head.backward(x, y, dy, dx, scratch);
        }
    }
}

#[cfg(test)]
mod tests;
