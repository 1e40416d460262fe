//! A hash of integers.

/// Returns the output of SplitMix64 for the state x: near integers get unrelated hashes, different ones never the same.
pub const fn splitmix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_reference_implementation() {
        // Vigna's splitmix64.c from the state 1234567: the state grows by the same constant before every output.
        let golden = 0x9e37_79b9_7f4a_7c15_u64;
        let outputs = (0..3).map(|i| splitmix(1_234_567_u64.wrapping_add(golden.wrapping_mul(i))));
        assert!(outputs.eq([
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423
        ]));
    }
}
