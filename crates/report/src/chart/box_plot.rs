//! Box plots: the five-number summary of Tukey (1977), minimum, quartiles, maximum.
//!
//! Quartiles interpolate linearly between order statistics (`core::stats::quantile`). The values themselves are drawn
//! beside a box if they are few enough to be distinguished.

use serde::Serialize;
use veridical_core::stats::quantile;

use super::{Axis, Chart, HEIGHT, TALLEST, Title, names, range};

/// With more values than these, only the box is drawn.
const MOST_POINTS: usize = 60;

/// A box plot with one box per group.
///
/// ```
/// use veridical_report::{Axis, BoxPlot};
///
/// let chart = BoxPlot::new("Accuracy over runs", "A flat box is a stable treatment.", Axis::new("accuracy").percent())
///     .samples("raw", &[0.897, 0.901, 0.895])
///     .samples("aligned", &[0.896, 0.899, 0.897]);
/// ```
#[derive(Clone, Debug)]
pub struct BoxPlot {
    title: Title,
    drawing: Drawing,
}

#[derive(Clone, Debug, Serialize)]
struct Drawing {
    y: Axis,
    boxes: Vec<Group>,
}

#[derive(Clone, Debug, Serialize)]
struct Group {
    name: String,
    n: usize,
    five: [f64; 5],
    #[serde(skip_serializing_if = "Option::is_none")]
    mean: Option<f64>,
    points: Vec<f64>,
}

/// The five-number summary: minimum, first quartile, median, third quartile, maximum.
///
/// ```
/// use veridical_report::FiveNumbers;
///
/// let five = FiveNumbers::of(&[1.0, 2.0, 3.0, 4.0, 5.0, f64::NAN]);
/// assert_eq!(five.0, [1.0, 2.0, 3.0, 4.0, 5.0]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FiveNumbers(pub [f64; 5]);

impl FiveNumbers {
    /// Computes the summary of the finite values; NaN if there are none.
    pub fn of(values: &[f64]) -> Self {
        let mut values: Vec<f64> = values.iter().copied().filter(|x| x.is_finite()).collect();
        Self([0.0, 0.25, 0.5, 0.75, 1.0].map(|q| quantile(&mut values, q).unwrap_or(f64::NAN)))
    }
}

impl BoxPlot {
    /// Makes a chart without boxes.
    pub fn new(caption: impl Into<String>, explain: impl Into<String>, y: Axis) -> Self {
        Self { title: Title::new(caption, explain), drawing: Drawing { y, boxes: Vec::new() } }
    }

    /// Adds a box of the finite values, which are also drawn if they are few.
    pub fn samples(mut self, name: impl Into<String>, values: &[f64]) -> Self {
        let points: Vec<f64> = values.iter().copied().filter(|x| x.is_finite()).collect();
        let (n, FiveNumbers(five)) = (points.len(), FiveNumbers::of(&points));
        let points = if n <= MOST_POINTS { points } else { Vec::new() };
        self.drawing.boxes.push(Group { name: name.into(), n, five, mean: None, points });
        self
    }

    /// Marks the mean of the last box.
    pub fn mean(mut self, mean: f64) -> Self {
        if let Some(group) = self.drawing.boxes.last_mut() {
            group.mean = Some(mean);
        }
        self
    }

    /// Adds a box of `n` values that was computed elsewhere.
    pub fn given(mut self, name: impl Into<String>, n: usize, five: FiveNumbers) -> Self {
        let points = Vec::new();
        self.drawing.boxes.push(Group { name: name.into(), n, five: five.0, mean: None, points });
        self
    }
}

impl From<BoxPlot> for Chart {
    fn from(BoxPlot { title, drawing }: BoxPlot) -> Self {
        let alt = format!(
            "Box plot: {}. {}; boxes: {}.",
            title.caption,
            range(&drawing.y.name, drawing.boxes.iter().flat_map(|b| b.five)),
            names(drawing.boxes.iter().map(|b| b.name.as_str()))
        );
        let height = (100 + 34 * drawing.boxes.len()).clamp(HEIGHT, TALLEST);
        Self { height, ..Self::new(title, "box", alt, &drawing) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_numbers_are_those_of_numpy() {
        // numpy.quantile([1, 2, 4, 8, 16, 32], [0, .25, .5, .75, 1])
        let values = [32.0, f64::NAN, 1.0, 16.0, 2.0, 8.0, 4.0, f64::INFINITY];
        assert_eq!(FiveNumbers::of(&values), FiveNumbers([1.0, 2.5, 6.0, 14.0, 32.0]));
        assert!(FiveNumbers::of(&[]).0.iter().all(|x| x.is_nan()));
    }
}
