//! A comparison as text for a terminal, a ticket and a monitoring system.

use std::fmt::Write as _;

use veridical_core::Estimate;
use veridical_inspect::stability::{Coordinates, OUTLIERS_UNSTABLE};
use veridical_inspect::{ConsumerVerdict, Level, Measure, Outcome};
use veridical_io::publish::METRICS;

use super::{StabilityReport, TableReport};

/// Coordinates that alignment brings closer by less than this share are in one frame already.
const SAME_FRAME: f64 = 0.05;

/// Formats shares and correlations with three digits, small values with more.
pub(super) fn number(x: f64) -> String {
    if x != 0.0 && x.abs() < 0.01 { format!("{x:.5}") } else { format!("{x:.3}") }
}

pub(crate) fn with_interval(estimate: Option<Estimate>) -> String {
    estimate.map_or("undefined".into(), |e| {
        let [low, high] = e.interval();
        if low == high {
            number(e.value)
        } else {
            format!("{} [{}, {}]", number(e.value), number(low), number(high))
        }
    })
}

fn word(level: Level) -> &'static str {
    match level {
        Level::Stable => "stable",
        Level::Drifting => "drifting",
        Level::Unstable => "unstable",
    }
}

/// Who reads a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// Someone who compares tables, and treats them afterwards.
    Compares,
    /// Someone whose job aligns the vectors that it publishes.
    Refreshes,
}

impl StabilityReport {
    /// Whether alignment would change nothing, since the tables are in one frame.
    pub(super) fn is_aligned(&self) -> bool {
        let sds = |c: &Coordinates| Some((c.relative_sd?.value, c.aligned_relative_sd?.value));
        let found = self.comparison.coordinates.as_ref().and_then(sds);
        found.is_some_and(|(raw, aligned)| raw - aligned <= SAME_FRAME * raw)
    }

    /// Says in one line which treatment to use; not one that the vectors have had.
    fn advice(&self, reader: Reader) -> String {
        let (treatment, evidence) = (self.verdict.treatment.as_str(), &self.verdict.evidence);
        match (treatment, reader) {
            ("aligned", Reader::Refreshes) => {
                format!("the refresh aligns the vectors ({evidence})")
            }
            ("aligned", _) if self.is_aligned() => {
                "use: the vectors as they are (they are aligned already)".to_owned()
            }
            _ => format!("use: {treatment} ({evidence})"),
        }
    }

    /// Formats the comparison for a terminal.
    pub fn to_text(&self) -> String {
        self.to_text_for(Reader::Compares)
    }

    /// Formats the comparison for a terminal and a reader.
    pub(crate) fn to_text_for(&self, reader: Reader) -> String {
        let mut text = format!("{}\n\n", self.sentence_after_headline());
        // Writing to a String cannot fail.
        for aspect in &self.verdict.aspects {
            let _ =
                writeln!(text, "  {:<12} {:<9} {}", aspect.name, word(aspect.level), aspect.reason);
        }
        let _ = writeln!(text, "\n  {:<24} {:<26} noise floor", "measure", "value [95 %]");
        for measure in &self.measures {
            let floor = measure.floor.map_or_else(String::new, |f| with_interval(Some(f.estimate)));
            let name = measure.kind().label;
            let line = format!("  {name:<24} {:<26} {floor}", with_interval(measure.estimate));
            let _ = writeln!(text, "{}", line.trim_end());
        }
        self.downstream_text(&mut text);
        if !self.consumers.is_empty() {
            let _ = writeln!(text, "\n  {:<16} {:<8} why", "consumer", "verdict");
            for consumer in &self.consumers {
                let verdict = format!("{:?}", consumer.verdict).to_lowercase();
                let _ = writeln!(text, "  {:<16} {verdict:<8} {}", consumer.name, consumer.reason);
            }
        }
        let _ = writeln!(text, "\n  {}", self.advice(reader));
        let _ = writeln!(text, "  {}", self.resolution());
        for note in &self.verdict.notes {
            let _ = writeln!(text, "  note: {note}");
        }
        if !self.gates.is_empty() {
            text.push('\n');
            self.gates.iter().for_each(|gate| {
                let _ = writeln!(text, "  {}", gate.sentence());
            });
        }
        text
    }

    /// The verdict without the outcome of a refresh, which its headline has said.
    fn sentence_after_headline(&self) -> &str {
        let sentence = &self.verdict.sentence;
        let outcomes = ["Published. ", "Not published. "];
        outcomes.iter().find_map(|said| sentence.strip_prefix(said)).unwrap_or(sentence)
    }

    /// Says which share of damaged ids this comparison could have seen.
    pub(super) fn resolution(&self) -> String {
        let outliers = self.comparison.outliers.as_ref();
        let Some(share) = outliers.and_then(|found| found.detectable(self.outlier_limit())) else {
            return "Single ids that changed cannot be told apart in these tables".into();
        };
        format!("This comparison would have seen {:.1} % of ids replaced by noise", 100.0 * share)
    }

    /// The share of ids that moved alone from which on the table counts as unstable.
    fn outlier_limit(&self) -> f64 {
        let gate = self.gates.iter().find(|gate| gate.limit == "max-outlier-ids");
        let floor = self.measures.iter().find(|m| m.key == "outlier_ids").and_then(|m| m.floor);
        gate.map(|gate| gate.allowed).or(floor.map(|f| f.quantile)).unwrap_or(OUTLIERS_UNSTABLE)
    }

    fn downstream_text(&self, text: &mut String) {
        let Some(downstream) = &self.downstream else { return };
        let _ = writeln!(
            text,
            "\n  {:<32} {:>4}  {:<14} {:<8} not retrained",
            format!("downstream ({} ids, {} classes)", downstream.ids, downstream.classes),
            "D",
            "accuracy (sd)",
            "F1",
        );
        for t in &downstream.treatments {
            let sd = t.accuracy.sd.map_or("-".into(), |sd| format!("{:.2}", 100.0 * sd.value));
            let accuracy = format!("{:.2} ({sd})", 100.0 * t.accuracy.mean.value);
            let left = t
                .unretrained
                .as_ref()
                .map_or("-".into(), |s| format!("{:.2}", 100.0 * s.mean.value));
            let f1 = format!("{:.2}", 100.0 * t.macro_f1.mean.value);
            let _ =
                writeln!(text, "  {:<32} {:>4}  {accuracy:<14} {f1:<8} {left}", t.treatment, t.dim);
        }
        let majority = 100.0 * downstream.majority;
        let _ = writeln!(text, "  {:<32} {:>4}  {majority:.2}", "(most frequent class)", "");
    }

    /// Formats the comparison as Markdown, in six lines, and up to twelve with limits that are not met, consumers and notes.
    pub fn to_markdown(&self) -> String {
        self.to_markdown_under("Veridical:", Reader::Compares)
    }

    /// Formats the comparison as Markdown below a headline, by whose first word a summary is recognized.
    pub(crate) fn to_markdown_under(&self, headline: &str, reader: Reader) -> String {
        let value = |key: &str| {
            let found = self.measures.iter().find(|m| m.key == key);
            found.map_or("-".into(), |m: &Measure| {
                let floor = m.floor.map(|f| format!(", floor {}", with_interval(Some(f.estimate))));
                with_interval(m.estimate) + &floor.unwrap_or_default()
            })
        };
        let gate = match self.passed {
            Some(true) => "passed",
            Some(false) => "**failed**",
            None => "no limits",
        };
        let names: Vec<&str> = self.tables.iter().map(|t| t.name.as_str()).collect();
        let compared = match names.as_slice() {
            [first, last] => format!("`{first}` and `{last}`"),
            many => format!("{} tables, `{}` first", many.len(), many[0]),
        };
        let mut lines = vec![
            format!("**{headline}** {}", self.sentence_after_headline()),
            String::new(),
            format!("- compared: {compared}, {} shared ids; gate: {gate}", self.shared_ids),
            format!("- neighbors kept: {}; CKA: {}", value("nn_overlap"), value("cka")),
            format!(
                "- residual after alignment: {}; ids kept: {}",
                value("procrustes_residual"),
                value("shared_ids")
            ),
            format!("- {}", self.advice(reader)),
        ];
        let broken = self.gates.iter().filter(|gate| gate.outcome != Outcome::Passed);
        let mut more: Vec<String> = broken.map(|gate| format!("- {}", gate.sentence())).collect();
        more.extend(self.consumers.iter().map(|c| {
            format!("- {}: {} {}", c.name, format!("{:?}", c.verdict).to_lowercase(), c.reason)
        }));
        more.extend(self.verdict.notes.iter().map(|note| format!("- {note}")));
        let space = 12 - lines.len();
        if more.len() > space {
            let left_out = more.len() - (space - 1);
            more.truncate(space - 1);
            more.push(format!("- and {left_out} more, see the report"));
        }
        lines.extend(more);
        lines.join("\n") + "\n"
    }

    /// Formats the measures as Prometheus gauges.
    pub fn to_prometheus(&self) -> String {
        self.to_prometheus_for(&Labels::of(self, None))
    }

    /// Formats the measures as Prometheus gauges with these labels.
    pub(crate) fn to_prometheus_for(&self, labels: &Labels) -> String {
        let mut text = format!("{METRICS} {}\n", env!("CARGO_PKG_VERSION"));
        for measure in &self.measures {
            let Some(estimate) = measure.estimate else { continue };
            let (name, meaning) =
                (format!("veridical_stability_{}", measure.key), measure.kind().meaning);
            labels.gauge(&mut text, &name, meaning, &[], estimate.value);
            let ends = [("lower", estimate.low), ("upper", estimate.high)];
            for (end, value) in ends.into_iter().filter(|(_, value)| value.is_finite()) {
                let help = format!("{end} end of the 95 % interval of {name}");
                labels.gauge(&mut text, &format!("{name}_{end}"), &help, &[], value);
            }
        }
        let kept = |kept: bool| f64::from(u8::from(kept));
        let limits =
            self.gates.iter().map(|gate| (vec![("limit", gate.limit.as_str())], gate.allowed));
        labels.family(&mut text, "veridical_stability_limit", "allowed value of a limit", limits);
        let limits = self.gates.iter().map(|gate| {
            (vec![("limit", gate.limit.as_str())], kept(gate.outcome == Outcome::Passed))
        });
        labels.family(
            &mut text,
            "veridical_stability_limit_kept",
            "whether a limit was kept",
            limits,
        );
        if let Some(passed) = self.passed {
            let help = "whether all limits were kept";
            labels.gauge(&mut text, "veridical_stability_passed", help, &[], kept(passed));
        }
        let consumers = self.consumers.iter().map(|consumer| {
            let safe = consumer.verdict == ConsumerVerdict::Safe;
            (vec![("consumer", consumer.name.as_str())], kept(safe))
        });
        let help = "whether a consumer can use the table without retraining";
        labels.family(&mut text, "veridical_consumer_safe", help, consumers);
        text
    }
}

/// What a comparison was made of, as labels of its metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Labels(Vec<(&'static str, String)>);

impl Labels {
    /// The tables of a report, and the day it is for.
    pub fn of(report: &StabilityReport, day: Option<&str>) -> Self {
        let name = |table: Option<&TableReport>| table.map_or(String::new(), |t| t.name.clone());
        let mut labels =
            vec![("table", name(report.tables.last())), ("reference", name(report.tables.first()))];
        labels.extend(day.map(|day| ("day", day.to_owned())));
        Self(labels)
    }

    /// Adds a metric of one sample.
    pub fn gauge(
        &self,
        text: &mut String,
        name: &str,
        help: &str,
        own: &[(&str, &str)],
        value: f64,
    ) {
        self.family(text, name, help, [(own.to_vec(), value)]);
    }

    /// Adds a metric: its samples differ in their own labels.
    fn family<'a>(
        &self,
        text: &mut String,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Vec<(&'a str, &'a str)>, f64)>,
    ) {
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_none() {
            return;
        }
        // Writing to a String cannot fail.
        let _ = writeln!(text, "# HELP {name} {}\n# TYPE {name} gauge", help.replace('\\', r"\\"));
        for (own, value) in samples {
            let common = self.0.iter().map(|(label, value)| (*label, value.as_str()));
            let labels = own.into_iter().chain(common);
            let labels: Vec<String> =
                labels.map(|(label, value)| format!("{label}=\"{}\"", escaped(value))).collect();
            let _ = writeln!(text, "{name}{{{}}} {value}", labels.join(","));
        }
    }
}

/// The value of a label, as the text format of Prometheus writes it.
fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}
