//! What a network is trained on and asked about: images, rows of numbers, or documents; each as it is shown to people.

use std::collections::HashSet;

use veridical_data::examples::{ExampleShape, Examples, Targets, Values};
use veridical_data::{LabeledTexts, fingerprint};
use veridical_report::Tile;

/// Columns of a row of numbers that a page shows.
const MOST_COLUMNS: usize = 8;
/// Characters of a document that a page shows.
const MOST_LETTERS: usize = 280;

/// Inputs of a network, with labels where they are known.
#[derive(Clone, Debug)]
pub(crate) enum Samples {
    /// Images or rows of numbers, with the names of the columns.
    Examples(Examples, Vec<String>),
    /// Documents with their classes.
    Documents { texts: Vec<String>, labels: Vec<u32> },
}

/// What a page shows of a sample.
#[derive(Clone, Debug)]
pub(crate) enum Shown {
    /// A PNG file and its width.
    Image(Vec<u8>, u32),
    Text(String),
}

impl Shown {
    pub fn tile(&self, caption: impl Into<String>) -> Tile {
        match self {
            Self::Image(png, width) => Tile::image(png.clone(), *width, caption),
            Self::Text(text) => Tile::text(text.clone(), caption),
        }
    }
}

impl Samples {
    /// Returns the number of samples.
    pub fn n(&self) -> usize {
        match self {
            Self::Examples(data, _) => data.n(),
            Self::Documents { texts, .. } => texts.len(),
        }
    }

    /// Returns the samples at these places, in this order.
    pub fn subset(&self, of: &[usize]) -> Self {
        match self {
            Self::Examples(data, columns) => Self::Examples(data.subset(of), columns.clone()),
            Self::Documents { texts, labels } => Self::Documents {
                texts: of.iter().map(|&i| texts[i].clone()).collect(),
                labels: of.iter().filter_map(|&i| labels.get(i).copied()).collect(),
            },
        }
    }

    /// Returns these samples and then the others, without labels.
    pub fn followed_by(&self, others: &Self) -> Self {
        match (self, others) {
            (Self::Examples(a, columns), Self::Examples(b, _)) => {
                Self::Examples(a.followed_by(b), columns.clone())
            }
            (Self::Documents { texts: a, .. }, Self::Documents { texts: b, .. }) => {
                Self::Documents { texts: [a.as_slice(), b].concat(), labels: Vec::new() }
            }
            // INVARIANT: a network reads one kind of inputs.
            _ => unreachable!("inputs of one network are of one kind"),
        }
    }

    /// Returns the classes of the samples; empty if they are unknown or numbers.
    pub fn labels(&self) -> &[u32] {
        match self {
            Self::Examples(Examples { targets: Targets::Classes(labels), .. }, _) => labels,
            Self::Examples(..) => &[],
            Self::Documents { labels, .. } => labels,
        }
    }

    /// Returns the targets of a regression; empty if there are none.
    pub fn numbers(&self) -> &[f32] {
        match self {
            Self::Examples(Examples { targets: Targets::Numbers { values, .. }, .. }, _) => values,
            _ => &[],
        }
    }

    /// Returns the fingerprint of the samples with their labels.
    pub fn fingerprint(&self, classes: &[String]) -> String {
        match self {
            Self::Examples(data, _) => fingerprint::of_examples(data, classes, &[]),
            Self::Documents { texts, labels } => fingerprint::of_labeled(&LabeledTexts {
                texts: texts.clone(),
                labels: labels.iter().map(|&y| classes[y as usize].clone()).collect(),
                ..LabeledTexts::default()
            }),
        }
    }

    /// Returns the first of other samples that is among these, value by value.
    pub fn first_among(&self, others: &Self) -> Option<usize> {
        match (self, others) {
            (Self::Examples(own, _), Self::Examples(others, _)) => {
                let len = own.shape.len();
                match (&own.values, &others.values) {
                    (Values::Bytes(own), Values::Bytes(others)) => {
                        let own: HashSet<&[u8]> = own.chunks_exact(len).collect();
                        others.chunks_exact(len).position(|other| own.contains(other))
                    }
                    (Values::Floats(own), Values::Floats(others)) => {
                        let bits =
                            |row: &[f32]| row.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                        let own: HashSet<Vec<u32>> = own.chunks_exact(len).map(bits).collect();
                        others.chunks_exact(len).position(|other| own.contains(&bits(other)))
                    }
                    _ => None,
                }
            }
            (Self::Documents { texts: own, .. }, Self::Documents { texts: others, .. }) => {
                let own: HashSet<&str> = own.iter().map(String::as_str).collect();
                others.iter().position(|text| own.contains(text.as_str()))
            }
            _ => None,
        }
    }

    /// Returns what a page shows of a sample.
    pub fn shown(&self, at: usize) -> Option<Shown> {
        match self {
            Self::Documents { texts, .. } => Some(Shown::Text(shortened(texts.get(at)?))),
            Self::Examples(data, columns) => match data.shape {
                ExampleShape::Image { .. } => {
                    let (png, width) = veridical_io::examples::png_of(data, at)?;
                    Some(Shown::Image(png, width))
                }
                ExampleShape::Row { columns: dim } => {
                    let Values::Floats(values) = &data.values else { return None };
                    let row = values.get(at * dim..(at + 1) * dim)?;
                    Some(Shown::Text(in_words(row, columns)))
                }
            },
        }
    }
}

/// The first columns of a row with their names.
fn in_words(row: &[f32], columns: &[String]) -> String {
    let cell = |(i, x): (usize, &f32)| match columns.get(i) {
        Some(name) => format!("{name} {x}"),
        None => x.to_string(),
    };
    let mut text =
        row.iter().enumerate().take(MOST_COLUMNS).map(cell).collect::<Vec<_>>().join(", ");
    if row.len() > MOST_COLUMNS {
        text += &format!(", .. ({} in all)", row.len());
    }
    text
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MOST_LETTERS) {
        None => text.to_owned(),
        Some((end, _)) => format!("{} ..", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_long_documents_are_shown_in_part() {
        let row: Vec<f32> = (0..10).map(|i| i as f32).collect();
        assert_eq!(in_words(&row[..2], &["a".into(), "b".into()]), "a 0, b 1");
        assert!(in_words(&row, &[]).ends_with("7, .. (10 in all)"));
        let shown = shortened(&"é".repeat(300));
        assert_eq!((shown.chars().count(), shown.ends_with(" ..")), (283, true));
    }

    #[test]
    fn samples_that_are_there_already_are_found() {
        let of = |texts: &[&str]| Samples::Documents {
            texts: texts.iter().map(ToString::to_string).collect(),
            labels: Vec::new(),
        };
        assert_eq!(of(&["a", "b"]).first_among(&of(&["c", "b"])), Some(1));
        assert_eq!(of(&["a", "b"]).first_among(&of(&["c"])), None);
    }
}
