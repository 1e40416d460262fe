//! Settings of a feature map: kernel, length scale, directions and normalization.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use veridical_core::settings::{Kind, Setting};
use veridical_core::{choices, settings};
use veridical_features::{Directions, Kernel};

settings! {
    /// Settings of the feature map phi.
    pub struct MapSettings in "Map" {
        /// Kernel: gaussian, laplace, cauchy, matern-1/2, matern-3/2, matern-5/2
        pub kernel: Option<KernelName> = None => [excludes(&["mixture"]), otherwise(Kernel::default().name())],
        /// Mixture of gaussians: factors of the length scale and their weights
        pub mixture: Option<Mixture> = None => [value("S:W,S:W"), dashes()],
        /// Length scale l: a number, `median` or `sklearn-gamma-scale`
        pub length_scale: Option<LengthScale> = None => [value("L"), dashes(), otherwise("1, or median with ⟨data⟩")],
        /// scikit-learn's gamma = 1 / (2 l^2), instead of ⟨length-scale⟩
        pub gamma: Option<f64> = None => [value("G"), excludes(&["length-scale"])],
        /// How the random directions are sampled
        pub directions: Option<Directions> = None
            => [value("DIRECTIONS"), otherwise("orthogonal, or iid for laplace and cauchy")],
        /// Normalization of the input rows
        pub normalize: Normalization = Normalization::Unit => [value("NORMALIZE")],
        /// Random seed of the directions, 0 to 2^53 - 1
        pub seed: u64 = 0 => [value("SEED")],
    }
}

impl MapSettings {
    /// Returns the kernel.
    pub fn kernel(&self) -> Kernel {
        let mixture = self.mixture.as_ref().map(|mixture| mixture.0.clone());
        self.kernel.as_ref().map(|kernel| kernel.0.clone()).or(mixture).unwrap_or_default()
    }

    /// Returns the length scale, or the rule that determines it.
    pub(super) fn rule(&self, with_data: bool) -> Rule {
        let usual = if with_data { LengthScale::Median } else { LengthScale::Fixed(1.0) };
        match (self.gamma, self.length_scale.unwrap_or(usual)) {
            (Some(gamma), _) => Rule::Gamma(gamma),
            (None, LengthScale::Fixed(l)) => Rule::Fixed(l),
            (None, LengthScale::Median) => Rule::Median,
            (None, LengthScale::SklearnGammaScale) => Rule::SklearnGammaScale,
        }
    }
}

choices! {
    /// Normalization of the input rows.
    pub enum Normalization {
        /// No normalization
        None = "none",
        /// Rows scaled to unit length
        Unit = "unit",
        /// Columns standardized to mean 0 and standard deviation 1
        Standardize = "standardize",
    }
}

/// How the length scale is determined, including through `gamma`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Rule {
    /// A fixed length scale.
    Fixed(f64),
    /// Through scikit-learn's gamma = 1 / (2 l^2).
    Gamma(f64),
    /// The median distance between rows of the data.
    Median,
    /// scikit-learn's `gamma="scale"` on the data.
    SklearnGammaScale,
}

/// Setting of the length scale: a number or a rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LengthScale {
    /// A fixed length scale.
    Fixed(f64),
    /// The median distance between rows of the data.
    Median,
    /// scikit-learn's `gamma="scale"` on the data.
    SklearnGammaScale,
}

/// A kernel, parsed from its name or a common alias.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelName(pub Kernel);

/// A mixture of gaussians, parsed from `S:W,S:W`.
#[derive(Clone, Debug, PartialEq)]
pub struct Mixture(pub Kernel);

macro_rules! as_text {
    ($( $type:ident: $shown:expr, $parse:expr; )*) => {
        $(
            impl Setting for $type {
                const KIND: Kind = Kind::Text;
            }

            impl Serialize for $type {
                fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                    let shown: fn(&Self) -> String = $shown;
                    shown(self).serialize(to)
                }
            }

            impl<'de> Deserialize<'de> for $type {
                fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                    let parse: fn(&str) -> Result<Self, String> = $parse;
                    parse(&Spelled::deserialize(from)?.text()).map_err(D::Error::custom)
                }
            }
        )*
    };
}

/// Text, or a number in its place.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected text or a number")]
enum Spelled {
    Text(String),
    Number(f64),
}

impl Spelled {
    fn text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Number(number) => number.to_string(),
        }
    }
}

as_text! {
    LengthScale: |scale| match scale {
        LengthScale::Fixed(l) => l.to_string(),
        LengthScale::Median => "median".into(),
        LengthScale::SklearnGammaScale => "sklearn-gamma-scale".into(),
    }, parse_length_scale;
    KernelName: |kernel| kernel.0.name().to_owned(), parse_kernel;
    Mixture: |mixture| match &mixture.0 {
        Kernel::Mixture { scales, weights } => {
            let parts = scales.iter().zip(weights).map(|(s, w)| format!("{s}:{w}"));
            parts.collect::<Vec<_>>().join(",")
        }
        other => other.name().to_owned(),
    }, parse_mixture;
}

fn parse_length_scale(text: &str) -> Result<LengthScale, String> {
    match text {
        "median" => Ok(LengthScale::Median),
        "sklearn-gamma-scale" => Ok(LengthScale::SklearnGammaScale),
        number => number
            .parse()
            .map(LengthScale::Fixed)
            .map_err(|_| "must be a number, `median` or `sklearn-gamma-scale`".to_owned()),
    }
}

/// Parses the name of a kernel, including the spellings of `matern-3/2` in other libraries.
fn parse_kernel(text: &str) -> Result<KernelName, String> {
    let name = match text.to_ascii_lowercase().as_str() {
        "rbf" => "gaussian".to_owned(),
        "matern12" | "matern-12" | "matern-0.5" => "matern-1/2".to_owned(),
        "matern32" | "matern-32" | "matern-1.5" => "matern-3/2".to_owned(),
        "matern52" | "matern-52" | "matern-2.5" => "matern-5/2".to_owned(),
        other => other.to_owned(),
    };
    match Kernel::from_name(&name) {
        Some(Kernel::Mixture { .. }) => Err("needs its components: ⟨mixture S:W,S:W⟩".to_owned()),
        Some(kernel) => Ok(KernelName(kernel)),
        None => Err(format!("must be one of {}", Kernel::NAMES.join(", "))),
    }
}

fn parse_mixture(text: &str) -> Result<Mixture, String> {
    let component = |part: &str| {
        let (scale, weight) = part.split_once(':').unwrap_or((part, "1"));
        Some((scale.trim().parse::<f64>().ok()?, weight.trim().parse::<f64>().ok()?))
    };
    let components: Option<Vec<_>> = text.split(',').map(component).collect();
    let components = components.ok_or("must be scales and weights such as 0.5:1,1:2,4:1")?;
    let (scales, weights) = components.into_iter().unzip();
    Ok(Mixture(Kernel::Mixture { scales, weights }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use veridical_core::settings::Settings as _;

    use super::*;

    fn settings(values: serde_json::Value) -> veridical_core::Result<MapSettings> {
        MapSettings::of(values.as_object().unwrap())
    }

    #[test]
    fn values_come_back_as_they_were_given() {
        let given = json!({
            "kernel": "matern-3/2", "length-scale": "0.5", "directions": "hadamard", "normalize": "none", "seed": 7,
        });
        let map = settings(given.clone()).unwrap();
        let values = map.values();
        assert!(given.as_object().unwrap().iter().all(|(name, value)| values[name] == *value));
        let mixed = settings(json!({ "mixture": "0.5:1,2:3", "length-scale": 2 })).unwrap();
        assert_eq!(mixed.values()["mixture"], "0.5:1,2:3");
        assert_eq!(mixed.length_scale, Some(LengthScale::Fixed(2.0)));
        assert_eq!(settings(json!({ "kernel": "rbf" })).unwrap().kernel(), Kernel::Gaussian);
    }

    #[test]
    fn what_is_no_map_is_named() {
        let refused = |values| settings(values).unwrap_err().to_string();
        let message = refused(json!({ "length-scale": "wide" }));
        assert_eq!(message, "⟨length-scale⟩: must be a number, `median` or `sklearn-gamma-scale`");
        assert!(refused(json!({ "kernel": "mixture" })).contains("needs its components"));
        assert!(refused(json!({ "kernel": "cosine" })).contains("must be one of gaussian"));
    }
}
