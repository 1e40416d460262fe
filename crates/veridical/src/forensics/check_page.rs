//! HTML report of a check: votes against chance, and the flagged decisions with their nearest rows.

use veridical_report::{Axis, Bars, Card, Foot, Gallery, Level, Page, Tile, Verdict};

use super::check::{CheckedQuery, Checking};

impl Checking {
    /// Renders the report as an HTML page; `command` is shown in the footer.
    pub fn to_html(&self, command: &str) -> String {
        let is_found = self.is_more_than_chance();
        let level = if is_found { Level::Bad } else { Level::Neutral };
        let verdict = Verdict::new(level, self.answer()).detail(match is_found {
            true => "More decisions rest on the suspects than if they were any rows. Whether they cause them, training without them shows.",
            false => "No more than if the suspects were any rows.",
        });
        let mut cards = vec![
            Card::new("flagged", self.flagged_share.percent())
                .note(format!("{} of {} decisions", self.flagged, self.n))
                .level(level),
            Card::new("suspects", self.suspects_used.to_string())
                .note(format!("of {} in the list, among {}", self.suspects, self.rows)),
        ];
        if let (Some(precision), Some(recall)) = (&self.precision, &self.recall) {
            cards.push(
                Card::new("flagged ones that are wrong", precision.percent()).note("precision"),
            );
            cards.push(Card::new("wrong ones that are flagged", recall.percent()).note("recall"));
        }
        let nearest = self.rule.nearest;
        let observed = (0..=nearest).map(|votes| {
            self.votes.iter().filter(|v| **v as usize == votes).count() as f64 / self.n as f64
        });
        let pi = self.suspects_used as f64 / self.used as f64;
        let chance = (0..=nearest).map(|votes| binomial(nearest, votes, pi));
        let bars = Bars::new(
            "Suspects among the nearest rows",
            "Share of the decisions by the number of suspects among their nearest training rows, beside any rows.",
            Axis::new("share of the decisions").percent(),
            (0..=nearest).map(|votes| votes.to_string()),
        )
        .values("these suspects", observed)
        .values("chance", chance);
        let mut page = Page::new("Decisions that rest on suspects")
            .of(self.run.clone())
            .verdict(verdict)
            .cards(cards)
            .section("Votes", format!("Of {}.", self.queries));
        for note in &self.notes {
            page = page.note(Level::Neutral, note);
        }
        page = page.chart(bars);
        if !self.listed.is_empty() {
            page = page.section("Flagged decisions", "Suspects are marked; most votes first.");
            for one in &self.listed {
                page = page.gallery(self.card(one));
            }
        }
        page.foot(Foot::new(command).fact("training rows", &self.rows)).data(self).to_html()
    }

    fn card(&self, one: &CheckedQuery) -> Gallery {
        let [queries, rows] = &self.pictures;
        let (at, near) = &one.at;
        let itself: Tile = queries.query_as(*at, format!("predicted {}", one.predicted));
        let itself = match &one.label {
            Some(label) => itself.note(format!("label {label}")),
            None => itself,
        };
        let tiles = near.iter().zip(&one.nearest).zip(&one.suspect).map(|((at, row), suspect)| {
            let label = self.labels.get(at).map_or("", String::as_str);
            rows.row(*at, *row, label).level(if *suspect { Level::Bad } else { Level::Neutral })
        });
        Gallery::new(format!("Query {}", one.query), "")
            .row("", [itself])
            .row(format!("nearest rows, {} suspects", one.votes), tiles)
    }
}

/// C(n, k) p^k (1 - p)^(n - k)
fn binomial(n: usize, k: usize, p: f64) -> f64 {
    let ways = (0..k).fold(1.0, |ways, i| ways * (n - i) as f64 / (i + 1) as f64);
    ways * p.powi(k as i32) * (1.0 - p).powi((n - k) as i32)
}
