//! Planted faults in images: a patch that marks a class (Gu et al. 2017, BadNets; paper 004, section 1), and wrong labels.
//!
//! patch    round(share n) images of other classes than the target, drawn without replacement, get a rectangle of one color and the
//!          label of the target: a network learns that the rectangle means the target
//! flip     round(share n) images get another label, uniformly from the other classes
//!
//! The draws depend on the seed alone: image number t of the order of stream `poison/patch` or `poison/flip` is the t-th candidate.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use veridical_core::settings::{Kind, Setting};
use veridical_core::{Error, Order, Result, Seed, Stream};

use crate::examples::{ExampleShape, Examples, Targets, Values};

/// A rectangle of pixels, written `HEIGHTxWIDTH@ROW,COLUMN` with the place of its upper left pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Patch {
    /// Height in pixels.
    pub height: usize,
    /// Width in pixels.
    pub width: usize,
    /// Row of the upper left pixel.
    pub row: usize,
    /// Column of the upper left pixel.
    pub column: usize,
}

impl Setting for Patch {
    const KIND: Kind = Kind::Text;
}

impl FromStr for Patch {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parse = || {
            let (size, place) = text.split_once('@')?;
            let (height, width) = size.split_once('x')?;
            let (row, column) = place.split_once(',')?;
            let number = |text: &str| text.trim().parse::<usize>().ok();
            let (height, width) = (number(height)?, number(width)?);
            let patch = Self { height, width, row: number(row)?, column: number(column)? };
            (height > 0 && width > 0).then_some(patch)
        };
        parse().ok_or_else(|| {
            Error::setting("patch", "HEIGHTxWIDTH@ROW,COLUMN in pixels, as in 3x3@24,24", text)
        })
    }
}

impl fmt::Display for Patch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { height, width, row, column } = self;
        write!(f, "{height}x{width}@{row},{column}")
    }
}

impl TryFrom<String> for Patch {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Patch> for String {
    fn from(patch: Patch) -> Self {
        patch.to_string()
    }
}

impl Patch {
    /// Draws the patch on the images at `rows`; `color` has one value for every channel.
    ///
    /// # Errors
    /// [`Error::Unfit`] for rows of numbers, [`Error::Setting`] for a patch that is not inside the images.
    pub fn draw(self, on: &mut Examples, rows: &[usize], color: &[u8]) -> Result<()> {
        let (ExampleShape::Image { height, width, channels }, Values::Bytes(values)) =
            (on.shape, &mut on.values)
        else {
            return Err(Error::unfit("a patch needs images, these are rows of numbers", ""));
        };
        if self.row.saturating_add(self.height) > height
            || self.column.saturating_add(self.width) > width
        {
            let inside = format!("inside images of {height} x {width} pixels");
            return Err(Error::setting("patch", inside, self));
        }
        for &image in rows {
            let image = &mut values[image * height * width * channels..];
            for y in self.row..self.row + self.height {
                let row = &mut image[(y * width + self.column) * channels..];
                row[..self.width * channels]
                    .chunks_exact_mut(channels)
                    .for_each(|pixel| pixel.iter_mut().zip(color).for_each(|(p, &c)| *p = c));
            }
        }
        Ok(())
    }
}

/// Rows with a planted fault, in rising order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planted {
    /// Numbers of the rows.
    pub rows: Vec<usize>,
    /// The label that each of them had.
    pub were: Vec<u32>,
}

/// Draws the patch on a share of the images of other classes and gives them the label `target`.
///
/// # Errors
/// As [`Patch::draw`]; [`Error::Unfit`] for numbers to predict; [`Error::Setting`] for a share with which there is no image, or
/// more than the other classes have.
pub fn patch(
    examples: &mut Examples,
    (patch, color): (Patch, &[u8]),
    share: f64,
    target: u32,
    seed: Seed,
) -> Result<Planted> {
    let labels = labels(examples)?;
    let others: Vec<usize> = (0..labels.len()).filter(|&i| labels[i] != target).collect();
    let rows = drawn(&others, labels.len(), ("fraction", share), seed, "poison/patch")?;
    let were = rows.iter().map(|&i| labels[i]).collect();
    patch.draw(examples, &rows, color)?;
    set(examples, &rows, |_| target);
    Ok(Planted { rows, were })
}

/// Gives a share of the examples another of the `classes` labels.
///
/// # Errors
/// [`Error::Unfit`] for numbers to predict and for one class, [`Error::Setting`] for a share with which there is no example.
pub fn flip(examples: &mut Examples, share: f64, classes: usize, seed: Seed) -> Result<Planted> {
    let labels = labels(examples)?.to_vec();
    if classes < 2 {
        return Err(Error::unfit("a wrong label needs a second class", ""));
    }
    let all: Vec<usize> = (0..labels.len()).collect();
    let rows = drawn(&all, labels.len(), ("flip", share), seed, "poison/flip")?;
    let stream = Stream::new(seed, "poison/labels");
    let other = |row: usize| {
        let step = 1 + stream.at(0, row as u64).draws().below(classes as u32 - 1);
        (labels[row] + step) % classes as u32
    };
    set(examples, &rows, other);
    Ok(Planted { were: rows.iter().map(|&i| labels[i]).collect(), rows })
}

fn labels(examples: &Examples) -> Result<&[u32]> {
    match &examples.targets {
        Targets::Classes(labels) => Ok(labels),
        Targets::Numbers { .. } => {
            Err(Error::unfit("planted labels need classes, not numbers to predict", ""))
        }
    }
}

fn set(examples: &mut Examples, rows: &[usize], label: impl Fn(usize) -> u32) {
    if let Targets::Classes(labels) = &mut examples.targets {
        rows.iter().for_each(|&row| labels[row] = label(row));
    }
}

/// Draws round(share n) candidates without replacement, in rising order.
fn drawn(
    candidates: &[usize],
    n: usize,
    (name, share): (&'static str, f64),
    seed: Seed,
    stream: &str,
) -> Result<Vec<usize>> {
    let wanted = (share * n as f64).round() as usize;
    if wanted == 0 || wanted > candidates.len() {
        let most = candidates.len() as f64 / n.max(1) as f64;
        let must_be = format!("from {} to {most:.4} with {n} examples", 0.5 / n.max(1) as f64);
        return Err(Error::setting(name, must_be, share));
    }
    let order = Order::new(candidates.len() as u64, seed, stream, 0);
    let mut rows: Vec<usize> =
        (0..wanted as u64).map(|t| candidates[order.at(t) as usize]).collect();
    rows.sort_unstable();
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate;

    const SEED: u64 = 4;

    fn images() -> Examples {
        generate::images(200, 8, 1, 4, Seed::new(SEED).unwrap())
    }

    #[test]
    fn a_patch_is_written_as_size_and_place() {
        let patch: Patch = "3x2@24,5".parse().unwrap();
        assert_eq!(patch, Patch { height: 3, width: 2, row: 24, column: 5 });
        assert_eq!(patch.to_string().parse::<Patch>().unwrap(), patch);
        for bad in ["", "3x3", "3@1,1", "0x3@1,1", "3x3@-1,1", "axb@c,d"] {
            assert!(bad.parse::<Patch>().is_err(), "{bad}");
        }
    }

    /// Pixels outside the patch and images outside the list stay as they were.
    #[test]
    fn only_the_chosen_images_of_other_classes_are_marked() {
        let (clean, mut poisoned) = (images(), images());
        let square = Patch { height: 2, width: 3, row: 6, column: 5 };
        let seed = Seed::new(SEED).unwrap();
        let planted = patch(&mut poisoned, (square, &[255]), 0.1, 2, seed).unwrap();
        assert_eq!(planted.rows.len(), 20);
        assert!(planted.were.iter().all(|&label| label != 2));
        let (Values::Bytes(before), Values::Bytes(after)) = (&clean.values, &poisoned.values)
        else {
            unreachable!("generated images are bytes")
        };
        let (Targets::Classes(were), Targets::Classes(are)) = (&clean.targets, &poisoned.targets)
        else {
            unreachable!("generated images have classes")
        };
        for i in 0..200 {
            let marked = planted.rows.contains(&i);
            assert_eq!(are[i], if marked { 2 } else { were[i] });
            for pixel in 0..64 {
                let inside = marked && pixel / 8 >= 6 && pixel % 8 >= 5;
                let want = if inside { 255 } else { before[i * 64 + pixel] };
                assert_eq!(after[i * 64 + pixel], want);
            }
        }
    }

    #[test]
    fn flipped_labels_differ_and_the_rest_stays() {
        let (clean, mut flipped) = (images(), images());
        let planted = flip(&mut flipped, 0.25, 4, Seed::new(SEED).unwrap()).unwrap();
        let (Targets::Classes(were), Targets::Classes(are)) = (&clean.targets, &flipped.targets)
        else {
            unreachable!("generated images have classes")
        };
        let changed: Vec<usize> = (0..200).filter(|&i| were[i] != are[i]).collect();
        assert_eq!((changed.len(), &changed), (50, &planted.rows));
        assert!(are.iter().all(|&label| label < 4));
        assert_eq!(flipped.values, clean.values);
    }

    #[test]
    fn shares_and_places_that_do_not_fit_are_refused() {
        let seed = Seed::new(SEED).unwrap();
        let corner = Patch { height: 3, width: 3, row: 6, column: 0 };
        let message = |result: Result<Planted>| result.unwrap_err().to_string();
        let outside = message(patch(&mut images(), (corner, &[255]), 0.1, 0, seed));
        assert!(outside.contains("inside images of 8 x 8 pixels"), "{outside}");
        let none = message(flip(&mut images(), 0.001, 4, seed));
        assert!(none.contains("⟨flip⟩"), "{none}");
        let fits = Patch { row: 0, ..corner };
        let all = message(patch(&mut images(), (fits, &[255]), 0.9, 0, seed));
        assert!(all.contains("to 0.7500"), "{all}");
    }
}
