//! ln, sin and cos from IEEE `+ - * /` alone, in a fixed order and never fused, so that every
//! platform gets the same bits. The definition stands in `docs/format-spec.md`; algorithms and
//! coefficients are those of fdlibm (Sun Microsystems, freely usable), error below one unit in the
//! last place.

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

/// Natural logarithm of a positive, normal, finite number.
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

/// (cos 2πu, sin 2πu) for 0 <= u < 1. The quarter turn is taken off exactly.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// fdlibm's bound is below one ulp; the platform's logarithm may be half an ulp off itself.
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

    #[test]
    fn quarter_turns_are_exact() {
        assert_eq!(cos_sin_turn(0.0), (1.0, 0.0));
        assert_eq!(cos_sin_turn(0.25), (0.0, 1.0));
        assert_eq!(cos_sin_turn(0.5), (-1.0, 0.0));
        assert_eq!(cos_sin_turn(0.75), (0.0, -1.0));
        assert_eq!(ln(1.0), 0.0);
    }
}
