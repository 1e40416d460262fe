//! Text in other encodings, converted to UTF-8 while it is read.

use std::io::{self, Read};

use encoding_rs::{Decoder, DecoderResult, Encoding};
use veridical_core::Error as Core;

use crate::Result;

/// The encoding with this name: the labels of the WHATWG standard, and spellings such as `latin-1`.
pub(super) fn by_name(name: &str) -> Result<&'static Encoding> {
    let plain = name.replace(['-', '_'], "");
    let found =
        Encoding::for_label(name.as_bytes()).or_else(|| Encoding::for_label(plain.as_bytes()));
    found.ok_or_else(|| {
        let hint = "use for example utf-8, latin-1, utf-16 or shift_jis";
        Core::request(format!("⟨encoding⟩: `{name}` is not known"), hint).into()
    })
}

/// Converts a reader of bytes in some encoding to UTF-8. Invalid bytes are an error.
pub(super) struct Transcode<R> {
    inner: R,
    encoding: &'static Encoding,
    decoder: Decoder,
    /// Bytes read but not yet decoded.
    raw: Vec<u8>,
    /// Text decoded but not yet returned.
    text: Vec<u8>,
    handed_out: usize,
    at_end: bool,
}

const BLOCK: usize = 1 << 16;

impl<R: Read> Transcode<R> {
    pub fn new(inner: R, encoding: &'static Encoding) -> Self {
        let decoder = encoding.new_decoder();
        let (raw, text) = (Vec::new(), Vec::new());
        Self { inner, encoding, decoder, raw, text, handed_out: 0, at_end: false }
    }

    /// Decodes the next block.
    fn fill(&mut self) -> io::Result<()> {
        let before = self.raw.len();
        self.raw.resize(before + BLOCK, 0);
        let n = self.inner.read(&mut self.raw[before..])?;
        self.raw.truncate(before + n);
        self.at_end = n == 0;
        self.handed_out = 0;
        self.text.resize(4 * BLOCK, 0);
        let (result, read, written) =
            self.decoder.decode_to_utf8_without_replacement(&self.raw, &mut self.text, self.at_end);
        self.text.truncate(written);
        self.raw.drain(..read);
        if let DecoderResult::Malformed(..) = result {
            let what =
                format!("the text is not {}; choose another ⟨encoding⟩", self.encoding.name());
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        Ok(())
    }
}

impl<R: Read> Read for Transcode<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.handed_out == self.text.len() {
            if self.at_end && self.raw.is_empty() {
                return Ok(0);
            }
            self.fill()?;
        }
        let n = out.len().min(self.text.len() - self.handed_out);
        out[..n].copy_from_slice(&self.text[self.handed_out..][..n]);
        self.handed_out += n;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a few bytes at a time, so that characters are split.
    struct Drip<'a>(&'a [u8]);

    impl Read for Drip<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let n = self.0.len().min(3).min(out.len());
            out[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    fn transcoded(bytes: &[u8], name: &str) -> io::Result<String> {
        let mut text = String::new();
        Transcode::new(Drip(bytes), by_name(name).unwrap()).read_to_string(&mut text)?;
        Ok(text)
    }

    #[test]
    fn text_becomes_utf_8_whatever_the_blocks() {
        assert_eq!(transcoded(b"caf\xe9,1\n", "latin-1").unwrap(), "caf\u{e9},1\n");
        let utf16: Vec<u8> =
            "\u{feff}caf\u{e9} \u{1f600}".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(transcoded(&utf16, "utf-16").unwrap(), "caf\u{e9} \u{1f600}");
        let long = vec![0xe9; 3 * BLOCK];
        assert_eq!(transcoded(&long, "latin1").unwrap().chars().count(), 3 * BLOCK);
    }

    #[test]
    fn wrong_bytes_and_names_are_refused() {
        let message = transcoded(b"ab\xff", "utf-8").unwrap_err().to_string();
        assert_eq!(message, "the text is not UTF-8; choose another ⟨encoding⟩");
        assert!(by_name("latin-99").unwrap_err().to_string().contains("`latin-99` is not known"));
    }
}
