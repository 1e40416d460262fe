//! HTML report of a trace: evidence, incidents, the rows behind them.

use veridical_core::Estimate;
use veridical_report::{
    Axis, Bars, Card, Cell, Foot, Gallery, Histogram, Level, Page, Table, Verdict,
};

use super::Tracing;

/// Incidents and rows that a page shows.
const SHOWN: usize = 24;

impl Tracing {
    /// Renders the report as an HTML page; `command` is shown in the footer.
    pub fn to_html(&self, command: &str) -> String {
        let is_found = !self.group.is_empty();
        let level = if is_found { Level::Bad } else { Level::Neutral };
        let verdict = Verdict::new(level, self.answer()).detail(match self.advice() {
            Some(advice) => advice,
            None => "That is no proof of clean data: other incidents may have other causes.".into(),
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
        if self.states.len() > 1 {
            page = page
                .section(
                    "Trained again without them",
                    "The network of the run, and the same training without the rows of every round.",
                )
                .chart(self.rounds())
                .table(self.table());
        }
        let [incidents, rows, reference] = &self.pictures;
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
        let right = (0..(self.reference as usize).min(SHOWN / 2)).map(|i| reference.query(i));
        let explain = format!("Rightly predicted as {}.", self.class);
        page = page.gallery(Gallery::new("Reference", explain).row("", right));
        page.foot(Foot::new(command).fact("run", &self.run)).data(self).to_html()
    }

    /// Success and accuracy before and after.
    fn rounds(&self) -> Bars {
        let names = (0..self.states.len()).map(|i| match i {
            0 => "as trained".to_owned(),
            i => format!("after {i}"),
        });
        let interval = |e: &Estimate| [e.value, e.low, e.high];
        let mut bars = Bars::new(
            "Before and after removal",
            "Of the network itself. Incidents should go, accuracy should stay.",
            Axis::new("share").percent().ends_at(1.0),
            names,
        )
        .series("incidents that succeed", self.states.iter().map(|s| interval(&s.success)));
        if self.states.iter().all(|state| state.accuracy.is_some()) {
            let accuracy = self.states.iter().filter_map(|s| s.accuracy.as_ref()).map(interval);
            bars = bars.series("accuracy", accuracy);
        }
        bars
    }

    fn table(&self) -> Table {
        let heads = [
            "trainings",
            "rows left out",
            "incidents that succeed",
            "accuracy",
            "rows traced",
            "p",
            "confirms",
        ];
        let mut table = Table::new("Rounds", heads)
            .explain("p: share of shuffled incidents with as large a gap; none where no trace was needed. A training confirms the rows of the round before if fewer incidents succeed.");
        for (i, state) in self.states.iter().enumerate() {
            table = table.row([
                Cell::from(i as u64),
                Cell::from(state.removed as u64),
                Cell::percent(state.success.value, 2),
                state.accuracy.map_or(Cell::text("-"), |a| Cell::percent(a.value, 2)),
                Cell::from(state.found as u64),
                state.p_value.map_or(Cell::text("-"), |p| Cell::number(p, 4)),
                Cell::text(state.confirms.map_or("-", |c| if c { "yes" } else { "no" })),
            ]);
        }
        table
    }
}
