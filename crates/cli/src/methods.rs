//! One subcommand per training method, with its flags derived from the settings of the method.

use std::path::PathBuf;

use clap::{ArgMatches, Command, FromArgMatches, Subcommand};
use veridical::core::settings::{Field, Settings, SettingsLayer, Values};
use veridical::embed::{Method, Purpose};
use veridical::{Result, config, guard, train};

use crate::flags::{CONFIG, arguments, config_argument, given};

/// Flags hidden from the help of methods for another kind of data; passing one is still an error that says
/// why.
const FOR_TEXT: &[&str] =
    &["text", "column", "id-column", "min-count", "sse-graph-word", "sse-groups-word"];
const FOR_INTERACTIONS: &[&str] = &[
    "interactions",
    "columns",
    "min-rating",
    "text-ids",
    "split",
    "split-seed",
    "validation",
    "short-users",
    "patience",
    "eval-every",
    "sse-graph-user",
    "sse-graph-item",
    "sse-groups-user",
    "sse-groups-item",
];

/// A method, the settings that were passed for it, and the settings `S` of the verb.
#[derive(Clone, Debug)]
pub struct Chosen<S> {
    pub method: Method,
    given: Result<Values, veridical::core::Error>,
    config: Option<PathBuf>,
    verb: Result<S, veridical::core::Error>,
}

impl<S: Settings> Chosen<S> {
    /// Returns the settings of the method as layers, highest priority first, and the settings of the verb.
    pub fn layers(self) -> Result<(Vec<SettingsLayer>, S)> {
        let mut layers = vec![SettingsLayer::given(self.given?)];
        layers.extend(self.config.as_deref().map(config::layer).transpose()?);
        let verb = self.verb?;
        let mut all = layers.clone();
        all.insert(0, SettingsLayer::given(verb.given()));
        guard::protect(&fields::<S>(self.method), &all, self.config.as_deref())?;
        Ok((guard::resolve(&train::fields(self.method), layers)?, verb))
    }
}

/// When the baseline is enough: what the defaults were on the data sets of `experiments/defaults`.
const fn when_itemknn(method: Method) -> &'static str {
    match method {
        Method::Als | Method::Bpr => {
            "\
Use `itemknn` on a small catalog unless `evaluate`, which trains it too, says otherwise: the defaults of this method were above
it on a part of MovieLens-1M, and not clearly so on two generated shops."
        }
        Method::Item2vec => {
            "\
For neighbors of items. Use `itemknn` for lists: its lists were better on all three data sets of experiments/defaults."
        }
        Method::Sasrec => {
            "\
Use `itemknn` where histories have no order and users are few: there its NDCG@10 was 0.16, that of these defaults 0.09; where
the next item depends on the last ones 0.20 and 0.37 (experiments/defaults)."
        }
        Method::TwoTower => {
            "\
Use `itemknn` unless you have vectors of the items (--item-vectors): without them it was better on all three data sets of
experiments/defaults."
        }
        _ => "",
    }
}

/// Returns the flags of a method under the verb of `S`.
fn fields<S: Settings>(method: Method) -> Vec<Field> {
    train::fields(method).into_iter().chain(S::fields()).collect()
}

impl<S: Settings> Subcommand for Chosen<S> {
    fn augment_subcommands(command: Command) -> Command {
        let method = |method: Method| {
            let own = arguments(&fields::<S>(method));
            let sub = Command::new(method.name()).args(own).arg(config_argument());
            let useless = match method.purpose() {
                Purpose::Text => FOR_INTERACTIONS,
                Purpose::Rating | Purpose::Ranking => FOR_TEXT,
            };
            useless
                .iter()
                .fold(sub, |sub, name| sub.mut_arg(name, |argument| argument.hide(true)))
                .about(method.about())
                .long_about(
                    [method.about(), when_itemknn(method)].join("\n\n").trim_end().to_owned(),
                )
        };
        command.subcommand_value_name("METHOD").subcommands(Method::ALL.map(method))
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        Method::from_name(name).is_some()
    }
}

impl<S: Settings> FromArgMatches for Chosen<S> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let missing = || clap::Error::new(clap::error::ErrorKind::MissingSubcommand);
        let (name, matches) = matches.subcommand().ok_or_else(missing)?;
        let method = Method::from_name(name).ok_or_else(missing)?;
        let verb = given(&S::fields(), matches).and_then(|values| S::of(&values));
        Ok(Self {
            method,
            given: given(&train::fields(method), matches),
            config: matches.get_one::<PathBuf>(CONFIG).cloned(),
            verb,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
