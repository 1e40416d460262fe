//! Charts: numbers with a caption, which `browser/charts.js` draws.

mod axis;
mod bars;
mod box_plot;
mod density;
mod heatmap;
mod histogram;
mod line;
mod scatter;

use std::fmt::Write as _;

use serde::Serialize;

pub use self::axis::Axis;
pub use self::bars::Bars;
pub use self::box_plot::{BoxPlot, FiveNumbers};
pub use self::density::Density;
pub use self::heatmap::Heatmap;
pub use self::histogram::Histogram;
pub use self::line::{Band, Line};
pub use self::scatter::Scatter;
use crate::html::{brief, escape, prose, short_json};

/// The height of a chart in pixels, unless its rows need more.
const HEIGHT: usize = 340;
/// The maximum height in pixels; the browser omits names that do not fit.
const TALLEST: usize = 1200;

/// A chart of any kind, ready for a page; every kind of chart converts into it.
#[derive(Clone, Debug)]
pub struct Chart {
    title: Title,
    kind: &'static str,
    /// The alternative text for screen readers.
    alt: String,
    height: usize,
    numbers: String,
}

/// The caption and explanation above a chart.
#[derive(Clone, Debug)]
struct Title {
    caption: String,
    explain: String,
}

impl Title {
    fn new(caption: impl Into<String>, explain: impl Into<String>) -> Self {
        Self { caption: caption.into(), explain: explain.into() }
    }
}

impl Chart {
    fn new(title: Title, kind: &'static str, alt: String, numbers: &impl Serialize) -> Self {
        Self { title, kind, alt, height: HEIGHT, numbers: short_json(numbers) }
    }

    // Writing to a String cannot fail.
    pub(crate) fn write(&self, html: &mut String) {
        let Self { title: Title { caption, explain }, kind, alt, height, numbers } = self;
        let _ = writeln!(
            html,
            "<figure class=\"chart\">\n<figcaption><h3>{}</h3><span class=\"tools\">\
             <button type=\"button\" data-do=\"zoom\" aria-pressed=\"false\" title=\"Drag a rectangle to zoom in\">Zoom</button>\
             <button type=\"button\" data-do=\"reset\" title=\"Reset the zoom\">Reset</button>\
             <button type=\"button\" data-do=\"copy-chart\" title=\"Copy the numbers, for a spreadsheet\">Copy</button>\
             <button type=\"button\" data-do=\"save-chart\" title=\"Save as a PNG image\">PNG</button>\
             </span></figcaption>\n<p class=\"explain\">{}</p>\n\
             <div class=\"plot\" role=\"img\" data-kind=\"{kind}\" style=\"height:{height}px\" aria-label=\"{}\"></div>\n\
             <script type=\"application/json\">{numbers}</script>\n</figure>",
            escape(caption),
            prose(explain),
            escape(alt)
        );
    }
}

/// `name 0.1 to 0.9`, over the finite values.
fn range(name: &str, values: impl Iterator<Item = f64>) -> String {
    let finite = values.filter(|x| x.is_finite());
    match finite.fold(None, |ends: Option<[f64; 2]>, x| {
        Some(ends.map_or([x, x], |[low, high]| [low.min(x), high.max(x)]))
    }) {
        Some([low, high]) => format!("{name} {} to {}", brief(low), brief(high)),
        None => format!("{name} without values"),
    }
}

/// The names, or their number if there are many.
fn names<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    match names.len() {
        n if n > 12 => format!("{n} of them"),
        _ => names.collect::<Vec<_>>().join(", "),
    }
}
