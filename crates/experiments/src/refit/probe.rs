//! Table 5 of paper 004: a linear probe on the vectors of a pretrained encoder, and on those of the same encoder with random weights.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::json;
use veridical::{Error, Result};
use veridical_core::{Error as CoreError, Order, Rows, Seed, Stream};
use veridical_data::examples::{ExampleShape, Examples, Targets, Values};
use veridical_data::{Files, TensorMap, generate};
use veridical_io::{FolderFiles, LabeledOptions, RecordOptions, read_labeled};
use veridical_learn::{Folds, Logistic, LogisticSettings};
use veridical_nets::{RefitMethod, RefitSettings, Target, refit};

use crate::attribution::{Training, World, accuracy, encoded, labels};
use crate::lab::{self, row};
use crate::movielens::Folder;
use crate::{Experiment, Findings, RunOptions, queue};

pub(crate) const TABLE5: Experiment = Experiment {
    id: "table5",
    claim: "Paper 004, section 2, table 5: a linear probe on a pre-trained encoder is far better than one on the same encoder with random \
        weights",
    rule: "replicated if the 95 % interval over shuffles of the mean test accuracy of the probe on pre-trained vectors less that on random \
        ones lies above 10 points; refuted otherwise. A network on the vectors, before and after its last layer is solved, is reported \
        without a claim",
    deviations: &[
        "all-MiniLM-L6-v2 in place of GPT-2, which is not at hand; sentence vectors in place of the last token's",
        "the 359 labeled tweets of the manual part of Sentiment140, 300 to learn from and 59 to test on, 50 shuffles, as in the paper; \
         shuffles share tweets, so the interval is narrower than for new tweets",
        "the probe is logistic regression with a penalty by five-fold cross-validation on the 300 tweets, in place of ten epochs",
        "random weights are truncated normal with deviation 0.02, norms at one and zero, as the paper's; five encoders, ten shuffles each",
        "in place of fine-tuning, which is not available for text networks: mlp:64 on the vectors, and its head solved again",
    ],
    config: include_str!("../../../../experiments/table5/config.toml"),
    run,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    shuffles: u64,
    quick_shuffles: u64,
    train: usize,
    quick_train: usize,
    /// Encoders with random weights; shuffle s has number s mod encoders.
    encoders: u64,
    folds: usize,
    training: Training,
}

/// The penalties C of the probe.
const PENALTIES: [f64; 7] = [1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3];
/// Points that the pre-trained weights are worth at least.
const FAR: f64 = 10.0;
/// Deviation of random weights, and where they are cut, in deviations.
const RANDOM: (f64, f64) = (0.02, 2.0);

/// Accuracies in percent on training and test rows.
type Accuracies = [f64; 2];

/// What one shuffle found: the probe on pretrained and on random vectors, the network before and after its head is solved.
#[derive(Clone, Copy, Deserialize, Serialize)]
struct Shuffled {
    pretrained: Accuracies,
    random: Accuracies,
    network: Accuracies,
    solved: Accuracies,
}

fn run(config: &str, options: &RunOptions<'_>) -> Result<Findings> {
    let config: Config = toml::from_str(config).map_err(|e| {
        CoreError::damaged(format!("table5: the configuration is damaged: {e}"), "")
    })?;
    let (shuffles, n) = match options.quick {
        true => (config.quick_shuffles, config.quick_train),
        false => (config.shuffles, config.train),
    };
    let sources = Sources::new(config.encoders, options)?;
    let seeds: Vec<u64> = (0..shuffles).collect();
    let bar = options.job.progress("shuffles", "shuffles", Some(shuffles));
    let found = lab::side_by_side(&seeds, &bar, |&shuffle| {
        let key = json!({ "table5": shuffle, "train": n, "encoders": config.encoders, "folds": config.folds,
            "training": config.training, "quick": options.quick });
        let done = queue::once(options.keep, &key, || {
            let random = &sources.random[(shuffle % config.encoders) as usize];
            shuffled(&config, [&sources.pretrained, random], n, shuffle, options)
        })?;
        Ok(done.value)
    })?;
    drop(bar);
    Ok(report(&found))
}

/// The labeled tweets under every encoder.
struct Sources {
    pretrained: Examples,
    random: Vec<Examples>,
}

impl Sources {
    fn new(encoders: u64, options: &RunOptions<'_>) -> Result<Self> {
        if options.quick {
            // Images of classes stand for vectors that know them, images without for vectors that do not.
            let [pretrained, other] =
                [4, 5].map(|seed| Ok::<_, Error>(generate::images(80, 6, 1, 2, Seed::new(seed)?)));
            let (pretrained, other) = (pretrained?, other?);
            let noise = Examples {
                targets: Targets::Classes(vec![0; 40].into_iter().chain(vec![1; 40]).collect()),
                ..other
            };
            return Ok(Self { pretrained, random: (0..encoders).map(|_| noise.clone()).collect() });
        }
        let folder = Folder::new(options.data);
        let (texts, classes) =
            manual(&folder.file("sentiment140/testdata.manual.2009.06.14.csv")?)?;
        let files = FolderFiles::new(folder.file("all-MiniLM-L6-v2")?);
        let of = |values: Vec<f32>| Examples {
            shape: ExampleShape::Row { columns: values.len() / classes.len() },
            values: Values::Floats(values),
            targets: Targets::Classes(classes.clone()),
        };
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let pretrained = of(encoded(&files, &texts, options.job)?);
        let random = (0..encoders)
            .map(|number| {
                let files = RandomWeights { files: &files, seed: Seed::new(number)? };
                Ok(of(encoded(&files, &texts, options.job)?))
            })
            .collect::<Result<_>>()?;
        Ok(Self { pretrained, random })
    }
}

/// The tweets of the manual part that are positive (class 1) or negative.
fn manual(path: &Path) -> Result<(Vec<String>, Vec<u32>)> {
    let columns = "label=0,id=1,text=5".parse()?;
    let encoding = Some("latin1".into());
    let records =
        RecordOptions { columns, encoding, has_header: Some(false), ..RecordOptions::default() };
    let (read, _) = read_labeled(path, &LabeledOptions { records, ..LabeledOptions::default() })?;
    let both = read.texts.into_iter().zip(&read.labels).filter(|(_, label)| *label != "2");
    Ok(both.map(|(text, label)| (text, u32::from(label == "4"))).unzip())
}

/// The files of an encoder whose weights are drawn anew: matrices and tables truncated normal, norms one and zero.
struct RandomWeights<'a> {
    files: &'a FolderFiles,
    seed: Seed,
}

impl Files for RandomWeights<'_> {
    type Error = veridical_io::Error;

    fn shown(&self, name: &str) -> String {
        self.files.shown(name)
    }

    fn has(&self, name: &str) -> Result<bool, Self::Error> {
        self.files.has(name)
    }

    fn read(&self, name: &str, most: u64) -> Result<Option<Vec<u8>>, Self::Error> {
        self.files.read(name, most)
    }

    fn tensors(&self, name: &str) -> Result<Option<TensorMap>, Self::Error> {
        let tensors = self.files.tensors(name)?;
        Ok(tensors.map(|mut tensors| {
            tensors.iter_mut().for_each(|(name, (_, values))| self.draw(name, values));
            tensors
        }))
    }
}

impl RandomWeights<'_> {
    fn draw(&self, name: &str, values: &mut [f32]) {
        if name.ends_with("LayerNorm.weight") {
            return values.fill(1.0);
        }
        if name.ends_with("bias") {
            return values.fill(0.0);
        }
        let (deviation, most) = RANDOM;
        let stream = Stream::new(self.seed, &format!("experiment/random/{name}"));
        let mut normals = vec![0.0; values.len()];
        stream.at(0, 0).fill_normals(&mut normals);
        // The next draw in place of one that is too large.
        for (to, (i, mut z)) in values.iter_mut().zip((0..).zip(normals)) {
            let mut more = [0.0];
            let mut again = 0;
            while z.abs() > most {
                again += 1;
                stream.at(again, i).fill_normals(&mut more);
                z = more[0];
            }
            *to = (deviation * z) as f32;
        }
    }
}

fn shuffled(
    config: &Config,
    [pretrained, random]: [&Examples; 2],
    n: usize,
    shuffle: u64,
    options: &RunOptions<'_>,
) -> Result<Shuffled> {
    options.job.check()?;
    let seed = Seed::new(shuffle)?;
    let order = Order::new(pretrained.n() as u64, seed, "experiment/tweets", 0);
    let rows: Vec<usize> = (0..pretrained.n() as u64).map(|t| order.at(t) as usize).collect();
    let parts = |all: &Examples| [all.subset(&rows[..n]), all.subset(&rows[n..])];
    let probed = |all: &Examples| probe(&parts(all), config.folds, seed);
    let [train, test] = parts(pretrained);
    let world = World::of(train, test);
    let all: Vec<u32> = (0..n as u32).collect();
    let y = labels(&world.train);
    let mut net = world.trained(&all, y, &config.training, shuffle, options.job)?;
    let scores = |net: &_| -> Result<Accuracies> {
        let mut found = [0.0; 2];
        for (to, part) in found.iter_mut().zip([&world.train, &world.queries]) {
            *to = 100.0 * accuracy(&world.logits(net, part, options.job)?, labels(part));
        }
        Ok(found)
    };
    let network = scores(&net)?;
    let features = world.features(&net, &world.train, options.job)?;
    let settings = RefitSettings { method: RefitMethod::Logistic, folds: config.folds, seed };
    let (dim, head) = (net.feature_dim(), net.solved_head()?);
    let solved = refit(&features, dim, Target::Classes(y), world.classes, &head, &settings)?;
    net.set_head(&solved.head)?;
    Ok(Shuffled {
        pretrained: probed(pretrained)?,
        random: probed(random)?,
        network,
        solved: scores(&net)?,
    })
}

/// Accuracies of logistic regression with a penalty by cross-validation.
fn probe([train, test]: &[Examples; 2], folds: usize, seed: Seed) -> Result<Accuracies> {
    let (y, dim) = (labels(train), train.shape.len());
    let [x, z] = standardized([train, test], dim);
    let settings = LogisticSettings { tolerance: 1e-5, ..LogisticSettings::default() };
    let table = Rows::new(&x, dim)?;
    let folds = Folds { n: folds, seed };
    let penalty = Logistic::choose_penalty(table, y, 2, &PENALTIES, folds, &settings)?;
    let fit = Logistic::fit(table, y, 2, &LogisticSettings { c: penalty.c, ..settings }, None)?;
    let percent = |rows: &[f32], labels: &[u32]| {
        let right = fit.predict(rows).iter().zip(labels).filter(|(a, b)| a == b).count();
        100.0 * right as f64 / labels.len() as f64
    };
    Ok([percent(&x, y), percent(&z, labels(test))])
}

/// Columns with mean 0 and deviation 1 on the first rows: a penalty then means the same for either encoder.
fn standardized(parts: [&Examples; 2], dim: usize) -> [Vec<f32>; 2] {
    let [own, others] = parts.map(|part| match &part.values {
        Values::Floats(values) => values.clone(),
        Values::Bytes(values) => values.iter().map(|&x| f32::from(x)).collect(),
    });
    let n = (own.len() / dim) as f64;
    let column = |c: usize| own.iter().skip(c).step_by(dim).map(|&x| f64::from(x));
    let moments: Vec<(f64, f64)> = (0..dim)
        .map(|c| {
            let mean = column(c).sum::<f64>() / n;
            let variance = column(c).map(|x| (x - mean).powi(2)).sum::<f64>() / n;
            (mean, if variance > 0.0 { variance.sqrt() } else { 1.0 })
        })
        .collect();
    [own, others].map(|rows| {
        let each = rows.iter().zip(moments.iter().cycle());
        each.map(|(&x, (mean, deviation))| ((f64::from(x) - mean) / deviation) as f32).collect()
    })
}

fn report(found: &[Shuffled]) -> Findings {
    type Of = fn(&Shuffled) -> Accuracies;
    let kinds: [(&str, Of, [Option<f64>; 2]); 4] = [
        ("linear probe on pre-trained vectors", |s| s.pretrained, [Some(95.3), Some(86.3)]),
        ("linear probe on random vectors", |s| s.random, [Some(85.7), Some(57.8)]),
        ("network on pre-trained vectors", |s| s.network, [None; 2]),
        ("network with its head solved", |s| s.solved, [None; 2]),
    ];
    let mut findings = Findings::default();
    for (name, of, paper) in kinds {
        for (part, what) in ["training", "test"].into_iter().enumerate() {
            let values: Vec<f64> = found.iter().map(|s| of(s)[part]).collect();
            findings.rows.push(row(format!("{what} accuracy, %, {name}"), paper[part], &values));
        }
    }
    let gains: Vec<f64> = found.iter().map(|s| s.pretrained[1] - s.random[1]).collect();
    let what = "test accuracy, points, pre-trained less random vectors".to_owned();
    let mut gain = row(what, Some(28.5), &gains);
    gain.holds = Some(gain.measured.low > FAR);
    findings.rows.push(gain);
    let gains: Vec<f64> = found.iter().map(|s| s.solved[1] - s.network[1]).collect();
    let what = "test accuracy, points, network with its head solved less before".to_owned();
    findings.rows.push(row(what, None, &gains));
    findings
}
