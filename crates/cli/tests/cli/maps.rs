//! Kernels and families of directions on the command line: results, errors, and
//! features that depend on the rows alone.

use serde_json::Value;
use veridical::features::{Directions, FeatureMap, FeatureSpec, FeatureSpecParams, Kernel};

use crate::common::*;

const FAMILIES: [&str; 4] = ["iid", "orthogonal", "hadamard", "halton"];

fn mixture() -> Kernel {
    Kernel::Mixture { scales: vec![0.5, 1.0, 4.0], weights: vec![1.0, 2.0, 1.0] }
}

/// Returns the spec that `featurize new` writes for rows of dimension 5 with `flags`.
#[track_caller]
fn new(sandbox: &Sandbox, flags: &str) -> String {
    sandbox
        .ok(&format!("featurize new --input-dim 5 --output-dim 20 --out s.json --force {flags}"));
    sandbox.text("s.json")
}

fn spec() -> FeatureSpecParams {
    FeatureSpec::params(5, 20)
}

#[test]
fn every_name_of_a_kernel_makes_its_spec() {
    let sandbox = Sandbox::new();
    for (names, kernel) in [
        (&["gaussian", "rbf", "Gaussian", "RBF"][..], Kernel::Gaussian),
        (&["laplace", "Laplace"], Kernel::Laplace),
        (&["cauchy"], Kernel::Cauchy),
        (&["matern-1/2", "matern12", "matern-12", "matern-0.5", "Matern12"], Kernel::Matern12),
        (&["matern-3/2", "matern32", "matern-32", "matern-1.5"], Kernel::Matern32),
        (&["matern-5/2", "matern52", "matern-52", "matern-2.5"], Kernel::Matern52),
    ] {
        let want = spec().kernel(kernel).build().unwrap().to_json();
        for name in names {
            assert_eq!(new(&sandbox, &format!("--kernel {name}")), want, "{name}");
        }
    }
}

/// A scale without a weight has weight 1.
#[test]
fn a_mixture_is_given_by_scales_and_weights() {
    let sandbox = Sandbox::new();
    let want = spec().kernel(mixture()).build().unwrap().to_json();
    for text in ["0.5:1,1:2,4:1", "0.5,1:2,4", "5e-1:1.0,1:2,4:1"] {
        assert_eq!(new(&sandbox, &format!("--mixture {text}")), want, "{text}");
    }
    let out = sandbox.command(["featurize", "new", "--input-dim", "5", "--output-dim", "20"]);
    let outcome = { out }
        .args(["--mixture", "0.5 : 1, 1 : 2, 4", "--out", "blanks.json"])
        .output()
        .map(Outcome::of)
        .unwrap();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(sandbox.text("blanks.json"), want);
}

/// The default family is the best for the kernel.
#[test]
fn every_family_is_drawn_for_every_kernel_that_allows_it() {
    let sandbox = Sandbox::new();
    for (kernel, flags, families) in [
        (Kernel::Gaussian, "--kernel gaussian", &FAMILIES[..]),
        (mixture(), "--mixture 0.5:1,1:2,4:1", &FAMILIES),
        (Kernel::Matern12, "--kernel matern-1/2", &FAMILIES[..3]),
        (Kernel::Matern32, "--kernel matern-3/2", &FAMILIES[..3]),
        (Kernel::Matern52, "--kernel matern-5/2", &FAMILIES[..3]),
        (Kernel::Laplace, "--kernel laplace", &FAMILIES[..1]),
        (Kernel::Cauchy, "--kernel cauchy", &FAMILIES[..1]),
    ] {
        let default = if kernel.is_isotropic() { "orthogonal" } else { "iid" };
        let document: Value = serde_json::from_str(&new(&sandbox, flags)).unwrap();
        assert_eq!(document["directions"], default, "{flags}");
        for directions in Directions::ALL {
            let name = directions.name();
            let want = spec().kernel(kernel.clone()).directions(directions).build();
            assert_eq!(want.is_ok(), families.contains(&name), "{flags} {name}");
            if let Ok(want) = want {
                let got = new(&sandbox, &format!("{flags} --directions {name}"));
                assert_eq!(got, want.to_json(), "{flags} {name}");
            }
        }
    }
}

#[test]
fn a_family_that_breaks_the_law_of_a_kernel_is_refused_with_the_reason() {
    let sandbox = Sandbox::new();
    let line = |kernel, family| {
        format!("featurize new --input-dim 5 --kernel {kernel} --directions {family} --out x.json")
    };
    let rotated = "it rotates the directions, and those of a kernel that is a product over \
                   coordinates do not survive a rotation";
    let spread = "its points are made for Gaussian coordinates, and this kernel's are not";
    for kernel in ["laplace", "cauchy"] {
        for (family, why) in [("orthogonal", rotated), ("hadamard", rotated), ("halton", spread)] {
            sandbox.refuses(
                &line(kernel, family),
                &format!("directions must be iid for kernel {kernel}: {why}, got {family}"),
            );
        }
    }
    for kernel in ["matern-1/2", "matern-3/2", "matern-5/2"] {
        sandbox.refuses(
            &line(kernel, "halton"),
            &format!(
                "directions must be iid, orthogonal or hadamard for kernel {kernel}: {spread}, got \
                 halton"
            ),
        );
    }
}

#[test]
fn gamma_belongs_to_the_gaussian_kernel() {
    let sandbox = Sandbox::new();
    sandbox.put("t.csv", csv(&rows(10, 5)));
    for (kernel, name) in [
        ("--kernel laplace", "laplace"),
        ("--kernel matern32", "matern-3/2"),
        ("--mixture 1", "mixture"),
    ] {
        let message =
            format!("gamma applies to the gaussian kernel, not to {name}; pass --length-scale");
        for gamma in ["--input-dim 5 --gamma 1", "--data t.csv --length-scale sklearn-gamma-scale"]
        {
            sandbox.refuses(&format!("featurize new {kernel} {gamma} --out x.json"), &message);
        }
        sandbox.refuses(
            &format!("featurize plan --input-dim 5 --epsilon 0.1 {kernel} --gamma 1"),
            &message,
        );
    }
}

/// Flags that clap refuses: exit code 2, and the reason on stderr.
#[test]
fn kernels_and_mixtures_that_are_not_understood_are_refused() {
    let sandbox = Sandbox::new();
    let scales = "must be scales and weights such as 0.5:1,1:2,4:1";
    for (flags, why) in [
        ("--kernel mixture", "needs its components: --mixture S:W,S:W"),
        (
            "--kernel linear",
            "must be one of gaussian, laplace, cauchy, matern-1/2, matern-3/2, matern-5/2, mixture",
        ),
        (
            "--kernel gaussian --mixture 1:1",
            "'--kernel <NAME>' cannot be used with '--mixture <S:W,S:W>'",
        ),
        ("--mixture=", scales),
        ("--mixture 1:x", scales),
        ("--mixture x:1", scales),
        ("--mixture 1:1:1", scales),
        ("--mixture 1:1,", scales),
        ("--mixture 1;2", scales),
        ("--directions hadamrd", "must be one of iid, orthogonal, hadamard, halton, got hadamrd"),
    ] {
        let outcome = sandbox.run(&format!("featurize new --input-dim 5 {flags} --out x.json"));
        assert_eq!(outcome.code, Some(2), "{flags}\n{outcome:?}");
        assert!(outcome.stderr.contains(why), "{flags}\n{outcome:?}");
        assert!(outcome.stdout.is_empty() && !sandbox.has("x.json"), "{flags}");
    }
}

#[test]
fn a_mixture_out_of_range_is_refused() {
    let sandbox = Sandbox::new();
    for (text, message) in [
        ("1:0", "weights must be finite and above 0, got 0"),
        ("1:-2", "weights must be finite and above 0, got -2"),
        ("1:nan", "weights must be finite and above 0, got NaN"),
        ("0:1", "scales must be finite and above 0, got 0"),
        ("-1:1", "scales must be finite and above 0, got -1"),
        ("1,inf", "scales must be finite and above 0, got inf"),
        ("1:1e308,2:1e308", "weights must be small enough for a finite sum, got inf"),
    ] {
        sandbox.refuses(
            &format!("featurize new --input-dim 5 --mixture {text} --out x.json"),
            message,
        );
    }
    let many = vec!["1"; 65].join(",");
    sandbox.refuses(
        &format!("featurize new --input-dim 5 --mixture {many} --out x.json"),
        "scales must be from 1 to 64 numbers, got 65",
    );
}

#[test]
fn describe_explains_every_kernel() {
    let sandbox = Sandbox::new();
    // Cauchy and mixtures may have k(2 delta) > 2 k(delta)^2: sqrt(9/8) of the others' deviation.
    let (usual, larger) = ("0.2236", "0.2372");
    for (kernel, formula, deviation) in [
        ("gaussian", "exp(-|x - y|^2 / (2 l^2))", usual),
        ("laplace", "exp(-|x - y|_1 / l)", usual),
        ("cauchy", "prod 1 / (1 + ((x_k - y_k) / l)^2)", larger),
        ("matern-1/2", "exp(-s), s = |x - y| / l", usual),
        ("matern-3/2", "(1 + s) exp(-s), s = sqrt(3) |x - y| / l", usual),
        ("matern-5/2", "(1 + s + s^2/3) exp(-s), s = sqrt(5) |x - y| / l", usual),
    ] {
        new(&sandbox, &format!("--kernel {kernel} --length-scale 2"));
        let text = sandbox.ok("featurize describe s.json");
        assert!(text.contains(&format!("\nkernel         {kernel}, {formula}\n")), "{text}");
        assert!(text.contains(&format!(" at most {deviation} (iid directions)\n")), "{text}");
        let length_scale = if kernel == "gaussian" { "2 (gamma 0.125000)" } else { "2" };
        assert!(text.contains(&format!("\nlength scale   {length_scale}\n")), "{text}");
        let spec = &json(&sandbox, "featurize", "featurize describe s.json")["spec"];
        assert_eq!(spec["kernel"], kernel);
        assert_eq!(spec["gamma"].is_null(), kernel != "gaussian");
        assert!(spec["components"].is_null());
    }
}

#[test]
fn describe_names_the_components_of_a_mixture() {
    let sandbox = Sandbox::new();
    new(&sandbox, "--mixture 0.5:1,2:3 --length-scale 3");
    let text = sandbox.ok("featurize describe s.json");
    let components =
        "1 x gaussian with length scale 1.500000 + 3 x gaussian with length scale 6.000000";
    assert!(text.contains("\nkernel         mixture, weighted mean of gaussians\n"), "{text}");
    assert!(text.contains(&format!("\nmixture        {components}\n")), "{text}");
    let spec = &json(&sandbox, "featurize", "featurize describe s.json")["spec"];
    assert_eq!(spec["components"], serde_json::json!([[1.5, 1.0], [6.0, 3.0]]));
}

#[test]
fn describe_says_what_a_family_stores() {
    let sandbox = Sandbox::new();
    for family in FAMILIES {
        new(&sandbox, &format!("--directions {family} --seed 3"));
        let text = sandbox.ok("featurize describe s.json");
        assert!(text.contains(&format!("\ndirections     {family}, seed 3\n")), "{text}");
        let spec = &json(&sandbox, "featurize", "featurize describe s.json")["spec"];
        let (size, bytes) = match family {
            "hadamard" => ("80 bytes per row, directions not stored", 0),
            _ => ("80 bytes per row, 200 bytes for the directions", 10 * 5 * 4),
        };
        assert!(text.contains(&format!("\nsize           {size}\n")), "{text}");
        assert_eq!(spec["directions_bytes"], bytes);
    }
}

/// 600 rows of width 20: several blocks of the transform, and 20 is not a power of two.
fn table() -> (Sandbox, Vec<f32>) {
    let (sandbox, table) = (Sandbox::new(), named_rows(600, 20));
    sandbox.put_table("t.parquet", &table).put("t.csv", csv(&table));
    (sandbox, table.vectors)
}

#[test]
fn threads_chunks_and_parts_do_not_change_the_features_of_any_family() {
    let (sandbox, vectors) = table();
    for family in FAMILIES {
        sandbox.ok(&format!(
            "featurize new --input-dim 20 --output-dim 86 --directions {family} --out s.json --force"
        ));
        let apply = |input: &str, flags: &str| {
            sandbox
                .ok(&format!("featurize apply --spec s.json {input} phi.parquet --force {flags}"));
            sandbox.bytes("phi.parquet")
        };
        let want = apply("t.parquet", "--threads 1");
        let spec = FeatureSpec::from_json(&sandbox.text("s.json")).unwrap();
        let phi = FeatureMap::new(&spec)
            .unwrap()
            .transform(veridical_core::Rows::new(&vectors, 20).unwrap())
            .unwrap();
        assert!(sandbox.table("phi.parquet").vectors == phi, "{family}");
        for (input, flags) in [
            ("t.parquet", "--threads 2"),
            ("t.parquet", "--threads 7 --chunk-rows 1"),
            ("t.parquet", "--chunk-rows 7"),
            ("t.csv", "--chunk-rows 1000"),
        ] {
            assert!(apply(input, flags) == want, "{family} {input} {flags}");
        }
        let mut folders = Vec::new();
        for (n, flags) in [(251, "--threads 1"), (251, "--threads 2 --chunk-rows 13"), (100, "")] {
            sandbox.ok(&format!(
                "featurize apply --spec s.json t.parquet phi --rows-per-part {n} --force {flags}"
            ));
            assert!(sandbox.table("phi").vectors == phi, "{family} parts of {n}");
            folders.push(sandbox.below("phi"));
        }
        assert!(folders[0] == folders[1], "{family}");
    }
}

/// c = f32(1 / sqrt(m)) is rounded once on either side, and each product once: 2^-22 in total.
#[test]
fn output_dim_is_a_prefix_of_every_family() {
    let (sandbox, _) = table();
    for family in FAMILIES {
        sandbox.ok(&format!(
            "featurize new --input-dim 20 --output-dim 86 --directions {family} --out s.json --force"
        ));
        sandbox.ok("featurize apply --spec s.json t.parquet full.parquet --force");
        let full = sandbox.table("full.parquet");
        for width in [2, 40, 66, 86] {
            sandbox.ok(&format!(
                "featurize apply --spec s.json --output-dim {width} t.parquet cut.parquet --force"
            ));
            let cut = sandbox.table("cut.parquet");
            assert_eq!(cut.dim, width);
            let scale = (86.0 / width as f64).sqrt();
            for r in 0..cut.n_rows() {
                for (cut, full) in cut.row(r).iter().zip(full.row(r)) {
                    let error = f64::from(*cut) - scale * f64::from(*full);
                    assert!(error.abs() <= 2f64.powi(-22), "{family} {width}: row {r}: {error:e}");
                }
            }
        }
    }
}

#[test]
fn f16_is_rounded_phi_for_every_family() {
    let (sandbox, _) = table();
    for family in FAMILIES {
        sandbox.ok(&format!(
            "featurize new --input-dim 20 --output-dim 86 --directions {family} --out s.json --force"
        ));
        sandbox.ok("featurize apply --spec s.json t.parquet phi.parquet --force");
        sandbox.ok("featurize apply --spec s.json t.parquet half.parquet --dtype f16 --force");
        sandbox.ok("vectors convert phi.parquet same.parquet --dtype f16 --force");
        assert!(sandbox.table("half.parquet") == sandbox.table("same.parquet"), "{family}");
    }
}
