//! Tables with typed cells: sortable by a click on the header, copied as text for a spreadsheet.

use std::fmt::Write as _;

use crate::Level;
use crate::html::{brief, escape, number, prose};
use crate::verdict::sign;

/// Longer texts get a wide column on a narrow screen, where the table scrolls anyway.
const LONG: usize = 36;

/// A table of a report.
///
/// ```
/// use veridical_report::{Cell, Level, Table};
///
/// let table = Table::new("Treatments", ["treatment", "accuracy", "verdict"])
///     .explain("Accuracy of a model that was not retrained.")
///     .row([Cell::from("raw"), Cell::interval(0.217, [0.209, 0.225], 3), Cell::level(Level::Bad, "blocked")])
///     .row([Cell::from("aligned"), Cell::number(0.894, 3), Cell::level(Level::Good, "safe")]);
/// ```
#[derive(Clone, Debug)]
pub struct Table {
    caption: String,
    explain: String,
    head: Vec<String>,
    rows: Vec<Vec<Cell>>,
    first: usize,
    key: Option<usize>,
}

/// A cell of a table. `from` converts text, integers, and numbers, which are shown with about four digits.
#[derive(Clone, Debug)]
pub struct Cell {
    shown: String,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Text,
    Number(f64),
    Interval([f64; 3]),
    Level(Level),
}

impl Table {
    /// Makes a table without rows.
    pub fn new<S: Into<String>>(
        caption: impl Into<String>,
        head: impl IntoIterator<Item = S>,
    ) -> Self {
        let head = head.into_iter().map(Into::into).collect();
        let (explain, rows) = (String::new(), Vec::new());
        Self { caption: caption.into(), explain, head, rows, first: usize::MAX, key: None }
    }

    /// Marks the most important column: it stands beside the first one, where no screen cuts it off.
    pub fn key(mut self, column: &str) -> Self {
        self.key = self.head.iter().position(|name| name == column);
        debug_assert!(self.key.is_some(), "there is no column `{column}`");
        self
    }

    /// The columns in the order in which they are shown.
    fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.head.len()).collect();
        if let Some(key) = self.key.filter(|key| *key > 0) {
            order.remove(key);
            order.insert(1, key);
        }
        order
    }

    /// Adds a sentence on how to read the table.
    pub fn explain(mut self, sentence: impl Into<String>) -> Self {
        self.explain = sentence.into();
        self
    }

    /// Adds a row. Missing cells at its end stay empty.
    pub fn row<C: Into<Cell>>(mut self, cells: impl IntoIterator<Item = C>) -> Self {
        let cells: Vec<Cell> = cells.into_iter().map(Into::into).collect();
        debug_assert!(cells.len() <= self.head.len(), "a row is longer than the header");
        self.rows.push(cells);
        self
    }

    /// Adds rows.
    pub fn rows<R: IntoIterator<Item: Into<Cell>>>(
        self,
        rows: impl IntoIterator<Item = R>,
    ) -> Self {
        rows.into_iter().fold(self, Self::row)
    }

    /// Shows only the first `rows` rows until the reader clicks to show all.
    pub fn first(mut self, rows: usize) -> Self {
        self.first = rows;
        self
    }

    // Writing to a String cannot fail.
    pub(crate) fn write(&self, html: &mut String) {
        let _ = writeln!(
            html,
            "<figure class=\"table\">\n<figcaption><h3>{}</h3><span class=\"tools\">\
             <button type=\"button\" data-do=\"copy-table\" title=\"Copy all rows, for a spreadsheet\">Copy</button>\
             </span></figcaption>",
            escape(&self.caption)
        );
        if !self.explain.is_empty() {
            let _ = writeln!(html, "<p class=\"explain\">{}</p>", prose(&self.explain));
        }
        html.push_str("<div class=\"scroll\" tabindex=\"0\"><table>\n<thead><tr>");
        let order = self.order();
        for &column in &order {
            let class = match (self.is_numeric(column), self.key == Some(column)) {
                (true, true) => " class=\"number key\"",
                (true, false) => " class=\"number\"",
                (false, true) => " class=\"key\"",
                (false, false) => "",
            };
            let name = escape(&self.head[column]);
            let _ = write!(
                html,
                "<th scope=\"col\"{class}><button type=\"button\" data-do=\"sort\">{name}</button></th>"
            );
        }
        html.push_str("</tr></thead>\n<tbody>\n");
        for (i, row) in self.rows.iter().enumerate() {
            html.push_str(if i < self.first { "<tr>" } else { "<tr class=\"more\">" });
            for &column in &order {
                match row.get(column) {
                    Some(cell) => cell.write(html, self.is_numeric(column)),
                    None => html.push_str("<td></td>"),
                }
            }
            html.push_str("</tr>\n");
        }
        html.push_str("</tbody>\n</table></div>\n");
        if self.rows.len() > self.first {
            let _ = writeln!(
                html,
                "<button type=\"button\" class=\"all\" data-do=\"all-rows\">Show all {} rows</button>",
                self.rows.len()
            );
        }
        html.push_str("</figure>\n");
    }

    fn is_numeric(&self, column: usize) -> bool {
        let is_number = |cell: &Cell| matches!(cell.kind, Kind::Number(_) | Kind::Interval(_));
        self.rows.iter().filter_map(|row| row.get(column)).any(is_number)
    }
}

impl Cell {
    /// Makes a cell of text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { shown: text.into(), kind: Kind::Text }
    }

    /// Makes a cell of a number with `digits` decimal places.
    pub fn number(x: f64, digits: usize) -> Self {
        Self { shown: number(x, digits), kind: Kind::Number(x) }
    }

    /// Makes a cell of a fraction as a percentage with `digits` decimal places.
    pub fn percent(share: f64, digits: usize) -> Self {
        let shown = match share.is_finite() {
            true => format!("{} %", number(100.0 * share, digits)),
            false => "-".into(),
        };
        Self { shown, kind: Kind::Number(share) }
    }

    /// Makes a cell of a number with its interval.
    pub fn interval(x: f64, [low, high]: [f64; 2], digits: usize) -> Self {
        Self { shown: number(x, digits), kind: Kind::Interval([x, low, high]) }.digits(digits)
    }

    /// Makes a cell of a word with a level.
    pub fn level(level: Level, word: impl Into<String>) -> Self {
        Self { shown: word.into(), kind: Kind::Level(level) }
    }

    /// Formats the number and its interval.
    fn digits(mut self, digits: usize) -> Self {
        if let Kind::Interval([_, low, high]) = self.kind
            && low.is_finite()
            && high.is_finite()
        {
            let range = format!("[{}, {}]", number(low, digits), number(high, digits));
            self.shown = format!("{}\u{2002}{range}", self.shown);
        }
        self
    }

    /// Writes the cell; a word in a column of numbers, such as `-`, is aligned like the numbers.
    fn write(&self, html: &mut String, in_numbers: bool) {
        let shown = escape(&self.shown);
        // A value that is not finite cannot be sorted by or copied.
        let value = |name: &str, x: f64| match x.is_finite() {
            true => format!(" data-{name}=\"{x}\""),
            false => String::new(),
        };
        let _ = match self.kind {
            Kind::Text if in_numbers => write!(html, "<td class=\"number\">{shown}</td>"),
            Kind::Text if self.shown.chars().count() > LONG => {
                write!(html, "<td class=\"long\">{shown}</td>")
            }
            Kind::Text => write!(html, "<td>{shown}</td>"),
            Kind::Number(x) => {
                write!(html, "<td class=\"number\"{}>{shown}</td>", value("value", x))
            }
            Kind::Interval([x, low, high]) => {
                let (number, range) = shown.split_once('\u{2002}').unwrap_or((&shown, ""));
                write!(
                    html,
                    "<td class=\"number\" data-interval{}{}{}>{number} <span class=\"range\">{range}</span></td>",
                    value("value", x),
                    value("low", low),
                    value("high", high)
                )
            }
            Kind::Level(level) => write!(
                html,
                "<td data-rank=\"{}\"><span class=\"badge {}\">{}{shown}</span></td>",
                level as u8,
                level.name(),
                sign(level)
            ),
        };
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl From<f64> for Cell {
    fn from(x: f64) -> Self {
        Self { shown: brief(x), kind: Kind::Number(x) }
    }
}

impl From<u64> for Cell {
    fn from(n: u64) -> Self {
        Self { shown: number(n as f64, 0), kind: Kind::Number(n as f64) }
    }
}

impl From<usize> for Cell {
    fn from(n: usize) -> Self {
        Self::from(n as u64)
    }
}

impl<C: Into<Self>> From<Option<C>> for Cell {
    /// Converts `None` to `-`.
    fn from(cell: Option<C>) -> Self {
        cell.map_or_else(|| Self::text("-"), Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn html(table: &Table) -> String {
        let mut html = String::new();
        table.write(&mut html);
        html
    }

    #[test]
    fn numbers_carry_their_value_and_nan_carries_none() {
        let table = Table::new("t", ["a", "b", "c", "d"])
            .row([Cell::number(1234.5678, 1), Cell::interval(0.25, [0.2, 0.3], 2)])
            .row([Cell::number(f64::NAN, 1), Cell::interval(0.25, [f64::NAN, 0.3], 2)]);
        let html = html(&table);
        assert!(
            html.contains("<td class=\"number\" data-value=\"1234.5678\">1,234.6</td>"),
            "{html}"
        );
        assert!(html.contains(
            "data-interval data-value=\"0.25\" data-low=\"0.2\" data-high=\"0.3\">0.25 \
             <span class=\"range\">[0.20, 0.30]</span>"
        ));
        assert!(html.contains("<td class=\"number\">-</td>"));
        assert!(
            html.contains(
                "data-value=\"0.25\" data-high=\"0.3\">0.25 <span class=\"range\"></span>"
            )
        );
        assert_eq!(html.matches("<td></td>").count(), 4);
    }

    #[test]
    fn the_key_column_stands_beside_the_first() {
        let table = Table::new("t", ["limit", "measured", "allowed", "outcome", "more"])
            .key("outcome")
            .row(["a", "b", "c", "d"]);
        let html = html(&table);
        let at = |text: &str| html.find(text).unwrap_or_else(|| panic!("{text} in {html}"));
        assert!(html.contains(
            "<th scope=\"col\" class=\"key\"><button type=\"button\" data-do=\"sort\">outcome<"
        ));
        assert!(at(">limit<") < at(">outcome<") && at(">outcome<") < at(">measured<"));
        assert!(html.contains("<td>a</td><td>d</td><td>b</td><td>c</td><td></td>"), "{html}");
        // A table whose first column is the most important one is left as it is.
        assert_eq!(table.key("limit").order(), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn long_tables_hide_their_end() {
        let table = |n: usize| {
            let rows = (0..n).map(|i| [Cell::from(i)]);
            html(&Table::new("t", ["i"]).rows(rows).first(3))
        };
        assert_eq!(table(5).matches("<tr class=\"more\">").count(), 2);
        assert!(table(5).contains("Show all 5 rows"));
        assert!(!table(3).contains("Show all"));
    }
}
