//! Cells of text: numbers, lists of numbers, and ids.
//!
//! A list is `[0.1, 0.2]`, `(0.1, 0.2)`, `{0.1,0.2}` (Postgres) or without brackets, and its values are separated by `|`,
//! `;`, commas or white space: by the first of these that occurs in it. So a decimal comma never passes for two numbers.

use arrow_array::{Int64Array, StringArray};
use veridical_data::{Ids, shortened};

use super::OnNullId;
use crate::IdKind;
use crate::columns::MISSING;

/// Parses a number; an empty cell is a missing value.
pub(super) fn number(text: &str) -> Option<f32> {
    let text = text.trim();
    if text.is_empty() {
        return Some(f32::NAN);
    }
    text.parse().ok()
}

/// Whether the cell holds a list of numbers, and not one number.
pub(super) fn is_list(text: &str) -> bool {
    number(text).is_none() && items(text).all(|item| number(item).is_some())
}

/// The values of a list; one that is empty is missing.
pub(super) fn items(text: &str) -> impl Iterator<Item = &str> {
    let inner = text.trim().trim_start_matches(['[', '(', '{']).trim_end_matches([']', ')', '}']);
    let separator = ['|', ';', ','].into_iter().find(|&separator| inner.contains(separator));
    let inner = match separator {
        Some(separator) => inner.trim_end().strip_suffix(separator).unwrap_or(inner),
        None => inner,
    };
    let is_end = move |c: char| separator.map_or(c.is_whitespace(), |separator| c == separator);
    let items = inner.split(is_end).map(str::trim);
    items.filter(move |item| separator.is_some() || !item.is_empty())
}

/// Whether the text is a number with a decimal comma.
pub(super) fn has_decimal_comma(text: &str) -> bool {
    let text = text.trim();
    text.matches(',').count() == 1 && text.replace(',', ".").parse::<f32>().is_ok()
}

/// Whether the text is a canonical integer: `7`, not `07` or `+7`.
pub(super) fn is_integer(text: &str) -> bool {
    text.parse::<i64>().is_ok_and(|id| id.to_string() == text)
}

/// The integer of `7.0`, as pandas writes integers of a column in which some are missing.
fn float_integer(text: &str) -> Option<i64> {
    text.strip_suffix(".0").filter(|text| is_integer(text))?.parse().ok()
}

/// How ids are written in a file of text; decided by the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IdStyle {
    /// There are none.
    None,
    /// `7`
    Int,
    /// `7.0`
    Float,
    Text,
}

impl IdStyle {
    /// The style of the ids of a column that begins with `first`.
    pub fn of(first: &str, text_ids: bool) -> Self {
        match first {
            _ if text_ids => Self::Text,
            text if is_integer(text) => Self::Int,
            text if float_integer(text).is_some() => Self::Float,
            _ => Self::Text,
        }
    }

    /// The style of words.
    pub fn of_word(first: &str, text_ids: bool) -> Self {
        if !text_ids && is_integer(first) { Self::Int } else { Self::Text }
    }

    pub const fn kind(self) -> IdKind {
        match self {
            Self::None => IdKind::RowNumber,
            Self::Int | Self::Float => IdKind::Int,
            Self::Text => IdKind::Text,
        }
    }

    /// A note on ids that are not read as they are written.
    pub fn note(self) -> Option<&'static str> {
        (self == Self::Float)
            .then_some("ids such as `7.0` are read as integers (⟨text-ids⟩ keeps them)")
    }
}

/// Collects ids.
pub(super) struct IdBuilder {
    style: IdStyle,
    on_null: OnNullId,
    numbers: Vec<Option<i64>>,
    texts: Vec<Option<String>>,
}

impl IdBuilder {
    pub fn new(style: IdStyle, on_null: OnNullId) -> Self {
        Self { style, on_null, numbers: Vec::new(), texts: Vec::new() }
    }

    pub fn push(&mut self, text: &str) -> Result<(), String> {
        let missing = text.is_empty() && self.style != IdStyle::None;
        if missing && self.on_null == OnNullId::Error {
            return Err(MISSING.into());
        }
        let number = match self.style {
            IdStyle::None => return Ok(()),
            IdStyle::Text => {
                self.texts.push((!missing).then(|| text.to_owned()));
                return Ok(());
            }
            IdStyle::Int => text.parse().ok().filter(|_| is_integer(text)),
            IdStyle::Float => float_integer(text),
        };
        if number.is_none() && !missing {
            let id = shortened(text);
            return Err(format!(
                "the id `{id}` is not an integer, unlike the first one; pass ⟨text-ids⟩ to read all ids as text"
            ));
        }
        self.numbers.push(number);
        Ok(())
    }

    pub fn finish(self, first_row: u64, n: usize) -> Ids {
        match self.style {
            IdStyle::None => Ids::numbered(first_row, n),
            IdStyle::Int | IdStyle::Float => Ids::Int(Int64Array::from(self.numbers)),
            IdStyle::Text => Ids::Text(StringArray::from(self.texts)),
        }
    }
}

/// All ids of a file, `None` for missing ones: integers if all of them are.
pub(super) fn whole_file(ids: Vec<Option<String>>, text_ids: bool) -> Ids {
    let mut all = ids.iter().flatten().peekable();
    let style = all.peek().map_or(IdStyle::Text, |first| IdStyle::of(first, text_ids));
    let number = |id: &str| match style {
        IdStyle::Int => id.parse().ok().filter(|_| is_integer(id)),
        _ => float_integer(id),
    };
    if style == IdStyle::Text || !all.all(|id| number(id).is_some()) {
        return Ids::Text(StringArray::from(ids));
    }
    Ids::Int(ids.iter().map(|id| id.as_deref().and_then(number)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_however_they_are_written() {
        for text in ["[0.1, 2]", "{0.1,2}", "(0.1,2)", "0.1|2", "0.1;2", " 0.1  2\n", "[0.1,2,]"] {
            assert!(is_list(text), "{text}");
            let values: Vec<f32> = items(text).filter_map(number).collect();
            assert_eq!(values, [0.1, 2.0], "{text}");
        }
        assert!(is_list("[0.5]") && !is_list("0.5") && !is_list("") && !is_list("a b"));
        assert!(number(items("1,,2").nth(1).unwrap()).unwrap().is_nan(), "a value is missing");
    }

    #[test]
    fn decimal_commas_never_pass_for_two_numbers() {
        for text in ["0,5;1,5", "0,5|1,5", "0,5 1,5"] {
            assert!(!is_list(text), "{text}");
        }
        assert!(has_decimal_comma("0,5") && has_decimal_comma("-1,5e-3"));
        assert!(!has_decimal_comma("1,2,3") && !has_decimal_comma("a,b"));
    }

    #[test]
    fn floats_with_nothing_behind_the_point_are_integers() {
        assert_eq!(IdStyle::of("7.0", false), IdStyle::Float);
        assert_eq!(IdStyle::of("7.0", true), IdStyle::Text);
        assert_eq!(IdStyle::of("07.0", false), IdStyle::Text);
        assert_eq!(IdStyle::of("7.5", false), IdStyle::Text);
        let of =
            |ids: &[&str]| whole_file(ids.iter().map(|id| Some(id.to_string())).collect(), false);
        assert_eq!(of(&["7.0", "8.0"]), Ids::Int(vec![7, 8].into()));
        assert_eq!(of(&["7", "8.0"]), Ids::Text(vec!["7", "8.0"].into()));
    }
}
