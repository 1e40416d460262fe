//! Dropout of coordinates (Srivastava et al. 2014): a coordinate of a sample is dropped with probability p and
//! the others are scaled by 1 / (1 - p), so inner products keep their expectation.

use veridical_core::{Draws, threshold};

/// Draws dropout masks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dropout {
    /// p in steps of 2^-16.
    dropped: u32,
    scale: f32,
}

impl Dropout {
    /// `None` if no coordinate is ever dropped.
    pub fn new(probability: f64) -> Option<Self> {
        let dropped = (threshold(probability) >> 16) as u32;
        let kept = 1.0 - f64::from(dropped) / 65_536.0;
        (dropped > 0).then_some(Self { dropped, scale: (1.0 / kept) as f32 })
    }

    /// One factor per coordinate: 0 or 1 / (1 - p).
    #[inline]
    pub fn fill(self, mask: &mut [f32], draws: &mut Draws) {
        let factor = |half: u32| if half < self.dropped { 0.0 } else { self.scale };
        for pair in mask.chunks_mut(2) {
            let word = draws.word();
            pair[0] = factor(word & 0xffff);
            if let Some(second) = pair.get_mut(1) {
                *second = factor(word >> 16);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use veridical_core::{Seed, Stream};

    use super::*;

    /// n draws with mean 1 and variance p / (1 - p); five standard errors.
    #[test]
    fn masks_have_mean_one_and_the_right_share_of_zeros() {
        assert!(Dropout::new(0.0).is_none());
        let mut mask = vec![0.0; 100_001];
        let stream = Stream::new(Seed::new(1).unwrap(), "test/dropout");
        Dropout::new(0.25).unwrap().fill(&mut mask, &mut stream.at(0, 0).draws());
        let mean = mask.iter().map(|&x| f64::from(x)).sum::<f64>() / mask.len() as f64;
        assert!((mean - 1.0).abs() < 5.0 * (1.0 / 3.0 / mask.len() as f64).sqrt(), "{mean}");
        assert!(mask.iter().all(|&x| x == 0.0 || (x - 4.0 / 3.0).abs() < 1e-6));
    }
}
