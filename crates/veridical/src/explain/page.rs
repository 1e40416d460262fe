//! HTML reports of `explain`: query cards, faithfulness, suspicious labels.

use std::collections::BTreeMap;

use veridical_core::Estimate;
use veridical_core::ranks::isotonic;
use veridical_inspect::surrogate::Faithfulness;
use veridical_report::{
    Axis, Band, Bars, BoxPlot, Card, Cell, Foot, Gallery, Level, Line, Page, Scatter, Table, Tile,
    Verdict,
};

use super::samples::{Samples, Shown};
use super::{Audit, Audited, Explained, Explanation, LabelErrors, Part, Subject, Validation};

/// Queries, or suspects, that a page shows.
const SHOWN: usize = 24;
/// Training rows that a card shows on each side.
const SHOWN_ROWS: usize = 6;

/// Points of a fitted curve.
const CURVE: usize = 200;

/// What a page shows of queries and of training rows: images, rows of numbers or documents.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pictures {
    queries: BTreeMap<usize, Shown>,
    rows: BTreeMap<usize, Shown>,
}

impl Pictures {
    /// Those that the page shows.
    pub fn of(subject: &Subject, explained: &[Explained]) -> Self {
        let shown = doubtful_first(explained);
        let queries = shown.iter().filter_map(|&q| Some((q, subject.queries.shown(q)?)));
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
        let rows = rows.filter_map(|at| Some((at, subject.train.shown(at)?))).collect();
        Self { queries: BTreeMap::new(), rows }
    }

    /// Those of any examples, by their places.
    pub fn of_samples(data: &Samples, rows: impl Iterator<Item = usize>) -> Self {
        let rows = rows.take(SHOWN).filter_map(|at| Some((at, data.shown(at)?))).collect();
        Self { queries: BTreeMap::new(), rows }
    }

    /// The tile of an input with a caption.
    pub fn query_as(&self, at: usize, caption: String) -> Tile {
        match self.rows.get(&at) {
            Some(shown) => shown.tile(caption),
            None => Tile::text(format!("input {}", at + 1), caption),
        }
    }

    /// The tile of an input without a label.
    pub fn query(&self, at: usize) -> Tile {
        match self.rows.get(&at) {
            Some(shown) => shown.tile(format!("{}", at + 1)),
            None => Tile::text(format!("input {}", at + 1), ""),
        }
    }

    /// The tile of a training row.
    pub fn row(&self, at: usize, row: usize, label: &str) -> Tile {
        match self.rows.get(&at) {
            Some(shown) => shown.tile(format!("{label} · row {row}")),
            None => Tile::text(format!("row {row}"), label),
        }
    }
}

/// The decisions to show: wrong ones before the others, the least probable first.
fn doubtful_first(explained: &[Explained]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..explained.len()).collect();
    order.sort_by(|&a, &b| explained[b].doubt.total_cmp(&explained[a].doubt));
    order.truncate(SHOWN);
    order
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
        if let Some(agreement) = self.agreement.filter(|agreement| agreement.value < 0.9) {
            verdict = verdict.detail(format!(
                "The kernel machine behind these numbers puts only {} of the queries into the network's class: trust single rows little, and \
                 run `explain audit`.",
                agreement.percent()
            ));
        }
        let mut cards = Vec::new();
        if let Some(agreement) = &self.agreement {
            cards.push(
                Card::new("agreement with the network", agreement.percent())
                    .note("queries that the kernel machine puts into the network's class"),
            );
        }
        if let Some(correlation) = &self.correlation {
            cards.push(
                Card::new("correlation with the network", format!("{:.3}", correlation.value))
                    .note("of the predictions of the kernel machine and of the network"),
            );
        }
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
        let mut boxes = BoxPlot::new(
            "Effects of the rows of a class on decisions for it",
            "Quartiles and range over rows and queries; the diamond is the mean.",
            Axis::new(self.effect),
        );
        for (class, mean, values) in &self.spread.groups {
            boxes = boxes.samples(class, values).mean(*mean);
        }
        let lorenz = Line::new(
            "Do few rows dominate?",
            "Share of the positive effect that the smallest share of the rows carries, mean over queries; the more it sags, the fewer rows count.",
            Axis::new("share of the rows, smallest effects first").percent().ends_at(1.0),
            Axis::new("share of the positive effect").percent().ends_at(1.0),
        )
        .series(self.effect, self.spread.lorenz.iter().copied())
        .dashed("all rows equal", [[0.0, 0.0], [1.0, 1.0]]);
        page = page.section(
            "How the effects are spread",
            "Of all training rows, not only of the listed ones.",
        );
        page.charts([boxes.into(), lorenz.into()])
            .foot(foot(command, &self.rows))
            .data(self)
            .to_html()
    }

    /// The card of a query: itself, and the rows for and against its class.
    fn card(&self, q: usize, explained: &Explained) -> Gallery {
        let Explained { query, predicted, probability, label, class, .. } = explained;
        let is_wrong =
            probability.is_some() && label.as_ref().is_some_and(|label| label != predicted);
        let caption = match probability {
            Some(probability) => format!("predicted {predicted} ({:.1} %)", 100.0 * probability),
            None => format!("predicted {predicted}"),
        };
        let itself = match self.pictures.queries.get(&q) {
            Some(shown) => shown.tile(caption),
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
        page = page.table(self.table()).charts([self.taus().into(), self.costs().into()]).section(
            "More measures",
            "Pearson's correlation is high for any machine that is as accurate: two clouds of points are enough. It is here for comparison only.",
        );
        page = page.table(self.more());
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
            "GFLOP",
            "MB",
        ];
        let mut table = Table::new("Kernels", heads).key("tau");
        for audited in &self.audited {
            let Faithfulness { tau, agreement, accuracy_difference, .. } = &audited.faithfulness;
            table = table.row([
                Cell::from(audited.kernel.as_str()),
                Cell::from(audited.fit),
                of(tau.correct_class, 3),
                of(tau.within_class, 3),
                of(Some(*agreement), 3),
                of(Some(*accuracy_difference), 2),
                Cell::number(audited.cost, 3),
                Cell::number(audited.bytes / 1e6, 1),
            ]);
        }
        table.explain(
            "tau: rank correlation (tau-b) of the log-odds of the correct class, 95 % jackknife intervals; accuracy difference in points. GFLOP and MB: \
             operations and factors of the kernel.",
        )
    }

    fn more(&self) -> Table {
        let heads = [
            "kernel",
            "fitted to",
            "KL",
            "isotonic R2",
            "R2 of log-odds",
            "Pearson",
            "errors of network, machine",
            "of both",
            "p",
        ];
        let mut table = Table::new("Other measures", heads);
        for audited in &self.audited {
            let found = &audited.faithfulness;
            let overlap = &found.error_overlap;
            table = table.row([
                Cell::from(audited.kernel.as_str()),
                Cell::from(audited.fit),
                of(Some(found.divergence), 4),
                of(Some(found.isotonic_r2), 3),
                of(Some(found.linear_r2), 3),
                of(Some(found.pearson), 3),
                Cell::text(format!("{}, {}", overlap.network, overlap.surrogate)),
                Cell::text(format!("{} ({:.1} by chance)", overlap.both, overlap.expected)),
                Cell::number(overlap.p_value, 4),
            ]);
        }
        table.explain(
            "KL of the probabilities in nats; isotonic R2 and R2 of log-odds: what the best increasing function, and the best line, explain of the \
             network's log-odds. p: the chance of so many common errors if they fell independently.",
        )
    }

    /// tau against the cost, by the fit to labels.
    fn costs(&self) -> Scatter {
        let mut scatter = Scatter::new(
            "Rank correlation against cost",
            "Fitted to the labels, 95 % intervals: up is more faithful, left is cheaper.",
            Axis::log("GFLOP of the kernel"),
            Axis::new("tau of the correct class"),
        );
        for audited in self.audited.iter().filter(|audited| audited.fit == "labels") {
            let Some(tau) = audited.faithfulness.tau.correct_class else { continue };
            let point = (audited.cost, [tau.value, tau.low, tau.high], audited.kernel.as_str());
            scatter = scatter.intervals(audited.kernel.clone(), [point]);
        }
        scatter
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
            Axis::new("tau of the correct class").within([-1.0, 1.0]),
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
        let [network, machine] =
            [0, 1].map(|side| -> Vec<f64> { chosen.odds.iter().map(|odds| odds[side]).collect() });
        let fitted = isotonic(&machine, &network);
        let mut curve: Vec<[f64; 2]> =
            fitted.into_iter().zip(machine).map(|(f, m)| [f, m]).collect();
        curve.sort_by(|a, b| a[1].total_cmp(&b[1]));
        let step = curve.len().div_ceil(CURVE).max(1);
        scatter.curve("best increasing function", curve.into_iter().step_by(step))
    }
}

/// A value with its interval, if it is defined.
fn of(estimate: Option<Estimate>, digits: usize) -> Cell {
    match estimate {
        Some(e) => Cell::interval(e.value, e.interval(), digits),
        None => Cell::text("-"),
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

impl Validation {
    /// Renders the report as an HTML page; `command` is shown in the footer.
    pub fn to_html(&self, command: &str) -> String {
        let verdict = Verdict::new(Level::Neutral, self.answer()).detail(
            "1 is a perfect prediction of the order of the margins, 0 is none. The ceiling is what the true effects would score under the noise of \
             the training seed.",
        );
        let mut axis = Axis::new("linear datamodeling score");
        if let Some(ceiling) = self.ceiling {
            axis = axis.mark("ceiling", ceiling);
        }
        let names = self.validated.iter().map(|one| one.effect);
        let bars = Bars::new(
            "Do attributions predict training again?",
            "Mean rank correlation over queries, 95 % intervals.",
            axis,
            names,
        )
        .series(
            "score",
            self.validated.iter().map(|one| {
                one.score.map_or([f64::NAN; 3], |score| [score.value, score.low, score.high])
            }),
        );
        let mut page = Page::new("Attributions against training again")
            .of(self.run.clone())
            .verdict(verdict)
            .section(
                "Linear datamodeling score",
                format!(
                    "{} networks were trained; {} queries of {}; {}.",
                    self.networks, self.n, self.queries, self.rows
                ),
            );
        for note in &self.notes {
            page = page.note(Level::Neutral, note);
        }
        let mut table = Table::new("Scores", ["effect", "score", "standard error"]).key("score");
        for one in &self.validated {
            table = table.row([
                Cell::from(one.effect),
                of(one.score, 3),
                one.standard_error.map_or(Cell::text("-"), |error| Cell::number(error, 3)),
            ]);
        }
        page = page.chart(bars).table(table);
        if self.curve_queries > 0 {
            page = page
                .section(
                    "Removal",
                    format!(
                        "{} queries; for each the rows with the largest effects are taken away and the network is trained again.",
                        self.curve_queries
                    ),
                )
                .charts([self.drops().into(), self.flips().into()]);
        }
        page.foot(foot(command, &self.rows)).data(self).to_html()
    }

    /// The drop of the margin by the share of the rows.
    fn drops(&self) -> Band {
        let point = |(at, drop): (usize, Option<Estimate>)| {
            let at = at as f64;
            drop.map_or([at, f64::NAN, f64::NAN, f64::NAN], |e| [at, e.value, e.low, e.high])
        };
        let mut band = Band::new(
            "Drop of the margin",
            "Higher: the effect names rows that the decision rests on. Bands are 95 % intervals over queries.",
            self.shares(),
            Axis::new("drop of the margin"),
        );
        for one in &self.validated {
            let drops = one.curve.iter().map(|p| p.drop);
            band = band.series(one.effect, drops.enumerate().map(point));
        }
        let random = self.validated.first().map_or(&[][..], |one| &one.curve);
        let random = random.iter().enumerate();
        let random = random.filter_map(|(at, p)| Some([at as f64, p.random_drop?.value]));
        band.dashed("random rows", random)
    }

    /// The share of decisions that flip.
    fn flips(&self) -> Line {
        let mut line = Line::new(
            "Decisions that flip",
            "Share of the queries whose margin was positive and is no longer.",
            self.shares(),
            Axis::new("share of the queries").percent(),
        );
        for one in &self.validated {
            let flipped = one.curve.iter().map(|p| p.flipped.value);
            line = line.series(one.effect, flipped.enumerate().map(|(at, x)| [at as f64, x]));
        }
        line
    }

    /// The axis of the shares, evenly spaced.
    fn shares(&self) -> Axis {
        let shares = self.validated.first().map_or(&[][..], |one| &one.curve);
        let names = shares.iter().map(|point| format!("{} %", 100.0 * point.share));
        Axis::new("share of the rows that was removed").named(names)
    }
}

fn foot(command: &str, rows: &str) -> Foot {
    Foot::new(command).fact("training rows", rows)
}
