//! Normalization of text before it is tokenized: cleaning, lowercasing, stripping accents.

use std::borrow::Cow;

use serde::Deserialize;
use unicode_normalization::UnicodeNormalization;
use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

/// Normalization steps, applied in sequence, as written in `tokenizer.json`.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "type")]
pub(super) enum Normalizer {
    #[serde(rename = "BertNormalizer")]
    Bert(Bert),
    Lowercase,
    StripAccents,
    #[serde(rename = "NFC")]
    Nfc,
    #[serde(rename = "NFD")]
    Nfd,
    #[serde(rename = "NFKC")]
    Nfkc,
    #[serde(rename = "NFKD")]
    Nfkd,
    Sequence {
        normalizers: Vec<Normalizer>,
    },
}

/// BERT's normalization (Devlin et al. 2019, `tokenization.py`), in this order.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Bert {
    /// Whether to drop control characters and replace every kind of whitespace by a space.
    pub clean_text: bool,
    /// Whether to treat each ideograph as a separate word.
    pub handle_chinese_chars: bool,
    /// Whether to decompose characters and drop the marks; follows `lowercase` if it is not set.
    pub strip_accents: Option<bool>,
    pub lowercase: bool,
}

impl Normalizer {
    pub const NOTHING: Self = Self::Sequence { normalizers: Vec::new() };

    pub fn apply<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self {
            Self::Bert(bert) => bert.apply(text).into(),
            Self::Lowercase => lowercase(text).into(),
            Self::StripAccents => {
                text.chars().filter(|&c| !is_accent(c)).collect::<String>().into()
            }
            Self::Nfc => text.nfc().collect::<String>().into(),
            Self::Nfd => text.nfd().collect::<String>().into(),
            Self::Nfkc => text.nfkc().collect::<String>().into(),
            Self::Nfkd => text.nfkd().collect::<String>().into(),
            Self::Sequence { normalizers } => {
                let start = Cow::Borrowed(text);
                normalizers.iter().fold(start, |text, step| step.apply(&text).into_owned().into())
            }
        }
    }
}

impl Bert {
    fn apply(&self, text: &str) -> String {
        let mut clean = String::with_capacity(text.len());
        for c in text.chars() {
            if self.clean_text && is_dropped(c) {
                continue;
            }
            let c = if self.clean_text && c.is_whitespace() { ' ' } else { c };
            match self.handle_chinese_chars && is_ideograph(c) {
                true => clean.extend([' ', c, ' ']),
                false => clean.push(c),
            }
        }
        if self.strip_accents.unwrap_or(self.lowercase) && !clean.is_ascii() {
            clean = clean.nfd().filter(|&c| !is_accent(c)).collect();
        }
        if self.lowercase { lowercase(&clean) } else { clean }
    }
}

/// Lowercases character by character, so the final sigma of a word is not special.
pub(super) fn lowercase(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).collect()
}

fn is_accent(c: char) -> bool {
    !c.is_ascii() && c.general_category() == GeneralCategory::NonspacingMark
}

fn is_dropped(c: char) -> bool {
    use GeneralCategory::{Control, Format, PrivateUse};
    match c {
        '\t' | '\n' | '\r' => false,
        '\u{FFFD}' => true,
        _ if c.is_ascii() => c.is_ascii_control(),
        _ => matches!(c.general_category(), Control | Format | PrivateUse),
    }
}

/// The Unicode blocks that BERT treats as ideographs.
fn is_ideograph(c: char) -> bool {
    matches!(u32::from(c),
        0x4E00..=0x9FFF | 0x3400..=0x4DBF | 0x20000..=0x2A6DF | 0x2A700..=0x2B73F | 0x2B740..=0x2B81F
        | 0x2B920..=0x2CEAF | 0xF900..=0xFAFF | 0x2F800..=0x2FA1F)
}
