//! The demo, experiments, help, stdout and stderr.

use super::*;

#[test]
fn the_demo_runs_once_and_again_only_by_force() {
    let sandbox = Sandbox::new();
    let demo = json(&sandbox, "demo", "demo --out demo");
    let files = [
        "shop/interactions.csv",
        "shop/items.csv",
        "runs",
        "monday.parquet",
        "tuesday.parquet",
        "broken.parquet",
        "spec.json",
        "budget.toml",
        "stability.html",
        "live",
    ];
    let files: Vec<String> = files.map(|name| format!("demo/{name}")).to_vec();
    assert_eq!(demo["files"], serde_json::json!(files));
    assert!(files.iter().all(|file| sandbox.has(file)));
    let number = |field: &str| demo[field]["value"].as_f64().unwrap();
    assert!(demo["coordinate_sd"][0]["value"].as_f64().unwrap() > 0.8);
    assert!(demo["coordinate_sd"][1]["value"].as_f64().unwrap() < 0.3);
    assert!(number("gram_noise") < 0.3 && number("cka") > 0.9);
    let model = |name: &str| {
        let models = demo["models"].as_array().unwrap();
        let found = models.iter().find(|m| m["treatment"] == name).unwrap();
        ["retrained", "unretrained"].map(|field| found[field]["value"].as_f64().unwrap())
    };
    assert!(model("raw")[0] > 0.9 && model("raw")[1] < 0.5, "{:?}", model("raw"));
    assert!(model("aligned")[1] > 0.9);
    // The features that are shown are those of the spec that is written.
    let spec: Value = serde_json::from_str(&sandbox.text("demo/spec.json")).unwrap();
    assert_eq!(demo["output_dim"], spec["output_dim"]);
    let phi = format!("phi orthogonal D={}", spec["output_dim"]);
    assert!(model(&phi)[0] > 0.9 && model(&format!("align-then-{phi}"))[1] > 0.9);
    assert_eq!(demo["tuesday"]["published"], true);
    assert_eq!(demo["broken"]["published"], false);
    assert_eq!(demo["tuesday"]["out"], "demo/live/2026-01-06");
    assert!(sandbox.has("demo/live/current/_SUCCESS"));
    assert!(sandbox.has("demo/live/2026-01-07.rejected/report.html"));

    let without_logs = || {
        let mut files = sandbox.below("demo");
        files.retain(|path, _| path.file_name().is_none_or(|name| name != "log.jsonl"));
        files
    };
    let before = without_logs();
    sandbox.refuses(
        "demo --out demo",
        "demo is not empty; choose another folder with --out, or write into it with --force",
    );
    let text = sandbox.ok("demo --out demo --force");
    assert!(text.starts_with("wrote\n  demo/shop/interactions.csv\n"), "{text}");
    assert!(text.contains("the geometry stays"), "{text}");
    assert!(text.contains(&format!("\n  phi, D = {} ", spec["output_dim"])), "{text}");
    assert!(text.contains("\n  align, then phi "), "{text}");
    assert!(without_logs() == before, "the demo is the same every time");
}

#[test]
fn the_commands_that_help_and_the_demo_suggest_work() {
    let sandbox = Sandbox::new();
    sandbox.ok("demo --out demo");
    for line in [
        "featurize apply demo/monday.parquet phi.parquet",
        "vectors stats phi.parquet",
        "featurize apply --spec demo/spec.json demo/monday.parquet phi2.parquet",
        "featurize new --input-dim 128 --output-dim 512 --seed 7 --out spec.json",
        "featurize new --data demo/monday.parquet --length-scale median --out spec2.json",
        "featurize new --input-dim 64 --gamma 0.5 --directions iid --normalize none --out spec3.json",
        "vectors head demo/monday.parquet --rows 3",
        "vectors convert demo/monday.parquet items-f16.safetensors --dtype f16",
        "reproduce show 000-kernel-error",
        "stability demo/monday.parquet demo/tuesday.parquet --budget demo/budget.toml",
        "align --reference demo/monday.parquet demo/tuesday.parquet --out aligned.parquet",
    ] {
        sandbox.ok(line);
    }
}

#[test]
fn experiments_are_listed_shown_and_run() {
    let sandbox = Sandbox::new();
    let list = json(&sandbox, "reproduce", "reproduce list");
    assert_eq!(list["experiments"][0]["id"], "000-kernel-error");
    assert!(sandbox.ok("reproduce list").starts_with("000-kernel-error\n    "));

    let show = json(&sandbox, "reproduce", "reproduce show 000-kernel-error");
    assert!(show["config"].as_str().unwrap().contains("quick_seeds"));
    for field in ["id", "claim", "rule"] {
        let value = show["experiment"][field].as_str().unwrap();
        assert!(sandbox.ok("reproduce show 000-kernel-error").contains(value), "{field}");
    }

    let run = json(&sandbox, "reproduce", "reproduce run 000-kernel-error --quick --out r.json");
    assert_eq!(run["verdict"], "replicated");
    assert_eq!(run["quick"], true);
    assert_eq!(run["rows"].as_array().unwrap().len(), 16);
    let mut saved: Value = serde_json::from_str(&sandbox.text("r.json")).unwrap();
    saved["schema"] = run["schema"].clone(); // the file is the result alone
    assert_eq!(saved, run);
    let text = sandbox.ok("reproduce run 000-kernel-error --quick --threads 1");
    assert!(text.starts_with("000-kernel-error: replicated\n\n"), "{text}");
    assert_eq!(text.matches(" holds\n").count(), 16);
}

#[test]
fn every_verb_has_a_page_of_help() {
    let sandbox = Sandbox::new();
    for (verb, has_examples) in [
        ("", true),
        ("featurize", false),
        ("featurize new", true),
        ("featurize apply", true),
        ("featurize describe", false),
        ("featurize plan", true),
        ("featurize check", true),
        ("featurize export", true),
        ("vectors", true),
        ("vectors head", false),
        ("vectors stats", false),
        ("vectors convert", false),
        ("stability", true),
        ("stability budget", false),
        ("refresh", true),
        ("demo", false),
        ("reproduce", true),
        ("reproduce list", false),
        ("reproduce show", false),
        ("reproduce run", false),
        ("completions", true),
        ("man", true),
    ] {
        for flag in ["--help", "-h"] {
            let outcome = sandbox.run(&format!("{verb} {flag}"));
            assert_eq!((outcome.code, &*outcome.stderr), (Some(0), ""), "{verb}");
            let usage = format!("Usage: veridical {verb}");
            assert!(outcome.stdout.contains(usage.trim_end()), "{verb}\n{}", outcome.stdout);
            assert!(outcome.stdout.contains("Examples:") || !has_examples, "{verb}");
        }
    }
    let page = sandbox.ok("--help");
    for word in [
        "Train:",
        "Measure:",
        "Stabilize:",
        "Tools:",
        "train",
        "featurize",
        "vectors",
        "demo",
        "reproduce",
        "Exit codes",
    ] {
        assert!(page.contains(word), "{word}");
    }
    assert_eq!(sandbox.ok("--version"), concat!("veridical ", env!("CARGO_PKG_VERSION"), "\n"));
}

/// Every example under "Examples" must parse, even if its files do not exist, and must not be broken
/// into two lines but as a shell reads them.
#[test]
fn every_example_of_the_help_is_a_valid_command() {
    let sandbox = Sandbox::new();
    for verb in [
        "",
        "featurize new",
        "featurize apply",
        "featurize plan",
        "featurize check",
        "featurize export",
        "align",
        "train",
        "tune",
        "evaluate",
        "recommend",
        "similar",
        "predict",
        "train text",
        "data",
        "vectors",
        "stability",
        "refresh",
        "reproduce",
        "completions",
        "man",
    ] {
        let page = sandbox.ok(&format!("{verb} --help")).replace("\\\n", "");
        let examples: Vec<&str> = page
            .lines()
            .filter_map(|line| line.trim().split_once("veridical "))
            .map(|(_, rest)| rest)
            .collect();
        assert!(!examples.is_empty(), "{verb}");
        // All experiments would take hours.
        let is_example = |line: &&&str| {
            !["VERB", "METHOD", "COMMAND", "--all"].iter().any(|word| line.contains(word))
                && !line.contains('[')
        };
        for example in examples.iter().filter(is_example) {
            let line = example.split(['>', '|']).next().unwrap();
            let outcome = sandbox.run(&format!("{line} --quiet"));
            let understood =
                outcome.code == Some(0) || outcome.stderr.starts_with("veridical: error: ");
            assert!(understood, "{example}\n{outcome:?}");
        }
    }
}

#[test]
fn results_go_to_stdout_and_all_else_to_stderr() {
    let sandbox = sandbox();
    let outcome = sandbox.run("featurize apply t.parquet phi.parquet --json");
    serde_json::from_str::<Value>(&outcome.stdout).unwrap();
    assert_eq!(outcome.stderr, "veridical: vectors from column `vector`, ids from column `id`\n");
    let outcome = sandbox.run("featurize apply t.parquet phi2.parquet");
    let mut lines = outcome.stdout.lines();
    assert_eq!(lines.next(), Some("200 rows, 5 -> 20, written to phi2.parquet"));
    assert!(lines.next().unwrap().starts_with("spec "));
    assert!(
        lines
            .next()
            .unwrap()
            .starts_with("spec written to phi2.spec.json: gaussian, length scale ")
    );
}
