//! Days that are remembered: every measure of every version, published or rejected.
//!
//! `OUT/manifests/` is the memory; `OUT/history.parquet` is made from it after every job, for other tools, one row per day,
//! measure and table compared with: the reference, or the version before.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, StringArray};
use arrow_schema::Field;
use serde::Serialize;
use serde_json::Value;
use veridical_core::settings::Settings as _;
use veridical_core::{Error as Refused, Estimate, Seed, settings};
use veridical_inspect::measures::KINDS;
use veridical_inspect::{Harm, Kind, Limit, change_points, propose_from};
use veridical_io::publications::{HISTORY, Manifest, Publications};
use veridical_io::{ColumnWriter, Input, Output, Replace};
use veridical_report::{Axis, Band, Card, Cell, Foot, Level, Page, Table, Verdict, brief};

use super::date_of;
use super::manage::opened;
use crate::Result;

/// The fewest published days that limits are proposed from.
const LEAST_DAYS: usize = 20;

settings! {
    /// Settings of [`history`].
    pub struct HistoryOf {
        /// Folder of publications
        pub out: Input = Input::default() => [positional(), required(), value("FOLDER"), root()],
        /// HTML page to write: the trend of every measure
        pub html: Option<Output> = None,
    } with {
        /// Whether an existing file is replaced.
        pub replace: Replace,
    }
}

/// Result of [`history`].
#[derive(Clone, Debug, Serialize)]
pub struct History {
    /// Folder of publications.
    pub out: String,
    /// The current version.
    pub current: Option<String>,
    /// The coordinate frame: the fingerprint of the reference.
    pub frame: String,
    /// All versions, oldest first.
    pub days: Vec<Day>,
    /// Every measure over all days.
    pub measures: Vec<MeasureTrend>,
}

/// One version.
#[derive(Clone, Debug, Serialize)]
pub struct Day {
    /// The version.
    pub version: String,
    /// Whether it was published.
    pub published: bool,
    /// Number of rows.
    pub rows: u64,
    /// The verdict in words.
    pub verdict: String,
    /// Limits that were not met.
    pub broken: Vec<String>,
    /// Number of limits.
    pub limits: usize,
}

/// A measure over all days.
#[derive(Clone, Debug, Serialize)]
pub struct MeasureTrend {
    /// Key of the measure.
    pub measure: &'static str,
    /// Its values.
    pub points: Vec<Point>,
    /// Versions with which a new level began, among the published ones and against the reference.
    pub changes: Vec<String>,
}

impl MeasureTrend {
    /// Whether the measure has the same value everywhere.
    fn is_constant(&self) -> bool {
        let values: Vec<f64> = self.points.iter().map(|point| point.estimate.value).collect();
        values.windows(2).all(|pair| pair[0] == pair[1])
    }

    fn has_limit(&self) -> bool {
        self.points.iter().any(|point| point.allowed.is_some())
    }
}

/// A measure of one day.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// The version.
    pub version: String,
    /// Whether it was published.
    pub published: bool,
    /// `reference` or `previous`.
    pub against: &'static str,
    /// The value with its interval.
    pub estimate: Estimate,
    /// The limit of that day.
    pub allowed: Option<f64>,
    /// Whether it was met: `passed`, `failed` or `undecided`.
    pub outcome: Option<String>,
}

/// The measures of one manifest.
fn points(manifest: &Manifest) -> Vec<(&'static Kind, Point)> {
    let empty = Vec::new();
    let measured = |document: Option<&Value>| {
        let measures = document.and_then(|d| d.get("measures").unwrap_or(d).as_array());
        measures.unwrap_or(&empty).clone()
    };
    let compared = [
        ("reference", measured(manifest.details.get("measures"))),
        ("previous", measured(manifest.details.get("yesterday"))),
    ];
    let mut points = Vec::new();
    for (against, measures) in compared {
        for measure in measures {
            let kind = measure["key"].as_str().and_then(|key| Kind::of_key(key).ok());
            let estimate = serde_json::from_value::<Estimate>(measure["estimate"].clone()).ok();
            let (Some(kind), Some(estimate)) = (kind, estimate) else { continue };
            let gates = manifest.gates.as_array().map_or(&[][..], Vec::as_slice);
            let gate = gates.iter().find(|g| against == "reference" && g["limit"] == kind.limit());
            points.push((
                kind,
                Point {
                    version: manifest.version.clone(),
                    published: manifest.published,
                    against,
                    estimate,
                    allowed: gate.and_then(|gate| gate["allowed"].as_f64()),
                    outcome: gate.and_then(|gate| gate["outcome"].as_str()).map(str::to_owned),
                },
            ));
        }
    }
    points
}

/// Rewrites `OUT/history.parquet`.
pub fn write(publications: &Publications, manifests: &[Manifest]) -> Result<()> {
    let mut manifests: Vec<&Manifest> = manifests.iter().collect();
    manifests.sort_by(|a, b| (a.sequence, &a.version).cmp(&(b.sequence, &b.version)));
    let rows: Vec<(&Manifest, &Kind, Point)> = manifests
        .iter()
        .flat_map(|manifest| {
            points(manifest).into_iter().map(|(kind, point)| (*manifest, kind, point))
        })
        .collect();
    type Row<'a> = (&'a Manifest, &'a Kind, Point);
    let text = |of: &dyn for<'a> Fn(&'a Row<'_>) -> Option<String>| -> ArrayRef {
        Arc::new(rows.iter().map(of).collect::<StringArray>())
    };
    let number = |of: &dyn for<'a> Fn(&'a Row<'_>) -> Option<f64>| -> ArrayRef {
        Arc::new(rows.iter().map(of).map(|x| x.filter(|x| x.is_finite())).collect::<Float64Array>())
    };
    let of_job = |manifest: &Manifest, key: &str| {
        manifest.details.get("job")?.get(key)?.as_str().map(str::to_owned)
    };
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("version", text(&|(m, ..)| Some(m.version.clone()))),
        ("date", text(&|(m, ..)| m.date.clone())),
        (
            "published",
            Arc::new(rows.iter().map(|(m, ..)| Some(m.published)).collect::<BooleanArray>()),
        ),
        ("against", text(&|(_, _, p)| Some(p.against.to_owned()))),
        ("measure", text(&|(_, kind, _)| Some(kind.key.to_owned()))),
        ("value", number(&|(_, _, p)| Some(p.estimate.value))),
        ("low", number(&|(_, _, p)| Some(p.estimate.low))),
        ("high", number(&|(_, _, p)| Some(p.estimate.high))),
        ("limit", text(&|(_, kind, p)| p.allowed.map(|_| kind.limit()))),
        ("allowed", number(&|(_, _, p)| p.allowed)),
        ("outcome", text(&|(_, _, p)| p.outcome.clone())),
        ("spec_id", text(&|(m, ..)| m.spec_id.clone())),
        ("map_id", text(&|(m, ..)| m.map_id.clone())),
        ("reference", text(&|(m, ..)| Some(m.frame.clone()))),
        ("table", text(&|(m, ..)| of_job(m, "new"))),
    ];
    let field =
        |(name, column): &(&str, ArrayRef)| Field::new(*name, column.data_type().clone(), true);
    let fields: Vec<Field> = columns.iter().map(field).collect();
    let mut writer = ColumnWriter::create(&publications.root().join(HISTORY), fields)?;
    writer.write(columns.into_iter().map(|(_, column)| column).collect())?;
    Ok(writer.finish()?)
}

/// Returns the days of a folder of publications.
///
/// # Errors
/// [`veridical_core::Error::Missing`] if there are none.
pub fn history(settings: &HistoryOf) -> Result<History> {
    settings.check()?;
    let publications = opened(&settings.out)?;
    let manifests = publications.manifests()?;
    let Some(last) = manifests.last() else {
        let what = format!("{}: no day is remembered here", settings.out.display());
        return Err(Refused::missing(what, "publish one with `veridical refresh`").into());
    };
    let day = |manifest: &Manifest| {
        let gates = manifest.gates.as_array().map_or(&[][..], Vec::as_slice);
        let broken = gates.iter().filter(|gate| gate["outcome"] != "passed");
        let sentence = manifest.details.get("verdict").and_then(|v| v["sentence"].as_str());
        Day {
            version: manifest.version.clone(),
            published: manifest.published,
            rows: manifest.rows,
            verdict: sentence.unwrap_or_default().to_owned(),
            broken: broken.filter_map(|gate| gate["limit"].as_str()).map(str::to_owned).collect(),
            limits: gates.len(),
        }
    };
    let all: Vec<(&Kind, Point)> = manifests.iter().flat_map(points).collect();
    let mut measures = Vec::new();
    for kind in &KINDS {
        let points: Vec<Point> =
            all.iter().filter(|(of, _)| *of == kind).map(|(_, point)| point.clone()).collect();
        if points.is_empty() {
            continue;
        }
        let accepted: Vec<&Point> =
            points.iter().filter(|p| p.published && p.against == "reference").collect();
        let values: Vec<f64> = accepted.iter().map(|point| point.estimate.value).collect();
        let changes = change_points(&values, Seed::new(0)?);
        let changes = changes.into_iter().map(|at| accepted[at].version.clone()).collect();
        measures.push(MeasureTrend { measure: kind.key, points, changes });
    }
    Ok(History {
        out: settings.out.to_string(),
        current: publications.current()?,
        frame: last.frame.clone(),
        days: manifests.iter().map(day).collect(),
        measures,
    })
}

/// Limits from accepted days.
#[derive(Clone, Debug)]
pub struct Accepted {
    /// The limits.
    pub limits: Vec<Limit>,
    /// The number of days.
    pub days: usize,
    /// The folder they come from.
    pub out: String,
}

impl Accepted {
    /// Proposes limits that the published days of a folder meet.
    ///
    /// # Errors
    /// [`veridical_core::Error::Unfit`] for too few days, or days of several references.
    pub fn of(out: &Input) -> Result<Self> {
        let manifests = opened(out)?.manifests()?;
        let accepted: Vec<&Manifest> = manifests.iter().filter(|m| m.published).collect();
        let days = accepted.len();
        if days < LEAST_DAYS {
            let what =
                format!("{out} has {days} published days, and limits need at least {LEAST_DAYS}");
            let hint = "until then propose them from runs on identical data";
            return Err(Refused::unfit(what, hint).into());
        }
        if let Some(other) = accepted.iter().find(|m| m.frame != accepted[0].frame) {
            let what = format!(
                "{out} has days of several references (versions {} and {})",
                accepted[0].version, other.version
            );
            return Err(Refused::unfit(what, "limits are for one reference").into());
        }
        let points: Vec<(&Kind, Point)> =
            accepted.iter().flat_map(|manifest| points(manifest)).collect();
        let limit = |kind: &'static Kind| {
            let of = points.iter().filter(|(of, p)| *of == kind && p.against == "reference");
            let ends: Vec<f64> = of.map(|(_, p)| kind.harmful(p.estimate.interval())).collect();
            (ends.len() == days).then(|| propose_from(ends, kind)).flatten()
        };
        Ok(Self { limits: KINDS.iter().filter_map(limit).collect(), days, out: out.to_string() })
    }

    /// Returns the text of a budget file.
    pub fn to_toml(&self) -> String {
        let Self { days, out, .. } = self;
        let mut text = format!(
            "# Limits that {days} published days of {out} keep: the 99 % quantile over days of the harmful end of each\n\
             # day's 95 % interval. They accept what the past accepted, slow drift included.\n"
        );
        if *days <= 100 {
            text += "# Up to 100 days: the worst day.\n";
        }
        for Limit { kind, value } in &self.limits {
            text += &format!("\n# {}\n{} = {value:?}\n", kind.meaning, kind.limit());
        }
        text
    }
}

impl History {
    fn published(&self) -> usize {
        self.days.iter().filter(|day| day.published).count()
    }

    /// Says in one sentence what happened.
    pub fn headline(&self) -> String {
        let (n, published) = (self.days.len(), self.published());
        let current =
            self.current.as_ref().map_or("none is current".into(), |v| format!("{v} is current"));
        let days = if n == 1 { "day" } else { "days" };
        format!("{n} {days}: {published} published, {} rejected; {current}.", n - published)
    }

    /// Returns every change point: the version, and the measures that changed with it.
    fn changes(&self) -> Vec<(&str, Vec<&'static str>)> {
        let mut changes: Vec<(&str, Vec<&'static str>)> = Vec::new();
        for day in &self.days {
            let with = |m: &&MeasureTrend| day.published && m.changes.contains(&day.version);
            let changed: Vec<&str> =
                self.measures.iter().filter(with).map(|m| label(m.measure)).collect();
            if !changed.is_empty() {
                changes.push((&day.version, changed));
            }
        }
        changes
    }

    /// Formats the days for a terminal.
    pub fn to_text(&self) -> String {
        let mut text = format!("{}\n\n", self.headline());
        for day in &self.days {
            let state = match day {
                day if !day.published => "rejected",
                day if Some(&day.version) == self.current.as_ref() => "current",
                _ => "published",
            };
            let broken = match day.broken.as_slice() {
                [] => String::new(),
                broken => format!("not met: {}", broken.join(", ")),
            };
            let line = format!("  {:<12} {state:<10} {:>9} rows  {broken}", day.version, day.rows);
            text += line.trim_end();
            text.push('\n');
        }
        for (version, measures) in self.changes() {
            text += &format!("\nchange with {version}: {}", measures.join(", "));
        }
        if !self.changes().is_empty() {
            text.push('\n');
        }
        text
    }

    /// Renders the history as an HTML page; `command` is the command line shown in the footer.
    pub fn to_html(&self, command: &str) -> String {
        let (n, published) = (self.days.len(), self.published());
        let changes = self.changes();
        let last = self.days.last();
        let level = match last {
            Some(day) if !day.published => Level::Bad,
            _ if !changes.is_empty() => Level::Warn,
            _ => Level::Good,
        };
        let mut verdict = Verdict::new(level, self.headline());
        if let Some(day) = last.filter(|day| !day.published) {
            verdict = verdict
                .detail(format!("The last day, {}, was rejected: {}", day.version, day.verdict));
        }
        for (version, measures) in &changes {
            verdict = verdict.detail(format!("Change with {version}: {}.", measures.join(", ")));
        }
        let current = self.current.clone().unwrap_or_else(|| "none".into());
        let mut page = Page::new(format!("History of {}", self.out));
        page = match (self.days.first(), last) {
            (Some(first), Some(last)) if n > 1 => {
                page.of(format!("versions {} to {}", first.version, last.version))
            }
            (_, Some(last)) => page.of(format!("version {}", last.version)),
            _ => page,
        };
        page =
            page.verdict(verdict).cards([
                Card::new("current version", current),
                Card::new("days published", published.to_string()).level(Level::Good),
                Card::new("days rejected", (n - published).to_string()).level(if n > published {
                    Level::Bad
                } else {
                    Level::Good
                }),
                Card::new("changes found", changes.len().to_string())
                    .level(if changes.is_empty() { Level::Good } else { Level::Warn }),
            ]);
        if let Some(date) = last.and_then(|day| date_of(&day.version)) {
            page = page.metadata("date", date);
        }
        page = page.section(
            "Trends",
            "Every measure, day by day: against the fixed reference, which shows slow drift, and against the version before, \
             which shows jumps. Red diamonds are rejected days, at the edge if they are far away; the dashed line is the limit of the day; a vertical line \
             marks the first day of a new level (rank test at level 0.01 on published days).",
        );
        let (mut drawn, flat): (Vec<&MeasureTrend>, Vec<&MeasureTrend>) =
            self.measures.iter().partition(|trend| !trend.is_constant());
        drawn.sort_by_key(|trend| (trend.changes.is_empty(), !trend.has_limit()));
        page = page.charts(drawn.into_iter().map(|trend| self.chart(trend).into()));
        if !flat.is_empty() {
            let flat = flat.iter().filter_map(|trend| {
                let value = trend.points.first()?.estimate.value;
                Some(format!("{} {}", label(trend.measure), brief(value)))
            });
            let flat: Vec<String> = flat.collect();
            page = page.text(format!("The same on every day: {}.", flat.join(", ")));
        }
        let rows = self.days.iter().rev().map(|day| {
            let state = match day {
                day if !day.published => Cell::level(Level::Bad, "rejected"),
                day if Some(&day.version) == self.current.as_ref() => {
                    Cell::level(Level::Good, "current")
                }
                _ => Cell::level(Level::Good, "published"),
            };
            let limits = match (day.limits, day.broken.len()) {
                (0, _) => "no limits".to_owned(),
                (all, broken) => format!("{} of {all} met", all - broken),
            };
            vec![
                Cell::text(day.version.clone()),
                state,
                Cell::number(day.rows as f64, 0),
                Cell::text(limits),
                Cell::text(day.broken.join(", ")),
                Cell::text(if day.published { String::new() } else { day.verdict.clone() }),
            ]
        });
        let head = ["version", "outcome", "rows", "limits", "not met", "why"];
        let days = Table::new("Days", head).rows(rows);
        page = page.section("Days", "Newest first.").table(days);
        let foot = Foot::new(command).fact("reference", &self.frame);
        page.foot(foot).data(self).to_html()
    }

    fn chart(&self, trend: &MeasureTrend) -> Band {
        // INVARIANT: trends have keys of kinds.
        let kind = KINDS.iter().find(|kind| kind.key == trend.measure).unwrap_or(&KINDS[0]);
        let at = |version: &str, published: bool| {
            let found =
                self.days.iter().position(|d| d.version == version && d.published == published);
            found.unwrap_or_default() as f64
        };
        let point = |p: &Point| {
            let Estimate { value, low, high, .. } = p.estimate;
            [at(&p.version, p.published), value, low, high]
        };
        let of = |against: &str, published: bool| -> Vec<[f64; 4]> {
            let chosen =
                trend.points.iter().filter(|p| p.against == against && p.published == published);
            chosen.map(point).collect()
        };
        let limits: Vec<[f64; 2]> = trend
            .points
            .iter()
            .filter_map(|p| Some([at(&p.version, p.published), p.allowed?]))
            .collect();
        let changed = trend.changes.iter();
        let x = changed.fold(
            Axis::new("day").named(self.days.iter().map(|d| d.version.clone())),
            |axis, version| axis.mark("change", at(version, true)),
        );
        let bad = if kind.harm == Harm::Low { "low values are bad" } else { "high values are bad" };
        let meaning = kind.meaning;
        let mut chart = Band::new(
            kind.label,
            format!("{meaning}; {bad}."),
            x,
            Axis::new(kind.label).within(kind.range()),
        );
        for (name, points) in
            [("vs reference", of("reference", true)), ("vs version before", of("previous", true))]
        {
            if !points.is_empty() {
                chart = chart.series(name, points);
            }
        }
        if !limits.is_empty() {
            chart = chart.dashed("limit", limits);
        }
        let rejected = of("reference", false);
        if !rejected.is_empty() {
            chart = chart.dots("rejected", rejected);
        }
        chart
    }
}

fn label(key: &str) -> &'static str {
    KINDS.iter().find(|kind| kind.key == key).map_or("", |kind| kind.label)
}
