//! ln, sin, cos and the normal quantile from IEEE `+ - * / sqrt` alone, in a fixed order and never
//! fused, so that every platform computes the same bits. The definition is in `docs/format-spec.md`.
//! ln, sin and cos use the algorithms and coefficients of fdlibm (Sun Microsystems, freely usable),
//! error below one unit in the last place; the quantile is AS 241 (Wichura 1988), relative error about
//! 1e-16.

use std::f64::consts::{FRAC_PI_2, SQRT_2};

const LN2_HI: f64 = f64::from_bits(0x3FE6_2E42_FEE0_0000);
const LN2_LO: f64 = f64::from_bits(0x3DEA_39EF_3579_3C76);
const L: [f64; 7] = [
    f64::from_bits(0x3FE5_5555_5555_5593),
    f64::from_bits(0x3FD9_9999_9997_FA04),
    f64::from_bits(0x3FD2_4924_9422_9359),
    f64::from_bits(0x3FCC_71C5_1D8E_78AF),
    f64::from_bits(0x3FC7_4664_96CB_03DE),
    f64::from_bits(0x3FC3_9A09_D078_C69F),
    f64::from_bits(0x3FC2_F112_DF3E_5244),
];
const S: [f64; 6] = [
    f64::from_bits(0xBFC5_5555_5555_5549),
    f64::from_bits(0x3F81_1111_1110_F8A6),
    f64::from_bits(0xBF2A_01A0_19C1_61D5),
    f64::from_bits(0x3EC7_1DE3_57B1_FE7D),
    f64::from_bits(0xBE5A_E5E6_8A2B_9CEB),
    f64::from_bits(0x3DE5_D93A_5ACF_D57C),
];
const C: [f64; 6] = [
    f64::from_bits(0x3FA5_5555_5555_554C),
    f64::from_bits(0xBF56_C16C_16C1_5177),
    f64::from_bits(0x3EFA_01A0_19CB_1590),
    f64::from_bits(0xBE92_7E4F_809C_52AD),
    f64::from_bits(0x3E21_EE9E_BDB4_B1C4),
    f64::from_bits(0xBDA8_FAE9_BE88_38D4),
];

/// Coefficients of AS 241: numerators and denominators for the middle, the shoulders and the tails.
const QUANTILE: [[[f64; 8]; 2]; 3] = [
    [
        [
            f64::from_bits(0x400B_18D9_1E9E_EF75),
            f64::from_bits(0x4060_A488_8B1A_436E),
            f64::from_bits(0x409E_CE5D_2213_C0CC),
            f64::from_bits(0x40CA_D1D8_CD4E_E71D),
            f64::from_bits(0x40E6_6C3E_869B_752A),
            f64::from_bits(0x40F0_6C1C_55B7_8F20),
            f64::from_bits(0x40E0_52D2_6B2E_45E4),
            f64::from_bits(0x40A3_9A29_6F7D_925E),
        ],
        [
            f64::from_bits(0x3FF0_0000_0000_0000),
            f64::from_bits(0x4045_281B_386E_1AB5),
            f64::from_bits(0x4085_797E_FDC8_B3F7),
            f64::from_bits(0x40B5_1232_2E75_C89F),
            f64::from_bits(0x40D4_B772_D5D6_5266),
            f64::from_bits(0x40E3_317C_AA64_F4BE),
            f64::from_bits(0x40DC_0E45_7CB1_AE76),
            f64::from_bits(0x40B4_6A7E_CA98_4B69),
        ],
    ],
    [
        [
            f64::from_bits(0x3FF6_C665_FDE9_526A),
            f64::from_bits(0x4012_8577_48CA_B19B),
            f64::from_bits(0x4017_13F7_1462_256A),
            f64::from_bits(0x400D_2ECB_1A3D_02C4),
            f64::from_bits(0x3FF4_53CC_0853_75B2),
            f64::from_bits(0x3FCE_F2AB_B9B8_5C37),
            f64::from_bits(0x3F97_44EB_6C45_EC67),
            f64::from_bits(0x3F49_615A_C0B7_ACE9),
        ],
        [
            f64::from_bits(0x3FF0_0000_0000_0000),
            f64::from_bits(0x4000_6CEF_BB46_A449),
            f64::from_bits(0x3FFA_D278_E652_6633),
            f64::from_bits(0x3FE6_1292_F233_85C9),
            f64::from_bits(0x3FC2_F512_3394_F040),
            f64::from_bits(0x3F8F_207A_7EAB_17BF),
            f64::from_bits(0x3F41_F18C_BFDF_2728),
            f64::from_bits(0x3E12_0D3F_6864_39E4),
        ],
    ],
    [
        [
            f64::from_bits(0x401A_A1B1_C13E_E526),
            f64::from_bits(0x4015_DAEA_6E87_5003),
            f64::from_bits(0x3FFC_8EA6_461F_A445),
            f64::from_bits(0x3FD2_FAD9_3152_55CF),
            f64::from_bits(0x3F9B_2B41_193B_4EE7),
            f64::from_bits(0x3F54_5C19_0842_5345),
            f64::from_bits(0x3EFC_6EC6_CC59_E02A),
            f64::from_bits(0x3E8A_FB74_D693_BF93),
        ],
        [
            f64::from_bits(0x3FF0_0000_0000_0000),
            f64::from_bits(0x3FE3_31D3_4FC7_D77F),
            f64::from_bits(0x3FC1_86EB_1834_43FB),
            f64::from_bits(0x3F8E_76F9_3215_462A),
            f64::from_bits(0x3F49_C8BC_979D_C5D7),
            f64::from_bits(0x3EF3_5C2C_4963_74BF),
            f64::from_bits(0x3E83_1446_F740_B9E0),
            f64::from_bits(0x3CE2_69BF_F1F8_C190),
        ],
    ],
];

/// Computes the natural logarithm of a positive, normal, finite number.
pub fn ln(x: f64) -> f64 {
    debug_assert!(x.is_normal() && x > 0.0);
    let bits = x.to_bits();
    let mut e = ((bits >> 52) as i64 - 1023) as f64;
    let mut z = f64::from_bits((bits & ((1 << 52) - 1)) | (1023 << 52));
    if z > SQRT_2 {
        z *= 0.5;
        e += 1.0;
    }
    let f = z - 1.0;
    let hfsq = 0.5 * f * f;
    let s = f / (2.0 + f);
    let zz = s * s;
    let w = zz * zz;
    let t1 = w * (L[1] + w * (L[3] + w * L[5]));
    let t2 = zz * (L[0] + w * (L[2] + w * (L[4] + w * L[6])));
    let r = t2 + t1;
    s * (hfsq + r) + e * LN2_LO - hfsq + f + e * LN2_HI
}

/// Computes (cos 2πu, sin 2πu) for 0 <= u < 1. The reduction by quarter turns is exact.
pub fn cos_sin_turn(u: f64) -> (f64, f64) {
    debug_assert!((0.0..1.0).contains(&u));
    let t = 4.0 * u;
    let q = (t + 0.5).floor();
    let x = (t - q) * FRAC_PI_2;
    let z = x * x;
    let w = z * z;
    let sin =
        x + (z * x) * (S[0] + z * ((S[1] + z * (S[2] + z * S[3])) + (z * w) * (S[4] + z * S[5])));
    let r = z * (C[0] + z * (C[1] + z * C[2])) + (w * w) * (C[3] + z * (C[4] + z * C[5]));
    let hz = 0.5 * z;
    let v = 1.0 - hz;
    let cos = v + (((1.0 - v) - hz) + z * r);
    match q as u32 % 4 {
        0 => (cos, sin),
        1 => (-sin, cos),
        2 => (-cos, -sin),
        _ => (sin, -cos),
    }
}

/// Computes the inverse of the standard normal cdf, for 0 < v < 1.
pub fn normal_quantile(v: f64) -> f64 {
    debug_assert!(v > 0.0 && v < 1.0);
    let polynomial = |c: &[f64; 8], r: f64| c.iter().rev().skip(1).fold(c[7], |x, c| x * r + c);
    let [middle, shoulder, tail] = &QUANTILE;
    let q = v - 0.5;
    if q.abs() <= 0.425 {
        let r = 0.180625 - q * q;
        return q * polynomial(&middle[0], r) / polynomial(&middle[1], r);
    }
    let r = (-ln(if q < 0.0 { v } else { 1.0 - v })).sqrt();
    let (r, [numerator, denominator]) =
        if r <= 5.0 { (r - 1.6, shoulder) } else { (r - 5.0, tail) };
    let x = polynomial(numerator, r) / polynomial(denominator, r);
    if q < 0.0 { -x } else { x }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// fdlibm's bound is below one ulp; the platform's own logarithm may be off by half an ulp.
        #[test]
        fn ln_is_within_two_ulp_of_the_platform(k in 0u64..(1 << 53)) {
            let u = (k + 1) as f64 * 2f64.powi(-53);
            let (got, want) = (ln(u), u.ln());
            prop_assert!((got - want).abs() <= 2.0 * f64::EPSILON * want.abs());
        }

        /// 2πu is rounded before the platform sees it: |error| <= ulp(2π) plus two ulp of 1.
        #[test]
        fn turn_agrees_with_the_platform(k in 0u64..(1 << 53)) {
            let u = k as f64 * 2f64.powi(-53);
            let (cos, sin) = cos_sin_turn(u);
            let angle = std::f64::consts::TAU * u;
            let allowed = 4.0 * f64::EPSILON + angle * f64::EPSILON;
            prop_assert!((cos - angle.cos()).abs() <= allowed);
            prop_assert!((sin - angle.sin()).abs() <= allowed);
            prop_assert!((cos * cos + sin * sin - 1.0).abs() <= 4.0 * f64::EPSILON);
        }
    }

    /// `scipy.special.ndtri` at the same arguments.
    #[test]
    fn the_quantile_is_that_of_scipy() {
        for (v, want) in [
            (0.975, 1.959963984540054),
            (0.5, 0.0),
            (0.05, -1.6448536269514729),
            (1e-10, -6.361340902404056),
            (1e-300, -37.0471),
        ] {
            let allowed = if v == 1e-300 { 1e-4 } else { 4.0 * f64::EPSILON * f64::abs(want) };
            assert!((normal_quantile(v) - want).abs() <= allowed, "at {v}");
        }
        assert_eq!(normal_quantile(0.25), -normal_quantile(0.75));
    }

    #[test]
    fn quarter_turns_are_exact() {
        assert_eq!(cos_sin_turn(0.0), (1.0, 0.0));
        assert_eq!(cos_sin_turn(0.25), (0.0, 1.0));
        assert_eq!(cos_sin_turn(0.5), (-1.0, 0.0));
        assert_eq!(cos_sin_turn(0.75), (0.0, -1.0));
        assert_eq!(ln(1.0), 0.0);
    }
}
