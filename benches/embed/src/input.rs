//! Training data of the benchmark.

use veridical_core::{Seed, Stream};
use veridical_data::{Corpus, IdMap, Interactions, Lists};
use veridical_embed::{Input, Method, Purpose};

use crate::Outcome;

/// Interactions with all of their rows, or text.
pub enum Data {
    Interactions(Interactions, Vec<u32>),
    Text(Corpus),
}

impl Data {
    /// Reads lists of numbers from a file, or generates uniform rows from a rule.
    pub fn read(what: &str, method: Method) -> Outcome<Self> {
        if let Some(rule) = what.strip_prefix("uniform:") {
            let numbers: Vec<u32> = rule.split(':').map(str::parse).collect::<Result<_, _>>()?;
            let [users, items, rows] = numbers[..] else {
                return Err(format!("{what}: expected uniform:USERS:ITEMS:ROWS").into());
            };
            return Ok(uniform(users, items, rows));
        }
        let text = std::fs::read_to_string(what).map_err(|e| format!("{what}: {e}"))?;
        let (mut list, mut value) = (Vec::new(), Vec::new());
        for (number, line) in text.lines().enumerate() {
            for word in line.split_ascii_whitespace() {
                let word: u32 =
                    word.parse().map_err(|e| format!("{what}:{}: `{word}`: {e}", number + 1))?;
                list.push(number as u32);
                value.push(word);
            }
        }
        let n_lists = text.lines().count();
        Ok(match method.purpose() {
            Purpose::Text => corpus(n_lists, &list, &value),
            _ => {
                let items = value.iter().max().map_or(0, |&most| most as usize + 1);
                interactions(n_lists, items, list, value)
            }
        })
    }

    /// Number of rows or tokens per pass, as the peers count them.
    pub fn len(&self) -> usize {
        match self {
            Self::Interactions(_, rows) => rows.len(),
            Self::Text(corpus) => corpus.tokens.values().len(),
        }
    }

    pub fn input(&self) -> Input<'_> {
        match self {
            Self::Interactions(data, rows) => Input::of(data, rows),
            Self::Text(corpus) => Input::Text(corpus),
        }
    }
}

fn interactions(users: usize, items: usize, user: Vec<u32>, item: Vec<u32>) -> Data {
    let rows = (0..user.len() as u32).collect();
    let (users, items) = (IdMap::numbered(users), IdMap::numbered(items));
    Data::Interactions(Interactions { users, items, user, item, rating: None, time: None }, rows)
}

/// Uniform items for uniform users.
fn uniform(users: u32, items: u32, rows: u32) -> Data {
    // INVARIANT: 0 is a valid seed.
    let stream = Stream::new(Seed::new(0).expect("a seed"), "bench/uniform");
    let below =
        |n: u32, row: u32, draw| (stream.at(0, u64::from(row)).uniform(draw) * f64::from(n)) as u32;
    let user = (0..rows).map(|row| below(users, row, 0)).collect();
    let item = (0..rows).map(|row| below(items, row, 1)).collect();
    interactions(users as usize, items as usize, user, item)
}

/// Words by descending count, then by their text, as in a corpus.
fn corpus(docs: usize, doc: &[u32], word: &[u32]) -> Data {
    let mut counts = vec![0u64; word.iter().max().map_or(0, |&most| most as usize + 1)];
    word.iter().for_each(|&w| counts[w as usize] += 1);
    let mut order: Vec<u32> =
        (0..counts.len() as u32).filter(|&w| counts[w as usize] > 0).collect();
    order.sort_by_key(|&w| (std::cmp::Reverse(counts[w as usize]), w.to_string()));
    let mut number = vec![0; counts.len()];
    order.iter().enumerate().for_each(|(n, &w)| number[w as usize] = n as u32);
    let pairs = doc.iter().zip(word).map(|(&d, &w)| (d, number[w as usize]));
    Data::Text(Corpus {
        docs: IdMap::numbered(docs).ids().clone(),
        words: order.iter().map(u32::to_string).collect(),
        counts: order.iter().map(|&w| counts[w as usize]).collect(),
        tokens: Lists::collect(docs, pairs),
    })
}
