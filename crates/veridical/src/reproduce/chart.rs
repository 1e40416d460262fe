//! Pictures of an experiment: their numbers, and how they are drawn.

use serde::Serialize;
use serde_json::{Value, json};

/// A picture.
#[derive(Clone, Debug, Serialize)]
pub struct Chart {
    /// What it shows.
    pub caption: String,
    /// How points are drawn.
    pub shape: Shape,
    /// The names of the two axes.
    pub axes: [String; 2],
    /// What is drawn.
    pub series: Vec<Series>,
}

/// How the points of a chart are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
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
        Self { caption, shape: Shape::Lines, axes: axes.map(str::to_owned), series }
    }

    pub(super) fn points(caption: String, axes: [&str; 2], series: Vec<Series>) -> Self {
        Self { caption, shape: Shape::Points, axes: axes.map(str::to_owned), series }
    }

    /// As an option of ECharts.
    pub(super) fn option(&self) -> Value {
        let [x, y] = &self.axes;
        let axis = |name: &str| json!({ "type": "value", "name": name, "scale": true });
        let one = |series: &Series| match self.shape {
            Shape::Lines => {
                json!({ "type": "line", "name": series.name, "data": series.points, "showSymbol": false })
            }
            Shape::Points => {
                json!({ "type": "scatter", "name": series.name, "data": series.points, "symbolSize": 4 })
            }
        };
        json!({
            "tooltip": {},
            "legend": {},
            "xAxis": axis(x),
            "yAxis": axis(y),
            "series": self.series.iter().map(one).collect::<Vec<_>>(),
        })
    }
}
