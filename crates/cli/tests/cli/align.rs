//! `align`: outputs and errors.

use veridical::align::{ALIGNED_TO, MAP_ID, MapFile};
use veridical::features::{FeatureSpec, Normalize, directions};
use veridical::learn::{LinearMap, orthonormal};
use veridical_core::{Seed, Stream};
use veridical_data::{Ids, VectorTable, fingerprint};
use veridical_io::{ReadOptions, Source, TableReader};

use crate::common::*;

const DIM: usize = 6;

fn normals(n: usize, at: u64) -> Vec<f64> {
    let mut x = vec![0.0; n];
    Stream::new(Seed::new(3).unwrap(), "test/align").at(0, at).fill_normals(&mut x);
    x
}

fn rotation(dim: usize, at: u64) -> LinearMap {
    let matrix = orthonormal(&normals(dim * dim, at), dim);
    LinearMap { from: vec![0.0; dim], matrix, to: vec![0.0; dim] }
}

/// The table rotated, with noise, and with `new` additional rows.
fn retrained(table: &VectorTable, at: u64, noise: f32, new: usize) -> VectorTable {
    let extra: Vec<f32> = normals(new * table.dim, at + 1).iter().map(|&x| x as f32).collect();
    let rows = [table.vectors.clone(), extra].concat();
    let mut vectors = rotation(table.dim, at).apply(&rows);
    vectors.iter_mut().zip(normals(rows.len(), at + 2)).for_each(|(x, e)| *x += noise * e as f32);
    let Ids::Int(ids) = &table.ids else { panic!("integer ids") };
    let ids = ids.values().iter().copied().chain((0..new as i64).map(|i| 1_000_000 + i));
    VectorTable { ids: Ids::Int(ids.collect()), dim: table.dim, vectors }
}

/// `a.parquet`, and `b.parquet`: the same table rotated, with 20 new ids, in another order.
fn sandbox() -> Sandbox {
    let (sandbox, a) = (Sandbox::new(), rows(300, DIM));
    let b = retrained(&a, 10, 0.0, 20);
    let back: Vec<usize> = (0..b.n_rows()).rev().collect();
    let Ids::Int(ids) = &b.ids else { panic!("integer ids") };
    let b = VectorTable {
        ids: Ids::Int(back.iter().map(|&r| ids.value(r)).collect()),
        dim: DIM,
        vectors: back.iter().flat_map(|&r| b.row(r).to_vec()).collect(),
    };
    sandbox.put_table("a.parquet", &a).put_table("b.parquet", &b);
    sandbox
}

fn metadata(sandbox: &Sandbox, name: &str, key: &str) -> Option<String> {
    let source = Source::Path(sandbox.path(name));
    TableReader::open(&source, &ReadOptions::default()).unwrap().metadata(key)
}

fn largest_gap(x: &[f32], y: &[f32]) -> f32 {
    assert_eq!(x.len(), y.len());
    x.iter().zip(y).map(|(x, y)| (x - y).abs()).fold(0.0, f32::max)
}

const ALIGN: &str = "align --reference a.parquet b.parquet --out c.parquet --map map.safetensors";

/// Entries up to 5, each rounded to f32 twice: 5 * 2^-23 with a margin of ten.
#[test]
fn a_turned_table_comes_back_with_its_new_ids() {
    let sandbox = sandbox();
    let result = json(&sandbox, "align", ALIGN);
    let (a, c) = (sandbox.table("a.parquet"), sandbox.table("c.parquet"));
    assert_eq!(c.n_rows(), 320);
    assert_eq!(c.ids, sandbox.table("b.parquet").ids);
    for r in 0..300 {
        assert!(largest_gap(a.row(r), c.row(319 - r)) < 1e-5, "row {r}");
    }
    let new: Vec<f32> = normals(20 * DIM, 11).iter().map(|&x| x as f32).collect();
    for r in 0..20 {
        assert!(largest_gap(&new[r * DIM..][..DIM], c.row(19 - r)) < 1e-5, "new id {r}");
    }
    let table = &result["tables"][0];
    assert_eq!(table["kind"], "rotation");
    let certificate = &table["certificate"];
    assert_eq!((&certificate["shared"], &certificate["held_out"]), (&300.into(), &30.into()));
    assert!(certificate["residual"].as_f64().unwrap() < 1e-6);
    assert!(certificate["residual_before"].as_f64().unwrap() > 0.5);
    assert!((certificate["mean_cosine"].as_f64().unwrap() - 1.0).abs() < 1e-9);

    let fingerprint = fingerprint::of_table(&a);
    assert_eq!(result["reference_fingerprint"], fingerprint);
    let file = MapFile::load(&sandbox.path("map.safetensors")).unwrap();
    assert_eq!(
        (table["map_id"].as_str().unwrap(), &file.reference),
        (&*file.map_id(), &fingerprint)
    );
    assert_eq!(metadata(&sandbox, "c.parquet", ALIGNED_TO).unwrap(), fingerprint);
    assert_eq!(metadata(&sandbox, "c.parquet", MAP_ID).unwrap(), file.map_id());
}

#[test]
fn the_text_says_how_good_the_map_is() {
    let sandbox = sandbox();
    let text = sandbox
        .ok(&format!("{ALIGN} --onnx map.onnx --reference-date 2026-02-27 --date 2026-03-02"));
    let file = MapFile::load(&sandbox.path("map.safetensors")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], format!("b.parquet: rotation 6 -> 6, map {}", file.map_id()));
    assert_eq!(lines[1], "  fitted on 270 of 300 shared ids, 30 held out");
    assert!(lines[2].starts_with("  held-out ids: residual 0.0000 (before "), "{text}");
    assert_eq!(lines[3], "  the reference is 3 days older than the table");
    assert_eq!(
        lines[4..7],
        [
            "  map written to map.safetensors",
            "  ONNX written to map.onnx",
            "  320 rows written to c.parquet",
        ]
    );
    assert_eq!(file.dates.unwrap().age_days(), 3);
}

#[test]
fn aligning_again_turns_nothing_and_a_saved_map_does_the_same_as_its_fit() {
    let sandbox = sandbox();
    sandbox.ok(ALIGN);
    sandbox.ok("align --reference a.parquet c.parquet --out d.parquet --map again.safetensors");
    let again = MapFile::load(&sandbox.path("again.safetensors")).unwrap().map.matrix;
    let identity = LinearMap::identity(DIM).matrix;
    assert!(again.iter().zip(identity).all(|(x, y)| (x - y).abs() < 1e-6));

    sandbox.ok("align --apply map.safetensors b.parquet --out e.parquet");
    assert!(sandbox.bytes("e.parquet") == sandbox.bytes("c.parquet"));
    sandbox.ok("align --apply map.safetensors --reference a.parquet b.parquet --out f.parquet");
    sandbox.refuses_like(
        "align --apply map.safetensors --reference d.parquet b.parquet --out g.parquet",
        |e| {
            assert!(e.starts_with("map.safetensors maps to the table content:"), "{e}");
        },
    );
}

#[test]
fn bytes_depend_on_the_tables_alone() {
    let sandbox = Sandbox::new();
    let a = rows(30_000, 16);
    sandbox.put_table("a.parquet", &a).put_table("b.parquet", &retrained(&a, 50, 0.1, 10));
    sandbox.put("b.csv", csv(&sandbox.table("b.parquet")));
    let run = |flags: &str| {
        sandbox.ok(&format!("{ALIGN} --sample 20000 --force {flags}"));
        (sandbox.bytes("c.parquet"), sandbox.bytes("map.safetensors"))
    };
    let one = run("--threads 1");
    for flags in ["--threads 2", "--threads 5", "--chunk-rows 77"] {
        assert!(run(flags) == one, "{flags}");
    }
    sandbox.ok("align --reference a.parquet b.csv --sample 20000 --map csv.safetensors");
    assert!(sandbox.bytes("csv.safetensors") == one.1);
    assert!(run("--seed 1").1 != one.1, "other anchors are held out");
}

#[test]
fn a_job_that_ran_out_of_room_goes_on() {
    let sandbox = Sandbox::new();
    let a = rows(200_000, 4);
    sandbox.put_table("a.parquet", &a).put_table("b.parquet", &retrained(&a, 60, 0.1, 0));
    sandbox.ok("align --reference a.parquet b.parquet --out whole.parquet");
    let stopped = sandbox.shell(&format!("(ulimit -f 3000; trap '' XFSZ; veridical {ALIGN})"));
    assert_eq!(stopped.code, Some(2), "{stopped:?}");
    assert!(sandbox.has("c.parquet.partial") && !sandbox.has("c.parquet"));
    sandbox.ok(&format!("{ALIGN} --resume"));
    assert!(sandbox.bytes("c.parquet") == sandbox.bytes("whole.parquet"));
    assert!(!sandbox.has("c.parquet.partial"));
}

/// a = b M + t with dimension 9 for b and 5 for a: a linear map finds it, to the rounding of f32.
#[test]
fn tables_of_unequal_widths_need_a_linear_map() {
    let sandbox = Sandbox::new();
    let b = rows(400, 9);
    let planted = LinearMap { from: vec![0.0; 9], matrix: normals(45, 70), to: normals(5, 71) };
    let a = VectorTable { dim: 5, vectors: planted.apply(&b.vectors), ..b.clone() };
    sandbox.put_table("a.parquet", &a).put_table("b.parquet", &b);
    sandbox.refuses(
        &format!("{ALIGN} --method procrustes"),
        "b.parquet has vectors of dimension 9 and a.parquet of dimension 5; a rotation needs equal dimensions: use --method ridge \
         (any linear map) or --method low-rank --rank K, without --scale and --center",
    );
    let result = json(&sandbox, "align", ALIGN);
    assert_eq!(result["tables"][0]["kind"], "ridge");
    assert_eq!(result["tables"][0]["ridge"], 1e-8);
    assert!(result["tables"][0]["certificate"]["residual"].as_f64().unwrap() < 1e-5);
    assert!(largest_gap(&sandbox.table("c.parquet").vectors, &a.vectors) < 1e-4);
    let line = format!("{ALIGN} --force --method low-rank --rank");
    let residual = |rank: usize| {
        let result = json(&sandbox, "align", &format!("{line} {rank}"));
        assert_eq!(result["tables"][0]["kind"], "low-rank");
        result["tables"][0]["certificate"]["residual"].as_f64().unwrap()
    };
    assert!(residual(5) < 1e-5 && residual(2) > 1e-3);
    sandbox.refuses(
        &format!("{line} 6"),
        "--rank must be between 1 and 5, the smaller dimension, got 6",
    );
}

#[test]
fn scale_and_translation_are_found_when_asked_for() {
    let sandbox = Sandbox::new();
    let a = rows(200, DIM);
    let mut planted = rotation(DIM, 80);
    planted.matrix.iter_mut().for_each(|x| *x *= 3.0);
    planted.to = normals(DIM, 81);
    let b = VectorTable { vectors: planted.apply(&a.vectors), ..a.clone() };
    sandbox.put_table("a.parquet", &a).put_table("b.parquet", &b);
    let result = json(&sandbox, "align", &format!("{ALIGN} --scale --center"));
    assert_eq!(result["tables"][0]["kind"], "similarity");
    assert!(largest_gap(&sandbox.table("c.parquet").vectors, &a.vectors) < 1e-4);
}

#[test]
fn anchors_can_be_named_or_taken_by_weight() {
    let sandbox = sandbox();
    let ids: Vec<String> = (0..40).map(|i| (3 * i + 1).to_string()).collect();
    sandbox.put("anchors.txt", ids.join("\n") + "\n");
    let weights: String = (0..300).map(|i| format!("{},{}\n", 3 * i + 1, 300 - i)).collect();
    sandbox.put("weights.csv", format!("id,popularity\n{weights}"));
    let shared = |flags: &str| {
        let line =
            format!("align --reference a.parquet b.parquet --map m.safetensors --force {flags}");
        let result = json(&sandbox, "align", &line);
        let map = MapFile::load(&sandbox.path("m.safetensors")).unwrap();
        (result["tables"][0]["certificate"]["shared"].as_u64().unwrap(), map.map)
    };
    let named = shared("--anchors anchors.txt");
    assert_eq!(named.0, 40);
    assert_eq!(shared("--anchor-weights weights.csv --anchors-top 40"), named);
    sandbox.put("weights.csv", "id,popularity\n1,many\n");
    sandbox.refuses(
        &format!("{ALIGN} --anchor-weights weights.csv --anchors-top 40"),
        "weights.csv: line 2: weight: `many` is not a number of at least 0",
    );
    sandbox.put("anchors.txt", "nobody\n");
    sandbox.refuses(
        &format!("{ALIGN} --anchors anchors.txt"),
        "none of the ids of --anchors is among the 300 ids that a.parquet and b.parquet share; the file must contain \
         ids of the tables",
    );
}

#[test]
fn several_tables_go_to_a_folder_each_aligned_to_the_one_reference() {
    let sandbox = Sandbox::new();
    let a = rows(300, DIM);
    sandbox.put_table("a.parquet", &a);
    for (i, name) in ["x", "y"].into_iter().enumerate() {
        sandbox.put_table(&format!("{name}.parquet"), &retrained(&a, 90 + 10 * i as u64, 0.05, 3));
    }
    let line = "align --reference a.parquet x.parquet y.parquet --out out --map maps";
    let result = json(&sandbox, "align", line);
    assert_eq!(result["tables"].as_array().unwrap().len(), 2);
    sandbox.ok(
        "align --reference a.parquet y.parquet --out y-alone.parquet --map y-alone.safetensors",
    );
    assert!(sandbox.bytes("out/y.parquet") == sandbox.bytes("y-alone.parquet"));
    assert!(sandbox.bytes("maps/y.safetensors") == sandbox.bytes("y-alone.safetensors"));
    assert!(sandbox.has("out/x.parquet") && sandbox.has("maps/x.safetensors"));
    sandbox.refuses(
        line,
        "maps/x.safetensors already exists; choose another name or replace it with --force",
    );
    sandbox.refuses(
        "align --reference a.parquet x.parquet out/x.parquet --out other",
        "two tables would be written to x.parquet: out/x.parquet and another table have the same name; rename one of them",
    );
}

/// The mean of three tables with independent noise of variance s^2 is off by s^2 / 3, the tables by s^2.
#[test]
fn a_common_mean_is_nearer_to_the_truth_than_a_table() {
    let sandbox = Sandbox::new();
    let truth = rows(300, DIM);
    for (i, name) in ["a", "b", "c"].into_iter().enumerate() {
        let table = retrained(&truth, 120 + 10 * i as u64, 0.2, 0);
        sandbox.put_table(&format!("{name}.parquet"), &table);
    }
    let line = "align --reference a.parquet b.parquet c.parquet --generalized --out out";
    let result = json(&sandbox, "align", line);
    assert_eq!(result["mean"], "out/mean.parquet");
    let mean = sandbox.table("out/mean.parquet");
    assert_eq!(result["reference_fingerprint"], fingerprint::of_table(&mean));
    assert!(sandbox.has("out/b.parquet") && sandbox.has("out/c.parquet"));
    sandbox.put_table("truth.parquet", &truth);
    let residual = |name: &str| {
        let line = format!("align --reference truth.parquet {name} --map m.safetensors --force");
        let result = json(&sandbox, "align", &line);
        result["tables"][0]["certificate"]["residual"].as_f64().unwrap()
    };
    let ratio = residual("out/mean.parquet") / residual("a.parquet");
    // sqrt(1/3) = 0.58; 30 rows of 6 values are held out, so the ratio is known to a tenth or so.
    assert!((0.4..0.8).contains(&ratio), "{ratio}");
}

#[test]
fn a_reference_that_is_itself_aligned_is_a_chain() {
    let sandbox = sandbox();
    sandbox.ok(ALIGN);
    let fingerprint = fingerprint::of_table(&sandbox.table("a.parquet"));
    let line = "align --reference c.parquet b.parquet --out d.parquet";
    sandbox.refuses(
        line,
        &format!(
            "c.parquet is itself aligned, to the table {fingerprint}: errors accumulate along a chain of days; align to \
             that original table, or pass --allow-chain"
        ),
    );
    sandbox.ok(&format!("{line} --allow-chain"));
}

#[test]
fn tables_that_cannot_be_aligned_are_refused() {
    let sandbox = sandbox();
    let a = sandbox.table("a.parquet");
    let few = slice(&a, 0, 11);
    let renamed = VectorTable { ids: Ids::Int((0..300).map(|i| -1 - i).collect()), ..a.clone() };
    let twice = VectorTable {
        ids: Ids::Int((0..300).map(|i| if i == 7 { 1 } else { 3 * i + 1 }).collect()),
        ..a.clone()
    };
    let constant = VectorTable { vectors: vec![0.5; 300 * DIM], ..a.clone() };
    let named = VectorTable {
        ids: Ids::Text((0..300).map(|i| Some(format!("x{i}"))).collect()),
        ..a.clone()
    };
    for (name, table) in [
        ("few", &few),
        ("renamed", &renamed),
        ("twice", &twice),
        ("constant", &constant),
        ("named", &named),
    ] {
        sandbox.put_table(&format!("{name}.parquet"), table);
    }
    let mut nan = csv(&a);
    nan = nan.replacen('\n', "\n1000,NaN,0,0,0,0,0\n", 1);
    sandbox.put("nan.csv", nan);
    let refuses = |table: &str, message: &str| {
        sandbox.refuses(&format!("align --reference a.parquet {table} --out c.parquet"), message);
    };
    refuses(
        "few.parquet",
        "a.parquet and few.parquet share only 11 ids, and a map between vectors of dimension 6 needs at least 12 (2 x \
         dimension); check that both tables use the same ids, use more anchors, or train with fewer dimensions",
    );
    refuses(
        "renamed.parquet",
        "a.parquet and renamed.parquet share no id: ids of the first look like 1, ids of the second like -1; align \
         tables with the same ids (--id-column chooses the column)",
    );
    refuses(
        "twice.parquet",
        "twice.parquet: the id 1 occurs twice, in rows 0 and 7; drop one of them, or pass --on-duplicate-id \
         first or --on-duplicate-id mean",
    );
    refuses(
        "constant.parquet",
        "constant.parquet: all vectors are equal; there is nothing to compare; was it written before training?",
    );
    refuses(
        "named.parquet",
        "named.parquet has text ids and a.parquet has integer ids; pass --text-ids to read all ids as text, or \
         name the rows of a table without ids with --ids",
    );
    sandbox.refuses_like("align --reference a.parquet nan.csv --out c.parquet", |error| {
        assert!(error.starts_with("nan.csv: ") && error.contains("--on-nan skip"), "{error}");
    });
    sandbox.ok("align --reference a.parquet nan.csv --on-nan skip --out nan.parquet");
    refuses(
        "absent.parquet",
        "absent.parquet: cannot open: No such file or directory (os error 2)",
    );
}

#[test]
fn flags_that_do_not_go_together_are_refused() {
    let sandbox = sandbox();
    let refuses =
        |flags: &str, message: &str| sandbox.refuses(&format!("{ALIGN} {flags}"), message);
    refuses(
        "--method ridge --scale",
        "--scale and --center require --method procrustes; linear maps include both",
    );
    refuses("--method procrustes --ridge 1", "--ridge requires --method ridge or low-rank");
    refuses("--method low-rank", "--method low-rank needs --rank K");
    refuses("--method ridge --rank 2", "--rank requires --method low-rank");
    refuses("--ridge=-1", "--ridge must be a number that is not negative, got -1");
    refuses(
        "--sample 3",
        "--sample 3 is too small for vectors of dimension 6: at least 12 anchors (2 x dimension) are needed; use a larger \
         sample or leave it out",
    );
    refuses(
        "--reference-date 2026-02-30 --date 2026-03-01",
        "--reference-date must be a date such as 2026-03-31, got `2026-02-30`",
    );
    refuses(
        "--generalized --scale",
        "--generalized fits rotations: leave out --method, --scale, --center, --ridge and --rank",
    );
    sandbox.refuses(
        "align --reference a.parquet b.parquet",
        "pass an output: --out for the aligned table, --map or --onnx for the map",
    );
}

#[test]
fn maps_that_are_none_or_of_another_width_are_refused() {
    let sandbox = sandbox();
    sandbox.ok(ALIGN);
    let apply = "align --apply m.safetensors b.parquet --out d.parquet";
    let whole = sandbox.bytes("map.safetensors");
    sandbox.put("m.safetensors", &whole[..whole.len() - 8]);
    sandbox.finds_malformed(apply, "m.safetensors", "safetensors");
    let mut changed = whole.clone();
    let last = changed.len() - DIM * 8 - 9;
    changed[last] ^= 1;
    sandbox.put("m.safetensors", &changed);
    sandbox.refuses(
        apply,
        "m.safetensors: its values do not match its map_id: the file was changed or damaged; fit it again",
    );
    sandbox.put_table("m.safetensors", &rows(10, 3));
    sandbox.refuses(
        apply,
        "m.safetensors: is not a map: it has no `from`; `veridical align --map` writes one",
    );
    sandbox.put_table("narrow.parquet", &rows(50, 4));
    sandbox.refuses(
        "align --apply map.safetensors narrow.parquet --out d.parquet",
        "narrow.parquet: the vectors have dimension 4 but the map expects 6; the map was fitted for another table; fit one \
         for this table with --reference",
    );
    sandbox.put("spec.json", FeatureSpec::params(4, 8).build().unwrap().to_json());
    sandbox.refuses(
        "featurize export --spec spec.json --map map.safetensors --out phi.onnx",
        "the map returns vectors of dimension 6 but the spec expects 4; use the spec of the reference that the map aligns to",
    );
}

/// `next:` of `align` is to compare what it wrote with the reference.
#[test]
fn a_table_that_is_aligned_is_not_to_be_aligned_again() {
    let (sandbox, a) = (Sandbox::new(), rows(300, DIM));
    sandbox.put_table("a.parquet", &a).put_table("b.parquet", &retrained(&a, 10, 0.3, 0));
    sandbox.ok("align --reference a.parquet b.parquet --out c.parquet");
    let before = sandbox.ok("stability a.parquet b.parquet --html b.html");
    assert!(before.contains("\n  use: aligned (alignment restores"), "{before}");
    let after = sandbox.ok("stability a.parquet c.parquet --html c.html");
    assert!(
        after.contains("\n  use: the vectors as they are (they are aligned already)"),
        "{after}"
    );
    assert!(
        sandbox.text("c.html").contains("Use the vectors as they are: they are aligned already.")
    );
    assert!(!sandbox.text("c.html").contains("makes them"));
}

#[test]
fn a_certificate_that_was_edited_is_refused_and_an_older_map_without_its_digest_is_noted() {
    use veridical_io::models::affine;

    let sandbox = sandbox();
    sandbox.ok(&format!("{ALIGN} --reference-date 2026-01-01 --date 2026-01-05"));
    let (map, metadata) = affine::read(&sandbox.path("map.safetensors")).unwrap();
    let apply = "align --apply m.safetensors b.parquet --out d.parquet --force";
    let with = |changes: &[(&str, Option<&str>)]| {
        let mut metadata = metadata.clone();
        for (key, value) in changes {
            assert!(metadata.remove(*key).is_some(), "{key}");
            metadata.extend(value.map(|value| ((*key).to_owned(), value.to_owned())));
        }
        affine::write(&map, &metadata, &sandbox.path("m.safetensors")).unwrap();
    };
    for (key, value) in [
        ("residual", "0.000001"),
        ("held_out", "99"),
        ("anchors", "1000000"),
        ("date", "2026-01-02"),
    ] {
        with(&[(key, Some(value))]);
        sandbox.refuses(
            apply,
            "m.safetensors: its certificate or its dates do not match its certificate_id: the file was changed or damaged; \
             fit it again",
        );
    }
    let unverified = "m.safetensors: the map is from before certificates had a digest: its certificate is unverified";
    with(&[("certificate_id", None)]);
    let outcome = sandbox.run(apply);
    assert!(outcome.code == Some(0) && outcome.stderr.contains(unverified), "{outcome:?}");
    with(&[]);
    let outcome = sandbox.run(apply);
    assert!(outcome.code == Some(0) && !outcome.stderr.contains("unverified"), "{outcome:?}");
}

/// phi(hR; U) = phi(h; UR'): U in f32 is off by 2^-24 of entries of size up to 5, six of them in a projection.
#[test]
fn a_rotation_folds_into_the_directions() {
    let sandbox = sandbox();
    sandbox.ok(ALIGN);
    for normalize in [Normalize::None, Normalize::Unit] {
        let spec = FeatureSpec::params(DIM, 32).seed(5).normalize(normalize).build().unwrap();
        sandbox.put("spec.json", spec.to_json());
        sandbox.ok("featurize apply --spec spec.json c.parquet phi.parquet --force");
        let want = sandbox.table("phi.parquet");
        let line = "featurize export --spec spec.json --map map.safetensors --force --out";
        let result = json(&sandbox, "featurize", &format!("{line} u.safetensors"));
        assert_eq!(result["map"]["folded"], true);
        let u = veridical_io::run::read_tensors(&sandbox.path("u.safetensors")).unwrap();
        let u = &u["directions"].1;
        assert_ne!(*u, directions::matrix(&spec));
        let b = sandbox.table("b.parquet");
        let rows =
            spec.normalize().rows(veridical_core::Rows::new(&b.vectors, DIM).unwrap()).unwrap();
        for (r, h) in rows.chunks(DIM).enumerate() {
            for (j, u) in u.chunks(DIM).enumerate() {
                let a: f64 = u.iter().zip(h).map(|(u, h)| f64::from(*u) * f64::from(*h)).sum();
                let phi = [a.cos() / 4.0, a.sin() / 4.0];
                for (k, phi) in phi.into_iter().enumerate() {
                    assert!((phi - f64::from(want.row(r)[2 * j + k])).abs() < 1e-5, "{r} {j}");
                }
            }
        }
        // The same graph: what differs is a line of description and the name of the map.
        sandbox.ok(&format!("{line} with.onnx"));
        sandbox.ok("featurize export --spec spec.json --force --out without.onnx");
        let gap = sandbox.bytes("with.onnx").len() - sandbox.bytes("without.onnx").len();
        assert!(gap < 64 + 64 + 60, "{gap} bytes more");
    }
}

#[test]
fn other_maps_stay_a_separate_step() {
    let sandbox = sandbox();
    let mut b = sandbox.table("b.parquet");
    b.vectors.iter_mut().for_each(|x| *x *= 2.0);
    sandbox.put_table("b.parquet", &b);
    sandbox.ok(&format!("{ALIGN} --scale"));
    sandbox.put("spec.json", FeatureSpec::params(DIM, 8).build().unwrap().to_json());
    let line = "featurize export --spec spec.json --map map.safetensors";
    let result = json(&sandbox, "featurize", &format!("{line} --out phi.onnx"));
    assert_eq!(result["map"]["folded"], false);
    sandbox.ok(&format!("{line} --to saved-model --out model"));
    sandbox.refuses(
        &format!("{line} --out u.safetensors"),
        "this map cannot be folded into the directions (only a rotation can, under normalize none or unit); export \
         with --to onnx or saved-model, which keep the map as a separate step",
    );
    sandbox.refuses(
        &format!("{line} --to conformance --out values"),
        "--map cannot be combined with --to conformance, which tests phi alone",
    );
    // Columns that are scaled do not commute with a rotation either.
    sandbox.ok(&format!("{ALIGN} --force"));
    sandbox.ok("featurize new --data a.parquet --normalize standardize --out standard.json");
    let line = "featurize export --spec standard.json --map map.safetensors --out standard.onnx";
    assert_eq!(json(&sandbox, "featurize", line)["map"]["folded"], false);
}
