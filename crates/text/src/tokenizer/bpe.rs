//! Byte pair encoding over bytes (Sennrich et al. 2016; Radford et al. 2019).
//!
//! Every byte of a word is a symbol. Among adjacent pairs that have a merge rule, those of the lowest rank are merged,
//! leftmost first, until no rule applies. A heap of the applicable rules makes that n log n for n bytes.
//!
//! In files a byte is written as a printable character: itself if it is printable, else U+0100 and the following
//! characters in the order of the bytes. A space is `Ġ`.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::Ids;

#[derive(Debug)]
pub(super) struct Bpe {
    /// Ids of the tokens as written in the file; only used to look up whole words.
    pub ids: Ids,
    /// Token of every byte.
    pub bytes: Vec<Option<u32>>,
    /// Merge rules (left, right) -> (rank, merged).
    pub merges: HashMap<(u32, u32), (u32, u32)>,
    /// Token for an unknown byte; without it, unknown bytes are dropped.
    pub unknown: Option<u32>,
    /// Whether adjacent unknown bytes become a single token.
    pub fuses_unknown: bool,
    /// Whether a word that is itself a token bypasses the merges.
    pub ignores_merges: bool,
}

/// A byte or a merged symbol; `NONE` terminates the list at both ends.
#[derive(Clone, Copy)]
struct Symbol {
    id: u32,
    before: usize,
    after: usize,
    is_gone: bool,
}

const NONE: usize = usize::MAX;

impl Bpe {
    pub fn push(&self, word: &str, ids: &mut Vec<u32>, unknown: &mut usize) {
        if self.ignores_merges {
            let shown: String = word.bytes().map(shown).collect();
            if let Some(&id) = self.ids.get(&shown) {
                return ids.push(id);
            }
        }
        let mut symbols: Vec<Symbol> = Vec::with_capacity(word.len());
        let mut after_unknown = false;
        for byte in word.bytes() {
            let known = self.bytes[usize::from(byte)];
            let is_fused = known.is_none() && after_unknown && self.fuses_unknown;
            after_unknown = known.is_none();
            *unknown += usize::from(known.is_none());
            let id = if is_fused { None } else { known.or(self.unknown) };
            if let Some(id) = id {
                let at = symbols.len();
                symbols.push(Symbol {
                    id,
                    before: at.wrapping_sub(1),
                    after: at + 1,
                    is_gone: false,
                });
            }
        }
        if let Some(last) = symbols.last_mut() {
            last.after = NONE;
        }
        self.join(&mut symbols);
        ids.extend(symbols.iter().filter(|symbol| !symbol.is_gone).map(|symbol| symbol.id));
    }

    fn join(&self, symbols: &mut [Symbol]) {
        let rule = |symbols: &[Symbol], at: usize| {
            let after = symbols[at].after;
            let pair = (after != NONE).then(|| (symbols[at].id, symbols[after].id))?;
            self.merges.get(&pair).map(|&(rank, joined)| Reverse((rank, at, joined)))
        };
        let mut rules: BinaryHeap<_> =
            (0..symbols.len()).filter_map(|at| rule(symbols, at)).collect();
        while let Some(Reverse((_, at, joined))) = rules.pop() {
            // A rule is stale if one of its two symbols has been merged since.
            let is_current = !symbols[at].is_gone
                && rule(symbols, at).is_some_and(|Reverse((_, _, now))| now == joined);
            if !is_current {
                continue;
            }
            let right = symbols[at].after;
            let after = symbols[right].after;
            symbols[right].is_gone = true;
            symbols[at].id = joined;
            symbols[at].after = after;
            if after != NONE {
                symbols[after].before = at;
            }
            rules.extend(rule(symbols, at));
            let before = symbols[at].before;
            if before != NONE {
                rules.extend(rule(symbols, before));
            }
        }
    }
}

/// The character that represents a byte in files.
pub(super) fn shown(byte: u8) -> char {
    let is_seen = |byte: u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    if is_seen(byte) {
        return char::from(byte);
    }
    let hidden = (0..byte).filter(|&earlier| !is_seen(earlier)).count() as u32;
    // INVARIANT: at most 256 bytes are not printable, and U+0100 to U+01FF are characters.
    char::from_u32(0x100 + hidden).unwrap_or(char::REPLACEMENT_CHARACTER)
}
