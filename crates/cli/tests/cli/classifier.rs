//! From vectors and labels to predictions of new rows: `train classifier`, networks on vectors, `predict` of every kind of run
//! beside `evaluate`, and the layers of networks as vector tables.

use serde_json::{Value, json as value};
use veridical_core::{Seed, Stream};

use crate::common::*;

/// Two rings around each other in the first two of three coordinates; the class is the ring.
fn ring(i: usize) -> ([f64; 3], &'static str) {
    let place = Stream::new(Seed::new(2).unwrap(), "rings").at(0, i as u64);
    let angle = place.uniform(0) * std::f64::consts::TAU;
    let (radius, class) = if i.is_multiple_of(3) { (2.0, "outer") } else { (1.0, "inner") };
    let radius = radius + 0.2 * (place.uniform(1) - 0.5);
    ([radius * angle.cos(), radius * angle.sin(), 1.0], class)
}

/// `vectors.csv` and `labels.csv`: 300 ids, the last 20 without a label, and a label without a vector.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    let line = |i: usize| {
        let ([x, y, z], _) = ring(i);
        format!("v{i},{x},{y},{z}\n")
    };
    sandbox.put("vectors.csv", format!("id,x,y,z\n{}", (0..300).map(line).collect::<String>()));
    let label = |i: usize| format!("v{i},{}\n", ring(i).1);
    let labels: String = (0..280).rev().map(label).collect();
    sandbox.put("labels.csv", format!("id,label\n{labels}missing,inner\n"));
    sandbox
}

const DATA: &str = "--vectors vectors.csv --labels labels.csv";

/// Runs a line that must be refused with these words in its message.
fn refuses(sandbox: &Sandbox, line: &str, words: &str) {
    sandbox.refuses_like(line, |error| assert!(error.contains(words), "{line}: {error}"));
}

fn accuracy(evaluated: &Value, at: usize) -> f64 {
    evaluated["models"][at]["accuracy"]["value"].as_f64().unwrap()
}

#[test]
fn every_model_is_trained_evaluated_beside_baselines_and_applied() {
    let sandbox = sandbox();
    for (model, flags, least) in [
        ("logistic", "", 0.5),
        ("knn", "--grid k=1,5,15", 0.95),
        ("phi", "--grid output-dim=2,64", 0.95),
        ("mlp:16", "--test-share 0.1", 0.9),
    ] {
        let name = model.split(':').next().unwrap();
        let kind = if model == "mlp:16" { "train-net" } else { "train-classifier" };
        let trained = json(
            &sandbox,
            kind,
            &format!("train classifier --model {model} {flags} {DATA} --out {name}"),
        );
        assert_eq!(trained["model"], model);
        let about: Value =
            serde_json::from_str(&sandbox.text(&format!("{name}/run.json"))).unwrap();
        assert_eq!(about["classes"], value!(["inner", "outer"]));
        let evaluated = json(&sandbox, "evaluate-net", &format!("evaluate --run {name}"));
        assert_eq!(evaluated["models"][0]["runs"][0]["n"], 28);
        assert!(accuracy(&evaluated, 0) >= least, "{model}: {}", accuracy(&evaluated, 0));
        let names: Vec<&str> = evaluated["models"]
            .as_array()
            .unwrap()
            .iter()
            .map(|model| model["name"].as_str().unwrap())
            .collect();
        match model {
            "logistic" => assert_eq!(names, ["logistic", "majority class"]),
            "mlp:16" => assert_eq!(names, ["mlp"], "a network has no baselines"),
            _ => assert_eq!(names, [model, "majority class", "logistic"]),
        }
        // All labeled rows again, as other data: what `predict` says is what `evaluate` counts.
        sandbox.put("copy.csv", sandbox.text("vectors.csv"));
        let line = format!("evaluate --run {name} --data copy.csv --labels labels.csv");
        let again = json(&sandbox, "evaluate-net", &line);
        assert_eq!(again["models"][0]["runs"][0]["n"], 280);
        let line = format!("predict --run {name} --vectors vectors.csv --out {name}.csv");
        let said = json(&sandbox, "predict", &line);
        assert_eq!(said["rows"], 300);
        let table = sandbox.text(&format!("{name}.csv"));
        assert!(table.starts_with("id,predicted,p_inner,p_outer\nv0,"), "{table}");
        let mut right = 0;
        for (i, line) in table.lines().skip(1).enumerate() {
            let cells: Vec<&str> = line.split(',').collect();
            let shares: Vec<f64> = cells[2..].iter().map(|cell| cell.parse().unwrap()).collect();
            assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-6, "{line}");
            assert_eq!(cells[1], if shares[1] > shares[0] { "outer" } else { "inner" }, "{line}");
            right += usize::from(i < 280 && cells[1] == ring(i).1);
        }
        assert_eq!(right as f64 / 280.0, accuracy(&again, 0), "{model}");
    }
    let phi: Value = serde_json::from_str(&sandbox.text("phi/run.json")).unwrap();
    assert_eq!(
        (&phi["spec"]["output_dim"], &phi["results"]["output_dim"]),
        (&64.into(), &64.into())
    );
}

#[test]
fn a_run_of_vectors_and_seeds_and_a_replay() {
    let sandbox = sandbox();
    let line = format!("train classifier --model knn --k 3 {DATA}");
    sandbox.ok(&format!("{line} --out one --quiet --threads 1"));
    sandbox.ok("train --from one --out again --quiet --threads 3");
    let files = |name: &str| {
        let mut files = sandbox.below(name);
        files.retain(|path, _| path.file_name().is_none_or(|name| name != "log.jsonl"));
        files
    };
    assert!(files("one") == files("again"));
    sandbox.ok(&format!("train classifier {DATA} --seeds 2 --seed 4 --out all --quiet"));
    sandbox.ok(&format!("train classifier {DATA} --seed 5 --out five --quiet"));
    assert!(files("all/seed-5") == files("five"));
    let evaluated = json(&sandbox, "evaluate-net", "evaluate --run all");
    assert_eq!(evaluated["models"][0]["seeds"], value!([4, 5]));
    refuses(
        &sandbox,
        "predict --run all --vectors vectors.csv --out p.csv",
        "all is an ensemble; pass one of its seeds, such as all/seed-4",
    );
}

#[test]
fn what_cannot_be_learned_or_applied_is_said() {
    let sandbox = sandbox();
    sandbox.put("other.csv", "id,label\na,x\nb,y\n");
    refuses(
        &sandbox,
        "train classifier --vectors vectors.csv --labels other.csv --out r",
        "other.csv: 2 of 2 rows have ids that are not in the table, such as `a`; the ids must be those of the data",
    );
    sandbox.put("one.csv", "id,label\nv1,x\nv2,x\n");
    refuses(
        &sandbox,
        "train classifier --vectors vectors.csv --labels one.csv --out r",
        "one.csv: every labeled row has the class `x`; classification needs at least two classes",
    );
    refuses(&sandbox, "train classifier --labels labels.csv --out r", "--vectors TABLE");
    refuses(&sandbox, "train classifier --vectors vectors.csv --out r", "vectors need labels");
    refuses(
        &sandbox,
        &format!("train classifier --model forest {DATA} --out r"),
        "--model: there is no classifier `forest`; choose logistic, knn, phi or mlp:N",
    );
    refuses(
        &sandbox,
        &format!("train classifier --model knn --c 1 {DATA} --out r"),
        "--c is not a setting of --model knn",
    );
    assert!(!sandbox.path("r").exists() && !sandbox.path("r.partial").exists());
    sandbox.ok(&format!("train classifier {DATA} --out run --quiet"));
    sandbox.put("wide.csv", "id,a,b,c,d\nx,1,2,3,4\n");
    refuses(
        &sandbox,
        "predict --run run --vectors wide.csv --out p.csv",
        "the vectors have dimension 4, and run was trained on 3",
    );
    refuses(
        &sandbox,
        "predict --run run --text vectors.csv --out p.csv",
        "run takes --vectors, so --text does not apply; pass --vectors",
    );
    refuses(&sandbox, "predict --run run --out p.csv", "run takes --vectors");
    sandbox.put("labels.csv", sandbox.text("labels.csv").replacen("inner", "outer", 1));
    refuses(
        &sandbox,
        "evaluate --run run",
        "the vectors or labels of run have changed since training",
    );
    assert!(!sandbox.path("p.csv").exists());
}

/// The outputs of a network on a table without its target, in another order of columns, and its hidden layer.
#[test]
fn networks_of_tables_predict_and_embed_rows_without_targets() {
    let sandbox = sandbox();
    let row = |i: usize| {
        let ([x, y, z], class) = ring(i);
        format!("{x},{y},{z},{class},{i}\n")
    };
    let all: String = (0..200).map(row).collect();
    sandbox.put("t.csv", format!("x,y,z,kind,number\n{all}"));
    // The vector table with its labels is a table of examples too.
    let line = "train net --model mlp:16 --data vectors.csv --labels labels.csv --epochs 60 --lr 0.02 --batch 20";
    sandbox.ok(&format!("{line} --out rings --quiet"));
    sandbox.ok("predict --run rings --vectors vectors.csv --out rings.csv --quiet");
    let evaluated = json(&sandbox, "evaluate-net", "evaluate --run rings");
    assert!(accuracy(&evaluated, 0) >= 0.8, "{evaluated}");
    let line = "train net --model mlp:12,8 --data t.csv --target kind --ignore-columns number --epochs 30 --lr 0.02";
    sandbox.ok(&format!("{line} --batch 20 --out net --quiet"));
    let bare = |i: usize| {
        let ([x, y, z], _) = ring(i);
        format!("r{i},{z},{y},{x}\n")
    };
    sandbox.put("new.csv", format!("id,z,y,x\n{}", (0..200).map(bare).collect::<String>()));
    let said = json(&sandbox, "predict", "predict --run net --data new.csv --out p.csv");
    assert_eq!(said["rows"], 200);
    let table = sandbox.text("p.csv");
    assert!(table.starts_with("id,predicted,p_inner,p_outer\nr0,"), "{table}");
    let right = (table.lines().skip(1).zip(0..))
        .filter(|(line, i)| line.split(',').nth(1) == Some(ring(*i).1))
        .count();
    let evaluated = json(&sandbox, "evaluate-net", "evaluate --run net");
    assert_eq!(right as f64 / 200.0, accuracy(&evaluated, 0));
    sandbox.put("less.csv", "id,x,y\na,1,2\n");
    refuses(
        &sandbox,
        "predict --run net --data less.csv --out q.csv",
        "less.csv: there is no column `z`; the columns are `id`, `x`, `y`",
    );

    let embedded =
        json(&sandbox, "data-embed", "data embed --run net --data new.csv --out last.csv");
    assert_eq!((&embedded["rows"], &embedded["dim"]), (&200.into(), &8.into()));
    assert!(sandbox.text("last.csv").contains("\nr0,"));
    let embedded =
        json(&sandbox, "data-embed", "data embed --run net --data new.csv --layer 1 --out fc1.csv");
    assert_eq!(embedded["dim"], 12);
    refuses(
        &sandbox,
        "data embed --run net --data new.csv --layer fc9 --out no.csv",
        "net has no layer `fc9`; choose one of 0, 1, 2, 3, 4",
    );
    // A classifier on the last hidden layer: the head of the network again.
    sandbox.put(
        "kinds.csv",
        format!(
            "id,label\n{}",
            (0..200).map(|i| format!("r{i},{}\n", ring(i).1)).collect::<String>()
        ),
    );
    sandbox.ok("train classifier --vectors last.csv --labels kinds.csv --out head --quiet");
    let evaluated = json(&sandbox, "evaluate-net", "evaluate --run head");
    assert!(accuracy(&evaluated, 0) >= 0.9);
}

#[test]
fn images_are_classified_from_any_folder() {
    let sandbox = Sandbox::new();
    sandbox.ok("data generate images --images 60 --test-images 20 --size 8 --classes 3 --out images --quiet");
    sandbox.ok("train net --model cnn:4 --data images --epochs 2 --out net --quiet");
    let evaluated = json(&sandbox, "evaluate-net", "evaluate --run net");
    let n = evaluated["models"][0]["runs"][0]["n"].as_u64().unwrap();
    let said = json(&sandbox, "predict", "predict --run net --data images --out p.csv");
    assert_eq!(said["rows"].as_u64().unwrap(), n, "the test set");
    let table = sandbox.text("p.csv");
    let labels = sandbox.bytes("images/t10k-labels-idx1-ubyte")[8..].to_vec();
    let right = (table.lines().skip(1).zip(&labels))
        .filter(|(line, label)| line.split(',').nth(1) == Some(&*label.to_string()))
        .count();
    assert_eq!(right as f64 / n as f64, accuracy(&evaluated, 0));
    let embedded =
        json(&sandbox, "data-embed", "data embed --run net --data images --out h.parquet");
    assert_eq!(embedded["rows"].as_u64().unwrap(), n);
}

/// Scores of pairs are those by which `recommend` ranks.
#[test]
fn embeddings_score_pairs() {
    let sandbox = Sandbox::new();
    sandbox.ok("data generate shop --users 40 --items 30 --per-user 8 --out shop --quiet");
    let data = "--interactions shop/interactions.csv --split leave-last-one";
    for (method, flags) in [
        ("sasrec", "--dim 8 --epochs 2 --length 10"),
        ("two-tower", "--dim 8 --epochs 2 --length 10"),
        ("bpr", "--dim 8 --epochs 2"),
        ("als", "--dim 8 --epochs 2"),
        ("item2vec", "--dim 8 --epochs 2"),
        ("ppmi-svd", "--dim 8"),
        ("pop", ""),
        ("itemknn", ""),
        ("ease", ""),
    ] {
        sandbox.ok(&format!("train {method} {data} {flags} --out {method} --quiet"));
        sandbox.ok(&format!("recommend --run {method} --k 3 --out {method}-top.csv --quiet"));
        let top = sandbox.text(&format!("{method}-top.csv"));
        let pairs: String = top
            .lines()
            .skip(1)
            .map(|line| line.split(',').take(2).collect::<Vec<_>>().join(",") + "\n")
            .collect();
        sandbox.put("pairs.csv", format!("user,item\n{pairs}9999,3\n"));
        let line = format!("predict --run {method} --interactions pairs.csv --out {method}.csv");
        let said = json(&sandbox, "predict", &line);
        assert!(said["notes"][0].as_str().unwrap().starts_with("1 of 121 pairs"), "{said}");
        let scores = sandbox.text(&format!("{method}.csv"));
        let wanted = top.lines().skip(1).map(|line| line.rsplit_once(',').unwrap().0.to_owned());
        let got: Vec<&str> = scores.lines().skip(1).collect();
        for (want, got) in wanted.zip(&got) {
            assert_eq!(want, *got, "{method}");
        }
        assert_eq!(*got.last().unwrap(), "9999,3,");
    }
    // Predicted ratings have the error that is evaluated.
    let line = |i: u64| {
        let place = Stream::new(Seed::new(4).unwrap(), "ratings").at(0, i);
        let below = |k: u32, n: f64| (place.uniform(k) * n) as u64;
        format!("{},{},{}\n", below(0, 30.0), below(1, 20.0), 1 + below(2, 5.0))
    };
    sandbox.put("r.csv", format!("user,item,rating\n{}", (0..400).map(line).collect::<String>()));
    let rule = "--interactions r.csv --split random:0.2";
    sandbox.ok(&format!("data split {rule} --out parts --quiet"));
    let last = |line: &str| line.split(',').nth(2).unwrap().parse::<f64>().unwrap();
    for (run, method) in [("rated", "als --feedback explicit"), ("mf", "mf")] {
        sandbox.ok(&format!("train {method} {rule} --dim 4 --epochs 2 --out {run} --quiet"));
        let line = format!("predict --run {run} --interactions parts/test.csv --out {run}.csv");
        sandbox.ok(&format!("{line} --quiet"));
        let (test, rated) = (sandbox.text("parts/test.csv"), sandbox.text(&format!("{run}.csv")));
        let errors: Vec<f64> =
            test.lines().zip(rated.lines()).skip(1).map(|(a, b)| last(a) - last(b)).collect();
        let rmse = (errors.iter().map(|e| e * e).sum::<f64>() / errors.len() as f64).sqrt();
        let evaluated = json(&sandbox, "evaluate", &format!("evaluate --run {run}"));
        let want = evaluated["models"][0]["rmse"]["value"].as_f64().unwrap();
        assert!((rmse - want).abs() < 1e-6 * want, "{run}: {rmse} {want}");
    }
    refuses(
        &sandbox,
        "predict --run mf --out p.csv",
        "mf scores pairs of user and item; pass them with --interactions FILE",
    );
    refuses(
        &sandbox,
        "predict --run mf --text pairs.csv --out p.csv",
        "mf scores pairs of user and item, so --text does not apply; pass --interactions",
    );
    refuses(
        &sandbox,
        "predict --run none --text pairs.csv --out p.csv",
        "none is not a run folder",
    );
}
