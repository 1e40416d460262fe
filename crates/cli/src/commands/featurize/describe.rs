//! `veridical featurize describe`

use std::fmt::Write as _;

use serde_json::json;
use veridical::Result;
use veridical::features::{FeatureSpec, Kernel};
use veridical::featurize::{self, DescribeSpec};

use crate::flags::Flags;
use crate::terminal::Terminal;

pub fn run(flags: Flags<DescribeSpec>, terminal: &Terminal) -> Result<()> {
    let spec = featurize::load_spec(&flags.settings("featurize describe")?.spec)?;
    let result = json!({ "spec": featurize::describe(&spec) });
    terminal.result("featurize-describe", &result, &text(&spec))
}

pub fn text(spec: &FeatureSpec) -> String {
    let d = featurize::describe(spec);
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<14} {value}"); // writing to a String cannot fail
    };
    line(
        "map",
        format!(
            "{} -> {} ({} directions, cos and sin of each)",
            d.input_dim, d.output_dim, d.n_directions
        ),
    );
    line("kernel", format!("{}, {}", d.kernel, formula(spec.kernel())));
    let gamma = d.gamma.map(|gamma| format!(" (gamma {gamma:.6})")).unwrap_or_default();
    line("length scale", format!("{}{gamma}", d.length_scale));
    if let Some(components) = &d.components {
        let component = |(l, w): &(f64, f64)| format!("{w} x gaussian with length scale {l:.6}");
        line("mixture", components.iter().map(component).collect::<Vec<_>>().join(" + "));
    }
    line("directions", format!("{}, seed {}", d.directions, d.seed));
    line("rows", format!("normalize {}", d.normalize));
    line(
        "error",
        format!(
            "standard deviation of one kernel value at most {:.4} (iid directions)",
            d.worst_deviation
        ),
    );
    line(
        "size",
        match d.directions_bytes {
            0 => format!("{} per row, directions not stored", bytes(d.bytes_per_row)),
            n => format!("{} per row, {} for the directions", bytes(d.bytes_per_row), bytes(n)),
        },
    );
    line("spec id", d.spec_id);
    line("directions id", d.directions_id);
    text
}

fn formula(kernel: &Kernel) -> &'static str {
    match kernel {
        Kernel::Gaussian => "exp(-|x - y|^2 / (2 l^2))",
        Kernel::Laplace => "exp(-|x - y|_1 / l)",
        Kernel::Cauchy => "prod 1 / (1 + ((x_k - y_k) / l)^2)",
        Kernel::Matern12 => "exp(-s), s = |x - y| / l",
        Kernel::Matern32 => "(1 + s) exp(-s), s = sqrt(3) |x - y| / l",
        Kernel::Matern52 => "(1 + s + s^2/3) exp(-s), s = sqrt(5) |x - y| / l",
        Kernel::Mixture { .. } => "weighted mean of gaussians",
    }
}

pub fn bytes(n: usize) -> String {
    const UNITS: [&str; 4] = ["bytes", "KiB", "MiB", "GiB"];
    let (mut size, mut unit) = (n as f64, 0);
    while size >= 1024.0 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{n} bytes") } else { format!("{size:.1} {}", UNITS[unit]) }
}
