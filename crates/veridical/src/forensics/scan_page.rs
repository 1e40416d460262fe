//! HTML report of a scan: a ranking, and the rows of the first class.

use veridical_report::{Axis, Bars, Cell, Foot, Gallery, Level, Page, Scatter, Table, Verdict};

use super::scan::{Scanned, Scanning};

impl Scanning {
    /// Renders the report as an HTML page; `command` is shown in the footer.
    pub fn to_html(&self, command: &str) -> String {
        let verdict = Verdict::new(Level::Neutral, self.answer()).detail(
            "Clean classes have subgroups too: a scan says where to look, and never that something is wrong. With wrong decisions at hand use \
             `forensics trace`, with suspect rows `forensics check`.",
        );
        let mut table = Table::new("Classes", ["class", "rows", "smaller group", "separation", "first component", "second component"])
            .explain("Separation: distance of the means of both groups in standard deviations within them; components: their shares of the variance.");
        for class in &self.classes {
            table = table.row([
                Cell::from(class.class.as_str()),
                Cell::from(class.n as u64),
                Cell::percent(class.share, 1),
                Cell::number(class.separation, 2),
                Cell::percent(class.explained[0], 1),
                Cell::percent(class.explained[1], 1),
            ]);
        }
        let bars = Bars::new(
            "How far the rows of a class fall apart",
            "In standard deviations within the groups; two halves of one bell curve are 2.65 apart.",
            Axis::new("separation"),
            self.classes.iter().map(|class| class.class.as_str()),
        )
        .values("separation", self.classes.iter().map(|class| class.separation));
        let mut page = Page::new("Where to look first")
            .of(self.run.clone())
            .verdict(verdict)
            .section("Ranking", format!("Of {}.", self.rows))
            .chart(bars)
            .table(table);
        if let Some(first) = self.classes.first() {
            let tiles = |end: &[(usize, Scanned)]| {
                let tile = |(at, row): &(usize, Scanned)| {
                    let tile = self.pictures.row(*at, row.row, &first.class);
                    tile.note(format!("{:+.3}", row.first))
                };
                end.iter().map(tile).collect::<Vec<_>>()
            };
            page = page
                .section(format!("Class {}", first.class), "")
                .chart(
                    Scatter::new(
                        "First two principal components of the kernel",
                        "The smaller group is on the right; a separate cloud is worth a look.",
                        Axis::new("first component"),
                        Axis::new("second component"),
                    )
                    .series(first.class.clone(), self.points.iter().cloned()),
                )
                .gallery(
                    Gallery::new(
                        "Both ends",
                        "Rows with the largest and the smallest first component.",
                    )
                    .row("smaller group", tiles(&self.ends[0]))
                    .row("other end", tiles(&self.ends[1])),
                );
        }
        page.foot(Foot::new(command).fact("training rows", &self.rows)).data(self).to_html()
    }
}
