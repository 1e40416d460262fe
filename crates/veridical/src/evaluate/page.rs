//! HTML report of an evaluation: charts of the most quoted metrics, and a table per protocol.

use veridical_core::Estimate;
use veridical_report::{Axis, Bars, Card, Cell, Chart, Foot, Level, Page, Table, Verdict};

use super::{EvaluatedModel, Evaluation};

impl Evaluation {
    /// Renders the report as an HTML page; `command` is the command line shown in the footer.
    pub fn to_html(&self, command: &str) -> String {
        let models = self.models.iter().filter(|model| !model.is_baseline);
        let models: Vec<&str> = models.map(|model| model.name.as_str()).collect();
        let page =
            Page::new("Evaluation").of(models.join(", ")).of(format!("split {}", self.split));
        let mut page = page.verdict(self.verdict()).cards(self.cards()).section(
            "Metrics",
            format!(
                "{} held-out rows, split {}; 95 % intervals over users and seeds.",
                self.test_rows, self.split
            ),
        );
        for note in &self.notes {
            page = page.note(Level::Neutral, note);
        }
        page = page.charts(self.charted().iter().map(|measure| self.chart(measure)));
        for protocol in self.protocols() {
            page = page.table(self.protocol_table(&protocol));
        }
        if let Some(table) = self.ratings_table() {
            page = page.table(table);
        }
        let foot = Foot::new(command)
            .fact("split", &self.split)
            .fact("split fingerprint", &self.split_fingerprint)
            .fact("evaluation seed", self.seed);
        let seeds = |foot: Foot, model: &EvaluatedModel| {
            let seeds: Vec<String> = model.seeds.iter().map(ToString::to_string).collect();
            foot.fact(format!("seeds of {}", model.name), seeds.join(", "))
        };
        let runs = self.models.iter().filter(|model| !model.seeds.is_empty());
        page.foot(runs.fold(foot, seeds)).data(self).to_html()
    }

    /// Names the best model by the first charted metric of the first protocol, and whether it differs from the best baseline,
    /// user by user.
    fn verdict(&self) -> Verdict {
        let none = || Verdict::new(Level::Neutral, "Predicted ratings were evaluated.");
        let (Some(protocol), Some(measure)) =
            (self.protocols().into_iter().next(), self.charted().into_iter().next())
        else {
            return none();
        };
        let best = |is_baseline: bool| {
            let models = self.models.iter().filter(move |model| model.is_baseline == is_baseline);
            let scored = models.filter_map(|model| {
                Some((model, model.ranking.as_ref()?.get(&protocol, &measure)?))
            });
            scored.max_by(|(_, a), (_, b)| a.value.total_cmp(&b.value))
        };
        let described = |model: &EvaluatedModel, estimate: Estimate| {
            format!("{} ({measure} {})", model.name, shown(estimate))
        };
        match (best(false), best(true)) {
            (Some((model, a)), Some((baseline, b))) => {
                let differences = model.versus.iter().flat_map(|versus| &versus.differences);
                let paired = differences.clone().find(|d| d.name == measure).map(|d| d.estimate);
                let difference = paired.unwrap_or_else(|| {
                    Estimate::with_interval(
                        a.value - b.value,
                        [a.low - b.high, a.high - b.low],
                        a.n,
                    )
                });
                let (level, relation) = match () {
                    () if difference.low > 0.0 => (Level::Good, "ranks better than"),
                    () if difference.high < 0.0 => (Level::Bad, "ranks worse than"),
                    () => (Level::Warn, "is not distinguishable from"),
                };
                let (model, baseline) = (described(model, a), described(baseline, b));
                let [low, high] = difference.interval();
                Verdict::new(level, format!("{model} {relation} the best baseline, {baseline}."))
                    .detail(format!(
                        "Protocol {protocol}; the difference is {:.4}, 95 % interval over users {low:.4} to {high:.4}.",
                        difference.value
                    ))
            }
            (Some((model, estimate)), None) => Verdict::new(
                Level::Neutral,
                format!("Best ranking: {}.", described(model, estimate)),
            )
            .detail(format!("Protocol {protocol}; no baselines were trained.")),
            _ => none(),
        }
    }

    fn cards(&self) -> Vec<Card> {
        let model = self.models.first();
        let protocol = self.protocols().into_iter().next().unwrap_or_default();
        let ranking = model.and_then(|model| model.ranking.as_ref());
        let card = |measure: String| {
            let estimate = ranking?.get(&protocol, &measure)?;
            let note = format!("{}, {protocol}", model?.name);
            Some(Card::new(measure, shown(estimate)).note(note))
        };
        let mut cards: Vec<Card> = self.charted().into_iter().filter_map(card).collect();
        if let Some((model, ratings)) = model.and_then(|m| Some((m, m.ratings?))) {
            cards.push(Card::new("rmse", shown(ratings.rmse)).note(&model.name));
            cards.push(Card::new("mae", shown(ratings.mae)).note(&model.name));
        }
        cards
    }

    /// Returns the names of the protocols, in report order.
    pub fn protocols(&self) -> Vec<String> {
        let report = self.models.iter().find_map(|model| model.ranking.as_ref());
        report.iter().flat_map(|r| r.protocols.iter().map(|p| p.protocol.clone())).collect()
    }

    /// Returns the names of the metrics, in report order.
    pub fn measures(&self) -> Vec<String> {
        let report = self.models.iter().find_map(|model| model.ranking.as_ref());
        let first = report.and_then(|report| report.protocols.first());
        first.iter().flat_map(|p| p.measures.iter().map(|m| m.name.clone())).collect()
    }

    /// Returns the charted metrics: NDCG at the largest cutoff, recall at the same cutoff, and AUC.
    fn charted(&self) -> Vec<String> {
        let names = self.measures();
        let last = |stem: &str| names.iter().rfind(|name| name.starts_with(stem)).cloned();
        ["ndcg@", "recall@", "auc"].into_iter().filter_map(last).collect()
    }

    fn protocol_table(&self, protocol: &str) -> Table {
        let names = self.models.iter().map(|model| model.name.as_str());
        let row = |measure: String| {
            let cell = |model: &EvaluatedModel| {
                let estimate = model.ranking.as_ref().and_then(|r| r.get(protocol, &measure));
                Cell::from(estimate.map(in_table))
            };
            let cells: Vec<Cell> = self.models.iter().map(cell).collect();
            [Cell::from(measure.as_str())].into_iter().chain(cells).collect::<Vec<_>>()
        };
        Table::new(format!("Protocol {protocol}"), ["measure"].into_iter().chain(names))
            .rows(self.measures().into_iter().map(row))
    }

    fn ratings_table(&self) -> Option<Table> {
        let row = |model: &EvaluatedModel| {
            let ratings = model.ratings?;
            Some([Cell::from(model.name.as_str()), in_table(ratings.rmse), in_table(ratings.mae)])
        };
        let rows: Vec<_> = self.models.iter().filter_map(row).collect();
        (!rows.is_empty()).then(|| Table::new("Ratings", ["model", "rmse", "mae"]).rows(rows))
    }

    fn chart(&self, measure: &str) -> Chart {
        let names = self.models.iter().map(|model| model.name.as_str());
        // AUC has a scale of its own, with 0.5 for guessing; the others are far from 1 on most data.
        let axis = Axis::new(measure).within([0.0, 1.0]);
        let chart = Bars::new(
            measure,
            "Higher is better; whiskers are 95 % intervals. Protocols are not comparable with each other.",
            if measure == "auc" { axis.ends_at(1.0) } else { axis },
            names,
        );
        let series = |chart: Bars, protocol: String| {
            let value = |model: &EvaluatedModel| {
                let estimate = model.ranking.as_ref().and_then(|r| r.get(&protocol, measure));
                estimate.map_or([f64::NAN; 3], |e| [e.value, e.low, e.high])
            };
            let values: Vec<[f64; 3]> = self.models.iter().map(value).collect();
            chart.series(protocol, values)
        };
        self.protocols().into_iter().fold(chart, series).into()
    }
}

fn in_table(estimate: Estimate) -> Cell {
    Cell::interval(estimate.value, estimate.interval(), 4)
}

/// Formats a value with the half-width of its interval.
pub fn shown(estimate: Estimate) -> String {
    let half = estimate.half_width();
    match half.is_finite() {
        true => format!("{:.4} ± {half:.4}", estimate.value),
        false => format!("{:.4}", estimate.value),
    }
}
