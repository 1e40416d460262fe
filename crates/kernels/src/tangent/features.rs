//! Explicit features: the vectors whose inner products are the kernel, Phi(x) . Phi(x') = k(x, x').
//!
//! For one cotangent and no normalization they are the gradient of v . f, layer after layer (paper 004, section 2, (25)); for several
//! cotangents the gradients stand one after the other in each layer, and a normalized kernel has scaled features. They are as long as
//! all parameters together, where factors are not: for regressions in the space of features, not for kernels.

use std::ops::Range;

use veridical_core::Error;
use veridical_nets::Float;

use super::factors::{Factors, LayerFactors};
use super::scale::Scale;
use super::store::{Products, Store};
use crate::Result;

impl<T: Float> Factors<T> {
    /// Returns the length of [`Self::features`].
    ///
    /// # Errors
    /// A request error if an embedding table belongs to the kernel: its gradients are kept by id and have no fixed length.
    pub fn feature_dim(&self) -> Result<usize> {
        self.layers.iter().map(|layer| length(layer, self.cotangents)).sum()
    }

    /// Returns the features of some samples, samples x [`Self::feature_dim`].
    ///
    /// # Errors
    /// The same as [`Self::feature_dim`].
    ///
    /// # Panics
    /// If a sample does not exist.
    pub fn features(&self, samples: Range<usize>) -> Result<Vec<f64>> {
        let (m, dim) = (self.cotangents, self.feature_dim()?);
        let scale = Scale::new(self.normalization, &self.diagonals(), m);
        let mut factors = vec![1.0; self.n];
        scale.multiply(&mut factors);
        let mut rows = Vec::with_capacity(samples.len() * dim);
        for sample in samples {
            let first = rows.len();
            for layer in &self.layers {
                match &layer.store {
                    Store::Products(own) => (0..m).for_each(|v| own.write(sample, v, m, &mut rows)),
                    Store::Vectors { len, lists } => {
                        let all = lists.iter().flat_map(|list| &list[sample * len..][..*len]);
                        rows.extend(all.map(|x| x.wide()));
                    }
                    Store::Sparse(_) => {}
                }
            }
            rows[first..].iter_mut().for_each(|x| *x *= factors[sample]);
        }
        Ok(rows)
    }
}

/// Numbers that a layer adds to the features.
fn length<T>(layer: &LayerFactors<T>, m: usize) -> Result<usize> {
    match &layer.store {
        Store::Products(own) => Ok(m * own.outputs * (own.inputs + usize::from(own.bias > 0.0))),
        Store::Vectors { len, lists } => Ok(len * lists.len()),
        Store::Sparse(_) => {
            let what = format!("layer {}: an embedding table has no list of features", layer.name);
            Err(Error::request(
                what,
                "choose ⟨layers⟩ without it, or a kernel in place of features",
            )
            .into())
        }
    }
}

impl<T: Float> Products<T> {
    /// Appends sum_p delta_p a_p' and rho sum_p delta_p for cotangent v of m.
    fn write(&self, sample: usize, v: usize, m: usize, to: &mut Vec<f64>) {
        let (inputs, outputs) = (self.inputs, self.outputs);
        let first = to.len();
        let weights = outputs * inputs;
        let rho = self.bias.sqrt();
        to.resize(first + weights + if self.bias > 0.0 { outputs } else { 0 }, 0.0);
        for row in self.range(sample) {
            let a = &self.a[row * inputs..][..inputs];
            let delta = &self.delta[(row * m + v) * outputs..][..outputs];
            let (weight, bias) = to[first..].split_at_mut(weights);
            for (w, d) in weight.chunks_exact_mut(inputs).zip(delta) {
                w.iter_mut().zip(a).for_each(|(w, a)| *w += d.wide() * a.wide());
            }
            bias.iter_mut().zip(delta).for_each(|(b, d)| *b += rho * d.wide());
        }
    }
}

#[cfg(test)]
mod tests {
    use veridical_core::Job;

    use super::super::tests::{all, mlp, near, products};
    use super::super::{Kind, Normalization, Path, Settings};

    /// As in the tests of kernels: sums of products of numbers of order 1 round by less than 1e-12 of the largest value.
    #[test]
    fn inner_products_of_features_are_the_kernel_on_every_path() {
        for (name, case) in all() {
            for path in [None, Some(Path::Pairs), Some(Path::Gradient)] {
                for normalization in [Normalization::None, Normalization::Cosine] {
                    let settings = Settings { path, normalization, ..case.settings(Kind::Trntk0) };
                    let factors = case.take(&settings);
                    let Ok(dim) = factors.feature_dim() else {
                        let error = factors.features(0..1).unwrap_err().to_string();
                        assert!(error.contains("an embedding table has no list"), "{error}");
                        continue;
                    };
                    let features = factors.features(0..case.n).unwrap();
                    let rows: Vec<Vec<f64>> = features.chunks(dim).map(<[f64]>::to_vec).collect();
                    let gram = factors.gram_f64(None, &Job::silent()).unwrap();
                    near(&products(&rows), &gram, 1e-12, &format!("{name}, {path:?}"));
                    assert_eq!(factors.features(1..3).unwrap(), features[dim..3 * dim], "{name}");
                }
            }
        }
    }

    /// Those of one cotangent are the gradient in the order of the parameters, and those of the last layer are its part.
    #[test]
    fn features_are_the_gradient_in_the_order_of_parameters() {
        let case = mlp::<f64>(6);
        let want = case.gradients(|_, _| vec![1.0, 0.0, -1.0]).concat();
        let settings = case.settings(Kind::Difference(0, 2));
        let factors = case.take(&settings);
        near(&factors.features(0..6).unwrap(), &want, 1e-12, "gradient");
        let head = case.net.head_name().unwrap().to_owned();
        let of_head = Settings { layers: vec![head], ..settings };
        let own = case.take(&of_head);
        let (dim, count) = (own.feature_dim().unwrap(), case.net.params.len());
        let part: Vec<f64> = want.chunks(count).flat_map(|g| g[count - dim..].to_vec()).collect();
        near(&own.features(0..6).unwrap(), &part, 1e-12, "head");
        let ck = case.take(&case.settings(Kind::Ck));
        assert_eq!(ck.feature_dim().unwrap(), 10);
        assert!(ck.features(0..6).unwrap().chunks(10).all(|row| row[9] == 1.0));
    }
}
