//! Text for pretrained networks: subword tokenizers and sentence encoders.
//!
//! - [`Tokenizer`]: text to token ids, identical to Hugging Face's `tokenizers`; WordPiece and byte-level BPE.
//! - [`Encoder`]: texts to vectors, as in sentence-transformers; BERT with mean or first-token pooling.
//!
//! Both are read through [`Files`](veridical_data::Files): a folder, or bytes in memory.
//!
//! ```
//! use veridical_data::MemoryFiles;
//! use veridical_text::Tokenizer;
//!
//! let files = MemoryFiles::default()
//!     .with("vocab.txt", "[UNK]\n[CLS]\n[SEP]\ngood\nfilm\n##s\n")
//!     .with("tokenizer_config.json", r#"{"do_lower_case": true}"#);
//! let tokenizer = Tokenizer::open(&files)?;
//!
//! let mut ids = Vec::new();
//! let encoded = tokenizer.encode("Good films!", 16, &mut ids);
//! assert_eq!(ids, [1, 3, 4, 5, 0, 2]); // [CLS] good film ##s [UNK] [SEP]
//! assert_eq!((encoded.tokens, encoded.unknown, encoded.is_cut), (6, 1, false));
//! # Ok::<(), veridical_core::Error>(())
//! ```

mod encoder;
mod place;
#[cfg(test)]
mod testing;
mod tokenizer;

pub use encoder::{Encoder, Passes, Texts};
pub use tokenizer::{Encoded, Tokenizer};

/// The example of the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct ReadmeExample;
