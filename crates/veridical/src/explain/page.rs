//! HTML reports of `explain`: query cards, faithfulness, suspicious labels.

use std::collections::BTreeMap;

use veridical_core::Estimate;
use veridical_data::examples::Examples;
use veridical_inspect::surrogate::Faithfulness;
use veridical_report::{
    Axis, Bars, BoxPlot, Card, Cell, Foot, Gallery, Level, Line, Page, Scatter, Table, Tile,
    Verdict,
};

use super::{Audit, Audited, Explained, Explanation, LabelErrors, Part, Subject};

/// Queries, or suspects, that a page shows.
const SHOWN: usize = 24;
/// Training rows that a card shows on each side.
const SHOWN_ROWS: usize = 6;

/// Images of queries and of training rows, as PNG files with their widths.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pictures {
    queries: BTreeMap<usize, (Vec<u8>, u32)>,
    rows: BTreeMap<usize, (Vec<u8>, u32)>,
}

impl Pictures {
    /// Those that the page shows.
    pub fn of(subject: &Subject, explained: &[Explained]) -> Self {
        let shown = doubtful_first(explained);
        let queries = shown.iter().filter_map(|&q| Some((q, picture(&subject.queries, q)?)));
        let queries = queries.collect();
        let parts = shown.iter().flat_map(|&q| {
            let first =
                |parts: &[Part]| parts.iter().take(SHOWN_ROWS).map(|p| p.at).collect::<Vec<_>>();
            [first(&explained[q].supporting), first(&explained[q].opposing)].concat()
        });
        Self { queries, ..Self::of_rows(subject, parts) }
    }

    /// Those of some training rows.
    pub fn of_rows(subject: &Subject, rows: impl Iterator<Item = usize>) -> Self {
        let rows = rows.take(SHOWN * 2 * SHOWN_ROWS);
        let rows = rows.filter_map(|at| Some((at, picture(&subject.train, at)?))).collect();
        Self { queries: BTreeMap::new(), rows }
    }

    /// Those of any examples, by their places.
    pub fn of_examples(data: &Examples, rows: impl Iterator<Item = usize>) -> Self {
        let rows = rows.take(SHOWN).filter_map(|at| Some((at, picture(data, at)?))).collect();
        Self { queries: BTreeMap::new(), rows }
    }

    /// The tile of an input without a label.
    pub fn query(&self, at: usize) -> Tile {
        match self.rows.get(&at) {
            Some((png, width)) => Tile::image(png.clone(), *width, format!("{}", at + 1)),
            None => Tile::text(format!("input {}", at + 1), ""),
        }
    }

    /// The tile of a training row.
    pub fn row(&self, at: usize, row: usize, label: &str) -> Tile {
        match self.rows.get(&at) {
            Some((png, width)) => Tile::image(png.clone(), *width, format!("{label} · row {row}")),
            None => Tile::text(format!("row {row}"), label),
        }
    }
}

/// The decisions to show: wrong ones before the others, the least probable first.
fn doubtful_first(explained: &[Explained]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..explained.len()).collect();
    let is_right = |e: &Explained| e.label.as_ref().is_none_or(|label| *label == e.predicted);
    order.sort_by(|&a, &b| {
        let (a, b) = (&explained[a], &explained[b]);
        is_right(a).cmp(&is_right(b)).then(a.probability.total_cmp(&b.probability))
    });
    order.truncate(SHOWN);
    order
}

fn picture(data: &Examples, row: usize) -> Option<(Vec<u8>, u32)> {
    veridical_io::examples::png_of(data, row)
}

impl Explanation {
    /// Returns the decisions to look at first: wrong ones before the others, the least probable first.
    pub fn doubtful_first(&self) -> Vec<&Explained> {
        doubtful_first(&self.explained).into_iter().map(|q| &self.explained[q]).collect()
    }

    /// Renders the report as an HTML page; `command` is shown in the footer.
    pub fn to_html(&self, command: &str) -> String {
        let level = match self.passed {
            Some(true) => Level::Good,
            Some(false) => Level::Bad,
            None => Level::Neutral,
        };
        let mut verdict = Verdict::new(level, self.answer());
        if self.agreement.value < 0.9 {
            verdict = verdict.detail(format!(
                "The kernel machine behind these numbers puts only {} of the queries into the network's class: trust single rows little, and \
                 run `explain audit`.",
                self.agreement.percent()
            ));
        }
        let mut cards = vec![
            Card::new("agreement with the network", self.agreement.percent())
                .note("queries that the kernel machine puts into the network's class"),
        ];
        if let Some(share) = self.concentration.share_for_half {
            cards.push(Card::new("rows for half of the effect", share.percent()).note(
                "smallest share of rows with half of the positive effect, mean over queries",
            ));
        }
        if let Some(stable) = self.stability.as_ref().and_then(|s| s.stable_share) {
            cards.push(
                Card::new("stable rows", stable.percent())
                    .note("share of the listed rows that at least 80 % of the runs list")
                    .level(level),
            );
        }
        let mut page = Page::new("Training rows behind decisions")
            .of(self.run.clone())
            .verdict(verdict)
            .cards(cards)
            .section(
                "Decisions",
                format!(
                    "Of {}, wrong and doubtful ones first. {}",
                    self.queries,
                    self.notes.join(" ")
                ),
            );
        for q in doubtful_first(&self.explained) {
            page = page.gallery(self.card(q, &self.explained[q]));
        }
        if self.explained.len() > SHOWN {
            let more = self.explained.len() - SHOWN;
            page =
                page.text(format!("{more} more are in the numbers of this page and in the table."));
        }
        page = page.section(
            "How the effects are spread",
            "Effects of the listed rows, by the class that is explained.",
        );
        let mut by_class: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for explained in &self.explained {
            let values = explained.supporting.iter().chain(&explained.opposing).map(|p| p.value);
            by_class.entry(&explained.class).or_default().extend(values);
        }
        let mut boxes = BoxPlot::new(
            "Effects by class",
            "Quartiles and range of the listed rows.",
            Axis::new(self.effect),
        );
        for (class, values) in by_class {
            boxes = boxes.samples(class, &values);
        }
        page.chart(boxes).foot(foot(command, &self.rows)).data(self).to_html()
    }

    /// The card of a query: itself, and the rows for and against its class.
    fn card(&self, q: usize, explained: &Explained) -> Gallery {
        let Explained { query, predicted, probability, label, class, .. } = explained;
        let is_wrong = label.as_ref().is_some_and(|label| label != predicted);
        let caption = format!("predicted {predicted} ({:.1} %)", 100.0 * probability);
        let itself = match self.pictures.queries.get(&q) {
            Some((png, width)) => Tile::image(png.clone(), *width, caption),
            None => Tile::text(format!("query {query}"), caption),
        };
        let itself = match label {
            Some(label) => itself.note(format!("label {label}")),
            None => itself,
        };
        let level = if is_wrong { Level::Bad } else { Level::Neutral };
        let tile = |part: &Part| {
            let mark = match part.stable {
                Some(true) => Level::Good,
                _ => Level::Neutral,
            };
            let note = format!("{:+.4}", part.value);
            self.pictures.row(part.at, part.row, &part.label).note(note).level(mark)
        };
        let first = |parts: &[Part]| parts.iter().take(SHOWN_ROWS).map(tile).collect::<Vec<_>>();
        Gallery::new(format!("Query {query}"), "")
            .row("", [itself.level(level)])
            .row(format!("for {class}"), first(&explained.supporting))
            .row(format!("against {class}"), first(&explained.opposing))
    }
}

impl Audit {
    /// Renders the report as an HTML page; `command` is shown in the footer.
    pub fn to_html(&self, command: &str) -> String {
        let level = match self.passed {
            Some(true) => Level::Good,
            Some(false) => Level::Bad,
            None => Level::Neutral,
        };
        let verdict = Verdict::new(level, self.answer()).detail(
            "Faithful is not counterfactual: that a machine orders decisions as the network does says nothing about what retraining without \
             a row would change.",
        );
        let mut page = Page::new("Kernel machines beside the network")
            .of(self.run.clone())
            .verdict(verdict)
            .section(
                "Faithfulness",
                format!("On {} queries of {}; machines of {}.", self.n, self.queries, self.rows),
            );
        for note in &self.notes {
            page = page.note(Level::Neutral, note);
        }
        page = page.table(self.table()).chart(self.taus());
        if let Some(chosen) = self.chosen() {
            page = page
                .section("The recommended kernel", "Fitted to the labels.")
                .charts([self.scatter(chosen).into(), shares(chosen).into()]);
        }
        page.foot(foot(command, &self.rows)).data(self).to_html()
    }

    fn table(&self) -> Table {
        let heads = [
            "kernel",
            "fitted to",
            "tau",
            "tau within class",
            "agreement",
            "accuracy difference",
            "KL",
            "isotonic R2",
            "GFLOP",
        ];
        let mut table = Table::new("Kernels", heads).key("tau");
        for audited in &self.audited {
            let Faithfulness {
                tau, agreement, accuracy_difference, divergence, isotonic_r2, ..
            } = &audited.faithfulness;
            let of = |estimate: Option<Estimate>, digits: usize| match estimate {
                Some(e) => Cell::interval(e.value, e.interval(), digits),
                None => Cell::text("-"),
            };
            table = table.row([
                Cell::from(audited.kernel.as_str()),
                Cell::from(audited.fit),
                of(tau.correct_class, 3),
                of(tau.within_class, 3),
                of(Some(*agreement), 3),
                of(Some(*accuracy_difference), 2),
                Cell::number(divergence.value, 4),
                Cell::number(isotonic_r2.value, 3),
                Cell::number(audited.cost, 3),
            ]);
        }
        table.explain(
            "tau: rank correlation (tau-b) of the log-odds of the correct class, 95 % jackknife intervals; accuracy difference in points. Pearson's \
             correlation of probabilities is in the numbers; it is high for any machine that is as accurate.",
        )
    }

    fn taus(&self) -> Bars {
        let names: Vec<&str> = self
            .audited
            .iter()
            .filter(|audited| audited.fit == "labels")
            .map(|audited| audited.kernel.as_str())
            .collect();
        let mut bars = Bars::new(
            "Rank correlation with the network",
            "Higher is more faithful.",
            Axis::new("tau of the correct class"),
            names,
        );
        for fit in ["labels", "network"] {
            let values = self.audited.iter().filter(|audited| audited.fit == fit).map(|audited| {
                let tau = audited.faithfulness.tau.correct_class;
                tau.map_or([f64::NAN; 3], |t| [t.value, t.low, t.high])
            });
            bars = bars.series(format!("fitted to {fit}"), values);
        }
        bars
    }

    fn scatter(&self, chosen: &Audited) -> Scatter {
        let mut scatter = Scatter::new(
            "Log-odds of the correct class",
            "Every point is a query; a faithful machine has them on a rising curve.",
            Axis::new("network"),
            Axis::new(chosen.kernel.clone()),
        );
        for (class, name) in self.classes.iter().enumerate() {
            let own = chosen.odds.iter().zip(&self.labels).filter(|(_, y)| **y as usize == class);
            let points: Vec<(f64, f64, &str)> =
                own.map(|(odds, _)| (odds[0], odds[1], name.as_str())).collect();
            scatter = scatter.series(name.clone(), points);
        }
        scatter
    }
}

/// The share of every layer in the trace of a kernel.
fn shares(audited: &Audited) -> Bars {
    let names: Vec<&str> = audited.shares.iter().map(|(name, _)| name.as_str()).collect();
    Bars::new(
        "Share of the layers",
        "Of the sum of the kernel's diagonal: which layers the kernel is made of.",
        Axis::new("share"),
        names,
    )
    .values(audited.kernel.clone(), audited.shares.iter().map(|(_, share)| *share))
}

impl LabelErrors {
    /// Renders the report as an HTML page; `command` is shown in the footer.
    pub fn to_html(&self, command: &str) -> String {
        let level = match self.passed {
            Some(true) => Level::Good,
            Some(false) => Level::Bad,
            None => Level::Neutral,
        };
        let tiles = self.suspects.iter().take(2 * SHOWN).map(|suspect| {
            let tile = self.pictures.row(suspect.at, suspect.row, &suspect.label);
            tile.note(format!("rather {} ({:.2})", suspect.suggested, suspect.score))
        });
        let mut page = Page::new("Suspicious labels")
            .of(self.run.clone())
            .verdict(Verdict::new(level, self.answer()))
            .section(
                "Rows to look at",
                "Label and row, and below them the class that all other rows suggest, with the margin of the evidence.",
            )
            .gallery(Gallery::new("Most suspicious first", "").row("", tiles));
        if let Some(found) = &self.calibration {
            let points = |of: fn(&veridical_inspect::labels::CurvePoint) -> f64| {
                found.curve.iter().map(|point| [point.listed as f64, of(point)]).collect::<Vec<_>>()
            };
            page = page
                .section(
                    "How far down the list",
                    self.found().unwrap_or_default(),
                )
                .chart(
                    Line::new(
                        "Precision and recall by length of the list",
                        "Precision if real errors score as planted ones do; recall of the planted ones.",
                        Axis::new("rows listed"),
                        Axis::new("share"),
                    )
                    .series("precision", points(|point| point.precision))
                    .series("recall", points(|point| point.recall.value)),
                );
        }
        page.foot(foot(command, &self.rows)).data(self).to_html()
    }
}

fn foot(command: &str, rows: &str) -> Foot {
    Foot::new(command).fact("training rows", rows)
}
