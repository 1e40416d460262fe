//! Writes a page with every component: `cargo run -p veridical-report --example gallery -- gallery.html`.

use serde::Serialize;
use veridical_report::{
    Axis, Band, Bars, BoxPlot, Card, Cell, Chart, Density, Foot, Heatmap, Histogram, Level, Line,
    Page, Scatter, Table, Verdict,
};

#[derive(Serialize)]
struct Numbers {
    overlap: f64,
    undefined: f64,
    seed: u64,
}

/// Deterministic values that look normal: sums of twelve uniforms of a linear congruential generator.
fn noise(seed: u64, n: usize) -> Vec<f64> {
    let mut state = seed;
    let mut uniform = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    (0..n).map(|_| (0..12).map(|_| uniform()).sum::<f64>() - 6.0).collect()
}

fn main() -> std::io::Result<()> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "gallery.html".into());
    std::fs::write(&path, page().to_html())?;
    println!("{path}");
    Ok(())
}

fn page() -> Page {
    let numbers = Numbers { overlap: 0.754, undefined: f64::NAN, seed: u64::MAX };
    top().section("Tables", "Click a header to sort; Copy takes all rows in full precision.")
        .table(treatments())
        .table(items())
        .section("Charts", "Hover over anything to read its numbers.")
        .charts(curves())
        .charts(spreads())
        .charts(comparisons())
        .section("Words", "")
        .text("A paragraph with `code` in it, and a name that tries to inject HTML: <script>alert(1)</script>.")
        .note(Level::Warn, "Labels were missing for 12 items, which are excluded from the accuracy.")
        .note(Level::Neutral, "The theory section never enters a verdict.")
        .list(["first line", "second line with `code`"])
        .foot(
            Foot::new("veridical stability monday.parquet tuesday.parquet --budget budget.toml --html report.html")
                .fact("seed", 7)
                .fact("spec", "sha256:1f0c5d1f6f0f4b0d8d2b1f0c5d1f6f0f4b0d8d2b1f0c5d1f6f0f4b0d8d2b1f0c")
                .fact("monday.parquet", "blake3:6f0f4b0d8d2b1f0c5d1f6f0f4b0d8d2b"),
        )
        .data(&numbers)
}

fn top() -> Page {
    Page::new("Every component of a report")
        .of("tuesday.parquet against monday.parquet")
        .date(Some("2026-01-06"))
        .verdict(
            Verdict::new(Level::Bad, "Do not ship today's raw vectors: consumers that do not retrain would drop to chance level.")
                .detail("The geometry is stable: 77 % of the ten nearest neighbors are kept, as between runs on the same data.")
                .detail("The coordinates are not: align to monday (`veridical align`) and 2 of 3 consumers are safe."),
        )
        .cards([
            Card::new("neighbors kept", "0.754").note("floor 0.79 [0.78, 0.80]").level(Level::Warn),
            Card::new("CKA", "0.981").note("limit 0.95").level(Level::Good),
            Card::new("accuracy, not retrained", "21.7 %").note("aligned 89.4 %").level(Level::Bad),
            Card::new("ids shared", "3,306").note("of 3,416"),
        ])
        .verdict(Verdict::new(Level::Good, "A verdict may also be good."))
        .verdict(Verdict::new(Level::Warn, "It may be a warning."))
        .verdict(Verdict::new(Level::Neutral, "Or neutral."))
}

fn treatments() -> Table {
    Table::new("Treatments", ["treatment", "retrained", "not retrained", "D", "verdict"])
        .key("not retrained")
        .explain("Accuracy of logistic regression over ten runs; brackets are 95 % intervals.")
        .row([
            Cell::from("raw h"),
            Cell::interval(0.898, [0.892, 0.904], 3),
            Cell::percent(0.217, 1),
            32u64.into(),
            Cell::level(Level::Bad, "blocked"),
        ])
        .row([
            Cell::from("aligned h"),
            Cell::interval(0.897, [0.892, 0.902], 3),
            Cell::percent(0.894, 1),
            32u64.into(),
            Cell::level(Level::Good, "safe"),
        ])
        .row([
            Cell::from("phi"),
            Cell::interval(0.902, [0.889, 0.915], 3),
            Cell::percent(0.223, 1),
            512u64.into(),
            Cell::level(Level::Warn, "retrain"),
        ])
        .row([
            Cell::from("average"),
            Cell::interval(0.875, [f64::NAN, f64::NAN], 3),
            Cell::percent(f64::NAN, 1),
            32u64.into(),
            Cell::level(Level::Neutral, "not rated"),
        ])
}

fn items() -> Table {
    let rows = (0..50u64).map(|i| {
        [
            Cell::from(format!("item {i}")),
            Cell::from(12_000 / (i + 1)),
            Cell::number(((i * 37) % 50) as f64 / 50.0, 2),
            Cell::from("item 3, item 9, item 41"),
        ]
    });
    Table::new("Changed items by weight", ["item", "weight", "neighbors kept", "neighbors now"])
        .rows(rows)
        .first(6)
}

fn curves() -> [Chart; 2] {
    let widths = [32.0, 64.0, 128.0, 256.0, 512.0f64];
    let line = Line::new(
        "Error of the kernel",
        "Both axes are logarithmic: the rate 1/sqrt(m) is a straight line.",
        Axis::log("directions m"),
        Axis::log("mean |error|"),
    )
    .series("iid", widths.map(|m| [m, 0.8 / m.sqrt()]))
    .series("orthogonal", widths.map(|m| [m, 0.6 / m.sqrt()]))
    .dashed("theory", widths.map(|m| [m, 0.79 / m.sqrt()]));
    let day = |i: u32| {
        let overlap = 0.76 + 0.03 * f64::from(i).sin() - 0.004 * f64::from(i);
        [f64::from(i), overlap, overlap - 0.012, overlap + 0.012]
    };
    let band = Band::new(
        "Neighbors kept, day by day",
        "The band is the 95 % interval; below the dashed limit a refresh is stopped.",
        Axis::new("day"),
        Axis::new("overlap@10").mark("limit", 0.7),
    )
    .series("this model", (0..14).map(day))
    .series(
        "with warm start",
        (0..14).map(|i| day(i).map(|x| if x < 1.0 && i > 0 { x + 0.1 } else { x })),
    );
    [line.into(), band.into()]
}

fn spreads() -> [Chart; 4] {
    let samples = [noise(1, 800), noise(2, 800).iter().map(|x| 0.7 * x + 0.6).collect()];
    let boxes = BoxPlot::new(
        "Accuracy over runs",
        "A flat box is a stable treatment.",
        Axis::new("accuracy").percent(),
    )
    .samples("raw", &noise(3, 10).iter().map(|x| 0.898 + 0.003 * x).collect::<Vec<_>>())
    .samples("aligned", &noise(4, 10).iter().map(|x| 0.897 + 0.002 * x).collect::<Vec<_>>())
    .samples("phi", &noise(5, 10).iter().map(|x| 0.902 + 0.005 * x).collect::<Vec<_>>())
    .mean(0.903);
    let one = Histogram::new(
        "Norms of one run",
        "A second peak would mean two kinds of items.",
        Axis::new("norm").mark("median", 0.0),
    )
    .samples("run 0", &samples[0]);
    let two = Histogram::new(
        "Norms of two runs",
        "Overlapping histograms mean equal distributions.",
        Axis::new("norm"),
    )
    .samples("run 0", &samples[0])
    .samples("run 1", &samples[1]);
    let density = Density::new(
        "Inner products",
        "Curves that agree are runs that agree.",
        Axis::new("<h, h'>"),
    )
    .samples("run 0", &samples[0])
    .samples("run 1 & <b>its name</b>", &samples[1]);
    [boxes.into(), one.into(), two.into(), density.into()]
}

fn comparisons() -> [Chart; 5] {
    let names = ["raw h", "aligned h", "phi, D = 512", "align-then-phi, D = 512"];
    let not_retrained =
        [[0.217, 0.209, 0.225], [0.894, 0.889, 0.899], [0.223, 0.2, 0.246], [0.896, 0.89, 0.902]];
    let retrained = [
        [0.898, 0.892, 0.904],
        [0.897, 0.892, 0.902],
        [0.902, 0.889, 0.915],
        [0.904, 0.893, 0.915],
    ];
    let lying = Bars::new(
        "Accuracy after a refresh",
        "Whiskers are 95 % intervals.",
        Axis::new("accuracy").percent().mark("chance", 0.22),
        names,
    )
    .series("retrained", retrained)
    .series("not retrained", not_retrained);
    let standing = Bars::new(
        "Neighbors kept by weight",
        "Heavy items move less.",
        Axis::new("overlap@10"),
        ["light", "middle", "heavy", "new"],
    )
    .series("overlap", [[0.61, 0.59, 0.63], [0.72, 0.7, 0.74], [0.81, 0.8, 0.82], [f64::NAN; 3]]);
    let dots = Bars::new(
        "Accuracy, retrained",
        "Overlapping intervals mean no clear difference.",
        Axis::new("accuracy").percent(),
        names,
    )
    .series("retrained", retrained)
    .dots();
    let (x, y) = (noise(6, 600), noise(7, 600));
    let points = x.iter().zip(&y).enumerate().map(|(i, (x, y))| {
        (0.2 * x + 0.5, 0.2 * x + 0.5 + 0.03 * y, format!("items {i} and {}", i + 1))
    });
    let scatter = Scatter::new(
        "Estimated against exact kernel values",
        "Points on the diagonal are exact.",
        Axis::new("k(x, y)"),
        Axis::new("<phi(x), phi(y)>"),
    )
    .series("pairs", points)
    .intervals(
        "means",
        (1..9).map(|i| f64::from(i) / 10.0).map(|x| (x, [x, x - 0.05, x + 0.03], "")),
    )
    .curve("fit", [[0.0, 0.05], [0.5, 0.45], [1.0, 0.95]])
    .diagonal();
    let runs: Vec<String> = (0..6).map(|i| format!("run {i}")).collect();
    let cka = |i: usize, j: usize| {
        if i == j { f64::NAN } else { 0.93 + 0.01 * ((i + 1) * (j + 1) % 7) as f64 }
    };
    let values = (0..6).map(|i| (0..6).map(|j| cka(i, j)).collect()).collect();
    let heatmap = Heatmap::new(
        "CKA of all pairs of runs",
        "Strong colors mean similar runs; one pale row would be an outlier.",
        runs.clone(),
        runs,
        values,
    )
    .named("run", "compared with", "CKA");
    [lying.into(), standing.into(), dots.into(), scatter.into(), heatmap.into()]
}
