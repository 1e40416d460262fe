//! Added tokens, such as `[SEP]`, which are matched in the text before any other step.

use serde::Deserialize;
use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory};

use super::Part;

/// An added token, as written in `tokenizer.json`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct AddedToken {
    pub id: u32,
    pub content: String,
    /// Match only where the token is not inside a word.
    #[serde(default)]
    pub single_word: bool,
    /// Whether the match includes the whitespace before it.
    #[serde(default)]
    pub lstrip: bool,
    /// Whether the match includes the whitespace after it.
    #[serde(default)]
    pub rstrip: bool,
    /// Whether to match in the normalized text.
    #[serde(default)]
    pub normalized: bool,
}

/// Added tokens that are matched in the same text, longest first, indexed by first byte.
#[derive(Debug, Default)]
pub(super) struct Added {
    tokens: Vec<AddedToken>,
    starting: Vec<Vec<usize>>,
}

impl Added {
    pub fn new(mut tokens: Vec<AddedToken>) -> Self {
        tokens.retain(|token| !token.content.is_empty());
        tokens.sort_by_key(|token| std::cmp::Reverse(token.content.len()));
        let mut starting = vec![Vec::new(); 256];
        for (i, token) in tokens.iter().enumerate() {
            starting[usize::from(token.content.as_bytes()[0])].push(i);
        }
        Self { tokens, starting }
    }

    /// Splits the text at added tokens, in order: leftmost match first, then longest. No part is empty.
    pub fn split<'a>(&self, text: &'a str) -> Vec<Part<'a>> {
        let (mut parts, mut done, mut at) = (Vec::new(), 0, 0);
        while !self.tokens.is_empty() && at < text.len() {
            let Some(token) = self.at(&text[at..]) else {
                at += text[at..].chars().next().map_or(1, char::len_utf8);
                continue;
            };
            let (mut from, mut to) = (at, at + token.content.len());
            at = to;
            if token.single_word && is_inside_a_word(&text[..from], &text[to..]) {
                continue;
            }
            if token.lstrip {
                from = text[..from].trim_end().len().max(done);
            }
            if token.rstrip {
                to = text.len() - text[to..].trim_start().len();
            }
            // Whitespace that the previous token has consumed.
            if from > done {
                parts.push(Part::Text(&text[done..from]));
            }
            parts.push(Part::Token(token.id));
            done = to;
            at = at.max(to);
        }
        if done < text.len() {
            parts.push(Part::Text(&text[done..]));
        }
        parts
    }

    fn at(&self, text: &str) -> Option<&AddedToken> {
        let first = *text.as_bytes().first()?;
        let candidates = &self.starting[usize::from(first)];
        candidates.iter().map(|&i| &self.tokens[i]).find(|token| text.starts_with(&token.content))
    }
}

fn is_inside_a_word(before: &str, after: &str) -> bool {
    before.chars().next_back().is_some_and(is_of_word)
        || after.chars().next().is_some_and(is_of_word)
}

/// The class `\w` of regular expressions.
fn is_of_word(c: char) -> bool {
    let category = c.general_category();
    c.is_alphabetic()
        || matches!(
            category,
            GeneralCategory::DecimalNumber | GeneralCategory::ConnectorPunctuation
        )
        || c.general_category_group() == GeneralCategoryGroup::Mark
        || matches!(c, '\u{200C}' | '\u{200D}')
}
