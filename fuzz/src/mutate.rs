//! Damage, drawn from the project's own random streams: mutation `n` of an input has the same bytes on
//! every machine.
//!
//! One to four of: a flipped bit, an odd byte, a truncated end, a part removed, a part repeated, a part of
//! another input, a binary length or a decimal number replaced by an awkward one.

use veridical_core::{Place, Seed, Stream};

/// The maximum length of inputs.
pub const LONGEST: usize = 1 << 16;

/// Numbers at which arithmetic fails.
const AWKWARD: [u64; 16] = [
    0,
    1,
    2,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    1 << 40,
    1 << 61,
    i64::MAX as u64,
    1 << 63,
    u64::MAX,
];

/// Bytes with a meaning in texts and headers.
const ODD: &[u8] = b"\0\t\n\r \"',.-+()[]{}:;0179eE\x7f\x80\xfe\xff";

/// A sequence of draws.
pub struct Draws {
    place: Place,
    next: u32,
}

impl Draws {
    /// Creates the draws of mutation `index` for `target`.
    pub fn new(seed: Seed, target: &str, index: u64) -> Self {
        Self { place: Stream::new(seed, &format!("fuzz/{target}")).at(0, index), next: 0 }
    }

    /// Returns an integer below `n`, which is at least 1.
    pub fn below(&mut self, n: usize) -> usize {
        self.next += 1;
        ((self.place.uniform(self.next - 1) * n as f64) as usize).min(n - 1)
    }

    fn range(&mut self, len: usize) -> std::ops::Range<usize> {
        let from = self.below(len);
        // Mostly short, sometimes anything.
        let longest = if self.below(4) == 0 { len - from } else { (len - from).min(32) };
        from..from + 1 + self.below(longest)
    }
}

/// Returns a damaged copy of `input`; `others` provide parts.
pub fn mutate(input: &[u8], others: &[Vec<u8>], draws: &mut Draws) -> Vec<u8> {
    let mut bytes = input.to_vec();
    let most = draws.below(4) + 1; // often one: heavy damage is rejected at the first check
    for _ in 0..=draws.below(most) {
        if bytes.is_empty() {
            bytes.push(0);
        }
        damage(&mut bytes, others, draws);
    }
    bytes.truncate(LONGEST);
    bytes
}

fn damage(bytes: &mut Vec<u8>, others: &[Vec<u8>], draws: &mut Draws) {
    let len = bytes.len();
    match draws.below(9) {
        0 => bytes[draws.below(len)] ^= 1 << draws.below(8),
        1 => bytes[draws.below(len)] = ODD[draws.below(ODD.len())],
        2 => bytes.truncate(draws.below(len)),
        3 => drop(bytes.drain(draws.range(len))),
        4 => {
            let range = draws.range(len);
            let part = bytes[range.clone()].repeat(1 + draws.below(8));
            bytes.splice(range.end..range.end, part);
        }
        5 => {
            let other = &others[draws.below(others.len())];
            if !other.is_empty() {
                let (to, from) = (draws.range(len), draws.range(other.len()));
                bytes.splice(to, other[from].iter().copied());
            }
        }
        6 | 7 => {
            let at = draws.below(len);
            let width = [1, 2, 4, 8][draws.below(4)].min(len - at);
            bytes[at..][..width].copy_from_slice(&awkward(len, draws).to_le_bytes()[..width]);
        }
        _ => number(bytes, draws),
    }
}

fn awkward(len: usize, draws: &mut Draws) -> u64 {
    let near = [len as u64, len as u64 + 1, (len as u64).wrapping_sub(1), 8 + len as u64];
    let i = draws.below(AWKWARD.len() + near.len());
    AWKWARD.get(i).copied().unwrap_or_else(|| near[i - AWKWARD.len()])
}

/// Replaces a decimal number after a random position.
fn number(bytes: &mut Vec<u8>, draws: &mut Draws) {
    let from = draws.below(bytes.len());
    let Some(start) = bytes[from..].iter().position(u8::is_ascii_digit) else { return };
    let start = from + start;
    let end = bytes[start..].iter().position(|b| !b.is_ascii_digit());
    let end = end.map_or(bytes.len(), |n| start + n);
    let text = match draws.below(8) {
        0 => "nan".into(),
        1 => "-1".into(),
        2 => "1e39".into(),
        3 => "1e400".into(),
        _ => awkward(bytes.len(), draws).to_string(),
    };
    bytes.splice(start..end, text.into_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutated(target: &str, index: u64) -> Vec<u8> {
        let input: Vec<u8> = (0..200).map(|i| if i % 7 == 0 { b'7' } else { i }).collect();
        mutate(&input, &[b"other".to_vec()], &mut Draws::new(Seed::new(0).unwrap(), target, index))
    }

    #[test]
    fn a_mutation_depends_on_its_index_and_differs_from_the_next() {
        let of = |target| (0..200).map(|n| mutated(target, n)).collect::<Vec<_>>();
        assert_eq!(of("a"), of("a"));
        let same = of("a").iter().zip(&of("b")).filter(|(a, b)| a == b).count();
        assert!(same < 20, "{same} of 200 mutations are the same for two targets");
    }

    #[test]
    fn mutations_of_nothing_and_of_much_keep_their_bounds() {
        for index in 0..200 {
            let mut draws = Draws::new(Seed::new(1).unwrap(), "bounds", index);
            mutate(&[], &[Vec::new()], &mut draws);
            let long = mutate(&vec![b'1'; LONGEST], &[Vec::new()], &mut draws);
            assert!(long.len() <= LONGEST);
        }
    }
}
