//! Scatter plots.

use serde::Serialize;

use super::{Axis, Chart, Title, names, range};

/// More points per series than these make a page large and show nothing new.
const MOST_POINTS: usize = 5000;

/// A scatter plot of groups of points; the name of a point is shown in its tooltip.
///
/// ```
/// use veridical_report::{Axis, Scatter};
///
/// let chart = Scatter::new(
///     "Estimated against exact kernel values",
///     "Points on the diagonal are exact.",
///     Axis::new("k(x, y)"),
///     Axis::new("<phi(x), phi(y)>"),
/// )
/// .series("pairs", [(0.2, 0.21, "item 7, item 9"), (0.5, 0.47, "item 1, item 3")])
/// .diagonal();
/// ```
#[derive(Clone, Debug)]
pub struct Scatter {
    title: Title,
    drawing: Drawing,
}

#[derive(Clone, Debug, Serialize)]
struct Drawing {
    x: Axis,
    y: Axis,
    diagonal: bool,
    series: Vec<Series>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    curves: Vec<Curve>,
}

#[derive(Clone, Debug, Serialize)]
struct Series {
    name: String,
    points: Vec<(f64, f64, String)>,
    /// Low and high of y, one pair per point.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    intervals: Vec<[f64; 2]>,
}

#[derive(Clone, Debug, Serialize)]
struct Curve {
    name: String,
    points: Vec<[f64; 2]>,
}

impl Scatter {
    /// Makes a chart without points.
    pub fn new(caption: impl Into<String>, explain: impl Into<String>, x: Axis, y: Axis) -> Self {
        let drawing = Drawing { x, y, diagonal: false, series: Vec::new(), curves: Vec::new() };
        Self { title: Title::new(caption, explain), drawing }
    }

    /// Adds points: x, y and a name, which may be empty. Of very many points only every second, third, ... is drawn, which
    /// the explanation states.
    pub fn series<S: Into<String>>(
        mut self,
        name: impl Into<String>,
        points: impl IntoIterator<Item = (f64, f64, S)>,
    ) -> Self {
        let (name, points) = (name.into(), points.into_iter().collect::<Vec<_>>());
        let step = points.len().div_ceil(MOST_POINTS).max(1);
        if step > 1 {
            let Title { explain, .. } = &mut self.title;
            *explain += &format!(" Of {name}, every {step}th of {} points is drawn.", points.len());
        }
        let points = points.into_iter().step_by(step).map(|(x, y, name)| (x, y, name.into()));
        let intervals = Vec::new();
        self.drawing.series.push(Series { name, points: points.collect(), intervals });
        self
    }

    /// Adds points whose y has an interval: x, value, low and high, and a name. A whisker is omitted where low or high is NaN.
    pub fn intervals<S: Into<String>>(
        mut self,
        name: impl Into<String>,
        points: impl IntoIterator<Item = (f64, [f64; 3], S)>,
    ) -> Self {
        let (mut all, mut intervals) = (Vec::new(), Vec::new());
        for (x, [value, low, high], name) in points {
            all.push((x, value, name.into()));
            intervals.push([low, high]);
        }
        self.drawing.series.push(Series { name: name.into(), points: all, intervals });
        self
    }

    /// Draws a line through points, such as a fit.
    pub fn curve(
        mut self,
        name: impl Into<String>,
        points: impl IntoIterator<Item = [f64; 2]>,
    ) -> Self {
        let points = points.into_iter().collect();
        self.drawing.curves.push(Curve { name: name.into(), points });
        self
    }

    /// Draws the line y = x.
    pub fn diagonal(mut self) -> Self {
        self.drawing.diagonal = true;
        self
    }
}

impl From<Scatter> for Chart {
    fn from(Scatter { title, drawing }: Scatter) -> Self {
        let points = || drawing.series.iter().flat_map(|series| &series.points);
        let alt = format!(
            "Scatter plot: {}. {} points; {}; {}; groups: {}.",
            title.caption,
            points().count(),
            range(&drawing.x.name, points().map(|p| p.0)),
            range(&drawing.y.name, points().map(|p| p.1)),
            names(drawing.series.iter().map(|s| s.name.as_str()))
        );
        Self { height: 420, ..Self::new(title, "scatter", alt, &drawing) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn very_many_points_are_thinned_out_with_a_note() {
        let chart = |n: usize| {
            Scatter::new("c", "Read it.", Axis::new("x"), Axis::new("y"))
                .series("pairs", (0..n).map(|i| (i as f64, 0.0, "")))
        };
        let (all, some) = (chart(MOST_POINTS), chart(100_000));
        assert_eq!(
            (all.drawing.series[0].points.len(), all.title.explain),
            (5000, "Read it.".into())
        );
        assert_eq!(some.drawing.series[0].points.len(), 5000);
        assert_eq!(some.title.explain, "Read it. Of pairs, every 20th of 100000 points is drawn.");
    }
}
