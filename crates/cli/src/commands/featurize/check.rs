//! `veridical featurize check`

use std::fmt::Write as _;

use veridical::Result;
use veridical::core::Estimate;
use veridical::featurize::{self, Check, CheckReport};

use crate::flags::Flags;
use crate::terminal::Terminal;
use crate::typed::typed;

pub const EXAMPLES: &str = "\
Examples:
  veridical featurize check --spec spec.json items.parquet
  veridical featurize check --spec spec.json items.parquet --html check.html";

pub fn run(flags: Flags<Check>, terminal: &Terminal) -> Result<()> {
    let settings = flags.settings("featurize check")?;
    let report = featurize::check(&settings, &terminal.job())?;
    terminal.write_page(settings.html.as_ref(), || report.to_html(&typed()))?;
    terminal.result("featurize-check", &report, &text(&report))?;
    let Check { spec, data, .. } = &settings;
    terminal.next(&format!("veridical featurize apply --spec {spec} {data} phi.parquet"));
    Ok(())
}

fn text(report: &CheckReport) -> String {
    let CheckReport { spec, errors, pairs, rows, .. } = report;
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{}", format!("{name:<16} {value}").trim_end()); // cannot fail
    };
    line("spec", spec.spec_id.clone());
    line("measured on", format!("{pairs} random pairs of {rows} rows"));
    line(
        "error",
        format!(
            "mean {:.5}, median {:.5}, 95 % {:.5}, 99 % {:.5}, max {:.5}",
            errors.mean, errors.median, errors.quantile_95, errors.quantile_99, errors.max
        ),
    );
    line(
        "rms",
        format!("{:.5} (iid directions, theory: {:.5})", report.rms, report.expected_iid_rms),
    );
    line("largest |u.h|", format!("{:.3}", report.largest_projection));
    line(
        "kernel values",
        format!(
            "{:.1} % below 0.05, {:.1} % above 0.95",
            100.0 * report.near_zero,
            100.0 * report.near_one
        ),
    );
    line("", String::new());
    line("directions", format!("mean error at D = {} [95 % interval over seeds]", spec.output_dim));
    for family in &report.families {
        let chosen = if family.directions == spec.directions { "  <- this spec" } else { "" };
        let value = match (family.mean, &family.refused) {
            (Some(Estimate { value, low, high, seeds, .. }), _) => {
                format!("{value:.5} [{low:.5}, {high:.5}], {seeds} seeds{chosen}")
            }
            (None, why) => format!("- {}", why.clone().unwrap_or_default()),
        };
        line(family.directions, value);
    }
    text
}
