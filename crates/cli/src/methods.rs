//! One subcommand per training method, its flags taken from the settings of the method.

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, Subcommand};
use serde_json::{Map, Value};
use veridical::embed::{Flag, Method, Purpose};

/// Sets every `sse-*` probability that has no flag of its own.
const SSE: &str = "sse";

/// Flags that the help of methods for other data leaves out; given all the same, they are refused with a
/// reason.
const FOR_TEXT: &[&str] =
    &["text", "column", "id_column", "min_count", "sse_graph_word", "sse_groups_word"];
const FOR_INTERACTIONS: &[&str] = &[
    "interactions",
    "columns",
    "min_rating",
    "text_ids",
    "split",
    "split_seed",
    "validation",
    "short_users",
    "patience",
    "eval_every",
    "sse_graph_user",
    "sse_graph_item",
    "sse_groups_user",
    "sse_groups_item",
];

/// A method, the settings that were given, and the flags `S` that all methods share.
#[derive(Clone, Debug)]
pub struct Chosen<S> {
    pub method: Method,
    /// What was wrong with the first that does not fit.
    pub settings: Result<Map<String, Value>, String>,
    pub shared: S,
}

impl<S: Args> Subcommand for Chosen<S> {
    fn augment_subcommands(command: Command) -> Command {
        let method = |method: Method| {
            let own = method.flags().into_iter().map(argument);
            let all = has_sse(method).then(all_tables);
            let sub = Command::new(method.name()).next_help_heading("Method").args(own).args(all);
            let sub = S::augment_args(sub).about(method.about());
            let useless = match method.purpose() {
                Purpose::Text => FOR_INTERACTIONS,
                Purpose::Rating | Purpose::Ranking => FOR_TEXT,
            };
            useless.iter().fold(sub, |sub, name| sub.mut_arg(name, |argument| argument.hide(true)))
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

impl<S: FromArgMatches> FromArgMatches for Chosen<S> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let missing = || clap::Error::new(clap::error::ErrorKind::MissingSubcommand);
        let (name, matches) = matches.subcommand().ok_or_else(missing)?;
        let method = Method::from_name(name).ok_or_else(missing)?;
        let flags = method.flags().into_iter().chain(has_sse(method).then(all_flag));
        let given = flags.filter_map(|flag| Some((matches.get_one::<String>(&flag.name)?, flag)));
        let parsed = given.map(|(text, flag)| match flag.parse(text) {
            Ok(value) => Ok((flag.name, value)),
            Err(e) => Err(e.to_string()),
        });
        let settings = parsed.collect();
        Ok(Self { method, settings, shared: S::from_arg_matches(matches)? })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn is_sse_probability(flag: &Flag) -> bool {
    flag.name.starts_with("sse-") && flag.default.is_number()
}

fn has_sse(method: Method) -> bool {
    method.flags().iter().any(is_sse_probability)
}

fn all_flag() -> Flag {
    let help = "SSE: probability of a replacement in every table without a flag of its own; 0.01 is a good start";
    Flag { name: SSE.into(), help, default: Value::from(0.0) }
}

fn all_tables() -> Arg {
    let Flag { name, help, .. } = all_flag();
    Arg::new(name.clone()).long(name).value_name("P").help(help).allow_negative_numbers(true)
}

fn argument(flag: Flag) -> Arg {
    let default = match &flag.default {
        Value::String(text) => text.clone(),
        Value::Bool(true) => "on".into(),
        Value::Bool(false) => "off".into(),
        Value::Null => "none".into(),
        other => other.to_string(),
    };
    let argument = Arg::new(flag.name.clone()).help(format!("{} [default: {default}]", flag.help));
    let argument = argument.allow_negative_numbers(true);
    let argument = match &flag.default {
        Value::Bool(_) => argument
            .num_args(0..=1)
            .default_missing_value("on")
            .value_parser(["on", "off", "true", "false"])
            .hide_possible_values(true)
            .value_name("ON|OFF"),
        Value::Number(_) if is_sse_probability(&flag) => argument.value_name("P"),
        Value::Number(n) if n.is_f64() => argument.value_name("X"),
        Value::Number(_) => argument.value_name("N"),
        _ => argument.value_name("NAME"),
    };
    argument.long(flag.name)
}
