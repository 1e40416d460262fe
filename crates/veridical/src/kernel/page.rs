//! HTML report of `kernel check`: shares of layers, differences from the exact kernel, eigenvalues.

use veridical_core::distributions::student_cdf;
use veridical_report::{Axis, Bars, Card, Foot, Level, Line, Page, Verdict};

use super::check::Checked;

/// Freedom at which Student's distribution is the normal one to all digits shown.
const NORMAL: f64 = 1e8;
/// Points of a curve.
const POINTS: usize = 101;

impl Checked {
    /// Renders the report as an HTML page; `command` is shown in the footer.
    pub fn to_html(&self, command: &str) -> String {
        let level = if self.passed { Level::Good } else { Level::Bad };
        let mut cards = vec![
            Card::new("difference from exact", format!("{:.1e}", self.residual.rms))
                .note(format!("root mean square of {} cosines", self.residual.pairs))
                .level(level),
        ];
        if let Some(expected) = self.residual.expected {
            cards.push(
                Card::new("expected of the sketch", format!("{expected:.1e}"))
                    .note("from its variance, an upper bound"),
            );
        }
        if let Some(spectrum) = &self.spectrum {
            cards.push(
                Card::new("smallest eigenvalue", format!("{:.1e}", spectrum.smallest)).note(
                    format!("of {} rows; rounding explains -{:.1e}", spectrum.n, spectrum.rounding),
                ),
            );
            cards.push(
                Card::new("effective rank", format!("{:.1}", spectrum.effective_rank))
                    .note("(sum of eigenvalues)² / sum of their squares"),
            );
        }
        if let Some(alignment) = self.alignment {
            cards.push(
                Card::new("alignment with the labels", format!("{alignment:.3}"))
                    .note("centered, 1 for a kernel that is the labels"),
            );
        }
        let mut page = Page::new("Check of a kernel")
            .of(format!("{} of {} x {}", self.kernel, self.rows, self.columns))
            .verdict(Verdict::new(level, self.answer()))
            .cards(cards);
        for note in &self.notes {
            page = page.note(Level::Neutral, note);
        }
        if !self.layers.is_empty() {
            page =
                page.section("Layers", "Which layers the kernel is made of.").chart(self.shares());
        }
        page = page
            .section(
                "Against the exact kernel",
                "Pairs of the matrix less the same pairs computed anew without a sketch.",
            )
            .chart(self.residuals());
        if let Some(spectrum) = &self.spectrum {
            page = page
                .section(
                    "Eigenvalues",
                    "The faster they fall, the fewer directions a kernel machine learns quickly.",
                )
                .chart(eigenvalues(&spectrum.largest));
        }
        page.foot(Foot::new(command).fact("folder", &self.folder)).data(self).to_html()
    }

    fn shares(&self) -> Bars {
        Bars::new(
            "Share of the layers",
            "Of the sum of the kernel's diagonal.",
            Axis::new("share"),
            self.layers.iter().map(|layer| layer.layer.as_str()),
        )
        .values(self.kernel.clone(), self.layers.iter().map(|layer| layer.share))
    }

    /// The distribution of the differences, and the normal one that the variance of the sketch predicts.
    fn residuals(&self) -> Line {
        let n = self.differences.len() as f64;
        let steps = self.differences.iter().enumerate();
        let own: Vec<[f64; 2]> = steps.map(|(i, d)| [*d, (i + 1) as f64 / n]).collect();
        let how = match self.residual.expected {
            Some(_) => {
                "A sketch is as it should be if the curve is as steep as theory, or steeper."
            }
            None => "An exact kernel differs by rounding alone.",
        };
        let line = Line::new(
            "Differences of cosines",
            how,
            Axis::new("sketched less exact"),
            Axis::new("share of pairs below"),
        )
        .series("measured", own);
        let Some(expected) = self.residual.expected else { return line };
        let most = 3.5 * expected.max(self.residual.largest / 3.5);
        let curve = (0..POINTS).map(|i| {
            let x = most * (2.0 * i as f64 / (POINTS - 1) as f64 - 1.0);
            [x, student_cdf(x / expected, NORMAL)]
        });
        line.dashed("theory", curve.collect::<Vec<_>>())
    }
}

fn eigenvalues(largest: &[f64]) -> Line {
    let points = largest.iter().enumerate().filter(|(_, l)| **l > 0.0);
    let points: Vec<[f64; 2]> = points.map(|(i, l)| [(i + 1) as f64, *l]).collect();
    Line::new(
        "Largest eigenvalues",
        "Of the sample of rows, divided by their number.",
        Axis::log("number"),
        Axis::log("eigenvalue / n"),
    )
    .series("kernel", points)
}
