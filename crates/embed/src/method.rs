//! The registry of methods: name, settings and trainer of each.

use serde_json::{Map, Value};
use veridical_core::Seed;
use veridical_core::settings::{Field, Settings as _};

use crate::trainers::{
    als, bpr, doc2vec, ease, item2vec, itemknn, mf, pop, ppmi_svd, sasrec, two_tower,
};
use crate::{Graphs, Input, Result, Trainer};

macro_rules! methods {
    ($( $(#[doc = $doc:expr])* $variant:ident = $name:literal, $module:ident, $purpose:ident, $about:literal; )*) => {
        /// A training method for embeddings, or a baseline.
        ///
        /// ```
        /// use veridical_embed::{Method, Purpose};
        ///
        /// let method = Method::from_name("bpr").ok_or("unknown method")?;
        /// assert_eq!((method, method.purpose()), (Method::Bpr, Purpose::Ranking));
        /// let defaults = method.settings(&serde_json::Map::new())?;
        /// assert_eq!(defaults["dim"], 64);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Method {
            $( #[doc = $about] $variant, )*
        }

        impl Method {
            /// All methods, in the order of the help.
            pub const ALL: [Self; [$( $name ),*].len()] = [$( Self::$variant ),*];

            /// Returns the name used in commands and run folders.
            pub const fn name(self) -> &'static str {
                match self { $( Self::$variant => $name, )* }
            }

            /// Returns a one-line description.
            pub const fn about(self) -> &'static str {
                match self { $( Self::$variant => $about, )* }
            }

            /// Returns what its models are for.
            pub const fn purpose(self) -> Purpose {
                match self { $( Self::$variant => Purpose::$purpose, )* }
            }

            /// Returns the descriptions of its settings.
            pub fn fields(self) -> Vec<Field> {
                match self { $( Self::$variant => $module::Settings::fields(), )* }
            }

            /// Returns the value of every setting: the given values, and defaults for the rest.
            ///
            /// # Errors
            /// [`veridical_core::Error::Shape`] names a setting that is unknown or invalid.
            pub fn settings(
                self,
                given: &Map<String, Value>,
            ) -> veridical_core::Result<Map<String, Value>> {
                Ok(match self {
                    $( Self::$variant => $module::Settings::of(given)?.values(), )*
                })
            }

            /// Makes a trainer that has not run an epoch yet.
            ///
            /// # Errors
            /// Settings out of range, and data that is unsuitable for the method.
            pub fn trainer<'a>(
                self,
                given: &Map<String, Value>,
                input: Input<'a>,
                graphs: &'a Graphs,
                seed: Seed,
            ) -> Result<Box<dyn Trainer + 'a>> {
                match self {
                    $( Self::$variant => $module::trainer(&$module::Settings::of(given)?, input, graphs, seed), )*
                }
            }
        }
    };
}

/// What a model is for, which decides how it is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Rating prediction, evaluated by root mean squared error.
    Rating,
    /// Ranking of items, evaluated by NDCG and other ranking metrics.
    Ranking,
    /// Text embedding.
    Text,
}

methods! {
    Mf = "mf", mf, Rating, "Matrix factorization of ratings by SGD";
    Als = "als", als, Ranking, "Matrix factorization by alternating least squares, explicit or implicit";
    Bpr = "bpr", bpr, Ranking, "Bayesian personalized ranking: pairwise loss over positive and negative items";
    Item2vec = "item2vec", item2vec, Ranking, "Skip-gram or CBOW with negative sampling over each user's sequence of items";
    Doc2vec = "doc2vec", doc2vec, Text, "Paragraph vectors: PV-DBOW or PV-DM over documents";
    PpmiSvd = "ppmi-svd", ppmi_svd, Ranking, "Randomized SVD of the shifted positive PMI of item co-occurrences";
    Sasrec = "sasrec", sasrec, Ranking, "Self-attention over each user's sequence predicts the next item";
    TwoTower = "two-tower", two_tower, Ranking, "A GRU reads each user's sequence; item vectors are pretrained or learned";
    Pop = "pop", pop, Ranking, "Baseline: the most popular items";
    ItemKnn = "itemknn", itemknn, Ranking, "Baseline: nearest neighbors of the items in the history";
    Ease = "ease", ease, Ranking, "Baseline: linear item-to-item weights in closed form";
}

/// Published settings under a name: a layer below the settings that are given.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// The name.
    pub name: &'static str,
    /// The settings, as JSON.
    pub(crate) settings: &'static str,
}

impl Preset {
    /// Returns the settings of the method, and of its validation.
    pub fn values(&self) -> Map<String, Value> {
        // INVARIANT: constants, which a test parses.
        serde_json::from_str(self.settings).expect("a preset is JSON")
    }
}

impl Method {
    /// Returns the share of the training rows that are held out for validation and the epochs without improvement after which
    /// training stops, for the methods that do so by default.
    pub const fn early_stopping(self) -> Option<(f64, u32)> {
        match self {
            Self::Sasrec | Self::TwoTower => Some((0.1, 5)),
            _ => None,
        }
    }

    /// Returns the published settings that have a name.
    pub const fn presets(self) -> &'static [Preset] {
        match self {
            Self::Sasrec => &[sasrec::PUBLISHED],
            _ => &[],
        }
    }

    /// Returns the value of every setting, with those that depend on the data.
    ///
    /// # Errors
    /// [`veridical_core::Error`] names a setting that is unknown or invalid, and data without interactions.
    pub fn resolved(
        self,
        given: &Map<String, Value>,
        input: Input<'_>,
    ) -> Result<Map<String, Value>> {
        match self {
            Self::Sasrec => Ok(sasrec::Settings::of(given)?.resolved(input)?.values()),
            Self::TwoTower => Ok(two_tower::Settings::of(given)?.resolved(input)?.values()),
            Self::Als => Ok(als::Settings::of(given)?.resolved(input)?.values()),
            _ => Ok(self.settings(given)?),
        }
    }

    /// Refuses settings for which this data needs more than the available memory, in bytes; `sasrec` knows what it needs.
    ///
    /// # Errors
    /// [`veridical_core::Error::Unfit`] says what is needed, and what needs less.
    pub fn check_memory(
        self,
        given: &Map<String, Value>,
        input: Input<'_>,
        available: u64,
    ) -> Result<()> {
        match self {
            Self::Sasrec => sasrec::Settings::of(given)?.check_memory(input, available),
            _ => Ok(()),
        }
    }

    /// Returns the method with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.name() == name)
    }
}
