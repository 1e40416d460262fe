//! Formatting of text, numbers and JSON in a page.

use serde::Serialize;
use serde_json::Value;

/// Escapes text so that it cannot end the element or attribute that contains it.
pub(crate) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            _ => safe.push(c),
        }
    }
    safe
}

/// Escapes text and marks text between backticks as code.
pub(crate) fn prose(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    // With an odd number of backticks, the last one stays literal.
    let last = parts.len() - 1;
    let mut html = String::new();
    for (i, part) in parts.iter().enumerate() {
        match i % 2 == 1 {
            true if i < last => html.push_str(&format!("<code>{}</code>", escape(part))),
            true => html.push_str(&format!("`{}", escape(part))),
            false => html.push_str(&escape(part)),
        }
    }
    html
}

/// Writes JSON that cannot end the script element that contains it.
///
/// # Panics
/// If a map has keys that are not text; such types do not belong in a report.
pub(crate) fn json(value: &impl Serialize) -> String {
    // INVARIANT: numbers, text, lists and maps with text as keys always have JSON.
    let text = serde_json::to_string(value).expect("a map in a report has keys of text");
    text.replace('<', "\\u003c")
}

/// Writes JSON for charts: seven digits are more than a screen shows, and halve the size of the page.
pub(crate) fn short_json(value: &impl Serialize) -> String {
    // INVARIANT: as above.
    let mut value = serde_json::to_value(value).expect("a map in a report has keys of text");
    shorten(&mut value);
    json(&value)
}

fn shorten(value: &mut Value) {
    match value {
        Value::Number(x) if x.is_f64() => {
            let short = x.as_f64().and_then(|x| format!("{x:.6e}").parse::<f64>().ok());
            *value = short.map_or(Value::Null, Value::from);
        }
        Value::Array(items) => items.iter_mut().for_each(shorten),
        Value::Object(fields) => fields.values_mut().for_each(shorten),
        _ => {}
    }
}

/// Formats a number with `digits` decimal places and thousands separators, as in tables; `-` if it is not finite.
///
/// ```
/// assert_eq!(veridical_report::number(1234567.891, 1), "1,234,567.9");
/// assert_eq!(veridical_report::number(f64::NAN, 1), "-");
/// ```
pub fn number(x: f64, digits: usize) -> String {
    if !x.is_finite() {
        return "-".into();
    }
    let text = format!("{x:.digits$}");
    let (sign, text) = match text.strip_prefix('-') {
        // Values that round to zero have no sign.
        Some(rest) if rest.bytes().all(|b| matches!(b, b'0' | b'.')) => ("", rest),
        Some(rest) => ("-", rest),
        None => ("", text.as_str()),
    };
    let (whole, part) = text.split_at(text.find('.').unwrap_or(text.len()));
    format!("{sign}{}{part}", grouped(whole))
}

/// Formats a number with about four digits, as in the browser; `-` if it is not finite.
pub fn brief(x: f64) -> String {
    let size = x.abs();
    if !x.is_finite() {
        "-".into()
    } else if x == x.trunc() && size < 1e15 {
        number(x, 0)
    } else if !(1e-4..1e6).contains(&size) {
        let text = format!("{x:.2e}");
        let (mantissa, exponent) = text.split_at(text.find('e').unwrap_or(text.len()));
        format!("{}{exponent}", mantissa.trim_end_matches('0').trim_end_matches('.'))
    } else {
        let digits = (3 - size.log10().floor() as i32).max(0) as usize;
        let text = number(x, digits);
        match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => text,
        }
    }
}

fn grouped(whole: &str) -> String {
    let mut text = String::new();
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        for (x, digits, text) in [
            (1234567.891, 1, "1,234,567.9"),
            (999.0, 0, "999"),
            (-1000.0, 0, "-1,000"),
            (-0.0004, 3, "0.000"),
            (f64::NAN, 2, "-"),
            (f64::NEG_INFINITY, 2, "-"),
        ] {
            assert_eq!(number(x, digits), text);
        }
        for (x, text) in [
            (0.0, "0"),
            (12345.0, "12,345"),
            (0.123456, "0.1235"),
            (0.5, "0.5"),
            (1234.5, "1,234"),
            (99.996, "100"),
            (0.00001234, "1.23e-5"),
            (-2.5e7 - 0.5, "-2.5e7"),
            (f64::INFINITY, "-"),
        ] {
            assert_eq!(brief(x), text);
        }
    }

    #[test]
    fn charts_are_short_and_have_no_nan() {
        assert_eq!(
            short_json(&[0.1 + 0.2, 1e300, f64::NAN, 1.0 / 3.0]),
            "[0.3,1e+300,null,0.3333333]"
        );
        assert_eq!(short_json(&u64::MAX), u64::MAX.to_string());
    }

    #[test]
    fn backticks_are_code_and_code_is_escaped() {
        assert_eq!(prose("run `a <b>` & see"), "run <code>a &lt;b&gt;</code> &amp; see");
        assert_eq!(prose("it`s <i>"), "it`s &lt;i&gt;");
        assert_eq!(prose(""), "");
    }
}
