//! `evaluate`, `recommend`, `similar`, `tune` and `data`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use veridical_data::VectorTable;

use crate::common::*;

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.put_shop("r.csv", 120, 40, 12);
    sandbox
}

/// Returns a metric of the model at this position in an evaluation.
fn measure(evaluation: &Value, model: usize, protocol: &str, name: &str) -> f64 {
    let list = |value: &Value| value.as_array().unwrap().clone();
    let protocols = list(&evaluation["models"][model]["protocols"]);
    let protocol = protocols.iter().find(|p| p["protocol"] == protocol).unwrap();
    let measures = list(&protocol["measures"]);
    measures.iter().find(|m| m["name"] == name).unwrap()["value"].as_f64().unwrap()
}

const BPR: &str =
    "train bpr --interactions r.csv --split leave-last-one --dim 8 --epochs 30 --quiet";

#[test]
fn a_run_is_evaluated_beside_the_baselines_full_ranking_first() {
    let sandbox = sandbox();
    sandbox.ok(&format!("{BPR} --out run"));
    let evaluation =
        json(&sandbox, "evaluate", "evaluate --run run --k 1,10 --html page.html --out e.json");
    let names: Vec<&str> = ["run", "pop", "itemknn", "ease"].to_vec();
    let models = evaluation["models"].as_array().unwrap();
    assert_eq!(models.iter().map(|m| m["name"].as_str().unwrap()).collect::<Vec<_>>(), names);
    let protocols = models[0]["protocols"].as_array().unwrap();
    let protocols: Vec<&str> = protocols.iter().map(|p| p["protocol"].as_str().unwrap()).collect();
    assert_eq!(protocols, ["full", "uniform-100", "popular-100"]);
    // Four tastes of ten items: whoever knows the taste is far above popularity.
    let ndcg = |model| measure(&evaluation, model, "full", "ndcg@10");
    assert!(ndcg(0) > 1.5 * ndcg(1), "{} {}", ndcg(0), ndcg(1));
    assert!(evaluation["notes"][0].as_str().unwrap().contains("leaks time across users"));
    assert!(sandbox.text("page.html").contains("ndcg@10"));
    let saved: Value = serde_json::from_str(&sandbox.text("e.json")).unwrap();
    assert_eq!(saved["models"], evaluation["models"]);
    sandbox.refuses(
        "evaluate --run run --out e.json",
        "e.json already exists; choose another name or replace it with --force",
    );
    let text = sandbox.ok("evaluate ranking --run run --baselines none --all --quiet");
    assert!(text.contains("full             uniform-100      popular-100"), "{text}");
    // The run's own tables, passed as vector tables, score the same.
    let tables = "--users run --items run/vectors/item.parquet --interactions r.csv";
    let line =
        format!("evaluate ranking {tables} --split leave-last-one --k 1,10 --baselines none");
    let of_tables = json(&sandbox, "evaluate", &line);
    for name in ["ndcg@10", "hit@1", "auc", "mrr"] {
        for protocol in ["full", "uniform-100", "popular-100"] {
            let (a, b) =
                (measure(&evaluation, 0, protocol, name), measure(&of_tables, 0, protocol, name));
            assert_eq!(a, b, "{protocol} {name}");
        }
    }
}

#[test]
fn the_table_has_the_asked_metrics_and_the_difference_to_the_best_baseline() {
    let sandbox = sandbox();
    sandbox.ok(&format!("{BPR} --out run"));
    let text = sandbox.ok("evaluate --run run --quiet");
    let header: Vec<&str> =
        text.lines().find(|line| line.contains("model")).unwrap().split_whitespace().collect();
    assert_eq!(header[..6], ["model", "ndcg@10", "recall@10", "hit@10", "ndcg@10", "-"]);
    assert_eq!(text.lines().filter(|line| line.contains("(baseline)")).count(), 3);
    assert!(!text.contains("uniform-100"), "{text}");

    let line = "evaluate --run run --measures mrr,ndcg@20";
    let evaluation = json(&sandbox, "evaluate", line);
    assert_eq!(evaluation["columns"], serde_json::json!(["mrr", "ndcg@20"]));
    let versus = &evaluation["models"][0]["versus"];
    assert_eq!(versus["baseline"], header[6]);
    let models = evaluation["models"].as_array().unwrap();
    let best = models.iter().position(|model| model["name"] == versus["baseline"]).unwrap();
    assert!((1..4).all(|at| {
        measure(&evaluation, at, "full", "mrr") <= measure(&evaluation, best, "full", "mrr")
    }));
    for (at, name) in ["mrr", "ndcg@20"].into_iter().enumerate() {
        let of = |model| measure(&evaluation, model, "full", name);
        let difference = &versus["differences"][at];
        assert_eq!(difference["name"], name);
        assert!((difference["value"].as_f64().unwrap() - (of(0) - of(best))).abs() < 1e-6);
    }
    // The history above the relevant item costs ranks.
    let kept = json(&sandbox, "evaluate", "evaluate --run run --keep-history --baselines pop");
    assert_eq!(kept["keep_history"], true);
    assert_eq!(kept["models"][0]["protocols"].as_array().unwrap().len(), 1);
    assert!(measure(&kept, 0, "full", "mrr") < measure(&evaluation, 0, "full", "mrr"));
    sandbox.refuses(
        "evaluate --run run --measures ndcg@x",
        "--measures: there is no metric `ndcg@x`; choose from ndcg@K, recall@K, precision@K, hit@K, map, mrr and auc",
    );
}

#[test]
fn ids_without_vectors_are_left_out_with_a_word() {
    let sandbox = sandbox();
    sandbox.ok(&format!("{BPR} --out run"));
    let items = sandbox.table("run");
    sandbox.put_table("some.csv", &slice(&items, 0, 30));
    sandbox.put_table("none.csv", &rows(5, 8));
    let line = "evaluate --users run --interactions r.csv --split leave-last-one --items";
    let outcome = sandbox.run(&format!("{line} some.csv --baselines pop --similarity cosine"));
    assert_eq!(outcome.warnings(), ["some.csv: 10 of 40 items have no vector and are skipped"]);
    assert_eq!(outcome.code, Some(0));
    sandbox.refuses(
        &format!("{line} none.csv"),
        "none.csv has no vector for any item of the interactions; check that the ids match",
    );
    sandbox.put_table("wide.csv", &VectorTable { dim: 4, vectors: vec![0.5; 160], ..items });
    sandbox.refuses_like(&format!("{line} wide.csv"), |error| {
        assert!(error.starts_with("user vectors have dimension 8 and item vectors 4"), "{error}");
    });
}

#[test]
fn only_the_split_of_the_run_is_evaluated_on() {
    let sandbox = sandbox();
    sandbox.ok(&format!("{BPR} --out run"));
    sandbox.put_shop("other.csv", 120, 40, 11);
    sandbox.refuses(
        "evaluate --run run --interactions other.csv",
        "other.csv is not the data that run was trained on; pass the same data with --interactions",
    );
    let outcome = sandbox.run("evaluate --run run --split random:0.2");
    assert_eq!(outcome.code, Some(2));
    assert!(outcome.stderr.contains("'--split <RULE>'"), "{}", outcome.stderr);
    sandbox
        .ok("train bpr --interactions r.csv --split random:0.2 --dim 4 --epochs 1 --out b --quiet");
    sandbox.refuses(
        "evaluate --run run b",
        "run and b were not trained on the same split; evaluate them one by one",
    );
    sandbox.ok("train bpr --interactions r.csv --dim 4 --epochs 1 --out all --quiet");
    sandbox.refuses(
        "evaluate --run all",
        "the split holds out no rows to evaluate on; choose a split with train --split, such as \
         leave-last-one or temporal:0.2",
    );
    // The same rows in another file are the same data; a document that was tampered with is noticed.
    sandbox.put("copy.tsv", sandbox.text("r.csv").replace(',', "\t"));
    sandbox.ok("evaluate --run run --interactions copy.tsv --baselines none --quiet");
    let document = sandbox.text("run/run.json");
    sandbox.put("run/run.json", document.replace("\"leave-last-one\"", "\"temporal:0.1\""));
    sandbox.refuses_like("evaluate --run run", |error| {
        assert!(error.contains("differs from the one run was trained on"), "{error}");
    });
}

#[test]
fn ratings_and_ensembles_are_evaluated() {
    let sandbox = sandbox();
    let flags = "--interactions r.csv --split random:0.2 --dim 4 --epochs 20 --seeds 3 --quiet";
    sandbox.ok(&format!("train mf {flags} --out mf"));
    let evaluation = json(&sandbox, "evaluate", "evaluate --run mf");
    assert_eq!(evaluation["what"], "ratings");
    let model = &evaluation["models"][0];
    assert_eq!(model["seeds"], serde_json::json!([0, 1, 2]));
    let rmse = &model["rmse"];
    let of = |name: &str| rmse[name].as_f64().unwrap();
    assert!(of("low") < of("value") && of("value") < of("high"), "{rmse}");
    // The law of the ratings has deviations of about 0.97 and 1.15 (generate/shop.rs); the mean alone
    // leaves about 1.5.
    assert!(of("value") < 1.4, "{rmse}");
    let singles: Vec<f64> = (0..3)
        .map(|seed| json(&sandbox, "evaluate", &format!("evaluate ratings --run mf/seed-{seed}")))
        .map(|one| one["models"][0]["rmse"]["value"].as_f64().unwrap())
        .collect();
    assert!((of("value") - singles.iter().sum::<f64>() / 3.0).abs() < 1e-12);
    sandbox.refuses_like("evaluate ratings --run mf/seed-0 --interactions nothing.csv", |error| {
        assert!(error.starts_with("nothing.csv: cannot "), "{error}");
    });
}

/// Rows of a CSV file of recommendations by user.
fn lists(text: &str) -> BTreeMap<String, Vec<(u64, u32)>> {
    let mut lists: BTreeMap<String, Vec<(u64, u32)>> = BTreeMap::new();
    for line in text.lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let entry = (cells[1].parse().unwrap(), cells[3].parse().unwrap());
        lists.entry(cells[0].to_owned()).or_default().push(entry);
    }
    lists
}

/// One line, wherever the vectors of `item2vec` make a list.
#[test]
fn lists_of_item2vec_warn() {
    let sandbox = sandbox();
    sandbox.ok("train item2vec --interactions r.csv --split leave-last-one --dim 4 --epochs 1 --out run --quiet");
    for line in ["evaluate --run run --baselines none", "recommend --run run --k 3 --out recs.csv"]
    {
        let said = sandbox.run(line).stderr;
        let warnings = said.lines().filter(|line| line.contains("mean of the history"));
        assert_eq!(warnings.count(), 1, "{line}: {said}");
    }
}

#[test]
fn recommendations_are_new_to_the_user_and_to_the_taste() {
    let sandbox = sandbox();
    sandbox.ok("train als --interactions r.csv --dim 8 --out als --quiet");
    let done = json(&sandbox, "recommend", "recommend --run als --k 5 --out recs.csv");
    assert_eq!((&done["users"], &done["rows"]), (&120.into(), &600.into()));
    let text = sandbox.text("recs.csv");
    assert!(text.starts_with("user,item,score,rank\n"), "{text}");
    let history = sandbox.text("r.csv");
    let seen: BTreeSet<(&str, u64)> = history
        .lines()
        .skip(1)
        .map(|line| line.split(',').collect::<Vec<_>>())
        .map(|cells| (cells[0], cells[1].parse().unwrap()))
        .collect();
    for (user, list) in lists(&text) {
        assert_eq!(list.iter().map(|(_, rank)| *rank).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
        assert!(list.iter().all(|(item, _)| !seen.contains(&(user.as_str(), *item))), "{user}");
    }
    sandbox.ok("recommend --run als --k 40 --keep-seen --out all.parquet --quiet");
    sandbox.put("some.txt", "3\n7\nnobody\n");
    let outcome = sandbox.run("recommend --run als --users some.txt --k 2 --out some.csv");
    assert_eq!(outcome.warnings(), ["1 users are unknown and get no recommendations: nobody"]);
    assert_eq!(lists(&sandbox.text("some.csv")).into_keys().collect::<Vec<_>>(), ["3", "7"]);
}

/// Users dropped by the split still have a history; items of the test rows are not hidden.
#[test]
fn users_too_short_for_the_split_are_folded_in() {
    let sandbox = sandbox();
    let text = sandbox.text("r.csv") + "900,102,5,1\n900,106,5,2\n900,110,5,3\n";
    sandbox.put("more.csv", text);
    let flags = "--split per-user:10 --short-users drop --dim 4 --weight-decay 5 --quiet --out run";
    sandbox.ok(&format!("train als --interactions more.csv {flags}"));
    let done = json(&sandbox, "recommend", "recommend --run run --k 3 --out recs.csv");
    assert_eq!((&done["users"], &done["folded_in"]), (&121.into(), &1.into()));
    let lists = lists(&sandbox.text("recs.csv"));
    assert!(lists["900"].iter().filter(|(item, _)| item % 4 == 2).count() >= 2, "{lists:?}");
}

/// A user who came after the training, with four items of taste 2, is given more of taste 2.
#[test]
fn new_users_are_folded_in_from_their_history() {
    let sandbox = sandbox();
    sandbox.put(
        "new.csv",
        "user,item,rating\nann,102,5\nann,106,5\nann,110,4\nann,114,5\nann,999,1\n",
    );
    for (method, least) in [
        ("als --dim 4 --weight-decay 5", 3),
        ("bpr --dim 8 --epochs 40", 3),
        ("item2vec --dim 8 --epochs 40", 3),
        ("ease", 3),
        ("itemknn", 3),
        ("mf --epochs 30", 2), // biases matter as well
    ] {
        sandbox.ok(&format!("train {method} --interactions r.csv --out run --quiet --force"));
        let line = "recommend --run run --interactions new.csv --k 4 --out new-recs.csv --force";
        let outcome = sandbox.run(line);
        assert_eq!(outcome.code, Some(0), "{method} {outcome:?}");
        assert!(outcome.stderr.contains("new.csv: 1 of 5 rows have items unknown to the run"));
        let lists = lists(&sandbox.text("new-recs.csv"));
        let own = lists["ann"].iter().filter(|(item, _)| item % 4 == 2).count();
        assert!(own >= least, "{method}: {lists:?}");
    }
}

#[test]
fn neighbors_share_the_taste_and_have_names() {
    let sandbox = sandbox();
    sandbox.put("movies.dat", "100::Toy Story (1995)::Animation\n104::Am\u{e9}lie::Comedy\n");
    for method in
        ["als --dim 4 --weight-decay 5", "item2vec --dim 8 --epochs 40", "itemknn", "ease"]
    {
        sandbox.ok(&format!("train {method} --interactions r.csv --out run --quiet --force"));
        let found =
            json(&sandbox, "similar", "similar --run run --id 100 --names movies.dat --k 5");
        let result = &found["results"][0];
        assert_eq!(result["name"], "Toy Story (1995)");
        let near = result["neighbors"].as_array().unwrap();
        let same =
            near.iter().filter(|n| n["id"].as_str().unwrap().parse::<u64>().unwrap() % 4 == 0);
        assert!(same.count() >= 4, "{method}: {near:?}");
    }
    sandbox.refuses("similar --run run --id 7", "run: unknown id `7`; ids look like 100, 101, 102");
    sandbox.ok("train pop --interactions r.csv --out pop --quiet");
    sandbox.refuses(
        "similar --run pop --id 100",
        "a popularity model has no similar items; train another method",
    );
}

const TUNE: &str =
    "tune mf --interactions r.csv --split temporal:0.2 --validation 0.2 --dim 4 --epochs 6";

#[test]
fn tuning_chooses_by_validation_alone_and_reads_the_test_rows_once() {
    let sandbox = sandbox();
    let grid = "--grid lr=0.005,0.1 --grid sse-item=0,0.05";
    let tuned = json(&sandbox, "tune", &format!("{TUNE} {grid} --out a"));
    assert_eq!(tuned["trials"].as_array().unwrap().len(), 4);
    let best = tuned["best"].as_u64().unwrap() as usize;
    let value = |trial: &Value| trial["value"].as_f64().unwrap();
    let values: Vec<f64> = tuned["trials"].as_array().unwrap().iter().map(value).collect();
    assert!(values.iter().all(|v| *v >= values[best]), "{values:?}");
    assert!(tuned["test"]["models"][0]["rmse"]["value"].is_f64());
    let lines = sandbox.text("a/tune.jsonl");
    assert_eq!(lines.lines().count(), 4);

    // Other ratings in the last fifth of the rows, the test set: the same choice, other test metrics.
    let text = sandbox.text("r.csv");
    let rows: Vec<&str> = text.lines().collect();
    let mut order: Vec<usize> = (1..rows.len()).collect();
    let time = |row: usize| rows[row].rsplit(',').next().unwrap().parse::<i64>().unwrap();
    order.sort_by_key(|&row| (time(row), row));
    let test: BTreeSet<usize> = order[order.len() - 288..].iter().copied().collect();
    let turned = rows.iter().enumerate().map(|(at, row)| {
        let mut cells: Vec<String> = row.split(',').map(str::to_owned).collect();
        if test.contains(&at) {
            cells[2] = (6.0 - cells[2].parse::<f32>().unwrap()).to_string();
        }
        cells.join(",") + "\n"
    });
    sandbox.put("turned.csv", turned.collect::<String>());
    let line = format!("{TUNE} {grid} --out b").replace("r.csv", "turned.csv");
    let other = json(&sandbox, "tune", &line);
    assert_eq!(other["trials"], tuned["trials"], "the trials know nothing of the test rows");
    assert_ne!(other["test"]["models"], tuned["test"]["models"]);

    // The best settings can be used for other runs.
    sandbox.ok("train --from a/best.json --seed 4 --out c --quiet");
}

#[test]
fn a_tuning_goes_on_where_it_was() {
    let sandbox = sandbox();
    sandbox.ok(&format!("{TUNE} --grid lr=0.005,0.1,0.02 --out whole --quiet"));
    sandbox.ok(&format!("{TUNE} --grid lr=0.005,0.1 --out a --quiet"));
    let first: String =
        sandbox.text("a/tune.jsonl").lines().take(1).map(|l| format!("{l}\n")).collect();
    // As a kill would leave it: one trial, half a line, no result. The recorded trial is not repeated.
    let marked = first.replace("\"epochs\":6", "\"epochs\":66");
    assert_ne!(first, marked);
    sandbox.put("a/tune.jsonl", format!("{marked}{{\"sett"));
    sandbox.remove("a/best");
    sandbox.refuses(
        &format!("{TUNE} --grid lr=0.005,0.1 --out a"),
        "a holds a tuning; continue it with --resume or start over with --force",
    );
    sandbox.ok(&format!("{TUNE} --grid lr=0.005,0.1,0.02 --out a --resume --quiet"));
    let want = sandbox.text("whole/tune.jsonl");
    let want = want.replacen("\"epochs\":6", "\"epochs\":66", 1);
    assert_eq!(sandbox.text("a/tune.jsonl"), want);
    sandbox.refuses_like(&format!("{TUNE} --grid lr=0.005 --seed 1 --out a --resume"), |error| {
        let what = "a: the tuning differs from the one that was started: seed was 0 and is now 1";
        assert!(error.starts_with(what), "{error}");
    });
    sandbox.refuses(
        &format!("{TUNE} --grid windw=1,2 --out b"),
        "--grid: mf has no setting `windw`; it has dim, epochs, lr, schedule, weight-decay, dropout, biases, \
         mean, sse-user, sse-item, rho-user, rho-item, mode",
    );
    sandbox
        .refuses(&format!("{TUNE} --grid lr=0.1,fast --out b"), "--lr must be a number, got fast");
}

#[test]
fn data_is_generated_described_divided_and_joined_to_graphs() {
    let sandbox = Sandbox::new();
    sandbox.ok("data generate shop --users 50 --items 40 --clusters 4 --per-user 8 --out shop");
    let described = json(&sandbox, "data", "data describe --interactions shop/interactions.csv");
    let result = &described;
    assert_eq!((&result["rows"], &result["users"]), (&400.into(), &50.into()));
    assert_eq!(result["per_user"]["median"], 8.0);
    let line = "data split --interactions shop/interactions.csv --split per-user:6 --format parquet --out parts";
    let split = json(&sandbox, "data", line);
    assert_eq!(split["split"]["rows"]["test"], 100);
    let part = json(&sandbox, "data", "data describe --interactions parts/train.parquet");
    assert_eq!(part["rows"], 300);
    sandbox.refuses(line, "parts already exists; choose another name or replace it with --force");
    // The parts have the columns of the data, under their names.
    sandbox.put("own.csv", "When,customer,note,sku\n3,ann,x,a\n1,ann,y,b\n2,ann,z,c\n");
    let line = "data split --interactions own.csv --columns time=When --split leave-last-one --validation 0.1 --out own";
    let outcome = sandbox.run(line);
    let note = "validation: 1 of 2 training rows, of 1 user: the last row but one of each";
    assert!(outcome.stderr.contains(note), "{outcome:?}");
    assert_eq!(sandbox.text("own/validation.csv"), "customer,sku,When\nann,c,2\n");
    assert_eq!(sandbox.text("own/test.csv"), "customer,sku,When\nann,a,3\n");
    let graph = "data graph --interactions shop/interactions.csv";
    let built =
        json(&sandbox, "data", &format!("{graph} --labels shop/items.csv --out groups.csv"));
    assert_eq!(built["flag"], "--sse-groups-item");
    assert_eq!(built["groups"], 4);
    sandbox.ok("train item2vec --interactions shop/interactions.csv --dim 8 --out run --quiet");
    sandbox.ok(&format!("{graph} --vectors run --k 3 --out edges.csv --quiet"));
    let train = "train bpr --interactions shop/interactions.csv --dim 4 --epochs 2 --quiet";
    sandbox
        .ok(&format!("{train} --sse-graph-item edges.csv --rho-item 200 --sse-item 0.05 --out a"));
    sandbox.ok(&format!(
        "{train} --sse-groups-item groups.csv --rho-item 200 --sse-item 0.05 --out b"
    ));
    sandbox.ok(&format!("{train} --sse-groups-user shop/users.csv --sse-user 0.05 --out c"));
    assert!(sandbox.text("a/run.json").contains("\"graphs\""));
    assert!(sandbox.bytes("a/model.safetensors") != sandbox.bytes("b/model.safetensors"));

    sandbox.ok("data generate text --docs 60 --topics 3 --out texts");
    let described =
        json(&sandbox, "data", "data describe --text texts/documents.csv --min-count 1");
    assert_eq!(described["documents"], 60);

    let images = "data generate images --images 20 --test-images 5 --size 4";
    let made = json(&sandbox, "data", &format!("{images} --out images"));
    assert_eq!((&made["rows"], made["files"].as_array().map(Vec::len)), (&20.into(), Some(4)));
    assert_eq!(sandbox.bytes("images/train-images-idx3-ubyte").len(), 16 + 20 * 16);
    sandbox.ok(&format!("{images} --out again --quiet"));
    let images_of = |folder: &str| sandbox.bytes(&format!("{folder}/t10k-images-idx3-ubyte"));
    assert!(images_of("images") == images_of("again"));
    sandbox.refuses(
        &format!("{images} --classes 1 --out other"),
        "--classes must be from 2 to 256, got 1",
    );
}

/// A document embedded alone has the vector it has among others, and is near its topic.
#[test]
fn new_documents_are_embedded_the_same_alone_or_together() {
    let sandbox = Sandbox::new();
    sandbox.put_documents("d.csv", 80);
    sandbox.ok("train doc2vec --text d.csv --column text --min-count 1 --dim 12 --epochs 30 --out run --quiet");
    let new = "id,text\nx,t0w0 t0w1 t0w2 t0w0 t0w3\ny,t1w0 t1w1 t1w2 t1w0 t1w3\n";
    sandbox.put("new.csv", new).put("one.csv", "id,text\ny,t1w0 t1w1 t1w2 t1w0 t1w3\n");
    sandbox.ok("data embed --run run --text new.csv --column text --out new.parquet --quiet");
    sandbox.ok(
        "data embed --run run --text one.csv --column text --out one.parquet --threads 1 --quiet",
    );
    let (both, one) = (sandbox.table("new.parquet"), sandbox.table("one.parquet"));
    assert_eq!((both.ids.get(1), both.row(1)), (one.ids.get(0), one.row(0)));
    sandbox.put_shop("r.csv", 20, 20, 5);
    sandbox.ok("train pop --interactions r.csv --out pop --quiet");
    sandbox.refuses(
        "data embed --run pop --text new.csv --out x.parquet",
        "pop is a run of pop; only doc2vec and networks embed new inputs",
    );
}
