//! HTML report of a comparison: the verdict, the limits, then the evidence.

mod downstream;
mod evidence;

use veridical_core::Estimate;
use veridical_inspect::{ConsumerVerdict, Level, Measure, Outcome};
use veridical_report::{Card, Cell, Foot, Level as Color, Page, Table, Verdict};

use super::{Reader, StabilityReport};

/// Accuracy lost without retraining above which the card is red.
const LOST: f64 = 0.05;

fn color(level: Level) -> Color {
    match level {
        Level::Stable => Color::Good,
        Level::Drifting => Color::Warn,
        Level::Unstable => Color::Bad,
    }
}

fn cell(estimate: Option<Estimate>, digits: usize) -> Cell {
    match estimate {
        Some(e) if e.low == e.high => Cell::number(e.value, digits),
        Some(e) => Cell::interval(e.value, e.interval(), digits),
        None => Cell::text("undefined"),
    }
}

/// Returns the last part of a path, which distinguishes tables in charts.
fn short(name: &str) -> String {
    let mut parts = name.trim_end_matches('/').rsplit('/');
    parts.next().unwrap_or(name).to_owned()
}

impl StabilityReport {
    /// Renders the report as an HTML page; `command` is the command line shown in the footer.
    pub fn to_html(&self, command: &str) -> String {
        self.to_page("Is this refresh safe to ship?", command, Reader::Compares).to_html()
    }

    /// Returns the page, for callers that extend it.
    pub(crate) fn to_page(&self, title: &str, command: &str, reader: Reader) -> Page {
        let page = Page::new(title).of(self.compared());
        let mut page = page.verdict(self.banner(reader)).cards(self.cards());
        page = self.limits(page);
        page = self.aspects(page);
        page = self.consumer_lines(page);
        page = self.downstream_section(page);
        page = self.geometry(page);
        page = self.coordinates(page);
        page = self.neighbors(page);
        page = self.measures_section(page);
        page = self.tables_section(page);
        page = self.theory_section(page);
        let mut foot = Foot::new(command)
            .fact("random seed of all samples", self.seed)
            .fact(
                "kernel",
                format!("{}, length scale {:.6}", self.kernel.kernel, self.kernel.length_scale),
            )
            .fact("feature spec", &self.kernel.spec_id)
            .fact("rows", if self.unit { "normalized to unit length" } else { "unnormalized" });
        for table in &self.tables {
            foot = foot.fact(table.name.clone(), &table.fingerprint);
        }
        page.foot(foot).data(self)
    }

    /// Names the tables in a few words, as a title has them.
    fn compared(&self) -> String {
        let mut names: Vec<String> = self.tables.iter().map(|table| short(&table.name)).collect();
        if names.first() == names.last() {
            names = self.tables.iter().map(|table| table.name.clone()).collect();
        }
        match names.as_slice() {
            [] => String::new(),
            [reference, today] => format!("{today} against {reference}"),
            [first, .., last] => format!("{} tables, {first} to {last}", names.len()),
            [one] => one.clone(),
        }
    }

    fn banner(&self, reader: Reader) -> Verdict {
        let level = color(self.verdict.level);
        let mut banner = Verdict::new(level, self.verdict.sentence.clone());
        let evidence = &self.verdict.evidence;
        banner = banner.detail(match (self.verdict.treatment.as_str(), reader) {
            ("none", _) => format!("Do not ship: {evidence}."),
            ("raw", _) => format!("Use the vectors without treatment: {evidence}."),
            ("aligned", Reader::Refreshes) => {
                format!("The refresh aligns the vectors: {evidence}.")
            }
            ("aligned", _) if self.is_aligned() => {
                "Use the vectors as they are: they are aligned already.".to_owned()
            }
            ("aligned", _) => {
                format!("Use aligned vectors (`veridical align` makes them): {evidence}.")
            }
            (treatment, _) => format!("Use {treatment}: {evidence}."),
        });
        banner = banner.detail(format!("{}.", self.resolution()));
        self.verdict
            .notes
            .iter()
            .fold(banner, |banner, note| banner.detail(format!("Note: {note}.")))
    }

    fn cards(&self) -> Vec<Card> {
        let found = |key: &str| self.measures.iter().find(|m| m.key == key);
        let level = |name: &str| {
            let aspect = self.verdict.aspects.iter().find(|a| a.name == name);
            aspect.map_or(Color::Neutral, |a| color(a.level))
        };
        let card = |key: &str, label: &str, aspect: &str, percent: bool| {
            let measure = found(key)?;
            let shown =
                |x: f64| if percent { format!("{:.1} %", 100.0 * x) } else { format!("{x:.3}") };
            let value = measure.estimate.map_or("undefined".into(), |e| shown(e.value));
            let note = match (measure.floor, measure.estimate) {
                (Some(floor), _) => {
                    format!("floor, same data: {}", shown(floor.estimate.value))
                }
                (None, Some(e)) if e.low < e.high => {
                    format!("95 %: {} to {}", shown(e.low), shown(e.high))
                }
                _ => String::new(),
            };
            Some(Card::new(label, value).note(note).level(level(aspect)))
        };
        let coordinates = self.comparison.coordinates.as_ref().and_then(|c| {
            let (raw, aligned) = (c.relative_sd?.value, c.aligned_relative_sd?.value);
            let note = format!("{:.0} % after alignment", 100.0 * aligned);
            let value = format!("{:.0} %", 100.0 * raw);
            Some(Card::new("a coordinate moves by", value).note(note).level(level("coordinates")))
        });
        let unretrained = self.downstream.as_ref().and_then(|d| {
            let of = |name: &str| d.treatments.iter().find(|t| t.treatment == name);
            let score = |name: &str| Some(of(name)?.unretrained.as_ref()?.mean.value);
            let (raw, aligned) = (score("raw")?, score("aligned"));
            // What a consumer gets that follows the advice, beside what it would lose otherwise.
            let (value, note) = match aligned {
                Some(aligned) => (aligned, format!("aligned; raw: {:.1} %", 100.0 * raw)),
                None => (raw, String::new()),
            };
            let lost = of("raw")?.accuracy.mean.value - value;
            let level = if lost > LOST { Color::Bad } else { Color::Good };
            let value = format!("{:.1} %", 100.0 * value);
            Some(Card::new("accuracy, not retrained", value).note(note).level(level))
        });
        [
            card("shared_ids", "ids kept", "ids", true),
            card("cka", "geometry kept (CKA)", "geometry", false),
            card("nn_overlap", "neighbors kept", "neighbors", true),
            card("outlier_ids", "ids that moved alone", "outliers", true),
            coordinates,
            unretrained,
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn limits(&self, page: Page) -> Page {
        if self.gates.is_empty() {
            return page;
        }
        let rows = self.gates.iter().map(|gate| {
            let outcome = match gate.outcome {
                Outcome::Passed => Cell::level(Color::Good, "passed"),
                Outcome::Failed => Cell::level(Color::Bad, "failed"),
                Outcome::Undecided => Cell::level(Color::Warn, "undecided"),
            };
            let more = gate
                .needed
                .map_or(String::new(), |n| format!("about {n} {} would decide", gate.from));
            vec![
                gate.limit.clone().into(),
                cell(gate.estimate, 4),
                gate.allowed.into(),
                outcome,
                more.into(),
            ]
        });
        let table = Table::new("Limits", ["limit", "measured [95 %]", "allowed", "outcome", "to decide"])
            .key("outcome")
            .explain("The harmful end of the interval is compared with the limit; undecided counts as failed.")
            .rows(rows);
        page.section("Limits", "What the budget allows, and what was measured.").table(table)
    }

    fn aspects(&self, page: Page) -> Page {
        let rows = self.verdict.aspects.iter().map(|aspect| {
            let word = format!("{:?}", aspect.level).to_lowercase();
            vec![
                aspect.name.into(),
                Cell::level(color(aspect.level), word),
                aspect.reason.clone().into(),
            ]
        });
        let aspects = Table::new("Aspects", ["aspect", "verdict", "why"]).rows(rows);
        let answers = self.verdict.answers.iter().map(|answer| {
            let word = format!("{:?}", answer.level).to_lowercase();
            let (consumer, treatment) = (answer.consumer, answer.treatment);
            vec![
                format!("a consumer that {consumer}").into(),
                Cell::level(color(answer.level), word),
                treatment.into(),
                answer.reason.clone().into(),
            ]
        });
        let answers = Table::new("Consumers by kind", ["for", "verdict", "vectors", "why"])
            .explain("Each kind of consumer relies on other aspects; the verdict is that of the one who fares worst.")
            .rows(answers);
        let intro = match self.noise_floor.len() {
            0 => "What held and what moved. Without `--noise-floor` the thresholds are absolute."
                .to_owned(),
            n => format!(
                "What held and what moved, next to how much {n} runs on the same data differ."
            ),
        };
        let page = page.section("What moved", intro).table(answers).table(aspects);
        let worst = self.worst_ids();
        if worst.is_empty() {
            return page;
        }
        let rows = worst.iter().map(|id| {
            [
                id.id.clone().into(),
                id.what.into(),
                Cell::number(id.cosine, 3),
                Cell::number(id.times, 1),
                Cell::number(id.norm_factor, 2),
            ]
        });
        let head =
            ["id", "what", "cosine to its old vector", "times the median move", "norm factor"];
        let table = Table::new("Ids that moved alone", head)
            .explain(
                "After alignment, compared with the bulk of ids like them; worst first. `--outliers FILE` writes them as a table.",
            )
            .rows(rows)
            .first(10);
        page.table(table)
    }

    fn measures_section(&self, page: Page) -> Page {
        let floor = self.measures.iter().any(|m| m.floor.is_some());
        let mut head = vec!["measure", "value [95 %]", "description", "limit flag"];
        if floor {
            head.insert(2, "noise floor [95 %]");
        }
        let row = |m: &Measure| {
            let mut row = vec![m.kind().label.into(), cell(m.estimate, 4)];
            if floor {
                row.push(Cell::from(m.floor.map(|f| cell(Some(f.estimate), 4))));
            }
            row.extend([m.kind().meaning.into(), format!("--{}", m.kind().limit()).into()]);
            row
        };
        let table = Table::new("Measures", head).rows(self.measures.iter().map(row));
        page.section("All measures", "Every measure that can have a limit.").table(table)
    }

    fn consumer_lines(&self, page: Page) -> Page {
        if self.consumers.is_empty() {
            return page;
        }
        let rows = self.consumers.iter().map(|consumer| {
            let verdict = match consumer.verdict {
                ConsumerVerdict::Safe => Cell::level(Color::Good, "safe"),
                ConsumerVerdict::Retrain => Cell::level(Color::Warn, "retrain"),
                ConsumerVerdict::Blocked => Cell::level(Color::Bad, "blocked"),
            };
            let mut row =
                vec![consumer.name.clone().into(), verdict, consumer.reason.clone().into()];
            for treatment in ["raw", "aligned", "align-then-phi"] {
                let found = consumer.treatments.iter().find(|t| t.treatment == treatment);
                row.push(found.map_or_else(|| "-".into(), |t| cell(t.overlap, 3)));
                row.push(found.map_or_else(|| "-".into(), |t| cell(t.correlation, 3)));
            }
            row
        });
        let head = [
            "consumer",
            "verdict",
            "why",
            "top-k kept, raw",
            "score correlation, raw",
            "top-k kept, aligned",
            "score correlation, aligned",
            "top-k kept, align-then-phi",
            "score correlation, align-then-phi",
        ];
        let table = Table::new("Consumers", head)
            .explain("Queries of the day a consumer was trained, on today's vectors, compared with its own table.")
            .rows(rows);
        page.section("Consumers", "Which consumers can use today's vectors, and how.").table(table)
    }
}
