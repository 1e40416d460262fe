//! Ids that occur more than once.
//!
//! The ids of a table are remembered as 128 bits each: integers as they are, text by its BLAKE3 hash. Two of 10^9
//! different texts share one with a probability of 10^-21. The mean of the rows of an id needs two passes before the
//! first row is returned: one finds the ids that repeat, one adds up their rows in f64, in the order of the table. So
//! memory grows with the number of ids and with the rows that are merged, not with the table.

use std::collections::{HashMap, HashSet};

use veridical_core::Error as Core;
use veridical_data::Ids;

use super::{OnDuplicateId, ReadOptions, TableReader, keep_rows};
use crate::shared::text_key;
use crate::{Chunk, Result, Source};

/// Drops or merges rows whose id came before.
pub(super) struct Duplicates {
    seen: HashSet<u128>,
    /// The mean of every id that repeats.
    means: HashMap<u128, Vec<f32>>,
}

impl Duplicates {
    /// The policy of the options, if rows are to be dropped or merged.
    pub fn new(source: &Source, options: &ReadOptions) -> Result<Option<Self>> {
        let means = match options.on_duplicate_id {
            OnDuplicateId::Error => return Ok(None),
            OnDuplicateId::First => HashMap::new(),
            OnDuplicateId::Mean => means(source, options)?,
        };
        Ok(Some(Self { seen: HashSet::new(), means }))
    }

    /// The rows of ids that did not come before; returns the number of those that did, too.
    pub fn resolve(&mut self, chunk: Chunk, dim: usize) -> Result<(Chunk, u64)> {
        let keys: Vec<u128> = (0..chunk.n_rows()).map(|i| key(&chunk.ids, i)).collect();
        let is_new: Vec<bool> = keys.iter().map(|&key| self.seen.insert(key)).collect();
        let repeats = is_new.iter().filter(|is_new| !**is_new).count() as u64;
        let mut chunk = chunk;
        if keys.iter().any(|key| self.means.contains_key(key)) {
            let mut vectors = chunk.vectors.to_vec();
            for (row, key) in vectors.chunks_exact_mut(dim).zip(&keys) {
                if let Some(mean) = self.means.get(key) {
                    row.copy_from_slice(mean);
                }
            }
            chunk.vectors = vectors.into();
        }
        Ok((if repeats > 0 { keep_rows(&chunk, &is_new, dim)? } else { chunk }, repeats))
    }
}

/// The mean row of every id that repeats.
fn means(source: &Source, options: &ReadOptions) -> Result<HashMap<u128, Vec<f32>>> {
    if *source == Source::Stream {
        let what =
            "⟨on-duplicate-id⟩ mean reads the table three times, and a stream can be read once";
        return Err(Core::request(what, "use a file, or ⟨on-duplicate-id⟩ first").into());
    }
    let plain = ReadOptions { on_duplicate_id: OnDuplicateId::Error, ..options.clone() };
    let mut reader = TableReader::open(source, &plain)?;
    let (mut seen, mut repeated) = (HashSet::new(), HashSet::new());
    while let Some(chunk) = reader.next_chunk()? {
        let keys = (0..chunk.n_rows()).map(|i| key(&chunk.ids, i));
        repeated.extend(keys.filter(|&key| !seen.insert(key)));
    }
    drop(seen);
    if repeated.is_empty() {
        return Ok(HashMap::new());
    }
    let mut reader = TableReader::open(source, &plain)?;
    let dim = reader.schema().dim;
    let mut sums: HashMap<u128, (f64, Vec<f64>)> = HashMap::new();
    while let Some(chunk) = reader.next_chunk()? {
        for (i, row) in chunk.vectors.chunks_exact(dim).enumerate() {
            let key = key(&chunk.ids, i);
            if repeated.contains(&key) {
                let (n, sum) = sums.entry(key).or_insert_with(|| (0.0, vec![0.0; dim]));
                *n += 1.0;
                sum.iter_mut().zip(row).for_each(|(sum, &x)| *sum += f64::from(x));
            }
        }
    }
    let mean = |(n, sum): (f64, Vec<f64>)| sum.into_iter().map(|sum| (sum / n) as f32).collect();
    Ok(sums.into_iter().map(|(key, sum)| (key, mean(sum))).collect())
}

/// 128 bits that stand for an id.
fn key(ids: &Ids, i: usize) -> u128 {
    match ids {
        Ids::Int(ids) => u128::from(ids.value(i) as u64),
        Ids::Text(ids) => text_key(ids.value(i)),
    }
}

/// The positions of the first id that occurs twice.
pub(crate) fn first_repeated(ids: &Ids) -> Option<(usize, usize)> {
    let mut seen = HashSet::with_capacity(ids.len());
    let again = (0..ids.len()).find(|&i| !seen.insert(key(ids, i)))?;
    let before = (0..again).find(|&i| key(ids, i) == key(ids, again))?;
    Some((before, again))
}
