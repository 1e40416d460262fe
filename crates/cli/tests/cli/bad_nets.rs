//! Bad examples, weights and settings of networks: one message that names the place, exit code 2, nothing written.

use veridical_core::Seed;
use veridical_data::NamedTensor;
use veridical_data::TensorMap;
use veridical_data::generate;
use veridical_io::examples::{write_idx, write_image_folder};
use veridical_io::run::{read_tensors, write_tensors};

use crate::common::*;

const TRAIN: &str = "train net --model mlp:8 --epochs 1 --out run --data";

/// `line` must fail with a message that contains all of `parts`.
#[track_caller]
fn refuses_with(sandbox: &Sandbox, line: &str, parts: &[&str]) {
    sandbox.refuses_like(line, |error| {
        for part in parts {
            assert!(error.contains(part), "{line}\n{error}\nhas no {part:?}");
        }
    });
}

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    let all = generate::images(60, 6, 1, 3, Seed::new(1).unwrap());
    std::fs::create_dir(sandbox.path("idx")).unwrap();
    write_idx(&sandbox.path("idx"), Some(&all), Some(&all)).unwrap();
    sandbox
}

fn images(sandbox: &Sandbox, name: &str, size: usize) {
    let examples = generate::images(12, size, 1, 3, Seed::new(1).unwrap());
    let classes = ["cat", "dog", "emu"].map(str::to_owned);
    std::fs::create_dir_all(sandbox.path(name)).unwrap();
    write_image_folder(&sandbox.path(name), &examples, &classes).unwrap();
}

#[test]
fn examples_that_do_not_serve_are_named_with_their_place() {
    let sandbox = sandbox();
    let file = |name: &str| format!("idx/{name}");
    let images_file = "train-images-idx3-ubyte";
    let labels_file = "train-labels-idx1-ubyte";
    let (pixels, labels) = (sandbox.bytes(&file(images_file)), sandbox.bytes(&file(labels_file)));
    sandbox.put(&file(images_file), &pixels[..pixels.len() - 5]);
    refuses_with(&sandbox, &format!("{TRAIN} idx"), &[images_file]);
    sandbox.put(&file(images_file), &pixels);
    // A label of the test set that no training example has.
    let test = "t10k-labels-idx1-ubyte";
    let mut far = sandbox.bytes(&file(test));
    *far.last_mut().unwrap() = 3;
    sandbox.put(&file(test), &far);
    refuses_with(&sandbox, &format!("{TRAIN} idx"), &["`3`", "example 59 of the test set"]);
    sandbox.put(&file(test), &labels);
    refuses_with(
        &sandbox,
        &format!("{TRAIN} idx --classes 0,7"),
        &["--classes", "`7`", "`0`, `1`, `2`"],
    );
    refuses_with(
        &sandbox,
        &format!("{TRAIN} idx --limit 2"),
        &["class `", "has no example", "--limit"],
    );
    refuses_with(
        &sandbox,
        &format!("{TRAIN} idx --limit 61"),
        &["--limit 61", "60 training examples"],
    );
    images(&sandbox, "mixed", 6);
    images(&sandbox, "other", 7);
    let odd = std::fs::read_dir(sandbox.path("other/dog")).unwrap().next().unwrap().unwrap().path();
    std::fs::copy(odd, sandbox.path("mixed/dog/zzz.png")).unwrap();
    refuses_with(&sandbox, &format!("{TRAIN} mixed"), &["zzz.png", "7"]);
    sandbox.put("nan.csv", "a,b,y\n1,2,0\n1,NaN,1\n3,4,1\n2,2,0\n");
    refuses_with(&sandbox, &format!("{TRAIN} nan.csv --target y"), &["nan.csv", "line 3", "`b`"]);
    sandbox.put("one.csv", "a,y\n1,0\n2,0\n");
    refuses_with(
        &sandbox,
        &format!("{TRAIN} one.csv --target y"),
        &["one.csv", "`0`", "two classes"],
    );
    refuses_with(&sandbox, &format!("{TRAIN} nowhere"), &["nowhere"]);
    sandbox.refuses(
        "train net --model mlp:8 --out run",
        "training a network needs examples; pass them with --data FILE_OR_FOLDER",
    );
}

#[test]
fn weights_of_another_network_are_listed_by_name() {
    let sandbox = sandbox();
    sandbox.ok("train net --model mlp:8 --data idx --epochs 1 --out good --quiet");
    let whole = read_tensors(&sandbox.path("good/model.safetensors")).unwrap();
    let write = |tensors: &TensorMap| {
        let named: Vec<NamedTensor<'_>> = tensors
            .iter()
            .map(|(name, (shape, values))| NamedTensor { name, shape, values })
            .collect();
        write_tensors(&sandbox.path("w.safetensors"), &named).unwrap();
    };
    let line = "train net --model mlp:8 --data idx --epochs 1 --init w.safetensors --out run";
    let mut missing = whole.clone();
    let moved = missing.remove("0.bias").unwrap();
    write(&missing);
    refuses_with(&sandbox, line, &["--init w.safetensors", "missing 0.bias"]);
    missing.insert("0.bais".into(), moved);
    write(&missing);
    refuses_with(&sandbox, line, &["missing 0.bias (found 0.bais)", "unexpected 0.bais"]);
    let mut extra = whole.clone();
    extra.insert("4.weight".into(), (vec![1, 3], vec![0.0; 3]));
    write(&extra);
    refuses_with(&sandbox, line, &["unexpected 4.weight"]);
    let mut wide = whole.clone();
    wide.insert("0.weight".into(), (vec![8, 35], vec![0.0; 8 * 35]));
    write(&wide);
    refuses_with(&sandbox, line, &["0.weight is [8, 35] and should be [8, 36]"]);
    let mut broken = whole.clone();
    broken.get_mut("2.bias").unwrap().1[1] = f32::INFINITY;
    write(&broken);
    refuses_with(&sandbox, line, &["2.bias[1] is inf"]);
    sandbox.put("w.safetensors", b"no tensors");
    refuses_with(&sandbox, line, &["w.safetensors"]);
    refuses_with(&sandbox, &line.replace("w.safetensors", "idx"), &["--init idx", "not a run"]);
    refuses_with(&sandbox, &line.replace("w.safetensors", "gone"), &["gone"]);
    refuses_with(
        &sandbox,
        "train net --model cnn-small --data idx --freeze conv9 --out run",
        &["unknown layer `conv9`", "conv1, conv2, fc1, fc2", "`features`"],
    );
    refuses_with(
        &sandbox,
        "train net --model mlp: --data idx --freeze features,0 --out run",
        &["no parameters are left to train"],
    );
    // A damaged run is distinguished from a damaged file.
    sandbox.put("good/model.safetensors", sandbox.bytes("good/model.safetensors").split_off(9));
    refuses_with(&sandbox, "evaluate --run good", &["good/model.safetensors"]);
}

#[test]
fn a_rate_that_diverges_ends_with_a_hint() {
    let sandbox = sandbox();
    let line = "train net --model mlp:32,32 --data idx --optimizer sgd --lr 1e6 --loss squared --epochs 30 --out run";
    refuses_with(
        &sandbox,
        line,
        &[
            "training diverged in epoch ",
            "the loss is ",
            "--lr 1000000 is too large",
            "--lr 300000 or --clip 1",
        ],
    );
}

#[test]
fn settings_that_make_no_sense_are_named_as_they_were_typed() {
    let sandbox = sandbox();
    sandbox.put("table.csv", "a,b,y\n1,2,0.5\n3,4,1.5\n2,2,0.1\n5,1,2\n");
    let cases: [(&str, &[&str]); 27] = [
        ("--batch 61", &["--batch 61 exceeds the data", "60 training examples"]),
        ("--batch 0", &["--batch must be at least 1, got 0"]),
        ("--optimizer gd --batch 7", &["--optimizer gd uses all 60 examples"]),
        ("--epochs 0", &["--epochs must be at least 1", "--init"]),
        ("--lr 0", &["--lr must be a number above 0, got 0"]),
        ("--lr -1", &["--lr must be a number above 0, got -1"]),
        ("--clip 0", &["--clip must be above 0"]),
        ("--momentum 0.9", &["momentum", "adam"]),
        ("--optimizer sgd --nesterov", &["nesterov", "momentum"]),
        ("--schedule often", &["--schedule", "often", "cosine"]),
        ("--schedule step:0,0.1", &["--schedule", "EVERY"]),
        ("--patience 0", &["--patience must be at least 1, got 0"]),
        ("--min-delta -1", &["--min-delta must be at least 0, got -1"]),
        ("--validation 1", &["--validation must be a fraction of at least 0 and below 1, got 1"]),
        ("--validation 0.001", &["--validation 0.001 of 60 examples is 0"]),
        ("--dropout 1", &["--dropout must be at least 0 and below 1, got 1"]),
        ("--label-smoothing 1", &["--label-smoothing must be at least 0 and below 1, got 1"]),
        (
            "--label-smoothing 0.1 --loss squared",
            &["--label-smoothing is for --loss cross-entropy"],
        ),
        ("--loss binary-cross-entropy", &["two classes", "the data has 3"]),
        ("--mean 0.5", &["--mean and --std must be given together"]),
        ("--mean 0.5,0.5 --std 1", &["--mean has 2 values but the data has 1 channels"]),
        ("--mean 0.5 --std 0", &["--std must be above 0, got 0"]),
        ("--crop 6", &["--crop 6", "6x6x1"]),
        ("--activation wave", &["wave", "relu"]),
        ("--parameterization mup", &["unknown --parameterization `mup`"]),
        ("--checkpoint-every 0", &["--checkpoint-every must be at least 1, got 0"]),
        ("--seed 9007199254740992", &["seed must be an integer from 0 to 2^53 - 1"]),
    ];
    for (flags, parts) in cases {
        refuses_with(
            &sandbox,
            &format!("train net --model mlp:8 --data idx --out run {flags}"),
            parts,
        );
    }
    for (line, parts) in [
        ("train net --data idx --out run", &["pass an architecture with --model"][..]),
        (
            "train net --model resnet19 --data idx --out run",
            &["--model `resnet19` is unknown", "resnet20"],
        ),
        (
            "train net --model resnet20 --symmetric --data idx --out run",
            &["--symmetric is not supported by resnet20"],
        ),
        (
            "train net --model resnet20 --data table.csv --target y --regression --out run",
            &["--model resnet20 is for images, but the data is rows of numbers"],
        ),
        (
            "train net --model mlp:8 --data table.csv --target y --regression --flip --out run",
            &["--flip is for images"],
        ),
        (
            "train net --model mlp:8 --data table.csv --target y --regression --loss cross-entropy --out run",
            &["--loss cross-entropy is for classification"],
        ),
    ] {
        refuses_with(&sandbox, line, parts);
    }
}

#[test]
fn each_verb_says_what_the_run_is() {
    let sandbox = sandbox();
    sandbox.put_shop("r.csv", 30, 20, 6);
    sandbox.ok("train net --model mlp:8 --data idx --epochs 1 --out net --quiet");
    sandbox.ok("train pop --interactions r.csv --split leave-last-one --out pop --quiet");
    let message =
        "net is a network (mlp:8), which has no embeddings; see `veridical evaluate --run net`";
    sandbox.refuses("recommend --run net --out recs.parquet", message);
    sandbox.refuses("train bpr --from net --out run", message);
    refuses_with(
        &sandbox,
        "vectors stats net",
        &["net: there is no table", "a run of `net` has none"],
    );
    refuses_with(&sandbox, "evaluate --run pop --data idx", &["pop", "--data is for networks"]);
    refuses_with(&sandbox, "evaluate --run pop net", &["pop is a run of `pop`, not a network"]);
    refuses_with(&sandbox, "evaluate ranking --run net", &["net is a network"]);
    refuses_with(
        &sandbox,
        "refit-head --run pop --out run",
        &["pop is a run of `pop`, not a network"],
    );
    refuses_with(
        &sandbox,
        "train net --model mlp:8 --data idx --init pop --out run",
        &["pop is a run of `pop`"],
    );
    refuses_with(
        &sandbox,
        "train net --from pop --out run",
        &["--from pop is not a run of a network"],
    );
    images(&sandbox, "folder", 7);
    refuses_with(&sandbox, "evaluate --run net --data folder", &["folder", "not trained on"]);
    let small = generate::images(12, 5, 1, 3, Seed::new(1).unwrap());
    std::fs::create_dir(sandbox.path("small")).unwrap();
    write_idx(&sandbox.path("small"), Some(&small), None).unwrap();
    refuses_with(&sandbox, "evaluate --run net --data small", &["5x5x1", "6x6x1"]);
    refuses_with(&sandbox, "refit-head --run net --folds 60 --out run", &["60 folds"]);
}
