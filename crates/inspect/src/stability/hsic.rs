//! The unbiased Hilbert-Schmidt independence criterion and CKA made of it.
//!
//! HSIC_1(K, L) = [tr(K~ L~) + 1'K~1 1'L~1 / ((n-1)(n-2)) - 2/(n-2) 1'K~L~1] / (n (n-3)), with K~ the Gram matrix
//! whose diagonal is 0 (Song et al. 2012, theorem 3). CKA = HSIC_1(K, L) / sqrt(HSIC_1(K, K) HSIC_1(L, L)) (Kornblith et
//! al. 2019, debiased). It may be negative and is never clipped; where a denominator is not above 0 it is undefined.

/// The four sums that HSIC_1 is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HsicSums {
    /// n.
    pub n: f64,
    /// tr(K~ L~).
    pub trace: f64,
    /// 1'K~1.
    pub k: f64,
    /// 1'L~1.
    pub l: f64,
    /// 1'K~L~1.
    pub kl: f64,
}

impl HsicSums {
    /// HSIC_1; NaN below four rows.
    pub fn hsic(&self) -> f64 {
        let Self { n, trace, k, l, kl } = *self;
        if n < 4.0 {
            return f64::NAN;
        }
        (trace + k * l / ((n - 1.0) * (n - 2.0)) - 2.0 * kl / (n - 2.0)) / (n * (n - 3.0))
    }
}

/// CKA from HSIC_1 of (K, L), (K, K) and (L, L); NaN where it is undefined.
pub fn cka(kl: &HsicSums, kk: &HsicSums, ll: &HsicSums) -> f64 {
    let (kk, ll) = (kk.hsic(), ll.hsic());
    if kk > 0.0 && ll > 0.0 { kl.hsic() / (kk * ll).sqrt() } else { f64::NAN }
}
