//! The factors of one layer for all samples, and the kernel of a tile of them.

use std::collections::BTreeMap;
use std::ops::Range;

use rayon::prelude::*;
use veridical_nets::{Float, Sequences};

use crate::gram::{TILE, product, products};

/// Rows of two blocks of positions whose products are formed at once.
const BLOCK_ROWS: usize = 512;
/// Chains of a sum in f64.
const LANES: usize = 8;
/// Length of the inner products that are summed in the precision of the factors: longer ones are added up in f64.
const INNER: usize = 1 << 14;

/// The factors of one layer.
#[derive(Clone, Debug)]
pub(super) enum Store<T> {
    /// a and delta of every row; delta has `outputs` values for each cotangent.
    Products(Products<T>),
    /// Vectors of `len` numbers whose inner products are added up: one list of samples for each cotangent, or for all.
    Vectors { len: usize, lists: Vec<Vec<T>> },
    /// Gradients of the rows of a table.
    Sparse(Sparse<T>),
}

/// a and delta of every row.
#[derive(Clone, Debug)]
pub(super) struct Products<T> {
    pub inputs: usize,
    pub outputs: usize,
    /// rho^2 of \[a, rho\].
    pub bias: f64,
    /// Offsets of the samples in the rows, where they have several.
    pub starts: Option<Vec<usize>>,
    /// Rows x inputs.
    pub a: Vec<T>,
    /// Rows x cotangents x outputs.
    pub delta: Vec<T>,
}

/// For each sample the rows of a table with a gradient, in ascending order.
#[derive(Clone, Debug)]
pub(super) struct Sparse<T> {
    /// Values of a row of the table.
    pub width: usize,
    /// Offsets of the samples in the ids.
    pub starts: Vec<usize>,
    pub ids: Vec<u32>,
    /// Gradients, ids x cotangents x width.
    pub vectors: Vec<T>,
}

impl<T: Float> Store<T> {
    /// Adds the kernel of a tile; of the lists of vectors only those in `lists`.
    pub fn add(
        &self,
        other: &Self,
        cotangents: usize,
        rows: &Range<usize>,
        columns: &Range<usize>,
        lists: Range<usize>,
        sums: &mut [f64],
    ) {
        match (self, other) {
            (Self::Products(own), Self::Products(other)) => match own.starts {
                None => own.add_single(other, cotangents, rows, columns, sums),
                Some(_) => own.add_pairs(other, cotangents, rows, columns, sums),
            },
            (Self::Vectors { len, lists: own }, Self::Vectors { lists: others, .. }) => {
                for (own, other) in own[lists.clone()].iter().zip(&others[lists]) {
                    let part = |list: &'_ [T], range: &Range<usize>| {
                        range.start * len..(range.end * len).min(list.len())
                    };
                    add_products(&own[part(own, rows)], &other[part(other, columns)], *len, sums);
                }
            }
            (Self::Sparse(own), Self::Sparse(other)) => {
                own.add(other, cotangents, rows, columns, sums);
            }
            // INVARIANT: both follow one plan.
            _ => unreachable!("the same layer is stored in one form"),
        }
    }

    /// The kernel times a vector, one number for each sample.
    pub fn multiply(&self, cotangents: usize, u: &[f64]) -> Vec<f64> {
        let parts: Vec<Vec<f64>> = match self {
            Self::Products(own) => {
                let each = |v: usize| own.multiply(cotangents, v, u);
                (0..cotangents).into_par_iter().map(each).collect()
            }
            Self::Vectors { len, lists } => {
                let each = |list: &Vec<T>| {
                    let mut sum = vec![0.0; *len];
                    for (x, &u) in list.chunks_exact(*len).zip(u) {
                        sum.iter_mut().zip(x).for_each(|(s, x)| *s += u * x.wide());
                    }
                    list.chunks_exact(*len).map(|x| inner(x, &sum)).collect()
                };
                lists.par_iter().map(each).collect()
            }
            Self::Sparse(own) => vec![own.multiply(cotangents, u)],
        };
        let mut product = vec![0.0; u.len()];
        for part in parts {
            product.iter_mut().zip(part).for_each(|(p, x)| *p += x);
        }
        product
    }

    /// The kernel of every sample with itself: samples x cotangents, or a sum over cotangents in the first of them where they are
    /// sketched together.
    pub fn diagonal(&self, n: usize, m: usize) -> Vec<f64> {
        let mut diagonal = vec![0.0; n * m];
        match self {
            Self::Products(own) => {
                diagonal.par_chunks_mut(m).enumerate().for_each(|(i, d)| own.diagonal(i, m, d));
            }
            Self::Vectors { len, lists } => {
                diagonal.par_chunks_mut(m).enumerate().for_each(|(i, d)| {
                    for (d, list) in d.iter_mut().zip(lists) {
                        *d = square(&list[i * len..][..*len]);
                    }
                });
            }
            Self::Sparse(own) => {
                diagonal.par_chunks_mut(m).enumerate().for_each(|(i, d)| {
                    let entries = own.starts[i]..own.starts[i + 1];
                    let parts = own.vectors[entries.start * m * own.width..]
                        .chunks_exact(m * own.width)
                        .take(entries.len());
                    for vectors in parts {
                        for (d, vector) in d.iter_mut().zip(vectors.chunks_exact(own.width)) {
                            *d += square(vector);
                        }
                    }
                });
            }
        }
        diagonal
    }

    /// Turns every cotangent of every sample into a sample of its own.
    pub fn per_cotangent(self, n: usize, m: usize) -> Self {
        match self {
            Self::Products(own) => Self::Products(own.per_cotangent(n, m)),
            Self::Vectors { len, lists } => {
                let all = (0..n).flat_map(|i| lists.iter().flat_map(move |l| &l[i * len..][..len]));
                Self::Vectors { len, lists: vec![all.copied().collect()] }
            }
            Self::Sparse(Sparse { width, starts, ids, vectors }) => {
                let mut new =
                    Sparse { width, starts: vec![0], ids: Vec::new(), vectors: Vec::new() };
                for entries in starts.windows(2).map(|w| w[0]..w[1]) {
                    for v in 0..m {
                        new.ids.extend_from_slice(&ids[entries.clone()]);
                        for e in entries.clone() {
                            new.vectors.extend_from_slice(&vectors[(e * m + v) * width..][..width]);
                        }
                        new.starts.push(new.ids.len());
                    }
                }
                Self::Sparse(new)
            }
        }
    }
}

/// |x|^2 in f64.
fn square<T: Float>(x: &[T]) -> f64 {
    let mut lanes = [0.0; LANES];
    let (whole, rest) = x.as_chunks::<LANES>();
    for x in whole {
        (0..LANES).for_each(|l| lanes[l] += x[l].wide() * x[l].wide());
    }
    lanes.iter().sum::<f64>() + rest.iter().map(|x| x.wide() * x.wide()).sum::<f64>()
}

/// x . y in f64.
fn inner<T: Float>(x: &[T], y: &[f64]) -> f64 {
    let mut lanes = [0.0; LANES];
    let ((x, left), (y, right)) = (x.as_chunks::<LANES>(), y.as_chunks::<LANES>());
    for (x, y) in x.iter().zip(y) {
        (0..LANES).for_each(|l| lanes[l] += x[l].wide() * y[l]);
    }
    lanes.iter().sum::<f64>() + left.iter().zip(right).map(|(x, y)| x.wide() * y).sum::<f64>()
}

/// Adds the inner products of all rows of a and b.
fn add_products<T: Float>(a: &[T], b: &[T], dim: usize, sums: &mut [f64]) {
    let mut out = vec![T::ZERO; sums.len()];
    if dim <= INNER {
        products(a, b, dim, &mut out);
        return sums.iter_mut().zip(&out).for_each(|(s, x)| *s += x.wide());
    }
    let (mut left, mut right) = (Vec::new(), Vec::new());
    for first in (0..dim).step_by(INNER) {
        let len = INNER.min(dim - first);
        let cut = |from: &[T], to: &mut Vec<T>| {
            to.clear();
            from.chunks_exact(dim).for_each(|row| to.extend_from_slice(&row[first..first + len]));
        };
        cut(a, &mut left);
        cut(b, &mut right);
        products(&left, &right, len, &mut out);
        sums.iter_mut().zip(&out).for_each(|(s, x)| *s += x.wide());
    }
}

impl<T: Float> Products<T> {
    /// The rows of a sample.
    pub fn range(&self, sample: usize) -> Range<usize> {
        match &self.starts {
            None => sample..sample + 1,
            Some(starts) => starts[sample]..starts[sample + 1],
        }
    }

    /// a and delta of some samples.
    fn part(&self, m: usize, samples: &Range<usize>) -> [&[T]; 2] {
        let (first, last) = (self.range(samples.start).start, self.range(samples.end - 1).end);
        let width = m * self.outputs;
        [&self.a[first * self.inputs..last * self.inputs], &self.delta[first * width..last * width]]
    }

    /// (a . a' + rho^2) (delta . delta') for samples of one row.
    fn add_single(
        &self,
        other: &Self,
        m: usize,
        rows: &Range<usize>,
        columns: &Range<usize>,
        sums: &mut [f64],
    ) {
        let ([a, delta], [b, epsilon]) = (self.part(m, rows), other.part(m, columns));
        let [mut left, mut right] = [vec![T::ZERO; sums.len()], vec![T::ZERO; sums.len()]];
        products(a, b, self.inputs, &mut left);
        products(delta, epsilon, m * self.outputs, &mut right);
        for ((sum, a), d) in sums.iter_mut().zip(left).zip(right) {
            *sum += (a.wide() + self.bias) * d.wide();
        }
    }

    /// The same summed over all pairs of rows.
    fn add_pairs(
        &self,
        other: &Self,
        m: usize,
        rows: &Range<usize>,
        columns: &Range<usize>,
        sums: &mut [f64],
    ) {
        let (own, others) = (self.blocks(rows), other.blocks(columns));
        let [mut left, mut right] = [Vec::new(), Vec::new()];
        for block in &own {
            let [a, delta] = self.part(m, block);
            let first = self.range(block.start).start;
            for against in &others {
                let [b, epsilon] = other.part(m, against);
                let start = other.range(against.start).start;
                let width = b.len() / self.inputs;
                left.resize(a.len() / self.inputs * width, T::ZERO);
                right.resize(left.len(), T::ZERO);
                products(a, b, self.inputs, &mut left);
                products(delta, epsilon, m * self.outputs, &mut right);
                for i in block.clone() {
                    for j in against.clone() {
                        let mut sum = 0.0;
                        let at = other.range(j).start - start..other.range(j).end - start;
                        for p in self.range(i) {
                            let row = (p - first) * width;
                            let place = row + at.start..row + at.end;
                            for (a, d) in left[place.clone()].iter().zip(&right[place]) {
                                sum += (a.wide() + self.bias) * d.wide();
                            }
                        }
                        sums[(i - rows.start) * columns.len() + j - columns.start] += sum;
                    }
                }
            }
        }
    }

    /// Cuts samples into blocks of so many rows, or one sample.
    fn blocks(&self, samples: &Range<usize>) -> Vec<Range<usize>> {
        let mut blocks: Vec<Range<usize>> = Vec::new();
        for i in samples.clone() {
            match blocks.last_mut() {
                Some(last) if self.range(i).end - self.range(last.start).start <= BLOCK_ROWS => {
                    last.end = i + 1;
                }
                _ => blocks.push(i..i + 1),
            }
        }
        blocks
    }

    /// delta_ip' S \[a_ip, rho\] summed over positions, with S = sum_jq u_j delta_jq \[a_jq, rho\]', for cotangent v of m.
    fn multiply(&self, m: usize, v: usize, u: &[f64]) -> Vec<f64> {
        let (inputs, out) = (self.inputs, self.outputs);
        let rows: Vec<usize> =
            (0..u.len()).flat_map(|sample| self.range(sample).map(move |_| sample)).collect();
        let delta = |row: usize| &self.delta[(row * m + v) * out..][..out];
        let mut sum = vec![0.0; out * inputs];
        let mut part = vec![T::ZERO; out * inputs];
        let mut bias = vec![0.0; out];
        let mut weighted = Vec::new();
        for (first, block) in (0..).step_by(TILE).zip(rows.chunks(TILE)) {
            weighted.clear();
            weighted.resize(out * block.len(), T::ZERO);
            for (r, &sample) in block.iter().enumerate() {
                for (o, d) in delta(first + r).iter().enumerate() {
                    let weight = u[sample] * d.wide();
                    bias[o] += weight;
                    weighted[o * block.len() + r] = T::of(weight);
                }
            }
            let a = &self.a[first * inputs..];
            product(&mut part, false, &weighted, a, [out, block.len(), inputs]);
            sum.iter_mut().zip(&part).for_each(|(s, p)| *s += p.wide());
        }
        let sum: Vec<T> = sum.into_iter().map(T::of).collect();
        let mut found = vec![0.0; u.len()];
        for (first, block) in (0..).step_by(TILE).zip(rows.chunks(TILE)) {
            let a = &self.a[first * inputs..][..block.len() * inputs];
            let mut values = vec![T::ZERO; block.len() * out];
            products(a, &sum, inputs, &mut values);
            for (r, (&sample, values)) in block.iter().zip(values.chunks_exact(out)).enumerate() {
                let parts = delta(first + r).iter().zip(values).zip(&bias);
                let each = parts.map(|((d, x), b)| d.wide() * (x.wide() + self.bias * b));
                found[sample] += each.sum::<f64>();
            }
        }
        found
    }

    /// In f64.
    fn diagonal(&self, sample: usize, m: usize, d: &mut [f64]) {
        let rows = self.range(sample);
        let (n, out) = (rows.len(), self.outputs);
        let [a, delta] = self.part(m, &(sample..sample + 1));
        if n == 1 {
            let a = square(a) + self.bias;
            d.iter_mut().zip(delta.chunks_exact(out)).for_each(|(d, delta)| *d = a * square(delta));
            return;
        }
        let wide = |values: &mut dyn Iterator<Item = &T>| -> Vec<f64> {
            values.map(|x| x.wide()).collect()
        };
        let a = wide(&mut a.iter());
        let (mut left, mut right) = (vec![0.0; n * n], vec![0.0; n * n]);
        products(&a, &a, self.inputs, &mut left);
        for (v, d) in d.iter_mut().enumerate() {
            let of = delta.chunks_exact(m * out).flat_map(|row| &row[v * out..][..out]);
            let own = wide(&mut { of });
            products(&own, &own, out, &mut right);
            *d = left.iter().zip(&right).map(|(a, d)| (a + self.bias) * d).sum();
        }
    }

    fn per_cotangent(self, n: usize, m: usize) -> Self {
        let (inputs, width) = (self.inputs, self.outputs);
        let mut starts = vec![0];
        let (mut a, mut delta) = (Vec::new(), Vec::new());
        for i in 0..n {
            for v in 0..m {
                for row in self.range(i) {
                    a.extend_from_slice(&self.a[row * inputs..][..inputs]);
                    delta.extend_from_slice(&self.delta[(row * m + v) * width..][..width]);
                }
                starts.push(a.len() / inputs);
            }
        }
        Self { a, delta, starts: self.starts.map(|_| starts), ..self }
    }
}

impl<T: Float> Sparse<T> {
    /// Adds the gradients `delta` of the rows of a batch for cotangent v of m; row r belongs to `id(r)`. `items(s, v)` are the rows of
    /// the table that score sample s, with the weight of their gradient, the outputs `f` of the sample.
    pub fn append(
        &mut self,
        samples: Sequences<'_>,
        delta: &[T],
        id: impl Fn(usize) -> u32,
        items: impl Fn(usize, usize) -> Vec<(u32, T)>,
        [v, m]: [usize; 2],
        f: &[T],
    ) {
        let (n, width) = (samples.len(), self.width);
        if v == 0 {
            for (s, rows) in samples.ranges().enumerate() {
                let scored = (0..m).flat_map(|v| items(s, v)).map(|(item, _)| item);
                let mut own: Vec<u32> = rows.map(&id).chain(scored).collect();
                own.sort_unstable();
                own.dedup();
                self.ids.extend(own);
                self.starts.push(self.ids.len());
            }
            self.vectors.resize(self.ids.len() * m * width, T::ZERO);
        }
        let first = self.starts.len() - 1 - n;
        for (s, rows) in samples.ranges().enumerate() {
            let entries = self.starts[first + s]..self.starts[first + s + 1];
            let (ids, vectors) = (&self.ids[entries.clone()], &mut self.vectors);
            let mut add = |id: u32, weight: T, values: &[T]| {
                let entry = entries.start + ids.partition_point(|&own| own < id);
                let to = &mut vectors[(entry * m + v) * width..][..width];
                to.iter_mut().zip(values).for_each(|(t, &x)| *t += weight * x);
            };
            for row in rows {
                add(id(row), T::ONE, &delta[row * width..][..width]);
            }
            for (item, weight) in items(s, v) {
                add(item, weight, &f[s * width..][..width]);
            }
        }
    }

    /// g_i . S_id summed over the ids of a sample, with S_id = sum_j u_j g_j for that id.
    fn multiply(&self, m: usize, u: &[f64]) -> Vec<f64> {
        let len = m * self.width;
        let entries = |i: usize| self.starts[i]..self.starts[i + 1];
        let mut sums: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for (i, &u) in u.iter().enumerate() {
            for e in entries(i) {
                let sum = sums.entry(self.ids[e]).or_insert_with(|| vec![0.0; len]);
                let vectors = &self.vectors[e * len..][..len];
                sum.iter_mut().zip(vectors).for_each(|(s, x)| *s += u * x.wide());
            }
        }
        let each = |e: usize| inner(&self.vectors[e * len..][..len], &sums[&self.ids[e]]);
        (0..u.len()).map(|i| entries(i).map(each).sum()).collect()
    }

    /// (id, sample, entry) of some samples, by id.
    fn by_id(&self, samples: &Range<usize>) -> Vec<(u32, usize, usize)> {
        let entries = |i: usize| (self.starts[i]..self.starts[i + 1]).map(move |e| (i, e));
        let mut all: Vec<_> =
            samples.clone().flat_map(entries).map(|(i, e)| (self.ids[e], i, e)).collect();
        all.sort_unstable();
        all
    }

    fn add(
        &self,
        other: &Self,
        m: usize,
        rows: &Range<usize>,
        columns: &Range<usize>,
        sums: &mut [f64],
    ) {
        let len = m * self.width;
        let (own, others) = (self.by_id(rows), other.by_id(columns));
        let mut rest = others.as_slice();
        let [mut left, mut right, mut out] = [Vec::new(), Vec::new(), Vec::new()];
        for own in own.chunk_by(|a, b| a.0 == b.0) {
            let id = own[0].0;
            rest = &rest[rest.partition_point(|entry| entry.0 < id)..];
            let shared = &rest[..rest.partition_point(|entry| entry.0 == id)];
            if shared.is_empty() {
                continue;
            }
            let gather = |of: &Self, entries: &[(u32, usize, usize)], to: &mut Vec<T>| {
                to.clear();
                for (_, _, e) in entries {
                    to.extend_from_slice(&of.vectors[e * len..][..len]);
                }
            };
            gather(self, own, &mut left);
            gather(other, shared, &mut right);
            out.resize(own.len() * shared.len(), T::ZERO);
            products(&left, &right, len, &mut out);
            for ((_, i, _), out) in own.iter().zip(out.chunks_exact(shared.len())) {
                let sums = &mut sums[(i - rows.start) * columns.len()..][..columns.len()];
                for ((_, j, _), x) in shared.iter().zip(out) {
                    sums[j - columns.start] += x.wide();
                }
            }
        }
    }
}
