//! `veridical stability`: reports on planted cases, the gate, and errors.

use serde_json::Value;
use veridical_core::{Order, Seed, Stream};
use veridical_data::{Ids, VectorTable, generate};

use crate::common::{Outcome, Sandbox, estimates_are_whole};

const N: usize = 300;
const DIM: usize = 8;

fn normals(draw: u64, n: usize) -> Vec<f64> {
    let mut values = vec![0.0; n];
    Stream::new(Seed::new(0).unwrap(), "tables").at(0, draw).fill_normals(&mut values);
    values
}

fn ids() -> Ids {
    Ids::Int((0..N as i64).collect::<Vec<_>>().into())
}

fn table(values: &[f64]) -> VectorTable {
    VectorTable { ids: ids(), dim: DIM, vectors: values.iter().map(|&x| x as f32).collect() }
}

/// Rows around three centers: a geometry that is worth keeping.
fn clusters() -> Vec<f64> {
    let (centers, mut rows) = (normals(1, 3 * DIM), normals(2, N * DIM));
    for (i, row) in rows.chunks_exact_mut(DIM).enumerate() {
        for (x, center) in row.iter_mut().zip(&centers[i % 3 * DIM..]) {
            *x = 0.6 * *x + 2.0 * center;
        }
    }
    rows
}

/// The rows under a rotation: products of plane rotations.
fn turned(rows: &[f64]) -> Vec<f64> {
    let mut rows = rows.to_vec();
    for row in rows.chunks_exact_mut(DIM) {
        for (k, &angle) in normals(3, 64).iter().enumerate() {
            let (a, b) = (k % DIM, (3 * k + 1 + k / DIM) % DIM);
            if a != b {
                let (x, y) = (row[a], row[b]);
                row[a] = x * angle.cos() - y * angle.sin();
                row[b] = x * angle.sin() + y * angle.cos();
            }
        }
    }
    rows
}

fn noisy(rows: &[f64], size: f64, draw: u64) -> Vec<f64> {
    rows.iter().zip(normals(draw, rows.len())).map(|(x, e)| x + size * e).collect()
}

/// `a`, `turned` (a rotation of it), `noise` (half noise), `permuted` (rows with the ids of other rows), and labels.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    let rows = clusters();
    let save = |name: &str, table: &VectorTable| {
        veridical_io::write_table(table, &sandbox.path(name)).unwrap()
    };
    save("a.parquet", &table(&rows));
    save("turned.parquet", &table(&turned(&rows)));
    save("noise.parquet", &table(&noisy(&rows, 4.0, 4)));
    let order = Order::new(N as u64, Seed::new(0).unwrap(), "permuted", 0);
    let ids = Ids::Int((0..N as u64).map(|i| order.at(i) as i64).collect::<Vec<_>>().into());
    save("permuted.parquet", &VectorTable { ids, ..table(&rows) });
    let labels: String = (0..N).map(|i| format!("{i},{}\n", ["x", "y", "z"][i % 3])).collect();
    sandbox.put("labels.csv", format!("id,class\n{labels}"));
    sandbox
}

fn json(sandbox: &Sandbox, line: &str) -> Value {
    let document: Value = serde_json::from_str(&sandbox.ok(&format!("{line} --json"))).unwrap();
    assert_eq!(document["schema"], "veridical.stability/1");
    estimates_are_whole(&document);
    document
}

fn level(report: &Value, aspect: &str) -> String {
    let aspects = report["verdict"]["aspects"].as_array().unwrap();
    let found = aspects.iter().find(|a| a["name"] == aspect).unwrap();
    found["level"].as_str().unwrap().to_owned()
}

fn measure(report: &Value, key: &str) -> f64 {
    let found = report["measures"].as_array().unwrap().iter().find(|m| m["key"] == key);
    found.unwrap()["estimate"]["value"].as_f64().unwrap()
}

#[test]
fn a_rotation_moves_coordinates_and_nothing_else() {
    let sandbox = sandbox();
    let report = json(&sandbox, "stability a.parquet turned.parquet");
    for (aspect, want) in [
        ("ids", "stable"),
        ("outliers", "stable"),
        ("coordinates", "stable"), // after alignment
        ("geometry", "stable"),
        ("neighbors", "stable"),
    ] {
        assert_eq!(level(&report, aspect), want, "{aspect}");
    }
    assert_eq!(report["verdict"]["treatment"], "aligned");
    assert!(measure(&report, "cka") > 0.999_999 && measure(&report, "nn_overlap") > 0.999);
    assert!(measure(&report, "procrustes_residual") < 1e-5);
    let coordinates = &report["comparison"]["coordinates"];
    assert!(coordinates["relative_sd"]["value"].as_f64().unwrap() > 0.5);
    assert!(coordinates["aligned_relative_sd"]["value"].as_f64().unwrap() < 1e-5);
    // From all ids of two tables.
    let found = report["measures"].as_array().unwrap().iter().find(|m| m["key"] == "cka");
    let cka = &found.unwrap()["estimate"];
    assert_eq!((&cka["n"], &cka["seeds"]), (&N.into(), &2.into()));
}

/// Against a third table, the table and its rotation give the same numbers: all but coordinates. The rows are stored
/// in f32, so values agree to a few of its units; neighbors at equal distance may swap.
#[test]
fn geometry_does_not_see_a_rotation() {
    let sandbox = sandbox();
    let [plain, turned] = ["a", "turned"]
        .map(|name| json(&sandbox, &format!("stability noise.parquet {name}.parquet")));
    for key in ["cka", "kernel_cka", "procrustes_residual", "gram_noise", "kernel_noise"] {
        let (plain, turned) = (measure(&plain, key), measure(&turned, key));
        assert!((plain - turned).abs() < 1e-5, "{key}: {plain} and {turned}");
    }
    let overlaps = [&plain, &turned].map(|report| measure(report, "nn_overlap"));
    assert!((overlaps[0] - overlaps[1]).abs() < 2e-3, "{overlaps:?}");
    let angle = |r: &Value| r["comparison"]["angles"]["largest_degrees"].as_f64().unwrap();
    assert!((angle(&plain) - angle(&turned)).abs() < 1e-2);
}

#[test]
fn noise_is_seen_in_coordinates_and_geometry() {
    let report = json(&sandbox(), "stability a.parquet noise.parquet");
    assert_eq!(level(&report, "coordinates"), "unstable");
    assert_eq!(level(&report, "neighbors"), "unstable");
    assert_ne!(level(&report, "geometry"), "stable");
}

#[test]
fn permuted_ids_are_found_out() {
    let report = json(&sandbox(), "stability a.parquet permuted.parquet");
    assert_eq!(level(&report, "geometry"), "unstable");
    let sentence = report["verdict"]["sentence"].as_str().unwrap();
    assert!(sentence.contains("the ids look permuted"), "{sentence}");
}

#[test]
fn equal_tables_are_safe_as_they_are() {
    let report = json(&sandbox(), "stability a.parquet a.parquet");
    assert_eq!(report["verdict"]["treatment"], "raw");
    assert_eq!(measure(&report, "nn_overlap"), 1.0);
}

#[test]
fn the_gate_has_exit_codes() {
    let sandbox = sandbox();
    let code =
        |flags: &str| sandbox.run(&format!("stability a.parquet turned.parquet {flags}")).code;
    assert_eq!(code("--min-cka 0.9 --min-nn-overlap 0.9 --min-shared-ids 1"), Some(0));
    assert_eq!(code("--max-procrustes-residual 0"), Some(1));
    let outcome =
        sandbox.run("stability a.parquet noise.parquet --min-cka 0.99 --markdown --quiet");
    assert_eq!(outcome.code, Some(1));
    assert!(outcome.stdout.lines().count() == 7, "{}", outcome.stdout);
    assert!(outcome.only_error().contains("1 of 1 limits not met (min-cka)"), "{outcome:?}");
    sandbox
        .put("budget.toml", "min-cka = 0.9\nmin-nn-overlap = 0.9\nmax-procrustes-residual = 1\n");
    assert_eq!(code("--budget budget.toml"), Some(0));
    // A flag overrides a limit of the file.
    assert_eq!(code("--budget budget.toml --max-procrustes-residual 0"), Some(1));
}

#[test]
fn a_markdown_summary_has_six_to_twelve_lines() {
    let sandbox = sandbox();
    let lines = |flags: &str| {
        let line = format!("stability a.parquet noise.parquet --quiet --markdown {flags}");
        sandbox.run(&line).stdout.lines().count()
    };
    assert_eq!(lines(""), 6);
    let all = "--min-cka 1 --min-kernel-cka 1 --min-nn-overlap 1 --max-procrustes-residual 0 --max-gram-noise 0 \
               --max-kernel-noise 0 --max-norm-change 0";
    assert_eq!(lines(all), 12);
    for (verb, help) in
        [("stability", sandbox.ok("stability --help")), ("refresh", sandbox.ok("refresh --help"))]
    {
        assert!(help.contains("Markdown summary of six to twelve lines"), "{verb}");
    }
}

/// Few probes leave an overlap of about two thirds undecided against a limit next to it.
#[test]
fn what_is_undecided_says_what_would_decide() {
    let sandbox = sandbox();
    veridical_io::write_table(&table(&noisy(&clusters(), 0.3, 5)), &sandbox.path("b.parquet"))
        .unwrap();
    let line = "stability a.parquet b.parquet --probes 30 --json";
    let overlap =
        measure(&json(&sandbox, "stability a.parquet b.parquet --probes 30"), "nn_overlap");
    let outcome = sandbox.run(&format!("{line} --min-nn-overlap {}", overlap - 0.01));
    assert_eq!(outcome.code, Some(1));
    let report: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(report["gates"][0]["outcome"], "undecided");
    assert!(report["gates"][0]["needed"].as_u64().unwrap() > 30);
    assert_eq!(report["passed"], false);
}

fn runs(sandbox: &Sandbox, count: u64) -> String {
    let name = |r: u64| format!("run-{r}.parquet");
    for r in 0..count {
        let rows = noisy(&clusters(), 0.1, 100 + r);
        // A point reflection, so that nothing learned by a model carries over.
        let reflected = || turned(&rows).iter().map(|x| -x).collect();
        let rows = if r % 2 == 0 { rows } else { reflected() };
        veridical_io::write_table(&table(&rows), &sandbox.path(name(r))).unwrap();
    }
    (0..count).map(name).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_budget_from_runs_lets_them_pass_and_stops_noise() {
    let sandbox = sandbox();
    let runs = runs(&sandbox, 5);
    sandbox.ok(&format!("stability budget {runs} --out budget.toml"));
    let text = sandbox.text("budget.toml");
    assert!(text.contains("5 runs on identical data") && text.contains("10 pairs"), "{text}");
    let code = |new: &str| {
        sandbox.run(&format!("stability run-0.parquet {new} --budget budget.toml")).code
    };
    assert_eq!(code("run-1.parquet"), Some(0));
    assert_eq!(code("noise.parquet"), Some(1));
    assert_eq!(code("permuted.parquet"), Some(1));
    let report = json(&sandbox, &format!("stability a.parquet noise.parquet --noise-floor {runs}"));
    let overlap = report["measures"].as_array().unwrap().iter().find(|m| m["key"] == "nn_overlap");
    assert_eq!(overlap.unwrap()["floor"]["pairs"], 10);
    assert_eq!(overlap.unwrap()["floor"]["runs"], 5);
}

#[test]
fn a_budget_from_one_pair_is_refused_and_says_how_to_make_more_runs() {
    let sandbox = sandbox();
    let more = "train more of them: `veridical train METHOD --seeds 10 --out RUNS` with the flags of the first, and \
                `veridical stability budget RUNS`";
    let needs = "a budget needs at least 3 runs on identical data, got";
    for (runs, found) in
        [("a.parquet turned.parquet", "2, which are one pair"), ("a.parquet", "one")]
    {
        let line = format!("stability budget {runs} --out budget.toml");
        sandbox.refuses(&line, &format!("{needs} {found}; {more}"));
        assert!(!sandbox.path("budget.toml").exists());
    }
    let three = runs(&sandbox, 3);
    assert!(sandbox.ok(&format!("stability budget {three}")).contains("3 pairs"));
}

#[test]
fn models_with_labels_show_what_alignment_repairs() {
    let sandbox = sandbox();
    let runs = runs(&sandbox, 5);
    let line = format!("stability {runs} --labels labels.csv --multiples 2 --max-metric-sd 0.5");
    let report = json(&sandbox, &line);
    let treatments = report["downstream"]["treatments"].as_array().unwrap();
    let of = |name: &str, field: &str| {
        let found = treatments.iter().find(|t| t["treatment"] == name).unwrap();
        found[field]["mean"]["value"].as_f64().unwrap()
    };
    assert!(of("raw", "accuracy") > 0.95);
    assert!(of("aligned", "unretrained") > 0.95 && of("raw", "unretrained") < 0.9);
    assert_eq!(report["downstream"]["recommendation"]["retrained"], "raw");
    assert_eq!(report["target_alignment"].as_array().unwrap().len(), 5);
    assert_eq!(report["passed"], true);
}

#[test]
fn consumers_get_a_verdict_each() {
    let sandbox = sandbox();
    sandbox.put(
        "consumers.toml",
        "[[consumer]]\nname = \"kept\"\ntable = \"turned.parquet\"\n\
         [[consumer]]\nname = \"turned\"\ntable = \"a.parquet\"\nlabels = \"labels.csv\"\n\
         [[consumer]]\nname = \"lost\"\ntable = \"permuted.parquet\"\n",
    );
    let report = json(&sandbox, "stability a.parquet turned.parquet --consumers consumers.toml");
    let consumers = report["consumers"].as_array().unwrap();
    let verdict = |at: usize| consumers[at]["verdict"].as_str().unwrap();
    assert_eq!((verdict(0), verdict(1)), ("safe", "safe"));
    assert_eq!(consumers[0]["reason"], "with today's raw vectors");
    assert_eq!(consumers[1]["reason"], "with aligned vectors");
    assert_ne!(verdict(2), "safe");
}

#[test]
fn weights_decide_what_is_probed_and_shown_first() {
    let sandbox = sandbox();
    let weights: String =
        (0..N).map(|i| format!("{i},{}\n", if i < 30 { 1000 } else { 1 })).collect();
    sandbox.put("weights.csv", format!("id,weight\n{weights}"));
    let line = "stability a.parquet noise.parquet --weights weights.csv --probes 40";
    let report = json(&sandbox, line);
    assert_eq!(report["comparison"]["deciles"].as_array().unwrap().len(), 10);
    assert!(report["comparison"]["deciles"][0]["probes"].as_u64().unwrap() >= 25);
    assert_eq!(report["changed"][0]["weight"], 1000.0);
}

#[test]
fn pages_and_gauges_are_written_whole() {
    let sandbox = sandbox();
    sandbox.ok(
        "stability a.parquet turned.parquet --html r.html --prometheus=gauges.prom --min-cka 0.5",
    );
    let page = sandbox.text("r.html");
    assert!(page.starts_with("<!doctype html>") && page.len() < 3_000_000);
    assert!(page.contains("veridical stability a.parquet turned.parquet"));
    let gauges = sandbox.text("gauges.prom");
    let labels = "table=\"turned.parquet\",reference=\"a.parquet\"";
    let kept = format!("\nveridical_stability_limit_kept{{limit=\"min-cka\",{labels}}} 1\n");
    assert!(gauges.starts_with("# veridical ") && gauges.contains(&kept), "{gauges}");
    assert!(gauges.contains(&format!("\nveridical_stability_cka_lower{{{labels}}} ")), "{gauges}");
}

#[test]
fn threads_change_nothing() {
    let sandbox = sandbox();
    let runs = runs(&sandbox, 3);
    let line = format!("stability {runs} --labels labels.csv --multiples 2 --json --threads");
    let one = sandbox.ok(&format!("{line} 1"));
    assert_eq!(one, sandbox.ok(&format!("{line} 2")));
    assert_eq!(one, sandbox.ok(&format!("{line} 3")));
}

#[test]
fn tables_of_other_widths_have_a_geometry_in_common() {
    let sandbox = sandbox();
    let rows: Vec<f64> =
        clusters().chunks_exact(DIM).flat_map(|row| [row, &[0.0, 0.0]].concat()).collect();
    let wide =
        VectorTable { dim: DIM + 2, vectors: rows.iter().map(|&x| x as f32).collect(), ids: ids() };
    veridical_io::write_table(&wide, &sandbox.path("wide.parquet")).unwrap();
    let report = json(&sandbox, "stability a.parquet wide.parquet");
    assert!(measure(&report, "cka") > 0.999);
    assert!(report["comparison"]["coordinates"].is_null());
    assert!(sandbox.ok("stability a.parquet wide.parquet").contains("undefined"));
}

#[test]
fn bad_input_is_named() {
    let sandbox = sandbox();
    let outcome: Outcome = sandbox.run("stability a.parquet --quiet");
    assert_eq!(outcome.code, Some(2));
    assert_eq!(
        outcome.only_error(),
        "a comparison needs at least two tables or runs, got only a.parquet"
    );
    let other = Ids::Int((1000..1000 + N as i64).collect::<Vec<_>>().into());
    let strange = VectorTable { ids: other, ..table(&clusters()) };
    veridical_io::write_table(&strange, &sandbox.path("strange.parquet")).unwrap();
    sandbox.refuses(
        "stability a.parquet strange.parquet",
        "a.parquet and strange.parquet have no id in common; are they tables of the same things?",
    );
    let few = Ids::Int((N as i64 - 20..2 * N as i64 - 20).collect::<Vec<_>>().into());
    veridical_io::write_table(
        &VectorTable { ids: few, ..table(&clusters()) },
        &sandbox.path("few.parquet"),
    )
    .unwrap();
    sandbox.refuses(
        "stability a.parquet few.parquet",
        "a.parquet and few.parquet share only 20 ids; a comparison needs at least 50",
    );
    let twice = Ids::Int((0..N as i64).map(|i| i / 2).collect::<Vec<_>>().into());
    veridical_io::write_table(
        &VectorTable { ids: twice, ..table(&clusters()) },
        &sandbox.path("twice.parquet"),
    )
    .unwrap();
    sandbox.refuses(
        "stability a.parquet twice.parquet",
        "twice.parquet: the id 0 occurs twice, in rows 0 and 1; drop one of them, or pass --on-duplicate-id \
         first or --on-duplicate-id mean",
    );
    veridical_io::write_table(&table(&vec![1.0; N * DIM]), &sandbox.path("constant.parquet"))
        .unwrap();
    sandbox.refuses_like("stability a.parquet constant.parquet", |error| {
        assert!(error.starts_with("constant.parquet: all vectors are equal"), "{error}");
    });
    sandbox.put("nan.csv", "id,a,b\n1,0.5,nan\n2,0.5,1\n");
    sandbox.refuses_like("stability a.parquet nan.csv", |error| {
        assert!(error.starts_with("nan.csv"), "{error}");
    });
    sandbox.put(
        "one.csv",
        format!("id,class\n{}", (0..N).map(|i| format!("{i},x\n")).collect::<String>()),
    );
    sandbox.refuses(
        "stability a.parquet turned.parquet --labels one.csv",
        "one.csv: the ids have a single class; labels need at least two classes",
    );
    sandbox.put(
        "rare.csv",
        "id,class\n0,rare\n1,rare\n".to_owned()
            + &(2..N).map(|i| format!("{i},{}\n", i % 2)).collect::<String>(),
    );
    sandbox.refuses_like("stability a.parquet turned.parquet --labels rare.csv", |error| {
        assert!(error.contains("`rare` have fewer ids than the 5 folds"), "{error}");
        assert!(error.contains("--drop-rare-classes"), "{error}");
    });
    sandbox.ok("featurize new --input-dim 5 --out spec.json");
    sandbox.refuses_like("stability a.parquet turned.parquet --spec spec.json", |error| {
        assert!(
            error.starts_with("--spec is for vectors of dimension 5, a.parquet has dimension 8"),
            "{error}"
        );
    });
    sandbox.put("budget.toml", "min-ckaa = 0.9\n");
    sandbox.refuses(
        "stability a.parquet turned.parquet --budget budget.toml",
        "budget.toml: there is no limit `min-ckaa`; did you mean `min-cka`?",
    );
    sandbox.put("budget.toml", "max-latency = 0.9\n");
    sandbox.refuses_like("stability a.parquet turned.parquet --budget budget.toml", |error| {
        let start =
            "budget.toml: there is no limit `max-latency`; there are min-shared-ids, max-new-ids, ";
        assert!(error.starts_with(start), "{error}");
    });
    sandbox.put("budget.toml", "min-cka = 2\n");
    sandbox.refuses(
        "stability a.parquet turned.parquet --budget budget.toml",
        "budget.toml: `min-cka` must be a number from -1 to 1, got 2",
    );
    sandbox.refuses(
        "stability a.parquet turned.parquet --min-cka 2",
        "--min-cka must be a number from -1 to 1, got 2",
    );
    sandbox.refuses_like(
        "stability a.parquet turned.parquet --max-metric-sd 0.1 --labels labels.csv",
        |error| {
            assert!(error.starts_with("max-metric-sd needs at least 5 runs, got 2"), "{error}");
        },
    );
    sandbox.refuses_like("stability a.parquet turned.parquet --min-metric 0.1", |error| {
        assert!(error.starts_with("min-metric needs --labels"), "{error}");
    });
    sandbox.put("consumers.toml", "[[consumer]]\nname = \"x\"\ntabel = \"a.parquet\"\n");
    sandbox.refuses_like(
        "stability a.parquet turned.parquet --consumers consumers.toml",
        |error| {
            assert!(error.starts_with("consumers.toml: line 3:"), "{error}");
        },
    );
}

/// Labels that have nothing to do with the vectors decide nothing, and a limit on what they measure is refused.
#[test]
fn labels_at_chance_decide_nothing_and_have_no_limit() {
    let sandbox = sandbox();
    let labels = (0..N).map(|i| format!("{i},{}\n", ["rare", "usual"][usize::from(i % 7 > 0)]));
    sandbox.put("chance.csv", format!("id,class\n{}", labels.collect::<String>()));
    let line = "stability a.parquet turned.parquet --labels chance.csv";
    let report = json(&sandbox, line);
    let notes = report["verdict"]["notes"].to_string();
    assert!(notes.contains("the labels decide nothing"), "{notes}");
    assert_eq!(report["verdict"]["treatment"], "aligned");
    sandbox.refuses(
        &format!("{line} --min-metric 0.3"),
        "min-metric cannot be measured: no classifier on these labels beats the most frequent class; check that the \
         labels belong to these ids, or remove the limit",
    );
}

/// What does not fit into `--memory` goes to `--scratch`; with no room there, nothing is left and the remedy is named.
#[test]
fn a_full_scratch_disk_and_too_little_memory_say_what_helps() {
    let sandbox = Sandbox::new();
    let a = generate::clusters(80_000, 128, 10, Seed::new(0).unwrap());
    let last_first: Vec<u32> = (0..80_000).rev().collect();
    let vectors = a.vectors.chunks(128).rev().flatten().copied().collect();
    let b = VectorTable { ids: a.ids.take(&last_first), dim: 128, vectors };
    veridical_io::write_table(&a, &sandbox.path("a.parquet")).unwrap();
    veridical_io::write_table(&b, &sandbox.path("b.parquet")).unwrap();
    let line = "stability a.parquet b.parquet --quiet --scratch scratch --memory 512";
    let outcome = sandbox.shell(&format!("trap '' XFSZ; ulimit -f 1000; veridical {line}"));
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(2), ""), "{outcome:?}");
    let error = outcome.only_error();
    assert!(error.starts_with("scratch/veridical-scratch-"), "{error}");
    let remedy = "cannot keep rows here: File too large (os error 27); pass a folder with enough space as --scratch";
    assert!(error.ends_with(remedy), "{error}");
    assert_eq!(std::fs::read_dir(sandbox.path("scratch")).unwrap().count(), 0);
    sandbox.refuses_like("stability a.parquet b.parquet --memory 64", |error| {
        assert!(error.starts_with("--memory must be at least "), "{error}");
        assert!(
            error.ends_with(" MB for tables of 80000 ids and dimension 128, got 68 MB"),
            "{error}"
        );
    });
}
