//! Poisoned images and the network that learned from them: what tables 3 and the trace of incidents share.
//!
//! A square is drawn on a share of the training images of other classes than the target, which get the target's label. Queries are test
//! images as they are, and the same with the square. For every kernel:
//!
//! vote          a query is flagged if 3 of its 5 most similar training images are poisoned (paper 004, section 1.5)
//! surrogate     kernel logistic regression on the labels that the network learned; on clean queries it is compared with the network for
//!               the correct class, on marked ones for the target
//! contrast      mean similarity to incidents less that to good decisions of the same class, for training images labeled so
//! mass          mean share of a training image in the surrogate's logit of the incidents (equation 3)
//! spectral      the squared first principal component score within the class (Tran, Li & Madry 2018), without incidents

use serde::{Deserialize, Serialize};
use serde_json::json;
use veridical::Result;
use veridical_core::{Error as CoreError, Estimate, Rows, Seed};
use veridical_data::examples::{Examples, Values};
use veridical_data::poison::{Patch, Planted, patch};
use veridical_inspect::attribute::mass;
use veridical_inspect::forensics::{TraceSettings, VoteSettings, check, scan, trace};
use veridical_inspect::surrogate::{FitSettings, Surrogate, Target, fit, largest};
use veridical_kernels::project::Sketch;
use veridical_kernels::tangent::{Kind, Settings};

use super::images::{CIFAR, Images, labels};
use super::kernels::{Grams, cosine, raw};
use super::measures::{Measures, accuracy, auc, compare, percent};
use super::networks::{Classifier, Training};
use crate::lab::side_by_side;
use crate::queue::{Done, once};
use crate::{Findings, RunOptions};

/// The configuration of both experiments.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    train: usize,
    test: usize,
    target: u32,
    /// Incidents that are traced.
    incidents: usize,
    model: String,
    training: Training,
    penalties: Vec<f64>,
    sketch: String,
    runs: Vec<Runs>,
}

/// Runs on one data set with one share of poison.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Runs {
    /// How the rows of the result call it.
    pub name: String,
    data: String,
    pub share: f64,
    patch: Patch,
    color: Vec<u8>,
    seeds: u64,
    /// Whether the claims of table 3 are decided here.
    #[serde(default)]
    pub decides: bool,
}

/// Kernels, the trace kernel first; pixels serve as a baseline.
pub const KERNELS: [&str; 8] =
    ["trNTK", "trNTK0", "proj-trNTK", "proj-pNTK", "pNTK", "Em", "CK", "pixels"];

/// What all runs of one kind measured.
pub struct Measured {
    pub runs: Runs,
    pub measures: Vec<Measures>,
}

/// Trains and measures all runs, or takes them from the folder of kept results.
pub fn measured(
    config: &str,
    options: &RunOptions<'_>,
    findings: &mut Findings,
) -> Result<Vec<Measured>> {
    let mut config: Config = toml::from_str(config)
        .map_err(|e| CoreError::damaged(format!("the configuration is damaged: {e}"), ""))?;
    if options.quick {
        (config.train, config.test, config.incidents) = (240, 60, 4);
        config.training = Training { epochs: 12, ..config.training };
        config.model = "cnn:8,max,8".into();
        config.sketch = "sjlt:256".into();
        config.runs.truncate(1);
        for runs in &mut config.runs {
            (runs.share, runs.seeds) = (0.15, 2);
            (runs.patch.row, runs.patch.column) = (12, 12);
        }
    }
    let mut sets: Vec<Option<Images>> = Vec::new();
    for runs in &config.runs {
        options.job.check()?;
        match Images::read(&runs.data, options) {
            Ok(images) => sets.push(Some(images)),
            Err(veridical::Error::Core(error @ CoreError::Missing { .. }))
                if runs.data == CIFAR =>
            {
                findings.notes.push(format!("{} is left out: {error}", runs.name));
                sets.push(None);
            }
            Err(error) => return Err(error),
        }
    }
    let jobs: Vec<(usize, u64)> = (0..config.runs.len())
        .filter(|&at| sets[at].is_some())
        .flat_map(|at| (0..config.runs[at].seeds).map(move |seed| (at, seed)))
        .collect();
    let bar = options.job.progress("poisoned networks", "networks", Some(jobs.len() as u64));
    let done: Vec<Done<Measures>> = side_by_side(&jobs, &bar, |&(at, seed)| {
        let Config { train, test, target, incidents, model, training, penalties, sketch, runs } =
            &config;
        let Runs { data, share, patch, color, .. } = &runs[at];
        let key = json!({
            "experiment": "004-poison", "quick": options.quick, "data": data, "share": share, "patch": patch, "color": color,
            "train": train, "test": test, "target": target, "incidents": incidents, "model": model, "training": training,
            "penalties": penalties, "sketch": sketch, "seed": seed,
        });
        once(options.keep, &key, || {
            options.job.check()?;
            // INVARIANT: jobs are of data sets that are there.
            let images = sets[at].as_ref().expect("images").drawn(*train, *test, seed)?;
            Poisoned::new(&config, &runs[at], images, seed, options)?.measures()
        })
    })?;
    let minutes: f64 = done.iter().map(|done| done.minutes).sum();
    findings.notes.push(format!("{minutes:.0} CPU minutes"));
    let of = |at: usize| {
        let own = jobs.iter().zip(&done).filter(move |((own, _), _)| *own == at);
        own.map(|(_, done)| done.value.clone()).collect::<Vec<_>>()
    };
    let all = config.runs.iter().enumerate();
    let all = all.map(|(at, runs)| Measured { runs: runs.clone(), measures: of(at) });
    Ok(all.filter(|measured| !measured.measures.is_empty()).collect())
}

/// A network that learned from poisoned images, and what it is asked.
struct Poisoned<'a> {
    config: &'a Config,
    options: &'a RunOptions<'a>,
    network: Classifier,
    train: Examples,
    planted: Planted,
    classes: usize,
    /// Test images as they are, then the same with the square.
    queries: Examples,
    /// Labels of the test images.
    wanted: Vec<u32>,
    /// The network's outputs for all queries.
    logits: Vec<f64>,
    seed: Seed,
}

impl<'a> Poisoned<'a> {
    fn new(
        config: &'a Config,
        runs: &Runs,
        images: Images,
        seed: u64,
        options: &'a RunOptions<'a>,
    ) -> Result<Self> {
        let classes = images.classes();
        let Images { mut train, test } = images;
        let wanted = labels(&test).to_vec();
        let mark = (runs.patch, runs.color.as_slice());
        let planted = patch(&mut train, mark, runs.share, config.target, Seed::new(seed)?)?;
        let mut marked = test.clone();
        runs.patch.draw(&mut marked, &(0..test.n()).collect::<Vec<_>>(), &runs.color)?;
        let queries = test.followed_by(&marked);
        let Config { model, training, .. } = config;
        let network = Classifier::train(model, &train, classes, *training, seed, options.job)?;
        let logits = network.logits(&queries, options.job)?;
        let seed = Seed::new(seed)?;
        Ok(Self {
            config,
            options,
            network,
            train,
            planted,
            classes,
            queries,
            wanted,
            logits,
            seed,
        })
    }

    /// The number of queries of each kind.
    fn count(&self) -> usize {
        self.wanted.len()
    }

    fn measures(&self) -> Result<Measures> {
        let mut measures = Measures::new();
        let logits = Rows::new(&self.logits, self.classes)?;
        let (clean, marked) = self.logits.split_at(self.count() * self.classes);
        measures.insert("accuracy".into(), accuracy(Rows::new(clean, self.classes)?, &self.wanted));
        let target = self.config.target;
        let others: Vec<bool> = self.wanted.iter().map(|&y| y != target).collect();
        let hits = marked.chunks_exact(self.classes).zip(&others).filter(|(_, other)| **other);
        let hits = hits.filter(|(s, _)| largest(s) == target).count() as u64;
        let asked = others.iter().filter(|other| **other).count() as u64;
        measures.insert("attack success".into(), percent(Estimate::share(hits, asked)));
        // Incidents: marked images of other classes in the target; the reference: clean ones that belong there.
        let count = self.count();
        let at_target = |q: usize| largest(logits.row(q)) == target;
        let incidents = (count..2 * count).filter(|&q| others[q - count] && at_target(q));
        let incidents: Vec<usize> = incidents.take(self.config.incidents).collect();
        let reference: Vec<usize> = (0..count).filter(|&q| !others[q] && at_target(q)).collect();
        for kernel in ["trNTK", "proj-trNTK", "proj-pNTK", "pNTK", "Em", "CK", "pixels"] {
            self.options.job.check()?;
            let grams = self.grams(kernel)?;
            match kernel {
                "trNTK" => {
                    self.look("trNTK", &grams.cosine(), &incidents, &reference, &mut measures)?;
                    self.look("trNTK0", &grams, &incidents, &reference, &mut measures)?;
                }
                name => self.look(name, &grams, &incidents, &reference, &mut measures)?,
            }
        }
        Ok(measures)
    }

    fn grams(&self, kernel: &str) -> Result<Grams> {
        let sketched = |kind: Kind| -> Result<Settings> {
            let sketch = Some(self.config.sketch.parse::<Sketch>()?.of_everything());
            Ok(cosine(Settings { sketch, ..Settings::new(kind) }))
        };
        let settings = match kernel {
            "trNTK" => raw(Settings::new(Kind::Trntk0)),
            "proj-trNTK" => sketched(Kind::Trntk)?,
            "proj-pNTK" => sketched(Kind::Pntk)?,
            "pNTK" => cosine(Settings::new(Kind::Pntk)),
            "Em" => Settings::new(Kind::Em),
            "CK" => Settings::new(Kind::CkCosine),
            _ => {
                let (own, asked) = (unit_pixels(&self.train), unit_pixels(&self.queries));
                return Grams::of_vectors(&own, &asked, self.train.n(), self.options.job);
            }
        };
        let (own, asked) = (self.network.feed(&self.train)?, self.network.feed(&self.queries)?);
        Grams::new(&self.network.net, &own, &asked, &settings, self.options.job)
    }

    /// Notes everything about one kernel.
    fn look(
        &self,
        name: &str,
        grams: &Grams,
        incidents: &[usize],
        reference: &[usize],
        measures: &mut Measures,
    ) -> Result<()> {
        let (k, q) = (Rows::new(&grams.train, grams.n)?, Rows::new(&grams.queries, grams.n)?);
        let count = self.count();
        let suspects: Vec<u32> = self.planted.rows.iter().map(|&row| row as u32).collect();
        let truth: Vec<bool> = (0..2 * count).map(|q| q >= count).collect();
        let vote = check(q, &suspects, Some(&truth), VoteSettings::default())?;
        for (what, share) in [("precision", vote.precision), ("recall", vote.recall)] {
            let share = share.filter(|share| share.value.is_finite());
            measures.extend(share.map(|share| (format!("{name}: {what}"), percent(share))));
        }
        let surrogate =
            if name == "pixels" { None } else { Some(self.surrogate(name, k, q, measures)?) };
        if incidents.is_empty() || reference.len() < 2 {
            return Ok(());
        }
        let [of_incidents, of_reference] =
            [incidents, reference].map(|queries| grams.of_queries(queries));
        let of_incidents = Rows::new(&of_incidents, grams.n)?;
        let of_reference = Rows::new(&of_reference, grams.n)?;
        let own = labels(&self.train);
        let target = self.config.target;
        let candidates: Vec<u32> =
            (0..grams.n as u32).filter(|&row| own[row as usize] == target).collect();
        let mut poisoned = vec![false; grams.n];
        self.planted.rows.iter().for_each(|&row| poisoned[row] = true);
        let is_poisoned = |row: u32| poisoned[row as usize];
        let mut note = |what: &str, value: Option<f64>| {
            let value = value.map(|v| Estimate::point(v, 1));
            measures.extend(value.map(|v| (format!("{name}: {what}"), v)));
        };
        let found = trace(of_incidents, of_reference, &candidates, &TraceSettings::new(self.seed))?;
        let scores: Vec<f64> = found.candidates.iter().map(|t| t.score.value).collect();
        let truth: Vec<bool> = found.candidates.iter().map(|t| is_poisoned(t.row)).collect();
        note("AUC of the contrast", auc(&scores, &truth));
        note("p of the trace", Some(found.p_value));
        let hit = found.group.iter().filter(|row| is_poisoned(**row)).count() as f64;
        let share = |of: usize| (of > 0).then_some(100.0 * hit / of as f64);
        note("precision of the traced rows", share(found.group.len()));
        note("recall of the traced rows", share(suspects.len()));
        let truth: Vec<bool> = candidates.iter().map(|&row| is_poisoned(row)).collect();
        if let Some(surrogate) = surrogate {
            let v: Vec<f64> = (0..incidents.len() * self.classes)
                .map(|at| f64::from(u8::from(at % self.classes == target as usize)))
                .collect();
            let alpha = Rows::new(surrogate.alpha(), self.classes)?;
            let effects =
                mass(alpha, surrogate.intercepts(), of_incidents, Rows::new(&v, self.classes)?)?;
            let mean = |row: &u32| effects.iter().skip(*row as usize).step_by(grams.n).sum::<f64>();
            note("AUC of the mass", auc(&candidates.iter().map(mean).collect::<Vec<_>>(), &truth));
        }
        if name == "trNTK" {
            let ranked = scan(k, own)?;
            let place = ranked.classes.iter().position(|class| class.class == target);
            note("rank of the target in the scan", place.map(|place| place as f64 + 1.0));
            if let Some(class) = ranked.classes.iter().find(|class| class.class == target) {
                let scores: Vec<f64> = class.rows.iter().map(|row| row.spectral).collect();
                let truth: Vec<bool> = class.rows.iter().map(|row| is_poisoned(row.row)).collect();
                note("AUC of the spectral signature", auc(&scores, &truth));
            }
        }
        Ok(())
    }

    fn surrogate(
        &self,
        name: &str,
        k: Rows<'_, f32>,
        q: Rows<'_, f32>,
        measures: &mut Measures,
    ) -> Result<Surrogate> {
        let (classes, count) = (self.classes, self.count());
        let target = Target::Labels { labels: labels(&self.train), classes, weights: None };
        let settings = FitSettings {
            penalties: self.config.penalties.clone(),
            ..FitSettings::labels(self.seed)
        };
        let surrogate = fit(k, target, &settings, &self.options.job.quiet())?;
        let scores = surrogate.logits(q)?;
        let middle = count * classes;
        let marked = vec![self.config.target; count];
        let parts = [("clean", 0..middle, &self.wanted), ("marked", middle..2 * middle, &marked)];
        for (part, range, labels) in parts {
            let network = Rows::new(&self.logits[range.clone()], classes)?;
            compare(&format!("{name}, {part}"), network, &scores[range], labels, measures)?;
        }
        Ok(surrogate)
    }
}

/// Pixels of every image, divided by their norm.
fn unit_pixels(images: &Examples) -> Vec<f32> {
    let Values::Bytes(bytes) = &images.values else { return Vec::new() };
    let of_image = |image: &[u8]| -> Vec<f32> {
        let norm = image.iter().map(|&p| f64::from(p).powi(2)).sum::<f64>().sqrt().max(1.0);
        image.iter().map(|&p| (f64::from(p) / norm) as f32).collect()
    };
    bytes.chunks_exact(images.shape.len()).flat_map(of_image).collect()
}
