//! Tangent kernels of a network from the taps of its layers (paper 004, section 1).
//!
//! The gradient of v . f(x_i) with respect to the weights of layer l is G_il^v = sum_p delta_ilp^v a_ilp', with a extended by rho for
//! the bias; rho is the scale of the bias over that of the weights, and delta includes the latter. Then
//!
//! K_l^{v,w}(i, j) = <G_il^v, G_jl^w> = sum_pq (a_ip . a_jq)(delta_ip^v . delta_jq^w)
//!
//! | kernel | k(i, j) |
//! |---|---|
//! | eNTK | C x C blocks of sum_l K_l^{e_c, e_c'} |
//! | trNTK0 | sum_c sum_l K_l^{e_c, e_c}, the trace of the eNTK; trNTK is its cosine form |
//! | pNTK | (1/C) sum_l K_l^{1,1} |
//! | rand-trNTK:m | (1/m) sum_r sum_l K_l^{s_r, s_r} with random signs s_r: its mean is trNTK0 |
//! | difference, margin, loss | of one cotangent: `cotangent` module |
//! | CK | rho^2 + h . h' of the input h of the last dense layer; ck-cos is the cosine of h |
//! | Em | sum_l z_l . z_l' over the outputs of all layers that do more than apply a function to each value; the cosine of the sum |
//!
//! A Jacobian is never formed where its factors are smaller: [`Plan`] chooses for each layer, by a cost model. [`Factors`] keep
//! what is needed of all samples, and give the kernel with any others taken by the same plan; [`kernel`] also computes kernels whose
//! gradients do not fit in memory. Factors have the precision of the network, sums over layers and cotangents are f64, rounded at
//! the end: the cosine of a pair is off by some 3e-7.
//!
//! Norms are frozen. The positions of a BERT encoder include the row of its token type, so both count once.
//!
//! ```
//! use veridical_core::{Job, Seed};
//! use veridical_kernels::tangent::{Examples, Factors, Kind, Plan, Settings};
//! use veridical_nets::{NetConfig, Shape};
//!
//! let net = NetConfig::new("mlp:16".parse()?, Shape::row(3), 2).build::<f32>(Seed::new(0)?)?;
//! let rows = [0.1, 0.2, 0.3, -0.5, 0.0, 1.0];
//! let examples = Examples::new(2, |samples, slot| {
//!     slot.copy_from_slice(&rows[samples.start * 3..samples.end * 3]);
//! });
//! let plan = Plan::new(&net, &examples, None, &Settings::new(Kind::Trntk))?;
//! let factors = Factors::take(&net, &examples, &plan, &Job::silent())?;
//! let gram = factors.gram(None, &Job::silent())?;
//! assert!(gram.row(0)[0] == 1.0 && gram.row(0)[1] < 1.0);
//! # Ok::<(), veridical_kernels::Error>(())
//! ```

mod cotangent;
mod examples;
mod factors;
mod features;
mod kernel;
mod plan;
mod scale;
mod store;
mod stored;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use veridical_core::{Error, Seed};

use crate::Result;
use crate::project::Sketch;
pub use examples::Examples;
pub use factors::Factors;
pub use kernel::{Kernel, Summary, kernel, kernel_into};
pub use plan::{Cost, Path, Plan, PlannedLayer};
pub use stored::{Arrays, Form, StoredLayer};

/// A kernel of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Trace of the empirical NTK, as a cosine.
    Trntk,
    /// Trace of the empirical NTK.
    Trntk0,
    /// Empirical NTK: one row and column for each sample and output.
    Entk,
    /// Pseudo NTK, of the sum of the outputs.
    Pntk,
    /// Mean over so many random signs of the outputs.
    RandomTrntk(usize),
    /// NTK of the difference of two outputs.
    Difference(usize, usize),
    /// NTK of the margin of the label, or of the predicted class.
    Margin,
    /// Inner products of the gradients of the loss.
    Loss,
    /// NTK of so many functions of the scores of a tied table ([`Examples::tied`]).
    Items(usize),
    /// Conjugate kernel.
    Ck,
    /// Cosine of the inputs of the last layer.
    CkCosine,
    /// Cosine of the outputs of all layers.
    Em,
}

impl Kind {
    /// Returns the normalization that the definition of the kernel contains.
    pub fn normalization(&self) -> Normalization {
        match self {
            Self::Trntk | Self::CkCosine | Self::Em => Normalization::Cosine,
            _ => Normalization::None,
        }
    }

    /// Whether it is a kernel of the values of layers rather than of gradients.
    fn is_of_values(&self) -> bool {
        matches!(self, Self::Ck | Self::CkCosine | Self::Em)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trntk => f.write_str("trntk"),
            Self::Trntk0 => f.write_str("trntk0"),
            Self::Entk => f.write_str("entk"),
            Self::Pntk => f.write_str("pntk"),
            Self::RandomTrntk(m) => write!(f, "rand-trntk:{m}"),
            Self::Difference(a, b) => write!(f, "difference:{a},{b}"),
            Self::Margin => f.write_str("margin"),
            Self::Loss => f.write_str("loss"),
            Self::Items(m) => write!(f, "items:{m}"),
            Self::Ck => f.write_str("ck"),
            Self::CkCosine => f.write_str("ck-cos"),
            Self::Em => f.write_str("em"),
        }
    }
}

impl FromStr for Kind {
    type Err = crate::Error;

    fn from_str(text: &str) -> Result<Self> {
        let unknown = || {
            let known = "trntk, trntk0, entk, pntk, rand-trntk:2, difference:0,1, margin, loss, ck, ck-cos or em";
            crate::Error::from(Error::setting("kernel", known, text))
        };
        let number = |text: &str| text.parse::<usize>().map_err(|_| unknown());
        Ok(match text.split_once(':') {
            Some(("rand-trntk", m)) => Self::RandomTrntk(number(m)?),
            Some(("difference", pair)) => {
                let (a, b) = pair.split_once(',').ok_or_else(unknown)?;
                Self::Difference(number(a)?, number(b)?)
            }
            Some(_) => return Err(unknown()),
            None => match text {
                "trntk" => Self::Trntk,
                "trntk0" => Self::Trntk0,
                "entk" => Self::Entk,
                "pntk" => Self::Pntk,
                "margin" => Self::Margin,
                "loss" => Self::Loss,
                "ck" => Self::Ck,
                "ck-cos" => Self::CkCosine,
                "em" => Self::Em,
                _ => return Err(unknown()),
            },
        })
    }
}

/// How a kernel is normalized.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Normalization {
    /// By the square roots of the diagonal: 1 for a sample and itself.
    Cosine,
    /// Not at all.
    None,
    /// By the sums of the norms of all outputs, as the paper prints it.
    Paper,
}

/// The kernel that is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The kernel.
    pub kind: Kind,
    /// Its normalization.
    pub normalization: Normalization,
    /// Patterns of the names of layers, with `*` for any letters; empty for all.
    pub layers: Vec<String>,
    /// Seed of random cotangents and sketches.
    pub seed: Seed,
    /// Sketch of large gradients.
    pub sketch: Option<Sketch>,
    /// Bytes that factors and sums may take.
    pub memory: u64,
    /// The path of layers with several positions, [`Path::Pairs`] or [`Path::Gradient`], instead of the cheaper one.
    pub path: Option<Path>,
    /// Paths of single layers, as others were computed.
    pub paths: Vec<(String, Path)>,
}

/// Bytes that factors and sums may take by default.
const MEMORY: u64 = 2 << 30;

impl Settings {
    /// Creates the settings of an exact kernel of all layers, with its own normalization and 2 GB.
    pub fn new(kind: Kind) -> Self {
        let normalization = kind.normalization();
        // INVARIANT: 0 is a valid seed.
        let seed = Seed::new(0).unwrap_or_else(|_| unreachable!("0 is a seed"));
        let layers = Vec::new();
        let (sketch, path, paths) = (None, None, Vec::new());
        Self { kind, normalization, layers, seed, sketch, memory: MEMORY, path, paths }
    }

    /// Whether even small gradients are sketched.
    fn sketches_everything(&self) -> bool {
        self.sketch.as_ref().is_some_and(|sketch| sketch.everything && sketch.is_joint())
    }

    /// Whether a layer belongs to the kernel.
    fn wants(&self, name: &str) -> bool {
        self.layers.is_empty() || self.layers.iter().any(|pattern| matches(pattern, name))
    }

    /// Refuses patterns that no layer matches, and settings that exclude each other.
    fn check_layers(&self, names: impl Iterator<Item = String>) -> Result<()> {
        let names: Vec<String> = names.collect();
        for pattern in &self.layers {
            if !names.iter().any(|name| matches(pattern, name)) {
                let what = format!("⟨layers⟩ `{pattern}` matches no layer with parameters");
                return Err(
                    Error::request(what, format!("choose from {}", names.join(", "))).into()
                );
            }
        }
        if self.normalization == Normalization::Paper && self.sketch.is_some() {
            let what = "a sketch adds up all outputs, and ⟨normalization paper⟩ needs their norms";
            return Err(Error::request(what, "choose ⟨normalization cosine⟩").into());
        }
        Ok(())
    }
}

/// Whether a name, or the layer that it is a part of, matches a pattern.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut last = None;
    for part in parts {
        if let Some(part) = last.replace(part) {
            match rest.split_once(part) {
                Some((_, after)) => rest = after,
                None => return false,
            }
        }
    }
    last.map_or(rest.is_empty() || rest.starts_with('.'), |last| rest.ends_with(last))
}

/// Share of a layer in the kernel of samples with themselves.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Share {
    /// Name of the layer.
    pub layer: String,
    /// How its kernel was computed.
    pub path: Path,
    /// From 0 to 1.
    pub share: f64,
}

impl Share {
    /// Shares of layers from their parts of the diagonal.
    fn of(layers: Vec<(String, Path, f64)>) -> Vec<Self> {
        let total: f64 = layers.iter().map(|layer| layer.2).sum();
        let share = |part: f64| if total > 0.0 { part / total } else { 0.0 };
        let each = layers.into_iter();
        each.map(|(layer, path, part)| Self { layer, path, share: share(part) }).collect()
    }
}
