//! HTML report of the kernel error of a spec.

use veridical_report::{
    Axis, Bars, Card, Cell, Foot, Histogram, Level, Page, Scatter, Table, Verdict,
};

use super::{CheckReport, Family, SEEDS};
use crate::featurize::UNINFORMATIVE_SHARE;

impl CheckReport {
    /// Renders the report as an HTML page; `command` is the command line shown in the footer.
    pub fn to_html(&self, command: &str) -> String {
        let Self { spec, errors, .. } = self;
        Page::new("Kernel error of a feature spec")
            .of(format!("{} -> {} on {}", spec.input_dim, spec.output_dim, self.data))
            .verdict(self.verdict())
            .cards([
                Card::new("mean error", format!("{:.4}", errors.mean)).note("per kernel value"),
                Card::new("95 % of pairs below", format!("{:.4}", errors.quantile_95)),
                Card::new("largest", format!("{:.4}", errors.max)),
                Card::new("output dim D", spec.output_dim.to_string())
                    .note(format!("{} directions, {}", spec.n_directions, spec.directions)),
            ])
            .section(
                "This spec",
                format!(
                    "{} -> {}, kernel {}, length scale {}, {} directions, normalize {}, seed {}; \
                     {} pairs of {} rows of {}.",
                    spec.input_dim,
                    spec.output_dim,
                    spec.kernel,
                    spec.length_scale,
                    spec.directions,
                    spec.normalize,
                    spec.seed,
                    self.pairs,
                    self.rows,
                    self.data
                ),
            )
            .table(self.errors_table())
            .charts([self.scatter().into(), self.histogram().into()])
            .section(
                "Other families of directions",
                format!("The same kernel at D = {}, {SEEDS} seeds each.", spec.output_dim),
            )
            .table(self.families_table())
            .chart(self.families_chart())
            .foot(
                Foot::new(command)
                    .fact("spec", &spec.spec_id)
                    .fact("seed", spec.seed)
                    .fact("data", &self.data)
                    .fact("pairs", self.pairs),
            )
            .data(self)
            .to_html()
    }

    /// States what can be said without knowing what the features are used for.
    fn verdict(&self) -> Verdict {
        let sentence = format!(
            "An estimated kernel value is off by {:.3} on average, and by less than {:.3} for 95 % of pairs.",
            self.errors.mean, self.errors.quantile_95
        );
        let uninformative = self.near_zero + self.near_one;
        if uninformative <= UNINFORMATIVE_SHARE {
            return Verdict::new(Level::Neutral, sentence).detail(
                "Whether that is enough depends on the use: `veridical featurize plan` finds the dimension D for a target error.",
            );
        }
        Verdict::new(Level::Warn, sentence).detail(format!(
            "{:.0} % of kernel values are below 0.05 or above 0.95 and barely discriminate between pairs: choose another \
             length scale (`--length-scale median`).",
            100.0 * uninformative
        ))
    }

    fn errors_table(&self) -> Table {
        let Self { errors, .. } = self;
        let number = |x| Cell::number(x, 5);
        Table::new("Error of this spec, |<phi(x), phi(y)> - k(x, y)|", ["of pairs", "value"])
            .row([Cell::from("mean"), number(errors.mean)])
            .row([Cell::from("median"), number(errors.median)])
            .row([Cell::from("95 % of pairs below"), number(errors.quantile_95)])
            .row([Cell::from("99 % of pairs below"), number(errors.quantile_99)])
            .row([Cell::from("largest"), number(errors.max)])
            .row([Cell::from("root mean square"), number(self.rms)])
            .row([
                Cell::from("root mean square of iid directions, theory"),
                number(self.expected_iid_rms),
            ])
            .row([Cell::from("largest |u.h|"), Cell::number(self.largest_projection.into(), 3)])
            .row([Cell::from("kernel values below 0.05"), Cell::percent(self.near_zero, 1)])
            .row([Cell::from("kernel values above 0.95"), Cell::percent(self.near_one, 1)])
    }

    fn scatter(&self) -> Scatter {
        let points = self.shown.iter().map(|(exact, estimate)| (*exact, *estimate, ""));
        Scatter::new(
            format!("Estimated against exact, {} pairs", self.shown.len()),
            "Points on the diagonal are exact.",
            Axis::new("k(x, y)"),
            Axis::new("<phi(x), phi(y)>"),
        )
        .series("pairs", points)
        .diagonal()
    }

    fn histogram(&self) -> Histogram {
        Histogram::new(
            "Distribution of the kernel values",
            "Values that cluster near 0 or 1 barely discriminate between pairs.",
            Axis::new("k(x, y)"),
        )
        .samples("pairs", &self.values)
    }

    fn families_table(&self) -> Table {
        let row = |family: &Family| {
            let mean = family.mean.map(|mean| Cell::interval(mean.value, mean.interval(), 5));
            let quantile = family.quantile_95.map(|x| Cell::number(x, 5));
            let note = match &family.refused {
                Some(why) => why.as_str(),
                None if family.directions == self.spec.directions => "this spec",
                None => "",
            };
            [
                Cell::from(family.directions),
                Cell::from(mean),
                Cell::from(quantile),
                Cell::from(note),
            ]
        };
        Table::new("Families", ["directions", "mean error", "95 % of pairs below", "note"])
            .explain("Brackets are 95 % intervals over seeds.")
            .rows(self.families.iter().map(row))
    }

    fn families_chart(&self) -> Bars {
        let drawn = || self.families.iter().filter(|family| family.mean.is_some());
        let values = drawn().filter_map(|family| family.mean).map(|e| [e.value, e.low, e.high]);
        Bars::new(
            "Mean error by family",
            "Lower is better; whiskers are 95 % intervals over seeds.",
            Axis::new("mean |error|"),
            drawn().map(|family| family.directions),
        )
        .series("mean error", values)
    }
}
