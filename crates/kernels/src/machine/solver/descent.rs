//! Gradient descent: Richardson's iteration with its predicted residual, and eigenpro.

use veridical_core::Result;
use veridical_learn::eigen;

use super::super::hessian::{add, dot};
use super::super::product::transposed_product;
use super::{Solution, System, norm, scale};

/// Lanczos steps behind the prediction of Richardson's residual.
const LANCZOS: usize = 40;
/// Leading eigenfunctions that eigenpro flattens.
const FLATTENED: usize = 160;
/// Steps of the power method for eigenpro's step size.
const POWER: usize = 10;

impl System<'_> {
    pub(super) fn richardson(&self) -> Result<Solution> {
        let spectrum = self.lanczos()?;
        let largest = spectrum.iter().flatten().map(|(theta, _)| *theta).fold(0.0, f64::max);
        let eta = 1.0 / (1.01 * largest);
        let mut alpha = vec![0.0; self.y.values().len()];
        let mut r = self.y.values().to_vec();
        let stop = self.settings.tolerance * scale(&r);
        let mut steps = 0;
        while steps < self.settings.iterations && norm(&r) > stop {
            self.job.check()?;
            add(&mut alpha, eta, &r);
            let moved = self.apply(&r);
            add(&mut r, -eta, &moved);
            steps += 1;
        }
        let square: f64 = spectrum
            .iter()
            .flatten()
            .map(|(theta, weight)| weight * (1.0 - eta * theta).powi(2 * steps as i32))
            .sum();
        let predicted = square.max(0.0).sqrt() / scale(self.y.values());
        Ok(self.finished(alpha, steps, Some(predicted)))
    }

    /// For every column of y the nodes and weights of Gauss quadrature of its spectral measure under K + lambda I.
    fn lanczos(&self) -> Result<Vec<Vec<(f64, f64)>>> {
        let (n, c) = (self.k.size().0, self.columns());
        let length = LANCZOS.min(n);
        let norms: Vec<f64> = (0..c).map(|j| norm(&column(self.y.values(), c, j))).collect();
        let mut basis: Vec<Vec<Vec<f64>>> = vec![Vec::new(); c];
        let (mut on, mut off) = (vec![Vec::new(); c], vec![Vec::new(); c]);
        let mut q = self.y.values().to_vec();
        let scale_columns = |q: &mut [f64], sizes: &[f64]| {
            for row in q.chunks_exact_mut(c) {
                row.iter_mut()
                    .zip(sizes)
                    .for_each(|(q, s)| *q = if *s > 0.0 { *q / s } else { 0.0 });
            }
        };
        scale_columns(&mut q, &norms);
        for _ in 0..length {
            self.job.check()?;
            let moved = self.apply(&q);
            let mut sizes = vec![0.0; c];
            let mut next = vec![0.0; n * c];
            for j in 0..c {
                let (own, mut w) = (column(&q, c, j), column(&moved, c, j));
                on[j].push(dot(&own, &w));
                basis[j].push(own);
                // Twice is enough (Parlett).
                for _ in 0..2 {
                    for v in &basis[j] {
                        let along = dot(v, &w);
                        add(&mut w, -along, v);
                    }
                }
                let size = norm(&w);
                // An invariant subspace: the quadrature is exact from here on.
                sizes[j] = if size > 1e-10 * on[j][0].abs() { size } else { 0.0 };
                off[j].push(sizes[j]);
                next.iter_mut().skip(j).step_by(c).zip(w).for_each(|(to, x)| *to = x);
            }
            scale_columns(&mut next, &sizes);
            q = next;
        }
        let of_column = |j: usize| {
            let steps = off[j].iter().position(|size| *size == 0.0).map_or(length, |at| at + 1);
            let mut t = vec![0.0; steps * steps];
            for i in 0..steps {
                t[i * steps + i] = on[j][i];
                if i + 1 < steps {
                    t[i * steps + i + 1] = off[j][i];
                    t[(i + 1) * steps + i] = off[j][i];
                }
            }
            let (values, vectors) = eigen(&t, steps);
            let weight = |k: usize| (norms[j] * vectors[k]).powi(2);
            values.iter().enumerate().map(|(k, theta)| (*theta, weight(k))).collect()
        };
        Ok((0..c).map(of_column).collect())
    }

    pub(super) fn eigenpro(&self) -> Result<Solution> {
        let (n, c) = (self.k.size().0, self.columns());
        let centers = self.sample();
        let s = centers.len();
        let of_sample = self.k.columns(&centers);
        let own: Vec<f64> = centers
            .iter()
            .flat_map(|&i| of_sample[i as usize * s..][..s].iter().map(|&k| f64::from(k)))
            .collect();
        let (values, vectors) = eigen(&own, s);
        // Directions below f32 rounding of the largest say nothing.
        let sound = values.iter().take_while(|v| **v > 1e-5 * values[0]).count();
        let q = FLATTENED.min(sound.saturating_sub(1)).min(s / 2);
        let tau = values.get(q).copied().unwrap_or(0.0).max(0.0);
        // V diag((1 - tau / s_i) / s_i) V' on the sample.
        let correct = |r: &[f64]| -> Vec<f64> {
            let seen = transposed_product(&of_sample, s, r, c);
            let mut along = vec![0.0; q * c];
            for (row, seen) in vectors.chunks_exact(s).zip(seen.chunks_exact(c)) {
                for (out, v) in along.chunks_exact_mut(c).zip(&row[..q]) {
                    add(out, *v, seen);
                }
            }
            for (out, value) in along.chunks_exact_mut(c).zip(&values) {
                let factor = (1.0 - tau / value) / value;
                out.iter_mut().for_each(|x| *x *= factor);
            }
            let mut step = r.to_vec();
            for (&i, row) in centers.iter().zip(vectors.chunks_exact(s)) {
                let to = &mut step[i as usize * c..][..c];
                for (x, v) in along.chunks_exact(c).zip(&row[..q]) {
                    add(to, -v, x);
                }
            }
            step
        };
        // The largest eigenvalue of P (K + lambda I) by the power method, from y.
        let mut x = self.y.values().to_vec();
        let mut largest = 0.0f64;
        for _ in 0..POWER {
            self.job.check()?;
            let size = norm(&x);
            if size == 0.0 {
                break;
            }
            x.iter_mut().for_each(|x| *x /= size);
            x = correct(&self.apply(&x));
            largest = largest.max(norm(&x));
        }
        let mut eta = if largest > 0.0 { 1.0 / (1.1 * largest) } else { 1.0 };
        let mut alpha = vec![0.0; n * c];
        let mut r = self.y.values().to_vec();
        let stop = self.settings.tolerance * scale(&r);
        let (mut steps, mut before) = (0, f64::INFINITY);
        while steps < self.settings.iterations && norm(&r) > stop {
            self.job.check()?;
            // P (K + lambda I) is not normal: a residual that grows asks for a smaller step.
            let now = norm(&r);
            if now > 2.0 * before {
                eta /= 2.0;
            }
            before = before.min(now);
            let step = correct(&r);
            add(&mut alpha, eta, &step);
            let moved = self.apply(&step);
            add(&mut r, -eta, &moved);
            steps += 1;
        }
        Ok(self.finished(alpha, steps, None))
    }
}

fn column(x: &[f64], c: usize, j: usize) -> Vec<f64> {
    x.iter().skip(j).step_by(c).copied().collect()
}
