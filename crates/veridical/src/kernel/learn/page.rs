//! HTML report of `kernel regress` and `kernel classify`: scores, penalties, predictions.

use veridical_core::Estimate;
use veridical_report::{Axis, Card, Cell, Foot, Level, Line, Page, Scatter, Table, Verdict};

use super::{Learned, Score};

impl Learned {
    /// Renders the report as an HTML page; `command` is shown in the footer.
    pub fn to_html(&self, command: &str) -> String {
        let level = match &self.gain {
            Some(gain) if gain.low > 0.0 => Level::Good,
            Some(gain) if gain.high < 0.0 => Level::Bad,
            _ => Level::Neutral,
        };
        let own = &self.scores[0];
        let mut cards = vec![match (&own.accuracy, &own.rmse) {
            (Some(accuracy), _) => Card::new("accuracy", accuracy.percent()).level(level),
            (_, rmse) => {
                let value = rmse.as_ref().map_or(f64::NAN, |rmse| rmse.value);
                Card::new("error", format!("{value:.4}")).note("root mean square").level(level)
            }
        }];
        if let Some(r2) = own.r2 {
            cards.push(Card::new("variance predicted", format!("{:.1} %", 100.0 * r2)));
        }
        cards.push(
            Card::new("penalty", format!("{:.1e}", self.lambda)).note("in units of the kernel"),
        );
        if let Some(residual) = self.solved.residual {
            let note = match self.solved.predicted_residual {
                Some(predicted) => format!("{}; predicted {predicted:.1e}", self.solved.solver),
                None => self.solved.solver.clone(),
            };
            cards.push(Card::new("residual", format!("{residual:.1e}")).note(note));
        }
        let title = match self.is_classification() {
            true => "Kernel classification",
            false => "Kernel regression",
        };
        let mut page = Page::new(title)
            .of(match &self.run {
                Some(run) => format!("{} of {run}", self.kernel),
                None => format!("{} on {}", self.kernel, self.data),
            })
            .verdict(Verdict::new(level, self.answer()))
            .cards(cards)
            .section(
                "Held-out rows",
                format!("{} rows: {}; {} training rows.", self.n, self.held_out, self.rows),
            );
        for note in &self.notes {
            page = page.note(Level::Neutral, note);
        }
        page = page.table(self.table());
        if !self.points.is_empty() {
            page = page.chart(self.scatter());
        }
        if !self.path.is_empty() {
            let error = "error of left-out rows";
            let points = self.path.iter().map(|tried| [tried.lambda, tried.error]);
            page = page.section("Penalty", "Chosen on training rows alone.").chart(
                Line::new(
                    "Error by penalty",
                    format!(
                        "Too small a penalty learns the noise, too large a one nothing; {:.1e} is chosen.",
                        self.lambda
                    ),
                    Axis::log("penalty"),
                    Axis::new(error),
                )
                .series(self.kernel.clone(), points.collect::<Vec<_>>()),
            );
        }
        page.foot(Foot::new(command).fact("training rows", self.rows)).data(self).to_html()
    }

    fn table(&self) -> Table {
        let of = |estimate: &Option<Estimate>, digits: usize| match estimate {
            Some(e) => Cell::interval(e.value, e.interval(), digits),
            None => Cell::text("-"),
        };
        let table = match self.is_classification() {
            true => Table::new("Models", ["model", "accuracy", "cross-entropy"]).key("accuracy"),
            false => Table::new("Models", ["model", "error", "variance predicted"]).key("error"),
        };
        self.scores.iter().fold(table, |table, score| {
            let Score { model, rmse, r2, accuracy, cross_entropy } = score;
            let name = Cell::from(model.as_str());
            match accuracy {
                Some(_) => table.row([name, of(accuracy, 4), of(cross_entropy, 4)]),
                None => {
                    let share = r2.map_or_else(|| Cell::text("-"), |r2| Cell::number(r2, 4));
                    table.row([name, of(rmse, 5), share])
                }
            }
        })
    }

    fn scatter(&self) -> Scatter {
        let points = self.points.iter().map(|(y, f)| (*y, *f, ""));
        Scatter::new(
            "Predictions of held-out rows",
            "A perfect machine has them on the diagonal.",
            Axis::new("target"),
            Axis::new("predicted"),
        )
        .series("held-out rows", points)
    }
}
