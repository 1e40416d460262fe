//! The facade as a library: typed settings in, results out, without a command line.

use std::path::Path;

use serde_json::json;
use tempfile::TempDir;
use veridical::core::settings::SettingsLayer;
use veridical::core::{Job, Observer, Silent};
use veridical::embed::Method;
use veridical::io::{IfExists, Replace};
use veridical::prepare::{Generate, GeneratedKind, TablesOutput};
use veridical::settings::{RunOutput, Start};
use veridical::stability::{Limits, Samples, Settings, Stability};
use veridical::train::{Request, Train};
use veridical::{
    align, evaluate, featurize, recommend, refresh, similar, stability, train, vectors,
};

/// Generates interactions of 60 users with 80 items, as files.
fn shop() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("shop");
    let output = TablesOutput { out: out.as_path().into(), ..TablesOutput::default() };
    let generated = veridical::prepare::generate(&Generate {
        what: Some(GeneratedKind::Shop),
        users: 60,
        items: 80,
        per_user: 8,
        clusters: 3,
        output,
        ..Generate::default()
    });
    assert_eq!(generated.unwrap().rows, 480);
    folder
}

fn train(folder: &Path, seed: u64) -> train::Trained {
    let given = json!({
        "interactions": folder.join("shop/interactions.csv"), "seed": seed, "dim": 4, "epochs": 100,
        "split": "leave-last-one",
    });
    let layer = SettingsLayer::given(given.as_object().cloned().unwrap());
    let request = Request::new(Method::Bpr, &[layer]).unwrap();
    let out = Some(folder.join(format!("run-{seed}")).into());
    let output = RunOutput { out, ..RunOutput::default() };
    let start = Start { output, ..Start::default() };
    train::train(&Train { request, start }, &Job::silent()).unwrap()
}

#[test]
fn a_run_is_trained_evaluated_and_queried() {
    let folder = shop();
    let at = |name: &str| folder.path().join(name);
    let trained = train(folder.path(), 1);
    assert_eq!((trained.method, trained.runs.len()), ("bpr", 1));
    let job = Job::silent();

    let evaluation = evaluate::evaluate(
        &evaluate::Evaluate {
            run: vec![at("run-1").into()],
            baselines: Some(vec!["pop".into()]),
            k: vec![5],
            ..Default::default()
        },
        &job,
    );
    let evaluation = evaluation.unwrap();
    let names: Vec<Option<&str>> = evaluation.models.iter().map(|model| model.method).collect();
    assert_eq!((names, evaluation.test_rows), (vec![Some("bpr"), Some("pop")], 60));

    let out = at("recs.csv");
    let settings = recommend::Recommend {
        run: at("run-1").into(),
        k: 3,
        out: out.as_path().into(),
        ..Default::default()
    };
    let recommended = recommend::recommend(&settings, &job).unwrap();
    assert_eq!((recommended.users, recommended.rows), (60, 180));
    let again = recommend::recommend(&settings, &job).unwrap_err().to_string();
    assert!(
        again.contains("already exists; choose another name or replace it with ⟨force⟩"),
        "{again}"
    );
    let replace = Replace { force: true };
    recommend::recommend(&recommend::Recommend { replace, ..settings }, &job).unwrap();

    let settings = similar::Similar {
        run: at("run-1").into(),
        id: vec!["3".into()],
        k: 2,
        ..Default::default()
    };
    let found = similar::similar(&settings, &job).unwrap();
    assert_eq!((found[0].id.as_str(), found[0].neighbors.len()), ("3", 2));
    let none = similar::similar(&similar::Similar { k: 0, ..settings }, &job).unwrap_err();
    assert_eq!(none.to_string(), "⟨k⟩ must be at least 1, got 0");
}

#[test]
fn two_runs_are_compared_aligned_and_refreshed() {
    let folder = shop();
    let at = |name: &str| folder.path().join(name);
    train(folder.path(), 1);
    train(folder.path(), 2);
    let job = Job::silent();
    let samples = Samples { pairs: 200, kernel_ids: 100, ..Samples::default() };

    let settings = Stability {
        tables: vec![at("run-1").into(), at("run-2").into()],
        settings: Settings { samples: samples.clone(), ..Settings::default() },
        ..Stability::default()
    };
    let report = stability::stability(&settings, &job).unwrap();
    assert_eq!((report.tables.len(), report.passed), (2, None));
    let one = Stability { tables: vec![at("run-1").into()], ..settings };
    let refused = stability::stability(&one, &job).unwrap_err().to_string();
    assert!(refused.starts_with("a comparison needs at least two tables or runs"), "{refused}");

    let aligned = align::align(
        &align::Align {
            tables: vec![at("run-2").into()],
            reference: Some(at("run-1").into()),
            out: Some(at("aligned.parquet").into()),
            ..Default::default()
        },
        &job,
    );
    let aligned = aligned.unwrap();
    let certificate = aligned.tables[0].certificate.as_ref().unwrap();
    assert!(certificate.residual < certificate.residual_before.unwrap());

    std::fs::write(at("strict.toml"), "min-cka = 0.9999\n").unwrap();
    let strict = refresh::Refresh {
        reference: at("run-1").into(),
        new: at("run-2").into(),
        out: at("live").into(),
        limits: Limits::of_budget(at("strict.toml")),
        compare: Settings { samples, ..Settings::default() },
        ..Default::default()
    };
    let rejected = refresh::refresh(&strict, &job).unwrap();
    assert!(!rejected.published && rejected.gate().is_err());
    // Two short trainings differ in everything, and a limit on each aspect accepts that.
    let loose = "min-shared-ids = 0.5\nmin-cka = 0.0\nmin-nn-overlap = 0.0\nmax-procrustes-residual = 2.0\n\
                 max-outlier-ids = 1.0\nmax-norm-outliers = 1.0\nmax-norm-change = 1.0\n";
    std::fs::write(at("loose.toml"), loose).unwrap();
    let loose = refresh::Refresh { limits: Limits::of_budget(at("loose.toml")), ..strict };
    let published = refresh::refresh(&loose, &job).unwrap();
    assert!(published.published && at("live/current/_SUCCESS").exists());
    assert_eq!((rejected.version, published.version), ("1".to_owned(), "2".to_owned()));
    let left: Vec<_> = std::fs::read_dir(at("live")).unwrap().flatten().collect();
    let left = left.iter().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let unfinished: Vec<String> =
        left.filter(|name| name.starts_with('.') || name.contains("partial")).collect();
    assert!(unfinished.is_empty(), "{unfinished:?}");
}

#[test]
fn features_are_made_from_a_table() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let rows: String =
        (0..20).map(|i| format!("{i},{},{}\n", i * i % 7, (3 * i) % 5 + 1)).collect();
    std::fs::write(at("h.csv"), format!("id,a,b\n{rows}")).unwrap();
    let job = Job::silent();

    let data = Some(at("h.csv").into());
    let spec = featurize::new_spec(&featurize::NewSpec { data, ..Default::default() }).unwrap();
    assert_eq!((spec.input_dim(), spec.output_dim()), (2, 8));
    featurize::save_spec(&spec, &at("spec.json"), false).unwrap();
    let settings = featurize::Apply {
        input: at("h.csv").into(),
        output: at("phi.csv").into(),
        spec: Some(at("spec.json").into()),
        ..Default::default()
    };
    let applied = featurize::apply(&settings, &job).unwrap();
    assert_eq!((applied.tally.rows, applied.spec.spec_id.as_str()), (20, spec.spec_id()));
    let stats = vectors::SumUp { input: at("phi.csv").into(), ..Default::default() };
    let stats = vectors::stats(&stats, &job).unwrap();
    assert!((stats.norm_quantiles[2] - 1.0).abs() < 1e-5); // cos^2 + sin^2
    let plan = featurize::plan(&featurize::Plan::default(), &job).unwrap_err().to_string();
    assert!(plan.starts_with("pass a target error with ⟨epsilon E⟩"), "{plan}");
}

/// Canceling a job does not affect the next job of the process.
#[test]
fn a_job_that_is_canceled_leaves_others_alone() {
    let folder = shop();
    let out = Some(folder.path().join("run").into());
    let given = json!({
        "interactions": folder.path().join("shop/interactions.csv"), "dim": 4, "epochs": 2,
    });
    let request =
        Request::new(Method::Bpr, &[SettingsLayer::given(given.as_object().cloned().unwrap())])
            .unwrap();
    let output = RunOutput { out, ..RunOutput::default() };
    let settings = Train { request, start: Start { output, ..Start::default() } };
    let stopped = Job::silent();
    stopped.cancel.cancel();
    assert!(train::train(&settings, &stopped).unwrap_err().is_interrupted());
    let observer: &dyn Observer = &Silent;
    let resumed = Train {
        start: Start {
            output: RunOutput {
                existing: IfExists::Resume.into(),
                ..settings.start.output.clone()
            },
            ..settings.start.clone()
        },
        ..settings
    };
    assert_eq!(train::train(&resumed, &Job::new(observer)).unwrap().runs.len(), 1);
}
