//! Reads a tokenizer from its files: `tokenizer.json`, or `vocab.txt` with `tokenizer_config.json`.

use std::collections::HashMap;
use std::fmt;

use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};
use serde_json::Value;
use veridical_core::{Error, Result};
use veridical_data::Files;

use super::added::{Added, AddedToken};
use super::bpe::{Bpe, shown};
use super::normalize::{Bert, Normalizer};
use super::wordpiece::WordPiece;
use super::{Ids, SubwordModel, Tokenizer};
use crate::place::Place;

const JSON: &str = "tokenizer.json";
const VOCABULARY: &str = "vocab.txt";
const CONFIG: &str = "tokenizer_config.json";

/// Limit on the file size; the largest vocabularies have some ten megabytes.
const MAX_BYTES: u64 = 256 << 20;

pub(super) fn open<F: Files + ?Sized>(files: &F) -> Result<Tokenizer, F::Error> {
    if let Some(bytes) = files.read(JSON, MAX_BYTES)? {
        Ok(of_json(&Place::of(files, JSON), &bytes)?)
    } else if let Some(bytes) = files.read(VOCABULARY, MAX_BYTES)? {
        let config = files.read(CONFIG, MAX_BYTES)?;
        let places = (Place::of(files, VOCABULARY), Place::of(files, CONFIG));
        Ok(of_list(&places.0, &bytes, &places.1, config.as_deref())?)
    } else {
        let hint = "save the tokenizer beside the model, in Python with \
                    AutoTokenizer.from_pretrained(NAME).save_pretrained(FOLDER)";
        let what = format!("has neither {JSON} nor {VOCABULARY}");
        Err(Place::of(files, "").missing(what, hint).into())
    }
}

/// `tokenizer.json`; the fields not read here (`decoder`, `padding`, `truncation`) do not affect the ids of a text.
#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    added_tokens: Vec<AddedToken>,
    normalizer: Option<Normalizer>,
    pre_tokenizer: Option<PreTokenizer>,
    post_processor: Option<PostProcessor>,
    model: ModelPart,
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum ModelPart {
    WordPiece {
        vocab: Entries,
        unk_token: String,
        continuing_subword_prefix: String,
        max_input_chars_per_word: usize,
    },
    #[serde(rename = "BPE")]
    Bpe {
        vocab: Entries,
        merges: Vec<Merge>,
        unk_token: Option<String>,
        dropout: Option<f64>,
        continuing_subword_prefix: Option<String>,
        end_of_word_suffix: Option<String>,
        #[serde(default)]
        fuse_unk: bool,
        #[serde(default)]
        byte_fallback: bool,
        #[serde(default)]
        ignore_merges: bool,
    },
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum PreTokenizer {
    #[serde(rename = "BertPreTokenizer")]
    Bert,
    ByteLevel {
        add_prefix_space: bool,
        #[serde(default = "yes")]
        use_regex: bool,
    },
}

const fn yes() -> bool {
    true
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum PostProcessor {
    TemplateProcessing { single: Vec<Piece>, special_tokens: HashMap<String, SpecialToken> },
    BertProcessing { cls: (String, u32), sep: (String, u32) },
    RobertaProcessing { cls: (String, u32), sep: (String, u32) },
    ByteLevel {},
    Sequence { processors: Vec<PostProcessor> },
}

#[derive(Deserialize)]
enum Piece {
    SpecialToken { id: String },
    Sequence {},
}

#[derive(Deserialize)]
struct SpecialToken {
    ids: Vec<u32>,
}

/// A pair of tokens to merge: `"a b"` or `["a", "b"]`.
#[derive(Deserialize)]
#[serde(untagged)]
enum Merge {
    Line(String),
    Pair(String, String),
}

/// A vocabulary with possible duplicates.
struct Entries(Vec<(String, u32)>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Entries;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a map from tokens to ids")
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<Entries, A::Error> {
                let mut entries = Vec::new();
                while let Some(token) = map.next_key::<String>()? {
                    let id = map.next_value::<u32>().map_err(|e| {
                        de::Error::custom(format!("the id of the token `{token}`: {e}"))
                    })?;
                    entries.push((token, id));
                }
                Ok(Entries(entries))
            }

            fn visit_seq<A: SeqAccess<'de>>(
                self,
                mut list: A,
            ) -> std::result::Result<Entries, A::Error> {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Err(de::Error::invalid_type(de::Unexpected::Seq, &self))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

const SUPPORTED: &str =
    "supported: WordPiece with BertPreTokenizer (BERT, MiniLM) and byte-level BPE (GPT-2, RoBERTa)";

fn of_json(place: &Place, bytes: &[u8]) -> Result<Tokenizer> {
    let document: Document = serde_json::from_slice(bytes).map_err(|e| match e.classify() {
        serde_json::error::Category::Data => {
            place.unfit(format!("not a supported tokenizer: {e}"), SUPPORTED)
        }
        _ => no_json(place, &e),
    })?;
    let Document { added_tokens, normalizer, pre_tokenizer, post_processor, model } = document;
    let (ids, model) = match (model, pre_tokenizer) {
        (
            ModelPart::WordPiece {
                vocab,
                unk_token,
                continuing_subword_prefix: prefix,
                max_input_chars_per_word: max_chars,
            },
            Some(PreTokenizer::Bert),
        ) => {
            let ids = numbered(place, vocab.0)?;
            let all = with_added(place, &ids, &added_tokens)?;
            let unknown = id_of(place, &ids, &unk_token, "for unknown words")?;
            (all, SubwordModel::WordPiece(WordPiece { ids, unknown, prefix, max_chars }))
        }
        (
            ModelPart::Bpe {
                vocab,
                merges,
                unk_token,
                dropout,
                continuing_subword_prefix,
                end_of_word_suffix,
                fuse_unk,
                byte_fallback,
                ignore_merges,
            },
            Some(PreTokenizer::ByteLevel { add_prefix_space, use_regex: true }),
        ) => {
            let is_given =
                |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
            let odd = [
                (dropout.is_some_and(|p| p != 0.0), "dropout"),
                (is_given(&continuing_subword_prefix), "continuing_subword_prefix"),
                (is_given(&end_of_word_suffix), "end_of_word_suffix"),
                (byte_fallback, "byte_fallback"),
            ];
            if let Some((_, name)) = odd.iter().find(|(is_odd, _)| *is_odd) {
                return Err(place.unfit(format!("`{name}` of BPE is not supported"), SUPPORTED));
            }
            let ids = numbered(place, vocab.0)?;
            let all = with_added(place, &ids, &added_tokens)?;
            let unknown = unk_token
                .filter(|token| !token.is_empty())
                .map(|token| id_of(place, &all, &token, "for unknown bytes"))
                .transpose()?;
            let merges = joined(place, merges, &ids)?;
            let of_byte = |byte| ids.get(shown(byte).encode_utf8(&mut [0; 4])).copied();
            let bytes = (0..=255).map(of_byte).collect();
            let (fuses_unknown, ignores_merges) = (fuse_unk, ignore_merges);
            let bpe = Bpe { ids, bytes, merges, unknown, fuses_unknown, ignores_merges };
            (all, SubwordModel::Bpe { bpe, adds_space: add_prefix_space })
        }
        _ => {
            let what = "the combination of its model and its `pre_tokenizer` is not supported";
            return Err(place.unfit(what, SUPPORTED));
        }
    };
    let (first, last) = around(place, post_processor, &ids)?;
    Ok(assemble(ids, added_tokens, normalizer.unwrap_or(Normalizer::NOTHING), model, first, last))
}

/// Settings of `tokenizer_config.json`, with BERT's defaults.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Config {
    do_lower_case: Option<bool>,
    strip_accents: Option<bool>,
    tokenize_chinese_chars: Option<bool>,
    unk_token: Option<Value>,
    cls_token: Option<Value>,
    sep_token: Option<Value>,
    pad_token: Option<Value>,
    mask_token: Option<Value>,
}

fn of_list(
    place: &Place,
    bytes: &[u8],
    config_place: &Place,
    config: Option<&[u8]>,
) -> Result<Tokenizer> {
    let mut entries = Vec::new();
    for (line, token) in bytes.split(|&byte| byte == b'\n').enumerate() {
        let token = std::str::from_utf8(token).map_err(|_| {
            place.unfit(format!("line {} is not UTF-8", line + 1), "save the tokenizer again")
        })?;
        entries.push((token.trim_end().to_owned(), line as u32));
    }
    // The empty string after the last newline is not a token.
    if entries.last().is_some_and(|(token, _)| token.is_empty()) {
        entries.pop();
    }
    let ids = numbered(place, entries)?;
    let Some(config) = config else {
        let hint = "it specifies whether text is lowercased: save the whole tokenizer, or write \
                    {\"do_lower_case\": true} there for an uncased model";
        return Err(config_place.missing("is missing", hint));
    };
    let config: Config = serde_json::from_slice(config).map_err(|e| no_json(config_place, &e))?;
    let name = |given: &Option<Value>, default: &str| {
        let content =
            |value: &Value| value.as_str().or(value["content"].as_str()).map(str::to_owned);
        given.as_ref().and_then(content).unwrap_or_else(|| default.to_owned())
    };
    let special = |given: &Option<Value>, default, why| {
        let token = name(given, default);
        id_of(place, &ids, &token, why)
    };
    let unknown = special(&config.unk_token, "[UNK]", "for unknown words")?;
    let first = special(&config.cls_token, "[CLS]", "at the start of texts")?;
    let last = special(&config.sep_token, "[SEP]", "at the end of texts")?;
    let named = [
        (&config.unk_token, "[UNK]"),
        (&config.cls_token, "[CLS]"),
        (&config.sep_token, "[SEP]"),
        (&config.pad_token, "[PAD]"),
        (&config.mask_token, "[MASK]"),
    ];
    let added = named.iter().filter_map(|(given, default)| {
        let content = name(given, default);
        let id = *ids.get(&content)?;
        let (single_word, lstrip, rstrip, normalized) = (false, false, false, false);
        Some(AddedToken { id, content, single_word, lstrip, rstrip, normalized })
    });
    let normalizer = Normalizer::Bert(Bert {
        clean_text: true,
        handle_chinese_chars: config.tokenize_chinese_chars.unwrap_or(true),
        strip_accents: config.strip_accents,
        lowercase: config.do_lower_case.unwrap_or(true),
    });
    let added = added.collect();
    let model = WordPiece { ids: ids.clone(), unknown, prefix: "##".into(), max_chars: 100 };
    Ok(assemble(ids, added, normalizer, SubwordModel::WordPiece(model), vec![first], vec![last]))
}

fn assemble(
    ids: Ids,
    added: Vec<AddedToken>,
    normalizer: Normalizer,
    model: SubwordModel,
    first: Vec<u32>,
    last: Vec<u32>,
) -> Tokenizer {
    let vocabulary = ids.values().max().map_or(0, |&id| id as usize + 1);
    let (mut normalized, raw): (Vec<_>, Vec<_>) = added.into_iter().partition(|t| t.normalized);
    for token in &mut normalized {
        token.content = normalizer.apply(&token.content).into_owned();
    }
    let (raw, normalized) = (Added::new(raw), Added::new(normalized));
    Tokenizer { raw, normalized, normalizer, model, first, last, vocabulary }
}

fn no_json(place: &Place, e: &serde_json::Error) -> Error {
    let hint = "it may be truncated or damaged, write it again";
    place.damaged(format!("not a readable JSON file: {e}"), hint)
}

/// Checks that every token and every id occurs once.
fn numbered(place: &Place, entries: Vec<(String, u32)>) -> Result<Ids> {
    let mut seen: HashMap<u32, String> = HashMap::with_capacity(entries.len());
    let mut ids = Ids::with_capacity(entries.len());
    for (token, id) in entries {
        if let Some(other) = ids.insert(token.clone(), id) {
            let what = format!("the token `{token}` has two ids, {other} and {id}");
            return Err(place.unfit(what, "save the tokenizer again"));
        }
        if let Some(other) = seen.insert(id, token.clone()) {
            let what = format!("the id {id} is assigned to two tokens, `{other}` and `{token}`");
            return Err(place.unfit(what, "save the tokenizer again"));
        }
    }
    match ids.is_empty() {
        true => Err(place.unfit("the vocabulary is empty", "save the tokenizer again")),
        false => Ok(ids),
    }
}

/// The vocabulary together with the added tokens.
fn with_added(place: &Place, ids: &Ids, added: &[AddedToken]) -> Result<Ids> {
    let mut all = ids.clone();
    for AddedToken { id, content, .. } in added {
        if let Some(other) = all.insert(content.clone(), *id).filter(|other| other != id) {
            let what = format!(
                "the added token `{content}` has the id {id}, but in the vocabulary it is {other}"
            );
            return Err(place.unfit(what, "save the tokenizer again"));
        }
    }
    let mut tokens: HashMap<u32, &str> = HashMap::with_capacity(all.len());
    for (token, &id) in &all {
        if let Some(other) = tokens.insert(id, token) {
            let (a, b) = (other.min(token), other.max(token));
            let what = format!("the id {id} is assigned to two tokens, `{a}` and `{b}`");
            return Err(place.unfit(what, "save the tokenizer again"));
        }
    }
    Ok(all)
}

fn id_of(place: &Place, ids: &Ids, token: &str, why: &str) -> Result<u32> {
    ids.get(token).copied().ok_or_else(|| {
        let what = format!("the vocabulary has no `{token}`, which is needed {why}");
        place.unfit(what, "use the tokenizer that the model was trained with")
    })
}

/// The merge rules with their ranks and results.
fn joined(place: &Place, merges: Vec<Merge>, ids: &Ids) -> Result<HashMap<(u32, u32), (u32, u32)>> {
    let mut rules = HashMap::with_capacity(merges.len());
    for (rank, merge) in merges.into_iter().enumerate() {
        let (left, right) = match merge {
            Merge::Pair(left, right) => (left, right),
            Merge::Line(line) => match line.split_once(' ') {
                Some((left, right)) if !right.contains(' ') => (left.into(), right.into()),
                _ => {
                    let what = format!("merge {}, `{line}`, is not two tokens", rank + 1);
                    let what = what + " separated by a space";
                    return Err(place.unfit(what, "save the tokenizer again"));
                }
            },
        };
        let joined = format!("{left}{right}");
        let id = |token: &String| {
            ids.get(token).copied().ok_or_else(|| {
                let merge = format!("merge {}, `{left}` with `{right}`", rank + 1);
                let what = format!("{merge}: the vocabulary has no `{token}`");
                place.unfit(what, "vocabulary and merges belong to different models")
            })
        };
        rules.insert((id(&left)?, id(&right)?), (rank as u32, id(&joined)?));
    }
    Ok(rules)
}

/// The special tokens before and after every text.
fn around(place: &Place, part: Option<PostProcessor>, ids: &Ids) -> Result<(Vec<u32>, Vec<u32>)> {
    let checked = |token: &str, given: u32, why: &str| {
        let id = id_of(place, ids, token, why)?;
        if id != given {
            let what = format!(
                "`{token}` is {given} in `post_processor`, but in the vocabulary it is {id}"
            );
            return Err(place.unfit(what, "save the tokenizer again"));
        }
        Ok(id)
    };
    let (mut first, mut last) = (Vec::new(), Vec::new());
    match part {
        None | Some(PostProcessor::ByteLevel {}) => {}
        Some(
            PostProcessor::BertProcessing { cls, sep }
            | PostProcessor::RobertaProcessing { cls, sep },
        ) => {
            first.push(checked(&cls.0, cls.1, "at the start of texts")?);
            last.push(checked(&sep.0, sep.1, "at the end of texts")?);
        }
        Some(PostProcessor::TemplateProcessing { single, special_tokens }) => {
            let mut is_behind = false;
            for piece in single {
                let Piece::SpecialToken { id: name } = piece else {
                    is_behind = true;
                    continue;
                };
                let why = "by `post_processor`";
                let Some(special) = special_tokens.get(&name) else {
                    let what = format!(
                        "`post_processor` adds `{name}` to texts but does not define its id"
                    );
                    return Err(place.unfit(what, "save the tokenizer again"));
                };
                let given = match special.ids[..] {
                    [id] => checked(&name, id, why)?,
                    _ => id_of(place, ids, &name, why)?,
                };
                if is_behind { &mut last } else { &mut first }.push(given);
            }
        }
        Some(PostProcessor::Sequence { processors }) => {
            for processor in processors {
                let (before, behind) = around(place, Some(processor), ids)?;
                first = [before, first].concat();
                last.extend(behind);
            }
        }
    }
    Ok((first, last))
}
