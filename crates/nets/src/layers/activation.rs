//! Activation functions, plain and normalized.
//!
//! y = sigma(x), or normalized y = (sigma(x) - mu)/s with mu = E sigma(z) and s^2 = Var sigma(z) for z from N(0, 1), so that
//! outputs have mean 0 and variance 1 for Gaussian inputs (paper 004, section 5: Assumption 3.2, Table 8).
//!
//! | sigma    | formula                                  | sigma'                     |
//! |----------|------------------------------------------|----------------------------|
//! | relu     | max(x, 0)                                | 1 if x > 0                 |
//! | gelu     | x Phi(x) (Hendrycks & Gimpel 2016, exact) | Phi(x) + x phi(x)          |
//! | tanh     | tanh x                                   | 1 - sigma^2                |
//! | sigmoid  | 1/(1 + e^-x)                             | sigma (1 - sigma)          |
//! | softplus | ln(1 + e^x)                              | 1/(1 + e^-x)               |
//! | erf      | 2/sqrt(pi) int_0^x e^(-t^2) dt           | 2/sqrt(pi) e^(-x^2)        |
//!
//! dx = sigma'(x) dy / s.

use std::fmt;
use std::str::FromStr;

use crate::elementary::{erf, normal, sigmoid, softplus, tanh};
use crate::float::wide;
use crate::{Backward, Error, Float, Forward, Layer, Result, Shape};

/// An activation function of one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Rectified linear unit max(x, 0).
    Relu,
    /// Gaussian error linear unit x Phi(x), exact.
    Gelu,
    /// Hyperbolic tangent.
    Tanh,
    /// Logistic sigmoid 1/(1 + e^-x).
    Sigmoid,
    /// Softplus ln(1 + e^x).
    Softplus,
    /// Error function erf x.
    Erf,
}

impl Kind {
    /// All activation functions.
    pub const ALL: [Self; 6] =
        [Self::Relu, Self::Gelu, Self::Tanh, Self::Sigmoid, Self::Softplus, Self::Erf];

    /// Returns the name of the activation, as in `tanh`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Relu => "relu",
            Self::Gelu => "gelu",
            Self::Tanh => "tanh",
            Self::Sigmoid => "sigmoid",
            Self::Softplus => "softplus",
            Self::Erf => "erf",
        }
    }

    /// Returns mu = E sigma(z) and s = sqrt(Var sigma(z)) for z from N(0, 1).
    ///
    /// Closed forms: relu 1/sqrt(2 pi) and sqrt(1/2 - 1/(2 pi)); gelu 1/(2 sqrt pi) and
    /// sqrt(1/3 + 1/(2 pi sqrt 3) - 1/(4 pi)); erf 0 and sqrt(2/pi arcsin 2/3). The others by quadrature.
    pub const fn moments(self) -> (f64, f64) {
        match self {
            Self::Relu => (0.398_942_280_401_432_7, 0.583_819_370_103_549),
            Self::Gelu => (0.282_094_791_773_878_14, 0.587_914_969_212_683_9),
            Self::Tanh => (0.0, 0.627_928_730_349_106_7),
            Self::Sigmoid => (0.5, 0.208_276_344_931_662_76),
            Self::Softplus => (0.806_059_183_347_439_8, 0.521_070_534_381_439_3),
            Self::Erf => (0.0, 0.681_585_691_162_556_6),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Prefix of the name of a normalized activation.
const NORMALIZED: &str = "normalized-";

/// An elementwise activation layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activation {
    kind: Kind,
    normalized: bool,
}

impl Activation {
    /// Creates the plain activation y = sigma(x).
    pub const fn new(kind: Kind) -> Self {
        Self { kind, normalized: false }
    }

    /// Returns the normalized activation y = (sigma(x) - mu)/s.
    pub const fn normalized(self) -> Self {
        Self { normalized: true, ..self }
    }

    /// Returns the activation function sigma.
    pub const fn kind(self) -> Kind {
        self.kind
    }

    /// Returns whether outputs are normalized to mean 0 and variance 1.
    pub const fn is_normalized(self) -> bool {
        self.normalized
    }

    /// mu and s, or 0 and 1 without normalization.
    const fn moments(self) -> (f64, f64) {
        if self.normalized { self.kind.moments() } else { (0.0, 1.0) }
    }
}

/// Formats as "tanh" or "normalized-tanh".
impl fmt::Display for Activation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.normalized { NORMALIZED } else { "" }, self.kind)
    }
}

impl FromStr for Activation {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (normalized, name) = match text.strip_prefix(NORMALIZED) {
            Some(name) => (true, name),
            None => (false, text),
        };
        let Some(kind) = Kind::ALL.into_iter().find(|kind| kind.name() == name) else {
            let names = Kind::ALL.map(Kind::name).join(", ");
            return Err(Error::request(format!(
                "unknown activation `{text}`: choose one of {names}, or {NORMALIZED}NAME"
            )));
        };
        Ok(Self { kind, normalized })
    }
}

#[inline(always)]
fn relu<T: Float>(x: T) -> T {
    T::ZERO.larger(x)
}

#[inline(always)]
fn gelu<T: Float>(x: T) -> T {
    x * normal(x).0
}

/// y = (f(x) - mu) s, elementwise; exactly f(x) for 0 and 1.
#[inline(always)]
fn map<T: Float>(x: &[T], y: &mut [T], mu: T, s: T, f: impl Fn(T) -> T) {
    wide(
        #[inline(always)]
        move || {
            for (y, &x) in y.iter_mut().zip(x) {
                *y = (f(x) - mu) * s;
            }
        },
    );
}

/// dx = f(v, dy), elementwise.
#[inline(always)]
fn chain<T: Float>(v: &[T], dy: &[T], dx: &mut [T], f: impl Fn(T, T) -> T) {
    let (v, dy) = (&v[..dx.len()], &dy[..dx.len()]);
    wide(
        #[inline(always)]
        move || {
            for i in 0..dx.len() {
                dx[i] = f(v[i], dy[i]);
            }
        },
    );
}

impl<T: Float> Layer<T> for Activation {
    fn output(&self, input: Shape) -> Result<Shape> {
        Ok(input)
    }

    fn forward(&self, pass: Forward<'_, T>) {
        let Forward { x, y, .. } = pass;
        let (mu, s) = self.moments();
        let (mu, s) = (T::of(mu), T::of(1.0 / s));
        match self.kind {
            Kind::Relu => map(x, y, mu, s, relu),
            Kind::Gelu => map(x, y, mu, s, gelu),
            Kind::Tanh => map(x, y, mu, s, tanh),
            Kind::Sigmoid => map(x, y, mu, s, sigmoid),
            Kind::Softplus => map(x, y, mu, s, softplus),
            Kind::Erf => map(x, y, mu, s, erf),
        }
    }

    /// Computed from y where that is cheaper, else from x.
    fn backward(&self, pass: Backward<'_, T>) {
        let Backward { x, y, dy, dx: Some(dx), .. } = pass else { return };
        let (mu, s) = self.moments();
        let (mu, slope, s) = (T::of(mu), T::of(1.0 / s), T::of(s));
        match self.kind {
            Kind::Relu => chain(
                x,
                dy,
                dx,
                #[inline(always)]
                move |x, dy| if x > T::ZERO { dy * slope } else { T::ZERO },
            ),
            Kind::Gelu => chain(
                x,
                dy,
                dx,
                #[inline(always)]
                move |x, dy| {
                    let (below, density) = normal(x);
                    (below + x * density) * (dy * slope)
                },
            ),
            Kind::Tanh => chain(
                y,
                dy,
                dx,
                #[inline(always)]
                move |y, dy| {
                    let t = y * s;
                    (T::ONE - t * t) * (dy * slope)
                },
            ),
            Kind::Sigmoid => chain(
                y,
                dy,
                dx,
                #[inline(always)]
                move |y, dy| {
                    let t = y * s + mu;
                    t * (T::ONE - t) * (dy * slope)
                },
            ),
            Kind::Softplus => chain(
                x,
                dy,
                dx,
                #[inline(always)]
                move |x, dy| sigmoid(x) * (dy * slope),
            ),
            Kind::Erf => {
                let slope = slope * T::of(std::f64::consts::FRAC_2_SQRT_PI);
                chain(
                    x,
                    dy,
                    dx,
                    #[inline(always)]
                    move |x, dy| (-(x * x)).exp() * (dy * slope),
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mode;
    use crate::testing::Trial;

    fn all() -> impl Iterator<Item = Activation> {
        Kind::ALL.map(Activation::new).into_iter().flat_map(|plain| [plain, plain.normalized()])
    }

    #[test]
    fn gradients_are_right() {
        for layer in all() {
            for mode in [Mode::Training, Mode::Frozen] {
                Trial::new(&layer, Shape::image(3, 2, 5), 4, mode).check();
            }
        }
    }

    /// The trapezoid rule converges faster than any power of the step for smooth functions; relu's kink costs h^2/12
    /// times the jump of the slope, about 6e-6, so its moments are also compared with their closed forms.
    #[test]
    fn normalized_means_mean_0_and_variance_1() {
        let h = 1e-2;
        let grid: Vec<f64> = (-1200..=1200).map(|k| f64::from(k) * h).collect();
        for layer in all().filter(|layer| layer.normalized) {
            let mut trial = Trial::new(&layer, Shape::row(grid.len()), 1, Mode::Frozen);
            trial.x.clone_from(&grid);
            let (y, _) = trial.forward();
            let mean = |power: i32| -> f64 {
                grid.iter().zip(&y).map(|(z, y)| y.powi(power) * (-z * z / 2.0).exp()).sum::<f64>()
                    * h
                    / (2.0 * std::f64::consts::PI).sqrt()
            };
            // The sum of |terms| is about 1, so rounding is about 1e-16 sqrt(2400), and the constants cost an ulp.
            let allowed = if layer.kind == Kind::Relu { 1e-4 } else { 2e-14 };
            assert!(mean(1).abs() < allowed && (mean(2) - 1.0).abs() < allowed, "{layer}");
        }
        let pi = std::f64::consts::PI;
        let (mu, s) = Kind::Relu.moments();
        assert!((mu - 1.0 / (2.0 * pi).sqrt()).abs() < 1e-16);
        assert!((s - (0.5 - 0.5 / pi).sqrt()).abs() < 2e-16);
    }

    #[test]
    fn names_are_read_back() {
        for layer in all() {
            assert_eq!(layer.to_string().parse::<Activation>().unwrap(), layer);
        }
        let error = "normalized-selu".parse::<Activation>().unwrap_err().to_string();
        assert!(error.contains("`normalized-selu`") && error.contains("softplus, erf"), "{error}");
    }

    #[test]
    fn nan_stays_nan() {
        for layer in all() {
            let mut trial = Trial::new(&layer, Shape::row(9), 1, Mode::Frozen);
            trial.x[4] = f64::NAN;
            let (y, _) = trial.forward();
            assert_eq!(y.iter().filter(|y| y.is_nan()).count(), 1, "{layer}");
            assert!(y[4].is_nan());
        }
    }
}
