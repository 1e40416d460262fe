//! Settings that several verbs share.

use veridical_core::{Seed, settings};
use veridical_data::split::{Short, SplitRule};
use veridical_io::{ColumnMap, Existing, Input, LabelOptions, Output, RecordOptions, TextOptions};

use crate::Result;

settings! {
    /// How text files are decoded.
    pub struct TextFiles in "Reading" {
        /// Encoding of text files
        pub encoding: Option<String> = None => [otherwise("utf-8")],
        /// The first line is data; columns are called 0, 1, 2, ...
        pub no_header: bool = false => [switch()],
    }
}

impl TextFiles {
    /// The first line is data if the user says so, otherwise it is looked at.
    pub fn has_header(&self) -> Option<bool> {
        self.no_header.then_some(false)
    }

    /// How files with these columns are read.
    pub fn records(&self, columns: ColumnMap) -> RecordOptions {
        RecordOptions { columns, has_header: self.has_header(), ..self.encoded() }
    }

    /// How other files beside them are read, which say themselves whether they have a header.
    pub fn encoded(&self) -> RecordOptions {
        RecordOptions { encoding: self.encoding.clone(), ..RecordOptions::default() }
    }
}

settings! {
    /// How interactions are read.
    pub struct InteractionReading in "Reading" {
        /// Columns by name or number
        pub columns: Option<String> = None => [value("user=U,item=I,rating=R,time=T"), otherwise("by their usual names")],
        /// Leave out rows with a smaller rating
        pub min_rating: Option<f32> = None => [value("R")],
        /// Read ids as text even if they look like integers
        pub text_ids: bool = false => [switch()],
    } with {
        /// How text files are decoded.
        pub files: TextFiles,
    }
}

settings! {
    /// Which columns of a table documents stand in.
    pub struct DocumentColumns in "Reading" {
        /// Column of the documents
        pub column: Option<String> = None => [otherwise("`text`, or the only one")],
        /// Column of the ids of documents
        pub id_column: Option<String> = None => [otherwise("`id`, or the number of the row")],
    }
}

settings! {
    /// Which words are known.
    pub struct Vocabulary in "Reading" {
        /// Leave out words that occur less often
        pub min_count: Option<u64> = None => [otherwise(TextOptions::default().min_count.to_string())],
    }
}

settings! {
    /// How groups of ids are read.
    pub struct GroupReading in "Graphs and warm start" {
        /// Column of the labels, by name or number
        pub groups_column: Option<String> = None => [otherwise("the last")],
        /// What stands between the labels of one id
        pub groups_separator: Option<String> = None => [value("TEXT"), otherwise(LabelOptions::default().separator)],
        /// The relation to take from triples (id, relation, entity)
        pub groups_relation: Option<String> = None,
    }
}

settings! {
    /// Which rows are held out.
    pub struct SplitSettings in "Split" {
        /// none, random:SHARE, leave-last-one, per-user:N or temporal:SHARE
        pub split: Option<String> = None => [value("RULE"), otherwise("none")],
        /// Seed of the split, apart from ⟨seed⟩
        pub split_seed: Option<u64> = None => [value("S"), otherwise("0")],
        /// Share of the training rows that is held out to evaluate on while training
        pub validation: Option<f64> = None => [value("SHARE"), otherwise("0")],
        /// What to do with users that have too few rows for the split
        pub short_users: Option<Short> = None => [value("WHAT"), otherwise("error")],
    }
}

impl SplitSettings {
    /// The rule of the split.
    ///
    /// # Errors
    /// [`crate::Error::Core`] lists the rules there are.
    pub fn rule(&self) -> Result<SplitRule> {
        Ok(self.split.as_deref().map_or(Ok(SplitRule::None), str::parse)?)
    }
}

settings! {
    /// The seed of a training.
    pub struct TrainingSeed in "Output" {
        /// Seed of everything that is drawn while training, 0 to 2^53 - 1
        pub seed: Option<u64> = None => [value("S"), otherwise("0")],
    }
}

impl TrainingSeed {
    /// The seed.
    ///
    /// # Errors
    /// [`crate::Error::Core`] above 2^53 - 1.
    pub fn get(&self) -> Result<Seed> {
        Ok(Seed::new(self.seed.unwrap_or(0))?)
    }
}

settings! {
    /// What a training starts from, and where its runs go.
    pub struct Start in "Output" {
        /// Train N runs with the seeds S, S+1, ... into OUT/seed-S, OUT/seed-S+1, ...
        pub seeds: Option<u64> = None,
        /// Settings of an earlier run: every one that is not given here, and the data it was trained on
        pub from: Option<Input> = None => [value("RUN")],
    } with {
        /// Where runs go.
        pub output: RunOutput,
    }
}

settings! {
    /// A folder that is written.
    pub struct RunOutput in "Output" {
        /// Folder to write to
        pub out: Option<Output> = None => [value("FOLDER"), otherwise("runs/METHOD")],
    } with {
        /// What to do about an earlier output.
        pub existing: Existing,
    }
}

impl RunOutput {
    /// The folder, or `runs/NAME`.
    pub fn folder(&self, name: &str) -> Output {
        self.out.clone().unwrap_or_else(|| format!("runs/{name}").into())
    }
}
