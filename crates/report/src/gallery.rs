//! Examples to look at: images and texts, each with a caption, in rows that belong together.

use std::fmt::Write as _;

use crate::Level;
use crate::html::{escape, prose};
use crate::verdict::sign;

/// Pictures smaller than this are enlarged without smoothing.
const SHOWN_WIDTH: u32 = 96;

/// What a tile shows.
#[derive(Clone, Debug, PartialEq)]
enum Content {
    Image { png: Vec<u8>, width: u32 },
    Text(String),
}

/// One example: an image or a text with a caption.
#[derive(Clone, Debug, PartialEq)]
pub struct Tile {
    content: Content,
    caption: String,
    note: String,
    level: Level,
}

impl Tile {
    /// Shows an image of this width in pixels, given as the bytes of a PNG file.
    pub fn image(png: Vec<u8>, width: u32, caption: impl Into<String>) -> Self {
        Self::new(Content::Image { png, width }, caption.into())
    }

    /// Shows a text.
    pub fn text(text: impl Into<String>, caption: impl Into<String>) -> Self {
        Self::new(Content::Text(text.into()), caption.into())
    }

    fn new(content: Content, caption: String) -> Self {
        Self { content, caption, note: String::new(), level: Level::Neutral }
    }

    /// Adds a second line.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    /// Marks the tile.
    pub fn level(mut self, level: Level) -> Self {
        self.level = level;
        self
    }

    fn write(&self, html: &mut String) {
        // Writing to a String cannot fail.
        let _ = write!(html, "<li class=\"tile {}\">", self.level.name());
        let _ = match &self.content {
            Content::Image { png, width } => {
                let alt = escape(&self.caption);
                let width = width.max(&SHOWN_WIDTH);
                let data = base64(png);
                write!(
                    html,
                    "<img src=\"data:image/png;base64,{data}\" width=\"{width}\" alt=\"{alt}\">"
                )
            }
            Content::Text(text) => write!(html, "<blockquote>{}</blockquote>", escape(text)),
        };
        let mark =
            if self.level == Level::Neutral { String::new() } else { sign(self.level).to_string() };
        let _ = write!(html, "<p class=\"label\">{mark}{}</p>", escape(&self.caption));
        if !self.note.is_empty() {
            let _ = write!(html, "<p class=\"note\">{}</p>", escape(&self.note));
        }
        html.push_str("</li>\n");
    }
}

/// Rows of examples.
///
/// ```
/// use veridical_report::{Gallery, Page, Tile};
///
/// let gallery = Gallery::new("Query 7", "Rows that speak for it, strongest first.")
///     .row("supporting", [Tile::text("a good film", "positive").note("0.31")]);
/// assert!(Page::new("Why").gallery(gallery).to_html().contains("a good film"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Gallery {
    title: String,
    explain: String,
    rows: Vec<(String, Vec<Tile>)>,
}

impl Gallery {
    /// Makes an empty gallery.
    pub fn new(title: impl Into<String>, explain: impl Into<String>) -> Self {
        Self { title: title.into(), explain: explain.into(), rows: Vec::new() }
    }

    /// Adds a row; its heading may be empty.
    pub fn row(
        mut self,
        heading: impl Into<String>,
        tiles: impl IntoIterator<Item = Tile>,
    ) -> Self {
        self.rows.push((heading.into(), tiles.into_iter().collect()));
        self
    }

    pub(crate) fn write(&self, html: &mut String) {
        let _ = writeln!(
            html,
            "<section class=\"gallery\">\n<h3>{}</h3>\n<p class=\"explain\">{}</p>",
            escape(&self.title),
            prose(&self.explain)
        );
        for (heading, tiles) in &self.rows {
            if !heading.is_empty() {
                let _ = writeln!(html, "<h4>{}</h4>", escape(heading));
            }
            html.push_str("<ul class=\"tiles\">\n");
            tiles.iter().for_each(|tile| tile.write(html));
            html.push_str("</ul>\n");
        }
        html.push_str("</section>\n");
    }
}

/// Base64 with padding (RFC 4648, section 4).
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let at = |i: usize| u32::from(group.get(i).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for digit in 0..4 {
            let is_padding = digit > group.len();
            let value = (bits >> (18 - 6 * digit)) & 63;
            text.push(if is_padding { '=' } else { char::from(DIGITS[value as usize]) });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test vectors of RFC 4648, section 10.
    #[test]
    fn base64_is_that_of_the_standard() {
        let vectors = ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"];
        for (n, want) in vectors.into_iter().enumerate() {
            assert_eq!(base64(&b"foobar"[..n]), want);
        }
        assert_eq!(base64(&[0xff, 0xef, 0xbe]), "/+++");
    }

    #[test]
    fn small_images_are_enlarged_and_large_ones_keep_their_width() {
        let html = |width| {
            let mut html = String::new();
            Tile::image(vec![1], width, "x").write(&mut html);
            html
        };
        assert!(html(28).contains("width=\"96\""));
        assert!(html(224).contains("width=\"224\""));
    }
}
