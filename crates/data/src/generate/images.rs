//! Images with classes that a convolutional network can classify, and a linear model less well.
//!
//! pattern   p_c(y, x) = A sum_w a_w cos 2 pi ((f_w y + g_w x) / size + phase_w), waves w = 1..4, one set per class
//!           and channel; f_w in 0..2 and g_w in -2..2, so p_c is smooth and periodic, a_w ~ N(0, 1)
//! image     128 + p_c(y + s, x + t) + 20 e, rounded and clipped to 0..255; shifts s, t uniform below size / 3, e ~ N(0, 1)
//!
//! A classifier that knows the patterns and tries all shifts hardly ever errs. A linear model sees the mean over shifts,
//! where much of a pattern cancels.

use veridical_core::elementary::cos_sin_turn;
use veridical_core::{Seed, Stream};

use crate::examples::{ExampleShape, Examples, Targets, Values};

const WAVES: usize = 4;
const AMPLITUDE: f64 = 25.0;
const NOISE: f64 = 20.0;
const GRAY: f64 = 128.0;
/// Shifts are below the image size divided by this.
const SHIFTS: usize = 3;

/// Generates `n` images of `size` x `size` pixels; image i has class i mod `classes`, and a longer list begins with the
/// shorter one.
///
/// # Panics
/// If `size`, `channels` or `classes` is 0.
pub fn images(n: usize, size: usize, channels: usize, classes: usize, seed: Seed) -> Examples {
    let patterns = patterns(size, channels, classes, seed);
    let shape = ExampleShape::Image { height: size, width: size, channels };
    let (shifts, noise) =
        (Stream::new(seed, "generate/image-shifts"), Stream::new(seed, "generate/image-noise"));
    let most = (size / SHIFTS).max(1) as u32;
    let mut values = Vec::with_capacity(n * shape.len());
    let mut errors = vec![0.0; shape.len()];
    for i in 0..n {
        let pattern = &patterns[(i % classes) * shape.len()..][..shape.len()];
        let mut draws = shifts.at(0, i as u64).draws();
        let (down, right) = (draws.below(most) as usize, draws.below(most) as usize);
        noise.at(0, i as u64).fill_normals(&mut errors);
        for (at, error) in errors.iter().enumerate() {
            let (pixel, channel) = (at / channels, at % channels);
            let (y, x) = ((pixel / size + down) % size, (pixel % size + right) % size);
            let value = GRAY + pattern[(y * size + x) * channels + channel] + NOISE * error;
            values.push(value.round().clamp(0.0, 255.0) as u8);
        }
    }
    let labels = (0..n).map(|i| (i % classes) as u32).collect();
    Examples { shape, values: Values::Bytes(values), targets: Targets::Classes(labels) }
}

/// The pattern p of every class, as an image.
fn patterns(size: usize, channels: usize, classes: usize, seed: Seed) -> Vec<f64> {
    let (waves, amplitudes) =
        (Stream::new(seed, "generate/image-waves"), Stream::new(seed, "generate/image-amplitudes"));
    let mut patterns = vec![0.0; classes * size * size * channels];
    for (class, pattern) in patterns.chunks_exact_mut(size * size * channels).enumerate() {
        for channel in 0..channels {
            let mut draws = waves.at(class as u32, channel as u64).draws();
            let mut a = [0.0; WAVES];
            amplitudes.at(class as u32, channel as u64).fill_normals(&mut a);
            for a in a {
                let (down, right) = loop {
                    let (f, g) = (draws.below(3), draws.below(5) + size as u32 * 2 - 2);
                    if f > 0 || g != size as u32 * 2 {
                        break (f as usize, g as usize);
                    }
                };
                let phase = f64::from(draws.uniform());
                for (pixel, value) in pattern.iter_mut().skip(channel).step_by(channels).enumerate()
                {
                    let turns = down * (pixel / size) + right * (pixel % size);
                    let turn = (turns % size) as f64 / size as f64 + phase;
                    *value += AMPLITUDE * a * cos_sin_turn(turn % 1.0).0;
                }
            }
        }
    }
    patterns
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = 12;
    const CLASSES: usize = 5;

    fn rows(examples: &Examples) -> (Vec<Vec<f64>>, &[u32]) {
        let (Values::Bytes(values), Targets::Classes(labels)) =
            (&examples.values, &examples.targets)
        else {
            unreachable!("images are bytes with classes")
        };
        let row = |image: &[u8]| image.iter().map(|&x| f64::from(x) - GRAY).collect();
        (values.chunks_exact(examples.shape.len()).map(row).collect(), labels)
    }

    fn nearest<'a>(row: &[f64], to: impl Iterator<Item = (u32, Vec<f64>)> + 'a) -> u32 {
        let distance =
            |other: &[f64]| -> f64 { row.iter().zip(other).map(|(a, b)| (a - b).powi(2)).sum() };
        to.map(|(class, other)| (distance(&other), class))
            .min_by(|a, b| a.0.total_cmp(&b.0))
            .map_or(u32::MAX, |(_, class)| class)
    }

    /// The optimal rule errs on none of 200. The nearest class mean, the linear rule for equal spheres, errs on some, but
    /// by five standard errors on fewer than guessing does: 160 - 5 sqrt(200 * 0.8 * 0.2) = 131.
    #[test]
    fn shifts_hide_the_classes_from_a_linear_rule_only() {
        let seed = Seed::new(3).unwrap();
        let all = images(1200, SIZE, 1, CLASSES, seed);
        let (rows, labels) = rows(&all);
        let patterns = patterns(SIZE, 1, CLASSES, seed);
        let mut means = vec![vec![0.0; SIZE * SIZE]; CLASSES];
        for (row, &label) in rows[..1000].iter().zip(labels) {
            let scale = CLASSES as f64 / 1000.0;
            means[label as usize].iter_mut().zip(row).for_each(|(m, x)| *m += x * scale);
        }
        let shifted = |class: usize, down: usize, right: usize| -> Vec<f64> {
            let pattern = &patterns[class * SIZE * SIZE..];
            let at = |p: usize| (p / SIZE + down) % SIZE * SIZE + (p % SIZE + right) % SIZE;
            (0..SIZE * SIZE).map(|pixel| pattern[at(pixel)]).collect()
        };
        let (mut best, mut linear) = (0, 0);
        for (row, &label) in rows[1000..].iter().zip(&labels[1000..]) {
            let most = SIZE / SHIFTS;
            let places = (0..CLASSES * most * most).map(|i| {
                let (class, shift) = (i % CLASSES, i / CLASSES);
                (class as u32, shifted(class, shift % most, shift / most))
            });
            best += usize::from(nearest(row, places) != label);
            let means = means.iter().enumerate().map(|(class, mean)| (class as u32, mean.clone()));
            linear += usize::from(nearest(row, means) != label);
        }
        assert_eq!(best, 0);
        assert!((10..131).contains(&linear), "{linear} of 200");
    }

    #[test]
    fn a_longer_list_begins_with_the_shorter_one() {
        let seed = Seed::new(1).unwrap();
        let (short, long) = (images(10, 6, 3, 4, seed), images(20, 6, 3, 4, seed));
        assert_eq!(long.subset(&(0..10).collect::<Vec<_>>()), short);
        assert_ne!(short, images(10, 6, 3, 4, Seed::new(2).unwrap()));
    }
}
