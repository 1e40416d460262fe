//! The feature spec: the document that determines phi completely (`docs/format-spec.md`).

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use veridical_core::Seed;
use veridical_core::choices;

use crate::{Error, Kernel, Normalize};

const FORMAT: u64 = 1;
const MAX_INPUT_DIM: usize = 1 << 20;
const MAX_OUTPUT_DIM: usize = 1 << 24;
/// Limit on m d: eight gigabytes of directions in f32.
const MAX_DIRECTION_ELEMENTS: usize = 1 << 31;

choices! {
    /// How the directions U are drawn
    pub enum Directions {
        /// Independent directions
        Iid = "iid",
        /// Orthogonal within blocks of d: smaller error
        Orthogonal = "orthogonal",
        /// Not stored, O(D log d) per row: fastest for wide vectors
        Hadamard = "hadamard",
        /// Evenly spread (quasi-Monte Carlo) points, for vectors of up to 32 values
        Halton = "halton",
    }
}

/// Settings of a [`FeatureSpec`]. Setters accept anything; [`build`](Self::build) validates all settings.
#[derive(Clone, Debug, PartialEq)]
pub struct FeatureSpecParams {
    input_dim: usize,
    output_dim: usize,
    seed: u64,
    kernel: Kernel,
    length_scale: f64,
    directions: Option<Directions>,
    normalize: Normalize,
}

impl FeatureSpecParams {
    /// Sets the random seed of the directions. Default: 0.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets the kernel. Default: gaussian.
    pub fn kernel(mut self, kernel: Kernel) -> Self {
        self.kernel = kernel;
        self
    }

    /// Sets the length scale l, in the units of the normalized rows. Default: 1.
    pub fn length_scale(mut self, length_scale: f64) -> Self {
        self.length_scale = length_scale;
        self
    }

    /// Sets the family of directions. Default: orthogonal, or iid where the kernel allows nothing else.
    pub fn directions(mut self, directions: Directions) -> Self {
        self.directions = Some(directions);
        self
    }

    /// Sets the normalization of rows. Default: unit length.
    pub fn normalize(mut self, normalize: Normalize) -> Self {
        self.normalize = normalize;
        self
    }

    /// Validates the settings and computes the ids.
    ///
    /// # Errors
    /// [`Error::Param`] names the first setting that is out of range.
    pub fn build(mut self) -> Result<FeatureSpec, Error> {
        self.directions = Some(self.family());
        self.check()?;
        let spec_id = self.id(true);
        let directions_id = self.id(false);
        Ok(FeatureSpec { params: self, spec_id, directions_id })
    }

    fn family(&self) -> Directions {
        let isotropic = self.kernel.is_isotropic();
        self.directions.unwrap_or(if isotropic { Directions::Orthogonal } else { Directions::Iid })
    }

    fn check(&self) -> Result<(), Error> {
        let (d, big_d) = (self.input_dim, self.output_dim);
        if d == 0 || d > MAX_INPUT_DIM {
            return Err(Error::param("input_dim", format!("from 1 to {MAX_INPUT_DIM}"), d));
        }
        if big_d == 0 || big_d % 2 == 1 {
            let must_be = "even and at least 2 (a cosine and a sine for each direction)";
            return Err(Error::param("output_dim", must_be, big_d));
        }
        if big_d > MAX_OUTPUT_DIM || (big_d / 2) * d > MAX_DIRECTION_ELEMENTS {
            let must_be =
                format!("at most {MAX_OUTPUT_DIM}, with input_dim x output_dim / 2 at most 2^31");
            return Err(Error::param("output_dim", must_be, format!("{big_d} with input_dim {d}")));
        }
        if self.seed > Seed::MAX {
            return Err(Error::param("seed", "an integer from 0 to 2^53 - 1", self.seed));
        }
        let l = self.length_scale;
        if !(l.is_finite() && l > 0.0) {
            return Err(Error::param("length_scale", "finite and above 0", l));
        }
        self.kernel.check(l)?;
        self.kernel.check_family(self.family())?;
        self.normalize.check(d)
    }

    /// One line per field, in the order of the format page.
    fn id(&self, with_output_dim: bool) -> String {
        let mut text = format!("veridical-spec/1\nformat={FORMAT}\ninput_dim={}\n", self.input_dim);
        // Writing to a String cannot fail.
        if with_output_dim {
            let _ = writeln!(text, "output_dim={}", self.output_dim);
        }
        let _ = writeln!(text, "seed={}", self.seed);
        let _ = writeln!(text, "kernel={}", self.kernel.name());
        let _ = writeln!(text, "length_scale={:016x}", self.length_scale.to_bits());
        if let Kernel::Mixture { scales, weights } = &self.kernel {
            let _ = writeln!(text, "scales={}", hex_floats(scales));
            let _ = writeln!(text, "weights={}", hex_floats(weights));
        }
        let _ = writeln!(text, "directions={}", self.family().name());
        let _ = writeln!(text, "normalize={}", self.normalize.name());
        if let Normalize::Standardize { means, deviations } = &self.normalize {
            let _ = writeln!(text, "means={}", hex_floats(means));
            let _ = writeln!(text, "deviations={}", hex_floats(deviations));
        }
        hex(&Sha256::digest(text))
    }
}

fn hex_floats(values: &[f64]) -> String {
    let digits: Vec<String> = values.iter().map(|x| format!("{:016x}", x.to_bits())).collect();
    digits.join(",")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// A validated spec with its ids.
#[derive(Clone, Debug, PartialEq)]
pub struct FeatureSpec {
    params: FeatureSpecParams,
    spec_id: String,
    directions_id: String,
}

impl FeatureSpec {
    /// Starts a spec for rows of width `input_dim` and features of width `output_dim`.
    pub fn params(input_dim: usize, output_dim: usize) -> FeatureSpecParams {
        FeatureSpecParams {
            input_dim,
            output_dim,
            seed: 0,
            kernel: Kernel::default(),
            length_scale: 1.0,
            directions: None,
            normalize: Normalize::Unit,
        }
    }

    /// Reads the JSON document and verifies its ids.
    ///
    /// # Errors
    /// [`Error::Document`] for anything that is not a spec of format 1, [`Error::Param`] for a field
    /// out of range, [`Error::Id`] for a document that was edited.
    ///
    /// ```
    /// use veridical_features::FeatureSpec;
    ///
    /// let spec = FeatureSpec::params(4, 16).build()?;
    /// assert_eq!(FeatureSpec::from_json(&spec.to_json())?, spec);
    ///
    /// let edited = spec.to_json().replace("\"seed\": 0", "\"seed\": 1");
    /// let error = FeatureSpec::from_json(&edited).unwrap_err();
    /// assert!(error.to_string().starts_with("the spec_id does not match the fields"));
    /// # Ok::<(), veridical_features::Error>(())
    /// ```
    pub fn from_json(text: &str) -> Result<Self, Error> {
        let document = |e: serde_json::Error| Error::Document(e.to_string());
        let Format { format } = serde_json::from_str(text).map_err(document)?;
        if format != FORMAT {
            let why = format!("format {format}, but this version reads format {FORMAT} only");
            return Err(Error::Document(why));
        }
        let d: Document = serde_json::from_str(text).map_err(document)?;
        let normalize = match (d.normalize, d.means, d.deviations) {
            (NormalizeName::None, None, None) => Normalize::None,
            (NormalizeName::Unit, None, None) => Normalize::Unit,
            (NormalizeName::Standardize, Some(means), Some(deviations)) => {
                Normalize::Standardize { means, deviations }
            }
            _ => {
                let why =
                    "means and deviations must be present exactly when normalize is standardize";
                return Err(Error::Document(why.into()));
            }
        };
        let kernel = match (Kernel::from_name(&d.kernel), d.scales, d.weights) {
            (Some(Kernel::Mixture { .. }), Some(scales), Some(weights)) => {
                Kernel::Mixture { scales, weights }
            }
            (None, ..) => {
                let (name, known) = (d.kernel, Kernel::NAMES.join(", "));
                return Err(Error::Document(format!(
                    "unknown kernel `{name}`; known kernels: {known}"
                )));
            }
            (Some(kernel), None, None) if !matches!(kernel, Kernel::Mixture { .. }) => kernel,
            _ => {
                let why = "scales and weights must be present exactly when kernel is mixture";
                return Err(Error::Document(why.into()));
            }
        };
        let params = FeatureSpecParams {
            input_dim: d.input_dim,
            output_dim: d.output_dim,
            seed: d.seed,
            kernel,
            length_scale: d.length_scale,
            directions: Some(d.directions),
            normalize,
        };
        let spec = params.build()?;
        let verify = |which, stated: String, computed: &str| {
            if stated == computed {
                return Ok(());
            }
            Err(Error::Id { which, stated, computed: computed.to_owned() })
        };
        verify("spec_id", d.spec_id, &spec.spec_id)?;
        verify("directions_id", d.directions_id, &spec.directions_id)?;
        Ok(spec)
    }

    /// Returns the JSON document, ending with a newline.
    pub fn to_json(&self) -> String {
        let p = &self.params;
        let (normalize, means, deviations) = match &p.normalize {
            Normalize::None => (NormalizeName::None, None, None),
            Normalize::Unit => (NormalizeName::Unit, None, None),
            Normalize::Standardize { means, deviations } => {
                (NormalizeName::Standardize, Some(means.clone()), Some(deviations.clone()))
            }
        };
        let (scales, weights) = match &p.kernel {
            Kernel::Mixture { scales, weights } => (Some(scales.clone()), Some(weights.clone())),
            _ => (None, None),
        };
        let document = Document {
            format: FORMAT,
            input_dim: p.input_dim,
            output_dim: p.output_dim,
            seed: p.seed,
            kernel: p.kernel.name().to_owned(),
            length_scale: p.length_scale,
            scales,
            weights,
            directions: p.family(),
            normalize,
            means,
            deviations,
            spec_id: self.spec_id.clone(),
            directions_id: self.directions_id.clone(),
        };
        // INVARIANT: numbers, strings and lists of finite floats always serialize.
        serde_json::to_string_pretty(&document).expect("a checked spec serializes") + "\n"
    }

    /// Returns the spec of the first `output_dim` coordinates of this map (rescaled).
    ///
    /// # Errors
    /// [`Error::Param`] if `output_dim` is odd or larger than the spec's.
    pub fn prefix(&self, output_dim: usize) -> Result<Self, Error> {
        if output_dim > self.output_dim() {
            let must_be = format!("at most the spec's output_dim {}", self.output_dim());
            return Err(Error::param("output_dim", must_be, output_dim));
        }
        FeatureSpecParams { output_dim, ..self.params.clone() }.build()
    }

    /// Returns d, the width of the rows.
    pub fn input_dim(&self) -> usize {
        self.params.input_dim
    }

    /// Returns D = 2m, the width of phi.
    pub fn output_dim(&self) -> usize {
        self.params.output_dim
    }

    /// Returns m, the number of directions.
    pub fn n_directions(&self) -> usize {
        self.params.output_dim / 2
    }

    /// Returns the random seed of the directions.
    pub fn seed(&self) -> Seed {
        // INVARIANT: `build` checked the range.
        Seed::new(self.params.seed).expect("the seed was checked")
    }

    /// Returns the kernel.
    pub fn kernel(&self) -> &Kernel {
        &self.params.kernel
    }

    /// Returns the length scale l.
    pub fn length_scale(&self) -> f64 {
        self.params.length_scale
    }

    /// Returns the family of directions.
    pub fn directions(&self) -> Directions {
        self.params.family()
    }

    /// Returns the same map with another family of directions, for comparisons.
    ///
    /// # Errors
    /// [`Error::Param`] if the kernel does not allow the family.
    pub fn with_directions(&self, directions: Directions) -> Result<Self, Error> {
        self.params.clone().directions(directions).build()
    }

    /// Returns the same map with another seed or width, for ablations.
    ///
    /// # Errors
    /// [`Error::Param`] if the seed or the width is out of range.
    pub fn redrawn(&self, seed: u64, output_dim: usize) -> Result<Self, Error> {
        FeatureSpecParams { output_dim, ..self.params.clone() }.seed(seed).build()
    }

    /// Returns the normalization of rows.
    pub fn normalize(&self) -> &Normalize {
        &self.params.normalize
    }

    /// Returns the id that identifies every bit of phi.
    pub fn spec_id(&self) -> &str {
        &self.spec_id
    }

    /// Returns the id of the directions, which a spec shares with its prefixes.
    pub fn directions_id(&self) -> &str {
        &self.directions_id
    }
}

#[derive(Deserialize)]
struct Format {
    format: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum NormalizeName {
    None,
    Unit,
    Standardize,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    format: u64,
    input_dim: usize,
    output_dim: usize,
    seed: u64,
    kernel: String,
    length_scale: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    scales: Option<Vec<f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    weights: Option<Vec<f64>>,
    directions: Directions,
    normalize: NormalizeName,
    #[serde(skip_serializing_if = "Option::is_none")]
    means: Option<Vec<f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deviations: Option<Vec<f64>>,
    spec_id: String,
    directions_id: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(params: FeatureSpecParams) -> String {
        params.build().unwrap_err().to_string()
    }

    #[test]
    fn settings_out_of_range_are_named() {
        let p = || FeatureSpec::params(3, 4);
        let even =
            "output_dim must be even and at least 2 (a cosine and a sine for each direction)";
        assert_eq!(message(FeatureSpec::params(3, 5)), format!("{even}, got 5"));
        assert_eq!(message(FeatureSpec::params(3, 0)), format!("{even}, got 0"));
        assert_eq!(
            message(FeatureSpec::params(0, 4)),
            "input_dim must be from 1 to 1048576, got 0"
        );
        assert!(message(FeatureSpec::params(1 << 20, 1 << 24)).contains("at most 2^31"));
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let want = format!("length_scale must be finite and above 0, got {bad}");
            assert_eq!(message(p().length_scale(bad)), want);
        }
        assert!(
            message(p().seed(1 << 53)).starts_with("seed must be an integer from 0 to 2^53 - 1")
        );
        let short = Normalize::Standardize { means: vec![0.0; 2], deviations: vec![1.0; 3] };
        assert_eq!(message(p().normalize(short)), "means must be one number per column (3), got 2");
        let zero = Normalize::Standardize { means: vec![0.0; 3], deviations: vec![1.0, 0.0, 1.0] };
        assert!(message(p().normalize(zero)).starts_with("deviations must be finite and above 0"));
    }

    #[test]
    fn unknown_fields_formats_and_edits_are_refused() {
        let json = FeatureSpec::params(3, 4).build().unwrap().to_json();
        let refused = |text: &str| FeatureSpec::from_json(text).unwrap_err().to_string();
        assert!(refused(&json.replace("\"seed\"", "\"sead\"")).contains("unknown field `sead`"));
        assert!(refused(&json.replace("\"format\": 1", "\"format\": 2")).contains("format 2"));
        assert!(refused(&json.replace("1.0", "1.5")).contains("spec_id does not match"));
        assert!(refused(&json.replace("unit", "standardize")).contains("means and deviations"));
        assert!(refused(&json.replace("gaussian", "mixture")).contains("scales and weights"));
        assert!(refused(&json.replace("gaussian", "linear")).contains("unknown kernel `linear`"));
        assert!(refused("[]").starts_with("not a feature spec"));
        assert!(refused("").starts_with("not a feature spec"));
    }

    #[test]
    fn a_prefix_shares_the_directions_id_and_not_the_spec_id() {
        let spec = FeatureSpec::params(3, 8).build().unwrap();
        let prefix = spec.prefix(4).unwrap();
        assert_eq!(prefix.directions_id(), spec.directions_id());
        assert_ne!(prefix.spec_id(), spec.spec_id());
        let message = spec.prefix(10).unwrap_err().to_string();
        assert_eq!(message, "output_dim must be at most the spec's output_dim 8, got 10");
    }

    proptest! {
        #[test]
        fn json_round_trips_every_float(
            l in prop::num::f64::POSITIVE | prop::num::f64::SUBNORMAL, seed in 0..=Seed::MAX,
            means in prop::collection::vec(prop::num::f64::NORMAL, 3)
        ) {
            prop_assume!(l > 0.0 && l.is_finite());
            let deviations = means.iter().map(|m| m.abs()).collect();
            let spec = FeatureSpec::params(3, 8)
                .seed(seed)
                .length_scale(l)
                .normalize(Normalize::Standardize { means, deviations })
                .build()
                .unwrap();
            prop_assert_eq!(FeatureSpec::from_json(&spec.to_json()).unwrap(), spec);
        }
    }
}
