//! Training data of a network: split, with the normalization stored in the run.
//!
//! One seeded shuffle decides everything: the first `--limit` examples are used, and the last `--validation` fraction of
//! these is held out as validation set. Smaller limits are therefore subsets of larger ones. Rows that are excluded do not take part.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use veridical_core::Job;
use veridical_core::{Order, Seed};
use veridical_data::examples::{Dataset, Examples, Targets};
use veridical_data::fingerprint;
use veridical_io::examples::{ExampleOptions, read_examples};
use veridical_io::{ReadOptions, read_ids};
use veridical_nets::{Feed, Shape, moments};

use super::options::{LossName, NetOptions, Normalize, names};
use crate::{Error, Result};

/// Prediction target of a network.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Task {
    /// Classification into these classes.
    Classes(Vec<String>),
    /// Regression with this number of outputs.
    Numbers(usize),
}

impl Task {
    /// Returns the number of classes, 0 for regression.
    pub fn classes(&self) -> usize {
        match self {
            Self::Classes(classes) => classes.len(),
            Self::Numbers(_) => 0,
        }
    }

    pub fn usual_loss(&self) -> LossName {
        match self {
            Self::Classes(_) => LossName::CrossEntropy,
            Self::Numbers(_) => LossName::Squared,
        }
    }
}

/// Normalization of the input, per channel.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct Normalization {
    pub mean: Vec<f64>,
    pub std: Vec<f64>,
}

/// Training data with everything derived from it.
pub(crate) struct Material {
    pub shape: Shape,
    pub task: Task,
    /// Training examples; `None` if the data has only test examples.
    pub train: Option<Examples>,
    pub validation: Option<Examples>,
    pub normalization: Normalization,
    /// Sections of `run.json` about the data.
    pub sections: Map<String, Value>,
}

impl Material {
    pub fn load(options: &NetOptions, job: &Job<'_>) -> Result<Self> {
        let Some(path) = &options.data else {
            let what = "training a network needs examples; pass them with ⟨data⟩ FILE_OR_FOLDER";
            return Err(Error::request(what, ""));
        };
        let data = options.read(path, None, None, false, job)?;
        let Dataset { train, test, classes, columns, fingerprint: content, .. } = data;
        let any = train.as_ref().or(test.as_ref());
        // INVARIANT: a dataset has at least one part.
        let any = any.ok_or_else(|| Error::request(format!("{} is empty", path.display()), ""))?;
        let shape = Shape::from(any.shape);
        let task = match &any.targets {
            Targets::Classes(_) => Task::Classes(classes),
            Targets::Numbers { dim, .. } => Task::Numbers(*dim),
        };
        let Division { train, validation, section, .. } = divide(train, &task, options)?;
        let normalization = Normalization::new(options, train.as_ref(), shape)?;
        let Normalization { mean, std } = &normalization;
        let mut sections = Map::new();
        sections.insert("data".into(), content);
        sections.insert("split".into(), section);
        sections.insert("normalization".into(), json!({ "mean": mean, "std": std }));
        sections.insert("input".into(), json!(any_dims(shape)));
        match &task {
            Task::Classes(classes) => sections.insert("classes".into(), json!(classes)),
            Task::Numbers(dim) => sections.insert("targets".into(), json!(dim)),
        };
        if !columns.is_empty() {
            sections.insert("columns".into(), json!(columns));
        }
        Ok(Self { shape, task, train, validation, normalization, sections })
    }
}

/// Reads examples and reports notes about them.
pub(super) fn read(path: &Path, options: &ExampleOptions, job: &Job<'_>) -> Result<Dataset> {
    let data = read_examples(path, options)?;
    data.notes.iter().for_each(|note| job.note(note));
    Ok(data)
}

/// Returns the dimensions of a shape: one for rows, three for images.
fn any_dims(shape: Shape) -> Vec<usize> {
    match shape.positions() {
        1 => vec![shape.channels],
        _ => vec![shape.height, shape.width, shape.channels],
    }
}

/// The training data in its parts.
pub(crate) struct Division {
    /// Training examples; `None` if there are none.
    pub train: Option<Examples>,
    /// The row of each training example in the data as read, in rising order.
    pub rows: Vec<usize>,
    pub validation: Option<Examples>,
    /// Section `split` of `run.json`.
    pub section: Value,
}

/// Divides training data as the options say.
pub(crate) fn divide(
    train: Option<Examples>,
    task: &Task,
    options: &NetOptions,
) -> Result<Division> {
    let kept = match &train {
        Some(all) => kept(all.n(), options.exclude_rows.as_deref())?,
        None => Vec::new(),
    };
    divide_kept(train, kept, task, options)
}

/// Divides those of the training rows that are kept as the options say.
pub(crate) fn divide_kept(
    train: Option<Examples>,
    kept: Vec<usize>,
    task: &Task,
    options: &NetOptions,
) -> Result<Division> {
    let share = options.validation.unwrap_or(0.0);
    if !(0.0..1.0).contains(&share) {
        let what =
            format!("⟨validation⟩ must be a fraction of at least 0 and below 1, got {share}");
        return Err(Error::request(what, ""));
    }
    let seed = Seed::new(options.split_seed.unwrap_or(0))?;
    let mut section = json!({ "seed": seed.get(), "validation": share, "limit": options.limit });
    let Some(all) = train else {
        return Ok(Division { train: None, rows: Vec::new(), validation: None, section });
    };
    let n = kept.len();
    if n < all.n() {
        section["excluded"] = json!({
            "rows": all.n() - n,
            "fingerprint": fingerprint::of_numbers(&kept),
        });
    }
    let used = match options.limit {
        None => n,
        Some(limit) if (1..=n).contains(&limit) => limit,
        Some(limit) => {
            let what = format!("⟨limit⟩ {limit}: there are {n} training examples");
            return Err(Error::request(what, format!("choose 1 to {n}")));
        }
    };
    let held_out = (share * used as f64).round() as usize;
    if share > 0.0 && (held_out == 0 || held_out == used) {
        let what = format!("⟨validation⟩ {share} of {used} examples is {held_out}");
        return Err(Error::request(what, "training and validation set need at least one each"));
    }
    section["rows"] = json!({ "train": used - held_out, "validation": held_out });
    if used == all.n() && held_out == 0 {
        return Ok(Division { train: Some(all), rows: kept, validation: None, section });
    }
    let order = Order::new(n as u64, seed, "examples", 0);
    let part = |range: std::ops::Range<usize>| {
        let mut rows: Vec<usize> = range.map(|t| kept[order.at(t as u64) as usize]).collect();
        rows.sort_unstable();
        rows
    };
    let rows = part(0..used - held_out);
    let learned = all.subset(&rows);
    if let Task::Classes(classes) = task {
        let count = |examples: &Examples, class: usize| match &examples.targets {
            Targets::Classes(labels) => labels.iter().filter(|&&l| l as usize == class).count(),
            Targets::Numbers { .. } => 0,
        };
        if let Some(empty) = (0..classes.len()).find(|&class| count(&learned, class) == 0) {
            return Err(Error::missing(
                format!(
                    "class `{}` has no example among the {} training examples, and {} in the whole data",
                    classes[empty],
                    learned.n(),
                    count(&all, empty),
                ),
                "raise ⟨limit⟩, hold out fewer with ⟨validation⟩, or select classes with ⟨classes⟩",
            ));
        }
    }
    let validation = (held_out > 0).then(|| all.subset(&part(used - held_out..used)));
    Ok(Division { train: Some(learned), rows, validation, section })
}

/// The rows that stay when those of a list are left out.
pub(super) fn kept(n: usize, excluded: Option<&Path>) -> Result<Vec<usize>> {
    let Some(path) = excluded else { return Ok((0..n).collect()) };
    let mut stays = vec![true; n];
    for row in listed_rows(path, n)? {
        stays[row] = false;
    }
    let rows: Vec<usize> = (0..n).filter(|&row| stays[row]).collect();
    match rows.is_empty() {
        true => Err(Error::request(
            format!("⟨exclude-rows⟩ {} lists all {n} training examples", path.display()),
            "leave some to learn from",
        )),
        false => Ok(rows),
    }
}

/// Reads a list of rows of the training data, from 0: a column `row`, or one number per line.
pub(crate) fn listed_rows(path: &Path, n: usize) -> Result<Vec<usize>> {
    let named = ReadOptions { id_column: Some("row".into()), ..ReadOptions::default() };
    let ids = read_ids(path, &named).or_else(|_| read_ids(path, &ReadOptions::default()))?;
    let number = |at: usize| {
        let id = ids.get(at);
        id.parse::<usize>().ok().filter(|&row| row < n).ok_or_else(|| {
            let what = format!("{}: entry {}: `{id}`", path.display(), at + 1);
            let rows = format!("there are rows 0 to {}", n.saturating_sub(1));
            Error::request(format!("{what} is no row of the training data"), rows)
        })
    };
    (0..ids.len()).map(number).collect()
}

impl Normalization {
    pub(super) fn new(
        options: &NetOptions,
        train: Option<&Examples>,
        shape: Shape,
    ) -> Result<Self> {
        let given = match (&options.mean, &options.std) {
            (None, None) => None,
            (Some(mean), Some(std)) => Some((mean, std)),
            _ => {
                return Err(Error::request("⟨mean⟩ and ⟨std⟩ must be given together", "pass both"));
            }
        };
        if let Some((mean, std)) = given {
            if options.normalize == Some(Normalize::None) {
                let what = "⟨normalize⟩ none and ⟨mean⟩ contradict each other; leave one out";
                return Err(Error::request(what, ""));
            }
            let mean = numbers("⟨mean⟩", mean, shape.channels)?;
            let std = numbers("⟨std⟩", std, shape.channels)?;
            return match std.iter().find(|&&s| s <= 0.0) {
                Some(s) => Err(Error::setting("std", "above 0", s)),
                None => Ok(Self { mean, std }),
            };
        }
        match (options.normalize.unwrap_or(Normalize::Data), train) {
            (Normalize::None, _) => {
                Ok(Self { mean: vec![0.0; shape.channels], std: vec![1.0; shape.channels] })
            }
            (Normalize::Data, Some(train)) => {
                let (mean, std) = moments((&train.values).into(), shape);
                Ok(Self { mean, std })
            }
            (Normalize::Data, None) => {
                let what = "the data has no training examples to compute the mean from";
                Err(Error::request(what, "pass ⟨mean⟩ and ⟨std⟩, or ⟨normalize⟩ none"))
            }
        }
    }

    /// Returns the examples as normalized network input.
    pub fn feed<'a>(&self, examples: &'a Examples, seed: Seed) -> Feed<'a> {
        Feed::of(examples, &self.mean, &self.std, seed)
    }
}

/// Parses one finite number per channel; a single number applies to all channels.
fn numbers(flag: &str, list: &str, channels: usize) -> Result<Vec<f64>> {
    let items = names(Some(list));
    let number = |item: &String| {
        let value = item.parse::<f64>().ok().filter(|x| x.is_finite());
        value.ok_or_else(|| Error::request(format!("{flag} must be numbers, got {item}"), ""))
    };
    let values = items.iter().map(number).collect::<Result<Vec<_>>>()?;
    match values.len() {
        n if n == channels => Ok(values),
        1 => Ok(vec![values[0]; channels]),
        n => Err(Error::shape(
            format!("{flag} has {n} values but the data has {channels} channels"),
            "",
        )),
    }
}
