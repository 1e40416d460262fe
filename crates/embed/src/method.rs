//! Every method by name: its settings, its trainer.

use serde_json::{Map, Value};
use veridical_core::Seed;
use veridical_core::settings::{Field, Settings as _};

use crate::trainers::{
    als, bpr, doc2vec, ease, item2vec, itemknn, mf, pop, ppmi_svd, sasrec, two_tower,
};
use crate::{Graphs, Input, Result, Trainer};

macro_rules! methods {
    ($( $(#[doc = $doc:expr])* $variant:ident = $name:literal, $module:ident, $judged:ident, $about:literal; )*) => {
        /// A way to learn embeddings, or a baseline beside them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Method {
            $( #[doc = $about] $variant, )*
        }

        impl Method {
            /// All of them.
            pub const ALL: [Self; [$( $name ),*].len()] = [$( Self::$variant ),*];

            /// The name in commands and run folders.
            pub const fn name(self) -> &'static str {
                match self { $( Self::$variant => $name, )* }
            }

            /// One line about it.
            pub const fn about(self) -> &'static str {
                match self { $( Self::$variant => $about, )* }
            }

            /// What its models are for.
            pub const fn purpose(self) -> Purpose {
                match self { $( Self::$variant => Purpose::$judged, )* }
            }

            /// Its settings.
            pub fn fields(self) -> Vec<Field> {
                match self { $( Self::$variant => $module::Settings::fields(), )* }
            }

            /// Every setting with its value: those given, and the defaults of the others.
            ///
            /// # Errors
            /// [`veridical_core::Error::Shape`] names the setting that does not exist or does not fit.
            pub fn settings(
                self,
                given: &Map<String, Value>,
            ) -> veridical_core::Result<Map<String, Value>> {
                Ok(match self {
                    $( Self::$variant => $module::Settings::of(given)?.values(), )*
                })
            }

            /// A trainer before its first epoch.
            ///
            /// # Errors
            /// Settings out of range, and data that does not serve the method.
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

/// What a model is for, and so how it is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Ratings: root mean squared error.
    Rating,
    /// Lists of items: NDCG and its kin.
    Ranking,
    /// Vectors of text.
    Text,
}

methods! {
    Mf = "mf", mf, Rating, "Matrix factorisation of ratings by SGD";
    Als = "als", als, Ranking, "Matrix factorisation by alternating least squares, explicit or implicit";
    Bpr = "bpr", bpr, Ranking, "Bayesian personalised ranking: pairs of a chosen and another item";
    Item2vec = "item2vec", item2vec, Ranking, "Skip-gram or CBOW with negative samples over each user's sequence";
    Doc2vec = "doc2vec", doc2vec, Text, "Paragraph vectors: PV-DBOW or PV-DM over documents";
    PpmiSvd = "ppmi-svd", ppmi_svd, Ranking, "Shifted positive PMI of neighbours by a randomised SVD";
    Sasrec = "sasrec", sasrec, Ranking, "Self-attention over each user's sequence: what comes next";
    TwoTower = "two-tower", two_tower, Ranking, "A GRU reads each user's sequence; items by given or learned vectors";
    Pop = "pop", pop, Ranking, "Baseline: the most popular items";
    ItemKnn = "itemknn", itemknn, Ranking, "Baseline: items like those in the history";
    Ease = "ease", ease, Ranking, "Baseline: linear item-to-item weights in closed form";
}

impl Method {
    /// By its name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.name() == name)
    }
}
