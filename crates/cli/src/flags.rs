//! Settings as flags: one definition gives arguments, help, completions and manual pages.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::marker::PhantomData;
use std::path::PathBuf;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};
use veridical::core::settings::{Field, Kind, Settings, SettingsLayer, Value, Values};
use veridical::{Result, config, flags, guard};

/// A file with settings below those that are given.
pub const CONFIG: &str = "config";

/// Headings that `-h` leaves out: flags that most uses do not need. `--help` has them.
const DETAILS: [&str; 7] = [
    "Reading",
    "Writing",
    "Graphs and warm start",
    "Early stopping and checkpoints",
    "Samples",
    "Limits",
    "Fitting",
];

/// What was given of the settings `S`.
#[derive(Clone)]
pub struct Flags<S> {
    given: Result<Values, veridical::core::Error>,
    config: Option<PathBuf>,
    of: PhantomData<fn() -> S>,
}

impl<S> fmt::Debug for Flags<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Flags").field(&self.given).finish()
    }
}

impl<S: Settings> Flags<S> {
    /// The settings of `verb`: what was given, over `--config`, over the defaults.
    pub fn settings(self, verb: &str) -> Result<S> {
        Ok(S::layered(verb, &self.layers()?)?)
    }

    /// What was given, the strongest first.
    pub fn layers(self) -> Result<Vec<SettingsLayer>> {
        let mut layers = vec![SettingsLayer::given(self.given?)];
        layers.extend(self.config.as_deref().map(config::layer).transpose()?);
        guard::protect(&S::fields(), &layers, self.config.as_deref())?;
        guard::resolve(&S::fields(), layers)
    }

    /// The values of the command line alone.
    pub fn given(&self) -> Result<&Values> {
        self.given.as_ref().map_err(|e| e.clone().into())
    }
}

impl<S: Settings> Args for Flags<S> {
    fn augment_args(command: Command) -> Command {
        command.args(arguments(&S::fields())).arg(config_argument())
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<S: Settings> FromArgMatches for Flags<S> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = given(&S::fields(), matches);
        let config = matches.get_one::<PathBuf>(CONFIG).cloned();
        Ok(Self { given, config, of: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// `--config`, which every verb has.
pub fn config_argument() -> Arg {
    Arg::new(CONFIG)
        .long(CONFIG)
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .help("TOML file with settings by flag name; flags on the command line override it")
}

/// One argument per field.
pub fn arguments(fields: &[Field]) -> Vec<Arg> {
    let is_there = |name: &&&str| fields.iter().any(|field| field.name == **name);
    let argument = |field: &Field| {
        let needed = field.needs.iter().filter(is_there);
        let argument = needed.fold(argument(field), |argument, name| argument.requires(*name));
        let excluded = field.excludes.iter().filter(is_there);
        excluded.fold(argument, |argument, name| argument.conflicts_with(*name))
    };
    fields.iter().map(argument).collect()
}

fn argument(field: &Field) -> Arg {
    let help = match field.default_text() {
        Some(default) => format!("{} [default: {default}]", field.help),
        None => field.help.clone(),
    };
    let argument = Arg::new(field.name.clone()).help(flags(&help));
    let argument = called(argument, field).help_heading(field.heading);
    let argument = argument.hide_short_help(is_detail(field));
    if field.is_switch {
        return argument.action(ArgAction::SetTrue);
    }
    let (kind, action) = match field.kind {
        Kind::List(of) => (*of, ArgAction::Append),
        kind => (kind, ArgAction::Set),
    };
    let argument = argument
        .action(action)
        .value_name(field.value_name.unwrap_or_else(|| usual_value_name(field, kind)))
        .allow_negative_numbers(matches!(kind, Kind::Integer | Kind::Number))
        .allow_hyphen_values(field.may_begin_with_dash);
    let argument = match kind {
        Kind::Bool => argument
            .num_args(0..=1)
            .default_missing_value("on")
            .value_parser(["on", "off", "true", "false"])
            .hide_possible_values(true),
        Kind::Choice(_) if field.by_comma => argument,
        Kind::Choice(choices) => argument
            // Help that names them all need not list them again.
            .hide_possible_values(choices.iter().all(|(name, _)| field.help.contains(name)))
            .value_parser(Named(choices)),
        Kind::Path(_) => argument.value_parser(value_parser!(OsString)),
        _ => argument,
    };
    let argument = match field.bare {
        Some(value) => argument.num_args(0..=1).require_equals(true).default_missing_value(value),
        None if field.at_once || field.is_positional && matches!(field.kind, Kind::List(_)) => {
            argument.num_args(1..)
        }
        None => argument,
    };
    argument.required(field.is_required && !has_config())
}

/// Whether `-h` leaves a flag out.
fn is_detail(field: &Field) -> bool {
    let is_of = |heading: &str| DETAILS.iter().any(|detail| heading.starts_with(detail));
    // The file with all limits stands for them.
    let is_hidden = field.heading.is_some_and(is_of) && field.name != "budget";
    (field.is_detail || is_hidden) && !field.is_required
}

/// Whether a configuration file may give what a command line need not give then.
fn has_config() -> bool {
    std::env::args_os().any(|word| word.to_string_lossy().split('=').next() == Some("--config"))
}

fn called(argument: Arg, field: &Field) -> Arg {
    match field.is_positional {
        true => argument,
        false => {
            let aliases = field.aliases.iter().copied();
            argument.long(field.name.clone()).short(field.letter).visible_aliases(aliases)
        }
    }
}

/// The settings that are not as they are by default, as flags, each after a blank: the same for the next command.
pub fn repeated<S: Settings>(settings: &S) -> String {
    let values = settings.values();
    let flag = |field: Field| {
        let value = values.get(&field.name).filter(|value| **value != field.default)?;
        Some(match value {
            Value::Bool(true) if field.is_switch => format!(" --{}", field.name),
            Value::String(text) => format!(" --{} {text}", field.name),
            other => format!(" --{} {other}", field.name),
        })
    };
    S::fields().into_iter().filter_map(flag).collect()
}

/// Shows the names there are, in help and to shells; what is wrong with another one is said as of any setting.
#[derive(Clone)]
struct Named(&'static [(&'static str, &'static str)]);

impl TypedValueParser for Named {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let value = |(name, help): &(&'static str, &'static str)| {
            PossibleValue::new(*name).help(help.trim().trim_end_matches('.'))
        };
        Some(Box::new(self.0.iter().map(value)))
    }
}

fn usual_value_name(field: &Field, kind: Kind) -> &'static str {
    match kind {
        Kind::Bool => "ON|OFF",
        Kind::Number if field.name.starts_with("sse") => "P",
        Kind::Integer => "N",
        Kind::Number => "X",
        Kind::Path(_) => "FILE",
        Kind::Text | Kind::Choice(_) | Kind::List(_) => "NAME",
    }
}

/// What was given of these fields.
pub fn given(fields: &[Field], matches: &ArgMatches) -> Result<Values, veridical::core::Error> {
    let mut given = Values::new();
    for field in fields {
        if let Some(value) = value_of(field, matches)? {
            given.insert(field.name.clone(), value);
        }
    }
    Ok(given)
}

fn value_of(field: &Field, matches: &ArgMatches) -> Result<Option<Value>, veridical::core::Error> {
    let name = field.name.as_str();
    if field.is_switch {
        return Ok(matches.get_flag(name).then_some(Value::Bool(true)));
    }
    let is_list = matches!(field.kind, Kind::List(_));
    let parsed: Vec<Value> = match field.kind {
        Kind::Path(_) | Kind::List(Kind::Path(_)) => {
            let paths = matches.get_many::<OsString>(name).into_iter().flatten();
            paths.map(|path| veridical::io::path_value(path)).collect()
        }
        _ => {
            let mut parsed = Vec::new();
            for text in matches.get_many::<String>(name).into_iter().flatten() {
                match field.parse(text)? {
                    Value::Array(list) if is_list => parsed.extend(list),
                    value => parsed.push(value),
                }
            }
            if parsed.is_empty() && is_list && matches.contains_id(name) {
                return Ok(Some(Value::Array(parsed))); // a list of nothing was given
            }
            parsed
        }
    };
    Ok(match is_list {
        _ if parsed.is_empty() => None,
        true => Some(Value::Array(parsed)),
        false => parsed.into_iter().next_back(),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use veridical::embed::Method;
    use veridical::settings::Start;
    use veridical::tune::TuneSettings;
    use veridical::{
        align, demo, evaluate, explain, featurize, forensics, kernel, net, prepare, recommend,
        refresh, similar, stability, train, vectors,
    };

    use super::*;

    /// The settings of every verb that has some, by the words that call it.
    fn verbs() -> BTreeMap<String, Vec<Field>> {
        let mut verbs = BTreeMap::new();
        let mut add = |verb: &str, fields: Vec<Field>| {
            assert!(verbs.insert(verb.to_owned(), fields).is_none());
        };
        for method in Method::ALL {
            let with = |fields: Vec<Field>| [train::fields(method), fields].concat();
            add(&format!("train {}", method.name()), with(Start::fields()));
            add(&format!("tune {}", method.name()), with(TuneSettings::fields()));
        }
        add("train", train::Replay::fields());
        add("train net", net::TrainNet::fields());
        add("train text", net::text::TrainText::fields());
        add("evaluate", evaluate::Evaluate::fields());
        add("recommend", recommend::Recommend::fields());
        add("similar", similar::Similar::fields());
        add("predict", veridical::predict::Predict::fields());
        add("train classifier", net::classifier::TrainClassifier::fields());
        add("refit-head", net::RefitNet::fields());
        add("stability", stability::CompareTables::fields());
        add("stability budget", stability::ProposeBudget::fields());
        add("refresh", refresh::RefreshTables::fields());
        add("refresh init", refresh::Init::fields());
        add("refresh verify", refresh::VerifyVersion::fields());
        add("refresh list", refresh::ListVersions::fields());
        add("refresh rollback", refresh::RollBack::fields());
        add("refresh history", refresh::HistoryOf::fields());
        add("align", align::Align::fields());
        add("featurize new", featurize::WriteSpec::fields());
        add("featurize apply", featurize::Apply::fields());
        add("featurize describe", featurize::DescribeSpec::fields());
        add("featurize plan", featurize::Plan::fields());
        add("featurize check", featurize::Check::fields());
        add("featurize export", featurize::Export::fields());
        add("vectors head", vectors::ShowHead::fields());
        add("vectors stats", vectors::SumUp::fields());
        add("vectors convert", vectors::Convert::fields());
        add("data describe", prepare::Describe::fields());
        add("data split", prepare::SplitData::fields());
        add("data generate", prepare::Generate::fields());
        add("data graph", prepare::BuildGraph::fields());
        add("data embed", prepare::Embed::fields());
        add("data poison", prepare::Poison::fields());
        add("explain", explain::Explain::fields());
        add("explain audit", explain::AuditSettings::fields());
        add("explain labels", explain::LabelSettings::fields());
        add("explain validate", explain::Validate::fields());
        add("forensics trace", forensics::Trace::fields());
        add("kernel compute", kernel::Compute::fields());
        add("kernel store", kernel::StoreSettings::fields());
        add("kernel check", kernel::CheckSettings::fields());
        add("kernel regress", kernel::Learn::fields());
        add("kernel classify", kernel::Learn::fields());
        add("forensics check", forensics::Check::fields());
        add("forensics scan", forensics::Scan::fields());
        add("demo", demo::DemoOutput::fields());
        #[cfg(feature = "experiments")]
        {
            add("reproduce show", veridical_experiments::ShowExperiment::fields());
            add("reproduce run", veridical_experiments::RunExperiment::fields());
        }
        verbs
    }

    /// Every argument of every verb, by the words that call it.
    fn arguments_of(command: &Command, words: &str, found: &mut BTreeMap<String, Vec<String>>) {
        let common = ["help", "version", "threads", "quiet", "json", CONFIG];
        let own = command.get_arguments().map(|argument| argument.get_id().to_string());
        let mut own: Vec<String> = own.filter(|name| !common.contains(&name.as_str())).collect();
        own.sort_unstable();
        if !own.is_empty() {
            found.insert(words.to_owned(), own);
        }
        for verb in command.get_subcommands().filter(|verb| verb.get_name() != "help") {
            let words = format!("{words} {}", verb.get_name());
            arguments_of(verb, words.trim(), found);
        }
    }

    /// Manual pages and completions are about the command line itself, so their arguments are defined there.
    const OF_THE_COMMAND_LINE: [&str; 2] = ["completions", "man"];

    #[test]
    fn every_flag_is_a_field_of_settings_and_every_field_a_flag() {
        let mut arguments = BTreeMap::new();
        arguments_of(&crate::help::command(), "", &mut arguments);
        arguments.retain(|verb, _| !OF_THE_COMMAND_LINE.contains(&verb.as_str()));
        let fields: BTreeMap<String, Vec<String>> = verbs()
            .into_iter()
            .map(|(verb, fields)| (verb, fields.into_iter().map(|field| field.name).collect()))
            .collect();
        let verbs = |of: &BTreeMap<String, Vec<String>>| of.keys().cloned().collect::<Vec<_>>();
        assert_eq!(verbs(&arguments), verbs(&fields));
        for (verb, mut names) in fields {
            names.sort_unstable();
            assert_eq!(arguments[&verb], names, "{verb}");
        }
    }

    /// `tests/golden/flags.txt` lists where every flag is defined. `UPDATE_GOLDEN=1 cargo test -p veridical-cli` writes it.
    #[cfg(feature = "experiments")]
    #[test]
    fn every_flag_has_one_origin() {
        let mut listed = String::new();
        for (verb, fields) in verbs() {
            for field in fields {
                let kind = match field.kind {
                    Kind::Path(access) => format!(" {access:?}"),
                    Kind::List(Kind::Path(access)) => format!(" {access:?}"),
                    _ => String::new(),
                };
                let place = match (field.is_positional, field.is_required) {
                    (true, _) => " positional",
                    (false, true) => " required",
                    (false, false) => "",
                };
                let kind = kind.to_lowercase();
                listed += &format!("{verb} --{} {}{kind}{place}\n", field.name, field.origin);
            }
        }
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/flags.txt");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(path, &listed).unwrap();
        }
        let golden = std::fs::read_to_string(path).unwrap();
        assert!(
            golden == listed,
            "flags moved; look at the list with UPDATE_GOLDEN=1 and git diff"
        );
    }

    #[test]
    fn settings_are_repeated_as_flags() {
        for flags in [
            "",
            " --kernel matern-3/2 --length-scale 0.5 --directions hadamard --normalize none --seed 7",
            " --mixture 0.5:1,2:3 --length-scale median --normalize standardize",
            " --length-scale sklearn-gamma-scale",
            " --gamma 0.25 --directions iid",
        ] {
            let command = Flags::<featurize::MapSettings>::augment_args(Command::new("map"));
            let matches = command.get_matches_from(format!("map{flags}").split(' '));
            let given = Flags::<featurize::MapSettings>::from_arg_matches(&matches).unwrap();
            assert_eq!(repeated(&given.settings("map").unwrap()), flags);
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_path_that_is_no_text_is_a_path() {
        use std::os::unix::ffi::OsStringExt;

        let path = OsString::from_vec(b"caf\xe9.parquet".to_vec());
        let command = Flags::<vectors::SumUp>::augment_args(Command::new("stats"));
        let matches = command.get_matches_from([OsString::from("stats"), path.clone()]);
        let given = Flags::<vectors::SumUp>::from_arg_matches(&matches).unwrap();
        assert_eq!(given.settings("stats").unwrap().input.as_os_str(), path);
    }
}
