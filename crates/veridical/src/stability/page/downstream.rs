//! Downstream models, contents of the tables, and theoretical bounds.

use veridical_core::Estimate;
use veridical_report::{Axis, Bars, BoxPlot, Cell, Page, Table};

use super::short;
use crate::stability::StabilityReport;

impl StabilityReport {
    pub(super) fn downstream_section(&self, page: Page) -> Page {
        let Some(d) = &self.downstream else { return page };
        let mut plot = BoxPlot::new(
            "Accuracy over runs, retrained on each",
            "A flat box is a stable treatment; a treatment that averages all runs has no spread.",
            Axis::new("accuracy").percent().within([0.0, 1.0]),
        );
        for t in &d.treatments {
            plot = plot.samples(t.treatment.clone(), &t.accuracy.runs);
        }
        // A treatment that averages over all runs leaves no other run to apply its model to.
        let left = || {
            d.treatments
                .iter()
                .filter_map(|t| Some((t.treatment.as_str(), t.unretrained.as_ref()?.mean.value)))
        };
        let bars = Bars::new(
            "Accuracy of the first table's model on the other tables, not retrained",
            "What remains for a consumer that is not retrained; the dashed line is the accuracy of guessing.",
            Axis::new("accuracy").percent().mark("most frequent class", d.majority),
            left().map(|(name, _)| name),
        )
        .values("not retrained", left().map(|(_, accuracy)| accuracy));
        let rows = d.treatments.iter().map(|t| {
            let points = |e: Estimate| {
                Cell::interval(100.0 * e.value, e.interval().map(|end| 100.0 * end), 2)
            };
            let sd = t.accuracy.sd.map(points);
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
                Cell::percent(t.accuracy.mean.value, 2),
                Cell::from(sd),
                Cell::percent(t.macro_f1.mean.value, 2),
                Cell::percent(t.knn.mean.value, 2),
                Cell::percent(t.nadaraya_watson.mean.value, 2),
                t.unretrained
                    .as_ref()
                    .map_or_else(|| Cell::text("-"), |s| Cell::percent(s.mean.value, 2)),
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
            .key("not retrained")
            .explain(format!(
                "Standard deviations in percentage points. {} ids of {} classes, the same {} folds for all; most frequent class {:.1} %. \
                 Variance components may be negative: they are then indistinguishable from 0.",
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
                ["table", "centered", "uncentered", "E[1[Y=Y'] K]", "E[K]"],
            )
            .rows(rows);
            page = page.table(table);
        }
        page
    }

    pub(super) fn tables_section(&self, page: Page) -> Page {
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
        let intro =
            format!("{} ids are in all tables. Most broken refreshes show here.", self.shared_ids);
        let table = Table::new("Tables", head).key("ids gone").rows(rows);
        page.section("Tables", intro).table(table)
    }

    pub(super) fn theory_section(&self, page: Page) -> Page {
        let t = &self.theory;
        let shown = |x: f64| {
            if x.abs() < 1e-3 || x.abs() >= 1e4 { format!("{x:.2e}") } else { format!("{x:.4}") }
        };
        let two = |pair: Option<[f64; 2]>, names: [&str; 2]| {
            pair.map(|[a, b]| format!("{} {}, {} {}", names[0], shown(a), names[1], shown(b)))
        };
        let either = |pair: Option<[Option<f64>; 2]>| {
            let of = |x: Option<f64>| x.map_or("no signal left".to_owned(), shown);
            pair.map(|[raw, aligned]| format!("raw {}, aligned {}", of(raw), of(aligned)))
        };
        let lines = [
            either(t.noise_to_signal)
                .map(|x| format!("Noise-to-signal ratio of a coordinate (proposition 3): {x}.")),
            either(t.estimation_rate)
                .map(|x| format!("Its rate (s_e^2 / s_h^2) (q / n) ln(d / q), without constant: {x}.")),
            two(t.alignment_rate, ["directions", "ids"])
                .map(|x| format!("Proposition 4 at epsilon 0.1, divergence 1, without constant: {x}.")),
            t.nadaraya_watson_risk.map(|x| {
                format!("Lemma 1 as stated in the paper, delta 0.05: risk of Nadaraya-Watson at most {}.", shown(x))
            }),
        ];
        page.section(
            "Theory",
            "The paper's bounds at these numbers. They are rates without constants and do not affect the verdict.",
        )
        .list(lines.into_iter().flatten())
    }
}
