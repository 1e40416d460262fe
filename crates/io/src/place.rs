//! Paths as settings: inputs and outputs.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use veridical_core::settings::{Access, Kind, Setting};

use crate::Source;

macro_rules! place {
    (@from $name:ident: $( $from:ty ),*) => {
        $( impl From<$from> for $name {
            fn from(path: $from) -> Self {
                Self(path.into())
            }
        } )*
    };
    ($( $(#[doc = $doc:expr])* $name:ident: $access:ident; )*) => {
        $(
            $(#[doc = $doc])*
            #[derive(Clone, Debug, Default, PartialEq, Eq)]
            pub struct $name(PathBuf);

            impl $name {
                /// Returns the source at this path: a file, an object store, or a stream for `-`.
                pub fn source(&self) -> Source {
                    Source::from_arg(&self.0)
                }
            }

            impl Setting for $name {
                const KIND: Kind = Kind::Path(Access::$access);
            }

            place!(@from $name: &str, String, &Path, PathBuf, &OsStr);

            impl Deref for $name {
                type Target = Path;

                fn deref(&self) -> &Path {
                    &self.0
                }
            }

            impl AsRef<Path> for $name {
                fn as_ref(&self) -> &Path {
                    &self.0
                }
            }

            impl fmt::Display for $name {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    self.0.display().fmt(f)
                }
            }

            impl Serialize for $name {
                fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                    match self.0.to_str() {
                        Some(text) => text.serialize(to),
                        None => self.0.as_os_str().serialize(to),
                    }
                }
            }

            impl<'de> Deserialize<'de> for $name {
                fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                    Ok(match Spelled::deserialize(from)? {
                        Spelled::Text(text) => Self(text.into()),
                        Spelled::Bytes(bytes) => Self(bytes.into()),
                    })
                }
            }
        )*
    };
}

place! {
    /// A file or folder to read.
    Input: Read;
    /// A file or folder to write.
    Output: Written;
}

/// Text, or bytes for names that are not UTF-8.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a path")]
enum Spelled {
    Text(String),
    Bytes(OsString),
}

/// Converts a path to the value of a setting.
pub fn path_value(path: &OsStr) -> Value {
    // INVARIANT: text and bytes serialize.
    serde_json::to_value(Input::from(path)).expect("a path serializes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_text() {
        let path = Input::from("a/b.csv");
        let value = serde_json::to_value(&path).unwrap();
        assert_eq!(value, "a/b.csv");
        assert_eq!(serde_json::from_value::<Input>(value).unwrap(), path);
        let refused = serde_json::from_value::<Output>(7.into()).unwrap_err();
        assert_eq!(refused.to_string(), "expected a path");
    }

    #[cfg(unix)]
    #[test]
    fn a_path_that_is_no_text_comes_back() {
        use std::os::unix::ffi::OsStrExt;

        let path = OsStr::from_bytes(b"caf\xe9.csv");
        let back: Input = serde_json::from_value(path_value(path)).unwrap();
        assert_eq!(back.as_os_str(), path);
    }
}
