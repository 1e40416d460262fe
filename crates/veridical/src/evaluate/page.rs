//! The evaluation as a page: charts of the measures people quote, and a table per protocol.

use serde_json::{Value, json};
use veridical_embed::evaluate::Estimate;
use veridical_report::Page;

use super::{Evaluation, Judged};

impl Evaluation {
    /// The page, whole.
    pub fn to_html(&self) -> String {
        let mut page = Page::new("Evaluation").text(format!(
            "{} rows kept back by {}; intervals at 95 % over users and seeds; split {}; evaluation seed {}.",
            self.test_rows, self.split, self.split_fingerprint, self.seed
        ));
        for note in &self.notes {
            page = page.text(note.clone());
        }
        for measure in self.charted() {
            page = page.chart(measure.clone(), self.chart(&measure));
        }
        for protocol in self.protocols() {
            page = self.protocol_table(page, &protocol);
        }
        self.ratings_table(page).to_html()
    }

    /// The protocols, in the order of the reports.
    pub fn protocols(&self) -> Vec<String> {
        let report = self.models.iter().find_map(|model| model.ranking.as_ref());
        report.iter().flat_map(|r| r.protocols.iter().map(|p| p.protocol.clone())).collect()
    }

    /// The measures, in the order of the reports.
    pub fn measures(&self) -> Vec<String> {
        let report = self.models.iter().find_map(|model| model.ranking.as_ref());
        let first = report.and_then(|report| report.protocols.first());
        first.iter().flat_map(|p| p.measures.iter().map(|m| m.name.clone())).collect()
    }

    /// NDCG at the longest list, recall beside it, and AUC.
    fn charted(&self) -> Vec<String> {
        let names = self.measures();
        let last = |stem: &str| names.iter().rfind(|name| name.starts_with(stem)).cloned();
        ["ndcg@", "recall@", "auc"].into_iter().filter_map(last).collect()
    }

    fn protocol_table(&self, page: Page, protocol: &str) -> Page {
        let names = self.models.iter().map(|model| model.name.as_str());
        let head: Vec<&str> = ["measure"].into_iter().chain(names).collect();
        let row = |measure: String| {
            let cell = |model: &Judged| {
                let estimate = model.ranking.as_ref().and_then(|r| r.get(protocol, &measure));
                estimate.map_or("-".into(), shown)
            };
            let cells: Vec<String> = self.models.iter().map(cell).collect();
            [measure.clone()].into_iter().chain(cells).collect()
        };
        let rows = self.measures().into_iter().map(row).collect();
        page.table(format!("Protocol {protocol}"), &head, rows)
    }

    fn ratings_table(&self, page: Page) -> Page {
        let row = |model: &Judged| {
            let ratings = model.ratings?;
            Some(vec![model.name.clone(), shown(ratings.rmse), shown(ratings.mae)])
        };
        let rows: Vec<_> = self.models.iter().filter_map(row).collect();
        if rows.is_empty() { page } else { page.table("Ratings", &["model", "rmse", "mae"], rows) }
    }

    fn chart(&self, measure: &str) -> Value {
        let names: Vec<&str> = self.models.iter().map(|model| model.name.as_str()).collect();
        let series = |protocol: String| {
            let value = |model: &Judged| {
                let estimate = model.ranking.as_ref().and_then(|r| r.get(&protocol, measure));
                estimate.map(|estimate| estimate.value)
            };
            let data: Vec<Option<f64>> = self.models.iter().map(value).collect();
            json!({ "type": "bar", "name": protocol, "data": data })
        };
        json!({
            "tooltip": {},
            "legend": {},
            "xAxis": { "type": "category", "data": names },
            "yAxis": { "type": "value", "name": measure },
            "series": self.protocols().into_iter().map(series).collect::<Vec<_>>(),
        })
    }
}

/// A value and half the width of its interval.
pub fn shown(estimate: Estimate) -> String {
    let half = (estimate.high - estimate.low) / 2.0;
    match half.is_finite() {
        true => format!("{:.4} ± {half:.4}", estimate.value),
        false => format!("{:.4}", estimate.value),
    }
}
