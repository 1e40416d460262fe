//! Splits text into words.

use std::collections::HashMap;

/// Words and their indices.
#[derive(Clone, Debug)]
pub struct Vocabulary {
    words: Vec<String>,
    numbers: HashMap<String, u32>,
    lowercase: bool,
}

impl Vocabulary {
    /// Creates a vocabulary in which word i has index i; `lowercase` as for the corpus the words come from.
    pub fn new(words: Vec<String>, lowercase: bool) -> Self {
        let numbers = words.iter().enumerate().map(|(i, word)| (word.clone(), i as u32)).collect();
        Self { words, numbers, lowercase }
    }

    /// Returns the words in the order of their indices.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// Returns the word indices of a document; unknown words are dropped.
    pub fn tokenize(&self, text: &str) -> Vec<u32> {
        let mut tokens = Vec::new();
        self.push_tokens(text, &mut tokens);
        tokens
    }

    /// Appends the word indices of a document; unknown words are dropped.
    pub fn push_tokens(&self, text: &str, tokens: &mut Vec<u32>) {
        for_each_word(text, self.lowercase, |word| tokens.extend(self.numbers.get(word)));
    }
}

/// Calls `take` with every word in order.
pub(super) fn for_each_word(text: &str, lowercase: bool, mut take: impl FnMut(&str)) {
    let mut word = String::new();
    // An apostrophe counts once a letter follows it.
    let mut apostrophe = false;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let mut n = c.len_utf8();
        if c.is_alphanumeric() {
            if std::mem::take(&mut apostrophe) {
                word.push('\'');
            }
            if !lowercase {
                word.push(c);
            } else if c.is_ascii() {
                word.push(c.to_ascii_lowercase());
            } else {
                // Combining marks left over by lowercasing are not letters.
                word.extend(c.to_lowercase().filter(|c| c.is_alphanumeric()));
            }
        } else if matches!(c, '\'' | '\u{2019}') && !word.is_empty() && !apostrophe {
            apostrophe = true;
        } else {
            n = if c == '<' { line_break(rest) } else { n };
            apostrophe = false;
            if !word.is_empty() {
                take(&word);
                word.clear();
            }
        }
        rest = &rest[n..];
    }
    if !word.is_empty() {
        take(&word);
    }
}

/// The length of `<br>`, `<br/>` or `<br />` at the start of `text`, else 1.
fn line_break(text: &str) -> usize {
    let bytes = text.as_bytes();
    if bytes.len() < 4 || !bytes[1..3].eq_ignore_ascii_case(b"br") {
        return 1;
    }
    let inside = bytes[3..].iter().take_while(|&&b| b == b' ' || b == b'/').count();
    if bytes.get(3 + inside) == Some(&b'>') { 4 + inside } else { 1 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(text: &str) -> Vec<String> {
        let mut words = Vec::new();
        for_each_word(text, true, |word| words.push(word.to_owned()));
        words
    }

    #[test]
    fn words_are_letters_digits_and_inner_apostrophes() {
        assert_eq!(
            words("Don't stop, it's 'quoted' 42nd--street!"),
            ["don't", "stop", "it's", "quoted", "42nd", "street"]
        );
        assert_eq!(
            words("dogs' rock\u{2019}n\u{2019}roll a''b"),
            ["dogs", "rock'n'roll", "a", "b"]
        );
        assert_eq!(
            words("one<br />two<BR>three<br/>four <b>br</b>"),
            ["one", "two", "three", "four", "b", "br", "b"]
        );
        assert_eq!(
            words("\u{c9}t\u{e9} \u{4f60}\u{597d}, \u{130}"),
            ["\u{e9}t\u{e9}", "\u{4f60}\u{597d}", "i"]
        );
        assert!(words(" ' '' <br <br").len() == 2 && words("").is_empty());
    }

    #[test]
    fn case_is_kept_on_request() {
        let vocabulary = Vocabulary::new(vec!["It".into(), "it".into()], false);
        assert_eq!(vocabulary.tokenize("it It IT it"), [1, 0, 1]);
        assert_eq!(Vocabulary::new(vec!["it".into()], true).tokenize("it It IT"), [0, 0, 0]);
    }

    proptest! {
        /// Splitting the words again returns the same words; nothing between them is a letter.
        #[test]
        fn cutting_twice_changes_nothing(text in "\\PC{0,60}") {
            let once = words(&text);
            prop_assert_eq!(words(&once.join(" ")), once);
        }
    }
}
