//! Examples as a network takes them: divided, with the normalisation that the run keeps.
//!
//! One seeded shuffle decides everything: the first `--limit` examples are used, the last `--validation` share of these is
//! kept back to judge on. So smaller limits are parts of larger ones.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use veridical_core::Job;
use veridical_core::{Order, Seed};
use veridical_data::examples::{Dataset, Examples, Targets};
use veridical_io::examples::{ExampleOptions, read_examples};
use veridical_nets::{Feed, Shape, moments};

use super::options::{LossName, NetOptions, Normalize, names};
use crate::{Error, Result};

/// What is predicted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Task {
    /// One of these classes.
    Classes(Vec<String>),
    /// So many numbers.
    Numbers(usize),
}

impl Task {
    /// How many classes, 0 for numbers.
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

/// What is done to values before a network sees them, channel by channel.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct Normalisation {
    pub mean: Vec<f64>,
    pub std: Vec<f64>,
}

/// Everything a training needs to know about its data.
pub(crate) struct Material {
    pub shape: Shape,
    pub task: Task,
    /// `None` if the data has test examples alone.
    pub train: Option<Examples>,
    pub validation: Option<Examples>,
    pub normalisation: Normalisation,
    /// The sections of `run.json`.
    pub sections: Map<String, Value>,
}

impl Material {
    pub fn load(options: &NetOptions, job: &Job<'_>) -> Result<Self> {
        let Some(path) = &options.data else {
            let what = "a network learns from examples; name them with ⟨data⟩ FILE_OR_FOLDER";
            return Err(Error::request(what, ""));
        };
        let data = read(path, &options.reading(), job)?;
        let Dataset { train, test, classes, columns, fingerprint, .. } = data;
        let any = train.as_ref().or(test.as_ref());
        // INVARIANT: a dataset has a part.
        let any = any.ok_or_else(|| Error::request(format!("{} is empty", path.display()), ""))?;
        let shape = Shape::from(any.shape);
        let task = match &any.targets {
            Targets::Classes(_) => Task::Classes(classes),
            Targets::Numbers { dim, .. } => Task::Numbers(*dim),
        };
        let (train, validation, split) = divide(train, &task, options)?;
        let normalisation = Normalisation::new(options, train.as_ref(), shape)?;
        let Normalisation { mean, std } = &normalisation;
        let mut sections = Map::new();
        sections.insert("data".into(), fingerprint);
        sections.insert("split".into(), split);
        sections.insert("normalization".into(), json!({ "mean": mean, "std": std }));
        sections.insert("input".into(), json!(any_dims(shape)));
        match &task {
            Task::Classes(classes) => sections.insert("classes".into(), json!(classes)),
            Task::Numbers(dim) => sections.insert("targets".into(), json!(dim)),
        };
        if !columns.is_empty() {
            sections.insert("columns".into(), json!(columns));
        }
        Ok(Self { shape, task, train, validation, normalisation, sections })
    }
}

/// Reads examples and says what was noticed.
pub(super) fn read(path: &Path, options: &ExampleOptions, job: &Job<'_>) -> Result<Dataset> {
    let data = read_examples(path, options)?;
    data.notes.iter().for_each(|note| job.note(note));
    Ok(data)
}

/// The sizes of a shape: one for rows, three for images.
fn any_dims(shape: Shape) -> Vec<usize> {
    match shape.positions() {
        1 => vec![shape.channels],
        _ => vec![shape.height, shape.width, shape.channels],
    }
}

type Divided = (Option<Examples>, Option<Examples>, Value);

/// The examples to learn from, those kept back, and the section `split`.
pub(super) fn divide(
    train: Option<Examples>,
    task: &Task,
    options: &NetOptions,
) -> Result<Divided> {
    let share = options.validation.unwrap_or(0.0);
    if !(0.0..1.0).contains(&share) {
        let what = format!("⟨validation⟩ must be a share from 0 to below 1, got {share}");
        return Err(Error::request(what, ""));
    }
    let seed = Seed::new(options.split_seed.unwrap_or(0))?;
    let mut split = json!({ "seed": seed.get(), "validation": share, "limit": options.limit });
    let Some(all) = train else { return Ok((None, None, split)) };
    let n = all.n();
    let used = match options.limit {
        None => n,
        Some(limit) if (1..=n).contains(&limit) => limit,
        Some(limit) => {
            let what = format!("⟨limit⟩ {limit}: there are {n} examples to learn from");
            return Err(Error::request(what, format!("choose 1 to {n}")));
        }
    };
    let kept_back = (share * used as f64).round() as usize;
    if share > 0.0 && (kept_back == 0 || kept_back == used) {
        let what = format!("⟨validation⟩ {share} of {used} examples is {kept_back}");
        return Err(Error::request(what, "both parts need one at least"));
    }
    split["rows"] = json!({ "train": used - kept_back, "validation": kept_back });
    if used == n && kept_back == 0 {
        return Ok((Some(all), None, split));
    }
    let order = Order::new(n as u64, seed, "examples", 0);
    let part = |range: std::ops::Range<usize>| {
        let mut rows: Vec<usize> = range.map(|t| order.at(t as u64) as usize).collect();
        rows.sort_unstable();
        all.subset(&rows)
    };
    let learnt = part(0..used - kept_back);
    if let Task::Classes(classes) = task {
        let count = |examples: &Examples, class: usize| match &examples.targets {
            Targets::Classes(labels) => labels.iter().filter(|&&l| l as usize == class).count(),
            Targets::Numbers { .. } => 0,
        };
        if let Some(empty) = (0..classes.len()).find(|&class| count(&learnt, class) == 0) {
            return Err(Error::missing(
                format!(
                    "class `{}` has no example among the {} that are learnt from, and {} in all",
                    classes[empty],
                    learnt.n(),
                    count(&all, empty),
                ),
                "raise ⟨limit⟩, keep less back, or choose classes with ⟨classes⟩",
            ));
        }
    }
    let validation = (kept_back > 0).then(|| part(used - kept_back..used));
    Ok((Some(learnt), validation, split))
}

impl Normalisation {
    fn new(options: &NetOptions, train: Option<&Examples>, shape: Shape) -> Result<Self> {
        let given = match (&options.mean, &options.std) {
            (None, None) => None,
            (Some(mean), Some(std)) => Some((mean, std)),
            _ => return Err(Error::request("⟨mean⟩ and ⟨std⟩ go together", "give both")),
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
                let what = "the data has no training examples whose mean could be taken";
                Err(Error::request(what, "give ⟨mean⟩ and ⟨std⟩, or ⟨normalize⟩ none"))
            }
        }
    }

    /// Examples on their way into a network.
    pub fn feed<'a>(&self, examples: &'a Examples, seed: Seed) -> Feed<'a> {
        Feed::of(examples, &self.mean, &self.std, seed)
    }
}

/// One finite number per channel; one alone serves all.
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
            format!("{flag} has {n} values where the data has {channels} channels"),
            "",
        )),
    }
}
