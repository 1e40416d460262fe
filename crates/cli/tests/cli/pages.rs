//! Pages: every title has the data, and the date if one was given.

use crate::common::Sandbox;

fn title(sandbox: &Sandbox, page: &str) -> String {
    let text = sandbox.text(page);
    let (_, rest) = text.split_once("<title>").unwrap();
    rest.split_once("</title>").unwrap().0.to_owned()
}

#[test]
fn every_page_has_its_data_and_its_date_in_its_title() {
    let sandbox = Sandbox::new();
    let data = "--interactions shop/interactions.csv --split leave-last-one --dim 4 --epochs 1";
    let tables = "a/vectors/item.parquet b/vectors/item.parquet";
    let few = "--probes 20 --pairs 100 --kernel-ids 100";
    let day = "--reference a --new b --min-shared-ids 0.5 --min-cka -1 --min-nn-overlap 0 --max-procrustes-residual 9 --max-outlier-ids 1 --max-norm-outliers 1 --max-norm-change 9 --out live --date 2026-01-06";
    for line in [
        "data generate shop --users 60 --items 120 --out shop",
        &format!("train bpr {data} --out a"),
        &format!("train bpr {data} --seed 1 --out b"),
        &format!("train bpr {data} --seed 2 --out c"),
        "evaluate --run a --html evaluate.html",
        "featurize new --data a --out spec.json",
        "featurize check --spec spec.json a --html check.html",
        &format!("stability a b {few} --html stability.html"),
        &format!("stability {tables} {few} --html same.html"),
        &format!("stability a b c {few} --html three.html"),
        &format!("refresh {day} {few} --html refresh.html"),
        "refresh history live --html history.html",
        "data generate images --images 60 --test-images 20 --size 4 --classes 2 --out images",
        "train net --model mlp:4 --data images --epochs 1 --out net",
        "evaluate --run net --html network.html",
        "refit-head --run net --out refit --html refit.html",
        "kernel compute --run net --out k",
        "kernel check k --html kernel.html",
        "kernel classify --run net --kernel ck --html classify.html",
        "reproduce run 000-kernel-error --quick --html experiment.html",
    ] {
        sandbox.ok(&format!("{line} --quiet"));
    }
    for (page, want) in [
        ("evaluate.html", "Evaluation · a · split leave-last-one"),
        ("check.html", "Kernel error of a feature spec · 4 -&gt; 16 on a"),
        ("stability.html", "Is this refresh safe to ship? · b against a"),
        (
            "same.html",
            "Is this refresh safe to ship? · b/vectors/item.parquet against a/vectors/item.parquet",
        ),
        ("three.html", "Is this refresh safe to ship? · 3 tables, a to c"),
        ("refresh.html", "Refresh 2026-01-06: published · b against a"),
        ("live/2026-01-06/report.html", "Refresh 2026-01-06: published · b against a"),
        ("history.html", "History of live · version 2026-01-06"),
        ("network.html", "Evaluation of networks · net"),
        ("refit.html", "Refit of the last layer · mlp:4 of net"),
        ("classify.html", "Kernel classification · ck of net"),
        ("kernel.html", "Check of a kernel · trntk of 60 x 60"),
        ("experiment.html", "Experiment 000-kernel-error · quick run, less data"),
    ] {
        assert_eq!(title(&sandbox, page), want, "{page}");
    }
    let dated =
        |page: &str| sandbox.text(page).contains("<meta name=\"date\" content=\"2026-01-06\">");
    assert!(dated("refresh.html") && dated("history.html") && !dated("stability.html"));
}
