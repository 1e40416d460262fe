//! Pictures of an experiment: their numbers, and how they are drawn.

use serde::Serialize;
use veridical_report::{Axis, Line, Scatter};

/// A picture.
#[derive(Clone, Debug, Serialize)]
pub struct Chart {
    /// What it shows.
    pub caption: String,
    /// How points are drawn.
    pub shape: ChartKind,
    /// The names of the two axes.
    pub axes: [String; 2],
    /// What is drawn.
    pub series: Vec<Series>,
}

/// How the points of a chart are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChartKind {
    /// Joined by lines.
    Lines,
    /// Alone.
    Points,
}

/// Points that belong together.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    /// As the legend has it.
    pub name: String,
    /// x and y.
    pub points: Vec<[f64; 2]>,
}

impl Chart {
    pub(super) fn lines(caption: String, axes: [&str; 2], series: Vec<Series>) -> Self {
        Self { caption, shape: ChartKind::Lines, axes: axes.map(str::to_owned), series }
    }

    pub(super) fn points(caption: String, axes: [&str; 2], series: Vec<Series>) -> Self {
        Self { caption, shape: ChartKind::Points, axes: axes.map(str::to_owned), series }
    }

    /// As a piece of a page.
    pub(super) fn piece(&self) -> veridical_report::Chart {
        let [x, y] = self.axes.each_ref().map(|name| match name.as_str() {
            "epoch" => Axis::new(name).integers(),
            _ => Axis::new(name),
        });
        let explain = "Names in the legend switch their points off and on.";
        match self.shape {
            ChartKind::Lines => {
                let chart = Line::new(&self.caption, explain, x, y);
                let add = |chart: Line, s: &Series| chart.series(&s.name, s.points.iter().copied());
                self.series.iter().fold(chart, add).into()
            }
            ChartKind::Points => {
                let chart = Scatter::new(&self.caption, explain, x, y);
                let add = |chart: Scatter, s: &Series| {
                    chart.series(&s.name, s.points.iter().map(|[x, y]| (*x, *y, "")))
                };
                self.series.iter().fold(chart, add).into()
            }
        }
    }
}
