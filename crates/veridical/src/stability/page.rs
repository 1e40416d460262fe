//! The comparison as a page: the answer, the limits, then what it rests on.

use veridical_inspect::{ConsumerVerdict, Estimate, Level, Measure, Outcome, PairMeasure};
use veridical_report::{
    Axis, Bars, BoxPlot, Card, Cell, Density, Foot, Heatmap, Level as Colour, Page, Scatter, Table,
    Verdict,
};

use super::{ChangedItem, NamedId, StabilityReport, text::with_interval};

/// Runs above which a matrix of pairs is drawn.
const MATRIX_FROM: usize = 3;

fn colour(level: Level) -> Colour {
    match level {
        Level::Stable => Colour::Good,
        Level::Drifting => Colour::Warn,
        Level::Unstable => Colour::Bad,
    }
}

fn cell(estimate: Option<Estimate>, digits: usize) -> Cell {
    match estimate {
        Some(e) if e.interval[0] == e.interval[1] => Cell::number(e.value, digits),
        Some(e) => Cell::interval(e.value, e.interval, digits),
        None => Cell::text("undefined"),
    }
}

/// The last part of a path, which tells tables apart in charts.
fn short(name: &str) -> String {
    let mut parts = name.trim_end_matches('/').rsplit('/');
    parts.next().unwrap_or(name).to_owned()
}

impl StabilityReport {
    /// The whole page; `command` is what was typed.
    pub fn to_html(&self, command: &str) -> String {
        self.to_page("Is this refresh safe to ship?", command).to_html()
    }

    /// The page, for callers that add to it.
    pub(crate) fn to_page(&self, title: &str, command: &str) -> Page {
        let mut page = Page::new(title).verdict(self.banner()).cards(self.cards());
        page = self.limits(page);
        page = self.aspects(page);
        page = self.consumer_lines(page);
        page = self.geometry(page);
        page = self.coordinates(page);
        page = self.neighbours(page);
        page = self.downstream_section(page);
        page = self.tables_section(page);
        page = self.theory_section(page);
        let mut foot = Foot::new(command)
            .fact("seed of all samples", self.seed)
            .fact(
                "kernel",
                format!("{}, length scale {:.6}", self.kernel.kernel, self.kernel.length_scale),
            )
            .fact("feature spec", &self.kernel.spec_id)
            .fact("rows", if self.unit { "divided by their norms" } else { "as they are" });
        for table in &self.tables {
            foot = foot.fact(table.name.clone(), &table.fingerprint);
        }
        page.foot(foot).data(self)
    }

    fn banner(&self) -> Verdict {
        let level = match self.passed {
            Some(true) => Colour::Good,
            Some(false) => Colour::Bad,
            None => colour(self.verdict.level),
        };
        let mut banner = Verdict::new(level, self.verdict.sentence.clone());
        if let Some(passed) = self.passed {
            let kept = self.gates.iter().filter(|g| g.outcome == Outcome::Passed).count();
            let word = if passed { "passed" } else { "NOT passed: nothing should be published" };
            banner =
                banner.detail(format!("Gate {word} ({kept} of {} limits kept).", self.gates.len()));
        }
        banner =
            banner.detail(format!("Use: {} ({}).", self.verdict.treatment, self.verdict.evidence));
        self.verdict
            .notes
            .iter()
            .fold(banner, |banner, note| banner.detail(format!("Note: {note}.")))
    }

    fn cards(&self) -> Vec<Card> {
        let found = |key: &str| self.measures.iter().find(|m| m.key == key);
        let level = |name: &str| {
            let aspect = self.verdict.aspects.iter().find(|a| a.name == name);
            aspect.map_or(Colour::Neutral, |a| colour(a.level))
        };
        let card = |key: &str, label: &str, aspect: &str, percent: bool| {
            let measure = found(key)?;
            let shown =
                |x: f64| if percent { format!("{:.1} %", 100.0 * x) } else { format!("{x:.3}") };
            let value = measure.estimate.map_or("undefined".into(), |e| shown(e.value));
            let note = match (measure.floor, measure.estimate) {
                (Some(floor), _) => {
                    format!("same data trained again: {}", shown(floor.estimate.value))
                }
                (None, Some(e)) if e.interval[0] < e.interval[1] => {
                    format!("95 %: {} to {}", shown(e.interval[0]), shown(e.interval[1]))
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
            let raw = of("raw")?.unretrained.as_ref()?.mean;
            let aligned = of("aligned").and_then(|t| Some(t.unretrained.as_ref()?.mean));
            let note = aligned
                .map_or(String::new(), |a| format!("{:.1} % with aligned vectors", 100.0 * a));
            let card = Card::new("accuracy, model not retrained", format!("{:.1} %", 100.0 * raw));
            Some(card.note(note))
        });
        [
            card("shared_ids", "ids kept", "ids", true),
            card("cka", "geometry kept (CKA)", "geometry", false),
            card("nn_overlap", "neighbours kept", "neighbours", true),
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
                Outcome::Passed => Cell::level(Colour::Good, "passed"),
                Outcome::Failed => Cell::level(Colour::Bad, "failed"),
                Outcome::Undecided => Cell::level(Colour::Warn, "undecided"),
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
        let table = Table::new("Limits", ["limit", "measured [95 %]", "allowed", "outcome", ""])
            .explain("The harmful end of the interval is held against the limit; undecided counts as failed.")
            .rows(rows);
        page.section("Limits", "").table(table)
    }

    fn aspects(&self, page: Page) -> Page {
        let rows = self.verdict.aspects.iter().map(|aspect| {
            let word = format!("{:?}", aspect.level).to_lowercase();
            vec![
                aspect.name.into(),
                Cell::level(colour(aspect.level), word),
                aspect.reason.clone().into(),
            ]
        });
        let aspects = Table::new("Aspects", ["aspect", "", "why"]).rows(rows);
        let floor = self.measures.iter().any(|m| m.floor.is_some());
        let head: &[&str] = if floor {
            &["measure", "value [95 %]", "noise floor [95 %]", "what it is"]
        } else {
            &["measure", "value [95 %]", "what it is"]
        };
        let row = |m: &Measure| {
            let mut row = vec![m.kind().label.into(), cell(m.estimate, 4)];
            if floor {
                row.push(m.floor.map_or_else(|| Cell::text("-"), |f| cell(Some(f.estimate), 4)));
            }
            row.push(m.kind().meaning.into());
            row
        };
        let measures = Table::new("Measures", head.iter().copied())
            .explain("Names of limits are min- or max- and the name in the JSON.")
            .rows(self.measures.iter().map(row));
        let intro = match self.noise_floor.len() {
            0 => "What held and what moved. Without --noise-floor the thresholds are absolute."
                .to_owned(),
            n => format!(
                "What held and what moved, beside what {n} trainings on the same data differ by."
            ),
        };
        page.section("What moved", intro).table(aspects).table(measures)
    }

    fn consumer_lines(&self, page: Page) -> Page {
        if self.consumers.is_empty() {
            return page;
        }
        let rows = self.consumers.iter().map(|consumer| {
            let verdict = match consumer.verdict {
                ConsumerVerdict::Safe => Cell::level(Colour::Good, "safe"),
                ConsumerVerdict::Retrain => Cell::level(Colour::Warn, "retrain"),
                ConsumerVerdict::Blocked => Cell::level(Colour::Bad, "blocked"),
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
            .explain("Queries of the day a consumer was trained, on today's vectors, against its own table.")
            .rows(rows);
        page.section("Consumers", "Who can take today's vectors, and how.").table(table)
    }

    fn geometry(&self, page: Page) -> Page {
        let c = &self.comparison;
        let axis = |run: &str| Axis::new(format!("<h, h'> in {run}"));
        let names: Vec<String> = self.tables.iter().map(|t| short(&t.name)).collect();
        let (first, last) = (&names[0], &names[names.len() - 1]);
        let points = c.gram.shown.iter().map(|&[a, b]| (a, b, ""));
        let scatter = Scatter::new(
            "Inner products of the same pairs of ids",
            "Points on the diagonal did not move. What consumers that retrain rely on.",
            axis(first),
            axis(last),
        )
        .series("pairs of ids", points)
        .diagonal();
        let mut page = page
            .section(
                "Geometry",
                "Inner products carry the meaning; coordinates depend on the seed.",
            )
            .chart(scatter);
        if self.tables.len() >= MATRIX_FROM {
            for (caption, measure) in
                [("Linear CKA of runs", &c.cka), ("Neighbours kept between runs", &c.nn_overlap)]
            {
                page = page.chart(matrix(caption, &names, measure));
            }
        }
        let rows = [
            ("noise of an inner product, spread between pairs", c.gram.noise, c.gram.spread),
            ("noise of a kernel value, spread between pairs", c.kernel.noise, c.kernel.spread),
        ];
        let rows = rows.map(|(what, noise, spread)| {
            vec![Cell::text(what), Cell::number(noise, 5), Cell::number(spread, 5)]
        });
        let table = Table::new("Pairs of ids", ["", "noise", "spread"])
            .explain(format!(
                "{} pairs. Principal angles between the tables: mean cosine {:.4}, largest {:.1} degrees.",
                c.gram.pairs, c.angles.mean_cosine, c.angles.largest_degrees
            ))
            .rows(rows);
        page.table(table)
    }

    fn coordinates(&self, page: Page) -> Page {
        let Some(c) = &self.comparison.coordinates else {
            return page.section(
                "Coordinates",
                "The tables have different widths, so coordinates cannot be compared.",
            );
        };
        let dimensions: Vec<String> = (0..c.variance.len()).map(|k| k.to_string()).collect();
        let bars = Bars::new(
            "Variance of every dimension over runs",
            "Long bars before alignment and short ones after: the table was turned, its geometry was not lost.",
            Axis::new("variance"),
            dimensions,
        )
        .values("as they are", c.variance.iter().copied())
        .values("aligned", c.aligned_variance.iter().copied());
        let density = Density::new(
            "Variance of single ids",
            "Mean over dimensions; one value per id.",
            Axis::new("variance"),
        )
        .samples("as they are", &c.by_id[0])
        .samples("aligned", &c.by_id[1]);
        let intro = "What consumers that are not retrained rely on. Alignment is the one rotation that brings a table back \
                     to the first.";
        page.section("Coordinates", intro).chart(bars).chart(density)
    }

    fn neighbours(&self, page: Page) -> Page {
        let c = &self.comparison;
        let overlap = with_interval(c.nn_overlap.estimate);
        let intro = format!(
            "{overlap} of the {} nearest neighbours stay ({} probes; {:.4} would stay by chance).",
            c.k, c.probes, c.chance_overlap
        );
        let mut page = page.section("Neighbours", intro);
        if !c.deciles.is_empty() {
            let names: Vec<String> = c.deciles.iter().map(|d| format!("{}", d.decile)).collect();
            let values = c.deciles.iter().map(|d| {
                d.overlap.map_or([f64::NAN; 3], |e| [e.value, e.interval[0], e.interval[1]])
            });
            page = page.chart(
                Bars::new(
                    "Neighbours kept, by decile of weight",
                    "1 are the heaviest ids. Light ids are trained on little and move more.",
                    Axis::new("neighbours kept").percent(),
                    names,
                )
                .series("ids of the decile", values),
            );
        }
        if let Some(new) = &self.new_ids {
            page = page.text(format!(
                "{} ids are new. Their nearest shared id has a cosine of {} ({} for ids that both tables have): far less \
                 means that they are not trained yet.",
                new.count,
                with_interval(new.nearest_cosine),
                with_interval(new.kept_nearest_cosine)
            ));
        }
        let named = |id: &NamedId| id.name.clone().unwrap_or_else(|| id.id.clone());
        let list = |ids: &[NamedId]| ids.iter().map(named).collect::<Vec<_>>().join(", ");
        let row = |item: &ChangedItem| {
            let name = match &item.item.name {
                Some(name) => format!("{name} ({})", item.item.id),
                None => item.item.id.clone(),
            };
            vec![
                name.into(),
                item.weight.into(),
                Cell::percent(item.overlap, 0),
                list(&item.before).into(),
                list(&item.after).into(),
            ]
        };
        let table = Table::new(
            "Heaviest ids whose neighbours changed",
            ["id", "weight", "kept", "before", "after"],
        )
        .explain(
            "By weight times the share of neighbours that changed. Look at these before you ship.",
        )
        .rows(self.changed.iter().map(row))
        .first(10);
        page.table(table)
    }

    fn downstream_section(&self, page: Page) -> Page {
        let Some(d) = &self.downstream else { return page };
        let names: Vec<&str> = d.treatments.iter().map(|t| t.treatment.as_str()).collect();
        let mut plot = BoxPlot::new(
            "Accuracy over runs, retrained on each",
            "A flat box is a stable treatment; the line of a treatment that averages all runs has no spread.",
            Axis::new("accuracy").percent(),
        );
        for t in &d.treatments {
            plot = plot.samples(t.treatment.clone(), &t.accuracy.runs);
        }
        let left = d.treatments.iter().map(|t| t.unretrained.as_ref().map_or(f64::NAN, |s| s.mean));
        let bars = Bars::new(
            "Accuracy of the first table's model on the other tables, not retrained",
            "The damage of a refresh: a consumer that is not retrained falls to chance unless the vectors are aligned.",
            Axis::new("accuracy").percent().mark("most frequent class", d.majority),
            names,
        )
        .values("not retrained", left);
        let rows = d.treatments.iter().map(|t| {
            let sd = t.accuracy.sd.zip(t.accuracy.sd_interval);
            let sd = sd.map_or_else(
                || Cell::text("-"),
                |(sd, [low, high])| Cell::interval(100.0 * sd, [100.0 * low, 100.0 * high], 2),
            );
            let component = |of: fn(&veridical_inspect::Components) -> f64| {
                t.accuracy.components.as_ref().map_or_else(
                    || Cell::text("-"),
                    |c| {
                        let variance = of(c);
                        Cell::number(100.0 * variance.signum() * variance.abs().sqrt(), 2)
                    },
                )
            };
            vec![
                t.treatment.clone().into(),
                t.dim.into(),
                Cell::percent(t.accuracy.mean, 2),
                sd,
                Cell::percent(t.macro_f1.mean, 2),
                Cell::percent(t.knn.mean, 2),
                Cell::percent(t.nadaraya_watson.mean, 2),
                t.unretrained
                    .as_ref()
                    .map_or_else(|| Cell::text("-"), |s| Cell::percent(s.mean, 2)),
                component(|c| c.run),
                component(|c| c.split),
                component(|c| c.interaction),
            ]
        });
        let head = [
            "treatment",
            "D",
            "accuracy",
            "sd over runs [95 %]",
            "macro F1",
            "10-NN",
            "Nadaraya-Watson",
            "not retrained",
            "sd: run",
            "sd: split",
            "sd: both",
        ];
        let table = Table::new("Treatments", head)
            .explain(format!(
                "Deviations in points. {} ids of {} classes, the same {} folds for all; most frequent class {:.1} %. \
                 Components of variance may be negative: then there is nothing to see.",
                d.ids, d.classes, d.folds, 100.0 * d.majority
            ))
            .rows(rows);
        let mut page = page
            .section(
                "Downstream models",
                format!(
                    "Recommended: {} where models are retrained, {} where they are not.",
                    d.recommendation.retrained, d.recommendation.unretrained
                ),
            )
            .chart(bars)
            .chart(plot)
            .table(table);
        if !self.target_alignment.is_empty() {
            let rows = self.tables.iter().zip(&self.target_alignment).map(|(t, a)| {
                vec![
                    short(&t.name).into(),
                    Cell::number(a.centered, 4),
                    Cell::number(a.uncentered, 4),
                    Cell::number(a.same_label, 4),
                    Cell::number(a.mean_kernel, 4),
                ]
            });
            let table = Table::new(
                "Kernel-target alignment",
                ["table", "centred", "uncentred", "E[1[Y=Y'] K]", "E[K]"],
            )
            .rows(rows);
            page = page.table(table);
        }
        page
    }

    fn tables_section(&self, page: Page) -> Page {
        let rows = self.tables.iter().zip(&self.gone_and_new).map(|(t, &[gone, new])| {
            let s = &t.sanity;
            let [min, low, median, high, max] = s.norm_quantiles.map(|x| Cell::number(x, 3));
            vec![
                t.name.clone().into(),
                s.rows.into(),
                s.dim.into(),
                gone.into(),
                new.into(),
                s.zero_vectors.into(),
                s.duplicate_vectors.into(),
                s.constant_columns.into(),
                min,
                low,
                median,
                high,
                max,
            ]
        });
        let head = [
            "table",
            "rows",
            "dim",
            "ids gone",
            "ids new",
            "zero",
            "repeated",
            "constant columns",
            "norm min",
            "5 %",
            "median",
            "95 %",
            "max",
        ];
        let intro = format!(
            "{} ids are in all tables. Most broken refreshes are seen here.",
            self.shared_ids
        );
        let table = Table::new("Tables", head).rows(rows);
        page.section("Tables", intro).table(table)
    }

    fn theory_section(&self, page: Page) -> Page {
        let t = &self.theory;
        let shown = |x: f64| {
            if x.abs() < 1e-3 || x.abs() >= 1e4 { format!("{x:.2e}") } else { format!("{x:.4}") }
        };
        let two = |pair: Option<[f64; 2]>, names: [&str; 2]| {
            pair.map(|[a, b]| format!("{} {}, {} {}", names[0], shown(a), names[1], shown(b)))
        };
        let lines = [
            two(t.noise_to_signal, ["as they are", "aligned"])
                .map(|x| format!("Noise over signal of a coordinate (proposition 3): {x}.")),
            two(t.estimation_rate, ["as they are", "aligned"])
                .map(|x| format!("Its rate (s_e^2 / s_h^2) (q / n) ln(d / q), no constant: {x}.")),
            two(t.alignment_rate, ["directions", "ids"])
                .map(|x| format!("Proposition 4 at epsilon 0.1, divergence 1, no constant: {x}.")),
            t.nadaraya_watson_risk.map(|x| {
                format!("Lemma 1 as stated in the paper, delta 0.05: risk of Nadaraya-Watson at most {}.", shown(x))
            }),
        ];
        page.section(
            "Theory",
            "What the paper's bounds say with these numbers. They are rates without constants and enter no verdict.",
        )
        .list(lines.into_iter().flatten())
    }
}

fn matrix(caption: &str, names: &[String], measure: &PairMeasure) -> Heatmap {
    let n = names.len();
    let mut values = vec![vec![1.0; n]; n];
    for pair in &measure.pairs {
        let [a, b] = pair.runs;
        let value = pair.estimate.map_or(f64::NAN, |e| e.value);
        values[a][b] = value;
        values[b][a] = value;
    }
    Heatmap::new(caption, "Even colours: no run stands out.", names, names, values)
        .named("run", "run", "value")
}
