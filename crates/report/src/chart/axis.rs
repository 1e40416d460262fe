//! One axis of a chart.

use serde::Serialize;

/// An axis with its name, scale and marked limits.
///
/// ```
/// use veridical_report::Axis;
///
/// let axis = Axis::new("neighbors kept").percent().mark("limit", 0.7);
/// ```
#[derive(Clone, Debug, Serialize)]
pub struct Axis {
    pub(super) name: String,
    log: bool,
    percent: bool,
    zero: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    bounds: Option<[f64; 2]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<f64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    integers: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    names: Vec<String>,
    marks: Vec<Mark>,
}

#[derive(Clone, Debug, Serialize)]
struct Mark {
    name: String,
    value: f64,
}

impl Axis {
    /// Makes a linear axis; the unit belongs in its name.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            log: false,
            percent: false,
            zero: false,
            bounds: None,
            end: None,
            integers: false,
            names: Vec::new(),
            marks: Vec::new(),
        }
    }

    /// Makes a logarithmic axis; values that are not positive are omitted.
    pub fn log(name: impl Into<String>) -> Self {
        Self { log: true, ..Self::new(name) }
    }

    /// Shows fractions as percentages.
    pub fn percent(mut self) -> Self {
        self.percent = true;
        self
    }

    /// Starts the axis at zero even if all values are far from it.
    pub fn from_zero(mut self) -> Self {
        self.zero = true;
        self
    }

    /// Never goes beyond the least and the largest value that there can be; either may be infinite.
    pub fn within(mut self, [least, most]: [f64; 2]) -> Self {
        self.bounds = Some([least, most]);
        self
    }

    /// Ends at this value, the largest that there can be, even if all values are far from it.
    pub fn ends_at(mut self, most: f64) -> Self {
        self.end = Some(most);
        self
    }

    /// Begins, ends and is labeled at whole numbers, such as epochs.
    pub fn integers(mut self) -> Self {
        self.integers = true;
        self
    }

    /// Names the positions 0, 1, 2, ..., such as days.
    pub fn named<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.names = names.into_iter().map(Into::into).collect();
        self
    }

    /// Draws a named line across the chart, for a limit or an expected value.
    pub fn mark(mut self, name: impl Into<String>, value: f64) -> Self {
        if value.is_finite() {
            self.marks.push(Mark { name: name.into(), value });
        }
        self
    }
}
