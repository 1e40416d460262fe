//! The length scale l_j of each direction: u_j is a standard Gaussian (or its rotation) over l_j.
//!
//! gaussian, laplace, cauchy  l_j = l
//! mixture                    l_j = l s_c, component c of direction j with probability w_c / sum w
//! matern, 2 nu = n           l_j = l sqrt(chi^2_n / n), one chi^2 for each direction

use veridical_core::Stream;

use crate::{FeatureSpec, Kernel};

/// Length scales l_j of the directions of a spec.
pub(crate) struct Scales<'a> {
    spec: &'a FeatureSpec,
    stream: Stream,
    total_weight: f64,
}

impl<'a> Scales<'a> {
    pub fn new(spec: &'a FeatureSpec) -> Self {
        let (name, total_weight) = match spec.kernel() {
            Kernel::Mixture { weights, .. } => ("mixture", weights.iter().sum()),
            _ => ("matern", 1.0),
        };
        Self { spec, stream: Stream::new(spec.seed(), name), total_weight }
    }

    pub fn of(&self, j: usize) -> f64 {
        let l = self.spec.length_scale();
        let place = self.stream.at(0, j as u64);
        if let Kernel::Mixture { scales, weights } = self.spec.kernel() {
            let target = place.uniform(0) * self.total_weight;
            let (mut component, mut reached) = (0, weights[0]);
            while component + 1 < weights.len() && target >= reached {
                component += 1;
                reached += weights[component];
            }
            return l * scales[component];
        }
        let Some(n) = self.spec.kernel().degrees_of_freedom() else { return l };
        let mut z = [0.0; 5];
        place.fill_normals(&mut z);
        let chi_squared = z[1..n].iter().fold(z[0] * z[0], |sum, z| sum + z * z);
        l * (chi_squared / n as f64).sqrt()
    }
}
