//! `featurize plan` and `featurize check`: measurements, printed text and errors.

use serde_json::Value;
use veridical::features::{FeatureMap, FeatureSpec, Kernel, Normalize};
use veridical_core::Rows;

use crate::common::*;

/// 2,000 rows of dimension 5 as `t.parquet`.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.put_table("t.parquet", &named_rows(2000, 5));
    sandbox.put("spec.json", FeatureSpec::params(5, 20).build().unwrap().to_json());
    sandbox
}

/// Two rows, hence one pair.
const TWO: [f32; 4] = [1.0, 0.5, -0.25, 2.0];

fn two_rows() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.put("two.csv", "id,a,b\n1,1,0.5\n2,-0.25,2\n");
    sandbox
}

/// |<phi(x), phi(y)> - k(x, y)| of the two rows.
fn error_of_two(spec: &FeatureSpec) -> f64 {
    let phi = FeatureMap::new(spec).unwrap().transform(Rows::new(&TWO, 2).unwrap()).unwrap();
    let (x, y) = phi.split_at(spec.output_dim());
    let estimate: f64 = x.iter().zip(y).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum();
    let rows = spec.normalize().rows(Rows::new(&TWO, 2).unwrap()).unwrap();
    (estimate - spec.kernel().value(&rows[..2], &rows[2..], spec.length_scale())).abs()
}

fn plan(sandbox: &Sandbox, flags: &str) -> Value {
    let plan = json(sandbox, "featurize", &format!("featurize plan {flags}"));
    plan.clone()
}

/// The answer of one method.
fn answer<'a>(plan: &'a Value, method: &str) -> &'a Value {
    plan["answers"].as_array().unwrap().iter().find(|a| a["method"] == method).unwrap()
}

#[track_caller]
fn assert_close(got: &Value, want: f64, tolerance: f64) {
    let got = got.as_f64().unwrap();
    assert!((got - want).abs() <= tolerance * want.abs(), "got {got}, want {want}");
}

/// The normal quantile at 0.995.
const Z: f64 = 2.575_829_303_548_901;

/// m of the uniform bound for unit rows at confidence 0.99, with sigma^2 = E|u|^2.
fn uniform_directions(d: f64, second_moment: f64, epsilon: f64) -> f64 {
    let squared = epsilon * epsilon;
    4.0 * (d + 2.0) / squared * (256.0 * second_moment * 4.0 / squared / 0.01).ln()
}

// plan

#[test]
fn plan_without_data_answers_from_theory() {
    let sandbox = Sandbox::new();
    let plan = plan(&sandbox, "--input-dim 128 --epsilon 0.05");
    let methods: Vec<&Value> =
        plan["answers"].as_array().unwrap().iter().map(|a| &a["method"]).collect();
    assert_eq!(methods, ["uniform", "pair", "measured-mean", "measured-quantile", "alignment"]);
    for (field, value) in [
        ("input_dim", Value::from(128)),
        ("kernel", "gaussian".into()),
        ("length_scale", 1.0.into()),
        ("directions", "orthogonal".into()),
        ("normalize", "unit".into()),
        ("seed", 0.into()),
        ("confidence", 0.99.into()),
        ("recommended_output_dim", Value::Null),
        ("n_pairs", Value::Null),
        ("n_rows", Value::Null),
        ("measured", serde_json::json!([])),
    ] {
        assert_eq!(plan[field], value, "{field}");
    }
    for (method, m, label) in [
        ("uniform", uniform_directions(128.0, 128.0, 0.05).ceil(), "worst case, not for sizing"),
        ("pair", (Z * Z / (2.0 * 0.05 * 0.05)).ceil(), "normal approximation"),
    ] {
        let answer = answer(&plan, method);
        assert_eq!((&answer["directions"], &answer["epsilon"]), (&(m as u64).into(), &0.05.into()));
        assert_eq!(answer["output_dim"], 2 * m as u64, "{method}");
        assert_eq!(answer["bytes_per_row"], 8 * m as u64, "{method}");
        assert_close(&answer["gb_per_100m_rows"], 0.8 * m, 1e-12);
        assert_eq!((&answer["label"], &answer["why_not"]), (&label.into(), &Value::Null));
    }
    assert_eq!(answer(&plan, "alignment")["label"], "order only");
    for method in ["measured-mean", "measured-quantile"] {
        let answer = answer(&plan, method);
        assert_eq!(answer["why_not"], "pass --data FILE to measure it");
        assert!(answer["output_dim"].is_null() && answer["bytes_per_row"].is_null());
    }
    assert_eq!(answer(&plan, "measured-quantile")["label"], "recommended");
}

/// The inverse of the formula is found to the resolution of its rounding up to whole directions.
#[test]
fn plan_for_a_width_answers_with_its_error() {
    let sandbox = Sandbox::new();
    let plan = plan(&sandbox, "--input-dim 16 --output-dim 512 --length-scale 2");
    let epsilon = answer(&plan, "uniform")["epsilon"].as_f64().unwrap();
    let m = uniform_directions(16.0, 16.0 / 4.0, epsilon);
    assert!((255.0 - 1e-6..=256.0 + 1e-6).contains(&m), "{m}");
    assert_close(&answer(&plan, "pair")["epsilon"], Z / 512f64.sqrt(), 1e-12);
    for method in ["uniform", "pair", "alignment"] {
        assert_eq!(answer(&plan, method)["output_dim"], 512, "{method}");
    }
    assert_eq!(plan["recommended_output_dim"], Value::Null);
}

#[test]
fn kernels_whose_directions_have_no_second_moment_have_no_bound() {
    let sandbox = Sandbox::new();
    for kernel in ["laplace", "matern-1/2"] {
        let flags = format!("--input-dim 8 --kernel {kernel}");
        let why = format!("no bound: the directions of {kernel} have an infinite second moment");
        for goal in ["--epsilon 0.1", "--output-dim 64"] {
            let plan = plan(&sandbox, &format!("{flags} {goal}"));
            for method in ["uniform", "alignment"] {
                let answer = answer(&plan, method);
                assert_eq!(answer["why_not"], why, "{kernel}");
                assert!(answer["output_dim"].is_null() && answer["epsilon"].is_null());
            }
            assert!(answer(&plan, "pair")["why_not"].is_null(), "{kernel}");
        }
        let text = sandbox.ok(&format!("featurize plan {flags} --epsilon 0.1"));
        assert_eq!(text.matches(&why).count(), 2, "{text}");
    }
    // E|u|^2 of the others, with l = 1.
    for (kernel, second_moment) in [
        ("--kernel cauchy", 16.0),
        ("--kernel matern-3/2", 24.0),
        ("--kernel matern-5/2", 40.0 / 3.0),
        ("--mixture 0.5:1,1:1", 8.0 * (4.0 + 1.0) / 2.0),
    ] {
        let plan = plan(&sandbox, &format!("--input-dim 8 {kernel} --epsilon 0.1"));
        let m = uniform_directions(8.0, second_moment, 0.1).ceil();
        assert_eq!(answer(&plan, "uniform")["directions"], m, "{kernel}");
    }
}

#[test]
fn rows_of_any_length_need_data_for_a_bound_on_every_pair() {
    let sandbox = sandbox();
    let flags = "--epsilon 0.1 --normalize none --length-scale 2";
    let without = plan(&sandbox, &format!("--input-dim 5 {flags}"));
    let why = "needs the diameter of the rows: pass --data FILE";
    assert_eq!(answer(&without, "uniform")["why_not"], why);
    let with = plan(&sandbox, &format!("--data t.parquet {flags}"));
    assert!(answer(&with, "uniform")["directions"].as_f64().unwrap() > 0.0);
}

#[test]
fn plan_measures_the_pair_of_a_table_of_two_rows() {
    let sandbox = two_rows();
    for (family, kernel) in [("orthogonal", "gaussian"), ("hadamard", "matern-3/2")] {
        let map = format!("--length-scale 0.75 --directions {family} --kernel {kernel} --seed 3");
        let plan = plan(&sandbox, &format!("--data two.csv --output-dim 8 {map}"));
        assert_eq!((&plan["n_pairs"], &plan["n_rows"]), (&1.into(), &2.into()));
        sandbox
            .ok(&format!("featurize new --input-dim 2 --output-dim 8 {map} --out s.json --force"));
        let spec = FeatureSpec::from_json(&sandbox.text("s.json")).unwrap();
        let measured = plan["measured"].as_array().unwrap();
        assert_eq!(measured.len(), 4);
        for (point, width) in measured.iter().zip([2, 4, 6, 8]) {
            assert_eq!(point["output_dim"], width);
            // The scales of a spec and its prefix are rounded to f32.
            let want = error_of_two(&spec.prefix(width).unwrap());
            assert!((point["mean"].as_f64().unwrap() - want).abs() < 1e-6, "{family} {width}");
            assert_eq!(point["quantile_95"], point["mean"]);
            assert!(point["quantile_95_bound"].is_null() && point["mean_bound"].is_null());
        }
    }
}

/// Tested from the largest down, stopping at the first that fails.
#[test]
fn the_recommended_width_is_the_last_that_holds() {
    let sandbox = sandbox();
    let epsilon = 0.1;
    let plan = plan(&sandbox, &format!("--data t.parquet --epsilon {epsilon}"));
    assert_eq!((&plan["n_pairs"], &plan["n_rows"]), (&1000.into(), &2000.into()));
    let measured = plan["measured"].as_array().unwrap();
    assert_eq!(measured.last().unwrap()["output_dim"], 16_384);
    for point in measured {
        let number = |field: &str| point[field].as_f64().unwrap();
        assert!(number("mean") < number("mean_bound"));
        assert!(number("quantile_95") <= number("quantile_95_bound"));
    }
    let holds = |point: &&Value| point["quantile_95_bound"].as_f64().unwrap() <= epsilon;
    let last = measured.iter().rev().take_while(holds).last().unwrap();
    let recommended = &plan["recommended_output_dim"];
    assert_eq!(*recommended, last["output_dim"]);
    let width = recommended.as_u64().unwrap();
    assert!((4..16_384).contains(&width), "{width}");
    assert_eq!(answer(&plan, "measured-quantile")["output_dim"], width as f64);
    assert_eq!(answer(&plan, "measured-quantile")["epsilon"], epsilon);

    let text = sandbox.ok(&format!("featurize plan --data t.parquet --epsilon {epsilon}"));
    let end = format!(
        "\nrecommended: D = {width}; 95 % of the pairs in your data have an error of at most {epsilon}\n"
    );
    assert!(text.ends_with(&end), "{text}");
    assert!(text.contains("\nmeasured on 1000 disjoint random pairs of 2000 rows\n"), "{text}");
    assert!(!text.lines().any(|line| line.ends_with(' ')), "{text}");
}

#[test]
fn plan_on_data_for_a_width_gives_the_bounds_of_that_width() {
    let sandbox = sandbox();
    let plan = plan(&sandbox, "--data t.parquet --output-dim 100 --directions halton");
    assert_eq!(plan["directions"], "halton");
    let last = plan["measured"].as_array().unwrap().last().unwrap();
    assert_eq!((&plan["recommended_output_dim"], &last["output_dim"]), (&100.into(), &100.into()));
    assert_eq!(answer(&plan, "measured-mean")["epsilon"], last["mean_bound"]);
    assert_eq!(answer(&plan, "measured-quantile")["epsilon"], last["quantile_95_bound"]);
    let text = sandbox.ok("featurize plan --data t.parquet --output-dim 100 --directions halton");
    let line = |label: &str| text.lines().find(|line| line.contains(label)).unwrap();
    assert!(line("recommended").contains(" 400 bytes      40.0 GB  recommended "), "{text}");
}

#[test]
fn a_width_that_is_not_reached_names_the_flag() {
    let sandbox = sandbox();
    let flags = "--data t.parquet --epsilon 0.05 --max-output-dim 64";
    let plan = plan(&sandbox, flags);
    assert!(plan["recommended_output_dim"].is_null());
    let last = plan["measured"].as_array().unwrap().last().unwrap();
    assert_eq!(last["output_dim"], 64);
    for (method, bound) in
        [("measured-mean", "mean_bound"), ("measured-quantile", "quantile_95_bound")]
    {
        let why = format!(
            "not reached: {:.4} at D = 64; raise --max-output-dim or --epsilon",
            last[bound].as_f64().unwrap()
        );
        assert_eq!(answer(&plan, method)["why_not"], why);
        assert!(answer(&plan, method)["output_dim"].is_null());
    }
    let text = sandbox.ok(&format!("featurize plan {flags}"));
    assert_eq!(text.matches("raise --max-output-dim or --epsilon").count(), 2, "{text}");
    assert!(!text.contains("\nrecommended:"), "{text}");
}

/// 0.95^n > 0.01 below n = 90, and 14 ln(200) / (3 (n - 1)) > 0.05 below n = 496.
#[test]
fn too_few_pairs_are_called_that() {
    let sandbox = Sandbox::new();
    sandbox.put_table("few.parquet", &named_rows(178, 3));
    sandbox.put_table("enough.parquet", &named_rows(181, 3));
    let few = plan(&sandbox, "--data few.parquet --epsilon 0.05 --max-output-dim 64");
    assert_eq!(
        answer(&few, "measured-quantile")["why_not"],
        "89 pairs are too few to bound the 95 % quantile with confidence 0.99"
    );
    let mean =
        |n| format!("{n} pairs are too few to bound the mean within 0.05 with confidence 0.99");
    assert_eq!(answer(&few, "measured-mean")["why_not"], mean(89));
    let enough = plan(&sandbox, "--data enough.parquet --epsilon 0.05 --max-output-dim 4096");
    assert_eq!(enough["n_pairs"], 90); // the last row of 181 has no partner
    assert!(answer(&enough, "measured-quantile")["why_not"].is_null());
    assert_eq!(answer(&enough, "measured-mean")["why_not"], mean(90));

    let two = two_rows();
    let pair = plan(&two, "--data two.csv --output-dim 8");
    assert_eq!(
        answer(&pair, "measured-mean")["why_not"],
        "1 pairs are too few to bound the mean with confidence 0.99"
    );
}

#[test]
fn a_goal_or_a_confidence_out_of_range_is_refused() {
    let sandbox = Sandbox::new();
    for (given, shown) in [("0", "0"), ("-0.1", "-0.1"), ("2", "2"), ("1e-9", "0.000000001")] {
        sandbox.refuses(
            &format!("featurize plan --input-dim 3 --epsilon {given}"),
            &format!(
                "--epsilon must be at least 1e-6 (phi is f32) and below 2 (kernel values and their \
                 estimates are between -1 and 1), got {shown}"
            ),
        );
    }
    for (given, shown) in [
        ("0", "0"),
        ("1", "1"),
        ("-1", "-1"),
        ("99", "99"),
        ("0.9999999999999999", "0.9999999999999999"),
    ] {
        for goal in ["--epsilon 0.1", "--output-dim 64"] {
            sandbox.refuses(
                &format!("featurize plan --input-dim 3 {goal} --confidence {given}"),
                &format!("--confidence must be above 0 and at most 1 - 1e-12, got {shown}"),
            );
        }
    }
    for given in ["nan", "inf", "much"] {
        sandbox.refuses(
            &format!("featurize plan --input-dim 3 --epsilon {given}"),
            &format!("--epsilon must be a number, got {given}"),
        );
    }
    for confidence in ["0.999999999999", "1e-12"] {
        sandbox
            .ok(&format!("featurize plan --input-dim 3 --epsilon 1e-6 --confidence {confidence}"));
    }
}

#[test]
fn a_width_out_of_range_is_refused_by_the_name_of_its_flag() {
    let sandbox = Sandbox::new();
    let even = "even and at least 2 (a cosine and a sine for each direction), got";
    for d in [0, 7] {
        sandbox.refuses(
            &format!("featurize plan --input-dim 3 --output-dim {d}"),
            &format!("output_dim must be {even} {d}"),
        );
        sandbox.refuses(
            &format!("featurize plan --input-dim 3 --epsilon 0.1 --max-output-dim {d}"),
            &format!("--max-output-dim must be {even} {d}"),
        );
    }
    sandbox.refuses(
        "featurize plan --input-dim 1048576 --epsilon 0.1",
        "--max-output-dim must be at most 16777216, with input_dim x output_dim / 2 at most 2^31, got \
         16384 with input_dim 1048576",
    );
}

#[test]
fn plan_needs_exactly_one_goal_and_a_dimension() {
    let sandbox = sandbox();
    for (flags, why) in [
        (
            "--input-dim 3",
            "pass a target error with --epsilon E, or a dimension with --output-dim D",
        ),
        ("--input-dim 3 --epsilon 0.1 --output-dim 4", "cannot be used with '--output-dim <D>'"),
    ] {
        let outcome = sandbox.run(&format!("featurize plan {flags}"));
        assert_eq!(outcome.code, Some(2), "{outcome:?}");
        assert!(outcome.stderr.contains(why), "{outcome:?}");
    }
    sandbox.refuses("featurize plan --epsilon 0.1", "pass --input-dim or --data FILE");
    sandbox.refuses(
        "featurize plan --epsilon 0.1 --input-dim 4 --data t.parquet",
        "--input-dim is 4 but the vectors in --data have dimension 5; leave out one of them",
    );
}

#[test]
fn plan_cannot_read_a_stream_twice() {
    let sandbox = sandbox();
    let outcome = sandbox.shell(
        "veridical -q vectors convert t.parquet - | veridical -q featurize plan --data - --epsilon 0.1",
    );
    assert_eq!((outcome.code, &*outcome.stdout), (Some(2), ""));
    assert!(
        outcome.stderr.ends_with(
            "veridical: error: a stream can be read only once, and the length scale is chosen before \
             the errors are measured; pass --data FILE\n"
        ),
        "{outcome:?}"
    );
}

// check

fn check(sandbox: &Sandbox, flags: &str) -> Value {
    let check = json(sandbox, "featurize", &format!("featurize check {flags}"));
    check.clone()
}

#[test]
fn check_measures_the_pair_of_a_table_of_two_rows() {
    let sandbox = two_rows();
    let spec = FeatureSpec::params(2, 6).length_scale(0.75).seed(4).build().unwrap();
    sandbox.put("s.json", spec.to_json());
    let check = check(&sandbox, "--spec s.json two.csv");
    assert_eq!((&check["pairs"], &check["rows"]), (&1.into(), &2.into()));
    let want = error_of_two(&spec);
    for field in ["mean", "median", "quantile_95", "quantile_99", "max"] {
        assert_close(&check["errors"][field], want, 1e-9);
    }
    assert_close(&check["rms"], want, 1e-9);
    // sqrt((1 + k(2 delta) - 2 k(delta)^2) / D), rows rounded to f32.
    let rows = Normalize::Unit.rows(Rows::new(&TWO, 2).unwrap()).unwrap();
    let k = Kernel::Gaussian.value(&rows[..2], &rows[2..], 0.75);
    let deviation = ((1.0 + k.powi(4) - 2.0 * k * k) / 6.0).sqrt();
    assert_close(&check["expected_iid_rms"], deviation, 1e-5);
    assert_eq!((&check["near_zero"], &check["near_one"]), (&0.0.into(), &0.0.into()));
}

#[test]
fn check_compares_the_families_at_the_width_of_the_spec() {
    let sandbox = sandbox();
    let check = check(&sandbox, "--spec spec.json t.parquet");
    assert_eq!((&check["data"], &check["pairs"]), (&"t.parquet".into(), &1000.into()));
    let spec = FeatureSpec::from_json(&sandbox.text("spec.json")).unwrap();
    assert_eq!(check["spec"]["spec_id"], spec.spec_id());
    let families = check["families"].as_array().unwrap();
    let names: Vec<&Value> = families.iter().map(|family| &family["directions"]).collect();
    assert_eq!(names, ["iid", "orthogonal", "hadamard", "halton"]);
    for family in families {
        let mean = &family["mean"];
        let [low, value, high] = ["low", "value", "high"].map(|end| mean[end].as_f64().unwrap());
        assert!((low..=high).contains(&value), "{family}");
        assert!(family["quantile_95"].as_f64() > Some(value), "{family}");
        assert_eq!((&mean["n"], &mean["seeds"]), (&1000.into(), &8.into()));
        assert!(family["refused"].is_null());
    }

    let text = sandbox.ok("featurize check --spec spec.json t.parquet");
    let errors = &check["errors"];
    let number = |field: &str| format!("{:.5}", errors[field].as_f64().unwrap());
    let line = format!(
        "error            mean {}, median {}, 95 % {}, 99 % {}, max {}\n",
        number("mean"),
        number("median"),
        number("quantile_95"),
        number("quantile_99"),
        number("max")
    );
    assert!(text.contains(&line), "{text}");
    assert!(text.starts_with(&format!("spec             {}\n", spec.spec_id())), "{text}");
    assert!(text.contains("\nmeasured on      1000 random pairs of 2000 rows\n"), "{text}");
    assert_eq!(text.matches(", 8 seeds").count(), 4, "{text}");
    let this: Vec<&str> = text.lines().filter(|l| l.ends_with("  <- this spec")).collect();
    assert!(this.len() == 1 && this[0].starts_with("orthogonal  "), "{text}");
    assert!(!text.lines().any(|line| line.ends_with(' ')), "{text}");
}

#[test]
fn check_says_why_a_family_is_not_compared() {
    let sandbox = sandbox();
    sandbox.ok("featurize new --input-dim 5 --kernel laplace --out l.json");
    let check = check(&sandbox, "--spec l.json t.parquet --html l.html");
    let families = check["families"].as_array().unwrap();
    assert!(families[0]["refused"].is_null() && families[0]["mean"]["value"].is_number());
    let (text, page) =
        (sandbox.ok("featurize check --spec l.json t.parquet"), sandbox.text("l.html"));
    for family in &families[1..] {
        let (name, why) = (&family["directions"], family["refused"].as_str().unwrap());
        let start = "directions must be iid for kernel laplace: ";
        assert!(why.starts_with(start) && family["mean"].is_null(), "{why}");
        let line = format!("\n{:<16} - {why}\n", name.as_str().unwrap());
        assert!(text.contains(&line), "{text}");
        assert!(page.contains(why), "{why}");
    }
}

/// Intermediate values of hadamard directions grow with p^2: rows that other families can project overflow there.
#[test]
fn a_family_that_overflows_on_the_rows_does_not_end_the_check() {
    let sandbox = Sandbox::new();
    let mut table = named_rows(50, 60);
    table.vectors.iter_mut().for_each(|x| *x *= 1e36);
    sandbox.put_table("t.parquet", &table);
    sandbox.ok("featurize new --input-dim 60 --normalize none --directions iid --length-scale 1e36 --out s.json");
    let check = check(&sandbox, "--spec s.json t.parquet");
    let families = check["families"].as_array().unwrap();
    assert!(families[..2].iter().all(|family| family["mean"]["value"].is_number()));
    assert_eq!(families[2]["refused"], "its projections of these rows overflow");
}

/// Everything of the page that is not code: `<script>` has no type.
fn own_part(page: &str) -> String {
    let mut parts = page.split("<script>");
    let mut own = parts.next().unwrap().to_owned();
    let mut scripts = 0;
    for part in parts {
        let (script, rest) = part.split_once("</script>").unwrap();
        scripts += script.len();
        own.push_str(rest);
    }
    assert!(scripts > 500_000 && page.contains("echarts"));
    own
}

#[test]
fn the_page_has_its_charts_inside_and_loads_nothing() {
    let sandbox = sandbox();
    let plain = sandbox.ok("featurize check --spec spec.json t.parquet");
    let outcome = sandbox.run("featurize check --spec spec.json t.parquet --html page.html");
    assert_eq!((outcome.code, &outcome.stdout), (Some(0), &plain));
    assert!(outcome.stderr.ends_with("veridical: wrote page.html\n"), "{outcome:?}");
    let page = sandbox.text("page.html");
    assert!(page.starts_with("<!doctype html><!-- veridical -->\n") && page.ends_with("</html>\n"));
    assert_eq!(page.matches("<div class=\"plot\"").count(), 3);
    let own = own_part(&page);
    for foreign in
        ["http:", "https:", "src=", "url(", "@import", "<link", "<img", "<iframe", "href=\"h"]
    {
        assert!(!own.contains(foreign), "{foreign}");
    }
    for option in own.split("<script type=\"application/json\">").skip(1) {
        let option = option.split("</script>").next().unwrap();
        let option: Value = serde_json::from_str(option).unwrap();
        assert!(option["series"][0].as_object().is_some_and(|series| {
            ["points", "counts", "values"]
                .iter()
                .any(|n| series.get(*n).is_some_and(|v| v[0].is_array() || v[0].is_u64()))
        }));
    }
    let spec = FeatureSpec::from_json(&sandbox.text("spec.json")).unwrap();
    assert!(
        own.contains(&format!("<dt>spec</dt><dd>{}</dd>", spec.spec_id()))
            && own.contains("1000 pairs of 2000 rows")
    );
    assert_eq!(sandbox.names().len(), 4, "{:?}", sandbox.names()); // the folder, t, spec and the page
}

#[test]
fn a_page_is_replaced_by_force_alone_and_never_by_half() {
    let sandbox = sandbox();
    sandbox.put("page.html", "precious").put("two.csv", "id,a,b\n1,1,2\n2,2,1\n");
    let line = "featurize check --spec spec.json t.parquet --html";
    sandbox.refuses(
        &format!("{line} page.html"),
        "page.html already exists and is not a page of veridical; choose another name or replace it with --force",
    );
    for (html, setting) in [("t.parquet", "data"), ("spec.json", "spec")] {
        let error = format!(
            "--html {html}: this is the input of --{setting}; no input is ever overwritten; choose another name"
        );
        sandbox.refuses(&format!("{line} {html}"), &error);
    }
    sandbox.refuses_like(
        "featurize check --spec spec.json two.csv --html page.html --force",
        |error| {
            assert!(error.starts_with("two.csv: rows have 2 columns"), "{error}");
        },
    );
    sandbox.ok("featurize check --spec spec.json t.parquet --html page.html --force");
    assert!(sandbox.text("page.html").starts_with("<!doctype html>"));
}

#[test]
fn a_page_that_cannot_be_written_is_refused() {
    let sandbox = sandbox();
    sandbox.put("folder.html/x", "");
    let line = "featurize check --spec spec.json t.parquet --html";
    sandbox.refuses(
        &format!("{line} no/page.html"),
        "no does not exist or is not a folder; create it first",
    );
    sandbox.refuses(
        &format!("{line} spec.json/page.html"),
        "spec.json does not exist or is not a folder; create it first",
    );
    sandbox.refuses_like(&format!("{line} folder.html --force"), |error| {
        assert_eq!(error, "folder.html is a folder; name a file");
    });
}

#[test]
fn check_reads_a_stream() {
    let sandbox = sandbox();
    let outcome = sandbox.shell(
        "veridical -q vectors convert t.parquet - | veridical -q featurize check --spec spec.json -",
    );
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(outcome.stdout, sandbox.ok("featurize check --spec spec.json t.parquet"));
}

// both

/// A command without `--force` and `--threads N`.
fn without_neutral_flags(line: &str) -> String {
    let mut kept = Vec::new();
    let mut words = line.split_whitespace();
    while let Some(word) = words.next() {
        match word {
            "--force" => {}
            "--threads" => drop(words.next()),
            _ => kept.push(word),
        }
    }
    kept.join(" ")
}

#[test]
fn neither_threads_nor_chunks_nor_files_change_what_is_measured() {
    let sandbox = sandbox();
    let table = named_rows(2000, 5);
    sandbox.put("t.csv", csv(&table));
    for (i, (from, to)) in [(0, 7), (7, 1400), (1400, 2000)].into_iter().enumerate() {
        sandbox.put_table(&format!("parts/{i}.parquet"), &slice(&table, from, to));
    }
    sandbox.ok("featurize new --input-dim 5 --directions hadamard --out h.json");
    let of = |input: &str, flags: &str| {
        let plan = "featurize plan --epsilon 0.1 --max-output-dim 256";
        let check = "featurize check --html page.html --force";
        [
            format!("{plan} --json --data {input}"),
            format!("{plan} --directions hadamard --data {input}"),
            format!("{plan} --normalize standardize --kernel laplace --data {input}"),
            format!("{check} --spec spec.json {input}"),
            format!("{check} --spec h.json {input}"),
        ]
        .map(|line| {
            let text = sandbox.ok(&format!("{line} {flags}"));
            let page =
                if sandbox.has("page.html") { sandbox.text("page.html") } else { String::new() };
            sandbox.remove("page.html");
            // The page says what was typed, but for what changes nothing, and which table was read.
            let typed = without_neutral_flags(&format!("veridical {line} {flags}"));
            assert!(page.is_empty() || page.contains(&typed));
            text + &page
                .replace(&typed, "")
                .replace(&format!("rows of {input}."), "rows.")
                .replace(&format!("-&gt; 20 on {input}<"), "<")
                .replace(&format!("<dt>data</dt><dd>{input}</dd>"), "")
                .replace(&format!("\"data\":\"{input}\""), "")
        })
    };
    let want = of("t.parquet", "--threads 1");
    for (input, flags) in [
        ("t.parquet", "--threads 2"),
        ("t.parquet", "--chunk-rows 1"),
        ("t.parquet", "--chunk-rows 1000 --threads 2"),
        ("parts", "--threads 2"),
        ("t.csv", "--chunk-rows 77"),
    ] {
        assert!(of(input, flags) == want, "{input} {flags}");
    }
}

/// At a page's size, results on stdout and everything else on stderr, as every verb.
#[test]
fn the_columns_that_were_read_are_named() {
    let sandbox = sandbox();
    let note = "veridical: vectors from column `vector`, ids from column `id`\n";
    for line in ["plan --data t.parquet --output-dim 8", "check --spec spec.json t.parquet"] {
        assert_eq!(sandbox.run(&format!("featurize {line}")).stderr, note, "{line}");
    }
}

#[test]
fn a_table_of_one_row_has_no_pair() {
    let sandbox = Sandbox::new();
    sandbox.put("one.csv", "id,a,b\n1,1,2\n");
    sandbox.put("s.json", FeatureSpec::params(2, 4).build().unwrap().to_json());
    let message = "one.csv: at least two rows are needed to form a pair";
    sandbox.refuses("featurize plan --data one.csv --epsilon 0.1 --length-scale 1", message);
    sandbox.refuses("featurize check --spec s.json one.csv", message);
    sandbox.refuses(
        "featurize plan --data one.csv --epsilon 0.1",
        "one.csv: cannot choose a length scale: it takes at least two rows; pass a number with \
         --length-scale",
    );
}

#[test]
fn values_that_are_not_numbers_are_named_or_left_out() {
    let sandbox = Sandbox::new();
    sandbox.put("t.csv", "id,a,b\n1,1,2\n2,nan,1\n3,1,0\n4,3,3\n5,0.5,-1\n");
    sandbox.put("all.csv", "id,a,b\n1,nan,2\n2,1,inf\n");
    sandbox.put("s.json", FeatureSpec::params(2, 4).build().unwrap().to_json());
    for line in
        ["featurize plan --output-dim 4 --length-scale 1 --data", "featurize check --spec s.json"]
    {
        sandbox.refuses(
            &format!("{line} t.csv"),
            "t.csv: row 1, column 0 is NaN or missing; repair it, or pass --on-nan skip to drop such \
             rows or --on-nan zero to replace it by 0",
        );
        let warnings = sandbox.warnings(&format!("{line} t.csv --on-nan skip"));
        assert_eq!(
            warnings,
            ["1 rows with values that are not finite numbers were skipped"],
            "{line}"
        );
        let result = json(&sandbox, "featurize", &format!("{line} t.csv --on-nan skip"));
        let result = &result;
        let rows = if line.contains("plan") { &result["n_rows"] } else { &result["rows"] };
        assert_eq!(*rows, 4, "{line}");
        let warnings = sandbox.warnings(&format!("{line} t.csv --on-nan zero"));
        assert_eq!(warnings, ["1 values that are not finite numbers were set to 0"], "{line}");
        sandbox.refuses(
            &format!("{line} all.csv --on-nan skip"),
            "all.csv: at least two rows are needed to form a pair",
        );
    }
}

#[test]
fn a_projection_that_would_overflow_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.put("t.csv", "id,a\n1,1\n2,3e38\n");
    let spec = FeatureSpec::params(1, 2).normalize(Normalize::None).length_scale(1e-3);
    sandbox.put("s.json", spec.build().unwrap().to_json());
    let message = "t.csv: the projection of a row overflows; rescale the rows, for example with \
                   --normalize standardize";
    sandbox.refuses("featurize check --spec s.json t.csv", message);
    sandbox.refuses(
        "featurize plan --data t.csv --epsilon 0.1 --normalize none --length-scale 1e-3",
        message,
    );
}

#[test]
fn zero_rows_are_rows_like_others() {
    let sandbox = Sandbox::new();
    sandbox.put("t.csv", "id,a,b\n1,0,0\n2,0,0\n");
    sandbox.put("s.json", FeatureSpec::params(2, 4).build().unwrap().to_json());
    let check = check(&sandbox, "--spec s.json t.csv");
    // cos 0 = 1 and sin 0 = 0; m^(-1/2) squared twice is 1 up to its rounding.
    assert!(check["errors"]["max"].as_f64().unwrap() < 1e-6);
    assert_eq!(check["near_one"], 1.0);
}
