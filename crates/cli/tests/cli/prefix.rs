//! `vectors convert --prefix`: features cut to those of a shorter map.

use veridical_data::VectorTable;

use crate::common::*;

const ROWS: usize = 300;
const WIDTH: usize = 30;

/// `t.parquet`, `s.json` with the family, `phi.parquet` with its features and `half.parquet` with them
/// in f16.
fn sandbox(family: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.put_table("t.parquet", &named_rows(ROWS, 5));
    sandbox.ok(&format!(
        "featurize new --data t.parquet --output-dim {WIDTH} --directions {family} --out s.json"
    ));
    sandbox.ok("featurize apply --spec s.json t.parquet phi.parquet");
    sandbox.ok("featurize apply --spec s.json t.parquet half.parquet --dtype f16");
    sandbox
}

/// The largest |a - b| / (|b| + `small`).
fn distance(a: &VectorTable, b: &VectorTable, small: f64) -> f64 {
    assert_eq!((&a.ids, a.dim), (&b.ids, b.dim));
    let error = |(a, b): (&f32, &f32)| {
        let (a, b) = (f64::from(*a), f64::from(*b));
        (a - b).abs() / (b.abs() + small)
    };
    a.vectors.iter().zip(&b.vectors).map(error).fold(0.0, f64::max)
}

/// Half a unit in the last place of f32 and of f16, relative.
const SINGLE: f64 = 1.0 / (1u32 << 24) as f64;
const HALF: f64 = 1.0 / (1u32 << 11) as f64;

/// A feature is f32(f32(1 / sqrt(m)) * cos): two roundings for each of the maps, and one of the product
/// with sqrt(D / D'), to first order.
#[test]
fn a_prefix_of_phi_is_the_phi_of_the_shorter_map() {
    for family in ["orthogonal", "hadamard"] {
        let sandbox = sandbox(family);
        for width in [2, 8, 22] {
            sandbox
                .ok(&format!("vectors convert phi.parquet cut.parquet --prefix {width} --force"));
            sandbox.ok(&format!(
                "featurize apply --spec s.json --output-dim {width} t.parquet want.parquet --force"
            ));
            let (cut, want) = (sandbox.table("cut.parquet"), sandbox.table("want.parquet"));
            let error = distance(&cut, &want, 0.0);
            assert!(error <= 5.01 * SINGLE, "{family} {width}: {error:e}");
            let norm = |row: &[f32]| row.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
            assert!((0..ROWS).all(|r| (norm(cut.row(r)) - 1.0).abs() < 1e-6));
        }
    }
}

/// One more rounding on each side, to half: relative above 2^-14 and 2^-25 below, which is half of
/// 2^-11 of 2^-14. Stored in f16, phi itself was rounded before.
#[test]
fn a_prefix_in_f16_is_within_its_roundings() {
    let sandbox = sandbox("orthogonal");
    sandbox.ok("featurize apply --spec s.json --output-dim 8 t.parquet want.parquet --dtype f16");
    let want = sandbox.table("want.parquet");
    for (phi, roundings) in [("phi", 2.0), ("half", 3.0)] {
        sandbox.ok(&format!(
            "vectors convert {phi}.parquet cut.parquet --prefix 8 --dtype f16 --force"
        ));
        let stats = json(&sandbox, "vectors", "vectors stats cut.parquet");
        assert_eq!(stats["dtype"], "f16");
        // sqrt(D / D') < 2 also stretches the absolute error of small values.
        let error = distance(&sandbox.table("cut.parquet"), &want, 2f64.powi(-13));
        assert!(error <= roundings * HALF * 1.001 + 6.0 * SINGLE, "{phi}: {error:e}");
    }
    // From f16 to f32, and in two steps: to f32, then to f16.
    sandbox.ok("vectors convert half.parquet wide.parquet --prefix 8");
    sandbox.ok("vectors convert wide.parquet two-steps.parquet --dtype f16");
    assert_eq!(sandbox.table("two-steps.parquet"), sandbox.table("cut.parquet"));
}

#[test]
fn a_prefix_is_the_same_through_every_format() {
    let sandbox = sandbox("orthogonal");
    let phi = sandbox.table("phi.parquet");
    let scale = (WIDTH as f64 / 8.0).sqrt();
    let scaled = |x: &f32| (f64::from(*x) * scale) as f32;
    let vectors = phi.vectors.chunks_exact(WIDTH).flat_map(|row| row[..8].iter().map(scaled));
    let want = VectorTable { ids: phi.ids.clone(), dim: 8, vectors: vectors.collect() };
    for format in ["parquet", "arrow", "safetensors", "csv", "tsv"] {
        sandbox.ok(&format!("vectors convert phi.parquet whole.{format} --force"));
        let line = format!("vectors convert whole.{format} cut.{format} --prefix 8");
        let result = json(&sandbox, "vectors", &line);
        assert_eq!((&result["dim"], &result["rows"]), (&8.into(), &ROWS.into()));
        assert_eq!(sandbox.table(&format!("cut.{format}")), want, "{format}");
        sandbox.ok(&format!("vectors convert cut.{format} back.parquet --force"));
        assert_eq!(sandbox.table("back.parquet"), want, "{format}");
    }
    sandbox.ok("vectors convert phi.parquet cut.npy --prefix 8 --drop-ids");
    assert_eq!(sandbox.table("cut.npy").vectors, want.vectors);
    sandbox.ok("vectors convert phi.parquet parts --prefix 8 --rows-per-part 70");
    assert_eq!(sandbox.table("parts"), want);
    let piped = sandbox.shell(
        "veridical -q vectors convert phi.parquet - --prefix 8 | veridical -q vectors convert - piped.parquet",
    );
    assert_eq!(piped.code, Some(0), "{piped:?}");
    assert_eq!(sandbox.table("piped.parquet"), want);
}

#[test]
fn the_whole_width_is_no_change() {
    let sandbox = sandbox("orthogonal");
    sandbox.ok(&format!("vectors convert phi.parquet same.parquet --prefix {WIDTH}"));
    sandbox.ok("vectors convert phi.parquet plain.parquet");
    assert!(sandbox.bytes("same.parquet") == sandbox.bytes("plain.parquet"));
}

/// One rounding more than in one step.
#[test]
fn a_prefix_of_a_prefix_is_a_prefix() {
    let sandbox = sandbox("orthogonal");
    sandbox.ok("vectors convert phi.parquet a.parquet --prefix 20");
    sandbox.ok("vectors convert a.parquet b.parquet --prefix 6");
    sandbox.ok("vectors convert phi.parquet c.parquet --prefix 6");
    let error = distance(&sandbox.table("b.parquet"), &sandbox.table("c.parquet"), 0.0);
    assert!(error <= 3.01 * SINGLE, "{error:e}");
}

#[test]
fn threads_and_chunks_do_not_change_a_prefix() {
    let sandbox = sandbox("hadamard");
    let of = |flags: &str| {
        sandbox.ok(&format!("vectors convert phi.parquet cut.parquet --prefix 8 --force {flags}"));
        sandbox.bytes("cut.parquet")
    };
    let want = of("--threads 1");
    for flags in ["--threads 2", "--chunk-rows 1", "--chunk-rows 77 --threads 7"] {
        assert!(of(flags) == want, "{flags}");
    }
}

#[test]
fn columns_follow_the_rows_of_a_prefix() {
    let sandbox = Sandbox::new();
    sandbox.put("t.csv", "id,title,a,b,c,d\n1,x,1,2,3,4\n2,y,5,6,7,8\n");
    sandbox.ok("vectors convert t.csv out.csv --prefix 4 --keep-columns title");
    assert_eq!(sandbox.text("out.csv"), "id,v0,v1,v2,v3,title\n1,1,2,3,4,x\n2,5,6,7,8,y\n");
}

#[test]
fn a_prefix_that_is_odd_zero_or_too_long_is_refused() {
    let sandbox = sandbox("orthogonal");
    for d in [0, 1, 7] {
        sandbox.refuses(
            &format!("vectors convert phi.parquet cut.parquet --prefix {d}"),
            &format!(
                "--prefix must be even and at least 2 (a cosine and a sine for each direction), got {d}"
            ),
        );
    }
    sandbox.refuses(
        "vectors convert phi.parquet cut.parquet --prefix 32",
        "--prefix must be at most 30, the dimension of the vectors in phi.parquet, got 32",
    );
}

#[test]
fn a_prefix_of_what_is_no_table_of_features_is_refused() {
    let sandbox = sandbox("orthogonal");
    sandbox.refuses(
        "vectors convert t.parquet cut.parquet --prefix 2",
        "t.parquet: the vectors have dimension 5; features have an even dimension, a cosine and a sine for \
         each direction; --prefix is for tables of features",
    );
    sandbox.put("large.csv", "id,a,b,c,d\n1,1,1,1,1\n2,1,-3e38,1,1\n");
    sandbox.refuses(
        "vectors convert large.csv cut.parquet --prefix 2",
        "large.csv: row 1: -3e38 cannot be rescaled; --prefix is for tables of features",
    );
}

#[test]
fn help_says_what_a_prefix_is_for() {
    let page = Sandbox::new().ok("vectors convert --help");
    assert!(page.contains("--prefix <D>"), "{page}");
    assert!(page.contains("For feature tables: keep the first D values"), "{page}");
    assert!(Sandbox::new().ok("vectors --help").contains("--prefix 256"));
}
