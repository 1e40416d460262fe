//! Table 1, task 2: what a user watches next, read by two towers from doc2vec vectors of titles and genres.
//!
//! Pretrainings differ in the seed alone, and the towers that read them have one seed: what spreads comes from the vectors. Towers of
//! other seeds on the first pretraining's vectors say how much the consumer spreads by itself.

use serde::{Deserialize, Serialize};
use serde_json::json;
use veridical::{Error, Result};
use veridical_core::{Job, Seed};
use veridical_data::generate::{ShopSettings, shop};
use veridical_data::{Corpus, Ids, Interactions, Short, Split, SplitOptions, SplitRule, split};
use veridical_embed::evaluate::Protocol;
use veridical_embed::{Embedding, Graphs, Input, Method, Model};
use veridical_inspect::{Treated, Treatment};

use super::ensemble::Ensemble;
use super::{phi, sd_row};
use crate::lab::{self, Settings, ranked, row, sd_ratio};
use crate::movielens::Folder;
use crate::queue::{Done, once};
use crate::{Experiment, Findings, Row, RunOptions};

pub(crate) const TASK2: Experiment = Experiment {
    id: ID,
    claim: "Paper 000, table 1, task 2: two towers that read features phi of pretrained movie vectors h find the next movie with a \
        deviation over pretrainings ten times smaller than with h itself, better than with h at equal dimension, as well as with \
        the average of ten pretrainings, and better at twice the dimension",
    rule: "replicated if, for recall@5 and NDCG@5 among 100 sampled items and in both readings of phi_32 (32 coordinates, 32 \
        directions): the 95 % interval of sd(h) / sd(phi_32) lies above 1, those of phi_32 - h and phi_64 - phi_32, paired over \
        pretrainings, lie above 0, and phi_32 - avg(h) lies within one point of 0; partly if only some of these hold; refuted if \
        none. The ranking of all movies, aligned vectors and the consumer's own spread are reported without a claim",
    deviations: &[
        super::study::SEQUENCES,
        "the paper's recall@5 of 66 to 71 % cannot be of all movies, so it is read as among 100 sampled ones; all movies beside it",
        "movies have their titles and genres as text; doc2vec is PV-DBOW, 100 epochs, every word that occurs twice: the paper says \
         window 3, 3 negatives and gensim alone",
        "the paper states neither the scaling of h nor of phi: unit rows, and phi with its factor 1 / sqrt(m), u ~ N(0, I)",
        "all towers have the same seed: the paper does not say; the spread over the seeds of towers stands beside it",
        "a linear layer follows the dense layers with a sigmoid: products of numbers between 0 and 1 are never negative",
        "batches of 8 users and at most 30 epochs; training ends before if the loss improves by less than 1e-4 in three epochs, as in \
         the paper",
    ],
    config: include_str!("../../../../experiments/000-table1-task2/config.toml"),
    run,
};

const ID: &str = "000-table1-task2";
const MEASURES: [&str; 2] = ["recall@5", "ndcg@5"];
const PROTOCOLS: [(Protocol, &str); 2] =
    [(Protocol::Uniform(100), "100 sampled"), (Protocol::Full, "all")];
/// Recall, its deviation, NDCG, its deviation.
const PAPER_H: [f64; 4] = [66.55, 3.03, 33.96, 1.83];
const PAPER_AVERAGE: [f64; 2] = [68.98, 35.02];
const PAPER_PHI: [[f64; 4]; 2] = [[68.90, 0.33, 34.97, 0.17], [71.30, 0.27, 37.48, 0.15]];
/// Points within which two values are comparable.
const COMPARABLE: f64 = 1.0;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    seeds: u64,
    quick_seeds: u64,
    quick_epochs: u32,
    /// Dimensions of phi in units of d.
    multiples: Vec<usize>,
    /// Those that are measured after alignment too.
    aligned: Vec<usize>,
    /// Rarer words are left out.
    min_count: u64,
    pretraining: toml::Table,
    towers: toml::Table,
}

/// Values of the measures under both protocols, in points.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Measured {
    epochs: u32,
    values: [[f64; 2]; 2],
}

/// What towers are given, and the paper's values.
struct Given {
    name: String,
    treatment: Treatment,
    paper: Option<[f64; 4]>,
    /// Other towers in place of other pretrainings.
    is_control: bool,
}

fn run(config: &str, options: &RunOptions<'_>) -> Result<Findings> {
    let config: Config = toml::from_str(config)
        .map_err(|e| Error::damaged(format!("{ID}: the configuration is damaged: {e}"), ""))?;
    let (data, texts) = films(options)?;
    let seeds: Vec<u64> =
        (0..if options.quick { config.quick_seeds } else { config.seeds }).collect();
    let [pretraining, towers] = [&config.pretraining, &config.towers].map(|given| {
        let mut settings = lab::grid(given).swap_remove(0);
        if options.quick {
            settings.insert("epochs".into(), config.quick_epochs.into());
        }
        settings
    });
    let numbers: Vec<i64> = (0..texts.len() as i64).collect();
    let of = texts.iter().map(String::as_str);
    let corpus = Corpus::of_texts(Ids::Int(numbers.into()), of, true, config.min_count);
    let bar = options.job.progress("pretraining", "models", Some(seeds.len() as u64));
    let pretrained = |&seed: &u64| pretrain(&corpus, &pretraining, seed, options.job);
    let tables = lab::side_by_side(&seeds, &bar, pretrained)?;
    let ensemble = Ensemble::new(&data.items, tables, true);
    let given = given(&config, ensemble.dim())?;

    let jobs: Vec<(usize, usize, u64)> = (0..given.len())
        .flat_map(|g| {
            let n = if given[g].treatment.is_average() { 1 } else { seeds.len() };
            let is_control = given[g].is_control;
            (0..n).map(move |i| if is_control { (g, 0, i as u64) } else { (g, i, 0) })
        })
        .collect();
    let consumer = Consumer::new(&data, &towers, options.job)?;
    let rows: Vec<u32> = (0..data.items.len() as u32).collect();
    let treated = Treated::new(&ensemble.runs, &ensemble.maps, &rows);
    let bar = options.job.progress("measuring", "trainings", Some(jobs.len() as u64));
    let found = lab::side_by_side(&jobs, &bar, |&(g, pretrained, seed)| {
        let treatment = &given[g].treatment;
        let key = json!({
            "experiment": ID, "quick": options.quick, "min_count": config.min_count, "pretraining": pretraining, "seeds": seeds.len(),
            "towers": towers, "given": treatment.name(), "pretrained": pretrained, "seed": seed,
        });
        once(options.keep, &key, || {
            let (rows, dim) = treated.of(treatment, pretrained)?;
            consumer.learn(&Embedding::new(dim, rows), seed)
        })
    })?;
    let mut report = Report { given: &given, jobs: &jobs, found: &found, rows: Vec::new() };
    report.measured();
    report.claims();
    let mut notes = vec![format!(
        "{} interactions of {} users with {} movies; {} words, {:.1} a movie",
        data.len(),
        data.users.len(),
        data.items.len(),
        corpus.words.len(),
        corpus.tokens.values().len() as f64 / texts.len() as f64
    )];
    notes.extend(report.costs());
    Ok(Findings { rows: report.rows, notes, ..Findings::default() })
}

/// Movies in the order in which users saw them, with titles and genres; a small generated shop for quick runs, whose texts are of
/// the words of an item's cluster.
fn films(options: &RunOptions<'_>) -> Result<(Interactions, Vec<String>)> {
    if !options.quick {
        let folder = Folder::new(options.data);
        let data = folder.sequences()?;
        let texts = folder.texts(&data.items)?;
        return Ok((data, texts));
    }
    const WORDS: usize = 8;
    let shop = shop(ShopSettings {
        users: 200,
        items: 120,
        clusters: 4,
        per_user: 12,
        skew: 0.5,
        noise: 0.3,
        seed: Seed::new(0)?,
    })?;
    let text = |(item, cluster): (usize, &u32)| {
        let word = |k: usize| format!("word{cluster}x{}", (item * 3 + k * k) % WORDS);
        (0..WORDS).map(word).collect::<Vec<_>>().join(" ")
    };
    let texts = shop.item_cluster.iter().enumerate().map(text).collect();
    Ok((shop.data, texts))
}

fn pretrain(corpus: &Corpus, settings: &Settings, seed: u64, job: &Job<'_>) -> Result<Vec<f32>> {
    let graphs = Graphs::default();
    let mut trainer =
        Method::Doc2vec.trainer(settings, Input::Text(corpus), &graphs, Seed::new(seed)?)?;
    lab::epochs(&mut *trainer, job, |_, _, _| Ok(()))?;
    match trainer.into_model() {
        Model::Documents { doc, .. } => Ok(doc.into_values()),
        _ => Err(Error::request("doc2vec did not give vectors of documents", "")),
    }
}

fn given(config: &Config, d: usize) -> Result<Vec<Given>> {
    let new = |name: &str, treatment, paper| Given {
        name: name.into(),
        treatment,
        paper,
        is_control: false,
    };
    let average = [PAPER_AVERAGE[0], f64::NAN, PAPER_AVERAGE[1], f64::NAN];
    let mut all = vec![
        new("h", Treatment::Raw, Some(PAPER_H)),
        Given { is_control: true, ..new(CONTROL, Treatment::Raw, None) },
        new(AVERAGE, Treatment::Averaged, Some(average)),
        new("aligned average of pretrainings", Treatment::AlignedAverage, None),
    ];
    for (i, &multiple) in config.multiples.iter().enumerate() {
        let spec = phi(d, multiple * d, 1.0, 0)?;
        all.push(new(
            &features(multiple * d),
            Treatment::Features(spec),
            PAPER_PHI.get(i).copied(),
        ));
    }
    for &multiple in &config.aligned {
        let spec = phi(d, multiple * d, 1.0, 0)?;
        let name = format!("align-then-phi D = {}", multiple * d);
        all.push(new(&name, Treatment::AlignedFeatures(spec), None));
    }
    Ok(all)
}

const AVERAGE: &str = "average of pretrainings";
const CONTROL: &str = "h of one pretraining, towers of other seeds";

fn features(dim: usize) -> String {
    format!("phi D = {dim}")
}

/// Two towers, and the movies they are to find: the last one of every user.
struct Consumer<'a> {
    data: &'a Interactions,
    /// Everything before it.
    known: Vec<u32>,
    split: Split,
    settings: &'a Settings,
    job: &'a Job<'a>,
}

impl<'a> Consumer<'a> {
    fn new(data: &'a Interactions, settings: &'a Settings, job: &'a Job<'a>) -> Result<Self> {
        let options = SplitOptions { seed: Seed::new(0)?, validation: 0.0, short: Short::Drop };
        let split = split::apply(SplitRule::LeaveLastOne, data, options)?.split;
        Ok(Self { data, known: lab::learned(&split), split, settings, job })
    }

    fn learn(&self, vectors: &Embedding, seed: u64) -> Result<Measured> {
        let input =
            Input::Interactions { data: self.data, rows: &self.known, item_vectors: Some(vectors) };
        let graphs = Graphs::default();
        let mut trainer =
            Method::TwoTower.trainer(self.settings, input, &graphs, Seed::new(seed)?)?;
        let epochs = lab::epochs(&mut *trainer, self.job, |_, _, _| Ok(()))?.epochs;
        let parts = [&self.known, &[][..], &self.split.test];
        let protocols = PROTOCOLS.map(|(protocol, _)| protocol);
        let model = trainer.into_model();
        let found = ranked(&model, self.data, parts, &MEASURES, &[5], &protocols, self.job)?;
        let value = |p: usize| [0, 1].map(|m| 100.0 * found[p][m]);
        Ok(Measured { epochs, values: [value(0), value(1)] })
    }
}

struct Report<'a> {
    given: &'a [Given],
    jobs: &'a [(usize, usize, u64)],
    found: &'a [Done<Measured>],
    rows: Vec<Row>,
}

impl Report<'_> {
    fn done(&self, g: usize) -> impl Iterator<Item = &Done<Measured>> {
        self.jobs.iter().zip(self.found).filter(move |((of, ..), _)| *of == g).map(|(_, done)| done)
    }

    fn values(&self, name: &str, protocol: usize, measure: usize) -> Vec<f64> {
        let g = self.given.iter().position(|given| given.name == name);
        g.map_or(Vec::new(), |g| self.done(g).map(|d| d.value.values[protocol][measure]).collect())
    }

    /// Means and deviations.
    fn measured(&mut self) {
        for given in self.given {
            for (p, (_, protocol)) in PROTOCOLS.iter().enumerate() {
                for (m, measure) in MEASURES.iter().enumerate() {
                    let values = self.values(&given.name, p, m);
                    let paper = |i: usize| {
                        given
                            .paper
                            .map(|paper| paper[2 * m + i])
                            .filter(|x| p == 0 && x.is_finite())
                    };
                    let what = format!("{measure}, {protocol}, {}", given.name);
                    self.rows.push(row(what.clone(), paper(0), &values));
                    if values.len() > 1 {
                        self.rows.push(sd_row(format!("sd of {what}"), paper(1), &values));
                    }
                }
            }
        }
    }

    fn claims(&mut self) {
        let d = self.given.iter().find_map(|given| match &given.treatment {
            Treatment::Features(spec) => Some(spec.input_dim()),
            _ => None,
        });
        let Some(d) = d else { return };
        for (reading, one, two) in [("32 coordinates", d, 2 * d), ("32 directions", 2 * d, 4 * d)] {
            for (m, measure) in MEASURES.iter().enumerate() {
                let of = |name: &str| self.values(name, 0, m);
                let (h, average) = (of("h"), of(AVERAGE));
                let (small, large) = (of(&features(one)), of(&features(two)));
                let less = |x: &[f64], y: &[f64]| -> Vec<f64> {
                    x.iter().zip(y).map(|(x, y)| x - y).collect()
                };
                let name = |what: &str| format!("{measure}, {reading}: {what}");
                let mut claims = Vec::new();
                if let Some(measured) = sd_ratio(&h, &small) {
                    let paper = Some(PAPER_H[2 * m + 1] / PAPER_PHI[0][2 * m + 1]);
                    let what = name("sd(h) / sd(phi_32)");
                    let holds = Some(measured.low > 1.0);
                    claims.push(Row { paper, holds, ..Row::new(what, measured) });
                }
                let paper = [PAPER_H[2 * m], PAPER_PHI[0][2 * m], PAPER_PHI[1][2 * m]];
                let above = |what: &str, paper: f64, values: &[f64]| {
                    let row = row(name(what), Some(paper), values);
                    Row { holds: Some(row.measured.low > 0.0), ..row }
                };
                claims.push(above("phi_32 - h", paper[1] - paper[0], &less(&small, &h)));
                claims.push(above("phi_64 - phi_32", paper[2] - paper[1], &less(&large, &small)));
                let distance: Vec<f64> = small.iter().map(|x| x - average[0]).collect();
                let near =
                    row(name("phi_32 - avg(h)"), Some(paper[1] - PAPER_AVERAGE[m]), &distance);
                let holds = Some(near.measured.interval().iter().all(|x| x.abs() <= COMPARABLE));
                claims.push(Row { holds, ..near });
                self.rows.extend(claims);
            }
        }
    }

    /// Epochs and minutes.
    fn costs(&self) -> Vec<String> {
        let cost = |(g, given): (usize, &Given)| {
            let epochs: Vec<String> = self.done(g).map(|d| d.value.epochs.to_string()).collect();
            let minutes: f64 = self.done(g).map(|d| d.minutes).sum();
            format!("{}: epochs {}; {minutes:.1} CPU minutes", given.name, epochs.join(", "))
        };
        self.given.iter().enumerate().map(cost).collect()
    }
}
