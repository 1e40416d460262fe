//! Byte pair encoding over bytes (Sennrich et al. 2016; Radford et al. 2019).
//!
//! Every byte of a word is a symbol. Of all neighbours that have a rule, those of the first rule are joined,
//! leftmost first, until no rule is left. A heap of the rules at hand makes that n log n for n bytes.
//!
//! In files a byte is written as a character that can be seen: itself where it can, else U+0100 and those after it in the
//! order of the bytes. A space is `Ġ`.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::Ids;

#[derive(Debug)]
pub(super) struct Bpe {
    /// Tokens as they stand in the file; asked only for whole words.
    pub ids: Ids,
    /// The token of every byte.
    pub bytes: Vec<Option<u32>>,
    /// (left, right) -> (rank, joined)
    pub merges: HashMap<(u32, u32), (u32, u32)>,
    /// What an unknown byte becomes; without it, nothing.
    pub unknown: Option<u32>,
    /// Unknown bytes side by side are one token.
    pub fuses_unknown: bool,
    /// A word that is a token itself is not built by merges.
    pub ignores_merges: bool,
}

/// A byte or what was joined; `NONE` ends the list at both sides.
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
            // A rule is out of date when one of its two symbols was joined to another since.
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

/// The character that a byte is written as.
pub(super) fn shown(byte: u8) -> char {
    let is_seen = |byte: u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    if is_seen(byte) {
        return char::from(byte);
    }
    let hidden = (0..byte).filter(|&earlier| !is_seen(earlier)).count() as u32;
    // INVARIANT: at most 256 bytes are hidden, and U+0100 to U+01FF are characters.
    char::from_u32(0x100 + hidden).unwrap_or(char::REPLACEMENT_CHARACTER)
}
