//! The network that is explained, of `train net` or `train text`, and how it reads its inputs.

use std::path::Path;

use serde_json::Value;
use veridical_core::{Job, Seed};
use veridical_data::{Ids, fingerprint};
use veridical_kernels::tangent::Examples;
use veridical_nets::fit::{DocumentPasses, Documents};
use veridical_nets::metrics::Passes;
use veridical_nets::{EmbeddingTable, Feed, Net};

use super::samples::Samples;
use crate::net::{Inputs, Recurrent, Saved, SavedText, Task};
use crate::{Error, Result};

/// A trained network.
pub(crate) enum Network {
    Net(Box<Saved>),
    Text(Box<SavedText>),
}

impl Network {
    /// Opens a run of `train net` or of recurrent networks of `train text`.
    pub fn open(run: &Path) -> Result<Self> {
        if crate::net::is_text(run) {
            let saved = SavedText::open(run)?;
            saved.recurrent()?;
            return Ok(Self::Text(Box::new(saved)));
        }
        if !crate::net::is_net(run) {
            let what = format!("{} is no run of `train net` or `train text`", run.display());
            return Err(Error::request(what, "train one, such as ⟨model⟩ mlp:128 or cnn-small"));
        }
        let saved = Saved::open(run)?;
        if let Task::Numbers(dim @ 2..) = saved.task {
            let what = format!("{} predicts {dim} numbers; explanations are of one", run.display());
            return Err(Error::request(what, "train a network for each target"));
        }
        Ok(Self::Net(Box::new(saved)))
    }

    /// Returns the classes; none for a regression.
    pub fn classes(&self) -> Vec<String> {
        match self {
            Self::Text(saved) => saved.classes.clone(),
            Self::Net(saved) => match &saved.task {
                Task::Classes(classes) => classes.clone(),
                Task::Numbers(_) => Vec::new(),
            },
        }
    }

    pub fn path(&self) -> &Path {
        match self {
            Self::Net(saved) => saved.run.path(),
            Self::Text(saved) => saved.folder().path(),
        }
    }

    /// Returns the number of training rows in the data as the run records it.
    pub fn rows_of_data(&self) -> Option<usize> {
        let count = |value: Option<&Value>| value?.get("rows")?.as_u64();
        let rows = match self {
            Self::Net(saved) => count(saved.run.document().get("data")?.get("train")),
            Self::Text(saved) => count(saved.folder().document().get("data")),
        };
        rows.map(|rows| rows as usize)
    }

    /// Returns the layers after the table of words, if there is one.
    pub fn net(&self) -> &Net<f32> {
        match self {
            Self::Net(saved) => &saved.net,
            Self::Text(saved) => match saved.recurrent() {
                Ok(parts) => parts.net,
                // INVARIANT: only recurrent networks are opened.
                Err(_) => unreachable!("a regression on words is refused when it is opened"),
            },
        }
    }

    /// Returns the fingerprint of all weights.
    pub fn fingerprint(&self) -> Result<String> {
        let run = match self {
            Self::Net(saved) => &saved.run,
            Self::Text(saved) => saved.folder(),
        };
        Ok(fingerprint::of_tensors(&run.model()?))
    }

    /// Reads inputs without labels.
    pub fn inputs(&self, path: &Path, job: &Job<'_>) -> Result<(Ids, Samples, Vec<String>)> {
        Ok(match self {
            Self::Net(saved) => {
                let (ids, examples, notes) = saved.inputs_of(path)?;
                (ids, Samples::Examples(examples, saved.columns()), notes)
            }
            Self::Text(saved) => {
                let (ids, texts) = saved.read(path, &Inputs::default(), job)?;
                (ids, Samples::Documents { texts, labels: Vec::new() }, Vec::new())
            }
        })
    }

    /// Reads samples with labels: the test set of the data at a path, or all of it.
    pub fn labeled(&self, path: &Path, job: &Job<'_>) -> Result<(Samples, Option<String>)> {
        Ok(match self {
            Self::Net(saved) => {
                let (examples, note) = saved.test_set(saved.read(path, None, None, job)?)?;
                (Samples::Examples(examples, saved.columns()), note)
            }
            Self::Text(saved) => {
                let (texts, labels) = saved.labeled(path, job)?;
                (Samples::Documents { texts, labels }, None)
            }
        })
    }

    /// Prepares samples as the network reads them.
    pub fn fed<'a>(&'a self, samples: &'a Samples) -> Result<Fed<'a>> {
        Ok(match (self, samples) {
            (Self::Net(saved), Samples::Examples(data, _)) => {
                Fed::Feed(saved.normalization.feed(data, Seed::new(0)?))
            }
            (Self::Text(saved), Samples::Documents { texts, .. }) => {
                let Recurrent { words, vocabulary, most, .. } = saved.recurrent()?;
                let all = texts.iter().map(String::as_str);
                let documents = Documents::new(all, vocabulary, most, Vec::new());
                let (mut starts, mut ids) = (vec![0], Vec::new());
                for i in 0..documents.len() {
                    ids.extend_from_slice(documents.words(i));
                    starts.push(ids.len());
                }
                Fed::Words { documents, starts, ids, table: words }
            }
            // INVARIANT: samples are read by the network that they are for.
            _ => unreachable!("a network reads its own kind of samples"),
        })
    }

    /// Returns the outputs for samples, one row per sample.
    pub fn outputs(&self, samples: &Samples, job: &Job<'_>) -> Result<Vec<f64>> {
        let label = self.path().display().to_string();
        let net = self.net();
        let outputs = match self.fed(samples)? {
            Fed::Feed(feed) => Passes::new(net).outputs(net, &feed, (&label, job))?,
            Fed::Words { documents, table, .. } => {
                let mut passes = DocumentPasses::new(net, documents.most_words(1));
                passes.outputs(net, table, &documents, (&label, job))?
            }
        };
        if let Some(at) = outputs.iter().position(|x| !x.is_finite()) {
            let what =
                format!("{label}: the output for example {} is not finite", at / net.outputs());
            return Err(Error::request(what, "train the network again with a smaller ⟨lr⟩"));
        }
        Ok(outputs.into_iter().map(f64::from).collect())
    }
}

/// Samples as a network reads them.
pub(crate) enum Fed<'a> {
    Feed(Feed<'a>),
    /// Documents, their offsets in all words, the words, and the table of word embeddings.
    Words {
        documents: Documents,
        starts: Vec<usize>,
        ids: Vec<u32>,
        table: &'a EmbeddingTable<f32>,
    },
}

impl Fed<'_> {
    /// Returns the samples for a tangent kernel; the table of words belongs to the network.
    pub fn examples(&self) -> Examples<'_, f32> {
        match self {
            Self::Feed(feed) => fed(feed),
            Self::Words { starts, ids, table, .. } => {
                let fill = move |samples: std::ops::Range<usize>, slot: &mut [f32]| {
                    table.gather(&ids[starts[samples.start]..starts[samples.end]], slot);
                };
                Examples::sequences(starts, fill).with_ids(ids)
            }
        }
    }
}

/// All samples of a feed.
pub(crate) fn fed<'a>(feed: &'a Feed<'_>) -> Examples<'a, f32> {
    Examples::new(feed.len(), move |samples, slot: &mut [f32]| {
        feed.fill(&samples.collect::<Vec<_>>(), slot);
    })
}
