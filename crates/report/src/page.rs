//! A report page, from its title to its foot.

use std::fmt::Write as _;

use serde::Serialize;

use crate::html::{escape, json, prose};
use crate::verdict::{sign, write_list};
use crate::{Card, Chart, Gallery, Level, Table, Verdict};

const ECHARTS: &str = include_str!("../assets/echarts.min.js");
const STYLE: &str = include_str!("browser/page.css");
const SCRIPT: &str = include_str!("browser/page.js");
const CHARTS: &str = include_str!("browser/charts.js");
/// The content security policy: a page neither fetches nor sends anything, whatever it contains.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
                      img-src data: blob:; base-uri 'none'; form-action 'none'";

/// The first line of every page, by which a page is recognized.
const FIRST_LINE: &str = "<!doctype html><!-- veridical -->";

/// A report page.
///
/// ```
/// use veridical_report::{Foot, Page};
///
/// let html = Page::new("Errors <of a map>")
///     .section("Mean", "Over all pairs.")
///     .text("The mean of `512` pairs is 0.25.")
///     .data(&[0.25, 0.5])
///     .foot(Foot::new("veridical featurize check").fact("seed", 7))
///     .to_html();
/// assert!(html.contains("<title>Errors &lt;of a map&gt;</title>"));
/// assert!(html.contains("id=\"data\">[0.25,0.5]</script>"));
/// ```
#[derive(Clone, Debug)]
pub struct Page {
    title: String,
    of: Vec<String>,
    metadata: Vec<(&'static str, String)>,
    blocks: Vec<Block>,
    foot: Option<Foot>,
    data: Option<String>,
}

#[derive(Clone, Debug)]
enum Block {
    Section { heading: String, intro: String },
    Text(String),
    Note(Level, String),
    List(Vec<String>),
    Verdict(Verdict),
    Cards(Vec<Card>),
    Table(Table),
    Charts(Vec<Chart>),
    Gallery(Gallery),
}

/// The foot of a page: what is needed to reproduce its numbers.
#[derive(Clone, Debug, Default)]
pub struct Foot {
    /// The command that made the page; may be empty.
    pub command: String,
    /// Random seeds, ids of specs and runs, fingerprints of data: name and value.
    pub facts: Vec<(String, String)>,
}

impl Foot {
    /// Makes a foot without facts.
    pub fn new(command: impl Into<String>) -> Self {
        Self { command: command.into(), facts: Vec::new() }
    }

    /// Adds a fact.
    pub fn fact(mut self, name: impl Into<String>, value: impl ToString) -> Self {
        self.facts.push((name.into(), value.to_string()));
        self
    }
}

impl Page {
    /// Makes an empty page.
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            of: Vec::new(),
            metadata: Vec::new(),
            blocks: Vec::new(),
            foot: None,
            data: None,
        }
    }

    fn with(mut self, block: Block) -> Self {
        self.blocks.push(block);
        self
    }

    /// Adds to the title what the page is about: the names of its data, in a few words.
    pub fn of(mut self, data: impl Into<String>) -> Self {
        self.of.push(data.into());
        self
    }

    /// Adds the date of the data to the title and, for programs, as a `<meta>` element; nothing if there is none. No page has the
    /// date of a clock.
    pub fn date(self, date: Option<impl Into<String>>) -> Self {
        match date.map(Into::into) {
            Some(date) => self.of(date.clone()).metadata("date", date),
            None => self,
        }
    }

    /// Adds a `<meta>` element for programs, such as the date of the data.
    pub fn metadata(mut self, name: &'static str, content: impl Into<String>) -> Self {
        self.metadata.push((name, content.into()));
        self
    }

    /// Adds the verdict; it belongs at the top.
    pub fn verdict(self, verdict: Verdict) -> Self {
        self.with(Block::Verdict(verdict))
    }

    /// Adds a row of key numbers.
    pub fn cards(self, cards: impl IntoIterator<Item = Card>) -> Self {
        self.with(Block::Cards(cards.into_iter().collect()))
    }

    /// Begins a section, which the header of the page links to; the intro may be empty.
    pub fn section(self, heading: impl Into<String>, intro: impl Into<String>) -> Self {
        self.with(Block::Section { heading: heading.into(), intro: intro.into() })
    }

    /// Adds a paragraph; text between backticks is shown as code, here and in all other prose.
    pub fn text(self, text: impl Into<String>) -> Self {
        self.with(Block::Text(text.into()))
    }

    /// Adds a highlighted paragraph.
    pub fn note(self, level: Level, text: impl Into<String>) -> Self {
        self.with(Block::Note(level, text.into()))
    }

    /// Adds a list.
    pub fn list<S: Into<String>>(self, lines: impl IntoIterator<Item = S>) -> Self {
        self.with(Block::List(lines.into_iter().map(Into::into).collect()))
    }

    /// Adds a table.
    pub fn table(self, table: Table) -> Self {
        self.with(Block::Table(table))
    }

    /// Adds a chart.
    pub fn chart(self, chart: impl Into<Chart>) -> Self {
        self.with(Block::Charts(vec![chart.into()]))
    }

    /// Adds charts, side by side if the screen is wide enough.
    pub fn charts(self, charts: impl IntoIterator<Item = Chart>) -> Self {
        self.with(Block::Charts(charts.into_iter().collect()))
    }

    /// Adds images and texts to look at.
    pub fn gallery(self, gallery: Gallery) -> Self {
        self.with(Block::Gallery(gallery))
    }

    /// Sets the foot of the page; the version is added.
    pub fn foot(mut self, foot: Foot) -> Self {
        self.foot = Some(foot);
        self
    }

    /// Embeds all numbers as JSON in full precision, which the reader can copy or save.
    ///
    /// # Panics
    /// If a map has keys that are not text.
    pub fn data(mut self, numbers: &impl Serialize) -> Self {
        self.data = Some(json(numbers));
        self
    }

    /// Returns the page as an HTML file.
    // Writing to a String cannot fail.
    pub fn to_html(&self) -> String {
        let (title, of) = (escape(&self.title), escape(&self.of.join(" \u{b7} ")));
        let whole = if of.is_empty() { title.clone() } else { format!("{title} \u{b7} {of}") };
        let mut html = format!(
            "{FIRST_LINE}\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
             <meta name=\"generator\" content=\"veridical {}\">\n",
            env!("CARGO_PKG_VERSION")
        );
        for (name, content) in &self.metadata {
            let _ = writeln!(html, "<meta name=\"{name}\" content=\"{}\">", escape(content));
        }
        let _ = write!(html, "<title>{whole}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n");
        self.write_head(&mut html, &title);
        let of = if of.is_empty() { of } else { format!(" <span class=\"of\">{of}</span>") };
        let _ = write!(html, "<main>\n<h1 id=\"top\">{title}{of}</h1>\n");
        let mut sections = 0;
        for block in &self.blocks {
            if matches!(block, Block::Section { .. }) {
                sections += 1;
            }
            block.write(&mut html, sections);
        }
        self.write_foot(&mut html);
        html.push_str("</main>\n");
        if let Some(data) = &self.data {
            let _ = writeln!(html, "<script type=\"application/json\" id=\"data\">{data}</script>");
        }
        let _ = writeln!(html, "<script>\n{SCRIPT}</script>");
        if self.blocks.iter().any(|block| matches!(block, Block::Charts(_))) {
            let _ = writeln!(html, "<script>{ECHARTS}</script>\n<script>\n{CHARTS}</script>");
        }
        html.push_str("</body>\n</html>\n");
        html
    }

    fn write_head(&self, html: &mut String, title: &str) {
        let _ = write!(
            html,
            "<header class=\"bar\"><div>\n<a class=\"name\" href=\"#top\">{title}</a>\n<nav aria-label=\"Sections\">"
        );
        let headings = self.blocks.iter().filter_map(|block| match block {
            Block::Section { heading, .. } => Some(heading),
            _ => None,
        });
        for (i, heading) in headings.enumerate() {
            let _ = write!(html, "<a href=\"#s{}\">{}</a>", i + 1, escape(heading));
        }
        html.push_str(
            "</nav>\n<button type=\"button\" data-do=\"theme\" title=\"Light or dark\" aria-label=\"Light or dark\">\
             <svg viewBox=\"0 0 24 24\" aria-hidden=\"true\"><circle cx=\"12\" cy=\"12\" r=\"8.5\"/>\
             <path d=\"M12 3.5a8.5 8.5 0 0 1 0 17z\"/></svg></button>\n</div></header>\n",
        );
    }

    fn write_foot(&self, html: &mut String) {
        let none = Foot::default();
        let foot = self.foot.as_ref().unwrap_or(&none);
        html.push_str("<footer>\n<h2>How this was made</h2>\n");
        if !foot.command.is_empty() {
            let _ = writeln!(
                html,
                "<div class=\"command\"><pre><code>{}</code></pre>\
                 <button type=\"button\" data-do=\"copy-command\">Copy</button></div>",
                escape(&foot.command)
            );
        }
        html.push_str("<dl>\n");
        let version = ("version".to_owned(), format!("veridical {}", env!("CARGO_PKG_VERSION")));
        for (name, value) in foot.facts.iter().chain([&version]) {
            let _ = writeln!(html, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(value));
        }
        html.push_str("</dl>\n");
        if self.data.is_some() {
            html.push_str(
                "<p class=\"numbers\">All numbers of this page, in full precision: \
                 <button type=\"button\" data-do=\"copy-data\">Copy JSON</button> \
                 <button type=\"button\" data-do=\"save-data\">Save JSON</button></p>\n",
            );
        }
        html.push_str("</footer>\n");
    }
}

impl Block {
    fn write(&self, html: &mut String, section: usize) {
        let _ = match self {
            Self::Section { heading, intro } => {
                let _ = writeln!(html, "<h2 id=\"s{section}\">{}</h2>", escape(heading));
                match intro.is_empty() {
                    true => Ok(()),
                    false => writeln!(html, "<p class=\"intro\">{}</p>", prose(intro)),
                }
            }
            Self::Text(text) => writeln!(html, "<p>{}</p>", prose(text)),
            Self::Note(level, text) => {
                let (name, sign) = (level.name(), sign(*level));
                writeln!(html, "<div class=\"remark {name}\">{sign}<p>{}</p></div>", prose(text))
            }
            Self::List(lines) => return write_list(html, lines),
            Self::Verdict(verdict) => return verdict.write(html),
            Self::Cards(cards) => {
                html.push_str("<div class=\"cards\">\n");
                cards.iter().for_each(|card| card.write(html));
                writeln!(html, "</div>")
            }
            Self::Table(table) => return table.write(html),
            Self::Gallery(gallery) => return gallery.write(html),
            Self::Charts(charts) => {
                let _ = writeln!(html, "<div class=\"charts\">");
                charts.iter().for_each(|chart| chart.write(html));
                writeln!(html, "</div>")
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;
    use crate::{
        Axis, Band, Bars, BoxPlot, Cell, Density, Heatmap, Histogram, Line, Scatter, Tile,
    };

    #[test]
    fn echarts_is_the_file_of_the_release() {
        let digest = Sha256::digest(ECHARTS);
        let hex: String = digest.iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, "b66b25aeb4df84e33199dc21694014d336d222cbd9deb0e5a7c14bd6aa0d0fd0");
    }

    /// A page in which every text is `text`, and every number `x`.
    fn every_piece(text: &str, x: f64) -> Page {
        let axis = || Axis::new(text).mark(text, x);
        Page::new(text)
            .of(text)
            .date(Some(text))
            .verdict(Verdict::new(Level::Bad, text).detail(text))
            .cards([Card::new(text, text).note(text)])
            .section(text, text)
            .text(text)
            .note(Level::Warn, text)
            .list([text])
            .table(
                Table::new(text, [text; 4])
                    .explain(text)
                    .row([Cell::from(text), x.into(), Cell::interval(x, [x, x], 2)])
                    .row([Cell::level(Level::Good, text), Cell::percent(x, 1)]),
            )
            .chart(Line::new(text, text, axis(), axis()).series(text, [[x, x], [1.0, 2.0]]))
            .chart(Band::new(text, text, axis(), axis()).series(text, [[x, x, x, x]]))
            .chart(BoxPlot::new(text, text, axis()).samples(text, &[x, 1.0, 2.0]))
            .chart(Histogram::new(text, text, axis()).samples(text, &[x, 1.0, 2.0]))
            .chart(Density::new(text, text, axis()).samples(text, &[x, 1.0, 2.0]))
            .chart(Scatter::new(text, text, axis(), axis()).series(text, [(x, x, text)]))
            .chart(Heatmap::new(text, text, [text], [text], vec![vec![x]]))
            .chart(Bars::new(text, text, axis(), [text]).series(text, [[x, x, x]]))
            .gallery(
                Gallery::new(text, text)
                    .row(text, [Tile::text(text, text).note(text).level(Level::Good)])
                    .row(text, [Tile::image(vec![1, 2], 28, text)]),
            )
            .foot(Foot::new(text).fact(text, text))
            .data(&serde_json::json!({ text: text }))
    }

    #[test]
    fn untrusted_names_cannot_inject_html() {
        for evil in [
            "</script><script>alert(1)</script>",
            "<img src=x onerror=alert(1)>",
            "\"><img src=x onerror=alert(1)>",
            "`<img src=x onerror=alert(1)>`",
            "--><!--<script><img",
        ] {
            let html = every_piece(evil, 1.0).to_html();
            let own = every_piece("harmless", 1.0).to_html();
            for tag in ["<script", "</script", "<img", "<!--"] {
                assert_eq!(html.matches(tag).count(), own.matches(tag).count(), "{tag} of {evil}");
            }
        }
    }

    #[test]
    fn numbers_that_are_not_finite_leave_a_valid_page() {
        for x in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, f64::MAX, f64::MIN_POSITIVE] {
            let html = every_piece("x", x).to_html();
            let begin = "<script type=\"application/json\"";
            let texts: Vec<&str> = html.split(begin).skip(1).collect();
            assert_eq!(texts.len(), 9);
            for text in texts {
                let text = &text[text.find('>').unwrap() + 1..text.find("</script>").unwrap()];
                serde_json::from_str::<serde_json::Value>(text).unwrap();
            }
            if !x.is_finite() {
                assert!(html.contains("<td class=\"number\">-</td>"));
            }
        }
    }

    #[test]
    fn a_page_without_charts_is_small_and_one_with_charts_below_three_megabytes() {
        assert!(Page::new("x").text("y").to_html().len() < 32 << 10);
        assert!(every_piece("x", 1.0).to_html().len() < 3 << 20);
    }

    #[test]
    fn a_title_has_data_and_date_and_no_date_if_there_is_none() {
        let page = || Page::new("Refresh").of("b against a & c");
        let html = page().date(Some("2026-01-06")).to_html();
        assert!(html.contains("<title>Refresh · b against a &amp; c · 2026-01-06</title>"));
        assert!(html.contains("<meta name=\"date\" content=\"2026-01-06\">"));
        assert!(html.contains(
            "<h1 id=\"top\">Refresh <span class=\"of\">b against a &amp; c · 2026-01-06</span></h1>"
        ));
        let html = page().date(None::<&str>).to_html();
        assert!(html.contains("<title>Refresh · b against a &amp; c</title>"));
        assert!(!html.contains("name=\"date\""));
    }

    #[test]
    fn sections_are_linked() {
        let html = Page::new("t").section("A & B", "").section("C", "why").to_html();
        assert!(html.contains("<a href=\"#s1\">A &amp; B</a><a href=\"#s2\">C</a>"));
        assert!(html.contains(
            "<h2 id=\"s1\">A &amp; B</h2>\n<h2 id=\"s2\">C</h2>\n<p class=\"intro\">why</p>"
        ));
    }

    #[test]
    fn the_foot_has_command_facts_and_version() {
        let html = Page::new("t").foot(Foot::new("veridical x --seed 1").fact("seed", 1)).to_html();
        assert!(html.contains("<code>veridical x --seed 1</code>"));
        assert!(html.contains("<dt>seed</dt><dd>1</dd>\n<dt>version</dt><dd>veridical "));
    }
}
