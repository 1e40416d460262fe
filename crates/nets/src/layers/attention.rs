//! Attention in several heads (Vaswani et al. 2017, section 3.2).
//!
//! A row of x is [q k v], each of d values, and head h has c = d/heads of each. Inside a sequence, for each head,
//!
//! s_ij = q_i . k_j / sqrt(c),  p_i = softmax of s_i over the j that row i sees,  o_i = sum_j m_ij p_ij v_j
//!
//! Row i sees the rows up to itself ([`Mask::Causal`]) or all rows of its sequence ([`Mask::None`]); m = 1, or the factors of
//! a dropout. Back, with D_i = do_i . o_i:
//!
//! dv_j = sum_i m_ij p_ij do_i,  ds_ij = p_ij (m_ij do_i . v_j - D_i)/sqrt(c),  dq_i = sum_j ds_ij k_j,  dk_j = sum_i ds_ij q_i
//!
//! Rows i are taken in blocks: a block's part of s is one product over the columns that its last row sees, so all but a
//! block's triangle of the masked half is never computed. p is computed again on the way back (Dao et al. 2022 do the same):
//! it would be the largest thing of the network to keep.

use veridical_core::Place;

use super::Dropout;
use crate::float::{sum, wide};
use crate::layer::take;
use crate::product::{Matrix, strided, whole};
use crate::{Backward, Error, Float, Forward, Layer, Mode, Noise, Result, Shape};

/// Which rows a row sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mask {
    /// All rows of its sequence.
    None,
    /// Those up to itself.
    Causal,
}

/// Attention; the input is [q k v].
#[derive(Clone, Debug)]
pub struct Attention {
    width: usize,
    heads: usize,
    mask: Mask,
    dropout: Option<Dropout>,
}

/// Rows of s that are computed at once.
const BLOCK: usize = 64;
/// Blocks of random bits of one row and head: those of 2^25 columns.
const DRAWS: u32 = 1 << 22;

impl Attention {
    /// From q, k, v of `width` values in `heads` heads.
    ///
    /// # Errors
    /// [`Error::Setting`] if the heads do not divide the width.
    pub fn new(width: usize, heads: usize, mask: Mask) -> Result<Self> {
        if heads == 0 || width == 0 || !width.is_multiple_of(heads) || heads > 1024 {
            return Err(Error::Setting(format!(
                "{heads} heads do not divide {width} values; there are 1 to 1024 heads of equal width"
            )));
        }
        Ok(Self { width, heads, mask, dropout: None })
    }

    /// With values of p left out at random in training.
    ///
    /// # Errors
    /// [`Error::Setting`] unless p is in [0, 1).
    pub fn dropout(self, p: f64) -> Result<Self> {
        let dropout = Dropout::new(p)?;
        Ok(Self { dropout: (dropout.probability() > 0.0).then_some(dropout), ..self })
    }

    /// The heads of the sequences, one after the other.
    fn tasks<'a>(
        &'a self,
        sequences: crate::Sequences<'a>,
        mode: Mode,
        noise: Noise,
    ) -> impl Iterator<Item = Head<'a>> {
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

/// One head of one sequence.
struct Head<'a> {
    width: usize,
    /// c.
    size: usize,
    head: usize,
    /// The first row of the sequence.
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

impl Head<'_> {
    fn blocks(&self) -> impl Iterator<Item = Block> {
        let (n, mask) = (self.rows, self.mask);
        (0..n).step_by(BLOCK).map(move |first| {
            let rows = BLOCK.min(n - first);
            let columns = if mask == Mask::Causal { first + rows } else { n };
            Block { first, rows, columns }
        })
    }

    /// Where q (0), k (1) or v (2) of this head stand in a row of x.
    fn column(&self, part: usize) -> usize {
        part * self.width + self.head * self.size
    }

    /// Rows of q, k or v.
    fn part<'v, T: Float>(
        &self,
        x: &'v [T],
        part: usize,
        first: usize,
        rows: usize,
    ) -> Matrix<'v, T> {
        let stride = 3 * self.width;
        let x = &x[(self.first + first) * stride..];
        Matrix::strided(x, rows, stride, self.column(part), self.size)
    }

    /// Rows of o or do.
    fn out<'v, T: Float>(&self, y: &'v [T], block: Block) -> Matrix<'v, T> {
        let y = &y[(self.first + block.first) * self.width..];
        Matrix::strided(y, block.rows, self.width, self.head * self.size, self.size)
    }

    /// 1/sqrt(c).
    fn scale<T: Float>(&self) -> T {
        T::of(1.0 / (self.size as f64).sqrt())
    }

    /// How many columns row i of a block sees.
    fn seen(&self, block: Block, i: usize) -> usize {
        if self.mask == Mask::Causal { block.first + i + 1 } else { block.columns }
    }

    /// The random numbers of row i of a block.
    fn draws(&self, block: Block, i: usize) -> (Place, u32) {
        (self.noise.at(self.first + block.first + i), self.head as u32 * DRAWS)
    }

    /// p of a block.
    fn weights<T: Float>(&self, x: &[T], block: Block, p: &mut [T]) {
        let q = self.part(x, 0, block.first, block.rows);
        let k = self.part(x, 1, 0, block.columns);
        whole(p, false, self.scale(), q, k.transposed());
        wide(
            #[inline(always)]
            move || {
                for (i, row) in p.chunks_exact_mut(block.columns).enumerate() {
                    let (row, hidden) = row.split_at_mut(self.seen(block, i));
                    softmax(row);
                    hidden.fill(T::ZERO);
                }
            },
        );
    }

    /// The factors m of a block; `None` without a dropout.
    fn factors<'m, T: Float>(&self, block: Block, m: &'m mut [T]) -> Option<&'m [T]> {
        let dropout = self.dropout?;
        let own = &mut *m;
        wide(
            #[inline(always)]
            move || {
                for (i, row) in own.chunks_exact_mut(block.columns).enumerate() {
                    let (place, first) = self.draws(block, i);
                    dropout.factors(place, first, &mut row[..self.seen(block, i)]);
                }
            },
        );
        Some(m)
    }

    fn forward<T: Float>(&self, x: &[T], y: &mut [T], room: &mut Vec<T>) {
        for block in self.blocks() {
            let len = block.rows * block.columns;
            let (p, m) = take(room, 2 * BLOCK * self.rows).split_at_mut(BLOCK * self.rows);
            let (p, m) = (&mut p[..len], &mut m[..len]);
            self.weights(x, block, p);
            if let Some(m) = self.factors(block, m) {
                multiply(p, m, |i| self.seen(block, i), block.columns);
            }
            let v = self.part(x, 2, 0, block.columns);
            let y = &mut y[(self.first + block.first) * self.width..];
            let p = Matrix::rows(p, block.rows, block.columns);
            strided(y, self.width, self.head * self.size, false, p, v);
        }
    }

    fn backward<T: Float>(&self, x: &[T], y: &[T], dy: &[T], dx: &mut [T], room: &mut Vec<T>) {
        let stride = 3 * self.width;
        for part in [1, 2] {
            for row in dx[self.first * stride..].chunks_exact_mut(stride).take(self.rows) {
                row[self.column(part)..][..self.size].fill(T::ZERO);
            }
        }
        for block in self.blocks() {
            let len = block.rows * block.columns;
            let mut rooms = take(room, 3 * BLOCK * self.rows).chunks_exact_mut(BLOCK * self.rows);
            let mut own = || &mut rooms.next().unwrap_or_default()[..len];
            let (p, m, ds) = (own(), own(), own());
            self.weights(x, block, p);
            let dout = self.out(dy, block);
            let v = self.part(x, 2, 0, block.columns);
            whole(ds, false, T::ONE, dout, v.transposed());
            let m = self.factors(block, m);
            if let Some(m) = m {
                multiply(ds, m, |i| self.seen(block, i), block.columns);
            }
            self.slopes(y, dy, block, p, ds);
            let slopes = Matrix::rows(ds, block.rows, block.columns);
            let q = self.part(x, 0, block.first, block.rows);
            let k = self.part(x, 1, 0, block.columns);
            let own = &mut dx[self.first * stride..];
            strided(&mut own[block.first * stride..], stride, self.column(0), false, slopes, k);
            strided(own, stride, self.column(1), true, slopes.transposed(), q);
            if let Some(m) = m {
                multiply(p, m, |i| self.seen(block, i), block.columns);
            }
            strided(
                own,
                stride,
                self.column(2),
                true,
                Matrix::rows(p, block.rows, block.columns).transposed(),
                dout,
            );
        }
    }

    /// ds of a block, from m do v' in its place.
    fn slopes<T: Float>(&self, y: &[T], dy: &[T], block: Block, p: &[T], ds: &mut [T]) {
        let scale = self.scale::<T>();
        wide(
            #[inline(always)]
            move || {
                let rows = p.chunks_exact(block.columns).zip(ds.chunks_exact_mut(block.columns));
                for (i, (p, ds)) in rows.enumerate() {
                    let at = (self.first + block.first + i) * self.width + self.head * self.size;
                    let (y, dy) = (&y[at..][..self.size], &dy[at..][..self.size]);
                    let d = sum(
                        [y, dy],
                        #[inline(always)]
                        |[y, dy]| y * dy,
                    );
                    let seen = self.seen(block, i);
                    let (ds, hidden) = ds.split_at_mut(seen);
                    for (ds, &p) in ds.iter_mut().zip(&p[..seen]) {
                        *ds = p * (*ds - d) * scale;
                    }
                    hidden.fill(T::ZERO);
                }
            },
        );
    }
}

/// Each of the first so many values of a row times its factor.
fn multiply<T: Float>(values: &mut [T], m: &[T], seen: impl Fn(usize) -> usize, columns: usize) {
    wide(
        #[inline(always)]
        move || {
            let rows = values.chunks_exact_mut(columns).zip(m.chunks_exact(columns));
            for (i, (values, m)) in rows.enumerate() {
                let seen = seen(i);
                values[..seen].iter_mut().zip(&m[..seen]).for_each(|(x, &m)| *x *= m);
            }
        },
    );
}

/// s becomes exp(s_j - max)/sum.
#[inline(always)]
fn softmax<T: Float>(s: &mut [T]) {
    let mut largest = s[0];
    for &s in &*s {
        largest = largest.larger(s);
    }
    s.iter_mut().for_each(|s| *s = (*s - largest).exp());
    let share = T::ONE
        / sum(
            [s],
            #[inline(always)]
            |[s]| s,
        );
    s.iter_mut().for_each(|s| *s *= share);
}

impl<T: Float> Layer<T> for Attention {
    fn output(&self, input: Shape) -> Result<Shape> {
        if input != Shape::row(3 * self.width) {
            let what =
                format!("takes rows of q, k, v with {} values each, got {input}", self.width);
            return Err(Error::Shape { layer: "attention".into(), what });
        }
        Ok(Shape::row(self.width))
    }

    fn forward(&self, pass: Forward<'_, T>) {
        let Forward { sequences, mode, x, y, noise, room, .. } = pass;
        self.tasks(sequences, mode, noise).for_each(|head| head.forward(x, y, room));
    }

    fn backward(&self, pass: Backward<'_, T>) {
        let Backward { sequences, mode, x, y, dy, dx: Some(dx), noise, room, .. } = pass else {
            return;
        };
        self.tasks(sequences, mode, noise).for_each(|head| head.backward(x, y, dy, dx, room));
    }
}

#[cfg(test)]
mod tests;
