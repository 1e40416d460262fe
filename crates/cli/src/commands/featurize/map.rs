//! The flags that describe a map, shared by the verbs that make one.

use std::fmt;

use clap::{Args, ValueEnum};
use veridical::features::{Directions, Kernel};
use veridical::featurize::{LengthScale, NewSpec, Normalization};

/// What phi is made of.
#[derive(Args, Debug)]
#[command(next_help_heading = "Map")]
pub struct MapArgs {
    /// gaussian, laplace, cauchy, matern-1/2, matern-3/2, matern-5/2 [default: gaussian]
    #[arg(long, value_name = "NAME", value_parser = parse_kernel, conflicts_with = "mixture")]
    kernel: Option<Kernel>,
    /// A mixture of gaussians: factors of the length scale and their weights
    #[arg(long, value_name = "S:W,S:W", value_parser = parse_mixture, allow_hyphen_values = true)]
    mixture: Option<Kernel>,
    /// l: a number, `median` or `sklearn-gamma-scale` [default: 1, or median with --data]
    #[arg(long, value_name = "L", value_parser = parse_length_scale, allow_hyphen_values = true)]
    length_scale: Option<LengthScale>,
    /// scikit-learn's gamma = 1 / (2 l^2), instead of --length-scale
    #[arg(long, value_name = "G", conflicts_with = "length_scale", allow_hyphen_values = true)]
    gamma: Option<f64>,
    /// How the directions are drawn [default: orthogonal, or iid for laplace and cauchy]
    #[arg(long, value_enum)]
    directions: Option<DirectionsArg>,
    /// What is done to a row first
    #[arg(long, value_enum, default_value = "unit")]
    normalize: NormalizeArg,
    /// Seed of the directions, 0 to 2^53 - 1
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

impl MapArgs {
    /// Settings of a spec; widths and data are the caller's.
    pub fn settings(&self, with_data: bool) -> NewSpec {
        let rule = if with_data { LengthScale::Median } else { LengthScale::Fixed(1.0) };
        NewSpec {
            seed: self.seed,
            kernel: self.kernel.as_ref().or(self.mixture.as_ref()).cloned().unwrap_or_default(),
            length_scale: match self.gamma {
                Some(gamma) => LengthScale::Gamma(gamma),
                None => self.length_scale.unwrap_or(rule),
            },
            directions: self.directions.map(|directions| match directions {
                DirectionsArg::Iid => Directions::Iid,
                DirectionsArg::Orthogonal => Directions::Orthogonal,
                DirectionsArg::Hadamard => Directions::Hadamard,
                DirectionsArg::Halton => Directions::Halton,
            }),
            normalize: match self.normalize {
                NormalizeArg::None => Normalization::None,
                NormalizeArg::Unit => Normalization::Unit,
                NormalizeArg::Standardize => Normalization::Standardize,
            },
            ..NewSpec::default()
        }
    }
}

/// The flags that were given, each after a blank: the same map for the next command.
impl fmt::Display for MapArgs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(kernel) = &self.kernel {
            write!(f, " --kernel {}", kernel.name())?;
        }
        if let Some(Kernel::Mixture { scales, weights }) = &self.mixture {
            let parts: Vec<String> =
                scales.iter().zip(weights).map(|(s, w)| format!("{s}:{w}")).collect();
            write!(f, " --mixture {}", parts.join(","))?;
        }
        match self.length_scale {
            Some(LengthScale::Fixed(l)) => write!(f, " --length-scale {l}")?,
            Some(LengthScale::Median) => write!(f, " --length-scale median")?,
            Some(LengthScale::SklearnGammaScale) => {
                write!(f, " --length-scale sklearn-gamma-scale")?;
            }
            Some(LengthScale::Gamma(_)) | None => {}
        }
        if let Some(gamma) = self.gamma {
            write!(f, " --gamma {gamma}")?;
        }
        if let Some(directions) = self.directions.and_then(|d| d.to_possible_value()) {
            write!(f, " --directions {}", directions.get_name())?;
        }
        if let Some(normalize) = self.normalize.to_possible_value()
            && normalize.get_name() != "unit"
        {
            write!(f, " --normalize {}", normalize.get_name())?;
        }
        if self.seed != 0 { write!(f, " --seed {}", self.seed) } else { Ok(()) }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DirectionsArg {
    /// Independent
    Iid,
    /// Orthogonal inside blocks of d: a smaller error
    Orthogonal,
    /// Nothing stored, O(D log d) for a row: fastest for wide vectors
    Hadamard,
    /// Evenly spread points, for vectors of up to 32 values
    Halton,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum NormalizeArg {
    /// Nothing
    None,
    /// Rows of length one
    Unit,
    /// Columns of mean 0 and deviation 1, measured on --data
    Standardize,
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

/// The names of specs, and the forms of `matern-3/2` that other libraries use.
fn parse_kernel(text: &str) -> Result<Kernel, String> {
    let name = match text.to_ascii_lowercase().as_str() {
        "rbf" => "gaussian".to_owned(),
        "matern12" | "matern-12" | "matern-0.5" => "matern-1/2".to_owned(),
        "matern32" | "matern-32" | "matern-1.5" => "matern-3/2".to_owned(),
        "matern52" | "matern-52" | "matern-2.5" => "matern-5/2".to_owned(),
        other => other.to_owned(),
    };
    match Kernel::from_name(&name) {
        Some(Kernel::Mixture { .. }) => Err("needs its components: --mixture S:W,S:W".to_owned()),
        Some(kernel) => Ok(kernel),
        None => Err(format!("must be one of {}", Kernel::NAMES.join(", "))),
    }
}

fn parse_mixture(text: &str) -> Result<Kernel, String> {
    let component = |part: &str| {
        let (scale, weight) = part.split_once(':').unwrap_or((part, "1"));
        Some((scale.trim().parse::<f64>().ok()?, weight.trim().parse::<f64>().ok()?))
    };
    let components: Option<Vec<_>> = text.split(',').map(component).collect();
    let components = components.ok_or("must be scales and weights such as 0.5:1,1:2,4:1")?;
    let (scales, weights) = components.into_iter().unzip();
    Ok(Kernel::Mixture { scales, weights })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Map {
        #[command(flatten)]
        map: MapArgs,
    }

    /// What the next command is told makes the same map.
    #[test]
    fn the_flags_that_were_given_are_repeated() {
        for flags in [
            "",
            " --kernel matern-3/2 --length-scale 0.5 --directions hadamard --normalize none --seed 7",
            " --mixture 0.5:1,2:3 --length-scale median --normalize standardize",
            " --length-scale sklearn-gamma-scale",
            " --gamma 0.25 --directions iid",
        ] {
            let parsed = Map::try_parse_from(format!("map{flags}").split(' ')).unwrap();
            assert_eq!(parsed.map.to_string(), flags);
        }
    }
}
