//! Bars and dots with error bars.

use serde::Serialize;

use super::{Axis, Chart, HEIGHT, TALLEST, Title, names, range};

/// Longer names need horizontal bars.
const LONGEST_NAME: usize = 12;
/// More bars than these are horizontal.
const MOST_VERTICAL: usize = 10;

/// One value per name and series, with an interval.
///
/// ```
/// use veridical_report::{Axis, Bars};
///
/// let chart = Bars::new("Accuracy", "Whiskers are 95 % intervals.", Axis::new("accuracy"), ["raw", "aligned"])
///     .series("retrained", [[0.898, 0.892, 0.904], [0.897, 0.892, 0.902]])
///     .series("not retrained", [[0.217, 0.209, 0.225], [0.894, 0.889, 0.899]]);
/// // Dots show differences far from zero better:
/// let dots = Bars::new("NDCG", "Intervals over users.", Axis::new("ndcg@10"), ["als"]).values("all", [0.41]).dots();
/// ```
#[derive(Clone, Debug)]
pub struct Bars {
    title: Title,
    drawing: Drawing,
}

#[derive(Clone, Debug, Serialize)]
struct Drawing {
    y: Axis,
    names: Vec<String>,
    lying: bool,
    dots: bool,
    series: Vec<Series>,
}

#[derive(Clone, Debug, Serialize)]
struct Series {
    name: String,
    values: Vec<[f64; 3]>,
}

impl Bars {
    /// Makes a chart with these names and no values.
    pub fn new<S: Into<String>>(
        caption: impl Into<String>,
        explain: impl Into<String>,
        values: Axis,
        names: impl IntoIterator<Item = S>,
    ) -> Self {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        let lying =
            names.len() > MOST_VERTICAL || names.iter().any(|n| n.chars().count() > LONGEST_NAME);
        let drawing = Drawing { y: values, names, lying, dots: false, series: Vec::new() };
        Self { title: Title::new(caption, explain), drawing }
    }

    /// Adds value, low and high for every name. If low and high are NaN, the whisker is omitted; if the value is NaN,
    /// nothing is drawn.
    pub fn series(
        mut self,
        name: impl Into<String>,
        values: impl IntoIterator<Item = [f64; 3]>,
    ) -> Self {
        let values = values.into_iter().collect();
        self.drawing.series.push(Series { name: name.into(), values });
        self
    }

    /// Adds values without intervals.
    pub fn values(self, name: impl Into<String>, values: impl IntoIterator<Item = f64>) -> Self {
        self.series(name, values.into_iter().map(|x| [x, f64::NAN, f64::NAN]))
    }

    /// Draws dots instead of bars; the axis need not start at zero.
    pub fn dots(mut self) -> Self {
        self.drawing.dots = true;
        self
    }
}

impl From<Bars> for Chart {
    fn from(Bars { title, drawing }: Bars) -> Self {
        let all = drawing.series.iter().flat_map(|s| s.values.iter().map(|v| v[0]));
        let alt = format!(
            "Bar chart: {}. {}; of: {}; series: {}.",
            title.caption,
            range(&drawing.y.name, all),
            names(drawing.names.iter().map(String::as_str)),
            names(drawing.series.iter().map(|s| s.name.as_str()))
        );
        let row = 16 + 12 * drawing.series.len().max(1);
        let lying = (110 + row * drawing.names.len()).min(TALLEST);
        let height = if drawing.lying { lying } else { HEIGHT };
        Self { height, ..Self::new(title, "bars", alt, &drawing) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_need_horizontal_bars() {
        let is_horizontal = |name: &str| Bars::new("c", "e", Axis::new("y"), [name]).drawing.lying;
        assert!(!is_horizontal("twelve chars") && is_horizontal("align-then-phi, D = 512"));
    }

    #[test]
    fn a_thousand_names_keep_the_chart_on_a_few_screens() {
        let names = (0..1000).map(|i| i.to_string());
        let chart = Bars::new("c", "e", Axis::new("y"), names).values("v", vec![1.0; 1000]);
        assert_eq!(Chart::from(chart).height, TALLEST);
    }
}
