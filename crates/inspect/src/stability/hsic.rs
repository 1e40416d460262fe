//! The unbiased Hilbert-Schmidt independence criterion, and debiased CKA from it.
//!
//! HSIC_1(K, L) = [tr(K~ L~) + 1'K~1 1'L~1 / ((n-1)(n-2)) - 2/(n-2) 1'K~L~1] / (n (n-3)), with K~ the Gram matrix
//! with diagonal 0 (Song et al. 2012, theorem 3). CKA = HSIC_1(K, L) / sqrt(HSIC_1(K, K) HSIC_1(L, L)) (Kornblith et
//! al. 2019, debiased). It may be negative and is never clipped; it is undefined where a denominator is not positive.

/// The sums that HSIC_1 consists of.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HsicSums {
    /// The number of rows, n.
    pub n: f64,
    /// The trace tr(K~ L~).
    pub trace: f64,
    /// The sum 1'K~1.
    pub k: f64,
    /// The sum 1'L~1.
    pub l: f64,
    /// The sum 1'K~L~1.
    pub kl: f64,
}

impl HsicSums {
    /// Returns HSIC_1; NaN for fewer than four rows.
    pub fn hsic(&self) -> f64 {
        let Self { n, trace, k, l, kl } = *self;
        if n < 4.0 {
            return f64::NAN;
        }
        (trace + k * l / ((n - 1.0) * (n - 2.0)) - 2.0 * kl / (n - 2.0)) / (n * (n - 3.0))
    }
}

/// Returns CKA from HSIC_1 of (K, L), (K, K) and (L, L); NaN where it is undefined.
pub fn cka(kl: &HsicSums, kk: &HsicSums, ll: &HsicSums) -> f64 {
    let (kk, ll) = (kk.hsic(), ll.hsic());
    if kk > 0.0 && ll > 0.0 { kl.hsic() / (kk * ll).sqrt() } else { f64::NAN }
}
