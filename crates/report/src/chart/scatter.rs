//! Points with names.

use serde::Serialize;

use super::{Axis, Chart, Title, names, range};

/// Points in groups; the name of a point is shown when it is pointed at.
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
}

#[derive(Clone, Debug, Serialize)]
struct Series {
    name: String,
    points: Vec<(f64, f64, String)>,
}

impl Scatter {
    /// A chart without points.
    pub fn new(caption: impl Into<String>, explain: impl Into<String>, x: Axis, y: Axis) -> Self {
        let drawing = Drawing { x, y, diagonal: false, series: Vec::new() };
        Self { title: Title::new(caption, explain), drawing }
    }

    /// Adds points: x, y and a name, which may be empty.
    pub fn series<S: Into<String>>(
        mut self,
        name: impl Into<String>,
        points: impl IntoIterator<Item = (f64, f64, S)>,
    ) -> Self {
        let points = points.into_iter().map(|(x, y, name)| (x, y, name.into())).collect();
        self.drawing.series.push(Series { name: name.into(), points });
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
