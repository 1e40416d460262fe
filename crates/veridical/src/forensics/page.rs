//! HTML report of a trace: evidence, incidents, the rows behind them.

use veridical_core::Estimate;
use veridical_report::{Axis, Card, Foot, Gallery, Histogram, Level, Page, Verdict};

use super::Tracing;

/// Incidents and rows that a page shows.
const SHOWN: usize = 24;

impl Tracing {
    /// Renders the report as an HTML page; `command` is shown in the footer.
    pub fn to_html(&self, command: &str) -> String {
        let is_found = !self.group.is_empty();
        let level = if is_found { Level::Bad } else { Level::Neutral };
        let verdict = Verdict::new(level, self.answer()).detail(match is_found {
            true => "Look at the rows, remove them and train again: only that confirms it.",
            false => "That is no proof of clean data: other incidents may have other causes.",
        });
        let mut cards = vec![
            Card::new("incidents", self.incidents.to_string())
                .note(format!("predicted as {}", self.class)),
            Card::new("rows behind them", self.group.len().to_string())
                .note(format!("of {} training rows of the class", self.candidates))
                .level(level),
        ];
        if let Some(check) = &self.check {
            let both = |before: &Estimate, after: &Estimate| {
                format!("{:.1} to {:.1} %", 100.0 * before.value, 100.0 * after.value)
            };
            cards.push(
                Card::new(
                    "incidents that succeed",
                    both(&check.success_before, &check.success_after),
                )
                .note("in kernel ridge, before and after removal"),
            );
            cards.push(
                Card::new("accuracy", both(&check.accuracy_before, &check.accuracy_after))
                    .note("of kernel ridge on the other queries"),
            );
        }
        let mut axis = Axis::new("contrast");
        if let Some(threshold) = self.threshold.filter(|_| is_found) {
            axis = axis.mark("cut", threshold);
        }
        let mut page = Page::new("Rows behind incidents")
            .of(self.run.clone())
            .verdict(verdict)
            .cards(cards)
            .section(
                "Evidence",
                "Contrast of a training row: its mean kernel with the incidents less that with rightly classified inputs of the same class.",
            );
        for note in &self.notes {
            page = page.note(Level::Neutral, note);
        }
        let gap = format!(
            "Upper group and rest differ by {:.4}; 99 % of shuffled incidents stay below {:.4}.",
            self.gap, self.chance_gap
        );
        page = page.chart(
            Histogram::new("Contrast of the candidates", gap, axis)
                .samples("training rows", &self.scores),
        );
        let [incidents, rows] = &self.pictures;
        let asked = (0..(self.incidents as usize).min(SHOWN)).map(|i| incidents.query(i));
        let behind = self.group.iter().take(SHOWN).map(|row| {
            rows.row(row.at, row.row, &row.label).note(format!("{:.4}", row.score.value))
        });
        page = page.section("Look at them", "").gallery(
            Gallery::new("Incidents", format!("All predicted as {}.", self.class)).row("", asked),
        );
        if is_found {
            page = page.gallery(
                Gallery::new("Training rows behind them", "Strongest contrast first.")
                    .row("", behind),
            );
        }
        page.foot(Foot::new(command).fact("run", &self.run)).data(self).to_html()
    }
}
