//! The command as it was typed, for the foot of a report.

/// One line that a shell understands, with the plain name of the program and without the flags that never change what
/// comes out: a resumed job writes the bytes of an undisturbed one.
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

/// The word as it is if no shell would read it differently, else in single quotes.
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
