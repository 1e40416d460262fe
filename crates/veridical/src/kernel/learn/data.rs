//! Examples in training and held-out rows.

use veridical_core::{Job, Order, Seed};
use veridical_data::examples::{Dataset, Examples, Targets, Values};
use veridical_io::ColumnMap;
use veridical_io::examples::{ExampleOptions, read_examples};

use super::{Learn, WeightRule};
use crate::explain::RowLimit;
use crate::net::{Division, Saved, Task, divide, names};
use crate::{Error, Result};

/// What is predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Numbers,
    Classes,
}

/// Some rows of the examples.
pub(super) struct Part {
    pub examples: Examples,
    /// Numbers of the rows in their set.
    pub rows: Vec<usize>,
    /// Inputs: standardized as the training rows are.
    pub x: Vec<f32>,
    /// Targets, rows x targets: numbers, or one-hot classes.
    pub y: Vec<f64>,
    pub labels: Option<Vec<u32>>,
}

impl Part {
    pub fn n(&self) -> usize {
        self.rows.len()
    }
}

/// Training and held-out rows.
pub(super) struct Material {
    pub name: String,
    pub classes: Vec<String>,
    pub saved: Option<Saved>,
    pub train: Part,
    pub test: Part,
    pub held_out: String,
    pub weights: Option<Vec<f64>>,
    pub dim: usize,
    pub notes: Vec<String>,
}

impl Material {
    pub fn open(settings: &Learn, wanted: Wanted, job: &Job<'_>) -> Result<Self> {
        let saved = settings.run.as_deref().map(Saved::open).transpose()?;
        let mut notes = Vec::new();
        let (name, data) = match &saved {
            Some(saved) => {
                let path = saved.data(settings.data.as_deref())?;
                let mut data = saved.read(&path, None, None, job)?;
                if let Task::Classes(own) = &saved.task {
                    data.classes.clone_from(own);
                }
                (path.display().to_string(), data)
            }
            None => {
                let Some(path) = &settings.data else {
                    let what = "a machine learns from examples";
                    return Err(Error::request(what, "pass them with ⟨data⟩, or ⟨run⟩ RUN"));
                };
                let options = ExampleOptions {
                    target: names(settings.target.as_deref()),
                    regression: wanted == Wanted::Numbers,
                    ignore_columns: names(settings.ignore_columns.as_deref()),
                    records: settings.files.records(ColumnMap::default()),
                    ..ExampleOptions::default()
                };
                (path.to_string(), read_examples(path, &options)?)
            }
        };
        data.notes.iter().for_each(|note| job.note(note));
        let Dataset { train, test, classes, .. } = data;
        let (all, validation, numbers) = match (&saved, train) {
            (Some(saved), train) => {
                let Division { train, rows, validation, .. } =
                    divide(train, &saved.task, &saved.request.options)?;
                (train, validation, Some(rows))
            }
            (None, train) => (train, None, None),
        };
        let Some(all) = all else {
            return Err(Error::request(
                format!("{name} has no training examples"),
                "pass other data",
            ));
        };
        let is_of_classes = matches!(all.targets, Targets::Classes(_));
        if is_of_classes != (wanted == Wanted::Classes) {
            let (what, hint) = match is_of_classes {
                true => (format!("{name} has classes"), "use `kernel classify`"),
                false => (format!("{name} has numbers as targets"), "use `kernel regress`"),
            };
            return Err(Error::request(what, hint));
        }
        let seed = Seed::new(settings.split_seed)?;
        let mut kept: Vec<usize> = (0..all.n()).collect();
        let (test, test_rows, held_out) = match (test, validation) {
            (Some(test), _) => {
                let rows = (0..test.n()).collect();
                (test, rows, "the test set".to_owned())
            }
            (None, Some(validation)) => {
                let rows = (0..validation.n()).collect();
                (validation, rows, "the validation rows of the run".to_owned())
            }
            (None, None) => {
                let n = all.n();
                let asked = (settings.held_out * n as f64).round() as usize;
                if asked == 0 || asked + 2 > n {
                    let what = format!("⟨held-out⟩ {} of {n} rows is {asked}", settings.held_out);
                    return Err(Error::request(
                        what,
                        "leave at least one row, and two to learn from",
                    ));
                }
                let order = Order::new(n as u64, seed, "kernel/held-out", 0);
                let mut rows: Vec<usize> =
                    (0..asked as u64).map(|t| order.at(t) as usize).collect();
                rows.sort_unstable();
                kept.retain(|row| rows.binary_search(row).is_err());
                if saved.is_some() {
                    notes.push(
                        "the network has learned from the held-out rows: its data has no test set"
                            .into(),
                    );
                }
                (all.subset(&rows), rows, "rows of the data, drawn at random".to_owned())
            }
        };
        if let RowLimit::Most(most) = settings.rows
            && kept.len() > most
        {
            let order = Order::new(kept.len() as u64, seed, "kernel/rows", 0);
            let mut some: Vec<usize> =
                (0..most as u64).map(|t| kept[order.at(t) as usize]).collect();
            some.sort_unstable();
            notes.push(format!("{most} of {} training rows, drawn at random", kept.len()));
            kept = some;
        }
        let train = all.subset(&kept);
        let classes = if is_of_classes { classes } else { Vec::new() };
        check_classes(&train, &classes)?;
        let dim = train.shape.len();
        let numbers = match numbers {
            Some(numbers) => kept.iter().map(|&row| numbers[row]).collect(),
            None => kept,
        };
        let scale = Standard::of(&train);
        let part = |examples: Examples, rows: Vec<usize>| {
            let x = scale.apply(&examples);
            let (y, labels) = targets(&examples, classes.len());
            Part { examples, rows, x, y, labels }
        };
        let (train, test) = (part(train, numbers), part(test, test_rows));
        let repeated = repeated(&train.x, dim);
        if repeated > 0 {
            notes.push(format!(
                "{repeated} training rows have the inputs of another one: the kernel matrix is singular, and the penalty alone decides there"
            ));
        }
        let weights = match settings.weights {
            WeightRule::Equal => None,
            WeightRule::Trapezoid => Some(trapezoid(&floats(&train.examples), dim, &name)?),
        };
        Ok(Self { name, saved, train, test, held_out, weights, dim, notes, classes })
    }

    /// Number of targets, or of classes.
    pub fn targets(&self) -> usize {
        self.train.y.len() / self.train.n()
    }
}

/// Refuses classes without a row, and fewer rows than two for each class.
fn check_classes(train: &Examples, classes: &[String]) -> Result<()> {
    let Targets::Classes(labels) = &train.targets else { return Ok(()) };
    if train.n() < 2 * classes.len() {
        let what = format!("{} training rows are few for {} classes", train.n(), classes.len());
        return Err(Error::request(what, "learn from at least two rows for each class"));
    }
    let empty = (0..classes.len()).find(|&c| !labels.iter().any(|&label| label as usize == c));
    match empty {
        Some(c) => {
            let what =
                format!("class `{}` has no row among the {} training rows", classes[c], train.n());
            Err(Error::request(what, "raise ⟨rows⟩, or hold out fewer rows with ⟨held-out⟩"))
        }
        None => Ok(()),
    }
}

/// The number of rows whose inputs are those of an earlier one.
fn repeated(x: &[f32], dim: usize) -> usize {
    let mut rows: Vec<&[f32]> = x.chunks_exact(dim).collect();
    rows.sort_by(|a, b| {
        let different = a.iter().zip(*b).map(|(a, b)| a.total_cmp(b)).find(|order| order.is_ne());
        different.unwrap_or(std::cmp::Ordering::Equal)
    });
    rows.windows(2).filter(|two| two[0] == two[1]).count()
}

fn targets(examples: &Examples, classes: usize) -> (Vec<f64>, Option<Vec<u32>>) {
    match &examples.targets {
        Targets::Numbers { values, .. } => (values.iter().map(|&y| f64::from(y)).collect(), None),
        Targets::Classes(labels) => {
            let mut y = vec![0.0; labels.len() * classes];
            for (row, &label) in y.chunks_exact_mut(classes).zip(labels) {
                row[label as usize] = 1.0;
            }
            (y, Some(labels.clone()))
        }
    }
}

fn floats(examples: &Examples) -> Vec<f32> {
    match &examples.values {
        Values::Floats(values) => values.clone(),
        Values::Bytes(values) => values.iter().map(|&x| f32::from(x) / 255.0).collect(),
    }
}

/// Means and standard deviations of the columns of a table; of an image all pixels have one scale.
struct Standard {
    mean: Vec<f64>,
    scale: Vec<f64>,
}

impl Standard {
    fn of(train: &Examples) -> Self {
        let dim = train.shape.len();
        if matches!(train.values, Values::Bytes(_)) {
            return Self { mean: vec![0.0; dim], scale: vec![1.0; dim] };
        }
        let values = floats(train);
        let n = train.n() as f64;
        let (mut mean, mut square) = (vec![0.0; dim], vec![0.0; dim]);
        for row in values.chunks_exact(dim) {
            mean.iter_mut().zip(row).for_each(|(m, &x)| *m += f64::from(x) / n);
        }
        for row in values.chunks_exact(dim) {
            for ((s, m), &x) in square.iter_mut().zip(&mean).zip(row) {
                *s += (f64::from(x) - m).powi(2) / n;
            }
        }
        let inverse = |s: f64| if s > 0.0 { 1.0 / s.sqrt() } else { 1.0 };
        Self { mean, scale: square.into_iter().map(inverse).collect() }
    }

    fn apply(&self, examples: &Examples) -> Vec<f32> {
        let mut values = floats(examples);
        for row in values.chunks_exact_mut(self.mean.len()) {
            for ((x, m), s) in row.iter_mut().zip(&self.mean).zip(&self.scale) {
                *x = ((f64::from(*x) - m) * s) as f32;
            }
        }
        values
    }
}

/// Weights of the trapezoid rule on a grid, with sum 1: products over the coordinates of half the distance between the neighbors.
fn trapezoid(x: &[f32], dim: usize, name: &str) -> Result<Vec<f64>> {
    let n = x.len() / dim;
    let mut weights = vec![1.0; n];
    let mut nodes = 1usize;
    for k in 0..dim {
        let own: Vec<f32> = x.iter().skip(k).step_by(dim).copied().collect();
        let mut values = own.clone();
        values.sort_by(f32::total_cmp);
        values.dedup();
        nodes = nodes.saturating_mul(values.len());
        if values.len() < 2 {
            continue;
        }
        let at = |i: usize| f64::from(values[i]);
        let last = values.len() - 1;
        let length = at(last) - at(0);
        for (weight, value) in weights.iter_mut().zip(&own) {
            let i = values.partition_point(|x| x < value);
            *weight *= (at((i + 1).min(last)) - at(i.saturating_sub(1))) / (2.0 * length);
        }
    }
    let mut rows: Vec<Vec<u32>> =
        x.chunks_exact(dim).map(|row| row.iter().map(|x| x.to_bits()).collect()).collect();
    rows.sort_unstable();
    rows.dedup();
    if nodes != n || rows.len() != n {
        let what = format!(
            "⟨weights trapezoid⟩ needs inputs on a grid, and the {n} training rows of {name} are not all {nodes} nodes of one"
        );
        return Err(Error::request(
            what,
            "drop it, or give the held-out rows as a test set of their own",
        ));
    }
    Ok(weights)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trapezoid_weights_integrate_linear_functions_on_a_grid() {
        // Nodes 0, 1, 4 by 0, 2 in any order; the mean of 1 + x + 3 y over [0, 4] x [0, 2] is 1 + 2 + 3.
        let x = [4.0, 0.0, 0.0, 2.0, 1.0, 0.0, 4.0, 2.0, 0.0, 0.0, 1.0, 2.0];
        let weights = trapezoid(&x, 2, "t").unwrap();
        let sum: f64 = weights.iter().sum();
        let mean: f64 = weights
            .iter()
            .zip(x.chunks_exact(2))
            .map(|(w, x)| w * f64::from(1.0 + x[0] + 3.0 * x[1]))
            .sum();
        assert!((sum - 1.0).abs() < 1e-12 && (mean - 6.0).abs() < 1e-12, "{sum} {mean}");
        assert!(trapezoid(&x[..10], 2, "t").is_err(), "a node is missing");
        assert!(trapezoid(&[1.0, 2.0, 1.0], 1, "t").is_err(), "a node is there twice");
    }
}
