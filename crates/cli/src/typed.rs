//! The command line as typed, for the footer of a report.

/// Returns the command as one shell line, with the plain program name and without flags that never change the
/// output: a resumed job writes the same bytes as an uninterrupted one.
pub fn typed() -> String {
    let mut words = vec!["veridical".to_owned()];
    let mut given = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    while let Some(word) = given.next() {
        match word.as_str() {
            "--resume" | "--force" | "--quiet" | "-q" | "--json" => {}
            "--threads" => drop(given.next()),
            _ if word.starts_with("--threads=") => {}
            _ => words.push(quoted(&word)),
        }
    }
    words.join(" ")
}

/// Returns the word unchanged if a shell reads it literally, otherwise in single quotes.
fn quoted(word: &str) -> String {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"_@%+=:,./-".contains(&b);
    match !word.is_empty() && word.bytes().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_would_read_them_differently() {
        for (word, line) in [
            ("--seed=3", "--seed=3"),
            ("s3://b/a.parquet", "s3://b/a.parquet"),
            ("my items.csv", "'my items.csv'"),
            ("it's", r"'it'\''s'"),
            ("$HOME", "'$HOME'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(word), line);
        }
    }
}
