//! The report of one day.

use veridical_report::{Cell, Level, Page, Table};

use super::{MapReport, Yesterday, date_of};
use crate::stability::{Reader, StabilityReport, with_interval};

/// What a day came to.
pub struct Outcome<'a> {
    pub version: &'a str,
    pub published: bool,
    pub map: &'a MapReport,
    pub yesterday: Option<&'a Yesterday>,
    pub report: &'a StabilityReport,
}

impl Outcome<'_> {
    pub fn to_html(&self, command: &str) -> String {
        let word = if self.published { "published" } else { "NOT published" };
        let title = format!("Refresh {}: {word}", self.version);
        let mut page = self.report.to_page(&title, command, Reader::Refreshes);
        if let Some(date) = date_of(self.version) {
            page = page.metadata("date", date);
        }
        page = page.metadata("status", if self.published { "published" } else { "rejected" });
        page = self.map_section(page);
        if let Some(yesterday) = self.yesterday {
            page = section(page, yesterday);
        }
        page.to_html()
    }

    fn map_section(&self, page: Page) -> Page {
        let c = &self.map.certificate;
        let (heading, intro) = match self.published {
            true => ("Published", "What consumers read from now on."),
            false => ("Not published", "Consumers still read the version before."),
        };
        let word = if self.published { "Vectors aligned" } else { "The vectors were aligned" };
        page.section(heading, intro).list([
            format!(
                "{word} to the reference by the map {} ({}).",
                self.map.map_id,
                self.map.kind.name()
            ),
            format!(
                "Certificate on {} ids the map was not fitted on: residual {:.4}, mean cosine {:.4}{}.",
                c.held_out,
                c.residual,
                c.mean_cosine,
                c.mean_cosine_before.map_or_else(String::new, |x| format!(" ({x:.4} before)")),
            ),
        ])
    }
}

fn section(page: Page, yesterday: &Yesterday) -> Page {
    let rows = yesterday.measures.iter().map(|measure| {
        let kind = measure.kind();
        [
            Cell::text(kind.label),
            Cell::level(Level::Neutral, with_interval(measure.estimate)),
            Cell::text(kind.meaning),
        ]
    });
    let table = Table::new(
        "Measures against the version before",
        ["measure", "value [95 %]", "description"],
    )
    .rows(rows);
    let intro = format!(
        "The same measures with version `{}` as reference: jumps from one day to the next.",
        yesterday.version
    );
    page.section("Since the version before", intro).table(table)
}
