//! Splits text into words, before they are split into subwords.

use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory};

/// Words as in BERT: runs without whitespace; every punctuation character is a separate word.
pub(super) fn of_bert(text: &str) -> impl Iterator<Item = &str> {
    let is_end = |c: char| c.is_whitespace() || is_punctuation(c);
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start();
        let first = rest.chars().next()?;
        let end = match is_punctuation(first) {
            true => first.len_utf8(),
            false => rest.find(is_end).unwrap_or(rest.len()),
        };
        let word;
        (word, rest) = rest.split_at(end);
        Some(word)
    })
}

fn is_punctuation(c: char) -> bool {
    match c.is_ascii() {
        true => c.is_ascii_punctuation(),
        false => c.general_category_group() == GeneralCategoryGroup::Punctuation,
    }
}

/// Words as in GPT-2, covering the whole text. Its pattern, implemented without a regex engine:
/// `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
pub(super) fn of_bytes(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let word;
        (word, rest) = rest.split_at(word_of_bytes(rest));
        (!word.is_empty()).then_some(word)
    })
}

const CONTRACTIONS: [&str; 7] = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d"];

/// The length of the first word of `text`.
fn word_of_bytes(text: &str) -> usize {
    if let Some(end) = CONTRACTIONS.iter().find(|end| text.starts_with(*end)) {
        return end.len();
    }
    let run = text.strip_prefix(' ').unwrap_or(text);
    let space = text.len() - run.len();
    if let Some(kind) = run.chars().next().and_then(kind) {
        return space + run.find(|c| self::kind(c) != Some(kind)).unwrap_or(run.len());
    }
    // Whitespace: the last character before a word belongs to that word, unless it is the only one.
    let end = text.find(|c: char| !c.is_whitespace()).unwrap_or(text.len());
    let last = text[..end].chars().next_back().map_or(0, char::len_utf8);
    if end == text.len() || end == last { end } else { end - last }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Letter,
    Number,
    Other,
}

/// The class of a character; `None` for whitespace.
fn kind(c: char) -> Option<Kind> {
    Some(match c {
        'a'..='z' | 'A'..='Z' => Kind::Letter,
        _ if c.is_whitespace() => return None,
        _ if c.is_numeric() => Kind::Number,
        _ if c.is_ascii() => Kind::Other,
        _ if c.general_category_group() == GeneralCategoryGroup::Letter => Kind::Letter,
        _ => Kind::Other,
    })
}
