//! Sequences as text: one line per user, the user's id followed by the items in chronological order.

use std::io::BufReader;
use std::path::Path;

use veridical_data::{IdMap, Interactions};

use crate::read::{plain_text, read_line};
use crate::{Error, Result};

/// Reads lines of integers separated by spaces, `user item item ...`; the file may be compressed.
///
/// # Errors
/// [`Error::Content`] names the line that is not of this form; also for a file without items.
pub fn read_sequences(path: &Path) -> Result<Interactions> {
    let (mut users, mut items) = (Vec::new(), Vec::new());
    let mut input = BufReader::with_capacity(1 << 18, plain_text(path, None)?);
    let mut bytes = Vec::new();
    for number in 1.. {
        bytes.clear();
        if read_line(&mut input, &mut bytes, path, number)? == 0 {
            break;
        }
        let line = std::str::from_utf8(&bytes)
            .map_err(|_| Error::content(path, format!("line {number} is not text")))?;
        let mut ids = line.split_ascii_whitespace().map(|id| {
            id.parse::<i64>().map_err(|_| {
                let what = format!(
                    "line {number}: `{id}` is not an integer; a line is `user item item ...`"
                );
                Error::content(path, what)
            })
        });
        let Some(user) = ids.next().transpose()? else { continue };
        for item in ids {
            users.push(user);
            items.push(item?);
        }
    }
    if items.is_empty() {
        let what = "no line has a user and an item; a line is `user item item ...`";
        return Err(Error::content(path, what));
    }
    let (users, user) = IdMap::of_integers(&users);
    let (items, item) = IdMap::of_integers(&items);
    Ok(Interactions { users, items, user, item, rating: None, time: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Interactions> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sequences.txt");
        std::fs::write(&path, text).unwrap();
        read_sequences(&path)
    }

    #[test]
    fn a_line_is_a_user_with_items_in_order() {
        let data = read("7 30 10 30\n\n2 20\n").unwrap();
        assert_eq!((data.users.id(0), data.items.id(2)), ("2".into(), "30".into()));
        let rows: Vec<u32> = (0..4).collect();
        let sequences = data.sequences(&rows);
        assert_eq!((sequences.get(0), sequences.get(1)), (&[1][..], &[2, 0, 2][..]));
    }

    #[test]
    fn a_word_and_an_empty_file_are_refused_with_their_place() {
        let message = read("1 2\n3 four\n").unwrap_err().to_string();
        assert!(message.contains("line 2: `four` is not an integer"), "{message}");
        assert!(read("5\n").unwrap_err().to_string().contains("no line has"), "users alone");
    }
}
