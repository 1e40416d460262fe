//! One axis of a chart.

use serde::Serialize;

/// What an axis measures, and the limits that are marked on it.
///
/// ```
/// use veridical_report::Axis;
///
/// let axis = Axis::new("neighbours kept").percent().mark("limit", 0.7);
/// ```
#[derive(Clone, Debug, Serialize)]
pub struct Axis {
    pub(super) name: String,
    log: bool,
    percent: bool,
    zero: bool,
    marks: Vec<Mark>,
}

#[derive(Clone, Debug, Serialize)]
struct Mark {
    name: String,
    value: f64,
}

impl Axis {
    /// A linear axis; the unit belongs in its name.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), log: false, percent: false, zero: false, marks: Vec::new() }
    }

    /// A logarithmic axis: values that are not above 0 are left out.
    pub fn log(name: impl Into<String>) -> Self {
        Self { log: true, ..Self::new(name) }
    }

    /// Shows shares as per cent.
    pub fn percent(mut self) -> Self {
        self.percent = true;
        self
    }

    /// Begins at zero even if all values are far from it.
    pub fn from_zero(mut self) -> Self {
        self.zero = true;
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
