//! Copies of a data set with planted faults: what a tool that finds them is tried on.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, StringArray};
use arrow_schema::{DataType, Field};
use serde::Serialize;
use veridical_core::settings::Settings as _;
use veridical_core::{Error as Refusal, Job, Seed, settings};
use veridical_data::examples::{Dataset, Examples, Targets};
use veridical_data::poison::{self, Patch, Planted};
use veridical_io::examples::{ExampleOptions, read_examples, write_idx, write_image_folder};
use veridical_io::{ColumnWriter, Input, Output, Replace};

use super::Folder;
use crate::{Error, Result};

settings! {
    /// Settings of [`poison()`].
    pub struct Poison {
        /// Images with classes: a folder of idx, CIFAR or images
        pub data: Input = Input::default() => [required(), value("FOLDER")],
        /// Rectangle to draw on training images: size and upper left pixel
        pub patch: Option<Patch> = None => [value("HxW@ROW,COLUMN"), needs(&["target"])],
        /// Brightness of the patch from 0 to 1: one number, or one for each channel (yellow: 1,1,0)
        pub value: String = "1".into() => [value("X,X,X")],
        /// Fraction of the training images that get the patch
        pub fraction: f64 = 0.1 => [value("SHARE"), above(0.0), at_most(1.0)],
        /// Class that images with the patch are labeled as
        pub target: Option<String> = None => [value("CLASS"), needs(&["patch"])],
        /// Fraction of the training images that get a wrong label
        pub flip: Option<f64> = None => [value("SHARE"), above(0.0), at_most(1.0)],
        /// Random seed
        pub seed: u64 = 0 => [value("S")],
        /// Folder to write to
        pub out: Output = Output::default() => [required(), value("FOLDER")],
    } with {
        /// Whether existing output is replaced.
        pub replace: Replace,
    }
}

/// Result of [`poison()`].
#[derive(Clone, Debug, Serialize)]
pub struct Poisoned {
    /// Output folder.
    pub out: String,
    /// Number of training images.
    pub rows: usize,
    /// Number of training images with the patch.
    pub patched: usize,
    /// Number of training images with a wrong label.
    pub flipped: usize,
    /// List of the rows with a fault: row, label, former label, fault.
    pub list: String,
    /// Folder of the test images of other classes, all with the patch: what the attack does to them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub triggered: Option<String>,
}

/// Names below the output folder.
const LIST: &str = "planted.csv";
const TRIGGERED: &str = "triggered";

/// Writes a copy of a data set in which training images have a patch or wrong labels. The test images stay clean; those of other
/// classes than the target are written once more with the patch.
///
/// # Errors
/// [`Error::Core`] for data without classes or images, and for a patch that is not inside them.
pub fn poison(settings: &Poison, job: &Job<'_>) -> Result<Poisoned> {
    settings.check()?;
    if settings.patch.is_none() && settings.flip.is_none() {
        return Err(Error::request("pass what to plant: ⟨patch⟩, ⟨flip⟩ or both", ""));
    }
    let folder = Folder::check(&settings.out, settings.replace.force)?;
    let data = read_examples(&settings.data, &ExampleOptions::default())?;
    data.notes.iter().for_each(|note| job.note(note));
    let Dataset { train, test, classes, .. } = data;
    let Some(mut train) = train else {
        let what = format!("{} has no training images to plant faults in", settings.data.display());
        return Err(Error::request(what, ""));
    };
    let seed = Seed::new(settings.seed)?;
    let mut flipped = None;
    if let Some(share) = settings.flip {
        flipped = Some(poison::flip(&mut train, share, classes.len(), seed)?);
    }
    let (mut patched, mut triggered) = (None, None);
    if let (Some(patch), Some(name)) = (settings.patch, &settings.target) {
        let target = classes.iter().position(|class| class == name).ok_or_else(|| {
            Refusal::setting("target", format!("one of {}", classes.join(", ")), name)
        })? as u32;
        let channels = *train.shape.dims().last().unwrap_or(&1);
        let color = color(&settings.value, channels)?;
        patched =
            Some(poison::patch(&mut train, (patch, &color), settings.fraction, target, seed)?);
        if let Some(test) = &test {
            let others: Vec<usize> = (0..test.n()).filter(|&i| label(test, i) != target).collect();
            let mut images = test.subset(&others);
            patch.draw(&mut images, &(0..others.len()).collect::<Vec<_>>(), &color)?;
            triggered = Some(images);
        }
    }
    let list = Listed { train: &train, classes: &classes };
    folder.write(|out| {
        write(out, &train, test.as_ref(), &classes)?;
        if let Some(images) = triggered.as_ref().filter(|images| images.n() > 0) {
            write_test(&out.join(TRIGGERED), images, &classes)?;
        }
        list.write(&out.join(LIST), [("patch", &patched), ("flip", &flipped)])
    })?;
    let count = |planted: &Option<Planted>| planted.as_ref().map_or(0, |p| p.rows.len());
    let at = |name: &str| settings.out.join(name).display().to_string();
    Ok(Poisoned {
        out: settings.out.to_string(),
        rows: train.n(),
        patched: count(&patched),
        flipped: count(&flipped),
        list: at(LIST),
        triggered: triggered.map(|_| at(TRIGGERED)),
    })
}

fn label(examples: &Examples, row: usize) -> u32 {
    match &examples.targets {
        Targets::Classes(labels) => labels[row],
        Targets::Numbers { .. } => u32::MAX,
    }
}

/// Whether idx files, which number their classes, say all about these.
fn are_numbers(classes: &[String]) -> bool {
    classes.len() <= 256 && classes.iter().enumerate().all(|(i, name)| *name == i.to_string())
}

/// Writes both sets: as idx files, or as a folder of images for every named class.
fn write(out: &Path, train: &Examples, test: Option<&Examples>, classes: &[String]) -> Result<()> {
    if are_numbers(classes) {
        return Ok(write_idx(out, Some(train), test)?);
    }
    write_image_folder(&out.join("train"), train, classes)?;
    test.map_or(Ok(()), |test| Ok(write_image_folder(&out.join("test"), test, classes)?))
}

/// Writes one set as test images.
fn write_test(out: &Path, test: &Examples, classes: &[String]) -> Result<()> {
    if are_numbers(classes) {
        return Ok(write_idx(out, None, Some(test))?);
    }
    Ok(write_image_folder(out, test, classes)?)
}

/// Reads brightnesses from 0 to 1 as bytes.
fn color(text: &str, channels: usize) -> Result<Vec<u8>> {
    let must_be = || format!("one number from 0 to 1, or {channels} separated by commas");
    let bytes = text.split(',').map(|part| {
        let value = part.trim().parse::<f64>().ok().filter(|x| (0.0..=1.0).contains(x));
        value.map(|x| (x * 255.0).round() as u8)
    });
    match bytes.collect::<Option<Vec<u8>>>() {
        Some(bytes) if bytes.len() == channels => Ok(bytes),
        Some(bytes) if bytes.len() == 1 => Ok(vec![bytes[0]; channels]),
        _ => Err(Refusal::setting("value", must_be(), text).into()),
    }
}

/// The list of rows with a fault.
struct Listed<'a> {
    train: &'a Examples,
    classes: &'a [String],
}

impl Listed<'_> {
    fn write(&self, path: &Path, planted: [(&str, &Option<Planted>); 2]) -> Result<()> {
        let mut lines: Vec<(usize, u32, &str)> = Vec::new();
        for (fault, planted) in planted {
            let Some(Planted { rows, were }) = planted else { continue };
            lines.extend(rows.iter().zip(were).map(|(&row, &was)| (row, was, fault)));
        }
        lines.sort_unstable();
        let name = |class: u32| self.classes[class as usize].as_str();
        let fields = vec![
            Field::new("row", DataType::Int64, false),
            Field::new("label", DataType::Utf8, false),
            Field::new("was", DataType::Utf8, false),
            Field::new("fault", DataType::Utf8, false),
        ];
        let rows = Int64Array::from_iter_values(lines.iter().map(|line| line.0 as i64));
        let labels = lines.iter().map(|line| name(label(self.train, line.0)));
        let columns: Vec<ArrayRef> = vec![
            Arc::new(rows),
            Arc::new(StringArray::from_iter_values(labels)),
            Arc::new(StringArray::from_iter_values(lines.iter().map(|line| name(line.1)))),
            Arc::new(StringArray::from_iter_values(lines.iter().map(|line| line.2))),
        ];
        let mut writer = ColumnWriter::create(path, fields)?;
        writer.write(columns)?;
        Ok(writer.finish()?)
    }
}
