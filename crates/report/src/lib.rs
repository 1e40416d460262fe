//! Reports: verdict, tables and charts in one self-contained HTML file that works offline.
//!
//! A [`Page`] is read from the top: a [`Verdict`] and a row of [`Card`]s for readers with one minute, sections with
//! [`Table`]s and charts for readers with ten, the [`Foot`] and the embedded numbers for readers who want to check. Charts
//! are [`Line`], [`Band`], [`BoxPlot`], [`Histogram`], [`Density`], [`Scatter`], [`Heatmap`] and [`Bars`]: typed numbers with
//! a caption and a sentence on how to read them; `browser/charts.js` draws them with Apache ECharts (`assets/`, version
//! 6.1.0, Apache-2.0), which is embedded once if a page has any chart. A [`Gallery`] shows images and texts.
//!
//! All input is treated as text: it is escaped here, and again in the browser for tooltips. A content security policy in
//! the page's head blocks every request. Numbers that are NaN or infinite are shown as `-`.
//!
//! ```
//! use veridical_report::{Axis, Card, Cell, Foot, Level, Line, Page, Table, Verdict};
//!
//! let page = Page::new("Errors of a feature map")
//!     .verdict(Verdict::new(Level::Good, "The map is exact enough.").detail("Measured on 512 pairs."))
//!     .cards([Card::new("mean error", "0.03").note("limit 0.05").level(Level::Good)])
//!     .section("By number of directions", "More directions, less error.")
//!     .table(Table::new("Errors", ["directions", "mean"]).row([Cell::from(64u64), Cell::number(0.03, 3)]))
//!     .chart(
//!         Line::new("Error", "Lower is better.", Axis::log("directions"), Axis::new("mean error"))
//!             .series("iid", [[32.0, 0.042], [64.0, 0.03]]),
//!     )
//!     .foot(Foot::new("veridical featurize check").fact("seed", "7"));
//! assert!(page.to_html().starts_with("<!doctype html>"));
//! ```

mod chart;
mod gallery;
mod html;
mod page;
mod table;
mod verdict;

pub use chart::{
    Axis, Band, Bars, BoxPlot, Chart, Density, FiveNumbers, Heatmap, Histogram, Line, Scatter,
};
pub use gallery::{Gallery, Tile};
pub use html::{brief, number};
pub use page::{Foot, Page};
pub use table::{Cell, Table};
pub use verdict::{Card, Level, Verdict};

/// The example of the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct ReadmeExample;
