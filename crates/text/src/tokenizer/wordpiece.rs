//! WordPiece: greedy longest-match-first tokenization of a word (Devlin et al. 2019; Wu et al. 2016, section 4.1). Tokens
//! inside a word carry a prefix, `##`. A word that cannot be split into tokens, or has more than `max_chars` characters, is
//! one unknown token.

use super::Ids;

#[derive(Debug)]
pub(super) struct WordPiece {
    pub ids: Ids,
    pub unknown: u32,
    pub prefix: String,
    pub max_chars: usize,
}

impl WordPiece {
    pub fn push(&self, word: &str, ids: &mut Vec<u32>, unknown: &mut usize) {
        let start = ids.len();
        if !self.try_push(word, ids) {
            ids.truncate(start);
            ids.push(self.unknown);
            *unknown += 1;
        }
    }

    fn try_push(&self, word: &str, ids: &mut Vec<u32>) -> bool {
        if word.chars().nth(self.max_chars).is_some() {
            return false;
        }
        let (mut rest, mut before) = (word, "");
        while !rest.is_empty() {
            let text = format!("{before}{rest}");
            let ends = rest.char_indices().map(|(at, c)| at + c.len_utf8()).rev();
            let token = |end: usize| self.ids.get(&text[..before.len() + end]).map(|&id| (id, end));
            let Some((id, end)) = ends.into_iter().find_map(token) else { return false };
            ids.push(id);
            (rest, before) = (&rest[end..], &self.prefix);
        }
        true
    }
}
