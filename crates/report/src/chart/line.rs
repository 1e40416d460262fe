//! Line charts, with and without intervals.

use serde::Serialize;

use super::{Axis, Chart, Title, names, range};

/// A line chart.
///
/// ```
/// use veridical_report::{Axis, Line, Page};
///
/// let chart = Line::new(
///     "Error of the kernel",
///     "A line of slope -1/2 is the rate 1/sqrt(m).",
///     Axis::log("directions m"),
///     Axis::log("mean |error|"),
/// )
/// .series("iid", [[32.0, 0.1], [128.0, 0.05]])
/// .series("orthogonal", [[32.0, 0.07], [128.0, 0.034]])
/// .dashed("theory", [[32.0, 0.1], [128.0, 0.05]]);
/// let page = Page::new("Errors").chart(chart);
/// ```
#[derive(Clone, Debug)]
pub struct Line {
    title: Title,
    drawing: Drawing<2>,
}

/// A line chart with an interval around each point: x, value, low, high.
///
/// ```
/// use veridical_report::{Axis, Band};
///
/// let chart = Band::new(
///     "Neighbors kept, day by day",
///     "The band is the 95 % interval; a refresh is safe above the dashed limit.",
///     Axis::new("day"),
///     Axis::new("overlap@10").mark("limit", 0.7),
/// )
/// .series("this model", [[1.0, 0.75, 0.74, 0.76], [2.0, 0.73, 0.72, 0.74]]);
/// ```
#[derive(Clone, Debug)]
pub struct Band {
    title: Title,
    drawing: Drawing<4>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(bound(serialize = "[f64; N]: Serialize"))]
struct Drawing<const N: usize> {
    x: Axis,
    y: Axis,
    series: Vec<Series<N>>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(bound(serialize = "[f64; N]: Serialize"))]
struct Series<const N: usize> {
    name: String,
    dashed: bool,
    #[serde(skip_serializing_if = "is_false")]
    dots: bool,
    points: Vec<[f64; N]>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
const fn is_false(is: &bool) -> bool {
    !*is
}

impl Line {
    /// Makes a chart without lines.
    pub fn new(caption: impl Into<String>, explain: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self { title: Title::new(caption, explain), drawing: Drawing { x, y, series: Vec::new() } }
    }

    /// Adds a line through (x, y), in the order of its points.
    pub fn series(
        mut self,
        name: impl Into<String>,
        points: impl IntoIterator<Item = [f64; 2]>,
    ) -> Self {
        self.drawing.push(name, false, points);
        self
    }

    /// Adds a dashed line, such as a theory or a reference.
    pub fn dashed(
        mut self,
        name: impl Into<String>,
        points: impl IntoIterator<Item = [f64; 2]>,
    ) -> Self {
        self.drawing.push(name, true, points);
        self
    }
}

impl Band {
    /// Makes a chart without lines.
    pub fn new(caption: impl Into<String>, explain: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self { title: Title::new(caption, explain), drawing: Drawing { x, y, series: Vec::new() } }
    }

    /// Adds a line through (x, value) and its band from low to high.
    pub fn series(
        mut self,
        name: impl Into<String>,
        points: impl IntoIterator<Item = [f64; 4]>,
    ) -> Self {
        self.drawing.push(name, false, points);
        self
    }

    /// Adds a dashed line through (x, y), such as a limit that changes.
    pub fn dashed(
        mut self,
        name: impl Into<String>,
        points: impl IntoIterator<Item = [f64; 2]>,
    ) -> Self {
        let points = points.into_iter().map(|[x, y]| [x, y, f64::NAN, f64::NAN]);
        self.drawing.push(name, true, points);
        self
    }

    /// Adds points that no line connects, such as exceptions, with their intervals in the tooltip; those far from all lines are
    /// drawn at the edge.
    pub fn dots(
        mut self,
        name: impl Into<String>,
        points: impl IntoIterator<Item = [f64; 4]>,
    ) -> Self {
        self.drawing.push(name, false, points);
        if let Some(series) = self.drawing.series.last_mut() {
            series.dots = true;
        }
        self
    }
}

impl<const N: usize> Drawing<N> {
    fn push(
        &mut self,
        name: impl Into<String>,
        dashed: bool,
        points: impl IntoIterator<Item = [f64; N]>,
    ) {
        let points = points.into_iter().collect();
        self.series.push(Series { name: name.into(), dashed, dots: false, points });
    }

    fn alt(&self, kind: &str, caption: &str) -> String {
        let all = |column: usize| {
            self.series.iter().flat_map(move |s| s.points.iter().map(move |p| p[column]))
        };
        format!(
            "{kind}: {caption}. {}; {}; lines: {}.",
            range(&self.x.name, all(0)),
            range(&self.y.name, all(1)),
            names(self.series.iter().map(|s| s.name.as_str()))
        )
    }
}

impl From<Line> for Chart {
    fn from(Line { title, drawing }: Line) -> Self {
        let alt = drawing.alt("Line chart", &title.caption);
        Self::new(title, "line", alt, &drawing)
    }
}

impl From<Band> for Chart {
    fn from(Band { title, drawing }: Band) -> Self {
        let alt = drawing.alt("Line chart with intervals", &title.caption);
        Self::new(title, "band", alt, &drawing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_alternative_text_says_what_is_seen() {
        let chart = Line::new("Error", "Lower is better.", Axis::log("m"), Axis::new("error"))
            .series("iid", [[32.0, 0.1], [128.0, f64::NAN]])
            .dashed("theory", [[32.0, 0.25]]);
        assert_eq!(
            Chart::from(chart).alt,
            "Line chart: Error. m 32 to 128; error 0.1 to 0.25; lines: iid, theory."
        );
    }
}
