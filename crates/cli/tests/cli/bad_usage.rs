//! Invalid settings, specs and paths: exit code 2, one line that names the problem and
//! the way out, and nothing left behind or lost.

use veridical::features::FeatureSpec;

use crate::common::*;

/// `t.csv` of width 3 and `spec.json` for it.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.put("t.csv", "id,a,b,c\n1,0.5,1,2\n2,3,4,5\n3,1,0,1\n");
    sandbox.put("spec.json", FeatureSpec::params(3, 8).build().unwrap().to_json());
    sandbox
}

// Settings and specs

#[test]
fn an_output_dim_that_is_odd_zero_or_too_large_is_refused() {
    let sandbox = sandbox();
    for d in [0, 1, 7] {
        let message = format!(
            "output_dim must be even and at least 2 (a cosine and a sine for each direction), got {d}"
        );
        sandbox.refuses(
            &format!("featurize new --input-dim 3 --output-dim {d} --out x.json"),
            &message,
        );
        sandbox.refuses(
            &format!("featurize apply --spec spec.json --output-dim {d} t.csv phi.csv"),
            &message,
        );
        sandbox.refuses(&format!("featurize apply --output-dim {d} t.csv phi.csv"), &message);
    }
    sandbox.refuses(
        "featurize apply --spec spec.json --output-dim 10 t.csv phi.csv",
        "output_dim must be at most the spec's output_dim 8, got 10",
    );
    sandbox.refuses(
        "featurize new --input-dim 3 --output-dim 16777218 --out x.json",
        "output_dim must be at most 16777216, with input_dim x output_dim / 2 at most 2^31, got \
         16777218 with input_dim 3",
    );
}

#[test]
fn an_input_dim_that_is_missing_zero_or_wrong_is_refused() {
    let sandbox = sandbox();
    sandbox.refuses("featurize new --out x.json", "pass --input-dim or --data FILE");
    sandbox.refuses(
        "featurize new --input-dim 0 --out x.json",
        "input_dim must be from 1 to 1048576, got 0",
    );
    sandbox.refuses(
        "featurize new --input-dim 4 --data t.csv --out x.json",
        "--input-dim is 4 but the vectors in --data have dimension 3; leave out one of them",
    );
}

#[test]
fn a_length_scale_that_is_not_above_zero_is_refused() {
    let sandbox = sandbox();
    let new = "featurize new --input-dim 3 --out x.json";
    for (given, shown) in [("0", "0"), ("-1.5", "-1.5"), ("nan", "NaN"), ("inf", "inf")] {
        sandbox.refuses(
            &format!("{new} --length-scale {given}"),
            &format!("length_scale must be finite and above 0, got {shown}"),
        );
        let must_be = match given.parse::<f64>().is_ok_and(f64::is_finite) {
            true => "gamma must be finite and above 0",
            false => "--gamma must be a number",
        };
        let got = if must_be.starts_with('-') { given } else { shown };
        sandbox.refuses(&format!("{new} --gamma {given}"), &format!("{must_be}, got {got}"));
    }
    for rule in
        ["--length-scale median", "--length-scale sklearn-gamma-scale", "--normalize standardize"]
    {
        sandbox
            .refuses(&format!("{new} {rule}"), &format!("{rule} needs a table; pass --data FILE"));
    }
}

#[test]
fn data_that_gives_no_length_scale_is_refused_by_name() {
    let sandbox = Sandbox::new();
    sandbox.put("same.csv", "id,a,b\n1,1,1\n2,1,1\n3,1,1\n").put("one.csv", "id,a,b\n1,1,1\n");
    let cases = [
        ("same.csv", "more than half of the sampled pairs of rows are identical"),
        ("one.csv", "it takes at least two rows"),
    ];
    for (file, why) in cases {
        for line in [
            format!("featurize new --data {file} --out x.json"),
            format!("featurize apply {file} phi.csv"),
        ] {
            sandbox.refuses_like(&line, |error| {
                let rest = format!(
                    "cannot choose a length scale: {why}; pass a number with --length-scale"
                );
                assert!(error.ends_with(&rest), "{error}");
                assert!(error.starts_with(file), "the file is not named: {error}");
            });
        }
    }
}

#[test]
fn a_seed_beyond_2_to_the_53_is_refused() {
    let sandbox = sandbox();
    let message = "--seed must be an integer from 0 to 2^53 - 1, got 9007199254740992";
    sandbox.refuses("featurize new --input-dim 3 --seed 9007199254740992 --out x.json", message);
    sandbox.refuses("featurize new --data t.csv --seed 9007199254740992 --out x.json", message);
    sandbox.refuses("featurize plan --data t.csv --seed 9007199254740992 --epsilon 0.1", message);
}

#[test]
fn numbers_out_of_their_range_are_refused() {
    let sandbox = sandbox();
    for (flag, message) in [
        ("--threads 0", "--threads must be from 1 to 1024, got 0"),
        ("--threads 1025", "--threads must be from 1 to 1024, got 1025"),
        ("--chunk-rows 0", "--chunk-rows must be at least 1, got 0"),
        ("--rows-per-part 0", "--rows-per-part must be at least 1, got 0"),
    ] {
        sandbox.refuses(&format!("vectors convert t.csv out.csv {flag}"), message);
    }
}

#[test]
fn an_edited_spec_is_refused() {
    let sandbox = sandbox();
    let spec = sandbox.text("spec.json");
    let id = |seed| FeatureSpec::params(3, 8).seed(seed).build().unwrap().spec_id().to_owned();
    sandbox.put("edited.json", spec.replace("\"seed\": 0", "\"seed\": 1"));
    let message = format!(
        "edited.json: the spec_id does not match the fields: the document says {}, its fields give {}; \
         the spec was edited or damaged, make a new one with `veridical featurize new`",
        id(0),
        id(1)
    );
    sandbox.refuses("featurize apply --spec edited.json t.csv phi.csv", &message);
    sandbox.refuses("featurize describe edited.json", &message);
    sandbox.refuses("featurize check --spec edited.json t.csv", &message);
}

#[test]
fn a_document_that_is_no_spec_is_refused() {
    let sandbox = sandbox();
    let spec = sandbox.text("spec.json");
    let edited = |from: &str, to: &str| spec.replace(from, to);
    let cases = [
        (
            edited("\"seed\": 0", "\"seed\": 0, \"sede\": 1"),
            "unknown field `sede`, expected one of `format`, `input_dim`, `output_dim`, `seed`, \
             `kernel`, `length_scale`, `scales`, `weights`, `directions`, `normalize`, `means`, `deviations`, `spec_id`, \
             `directions_id` at line 5 column 19",
        ),
        (
            edited("\"seed\": 0", "\"seed\": 0, \"seed\": 0"),
            "duplicate field `seed` at line 5 column 19",
        ),
        (
            edited("\"seed\": 0", "\"seed\": 0.0"),
            "invalid type: floating point `0.0`, expected u64 at line 5 column 13",
        ),
        (edited("  \"seed\": 0,\n", ""), "missing field `seed` at line 11 column 1"),
        (
            edited("\"format\": 1", "\"format\": 2"),
            "format 2, but this version reads format 1 only",
        ),
        ("hello".into(), "expected value at line 1 column 1"),
        (String::new(), "EOF while parsing a value at line 1 column 0"),
    ];
    for (document, what) in cases {
        sandbox.put("bad.json", document);
        for line in [
            "featurize apply --spec bad.json t.csv phi.csv",
            "featurize describe bad.json",
            "featurize check --spec bad.json t.csv",
        ] {
            sandbox.refuses(line, &format!("bad.json: not a feature spec: {what}"));
        }
    }
    sandbox.refuses(
        "featurize apply --spec nowhere.json t.csv phi.csv",
        "nowhere.json: cannot open: No such file or directory (os error 2)",
    );
}

// Where things go

#[test]
fn an_input_that_is_not_there_is_refused() {
    let sandbox = sandbox();
    for line in [
        "featurize apply nowhere.parquet phi.csv",
        "featurize apply --spec spec.json nowhere.parquet phi.csv",
        "featurize new --data nowhere.parquet --out x.json",
        "featurize plan --data nowhere.parquet --epsilon 0.1",
        "featurize check --spec spec.json nowhere.parquet",
        "vectors convert nowhere.parquet out.csv",
        "vectors head nowhere.parquet",
        "vectors stats nowhere.parquet",
    ] {
        sandbox
            .refuses(line, "nowhere.parquet: cannot open: No such file or directory (os error 2)");
    }
}

const KNOWN: &str = "cannot infer the format from the file name; known extensions are .parquet, .arrow, \
                     .feather, .ipc, .npy, .npz, .safetensors, .csv, .tsv, .vec (word2vec text), .bin \
                     (word2vec binary), .txt (GloVe or word2vec text)";

#[test]
fn an_unknown_ending_is_refused() {
    let sandbox = sandbox();
    sandbox.put("t.xyz", "");
    sandbox.refuses("vectors convert t.xyz out.csv", &format!("t.xyz: {KNOWN}"));
    for output in ["out.xyz", "out"] {
        for line in ["vectors convert t.csv", "featurize apply t.csv"] {
            sandbox.refuses(
                &format!("{line} {output}"),
                &format!("{output}: {KNOWN}; or write a folder with --rows-per-part N"),
            );
        }
    }
    sandbox.refuses(
        "vectors convert t.csv out.csv.gz",
        "out.csv.gz: compressed text is read but not written; write .csv and compress it afterwards",
    );
    sandbox.put("t.npy.gz", "");
    sandbox.refuses(
        "vectors convert t.npy.gz out.csv",
        "t.npy.gz: only text and word2vec may be compressed as a whole; decompress it first",
    );
}

#[test]
fn bf16_and_an_index_are_not_written_where_they_cannot_be() {
    let sandbox = sandbox();
    for output in ["out.parquet", "out.npz", "out.csv", "out.bin"] {
        sandbox.refuses(
            &format!("vectors convert t.csv {output} --dtype bf16"),
            &format!(
                "{output}: of all formats safetensors alone holds bf16; write .safetensors, or pass \
                 --dtype f16"
            ),
        );
    }
    sandbox.refuses(
        "vectors convert t.csv out.bin --dtype f16",
        "out.bin: word2vec binary holds f32 only; leave out --dtype",
    );
    sandbox.refuses(
        "vectors convert t.csv m.safetensors.index.json",
        "m.safetensors.index.json: an index is read but not written; write .safetensors",
    );
    sandbox.ok("vectors convert t.csv out.safetensors --dtype bf16");
    sandbox.ok("featurize apply --spec spec.json t.csv phi.safetensors --dtype bf16");
}

#[test]
fn a_place_that_no_store_has_is_refused_before_anything_is_asked() {
    let sandbox = sandbox();
    for (url, what) in [
        ("http://host/x.csv", "unknown store; use s3://, gs:// or az://"),
        ("s3:///x.csv", "there is no bucket; write it as s3://bucket/key"),
        ("gs://b/a/../x.csv", "the key is not allowed: it has an empty part, `.` or `..`"),
    ] {
        let message = format!("{url}: {what}");
        sandbox.refuses(&format!("vectors convert {url} out.csv"), &message);
        sandbox.refuses(&format!("vectors convert t.csv {url}"), &message);
    }
    sandbox.refuses(
        "vectors convert t.csv s3://bucket --rows-per-part 10",
        "s3://bucket: name an object in the bucket, as s3://bucket/key",
    );
}

#[test]
fn an_output_that_is_there_is_left_alone() {
    let sandbox = sandbox();
    sandbox.put("out.parquet", "precious").put("folder/x", "precious");
    for line in ["vectors convert t.csv out.parquet", "featurize apply t.csv out.parquet"] {
        for flag in ["", "--resume"] {
            sandbox.refuses(
                &format!("{line} {flag}"),
                "out.parquet already exists; choose another name or replace it with --force",
            );
        }
    }
    sandbox.refuses(
        "vectors convert t.csv folder --rows-per-part 2",
        "folder already exists; choose another name or replace it with --force",
    );
    sandbox.ok("vectors convert t.csv out.parquet --force");
    assert_eq!(sandbox.table("out.parquet").n_rows(), 3);
    sandbox.refuses(
        "featurize new --input-dim 4 --out spec.json",
        "spec.json already exists; choose another name or replace it with --force",
    );
}

#[test]
fn a_forced_job_that_fails_leaves_the_old_output_alone() {
    let sandbox = sandbox();
    sandbox.put("out.parquet", "precious").put("bad.csv", "id,a\n1,nan\n");
    sandbox.refuses_like("vectors convert bad.csv out.parquet --force", |error| {
        assert!(error.starts_with("bad.csv: row 0, column 0 is NaN or missing; "), "{error}");
    });
}

#[test]
fn another_spec_beside_the_output_is_left_alone() {
    let sandbox = sandbox();
    sandbox.put("phi.spec.json", "precious");
    sandbox.refuses(
        "featurize apply t.csv phi.parquet",
        "phi.spec.json already exists; choose another name or replace it with --force",
    );
}

#[test]
fn an_unfinished_job_is_left_alone() {
    let sandbox = sandbox();
    sandbox.put("out.parquet.partial/data", "precious");
    for line in ["vectors convert t.csv out.parquet", "featurize apply t.csv out.parquet"] {
        sandbox.refuses(
            line,
            "out.parquet.partial holds an unfinished job; continue it with --resume or start over \
             with --force",
        );
    }
    sandbox.ok("vectors convert t.csv out.parquet --force");
    assert!(!sandbox.has("out.parquet.partial"));
}

#[test]
fn an_output_that_is_the_input_is_refused_however_it_is_spelled() {
    let sandbox = sandbox();
    sandbox.put("d/x", "");
    std::os::unix::fs::symlink("t.csv", sandbox.path("link.csv")).unwrap();
    let absolute = sandbox.path("t.csv").display().to_string();
    for (input, output) in [
        ("t.csv", "t.csv"),
        ("t.csv", "./t.csv"),
        ("./t.csv", "d/../t.csv"),
        ("t.csv", &*absolute),
        ("link.csv", "t.csv"),
        ("t.csv", "link.csv"),
    ] {
        for verb in ["vectors convert", "featurize apply"] {
            sandbox.refuses(
                &format!("{verb} {input} {output} --force"),
                &format!(
                    "--output {output}: this is the input of --input; no input is ever overwritten; \
                     choose another name"
                ),
            );
        }
    }
}

#[test]
fn an_output_inside_the_input_folder_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.put("d/a.csv", "id,a\n1,1\n").put("d/e/x", "");
    sandbox.refuses(
        "vectors convert d/a.csv d --rows-per-part 1 --force",
        "--output d: the input of --input, d/a.csv, is inside it; no input is ever overwritten; choose another name",
    );
    for (input, output) in [("d", "d/out.csv"), ("d", "./d/e/out.csv"), ("d/", "d/new")] {
        sandbox.refuses(
            &format!("vectors convert {input} {output} --rows-per-part 1 --force"),
            &format!("{output}: one of input and output is inside the other; write somewhere else"),
        );
    }
}

/// A folder is replaced by a rename, and the working folder cannot be renamed.
#[test]
fn the_working_folder_is_never_emptied() {
    let sandbox = sandbox();
    sandbox.put("here/precious", "");
    let before = sandbox.everything();
    for output in [".", "./", "../here", "../here/."] {
        let line = format!("-q vectors convert ../t.csv {output} --rows-per-part 1 --force");
        let mut command = sandbox.command(line.split_whitespace());
        let outcome = Outcome::of(command.current_dir(sandbox.path("here")).output().unwrap());
        assert_eq!(outcome.code, Some(2), "{output} {outcome:?}");
        assert!(sandbox.everything() == before, "{output} left {:?}", sandbox.names());
    }
}

/// Detected before the work is done, not by the last rename.
#[test]
fn an_output_file_with_a_slash_behind_it_is_taken_or_refused_at_once() {
    let sandbox = sandbox();
    let outcome = sandbox.run("vectors convert t.csv out.parquet/");
    let taken = outcome.code == Some(0) && sandbox.path("out.parquet").is_file();
    let refused = outcome.code == Some(2) && !sandbox.has("out.parquet");
    assert!(taken || refused, "{outcome:?}");
    assert!(!sandbox.has("out.parquet.partial"));
}

/// `--force` clears OUTPUT.partial, which must not be the table that is to be read.
#[test]
fn an_input_that_is_the_partial_of_the_output_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.put("out.partial/part-00000.csv", "id,a\n1,1\n");
    sandbox.refuses_like("vectors convert out.partial out --rows-per-part 1 --force", |error| {
        assert!(error.contains("out.partial"), "{error}");
    });
}

/// The output is checked before the table is read.
#[test]
fn an_output_in_a_folder_that_is_not_there_is_refused() {
    let sandbox = sandbox();
    for line in ["vectors convert t.csv no/out.csv", "featurize apply t.csv no/out.csv"] {
        sandbox.refuses(line, "no: the folder does not exist; create it first");
    }
    sandbox.refuses_like("featurize new --input-dim 3 --out no/x.json", |error| {
        assert!(error.starts_with("no/x.json: cannot write: No such file"), "{error}");
    });
}

#[test]
fn ids_are_lost_in_npy_only_if_asked_for() {
    let sandbox = sandbox();
    for line in ["vectors convert t.csv out.npy", "featurize apply t.csv out.npy"] {
        sandbox.refuses(
            line,
            "out.npy: npy holds no ids; write .parquet or .safetensors, or drop them with --drop-ids",
        );
    }
    sandbox.ok("vectors convert t.csv out.npy --drop-ids");
    assert_eq!(sandbox.table("out.npy").n_rows(), 3);
    sandbox.ok("vectors convert out.npy again.npy"); // nothing to lose
}

#[test]
fn columns_cannot_be_kept_in_formats_without_columns() {
    let sandbox = sandbox();
    for output in ["out.npy", "out.safetensors"] {
        sandbox.refuses(
            &format!("vectors convert t.csv {output} --keep-columns a --drop-ids"),
            &format!(
                "{output}: this format has no columns, so --keep-columns cannot be written; write \
                 .parquet"
            ),
        );
    }
    sandbox.put("t.npy", npy("<f4", "(1, 2)", &[0; 8]));
    sandbox.refuses(
        "vectors convert t.npy out.csv --keep-columns a",
        "t.npy: --keep-columns: npy files have no columns",
    );
    sandbox.refuses(
        "vectors convert t.csv out.parquet --keep-columns id",
        "out.parquet: the output has its own column `id`; leave it out of --keep-columns",
    );
    sandbox.refuses(
        "vectors convert t.csv out.csv --compression zstd",
        "out.csv: --compression is for Parquet",
    );
}

/// CSV has columns `v0`, `v1`, ... of its own.
#[test]
fn columns_that_would_stand_twice_in_the_output_are_refused() {
    let sandbox = sandbox();
    sandbox.put("v.csv", "id,v0,b\n1,x,2\n");
    for (line, name) in [
        ("vectors convert v.csv out.csv --keep-columns v0", "`v0`"),
        ("vectors convert t.csv out.csv --keep-columns a,a", "`a`"),
        ("vectors convert t.csv out.parquet --keep-columns a,a", "`a`"),
    ] {
        sandbox.refuses_like(line, |error| assert!(error.contains(name), "{error}"));
    }
    sandbox.ok("vectors convert v.csv out.parquet --keep-columns v0"); // no such column there
}

#[test]
fn the_result_of_an_experiment_does_not_replace_a_file() {
    let sandbox = Sandbox::new();
    sandbox.put("r.json", "precious");
    sandbox.refuses_like("reproduce run 000-kernel-error --quick --out r.json", |error| {
        assert!(error.starts_with("r.json already exists"), "{error}");
    });
}

#[test]
fn an_unknown_experiment_is_refused_with_those_there_are() {
    let sandbox = Sandbox::new();
    for action in ["show", "run"] {
        sandbox.refuses_like(&format!("reproduce {action} 999-nothing"), |error| {
            let ids =
                "there is no experiment `999-nothing`; there are: 000-kernel-error, 000-families, ";
            assert!(error.starts_with(ids), "{error}");
        });
    }
}

#[test]
fn an_experiment_without_its_data_says_how_to_name_the_folder() {
    let sandbox = Sandbox::new();
    sandbox.put("page.html", "precious");
    sandbox.refuses_like("reproduce run 001-table3 --data nowhere --html page.html", |error| {
        assert!(error.starts_with("page.html already exists"), "{error}");
    });
    for id in
        ["table1", "table2", "table3", "figure3", "figure4", "figure5", "sweep-mf", "sweep-bpr"]
    {
        sandbox.refuses_like(&format!("reproduce run 001-{id} --data nowhere"), |error| {
            assert!(error.starts_with("nowhere"), "{error}");
            assert!(error.contains("--data or VERIDICAL_DATA"), "{error}");
        });
    }
}

#[test]
fn unknown_flags_and_verbs_end_with_2() {
    let sandbox = sandbox();
    for line in [
        "frobnicate",
        "vectors",
        "vectors convert t.csv",
        "vectors convert t.csv out.csv --frobnicate",
        "vectors convert t.csv out.csv --resume --force",
        "vectors convert t.csv out.csv --on-nan ignore",
        "featurize new --input-dim 3 --length-scale 1 --gamma 1 --out x.json",
        "featurize new --input-dim 3 --length-scale abc --out x.json",
        "featurize new --input-dim three --out x.json",
    ] {
        let before = sandbox.everything();
        let outcome = sandbox.run(line);
        assert_eq!(outcome.code, Some(2), "{line}\n{outcome:?}");
        assert!(!outcome.stderr.is_empty() && outcome.stdout.is_empty(), "{line}\n{outcome:?}");
        assert!(sandbox.everything() == before, "{line}");
    }
}
