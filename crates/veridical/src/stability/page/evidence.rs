//! Evidence for the verdict: geometry, coordinates, nearest neighbors.

use veridical_inspect::PairMeasure;
use veridical_report::{Axis, Bars, Cell, Density, Heatmap, Line, Page, Scatter, Table, number};

use super::short;
use crate::stability::text::with_interval;
use crate::stability::{ChangedItem, NamedId, StabilityReport};

/// Number of runs from which a matrix of pairs is drawn.
const MATRIX_FROM: usize = 3;

impl StabilityReport {
    pub(super) fn geometry(&self, page: Page) -> Page {
        let c = &self.comparison;
        let axis = |run: &str| Axis::new(format!("<h, h'> in {run}"));
        let names: Vec<String> = self.tables.iter().map(|t| short(&t.name)).collect();
        let (first, last) = (&names[0], &names[names.len() - 1]);
        let points = c.gram.shown.iter().map(|&[a, b]| (a, b, ""));
        let scatter = Scatter::new(
            "Inner products of the same pairs of ids",
            "Points on the diagonal did not move: retrained consumers rely on this.",
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
            page = page.charts([
                matrix("Geometry kept between runs", "CKA", &names, &c.cka).into(),
                matrix("Neighbors kept between runs", "share kept", &names, &c.nn_overlap).into(),
            ]);
        }
        let rows = [
            ("inner product", c.gram.noise, c.gram.spread),
            ("kernel value", c.kernel.noise, c.kernel.spread),
        ];
        let rows = rows.map(|(what, noise, spread)| {
            [Cell::text(what), Cell::number(noise, 5), Cell::number(spread, 5)]
        });
        let table = Table::new("Pairs of ids", ["of a pair", "changes by (sd)", "differs between pairs by (sd)"])
            .explain(format!(
                "{} pairs. A change that is small compared with the differences between pairs preserves the signal. Principal angles \
                 between the tables: mean cosine {:.4}, largest {:.1} degrees.",
                number(c.gram.pairs as f64, 0),
                c.angles.mean_cosine,
                c.angles.largest_degrees
            ))
            .rows(rows);
        page.table(table)
    }

    pub(super) fn coordinates(&self, page: Page) -> Page {
        let Some(c) = &self.comparison.coordinates else {
            return page.section(
                "Coordinates",
                "The tables have different dimensions, so coordinates cannot be compared.",
            );
        };
        // Sorted by variance: which dimension it is carries no meaning, since each depends on the seed.
        let falling = |variance: &[f64]| {
            let mut sorted = variance.to_vec();
            sorted.sort_unstable_by(|a, b| b.total_cmp(a));
            (1u32..).map(f64::from).zip(sorted).map(|(rank, v)| [rank, v]).collect::<Vec<_>>()
        };
        let dimensions = Line::new(
            "Variance of every dimension over runs",
            "The gap between the lines is what alignment recovers: the table was rotated, its geometry was not lost.",
            Axis::new("dimension, by variance").integers(),
            Axis::log("variance"),
        )
        .series("raw", falling(&c.variance))
        .series("aligned", falling(&c.aligned_variance));
        let logs = |variances: &[f64]| variances.iter().map(|v| v.log10()).collect::<Vec<f64>>();
        let ids = Density::new(
            "Variance of single ids",
            "Mean over dimensions, one value per id; -2 is a hundredth, -4 a ten-thousandth.",
            Axis::new("log10 of the variance"),
        )
        .samples("raw", &logs(&c.by_id[0]))
        .samples("aligned", &logs(&c.by_id[1]));
        let intro = "Consumers that are not retrained rely on coordinates. Alignment is the single rotation that maps a table \
                     back to the first.";
        page.section("Coordinates", intro).charts([dimensions.into(), ids.into()])
    }

    pub(super) fn neighbors(&self, page: Page) -> Page {
        let c = &self.comparison;
        let overlap = with_interval(c.nn_overlap.estimate);
        let intro = format!(
            "{overlap} of the {} nearest neighbors stay ({} probes; {:.4} would stay by chance).",
            c.k, c.probes, c.chance_overlap
        );
        let mut page = page.section("Neighbors", intro);
        if !c.deciles.is_empty() {
            let names: Vec<String> = c.deciles.iter().map(|d| format!("{}", d.decile)).collect();
            let values = c
                .deciles
                .iter()
                .map(|d| d.overlap.map_or([f64::NAN; 3], |e| [e.value, e.low, e.high]));
            page = page.chart(
                Bars::new(
                    "Neighbors kept, by decile of weight",
                    "1 are the heaviest ids, 10 the lightest, which have little training data.",
                    Axis::new("neighbors kept").percent(),
                    names,
                )
                .series("ids of the decile", values),
            );
        }
        if let Some(new) = &self.new_ids {
            page = page.text(format!(
                "{} ids are new. The nearest shared id of a new id has a mean cosine of {} ({} for shared ids): far less \
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
            [
                name.into(),
                item.weight.into(),
                Cell::percent(item.overlap, 0),
                list(&item.before).into(),
                list(&item.after).into(),
            ]
        };
        let table = Table::new(
            "Heaviest ids whose neighbors changed",
            ["id", "weight", "kept", "before", "after"],
        )
        .key("kept")
        .explain(
            "Sorted by weight times the share of neighbors that changed. Inspect these before you ship.",
        )
        .rows(self.changed.iter().map(row))
        .first(10);
        page.table(table)
    }
}

/// Heatmap of a measure for all pairs of runs; the diagonal is empty, since a run always agrees with itself.
fn matrix(caption: &str, value: &str, names: &[String], measure: &PairMeasure) -> Heatmap {
    let n = names.len();
    let mut values = vec![vec![f64::NAN; n]; n];
    for pair in &measure.pairs {
        let [a, b] = pair.runs;
        let value = pair.estimate.map_or(f64::NAN, |e| e.value);
        values[a][b] = value;
        values[b][a] = value;
    }
    Heatmap::new(
        caption,
        "A row that is paler than the others is an outlier.",
        names,
        names,
        values,
    )
    .named("run", "compared with", value)
}
