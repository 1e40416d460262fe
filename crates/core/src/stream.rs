//! Named random streams.
//!
//! Key     first 8 bytes (little endian) of SHA-256("veridical-stream/1\n" seed "\n" name)
//! Words   Philox4x32-10 of the counter [n, index_lo, index_hi, epoch]
//! Uniform k = (a >> 5) 2^26 + (b >> 6),  u = k 2^-53          two words each
//! Normal  Box-Muller in f64, u1 = (k1 + 1) 2^-53: cos for even, sin for odd elements
//!
//! A draw is addressed by its purpose (`stream.at(epoch, sample)`), never by the thread that makes it, so
//! results cannot depend on threads or chunks. `docs/format-spec.md` is the full definition.

use sha2::{Digest, Sha256};

use crate::Error;
use crate::elementary::{cos_sin_turn, ln};
use crate::philox::philox4x32_10;

const TWO_POW_MINUS_53: f64 = 1.0 / (1u64 << 53) as f64;

/// A random seed: an integer from 0 to 2^53 - 1, the range that JSON and JavaScript represent exactly.
///
/// ```
/// use veridical_core::Seed;
///
/// assert_eq!(Seed::new(7)?.get(), 7);
/// assert!(Seed::new(1 << 53).is_err());
/// # Ok::<(), veridical_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Seed(u64);

impl Seed {
    /// The largest seed.
    pub const MAX: u64 = (1 << 53) - 1;

    /// Creates a seed after checking its range.
    ///
    /// # Errors
    /// [`Error::Setting`] when `value` is above [`Seed::MAX`].
    pub fn new(value: u64) -> Result<Self, Error> {
        if value > Self::MAX {
            return Err(Error::setting("seed", "an integer from 0 to 2^53 - 1", value));
        }
        Ok(Self(value))
    }

    /// Returns the seed as an integer.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// The random numbers for one purpose under one seed.
///
/// ```
/// use veridical_core::{Seed, Stream};
///
/// let stream = Stream::new(Seed::new(1)?, "example");
/// let (mut short, mut long) = ([0.0; 2], [0.0; 5]);
/// stream.at(0, 3).fill_normals(&mut short);
/// stream.at(0, 3).fill_normals(&mut long);
/// assert_eq!(short, long[..2]); // a shorter draw is a prefix of a longer one
/// # Ok::<(), veridical_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    key: [u32; 2],
}

impl Stream {
    /// Creates the stream named `name` under `seed`.
    pub fn new(seed: Seed, name: &str) -> Self {
        let digest = Sha256::digest(format!("veridical-stream/1\n{}\n{name}", seed.get()));
        let word = |at: usize| {
            u32::from_le_bytes([digest[at], digest[at + 1], digest[at + 2], digest[at + 3]])
        };
        Self { key: [word(0), word(4)] }
    }

    /// Returns the address of sample `index` in `epoch`; its draws are numbered from 0.
    pub const fn at(self, epoch: u32, index: u64) -> Place {
        Place { stream: self, epoch, index }
    }

    /// Returns the four words of one counter.
    #[inline]
    pub fn words(self, counter: [u32; 4]) -> [u32; 4] {
        philox4x32_10(counter, self.key)
    }

    /// Returns the generator's key.
    pub const fn key(self) -> [u32; 2] {
        self.key
    }
}

/// One address in a stream: 2^33 uniforms and as many normals, each of which can be drawn independently.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    stream: Stream,
    epoch: u32,
    index: u64,
}

impl Place {
    /// Returns the four words of block `n`.
    #[inline]
    pub fn words(self, n: u32) -> [u32; 4] {
        self.stream.words([n, self.index as u32, (self.index >> 32) as u32, self.epoch])
    }

    /// Returns the two 53-bit integers of block `n`.
    #[inline]
    fn integers(self, n: u32) -> [u64; 2] {
        let [a, b, c, d] = self.words(n);
        let join = |high: u32, low: u32| (u64::from(high >> 5) << 26) + u64::from(low >> 6);
        [join(a, b), join(c, d)]
    }

    /// Returns the 53-bit integer behind uniform number `i`.
    #[inline]
    pub fn integer(self, i: u32) -> u64 {
        self.integers(i / 2)[(i % 2) as usize]
    }

    /// Returns uniform number `i` in [0, 1).
    pub fn uniform(self, i: u32) -> f64 {
        self.integer(i) as f64 * TWO_POW_MINUS_53
    }

    /// Calls `take` with the 53-bit integers 0 .. n-1, in order.
    #[inline]
    pub fn for_each_integer(self, n: usize, mut take: impl FnMut(u64)) {
        for block in 0..n / 2 {
            self.integers(block as u32).into_iter().for_each(&mut take);
        }
        if n % 2 == 1 {
            take(self.integer(n as u32 - 1));
        }
    }

    /// Fills `out` with the standard normals 0, 1, 2, ... of this address.
    pub fn fill_normals(self, out: &mut [f64]) {
        for (n, pair) in out.chunks_mut(2).enumerate() {
            let [k1, k2] = self.integers(n as u32);
            let radius = (-2.0 * ln((k1 + 1) as f64 * TWO_POW_MINUS_53)).sqrt();
            let (cos, sin) = cos_sin_turn(k2 as f64 * TWO_POW_MINUS_53);
            pair[0] = radius * cos;
            if let Some(odd) = pair.get_mut(1) {
                *odd = radius * sin;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(name: &str) -> Stream {
        Stream::new(Seed::new(7).unwrap(), name)
    }

    #[test]
    fn seeds_end_at_two_to_the_53() {
        assert_eq!(Seed::new(Seed::MAX).unwrap().get(), Seed::MAX);
        let message = Seed::new(Seed::MAX + 1).unwrap_err().to_string();
        assert_eq!(message, "⟨seed⟩ must be an integer from 0 to 2^53 - 1, got 9007199254740992");
    }

    #[test]
    fn streams_differ_by_name_and_places_by_address() {
        let words = |s: Stream, epoch, index| s.at(epoch, index).words(0);
        assert_ne!(words(stream("a"), 0, 0), words(stream("b"), 0, 0));
        assert_ne!(words(stream("a"), 0, 1), words(stream("a"), 1, 0));
        assert_ne!(words(stream("a"), 0, 1), words(stream("a"), 0, 1 << 32));
    }

    #[test]
    fn a_shorter_fill_is_a_prefix_of_a_longer_one() {
        let (mut short, mut long) = ([0.0; 5], [0.0; 8]);
        stream("x").at(3, 4).fill_normals(&mut short);
        stream("x").at(3, 4).fill_normals(&mut long);
        assert_eq!(short, long[..5]);
    }

    /// Mean, variance and fourth moment of n normals: standard errors 1, sqrt 2 and sqrt 96 over
    /// sqrt n; five of them allowed.
    #[test]
    fn normals_have_the_moments_of_normals() {
        let mut x = vec![0.0; 1 << 18];
        stream("moments").at(0, 0).fill_normals(&mut x);
        let n = x.len() as f64;
        let moment = |p: i32| x.iter().map(|v| v.powi(p)).sum::<f64>() / n;
        assert!(moment(1).abs() < 5.0 / n.sqrt());
        assert!((moment(2) - 1.0).abs() < 5.0 * (2.0 / n).sqrt());
        assert!((moment(4) - 3.0).abs() < 5.0 * (96.0 / n).sqrt());
    }
}
