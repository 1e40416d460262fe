//! Settings shared by several verbs.

use std::path::PathBuf;

use veridical_core::{Seed, settings};
use veridical_data::split::{Short, SplitRule};
use veridical_io::{
    ColumnMap, Existing, IdFiles, Input, LabelOptions, OnDuplicateId, Output, ReadOptions,
    RecordOptions, Source, TableReader, TextOptions,
};

use crate::Result;

settings! {
    /// How text files are decoded.
    pub struct TextFiles in "Reading" {
        /// Character encoding of text files
        pub encoding: Option<String> = None => [otherwise("utf-8")],
        /// The first line is data, not a header; columns are numbered 0, 1, 2, ...
        pub no_header: bool = false => [switch()],
    }
}

impl TextFiles {
    /// Returns `Some(false)` if the user set `no_header`, otherwise `None`: the header is detected.
    pub fn has_header(&self) -> Option<bool> {
        self.no_header.then_some(false)
    }

    /// Returns the options for reading files with these columns.
    pub fn records(&self, columns: ColumnMap) -> RecordOptions {
        RecordOptions { columns, has_header: self.has_header(), ..self.encoded() }
    }

    /// Returns the options for reading other files, for which a header is detected.
    pub fn encoded(&self) -> RecordOptions {
        RecordOptions { encoding: self.encoding.clone(), ..RecordOptions::default() }
    }
}

settings! {
    /// Files that name the rows of tables without ids, where a reference and other tables are read.
    pub struct TableIds in "Reading" {
        /// File that names the rows of the reference, as ⟨ids⟩ does for all tables
        pub reference_ids: Option<Input> = None => [detail()],
        /// File that names the rows of the other table
        pub new_ids: Option<Input> = None => [detail()],
    }
}

impl TableIds {
    /// Opens table `i` of `n`, where 0 is the reference. A file for this table must be needed; one for all tables is used
    /// where it is.
    pub(crate) fn open(
        &self,
        source: &Source,
        read: &ReadOptions,
        (i, n): (usize, usize),
    ) -> Result<TableReader> {
        let own = if i == 0 { &self.reference_ids } else { &self.new_ids };
        Ok(match own {
            Some(file) => {
                let ids = file.clone().into();
                TableReader::open(source, &ReadOptions { ids, ..read.clone() })?
            }
            None => TableReader::open_one_of(source, read, (i, n))?,
        })
    }

    /// Returns the options that read table `i` of `n` as [`Self::open`] does.
    pub(crate) fn reading(
        &self,
        source: &Source,
        read: &ReadOptions,
        (i, n): (usize, usize),
    ) -> Result<ReadOptions> {
        let own = if i == 0 { &self.reference_ids } else { &self.new_ids };
        let mut ids = match own {
            Some(file) => file.clone().into(),
            None => read.ids.of_table(i, n)?,
        };
        // Whether a file for all tables is for this one, its table tells; a stream cannot be read again.
        if own.is_none() && !ids.is_empty() && *source != Source::Stream {
            let once = ReadOptions { on_duplicate_id: OnDuplicateId::Error, ..read.clone() };
            if !self.open(source, &once, (i, n))?.is_named_by_file() {
                ids = IdFiles::default();
            }
        }
        Ok(ReadOptions { ids, ..read.clone() })
    }
}

settings! {
    /// How interactions are read.
    pub struct InteractionReading in "Reading" {
        /// Columns, by name or number
        pub columns: Option<String> = None => [value("user=U,item=I,rating=R,time=T"), otherwise("by common names")],
        /// Drop interactions with a smaller rating
        pub min_rating: Option<f32> = None => [value("R")],
        /// Read ids as text even if they look like integers
        pub text_ids: bool = false => [switch()],
    } with {
        /// How text files are decoded.
        pub files: TextFiles,
    }
}

settings! {
    /// Which columns of a table hold the documents and their ids.
    pub struct DocumentColumns in "Reading" {
        /// Column with the text
        pub column: Option<String> = None => [otherwise("`text`, or the only one")],
        /// Column with the document ids
        pub id_column: Option<String> = None => [otherwise("`id`, or the row number")],
    }
}

settings! {
    /// Which words are in the vocabulary.
    pub struct Vocabulary in "Reading" {
        /// Minimum count for a word to be in the vocabulary
        pub min_count: Option<u64> = None => [otherwise(TextOptions::default().min_count.to_string())],
    }
}

settings! {
    /// How groups of ids are read from labels.
    pub struct GroupReading in "Graphs and warm start" {
        /// Column with the labels, by name or number
        pub groups_column: Option<String> = None => [otherwise("the last")],
        /// Separator between the labels of one id
        pub groups_separator: Option<String> = None => [value("TEXT"), otherwise(LabelOptions::default().separator)],
        /// Relation to use, for triples (id, relation, entity)
        pub groups_relation: Option<String> = None,
    }
}

settings! {
    /// Which rows are held out for validation and testing.
    pub struct SplitSettings in "Split" {
        /// Split rule: none, random:SHARE, leave-last-one, per-user:N or temporal:SHARE
        pub split: Option<String> = None => [value("RULE"), otherwise("none")],
        /// Random seed of the split, independent of ⟨seed⟩
        pub split_seed: Option<u64> = None => [detail(), value("S"), otherwise("0")],
        /// Share of training rows held out for validation (leave-last-one: each user's last row but one)
        pub validation: Option<f64> = None
            => [value("SHARE"), otherwise("0; sasrec, two-tower: 0.1")],
        /// Handling of users with too few rows for the split
        pub short_users: Option<Short> = None => [detail(), value("WHAT"), otherwise("error")],
    }
}

impl SplitSettings {
    /// Parses the split rule.
    ///
    /// # Errors
    /// [`crate::Error::Core`] lists the valid rules.
    ///
    /// # Example
    /// ```
    /// use veridical::data::split::SplitRule;
    /// use veridical::settings::SplitSettings;
    ///
    /// let split = Some("leave-last-one".to_owned());
    /// let settings = SplitSettings { split, ..SplitSettings::default() };
    /// assert_eq!(settings.rule()?, SplitRule::LeaveLastOne);
    /// # Ok::<(), veridical::Error>(())
    /// ```
    pub fn rule(&self) -> Result<SplitRule> {
        Ok(self.split.as_deref().map_or(Ok(SplitRule::None), str::parse)?)
    }
}

settings! {
    /// Random seed of a training run.
    pub struct TrainingSeed in "Output" {
        /// Random seed of training, 0 to 2^53 - 1
        pub seed: Option<u64> = None => [value("S"), otherwise("0")],
    }
}

impl TrainingSeed {
    /// Returns the seed; 0 by default.
    ///
    /// # Errors
    /// [`crate::Error::Core`] if the seed is above 2^53 - 1.
    pub fn get(&self) -> Result<Seed> {
        Ok(Seed::new(self.seed.unwrap_or(0))?)
    }
}

settings! {
    /// What training starts from, and where its runs are written.
    pub struct Start in "Output" {
        /// Train N runs with seeds S, S+1, ... into OUT/seed-S, OUT/seed-S+1, ...
        pub seeds: Option<u64> = None,
        /// Start from the settings and data of an earlier run; flags override them
        pub from: Option<Input> = None => [value("RUN")],
    } with {
        /// Where runs are written.
        pub output: RunOutput,
    }
}

settings! {
    /// An output folder.
    pub struct RunOutput in "Output" {
        /// Folder to write to
        pub out: Option<Output> = None => [value("FOLDER"), otherwise("runs/METHOD")],
    } with {
        /// How existing output is handled.
        pub existing: Existing,
    }
}

impl RunOutput {
    /// Returns the output folder; `runs/NAME` by default.
    pub fn folder(&self, name: &str) -> Output {
        self.out.clone().unwrap_or_else(|| format!("runs/{name}").into())
    }
}

settings! {
    /// Memory that a computation may use.
    pub struct MemoryLimit in "Resources" {
        /// Memory to use, in MiB
        pub memory: Option<usize> = None
            => [detail(), value("MIB"), at_least(64.0), otherwise("a quarter of the RAM, at most 4096")],
    }
}

impl MemoryLimit {
    /// Returns the memory in bytes.
    pub fn bytes(&self) -> u64 {
        const MIB: u64 = 1 << 20;
        self.memory.map_or_else(|| (ram() / 4).clamp(512 * MIB, 4096 * MIB), |mib| mib as u64 * MIB)
    }
}

settings! {
    /// Memory and disk that a comparison may use.
    pub struct Resources in "Resources" {
        /// Folder for rows of tables in different orders that do not fit into memory
        pub scratch: Option<String> = None
            => [detail(), value("FOLDER"), otherwise("the folder for temporary files")],
    } with {
        /// Memory to use.
        pub memory: MemoryLimit,
    }
}

impl Resources {
    /// Returns the folder for pieces of tables.
    pub fn scratch(&self) -> PathBuf {
        self.scratch.as_deref().map_or_else(std::env::temp_dir, PathBuf::from)
    }
}

/// The memory of the machine, or of the container, in bytes; where the system does not tell, 16 GiB are assumed.
pub(crate) fn ram() -> u64 {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let total = read("/proc/meminfo").and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib << 10)
    });
    let limit = read("/sys/fs/cgroup/memory.max").and_then(|text| text.trim().parse::<u64>().ok());
    total.into_iter().chain(limit).min().unwrap_or(16 << 30)
}
