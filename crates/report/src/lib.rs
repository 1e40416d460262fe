//! Reports: text, tables and charts in one HTML file that needs nothing else, not even a network.
//!
//! Charts are options of Apache ECharts, which is embedded once (`assets/`, version 6.1.0,
//! Apache-2.0) if a page has any.
//!
//! ```
//! use serde_json::json;
//! use veridical_report::Page;
//!
//! let page = Page::new("Errors")
//!     .text("Measured on 512 rows.")
//!     .table("By family", &["family", "mean"], vec![vec!["iid".into(), "0.03".into()]])
//!     .chart("Error", json!({ "xAxis": { "data": ["iid"] }, "yAxis": {}, "series": [] }));
//! assert!(page.to_html().starts_with("<!doctype html>"));
//! ```

use std::fmt::Write as _;

use serde_json::Value;

const ECHARTS: &str = include_str!("../assets/echarts.min.js");
const STYLE: &str = include_str!("page.css");
/// Draws every chart with the theme and the width of the reader.
const DRAW: &str = "\
const dark = matchMedia('(prefers-color-scheme: dark)').matches;
for (const place of document.querySelectorAll('.chart')) {
  const chart = echarts.init(place, dark ? 'dark' : null);
  chart.setOption({ backgroundColor: 'transparent', animation: false,
    ...JSON.parse(place.nextElementSibling.textContent) });
  addEventListener('resize', () => chart.resize());
}";

/// One report.
#[derive(Clone, Debug)]
pub struct Page {
    title: String,
    blocks: Vec<Block>,
}

#[derive(Clone, Debug)]
enum Block {
    Text(String),
    Table { caption: String, head: Vec<String>, rows: Vec<Vec<String>> },
    Chart { caption: String, option: Value },
}

impl Page {
    /// An empty page.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), blocks: Vec::new() }
    }

    /// Adds a paragraph.
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.blocks.push(Block::Text(text.into()));
        self
    }

    /// Adds a table; every row is as long as the head.
    pub fn table(
        mut self,
        caption: impl Into<String>,
        head: &[&str],
        rows: Vec<Vec<String>>,
    ) -> Self {
        let head = head.iter().map(ToString::to_string).collect();
        self.blocks.push(Block::Table { caption: caption.into(), head, rows });
        self
    }

    /// Adds a chart from an option of ECharts.
    pub fn chart(mut self, caption: impl Into<String>, option: Value) -> Self {
        self.blocks.push(Block::Chart { caption: caption.into(), option });
        self
    }

    /// The whole file.
    pub fn to_html(&self) -> String {
        let title = escape(&self.title);
        let mut html = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
        );
        self.blocks.iter().for_each(|block| block.write(&mut html));
        if self.blocks.iter().any(|block| matches!(block, Block::Chart { .. })) {
            html.push_str(&format!("<script>{ECHARTS}</script>\n<script>\n{DRAW}\n</script>\n"));
        }
        html.push_str("</body>\n</html>\n");
        html
    }
}

impl Block {
    // Writing to a String cannot fail.
    fn write(&self, html: &mut String) {
        match self {
            Self::Text(text) => {
                let _ = writeln!(html, "<p>{}</p>", escape(text));
            }
            Self::Table { caption, head, rows } => {
                let cells = |cells: &[String], tag: &str| {
                    let cell = |cell: &String| format!("<{tag}>{}</{tag}>", escape(cell));
                    format!("<tr>{}</tr>\n", cells.iter().map(cell).collect::<String>())
                };
                let body: String = rows.iter().map(|row| cells(row, "td")).collect();
                let _ = writeln!(
                    html,
                    "<h2>{}</h2>\n<div class=\"scroll\"><table>\n<thead>{}</thead>\n<tbody>\n{body}</tbody>\n</table></div>",
                    escape(caption),
                    cells(head, "th")
                );
            }
            Self::Chart { caption, option } => {
                // A `<` inside a string could end the script element.
                let option = option.to_string().replace('<', "\\u003c");
                let _ = writeln!(
                    html,
                    "<h2>{}</h2>\n<div class=\"chart\"></div>\n<script type=\"application/json\">{option}</script>",
                    escape(caption)
                );
            }
        }
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use sha2::{Digest, Sha256};

    #[test]
    fn echarts_is_the_file_of_the_release() {
        let digest = Sha256::digest(ECHARTS);
        let hex: String = digest.iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, "b66b25aeb4df84e33199dc21694014d336d222cbd9deb0e5a7c14bd6aa0d0fd0");
    }

    #[test]
    fn names_from_outside_cannot_break_out() {
        let evil = "</script><script>alert(1)</script>";
        let page = Page::new(evil).text(evil).table(evil, &[evil], vec![vec![evil.into()]]);
        let html = page.chart(evil, json!({ "name": evil })).to_html();
        assert!(!html.contains("<script>alert"));
    }

    #[test]
    fn a_page_without_charts_is_small() {
        assert!(Page::new("x").text("y").to_html().len() < 4096);
    }
}
