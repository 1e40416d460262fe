//! Heat maps.

use serde::Serialize;

use super::{Chart, Title, names, range};

/// A heat map of a matrix with named rows and columns; cells that are NaN or infinite stay empty.
///
/// ```
/// use veridical_report::Heatmap;
///
/// let runs = ["run 0", "run 1"];
/// let chart = Heatmap::new("CKA of runs", "1 is the same geometry.", runs, runs, vec![vec![1.0, 0.97], vec![0.97, 1.0]])
///     .named("run", "compared with", "CKA");
/// let change = Heatmap::new("Change", "Blue fell, red rose.", ["a"], ["b"], vec![vec![-0.1]]).diverging(0.0);
/// ```
#[derive(Clone, Debug)]
pub struct Heatmap {
    title: Title,
    drawing: Drawing,
}

#[derive(Clone, Debug, Serialize)]
struct Drawing {
    rows: Vec<String>,
    columns: Vec<String>,
    values: Vec<Vec<f64>>,
    /// The names of the rows, the columns and the values.
    named: [String; 3],
    center: Option<f64>,
}

impl Heatmap {
    /// Makes a heat map from the rows of a matrix, first row on top.
    pub fn new<R: Into<String>, C: Into<String>>(
        caption: impl Into<String>,
        explain: impl Into<String>,
        rows: impl IntoIterator<Item = R>,
        columns: impl IntoIterator<Item = C>,
        values: Vec<Vec<f64>>,
    ) -> Self {
        let drawing = Drawing {
            rows: rows.into_iter().map(Into::into).collect(),
            columns: columns.into_iter().map(Into::into).collect(),
            values,
            named: ["", "", "value"].map(str::to_owned),
            center: None,
        };
        Self { title: Title::new(caption, explain), drawing }
    }

    /// Names the rows, columns and values.
    pub fn named(mut self, rows: &str, columns: &str, values: &str) -> Self {
        self.drawing.named = [rows, columns, values].map(str::to_owned);
        self
    }

    /// Uses a diverging color scale around `center`.
    pub fn diverging(mut self, center: f64) -> Self {
        self.drawing.center = Some(center);
        self
    }
}

impl From<Heatmap> for Chart {
    fn from(Heatmap { title, drawing }: Heatmap) -> Self {
        let alt = format!(
            "Heat map: {}. {}; rows: {}; columns: {}.",
            title.caption,
            range(&drawing.named[2], drawing.values.iter().flatten().copied()),
            names(drawing.rows.iter().map(String::as_str)),
            names(drawing.columns.iter().map(String::as_str))
        );
        let height = (150 + 30 * drawing.rows.len()).clamp(240, 720);
        Self { height, ..Self::new(title, "heatmap", alt, &drawing) }
    }
}
